/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat2d.c: heat spreads over a plate that N processes share, and every halo travels without a
 * copy.
 *
 * The plate is cut into bands of rows (thesis section 6.3.1), or into blocks. Each step needs what
 * the neighbours had next to the border in the step before. A process computes its own outermost
 * rows and columns first, straight into memory of the pipes to its neighbours as well, and hands
 * them over before it turns to the interior; then the neighbours' have arrived when it returns to
 * the border. It reads them in place and frees the memory.
 *
 * With --windows a halo is written from the grid itself into the neighbour's own memory, and a
 * message of 4 bytes behind it announces it (rwindow(3)). Each side has memory for two halos there:
 * a neighbour writes the next but one only when it has the next one from here, which leaves when
 * the one before has been used.
 *
 * At most two halos of a pipe are in use at a time: the one that the neighbour still reads, and the
 * next. The heap holds many small ones: what the neighbour has freed is taken up when memory
 * runs out, which costs the transfer of a cache line, and then it is a lap of halos at once.
 *
 * At the end rank 0 gathers the plate, through pipes too, repeats the whole run by itself and
 * compares every bit.
 */
#include <errno.h>
#include <rpipe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "animation.h"
#include "app_pipes.h"
#include "heat_grid.h"

enum { HALO, GATHER }; /* ctx of a pipe: rank 1 has one of each to rank 0 */
/* Halos in the memory of a pipe: two are in use; the third decouples allocation from freeing. */
#define HALOS 3
#define HALO_HEAP 131072  /* bytes of small halos; they stay in the second-level cache */
#define LARGEST_FRAME 480 /* pixels: a larger plate is thinned out */

static struct heat_options options = HEAT_OPTIONS_DEFAULT;
static struct {
    int frames, op; /* of app_ops */
    bool windows;
    const char *output, *animate;
} extra = {60, 0, false, "heat2d.png", ""};

/* What a process has of the plate. Where no neighbour is there is the rim, zeros. */
struct part {
    struct heat_block block;
    int rank, nranks;
    double *now, *next, *rim;
    struct heat_halo halo;
    struct side {
        int peer;
        rch_t in, out;
        raddr_t reading, sending;
        /* --windows: two halos of the neighbour's, and two columns that are sent */
        rregion_t ghosts, packed;
        rwindow_t window;
        rremote_t remote; /* the neighbour's ghosts */
        int done[2];
    } side[HEAT_SIDES];
    rregion_t grid[2]; /* --windows: of now and next */
    rch_t *gather;     /* rank 0: from each; else [0], to rank 0 */
    struct app_laps laps;
    double frames_s;
    struct animation *film;
    float *frame;
    double *plate; /* rank 0 */
};

/* ---- options ---- */

static const struct app_option option_table[] = {
    HEAT_OPTION_TABLE(options),
    APP_TEXT("output", 'o', &extra.output, NULL, "FILE",
             "PNG of the beginning and the end; \"\" for none"),
    APP_TEXT("animate", 'a', &extra.animate, NULL, "FILE", "Animated PNG of the whole run"),
    APP_INT("frames", 'f', &extra.frames, 1, 10000, "Pictures of the animation"),
    APP_OP(&extra.op),
    APP_FLAG("windows", 'w', &extra.windows, "Write halos into the neighbours' own memory"),
    APP_END,
};

static const char doc[] =
    "Heat spreads over a plate that is shared by the processes of a job.\v"
    "Run it as: mpirun -n 4 heat2d. The exit status is 0 if the result equals, bit for bit, that "
    "of one process. "
    "What a step takes beyond all cells at the speed of the interior ones is \"communication\" as "
    "far as all processes "
    "have it, and else \"waiting\": for one that computes longer, or has no processor.";

/* ---- pipes ---- */

static rch_t open_pipe(int peer, bool writer, uint32_t ctx, uint64_t heap)
{
    rpipe_config_t cfg = {0};
    rch_t ch = NULL;

    cfg.op = app_op(extra.op);
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = heap;
    cfg.context = ctx;
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* Heap for `count` messages of so many cells, whatever their size is rounded up to. */
static uint64_t heap_for(int cells, uint64_t count)
{
    return count * (((uint64_t)cells * sizeof(double) + 63) / 64 * 64);
}

static uint64_t halo_heap(int cells)
{
    uint64_t halos = HALO_HEAP / heap_for(cells, 1);

    return heap_for(cells, halos > HALOS ? halos : HALOS);
}

static size_t halo_bytes(const struct part *p, int side)
{
    return (size_t)heat_halo_cells(&p->block, side) * sizeof(double);
}

/* ---- the halo of a step ---- */

static void halo_receive(struct part *p)
{
    for (int i = 0; i < HEAT_SIDES; i++) {
        struct side *s = &p->side[i];
        size_t bytes;

        if (s->peer < 0)
            continue;
        p->halo.from[i] = must_read(s->in, &s->reading, &bytes);
        MUST_HOLD(bytes == halo_bytes(p, i));
    }
    heat_request(&p->block, &p->halo);
}

/* Memory of the neighbours, for what they will need next. */
static void halo_memory(struct part *p)
{
    for (int i = 0; i < HEAT_SIDES; i++)
        if (p->side[i].peer >= 0)
            p->halo.send[i] = must_alloc(p->side[i].out, halo_bytes(p, i), &p->side[i].sending);
}

static void halo_release(struct part *p)
{
    for (int i = 0; i < HEAT_SIDES; i++)
        if (p->side[i].peer >= 0)
            MUST(p->side[i].in, rfree(p->side[i].in, p->side[i].reading));
}

static void halo_hand_over(struct part *p)
{
    for (int i = 0; i < HEAT_SIDES; i++) {
        if (p->side[i].peer >= 0)
            MUST(p->side[i].out, rwrite(p->side[i].out, p->side[i].sending));
        p->halo.send[i] = NULL;
    }
}

/* ---- the same by windows ---- */

static rregion_t own_memory(size_t bytes)
{
    rregion_t region = NULL;

    MUST(NULL, rregion_open(&region, NULL, NULL, bytes));
    return region;
}

static void windows_open(struct part *p)
{
    for (int i = 0; i < HEAT_SIDES; i++) {
        struct side *s = &p->side[i];
        rwindow_handle_t handle;

        if (s->peer < 0)
            continue;
        s->ghosts = own_memory(2 * halo_bytes(p, i));
        s->packed = own_memory(2 * halo_bytes(p, i));
        s->done[0] = s->done[1] = 1;
        MUST(s->in, rwindow_open(&s->window, s->in, s->ghosts, RWINDOW_WRITE, &handle));
        MUST(s->out, rsend(s->out, &handle, sizeof(handle), 0));
    }
    for (int i = 0; i < HEAT_SIDES; i++) {
        struct side *s = &p->side[i];
        rwindow_handle_t handle;
        size_t bytes;

        if (s->peer < 0)
            continue;
        MUST(s->in, rrecv(s->in, &handle, sizeof(handle), &bytes, 0));
        MUST_HOLD(bytes == sizeof(handle));
        MUST(s->out, rwindow_attach(&s->remote, s->out, &handle, 0));
    }
}

/* No neighbour writes any more. */
static void windows_close(struct part *p)
{
    for (int i = 0; i < HEAT_SIDES; i++) {
        struct side *s = &p->side[i];

        if (s->peer < 0)
            continue;
        MUST(s->out, rdone(s->out, NULL, 0));
        MUST(NULL, rwindow_close(s->window));
        MUST(NULL, rregion_close(s->ghosts));
        MUST(NULL, rregion_close(s->packed));
    }
    MUST(NULL, rregion_close(p->grid[0]));
    MUST(NULL, rregion_close(p->grid[1]));
}

static double *half_of(const struct part *p, rregion_t region, int side, int number)
{
    return (double *)rregion_mem(region) + number % 2 * heat_halo_cells(&p->block, side);
}

static void windows_receive(struct part *p, int number)
{
    for (int i = 0; i < HEAT_SIDES; i++) {
        struct side *s = &p->side[i];
        size_t bytes;
        int got;

        if (s->peer < 0)
            continue;
        MUST(s->in, rrecv(s->in, &got, sizeof(got), &bytes, 0));
        MUST_HOLD(bytes == sizeof(got) && got == number);
        p->halo.from[i] = half_of(p, s->ghosts, i, number);
    }
    heat_request(&p->block, &p->halo);
}

/*
 * What the next but one halo is made in: columns are packed, rows leave from the grid. A network
 * may still read the last one from there.
 */
static void windows_memory(struct part *p, int number)
{
    for (int i = 0; i < HEAT_SIDES; i++) {
        struct side *s = &p->side[i];

        if (s->peer < 0)
            continue;
        if (s->done[number % 2] == 0)
            MUST(s->out, rdone(s->out, &s->done[number % 2], 0));
        if (i == HEAT_LEFT || i == HEAT_RIGHT)
            p->halo.send[i] = half_of(p, s->packed, i, number);
    }
}

/* The halos of a grid that is complete at its border. */
static void windows_hand_over(struct part *p, const double *grid, rregion_t region, int number)
{
    const struct heat_block *b = &p->block;

    for (int i = 0; i < HEAT_SIDES; i++) {
        struct side *s = &p->side[i];
        const double *from = i == HEAT_UP     ? grid
                             : i == HEAT_DOWN ? grid + (size_t)(b->rows - 1) * (size_t)b->cols
                                              : p->halo.send[i];

        if (s->peer >= 0) {
            MUST(s->out, rwindow_write(s->remote, (size_t)(number % 2) * halo_bytes(p, i), from,
                                       halo_bytes(p, i), i <= HEAT_DOWN ? region : s->packed,
                                       &s->done[number % 2], 0));
            MUST(s->out, rsend(s->out, &number, sizeof(number), 0));
        }
        p->halo.send[i] = NULL;
    }
}

/* ---- the plate at rank 0 ---- */

static void block_of(const struct part *p, int rank, struct heat_block *b)
{
    MUST_HOLD(heat_block_of(rank, p->nranks, options.size, options.grid, b) == 0);
}

static void gather_open(struct part *p)
{
    p->gather = calloc((size_t)p->nranks, sizeof(rch_t));
    MUST_HOLD(p->gather != NULL);
    if (p->rank != 0) {
        p->gather[0] = open_pipe(0, true, GATHER, heap_for(p->block.cols, 16));
        return;
    }
    p->plate = malloc((size_t)options.size * (size_t)options.size * sizeof(double));
    MUST_HOLD(p->plate != NULL);
    for (int r = 1; r < p->nranks; r++) {
        struct heat_block b;

        block_of(p, r, &b);
        p->gather[r] = open_pipe(r, false, GATHER, heap_for(b.cols, 16));
    }
}

static double *plate_at(const struct part *p, int y, int x)
{
    return p->plate + (size_t)y * (size_t)options.size + (size_t)x;
}

/* Every row of every block is a message to rank 0. */
static void gather(struct part *p)
{
    const struct heat_block *mine = &p->block;
    size_t bytes = (size_t)mine->cols * sizeof(double);

    for (int y = 0; y < mine->rows; y++) {
        const double *row = p->now + (size_t)y * (size_t)mine->cols;
        raddr_t d;

        if (p->rank == 0) {
            memcpy(plate_at(p, mine->y + y, mine->x), row, bytes);
            continue;
        }
        memcpy(must_alloc(p->gather[0], bytes, &d), row, bytes);
        MUST(p->gather[0], rwrite(p->gather[0], d));
    }
    for (int r = 1; p->rank == 0 && r < p->nranks; r++) {
        struct heat_block b;

        block_of(p, r, &b);
        for (int y = 0; y < b.rows; y++) {
            raddr_t d;
            const void *row = must_read(p->gather[r], &d, &bytes);

            MUST_HOLD(bytes == (size_t)b.cols * sizeof(double));
            memcpy(plate_at(p, b.y + y, b.x), row, bytes);
            MUST(p->gather[r], rfree(p->gather[r], d));
        }
    }
}

/* ---- the animation ---- */

static int frame_side(void) { return options.size < LARGEST_FRAME ? options.size : LARGEST_FRAME; }

static void film_begin(struct part *p)
{
    int side = frame_side();
    char why[256];

    if (p->rank != 0 || *extra.animate == '\0')
        return;
    p->frame = malloc((size_t)side * (size_t)side * sizeof(*p->frame));
    p->film = animation_begin(extra.animate, side, side, 60, why, sizeof(why));
    if (p->film == NULL)
        fprintf(stderr, "heat2d: %s\n", why);
    MUST_HOLD(p->frame != NULL);
}

/* All processes take part in a picture, whether rank 0 can draw it or not. */
static void film_take(struct part *p, int step)
{
    int side = frame_side(), n = options.size;
    long last = step > 0 ? (long)(step - 1) * extra.frames / options.steps : -1;
    double began;

    if (*extra.animate == '\0' || (step > 0 && (long)step * extra.frames / options.steps == last))
        return;
    began = app_seconds();
    gather(p);
    if (p->film != NULL) {
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++)
                p->frame[(size_t)y * (size_t)side + (size_t)x] =
                    (float)*plate_at(p, heat_cut(y, n, side), heat_cut(x, n, side));
        if (animation_add(p->film, p->frame) != 0)
            fprintf(stderr, "heat2d: a picture of %s was not drawn\n", extra.animate);
    }
    p->frames_s += app_seconds() - began;
}

static int film_end(struct part *p)
{
    char why[256];
    int code = 0;

    if (p->film != NULL && (code = animation_end(p->film, why, sizeof(why))) != 0)
        fprintf(stderr, "heat2d: %s\n", why);
    else if (p->film != NULL && !app_options.json)
        printf("heat2d: animation: %s\n", extra.animate);
    return code;
}

/* ---- the run ---- */

static void part_create(struct part *p)
{
    struct heat_block *b = &p->block;
    size_t cells = (size_t)b->rows * (size_t)b->cols;

    for (int i = 0; i < 2 && extra.windows; i++)
        p->grid[i] = own_memory(cells * sizeof(double));
    p->now = extra.windows ? rregion_mem(p->grid[0]) : malloc(cells * sizeof(double));
    p->next = extra.windows ? rregion_mem(p->grid[1]) : malloc(cells * sizeof(double));
    p->rim = calloc((size_t)(b->rows > b->cols ? b->rows : b->cols), sizeof(double));
    MUST_HOLD(p->now != NULL && p->next != NULL && p->rim != NULL);
    MUST_HOLD(app_laps_begin(&p->laps, (uint64_t)options.steps) == 0);
    heat_start_block(b, p->now);
    for (int i = 0; i < HEAT_SIDES; i++) {
        struct side *s = &p->side[i];

        s->peer = b->peer[i];
        p->halo.from[i] = p->rim;
        if (s->peer < 0)
            continue;
        s->out = open_pipe(s->peer, true, HALO, halo_heap(heat_halo_cells(b, i)));
        s->in = open_pipe(s->peer, false, HALO, halo_heap(heat_halo_cells(b, i)));
    }
    gather_open(p);
}

/* The halos of the beginning are copied from the grid; each later one is computed into its pipe. */
static void first_halo(struct part *p)
{
    if (extra.windows)
        windows_memory(p, 1);
    else
        halo_memory(p);
    heat_first_halo(&p->block, p->now, &p->halo);
    if (extra.windows)
        windows_hand_over(p, p->now, p->grid[0], 1);
    else
        halo_hand_over(p);
}

static void edges(struct part *p, bool last)
{
    halo_receive(p);
    if (!last)
        halo_memory(p);
    heat_edges(&p->block, p->now, p->next, &p->halo);
    halo_release(p);
    if (!last)
        halo_hand_over(p);
}

static void edges_by_windows(struct part *p, int number, bool last)
{
    windows_receive(p, number);
    windows_memory(p, number + 1);
    heat_edges(&p->block, p->now, p->next, &p->halo);
    if (!last)
        windows_hand_over(p, p->next, p->grid[number % 2], number + 1);
}

static void step(struct part *p, int number, bool last)
{
    double *swap, began = app_seconds(), inside, computed;

    if (extra.windows)
        edges_by_windows(p, number, last);
    else
        edges(p, last);

    inside = app_seconds();
    heat_interior(&p->block, p->now, p->next, &p->halo);
    computed = app_seconds();
    app_laps_add(&p->laps, computed - began - heat_computing(&p->block, computed - inside));
    swap = p->now;
    p->now = p->next;
    p->next = swap;
}

static double run(struct part *p)
{
    double began;

    film_begin(p);
    for (int i = 0; i < HEAT_SIDES;
         i++) { /* time begins when all are joined; the first messages would wait for it */
        if (p->side[i].peer >= 0) {
            MUST(p->side[i].in, rwait(p->side[i].in));
            MUST(p->side[i].out, rwait(p->side[i].out));
        }
    }
    MUST(NULL, network_barrier());
    began = app_seconds();
    film_take(p, 0);
    if (options.steps > 0)
        first_halo(p);
    for (int i = 1; i <= options.steps; i++) {
        step(p, i, i == options.steps);
        film_take(p, i);
        if (p->rank == 0)
            app_progress_show("heat2d", "step", (uint64_t)i, (uint64_t)options.steps, began);
    }
    MUST(NULL, network_barrier());
    return app_seconds() - began;
}

/* ---- the result ---- */

static int draw(const struct part *p)
{
    struct picture picture;
    char why[256];
    int code;

    MUST_HOLD(heat_draw(p->plate, &p->block, &picture) == 0);
    code = picture_write(&picture, extra.output, why, sizeof(why));
    if (code != 0)
        fprintf(stderr, "heat2d: %s\n", why);
    else if (!app_options.json)
        printf("heat2d: picture: %s\n", extra.output);
    picture_destroy(&picture);
    return code != 0 && code != -ENOTSUP;
}

static int report(struct part *p, double took, double comm, double waiting)
{
    double cells = (double)options.size * options.size;
    struct app_result result = {"heat2d",
                                extra.windows ? "rpipe windows" : app_op_name(extra.op),
                                p->nranks,
                                took,
                                comm,
                                waiting,
                                (double)options.steps,
                                "steps",
                                app_digest(0, p->plate, (size_t)cells)};
    int status = 0;

    if (!app_options.json)
        printf("heat2d: %d x %d cells in %d x %d blocks\n", options.size, options.size,
               p->block.down, p->block.across);
    app_result_print(&result);
    if (app_options.check) {
        status = heat_compare("heat2d", p->plate, options.size, options.steps);
        if (status == 0 && !app_options.json)
            printf("heat2d: right: all %.0f cells equal those of one process bit for bit\n", cells);
    }
    if (film_end(p) != 0)
        status = 1;
    if (*extra.output != '\0')
        status |= draw(p);
    fflush(stdout);
    return status;
}

static void must_be_writable(const char *path)
{
    char why[4400];

    if (picture_can_write(path, why, sizeof(why)) != 0) {
        fprintf(stderr, "heat2d: %s\n", why);
        network_abort(2);
    }
}

int main(int argc, char **argv)
{
    const char *const usual = extra.output;
    struct part p = {0};
    double took, comm, beyond;
    int status = 0;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick) {
        options.size = 97;
        options.steps = 100;
        if (extra.output == usual)
            extra.output = "";
    }
    MUST(NULL, rinit(&p.rank, &p.nranks));
    if (heat_block_of(p.rank, p.nranks, options.size, options.grid, &p.block) != 0) {
        if (p.rank == 0)
            fprintf(stderr, "heat2d: %d processes cannot share %d x %d cells with --grid=%s\n",
                    p.nranks, options.size, options.size, options.grid);
        rexit();
        return 2;
    }
    if (p.rank == 0) {
        must_be_writable(extra.output);
        must_be_writable(extra.animate);
    }
    part_create(&p);
    if (extra.windows)
        windows_open(&p);
    took = run(&p);
    comm = app_least(&p.laps);
    beyond = app_mean(p.laps.sum);
    gather(&p);
    if (p.rank == 0)
        status = report(&p, took - p.frames_s, comm, beyond - comm);
    if (extra.windows)
        windows_close(&p);
    else
        free(p.now), free(p.next);
    MUST(NULL, rexit());
    free(p.laps.beyond);
    free(p.gather);
    free(p.plate);
    free(p.frame);
    free(p.rim);
    return status;
}
