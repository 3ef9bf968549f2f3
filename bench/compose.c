/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compose: what a pipe made of pipes costs: messages per second of one plain pipe, of a redux of
 * all writers, and of a scatter to all readers; and of one writer whose messages go to all others,
 * by a pipe to each and by a cast. In turns in one run, with their ratios: of the medians, and of the
 * best rounds.
 *
 *     mpirun -n 4 compose [BYTES [MESSAGES [ROUNDS [--json]]]]
 *
 * The plain pipe is from rank 1 to rank 0; the redux from ranks 1, 2 ... to rank 0, with as many
 * messages altogether; the scatter from rank 0 to them. Time is the reader's, or for a writer to
 * many the writer's until all have confirmed their last one. What goes to all is filled and read,
 * every byte of it.
 */
#include <rcast.h>
#include <rinfo.h>
#include <rpipe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MOST 101

enum what { PIPE, REDUX, SCATTER, PIPES, CAST, WHATS };

static int rank, ranks;
static size_t bytes = 8;
static long messages = 1000000, rounds = 9;

static void must(int rc, const char *what)
{
    if (rc == R_SUCCESS)
        return;
    fprintf(stderr, "compose: rank %d: %s: %s; %s\n", rank, what, rinfo_strerror(rc), rerror(NULL));
    network_abort(1);
}
#define MUST(call) must((call), #call)

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static rpipe_config_t config(uint32_t ctx, int peer, bool writer)
{
    rpipe_config_t cfg = {0};

    cfg.op = RPIPE_PUT;
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = (bytes + 64) * 128;
    cfg.context = ctx;
    return cfg;
}

static void write_messages(rch_t ch, long n)
{
    for (long i = 0; i < n; i++) {
        raddr_t d = rmalloc(ch, bytes);

        if (d == ADDR_NULL)
            must(-errno, "rmalloc");
        if (bytes >= sizeof(i))
            memcpy(rmem(ch, d), &i, sizeof(i));
        MUST(rwrite(ch, d));
    }
}

static void read_messages(rch_t ch, long n)
{
    raddr_t d;

    for (long i = 0; i < n; i++) {
        MUST(rread(ch, &d, NULL));
        MUST(rfree(ch, d));
    }
}

struct ends {
    rch_t pipe, up, down; /* up: to the redux; down: from the scatter */
    rgroup_t redux;
    rch_t *part; /* of the redux: they stay the same */
    rgroup_t scatter;
    rcast_t cast;
    unsigned char *content; /* of what goes to all */
};

static void open_all(struct ends *e, const int *others)
{
    rpipe_config_t cfg = config(0, 1 - rank, rank == 1);
    rcast_config_t cast = {.heap_bytes = cfg.heap_bytes};

    if (rank <= 1)
        MUST(rpipe(&e->pipe, &cfg));
    cfg = config(1, 0, rank != 0);
    if (rank == 0)
        MUST(rgroup_open(&e->redux, &cfg, others, ranks - 1));
    else
        MUST(rpipe(&e->up, &cfg));
    MUST(rcast_open(&e->cast, &cast, NULL, ranks));
    e->content = malloc(bytes + 1);
    if (e->content == NULL)
        must(-ENOMEM, "malloc");
    memset(e->content, rank, bytes);
    cfg = config(2, 0, rank == 0);
    if (rank == 0)
        MUST(rgroup_open(&e->scatter, &cfg, others, ranks - 1));
    else
        MUST(rpipe(&e->down, &cfg));
}

static void read_redux(const struct ends *e)
{
    raddr_t d;
    int place;

    for (long i = 0; i < messages; i++) {
        MUST(rgroup_read(e->redux, &place, &d, NULL, 0));
        MUST(rfree(e->part[place], d));
    }
}

static void write_scatter(const struct ends *e)
{
    raddr_t d;
    int place;

    for (long i = 0; i < messages; i++) {
        MUST(rgroup_alloc(e->scatter, RGROUP_NEXT, bytes, &place, &d, 0));
        if (bytes >= sizeof(i))
            memcpy(rmem(rgroup_pipe(e->scatter, place), d), &i, sizeof(i));
        MUST(rwrite(rgroup_pipe(e->scatter, place), d));
    }
}

/* ---- one to all ---- */

static uint64_t total; /* of the bytes that were read */

static void use(const void *mem, size_t n)
{
    const unsigned char *p = mem;
    uint64_t word, sum = 0;
    size_t i = 0;

    for (; i + sizeof(word) <= n; i += sizeof(word)) {
        memcpy(&word, p + i, sizeof(word));
        sum += word;
    }
    for (; i < n; i++)
        sum += p[i];
    total += sum;
}

static void write_pipes(const struct ends *e)
{
    for (long i = 0; i < messages; i++)
        for (int k = 0; k + 1 < ranks; k++) {
            rch_t ch = rgroup_pipe(e->scatter, k);
            raddr_t d = rmalloc(ch, bytes);

            if (d == ADDR_NULL)
                must(-errno, "rmalloc");
            memcpy(rmem(ch, d), e->content, bytes);
            MUST(rwrite(ch, d));
        }
}

static void read_pipe(const struct ends *e)
{
    raddr_t d;

    for (long i = 0; i < messages; i++) {
        MUST(rread(e->down, &d, NULL));
        use(rmem(e->down, d), bytes);
        MUST(rfree(e->down, d));
    }
}

static void write_cast(const struct ends *e)
{
    void *mem;

    for (long i = 0; i < messages; i++) {
        MUST(rcast_alloc(e->cast, bytes, &mem, 0));
        memcpy(mem, e->content, bytes);
        MUST(rcast_write(e->cast, mem, bytes, 0));
    }
}

static void read_cast(const struct ends *e)
{
    const void *mem;
    size_t size;

    for (long i = 0; i < messages; i++) {
        MUST(rcast_read(e->cast, &mem, &size, 0));
        use(mem, size);
        MUST(rcast_free(e->cast, mem));
    }
}

static void to_all(const struct ends *e, enum what what)
{
    if (what == PIPES && rank == 0)
        write_pipes(e);
    else if (what == PIPES)
        read_pipe(e);
    else if (rank == 0)
        write_cast(e);
    else
        read_cast(e);
}

/* messages per second, at rank 0 */
static double measure(const struct ends *e, enum what what)
{
    double begun;

    MUST(network_barrier());
    begun = now();
    if (what == PIPE && rank == 0)
        read_messages(e->pipe, messages);
    else if (what == PIPE && rank == 1)
        write_messages(e->pipe, messages);
    else if (what == REDUX && rank == 0)
        read_redux(e);
    else if (what == REDUX)
        write_messages(e->up, messages / (ranks - 1));
    else if (what == SCATTER && rank == 0)
        write_scatter(e);
    else if (what == SCATTER)
        read_messages(e->down, messages / (ranks - 1));
    else if (what == PIPES || what == CAST)
        to_all(e, what);
    if (what >= SCATTER)
        MUST(network_barrier());
    return (double)messages / (now() - begun);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static double rate[WHATS][ROUNDS_MOST];
    static const char *const name[] = {"one plain pipe", "redux", "scatter, in turn",
                                       "a pipe to each", "cast"};
    const bool json = argc > 4 && strcmp(argv[4], "--json") == 0;
    struct ends e = {0};
    int *others;

    bytes = argc > 1 ? (size_t)strtoul(argv[1], NULL, 0) : bytes;
    messages = argc > 2 ? strtol(argv[2], NULL, 0) : messages;
    rounds = argc > 3 ? strtol(argv[3], NULL, 0) : rounds;
    MUST(rinit(&rank, &ranks));
    if (ranks < 2 || messages < 1 || rounds < 1 || rounds > ROUNDS_MOST) {
        fprintf(stderr,
                "compose: requires 2 processes or more, 1 message or more, 1 to %d rounds\n",
                ROUNDS_MOST);
        network_abort(1);
    }
    messages += (ranks - 1 - messages % (ranks - 1)) % (ranks - 1); /* the same for all */
    others = malloc((size_t)ranks * sizeof(*others));
    if (others == NULL)
        must(-ENOMEM, "malloc");
    for (int i = 0; i + 1 < ranks; i++)
        others[i] = i + 1;
    e.part = malloc((size_t)ranks * sizeof(*e.part));
    if (e.part == NULL)
        must(-ENOMEM, "malloc");
    open_all(&e, others);
    for (int i = 0; rank == 0 && i + 1 < ranks; i++)
        e.part[i] = rgroup_pipe(e.redux, i);
    for (long r = -1; r < rounds; r++) /* the first one warms up */
        for (enum what what = PIPE; what < WHATS; what++)
            rate[what][r < 0 ? 0 : r] = measure(&e, what);
    for (enum what what = PIPE; rank == 0 && what < WHATS; what++)
        qsort(rate[what], (size_t)rounds, sizeof(double), ascending);
    if (rank == 0 && json) {
        for (enum what what = PIPE; what < WHATS; what++) /* a line as those of the applications */
            printf("{\"app\": \"%s\", \"by\": \"rpipe\", \"ranks\": %d, \"seconds\": %.9f, "
                   "\"communication\": -1, "
                   "\"work\": %ld, "
                   "\"unit\": \"messages\", \"digest\": \"\"}\n",
                   name[what], ranks, (double)messages / rate[what][rounds / 2], messages);
    } else if (rank == 0) {
        printf("%d writers or readers, %zu bytes, %ld messages; median of %ld rounds, and best\n",
               ranks - 1, bytes, messages, rounds);
        for (enum what what = PIPE; what < WHATS; what++)
            printf("%-18s %8.3f %8.3f M messages/s   ratio to the pipe %.2f %.2f\n", name[what],
                   rate[what][rounds / 2] / 1e6, rate[what][rounds - 1] / 1e6,
                   rate[what][rounds / 2] / rate[PIPE][rounds / 2],
                   rate[what][rounds - 1] / rate[PIPE][rounds - 1]);
    }
    if (rank > 0 && total == 1)
        printf("\n"); /* the sums are used */
    MUST(rcast_close(e.cast));
    free(others);
    free(e.part);
    free(e.content);
    MUST(rexit());
    return 0;
}
