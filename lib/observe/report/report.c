/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.c: RPIPE_STATS: 1: a table on standard error; json: the same as JSON; a name: into that file, as JSON if it ends in
 * ".json". And the trace of RPIPE_TRACE (trace_json.c).
 *
 * Ends are kept when they are closed, so that those that were closed before rexit are reported too: the first
 * REPORT_ENDS_MOST of them; the sums include all. Without RPIPE_STATS nothing is kept.
 */
#include "observe/report/report.h"

#include "observe/record/file_name.h"
#include "observe/record/published.h"
#include "observe/report/trace_json.h"
#include "rpipe/end/counters.h"
#include "util/last_error.h"
#include "util/limit.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <rinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPORT_ENDS_MOST 4096
#define REPORT_COLUMNS 6 /* ends in a table */

struct kept {
    struct kept *next;
    rinfo_row_t row;
    uint64_t value[PUBLISHED_COUNTERS];
};

/* Protected by the rendezvous lock until rexit prints them. */
static struct kept *report_first, *report_last;
static size_t report_kept, report_not_kept;

static bool report_is_wanted(void)
{
    const char *how = setting_text(SET_STATS);

    return *how != '\0' && strcmp(how, "0") != 0;
}

static void report_keep(const struct published_end *end, const uint64_t *value, int counters)
{
    struct kept *k = report_kept < REPORT_ENDS_MOST ? malloc(sizeof(*k)) : NULL;

    if (k == NULL) {
        report_not_kept++;
        return;
    }
    k->next = NULL;
    k->row = (rinfo_row_t){
        .writer = end->role == PUBLISHED_WRITER,
        .from = end->writer,
        .to = end->reader,
        .context = end->context,
        .incarnation = end->incarnation,
        .state = "closed",
        .counters = counters,
    };
    memcpy(k->row.backend, end->backend, sizeof(k->row.backend));
    memcpy(k->value, value, (size_t)counters * sizeof(*value));
    if (report_last != NULL)
        report_last->next = k;
    else
        report_first = k;
    report_last = k;
    report_kept++;
}

void report_start(void) { published_keep_retired(report_is_wanted() ? report_keep : NULL); }

/* ---- printing ---- */

struct printing {
    FILE *to;
    bool json;
    const char *name[PUBLISHED_COUNTERS], *unit[PUBLISHED_COUNTERS];
};

static void report_print_table(const struct printing *p, const rinfo_row_t *process)
{
    const struct kept *k, *end = report_first;
    char head[48];
    int i;

    fprintf(p->to, "rmalloc: rank %d of %d, pid %d: %llu ends in %.3f s\n", process->rank,
            process->ranks, process->pid, (unsigned long long)process->opened,
            (double)process->age_ns / 1e9);
    fprintf(p->to, "%-18s %-10s %14s", "counter", "unit", "all");
    for (i = 0; end != NULL && i < REPORT_COLUMNS; end = end->next, i++) {
        snprintf(head, sizeof(head), "%d>%d.%llu %s %s", end->row.from, end->row.to,
                 (unsigned long long)end->row.context, end->row.writer ? "w" : "r",
                 end->row.backend);
        fprintf(p->to, " %14s", head);
    }
    fputc('\n', p->to);
    for (i = 0; i < process->counters; i++) {
        if (process->value[i] == 0)
            continue;
        fprintf(p->to, "%-18s %-10s %14llu", p->name[i], p->unit[i],
                (unsigned long long)process->value[i]);
        for (k = report_first; k != end; k = k->next)
            fprintf(p->to, " %14llu", (unsigned long long)k->value[i]);
        fputc('\n', p->to);
    }
    if (end != NULL || report_not_kept != 0)
        fprintf(p->to, "more ends were open; RPIPE_STATS=json reports each\n");
}

static void report_print_json(const struct printing *p, const rinfo_row_t *process)
{
    fprintf(p->to, "{\"process\": ");
    (void)rinfo_json(process, p->to);
    fprintf(p->to, ", \"pipes\": [");
    for (struct kept *k = report_first; k != NULL; k = k->next) {
        k->row.name = p->name;
        k->row.value = k->value;
        fprintf(p->to, "%s\n ", k != report_first ? "," : "");
        (void)rinfo_json(&k->row, p->to);
    }
    fprintf(p->to, "], \"not_kept\": %zu}\n", report_not_kept);
}

static int report_print_row(const rinfo_row_t *process, void *argument)
{
    struct printing *p = argument;

    if (p->json)
        report_print_json(p, process);
    else
        report_print_table(p, process);
    return 1;
}

static FILE *report_open_file(const char *how, int rank, int ranks)
{
    char name[512];
    int fd;

    if (!file_name_expand(how, rank, ranks, name, sizeof(name))) {
        log_warn("RPIPE_STATS: the file name is too long: %s", how);
        return NULL;
    }
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        log_warn("RPIPE_STATS: %s cannot be written: %s", name, strerror(errno));
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

static void report_free(void)
{
    while (report_first != NULL) {
        struct kept *next = report_first->next;

        free(report_first);
        report_first = next;
    }
    report_last = NULL;
    report_kept = report_not_kept = 0;
}

static void report_print(int rank, int ranks)
{
    const struct published_layout *layout = counter_layout();
    const char *how = setting_text(SET_STATS);
    size_t length = strlen(how);
    bool here = strcmp(how, "1") == 0 || strcmp(how, "json") == 0;
    struct printing p = {.json = length >= 4 && strcmp(how + length - 4, "json") == 0};
    char *text = NULL;
    size_t bytes = 0;

    for (int i = 0; i < layout->rows; i++) {
        p.name[i] = layout->row[i].name;
        p.unit[i] = layout->row[i].unit;
    }
    /* one write: the output of several processes does not mix */
    p.to = here ? open_memstream(&text, &bytes) : report_open_file(how, rank, ranks);
    if (p.to != NULL && rinfo_observe(getpid(), report_print_row, &p) < 0)
        log_warn("RPIPE_STATS: %s", last_error_get());
    if (p.to != NULL && fclose(p.to) != 0)
        log_warn("RPIPE_STATS: %s cannot be written: %s%s", how, strerror(errno),
                 limit_of_file(errno));
    if (text != NULL)
        (void)!write(STDERR_FILENO, text, bytes);
    free(text);
}

void report_finish(int rank, int ranks)
{
    struct trace_output trace;

    if (trace_stop(&trace))
        trace_json_write(&trace);
    if (report_is_wanted())
        report_print(rank, ranks);
    published_keep_retired(NULL);
    report_free();
}
