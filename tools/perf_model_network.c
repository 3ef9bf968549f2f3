/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_model_network.c: the parameters of the cost model between hosts, by pipes: what a message costs its sender (o), the time between two
 * of a stream (g), a byte of a stream of long ones (G), and the rest of the time one way (Ln); by casts the rest of that (Lm). See
 * perf_model.c.
 */
#include "perf_model.h"

#include <rcast.h>
#include <stdio.h>

#define TURNS 1000
#define BLOCK 65536

static struct {
    int rank, rounds;
} between;

static void between_must(int code, rch_t ch)
{
    if (code != 0)
        perf_fail(ch, "message", code);
}

static double between_median(double (*round)(void))
{
    return perf_model_median(between.rounds, round);
}

static struct perf_link between_link;

static void between_send(size_t bytes)
{
    between_must(rsend(between_link.out, between_link.buffer, bytes, 0), between_link.out);
}

static void between_receive(void)
{
    between_must(rrecv(between_link.in, between_link.buffer, BLOCK, NULL, 0), between_link.in);
}

static double between_one_way(void)
{
    const int turns = TURNS / 10;
    double began = perf_now_ns();

    for (int i = 0; i < turns; i++) {
        if (between.rank == 0)
            between_send(8);
        between_receive();
        if (between.rank != 0)
            between_send(8);
    }
    return (perf_now_ns() - began) / turns / 2;
}

/* ns of a message of a stream; of those of 8 bytes, *sending gets what the first ones of it cost their sender. */
static double between_stream(size_t bytes, int count, double *sending)
{
    double began = perf_now_ns();

    for (int i = 0; i < count; i++) {
        if (between.rank == 0)
            between_send(bytes);
        else
            between_receive();
        if (i == 15 && sending != NULL)
            *sending = (perf_now_ns() - began) / 16;
    }
    if (between.rank == 0)
        between_receive();
    else
        between_send(8);
    return (perf_now_ns() - began) / count;
}

static double between_gap(void) { return between_stream(8, 10 * TURNS, NULL); }
static double between_byte(void) { return between_stream(BLOCK, 100, NULL) / BLOCK; }

static double between_overhead(void)
{
    double sending = 0;

    (void)between_stream(8, 32, &sending);
    return sending;
}

static rcast_t between_casts[2]; /* by their writers */

static double between_cast_way(void)
{
    const int turns = TURNS / 10;
    double began = perf_now_ns();
    char buf[8] = "";
    size_t bytes;

    for (int i = 0; i < turns; i++)
        for (int writer = 0; writer < 2; writer++)
            between_must(writer == between.rank
                           ? rcast_send(between_casts[writer], buf, sizeof(buf), 0)
                           : rcast_recv(between_casts[writer], buf, sizeof(buf), &bytes, 0),
                       NULL);
    return (perf_now_ns() - began) / turns / 2;
}

static double between_cast(void)
{
    double way;

    for (int writer = 0; writer < 2; writer++) {
        rcast_config_t cfg = {.context = rcontext("rmalloc_perf.cast"), .writer = writer};

        between_must(rcast_open(&between_casts[writer], &cfg, NULL, 2), NULL);
    }
    way = between_median(between_cast_way);
    between_must(rcast_close(between_casts[between.rank]), NULL);
    between_must(rcast_close(between_casts[1 - between.rank]), NULL);
    return way;
}

int perf_model_network(const struct perf_options *o, int rank, int rounds, char *text,
                       size_t bytes)
{
    struct perf_options options = *o;
    double way, cast, gap, byte, overhead;

    between.rank = rank;
    between.rounds = rounds;
    options.copy = true;
    between_link = (struct perf_link){.rank = between.rank, .op = RPIPE_PUT, .size = BLOCK};
    perf_link_open(&between_link, &options, between.rank, RPIPE_PUT, BLOCK);
    way = between_median(between_one_way);
    overhead = between_median(between_overhead);
    gap = between_median(between_gap);
    byte = between_median(between_byte);
    perf_link_close(&between_link);
    cast = between_cast() - gap;
    overhead = overhead < way / 2 ? overhead : way / 2;
    way -= 2 * overhead;
    cast -= 2 * overhead;
    return snprintf(text, bytes, " o=%.0f Ln=%.0f g=%.0f G=%.3f S=1073741824 Lm=%.0f", overhead,
                    way > gap ? way - gap : 0, gap, byte, cast > 1 ? cast : 1);
}
