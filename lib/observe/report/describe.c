/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * describe.c: rinfo_describe: one pipe: its configuration in force, its state, and how its bytes travel.
 */
#include "observe/report/observe_file.h"
#include "rpipe/end/path.h"
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/grow/grow.h"

#include <errno.h>
#include <rinfo.h>
#include <stdio.h>
#include <string.h>

static void describe_configuration(struct rch *ch, rinfo_pipe_t *p)
{
    const struct pipe_config *cfg = &ch->cfg;

    p->role = config_side(cfg) == SIDE_WRITER ? RPIPE_WRITER : RPIPE_READER;
    p->peer = ch->peer;
    p->context = cfg->context & ~CONTEXT_LIBRARY;
    p->op = cfg->op == OP_GET ? RPIPE_GET : RPIPE_PUT;
    p->heuristic = cfg->heuristic;
    p->mode = cfg->mode;
    p->unit_bytes = cfg->unit_bytes;
    p->heap_bytes = grow_heap_bytes(ch);
    p->max_heap_bytes = cfg->max_heap_bytes;
    p->slots = cfg->slots;
    p->sync_queue = cfg->sync_queue;
    p->inline_max = (uint32_t)ch->inline_max;
    p->incarnation = ch->published_end.incarnation;
}

static void describe_path(struct rch *ch, rinfo_pipe_t *p)
{
    snprintf(p->backend, sizeof(p->backend), "%s", ch->ops->name);
    ch->path->describe(ch, p->path, sizeof(p->path));
}

/* `made`: the end has its memory, in which `device` may be. */
static void describe_reason(struct rch *ch, rinfo_pipe_t *p, bool made)
{
    const char *staged = made ? ch->device.why : NULL;
    /* acquire: the service thread may set it now; pairs with the release in stream.c */
    const char *got = atomic_load_explicit(&ch->stream_got, memory_order_acquire);

    snprintf(p->why, sizeof(p->why), "%s%s%s%s%s", ch->why != NULL ? ch->why : "",
             staged != NULL ? "; staged: " : "", staged != NULL ? staged : "",
             got != NULL ? "; stream: " : "", got != NULL ? got : "");
}

static int describe_attempt(struct rch *ch, void *arguments)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    bool made = (state & (STATE_JOINED | STATE_ATTACHED)) != 0;
    rinfo_pipe_t *p = arguments;

    describe_configuration(ch, p);
    snprintf(p->state, sizeof(p->state), "%s", observe_state_name(state));
    if (made)
        describe_path(ch, p);
    describe_reason(ch, p, made);
    snprintf(p->cells, sizeof(p->cells), "%s", ch->cells_way != NULL ? ch->cells_way : "");
    return 0;
}

int(rinfo_describe)(rch_t ch, rinfo_pipe_t *pipe, size_t size)
{
    rinfo_pipe_t p = {0};
    struct call call;
    int rc = call_begin(&call, "rinfo_describe", ch, 0);

    if (rc == 0 && (pipe == NULL || size == 0))
        rc = call_error(ch, -EINVAL, "pipe is %s, size is %zu", pipe == NULL ? "NULL" : "given",
                        size);
    if (rc == 0)
        rc = call_once(ch, describe_attempt, &p);
    if (rc == 0) {
        memset(pipe, 0, size);
        memcpy(pipe, &p, size < sizeof(p) ? size : sizeof(p));
    }
    return call_end(&call, rc);
}
