/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * next_fit_arena.h: what the arenas of next-fit (next_fit.c) contain.
 */
#ifndef ALLOC_NEXT_FIT_ARENA_H
#define ALLOC_NEXT_FIT_ARENA_H

#include "alloc/fit.h"

static inline bool next_fit_waits(const struct rdesc *d) { return desc_state(d) >= DESC_FREED; }

static inline struct rdesc *next_fit_first(const struct segment *s) { return s->edge.next; }

/* Offset of the oldest block, which the head must not pass after it has wrapped. */
static inline uint64_t next_fit_tail(const struct segment *s) { return next_fit_first(s)->offset; }

static inline uint64_t next_fit_used(const struct heap *h)
{
    return h->peak + h->now.head - h->mark;
}

static inline const struct arena *next_fit_arena_of(const struct heap *h, const struct segment *s)
{
    return s == h->at ? &h->now : &s->arena;
}

static inline bool next_fit_empty(const struct heap *h, const struct segment *s)
{
    return next_fit_arena_of(h, s)->last == &s->edge;
}
static inline bool next_fit_wrapped(const struct heap *h, const struct segment *s)
{
    return next_fit_arena_of(h, s)->limit != s->end;
}

#endif
