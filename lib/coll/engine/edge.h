/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * edge.h: messages between members on different hosts: a pipe in each direction, opened when a plan has the first message for it; and
 * casts, from one member to one of each other host, for messages to all of these.
 *
 * The tag of a message is its operation and its slot; a cast has no tags, so there it comes before the message. What comes for another operation than that which reads is kept, where it is in
 * the memory of the pipe, until its own step asks for it: nothing is copied.
 */
#ifndef COLL_ENGINE_EDGE_H
#define COLL_ENGINE_EDGE_H

#include "coll/engine/team.h"

/* Opens the pipes and casts that the program needs. 0, or the failure of rpipe. */
int edge_open_all(struct rteam *t, const struct program *p);
/* Closes all. */
void edge_close_all(struct rteam *t);

/*
 * Progress while a member waits: of the stream of the team alone, by one of the pipes that it reads, without a lock of the library; without a
 * stream, before there is such a pipe, or while that one has something that is not read, of all pipes of the process.
 */
void edge_drive(struct rteam *t);

int edge_send(struct rteam *t, struct operation *o, const struct step *s, uint32_t i);
int edge_recv(struct rteam *t, struct operation *o, const struct step *s);
/* Frees the messages that the operation has received. */
void edge_release_views(struct rteam *t, struct operation *o);

static inline void edge_release(struct rteam *t, struct operation *o)
{
    if (o->program->has_pipes)
        edge_release_views(t, o);
}

#endif
