/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_thesis.h: the interface of Appendix B of the thesis as printed, as inline functions over rpipe.h.
 *
 * For readers of the thesis (U. Wickramasinghe, Indiana University, 2020); new programs use rpipe.h alone. C11, not C++: the
 * listings have nested designators and macros with _Generic.
 * After this header rpipe, rmalloc, rread, rwrite, rfree and others have the parameters of the thesis: a channel and a
 * configuration are passed by name, and rread() stores into its second and third argument. They are macros over
 * inline functions with the prefix rthesis_.
 *
 * What the thesis leaves open is decided here: rmalloc() at a reading end gives a descriptor without a message, which rread_nb() replaces;
 * rfree() takes a channel or none; rread_mem() at a writing end allocates, as listing 5.2 uses it. The three-parameter
 * rread_nb() of listing 5.3 sets its flag to 1 when a message has arrived, the others to R_SUCCESS or R_PENDING.
 *
 * Without a meaning here, and not declared: rdma_vmem_channel_va (its parameters are not printed). Accepted and
 * ignored: .channels, .sec_channel, the settings of uGNI (except .max_cqe), MPI and PSM, .total_required,
 * .use_internal_settings, .verbose; of rdma_vmem_create src, dest, sync, alloc_with_headers, flags.
 */
#ifndef RMALLOC_THESIS_H
#define RMALLOC_THESIS_H

#ifdef __cplusplus
#error "rmalloc_thesis.h is C11, as the listings of the thesis are; C++ programs include rpipe.h"
#elif defined(RPIPE_NO_SHORT_NAMES)
#error "rmalloc_thesis.h has the names of the thesis; it cannot be used with RPIPE_NO_SHORT_NAMES"
#endif

#include <rmalloc_thesis_coll.h>
#include <rmalloc_thesis_pipe.h>
#include <string.h>

/* ---- B.1: messages ---- */

static inline raddr_t rthesis_alloc(rch_t ch, uint64_t size)
{
    struct rthesis_channel *c = rthesis_channel_of(ch);
    struct rthesis_held *h;
    raddr_t d = ADDR_NULL;

    if (c != NULL && !c->writer)
        return RTHESIS_NO_MESSAGE;
    if ((c == NULL || c->cells == NULL) && (d = rmalloc(ch, size)) == ADDR_NULL)
        return ADDR_NULL;
    h = rthesis_hold(ch, d, 0);
    if (h == NULL && d != ADDR_NULL)
        rfree(ch, d);
    return h != NULL ? h->d : ADDR_NULL;
}

static inline raddr_t rthesis_alloc_nb(rch_t ch, uint64_t size, int *flag)
{
    struct rthesis_channel *c = rthesis_channel_of(ch);
    raddr_t d = ADDR_NULL;

    if (c != NULL && (!c->writer || c->cells != NULL)) {
        d = rthesis_alloc(ch, size);
        *flag = d != ADDR_NULL ? R_SUCCESS : -ENOMEM;
        return d;
    }
    *flag = rmalloc_nb(ch, size, &d);
    if (*flag == R_SUCCESS && rthesis_hold(ch, d, 0) == NULL) {
        rfree(ch, d);
        *flag = -ENOMEM;
    }
    return *flag == R_SUCCESS ? d : ADDR_NULL;
}

static inline void *rthesis_mem(rch_t ch, raddr_t d)
{
    struct rthesis_held *h = rthesis_find(d);

    if (h != NULL && (void *)h->d == (void *)h)
        return &h->word;
    return h != NULL ? rmem(ch, d) : NULL;
}

static inline int rthesis_operate(struct rthesis_channel *c, struct rthesis_held *h)
{
    static const rcells_op_t op[] = {RCELLS_XOR, RCELLS_ADD, RCELLS_SWAP, RCELLS_AND, RCELLS_OR};

    return rcells_atomic(c->cells, op[c->type], h->cell, h->word, 0, NULL);
}

static inline int rthesis_write(rch_t ch, raddr_t d, bool wait)
{
    struct rthesis_channel *c = rthesis_channel_of(ch);
    struct rthesis_held *h = rthesis_find(d);
    int rc;

    if (h == NULL || h->ch != ch)
        return -EINVAL;
    if (c != NULL && c->cells != NULL) {
        rc = rthesis_operate(c, h);
    } else {
        rc = h->header != 0 ? rset_tag(ch, d, h->header) : R_SUCCESS;
        if (rc == R_SUCCESS)
            rc = wait ? rwrite(ch, d) : rwrite_nb(ch, d);
    }
    if (rc == R_SUCCESS)
        rthesis_drop(d);
    return rc;
}

/* Takes the next message of at least size bytes; stores its descriptor at d_at, its address at ptr_at if not NULL. */
static inline int rthesis_take(rch_t ch, void *d_at, void *ptr_at, size_t size, bool wait)
{
    size_t bytes;
    void *ptr;
    raddr_t d;
    int rc = wait ? rread(ch, &d, &bytes) : rread_nb(ch, &d, &bytes);

    if (rc != R_SUCCESS)
        return rc;
    if (bytes < size || rthesis_hold(ch, d, rtag(ch, d)) == NULL) {
        rfree(ch, d);
        return bytes < size ? -EMSGSIZE : -ENOMEM;
    }
    ptr = rmem(ch, d);
    memcpy(d_at, &d, sizeof(d)); /* the variables of the caller are of any pointer type */
    if (ptr_at != NULL)
        memcpy(ptr_at, &ptr, sizeof(ptr));
    return R_SUCCESS;
}

/* RDMA_ATOMIC: the value of the cell of d, or of cell 0, into a word of the program. */
static inline int rthesis_take_cell(struct rthesis_channel *c, raddr_t d, void *ptr_at)
{
    struct rthesis_held *h = rthesis_find(d);
    void *ptr;
    int rc;

    if (h == NULL)
        return -EINVAL;
    rc = rcells_atomic(c->cells, RCELLS_ADD, h->cell, 0, 0, &h->word);
    ptr = &h->word;
    if (rc == R_SUCCESS && ptr_at != NULL)
        memcpy(ptr_at, &ptr, sizeof(ptr));
    return rc;
}

static inline int rthesis_read(rch_t ch, void *d_at, void *ptr_at, size_t size, bool wait)
{
    struct rthesis_channel *c = rthesis_channel_of(ch);
    raddr_t d;

    if (c == NULL || c->cells == NULL)
        return rthesis_take(ch, d_at, ptr_at, size, wait);
    memcpy(&d, d_at, sizeof(d));
    return rthesis_take_cell(c, d, ptr_at);
}

/* The listings have rread(ch, d, ptr, size), the text rread(ch, ptr, d, size). */
static inline int rthesis_read_any(rch_t ch, void *first, void *second, bool first_is_d,
                                   size_t size)
{
    return rthesis_read(ch, first_is_d ? first : second, first_is_d ? second : first, size, true);
}

static inline int rthesis_read_flag(rch_t ch, void *d_at, void *ptr_at, size_t size, int *flag)
{
    int rc = rthesis_read(ch, d_at, ptr_at, size, false);

    *flag = rc;
    return rc == R_PENDING ? R_SUCCESS : rc;
}

/* Listing 5.3: 1 when a message has arrived, else 0. */
static inline int rthesis_read_arrived(rch_t ch, void *d_at, int *flag)
{
    int rc = rthesis_read(ch, d_at, NULL, 0, false);

    *flag = rc == R_SUCCESS;
    return rc == R_PENDING ? R_SUCCESS : rc;
}

static inline int rthesis_free(raddr_t d)
{
    struct rthesis_held *h = rthesis_find(d);
    int rc = R_SUCCESS;

    if (d == RTHESIS_NO_MESSAGE)
        return R_SUCCESS;
    if (h == NULL)
        return -EINVAL;
    if ((void *)h->d != (void *)h)
        rc = rfree(h->ch, d);
    if (rc == R_SUCCESS)
        rthesis_drop(d);
    return rc;
}

/* ---- listing 5.2: memory and descriptor at once ---- */

static inline void *rmalloc_mem(rch_t ch, uint64_t size, raddr_t *d)
{
    *d = rthesis_alloc(ch, size);
    return rthesis_mem(ch, *d);
}

static inline void *rread_mem(rch_t ch, uint64_t size, raddr_t *d)
{
    struct rthesis_channel *c = rthesis_channel_of(ch);
    void *ptr = NULL;

    if (c != NULL && c->writer)
        return rmalloc_mem(ch, size, d);
    return rthesis_read(ch, d, &ptr, size, true) == R_SUCCESS ? ptr : NULL;
}

/* ---- B.2: internal API ---- */

static inline int network_rdma_send(int to, void *buf, int bytes)
{
    return network_send(to, buf, (size_t)bytes);
}

static inline int network_rdma_recv(int from, void *buf, int bytes)
{
    return network_recv(from, buf, (size_t)bytes);
}

/* 8 bytes that travel with the message; valid while the program owns d. */
static inline void *network_header(raddr_t d)
{
    struct rthesis_held *h = rthesis_find(d);

    return h != NULL ? &h->header : NULL;
}

static inline uint16_t network_header_bytes(uint64_t payload_size)
{
    (void)payload_size;
    return sizeof(uint64_t);
}

static inline rdma_vmem_t *get_rdmalloc_local(rch_t ch)
{
    struct rthesis_channel *c = rthesis_channel_of(ch);

    return c != NULL ? &c->local : NULL;
}

static inline rdma_vmem_t *get_rdmalloc_remote(rch_t ch)
{
    struct rthesis_channel *c = rthesis_channel_of(ch);

    return c != NULL ? &c->remote : NULL;
}

static inline bool channel_active_side(rch_t ch)
{
    struct rthesis_channel *c = rthesis_channel_of(ch);

    return c != NULL && c->active;
}

static inline rdma_vmem_t *rdma_vmem_create(void *buffer, uint32_t quantum, uint64_t size, int src,
                                            int dest, rmalloc_alloc_algorithm_t algorithm,
                                            rmalloc_sync_algorithm_t sync, bool isshadow,
                                            bool alloc_with_headers, int flags,
                                            rmalloc_config_t *cfg)
{
    rvmem_config_t config = {.buffer = isshadow ? NULL : buffer, .bytes = size};
    rdma_vmem_t *v = (rdma_vmem_t *)calloc(1, sizeof(*v));
    int rc = -ENOMEM;

    (void)src, (void)dest, (void)sync, (void)alloc_with_headers, (void)flags;
    config.heuristic = (rmalloc_fit_t)(algorithm + 1);
    config.unit_bytes = quantum;
    config.max_blocks =
        cfg != NULL ? cfg->rmalloc_g_settings.rmalloc_vm_settings.max_descriptors : 0;
    if (v != NULL)
        rc = rvmem_create(&v->vmem, &config);
    if (rc != R_SUCCESS) {
        free(v);
        errno = -rc;
        return NULL;
    }
    return v;
}

static inline int rdma_vmem_destroy(rdma_vmem_t *v)
{
    int rc = v == NULL || v->vmem == NULL ? -EINVAL : rvmem_destroy(v->vmem);

    if (rc == R_SUCCESS)
        free(v);
    return rc;
}

static inline raddr_t rdmalloc(rdma_vmem_t *v, uint64_t bytes)
{
    return v->vmem == NULL ? rthesis_alloc(v->ch, bytes) : rvmem_alloc(v->vmem, bytes);
}

/* Printed with the result raddr_t: ADDR_NULL when d is free, else d. */
static inline raddr_t rdmafree(rdma_vmem_t *v, raddr_t d)
{
    return (v->vmem == NULL ? rthesis_free(d) : rvmem_free(v->vmem, d)) == R_SUCCESS ? ADDR_NULL
                                                                                     : d;
}

static inline void *getmem(rdma_vmem_t *v, raddr_t d)
{
    return v->vmem == NULL ? rthesis_mem(v->ch, d) : rvmem_mem(v->vmem, d);
}

static inline int setmem(rdma_vmem_t *v, raddr_t d, void *from)
{
    void *to = getmem(v, d);
    size_t bytes = sizeof(uint64_t); /* a word of an RDMA_ATOMIC channel */

    if (to == NULL)
        return -EINVAL;
    if (v->vmem != NULL)
        bytes = rvmem_size(v->vmem, d);
    else if ((void *)d != (void *)rthesis_find(d))
        bytes = rsize(v->ch, d);
    memcpy(to, from, bytes);
    return R_SUCCESS;
}

/*
 * For people and tests, not in Appendix B: what rvmem_walk, rvmem_dump and rvmem_check do, of an allocator or of the heap of a channel, which
 * is at its writing end; -EINVAL at the other one.
 */
static inline rvmem_t rthesis_heap(rdma_vmem_t *v)
{
    rvmem_t heap = NULL;

    if (v == NULL || v->vmem != NULL)
        return v != NULL ? v->vmem : NULL;
    return rvmem_of_pipe(&heap, v->ch) == R_SUCCESS ? heap : NULL;
}

static inline int rdma_vmem_walk(rdma_vmem_t *v,
                                 int (*visit)(const rvmem_block_t *block, void *argument),
                                 void *argument)
{
    return rvmem_walk(rthesis_heap(v), visit, argument);
}

static inline int rdma_vmem_dump(rdma_vmem_t *v, FILE *to)
{
    return rvmem_dump(rthesis_heap(v), to);
}

static inline int rdma_vmem_check(rdma_vmem_t *v) { return rvmem_check(rthesis_heap(v)); }

static inline raddr_t rmalloc_sync(rch_t ch, rdma_vmem_t *v, uint64_t bytes)
{
    (void)rprogress();
    return v->vmem == NULL ? rthesis_alloc(ch, bytes) : rdmalloc(v, bytes);
}

static inline int rfree_sync(rch_t ch, rdma_vmem_t *v, raddr_t d)
{
    (void)ch;
    return v->vmem == NULL ? rthesis_free(d) : rvmem_free(v->vmem, d);
}

static inline void progress_tags(rch_t ch, rdma_vmem_t *shadow, int *test)
{
    (void)ch, (void)shadow;
    *test = rprogress();
}

/* ---- the names of the thesis; from here on they have its parameters ---- */

#define rcoll_params_t rthesis_coll_params_t
#define rcoll_free(handle) rthesis_coll_free(handle)

#define RTHESIS_IS_D(x) _Generic((x), raddr_t : true, default : false)
#define RTHESIS_FREE_1(d) rthesis_free(d)
#define RTHESIS_FREE_2(ch, d) rthesis_free(((void)(ch), (d)))
#define RTHESIS_READ_3(ch, d, size) rthesis_read(ch, &(d), NULL, (size_t)(size), true)
#define RTHESIS_READ_4(ch, a, b, size)                                                             \
    rthesis_read_any(ch, &(a), &(b), RTHESIS_IS_D(a), (size_t)(size))
#define RTHESIS_NB_3(ch, d, flag) rthesis_read_arrived(ch, &(d), flag)
#define RTHESIS_NB_5(ch, ptr, d, size, flag)                                                       \
    rthesis_read_flag(ch, &(d), &(ptr), (size_t)(size), flag)
#define RTHESIS_SECOND_OF(a, b, name, ...) name
#define RTHESIS_FOURTH_OF(a, b, c, d, name, ...) name
#define RTHESIS_FIFTH_OF(a, b, c, d, e, name, ...) name

#undef rpipe
#define rpipe(ch, cfg) rthesis_pipe(&(ch), &(cfg))
#define rexit() rthesis_exit()
#define rmalloc(ch, size) rthesis_alloc(ch, size)
#define rmalloc_nb(ch, size, flag) rthesis_alloc_nb(ch, size, flag)
#define rmem(ch, d) rthesis_mem(ch, d)
#define rwrite(ch, d) rthesis_write(ch, d, true)
#define rfree(...) RTHESIS_SECOND_OF(__VA_ARGS__, RTHESIS_FREE_2, RTHESIS_FREE_1, )(__VA_ARGS__)
#define rread(...) RTHESIS_FOURTH_OF(__VA_ARGS__, RTHESIS_READ_4, RTHESIS_READ_3, )(__VA_ARGS__)
#define rread_nb(...) RTHESIS_FIFTH_OF(__VA_ARGS__, RTHESIS_NB_5, , RTHESIS_NB_3, )(__VA_ARGS__)
#define rread_addr_nb(ch, ptr, d, flag) rthesis_read_flag(ch, &(d), &(ptr), 0, flag)
#define rdma_channel_write_async(ch, d, flag)                                                      \
    ((*(flag) = rthesis_write(ch, d, false)) == R_PENDING ? 0 : *(flag))
#define rdma_channel_read_async(ch, d, flag) ((void)rthesis_read_flag(ch, &(d), NULL, 0, flag))

#endif
