/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Advertised receives and their places at the sender (lib/msg/places.h), against the naive rule: an RTR is for message skip + 1 of its
 * space and tag above `seen`. A sender and a receiver with two queues between them run at random; the receiver has the naive lists.
 */
#include "msg/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "test/lib/random.h"

enum { STEPS = 200000, TAGS = 3, MOST = 60, QUEUE = 4096 };

struct posted { /* a receive; its id is its index in the order of posting */
    uint32_t tag, id, number;
    bool advertised;
};

struct event {
    enum { MESSAGE, PLACED, DATA, REFUSED, RTR } what;
    uint32_t tag, id, skip, rtr;
    uint64_t number, seen;
};

struct queue {
    struct event event[QUEUE];
    uint32_t first, count;
};

static struct places places;
static struct queue up, down;
static struct posted posted[MOST];
static int nposted;
static uint32_t ids, rtrs, promised, placed, sent_for_rtr, refused;
static uint64_t seen;
static uint32_t unmatched[TAGS]; /* messages that wait at the receiver */

static void put(struct queue *q, struct event e)
{
    assert_true(q->count < QUEUE);
    q->event[(q->first + q->count++) % QUEUE] = e;
}

static struct event take(struct queue *q)
{
    struct event e = q->event[q->first++ % QUEUE];

    q->count--;
    return e;
}

/* The receiver: the first receive of a tag; its id, or UINT32_MAX. It is posted no more. */
static struct posted match(uint32_t tag)
{
    struct posted found = {0, UINT32_MAX, 0, false};

    for (int i = 0; i < nposted; i++) {
        if (posted[i].tag != tag)
            continue;
        found = posted[i];
        nposted--;
        for (int k = i; k < nposted; k++)
            posted[k] = posted[k + 1];
        break;
    }
    return found;
}

static void post(uint64_t *seed)
{
    uint32_t tag = (uint32_t)(random_draw(seed) % TAGS), skip = 0;
    struct posted *p = &posted[nposted];

    if (unmatched[tag] > 0) {
        unmatched[tag]--;
        return;
    }
    if (nposted == MOST)
        return;
    for (int i = 0; i < nposted; i++)
        skip += posted[i].tag == tag;
    *p = (struct posted){tag, ids++, 0, random_draw(seed) % 2 == 0};
    nposted++;
    if (!p->advertised)
        return;
    p->number = ++rtrs;
    put(&down, (struct event){RTR, tag, p->id, skip, p->number, 0, seen});
}

static void arrive(void)
{
    struct event e = take(&up);
    struct posted p;

    switch (e.what) {
    case MESSAGE:
        assert_int_equal(e.number, ++seen);
        p = match(e.tag);
        unmatched[e.tag] += p.id == UINT32_MAX;
        promised += p.id != UINT32_MAX && p.advertised;
        break;
    case PLACED:
        assert_int_equal(e.number, ++seen);
        p = match(e.tag);
        assert_int_equal(p.id, e.id);
        assert_true(p.advertised);
        break;
    default:
        break;
    }
}

/* The sender. */
static void send_one(uint64_t *seed)
{
    uint32_t tag = (uint32_t)(random_draw(seed) % TAGS);
    struct places_rtr rtr;
    struct event e = {MESSAGE, tag, 0, 0, 0, 0, 0};

    if (places_take(&places, 0, tag, &rtr)) {
        e.what = PLACED;
        e.id = rtr.receive;
        placed++;
    }
    e.number = places_sent(&places, 0, tag, 0);
    put(&up, e);
}

static void serve(void)
{
    struct event e = take(&down);
    const struct places_rtr rtr = {e.id, e.rtr, 1, 0, false};
    uint32_t offered = 0;

    switch (places_rtr(&places, 0, e.tag, e.seen, e.skip, &rtr, &offered)) {
    case PLACES_SENT:
        sent_for_rtr++;
        break;
    case PLACES_KEPT:
        break;
    case PLACES_REFUSED:
        refused++;
        break;
    default:
        fail_msg("an RTR that is not valid");
    }
}

static void sender_and_receiver(void **state)
{
    uint64_t seed = (uint64_t)time(NULL);

    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    places_init(&places);
    for (int i = 0; i < STEPS; i++) {
        switch (random_draw(&seed) % 8) {
        case 0:
        case 1:
            post(&seed);
            break;
        case 2:
            if (up.count < 50 && nposted > 0)
                send_one(&seed);
            break;
        case 3:
            if (down.count > 0)
                serve();
            break;
        default:
            if (up.count > 0)
                arrive();
        }
        assert_true(places.stored <= (uint32_t)nposted + up.count);
    }
    assert_true(placed > 100 && sent_for_rtr > 100);
}

/* The log does not reach back far enough: refused, also if the message is not sent yet. */
static void short_log(void **state)
{
    const struct places_rtr rtr = {1, 1, 1, 0, false};
    uint32_t offered = 0;
    struct places_rtr got;

    (void)state;
    places_init(&places);
    for (uint32_t i = 0; i < PLACES_LOG; i++)
        places_sent(&places, 0, 7, 0);
    assert_int_equal(places_rtr(&places, 0, 8, 0, 0, &rtr, &offered), PLACES_KEPT);
    places_sent(&places, 0, 7, 0);
    assert_int_equal(places_rtr(&places, 0, 9, 0, 0, &rtr, &offered), PLACES_REFUSED);
    assert_int_equal(places_rtr(&places, 0, 9, 1, 0, &rtr, &offered), PLACES_KEPT);
    assert_int_equal(places_rtr(&places, 0, 9, PLACES_LOG + 2, 0, &rtr, &offered), PLACES_INVALID);
    assert_false(places_take(&places, 1, 8, &got)); /* another space */
    assert_true(places_take(&places, 0, 8, &got));
    assert_false(places_take(&places, 0, 8, &got));
}

static void offered_messages(void **state)
{
    const struct places_rtr rtr = {5, 1, 1, 0, false};
    uint32_t offered = 0;
    uint64_t number;

    (void)state;
    places_init(&places);
    places_sent(&places, 3, 7, 0);
    number = places_sent(&places, 3, 7, 4711);
    assert_int_equal(places_rtr(&places, 3, 7, 0, 0, &rtr, &offered), PLACES_SENT);
    assert_int_equal(places_rtr(&places, 3, 7, 0, 1, &rtr, &offered), PLACES_OFFERED);
    assert_int_equal(offered, 4711);
    places_matched(&places, number);
    assert_int_equal(places_rtr(&places, 3, 7, 1, 0, &rtr, &offered), PLACES_SENT);
}

static void undone(void **state)
{
    uint32_t offered = 0;
    struct places_rtr got;

    (void)state;
    places_init(&places);
    for (uint32_t i = 0; i < PLACES_STORED; i++) {
        const struct places_rtr rtr = {i, UINT32_MAX - 100 + i, 1, 0,
                                       false}; /* numbers wrap around */

        assert_int_equal(places_rtr(&places, 0, i % 2, 0, i / 2, &rtr, &offered), PLACES_KEPT);
    }
    assert_int_equal(
        places_rtr(&places, 0, 5, 0, 0, &(struct places_rtr){999, 999, 1, 0, 0}, &offered),
        PLACES_INVALID); /* too many */
    places_undo(&places, 0, 1, 3);
    assert_int_equal(places.stored, PLACES_STORED / 2 + 52);
    for (uint32_t i = 0; i < 52; i++) {
        assert_true(places_take(&places, 0, 1, &got));
        assert_int_equal(got.receive, 2 * i + 1);
    }
    assert_false(places_take(&places, 0, 1, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sender_and_receiver),
        cmocka_unit_test(short_log),
        cmocka_unit_test(offered_messages),
        cmocka_unit_test(undone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
