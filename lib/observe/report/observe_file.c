/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe_file.c: see observe_file.h.
 *
 * The file is read by pread(2), never mapped: whatever its owner does to it meanwhile, this process gets too few bytes or
 * meaningless words, and no signal. Every offset and every number is checked against what has been read before it is used;
 * text is cut and made printable. Ends may be closed and reused while they are read: such a row was true for a moment.
 */
#include "observe/report/observe_file.h"

#include "observe/record/publish.h"
#include "rpipe/end/rch.h"
#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OBSERVE_END_BYTES_MOST 65536u
#define OBSERVE_ENDS_MOST (UINT64_C(1) << 20)
#define OBSERVE_TRIES 16 /* to read sums that do not change meanwhile */

struct view {
    int fd;
    uint64_t bytes; /* of the file */
    struct published header;
    const char *name[PUBLISHED_COUNTERS], *unit[PUBLISHED_COUNTERS];
    bool now[PUBLISHED_COUNTERS];
    uint64_t value[PUBLISHED_COUNTERS];
    unsigned char end[OBSERVE_END_BYTES_MOST];
};

static bool observe_read_at(const struct view *v, uint64_t at, void *to, size_t bytes)
{
    return at <= v->bytes && bytes <= v->bytes - at &&
           pread(v->fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

static void observe_make_printable(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            *text = '?';
}

/* ---- validation ---- */

static bool observe_is_inside(const struct published *h, const struct published_word *w)
{
    const uint32_t last = h->end_bytes - (uint32_t)sizeof(uint64_t);

    return (w->plus == PUBLISHED_NONE || w->plus <= last) &&
           (w->minus == PUBLISHED_NONE || w->minus <= last) &&
           (w->base == PUBLISHED_NONE || w->base <= last) &&
           (w->times == PUBLISHED_NONE || w->times <= last);
}

static const char *observe_check_counters(struct view *v)
{
    struct published *h = &v->header;

    if (h->counters > PUBLISHED_COUNTERS)
        return "it has too many counters";
    for (uint32_t i = 0; i < h->counters; i++) {
        if (!observe_is_inside(h, &h->counter[i].writer) ||
            !observe_is_inside(h, &h->counter[i].reader))
            return "a counter is outside of its end";
        observe_make_printable(h->counter[i].name, sizeof(h->counter[i].name));
        observe_make_printable(h->counter[i].unit, sizeof(h->counter[i].unit));
        v->name[i] = h->counter[i].name;
        v->unit[i] = h->counter[i].unit;
        v->now[i] = h->counter[i].now != 0;
    }
    return NULL;
}

static const char *observe_check_chunks(const struct view *v)
{
    const struct published *h = &v->header;
    uint64_t chunks = atomic_load_explicit(&h->chunks, memory_order_relaxed), all = 0;

    if (chunks > PUBLISHED_CHUNKS)
        return "it has too many chunks of ends";
    for (uint64_t i = 0; i < chunks; i++) {
        uint64_t bytes =
            h->chunk[i].ends <= OBSERVE_ENDS_MOST ? h->chunk[i].ends * h->end_bytes : UINT64_MAX;

        if (bytes > v->bytes || h->chunk[i].offset > v->bytes - bytes)
            return "a chunk of ends is outside of the file";
        all += bytes;
        if (all > v->bytes) /* bounds the time of a walk by the length of the file */
            return "its chunks of ends are longer than the file";
    }
    return NULL;
}

static const char *observe_check(struct view *v)
{
    struct published *h = &v->header;
    const char *wrong;

    if (h->magic != PUBLISHED_MAGIC)
        return "it is not complete, or not a file of this library";
    if (h->version < PUBLISHED_OLDEST || h->oldest > PUBLISHED_VERSION ||
        h->chunks_most != PUBLISHED_CHUNKS)
        return "it is of another version of this library";
    if (h->end_bytes < sizeof(struct published_end) || h->end_bytes > OBSERVE_END_BYTES_MOST ||
        h->published_at > h->end_bytes - sizeof(struct published_end) ||
        h->state_at > h->end_bytes - sizeof(uint32_t))
        return "the size of its ends is invalid";
    observe_make_printable(h->program, sizeof(h->program));
    observe_make_printable(h->job, sizeof(h->job));
    wrong = observe_check_counters(v);
    return wrong != NULL ? wrong : observe_check_chunks(v);
}

/* Reads the header: as much of it as the file has, the rest is 0. */
static int observe_read_header(struct view *v, struct error *err)
{
    const size_t head = offsetof(struct published, version);
    struct published *h = &v->header;
    const char *wrong = "its header cannot be read";
    struct stat st;

    memset(h, 0, sizeof(*h));
    if (fstat(v->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0) {
        v->bytes = (uint64_t)st.st_size;
        if (observe_read_at(v, 0, h, head) && h->header_bytes >= head &&
            observe_read_at(v, 0, h, h->header_bytes < sizeof(*h) ? h->header_bytes : sizeof(*h)))
            wrong = observe_check(v);
    }
    return wrong == NULL ? 0 : error_set(err, -EPROTO, "%s", wrong);
}

/* ---- rows ---- */

static uint64_t observe_word(const struct view *v, uint32_t at)
{
    uint64_t word;

    if (at == PUBLISHED_NONE)
        return 0;
    memcpy(&word, v->end + at, sizeof(word));
    return word;
}

static uint64_t observe_value(const struct view *v, const struct published_word *w)
{
    uint64_t sum = observe_word(v, w->plus) - observe_word(v, w->minus) - observe_word(v, w->base);

    if (w->plus == PUBLISHED_NONE || (int64_t)sum < 0)
        sum = 0; /* words that were read at different moments */
    return w->times != PUBLISHED_NONE ? sum * observe_word(v, w->times) : sum;
}

static void observe_set_wait(rinfo_row_t *row, const struct published_wait *wait)
{
    int64_t since = atomic_load_explicit(&wait->since, memory_order_relaxed), now = clock_now();

    static_assert(sizeof(wait->text) <= sizeof(row->waits_for), "the text fits");
    if (since <= 0)
        return;
    memcpy(row->waits_for, wait->text, sizeof(wait->text));
    observe_make_printable(row->waits_for, sizeof(wait->text));
    row->waits_ns = now > since ? (uint64_t)(now - since) : 0;
}

const char *observe_state_name(uint32_t state)
{
    if ((state & STATE_FAILED) != 0)
        return "failed";
    if ((state & STATE_PEER_DIED) != 0)
        return "peer died";
    if ((state & STATE_PEER_CLOSED) != 0)
        return "peer closed";
    if ((state & STATE_PEER_LEFT) != 0)
        return "peer left";
    if ((state & STATE_PEER_EXITING) != 0)
        return "peer in rexit";
    return (state & (STATE_JOINED | STATE_ATTACHED)) != 0 ? "joined" : "opening";
}

/* Reads end i of a chunk into v->end. False: it is not open. */
static bool observe_read_end(struct view *v, uint64_t chunk, uint64_t i, struct published_end *end)
{
    const struct published *h = &v->header;

    if (!observe_read_at(v, h->chunk[chunk].offset + i * h->end_bytes, v->end, h->end_bytes))
        return false;
    memcpy(end, v->end + h->published_at, sizeof(*end));
    return atomic_load_explicit(&end->state, memory_order_relaxed) == PUBLISHED_OPEN;
}

static rinfo_row_t observe_row_of(struct view *v)
{
    return (rinfo_row_t){
        .pid = v->header.pid,
        .rank = v->header.rank,
        .ranks = v->header.ranks,
        .counters = (int)v->header.counters,
        .name = v->name,
        .unit = v->unit,
        .value = v->value,
        .now = v->now,
        .program = "",
        .job = "",
    };
}

static const struct published_word *observe_counter(const struct view *v, uint32_t i, bool writer)
{
    return writer ? &v->header.counter[i].writer : &v->header.counter[i].reader;
}

static int observe_visit_end(struct view *v, const struct published_end *end, observe_row visit,
                             void *argument)
{
    rinfo_row_t row = observe_row_of(v);
    uint32_t state;

    memcpy(&state, v->end + v->header.state_at, sizeof(state));
    row.writer = end->role == PUBLISHED_WRITER;
    row.from = end->writer;
    row.to = end->reader;
    row.context = end->context;
    row.incarnation = end->incarnation;
    memcpy(row.backend, end->backend, sizeof(row.backend));
    observe_make_printable(row.backend, sizeof(row.backend));
    snprintf(row.state, sizeof(row.state), "%s", observe_state_name(state));
    observe_set_wait(&row, &end->wait);
    for (uint32_t i = 0; i < v->header.counters; i++)
        v->value[i] = observe_value(v, observe_counter(v, i, row.writer));
    return visit(&row, argument);
}

/* Every open end: adds its counters to `sum` (or NULL) and passes its row to `visit` (or NULL). Result of `visit`. */
static int observe_each_end(struct view *v, uint64_t *sum, observe_row visit, void *argument,
                            uint64_t *open)
{
    struct published *h = &v->header;
    uint64_t chunks = atomic_load_explicit(&h->chunks, memory_order_relaxed);
    struct published_end end;
    int rc;

    *open = 0;
    for (uint64_t c = 0; c < chunks; c++) {
        for (uint64_t e = 0; e < h->chunk[c].ends; e++) {
            if (!observe_read_end(v, c, e, &end))
                continue;
            ++*open;
            for (uint32_t i = 0; sum != NULL && i < h->counters; i++)
                sum[i] += observe_value(v, observe_counter(v, i, end.role == PUBLISHED_WRITER));
            if (visit != NULL && (rc = observe_visit_end(v, &end, visit, argument)) != 0)
                return rc;
        }
    }
    return 0;
}

/* Sums of open and of closed ends; read again where an end was closed in between. */
static int observe_visit_process(struct view *v, observe_row visit, void *argument,
                                 struct error *err)
{
    rinfo_row_t row = observe_row_of(v);
    uint64_t retired = 0, sum[PUBLISHED_COUNTERS];

    for (int try = 0; try < OBSERVE_TRIES; try++) {
        if (observe_read_header(v, err) != 0)
            return -EPROTO;
        for (int i = 0; i < PUBLISHED_COUNTERS; i++)
            sum[i] = atomic_load_explicit(&v->header.total[i], memory_order_relaxed);
        (void)observe_each_end(v, sum, NULL, NULL, &row.open);
        if (!observe_read_at(v, offsetof(struct published, retired), &retired, sizeof(retired)))
            return error_set(err, -EPROTO, "the file has become shorter");
        if (retired % 2 == 0 &&
            retired == atomic_load_explicit(&v->header.retired, memory_order_relaxed))
            break;
    }
    memcpy(v->value, sum, sizeof(sum));
    row.process = true;
    row.program = v->header.program;
    row.job = v->header.job;
    row.opened = atomic_load_explicit(&v->header.opened, memory_order_relaxed);
    row.age_ns = clock_now() > v->header.started ? (uint64_t)(clock_now() - v->header.started) : 0;
    observe_set_wait(&row, &v->header.wait);
    return visit(&row, argument);
}

int observe_file(int fd, observe_row row, void *argument, struct error *err)
{
    struct view *v = malloc(sizeof(*v));
    uint64_t open;
    int rc;

    if (v == NULL)
        return error_set(err, -ENOMEM, "no memory to read it");
    v->fd = fd;
    rc = observe_read_header(v, err);
    if (rc == 0)
        rc = observe_visit_process(v, row, argument, err);
    if (rc == 0)
        rc = observe_each_end(v, NULL, row, argument, &open);
    free(v);
    return rc;
}
