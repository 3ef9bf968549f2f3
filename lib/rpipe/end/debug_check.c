/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * debug_check.c: RMALLOC_DEBUG=1: the metadata is compared after every operation.
 *
 * Writer: every invariant of the shadow. Reader: a second instance of the heap, from which the messages that are read are
 * carved, and to which they go back before the writer takes them back: so messages that overlap are found, and a test can compare
 * the two instances (debug_check_compare).
 *
 * Threads: a call enters its end, unless that has RPIPE_THREADS, and leaves it. A second thread that enters meanwhile gets an
 * error that names both calls, and its call is not made.
 */
#include "rpipe/end/debug_check.h"

#include "alloc/heap.h"
#include "rpipe/end/error.h"
#include "rpipe/end/path.h"
#include "rpipe/end/stream.h"

#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The carved block of a message is its .prev, which the reader does not use otherwise. */

static int debug_check_open(struct rch *ch, struct error *err)
{
    struct heap_config c = {
        .algorithm = RMALLOC_FIRST_FIT,
        .unit_size = ch->cfg.unit_bytes,
        .bytes = ch->cfg.heap_bytes,
        .max_descriptors = ch->cfg.max_messages,
    };

    if (!ch->checked || config_side(&ch->cfg) != SIDE_READER || ch->cfg.op == OP_CELLS ||
        heap_create(&ch->r.second, &c) == 0)
        return 0;
    return error_set(err, -ENOMEM, "no memory for the second instance of RMALLOC_DEBUG=1");
}

int debug_check_read(struct rch *ch, struct rdesc *d)
{
    if (d->units == 0)
        return 0;
    d->prev = heap_carve(ch->r.second, d->offset, d->size);
    if (d->prev == NULL && heap_alloc_error(ch->r.second) == -ENOMEM)
        return 0; /* no memory for a check is no reason to fail */
    return d->prev != NULL ? 0 : -EPROTO;
}

void debug_check_freed(struct rch *ch, struct rdesc *d)
{
    if (d->units != 0 && d->prev != NULL)
        heap_free(ch->r.second, d->prev);
}

void debug_check_grow(struct rch *ch, uint64_t bytes)
{
    if (ch->r.second != NULL && heap_grow(ch->r.second, NULL, bytes) != 0)
        log_warn("%s: no memory to check the messages in the new segment", end_name(ch));
}

static void debug_check_release(struct rch *ch)
{
    if (config_side(&ch->cfg) != SIDE_READER)
        return;
    heap_destroy(ch->r.second);
    ch->r.second = NULL;
}

const struct end_feature debug_check_feature = {
    .name = "debug checks", .open = debug_check_open, .release = debug_check_release};

void debug_check_heap(struct rch *ch)
{
    /* acquire: pairs with end_state_set */
    struct heap *heap = writer_heap(ch, atomic_load_explicit(&ch->state, memory_order_acquire));
    struct error err = {""};

    if (heap == NULL || heap_check(heap, &err) == 0)
        return;
    log_error("%s: the metadata of the heap is corrupt: %s", end_name(ch), err.text);
    abort();
}

/* ---- one thread at a time ---- */

static _Thread_local char debug_check_thread; /* its address stands for the thread */
static _Atomic unsigned debug_check_warned;

int debug_check_enter(struct rch *ch, struct call *call)
{
    const char *inside = NULL, *name;

    if (ch->stream == NULL &&
        (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_LOCKED) != 0)
        return 0;
    if (atomic_compare_exchange_strong(&ch->inside, &inside, &debug_check_thread)) {
        atomic_store_explicit(&ch->inside_call, call_name(), memory_order_relaxed);
        ch->polled_by = NULL;
        call->inside = ch;
        return stream_debug_enter(ch, &debug_check_thread);
    }
    if (inside == &debug_check_thread) /* a call that another one of this thread makes */
        return 0;
    name = atomic_load_explicit(&ch->inside_call, memory_order_relaxed);
    log_few(&debug_check_warned, "%s: two threads are inside at the same time, in %s and in %s",
            end_name(ch), name != NULL ? name : "a call", call_name());
    return call_error(ch, -EBUSY,
                      "another thread is inside %s; one end belongs to one thread at a time, "
                      "unless it is opened with RPIPE_THREADS",
                      name != NULL ? name : "a call");
}

bool debug_check_is_inside(struct rch *ch)
{
    return atomic_load_explicit(&ch->inside, memory_order_relaxed) == &debug_check_thread;
}

/* The end may have been closed, and opened anew by another thread: it has left already. */
void debug_check_leave(struct rch *ch)
{
    const char *own = &debug_check_thread;

    if (debug_check_is_inside(ch))
        stream_debug_leave(ch, own);
    (void)atomic_compare_exchange_strong(&ch->inside, &own, NULL);
}

/* ---- the two instances beside each other ---- */

struct side_by_side {
    rvmem_block_t *block;
    size_t count, room;
    bool sent_only;
};

static int debug_check_collect(const rvmem_block_t *block, void *arg)
{
    struct side_by_side *s = arg;

    if (block->state != RVMEM_USED || (s->sent_only && desc_state(desc_of(block->d)) != DESC_SENT))
        return 0;
    if (s->count == s->room) {
        size_t room = s->room * 2 + 64;
        rvmem_block_t *more = realloc(s->block, room * sizeof(*more));

        if (more == NULL)
            return -ENOMEM;
        s->block = more;
        s->room = room;
    }
    s->block[s->count++] = *block;
    return 0;
}

/* Every block of the reader's must be in one of the writer's, from its beginning; at rest there are no others. */
static int debug_check_compare_heaps(const struct side_by_side *w, const struct side_by_side *r,
                                     bool at_rest, struct error *err)
{
    size_t i = 0, k;

    for (k = 0; k < r->count; k++) {
        while (i < w->count && w->block[i].offset < r->block[k].offset)
            i++;
        if (i < w->count && w->block[i].offset == r->block[k].offset &&
            w->block[i].bytes >= r->block[k].bytes)
            continue;
        return error_set(
            err, -EUCLEAN,
            "the reader holds %llu bytes at %llu, which the writer's shadow does not have in use",
            (unsigned long long)r->block[k].bytes, (unsigned long long)r->block[k].offset);
    }
    if (!at_rest || w->count == r->count)
        return 0;
    return error_set(err, -EUCLEAN,
                     "%zu blocks are sent and not returned, and the reader holds %zu; at rest they "
                     "must be equal",
                     w->count, r->count);
}

int debug_check_compare(struct rch *writer, struct rch *reader, bool at_rest, struct error *err)
{
    struct heap *heap =
        writer_heap(writer, atomic_load_explicit(&writer->state, memory_order_acquire));
    struct side_by_side w = {.sent_only = at_rest}, r = {.sent_only = false};
    int rc = 0;

    if (heap == NULL || reader->r.second == NULL)
        return error_set(err, -EINVAL,
                         "there are no two instances: not joined, or without RMALLOC_DEBUG=1");
    if (at_rest)
        rc = writer->path->fetch_credits(writer, NEED_MEMORY);
    if (rc == 0)
        rc = heap_check(heap, err);
    if (rc == 0)
        rc = heap_check(reader->r.second, err);
    if (rc == 0)
        rc = heap_walk(heap, debug_check_collect, &w);
    if (rc == 0)
        rc = heap_walk(reader->r.second, debug_check_collect, &r);
    if (rc == 0)
        rc = debug_check_compare_heaps(&w, &r, at_rest, err);
    free(w.block);
    free(r.block);
    return rc;
}
