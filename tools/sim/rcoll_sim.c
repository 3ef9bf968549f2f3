/* SPDX-License-Identifier: BSD-3-Clause */
/* rcoll_sim.c: the program: one simulation, or several, or the graphs of one. See sim.h. */
#include "tools/sim/options.h"

#include "coll/cost.h"
#include "tools/sim/data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define PS_PER_US 1e6
#define ELEMENT_BYTES 8

struct team {
    const struct options *o;
    struct shape shape;
    struct coll_request request;
    struct coll_choice choice;
    size_t *counts, *counts_in; /* of blocks; of an alltoall a row for each member */
    struct sim_options sim;
};

static void sim_die(const char *text)
{
    fprintf(stderr, "rcoll_sim: %s\n", text);
    exit(EXIT_FAILURE);
}

/* ---- the team ---- */

static void team_open_shape(struct team *t, int members)
{
    const struct options *o = t->o;
    int *host = malloc((size_t)members * sizeof(*host)), hosts;

    if (host == NULL)
        sim_die("no memory");
    hosts = (members + o->per_host - 1) / o->per_host;
    for (int i = 0; i < members; i++)
        host[i] = o->cyclic ? i % hosts : i / o->per_host;
    if (shape_init(&t->shape, members, host, o->cores) != 0)
        sim_die("no memory");
    t->shape.fetches = o->fetches;
    free(host);
}

/* The request of a member, where blocks have lengths of their own. */
static struct coll_request team_request_of(const void *argument, int member)
{
    const struct team *t = argument;
    struct coll_request r = t->request;
    size_t row = r.kind == COLL_ALLTOALL ? (size_t)member * (size_t)t->shape.size : 0;

    r.counts = t->counts + row;
    if (r.kind == COLL_ALLTOALL && !r.in_place)
        r.counts_in = t->counts_in + row;
    return r;
}

/* Lengths are drawn: of an alltoall one for each pair, in place the same in both directions. */
static void team_draw_lengths(struct team *t, size_t element)
{
    size_t n = (size_t)t->shape.size, rows = t->o->kind == COLL_ALLTOALL ? n : 1;
    size_t least = t->o->least / element, span = t->o->bytes / element - least + 1;

    t->counts = calloc(rows * n, sizeof(*t->counts));
    t->counts_in = calloc(rows * n, sizeof(*t->counts_in));
    if (t->counts == NULL || t->counts_in == NULL)
        sim_die("no memory");
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) {
            bool turned = t->o->in_place && rows > 1 && j < i;
            size_t at = turned ? j * n + i : i * n + j;

            t->counts[i * n + j] = least + data_value((int)(at + t->o->sim.seed)) % span;
        }
    for (size_t i = 0; i < rows && rows > 1; i++)
        for (size_t j = 0; j < n; j++)
            t->counts_in[i * n + j] = t->counts[j * n + i];
    t->sim.request_of = team_request_of;
    t->sim.argument = t;
    t->request.counts =
        t->counts; /* of member 0, where they differ: the choice does not depend on them */
    t->request.counts_in = rows > 1 && !t->o->in_place ? t->counts_in : NULL;
}

/* Elements of 8 bytes, or of one byte where these do not divide the bytes. */
static void team_open(struct team *t, const struct options *o, int members)
{
    size_t element = o->bytes % ELEMENT_BYTES == 0 ? ELEMENT_BYTES : 1;
    struct error err = {""};
    struct coll_rules rules = {0};
    size_t length;

    *t = (struct team){.o = o, .sim = o->sim};
    team_open_shape(t, members);
    t->request = (struct coll_request){.kind = o->kind,
                                       .order = o->order,
                                       .root = o->root < members ? o->root : 0,
                                       .in_place = o->in_place,
                                       .element = element,
                                       .count = o->bytes / element};
    if (o->lengths)
        team_draw_lengths(t, element);
    if (o->algorithm != NULL) {
        for (length = 0; o->algorithm[length] != '\0';)
            length++;
        if (coll_rule_parse_algorithm(&rules.rule[0], o->kind, o->algorithm, length, &err) != 0)
            sim_die(err.text);
        rules.count = 1;
    }
    if (coll_choose(&t->shape, &t->request, &o->sim.model, &rules, &t->choice, &err) != 0 ||
        (rules.count > 0 && err.text[0] != '\0'))
        sim_die(err.text);
}

static void team_close(struct team *t)
{
    shape_free(&t->shape);
    free(t->counts);
    free(t->counts_in);
}

static double team_cost_us(const struct team *t)
{
    return (double)coll_cost(&t->shape, &t->request, &t->choice, &t->o->sim.model) / PS_PER_US;
}

/* The result of all operations, and the time of one of them, in us. */
static double team_simulate(const struct team *t, struct sim_result *result)
{
    int repeat = t->o->sim.repeat > 1 ? t->o->sim.repeat : 1;
    struct error err = {""};

    if (sim_request(&t->shape, &t->request, &t->choice, &t->sim, result, &err) != 0)
        sim_die(err.text);
    return (double)result->time / PS_PER_US / repeat;
}

/* ---- results ---- */

static void print_head(const struct team *t)
{
    const struct options *o = t->o;
    char name[40], model[600];

    coll_choice_print(name, sizeof(name), &t->shape, &t->request, &t->choice);
    coll_model_print(model, sizeof(model), &o->sim.model);
    printf("%s of %zu bytes, %d members on %d hosts of %d cores%s: %s\n", coll_kind_name(o->kind),
           o->bytes, t->shape.size, t->shape.hosts, t->shape.cores, o->cyclic ? ", in turn" : "",
           name);
    printf("  model          %s\n", model);
}

static void print_parts(const struct sim_result *r)
{
    const char *separator = "";

    printf("  critical path  ");
    for (int p = 0; p < SIM_PARTS; p++)
        if (r->part[p] > 0) {
            printf("%s%s %.3f", separator, sim_part_name((enum sim_part)p),
                   (double)r->part[p] / PS_PER_US);
            separator = ", ";
        }
    printf("%s\n", *separator == '\0' ? "nothing" : " us");
}

static void print_result(const struct team *t, const struct sim_result *r, double us)
{
    print_head(t);
    printf("  time           %.3f us, simulated; %.3f by its cost\n", us, team_cost_us(t));
    if (t->o->sim.repeat > 1)
        printf("  loop           %d operations; what follows is of all of them\n",
               t->o->sim.repeat);
    printf("  members end    from %.3f to %.3f us\n", (double)r->first / PS_PER_US,
           (double)r->time / PS_PER_US);
    print_parts(r);
    printf("  on hosts       %" PRIu64 " messages, %" PRIu64 " bytes\n", r->messages[0],
           r->bytes[0]);
    printf("  between hosts  %" PRIu64 " messages, %" PRIu64
           " bytes; the busiest host sends %" PRIu64 ", %" PRIu64 " bytes\n",
           r->messages[1], r->bytes[1], r->interface_messages, r->interface_bytes);
    printf("  of a member    at most %" PRIu32 " operations, %" PRIu32 " slots, %" PRIu64
           " bytes of scratch; %" PRIu64 " operations in all\n",
           r->operations_most, r->slots_most, r->scratch, r->operations);
    if (t->o->sim.kills > 0)
        printf("  deaths         %d: %d of %d members end, and have the right result\n",
               t->o->sim.kills, r->ended, t->shape.size);
    else
        printf("  data           right at all members\n");
}

static void print_json(const struct team *t, const struct sim_result *r, double us)
{
    char name[40];

    coll_choice_print(name, sizeof(name), &t->shape, &t->request, &t->choice);
    printf("{\"collective\": \"%s\", \"algorithm\": \"%s\", \"bytes\": %zu, \"members\": %d, "
           "\"hosts\": %d, \"cores\": %d, \"simulated_us\": %.6f, \"cost_us\": %.6f, \"first_us\": "
           "%.6f, \"path_us\": {",
           coll_kind_name(t->o->kind), name, t->o->bytes, t->shape.size, t->shape.hosts,
           t->shape.cores, us, team_cost_us(t), (double)r->first / PS_PER_US);
    for (int p = 0; p < SIM_PARTS; p++)
        printf("%s\"%s\": %.6f", p > 0 ? ", " : "", sim_part_name((enum sim_part)p),
               (double)r->part[p] / PS_PER_US);
    printf("}, \"messages\": [%" PRIu64 ", %" PRIu64 "], \"message_bytes\": [%" PRIu64 ", %" PRIu64
           "], \"operations\": %" PRIu64 ", \"scratch\": %" PRIu64 ", \"ended\": %d}\n",
           r->messages[0], r->messages[1], r->bytes[0], r->bytes[1], r->operations, r->scratch,
           r->ended);
}

/* ---- several ---- */

static void sim_compare(struct team *t)
{
    struct coll_candidate list[COLL_CANDIDATES];
    int n = coll_candidates(&t->shape, &t->request, &t->o->sim.model, list);

    print_head(t);
    printf("  %-20s %14s %14s\n", "algorithm", "simulated us", "by its cost");
    for (int i = 0; i < n; i++) {
        struct sim_result result;
        char name[40];
        double us;

        t->choice = list[i].choice;
        coll_choice_print(name, sizeof(name), &t->shape, &t->request, &t->choice);
        if (list[i].needs != NULL || list[i].large)
            continue;
        us = team_simulate(t, &result);
        printf("  %-20s %14.3f %14.3f\n", name, us, (double)list[i].time / PS_PER_US);
    }
}

/* A table for plots: members, time, cost, algorithm. */
static void sim_scale(const struct options *o)
{
    printf("# %s of %zu bytes, simulated\n# members hosts simulated_us cost_us algorithm\n",
           coll_kind_name(o->kind), o->bytes);
    for (int n = 2; n <= o->members; n *= 2) {
        struct sim_result result;
        struct team t;
        char name[40];
        double us;

        team_open(&t, o, n);
        us = team_simulate(&t, &result);
        coll_choice_print(name, sizeof(name), &t.shape, &t.request, &t.choice);
        printf("%d %d %.3f %.3f %s\n", n, t.shape.hosts, us, team_cost_us(&t), name);
        fflush(stdout);
        team_close(&t);
    }
}

static void team_build(const struct team *t, int member, struct graph *g)
{
    struct coll_request r = t->o->lengths ? team_request_of(t, member) : t->request;
    struct error err = {""};

    if (coll_build(g, &t->shape, member, &r, &t->choice, &err) != 0)
        sim_die(err.text);
}

static void sim_dump(const struct team *t)
{
    struct graph *graph = calloc((size_t)t->shape.size, sizeof(*graph));

    if (graph == NULL)
        sim_die("no memory");
    for (int i = 0; i < t->shape.size; i++)
        team_build(t, i, &graph[i]);
    if (graph_dump(stdout, t->o->format, graph, t->shape.size) != 0)
        sim_die("the graphs cannot be written");
    for (int i = 0; i < t->shape.size; i++)
        graph_free(&graph[i]);
    free(graph);
}

int main(int argc, char **argv)
{
    struct options o;
    struct sim_result result;
    struct team t;
    double us;

    options_parse(&o, argc, argv);
    if (o.scale) {
        sim_scale(&o);
        return 0;
    }
    team_open(&t, &o, o.members);
    if (o.dumps) {
        sim_dump(&t);
    } else if (o.explain) {
        coll_explain(stdout, &t.shape, &t.request, &o.sim.model, NULL);
    } else if (o.compare) {
        sim_compare(&t);
    } else {
        us = team_simulate(&t, &result);
        (o.json ? print_json : print_result)(&t, &result, us);
    }
    team_close(&t);
    return 0;
}
