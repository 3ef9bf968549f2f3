/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.c: see segment.h. */
#include "btl/shm/segment.h"

#include "util/limit.h"
#include "util/log.h"
#include "util/map.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
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
#define HUGE_PAGE ((size_t)2 << 20)
#define LOOK_FROM ((size_t)1 << 20)     /* smaller segments are not worth a look at the memory */
#define LEAVE_FREE ((uint64_t)32 << 20) /* for the rest of the machine */
#define POPULATE_TO ((size_t)4 << 20)   /* larger mappings take their page faults at first touch */

/* The number behind `key` in a small text file such as /proc/meminfo; UINT64_MAX where there is none ("max"). */
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

/* What one control group still allows; UINT64_MAX: it says nothing. Files in memory make room when they have to. */
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

/* From the group of this process up to the root of what is mounted: every level has its limit. */
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

/* What the memory controllers of this process still allow (cgroup version 1 or 2, or both mounted). */
static uint64_t segment_cgroup_left(void)
{
    uint64_t least = UINT64_MAX, left = UINT64_MAX;
    char connection[512], *group;
    FILE *f = fopen("/proc/self/cgroup", "re");

    if (f == NULL)
        return UINT64_MAX;
    while (fgets(connection, sizeof(connection), f) != NULL) {
        connection[strcspn(connection, "\n")] = '\0';
        group = strchr(connection, ':');
        group = group != NULL ? strchr(group + 1, ':') : NULL;
        if (group == NULL)
            continue;
        if (strncmp(connection, "0::", 3) == 0)
            left = segment_groups_left("/sys/fs/cgroup", group + 1, true);
        else if (strstr(connection, ":memory:") != NULL)
            left = segment_groups_left("/sys/fs/cgroup/memory", group + 1, false);
        least = left < least ? left : least;
    }
    fclose(f);
    return least;
}

static int segment_enough_memory(size_t bytes, struct error *err)
{
    uint64_t there = segment_read_number("/proc/meminfo", "MemAvailable:", 1024),
             allowed = segment_cgroup_left();
    const char *who = "this machine has";

    if (allowed < there) {
        there = allowed;
        who = "the memory limit of this control group leaves";
    }
    if (there == UINT64_MAX || (there > LEAVE_FREE && bytes <= there - LEAVE_FREE))
        return 0;
    error_note(err,
               "%zu MiB of shared memory are wanted, %s %llu MiB available: make alloc_size or the "
               "number of channels smaller",
               bytes >> 20, who, (unsigned long long)(there >> 20));
    return -ENOMEM;
}

/*
 * The kernel gives back what one call has allocated so far when a signal interrupts it: where signals come fast, a large file
 * would never be finished by one call. So each interruption halves what the next call asks for.
 */
static int segment_allocate(int fd, size_t bytes, size_t page)
{
    size_t done = 0, step = bytes;

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

/* A memfd of that size, which is in pages of that size, with its memory allocated; -errno. */
static int segment_make_fd(size_t bytes, size_t page, unsigned flags)
{
    struct rlimit most;
    int fd, rc;

    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur)
        return -EFBIG; /* the kernel would add a signal that ends the process (SIGXFSZ) */
    fd = memfd_create("rmalloc", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd < 0)
        return -errno;
    rc = segment_allocate(fd, bytes, page);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    return fd;
}

/* Where both sides map so, a piece is aligned to its unit on both (map.h). */
static void *segment_map_file(size_t bytes, int protection, int fd)
{
    void *at = map_aligned(bytes, PROT_NONE, MAP_NORESERVE);

    if (at == MAP_FAILED)
        return MAP_FAILED;
    if (mmap(at, bytes, protection,
             MAP_SHARED | MAP_FIXED | (bytes <= POPULATE_TO ? MAP_POPULATE : 0), fd,
             0) == MAP_FAILED) {
        int saved = errno;

        munmap(at, bytes);
        errno = saved;
        return MAP_FAILED;
    }
    return at;
}

int segment_make(size_t bytes, bool peer_writes, bool huge, struct segment *s, int *fd,
                 struct error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    /* the last one too: cells go to several peers, and a seal that one of them adds would keep out the others */
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (peer_writes ? 0 : F_SEAL_FUTURE_WRITE);
    int file = -1, rc;
    void *base;

    if (bytes > SIZE_MAX / 2)
        return error_set(err, -ENOMEM, "%zu bytes of shared memory cannot be addressed", bytes);
    /* a peer that may write may also punch holes, and a hole in a hugetlb file may be refilled by a SIGBUS only */
    if (huge && !peer_writes && bytes >= HUGE_PAGE) {
        file =
            segment_make_fd(map_round_up(bytes, HUGE_PAGE), HUGE_PAGE, MFD_HUGETLB | MFD_HUGE_2MB);
        if (file >= 0)
            bytes = map_round_up(bytes, HUGE_PAGE);
        else
            log_info("no huge pages for %zu MiB (%s): ordinary pages are used; see "
                     "/proc/sys/vm/nr_hugepages",
                     bytes >> 20, strerror(-file));
    }
    if (file < 0) {
        bytes = map_round_up(bytes, page);
        if (bytes >= LOOK_FROM && (rc = segment_enough_memory(bytes, err)) != 0)
            return rc;
        file = segment_make_fd(bytes, page, 0);
    }
    if (file < 0) {
        error_note(err, "shared memory of %zu bytes cannot be made: %s%s", bytes, strerror(-file),
                   file == -EFBIG ? " (it counts as a file: see ulimit -f)" : limit_of(-file));
        return file == -ENOSPC || file == -EFBIG ? -ENOMEM : file;
    }
    base = segment_map_file(bytes, PROT_READ | PROT_WRITE, file);
    if (base == MAP_FAILED) {
        rc = -errno;
        error_note(err, "shared memory of %zu bytes cannot be mapped: %s%s", bytes, strerror(-rc),
                   limit_of(-rc));
        goto fail_file;
    }
    if (fcntl(file, F_ADD_SEALS, seals) != 0) {
        rc = -errno;
        error_note(err, "shared memory cannot be sealed (F_ADD_SEALS): %s", strerror(errno));
        goto fail_map;
    }
    if (huge && bytes >= HUGE_PAGE)
        (void)madvise(base, bytes,
                      MADV_HUGEPAGE); /* for ordinary files where the kernel is set so; a hint */
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

int segment_map(int fd, size_t bytes, bool writable, struct segment *s, struct error *err)
{
    struct statfs fs;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS), rc;
    void *base;

    /* without these a peer could take the memory away under our feet (SIGBUS) */
    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
        return error_set(err, -EPROTO,
                         "the shared memory that the peer passed is not sealed against shrinking");
    if (fstat(fd, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size < bytes || bytes == 0)
        return error_set(err, -EPROTO,
                         "the shared memory that the peer passed is smaller than the %zu bytes "
                         "that it announced",
                         bytes);
    if (fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC) {
        if ((seals & F_SEAL_FUTURE_WRITE) == 0)
            return error_set(err, -EPROTO,
                             "the peer passed huge pages in which it could still punch holes");
    } else if ((uint64_t)st.st_blocks <
               bytes / 512) { /* it would be allocated here, as much as he likes to announce */
        return error_set(
            err, -EPROTO,
            "the shared memory that the peer passed has no memory behind it (fallocate)");
    }
    base = segment_map_file(bytes, PROT_READ | (writable ? PROT_WRITE : 0), fd);
    if (base == MAP_FAILED) {
        rc = errno == EPERM || errno == EACCES
                 ? -EPROTO
                 : -errno; /* he has sealed it against what he offers */
        error_note(err, "the peer's shared memory of %zu bytes cannot be mapped: %s%s", bytes,
                   strerror(errno),
                   errno == ENOMEM ? " (too many mappings? see /proc/sys/vm/max_map_count)" : "");
        return rc;
    }
    s->base = base;
    s->bytes = bytes;
    return 0;
}

void segment_unmap(struct segment *s)
{
    if (s->base != NULL)
        munmap(s->base, s->bytes);
    s->base = NULL;
}

int segment_query(struct error *err)
{
    struct segment s = {NULL, 0};
    int fd = -1, rc = segment_make(1, false, false, &s, &fd, err);

    if (rc != 0)
        return rc;
    close(fd);
    segment_unmap(&s);
    error_note(err, "memfd with seals works: processes of this host, in one network namespace");
    return 0;
}
