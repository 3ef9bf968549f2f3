/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process shows of itself, read by rpipe_observe: a true file first, then the same file with words and bytes of it
 * replaced by others, cut, and made of noise. Nothing of that may crash the reader, or keep it busy for longer than a file of
 * that length deserves. The seed is printed; an argument that is a number is the seed.
 */
#include "test/lib/check.h"
#include "test/lib/random.h"
#include "observe/record/publish.h"
#include "observe/report/observe_file.h"
#include "util/clock.h"
#include "test/lib/counts.h"
#include <rpipe.h>

#include <errno.h>
#include <rinfo.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUNDS = 3000, MESSAGES = 10 };
static uint64_t seed;

static uint64_t draw(void) { return random_draw(&seed); }

static rch_t open_end(bool writer)
{
    rpipe_config_t cfg = {0};
    rch_t ch = NULL;

    cfg.op = RPIPE_PUT;
    cfg.peer = 0;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = 65536;
    cfg.context = 7;
    assert_int_equal(rpipe(&ch, &cfg), 0);
    return ch;
}

struct seen {
    int rows, processes;
    uint64_t messages, bytes, outstanding;
    bool ends[2];
    size_t text; /* so that all of it is read */
};

static int look(const rinfo_row_t *row, void *argument)
{
    struct seen *s = argument;

    s->rows++;
    s->processes += row->process;
    assert_true(row->counters >= 0 && row->counters <= PUBLISHED_COUNTERS);
    for (int i = 0; i < row->counters; i++) {
        s->text += strlen(row->name[i]) + strlen(row->unit[i]) + row->now[i];
        if (row->process && strcmp(row->name[i], "messages") == 0)
            s->messages = row->value[i];
        if (row->process && strcmp(row->name[i], "bytes") == 0)
            s->bytes = row->value[i];
        if (!row->process && strcmp(row->name[i], "outstanding") == 0)
            s->outstanding += row->value[i];
    }
    s->text += strlen(row->backend) + strlen(row->state) + strlen(row->waits_for);
    if (!row->process && row->context == 7)
        s->ends[row->writer] = true;
    return 0;
}

static void pass(rch_t w, rch_t r, int n)
{
    for (int i = 0; i < n; i++) {
        raddr_t d = rmalloc(w, 100);

        assert_true(d != ADDR_NULL);
        assert_int_equal(rwrite(w, d), 0);
        assert_int_equal(rread(r, &d, NULL), 0);
        assert_int_equal(rfree(r, d), 0);
    }
}

/* ---- what is true ---- */

static void true_file(void **state)
{
    rch_t w = open_end(true), r = open_end(false);
    uint64_t value = 4711;
    struct seen s = {0};

    (void)state;
    pass(w, r, MESSAGES);
    assert_int_equal(rinfo_observe(getpid(), look, &s), 0);
    assert_int_equal(s.rows, 3);
    assert_int_equal(s.processes, 1);
    assert_int_equal(s.messages, 2 * MESSAGES);
    assert_int_equal(s.bytes, 2 * MESSAGES * 100);
    assert_true(s.ends[0] && s.ends[1]);

    assert_int_equal(rinfo_count(w, "messages", &value), 0);
    assert_int_equal(value, MESSAGES);
    assert_int_equal(rinfo_count(r, "bytes", &value), 0);
    assert_int_equal(value, MESSAGES * 100);
    assert_int_equal(rinfo_count(w, "heap_messages", &value), 0);
    assert_int_equal(value, MESSAGES);
    assert_int_equal(rinfo_count(w, "no such", &value), -ENOENT);
    assert_non_null(strstr(rerror(w), "no counter has the name"));
    assert_int_equal(rinfo_count(w, NULL, &value), -EINVAL);
    assert_int_equal(rinfo_count(NULL, "messages", NULL), -EINVAL);
    assert_int_equal(rinfo_count(w, "errors", &value), 0);
    assert_int_equal(value, 2);

    /* what is closed counts in the sums, and is not there any more */
    assert_int_equal(rclose(w), 0);
    assert_int_equal(rclose(r), 0);
    s = (struct seen){0};
    assert_int_equal(rinfo_observe(getpid(), look, &s), 0);
    assert_int_equal(s.rows, 1);
    assert_int_equal(rinfo_count(NULL, "messages", &value), 0);
    assert_int_equal(value, 2 * MESSAGES);
    assert_int_equal(rinfo_count(NULL, "held", &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(rinfo_count(w, "messages", &value), -ENOTCONN);
}

static void of_a_channel(const char *name, rch_t ch, uint64_t expected)
{
    uint64_t value = UINT64_MAX;

    assert_int_equal(rinfo_count(ch, name, &value), 0);
    assert_int_equal(value, expected);
}

/* each that is a member of the statistics is the same as there */
static void like_statistics(void **state)
{
    rch_t w = open_end(true), r = open_end(false);
    struct pipe_counts ws = {0}, rs = {0};
    raddr_t d;

    (void)state;
    pass(w, r, MESSAGES);
    assert_int_equal(rread_nb(r, &d, NULL), R_PENDING);
    assert_int_equal(rset_timeout(r, 1), 0);
    assert_int_equal(rread(r, &d, NULL), -ETIMEDOUT);
    d = rmalloc(w, 1000);
    assert_true(d != ADDR_NULL);
    assert_int_equal(pipe_counts(w, &ws), 0);
    assert_int_equal(pipe_counts(r, &rs), 0);
    of_a_channel("messages", w, ws.messages);
    of_a_channel("messages", r, rs.messages);
    of_a_channel("bytes", w, ws.bytes);
    of_a_channel("inline_messages", w, ws.inline_messages);
    of_a_channel("inline_messages", r, rs.inline_messages);
    of_a_channel("held", w, 1);
    of_a_channel("held", r, rs.held);
    of_a_channel("returned", w, ws.returned);
    of_a_channel("returned", r, rs.returned);
    of_a_channel("credit_fetches", w, ws.credit_fetches);
    of_a_channel("stalls_ring", r, rs.stalls_ring);
    of_a_channel("sleeps", r, rs.sleeps);
    of_a_channel("timeouts", r, 1);
    of_a_channel("errors", r, 1);
    assert_int_equal(rfree(w, d), 0);
    assert_int_equal(rclose(w), 0);
    assert_int_equal(rclose(r), 0);
}

static void described(void **state)
{
    const rinfo_counter_t *c;
    int n, pipes = 0;

    (void)state;
    for (n = 0; (c = rinfo_counter(n)) != NULL; n++) {
        const rinfo_counter_t one = *c;

        assert_true(strlen(one.name) > 0 &&
                    strlen(one.name) < sizeof(((struct published_counter *)0)->name));
        assert_true(strlen(one.unit) > 0 &&
                    strlen(one.unit) < sizeof(((struct published_counter *)0)->unit));
        assert_true(strlen(one.meaning) > 0);
        assert_true(strcmp(one.scope, "pipe") == 0 || strcmp(one.scope, "ram") == 0);
        pipes += strcmp(one.scope, "pipe") == 0;
        for (int i = 0; i < n; i++) {
            c = rinfo_counter(i);
            assert_non_null(c);
            assert_false(strcmp(one.name, c->name) == 0 && strcmp(one.scope, c->scope) == 0);
        }
    }
    assert_true(pipes > 20 && n > pipes);
    assert_null(rinfo_counter(n));
    assert_null(rinfo_counter(-1));
}

/* The description is that of the configuration, and a caller with another structure gets what both have. */
static void description(void **state)
{
    rch_t w = open_end(true), r = open_end(false);
    struct {
        rinfo_pipe_t known;
        char later[16];
    } newer;
    rinfo_pipe_t p;
    raddr_t d;

    (void)state;
    memset(&p, 0x5a, sizeof(p));
    assert_int_equal(rinfo_describe(w, &p), 0);
    assert_int_equal(p.role, RPIPE_WRITER);
    assert_int_equal(rwait(w), 0);
    assert_int_equal(rwait(r), 0);
    assert_int_equal(rinfo_describe(r, &p), 0);
    assert_int_equal(p.role, RPIPE_READER);
    assert_int_equal(p.peer, 0);
    assert_int_equal(p.context, 7);
    assert_int_equal(p.op, RPIPE_PUT);
    assert_int_equal(p.heuristic, RMALLOC_NEXT_FIT);
    assert_int_equal(p.mode, RPIPE_SYNC_BLOCKS);
    assert_int_equal(p.unit_bytes, 64);
    assert_int_equal(p.heap_bytes, 65536);
    assert_int_equal(p.max_heap_bytes, 0);
    assert_true(p.slots > 0 && p.inline_max == 40);
    assert_true(p.incarnation > 0);
    assert_string_equal(p.state, "joined");
    assert_string_equal(p.backend, "shm");
    assert_true(strlen(p.path) > 0 && strlen(p.why) > 0);
    assert_string_equal(p.cells, "");

    memset(&newer, 0x5a, sizeof(newer));
    assert_int_equal((rinfo_describe)(r, &newer.known, sizeof(newer)), 0);
    assert_memory_equal(&newer.known, &p, sizeof(p));
    for (size_t i = 0; i < sizeof(newer.later); i++)
        assert_int_equal(newer.later[i], 0);
    memset(&newer, 0x5a, sizeof(newer));
    assert_int_equal((rinfo_describe)(r, &newer.known, sizeof(int)), 0);
    assert_memory_equal(&newer.known, &p, sizeof(int));
    assert_int_equal(newer.known.peer, 0x5a5a5a5a);
    assert_int_equal((rinfo_describe)(r, &p, 0), -EINVAL);
    assert_int_equal(rinfo_describe(r, NULL), -EINVAL);
    assert_non_null(strstr(rerror(r), "rinfo_describe: pipe is NULL"));
    assert_int_equal(rclose(w), 0);
    assert_int_equal(rinfo_describe(w, &p), -ENOTCONN);
    assert_int_equal(rread(r, &d, NULL), R_EOF);
    do /* the close message follows the number of the last message */
        assert_int_equal(rinfo_describe(r, &p), 0);
    while (strcmp(p.state, "joined") == 0);
    assert_string_equal(p.state, "peer closed");
    assert_int_equal(rclose(r), 0);
}

static void no_process(void **state)
{
    struct seen s = {0};

    (void)state;
    assert_int_equal(rinfo_observe(0x7fffffff, look, &s), -ESRCH);
    assert_int_equal(rinfo_observe(getppid(), look, &s) == 0, 0); /* make, or a shell */
    assert_int_equal(rinfo_observe(getpid(), NULL, NULL), -EINVAL);
    assert_int_equal(s.rows, 0);
}

/* ---- what is not ---- */

static unsigned char *content(size_t *bytes)
{
    struct stat st;
    unsigned char *all;

    assert_int_equal(fstat(publish_fd(), &st), 0);
    *bytes = (size_t)st.st_size;
    all = malloc(*bytes);
    assert_non_null(all);
    assert_int_equal(pread(publish_fd(), all, *bytes, 0), *bytes);
    return all;
}

static int observe_bytes(int fd, const unsigned char *all, size_t bytes, struct seen *s)
{
    struct error err = {""};

    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, all, bytes, 0), bytes);
    return observe_file(fd, look, s, &err);
}

static void damaged_file(void **state)
{
    rch_t w = open_end(true), r = open_end(false);
    int fd = memfd_create("byzantine", MFD_CLOEXEC), good = 0;
    size_t bytes, length;
    unsigned char *all, *copy;
    struct seen s;

    (void)state;
    assert_true(fd >= 0);
    pass(w, r, MESSAGES);
    all = content(&bytes);
    copy = malloc(bytes);
    assert_non_null(copy);
    s = (struct seen){0};
    assert_int_equal(observe_bytes(fd, all, bytes, &s), 0);
    assert_int_equal(s.rows, 3);
    for (int i = 0; i < ROUNDS; i++) {
        size_t area = draw() % 4 == 0 ? bytes : offsetof(struct published, total);

        memcpy(copy, all, bytes);
        for (uint64_t n = draw() % 4 + 1; n > 0; n--) {
            uint64_t word = random_invalid(&seed);
            size_t width = draw() % 2 == 0 ? sizeof(uint64_t) : sizeof(uint32_t);

            memcpy(copy + draw() % (area / width) * width, &word, width);
        }
        length = draw() % 8 == 0 ? draw() % bytes : bytes;
        s = (struct seen){0};
        good += observe_bytes(fd, copy, length, &s) == 0;
        assert_true(s.rows <= 100000);
    }
    print_message("%d of %d changed files were taken for true\n", good, ROUNDS);
    for (size_t i = 0; i < bytes; i++)
        copy[i] = (unsigned char)draw();
    s = (struct seen){0};
    assert_int_equal(observe_bytes(fd, copy, bytes, &s), -EPROTO);
    assert_int_equal(observe_bytes(fd, copy, 0, &s), -EPROTO);
    assert_int_equal(s.rows, 0);
    free(copy);
    free(all);
    close(fd);
    assert_int_equal(rclose(w), 0);
    assert_int_equal(rclose(r), 0);
}

/* The child of a fork stores into memory of its own: what it counts must not be counted for its parent. */
static void not_to_the_child(void **state)
{
    rch_t w = open_end(true), r = open_end(false);
    int status = -1;
    pid_t child;
    uint64_t value;

    (void)state;
    pass(w, r, 1);
    child = fork();
    if (child == 0)
        _exit(rinfo_count(w, "messages", &value) == -ENOTCONN && rmalloc(w, 8) == ADDR_NULL ? 0
                                                                                            : 1);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pass(w, r, 1);
    assert_int_equal(rinfo_count(w, "messages", &value), 0);
    assert_int_equal(value, 2);
    assert_int_equal(rclose(w), 0);
    assert_int_equal(rclose(r), 0);
}

static int setup(void **state)
{
    (void)state;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    return rinit(NULL, NULL);
}

static int teardown(void **state)
{
    (void)state;
    return rexit();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(true_file),        cmocka_unit_test(like_statistics),
        cmocka_unit_test(described),        cmocka_unit_test(description),
        cmocka_unit_test(no_process),       cmocka_unit_test(damaged_file),
        cmocka_unit_test(not_to_the_child),
    };

    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)clock_now();
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, setup, teardown);
}
