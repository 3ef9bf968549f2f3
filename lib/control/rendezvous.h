/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store.h: the exchange store: where the two halves of a channel meet, whoever comes first (model/join.pml).
 *
 * A meeting is (peer, side of the own end, ctx). It counts how often the own end has been opened, lists the own ends that
 * still need memory of this or the other process, and keeps the halves of the peer's ends that have no own end yet. Halves
 * are opaque here. All of it is under one lock, which the callers take: to look for a half and to register as open must be
 * one step.
 */
#ifndef BOOTSTRAP_STORE_H
#define BOOTSTRAP_STORE_H

#include "util/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_KEPT_MAX 262144 /* halves kept for one peer: beyond it he is talking nonsense */
#define STORE_BLOB_MAX 1024   /* bytes of a half that is kept */

struct meeting {
    int peer;
    uint32_t side; /* of the own end */
    uint32_t ctx;
    uint32_t number;  /* no other meeting has it */
    uint32_t opened;  /* incarnations of the own end so far */
    struct link ends; /* store_end: open, or closed and not yet released */
    struct link halves;
};

/* Embedded in whoever is an end. */
struct store_end {
    struct link link;
    struct meeting *meeting;
    uint32_t incarnation;
};

/* A half of the peer's that came before the own end. */
struct store_half {
    struct link link;
    uint32_t incarnation;
    bool bye;       /* the peer has closed it already, */
    uint64_t final; /* after so many messages */
    bool events;    /* the reader has asked for event mode, */
    int event_fd;   /* by this; or -1 */
    size_t bytes;   /* 0: only the bye is known */
    unsigned char blob[];
};

void store_lock(void);
void store_unlock(void);
void store_forked(void);
void store_clear(void); /* everything; no end may be registered */

/* How often there may have been more to find than before, from 1: a half was kept, or an end closed behind which one waits. */
uint64_t store_arrivals(void);
void store_arrived(void);

struct meeting *store_meeting(int peer, uint32_t side, uint32_t ctx, bool make); /* NULL: none, or no memory */
/* The one where something of the peer's for this incarnation may have to be kept. NULL too: there is none, and he has had his share. */
struct meeting *store_visited(int peer, uint32_t side, uint32_t ctx, uint32_t incarnation);
struct meeting *store_next(size_t *cursor); /* all meetings */

/* It comes behind all that have been opened here. Numbers wrap around: ahead is what is less than half of them away. */
bool store_is_ahead(const struct meeting *m, uint32_t incarnation);
void store_register(struct meeting *m, struct store_end *end); /* sets its incarnation */
void store_unregister(struct store_end *end);
struct store_end *store_find_end(struct meeting *m, uint32_t incarnation);

/* Keeps a copy; 0, -ENOMEM, -EEXIST (there is one), -ENOBUFS (too many of this peer), -EMSGSIZE (of more than STORE_BLOB_MAX). */
int store_keep(struct meeting *m, uint32_t incarnation, const void *blob, size_t bytes, struct store_half **out);
struct store_half *store_find_half(struct meeting *m, uint32_t incarnation);
void store_drop_half(struct meeting *m, struct store_half *half); /* and closes its event_fd */
/* The descriptor is the store's then. False: a quarter of what this process may have open is kept already. */
bool store_keep_fd(struct store_half *half, int fd);
int store_take_fd(struct store_half *half); /* the caller's again */

#endif
