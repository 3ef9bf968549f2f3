/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * feature.h: features of an end: what only some pipes have. Opening, joining and closing iterate over the table and
 * name no feature; a pipe without a feature has NULL in the member of struct rch that belongs to it.
 *
 * The table is made when the library is linked (lib/rpipe/features.c), above all features. All members but the name are
 * optional.
 */
#ifndef RPIPE_END_FEATURE_H
#define RPIPE_END_FEATURE_H

#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"
#include "util/error.h"

struct awaited;
struct handshake;

struct feature_message {
    enum message_type type; /* 0: end of the list */
    struct message_handler handler;
};

struct end_feature {
    const char *name;
    const struct feature_message *messages; /* what it receives */

    /* rpipe, before the end is registered; the backend is chosen. Releases nothing on failure. */
    int (*open)(struct rch *ch, struct error *err);
    /* Adds to the handshake record of this end. */
    void (*offer)(const struct rch *ch, struct handshake *h);
    /* The peer's handshake is here: attaches what it names. Rendezvous lock held. */
    int (*attach)(struct rch *ch, const struct handshake *h, struct error *err);

    /* What this end has requested from its peer is done: 0, R_PENDING, or an error. */
    int (*settled)(struct rch *ch);
    /* rclose, before anything else: 0 if the program's memory is not in use; else R_PENDING and what is awaited. */
    int (*quiesce)(struct rch *ch, struct awaited *awaited);
    /* A call has found that the peer of a writer is lost, with this code. */
    void (*peer_lost)(struct rch *ch, int code);
    /* rclose: the end will be closed. */
    void (*close)(struct rch *ch);
    /* Gives back everything; the connection is closed, the end's areas are still there. Rendezvous lock held. */
    void (*release)(struct rch *ch);
    /* rexit, when all ends are closed and no other thread is in a call: closes what else is open. Boards are still there. */
    void (*leave)(int64_t deadline);
};

/* Ends with NULL. They are opened and attached in this order, and released in the opposite one. */
extern const struct end_feature *const end_features[];

void features_register_messages(void); /* before the service thread starts */
int features_open(struct rch *ch, struct error *err);
void features_offer(const struct rch *ch, struct handshake *h);
int features_attach(struct rch *ch, const struct handshake *h, struct error *err);
int features_settled(struct rch *ch);
int features_quiesce(struct rch *ch, struct awaited *awaited);
void features_peer_lost(struct rch *ch, int code);
void features_close(struct rch *ch);
void features_release(struct rch *ch);
void features_leave(int64_t deadline);

#endif
