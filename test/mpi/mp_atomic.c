/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_atomic.c: cells between processes: a counter that all ranks share gives every number once; each operation; both ends.
 *
 * Every rank is the owner of one array of cells that all others share, and a user of all other arrays.
 */
#include "test/lib/mp_check.h"
#include "test/lib/counts.h"
#include <rpipe.h>

#define CELLS 8
#define ROUNDS 2000
enum { NEXT, SUM, BITS, SWAPPED };

static rcells_config_t config(int peer, rcells_role_t role, rcells_t shared)
{
    return (rcells_config_t){.role = role, .peer = peer, .cells = CELLS, .shared = shared};
}

static uint64_t fetched(rcells_t c, rcells_op_t op, size_t cell, uint64_t operand)
{
    uint64_t old;

    CHECK_OK(rcells_pipe(c), rcells_atomic(c, op, cell, operand, 0, &old));
    return old;
}

/* Each rank takes numbers from rank 0's first cell; together they have taken each of them once. */
static void share_work(rcells_t c)
{
    uint64_t mine[2] = {0, 0}, *all = malloc((size_t)mp_ranks * sizeof(mine)), next, count = 0,
             sum = 0, last = 0;
    int i;

    CHECK(NULL, all != NULL);
    while ((next = fetched(c, RCELLS_ADD, NEXT, 1)) < ROUNDS) {
        CHECK(rcells_pipe(c), mine[0] == 0 || next > last);
        last = next;
        mine[0]++;
        mine[1] += next;
        CHECK_OK(rcells_pipe(c), rcells_atomic(c, RCELLS_ADD, SUM, next, 0, NULL));
        CHECK_OK(rcells_pipe(c),
                 rcells_atomic(c, RCELLS_OR, BITS, UINT64_C(1) << next % 64, 0, NULL));
    }
    CHECK_OK(rcells_pipe(c), rcells_flush(c));
    CHECK_OK(NULL, network_allgather(mine, sizeof(mine), all));
    for (i = 0; i < mp_ranks; i++) {
        count += all[2 * i];
        sum += all[2 * i + 1];
    }
    free(all);
    CHECK(rcells_pipe(c), count == ROUNDS && sum == (uint64_t)ROUNDS * (ROUNDS - 1) / 2);
    CHECK(rcells_pipe(c), fetched(c, RCELLS_ADD, SUM, 0) == sum);
    CHECK(rcells_pipe(c), fetched(c, RCELLS_ADD, BITS, 0) == UINT64_MAX);
    CHECK(rcells_pipe(c), fetched(c, RCELLS_ADD, NEXT, 0) == (uint64_t)(ROUNDS + mp_ranks));
}

/* Whatever is swapped in comes out once: at a swap, or at the end. */
static void swap_around(rcells_t c)
{
    uint64_t mine = 0, *all = malloc((size_t)mp_ranks * sizeof(mine)), sum = 0, expected = 0;
    int i;

    CHECK(NULL, all != NULL);
    CHECK_OK(NULL, network_barrier());
    for (i = 1; i <= 200; i++)
        mine += fetched(c, RCELLS_SWAP, SWAPPED, (uint64_t)mp_rank * 1000 + (uint64_t)i);
    CHECK_OK(NULL, network_allgather(&mine, sizeof(mine), all));
    for (i = 0; i < mp_ranks; i++)
        sum += all[i];
    free(all);
    for (i = 0; i < mp_ranks; i++)
        expected += 200 * (uint64_t)i * 1000 + 200 * 201 / 2;
    CHECK(rcells_pipe(c), sum + fetched(c, RCELLS_ADD, SWAPPED, 0) == expected);
}

int main(int argc, char **argv)
{
    rcells_t *passive, *active, master = NULL;
    struct pipe_transport t = {0};
    int i;

    mp_begin(argc, argv, 1);
    passive = calloc((size_t)mp_ranks + 1, sizeof(*passive));
    active = calloc((size_t)mp_ranks + 1, sizeof(*active));
    CHECK(NULL, passive != NULL && active != NULL);
    for (i = 0; i < mp_ranks; i++) {
        rcells_config_t p = config(i, RCELLS_OWNER, master), a = config(i, RCELLS_USER, NULL);

        CHECK_OK(NULL, rcells_open(&passive[i], &p));
        if (master == NULL)
            master = passive[i];
        CHECK_OK(NULL, rcells_open(&active[i], &a));
    }
    for (i = 0; i < mp_ranks; i++) {
        CHECK_OK(rcells_pipe(active[i]), rwait(rcells_pipe(active[i])));
        CHECK_OK(rcells_pipe(passive[i]), rwait(rcells_pipe(passive[i])));
    }
    CHECK_OK(rcells_pipe(active[0]), pipe_transport(rcells_pipe(active[0]), &t));
    if (mp_rank == mp_ranks - 1)
        printf("to rank 0 by %s: %s\n", t.backend, t.cells);
    for (i = 0; i < mp_ranks; i++) {
        share_work(active[i]);
        swap_around(active[i]);
    }
    CHECK_OK(NULL, network_barrier());
    for (i = 0; i < mp_ranks; i++) {
        CHECK_OK(rcells_pipe(active[i]), rcells_close(active[i]));
        CHECK_OK(rcells_pipe(passive[i]), rcells_close(passive[i]));
    }
    free(passive);
    free(active);
    return mp_end();
}
