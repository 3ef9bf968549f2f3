/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listing_5_2_halo.c: a stencil over a grid that is split into bands of rows (thesis listing 5.2).
 *
 * Each process has a channel to and one from either neighbour. Its outermost rows are computed into
 * memory of the outgoing channels as well, so a halo row is never packed, copied or unpacked:
 * remote_update() reads the neighbours' rows where they arrived and leaves its own where they will
 * be read. No line of this loop synchronizes anything.
 *
 * Numbers are integers, so that the result can be compared exactly with the same steps done by one
 * process. heat2d.c is the same pattern at full size.
 *
 *     mpirun -n 3 listing_5_2_halo
 */
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#define STEPS 100
#define ROWS 6 /* of each process */
#define COLS 64
#define NONE (-1)

typedef uint64_t row_t[COLS];

static const row_t edge; /* beyond the first and the last process: zeros */

static rch_t channel(int peer, int writer)
{
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.op = RPIPE_PUT;
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = 4 * sizeof(row_t);
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

static void update_row(uint64_t *out, const uint64_t *before, const uint64_t *here,
                       const uint64_t *after)
{
    for (int x = 0; x < COLS; x++)
        out[x] =
            3 * here[x] + before[x] + after[x] + here[(x + 1) % COLS] + here[(x + COLS - 1) % COLS];
}

/*
 * new = one step of old; left and right are the rows beside
 * it, and the outermost new rows go to left_out and right_out
 */
static void remote_update(row_t *new, const row_t *old, int rows, const uint64_t *left,
                          const uint64_t *right, uint64_t *left_out, uint64_t *right_out)
{
    for (int y = 0; y < rows; y++) {
        const uint64_t *before = y > 0 ? old[y - 1] : left,
                       *after = y + 1 < rows ? old[y + 1] : right;

        update_row(new[y], before, old[y], after);
        if (y == 0 && left_out != NULL)
            update_row(left_out, before, old[y], after);
        if (y == rows - 1 && right_out != NULL)
            update_row(right_out, before, old[y], after);
    }
}

static uint64_t start_value(int y, int x)
{
    return (uint64_t)y * 2654435761u ^ (uint64_t)x * 40503u;
}

static void check(const row_t *mine, int rank, int nranks)
{
    int rows = nranks * ROWS;
    row_t *u[2] = {calloc((size_t)rows, sizeof(row_t)), calloc((size_t)rows, sizeof(row_t))};

    MUST_HOLD(u[0] != NULL && u[1] != NULL);
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < COLS; x++)
            u[0][y][x] = start_value(y, x);
    for (int it = 0; it < STEPS; it++)
        remote_update(u[1 - it % 2], u[it % 2], rows, edge, edge, NULL, NULL);
    MUST_HOLD(memcmp(mine, u[STEPS % 2][rank * ROWS], ROWS * sizeof(row_t)) == 0);
    free(u[0]);
    free(u[1]);
}

int main(int argc, char **argv)
{
    static row_t u[2][ROWS];
    rch_t left_ch[2] = {NULL, NULL},
          right_ch[2] = {NULL, NULL}; /* [0] from the neighbour, [1] to the neighbour */
    raddr_t lrow_in = ADDR_NULL, lrow_out = ADDR_NULL, rrow_in = ADDR_NULL, rrow_out = ADDR_NULL;
    const uint64_t *lrow_in_mem = edge, *rrow_in_mem = edge;
    uint64_t *lrow_out_mem = NULL, *rrow_out_mem = NULL;
    int rank, nranks, left, right, iz = 0;

    must_be_alone(argc, argv,
                  "A stencil over a grid in bands: halo rows are computed where they will be read.",
                  "mpirun -n 3 listing_5_2_halo");
    MUST(NULL, rinit(&rank, &nranks));
    left = rank > 0 ? rank - 1 : NONE;
    right = rank + 1 < nranks ? rank + 1 : NONE;
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLS; x++)
            u[0][y][x] = start_value(rank * ROWS + y, x);

    /* The rows that the neighbours need first. */
    if (left != NONE) {
        left_ch[0] = channel(left, 0);
        left_ch[1] = channel(left, 1);
        lrow_out_mem = must_alloc(left_ch[1], sizeof(row_t), &lrow_out);
        memcpy(lrow_out_mem, u[0][0], sizeof(row_t));
    }
    if (right != NONE) {
        right_ch[0] = channel(right, 0);
        right_ch[1] = channel(right, 1);
        rrow_out_mem = must_alloc(right_ch[1], sizeof(row_t), &rrow_out);
        memcpy(rrow_out_mem, u[0][ROWS - 1], sizeof(row_t));
    }

    for (int it = 1; it <= STEPS; it++) {
        if (left != NONE)
            MUST(left_ch[1], rwrite(left_ch[1], lrow_out));
        if (right != NONE)
            MUST(right_ch[1], rwrite(right_ch[1], rrow_out));

        if (left != NONE) {
            lrow_in_mem = must_read(left_ch[0], &lrow_in, NULL);
            lrow_out_mem = must_alloc(left_ch[1], sizeof(row_t), &lrow_out);
        }
        if (right != NONE) {
            rrow_in_mem = must_read(right_ch[0], &rrow_in, NULL);
            rrow_out_mem = must_alloc(right_ch[1], sizeof(row_t), &rrow_out);
        }

        remote_update(u[1 - iz], u[iz], ROWS, lrow_in_mem, rrow_in_mem, lrow_out_mem, rrow_out_mem);

        if (left != NONE)
            MUST(left_ch[0], rfree(left_ch[0], lrow_in));
        if (right != NONE)
            MUST(right_ch[0], rfree(right_ch[0], rrow_in));
        iz = 1 - iz;
    }

    /* The last rows belong to a step that is not executed: allocated, never sent. */
    if (left != NONE)
        MUST(left_ch[1], rfree(left_ch[1], lrow_out));
    if (right != NONE)
        MUST(right_ch[1], rfree(right_ch[1], rrow_out));
    check(u[iz], rank, nranks);
    if (rank == 0)
        printf("listing 5.2: %d processes, %d steps, every cell as computed by one process\n",
               nranks, STEPS);
    MUST(NULL, rexit());
    return 0;
}
