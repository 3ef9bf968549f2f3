/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast_writer.h: the writer's end of the path to other hosts. `lock` held. */
#ifndef CAST_MCAST_WRITER_H
#define CAST_MCAST_WRITER_H

#include "cast/mcast_end.h"

int mcast_writer_open(struct mcast *p, struct error *err);
void mcast_writer_close(struct mcast *p);
/* 0: this reader lives; -EPIPE: it has left the job, or is in rexit, where it reads nothing any more; -ECONNRESET: it has died. */
int mcast_writer_peer(const struct mcast *p, const struct mcast_reader *r);
/* A reader has sent its address, or is not possible: `violation`. */
void mcast_writer_joined(struct mcast *p, uint32_t reader, const struct medium_address *at,
                         const char *violation);
void mcast_writer_receive(struct mcast *p, const struct nak_head *head,
                          const struct mcast_arrival *a, int64_t now);
/* Notes readers that are dead, sends what may be sent, and asks. */
void mcast_writer_advance(struct mcast *p, int64_t now);
/* Sends packets of what is published, as the window admits. */
void mcast_writer_send(struct mcast *p, int64_t now);

#endif
