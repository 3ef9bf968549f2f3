/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/one_thread.h: a second thread is found; calls of one thread nest; and in the child of a fork the thread that was inside is not.
 */
#include "util/one_thread.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
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
        bool twice = enters("child") && enters("child");

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_second_thread)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
