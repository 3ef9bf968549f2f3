/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.c: see segment.h. */
#include "util/segment.h"

#include "util/limit.h"
#include "util/log.h"
#include "util/map.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26) /* linux/memfd.h: log2 of the page size */
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* linux/mman.h, Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#define HUGE_PAGE ((size_t)2 << 20)
#define CHECK_FROM ((size_t)4 << 20)    /* bytes after which the available memory is checked */
#define LEAVE_FREE ((uint64_t)32 << 20) /* bytes left to the rest of the machine */
#define POPULATE_TO ((size_t)4 << 20)   /* bytes up to which a mapping is populated */

/*
 * The number after `key` in a small text file such as /proc/meminfo; UINT64_MAX if there is none
 * ("max").
 */
static uint64_t segment_read_number(const char *path, const char *key, uint64_t scale)
{
    char text[4096], *at;
    unsigned long long number;
    ssize_t length;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return UINT64_MAX;
    length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return UINT64_MAX;
    text[length] = '\0';
    at = key != NULL ? strstr(text, key) : text;
    if (at == NULL || sscanf(at + (key != NULL ? strlen(key) : 0), "%llu", &number) != 1)
        return UINT64_MAX;
    return number * scale;
}

/*
 * Bytes that one control group still allows; UINT64_MAX: no limit. Inactive files are evicted if
 * necessary.
 */
static uint64_t segment_group_left(const char *directory, bool second)
{
    char path[640];
    uint64_t most, used, files;

    snprintf(path, sizeof(path), "%s/%s", directory,
             second ? "memory.max" : "memory.limit_in_bytes");
    most = segment_read_number(path, NULL, 1);
    snprintf(path, sizeof(path), "%s/%s", directory,
             second ? "memory.current" : "memory.usage_in_bytes");
    used = segment_read_number(path, NULL, 1);
    if (most == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    snprintf(path, sizeof(path), "%s/memory.stat", directory);
    files = segment_read_number(path, second ? "\ninactive_file " : "\ntotal_inactive_file ", 1);
    if (files != UINT64_MAX)
        used -= files < used ? files : used;
    return most > used ? most - used : 0;
}

/* From the group of this process up to the mounted root: every level has its limit. */
static uint64_t segment_groups_left(const char *mounted, const char *group, bool second)
{
    char path[512];
    uint64_t least = UINT64_MAX, left;
    size_t root = strlen(mounted);
    char *slash;

    if (snprintf(path, sizeof(path), "%s%s", mounted, group) >= (int)sizeof(path))
        return UINT64_MAX;
    for (;;) {
        left = segment_group_left(path, second);
        least = left < least ? left : least;
        slash = strrchr(path, '/');
        if (slash == NULL || slash < path + root)
            return least;
        *slash = '\0';
    }
}

/*
 * Bytes that the memory controllers of this process still allow (cgroup version 1 or 2, or both).
 */
static uint64_t segment_cgroup_left(void)
{
    uint64_t least = UINT64_MAX, left = UINT64_MAX;
    char line[512], *group;
    FILE *f = fopen("/proc/self/cgroup", "re");

    if (f == NULL)
        return UINT64_MAX;
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        group = strchr(line, ':');
        group = group != NULL ? strchr(group + 1, ':') : NULL;
        if (group == NULL)
            continue;
        if (strncmp(line, "0::", 3) == 0)
            left = segment_groups_left("/sys/fs/cgroup", group + 1, true);
        else if (strstr(line, ":memory:") != NULL)
            left = segment_groups_left("/sys/fs/cgroup/memory", group + 1, false);
        least = left < least ? left : least;
    }
    fclose(f);
    return least;
}

/* A check reads a dozen files: 0.1 ms. So small segments are checked together. */
static bool segment_is_to_be_checked(size_t bytes)
{
    static _Atomic size_t
        unchecked; /* bytes that this process has allocated since the last check */

    if (atomic_fetch_add_explicit(&unchecked, bytes, memory_order_relaxed) + bytes < CHECK_FROM)
        return false;
    atomic_store_explicit(&unchecked, 0, memory_order_relaxed);
    return true;
}

static int segment_enough_memory(size_t bytes, struct error *err)
{
    uint64_t there = segment_read_number("/proc/meminfo", "MemAvailable:", 1024),
             allowed = segment_cgroup_left();
    const char *limit = "this machine has";

    if (allowed < there) {
        there = allowed;
        limit = "the memory limit of this control group leaves";
    }
    if (there == UINT64_MAX || (there > LEAVE_FREE && bytes <= there - LEAVE_FREE))
        return 0;
    error_note(
        err,
        "%zu MiB of shared memory are needed, %s %llu MiB available: reduce heap_bytes or the "
        "number of pipes",
        bytes >> 20, limit, (unsigned long long)(there >> 20));
    return -ENOMEM;
}

/*
 * A signal that interrupts a call makes the kernel free what the call has allocated: with frequent
 * signals one call would never finish a large file. Each interruption therefore halves the size of
 * the next call.
 */
static int segment_allocate(int fd, size_t from, size_t bytes, size_t page)
{
    size_t done = from, step = bytes - from;

    while (done < bytes) {
        if (step > bytes - done)
            step = bytes - done;
        if (fallocate(fd, 0, (off_t)done, (off_t)step) == 0)
            done += step;
        else if (errno != EINTR)
            return -errno;
        else if (step > page)
            step = map_round_up(step / 2, page);
    }
    return 0;
}

/* A memfd of `bytes`, in pages of `page`, with its memory allocated but for `late`; or -errno. */
static int segment_make_fd(size_t bytes, size_t page, struct segment_late late, unsigned flags)
{
    struct rlimit most;
    int fd, rc;

    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur)
        return -EFBIG; /* the kernel would add a signal that ends the process (SIGXFSZ) */
    fd = memfd_create("rmalloc", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd < 0)
        return -errno;
    rc = late.bytes > 0 ? segment_allocate(fd, 0, late.at, page) : 0;
    if (rc == 0)
        rc = segment_allocate(fd, late.bytes > 0 ? late.at + late.bytes : 0, bytes, page);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    return fd;
}

/* Aligned (map.h), so that a heap is aligned to its unit at both ends. `bytes` are whole pages of the
 * file, so that MAP_FIXED replaces what has been reserved here, and nothing else. */
static void *segment_map_file(size_t bytes, int protection, bool aligned, int fd)
{
    void *at;

    if (!aligned)
        return mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
    at = map_aligned(bytes, PROT_NONE, MAP_NORESERVE);
    if (at == MAP_FAILED)
        return MAP_FAILED;
    if (mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int saved = errno;

        munmap(at, bytes);
        errno = saved;
        return MAP_FAILED;
    }
    return at;
}

/*
 * A file for a segment; *bytes is rounded up to its pages. Huge pages are used only if the peer does
 * not write: a peer that may write may also punch holes, and a hole in a hugetlb file may be
 * refilled by a SIGBUS only. Returns the descriptor, or -errno and an error message.
 */
static int segment_make_file(size_t *bytes, bool peer_writes, bool huge, struct segment_late late,
                             struct error *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int file = -1, rc;

    if (*bytes > SIZE_MAX / 2)
        return error_set(err, -ENOMEM, "%zu bytes of shared memory cannot be addressed", *bytes);
    if (huge && !peer_writes && *bytes >= HUGE_PAGE) {
        const size_t whole = map_round_up(*bytes, HUGE_PAGE);

        file = segment_make_fd(whole, HUGE_PAGE, late, MFD_HUGETLB | MFD_HUGE_2MB);
        if (file >= 0)
            *bytes = whole;
        else
            log_info("no huge pages for %zu MiB (%s): ordinary pages are used; see "
                     "/proc/sys/vm/nr_hugepages",
                     *bytes >> 20, strerror(-file));
    }
    if (file < 0) {
        *bytes = map_round_up(*bytes, page);
        if (segment_is_to_be_checked(*bytes) && (rc = segment_enough_memory(*bytes, err)) != 0)
            return rc;
        file = segment_make_fd(*bytes, page, late, 0);
    }
    if (file >= 0)
        return file;
    error_note(err, "shared memory of %zu bytes cannot be created: %s%s", *bytes, strerror(-file),
               file == -EFBIG ? " (it counts as a file: see ulimit -f)" : limit_of(-file));
    return file == -ENOSPC || file == -EFBIG ? -ENOMEM : file;
}

size_t segment_bytes(size_t bytes) { return map_round_up(bytes, (size_t)sysconf(_SC_PAGESIZE)); }

static int segment_create(size_t bytes, bool peer_writes, bool huge,
                          const struct segment_late *late, struct segment *s, int *fd,
                          struct error *err)
{
    static const struct segment_late all = {0, 0};
    /* F_SEAL_SEAL: cells go to several peers; a seal added by one would exclude the others */
    const int seals =
        F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (peer_writes ? 0 : F_SEAL_FUTURE_WRITE);
    const int file = segment_make_file(&bytes, peer_writes, huge, late != NULL ? *late : all, err);
    void *base;
    int rc;

    if (file < 0)
        return file;
    base = segment_map_file(bytes, PROT_READ | PROT_WRITE, late == NULL, file);
    if (base == MAP_FAILED) {
        rc = -errno;
        error_note(err, "shared memory of %zu bytes cannot be mapped: %s%s", bytes, strerror(-rc),
                   limit_of(-rc));
        goto fail_file;
    }
    if (fcntl(file, F_ADD_SEALS, seals) != 0) {
        rc = -errno;
        error_note(err, "shared memory cannot be sealed (F_ADD_SEALS): %s", strerror(-rc));
        goto fail_map;
    }
    if (huge && bytes >= HUGE_PAGE) /* a hint, for ordinary files if the kernel is set so */
        (void)madvise(base, bytes, MADV_HUGEPAGE);
    s->base = base;
    s->bytes = bytes;
    *fd = file;
    return 0;

fail_map:
    munmap(base, bytes);
fail_file:
    close(file);
    return rc;
}

int segment_make(size_t bytes, bool peer_writes, bool huge, struct segment *s, int *fd,
                 struct error *err)
{
    return segment_create(bytes, peer_writes, huge, NULL, s, fd, err);
}

int segment_make_late(size_t bytes, struct segment_late late, struct segment *s, int *fd,
                      struct error *err)
{
    return segment_create(bytes, false, false, &late, s, fd, err);
}

bool segment_has_late(void) { return madvise(NULL, 0, MADV_POPULATE_WRITE) == 0; }

int segment_allocate_late(void *at, size_t bytes)
{
    while (madvise(at, bytes, MADV_POPULATE_WRITE) != 0)
        if (errno != EINTR && errno != EAGAIN)
            return errno == EFAULT ? -ENOMEM : -errno; /* EFAULT: a store would be a SIGBUS */
    return 0;
}

/* A mapping of a file of huge pages begins at one of them: EINVAL elsewhere. */
static bool segment_maps_small_pages(int fd, size_t page)
{
    void *second = mmap(NULL, page, PROT_NONE, MAP_SHARED, fd, (off_t)page);

    if (second == MAP_FAILED)
        return false;
    munmap(second, page);
    return true;
}

/* The size of the pages of a file of memory. The block size of other than hugetlb is no page: with
 * transparent huge pages it is that of a huge one. */
static size_t segment_page_bytes(int fd, const struct stat *st, bool *huge)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct statfs fs;

    *huge = false;
    if ((size_t)st->st_blksize <= page)
        return page;
    if (fstatfs(fd, &fs) == 0)
        *huge = fs.f_type == HUGETLBFS_MAGIC;
    else /* refused, by seccomp for example */
        *huge = !segment_maps_small_pages(fd, page);
    return *huge ? (size_t)st->st_blksize : page;
}

/* Whether a file that a peer has passed, with these seals, can be mapped. */
static int segment_check(int fd, size_t bytes, size_t late, int seals, bool *huge,
                         struct error *err)
{
    struct stat st = {0};
    size_t page;

    if (fstat(fd, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size < bytes || bytes == 0)
        return error_set(err, -EPROTO,
                         "the shared memory that the peer passed has %lld bytes; it announced %zu",
                         (long long)st.st_size, bytes);
    page = segment_page_bytes(fd, &st, huge);
    /* mmap(2) rounds the length up to pages of the file: MAP_FIXED would replace what is behind */
    if (bytes % page != 0)
        return error_set(err, -EPROTO,
                         "the peer announced %zu bytes of shared memory, which are no whole pages "
                         "of %zu bytes",
                         bytes, page);
    if (*huge && (seals & F_SEAL_FUTURE_WRITE) == 0)
        return error_set(
            err, -EPROTO,
            "the peer passed huge pages without F_SEAL_FUTURE_WRITE, in which it could "
            "punch holes");
    /* reading what is not there would allocate it, at the expense of this process */
    if ((uint64_t)st.st_blocks < (bytes - late) / 512)
        return error_set(
            err, -EPROTO,
            "the shared memory that the peer passed has %lld allocated bytes of %zu (fallocate)",
            (long long)st.st_blocks * 512, bytes - late);
    return 0;
}

/* late: SIZE_MAX: all is to be there, and the mapping is aligned. */
static int segment_map_any(int fd, size_t bytes, size_t late, bool writable, struct segment *s,
                           struct error *err)
{
    int seals = fcntl(fd, F_GET_SEALS), rc;
    bool huge = false;
    void *base;

    /* without these a peer could remove the memory while it is used (SIGBUS) */
    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
        return error_set(
            err, -EPROTO,
            "the shared memory that the peer passed has seals %#x; F_SEAL_SHRINK and F_SEAL_GROW "
            "(%#x) are needed",
            (unsigned)seals, (unsigned)(F_SEAL_SHRINK | F_SEAL_GROW));
    rc = segment_check(fd, bytes, late == SIZE_MAX ? 0 : late, seals, &huge, err);
    if (rc != 0)
        return rc;
    base = segment_map_file(bytes, PROT_READ | (writable ? PROT_WRITE : 0), late == SIZE_MAX, fd);
    if (base == MAP_FAILED) {
        rc = errno == EPERM || errno == EACCES
                 ? -EPROTO
                 : -errno; /* EPERM: sealed against the announced access */
        error_note(err, "the peer's shared memory of %zu bytes cannot be mapped: %s%s", bytes,
                   strerror(errno),
                   errno == ENOMEM ? " (too many mappings? see /proc/sys/vm/max_map_count)" : "");
        return rc;
    }
    s->base = base;
    s->bytes = bytes;
    s->huge = huge;
    return 0;
}

int segment_map(int fd, size_t bytes, bool writable, struct segment *s, struct error *err)
{
    return segment_map_any(fd, bytes, SIZE_MAX, writable, s, err);
}

int segment_map_late(int fd, size_t bytes, size_t late, struct segment *s, struct error *err)
{
    return segment_map_any(fd, bytes, late, false, s, err);
}

void segment_populate(const struct segment *s)
{
    if (s->bytes <= POPULATE_TO)
        (void)madvise(s->base, s->bytes, MADV_POPULATE_READ);
}

void segment_unmap(struct segment *s)
{
    if (s->base != NULL)
        munmap(s->base, s->bytes);
    s->base = NULL;
}

int segment_query(struct error *err)
{
    struct segment s = {NULL, 0, false};
    int fd = -1, rc = segment_make(1, false, false, &s, &fd, err);

    if (rc != 0)
        return rc;
    close(fd);
    segment_unmap(&s);
    error_note(err, "memfd with seals works: processes of this host, in one network namespace");
    return 0;
}
