/* SPDX-License-Identifier: BSD-3-Clause */
/* msg_ours.c: our part of bench/compare_msg: messages by tag in loops, see msg_loop.h. */
#include "bench/msg_loop.h"

#include <rmsg.h>
#include <rpipe.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

/* A message of 8 bytes by bare pipes, there and back. */
static void bare_run(int rank)
{
    enum { ROUNDS = 100000 };
    rpipe_config_t cfg = {.context = 1, .peer = peer};
    rch_t out, in;
    raddr_t d;
    struct timespec t[2];

    cfg.role = RPIPE_WRITER;
    ours_check(rpipe(&out, &cfg));
    cfg.role = RPIPE_READER;
    ours_check(rpipe(&in, &cfg));
    for (int i = -ROUNDS / 10; i < ROUNDS; i++) {
        if (i == 0)
            clock_gettime(CLOCK_MONOTONIC, &t[0]);
        for (int turn = 0; turn < 2; turn++) {
            if (turn != rank) {
                ours_check(rread(in, &d, NULL));
                ours_check(rfree(in, d));
                continue;
            }
            d = rmalloc(out, 8);
            ours_check(d != ADDR_NULL ? 0 : 1);
            memcpy(rmem(out, d), &i, sizeof(i));
            ours_check(rwrite(out, d));
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &t[1]);
    if (rank == 0)
        printf("bare_8 %.1f\n",
               ((double)(t[1].tv_sec - t[0].tv_sec) * 1e9 + (double)(t[1].tv_nsec - t[0].tv_nsec)) /
                   ROUNDS / 2);
    ours_check(rclose(out));
    ours_check(rclose(in));
}

static bool bare_is_asked(char **names)
{
    for (char **name = names; *name != NULL; name++)
        if (strncmp(*name, "bare", 4) == 0)
            return true;
    return *names == NULL;
}

int main(int argc, char **argv)
{
    static const struct msg_loop_calls calls = {ours_send, ours_recv, ours_isend, ours_irecv,
                                                ours_wait};
    rmsg_config_t cfg = {0};
    int rank, ranks;

    (void)argc;
    if (rinit(&rank, &ranks) != R_SUCCESS || ranks != 2) {
        fprintf(stderr, "msg_ours: two processes: %s\n", rerror(NULL));
        return 1;
    }
    peer = 1 - rank;
    ours_check(rmsg_open(&msg, &cfg));
    if (bare_is_asked(argv + 1))
        bare_run(rank);
    msg_loop_run(rank, argv + 1, &calls);
    ours_check(network_barrier());
    ours_check(rmsg_close(msg));
    return rexit() == R_SUCCESS ? 0 : 1;
}
