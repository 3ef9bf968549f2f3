/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resource_limits.c: limits of descriptors, address space and size of files.
 *
 * Under every limit of descriptors (RLIMIT_NOFILE), address space (RLIMIT_AS) and size of files
 * (RLIMIT_FSIZE) a program either works or gets an error that names the call and the reason: no
 * crash, no hang, no undocumented error code. Nothing is lost: when the limit is lifted, a call that
 * can be repeated works. A limit at one of two ranks is an error at both.
 */
#include "resource_limits.h"
#include "test/lib/descriptor_limit.h"

#include <fcntl.h>
#include <rinfo.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true /* which takes terabytes of address space */
#else
#define SANITIZED false
#endif

struct limit {
    __rlimit_resource_t resource;
    rlim_t value;
    bool late; /* after rinit */
};

static int open_fds(void)
{
    int fd, n = 0;

    for (fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static bool is_resource_error(int rc)
{
    return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ||
           (rc == -ENOTSUP && /* the backend cannot even be loaded */
            (strstr(rerror(NULL), strerror(EMFILE)) != NULL ||
             strstr(rerror(NULL), strerror(ENOMEM)) != NULL || /* musl */
             strstr(rerror(NULL), "failed to map segment") != NULL));
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
        EXPECT(is_resource_error(rc), "%s: %d (%s): %s", call, rc, rinfo_strerror(rc), rerror(of));
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
        if (getenv("FAULTS_PRINT") != NULL)
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

static int limit_at_one_rank(int rank, struct board *board, const void *arguments)
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

static void test_one_rank(void)
{
    struct job job;
    int spare, rank;

    for (spare = 0; spare < 8; spare++) {
        job_prepare(&job, 2);
        job_start(&job, limit_at_one_rank, &spare);
        for (rank = 0; rank < 2; rank++) {
            const struct board_rank *at = &job.board->rank[rank];

            EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
                   "rank %d, %d descriptors: status 0x%x", rank, spare, job.status[rank]);
            EXPECT(at->code == (spare == 0 ? -EMFILE : 0), "rank %d, %d descriptors: %d (%s): %s",
                   rank, spare, at->code, rinfo_strerror(at->code), at->error_message);
            if (getenv("FAULTS_PRINT") != NULL)
                printf("%d descriptors at rank 1, rank %d: %d, %s\n", spare, rank, at->code,
                       at->error_message);
        }
        job_finish(&job);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    setenv("RPIPE_LOG", "error", 0);
    sweep(RLIMIT_NOFILE, "RLIMIT_NOFILE, open ones +", 0, 24, 1, false);
    sweep(RLIMIT_NOFILE, "RLIMIT_NOFILE, open ones +", 0, 12, 1, true);
    sweep(RLIMIT_FSIZE, "RLIMIT_FSIZE", 0, 12 << 20, 1 << 20, false);
    test_one_rank();
    if (!SANITIZED) {
        sweep(RLIMIT_AS, "RLIMIT_AS", 4 << 20, 64 << 20, 1 << 20, false);
        sweep(RLIMIT_AS, "RLIMIT_AS", 4 << 20, 64 << 20, 4 << 20, true);
    }
    return check_report(argv[0]);
}
