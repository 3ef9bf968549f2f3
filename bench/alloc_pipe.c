/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alloc_pipe.c: what synchronization costs a pipe between two processes; see alloc_bench.h.
 *
 * Each argument is a case: words with commas between them, as
 * "name=tag,fit=best,sync=tag,size=64,heap=1024". All pipes are open at the same time, and in a
 * round each case runs once, so that what is compared is measured in the same moments.
 *
 *     fit=next|first|best|worst|random|segregated   sync=block|tag|channel   op=put|get
 *     size=BYTES, or least=BYTES,most=BYTES (a power law)         unit=BYTES
 *     heap=MESSAGES of mean size         queue=MESSAGES, slots=N, inline=BYTES
 *     test=stream      rank 0 writes, rank 1 reads and frees; time of a message until all are freed
 *     test=pingpong    half a round trip
 *     test=irregular   as stream, but rank 1 holds up to `window` messages
 *     order=regular|reverse|random       it collects them, then frees all of them in this order
 *     order=oldest|any                   it keeps so many, and frees the oldest, or any, for each
 *                                        that comes
 *     delay=US                           waiting so long before each
 *     fill=1                             every byte is written and read; else the first word
 *
 * Every message carries its number, which the reader checks. Two processes are needed: a
 * launcher's, or bench/alloc's.
 */
#include "alloc_bench.h"

#include <rinfo.h>
#include <rpipe.h>

#include <errno.h>
#include <getopt.h>
#include <string.h>

#define SIZES 1024 /* a power of two */
#define CASES_MAX 64
#define ORDERS 64
#define WINDOW_MAX 1024
#define TIMEOUT_MS 20000
#define STARVED_MS 20 /* a reader that collects, and waits for so long, frees what it has */
#define STARVED_US                                                                                 \
    100 /* one that keeps a window full, and waits for so long, frees until something comes */

enum test { STREAM, PINGPONG, IRREGULAR };
enum order { REGULAR, REVERSE, RANDOM, OLDEST, ANY };

struct counts {
    uint64_t messages, credit_fetches, stalls_heap, stalls_ring, stalls_queue;
};

struct pipe_case {
    char *name;
    int fit, sync, op, test, order;
    uint32_t least, most, unit, window, delay, queue, slots, inline_max;
    uint64_t heap;
    bool fill;
    uint32_t size[SIZES];
    uint16_t (*permutation)[WINDOW_MAX]; /* ORDERS of them */
    rch_t out, in; /* rank 0 has `out` of a stream, rank 1 `in`; of a ping-pong both have both */
    char missing[256];
    uint64_t number; /* of the next message, both ways alike */
    long n;          /* messages of a round */
    double ns[ROUNDS_MAX], waited[ROUNDS_MAX];
    uint64_t starved;
    struct counts before, after;
};

static struct {
    int rounds, cpu[2];
    double ms;
    uint64_t seed;
} options = {.rounds = 9, .cpu = {-1, -1}, .ms = 20, .seed = 1};

static struct pipe_case cases[CASES_MAX];
static int rank, ncases;
static rch_t tell, hear; /* "go" and "done" */
static volatile uint64_t sink;

static _Noreturn void fail(const struct pipe_case *c, rch_t ch, const char *what, int code)
{
    const char *why = rerror(ch);

    fprintf(stderr, "alloc_pipe: rank %d: %s%s%s: %s%s%s\n", rank, c != NULL ? c->name : "",
            c != NULL ? ": " : "", what, rinfo_strerror(code), why != NULL ? ": " : "",
            why != NULL ? why : "");
    network_abort(1);
}

static void *need(void *p)
{
    if (p == NULL)
        fail(NULL, NULL, "malloc", -ENOMEM);
    return p;
}

/* ---- cases ---- */

static int one_of(const char *value, const char *const *names)
{
    for (int i = 0; value != NULL && names[i] != NULL; i++)
        if (strcmp(value, names[i]) == 0)
            return i;
    return -1;
}

static uint32_t number_of(const char *value)
{
    char *end = NULL;
    unsigned long x = value != NULL ? strtoul(value, &end, 10) : 0;

    return end == NULL || end == value || *end != '\0' || x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}

/* False: not understood. */
static bool parse_case(struct pipe_case *c, char *text)
{
    enum {
        FIT,
        SYNC,
        OP,
        TEST,
        ORDER,
        NAME,
        SIZE,
        LEAST,
        MOST,
        UNIT_SIZE,
        HEAP,
        QUEUE,
        SLOTS,
        INLINE_MAX,
        WINDOW,
        DELAY,
        FILL
    };
    static const char *const keys[] = {"fit",   "sync",   "op",     "test",  "order", "name",
                                       "size",  "least",  "most",   "unit",  "heap",  "queue",
                                       "slots", "inline", "window", "delay", "fill",  NULL};
    static const char *const fits[] = {"next",   "first",      "best", "worst",
                                       "random", "segregated", NULL};
    static const char *const syncs[] = {"block", "tag", "channel", NULL};
    static const char *const ops[] = {"put", "get", NULL};
    static const char *const tests[] = {"stream", "pingpong", "irregular", NULL};
    static const char *const orders[] = {"regular", "reverse", "random", "oldest", "any", NULL};
    static const char *const *const words[] = {fits, syncs, ops, tests, orders};
    int *word[] = {&c->fit, &c->sync, &c->op, &c->test, &c->order};
    uint32_t heap = 1024, fill = 0;
    uint32_t *numbers[] = {&c->least, &c->least,      &c->most,   &c->unit,  &heap, &c->queue,
                           &c->slots, &c->inline_max, &c->window, &c->delay, &fill};
    char *value;

    *c = (struct pipe_case){.name = (char *)"", .least = 8, .unit = 64, .window = 64};
    while (*text != '\0') {
        int key = getsubopt(&text, (char *const *)(uintptr_t)keys, &value);

        if (key < 0 || value == NULL)
            return false;
        if (key == NAME)
            c->name = value;
        else if (key < NAME && (*word[key] = one_of(value, words[key])) < 0)
            return false;
        else if (key > NAME && (*numbers[key - SIZE] = number_of(value)) == UINT32_MAX)
            return false;
        if (key == SIZE)
            c->most = c->least;
    }
    c->heap = heap;
    c->fill = fill != 0;
    if (c->most < c->least)
        c->most = c->least;
    return c->least > 0 && c->heap > 0 && c->unit > 0 && c->window > 0 && c->window <= WINDOW_MAX;
}

static uint64_t rounded(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

static void prepare(struct pipe_case *c)
{
    uint64_t random = options.seed, bytes = 0;

    for (int i = 0; i < SIZES; i++) {
        c->size[i] = c->most > c->least ? random_power(&random, c->least, c->most) : c->least;
        bytes += rounded(c->size[i], c->unit);
    }
    c->heap = c->heap * bytes / SIZES + (c->most > c->least ? rounded(c->most, c->unit) : 0);
    c->permutation = need(malloc(ORDERS * sizeof(*c->permutation)));
    for (int p = 0; p < ORDERS; p++) {
        uint16_t *order = c->permutation[p];

        for (uint32_t i = 0; i < c->window; i++)
            order[i] = (uint16_t)(c->order == REVERSE ? c->window - 1 - i : i);
        for (uint32_t i = c->window; c->order == RANDOM && i > 1; i--) {
            uint32_t other = random_below(&random, i);
            uint16_t kept = order[other];

            order[other] = order[i - 1];
            order[i - 1] = kept;
        }
    }
}

/* ---- pipes ---- */

static int open_end(const struct pipe_case *c, uint32_t ctx, bool writer, rch_t *ch)
{
    rpipe_config_t cfg = {0};

    cfg.context = ctx;
    cfg.timeout_ms = TIMEOUT_MS;
    cfg.peer = 1 - rank;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = 64;
    if (c != NULL) {
        cfg.op = (rpipe_op_t)c->op;
        cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
        cfg.heuristic = (rmalloc_fit_t)(RMALLOC_NEXT_FIT + c->fit);
        cfg.unit_bytes = c->unit;
        cfg.heap_bytes = c->heap;
        cfg.seed = 1;
        cfg.mode = (rpipe_sync_t)(RPIPE_SYNC_BLOCKS + c->sync);
        cfg.sync_queue = cfg.mode == RPIPE_SYNC_BLOCKS ? 0 : c->queue;
        cfg.slots = c->slots;
        cfg.inline_max = c->inline_max == 0 ? RPIPE_INLINE_NONE : (int)c->inline_max;
    }
    return rpipe(ch, &cfg);
}

static void close_case(struct pipe_case *c)
{
    if (c->out != NULL)
        rclose(c->out);
    if (c->in != NULL)
        rclose(c->in);
    c->out = c->in = NULL;
}

/* Both ranks go on with a case, or neither. */
static void open_case(struct pipe_case *c, uint32_t ctx)
{
    int code = 0, codes[2];

    if (rank == 0 || c->test == PINGPONG)
        code = open_end(c, ctx, true, &c->out);
    if (code == 0 && (rank == 1 || c->test == PINGPONG))
        code = open_end(c, ctx, false, &c->in);
    if (code != 0)
        snprintf(c->missing, sizeof(c->missing), "refused: %s",
                 rerror(NULL) != NULL ? rerror(NULL) : "");
    if (network_allgather(&code, sizeof(code), codes) != 0)
        fail(c, NULL, "network_allgather", -ECONNRESET);
    if (code == 0 && codes[1 - rank] != 0)
        snprintf(c->missing, sizeof(c->missing), "refused by the other rank: %s",
                 rinfo_strerror(codes[1 - rank]));
    if (c->missing[0] != '\0') {
        close_case(c);
        return;
    }
    if (c->out != NULL && (code = rwait(c->out)) != 0)
        fail(c, c->out, "rwait", code);
    if (c->in != NULL && (code = rwait(c->in)) != 0)
        fail(c, c->in, "rwait", code);
}

/* A word from one rank to the other, in a slot. */
static void say(uint64_t word)
{
    raddr_t d;
    uint64_t *mem = (d = rmalloc(tell, sizeof(word))) != ADDR_NULL ? rmem(tell, d) : NULL;
    int code;

    if (mem == NULL)
        fail(NULL, tell, "rmalloc", -errno);
    *mem = word;
    code = rwrite(tell, d);
    if (code != 0)
        fail(NULL, tell, "rwrite", code);
}

static uint64_t listen(void)
{
    raddr_t d;
    const uint64_t *mem = rread(hear, &d, NULL) == R_SUCCESS ? rmem(hear, d) : NULL;
    uint64_t word;

    if (mem == NULL)
        fail(NULL, hear, "rread", -errno);
    word = *mem;
    rfree(hear, d);
    return word;
}

/* ---- messages ---- */

INLINE void fill_message(void *mem, uint32_t size, uint64_t number, bool fill)
{
    if (size >= sizeof(number))
        *(volatile uint64_t *)mem = number;
    else
        *(volatile uint32_t *)mem = (uint32_t)number; /* no message is shorter */
    if (fill && size > sizeof(number))
        memset((char *)mem + sizeof(number), (int)number, size - sizeof(number));
}

static uint64_t sum_message(const void *mem, size_t size)
{
    const uint64_t *p = mem;
    uint64_t sum = 0;

    for (size_t i = 1; i < size / sizeof(*p); i++)
        sum += p[i];
    return sum;
}

static _Noreturn void wrong(const struct pipe_case *c, size_t size, uint64_t number)
{
    fprintf(stderr,
            "alloc_pipe: rank %d: %s: message %llu of %zu bytes is not what was sent: nothing is "
            "measured\n",
            rank, c->name, (unsigned long long)number, size);
    network_abort(1);
}

/* ns that it waited for memory and for a slot */
INLINE int64_t send_message(const struct pipe_case *c, uint64_t number)
{
    uint32_t size = c->size[number & (SIZES - 1)];
    int64_t waited = 0;
    raddr_t d;
    int code = rmalloc_nb(c->out, size, &d);

    if (__builtin_expect(code != 0, 0)) {
        if (code != R_PENDING)
            fail(c, c->out, "rmalloc_nb", code);
        waited -= clock_now();
        d = rmalloc(c->out, size);
        if (d == ADDR_NULL)
            fail(c, c->out, "rmalloc", -errno);
        waited += clock_now();
    }
    fill_message(rmem(c->out, d), size, number, c->fill);
    code = rwrite_nb(c->out, d);
    if (__builtin_expect(code != 0, 0)) {
        if (code != R_PENDING)
            fail(c, c->out, "rwrite_nb", code);
        waited -= clock_now();
        code = rwrite(c->out, d);
        if (code != 0)
            fail(c, c->out, "rwrite", code);
        waited += clock_now();
    }
    return waited;
}

INLINE void look_at(const struct pipe_case *c, raddr_t d, size_t size, uint64_t number)
{
    const void *mem = rmem(c->in, d);
    bool right = size == c->size[number & (SIZES - 1)] &&
                 (size >= sizeof(uint64_t) ? *(const uint64_t *)mem == number
                                           : *(const uint32_t *)mem == (uint32_t)number);

    if (__builtin_expect(!right, 0))
        wrong(c, size, number);
    if (c->fill)
        sink += sum_message(mem, size);
}

INLINE void receive_message(const struct pipe_case *c, uint64_t number)
{
    raddr_t d;
    size_t size;
    int code = rread(c->in, &d, &size);

    if (__builtin_expect(code != 0, 0))
        fail(c, c->in, "rread", code);
    look_at(c, d, size, number);
    code = rfree(c->in, d);
    if (__builtin_expect(code != 0, 0))
        fail(c, c->in, "rfree", code);
}

/* ---- irregular frees ---- */

static void spin_us(uint32_t us)
{
    int64_t until = clock_now() + (int64_t)us * 1000;

    while (clock_now() < until)
        cpu_pause();
}

/*
 * Up to `most` messages; fewer where none has come for a
 * while, which is counted: memory is held up then.
 */
static uint32_t collect(struct pipe_case *c, raddr_t *held, uint32_t most, uint64_t *number)
{
    uint32_t n = 0;

    for (int tries = 0; n < most;) {
        size_t size;
        int code = rread(c->in, &held[n], &size);

        if (code == -ETIMEDOUT && n > 0) {
            c->starved++;
            return n;
        }
        if (code == -ETIMEDOUT && ++tries < TIMEOUT_MS / STARVED_MS)
            continue;
        if (code != 0)
            fail(c, c->in, "rread", code);
        look_at(c, held[n], size, *number);
        ++*number;
        n++;
    }
    return n;
}

static void read_irregularly(struct pipe_case *c, long n)
{
    static raddr_t held[WINDOW_MAX];
    uint64_t number = c->number, turn = 0;
    int code;

    rset_timeout(c->in, STARVED_MS);
    for (long left = n; left > 0;) {
        const uint16_t *order = c->permutation[turn++ % ORDERS];
        uint32_t most = left < (long)c->window ? (uint32_t)left : c->window,
                 got = collect(c, held, most, &number);

        for (uint32_t i = 0; i < c->window; i++) {
            if (order[i] >= got)
                continue;
            if (c->delay > 0)
                spin_us(c->delay);
            code = rfree(c->in, held[order[i]]);
            if (code != 0)
                fail(c, c->in, "rfree", code);
        }
        left -= got;
    }
}

/*
 * The window is kept full: place by place, or any place. A
 * reader that gets nothing more gives up what it has.
 */
static void read_keeping(struct pipe_case *c, long n)
{
    static raddr_t held[WINDOW_MAX];
    uint64_t number = c->number, random = options.seed;
    uint32_t place = 0, kept = 0;
    int64_t waits_since = 0;

    for (long got = 0; got < n || kept > 0;) {
        raddr_t d = ADDR_NULL;
        size_t size;
        int code = got < n ? rread_nb(c->in, &d, &size) : R_PENDING;

        if (code == 0) {
            look_at(c, d, size, number++);
            got++;
            waits_since = 0;
        } else if (code != R_PENDING) {
            fail(c, c->in, "rread_nb", code);
        } else if (got < n) {
            int64_t now = clock_now();

            if (waits_since == 0)
                waits_since = now;
            if (now - waits_since < STARVED_US * 1000)
                continue;
            if (kept == 0 && now - waits_since > TIMEOUT_MS * INT64_C(1000000))
                fail(c, c->in, "rread_nb", -ETIMEDOUT);
            if (kept == 0)
                continue;
            c->starved++;
        }
        place = c->order == ANY ? random_below(&random, c->window) : (place + 1) % c->window;
        if (held[place] != NULL) {
            if (c->delay > 0)
                spin_us(c->delay);
            code = rfree(c->in, held[place]);
            if (code != 0)
                fail(c, c->in, "rfree", code);
            kept--;
        }
        held[place] = d;
        kept += d != ADDR_NULL;
    }
}

/* ---- a run: n messages; rank 0 gets ns of a message, and what of it was spent waiting ---- */

static int64_t run_writer(struct pipe_case *c, long n)
{
    int64_t waited = 0;

    for (long i = 0; i < n; i++)
        waited += send_message(c, c->number + (uint64_t)i);
    return waited;
}

static void run_reader(struct pipe_case *c, long n)
{
    for (long i = 0; i < n; i++)
        receive_message(c, c->number + (uint64_t)i);
}

static int64_t run_pingpong(struct pipe_case *c, long n)
{
    int64_t waited = 0;

    for (long i = 0; i < n; i++) {
        if (rank == 0)
            waited += send_message(c, c->number + (uint64_t)i);
        receive_message(c, c->number + (uint64_t)i);
        if (rank == 1)
            waited += send_message(c, c->number + (uint64_t)i);
    }
    return waited;
}

static double run(struct pipe_case *c, long n, double *waited_ns)
{
    int64_t began = 0, waited = 0;
    double ns;

    if (rank == 0) { /* both are here when the clock starts */
        say((uint64_t)n);
        listen();
        began = clock_now();
    } else {
        n = (long)listen();
        say(0);
    }
    if (c->test == PINGPONG)
        waited = run_pingpong(c, n);
    else if (rank == 0)
        waited = run_writer(c, n);
    else if (c->test == IRREGULAR && c->order >= OLDEST)
        read_keeping(c, n);
    else if (c->test == IRREGULAR)
        read_irregularly(c, n);
    else
        run_reader(c, n);
    c->number += (uint64_t)n;
    if (rank == 1) {
        say(c->starved);
        return 0;
    }
    c->starved = listen();
    ns = (double)(clock_now() - began) / (double)n / (c->test == PINGPONG ? 2 : 1);
    *waited_ns = (double)waited / (double)n;
    return ns;
}

static void count(rch_t ch, struct counts *c)
{
    (void)rinfo_count(ch, "messages", &c->messages);
    (void)rinfo_count(ch, "credit_fetches", &c->credit_fetches);
    (void)rinfo_count(ch, "stalls_heap", &c->stalls_heap);
    (void)rinfo_count(ch, "stalls_ring", &c->stalls_ring);
    (void)rinfo_count(ch, "stalls_queue", &c->stalls_queue);
}

static void measure(void)
{
    for (int i = 0; i < ncases;
         i++) { /* warm-up: once around the heap, and how long a message takes */
        struct pipe_case *c = &cases[i];
        long few = (long)(c->heap / c->unit);
        double ns, waited;

        if (c->missing[0] != '\0')
            continue;
        few = few < 500 ? 500 : few > 20000 ? 20000 : few;
        if (c->delay > 0)
            few = (long)c->window * 2;
        run(c, few, &waited);
        ns = run(c, few, &waited) * (c->test == PINGPONG ? 2 : 1);
        c->n = rank == 0 ? (long)(options.ms * 1e6 / ns) + 1 : 1;
        if (c->test == IRREGULAR)
            c->n = (long)rounded((uint64_t)c->n, c->window);
        c->starved = 0;
        if (c->out != NULL)
            count(c->out, &c->before);
    }
    for (int round = 0; round < options.rounds; round++)
        for (int i = 0; i < ncases; i++)
            if (cases[i].missing[0] == '\0')
                cases[i].ns[round] = run(&cases[i], cases[i].n, &cases[i].waited[round]);
    for (int i = 0; i < ncases; i++)
        if (cases[i].out != NULL)
            count(cases[i].out, &cases[i].after);
}

static void print_case(const struct pipe_case *c)
{
    const struct counts *a = &c->before, *b = &c->after;
    double messages = (double)(b->messages - a->messages);

    printf("{");
    print_text("name", c->name);
    printf(",");
    if (c->missing[0] != '\0') {
        print_text("missing", c->missing);
        printf("}\n");
        return;
    }
    printf("\"heap\":%llu,\"messages\":%.0f,\"starved\":%llu", (unsigned long long)c->heap,
           messages, (unsigned long long)c->starved);
    printf(
        ",\"credit_fetches\":%.6g,\"stalls_heap\":%.6g,\"stalls_ring\":%.6g,\"stalls_queue\":%.6g,",
        (double)(b->credit_fetches - a->credit_fetches) / messages,
        (double)(b->stalls_heap - a->stalls_heap) / messages,
        (double)(b->stalls_ring - a->stalls_ring) / messages,
        (double)(b->stalls_queue - a->stalls_queue) / messages);
    print_rounds("ns", c->ns, options.rounds);
    printf(",");
    print_rounds("waited", c->waited, options.rounds);
    printf("}\n");
}

/* ---- command line ---- */

static _Noreturn void usage(int status)
{
    fprintf(status == 0 ? stdout : stderr,
            "usage: alloc_pipe [-r ROUNDS] [-m MS] [-s SEED] [-c CPU,CPU] CASE...\n"
            "as two processes of a job. A case is KEY=VALUE,...; the keys stand at the head of the "
            "source. Time is MS for\n"
            "each case in each round. One JSON object a line; bench/alloc makes tables of it.\n");
    exit(status);
}

static double number(double least, double most)
{
    char *end;
    double x = strtod(optarg, &end);

    if (end == optarg || *end != '\0' || !(x >= least && x <= most))
        usage(2);
    return x;
}

static void parse(int argc, char **argv)
{
    int c;

    while ((c = getopt(argc, argv, "r:m:s:c:h")) != -1)
        switch (c) {
        case 'r':
            options.rounds = (int)number(1, ROUNDS_MAX);
            break;
        case 'm':
            options.ms = number(0.001, 1e6);
            break;
        case 's':
            options.seed = (uint64_t)number(0, 1e15);
            break;
        case 'c':
            if (sscanf(optarg, "%d,%d", &options.cpu[0], &options.cpu[1]) != 2)
                usage(2);
            break;
        default:
            usage(c == 'h' ? 0 : 2);
        }
    if (optind == argc || argc - optind > CASES_MAX)
        usage(2);
    for (; optind < argc; optind++)
        if (!parse_case(&cases[ncases++], argv[optind])) {
            fprintf(stderr, "alloc_pipe: case %d is not understood\n", ncases);
            usage(2);
        }
}

int main(int argc, char **argv)
{
    int code, nranks;

    parse(argc, argv);
    code = rinit(&rank, &nranks);
    if (code != 0)
        fail(NULL, NULL, "rinit", code);
    if (nranks != 2) {
        fprintf(stderr, "alloc_pipe needs 2 processes and has %d: mpirun -n 2 alloc_pipe ...\n",
                nranks);
        rexit();
        return 2;
    }
    bind_to(options.cpu[rank]);
    if ((code = open_end(NULL, 0, true, &tell)) != 0 ||
        (code = open_end(NULL, 0, false, &hear)) != 0)
        fail(NULL, NULL, "rpipe", code);
    for (int i = 0; i < ncases; i++) {
        prepare(&cases[i]);
        open_case(&cases[i], (uint32_t)i + 1);
    }
    measure();
    for (int i = 0; i < ncases; i++) {
        if (rank == 0)
            print_case(&cases[i]);
        close_case(&cases[i]);
        free(cases[i].permutation);
    }
    rclose(tell);
    rclose(hear);
    return rexit() == 0 ? 0 : 1;
}
