/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast_drive.h: packets are received, and what is due is done. `lock` held, but where stated. */
#ifndef CAST_MCAST_DRIVE_H
#define CAST_MCAST_DRIVE_H

#include "cast/mcast_end.h"

/* Receives what has arrived, and does what is due. */
void mcast_drive(struct mcast *p);
/* Sends what is queued. Before `lock` is released by whatever may have sent: packets refer to memory of the cast. */
void mcast_flush(struct mcast *p);
/* Makes sure that the service thread calls when something is due. */
void mcast_set_timer(struct mcast *p, int64_t now);
/* The setting RPIPE_CAST_LOSE. 0, or -EINVAL and a message. */
int mcast_set_lose(struct mcast *p, struct error *err);
/* Memory for what the service thread watches. No lock held. 0 or -ENOMEM. */
int mcast_watch_reserve(struct mcast *p);
/* The service thread calls when packets arrive: 0: directly, 1: to the group. */
void mcast_watch(struct mcast *p, int which);
/* It calls no more. No lock held. */
void mcast_unwatch(struct mcast *p);

#endif
