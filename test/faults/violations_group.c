/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations_group.c: one of the members of a group violates the protocol, see violations.h: it is lost, which is reported once, with its index; the others do not notice.
 */
#include "violations.h"
#include "test/lib/group.h"
#include <rinfo.h>
#include <rpipe.h>

#include "sync/seal.h"

#include <pthread.h>

#define PARTS 3
#define BYZANTINE 1 /* the index of the byzantine member */
#define MANY 40

static const int self[PARTS]; /* all of them rank 0 */

struct members {
    rgroup_t redux;
    rgroup_t scatter;
    rch_t end[PARTS];                 /* of the partners */
    uint64_t sent[PARTS], got[PARTS]; /* by the good ones */
};

static struct members members_open(rpipe_op_t op, bool redux)
{
    rpipe_config_t cfg = violations_config(!redux, op, violations_ctx());
    struct members c = {NULL, NULL, {NULL}, {0}, {0}};
    int i, rc;

    for (i = 1; i < PARTS; i++)
        (void)violations_ctx();
    rc = redux ? redux_open(&c.redux, &cfg, self, PARTS)
               : scatter_open(&c.scatter, &cfg, self, PARTS);
    CHECK(NULL, rc == 0);
    for (i = 0; i < PARTS; i++) {
        rpipe_config_t own = violations_config(redux, op, (uint32_t)cfg.context + (uint32_t)i);

        CHECK(NULL, rpipe(&c.end[i], &own) == 0);
    }
    CHECK(NULL, (redux ? rgroup_wait(c.redux) : rgroup_wait(c.scatter)) == 0);
    for (i = 0; i < PARTS; i++)
        CHECK(c.end[i], rwait(c.end[i]) == 0);
    return c;
}

static void members_close(struct members *c)
{
    int i, rc;

    for (i = 0; i < PARTS; i++)
        CHECK(c->end[i], rclose(c->end[i]) == 0);
    rc = c->redux != NULL ? rgroup_close(c->redux) : rgroup_close(c->scatter);
    EXPECT(rc == 0, "closing the object: %d (%s)", rc, rerror(NULL));
    pair_close(pair_open(RPIPE_PUT));
}

static uint64_t key_of(int place, uint64_t i) { return (uint64_t)place << 40 | i; }
static size_t size_of(uint64_t i) { return i % 3 == 0 ? 24 : 56 + i % 5 * 40; }

static void members_send(struct members *c, int place)
{
    send_one(c->end[place], size_of(c->sent[place]), key_of(place, c->sent[place]));
    c->sent[place]++;
}

/* The next message of any member. One that the byzantine member has written can be read, whatever it contains. */
static void members_take(struct members *c, int place, raddr_t d, size_t size, uint64_t *sum)
{
    rch_t part = rgroup_pipe(c->redux, place);
    const uint8_t *mem = rmem(part, d);

    if (place == BYZANTINE) {
        for (size_t i = 0; i < size; i++)
            *sum += mem[i];
    } else {
        EXPECT(size == size_of(c->got[place]) &&
                   pattern_same(mem, size, key_of(place, c->got[place])),
               "message %llu of place %d is another one", (unsigned long long)c->got[place], place);
        c->got[place]++;
    }
    CHECK(part, rfree(part, d) == 0);
}

/* As the next message of the byzantine member. */
static void put_invalid_slot(rch_t r)
{
    struct slot *slot = end_slot(r, r->r.nread);

    memset(slot, 0, offsetof(struct slot, flag));
    slot->kind = SLOT_HEAP;
    slot->heap.offset = HEAP;
    slot->heap.size = 1;
    if (r->remote != NULL)
        seal_slot(slot, r->r.nread + 1);
    else
        ring_slot_publish(slot, r->r.nread + 1);
}

static void violator_fails(rch_t end)
{
    int rc;

    while ((rc = rwait(end)) == 0)
        backoff_us(100);
    EXPECT(rc == -EPROTO, "the byzantine member got %d (%s)", rc, rinfo_strerror(rc));
}

static void violate_redux(rpipe_op_t op)
{
    struct members c = members_open(op, true);
    uint64_t sum = 0;
    int errors = 0, rc, place;
    size_t size;
    raddr_t d;

    for (int round = 0; round < MANY; round++) {
        if (round == 3)
            put_invalid_slot(rgroup_pipe(c.redux, BYZANTINE));
        for (place = 0; place < PARTS; place += 2)
            members_send(&c, place);
        while (c.got[0] < c.sent[0] || c.got[2] < c.sent[2] || (round == 3 && errors == 0)) {
            rc = rgroup_read(c.redux, &place, &d, &size, 0);
            if (rc == 0) {
                members_take(&c, place, d, size, &sum);
                continue;
            }
            errors++;
            EXPECT(rc == -EPROTO && rgroup_lost(c.redux) == BYZANTINE,
                   "redux: %d (%s) of place %d: %s", rc, rinfo_strerror(rc), rgroup_lost(c.redux),
                   rerror(NULL));
            CHECK(NULL, errors == 1);
        }
    }
    EXPECT(rgroup_count(c.redux) == PARTS - 1, "redux: %d writers are there",
           rgroup_count(c.redux));
    violator_fails(c.end[BYZANTINE]);
    members_close(&c);
}

/* A reader reports that it has read more than was written. */
static void violate_scatter(rpipe_op_t op, int to)
{
    struct members c = members_open(op, false);
    int errors = 0, rc, place, i;

    atomic_store(&c.end[BYZANTINE]->credit->line.slots_read, 1000);
    for (i = 0; i < MANY; i++) {
        raddr_t d;

        rc = rgroup_alloc(c.scatter, to == BYZANTINE && errors > 0 ? i % 2 * 2 : to, 24, &place, &d,
                          0);
        if (rc == 0) {
            pattern_fill(rmem(rgroup_pipe(c.scatter, place), d), 24, (uint64_t)i);
            rc = rwrite(rgroup_pipe(c.scatter, place), d);
            if (rc !=
                0) { /* a credit that arrived after the allocation; the group learns of it with the next one */
                EXPECT(rc == -EPROTO && place == BYZANTINE,
                       "scatter to %d: rwrite to place %d: %d: %s", to, place, rc, rerror(NULL));
                rc = rgroup_alloc(c.scatter, BYZANTINE, 24, &place, &d, 0);
            }
        }
        if (rc == 0) {
            if (place != BYZANTINE)
                receive_one(c.end[place], 24, (uint64_t)i);
            continue;
        }
        errors++;
        EXPECT(rc == -EPROTO && rgroup_lost(c.scatter) == BYZANTINE,
               "scatter to %d: %d (%s) of place %d: %s", to, rc, rinfo_strerror(rc),
               rgroup_lost(c.scatter), rerror(NULL));
    }
    EXPECT(errors == 1 && rgroup_count(c.scatter) == PARTS - 1,
           "scatter to %d: %d errors, %d readers", to, errors, rgroup_count(c.scatter));
    violator_fails(c.end[BYZANTINE]);
    members_close(&c);
}

/* ---- under one's feet ---- */

static void take_one(struct members *c, uint64_t *sum, bool wait)
{
    int place, rc;
    size_t size;
    raddr_t d;

    rc = wait ? rgroup_read(c->redux, &place, &d, &size, 0)
              : rgroup_read(c->redux, &place, &d, &size, R_NOWAIT);
    if (rc == 0)
        members_take(c, place, d, size, sum);
    else if (rc != R_PENDING)
        EXPECT(allowed(rc) && rgroup_lost(c->redux) == BYZANTINE,
               "redux, in use: %d (%s) of place %d: %s", rc, rinfo_strerror(rc),
               rgroup_lost(c->redux), rerror(NULL));
}

static void members_round(uint64_t *random)
{
    struct members c = members_open(random_draw(random) % 2 == 0 ? RPIPE_PUT : RPIPE_GET, true);
    struct scribble s = {.p = {c.end[BYZANTINE], rgroup_pipe(c.redux, BYZANTINE)},
                         .random = random_draw(random)};
    pthread_t thread;
    uint64_t sum = 0;
    int i, place, rc;

    CHECK(NULL, rset_timeout(c.end[BYZANTINE], 1) == 0);
    CHECK(NULL, pthread_create(&thread, NULL, scribbles, &s) == 0);
    for (i = 0; i < MANY; i++) {
        raddr_t d = rmalloc(c.end[BYZANTINE], random_draw(random) % 100);

        rc = d != ADDR_NULL ? rwrite(c.end[BYZANTINE], d) : -errno;
        EXPECT(allowed(rc), "redux, in use: the byzantine member's own call returned %d (%s)", rc,
               rinfo_strerror(rc));
        if (d != ADDR_NULL && rc != 0)
            (void)rfree(c.end[BYZANTINE], d);
        for (place = 0; place < PARTS; place += 2)
            if (c.sent[place] - c.got[place] < 4)
                members_send(&c, place);
        take_one(&c, &sum, false);
        take_one(&c, &sum, false);
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    while (check_failures == 0 && (c.got[0] < c.sent[0] || c.got[2] < c.sent[2]))
        take_one(&c, &sum, true);
    members_close(&c);
    if (sum == 1)
        printf("\n"); /* the sum is used */
}

void violate_groups(uint64_t *random, int rounds)
{
    for (rpipe_op_t op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        violate_redux(op);
        violate_scatter(op, BYZANTINE);
        violate_scatter(op, RGROUP_NEXT);
        violate_scatter(op, RGROUP_ANY);
    }
    while (rounds-- > 0)
        members_round(random);
}
