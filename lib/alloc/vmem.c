/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vmem.c: the allocator alone: rvmem_create(3), rvmem_alloc(3), rvmem_free(3) ...
 *
 * A rvmem_t is a heap. Misuse that the descriptor reveals (foreign, freed already) is always
 * detected; with RMALLOC_DEBUG=1 a pointer that is no descriptor is as well, every misuse is
 * logged, and every invariant is checked after every operation.
 */
#include "alloc/best_fit.h"
#include "alloc/fit.h"
#include "alloc/heap.h"
#include "alloc/next_fit.h"
#include "alloc/segregated_fit.h"
#include "alloc/tree_fit.h"
#include "alloc/vmem.h"
#include "util/last_error.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/sized.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NO_OFFSET UINT64_MAX
#define UNIT_DEFAULT 64u
#define BYTES_DEFAULT (UINT64_C(1) << 20)

static struct heap *vmem_heap_of(rvmem_t vmem) { return (struct heap *)(void *)vmem; }

static NOINLINE int vmem_fail(int code, const char *call, const char *what)
{
    last_error_set("%s: %s", call, what);
    return code;
}

static int vmem_settings_result;

/* In a program that uses pipes rinit has loaded them, and its threads may read them. */
static void vmem_load_settings(void)
{
    struct error err = {""};

    if (*setting_text(SET_DEBUG) != '\0')
        return;
    vmem_settings_result = settings_load(&err);
    if (vmem_settings_result != 0) {
        log_error("rvmem_create: %s", err.text);
        last_error_set("rvmem_create: %s", err.text);
    }
}

static bool vmem_debugging(void) { return setting_number(SET_DEBUG) != 0; }

/* The configuration of a caller, with its defaults resolved. 0, or the code and the message. */
static int vmem_resolve(const rvmem_config_t *cfg, size_t size, struct heap_config *hc,
                        struct error *err)
{
    rvmem_config_t c;
    int rc;

    if (cfg == NULL)
        return error_set(err, -EINVAL, "cfg is NULL");
    rc = sized_copy(&c, sizeof(c), cfg, size, err);
    if (rc == 0 && c.zero != 0)
        rc = error_set(err, -EINVAL, "zero is %u; it must be 0", c.zero);
    if (rc != 0)
        return rc;
    *hc = (struct heap_config){
        .algorithm = c.heuristic == RMALLOC_FIT_DEFAULT ? RMALLOC_NEXT_FIT : c.heuristic,
        .unit_size = c.unit_bytes != 0 ? c.unit_bytes : UNIT_DEFAULT,
        .bytes = c.bytes != 0 ? c.bytes : BYTES_DEFAULT,
        .base = c.buffer,
        .max_descriptors = c.max_blocks,
        .seed = c.seed,
    };
    return heap_config_check(hc, err);
}

/* With RMALLOC_DEBUG verifies every invariant: 0, or -EUCLEAN and a logged message. */
static int vmem_check_after(struct heap *h, const char *call)
{
    struct error err = {""};
    int error;

    if (!vmem_debugging())
        return 0;
    error = heap_check(h, &err);
    if (error != 0) {
        log_error("%s: the allocator is damaged: %s", call, err.text);
        last_error_set("%s: the allocator is damaged: %s", call, err.text);
    }
    return error;
}

/* Why `handle` is not a block that the user of `h` owns, or NULL. */
static const char *vmem_misuse(const struct heap *h, raddr_t handle)
{
    const struct rdesc *d = desc_of(handle);

    if (h == NULL)
        return "vmem is NULL";
    if (d == NULL)
        return handle == ADDR_NULL ? "d is ADDR_NULL" : "d is no descriptor of this allocator";
    if (vmem_debugging() && !desc_pool_holds(&h->pool, d))
        return "d is no descriptor of this allocator";
    if (desc_is_users(d, handle, h->pool.key))
        return NULL;
    if (desc_owner(d) != (h->owner & DESC_OWNER_MOST))
        return "d belongs to another allocator or to a pipe";
    if (desc_generation((uintptr_t)handle) > desc_generation(d->word))
        return "d is no descriptor of this allocator";
    return "d has been freed already";
}

/* 0 or -EINVAL; logged with RMALLOC_DEBUG. */
static int vmem_refuse_misuse(const struct heap *h, raddr_t handle, const char *call)
{
    const char *what = vmem_misuse(h, handle);

    if (what == NULL)
        return 0;
    if (vmem_debugging())
        log_error("%s: %s", call, what);
    return vmem_fail(-EINVAL, call, what);
}

/*
 * Why there is no block. A heap reports -EAGAIN where a request fits later, since its users wait.
 */
static NOINLINE raddr_t vmem_no_block(const struct heap *h, size_t size)
{
    if (h->error == -EAGAIN)
        last_error_set("rvmem_alloc: no %zu bytes are free in one block of a heap of %llu bytes, "
                       "of which %llu are in use; "
                       "free some, or call rvmem_grow",
                       size, (unsigned long long)heap_bytes(h),
                       (unsigned long long)heap_bytes_used(h));
    else if (h->error == -EMSGSIZE)
        last_error_set("rvmem_alloc: %zu bytes can never fit: the largest segment of the heap has "
                       "%llu bytes; call rvmem_grow",
                       size, (unsigned long long)heap_largest_segment(h));
    else if (h->error == -ENOBUFS)
        last_error_set(
            "rvmem_alloc: all max_blocks blocks are in use; free some, or increase max_blocks");
    else
        last_error_set(
            "rvmem_alloc: no memory for another descriptor or for the index of free blocks");
    errno = h->error == -EAGAIN ? ENOMEM : -h->error;
    return ADDR_NULL;
}

static NOINLINE raddr_t vmem_alloc_checked(struct heap *h, size_t size)
{
    struct rdesc *d;
    int error;

    if (h == NULL) {
        errno = -vmem_fail(-EINVAL, "rvmem_alloc", "vmem is NULL");
        return ADDR_NULL;
    }
    d = heap_alloc(h, size);
    error = vmem_check_after(h, "rvmem_alloc");
    if (error != 0) {
        errno = -error;
        return ADDR_NULL;
    }
    return d != NULL ? desc_users_handle(d, h->pool.key) : vmem_no_block(h, size);
}

static NOINLINE int vmem_free_checked(struct heap *h, raddr_t handle)
{
    int error = vmem_refuse_misuse(h, handle, "rvmem_free");

    if (error != 0)
        return error;
    heap_free(h, desc_of(handle));
    return vmem_check_after(h, "rvmem_free");
}

static NOINLINE void *vmem_ptr_checked(const struct heap *h, raddr_t handle)
{
    int error = vmem_refuse_misuse(h, handle, "rvmem_mem");
    const struct rdesc *d = desc_of(handle);

    if (error == 0 && d->mem == NULL)
        error = vmem_fail(-ENOTSUP, "rvmem_mem",
                          "the range has no address: it was made without a buffer");
    if (error != 0) {
        errno = -error;
        return NULL;
    }
    return d->mem;
}

/* ---- rvmem_alloc() and rvmem_free() by each heuristic; slow paths are calls at the end ---- */

static raddr_t vmem_alloc_next(struct heap *h, size_t size)
{
    struct rdesc *d = next_fit_alloc(h, size);

    return LIKELY(d != NULL) ? desc_users_handle(d, h->pool.key) : vmem_no_block(h, size);
}

static int vmem_free_next(struct heap *h, raddr_t handle)
{
    struct rdesc *d = desc_of(handle);

    if (UNLIKELY(!desc_is_users(d, handle, h->pool.key)))
        return vmem_free_checked(h, handle);
    next_fit_free(h, d);
    return 0;
}

static raddr_t vmem_alloc_tree(struct heap *h, size_t size)
{
    struct rdesc *d = tree_fit_alloc(h, size);

    return LIKELY(d != NULL) ? desc_users_handle(d, h->pool.key) : vmem_no_block(h, size);
}

static int vmem_free_tree(struct heap *h, raddr_t handle)
{
    struct rdesc *d = desc_of(handle);

    if (UNLIKELY(!desc_is_users(d, handle, h->pool.key)))
        return vmem_free_checked(h, handle);
    tree_fit_free(h, d);
    return 0;
}

static NOINLINE raddr_t vmem_alloc_by_ops(struct heap *h, size_t size)
{
    struct rdesc *d = h->ops->alloc(h, size);

    return LIKELY(d != NULL) ? desc_users_handle(d, h->pool.key) : vmem_no_block(h, size);
}

static raddr_t vmem_alloc_best(struct heap *h, size_t size)
{
    struct rdesc *d = best_fit_take(h, size);

    return LIKELY(d != NULL) ? desc_users_handle(d, h->pool.key) : vmem_alloc_by_ops(h, size);
}

static raddr_t vmem_alloc_segregated(struct heap *h, size_t size)
{
    struct rdesc *d = segregated_fit_pop(h, size);

    return LIKELY(d != NULL) ? desc_users_handle(d, h->pool.key) : vmem_alloc_by_ops(h, size);
}

static NOINLINE int vmem_free_by_ops(struct heap *h, struct rdesc *d)
{
    h->ops->free(h, d);
    return 0;
}

static int vmem_free_segregated(struct heap *h, raddr_t handle)
{
    struct rdesc *d = desc_of(handle);

    if (UNLIKELY(!desc_is_users(d, handle, h->pool.key)))
        return vmem_free_checked(h, handle);
    return LIKELY(segregated_fit_push(h, &d)) ? 0 : vmem_free_by_ops(h, d);
}

static void vmem_choose_calls(struct heap *h)
{
    h->checked = vmem_debugging();
    h->vmem_alloc = h->checked                               ? vmem_alloc_checked
                    : h->algorithm == RMALLOC_NEXT_FIT       ? vmem_alloc_next
                    : h->algorithm == RMALLOC_BEST_FIT       ? vmem_alloc_best
                    : h->algorithm == RMALLOC_SEGREGATED_FIT ? vmem_alloc_segregated
                                                             : vmem_alloc_tree;
    h->vmem_free = h->checked                               ? vmem_free_checked
                   : h->algorithm == RMALLOC_NEXT_FIT       ? vmem_free_next
                   : h->algorithm == RMALLOC_SEGREGATED_FIT ? vmem_free_segregated
                                                            : vmem_free_tree;
}

raddr_t rvmem_alloc(rvmem_t vmem, size_t bytes)
{
    struct heap *h = vmem_heap_of(vmem);

    return LIKELY(h != NULL) ? h->vmem_alloc(h, bytes) : vmem_alloc_checked(h, bytes);
}

int rvmem_free(rvmem_t vmem, raddr_t d)
{
    struct heap *h = vmem_heap_of(vmem);

    return LIKELY(h != NULL) ? h->vmem_free(h, d) : vmem_free_checked(h, d);
}

/* ---- the heap of a pipe, lent to be examined: calls that would change it fail ---- */

static int vmem_lent(const char *call)
{
    return vmem_fail(-EPERM, call, "this is the heap of a pipe; rmalloc and rfree change it");
}

static raddr_t vmem_alloc_lent(struct heap *h, size_t bytes)
{
    (void)h, (void)bytes;
    errno = -vmem_lent("rvmem_alloc");
    return ADDR_NULL;
}

static int vmem_free_lent(struct heap *h, raddr_t d)
{
    (void)h, (void)d;
    return vmem_lent("rvmem_free");
}

static bool vmem_is_lent(rvmem_t vmem) { return vmem_heap_of(vmem)->vmem_free == vmem_free_lent; }

rvmem_t vmem_lend(struct heap *h)
{
    h->vmem_alloc = vmem_alloc_lent;
    h->vmem_free = vmem_free_lent;
    return (rvmem_t)(void *)h;
}

/* ---- the rest of the interface ---- */

int(rvmem_create)(rvmem_t *vmem, const rvmem_config_t *cfg, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct heap_config hc = {0};
    struct heap *h;
    struct error err = {""};
    int rc;

    pthread_once(&once, vmem_load_settings);
    if (vmem_settings_result != 0)
        return vmem_settings_result;
    rc = vmem != NULL ? vmem_resolve(cfg, size, &hc, &err)
                      : error_set(&err, -EINVAL, "vmem is NULL");
    if (rc == 0 && (rc = heap_create(&h, &hc)) != 0)
        error_note(&err, "no memory for the allocator itself (%zu bytes)", sizeof(*h));
    if (rc != 0) {
        log_error("rvmem_create: %s", err.text);
        last_error_set("rvmem_create: %s", err.text);
        return rc;
    }
    vmem_choose_calls(h);
    *vmem = (rvmem_t)(void *)h;
    return 0;
}

int rvmem_destroy(rvmem_t vmem)
{
    if (vmem == NULL)
        return vmem_fail(-EINVAL, "rvmem_destroy", "vmem is NULL");
    if (vmem_is_lent(vmem))
        return vmem_lent("rvmem_destroy");
    heap_destroy(vmem_heap_of(vmem));
    return 0;
}

void *rvmem_mem(rvmem_t vmem, raddr_t d)
{
    const struct heap *h = vmem_heap_of(vmem);
    const struct rdesc *block = desc_of(d);

    if (UNLIKELY(h == NULL || h->checked || !desc_is_users(block, d, h->pool.key) ||
                 block->mem == NULL))
        return vmem_ptr_checked(h, d);
    return block->mem;
}

size_t rvmem_size(rvmem_t vmem, raddr_t d)
{
    int error = vmem_refuse_misuse(vmem_heap_of(vmem), d, "rvmem_size");

    if (error != 0) {
        errno = -error;
        return 0;
    }
    return desc_of(d)->size;
}

uint64_t rvmem_offset(rvmem_t vmem, raddr_t d)
{
    int error = vmem_refuse_misuse(vmem_heap_of(vmem), d, "rvmem_offset");

    if (error != 0) {
        errno = -error;
        return NO_OFFSET;
    }
    return desc_of(d)->offset;
}

int rvmem_grow(rvmem_t vmem, void *buffer, uint64_t bytes)
{
    struct heap *h = vmem_heap_of(vmem);
    int error;

    if (vmem == NULL)
        return vmem_fail(-EINVAL, "rvmem_grow", "vmem is NULL");
    if (vmem_is_lent(vmem))
        return vmem_lent("rvmem_grow");
    error = heap_grow(h, buffer, bytes);
    if (error == -ENOMEM)
        (void)vmem_fail(error, "rvmem_grow", "no memory for another segment");
    if (error == -EINVAL)
        last_error_set("rvmem_grow: %llu bytes at %p do not fit behind the heap: at least 1 byte, "
                       "at a whole unit, mapped if "
                       "and only if the first segment is, and at most 2^31 units in all",
                       (unsigned long long)bytes, buffer);
    if (error == -EINVAL && vmem_debugging())
        log_error("rvmem_grow: %llu bytes at %p: a segment has at least 1 byte and begins at a "
                  "whole unit, it is mapped "
                  "if and only if the first one is, and all together have at most 2^31 units",
                  (unsigned long long)bytes, buffer);
    return error != 0 ? error : vmem_check_after(h, "rvmem_grow");
}

int rvmem_walk(rvmem_t vmem, int (*visit)(const rvmem_block_t *block, void *arg), void *arg)
{
    if (vmem == NULL || visit == NULL)
        return vmem_fail(-EINVAL, "rvmem_walk", vmem == NULL ? "vmem is NULL" : "visit is NULL");
    return heap_walk(vmem_heap_of(vmem), visit, arg);
}

int rvmem_dump(rvmem_t vmem, FILE *to)
{
    if (vmem == NULL || to == NULL)
        return vmem_fail(-EINVAL, "rvmem_dump", vmem == NULL ? "vmem is NULL" : "to is NULL");
    return heap_dump(vmem_heap_of(vmem), to);
}

int(rvmem_stats)(rvmem_t vmem, rvmem_stats_t *stats, size_t size)
{
    rvmem_stats_t s;

    if (vmem == NULL || stats == NULL || size == 0)
        return vmem_fail(-EINVAL, "rvmem_stats",
                         vmem == NULL    ? "vmem is NULL"
                         : stats == NULL ? "stats is NULL"
                                         : "size is 0");
    heap_get_stats(vmem_heap_of(vmem), &s);
    sized_store(stats, size, &s, sizeof(s));
    return 0;
}

int rvmem_check(rvmem_t vmem)
{
    struct error err = {""};
    int error;

    if (vmem == NULL)
        return vmem_fail(-EINVAL, "rvmem_check", "vmem is NULL");
    error = heap_check(vmem_heap_of(vmem), &err);
    if (error != 0) {
        log_error("rvmem_check: %s", err.text);
        last_error_set("rvmem_check: %s", err.text);
    }
    return error;
}
