/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_atomic.c: ATOMIC pipes between processes: a counter that all ranks share gives every number once; each operation; both ends.
 *
 * Every rank is the passive end of one array of cells that all others share (cells_of), and the active end of all other arrays.
 */
#include "test/lib/mp_check.h"

#define CELLS 8
#define ROUNDS 2000
enum { NEXT, SUM, BITS, SWAPPED };

static rmalloc_config_t config(int peer, bool active, rch_t cells_of)
{
    rmalloc_config_t cfg = RMALLOC_CONFIG_DEFAULT;

    cfg.allocator.op = RDMA_ATOMIC;
    cfg.allocator.peer = peer;
    cfg.allocator.rdma_active = active;
    cfg.allocator.alloc_size = CELLS * sizeof(uint64_t);
    cfg.allocator.cells_of = cells_of;
    return cfg;
}

static uint64_t fetched(rch_t ch, ratomic_op_t op, size_t cell, uint64_t operand)
{
    uint64_t old;

    CHECK_OK(ch, ratomic(ch, op, cell, operand, 0, &old));
    return old;
}

/* Everybody takes numbers from rank 0's first cell; together they have taken each of them once. */
static void share_work(rch_t ch)
{
    uint64_t mine[2] = {0, 0}, *all = malloc((size_t)mp_ranks * sizeof(mine)), next, count = 0,
             sum = 0, last = 0;
    int i;

    CHECK(NULL, all != NULL);
    while ((next = fetched(ch, RATOMIC_ADD, NEXT, 1)) < ROUNDS) {
        CHECK(ch, mine[0] == 0 || next > last);
        last = next;
        mine[0]++;
        mine[1] += next;
        CHECK_OK(ch, ratomic(ch, RATOMIC_ADD, SUM, next, 0, NULL));
        CHECK_OK(ch, ratomic(ch, RATOMIC_OR, BITS, UINT64_C(1) << next % 64, 0, NULL));
    }
    CHECK_OK(ch, rflush(ch));
    CHECK_OK(NULL, network_allgather(mine, sizeof(mine), all));
    for (i = 0; i < mp_ranks; i++) {
        count += all[2 * i];
        sum += all[2 * i + 1];
    }
    free(all);
    CHECK(ch, count == ROUNDS && sum == (uint64_t)ROUNDS * (ROUNDS - 1) / 2);
    CHECK(ch, fetched(ch, RATOMIC_ADD, SUM, 0) == sum);
    CHECK(ch, fetched(ch, RATOMIC_ADD, BITS, 0) == UINT64_MAX);
    CHECK(ch, fetched(ch, RATOMIC_ADD, NEXT, 0) == (uint64_t)(ROUNDS + mp_ranks));
}

/* Whatever is swapped in comes out once: at somebody's swap, or at the end. */
static void swap_around(rch_t ch)
{
    uint64_t mine = 0, *all = malloc((size_t)mp_ranks * sizeof(mine)), sum = 0, expected = 0;
    int i;

    CHECK(NULL, all != NULL);
    CHECK_OK(NULL, network_barrier());
    for (i = 1; i <= 200; i++)
        mine += fetched(ch, RATOMIC_SWAP, SWAPPED, (uint64_t)mp_rank * 1000 + (uint64_t)i);
    CHECK_OK(NULL, network_allgather(&mine, sizeof(mine), all));
    for (i = 0; i < mp_ranks; i++)
        sum += all[i];
    free(all);
    for (i = 0; i < mp_ranks; i++)
        expected += 200 * (uint64_t)i * 1000 + 200 * 201 / 2;
    CHECK(ch, sum + fetched(ch, RATOMIC_ADD, SWAPPED, 0) == expected);
}

int main(int argc, char **argv)
{
    rch_t *passive, *active, master = NULL;
    rpipe_transport_t t;
    int i;

    mp_begin(argc, argv, 1);
    passive = calloc((size_t)mp_ranks + 1, sizeof(*passive));
    active = calloc((size_t)mp_ranks + 1, sizeof(*active));
    CHECK(NULL, passive != NULL && active != NULL);
    for (i = 0; i < mp_ranks; i++) {
        rmalloc_config_t p = config(i, false, master), a = config(i, true, NULL);

        CHECK_OK(NULL, rpipe(&passive[i], &p));
        if (master == NULL)
            master = passive[i];
        CHECK_OK(NULL, rpipe(&active[i], &a));
    }
    for (i = 0; i < mp_ranks; i++) {
        CHECK_OK(active[i], rpipe_wait(active[i]));
        CHECK_OK(passive[i], rpipe_wait(passive[i]));
    }
    CHECK_OK(active[0], rpipe_transport(active[0], &t));
    if (mp_rank == mp_ranks - 1)
        printf("to rank 0 by %s: %s\n", t.backend, t.cells);
    for (i = 0; i < mp_ranks; i++) {
        share_work(active[i]);
        swap_around(active[i]);
    }
    CHECK_OK(NULL, network_barrier());
    for (i = 0; i < mp_ranks; i++) {
        CHECK_OK(active[i], rclose(active[i]));
        CHECK_OK(passive[i], rclose(passive[i]));
    }
    free(passive);
    free(active);
    return mp_end();
}
