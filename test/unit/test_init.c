/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rinit, rexit, rinitialized: calls are counted, in one thread and in several; rcontext: what belongs to a name.
 */
#include "test/lib/pair.h"

#include <pthread.h>
#include <sys/wait.h>

#define THREADS 4

/* ---- counting: each test in a process of its own, because a process joins a job once ---- */

static void in_child(int (*body)(void))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The exit status is the number of the line that failed. */
#define HOLDS_HERE(what)                                                                           \
    do {                                                                                           \
        if (!(what))                                                                               \
            return __LINE__ & 0x7f;                                                                \
    } while (0)

static int nested(void)
{
    int rank = -1, ranks = -1;

    HOLDS_HERE(!rinitialized());
    HOLDS_HERE(rexit() == -ENOTCONN);
    HOLDS_HERE(rinit(NULL, NULL) == 0 && rinitialized());
    HOLDS_HERE(rinit(&rank, &ranks) == 0 && rank == 0 && ranks == 1);
    HOLDS_HERE(rinit(NULL, NULL) == 0);
    HOLDS_HERE(rexit() == 0 && rinitialized() && network_barrier() == 0);
    HOLDS_HERE(rexit() == 0 && rinitialized() && network_barrier() == 0);
    HOLDS_HERE(rexit() == 0 && !rinitialized() && network_barrier() == -ENOTCONN);
    HOLDS_HERE(rexit() == -ENOTCONN && rinit(NULL, NULL) == -EALREADY);
    return 0;
}

static int again_after_failure(void)
{
    setenv("RPIPE_SLOTS", "3", 1);
    HOLDS_HERE(rinit(NULL, NULL) == -EINVAL && !rinitialized());
    unsetenv("RPIPE_SLOTS");
    HOLDS_HERE(rinit(NULL, NULL) == 0 && rinitialized());
    HOLDS_HERE(rexit() == 0 && !rinitialized());
    return 0;
}

static void *joins_and_leaves(void *failed)
{
    for (int i = 0; i < 100; i++)
        if (rinit(NULL, NULL) != 0 || !rinitialized() || rexit() != 0)
            return failed;
    return NULL;
}

static int by_threads(void)
{
    pthread_t thread[THREADS];
    void *failed = NULL;

    HOLDS_HERE(rinit(NULL, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        HOLDS_HERE(pthread_create(&thread[i], NULL, joins_and_leaves, thread) == 0);
    for (int i = 0; i < THREADS; i++)
        HOLDS_HERE(pthread_join(thread[i], &failed) == 0 && failed == NULL);
    HOLDS_HERE(rinitialized() && rexit() == 0 && !rinitialized());
    return 0;
}

/* Of several threads one joins the job, and the others wait for it. */
static void *joins(void *failed)
{
    return rinit(NULL, NULL) == 0 && rinitialized() ? NULL : failed;
}

static int first_by_threads(void)
{
    pthread_t thread[THREADS];
    void *failed = NULL;

    for (int i = 0; i < THREADS; i++)
        HOLDS_HERE(pthread_create(&thread[i], NULL, joins, thread) == 0);
    for (int i = 0; i < THREADS; i++)
        HOLDS_HERE(pthread_join(thread[i], &failed) == 0 && failed == NULL);
    for (int i = 0; i < THREADS; i++)
        HOLDS_HERE(rinitialized() && rexit() == 0);
    HOLDS_HERE(!rinitialized());
    return 0;
}

static int in_child_of_fork(void)
{
    int status;
    pid_t pid;

    HOLDS_HERE(rinit(NULL, NULL) == 0);
    pid = fork();
    if (pid == 0)
        _exit(rinitialized() || rinit(NULL, NULL) != -EALREADY || rexit() != -ENOTCONN);
    HOLDS_HERE(waitpid(pid, &status, 0) == pid && status == 0);
    HOLDS_HERE(rinitialized() && rexit() == 0);
    return 0;
}

static void test_counted(void **state)
{
    (void)state;
    in_child(nested);
    in_child(again_after_failure);
    in_child(by_threads);
    in_child(first_by_threads);
    in_child(in_child_of_fork);
}

/* ---- rcontext ---- */

static void test_context(void **state)
{
    static const char *const names[] = {"a", "b", "md", "md.halo", "md.reduce", "heat2d"};
    size_t i, k;

    (void)state;
    assert_true(rcontext(NULL) == 0 && rcontext("") == 0);
    assert_true(rcontext("md.halo") == UINT64_C(0x96c5d2a725100000));
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint64_t c = rcontext(names[i]);

        assert_true(c >> 63 == 1);
        assert_true((c >> 61 & 3) == 0);
        assert_true((c & 0xfffff) == 0);
        for (k = 0; k < i; k++)
            assert_true(rcontext(names[k]) != c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted),
        cmocka_unit_test(test_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
