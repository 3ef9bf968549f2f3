/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_card.c: see peer_card.h.
 *
 * A card is fetched from the bootstrap once, checked, and kept until the process leaves the job. It
 * never changes, so it is read without a lock. Two threads may fetch it at the same time; the first
 * to store it wins.
 */
#include "control/peer_card.h"

#include "bootstrap/job.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/settings.h"

#include <errno.h>
#include <stdlib.h>

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

const struct card *peer_card(int peer, int64_t deadline, struct error *err)
{
    struct peer *p = state_peer(peer);
    struct card *card, *none = NULL;
    uint8_t blob[JOB_CARD_MAX];
    size_t bytes;

    if (p == NULL) {
        error_note(err, "there is no %s", control_peer_name(peer));
        errno = ENOENT;
        return NULL;
    }
    card = atomic_load_explicit(&p->card, memory_order_acquire); /* pairs with the exchange below */
    if (card != NULL)
        return card;
    errno = 0;
    if (job_card(peer, blob, &bytes, deadline, err) != 0)
        return NULL;
    card = malloc(sizeof(*card));
    if (card == NULL || card_check(card, blob, bytes, peer, err) != 0) {
        bool no_memory = card == NULL;

        if (no_memory)
            error_note(err, "no memory for the card of %s", control_peer_name(peer));
        free(card);
        errno = no_memory ? ENOMEM : EPROTO;
        return NULL;
    }
    if (!atomic_compare_exchange_strong_explicit(&p->card, &none, card, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        free(card); /* another thread was faster */
        return none;
    }
    return card;
}

enum control_path control_path(int peer)
{
    const struct card *card;
    struct error err = {""};
    int path;

    if (!control_running() || state_peer(peer) == NULL)
        return CONTROL_TCP;
    if (peer == control.rank)
        return CONTROL_SELF;
    card = peer_card(peer, deadline_in_ms(CARD_MS), &err);
    path = card != NULL ? peer_card_path(card, &err) : CONTROL_TCP;
    return path >= 0 ? (enum control_path)path : CONTROL_TCP;
}

int control_host_unknown(int peer)
{
    const struct card *card;
    struct error err = {""};

    if (!control_running() || state_peer(peer) == NULL)
        return -1;
    if (!card_shows_host(&control.card))
        return control.rank;
    card = peer_card(peer, deadline_in_ms(CARD_MS), &err);
    return card != NULL && !card_shows_host(card) ? peer : -1;
}

int control_peer_backends(int peer, uint32_t *backends, bool *same_kernel, struct error *err)
{
    const struct card *card;
    struct error cause = {""};

    if (!control_running())
        return error_set(err, -ENOTCONN, "the control network is not running; call rinit first");
    if (state_peer(peer) == NULL)
        return error_set(err, -ENOENT, "there is no %s; the job has %d ranks",
                         control_peer_name(peer), control.size);
    card = peer == control.rank ? &control.card : peer_card(peer, deadline_in_ms(CARD_MS), &cause);
    if (card == NULL)
        return error_set(err, -EHOSTUNREACH, "the business card of %s cannot be read: %s",
                         control_peer_name(peer), cause.text);
    *backends = card->backends;
    *same_kernel = card_same_kernel(card, &control.card);
    return 0;
}
