/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_modes.c: every combination of heuristic and mode (table 3.1 of the thesis), both ways at once between two ranks.
 *
 *     mp_modes [SECONDS] [seed=N] [only=RUN] [-sleep] [-sample]         the default is 5 s
 *
 * A run is one combination of {PUT, GET}, heuristic, mode, watermark, sync_queue, unit, slots and heap from 0 to 1, and
 * another one from 1 to 0. The first laps see every {PUT, GET} x heuristic x mode x watermark x queue; after 40 laps each of
 * them has met every unit, ring and heap. Within a run, in phases: the writer allocates ahead, in another order than it
 * writes, gives some back unsent and sends less than it has allocated; the reader holds as many as heap and queue allow,
 * frees in any order, and checks each message again just before it frees it. Each phase ends with what rmalloc(3)
 * promises: everything is read and freed, nothing is unsent, so a request of the whole heap succeeds, and the statistics of
 * both ends agree. What does not move for STUCK_MS is a failure; it prints which run, and where both ends stand.
 */
#include "test/lib/mp_check.h"
#include "test/lib/counts.h"
#include <rpipe.h>

#include <errno.h>
#include <sched.h>

#define STUCK_MS 20000
#define AHEAD 8   /* messages allocated and not written */
#define HELD 1024 /* messages read and not freed: more than any queue or heap here allows */
#define PHASES 3

static const struct {
    rmalloc_fit_t algorithm;
    rpipe_sync_t sync;
} table[] = {
    {RMALLOC_NEXT_FIT, RPIPE_SYNC_BLOCKS},        {RMALLOC_NEXT_FIT, RPIPE_SYNC_TAGS},
    {RMALLOC_NEXT_FIT, RPIPE_SYNC_CHANNEL},       {RMALLOC_FIRST_FIT, RPIPE_SYNC_TAGS},
    {RMALLOC_FIRST_FIT, RPIPE_SYNC_CHANNEL},      {RMALLOC_BEST_FIT, RPIPE_SYNC_TAGS},
    {RMALLOC_BEST_FIT, RPIPE_SYNC_CHANNEL},       {RMALLOC_WORST_FIT, RPIPE_SYNC_TAGS},
    {RMALLOC_WORST_FIT, RPIPE_SYNC_CHANNEL},      {RMALLOC_RANDOM_FIT, RPIPE_SYNC_TAGS},
    {RMALLOC_RANDOM_FIT, RPIPE_SYNC_CHANNEL},     {RMALLOC_SEGREGATED_FIT, RPIPE_SYNC_TAGS},
    {RMALLOC_SEGREGATED_FIT, RPIPE_SYNC_CHANNEL},
};
static const int watermarks[] = {RPIPE_WATERMARK_ALWAYS, 50, 100};
static const uint32_t queues[] = {1, 2, 3, 0}, units[] = {1, 8, 64, 4096}, rings[] = {2, 64};
static const uint64_t heaps[] = {1, 2, 7, 50, 600}; /* in units */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MODES (2 * COUNT(table) * COUNT(watermarks) * COUNT(queues))
#define SHAPES (COUNT(units) * COUNT(rings) * COUNT(heaps))

/* One direction of one run, as both ranks have it. */
struct stream {
    uint64_t run;
    int from, to;
    rpipe_config_t cfg; /* what both ends give */
    uint64_t most;      /* bytes of the largest message */
    uint64_t number;    /* of messages, all phases together */
};

struct writer {
    const struct stream *s;
    rch_t ch;
    uint64_t next, until; /* message to write; and where the phase ends */
    raddr_t block[AHEAD]; /* of message n at n % AHEAD */
};

struct held {
    raddr_t d;
    size_t size;
    uint64_t number;
};

struct reader {
    const struct stream *s;
    rch_t ch;
    uint64_t next, until;
    size_t n, most; /* held, and at most in this phase */
    struct held held[HELD];
};

static struct writer writer;
static struct reader reader;
static uint64_t timing; /* of this rank alone: when, not what */
static uint64_t messages, bytes, pendings, nobufs, grows;

static uint64_t mine(void) { return random_mix(timing++); }
static bool now_and_then(unsigned one_in) { return mine() % one_in == 0; }
static uint64_t common(const struct stream *s, uint64_t what)
{
    return mp_key(s->from, s->to, (uint32_t)s->run, what);
}

/* ---- a failure prints where everything stands ---- */

static void tell_end(const char *which, const struct stream *s, rch_t ch, uint64_t next,
                     uint64_t until)
{
    const rpipe_config_t *c = &s->cfg;
    struct pipe_counts st = {0};

    fprintf(stderr,
            "rank %d: %s of %d>%d, seed=%llu only=%llu: %s algorithm %d sync %d watermark %d queue "
            "%u unit %u heap %llu "
            "(max %llu) slots %u inline %d flags %u; message %llu of %llu\n",
            mp_rank, which, s->from, s->to, (unsigned long long)mp_seed, (unsigned long long)s->run,
            c->op == RPIPE_PUT ? "PUT" : "GET", (int)c->heuristic, (int)c->mode, c->watermark,
            c->sync_queue, c->unit_bytes, (unsigned long long)c->heap_bytes,
            (unsigned long long)c->max_heap_bytes, c->slots, c->inline_max, c->flags,
            (unsigned long long)next, (unsigned long long)until);
    if (ch == NULL || pipe_counts(ch, &st) != 0)
        return;
    fprintf(stderr,
            "    messages %llu inline %llu held %llu fetches %llu stalls ring %llu heap %llu queue "
            "%llu, sleeps %llu wakes "
            "%llu, heap %llu of %llu, returned %llu, grows %llu refused %llu; %s\n",
            (unsigned long long)st.messages, (unsigned long long)st.inline_messages,
            (unsigned long long)st.held, (unsigned long long)st.credit_fetches,
            (unsigned long long)st.stalls_ring, (unsigned long long)st.stalls_heap,
            (unsigned long long)st.stalls_queue, (unsigned long long)st.sleeps,
            (unsigned long long)st.wakes, (unsigned long long)st.heap_used,
            (unsigned long long)st.heap_bytes, (unsigned long long)st.returned,
            (unsigned long long)st.grows, (unsigned long long)st.grow_refused, rerror(ch));
}

static void print_context(void)
{
    fflush(stdout);
    if (writer.s == NULL)
        return;
    tell_end("writer", writer.s, writer.ch, writer.next, writer.until);
    tell_end("reader", reader.s, reader.ch, reader.next, reader.until);
    fprintf(stderr, "    %zu held, at most %zu\n", reader.n, reader.most);
}

/* ---- a run ---- */

static void draw_stream(struct stream *s, uint64_t run, int from)
{
    uint64_t mode = run % MODES, shape = (run / MODES + random_mix(mp_seed ^ mode)) % SHAPES, unit,
             heap;
    rpipe_config_t *c = &s->cfg;

    *s = (struct stream){.run = run, .from = from, .to = 1 - from};
    *c = (rpipe_config_t){0};
    c->op = mode % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
    c->heuristic = table[mode / 2 % COUNT(table)].algorithm;
    c->mode = table[mode / 2 % COUNT(table)].sync;
    c->watermark = watermarks[mode / 2 / COUNT(table) % COUNT(watermarks)];
    c->sync_queue = queues[mode / 2 / COUNT(table) / COUNT(watermarks)];
    c->unit_bytes = units[shape % COUNT(units)];
    c->slots = rings[shape / COUNT(units) % COUNT(rings)];
    unit = c->unit_bytes;
    heap = heaps[shape / COUNT(units) / COUNT(rings)] * unit;
    if (common(s, 1) % 3 == 0) /* the last unit may be short */
        heap -= common(s, 2) % unit;
    c->heap_bytes = heap;
    if (common(s, 3) % 4 == 0)
        c->max_heap_bytes = heap + common(s, 4) % (8 * heap + 1);
    c->seed = common(s, 5);
    c->inline_max =
        on_device_heap() ? RPIPE_INLINE_NONE : (int[]){RPIPE_INLINE_NONE, 8, 40}[common(s, 6) % 3];
    c->grow_after_us = 1 + (uint32_t)(common(s, 7) % 2000);
    c->flags = common(s, 8) % 8 == 0 ? RPIPE_THREADS : 0;
    s->most = heap;
    s->number = heap > 100000 ? 30 : 90;
}

static rch_t open_end(const struct stream *s, bool writes)
{
    rpipe_config_t c = s->cfg;
    rch_t ch;

    c.peer = writes ? s->to : s->from;
    c.role = writes ? RPIPE_WRITER : RPIPE_READER;
    c.timeout_ms = now_and_then(4) ? 1 : R_AT_ONCE;
    CHECK_OK(NULL, rpipe(&ch, &c));
    return ch;
}

static size_t size_of(const struct stream *s, uint64_t number)
{
    uint64_t r = common(s, 1000 + 2 * number), x = r >> 8;

    switch (r % 16) {
    case 0:
        return 0;
    case 1:
    case 2:
    case 3:
        return x % (s->most < 41 ? s->most + 1 : 41);
    case 4:
    case 5:
        return x % (s->most / 2 + 1);
    case 6:
        return x % (s->most + 1);
    case 7:
        return s->most;
    default:
        return x % (s->most / 16 + 2 < s->most + 1 ? s->most / 16 + 2 : s->most + 1);
    }
}

static uint64_t key_of(const struct stream *s, uint64_t number)
{
    return common(s, 1001 + 2 * number);
}

/* ---- the writer: true if it has done something ---- */

static void give_back_one_ahead(struct writer *w)
{
    uint64_t i, first = mine() % AHEAD;

    for (i = 0; i < AHEAD; i++) {
        raddr_t *d = &w->block[(first + i) % AHEAD];

        if (*d == ADDR_NULL)
            continue;
        CHECK_OK(w->ch, rfree(w->ch, *d));
        *d = ADDR_NULL;
        return;
    }
    CHECK(w->ch,
          false && "the code is that its own blocks stand in the way, and the writer has none");
}

static bool allocate(struct writer *w)
{
    uint64_t ahead = w->until - w->next < AHEAD ? w->until - w->next : AHEAD, number;
    size_t size, more;
    raddr_t *d, got = ADDR_NULL;
    bool any = false;
    int rc, i;

    if (ahead == 0)
        return false;
    number = w->next + (now_and_then(2) ? 0 : mine() % ahead);
    d = &w->block[number % AHEAD];
    if (*d != ADDR_NULL)
        return false;
    size = size_of(w->s, number);
    more = now_and_then(4) ? mine() % (w->s->most - size + 1) / 4 : 0;
    if (now_and_then(64))
        rc = (got = rmalloc(w->ch, size + more)) != ADDR_NULL ? 0 : -errno;
    else
        rc = rmalloc_nb(w->ch, size + more, &got);
    for (i = 0; i < AHEAD; i++)
        any = any || w->block[i] != ADDR_NULL;
    if (rc == -ENOBUFS) {
        nobufs++;
        CHECK(w->ch, any && w->s->cfg.flags == 0);
        if (number == w->next)
            give_back_one_ahead(w);
        return number == w->next;
    }
    if (rc == R_PENDING || rc == -ETIMEDOUT) {
        pendings++;
        /* with thread_sync only the caller can find that only its own blocks stand in the way */
        if (w->s->cfg.flags != 0 && any && number == w->next && now_and_then(8))
            give_back_one_ahead(w);
        return false;
    }
    CHECK_OK(w->ch, rc);
    CHECK(w->ch, rsize(w->ch, got) == size + more);
    pattern_fill(rmem(w->ch, got), size, key_of(w->s, number));
    (void)rset_tag(w->ch, got, number);
    *d = got;
    return true;
}

static bool write_next(struct writer *w)
{
    raddr_t *d = &w->block[w->next % AHEAD];
    size_t size;
    int rc;

    if (w->next == w->until || *d == ADDR_NULL)
        return false;
    size = size_of(w->s, w->next);
    CHECK(w->ch,
          pattern_same(rmem(w->ch, *d), size,
                       key_of(w->s, w->next))); /* what is unsent belongs to this end alone */
    if (rsize(w->ch, *d) != size)
        rc = rwrite_n(w->ch, *d, size);
    else
        rc = now_and_then(64) ? rwrite(w->ch, *d) : rwrite_nb(w->ch, *d);
    if (rc == R_PENDING || rc == -ETIMEDOUT)
        return false;
    CHECK_OK(w->ch, rc);
    *d = ADDR_NULL;
    w->next++;
    messages++;
    bytes += size;
    return true;
}

/* ---- the reader ---- */

static void free_one(struct reader *r)
{
    size_t i = mine() % r->n;
    struct held h = r->held[i];

    CHECK(r->ch, pattern_same(rmem(r->ch, h.d), h.size,
                              key_of(r->s, h.number))); /* it is unchanged since */
    CHECK_OK(r->ch, rfree(r->ch, h.d));
    r->held[i] = r->held[--r->n];
}

static bool read_next(struct reader *r)
{
    uint64_t header;
    size_t size;
    raddr_t d;
    int rc;

    if (r->next == r->until)
        return false;
    rc = now_and_then(64) ? rread(r->ch, &d, &size) : rread_nb(r->ch, &d, &size);
    if (rc == R_PENDING || rc == -ETIMEDOUT)
        return false;
    CHECK_OK(r->ch, rc);
    header = rtag(r->ch, d);
    CHECK(r->ch, header == r->next);
    CHECK(r->ch, size == size_of(r->s, r->next) && rsize(r->ch, d) == size);
    CHECK(r->ch, pattern_same(rmem(r->ch, d), size, key_of(r->s, r->next)));
    CHECK(r->ch, r->n < HELD);
    r->held[r->n++] = (struct held){d, size, r->next++};
    return true;
}

static bool serve_reader(struct reader *r)
{
    bool did = read_next(r);

    if (r->n > 0 && (r->n > r->most || (!did && now_and_then(4)) || r->next == r->until))
        free_one(r), did = true;
    if (!did && now_and_then(32))
        while (r->n > 0)
            free_one(r);
    return did;
}

/* ---- phases ---- */

/* The other rank is about to print where it stands, too. */
static void stuck(void)
{
    print_context();
    usleep(1000000);
    CHECK(writer.ch, false); /* no progress for a long time */
}

static void exchange(void)
{
    double moved = now_ms();
    unsigned idle = 0;

    while (writer.next < writer.until || reader.next < reader.until || reader.n > 0) {
        bool did = allocate(&writer);

        did = write_next(&writer) || did;
        did = serve_reader(&reader) || did;
        if (did) {
            idle = 0;
            continue;
        }
        if (idle++ == 0)
            moved = now_ms();
        sched_yield();
        if (now_ms() - moved > STUCK_MS)
            stuck();
    }
}

/*
 * Everything is freed at both sides, nothing is unsent: the manual specifies what holds then. More requests fill what may have
 * grown, until one is refused: so the writer has fetched all that has come back, and its statistics are exact.
 */
static void fill_and_empty(void)
{
    const struct stream *s = writer.s;
    raddr_t whole[12];
    int n = 1, rc = 0;

    whole[0] = rmalloc(writer.ch, s->most);
    CHECK(writer.ch, whole[0] != ADDR_NULL);
    if (s->cfg.inline_max < 0 || s->most > (uint64_t)s->cfg.inline_max) {
        while (n < (int)COUNT(whole) && (rc = rmalloc_nb(writer.ch, s->most, &whole[n])) == 0)
            n++;
        /* only unsent blocks stand in the way; but the heap may be about to grow, or another thread could send them */
        CHECK(writer.ch,
              rc == -ENOBUFS ||
                  (rc == -EPIPE && writer.next == s->number) || /* it may have closed by now */
                  (rc == R_PENDING && (s->cfg.flags != 0 || s->cfg.max_heap_bytes != 0)));
    }
    while (n > 0)
        CHECK_OK(writer.ch, rfree(writer.ch, whole[--n]));
}

static void at_rest(void)
{
    const struct stream *s = writer.s;
    struct pipe_counts w = {0}, r = {0};
    double began = now_ms();

    CHECK_OK(NULL, network_barrier());
    CHECK_OK(writer.ch, rset_timeout(writer.ch, STUCK_MS));
    do { /* what was found is there at once, or, on a network, soon */
        fill_and_empty();
        CHECK_OK(writer.ch, pipe_counts(writer.ch, &w));
    } while (w.returned != w.messages - w.inline_messages && !mp_at_once(writer.ch) &&
             now_ms() - began < STUCK_MS);
    CHECK(writer.ch, w.held == 0 && w.heap_used == 0 && w.messages == writer.next);
    CHECK(writer.ch, w.returned == w.messages - w.inline_messages);
    CHECK(writer.ch, w.heap_bytes >= s->cfg.heap_bytes && w.grow_refused == 0);
    CHECK(writer.ch, s->cfg.max_heap_bytes != 0 || w.grows == 0);
    CHECK_OK(reader.ch, pipe_counts(reader.ch, &r));
    CHECK(reader.ch, r.held == 0 && r.heap_used == 0 && r.messages == reader.next);
    CHECK(reader.ch, r.returned == r.messages - r.inline_messages);
    CHECK_OK(writer.ch, rset_timeout(writer.ch, now_and_then(4) ? 1 : R_AT_ONCE));
    if (!mp_at_once(writer.ch)) /* no end closes before the other's loop has ended */
        CHECK_OK(NULL, network_barrier());
}

static void run(uint64_t number)
{
    struct stream out, in;
    struct pipe_counts st = {0};
    uint64_t phase;
    raddr_t d;

    draw_stream(&out, number + (mp_rank == 0 ? 0 : MODES * SHAPES / 2 + 7), mp_rank);
    draw_stream(&in, number + (mp_rank == 1 ? 0 : MODES * SHAPES / 2 + 7), 1 - mp_rank);
    writer = (struct writer){.s = &out};
    memset(&reader, 0, offsetof(struct reader, held));
    reader.s = &in;
    if (now_and_then(2))
        reader.ch = open_end(&in, false);
    writer.ch = open_end(&out, true);
    if (reader.ch == NULL)
        reader.ch = open_end(&in, false);
    for (phase = 0; phase < PHASES; phase++) {
        writer.until += out.number / PHASES;
        reader.until += in.number / PHASES;
        reader.most = (size_t[]){0, 1, 5, HELD - 1}[mine() % 4];
        exchange();
        at_rest();
    }
    CHECK_OK(writer.ch, pipe_counts(writer.ch, &st));
    grows += st.grows;
    /* of rclose, which on a network waits for what is outstanding */
    CHECK_OK(writer.ch, rset_timeout(writer.ch, STUCK_MS));
    CHECK_OK(reader.ch, rset_timeout(reader.ch, STUCK_MS));
    if (now_and_then(2)) {
        CHECK_OK(writer.ch, rclose(writer.ch));
        writer.ch = NULL;
        CHECK(reader.ch, rread(reader.ch, &d, NULL) == R_EOF);
    }
    CHECK_OK(reader.ch, rclose(reader.ch));
    reader.ch = NULL;
    if (writer.ch != NULL)
        CHECK_OK(writer.ch, rclose(writer.ch));
    writer.s = NULL;
}

static uint64_t argument(int argc, char **argv, const char *name, uint64_t fallback)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, strlen(name)) == 0)
            fallback = strtoull(argv[i] + strlen(name), NULL, 0);
    return fallback;
}

int main(int argc, char **argv)
{
    double seconds = (double)mp_number(argc, argv, 5), begun;
    uint64_t i, only = argument(argc, argv, "only=", UINT64_MAX);
    bool sample =
        mp_asked(argc, argv, "-sample"); /* from anywhere, as far as it comes: for slow networks */
    char go = 1, all[2];

    if (mp_asked(argc, argv, "-sleep"))
        setenv("RPIPE_WAIT", "sleep", 1);
    mp_begin(argc, argv, 2);
    check_context = print_context;
    if (mp_ranks != 2)
        return 1;
    begun = now_ms();
    for (i = sample ? mp_seed % (MODES * SHAPES) : 0; go != 0; i++) {
        timing = random_mix(mp_seed ^ random_mix(i * 2 + (uint64_t)mp_rank));
        run(only != UINT64_MAX ? only % (MODES * SHAPES) : i);
        if (i + 1 < MODES && only == UINT64_MAX && !sample)
            continue; /* at least one lap, however long it takes */
        go = now_ms() - begun < 1e3 * seconds;
        CHECK_OK(NULL, network_allgather(&go, 1, all));
        go = all[0];
    }
    printf("rank %d: %llu runs of %zu combinations, %llu messages, %.1f MiB, %llu times pending, "
           "%llu times ENOBUFS, %llu "
           "segments grown\n",
           mp_rank, (unsigned long long)i, MODES * SHAPES, (unsigned long long)messages,
           (double)bytes / (1 << 20), (unsigned long long)pendings, (unsigned long long)nobufs,
           (unsigned long long)grows);
    return mp_end();
}
