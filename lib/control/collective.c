/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective.c: see collective.h. Transfers over lanes (lane.h), and the collectives made of them.
 *
 * A collective is a number of rounds; in each, a rank sends to one other and receives from one other, both at the same time
 * so that windows cannot lock up. Each has a number, the epoch, which all ranks count alike. A rank that gives up, because
 * somebody died or its deadline passed, tells those that it would have sent to in the rounds that are left; they tell
 * theirs; and so the end of one rank ends the call of all, although few of them are connected to it.
 */
#include "control/collective.h"

#include "control/lane.h"
#include "control/service.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_MS 50 /* the dead wake nobody */
#define HEED_SLICES                                                                                \
    1 /* after that, see to it that the peer's end would be noticed: within 100 ms, with what dialling takes */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int rank, size;
    struct pair **pairs; /* made when they are needed */
    uint32_t epoch;      /* of the last collective */
    bool busy;           /* a collective is under way */
    bool leaving;        /* somebody has told all that he is in collect_leave() */
    bool abandoned;      /* this process is about to leave: nobody waits here any more */
} collective_collect = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int collective_complain(int result, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int collective_complain(int result, struct error *err, const char *format, ...)
{
    va_list args;

    if (err == NULL)
        return result;
    va_start(args, format);
    error_vnote(err, format, args);
    va_end(args);
    return result;
}

/* With the lock. NULL: no memory. */
static struct pair *collective_pair_of(int rank)
{
    struct pair *pair = collective_collect.pairs[rank];

    if (pair == NULL) {
        pair = malloc(sizeof(*pair));
        if (pair != NULL)
            lane_init(pair);
        collective_collect.pairs[rank] = pair;
    }
    return pair;
}

/* ---- waiting ---- */

/* Sleeps until something changes, a slice or the deadline. With the lock. */
static void collective_backoff(int64_t deadline)
{
    int64_t slice = deadline_in_ms(SLICE_MS), until = slice < deadline ? slice : deadline;
    struct timespec at = {until / NS_PER_S, until % NS_PER_S};

    pthread_cond_timedwait(&collective_collect.changed, &collective_collect.lock, &at);
}

/* While we wait for this peer: is it alive? Its death is then told by the service thread, after what it still said. */
static void collective_watch_over(int rank, struct pair *pair, int slices)
{
    if (rank == collective_collect.rank)
        return;
    if (liveness_died(control_liveness(rank)))
        control_check_liveness();
    if (slices >= HEED_SLICES && !pair->heeded) {
        pair->heeded = true;
        control_monitor(rank);
    }
}

/* With the lock: waits for its turn on a flag. */
static int collective_seize(bool *busy, int64_t deadline)
{
    while (*busy && !collective_collect.abandoned) {
        if (deadline_passed(deadline))
            return -ETIMEDOUT;
        collective_backoff(deadline);
    }
    if (collective_collect.abandoned)
        return -ENOTCONN;
    *busy = true;
    return 0;
}

static void collective_release(bool *busy)
{
    *busy = false;
    pthread_cond_broadcast(&collective_collect.changed);
}

/* "has left the job"; "has died, or cannot be reached: its host has not answered for 9000 ms ..." */
static const char *collective_fate(int rank, int state)
{
    static _Thread_local char text[200];
    const char *why = control_peer_why(rank);

    if (state == -EPIPE)
        return "has left the job";
    snprintf(text, sizeof(text), "has died, or cannot be reached%s%s", *why != '\0' ? ": " : "",
             why);
    return text;
}

/* ---- transfers ---- */

/* What stops one transfer, if anything does. */
static int collective_advance(struct transfer *t, bool receives, struct error *err)
{
    struct pair *pair = collective_collect.pairs[t->peer];
    int result, state;

    if (t->finished)
        return 0;
    result = receives ? lane_pull(pair, t) : lane_push(pair, t);
    if (result == 0 && !t->finished)
        result =
            control_peer_state(t->peer); /* after the pull: what it said before its end counts */
    if (result == 0)
        return 0;
    if (result == -EMSGSIZE)
        return collective_complain(
            result, err, "the next message from rank %d has %llu bytes, and %llu are asked for",
            t->peer, (unsigned long long)t->head.total, (unsigned long long)t->bytes);
    state = control_peer_state(t->peer);
    if (state != 0)
        return collective_complain(state, err, "rank %d, %s, %s", t->peer,
                                   receives ? "from which a message is awaited"
                                            : "to which a message is to go",
                                   collective_fate(t->peer, state));
    return collective_complain(result, err, "a message %s rank %d: %s", receives ? "from" : "to",
                               t->peer, strerror(-result));
}

static int collective_too_late(const struct transfer *send, const struct transfer *receive,
                               struct error *err)
{
    if (receive != NULL && !receive->finished)
        return collective_complain(
            -ETIMEDOUT, err,
            "rank %d has not sent what is awaited from it in time (%llu of %llu bytes "
            "have come)",
            receive->peer, (unsigned long long)receive->done, (unsigned long long)receive->bytes);
    return collective_complain(
        -ETIMEDOUT, err,
        "rank %d has not received what it was sent in time, so that there is no room "
        "for more (%llu of %llu bytes have gone; the window is %u)",
        send->peer, (unsigned long long)send->done, (unsigned long long)send->bytes, WINDOW_BYTES);
}

static int collective_abandoned(struct error *err)
{
    return collective_complain(-ENOTCONN, err, "another thread is leaving the job (rexit)");
}

/* Both at once, until both are finished. With the lock; either may be NULL. `ends` (may be NULL): gives up when it is set.
 * *culprit: whom it failed at. */
static int collective_transfer(struct transfer *send, struct transfer *receive, const bool *ends,
                               int64_t deadline, int *culprit, struct error *err)
{
    int slices = 0, result = 0;

    for (;;) {
        if (receive != NULL)
            result = collective_advance(receive, true, err);
        if (result != 0) {
            *culprit = receive->peer;
            break;
        }
        if (send != NULL)
            result = collective_advance(send, false, err);
        if (result != 0) {
            *culprit = send->peer;
            break;
        }
        if ((send == NULL || send->finished) && (receive == NULL || receive->finished))
            return 0;
        if (ends != NULL && *ends) {
            result = -EINTR;
            break;
        }
        if (collective_collect.abandoned) {
            result = collective_abandoned(err);
            *culprit = collective_collect.rank;
            break;
        }
        if (deadline_passed(deadline)) {
            result = collective_too_late(send, receive, err);
            *culprit = receive != NULL && !receive->finished ? receive->peer : send->peer;
            break;
        }
        RPIPE_FAILPOINT("network_recv: waits");
        collective_backoff(deadline);
        slices++;
        if (receive != NULL && !receive->finished)
            collective_watch_over(receive->peer, collective_collect.pairs[receive->peer], slices);
        if (send != NULL && !send->finished)
            collective_watch_over(send->peer, collective_collect.pairs[send->peer], slices);
    }
    if (send != NULL)
        lane_cancel(collective_collect.pairs[send->peer], send);
    if (receive != NULL)
        lane_giveback(collective_collect.pairs[receive->peer], receive);
    return result;
}

/* With the lock, if 0. */
static int collective_enter_any(struct error *err)
{
    if (!control_running())
        return collective_complain(-ENOTCONN, err,
                                   "the control network is not running: rinit() comes first");
    if (control_on_service_thread())
        return collective_complain(-EDEADLK, err, "the service thread may not wait");
    pthread_mutex_lock(&collective_collect.lock);
    return 0;
}

static int collective_enter(int peer, struct error *err)
{
    int result = collective_enter_any(err);

    if (result != 0)
        return result;
    if (peer < 0 || peer >= collective_collect.size) {
        pthread_mutex_unlock(&collective_collect.lock);
        return collective_complain(-EINVAL, err, "%d is not a rank of this job of %d", peer,
                                   collective_collect.size);
    }
    if (collective_pair_of(peer) != NULL)
        return 0;
    pthread_mutex_unlock(&collective_collect.lock);
    return collective_complain(-ENOMEM, err, "no memory for messages of rank %d", peer);
}

int collect_send(int to, const void *buf, size_t bytes, int64_t deadline, struct error *err)
{
    struct transfer t = {.peer = to, .lane = LANE_USER, .from = buf, .bytes = bytes};
    int result = collective_enter(to, err), culprit;
    bool *busy;

    if (result != 0)
        return result;
    busy = &collective_collect.pairs[to]->out[LANE_USER].busy;
    result = collective_seize(busy, deadline);
    if (result == 0) {
        RPIPE_FAILPOINT("network_send: begun");
        result = collective_transfer(&t, NULL, NULL, deadline, &culprit, err);
        collective_release(busy);
    } else if (result == -ENOTCONN) {
        (void)collective_abandoned(err);
    } else {
        collective_complain(result, err, "another thread has been sending to rank %d all the time",
                            to);
    }
    pthread_mutex_unlock(&collective_collect.lock);
    return result;
}

int collect_recv(int from, void *buf, size_t bytes, int64_t deadline, struct error *err)
{
    struct transfer t = {.peer = from, .lane = LANE_USER, .to = buf, .bytes = bytes};
    int result = collective_enter(from, err), culprit;
    bool *busy;

    if (result != 0)
        return result;
    busy = &collective_collect.pairs[from]->in[LANE_USER].busy;
    result = collective_seize(busy, deadline);
    if (result == 0) {
        result = collective_transfer(NULL, &t, NULL, deadline, &culprit, err);
        collective_release(busy);
    } else if (result == -ENOTCONN) {
        (void)collective_abandoned(err);
    } else {
        collective_complain(result, err,
                            "another thread has been receiving from rank %d all the time", from);
    }
    pthread_mutex_unlock(&collective_collect.lock);
    return result;
}

/* ---- collectives ---- */

struct collective {
    enum chunk_kind kind;
    uint32_t epoch;
    int step; /* +1: round k sends to rank + 2^k; -1: to rank - 2^k */
    const bool *ends;
    int64_t deadline;
    struct error *err;
};

static const char *const collective_kind_names[PIECE_KINDS] = {"network_send", "network_barrier",
                                                               "network_allgather", "rexit"};

static int collective_partner(int distance)
{
    return (int)((((int64_t)collective_collect.rank + distance) % collective_collect.size +
                  collective_collect.size) %
                 collective_collect.size);
}

/* Tells those whom the rounds from this one on would have gone to. */
static void collective_give_up(const struct collective *c, uint32_t round, int code, int culprit)
{
    for (; ((int64_t)1 << round) < collective_collect.size; round++) {
        struct transfer t = {.peer = collective_partner(c->step * (1 << round)),
                             .lane = LANE_COLLECTIVE};
        struct pair *pair = collective_pair_of(t.peer);

        t.head = (struct chunk){
            .kind = c->kind, .code = code, .epoch = c->epoch, .round = round, .culprit = culprit};
        if (pair != NULL)
            lane_push(
                pair,
                &t); /* to the dead, or where there is no room: they will notice by themselves */
    }
}

/* What the sentence of somebody else's failure can be trusted to be. */
static int collective_warned(const struct collective *c, const struct transfer *t, int *culprit)
{
    static const int codes[] = {-ETIMEDOUT, -ECONNRESET, -EPIPE, -EPROTO, -EMSGSIZE, -ENOMEM};
    int code = -EPROTO;
    size_t i;

    for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (codes[i] == t->head.code)
            code = codes[i];
    }
    *culprit = t->head.culprit >= 0 && t->head.culprit < collective_collect.size ? t->head.culprit
                                                                                 : t->peer;
    return collective_complain(code, c->err, "rank %d says that %s failed because of rank %d: %s",
                               t->peer, collective_kind_names[c->kind], *culprit, strerror(-code));
}

static int collective_round_run(const struct collective *c, uint32_t round, const void *from,
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

    send.head = (struct chunk){.kind = c->kind, .epoch = c->epoch, .round = round, .culprit = -1};
    if (collective_pair_of(send.peer) != NULL && collective_pair_of(receive.peer) != NULL)
        result = collective_transfer(&send, &receive, c->ends, c->deadline, &culprit, c->err);
    if (result == -EPROTO)
        collective_complain(
            result, c->err, "rank %d is in its %uth collective, %s, and this rank in its %uth, %s",
            receive.peer, receive.head.epoch, collective_kind_names[receive.head.kind], c->epoch,
            collective_kind_names[c->kind]);
    if (result == 0 && receive.head.code != 0)
        result = collective_warned(c, &receive, &culprit);
    if (result != 0 && c->kind != PIECE_LEAVE)
        collective_give_up(c, round + (send.finished ? 1 : 0),
                           result == -ENOTCONN ? -EPIPE : result, culprit);
    return result;
}

/* With the lock, if 0. From then on it counts, whatever becomes of it: or ranks would not agree any more on which one they are in. */
static int collective_begin(struct collective *c)
{
    int result = collective_enter_any(c->err);

    if (result != 0)
        return result;
    result = collective_seize(&collective_collect.busy, c->deadline);
    if (result != 0) {
        pthread_mutex_unlock(&collective_collect.lock);
        if (result == -ENOTCONN)
            return collective_abandoned(c->err);
        return collective_complain(result, c->err,
                                   "another thread has been in a collective all the time");
    }
    c->epoch = ++collective_collect.epoch;
    RPIPE_FAILPOINT("collective: begun");
    return 0;
}

static int collective_end(int result)
{
    collective_release(&collective_collect.busy);
    pthread_mutex_unlock(&collective_collect.lock);
    return result;
}

/* Dissemination: after round k everybody knows of the 2^(k+1) - 1 ranks before it. With the lock. */
static int collective_disseminate(struct collective *c)
{
    uint32_t round;
    int result = 0;

    c->step = 1;
    for (round = 0; result == 0 && ((int64_t)1 << round) < collective_collect.size; round++)
        result = collective_round_run(c, round, NULL, 0, NULL, 0);
    return result;
}

int collect_barrier(int64_t deadline, struct error *err)
{
    struct collective c = {.kind = PIECE_BARRIER, .deadline = deadline, .err = err};
    int result = collective_begin(&c);

    return result != 0 ? result : collective_end(collective_disseminate(&c));
}

/* Bruck: block i is that of rank + i; in round k what is here, but no more than is wanted, goes to rank - 2^k. */
int collect_allgather(const void *mine, size_t bytes, void *all, int64_t deadline,
                      struct error *err)
{
    struct collective c = {.kind = PIECE_ALLGATHER, .step = -1, .deadline = deadline, .err = err};
    size_t whole, size, count;
    uint8_t *blocks = NULL;
    uint32_t round;
    int result = collective_begin(&c), i;

    if (result != 0)
        return result;
    size = (size_t)collective_collect.size;
    if (!__builtin_mul_overflow(bytes, size, &whole))
        blocks = malloc(whole + 1);
    if (blocks == NULL) {
        collective_give_up(
            &c, 0, -ENOMEM,
            collective_collect.rank); /* so that the others do not wait for their deadlines */
        return collective_end(collective_complain(
            -ENOMEM, err, "no memory for %zu bytes from each of %zu ranks", bytes, size));
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
    for (i = 0; result == 0 && bytes > 0 && i < collective_collect.size; i++)
        memcpy((uint8_t *)all + (size_t)collective_partner(i) * bytes, blocks + (size_t)i * bytes,
               bytes);
    free(blocks);
    return result;
}

/* ---- leaving ---- */

/* Everybody tells everybody. For jobs in which somebody has died, where a tree of messages has a hole. With the lock. */
static int collective_leave_one_by_one(int64_t deadline)
{
    int rank, slices, missing;

    for (rank = 0; rank < collective_collect.size; rank++) {
        if (rank != collective_collect.rank)
            control_post(rank, WIRE_LEAVE, NULL, 0, NULL,
                         0); /* which connects, and so finds out who is not there */
    }
    for (slices = 0;; slices++) {
        for (rank = 0, missing = 0; rank < collective_collect.size; rank++) {
            if (rank == collective_collect.rank ||
                (collective_collect.pairs[rank] != NULL &&
                 collective_collect.pairs[rank]->leaves) ||
                control_peer_state(rank) != 0)
                continue;
            missing++;
            if (liveness_died(control_liveness(rank)))
                control_check_liveness();
        }
        if (missing == 0)
            return 0;
        if (deadline_passed(deadline))
            return -ETIMEDOUT;
        collective_backoff(deadline);
    }
}

/*
 * First as a barrier. Whoever cannot finish it, because somebody is dead or does something else, tells all and waits for
 * each; that word makes every other one that is still in the barrier do the same. Who has finished the barrier knows that
 * all have come, and may leave: to the others that says as much as his word.
 */
int collect_leave(int64_t deadline)
{
    struct error err = {""};
    struct collective c = {.kind = PIECE_LEAVE,
                           .ends = &collective_collect.leaving,
                           .deadline = deadline,
                           .err = &err};
    int result = collective_begin(&c);

    if (result != 0)
        return result == -ETIMEDOUT ? result : 0;
    result = collective_collect.leaving ? -EINTR : collective_disseminate(&c);
    if (result != 0 && result != -ETIMEDOUT)
        result = collective_leave_one_by_one(deadline);
    return collective_end(result);
}

void collect_abandon(bool abandon)
{
    pthread_mutex_lock(&collective_collect.lock);
    collective_collect.abandoned = abandon;
    pthread_cond_broadcast(&collective_collect.changed);
    pthread_mutex_unlock(&collective_collect.lock);
}

/* ---- called by the control network ---- */

int collect_start(int rank, int size)
{
    pthread_condattr_t monotonic;

    collective_collect.pairs = calloc((size_t)size, sizeof(struct pair *));
    if (collective_collect.pairs == NULL)
        return -ENOMEM;
    collective_collect.rank = rank;
    collective_collect.size = size;
    collective_collect.epoch = (uint32_t)setting_number(SET_FIRST);
    collective_collect.busy = collective_collect.leaving = collective_collect.abandoned = false;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&collective_collect.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return 0;
}

void collect_stop(void)
{
    int rank;

    for (rank = 0; collective_collect.pairs != NULL && rank < collective_collect.size; rank++) {
        if (collective_collect.pairs[rank] != NULL)
            lane_free(collective_collect.pairs[rank]);
    }
    free(collective_collect.pairs);
    collective_collect.pairs = NULL;
}

int collect_message(int from, uint32_t type, const void *body, size_t bytes)
{
    const char *wrong = NULL;
    struct pair *pair;
    int result = 0;

    pthread_mutex_lock(&collective_collect.lock);
    RPIPE_FAILPOINT("network_send: piece heard");
    pair = collective_pair_of(from);
    if (pair == NULL)
        result = -ENOMEM;
    else if (type == WIRE_PIECE)
        result = lane_arrive(pair, body, bytes, &wrong);
    else if (type == WIRE_ACK)
        wrong = lane_acked(pair, body, bytes);
    else
        pair->leaves = collective_collect.leaving = true;
    pthread_cond_broadcast(&collective_collect.changed);
    pthread_mutex_unlock(&collective_collect.lock);
    if (wrong != NULL)
        control_cut_off(from, wrong);
    return result;
}

void collect_peer_gone(int rank)
{
    (void)rank; /* its state says so already, see advance() */
    pthread_mutex_lock(&collective_collect.lock);
    pthread_cond_broadcast(&collective_collect.changed);
    pthread_mutex_unlock(&collective_collect.lock);
}
