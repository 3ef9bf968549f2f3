/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_thesis_pipe.h: open channels and owned descriptors of the thesis interface; included by rmalloc_thesis.h.
 */
#ifndef RMALLOC_THESIS_PIPE_H
#define RMALLOC_THESIS_PIPE_H

#include <rmalloc_thesis_config.h>
#include <rvmem.h>
#include <stdlib.h>

/* ---- state: the open channels, and the channel of each descriptor; one copy for all files of a program ---- */

/* An allocator of its own, or the heap of a channel. */
typedef struct rdma_vmem {
    rvmem_t vmem;
    rch_t ch;
} rdma_vmem_t;

struct rthesis_channel {
    struct rthesis_channel *next;
    rch_t ch;
    rcells_t cells; /* RDMA_ATOMIC */
    ratomic_type_t type;
    int peer;
    uint64_t context;
    bool writer, active, atomic;
    rdma_vmem_t local, remote;
};

struct rthesis_held {
    struct rthesis_held *next;
    rch_t ch;
    raddr_t d;
    uint64_t header; /* what network_header() points to */
    uint64_t word;   /* RDMA_ATOMIC: operand or result */
    size_t cell;
};

__attribute__((weak)) struct {
    char lock;
    char no_message;
    struct rthesis_channel *channels;
    struct rthesis_held *held;
} rthesis;

#define RTHESIS_NO_MESSAGE ((raddr_t)(void *)&rthesis.no_message)

static inline void rthesis_lock(void)
{
    while (__atomic_test_and_set(&rthesis.lock, __ATOMIC_ACQUIRE)) /* pairs with rthesis_unlock */
        ;
}

static inline void rthesis_unlock(void)
{
    __atomic_clear(&rthesis.lock, __ATOMIC_RELEASE); /* pairs with rthesis_lock */
}

static inline struct rthesis_channel *rthesis_channel_of(rch_t ch)
{
    struct rthesis_channel *c;

    rthesis_lock();
    for (c = rthesis.channels; c != NULL && c->ch != ch; c = c->next)
        ;
    rthesis_unlock();
    return c;
}

static inline struct rthesis_held *rthesis_find(raddr_t d)
{
    struct rthesis_held *h;

    rthesis_lock();
    for (h = rthesis.held; h != NULL && h->d != d; h = h->next)
        ;
    rthesis_unlock();
    return h;
}

/* Records that the program owns d. d ADDR_NULL: a word of an RDMA_ATOMIC channel, known by its own address. */
static inline struct rthesis_held *rthesis_hold(rch_t ch, raddr_t d, uint64_t header)
{
    struct rthesis_held *h = (struct rthesis_held *)calloc(1, sizeof(*h)), *other;

    if (h == NULL)
        return NULL;
    h->ch = ch;
    h->d = d != ADDR_NULL ? d : (raddr_t)(void *)h;
    h->header = header;
    rthesis_lock();
    for (other = rthesis.held; d == ADDR_NULL && other != NULL;) {
        bool taken = other->ch == ch && other->cell == h->cell;

        h->cell += taken;
        other = taken ? rthesis.held : other->next;
    }
    h->next = rthesis.held;
    rthesis.held = h;
    rthesis_unlock();
    return h;
}

static inline void rthesis_drop(raddr_t d)
{
    struct rthesis_held **at, *h;

    rthesis_lock();
    for (at = &rthesis.held; *at != NULL && (*at)->d != d; at = &(*at)->next)
        ;
    h = *at;
    if (h != NULL)
        *at = h->next;
    rthesis_unlock();
    free(h);
}

/* ---- B.1: channels ---- */

/*
 * The configuration of the thesis has no context: the n-th rpipe of a process to a peer, in one direction, belongs to the n-th of that
 * peer. Entries stay until rexit, so that both count alike, whatever has been closed.
 */
static inline uint64_t rthesis_context(const struct rthesis_channel *c)
{
    uint64_t n = 0;

    rthesis_lock();
    for (const struct rthesis_channel *o = rthesis.channels; o != NULL; o = o->next)
        n += o->peer == c->peer && o->atomic == c->atomic &&
             (c->atomic ? o->active == c->active : o->writer == c->writer);
    rthesis_unlock();
    return n;
}

static inline int rthesis_cells(struct rthesis_channel *c, const rmalloc_config_t *t)
{
    rcells_config_t cfg = {.role = t->allocator.rdma_active ? RCELLS_USER : RCELLS_OWNER};
    int rc;

    cfg.peer = c->peer;
    cfg.context = c->context;
    cfg.cells = t->allocator.alloc_size / 8;
    cfg.flags = t->rmalloc_g_settings.rmalloc_vm_settings.thread_sync ? RPIPE_THREADS : 0;
    rc = rcells_open(&c->cells, &cfg);
    if (rc == R_SUCCESS)
        c->ch = rcells_pipe(c->cells);
    return rc;
}

static inline int rthesis_messages(struct rthesis_channel *c, const rmalloc_config_t *t,
                                   rdma_op_t op)
{
    rpipe_config_t cfg = {.role = c->writer ? RPIPE_WRITER : RPIPE_READER};
    rmalloc_sync_algorithm_t sync =
        t->rmalloc_g_settings.rmalloc_ch_settings[0].primary_channel.sync;
    double watermark = t->rmalloc_g_settings.rmalloc_vm_settings.vm_sync_watermark * 100;

    cfg.peer = c->peer;
    cfg.context = c->context;
    cfg.op = (rpipe_op_t)op;
    cfg.heuristic = (rmalloc_fit_t)(t->allocator.algorithm + 1);
    cfg.mode = sync == NET_SYNC_TAGS  ? RPIPE_SYNC_TAGS
               : sync == CHANNEL_SYNC ? RPIPE_SYNC_CHANNEL
                                      : RPIPE_SYNC_DEFAULT;
    if (cfg.mode ==
        RPIPE_SYNC_DEFAULT) /* at the end without the heap 0 would be the choice of the other end */
        cfg.mode = t->allocator.algorithm == NEXT_FIT ? RPIPE_SYNC_BLOCKS : RPIPE_SYNC_TAGS;
    for (cfg.unit_bytes = 1; cfg.unit_bytes < t->allocator.unit_size && cfg.unit_bytes < 1u << 20;)
        cfg.unit_bytes *= 2;
    cfg.heap_bytes = t->allocator.alloc_size;
    cfg.watermark = watermark >= 1 && watermark <= 100 ? (int)watermark : 0;
    cfg.max_messages = t->rmalloc_g_settings.rmalloc_vm_settings.max_descriptors;
    cfg.max_cqe = t->rmalloc_g_settings.rmalloc_ugni_settings.max_cqe;
    cfg.flags = t->rmalloc_g_settings.rmalloc_vm_settings.thread_sync ? RPIPE_THREADS : 0;
    return rpipe(&c->ch, &cfg);
}

static inline int rthesis_pipe(rch_t *ch, const rmalloc_config_t *t)
{
    rdma_op_t op = t->op != RDMA_PUT ? t->op : t->allocator.op;
    struct rthesis_channel *c = (struct rthesis_channel *)calloc(1, sizeof(*c));
    int rc;

    if (c == NULL)
        return -ENOMEM;
    c->peer = t->allocator.peer;
    c->atomic = op == RDMA_ATOMIC;
    c->active = t->allocator.rdma_active;
    c->writer = c->active == (op == RDMA_PUT) || op == RDMA_ATOMIC;
    c->type = t->allocator.atomic_type;
    c->context = rthesis_context(c);
    rc = op == RDMA_ATOMIC ? rthesis_cells(c, t) : rthesis_messages(c, t, op);
    if (rc != R_SUCCESS) {
        free(c);
        return rc;
    }
    c->local.ch = c->remote.ch = *ch = c->ch;
    rthesis_lock();
    c->next = rthesis.channels;
    rthesis.channels = c;
    rthesis_unlock();
    return R_SUCCESS;
}

static inline int rthesis_exit(void)
{
    int rc = rexit();

    while (rc == R_SUCCESS && !rinitialized() && rthesis.channels != NULL) {
        struct rthesis_channel *c = rthesis.channels;

        rthesis.channels = c->next;
        free(c);
    }
    while (rc == R_SUCCESS && !rinitialized() && rthesis.held != NULL)
        rthesis_drop(rthesis.held->d);
    return rc;
}

#endif
