/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast.h: the path to readers of other hosts: one end of it, the writer's or a reader's (doc/multicast.md).
 *
 *   mcast.c          opening, closing, who drives: calls, the service thread; the table of the path
 *   mcast_writer.c   messages cut into packets, what readers report
 *   mcast_reader.c   packets stored into messages
 *   mcast_message.c  how the ends find each other: messages of the control network
 *   medium.h          what carries packets; medium_udp.c
 *   nak/              the protocol: pure code
 *
 * Locks: mcast_lock protects the list of ends and their names; `lock` of an end everything else in it. An end is in the list from the end of
 * mcast_open to the beginning of mcast_close. The service thread takes mcast_lock, then `lock`; a call takes `lock` alone.
 * What concerns struct rcast, which belongs to the thread that calls, is noted by the service thread and acted on by the next call.
 */
#ifndef CAST_MCAST_H
#define CAST_MCAST_H

#include "cast/cast.h"
#include "cast/medium.h"
#include "cast/nak/receiver.h"
#include "cast/nak/sender.h"

#include "util/list.h"

#include <pthread.h>

/* One reader, as the writer has it; its index is its number in the protocol. */
struct mcast_reader {
    int member;
    bool joined; /* its address is known */
    bool closed; /* it has closed its end */
    bool left;   /* the cast has been notified that it does not count */
    struct medium_address address;
    const char *violation; /* NULL: none */
};

/* A message at a reader: element number % slots. */
struct mcast_slot {
    const void *mem;
    uint64_t bytes;
    alignas(16) unsigned char small[CAST_INLINE];
};

/* A test setting: packets that are dropped and repeated where they are received. */
struct mcast_lose {
    uint64_t state;
    unsigned drop, repeat; /* percent */
};

/* How often this process has opened the paths of casts of a name; stays until rexit. */
struct mcast_name {
    struct link link;
    uint64_t context, ranks; /* ranks: hash of the list and the writer */
    uint64_t opened;
};

struct mcast {
    struct cast_path path;
    pthread_mutex_t lock;
    struct link link; /* in the list of ends */
    uint64_t context, ranks, number;
    const struct medium_ops *ops;
    struct medium *medium;
    uint64_t key;
    struct medium_address root, group;
    int64_t driven_at; /* when a call has received packets last */
    int64_t timer_at;  /* when the service thread is called; 0: it is not */
    struct mcast_lose lose;
    uint64_t first; /* number of the first message */
    uint32_t slots;

    /* writer */
    struct nak_sender sender;
    struct mcast_reader *reader;
    uint32_t readers, payload;
    struct cast_message *queue; /* messages from `cut` to `published`: element number % slots */
    uint64_t cut, published;
    uint32_t index; /* next packet of message `cut` */
    bool ending, end_sent;

    /* reader */
    struct nak_receiver receiver;
    bool attached;       /* the writer's OFFER has arrived */
    bool writer_closed;  /* its path is closed: no packet will come */
    const char *failure; /* a violation of the writer; NULL: none */
    char *heap;
    struct mcast_slot *slot;
    uint64_t freed_bytes, freed_reported; /* since the last report; the number of it */

    alignas(16) unsigned char packet[MEDIUM_PACKET_MOST + 16];
};

static inline struct mcast *mcast_of(struct cast_path *path) { return (struct mcast *)path; }

/* ---- mcast.c; `lock` held ---- */

/* Receives what has arrived, and does what is due. */
void mcast_drive(struct mcast *p);
/* Makes sure that the service thread is called when something is due. */
void mcast_set_timer(struct mcast *p, int64_t now);
/* The service thread calls when packets arrive. 0 or -errno. */
int mcast_watch(struct mcast *p, int which);

/* ---- mcast_message.c ---- */

extern pthread_mutex_t mcast_lock;
/* In the list, with its number. 0 or -ENOMEM. */
int mcast_register(struct mcast *p, struct error *err);
void mcast_unregister(struct mcast *p);
/* Sends the other ends what they need to find this one. */
void mcast_announce(struct mcast *p);
/* This end is closed. */
void mcast_announce_close(struct mcast *p);

/* ---- mcast_writer.c, mcast_reader.c; `lock` held ---- */

int mcast_writer_open(struct mcast *p, struct error *err);
void mcast_writer_close(struct mcast *p);
void mcast_writer_joined(struct mcast *p, uint32_t reader, const struct medium_address *at,
                          const char *violation);
void mcast_writer_receive(struct mcast *p, const struct nak_head *head,
                           const struct medium_address *from, int64_t now);
/* Notes readers that are dead, sends what may be sent, and asks. */
void mcast_writer_advance(struct mcast *p, int64_t now);

struct mcast_offer { /* what a reader learns of the writer */
    uint64_t key;
    struct medium_address root, group;
    uint32_t payload, member;
};
int mcast_reader_open(struct mcast *p, struct error *err);
void mcast_reader_close(struct mcast *p);
void mcast_reader_attach(struct mcast *p, const struct mcast_offer *offer);
void mcast_reader_receive(struct mcast *p, const struct nak_head *head, const void *payload,
                           const struct medium_address *from, bool by_group, int64_t now);

extern const struct cast_path_ops mcast_ops;
/* the functions of mcast_ops that these files have */
void mcast_publish(struct cast_path *path, const struct cast_message *m);
uint64_t mcast_refresh(struct cast_path *path, uint64_t need);
void mcast_position(struct cast_path *path, int member, uint64_t *read, uint64_t *freed);
void mcast_end(struct cast_path *path, uint64_t number);
int mcast_drain(struct cast_path *path);
int mcast_poll(struct cast_path *path, struct cast_message *m, struct error *err);
void mcast_release(struct cast_path *path, uint64_t number, uint64_t freed);

#endif
