/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What RPIPE_STATS and RPIPE_TRACE leave behind, and what is reported where that cannot be done: more channels than a table has columns, files
 * with names made of parts, disks that are full, places where nothing can be made. test/observe and test/trace check what is in good
 * ones. Each environment is tried in a process of its own, which has to end well whatever becomes of its report.
 */
#include "test/lib/pair.h"

#include "observe/record/file_name.h"
#include "observe/record/trace.h"

#include <sys/resource.h>
#include <sys/stat.h>

static char directory[] = "/tmp/test_report.XXXXXX";

static const char *in_directory(const char *name)
{
    static char path[2][128];
    static int which;

    which = 1 - which;
    snprintf(path[which], sizeof(path[which]), "%s/%s", directory, name);
    return path[which];
}

/* ---- a process ---- */

struct limit {
    rlim_t at_start,
        later; /* of files, in bytes; RLIM_INFINITY: none. Only for so long as the job lasts, or for one channel */
    bool forks, at_once; /* at_once: the pipes are not closed */
};
static const struct limit none = {RLIM_INFINITY, RLIM_INFINITY, false, false};

/* In a process of its own, whose limit would cut off the message of a failure. */
static void limit_files(rlim_t bytes)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_FSIZE, &l) != 0)
        _exit(98);
    l.rlim_cur = bytes < l.rlim_max ? bytes : l.rlim_max;
    if (setrlimit(RLIMIT_FSIZE, &l) != 0)
        _exit(98);
}

static void unlimited(void) { limit_files(RLIM_INFINITY); }

static void child_of_the_job(void)
{
    pid_t pid;
    int status = -1;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(rexit() == -ENOTCONN ? 0 : 1); /* and reports nothing: that would be twice */
    CHECK(NULL, pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(NULL, status == 0);
}

static void one_pipe(uint32_t ctx, bool closes)
{
    rpipe_config_t w = {0}, r;
    struct pair p;
    raddr_t d;

    w.op = RPIPE_PUT;
    w.peer = 0;
    w.heap_bytes = 4096;
    w.role = RPIPE_WRITER;
    w.context = ctx;
    r = w;
    r.role = RPIPE_READER;
    CHECK(NULL, rpipe(&p.w, &w) == 0 && rpipe(&p.r, &r) == 0);
    CHECK(NULL, rwait(p.w) == 0 && rwait(p.r) == 0);
    CHECK(NULL, (d = rmalloc(p.w, 100)) != ADDR_NULL && rwrite(p.w, d) == 0);
    CHECK(NULL, rread(p.r, &d, NULL) == 0 && rfree(p.r, d) == 0);
    CHECK(NULL, !closes || (rclose(p.w) == 0 && rclose(p.r) == 0));
}

static void job(int pipes, const struct limit *limit)
{
    check_context = unlimited;
    limit_files(limit->at_start);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    limit_files(limit->later);
    CHECK(NULL, network_barrier() == 0); /* the first call that is recorded */
    limit_files(RLIM_INFINITY);
    for (int i = 0; i < pipes; i++)
        one_pipe((uint32_t)i, !limit->at_once);
    if (limit->forks)
        child_of_the_job();
    CHECK(NULL, rexit() == 0);
}

/* What a process with this in its environment writes to standard error, which is no file: the limits of those are not about it. */
static const char *output_of(const char *name, const char *value, int pipes,
                             const struct limit *limit)
{
    static char text[65536];
    int output[2], status = -1;
    size_t bytes = 0;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe(output), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        setenv(name, value, 1);
        if (dup2(output[1], 2) < 0)
            _exit(99);
        close(output[0]);
        close(output[1]);
        job(pipes, limit);
        exit(0);
    }
    close(output[1]);
    while ((got = read(output[0], text + bytes, sizeof(text) - 1 - bytes)) > 0)
        bytes += (size_t)got;
    text[bytes] = '\0';
    close(output[0]);
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (status != 0)
        fail_msg("%s=%s: status 0x%x: %s", name, value, (unsigned)status, text);
    return text;
}

static void has(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("no \"%s\" in: %s", words, text);
}

static int occurrences(const char *text, const char *words)
{
    int n = 0;

    for (; (text = strstr(text, words)) != NULL; text++)
        n++;
    return n;
}

static const char *content(const char *path)
{
    static char text[65536];
    FILE *f = fopen(path, "re");
    size_t bytes;

    if (f == NULL)
        fail_msg("there is no %s", path);
    bytes = fread(text, 1, sizeof(text) - 1, f);
    text[bytes] = '\0';
    fclose(f);
    assert_int_equal(unlink(path), 0);
    return text;
}

/* ---- RPIPE_STATS ---- */

static void table(void **state)
{
    const char *text;

    (void)state;
    text = output_of("RPIPE_STATS", "1", 2, &none);
    has(text, "rmalloc: rank 0 of 1, pid ");
    has(text, "0>0.0 w shm");
    assert_null(strstr(text, "more ends were open"));
    text = output_of("RPIPE_STATS", "1", 4, &none); /* eight ends */
    has(text, ": 8 ends in ");
    has(text, "more ends were open; RPIPE_STATS=json reports each");
    assert_string_equal(output_of("RPIPE_STATS", "0", 1, &none), "");
    assert_string_equal(output_of("RPIPE_STATS", "", 1, &none), "");
    text = output_of("RPIPE_STATS", "1", 0, &none);
    has(text, ": 0 ends in ");
}

static void json(void **state)
{
    const char *text;

    (void)state;
    text = output_of("RPIPE_STATS", "json", 4, &none);
    assert_int_equal(strncmp(text, "{\"process\": {", 13), 0);
    assert_int_equal(occurrences(text, "\"state\": \"closed\""), 8);
    assert_int_equal(occurrences(text, "\"role\": \"writer\""), 4);
    has(text, "\"not_kept\": 0}");
}

static void files(void **state)
{
    (void)state;
    assert_string_equal(output_of("RPIPE_STATS", in_directory("of.%r.%%"), 1, &none), "");
    has(content(in_directory("of.0.%")), "rmalloc: rank 0 of 1");
    assert_string_equal(output_of("RPIPE_STATS", in_directory("one.json"), 1, &none), "");
    has(content(in_directory("one.json")), "{\"process\": {");
    has(output_of("RPIPE_STATS", in_directory("no/such"), 1, &none),
        "cannot be written: No such file");
    has(output_of("RPIPE_STATS", "/dev/full", 1, &none),
        "/dev/full cannot be written: No space left");
}

/* The name of a file, %p apart, which is of this process. */
static void names(void **state)
{
    char name[32], own[32];

    (void)state;
    snprintf(own, sizeof(own), "a%dz", (int)getpid());
    assert_true(file_name_expand("a%pz", 3, 8, name, sizeof(name)));
    assert_string_equal(name, own);
    assert_true(file_name_expand("a%rz", 3, 8, name, sizeof(name)));
    assert_string_equal(name, "a3z");
    assert_true(file_name_expand("a%%z", 3, 8, name, sizeof(name)));
    assert_string_equal(name, "a%z.3"); /* several must not write into one */
    assert_true(file_name_expand("a%%z", 0, 1, name, sizeof(name)));
    assert_string_equal(name, "a%z");
    assert_true(file_name_expand("a%q%", 0, 1, name, sizeof(name)));
    assert_string_equal(name, "a%q%");
    assert_false(file_name_expand("0123456789", 0, 1, name, 10));
    assert_true(file_name_expand("0123456789", 0, 1, name, 11));
    assert_false(file_name_expand("01234567", 3, 8, name, 10)); /* .3 does not fit */
    assert_true(file_name_expand("01234567", 3, 8, name, 11));
    assert_string_equal(name, "01234567.3");
    assert_false(file_name_expand("%r%r%r%r%r", 12345678, 99999999, name, sizeof(name)));
}

/* ---- RPIPE_TRACE ---- */

static void traces(void **state)
{
    const struct limit forks = {RLIM_INFINITY, RLIM_INFINITY, true, false};
    const char *text;

    (void)state;
    assert_string_equal(output_of("RPIPE_TRACE", in_directory("trace"), 1, &forks), "");
    text = content(in_directory("trace"));
    has(text, "\"rwrite\"");
    has(text, "\"rread\"");
    assert_int_equal(access(in_directory("trace.raw"), F_OK), -1);
    has(output_of("RPIPE_TRACE", in_directory("no/such"), 1, &none), "there is no trace");
}

/* A place that cannot be written when the job is over: what was recorded stays, and is reported. */
static void trace_of_records_alone(void **state)
{
    const char *text;

    (void)state;
    assert_int_equal(mkdir(in_directory("taken"), 0700), 0);
    text = output_of("RPIPE_TRACE", in_directory("taken"), 1, &none);
    has(text, "cannot be written: Is a directory; rmalloc_trace(1) can make it of ");
    has(text, "taken.raw");
    assert_int_equal(unlink(in_directory("taken.raw")), 0);
    assert_int_equal(rmdir(in_directory("taken")), 0);
}

/* A limit of files is no signal: no trace at all, or one in which a thread is missing. */
static void trace_beyond_a_limit(void **state)
{
    const struct limit small = {100000, RLIM_INFINITY, false,
                                false}; /* less than the head of a trace */
    const struct limit later = {RLIM_INFINITY, 100000, false, false};

    (void)state;
    has(output_of("RPIPE_TRACE", in_directory("small"), 0, &small), "there is no trace");
    assert_int_equal(access(in_directory("small.raw"), F_OK), -1);
    has(output_of("RPIPE_TRACE", in_directory("later"), 1, &later),
        "of this process is not recorded: File too large");
    assert_null(strstr(content(in_directory("later")), "\"rwrite\""));
}

/* Rows of closed ends are used again: the last pipe is in the trace, by its own name. */
static void rows_of_closed_ends_are_used_again(void **state)
{
    const int pipes = (int)TRACE_ENDS / 2 + 3;
    const char *text;
    char name[32];

    (void)state;
    setenv("RPIPE_TRACE_EVENTS", "64", 1);
    assert_string_equal(output_of("RPIPE_TRACE", in_directory("many"), pipes, &none), "");
    unsetenv("RPIPE_TRACE_EVENTS");
    snprintf(name, sizeof(name), "\"0>0.%d writer", pipes - 1);
    text = content(in_directory("many"));
    has(text, name);
    assert_null(strstr(text, "\"0>0.0 writer"));
}

/* There are rows for so many ends; the rest is reported once, and works. */
static void more_ends_than_rows(void **state)
{
    const struct limit at_once = {RLIM_INFINITY, RLIM_INFINITY, false, true};
    const char *text;

    (void)state;
    setenv("RPIPE_TRACE_EVENTS", "64", 1);
    text = output_of("RPIPE_TRACE", in_directory("open"), (int)TRACE_ENDS / 2 + 3, &at_once);
    unsetenv("RPIPE_TRACE_EVENTS");
    assert_int_equal(occurrences(text, "that are open at a time are traced"), 1);
    has(content(in_directory("open")), "\"rclose\""); /* the last 64 events */
}

static int make_directory(void **state)
{
    (void)state;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_LOG", "warn", 1);
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory); /* nothing else was left behind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(json),
        cmocka_unit_test(files),
        cmocka_unit_test(names),
        cmocka_unit_test(traces),
        cmocka_unit_test(trace_of_records_alone),
        cmocka_unit_test(trace_beyond_a_limit),
        cmocka_unit_test(rows_of_closed_ends_are_used_again),
        cmocka_unit_test(more_ends_than_rows),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
