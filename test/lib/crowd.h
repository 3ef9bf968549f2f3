/* SPDX-License-Identifier: BSD-3-Clause */
/* crowd.h: several threads at both ends of a pipe; every message is checked. */
#ifndef TEST_LIB_CROWD_H
#define TEST_LIB_CROWD_H

#include "test/lib/pair.h"

enum { CROWD = 3, CROWD_HOLDS = 8 }; /* threads of each end; messages that one may hold */

struct crowd {
    struct pair p;
    uint64_t messages;
    uint64_t holds; /* messages that each reader holds before it frees them: 1 to CROWD_HOLDS */
    size_t (*size)(uint64_t number);
    atomic_uint_fast64_t next, got;
};

static inline void *crowd_writes(void *argument)
{
    struct crowd *c = argument;
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

static inline void *crowd_reads(void *argument)
{
    struct crowd *c = argument;
    uint64_t key[CROWD_HOLDS], n = 0;
    raddr_t held[CROWD_HOLDS];
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
static inline void crowd_run(struct crowd *c)
{
    pthread_t thread[2 * CROWD];

    for (int i = 0; i < 2 * CROWD; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, i % 2 == 0 ? crowd_writes : crowd_reads, c), 0);
    for (int i = 0; i < 2 * CROWD; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
}

#endif
