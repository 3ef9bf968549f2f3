/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_summary.c: sums over the events of a trace, see trace_summary.h.
 *
 * A row of the trace is the calls of one thread on one end. A wait lies inside of its call, so times of calls include waits. Times of
 * different processes are only added up, never compared: the clocks need no alignment.
 */
#include "trace_summary.h"

#include "trace_align.h"

#include <search.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum summary_call { CALL_ALLOC, CALL_WRITE, CALL_READ, CALLS };

static const char *const summary_call_names[CALLS] = {"rmalloc", "rwrite", "rread"};

struct summary_row {
    int rank;
    unsigned tid;
    char name[96]; /* "0>1.7 writer shm", from the event thread_name */
    unsigned long long messages, bytes, errors;
    long long call_ns[CALLS], wait_ns;
};

struct summary_wait {
    struct summary_row *row;
    char what[32];
    unsigned long long times;
    long long ns, longest_ns, longest_at;
};

struct summary_open {
    struct summary_row *row;
    char call[32];
    long long since;
};

struct trace_summary {
    void *rows, *waits; /* trees of tsearch */
    struct summary_open *open;
    size_t opens;
    unsigned long long events;
    long long first, last; /* of all times, ns; each process has its own clock */
    /* while the trees are walked */
    struct summary_row **row;
    struct summary_wait **wait;
    size_t row_count, wait_count;
};

static int summary_row_order(const void *a, const void *b)
{
    const struct summary_row *x = a, *y = b;

    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                              : (x->tid > y->tid) - (x->tid < y->tid);
}

static int summary_wait_order(const void *a, const void *b)
{
    const struct summary_wait *x = a, *y = b;
    int order = summary_row_order(x->row, y->row);

    return order != 0 ? order : strcmp(x->what, y->what);
}

/* The element of a tree that equals `key`, a new copy of it if there is none; NULL: no memory. */
static void *summary_find(void **tree, const void *key, size_t bytes,
                          int (*order)(const void *, const void *))
{
    void **found = tfind(key, tree, order), *copy;

    if (found != NULL)
        return *found;
    copy = malloc(bytes);
    if (copy == NULL)
        return NULL;
    memcpy(copy, key, bytes);
    if (tsearch(copy, tree, order) == NULL) {
        free(copy);
        return NULL;
    }
    return copy;
}

/* ---- reading events ---- */

static bool summary_text(const char *line, const char *key, char *text, size_t bytes)
{
    const char *at = text_after(line, key), *end = at != NULL ? strchr(at, '"') : NULL;

    if (end == NULL)
        return false;
    snprintf(text, bytes, "%.*s", (int)(end - at), at);
    return true;
}

static unsigned long long summary_number(const char *line, const char *key)
{
    const char *at = text_after(line, key);

    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

/* MICROSECONDS.DDD behind a key, in ns; -1: it is not there. */
static long long summary_time(const char *line, const char *key)
{
    const char *at = text_after(line, key);
    long long us, rest;

    if (at == NULL || sscanf(at, "%lld.%3lld", &us, &rest) != 2 || us < 0 || us > TIME_MOST / 1000)
        return -1;
    return us * 1000 + rest;
}

static bool summary_add_wait(struct trace_summary *s, struct summary_row *row, const char *line,
                             long long at, long long lasts)
{
    struct summary_wait key = {.row = row}, *w;

    if (!summary_text(line, "\"for\": \"", key.what, sizeof(key.what)))
        snprintf(key.what, sizeof(key.what), "?");
    w = summary_find(&s->waits, &key, sizeof(key), summary_wait_order);
    if (w == NULL)
        return false;
    w->times++;
    w->ns += lasts;
    if (lasts > w->longest_ns) {
        w->longest_ns = lasts;
        w->longest_at = at;
    }
    row->wait_ns += lasts;
    return true;
}

static bool summary_add_open(struct trace_summary *s, struct summary_row *row, const char *name,
                             long long at)
{
    struct summary_open *more = realloc(s->open, (s->opens + 1) * sizeof(*more));

    if (more == NULL)
        return false;
    s->open = more;
    s->open[s->opens].row = row;
    s->open[s->opens].since = at;
    snprintf(s->open[s->opens].call, sizeof(s->open->call), "%s", name);
    s->opens++;
    return true;
}

static void summary_add_call(struct summary_row *row, const char *name, const char *line,
                             long long lasts)
{
    const bool failed = text_after(line, "\"result\": ") != NULL;

    for (int i = 0; i < CALLS; i++) {
        if (strcmp(name, summary_call_names[i]) != 0)
            continue;
        row->call_ns[i] += lasts;
        if (i != CALL_ALLOC && !failed) {
            row->messages++;
            row->bytes += summary_number(line, "\"bytes\": ");
        }
    }
}

bool trace_summary_add(struct trace_summary *s, const char *line)
{
    struct summary_row key = {.rank = (int)summary_number(line, "\"pid\": "),
                              .tid = (unsigned)summary_number(line, "\"tid\": ")},
                       *row;
    char name[32] = "", kind[4] = "";
    long long at = summary_time(line, "\"ts\": "), lasts = summary_time(line, "\"dur\": ");

    if (!summary_text(line, "\"name\": \"", name, sizeof(name)) ||
        !summary_text(line, "\"ph\": \"", kind, sizeof(kind)) || strcmp(name, "message") == 0 ||
        strcmp(name, "process_name") == 0)
        return true;
    row = summary_find(&s->rows, &key, sizeof(key), summary_row_order);
    if (row == NULL)
        return false;
    if (strcmp(name, "thread_name") == 0)
        (void)summary_text(line, "\"args\": {\"name\": \"", row->name, sizeof(row->name));
    if (at < 0)
        return true;
    s->events++;
    s->first = s->first == 0 || at < s->first ? at : s->first;
    s->last = at + (lasts > 0 ? lasts : 0) > s->last ? at + (lasts > 0 ? lasts : 0) : s->last;
    if (strcmp(kind, "B") == 0)
        return summary_add_open(s, row, name, at);
    if (strcmp(name, "error") == 0)
        row->errors++;
    if (lasts < 0)
        return true;
    if (strcmp(name, "wait") == 0)
        return summary_add_wait(s, row, line, at, lasts);
    summary_add_call(row, name, line, lasts);
    return true;
}

/* ---- printing ---- */

/* twalk(3) has no argument for its function */
static struct trace_summary *summary_walked;

static void summary_collect_row(const void *node, VISIT visit, int depth)
{
    (void)depth;
    if (visit == postorder || visit == leaf)
        summary_walked->row[summary_walked->row_count++] = *(struct summary_row *const *)node;
}

static void summary_collect_wait(const void *node, VISIT visit, int depth)
{
    (void)depth;
    if (visit == postorder || visit == leaf)
        summary_walked->wait[summary_walked->wait_count++] = *(struct summary_wait *const *)node;
}

static void summary_count(const void *node, VISIT visit, int depth)
{
    (void)node, (void)depth;
    summary_walked->row_count += visit == postorder || visit == leaf;
}

static size_t summary_size(struct trace_summary *s, const void *tree)
{
    summary_walked = s;
    s->row_count = 0;
    twalk(tree, summary_count);
    return s->row_count;
}

static bool summary_collect(struct trace_summary *s)
{
    size_t waits = summary_size(s, s->waits), rows = summary_size(s, s->rows);

    s->row = calloc(rows + 1, sizeof(*s->row));
    s->wait = calloc(waits + 1, sizeof(*s->wait));
    s->row_count = s->wait_count = 0;
    if (s->row == NULL || s->wait == NULL)
        return false;
    twalk(s->rows, summary_collect_row);
    twalk(s->waits, summary_collect_wait);
    return true;
}

static int summary_longer(const void *a, const void *b)
{
    const struct summary_wait *x = *(struct summary_wait *const *)a,
                              *y = *(struct summary_wait *const *)b;

    return (x->ns < y->ns) - (x->ns > y->ns);
}

static double ms(long long ns) { return (double)ns / 1e6; }

static void summary_print_waits(const struct trace_summary *s, FILE *to, size_t most)
{
    size_t shown = s->wait_count < most ? s->wait_count : most;

    fprintf(to, "\nwaits, those that took longest in sum%s\n", s->wait_count == 0 ? ": none" : "");
    if (s->wait_count == 0)
        return;
    fprintf(to, "%12s %8s %12s %14s %5s  %-26s %s\n", "sum ms", "times", "longest ms", "at s",
            "rank", "end", "for");
    for (size_t i = 0; i < shown; i++) {
        const struct summary_wait *w = s->wait[i];

        fprintf(to, "%12.3f %8llu %12.3f %14.6f %5d  %-26s %s\n", ms(w->ns), w->times,
                ms(w->longest_ns), (double)(w->longest_at - s->first) / 1e9, w->row->rank,
                w->row->name, w->what);
    }
    if (shown < s->wait_count)
        fprintf(to, "%zu more\n", s->wait_count - shown);
}

/* False: the row of a process, or of a thread that made no call worth a line. */
static bool summary_has_calls(const struct summary_row *r)
{
    long long ns = r->wait_ns;

    for (int i = 0; i < CALLS; i++)
        ns += r->call_ns[i];
    return r->name[0] != '\0' && (r->messages != 0 || r->errors != 0 || ns != 0);
}

static void summary_print_rows(const struct trace_summary *s, FILE *to)
{
    fprintf(to, "\npipes; times include waits\n%5s  %-26s %10s %14s %11s %11s %11s %11s %6s\n",
            "rank", "end", "messages", "bytes", "rmalloc ms", "rwrite ms", "rread ms", "waits ms",
            "errors");
    for (size_t i = 0; i < s->row_count; i++) {
        const struct summary_row *r = s->row[i];

        if (!summary_has_calls(r))
            continue;
        fprintf(to, "%5d  %-26s %10llu %14llu %11.3f %11.3f %11.3f %11.3f %6llu\n", r->rank,
                r->name, r->messages, r->bytes, ms(r->call_ns[CALL_ALLOC]),
                ms(r->call_ns[CALL_WRITE]), ms(r->call_ns[CALL_READ]), ms(r->wait_ns), r->errors);
    }
}

void trace_summary_print(struct trace_summary *s, FILE *to, int most)
{
    if (!summary_collect(s)) {
        fprintf(to, "not enough memory for the summary\n");
        return;
    }
    qsort(s->wait, s->wait_count, sizeof(*s->wait), summary_longer);
    fprintf(to, "%llu events in %.6f s\n", s->events, (double)(s->last - s->first) / 1e9);
    summary_print_waits(s, to, (size_t)most);
    summary_print_rows(s, to);
    if (s->opens > 0)
        fprintf(to, "\ncalls that have not ended\n%14s %5s  %-26s %s\n", "since s", "rank", "end",
                "call");
    for (size_t i = 0; i < s->opens; i++)
        fprintf(to, "%14.6f %5d  %-26s %s\n", (double)(s->open[i].since - s->first) / 1e9,
                s->open[i].row->rank, s->open[i].row->name, s->open[i].call);
}

struct trace_summary *trace_summary_new(void) { return calloc(1, sizeof(struct trace_summary)); }

static void summary_empty(void **tree, int (*order)(const void *, const void *))
{
    while (*tree != NULL) {
        void *element = *(void **)*tree; /* of the root */

        (void)tdelete(element, tree, order);
        free(element);
    }
}

void trace_summary_free(struct trace_summary *s)
{
    if (s == NULL)
        return;
    summary_empty(&s->waits, summary_wait_order); /* it refers to rows */
    summary_empty(&s->rows, summary_row_order);
    free(s->open);
    free(s->row);
    free(s->wait);
    free(s);
}
