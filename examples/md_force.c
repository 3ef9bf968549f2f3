/* SPDX-License-Identifier: BSD-3-Clause */
/* md_force.c: forces, energy, and the run of one process, see md_atoms.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "md_atoms.h"

/*
 * The potential of Stoddard and Ford: 4 (r^-12 - r^-6) + SLOPE r^2 + SHIFT; it and the force are 0
 * at the cutoff. A potential that ends with a step would change the energy at each crossing.
 */
#define CUT2 (MD_CUTOFF * MD_CUTOFF)
#define CUT6 (CUT2 * CUT2 * CUT2)
#define SLOPE ((24.0 / CUT6 - 12.0) / (CUT6 * CUT2))
#define SHIFT (-4.0 * (1.0 / CUT6 - 1.0) / CUT6 - SLOPE * CUT2)
#define PAIRS_MOST 16384  /* atoms whose pairs are all computed for a check */
#define ENERGY_LIMIT 1e-3 /* change of the energy of an atom; 2e-4 is what the first steps make */

/* Of two atoms at a distance r below the cutoff: r2 is r^2, s3 is r^-6. */
static inline double md_pair_energy(double r2, double s3)
{
    return (4.0 * s3 - 4.0) * s3 + SLOPE * r2 + SHIFT;
}

/* What atoms of b do to each atom of a, added to f. Returns the energy, half of it for each atom. */
static double md_cell_pair(const struct md_cell *a, double *f, const struct md_cell *b)
{
    const double *ax = a->x, *ay = ax + a->count, *az = ay + a->count;
    const double *bx = b->x, *by = bx + b->count, *bz = by + b->count;
    double *fx = f, *fy = fx + a->count, *fz = fy + a->count, energy = 0;

    for (uint32_t i = 0; i < a->count; i++) {
        double x = ax[i], y = ay[i], z = az[i], sum_x = 0, sum_y = 0, sum_z = 0;

        for (uint32_t j = 0; j < b->count; j++) {
            double dx = x - bx[j], dy = y - by[j], dz = z - bz[j];
            double r2 = dx * dx + dy * dy + dz * dz, s, s3, force;

            if (r2 >= CUT2 || r2 == 0) /* 0: the atom itself */
                continue;
            s = 1.0 / r2;
            s3 = s * s * s;
            force = (48.0 * s3 - 24.0) * s3 * s - 2.0 * SLOPE;
            energy += md_pair_energy(r2, s3);
            sum_x += force * dx;
            sum_y += force * dy;
            sum_z += force * dz;
        }
        fx[i] += sum_x;
        fy[i] += sum_y;
        fz[i] += sum_z;
    }
    return energy / 2;
}

void md_forces(struct md_part *p)
{
    size_t row = (size_t)p->count[0] + 2, plane = row * ((size_t)p->count[1] + 2);

    p->potential = 0;
    memset(p->f, 0, 3 * (size_t)p->atoms * sizeof(*p->f));
    for (int k = 0; k < p->count[2]; k++)
        for (int j = 0; j < p->count[1]; j++)
            for (int i = 0; i < p->count[0]; i++) {
                /* the corner of the 27 cells, of which this one is in the middle */
                const struct md_cell *corner =
                    p->cell + (size_t)k * plane + (size_t)j * row + (size_t)i;
                const struct md_cell *here = corner + plane + row + 1;

                for (int n = 0; n < 27; n++)
                    p->potential += md_cell_pair(here, p->f + 3 * (size_t)here->first,
                                                 corner + (size_t)(n / 9) * plane +
                                                     (size_t)(n / 3 % 3) * row + (size_t)(n % 3));
            }
}

void md_accelerate(struct md_part *p)
{
    for (size_t i = 0; i < 3 * (size_t)p->atoms; i++)
        p->v[i] += p->f[i] * p->step / 2;
}

double md_energy(const struct md_part *p)
{
    double twice = 0;

    for (size_t i = 0; i < 3 * (size_t)p->atoms; i++)
        twice += p->v[i] * p->v[i];
    return twice / 2 + p->potential;
}

/* ---- all atoms at one process ---- */

struct md_atom *md_table(uint64_t all)
{
    struct md_atom *table = malloc(all * sizeof(*table));

    for (uint64_t i = 0; table != NULL && i < all; i++)
        table[i].id = UINT64_MAX;
    return table;
}

int md_table_add(struct md_atom *table, uint64_t all, const struct md_atom *atom)
{
    if (atom->id >= all || table[atom->id].id != UINT64_MAX)
        return -EEXIST;
    table[atom->id] = *atom;
    return 0;
}

uint64_t md_digest(const struct md_atom *table, uint64_t all)
{
    return app_digest(0, table, (size_t)all * sizeof(*table) / sizeof(uint64_t));
}

/* ---- energy without cells or messages: all pairs ---- */

/* The nearest image of a distance in the cube. */
static double md_nearest(const struct md_part *p, double x)
{
    return x - p->length * nearbyint(x / p->length);
}

/* Two atoms, and their images where the cube is so small that more than one is near. */
static double md_images_energy(const struct md_part *p, const struct md_atom *a,
                               const struct md_atom *b)
{
    int near = p->length < 2 * MD_CUTOFF;
    double d[3], energy = 0;

    for (int i = 0; i < 3; i++)
        d[i] = md_nearest(p, a->x[i] - b->x[i]);
    for (int i = -near; i <= near; i++)
        for (int j = -near; j <= near; j++)
            for (int k = -near; k <= near; k++) {
                double x = d[0] + i * p->length, y = d[1] + j * p->length, z = d[2] + k * p->length;
                double r2 = x * x + y * y + z * z;

                if (r2 < CUT2)
                    energy += md_pair_energy(r2, 1.0 / (r2 * r2 * r2));
            }
    return energy;
}

static double md_pairs_energy(const struct md_part *p, const struct md_atom *table)
{
    double energy = 0;

    for (uint64_t i = 0; i < p->all; i++) {
        const double *v = table[i].v;

        energy += (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) / 2;
        for (uint64_t j = 0; j < i; j++)
            energy += md_images_energy(p, &table[i], &table[j]);
    }
    return energy;
}

int md_energy_check(const char *app, const struct md_part *p, const struct md_atom *table,
                    double before, double after)
{
    double all = (double)p->all, alone;

    if (!(fabs(after - before) <= ENERGY_LIMIT * all)) { /* also where it is not a number */
        fprintf(stderr, "%s: WRONG: the energy of an atom was %.9g, and is %.9g; it is conserved\n",
                app, before / all, after / all);
        return 1;
    }
    if (!app_options.check || p->all > PAIRS_MOST)
        return 0;
    alone = md_pairs_energy(p, table);
    if (fabs(after - alone) <= 1e-9 * all)
        return 0;
    fprintf(stderr, "%s: WRONG: the energy of an atom is %.12g; of all pairs it is %.12g\n", app,
            after / all, alone / all);
    return 1;
}

/* ---- one process alone: the same steps, and it is its own neighbour on all sides ---- */

static int md_alone_halo(struct md_part *p, void *const mem[MD_SIDES])
{
    for (int side = 0; side < MD_SIDES; side += 2) {
        size_t bytes[2] = {md_halo_bytes(p, side), md_halo_bytes(p, side + 1)};

        for (int i = 0; i < 2; i++)
            md_halo_write(p, side + i, mem[side + i]);
        for (int i = 0; i < 2; i++) {
            int code = md_halo_read(p, side + i, mem[side + 1 - i], bytes[1 - i]);

            if (code != 0)
                return code;
        }
    }
    return 0;
}

static int md_alone_run(struct md_part *p, void *const mem[MD_SIDES])
{
    int code = md_alone_halo(p, mem);

    if (code != 0)
        return code;
    md_forces(p);
    for (uint32_t step = 0; step < p->options.steps; step++) {
        /* no atom leaves: all cells are here */
        if ((code = md_advance(p)) != 0 || (code = md_sort(p)) != 0 ||
            (code = md_alone_halo(p, mem)) != 0)
            return code;
        md_forces(p);
        md_accelerate(p);
    }
    return 0;
}

/* The result of one process, as md_table(); NULL: errno has the reason. */
static struct md_atom *md_alone(const struct md_options *o)
{
    struct md_part p;
    struct md_options whole = *o;
    struct md_atom *table = NULL;
    const struct md_atom *mine;
    void *mem[MD_SIDES] = {NULL};
    int code;

    whole.grid = "auto";
    code = md_create(&p, &whole, 0, 1);
    for (int side = 0; code == 0 && side < MD_SIDES; side++)
        if ((mem[side] = malloc(md_halo_most(&p, side))) == NULL)
            code = -ENOMEM;
    if (code == 0)
        code = md_alone_run(&p, mem);
    if (code == 0 && (table = md_table(p.all)) == NULL)
        code = -ENOMEM;
    mine = code == 0 ? md_list(&p) : NULL;
    for (uint32_t i = 0; code == 0 && i < p.atoms; i++)
        code = md_table_add(table, p.all, &mine[i]);
    if (code != 0) {
        free(table);
        table = NULL;
    }
    for (int side = 0; side < MD_SIDES; side++)
        free(mem[side]);
    md_destroy(&p);
    errno = -code;
    return table;
}

int md_compare(const char *app, const struct md_options *o, const struct md_atom *table)
{
    struct md_atom *alone = md_alone(o);
    uint64_t all = 4 * (uint64_t)o->cells * o->cells * o->cells, wrong = 0, first = 0;

    if (alone == NULL) {
        fprintf(stderr, "%s: one process cannot repeat the run: %s\n", app, strerror(errno));
        return 1;
    }
    for (uint64_t i = 0; i < all; i++)
        if (memcmp(&table[i], &alone[i], sizeof(*table)) != 0 && wrong++ == 0)
            first = i;
    if (wrong > 0)
        fprintf(
            stderr,
            "%s: WRONG: %llu of %llu atoms differ from the run of one process; the first is %llu, "
            "at %.17g %.17g %.17g instead of %.17g %.17g %.17g\n",
            app, (unsigned long long)wrong, (unsigned long long)all, (unsigned long long)first,
            table[first].x[0], table[first].x[1], table[first].x[2], alone[first].x[0],
            alone[first].x[1], alone[first].x[2]);
    free(alone);
    return wrong > 0;
}
