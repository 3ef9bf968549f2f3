/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_soak.c: random traffic for a number of seconds; every byte, every order and every end is checked.
 *
 *     mp_soak [SECONDS] [seed=N] [-threads] [-sync] [-signals]          the default is 2 s
 *
 * Every rank has PUT and GET channels to itself and to two others, and from them. An incarnation of a channel
 * has a heuristic and a mode of its own, in a heap that may grow, and carries a number of messages of random size, allocated ahead, written in another order than allocated, freed at
 * random moments out of order, and checked once more before they are freed; then the writer closes, or the reader
 * does before that, and both open again. What the two ends have to agree on (sizes, numbers, which closes) both draw
 * from the seed. One thread serves all ends of a rank without waiting, but for the sleeps, polls and short deadlines
 * that are part of it; with -threads four do, and with -sync the ends are opened with thread_sync,
 * and with -signals a handler interrupts whatever is going on, a thousand times a second.
 */
#include "test/lib/mp_check.h"
#include "test/lib/counts.h"
#include <rpipe.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#define EDGES_MOST 12 /* of one rank: writers and readers */
#define AHEAD 5       /* messages allocated and not written */
#define HELD 12       /* messages read and not freed */
#define THREADS 4
#define STUCK_MS 30000

enum {
    LAST = 1,
    FINAL = 2
}; /* in the header of a message: the last of its incarnation; of the channel */

struct held {
    raddr_t d;
    size_t size;
    uint64_t key;
};

struct end {
    bool writer, open, done;
    int from, to;
    uint32_t ctx;
    uint64_t incarnation, number; /* messages in this one */
    uint64_t messages,
        quit; /* of this incarnation; the reader closes after so many (0: it does not) */
    bool saw_last, saw_final, announced_final;
    rch_t ch;
    uint64_t size_most;
    raddr_t ahead[AHEAD];
    int n_ahead;
    struct held held[HELD];
    int n_held;
};

struct worker {
    pthread_t thread;
    struct end *end[2 * EDGES_MOST];
    int ends;
    uint64_t random; /* of this thread alone: timing, not contents */
    uint64_t messages, bytes, incarnations, grows, idle;
};

static struct end ends[2 * EDGES_MOST];
static struct worker workers[THREADS];
static int n_ends;
static double stop_at;
static bool thread_sync;

static uint64_t mine(struct worker *w) { return random_mix(w->random++); }
static bool now_and_then(struct worker *w, unsigned one_in) { return mine(w) % one_in == 0; }

/* ---- what both ends have ---- */

static uint64_t common(const struct end *e, uint64_t what)
{
    return random_mix(mp_key(e->from, e->to, e->ctx, e->incarnation) ^ random_mix(what));
}

static void configure(const struct end *e, rpipe_config_t *cfg)
{
    static const uint64_t heaps[] = {64, 1000, 4096, 1 << 16, 1 << 18, 3 << 20};
    static const uint32_t units[] = {1, 8, 64, 4096}, slots[] = {2, 4, 16, 64, 512},
                          queues[] = {0, 1, 2, 7, 100};
    uint64_t mode = common(e, 8) % 13; /* of table 3.1 */

    *cfg = (rpipe_config_t){0};
    cfg->op = e->ctx % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
    cfg->peer = e->writer ? e->to : e->from;
    cfg->role = e->writer ? RPIPE_WRITER : RPIPE_READER;
    cfg->heap_bytes = heaps[common(e, 1) % 6];
    cfg->unit_bytes = units[common(e, 2) % 4];
    cfg->slots = slots[common(e, 3) % 5];
    cfg->heuristic =
        mode < 3 ? RMALLOC_NEXT_FIT : (rmalloc_fit_t)(RMALLOC_FIRST_FIT + (mode - 3) / 2);
    cfg->mode = mode < 3        ? (rpipe_sync_t)(RPIPE_SYNC_BLOCKS + mode)
                : mode % 2 == 1 ? RPIPE_SYNC_TAGS
                                : RPIPE_SYNC_CHANNEL;
    cfg->sync_queue = queues[common(e, 9) % 5];
    if (common(e, 10) % 3 == 0)
        cfg->max_heap_bytes = cfg->heap_bytes + common(e, 11) % (4 * cfg->heap_bytes);
    cfg->context = e->ctx;
    cfg->flags = thread_sync ? RPIPE_THREADS : 0;
}

static void begin(struct worker *w, struct end *e)
{
    rpipe_config_t cfg;

    e->incarnation++;
    e->number = 0;
    e->saw_last = false;
    e->messages = 1 + common(e, 4) % (common(e, 5) % 8 == 0 ? 2000 : 100);
    e->quit = common(e, 6) % 4 == 0 ? 1 + common(e, 7) % e->messages : 0;
    configure(e, &cfg);
    e->size_most = cfg.heap_bytes;
    cfg.inline_max = (int)(mine(w) % 42) - 1;
    cfg.grow_after_us = 1 + (uint32_t)(mine(w) % 2000);
    cfg.watermark = (int)(mine(w) % 12) * 10 - 10;
    if (cfg.watermark < 0)
        cfg.watermark = RPIPE_WATERMARK_ALWAYS;
    cfg.seed = mine(w);
    cfg.timeout_ms = R_AT_ONCE;
    if (now_and_then(w, 8) && mine(w) % 3 != 0)
        cfg.timeout_ms = 1 + (int)(mine(w) % 2);
    CHECK_OK(NULL, rpipe(&e->ch, &cfg));
    e->open = true;
    w->incarnations++;
    if (!e->writer && now_and_then(w, 4))
        CHECK(e->ch, rfd(e->ch) >= 0);
}

static void finish(struct worker *w, struct end *e)
{
    struct pipe_counts st = {0};

    CHECK_OK(e->ch, pipe_counts(e->ch, &st));
    if (e->writer)
        w->grows += st.grows;
    CHECK_OK(e->ch, rset_timeout(e->ch, STUCK_MS));
    CHECK_OK(e->ch, rclose(e->ch)); /* drops what is held and what is ahead */
    e->open = false;
    e->n_ahead = e->n_held = 0;
}

static size_t size_of(const struct end *e, uint64_t number)
{
    uint64_t r = common(e, 1000 + number);

    switch (r % 8) {
    case 0:
        return 0;
    case 1:
    case 2:
    case 3:
        return (r >> 8) % (e->size_most < 41 ? e->size_most + 1 : 41);
    case 4:
        return (r >> 8) % (e->size_most / 2 + 1);
    default:
        return (r >> 8) % (e->size_most / 64 + 1);
    }
}

/* ---- the writer ---- */

/* Of the blocks ahead, one that is large enough, beginning anywhere; or -1. */
static int find_block(struct worker *w, const struct end *e, size_t size)
{
    int i, first = (int)(mine(w) % AHEAD);

    for (i = 0; i < AHEAD; i++) {
        int at = (first + i) % AHEAD;

        if (at < e->n_ahead && rsize(e->ch, e->ahead[at]) >= size)
            return at;
    }
    return -1;
}

static raddr_t take_block(struct end *e, int at)
{
    raddr_t d = e->ahead[at];

    memmove(e->ahead + at, e->ahead + at + 1, sizeof(e->ahead[0]) * (size_t)(--e->n_ahead - at));
    return d;
}

/* Allocates for the next message, or for one behind it; what stands in its way goes back unsent. 0: it did something. */
static int allocate(struct worker *w, struct end *e)
{
    bool needed = find_block(w, e, size_of(e, e->number)) < 0;
    size_t size = size_of(e, e->number + (needed ? 0 : (uint64_t)e->n_ahead));
    raddr_t d = ADDR_NULL;
    int rc = -ENOBUFS;

    if (!needed && (e->n_ahead == AHEAD || e->number + (uint64_t)e->n_ahead >= e->messages))
        return R_PENDING;
    if (e->n_ahead < AHEAD) {
        if (now_and_then(w, 8) && size < e->size_most) /* more than is written in the end */
            size++;
        if (now_and_then(w, 16))
            rc = (d = rmalloc(e->ch, size)) != ADDR_NULL ? 0 : -errno;
        else
            rc = rmalloc_nb(e->ch, size, &d);
    }
    /* with thread_sync another thread could give back what stands in the way, so the answer is "not yet" */
    if (needed && thread_sync && e->n_ahead > 0 && (rc == R_PENDING || rc == -ETIMEDOUT) &&
        now_and_then(w, 16))
        rc = -ENOBUFS;
    if (rc == -ENOBUFS && needed) {
        CHECK(e->ch, e->n_ahead > 0);
        CHECK_OK(e->ch, rfree(e->ch, take_block(e, (int)(mine(w) % (uint64_t)e->n_ahead))));
        return 0;
    }
    if (rc == -EPIPE)
        return needed ? rc : R_PENDING;
    if (rc == R_PENDING || rc == -ETIMEDOUT || rc == -ENOBUFS)
        return R_PENDING;
    CHECK_OK(e->ch, rc);
    CHECK(e->ch, rsize(e->ch, d) == size);
    e->ahead[e->n_ahead++] = d;
    return 0;
}

/* The next message, in any of the blocks that are large enough. -> rwrite's answer, or R_PENDING */
static int write_next(struct worker *w, struct end *e)
{
    size_t size = size_of(e, e->number);
    int at = find_block(w, e, size), rc;
    uint64_t flags = 0, header;
    raddr_t d;

    if (at < 0)
        return R_PENDING;
    d = e->ahead[at];
    pattern_fill(rmem(e->ch, d), size, common(e, 1000 + e->number));
    if (e->number + 1 == e->messages)
        flags = LAST | (e->announced_final ? FINAL : 0);
    header = e->number << 2 | flags;
    (void)rset_tag(e->ch, d, header);
    rc = rsize(e->ch, d) == size && now_and_then(w, 2) ? rwrite_nb(e->ch, d)
                                                       : rwrite_n(e->ch, d, size);
    if (rc != 0)
        return rc;
    take_block(e, at);
    e->number++;
    w->messages++;
    w->bytes += size;
    return 0;
}

static bool serve_writer(struct worker *w, struct end *e)
{
    int allocated = allocate(w, e), rc;

    if (e->number == 0 && now_ms() >= stop_at && e->quit == 0)
        e->announced_final = true; /* before the first message: final for this incarnation */
    rc = write_next(w, e);
    if (rc == -EPIPE || allocated == -EPIPE) {
        CHECK(e->ch, e->quit != 0); /* only then may the reader have gone */
        finish(w, e);
        return true;
    }
    if (rc != R_PENDING && rc != -ETIMEDOUT)
        CHECK_OK(e->ch, rc);
    if (e->number == e->messages) {
        e->done = e->announced_final;
        finish(w, e);
    }
    return allocated == 0 || rc == 0;
}

/* ---- the reader ---- */

static void free_one(struct worker *w, struct end *e)
{
    int i = (int)(mine(w) % (uint64_t)e->n_held);
    struct held *h = &e->held[i];

    CHECK(e->ch, pattern_same(rmem(e->ch, h->d), h->size, h->key)); /* it is unchanged since */
    CHECK_OK(e->ch, rfree(e->ch, h->d));
    *h = e->held[--e->n_held];
}

static int read_next(struct worker *w, struct end *e)
{
    uint64_t header, key = common(e, 1000 + e->number);
    size_t size;
    raddr_t d;
    int rc;

    rc = now_and_then(w, 16) ? rread(e->ch, &d, &size) : rread_nb(e->ch, &d, &size);
    if (rc != 0)
        return rc;
    header = rtag(e->ch, d);
    CHECK(e->ch, header >> 2 == e->number);
    CHECK(e->ch, size == size_of(e, e->number) && rsize(e->ch, d) == size);
    CHECK(e->ch, pattern_same(rmem(e->ch, d), size, key));
    CHECK(e->ch, ((header & LAST) != 0) == (e->number + 1 == e->messages));
    e->saw_last = (header & LAST) != 0;
    e->saw_final = (header & FINAL) != 0;
    e->held[e->n_held++] = (struct held){d, size, key};
    e->number++;
    return 0;
}

static bool serve_reader(struct worker *w, struct end *e)
{
    int rc = R_PENDING;

    if (e->n_held > 0 && (e->n_held == HELD || now_and_then(w, 3)))
        free_one(w, e);
    if (e->n_held < HELD)
        rc = read_next(w, e);
    if (rc == R_EOF) {
        CHECK(e->ch, e->saw_last && e->number == e->messages);
        e->done = e->saw_final;
        if (now_and_then(w, 2))
            while (e->n_held > 0)
                free_one(w, e);
        finish(w, e);
        return true;
    }
    if (rc == R_PENDING || rc == -ETIMEDOUT)
        return false;
    CHECK_OK(e->ch, rc);
    if (e->quit != 0 && e->number == e->quit)
        finish(w, e);
    return true;
}

/* ---- a rank ---- */

/* Nothing to do: waits for anything, in one way or another. */
static void idle(struct worker *w)
{
    rch_t readers[2 * EDGES_MOST];
    int ready[2 * EDGES_MOST], n = 0, i, rc;

    w->idle++;
    if (now_and_then(w, 512))
        usleep((unsigned)(mine(w) % 2000));
    for (i = 0; i < w->ends; i++)
        if (w->end[i]->open && !w->end[i]->writer)
            readers[n++] = w->end[i]->ch;
    if (n == 0 || !now_and_then(w, 32)) {
        sched_yield();
        return;
    }
    rc = rpoll(readers, n, ready, 1);
    CHECK(NULL, rc == 0 || rc == -ETIMEDOUT);
}

/* Nothing at all for STUCK_MS: prints where every end stands, and gives up. */
static void stuck(const struct worker *w)
{
    rpipe_config_t cfg;
    struct pipe_counts st = {0};
    int i;

    for (i = 0; i < w->ends; i++) {
        const struct end *e = w->end[i];

        configure(e, &cfg);
        memset(&st, 0, sizeof(st));
        if (e->open)
            CHECK_OK(e->ch, pipe_counts(e->ch, &st));
        fprintf(stderr,
                "rank %d: %s of %d>%d ctx %u: incarnation %llu (%u), %s, message %llu of %llu, "
                "quit %llu, %d ahead, %d "
                "held, next of %zu bytes, heap %llu of %llu, %u slots, algorithm %d sync %d queue "
                "%u, %llu grown; %s\n",
                mp_rank, e->writer ? "writer" : "reader", e->from, e->to, e->ctx,
                (unsigned long long)e->incarnation, st.incarnation,
                e->done   ? "done"
                : e->open ? "open"
                          : "closed",
                (unsigned long long)e->number, (unsigned long long)e->messages,
                (unsigned long long)e->quit, e->n_ahead, e->n_held, size_of(e, e->number),
                (unsigned long long)st.heap_used, (unsigned long long)st.heap_bytes, st.slots,
                (int)cfg.heuristic, (int)cfg.mode, cfg.sync_queue, (unsigned long long)st.grows,
                e->open ? rerror(e->ch) : "");
    }
    REQUIRE(false, "no progress for a long time");
}

static void *serve(void *argument)
{
    struct worker *w = argument;
    double moved = now_ms();
    int i, live;

    do {
        bool did = false;

        for (i = 0, live = 0; i < w->ends; i++) {
            struct end *e = w->end[i];

            if (e->done)
                continue;
            live++;
            if (!e->open) {
                if (now_and_then(w, 8)) /* one end is late now and then */
                    begin(w, e);
                continue;
            }
            if (e->writer ? serve_writer(w, e) : serve_reader(w, e))
                did = true;
        }
        if (did)
            moved = now_ms();
        else if (live > 0)
            idle(w);
        if (live > 0 && now_ms() - moved > STUCK_MS)
            stuck(w);
    } while (live > 0);
    return NULL;
}

static void interrupted(int sig) { (void)sig; }

/* Without SA_RESTART, so that system calls really end with EINTR. */
static void start_signals(void)
{
    const struct sigaction action = {.sa_handler = interrupted};
    const struct itimerval every = {{0, 1000}, {0, 1000}};

    CHECK(NULL, sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(NULL, setitimer(ITIMER_REAL, &every, NULL) == 0);
}

static void add_edge(int from, int to, uint32_t ctx)
{
    int side;

    for (side = 0; side < 2; side++)
        if ((side == 0 ? from : to) == mp_rank)
            ends[n_ends++] = (struct end){.writer = side == 0, .from = from, .to = to, .ctx = ctx};
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f == NULL || fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f != NULL)
        fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    long seconds = mp_number(argc, argv, 2), before;
    int rank, i, threads = mp_asked(argc, argv, "-threads") ? THREADS : 1;
    uint32_t ctx;
    struct worker sum = {0};

    thread_sync = mp_asked(argc, argv, "-sync");
    mp_begin(argc, argv, 1);
    for (rank = 0; rank < mp_ranks; rank++) {
        for (ctx = 0; ctx < 2; ctx++) {
            add_edge(rank, rank, ctx);
            if (mp_ranks > 1)
                add_edge(rank, (rank + 1) % mp_ranks, ctx);
            if (mp_ranks > 3)
                add_edge(rank, (rank + 3) % mp_ranks, ctx);
        }
    }
    if (mp_asked(argc, argv, "-signals"))
        start_signals();
    before = resident_kib();
    stop_at = now_ms() + 1e3 * (double)seconds;
    for (i = 0; i < n_ends; i++)
        workers[i % threads].end[workers[i % threads].ends++] = &ends[i];
    for (i = 0; i < threads; i++) {
        workers[i].random = mp_seed * 31 + (uint64_t)mp_rank * 1000003 + (uint64_t)i * 7919;
        CHECK(NULL, pthread_create(&workers[i].thread, NULL, serve, &workers[i]) == 0);
    }
    for (i = 0; i < threads; i++) {
        CHECK(NULL, pthread_join(workers[i].thread, NULL) == 0);
        sum.messages += workers[i].messages;
        sum.bytes += workers[i].bytes;
        sum.incarnations += workers[i].incarnations;
        sum.grows += workers[i].grows;
    }
    printf("rank %d: %llu messages, %.1f MiB written, %llu ends opened, %llu segments grown, "
           "resident %ld KiB before, %ld "
           "after\n",
           mp_rank, (unsigned long long)sum.messages, (double)sum.bytes / (1 << 20),
           (unsigned long long)sum.incarnations, (unsigned long long)sum.grows, before,
           resident_kib());
    CHECK(NULL, sum.messages > 0);
    mp_end();
    return 0;
}
