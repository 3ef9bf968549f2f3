/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts.h: the counters and the description of a pipe, which a program reads by name, as structures for tests.
 */
#ifndef TEST_LIB_COUNTS_H
#define TEST_LIB_COUNTS_H

#include <rinfo.h>
#include <stddef.h>
#include <string.h>

struct pipe_counts {
    uint64_t messages, bytes, inline_messages, held, credit_fetches, stalls_ring, stalls_heap;
    uint64_t stalls_queue, sleeps, wakes, returned, grows, grow_refused;
    uint64_t heap_used; /* bytes of blocks that have not returned */
    uint64_t heap_bytes;
    uint32_t slots, incarnation;
};

struct pipe_transport {
    char backend[16], path[160], why[320], cells[16];
    uint64_t work_requests, doorbells, signaled, inlined, gets, credit_reads, direct;
};

struct counter_place {
    const char *name;
    size_t offset;
};

/* The description of an end, and its counters at their places in `to`. */
static inline int count_all(rch_t ch, rinfo_pipe_t *pipe, const struct counter_place *place,
                            size_t n, void *to)
{
    int rc = rinfo_describe(ch, pipe);

    for (size_t i = 0; i < n && rc == R_SUCCESS; i++) {
        uint64_t value = 0;

        rc = rinfo_count(ch, place[i].name, &value);
        memcpy((char *)to + place[i].offset, &value, sizeof(value));
    }
    return rc;
}

/* *counts changes on success only. */
static inline int pipe_counts(rch_t ch, struct pipe_counts *counts)
{
#define COUNT_OF(member)                                                                           \
    {                                                                                              \
#member, offsetof(struct pipe_counts, member)                                              \
    }
    static const struct counter_place place[] = {
        COUNT_OF(messages),        COUNT_OF(bytes),
        COUNT_OF(inline_messages), COUNT_OF(held),
        COUNT_OF(credit_fetches),  COUNT_OF(stalls_ring),
        COUNT_OF(stalls_heap),     COUNT_OF(stalls_queue),
        COUNT_OF(sleeps),          COUNT_OF(wakes),
        COUNT_OF(returned),        COUNT_OF(grows),
        COUNT_OF(grow_refused),    {"outstanding_bytes", offsetof(struct pipe_counts, heap_used)},
    };
#undef COUNT_OF
    struct pipe_counts found = {0};
    rinfo_pipe_t pipe;
    int rc = count_all(ch, &pipe, place, sizeof(place) / sizeof(place[0]), &found);

    if (rc != R_SUCCESS)
        return rc;
    found.heap_bytes = pipe.heap_bytes;
    found.slots = pipe.slots;
    found.incarnation = pipe.incarnation;
    *counts = found;
    return R_SUCCESS;
}

static inline int pipe_transport(rch_t ch, struct pipe_transport *transport)
{
#define PLACE_OF(name, member)                                                                     \
    {                                                                                              \
        name, offsetof(struct pipe_transport, member)                                              \
    }
    static const struct counter_place place[] = {
        PLACE_OF("work_requests", work_requests),
        PLACE_OF("doorbells", doorbells),
        PLACE_OF("completions", signaled),
        PLACE_OF("inlined", inlined),
        PLACE_OF("reads", gets),
        PLACE_OF("credit_reads", credit_reads),
        PLACE_OF("direct", direct),
    };
#undef PLACE_OF
    struct pipe_transport found = {0};
    rinfo_pipe_t pipe;
    int rc = count_all(ch, &pipe, place, sizeof(place) / sizeof(place[0]), &found);

    if (rc != R_SUCCESS)
        return rc;
    memcpy(found.backend, pipe.backend, sizeof(found.backend));
    memcpy(found.path, pipe.path, sizeof(found.path));
    memcpy(found.why, pipe.why, sizeof(found.why));
    memcpy(found.cells, pipe.cells, sizeof(found.cells));
    *transport = found;
    return R_SUCCESS;
}

#endif
