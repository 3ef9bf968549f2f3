/* SPDX-License-Identifier: BSD-3-Clause */
/* violations_memory.c: violations in shared memory, see violations.h: chosen ones, and random ones while the ends are in use. */
#include "violations.h"
#include "test/lib/cells.h"
#include <rinfo.h>
#include <rpipe.h>

#include "rpipe/end/path.h"
#include "sync/seal.h"

#include <pthread.h>

/* ---- what a byzantine writer can do to a reader ---- */

struct slot_violation {
    const char *name;
    struct slot slot;
    uint64_t final; /* != 0: this into the control line, and no slot */
    int expected;
};

#define HEAP_SLOT(o, s)                                                                            \
    {                                                                                              \
        .heap = {.offset = (o), .size = (s)}, .kind = SLOT_HEAP                                    \
    }
static const struct slot_violation slot_violations[] = {
    {"kind 0", {.kind = 0}, 0, -EPROTO},
    {"kind 3", {.kind = 3, .bytes = 8}, 0, -EPROTO},
    {"a message from a region, where memory is mapped",
     {.heap = {.offset = 0, .size = 100, .region = 1, .at = 0}, .kind = SLOT_REGION},
     0,
     -EPROTO},
    {"kind 255", {.kind = 255, .bytes = 8}, 0, -EPROTO},
    {"41 bytes in a slot", {.kind = SLOT_INLINE, .bytes = 41}, 0, -EPROTO},
    {"255 bytes in a slot", {.kind = SLOT_INLINE, .bytes = 255}, 0, -EPROTO},
    {"one byte behind the heap", HEAP_SLOT(0, HEAP + 1), 0, -EPROTO},
    {"the last byte and one more", HEAP_SLOT(HEAP - 1, 2), 0, -EPROTO},
    {"offset behind the heap", HEAP_SLOT(HEAP + 64, 0), 0, -EPROTO},
    {"offset that wraps around", HEAP_SLOT(UINT64_MAX - 63, 64), 0, -EPROTO},
    {"size that wraps around", HEAP_SLOT(64, UINT64_MAX - 32), 0, -EPROTO},
    {"offset 2^63", HEAP_SLOT(UINT64_C(1) << 63, 8), 0, -EPROTO},
    {"an end before what was read", {.kind = 0}, 2, -EPROTO},
    {"an end of 2^64 - 1", {.kind = 0}, UINT64_MAX, -EPROTO},
    {"an end that promises more than there is", {.kind = 0}, 5 + 1, -EPROTO},
};

static void violate_reader(const struct slot_violation *violation, rpipe_op_t op)
{
    struct pair p = pair_open(op);
    struct slot *slot;
    raddr_t d;
    int i, rc;

    for (i = 0; i < 3; i++) {
        send_one(p.w, i == 1 ? 500 : 24, (uint64_t)i);
        receive_one(p.r, i == 1 ? 500 : 24, (uint64_t)i);
    }
    if (violation->final != 0) {
        atomic_store(&p.w->ring->control.final, violation->final);
    } else {
        slot = &p.w->ring->slot[3];
        memcpy(slot, &violation->slot, offsetof(struct slot, flag));
        ring_slot_publish(slot, 4);
    }
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == violation->expected, "%s: rread gave %d (%s): %s", violation->name, rc,
           rinfo_strerror(rc), rerror(p.r));
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == violation->expected, "%s: the second rread gave %d: %s", violation->name, rc,
           rerror(p.r));
    while ((rc = rwait(p.w)) == 0) /* the byzantine end is notified, in a moment */
        backoff_us(100);
    EXPECT(rc == -EPROTO, "%s: the writer got %d: %s", violation->name, rc, rerror(p.w));
    pair_close(p);
}

/* Flags that are not the expected one are no messages. */
static void violate_flags(void)
{
    static const uint64_t flags[] = {1, 3, 5, 4 + SLOTS, UINT64_MAX, UINT64_C(1) << 63};
    struct pair p = pair_open(RPIPE_PUT);
    raddr_t d;
    size_t i;
    int rc;

    for (i = 0; i < 3; i++) {
        send_one(p.w, 24, i);
        receive_one(p.r, 24, i);
    }
    CHECK(p.r, rset_timeout(p.r, SHORT_MS) == 0);
    for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        atomic_store(&p.w->ring->slot[3].flag, flags[i]);
        rc = rread(p.r, &d, NULL);
        EXPECT(rc == -ETIMEDOUT, "flag %llu: rread gave %d", (unsigned long long)flags[i], rc);
    }
    atomic_store(&p.w->ring->control.reader_wake,
                 0xffffffffu); /* nor are forged wake words more than noise */
    atomic_store(&p.w->ring->control.writer_wake, 77);
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == -ETIMEDOUT, "wake words: rread gave %d", rc);
    atomic_store(&p.w->ring->slot[3].flag, 0);
    send_one(p.w, 24, 3);
    receive_one(p.r, 24, 3);
    pair_close(p);
}

/* More messages than the heap has units. */
static void violate_numbers(void)
{
    struct pair p = pair_open(RPIPE_PUT);
    uint64_t i, units = HEAP / 64;
    struct slot *slot;
    int rc = 0;
    raddr_t d;

    for (i = 0; rc == 0 && i <= units; i++) {
        slot = &p.w->ring->slot[i % SLOTS];
        memset(slot, 0, offsetof(struct slot, flag));
        slot->kind = SLOT_HEAP;
        slot->heap.offset = i % units * 64;
        ring_slot_publish(slot, i + 1);
        rc = rread(p.r, &d, NULL);
    }
    EXPECT(rc == -EPROTO && i == units + 1, "%llu messages in %llu units: %d",
           (unsigned long long)i, (unsigned long long)units, rc);
    pair_close(p);
}

/* The same memory twice: seen with RMALLOC_DEBUG=1, harmless without. */
static void violate_twice(void)
{
    struct pair p = pair_open(RPIPE_PUT);
    raddr_t d;
    int rc;

    send_one(p.w, 500, 1);
    CHECK(p.r, rread(p.r, &d, NULL) == 0);
    p.w->ring->slot[1] = p.w->ring->slot[0];
    p.w->ring->slot[1].heap.offset += 64;
    ring_slot_publish(&p.w->ring->slot[1], 2);
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == (p.r->checked ? -EPROTO : 0), "overlap: %d", rc);
    pair_close(p);
}

/* More heap messages than the queue allows to be outstanding. */
static void violate_queue(rpipe_op_t op, const struct kind *k)
{
    struct pair p = pair_open_as(op, k);
    struct slot *slot;
    int rc = 0, i;
    raddr_t d;

    for (i = 0; rc == 0 && i <= QUEUE; i++) {
        slot = &p.w->ring->slot[i % SLOTS];
        memset(slot, 0, offsetof(struct slot, flag));
        slot->kind = SLOT_HEAP;
        slot->heap.offset = (uint64_t)i * 64;
        slot->block =
            i == 0 ? UINT32_MAX
                   : (uint32_t)i * 1000; /* the index of a block is the writer's own business */
        ring_slot_publish(slot, (uint64_t)i + 1);
        rc = rread(p.r, &d, NULL);
        if (rc == 0 && i == 0)
            CHECK(p.r, rfree(p.r, d) == 0);
    }
    EXPECT(rc == 0 && i == QUEUE + 1, "%d messages in a queue of %d, one freed: %d", i, QUEUE, rc);
    slot = &p.w->ring->slot[i % SLOTS];
    memset(slot, 0, offsetof(struct slot, flag));
    slot->kind = SLOT_HEAP;
    ring_slot_publish(slot, (uint64_t)i + 1);
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == -EPROTO, "one more than the queue of %d allows: %d", QUEUE, rc);
    pair_close(p);
}

/* ---- what a byzantine reader can do to a writer ---- */

/* Two messages are out, as blocks 0 and 1 of QUEUE, read and not freed. What the reader names as freed: */
static const struct {
    const char *name;
    int n;
    uint32_t block[QUEUE];
    int64_t lap; /* beyond the right one */
    int expected;
} names[] = {
    {"block QUEUE", 1, {QUEUE}, 0, -EPROTO},
    {"block 2^32 - 1", 1, {UINT32_MAX}, 0, -EPROTO},
    {"block 2^31", 1, {UINT32_C(1) << 31}, 0, -EPROTO},
    {"a block that is not out", 1, {2}, 0, -EPROTO},
    {"a block that was never out", 2, {0, 3}, 0, -EPROTO},
    {"the same block twice", 2, {1, 1}, 0, -EPROTO},
    {"more than are out", 3, {0, 1, 0}, 0, -EPROTO},
    {"both, the wrong lap", 2, {0, 1}, 1, -EAGAIN},
    {"invalid, the wrong lap", 1, {77}, 5, -EAGAIN},
    {"invalid, the lap before", 1, {77}, -1, -EAGAIN},
    {"both", 2, {1, 0}, 0, 0},
};

static void name_blocks(const struct pair *p, int i, uint32_t block, int64_t lap)
{
    if (p->r->r.blocks.reverse == NULL) {
        atomic_store(&p->r->credit->tag[i], (uint64_t)(1 + lap) << 32 | block);
        return;
    }
    p->r->r.blocks.reverse[i].block = block;
    p->r->r.blocks.reverse[i].kind = (uint8_t)(i * 77);
    ring_slot_publish(&p->r->r.blocks.reverse[i], (uint64_t)(1 + i + lap * QUEUE));
}

static void violate_blocks(rpipe_op_t op, const struct kind *k)
{
    size_t n;

    for (n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct pair p = pair_open_as(op, k);
        raddr_t d, held[2];
        int i, rc;

        for (i = 0; i < 2; i++) {
            send_one(p.w, 1000, (uint64_t)i);
            CHECK(p.r, rread(p.r, &held[i], NULL) == 0);
        }
        for (i = 0; i < names[n].n; i++)
            name_blocks(&p, i, names[n].block[i], names[n].lap);
        rc = rmalloc_nb(p.w, HEAP, &d);
        EXPECT(rc == names[n].expected, "%s, sync %d: the writer got %d (%s): %s", names[n].name,
               (int)k->sync, rc, rinfo_strerror(rc), rerror(p.w));
        if (rc == -EAGAIN) { /* not yet: what is true comes later */
            CHECK(p.r, rfree(p.r, held[1]) == 0 && rfree(p.r, held[0]) == 0);
            rc = rmalloc_nb(p.w, HEAP, &d);
            EXPECT(rc == 0, "%s, sync %d, and then the truth: %d: %s", names[n].name, (int)k->sync,
                   rc, rerror(p.w));
        } else if (rc == -EPROTO) {
            CHECK(p.r, rset_timeout(p.r, PATIENCE_MS) == 0);
            rc = rread(p.r, &d, NULL);
            EXPECT(rc == -EPROTO, "%s, sync %d: the reader got %d (%s)", names[n].name,
                   (int)k->sync, rc, rinfo_strerror(rc));
        }
        pair_close(p);
    }
}

struct credit_violation {
    const char *name;
    uint64_t read, freed;
    int expected;
};

/* The writer has sent 8 messages, 4 of them in the heap; 4 slots are read and 2 heap messages freed, and it has the credits. */
static const struct credit_violation credit_violations[] = {
    {"more slots read than sent", 1000, 2, -EPROTO},
    {"slots read backwards", 3, 2, -EPROTO},
    {"slots read: 2^64 - 1", UINT64_MAX, 2, -EPROTO},
    {"slots read: none", 0, 2, -EPROTO},
    {"more freed than sent", 8, 1000, -EPROTO},
    {"freed backwards", 8, 1, -EPROTO},
    {"freed: 2^64 - 1", 8, UINT64_MAX, -EPROTO},
    {"both", UINT64_MAX / 2, UINT64_MAX / 2, -EPROTO},
    {"all freed, and not read", 4, 4, -ETIMEDOUT}, /* one word is never held against the other */
};

static void violate_writer(const struct credit_violation *violation, rpipe_op_t op)
{
    struct pair p = pair_open(op);
    raddr_t d;
    int i, rc = 0;

    for (i = 0; i < 4; i++)
        send_one(p.w, i % 2 == 0 ? 24 : 200, (uint64_t)i);
    for (i = 0; i < 4; i++)
        receive_one(p.r, i % 2 == 0 ? 24 : 200, (uint64_t)i);
    for (i = 0; i < 4; i++)
        send_one(p.w, i % 2 == 0 ? 24 : 200, (uint64_t)i);
    CHECK(p.w, p.w->path->fetch_credits(p.w, NEED_SLOT) == 0);
    atomic_store(&p.r->credit->line.slots_read, violation->read);
    atomic_store(&p.r->credit->line.heap_freed, violation->freed);
    CHECK(p.w, rset_timeout(p.w, SHORT_MS) == 0);
    for (i = 0; rc == 0 && i < 3 * SLOTS; i++) {
        errno = 0;
        d = rmalloc(p.w, i % 2 == 0 ? 24 : 200);
        rc = d != ADDR_NULL ? rwrite(p.w, d) : -errno;
    }
    EXPECT(rc == violation->expected, "%s: the writer got %d (%s): %s", violation->name, rc,
           rinfo_strerror(rc), rerror(p.w));
    if (violation->expected == -EPROTO) {
        CHECK(p.r, rset_timeout(p.r, PATIENCE_MS) == 0);
        do
            rc = rread(p.r, &d, NULL);
        while (rc == 0);
        EXPECT(rc == -EPROTO, "%s: the reader got %d (%s)", violation->name, rc,
               rinfo_strerror(rc));
    }
    pair_close(p);
}

/* ---- under one's feet ---- */

/* Where the reader names the blocks that it has freed: likely ones, unlikely ones, and bytes. */
static void scribble_blocks(struct scribble *s, uint64_t x, uint64_t value)
{
    struct rch *r = s->p.r;
    struct slot *reverse = r->remote != NULL
                               ? s->p.w->w.blocks.reverse
                               : r->r.blocks.reverse; /* over a network: where it arrives */
    uint64_t likely = (1 + (x >> 34 & 1)) << 32 | (x >> 36 & 3), i;

    if (s->queue == 0)
        return;
    i = x >> 32 & 3 ? 0 : random_draw(&s->random) % s->queue;
    if (r->r.sync == RPIPE_SYNC_TAGS) {
        atomic_store_explicit(&r->credit->tag[(i + (x >> 40)) % s->queue],
                              x >> 39 & 1 ? likely : value, memory_order_relaxed);
    } else if (reverse != NULL) {
        struct slot *slot = &reverse[(i + (x >> 40 & 7)) % s->queue];

        __atomic_store_n(&slot->block, (uint32_t)(x >> 39 & 1 ? x >> 36 & 3 : value),
                         __ATOMIC_RELAXED);
        if (r->remote != NULL && x >> 37 & 1)
            seal_slot(slot, 1 + (x >> 50 & 7));
        else
            atomic_store_explicit(&slot->flag, x >> 38 & 1 ? 1 + (x >> 50 & 7) : value,
                                  memory_order_relaxed);
    }
}

void *scribbles(void *argument)
{
    struct scribble *s = argument;

    while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
        uint64_t x = random_draw(&s->random);
        struct slot *slot = &s->p.r->ring->slot[x >> 8 & (SLOTS - 1)];
        volatile uint64_t *word = (volatile uint64_t *)(void *)slot + (x >> 16 & 7);
        uint64_t value =
            x >> 24 & 1 ? random_draw(&s->random) : random_draw(&s->random) % (2 * HEAP);

        if (x >> 25 & 1)
            value %= 64;
        switch (x & 15) {
        case 0:
            atomic_store_explicit(&s->p.r->credit->line.slots_read, value, memory_order_relaxed);
            break;
        case 1:
            atomic_store_explicit(&s->p.r->credit->line.heap_freed, value, memory_order_relaxed);
            break;
        case 2:
            atomic_store_explicit(&s->p.r->ring->control.final, value, memory_order_relaxed);
            break;
        case 4:
        case 5:
        case 6:
            scribble_blocks(s, x, value);
            break;
        case 3:
            atomic_store_explicit(&s->p.r->ring->control.reader_wake, (uint32_t)value,
                                  memory_order_relaxed);
            atomic_store_explicit(&s->p.r->ring->control.writer_wake, (uint32_t)value,
                                  memory_order_relaxed);
            break;
        default:
            *word = value;
            if (s->p.r->remote != NULL && x >> 26 & 1) /* invalid data in a seal that fits */
                seal_slot(slot, 1 + (x >> 27 & 31));
        }
    }
    return NULL;
}

static void fuzz_round(uint64_t *random)
{
    static const uint32_t queues[] = {1, 3, 8, 100};
    struct kind k = *(const struct kind *const[]){&plain, &tags, &channel, &growing,
                                                  &growing_tags}[random_draw(random) % 5];
    struct scribble s = {.random = random_draw(random)};
    raddr_t d, held[4] = {NULL};
    pthread_t thread;
    int i, rc;
    size_t size, sum = 0, at;

    if (k.sync != RPIPE_SYNC_BLOCKS) {
        k.queue = queues[random_draw(random) % 4];
        k.algorithm = (rmalloc_fit_t)(RMALLOC_NEXT_FIT + random_draw(random) % 6);
    }
    s.queue = k.queue;
    s.p = pair_open_as(random_draw(random) % 2 == 0 ? RPIPE_PUT : RPIPE_GET, &k);
    CHECK(NULL, rset_timeout(s.p.w, 1) == 0 && rset_timeout(s.p.r, 1) == 0);
    CHECK(NULL, pthread_create(&thread, NULL, scribbles, &s) == 0);
    for (i = 0; i < 40; i++) {
        size = random_draw(random) % (random_draw(random) % 8 == 0 ? 2 * HEAP : 300);
        d = rmalloc(s.p.w, size);
        rc = d != ADDR_NULL ? rwrite(s.p.w, d) : -errno;
        EXPECT(allowed(rc), "fuzz: the writer got %d (%s): %s", rc, rinfo_strerror(rc),
               rerror(s.p.w));
        if (d != ADDR_NULL && rc != 0)
            CHECK(s.p.w, rfree(s.p.w, d) == 0);
        rc = rread(s.p.r, &d, &size);
        EXPECT(allowed(rc), "fuzz: the reader got %d (%s): %s", rc, rinfo_strerror(rc),
               rerror(s.p.r));
        if (rc != 0)
            continue;
        CHECK(s.p.r, size <= (k.most != 0 ? k.most : HEAP));
        for (at = 0; at < size; at++)
            sum += ((const uint8_t *)rmem(s.p.r, d))[at]; /* every byte can be read */
        if (held[i % 4] != NULL)
            CHECK(s.p.r, rfree(s.p.r, held[i % 4]) == 0);
        held[i % 4] = d;
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    pair_close(s.p);
    if (sum == 1)
        printf("\n"); /* the sum is used */
}

/* ---- all of it ---- */

void violate_memory(void)
{
    rpipe_op_t op;
    size_t n;

    for (op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        for (n = 0; n < sizeof(slot_violations) / sizeof(slot_violations[0]); n++)
            violate_reader(&slot_violations[n], op);
        for (n = 0; n < sizeof(credit_violations) / sizeof(credit_violations[0]); n++)
            violate_writer(&credit_violations[n], op);
        violate_queue(op, &tags);
        violate_queue(op, &channel);
        violate_blocks(op, &tags);
        violate_blocks(op, &channel);
    }
    violate_flags();
    violate_numbers();
    violate_twice();
}

void violate_memory_in_use(uint64_t *random, int rounds)
{
    while (rounds-- > 0)
        fuzz_round(random);
}
