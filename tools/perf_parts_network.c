/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_parts_network.c: the components of a message through a network. See perf_parts.h.
 *
 * Calls of a pipe are measured by rank 0, in a ping-pong: what a call takes depends on what came before it, as on whether an
 * acknowledgement is due. Rank 0 polls, and take is the poll that finds the message. A message that arrives in parts needs several
 * polls: of those, and of messages in a row (row_alloc, row_publish, row_take, row_free), rank 1 reports by a pipe of its own that it has taken them,
 * and rank 0 lets the answer arrive before it takes it.
 *
 * Without the library, over tcp: plain sockets (perf_parts_sockets). Over verbs: bench/verbs_pair prints those parts.
 */
#include "perf_parts.h"

#include <rinfo.h>
#include <stdlib.h>

#define NETWORK_ROWS 25
#define NETWORK_ROW 256      /* messages of a row, */
#define NETWORK_BYTES 65536u /* of no more than so many bytes that are not read yet */
/* Bytes that tcp adds (doc/tcp.md): a slot with its head; the head of a payload */
#define NETWORK_SLOT 88u
#define NETWORK_HEAD 24u
#define NETWORK_PAUSE 5000.0

static struct {
    struct perf_link link, report;
    double pause; /* ns in which a message is there for sure */
} network;

/* The writer of a GET sends a slot alone, and its reader fetches the payload, unless that is eager, or in the slot. */
static bool network_is_fetched(const struct parts *p, int size)
{
    return p->op == RPIPE_GET && parts_size[size] > PARTS_SLOT &&
           parts_size[size] > strtoull(perf_setting("RPIPE_EAGER"), NULL, 10);
}

/* ---- calls ---- */

enum { CALL_ALLOC, CALL_PUBLISH, CALL_TAKE, CALL_FREE, CALLS };

struct network_row {
    raddr_t d[NETWORK_ROW];
    double took[CALLS];
};

static void network_send_row(const struct parts *p, struct network_row *row, int messages)
{
    struct perf_link *l = &network.link;
    double before = perf_now_ns();

    for (int i = 0; i < messages; i++)
        if ((row->d[i] = rmalloc(l->out, l->size)) == ADDR_NULL)
            perf_fail(l->out, "rmalloc", -errno);
    row->took[CALL_ALLOC] = parts_lap(p, &before) / messages;
    for (int i = 0; i < messages; i++)
        perf_fill(rmem(l->out, row->d[i]), l->size, (uint64_t)i);
    before = perf_now_ns();
    for (int i = 0; i < messages; i++)
        parts_must(rwrite(l->out, row->d[i]), l->out, "rwrite");
    row->took[CALL_PUBLISH] = parts_lap(p, &before) / messages;
}

static void network_take_row(const struct parts *p, struct network_row *row, int messages)
{
    struct perf_link *l = &network.link;
    double before = perf_now_ns();
    size_t size;

    for (int i = 0; i < messages; i++)
        parts_must(rread(l->in, &row->d[i], &size), l->in, "rread");
    row->took[CALL_TAKE] = parts_lap(p, &before) / messages;
    for (int i = 0; i < messages; i++)
        perf_sink += perf_sum(rmem(l->in, row->d[i]), l->size);
    before = perf_now_ns();
    for (int i = 0; i < messages; i++)
        parts_must(rfree(l->in, row->d[i]), l->in, "rfree");
    row->took[CALL_FREE] = parts_lap(p, &before) / messages;
}

static void network_row(const struct parts *p, struct network_row *row, int messages)
{
    double before;

    if (p->rank != 0) {
        network_take_row(p, row, messages);
        perf_signal(&network.report);
        network_send_row(p, row, messages);
        return;
    }
    network_send_row(p, row, messages);
    perf_await(&network.report); /* which makes progress, as a GET of rank 1 needs it */
    before = perf_now_ns();
    while (perf_now_ns() - before < network.pause)
        continue;
    network_take_row(p, row, messages);
}

/* To and fro; the calls of rank 0. */
static void network_ping_pong(const struct parts *p, double took[CALLS])
{
    struct perf_link *l = &network.link;
    double before = perf_now_ns();
    raddr_t d;
    size_t size;
    int code;

    if (p->rank != 0) {
        perf_receive(l, 0, PERF_TOUCH, false);
        perf_send(l, 0, PERF_TOUCH, false);
        return;
    }
    if ((d = rmalloc(l->out, l->size)) == ADDR_NULL)
        perf_fail(l->out, "rmalloc", -errno);
    took[CALL_ALLOC] = parts_lap(p, &before);
    perf_fill(rmem(l->out, d), l->size, 0);
    before = perf_now_ns();
    parts_must(rwrite(l->out, d), l->out, "rwrite");
    took[CALL_PUBLISH] = parts_lap(p, &before);
    do {
        before = perf_now_ns();
        code = rread_nb(l->in, &d, &size);
    } while (code == R_PENDING);
    parts_must(code, l->in, "rread_nb");
    took[CALL_TAKE] = parts_lap(p, &before);
    perf_sink += perf_sum(rmem(l->in, d), size);
    before = perf_now_ns();
    parts_must(rfree(l->in, d), l->in, "rfree");
    took[CALL_FREE] = parts_lap(p, &before);
}

static void network_rows(struct parts *p, int size, const char *const names[CALLS], int messages,
                         int rows)
{
    static double sample[CALLS][PARTS_SAMPLES];
    static struct network_row row;

    for (int i = -rows / 4; i < rows; i++) { /* those of the first quarter are not counted */
        if (messages == 0)
            network_ping_pong(p, row.took);
        else
            network_row(p, &row, messages);
        for (int c = 0; c < CALLS; c++)
            sample[c][i < 0 ? 0 : i] = row.took[c];
    }
    for (int c = 0; c < CALLS; c++)
        if (names[c] != NULL)
            parts_report(p, names[c], size, sample[c], rows);
}

/* Three of the fastest of some round trips, and some time: what has cooled down in a cache meanwhile takes longer. */
static void network_pause(const struct parts *p)
{
    double trip = 1e9;

    for (int i = 0; i < 40; i++) {
        const double before = perf_now_ns();
        double took;

        if (p->rank == 0)
            perf_send(&network.link, (uint64_t)i, PERF_TOUCH, false);
        perf_receive(&network.link, (uint64_t)i, PERF_TOUCH, false);
        if (p->rank != 0)
            perf_send(&network.link, (uint64_t)i, PERF_TOUCH, false);
        took = perf_now_ns() - before;
        trip = took < trip ? took : trip;
    }
    network.pause = NETWORK_PAUSE + 3 * trip;
}

/* Payloads that are fetched stay with the writer: half of its heap, so that fetches follow each other. */
static int network_row_messages(const struct parts *p, int size)
{
    const size_t fits = network_is_fetched(p, size) ? (size_t)network.link.in_flight / 2
                                                    : NETWORK_BYTES / parts_size[size];

    return fits < NETWORK_ROW ? (int)fits : NETWORK_ROW;
}

static void network_calls(struct parts *p, int size)
{
    static const char *const one[CALLS] = {"alloc", "publish", "take", "free"},
                             *const rows[CALLS] = {"row_alloc", "row_publish", "row_take",
                                                   "row_free"};
    perf_link_open(&network.link, p->o, p->rank, p->op, parts_size[size]);
    network_pause(p);
    network_rows(p, size, one, parts_size[size] > PARTS_WHOLE ? 1 : 0,
                 2 * p->rounds < PARTS_SAMPLES ? 2 * p->rounds : PARTS_SAMPLES);
    network_rows(p, size, rows, network_row_messages(p, size),
                 p->rounds < NETWORK_ROWS ? p->rounds : NETWORK_ROWS);
    perf_link_close(&network.link);
}

/* ---- without the library ---- */

static void network_one(const struct parts *p, const char *name, int size, double ns)
{
    parts_report(p, name, size, &ns, 1);
}

static void network_sockets(const struct parts *p, int size)
{
    const bool fetched = network_is_fetched(p, size);
    const size_t payload = parts_size[size] > PARTS_SLOT ? NETWORK_HEAD + parts_size[size] : 0;
    struct parts_bare bare = {0}, slot = {0};

    parts_sockets_measure(p, NETWORK_SLOT + payload, &bare);
    slot = bare;
    if (fetched)
        parts_sockets_measure(p, NETWORK_SLOT, &slot);
    network_one(p, "post", size, slot.post);
    network_one(p, "completion", size, slot.completion);
    network_one(p, "network", size, slot.network);
    network_one(p, "stream", size, bare.stream);
    if (p->op == RPIPE_GET)
        network_one(p, "fetch", size, fetched ? parts_sockets_fetch(p, payload) : 0);
}

void parts_network(struct parts *p)
{
    rinfo_pipe_t pipe = {0};

    network.report.context = rcontext("rmalloc_perf.report");
    perf_link_open(&network.report, p->o, p->rank, RPIPE_PUT, 8);
    parts_must(rinfo_describe(network.report.out, &pipe), network.report.out, "rinfo_describe");
    for (int size = 0; size < PARTS_SIZES; size++)
        network_calls(p, size);
    perf_link_close(&network.report);
    if (strcmp(pipe.backend, "tcp") != 0)
        return;
    parts_sockets_open(p);
    for (int size = 0; size < PARTS_SIZES; size++)
        network_sockets(p, size);
    parts_sockets_close();
}
