/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_model_network.c: the parameters of the cost model between hosts, by pipes with a heap as those of a team have it. See perf_model.c.
 *
 * Of short messages: what one of a stream costs its sender (o, and Og for a byte), the time between two of a stream (g), and the rest of
 * the time one way (Ln); by casts the rest of that (Lm). Messages up to E bytes are short: in a stream they take less than half of the
 * time of one of 1 KiB, since several of them leave by one call of the network.
 *
 * Of longer ones, of two sizes to and fro, a line through both: processor time of the sender, in its calls (os, and Os for a byte); of the
 * receiver, in the call that finds the message and the one that frees it (or, Or); the rest of the time one way (Ll, Gl); and the time between
 * two of a stream (gl, and G for a byte). How fast a receiver copies and folds what has come is Bcs and Bfs.
 */
#include "perf_model.h"

#include <errno.h>
#include <rcast.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define HEAP                                                                                       \
    (2u << 20) /* of a pipe of a team with its own default of 1 MiB (lib/coll/engine/edge.c) */
#define TURNS 1000
#define TURNS_LONG 100 /* of messages to and fro */
#define FIRST                                                                                      \
    16 /* messages of a stream that are not counted in o: some are sent before it is known to be one; */
#define NEXT 92   /* and those that are, before the sender can wait for its receiver */
#define IDLE 2000 /* polls before the processor is given way */
#define SHORT 8
#define CALL 1024 /* bytes of a message that leaves by a call of its own */
#define LONG PERF_MODEL_BLOCK

static struct {
    int rank, rounds;
    struct perf_link link;
    size_t bytes; /* of the messages of a round */
    double into[LONG / sizeof(double)];
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

/* ---- messages ---- */

static void between_send(size_t bytes)
{
    rch_t out = between.link.out;
    raddr_t d = rmalloc(out, bytes);

    if (d == ADDR_NULL)
        perf_fail(out, "rmalloc", -errno);
    memcpy(rmem(out, d), between.link.buffer, bytes);
    between_must(rwrite(out, d), out);
}

/* The next message, when it is there, awaited as by a team (edge_drive). Returns when the poll that has found it began. */
static double between_find(raddr_t *d)
{
    double began = perf_now_ns();
    size_t bytes;
    int code;

    for (int idle = 0; (code = rread_nb(between.link.in, d, &bytes)) == R_PENDING; idle++) {
        (void)rprogress();
        if (idle > IDLE) /* the other process may need this processor */
            sched_yield();
        began = perf_now_ns();
    }
    between_must(code, between.link.in);
    return began;
}

static void between_free(raddr_t d) { between_must(rfree(between.link.in, d), between.link.in); }

static void between_receive(void)
{
    raddr_t d;

    between_must(rread(between.link.in, &d, NULL), between.link.in);
    between_free(d);
}

/* ---- to and fro ---- */

/* ns of a message: one way, and of that in the calls of its sender, and in those of its receiver. */
struct between_cost {
    double way, send, receive;
};

static double between_timed_send(void)
{
    double began = perf_now_ns();

    between_send(between.bytes);
    return perf_now_ns() - began;
}

static double between_timed_receive(void)
{
    raddr_t d;
    double began = between_find(&d);

    between_free(d);
    return perf_now_ns() - began;
}

static struct between_cost between_turns(int turns)
{
    struct between_cost sum = {0};
    double began = perf_now_ns();

    for (int i = 0; i < turns; i++) {
        if (between.rank == 0)
            sum.send += between_timed_send();
        sum.receive += between_timed_receive();
        if (between.rank != 0)
            sum.send += between_timed_send();
    }
    return (struct between_cost){.way = (perf_now_ns() - began) / turns / 2,
                                 .send = sum.send / turns,
                                 .receive = sum.receive / turns};
}

static struct between_cost between_exchange(size_t bytes)
{
    double way[PERF_MODEL_ROUNDS], send[PERF_MODEL_ROUNDS], receive[PERF_MODEL_ROUNDS];

    between.bytes = bytes;
    for (int i = 0; i < between.rounds; i++) {
        struct between_cost one = between_turns(TURNS_LONG);

        way[i] = one.way;
        send[i] = one.send;
        receive[i] = one.receive;
    }
    return (struct between_cost){.way = perf_model_middle(way, between.rounds),
                                 .send = perf_model_middle(send, between.rounds),
                                 .receive = perf_model_middle(receive, between.rounds)};
}

/* ns of a byte of a message that has come, as rank 0 copies it, or adds it to its own. */
static double between_read(bool fold)
{
    double took = 0;

    for (int i = 0; i < TURNS_LONG; i++) {
        raddr_t d;
        double began;

        if (between.rank == 0)
            between_send(LONG);
        (void)between_find(&d);
        began = perf_now_ns();
        perf_model_move(between.into, rmem(between.link.in, d), fold);
        took += perf_now_ns() - began;
        between_free(d);
        if (between.rank != 0)
            between_send(LONG);
    }
    return took / TURNS_LONG / LONG;
}

static double between_copy(void) { return between_read(false); }
static double between_fold(void) { return between_read(true); }

/* ---- streams ---- */

/* ns of a message of a stream. *sending: what those behind the first ones cost their sender. */
static double between_stream(int count, double *sending)
{
    double began = perf_now_ns(), counted = began;

    for (int i = 0; i < count; i++) {
        if (between.rank == 0)
            between_send(between.bytes);
        else
            between_receive();
        if (i == FIRST - 1)
            counted = perf_now_ns();
        if (i == FIRST + NEXT - 1)
            *sending = (perf_now_ns() - counted) / NEXT;
    }
    if (between.rank == 0)
        between_receive();
    else
        between_send(SHORT);
    return (perf_now_ns() - began) / count;
}

static double between_interval(void)
{
    double sending;

    return between_stream(between.bytes == SHORT ? 10 * TURNS : TURNS, &sending);
}

static double between_gap(size_t bytes)
{
    between.bytes = bytes;
    return between_median(between_interval);
}

static double between_sending(void)
{
    double sending = 0;

    (void)between_stream(FIRST + NEXT, &sending);
    return sending;
}

static double between_overhead(void)
{
    between.bytes = SHORT;
    return between_median(between_sending);
}

/*
 * E, where a message of a call of its own takes `call` in a stream, and one of SHORT bytes `least`. *byte: of those in between. Both ranks
 * measure all, since their times differ.
 */
static size_t between_gathered(double call, double least, double *byte)
{
    size_t gathered = SHORT;

    *byte = 0;
    for (size_t bytes = 2 * SHORT; bytes < CALL; bytes *= 2) {
        double one = between_gap(bytes);

        if (one >= call / 2 || gathered != bytes / 2)
            continue;
        gathered = bytes;
        *byte = one > least ? (one - least) / (double)(bytes - SHORT) : 0;
    }
    return gathered;
}

/* ---- casts ---- */

static rcast_t between_casts[2]; /* by their writers */

/* Awaited as by a team, too. */
static void between_take_cast(rcast_t cast)
{
    char buf[SHORT];
    size_t bytes;
    int code;

    for (int idle = 0; (code = rcast_recv(cast, buf, sizeof(buf), &bytes, R_NOWAIT)) == R_PENDING;
         idle++) {
        (void)rprogress();
        if (idle > IDLE)
            sched_yield();
    }
    between_must(code, NULL);
}

static double between_cast_way(void)
{
    const char buf[SHORT] = "";
    double began = perf_now_ns();

    for (int i = 0; i < TURNS_LONG; i++)
        for (int writer = 0; writer < 2; writer++)
            if (writer == between.rank)
                between_must(rcast_send(between_casts[writer], buf, sizeof(buf), 0), NULL);
            else
                between_take_cast(between_casts[writer]);
    return (perf_now_ns() - began) / TURNS_LONG / 2;
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

/* ---- all ---- */

/* The line through what two sizes take: nothing of it is less than 0. */
static void between_line(double call, double most, double *least, double *byte)
{
    *byte = most > call ? (most - call) / (LONG - CALL) : 0;
    *least = call > *byte * CALL ? call - *byte * CALL : 0;
}

/*
 * A message of a stream costs neither processor more than the time between two. What it costs more after a wait, as of one to and fro, is
 * latency.
 */
static void between_limit(struct between_cost *cost, double interval)
{
    cost->send = cost->send < interval ? cost->send : interval;
    cost->receive = cost->receive < interval ? cost->receive : interval;
}

static int between_print_long(char *text, size_t bytes, const struct between_cost *call,
                              const struct between_cost *most)
{
    double send, send_byte, receive, receive_byte, way, way_byte;

    between_line(call->send, most->send, &send, &send_byte);
    between_line(call->receive, most->receive, &receive, &receive_byte);
    between_line(call->way - call->send - call->receive, most->way - most->send - most->receive,
                 &way, &way_byte);
    return snprintf(text, bytes, " os=%.0f Os=%.3f Ll=%.0f Gl=%.3f or=%.0f Or=%.3f", send,
                    send_byte, way, way_byte, receive, receive_byte);
}

/* Parameters of pipes, and what of the latency of a short message is no latency: o twice, and g. */
static int between_print(char *text, size_t bytes, double *others)
{
    struct between_cost least = between_exchange(SHORT), call = between_exchange(CALL),
                        most = between_exchange(LONG);
    double copy = between_median(between_copy), fold = between_median(between_fold);
    double overhead = between_overhead(), gap = between_gap(SHORT), one = between_gap(CALL);
    double longest = between_gap(LONG), call_gap, byte, gathered_byte;
    size_t gathered = between_gathered(one, gap, &gathered_byte);
    int n;

    between_line(one, longest, &call_gap, &byte);
    between_limit(&call, one);
    between_limit(&most, longest);
    overhead = overhead < least.way / 2 ? overhead : least.way / 2;
    *others = 2 * overhead + gap;
    n = snprintf(text, bytes, " o=%.0f Ln=%.0f g=%.0f G=%.3f S=1073741824 E=%zu Og=%.3f", overhead,
                 least.way > *others ? least.way - *others : 0, gap, byte, gathered, gathered_byte);
    n += between_print_long(text + n, bytes - (size_t)n, &call, &most);
    return n + snprintf(text + n, bytes - (size_t)n, " gl=%.0f Bcs=%.1f Bfs=%.1f", call_gap,
                        1 / copy, 1 / fold);
}

int perf_model_network(const struct perf_options *o, int rank, int rounds, char *text, size_t bytes)
{
    struct perf_options options = *o;
    double others, cast;
    int n;

    between.rank = rank;
    between.rounds = rounds;
    options.copy = true; /* its buffer is what is sent */
    options.heap = HEAP;
    options.algorithm = RMALLOC_BEST_FIT;
    options.sync = RPIPE_SYNC_TAGS;
    perf_link_open(&between.link, &options, rank, RPIPE_PUT, LONG);
    memset(between.link.buffer, 0, LONG);
    n = between_print(text, bytes, &others);
    perf_link_close(&between.link);
    cast = between_cast() - others;
    return n + snprintf(text + n, bytes - (size_t)n, " Lm=%.0f", cast > 1 ? cast : 1);
}
