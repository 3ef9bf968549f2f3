/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_pool.c: an allocator for memory that this process cannot touch.
 *
 * A device with memory of its own (device_sim.h) runs jobs: copy a buffer in, let a kernel make
 * another one of it, copy that out. The host chooses the addresses of the buffers with rvmem(3),
 * which keeps nothing in the memory that it manages, so the memory need not be mapped. Here it is
 * reserved without access: a single load or store there would be a SIGSEGV.
 *
 * Buffers are of all sizes, and are freed as commands complete, which is not the order of their
 * allocation. One result in 16 stays on the device for long. When memory is short the host waits
 * for the oldest command and tries again. A request that has waited for many commands adds a second
 * range, once (rvmem_grow). When no command is in flight any more, the host evicts the results that
 * stay, the oldest first.
 *
 * The device checks that every command finds the data that it expects. The host checks that the
 * allocator's list of blocks equals its own (rvmem_walk). There is no pipe, no rinit and no
 * launcher in it.
 *
 *     device_pool                     the same jobs with each heuristic, and a table
 *     device_pool --fit best --dump   one of them, and every block at the end
 */
#include <argp.h>
#include <errno.h>
#include <rinfo.h>
#include <rvmem.h>
#include <rmalloc.h>
#include <string.h>
#include <unistd.h>

#include "device_sim.h"

#define MIB (UINT64_C(1) << 20)
#define FITS 6
#define STAYING 48 /* results that stay on the device at a time */
#define MAP_CELLS 96

static const char *const fit_name[FITS] = {"next-fit",  "first-fit",  "best-fit",
                                           "worst-fit", "random-fit", "segregated-fit"};

static struct {
    int fit; /* FITS: all */
    uint64_t jobs, memory, more, patience, seed;
    bool dump;
} options = {FITS, 20000, 64, 64, 32, 1, false};

struct buffer {
    raddr_t d;
    struct span at;
    struct buffer *prev, *next; /* those that are allocated, by age */
};

struct pool {
    struct device *dev;
    rvmem_t vmem;
    struct buffer *oldest, *newest;
    struct buffer *staying[STAYING]; /* a ring of results */
    uint64_t stays, left;            /* how many have come, and gone */
    uint64_t random;
    uint32_t ids;
    uint64_t live, asked;      /* buffers now; bytes that they asked for */
    uint64_t byte_time, since; /* bytes asked for, times ns, up to `since` */
    uint64_t memory_time;      /* bytes of the ranges, times ns */
    uint64_t range_bytes;
    uint64_t frees, disorderly; /* of them, while an older buffer was allocated */
    uint64_t waited;            /* requests that found no block */
    uint64_t fragmented;        /* of them, those with enough free memory, but not in one block */
    uint64_t evicted;           /* results that had to leave early */
    uint64_t job, grown_at, peak;
};

struct job {
    struct pool *p;
    struct buffer *in, *out;
    bool stays;
};

/* ---- memory ---- */

static void account(struct pool *p)
{
    uint64_t ns = p->dev->now - p->since;

    p->byte_time += p->asked * (ns / 1000);
    p->memory_time += p->range_bytes * (ns / 1000);
    p->since += ns / 1000 * 1000;
}

static void buffer_free(struct pool *p, struct buffer *b)
{
    account(p);
    p->frees++;
    p->disorderly += b->prev != NULL;
    if (b->prev != NULL)
        b->prev->next = b->next;
    else
        p->oldest = b->next;
    if (b->next != NULL)
        b->next->prev = b->prev;
    else
        p->newest = b->prev;
    p->live--;
    p->asked -= b->at.bytes;
    HOLDS(rvmem_free(p->vmem, b->d) == R_SUCCESS);
    free(b);
}

/*
 * A result leaves the device: it is still there, whole, and
 * its memory is free when it has been copied out.
 */
static void gone(void *arg)
{
    struct job *j = arg;

    buffer_free(j->p, j->out);
    free(j);
}

static void submit(struct pool *p, int stream, const struct command *c)
{
    while (!device_submit(p->dev, stream, c))
        HOLDS(device_wait_oldest(p->dev));
}

static struct job *job_new(struct pool *p, struct buffer *in, struct buffer *out, bool stays)
{
    struct job *j = malloc(sizeof(*j));

    HOLDS(j != NULL);
    *j = (struct job){p, in, out, stays};
    return j;
}

static void let_go(struct pool *p)
{
    struct buffer *b = p->staying[p->left++ % STAYING];
    int stream = (int)random_below(&p->random, DEVICE_STREAMS);

    submit(p, stream,
           &(struct command){
               .kind = COPY_OUT, .from = b->at, .done = gone, .arg = job_new(p, NULL, b, false)});
}

static void grow(struct pool *p)
{
    uint64_t bytes = options.more * MIB;

    account(p);
    HOLDS(rvmem_grow(p->vmem, device_add_range(p->dev, bytes), bytes) == R_SUCCESS);
    p->range_bytes += bytes;
    p->grown_at = p->job;
}

/* A device address, and nothing but an address: only commands of the device mean what is there. */
static struct buffer *buffer_new(struct pool *p, size_t bytes)
{
    struct buffer *b = malloc(sizeof(*b));
    uint64_t waits = 0;
    rvmem_stats_t st;

    HOLDS(b != NULL);
    while ((b->d = rvmem_alloc(p->vmem, bytes)) == ADDR_NULL) {
        HOLDS(errno == ENOMEM); /* no request is larger than a range */
        if (waits++ == 0) {
            HOLDS(rvmem_stats(p->vmem, &st) == R_SUCCESS && st.largest < bytes);
            p->waited++;
            p->fragmented += st.bytes_free + st.bytes_stuck >= bytes;
        }
        if (waits > options.patience && options.more > 0 && p->grown_at == 0) {
            grow(p);
        } else if (!device_wait_oldest(p->dev)) {
            HOLDS(p->left < p->stays); /* else the request fails although nothing is allocated */
            p->evicted++;
            let_go(p);
        }
    }
    b->at = (struct span){(uintptr_t)rvmem_mem(p->vmem, b->d), bytes, ++p->ids};
    b->prev = p->newest;
    b->next = NULL;
    if (p->newest != NULL)
        p->newest->next = b;
    else
        p->oldest = b;
    p->newest = b;
    account(p);
    p->live++;
    p->asked += bytes;
    return b;
}

/* ---- jobs ---- */

static void kernel_done(void *arg)
{
    struct job *j = arg;

    buffer_free(j->p, j->in);
}

static void job_done(void *arg)
{
    struct job *j = arg;
    struct pool *p = j->p;

    if (!j->stays || p->stays - p->left == STAYING) {
        gone(j);
        return;
    }
    p->staying[p->stays++ % STAYING] = j->out;
    free(j);
}

/*
 * 1 KiB to 8 MiB, each power of two as often as any other;
 * no more than an eighth of the first range.
 */
static size_t some_size(struct pool *p)
{
    size_t bytes = (size_t)1024 << random_below(&p->random, 13),
           most = (size_t)(options.memory * MIB / 8);

    bytes += random_below(&p->random, bytes);
    return bytes < most ? bytes : most;
}

static void start_job(struct pool *p)
{
    size_t bytes = some_size(p);
    struct buffer *in = buffer_new(p, bytes),
                  *out = buffer_new(p, 1 + bytes / (1 + random_below(&p->random, 4)));
    struct job *j = job_new(p, in, out, random_below(&p->random, 16) == 0);
    int stream = (int)random_below(&p->random, DEVICE_STREAMS);

    if (j->stays && p->stays - p->left == STAYING)
        let_go(p);
    submit(p, stream, &(struct command){.kind = COPY_IN, .to = in->at});
    submit(p, stream, &(struct command){KERNEL, in->at, out->at, kernel_done, j, 0, 0});
    submit(p, stream,
           &(struct command){.kind = COPY_OUT, .from = out->at, .done = job_done, .arg = j});
}

/* ---- the allocator's account against ours ---- */

struct walk {
    const struct pool *p;
    uint64_t end, used, unused, live, asked, free_blocks; /* of the blocks visited */
    uint64_t per_cell;
    uint64_t cell[DEVICE_RANGES][MAP_CELLS]; /* bytes in use */
};

static uint64_t segment_begin(const struct device *dev, uint32_t segment)
{
    return segment == 0 ? 0 : dev->range[0].bytes; /* whole units */
}

static int visit(const rvmem_block_t *b, void *arg)
{
    struct walk *w = arg;
    const struct device *dev = w->p->dev;
    uint64_t begin, part, cell;

    if (b->offset != w->end || b->bytes == 0 || b->segment >= (uint32_t)dev->ranges)
        return 1;
    begin = b->offset - segment_begin(dev, b->segment);
    if (begin + b->bytes > dev->range[b->segment].bytes)
        return 1;
    w->end += b->bytes;
    if (b->state != RVMEM_USED) {
        w->unused += b->bytes;
        w->free_blocks++;
        return 0;
    }
    if (rvmem_mem(w->p->vmem, b->d) != (char *)dev->range[b->segment].base + begin ||
        rvmem_size(w->p->vmem, b->d) != b->size)
        return 2;
    w->used += b->bytes;
    w->asked += b->size;
    w->live++;
    for (uint64_t at = begin; at < begin + b->bytes; at += part) {
        cell = at / w->per_cell;
        part = (cell + 1) * w->per_cell - at;
        part = part < begin + b->bytes - at ? part : begin + b->bytes - at;
        w->cell[b->segment][cell] += part;
    }
    return 0;
}

static void compare_accounts(struct pool *p, struct walk *w)
{
    rvmem_stats_t st;
    uint64_t most = options.memory > options.more ? options.memory : options.more;

    *w = (struct walk){.p = p, .per_cell = most * MIB / MAP_CELLS + 1};
    HOLDS(rvmem_check(p->vmem) == R_SUCCESS);
    HOLDS(rvmem_walk(p->vmem, visit, w) == 0);
    HOLDS(rvmem_stats(p->vmem, &st) == R_SUCCESS);
    HOLDS(w->end == p->range_bytes && st.bytes == p->range_bytes &&
          (int)st.segments == p->dev->ranges);
    HOLDS(w->used == st.bytes_used && w->unused == st.bytes_free + st.bytes_stuck &&
          w->free_blocks == st.blocks_free);
    HOLDS(w->live == p->live && w->live == st.blocks_used && w->asked == p->asked);
    p->peak = st.peak;
}

/* ---- a run ---- */

static void show_progress(const struct pool *p, int fit)
{
    if (p->job % 256 == 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "\rdevice_pool: %s, job %llu of %llu ", fit_name[fit],
                (unsigned long long)p->job, (unsigned long long)options.jobs);
    if (p->job == options.jobs && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%60s\r", "");
}

static void print_map(const struct walk *w)
{
    for (int s = 0; s < w->p->dev->ranges; s++) {
        uint64_t cells = (w->p->dev->range[s].bytes + w->per_cell - 1) / w->per_cell;

        printf("  |");
        for (uint64_t i = 0; i < cells; i++)
            putchar(" .:+#"[(w->cell[s][i] * 4 + w->per_cell / 2) / w->per_cell]);
        printf("|\n");
    }
}

static void print_head(void)
{
    printf("%llu jobs, %llu MiB of device memory%s, seed %llu\n", (unsigned long long)options.jobs,
           (unsigned long long)options.memory,
           options.more > 0 ? ", and more when that is not enough" : "",
           (unsigned long long)options.seed);
    printf("%-12s %9s %8s %9s %7s %10s %9s %8s %9s %9s\n", "heuristic", "time/ms", "occupied",
           "disorder", "waited", "fragmented", "evicted", "grown at", "peak/MiB", "metadata");
}

static void print_row(const struct pool *p, int fit, const rvmem_stats_t *st)
{
    char grown[24] = "-";

    if (p->grown_at > 0)
        snprintf(grown, sizeof(grown), "%llu", (unsigned long long)p->grown_at);
    printf("%-12s %9.1f %7.1f%% %8.1f%% %7llu %10llu %9llu %8s %9.1f %5llu KiB\n", fit_name[fit],
           (double)p->dev->now * 1e-6, 100.0 * (double)p->byte_time / (double)(p->memory_time + 1),
           100.0 * (double)p->disorderly / (double)p->frees, (unsigned long long)p->waited,
           (unsigned long long)p->fragmented, (unsigned long long)p->evicted, grown,
           (double)p->peak / (double)MIB, (unsigned long long)(st->metadata / 1024));
}

/* Nothing is allocated: every range is one free block again, and can be allocated as one. */
static void expect_empty(struct pool *p)
{
    uint64_t most = p->dev->range[0].bytes;
    struct walk w;
    raddr_t d;

    compare_accounts(p, &w);
    HOLDS(w.live == 0 && w.free_blocks == (uint64_t)p->dev->ranges);
    if (p->dev->ranges > 1 && p->dev->range[1].bytes > most)
        most = p->dev->range[1].bytes;
    d = rvmem_alloc(p->vmem, most);
    HOLDS(d != ADDR_NULL && rvmem_free(p->vmem, d) == R_SUCCESS);
    HOLDS(rvmem_alloc(p->vmem, most + 1) == ADDR_NULL && errno == EMSGSIZE);
}

static void run(int fit)
{
    rvmem_config_t cfg = {0};
    struct pool pool = {.random = options.seed, .range_bytes = options.memory * MIB}, *p = &pool;
    rvmem_stats_t st;
    struct walk w;

    p->dev = device_open(options.seed);
    cfg.heuristic = (rmalloc_fit_t)(RMALLOC_NEXT_FIT + fit);
    cfg.unit_bytes = DEVICE_UNIT;
    cfg.buffer = device_add_range(p->dev, p->range_bytes);
    cfg.bytes = p->range_bytes;
    cfg.seed = options.seed;
    HOLDS(rvmem_create(&p->vmem, &cfg) == R_SUCCESS);
    while (p->job++ < options.jobs) {
        start_job(p);
        show_progress(p, fit);
        if (p->job % 500 == 0)
            compare_accounts(p, &w);
    }
    compare_accounts(p, &w);
    HOLDS(rvmem_stats(p->vmem, &st) == R_SUCCESS);
    if (options.dump)
        HOLDS(rvmem_dump(p->vmem, stdout) == R_SUCCESS);

    while (device_step(p->dev) || p->left < p->stays)
        if (p->left < p->stays)
            let_go(p);
    print_row(p, fit, &st);
    print_map(&w);
    expect_empty(p);
    HOLDS(device_untouched(p->dev));
    HOLDS(rvmem_destroy(p->vmem) == R_SUCCESS);
    device_close(p->dev);
}

/* ---- options ---- */

static uint64_t number(struct argp_state *state, const char *arg, uint64_t least, uint64_t most)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(arg, &end, 10);
    if (errno != 0 || *arg < '0' || *arg > '9' || *end != '\0' || value < least || value > most)
        argp_error(state, "\"%s\" must be a number from %llu to %llu", arg,
                   (unsigned long long)least, (unsigned long long)most);
    return value;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'f':
        for (options.fit = 0; options.fit < FITS; options.fit++)
            if (strncmp(arg, fit_name[options.fit], strlen(arg)) == 0 &&
                fit_name[options.fit][strlen(arg)] == '-')
                break;
        if (options.fit == FITS && strcmp(arg, "all") != 0)
            argp_error(
                state,
                "--fit is \"%s\"; it must be next, first, best, worst, random, segregated or all",
                arg);
        return 0;
    case 'n':
        options.jobs = number(state, arg, 1, 100000000);
        return 0;
    case 'm':
        options.memory = number(state, arg, 4, 65536);
        return 0;
    case 'g':
        options.more = number(state, arg, 0, 65536);
        return 0;
    case 'w':
        options.patience = number(state, arg, 0, 1000000);
        return 0;
    case 's':
        options.seed = number(state, arg, 1, UINT64_MAX / 2 - 1);
        return 0;
    case 'd':
        options.dump = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"fit", 'f', "NAME", 0,
     "next, first, best, worst, random or segregated; all: one after the other (all)", 0},
    {"jobs", 'n', "N", 0, "Jobs of the device (20000)", 0},
    {"memory", 'm', "MIB", 0, "Size of the first range (64)", 0},
    {"more", 'g', "MIB", 0, "Size of the second range; 0: there is none (64)", 0},
    {"patience", 'w', "N", 0, "Commands that a request waits for before the memory grows (32)", 0},
    {"seed", 's', "N", 0, "Of the jobs, the device and random-fit (1)", 0},
    {"dump", 'd', NULL, 0, "Print every block when the last job has been submitted", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp option_parser = {
    option_table,
    parse_option,
    NULL,
    "Manages the memory of a simulated device, which this process cannot touch.\v"
    "time: of the device, simulated. occupied: of the memory, on the average of that time. "
    "disorder: buffers freed before an older one. "
    "waited: requests that found no block at first; fragmented: of them, those with enough free "
    "memory, but not in one block. evicted: results that left early. grown at: number of the job. "
    "A line of the map is a range when "
    "the last job has been submitted: # is in use, a space is free.\n\n"
    "The exit status is 0 if every command found the data that it expected, and the allocator's "
    "list of blocks was right to the end.",
    NULL,
    NULL,
    NULL};

int main(int argc, char **argv)
{
    argp_parse(&option_parser, argc, argv, 0, NULL, NULL);
    print_head();
    for (int fit = 0; fit < FITS; fit++)
        if (options.fit == FITS || options.fit == fit)
            run(fit);
    printf("every command found the data that it expected; no page of the memory was touched\n");
    return fflush(stdout) == 0 ? 0 : 1;
}
