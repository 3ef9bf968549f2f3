/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.c: the control network as the other threads see it, see control.h: start and stop, posting, questions.
 *
 * Nobody but the service thread touches a socket. A poster appends to the peer's queue under the one lock, and writes the
 * eventfd only if the thread may be asleep: it says so under the same lock, after it has found nothing to do.
 */
#include "control/control.h"

#include "control/collective.h"
#include "control/endpoint.h"
#include "bootstrap/job.h"
#include "control/liveness.h"
#include "util/membarrier.h"
#include "util/fork_fds.h"
#include "control/service.h"
#include "util/clock.h"
#include "util/limit.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/failpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)
#define CARD_MS 1000

struct control control = {.lock = PTHREAD_MUTEX_INITIALIZER,
                          .epoll = -1,
                          .wake = -1,
                          .unix_listener = -1,
                          .tcp_listener = -1};

static _Thread_local bool control_is_service_thread;

void control_enter_service_thread(void) { control_is_service_thread = true; }
bool control_on_service_thread(void) { return control_is_service_thread; }
static bool control_check_running(void)
{
    return atomic_load_explicit(&control.running, memory_order_acquire);
} /* pairs with start */
bool control_running(void) { return control_check_running(); }
static bool control_is_rank(int rank) { return rank >= 0 && rank < control.size; }

static void control_wake(void)
{
    const uint64_t one = 1;
    ssize_t n = write(control.wake, &one, sizeof(one));

    (void)n; /* full: then it is awake */
}

void control_wake_for_watch(void)
{
    bool asleep;

    if (!control_check_running())
        return;
    pthread_mutex_lock(&control.lock);
    asleep = control.asleep;
    pthread_mutex_unlock(&control.lock);
    if (asleep)
        control_wake();
}

const char *control_address(void)
{
    static char text[INET6_ADDRSTRLEN];
    const struct card_address *a = &control.card.address[0];

    *text = '\0';
    if (control.card.addresses > 0)
        (void)inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->bytes, text, sizeof(text));
    return text;
}

/* ---- start and stop ---- */

static int control_listen_all(struct error *err)
{
    long choice = setting_number(SET_CONTROL);

    if (choice != 2) {
        control.unix_listener = endpoint_listen_unix(&control.card, err);
        if (control.unix_listener < 0)
            return control.unix_listener;
    }
    if (choice != 1 && control.size > 1) {
        control.tcp_listener = endpoint_listen_tcp(&control.card, setting_text(SET_INTERFACE), err);
        if (control.tcp_listener < 0)
            return control.tcp_listener;
    }
    return 0;
}

static int control_watch_all(struct error *err)
{
    static int watch_wake = WATCH_WAKE, watch_job = WATCH_JOB, watch_unix = WATCH_UNIX,
               watch_tcp = WATCH_TCP;
    int result = 0;

    control.epoll = epoll_create1(EPOLL_CLOEXEC);
    fork_fds_add(control.epoll);
    control.wake = control.epoll >= 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    fork_fds_add(control.wake);
    if (control.wake < 0)
        result = -errno;
    if (result == 0)
        result = service_watch(control.wake, &watch_wake, true, false, false);
    if (result == 0 && job_watch() >= 0)
        result = service_watch(job_watch(), &watch_job, true, false, false);
    if (result == 0 && control.unix_listener >= 0)
        result = service_watch(control.unix_listener, &watch_unix, true, false, false);
    if (result == 0 && control.tcp_listener >= 0)
        result = service_watch(control.tcp_listener, &watch_tcp, true, false, false);
    if (result != 0)
        error_note(err, "the event queue of the service thread: %s%s", strerror(-result),
                   limit_of_watch(-result));
    return result;
}

static int control_make_peers(struct error *err)
{
    int i;

    control.peers = calloc((size_t)control.size, sizeof(*control.peers));
    if (control.peers == NULL)
        return error_set(err, -ENOMEM, "no memory for %d peers", control.size);
    for (i = 0; i < control.size; i++) {
        struct peer *p = &control.peers[i];

        list_init(&p->queue);
        list_init(&p->ready);
        list_init(&p->alive);
        list_init(&p->timed);
        p->retry_at = p->suspect_at = p->card_patience = NO_TIME;
    }
    return 0;
}

/* How many share this host's cores, for those who wait. */
static int control_count_local(void)
{
    int key_cache = job_local_size(), count = 0, rank;
    const struct card *card;
    struct error err = {""};

    if (key_cache > 0)
        return key_cache;
    for (rank = 0; rank < control.size; rank++) {
        card = peer_card(rank, DEADLINE_NOW, &err);
        if (rank == control.rank || (card != NULL && card_same_host(card, &control.card)))
            count++;
    }
    return count;
}

static int control_start_thread(struct error *err)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the application's */
    error = pthread_create(&control.thread, &attributes, service_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        error_note(err, "the service thread cannot be started: %s%s", strerror(error),
                   limit_of(error));
        return error == EAGAIN ? -ENOMEM : -error; /* -EAGAIN would say: ask again */
    }
    pthread_setname_np(control.thread, "rmalloc");
    return 0;
}

static void control_forget_peers(void)
{
    int i;

    for (i = 0; control.peers != NULL && i < control.size; i++) {
        struct peer *p = &control.peers[i];
        struct link *at, *after;

        list_for_each (at, after, &p->queue)
            message_free(container_of(at, struct message, link));
        liveness_unmap(atomic_load_explicit(&p->liveness, memory_order_relaxed));
        free(atomic_load_explicit(&p->card, memory_order_relaxed));
        free(p->reason);
        free(atomic_load_explicit(&p->ended, memory_order_relaxed));
    }
    free(control.peers);
    control.peers = NULL;
}

static void control_close_all(void)
{
    fork_fds_close(control.unix_listener);
    fork_fds_close(control.tcp_listener);
    fork_fds_close(control.wake);
    fork_fds_close(control.epoll);
    control.unix_listener = control.tcp_listener = control.wake = control.epoll = -1;
    liveness_destroy();
}

static void control_clear(void)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&control.moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
    list_init(&control.ready);
    list_init(&control.greeting);
    list_init(&control.open);
    list_init(&control.closed);
    list_init(&control.alive);
    list_init(&control.timed);
    control.asleep = control.stopping = control.goodbyes_sent = false;
    control.listening = true;
    control.unsent = 0;
    control.flushers = control.greetings = control.warnings = 0;
    control.timer = NO_TIME;
    control.next_tick = 0;
    control.stop_deadline = DEADLINE_NEVER;
    atomic_store_explicit(&control.ticking, false, memory_order_relaxed);
    atomic_store_explicit(&control.look, false, memory_order_relaxed);
}

int control_start(const struct control_hooks *hooks, int64_t deadline, struct error *err)
{
    int result;

    if (control_check_running())
        return error_set(err, -EALREADY, "the control network is already running");
    control_clear();
    control.rank = job_rank();
    control.size = job_size();
    control.hooks = *hooks;
    control.membarrier = membarrier_registered();
    result = card_make(&control.card, control.rank, err);
    RPIPE_FAILPOINT("rinit: card made");
    if (result == 0)
        result = control_make_peers(err);
    if (result == 0)
        result = liveness_create(err);
    if (result == 0)
        result = control_listen_all(err);
    RPIPE_FAILPOINT("rinit: listening");
    if (result == 0)
        result = job_publish(&control.card, sizeof(control.card), deadline, err);
    RPIPE_FAILPOINT("rinit: card published");
    if (result == 0)
        result = control_watch_all(err);
    if (result == 0 && (result = collect_start(control.rank, control.size)) != 0)
        error_note(err, "no memory for messages of %d ranks", control.size);
    if (result != 0)
        goto failed;
    control.local_ranks = control_count_local();
    atomic_store_explicit(&control.running, true,
                          memory_order_release); /* pairs with running(); hooks may post at once */
    RPIPE_FAILPOINT("rinit: before the service thread");
    result = control_start_thread(err);
    if (result != 0) {
        atomic_store_explicit(&control.running, false, memory_order_release);
        collect_stop();
        goto failed;
    }
    return 0;

failed:
    control_close_all();
    control_forget_peers();
    return result;
}

void control_stop(int64_t deadline)
{
    if (!control_check_running() || control_is_service_thread)
        return;
    pthread_mutex_lock(&control.lock);
    control.stop_deadline = deadline;
    control.stopping = true;
    control.asleep = false;
    pthread_mutex_unlock(&control.lock);
    control_wake();
    pthread_join(control.thread, NULL);
    watch_forget();
    pthread_mutex_lock(&control.lock);
    atomic_store_explicit(&control.running, false, memory_order_release);
    pthread_mutex_unlock(&control.lock);
    collect_stop();
    control_close_all();
    control_forget_peers();
}

void control_forked(void)
{
    if (!control_check_running())
        return;
    atomic_store_explicit(&control.running, false, memory_order_release);
    fork_fds_close_all();
}

/* ---- posting ---- */

static int control_queue(int to, struct message *m)
{
    struct peer *p = &control.peers[to];
    bool asleep = false;
    int result = 0;

    pthread_mutex_lock(&control.lock);
    if (!control_check_running() || control.stopping)
        result = -ENOTCONN;
    else
        result = atomic_load_explicit(&p->state, memory_order_relaxed);
    if (result == 0) {
        list_append(&p->queue, &m->link);
        p->posted++;
        control.unsent++;
        if (list_empty(&p->ready))
            list_append(&control.ready, &p->ready);
        asleep = control.asleep;
        control.asleep = false; /* one write wakes it */
    }
    pthread_mutex_unlock(&control.lock);
    RPIPE_FAILPOINT("message: queued");
    if (result != 0)
        message_free(m);
    else if (asleep)
        control_wake();
    return result;
}

static int control_enqueue(int to, uint32_t type, const void *body, size_t bytes, const int *fds,
                           int nfds)
{
    struct message *m = message_new(type, body, bytes, fds, nfds);

    return m != NULL ? control_queue(to, m) : -errno;
}

int control_post(int to, uint32_t type, const void *body, size_t bytes, const int *fds, int nfds)
{
    if (!control_check_running())
        return -ENOTCONN;
    if (!control_is_rank(to) || type < WIRE_PING || bytes > CONTROL_BODY_MAX || nfds < 0 ||
        nfds > CONTROL_FDS_MAX || (bytes > 0 && body == NULL))
        return -EINVAL;
    if (nfds > 0 && control_path(to) == CONTROL_TCP)
        return -ENOTSUP;
    return control_enqueue(to, type, body, bytes, fds, nfds);
}

struct control_message *control_message_alloc(uint32_t type, size_t bytes)
{
    static const uint8_t nothing[CONTROL_MESSAGE_MAX];

    return bytes <= sizeof(nothing)
               ? (struct control_message *)message_new(type, nothing, bytes, NULL, 0)
               : NULL;
}

void control_message_free(struct control_message *made)
{
    if (made != NULL)
        message_free((struct message *)made);
}

int control_post_message(int to, struct control_message *made, const void *body)
{
    struct message *m = (struct message *)made;

    if (!control_check_running() || !control_is_rank(to)) {
        message_free(m);
        return -ENOTCONN;
    }
    memcpy(m->body, body, m->frame.bytes);
    return control_queue(to, m);
}

/* Waits until p has sent what it had when the call began. Called with the lock. */
static int control_flush_one(struct peer *p, int64_t deadline)
{
    uint64_t goal = p->posted;
    struct timespec until;

    while (p->gone < goal) {
        if (deadline_passed(deadline))
            return -ETIMEDOUT;
        if (deadline == DEADLINE_NEVER) {
            pthread_cond_wait(&control.moved, &control.lock);
            continue;
        }
        until = (struct timespec){deadline / NS_PER_S, deadline % NS_PER_S};
        pthread_cond_timedwait(&control.moved, &control.lock, &until);
    }
    return 0;
}

int control_flush(int to, int64_t deadline)
{
    int result = 0, rank;

    if (!control_check_running())
        return -ENOTCONN;
    if (control_is_service_thread)
        return -EDEADLK;
    if (to != -1 && !control_is_rank(to))
        return -EINVAL;
    pthread_mutex_lock(&control.lock);
    control.flushers++;
    for (rank = to == -1 ? 0 : to; rank < (to == -1 ? control.size : to + 1) && result == 0; rank++)
        result = control_flush_one(&control.peers[rank], deadline);
    control.flushers--;
    pthread_mutex_unlock(&control.lock);
    return result;
}

uint64_t control_backlog(int to)
{
    uint64_t backlog = 0;

    pthread_mutex_lock(&control.lock);
    if (control_check_running() && control_is_rank(to))
        backlog = control.peers[to].posted - control.peers[to].gone;
    pthread_mutex_unlock(&control.lock);
    return backlog;
}

/* ---- questions ---- */

enum control_path control_path(int rank)
{
    const struct card *card;
    struct error err = {""};
    int path;

    if (!control_check_running() || !control_is_rank(rank))
        return CONTROL_TCP;
    if (rank == control.rank)
        return CONTROL_SELF;
    card = peer_card(rank, deadline_in_ms(CARD_MS), &err);
    path = card != NULL ? peer_path(card, &err) : CONTROL_TCP;
    return path >= 0 ? (enum control_path)path : CONTROL_TCP;
}

int control_peer_backends(int rank, uint32_t *backends, bool *same_kernel, struct error *err)
{
    const struct card *card;
    struct error said = {""};

    if (!control_check_running() || !control_is_rank(rank))
        return error_set(err, -ENOTCONN, "the control network does not run, or there is no rank %d",
                         rank);
    card = rank == control.rank ? &control.card : peer_card(rank, deadline_in_ms(CARD_MS), &said);
    if (card == NULL)
        return error_set(err, -EHOSTUNREACH, "rank %d does not say which backends it has: %s", rank,
                         said.text);
    *backends = card->backends;
    *same_kernel = card_same_kernel(card, &control.card);
    return 0;
}

const _Atomic uint32_t *control_liveness(int rank)
{
    if (!control_check_running() || !control_is_rank(rank))
        return NULL;
    if (rank == control.rank)
        return liveness_word();
    return atomic_load_explicit(&control.peers[rank].liveness,
                                memory_order_acquire); /* the mapping was made before */
}

int control_peer_state(int rank)
{
    if (!control_check_running() || !control_is_rank(rank))
        return 0;
    return atomic_load_explicit(&control.peers[rank].state, memory_order_acquire);
}

const char *control_peer_why(int rank)
{
    const char *why;

    if (!control_check_running() || !control_is_rank(rank))
        return "";
    why = atomic_load_explicit(&control.peers[rank].ended,
                               memory_order_acquire); /* pairs with peer_end */
    return why != NULL ? why : "";
}

bool control_peer_membarrier(int rank)
{
    if (!control_check_running() || !control_is_rank(rank))
        return false;
    return rank == control.rank
               ? control.membarrier
               : atomic_load_explicit(&control.peers[rank].membarrier, memory_order_relaxed);
}

bool control_membarrier(void) { return control_check_running() && control.membarrier; }
int control_local_ranks(void) { return control_check_running() ? control.local_ranks : 1; }

void control_set_ticking(bool on)
{
    if (!control_check_running())
        return;
    atomic_store_explicit(&control.ticking, on, memory_order_relaxed);
    control_wake();
}

void control_check_liveness(void)
{
    if (!control_check_running() ||
        atomic_exchange_explicit(&control.look, true, memory_order_relaxed))
        return;
    control_wake();
}

void control_monitor(int rank)
{
    if (control_check_running() && control_is_rank(rank) && rank != control.rank &&
        control_peer_state(rank) == 0)
        control_enqueue(rank, WIRE_PING, NULL, 0, NULL, 0);
}
