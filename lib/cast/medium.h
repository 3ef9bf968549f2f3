/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * medium.h: what carries the packets of casts between hosts (doc/multicast.md "Media").
 *
 * A medium sends packets to one address or to a group, and may lose, repeat and reorder them. No function waits. One medium belongs to
 * one end of a cast, which calls it under its lock.
 */
#ifndef CAST_MEDIUM_H
#define CAST_MEDIUM_H

#include "cast/nak/wire.h"
#include "util/error.h"

#include <stdbool.h>

#define MEDIUM_PACKET_MOST                                                                         \
    1472u /* bytes of a packet: what an Ethernet frame carries over UDP and IPv4 */

/* On the control network too. */
struct medium_address {
    uint8_t family; /* 4 or 6; 0: none */
    uint8_t zero;
    uint16_t port;
    uint8_t address[16]; /* network byte order */
};
static_assert(sizeof(struct medium_address) == 20, "on the wire");

struct medium;

struct medium_ops {
    const char *name;
    /* Opens the end of a rank whose address is `own`, numeric. 0, or -errno and a message. */
    int (*open)(struct medium **medium, const char *own, struct error *err);
    void (*close)(struct medium *medium);
    /* Where packets reach this end directly. */
    struct medium_address (*address)(const struct medium *medium);
    /* Most bytes of a packet that this end sends. */
    size_t (*mtu)(const struct medium *medium);
    /* The group of a cast with this key; family 0: there are no groups here. */
    struct medium_address (*group)(const struct medium *medium, uint64_t key);
    /* From now on packets to the group arrive here too. 0, or -errno and a message. */
    int (*join)(struct medium *medium, const struct medium_address *group, struct error *err);
    /* A packet that cannot be sent is lost. */
    void (*send)(struct medium *medium, const struct medium_address *to,
                 const struct nak_head *head, const void *payload);
    /* The next packet: its length, its sender, whether it was sent to the group; or -EAGAIN. */
    int (*receive)(struct medium *medium, void *packet, size_t room, struct medium_address *from,
                   bool *by_group);
    /* What becomes readable with packets: 0: those sent to this end, 1: those to the group; -1: no such descriptor. */
    int (*fd)(const struct medium *medium, int which);
};

extern const struct medium_ops medium_udp_ops;

#endif
