/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_card.c: who a peer says that it is, and the way from here to there that follows from it.
 *
 * A card is fetched from the job's store once, checked, and kept until the process leaves the job: it never changes, so whoever
 * has seen the pointer reads it without a lock. Two threads may fetch it at the same time; the first to put it there wins.
 */
#include "control/service.h"

#include "bootstrap/job.h"
#include "util/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static bool peer_card_forced(long choice) { return setting_number(SET_CONTROL) == choice; }

int peer_path(const struct card *card, struct error *err)
{
    bool near =
        card_same_host(card, &control.card) && card->unix_bytes > 0 && control.card.unix_bytes > 0;

    if (card->rank == (uint32_t)control.rank)
        return CONTROL_SELF;
    if (near && !peer_card_forced(2))
        return CONTROL_UNIX;
    if (peer_card_forced(1))
        return error_set(
            err, -EHOSTUNREACH,
            "it is on another host or in another network namespace, which Unix sockets "
            "(RPIPE_CONTROL=unix) do not reach");
    if (card->tcp_port == 0 || card->addresses == 0)
        return error_set(err, -EHOSTUNREACH,
                         "it does not listen on TCP (RPIPE_CONTROL is \"unix\" there?)");
    return CONTROL_TCP;
}

/* NULL: errno is ENOMEM where only memory is missing */
const struct card *peer_card(int rank, int64_t deadline, struct error *err)
{
    struct peer *p = &control.peers[rank];
    struct card *card =
        atomic_load_explicit(&p->card, memory_order_acquire); /* pairs with the exchange below */
    struct card *none = NULL;
    uint8_t blob[JOB_CARD_MAX];
    size_t bytes;

    if (card != NULL)
        return card;
    if (job_card(rank, blob, &bytes, deadline, err) != 0)
        return NULL;
    card = malloc(sizeof(*card));
    if (card == NULL || card_check(card, blob, bytes, rank, err) != 0) {
        bool want = card == NULL;

        if (want)
            error_note(err, "no memory for the card of rank %d", rank);
        free(card);
        errno = want ? ENOMEM : EPROTO;
        return NULL;
    }
    if (!atomic_compare_exchange_strong_explicit(&p->card, &none, card, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        free(card); /* another thread was faster */
        return none;
    }
    return card;
}
