/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_end.c: see peer_end.h. */
#include "control/peer_end.h"

#include "control/receive.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_UNIX_MS 50
#define DRAIN_TCP_MS 2000

static bool peer_end_word_states_death(const struct peer *p)
{
    return liveness_died(atomic_load_explicit(&p->liveness, memory_order_relaxed));
}

static void peer_end_drop_queue(struct peer *p, int state)
{
    struct link dropped, *at, *after;

    list_init(&dropped);
    pthread_mutex_lock(&control.lock);
    /* from here on nothing is posted; release: pairs with control_peer_state() */
    atomic_store_explicit(&p->state, state, memory_order_release);
    list_for_each (at, after, &p->queue) {
        list_remove(at);
        list_append(&dropped, at);
    }
    control.unsent -= p->posted - p->completed;
    p->completed = p->posted;
    list_remove(&p->ready);
    if (control.flushers > 0)
        pthread_cond_broadcast(&control.completed);
    pthread_mutex_unlock(&control.lock);
    list_for_each (at, after, &dropped)
        message_free(container_of(at, struct message, link));
}

/* ---- what is kept of a peer ---- */

/* control.lock is held. */
static void peer_end_unmap(struct peer *p, int state)
{
    const _Atomic uint32_t *word = atomic_load_explicit(&p->liveness, memory_order_relaxed);

    if (word == NULL || p->liveness_uses > 0)
        return;
    /* release: as greeting.c */
    atomic_store_explicit(&p->liveness, liveness_of_gone(state == -ECONNRESET),
                          memory_order_release);
    liveness_unmap(word);
}

/* After the hooks: the layers above have dropped what they held. */
static void peer_end_give_back(struct peer *p)
{
    struct card *card;

    pthread_mutex_lock(&control.lock);
    card = p->card;
    p->card = NULL;
    peer_end_unmap(p, atomic_load_explicit(&p->state, memory_order_relaxed));
    pthread_mutex_unlock(&control.lock);
    free(card);
}

void peer_end(struct peer *p, enum control_end end, const char *reason)
{
    int number = peer_number(p);
    struct error err = {""};

    if (atomic_load_explicit(&p->state, memory_order_relaxed) != 0)
        return;
    /* A peer that receives our FIN closes the connection: that is no death. */
    if (control.fins_sent && !peer_end_word_states_death(p))
        end = PEER_LEFT;
    if (end == PEER_LEFT)
        error_note(&err, "%s has left the job", control_peer_name(number));
    else
        error_note(&err, "%s is lost: %s", control_peer_name(number), reason);
    if (end == PEER_DIED) /* release: pairs with control_peer_why() */
        atomic_store_explicit(&p->death_reason, strdup(reason), memory_order_release);
    peer_end_drop_queue(p, end == PEER_LEFT ? -EPIPE : -ECONNRESET);
    if (p->out != NULL)
        state_drop(p->out);
    if (p->in != NULL)
        state_drop(p->in);
    p->out = p->in = NULL;
    list_remove(&p->alive);
    list_remove(&p->timed);
    p->retry_at = p->drain_until = NO_TIME;
    free(p->drain_reason);
    p->drain_reason = NULL;
    log_line(end == PEER_LEFT ? LOG_DEBUG : LOG_INFO, "%s", err.text);
    control.lanes.peer_changed(number);
    if (control.hooks.peer_gone != NULL)
        control.hooks.peer_gone(number, end, err.text);
    peer_end_give_back(p);
}

void peer_end_soon(struct peer *p, const char *reason)
{
    if (atomic_load_explicit(&p->state, memory_order_relaxed) != 0 || p->drain_until != NO_TIME)
        return;
    if (p->in == NULL) {
        peer_end(p, p->fin_received ? PEER_LEFT : PEER_DIED, reason);
        return;
    }
    p->drain_reason = strdup(reason);
    p->drain_until = deadline_in_ms(p->in->is_unix ? DRAIN_UNIX_MS : DRAIN_TCP_MS);
    state_timer(p->drain_until);
    if (list_empty(&p->timed))
        list_append(&control.timed, &p->timed);
}

void peer_end_after_drain(struct peer *p, const char *reason)
{
    struct error copy = {""};

    error_note(&copy, "%s", reason); /* it may be p->drain_reason, which reading may free */
    if (p->in != NULL)
        receive_read(p->in, RECEIVE_DRAIN_BYTES);
    peer_end(p, p->fin_received ? PEER_LEFT : PEER_DIED, copy.text);
}

void peer_end_fin(struct connection *c)
{
    struct peer *p = state_peer(c->peer);

    p->fin_received = true;
    if (!c->outgoing)
        peer_end(p, PEER_LEFT, NULL);
    else
        peer_end_soon(p, "it has left");
}

void peer_end_exiting(struct peer *p)
{
    int number = peer_number(p);

    /* release: what it had posted before has been delivered. Pairs with control_peer_exiting() */
    if (atomic_exchange_explicit(&p->exiting, true, memory_order_release))
        return;
    log_debug("%s is in rexit", control_peer_name(number));
    control.lanes.peer_changed(number);
    if (control.hooks.peer_exiting != NULL)
        control.hooks.peer_exiting(number);
}

void peer_end_check_liveness(void)
{
    struct link *at = control.alive.next;

    while (at != &control.alive) {
        struct peer *p = container_of(at, struct peer, alive);

        at = at->next;
        if (peer_end_word_states_death(p)) {
            peer_end_after_drain(p, "its process has died");
            at = control.alive.next; /* a hook may have ended others too: from the beginning */
        }
    }
}

void control_cut_off(int peer, const char *reason)
{
    struct peer *p = state_peer(peer);

    state_warn("%s is disconnected: %s", control_peer_name(peer), reason);
    if (p != NULL)
        peer_end(p, PEER_DIED, reason);
}

void control_check_liveness(void)
{
    if (!control_running() ||
        atomic_exchange_explicit(&control.check_liveness, true, memory_order_relaxed))
        return;
    state_wake();
}

int control_peer_state(int peer)
{
    const struct peer *p = control_running() ? state_peer(peer) : NULL;

    /* acquire: pairs with peer_end_drop_queue() */
    return p != NULL ? atomic_load_explicit(&p->state, memory_order_acquire) : 0;
}

bool control_peer_exiting(int peer)
{
    const struct peer *p = control_running() ? state_peer(peer) : NULL;

    /* acquire: pairs with peer_end_exiting() */
    return p != NULL && atomic_load_explicit(&p->exiting, memory_order_acquire);
}

const char *control_peer_why(int peer)
{
    const struct peer *p = control_running() ? state_peer(peer) : NULL;
    const char *reason = NULL;

    if (p != NULL) /* acquire: pairs with peer_end() */
        reason = atomic_load_explicit(&p->death_reason, memory_order_acquire);
    return reason != NULL ? reason : "";
}

const _Atomic uint32_t *control_liveness(int peer)
{
    const struct peer *p = control_running() ? state_peer(peer) : NULL;

    if (p == NULL)
        return NULL;
    if (peer == control.rank)
        return liveness_word();
    /* acquire: pairs with the release in greeting.c, after the mapping */
    return atomic_load_explicit(&p->liveness, memory_order_acquire);
}

const _Atomic uint32_t *control_liveness_hold(int peer)
{
    struct peer *p = control_running() ? state_peer(peer) : NULL;
    const _Atomic uint32_t *word;

    if (p == NULL || peer == control.rank)
        return control_liveness(peer);
    pthread_mutex_lock(&control.lock);
    word = atomic_load_explicit(&p->liveness, memory_order_acquire); /* as control_liveness() */
    p->liveness_uses += word != NULL;
    pthread_mutex_unlock(&control.lock);
    return word;
}

void control_liveness_drop(int peer, const _Atomic uint32_t *word)
{
    struct peer *p = control_running() ? state_peer(peer) : NULL;
    int state;

    if (p == NULL || peer == control.rank || word == NULL)
        return;
    pthread_mutex_lock(&control.lock);
    p->liveness_uses--;
    state = atomic_load_explicit(&p->state, memory_order_relaxed);
    if (state != 0)
        peer_end_unmap(p, state);
    pthread_mutex_unlock(&control.lock);
}

void control_check_peer(int peer)
{
    struct peer *p = control_running() ? state_peer(peer) : NULL;
    bool died;

    if (p == NULL || peer == control.rank ||
        atomic_load_explicit(&p->liveness, memory_order_relaxed) == NULL ||
        pthread_mutex_trylock(&control.lock) != 0) /* the caller repeats it */
        return;
    /* acquire: as control_liveness(); under the lock the page is not unmapped */
    died = liveness_died(atomic_load_explicit(&p->liveness, memory_order_acquire)) &&
           atomic_load_explicit(&p->state, memory_order_relaxed) == 0;
    pthread_mutex_unlock(&control.lock);
    if (died)
        control_check_liveness();
}
