/* SPDX-License-Identifier: BSD-3-Clause */
/* perf_options.c: the command line of rmalloc_perf, see perf.h. */
#include "perf.h"
#include <rinfo.h>

#include <rinfo.h>
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_SLOTS = 256,
    KEY_BOUND,
    KEY_INLINE,
    KEY_TOUCH,
    KEY_NO_TOUCH,
    KEY_WORD,
    KEY_COPY,
    KEY_HEAP,
    KEY_FORMAT,
    KEY_PLOT,
    KEY_SECONDS,
    KEY_BATCH,
    KEY_CPUS,
    KEY_SYNC,
    KEY_ALGORITHM,
    KEY_BTL,
    KEY_QUEUE
};

static const struct argp_option option_table[] = {
    {"test", 't', "NAME", 0,
     "latency, bandwidth, rate, memory (fill and read in one process, without a pipe), all (all), "
     "or "
     "model: the parameters of the cost model of collectives, for RCOLL_MODEL; or parts: the "
     "components of a message, for rmalloc_model",
     0},
    {"op", 'o', "put|get|both", 0, "Which end moves the payload: the writer or the reader (put)",
     0},
    {"direction", 'd', "uni|bi|both", 0,
     "One way; or both ways at once: an exchange for latency, two streams for bandwidth and rate "
     "(uni)",
     0},
    {"size", 's', "LIST", 0,
     "Bytes of a message: SIZE or MIN:MAX (powers of two), separated by commas; k and M are 1024 "
     "and 1024k (1,8,64,256,1k,4k,16k,64k,256k,1M,4M)",
     0},
    {"iterations", 'n', "N", 0, "Messages of a round; 0: as many as fill --seconds (0)", 0},
    {"warmup", 'w', "N", 0, "Messages before the first round; 0: 1000, fewer of large ones (0)", 0},
    {"rounds", 'r', "N", 0, "Rounds; the report has their median and the best (5)", 0},
    {"seconds", KEY_SECONDS, "S", 0, "Length of a round (0.05)", 0},
    {"batch", KEY_BATCH, "N", 0,
     "Round trips between two readings of the clock; 0: so many that reading takes at most 2 % "
     "of the time (0)",
     0},
    {"slots", KEY_SLOTS, "N", 0, "Slots of the ring, a power of two; 0: the library's default (0)",
     0},
    {"bound", KEY_BOUND, "N", 0,
     "A heap of N messages, which also small ones then go through, and a ring of as many slots "
     "unless --slots is given; 0: ample (0)",
     0},
    {"inline", KEY_INLINE, "BYTES", 0,
     "Largest message that rides in its slot, 0 to 40 (40; 0 with --bound)", 0},
    {"sync", KEY_SYNC, "blocks|tags|channel", 0,
     "How freed memory comes back to the writer (blocks; tags with --algorithm)", 0},
    {"algorithm", KEY_ALGORITHM, "next|first|best|worst|random|segregated", 0,
     "Which free block of the heap a message gets (next); others go with tags and channel", 0},
    {"queue", KEY_QUEUE, "N", 0,
     "With tags and channel: messages that may be in flight or held by the reader; 0: the "
     "library's default (0)",
     0},
    {"btl", KEY_BTL, "shm|ofi|tcp|verbs", 0,
     "Backend, as by RPIPE_BTL; over a network each line is followed by what it asked of the "
     "network for a message",
     0},
    {"touch", KEY_TOUCH, NULL, 0,
     "The writer fills every byte, the reader sums every byte (the default)", 0},
    {"no-touch", KEY_NO_TOUCH, NULL, 0,
     "The payload is handed over, but not touched by either side", 0},
    {"touch-word", KEY_WORD, NULL, 0, "The writer stores the first word, the reader loads it", 0},
    {"copy", KEY_COPY, NULL, 0,
     "Messages by rsend and rrecv, from and into memory of the program, instead of rmalloc, "
     "rwrite, rread and rfree",
     0},
    {"heap", KEY_HEAP, "BYTES", 0, "Bytes of the heap of a pipe; 0: an ample one (0)", 0},
    {"format", KEY_FORMAT, "table|csv|json", 0, "What is printed (table)", 0},
    {"plot", KEY_PLOT, "FILE.png", 0, "Also draw the results, with gnuplot", 0},
    {"cpus", KEY_CPUS, "A,B", 0, "Bind rank 0 to processor A, rank 1 to B", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static long number(const char *text, long least, long most, const char *what,
                   struct argp_state *state)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
        argp_error(state, "%s is \"%s\"; it must be a number from %ld to %ld", what, text, least,
                   most);
    return value;
}

/* One size, up to 1 GiB; *end is left behind it. */
static size_t parse_size(const char *text, char **end, struct argp_state *state)
{
    unsigned long long value;

    errno = 0;
    value = strtoull(text, end, 10);
    if (errno != 0 || *end == text || *text == '-' || value > 1u << 30)
        argp_error(state,
                   "\"%s\" is no size; it must be a number of bytes up to 1024M, as 8, 64k or 4M",
                   text);
    if (**end == 'k' || **end == 'K') {
        value <<= 10;
        (*end)++;
    } else if (**end == 'M') {
        value <<= 20;
        (*end)++;
    }
    if (value == 0 || value > 1u << 30)
        argp_error(state, "\"%s\" is no size; it must be from 1 byte to 1024M", text);
    return (size_t)value;
}

static size_t parse_heap(const char *text, struct argp_state *state)
{
    char *end;
    size_t size;

    if (strcmp(text, "0") == 0)
        return 0;
    size = parse_size(text, &end, state);
    if (*end != '\0')
        argp_error(state, "--heap is \"%s\"; it must be one size", text);
    return size;
}

static void add_size(struct perf_options *o, size_t size, struct argp_state *state)
{
    if (o->sizes == PERF_SIZES_MAX)
        argp_error(state, "--size has more than %d sizes; measure them in several runs",
                   PERF_SIZES_MAX);
    o->size[o->sizes++] = size;
}

static void parse_sizes(struct perf_options *o, const char *text, struct argp_state *state)
{
    o->sizes = 0;
    for (;;) {
        char *end;
        size_t least = parse_size(text, &end, state), most = least;

        if (*end == ':')
            most = parse_size(end + 1, &end, state);
        if ((*end != ',' && *end != '\0') || most < least)
            argp_error(state, "--size: \"%s\" must be SIZE or MIN:MAX, separated by commas", text);
        for (size_t size = least; size <= most; size *= 2)
            add_size(o, size, state);
        if (*end == '\0')
            return;
        text = end + 1;
    }
}

/* Index of `word` in `words`, which NULL ends. */
static int choice(const char *word, const char *const *words, const char *what,
                  struct argp_state *state)
{
    char valid[128] = "";
    size_t used = 0;

    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    for (int i = 0; words[i] != NULL && used < sizeof(valid); i++)
        used += (size_t)snprintf(valid + used, sizeof(valid) - used, "%s%s", i > 0 ? ", " : "",
                                 words[i]);
    argp_error(state, "%s is \"%s\"; it must be one of %s", what, word, valid);
    return 0;
}

static void parse_test(struct perf_options *o, const char *arg, struct argp_state *state)
{
    static const char *const words[] = {"latency", "bandwidth", "rate",  "memory",
                                        "all",     "model",     "parts", NULL};
    static const bool tests[][PERF_TESTS] = {
        {true, false, false}, {false, true, false},  {false, true, false}, {false, false, true},
        {true, true, false},  {false, false, false}, {false, false, false}};
    int test = choice(arg, words, "--test", state);

    o->model = strcmp(words[test], "model") == 0;
    o->parts = strcmp(words[test], "parts") == 0;
    memcpy(o->test, tests[test], sizeof(o->test));
}

static void parse_cpus(struct perf_options *o, const char *arg, struct argp_state *state)
{
    char *end;

    errno = 0;
    o->cpu[0] = (int)strtol(arg, &end, 10);
    if (end != arg && *end == ',') {
        const char *second = end + 1;

        o->cpu[1] = (int)strtol(second, &end, 10);
        if (end != second && *end == '\0' && o->cpu[0] >= 0 && o->cpu[1] >= 0)
            return;
    }
    argp_error(state, "--cpus is \"%s\"; it must be two numbers of processors, as 0,1", arg);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    static const char *const ops[] = {"put", "get", "both", NULL};
    static const char *const directions[] = {"uni", "bi", "both", NULL};
    static const char *const formats[] = {"table", "csv", "json", NULL};
    static const char *const syncs[] = {"blocks", "tags", "channel", NULL}; /* as rpipe_sync_t */
    static const char *const algorithms[] = {"next",   "first",      "best", "worst",
                                             "random", "segregated", NULL}; /* as rmalloc_fit_t */
    struct perf_options *o = state->input;
    char *end;
    FILE *f;
    int i;

    switch (key) {
    case 't':
        parse_test(o, arg, state);
        return 0;
    case 'o':
        i = choice(arg, ops, "--op", state);
        o->put = i != 1;
        o->get = i != 0;
        return 0;
    case 'd':
        i = choice(arg, directions, "--direction", state);
        o->uni = i != 1;
        o->bi = i != 0;
        return 0;
    case 's':
        parse_sizes(o, arg, state);
        return 0;
    case 'n':
        o->iterations = number(arg, 0, 1000000000, "--iterations", state);
        return 0;
    case 'w':
        o->warmup = number(arg, 0, 1000000000, "--warmup", state);
        return 0;
    case 'r':
        o->rounds = (int)number(arg, 1, 1000, "--rounds", state);
        return 0;
    case KEY_SECONDS:
        o->seconds = strtod(arg, &end);
        if (end == arg || *end != '\0' || !(o->seconds >= 0.001 && o->seconds <= 60))
            argp_error(state, "--seconds is \"%s\"; it must be a number from 0.001 to 60", arg);
        return 0;
    case KEY_BATCH:
        o->batch = number(arg, 0, 1000000, "--batch", state);
        return 0;
    case KEY_SLOTS:
        o->slots = number(arg, 0, 65536, "--slots", state);
        if ((o->slots & (o->slots - 1)) != 0 || o->slots == 1)
            argp_error(state, "--slots is \"%s\"; it must be a power of two from 2 to 65536", arg);
        return 0;
    case KEY_BOUND:
        o->bound = number(arg, 0, 65536, "--bound", state);
        return 0;
    case KEY_INLINE:
        o->inline_max = number(arg, 0, 40, "--inline", state);
        return 0;
    case KEY_SYNC:
        o->sync = (rpipe_sync_t)(RPIPE_SYNC_BLOCKS + choice(arg, syncs, "--sync", state));
        o->sync_name = arg;
        return 0;
    case KEY_BTL:
        /* rinit reports a wrong value; both ranks have the same command line */
        setenv("RPIPE_BTL", arg, 1);
        return 0;
    case KEY_ALGORITHM:
        o->algorithm =
            (rmalloc_fit_t)(RMALLOC_NEXT_FIT + choice(arg, algorithms, "--algorithm", state));
        o->algorithm_name = arg;
        return 0;
    case KEY_QUEUE:
        o->queue = number(arg, 0, 1 << 24, "--queue", state);
        return 0;
    case ARGP_KEY_END:
        if (o->heap > 0 && o->bound > 0)
            argp_error(state, "--heap and --bound are two ways to give the size of the heap");
        if (o->parts && ((o->slots > 0 && o->slots < 64) || o->heap > 0 || o->bound > 0))
            argp_error(state,
                       "-t parts writes rows of 56 messages: --slots must be 64 or more, and "
                       "--heap and --bound not given");
        if (o->algorithm > RMALLOC_NEXT_FIT && o->sync == RPIPE_SYNC_BLOCKS && o->sync_name != NULL)
            argp_error(state, "--sync is blocks, which only --algorithm next can use; set --sync "
                              "tags or channel");
        if (o->algorithm > RMALLOC_NEXT_FIT && o->sync_name == NULL) {
            o->sync = RPIPE_SYNC_TAGS;
            o->sync_name = "tags";
        }
        return 0;
    case KEY_TOUCH:
    case KEY_NO_TOUCH:
        o->touch = key == KEY_TOUCH ? PERF_TOUCH : PERF_HAND_OVER;
        return 0;
    case KEY_WORD:
        o->touch = PERF_WORD;
        return 0;
    case KEY_COPY:
        o->copy = true;
        return 0;
    case KEY_HEAP:
        o->heap = parse_heap(arg, state);
        return 0;
    case KEY_FORMAT:
        o->format = (enum perf_format)choice(arg, formats, "--format", state);
        return 0;
    case KEY_PLOT:
        o->plot = arg;
        if ((f = fopen(arg, "ab")) ==
            NULL) /* gnuplot would draw to the terminal instead, when all has been measured */
            argp_failure(state, 1, errno, "--plot: %s cannot be written", arg);
        else
            fclose(f);
        return 0;
    case KEY_CPUS:
        parse_cpus(o, arg, state);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" is no option of this program", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "rmalloc_perf %s\n", rinfo_version());
}

static const struct argp option_parser = {
    option_table,
    parse_option,
    NULL,
    "Measures pipes between two processes: latency, bandwidth and message rate.\v"
    "Run it as it is, and it starts the second process itself; or by a launcher: mpirun -n 2 "
    "rmalloc_perf. Before a "
    "size is "
    "measured, messages of that size are sent both ways and every byte is checked.",
    NULL,
    NULL,
    NULL};

void perf_options_parse(struct perf_options *o, int argc, char **argv)
{
    static const size_t sizes[] = {1,         8,         64,         256,      1u << 10, 4u << 10,
                                   16u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20};

    *o = (struct perf_options){
        .test = {[PERF_LATENCY] = true, [PERF_STREAM] = true},
        .put = true,
        .uni = true,
        .rounds = 5,
        .seconds = 0.05,
        .inline_max = -1,
        .touch = PERF_TOUCH,
        .cpu = {-1, -1},
    };
    o->sizes = sizeof(sizes) / sizeof(sizes[0]);
    memcpy(o->size, sizes, sizeof(sizes));
    argp_program_version_hook = print_version;
    argp_parse(&option_parser, argc, argv, 0, NULL, o);
    if (o->inline_max < 0)
        o->inline_max = o->bound > 0 ? 0 : 40;
}
