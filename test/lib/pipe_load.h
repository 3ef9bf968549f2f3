/* SPDX-License-Identifier: BSD-3-Clause */
/* pipe_load.h: several threads at both ends of a pipe; every message is checked. */
#ifndef TEST_LIB_PIPE_LOAD_H
#define TEST_LIB_PIPE_LOAD_H

#include "test/lib/pair.h"

enum {
    PIPE_LOAD_THREADS = 3,
    PIPE_LOAD_HELD = 8
}; /* threads of each end; messages that one may hold */

struct pipe_load {
    struct pair p;
    uint64_t messages;
    uint64_t holds; /* messages that each reader holds before it frees them: 1 to PIPE_LOAD_HELD */
    size_t (*size)(uint64_t number);
    atomic_uint_fast64_t next, got;
};

static inline void *pipe_load_write(void *argument)
{
    struct pipe_load *c = argument;
    uint64_t i;

    while ((i = atomic_fetch_add(&c->next, 1)) < c->messages) {
        raddr_t d = rmalloc(c->p.w, c->size(i));

        CHECK(c->p.w, d != ADDR_NULL);
        pattern_fill(rmem(c->p.w, d), c->size(i), i);
        (void)rset_tag(c->p.w, d, i);
        CHECK(c->p.w, rwrite(c->p.w, d) == R_SUCCESS);
    }
    return NULL;
}

static inline void *pipe_load_read(void *argument)
{
    struct pipe_load *c = argument;
    uint64_t key[PIPE_LOAD_HELD], n = 0;
    raddr_t held[PIPE_LOAD_HELD];
    size_t size;

    while (atomic_fetch_add(&c->got, 1) < c->messages) {
        CHECK(c->p.r, rread(c->p.r, &held[n], &size) == R_SUCCESS);
        key[n] = rtag(c->p.r, held[n]);
        CHECK(c->p.r, size == c->size(key[n]));
        if (++n < c->holds)
            continue;
        for (; n > 0; n--) {
            CHECK(c->p.r, pattern_same(rmem(c->p.r, held[n - 1]), c->size(key[n - 1]), key[n - 1]));
            CHECK(c->p.r, rfree(c->p.r, held[n - 1]) == R_SUCCESS);
        }
    }
    while (n-- > 0)
        CHECK(c->p.r, rfree(c->p.r, held[n]) == R_SUCCESS);
    return NULL;
}

/* The pipe is open, with RPIPE_THREADS at both ends. */
static inline void pipe_load_run(struct pipe_load *c)
{
    pthread_t thread[2 * PIPE_LOAD_THREADS];

    for (int i = 0; i < 2 * PIPE_LOAD_THREADS; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, i % 2 == 0 ? pipe_load_write : pipe_load_read, c), 0);
    for (int i = 0; i < 2 * PIPE_LOAD_THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
}

#endif
