/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * publish.c: see publish.h. The file and its header; rpipe/end allocates the ends in it.
 *
 * Every page is allocated when the file grows, so a lack of memory is an error there and not a SIGBUS later. Without a file,
 * or where it cannot grow, ends are allocated in private memory.
 */
#include "observe/record/publish.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int publish_file = -1;
static uint64_t publish_file_bytes;
/* The mapping is never undone: another thread may be about to use it. */
static struct published *_Atomic publish_header_now;

/* The leak checker of AddressSanitizer ignores pointers in mappings that are not registered. */
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
    /* acquire: pairs with the release in publish_start */
    return atomic_load_explicit(&publish_header_now, memory_order_acquire);
}

int publish_fd(void) { return publish_file; }

/* Appends whole pages to the file: their offset, or -errno. */
static int64_t publish_append(size_t bytes)
{
    struct rlimit most;
    int rc;

    if (publish_file < 0)
        return -EBADF;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && publish_file_bytes + bytes > most.rlim_cur)
        return -EFBIG; /* the kernel would also send SIGXFSZ, which ends the process */
    do
        rc = fallocate(publish_file, 0, (off_t)publish_file_bytes, (off_t)bytes);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        return -errno;
    publish_file_bytes += bytes;
    return (int64_t)(publish_file_bytes - bytes);
}

static void *publish_map_file(void *at, size_t bytes, size_t ends)
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
    /* release: the entry is complete; pairs with a reader of the file, which loads `chunks` first */
    atomic_store_explicit(&header->chunks, n + 1, memory_order_release);
    return base;
}

void *publish_map(void *at, size_t bytes, size_t ends)
{
    void *base = publish_map_file(at, bytes, ends);

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
 * Copies first, then moves the copy to the address of the original in one step. Without memory for the copy the child loses
 * access to ends that it must not use anyway: a call on one faults instead of returning an error.
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

static void publish_describe(struct published *header, const struct published_layout *layout)
{
    header->end_bytes = layout->end_bytes;
    header->published_at = layout->published_at;
    header->state_at = layout->state_at;
    for (int i = 0; i < layout->rows; i++) {
        struct published_counter *c = &header->counter[i];

        strncpy(c->name, layout->row[i].name, sizeof(c->name) - 1);
        strncpy(c->unit, layout->row[i].unit, sizeof(c->unit) - 1);
        c->writer = layout->row[i].writer;
        c->reader = layout->row[i].reader;
        c->now = layout->row[i].now;
    }
    header->counters = (uint32_t)layout->rows;
}

int publish_start(int rank, int ranks, const char *job, const struct published_layout *layout)
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
    header->oldest = PUBLISHED_OLDEST;
    header->header_bytes = sizeof(*header);
    header->pid = getpid();
    header->rank = rank;
    header->ranks = ranks;
    header->chunks_most = PUBLISHED_CHUNKS;
    header->started = clock_now();
    snprintf(header->program, sizeof(header->program), "%s", program_invocation_short_name);
    snprintf(header->job, sizeof(header->job), "%s", job);
    publish_describe(header, layout);
    /* release: the header is initialized; pairs with publish_header */
    atomic_store_explicit(&publish_header_now, header, memory_order_release);
    return 0;
}

void publish_complete(void)
{
    atomic_thread_fence(
        memory_order_release); /* pairs with a reader of the file, which reads `magic` first */
    publish_header()->magic = PUBLISHED_MAGIC;
}

/* The ends stay where they are: a closed handle is recognized for the lifetime of the process. */
void publish_stop(void)
{
    atomic_store_explicit(&publish_header_now, NULL, memory_order_release);
    if (publish_file >= 0)
        close(publish_file);
    publish_file = -1;
}

void publish_wait_set(struct published_wait *wait, const char *what)
{
    uint64_t word[PUBLISHED_WAIT_WORDS] = {0};

    atomic_store_explicit(&wait->since, 0, memory_order_relaxed);
    if (what == NULL)
        return;
    snprintf((char *)word, sizeof(word), "%s", what);
    /* several threads may wait at the same time: the last one is published */
    for (int i = 0; i < PUBLISHED_WAIT_WORDS; i++)
        atomic_store_explicit(&wait->text[i], word[i], memory_order_relaxed);
    /* release: the text is complete; pairs with a reader of the file, which reads `since` first */
    atomic_store_explicit(&wait->since, clock_now(), memory_order_release);
}

void publish_process_wait(const char *what)
{
    struct published *header = publish_header();

    if (header != NULL)
        publish_wait_set(&header->wait, what);
}
