/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * md_atoms.h: atoms that attract and repel each other, in a periodic cube that processes share.
 *
 * A crystal whose middle is hot. Atoms interact up to a distance of MD_CUTOFF; the cube is divided
 * into cells that are at least as wide, so that an atom interacts with those of its own cell and of
 * the 26 around it. Each process has a block of the cells, and around it a layer of ghost cells:
 * copies of its neighbours' outermost cells, or of its own from the other side of the cube.
 *
 * A cell is an array of x, one of y and one of z, back to back; this is its form in a message too.
 * So ghost cells are pointers into the messages, and no message is unpacked. The three dimensions
 * follow each other: what arrives in the first is sent on in the second and third, and atoms around
 * edges and corners arrive without messages of their own.
 *
 * The atoms of a cell are in the order of their numbers, and the cells around it are visited in one
 * order, so that the force on an atom is the same sum however many processes there are: results are
 * equal bit for bit. For this, each pair is computed twice, once for each atom.
 *
 * Units are those of the potential of Lennard and Jones: its depth, its diameter, the mass of an
 * atom.
 */
#ifndef EXAMPLES_MD_ATOMS_H
#define EXAMPLES_MD_ATOMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app.h"

#define MD_CUTOFF 2.5
#define MD_LATTICE 1.56 /* side of a cube with 4 atoms: a crystal that is stable at low pressure */
#define MD_SIDES 6      /* 2 * dimension: towards 0; 2 * dimension + 1: away from it */

static inline int md_opposite(int side) { return side ^ 1; }

struct md_options {
    uint32_t cells, steps, seed; /* cells of the crystal, in each dimension */
    const char *temperature, *grid;
};
#define MD_OPTIONS_DEFAULT                                                                         \
    {                                                                                              \
        14, 400, 1, "6", "auto"                                                                    \
    }
#define MD_OPTION_TABLE(o)                                                                         \
    APP_NUMBER("cells", 'c', &(o).cells, 2, 64, "The crystal has N x N x N cells of 4 atoms"),     \
        APP_NUMBER("steps", 'n', &(o).steps, 0, 1000000000, "Time steps"),                         \
        APP_TEXT("temperature", 't', &(o).temperature, md_temperature_valid, "T",                  \
                 "Of the middle at the beginning, 0 to 10; a tenth of it around the middle"),      \
        APP_NUMBER("seed", 's', &(o).seed, 0, UINT32_MAX / 2, "Of the first velocities"),          \
        APP_TEXT("grid", 'g', &(o).grid, md_grid_valid, "GRID",                                    \
                 "Blocks: 2x2x1, or auto: those with the smallest surface")
/* Call after the options are parsed: the sizes of --quick. */
void md_options_begin(struct md_options *o);

bool md_temperature_valid(const char *text);
bool md_grid_valid(const char *text);

struct md_atom { /* as it travels to another process */
    uint64_t id;
    double x[3], v[3];
};

struct md_cell {
    const double *x;       /* count of x, then y, then z: in md_part.x, or in a message */
    uint32_t count, first; /* first: index among the atoms of this process */
};

struct md_part {
    struct md_options options;
    uint64_t all;  /* atoms of all processes */
    double length; /* of the cube */
    double step;   /* of time */
    int cells;     /* of the cube, in each dimension */
    int across[3]; /* blocks in each dimension; */
    int place[3];  /* the one of this process, */
    int begin[3];  /* its first cell, */
    int count[3];  /* and how many it has */
    int peer[MD_SIDES];
    struct md_cell *cell; /* with the ghosts around them */

    uint32_t atoms, room;  /* of this process, and what there is memory for */
    uint64_t *id;          /* all cell by cell */
    double *x, *v, *f;     /* as md_cell.x */
    struct md_atom *loose; /* between md_advance and md_sort */
    uint32_t loose_count, *home, *order;
    struct md_atom *leaving; /* those that are not in their process yet */
    uint32_t leaving_count, leaving_room;
    double potential; /* energy, after md_forces */
};

/* 0, -ENOMEM, or -EINVAL: so many processes cannot share the cells. md_destroy() in every case. */
int md_create(struct md_part *p, const struct md_options *o, int rank, int nranks);
void md_destroy(struct md_part *p);

/* All atoms at the beginning, by number: 4 * cells^3. */
void md_start(const struct md_options *o, struct md_atom *all);

/*
 * A step: md_advance; in each dimension md_leave and md_arrive; md_sort; in each dimension
 * md_halo_write and md_halo_read; md_forces; md_accelerate. Before the first: halos and md_forces.
 */
int md_advance(
    struct md_part *p); /* half a step of the velocities, and a step of the places. 0 or -ENOMEM */

/* Atoms that leave over this side are written to mem, which has md_leave_bytes; returns bytes. */
size_t md_leave(struct md_part *p, int side, void *mem);
size_t md_leave_bytes(const struct md_part *p, int side); /* nearly always 0 */
size_t md_leave_most(const struct md_part *p, int side);
/* 0, -ENOMEM, or -EPROTO: no whole number of atoms. */
int md_arrive(struct md_part *p, const void *mem, size_t bytes);

/* Puts atoms into their cells. 0, -ENOMEM, or -ERANGE: one has moved farther than to a neighbour. */
int md_sort(struct md_part *p);

/* The outermost cells of this side, for the neighbour; md_halo_most: no message has more bytes. */
size_t md_halo_bytes(const struct md_part *p, int side);
size_t md_halo_most(const struct md_part *p, int side);
void md_halo_write(const struct md_part *p, int side, void *mem);
/* Ghost cells of this side: refer to mem until md_accelerate. 0, or -EPROTO: the sizes are wrong. */
int md_halo_read(struct md_part *p, int side, const void *mem, size_t bytes);

void md_forces(struct md_part *p);
void md_accelerate(struct md_part *p);
double md_energy(const struct md_part *p); /* kinetic and potential, of this process */

/* The atoms of this process, p->atoms of them; until md_advance. */
const struct md_atom *md_list(struct md_part *p);

/* All atoms by number, at the process that has them all. */
struct md_atom *md_table(uint64_t all); /* for free(3); NULL: no memory */
/* 0, or -EEXIST: it is there already, or there is none of this number. */
int md_table_add(struct md_atom *table, uint64_t all, const struct md_atom *atom);
uint64_t md_digest(const struct md_atom *table, uint64_t all);

/*
 * 0, or 1 after printing what is wrong: energy is not conserved, or, of few atoms, not the sum over
 * all pairs, which needs neither cells nor messages.
 */
int md_energy_check(const char *app, const struct md_part *p, const struct md_atom *table,
                    double before, double after);
/* 0, or 1 after printing the first atom that differs from the run of one process. */
int md_compare(const char *app, const struct md_options *o, const struct md_atom *table);

#endif
