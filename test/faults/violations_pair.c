/* SPDX-License-Identifier: BSD-3-Clause */
/* violations_pair.c: what the tests of violations.h share: pairs of ends, and the bystander that must not notice anything. */
#include "violations.h"

const struct kind plain = {RPIPE_SYNC_BLOCKS, RMALLOC_NEXT_FIT, 0, 0},
                  tags = {RPIPE_SYNC_TAGS, RMALLOC_BEST_FIT, QUEUE, 0},
                  channel = {RPIPE_SYNC_CHANNEL, RMALLOC_FIRST_FIT, QUEUE, 0},
                  growing = {RPIPE_SYNC_BLOCKS, RMALLOC_NEXT_FIT, 0, MOST},
                  growing_tags = {RPIPE_SYNC_TAGS, RMALLOC_WORST_FIT, 0, MOST};

static uint32_t next_ctx;
static struct pair bystander;

uint32_t violations_ctx(void) { return next_ctx++; }

void violations_begin(uint64_t *random)
{
    char seed[24];

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_LOG", "error", 0);
    setenv("RPIPE_ATOMICS", "service", 1); /* so that there are messages about cells */
    if (getenv("PAIR_NET") != NULL) {
        snprintf(seed, sizeof(seed), "%llu", (unsigned long long)random_draw(random) >> 1);
        setenv("RPIPE_BTL", "sim", 1);
        setenv("RPIPE_SIM_SEED", seed, 1);
        setenv("RPIPE_SIM_MODE", "byzantine", 1);
    }
    CHECK(NULL, rinit(NULL, NULL) == 0);
    bystander = pair_open(RPIPE_PUT);
}

int violations_end(const char *program)
{
    pair_close(pair_open(RPIPE_GET));
    CHECK(NULL, rclose(bystander.w) == 0 && rclose(bystander.r) == 0);
    CHECK(NULL, rexit() == 0);
    return check_report(program);
}

rpipe_config_t violations_config(bool writer, rpipe_op_t op, uint32_t ctx)
{
    rpipe_config_t cfg = channel_config(op, 0, writer, HEAP);

    cfg.context = ctx;
    cfg.slots = SLOTS;
    return cfg;
}

struct pair pair_open_as(rpipe_op_t op, const struct kind *k)
{
    uint32_t ctx = violations_ctx();
    rpipe_config_t w = violations_config(true, op, ctx), r = violations_config(false, op, ctx);
    struct pair p = {NULL, NULL};

    w.mode = r.mode = k->sync;
    w.heuristic = r.heuristic = k->algorithm;
    w.sync_queue = r.sync_queue = k->queue;
    w.max_heap_bytes = r.max_heap_bytes = k->most;
    CHECK(NULL, rpipe(&p.w, &w) == 0 && rpipe(&p.r, &r) == 0);
    CHECK(p.w, rwait(p.w) == 0 && rwait(p.r) == 0);
    return p;
}

struct pair pair_open(rpipe_op_t op) { return pair_open_as(op, &plain); }

void send_one(rch_t w, size_t bytes, uint64_t key)
{
    raddr_t d = rmalloc(w, bytes);

    CHECK(w, d != ADDR_NULL);
    pattern_fill(rmem(w, d), bytes, key);
    CHECK(w, rwrite(w, d) == 0);
}

void receive_one(rch_t r, size_t bytes, uint64_t key)
{
    raddr_t d;
    size_t size;

    CHECK(r, rread(r, &d, &size) == 0);
    CHECK(r, size == bytes && pattern_same(rmem(r, d), size, key));
    CHECK(r, rfree(r, d) == 0);
}

/* The other channel does not notice; the one that was lied to can be closed. */
void pair_close(struct pair p)
{
    static uint64_t key;

    key++;
    send_one(bystander.w, 16, key);
    send_one(bystander.w, 700, key);
    receive_one(bystander.r, 16, key);
    receive_one(bystander.r, 700, key);
    CHECK(p.w, rclose(p.w) == 0);
    CHECK(p.r, rclose(p.r) == 0);
}

bool allowed(int rc)
{
    return rc == 0 || rc == -EPROTO || rc == -ETIMEDOUT || rc == R_EOF || rc == -EPIPE ||
           rc == -ENOBUFS || rc == -EMSGSIZE || rc == -ENOMEM;
}
