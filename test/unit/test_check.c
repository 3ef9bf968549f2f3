/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_check.c: the assertions of check.h fail where they must: each runs in a child, of which the exit status and the output
 * are compared. In a thread of a test of cmocka a failed check ends the thread and is counted.
 */
#include "test/lib/pair.h"

static char output[4000];

/* The exit status of a child that runs f; its output is in `output`. */
static int in_child(void (*f)(void))
{
    FILE *log = tmpfile();
    size_t bytes;
    int status;
    pid_t pid;

    assert_non_null(log);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        check_end = NULL;
        if (dup2(fileno(log), STDERR_FILENO) >= 0)
            f();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    rewind(log);
    bytes = fread(output, 1, sizeof(output) - 1, log);
    output[bytes] = '\0';
    fclose(log);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void good(void)
{
    REQUIRE(true);
    REQUIRE(true, "%d", 1);
    CHECK(NULL, true);
    CHECK_OK(NULL, R_SUCCESS);
    CHECK_RC(-EPIPE, NULL, -EPIPE);
    CHECK_ERRNO(EINVAL, (errno = EINVAL, 0));
    EXPECT(true, "%d", 1);
    if (check_failures != 0)
        _exit(2);
}

static void bad_require(void) { REQUIRE(1 > 2, "seed %d", 4711); }
static void bad_require_bare(void) { REQUIRE(1 > 2); }
static void bad_check(void) { CHECK(NULL, 1 > 2); }
static void bad_code(void) { CHECK_OK(NULL, rexit()); }
static void bad_errno(void) { CHECK_ERRNO(EPIPE, (errno = EINVAL, 0)); }
static void bad_error(void) { CHECK_ERROR(NULL, "no error message has these words"); }

static void bad_expect(void)
{
    check_rank = 3;
    EXPECT(1 > 2, "seed %d", 4711);
    EXPECT(1 > 2);
    _exit(check_report("test_check") == 1 && check_failures == 2 ? 5 : 6);
}

static void test_processes(void **state)
{
    (void)state;
    assert_int_equal(in_child(good), 0);
    assert_string_equal(output, "");
    assert_int_equal(in_child(bad_require), 1);
    assert_non_null(strstr(output, "1 > 2: seed 4711\n"));
    assert_non_null(strstr(output, "test_check.c:"));
    assert_int_equal(in_child(bad_require_bare), 1);
    assert_non_null(strstr(output, "1 > 2\n"));
    assert_int_equal(in_child(bad_check), 1);
    assert_int_equal(in_child(bad_code), 1);
    assert_non_null(strstr(output, "rexit()"));
    assert_int_equal(in_child(bad_errno), 1);
    assert_int_equal(in_child(bad_error), 1);
    assert_int_equal(in_child(bad_expect), 5);
    assert_non_null(strstr(output, "rank 3: 1 > 2: seed 4711\n"));
}

static void *bad_thread(void *after)
{
    CHECK(NULL, 1 > 2);
    *(bool *)after = true;
    return NULL;
}

static void test_threads(void **state)
{
    bool after = false;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, bad_thread, &after), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(after);
    assert_int_equal(atomic_exchange(&check_failures, 0), 1);
}

static void test_patterns(void **state)
{
    uint8_t a[100];

    (void)state;
    for (size_t bytes = 0; bytes < sizeof(a); bytes++) {
        memset(a, 0xee, sizeof(a));
        pattern_fill(a, bytes, 7);
        assert_int_equal(a[bytes], 0xee);
        assert_true(pattern_same(a, bytes, 7));
        if (bytes >= 8)
            assert_false(pattern_same(a, bytes, 8));
        for (size_t i = 0; i < bytes; i++) {
            a[i] ^= 1;
            assert_false(pattern_same(a, bytes, 7));
            a[i] ^= 1;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_patterns),
    };

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
