/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contexts.h: a context of active messages, a context of messages by tag and a team of one thread, which may be in a stream; and one exchange
 * with the same at a peer by each of them, with contents that depend on a key.
 */
#ifndef TEST_LIB_CONTEXTS_H
#define TEST_LIB_CONTEXTS_H

#include "test/lib/check.h"
#include "test/lib/pattern.h"

#include <pthread.h>
#include <ram.h>
#include <rcoll.h>
#include <rmsg.h>
#include <rpipe.h>

enum { CONTEXTS_MOST = 20000 }; /* bytes of a message */

struct contexts {
    uint64_t number; /* of its contexts */
    int peer;        /* rank; may be this process */
    rstream_t stream;
    ram_t am;
    rmsg_t msg;
    rteam_t team;
    uint64_t handled; /* requests of the peer */
    uint64_t bad;     /* of these */
    char out[CONTEXTS_MOST], in[CONTEXTS_MOST];
};

static inline size_t contexts_size(uint64_t key)
{
    static const size_t sizes[] = {8, 0, 24, 300, 1500};

    return sizes[key % 5];
}

/* A handler: answers with what it thinks of the payload. */
static inline void contexts_on_request(ram_t am, ram_message_t *m, void *of)
{
    struct contexts *c = of;
    uint64_t answer = ~m->args[0];

    c->handled++;
    c->bad += m->nargs != 1 || m->bytes != contexts_size(m->args[0]) ||
              !pattern_same(m->data, m->bytes, m->args[0]);
    CHECK_OK(NULL, ram_reply(am, m, RAM_RESULT, &answer, 1, NULL, 0));
}

/* ranks: of the team, n of them. in_stream: a stream is opened for them. */
static inline void contexts_open(struct contexts *c, bool in_stream, const int *ranks, int n)
{
    const ram_handler_t handler = {"request", contexts_on_request, c};
    ram_config_t am = {.context = c->number, .handlers = &handler, .nhandlers = 1};
    rmsg_config_t msg = {.context = c->number};
    rcoll_team_config_t team = {.context = c->number};

    if (in_stream)
        CHECK_OK(NULL, rstream_open(&c->stream, NULL));
    am.stream = msg.stream = team.stream = c->stream;
    CHECK_OK(NULL, ram_init(&c->am, &am));
    CHECK_OK(NULL, rmsg_open(&c->msg, &msg));
    CHECK_OK(NULL, rcoll_team(&c->team, &team, ranks, n));
}

static inline void contexts_close(struct contexts *c)
{
    CHECK_OK(NULL, rcoll_close(c->team));
    CHECK_OK(NULL, rmsg_close(c->msg));
    CHECK_OK(NULL, ram_exit(c->am));
    if (c->stream != NULL)
        CHECK_OK(NULL, rstream_close(c->stream));
    c->stream = NULL;
}

/* A request to the peer, its answer, and a request of the peer. */
static inline void contexts_request(struct contexts *c, uint64_t key)
{
    const uint64_t until = c->handled + 1;
    ram_message_t reply;
    ram_request_t r;

    pattern_fill(c->out, contexts_size(key), key);
    CHECK_OK(NULL, ram_request(c->am, c->peer, 0, &key, 1, c->out, contexts_size(key), &r, 0));
    CHECK_OK(NULL, ram_wait(c->am, r, &reply, 0));
    CHECK(NULL, reply.nargs == 1 && reply.args[0] == ~key);
    CHECK_OK(NULL, ram_free(c->am, &reply));
    while (c->handled < until)
        CHECK(NULL, ram_serve(c->am, 1, (int)CHECK_LATE_MS) > 0);
    CHECK(NULL, c->bad == 0);
}

/* A message of so many bytes to the peer, and one from it. */
static inline void contexts_message(struct contexts *c, uint64_t mine, uint64_t theirs,
                                    size_t bytes)
{
    rmsg_request_t r[2];
    rmsg_status_t status[2];

    pattern_fill(c->out, bytes, mine);
    CHECK_OK(NULL, rmsg_irecv(c->msg, c->peer, 1, 5, c->in, sizeof(c->in), &r[0], 0));
    CHECK_OK(NULL, rmsg_isend(c->msg, c->peer, 1, 5, c->out, bytes, &r[1], 0));
    CHECK_OK(NULL, rmsg_wait_all(c->msg, r, 2, status, 0));
    CHECK(NULL, status[0].bytes == bytes && pattern_same(c->in, bytes, theirs));
}

/* The team adds a number of each member, of which the sum is known. */
static inline void contexts_sum(struct contexts *c, uint64_t mine, uint64_t sum)
{
    uint64_t all = 0;

    CHECK_OK(NULL, rcoll_allreduce(c->team, &mine, &all, 1, RGROUP_UINT64, RGROUP_SUM));
    CHECK(NULL, all == sum);
}

/* All threads of all members are here: links that are opened or closed by one of them do not disturb what another one counts. */
static inline void contexts_meet(const struct contexts *c, pthread_barrier_t *threads)
{
    CHECK_OK(NULL, rcoll_barrier(c->team));
    (void)pthread_barrier_wait(threads);
}

#endif
