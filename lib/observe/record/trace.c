/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.c: see trace.h.
 *
 * The mapping of a ring is never undone: a thread may be about to record. Every page of the file is allocated before it is
 * used, so a full disk is a line in the log and not a signal.
 */
#include "observe/record/trace.h"

#include "observe/record/file_name.h"
#include "util/clock.h"
#include "util/limit.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

bool trace_on;

static char trace_name[512], trace_raw_name[520];
static int trace_file = -1;
static struct trace_file *trace_header;
static uint64_t trace_file_bytes;
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER; /* appending a ring */
/* Closed rows. The rendezvous lock may be held: never together with the former, which waits for the file system. */
static pthread_mutex_t trace_rows_lock = PTHREAD_MUTEX_INITIALIZER;
/* Rows of closed ends, a queue: what they recorded stays in the trace until the row is used again. */
static uint32_t trace_closed[TRACE_ENDS], trace_closed_first, trace_closed_count;

static _Thread_local struct trace_ring *trace_own;
static _Thread_local bool trace_none; /* this thread has no ring and gets none */

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

void trace_clock_name(char *name, size_t bytes)
{
    char boot[40] = "";
    struct stat space;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read(fd, boot, sizeof(boot) - 1) > 0)
        boot[strcspn(boot, "\n")] = '\0';
    if (fd >= 0)
        close(fd);
    *name = '\0';
    if (*boot == '\0')
        return;
    if (stat("/proc/self/ns/time", &space) != 0)
        space.st_ino = 0; /* this kernel has no time namespaces */
    snprintf(name, bytes, "%s.%llu", boot, (unsigned long long)space.st_ino);
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
    /* release: the sample is complete; pairs with a reader of the file, which loads `samples` first */
    atomic_store_explicit(&trace_header->samples, n + 1, memory_order_release);
}

static const char *trace_make_file(const char *pattern, int rank, int ranks)
{
    if (!file_name_expand(pattern, rank, ranks, trace_name, sizeof(trace_name)))
        return "the file name is too long";
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
        log_warn("RPIPE_TRACE: cannot create %s: %s%s; there is no trace", pattern, why,
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
}

bool trace_stop(struct trace_output *output)
{
    if (!trace_on)
        return false;
    trace_on = false;
    *output = (struct trace_output){trace_file, trace_name, trace_raw_name};
    trace_file = -1;
    return true;
}

/* The file belongs to the parent. */
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

/* 0: no end that is traced is closed. */
static uint32_t trace_row_of_closed(void)
{
    uint32_t row = 0;

    pthread_mutex_lock(&trace_rows_lock);
    if (trace_closed_count > 0) {
        row = trace_closed[trace_closed_first];
        trace_closed_first = (trace_closed_first + 1) % TRACE_ENDS;
        trace_closed_count--;
        trace_header->end[row] = (struct trace_end){.since = clock_now()};
    }
    pthread_mutex_unlock(&trace_rows_lock);
    return row;
}

void trace_row_release(uint32_t row)
{
    if (row == 0 || !trace_on)
        return;
    pthread_mutex_lock(&trace_rows_lock);
    trace_closed[(trace_closed_first + trace_closed_count) % TRACE_ENDS] = row;
    trace_closed_count++;
    pthread_mutex_unlock(&trace_rows_lock);
}

uint32_t trace_row(void)
{
    uint32_t row;

    if (!trace_on)
        return 0;
    if (atomic_load_explicit(&trace_header->rows, memory_order_relaxed) >= TRACE_ROWS &&
        (row = trace_row_of_closed()) != 0)
        return row;
    row = atomic_fetch_add_explicit(&trace_header->rows, 1, memory_order_relaxed);
    if (row < TRACE_ROWS)
        return row;
    /* one more than there are: the counter never wraps around, and the warning is logged once */
    atomic_store_explicit(&trace_header->rows, TRACE_ROWS + 1, memory_order_relaxed);
    if (row == TRACE_ROWS)
        log_warn("RPIPE_TRACE: only %u ends that are open at a time are traced", TRACE_ENDS);
    return 0;
}

void trace_set_incarnation(uint32_t row, uint32_t incarnation)
{
    if (row != 0 && incarnation > trace_header->end[row].incarnation)
        trace_header->end[row].incarnation = incarnation;
}

void trace_describe(uint32_t row, const struct published_end *end)
{
    struct trace_end *e;

    if (row == 0) /* there may be no header */
        return;
    e = &trace_header->end[row];
    e->from = end->writer;
    e->to = end->reader;
    e->context = end->context;
    trace_set_incarnation(row, end->incarnation);
    memcpy(e->backend, end->backend, sizeof(e->backend) - 1);
    e->role = end->role; /* last: a row without a role is unused */
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
        log_warn("RPIPE_TRACE: thread %u of this process is not recorded: %s", n,
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
    /* release: the record is complete; pairs with a reader of the file, which loads `head` first */
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

    if (depth == 0) /* the call began before the trace */
        return;
    atomic_store_explicit(&ring->depth, depth - 1, memory_order_release);
    if (depth > TRACE_DEPTH || rc == -EAGAIN) /* R_PENDING: polling is not recorded */
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
    struct trace_record r = {.kind = (uint16_t)kind, .instant = 1, .row = row, .code = code};

    if (ring == NULL)
        return;
    r.begin = r.end = clock_now();
    r.number = number;
    r.bytes = bytes;
    trace_put(ring, &r);
}
