/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of a trace that are not what they should be: a true file of them, with words and bytes replaced by others, cut, and made
 * of noise. Whatever it is, the reader ends, and what it prints is text without control characters, each quote closed. The seed
 * is printed; an argument that is a number is the seed.
 */
#include "test/lib/random.h"
#include "observe/record/trace_file.h"
#include "util/clock.h"
#include <rpipe.h>

#include <errno.h>
#include <fcntl.h>
#include <rinfo.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUNDS = 600, MESSAGES = 20 };
static uint64_t seed;
static char directory[] = "/tmp/test_trace.XXXXXX", raw[64];

static uint64_t draw(void) { return random_draw(&seed); }

static rch_t open_end(bool writer)
{
    rpipe_config_t cfg = {0};
    rch_t ch = NULL;

    cfg.op = RPIPE_GET;
    cfg.peer = 0;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = 65536;
    assert_int_equal(rpipe(&ch, &cfg), 0);
    return ch;
}

/* Of every quote there is a second one in the same line, brackets are as many as open, and all characters can be printed. */
static void check_text(const char *text, size_t bytes)
{
    long deep = 0;
    bool quoted = false;

    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];

        assert_true(c == '\n' || (c >= ' ' && c <= '~'));
        if (c == '"')
            quoted = !quoted;
        assert_true(c != '\n' || !quoted);
        if (!quoted)
            deep += (c == '{' || c == '[') - (c == '}' || c == ']');
        assert_true(deep >= 0);
    }
    assert_int_equal(deep, 0);
    assert_false(quoted);
}

static int convert(const unsigned char *all, size_t bytes)
{
    static int fd = -1;
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    int rc;

    if (fd < 0)
        fd = memfd_create("records", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_non_null(to);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, all, bytes, 0), bytes);
    rc = rinfo_trace_json(fd, to);
    fclose(to);
    if (rc == 0)
        check_text(text, length);
    else
        assert_int_equal(length, 0);
    free(text);
    return rc;
}

static unsigned char *content(size_t *bytes)
{
    int fd = open(raw, O_RDONLY);
    struct stat st;
    unsigned char *all;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    *bytes = (size_t)st.st_size;
    all = malloc(*bytes);
    assert_non_null(all);
    assert_int_equal(read(fd, all, *bytes), *bytes);
    close(fd);
    return all;
}

static void damaged_file(void **state)
{
    rch_t w = open_end(true), r = open_end(false);
    size_t bytes, length, rings = trace_page(sizeof(struct trace_file));
    unsigned char *all, *copy;
    raddr_t d;
    int good = 0;

    (void)state;
    for (int i = 0; i < MESSAGES; i++) {
        d = rmalloc(w, i % 2 == 0 ? 8 : 1000);
        assert_true(d != ADDR_NULL);
        assert_int_equal(rwrite(w, d), 0);
        assert_int_equal(rread(r, &d, NULL), 0);
        assert_int_equal(rfree(r, d), 0);
    }
    assert_int_equal(rset_timeout(r, 1), 0);
    assert_int_equal(rread(r, &d, NULL), -ETIMEDOUT);
    all = content(&bytes);
    copy = malloc(bytes);
    assert_non_null(copy);
    assert_int_equal(convert(all, bytes), 0);
    for (int i = 0; i < ROUNDS; i++) {
        memcpy(copy, all, bytes);
        for (uint64_t n = draw() % 8 + 1; n > 0; n--) {
            uint64_t word = random_invalid(&seed), at = draw() % 3;
            size_t width = draw() % 2 == 0 ? sizeof(uint64_t) : sizeof(uint32_t);

            at = at == 0 ? draw() % 200 : at == 1 ? rings + draw() % 4200 : draw() % bytes;
            at = at / width * width;
            if (at + width <= bytes)
                memcpy(copy + at, &word, width);
        }
        length = draw() % 8 == 0 ? draw() % bytes : bytes;
        good += convert(copy, length) == 0;
    }
    print_message("%d of %d changed files were taken for true\n", good, ROUNDS);
    for (size_t i = 0; i < bytes; i++)
        copy[i] = (unsigned char)draw();
    assert_int_equal(convert(copy, bytes), -EPROTO);
    assert_int_equal(convert(copy, 0), -EPROTO);
    assert_int_equal(rinfo_trace_json(-1, stdout), -EINVAL);
    assert_int_equal(rinfo_trace_json(0, NULL), -EINVAL);
    free(copy);
    free(all);
    assert_int_equal(rclose(w), 0);
    assert_int_equal(rclose(r), 0);
}

static int setup(void **state)
{
    char name[48];

    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(name, sizeof(name), "%s/trace", directory);
    snprintf(raw, sizeof(raw), "%s.raw", name);
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_TRACE", name, 1);
    setenv("RPIPE_TRACE_EVENTS", "100", 1);
    return rinit(NULL, NULL);
}

static int teardown(void **state)
{
    char name[64];
    int rc = rexit();

    (void)state;
    snprintf(name, sizeof(name), "%s/trace", directory);
    if (access(raw, F_OK) == 0 || access(name, R_OK) != 0)
        rc = -1; /* rexit has made the one of the other */
    (void)unlink(name);
    (void)unlink(raw);
    (void)rmdir(directory);
    return rc;
}

/* What is printed of the records. The caller frees it. */
static char *printed(const unsigned char *all, size_t bytes)
{
    int fd = memfd_create("records", MFD_CLOEXEC);
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);

    assert_true(fd >= 0 && to != NULL);
    assert_int_equal(pwrite(fd, all, bytes, 0), bytes);
    assert_int_equal(rinfo_trace_json(fd, to), 0);
    fclose(to);
    close(fd);
    return text;
}

/* A row is given to another end during a call on the end that had it before: the call is not one of the other end. */
static void a_call_belongs_to_the_end_that_had_the_row(void **state)
{
    size_t bytes, rings = trace_page(sizeof(struct trace_file));
    rch_t w = open_end(true), r = open_end(false);
    struct trace_record *call = NULL;
    struct trace_file *header;
    struct trace_ring *ring;
    unsigned char *all;
    char *text;
    raddr_t d;

    (void)state;
    assert_int_equal(rset_timeout(r, 2), 0);
    assert_int_equal(rread(r, &d, NULL), -ETIMEDOUT);
    all = content(&bytes);
    header = (struct trace_file *)(void *)all;
    ring = (struct trace_ring *)(void *)(all + rings);
    for (uint64_t i = 0; i < atomic_load(&ring->head); i++)
        if (ring->record[i].kind == TRACE_READ && ring->record[i].code == -ETIMEDOUT)
            call = &ring->record[i]; /* the last one */
    assert_non_null(call);
    header->end[call->row].since = call->begin;
    call->code = -4711;
    text = printed(all, bytes);
    assert_non_null(strstr(text, "-4711"));
    free(text);
    header->end[call->row].since = (call->begin + call->end) / 2;
    text = printed(all, bytes);
    assert_null(strstr(text, "-4711"));
    free(text);
    free(all);
    assert_int_equal(rclose(w), 0);
    assert_int_equal(rclose(r), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_file),
        cmocka_unit_test(a_call_belongs_to_the_end_that_had_the_row)};

    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)clock_now();
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, setup, teardown);
}
