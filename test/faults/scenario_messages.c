/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario_messages.c: messages by tag of the two ends, by each of their protocols, while one of them dies or is stopped: see
 * scenario_ends.h.
 *
 * Each round has a small message; a large one whose send comes first, one whose receive comes first, and one whose offer and
 * advertisement cross, for which the ranks wait for each other by the board, and not by messages; an advertised receive that is cancelled;
 * more payloads than there are cells, so that some go as parts. Every payload that is reported complete is compared. At last rank 0 closes
 * its context, which the other one is informed of. Over a network the large payloads go from buffer to buffer.
 */
#include "scenario_ends.h"

#include <rmsg.h>

enum { ROUNDS = 2, LARGE = 150000, MANY = 34, SHORT = 5000, TAG_SMALL = 1, TAG_LARGE, TAG_MANY };

struct messages {
    struct player *p;
    rmsg_t msg;
    int steps; /* on the board */
};

static char out[LARGE], in[LARGE], many[MANY][SHORT];

static struct board_rank *board_of(const struct messages *m, int rank)
{
    return &m->p->board->rank[rank];
}

/* Both ranks have come here, or one has died. No message is read meanwhile. */
static void step(struct messages *m)
{
    atomic_store(&board_of(m, m->p->rank)->attached, ++m->steps);
    while (atomic_load(&board_of(m, m->p->peer)->attached) < m->steps &&
           atomic_load(&m->p->board->killed) == 0)
        backoff_us(20);
}

static int end_of(rmsg_t msg, rmsg_request_t *r, struct player *p, int expected)
{
    int rc;

    (void)expected;
    do
        rc = rmsg_wait(msg, r, NULL, 0);
    while (scene_once_more(p, rc));
    REQUIRE(rc == 0 || rc == expected || rc == -EPIPE || rc == -ECONNRESET, "%d: %s", rc,
            rerror(NULL));
    return rc == expected ? 0 : rc;
}

static int over(struct messages *m, rmsg_request_t *r) { return end_of(m->msg, r, m->p, 0); }

/* Calls that only begin: they fail where the link has ended. */
static int begun(int rc)
{
    REQUIRE(rc == 0 || rc == -EPIPE || rc == -ECONNRESET, "%d: %s", rc, rerror(NULL));
    return rc;
}

static int receive(struct messages *m, uint32_t tag, void *buf, size_t bytes, rmsg_request_t *r)
{
    return begun(rmsg_irecv(m->msg, m->p->peer, 0, tag, buf, bytes, r, 0));
}

static int send(struct messages *m, uint32_t tag, const void *buf, size_t bytes, int flags,
                rmsg_request_t *r)
{
    return begun(rmsg_isend(m->msg, m->p->peer, 0, tag, buf, bytes, r, flags));
}

static int small(struct messages *m)
{
    rmsg_request_t r[2] = {0, 0};
    uint64_t value = 4711, got = 0;
    int rc = receive(m, TAG_SMALL, &got, sizeof(got), &r[0]);

    if (rc == 0)
        rc = send(m, TAG_SMALL, &value, sizeof(value), 0, &r[1]);
    if (rc == 0)
        rc = over(m, &r[0]);
    if (rc == 0)
        CHECK(NULL, got == value);
    return rc == 0 ? over(m, &r[1]) : rc;
}

/* The first rank begins, then the other one, then both wait. crossing: neither reads before both have begun. */
static int large(struct messages *m, bool send_first, bool crossing, uint64_t key)
{
    const bool sends = m->p->rank == 0, first = sends == send_first;
    rmsg_request_t r = 0;
    int rc = 0;

    if (crossing) /* the other rank has left its last call, in which it would read the offer */
        step(m);
    if (!first)
        step(m);
    if (!first && !crossing) /* it has the offer, or the advertisement */
        rc = rmsg_progress(m->msg);
    pattern_fill(out, LARGE, key);
    if (rc == 0)
        rc = sends ? send(m, TAG_LARGE, out, LARGE, 0, &r) : receive(m, TAG_LARGE, in, LARGE, &r);
    if (first)
        step(m);
    if (rc == 0)
        rc = over(m, &r);
    CHECK(NULL, rc != 0 || sends || pattern_same(in, LARGE, key));
    return rc;
}

/* Rank 1 cancels; the sender has the advertisement, or not. */
static int cancelled(struct messages *m)
{
    rmsg_request_t r = 0;
    int rc = 0;

    if (m->p->rank == 1) {
        rc = receive(m, TAG_LARGE, in, LARGE, &r);
        if (rc == 0)
            CHECK(NULL, rmsg_cancel(m->msg, r) == 0);
        if (rc == 0)
            rc = end_of(m->msg, &r, m->p, -ECANCELED);
    }
    return rc == 0 ? small(m) : rc; /* rank 0 answers meanwhile */
}

static int as_parts(struct messages *m)
{
    rmsg_request_t r[MANY] = {0};
    int rc = 0;

    for (int i = 0; i < MANY && rc == 0; i++) {
        if (m->p->rank == 0)
            pattern_fill(many[i], SHORT, (uint64_t)i);
        rc = m->p->rank == 0 ? send(m, TAG_MANY, many[i], SHORT, RMSG_SYNC, &r[i])
                             : receive(m, TAG_MANY, many[i], SHORT, &r[i]);
    }
    for (int i = 0; i < MANY && rc == 0; i++) {
        rc = over(m, &r[i]);
        CHECK(NULL, rc != 0 || pattern_same(many[i], SHORT, (uint64_t)i));
    }
    return rc;
}

static int play_rounds(struct messages *m)
{
    int rc = small(m);

    for (uint64_t i = 0; i < ROUNDS && rc == 0; i++) {
        rc = small(m);
        if (rc == 0)
            rc = large(m, true, false, i);
        if (rc == 0)
            rc = large(m, false, false, i + 100);
        if (rc == 0)
            rc = large(m, true, true, i + 200);
        if (rc == 0)
            rc = cancelled(m);
        if (rc == 0)
            rc = as_parts(m);
    }
    return rc;
}

int scene_messages(struct player *p)
{
    const rmsg_config_t cfg = {.heap_bytes = 1 << 17, .slots = 64, .timeout_ms = p->timeout_ms};
    struct messages m = {.p = p};
    rmsg_request_t r = 0;
    int rc;

    CHECK(NULL, rmsg_open(&m.msg, &cfg) == 0);
    rc = play_rounds(&m);
    if (rc == 0 && p->rank == 1) {
        rc = receive(&m, TAG_SMALL, NULL, 0, &r); /* rank 0 closes instead of sending */
        if (rc == 0)
            rc = over(&m, &r);
        CHECK(NULL, rc == -EPIPE || rc == -ECONNRESET);
        if (rc == -EPIPE && atomic_load(&p->board->killed) == 0)
            rc = 0;
    }
    CHECK(NULL, rmsg_close(m.msg) == 0);
    return rc;
}
