/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/one_thread.h: a second thread is found; calls of one thread nest; and in the child of a fork the thread that was inside is not.
 */
#include "util/one_thread.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct one_thread object;
static pthread_barrier_t barrier;

static bool enters(const char *call)
{
    const char *other = NULL;

    if (one_thread_enter(&object, call, &other))
        return true;
    return other == NULL ||
           strcmp(other, "stay") != 0; /* false: it is kept out, and by which call */
}

static void *stay(void *unused)
{
    const char *other;

    (void)unused;
    if (one_thread_enter(&object, "stay", &other) && one_thread_enter(&object, "nested", &other)) {
        one_thread_leave(&object);
        pthread_barrier_wait(&barrier); /* inside */
        pthread_barrier_wait(&barrier);
        one_thread_leave(&object);
    }
    return NULL;
}

static void test_second_thread(void **state)
{
    pthread_t thread;
    int status = -1;
    pid_t child;

    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, stay, NULL), 0);
    pthread_barrier_wait(&barrier);
    assert_false(enters("second"));
    child = fork();
    if (child == 0) { /* without that thread */
        bool once = enters("child"), twice = once && enters("again");

        one_thread_leave(&object);
        one_thread_leave(&object);
        _exit(twice ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(enters("second")); /* the parent's is as it was */
    pthread_barrier_wait(&barrier);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(enters("second"));
    one_thread_leave(&object);
    (void)pthread_barrier_destroy(&barrier);
}

/* ---- in the child of a fork ---- */

enum { ROUNDS = 200, THREADS = 4 };
static atomic_int inside;

/* Enters, and stays until all have tried. */
static void *try_once(void *unused)
{
    const char *other;
    bool in;

    (void)unused;
    pthread_barrier_wait(&barrier);
    in = one_thread_enter(&object, "stay", &other);
    atomic_fetch_add(&inside, in);
    pthread_barrier_wait(&barrier);
    if (in)
        one_thread_leave(&object);
    return NULL;
}

/* In a child: whether one of several threads is inside that enter at once, while the object names a thread of the parent. */
static bool one_enters(void)
{
    pthread_t thread[THREADS];

    if (pthread_barrier_init(&barrier, NULL, THREADS) != 0)
        return false;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, try_once, NULL) != 0)
            return false;
    for (int i = 0; i < THREADS; i++)
        if (pthread_join(thread[i], NULL) != 0)
            return false;
    return atomic_load(&inside) == 1;
}

static void test_child_threads(void **state)
{
    const char *other = NULL;

    (void)state;
    assert_true(one_thread_enter(&object, "parent", &other));
    for (int i = 0; i < ROUNDS; i++) {
        int status = -1;
        pid_t child = fork();

        if (child == 0)
            _exit(one_enters() ? 0 : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    one_thread_leave(&object);
}

static void *enter_alone(void *in)
{
    const char *other;

    *(bool *)in = one_thread_enter(&object, "stay", &other);
    return NULL;
}

static bool other_thread_enters(void)
{
    pthread_t thread;
    bool in = false;

    return pthread_create(&thread, NULL, enter_alone, &in) == 0 &&
           pthread_join(thread, NULL) == 0 && in;
}

/* A handler forks: when its call returns in the child too, another thread of that is inside, and stays. */
static void test_fork_inside(void **state)
{
    const char *other = NULL;
    int status = -1;
    pid_t child;

    (void)state;
    assert_true(one_thread_enter(&object, "call", &other));
    child = fork();
    if (child == 0) {
        bool right = one_thread_enter(&object, "nested", &other);

        one_thread_leave(&object);
        right = right && other_thread_enters(); /* it has ended, and has not left */
        one_thread_leave(&object);              /* of the call that was made in the parent */
        _exit(right && !enters("third") && !other_thread_enters() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    one_thread_leave(&object);
    assert_true(other_thread_enters());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_thread),
        cmocka_unit_test(test_child_threads),
        cmocka_unit_test(test_fork_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
