/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alloc_threads.c: what one thread allocates, another frees; see alloc_bench.h.
 *
 *     xmalloc   one thread allocates, the other frees in the same order
 *     larson    each allocates for the other, stores what it receives in a random slot, and frees
 *               the block
 *             that was there
 *
 * Ours is what the product is: a pipe within the process (the xmalloc-like trace), or one each way
 * (the larson-like): rmalloc and rwrite by one thread, rread and rfree by the other, and what is
 * freed travels back to the heap that it came from. The others: malloc, a pointer through a ring of
 * one producer and one consumer, free. Ring and pipe have as many entries. First words are written
 * and read by all, or by none. In a round each runs once.
 */
#include "alloc_bench.h"

#include <rinfo.h>
#include <rpipe.h>

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define RING 256    /* entries of a ring of pointers, slots of a pipe; a power of two */
#define SIZES 4096  /* a power of two */
#define PLACES 1024 /* of the larson-like trace, for each thread; a power of two */
#define AHEAD 64 /* messages that a thread of the larson-like trace may be ahead of what it got */
#define STUCK 20 /* seconds without a message, after which the larson-like trace gives up */

static struct {
    int rounds, cpu[2];
    double ms;
    uint64_t seed;
} options = {.rounds = 9, .cpu = {-1, -1}, .ms = 10, .seed = 1};

/* ---- a ring of pointers ---- */

struct ring {
    _Alignas(64) _Atomic uint64_t written;
    uint64_t read_seen; /* the producer's */
    _Alignas(64) _Atomic uint64_t read;
    uint64_t written_seen; /* the consumer's */
    _Alignas(64) void *entry[RING];
};

static inline bool ring_put(struct ring *r, void *p)
{
    uint64_t written = atomic_load_explicit(&r->written, memory_order_relaxed);

    if (written - r->read_seen == RING) {
        /* acquire: pairs with the release in ring_get, the entry has been copied */
        r->read_seen = atomic_load_explicit(&r->read, memory_order_acquire);
        if (written - r->read_seen == RING)
            return false;
    }
    r->entry[written & (RING - 1)] = p;
    atomic_store_explicit(&r->written, written + 1, memory_order_release);
    return true;
}

static inline void *ring_get(struct ring *r)
{
    uint64_t at = atomic_load_explicit(&r->read, memory_order_relaxed);
    void *p;

    if (at == r->written_seen) {
        /* acquire: pairs with the release in ring_put; entry and memory are written */
        r->written_seen = atomic_load_explicit(&r->written, memory_order_acquire);
        if (at == r->written_seen)
            return NULL;
    }
    p = r->entry[at & (RING - 1)];
    atomic_store_explicit(&r->read, at + 1, memory_order_release);
    return p;
}

/* Others may need this processor. */
static inline void idle(unsigned *times)
{
    if (++*times % 2000 == 0)
        sched_yield();
    else
        cpu_pause();
}

/* ---- the contestants ---- */

struct contestant {
    const char *name;
    rmalloc_fit_t fit; /* ours */
    rpipe_sync_t sync;
    struct allocator *peer; /* NULL: ours */
    rch_t out[2], in[2];    /* from thread 0 to thread 1, and back */
    char missing[256];
};

static struct contestant contestants[] = {
    {.name = "block, next-fit", .fit = RMALLOC_NEXT_FIT, .sync = RPIPE_SYNC_BLOCKS},
    {.name = "tag, next-fit", .fit = RMALLOC_NEXT_FIT, .sync = RPIPE_SYNC_TAGS},
    {.name = "tag, best-fit", .fit = RMALLOC_BEST_FIT, .sync = RPIPE_SYNC_TAGS},
    {.name = "channel, best-fit", .fit = RMALLOC_BEST_FIT, .sync = RPIPE_SYNC_CHANNEL},
    {.name = "mimalloc", .peer = &allocators[FITS]},
    {.name = "jemalloc", .peer = &allocators[FITS + 1]},
    {.name = "glibc", .peer = &allocators[FITS + 2]},
};
#define CONTESTANTS ((int)(sizeof(contestants) / sizeof(contestants[0])))

enum pattern { XMALLOC, LARSON, PATTERNS };
static const char *const pattern_names[PATTERNS] = {"xmalloc", "larson"};

static struct run {
    struct contestant *who;
    enum pattern pattern;
    bool touch;
    const uint32_t *size;
    uint32_t most;
    long n;
} run;

static uint32_t sizes[2][SIZES]; /* 64; 16..1024 */
static struct ring rings[2];
static volatile uint64_t sink;

static _Noreturn void fail(rch_t ch, const char *what, int code)
{
    const char *why = rerror(ch);

    fprintf(stderr, "alloc_threads: %s, %s: %s: %s%s%s\n", pattern_names[run.pattern],
            run.who->name, what, rinfo_strerror(code), why != NULL ? ": " : "",
            why != NULL ? why : "");
    exit(1);
}

static inline void write_word(void *mem, uint64_t word) { *(volatile uint64_t *)mem = word; }
static inline void read_word(const void *mem) { sink += *(const volatile uint64_t *)mem; }

/* ---- xmalloc ---- */

static void xmalloc_ours(const struct run *r, int me)
{
    struct contestant *w = r->who;
    raddr_t d;
    int code;

    for (long i = 0; i < r->n; i++) {
        if (me == 0) {
            d = rmalloc(w->out[0], r->size[i & (SIZES - 1)]);
            if (d == ADDR_NULL)
                fail(w->out[0], "rmalloc", -errno);
            if (r->touch)
                write_word(rmem(w->out[0], d), (uint64_t)i);
            code = rwrite(w->out[0], d);
            if (code != 0)
                fail(w->out[0], "rwrite", code);
        } else {
            code = rread(w->in[0], &d, NULL);
            if (code != 0)
                fail(w->in[0], "rread", code);
            if (r->touch)
                read_word(rmem(w->in[0], d));
            code = rfree(w->in[0], d);
            if (code != 0)
                fail(w->in[0], "rfree", code);
        }
    }
}

static void xmalloc_peer(const struct run *r, int me)
{
    const struct allocator *a = r->who->peer;
    unsigned times = 0;
    void *p;

    for (long i = 0; i < r->n; i++) {
        if (me == 0) {
            p = a->malloc(r->size[i & (SIZES - 1)]);
            if (p == NULL)
                fail(NULL, "malloc", -ENOMEM);
            if (r->touch)
                write_word(p, (uint64_t)i);
            while (!ring_put(&rings[0], p))
                idle(&times);
        } else {
            while ((p = ring_get(&rings[0])) == NULL)
                idle(&times);
            if (r->touch)
                read_word(p);
            a->free(p);
        }
    }
}

/* ---- larson: a side that waits for memory polls its incoming ring meanwhile ---- */

static bool larson_send(const struct run *r, int me, long i)
{
    rch_t out = r->who->out[me];
    uint32_t size = r->size[(i + me) & (SIZES - 1)];
    raddr_t d;
    int code;

    if (r->who->peer != NULL) {
        void *p = r->who->peer->malloc(size);

        if (p == NULL)
            fail(NULL, "malloc", -ENOMEM);
        if (r->touch)
            write_word(p, (uint64_t)i);
        while (!ring_put(&rings[me], p)) /* never: at most 2 * AHEAD are in flight */
            ;
        return true;
    }
    code = rmalloc_nb(out, size, &d);
    if (code == R_PENDING)
        return false;
    if (code != 0)
        fail(out, "rmalloc_nb", code);
    if (r->touch)
        write_word(rmem(out, d), (uint64_t)i);
    code = rwrite(out, d);
    if (code != 0)
        fail(out, "rwrite", code);
    return true;
}

static bool larson_receive(const struct run *r, int me, void **place)
{
    rch_t in = r->who->in[1 - me];
    raddr_t d;
    int code;

    if (r->who->peer != NULL) {
        void *p = ring_get(&rings[1 - me]);

        if (p == NULL)
            return false;
        if (r->touch)
            read_word(p);
        if (*place != NULL)
            r->who->peer->free(*place);
        *place = p;
        return true;
    }
    code = rread_nb(in, &d, NULL);
    if (code == R_PENDING)
        return false;
    if (code != 0)
        fail(in, "rread_nb", code);
    if (r->touch)
        read_word(rmem(in, d));
    if (*place != NULL && (code = rfree(in, *place)) != 0)
        fail(in, "rfree", code);
    *place = d;
    return true;
}

static void larson(const struct run *r, int me)
{
    static void *places[2][PLACES];
    uint64_t random = options.seed + (uint64_t)me;
    long sent = 0, received = 0;
    int64_t moved_at = clock_now();
    unsigned times = 0;

    while (sent < r->n || received < r->n) {
        bool moved = false;

        if (sent < r->n && sent - received < AHEAD && larson_send(r, me, sent)) {
            sent++;
            moved = true;
        }
        if (received < r->n && larson_receive(r, me, &places[me][random_below(&random, PLACES)])) {
            received++;
            moved = true;
        }
        if (moved) {
            times = 0;
            continue;
        }
        idle(&times);
        if (times == 1)
            moved_at = clock_now();
        else if (times % 100000 == 0 && clock_now() - moved_at > STUCK * INT64_C(1000000000))
            fail(NULL, "no message can be sent, and none comes", -EDEADLK);
    }
    for (int i = 0; i < PLACES; i++) {
        void *p = places[me][i];

        if (p != NULL && r->who->peer != NULL)
            r->who->peer->free(p);
        else if (p != NULL)
            rfree(r->who->in[1 - me], p);
        places[me][i] = NULL;
    }
}

/* ---- two threads, of which this is one; each job is a run ---- */

static pthread_barrier_t gate;

static void take_part(int me)
{
    if (run.pattern == LARSON)
        larson(&run, me);
    else if (run.who->peer != NULL)
        xmalloc_peer(&run, me);
    else
        xmalloc_ours(&run, me);
}

static void *other_thread(void *unused)
{
    bind_to(options.cpu[1]);
    for (;;) {
        pthread_barrier_wait(&gate);
        if (run.who == NULL)
            return unused;
        take_part(1);
        pthread_barrier_wait(&gate);
    }
}

/* ns of one allocation and its free */
static double go(long n)
{
    int64_t began;

    run.n = n;
    memset(rings, 0, sizeof(rings));
    pthread_barrier_wait(&gate);
    began = clock_now();
    take_part(0);
    pthread_barrier_wait(&gate);
    return (double)(clock_now() - began) / (double)n / (run.pattern == LARSON ? 2 : 1);
}

/* ---- pipes ---- */

static int open_pipe(struct contestant *w, int way, rch_t *out, rch_t *in)
{
    rpipe_config_t cfg = {0};
    uint64_t blocks = run.pattern == LARSON ? PLACES + AHEAD : RING;
    int code;

    cfg.context = (uint32_t)(2 * (w - contestants) + way);
    cfg.peer = 0;
    cfg.heuristic = w->fit;
    cfg.unit_bytes = UNIT;
    cfg.mode = w->sync;
    cfg.slots = RING;
    cfg.sync_queue = w->sync == RPIPE_SYNC_BLOCKS ? 0 : (uint32_t)(2 * blocks);
    cfg.inline_max = RPIPE_INLINE_NONE;
    cfg.timeout_ms = 10000;
    /*
     * next-fit reaches from the oldest block to the newest:
     * at random the oldest is some ln n + 12 times n old
     */
    cfg.heap_bytes =
        (uint64_t)run.most * blocks *
        (run.pattern == LARSON && w->fit == RMALLOC_NEXT_FIT ? (uint64_t)log((double)blocks) + 12
                                                             : 2);
    cfg.role = RPIPE_WRITER;
    code = rpipe(out, &cfg);
    if (code != 0)
        return code;
    cfg.role = RPIPE_READER;
    code = rpipe(in, &cfg);
    if (code == 0)
        code = rwait(*out);
    return code;
}

static void open_pipes(struct contestant *w)
{
    w->missing[0] = '\0';
    if (w->peer != NULL) {
        memcpy(w->missing, w->peer->missing, sizeof(w->missing));
        return;
    }
    for (int way = 0; way < (run.pattern == LARSON ? 2 : 1); way++) {
        int code = open_pipe(w, way, &w->out[way], &w->in[way]);

        if (code == -ENOTSUP) {
            snprintf(w->missing, sizeof(w->missing), "refused: not in this version of the library");
            return;
        }
        if (code != 0)
            fail(NULL, "rpipe", code);
    }
}

static void close_pipes(struct contestant *w)
{
    for (int way = 0; way < 2; way++) {
        if (w->out[way] != NULL)
            rclose(w->out[way]);
        if (w->in[way] != NULL)
            rclose(w->in[way]);
        w->out[way] = w->in[way] = NULL;
    }
}

/* ---- rounds ---- */

static void print_result(const struct contestant *w, const double *ns)
{
    printf("{\"part\":\"threads\",");
    print_text("trace", pattern_names[run.pattern]);
    printf(",\"most\":%u,\"touch\":%d,", run.most, run.touch);
    print_text("allocator", w->name);
    printf(",");
    if (w->missing[0] != '\0')
        print_text("missing", w->missing);
    else
        print_rounds("ns", ns, options.rounds);
    printf("}\n");
    fflush(stdout);
}

static void measure(void)
{
    static double ns[CONTESTANTS][ROUNDS_MAX];
    long n[CONTESTANTS];

    for (int i = 0; i < CONTESTANTS; i++) {
        run.who = &contestants[i];
        open_pipes(run.who);
        if (run.who->missing[0] != '\0')
            continue;
        go(2000);
        n[i] = (long)(options.ms * 1e6 / go(5000)) + 1000;
        go(n[i] / 2);
    }
    for (int round = 0; round < options.rounds; round++)
        for (int i = 0; i < CONTESTANTS; i++) {
            run.who = &contestants[i];
            if (run.who->missing[0] == '\0')
                ns[i][round] = go(n[i]);
        }
    for (int i = 0; i < CONTESTANTS; i++) {
        print_result(&contestants[i], ns[i]);
        close_pipes(&contestants[i]);
    }
}

static void measure_all(void)
{
    for (int i = 0; i < SIZES; i++) {
        sizes[0][i] = 64;
        sizes[1][i] = random_size(&options.seed, 16, 1024);
    }
    for (run.pattern = XMALLOC; run.pattern < PATTERNS; run.pattern++)
        for (int kind = 0; kind < 2; kind++)
            for (int touch = 0; touch < 2; touch++) {
                run.touch = touch != 0;
                run.size = sizes[kind];
                run.most = kind == 0 ? 64 : 1024;
                measure();
            }
}

static _Noreturn void usage(int status)
{
    fprintf(status == 0 ? stdout : stderr,
            "usage: alloc_threads [-r ROUNDS] [-m MS] [-s SEED] [-c CPU,CPU]\n"
            "Time is MS for each allocator in each round. One JSON object a line; bench/alloc "
            "makes tables of it.\n");
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

int main(int argc, char **argv)
{
    pthread_t other;
    int c, code;

    allocators_prepare(argv);
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
    if (optind != argc)
        usage(2);
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    code = rinit(NULL, NULL);
    if (code != 0) {
        fprintf(stderr, "alloc_threads: rinit: %s\n", rinfo_strerror(code));
        return 1;
    }
    allocators_find();
    if (pthread_barrier_init(&gate, NULL, 2) != 0 ||
        pthread_create(&other, NULL, other_thread, NULL) != 0) {
        fprintf(stderr, "alloc_threads: no second thread\n");
        return 1;
    }
    bind_to(options.cpu[0]);
    measure_all();
    run.who = NULL;
    pthread_barrier_wait(&gate);
    pthread_join(other, NULL);
    return rexit() == 0 ? 0 : 1;
}
