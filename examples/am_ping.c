/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am_ping.c: the round trip of an active message beside that of a bare pair of channels.
 *
 * Rank 0 sends a request with one argument and a payload to rank 1, whose handler replies with as much; the reply is checked.
 * The same bytes go there and back on two channels, one each way. The two take turns, so that a noisy moment meets both; the
 * median of the rounds counts. Other ranks only wait at the barrier, and run handlers meanwhile.
 *
 *     mpirun -n 2 am_ping --size 8
 */
#include <argp.h>
#include <ram.h>
#include <rpipe.h>
#include <string.h>
#include <time.h>

#include "must.h"

#define ROUNDS_MOST 999
#define MUST_AM(call) must_am((call), #call)

static struct {
    size_t size;
    int trips, rounds;
} options = {8, 500, 21};

static ram_t am;
static uint64_t answered;

static void must_am(int code, const char *call)
{
    if (code >= 0)
        return;
    fprintf(stderr, "rank %u: %s: %s: %s\n", (unsigned)network_rank(), call, rstrerror(code), ram_error(am));
    network_abort(1);
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- active messages ---- */

static void echo(ram_t context, ram_message_t *m, void *arg)
{
    (void)arg;
    MUST_AM(ram_reply(context, m, RAM_RESULT, m->args, m->nargs, m->data, m->bytes));
    answered++;
}

static void ping_am(char *payload)
{
    for (int i = 0; i < options.trips; i++) {
        uint64_t number = (uint64_t)i;
        ram_message_t reply;
        ram_request_t r;

        MUST_AM(ram_request(am, 1, 0, &number, 1, payload, options.size, &r));
        MUST_AM(ram_wait(am, r, &reply));
        MUST_HOLD(reply.args[0] == number && reply.bytes == options.size);
        MUST_AM(ram_free(am, &reply));
    }
}

static void pong_am(void)
{
    answered = 0;
    while (answered < (uint64_t)options.trips)
        MUST_AM(ram_serve(am, 1, -1));
}

/* ---- bare channels: the same bytes, an 8-byte number included ---- */

static void bare_write(rch_t out, uint64_t number, const char *payload)
{
    raddr_t d = rmalloc(out, options.size + sizeof(number));
    char *mem = MUST_HAVE(out, rmem(out, d));

    memcpy(mem, payload, options.size);
    memcpy(mem + options.size, &number, sizeof(number));
    MUST(out, rwrite(out, d));
}

static void ping_bare(rch_t out, rch_t in, char *payload)
{
    for (int i = 0; i < options.trips; i++) {
        uint64_t number = (uint64_t)i;
        raddr_t d;
        size_t size;

        bare_write(out, number, payload);
        MUST(in, rread(in, &d, &size));
        MUST_HOLD(size == options.size + sizeof(number));
        MUST_HOLD(memcmp((char *)rmem(in, d) + options.size, &number, sizeof(number)) == 0);
        MUST(in, rfree(in, d));
    }
}

static void pong_bare(rch_t out, rch_t in)
{
    for (int i = 0; i < options.trips; i++) {
        uint64_t number;
        raddr_t d;
        const char *mem;

        MUST(in, rread(in, &d, NULL));
        mem = rmem(in, d);
        memcpy(&number, mem + options.size, sizeof(number));
        bare_write(out, number, mem);
        MUST(in, rfree(in, d));
    }
}

static rch_t channel(int peer, int writer)
{
    rmalloc_config_t cfg = RMALLOC_CONFIG_DEFAULT;
    rch_t ch;

    cfg.allocator.peer = peer;
    cfg.allocator.rdma_active = writer;
    cfg.allocator.alloc_size = (options.size + 64) * 8;
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* ---- the rounds ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return v[n / 2];
}

static void measure(int rank)
{
    static double bare[ROUNDS_MOST], active[ROUNDS_MOST];
    rch_t out = channel(1 - rank, 1), in = channel(1 - rank, 0);
    char *payload = calloc(1, options.size + 1);

    MUST_HOLD(payload != NULL);
    for (int round = -1; round < options.rounds; round++) { /* the first is for warming up */
        int at = round < 0 ? 0 : round;
        double begin = now_ns(), middle;

        if (rank == 0)
            ping_bare(out, in, payload);
        else
            pong_bare(out, in);
        middle = now_ns();
        if (rank == 0)
            ping_am(payload);
        else
            pong_am();
        bare[at] = (middle - begin) / options.trips;
        active[at] = (now_ns() - middle) / options.trips;
    }
    if (rank == 0) {
        double b = median(bare, options.rounds), a = median(active, options.rounds);

        printf("%zu bytes, %d rounds of %d round trips, medians:\n", options.size, options.rounds, options.trips);
        printf("  bare channels    %10.1f ns\n", b);
        printf("  active messages  %10.1f ns\n", a);
        printf("  ratio            %10.2f\n", a / b);
    }
    free(payload);
    MUST(out, rclose(out));
    MUST(in, rclose(in));
}

/* ---- options ---- */

static error_t parse(int key, char *text, struct argp_state *state)
{
    char *end = text;
    long number = text != NULL ? strtol(text, &end, 0) : 0;

    if (key == ARGP_KEY_ARG)
        argp_usage(state);
    if (key != 's' && key != 't' && key != 'r')
        return ARGP_ERR_UNKNOWN;
    if (*end != '\0' || number < (key == 's' ? 0 : 1) || number > (key == 'r' ? ROUNDS_MOST : 1 << 30))
        argp_error(state, "\"%s\" cannot be", text);
    if (key == 's')
        options.size = (size_t)number;
    else if (key == 't')
        options.trips = (int)number;
    else
        options.rounds = (int)number;
    return 0;
}

static const struct argp_option known[] = {{"size", 's', "BYTES", 0, "payload of request and reply; default 8", 0},
                                           {"trips", 't', "N", 0, "round trips in a round; default 500", 0},
                                           {"rounds", 'r', "N", 0, "rounds; default 21", 0},
                                           {0}};
static const struct argp argp = {known, parse, NULL, "The round trip of an active message beside bare channels.",
                                 NULL,  NULL,  NULL};

int main(int argc, char **argv)
{
    const ram_handler_t handler = {"echo", echo, NULL};
    ram_config_t cfg = RAM_CONFIG_DEFAULT;
    int rank, nranks;

    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    MUST(NULL, rinit(&rank, &nranks));
    if (nranks < 2) {
        fprintf(stderr, "am_ping needs 2 processes: mpirun -n 2 am_ping\n");
        network_abort(1);
    }
    cfg.handlers = &handler;
    cfg.nhandlers = 1;
    cfg.request_bytes = (options.size + 64) * 8 + (16 << 10);
    cfg.reply_bytes = options.size + 8 < 256 ? 256 : (uint32_t)options.size + 8;
    MUST_AM(ram_init(&am, &cfg));
    if (rank < 2)
        measure(rank);
    MUST_AM(ram_barrier(am));
    MUST_AM(ram_exit(am));
    MUST(NULL, rexit());
    return 0;
}
