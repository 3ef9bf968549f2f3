/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.h: waiting for operations, which are advanced meanwhile. */
#ifndef COLL_ENGINE_WAIT_H
#define COLL_ENGINE_WAIT_H

#include "coll/engine/team_call.h"

typedef bool (*team_condition)(struct rteam *t, void *of);

/*
 * Advances all operations of the team until the condition is true, in this call, which it counts before it sleeps. 0; -ETIMEDOUT after timeout_ms (R_FOREVER: never), without a
 * message; -ENOTCONN; or the code of the team, where the condition has not come true before.
 */
int team_wait(struct rteam *t, struct team_call *call, team_condition condition, void *of,
              int timeout_ms);
/* The words that the operations in flight wait for, up to WAIT_WORDS. 0: there are none, or something else is awaited, too: pipes, or a free cell. Lock held. */
#define WAIT_WORDS 63
int team_awaited_words(const struct rteam *t, rboard_word_t word[WAIT_WORDS]);
/* The message of a deadline: which member has not come. Returns -ETIMEDOUT. */
int team_timed_out(struct rteam *t, const char *call, int timeout_ms) __attribute__((cold));

/* RCOLL_THREADS, RCOLL_ASYNC */
static inline void team_lock(struct rteam *t)
{
    if (UNLIKELY(t->threads))
        pthread_mutex_lock(&t->lock);
}

static inline void team_unlock(struct rteam *t)
{
    if (UNLIKELY(t->threads))
        pthread_mutex_unlock(&t->lock);
}

#endif
