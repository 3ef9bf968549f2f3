/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs of channels between all ranks: ring, star, pairs in both directions, all to all (oneself too), several ctx
 * per pair. Each rank opens its ends in a random order of its own; one rank is late, one opens and then calls nothing
 * until all its peers have joined. Every message is checked. No order of opening may wait for another.
 */
#include "test/lib/mp_check.h"
#include <sched.h>
#include <signal.h>

enum { MESSAGES = 40, HEAP = 4096 };

struct end {
    rch_t ch;
    int peer;
    uint32_t ctx;
    bool writer;
    rpipe_op_t op;
    uint64_t done; /* messages */
    bool ended;
};

enum shape { RING, STAR, PAIRS, ALL, SHAPES };
static const char *const names[] = {"ring", "star", "pairs", "all to all"};

static uint32_t edges(enum shape shape, int from, int to)
{
    switch (shape) {
    case RING:
        return to == (from + 1) % mp_ranks;
    case STAR:
        return (from == 0) != (to == 0);
    case PAIRS: /* neighbours, 3 channels each way */
        return from != to && from / 2 == to / 2 ? 3 : 0;
    default:
        return from == to ? 1 : 1 + (uint32_t)((from + to) % 2);
    }
}

static size_t collect(enum shape shape, uint32_t base, struct end *ends)
{
    size_t n = 0;

    for (int peer = 0; peer < mp_ranks; peer++) {
        for (int role = 0; role < 2; role++) {
            uint32_t many = role == 0 ? edges(shape, mp_rank, peer) : edges(shape, peer, mp_rank);

            for (uint32_t i = 0; i < many; i++, n++)
                if (ends != NULL)
                    ends[n] = (struct end){.peer = peer,
                                           .ctx = base + i,
                                           .writer = role == 0,
                                           .op = (base + i) % 2 == 0 ? RPIPE_PUT : RPIPE_GET};
        }
    }
    return n;
}

static uint64_t key_of(const struct end *e)
{
    return e->writer ? mp_key(mp_rank, e->peer, e->ctx, e->done)
                     : mp_key(e->peer, mp_rank, e->ctx, e->done);
}

static size_t size_of(uint64_t key) { return random_mix(~key) % (key % 3 == 0 ? 41 : 900); }

/* what this end can do now without waiting; whether it did anything */
static bool step(struct end *e)
{
    uint64_t key = key_of(e);
    size_t size = size_of(key), got;
    raddr_t d;
    int rc;

    if (e->ended)
        return false;
    if (e->writer) {
        if (e->done == MESSAGES) {
            CHECK_OK(e->ch, rclose(e->ch));
            e->ended = true;
            return true;
        }
        rc = rmalloc_nb(e->ch, size, &d);
        if (rc == R_PENDING)
            return false;
        CHECK_OK(e->ch, rc);
        pattern_fill(rmem(e->ch, d), size, key);
        rc = rwrite_nb(e->ch, d);
        if (rc == R_PENDING) {
            CHECK_OK(e->ch, rfree(e->ch, d));
            return false;
        }
        CHECK_OK(e->ch, rc);
    } else {
        rc = rread_nb(e->ch, &d, &got);
        if (rc == R_PENDING)
            return false;
        if (rc == R_EOF) {
            CHECK(e->ch, e->done == MESSAGES);
            CHECK_OK(e->ch, rclose(e->ch));
            e->ended = true;
            return true;
        }
        CHECK_OK(e->ch, rc);
        CHECK(e->ch, e->done < MESSAGES && got == size && pattern_same(rmem(e->ch, d), size, key));
        CHECK_OK(e->ch, rfree(e->ch, d));
    }
    e->done++;
    return true;
}

static void open_all(struct end *ends, size_t n, uint64_t salt)
{
    uint64_t state = random_mix(salt) + (uint64_t)mp_rank * 1000;
    size_t *order = calloc(n + 1, sizeof(*order));

    CHECK(NULL, order != NULL);
    mp_shuffle(order, n, &state);
    for (size_t i = 0; i < n; i++) {
        struct end *e = &ends[order[i]];

        CHECK_OK(NULL, mp_open(&e->ch, e->writer, e->peer, e->ctx, e->op, HEAP, 8));
    }
    free(order);
}

/* until all is sent and read; when nothing moves, this process waits for one of its readers, or gives way */
static void run(struct end *ends, size_t n)
{
    rch_t *readers = calloc(n + 1, sizeof(rch_t));
    int *ready = calloc(n + 1, sizeof(int));

    CHECK(NULL, readers != NULL && ready != NULL);
    while (true) {
        bool moved = false, writing = false;
        int m = 0;

        for (size_t i = 0; i < n; i++) {
            moved |= step(&ends[i]);
            if (!ends[i].ended) {
                writing |= ends[i].writer;
                if (!ends[i].writer)
                    readers[m++] = ends[i].ch;
            }
        }
        if (m == 0 && !writing)
            break;
        if (moved)
            continue;
        if (writing)
            sched_yield();
        else
            CHECK_OK(NULL, rpoll(readers, m, ready, 60000));
    }
    free(readers);
    free(ready);
}

/* a graph; the late rank opens its ends after it has computed for a while */
static void graph(enum shape shape, uint32_t base, int late)
{
    size_t n = collect(shape, base, NULL);
    struct end *ends = calloc(n + 1, sizeof(*ends));

    CHECK(NULL, ends != NULL);
    collect(shape, base, ends);
    if (mp_rank == late)
        compute_ms(100);
    open_all(ends, n, base);
    run(ends, n);
    free(ends);
}

/* a ring with calls that wait: a rank that waits for a message may not keep others from joining */
static void blocking_ring(uint32_t base)
{
    int next = (mp_rank + 1) % mp_ranks, previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    rch_t w, r;
    raddr_t d;

    if (random_mix(mp_seed ^ (uint64_t)mp_rank) % 2 == 0) {
        CHECK_OK(NULL, mp_open(&w, true, next, base, RPIPE_PUT, HEAP, 2));
        CHECK_OK(NULL, mp_open(&r, false, previous, base, RPIPE_PUT, HEAP, 2));
    } else {
        CHECK_OK(NULL, mp_open(&r, false, previous, base, RPIPE_PUT, HEAP, 2));
        CHECK_OK(NULL, mp_open(&w, true, next, base, RPIPE_PUT, HEAP, 2));
    }
    for (uint64_t i = 0; i < 100; i++) {
        mp_send(w, HEAP / 2, mp_key(mp_rank, next, base, i));
        mp_read_free(r, HEAP / 2, mp_key(previous, mp_rank, base, i));
    }
    CHECK_OK(w, rclose(w));
    CHECK_RC(R_EOF, r, rread(r, &d, NULL));
    CHECK_OK(r, rclose(r));
}

/*
 * Rank 0 opens its ends, and then calls nothing of the library until every peer has reported by a signal that rwait()
 * has succeeded there, and that it has written. Peers on other hosts cannot signal it, and have no part in this.
 */
static volatile sig_atomic_t received;

static void on_signal(int number)
{
    (void)number;
    received++;
}

struct process {
    pid_t pid;
    char host[40]; /* of its kernel, since it was booted */
};

static void joins_while_computing(uint32_t base)
{
    struct sigaction act = {.sa_handler = on_signal};
    struct process me = {.pid = getpid()}, *process = calloc((size_t)mp_ranks, sizeof(*process));
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "re");
    int near_peers = 0;
    rch_t *w = calloc((size_t)mp_ranks, sizeof(rch_t)),
          *r = calloc((size_t)mp_ranks, sizeof(rch_t));
    const union sigval nothing = {0};

    CHECK(NULL, process != NULL && w != NULL && r != NULL);
    CHECK(NULL, boot != NULL && fgets(me.host, sizeof(me.host), boot) != NULL);
    fclose(boot);
    CHECK(NULL, sigaction(SIGRTMIN, &act, NULL) == 0);
    CHECK_OK(NULL, network_allgather(&me, sizeof(me), process));
    if (mp_rank == 0) {
        double end;

        for (int i = 1; i < mp_ranks; i++) {
            if (strcmp(process[i].host, me.host) != 0)
                continue;
            near_peers++;
            CHECK_OK(NULL,
                     mp_open(&r[i], false, i, base, i % 2 == 0 ? RPIPE_PUT : RPIPE_GET, HEAP, 8));
            CHECK_OK(NULL,
                     mp_open(&w[i], true, i, base, i % 2 == 0 ? RPIPE_GET : RPIPE_PUT, HEAP, 8));
        }
        end = now_ms() + 30000;
        while (received < near_peers)
            if (now_ms() > end)
                REQUIRE(false, "peers do not join while this rank computes");
        for (int i = 1; i < mp_ranks; i++) {
            raddr_t d;
            size_t size;

            if (strcmp(process[i].host, me.host) != 0)
                continue;
            CHECK_OK(r[i], mp_at_once(r[i]) ? rread_nb(r[i], &d, &size)
                                            : rread(r[i], &d, &size)); /* is there without a wait */
            CHECK(r[i], size == 1000 && pattern_same(rmem(r[i], d), size, mp_key(i, 0, base, 0)));
            mp_send(w[i], 1000, mp_key(0, i, base, 0));
            CHECK_OK(r[i], rclose(r[i]));
            CHECK_OK(w[i], rclose(w[i]));
        }
    } else if (strcmp(process[0].host, me.host) == 0) {
        CHECK_OK(NULL,
                 mp_open(&w[0], true, 0, base, mp_rank % 2 == 0 ? RPIPE_PUT : RPIPE_GET, HEAP, 8));
        CHECK_OK(NULL,
                 mp_open(&r[0], false, 0, base, mp_rank % 2 == 0 ? RPIPE_GET : RPIPE_PUT, HEAP, 8));
        CHECK_OK(w[0], rwait(w[0]));
        CHECK_OK(r[0], rwait(r[0]));
        mp_send(w[0], 1000, mp_key(mp_rank, 0, base, 0));
        CHECK(NULL, sigqueue(process[0].pid, SIGRTMIN, nothing) == 0);
        mp_read_free(r[0], 1000, mp_key(0, mp_rank, base, 0));
        CHECK_OK(r[0], rclose(r[0]));
        CHECK_OK(w[0], rclose(w[0]));
    }
    free(process);
    free(w);
    free(r);
}

int main(int argc, char **argv)
{
    uint32_t base = 0;

    mp_begin(argc, argv, 1);
    for (int shape = RING; shape < SHAPES; shape++) {
        int late = (int)(random_mix(mp_seed + (uint64_t)shape) % (uint64_t)mp_ranks);
        double begun = now_ms();

        graph((enum shape)shape, base, -1);
        base += 10;
        graph((enum shape)shape, base, late);
        base += 10;
        if (mp_rank == 0)
            printf("%s, then with rank %d late: %.0f ms\n", names[shape], late, now_ms() - begun);
    }
    blocking_ring(base);
    base += 10;
    joins_while_computing(base);
    return mp_end();
}
