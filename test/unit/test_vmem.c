/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator by itself, as rvmem_create(3), rvmem_alloc(3), rvmem_free(3), rvmem_mem(3) specify it, through their
 * short names. test_vmem_debug.c has misuse, damage and debugging.
 */
#include "vmem.h"

#include <sys/wait.h>

/* ---- creation ---- */

static void assert_refused(const rvmem_config_t *cfg, int error, const char *word)
{
    rvmem_t v = NULL;
    int rc;

    capture_begin();
    rc = rvmem_create(&v, cfg);
    assert_printed(word);
    assert_null(v);
    assert_int_equal(rc, error);
}

static void a_bad_configuration_is_refused_and_explained(void **state)
{
    char *buffer = aligned_alloc(UNIT, 4096);
    rvmem_config_t cfg = config(buffer, 2048);

    (void)state;
    assert_refused(NULL, -EINVAL, "cfg is NULL");
    cfg.zero = 99;
    assert_refused(&cfg, -EINVAL, "99");
    cfg = config(buffer, 2048);
    cfg.unit_bytes = 48;
    assert_refused(&cfg, -EINVAL, "unit_bytes is 48");
    cfg = config(NULL, UINT64_C(1) << 40);
    assert_refused(&cfg, -EINVAL, "bytes is 1099511627776");
    cfg = config(buffer + 32, 2048);
    assert_refused(&cfg, -EINVAL, "aligned");
    cfg = config(buffer, 2048);
    cfg.heuristic = (rmalloc_fit_t)17;
    assert_refused(&cfg, -EINVAL, "17");
    assert_int_equal(rvmem_destroy(NULL), -EINVAL);
    free(buffer);
}

/* Zero is the default of every member: 1 MiB in units of 64 bytes that is not mapped. */
static void zero_is_the_default(void **state)
{
    rvmem_config_t cfg = {0};
    rvmem_stats_t st;
    rvmem_t v;

    (void)state;
    assert_int_equal(rvmem_create(&v, &cfg), 0);
    assert_int_equal(rvmem_stats(v, &st), 0);
    assert_int_equal(st.bytes, 1 << 20);
    assert_true(rvmem_alloc(v, 1) != ADDR_NULL);
    assert_int_equal(rvmem_stats(v, &st), 0);
    assert_int_equal(st.bytes_used, 64);
    assert_int_equal(rvmem_destroy(v), 0);
}

static int create_and_misuse(void)
{
    rvmem_config_t cfg = config(NULL, 1024);
    rvmem_t v;
    int rc = rvmem_create(&v, &cfg);

    if (rc != 0)
        return -rc;
    if (rvmem_free(v, (raddr_t)&cfg) !=
        -EINVAL) /* not a descriptor: seen only where debugging is on */
        return 98;
    rvmem_destroy(v);
    return 0;
}

/* In a process of its own: the environment is read once. */
static int create_with(const char *name, const char *value)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setenv(name, value, 1);
        _exit(create_and_misuse());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Comes first: nothing may have read the environment in this process. */
static void the_environment_is_read_without_rinit(void **state)
{
    (void)state;
    assert_string_equal(setting_text(SET_DEBUG), "");
    capture_begin();
    assert_int_equal(create_with("RPIPE_SLOTS", "3"), EINVAL);
    assert_printed("RPIPE_SLOTS is \"3\"");
    capture_begin();
    assert_int_equal(create_with("RMALLOC_DEBUG", "1"), 0);
    assert_printed("no descriptor");
}

/* ---- use ---- */

static void memory_can_be_written_to_the_last_byte(void **state)
{
    static const size_t sizes[] = {1, 63, 64, 65, 0, 1000, 128, 7};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    char *buffer = aligned_alloc(UNIT, 4096);
    rvmem_t v = create(buffer, 4096);
    raddr_t d[N];

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        char *p;

        d[i] = rvmem_alloc(v, sizes[i]);
        assert_true(d[i] != ADDR_NULL);
        p = rvmem_mem(v, d[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % UNIT, 0);
        assert_int_equal(rvmem_offset(v, d[i]), p - buffer);
        memset(p, (int)i + 1, sizes[i]);
    }
    for (unsigned i = 0; i < N; i++) {
        const char *p = rvmem_mem(v, d[i]);

        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(p[k], i + 1);
        assert_int_equal(rvmem_free(v, d[i]), 0);
    }
    assert_int_equal(rvmem_check(v), 0);
    assert_int_equal(rvmem_destroy(v), 0);
    free(buffer);
}

static void a_buffer_of_any_size_is_used_whole_and_not_exceeded(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 200; bytes += 13) {
        char *buffer;
        rvmem_t v;
        raddr_t d;
        size_t sum = 0;

        assert_int_equal(posix_memalign((void **)&buffer, UNIT, bytes), 0); /* ASan: to the byte */
        v = create(buffer, bytes);
        d = rvmem_alloc(v, bytes);
        assert_true(d != ADDR_NULL);
        memset(rvmem_mem(v, d), 1, bytes);
        assert_int_equal(rvmem_free(v, d), 0);
        for (size_t want = UNIT; want > 0; want--)
            while ((d = rvmem_alloc(v, want)) != ADDR_NULL) {
                memset(rvmem_mem(v, d), 2, want);
                sum += want;
            }
        assert_int_equal(sum, bytes);
        rvmem_destroy(v);
        free(buffer);
    }
}

static void errno_has_the_reason_for_no_block(void **state)
{
    rvmem_config_t cfg = config(NULL, 10 * UNIT);
    rvmem_t v;
    raddr_t d;

    (void)state;
    cfg.max_blocks = 2;
    assert_int_equal(rvmem_create(&v, &cfg), 0);
    assert_no_block(v, 10 * UNIT + 1, EMSGSIZE);
    assert_no_block(v, SIZE_MAX, EMSGSIZE);
    d = rvmem_alloc(v, 5 * UNIT);
    assert_no_block(v, 6 * UNIT, ENOMEM);
    assert_true(rvmem_alloc(v, 1) != ADDR_NULL);
    assert_no_block(v, 1, ENOBUFS);
    assert_int_equal(rvmem_free(v, d), 0);
    assert_true(rvmem_alloc(v, 5 * UNIT) != ADDR_NULL);
    assert_no_block(NULL, 1, EINVAL);
    rvmem_destroy(v);
}

static void a_range_that_is_not_mapped_has_offsets_and_no_memory(void **state)
{
    rvmem_t v = create(NULL, UINT64_C(1) << 36); /* more than there is */
    raddr_t a = rvmem_alloc(v, UINT64_C(1) << 35), b = rvmem_alloc(v, 1);

    (void)state;
    assert_int_equal(rvmem_offset(v, a), 0);
    assert_int_equal(rvmem_offset(v, b), UINT64_C(1) << 35);
    errno = 0;
    assert_null(rvmem_mem(v, b));
    assert_int_equal(errno, ENOTSUP);
    rvmem_destroy(v);
}

static void statistics_are_filled_in(void **state)
{
    rvmem_t v = create(NULL, 10 * UNIT);
    rvmem_stats_t s;
    raddr_t a = rvmem_alloc(v, 1), b = rvmem_alloc(v, 2 * UNIT);

    (void)state;
    assert_true(a != ADDR_NULL);
    memset(&s, 0xff, sizeof(s));
    assert_no_block(v, 8 * UNIT, ENOMEM);
    assert_true(rvmem_alloc(v, 1) != ADDR_NULL);
    assert_int_equal(rvmem_free(v, b), 0);
    assert_int_equal(rvmem_stats(v, &s), 0);
    assert_int_equal(s.bytes, 10 * UNIT);
    assert_int_equal(s.bytes_used, 2 * UNIT);
    assert_int_equal(s.bytes_stuck, 2 * UNIT);
    assert_int_equal(s.bytes_free, 6 * UNIT);
    assert_int_equal(s.largest, 6 * UNIT);
    assert_int_equal(s.peak, 4 * UNIT);
    assert_int_equal(s.allocs, 3);
    assert_int_equal(s.frees, 1);
    assert_int_equal(s.failures, 1);
    assert_int_equal(s.blocks_used, 2);
    assert_int_equal(rvmem_stats(v, NULL), -EINVAL);
    assert_int_equal(rvmem_stats(NULL, &s), -EINVAL);
    rvmem_destroy(v);
}

static void a_block_is_filled_and_has_its_size(void **state)
{
    static const char text[] = "what is copied, and not a byte more";
    char *buffer = aligned_alloc(UNIT, 4096);
    rvmem_t v = create(buffer, 4096), shadow = create(NULL, 4096);
    raddr_t d = rvmem_alloc(v, sizeof(text)), none = rvmem_alloc(v, 0),
            s = rvmem_alloc(shadow, sizeof(text));

    (void)state;
    memset(buffer, 'x', 4096);
    memcpy(rvmem_mem(v, d), text, sizeof(text));
    assert_memory_equal(rvmem_mem(v, d), text, sizeof(text));
    assert_int_equal(((char *)rvmem_mem(v, d))[sizeof(text)], 'x');
    assert_int_equal(*(char *)rvmem_mem(v, none), 'x');
    assert_int_equal(rvmem_size(v, d), sizeof(text));
    assert_int_equal(rvmem_size(shadow, s), sizeof(text));
    errno = 0;
    assert_int_equal(rvmem_size(v, none), 0);
    assert_int_equal(errno, 0);
    assert_null(rvmem_mem(shadow, s));
    assert_int_equal(errno, ENOTSUP);
    assert_null(rvmem_mem(NULL, d));
    assert_int_equal(errno, EINVAL);
    rvmem_destroy(v);
    rvmem_destroy(shadow);
    free(buffer);
}

static void a_range_grows(void **state)
{
    char *first = aligned_alloc(UNIT, 2 * UNIT), *second = aligned_alloc(UNIT, 4 * UNIT);
    rvmem_t v = create(first, UNIT + 1);
    raddr_t a, b;

    (void)state;
    assert_no_block(v, 4 * UNIT, EMSGSIZE);
    assert_int_equal(rvmem_grow(NULL, second, UNIT), -EINVAL);
    assert_int_equal(rvmem_grow(v, NULL, UNIT), -EINVAL);
    assert_int_equal(rvmem_grow(v, second, 0), -EINVAL);
    assert_int_equal(rvmem_grow(v, second + 1, UNIT), -EINVAL);
    assert_int_equal(rvmem_grow(v, second, 4 * UNIT), 0);
    b = rvmem_alloc(v, 4 * UNIT);
    a = rvmem_alloc(v, UNIT + 1);
    assert_int_equal(rvmem_offset(v, a), 0);
    assert_int_equal(rvmem_offset(v, b), 2 * UNIT);
    assert_ptr_equal(rvmem_mem(v, a), first);
    assert_ptr_equal(rvmem_mem(v, b), second);
    assert_no_block(v, 1, ENOMEM);
    assert_int_equal(rvmem_free(v, b), 0);
    assert_int_equal(rvmem_free(v, a), 0);
    assert_int_equal(rvmem_check(v), 0);
    rvmem_destroy(v);
    free(first);
    free(second);
}

static int count(const rvmem_block_t *b, void *arg)
{
    *(uint64_t *)arg += b->bytes;
    return b->state == RVMEM_USED && b->size == 77 ? 7 : 0;
}

static void a_walk_ends_where_a_visitor_ends_it(void **state)
{
    rvmem_t v = create(NULL, 10 * UNIT);
    uint64_t sum = 0;

    (void)state;
    assert_int_equal(rvmem_walk(v, count, &sum), 0);
    assert_int_equal(sum, 10 * UNIT);
    assert_true(rvmem_alloc(v, UNIT) != ADDR_NULL);
    assert_true(rvmem_alloc(v, 77) != ADDR_NULL);
    sum = 0;
    assert_int_equal(rvmem_walk(v, count, &sum), 7);
    assert_int_equal(sum, 3 * UNIT);
    assert_int_equal(rvmem_walk(NULL, count, &sum), -EINVAL);
    assert_int_equal(rvmem_walk(v, NULL, &sum), -EINVAL);
    rvmem_destroy(v);
}

static void a_dump_shows_what_there_is(void **state)
{
    static const char *const names[] = {"next-fit",  "first-fit",  "best-fit",
                                        "worst-fit", "random-fit", "segregated-fit"};
    rvmem_t v = create(NULL, 100 * UNIT);
    raddr_t a = rvmem_alloc(v, 40 * UNIT), b = rvmem_alloc(v, 2 * UNIT - 3);
    char text[8192];
    FILE *to = tmpfile(), *full = fopen("/dev/full", "w");
    size_t n;

    (void)state;
    assert_int_equal(rvmem_free(v, a), 0);
    assert_int_equal(rvmem_grow(v, NULL, 5 * UNIT), 0);
    assert_non_null(to);
    assert_int_equal(rvmem_dump(v, to), 0);
    rewind(to);
    n = fread(text, 1, sizeof(text) - 1, to);
    text[n] = '\0';
    fclose(to);
    assert_non_null(strstr(text, names[fit - RMALLOC_NEXT_FIT]));
    assert_non_null(strstr(text, "6720 bytes")); /* 105 units */
    assert_non_null(
        strstr(text, "........................................##......................\n"));
    assert_non_null(strstr(text, "125 "));
    assert_non_null(strstr(text, "largest 3712")); /* the hole behind b */
    assert_int_equal(rvmem_dump(NULL, stdout), -EINVAL);
    assert_int_equal(rvmem_dump(v, NULL), -EINVAL);
    if (full != NULL) {
        setvbuf(full, NULL, _IONBF, 0);
        assert_int_equal(rvmem_dump(v, full), -ENOSPC);
        fclose(full);
    }
    assert_int_equal(rvmem_free(v, b), 0);
    rvmem_destroy(v);
}

/* The same for every fit, with and without debugging. */
static int run_group(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(memory_can_be_written_to_the_last_byte, debug_off),
        cmocka_unit_test_setup(a_buffer_of_any_size_is_used_whole_and_not_exceeded, debug_off),
        cmocka_unit_test_setup(errno_has_the_reason_for_no_block, debug_off),
        cmocka_unit_test_setup(a_range_that_is_not_mapped_has_offsets_and_no_memory, debug_off),
        cmocka_unit_test_setup(a_block_is_filled_and_has_its_size, debug_off),
        cmocka_unit_test_setup(a_range_grows, debug_off),
        cmocka_unit_test_setup(a_walk_ends_where_a_visitor_ends_it, debug_off),
        cmocka_unit_test_setup(a_dump_shows_what_there_is, debug_off),
        cmocka_unit_test_setup(memory_can_be_written_to_the_last_byte, debug_on),
        cmocka_unit_test_setup(a_buffer_of_any_size_is_used_whole_and_not_exceeded, debug_on),
        cmocka_unit_test_setup(errno_has_the_reason_for_no_block, debug_on),
        cmocka_unit_test_setup(a_range_that_is_not_mapped_has_offsets_and_no_memory, debug_on),
        cmocka_unit_test_setup(a_block_is_filled_and_has_its_size, debug_on),
        cmocka_unit_test_setup(a_range_grows, debug_on),
    };

    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_is_read_without_rinit),
        cmocka_unit_test(a_bad_configuration_is_refused_and_explained),
        cmocka_unit_test(zero_is_the_default),
        cmocka_unit_test_setup(statistics_are_filled_in, debug_off),
    };
    int failed = cmocka_run_group_tests_name("vmem", tests, NULL, NULL);

    return failed + run_for_each_fit("vmem", run_group);
}
