/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_md.c: examples/md over MPI, for comparison.
 *
 * Atoms, kernel and order of a step are the same. Messages are written into a buffer. With
 * --by=send MPI_Isend sends it, receives of the largest size are posted ahead, and MPI_Get_count
 * has the size that came. With --by=put it goes by MPI_Put into a box of the neighbour, its
 * size before it, and a flag follows. Ghost cells refer to the receive buffer, or to the box. A box
 * is free again when the neighbour's message of the other kind has come.
 */
#include <mpi.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../app.h"
#include "../md_atoms.h"
#include "laps.h"
#include "memory.h"
#include "notify.h"

enum { ATOMS, HALO, KINDS }; /* of a message */

static struct md_options options = MD_OPTIONS_DEFAULT;
static int by;
static bool by_put;

struct buffer {           /* of one side and kind */
    char *receive, *pack; /* with by_put the size is in the first 8 bytes of pack */
    size_t most;
    MPI_Request receiving, sending;
};

struct job {
    struct md_part part;
    int rank, nranks;
    struct buffer buffer[MD_SIDES][KINDS];
    uint64_t sent[KINDS]; /* exchanges so far: the value of a flag */
    struct notify boxes;
    struct app_laps laps;
};

static const char *const ways[] = {"send", "put", NULL};
static const struct app_option option_table[] = {
    MD_OPTION_TABLE(options),
    APP_WORD("by", 'b', &by, ways, "send: by MPI_Isend; put: by MPI_Put, flush and a flag"),
    APP_END,
};

static void must_hold(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "mpi_md: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* By the side that a message arrives at; as a tag, by the side that it leaves over. */
static int box_of(int side, int kind) { return side * KINDS + kind; }

/* ---- one message ---- */

static void receive_post(struct job *j, int side, int kind)
{
    struct buffer *b = &j->buffer[side][kind];

    if (!by_put)
        MPI_Irecv(b->receive, (int)b->most, MPI_BYTE, j->part.peer[side],
                  box_of(md_opposite(side), kind), MPI_COMM_WORLD, &b->receiving);
}

/* Memory to write a message into, when the one before is sent. */
static void *pack_memory(struct job *j, int side, int kind)
{
    struct buffer *b = &j->buffer[side][kind];

    if (!by_put)
        MPI_Wait(&b->sending, MPI_STATUS_IGNORE);
    return b->pack + sizeof(uint64_t);
}

static void hand_over(struct job *j, int side, int kind, size_t bytes)
{
    struct buffer *b = &j->buffer[side][kind];
    uint64_t size = bytes;

    must_hold(bytes <= b->most, "a message is larger than the buffer");
    if (by_put) {
        memcpy(b->pack, &size, sizeof(size));
        notify_put(&j->boxes, j->part.peer[side], box_of(md_opposite(side), kind), b->pack,
                   sizeof(size) + bytes, j->sent[kind]);
    } else {
        MPI_Isend(b->pack + sizeof(size), (int)bytes, MPI_BYTE, j->part.peer[side],
                  box_of(side, kind), MPI_COMM_WORLD, &b->sending);
    }
}

static const void *receive(struct job *j, int side, int kind, size_t *bytes)
{
    struct buffer *b = &j->buffer[side][kind];
    MPI_Status status;
    uint64_t size;
    int count;

    if (by_put) {
        const char *box = notify_data(&j->boxes, box_of(side, kind));

        notify_await(&j->boxes, box_of(side, kind), j->sent[kind]);
        memcpy(&size, box, sizeof(size));
        *bytes = size;
        return box + sizeof(size);
    }
    MPI_Wait(&b->receiving, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    *bytes = (size_t)count;
    return b->receive;
}

/* ---- the exchange of a step ---- */

static void migrate(struct job *j)
{
    j->sent[ATOMS]++;
    for (int side = 0; side < MD_SIDES; side += 2) {
        for (int i = side; i < side + 2; i++)
            hand_over(j, i, ATOMS, md_leave(&j->part, i, pack_memory(j, i, ATOMS)));
        for (int i = side; i < side + 2; i++) {
            size_t bytes;
            const void *mem = receive(j, i, ATOMS, &bytes);

            must_hold(md_arrive(&j->part, mem, bytes) == 0, "a message is no array of atoms");
            receive_post(j, i, ATOMS);
        }
    }
}

static void halo_exchange(struct job *j)
{
    j->sent[HALO]++;
    for (int side = 0; side < MD_SIDES; side += 2) {
        for (int i = side; i < side + 2; i++) {
            size_t bytes = md_halo_bytes(&j->part, i);

            must_hold(bytes <= j->buffer[i][HALO].most, "a halo is larger than the buffer");
            md_halo_write(&j->part, i, pack_memory(j, i, HALO));
            hand_over(j, i, HALO, bytes);
        }
        for (int i = side; i < side + 2; i++) {
            size_t bytes;
            const void *mem = receive(j, i, HALO, &bytes);

            must_hold(md_halo_read(&j->part, i, mem, bytes) == 0, "a halo is not whole");
        }
    }
}

/* The forces are computed, and the next halos may overwrite these. */
static void halo_release(struct job *j)
{
    for (int i = 0; i < MD_SIDES; i++)
        receive_post(j, i, HALO);
}

/* ---- the run ---- */

static void create(struct job *j)
{
    size_t most = 0;

    for (int i = 0; i < MD_SIDES; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct buffer *b = &j->buffer[i][kind];

            b->most = kind == ATOMS ? md_leave_most(&j->part, i) : md_halo_most(&j->part, i);
            most = b->most > most ? b->most : most;
            b->receive = memory(b->most, 1);
            b->pack = memory(b->most + sizeof(uint64_t), 1);
            b->sending = b->receiving = MPI_REQUEST_NULL;
        }
    laps_begin(&j->laps, options.steps);
    if (by_put) {
        unsigned long mine = most + sizeof(uint64_t), all;

        MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG, MPI_MAX, MPI_COMM_WORLD);
        notify_create(&j->boxes, MD_SIDES * KINDS, all);
    }
}

static void destroy(struct job *j)
{
    for (int i = 0; i < MD_SIDES; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct buffer *b = &j->buffer[i][kind];

            MPI_Wait(&b->sending, MPI_STATUS_IGNORE);
            if (b->receiving != MPI_REQUEST_NULL) { /* posted for a step that does not come */
                MPI_Cancel(&b->receiving);
                MPI_Wait(&b->receiving, MPI_STATUS_IGNORE);
            }
            free(b->receive);
            free(b->pack);
        }
    if (by_put)
        notify_destroy(&j->boxes);
    md_destroy(&j->part);
}

static void step(struct job *j)
{
    double moved, arrived, sorted, exchanged, computed;

    must_hold(md_advance(&j->part) == 0, "no memory");
    moved = app_seconds();
    migrate(j);
    arrived = app_seconds();
    must_hold(md_sort(&j->part) == 0, "an atom has moved farther than a cell in one step");
    sorted = app_seconds();
    halo_exchange(j);
    exchanged = app_seconds();
    md_forces(&j->part);
    computed = app_seconds();
    halo_release(j);
    app_laps_add(&j->laps, arrived - moved + exchanged - sorted + app_seconds() - computed);
    md_accelerate(&j->part);
}

static double run(struct job *j, double energy[2])
{
    double began, mine[2], took;

    for (int i = 0; i < MD_SIDES; i++)
        for (int kind = 0; kind < KINDS; kind++)
            receive_post(j, i, kind);
    MPI_Barrier(MPI_COMM_WORLD);
    began = app_seconds();
    halo_exchange(j);
    md_forces(&j->part);
    halo_release(j);
    mine[0] = md_energy(&j->part);
    for (uint32_t i = 0; i < options.steps; i++) {
        step(j);
        if (j->rank == 0)
            app_progress_show("mpi_md", "step", i + 1, options.steps, began);
    }
    mine[1] = md_energy(&j->part);
    MPI_Barrier(MPI_COMM_WORLD);
    took = app_seconds() - began;
    MPI_Reduce(mine, energy, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return took;
}

/* All atoms at rank 0, else NULL. */
static struct md_atom *gather(struct job *j)
{
    int bytes = (int)(j->part.atoms * sizeof(struct md_atom)), from = 0;
    int *count = memory((size_t)j->nranks, sizeof(int)),
        *first = memory((size_t)j->nranks, sizeof(int));
    struct md_atom *all = memory(j->rank == 0 ? j->part.all : 1, sizeof(*all)), *table = NULL;

    MPI_Gather(&bytes, 1, MPI_INT, count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int r = 0; r < j->nranks; r++) {
        first[r] = from;
        from += count[r];
    }
    must_hold(j->rank != 0 || (uint64_t)from == j->part.all * sizeof(*all), "atoms are lost");
    MPI_Gatherv(md_list(&j->part), bytes, MPI_BYTE, all, count, first, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (j->rank == 0) {
        table = md_table(j->part.all);
        must_hold(table != NULL, "no memory");
        for (uint64_t i = 0; i < j->part.all; i++)
            must_hold(md_table_add(table, j->part.all, &all[i]) == 0, "an atom is there twice");
    }
    free(all);
    free(count);
    free(first);
    return table;
}

int main(int argc, char **argv)
{
    struct job j = {0};
    double took, comm, waiting, energy[2];
    struct md_atom *table;
    int status = 0, code;

    app_parse("md over MPI.", option_table, argc, argv);
    by_put = by == 1;
    md_options_begin(&options);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.nranks);
    code = md_create(&j.part, &options, j.rank, j.nranks);
    must_hold(code == 0 || code == -EINVAL, "no memory");
    if (code != 0) {
        if (j.rank == 0)
            fprintf(stderr, "mpi_md: %d processes cannot share %d x %d x %d cells with --grid=%s\n",
                    j.nranks, j.part.cells, j.part.cells, j.part.cells, options.grid);
        MPI_Finalize();
        return 2;
    }
    create(&j);
    took = run(&j, energy);
    laps_end(&j.laps, &comm, &waiting);
    table = gather(&j);
    if (j.rank == 0) {
        struct app_result result = {"md",
                                    by_put ? "mpi put" : "mpi send",
                                    j.nranks,
                                    took,
                                    comm,
                                    waiting,
                                    (double)options.steps,
                                    "steps",
                                    md_digest(table, j.part.all)};

        app_result_print(&result);
        status = md_energy_check("mpi_md", &j.part, table, energy[0], energy[1]);
        if (app_options.check)
            status |= md_compare("mpi_md", &options, table);
        fflush(stdout);
    }
    free(table);
    destroy(&j);
    MPI_Finalize();
    return status;
}
