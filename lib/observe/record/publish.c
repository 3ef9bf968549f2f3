/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * publish.c: see publish.h. The file and its header; end_pool.c puts the ends into it, counter.c says what is counted.
 *
 * Every page is allocated when the file grows, so that too little memory is noticed there, and not by a SIGBUS later. Where the file
 * cannot be had, or grow, ends lie in memory that nobody else sees.
 */
#include "observe/record/publish.h"

#include "rpipe/end/end.h"
#include "observe/record/counter.h"

#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int publish_file = -1;
static uint64_t publish_file_bytes;
static struct published
    *_Atomic publish_header_now; /* mapped for ever: another thread may be about to look */

/* The leak checker of AddressSanitizer does not look for pointers in mappings, unless it is told to. */
extern void __lsan_register_root_region(const void *base, size_t bytes) __attribute__((weak));

static void publish_may_hold_pointers(const void *base, size_t bytes)
{
    if (__lsan_register_root_region != NULL)
        __lsan_register_root_region(base, bytes);
}

size_t publish_round(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) & ~(page - 1);
}

struct published *publish_header(void)
{
    return atomic_load_explicit(&publish_header_now, memory_order_acquire);
}
int publish_fd(void) { return publish_file; }

/* Appends whole pages to the file: where they begin, or -errno. */
static int64_t publish_append(size_t bytes)
{
    struct rlimit most;
    int rc;

    if (publish_file < 0)
        return -EBADF;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && publish_file_bytes + bytes > most.rlim_cur)
        return -EFBIG; /* the kernel would add a signal that ends the process */
    do
        rc = fallocate(publish_file, 0, (off_t)publish_file_bytes, (off_t)bytes);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        return -errno;
    publish_file_bytes += bytes;
    return (int64_t)(publish_file_bytes - bytes);
}

static void *publish_map_shown(void *at, size_t bytes, size_t ends)
{
    struct published *header = publish_header();
    uint64_t n = header != NULL ? atomic_load_explicit(&header->chunks, memory_order_relaxed)
                                : PUBLISHED_CHUNKS;
    int64_t offset = n < PUBLISHED_CHUNKS ? publish_append(bytes) : -ENOSPC;
    void *base;

    if (offset < 0)
        return NULL;
    if (at != NULL && pwrite(publish_file, at, bytes, (off_t)offset) != (ssize_t)bytes)
        return NULL;
    base = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at != NULL ? MAP_FIXED : 0),
                publish_file, (off_t)offset);
    if (base == MAP_FAILED)
        return NULL;
    header->chunk[n].offset = (uint64_t)offset;
    header->chunk[n].ends = ends;
    atomic_store_explicit(&header->chunks, n + 1,
                          memory_order_release); /* pairs with whoever reads the file */
    return base;
}

void *publish_map(void *at, size_t bytes, size_t ends)
{
    void *base = publish_map_shown(at, bytes, ends);

    if (base == NULL && at != NULL)
        return at;
    if (base == NULL)
        base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (at == NULL)
        publish_may_hold_pointers(base, bytes);
    return base;
}

/*
 * The copy first, then in one step to where the original was. Without memory for it the child loses what it must not touch anyway: it
 * would be told so by a sentence, and is told so by a signal.
 */
void publish_make_private(void *base, size_t bytes)
{
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy != MAP_FAILED) {
        memcpy(copy, base, bytes);
        if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base) != MAP_FAILED)
            return;
    }
    (void)mprotect(base, bytes, PROT_NONE);
}

int publish_start(int rank, int ranks)
{
    size_t bytes = publish_round(sizeof(struct published));
    struct published *header;
    void *base;
    int64_t rc;

    publish_file_bytes = 0;
    publish_file = memfd_create(PUBLISHED_NAME, MFD_CLOEXEC);
    if (publish_file < 0)
        return -errno;
    rc = fchmod(publish_file, S_IRUSR) == 0 ? publish_append(bytes) : -errno;
    base = rc < 0 ? MAP_FAILED
                  : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, publish_file, 0);
    if (base == MAP_FAILED) {
        rc = rc < 0 ? rc : -errno;
        close(publish_file);
        publish_file = -1;
        return (int)rc;
    }
    header = base;
    header->version = PUBLISHED_VERSION;
    header->header_bytes = sizeof(*header);
    header->pid = getpid();
    header->rank = rank;
    header->ranks = ranks;
    header->end_bytes = sizeof(struct rch);
    header->published_at = offsetof(struct rch, published_end);
    header->state_at = offsetof(struct rch, state);
    header->chunks_most = PUBLISHED_CHUNKS;
    header->started = clock_now();
    counter_publish(header);
    atomic_store_explicit(&publish_header_now, header, memory_order_release);
    end_pool_publish(); /* those of an earlier job */
    atomic_thread_fence(memory_order_release);
    header->magic = PUBLISHED_MAGIC; /* complete */
    return 0;
}

/* The ends stay where they are: handles are recognized for ever. */
static void publish_let_go(void)
{
    atomic_store_explicit(&publish_header_now, NULL, memory_order_release);
    if (publish_file >= 0)
        close(publish_file);
    publish_file = -1;
}

void publish_stop(void) { publish_let_go(); }
void publish_forked(void) { publish_let_go(); }

void publish_wait_set(struct published_wait *wait, const char *what)
{
    uint64_t word[PUBLISHED_WHAT_WORDS] = {0};

    atomic_store_explicit(&wait->since, 0, memory_order_relaxed);
    if (what == NULL)
        return;
    snprintf((char *)word, sizeof(word), "%s", what);
    for (int i = 0; i < PUBLISHED_WHAT_WORDS;
         i++) /* several threads may wait at the same time: the last one is told */
        atomic_store_explicit(&wait->what[i], word[i], memory_order_relaxed);
    atomic_store_explicit(&wait->since, clock_now(), memory_order_release);
}

void publish_process_wait(const char *what)
{
    struct published *header = publish_header();

    if (header != NULL)
        publish_wait_set(&header->wait, what);
}
