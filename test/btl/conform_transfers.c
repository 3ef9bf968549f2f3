/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conform_transfers.c: writes, gets, atomics, flush.
 */
#include "conform.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t sizes[] = {0, 1, 8, 40, 63, 4096, 65537, MIB + 1};
#define SIZES (sizeof(sizes) / sizeof(*sizes))
#define GUARD 64u /* bytes before and behind what is transferred, which must stay as they are */

struct field { /* what most tests need */
    struct btl_connection *connection;
    struct far ring, heap;
    struct btl_memory near_ring, near_heap;
};

static struct field field_open(struct side *s, size_t slots, size_t bytes, uint32_t access,
                               uint32_t depth)
{
    struct field f = {.connection = line_up(s, 0, depth)};

    f.ring = far_alloc(s, 0, slots * SLOT_BYTES, BTL_PEER_WRITES);
    f.heap = far_alloc(s, 1, bytes, access);
    f.near_ring = near_alloc(s, slots * SLOT_BYTES);
    f.near_heap = near_alloc(s, bytes);
    return f;
}

static void field_close(struct side *s, struct field *f)
{
    flush_must(s, f->connection);
    line_down(s, 0, f->connection);
    far_free(s, &f->ring);
    far_free(s, &f->heap);
    near_free(s, &f->near_ring);
    near_free(s, &f->near_heap);
}

static struct btl_transfer to(const struct far *far, const struct btl_memory *near, size_t offset,
                              size_t bytes)
{
    return (struct btl_transfer){&far->remote, offset, near, offset, bytes};
}

static void seal(struct btl_memory *ring, size_t index, const struct note *note)
{
    slot_seal((uint8_t *)ring->base + index * SLOT_BYTES, note);
}

/* Offsets are the same at both ends here, and mostly odd. */
static void writes(struct side *s)
{
    struct field f = field_open(s, 1, 2 * MIB, BTL_PEER_WRITES, 0);
    struct btl_transfer slot = to(&f.ring, &f.near_ring, 0, SLOT_BYTES);
    uint64_t number = 0;

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < SIZES; i++) {
            struct note note = {++number, GUARD + draw(s, 1000), sizes[i], draw(s, UINT64_MAX)};
            struct btl_transfer payload = to(&f.heap, &f.near_heap, note.offset, note.bytes);
            uint64_t before = draw(s, UINT64_MAX);
            struct answer there;

            ask(s, (struct ask){.what = ASK_FILL,
                                .id = 1,
                                .a = note.offset - GUARD,
                                .b = note.bytes + 2 * GUARD,
                                .c = before});
            pattern_fill((uint8_t *)f.near_heap.base + note.offset, note.bytes, note.key);
            seal(&f.near_ring, 0, &note);
            if (draw(s, 2) == 0) { /* a payload alone is there before a later slot */
                write_must(s, f.connection, &payload, NULL);
                write_must(s, f.connection, NULL, &slot);
            } else {
                write_must(s, f.connection, note.bytes == 0 && draw(s, 2) == 0 ? NULL : &payload,
                           &slot);
            }
            ask_begin(s, &(struct ask){.what = ASK_AWAIT, .id = 0, .a = 0, .b = number, .c = 1});
            flush_must(s, f.connection);
            there = ask_end(s);
            REQUIRE(there.rc == 0, "a write of %zu bytes: %s", note.bytes, there.err.text);
            /* behind it: the bytes that belong to the second guard, as the fill has left them */
            REQUIRE(ask_any(s, (struct ask){.what = ASK_CHECK,
                                            .id = 1,
                                            .a = note.offset - GUARD,
                                            .b = GUARD,
                                            .c = before})
                            .rc == 0,
                    "a write of %zu bytes has changed the bytes before it", note.bytes);
            if (note.bytes % 8 == 0)
                REQUIRE(ask_any(s, (struct ask){.what = ASK_CHECK,
                                                .id = 1,
                                                .a = note.offset + note.bytes,
                                                .b = GUARD,
                                                .c = before + GUARD + note.bytes})
                                .rc == 0,
                        "a write of %zu bytes has changed the bytes behind it", note.bytes);
        }
    }
    field_close(s, &f);
}

static void gets(struct side *s)
{
    struct field f = field_open(s, 1, 2 * MIB, BTL_PEER_READS, 0);
    uint8_t *near = f.near_heap.base;

    for (int round = 0; round < 3; round++) {
        for (size_t i = 1; i < SIZES; i++) {
            size_t offset = 2 * GUARD + draw(s, 1000), there = draw(s, 1000);
            struct btl_transfer t = {&f.heap.remote, there, &f.near_heap, offset, sizes[i]};
            uint64_t key = draw(s, UINT64_MAX), around = draw(s, UINT64_MAX);
            struct btl_done done = {0};

            ask(s, (struct ask){.what = ASK_FILL, .id = 1, .a = there, .b = sizes[i], .c = key});
            pattern_fill(near + offset - GUARD, GUARD, around);
            pattern_fill(near + offset + sizes[i], GUARD, around + 1);
            get_must(s, f.connection, &t, &done);
            done_must(s, f.connection, &done);
            REQUIRE(pattern_same(near + offset, sizes[i], key),
                    "a get of %zu bytes is complete, but not here", sizes[i]);
            REQUIRE(pattern_same(near + offset - GUARD, GUARD, around) &&
                        pattern_same(near + offset + sizes[i], GUARD, around + 1),
                    "a get of %zu bytes has changed the bytes around it", sizes[i]);
        }
    }
    field_close(s, &f);
}

/*
 * Short transfers at every place around the end of a page there, each at the end of a page of its own. Here some cross a page too, and
 * some do not. (soft-iWARP takes the bytes of a short answer to a READ from the wrong places.)
 */
enum { PAGE = 4096, SHORT = 64, PAGES = SHORT + 3 };

static struct btl_transfer around(const struct field *f, size_t bytes, size_t before)
{
    size_t there = (before + 1) * PAGE - f->heap.address % PAGE - before;
    size_t here =
        (before + 1) * PAGE - (uintptr_t)f->near_heap.base % PAGE - (before + bytes) % (SHORT + 1);

    return (struct btl_transfer){&f->heap.remote, there, &f->near_heap, here, bytes};
}

static void gets_around_pages(struct side *s)
{
    struct field f = field_open(s, 1, PAGES * PAGE, BTL_PEER_READS, 0);
    uint8_t *near = f.near_heap.base, *expected = malloc(PAGES * PAGE);

    REQUIRE(expected != NULL, "no memory");
    for (size_t bytes = 1; bytes <= SHORT; bytes++) {
        uint64_t key = draw(s, UINT64_MAX);
        struct btl_done done = {0};
        size_t changed = 0;

        ask(s, (struct ask){.what = ASK_FILL, .id = 1, .a = 0, .b = PAGES * PAGE, .c = key});
        pattern_fill(expected, PAGES * PAGE, key);
        memset(near, 0x5a, PAGES * PAGE);
        for (size_t before = 0; before <= bytes; before++) {
            struct btl_transfer t = around(&f, bytes, before);

            get_must(s, f.connection, &t, &done);
        }
        done_must(s, f.connection, &done);
        for (size_t before = 0; before <= bytes; before++) {
            struct btl_transfer t = around(&f, bytes, before);

            REQUIRE(memcmp(near + t.offset, expected + t.remote_offset, bytes) == 0,
                    "a get of %zu bytes, %zu of them before the end of a page, brought others",
                    bytes, before);
            memset(near + t.offset, 0x5a, bytes);
        }
        for (size_t i = 0; i < PAGES * PAGE; i++)
            changed += near[i] != 0x5a;
        REQUIRE(changed == 0, "gets of %zu bytes have changed %zu bytes around them", bytes,
                changed);
    }
    free(expected);
    field_close(s, &f);
}

static void writes_around_pages(struct side *s)
{
    struct field f = field_open(s, 1, PAGES * PAGE, BTL_PEER_WRITES, 0);
    uint8_t *near = f.near_heap.base, *there = malloc(PAGES * PAGE);

    REQUIRE(there != NULL, "no memory");
    for (size_t bytes = 1; bytes <= SHORT; bytes++) {
        uint64_t key = draw(s, UINT64_MAX);
        size_t end = 0;

        pattern_fill(there, PAGES * PAGE, key); /* what it shall be there in the end */
        ask(s, (struct ask){.what = ASK_FILL, .id = 1, .a = 0, .b = PAGES * PAGE, .c = key});
        for (size_t before = 0; before <= bytes;
             before++) { /* holes, where what is written belongs */
            struct btl_transfer t = around(&f, bytes, before);

            memset(near + t.offset, 0x5a, bytes);
            write_must(s, f.connection, &t, NULL);
        }
        flush_must(s, f.connection);
        REQUIRE(
            ask_any(s,
                    (struct ask){.what = ASK_CHECK, .id = 1, .a = 0, .b = PAGES * PAGE, .c = key})
                    .rc != 0,
            "writes of %zu bytes are nowhere", bytes);
        for (size_t before = 0; before <= bytes; before++) {
            struct btl_transfer t = around(&f, bytes, before);

            REQUIRE(t.remote_offset >= end && t.remote_offset + bytes <= PAGES * PAGE,
                    "the test is wrong");
            end = t.remote_offset + bytes;
            memcpy(near + t.offset, there + t.remote_offset, bytes);
            write_must(s, f.connection, &t, NULL);
        }
        flush_must(s, f.connection);
        REQUIRE(
            ask_any(s,
                    (struct ask){.what = ASK_CHECK, .id = 1, .a = 0, .b = PAGES * PAGE, .c = key})
                    .rc == 0,
            "writes of %zu bytes around the ends of pages are not there, or have changed what "
            "bytes around it",
            bytes);
    }
    free(there);
    field_close(s, &f);
}

/* What is fetched was there after the call: not older. */
static void gets_are_fresh(struct side *s)
{
    struct field f = field_open(s, 1, 4096, BTL_PEER_READS, 0);
    struct btl_transfer t = to(&f.heap, &f.near_heap, 0, 64);
    uint64_t word;

    for (uint64_t n = 1; n <= 30; n++) {
        struct btl_done done = {0};

        ask(s, (struct ask){.what = ASK_SET, .id = 1, .a = 8 * (n % 8), .b = n});
        get_must(s, f.connection, &t, &done);
        done_must(s, f.connection, &done);
        memcpy(&word, (uint8_t *)f.near_heap.base + 8 * (n % 8), 8);
        REQUIRE(word == n, "a get brought %llu, which was there before %llu",
                (unsigned long long)word, (unsigned long long)n);
    }
    field_close(s, &f);
}

/* Without driving, until the line refuses, or a good many are outstanding. Then all of them complete. */
static void many_gets(struct side *s)
{
    enum { MANY = 2000, EACH = 96 };
    struct field f = field_open(s, 1, (size_t)MANY * EACH, BTL_PEER_READS, 32);
    struct btl_done done = {0};
    struct btl_counts counts;
    uint64_t refused = 0;

    ask(s, (struct ask){.what = ASK_FILL, .id = 1, .a = 0, .b = (size_t)MANY * EACH, .c = 7});
    for (int i = 0; i < MANY; i++) {
        struct btl_transfer t = to(&f.heap, &f.near_heap, (size_t)i * EACH, EACH);
        int64_t deadline = patience();
        int rc;

        while ((rc = s->backend->ops->get(f.connection, &t, &done)) == -EAGAIN) {
            refused++;
            REQUIRE(!deadline_passed(deadline), "get %d is refused for ever", i);
            drive(s, f.connection);
        }
        REQUIRE(rc == 0, "get: %d", rc);
    }
    done_must(s, f.connection, &done);
    REQUIRE(pattern_same(f.near_heap.base, (size_t)MANY * EACH, 7),
            "%d gets are complete, but not all are here", MANY);
    s->backend->ops->connection_counts(f.connection, &counts);
    REQUIRE(counts.gets == MANY && counts.refused >= refused && counts.work_requests >= MANY,
            "counts: %llu gets, %llu refused; it was %d and %llu", (unsigned long long)counts.gets,
            (unsigned long long)counts.refused, MANY, (unsigned long long)refused);
    REQUIRE(counts.signaled <= counts.work_requests && counts.inlined <= counts.work_requests &&
                counts.doorbells <= counts.work_requests && counts.doorbells > 0,
            "counts: %llu work requests, %llu doorbells, %llu signaled",
            (unsigned long long)counts.work_requests, (unsigned long long)counts.doorbells,
            (unsigned long long)counts.signaled);
    field_close(s, &f);
}

static void many_writes(struct side *s)
{
    enum { MANY = 1000, EACH = 200 };
    struct field f = field_open(s, MANY, (size_t)MANY * EACH, BTL_PEER_WRITES, 32);
    struct btl_counts counts;
    uint64_t refused = 0;

    for (size_t i = 0; i < MANY; i++) {
        struct note note = {i + 1, i * EACH, EACH - i % 9, i};
        struct btl_transfer payload = to(&f.heap, &f.near_heap, note.offset, note.bytes);
        struct btl_transfer slot = to(&f.ring, &f.near_ring, i * SLOT_BYTES, SLOT_BYTES);

        pattern_fill((uint8_t *)f.near_heap.base + note.offset, note.bytes, note.key);
        seal(&f.near_ring, i, &note);
        refused += write_must(s, f.connection, &payload, &slot);
    }
    flush_must(s, f.connection);
    for (size_t i = 0; i < MANY; i += 37)
        ask(s, (struct ask){.what = ASK_AWAIT, .id = 0, .a = i * SLOT_BYTES, .b = i + 1, .c = 1});
    s->backend->ops->connection_counts(f.connection, &counts);
    /* payload and slot may be one */
    REQUIRE(counts.refused >= refused && counts.work_requests >= MANY,
            "counts: %llu work requests, %llu refused", (unsigned long long)counts.work_requests,
            (unsigned long long)counts.refused);
    field_close(s, &f);
}

/* After flush the payload is there, without a slot that would announce it. */
static void flush_places(struct side *s)
{
    struct field f = field_open(s, 1, 2 * MIB, BTL_PEER_WRITES, 0);

    flush_must(s, f.connection); /* of nothing */
    for (int round = 0; round < 20; round++) {
        uint64_t key = draw(s, UINT64_MAX);
        size_t part = 1 + draw(s, round % 10 == 9 ? 100000 : 3000), n = 1 + draw(s, 8);

        for (size_t i = 0; i < n; i++) {
            struct btl_transfer t = to(&f.heap, &f.near_heap, i * (part | 7), part);

            pattern_fill((uint8_t *)f.near_heap.base + t.offset, part, key + i);
            write_must(s, f.connection, &t, NULL);
        }
        flush_must(s, f.connection);
        memset(f.near_heap.base, 0x5a, n * (part | 7)); /* it may change now */
        for (size_t i = 0; i < n; i++)
            REQUIRE(ask_any(s, (struct ask){.what = ASK_CHECK,
                                            .id = 1,
                                            .a = i * (part | 7),
                                            .b = part,
                                            .c = key + i})
                            .rc == 0,
                    "after flush, a write of %zu bytes is not there", part);
    }
    field_close(s, &f);
}

/* What is accepted needs no further call, at neither end. */
static void no_further_call(struct side *s)
{
    enum { BURST = 40 };
    struct field f = field_open(s, BURST, 2 * MIB, BTL_PEER_WRITES, 0);
    struct far source = far_alloc(s, 2, MIB, BTL_PEER_READS);
    struct btl_transfer slot = to(&f.ring, &f.near_ring, 0, SLOT_BYTES);

    for (uint64_t n = 1; n <= 6; n++) {
        struct note note = {n, 0, n % 3 == 0 ? MIB + 1 : n * 1000, n};
        struct btl_transfer payload = to(&f.heap, &f.near_heap, 0, note.bytes);

        pattern_fill(f.near_heap.base, note.bytes, note.key);
        seal(&f.near_ring, 0, &note);
        write_must(s, f.connection, &payload, &slot);
        ask(s, (struct ask){.what = ASK_AWAIT | ASK_IDLE, .id = 0, .a = 0, .b = n, .c = 1});
    }
    for (uint64_t n = 0; n < BURST;
         n++) { /* one after the other, of which a backend may make one */
        struct btl_transfer one = to(&f.ring, &f.near_ring, n * SLOT_BYTES, SLOT_BYTES);

        seal(&f.near_ring, n, &(struct note){100 + n, 0, 0, 0});
        write_must(s, f.connection, NULL, &one);
    }
    ask(s, (struct ask){.what = ASK_AWAIT | ASK_IDLE,
                        .id = 0,
                        .a = (BURST - 1) * SLOT_BYTES,
                        .b = 100 + BURST - 1,
                        .c = 1});
    for (uint64_t n = 1; n <= 4; n++) {
        struct btl_transfer t = to(&source, &f.near_heap, 0, n * 100000);
        struct btl_done done = {0};
        int64_t deadline = patience();

        ask(s, (struct ask){.what = ASK_FILL, .id = 2, .a = 0, .b = t.bytes, .c = n});
        get_must(s, f.connection, &t, &done);
        /* it is carried out; that it is complete may take a call of progress */
        while (atomic_load_explicit(&done.pending, memory_order_acquire) != 0 &&
               !pattern_same(f.near_heap.base, t.bytes, n)) {
            REQUIRE(!deadline_passed(deadline), "a get is not carried out without calls");
            sched_yield();
        }
        done_must(s, f.connection, &done);
        REQUIRE(pattern_same(f.near_heap.base, t.bytes, n), "a get without calls of progress");
    }
    field_close(s, &f);
    far_free(s, &source);
}

/* The target answers before its time only where something is wrong. */
static void target_silent(struct side *s)
{
    struct pollfd poll_for = {s->socket, POLLIN, 0};
    struct answer a;

    if (poll(&poll_for, 1, 0) != 1)
        return;
    a = ask_end(s);
    REQUIRE(a.rc == 0, "%s", a.err.text);
}

void stream(struct side *s, uint64_t messages)
{
    enum { SLOTS = 16, REGION = 16384 };
    struct field f = field_open(s, SLOTS, (size_t)SLOTS * REGION, BTL_PEER_WRITES, 0);
    struct far far_credit = far_alloc(s, 2, 64, BTL_PEER_READS);
    struct btl_memory near_credit = near_alloc(s, 64);
    struct btl_transfer fetch = to(&far_credit, &near_credit, 0, 64);
    struct btl_done done = {0};
    uint64_t taken = 0;
    int64_t deadline = patience();

    memset(near_credit.base, 0, 64);
    ask_begin(
        s, &(struct ask){.what = ASK_STREAM, .id = 0, .a = messages, .b = 1, .c = 2, .d = SLOTS});
    for (uint64_t n = 1; n <= messages; n++) {
        size_t index = n % SLOTS;
        struct note note = {n, index * REGION + draw(s, 100), 0, draw(s, UINT64_MAX)};
        struct btl_transfer slot = to(&f.ring, &f.near_ring, index * SLOT_BYTES, SLOT_BYTES),
                            payload;

        while (n > taken + SLOTS) {
            target_silent(s);
            get_must(s, f.connection, &fetch, &done);
            done_must(s, f.connection, &done);
            memcpy(&taken, near_credit.base, 8);
            REQUIRE(!deadline_passed(deadline),
                    "the stream stands at %llu, of which %llu were taken", (unsigned long long)n,
                    (unsigned long long)taken);
        }
        note.bytes = draw(s, 4) == 0 ? draw(s, REGION - 100) : draw(s, 300);
        payload = to(&f.heap, &f.near_heap, note.offset, note.bytes);
        pattern_fill((uint8_t *)f.near_heap.base + note.offset, note.bytes, note.key);
        seal(&f.near_ring, index, &note);
        write_must(s, f.connection, note.bytes == 0 ? NULL : &payload, &slot);
    }
    while (taken < messages) {
        get_must(s, f.connection, &fetch, &done);
        done_must(s, f.connection, &done);
        memcpy(&taken, near_credit.base, 8);
        REQUIRE(!deadline_passed(deadline), "%llu of %llu messages were taken",
                (unsigned long long)taken, (unsigned long long)messages);
    }
    REQUIRE(ask_end(s).rc == 0, "a stream of %llu messages", (unsigned long long)messages);
    field_close(s, &f);
    far_free(s, &far_credit);
    near_free(s, &near_credit);
}

static void long_stream(struct side *s) { stream(s, 1500); }

/* ---- memory of devices ---- */

/* There and back, to and from addresses that no processor can touch; slots are in memory of the host. */
static void between_devices(struct side *s, struct field *f, const struct device_memory *near)
{
    struct btl_transfer slot = to(&f->ring, &f->near_ring, 0, SLOT_BYTES);
    uint64_t number = 0;

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < SIZES; i++) {
            struct note note = {++number, draw(s, 1000), sizes[i], draw(s, UINT64_MAX)};
            struct btl_transfer t = to(&f->heap, &f->near_heap, note.offset, note.bytes);
            struct btl_done done = {0};
            struct answer there;

            pattern_fill(near->alias + note.offset, note.bytes, note.key);
            seal(&f->near_ring, 0, &note);
            write_must(s, f->connection, &t, &slot);
            ask_begin(s, &(struct ask){.what = ASK_AWAIT, .id = 0, .a = 0, .b = number, .c = 1});
            flush_must(s, f->connection);
            there = ask_end(s);
            REQUIRE(there.rc == 0, "a write of %zu bytes: %s", note.bytes, there.err.text);
            if (note.bytes == 0)
                continue;
            memset(near->alias + note.offset, 0, note.bytes);
            get_must(s, f->connection, &t, &done);
            done_must(s, f->connection, &done);
            REQUIRE(pattern_same(near->alias + note.offset, note.bytes, note.key),
                    "a get of %zu bytes brought others", note.bytes);
        }
    }
}

static void memory_of_devices(struct side *s)
{
    const struct btl_ops *ops = s->backend->ops;
    struct device_memory near;
    struct error err = {""};
    struct field f = {0};
    int rc;

    if (ops->register_device == NULL)
        return;
    near = device_memory_make(2 * MIB);
    rc = ops->register_device(s->backend->btl, s->peer, near.base, near.bytes,
                              &(struct btl_device){.fd = near.fd}, BTL_LOCAL, &f.near_heap, &err);
    if (rc != 0) {
        REQUIRE(*err.text != '\0', "memory of a device is refused without a reason: %d", rc);
        printf("    skipped: %s\n", err.text);
        device_memory_free(&near);
        return;
    }
    REQUIRE(f.near_heap.device && f.near_heap.base == near.base, "memory of a device as another");
    f.connection = line_up(s, 0, 0);
    f.ring = far_alloc(s, 0, SLOT_BYTES, BTL_PEER_WRITES);
    f.heap = far_alloc_as(s, 1, 2 * MIB, BTL_PEER_WRITES, KIND_DEVICE);
    f.near_ring = near_alloc(s, SLOT_BYTES);
    between_devices(s, &f, &near);
    field_close(s, &f);
    device_memory_free(&near);
}

/* ---- atomics ---- */

static int atomic_call(struct side *s, struct btl_connection *connection, int op,
                       const struct btl_transfer *at, uint64_t operand, uint64_t compare,
                       struct btl_done *done)
{
    int64_t deadline = patience();
    int rc;

    while ((rc = s->backend->ops->atomic(connection, op, at, operand, compare, done)) == -EAGAIN) {
        REQUIRE(!deadline_passed(deadline), "an atomic is refused for ever");
        drive(s, connection);
    }
    return rc;
}

static uint64_t expected(int op, uint64_t old, uint64_t operand, uint64_t compare)
{
    const uint64_t all[] = {old + operand, old == compare ? operand : old,
                            operand,       old & operand,
                            old | operand, old ^ operand};

    return all[op];
}

static void atomics(struct side *s)
{
    enum { OPS = 6, CELLS = 16 };
    struct btl_connection *connection = line_up(s, 0, 0);
    struct far cells = far_alloc(s, 0, CELLS * 8, BTL_PEER_ATOMICS);
    struct btl_memory near = near_alloc(s, 64);
    uint32_t mask = s->backend->ops->connection_atomics(connection);
    uint64_t model[CELLS] = {0}, old;

    for (int op = 0; op < OPS; op++) {
        struct btl_transfer at = {&cells.remote, 0, &near, 0, 8};
        struct btl_done done = {0};

        if ((mask & 1u << op) == 0) {
            int rc = s->backend->ops->atomic(connection, op, &at, 1, 1, &done);

            REQUIRE(rc != 0 && rc != -EAGAIN && atomic_load(&done.pending) == 0,
                    "atomic %d, which is not offered: %d", op, rc);
            continue;
        }
        for (int n = 0; n < 12; n++) {
            size_t cell = draw(s, CELLS);
            uint64_t operand = draw(s, UINT64_MAX),
                     compare = n % 2 == 0 ? model[cell] : draw(s, UINT64_MAX);
            bool fetch = draw(s, 2) == 0;

            at = (struct btl_transfer){&cells.remote, cell * 8, fetch ? &near : NULL, 8, 8};
            REQUIRE(atomic_call(s, connection, op, &at, operand, compare, &done) == 0, "atomic %d",
                    op);
            done_must(s, connection, &done);
            memcpy(&old, (uint8_t *)near.base + 8, 8);
            REQUIRE(!fetch || old == model[cell], "atomic %d brought %llx; it was %llx", op,
                    (unsigned long long)old, (unsigned long long)model[cell]);
            model[cell] = expected(op, model[cell], operand, compare);
        }
    }
    flush_must(s, connection);
    for (size_t i = 0; i < CELLS && mask != 0; i++)
        REQUIRE(ask(s, (struct ask){.what = ASK_WORD, .id = 0, .a = i * 8}).value == model[i],
                "cell %zu after atomics", i);
    printf("    atomics offered: 0x%x\n", mask);
    line_down(s, 0, connection);
    far_free(s, &cells);
    near_free(s, &near);
}

/* Many at once on one cell, without waiting; the processor too, where the backend allows it. */
void count_together(struct side *s)
{
    enum { EACH = 200 };
    bool coherent = (s->backend->ops->attributes.capabilities & BTL_ATOMICS_COHERENT) != 0;
    struct btl_connection *connection = line_up(s, 0, 0);
    struct far cells = far_alloc(s, 0, 64, BTL_PEER_ATOMICS);
    struct btl_transfer at = {&cells.remote, 8, NULL, 0, 8};
    struct btl_memory near = near_alloc(s, EACH * 8);
    struct btl_done done = {0};
    uint64_t count, want = EACH;
    uint64_t *old = near.base;
    bool seen[2 * EACH] = {false};

    if ((s->backend->ops->connection_atomics(connection) & 1u) != 0) {
        ask_begin(s, &(struct ask){.what = ASK_COUNT, .id = 0, .a = 8, .b = coherent ? EACH : 0});
        for (size_t i = 0; i < EACH; i++) {
            at.memory = &near;
            at.offset = 8 * i;
            REQUIRE(atomic_call(s, connection, 0, &at, 1, 0, &done) == 0, "atomic add");
        }
        done_must(s, connection, &done);
        REQUIRE(ask_end(s).rc == 0, "the target counts");
        want += coherent ? EACH : 0;
        for (size_t i = 0; i < EACH; i++) {
            REQUIRE(old[i] < want && !seen[old[i]], "two additions found %llu",
                    (unsigned long long)old[i]);
            seen[old[i]] = true;
        }
        count = ask(s, (struct ask){.what = ASK_WORD, .id = 0, .a = 8}).value;
        REQUIRE(count == want, "%llu additions gave %llu", (unsigned long long)want,
                (unsigned long long)count);
    }
    line_down(s, 0, connection);
    far_free(s, &cells);
    near_free(s, &near);
}

const struct test transfer_tests[] = {
    {"payload before flag, all sizes", writes},
    {"gets of all sizes", gets},
    {"short writes around the ends of pages", writes_around_pages},
    {"short gets around the ends of pages", gets_around_pages},
    {"what is fetched is not old", gets_are_fresh},
    {"many gets at once", many_gets},
    {"many writes at once", many_writes},
    {"flush places", flush_places},
    {"what is accepted needs no further call", no_further_call},
    {"a long stream", long_stream},
    {"memory of devices", memory_of_devices},
    {"atomics", atomics},
    {"atomics at once", count_together},
    {NULL, NULL},
};
