/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_violations.c: slots of a byzantine writer at a reader whose heap is memory of a device. Whatever a slot names, no copy and no
 * notification goes beyond the heap (the device ends the program there), no processor touches memory of the device, and what can be
 * seen to be wrong is -EPROTO.
 *
 *     device_violations [SEED]
 *     PAIR_NET=1 device_violations [SEED]     over the simulated network, where payloads are staged
 */
#include "test/lib/fake_device.h"
#include "test/lib/job.h"
#include "test/lib/random.h"

#include "rpipe/end/rch.h"
#include "sync/seal.h"

#include <sched.h>

#define HEAP 4096
#define ROUNDS 300
#define SLOTS 8

struct pair {
    rch_t w, r;
};

static struct fake_device device = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t memory;

static struct pair pair_open(rpipe_op_t op)
{
    static uint64_t contexts;
    const uint64_t context = contexts++;
    rpipe_config_t cfg = {.role = RPIPE_WRITER,
                          .op = op,
                          .context = context,
                          .heap_bytes = HEAP,
                          .slots = SLOTS,
                          .memory = &memory};
    struct pair p = {NULL, NULL};

    CHECK(NULL, rpipe(&p.w, &cfg) == 0);
    cfg.role = RPIPE_READER;
    CHECK(NULL, rpipe(&p.r, &cfg) == 0);
    CHECK(p.w, rwait(p.w) == 0 && rwait(p.r) == 0);
    return p;
}

/* The memory is given back when each end has the other one's close message. */
static void pair_close(struct pair p)
{
    const int64_t deadline = deadline_in_ms(PATIENCE_MS);

    CHECK(p.w, rclose(p.w) == 0);
    CHECK(p.r, rclose(p.r) == 0);
    while (atomic_load(&device.allocations) + atomic_load(&device.imports) != 0 &&
           !deadline_passed(deadline))
        sched_yield();
}

/* As if the writer had written it: next, complete and sealed. */
static void forge(const struct pair *p, const struct slot *forged)
{
    struct slot *s = end_slot(p->r, p->r->r.nread);

    memcpy(s, forged, offsetof(struct slot, flag));
    if (p->r->remote != NULL)
        seal_slot(s, p->r->r.nread + 1);
    else
        ring_slot_publish(s, p->r->r.nread + 1);
}

#define HEAP_SLOT(o, s)                                                                            \
    {                                                                                              \
        .heap = {.offset = (o), .size = (s)}, .kind = SLOT_HEAP                                    \
    }
static const struct {
    const char *name;
    struct slot slot;
} violations[] = {
    {"bytes in the slot", {.kind = SLOT_INLINE, .bytes = 8}},
    {"one byte behind the heap", HEAP_SLOT(0, HEAP + 1)},
    {"the last byte and one more", HEAP_SLOT(HEAP - 1, 2)},
    {"offset behind the heap", HEAP_SLOT(HEAP + 64, 0)},
    {"offset that wraps around", HEAP_SLOT(UINT64_MAX - 63, 64)},
    {"size that wraps around", HEAP_SLOT(64, UINT64_MAX - 32)},
    {"a message from a region",
     {.heap = {.offset = 0, .size = 512, .region = 1}, .kind = SLOT_REGION}},
    {"an unknown kind", {.kind = 77}},
};

static void violate(rpipe_op_t op)
{
    for (size_t i = 0; i < sizeof(violations) / sizeof(violations[0]); i++) {
        struct pair p = pair_open(op);
        raddr_t d;
        int rc;

        forge(&p, &violations[i].slot);
        rc = rread(p.r, &d, NULL);
        EXPECT(rc == -EPROTO, "op %d, %s: rread gave %d: %s", (int)op, violations[i].name, rc,
               rerror(p.r));
        pair_close(p);
    }
}

/* Half of them within the heap. */
static struct slot drawn_slot(uint64_t *random)
{
    struct slot s = {.kind = random_draw(random) % 8 == 0 ? (uint8_t)random_draw(random)
                                                          : (uint8_t)SLOT_HEAP};

    s.heap.offset = random_draw(random) % (HEAP + HEAP / 4);
    s.heap.size = random_draw(random) % 4 == 0 ? random_draw(random)
                                               : random_draw(random) % (HEAP - HEAP / 4);
    s.eager = random_draw(random) % 8 == 0;
    s.block = (uint32_t)random_draw(random);
    return s;
}

static int read_any(const struct pair *p, uint64_t *random)
{
    static uint8_t bytes[HEAP];
    size_t size = 0;
    raddr_t d;
    int rc;

    if (random_draw(random) % 2 == 0)
        return rrecv(p->r, bytes, sizeof(bytes), &size, 0);
    rc = rread(p->r, &d, &size);
    return rc == 0 ? rfree(p->r, d) : rc;
}

static void violate_at_random(rpipe_op_t op, uint64_t *random)
{
    int good = 0;

    for (int round = 0; round < ROUNDS; round++) {
        struct pair p = pair_open(op);
        int rc = 0;

        for (int i = 0; rc == 0 && i < SLOTS; i++) {
            struct slot s = drawn_slot(random);

            forge(&p, &s);
            rc = read_any(&p, random);
            good += rc == 0;
        }
        EXPECT(rc == 0 || rc == -EPROTO || rc == -EMSGSIZE, "op %d: %d: %s", (int)op, rc,
               rerror(p.r));
        pair_close(p);
    }
    EXPECT(good > ROUNDS / 8, "op %d: only %d slots were valid", (int)op, good);
}

int main(int argc, char **argv)
{
    uint64_t random = seed_of(argc, argv);

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_LOG", "error", 0);
    if (getenv("PAIR_NET") != NULL) {
        setenv("RPIPE_BTL", getenv("PAIR_BTL") != NULL ? getenv("PAIR_BTL") : "sim", 1);
        setenv("RPIPE_SIM_SEED", getenv("PAIR_NET"), 1);
        setenv("RPIPE_SIM_MODE", "", 1);
    }
    memory = fake_ops(&device);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        violate((rpipe_op_t)op);
        violate_at_random((rpipe_op_t)op, &random);
    }
    CHECK(NULL, rexit() == 0);
    EXPECT(device.allocations == 0 && device.imports == 0, "memory of the device is left");
    return check_report(argv[0]);
}
