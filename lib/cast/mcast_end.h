/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_end.h: the path to readers of other hosts: one end of it, the writer's or a reader's (doc/multicast.md).
 *
 *   mcast.c          operations, opening, closing
 *   mcast_drive.c    packets are received, and what is due is done: by calls, and by the service thread
 *   mcast_writer.c   messages cut into packets, what readers report
 *   mcast_reader.c   packets stored into messages
 *   mcast_message.c  how the ends find each other: messages of the control network
 *   mcast_carrier.c  which media carry packets
 *   medium_udp.c     one (btl/medium.h); the other is of the backend verbs
 *   nak/             the protocol: pure code
 *
 * Locks: mcast_lock protects the list of ends and their names; `lock` of an end everything else in it. An end is in the list from the end of
 * mcast_open to the beginning of mcast_close. The service thread takes mcast_lock, then `lock`; a call takes `lock` alone.
 * What concerns struct rcast, which belongs to the thread that calls, is noted by the service thread and acted on by the next call.
 */
#ifndef CAST_MCAST_END_H
#define CAST_MCAST_END_H

#include "btl/medium.h"
#include "cast/cast.h"
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

enum mcast_carrier_kind { MCAST_UDP, MCAST_DEVICE, MCAST_CARRIERS };

/* What carries packets (mcast_carrier.c); the second one packets to the group alone. `medium` NULL: there is none. */
struct mcast_carrier {
    const struct medium_ops *ops;
    struct medium *medium;
    struct medium_address root, group; /* where the writer sends from, and to */
};

/* How a packet has come. */
struct mcast_arrival {
    struct medium_address from;
    enum mcast_carrier_kind carrier;
    uint8_t by; /* NAK_BY_...; 0: it was sent to this end */
};

struct mcast {
    struct cast_path path;
    pthread_mutex_t lock;
    struct link link; /* in the list of ends */
    uint64_t context, ranks, number;
    struct mcast_carrier carrier[MCAST_CARRIERS];
    bool device_named; /* by a setting, or the configuration */
    uint64_t key;
    int64_t driven_at; /* when a call has received packets last */
    int64_t timer_at;  /* when the service thread is called; 0: it is not */
    bool more;         /* packets were left when those had been received that are taken at a time */
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
    unsigned probes; /* questions over the device since a reader has joined */
    int64_t probe_at, probe_delay;

    /* reader */
    struct nak_receiver receiver;
    bool attached;       /* the writer's OFFER has arrived */
    bool asked;          /* once more, after it has begun rexit: it answers by OFFER or GONE */
    bool writer_closed;  /* its path is closed: no packet will come */
    const char *failure; /* a violation of the writer; NULL: none */
    char *heap;
    struct mcast_slot *slot;
    uint64_t freed_bytes, freed_reported; /* since the last report; the number of it */
};

static inline struct mcast *mcast_of(struct cast_path *path) { return (struct mcast *)path; }

#endif
