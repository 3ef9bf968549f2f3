/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rendezvous.h: the exchange store: where the two halves of a channel meet, whoever comes first (model/join.pml).
 *
 * A meeting is (peer, side of the own end, ctx). It counts how often the own end has been opened, lists the own ends that
 * still need memory of this or the other process, and keeps the halves of the peer's ends that have no own end yet. Halves
 * are opaque here. All of it is under one lock, which the callers take: to look for a half and to register as open must be
 * one step.
 */
#ifndef CONTROL_RENDEZVOUS_H
#define CONTROL_RENDEZVOUS_H

#include "util/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_KEPT_MAX 262144    /* halves kept for one peer: beyond it he is talking nonsense */
#define RENDEZVOUS_BLOB_MAX 1024 /* bytes of a half that is kept */

struct rendezvous {
    int peer;
    uint32_t side; /* of the own end */
    uint32_t ctx;
    uint32_t number;  /* no other meeting has it */
    uint32_t opened;  /* incarnations of the own end so far */
    struct link ends; /* rendezvous_end: open, or closed and not yet released */
    struct link handshakes;
};

/* Embedded in whoever is an end. */
struct rendezvous_end {
    struct link link;
    struct rendezvous *rendezvous;
    uint32_t incarnation;
};

/* A half of the peer's that came before the own end. */
struct rendezvous_handshake {
    struct link link;
    uint32_t incarnation;
    bool close_message; /* the peer has closed it already, */
    uint64_t final;     /* after so many messages */
    bool events;        /* the reader has asked for event mode, */
    int event_fd;       /* by this; or -1 */
    size_t bytes;       /* 0: only the bye is known */
    unsigned char blob[];
};

void rendezvous_lock(void);
void rendezvous_unlock(void);
void rendezvous_forked(void);
void rendezvous_clear(void); /* everything; no end may be registered */

/* How often there may have been more to find than before, from 1: a half was kept, or an end closed behind which one waits. */
uint64_t rendezvous_arrivals(void);
void rendezvous_arrived(void);

struct rendezvous *rendezvous_find(int peer, uint32_t side, uint32_t ctx,
                                   bool make); /* NULL: none, or no memory */
/* The one where something of the peer's for this incarnation may have to be kept. NULL too: there is none, and he has had his share. */
struct rendezvous *rendezvous_find_for_peer(int peer, uint32_t side, uint32_t ctx,
                                            uint32_t incarnation);
struct rendezvous *rendezvous_next(size_t *cursor); /* all meetings */

/* It comes behind all that have been opened here. Numbers wrap around: ahead is what is less than half of them away. */
bool rendezvous_is_ahead(const struct rendezvous *m, uint32_t incarnation);
void rendezvous_register(struct rendezvous *m,
                         struct rendezvous_end *end); /* sets its incarnation */
void rendezvous_unregister(struct rendezvous_end *end);
struct rendezvous_end *rendezvous_find_end(struct rendezvous *m, uint32_t incarnation);

/* Keeps a copy; 0, -ENOMEM, -EEXIST (there is one), -ENOBUFS (too many of this peer), -EMSGSIZE (of more than RENDEZVOUS_BLOB_MAX). */
int rendezvous_keep(struct rendezvous *m, uint32_t incarnation, const void *blob, size_t bytes,
                    struct rendezvous_handshake **out);
struct rendezvous_handshake *rendezvous_find_handshake(struct rendezvous *m, uint32_t incarnation);
void rendezvous_drop_handshake(
    struct rendezvous *m, struct rendezvous_handshake *handshake); /* and closes its event_fd */
/* The descriptor is the store's then. False: a quarter of what this process may have open is kept already. */
bool rendezvous_keep_fd(struct rendezvous_handshake *handshake, int fd);
int rendezvous_take_fd(struct rendezvous_handshake *handshake); /* the caller's again */

#endif
