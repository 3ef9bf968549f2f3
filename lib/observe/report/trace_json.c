/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_json.c: the records of a trace (observe/record/trace_file.h) as JSON in the trace-event format of Chrome, which
 * Perfetto opens.
 *
 * A process of the trace is a rank. A row is the calls of one thread on one end, so calls on a row are nested or disjoint. A
 * call that has ended is one event "X" with its duration: losing old records cannot separate a begin from its end. A call
 * that has not ended is a "B" without an "E". An arrow goes from rwrite to rread of the same message: both ends number
 * messages alike.
 *
 * One event is one line, and the first line describes the clock: rmalloc_trace(1) merges by lines. The file is read by pread
 * and validated: it may be of a process that was killed, or any other file.
 */
#include "observe/report/trace_json.h"

#include "observe/record/publish.h"
#include "util/last_error.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <rinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRACE_CAPACITY_MOST (UINT32_C(1) << 24) /* records of a ring */
#define TRACE_READ_RECORDS 256                  /* by one pread */

struct reading {
    int fd;
    FILE *to;
    struct trace_file header;
    bool any; /* an event has been printed */
};

static const struct {
    const char *name, *first,
        *second; /* names of number and bytes; first "": the record has a text */
} trace_json_kind[TRACE_KINDS] = {
    [TRACE_OPEN] = {"rpipe", NULL, NULL},         [TRACE_JOIN] = {"joined", NULL, NULL},
    [TRACE_ALLOC] = {"rmalloc", NULL, "bytes"},   [TRACE_WRITE] = {"rwrite", "message", "bytes"},
    [TRACE_READ] = {"rread", "message", "bytes"}, [TRACE_MEET] = {"rwait", NULL, NULL},
    [TRACE_FLUSH] = {"rflush", NULL, NULL},       [TRACE_WAIT] = {"wait", "", NULL},
    [TRACE_SYNC] = {"sync", "returned", "slots"}, [TRACE_GROW] = {"grow", NULL, "heap"},
    [TRACE_CLOSE] = {"rclose", NULL, NULL},       [TRACE_ERROR] = {"error", NULL, NULL},
    [TRACE_NETWORK] = {"network", "", NULL},
};

static void trace_json_printable(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            *text = '?';
}

static const char *trace_json_check(struct reading *r)
{
    struct trace_file *h = &r->header;
    uint32_t threads;
    struct stat st;

    if (fstat(r->fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        pread(r->fd, h, sizeof(*h), 0) != (ssize_t)sizeof(*h))
        return "it is too short for trace records";
    threads = atomic_load_explicit(&h->threads, memory_order_relaxed);
    if (h->magic != TRACE_MAGIC)
        return "it has no trace records of this library";
    if (h->version != TRACE_VERSION || h->header_bytes != sizeof(*h))
        return "it is of another version of this library";
    if (threads > TRACE_THREADS || h->capacity == 0 || h->capacity > TRACE_CAPACITY_MOST ||
        trace_page(sizeof(*h)) + threads * trace_ring_bytes(h->capacity) > (uint64_t)st.st_size)
        return "it is shorter than its header requires";
    trace_json_printable(h->host, sizeof(h->host));
    trace_json_printable(h->clock, sizeof(h->clock));
    for (uint32_t i = 0; i < TRACE_ROWS; i++)
        trace_json_printable(h->end[i].backend, sizeof(h->end[i].backend));
    return NULL;
}

/* ---- events ---- */

static uint32_t trace_json_tid(uint32_t thread, uint32_t row) { return thread * TRACE_ROWS + row; }

static void trace_json_begin_event(struct reading *r)
{
    fputs(r->any ? ",\n" : "\n", r->to);
    r->any = true;
}

/* Microseconds with three decimals, exactly. */
static void trace_json_print_time(FILE *to, const char *key, int64_t ns)
{
    if (ns < 0)
        ns = 0;
    fprintf(to, ", \"%s\": %" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void trace_json_print_name(struct reading *r, uint32_t thread, uint32_t row)
{
    const struct trace_end *c = &r->header.end[row];

    trace_json_begin_event(r);
    fprintf(r->to,
            "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %u, \"args\": "
            "{\"name\": \"",
            r->header.rank, trace_json_tid(thread, row));
    if (row == TRACE_ROW_NETWORK)
        fprintf(r->to, "control network");
    else
        fprintf(r->to, "%d>%d.%" PRIu64 " %s %s", c->from, c->to, c->context,
                c->role == PUBLISHED_WRITER ? "writer" : "reader", c->backend);
    if (row != TRACE_ROW_NETWORK && c->incarnation > 1)
        fprintf(r->to, " #%u", c->incarnation);
    if (thread > 0)
        fprintf(r->to, ", thread %u", thread);
    fprintf(r->to, "\"}}");
}

/* Both ends of a message give its arrow the same id. */
static void trace_json_print_arrow(struct reading *r, uint32_t thread, const struct trace_record *e)
{
    const struct trace_end *c = &r->header.end[e->row];

    trace_json_begin_event(r);
    fprintf(r->to,
            "{\"name\": \"message\", \"cat\": \"rpipe\", \"ph\": \"%s\", \"id\": \"%d>%d.%" PRIu64
            ".%u.%" PRIu64 "\"%s",
            e->kind == TRACE_WRITE ? "s" : "f", c->from, c->to, c->context, c->incarnation,
            e->number, e->kind == TRACE_WRITE ? "" : ", \"bp\": \"e\"");
    fprintf(r->to, ", \"pid\": %d, \"tid\": %u", r->header.rank, trace_json_tid(thread, e->row));
    /* from the begin of rwrite, or the arrow could point back in time, to the end of rread; inside of both calls */
    trace_json_print_time(r->to, "ts",
                          e->kind == TRACE_READ && e->end > e->begin ? e->end - 1 : e->begin);
    fputc('}', r->to);
}

static void trace_json_print_arguments(struct reading *r, const struct trace_record *e)
{
    const char *between = "";
    char text[sizeof(e->text)];

    fprintf(r->to, ", \"args\": {");
    if (trace_json_kind[e->kind].first != NULL && *trace_json_kind[e->kind].first == '\0') {
        memcpy(text, e->text, sizeof(text));
        trace_json_printable(text, sizeof(text));
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
        fprintf(r->to, "%s\"result\": \"%s\"", between, rinfo_strerror(e->code));
    fprintf(r->to, "}}");
}

static void trace_json_print_event(struct reading *r, uint32_t thread, const struct trace_record *e)
{
    trace_json_begin_event(r);
    fprintf(r->to,
            "{\"name\": \"%s\", \"cat\": \"rpipe\", \"ph\": \"%s\", \"pid\": %d, \"tid\": %u",
            trace_json_kind[e->kind].name, e->instant ? "i" : "X", r->header.rank,
            trace_json_tid(thread, e->row));
    trace_json_print_time(r->to, "ts", e->begin);
    if (e->instant)
        fprintf(r->to, ", \"s\": \"t\"");
    else
        trace_json_print_time(r->to, "dur", e->end - e->begin);
    trace_json_print_arguments(r, e);
    if ((e->kind == TRACE_WRITE || e->kind == TRACE_READ) && e->code == 0)
        trace_json_print_arrow(r, thread, e);
}

/* A call that began before the row was this end's is of the end that had it before, but for the one that opened this end. */
static bool trace_json_is_of_row(const struct reading *r, const struct trace_record *e)
{
    const struct trace_end *end = &r->header.end[e->row];

    return end->role != 0 && (e->kind == TRACE_OPEN ? e->end : e->begin) >= end->since;
}

static bool trace_json_valid(const struct reading *r, const struct trace_record *e)
{
    return e->kind > TRACE_NONE && e->kind < TRACE_KINDS && e->begin > 0 && e->end >= e->begin &&
           e->row < TRACE_ROWS && (e->row == TRACE_ROW_NETWORK || trace_json_is_of_row(r, e));
}

/* ---- rings ---- */

static void trace_json_print_records(struct reading *r, uint32_t thread, uint64_t at,
                                     const struct trace_ring *ring, unsigned char *named)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed),
             capacity = r->header.capacity, first, i;
    struct trace_record e[TRACE_READ_RECORDS];

    first = head > capacity ? head - capacity + 1
                            : 0; /* the oldest record of a full ring may be half overwritten */
    for (i = first; i < head;) {
        uint64_t slot = i % capacity, n = head - i;

        if (n > TRACE_READ_RECORDS)
            n = TRACE_READ_RECORDS;
        if (n > capacity - slot)
            n = capacity - slot;
        if (pread(r->fd, e, n * sizeof(*e), (off_t)(at + sizeof(*ring) + slot * sizeof(*e))) !=
            (ssize_t)(n * sizeof(*e)))
            return;
        for (uint64_t k = 0; k < n; k++) {
            if (!trace_json_valid(r, &e[k]))
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

        if (c->kind >= TRACE_KINDS || !trace_json_valid(r, &e))
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

/* 0; -ENOMEM, -EPROTO, -EIO, and the reason. */
static int trace_json_print(int fd, FILE *to, const char **reason)
{
    struct reading *r = calloc(1, sizeof(*r));

    *reason = "not enough memory";
    if (r == NULL)
        return -ENOMEM;
    r->fd = fd;
    r->to = to;
    *reason = trace_json_check(r);
    if (*reason == NULL)
        trace_json_print_all(r);
    free(r);
    if (*reason != NULL)
        return -EPROTO;
    *reason = "the JSON cannot be written";
    return ferror(to) ? -EIO : 0;
}

int rinfo_trace_json(int fd, FILE *to)
{
    const char *reason;
    int rc;

    if (fd < 0 || to == NULL) {
        last_error_set("rinfo_trace_json: fd is %d and to is %s; give open files", fd,
                       to == NULL ? "NULL" : "given");
        return -EINVAL;
    }
    rc = trace_json_print(fd, to, &reason);
    if (rc != 0)
        last_error_set("rinfo_trace_json: the records cannot be used: %s", reason);
    return rc;
}

void trace_json_write(const struct trace_output *output)
{
    int fd = open(output->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    const char *reason = NULL;
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
    int error, rc = -EIO;

    if (to != NULL) {
        rc = trace_json_print(output->fd, to, &reason);
        if (fclose(to) != 0 && rc == 0)
            rc = -EIO;
    }
    error = errno;
    if (rc != 0 && to != NULL)
        (void)unlink(output->name); /* incomplete */
    if (rc == 0)
        (void)unlink(output->raw_name);
    else
        log_warn("RPIPE_TRACE: %s cannot be written: %s; rmalloc_trace(1) can make it of %s",
                 output->name, rc == -EIO ? strerror(error) : reason, output->raw_name);
    close(output->fd);
}
