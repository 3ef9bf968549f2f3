/* SPDX-License-Identifier: BSD-3-Clause */
/* cg_grid.c: see cg_grid.h. */
#include "cg_grid.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cg_band_of(int size, int rank, int nranks, struct cg_band *b)
{
    b->size = size;
    b->first = (int)((long)size * rank / nranks);
    b->rows = (int)((long)size * (rank + 1) / nranks) - b->first;
    return nranks <= size ? 0 : -EINVAL;
}

/* ---- the system ---- */

/* A cell of x*: rings around a point, and zero at the rim. */
static double truth(int size, int y, int x)
{
    double v = (y + 0.5) / size, u = (x + 0.5) / size;
    double from = hypot(u - 0.35, v - 0.4), rim = 16 * u * (1 - u) * v * (1 - v);

    if (y < 0 || x < 0 || y >= size || x >= size)
        return 0;
    return nearbyint(1024 * rim * (0.55 + 0.45 * cos(34 * from))) / 1024;
}

static double right_side(int size, int y, int x)
{
    return 4 * truth(size, y, x) - truth(size, y - 1, x) - truth(size, y + 1, x) -
           truth(size, y, x - 1) - truth(size, y, x + 1);
}

void cg_product(const struct cg_band *b, const double *v, const double *above, const double *below,
                int row, int rows, double *out)
{
    size_t n = (size_t)b->size;

    for (int y = row; y < row + rows; y++) {
        const double *here = v + (size_t)y * n, *up = y > 0 ? here - n : above,
                     *down = y + 1 < b->rows ? here + n : below;
        double *to = out + (size_t)y * n;

        to[0] = 4 * here[0] - here[1];
        for (size_t x = 1; x + 1 < n; x++)
            to[x] = 4 * here[x] - here[x - 1] - here[x + 1];
        to[n - 1] = 4 * here[n - 1] - here[n - 2];
        for (size_t x = 0; up != NULL && x < n; x++)
            to[x] -= up[x];
        for (size_t x = 0; down != NULL && x < n; x++)
            to[x] -= down[x];
    }
}

/* ---- the method ---- */

int cg_create(struct cg *c, const struct cg_band *b)
{
    c->band = *b;
    c->cells = (size_t)b->rows * (size_t)b->size;
    c->x = calloc(c->cells, 7 * sizeof(double));
    if (c->x == NULL)
        return -ENOMEM;
    c->r = c->x + c->cells;
    c->w = c->r + c->cells;
    c->p = c->w + c->cells;
    c->s = c->p + c->cells;
    c->z = c->s + c->cells;
    c->q = c->z + c->cells;
    return 0;
}

void cg_destroy(struct cg *c)
{
    free(c->x);
    c->x = NULL;
}

void cg_start(struct cg *c)
{
    const struct cg_band *b = &c->band;

    memset(c->x, 0, 7 * c->cells * sizeof(double));
    for (int y = 0; y < b->rows; y++)
        for (int x = 0; x < b->size; x++)
            c->r[(size_t)y * (size_t)b->size + (size_t)x] = right_side(b->size, b->first + y, x);
    c->gamma = c->alpha = c->target = 0;
}

void cg_sums(const struct cg *c, double sums[2])
{
    double rr = 0, wr = 0;

    for (size_t i = 0; i < c->cells; i++) {
        rr += c->r[i] * c->r[i];
        wr += c->w[i] * c->r[i];
    }
    sums[0] = rr;
    sums[1] = wr;
}

bool cg_step(struct cg *c, const double sums[2], bool pipelined, int digits)
{
    double gamma = sums[0], alpha, beta;

    if (c->target == 0) /* the first step */
        c->target = gamma * pow(10, -2 * digits);
    if (gamma <= c->target)
        return false;
    beta = c->gamma > 0 ? gamma / c->gamma : 0;
    alpha = gamma / (sums[1] - (c->gamma > 0 ? beta * gamma / c->alpha : 0));
    for (size_t i = 0; i < c->cells; i++) {
        c->p[i] = c->r[i] + beta * c->p[i];
        c->s[i] = c->w[i] + beta * c->s[i]; /* A p */
        c->x[i] += alpha * c->p[i];
        c->r[i] -= alpha * c->s[i];
    }
    for (size_t i = 0; pipelined && i < c->cells; i++) {
        c->z[i] = c->q[i] + beta * c->z[i]; /* A s */
        c->w[i] -= alpha * c->z[i];
    }
    c->gamma = gamma;
    c->alpha = alpha;
    return true;
}

/* ---- the solution ---- */

uint64_t cg_digest(const double *x, int size)
{
    uint64_t digest = 0;

    for (size_t i = 0; i < (size_t)size * (size_t)size; i++) {
        int64_t rounded = llrint(x[i] * 1024);

        digest = app_digest(digest, &rounded, 1);
    }
    return digest;
}

int cg_check(const char *app, const double *x, int size, int digits)
{
    struct cg_band all;
    size_t n = (size_t)size;
    double *product = malloc(n * n * sizeof(double)), rest = 0, full = 0, off = 0;
    int status = 0;

    if (product == NULL || cg_band_of(size, 0, 1, &all) != 0) {
        fprintf(stderr, "%s: no memory to check the solution\n", app);
        free(product);
        return 1;
    }
    cg_product(&all, x, NULL, NULL, 0, size, product);
    for (size_t i = 0; i < n * n; i++) {
        double b = right_side(size, (int)(i / n), (int)(i % n));

        rest += (b - product[i]) * (b - product[i]);
        full += b * b;
        off = fmax(off, fabs(x[i] - truth(size, (int)(i / n), (int)(i % n))));
    }
    free(product);
    /* the residual that the method updates and the true one part by rounding errors */
    if (!(sqrt(rest) <= 10 * pow(10, -digits) * sqrt(full) + 1e-11 * size)) {
        fprintf(stderr, "%s: WRONG: the residual is %g of the right side\n", app,
                sqrt(rest / full));
        status = 1;
    }
    if (!(off < 1.0 / 2048)) {
        fprintf(stderr,
                "%s: WRONG: a cell is %g beside the solution; with more --digits it would "
                "come closer\n",
                app, off);
        status = 1;
    }
    if (status == 0 && !app_options.json)
        printf("%s: right: the residual is %.1e of the right side, and no cell is more than %.1e "
               "beside the solution\n",
               app, sqrt(rest / full), off);
    return status;
}

int cg_draw(const double *x, int size, int nranks, struct picture *p)
{
    int side = size < 640 ? size : 640, next = 1;

    if (picture_create(p, side, side, 0) != 0)
        return -ENOMEM;
    for (int y = 0; y < side; y++) {
        int row = (int)((long)size * y / side);
        bool border = next < nranks && row >= (int)((long)size * next / nranks);

        for (int i = 0; i < side; i++) {
            int column = (int)((long)size * i / side);

            picture_mix(p, i, y,
                        picture_heat_colour(x[(size_t)row * (size_t)size + (size_t)column]), 1.0);
            if (border && i % 6 < 3)
                picture_mix(p, i, y, 0xffffff, 0.5);
        }
        next += border;
    }
    return 0;
}
