/* SPDX-License-Identifier: BSD-3-Clause */
/* msg_ours.c: our part of bench/compare_msg: messages by tag in loops, see msg_loop.h. */
#include "bench/msg_loop.h"

#include <rmsg.h>
#include <rpipe.h>
#include <stdio.h>

static rmsg_t msg;
static int peer;
static rmsg_request_t request[MSG_LOOP_WINDOW + MSG_LOOP_OTHERS];

static void ours_check(int rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "msg_ours: %s\n", rerror(NULL));
    network_abort(1);
}

static void ours_send(const void *buf, size_t bytes, uint32_t tag)
{
    ours_check(rmsg_send(msg, peer, 0, tag, buf, bytes, 0));
}

static void ours_recv(void *buf, size_t bytes, uint32_t tag)
{
    ours_check(rmsg_recv(msg, peer, 0, tag, buf, bytes, NULL, 0));
}

static void ours_isend(int slot, const void *buf, size_t bytes, uint32_t tag)
{
    ours_check(rmsg_isend(msg, peer, 0, tag, buf, bytes, &request[slot], 0));
}

static void ours_irecv(int slot, void *buf, size_t bytes, uint32_t tag)
{
    ours_check(rmsg_irecv(msg, peer, 0, tag, buf, bytes, &request[slot], 0));
}

static void ours_wait(int first, int n)
{
    ours_check(rmsg_wait_all(msg, &request[first], n, NULL, 0));
}

int main(void)
{
    static const struct msg_loop_calls calls = {ours_send, ours_recv, ours_isend, ours_irecv,
                                                ours_wait};
    rmsg_config_t cfg = {0};
    int rank, ranks;

    if (rinit(&rank, &ranks) != R_SUCCESS || ranks != 2) {
        fprintf(stderr, "msg_ours: two processes: %s\n", rerror(NULL));
        return 1;
    }
    peer = 1 - rank;
    ours_check(rmsg_open(&msg, &cfg));
    msg_loop_run(rank, &calls);
    ours_check(network_barrier());
    ours_check(rmsg_close(msg));
    return rexit() == R_SUCCESS ? 0 : 1;
}
