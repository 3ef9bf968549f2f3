/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resource_exhaustion.c: no memory, no threads, no space on a disk.
 *
 * A heap larger than the memory, or than that of the control group, is -ENOMEM at once, with an error
 * message that has the numbers; there is no SIGBUS, and the kernel kills nothing. Without a thread, by
 * the limit of a user or of a control group, rinit fails and names the limits; when the limit is
 * lifted, rinit works in the same process. A small /dev/shm, a memlock of 0 and a disk full of logs,
 * counters and traces limit nothing.
 */
#include "resource_limits.h"

#include <fcntl.h>
#include <grp.h>
#include <rinfo.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define GIB ((uint64_t)1 << 30)

static uint64_t memory_available(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL &&
           sscanf(line, "MemAvailable: %llu", &kib) != 1)
        ;
    if (f != NULL)
        fclose(f);
    return (uint64_t)kib * 1024;
}

/* ---- memory ---- */

static int too_large(int rank, struct board *board, const void *arguments)
{
    uint64_t there = memory_available(),
             sizes[] = {there + there / 2, 4 * there, UINT64_C(1) << 45};
    rpipe_op_t op;
    size_t i;
    rch_t ch;
    int rc;

    (void)rank;
    (void)board;
    (void)arguments;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    for (op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            rpipe_config_t cfg =
                channel_config(op, 0, op == RPIPE_GET, sizes[i]); /* the end that owns the heap */

            cfg.unit_bytes = 1 << 16;
            rc = rpipe(&ch, &cfg);
            EXPECT(rc == -ENOMEM, "a heap of %llu MiB: %d (%s)",
                   (unsigned long long)(sizes[i] >> 20), rc, rinfo_strerror(rc));
            EXPECT(strstr(rerror(NULL), "MiB") != NULL && strstr(rerror(NULL), "available") != NULL,
                   "the error message: %s", rerror(NULL));
        }
    }
    printf("%s\n", rerror(NULL));
    CHECK(NULL, rexit() == 0);
    return check_failures > 0 ? 1 : 0;
}

/* ---- the memory of a control group: the kernel kills a process that exceeds it ---- */

#define GROUP_MIB 96

static bool write_file(const char *directory, const char *name, const char *text)
{
    char path[512];
    bool good;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    f = fopen(path, "we");
    if (f == NULL)
        return false;
    good = fputs(text, f) >= 0;
    return fclose(f) == 0 && good;
}

/* Where a group below that of this process would be, for this controller; true: version 1, where each has a tree of its own. */
static bool name_group(const char *controller, char name[400])
{
    char line[256], own[256] = "", key[32], tree[32] = "";
    FILE *f = fopen("/proc/self/cgroup", "re");
    bool first = false;

    snprintf(key, sizeof(key), ":%s:", controller);
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strstr(line, key) != NULL) {
            first = true;
            snprintf(own, sizeof(own), "%s", strstr(line, key) + strlen(key));
        } else if (!first && strncmp(line, "0::", 3) == 0) {
            snprintf(own, sizeof(own), "%s", line + 3);
        }
    }
    if (f != NULL)
        fclose(f);
    if (first)
        snprintf(tree, sizeof(tree), "/%s", controller);
    snprintf(name, 400, "/sys/fs/cgroup%s%s/rmalloc-%d", tree, strcmp(own, "/") == 0 ? "" : own,
             (int)getpid());
    return first;
}

/* A group with a limit below that of this process, and one without below that; or false, where that may not be. */
static bool make_groups(char outer[400], char inner[420])
{
    bool first = name_group("memory", outer);
    char text[32];

    snprintf(inner, 420, "%s/inner", outer);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)GROUP_MIB << 20);
    if (mkdir(outer, 0755) != 0)
        return false;
    if (!first)
        (void)write_file(outer, "cgroup.subtree_control", "+memory");
    if (write_file(outer, first ? "memory.limit_in_bytes" : "memory.max", text) &&
        mkdir(inner, 0755) == 0)
        return true;
    rmdir(outer);
    return false;
}

static int in_group(int rank, struct board *board, const void *arguments)
{
    const char *call;
    char text[32];
    rch_t of;
    int rc;

    snprintf(text, sizeof(text), "%d", (int)getpid());
    if (!write_file(arguments, "cgroup.procs", text))
        return LEFT_OUT;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    rc = one_message(RPIPE_PUT, (uint64_t)4 * GROUP_MIB << 20, 5000, &call, &of);
    rank_returned(board, rank, rc, of);
    EXPECT(rc == -ENOMEM && strstr(rerror(NULL), "control group") != NULL, "%s: %d: %s", call, rc,
           rerror(NULL));
    rc = one_message(RPIPE_GET, 16 << 20, 12 << 20, &call, &of);
    EXPECT(rc == 0, "%s: %d: %s", call, rc, rerror(of));
    CHECK(NULL, rexit() == 0);
    return check_failures > 0 ? 1 : 0;
}

static void test_group(void)
{
    char outer[400], inner[420];

    if (!make_groups(outer, inner)) {
        printf("control groups: left out, none can be made here\n");
        return;
    }
    run_alone(in_group, inner, "control group", "none can be entered here");
    rmdir(inner);
    rmdir(outer);
}

/* ---- limits that are none: a /dev/shm of 64 MB, no memory that may be locked, no space for the log ---- */

#define SHM_MOUNT_MIB 64

static int small_places(int rank, struct board *board, const void *arguments)
{
    const char *call;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC), rc;
    rch_t of;

    (void)arguments;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64m") != 0)
        printf("/dev/shm of %d MiB: left out, nothing can be mounted here\n", SHM_MOUNT_MIB);
    set_limit(RLIMIT_MEMLOCK, 0);
    CHECK(NULL, full >= 0 && dup2(full, 2) == 2);
    setenv("RPIPE_LOG", "debug", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    rc = one_message(RPIPE_PUT, 4 * (uint64_t)SHM_MOUNT_MIB << 20, 2 * (size_t)SHM_MOUNT_MIB << 20,
                     &call, &of);
    EXPECT(rc == 0, "%s: %d: %s", call, rc, rerror(of));
    rank_returned(board, rank, rc, of);
    CHECK(NULL, rexit() == 0);
    return check_failures > 0 ? 1 : 0;
}

static void test_small_places(void)
{
    if (memory_available() < 2 * GIB)
        printf("/dev/shm of %d MiB: left out, this machine has too little memory\n", SHM_MOUNT_MIB);
    else
        run_alone(small_places, NULL, "no space in /dev/shm and for the log", "");
}

/* ---- threads that may not be had: they count as processes ---- */

#define UNPRIVILEGED 65534

/* rinit needs one. It reports what is missing, and when it is there the same process can join. */
static void join_twice(struct board *board, bool (*lift)(void *), void *argument)
{
    const char *call;
    rch_t of;
    int rc = rinit(NULL, NULL);

    rank_returned(board, 0, rc, NULL);
    EXPECT(rc == -ENOMEM && strstr(rerror(NULL), "ulimit -u") != NULL &&
               strstr(rerror(NULL), "pids.max") != NULL,
           "rinit without a thread: %d (%s): %s", rc, rinfo_strerror(rc), rerror(NULL));
    CHECK(NULL, lift(argument));
    if (rc != 0)
        CHECK(NULL, rinit(NULL, NULL) == 0);
    rc = one_message(RPIPE_PUT, 1 << 20, 5000, &call, &of);
    EXPECT(rc == 0, "%s: %d: %s", call, rc, rerror(of));
    CHECK(NULL, rexit() == 0);
}

static bool lift_nproc(void *unused)
{
    (void)unused;
    set_limit(RLIMIT_NPROC, RLIM_INFINITY);
    return true;
}

/* Root may always: as an unprivileged user, then. */
static int few_of_user(int rank, struct board *board, const void *arguments)
{
    const char *modules = getenv("RPIPE_MODULE_PATH");

    (void)rank;
    (void)arguments;
    if (geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setgid(UNPRIVILEGED) != 0 || setuid(UNPRIVILEGED) != 0))
        return LEFT_OUT;
    if (modules != NULL && access(modules, R_OK | X_OK) != 0)
        return LEFT_OUT;
    (void)prctl(PR_SET_DUMPABLE, 1); /* the leak checker reads its own process */
    set_limit(RLIMIT_NPROC, 1);
    join_twice(board, lift_nproc, NULL);
    return check_failures > 0 ? 1 : 0;
}

static bool lift_pids(void *group) { return write_file(group, "pids.max", "max"); }

static int few_in_group(int rank, struct board *board, const void *arguments)
{
    char text[32], group[400];

    (void)rank;
    snprintf(text, sizeof(text), "%d", (int)getpid());
    snprintf(group, sizeof(group), "%s", (const char *)arguments);
    if (!write_file(group, "cgroup.procs", text) || !write_file(group, "pids.max", "1"))
        return LEFT_OUT;
    join_twice(board, lift_pids, group);
    return check_failures > 0 ? 1 : 0;
}

static void test_threads(void)
{
    char group[400];

    run_alone(few_of_user, NULL, "RLIMIT_NPROC 1", "an unprivileged user cannot run this here");
    (void)name_group("pids", group);
    if (mkdir(group, 0755) != 0) {
        printf("pids.max: left out, no control group can be made here\n");
        return;
    }
    run_alone(few_in_group, group, "pids.max 1", "this group has none, or cannot be entered");
    rmdir(group);
}

/* ---- a disk that is full: for counters and traces ---- */

static char disk[] = "/tmp/rmalloc-limits.XXXXXX";

static void fill_disk(void)
{
    char name[64], block[4096] = "";
    size_t bytes;
    int fd;

    snprintf(name, sizeof(name), "%s/full", disk);
    fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(NULL, fd >= 0);
    for (bytes = sizeof(block); bytes > 0;) /* the last byte, too */
        if (write(fd, block, bytes) < 0)
            bytes /= 2;
    CHECK(NULL, errno == ENOSPC);
    close(fd);
}

static bool is_printed(int fd, const char *what, const char *error)
{
    char text[8192], *line;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    CHECK(NULL, n >= 0);
    text[n] = '\0';
    line = strstr(text, what);
    if (line != NULL)
        line[strcspn(line, "\n")] = '\0';
    if (line == NULL || strstr(line, error) == NULL)
        printf("output: %s\n", text);
    return line != NULL && strstr(line, error) != NULL;
}

/* arguments: whether it is full from the beginning, or only when rexit writes what it has */
static int full_disk(int rank, struct board *board, const void *arguments)
{
    const bool early = *(const bool *)arguments;
    int output = memfd_create("output", MFD_CLOEXEC), fd, rc;
    const char *call;
    FILE *nowhere;
    char name[64];
    rch_t of;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", disk, "tmpfs", 0, "size=512k") != 0)
        return LEFT_OUT;
    CHECK(NULL, output >= 0 && dup2(output, 2) == 2);
    setenv("RPIPE_LOG", "warn", 1);
    snprintf(name, sizeof(name), "%s/stats", disk);
    setenv("RPIPE_STATS", name, 1);
    snprintf(name, sizeof(name), "%s/trace", disk);
    setenv("RPIPE_TRACE", name, 1);
    setenv("RPIPE_TRACE_EVENTS", "64", 1);
    if (early)
        fill_disk();
    CHECK(NULL, rinit(NULL, NULL) == 0);
    rc = one_message(RPIPE_PUT, 1 << 20, 5000, &call, &of);
    EXPECT(rc == 0, "%s: %d: %s", call, rc, rerror(of));
    rank_returned(board, rank, rc, of);
    if (!early)
        fill_disk();
    CHECK(NULL, rexit() == 0);
    EXPECT(is_printed(output, "RPIPE_TRACE: ", strerror(ENOSPC)),
           "the trace: no report that the disk is full");
    EXPECT(is_printed(output, "RPIPE_STATS: ", strerror(ENOSPC)),
           "the counters: no report that the disk is full");
    EXPECT(access(name, F_OK) != 0, "half a trace is left");
    if (!early) { /* the records are there still */
        snprintf(name, sizeof(name), "%s/trace.raw", disk);
        fd = open(name, O_RDONLY | O_CLOEXEC);
        nowhere = fopen("/dev/null", "we");
        EXPECT(fd >= 0 && nowhere != NULL && rinfo_trace_json(fd, nowhere) == 0, "the records: %s",
               rerror(NULL));
    }
    return check_failures > 0 ? 1 : 0;
}

static void test_disk(void)
{
    bool early = true;

    CHECK(NULL, mkdtemp(disk) != NULL);
    for (int i = 0; i < 2; i++, early = !early)
        run_alone(full_disk, &early, "a full disk", "nothing can be mounted here");
    rmdir(disk);
}

int main(int argc, char **argv)
{
    (void)argc;
    setenv("RPIPE_LOG", "error", 0);
    run_alone(too_large, NULL, "heaps beyond the memory", "");
    test_group();
    test_small_places();
    test_threads();
    test_disk();
    return check_report(argv[0]);
}
