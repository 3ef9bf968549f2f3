/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rendezvous.h: the table in which the two ends of a pipe find each other, whichever is opened
 * first (model/join.pml).
 *
 * An entry is (peer, side of the own end, context). It counts how often the own end has been
 * opened, lists the own ends that still need memory of this or the other process, and keeps the
 * handshakes of the peer's ends that have no own end yet. Handshakes are opaque here. One lock
 * protects everything; the callers take it: to search for a handshake and to register an end as
 * open must be one step.
 */
#ifndef CONTROL_RENDEZVOUS_H
#define CONTROL_RENDEZVOUS_H

#include "util/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RENDEZVOUS_KEPT_MAX 262144 /* handshakes kept for one peer; more are a protocol violation */
#define RENDEZVOUS_BLOB_MAX 1024   /* bytes of a handshake that is kept */

struct rendezvous {
    int peer;
    uint32_t side;    /* of the own end */
    uint64_t context; /* of the pipe */
    uint32_t number;  /* unique among all entries */
    uint32_t opened;  /* incarnations of the own end so far */
    bool reported;    /* that both ends have the same role, or the two have different contexts */
    bool suspected;   /* that the peer has opened the context `suspect` by mistake (roles.c) */
    uint64_t suspect;
    struct link ends; /* rendezvous_end: open, or closed and not released yet */
    struct link handshakes;
    struct link all;                /* in the list of all entries */
    struct rendezvous *next_of_key; /* an entry whose key has the same hash */
};

/* A member of every end. */
struct rendezvous_end {
    struct link link;
    struct rendezvous *rendezvous; /* NULL: not registered */
    uint32_t incarnation;
};

/* A handshake of the peer that arrived before the own end was opened. */
struct rendezvous_handshake {
    struct link link;
    uint32_t incarnation;
    bool close_message; /* the peer has closed its end already */
    uint64_t final;     /* of the close message: number of messages */
    bool events;        /* the reader has requested event mode */
    int event_fd;       /* the descriptor of that request; -1: none */
    size_t bytes;       /* 0: only the close message has arrived */
    _Alignas(8) unsigned char blob[];
};

void rendezvous_lock(void);
void rendezvous_unlock(void);
void rendezvous_forked(void);
void rendezvous_clear(void); /* removes everything; no end may be registered */

/*
 * Counts events after which rpipe_pending may find more, from 1: a handshake was kept, or an end
 * was closed before one.
 */
uint64_t rendezvous_arrivals(void);
void rendezvous_arrived(void);

/* NULL: no such entry, or with `make` no memory. */
struct rendezvous *rendezvous_find(int peer, uint32_t side, uint64_t context, bool make);
/*
 * The entry that may have to keep something of the peer for this incarnation. NULL also where there
 * is none and the peer has used its share, or repeats an old incarnation.
 */
struct rendezvous *rendezvous_find_for_peer(int peer, uint32_t side, uint64_t context,
                                            uint32_t incarnation);
/* The entry after `m` in the order of their creation, the first for NULL; NULL: no more. */
struct rendezvous *rendezvous_next(struct rendezvous *m);

/*
 * This incarnation was not opened here yet. Numbers wrap around: ahead is less than half of them
 * away.
 */
bool rendezvous_is_ahead(const struct rendezvous *m, uint32_t incarnation);
/* Sets the incarnation of the end. */
void rendezvous_register(struct rendezvous *m, struct rendezvous_end *end);
void rendezvous_unregister(struct rendezvous_end *end);
struct rendezvous_end *rendezvous_find_end(struct rendezvous *m, uint32_t incarnation);

/*
 * Keeps a copy. 0, -ENOMEM, -EEXIST, -ENOBUFS (the peer's share), -EMSGSIZE (more than
 * RENDEZVOUS_BLOB_MAX).
 */
int rendezvous_keep(struct rendezvous *m, uint32_t incarnation, const void *blob, size_t bytes,
                    struct rendezvous_handshake **out);
bool rendezvous_keeps(int peer); /* some handshake of this peer */
struct rendezvous_handshake *rendezvous_find_handshake(struct rendezvous *m, uint32_t incarnation);
/* Closes its event_fd, too. */
void rendezvous_drop_handshake(struct rendezvous *m, struct rendezvous_handshake *handshake);
/*
 * Takes the descriptor over. False: a quarter of the descriptors of this process is kept already.
 */
bool rendezvous_keep_fd(struct rendezvous_handshake *handshake, int fd);
int rendezvous_take_fd(struct rendezvous_handshake *handshake); /* the caller owns it then */

#endif
