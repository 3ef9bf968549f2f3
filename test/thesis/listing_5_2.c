/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off: as printed */
/*
 * listing_5_2.c: thesis listing 5.2 as printed: a stencil over a grid in bands of rows, one band for each process. The last
 * assignment of its loop is printed with rread_mem on the outgoing channel, which therefore allocates.
 */
#include <rmalloc_thesis.h>
#include <stdio.h>

#define STEPS 20
#define NONE (-1)
#define ROWS 6
#define COLS 64

static int u[2][ROWS][COLS];

/* Every cell becomes itself plus the cells above and below; the outermost new rows go to the neighbors, too. */
static void remote_update(int start, int end, int *from, int *to, int *lrows_in, int *rrows_in,
                          int *lrows_out, int *rrows_out)
{
    for (int y = start; y <= end; y++)
        for (int x = 0; x < COLS; x++) {
            int above = y > 0 ? from[(y - 1) * COLS + x] : lrows_in != NULL ? lrows_in[x] : 0;
            int below = y + 1 < ROWS       ? from[(y + 1) * COLS + x]
                        : rrows_in != NULL ? rrows_in[x]
                                           : 0;

            to[y * COLS + x] = (from[y * COLS + x] + above + below) % 1000;
            if (y == 0 && lrows_out != NULL)
                lrows_out[x] = to[y * COLS + x];
            if (y == ROWS - 1 && rrows_out != NULL)
                rrows_out[x] = to[y * COLS + x];
        }
}

static rch_t channel(int peer, bool active)
{
    rmalloc_config_t cfg = {.allocator = {.peer = peer, .rdma_active = active, .unit_size = 64}};
    rch_t ch = NULL;

    cfg.allocator.alloc_size = 8 * COLS * sizeof(int);
    rpipe(ch, cfg);
    return ch;
}

/* The same steps by one process. */
static int differs(int rank, int nranks)
{
    static int all[2][64 * ROWS][COLS];
    int rows = nranks * ROWS;

    for (int i = 0; i < rows * COLS; i++)
        all[0][i / COLS][i % COLS] = i % 997;
    for (int it = 0; it < STEPS; it++)
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < COLS; x++) {
                int above = y > 0 ? all[it % 2][y - 1][x] : 0,
                    below = y + 1 < rows ? all[it % 2][y + 1][x] : 0;

                all[1 - it % 2][y][x] = (all[it % 2][y][x] + above + below) % 1000;
            }
    return memcmp(all[STEPS % 2][rank * ROWS], u[STEPS % 2], sizeof(u[0])) != 0;
}

int main(void)
{
    rch_t left_ch[2] = {NULL, NULL},
          right_ch[2] = {NULL, NULL}; /* [0] from the neighbor, [1] to the neighbor */
    raddr_t rm_lrows_in, rm_lrows_out, rm_rrows_in, rm_rrows_out;
    int *rm_lrows_in_mem = NULL, *rm_lrows_out_mem = NULL, *rm_rrows_in_mem = NULL,
        *rm_rrows_out_mem = NULL;
    int rank, nranks, left, right, it, iz = 0, start = 0, end = ROWS - 1;
    size_t bytes = COLS * sizeof(int);

    if (rinit(&rank, &nranks) != R_SUCCESS || nranks > 64)
        return 1;
    left = rank > 0 ? rank - 1 : NONE;
    right = rank + 1 < nranks ? rank + 1 : NONE;
    for (int i = 0; i < ROWS * COLS; i++)
        u[0][i / COLS][i % COLS] = (rank * ROWS * COLS + i) % 997;
    if (left != NONE) {
        left_ch[0] = channel(left, false);
        left_ch[1] = channel(left, true);
        memcpy(rmalloc_mem(left_ch[1], bytes, &rm_lrows_out), u[0][0], bytes);
    }
    if (right != NONE) {
        right_ch[0] = channel(right, false);
        right_ch[1] = channel(right, true);
        memcpy(rmalloc_mem(right_ch[1], bytes, &rm_rrows_out), u[0][ROWS - 1], bytes);
    }
    /* ---- listing 5.2 ---- */
    for (it = 1; it <= STEPS; it++) {
        if (left != NONE)
            rwrite(left_ch[1], rm_lrows_out);
        if (right != NONE)
            rwrite(right_ch[1], rm_rrows_out);

        if (left != NONE) {
            rm_lrows_in_mem = rread_mem(left_ch[0], bytes, &rm_lrows_in);
            rm_lrows_out_mem = rmalloc_mem(left_ch[1], bytes, &rm_lrows_out);
        }
        if (right != NONE) {
            rm_rrows_in_mem = rread_mem(right_ch[0], bytes, &rm_rrows_in);
            rm_rrows_out_mem = rread_mem(right_ch[1], bytes, &rm_rrows_out);
        }
        // remote memory update with new data

        remote_update(start, end, &u[iz][0][0], &u[1 - iz][0][0], rm_lrows_in_mem, rm_rrows_in_mem,

                      rm_lrows_out_mem, rm_rrows_out_mem);

        if (left != NONE)

            rfree(left_ch[0], rm_lrows_in);

        if (right != NONE)

            rfree(right_ch[0], rm_rrows_in);

        iz = 1 - iz;
    }
    /* ---- */
    if (left != NONE)
        rfree(left_ch[1], rm_lrows_out);
    if (right != NONE)
        rfree(right_ch[1], rm_rrows_out);
    return differs(rank, nranks) | (rexit() != R_SUCCESS);
}
