/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am_ping.c: the round trip of an active message beside that of a bare pair of channels.
 *
 * Rank 0 sends a request with one argument and a payload to rank 1, whose handler replies with as
 * much; the reply is checked. The same bytes go there and back on two channels, one each way. The
 * two take turns, so that a noisy moment meets both; the median of the rounds counts, and the best.
 * Other ranks only wait at the barrier, and run handlers meanwhile.
 *
 *     mpirun -n 2 am_ping --size 8
 */
#include <rinfo.h>
#include <ram.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "must.h"

#define ROUNDS_MOST 999
#define MUST_AM(call) must_am((call), #call)

static struct {
    uint32_t size, trips, rounds;
} options = {8, 500, 21};

static const struct app_option option_table[] = {
    APP_NUMBER("size", 's', &options.size, 0, 1 << 24, "Bytes of payload of request and reply"),
    APP_NUMBER("trips", 't', &options.trips, 1, 1 << 30, "Round trips in a round"),
    APP_NUMBER("rounds", 'r', &options.rounds, 1, ROUNDS_MOST, "Rounds"),
    APP_END,
};

static const char doc[] =
    "The round trip of an active message beside bare channels.\vRun it as: mpirun -n 2 am_ping.";

static ram_t am;
static uint64_t answered;

static void must_am(int code, const char *call)
{
    if (code >= 0)
        return;
    fprintf(stderr, "rank %u: %s: %s: %s\n", (unsigned)network_rank(), call, rinfo_strerror(code),
            rerror(NULL));
    network_abort(1);
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
    for (uint32_t i = 0; i < options.trips; i++) {
        uint64_t number = i;
        ram_message_t reply;
        ram_request_t r;

        MUST_AM(ram_request(am, 1, 0, &number, 1, payload, options.size, &r, 0));
        MUST_AM(ram_wait(am, r, &reply, 0));
        MUST_HOLD(reply.args[0] == number && reply.bytes == options.size);
        MUST_AM(ram_free(am, &reply));
    }
}

static void pong_am(void)
{
    answered = 0;
    while (answered < options.trips)
        MUST_AM(ram_serve(am, 1, R_FOREVER));
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
    for (uint32_t i = 0; i < options.trips; i++) {
        uint64_t number = i;
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
    for (uint32_t i = 0; i < options.trips; i++) {
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
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = ((uint64_t)options.size + 64) * 8;
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* ---- the rounds ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts them: the best is the first. */
static double median(double *v, uint32_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

/* Seconds of a round trip are the "seconds" of a result, its best ones "communication". */
static void report(double *bare, double *active)
{
    double b = median(bare, options.rounds), a = median(active, options.rounds);

    if (app_options.json) {
        struct app_result with = {"am_ping", "rpipe am", 2, a, active[0], 0, 1, "round trips", 0};
        struct app_result without = {
            "am_ping bare", "rpipe put", 2, b, bare[0], 0, 1, "round trips", 0};

        app_result_print(&with);
        app_result_print(&without);
        return;
    }
    printf("%u bytes, %u rounds of %u round trips:      median       best\n", options.size,
           options.rounds, options.trips);
    printf("  bare channels   %30.1f ns %7.1f ns\n", b * 1e9, bare[0] * 1e9);
    printf("  active messages %30.1f ns %7.1f ns\n", a * 1e9, active[0] * 1e9);
    printf("  ratio           %33.2f %10.2f\n", a / b, active[0] / bare[0]);
}

static void measure(int rank)
{
    static double bare[ROUNDS_MOST], active[ROUNDS_MOST];
    rch_t out = channel(1 - rank, 1), in = channel(1 - rank, 0);
    char *payload = calloc(1, (size_t)options.size + 1);

    MUST_HOLD(payload != NULL);
    for (uint32_t round = 0; round <= options.rounds;
         round++) { /* the first is for warming up: the next is put over it */
        uint32_t at = round > 0 ? round - 1 : 0;
        double begin = app_seconds(), middle;

        if (rank == 0)
            ping_bare(out, in, payload);
        else
            pong_bare(out, in);
        middle = app_seconds();
        if (rank == 0)
            ping_am(payload);
        else
            pong_am();
        bare[at] = (middle - begin) / options.trips;
        active[at] = (app_seconds() - middle) / options.trips;
    }
    if (rank == 0)
        report(bare, active);
    free(payload);
    MUST(out, rclose(out));
    MUST(in, rclose(in));
}

int main(int argc, char **argv)
{
    const ram_handler_t handler = {"echo", echo, NULL};
    ram_config_t cfg = {0};
    int rank, nranks;

    app_parse(doc, option_table, argc, argv);
    MUST(NULL, rinit(&rank, &nranks));
    if (nranks < 2) {
        fprintf(stderr, "am_ping needs 2 processes: mpirun -n 2 am_ping\n");
        network_abort(1);
    }
    cfg.handlers = &handler;
    cfg.nhandlers = 1;
    cfg.request_bytes = ((uint64_t)options.size + 64) * 8 + (16 << 10);
    cfg.reply_bytes = options.size + 8 < 256 ? 256 : options.size + 8;
    MUST_AM(ram_init(&am, &cfg));
    if (rank < 2)
        measure(rank);
    MUST_AM(ram_barrier(am));
    MUST_AM(ram_exit(am));
    MUST(NULL, rexit());
    return 0;
}
