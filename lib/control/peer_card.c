/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_card.c: see peer_card.h.
 *
 * A card is fetched from the bootstrap once, checked, and kept until the peer has ended: the service
 * thread frees it then, so that other threads do not access it. What they need of it is copied, and
 * stays: the bootstrap is not asked for a peer that is gone. Two threads may fetch a card at the same
 * time; the first to store it wins.
 */
#include "control/peer_card.h"

#include "bootstrap/job.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CARD_MS 1000

static bool peer_card_forced(long choice) { return setting_number(SET_CONTROL) == choice; }

int peer_card_path(const struct card *card, struct error *err)
{
    bool near =
        card_same_host(card, &control.card) && card->unix_bytes > 0 && control.card.unix_bytes > 0;

    if (card->rank == (uint32_t)control.rank)
        return CONTROL_SELF;
    if (near && !peer_card_forced(2))
        return CONTROL_UNIX;
    if (peer_card_forced(1))
        return error_set(err, -EHOSTUNREACH,
                         "it is on another host or in another network namespace, "
                         "which Unix sockets "
                         "(RPIPE_CONTROL=unix) do not reach");
    if (card->tcp_port == 0 || card->addresses == 0)
        return error_set(err, -EHOSTUNREACH,
                         "it does not listen on TCP (is RPIPE_CONTROL \"unix\" there?)");
    return CONTROL_TCP;
}

/* Of the bootstrap. 0 or -errno and a message. */
static int peer_card_fetch(int peer, struct card *card, int64_t deadline, struct error *err)
{
    uint8_t blob[JOB_CARD_MAX];
    size_t bytes;
    int result = job_card(peer, blob, &bytes, deadline, err);

    return result != 0 ? result : card_check(card, blob, bytes, peer, err);
}

static struct card_facts peer_card_facts_of(const struct card *card)
{
    struct error unused = {""};
    struct control_process process = {.pid = card_same_pids(card, &control.card) ? (int)card->pid
                                                                                 : -1};

    memcpy(&process.id, card->process_id, sizeof(process.id));
    return (struct card_facts){.known = true,
                               .same_kernel = card_same_kernel(card, &control.card),
                               .shows_host = card_shows_host(card),
                               .path = peer_card_path(card, &unused),
                               .backends = card->backends,
                               .host = card_host(card),
                               .process = process};
}

/* Keeps the card, unless another thread was faster, or the peer has ended. 0 or -ENOMEM. */
static int peer_card_keep(struct peer *p, const struct card *card)
{
    const struct card_facts facts = peer_card_facts_of(card);
    struct card *copy = malloc(sizeof(*copy));
    const int result = copy != NULL ? 0 : -ENOMEM;

    if (copy != NULL)
        *copy = *card;
    pthread_mutex_lock(&control.lock);
    if (!p->facts.known)
        p->facts = facts; /* of the card that is kept */
    if (p->card == NULL && atomic_load_explicit(&p->state, memory_order_relaxed) == 0) {
        p->card = copy;
        copy = NULL;
    }
    pthread_mutex_unlock(&control.lock);
    free(copy);
    return result;
}

static const struct card *peer_card_kept(struct peer *p)
{
    const struct card *card;

    pthread_mutex_lock(&control.lock);
    card = p->card;
    pthread_mutex_unlock(&control.lock);
    return card;
}

/* The bootstrap is not asked for the card of a peer that is gone: 0, or -ENOENT and a message. */
static int peer_card_refused(struct peer *p, struct error *err)
{
    if (atomic_load_explicit(&p->state, memory_order_relaxed) == 0)
        return 0;
    return error_set(err, -ENOENT, "%s was lost, or had left, before",
                     control_peer_name(peer_number(p)));
}

/* On any thread. 0 or -errno and a message. */
static int peer_card_facts(struct peer *p, struct card_facts *facts, struct error *err)
{
    struct card card;
    int result;

    pthread_mutex_lock(&control.lock);
    *facts = p->facts;
    pthread_mutex_unlock(&control.lock);
    if (facts->known)
        return 0;
    if ((result = peer_card_refused(p, err)) != 0)
        return result;
    result = peer_card_fetch(peer_number(p), &card, deadline_in_ms(CARD_MS), err);
    if (result != 0)
        return result;
    (void)peer_card_keep(p, &card); /* without memory the facts alone */
    pthread_mutex_lock(&control.lock);
    *facts = p->facts;
    pthread_mutex_unlock(&control.lock);
    return 0;
}

const struct card *peer_card(int peer, int64_t deadline, struct error *err)
{
    struct peer *p = state_peer(peer);
    const struct card *kept = p != NULL ? peer_card_kept(p) : NULL;
    struct card card;
    int result = 0;

    errno = 0;
    if (kept != NULL)
        return kept;
    if (p == NULL)
        result = error_set(err, -ENOENT, "there is no %s", control_peer_name(peer));
    else
        result = peer_card_refused(p, err);
    if (result == 0)
        result = peer_card_fetch(peer, &card, deadline, err);
    if (result == 0 && (result = peer_card_keep(p, &card)) != 0)
        error_note(err, "no memory for the card of %s", control_peer_name(peer));
    if (result == 0)
        return peer_card_kept(p);
    errno = -result;
    return NULL;
}

enum control_path control_path(int peer)
{
    struct peer *p = control_running() ? state_peer(peer) : NULL;
    struct card_facts facts;
    struct error err = {""};

    if (p == NULL)
        return CONTROL_TCP;
    if (peer == control.rank)
        return CONTROL_SELF;
    if (peer_card_facts(p, &facts, &err) != 0 || facts.path < 0)
        return CONTROL_TCP;
    return (enum control_path)facts.path;
}

int control_host_unknown(int peer)
{
    struct peer *p = control_running() ? state_peer(peer) : NULL;
    struct card_facts facts;
    struct error err = {""};

    if (p == NULL)
        return -1;
    if (!card_shows_host(&control.card))
        return control.rank;
    if (peer_card_facts(p, &facts, &err) != 0)
        return -1;
    return facts.shows_host ? -1 : peer;
}

/* Of any rank, this one included. */
static int peer_card_facts_any(int peer, struct card_facts *facts, struct error *err)
{
    struct error cause = {""};
    struct peer *p;

    if (!control_running())
        return error_set(err, -ENOTCONN, "the control network is not running; call rinit first");
    p = state_peer(peer);
    if (p == NULL)
        return error_set(err, -ENOENT, "there is no %s; the job has %d ranks",
                         control_peer_name(peer), control.size);
    if (peer == control.rank)
        *facts = peer_card_facts_of(&control.card);
    else if (peer_card_facts(p, facts, &cause) != 0)
        return error_set(err, -EHOSTUNREACH, "the business card of %s cannot be read: %s",
                         control_peer_name(peer), cause.text);
    return 0;
}

int control_peer_backends(int peer, uint32_t *backends, bool *same_kernel, struct error *err)
{
    struct card_facts facts = {0};
    int result = peer_card_facts_any(peer, &facts, err);

    if (result != 0)
        return result;
    *backends = facts.backends;
    *same_kernel = facts.same_kernel;
    return 0;
}

int control_process(int peer, struct control_process *process, struct error *err)
{
    struct card_facts facts;
    int result = peer_card_facts_any(peer, &facts, err);

    if (result == 0)
        *process = facts.process;
    return result;
}

int control_host(int peer, struct control_host *host, struct error *err)
{
    struct card_facts facts;
    int result = peer_card_facts_any(peer, &facts, err);

    if (result == 0)
        *host = facts.host;
    return result;
}
