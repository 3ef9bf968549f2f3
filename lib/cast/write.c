/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write.c: rcast_alloc, rcast_write, rcast_send: memory, and the window; see cast.h.
 *
 * A message of up to CAST_INLINE bytes is filled in private memory and copied into its slot; a larger one is filled in the heap, where
 * readers read it. Blocks are freed in the order of messages, as the floor rises. The floor is refreshed only where there is no slot or
 * no memory, and no further than is needed.
 */
#include "cast/cast.h"

#include "rpipe/end/call.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

/* ---- the floor ---- */

static void write_reclaim(struct rcast *c)
{
    for (; c->reclaimed != c->floor; c->reclaimed++) {
        struct cast_sent *s = &c->sent[c->reclaimed & (c->slots - 1)];

        if (s->d != ADDR_NULL)
            (void)rvmem_free(c->heap, s->d);
        s->d = ADDR_NULL;
    }
}

/* Is every live reader beyond all messages below `need`? R_PENDING: not yet. A loss is reported first, and ends the call. */
static int write_refresh(struct rcast *c, uint64_t need)
{
    uint64_t least = c->next;
    int rc;

    for (int i = 0; i < CAST_PATHS && c->path[i] != NULL; i++) {
        uint64_t of_path = c->path[i]->ops->refresh(c->path[i], need);

        if (of_path != UINT64_MAX && (int64_t)(of_path - least) < 0)
            least = of_path;
    }
    c->floor = least;
    write_reclaim(c);
    rc = cast_report_loss(c);
    if (rc != 0)
        return rc;
    if (c->live == 0)
        return call_error(NULL, -EPIPE, "no reader is left: all have closed, or are lost");
    return (int64_t)(c->floor - need) >= 0 ? 0 : R_PENDING;
}

/* ---- memory ---- */

static struct cast_unsent *write_find(struct rcast *c, const void *mem)
{
    for (int i = c->nunsent - 1; i >= 0; i--)
        if (c->unsent[i]->mem == mem)
            return c->unsent[i];
    return NULL;
}

static void write_forget(struct rcast *c, const struct cast_unsent *u)
{
    for (int i = 0; i < c->nunsent; i++)
        if (c->unsent[i] == u) {
            struct cast_unsent *last = c->unsent[--c->nunsent];

            c->unsent[c->nunsent] = c->unsent[i];
            c->unsent[i] = last;
            return;
        }
}

static void *write_take(struct rcast *c, raddr_t d, size_t bytes)
{
    struct cast_unsent *u = c->unsent[c->nunsent++];

    u->d = d;
    u->bytes = bytes;
    u->mem = d == ADDR_NULL ? u->small : rvmem_mem(c->heap, d);
    return u->mem;
}

struct alloc_arguments {
    size_t bytes;
    raddr_t d;
};

static int alloc_attempt(struct rcast *c, void *of)
{
    struct alloc_arguments *a = of;

    for (;;) {
        uint64_t before = c->floor;
        int rc;

        a->d = rvmem_alloc(c->heap, a->bytes);
        if (a->d != ADDR_NULL)
            return 0;
        if (errno != ENOMEM)
            return call_error(NULL, -errno,
                              "%zu bytes never fit into a heap of %llu; use a larger heap_bytes",
                              a->bytes, (unsigned long long)c->heap_bytes);
        if (c->floor == c->next)
            return call_error(NULL, -ENOBUFS,
                              "%zu bytes do not fit beside the %d messages that are allocated here "
                              "and not written; write or free them first",
                              a->bytes, c->nunsent);
        rc = write_refresh(c, c->floor + 1);
        if (rc != 0 && (rc != R_PENDING || c->floor == before))
            return rc;
    }
}

/* Memory in the heap for more than CAST_INLINE bytes. */
static int alloc_in_heap(struct rcast *c, size_t bytes, raddr_t *d, int flags)
{
    struct alloc_arguments a = {bytes, ADDR_NULL};
    int rc = cast_await(c, flags, alloc_attempt, &a);

    if (rc == -ETIMEDOUT)
        rc = cast_writer_timed_out(c, "memory");
    *d = a.d;
    return rc;
}

static NOINLINE int alloc_slow(struct rcast *c, size_t bytes, void **mem, int flags)
{
    struct call call;
    raddr_t d = ADDR_NULL;
    int rc = cast_begin(&call, "rcast_alloc", c, CAST_WRITER);

    if (rc == 0)
        rc = call_check_flags(NULL, flags);
    if (rc == 0 && mem == NULL)
        rc = call_error(NULL, -EINVAL, "mem is NULL");
    if (rc == 0 && c->nunsent == CAST_UNSENT)
        rc = call_error(NULL, -ENOBUFS,
                        "%d messages are allocated and not written; write or free one first",
                        CAST_UNSENT);
    if (rc == 0 && bytes > CAST_INLINE)
        rc = alloc_in_heap(c, bytes, &d, flags);
    if (rc == 0)
        *mem = write_take(c, d, bytes);
    return call_end(&call, rc);
}

int rcast_alloc(rcast_t cast, size_t bytes, void **mem, int flags)
{
    raddr_t d = ADDR_NULL;

    if (UNLIKELY(!cast_may(cast, true, flags) || mem == NULL || cast->nunsent == CAST_UNSENT))
        return alloc_slow(cast, bytes, mem, flags);
    if (bytes > CAST_INLINE) {
        d = rvmem_alloc(cast->heap, bytes);
        if (UNLIKELY(d == ADDR_NULL))
            return alloc_slow(cast, bytes, mem, flags);
    }
    *mem = write_take(cast, d, bytes);
    return 0;
}

/* rcast_free of the writer. */
int cast_give_back(struct rcast *c, const void *mem)
{
    const struct cast_unsent *u = write_find(c, mem);

    if (u == NULL)
        return call_error(NULL, -EINVAL, "%p is no message that is allocated and not written", mem);
    if (u->d != ADDR_NULL)
        (void)rvmem_free(c->heap, u->d);
    write_forget(c, u);
    return 0;
}

/* ---- sending ---- */

/* The window, and the room of all paths. */
static int write_attempt(struct rcast *c, void *of)
{
    struct cast_message m = *(const struct cast_message *)of;
    int rc;

    if (c->ended_here)
        return call_error(NULL, -EPIPE, "rcast_close has been called; close again");
    rc = c->next - c->floor < c->slots ? 0 : write_refresh(c, c->next - c->slots + 1);
    if (rc == 0 && c->live == 0)
        rc = write_refresh(c, c->next);
    m.number = c->next;
    for (int i = 0; rc == 0 && i < CAST_PATHS && c->path[i] != NULL; i++)
        if (c->path[i]->ops->room != NULL)
            rc = c->path[i]->ops->room(c->path[i], &m);
    return rc;
}

static inline bool write_is_ready(const struct rcast *c)
{
    return c->next - c->floor < c->slots && c->live > 0 && !c->ended_here && c->path[0]->ops->room == NULL &&
           c->path[1] == NULL;
}

/* Fills the slot and publishes it. `d` is in the heap, with `mem` and `bytes`; or ADDR_NULL. */
static inline void write_publish(struct rcast *c, raddr_t d, const void *mem, size_t bytes)
{
    struct cast_slot *slot = &c->slot[c->next & (c->slots - 1)];
    struct cast_sent *sent = &c->sent[c->next & (c->slots - 1)];

    slot->bytes = bytes;
    if (bytes > CAST_INLINE) {
        slot->at = (uint64_t)((const char *)mem - c->heap_mem);
    } else {
        if (bytes == 8)
            memcpy(slot->data, mem, 8);
        else if (bytes > 0)
            memcpy(slot->data, mem, bytes);
        if (d != ADDR_NULL)
            (void)rvmem_free(c->heap, d);
        d = ADDR_NULL;
        mem = slot->data;
    }
    *sent = (struct cast_sent){d, mem, bytes};
    for (int i = 0; i < CAST_PATHS && c->path[i] != NULL; i++) {
        const struct cast_message m = {c->next, mem, bytes};

        c->path[i]->ops->publish(c->path[i], &m);
    }
    c->next++;
}

static int write_await(struct rcast *c, const void *mem, size_t bytes, int flags)
{
    struct cast_message m = {0, mem, bytes};
    int rc = cast_await(c, flags, write_attempt, &m);

    return rc == -ETIMEDOUT ? cast_writer_timed_out(c, "slot") : rc;
}

static NOINLINE int write_slow(struct rcast *c, void *mem, size_t bytes, int flags)
{
    const struct cast_unsent *u;
    struct call call;
    int rc = cast_begin(&call, "rcast_write", c, CAST_WRITER);

    if (rc == 0)
        rc = call_check_flags(NULL, flags);
    if (rc != 0)
        return call_end(&call, rc);
    u = write_find(c, mem);
    if (u == NULL)
        rc = call_error(NULL, -EINVAL, "%p is no message that is allocated and not written", mem);
    else if (bytes > u->bytes)
        rc = call_error(NULL, -EINVAL, "bytes is %zu, and %llu are allocated", bytes,
                        (unsigned long long)u->bytes);
    else
        rc = write_await(c, mem, bytes, flags);
    if (rc == 0) {
        write_publish(c, u->d, mem, bytes);
        write_forget(c, u);
    }
    return call_end(&call, rc);
}

int rcast_write(rcast_t cast, void *mem, size_t bytes, int flags)
{
    const struct cast_unsent *u;

    if (UNLIKELY(!cast_may(cast, true, flags) || !write_is_ready(cast)))
        return write_slow(cast, mem, bytes, flags);
    u = write_find(cast, mem);
    if (UNLIKELY(u == NULL || bytes > u->bytes))
        return write_slow(cast, mem, bytes, flags);
    write_publish(cast, u->d, mem, bytes);
    write_forget(cast, u);
    return 0;
}

static NOINLINE int send_slow(struct rcast *c, const void *buf, size_t bytes, int flags)
{
    struct call call;
    raddr_t d = ADDR_NULL;
    const void *mem = buf;
    int rc = cast_begin(&call, "rcast_send", c, CAST_WRITER);

    if (rc == 0)
        rc = call_check_flags(NULL, flags);
    if (rc == 0 && buf == NULL && bytes > 0)
        rc = call_error(NULL, -EINVAL, "buf is NULL for %zu bytes", bytes);
    if (rc == 0 && bytes > CAST_INLINE) {
        rc = alloc_in_heap(c, bytes, &d, flags);
        if (rc == 0)
            mem = memcpy(rvmem_mem(c->heap, d), buf, bytes);
    }
    if (rc == 0) {
        rc = write_await(c, mem, bytes, flags);
        RPIPE_FAILPOINT("rcast_send: before the message");
        if (rc == 0)
            write_publish(c, d, mem, bytes);
        else if (d != ADDR_NULL)
            (void)rvmem_free(c->heap, d);
    }
    return call_end(&call, rc);
}

int rcast_send(rcast_t cast, const void *buf, size_t bytes, int flags)
{
    if (UNLIKELY(!cast_may(cast, true, flags) || bytes > CAST_INLINE || !write_is_ready(cast) ||
                 (buf == NULL && bytes > 0)))
        return send_slow(cast, buf, bytes, flags);
    write_publish(cast, ADDR_NULL, buf, bytes);
    return 0;
}
