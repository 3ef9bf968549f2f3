/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * md.c: molecular dynamics; halos of six sides are read where they arrive.
 *
 * A cube of atoms is cut into blocks (md_atoms.h). In each step atoms move; those that leave a block
 * are sent to its neighbour, in one dimension after the other; then each process needs the atoms
 * next to its block. It allocates a message with the neighbour, copies the cells into it, and sends
 * it; the neighbour's ghost cells are pointers into the message, which is freed when the forces are
 * computed. How many atoms a message has is different each time.
 *
 * rneighbors(3) opens the pipes of a dimension. Where the cube is not cut in a dimension, a process
 * is its own neighbour on both sides; where it is cut in two, another one is. Both are ordinary
 * pipes, and nothing here asks which it is.
 *
 *     mpirun -n 4 md --cells 20
 */
#include <errno.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_pipes.h"
#include "md_draw.h"

#define GATHER_ATOMS 512 /* of a message to rank 0 */

static struct md_options options = MD_OPTIONS_DEFAULT;
static struct {
    const char *output;
    int op; /* of app_ops */
} extra = {"md.png", 0};

struct job {
    struct md_part part;
    int rank, nranks;
    rneighbor_t near[MD_SIDES];
    raddr_t halo[MD_SIDES]; /* that ghost cells refer to, by side */
    struct app_laps laps;
    double before, after;  /* energy of all */
    struct md_atom *table; /* rank 0 */
};

static const struct app_option option_table[] = {
    MD_OPTION_TABLE(options),
    APP_TEXT("output", 'o', &extra.output, NULL, "FILE",
             "PNG of the beginning and the end; \"\" for none"),
    APP_OP(&extra.op),
    APP_END,
};

static const char doc[] =
    "Atoms of a crystal whose middle is hot, in a cube that is shared by the processes of a job.\v"
    "Run it as: mpirun -n 4 md. The exit status is 0 if the energy is conserved and the result "
    "equals, bit for bit, that of one process. "
    "The time of a step beyond moving, sorting and forces is \"communication\" as far as all "
    "processes have it, and else \"waiting\": for one that computes longer, or has no processor.";

/* ---- pipes ---- */

/*
 * Both ends of a dimension have blocks of the same extent in the others, so they come to the same
 * size. When a message is allocated, at most one other is in use: three times the largest is enough
 * wherever that one is.
 *
 * First-fit, with credits refreshed each time, uses the same memory for each halo, which is in the
 * caches. Next-fit, the default, goes through the whole heap first: twice the time to copy a halo.
 */
static void open_pipes(struct job *j)
{
    for (int side = 0; side < MD_SIDES; side += 2) {
        rpipe_config_t cfg = {0};

        cfg.op = app_op(extra.op);
        cfg.heuristic = RMALLOC_FIRST_FIT;
        cfg.watermark = RPIPE_WATERMARK_ALWAYS;
        cfg.heap_bytes = 3 * (md_halo_most(&j->part, side) + md_leave_most(&j->part, side));
        for (int i = side; i < side + 2; i++) {
            j->near[i].peer = j->part.peer[i];
            j->near[i].side = (uint32_t)i;
            j->near[i].opposite = (uint32_t)md_opposite(i);
        }
        MUST(NULL, rneighbors(j->near + side, 2, &cfg));
    }
    for (int i = 0; i < MD_SIDES; i++) {
        MUST(j->near[i].out, rwait(j->near[i].out));
        MUST(j->near[i].in, rwait(j->near[i].in));
    }
}

/* ---- the exchange of a step ---- */

/* Atoms that left a block are sent over its side, even if there are none: such a message needs no memory. */
static void migrate(struct job *j)
{
    for (int side = 0; side < MD_SIDES; side += 2) {
        for (int i = side; i < side + 2; i++) {
            rch_t out = j->near[i].out;
            size_t bytes = md_leave_bytes(&j->part, i);
            raddr_t d;
            void *mem = must_alloc(out, bytes, &d);

            MUST_HOLD(md_leave(&j->part, i, mem) == bytes);
            MUST(out, rwrite(out, d));
        }
        for (int i = side; i < side + 2; i++) {
            size_t bytes;
            raddr_t d;
            const void *mem = must_read(j->near[i].in, &d, &bytes);

            MUST_HOLD(md_arrive(&j->part, mem, bytes) == 0);
            MUST(j->near[i].in, rfree(j->near[i].in, d));
        }
    }
}

/* The cells at one side after the other, with what has arrived in the dimensions before. */
static void halo_exchange(struct job *j)
{
    for (int side = 0; side < MD_SIDES; side += 2) {
        for (int i = side; i < side + 2; i++) {
            rch_t out = j->near[i].out;
            size_t bytes = md_halo_bytes(&j->part, i);
            raddr_t d;

            MUST_HOLD(bytes <= md_halo_most(&j->part, i));
            md_halo_write(&j->part, i, must_alloc(out, bytes, &d));
            MUST(out, rwrite(out, d));
        }
        for (int i = side; i < side + 2; i++) {
            size_t bytes;
            const void *mem = must_read(j->near[i].in, &j->halo[i], &bytes);

            MUST_HOLD(md_halo_read(&j->part, i, mem, bytes) == 0);
        }
    }
}

static void halo_release(struct job *j)
{
    for (int i = 0; i < MD_SIDES; i++)
        MUST(j->near[i].in, rfree(j->near[i].in, j->halo[i]));
}

/* ---- the run ---- */

static void sort(struct job *j)
{
    if (md_sort(&j->part) == 0)
        return;
    fprintf(stderr, "md: rank %d: an atom has moved farther than a cell in one step\n", j->rank);
    network_abort(1);
}

static void step(struct job *j)
{
    double moved, arrived, sorted, exchanged, computed;

    MUST_HOLD(md_advance(&j->part) == 0);
    moved = app_seconds();
    migrate(j);
    arrived = app_seconds();
    sort(j);
    sorted = app_seconds();
    halo_exchange(j);
    exchanged = app_seconds();
    md_forces(&j->part);
    computed = app_seconds();
    halo_release(j);
    app_laps_add(&j->laps, arrived - moved + exchanged - sorted + app_seconds() - computed);
    md_accelerate(&j->part);
}

static double run(struct job *j)
{
    double began;

    MUST(NULL, network_barrier()); /* time begins when all are joined */
    began = app_seconds();
    halo_exchange(j);
    md_forces(&j->part);
    halo_release(j);
    j->before = md_energy(&j->part);
    for (uint32_t i = 0; i < options.steps; i++) {
        step(j);
        if (j->rank == 0)
            app_progress_show("md", "step", i + 1, options.steps, began);
    }
    j->after = md_energy(&j->part);
    MUST(NULL, network_barrier());
    return app_seconds() - began;
}

/* ---- the result ---- */

static rch_t open_gather(int peer, rpipe_role_t role)
{
    rpipe_config_t cfg = {0};
    rch_t ch = NULL;

    cfg.op = app_op(extra.op);
    cfg.peer = peer;
    cfg.role = role;
    cfg.context = rcontext("md.gather");
    cfg.heap_bytes = 4 * GATHER_ATOMS * sizeof(struct md_atom);
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

static void table_add(struct job *j, const struct md_atom *atoms, size_t count)
{
    for (size_t i = 0; i < count; i++)
        MUST_HOLD(md_table_add(j->table, j->part.all, &atoms[i]) == 0);
}

/* All atoms to rank 0; the end of the pipe is the end of them. */
static void gather(struct job *j)
{
    const struct md_atom *mine = md_list(&j->part);
    uint64_t count = app_sum(j->part.atoms);

    MUST_HOLD(count == j->part.all);
    if (j->rank != 0) {
        rch_t ch = open_gather(0, RPIPE_WRITER);

        for (uint32_t i = 0, n; i < j->part.atoms; i += n) {
            raddr_t d;

            n = j->part.atoms - i < GATHER_ATOMS ? j->part.atoms - i : GATHER_ATOMS;
            memcpy(must_alloc(ch, n * sizeof(*mine), &d), mine + i, n * sizeof(*mine));
            MUST(ch, rwrite(ch, d));
        }
        MUST(ch, rclose(ch));
        return;
    }
    j->table = md_table(j->part.all);
    MUST_HOLD(j->table != NULL);
    table_add(j, mine, j->part.atoms);
    for (int r = 1; r < j->nranks; r++) {
        rch_t ch = open_gather(r, RPIPE_READER);
        size_t bytes;
        raddr_t d;
        int code;

        while ((code = rread(ch, &d, &bytes)) != R_EOF) {
            MUST(ch, code);
            table_add(j, rmem(ch, d), bytes / sizeof(struct md_atom));
            MUST(ch, rfree(ch, d));
        }
        MUST(ch, rclose(ch));
    }
}

static int draw(const struct job *j)
{
    struct picture picture = {0};
    char why[256];
    int code;

    MUST_HOLD(md_draw(&j->part, j->table, &picture) == 0);
    code = picture_write(&picture, extra.output, why, sizeof(why));
    if (code != 0)
        fprintf(stderr, "md: %s\n", why);
    else if (!app_options.json)
        printf("md: picture: %s\n", extra.output);
    picture_destroy(&picture);
    return code != 0 && code != -ENOTSUP;
}

static int report(const struct job *j, double took, double comm, double waiting)
{
    const struct md_part *p = &j->part;
    struct app_result result = {
        "md",    app_op_name(extra.op),      j->nranks, took, comm, waiting, (double)options.steps,
        "steps", md_digest(j->table, p->all)};
    int status = md_energy_check("md", p, j->table, j->before, j->after);

    if (!app_options.json)
        printf("md: %llu atoms in %d x %d x %d blocks; energy of an atom %.6f, and %.6f after %u "
               "steps\n",
               (unsigned long long)p->all, p->across[0], p->across[1], p->across[2],
               j->before / (double)p->all, j->after / (double)p->all, options.steps);
    app_result_print(&result);
    if (app_options.check) {
        int differs = md_compare("md", &options, j->table);

        if (differs == 0 && !app_options.json)
            printf("md: right: all %llu atoms equal those of one process bit for bit\n",
                   (unsigned long long)p->all);
        status |= differs;
    }
    if (*extra.output != '\0')
        status |= draw(j);
    fflush(stdout);
    return status;
}

static void create(struct job *j)
{
    int code = md_create(&j->part, &options, j->rank, j->nranks);
    char why[4400];

    MUST_HOLD(code == 0 || code == -EINVAL);
    if (code != 0) {
        if (j->rank == 0)
            fprintf(stderr, "md: %d processes cannot share %d x %d x %d cells with --grid=%s\n",
                    j->nranks, j->part.cells, j->part.cells, j->part.cells, options.grid);
        rexit();
        exit(2);
    }
    if (j->rank == 0 && picture_can_write(extra.output, why, sizeof(why)) != 0) {
        fprintf(stderr, "md: %s\n", why);
        network_abort(2);
    }
    MUST_HOLD(app_laps_begin(&j->laps, options.steps) == 0);
}

int main(int argc, char **argv)
{
    const char *const usual = extra.output;
    struct job j = {0};
    double took, comm, waiting;
    int status = 0;

    app_parse(doc, option_table, argc, argv);
    md_options_begin(&options);
    if (app_options.quick && extra.output == usual)
        extra.output = "";
    MUST(NULL, rinit(&j.rank, &j.nranks));
    create(&j);
    open_pipes(&j);
    took = run(&j);
    comm = app_least(&j.laps);
    waiting = app_mean(j.laps.sum) - comm;
    j.before = app_mean(j.before) * j.nranks;
    j.after = app_mean(j.after) * j.nranks;
    gather(&j);
    for (int side = 0; side < MD_SIDES; side += 2)
        MUST(NULL, rneighbors_close(j.near + side, 2));
    if (j.rank == 0)
        status = report(&j, took, comm, waiting);
    MUST(NULL, rexit());
    md_destroy(&j.part);
    free(j.laps.beyond);
    free(j.table);
    return status;
}
