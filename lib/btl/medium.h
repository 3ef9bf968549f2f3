/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * medium.h: what carries the packets of casts between hosts (doc/multicast.md "Media").
 *
 * A medium sends packets to one address or to a group, and may lose, repeat and reorder them. No function waits. One medium belongs to
 * one end of a cast, which calls it under its lock. The contents of packets are those of the caller: lib/cast has one over UDP, a backend may have
 * another one for groups alone.
 */
#ifndef BTL_MEDIUM_H
#define BTL_MEDIUM_H

#include "util/error.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEDIUM_VERSION 1
#define MEDIUM_PACKET_MOST                                                                         \
    1472u /* bytes of a packet: what an Ethernet frame carries over UDP and IPv4 */
#define MEDIUM_HEAD_MOST 64u /* of these the head, at most */

/* On the control network too. */
enum medium_family { MEDIUM_NONE = 0, MEDIUM_IPV4 = 4, MEDIUM_IPV6 = 6, MEDIUM_GID = 16 };

struct medium_address {
    uint8_t family; /* enum medium_family */
    uint8_t zero;
    uint16_t port;       /* of UDP */
    uint32_t number;     /* of a queue pair; of a group: its Q_Key */
    uint8_t address[16]; /* network byte order */
};
static_assert(sizeof(struct medium_address) == 24, "on the wire");

struct medium;

/* The surroundings of a medium: as of a backend (btl.h). */
struct medium_host {
    const char *address; /* numeric, of this rank; "": none */
    /* The text of a setting (RPIPE_...); "" if it is not set. */
    const char *(*setting)(const char *name);
};

struct medium_ops {
    uint32_t version; /* MEDIUM_VERSION */
    const char *name;
    /* Opens one end. 0, or -errno and a message. */
    int (*open)(struct medium **medium, const struct medium_host *host, struct error *err);
    void (*close)(struct medium *medium);
    /* What packets of this end come from, and where they reach it directly. After open; of groups alone: after `group`. */
    struct medium_address (*address)(const struct medium *medium);
    /* Most bytes of a packet that this end sends. */
    size_t (*mtu)(const struct medium *medium);
    /* The group of a cast with this key, to which this end sends from now on. 0, or -errno and a message: there are no groups here. */
    int (*group)(struct medium *medium, uint64_t key, struct medium_address *group,
                 struct error *err);
    /* From now on packets to the group arrive here too. 0, or -errno and a message. */
    int (*join)(struct medium *medium, const struct medium_address *group, struct error *err);
    /* Queues a packet. The head is copied; the payload stays as it is until `flush`. A packet that cannot be sent is lost. */
    void (*send)(struct medium *medium, const struct medium_address *to, const void *head,
                 size_t head_bytes, const void *payload, size_t bytes);
    /* Sends what is queued. 0; -errno: this medium sends nothing any more. */
    int (*flush)(struct medium *medium);
    /* The next packet: its length, its sender, whether it was sent to the group; or -EAGAIN. *packet, aligned to 8, is valid until the
     * next call. */
    int (*receive)(struct medium *medium, const void **packet, struct medium_address *from,
                   bool *by_group);
    /* What becomes readable with packets: 0: those sent to this end, 1: those to the group; -1: no such descriptor. */
    int (*fd)(const struct medium *medium, int which);
};

#endif
