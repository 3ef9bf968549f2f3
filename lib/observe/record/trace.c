/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.c: see trace.h: recording.
 *
 * The mapping of a ring is never undone: a thread may be about to record. Every page of the file is allocated before it is
 * used, so that a full disk is a line in the log and not a signal.
 */
#include "observe/record/trace.h"

#include "rpipe/end/end.h"
#include "observe/report/report.h"

#include "util/limit.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

bool trace_on;

static char trace_name[512], trace_raw_name[520];
static int trace_file = -1;
static struct trace_file *trace_header;
static uint64_t trace_file_bytes;
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER; /* a thread gets its ring */

static _Thread_local struct trace_ring *trace_own;
static _Thread_local bool trace_none; /* and it will not get one */

/* ---- the file ---- */

static void *trace_append(size_t bytes)
{
    struct rlimit most;
    void *base;

    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && trace_file_bytes + bytes > most.rlim_cur) {
        errno = EFBIG;
        return NULL;
    }
    errno = posix_fallocate(trace_file, (off_t)trace_file_bytes, (off_t)bytes);
    if (errno != 0)
        return NULL;
    base =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, trace_file, (off_t)trace_file_bytes);
    if (base == MAP_FAILED)
        return NULL;
    trace_file_bytes += bytes;
    return base;
}

static void trace_describe_machine(void)
{
    struct timespec real, monotonic;

    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    clock_gettime(CLOCK_REALTIME, &real);
    trace_header->clock_offset =
        (real.tv_sec - monotonic.tv_sec) * NS_PER_S + real.tv_nsec - monotonic.tv_nsec;
    (void)gethostname(trace_header->host, sizeof(trace_header->host) - 1);
    trace_clock_name(trace_header->clock, sizeof(trace_header->clock));
}

void trace_sample(const struct trace_sample *sample)
{
    uint32_t n = atomic_load_explicit(&trace_header->samples, memory_order_relaxed);

    trace_header->sample[n == 0 ? 0 : 1 + (n & 1)] = *sample;
    /* release: the sample is complete. Pairs with whoever reads the file of a process that has died */
    atomic_store_explicit(&trace_header->samples, n + 1, memory_order_release);
}

static const char *trace_make_file(const char *pattern, int rank, int ranks)
{
    if (!report_file_name(pattern, rank, ranks, trace_name, sizeof(trace_name)))
        return "its name is too long";
    snprintf(trace_raw_name, sizeof(trace_raw_name), "%s.raw", trace_name);
    trace_file = open(trace_raw_name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (trace_file < 0)
        return strerror(errno);
    trace_file_bytes = 0;
    trace_header = trace_append(trace_page(sizeof(*trace_header)));
    return trace_header != NULL ? NULL : strerror(errno);
}

void trace_start(int rank, int ranks)
{
    const char *pattern = setting_text(SET_TRACE), *why;
    int error;

    if (*pattern == '\0')
        return;
    errno = 0;
    why = trace_make_file(pattern, rank, ranks);
    error = errno;
    if (why != NULL) {
        log_warn("RPIPE_TRACE: there will be no trace in %s: %s%s", pattern, why,
                 limit_of_file(error));
        if (trace_file >= 0) {
            (void)unlink(trace_raw_name);
            close(trace_file);
        }
        trace_file = -1;
        return;
    }
    trace_header->version = TRACE_VERSION;
    trace_header->header_bytes = sizeof(*trace_header);
    trace_header->pid = getpid();
    trace_header->rank = rank;
    trace_header->ranks = ranks;
    trace_header->capacity = (uint32_t)setting_number(SET_TRACE_EVENTS);
    atomic_store_explicit(&trace_header->rows, TRACE_ROW_NETWORK + 1, memory_order_relaxed);
    trace_describe_machine();
    trace_header->magic = TRACE_MAGIC;
    trace_on = true;
    trace_clock_start(rank);
}

void trace_stop(void)
{
    const char *why = "";
    FILE *to = NULL;
    int fd, error, rc = -EIO;

    if (!trace_on)
        return;
    trace_on = false;
    fd = open(trace_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        to = fdopen(fd, "w");
    if (to != NULL) {
        rc = trace_json(trace_file, to, &why);
        if (fclose(to) != 0 && rc == 0)
            rc = -EIO;
    }
    error = errno;
    if (rc != 0 && to != NULL)
        (void)unlink(trace_name); /* half of it */
    if (rc == 0)
        (void)unlink(trace_raw_name);
    else
        log_warn("RPIPE_TRACE: %s cannot be written: %s; rmalloc_trace(1) can make it of %s",
                 trace_name, to != NULL && *why != '\0' ? why : strerror(error), trace_raw_name);
    close(trace_file);
    trace_file = -1;
}

/* The parent goes on to use what the two have in common. */
void trace_forked(void)
{
    trace_on = false;
    trace_own = NULL;
    trace_none = true;
    if (trace_file >= 0)
        close(trace_file);
    trace_file = -1;
}

/* ---- rows ---- */

uint32_t trace_row(void)
{
    uint32_t row;

    if (!trace_on)
        return 0;
    row = atomic_fetch_add_explicit(&trace_header->rows, 1, memory_order_relaxed);
    if (row < TRACE_ROWS)
        return row;
    /* one more than there are: it never wraps around, and whoever comes next finds that it has been told */
    atomic_store_explicit(&trace_header->rows, TRACE_ROWS + 1, memory_order_relaxed);
    if (row == TRACE_ROWS)
        log_warn("RPIPE_TRACE: only the first %u channels are traced", TRACE_CHANNELS);
    return 0;
}

void trace_describe(const struct rch *ch)
{
    struct trace_channel *c;

    if (ch->trace == 0) /* there may be no header */
        return;
    c = &trace_header->channel[ch->trace];
    c->from = ch->published_end.writer;
    c->to = ch->published_end.reader;
    c->ctx = ch->published_end.ctx;
    c->incarnation = ch->end.incarnation;
    memcpy(c->backend, ch->published_end.backend, sizeof(c->backend));
    c->side = ch->published_end.side; /* last: there is no channel without a side */
}

/* ---- records ---- */

static NOINLINE struct trace_ring *trace_get_ring(void)
{
    struct trace_ring *ring = NULL;
    uint32_t n;

    pthread_mutex_lock(&trace_lock);
    n = atomic_load_explicit(&trace_header->threads, memory_order_relaxed);
    if (trace_file >= 0 && n < TRACE_THREADS)
        ring = trace_append(trace_ring_bytes(trace_header->capacity));
    if (ring != NULL)
        atomic_store_explicit(&trace_header->threads, n + 1, memory_order_release);
    else
        log_warn("RPIPE_TRACE: what thread %u of this process does is not recorded: %s", n,
                 n < TRACE_THREADS ? strerror(errno) : "too many threads");
    pthread_mutex_unlock(&trace_lock);
    trace_own = ring;
    trace_none = ring == NULL;
    return ring;
}

static struct trace_ring *trace_ring_of_thread(void)
{
    if (LIKELY(trace_own != NULL && trace_on))
        return trace_own;
    return trace_on && !trace_none ? trace_get_ring() : NULL;
}

static void trace_put(struct trace_ring *ring, const struct trace_record *r)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    ring->record[head % trace_header->capacity] = *r;
    /* release: the record is complete. Pairs with whoever reads the file of a process that has died */
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

void trace_begin_call(uint32_t row, enum trace_kind kind)
{
    struct trace_ring *ring = trace_ring_of_thread();
    uint32_t depth;

    if (ring == NULL)
        return;
    depth = atomic_load_explicit(&ring->depth, memory_order_relaxed);
    if (depth < TRACE_DEPTH)
        ring->open[depth] = (struct trace_open_call){clock_now(), kind, row};
    atomic_store_explicit(&ring->depth, depth + 1, memory_order_release);
}

static void trace_end_row(struct trace_record *r, int rc)
{
    struct trace_ring *ring = trace_ring_of_thread();
    uint32_t depth = ring != NULL ? atomic_load_explicit(&ring->depth, memory_order_relaxed) : 0;

    if (depth == 0) /* it began before there was a trace */
        return;
    atomic_store_explicit(&ring->depth, depth - 1, memory_order_release);
    if (depth > TRACE_DEPTH || rc == R_PENDING) /* who asks again and again tells nothing by it */
        return;
    r->kind = (uint16_t)ring->open[depth - 1].kind;
    r->row = ring->open[depth - 1].row;
    r->begin = ring->open[depth - 1].begin;
    r->end = clock_now();
    r->code = rc;
    trace_put(ring, r);
}

void trace_end_call(uint64_t number, uint64_t bytes, int rc)
{
    struct trace_record r = {0};

    r.number = number;
    r.bytes = bytes;
    trace_end_row(&r, rc);
}

void trace_end_text(const char *text, int rc)
{
    struct trace_record r = {0};

    strncpy(r.text, text, sizeof(r.text) - 1);
    trace_end_row(&r, rc);
}

void trace_past(uint32_t row, enum trace_kind kind, int64_t begin)
{
    struct trace_ring *ring = row != 0 ? trace_ring_of_thread() : NULL;

    if (ring != NULL)
        trace_put(ring,
                  &(struct trace_record){
                      .begin = begin, .end = clock_now(), .kind = (uint16_t)kind, .row = row});
}

void trace_moment(uint32_t row, enum trace_kind kind, uint64_t number, uint64_t bytes, int code)
{
    struct trace_ring *ring = row != 0 ? trace_ring_of_thread() : NULL;
    struct trace_record r = {.kind = (uint16_t)kind, .moment = 1, .row = row, .code = code};

    if (ring == NULL)
        return;
    r.begin = r.end = clock_now();
    r.number = number;
    r.bytes = bytes;
    trace_put(ring, &r);
}
