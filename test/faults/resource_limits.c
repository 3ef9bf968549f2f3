/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resource_limits.c: memory, descriptors and address space that are not there.
 *
 * A heap larger than the memory is -ENOMEM at once and an error message with the numbers, and neither SIGBUS nor the
 * kernel's killer. Under every limit of descriptors (RLIMIT_NOFILE), address space (RLIMIT_AS) and size of files
 * (RLIMIT_FSIZE) a program either works or gets an error that names the call and the reason: no crash, no hang, no result that is
 * no error of that call, and nothing is lost: when the limit is lifted, what can be repeated works. So it is with the number of
 * threads, of a user or of a control group. A small /dev/shm, a memlock of nothing and a disk that is full of logs, counters
 * and traces limit nothing.
 */
#include "test/lib/job.h"
#include <rpipe.h>

#include "test/lib/descriptor_limit.h"

#include <rinfo.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true /* which takes terabytes of address space */
#else
#define SANITIZED false
#endif

#ifndef __GLIBC__
typedef int __rlimit_resource_t; /* NOLINT(bugprone-reserved-identifier): what glibc calls it */
#endif

#define GIB ((uint64_t)1 << 30)

struct limit {
    __rlimit_resource_t resource;
    rlim_t value;
    bool late; /* after rinit */
};

static void set_limit(__rlimit_resource_t resource, rlim_t value)
{
    struct rlimit l;

    CHECK(NULL, getrlimit(resource, &l) == 0);
    l.rlim_cur = value < l.rlim_max ? value : l.rlim_max;
    CHECK(NULL, setrlimit(resource, &l) == 0);
}

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

static int open_fds(void)
{
    int fd, n = 0;

    for (fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* One message through a channel to oneself; 0, or how the first call that failed did. */
static int one_message(rpipe_op_t op, uint64_t heap, size_t bytes, const char **call, rch_t *of)
{
    static uint32_t ctx;
    rpipe_config_t w = channel_config(op, 0, true, heap), r = channel_config(op, 0, false, heap);
    static rch_t writer, reader;
    raddr_t d;
    int rc;

    w.timeout_ms = r.timeout_ms = 2000;
    w.context = r.context = ctx++;
    *of = NULL;
    *call = "rpipe";
    rc = rpipe(&writer, &w);
    if (rc != 0)
        return rc;
    rc = rpipe(&reader, &r);
    if (rc != 0) {
        CHECK(writer, rclose(writer) == 0);
        return rc;
    }
    *call = "rwait";
    rc = rwait(*of = writer);
    if (rc == 0)
        rc = rwait(*of = reader);
    *call = "rmalloc";
    if (rc == 0 && (d = rmalloc(*of = writer, bytes)) == ADDR_NULL)
        rc = -errno;
    if (rc == 0) {
        pattern_fill(rmem(writer, d), bytes, 7);
        *call = "rwrite";
        rc = rwrite(*of = writer, d);
    }
    *call = "rread";
    if (rc == 0)
        rc = rread(*of = reader, &d, NULL);
    if (rc == 0)
        CHECK(reader, pattern_same(rmem(reader, d), bytes, 7));
    *call = "rfd";
    if (rc == 0) {
        rc = rfd(*of = reader);
        rc = rc >= 0 ? 0 : rc;
    }
    CHECK(writer, rclose(writer) == 0 && rclose(reader) == 0);
    return rc;
}

static bool is_want(int rc)
{
    return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ||
           (rc == -ENOTSUP &&
            strstr(rerror(NULL), strerror(EMFILE)) != NULL); /* the backend cannot even be loaded */
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
    return check_failures;
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
        return 77;
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
    struct job job;

    if (!make_groups(outer, inner)) {
        printf("control groups: left out, none can be made here\n");
        return;
    }
    job_prepare(&job, 1);
    job_start(&job, in_group, inner);
    if (job_ended(&job, 0) && job_status_is(&job, 0, 77))
        printf("control groups: left out, none can be entered here\n");
    else
        EXPECT(job_status_is(&job, 0, 0), "in a control group of %d MiB: status 0x%x", GROUP_MIB,
               job.status[0]);
    printf("%s\n", job.board->rank[0].error_message);
    job_finish(&job);
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
    struct job job;

    if (memory_available() < 2 * GIB) {
        printf("/dev/shm of %d MiB: left out, this machine has too little memory\n", SHM_MOUNT_MIB);
        return;
    }
    job_prepare(&job, 1);
    job_start(&job, small_places, NULL);
    EXPECT(job_ended(&job, 0) && job_status_is(&job, 0, 0),
           "no space in /dev/shm and for the log: status 0x%x: %s", job.status[0],
           job.board->rank[0].error_message);
    job_finish(&job);
}

/* ---- threads that may not be had: they count as processes ---- */

#define NOBODY 65534

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
    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        return 77;
    if (modules != NULL && access(modules, R_OK | X_OK) != 0)
        return 77;
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
        return 77;
    join_twice(board, lift_pids, group);
    return check_failures > 0 ? 1 : 0;
}

static void test_threads(void)
{
    char group[400];
    struct job job;

    job_prepare(&job, 1);
    job_start(&job, few_of_user, NULL);
    if (job_ended(&job, 0) && job_status_is(&job, 0, 77))
        printf("RLIMIT_NPROC: left out, an unprivileged user cannot run this here\n");
    else
        EXPECT(job_status_is(&job, 0, 0), "RLIMIT_NPROC 1: status 0x%x", job.status[0]);
    printf("%s\n", job.board->rank[0].error_message);
    job_finish(&job);
    (void)name_group("pids", group);
    if (mkdir(group, 0755) != 0) {
        printf("pids.max: left out, no control group can be made here\n");
        return;
    }
    job_prepare(&job, 1);
    job_start(&job, few_in_group, group);
    if (job_ended(&job, 0) && job_status_is(&job, 0, 77))
        printf("pids.max: left out, this group has none, or cannot be entered\n");
    else
        EXPECT(job_status_is(&job, 0, 0), "pids.max 1: status 0x%x: %s", job.status[0],
               job.board->rank[0].error_message);
    job_finish(&job);
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

static bool is_said(int fd, const char *what, const char *error)
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
    int said = memfd_create("output", MFD_CLOEXEC), fd, rc;
    const char *call;
    FILE *nowhere;
    char name[64];
    rch_t of;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", disk, "tmpfs", 0, "size=512k") != 0)
        return 77;
    CHECK(NULL, said >= 0 && dup2(said, 2) == 2);
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
    EXPECT(is_said(said, "RPIPE_TRACE: ", strerror(ENOSPC)),
           "the trace: no report that the disk is full");
    EXPECT(is_said(said, "RPIPE_STATS: ", strerror(ENOSPC)),
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
    struct job job;

    CHECK(NULL, mkdtemp(disk) != NULL);
    for (int i = 0; i < 2; i++, early = !early) {
        job_prepare(&job, 1);
        job_start(&job, full_disk, &early);
        if (job_ended(&job, 0) && job_status_is(&job, 0, 77))
            printf("a full disk: left out, nothing can be mounted here\n");
        else
            EXPECT(job_status_is(&job, 0, 0), "a full disk: status 0x%x: %s", job.status[0],
                   job.board->rank[0].error_message);
        job_finish(&job);
    }
    rmdir(disk);
}

/* ---- a limit ---- */

static int under_limit(int rank, struct board *board, const void *arguments)
{
    const struct limit *l = arguments;
    const char *call = "rinit";
    rlim_t value = l->value;
    rch_t of = NULL;
    int rc, again, before = open_fds();

    setenv("RPIPE_TIMEOUT_MS", "3000", 1);
    if (l->resource == RLIMIT_NOFILE)
        value += (rlim_t)before;
    if (!l->late)
        set_limit(l->resource, value);
    rc = rinit(NULL, NULL);
    if (l->late) {
        CHECK(NULL, rc == 0);
        set_limit(l->resource,
                  l->resource == RLIMIT_NOFILE ? l->value + (rlim_t)open_fds() : l->value);
    }
    if (rc == 0)
        rc = one_message(RPIPE_PUT, 1 << 20, 5000, &call, &of);
    if (rc == 0)
        rc = one_message(RPIPE_GET, 8 << 20, 5 << 20, &call, &of);
    set_limit(l->resource, RLIM_INFINITY);
    rank_returned(board, rank, rc, of);
    if (rc != 0) {
        EXPECT(is_want(rc), "%s: %d (%s): %s", call, rc, rinfo_strerror(rc), rerror(of));
        EXPECT(strlen(rerror(of)) > 12, "no error message: %s", rerror(of));
    }
    if (strcmp(call, "rinit") != 0) { /* what has been refused can be had later */
        again = one_message(RPIPE_PUT, 1 << 20, 5000, &call, &of);
        EXPECT(again == 0, "once the limit is lifted, after %d: %s: %d (%s): %s", rc, call, again,
               rinfo_strerror(again), rerror(of));
        EXPECT(rexit() == 0, "%s", rerror(NULL));
    } else {
        EXPECT(open_fds() <= before + 1, "rinit failed and leaves %d descriptors",
               open_fds() - before); /* +1: syslog and the like */
    }
    fflush(stdout);
    return check_failures > 0 ? 1 : 0;
}

static int try_limit(const struct limit *l, const char *what)
{
    struct job job;
    int code = 1;

    job_prepare(&job, 1);
    job_start(&job, under_limit, l);
    if (job_ended(&job, 0)) {
        EXPECT(job_status_is(&job, 0, 0), "%s %llu%s: status 0x%x: %s", what,
               (unsigned long long)l->value, l->late ? ", set after rinit" : "", job.status[0],
               job.board->rank[0].error_message);
        code = atomic_load(&job.board->rank[0].code);
        if (getenv("FAULTS_TELL") != NULL)
            printf("%s %llu%s: %d, %s\n", what, (unsigned long long)l->value,
                   l->late ? " late" : "", code, job.board->rank[0].error_message);
    }
    job_finish(&job);
    return code;
}

static void sweep(__rlimit_resource_t resource, const char *what, uint64_t from, uint64_t to,
                  uint64_t step, bool late)
{
    struct limit l = {.resource = resource, .late = late};
    int good = 0, refused = 0;

    for (l.value = from; l.value <= to; l.value += step) {
        if (try_limit(&l, what) == 0)
            good++;
        else
            refused++;
    }
    printf("%s from %llu to %llu%s: %d times refused with an error message, %d times good\n", what,
           (unsigned long long)from, (unsigned long long)to, late ? ", set after rinit" : "",
           refused, good);
    EXPECT(refused > 0 && good > 0, "the range of %s shows nothing", what);
}

/* ---- a limit at one of two ranks: the other is notified ---- */

static int poor_and_rich(int rank, struct board *board, const void *arguments)
{
    const int spare = *(const int *)arguments;
    rpipe_config_t cfg = channel_config(RPIPE_PUT, 1 - rank, rank == 1, 1 << 20);
    rch_t ch = NULL;
    raddr_t d;
    int rc;

    setenv("RPIPE_TIMEOUT_MS", "3000", 1);
    cfg.timeout_ms = 3000;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    CHECK(NULL,
          network_barrier() == 0 && network_barrier() == 0); /* after two, both connections stand */
    cfg.context = 1;
    CHECK(ch, rpipe(&ch, &cfg) == 0 && rwait(ch) == 0); /* and the backend is loaded */
    cfg.context = 0;
    CHECK(NULL, network_barrier() == 0);
    if (rank == 1)
        CHECK(NULL, descriptors_leave(spare));
    CHECK(NULL, network_barrier() == 0);
    rc = rpipe(&ch, &cfg);
    if (rc == 0) {
        rc = rwait(ch);
        if (rc == 0 && rank == 1)
            rc = (d = rmalloc(ch, 3000)) != ADDR_NULL ? rwrite(ch, d) : -errno;
        else if (rc == 0)
            rc = rread(ch, &d, NULL);
        rank_returned(board, rank, rc, ch);
        CHECK(ch, rclose(ch) == 0);
    } else {
        rank_returned(board, rank, rc, NULL);
    }
    if (rank == 1)
        set_limit(RLIMIT_NOFILE, RLIM_INFINITY);
    (void)rexit();
    return 0;
}

static void test_poor(void)
{
    struct job job;
    int spare, rank;

    for (spare = 0; spare < 8; spare++) {
        job_prepare(&job, 2);
        job_start(&job, poor_and_rich, &spare);
        for (rank = 0; rank < 2; rank++) {
            const struct board_rank *at = &job.board->rank[rank];

            EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
                   "rank %d, %d descriptors: status 0x%x", rank, spare, job.status[rank]);
            EXPECT(at->code == (spare == 0 ? -EMFILE : 0), "rank %d, %d descriptors: %d (%s): %s",
                   rank, spare, at->code, rinfo_strerror(at->code), at->error_message);
            if (getenv("FAULTS_TELL") != NULL)
                printf("%d descriptors at rank 1, rank %d: %d, %s\n", spare, rank, at->code,
                       at->error_message);
        }
        job_finish(&job);
    }
}

int main(int argc, char **argv)
{
    struct job job;

    (void)argc;
    setenv("RPIPE_LOG", "error", 0);
    job_prepare(&job, 1);
    job_start(&job, too_large, NULL);
    EXPECT(job_ended(&job, 0) && job_status_is(&job, 0, 0), "heaps beyond the memory: status 0x%x",
           job.status[0]);
    job_finish(&job);
    test_group();
    test_small_places();
    test_threads();
    test_disk();
    sweep(RLIMIT_NOFILE, "RLIMIT_NOFILE, open ones +", 0, 24, 1, false);
    sweep(RLIMIT_NOFILE, "RLIMIT_NOFILE, open ones +", 0, 12, 1, true);
    sweep(RLIMIT_FSIZE, "RLIMIT_FSIZE", 0, 12 << 20, 1 << 20, false);
    test_poor();
    if (!SANITIZED) {
        sweep(RLIMIT_AS, "RLIMIT_AS", 4 << 20, 64 << 20, 1 << 20, false);
        sweep(RLIMIT_AS, "RLIMIT_AS", 4 << 20, 64 << 20, 4 << 20, true);
    }
    return check_report(argv[0]);
}
