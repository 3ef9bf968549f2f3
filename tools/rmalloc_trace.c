/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_trace.c: merges the traces of the processes of a job (RPIPE_TRACE), see rmalloc_trace(1).
 *
 * A file is JSON as rexit writes it: the first line describes the clock, then each line is one
 * event. Or it has the records of a process that did not reach rexit; the library converts them to
 * such JSON. Events are copied; only their times are converted to one clock (trace_align.c). The
 * first lines of all files are read first, because a measurement in one file holds for all files
 * with the same clock.
 */
#include "trace_align.h"
#include "trace_summary.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <rinfo.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUMMARY_WAITS 20 /* longest waits in a summary, by default */

static struct {
    const char *output;
    bool unaligned; /* times are not converted */
    int summary;    /* waits to be listed; 0: no summary but the trace */
} option;

struct merging {
    FILE *to;
    struct trace_summary *summary; /* NULL: the events are printed */
    bool any;                      /* an event has been printed */
    unsigned long events;          /* of all files */
};

/* ---- events ---- */

/* Finds "KEY": MICROSECONDS.DDD in a line: position and length of the number, value in ns. */
static const char *find_time(const char *line, const char *key, int *length, long long *ns)
{
    const char *at = text_after(line, key);
    long long us, rest;

    if (at == NULL || sscanf(at, "%lld.%3lld%n", &us, &rest, length) != 2 || us < 0 ||
        us > TIME_MOST / 1000)
        return NULL;
    *ns = us * 1000 + rest;
    return at;
}

static void print_time(FILE *to, long long ns)
{
    if (ns < 0)
        ns = 0;
    fprintf(to, "%lld.%03lld", ns / 1000, ns % 1000);
}

static void begin_event(struct merging *m)
{
    fputs(m->any ? ",\n" : "\n", m->to);
    m->any = true;
    m->events++;
}

/*
 * Copies one event, without its comma. Its end is converted
 * separately, so nested events stay nested if clocks drift.
 */
static void copy_event(struct merging *m, const char *line, const struct alignment *a)
{
    long long begin, lasts, moved;
    int length, length_lasts;
    const char *at = find_time(line, "\"ts\": ", &length, &begin), *more;

    begin_event(m);
    if (at == NULL || (a->ahead == 0 && a->slope == 0)) {
        fputs(line, m->to);
        return;
    }
    moved = begin + alignment_moves(a, begin);
    fprintf(m->to, "%.*s", (int)(at - line), line);
    print_time(m->to, moved);
    at += length;
    more = find_time(at, "\"dur\": ", &length_lasts, &lasts);
    if (more != NULL) {
        fprintf(m->to, "%.*s", (int)(more - at), at);
        print_time(m->to, begin + lasts + alignment_moves(a, begin + lasts) - moved);
        at = more + length_lasts;
    }
    fputs(at, m->to);
}

/* Shows at the rank by how much its times were moved, and how exact that is. */
static void print_label(struct merging *m, const struct trace_head *head, const struct alignment *a)
{
    char text[160];

    if (a->way == UNALIGNED || alignment_is_identity(a))
        return;
    alignment_text(a, text, sizeof(text));
    begin_event(m);
    m->events--; /* a label is no event of the job */
    fprintf(m->to,
            "{\"name\": \"process_labels\", \"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"args\": "
            "{\"labels\": \"%s\"}}",
            head->rank, text);
}

/* ---- files ---- */

/* Opens a trace; records are converted to JSON in a temporary file. */
static FILE *open_json(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    char first = 0;
    FILE *json;

    if (fd < 0) {
        fprintf(stderr, "rmalloc_trace: %s: %s\n", name, strerror(errno));
        return NULL;
    }
    if (pread(fd, &first, 1, 0) == 1 && first == '{') {
        json = fdopen(fd, "r");
        if (json == NULL)
            close(fd);
        return json;
    }
    json = tmpfile();
    if (json == NULL || rinfo_trace_json(fd, json) != 0) {
        fprintf(stderr, "rmalloc_trace: %s: %s\n", name,
                json != NULL ? rerror(NULL) : strerror(errno));
        if (json != NULL)
            fclose(json);
        json = NULL;
    }
    close(fd);
    if (json != NULL)
        rewind(json);
    return json;
}

static bool read_head(const char *name, struct trace_head *head)
{
    FILE *from = open_json(name);
    char *line = NULL;
    size_t room = 0;

    if (from == NULL)
        return false;
    head->usable = getline(&line, &room, from) > 0 && trace_head_parse(line, head);
    if (!head->usable)
        fprintf(stderr, "rmalloc_trace: %s is not the trace of a process (RPIPE_TRACE)\n", name);
    free(line);
    fclose(from);
    return head->usable;
}

static bool merge(struct merging *m, const char *name, const struct trace_head *head,
                  const struct alignment *a)
{
    FILE *from = open_json(name);
    char *line = NULL;
    size_t room = 0;
    ssize_t length;

    if (from == NULL)
        return false;
    if (getline(&line, &room, from) > 0) {
        while ((length = getline(&line, &room, from)) > 0 && line[0] == '{') {
            while (length > 0 && strchr(",\n", line[length - 1]) != NULL)
                line[--length] = '\0';
            if (m->summary == NULL)
                copy_event(m, line, a);
            else if (!trace_summary_add(m->summary, line))
                break;
        }
    }
    if (m->summary == NULL)
        print_label(m, head, a);
    free(line);
    fclose(from);
    return true;
}

static void print_clocks(FILE *to, const struct trace_head *head, const struct alignment *a, int n)
{
    const char *between = "";

    fprintf(to, "\n], \"otherData\": {\"clocks\": [");
    for (int i = 0; i < n; i++) {
        if (!head[i].usable)
            continue;
        fprintf(to,
                "%s\n {\"rank\": %d, \"host\": \"%s\", \"clock\": \"%s\", \"moved_ns\": %lld, "
                "\"uncertainty_ns\": ",
                between, head[i].rank, head[i].host, head[i].clock, a[i].ahead);
        if (a[i].error >= 0)
            fprintf(to, "%lld", a[i].error);
        else
            fprintf(to, "null");
        fprintf(to, ", \"by\": \"%s\"}", alignment_way(a[i].way));
        between = ",";
    }
    fprintf(to, "\n]}}\n");
}

/* With --output: one line for each clock. */
static void list_clocks(const struct trace_head *head, const struct alignment *a, int n)
{
    char text[160];
    int k;

    for (int i = 0; i < n; i++) {
        for (k = 0; k < i && !(head[k].usable && strcmp(head[k].clock, head[i].clock) == 0); k++)
            ;
        if (!head[i].usable || k < i || a[i].way == UNALIGNED || alignment_is_identity(&a[i]))
            continue;
        alignment_text(&a[i], text, sizeof(text));
        printf("rank %d on %s: %s\n", head[i].rank, head[i].host, text);
    }
}

static int merge_all(char **name, struct merging *m)
{
    struct alignment *a;
    struct trace_head *head;
    int status = 0, n;

    for (n = 0; name[n] != NULL; n++)
        ;
    head = calloc((size_t)n + 1, sizeof(*head));
    a = calloc((size_t)n + 1, sizeof(*a));
    if (head == NULL || a == NULL) {
        fprintf(stderr, "rmalloc_trace: not enough memory for %d files\n", n);
        free(head);
        free(a);
        return 1;
    }
    for (int i = 0; i < n; i++)
        if (!read_head(name[i], &head[i]))
            status = 1; /* the others are merged all the same */
    trace_align(head, a, n, option.unaligned);
    if (m->summary == NULL)
        fprintf(m->to, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    for (int i = 0; i < n; i++)
        if (head[i].usable && !merge(m, name[i], &head[i], &a[i]))
            status = 1;
    if (m->summary != NULL) {
        trace_summary_print(m->summary, m->to, option.summary);
    } else {
        print_clocks(m->to, head, a, n);
    }
    if (m->summary == NULL && option.output != NULL) {
        printf("%lu events in %s\n", m->events, option.output);
        list_clocks(head, a, n);
    }
    free(head);
    free(a);
    return status;
}

/* ---- options ---- */

static char **names;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'o':
        option.output = arg;
        return 0;
    case 'l':
        option.unaligned = true;
        return 0;
    case 's':
        option.summary = arg != NULL ? atoi(arg) : SUMMARY_WAITS;
        if (option.summary < 1)
            argp_error(state, "--summary=%s is not a number of waits, 1 or more", arg);
        return 0;
    case ARGP_KEY_ARGS:
        names = state->argv + state->next;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no FILE is given; name the files that RPIPE_TRACE has written");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"leave-clocks", 'l', NULL, 0, "Leaves times as they are", 0},
    {"output", 'o', "FILE", 0, "Output file; default: standard output", 0},
    {"summary", 's', "N", OPTION_ARG_OPTIONAL,
     "Prints where the time went, and no trace: the N longest waits (20), the pipes, calls that "
     "have not ended",
     0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp option_parser = {
    option_table,
    parse_option,
    "FILE...",
    "Merges the files of RPIPE_TRACE into one trace for Perfetto or chrome://tracing. Files "
    "that end in .raw are of processes that did not reach rexit.",
    NULL,
    NULL,
    NULL};

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "rmalloc_trace %s\n", rinfo_version());
}

int main(int argc, char **argv)
{
    struct merging m = {.to = stdout};
    int status;

    argp_program_version_hook = print_version;
    argp_parse(&option_parser, argc, argv, 0, NULL, NULL);
    if (option.output != NULL)
        m.to = fopen(option.output, "we");
    if (m.to == NULL) {
        fprintf(stderr, "rmalloc_trace: %s: %s\n", option.output, strerror(errno));
        return 1;
    }
    if (option.summary > 0 && (m.summary = trace_summary_new()) == NULL) {
        fprintf(stderr, "rmalloc_trace: not enough memory for a summary\n");
        fclose(m.to);
        return 1;
    }
    status = merge_all(names, &m);
    trace_summary_free(m.summary);
    if (fclose(m.to) != 0) {
        fprintf(stderr, "rmalloc_trace: the trace cannot be written: %s\n", strerror(errno));
        return 1;
    }
    return status;
}
