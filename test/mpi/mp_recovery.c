/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_recovery.c: a rank is killed under a launcher that lets the others live (mpirun --enable-recovery, 3 ranks or more).
 *
 * The last rank dies in the middle of a job in which all have met. The others notice, their barrier fails and names the
 * dead, they pass over it when they leave, and neither that nor the end of the launcher's client hangs.
 */
#include "test/lib/check.h"

#include "control/collective.h"
#include "control/control.h"
#include "bootstrap/job.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_MS 60000

static struct error err;
static int rank, size;
static _Atomic int died;

static void explain(void) { log_error("%s", err.text); }

static void check_failed(const char *file, int line)
{
    (void)file, (void)line;
    job_abort(1);
}

static int on_message(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                      int nfds)
{
    (void)from, (void)type, (void)body, (void)bytes, (void)fds, (void)nfds;
    return 0;
}

static void on_gone(int peer, enum control_end end, const char *error_message)
{
    if (peer == size - 1 && end == PEER_DIED && strstr(error_message, "lost") != NULL)
        atomic_fetch_add(&died, 1);
}

int main(void)
{
    const struct control_hooks hooks = {on_message, on_gone, NULL, NULL};
    int64_t limit = deadline_in_ms(LIMIT_MS);
    const int number = 4711;
    int result, received = 0;

    check_context = explain;
    check_end = check_failed;
    REQUIRE(settings_load(&err) == 0);
    REQUIRE(job_open(&rank, &size, limit, &err) == 0);
    log_set_rank(rank);
    check_rank = rank;
    REQUIRE(size >= 3);
    REQUIRE(control_start(&hooks, limit, &err) == 0);
    REQUIRE(collect_barrier(limit, &err) == 0);
    if (rank == size - 1) { /* a last message to rank 0, then dead */
        REQUIRE(collect_send(0, &number, sizeof(number), limit, &err) == 0);
        REQUIRE(control_flush(-1, limit) == 0);
        kill(getpid(), SIGKILL);
    }
    result = collect_barrier(limit, &err);
    REQUIRE(result == -ECONNRESET && strstr(err.text, "rank") != NULL);
    if (rank == 0) {
        REQUIRE(collect_recv(size - 1, &received, sizeof(received), limit, &err) == 0 &&
                received == number);
        REQUIRE(collect_recv(size - 1, &received, sizeof(received), limit, &err) == -ECONNRESET);
    }
    REQUIRE(collect_leave(limit, &(struct error){""}) == 0);
    REQUIRE(control_peer_state(size - 1) == -ECONNRESET);
    REQUIRE(control_stop(limit, limit, &err) == 0); /* after which no hook runs */
    REQUIRE(atomic_load(&died) == 1);
    job_close();
    if (rank == 0)
        printf("%d ranks went on without rank %d\n", size - 1, size - 1);
    return 0;
}
