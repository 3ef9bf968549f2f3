/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_msg_recovery.c: a rank is killed while others have requests with it (mpirun --enable-recovery, see test/run-mpi).
 *
 * Rank 2 sends complete messages, offers a large one, advertises a receive, and kills itself when
 * ranks 0 and 1 have sent it a message each. They receive what was complete; all else ends with the death; a receive from any source
 * reports it once and stays posted. At last a rank closes its context, and the other one gets -EPIPE.
 */
#include "test/lib/mp_check.h"

#include <rmsg.h>
#include <signal.h>

enum { VICTIM = 2, LARGE = 300000 };

static rmsg_t msg;

#define MSG_OK(call) CHECK_RC(0, NULL, call)
#define MSG_RC(code, call) CHECK_RC(code, NULL, call)
#define MSG_GONE(call) msg_gone((call), #call, __LINE__)

static void msg_gone(int code, const char *call, int line)
{
    if (code != -EPIPE) /* a writer sees -EPIPE */
        check_code(__FILE__, line, call, -ECONNRESET, code, NULL);
}

static _Noreturn void victim(void)
{
    static char out[LARGE], in[LARGE];
    rmsg_request_t r;
    uint64_t value;

    pattern_fill(out, LARGE, 4711);
    for (int to = 0; to < VICTIM; to++) {
        value = 100 + (uint64_t)to;
        MSG_OK(rmsg_send(msg, to, 0, 1, &value, sizeof(value), 0));
        MSG_OK(rmsg_send(msg, to, 0, 2, out, 4000, 0));
        MSG_OK(rmsg_isend(msg, to, 0, 3, out, LARGE, &r, 0));
        MSG_OK(rmsg_isend(msg, to, 0, 4, out, LARGE, &r, 0));
        MSG_OK(rmsg_irecv(msg, to, 0, 5, in, LARGE, &r, 0));
        MSG_OK(rmsg_send(msg, to, 0, 6, NULL, 0, 0)); /* all of this has left */
    }
    for (int from = 0; from < VICTIM; from++)
        MSG_OK(rmsg_recv(msg, from, 0, 7, NULL, 0, NULL, 0));
    kill(getpid(), SIGKILL);
    abort();
}

static void survivor(void)
{
    static char out[LARGE], in[LARGE];
    rmsg_request_t exact, sync, any, from_other;
    int other = 1 - mp_rank;
    rmsg_message_t taken;
    rmsg_status_t status;
    uint64_t value = 0;
    int which;

    MSG_OK(rmsg_recv(msg, VICTIM, 0, 6, NULL, 0, NULL, 0));
    MSG_OK(rmsg_mprobe(msg, VICTIM, 0, 4, &taken, NULL, 0));
    MSG_OK(rmsg_irecv(msg, VICTIM, 0, 8, in, LARGE, &exact, 0));
    MSG_OK(rmsg_irecv(msg, RMSG_ANY_SOURCE, 1, RMSG_ANY_TAG, &value, sizeof(value), &any, 0));
    MSG_OK(rmsg_irecv(msg, other, 2, 1, &value, sizeof(value), &from_other, 0));
    MSG_OK(rmsg_isend(msg, VICTIM, 0, 9, out, LARGE, &sync, RMSG_SYNC));
    MSG_OK(rmsg_send(msg, VICTIM, 0, 7, NULL, 0, 0));

    MSG_GONE(rmsg_wait(msg, &exact, &status, 0));
    CHECK(NULL, exact == 0 && status.from == VICTIM);
    MSG_GONE(rmsg_wait(msg, &sync, NULL, 0));
    MSG_GONE(rmsg_wait_any(msg, &any, 1, &which, NULL, 0));
    CHECK(NULL, any != 0);
    MSG_RC(R_PENDING, rmsg_wait_any(msg, &any, 1, &which, NULL, R_NOWAIT)); /* once */

    /* what was complete */
    MSG_OK(rmsg_recv(msg, VICTIM, 0, 1, &value, sizeof(value), NULL, 0));
    CHECK(NULL, value == 100 + (uint64_t)mp_rank);
    MSG_OK(rmsg_recv(msg, RMSG_ANY_SOURCE, 0, RMSG_ANY_TAG, in, LARGE, &status, 0));
    CHECK(NULL, status.bytes == 4000 && status.tag == 2 && pattern_same(in, 4000, 4711));
    /* and what was not */
    MSG_GONE(rmsg_mrecv(msg, &taken, in, LARGE, NULL));
    MSG_GONE(rmsg_recv(msg, VICTIM, 0, 3, in, LARGE, NULL, 0));
    MSG_GONE(rmsg_recv(msg, VICTIM, 0, 3, in, LARGE, NULL, R_NOWAIT));
    MSG_GONE(rmsg_probe(msg, VICTIM, 0, 3, NULL, 0));
    MSG_GONE(rmsg_send(msg, VICTIM, 0, 5, out, 8, 0));
    MSG_GONE(rmsg_send(msg, VICTIM, 0, 5, out, LARGE, R_NOWAIT));
    MSG_GONE(rmsg_send(msg, VICTIM, 0, 5, out, 8, RMSG_SYNC | R_NOWAIT));
    MSG_GONE(rmsg_isend(msg, VICTIM, 0, 5, out, LARGE, &sync, 0));

    /* the living go on, when both have noticed */
    MSG_OK(rmsg_send(msg, other, 3, 1, NULL, 0, 0));
    MSG_OK(rmsg_recv(msg, other, 3, 1, NULL, 0, NULL, 0));
    value = 77;
    MSG_OK(rmsg_send(msg, other, 1, 3, &value, sizeof(value), 0));
    MSG_OK(rmsg_wait(msg, &any, &status, 0));
    CHECK(NULL, status.from == other && status.tag == 3);
    MSG_OK(rmsg_send(msg, other, 2, 1, &value, sizeof(value), RMSG_SYNC));
    MSG_OK(rmsg_wait(msg, &from_other, NULL, 0));
}

/* A context that is closed. */
static void closed(void)
{
    static char buf[LARGE];
    int other = 1 - mp_rank;
    rmsg_request_t r;

    if (mp_rank == 0) {
        MSG_OK(rmsg_irecv(msg, other, 0, 2, buf, LARGE, &r, 0));
        MSG_OK(rmsg_recv(msg, other, 0, 1, buf, 1, NULL, 0));
        MSG_OK(rmsg_send(msg, other, 0, 3, "last", 4, 0));
        MSG_OK(rmsg_close(msg));
        return;
    }
    MSG_OK(rmsg_send(msg, other, 0, 1, buf, 1, 0));
    MSG_RC(-EPIPE, rmsg_recv(msg, other, 0, 4, buf, LARGE, NULL, 0));
    MSG_OK(rmsg_recv(msg, other, 0, 3, buf, LARGE, NULL, 0));
    CHECK(NULL, memcmp(buf, "last", 4) == 0);
    MSG_RC(-EPIPE, rmsg_send(msg, other, 0, 2, buf, LARGE, 0));
    MSG_OK(rmsg_close(msg));
}

int main(int argc, char **argv)
{
    const rmsg_config_t cfg = {0};

    mp_begin(argc, argv, 3);
    MSG_OK(rmsg_open(&msg, &cfg));
    if (mp_rank == VICTIM)
        victim();
    if (mp_rank < VICTIM) {
        survivor();
        closed();
    } else {
        MSG_OK(rmsg_close(msg));
    }
    return mp_end();
}
