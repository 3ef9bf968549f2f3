/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_json.c: a file of rings (trace.h) as JSON in the trace-event format of Chrome, which Perfetto opens.
 *
 * A process of the trace is a rank. A row is what one thread does with one channel, so that calls on a row never overlap but for
 * those that lie inside of others. A call that has ended is one event "X" with its duration: losing old ones cannot tear a pair apart;
 * a call that has not is a "B" without an end. From rwrite to rread of the same message goes an arrow: both ends number alike.
 *
 * One event is one line, and the first line says what the clock is: rmalloc_trace(1) merges by lines. The file is read by pread and not
 * believed: it may be of a process that was killed, or anything else.
 */
#include "observe/record/trace.h"

#include "rpipe/end/end.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPACITY_MOST (UINT32_C(1) << 24)
#define AT_ONCE 256 /* records */

struct reading {
    int fd;
    FILE *to;
    struct trace_file header;
    bool any; /* an event has been printed */
};

static const struct {
    const char *name, *first, *second; /* names of number and bytes; "" first: text */
} trace_json_kind[TRACE_KINDS] = {
    [TRACE_OPEN] = {"rpipe", NULL, NULL},         [TRACE_JOIN] = {"joined", NULL, NULL},
    [TRACE_ALLOC] = {"rmalloc", NULL, "bytes"},   [TRACE_WRITE] = {"rwrite", "message", "bytes"},
    [TRACE_READ] = {"rread", "message", "bytes"}, [TRACE_MEET] = {"rpipe_wait", NULL, NULL},
    [TRACE_FLUSH] = {"rflush", NULL, NULL},       [TRACE_WAIT] = {"wait", "", NULL},
    [TRACE_SYNC] = {"sync", "returned", "slots"}, [TRACE_GROW] = {"grow", NULL, "heap"},
    [TRACE_CLOSE] = {"rclose", NULL, NULL},       [TRACE_ERROR] = {"error", NULL, NULL},
    [TRACE_NETWORK] = {"network", "", NULL},
};

static void trace_json_make_printable(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            *text = '?';
}

static const char *trace_json_what_is_wrong(struct reading *r)
{
    struct trace_file *h = &r->header;
    uint32_t threads;
    struct stat st;

    if (fstat(r->fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        pread(r->fd, h, sizeof(*h), 0) != (ssize_t)sizeof(*h))
        return "it is too short for a trace";
    threads = atomic_load_explicit(&h->threads, memory_order_relaxed);
    if (h->magic != TRACE_MAGIC)
        return "it is no trace of rmalloc";
    if (h->version != TRACE_VERSION || h->header_bytes != sizeof(*h))
        return "it is of another version of this library";
    if (threads > TRACE_THREADS || h->capacity == 0 || h->capacity > CAPACITY_MOST ||
        trace_page(sizeof(*h)) + threads * trace_ring_bytes(h->capacity) > (uint64_t)st.st_size)
        return "it is shorter than it says";
    trace_json_make_printable(h->host, sizeof(h->host));
    trace_json_make_printable(h->clock, sizeof(h->clock));
    for (uint32_t i = 0; i < TRACE_ROWS; i++)
        trace_json_make_printable(h->channel[i].backend, sizeof(h->channel[i].backend));
    return NULL;
}

/* ---- events ---- */

static uint32_t trace_json_tid(uint32_t thread, uint32_t row) { return thread * TRACE_ROWS + row; }

static void trace_json_begin_event(struct reading *r)
{
    fputs(r->any ? ",\n" : "\n", r->to);
    r->any = true;
}

/* Microseconds with three digits behind the point, exactly. */
static void trace_json_print_time(FILE *to, const char *key, int64_t ns)
{
    if (ns < 0)
        ns = 0;
    fprintf(to, ", \"%s\": %" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void trace_json_print_name(struct reading *r, uint32_t thread, uint32_t row)
{
    const struct trace_channel *c = &r->header.channel[row];

    trace_json_begin_event(r);
    fprintf(r->to,
            "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %u, \"args\": "
            "{\"name\": \"",
            r->header.rank, trace_json_tid(thread, row));
    if (row == TRACE_ROW_NETWORK)
        fprintf(r->to, "control network");
    else
        fprintf(r->to, "%d>%d.%u %s %s", c->from, c->to, c->ctx,
                c->side == SIDE_WRITER ? "writer" : "reader", c->backend);
    if (row != TRACE_ROW_NETWORK && c->incarnation > 1)
        fprintf(r->to, " #%u", c->incarnation);
    if (thread > 0)
        fprintf(r->to, ", thread %u", thread);
    fprintf(r->to, "\"}}");
}

/* Both ends of a message give its arrow the same name. */
static void trace_json_print_arrow(struct reading *r, uint32_t thread, const struct trace_record *e)
{
    const struct trace_channel *c = &r->header.channel[e->row];

    trace_json_begin_event(r);
    fprintf(
        r->to,
        "{\"name\": \"message\", \"cat\": \"rpipe\", \"ph\": \"%s\", \"id\": \"%d>%d.%u.%u.%" PRIu64
        "\"%s",
        e->kind == TRACE_WRITE ? "s" : "f", c->from, c->to, c->ctx, c->incarnation, e->number,
        e->kind == TRACE_WRITE ? "" : ", \"bp\": \"e\"");
    fprintf(r->to, ", \"pid\": %d, \"tid\": %u", r->header.rank, trace_json_tid(thread, e->row));
    /* from where the call began, or the arrow could point back in time; to where the other has it */
    trace_json_print_time(r->to, "ts",
                          e->kind == TRACE_READ && e->end > e->begin
                              ? e->end - 1
                              : e->begin); /* inside of both calls */
    fputc('}', r->to);
}

static void trace_json_print_arguments(struct reading *r, const struct trace_record *e)
{
    const char *between = "";
    char text[sizeof(e->text)];

    fprintf(r->to, ", \"args\": {");
    if (trace_json_kind[e->kind].first != NULL && *trace_json_kind[e->kind].first == '\0') {
        memcpy(text, e->text, sizeof(text));
        trace_json_make_printable(text, sizeof(text));
        fprintf(r->to, "\"for\": \"%s\"", text);
        between = ", ";
    } else {
        if (trace_json_kind[e->kind].first != NULL) {
            fprintf(r->to, "\"%s\": %" PRIu64, trace_json_kind[e->kind].first, e->number);
            between = ", ";
        }
        if (trace_json_kind[e->kind].second != NULL) {
            fprintf(r->to, "%s\"%s\": %" PRIu64, between, trace_json_kind[e->kind].second,
                    e->bytes);
            between = ", ";
        }
    }
    if (e->code != 0)
        fprintf(r->to, "%s\"result\": \"%s\"", between, rmalloc_strerror(e->code));
    fprintf(r->to, "}}");
}

static void trace_json_print_event(struct reading *r, uint32_t thread, const struct trace_record *e)
{
    trace_json_begin_event(r);
    fprintf(r->to,
            "{\"name\": \"%s\", \"cat\": \"rpipe\", \"ph\": \"%s\", \"pid\": %d, \"tid\": %u",
            trace_json_kind[e->kind].name, e->moment ? "i" : "X", r->header.rank,
            trace_json_tid(thread, e->row));
    trace_json_print_time(r->to, "ts", e->begin);
    if (e->moment)
        fprintf(r->to, ", \"s\": \"t\"");
    else
        trace_json_print_time(r->to, "dur", e->end - e->begin);
    trace_json_print_arguments(r, e);
    if ((e->kind == TRACE_WRITE || e->kind == TRACE_READ) && e->code == 0)
        trace_json_print_arrow(r, thread, e);
}

static bool trace_json_can_be(const struct reading *r, const struct trace_record *e)
{
    return e->kind > TRACE_NONE && e->kind < TRACE_KINDS && e->begin > 0 && e->end >= e->begin &&
           e->row < TRACE_ROWS &&
           (e->row == TRACE_ROW_NETWORK || r->header.channel[e->row].side != 0);
}

/* ---- rings ---- */

static void trace_json_print_records(struct reading *r, uint32_t thread, uint64_t at,
                                     const struct trace_ring *ring, unsigned char *named)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed),
             capacity = r->header.capacity, first, i;
    struct trace_record e[AT_ONCE];

    first = head > capacity ? head - capacity + 1
                            : 0; /* the oldest of a full ring may be half overwritten */
    for (i = first; i < head;) {
        uint64_t slot = i % capacity, n = head - i;

        if (n > AT_ONCE)
            n = AT_ONCE;
        if (n > capacity - slot)
            n = capacity - slot;
        if (pread(r->fd, e, n * sizeof(*e), (off_t)(at + sizeof(*ring) + slot * sizeof(*e))) !=
            (ssize_t)(n * sizeof(*e)))
            return;
        for (uint64_t k = 0; k < n; k++) {
            if (!trace_json_can_be(r, &e[k]))
                continue;
            if (!named[e[k].row])
                trace_json_print_name(r, thread, e[k].row);
            named[e[k].row] = 1;
            trace_json_print_event(r, thread, &e[k]);
        }
        i += n;
    }
    if (first > 0) {
        trace_json_begin_event(r);
        fprintf(r->to,
                "{\"name\": \"events_lost\", \"ph\": \"M\", \"pid\": %d, \"tid\": %u, \"args\": "
                "{\"thread\": %u, "
                "\"lost\": %" PRIu64 "}}",
                r->header.rank, trace_json_tid(thread, 0), thread, first);
    }
}

static void trace_json_print_open_calls(struct reading *r, uint32_t thread,
                                        const struct trace_ring *ring, unsigned char *named)
{
    uint32_t depth = atomic_load_explicit(&ring->depth, memory_order_relaxed);

    for (uint32_t i = 0; i < depth && i < TRACE_DEPTH; i++) {
        const struct trace_open_call *c = &ring->open[i];
        struct trace_record e = {
            .begin = c->begin, .end = c->begin, .kind = (uint16_t)c->kind, .row = c->row};

        if (c->kind >= TRACE_KINDS || !trace_json_can_be(r, &e))
            continue;
        if (!named[c->row])
            trace_json_print_name(r, thread, c->row);
        named[c->row] = 1;
        trace_json_begin_event(r);
        fprintf(r->to,
                "{\"name\": \"%s\", \"cat\": \"rpipe\", \"ph\": \"B\", \"pid\": %d, \"tid\": %u",
                trace_json_kind[c->kind].name, r->header.rank, trace_json_tid(thread, c->row));
        trace_json_print_time(r->to, "ts", c->begin);
        fprintf(r->to, ", \"args\": {\"unfinished\": true}}");
    }
}

/* The first and the latest. */
static void trace_json_print_samples(struct reading *r)
{
    uint32_t n = atomic_load_explicit(&r->header.samples, memory_order_relaxed);
    const struct trace_sample *s = &r->header.sample[0];

    for (uint32_t i = 0; i < 2 && i < n; i++, s = &r->header.sample[1 + ((n - 1) & 1)])
        fprintf(r->to, "%s[%" PRId64 ", %" PRId64 ", %" PRId64 "]", i > 0 ? ", " : "", s->at,
                s->ahead, s->error);
}

static void trace_json_print_all(struct reading *r)
{
    const struct trace_file *h = &r->header;
    uint32_t threads = atomic_load_explicit(&h->threads, memory_order_relaxed);
    unsigned char named[TRACE_ROWS];
    struct trace_ring ring;

    fprintf(r->to,
            "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"rank\": %d, \"ranks\": %d, \"pid\": "
            "%d, \"host\": \"%s\", "
            "\"clock\": \"%s\", \"clock_offset_ns\": %" PRId64 ", \"rank_0_clock\": [",
            h->rank, h->ranks, h->pid, h->host, h->clock, h->clock_offset);
    trace_json_print_samples(r);
    fprintf(r->to, "]}, \"traceEvents\": [");
    trace_json_begin_event(r);
    fprintf(r->to,
            "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"args\": "
            "{\"name\": \"rank %d (pid "
            "%d on "
            "%s)\"}}",
            h->rank, h->rank, h->pid, h->host);
    for (uint32_t t = 0; t < threads; t++) {
        uint64_t at = trace_page(sizeof(*h)) + t * trace_ring_bytes(h->capacity);

        if (pread(r->fd, &ring, sizeof(ring), (off_t)at) != (ssize_t)sizeof(ring))
            break;
        memset(named, 0, sizeof(named));
        trace_json_print_records(r, t, at, &ring, named);
        trace_json_print_open_calls(r, t, &ring, named);
    }
    fprintf(r->to, "\n]}\n");
}

int trace_json(int fd, FILE *to, const char **why)
{
    struct reading *r = calloc(1, sizeof(*r));

    *why = r == NULL ? "not enough memory" : NULL;
    if (r == NULL)
        return -ENOMEM;
    r->fd = fd;
    r->to = to;
    *why = trace_json_what_is_wrong(r);
    if (*why == NULL)
        trace_json_print_all(r);
    free(r);
    if (*why != NULL)
        return -EPROTO;
    *why = "";
    return ferror(to) ? -EIO : 0;
}

int rpipe_trace_json(int fd, FILE *to)
{
    const char *why;
    int rc;

    if (fd < 0 || to == NULL) {
        last_error_set("rpipe_trace_json: needs an open file of records and one to write to");
        return -EINVAL;
    }
    rc = trace_json(fd, to, &why);
    if (rc != 0)
        last_error_set("rpipe_trace_json: %s", rc == -EIO ? "the JSON cannot be written" : why);
    return rc;
}
