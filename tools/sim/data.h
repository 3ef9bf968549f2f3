/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * data.h: memory of a simulated member, as symbols: which bytes of which contributions are where.
 *
 * A segment of bytes holds as many bytes of the vector that members contribute, from `source` on, and its
 * value stands for the members whose contributions are folded in it, in which order. So memory of any size
 * takes a few segments, and what an operation moves is checked byte by byte.
 */
#ifndef TOOLS_SIM_DATA_H
#define TOOLS_SIM_DATA_H

#include "coll/coll.h"

#include <stdint.h>

struct data_segment {
    size_t at, end; /* bytes [at, end) of the memory */
    size_t source;  /* where byte `at` has been in the contribution */
    uint64_t value;
};

struct data {
    struct data_segment *segment; /* ascending, without overlap; between them nothing was written */
    uint32_t count, allocated;
};

/* The value of a contribution, and of a fold of two: it depends on their order as far as `order` does. */
uint64_t data_value(int member);
uint64_t data_combine(enum coll_order order, uint64_t left, uint64_t right);

/* All of these return 0 or -ENOMEM, and data_read() and data_fold() -EINVAL: bytes that were never
 * written are read, or bytes of different sources are folded. */
int data_fill(struct data *d, size_t at, size_t bytes, uint64_t value, size_t source);
/* Replaces `out` by bytes [at, at + bytes) of d, which become bytes [to, to + bytes). */
int data_read(const struct data *d, size_t at, size_t bytes, size_t to, struct data *out);
/* The segments of `what` replace what was there. They are a row without gaps. */
int data_write(struct data *d, const struct data *what);
/* The segments of `what` are folded into what is there. */
int data_fold(struct data *d, const struct data *what, enum coll_order order, bool reversed);
/* Whether bytes [at, at + bytes) have this value, and sources from `source` on. */
bool data_is(const struct data *d, size_t at, size_t bytes, uint64_t value, size_t source);
void data_free(struct data *d);

#endif
