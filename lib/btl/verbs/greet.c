/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * greet.c: the first messages of a connection, after which both ends transfer.
 *
 * The connecting end's first message is a SEND, the greeting; the accepting end transfers nothing
 * before it has received it. On iWARP a message that arrives before the connection is established
 * breaks it, and elsewhere nothing else indicates that the connecting end is ready. On iWARP the
 * accepting end answers with a SEND, and the connecting end transfers nothing before the answer:
 * soft-iWARP does not process what arrives at the end of its handshake until more data arrives
 * (doc/verbs.md), so an end that greets and only waits would wait forever. The connecting end
 * therefore sends nudges, WRITEs of 0 bytes, until it has the answer.
 *
 * All receive queues of a context share one completion queue, which the service thread watches; a
 * receive carries the token of its connection. Everything runs under btl.lock; no other thread uses the
 * queues of a connection that is not up.
 */
#include "btl/verbs/greet.h"

#include "btl/verbs/state.h"
#include "btl/verbs/stream.h"

#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NUDGE_FIRST (2 * NS_PER_MS)
#define NUDGES_MOST 9 /* the last one 0.5 s after the previous */

/* The contents of a greeting, which are never read; some devices do not receive empty messages. */
static struct ibv_sge verbs_greet_contents(const struct device_context *context, uint32_t bytes)
{
    return (struct ibv_sge){.addr = (uintptr_t)context->btl->scratch,
                            .length = bytes,
                            .lkey = context->scratch_mr->lkey};
}

/* Posts one work request, whose completion is ignored. 0 or -errno. */
static int verbs_greet_post(struct btl_connection *connection, enum ibv_wr_opcode opcode,
                            uint32_t bytes)
{
    struct ibv_sge sge = verbs_greet_contents(connection->context, bytes);
    struct ibv_send_wr *bad, wr = {.wr_id = verbs_wr_id(connection, connection->posted),
                                   .opcode = opcode,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .sg_list = &sge,
                                   .num_sge = 1};
    struct btl_stream *stream = connection->stream;
    int rc;

    if (stream != NULL) /* a queue pair of a thread domain may have no lock */
        biased_enter_other(&stream->lock, BIASED_NEVER);
    rc = ibv_post_send(connection->qp, &wr, &bad);
    if (rc == 0)
        connection->posted++;
    if (stream != NULL)
        biased_leave_other(&stream->lock);
    return rc > 0 ? -rc : rc;
}

int verbs_greet_expect(struct btl_connection *connection)
{
    struct ibv_sge anywhere = verbs_greet_contents(connection->context, 8);
    struct ibv_recv_wr greeting = {.wr_id = connection->token, .sg_list = &anywhere, .num_sge = 1},
                       *bad;
    int rc = ibv_post_recv(connection->qp, &greeting, &bad);

    return rc > 0 ? -rc : rc;
}

static void verbs_greet_connected(struct btl_connection *connection)
{
    connection->stage = CONNECTED;
    verbs_state_up(connection);
}

int verbs_greet(struct btl_connection *connection)
{
    int rc = verbs_greet_post(connection, IBV_WR_SEND, 8);

    if (rc != 0)
        return rc;
    if (connection->btl->limits.iwarp) {
        connection->stage = GREETING;
        connection->nudges = 0;
        connection->retry_at = clock_now() + NUDGE_FIRST;
    } else {
        verbs_greet_connected(connection);
    }
    return 0;
}

int verbs_greet_nudge(struct btl_connection *connection)
{
    int rc = verbs_greet_post(connection, IBV_WR_RDMA_WRITE, 0);

    connection->nudges++;
    connection->retry_at = connection->nudges < NUDGES_MOST
                               ? clock_now() + (NUDGE_FIRST << connection->nudges)
                               : DEADLINE_NEVER;
    return rc;
}

/* A greeting, or the answer to one. */
static void verbs_greet_take(struct btl_connection *connection)
{
    int rc = 0;

    if (connection->role == BTL_ACCEPTS && connection->btl->limits.iwarp)
        rc = verbs_greet_post(connection, IBV_WR_SEND, 8);
    if (rc == 0) {
        verbs_greet_connected(connection);
        return;
    }
    /* the connection has ended meanwhile: the connecting end starts again */
    snprintf(connection->obstacle, sizeof(connection->obstacle),
             "ibv_post_send of the answer to a greeting: %s", strerror(-rc));
    verbs_connect_drop(connection);
    connection->stage = IDLE;
}

void verbs_greet_received(void *arg)
{
    struct device_context *in = arg;
    struct btl *btl = in->btl;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    pthread_mutex_lock(&btl->lock);
    if (ibv_get_cq_event(in->greeted, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        (void)ibv_req_notify_cq(cq, 0);
    }
    while (ibv_poll_cq(in->greetings, 1, &wc) > 0) {
        struct btl_connection *connection = hash_get(&btl->connections, wc.wr_id);

        if (connection == NULL || connection->stage != GREETING || wc.status != IBV_WC_SUCCESS ||
            wc.qp_num != connection->qp->qp_num)
            continue; /* of a closed connection, or of a failed attempt */
        verbs_greet_take(connection);
    }
    (void)btl->host.watch(in->greeted->fd, 0, verbs_greet_received, in);
    pthread_mutex_unlock(&btl->lock);
}
