/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liar.c: a peer that writes nonsense where it may write, and says nonsense on the control network.
 *
 * A job of one holds both ends of every channel; the test plays the lying one with the library's own headers: it
 * stores into the slots, the control line and the credit line, and posts halves, byes and shared memory that cannot
 * be. What can be seen to be wrong is -EPROTO on that channel, at both ends; everything else is "not yet"; nothing
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

static uint32_t next_ctx;
static struct pair bystander;

static rmalloc_config_t config(bool writer, rdma_op_t op, uint32_t ctx)
{
    rmalloc_config_t cfg = channel_config(op, 0, writer, HEAP);

    cfg.ctx = ctx;
    cfg.slots = SLOTS;
    return cfg;
}

static struct pair pair_open(rdma_op_t op)
{
    uint32_t ctx = next_ctx++;
    rmalloc_config_t w = config(true, op, ctx), r = config(false, op, ctx);
    struct pair p = {NULL, NULL};

    MUST(rpipe(&p.w, &w) == 0 && rpipe(&p.r, &r) == 0, NULL);
    MUST(rpipe_wait(p.w) == 0 && rpipe_wait(p.r) == 0, p.w);
    return p;
}

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

/* ---- what a lying reader can do to a writer ---- */

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
    uint64_t random;
    _Atomic bool stop;
};

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
    return rc == 0 || rc == -EPROTO || rc == -ETIMEDOUT || rc == R_EOF || rc == -EPIPE || rc == -ENOBUFS;
}

static void fuzz_round(uint64_t *random)
{
    struct scribble s = {.p = pair_open(draw(random) % 2 == 0 ? RDMA_PUT : RDMA_GET), .random = draw(random)};
    raddr_t d, held[4] = {NULL};
    pthread_t thread;
    int i, rc;
    size_t size, sum = 0, k;

    MUST(rpipe_set_timeout(s.p.w, 1) == 0 && rpipe_set_timeout(s.p.r, 1) == 0, NULL);
    MUST(pthread_create(&thread, NULL, scribbles, &s) == 0, NULL);
    for (i = 0; i < 40; i++) {
        size = draw(random) % 300;
        d = rmalloc(s.p.w, size);
        rc = d != ADDR_NULL ? rwrite(s.p.w, d) : -errno;
        EXPECT(allowed(rc), "fuzz: the writer got %d (%s): %s", rc, rstrerror(rc), rpipe_error(s.p.w));
        if (d != ADDR_NULL && rc != 0)
            MUST(rfree(s.p.w, d) == 0, s.p.w);
        rc = rread(s.p.r, &d, &size);
        EXPECT(allowed(rc), "fuzz: the reader got %d (%s): %s", rc, rstrerror(rc), rpipe_error(s.p.r));
        if (rc != 0)
            continue;
        MUST(size <= HEAP, s.p.r);
        for (k = 0; k < size; k++)
            sum += ((const uint8_t *)rmem(s.p.r, d))[k]; /* every byte can be looked at */
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

static void put64(unsigned char *blob, int at, uint64_t value) { memcpy(blob + at, &value, sizeof(value)); }
static void put32(unsigned char *blob, int at, uint32_t value) { memcpy(blob + at, &value, sizeof(value)); }

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
    static const uint32_t types[] = {MESSAGE_BYE, MESSAGE_FAIL, MESSAGE_EVENT_ON, MESSAGE_EVENT_ACK, MESSAGE_BTL,
                                     70,          1000};
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
        bytes = type == MESSAGE_BTL ? 24 : type == MESSAGE_FAIL ? sizeof(body) : 24;
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
    }
    lie_with_flags();
    lie_with_numbers();
    lie_twice();
    for (i = 0; i < rounds; i++)
        fuzz_round(&random);
    lie_in_halves(&random, 20 * rounds);
    lie_in_notes(&random, 20 * rounds);
    lie_about_memory();
    pair_close(pair_open(RDMA_GET));
    MUST(rclose(bystander.w) == 0 && rclose(bystander.r) == 0, NULL);
    MUST(rexit() == 0, NULL);
    printf("%s: %s\n", argv[0], job_failures == 0 ? "good" : "FAILED");
    return job_failures == 0 ? 0 : 1;
}
