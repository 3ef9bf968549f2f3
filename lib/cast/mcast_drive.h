/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast_drive.h: packets are received, and what is due is done. `lock` held, but where stated. */
#ifndef CAST_MCAST_DRIVE_H
#define CAST_MCAST_DRIVE_H

#include "cast/mcast_end.h"

/* Receives what has arrived, and does what is due. */
void mcast_drive(struct mcast *p);
/* Sleeps until packets have arrived, or something is due, for at most `ns`. No lock held. */
void mcast_await(struct mcast *p, int64_t ns);
/* Makes sure that the service thread calls when something is due. */
void mcast_set_timer(struct mcast *p, int64_t now);
/* The setting RPIPE_CAST_LOSE. 0, or -EINVAL and a message. */
int mcast_set_lose(struct mcast *p, struct error *err);
/* Memory for what the service thread watches. No lock held. 0 or -ENOMEM. */
int mcast_watch_reserve(struct mcast *p);
/* The service thread calls when packets arrive: those sent to this end, to the group, to the group over the device. */
enum mcast_watch_kind { MCAST_DIRECT, MCAST_OF_GROUP, MCAST_OF_DEVICE };
void mcast_watch(struct mcast *p, enum mcast_watch_kind which);
/* It calls no more. No lock held. */
void mcast_unwatch(struct mcast *p);

#endif
