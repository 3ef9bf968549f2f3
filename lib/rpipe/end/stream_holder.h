/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_holder.h: what is open in a stream besides pipes: contexts and teams, which open pipes when they need them.
 *
 * A holder is a name, for messages; two of the same name are alike. A stream that has one stays open, so a pipe that is opened late finds it.
 * The mutex of streams is held in all calls.
 */
#ifndef RPIPE_END_STREAM_HOLDER_H
#define RPIPE_END_STREAM_HOLDER_H

#include "util/error.h"
#include "util/list.h"

#include <stddef.h>

#define STREAM_HOLDER_BYTES 64 /* of a name; a longer one is truncated */

struct stream_holders {
    struct link list;
    size_t count;
};

void stream_holders_init(struct stream_holders *h);
/* 0, or -ENOMEM and the message. */
int stream_holders_add(struct stream_holders *h, const char *name, struct error *err);
/* 0, or -ENOENT and the message. */
int stream_holders_remove(struct stream_holders *h, const char *name, struct error *err);
/* "ram context 3, rmsg context 4 and 2 more"; "": none. */
void stream_holders_print(const struct stream_holders *h, char *text, size_t bytes);
void stream_holders_free(struct stream_holders *h);

#endif
