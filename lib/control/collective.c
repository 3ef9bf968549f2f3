/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective.c: see collective.h.
 *
 * A collective is a number of rounds; in each, a rank sends to one other and receives from one
 * other, both at the same time so that full windows cannot deadlock. Each has a number, the epoch,
 * which all ranks count alike. A rank that gives up, because a rank died or its deadline passed,
 * sends its error code to those to which it would have sent in the rounds that are left; they send
 * theirs. So the end of one rank ends the call of all, although few of them are connected to it.
 */
#include "control/collective.h"

#include "control/peer_end.h"
#include "control/post.h"
#include "control/state.h"
#include "control/transfer.h"
#include "util/clock.h"
#include "util/failpoint.h"
#include "util/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MISSING_NAMED 6     /* ranks that are named in a message: they fit into struct error */
#define MISSING_NS NS_PER_S /* before the deadline of rexit */

static struct {
    uint32_t epoch; /* of the last collective */
    bool busy;      /* a collective is in progress */
    bool leaving;   /* some rank has sent WIRE_LEAVE */
} collective;

/* ---- point to point ---- */

int collect_send(int to, const void *buf, size_t bytes, int64_t deadline, struct error *err)
{
    struct transfer t = {.peer = to, .lane = LANE_USER, .from = buf, .bytes = bytes};
    int result = transfer_lock_peer(to, err), culprit;
    bool *busy;

    if (result != 0)
        return result;
    busy = &transfers.pairs[to]->out[LANE_USER].busy;
    result = transfer_seize(busy, deadline);
    if (result == 0) {
        RPIPE_FAILPOINT("network_send: begun");
        result = transfer_run(&t, NULL, NULL, deadline, &culprit, err);
        transfer_release(busy);
    } else if (result == -ENOTCONN) {
        (void)transfer_abandoned(err);
    } else {
        error_note(err, "another thread was sending to %s until the deadline (RPIPE_TIMEOUT_MS)",
                   control_peer_name(to));
    }
    transfer_unlock();
    return result;
}

int collect_recv(int from, void *buf, size_t bytes, int64_t deadline, struct error *err)
{
    struct transfer t = {.peer = from, .lane = LANE_USER, .to = buf, .bytes = bytes};
    int result = transfer_lock_peer(from, err), culprit;
    bool *busy;

    if (result != 0)
        return result;
    busy = &transfers.pairs[from]->in[LANE_USER].busy;
    result = transfer_seize(busy, deadline);
    if (result == 0) {
        result = transfer_run(NULL, &t, NULL, deadline, &culprit, err);
        transfer_release(busy);
    } else if (result == -ENOTCONN) {
        (void)transfer_abandoned(err);
    } else {
        error_note(err,
                   "another thread was receiving from %s until the deadline (RPIPE_TIMEOUT_MS)",
                   control_peer_name(from));
    }
    transfer_unlock();
    return result;
}

/* ---- collectives ---- */

struct operation {
    enum chunk_kind kind;
    uint32_t epoch;
    int step; /* +1: round k sends to rank + 2^k; -1: to rank - 2^k */
    const bool *ends;
    int64_t deadline;
    struct error *err;
};

static const char *const collective_kind_names[CHUNK_KINDS] = {"network_send", "network_barrier",
                                                               "network_allgather", "rexit"};

static int collective_partner(int distance)
{
    return (int)((((int64_t)transfers.rank + distance) % transfers.size + transfers.size) %
                 transfers.size);
}

/* Sends the error code to those to which the rounds from this one on would have gone. */
static void collective_give_up(const struct operation *c, uint32_t round, int code, int culprit)
{
    for (; ((int64_t)1 << round) < transfers.size; round++) {
        struct transfer t = {.peer = collective_partner(c->step * (1 << round)),
                             .lane = LANE_COLLECTIVE};
        struct pair *pair = transfer_pair(t.peer);

        t.head = (struct chunk){.kind = (uint16_t)c->kind,
                                .code = code,
                                .epoch = c->epoch,
                                .round = round,
                                .culprit = culprit};
        if (pair != NULL)
            /* the dead need none; where the window is full, the deadline ends the call */
            lane_push(pair, &t);
    }
}

/* The code of a failure at another rank, as far as it can be trusted. */
static int collective_failed_elsewhere(const struct operation *c, const struct transfer *t,
                                       int *culprit)
{
    static const int codes[] = {-ETIMEDOUT, -ECONNRESET, -EPIPE, -EPROTO, -EMSGSIZE, -ENOMEM};
    int code = -EPROTO;
    size_t i;

    for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (codes[i] == t->head.code)
            code = codes[i];
    }
    *culprit = t->head.culprit >= 0 && t->head.culprit < transfers.size ? t->head.culprit : t->peer;
    return error_set(c->err, code, "%s reports that %s failed because of %s: %s",
                     control_peer_name(t->peer), collective_kind_names[c->kind],
                     control_peer_name(*culprit),
                     code == -EPIPE ? "it is in rexit, or has left the job" : strerror(-code));
}

static int collective_round_run(const struct operation *c, uint32_t round, const void *from,
                                uint64_t from_bytes, void *to, uint64_t to_bytes)
{
    int distance = c->step * (1 << round), culprit = -1, result = -ENOMEM;
    struct transfer send = {.peer = collective_partner(distance),
                            .lane = LANE_COLLECTIVE,
                            .from = from,
                            .bytes = from_bytes};
    struct transfer receive = {.peer = collective_partner(-distance),
                               .lane = LANE_COLLECTIVE,
                               .kind = c->kind,
                               .epoch = c->epoch,
                               .to = to,
                               .bytes = to_bytes};

    send.head =
        (struct chunk){.kind = (uint16_t)c->kind, .epoch = c->epoch, .round = round, .culprit = -1};
    if (transfer_pair(send.peer) != NULL && transfer_pair(receive.peer) != NULL)
        result = transfer_run(&send, &receive, c->ends, c->deadline, &culprit, c->err);
    if (result == -EPROTO && receive.head.kind == CHUNK_LEAVE)
        result = error_set(c->err, -EPIPE, "%s, from which a message is expected, is in rexit",
                           control_peer_name(receive.peer));
    else if (result == -EPROTO)
        error_note(c->err,
                   "%s is in its collective number %u, %s, and this rank in number %u, %s; all "
                   "ranks must call the same ones in the same order",
                   control_peer_name(receive.peer), receive.head.epoch,
                   collective_kind_names[receive.head.kind], c->epoch,
                   collective_kind_names[c->kind]);
    if (result == 0 && receive.head.code != 0)
        result = collective_failed_elsewhere(c, &receive, &culprit);
    if (result != 0 && c->kind != CHUNK_LEAVE)
        collective_give_up(c, round + (send.finished ? 1 : 0),
                           result == -ENOTCONN ? -EPIPE : result, culprit);
    return result;
}

/* Takes the lock, if 0. From then on the operation counts, also if it fails: all ranks count
 * alike. */
static int collective_begin(struct operation *c)
{
    int result = transfer_lock(c->err);

    if (result != 0)
        return result;
    result = transfer_seize(&collective.busy, c->deadline);
    if (result != 0) {
        transfer_unlock();
        if (result == -ENOTCONN)
            return transfer_abandoned(c->err);
        return error_set(
            c->err, result,
            "another thread was in a collective until the deadline (RPIPE_TIMEOUT_MS)");
    }
    c->epoch = ++collective.epoch;
    RPIPE_FAILPOINT("collective: begun");
    return 0;
}

static int collective_end(int result)
{
    transfer_release(&collective.busy);
    transfer_unlock();
    return result;
}

/* Dissemination: after round k each rank has notice of the 2^(k+1) - 1 ranks before it. Lock
 * held. */
static int collective_disseminate(struct operation *c)
{
    uint32_t round;
    int result = 0;

    c->step = 1;
    for (round = 0; result == 0 && ((int64_t)1 << round) < transfers.size; round++)
        result = collective_round_run(c, round, NULL, 0, NULL, 0);
    return result;
}

int collect_barrier(int64_t deadline, struct error *err)
{
    struct operation c = {.kind = CHUNK_BARRIER, .deadline = deadline, .err = err};
    int result = collective_begin(&c);

    return result != 0 ? result : collective_end(collective_disseminate(&c));
}

/* Bruck: block i is that of rank + i; in round k the blocks that are here, but no more than are
 * missing there, are sent to rank - 2^k. */
int collect_allgather(const void *mine, size_t bytes, void *all, int64_t deadline,
                      struct error *err)
{
    struct operation c = {.kind = CHUNK_ALLGATHER, .step = -1, .deadline = deadline, .err = err};
    size_t whole, size, count;
    uint8_t *blocks = NULL;
    uint32_t round;
    int result = collective_begin(&c), i;

    if (result != 0)
        return result;
    size = (size_t)transfers.size;
    if (!__builtin_mul_overflow(bytes, size, &whole))
        blocks = malloc(whole + 1);
    if (blocks == NULL) {
        collective_give_up(&c, 0, -ENOMEM,
                           transfers.rank); /* so that the others do not wait for their deadlines */
        return collective_end(
            error_set(err, -ENOMEM, "no memory for %zu bytes from each of %zu ranks", bytes, size));
    }
    if (bytes > 0)
        memcpy(blocks, mine, bytes);
    for (round = 0; result == 0 && ((size_t)1 << round) < size; round++) {
        size_t here = (size_t)1 << round;

        count = size - here < here ? size - here : here;
        result = collective_round_run(&c, round, blocks, count * bytes, blocks + here * bytes,
                                      count * bytes);
    }
    collective_end(result);
    for (i = 0; result == 0 && bytes > 0 && i < transfers.size; i++)
        memcpy((uint8_t *)all + (size_t)collective_partner(i) * bytes, blocks + (size_t)i * bytes,
               bytes);
    free(blocks);
    return result;
}

/* ---- leaving ---- */

/* A rank that has neither come nor ended. Lock held. */
static bool collective_is_missing(int rank)
{
    return rank != transfers.rank &&
           !(transfers.pairs[rank] != NULL && transfers.pairs[rank]->leaves) &&
           control_peer_state(rank) == 0;
}

/* "rank 1, rank 4 (closing its pipes) and 3 more". Lock held. */
static void collective_print_missing(struct error *missing)
{
    int rank, count = 0;
    size_t used = 0;

    for (rank = 0; rank < transfers.size; rank++) {
        if (!collective_is_missing(rank) || count++ >= MISSING_NAMED)
            continue;
        used += (size_t)snprintf(missing->text + used, sizeof(missing->text) - used, "%s%s%s",
                                 used > 0 ? ", " : "", control_peer_name(rank),
                                 control_peer_exiting(rank) ? " (closing its pipes)" : "");
    }
    if (count > MISSING_NAMED)
        (void)snprintf(missing->text + used, sizeof(missing->text) - used, " and %d more",
                       count - MISSING_NAMED);
}

/* Each rank sends WIRE_LEAVE to each. For jobs in which a rank has died, which breaks the
 * pattern of a barrier, or does not come. Lock held. */
static int collective_leave_one_by_one(int64_t deadline, struct error *missing_ranks)
{
    int rank, slices, missing;

    for (rank = 0; rank < transfers.size; rank++) {
        if (rank != transfers.rank)
            control_post(rank, WIRE_LEAVE, NULL, 0, NULL,
                         0); /* it connects: the dead are noticed */
    }
    for (slices = 0;; slices++) {
        for (rank = 0, missing = 0; rank < transfers.size; rank++) {
            if (!collective_is_missing(rank))
                continue;
            missing++;
            transfer_check_peer(rank);
        }
        if (missing == 0)
            return 0;
        if (deadline_passed(deadline)) {
            collective_print_missing(missing_ranks);
            return -ETIMEDOUT;
        }
        transfer_sleep(deadline);
    }
}

/* Until when the barrier is tried: the rest of the time finds the ranks that are missing. */
static int64_t collective_leave_barrier_deadline(int64_t deadline)
{
    int64_t left = deadline == DEADLINE_NEVER ? 0 : deadline - clock_now(), rest = left / 2;

    if (deadline == DEADLINE_NEVER || left <= 0)
        return deadline;
    return deadline - (rest < MISSING_NS ? rest : MISSING_NS);
}

/*
 * First as a barrier. A rank that cannot finish it, because another one is dead, does something
 * else or has not come a second before the deadline, sends WIRE_LEAVE to all and waits for each;
 * that message makes every rank that is still in the barrier do the same. When a rank has finished
 * the barrier, all have come, and it may leave: for the others its end counts as WIRE_LEAVE.
 */
int collect_leave(int64_t deadline, struct error *missing)
{
    struct error err = {""};
    struct operation c = {.kind = CHUNK_LEAVE,
                          .ends = &collective.leaving,
                          .deadline = collective_leave_barrier_deadline(deadline),
                          .err = &err};
    int result = collective_begin(&c);

    if (result != 0)
        return result == -ETIMEDOUT ? result : 0;
    result = collective.leaving ? -EINTR : collective_disseminate(&c);
    if (result != 0)
        result = collective_leave_one_by_one(deadline, missing);
    return collective_end(result);
}

void collect_abandon(bool abandon)
{
    pthread_mutex_lock(&transfers.lock);
    transfers.abandoned = abandon;
    pthread_cond_broadcast(&transfers.changed);
    transfer_unlock();
}

/* ---- called by the control network ---- */

static int collective_on_message(int from, uint32_t type, const void *body, size_t bytes)
{
    const char *violation = NULL;
    struct pair *pair;
    int result = 0;

    pthread_mutex_lock(&transfers.lock);
    RPIPE_FAILPOINT("network_send: chunk received");
    pair = transfer_pair(from);
    if (pair == NULL)
        result = -ENOMEM;
    else if (type == WIRE_CHUNK)
        result = lane_arrive(pair, body, bytes, &violation);
    else if (type == WIRE_ACK)
        violation = lane_acked(pair, body, bytes);
    else
        pair->leaves = collective.leaving = true;
    pthread_cond_broadcast(&transfers.changed);
    transfer_unlock();
    if (violation != NULL)
        control_cut_off(from, violation);
    return result;
}

/* Wakes those that wait: transfer_step() reads the peer's state and windows. */
static void collective_on_peer_changed(int peer)
{
    (void)peer;
    pthread_mutex_lock(&transfers.lock);
    pthread_cond_broadcast(&transfers.changed);
    transfer_unlock();
}

int collect_start(int rank, int size)
{
    int result = transfer_start(rank, size);

    if (result != 0)
        return result;
    collective.epoch = (uint32_t)setting_number(SET_FIRST);
    collective.busy = collective.leaving = false;
    control.lanes = (struct control_lane_hooks){.message = collective_on_message,
                                                .peer_changed = collective_on_peer_changed};
    return 0;
}

void collect_stop(void) { transfer_stop(); }
