/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.c: rcast_open, rcast_close, rcast_discard, and what rexit closes; see cast.h.
 *
 * The board of a cast goes on after losses, and has the ring and the heap at the writer and one line at each reader. It is opened by
 * members of all hosts, since it finds out which host each is on.
 */
#include "cast/cast.h"

#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/job_state.h"
#include "util/clock.h"
#include "util/failpoint.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/sized.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_HEAP_BYTES (UINT64_C(1) << 20)
#define OPEN_HEAP_LEAST 4096
#define OPEN_HEAP_MOST (UINT64_C(1) << 37) /* 2^31 units */
#define OPEN_SLOTS 256
#define OPEN_SLOTS_MOST 65536
#define OPEN_MOST 65536

/* ---- what the caller gives ---- */

static int open_check_sizes(struct rcast *c, const rcast_config_t *cfg, struct error *err)
{
    c->slots = cfg->slots == 0 ? OPEN_SLOTS : cfg->slots;
    c->heap_bytes = cfg->heap_bytes == 0 ? OPEN_HEAP_BYTES : cfg->heap_bytes;
    if (c->slots < 2 || c->slots > OPEN_SLOTS_MOST || (c->slots & (c->slots - 1)) != 0)
        return error_set(err, -EINVAL, "slots is %u; it must be a power of two, 2 to %d", c->slots,
                         OPEN_SLOTS_MOST);
    if (c->heap_bytes < OPEN_HEAP_LEAST || c->heap_bytes > OPEN_HEAP_MOST)
        return error_set(err, -EINVAL, "heap_bytes is %llu; it must be %d to 2^37",
                         (unsigned long long)c->heap_bytes, OPEN_HEAP_LEAST);
    c->heap_bytes = (c->heap_bytes + CAST_PAGE - 1) / CAST_PAGE * CAST_PAGE;
    return 0;
}

static int open_check_config(struct rcast *c, const rcast_config_t *cfg, int n, struct error *err)
{
    int rc;

    if (n < 1 || n > OPEN_MOST)
        return error_set(err, -EINVAL, "n is %d; it must be 1 to %d", n, OPEN_MOST);
    if (cfg->writer < 0 || cfg->writer >= n)
        return error_set(err, -EINVAL, "writer is %d; it must be a member, 0 to %d", cfg->writer,
                         n - 1);
    if (cfg->zero != 0)
        return error_set(err, -EINVAL, "zero is %u; it must be 0", cfg->zero);
    if ((cfg->context & CONTEXT_LIBRARY) != 0)
        return error_set(err, -EINVAL,
                         "context is 0x%llx; it must be below 2^61 or come from rcontext",
                         (unsigned long long)cfg->context);
    rc = config_timeout(cfg->timeout_ms, &c->timeout_ms, err);
    c->n = n;
    c->writer = cfg->writer;
    c->context = cfg->context;
    c->backend = cfg->backend;
    return rc != 0 ? rc : open_check_sizes(c, cfg, err);
}

/* ---- the board ---- */

/* Boards of the program, of casts with another writer, and of this cast do not have the same name. */
static uint64_t open_board_context(const struct rcast *c)
{
    char text[80];

    snprintf(text, sizeof(text), "rcast %llx.%d", (unsigned long long)c->context, c->writer);
    return rpipe_context(text);
}

static int open_board(struct rcast *c, const int *ranks, struct error *err)
{
    uint64_t *each = calloc((size_t)c->n, sizeof(*each));
    rboard_config_t cfg = {.context = open_board_context(c),
                           .bytes = sizeof(struct cast_line),
                           .flags = RBOARD_GO_ON,
                           .each = each};
    int rc;

    if (each == NULL)
        return error_set(err, -ENOMEM, "no memory for %d members", c->n);
    for (int i = 0; i < c->n; i++)
        each[i] = i == c->writer ? cast_heap_at(c->slots) + c->heap_bytes : cfg.bytes;
    rc = rboard_open(&c->board, &cfg, ranks, c->n);
    free(each);
    return rc == 0 ? 0 : error_set(err, rc, "%s", last_error_get());
}

/*
 * A reader that is gone is reported by the path of the host. A writer in rexit is gone for its board, but serves readers on other
 * hosts; the host of one that has left is not known any more, and either path reports that.
 */
static bool open_is_remote(const struct rcast *c, int member)
{
    return rboard_host(c->board, member) != rboard_host(c->board, c->writer) &&
           (rboard_state(c->board, member) == 0 || member == c->me);
}

/* Members, and which of them are on other hosts than the writer. */
static int open_members(struct rcast *c, const int *ranks, struct error *err)
{
    c->member = calloc((size_t)c->n, sizeof(*c->member));
    if (c->member == NULL)
        return error_set(err, -ENOMEM, "no memory for %d members", c->n);
    for (int i = 0; i < c->n; i++) {
        c->member[i].rank = ranks != NULL ? ranks[i] : i;
        if (c->member[i].rank == job_own_rank())
            c->me = i;
    }
    c->writes = c->me == c->writer;
    for (int i = 0; i < c->n; i++)
        c->member[i].remote = open_is_remote(c, i);
    c->live = c->n - 1;
    c->first = c->next = c->floor = c->reclaimed = job_first();
    return 0;
}

/* ---- a writer, a reader ---- */

static void open_fill_head(struct rcast *c)
{
    c->head = rboard_mem(c->board);
    c->slot = (struct cast_slot *)(c->head + 1);
    c->heap_mem = (char *)c->head + cast_heap_at(c->slots);
    for (uint32_t i = 0; i < c->slots; i++) {
        const uint64_t number = c->first - c->slots + i;

        atomic_store_explicit(&c->slot[number & (c->slots - 1)].number, number,
                              memory_order_relaxed);
    }
    c->head->first = c->first;
    c->head->heap_bytes = c->heap_bytes;
    c->head->slots = c->slots;
    /* release: pairs with the acquire of host_attach */
    atomic_store_explicit(&c->head->magic, CAST_MAGIC, memory_order_release);
    rboard_wake(c->board, cast_low_word(&c->head->magic));
}

static int open_writer(struct rcast *c, struct error *err)
{
    rvmem_config_t cfg = {.bytes = c->heap_bytes};
    int rc;

    open_fill_head(c);
    c->ahead = CAST_STEP;
    cfg.buffer = c->heap_mem;
    c->sent = calloc(c->slots, sizeof(*c->sent));
    c->unsent_all = calloc(CAST_UNSENT, sizeof(*c->unsent_all));
    if (c->sent == NULL || c->unsent_all == NULL)
        return error_set(err, -ENOMEM, "no memory for %u slots", c->slots);
    for (int i = 0; i < CAST_UNSENT; i++)
        c->unsent[i] = &c->unsent_all[i];
    rc = rvmem_create(&c->heap, &cfg);
    return rc == 0 ? 0 : error_set(err, rc, "%s", last_error_get());
}

static int open_reader(struct rcast *c, struct error *err)
{
    c->held = calloc(c->slots, sizeof(*c->held));
    return c->held != NULL ? 0 : error_set(err, -ENOMEM, "no memory for %u slots", c->slots);
}

static int open_path(struct rcast *c, const struct cast_path_ops *ops, bool remote, int index,
                     struct error *err)
{
    if (ops == NULL)
        return error_set(
            err, -ENOTSUP,
            "members are on several hosts; a cast reaches readers of the writer's host");
    for (int i = 0; i < c->n; i++)
        if (c->member[i].remote == remote)
            c->member[i].path = (uint8_t)index;
    return ops->open(c, &c->path[index], err);
}

/* The writer has the path of its host in any case, with or without readers. */
static int open_paths(struct rcast *c, struct error *err)
{
    bool others = false;
    int rc;

    for (int i = 0; i < c->n; i++)
        others = others || c->member[i].remote;
    if (!c->writes)
        return c->member[c->me].remote ? open_path(c, cast_remote_ops, true, 0, err)
                                       : open_path(c, &cast_host_ops, false, 0, err);
    rc = open_path(c, &cast_host_ops, false, 0, err);
    return rc == 0 && others ? open_path(c, cast_remote_ops, true, 1, err) : rc;
}

/* ---- opening, closing ---- */

static void open_discard(struct rcast *c)
{
    for (int i = 0; i < CAST_PATHS; i++)
        if (c->path[i] != NULL)
            c->path[i]->ops->close(c->path[i]);
    if (c->board != NULL)
        (void)rboard_close(c->board);
    if (c->heap != NULL)
        (void)rvmem_destroy(c->heap);
    free(c->sent);
    free(c->unsent_all);
    free(c->held);
    free(c->member);
    cast_put_handle(c);
}

static int open_cast(rcast_t *cast, const rcast_config_t *cfg, const int *ranks, int n, size_t size)
{
    struct error err = {""};
    rcast_config_t known;
    struct rcast *c;
    int rc = job_check();

    if (rc != 0)
        return rc;
    if (cast == NULL || cfg == NULL)
        return call_error(NULL, -EINVAL, "%s is NULL", cast == NULL ? "cast" : "cfg");
    rc = sized_copy(&known, sizeof(known), cfg, size, &err);
    if (rc != 0)
        return call_error(NULL, rc, "%s", err.text);
    c = cast_take_handle();
    if (c == NULL)
        return call_error(NULL, -ENOMEM, "no memory for a cast");
    if ((rc = open_check_config(c, &known, n, &err)) == 0 &&
        (rc = open_board(c, ranks, &err)) == 0 && (rc = open_members(c, ranks, &err)) == 0 &&
        (rc = c->writes ? open_writer(c, &err) : open_reader(c, &err)) == 0)
        rc = open_paths(c, &err);
    c->backend = NULL;
    if (rc != 0) {
        open_discard(c);
        return call_error(NULL, rc, "%s", err.text);
    }
    RPIPE_FAILPOINT("rcast_open: opened");
    c->open = true;
    *cast = c;
    return 0;
}

int(rcast_open)(rcast_t *cast, const rcast_config_t *cfg, const int *ranks, int n, size_t size)
{
    struct call call;

    call_enter(&call, "rcast_open");
    return call_end(&call, open_cast(cast, cfg, ranks, n, size));
}

int rcast_set_timeout(rcast_t cast, int timeout_ms)
{
    struct error err = {""};
    struct call call;
    int rc = cast_begin(&call, "rcast_set_timeout", cast, CAST_ANY);

    if (rc == 0 && config_timeout(timeout_ms, &cast->timeout_ms, &err) != 0)
        rc = call_error(NULL, -EINVAL, "%s", err.text);
    return call_end(&call, rc);
}

/* R_PENDING while a reader needs this process. */
static int close_attempt(struct rcast *c, void *of)
{
    int rc = 0;

    (void)of;
    for (int i = 0; rc == 0 && i < CAST_PATHS && c->path[i] != NULL; i++)
        if (c->path[i]->ops->drain != NULL)
            rc = c->path[i]->ops->drain(c->path[i]);
    return rc;
}

/* Nothing more is written. */
static void close_end(struct rcast *c)
{
    if (!c->ended_here)
        for (int i = 0; i < CAST_PATHS && c->path[i] != NULL; i++)
            c->path[i]->ops->end(c->path[i], c->next);
    c->ended_here = true;
}

static int close_writer(struct rcast *c)
{
    int rc;

    close_end(c);
    rc = cast_await(c, 0, close_attempt, NULL);
    if (rc == -ETIMEDOUT)
        return call_error(NULL, rc,
                          "member %d, rank %d, has not opened the cast, or has not received "
                          "everything, within %d ms; the cast is still open",
                          c->last_lost, c->last_lost >= 0 ? c->member[c->last_lost].rank : -1,
                          c->timeout_ms);
    return rc;
}

int rcast_close(rcast_t cast)
{
    struct call call;
    int rc = cast_begin(&call, "rcast_close", cast, CAST_ANY);

    if (rc == 0 && cast->writes)
        rc = close_writer(cast);
    if (rc == 0)
        open_discard(cast);
    return call_end(&call, rc);
}

/* Readers learn of it as of a death: on a host by the loss of the board, elsewhere by that the writer is gone before its END. */
int rcast_discard(rcast_t cast)
{
    struct call call;
    int rc = cast_begin(&call, "rcast_discard", cast, CAST_ANY);

    if (rc == 0) {
        if (cast->writes)
            (void)rboard_fail(cast->board, -ECONNRESET);
        open_discard(cast);
    }
    return call_end(&call, rc);
}

/* ---- rexit ---- */

void cast_leave_begin(struct rcast *c)
{
    if (c->writes)
        close_end(c);
    else
        open_discard(c);
}

/* Of readers on other hosts alone: one of this host that has not opened the cast maps nothing of a rank in rexit. */
static int leave_attempt(struct rcast *c, void *of)
{
    struct cast_path *path = of;

    (void)c;
    return path->ops->drain(path);
}

void cast_leave(struct rcast *c, int64_t deadline)
{
    int rc = 0;

    c->timeout_ms = deadline_left_ms(deadline, R_FOREVER); /* one deadline for all */
    if (c->writes && c->path[1] != NULL)
        rc = cast_await(c, 0, leave_attempt, c->path[1]);
    if (rc != 0)
        log_warn("rexit: rank %d has not received all that was written to a cast",
                 c->last_lost >= 0 ? c->member[c->last_lost].rank : -1);
    open_discard(c);
}
