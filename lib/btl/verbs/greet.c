/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * greet.c: the first messages of a connection, after which both ends transfer.
 *
 * The dialing end's first message is a SEND, the greeting, and the accepting end transfers nothing before it: on iWARP an
 * answer that overtakes the end of the connecting breaks the connection, and elsewhere nothing else says that the dialing
 * end is ready. On iWARP the accepting end answers with a SEND of its own, and the dialing end transfers nothing before that:
 * soft-iWARP overlooks what arrives at the end of its handshake until something more arrives (doc/verbs.md), and who greets and
 * then only waits would wait for ever. So the dialing end nudges, with WRITEs of no bytes, until it has the answer.
 *
 * All receive queues share one completion queue, which the service thread watches; a receive carries its line's token. Everything
 * here runs under btl.lock; a line that is not up has no other thread on its queues.
 */
#include "btl/verbs/verbs.h"

#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GREETINGS 4096 /* of all lines that are being connected, one each */
/*
 * libibverbs takes a queue of soft-iWARP that the kernel has placed at page 144 of the device's file for one that it could not map, and
 * every one after it, for that page stays free. This queue is the first one, and long enough to lie there (doc/verbs.md).
 */
#define GREETINGS_SIW 32768

#define NUDGE_FIRST (2 * NS_PER_MS)
#define NUDGES_MOST 9 /* the last 0.5 s after the one before */

/* The contents of a greeting: none that anybody looks at, but there are devices that receive nothing nowhere. */
static struct ibv_sge whatever(const struct btl *btl, uint32_t bytes)
{
    return (struct ibv_sge){.addr = (uintptr_t)btl->scratch, .length = bytes, .lkey = btl->scratch_mr->lkey};
}

/* Posts one work request; its completion nobody waits for. 0 or -errno. */
static int post(struct btl_line *line, enum ibv_wr_opcode opcode, uint32_t bytes)
{
    struct ibv_sge sge = whatever(line->btl, bytes);
    struct ibv_send_wr *bad,
        wr = {.wr_id = line->posted, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
    int rc = ibv_post_send(line->qp, &wr, &bad);

    if (rc == 0)
        line->posted++;
    return rc > 0 ? -rc : rc;
}

int verbs_greet_expect(struct btl_line *line)
{
    struct ibv_sge anywhere = whatever(line->btl, 8);
    struct ibv_recv_wr greeting = {.wr_id = line->token, .sg_list = &anywhere, .num_sge = 1}, *bad;
    int rc = ibv_post_recv(line->qp, &greeting, &bad);

    return rc > 0 ? -rc : rc;
}

static void connected(struct btl_line *line)
{
    line->stage = CONNECTED;
    verbs_line_up(line);
}

int verbs_greet(struct btl_line *line)
{
    int rc = post(line, IBV_WR_SEND, 8);

    if (rc != 0)
        return rc;
    if (line->btl->limits.iwarp) {
        line->stage = GREETING;
        line->nudges = 0;
        line->retry_at = clock_now() + NUDGE_FIRST;
    } else {
        connected(line);
    }
    return 0;
}

int verbs_greet_nudge(struct btl_line *line)
{
    int rc = post(line, IBV_WR_RDMA_WRITE, 0);

    line->nudges++;
    line->retry_at = line->nudges < NUDGES_MOST ? clock_now() + (NUDGE_FIRST << line->nudges) : DEADLINE_NEVER;
    return rc;
}

/* A greeting, or the answer to one. */
static void take(struct btl_line *line)
{
    int rc = 0;

    if (line->role == BTL_ACCEPTS && line->btl->limits.iwarp)
        rc = post(line, IBV_WR_SEND, 8);
    if (rc == 0) {
        connected(line);
        return;
    }
    /* the connection has ended meanwhile: the dialing end will begin anew */
    snprintf(line->obstacle, sizeof(line->obstacle), "ibv_post_send of the answer to a greeting: %s", strerror(-rc));
    verbs_connect_drop(line);
    line->stage = IDLE;
}

static void greeted(void *arg)
{
    struct btl *btl = arg;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    pthread_mutex_lock(&btl->lock);
    if (ibv_get_cq_event(btl->greeted, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        (void)ibv_req_notify_cq(cq, 0);
    }
    while (ibv_poll_cq(btl->greetings, 1, &wc) > 0) {
        struct btl_line *line = hash_get(&btl->lines, wc.wr_id);

        if (line == NULL || line->stage != GREETING || wc.status != IBV_WC_SUCCESS || wc.qp_num != line->qp->qp_num)
            continue; /* of a line that is no more, or an attempt that came to nothing */
        take(line);
    }
    (void)btl->host.watch(btl->greeted->fd, 0, greeted, btl);
    pthread_mutex_unlock(&btl->lock);
}

/* ---- opening and closing ---- */

int verbs_greet_open(struct btl *btl, char *why, size_t why_bytes)
{
    int entries = btl->limits.siw ? GREETINGS_SIW : GREETINGS, rc;

    btl->greeted = ibv_create_comp_channel(btl->context);
    rc = btl->greeted != NULL ? verbs_no_waiting(btl->greeted->fd) : -errno;
    if (rc == 0) {
        btl->greetings = ibv_create_cq(btl->context, entries, NULL, btl->greeted, 0);
        rc = btl->greetings == NULL ? -errno : -ibv_req_notify_cq(btl->greetings, 0);
    }
    if (rc != 0)
        snprintf(why, why_bytes, "a completion queue of %d entries on %s: %s", entries, btl->device, strerror(-rc));
    return rc;
}

int verbs_greet_watch(struct btl *btl) { return btl->host.watch(btl->greeted->fd, 0, greeted, btl); }

void verbs_greet_stop(struct btl *btl) { btl->host.unwatch(greeted, btl); }

void verbs_greet_close(struct btl *btl)
{
    if (btl->greetings != NULL)
        (void)ibv_destroy_cq(btl->greetings);
    if (btl->greeted != NULL)
        (void)ibv_destroy_comp_channel(btl->greeted);
}
