/* SPDX-License-Identifier: BSD-3-Clause */
/* heat_grid.c: kernel, blocks, initial state, serial run and drawing, see heat_grid.h. */
#include "heat_grid.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONDUCTIVITY 0.24 /* of one step; stable below 0.25 */
#define MARGIN 12         /* of the drawing, pixels */
#define BAR 14            /* width of the colour bar, pixels */
#define ISOTHERMS 10
#define REQUESTED 8192 /* bytes of a halo; a longer one is fetched ahead by the processor itself */
#define CACHE_LINE 64

/* ---- the kernel ---- */

static inline double cell(double here, double above, double below, double left, double right)
{
    return here + CONDUCTIVITY * ((above + below) + (left + right) - 4.0 * here);
}

/* n cells of a row; left and right are the values beside them. */
static inline void row(double *restrict out, const double *above, const double *here,
                       const double *below, double left, double right, int n)
{
    out[0] = cell(here[0], above[0], below[0], left, n > 1 ? here[1] : right);
    for (int x = 1; x < n - 1; x++)
        out[x] = cell(here[x], above[x], below[x], here[x - 1], here[x + 1]);
    if (n > 1)
        out[n - 1] = cell(here[n - 1], above[n - 1], below[n - 1], here[n - 2], right);
}

static inline const double *row_at(const struct heat_block *b, const double *grid, int y)
{
    return grid + (size_t)y * (size_t)b->cols;
}

static void block_row(const struct heat_block *b, const double *now, double *next,
                      const struct heat_halo *halo, int y, int first, int behind, double *also)
{
    const double *here = row_at(b, now, y);
    const double *above = y > 0 ? here - b->cols : halo->from[HEAT_UP];
    const double *below = y + 1 < b->rows ? here + b->cols : halo->from[HEAT_DOWN];
    double left = first > 0 ? here[first - 1] : halo->from[HEAT_LEFT][y];
    double right = behind < b->cols ? here[behind] : halo->from[HEAT_RIGHT][y];
    double *out = next + (size_t)y * (size_t)b->cols + first;

    row(out, above + first, here + first, below + first, left, right, behind - first);
    /*
     * The other place is in the neighbour's cache: a burst of
     * whole lines waits for it once, a store a cell for each line.
     */
    if (also != NULL)
        memcpy(also, out, (size_t)(behind - first) * sizeof(*out));
}

/* The rows and columns that a neighbour needs are edges; there are none at the rim. */
static int first_row(const struct heat_block *b) { return b->peer[HEAT_UP] >= 0; }
static int behind_row(const struct heat_block *b) { return b->rows - (b->peer[HEAT_DOWN] >= 0); }
static int first_col(const struct heat_block *b) { return b->peer[HEAT_LEFT] >= 0; }
static int behind_col(const struct heat_block *b) { return b->cols - (b->peer[HEAT_RIGHT] >= 0); }

void heat_request(const struct heat_block *b, const struct heat_halo *halo)
{
    for (int i = 0; i < HEAT_SIDES; i++) {
        const char *from = (const char *)halo->from[i];
        size_t bytes = (size_t)heat_halo_cells(b, i) * sizeof(double);

        if (b->peer[i] >= 0)
            for (size_t at = 0; at < bytes && at < REQUESTED; at += CACHE_LINE)
                __builtin_prefetch(from + at);
    }
}

void heat_edges(const struct heat_block *b, const double *now, double *next,
                const struct heat_halo *halo)
{
    double *up = halo->send[HEAT_UP], *down = halo->send[HEAT_DOWN];
    double *left = halo->send[HEAT_LEFT], *right = halo->send[HEAT_RIGHT];
    size_t cols = (size_t)b->cols;

    if (b->peer[HEAT_UP] >= 0) {
        block_row(b, now, next, halo, 0, 0, b->cols, up);
        if (b->rows == 1 && down != NULL) /* one row: it is the outermost on both sides */
            memcpy(down, next, cols * sizeof(*next));
    }
    if (b->peer[HEAT_DOWN] >= 0 && (b->rows > 1 || b->peer[HEAT_UP] < 0))
        block_row(b, now, next, halo, b->rows - 1, 0, b->cols, down);
    for (int y = first_row(b); y < behind_row(b); y++) {
        if (b->peer[HEAT_LEFT] >= 0)
            block_row(b, now, next, halo, y, 0, 1, NULL);
        if (b->peer[HEAT_RIGHT] >= 0)
            block_row(b, now, next, halo, y, b->cols - 1, b->cols, NULL);
    }
    for (int y = 0; y < b->rows; y++) {
        if (left != NULL)
            left[y] = next[(size_t)y * cols];
        if (right != NULL)
            right[y] = next[(size_t)y * cols + cols - 1];
    }
}

void heat_interior(const struct heat_block *b, const double *now, double *next,
                   const struct heat_halo *halo)
{
    int first = first_col(b), behind = behind_col(b);

    if (first < behind)
        for (int y = first_row(b); y < behind_row(b); y++)
            block_row(b, now, next, halo, y, first, behind, NULL);
}

double heat_computing(const struct heat_block *b, double interior)
{
    int rows = behind_row(b) - first_row(b), cols = behind_col(b) - first_col(b);

    return rows > 0 && cols > 0 ? interior * ((double)b->rows * b->cols) / ((double)rows * cols)
                                : 0.0;
}

void heat_first_halo(const struct heat_block *b, const double *now, const struct heat_halo *halo)
{
    size_t cols = (size_t)b->cols;

    if (halo->send[HEAT_UP] != NULL)
        memcpy(halo->send[HEAT_UP], now, cols * sizeof(*now));
    if (halo->send[HEAT_DOWN] != NULL)
        memcpy(halo->send[HEAT_DOWN], row_at(b, now, b->rows - 1), cols * sizeof(*now));
    for (int y = 0; y < b->rows; y++) {
        if (halo->send[HEAT_LEFT] != NULL)
            halo->send[HEAT_LEFT][y] = now[(size_t)y * cols];
        if (halo->send[HEAT_RIGHT] != NULL)
            halo->send[HEAT_RIGHT][y] = now[(size_t)y * cols + cols - 1];
    }
}

/* ---- blocks ---- */

/* 0: not a word for a grid. auto and 1d, 2d: *down = 0, and *across what is asked for. */
static int grid_parse(const char *grid, int *down, int *across)
{
    char behind;

    *down = 0;
    *across = strcmp(grid, "1d") == 0 ? 1 : strcmp(grid, "2d") == 0 ? 2 : 0;
    if (*across > 0 || strcmp(grid, "auto") == 0)
        return 1;
    return sscanf(grid, "%dx%d%c", down, across, &behind) == 2 && *down > 0 && *across > 0;
}

bool heat_grid_valid(const char *grid)
{
    int down, across;

    return grid_parse(grid, &down, &across);
}

int heat_block_of(int rank, int nranks, int n, const char *grid, struct heat_block *b)
{
    int down, across, row_of, col_of;

    if (!grid_parse(grid, &down, &across))
        return -EINVAL;
    if (down == 0 && (across == 1 || (across == 0 && nranks < 4))) {
        down = nranks;
        across = 1;
    } else if (
        down ==
        0) { /* as square as the number of processes allows; rather wide halos than tall ones */
        for (across = 1; (across + 1) * (across + 1) <= nranks; across++)
            ;
        while (nranks % across != 0)
            across--;
        down = nranks / across;
    }
    if ((long)down * across != nranks || down > n || across > n)
        return -EINVAL;
    row_of = rank / across;
    col_of = rank % across;
    b->n = n;
    b->down = down;
    b->across = across;
    b->y = heat_cut(row_of, n, down);
    b->x = heat_cut(col_of, n, across);
    b->rows = heat_cut(row_of + 1, n, down) - b->y;
    b->cols = heat_cut(col_of + 1, n, across) - b->x;
    b->peer[HEAT_UP] = row_of > 0 ? rank - across : -1;
    b->peer[HEAT_DOWN] = row_of + 1 < down ? rank + across : -1;
    b->peer[HEAT_LEFT] = col_of > 0 ? rank - 1 : -1;
    b->peer[HEAT_RIGHT] = col_of + 1 < across ? rank + 1 : -1;
    return 0;
}

/* Sharp things, so that one sees what the heat has done to them: a ring, three discs, a comb. */
double heat_start(int y, int x, int n)
{
    double u = (x + 0.5) / n, v = (y + 0.5) / n;
    double from_ring = fabs(hypot(u - 0.36, v - 0.38) - 0.20);

    if (from_ring < 0.035)
        return 1.0;
    if (hypot(u - 0.36, v - 0.38) < 0.055 || hypot(u - 0.78, v - 0.20) < 0.075 ||
        hypot(u - 0.20, v - 0.80) < 0.10)
        return 0.9;
    if (u > 0.45 && u < 0.90 && v > 0.55 && v < 0.92 && (v > 0.86 || fmod(u - 0.45, 0.10) < 0.05))
        return 0.8;
    return 0.0;
}

void heat_start_block(const struct heat_block *b, double *now)
{
    for (int y = 0; y < b->rows; y++)
        for (int x = 0; x < b->cols; x++)
            now[(size_t)y * (size_t)b->cols + (size_t)x] = heat_start(b->y + y, b->x + x, b->n);
}

/* ---- one process alone ---- */

double *heat_serial(int n, int steps)
{
    size_t cells = (size_t)n * (size_t)n;
    double *now = malloc(cells * sizeof(*now)), *next = malloc(cells * sizeof(*next));
    double *rim = calloc((size_t)n, sizeof(*rim));
    struct heat_halo halo = {{rim, rim, rim, rim}, {NULL, NULL, NULL, NULL}};
    struct heat_block all;

    if (now == NULL || next == NULL || rim == NULL || heat_block_of(0, 1, n, "1d", &all) != 0) {
        free(now);
        now = NULL;
        goto out;
    }
    heat_start_block(&all, now);
    for (int step = 0; step < steps; step++) {
        double *swap = now;

        heat_interior(&all, now, next, &halo);
        now = next;
        next = swap;
    }
out:
    free(rim);
    free(next);
    return now;
}

int heat_compare(const char *app, const double *plate, int n, int steps)
{
    double *alone = heat_serial(n, steps);
    long cells = (long)n * n, wrong = 0, first = -1;

    if (alone == NULL) {
        fprintf(stderr, "%s: no memory to repeat the run\n", app);
        return 1;
    }
    for (long i = 0; i < cells; i++) {
        if (memcmp(&plate[i], &alone[i], sizeof(double)) == 0)
            continue;
        wrong++;
        if (first < 0)
            first = i;
    }
    if (wrong > 0)
        fprintf(
            stderr,
            "%s: WRONG: %ld of %ld cells differ from the run of one process; the first is row %ld, "
            "column %ld: %.17g instead of %.17g\n",
            app, wrong, cells, first / n, first % n, plate[first], alone[first]);
    free(alone);
    return wrong > 0;
}

/* ---- the drawing ---- */

/*
 * Where an isotherm runs between a pixel and its right or
 * lower neighbour; the hottest point is none.
 */
static int crosses(double a, double b)
{
    return floor(fmin(a, 0.999) * ISOTHERMS) != floor(fmin(b, 0.999) * ISOTHERMS);
}

/* Dotted: the borders that halos cross at every step. */
static void draw_borders(struct picture *p, const struct heat_block *b, int left)
{
    const uint32_t colour = 0x7fd4ff;
    int n = b->n;

    for (int i = 1; i < b->down; i++) {
        int y = MARGIN + heat_cut(i, n, b->down);

        for (int x = 0; x < n; x++)
            if (x % 8 < 3)
                picture_mix(p, left + x, y, colour, 0.55);
        for (int x = 1; x < MARGIN - 3; x++) {
            picture_mix(p, left - x, y, colour, 0.9);
            picture_mix(p, left + n - 1 + x, y, colour, 0.9);
        }
    }
    for (int i = 1; i < b->across; i++) {
        int x = left + heat_cut(i, n, b->across);

        for (int y = 0; y < n; y++)
            if (y % 8 < 3)
                picture_mix(p, x, MARGIN + y, colour, 0.55);
        for (int y = 1; y < MARGIN - 3; y++) {
            picture_mix(p, x, MARGIN - y, colour, 0.9);
            picture_mix(p, x, MARGIN + n - 1 + y, colour, 0.9);
        }
    }
}

int heat_draw(const double *plate, const struct heat_block *b, struct picture *p)
{
    int n = b->n, left = MARGIN, right = left + n + MARGIN, bar = right + n + MARGIN;
    double hottest = 0;

    if (picture_create(p, bar + BAR + MARGIN, n + 2 * MARGIN, 0x22242c) != 0)
        return -ENOMEM;
    for (long i = 0; i < (long)n * n; i++)
        hottest = fmax(hottest, plate[i]);
    if (hottest <= 0)
        hottest = 1;
    for (int y = 0; y < n; y++) {
        for (int x = 0; x < n; x++) {
            const double *here = plate + (long)y * n + x;
            double t = *here / hottest;

            picture_mix(p, left + x, MARGIN + y, picture_heat_colour(heat_start(y, x, n)), 1.0);
            picture_mix(p, right + x, MARGIN + y, picture_heat_colour(t), 1.0);
            if ((x + 1 < n && crosses(t, here[1] / hottest)) ||
                (y + 1 < n && crosses(t, here[n] / hottest)))
                picture_mix(p, right + x, MARGIN + y, t < 0.55 ? 0xffffff : 0x000000, 0.28);
        }
        for (int x = 0; x < BAR; x++)
            picture_mix(p, bar + x, MARGIN + y, picture_heat_colour(1.0 - (y + 0.5) / n), 1.0);
    }
    draw_borders(p, b, right);
    return 0;
}
