/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_link.c: a pair of pipes between rank 0 and rank 1, one each way, and the pass that checks
 * them before they are measured: a pipe that loses, repeats, reorders or damages messages shall not
 * produce numbers.
 */
#include "perf_message.h"
#include <rinfo.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAP_BYTES (1u << 20) /* of an ample heap, if that is enough for MESSAGES */
#define MESSAGES 4
#define UNIT 64

volatile uint64_t perf_sink;

_Noreturn void perf_fail(rch_t ch, const char *what, int code)
{
    const char *why = rerror(ch);

    fprintf(stderr, "rmalloc_perf: rank %u: %s: %s%s%s\n", (unsigned)network_rank(), what,
            rinfo_strerror(code), why != NULL ? ": " : "", why != NULL ? why : "");
    network_abort(1);
    abort();
}

_Noreturn void perf_wrong(const struct perf_link *link, uint64_t sequence, size_t size)
{
    fprintf(stderr,
            "rmalloc_perf: rank %d: message %llu by %s has %zu bytes instead of %zu, or they are "
            "not the bytes that were "
            "sent: nothing is measured\n",
            link->rank, (unsigned long long)sequence, link->op == RPIPE_PUT ? "PUT" : "GET", size,
            link->size);
    network_abort(1);
    abort();
}

void perf_pattern_fill(void *mem, size_t size, int sender, uint64_t sequence)
{
    char *p = mem;

    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = perf_pattern((uint64_t)sender, sequence, at);

        memcpy(p + at, &word, size - at < 8 ? size - at : 8);
    }
}

bool perf_pattern_holds(const void *mem, size_t size, int sender, uint64_t sequence)
{
    const char *p = mem;

    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = perf_pattern((uint64_t)sender, sequence, at);

        if (memcmp(p + at, &word, size - at < 8 ? size - at : 8) != 0)
            return false;
    }
    return true;
}

static long power_of_two_from(long n)
{
    long power = 2;

    while (power < n)
        power *= 2;
    return power;
}

static rch_t open_end(const struct perf_options *o, const struct perf_link *link, bool writer)
{
    rpipe_config_t cfg = {0};
    uint64_t room = (link->size + UNIT - 1) / UNIT * UNIT;
    rch_t ch = NULL;
    int code;

    cfg.op = link->op;
    cfg.context = link->context;
    cfg.peer = 1 - link->rank;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.unit_bytes = UNIT;
    cfg.heap_bytes = o->heap > 0 ? o->heap : room * (uint64_t)link->in_flight;
    cfg.heuristic = o->algorithm;
    cfg.mode = o->sync;
    cfg.sync_queue = (uint32_t)o->queue;
    cfg.inline_max = o->inline_max == 0 ? RPIPE_INLINE_NONE : (int)o->inline_max;
    cfg.slots = (uint32_t)(o->slots > 0   ? o->slots
                           : o->bound > 0 ? power_of_two_from(o->bound)
                                          : 0);
    code = rpipe(&ch, &cfg);
    if (code != 0)
        perf_fail(NULL, "rpipe", code);
    return ch;
}

void perf_link_open(struct perf_link *link, const struct perf_options *o, int rank, rpipe_op_t op,
                    size_t size)
{
    size_t room = (size + UNIT - 1) / UNIT * UNIT;
    int code;

    *link = (struct perf_link){
        .rank = rank, .op = op, .size = size, .copy = o->copy, .context = link->context};
    if (o->copy && (link->buffer = aligned_alloc(UNIT, 2 * room)) == NULL)
        perf_fail(NULL, "malloc of the messages", -ENOMEM);
    if (o->heap > 0)
        link->in_flight = (long)(o->heap / room);
    else if (o->bound > 0)
        link->in_flight = o->bound;
    else
        link->in_flight = room * MESSAGES > HEAP_BYTES ? MESSAGES : (long)(HEAP_BYTES / room);
    link->out = open_end(o, link, true);
    link->in = open_end(o, link, false);
    code = rwait(link->out);
    if (code != 0)
        perf_fail(link->out, "rwait", code);
    code = rwait(link->in);
    if (code != 0)
        perf_fail(link->in, "rwait", code);
}

void perf_link_close(struct perf_link *link)
{
    int code = rclose(link->out);

    if (code != 0)
        perf_fail(NULL, "rclose of the writing end", code);
    code = rclose(link->in);
    if (code != 0)
        perf_fail(NULL, "rclose of the reading end", code);
    free(link->buffer);
}

/* What one side of an exchange has to send, and whether it got the memory for it. */
struct outgoing {
    raddr_t d;
    bool filled;
    long sent;
};

PERF_INLINE bool try_send(struct perf_link *link, struct outgoing *out, enum perf_mode mode)
{
    int code;

    if (!out->filled && link->copy) {
        perf_fill_message(link, link->buffer, (uint64_t)out->sent, mode);
        out->filled = true;
    } else if (!out->filled) {
        code = rmalloc_nb(link->out, link->size, &out->d);
        if (code == R_PENDING)
            return false;
        if (code != 0)
            perf_fail(link->out, "rmalloc_nb", code);
        perf_fill_message(link, rmem(link->out, out->d), (uint64_t)out->sent, mode);
        out->filled = true;
    }
    code = link->copy ? rsend(link->out, link->buffer, link->size, R_NOWAIT)
                      : rwrite_nb(link->out, out->d);
    if (code == R_PENDING)
        return false;
    if (code != 0)
        perf_fail(link->out, link->copy ? "rsend" : "rwrite_nb", code);
    out->filled = false;
    out->sent++;
    return true;
}

PERF_INLINE bool try_receive(struct perf_link *link, long received, enum perf_mode mode)
{
    raddr_t d = ADDR_NULL;
    size_t size;
    int code = link->copy ? rrecv(link->in, perf_received(link), link->size, &size, R_NOWAIT)
                          : rread_nb(link->in, &d, &size);

    if (code == R_PENDING)
        return false;
    if (code != 0)
        perf_fail(link->in, link->copy ? "rrecv" : "rread_nb", code);
    perf_read_message(link,
                      link->copy               ? perf_received(link)
                      : mode == PERF_HAND_OVER ? NULL
                                               : rmem(link->in, d),
                      size, (uint64_t)received, mode);
    if (link->copy)
        return true;
    code = rfree(link->in, d);
    if (code != 0)
        perf_fail(link->in, "rfree", code);
    return true;
}

PERF_INLINE void exchange(struct perf_link *link, long n, enum perf_mode mode)
{
    struct outgoing out = {.d = ADDR_NULL};
    long received = 0, idle = 0;

    while (out.sent < n || received < n) {
        bool moved = false;

        if (out.sent < n)
            moved = try_send(link, &out, mode);
        if (received < n && try_receive(link, received, mode)) {
            received++;
            moved = true;
        }
        if (moved)
            idle = 0;
        else if (++idle > 2000) /* the other process may need this processor */
            sched_yield();
    }
}

void perf_exchange(struct perf_link *link, long n, enum perf_mode mode)
{
    if (mode == PERF_VERIFY)
        exchange(link, n, PERF_VERIFY);
    else if (mode == PERF_TOUCH)
        exchange(link, n, PERF_TOUCH);
    else if (mode == PERF_WORD)
        exchange(link, n, PERF_WORD);
    else
        exchange(link, n, PERF_HAND_OVER);
}

void perf_link_verify(struct perf_link *link)
{
    long n = (long)((8u << 20) / link->size);

    /* at least twice around the heap, and around a ring of the default size */
    if (n > 1000)
        n = 1000;
    if (n < 2 * link->in_flight + 2 && n < 200)
        n = link->in_flight < 99 ? 2 * link->in_flight + 2 : 200;
    perf_exchange(link, n, PERF_VERIFY);
    for (long i = 0; i < 8; i++) { /* by the calls that wait, too */
        if (link->rank == 0)
            perf_send(link, (uint64_t)(n + i), PERF_VERIFY, link->copy);
        perf_receive(link, (uint64_t)(n + i), PERF_VERIFY, link->copy);
        if (link->rank == 1)
            perf_send(link, (uint64_t)(n + i), PERF_VERIFY, link->copy);
    }
}

void perf_signal(struct perf_link *link)
{
    raddr_t d = rmalloc(link->out, 0);
    int code = d != ADDR_NULL ? rwrite(link->out, d) : -errno;

    if (code != 0)
        perf_fail(link->out, "an empty message", code);
}

void perf_await(struct perf_link *link)
{
    raddr_t d;
    size_t size;
    int code = rread(link->in, &d, &size);

    if (code != 0)
        perf_fail(link->in, "rread of an empty message", code);
    if (size != 0)
        perf_wrong(link, 0, size);
    code = rfree(link->in, d);
    if (code != 0)
        perf_fail(link->in, "rfree of an empty message", code);
}
