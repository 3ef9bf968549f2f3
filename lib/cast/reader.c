/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reader.c: rcast_read, rcast_free, rcast_recv: what is held; see cast.h.
 *
 * What a reader has read and not freed is in `held`, at its number. The path learns of each message that is freed, and of the floor of
 * this reader, below which all are.
 */
#include "cast/cast.h"

#include "rpipe/end/call.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

/* ---- messages ---- */

/* Nothing will come any more: the same result for this call and all later ones. */
static int reader_end(struct rcast *c, int code, const char *why)
{
    struct cast_member *writer = &c->member[c->writer];

    c->ended = code;
    if (code == R_EOF) {
        cast_member_left(c, c->writer, CAST_CLOSED, 0, "closed");
        return call_error(NULL, R_EOF,
                          "the writer, member %d, rank %d, has closed, and all is read", c->writer,
                          writer->rank);
    }
    cast_member_left(c, c->writer, CAST_LOST, code, "%s", why);
    return cast_loss_error(c, c->writer);
}

/* The next message, without taking it. */
static int reader_attempt(struct rcast *c, void *of)
{
    struct cast_message *m = of;
    struct error err = {""};
    int rc;

    if (c->ended != 0)
        return reader_end(c, c->ended, "");
    if (c->next - c->floor == c->slots)
        return call_error(NULL, -ENOBUFS,
                          "this member holds all of the %u messages that can be in use; free them, "
                          "or give the cast more slots",
                          c->slots);
    m->number = c->next;
    rc = c->path[0]->ops->poll(c->path[0], m, &err);
    return rc == 0 || rc == R_PENDING ? rc : reader_end(c, rc, err.text);
}

static int reader_await(struct rcast *c, struct cast_message *m, int flags)
{
    int rc = cast_await(c, flags, reader_attempt, m);

    if (rc == -ETIMEDOUT) {
        c->last_lost = c->writer;
        rc = call_error(NULL, rc,
                        "no message within %d ms: the writer is member %d, rank %d; %llu have been "
                        "read",
                        c->timeout_ms, c->writer, c->member[c->writer].rank,
                        (unsigned long long)(c->next - c->first));
    }
    return rc;
}

/* All messages below the floor have been freed. */
static inline void reader_free(struct rcast *c, uint64_t number)
{
    c->held[number & (c->slots - 1)].mem = NULL;
    while (c->floor != c->next && c->held[c->floor & (c->slots - 1)].mem == NULL)
        c->floor++;
    c->path[0]->ops->release(c->path[0], number, c->floor);
}

static inline void reader_take(struct rcast *c, const struct cast_message *m)
{
    c->held[c->next & (c->slots - 1)] = (struct cast_held){m->mem, m->bytes};
    c->next++;
}

/* A path that has to make progress takes a lock and calls the kernel: in counted calls alone. */
static inline bool reader_is_short(const struct rcast *c)
{
    return c->path[0]->ops->progress == NULL;
}

/* One attempt on the short path. 0; R_PENDING, which is the result with R_NOWAIT; or what the long path finds again. */
static inline int reader_once(struct rcast *c, struct cast_message *m)
{
    struct error err;

    if (UNLIKELY(c->ended != 0 || c->next - c->floor == c->slots || !reader_is_short(c)))
        return -EINVAL;
    err.text[0] = '\0';
    m->number = c->next;
    return c->path[0]->ops->poll(c->path[0], m, &err);
}

static inline bool reader_is_over(int rc, int flags)
{
    return rc == R_PENDING && flags == R_NOWAIT;
}

static NOINLINE int reader_slow(struct rcast *c, const void **mem, size_t *bytes, int flags)
{
    struct cast_message m;
    struct call call;
    int rc = cast_begin(&call, "rcast_read", c, CAST_READER);

    if (rc == 0)
        rc = call_check_flags(NULL, flags);
    if (rc == 0 && (mem == NULL || bytes == NULL))
        rc = call_error(NULL, -EINVAL, "%s is NULL", mem == NULL ? "mem" : "bytes");
    if (rc == 0)
        rc = reader_await(c, &m, flags);
    if (rc == 0) {
        reader_take(c, &m);
        *mem = m.mem;
        *bytes = m.bytes;
        RPIPE_FAILPOINT("rcast_read: message taken");
    }
    return call_end(&call, rc);
}

int rcast_read(rcast_t cast, const void **mem, size_t *bytes, int flags)
{
    struct cast_message m;
    int rc = -EINVAL;

    if (LIKELY(cast_may(cast, false, flags) && mem != NULL && bytes != NULL))
        rc = reader_once(cast, &m);
    if (UNLIKELY(rc != 0))
        return reader_is_over(rc, flags) ? rc : reader_slow(cast, mem, bytes, flags);
    reader_take(cast, &m);
    *mem = m.mem;
    *bytes = m.bytes;
    return 0;
}

/* ---- freeing ---- */

/* The number of a message that is held; c->next: it is none. */
static inline uint64_t reader_find(const struct rcast *c, const void *mem)
{
    uint64_t number = c->floor;

    while (number != c->next && c->held[number & (c->slots - 1)].mem != mem)
        number++;
    return number;
}

/* 0, or -EINVAL and its message. */
static int reader_free_held(struct rcast *c, const void *mem)
{
    const uint64_t number = reader_find(c, mem);

    if (number == c->next)
        return call_error(NULL, -EINVAL, "%p is no message that is read and not freed", mem);
    reader_free(c, number);
    return 0;
}

static NOINLINE int reader_free_slow(struct rcast *c, const void *mem)
{
    struct call call;
    int rc = cast_begin(&call, "rcast_free", c, CAST_ANY);

    if (rc == 0 && mem == NULL)
        rc = call_error(NULL, -EINVAL, "mem is NULL");
    else if (rc == 0)
        rc = c->writes ? cast_give_back(c, mem) : reader_free_held(c, mem);
    return call_end(&call, rc);
}

int rcast_free(rcast_t cast, const void *mem)
{
    uint64_t number;

    if (UNLIKELY(!cast_may(cast, false, 0) || mem == NULL || !reader_is_short(cast)))
        return reader_free_slow(cast, mem);
    number = reader_find(cast, mem);
    if (UNLIKELY(number == cast->next))
        return reader_free_slow(cast, mem);
    reader_free(cast, number);
    return 0;
}

/* ---- copies ---- */

static inline void reader_recv_copy(struct rcast *c, const struct cast_message *m, void *buf,
                                    size_t *bytes)
{
    if (m->bytes == 8)
        memcpy(buf, m->mem, 8);
    else if (m->bytes > 0)
        memcpy(buf, m->mem, m->bytes);
    *bytes = m->bytes;
    reader_take(c, m);
    reader_free(c, m->number);
}

static NOINLINE int reader_recv_slow(struct rcast *c, void *buf, size_t room, size_t *bytes,
                                     int flags)
{
    struct cast_message m;
    struct call call;
    int rc = cast_begin(&call, "rcast_recv", c, CAST_READER);

    if (rc == 0)
        rc = call_check_flags(NULL, flags);
    if (rc == 0 && (bytes == NULL || (buf == NULL && room > 0)))
        rc = call_error(NULL, -EINVAL, "%s is NULL", bytes == NULL ? "bytes" : "buf");
    if (rc == 0)
        rc = reader_await(c, &m, flags);
    if (rc == 0 && m.bytes > room) {
        *bytes = m.bytes;
        rc = call_error(NULL, -EMSGSIZE,
                        "the next message has %llu bytes and room is %zu; it is still the next one",
                        (unsigned long long)m.bytes, room);
    }
    if (rc == 0)
        reader_recv_copy(c, &m, buf, bytes);
    RPIPE_FAILPOINT("rcast_recv: message freed");
    return call_end(&call, rc);
}

int rcast_recv(rcast_t cast, void *buf, size_t room, size_t *bytes, int flags)
{
    struct cast_message m = {.bytes = 0};
    int rc = -EINVAL;

    if (LIKELY(cast_may(cast, false, flags) && bytes != NULL && (buf != NULL || room == 0)))
        rc = reader_once(cast, &m);
    if (UNLIKELY(rc != 0 || m.bytes > room || m.bytes > COPY_UNCOUNTED_MOST))
        return reader_is_over(rc, flags) ? rc : reader_recv_slow(cast, buf, room, bytes, flags);
    reader_recv_copy(cast, &m, buf, bytes);
    return 0;
}
