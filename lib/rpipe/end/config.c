/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.c: checks a configuration and resolves its defaults: every error that a single end can detect is reported here,
 * before anything is allocated.
 */
#include "rpipe/end/config.h"

#include "alloc/desc.h"
#include "util/settings.h"

#include <errno.h>
#include <string.h>

#define UNIT_MOST (1u << 20)
#define UNITS_MOST (UINT64_C(1) << 31)
#define UNIT_DEFAULT 64u
#define HEAP_DEFAULT (UINT64_C(1) << 20)
#define HEAP_AT_MOST_DEFAULT (UINT64_C(1) << 30)
#define MESSAGES_DEFAULT 1000000u
#define CELLS_DEFAULT 512u
#define CELLS_AT_MOST_DEFAULT (UINT64_C(1) << 27)
#define CELLS_MOST (UINT64_C(1) << 31)
#define QUEUE_MOST (1u << 24)
#define QUEUE_TAGS_DEFAULT 65536u
#define SLOTS_LEAST 2u
#define SLOTS_MOST 65536u
#define SLOTS_MAPPED 64u
/* A credit refresh is a round trip, in which a writer of 8 bytes has sent some 150 messages over TCP. */
#define SLOTS_REMOTE 512u
#define FLAGS_KNOWN (RPIPE_THREADS | RPIPE_HUGE_PAGES)

static bool config_power_of_two(uint32_t x) { return x != 0 && (x & (x - 1)) == 0; }

static bool config_slots_are_valid(uint32_t slots)
{
    return config_power_of_two(slots) && slots >= SLOTS_LEAST && slots <= SLOTS_MOST;
}

const char *config_op_name(int op)
{
    static const char *const name[] = {"RPIPE_PUT", "RPIPE_GET", "cells"};

    return op >= 0 && op < 3 ? name[op] : "an unknown op";
}

const char *config_heuristic_name(int heuristic)
{
    static const char *const name[] = {
        "RMALLOC_FIT_DEFAULT", "RMALLOC_NEXT_FIT",   "RMALLOC_FIRST_FIT",     "RMALLOC_BEST_FIT",
        "RMALLOC_WORST_FIT",   "RMALLOC_RANDOM_FIT", "RMALLOC_SEGREGATED_FIT"};

    return heuristic >= 0 && heuristic < 7 ? name[heuristic] : "an unknown heuristic";
}

const char *config_mode_name(int mode)
{
    static const char *const name[] = {"RPIPE_SYNC_DEFAULT", "RPIPE_SYNC_BLOCKS", "RPIPE_SYNC_TAGS",
                                       "RPIPE_SYNC_CHANNEL"};

    return mode >= 0 && mode < 4 ? name[mode] : "an unknown mode";
}

/* ---- what every configuration has ---- */

int config_timeout(int timeout_ms, int *resolved, struct error *err)
{
    if (timeout_ms < R_AT_ONCE)
        return error_set(err, -EINVAL,
                         "timeout_ms is %d; it must be R_FOREVER, R_AT_ONCE, 0 (RPIPE_TIMEOUT_MS) "
                         "or a number of ms",
                         timeout_ms);
    *resolved = timeout_ms == 0           ? (int)setting_number(SET_TIMEOUT_MS)
                : timeout_ms == R_AT_ONCE ? 0
                                          : timeout_ms;
    return 0;
}

static int config_check_common(int peer, int ranks, uint64_t context, uint32_t flags,
                               struct error *err)
{
    if (peer < 0 || peer >= ranks)
        return error_set(err, -ENOENT, "peer is %d; the ranks of this job are 0 to %d", peer,
                         ranks - 1);
    if ((context & CONTEXT_LIBRARY) != 0 && (flags & CONFIG_LIBRARY) == 0)
        return error_set(err, -EINVAL,
                         "context is 0x%llx; it must be below 2^61 or come from rcontext",
                         (unsigned long long)context);
    if ((flags & ~(FLAGS_KNOWN | CONFIG_LIBRARY)) != 0)
        return error_set(err, -EINVAL,
                         "flags is 0x%x; it may have RPIPE_THREADS and RPIPE_HUGE_PAGES", flags);
    return 0;
}

/* ---- a pipe ---- */

static int config_check_choices(const rpipe_config_t *c, struct error *err)
{
    if (c->role != RPIPE_WRITER && c->role != RPIPE_READER)
        return error_set(err, -EINVAL, "role is %d; set RPIPE_WRITER or RPIPE_READER",
                         (int)c->role);
    if (c->op != RPIPE_PUT && c->op != RPIPE_GET)
        return error_set(err, -EINVAL, "op is %d; it must be RPIPE_PUT or RPIPE_GET", (int)c->op);
    if ((unsigned)c->heuristic > RMALLOC_SEGREGATED_FIT)
        return error_set(err, -EINVAL,
                         "heuristic is %d; it must be RMALLOC_FIT_DEFAULT, or RMALLOC_NEXT_FIT to "
                         "RMALLOC_SEGREGATED_FIT",
                         (int)c->heuristic);
    if ((unsigned)c->mode > RPIPE_SYNC_CHANNEL)
        return error_set(err, -EINVAL,
                         "mode is %d; it must be RPIPE_SYNC_DEFAULT, or RPIPE_SYNC_BLOCKS to "
                         "RPIPE_SYNC_CHANNEL",
                         (int)c->mode);
    if (c->watermark < RPIPE_WATERMARK_ALWAYS || c->watermark > 100)
        return error_set(err, -EINVAL,
                         "watermark is %d; it must be RPIPE_WATERMARK_ALWAYS, 0 (the setting), or "
                         "1 to 100 percent",
                         c->watermark);
    if (c->inline_max < RPIPE_INLINE_NONE || c->inline_max > (int)DESC_INLINE_MAX)
        return error_set(err, -EINVAL,
                         "inline_max is %d; it must be RPIPE_INLINE_NONE, 0 (the default) or 1 to "
                         "%d bytes",
                         c->inline_max, (int)DESC_INLINE_MAX);
    return 0;
}

static int config_check_heap(const struct pipe_config *c, struct error *err)
{
    if (!config_power_of_two(c->unit_bytes) || c->unit_bytes > UNIT_MOST)
        return error_set(
            err, -EINVAL,
            "unit_bytes is %u; it must be 0 (the default) or a power of two from 1 to %u",
            c->unit_bytes, UNIT_MOST);
    if (c->heap_bytes > UNITS_MOST * c->unit_bytes)
        return error_set(err, -EINVAL,
                         "heap_bytes is %llu; units of %u bytes allow at most %llu: make "
                         "unit_bytes larger",
                         (unsigned long long)c->heap_bytes, c->unit_bytes,
                         (unsigned long long)(UNITS_MOST * c->unit_bytes));
    if (c->max_heap_bytes != 0 && c->max_heap_bytes < c->heap_bytes)
        return error_set(err, -EINVAL,
                         "max_heap_bytes is %llu and heap_bytes is %llu; it must be at least that, "
                         "or 0: the heap does not grow",
                         (unsigned long long)c->max_heap_bytes, (unsigned long long)c->heap_bytes);
    if (c->max_heap_bytes > UNITS_MOST * c->unit_bytes)
        return error_set(
            err, -EINVAL,
            "max_heap_bytes is %llu; units of %u bytes allow at most %llu: make unit_bytes larger",
            (unsigned long long)c->max_heap_bytes, c->unit_bytes,
            (unsigned long long)(UNITS_MOST * c->unit_bytes));
    return 0;
}

int config_check_device(const rmemory_ops_t *m, struct error *err)
{
    if (m == NULL)
        return error_set(err, -EINVAL, "memory is NULL");
    if (m->version < 1 || m->version > RMEMORY_VERSION)
        return error_set(err, -EINVAL, "memory has version %u; this library has versions 1 to %u",
                         m->version, RMEMORY_VERSION);
    if (m->name == NULL)
        return error_set(err, -EINVAL, "memory has no name");
    if ((unsigned)config_device_kind(m) > RMEMORY_ZE)
        return error_set(err, -EINVAL, "memory has kind %u, and %u is the last one (%s)",
                         (unsigned)m->kind, (unsigned)RMEMORY_ZE, m->name);
    return 0;
}

rmemory_kind_t config_device_kind(const rmemory_ops_t *m)
{
    return m->version >= 2 ? m->kind : RMEMORY_OTHER;
}

/* The heap is in memory of a device. */
static int config_check_memory(const rpipe_config_t *cfg, struct error *err)
{
    const rmemory_ops_t *m = cfg->memory;
    int rc = m != NULL ? config_check_device(m, err) : 0;

    if (m == NULL || rc != 0)
        return rc;
    if (m->alloc == NULL || m->free == NULL || m->import == NULL || m->unimport == NULL)
        return error_set(err, -EINVAL,
                         "memory has no alloc, free, import or unimport; all four are needed");
    if (cfg->inline_max > 0)
        return error_set(err, -EINVAL,
                         "inline_max is %d and the heap is memory of a device (%s), where every "
                         "message has to be; it must be 0 or RPIPE_INLINE_NONE",
                         cfg->inline_max, m->name);
    return 0;
}

/* Table 3.1 of the thesis: which mode goes with which heuristic; and how many blocks may be in flight. */
static int config_resolve_mode(struct pipe_config *c, struct error *err)
{
    uint64_t bytes = c->max_heap_bytes > c->heap_bytes ? c->max_heap_bytes : c->heap_bytes;
    uint64_t units = (bytes - 1) / c->unit_bytes + 1, most = QUEUE_TAGS_DEFAULT;

    if (c->mode == RPIPE_SYNC_DEFAULT)
        c->mode = c->heuristic == RMALLOC_NEXT_FIT ? RPIPE_SYNC_BLOCKS : RPIPE_SYNC_TAGS;
    if (c->mode == RPIPE_SYNC_BLOCKS && c->heuristic != RMALLOC_NEXT_FIT)
        return error_set(err, -EINVAL,
                         "mode is RPIPE_SYNC_BLOCKS, which returns memory in the order of the "
                         "messages, as only RMALLOC_NEXT_FIT can use it: with %s choose "
                         "RPIPE_SYNC_TAGS (deferred) or RPIPE_SYNC_CHANNEL (immediate)",
                         config_heuristic_name((int)c->heuristic));
    if (c->sync_queue > QUEUE_MOST)
        return error_set(err, -EINVAL,
                         "sync_queue is %u; it must be 0 (the default) or 1 to %u messages",
                         c->sync_queue, QUEUE_MOST);
    if (c->mode == RPIPE_SYNC_BLOCKS)
        c->sync_queue = 0; /* this mode has no queue */
    else if (c->sync_queue == 0)
        c->sync_queue = (uint32_t)(units < most ? units : most);
    return 0;
}

/* The heap is at the reader of a PUT pipe and at the writer of a GET pipe; cells are at their owner, a reader. */
static bool config_has_heap(const struct pipe_config *c)
{
    return (c->role == SIDE_WRITER) == (c->op == OP_GET);
}

static int config_resolve_agreed(struct pipe_config *c, struct error *err)
{
    int rc;

    if (c->heap_bytes == 0 && !config_has_heap(c))
        return 0; /* the other end decides: config_adopt */
    if (c->heuristic == RMALLOC_FIT_DEFAULT)
        c->heuristic = RMALLOC_NEXT_FIT;
    if (c->unit_bytes == 0)
        c->unit_bytes = UNIT_DEFAULT;
    if (c->heap_bytes == 0)
        c->heap_bytes = HEAP_DEFAULT;
    if (c->slots == 0)
        c->slots = (uint32_t)setting_number(SET_SLOTS);
    rc = config_check_heap(c, err);
    if (rc == 0)
        rc = config_resolve_mode(c, err);
    if (rc == 0 && c->slots != 0 && !config_slots_are_valid(c->slots))
        rc = error_set(err, -EINVAL,
                       "slots is %u; it must be 0 (RPIPE_SLOTS) or a power of two from %u to %u",
                       c->slots, SLOTS_LEAST, SLOTS_MOST);
    return rc;
}

void config_resolve_slots(struct pipe_config *c, bool mapped)
{
    if (c->slots == 0 && !config_is_open(c))
        c->slots = mapped ? SLOTS_MAPPED : SLOTS_REMOTE;
}

static double config_watermark(int percent)
{
    return percent == 0                        ? setting_real(SET_WATERMARK)
           : percent == RPIPE_WATERMARK_ALWAYS ? 0.0
                                               : percent / 100.0;
}

static uint32_t config_inline_max(int inline_max)
{
    return inline_max == 0                   ? DESC_INLINE_MAX
           : inline_max == RPIPE_INLINE_NONE ? 0
                                             : (uint32_t)inline_max;
}

int config_resolve(const rpipe_config_t *cfg, struct pipe_config *resolved, int ranks,
                   struct error *err)
{
    struct pipe_config c = {
        .role = (enum side)cfg->role,
        .peer = cfg->peer,
        .context = cfg->context,
        .op = (enum config_op)cfg->op,
        .heuristic = cfg->heuristic,
        .mode = cfg->mode,
        .unit_bytes = cfg->unit_bytes,
        .heap_bytes = cfg->heap_bytes,
        .max_heap_bytes = cfg->max_heap_bytes,
        .heap_bytes_at_most =
            cfg->heap_bytes_at_most != 0 ? cfg->heap_bytes_at_most : HEAP_AT_MOST_DEFAULT,
        .slots = cfg->slots,
        .slots_at_most = cfg->slots_at_most != 0 ? cfg->slots_at_most : SLOTS_MOST,
        .sync_queue = cfg->sync_queue,
        .sync_queue_at_most =
            cfg->sync_queue_at_most != 0 ? cfg->sync_queue_at_most : QUEUE_TAGS_DEFAULT,
        .threads = (cfg->flags & RPIPE_THREADS) != 0,
        .huge_pages = (cfg->flags & RPIPE_HUGE_PAGES) != 0 || setting_number(SET_HUGE_PAGES) != 0,
        .fetch_ahead = cfg->fetch_ahead,
        .grow_after_us = cfg->grow_after_us,
        .max_messages = cfg->max_messages != 0 ? cfg->max_messages : MESSAGES_DEFAULT,
        .max_cqe = cfg->max_cqe,
        .backend = cfg->backend,
        .seed = cfg->seed,
        .memory = cfg->memory,
        .stream = cfg->stream,
    };
    int rc = config_check_common(cfg->peer, ranks, cfg->context, cfg->flags, err);

    if (rc == 0)
        rc = config_check_choices(cfg, err);
    if (rc == 0)
        rc = config_check_memory(cfg, err);
    if (rc == 0)
        rc = config_timeout(cfg->timeout_ms, &c.timeout_ms, err);
    if (rc == 0)
        rc = config_resolve_agreed(&c, err);
    if (rc != 0)
        return rc;
    c.watermark = config_watermark(cfg->watermark);
    c.inline_max = cfg->memory != NULL ? 0 : config_inline_max(cfg->inline_max);
    *resolved = c;
    return 0;
}

/* ---- values of the other end ---- */

static int config_check_bounds(const struct pipe_config *c, int peer, struct error *err)
{
    uint64_t heap = c->max_heap_bytes > c->heap_bytes ? c->max_heap_bytes : c->heap_bytes;

    if (heap > c->heap_bytes_at_most && c->op == OP_CELLS)
        return error_set(err, -EPROTO,
                         "cells_at_most is %llu here and rank %d has %llu cells; increase the one "
                         "or decrease the other",
                         (unsigned long long)(c->heap_bytes_at_most / sizeof(uint64_t)), peer,
                         (unsigned long long)(heap / sizeof(uint64_t)));
    if (heap > c->heap_bytes_at_most)
        return error_set(err, -EPROTO,
                         "heap_bytes_at_most is %llu here and the heap of rank %d has up to %llu "
                         "bytes; increase the one or decrease the other",
                         (unsigned long long)c->heap_bytes_at_most, peer, (unsigned long long)heap);
    if (c->op == OP_CELLS)
        return 0;
    if (c->slots > c->slots_at_most)
        return error_set(err, -EPROTO,
                         "slots_at_most is %u here and slots is %u at rank %d; increase the one or "
                         "decrease the other",
                         c->slots_at_most, c->slots, peer);
    if (c->sync_queue > c->sync_queue_at_most)
        return error_set(err, -EPROTO,
                         "sync_queue_at_most is %u here and sync_queue is %u at rank %d; increase "
                         "the one or decrease the other",
                         c->sync_queue_at_most, c->sync_queue, peer);
    return 0;
}

/* The peer is not trusted: its values are checked as those of a program. */
static int config_check_adopted(struct pipe_config *c, int peer, struct error *err)
{
    struct error invalid = {""};
    bool known = c->heap_bytes > 0 && c->heuristic > RMALLOC_FIT_DEFAULT &&
                 c->heuristic <= RMALLOC_SEGREGATED_FIT && c->mode > RPIPE_SYNC_DEFAULT &&
                 c->mode <= RPIPE_SYNC_CHANNEL && config_slots_are_valid(c->slots);

    if (!known || config_check_heap(c, &invalid) != 0 || config_resolve_mode(c, &invalid) != 0)
        return error_set(err, -EPROTO, "rank %d offers a configuration that is invalid%s%s", peer,
                         invalid.text[0] != '\0' ? ": " : "", invalid.text);
    return config_check_bounds(c, peer, err);
}

int config_adopt(struct pipe_config *cfg, const struct pipe_config *other, int peer,
                 struct error *err)
{
    struct pipe_config c = *cfg;
    int rc;

    if (c.heuristic == RMALLOC_FIT_DEFAULT)
        c.heuristic = other->heuristic;
    if (c.mode == RPIPE_SYNC_DEFAULT)
        c.mode = other->mode;
    if (c.unit_bytes == 0)
        c.unit_bytes = other->unit_bytes;
    if (c.heap_bytes == 0)
        c.heap_bytes = other->heap_bytes;
    if (c.max_heap_bytes == 0)
        c.max_heap_bytes = other->max_heap_bytes;
    if (c.slots == 0)
        c.slots = other->slots;
    if (c.sync_queue == 0)
        c.sync_queue = other->sync_queue;
    rc = config_check_adopted(&c, peer, err);
    if (rc != 0)
        return rc;
    /* these alone: the thread of the end reads what it has given meanwhile */
    cfg->heuristic = c.heuristic;
    cfg->mode = c.mode;
    cfg->unit_bytes = c.unit_bytes;
    cfg->heap_bytes = c.heap_bytes;
    cfg->max_heap_bytes = c.max_heap_bytes;
    cfg->slots = c.slots;
    cfg->sync_queue = c.sync_queue;
    return 0;
}

/* ---- cells ---- */

int config_resolve_cells(const rcells_config_t *cfg, struct pipe_config *resolved, int ranks,
                         struct error *err)
{
    uint64_t cells = cfg->cells != 0            ? cfg->cells
                     : cfg->role == RCELLS_USER ? 0 /* as the owner */
                                                : CELLS_DEFAULT;
    struct pipe_config c = {
        .role = cfg->role == RCELLS_USER ? SIDE_WRITER : SIDE_READER,
        .peer = cfg->peer,
        .context = cfg->context | CONTEXT_CELLS,
        .op = OP_CELLS,
        .heuristic = RMALLOC_NEXT_FIT,
        .mode = RPIPE_SYNC_BLOCKS, /* nothing is freed */
        .unit_bytes = sizeof(uint64_t),
        .heap_bytes = cells * sizeof(uint64_t),
        .heap_bytes_at_most =
            (cfg->cells_at_most != 0 ? cfg->cells_at_most : CELLS_AT_MOST_DEFAULT) *
            sizeof(uint64_t),
        .slots = SLOTS_LEAST,
        .threads = (cfg->flags & RPIPE_THREADS) != 0,
        .huge_pages = (cfg->flags & RPIPE_HUGE_PAGES) != 0 || setting_number(SET_HUGE_PAGES) != 0,
        .max_messages = MESSAGES_DEFAULT,
        .inline_max = DESC_INLINE_MAX,
        .backend = cfg->backend,
    };
    int rc = config_check_common(cfg->peer, ranks, cfg->context, cfg->flags, err);

    if (rc != 0)
        return rc;
    if (cfg->role != RCELLS_OWNER && cfg->role != RCELLS_USER)
        return error_set(err, -EINVAL, "role is %d; set RCELLS_OWNER or RCELLS_USER",
                         (int)cfg->role);
    if (cfg->cells > CELLS_MOST)
        return error_set(err, -EINVAL, "cells is %llu; it must be 0 (the default) or 1 to %llu",
                         (unsigned long long)cfg->cells, (unsigned long long)CELLS_MOST);
    if (cfg->shared != NULL && cfg->role == RCELLS_USER)
        return error_set(err, -EINVAL,
                         "shared is given and role is RCELLS_USER; shared is for RCELLS_OWNER, in "
                         "whose memory the cells are");
    rc = config_timeout(cfg->timeout_ms, &c.timeout_ms, err);
    if (rc == 0)
        *resolved = c;
    return rc;
}
