/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liar.c: a peer that writes nonsense where it may write, and says nonsense on the control network.
 *
 * A job of one holds both ends of every channel; the test plays the lying one with the library's own headers: it
 * stores into the slots, the control line, the credit line, the queue of tags and the reverse ring, and posts halves, byes,
 * growth and shared memory that cannot be. What can be seen to be wrong is -EPROTO on that channel, at both ends; everything else is "not yet"; nothing
 * crashes, hangs or touches what lies outside. Another channel of the same process goes on all the time. Meant to be
 * run under AddressSanitizer too.
 *
 *     liar [FUZZ_ROUNDS]
 */
#include "job.h"

#include "bootstrap/control.h"
#include "rpipe/half.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#define SLOTS 8
#define HEAP 4096
#define SHORT_MS 30

struct pair {
    rch_t w, r;
};

/* What a channel is opened as, beyond PUT and GET. */
struct kind {
    rmalloc_sync_t sync;
    rmalloc_algorithm_t algorithm;
    uint32_t queue;
    uint64_t most; /* max_alloc_size */
};
#define QUEUE 4
#define MOST (16 * HEAP)

static const struct kind plain = {NET_SYNC_BLOCKS, NEXT_FIT, 0, 0}, tags = {NET_SYNC_TAGS, BEST_FIT, QUEUE, 0},
                         channel = {CHANNEL_SYNC, FIRST_FIT, QUEUE, 0}, growing = {NET_SYNC_BLOCKS, NEXT_FIT, 0, MOST},
                         growing_tags = {NET_SYNC_TAGS, WORST_FIT, 0, MOST};

static uint32_t next_ctx;
static struct pair bystander;

static rmalloc_config_t config(bool writer, rdma_op_t op, uint32_t ctx)
{
    rmalloc_config_t cfg = channel_config(op, 0, writer, HEAP);

    cfg.ctx = ctx;
    cfg.slots = SLOTS;
    return cfg;
}

static struct pair pair_open_as(rdma_op_t op, const struct kind *k)
{
    uint32_t ctx = next_ctx++;
    rmalloc_config_t w = config(true, op, ctx), r = config(false, op, ctx);
    struct pair p = {NULL, NULL};

    w.sync = r.sync = k->sync;
    w.allocator.algorithm = r.allocator.algorithm = k->algorithm;
    w.sync_queue = r.sync_queue = k->queue;
    w.allocator.max_alloc_size = r.allocator.max_alloc_size = k->most;
    MUST(rpipe(&p.w, &w) == 0 && rpipe(&p.r, &r) == 0, NULL);
    MUST(rpipe_wait(p.w) == 0 && rpipe_wait(p.r) == 0, p.w);
    return p;
}

static struct pair pair_open(rdma_op_t op) { return pair_open_as(op, &plain); }

static void send_one(rch_t w, size_t bytes, uint64_t key)
{
    raddr_t d = rmalloc(w, bytes);

    MUST(d != ADDR_NULL, w);
    fill(rmem(w, d), bytes, key);
    MUST(rwrite(w, d) == 0, w);
}

static void receive_one(rch_t r, size_t bytes, uint64_t key)
{
    raddr_t d;
    size_t size;

    MUST(rread(r, &d, &size) == 0, r);
    MUST(size == bytes && filled(rmem(r, d), size, key), r);
    MUST(rfree(r, d) == 0, r);
}

/* The other channel does not notice; the one that was lied to can be closed. */
static void pair_close(struct pair p)
{
    static uint64_t key;

    key++;
    send_one(bystander.w, 16, key);
    send_one(bystander.w, 700, key);
    receive_one(bystander.r, 16, key);
    receive_one(bystander.r, 700, key);
    MUST(rclose(p.w) == 0, p.w);
    MUST(rclose(p.r) == 0, p.r);
}

/* ---- what a lying writer can do to a reader ---- */

struct lie {
    const char *name;
    struct slot slot;
    uint64_t final; /* != 0: this into the control line, and no slot */
    int expected;
};

#define HEAP_SLOT(o, s)                                                                                                \
    {                                                                                                                  \
        .heap = {.offset = (o), .size = (s)}, .kind = SLOT_HEAP                                                        \
    }
static const struct lie lies[] = {
    {"kind 0", {.kind = 0}, 0, -EPROTO},
    {"kind 3", {.kind = 3, .bytes = 8}, 0, -EPROTO},
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

static void lie_to_reader(const struct lie *lie, rdma_op_t op)
{
    struct pair p = pair_open(op);
    struct slot *slot;
    raddr_t d;
    int i, rc;

    for (i = 0; i < 3; i++) {
        send_one(p.w, i == 1 ? 500 : 24, (uint64_t)i);
        receive_one(p.r, i == 1 ? 500 : 24, (uint64_t)i);
    }
    if (lie->final != 0) {
        atomic_store(&p.w->ring->control.final, lie->final);
    } else {
        slot = &p.w->ring->slot[3];
        memcpy(slot, &lie->slot, offsetof(struct slot, flag));
        ring_slot_publish(slot, 4);
    }
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == lie->expected, "%s: rread gave %d (%s): %s", lie->name, rc, rstrerror(rc), rpipe_error(p.r));
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == lie->expected, "%s: the second rread gave %d: %s", lie->name, rc, rpipe_error(p.r));
    while ((rc = rpipe_wait(p.w)) == 0) /* the liar is told, in a moment */
        nap_us(100);
    EXPECT(rc == -EPROTO, "%s: the writer got %d: %s", lie->name, rc, rpipe_error(p.w));
    pair_close(p);
}

/* Flags that are not the expected one are no messages. */
static void lie_with_flags(void)
{
    static const uint64_t flags[] = {1, 3, 5, 4 + SLOTS, UINT64_MAX, UINT64_C(1) << 63};
    struct pair p = pair_open(RDMA_PUT);
    raddr_t d;
    size_t i;
    int rc;

    for (i = 0; i < 3; i++) {
        send_one(p.w, 24, i);
        receive_one(p.r, 24, i);
    }
    MUST(rpipe_set_timeout(p.r, SHORT_MS) == 0, p.r);
    for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        atomic_store(&p.w->ring->slot[3].flag, flags[i]);
        rc = rread(p.r, &d, NULL);
        EXPECT(rc == -ETIMEDOUT, "flag %llu: rread gave %d", (unsigned long long)flags[i], rc);
    }
    atomic_store(&p.w->ring->control.reader_wake,
                 0xffffffffu); /* nor are wake words of anybody's making more than noise */
    atomic_store(&p.w->ring->control.writer_wake, 77);
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == -ETIMEDOUT, "wake words: rread gave %d", rc);
    atomic_store(&p.w->ring->slot[3].flag, 0);
    send_one(p.w, 24, 3);
    receive_one(p.r, 24, 3);
    pair_close(p);
}

/* More messages than the heap has units. */
static void lie_with_numbers(void)
{
    struct pair p = pair_open(RDMA_PUT);
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
    EXPECT(rc == -EPROTO && i == units + 1, "%llu messages in %llu units: %d", (unsigned long long)i,
           (unsigned long long)units, rc);
    pair_close(p);
}

/* The same memory twice: seen with RMALLOC_DEBUG=1, harmless without. */
static void lie_twice(void)
{
    struct pair p = pair_open(RDMA_PUT);
    raddr_t d;
    int rc;

    send_one(p.w, 500, 1);
    MUST(rread(p.r, &d, NULL) == 0, p.r);
    p.w->ring->slot[1] = p.w->ring->slot[0];
    p.w->ring->slot[1].heap.offset += 64;
    ring_slot_publish(&p.w->ring->slot[1], 2);
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == (p.r->checked ? -EPROTO : 0), "overlap: %d", rc);
    pair_close(p);
}

/* More heap messages than the queue allows to be outstanding. */
static void lie_with_queue(rdma_op_t op, const struct kind *k)
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
        slot->block = i == 0 ? UINT32_MAX : (uint32_t)i * 1000; /* the index of a block is the writer's own business */
        ring_slot_publish(slot, (uint64_t)i + 1);
        rc = rread(p.r, &d, NULL);
        if (rc == 0 && i == 0)
            MUST(rfree(p.r, d) == 0, p.r);
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

/* Messages that lie in, beside and across the segments of a heap that has grown: HEAP bytes, and HEAP more. */
static void lie_about_segments(rdma_op_t op, const struct kind *k)
{
    static const struct {
        const char *name;
        uint64_t offset, size;
        int expected;
    } places[] = {
        {"all of the second segment", HEAP, HEAP, 0},
        {"the last byte", 2 * HEAP - 1, 1, 0},
        {"all of the first segment", 0, HEAP, 0},
        {"across the two", HEAP - 64, 128, -EPROTO},
        {"one byte across", HEAP - 1, 2, -EPROTO},
        {"one byte too long", HEAP, HEAP + 1, -EPROTO},
        {"both", 0, 2 * HEAP, -EPROTO},
        {"behind the last", 2 * HEAP, 0, -EPROTO},
        {"where a third one would lie", 2 * HEAP + 64, 64, -EPROTO},
        {"behind the limit", MOST, 64, -EPROTO},
        {"a size that wraps around", HEAP + 64, UINT64_MAX - HEAP, -EPROTO},
        {"an offset that wraps around", UINT64_MAX - 63, 128, -EPROTO},
    };
    size_t i, n;

    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct pair p = pair_open_as(op, k);
        struct slot *slot = &p.w->ring->slot[1];
        const uint8_t *mem;
        raddr_t d, first, second;
        uint64_t sum = 0;
        int rc;

        first = rmalloc(p.w, HEAP); /* and then only unsent memory stands in the way */
        second = rmalloc(p.w, HEAP);
        MUST(first != ADDR_NULL && second != ADDR_NULL, p.w);
        fill(rmem(p.w, second), HEAP, 9);
        MUST(rfree(p.w, first) == 0 && rwrite(p.w, second) == 0, p.w);
        receive_one(p.r, HEAP, 9);
        memset(slot, 0, offsetof(struct slot, flag));
        slot->kind = SLOT_HEAP;
        slot->heap.offset = places[i].offset;
        slot->heap.size = places[i].size;
        ring_slot_publish(slot, 2);
        rc = rread(p.r, &d, NULL);
        EXPECT(rc == places[i].expected, "%s: %d (%s): %s", places[i].name, rc, rstrerror(rc), rpipe_error(p.r));
        if (rc == 0) {
            mem = rmem(p.r, d);
            for (n = 0; n < rsize(p.r, d); n++)
                sum += mem[n];
            MUST(rsize(p.r, d) == places[i].size && sum != 1, p.r);
        }
        pair_close(p);
    }
}

/* ---- what a lying reader can do to a writer ---- */

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
    {"nonsense, the wrong lap", 1, {77}, 5, -EAGAIN},
    {"nonsense, the lap before", 1, {77}, -1, -EAGAIN},
    {"both", 2, {1, 0}, 0, 0},
};

static void name_blocks(const struct pair *p, int i, uint32_t block, int64_t lap)
{
    if (p->r->r.reverse == NULL) {
        atomic_store(&p->r->credit->tag[i], (uint64_t)(1 + lap) << 32 | block);
        return;
    }
    p->r->r.reverse[i].block = block;
    p->r->r.reverse[i].kind = (uint8_t)(i * 77);
    ring_slot_publish(&p->r->r.reverse[i], (uint64_t)(1 + i + lap * QUEUE));
}

static void lie_about_blocks(rdma_op_t op, const struct kind *k)
{
    size_t n;

    for (n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct pair p = pair_open_as(op, k);
        raddr_t d, held[2];
        int i, rc;

        for (i = 0; i < 2; i++) {
            send_one(p.w, 1000, (uint64_t)i);
            MUST(rread(p.r, &held[i], NULL) == 0, p.r);
        }
        for (i = 0; i < names[n].n; i++)
            name_blocks(&p, i, names[n].block[i], names[n].lap);
        rc = rmalloc_nb(p.w, HEAP, &d);
        EXPECT(rc == names[n].expected, "%s, sync %d: the writer got %d (%s): %s", names[n].name, (int)k->sync, rc,
               rstrerror(rc), rpipe_error(p.w));
        if (rc == -EAGAIN) { /* not yet: what is true comes later */
            MUST(rfree(p.r, held[1]) == 0 && rfree(p.r, held[0]) == 0, p.r);
            rc = rmalloc_nb(p.w, HEAP, &d);
            EXPECT(rc == 0, "%s, sync %d, and then the truth: %d: %s", names[n].name, (int)k->sync, rc,
                   rpipe_error(p.w));
        } else if (rc == -EPROTO) {
            MUST(rpipe_set_timeout(p.r, PATIENCE_MS) == 0, p.r);
            rc = rread(p.r, &d, NULL);
            EXPECT(rc == -EPROTO, "%s, sync %d: the reader got %d (%s)", names[n].name, (int)k->sync, rc,
                   rstrerror(rc));
        }
        pair_close(p);
    }
}

struct credit_lie {
    const char *name;
    uint64_t read, freed;
    int expected;
};

/* The writer has sent 8 messages, 4 of them in the heap; 4 slots are read and 2 heap messages freed, and it knows. */
static const struct credit_lie credit_lies[] = {
    {"more slots read than sent", 1000, 2, -EPROTO},  {"slots read backwards", 3, 2, -EPROTO},
    {"slots read: 2^64 - 1", UINT64_MAX, 2, -EPROTO}, {"slots read: none", 0, 2, -EPROTO},
    {"more freed than sent", 8, 1000, -EPROTO},       {"freed backwards", 8, 1, -EPROTO},
    {"freed: 2^64 - 1", 8, UINT64_MAX, -EPROTO},      {"both", UINT64_MAX / 2, UINT64_MAX / 2, -EPROTO},
    {"all freed, and not read", 4, 4, -ETIMEDOUT}, /* one word is never held against the other */
};

static void lie_to_writer(const struct credit_lie *lie, rdma_op_t op)
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
    MUST(credit_fetch(p.w, NEED_SLOT) == 0, p.w);
    atomic_store(&p.r->credit->line.slots_read, lie->read);
    atomic_store(&p.r->credit->line.heap_freed, lie->freed);
    MUST(rpipe_set_timeout(p.w, SHORT_MS) == 0, p.w);
    for (i = 0; rc == 0 && i < 3 * SLOTS; i++) {
        errno = 0;
        d = rmalloc(p.w, i % 2 == 0 ? 24 : 200);
        rc = d != ADDR_NULL ? rwrite(p.w, d) : -errno;
    }
    EXPECT(rc == lie->expected, "%s: the writer got %d (%s): %s", lie->name, rc, rstrerror(rc), rpipe_error(p.w));
    if (lie->expected == -EPROTO) {
        MUST(rpipe_set_timeout(p.r, PATIENCE_MS) == 0, p.r);
        do
            rc = rread(p.r, &d, NULL);
        while (rc == 0);
        EXPECT(rc == -EPROTO, "%s: the reader got %d (%s)", lie->name, rc, rstrerror(rc));
    }
    pair_close(p);
}

/* ---- under one's feet ---- */

struct scribble {
    struct pair p;
    uint32_t queue;
    uint64_t random;
    _Atomic bool stop;
};

/* Where the reader names the blocks that it has freed: likely ones, unlikely ones, and bytes. */
static void scribble_blocks(struct scribble *s, uint64_t x, uint64_t value)
{
    struct rch *r = s->p.r;
    uint64_t likely = (1 + (x >> 34 & 1)) << 32 | (x >> 36 & 3), i;

    if (s->queue == 0)
        return;
    i = x >> 32 & 3 ? 0 : draw(&s->random) % s->queue;
    if (r->r.sync == NET_SYNC_TAGS) {
        atomic_store_explicit(&r->credit->tag[(i + (x >> 40)) % s->queue], x >> 39 & 1 ? likely : value,
                              memory_order_relaxed);
    } else if (r->r.reverse != NULL) {
        struct slot *slot = &r->r.reverse[(i + (x >> 40 & 7)) % s->queue];

        __atomic_store_n(&slot->block, (uint32_t)(x >> 39 & 1 ? x >> 36 & 3 : value), __ATOMIC_RELAXED);
        atomic_store_explicit(&slot->flag, x >> 38 & 1 ? 1 + (x >> 50 & 7) : value, memory_order_relaxed);
    }
}

static void *scribbles(void *argument)
{
    struct scribble *s = argument;

    while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
        uint64_t x = draw(&s->random);
        struct slot *slot = &s->p.r->ring->slot[x >> 8 & (SLOTS - 1)];
        volatile uint64_t *word = (volatile uint64_t *)(void *)slot + (x >> 16 & 7);
        uint64_t value = x >> 24 & 1 ? draw(&s->random) : draw(&s->random) % (2 * HEAP);

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
            atomic_store_explicit(&s->p.r->ring->control.reader_wake, (uint32_t)value, memory_order_relaxed);
            atomic_store_explicit(&s->p.r->ring->control.writer_wake, (uint32_t)value, memory_order_relaxed);
            break;
        default:
            *word = value;
        }
    }
    return NULL;
}

static bool allowed(int rc)
{
    return rc == 0 || rc == -EPROTO || rc == -ETIMEDOUT || rc == R_EOF || rc == -EPIPE || rc == -ENOBUFS ||
           rc == -EMSGSIZE || rc == -ENOMEM;
}

static void fuzz_round(uint64_t *random)
{
    static const uint32_t queues[] = {1, 3, 8, 100};
    struct kind k = *(const struct kind *const[]){&plain, &tags, &channel, &growing, &growing_tags}[draw(random) % 5];
    struct scribble s = {.random = draw(random)};
    raddr_t d, held[4] = {NULL};
    pthread_t thread;
    int i, rc;
    size_t size, sum = 0, at;

    if (k.sync != NET_SYNC_BLOCKS) {
        k.queue = queues[draw(random) % 4];
        k.algorithm = (rmalloc_algorithm_t)(draw(random) % (RANDOM_FIT + 1));
    }
    s.queue = k.queue;
    s.p = pair_open_as(draw(random) % 2 == 0 ? RDMA_PUT : RDMA_GET, &k);
    MUST(rpipe_set_timeout(s.p.w, 1) == 0 && rpipe_set_timeout(s.p.r, 1) == 0, NULL);
    MUST(pthread_create(&thread, NULL, scribbles, &s) == 0, NULL);
    for (i = 0; i < 40; i++) {
        size = draw(random) % (draw(random) % 8 == 0 ? 2 * HEAP : 300);
        d = rmalloc(s.p.w, size);
        rc = d != ADDR_NULL ? rwrite(s.p.w, d) : -errno;
        EXPECT(allowed(rc), "fuzz: the writer got %d (%s): %s", rc, rstrerror(rc), rpipe_error(s.p.w));
        if (d != ADDR_NULL && rc != 0)
            MUST(rfree(s.p.w, d) == 0, s.p.w);
        rc = rread(s.p.r, &d, &size);
        EXPECT(allowed(rc), "fuzz: the reader got %d (%s): %s", rc, rstrerror(rc), rpipe_error(s.p.r));
        if (rc != 0)
            continue;
        MUST(size <= (k.most != 0 ? k.most : HEAP), s.p.r);
        for (at = 0; at < size; at++)
            sum += ((const uint8_t *)rmem(s.p.r, d))[at]; /* every byte can be looked at */
        if (held[i % 4] != NULL)
            MUST(rfree(s.p.r, held[i % 4]) == 0, s.p.r);
        held[i % 4] = d;
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    pair_close(s.p);
    if (sum == 1)
        printf("\n"); /* the sum is used */
}

/* ---- lies on the control network ---- */

enum { AT_MAGIC = 0, AT_CTX = 8, AT_INCARNATION = 12, AT_RING = 48, AT_CREDIT = 80, AT_HEAP = 112 };
enum {
    GROW_CTX = 0,
    GROW_INCARNATION = 4,
    GROW_SIDE = 8,
    GROW_CODE = 12,
    GROW_K = 16,
    GROW_LENGTH = 24,
    GROW_KEY = 32
};
#define GROW_BYTES 64

static void put64(unsigned char *blob, int at, uint64_t value) { memcpy(blob + at, &value, sizeof(value)); }
static void put32(unsigned char *blob, int at, uint32_t value) { memcpy(blob + at, &value, sizeof(value)); }

/* ---- growth ---- */

/* Says to the end that is `ch`'s peer, which is in this process too, what `ch` should not. */
static void say_growth(rch_t ch, uint32_t type, uint64_t k, uint64_t bytes, int code, const struct btl_key *key)
{
    unsigned char body[GROW_BYTES] = {0};

    put32(body, GROW_CTX, ch->cfg.ctx);
    put32(body, GROW_INCARNATION, ch->end.incarnation);
    put32(body, GROW_SIDE, (uint32_t)config_side(&ch->cfg));
    put32(body, GROW_CODE, (uint32_t)code);
    put64(body, GROW_K, k);
    put64(body, GROW_LENGTH, bytes);
    if (key != NULL)
        memcpy(body + GROW_KEY, key, sizeof(*key));
    MUST(control_post(0, type, body, sizeof(body), NULL, 0) == 0, NULL);
    MUST(control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0, NULL);
}

/* What a writer asks for. */
static void lie_in_questions(rdma_op_t op, const struct kind *kind)
{
    static const struct {
        const char *name;
        uint64_t k, bytes;
    } asks[] = {
        {"segment 0", 0, HEAP},
        {"segment 2 before 1", 2, HEAP},
        {"segment 2^64 - 1", UINT64_MAX, HEAP},
        {"segment 2^32 + 1", (UINT64_C(1) << 32) + 1, HEAP},
        {"no bytes", 1, 0},
        {"a part of a unit", 1, HEAP + 1},
        {"less than the heap has, and not the rest", 1, HEAP / 2},
        {"one unit beyond the limit", 1, MOST - HEAP + 64},
        {"2^63 bytes", 1, UINT64_C(1) << 63},
        {"2^64 - 64 bytes", 1, UINT64_MAX - 63},
    };
    size_t i;
    raddr_t d;
    int rc;

    for (i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        struct pair p = pair_open_as(op, kind);

        send_one(p.w, 700, 1);
        receive_one(p.r, 700, 1);
        say_growth(p.w, MESSAGE_GROW, asks[i].k, asks[i].bytes, 0, NULL);
        MUST(rpipe_set_timeout(p.r, PATIENCE_MS) == 0, p.r);
        rc = rread(p.r, &d, NULL);
        EXPECT(rc == -EPROTO, "growth by %s: the reader got %d (%s)", asks[i].name, rc, rstrerror(rc));
        while ((rc = rpipe_wait(p.w)) == 0)
            nap_us(100);
        EXPECT(rc == -EPROTO, "growth by %s: the writer got %d (%s)", asks[i].name, rc, rstrerror(rc));
        pair_close(p);
    }
}

/* Segment after segment, as fast as they can be asked for: it ends at the limit, and so does the memory that it costs. */
static void lie_in_storms(rdma_op_t op, const struct kind *kind)
{
    struct pair p = pair_open_as(op, kind);
    uint64_t total = HEAP, k;
    raddr_t d;
    int rc;

    for (k = 1; k < 40; k++) {
        uint64_t bytes = total < MOST - total ? total : MOST - total;

        say_growth(p.w, MESSAGE_GROW, k, bytes != 0 ? bytes : 64, 0, op == RDMA_GET ? &p.w->heap_piece.key : NULL);
        total += bytes;
    }
    MUST(rpipe_set_timeout(p.r, PATIENCE_MS) == 0, p.r);
    do
        rc = rread(p.r, &d, NULL);
    while (rc == 0);
    EXPECT(rc == -EPROTO, "a storm: %d (%s): %s", rc, rstrerror(rc), rpipe_error(p.r));
    pair_close(p);

    p = pair_open_as(op, &plain); /* a heap that does not grow is not asked */
    for (k = 0; k < 10; k++)
        say_growth(p.w, MESSAGE_GROW, k, HEAP, 0, NULL);
    send_one(p.w, HEAP, 1);
    receive_one(p.r, HEAP, 1);
    pair_close(p);

    p = pair_open_as(op, kind); /* nor is the one who asks, or who has closed */
    say_growth(p.r, MESSAGE_GROW, 1, HEAP, 0, NULL);
    say_growth(p.w, MESSAGE_GROWN, 1, HEAP, 0, NULL);
    send_one(p.w, HEAP, 1);
    receive_one(p.r, HEAP, 1);
    MUST(rclose(p.r) == 0, p.r);
    say_growth(p.w, MESSAGE_GROW, 1, HEAP, 0, NULL);
    MUST(rclose(p.w) == 0, p.w);
}

/* What a reader answers: to nothing, and to the question of a writer whose real reader is kept from answering. */
static void lie_in_answers(rdma_op_t op, const struct kind *kind)
{
    static const struct {
        const char *name;
        uint64_t k;
        int code;
        int expected, expected_put; /* GET; PUT, where the key counts */
    } answers[] = {
        {"another segment", 2, 0, -EPROTO, -EPROTO},
        {"segment 0", 0, 0, -EPROTO, -EPROTO},
        {"segment 2^64 - 1", UINT64_MAX, 0, -EPROTO, -EPROTO},
        {"no memory", 1, -ENOMEM, -ENOMEM, -ENOMEM},
        {"an error that is none", 1, 12345, -ENOMEM, -ENOMEM},
        {"yes, with a key that was never passed", 1, 0, 0, -EPROTO},
    };
    static const struct btl_key nonsense = {{4711, 64, HEAP, 1}};
    struct growth *kept;
    size_t i;
    raddr_t d = ADDR_NULL;
    int rc;

    for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct pair p = pair_open_as(op, kind);
        int expected = op == RDMA_PUT ? answers[i].expected_put : answers[i].expected;

        kept = p.r->growth;
        p.r->growth = NULL;
        MUST(rmalloc_nb(p.w, 2 * HEAP, &d) == R_PENDING, p.w); /* asks */
        MUST(control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0, NULL);
        say_growth(p.r, MESSAGE_GROWN, answers[i].k, 2 * HEAP, answers[i].code, &nonsense);
        MUST(rpipe_set_timeout(p.w, PATIENCE_MS) == 0, p.w);
        d = rmalloc(p.w, 2 * HEAP);
        rc = d != ADDR_NULL ? 0 : -errno;
        EXPECT(rc == expected, "op %d, the answer is %s: %d (%s): %s", (int)op, answers[i].name, rc, rstrerror(rc),
               rpipe_error(p.w));
        if (rc == 0) /* on a GET channel the memory is the writer's own, and the answer is only a yes */
            fill(rmem(p.w, d), 2 * HEAP, 3);
        p.r->growth = kept;
        pair_close(p);
    }
    for (i = 0; i < 2; i++) { /* unasked; and twice */
        struct pair p = pair_open_as(op, kind);

        if (i == 1)
            MUST(rmalloc(p.w, 2 * HEAP) != ADDR_NULL, p.w);
        say_growth(p.r, MESSAGE_GROWN, 1 + i, 2 * HEAP, 0, &nonsense);
        while ((rc = rpipe_wait(p.w)) == 0)
            nap_us(100);
        EXPECT(rc == -EPROTO, "an answer that was not asked for: %d (%s)", rc, rstrerror(rc));
        pair_close(p);
    }
}

/* Growth of all kinds is asked for and answered by somebody who does not know what is going on, while it goes on. */
struct storm {
    struct pair p;
    uint64_t random;
    _Atomic bool stop;
};

static void *storms(void *argument)
{
    struct storm *s = argument;

    while (!atomic_load(&s->stop)) {
        uint64_t x = draw(&s->random);
        struct btl_key key = x & 1 ? s->p.w->heap_piece.key : s->p.r->ring_piece.key;

        if (x >> 1 & 1)
            key.word[x >> 2 & 3] = x >> 4 & 1 ? draw(&s->random) : draw(&s->random) % 10000;
        say_growth(x >> 5 & 1 ? s->p.w : s->p.r, x >> 6 & 1 ? MESSAGE_GROW : MESSAGE_GROWN,
                   x >> 7 & 7 ? 1 + (x >> 10 & 1) : x, x >> 11 & 3 ? (uint64_t)HEAP << (x >> 13 & 3) : x >> 16,
                   x >> 15 & 3 ? 0 : (int)(x >> 40 & 255) - 128, &key);
    }
    return NULL;
}

static void storm_round(uint64_t *random)
{
    const struct kind *k = draw(random) % 2 == 0 ? &growing : &growing_tags;
    struct storm s = {.p = pair_open_as(draw(random) % 2 == 0 ? RDMA_PUT : RDMA_GET, k), .random = draw(random)};
    uint64_t sum = 0;
    pthread_t thread;
    size_t size, at;
    raddr_t d;
    int i, rc = 0;

    MUST(rpipe_set_timeout(s.p.w, 1) == 0 && rpipe_set_timeout(s.p.r, 1) == 0, NULL);
    MUST(pthread_create(&thread, NULL, storms, &s) == 0, NULL);
    for (i = 0; i < 10 && rc != -EPROTO; i++) {
        size = draw(random) % (3 * HEAP);
        d = rmalloc(s.p.w, size);
        rc = d != ADDR_NULL ? 0 : -errno;
        EXPECT(allowed(rc), "storm: the writer got %d (%s): %s", rc, rstrerror(rc), rpipe_error(s.p.w));
        if (rc != 0)
            continue;
        memset(rmem(s.p.w, d), 7, size); /* it can be written everywhere, */
        rc = rwrite(s.p.w, d);
        EXPECT(allowed(rc), "storm: rwrite gave %d (%s): %s", rc, rstrerror(rc), rpipe_error(s.p.w));
        rc = rread(s.p.r, &d, &size);
        EXPECT(allowed(rc), "storm: the reader got %d (%s): %s", rc, rstrerror(rc), rpipe_error(s.p.r));
        for (at = 0; rc == 0 && at < size; at++)
            sum += ((const uint8_t *)rmem(s.p.r, d))[at]; /* and read */
        if (rc == 0)
            MUST(rfree(s.p.r, d) == 0, s.p.r);
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    pair_close(s.p);
    if (sum == 1)
        printf("\n"); /* the sum is used */
}

/* ---- halves, notes, memory ---- */

/* A writer that nobody has joined gets this half. */
static int join_with(const unsigned char *blob, size_t bytes, uint32_t ctx)
{
    rmalloc_config_t cfg = config(true, RDMA_PUT, ctx);
    rch_t w;
    int rc;

    cfg.timeout_ms = SHORT_MS;
    MUST(rpipe(&w, &cfg) == 0, NULL);
    MUST(control_post(0, MESSAGE_HALF, blob, bytes, NULL, 0) == 0, NULL);
    rc = rpipe_wait(w);
    MUST(rclose(w) == 0, w);
    return rc;
}

static void lie_in_halves(uint64_t *random, int rounds)
{
    static const struct {
        const char *name;
        int at;
        uint64_t value;
    } keys[] = {
        {"a slab that was never passed", AT_RING, 12345},
        {"an offset outside", AT_RING + 8, 1 << 30},
        {"an offset that wraps around", AT_RING + 8, UINT64_MAX - 63},
        {"an offset inside a line", AT_RING + 8, 8},
        {"a length that is too short", AT_RING + 16, 64},
        {"a length that is too long", AT_RING + 16, UINT64_C(1) << 40},
        {"a credit line that was never passed", AT_CREDIT, 54321},
        {"a credit line outside", AT_CREDIT + 8, 1 << 20},
        {"a heap that was never passed", AT_HEAP, 999},
        {"a heap outside", AT_HEAP + 8, UINT64_C(1) << 63},
        {"a heap that is too long", AT_HEAP + 16, UINT64_MAX},
        {"another version", 4, 77},
    };
    struct pair p = pair_open(RDMA_PUT); /* whose memory is named */
    unsigned char blob[HALF_BYTES], good[HALF_BYTES];
    size_t i;
    int round, rc;

    half_make(p.r, good);
    put32(good, AT_INCARNATION, 1);
    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        uint32_t ctx = next_ctx++;

        memcpy(blob, good, sizeof(blob));
        put64(blob, keys[i].at, keys[i].value);
        put32(blob, AT_CTX, ctx);
        rc = join_with(blob, sizeof(blob), ctx);
        EXPECT(rc == -EPROTO, "a half with %s: %d (%s)", keys[i].name, rc, rstrerror(rc));
    }
    for (round = 0; round < rounds; round++) {
        uint32_t ctx = next_ctx++;
        size_t bytes = draw(random) % 4 == 0 ? draw(random) % (sizeof(blob) + 1) : sizeof(blob);
        int n = 1 + (int)(draw(random) % 6);

        memcpy(blob, good, sizeof(blob));
        put32(blob, AT_CTX, ctx);
        while (n-- > 0)
            blob[draw(random) % sizeof(blob)] = (unsigned char)draw(random);
        if (draw(random) % 8 == 0)
            for (i = 0; i < sizeof(blob); i++)
                blob[i] = (unsigned char)draw(random);
        if (round % 16 != 0) { /* most need not be waited for */
            MUST(control_post(0, MESSAGE_HALF, blob, bytes, NULL, 0) == 0, NULL);
            continue;
        }
        rc = join_with(blob, bytes, ctx);
        EXPECT(rc == 0 || rc == -EPROTO || rc == -ETIMEDOUT, "half of noise: %d (%s)", rc, rstrerror(rc));
    }
    pair_close(p);
}

static void lie_in_notes(uint64_t *random, int rounds)
{
    static const uint32_t types[] = {MESSAGE_BYE,       MESSAGE_FAIL, MESSAGE_EVENT_ON,
                                     MESSAGE_EVENT_ACK, MESSAGE_BTL,  MESSAGE_GROW,
                                     MESSAGE_GROWN,     99,           1000};
    unsigned char body[408];
    int round, fd, n;
    size_t i, bytes;

    for (round = 0; round < rounds; round++) {
        uint32_t type = types[draw(random) % (sizeof(types) / sizeof(types[0]))];

        for (i = 0; i < sizeof(body); i++)
            body[i] = (unsigned char)draw(random);
        put32(body, 0, 1000000 + (uint32_t)(draw(random) % 4)); /* not the bystander's ctx */
        put32(body, 4, (uint32_t)(draw(random) % 4));
        put32(body, 8, (uint32_t)(draw(random) % 4));
        if (type == MESSAGE_BTL)
            put32(body, 0, (uint32_t)(draw(random) % 4)), put32(body, 4, (uint32_t)(draw(random) % 3));
        bytes = type == MESSAGE_FAIL ? sizeof(body) : type == MESSAGE_GROW || type == MESSAGE_GROWN ? GROW_BYTES : 24;
        if (draw(random) % 8 == 0)
            bytes = draw(random) % sizeof(body);
        n = (int)(draw(random) % 2);
        fd = n == 0                  ? -1
             : draw(random) % 2 == 0 ? open("/dev/null", O_RDWR | O_CLOEXEC)
                                     : memfd_create("liar", MFD_CLOEXEC);
        MUST(control_post(0, type, body, bytes, &fd, n) == 0, NULL);
        if (fd >= 0)
            close(fd);
        if (round % 64 == 0)
            MUST(control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0, NULL);
    }
    MUST(control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0, NULL);
}

/* Shared memory that could be taken away again is refused, and a channel that names it fails. */
static void lie_about_memory(void)
{
    static const struct {
        const char *name;
        int seals;
        size_t bytes, says;
        int access;
    } tells[] = {
        {"without seals", 0, 1 << 16, 1 << 16, 1},
        {"that may shrink", F_SEAL_GROW, 1 << 16, 1 << 16, 1},
        {"shorter than it says", F_SEAL_SHRINK | F_SEAL_GROW, 4096, 1 << 16, 1},
        {"of no bytes", F_SEAL_SHRINK | F_SEAL_GROW, 4096, 0, 1},
        {"that cannot be written", F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, 1 << 16, 1 << 16, 1},
    };
    struct pair p = pair_open(RDMA_PUT);
    unsigned char blob[HALF_BYTES];
    size_t i;
    int rc;

    for (i = 0; i < sizeof(tells) / sizeof(tells[0]); i++) {
        uint64_t id = UINT64_C(1) << 39 | i, tell[3] = {1 | (uint64_t)tells[i].access << 32, id, tells[i].says};
        int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        uint32_t ctx = next_ctx++;

        MUST(fd >= 0 && ftruncate(fd, (off_t)tells[i].bytes) == 0, NULL);
        MUST(tells[i].seals == 0 || fcntl(fd, F_ADD_SEALS, tells[i].seals) == 0, NULL);
        MUST(control_post(0, MESSAGE_BTL, tell, sizeof(tell), &fd, 1) == 0, NULL);
        close(fd);
        half_make(p.r, blob);
        put32(blob, AT_INCARNATION, 1);
        put32(blob, AT_CTX, ctx);
        put64(blob, AT_RING, id);
        put64(blob, AT_RING + 8, 0);
        rc = join_with(blob, sizeof(blob), ctx);
        EXPECT(rc < 0 && rc != -ETIMEDOUT, "shared memory %s: %d (%s)", tells[i].name, rc, rstrerror(rc));
    }
    pair_close(p);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100, i;
    uint64_t random = seed_of(argc, argv);
    rdma_op_t op;
    size_t n;

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_LOG", "error", 0);
    MUST(rinit(NULL, NULL) == 0, NULL);
    if (freopen("/dev/null", "w", stderr) == NULL) /* "cannot be joined", hundreds of times, is what is wanted here */
        return 99;
    bystander = pair_open(RDMA_PUT);
    for (op = RDMA_PUT; op <= RDMA_GET; op++) {
        for (n = 0; n < sizeof(lies) / sizeof(lies[0]); n++)
            lie_to_reader(&lies[n], op);
        for (n = 0; n < sizeof(credit_lies) / sizeof(credit_lies[0]); n++)
            lie_to_writer(&credit_lies[n], op);
        lie_with_queue(op, &tags);
        lie_with_queue(op, &channel);
        lie_about_blocks(op, &tags);
        lie_about_blocks(op, &channel);
        for (n = 0; n < 2; n++) {
            lie_about_segments(op, n == 0 ? &growing : &growing_tags);
            lie_in_questions(op, n == 0 ? &growing : &growing_tags);
            lie_in_storms(op, n == 0 ? &growing : &growing_tags);
            lie_in_answers(op, n == 0 ? &growing : &growing_tags);
        }
    }
    lie_with_flags();
    lie_with_numbers();
    lie_twice();
    for (i = 0; i < rounds; i++)
        fuzz_round(&random);
    for (i = 0; i < rounds / 2; i++)
        storm_round(&random);
    lie_in_halves(&random, 20 * rounds);
    lie_in_notes(&random, 20 * rounds);
    lie_about_memory();
    pair_close(pair_open(RDMA_GET));
    MUST(rclose(bystander.w) == 0 && rclose(bystander.r) == 0, NULL);
    MUST(rexit() == 0, NULL);
    printf("%s: %s\n", argv[0], job_failures == 0 ? "good" : "FAILED");
    return job_failures == 0 ? 0 : 1;
}
