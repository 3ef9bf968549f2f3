/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.h: the configuration of an end as the library uses it: flat, checked, with defaults resolved.
 *
 * The members have the names of rpipe_config_t; where a member of that structure is a code (percent, flags, 0 for the
 * default), the member here is the plain value. Agreed members that this end leaves to the other one are 0 until joining.
 */
#ifndef RPIPE_END_CONFIG_H
#define RPIPE_END_CONFIG_H

#include "util/error.h"

#include <rpipe.h>
#include <stdbool.h>

/* Bits of a context: the family of the library that it belongs to; a program cannot set them. */
#define CONTEXT_CELLS (UINT64_C(1) << 62)
#define CONTEXT_LIBRARY                                                                            \
    (UINT64_C(3)                                                                                   \
     << 61) /* bit 61: active messages and messages by tag (lib/am, lib/msg: context.c) */

#define CONFIG_LIBRARY                                                                             \
    (1u << 31) /* flags: the caller is lib/am or lib/msg, which are built on the public interface */

enum side { SIDE_WRITER = RPIPE_WRITER, SIDE_READER = RPIPE_READER };

enum config_op { OP_PUT = RPIPE_PUT, OP_GET = RPIPE_GET, OP_CELLS };

struct pipe_config {
    enum side role;
    int peer;
    uint64_t context;
    enum config_op op;
    rmalloc_fit_t heuristic;
    rpipe_sync_t mode;
    uint32_t unit_bytes;
    uint64_t heap_bytes;         /* bytes of the heap; of cells: 8 for each */
    uint64_t max_heap_bytes;     /* bytes that the heap may grow to; 0: it does not grow */
    uint64_t heap_bytes_at_most; /* largest heap taken over from the other end */
    uint32_t slots;
    uint32_t slots_at_most;
    uint32_t sync_queue; /* blocks mode: 0 */
    uint32_t sync_queue_at_most;
    int timeout_ms;       /* ms; -1: no deadline; 0: no waiting */
    bool threads;         /* several threads use this end */
    bool huge_pages;      /* heap in huge pages, where there are any */
    double watermark;     /* share of ring or heap in use that refreshes credits, 0 to 1 */
    uint32_t inline_max;  /* largest payload in its slot, bytes, 0 to 40 */
    uint32_t fetch_ahead; /* 0: default of the backend */
    uint32_t grow_after_us;
    uint32_t max_messages;
    uint32_t max_cqe;    /* 0: default of the backend */
    const char *backend; /* NULL: the best that connects the two processes */
    uint64_t seed;
    const rmemory_ops_t *memory; /* of the heap; NULL: memory of the host */
    rstream_t stream;            /* NULL: none */
    rch_t
        cells_of; /* OP_CELLS, owner: the end whose cells this one shares; NULL: cells of its own */
};

/* Checks the configuration of a program and resolves its defaults. 0, or -EINVAL and the message. */
int config_resolve(const rpipe_config_t *cfg, struct pipe_config *resolved, int ranks,
                   struct error *err);
/*
 * The backend has been chosen: resolves slots, if neither the program nor the setting did. Both ends of a pipe have the same
 * backend, so that two ends that both resolve them agree. `mapped`: it maps the other end's memory.
 */
void config_resolve_slots(struct pipe_config *c, bool mapped);
/* A table of a device has this version, and a name. */
int config_check_device(const rmemory_ops_t *m, struct error *err);
/* A table of version 1 has none: it ends before. */
rmemory_kind_t config_device_kind(const rmemory_ops_t *m);
/* The same as config_resolve for an array of cells; the caller sets cells_of. */
int config_resolve_cells(const rcells_config_t *cfg, struct pipe_config *resolved, int ranks,
                         struct error *err);
/*
 * The end without the heap may leave sizes to the other end: heap_bytes is 0 until it is joined, and so are other agreed members.
 */
static inline bool config_is_open(const struct pipe_config *cfg) { return cfg->heap_bytes == 0; }
/* Takes over the values of the other end for the members that are 0. -EPROTO and both values: more than this end allows, or invalid. */
int config_adopt(struct pipe_config *cfg, const struct pipe_config *other, int peer,
                 struct error *err);
/* timeout_ms of a public structure as a deadline in ms: -1 none, 0 no waiting. -EINVAL and the message. */
int config_timeout(int timeout_ms, int *resolved, struct error *err);

static inline enum side config_side(const struct pipe_config *cfg) { return cfg->role; }

const char *config_op_name(int op);
const char *config_mode_name(int mode);
const char *config_heuristic_name(int heuristic);

#endif
