/* SPDX-License-Identifier: BSD-3-Clause */
/* md_atoms.c: crystal, blocks, cells, and what crosses their borders, see md_atoms.h. */
#include "md_atoms.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOT_RADIUS 0.28 /* of the ball in the middle, in lengths of the cube */
#define COLD 0.1        /* temperature around it, by that of the ball */
#define STEP 0.005      /* at temperature 0 */
#define PLANE 1.2       /* most atoms that cross a square of 1 x 1 in a step; a plane has 0.82 */
#define CROWD 1.6       /* most atoms of an outermost layer of cells, by the mean */
#define SPARE 64

/* ---- options ---- */

static double md_number(const char *text, bool *valid)
{
    char *end;
    double value = strtod(text, &end);

    *valid = end != text && *end == '\0' && value >= 0 && value <= 10;
    return value;
}

bool md_temperature_valid(const char *text)
{
    bool valid;

    md_number(text, &valid);
    return valid;
}

/* across stays 0 for "auto" */
static bool md_grid_parse(const char *grid, int across[3])
{
    char behind;

    across[0] = across[1] = across[2] = 0;
    if (strcmp(grid, "auto") == 0)
        return true;
    return sscanf(grid, "%dx%dx%d%c", &across[0], &across[1], &across[2], &behind) == 3 &&
           across[0] > 0 && across[1] > 0 && across[2] > 0;
}

bool md_grid_valid(const char *grid)
{
    int across[3];

    return md_grid_parse(grid, across);
}

void md_options_begin(struct md_options *o)
{
    if (app_options.quick) {
        o->cells = 5;
        o->steps = 60;
    }
}

/* ---- the crystal ---- */

/* Of a mean of 0 and a variance of 1, nearly a normal distribution: the sum of 12 numbers. */
static double md_random(uint64_t seed, uint64_t which)
{
    double sum = -6;

    for (uint64_t i = 0; i < 3; i++) {
        uint64_t bits = app_mix(app_mix(seed + 1) + 3 * which + i);

        for (int part = 0; part < 64; part += 16)
            sum += ((double)(bits >> part & 0xffff) + 0.5) / 65536;
    }
    return sum;
}

static double md_length(const struct md_options *o) { return o->cells * MD_LATTICE; }

void md_start(const struct md_options *o, struct md_atom *all)
{
    static const int corner[4][3] = {{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}};
    uint64_t n = o->cells, count = 4 * n * n * n;
    double middle = md_length(o) / 2, mean[3] = {0, 0, 0};
    bool valid;
    double hot = md_number(o->temperature, &valid);

    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at[3] = {i / 4 % n, i / 4 / n % n, i / 4 / n / n};
        double from_middle = 0, speed;

        all[i].id = i;
        for (int d = 0; d < 3; d++) {
            all[i].x[d] = ((double)at[d] + 0.25 + 0.5 * corner[i % 4][d]) * MD_LATTICE;
            from_middle += (all[i].x[d] - middle) * (all[i].x[d] - middle);
        }
        speed = sqrt(sqrt(from_middle) < HOT_RADIUS * 2 * middle ? hot : hot * COLD);
        for (int d = 0; d < 3; d++) {
            all[i].v[d] = speed * md_random(o->seed, 3 * i + (uint64_t)d);
            mean[d] += all[i].v[d] / (double)count;
        }
    }
    for (uint64_t i = 0; i < count; i++) /* the whole does not move */
        for (int d = 0; d < 3; d++)
            all[i].v[d] -= mean[d];
}

/* ---- blocks ---- */

/* Fills across where it is 0; 0 or -EINVAL. */
static int md_grid_choose(int nranks, int cells, int across[3])
{
    int least = 0;

    if (across[0] > 0)
        return (long)across[0] * across[1] * across[2] == nranks && across[0] <= cells &&
                       across[1] <= cells && across[2] <= cells
                   ? 0
                   : -EINVAL;
    for (int c = 1; c <= nranks; c++)
        for (int b = c; b <= nranks / c; b++) {
            int a = nranks / c / b;

            if (a * b * c != nranks || a < b || a > cells)
                continue;
            if (least == 0 || a + b + c < least) { /* the surface of all blocks */
                least = a + b + c;
                across[0] = a;
                across[1] = b;
                across[2] = c;
            }
        }
    return least > 0 ? 0 : -EINVAL;
}

static int md_blocks(struct md_part *p, int rank, int nranks)
{
    int code;

    md_grid_parse(p->options.grid, p->across);
    p->cells = (int)(p->length / MD_CUTOFF);
    if ((code = md_grid_choose(nranks, p->cells, p->across)) != 0)
        return code;
    p->place[0] = rank % p->across[0];
    p->place[1] = rank / p->across[0] % p->across[1];
    p->place[2] = rank / p->across[0] / p->across[1];
    for (int d = 0; d < 3; d++) {
        int n = p->across[d], stride = d == 0 ? 1 : d == 1 ? p->across[0] : nranks / p->across[2];

        p->begin[d] = p->cells * p->place[d] / n;
        p->count[d] = p->cells * (p->place[d] + 1) / n - p->begin[d];
        p->peer[2 * d] = rank + ((p->place[d] + n - 1) % n - p->place[d]) * stride;
        p->peer[2 * d + 1] = rank + ((p->place[d] + 1) % n - p->place[d]) * stride;
    }
    return 0;
}

/* The memory with another size; without memory for that as it was, and *ok is false. */
static void *md_resized(void *old, size_t count, size_t bytes, bool *ok)
{
    void *mem = realloc(old, (count > 0 ? count : 1) * bytes);

    if (mem != NULL)
        return mem;
    *ok = false;
    return old;
}

/* Memory for so many atoms. 0 or -ENOMEM. */
static int md_reserve(struct md_part *p, uint32_t atoms)
{
    size_t n = atoms + atoms / 4 + SPARE;
    bool ok = true;

    if (atoms <= p->room)
        return 0;
    p->id = md_resized(p->id, n, sizeof(*p->id), &ok);
    p->x = md_resized(p->x, n, 3 * sizeof(*p->x), &ok);
    p->v = md_resized(p->v, n, 3 * sizeof(*p->v), &ok);
    p->f = md_resized(p->f, n, 3 * sizeof(*p->f), &ok);
    p->loose = md_resized(p->loose, n, sizeof(*p->loose), &ok);
    p->home = md_resized(p->home, n, sizeof(*p->home), &ok);
    p->order = md_resized(p->order, n, sizeof(*p->order), &ok);
    if (!ok)
        return -ENOMEM;
    p->room = (uint32_t)n;
    return 0;
}

/* ---- cells ---- */

/* Index of a cell of this process, from 0; -1 and count[d] are ghosts. */
static size_t md_at(const struct md_part *p, int i, int j, int k)
{
    return ((size_t)(k + 1) * ((size_t)p->count[1] + 2) + (size_t)(j + 1)) *
               ((size_t)p->count[0] + 2) +
           (size_t)(i + 1);
}

/* The cell of the cube that a coordinate is in; -1: it is outside, or no number. */
static int md_cell_of(const struct md_part *p, double x)
{
    int cell;

    if (!(x >= 0 && x < p->length))
        return -1;
    cell = (int)(x / p->length * p->cells);
    return cell < p->cells ? cell : p->cells - 1;
}

/* Sets *at to the cell of this process that the atom is in. */
static bool md_home(const struct md_part *p, const struct md_atom *atom, uint32_t *at)
{
    int cell[3];

    for (int d = 0; d < 3; d++) {
        cell[d] = md_cell_of(p, atom->x[d]) - p->begin[d];
        if (cell[d] < 0 || cell[d] >= p->count[d])
            return false;
    }
    *at = (uint32_t)md_at(p, cell[0], cell[1], cell[2]);
    return true;
}

/* An atom that has moved: to the loose ones of this process, or to those that leave. */
static int md_release(struct md_part *p, const struct md_atom *atom)
{
    if (md_home(p, atom, &p->home[p->loose_count])) {
        p->loose[p->loose_count++] = *atom;
        return 0;
    }
    return md_arrive(p, atom, sizeof(*atom));
}

const struct md_atom *md_list(struct md_part *p)
{
    for (int k = 0; k < p->count[2]; k++)
        for (int j = 0; j < p->count[1]; j++)
            for (int i = 0; i < p->count[0]; i++) {
                const struct md_cell *c = &p->cell[md_at(p, i, j, k)];

                for (uint32_t n = 0; n < c->count; n++) {
                    struct md_atom *atom = &p->loose[c->first + n];
                    size_t at = 3 * (size_t)c->first + n;

                    atom->id = p->id[c->first + n];
                    for (int d = 0; d < 3; d++, at += c->count) {
                        atom->x[d] = p->x[at];
                        atom->v[d] = p->v[at];
                    }
                }
            }
    return p->loose;
}

int md_advance(struct md_part *p)
{
    p->loose_count = 0;
    p->leaving_count = 0;
    for (int k = 0; k < p->count[2]; k++)
        for (int j = 0; j < p->count[1]; j++)
            for (int i = 0; i < p->count[0]; i++) {
                const struct md_cell *c = &p->cell[md_at(p, i, j, k)];

                for (uint32_t n = 0; n < c->count; n++) {
                    struct md_atom atom = {p->id[c->first + n], {0}, {0}};

                    for (size_t d = 0; d < 3; d++) {
                        size_t at = 3 * (size_t)c->first + d * c->count + n;

                        atom.v[d] = p->v[at] + p->f[at] * p->step / 2;
                        atom.x[d] = p->x[at] + atom.v[d] * p->step;
                        if (atom.x[d] < 0)
                            atom.x[d] += p->length;
                        if (atom.x[d] >= p->length) /* also where the sum was rounded up to it */
                            atom.x[d] -= p->length;
                    }
                    if (md_release(p, &atom) != 0)
                        return -ENOMEM;
                }
            }
    return 0;
}

/* The places of cells, and p->order: the atoms of each, by number. */
static void md_order(struct md_part *p)
{
    uint32_t first = 0;

    for (int k = 0; k < p->count[2]; k++)
        for (int j = 0; j < p->count[1]; j++)
            for (int i = 0; i < p->count[0]; i++)
                p->cell[md_at(p, i, j, k)].count = 0;
    for (uint32_t n = 0; n < p->loose_count; n++)
        p->cell[p->home[n]].count++;
    for (int k = 0; k < p->count[2]; k++)
        for (int j = 0; j < p->count[1]; j++)
            for (int i = 0; i < p->count[0]; i++) {
                struct md_cell *c = &p->cell[md_at(p, i, j, k)];

                c->first = first;
                c->x = p->x + 3 * (size_t)first;
                first += c->count;
                c->count = 0;
            }
    for (uint32_t n = 0; n < p->loose_count; n++) { /* nearly in order already */
        struct md_cell *c = &p->cell[p->home[n]];
        uint32_t *place = &p->order[c->first], at = c->count++;

        for (; at > 0 && p->loose[place[at - 1]].id > p->loose[n].id; at--)
            place[at] = place[at - 1];
        place[at] = n;
    }
}

int md_sort(struct md_part *p)
{
    if (md_reserve(p, p->loose_count + p->leaving_count) != 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->leaving_count; i++) {
        if (!md_home(p, &p->leaving[i], &p->home[p->loose_count]))
            return -ERANGE;
        p->loose[p->loose_count++] = p->leaving[i];
    }
    p->leaving_count = 0;
    p->atoms = p->loose_count;
    md_order(p);
    for (uint32_t n = 0; n < p->atoms; n++) {
        const struct md_atom *atom = &p->loose[p->order[n]];
        const struct md_cell *c = &p->cell[p->home[p->order[n]]];
        size_t at = 3 * (size_t)c->first + (n - c->first);

        p->id[n] = atom->id;
        for (int d = 0; d < 3; d++, at += c->count) {
            p->x[at] = atom->x[d];
            p->v[at] = atom->v[d];
        }
    }
    return 0;
}

/* ---- atoms that leave ---- */

/* The side of this process over which an atom leaves in its dimension, or -1. */
static int md_side_of(const struct md_part *p, const struct md_atom *atom, int d)
{
    int cell = md_cell_of(p, atom->x[d]), behind = p->begin[d] + p->count[d];

    if (cell < 0 || (cell >= p->begin[d] && cell < behind))
        return -1;
    if (cell == behind % p->cells)
        return 2 * d + 1;
    return cell == (p->begin[d] + p->cells - 1) % p->cells ? 2 * d : -1;
}

size_t md_leave_bytes(const struct md_part *p, int side)
{
    size_t count = 0, most = md_leave_most(p, side);

    for (uint32_t i = 0; i < p->leaving_count; i++)
        count += md_side_of(p, &p->leaving[i], side / 2) == side;
    return count * sizeof(struct md_atom) < most ? count * sizeof(struct md_atom) : most;
}

size_t md_leave(struct md_part *p, int side, void *mem)
{
    struct md_atom *out = mem;
    size_t most = md_leave_most(p, side) / sizeof(*out), done = 0;

    for (uint32_t i = 0; i < p->leaving_count && done < most;)
        if (md_side_of(p, &p->leaving[i], side / 2) == side) {
            out[done++] = p->leaving[i];
            p->leaving[i] = p->leaving[--p->leaving_count];
        } else {
            i++;
        }
    return done * sizeof(*out);
}

int md_arrive(struct md_part *p, const void *mem, size_t bytes)
{
    size_t count = bytes / sizeof(struct md_atom), n = p->leaving_count + count;
    bool ok = true;

    if (bytes % sizeof(struct md_atom) != 0)
        return -EPROTO;
    if (n > p->leaving_room) {
        p->leaving = md_resized(p->leaving, 2 * n + SPARE, sizeof(*p->leaving), &ok);
        if (!ok)
            return -ENOMEM;
        p->leaving_room = (uint32_t)(2 * n + SPARE);
    }
    if (count > 0)
        memcpy(p->leaving + p->leaving_count, mem, bytes);
    p->leaving_count = (uint32_t)n;
    return 0;
}

/* ---- halos ---- */

/* A layer of cells, from begin[] on; in the dimensions before that of the side with its ghosts. */
struct md_face {
    int begin[3], behind[3];
    size_t cells;
};

static struct md_face md_face_of(const struct md_part *p, int side, bool ghosts)
{
    struct md_face face = {{0}, {0}, 1};
    int d = side / 2;

    for (int i = 0; i < 3; i++) {
        face.begin[i] = i < d ? -1 : 0;
        face.behind[i] = p->count[i] + (i < d);
    }
    face.begin[d] = side % 2 == 0 ? -(int)ghosts : p->count[d] - 1 + (int)ghosts;
    face.behind[d] = face.begin[d] + 1;
    for (int i = 0; i < 3; i++)
        face.cells *= (size_t)(face.behind[i] - face.begin[i]);
    return face;
}

/* The counts before the cells, a whole number of doubles. */
static size_t md_counts_bytes(size_t cells) { return (cells + 1) / 2 * 2 * sizeof(uint32_t); }

/* Area of a side of the block, with the ghosts of the dimensions before it. */
static double md_area(const struct md_part *p, int side)
{
    double cell = p->length / p->cells;

    return (double)md_face_of(p, side, false).cells * cell * cell;
}

size_t md_leave_most(const struct md_part *p, int side)
{
    return ((size_t)(md_area(p, side) * PLANE) + SPARE) * sizeof(struct md_atom);
}

size_t md_halo_most(const struct md_part *p, int side)
{
    double density = 4 / (MD_LATTICE * MD_LATTICE * MD_LATTICE);
    double mean = md_area(p, side) * p->length / p->cells * density;

    return md_counts_bytes(md_face_of(p, side, false).cells) +
           ((size_t)(mean * CROWD) + SPARE) * 3 * sizeof(double);
}

size_t md_halo_bytes(const struct md_part *p, int side)
{
    struct md_face face = md_face_of(p, side, false);
    size_t atoms = 0;

    for (int k = face.begin[2]; k < face.behind[2]; k++)
        for (int j = face.begin[1]; j < face.behind[1]; j++)
            for (int i = face.begin[0]; i < face.behind[0]; i++)
                atoms += p->cell[md_at(p, i, j, k)].count;
    return md_counts_bytes(face.cells) + atoms * 3 * sizeof(double);
}

void md_halo_write(const struct md_part *p, int side, void *mem)
{
    struct md_face face = md_face_of(p, side, false);
    size_t d = (size_t)side / 2;
    bool last = p->place[d] == (side % 2 == 0 ? 0 : p->across[d] - 1);
    /* On the other side of the cube it is seen beyond the border. */
    double shift = !last ? 0 : side % 2 == 0 ? p->length : -p->length;
    uint32_t *count = mem;
    double *to = (double *)(void *)((char *)mem + md_counts_bytes(face.cells));

    for (int k = face.begin[2]; k < face.behind[2]; k++)
        for (int j = face.begin[1]; j < face.behind[1]; j++)
            for (int i = face.begin[0]; i < face.behind[0]; i++) {
                const struct md_cell *c = &p->cell[md_at(p, i, j, k)];
                size_t n = c->count;

                *count++ = c->count;
                memcpy(to, c->x, 3 * n * sizeof(*to));
                if (last)
                    for (size_t m = 0; m < n; m++)
                        to[d * n + m] += shift;
                to += 3 * n;
            }
    if (face.cells % 2 != 0)
        *count = 0;
}

int md_halo_read(struct md_part *p, int side, const void *mem, size_t bytes)
{
    struct md_face face = md_face_of(p, side, true);
    const uint32_t *count = mem;
    const char *from = (const char *)mem + md_counts_bytes(face.cells);
    size_t left = bytes - md_counts_bytes(face.cells);

    if (bytes < md_counts_bytes(face.cells))
        return -EPROTO;
    for (int k = face.begin[2]; k < face.behind[2]; k++)
        for (int j = face.begin[1]; j < face.behind[1]; j++)
            for (int i = face.begin[0]; i < face.behind[0]; i++) {
                struct md_cell *c = &p->cell[md_at(p, i, j, k)];
                size_t cell_bytes = 3 * (size_t)*count * sizeof(double);

                if (cell_bytes > left)
                    return -EPROTO;
                c->count = *count++;
                c->x = (const double *)(const void *)from;
                from += cell_bytes;
                left -= cell_bytes;
            }
    return left == 0 ? 0 : -EPROTO;
}

/* ---- a part ---- */

int md_create(struct md_part *p, const struct md_options *o, int rank, int nranks)
{
    struct md_atom *all;
    bool valid;
    int code;

    memset(p, 0, sizeof(*p));
    p->options = *o;
    p->all = 4 * (uint64_t)o->cells * o->cells * o->cells;
    p->length = md_length(o);
    p->step = STEP / sqrt(1 + md_number(o->temperature, &valid));
    if ((code = md_blocks(p, rank, nranks)) != 0)
        return code;
    p->cell =
        calloc(((size_t)p->count[0] + 2) * ((size_t)p->count[1] + 2) * ((size_t)p->count[2] + 2),
               sizeof(*p->cell));
    all = malloc(p->all * sizeof(*all));
    if (p->cell == NULL || all == NULL) {
        free(all);
        return -ENOMEM;
    }
    md_start(o, all);
    code = md_reserve(p, 1);
    for (uint64_t i = 0; code == 0 && i < p->all; i++) {
        uint32_t at;

        if (md_home(p, &all[i], &at) && (code = md_reserve(p, p->loose_count + 1)) == 0)
            code = md_release(p, &all[i]);
    }
    free(all);
    return code == 0 ? md_sort(p) : code;
}

void md_destroy(struct md_part *p)
{
    free(p->cell);
    free(p->id);
    free(p->x);
    free(p->v);
    free(p->f);
    free(p->loose);
    free(p->home);
    free(p->order);
    free(p->leaving);
    memset(p, 0, sizeof(*p));
}
