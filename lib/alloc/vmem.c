/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vmem.c: the allocator by itself, for users: rdma_vmem_create(3), rdmalloc(3), rdmafree(3), getmem(3) ...
 *
 * An rdma_vmem is a heap. Misuse that the descriptor itself gives away (foreign, freed already) is always detected;
 * with RMALLOC_DEBUG=1 a pointer that is no descriptor is as well, every misuse is told, and every invariant is
 * checked after every operation.
 */
#include "alloc/fit.h"
#include "alloc/heap.h"
#include "alloc/next_fit.h"
#include "alloc/tree_fit.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NO_OFFSET UINT64_MAX

static struct heap *vmem_heap_of(rdma_vmem_t *vmem) { return (struct heap *)(void *)vmem; }

static int vmem_settings_result;

/* rinit has done it in a program that uses pipes, and its threads read the settings by now. */
static void vmem_load_settings(void)
{
    struct error err = {""};

    if (*setting_text(SET_DEBUG) != '\0')
        return;
    vmem_settings_result = settings_load(&err);
    if (vmem_settings_result != 0)
        log_error("rdma_vmem_create: %s", err.text);
}

static rdma_vmem_t *vmem_refuse(int error)
{
    errno = -error;
    return NULL;
}

rdma_vmem_t *rmalloc_vmem_create(void *buffer, const rmalloc_config_t *cfg)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct heap_config hc;
    struct heap *h;
    struct error err = {""};
    int error;

    pthread_once(&once, vmem_load_settings);
    if (vmem_settings_result != 0)
        return vmem_refuse(vmem_settings_result);
    if (cfg == NULL) {
        log_error("rdma_vmem_create: there is no configuration; start from RMALLOC_CONFIG_DEFAULT");
        return vmem_refuse(-EINVAL);
    }
    if (cfg->version != RMALLOC_CONFIG_VERSION) {
        log_error(
            "rdma_vmem_create: version of the configuration is %u; this library has %u: start from "
            "RMALLOC_CONFIG_DEFAULT",
            cfg->version, RMALLOC_CONFIG_VERSION);
        return vmem_refuse(-EINVAL);
    }
    hc = (struct heap_config){
        .algorithm = cfg->allocator.algorithm,
        .unit_size = cfg->allocator.unit_size,
        .bytes = cfg->allocator.alloc_size,
        .base = buffer,
        .max_descriptors = cfg->max_descriptors,
        .seed = cfg->allocator.seed,
    };
    error = heap_config_check(&hc, &err);
    if (error != 0) {
        log_error("rdma_vmem_create: %s", err.text);
        return vmem_refuse(error);
    }
    error = heap_create(&h, &hc);
    if (error != 0) {
        log_error("rdma_vmem_create: there is no memory for the allocator itself (%zu bytes)",
                  sizeof(*h));
        return vmem_refuse(error);
    }
    h->way = setting_number(SET_DEBUG) != 0 ? HEAP_CHECKED
             : hc.algorithm == NEXT_FIT     ? HEAP_NEXT_FIT
                                            : HEAP_TREE_FIT;
    return (rdma_vmem_t *)(void *)h;
}

int rmalloc_vmem_destroy(rdma_vmem_t *vmem)
{
    if (vmem == NULL)
        return -EINVAL;
    heap_destroy(vmem_heap_of(vmem));
    return 0;
}

static bool vmem_debugging(void) { return setting_number(SET_DEBUG) != 0; }

/* Every invariant, if that is asked for; 0, or -EUCLEAN and a logged sentence. */
static int vmem_check_after(struct heap *h, const char *call)
{
    struct error err = {""};
    int error;

    if (!vmem_debugging())
        return 0;
    error = heap_check(h, &err);
    if (error != 0)
        log_error("%s: the allocator is damaged: %s", call, err.text);
    return error;
}

static inline bool vmem_owned(const struct heap *h, const struct rdesc *d)
{
    return d->whose == h->whose;
}

/* Why `d` is not a block that the user of `h` owns, or NULL. */
static const char *vmem_misuse(const struct heap *h, const struct rdesc *d)
{
    if (h == NULL)
        return "there is no instance";
    if (d == NULL)
        return "the descriptor is ADDR_NULL";
    if (vmem_debugging() && !desc_pool_holds(&h->pool, d))
        return "what is given is no descriptor of this instance";
    if (d->state != DESC_OWNED)
        return "the descriptor has been freed";
    if (d->owner != h->owner)
        return "the descriptor belongs to another instance or to a channel";
    return NULL;
}

/* 0, or -EINVAL, told where debugging is on. */
static int vmem_refuse_misuse(const struct heap *h, const struct rdesc *d, const char *call)
{
    const char *what = vmem_misuse(h, d);

    if (what == NULL)
        return 0;
    if (vmem_debugging())
        log_error("%s: %s", call, what);
    return -EINVAL;
}

static NOINLINE raddr_t vmem_no_block(const struct heap *h)
{
    errno = -h->error;
    return ADDR_NULL;
}

static NOINLINE raddr_t vmem_alloc_checked(struct heap *h, size_t size)
{
    struct rdesc *d;
    int error;

    if (h == NULL) {
        errno = EINVAL;
        return ADDR_NULL;
    }
    d = heap_alloc(h, size);
    error = vmem_check_after(h, "rdmalloc");
    if (error != 0) {
        errno = -error;
        return ADDR_NULL;
    }
    return d != NULL ? d : vmem_no_block(h);
}

static NOINLINE int vmem_free_checked(struct heap *h, raddr_t d)
{
    int error = vmem_refuse_misuse(h, d, "rdmafree");

    if (error != 0)
        return error;
    heap_free(h, d);
    return vmem_check_after(h, "rdmafree");
}

static NOINLINE void *vmem_ptr_checked(const struct heap *h, raddr_t d)
{
    int error = vmem_refuse_misuse(h, d, "getmem");

    if (error == 0 && d->mem == NULL)
        error = -ENOTSUP; /* the range is not mapped here */
    if (error != 0) {
        errno = -error;
        return NULL;
    }
    return d->mem;
}

/* The fits other than next-fit, beside the way of which they would only be in the way. */
static NOINLINE raddr_t vmem_alloc_from_tree(struct heap *h, size_t size)
{
    struct rdesc *d = tree_fit_alloc(h, size);

    return LIKELY(d != NULL) ? d : vmem_no_block(h);
}

static NOINLINE int vmem_free_to_tree(struct heap *h, raddr_t d)
{
    tree_fit_free(h, d);
    return 0;
}

raddr_t rmalloc_vmem_alloc(rdma_vmem_t *vmem, size_t size)
{
    struct heap *h = vmem_heap_of(vmem);
    struct rdesc *d;

    if (UNLIKELY(h == NULL || h->way != HEAP_NEXT_FIT))
        return h != NULL && h->way == HEAP_TREE_FIT ? vmem_alloc_from_tree(h, size)
                                                    : vmem_alloc_checked(h, size);
    d = next_fit_alloc(h, size);
    return LIKELY(d != NULL) ? d : vmem_no_block(h);
}

int rmalloc_vmem_free(rdma_vmem_t *vmem, raddr_t d)
{
    struct heap *h = vmem_heap_of(vmem);

    if (UNLIKELY(h == NULL || d == NULL || h->way == HEAP_CHECKED || !vmem_owned(h, d)))
        return vmem_free_checked(h, d);
    if (UNLIKELY(h->way != HEAP_NEXT_FIT))
        return vmem_free_to_tree(h, d);
    next_fit_free(h, d);
    return 0;
}

void *rmalloc_vmem_ptr(rdma_vmem_t *vmem, raddr_t d)
{
    const struct heap *h = vmem_heap_of(vmem);

    if (UNLIKELY(h == NULL || d == NULL || h->way == HEAP_CHECKED || !vmem_owned(h, d) ||
                 d->mem == NULL))
        return vmem_ptr_checked(h, d);
    return d->mem;
}

int rmalloc_vmem_set(rdma_vmem_t *vmem, raddr_t d, const void *from)
{
    int error = vmem_refuse_misuse(vmem_heap_of(vmem), d, "setmem");

    if (error == 0 && from == NULL)
        error = -EINVAL;
    if (error == 0 && d->mem == NULL)
        error = -ENOTSUP; /* the range is not mapped here */
    if (error == 0)
        memcpy(d->mem, from, d->size);
    return error;
}

size_t rmalloc_vmem_size(rdma_vmem_t *vmem, raddr_t d)
{
    int error = vmem_refuse_misuse(vmem_heap_of(vmem), d, "rdma_vmem_size");

    if (error != 0) {
        errno = -error;
        return 0;
    }
    return d->size;
}

uint64_t rmalloc_vmem_offset(rdma_vmem_t *vmem, raddr_t d)
{
    int error = vmem_refuse_misuse(vmem_heap_of(vmem), d, "rdma_vmem_offset");

    if (error != 0) {
        errno = -error;
        return NO_OFFSET;
    }
    return d->offset;
}

int rmalloc_vmem_grow(rdma_vmem_t *vmem, void *buffer, uint64_t bytes)
{
    struct heap *h = vmem_heap_of(vmem);
    int error;

    if (vmem == NULL)
        return -EINVAL;
    error = heap_grow(h, buffer, bytes);
    if (error == -EINVAL && vmem_debugging())
        log_error("rdma_vmem_grow: %llu bytes at %p: a segment has at least 1 byte and begins at a "
                  "whole unit, it is mapped "
                  "if and only if the first one is, and all together have at most 2^31 units",
                  (unsigned long long)bytes, buffer);
    return error != 0 ? error : vmem_check_after(h, "rdma_vmem_grow");
}

int rmalloc_vmem_walk(rdma_vmem_t *vmem, int (*visit)(const rdma_vmem_block_t *block, void *arg),
                      void *arg)
{
    return vmem == NULL || visit == NULL ? -EINVAL : heap_walk(vmem_heap_of(vmem), visit, arg);
}

int rmalloc_vmem_dump(rdma_vmem_t *vmem, FILE *to)
{
    return vmem == NULL || to == NULL ? -EINVAL : heap_dump(vmem_heap_of(vmem), to);
}

int rmalloc_vmem_stats(rdma_vmem_t *vmem, rdma_vmem_stats_t *stats)
{
    if (vmem == NULL || stats == NULL)
        return -EINVAL;
    heap_get_stats(vmem_heap_of(vmem), stats);
    return 0;
}

int rmalloc_vmem_check(rdma_vmem_t *vmem)
{
    struct error err = {""};
    int error;

    if (vmem == NULL)
        return -EINVAL;
    error = heap_check(vmem_heap_of(vmem), &err);
    if (error != 0)
        log_error("rdma_vmem_check: %s", err.text);
    return error;
}
