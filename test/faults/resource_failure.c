/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resource_failure.c: the n-th call that asks the system for something fails, for many n.
 *
 * What fails is in failing_calls.h. A process joins a job by itself, sends messages of each kind through pipes
 * to itself, and grows a heap; one call on the way fails, or all from one on. Whatever fails, a call of the library reports it, with a
 * code and an error message; nothing crashes, nothing hangs; and when there is enough again, everything works.
 *
 *     resource_failure [PLACES | all]     so many of the places, evenly; the default is 60
 */
#include "test/lib/job.h"
#include "failing_calls.h"
#include <rinfo.h>
#include <rpipe.h>

/* ---- what is done ---- */

static const char *failed_call;
static rch_t failed_at;

static int note(const char *call, rch_t ch, int rc)
{
    if (rc != 0) {
        failed_call = call;
        failed_at = ch;
    }
    return rc;
}

static int one_message(rch_t w, rch_t r, size_t size)
{
    size_t got = 0;
    raddr_t d;
    int rc;

    errno = 0;
    d = rmalloc(w, size);
    if (d == ADDR_NULL)
        return note("rmalloc", w, errno != 0 ? -errno : -1);
    pattern_fill(rmem(w, d), size, size);
    if ((rc = note("rwrite", w, rwrite(w, d))) != 0)
        return rc;
    if ((rc = note("rread", r, rread(r, &d, &got))) != 0)
        return rc;
    CHECK(r, got == size && pattern_same(rmem(r, d), size, size));
    return note("rfree", r, rfree(r, d));
}

/* A window of the library's memory, or of the program's. */
static int one_window(rch_t w, rch_t r, bool own)
{
    static char program[4096], from[100];
    rregion_t region = NULL;
    rwindow_t window = NULL;
    rremote_t remote = NULL;
    rwindow_handle_t handle;
    int rc = note("rregion_open", own ? r : NULL,
                  rregion_open(&region, own ? r : NULL, own ? program : NULL, sizeof(program)));

    if (rc == 0)
        rc = note("rwindow_open", r, rwindow_open(&window, r, region, RWINDOW_WRITE, &handle));
    if (rc == 0)
        rc = note("rwindow_attach", w, rwindow_attach(&remote, w, &handle, 0));
    pattern_fill(from, sizeof(from), own);
    if (rc == 0)
        rc = note("rwindow_write", w, rwindow_write(remote, 7, from, sizeof(from), NULL, NULL, 0));
    if (rc == 0)
        CHECK(r, pattern_same((char *)rregion_mem(region) + 7, sizeof(from), own));
    if (remote != NULL)
        CHECK(w, rwindow_detach(remote) == 0);
    if (window != NULL)
        CHECK(NULL, rwindow_close(window) == 0);
    if (region != NULL)
        CHECK(NULL, rregion_close(region) == 0);
    return rc;
}

static int one_pair(rpipe_op_t op, uint32_t ctx)
{
    rpipe_config_t cfg = channel_config(op, 0, true, 4096);
    rch_t w, r;
    int rc;

    cfg.max_heap_bytes = 65536;
    cfg.heuristic = ctx % 2 == 0 ? RMALLOC_NEXT_FIT : RMALLOC_BEST_FIT;
    cfg.mode = ctx % 2 == 0 ? RPIPE_SYNC_BLOCKS : RPIPE_SYNC_TAGS;
    cfg.timeout_ms = 0;
    cfg.context = ctx;
    if ((rc = note("rpipe", NULL, rpipe(&w, &cfg))) != 0)
        return rc;
    cfg.role = cfg.role == RPIPE_WRITER ? RPIPE_READER : RPIPE_WRITER;
    if ((rc = note("rpipe", NULL, rpipe(&r, &cfg))) != 0) {
        CHECK(w, rclose(w) == 0);
        return rc;
    }
    rc = one_message(w, r, 20);
    if (rc == 0)
        rc = one_message(w, r, 3000);
    if (rc == 0)
        rc = one_message(w, r, 20000);
    if (rc == 0)
        rc = one_window(w, r, false);
    if (rc == 0)
        rc = one_window(w, r, true);
    if (rc == 0 && (rc = rfd(r)) >= 0)
        rc = 0;
    else if (rc < 0 && failed_call == NULL)
        (void)note("rfd", r, rc);
    if (rc != 0) { /* both ends close all the same; the error of the call is not lost by that */
        char message[400];

        snprintf(message, sizeof(message), "%s", rerror(failed_at));
        EXPECT(strlen(message) > 12 && strcmp(message, "no error") != 0,
               "%s returned %d and no error message: %s", failed_call, rc, message);
    }
    CHECK(w, rclose(w) == 0 && rclose(r) == 0);
    return rc;
}

static int all_of_it(uint32_t ctx)
{
    int rc = one_pair(RPIPE_PUT, ctx);

    return rc != 0 ? rc : one_pair(RPIPE_GET, ctx + 1);
}

static int without_resources(int rank, struct board *board, const void *arguments)
{
    const struct place *p = arguments;
    const char *message;
    int rc;

    (void)rank;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_TIMEOUT_MS", "1500", 1);
    unsetenv("RPIPE_RANK");
    failing_arm(*p);
    rc = note("rinit", NULL, rinit(NULL, NULL));
    if (rc == 0)
        rc = all_of_it(0);
    board->rank[0].number = (uint64_t)failing_disarm();
    message = failed_call == NULL || strcmp(failed_call, "rinit") == 0 ||
                      strcmp(failed_call, "rpipe") == 0
                  ? rerror(NULL)
                  : "";
    if (rc != 0 && getenv("FAULTS_PRINT") != NULL)
        printf("%lld %s: %s gave %d (%s): %s\n", (long long)p->from, failing_name(), failed_call,
               rc, rinfo_strerror(rc), *message != '\0' ? message : rerror(failed_at));
    if (rc != 0) {
        EXPECT(failing_is_expected(rc), "%s, when %s fails: %d (%s): %s", failed_call,
               failing_name(), rc, rinfo_strerror(rc), message);
        EXPECT(*message == '\0' || (strlen(message) > 12 && strcmp(message, "no error") != 0),
               "%s: %s", failed_call, message);
    }
    if (rc == 0 || strcmp(failed_call, "rinit") != 0) {
        failed_call = NULL;
        atomic_store(&board->rank[0].phase, 2);
        rc = all_of_it(10);
        EXPECT(rc == 0, "with enough of everything again, after %s failed: %s: %d (%s): %s",
               failing_name(), failed_call, rc, rinfo_strerror(rc), rerror(failed_at));
        EXPECT(rexit() == 0, "rexit: %s", rerror(NULL));
    }
    fflush(stdout);
    return check_failures > 0 ? 1 : 0;
}

static int64_t try_place(int64_t first, int64_t last)
{
    const struct place p = {first, last};
    struct job job;
    int64_t n = 0;

    job_prepare(&job, 1);
    job_start(&job, without_resources, &p);
    if (job_ended(&job, 0)) {
        EXPECT(job_status_is(&job, 0, 0), "calls %lld to %lld fail: status 0x%x", (long long)first,
               (long long)last, job.status[0]);
        n = (int64_t)job.board->rank[0].number;
    }
    job_finish(&job);
    return n;
}

int main(int argc, char **argv)
{
    int64_t n, all, places = argc > 1 ? atoi(argv[1]) : 60, step;

    if (!failing_memory)
        printf("descriptors and threads only: another malloc is in force\n");
    setenv("RPIPE_LOG", "error", 0);
    all = try_place(INT64_MAX, INT64_MAX);
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        places = all;
    step = places > 0 && all > places ? all / places : 1;
    printf("%s: %lld calls; every %lldth fails, and all from every %lldth on\n", argv[0],
           (long long)all, (long long)step, 4 * (long long)step);
    fflush(stdout);
    for (n = 1; n <= all; n += step) {
        (void)try_place(n, n);
        if (n / step % 4 == 0)
            (void)try_place(n, INT64_MAX);
    }
    return check_report(argv[0]);
}
