/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_simulated.c: a GPU that no machine needs to have; see gpu.h.
 *
 * Its addresses are mapped to nothing (PROT_NONE): to load or store there ends the process. It
 * computes in memory of its own, `inside`, and what the other process sees is `outside`, a memfd:
 * bytes go from the one to the other in `left`, and back in `arrived`, as through the cache of a
 * device. So this is also an example of a table rmemory_ops_t that needs both.
 */
#include "gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORIES 8

struct memory {
    char *address, *outside, *inside; /* of the same bytes; address NULL: free */
    size_t bytes;
};

static struct memory memories[MEMORIES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a thread of the library's joins ends */

/* The memory that an address is in. */
static struct memory memory_at(const void *at, size_t bytes)
{
    struct memory found = {0};

    pthread_mutex_lock(&lock);
    for (struct memory *m = memories; m < memories + MEMORIES; m++) {
        size_t offset = (size_t)((const char *)at - m->address);

        if (m->address != NULL && offset <= m->bytes && bytes <= m->bytes - offset)
            found = (struct memory){m->address + offset, m->outside + offset, m->inside + offset,
                                    bytes};
    }
    pthread_mutex_unlock(&lock);
    if (found.address == NULL) {
        fprintf(stderr, "simulated GPU: fault: %zu bytes at %p\n", bytes, at);
        abort();
    }
    return found;
}

static void memory_unmap(struct memory *m)
{
    if (m->address != MAP_FAILED)
        munmap(m->address, m->bytes);
    if (m->outside != MAP_FAILED)
        munmap(m->outside, m->bytes);
    free(m->inside);
    m->address = NULL;
}

static int memory_import(void *argument, int fd, size_t bytes, void **base)
{
    struct memory made = {.bytes = bytes}, *m = memories;
    struct stat s;
    int rc = 0;

    (void)argument;
    if (fstat(fd, &s) != 0 || s.st_size < (off_t)bytes)
        return -EPROTO; /* another process has passed it */
    made.address = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    made.outside = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    made.inside = calloc(1, bytes);
    pthread_mutex_lock(&lock);
    while (m < memories + MEMORIES && m->address != NULL)
        m++;
    if (m == memories + MEMORIES || made.address == MAP_FAILED || made.outside == MAP_FAILED ||
        made.inside == NULL) {
        memory_unmap(&made);
        rc = -ENOMEM;
    } else {
        *m = made;
        *base = made.address;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int memory_alloc(void *argument, size_t bytes, void **base, int *fd)
{
    int rc;

    *fd = memfd_create("memory of a simulated GPU", MFD_CLOEXEC);
    if (*fd < 0)
        return -errno;
    rc = ftruncate(*fd, (off_t)bytes) != 0 ? -errno : memory_import(argument, *fd, bytes, base);
    if (rc != 0)
        close(*fd);
    return rc;
}

static void memory_free(void *argument, void *base, size_t bytes)
{
    (void)argument, (void)bytes;
    pthread_mutex_lock(&lock);
    for (struct memory *m = memories; m < memories + MEMORIES; m++)
        if (m->address == base)
            memory_unmap(m);
    pthread_mutex_unlock(&lock);
}

static int memory_copy_in(void *argument, void *to, const void *from, size_t bytes)
{
    (void)argument;
    memcpy(memory_at(to, bytes).inside, from, bytes);
    return 0;
}

static int memory_copy_out(void *argument, void *to, const void *from, size_t bytes)
{
    (void)argument;
    memcpy(to, memory_at(from, bytes).inside, bytes);
    return 0;
}

static int memory_left(void *argument, void *at, size_t bytes)
{
    struct memory m = memory_at(at, bytes);

    (void)argument;
    memcpy(m.outside, m.inside, bytes);
    return 0;
}

static int memory_arrived(void *argument, void *at, size_t bytes)
{
    struct memory m = memory_at(at, bytes);

    (void)argument;
    memcpy(m.inside, m.outside, bytes);
    return 0;
}

static const rmemory_ops_t memory_of_gpu = {.version = RMEMORY_VERSION,
                                            .name = "simulated",
                                            .alloc = memory_alloc,
                                            .free = memory_free,
                                            .import = memory_import,
                                            .unimport = memory_free,
                                            .copy_in = memory_copy_in,
                                            .copy_out = memory_copy_out,
                                            .left = memory_left,
                                            .arrived = memory_arrived};

/* ---- kernels ---- */

static void simulated_fill(struct gpu *gpu, void *at, uint32_t words, uint32_t key)
{
    char *inside = memory_at(at, words * sizeof(uint32_t)).inside;

    (void)gpu;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = gpu_word(key, i);

        memcpy(inside + i * sizeof(word), &word, sizeof(word));
    }
}

static uint32_t simulated_check(struct gpu *gpu, const void *at, uint32_t words, uint32_t key)
{
    const char *inside = memory_at(at, words * sizeof(uint32_t)).inside;
    uint32_t wrong = 0, word;

    (void)gpu;
    for (uint32_t i = 0; i < words; i++) {
        memcpy(&word, inside + i * sizeof(word), sizeof(word));
        wrong += word != gpu_word(key, i);
    }
    return wrong;
}

static const char *simulated_error(struct gpu *gpu)
{
    (void)gpu;
    return "see the error of the call";
}

static void simulated_close(struct gpu *gpu) { gpu->memory = NULL; }

int gpu_open_simulated(struct gpu *gpu)
{
    *gpu = (struct gpu){.memory = &memory_of_gpu,
                        .name = "simulated",
                        .fill = simulated_fill,
                        .check = simulated_check,
                        .error = simulated_error,
                        .close = simulated_close};
    return 0;
}
