/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat2d.c: heat spreads over a plate that N processes share, and every halo row travels without a copy.
 *
 * The plate is cut into N bands of rows (thesis section 6.3.1). Each step needs the neighbours' outermost rows of the step
 * before. A process computes its own outermost rows first, straight into memory of the pipes to its neighbours as well, and
 * hands them over before it turns to the interior; then the neighbours' rows are there when it comes back. It reads them
 * where they lie and gives the memory back.
 *
 * At most two rows of a pipe are in use at a time: the one that the neighbour still reads, and the next.
 *
 * At the end rank 0 gathers the plate, through pipes too, repeats the whole run by itself and compares every bit.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <rpipe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "heat_grid.h"
#include "must.h"

enum { UP, DOWN, SIDES };
enum { HALO, GATHER }; /* ctx of a pipe: rank 1 has one of each to rank 0 */
enum progress { AUTO, LIVE, LINES, NONE };

static struct {
    int size, steps;
    const char *output;
    rdma_op_t op;
    enum progress progress;
    bool check;
} options = {640, 6400, "heat2d.png", RDMA_PUT, AUTO, true};

/* What a process has of the plate. A side without a neighbour has peer -1 and the rim, a row of zeros. */
struct band {
    int rank, nranks, n;
    int first, rows;
    double *now, *next;
    struct side {
        int peer;
        rch_t in, out;
        raddr_t halo, sending;
        const double *halo_row;
        double *send_row;
    } side[SIDES];
    double *rim;
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- options ---- */

static long number(const char *text, long least, long most, const char *what, struct argp_state *state)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
        argp_error(state, "%s is \"%s\"; it must be a number from %ld to %ld", what, text, least, most);
    return value;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    static const char *const progress[] = {"auto", "live", "lines", "none"};
    unsigned i;

    switch (key) {
    case 's':
        options.size = (int)number(arg, 1, 16384, "--size", state);
        return 0;
    case 'n':
        options.steps = (int)number(arg, 0, 1000000000, "--steps", state);
        return 0;
    case 'o':
        options.output = arg;
        return 0;
    case 'p':
        if (strcmp(arg, "put") != 0 && strcmp(arg, "get") != 0)
            argp_error(state, "--op is \"%s\"; it must be put or get", arg);
        options.op = strcmp(arg, "get") == 0 ? RDMA_GET : RDMA_PUT;
        return 0;
    case 'P':
        for (i = 0; i < 4; i++)
            if (strcmp(arg, progress[i]) == 0)
                options.progress = (enum progress)i;
        for (i = 0; i < 4 && strcmp(arg, progress[i]) != 0; i++)
            ;
        if (i == 4)
            argp_error(state, "--progress is \"%s\"; it must be auto, live, lines or none", arg);
        return 0;
    case 'C':
        options.check = false;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"size", 's', "N", 0, "The plate has N x N cells (640)", 0},
    {"steps", 'n', "N", 0, "Time steps (6400)", 0},
    {"output", 'o', "FILE", 0, "PNG of the beginning and the end (heat2d.png); \"\" for none", 0},
    {"op", 'p', "put|get", 0, "Who moves the halo rows: their writer (put) or their reader (get)", 0},
    {"progress", 'P', "WHEN", 0, "live (one line that changes), lines, none, or auto: live on a terminal", 0},
    {"no-check", 'C', NULL, 0, "Do not repeat the run on rank 0 to compare", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp option_parser = {
    option_table,
    parse_option,
    NULL,
    "Heat spreads over a plate that is shared by the processes of a job.\v"
    "Run it as: mpirun -n 4 heat2d. The exit status is 0 if the result equals, bit for bit, that of one process.",
    NULL,
    NULL,
    NULL};

/* ---- progress ---- */

/* A launcher puts a pipe between a process and the terminal, so its own standard error is looked at too. */
static bool on_terminal(void)
{
    char path[64];
    bool yes = isatty(STDERR_FILENO);
    int fd;

    if (yes)
        return true;
    snprintf(path, sizeof(path), "/proc/%ld/fd/2", (long)getppid());
    fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        yes = isatty(fd);
        close(fd);
    }
    return yes;
}

static void show_progress(int step, double began)
{
    static double last;
    static int fifth;
    double now = seconds(), took = now - began;
    double share = options.steps > 0 ? (double)step / options.steps : 1.0;
    char bar[41];

    if (options.progress == NONE)
        return;
    if (options.progress == LINES) {
        if (step > 0 && (int)(share * 5) > fifth)
            fprintf(stderr, "heat2d: step %d of %d, %.1f s\n", step, options.steps, took);
        fifth = (int)(share * 5);
        return;
    }
    if (now - last < 0.05 && step < options.steps)
        return;
    last = now;
    for (int i = 0; i < 40; i++)
        bar[i] = i < (int)(share * 40) ? '=' : i == (int)(share * 40) ? '>' : ' ';
    bar[40] = '\0';
    fprintf(stderr, "\rheat2d [%s] %3d %%  step %d of %d  %.1f s  %.3f ms/step ", bar, (int)(share * 100), step,
            options.steps, took, step > 0 ? took * 1e3 / step : 0.0);
    if (step == options.steps)
        fputc('\n', stderr);
    fflush(stderr);
}

/* ---- pipes ---- */

static rch_t open_pipe(int peer, bool writer, uint32_t ctx, uint64_t heap)
{
    rmalloc_config_t cfg = RMALLOC_CONFIG_DEFAULT;
    rch_t ch = NULL;

    cfg.allocator.op = options.op;
    cfg.allocator.peer = peer;
    cfg.allocator.rdma_active = options.op == RDMA_PUT ? writer : !writer;
    cfg.allocator.alloc_size = heap;
    cfg.ctx = ctx;
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

static size_t row_bytes(const struct band *b) { return (size_t)b->n * sizeof(double); }
static double *row_of(const struct band *b, double *grid, int y) { return grid + (size_t)y * (size_t)b->n; }

/* Heap for `rows` rows, whatever their size is rounded up to. */
static uint64_t heap_for(const struct band *b, uint64_t rows) { return rows * ((row_bytes(b) + 63) / 64 * 64); }

static void halo_ready(struct side *s)
{
    if (s->peer >= 0)
        MUST(s->out, rwrite(s->out, s->sending));
    s->send_row = NULL;
}

static void halo_receive(const struct band *b, struct side *s)
{
    size_t bytes;

    if (s->peer < 0)
        return;
    s->halo_row = MUST_HAVE(s->in, rread_mem(s->in, &s->halo, &bytes));
    MUST_HOLD(bytes == row_bytes(b));
}

static void halo_release(struct side *s)
{
    if (s->peer >= 0)
        MUST(s->in, rfree(s->in, s->halo));
}

/* Memory of the neighbour, for the row that it will need next. */
static void halo_memory(const struct band *b, struct side *s)
{
    if (s->peer < 0)
        return;
    s->send_row = MUST_HAVE(s->out, rmalloc_mem(s->out, row_bytes(b), &s->sending));
}

/* ---- the run ---- */

static void band_create(struct band *b)
{
    size_t bytes;

    b->n = options.size;
    b->first = heat_band(b->rank, b->n, b->nranks);
    b->rows = heat_band(b->rank + 1, b->n, b->nranks) - b->first;
    bytes = (size_t)b->rows * row_bytes(b);
    b->now = malloc(bytes);
    b->next = malloc(bytes);
    b->rim = calloc((size_t)b->n, sizeof(double));
    MUST_HOLD(b->now != NULL && b->next != NULL && b->rim != NULL);
    for (int y = 0; y < b->rows; y++)
        for (int x = 0; x < b->n; x++)
            row_of(b, b->now, y)[x] = heat_start(b->first + y, x, b->n);

    for (int i = 0; i < SIDES; i++) {
        struct side *s = &b->side[i];

        s->peer = i == UP ? b->rank - 1 : b->rank + 1;
        s->halo_row = b->rim;
        if (s->peer >= b->nranks)
            s->peer = -1;
        if (s->peer < 0)
            continue;
        s->out = open_pipe(s->peer, true, HALO, heap_for(b, 2));
        s->in = open_pipe(s->peer, false, HALO, heap_for(b, 2));
    }
}

/* The rows at the beginning lie in the grid; from then on a row is computed where the neighbour will read it. */
static void send_first_rows(struct band *b)
{
    for (int i = 0; i < SIDES; i++) {
        struct side *s = &b->side[i];

        halo_memory(b, s);
        if (s->peer >= 0)
            memcpy(s->send_row, row_of(b, b->now, i == UP ? 0 : b->rows - 1), row_bytes(b));
        halo_ready(s);
    }
}

static void compute_row(struct band *b, int y, double *also)
{
    const double *above = y > 0 ? row_of(b, b->now, y - 1) : b->side[UP].halo_row;
    const double *below = y + 1 < b->rows ? row_of(b, b->now, y + 1) : b->side[DOWN].halo_row;

    heat_row(row_of(b, b->next, y), also, above, row_of(b, b->now, y), below, b->n);
}

static void step(struct band *b, bool last)
{
    struct side *up = &b->side[UP], *down = &b->side[DOWN];
    double *swap;

    halo_receive(b, up);
    halo_receive(b, down);
    if (!last) {
        halo_memory(b, up);
        halo_memory(b, down);
    }
    compute_row(b, 0, up->send_row);
    if (b->rows > 1)
        compute_row(b, b->rows - 1, down->send_row);
    else if (down->send_row != NULL) /* one row: it is the outermost on both sides */
        memcpy(down->send_row, row_of(b, b->next, 0), row_bytes(b));
    halo_release(up);
    halo_release(down);
    if (!last) {
        halo_ready(up);
        halo_ready(down);
    }

    for (int y = 1; y < b->rows - 1; y++)
        compute_row(b, y, NULL);
    swap = b->now;
    b->now = b->next;
    b->next = swap;
}

static double run(struct band *b)
{
    double began;

    MUST(NULL, network_barrier());
    began = seconds();
    if (options.steps > 0)
        send_first_rows(b);
    for (int i = 1; i <= options.steps; i++) {
        step(b, i == options.steps);
        if (b->rank == 0)
            show_progress(i, began);
    }
    MUST(NULL, network_barrier());
    return seconds() - began;
}

/* ---- the result ---- */

/* Every row as a message to rank 0, which returns the plate. */
static double *gather(struct band *b)
{
    double *plate;

    if (b->rank != 0) {
        rch_t ch = open_pipe(0, true, GATHER, heap_for(b, 16));

        for (int y = 0; y < b->rows; y++) {
            raddr_t d;
            void *mem = MUST_HAVE(ch, rmalloc_mem(ch, row_bytes(b), &d));

            memcpy(mem, row_of(b, b->now, y), row_bytes(b));
            MUST(ch, rwrite(ch, d));
        }
        MUST(ch, rclose(ch));
        return NULL;
    }
    plate = malloc((size_t)b->n * row_bytes(b));
    MUST_HOLD(plate != NULL);
    memcpy(plate, b->now, (size_t)b->rows * row_bytes(b));
    for (int r = 1; r < b->nranks; r++) {
        rch_t ch = open_pipe(r, false, GATHER, heap_for(b, 16));

        for (int y = heat_band(r, b->n, b->nranks); y < heat_band(r + 1, b->n, b->nranks); y++) {
            size_t bytes;
            raddr_t d;
            const void *mem = MUST_HAVE(ch, rread_mem(ch, &d, &bytes));

            MUST_HOLD(bytes == row_bytes(b));
            memcpy(row_of(b, plate, y), mem, bytes);
            MUST(ch, rfree(ch, d));
        }
        MUST(ch, rclose(ch));
    }
    return plate;
}

static uint64_t halo_bytes(const struct band *b)
{
    uint64_t mine = 0, sum = 0, *all = calloc((size_t)b->nranks, sizeof(*all));

    MUST_HOLD(all != NULL);
    for (int i = 0; i < SIDES; i++) {
        rpipe_stats_t st;

        if (b->side[i].peer < 0)
            continue;
        MUST(b->side[i].out, rpipe_stats(b->side[i].out, &st));
        mine += st.bytes;
    }
    MUST(NULL, network_allgather(&mine, sizeof(mine), all));
    for (int r = 0; r < b->nranks; r++)
        sum += all[r];
    free(all);
    return sum;
}

/* 0, or 1 and a sentence about the first cell that differs. */
static int compare(const struct band *b, const double *plate)
{
    double began = seconds(), *alone = heat_serial(b->n, options.steps);
    long cells = (long)b->n * b->n, wrong = 0, first = -1;

    MUST_HOLD(alone != NULL);
    for (long i = 0; i < cells; i++) {
        if (memcmp(&plate[i], &alone[i], sizeof(double)) == 0)
            continue;
        wrong++;
        if (first < 0)
            first = i;
    }
    if (wrong > 0)
        fprintf(stderr,
                "heat2d: WRONG: %ld of %ld cells differ from the run of one process; the first is row %ld, "
                "column %ld: %.17g instead of %.17g\n",
                wrong, cells, first / b->n, first % b->n, plate[first], alone[first]);
    else
        printf("heat2d: right: all %ld cells equal those of one process (%.2f s) bit for bit\n", cells,
               seconds() - began);
    free(alone);
    return wrong > 0;
}

static int draw(const struct band *b, const double *plate)
{
    struct picture p;
    char why[256];
    int code;

    MUST_HOLD(heat_draw(plate, b->n, b->nranks, &p) == 0);
    code = picture_write(&p, options.output, why, sizeof(why));
    if (code == 0)
        printf("heat2d: picture: %s\n", options.output);
    else
        fprintf(stderr, "heat2d: %s\n", why);
    picture_destroy(&p);
    return code != 0 && code != -ENOTSUP;
}

static int report(const struct band *b, const double *plate, double took, uint64_t bytes)
{
    int status = 0;

    printf("heat2d: %d processes, %d x %d cells, %d steps by %s: %.2f s, %.3f ms a step, %.1f MB of halo rows\n",
           b->nranks, b->n, b->n, options.steps, options.op == RDMA_PUT ? "PUT" : "GET", took,
           options.steps > 0 ? took * 1e3 / options.steps : 0.0, (double)bytes / 1e6);
    if (options.check)
        status |= compare(b, plate);
    if (*options.output != '\0')
        status |= draw(b, plate);
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    struct band b = {0};
    double took, *plate;
    uint64_t bytes;
    int status = 0;

    argp_parse(&option_parser, argc, argv, 0, NULL, NULL);
    MUST(NULL, rinit(&b.rank, &b.nranks));
    if (b.nranks > options.size) {
        if (b.rank == 0)
            fprintf(stderr, "heat2d: %d processes cannot share %d rows; give at least one row to each\n", b.nranks,
                    options.size);
        rexit();
        return 2;
    }
    if (options.progress == AUTO)
        options.progress = b.rank == 0 && on_terminal() ? LIVE : LINES;

    band_create(&b);
    took = run(&b);
    bytes = halo_bytes(&b);
    plate = gather(&b);
    if (b.rank == 0)
        status = report(&b, plate, took, bytes);
    for (int i = 0; i < SIDES; i++) {
        if (b.side[i].peer < 0)
            continue;
        MUST(b.side[i].out, rclose(b.side[i].out));
        MUST(b.side[i].in, rclose(b.side[i].in));
    }
    MUST(NULL, rexit());
    free(plate);
    free(b.now);
    free(b.next);
    free(b.rim);
    return status;
}
