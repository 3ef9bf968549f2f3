/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_reclaim.c: how blocks and slots come back to a writer (sync/reclaim.h, sync/release.h, sync/slot_credit.h), on plain memory:
 * order, wrap-around, watermarks, and what a reader writes that cannot be valid.
 */
#include "test/lib/random.h"
#include "reclaim_pair.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define QUEUE 12

static struct pair p;
static struct violation v;

static void open_pair(enum pair_mode mode, uint32_t queue, uint32_t first_lap)
{
    assert_true(pair_open(&p, mode, queue, first_lap));
}

static void is_empty(void)
{
    assert_int_equal(p.w.sent, p.w.returned);
    assert_int_equal(p.w.units, 0);
    assert_int_equal(heap_bytes_used(p.w.heap), 0);
    assert_null(p.w.oldest);
    assert_null(p.w.newest);
}

static void is_violation(int rc, uint64_t value, uint64_t least, uint64_t most)
{
    assert_int_equal(rc, -EPROTO);
    assert_int_equal(v.value, value);
    assert_int_equal(v.least, least);
    assert_int_equal(v.most, most);
    assert_non_null(v.what);
}

/* ---- order ---- */

/* Random traffic, for many laps of the queue: each free comes back with the next fetch, and at rest the heap is empty. */
static void run_traffic(enum pair_mode mode, uint32_t queue, uint32_t first_lap, uint64_t seed)
{
    uint64_t random = seed;
    int i;

    open_pair(mode, queue, first_lap);
    if (mode == PAIR_PREFIX) {
        p.w.sent = p.w.returned = p.r.taken = p.r.freed = UINT64_MAX - 1000;
        p.area->line.heap_freed = UINT64_MAX - 1000;
    }
    for (i = 0; i < 5000; i++) {
        if (random_draw(&random) % 2 == 0)
            (void)pair_send(&p, 1 + (uint32_t)(random_draw(&random) % 9), NULL);
        else if (p.in_flight > 0)
            pair_free(&p, (uint32_t)(random_draw(&random) % p.in_flight));
        if (random_draw(&random) % 4 != 0)
            continue;
        assert_int_equal(pair_fetch(&p, true, &v), 0);
        if (mode != PAIR_PREFIX)
            assert_int_equal(p.w.sent - p.w.returned, p.in_flight);
        else if (p.in_flight > 0) /* the oldest that is held keeps all that follow it */
            assert_int_equal(p.w.oldest->offset, p.flight[0]->offset);
    }
    while (p.in_flight > 0)
        pair_free(&p, (uint32_t)(random_draw(&random) % p.in_flight));
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    is_empty();
    pair_close(&p);
}

static void freed_in_any_order_all_comes_back(void **state)
{
    uint32_t queue;

    (void)state;
    for (int mode = 0; mode < PAIR_MODES; mode++)
        for (queue = 1; queue <= 17; queue += 4)
            run_traffic((enum pair_mode)mode, queue, 1, queue);
}

static void counts_and_laps_wrap(void **state)
{
    (void)state;
    for (int mode = 0; mode < PAIR_MODES; mode++)
        run_traffic((enum pair_mode)mode, 3, UINT32_MAX - 5, 7);
}

static void prefix_waits_for_the_oldest(void **state)
{
    (void)state;
    open_pair(PAIR_PREFIX, 1, 1);
    for (int i = 0; i < 4; i++)
        assert_true(pair_send(&p, 2, NULL));
    pair_free(&p, 3);
    pair_free(&p, 1);
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    assert_int_equal(p.w.returned, 0);
    pair_free(&p, 0);
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    assert_int_equal(p.w.returned, 2);
    assert_int_equal(p.w.units, 4);
    pair_free(&p, 0);
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    is_empty();
    pair_close(&p);
}

/* No more messages may be in flight than the queue has entries; one that comes back makes space for one. */
static void queue_bounds_the_messages_in_flight(void **state)
{
    (void)state;
    for (int mode = PAIR_TAGS; mode < PAIR_MODES; mode++) {
        open_pair((enum pair_mode)mode, 3, 1);
        for (int i = 0; i < 3; i++)
            assert_true(pair_send(&p, 1, NULL));
        assert_true(reclaim_is_full(&p.w));
        assert_false(pair_send(&p, 1, NULL));
        pair_free(&p, 1);
        assert_true(reclaim_is_full(&p.w));
        assert_int_equal(pair_fetch(&p, true, &v), 0);
        assert_false(reclaim_is_full(&p.w));
        assert_true(pair_send(&p, 1, NULL));
        assert_true(reclaim_is_full(&p.w));
        pair_close(&p);
    }
}

/* The reader still writes to this cache line of tags: it is left alone until memory is needed. */
static void tags_of_a_line_in_use_are_left(void **state)
{
    (void)state;
    open_pair(PAIR_TAGS, 16, 1);
    for (int i = 0; i < 16; i++)
        assert_true(pair_send(&p, 1, NULL));
    for (int i = 0; i < 7; i++)
        pair_free(&p, 0);
    assert_int_equal(pair_fetch(&p, false, &v), 0);
    assert_int_equal(p.w.returned, 0);
    pair_free(&p, 0);
    pair_free(&p, 0);
    assert_int_equal(pair_fetch(&p, false, &v), 0);
    assert_int_equal(p.w.returned, 8);
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    assert_int_equal(p.w.returned, 9);
    pair_close(&p);
}

static uint32_t parts_returned;

static void count_part(struct reclaim *r, struct rdesc *d)
{
    assert_ptr_equal(r, &p.w);
    assert_null(d->mem);
    parts_returned++;
}

/* A part of a block has a descriptor without memory; it goes to its owner, not to the heap. */
static void parts_go_to_their_owner(void **state)
{
    static struct rdesc part[PAIR_MODES];

    (void)state;
    for (int mode = 0; mode < PAIR_MODES; mode++) {
        uint32_t block = 0;

        open_pair((enum pair_mode)mode, QUEUE, 1);
        parts_returned = 0;
        p.w.part_returned = count_part;
        p.w.parts = 1;
        part[mode] = (struct rdesc){.units = 3};
        if (p.w.table.entry != NULL)
            block = block_table_put(&p.w.table, &part[mode]);
        (void)reclaim_sent(&p.w, &part[mode]);
        p.flight[p.in_flight] = desc_take(&p.pool);
        p.flight[p.in_flight]->block = block;
        if (mode == PAIR_PREFIX)
            release_append(&p.r, p.flight[p.in_flight]);
        p.in_flight++;
        assert_true(pair_send(&p, 1, NULL));
        pair_free(&p, 1);
        pair_free(&p, 0);
        assert_int_equal(pair_fetch(&p, true, &v), 0);
        assert_int_equal(parts_returned, 1);
        is_empty();
        pair_close(&p);
    }
}

/* ---- what is invalid ---- */

static void prefix_count_beyond_what_was_sent(void **state)
{
    (void)state;
    open_pair(PAIR_PREFIX, 1, 1);
    for (int i = 0; i < 4; i++)
        assert_true(pair_send(&p, 1, NULL));
    p.area->line.heap_freed = 5;
    is_violation(pair_fetch(&p, true, &v), 5, 0, 4);
    p.area->line.heap_freed = UINT64_MAX;
    is_violation(pair_fetch(&p, true, &v), UINT64_MAX, 0, 4);
    assert_int_equal(p.w.returned, 0); /* nothing was taken back */
    p.area->line.heap_freed = 3;
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    p.area->line.heap_freed = 2;
    is_violation(pair_fetch(&p, true, &v), 2, 3, 4);
    p.area->line.heap_freed = 4;
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    is_empty();
    pair_close(&p);
}

/* Names an index as the reader would, whatever the index. */
static void name_block(uint32_t block)
{
    struct slot *s = &p.ring[p.r.next.at];

    p.r.freed++;
    if (p.mode == PAIR_TAGS) {
        tag_append(p.area, &p.r.next, block);
    } else if (p.mode == PAIR_CHANNEL) {
        reverse_append(p.ring, &p.r.next, p.r.freed, block);
    } else {
        s->block = block;
        seal_slot(s, p.r.freed);
        ring_cursor_advance(&p.r.next);
    }
}

static void index_that_is_not_in_flight(void **state)
{
    static const uint32_t wrong[] = {QUEUE, UINT32_MAX, BLOCK_TABLE_NONE - 1, 3};

    (void)state;
    for (int mode = PAIR_TAGS; mode < PAIR_MODES; mode++)
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
            open_pair((enum pair_mode)mode, QUEUE, 1);
            for (int k = 0; k < 3; k++) /* indexes 0 to 2 */
                assert_true(pair_send(&p, 1, NULL));
            name_block(1);
            name_block(wrong[i]);
            is_violation(pair_fetch(&p, true, &v), wrong[i], 0, QUEUE - 1);
            assert_int_equal(p.w.returned, 1); /* what was valid before it came back */
            pair_close(&p);
        }
}

static void index_that_is_named_twice(void **state)
{
    (void)state;
    for (int mode = PAIR_TAGS; mode < PAIR_MODES; mode++) {
        open_pair((enum pair_mode)mode, QUEUE, 1);
        for (int k = 0; k < 3; k++)
            assert_true(pair_send(&p, 1, NULL));
        name_block(2);
        name_block(2);
        is_violation(pair_fetch(&p, true, &v), 2, 0, QUEUE - 1);
        pair_close(&p);
    }
}

/* A reader that fills the queue ahead of time ends the fetch after as many steps as blocks are in flight. */
static void full_queue_of_names_ends(void **state)
{
    (void)state;
    for (int mode = PAIR_TAGS; mode < PAIR_MODES; mode++) {
        open_pair((enum pair_mode)mode, QUEUE, 1);
        assert_true(pair_send(&p, 1, NULL));
        for (int k = 0; k < QUEUE; k++)
            name_block(0);
        is_violation(pair_fetch(&p, true, &v), 0, 0, QUEUE - 1);
        assert_int_equal(p.w.returned, 1);
        pair_close(&p);
    }
}

/* Neither a tag of another lap nor a slot with a wrong flag, or a torn one, names a block. */
static void stale_names_are_not_taken(void **state)
{
    (void)state;
    open_pair(PAIR_TAGS, QUEUE, 5);
    assert_true(pair_send(&p, 1, NULL));
    p.area->tag[0] = UINT64_C(4) << 32;
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    p.area->tag[0] = UINT64_C(6) << 32;
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    assert_int_equal(p.w.returned, 0);
    pair_close(&p);
    open_pair(PAIR_SEALED, QUEUE, 1);
    assert_true(pair_send(&p, 1, NULL));
    p.ring[0].block = 0;
    seal_slot(&p.ring[0], 1);
    p.ring[0].block = 1; /* changed after the seal */
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    assert_int_equal(p.w.returned, 0);
    p.ring[0].block = 0;
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    is_empty();
    pair_close(&p);
}

/* ---- slots ---- */

static void slots_follow_the_reader(uint64_t first)
{
    struct credit_line line = {0};
    struct slot_credit c;

    credit_line_init(&line, first);
    slot_credit_init(&c, first, 8, 0.5);
    assert_int_equal(c.limit, first + 8);
    assert_int_equal(c.refresh_at, first + 4);
    assert_int_equal(slot_credit_refresh(&c, &line, first + 6, &v), 0);
    assert_int_equal(c.limit, first + 8);
    line.slots_read = first + 6;
    assert_int_equal(slot_credit_refresh(&c, &line, first + 6, &v), 0);
    assert_int_equal(slot_credit_read(&c), first + 6);
    assert_int_equal(c.limit, first + 14);
    line.slots_read = first + 7; /* more than was sent */
    is_violation(slot_credit_refresh(&c, &line, first + 6, &v), first + 7, first + 6, first + 6);
    line.slots_read = first + 5; /* fewer than before */
    is_violation(slot_credit_refresh(&c, &line, first + 9, &v), first + 5, first + 6, first + 9);
    assert_int_equal(c.limit, first + 14);
}

static void slots_read_grow_up_to_what_was_sent(void **state)
{
    (void)state;
    slots_follow_the_reader(0);
    slots_follow_the_reader(UINT64_MAX - 6); /* wraps within the test */
}

static void fetched_payloads_grow_up_to_what_was_sent(void **state)
{
    struct credit_line line = {0};
    uint64_t fetched = UINT64_MAX - 1;

    (void)state;
    line.fetched = UINT64_MAX - 1;
    assert_int_equal(fetch_credit_refresh(&fetched, &line, 3, &v), 0);
    line.fetched = 2;
    assert_int_equal(fetch_credit_refresh(&fetched, &line, 3, &v), 0);
    assert_int_equal(fetched, 2);
    line.fetched = 4;
    is_violation(fetch_credit_refresh(&fetched, &line, 3, &v), 4, 2, 3);
    line.fetched = 1;
    is_violation(fetch_credit_refresh(&fetched, &line, 3, &v), 1, 2, 3);
    assert_int_equal(fetched, 2);
}

/* ---- watermarks ---- */

static void credits_are_due_at_the_watermark_of_the_ring(void **state)
{
    struct slot_credit c;

    (void)state;
    slot_credit_init(&c, 100, 16, 0.25);
    assert_int_equal(c.refresh_at, 104);
    slot_credit_schedule(&c, 103); /* 3 in use: at the watermark */
    assert_int_equal(c.refresh_at, 104);
    slot_credit_schedule(&c, 104); /* passed: when no slot is left */
    assert_int_equal(c.refresh_at, UINT64_MAX);
    c.limit += 4; /* 104 read */
    slot_credit_schedule(&c, 104);
    assert_int_equal(c.refresh_at, 108);
    slot_credit_init(&c, 100, 16, 0);
    assert_int_equal(c.watermark, 0);
    slot_credit_schedule(&c, 110); /* after each message */
    assert_int_equal(c.refresh_at, 0);
}

static void credits_are_due_at_the_watermark_of_the_heap(void **state)
{
    bool due = false;

    (void)state;
    open_pair(PAIR_PREFIX, 1, 1);
    reclaim_set_watermark(&p.w, 0.25, 16, RECLAIM_STEP / 4);
    assert_int_equal(p.w.watermark, 4);
    assert_true(pair_send(&p, 3, &due));
    assert_false(due);
    assert_true(pair_send(&p, 1, &due));
    assert_true(due);
    assert_true(reclaim_is_due(&p.w)); /* four units are a step */
    assert_false(reclaim_can_wait(&p.w, RECLAIM_STEP / RECLAIM_MESSAGES));
    assert_true(reclaim_can_wait(&p.w, RECLAIM_STEP));
    reclaim_schedule(&p.w);            /* passed, and nothing has come back */
    assert_true(reclaim_is_due(&p.w)); /* that refresh was not before an allocation */
    reclaim_schedule_ahead(&p.w);
    assert_false(reclaim_is_due(&p.w));
    due = false;
    assert_true(pair_send(&p, 1, &due));
    assert_false(due);
    pair_free(&p, 0);
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    reclaim_schedule(&p.w);
    assert_int_equal(p.w.refresh_units, 4);
    while (p.in_flight > 0)
        pair_free(&p, 0);
    assert_int_equal(pair_fetch(&p, true, &v), 0);
    reclaim_schedule(&p.w); /* the heap is empty: four units from here */
    assert_true(pair_send(&p, 3, &due));
    assert_false(reclaim_is_due(&p.w));
    assert_true(pair_send(&p, 1, &due));
    assert_true(reclaim_is_due(&p.w));
    due = false;
    reclaim_set_watermark(&p.w, 0, 16, 64);
    assert_true(pair_send(&p, 1, &due));
    assert_true(due);
    reclaim_schedule(&p.w);
    assert_int_equal(p.w.refresh_units, 0);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_in_any_order_all_comes_back),
        cmocka_unit_test(counts_and_laps_wrap),
        cmocka_unit_test(prefix_waits_for_the_oldest),
        cmocka_unit_test(queue_bounds_the_messages_in_flight),
        cmocka_unit_test(tags_of_a_line_in_use_are_left),
        cmocka_unit_test(parts_go_to_their_owner),
        cmocka_unit_test(prefix_count_beyond_what_was_sent),
        cmocka_unit_test(index_that_is_not_in_flight),
        cmocka_unit_test(index_that_is_named_twice),
        cmocka_unit_test(full_queue_of_names_ends),
        cmocka_unit_test(stale_names_are_not_taken),
        cmocka_unit_test(slots_read_grow_up_to_what_was_sent),
        cmocka_unit_test(fetched_payloads_grow_up_to_what_was_sent),
        cmocka_unit_test(credits_are_due_at_the_watermark_of_the_ring),
        cmocka_unit_test(credits_are_due_at_the_watermark_of_the_heap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
