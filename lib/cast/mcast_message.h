/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast_message.h: how the ends of a cast between hosts find each other: messages of the control network. */
#ifndef CAST_MCAST_MESSAGE_H
#define CAST_MCAST_MESSAGE_H

#include "cast/mcast_end.h"

extern pthread_mutex_t mcast_lock;
/* In the list, with its number. 0 or -ENOMEM. */
int mcast_register(struct mcast *p, struct error *err);
void mcast_unregister(struct mcast *p);
/* Sends the other ends what they need to find this one. */
void mcast_announce(struct mcast *p);
/* This end is closed. */
void mcast_announce_close(struct mcast *p);

#endif
