/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.c: rpipe_observe: what another process shows (publish.h), found, read and not believed.
 *
 * The file is read by pread(2), never mapped: whatever its owner does to it meanwhile, this process gets too few bytes, or words
 * that mean nothing, and no signal. Every offset and every number is checked against what has been read before it is used; text is cut
 * and made printable. Ends may be closed, and taken again, while they are read: such a row says what was true for a moment.
 */
#include "rpipe/end/end.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define END_BYTES_MOST 65536u
#define ENDS_MOST (UINT64_C(1) << 20)
#define TRIES 16 /* to find the sums at rest */

struct view {
    int fd;
    uint64_t bytes;
    struct published header;
    const char *name[PUBLISHED_COUNTERS], *unit[PUBLISHED_COUNTERS];
    bool now[PUBLISHED_COUNTERS];
    uint64_t value[PUBLISHED_COUNTERS];
    unsigned char end[END_BYTES_MOST];
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

/* ---- is it what it should be? ---- */

static bool observe_is_inside(const struct published *h, const struct published_word *w)
{
    const uint32_t last = h->end_bytes - (uint32_t)sizeof(uint64_t);

    return (w->plus == PUBLISHED_NONE || w->plus <= last) &&
           (w->minus == PUBLISHED_NONE || w->minus <= last) &&
           (w->times == PUBLISHED_NONE || w->times <= last);
}

static const char *observe_what_is_wrong(struct view *v)
{
    struct published *h = &v->header;
    uint64_t chunks, all = 0;

    if (h->magic != PUBLISHED_MAGIC)
        return "it is not complete, or something else";
    if (h->version != PUBLISHED_VERSION || h->header_bytes != sizeof(*h) ||
        h->chunks_most != PUBLISHED_CHUNKS)
        return "it is of another version of this library";
    if (h->end_bytes < sizeof(struct published_end) || h->end_bytes > END_BYTES_MOST ||
        h->published_at > h->end_bytes - sizeof(struct published_end) ||
        h->state_at > h->end_bytes - sizeof(uint32_t))
        return "its channels cannot be so large";
    if (h->counters > PUBLISHED_COUNTERS)
        return "it cannot have so many counters";
    for (uint32_t i = 0; i < h->counters; i++) {
        if (!observe_is_inside(h, &h->counter[i].writer) ||
            !observe_is_inside(h, &h->counter[i].reader))
            return "a counter lies outside of its channel";
        observe_make_printable(h->counter[i].name, sizeof(h->counter[i].name));
        observe_make_printable(h->counter[i].unit, sizeof(h->counter[i].unit));
        v->name[i] = h->counter[i].name;
        v->unit[i] = h->counter[i].unit;
        v->now[i] = h->counter[i].now != 0;
    }
    chunks = atomic_load_explicit(&h->chunks, memory_order_relaxed);
    if (chunks > PUBLISHED_CHUNKS)
        return "it cannot have so many pieces";
    for (uint64_t i = 0; i < chunks; i++) {
        uint64_t bytes =
            h->chunk[i].ends <= ENDS_MOST ? h->chunk[i].ends * h->end_bytes : UINT64_MAX;

        if (bytes > v->bytes || h->chunk[i].offset > v->bytes - bytes)
            return "a piece of it lies outside of the file";
        all += bytes;
        if (all >
            v->bytes) /* so that looking at all of them takes no longer than the file is long */
            return "its pieces are longer than the file";
    }
    return NULL;
}

static int observe_view_check(struct view *v, const char **why)
{
    struct stat st;

    *why = "it cannot be read";
    if (fstat(v->fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0)
        return -EPROTO;
    v->bytes = (uint64_t)st.st_size;
    if (!observe_read_at(v, 0, &v->header, sizeof(v->header)))
        return -EPROTO;
    *why = observe_what_is_wrong(v);
    return *why == NULL ? 0 : -EPROTO;
}

/* ---- rows ---- */

static uint64_t observe_word(const struct view *v, uint32_t at)
{
    uint64_t word;

    memcpy(&word, v->end + at, sizeof(word));
    return word;
}

static uint64_t observe_value(const struct view *v, const struct published_word *w)
{
    uint64_t sum = w->plus != PUBLISHED_NONE ? observe_word(v, w->plus) : 0;

    if (w->minus != PUBLISHED_NONE)
        sum -= observe_word(v, w->minus);
    if ((int64_t)sum < 0)
        sum = 0; /* two words, read at two moments */
    return w->times != PUBLISHED_NONE ? sum * observe_word(v, w->times) : sum;
}

static void observe_set_wait(rpipe_observed_t *row, const struct published_wait *wait)
{
    int64_t since = atomic_load_explicit(&wait->since, memory_order_relaxed), now = clock_now();

    if (since <= 0)
        return;
    memcpy(row->waits_for, wait->what, sizeof(row->waits_for));
    observe_make_printable(row->waits_for, sizeof(row->waits_for));
    row->waits_ns = now > since ? (uint64_t)(now - since) : 0;
}

static const char *observe_state_of(uint32_t state)
{
    if ((state & STATE_FAILED) != 0)
        return "failed";
    if ((state & STATE_PEER_DIED) != 0)
        return "peer died";
    if ((state & STATE_PEER_CLOSED) != 0)
        return "peer closed";
    if ((state & STATE_PEER_LEFT) != 0)
        return "peer left";
    return (state & (STATE_JOINED | STATE_ATTACHED)) != 0 ? "joined" : "opening";
}

/* False: there is no end now. */
static bool observe_read_end(struct view *v, uint64_t chunk, uint64_t i,
                             struct published_end *published_end)
{
    const struct published *h = &v->header;

    if (!observe_read_at(v, h->chunk[chunk].offset + i * h->end_bytes, v->end, h->end_bytes))
        return false;
    memcpy(published_end, v->end + h->published_at, sizeof(*published_end));
    return atomic_load_explicit(&published_end->state, memory_order_relaxed) == PUBLISHED_OPEN;
}

static rpipe_observed_t observe_row_of(struct view *v)
{
    return (rpipe_observed_t){
        .pid = v->header.pid,
        .rank = v->header.rank,
        .ranks = v->header.ranks,
        .counters = (int)v->header.counters,
        .name = v->name,
        .unit = v->unit,
        .value = v->value,
        .now = v->now,
    };
}

typedef int (*visitor)(const rpipe_observed_t *row, void *argument);

static int observe_show_end(struct view *v, const struct published_end *published_end,
                            visitor visit, void *argument)
{
    rpipe_observed_t row = observe_row_of(v);
    uint32_t state;

    memcpy(&state, v->end + v->header.state_at, sizeof(state));
    row.writer = published_end->side == SIDE_WRITER;
    row.from = published_end->writer;
    row.to = published_end->reader;
    row.ctx = published_end->ctx;
    row.incarnation = published_end->incarnation;
    memcpy(row.backend, published_end->backend, sizeof(row.backend));
    observe_make_printable(row.backend, sizeof(row.backend));
    snprintf(row.state, sizeof(row.state), "%s", observe_state_of(state));
    observe_set_wait(&row, &published_end->wait);
    for (uint32_t i = 0; i < v->header.counters; i++)
        v->value[i] = observe_value(v, row.writer ? &v->header.counter[i].writer
                                                  : &v->header.counter[i].reader);
    return visit(&row, argument);
}

/* Every end: adds it to `sum` (NULL: not), shows it to `visit` (NULL: not). How many; or what `visit` has said. */
static int observe_each_end(struct view *v, uint64_t *sum, visitor visit, void *argument,
                            uint64_t *open)
{
    struct published *h = &v->header;
    uint64_t chunks = atomic_load_explicit(&h->chunks, memory_order_relaxed);
    struct published_end published_end;
    int rc;

    *open = 0;
    for (uint64_t c = 0; c < chunks; c++) {
        for (uint64_t e = 0; e < h->chunk[c].ends; e++) {
            if (!observe_read_end(v, c, e, &published_end))
                continue;
            ++*open;
            for (uint32_t i = 0; sum != NULL && i < h->counters; i++)
                sum[i] +=
                    observe_value(v, published_end.side == SIDE_WRITER ? &h->counter[i].writer
                                                                       : &h->counter[i].reader);
            if (visit != NULL && (rc = observe_show_end(v, &published_end, visit, argument)) != 0)
                return rc;
        }
    }
    return 0;
}

/* Sums of what is open and what was closed; again, where something was closed in between. */
static int observe_show_process(struct view *v, visitor visit, void *argument)
{
    rpipe_observed_t row = observe_row_of(v);
    uint64_t retired = 0, sum[PUBLISHED_COUNTERS];
    const char *why;

    for (int try = 0; try < TRIES; try++) {
        if (observe_view_check(v, &why) != 0)
            return -EPROTO;
        for (int i = 0; i < PUBLISHED_COUNTERS; i++)
            sum[i] = atomic_load_explicit(&v->header.total[i], memory_order_relaxed);
        (void)observe_each_end(v, sum, NULL, NULL, &row.open);
        if (!observe_read_at(v, offsetof(struct published, retired), &retired, sizeof(retired)))
            return -EPROTO;
        if (retired % 2 == 0 &&
            retired == atomic_load_explicit(&v->header.retired, memory_order_relaxed))
            break;
    }
    memcpy(v->value, sum, sizeof(sum));
    row.process = true;
    row.opened = atomic_load_explicit(&v->header.opened, memory_order_relaxed);
    row.age_ns = clock_now() > v->header.started ? (uint64_t)(clock_now() - v->header.started) : 0;
    observe_set_wait(&row, &v->header.wait);
    return visit(&row, argument);
}

int observe_file(int fd, visitor row, void *argument, const char **why)
{
    struct view *v = malloc(sizeof(*v));
    uint64_t open;
    int rc = v != NULL ? 0 : -ENOMEM;

    *why = "no memory";
    if (rc == 0) {
        v->fd = fd;
        rc = observe_view_check(v, why);
    }
    if (rc == 0)
        rc = observe_show_process(v, row, argument);
    if (rc == 0)
        rc = observe_each_end(v, NULL, row, argument, &open);
    free(v);
    return rc;
}

/* ---- finding it ---- */

/* The first descriptor of that process with the name of such a file: open for reading, or -errno. */
static int observe_find(int pid)
{
    static const char wanted[] = "/memfd:" PUBLISHED_NAME " (deleted)";
    char path[64], target[sizeof(wanted) + 1];
    struct dirent *e;
    int fd = -ENOENT;
    ssize_t length;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    dir = opendir(path);
    if (dir == NULL)
        return errno == ENOENT ? -ESRCH : -errno;
    while (fd == -ENOENT && (e = readdir(dir)) != NULL) {
        length = readlinkat(dirfd(dir), e->d_name, target, sizeof(target));
        if (length != (ssize_t)sizeof(wanted) - 1 ||
            memcmp(target, wanted, sizeof(wanted) - 1) != 0)
            continue;
        /* it may be a pipe that has been given this name: opening it must not wait */
        fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
            fd = errno == EACCES ? -EACCES : -ENOENT;
    }
    closedir(dir);
    return fd;
}

int rpipe_observe(int pid, visitor row, void *argument)
{
    const char *why = "";
    bool own = pid == getpid() && publish_fd() >= 0;
    int fd, rc;

    if (row == NULL) {
        last_error_set("rpipe_observe: needs somebody to show the rows to (NULL)");
        return -EINVAL;
    }
    fd = own ? publish_fd() : observe_find(pid);
    if (fd < 0)
        return observe_missing(pid, fd);
    rc = observe_file(fd, row, argument, &why);
    if (!own)
        close(fd);
    if (rc == -EPROTO || rc == -ENOMEM)
        last_error_set("rpipe_observe: what process %d shows cannot be used: %s", pid,
                       why != NULL ? why : "it changes too fast");
    return rc;
}

/* ---- as JSON ---- */

int rpipe_observed_json(const rpipe_observed_t *row, FILE *to)
{
    if (row == NULL || to == NULL)
        return -EINVAL;
    if (row->process)
        fprintf(to,
                "{\"pid\": %d, \"rank\": %d, \"ranks\": %d, \"open\": %llu, \"opened\": %llu, "
                "\"age_ns\": %llu",
                row->pid, row->rank, row->ranks, (unsigned long long)row->open,
                (unsigned long long)row->opened, (unsigned long long)row->age_ns);
    else
        fprintf(to,
                "{\"from\": %d, \"to\": %d, \"ctx\": %u, \"incarnation\": %u, \"side\": \"%s\", "
                "\"backend\": \"%s\", "
                "\"state\": \"%s\"",
                row->from, row->to, row->ctx, row->incarnation, row->writer ? "writer" : "reader",
                row->backend, row->state);
    fprintf(to, ", \"waits_for\": \"%s\", \"waits_ns\": %llu, \"counters\": {", row->waits_for,
            (unsigned long long)row->waits_ns);
    for (int i = 0; i < row->counters; i++)
        fprintf(to, "%s\"%s\": %llu", i > 0 ? ", " : "", row->name[i],
                (unsigned long long)row->value[i]);
    fprintf(to, "}}");
    return ferror(to) ? -EIO : 0;
}
