/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_stat.c: the counters of a running process and of its ends, read from outside, see
 * rmalloc_stat(1).
 *
 * The process is neither stopped nor involved: rinfo_observe reads the file that it publishes. A
 * snapshot is taken and printed. With an interval the next snapshot is printed as the difference to
 * the former one. An end is identified by its writer, reader, context, role and incarnation.
 */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <rinfo.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNTERS_MOST 64

static struct {
    bool json, all, table;
    int pid;         /* 0: every process */
    double interval; /* seconds between two snapshots; 0: one snapshot */
    long count;      /* of snapshots; 0: no limit */
} option;

/* ---- a snapshot ---- */

struct end {
    rinfo_row_t row; /* without its pointers, which are valid during the call only */
    uint64_t value[COUNTERS_MOST];
};

struct snapshot {
    struct timespec at;
    struct end process, *end;
    size_t pipes, room;
    char name[COUNTERS_MOST][40], unit[COUNTERS_MOST][24];
    char program[64], job[128];
    bool now[COUNTERS_MOST];
    int counters;
};

static void copy(struct end *to, const rinfo_row_t *row, int counters)
{
    to->row = *row;
    memcpy(to->value, row->value, (size_t)counters * sizeof(*row->value));
}

static int keep(const rinfo_row_t *row, void *argument)
{
    struct snapshot *s = argument;

    if (row->process) {
        s->counters = row->counters < COUNTERS_MOST ? row->counters : COUNTERS_MOST;
        for (int i = 0; i < s->counters; i++) {
            snprintf(s->name[i], sizeof(s->name[i]), "%s", row->name[i]);
            snprintf(s->unit[i], sizeof(s->unit[i]), "%s", row->unit[i]);
            s->now[i] = row->now[i];
        }
        snprintf(s->program, sizeof(s->program), "%s", row->program);
        snprintf(s->job, sizeof(s->job), "%s", row->job);
        copy(&s->process, row, s->counters);
        return 0;
    }
    if (s->pipes == s->room) {
        size_t room = s->room > 0 ? 2 * s->room : 64;
        struct end *more = realloc(s->end, room * sizeof(*more));

        if (more == NULL)
            return -ENOMEM;
        s->end = more;
        s->room = room;
    }
    copy(&s->end[s->pipes++], row, s->counters);
    return 0;
}

static int take(int pid, struct snapshot *s)
{
    s->pipes = 0;
    clock_gettime(CLOCK_MONOTONIC, &s->at);
    return rinfo_observe(pid, keep, s);
}

static int counter(const struct snapshot *s, const char *name)
{
    for (int i = 0; i < s->counters; i++)
        if (strcmp(s->name[i], name) == 0)
            return i;
    return -1;
}

static uint64_t value(const struct snapshot *s, const struct end *c, const char *name)
{
    int i = counter(s, name);

    return i >= 0 ? c->value[i] : 0;
}

static const struct end *same(const struct snapshot *s, const struct end *c)
{
    for (size_t i = 0; i < s->pipes; i++) {
        const rinfo_row_t *a = &s->end[i].row, *b = &c->row;

        if (a->from == b->from && a->to == b->to && a->context == b->context &&
            a->writer == b->writer && a->incarnation == b->incarnation)
            return &s->end[i];
    }
    return NULL;
}

/* ---- printing ---- */

/* "1>0.7": writer, reader, context. Contexts of rcontext and of the library have upper bits. */
static const char *end_name(const rinfo_row_t *row)
{
    static char name[64];

    snprintf(name, sizeof(name), row->context >> 61 == 0 ? "%d>%d.%llu" : "%d>%d.0x%llx", row->from,
             row->to, (unsigned long long)row->context);
    return name;
}

static void print_wait(const rinfo_row_t *row)
{
    if (row->waits_for[0] != '\0')
        printf("  waits %.3f s for %s", (double)row->waits_ns / 1e9, row->waits_for);
    putchar('\n');
}

static double seconds(const struct snapshot *from, const struct snapshot *to)
{
    double s = (double)(to->at.tv_sec - from->at.tv_sec) +
               (double)(to->at.tv_nsec - from->at.tv_nsec) / 1e9;

    return s > 0 ? s : 1e-9;
}

/*
 * Per second since `before`, or the sum without it. A smaller
 * value than before is of a new process with the same pid.
 */
static double amount(const struct snapshot *s, const struct end *c, const struct snapshot *before,
                     const struct end *then, const char *name)
{
    uint64_t now = value(s, c, name), old;

    if (before == NULL)
        return (double)now;
    old = then != NULL ? value(before, then, name) : 0;
    return now >= old ? (double)(now - old) / seconds(before, s) : 0;
}

/* Size of the heap, and how much of it is in messages that have been sent and not freed. */
static void print_heap(uint64_t bytes, uint64_t used)
{
    const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    int i = 0;

    for (; size >= 1024 && i < 4; i++)
        size /= 1024;
    printf(" %6.*f %-3s %6.1f %%", i > 0 && size < 100 ? 1 : 0, size, unit[i],
           bytes > 0 ? 100.0 * (double)used / (double)bytes : 0.0);
}

static void print_pipes(const struct snapshot *s, const struct snapshot *before)
{
    const char *each = before != NULL ? "/s" : "";
    char head[4][24];

    snprintf(head[0], sizeof(head[0]), "messages%s", each);
    snprintf(head[1], sizeof(head[1]), "bytes%s", each);
    snprintf(head[2], sizeof(head[2]), "stalls%s", each);
    snprintf(head[3], sizeof(head[3]), "sleeps%s", each);
    printf("%-14s %-6s %-7s %-11s %12s %14s %10s %10s %11s %10s %8s %7s\n", "pipe", "end",
           "backend", "state", head[0], head[1], head[2], head[3], "outstanding", "heap", "in use",
           "held");
    for (size_t i = 0; i < s->pipes; i++) {
        const struct end *c = &s->end[i], *then = before != NULL ? same(before, c) : NULL;
        printf(
            "%-14s %-6s %-7s %-11s %12.0f %14.0f %10.0f %10.0f %11llu", end_name(&c->row),
            c->row.writer ? "writer" : "reader", c->row.backend, c->row.state,
            amount(s, c, before, then, "messages"), amount(s, c, before, then, "bytes"),
            amount(s, c, before, then, "stalls_ring") + amount(s, c, before, then, "stalls_heap") +
                amount(s, c, before, then, "stalls_queue"),
            amount(s, c, before, then, "sleeps"), (unsigned long long)value(s, c, "outstanding"));
        print_heap(value(s, c, "heap_bytes"), value(s, c, "outstanding_bytes"));
        printf(" %7llu", (unsigned long long)value(s, c, "held"));
        print_wait(&c->row);
    }
}

static void print_sums(const struct snapshot *s, const struct snapshot *before)
{
    printf("%-18s %16s  %s%s\n", "counter", before != NULL ? "difference" : "value", "unit", "");
    for (int i = 0; i < s->counters; i++) {
        uint64_t now = s->process.value[i];

        if (before != NULL && !s->now[i] && before->counters == s->counters)
            now -= before->process.value[i] < now ? before->process.value[i] : now;
        if (now != 0 || option.all)
            printf("%-18s %16llu  %s%s\n", s->name[i], (unsigned long long)now, s->unit[i],
                   s->now[i] ? ", now" : "");
    }
}

static void print_process(const struct snapshot *s)
{
    const rinfo_row_t *p = &s->process.row;

    printf("pid %d %s  rank %d of %d (%s)  %.1f s  pipes: %llu open, %llu opened", p->pid,
           s->program, p->rank, p->ranks, s->job, (double)p->age_ns / 1e9,
           (unsigned long long)p->open, (unsigned long long)p->opened);
    print_wait(p);
}

static void print_text(const struct snapshot *s, const struct snapshot *before)
{
    print_process(s);
    print_pipes(s, before);
    print_sums(s, before);
}

static void print_json_row(const struct snapshot *s, const struct end *c)
{
    const char *name[COUNTERS_MOST];
    rinfo_row_t row = c->row;

    for (int i = 0; i < s->counters; i++)
        name[i] = s->name[i];
    row.counters = s->counters;
    row.name = name;
    row.value = c->value;
    row.program = s->program;
    row.job = s->job;
    (void)rinfo_json(&row, stdout);
}

static void print_json(const struct snapshot *s)
{
    printf("{\"process\": ");
    print_json_row(s, &s->process);
    printf(", \"pipes\": [");
    for (size_t i = 0; i < s->pipes; i++) {
        printf("%s\n ", i > 0 ? "," : "");
        print_json_row(s, &s->end[i]);
    }
    printf("]}\n");
}

/* ---- one process, or all ---- */

static int watch(int pid)
{
    static struct snapshot one, other;
    struct snapshot *now = &one, *before = NULL;
    long n = 0;

    for (;;) {
        int rc = take(pid, now);

        if (rc != 0) {
            if (n > 0) /* the process has ended between two snapshots */
                break;
            fprintf(stderr, "rmalloc_stat: %s\n",
                    rc == -ENOMEM ? "not enough memory" : rerror(NULL));
            return 1;
        }
        if (option.json)
            print_json(now);
        else
            print_text(now, before);
        fflush(stdout);
        n++;
        if (option.interval <= 0 || n == option.count)
            break;
        before = now;
        now = now == &one ? &other : &one;
        nanosleep(
            &(struct timespec){(time_t)option.interval,
                               (long)((option.interval - (double)(time_t)option.interval) * 1e9)},
            NULL);
        if (!option.json)
            putchar('\n');
    }
    free(one.end);
    free(other.end);
    return 0;
}

/* One line for each process that this user may observe, and its ends that wait. */
static int list(void)
{
    static struct snapshot s;
    struct dirent *e;
    DIR *proc = opendir("/proc");
    int found = 0;

    if (proc == NULL) {
        fprintf(stderr, "rmalloc_stat: /proc cannot be read: %s\n", strerror(errno));
        return 1;
    }
    while ((e = readdir(proc)) != NULL) {
        int pid = atoi(e->d_name);

        if (pid <= 0 || pid == getpid() || take(pid, &s) != 0)
            continue;
        found++;
        if (option.json) {
            print_json(&s);
            continue;
        }
        print_process(&s);
        for (size_t i = 0; i < s.pipes; i++) {
            const rinfo_row_t *row = &s.end[i].row;

            if (row->waits_for[0] == '\0' && !option.all)
                continue;
            printf("    %s %s %s", end_name(row), row->writer ? "writer" : "reader", row->state);
            print_wait(row);
        }
    }
    closedir(proc);
    free(s.end);
    if (found == 0)
        fprintf(stderr, "rmalloc_stat: no process of this user publishes counters\n");
    return found == 0;
}

static int describe(void)
{
    const rinfo_counter_t *c;

    for (int i = 0; (c = rinfo_counter(i)) != NULL; i++)
        if (strcmp(c->scope, "pipe") == 0)
            printf("%-18s %-10s %s\n", c->name, c->unit, c->meaning);
    return 0;
}

/* ---- options ---- */

static double number(struct argp_state *state, const char *what, const char *text, double least)
{
    char *end;
    double value = strtod(text, &end);

    if (*text == '\0' || *end != '\0' || !(value >= least) || value > 1e9)
        argp_error(state, "%s is \"%s\"; it must be a number from %g to 1e9", what, text, least);
    return value;
}

static long whole(struct argp_state *state, const char *what, const char *text)
{
    double value = number(state, what, text, 1);

    if (value != (double)(long)value)
        argp_error(state, "%s is \"%s\"; it must be a whole number", what, text);
    return (long)value;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'j':
        option.json = true;
        return 0;
    case 'a':
        option.all = true;
        return 0;
    case 'c':
        option.table = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            option.pid = (int)whole(state, "PID", arg);
        else if (state->arg_num == 1)
            option.interval = number(state, "INTERVAL (s)", arg, 0.001);
        else if (state->arg_num == 2)
            option.count = whole(state, "COUNT", arg);
        else
            argp_error(
                state,
                "\"%s\" is one argument too many; at most PID, INTERVAL and COUNT are possible",
                arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"all", 'a', NULL, 0, "Also counters that are 0; without PID: also pipes that do not wait", 0},
    {"counters", 'c', NULL, 0, "Lists all counters with their meaning and exits", 0},
    {"json", 'j', NULL, 0, "JSON output, one object for each snapshot", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp option_parser = {
    option_table,
    parse_option,
    "[PID [INTERVAL [COUNT]]]",
    "Shows the counters of a running process and of its pipes; without PID one line for each "
    "process. INTERVAL is in seconds: from the second snapshot on, values are differences to the "
    "former one.",
    NULL,
    NULL,
    NULL};

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "rmalloc_stat %s\n", rinfo_version());
}

int main(int argc, char **argv)
{
    argp_program_version_hook = print_version;
    argp_parse(&option_parser, argc, argv, 0, NULL, NULL);
    if (option.table)
        return describe();
    return option.pid != 0 ? watch(option.pid) : list();
}
