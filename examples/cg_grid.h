/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cg_grid.h: conjugate gradients on a square grid that is cut into bands of rows: everything but the
 * communication.
 *
 * The matrix A is the Laplacian with 5 points and zeros beyond the rim. The right side is A x* of a
 * known x*, whose values are multiples of 1/1024; so the right side is exact, and a solution that is
 * close enough becomes x* by rounding, whatever the order of the sums was.
 *
 * Both methods need two sums over all rows in each step, (r, r) and (w, r) with w = A r, and both
 * are known at the same time. Chronopoulos and Gear need them before the next product; the
 * pipelined method of Ghysels and Vanroose computes the next product, q = A w, meanwhile.
 */
#ifndef EXAMPLES_CG_GRID_H
#define EXAMPLES_CG_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "app.h"
#include "picture.h"

struct cg_options {
    int size, steps, digits, solves;
    bool pipelined;
};
#define CG_OPTIONS_DEFAULT                                                                         \
    {                                                                                              \
        256, 100000, 10, 1, false                                                                  \
    }
#define CG_OPTION_TABLE(o)                                                                         \
    APP_INT("size", 's', &(o).size, 8, 16384, "The grid has N x N cells"),                         \
        APP_INT("steps", 'n', &(o).steps, 1, 1000000000, "Steps at most"),                         \
        APP_INT("digits", 'd', &(o).digits, 1, 14,                                                 \
                "The residual becomes smaller by so many digits"),                                 \
        APP_INT("solves", 'r', &(o).solves, 1, 1000000, "How often the system is solved"),         \
        APP_FLAG("pipelined", 'p', &(o).pipelined,                                                 \
                 "Sums and the product of the next step overlap")

/* The rows of one process. */
struct cg_band {
    int size; /* of the grid */
    int first, rows;
};
/* 0, or -EINVAL: there are more processes than rows. */
int cg_band_of(int size, int rank, int nranks, struct cg_band *b);

struct cg {
    struct cg_band band;
    size_t cells;
    double *x, *r, *w, *p, *s, *z, *q; /* vectors of these rows */
    double gamma, alpha;               /* of the last step */
    double target;                     /* (r, r) at the end */
};
int cg_create(struct cg *c, const struct cg_band *b); /* 0 or -ENOMEM */
void cg_destroy(struct cg *c);

/* x = 0, r = the right side. */
void cg_start(struct cg *c);
/* out = A v in `rows` rows from `row` on; above, below: the rows beside the band, or NULL at the rim. */
void cg_product(const struct cg_band *b, const double *v, const double *above, const double *below,
                int row, int rows, double *out);
/* The shares of this band in (r, r) and (w, r). */
void cg_sums(const struct cg *c, double sums[2]);
/* The rest of a step, with the sums of all bands. Returns false if x is the solution. */
bool cg_step(struct cg *c, const double sums[2], bool pipelined, int digits);

/* x of all bands: its digest is that of x * 1024, rounded. */
uint64_t cg_digest(const double *x, int size);
/* 0; or 1, after printing what is wrong: the residual, or a value that is not that of x*. */
int cg_check(const char *app, const double *x, int size, int digits);
int cg_draw(const double *x, int size, int nranks, struct picture *p); /* 0 or -ENOMEM */

#endif
