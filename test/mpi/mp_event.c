/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rfd with epoll(7): rank 0 reads from several channels of every other rank and sleeps in epoll_wait alone,
 * without a deadline in the calls of the library. Both loops of rfd(3): one rread_nb per wake-up, and rread_nb
 * until R_PENDING. Descriptors from before the join and from after it; writers that stop and go; the close wakes.
 */
#include "test/lib/mp_check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>

enum { PER_PEER = 3, MESSAGES = 300, HEAP = 4096 };

struct source {
    rch_t ch;
    int peer;
    uint32_t ctx;
    uint64_t got;
};

static rpipe_op_t op_of(uint32_t ctx) { return ctx % 2 == 0 ? RPIPE_PUT : RPIPE_GET; }

static size_t size_of(uint64_t key) { return random_mix(~key) % (key % 2 == 0 ? 41 : 800); }

/* bursts, with pauses in which the reader empties the channels and falls asleep */
static void writer(uint32_t base)
{
    uint64_t state = base + (uint64_t)mp_rank * 100, sent[PER_PEER] = {0};
    rch_t ch[PER_PEER];
    char word;

    for (uint32_t i = 0; i < PER_PEER; i++)
        CHECK_OK(NULL, mp_open(&ch[i], true, 0, base + i, op_of(base + i), HEAP, 8));
    for (int left = PER_PEER; left > 0;) {
        uint32_t k = (uint32_t)(mp_draw(&state) % PER_PEER);
        uint64_t burst = 1 + mp_draw(&state) % 20;

        if (sent[k] > MESSAGES)
            continue;
        for (; burst > 0 && sent[k] < MESSAGES; burst--) {
            uint64_t key = mp_key(mp_rank, 0, base + k, sent[k]++);

            mp_send(ch[k], size_of(key), key);
        }
        if (mp_draw(&state) % 8 == 0)
            compute_ms(1);
        if (sent[k] == MESSAGES) {
            sent[k]++;
            left--;
            if (k != 0)
                CHECK_OK(ch[k], rclose(ch[k]));
        }
    }
    /* the last one is closed only when the reader has seen all there was: nothing but the close can wake it */
    CHECK_OK(NULL, network_recv(0, &word, 1));
    CHECK_OK(ch[0], rclose(ch[0]));
}

static void reader(uint32_t base, bool until_pending, bool fd_first)
{
    size_t n = (size_t)(mp_ranks - 1) * PER_PEER, ended = 0, quiet = 0, reported = 0;
    struct source *s = calloc(n, sizeof(*s));
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(EPOLL_CLOEXEC);
    uint64_t wakes = 0, empty = 0;

    CHECK(NULL, s != NULL && set >= 0);
    for (size_t i = 0; i < n; i++) {
        s[i].peer = 1 + (int)(i / PER_PEER);
        s[i].ctx = base + (uint32_t)(i % PER_PEER);
        CHECK_OK(NULL, mp_open(&s[i].ch, false, s[i].peer, s[i].ctx, op_of(s[i].ctx), HEAP, 8));
        if (!fd_first)
            CHECK_OK(s[i].ch, rwait(s[i].ch));
        event.data.ptr = &s[i];
        CHECK(s[i].ch, epoll_ctl(set, EPOLL_CTL_ADD, rfd(s[i].ch), &event) == 0);
    }
    while (ended < n) {
        int k = epoll_wait(set, &event, 1, 30000), rc;
        struct source *me = event.data.ptr;
        raddr_t d;
        size_t size;

        if (k != 1)
            REQUIRE(false, "no descriptor became readable in 30 s");
        wakes++;
        rc = rread_nb(me->ch, &d, &size);
        empty += rc == R_PENDING;
        for (; rc == R_SUCCESS; rc = rread_nb(me->ch, &d, &size)) {
            uint64_t key = mp_key(me->peer, 0, me->ctx, me->got++);

            CHECK(me->ch, size == size_of(key) && pattern_same(rmem(me->ch, d), size, key));
            CHECK_OK(me->ch, rfree(me->ch, d));
            if (me->got == MESSAGES && me->ctx == base)
                quiet++;
            if (!until_pending)
                break;
        }
        if (rc == R_EOF) {
            CHECK(me->ch, me->got == MESSAGES);
            CHECK(me->ch, epoll_ctl(set, EPOLL_CTL_DEL, rfd(me->ch), NULL) == 0);
            CHECK_OK(me->ch, rclose(me->ch));
            ended++;
        } else {
            CHECK(me->ch, rc == R_SUCCESS || rc == R_PENDING);
        }
        /* all but the close of the last ones is over */
        if (reported == 0 && quiet == (size_t)mp_ranks - 1 && ended == n - quiet) {
            char word = 0;

            for (int i = 1; i < mp_ranks; i++)
                CHECK_OK(NULL, network_send(i, &word, 1));
            reported = 1;
        }
    }
    printf("%s, descriptor %s the join: %llu wake-ups, %llu for nothing\n",
           until_pending ? "until R_PENDING" : "one per wake-up", fd_first ? "before" : "after",
           (unsigned long long)wakes, (unsigned long long)empty);
    CHECK(NULL, close(set) == 0);
    free(s);
}

/* a channel to which nothing comes: its descriptor comes to rest, the process sleeps */
static void rest(uint32_t ctx)
{
    struct epoll_event event = {.events = EPOLLIN};
    double end = now_ms() + 20000;
    int set = epoll_create1(EPOLL_CLOEXEC);
    char word = 0;
    raddr_t d;
    rch_t ch;

    if (mp_rank == 0) {
        CHECK_OK(NULL, mp_open(&ch, false, 1, ctx, RPIPE_PUT, HEAP, 8));
        CHECK(ch, epoll_ctl(set, EPOLL_CTL_ADD, rfd(ch), &event) == 0);
        mp_read_free(ch, 100, mp_key(1, 0, ctx, 0));
        while (epoll_wait(set, &event, 1, 2) == 1) {
            CHECK_RC(R_PENDING, ch, rread_nb(ch, &d, NULL));
            CHECK(ch, now_ms() < end);
        }
        CHECK_OK(NULL, network_send(1, &word, 1));
        CHECK(ch, epoll_wait(set, &event, 1, 30000) == 1); /* from sleep */
        mp_read_free(ch, 100, mp_key(1, 0, ctx, 1));
        CHECK_OK(ch, rclose(ch));
    } else if (mp_rank == 1) {
        CHECK_OK(NULL, mp_open(&ch, true, 0, ctx, RPIPE_PUT, HEAP, 8));
        mp_send(ch, 100, mp_key(1, 0, ctx, 0));
        CHECK_OK(NULL, network_recv(0, &word, 1));
        mp_send(ch, 100, mp_key(1, 0, ctx, 1));
        CHECK_OK(ch, rclose(ch));
    }
    close(set);
}

static void await_rank(int from)
{
    char word;

    CHECK_OK(NULL, network_recv(from, &word, 1));
}

static void signal_rank(int to)
{
    char word = 0;

    CHECK_OK(NULL, network_send(to, &word, 1));
}

/* The reader's descriptor reaches a writer that has no number left for it, and opens its end later: it cannot be signaled, and stays
 * readable. */
static void no_number_left(uint32_t ctx)
{
    struct rlimit before, none;
    struct pollfd p = {.events = POLLIN};
    raddr_t d;
    rch_t ch;

    if (mp_rank == 0) {
        CHECK_OK(NULL, mp_open(&ch, false, 1, ctx, RPIPE_PUT, HEAP, 8));
        signal_rank(1);
        await_rank(1);
        p.fd = rfd(ch);
        CHECK(ch, p.fd >= 0);
        signal_rank(1);
        await_rank(
            1); /* the ends are joined, and what the writer has sent about the descriptor has been received */
        for (int i = 0; i < 10; i++)
            CHECK_RC(R_PENDING, ch, rread_nb(ch, &d, NULL));
        signal_rank(1);
        CHECK(ch, poll(&p, 1, 30000) == 1);
        mp_read_free(ch, 100, mp_key(1, 0, ctx, 0));
        signal_rank(1);
        CHECK_OK(ch, rclose(ch));
    } else if (mp_rank == 1) {
        await_rank(0);
        CHECK(NULL, getrlimit(RLIMIT_NOFILE, &before) == 0);
        none = before;
        none.rlim_cur = 0;
        CHECK(NULL, setrlimit(RLIMIT_NOFILE, &none) == 0);
        signal_rank(0);
        await_rank(0); /* behind the descriptor */
        CHECK(NULL, setrlimit(RLIMIT_NOFILE, &before) == 0);
        CHECK_OK(NULL, mp_open(&ch, true, 0, ctx, RPIPE_PUT, HEAP, 8));
        CHECK_OK(ch, rwait(ch));
        signal_rank(0);
        await_rank(0);
        mp_send(ch, 100, mp_key(1, 0, ctx, 0));
        await_rank(0); /* the close would make it readable, too */
        CHECK_OK(ch, rclose(ch));
    }
}

int main(int argc, char **argv)
{
    uint32_t base = 0;

    mp_begin(argc, argv, 2);
    for (int way = 0; way < 4; way++, base += 10) {
        if (mp_rank == 0)
            reader(base, way % 2 != 0, way < 2);
        else
            writer(base);
    }
    for (int i = 0; i < 20; i++)
        rest(base++);
    no_number_left(base++);
    return mp_end();
}
