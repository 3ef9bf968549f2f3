/* SPDX-License-Identifier: BSD-3-Clause */
/* heat_grid.c: kernel, initial state, serial run and drawing, see heat_grid.h. */
#include "heat_grid.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define CONDUCTIVITY 0.24 /* of one step; stable below 0.25 */
#define MARGIN 12         /* of the drawing, pixels */
#define BAR 14            /* width of the colour bar, pixels */
#define ISOTHERMS 10

static inline double heat_cell(double here, double above, double below, double left, double right)
{
    return here + CONDUCTIVITY * ((above + below) + (left + right) - 4.0 * here);
}

static void row(double *restrict out, const double *above, const double *here, const double *below, int n)
{
    if (n == 1) {
        out[0] = heat_cell(here[0], above[0], below[0], 0.0, 0.0);
        return;
    }
    out[0] = heat_cell(here[0], above[0], below[0], 0.0, here[1]);
    for (int x = 1; x < n - 1; x++)
        out[x] = heat_cell(here[x], above[x], below[x], here[x - 1], here[x + 1]);
    out[n - 1] = heat_cell(here[n - 1], above[n - 1], below[n - 1], here[n - 2], 0.0);
}

void heat_row(double *restrict out, double *restrict also, const double *above, const double *here, const double *below,
              int n)
{
    row(out, above, here, below, n);
    if (also != NULL)
        row(also, above, here, below, n);
}

/* Sharp things, so that one sees what the heat has done to them: a ring, three discs, a comb. */
double heat_start(int y, int x, int n)
{
    double u = (x + 0.5) / n, v = (y + 0.5) / n;
    double from_ring = fabs(hypot(u - 0.36, v - 0.38) - 0.20);

    if (from_ring < 0.035)
        return 1.0;
    if (hypot(u - 0.36, v - 0.38) < 0.055 || hypot(u - 0.78, v - 0.20) < 0.075 || hypot(u - 0.20, v - 0.80) < 0.10)
        return 0.9;
    if (u > 0.45 && u < 0.90 && v > 0.55 && v < 0.92 && (v > 0.86 || fmod(u - 0.45, 0.10) < 0.05))
        return 0.8;
    return 0.0;
}

double *heat_serial(int n, int steps)
{
    size_t cells = (size_t)n * (size_t)n;
    double *now = malloc(cells * sizeof(*now)), *next = malloc(cells * sizeof(*next));
    double *rim = calloc((size_t)n, sizeof(*rim));

    if (now == NULL || next == NULL || rim == NULL) {
        free(now);
        now = NULL;
        goto out;
    }
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++)
            now[(size_t)y * (size_t)n + (size_t)x] = heat_start(y, x, n);
    for (int step = 0; step < steps; step++) {
        double *swap = now;

        for (int y = 0; y < n; y++) {
            const double *here = now + (size_t)y * (size_t)n;

            heat_row(next + (size_t)y * (size_t)n, NULL, y > 0 ? here - n : rim, here, y + 1 < n ? here + n : rim, n);
        }
        now = next;
        next = swap;
    }
out:
    free(rim);
    free(next);
    return now;
}

/* Where an isotherm runs between a pixel and its right or lower neighbour; the hottest point is none. */
static int crosses(double a, double b)
{
    return floor(fmin(a, 0.999) * ISOTHERMS) != floor(fmin(b, 0.999) * ISOTHERMS);
}

int heat_draw(const double *plate, int n, int bands, struct picture *p)
{
    int left = MARGIN, right = left + n + MARGIN, bar = right + n + MARGIN;
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
            if ((x + 1 < n && crosses(t, here[1] / hottest)) || (y + 1 < n && crosses(t, here[n] / hottest)))
                picture_mix(p, right + x, MARGIN + y, t < 0.55 ? 0xffffff : 0x000000, 0.28);
        }
        for (int x = 0; x < BAR; x++)
            picture_mix(p, bar + x, MARGIN + y, picture_heat_colour(1.0 - (y + 0.5) / n), 1.0);
    }
    for (int b = 1; b < bands; b++) {
        int y = MARGIN + heat_band(b, n, bands);

        for (int x = 0; x < n; x++) /* dotted: the border that halo rows cross at every step */
            if (x % 8 < 3)
                picture_mix(p, right + x, y, 0x7fd4ff, 0.55);
        for (int x = 1; x < MARGIN - 3; x++) {
            picture_mix(p, right - x, y, 0x7fd4ff, 0.9);
            picture_mix(p, right + n - 1 + x, y, 0x7fd4ff, 0.9);
        }
    }
    return 0;
}
