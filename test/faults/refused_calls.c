/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refused_calls.c: what a sandbox refuses is no death of a peer. Jobs of two ranks, of which some may not call gettid(2), may not
 * write(2) to anything but standard output and error (seccomp(2)), or have no /proc (mount_namespaces(7)).
 *
 * With a filter everything works. Without /proc no rank can find out whether another one is on its host: no memory is shared, and
 * the error message names /proc; the control network works, over TCP.
 */
#include "test/lib/job.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define MESSAGES 20
#define LATE_US 100000 /* long enough for the liveness word to be checked */
#define NO_NAMESPACES 77

enum refusal { GETTID, WRITE, PROC };
static const char *const refusals[] = {"gettid", "write to other than fd 1 and 2", "/proc"};

struct sandbox {
    enum refusal refusal;
    bool both; /* ranks; else rank 1 alone */
};

static void refuse_call(int call, uint32_t from_fd)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, from_fd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

    CHECK(NULL, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(NULL, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void enter(enum refusal refusal)
{
    switch (refusal) {
    case GETTID:
        refuse_call(SYS_gettid, 0);
        CHECK(NULL, syscall(SYS_gettid) == -1 && errno == EPERM);
        break;
    case WRITE:
        refuse_call(SYS_write, 3);
        break;
    case PROC:
        if ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", "/proc", "tmpfs", 0, NULL) != 0)
            _exit(NO_NAMESPACES);
        break;
    }
}

static void send_messages(rch_t ch, uint64_t key)
{
    for (uint64_t i = 0; i < MESSAGES; i++) {
        raddr_t d = rmalloc(ch, i * 100);

        CHECK(ch, d != ADDR_NULL);
        pattern_fill(rmem(ch, d), i * 100, key + i);
        CHECK_OK(ch, rwrite(ch, d));
        if (i == 0)
            backoff_us(LATE_US);
    }
}

static void receive_messages(rch_t ch, uint64_t key)
{
    for (uint64_t i = 0; i < MESSAGES; i++) {
        size_t size;
        raddr_t d;

        CHECK_OK(ch, rread(ch, &d, &size));
        CHECK(ch, size == i * 100 && pattern_same(rmem(ch, d), size, key + i));
        CHECK_OK(ch, rfree(ch, d));
    }
}

static void exchange(int rank, rpipe_op_t op)
{
    for (int writer = 0; writer < 2; writer++) {
        rpipe_config_t cfg = channel_config(op, 1 - rank, writer == rank, 1 << 16);
        rch_t ch;

        CHECK_OK(NULL, rpipe(&ch, &cfg));
        if (writer == rank)
            send_messages(ch, (uint64_t)writer);
        else
            receive_messages(ch, (uint64_t)writer);
        CHECK_OK(ch, rclose(ch));
    }
}

static int row_of_nothing(const rinfo_row_t *row, void *argument)
{
    (void)row, (void)argument;
    return 0;
}

static void refused_for_proc(int rank, bool has_proc)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, 1 - rank, rank == 0, 1 << 16);
    rch_t ch;
    int rc;

    cfg.backend = "shm";
    rc = rpipe(&ch, &cfg);
    if (rc == 0)
        rc = rwait(ch);
    CHECK(NULL, rc == -ENOTSUP);
    CHECK_ERROR(NULL, "/proc");
    printf("rank %d: %s\n", rank, rerror(NULL));
    if (has_proc)
        return;
    CHECK(NULL, rinfo_observe(getppid(), row_of_nothing, NULL) < 0);
    CHECK_ERROR(NULL, "/proc is not readable here");
}

static int in_sandbox(int rank, struct board *board, const void *arguments)
{
    const struct sandbox *s = arguments;
    const bool inside = s->both || rank == 1;
    int all[2];

    (void)board;
    setenv("RPIPE_TIMEOUT_MS", "5000", 1);
    if (inside)
        enter(s->refusal);
    CHECK_OK(NULL, rinit(NULL, NULL));
    CHECK_OK(NULL, network_allgather(&rank, sizeof(rank), all));
    CHECK(NULL, all[0] == 0 && all[1] == 1);
    if (s->refusal == PROC) {
        refused_for_proc(rank, !inside);
    } else {
        exchange(rank, RPIPE_PUT);
        exchange(rank, RPIPE_GET);
    }
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(NULL, rexit());
    if (s->refusal == PROC) { /* LeakSanitizer needs /proc when the process ends */
        fflush(stdout);
        _exit(0);
    }
    return 0;
}

static void test_sandbox(enum refusal refusal, bool both)
{
    const struct sandbox s = {refusal, both};
    struct job job;

    printf("%s is refused to %s\n", refusals[refusal], both ? "both ranks" : "rank 1");
    job_prepare(&job, 2);
    job_start(&job, in_sandbox, &s);
    for (int rank = 1; rank >= 0; rank--) {
        bool ended = job_ended(&job, rank);

        if (rank == 1 && ended && job_status_is(&job, 1, NO_NAMESPACES)) {
            printf("SKIPPED, namespaces cannot be made here\n");
            break;
        }
        EXPECT(ended && job_status_is(&job, rank, 0), "%s, %s: rank %d ended with status 0x%x",
               refusals[refusal], both ? "both" : "one", rank, job.status[rank]);
    }
    job_finish(&job);
}

int main(int argc, char **argv)
{
    (void)argc;
    for (enum refusal r = GETTID; r <= PROC; r++) {
        test_sandbox(r, false);
        test_sandbox(r, true);
    }
    return check_report(argv[0]);
}
