/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_trace.c: makes one trace of the traces of a job's processes (RPIPE_TRACE), see rmalloc_trace(1).
 *
 * A file is JSON, as rexit writes it: the first line tells the clock, then comes one event a line; or the records of a process that has
 * not come to rexit, of which the library makes such JSON. Events are passed on as they are, but for their times: those of
 * processes that ran under another kernel are moved by what the real-time clocks say.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *output;
    bool left; /* clocks are left as they are */
} option;

struct merging {
    FILE *to;
    bool any;             /* an event has been printed */
    char boot[40];        /* the kernel whose clock all use, */
    long long offset;     /* and what its real-time clock is ahead, ns */
    unsigned long events; /* of all files */
};

/* The text behind "key": in a line; NULL: it is not there. */
static const char *behind(const char *line, const char *key)
{
    const char *at = strstr(line, key);

    return at != NULL ? at + strlen(key) : NULL;
}

static bool read_clock(const char *line, char boot[40], long long *offset)
{
    const char *at = behind(line, "\"boot\": \""), *number = behind(line, "\"clock_offset_ns\": ");
    size_t length = at != NULL ? strcspn(at, "\"") : 0;

    if (at == NULL || number == NULL || length >= 40)
        return false;
    memcpy(boot, at, length);
    boot[length] = '\0';
    return sscanf(number, "%lld", offset) == 1;
}

/* One event, without its comma; its time, if it has one, moved. */
static void pass_on(struct merging *m, const char *line, long long moved_ns)
{
    const char *at = behind(line, "\"ts\": ");
    long long us, ns;
    int length;

    fputs(m->any ? ",\n" : "\n", m->to);
    m->any = true;
    m->events++;
    if (at == NULL || moved_ns == 0 || sscanf(at, "%lld.%3lld%n", &us, &ns, &length) != 2) {
        fputs(line, m->to);
        return;
    }
    ns += us * 1000 + moved_ns;
    fprintf(m->to, "%.*s%lld.%03lld%s", (int)(at - line), line, ns / 1000, ns % 1000, at + length);
}

static int merge(struct merging *m, const char *name, FILE *from)
{
    char *line = NULL, boot[40];
    size_t room = 0;
    ssize_t length;
    long long offset, moved = 0;

    if (getline(&line, &room, from) < 0 || strstr(line, "\"traceEvents\": [") == NULL ||
        !read_clock(line, boot, &offset)) {
        fprintf(stderr, "rmalloc_trace: %s is no trace of one process that RPIPE_TRACE has made\n", name);
        free(line);
        return 1;
    }
    if (m->boot[0] == '\0') {
        strcpy(m->boot, boot);
        m->offset = offset;
    } else if (!option.left && strcmp(boot, m->boot) != 0) {
        moved = offset - m->offset;
    }
    while ((length = getline(&line, &room, from)) > 0 && line[0] == '{') {
        while (length > 0 && strchr(",\n", line[length - 1]) != NULL)
            line[--length] = '\0';
        pass_on(m, line, moved);
    }
    free(line);
    return 0;
}

/* Records are made JSON first, in a file without a name. */
static FILE *open_json(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    char first = '\0';
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
    if (json == NULL || rpipe_trace_json(fd, json) != 0) {
        fprintf(stderr, "rmalloc_trace: %s: %s\n", name, json != NULL ? rpipe_error(NULL) : strerror(errno));
        if (json != NULL)
            fclose(json);
        json = NULL;
    }
    close(fd);
    if (json != NULL)
        rewind(json);
    return json;
}

static int merge_all(char **name, struct merging *m)
{
    int status = 0;

    fprintf(m->to, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    for (; *name != NULL; name++) {
        FILE *from = open_json(*name);

        if (from == NULL || merge(m, *name, from) != 0)
            status = 1; /* the others are worth something, too */
        if (from != NULL)
            fclose(from);
    }
    fprintf(m->to, "\n]}\n");
    return status;
}

static char **names;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'o':
        option.output = arg;
        return 0;
    case 'l':
        option.left = true;
        return 0;
    case ARGP_KEY_ARGS:
        names = state->argv + state->next;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which files?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"leave-clocks", 'l', NULL, 0, "Does not move the times of other hosts", 0},
    {"output", 'o', "FILE", 0, "The trace; default: standard output", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp option_parser = {option_table,
                                          parse_option,
                                          "FILE...",
                                          "Makes one trace, for Perfetto or chrome://tracing, of the files that "
                                          "RPIPE_TRACE has left; those that end in .raw are of "
                                          "processes that have not come to rexit.",
                                          NULL,
                                          NULL,
                                          NULL};

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "rmalloc_trace %s\n", rmalloc_version());
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
    status = merge_all(names, &m);
    if (fclose(m.to) != 0) {
        fprintf(stderr, "rmalloc_trace: the trace cannot be written: %s\n", strerror(errno));
        return 1;
    }
    if (option.output != NULL)
        printf("%lu events in %s\n", m.events, option.output);
    return status;
}
