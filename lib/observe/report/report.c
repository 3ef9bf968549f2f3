/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.c: RPIPE_STATS: 1: a table on standard error; json: the same as JSON; a name: into that file, JSON if it ends in ".json".
 *
 * Channels are kept when they are closed, so that those that have come and gone are told too: the first KEPT_MOST of them; the sums
 * have all. Nothing of it happens where RPIPE_STATS is not set.
 */
#include "observe/report/report.h"

#include "rpipe/end/end.h"
#include "util/limit.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT_MOST 4096
#define COLUMNS 6 /* channels in a table */

struct kept {
    struct kept *next;
    rpipe_observed_t row;
    uint64_t value[PUBLISHED_COUNTERS];
};

/* under the lock of the exchange store, until rexit prints them */
static struct kept *report_first, *report_last;
static size_t report_kept, report_not_kept;

bool report_file_name(const char *pattern, int rank, int ranks, char *name, size_t name_bytes)
{
    bool warned = ranks <= 1;
    size_t n = 0;
    int more;

    for (; *pattern != '\0' && n < name_bytes; pattern++) {
        if (*pattern != '%' || strchr("pr%", pattern[1]) == NULL || pattern[1] == '\0') {
            name[n++] = *pattern;
            continue;
        }
        pattern++;
        warned = warned || *pattern != '%';
        more = *pattern == 'p'   ? snprintf(name + n, name_bytes - n, "%d", (int)getpid())
               : *pattern == 'r' ? snprintf(name + n, name_bytes - n, "%d", rank)
                                 : snprintf(name + n, name_bytes - n, "%%");
        n += (size_t)more;
    }
    if (!warned && n < name_bytes)
        n += (size_t)snprintf(name + n, name_bytes - n, ".%d", rank);
    if (n >= name_bytes)
        return false;
    name[n] = '\0';
    return true;
}

static bool report_is_wanted(void)
{
    const char *how = setting_text(SET_STATS);

    return *how != '\0' && strcmp(how, "0") != 0;
}

void report_keep(struct rch *ch)
{
    struct kept *k;

    if (!report_is_wanted())
        return;
    counter_refresh(ch);
    k = report_kept < KEPT_MOST ? malloc(sizeof(*k)) : NULL;
    if (k == NULL) {
        report_not_kept++;
        return;
    }
    k->next = NULL;
    k->row = (rpipe_observed_t){
        .writer = ch->published_end.side == SIDE_WRITER,
        .from = ch->published_end.writer,
        .to = ch->published_end.reader,
        .ctx = ch->published_end.ctx,
        .incarnation = ch->published_end.incarnation,
        .state = "closed",
        .counters = counter_count(),
    };
    memcpy(k->row.backend, ch->published_end.backend, sizeof(k->row.backend));
    for (int i = 0; i < counter_count(); i++)
        k->value[i] = counter_value(ch, i);
    if (report_last != NULL)
        report_last->next = k;
    else
        report_first = k;
    report_last = k;
    report_kept++;
}

/* ---- printing ---- */

struct printing {
    FILE *to;
    bool json;
    const char *name[PUBLISHED_COUNTERS], *unit[PUBLISHED_COUNTERS];
};

static void report_print_table(const struct printing *p, const rpipe_observed_t *process)
{
    const struct kept *k, *end = report_first;
    char head[48];
    int i;

    fprintf(p->to, "rmalloc: rank %d of %d, pid %d: %llu channels in %.3f s\n", process->rank,
            process->ranks, process->pid, (unsigned long long)process->opened,
            (double)process->age_ns / 1e9);
    fprintf(p->to, "%-18s %-10s %14s", "counter", "unit", "all");
    for (i = 0; end != NULL && i < COLUMNS; end = end->next, i++) {
        snprintf(head, sizeof(head), "%d>%d.%u %s %s", end->row.from, end->row.to, end->row.ctx,
                 end->row.writer ? "w" : "r", end->row.backend);
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
        fprintf(p->to, "and more channels, which RPIPE_STATS=json tells one by one\n");
}

static void report_print_json(const struct printing *p, const rpipe_observed_t *process)
{
    fprintf(p->to, "{\"process\": ");
    (void)rpipe_observed_json(process, p->to);
    fprintf(p->to, ", \"channels\": [");
    for (struct kept *k = report_first; k != NULL; k = k->next) {
        k->row.name = p->name;
        k->row.value = k->value;
        fprintf(p->to, "%s\n ", k != report_first ? "," : "");
        (void)rpipe_observed_json(&k->row, p->to);
    }
    fprintf(p->to, "], \"not_kept\": %zu}\n", report_not_kept);
}

static int report_print_row(const rpipe_observed_t *process, void *argument)
{
    struct printing *p = argument;

    if (p->json)
        report_print_json(p, process);
    else
        report_print_table(p, process);
    return 1;
}

static FILE *report_open_report(const char *how, int rank, int ranks)
{
    char name[512];
    int fd;

    if (!report_file_name(how, rank, ranks, name, sizeof(name))) {
        log_warn("RPIPE_STATS: the name of the file is too long");
        return NULL;
    }
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        log_warn("RPIPE_STATS: %s cannot be written: %s", name, strerror(errno));
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

void report_print(int rank, int ranks)
{
    const char *how = setting_text(SET_STATS);
    size_t length = strlen(how);
    bool here = strcmp(how, "1") == 0 || strcmp(how, "json") == 0;
    struct printing p = {.json = length >= 4 && strcmp(how + length - 4, "json") == 0};
    rpipe_counter_info_t info;
    char *text = NULL;
    size_t bytes = 0;

    if (!report_is_wanted())
        return;
    for (int i = 0; rpipe_counter_describe(i, &info) == 0; i++) {
        p.name[i] = info.name;
        p.unit[i] = info.unit;
    }
    /* in one piece, so that what several processes say does not mix */
    p.to = here ? open_memstream(&text, &bytes) : report_open_report(how, rank, ranks);
    if (p.to != NULL && rpipe_observe(getpid(), report_print_row, &p) < 0)
        log_warn("RPIPE_STATS: %s", last_error_get());
    if (p.to != NULL && fclose(p.to) != 0)
        log_warn("RPIPE_STATS: %s cannot be written: %s%s", how, strerror(errno),
                 limit_of_file(errno));
    if (text != NULL)
        (void)!write(STDERR_FILENO, text, bytes);
    free(text);
    while (report_first != NULL) {
        struct kept *next = report_first->next;

        free(report_first);
        report_first = next;
    }
    report_last = NULL;
    report_kept = report_not_kept = 0;
}
