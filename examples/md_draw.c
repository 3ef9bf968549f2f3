/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * md_draw.c: a slice through the middle of the cube, at the beginning and at the end, side by side.
 *
 * Each disc is an atom of one layer of the crystal; colours are temperatures, means over a few
 * atoms. Dotted: the borders between processes.
 */
#include "md_draw.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define SIDE 560               /* of a panel, pixels */
#define MARGIN 12              /* pixels */
#define GRID 140               /* points of the field of temperatures, in each dimension */
#define WIDTH 1.2              /* of the mean: standard deviation */
#define THICK (MD_LATTICE / 4) /* half of a layer */
#define RADIUS 0.46            /* of a disc */

struct md_field {
    double heat[GRID][GRID], weight[GRID][GRID];
};

/* The layer of the crystal that is next to the middle. */
static double md_draw_level(const struct md_part *p) { return p->length / 2 + MD_LATTICE / 4; }

static double md_draw_temperature(const struct md_atom *a)
{
    return (a->v[0] * a->v[0] + a->v[1] * a->v[1] + a->v[2] * a->v[2]) / 3;
}

static void md_field_add(const struct md_part *p, struct md_field *field, const struct md_atom *a)
{
    double point = p->length / GRID, away = a->x[2] - md_draw_level(p);
    int reach = (int)(3 * WIDTH / point) + 1;
    int column = (int)(a->x[0] / point), row = (int)(a->x[1] / point);

    if (fabs(away) > 2 * WIDTH)
        return;
    for (int i = row - reach; i <= row + reach; i++)
        for (int j = column - reach; j <= column + reach; j++) {
            double x = ((double)j + 0.5) * point - a->x[0], y = ((double)i + 0.5) * point - a->x[1];
            double weight = exp(-(x * x + y * y + away * away) / (2 * WIDTH * WIDTH));
            int m = (i % GRID + GRID) % GRID, n = (j % GRID + GRID) % GRID; /* it is periodic */

            field->heat[m][n] += weight * md_draw_temperature(a);
            field->weight[m][n] += weight;
        }
}

/* Sums become temperatures. Returns the highest. */
static double md_field_end(struct md_field *field)
{
    double highest = 0;

    for (int i = 0; i < GRID; i++)
        for (int j = 0; j < GRID; j++) {
            field->heat[i][j] /= fmax(field->weight[i][j], 1e-3);
            highest = fmax(highest, field->heat[i][j]);
        }
    return highest;
}

/* 0..1, of a pixel of a panel */
static double md_field_at(const struct md_field *field, double highest, int x, int y)
{
    double u = ((double)x + 0.5) * GRID / SIDE - 0.5, v = ((double)y + 0.5) * GRID / SIDE - 0.5;
    int i = (int)floor(v), j = (int)floor(u), m = (i + GRID) % GRID, n = (j + GRID) % GRID;
    int below = (i + 1) % GRID, right = (j + 1) % GRID;
    double upper = field->heat[m][n] + (field->heat[m][right] - field->heat[m][n]) * (u - j);
    double lower =
        field->heat[below][n] + (field->heat[below][right] - field->heat[below][n]) * (u - j);

    return sqrt((upper + (lower - upper) * (v - i)) / highest); /* so that little is seen too */
}

static void md_draw_atom(const struct md_part *p, struct picture *picture, int left,
                         const struct md_atom *a, uint32_t colour)
{
    double scale = SIDE / p->length, radius = RADIUS * scale;
    double x = a->x[0] * scale, y = a->x[1] * scale;

    for (int i = (int)(y - radius) - 1; i <= (int)(y + radius) + 1; i++)
        for (int j = (int)(x - radius) - 1; j <= (int)(x + radius) + 1; j++) {
            double u = (j + 0.5 - x) / radius, v = (i + 0.5 - y) / radius, r = hypot(u, v);
            double edge = fmin(1, fmax(0, (1 - r) * radius + 0.5));
            double light = fmax(0, 1 - hypot(u + 0.35, v + 0.4) / 1.1);

            if (edge == 0 || i < 0 || j < 0 || i >= SIDE || j >= SIDE)
                continue;
            picture_mix(picture, left + j, MARGIN + i, colour, edge);
            picture_mix(picture, left + j, MARGIN + i, 0x000000, edge * r * r * 0.45);
            picture_mix(picture, left + j, MARGIN + i, 0xffffff, edge * light * 0.5);
        }
}

static void md_draw_borders(const struct md_part *p, struct picture *picture, int left)
{
    for (int d = 0; d < 2; d++)
        for (int i = 1; i < p->across[d]; i++) {
            const int cell = p->cells * i / p->across[d];
            const int at = (int)((double)cell / p->cells * SIDE);

            for (int along = 0; along < SIDE; along++)
                if (along % 8 < 4)
                    picture_mix(picture, left + (d == 0 ? at : along),
                                MARGIN + (d == 0 ? along : at), 0x7fd4ff, 0.8);
        }
}

static void md_draw_panel(const struct md_part *p, struct picture *picture, int left,
                          const struct md_field *field, double highest, const struct md_atom *table)
{
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            picture_mix(picture, left + x, MARGIN + y,
                        picture_heat_colour(md_field_at(field, highest, x, y)), 0.4);
    for (uint64_t i = 0; i < p->all; i++) {
        int x = (int)(table[i].x[0] / p->length * SIDE),
            y = (int)(table[i].x[1] / p->length * SIDE);

        if (fabs(table[i].x[2] - md_draw_level(p)) < THICK)
            md_draw_atom(p, picture, left, &table[i],
                         picture_heat_colour(0.15 + 0.8 * md_field_at(field, highest, x, y)));
    }
}

int md_draw(const struct md_part *p, const struct md_atom *table, struct picture *picture)
{
    struct md_field *field = calloc(2, sizeof(*field));
    struct md_atom *start = malloc(p->all * sizeof(*start));
    int code = -ENOMEM, right = 2 * MARGIN + SIDE;
    double highest = 1e-9;

    if (field != NULL && start != NULL)
        code = picture_create(picture, right + SIDE + MARGIN, SIDE + 2 * MARGIN, 0x22242c);
    if (code != 0)
        goto out;
    md_start(&p->options, start);
    for (uint64_t i = 0; i < p->all; i++) {
        md_field_add(p, &field[0], &start[i]);
        md_field_add(p, &field[1], &table[i]);
    }
    for (int i = 0; i < 2; i++)
        highest = fmax(highest, md_field_end(&field[i]));
    md_draw_panel(p, picture, MARGIN, &field[0], highest, start);
    md_draw_panel(p, picture, right, &field[1], highest, table);
    md_draw_borders(p, picture, right);
out:
    free(start);
    free(field);
    return code;
}
