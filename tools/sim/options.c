/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c: see options.h. */
#include "tools/sim/options.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "rcoll_sim (rmalloc)";

enum option_key {
    OPTION_CYCLIC = 256,
    OPTION_FETCH,
    OPTION_IN_PLACE,
    OPTION_ORDER,
    OPTION_NOISE,
    OPTION_SKEW,
    OPTION_KILL,
    OPTION_SEED,
    OPTION_REPEAT,
    OPTION_DEPTH,
    OPTION_MULTICAST,
    OPTION_LOSS,
    OPTION_LENGTHS,
    OPTION_EXPLAIN,
    OPTION_COMPARE,
    OPTION_SCALE,
    OPTION_DUMP,
    OPTION_GOAL,
    OPTION_JSON
};

static const struct argp_option option_list[] = {
    {"members", 'n', "N", 0, "Members of the team (8)", 1},
    {"per-host", 'p', "N", 0, "Members on each host (all)", 1},
    {"cores", 'c', "N", 0, "Cores of each host (as many as members)", 1},
    {"cyclic", OPTION_CYCLIC, NULL, 0, "Members are on hosts in turn, not in rows", 1},
    {"fetch", OPTION_FETCH, NULL, 0,
     "Members of a host can read the memory of each other's processes", 1},
    {"bytes", 'b', "N", 0, "Bytes of a contribution, or of a block (8); with K, M, G", 2},
    {"lengths", OPTION_LENGTHS, "LEAST:MOST", 0,
     "Bytes of each block, drawn by the seed: reduce_scatter, gather, allgather, scatter, alltoall",
     2},
    {"root", 'r', "MEMBER", 0, "The root (0)", 2},
    {"order", OPTION_ORDER, "any|member|fixed", 0, "In which order contributions are folded (any)",
     2},
    {"in-place", OPTION_IN_PLACE, NULL, 0, "The contribution is where the result goes", 2},
    {"algorithm", 'a', "NAME[:N]", 0, "The algorithm, not the one with the lowest cost", 2},
    {"model", 'm', "TEXT", 0,
     "Parameters, as L=140 m=13 sigma=1200 Bc=30 Bf=20 f=600 Bx=20 step=8 o=250 Ln=1300 g=100 "
     "G=0.08 S=65536 Lm=0 loss=0 E=0 Og=0 os=0 Os=0 Ll=0 Gl=0 gl=0 or=0 Or=0 Bcs=30 Bfs=20 "
     "Bo=30 Bs=30 Bw=30 Bfo=20 Bxo=20 C=1048576 op=50: ns, bytes per ns, bytes (also RCOLL_MODEL)",
     3},
    {"noise", OPTION_NOISE, "PERIOD:LENGTH", 0, "Each core is lost for LENGTH us in each PERIOD us",
     3},
    {"skew", OPTION_SKEW, "US", 0, "Members begin at a random time up to this", 3},
    {"kill", OPTION_KILL, "MEMBER@US", 0, "The member does nothing from this time on", 3},
    {"repeat", OPTION_REPEAT, "N", 0, "Operations in a loop (1); times are of one of them", 3},
    {"depth", OPTION_DEPTH, "N", 0,
     "Of these, how many are in flight on a host (64); 0: any number", 3},
    {"multicast", OPTION_MULTICAST, "US", 0,
     "A message of the root to all other hosts is one multicast of this latency", 3},
    {"loss", OPTION_LOSS, "PERCENT", 0, "Packets of multicast that a receiver loses (0)", 3},
    {"seed", OPTION_SEED, "N", 0, "Of all that is random (1)", 3},
    {"explain", OPTION_EXPLAIN, NULL, 0, "Prints what was chosen, and the cost of each candidate",
     4},
    {"compare", OPTION_COMPARE, NULL, 0, "Simulates every candidate, next to its cost", 4},
    {"scale", OPTION_SCALE, NULL, 0, "Simulates 2, 4, 8 ... up to N members", 4},
    {"dump", OPTION_DUMP, "text|json|dot", 0,
     "Prints the graphs of all members, and simulates nothing", 4},
    {"goal", OPTION_GOAL, NULL, 0, "Prints them as GOAL, for LogGOPSim", 4},
    {"json", OPTION_JSON, NULL, 0, "Prints the result as JSON", 4},
    {0}};

/* ---- numbers ---- */

static uint64_t option_number(struct argp_state *state, const char *text, uint64_t least,
                              uint64_t most)
{
    static const char units[] = "KMG";
    char *end = NULL;
    const char *unit;
    uint64_t number;

    errno = 0;
    number = strtoull(text, &end, 10);
    unit = *end == '\0' ? NULL : strchr(units, *end);
    for (int i = 0; unit != NULL && i <= unit - units; i++)
        number = number > UINT64_MAX / 1024 ? UINT64_MAX : number * 1024;
    if (unit != NULL)
        end++;
    if (errno != 0 || end == text || *text == '-' || *end != '\0' || number < least ||
        number > most)
        argp_error(state, "\"%s\" is not a number from %llu to %llu", text,
                   (unsigned long long)least, (unsigned long long)most);
    return number;
}

#define OPTION_US_MOST 1000000
#define OPTION_LENGTH_MOST (UINT64_C(1) << 32)

/* Picoseconds. */
static uint64_t option_us(struct argp_state *state, const char *text)
{
    char *end = NULL;
    double us = strtod(text, &end);

    if (end == text || *end != '\0' || !(us >= 0 && us <= OPTION_US_MOST))
        argp_error(state, "\"%s\" is not a number of microseconds, up to a second", text);
    return (uint64_t)(us * 1e6);
}

static void option_noise(struct argp_state *state, struct sim_options *sim, char *text)
{
    char *colon = strchr(text, ':');

    if (colon == NULL)
        argp_error(state, "--noise=%s: PERIOD:LENGTH, in us", text);
    *colon = '\0';
    sim->noise_period = option_us(state, text);
    sim->noise_length = option_us(state, colon + 1);
    if (sim->noise_length >= sim->noise_period / 2)
        argp_error(state, "noise of more than half of the time");
}

static void option_kill(struct argp_state *state, struct sim_options *sim, char *text)
{
    char *at = strchr(text, '@');

    if (at == NULL || sim->kills == SIM_KILLS)
        argp_error(state, "--kill=%s: MEMBER@US, at most %d", text, SIM_KILLS);
    *at = '\0';
    sim->kill[sim->kills++] =
        (struct sim_kill){.member = (int)option_number(state, text, 0, INT32_MAX / 4),
                          .time = option_us(state, at + 1)};
}

static void option_lengths(struct argp_state *state, struct options *o, char *text)
{
    char *colon = strchr(text, ':');

    if (colon == NULL)
        argp_error(state, "--lengths=%s: LEAST:MOST, in bytes", text);
    *colon = '\0';
    o->least = (size_t)option_number(state, text, 0, OPTION_LENGTH_MOST);
    o->bytes = (size_t)option_number(state, colon + 1, o->least, OPTION_LENGTH_MOST);
    o->lengths = true;
}

/* ---- names ---- */

static int option_name(struct argp_state *state, const char *text, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    argp_error(state, "\"%s\" is none of the names that are possible there", text);
    return 0;
}

static void option_kind(struct argp_state *state, struct options *o, const char *text)
{
    for (int k = 0; k < COLL_KINDS; k++)
        if (strcmp(text, coll_kind_name((enum coll_kind)k)) == 0) {
            o->kind = (enum coll_kind)k;
            return;
        }
    argp_error(state,
               "\"%s\" is no collective: barrier, bcast, reduce, allreduce, reduce_scatter, "
               "scan, exscan, gather, allgather, scatter or alltoall",
               text);
}

static void option_model(struct argp_state *state, struct sim_options *sim, const char *text)
{
    struct error err = {""};

    if (coll_model_parse(&sim->model, text, &err) != 0)
        argp_error(state, "%s", err.text);
}

static void option_set_print(struct argp_state *state, struct options *o, int key, char *text)
{
    switch (key) {
    case OPTION_EXPLAIN:
        o->explain = true;
        break;
    case OPTION_COMPARE:
        o->compare = true;
        break;
    case OPTION_SCALE:
        o->scale = true;
        break;
    case OPTION_JSON:
        o->json = true;
        break;
    case OPTION_GOAL:
        o->dumps = true;
        o->format = GRAPH_GOAL;
        break;
    default:
        o->dumps = true;
        if (!graph_format_of(text, &o->format))
            argp_error(state, "--dump=%s: text, json, dot or goal", text);
        break;
    }
}

#define OPTION_REPEATS_MOST 1000
#define OPTION_DEPTH_HERE 64 /* of a team, unless its configuration has another one */

static void option_set_sim(struct argp_state *state, struct options *o, int key, char *text)
{
    switch (key) {
    case 'm':
        option_model(state, &o->sim, text);
        break;
    case OPTION_NOISE:
        option_noise(state, &o->sim, text);
        break;
    case OPTION_SKEW:
        o->sim.skew = option_us(state, text);
        break;
    case OPTION_KILL:
        option_kill(state, &o->sim, text);
        break;
    case OPTION_REPEAT:
        o->sim.repeat = (int)option_number(state, text, 1, OPTION_REPEATS_MOST);
        break;
    case OPTION_DEPTH:
        o->sim.depth = (int)option_number(state, text, 0, OPTION_REPEATS_MOST);
        break;
    case OPTION_MULTICAST:
        o->sim.multicast = option_us(state, text);
        break;
    case OPTION_LOSS:
        o->sim.loss = (uint32_t)(option_us(state, text) / 100);
        if (o->sim.loss > SIM_LOSS_MOST)
            argp_error(state, "--loss=%s: at most 50", text);
        break;
    default:
        o->sim.seed = option_number(state, text, 0, UINT64_MAX);
        break;
    }
}

#define OPTION_BYTES_MOST (UINT64_C(1) << 40)
#define OPTION_MEMBERS_MOST (1 << 20)

static error_t option_parse(int key, char *text, struct argp_state *state)
{
    static const char *const orders[] = {"any", "member", "fixed"};
    struct options *o = state->input;

    switch (key) {
    case 'n':
        o->members = (int)option_number(state, text, 1, OPTION_MEMBERS_MOST);
        break;
    case 'p':
        o->per_host = (int)option_number(state, text, 1, OPTION_MEMBERS_MOST);
        break;
    case 'c':
        o->cores = (int)option_number(state, text, 1, OPTION_MEMBERS_MOST);
        break;
    case OPTION_FETCH:
        o->fetches = true;
        break;
    case OPTION_CYCLIC:
        o->cyclic = true;
        break;
    case 'b':
        o->bytes = (size_t)option_number(state, text, 0, OPTION_BYTES_MOST);
        break;
    case OPTION_LENGTHS:
        option_lengths(state, o, text);
        break;
    case 'r':
        o->root = (int)option_number(state, text, 0, OPTION_MEMBERS_MOST);
        break;
    case OPTION_ORDER:
        o->order = (enum coll_order)option_name(state, text, orders, 3);
        break;
    case OPTION_IN_PLACE:
        o->in_place = true;
        break;
    case 'a':
        o->algorithm = text;
        break;
    case 'm':
    case OPTION_NOISE:
    case OPTION_SKEW:
    case OPTION_KILL:
    case OPTION_SEED:
    case OPTION_REPEAT:
    case OPTION_DEPTH:
    case OPTION_MULTICAST:
    case OPTION_LOSS:
        option_set_sim(state, o, key, text);
        break;
    case OPTION_EXPLAIN:
    case OPTION_COMPARE:
    case OPTION_SCALE:
    case OPTION_JSON:
    case OPTION_GOAL:
    case OPTION_DUMP:
        option_set_print(state, o, key, text);
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_usage(state);
        option_kind(state, o, text);
        break;
    case ARGP_KEY_END:
        if (state->arg_num == 0)
            argp_usage(state);
        if (o->root >= o->members)
            argp_error(state, "member %d cannot be the root of %d members", o->root, o->members);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void options_parse(struct options *o, int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_list,
        .parser = option_parse,
        .args_doc = "COLLECTIVE",
        .doc = "Simulates a collective operation: the plans of all members in virtual time, by the "
               "costs of LogGPS, and checks what each member gets.\v"
               "Example: rcoll_sim -n 16384 -p 16 allreduce"};
    const char *model = getenv("RCOLL_MODEL");
    struct error err = {""};

    *o = (struct options){.members = 8, .bytes = 8};
    o->sim.model = coll_model_default();
    o->sim.seed = 1;
    o->sim.depth = OPTION_DEPTH_HERE;
    if (model != NULL && coll_model_parse(&o->sim.model, model, &err) != 0) {
        fprintf(stderr, "rcoll_sim: RCOLL_MODEL: %s\n", err.text);
        exit(EXIT_FAILURE);
    }
    argp_parse(&argp, argc, argv, 0, NULL, o);
    if (o->kind == COLL_BARRIER)
        o->bytes = 0;
    o->lengths &= o->kind == COLL_REDUCE_SCATTER || o->kind >= COLL_GATHER;
    if (o->per_host == 0 || o->per_host > o->members)
        o->per_host = o->members;
    if (o->cores == 0)
        o->cores = o->per_host;
}
