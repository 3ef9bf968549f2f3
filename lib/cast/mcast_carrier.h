/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast_carrier.h: what carries the packets of one end. `lock` held, but by open and close. */
#ifndef CAST_MCAST_CARRIER_H
#define CAST_MCAST_CARRIER_H

#include "cast/mcast_end.h"

/* Opens those that are configured and possible here. 0, or -errno and a message. */
int mcast_carriers_open(struct mcast *p, struct error *err);
void mcast_carriers_close(struct mcast *p);
/* Most bytes of a packet that all carriers of this end send. */
size_t mcast_carriers_mtu(const struct mcast *p);
/* A reader receives from the groups that the writer offers. */
void mcast_carriers_join(struct mcast *p);

/* The next packet, and how it came. Its length, or -EAGAIN. */
int mcast_carriers_receive(struct mcast *p, const void **packet, struct mcast_arrival *a);
/* Sends what is queued. Before `lock` is released by whatever may have sent: packets refer to memory of the cast. */
void mcast_flush(struct mcast *p);

/* The writer: a reader has joined, which may receive from the device. */
void mcast_carriers_measure(struct mcast *p, int64_t now);
/* When mcast_carriers_tick is due; it asks readers over the device, and uses it for groups when all have answered. */
int64_t mcast_carriers_due(const struct mcast *p);
void mcast_carriers_tick(struct mcast *p, int64_t now);

#endif
