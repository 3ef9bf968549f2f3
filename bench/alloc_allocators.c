/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alloc_allocators.c: what is compared, see alloc_bench.h.
 *
 * The libraries of others are opened at run time, each in a scope of its own, so that none takes
 * the place of the C library's malloc and none is needed for the build. jemalloc needs more static
 * thread-local storage than glibc reserves for libraries opened at run time; a tunable, read when a
 * program starts, sets that reserve.
 */
#include "alloc_bench.h"
#include <rvmem.h>
#include <rinfo.h>

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t somewhere;

static void *empty_malloc(size_t size)
{
    __asm__ __volatile__("" ::"r"(size));
    return &somewhere;
}

static void empty_free(void *p) { __asm__ __volatile__("" ::"r"(p)); }

#define OURS(heuristic, label)                                                                     \
    {                                                                                              \
        .name = (label), .kind = KIND_VMEM, .fit = (heuristic), .vmem_alloc = rvmem_alloc,         \
        .vmem_free = rvmem_free, .vmem_ptr = rvmem_mem                                             \
    }

struct allocator allocators[ALLOCATORS] = {
    OURS(RMALLOC_NEXT_FIT, "next-fit"),
    OURS(RMALLOC_FIRST_FIT, "first-fit"),
    OURS(RMALLOC_BEST_FIT, "best-fit"),
    OURS(RMALLOC_WORST_FIT, "worst-fit"),
    OURS(RMALLOC_RANDOM_FIT, "random-fit"),
    OURS(RMALLOC_SEGREGATED_FIT, "segregated-fit"),
    {.name = "mimalloc", .kind = KIND_MALLOC},
    {.name = "jemalloc", .kind = KIND_MALLOC},
    {.name = "glibc", .kind = KIND_MALLOC},
    {.name = "empty calls", .kind = KIND_MALLOC, .malloc = empty_malloc, .free = empty_free},
};

static const struct library {
    const char *file[3], *malloc, *free, *package;
} libraries[] = {
    {{"libmimalloc.so.2", "libmimalloc.so", NULL}, "mi_malloc", "mi_free", "libmimalloc2.0"},
    {{"libjemalloc.so.2", "libjemalloc.so", NULL}, "malloc", "free", "libjemalloc2"},
    {{"libc.so.6", NULL, NULL}, "malloc", "free", "libc6"},
};

void allocators_prepare(char **argv)
{
    static const char room[] = "glibc.rtld.optional_static_tls=16384";
    const char *before = getenv("GLIBC_TUNABLES");
    char tunables[1024];

    if (before != NULL && strstr(before, "optional_static_tls") != NULL)
        return;
    snprintf(tunables, sizeof(tunables), "%s%s%s", before != NULL ? before : "",
             before != NULL ? ":" : "", room);
    if (setenv("GLIBC_TUNABLES", tunables, 1) == 0)
        execv("/proc/self/exe", argv); /* if it fails, a library less is measured */
}

static void find_library(struct allocator *a, const struct library *l)
{
    void *handle = NULL;

    for (int i = 0; handle == NULL && l->file[i] != NULL; i++)
        handle = dlopen(l->file[i], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();

        snprintf(a->missing, sizeof(a->missing), "not found (Debian: %s): %s", l->package,
                 why != NULL ? why : "");
        return;
    }
    *(void **)&a->malloc = dlsym(handle, l->malloc);
    *(void **)&a->free = dlsym(handle, l->free);
    if (a->malloc == NULL || a->free == NULL)
        snprintf(a->missing, sizeof(a->missing), "%s has no %s", l->file[0], l->malloc);
}

void allocators_find(void)
{
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        find_library(&allocators[FITS + i], &libraries[i]);
    for (int i = 0; i < FITS; i++) { /* one heuristic that a version does not have is a line, too */
        allocators[i].missing[0] = '\0';
        if (allocator_open(&allocators[i], 65536, false) == 0)
            allocator_close(&allocators[i]);
    }
}

int allocator_open(struct allocator *a, uint64_t heap, bool touch)
{
    rvmem_config_t cfg = {0};
    int error;

    if (a->kind != KIND_VMEM)
        return 0;
    heap = (heap + 4095) / 4096 * 4096;
    a->buffer = mmap(NULL, heap, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | (touch ? MAP_POPULATE : MAP_NORESERVE), -1, 0);
    if (a->buffer == MAP_FAILED) {
        error = -errno;
        snprintf(a->missing, sizeof(a->missing), "no range of %llu bytes: %s",
                 (unsigned long long)heap, strerror(-error));
        return error;
    }
    cfg.heuristic = a->fit;
    cfg.unit_bytes = UNIT;
    cfg.bytes = heap;
    cfg.buffer = a->buffer;
    cfg.seed = 1;
    cfg.max_blocks = UINT32_MAX;
    error = rvmem_create(&a->vmem, &cfg);
    if (error != 0) {
        snprintf(a->missing, sizeof(a->missing), "%s",
                 error == -ENOTSUP ? "refused: not in this version of the library"
                                   : rinfo_strerror(error));
        munmap(a->buffer, heap);
        return error;
    }
    a->heap = heap;
    return 0;
}

void allocator_close(struct allocator *a)
{
    if (a->vmem == NULL)
        return;
    rvmem_destroy(a->vmem);
    munmap(a->buffer, a->heap);
    a->vmem = NULL;
}
