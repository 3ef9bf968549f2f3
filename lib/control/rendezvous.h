/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rendezvous.h: the table in which the two ends of a pipe find each other, whichever is opened
 * first (model/join.pml).
 *
 * An entry is (peer, side of the own end, context). It lists the own ends that still need memory of
 * this or the other process, and keeps the handshakes of the peer's ends that have no own end yet.
 * Handshakes are opaque here. One lock protects everything; the callers take it: to search for a
 * handshake and to register an end as open must be one step.
 *
 * Each end has a number, unique among the ends of its process; messages about an end carry it, and
 * the handshake is the first of them. Own ends and handshakes of one entry are paired in order: the
 * first handshake without an end belongs to the first end without a handshake. So only one of the
 * two can wait, and an entry without ends and handshakes has nothing to remember: it is freed. Of
 * such entries the latest IDLE stay, because they count how often the end was opened.
 *
 * A peer has a structure while it has an entry. What concerns one peer costs what that peer has.
 */
#ifndef CONTROL_RENDEZVOUS_H
#define CONTROL_RENDEZVOUS_H

#include "util/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RENDEZVOUS_KEPT_MAX 262144 /* handshakes kept for one peer; more are a protocol violation */
#define RENDEZVOUS_BLOB_MAX 1024   /* bytes of a handshake that is kept */
#define RENDEZVOUS_IDLE 256        /* entries that stay although nothing refers to them */
#define RENDEZVOUS_GONE 256        /* closed handshakes that stay of peers that are gone */

struct rendezvous_peer {
    int peer;
    bool gone;            /* no entry of it stays idle: rendezvous_set_gone() */
    uint32_t kept;        /* handshakes */
    uint32_t waits[2];    /* entries with an unclosed handshake, by side & 1 */
    struct link entries;  /* rendezvous.of_peer */
    struct link watched;  /* rendezvous_end.watched */
    struct link watching; /* in the list of peers that have watched ends */
};

struct rendezvous {
    int peer;
    uint32_t side;    /* of the own end */
    uint64_t context; /* of the pipe */
    uint32_t opened;  /* how often the own end was opened, while this entry exists */
    uint32_t pins;    /* loops that continue with this entry: it is not freed */
    bool reported;    /* that both ends have the same role, or the two have different contexts */
    bool suspected;   /* that the peer has opened the context `suspect` by mistake (roles.c) */
    uint64_t suspect;
    struct link ends; /* rendezvous_end: open, or closed and not released yet */
    struct link handshakes;
    struct rendezvous_handshake *unclosed; /* the first one whose end is not closed; NULL: none */
    struct rendezvous_peer *of;
    struct link of_peer;            /* in the entries of its peer */
    struct link all;                /* in the list of all entries */
    struct link waiting;            /* in the list of entries that keep a handshake */
    struct link idle;               /* in the list of entries that nothing refers to */
    struct rendezvous *next_of_key; /* an entry whose key has the same hash */
};

/* A member of every end. */
struct rendezvous_end {
    struct link link;
    struct link watched;           /* in the list of its peer, while in event mode */
    struct rendezvous *rendezvous; /* NULL: not registered */
    uint32_t number;               /* unique among the ends of this process */
    uint32_t other;                /* number of the peer's end; 0: not received */
    bool paired;                   /* no handshake of the peer will be paired with it any more */
    uint32_t incarnation;          /* how often the end was opened (rendezvous.opened) */
};

/* A handshake of the peer that arrived before the own end was opened. */
struct rendezvous_handshake {
    struct link link;
    struct link gone; /* in the list of those whose peer is gone */
    struct rendezvous *of;
    uint32_t number;    /* of the peer's end */
    bool close_message; /* the peer has closed its end already: rendezvous_close_handshake() */
    uint64_t final;     /* of the close message: number of messages */
    bool events;        /* the reader has requested event mode */
    int event_fd;       /* the descriptor of that request; -1: none */
    size_t bytes;
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

/* NULL: no such entry, or with `make` no memory. The caller registers an end with a new entry, or
 * releases it. */
struct rendezvous *rendezvous_find(int peer, uint32_t side, uint64_t context, bool make);
/* Frees the entry if nothing refers to it, or lets it be idle. */
void rendezvous_release(struct rendezvous *m);
/* Between the two the entry is not freed. */
void rendezvous_pin(struct rendezvous *m);
void rendezvous_unpin(struct rendezvous *m);

/* In the order of their creation; the first for NULL. NULL: no more. */
struct rendezvous *rendezvous_next(struct rendezvous *m);
struct rendezvous *rendezvous_next_of_peer(int peer, struct rendezvous *m);
/* Those that keep a handshake, in the order in which that came to be. */
struct rendezvous *rendezvous_next_waiting(struct rendezvous *m);

/* NULL: it has no entry. */
struct rendezvous_peer *rendezvous_peer(int peer);

/*
 * The peer is gone, and the handshakes of this entry with it. Those of ends that it had closed stay, the latest of all such
 * peers: the own end that is opened for one finds out that the pipe was closed, and not lost. The
 * entry is pinned.
 */
void rendezvous_set_gone(struct rendezvous *m);

/* Sets number and incarnation of the end. */
void rendezvous_register(struct rendezvous *m, struct rendezvous_end *end);
/* The entry may be freed. */
void rendezvous_unregister(struct rendezvous_end *end);
/* As if it had never been opened. */
void rendezvous_unregister_unopened(struct rendezvous_end *end);
/* By the number of the peer's end that it is paired with; by its own number. */
struct rendezvous_end *rendezvous_find_paired(struct rendezvous *m, uint32_t other);
struct rendezvous_end *rendezvous_find_own(struct rendezvous *m, uint32_t number);
/* Pairs the first own end without a handshake. NULL: there is none. */
struct rendezvous_end *rendezvous_pair(struct rendezvous *m, uint32_t other);

/* Ends in event mode, whose peer the service thread monitors. */
void rendezvous_watch(struct rendezvous_end *end);
void rendezvous_unwatch(struct rendezvous_end *end);
struct rendezvous_peer *rendezvous_next_watched(struct rendezvous_peer *p);

/*
 * Keeps a copy, and makes the entry. 0, -ENOMEM, -EEXIST (this number is kept), -ENOBUFS (the
 * peer's share), -EMSGSIZE (more than RENDEZVOUS_BLOB_MAX).
 */
int rendezvous_keep(int peer, uint32_t side, uint64_t context, uint32_t number, const void *blob,
                    size_t bytes);
bool rendezvous_keeps(int peer); /* some handshake of this peer */
/* NULL: none. The first, and by its number. */
struct rendezvous_handshake *rendezvous_first_handshake(struct rendezvous *m);
struct rendezvous_handshake *rendezvous_find_handshake(struct rendezvous *m, uint32_t number);
/* The peer has closed its end; `final` is the number of its messages. */
void rendezvous_close_handshake(struct rendezvous_handshake *handshake, uint64_t final);
/* How many entries of this peer and side have a handshake whose end is not closed. */
uint32_t rendezvous_waits(const struct rendezvous *m);
/* Closes its event_fd, too. The entry may be freed. */
void rendezvous_drop_handshake(struct rendezvous_handshake *handshake);
/*
 * Takes the descriptor over. False: a quarter of the descriptors of this process is kept already.
 */
bool rendezvous_keep_fd(struct rendezvous_handshake *handshake, int fd);
int rendezvous_take_fd(struct rendezvous_handshake *handshake); /* the caller owns it then */

#endif
