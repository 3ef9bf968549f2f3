/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error messages of an end that many threads use: each gets that of its own failure, whole, whatever fails in the others: calls
 * that are refused, calls that reach their deadline, calls that fail under the lock of the end. A thread whose calls do not fail
 * gets a whole message of one of them. Also under ThreadSanitizer.
 */
#include "test/lib/pair.h"

#include <sched.h>

#define WRITERS 3u
#define READERS 2u
#define FACTOR 1009u /* numbers in messages are multiples: one that is put together of two is not */

struct failing {
    struct pair p;
    uint64_t number;
    atomic_bool *done;
};

static uint64_t calls(void) { return 300; }

static void check_number(rch_t ch, const char *words, uint64_t number)
{
    char text[120];

    snprintf(text, sizeof(text), "%s%llu", words, (unsigned long long)number);
    CHECK(ch, strstr(rerror(ch), text) != NULL && strstr(rerror(NULL), text) != NULL);
}

/* Refused before the lock is taken, and under it. */
static void *fail_writes(void *argument)
{
    struct failing *f = argument;
    rch_t w = f->p.w;
    raddr_t d = ADDR_NULL;

    for (uint64_t i = 0; i < calls(); i++) {
        uint64_t n = (f->number * calls() + i + 1000) * FACTOR;

        CHECK(w, rsend(w, NULL, n, 0) == -EINVAL);
        check_number(w, "rsend: buf is NULL, bytes is ", n);
        CHECK(w, rmalloc_nb(w, n << 32, &d) == -EMSGSIZE);
        check_number(w, "rmalloc_nb: ", n << 32);
    }
    return NULL;
}

/* A deadline, or a refused call. */
static void *fail_reads(void *argument)
{
    struct failing *f = argument;
    rch_t r = f->p.r;
    raddr_t d = ADDR_NULL;

    for (uint64_t i = 0; i < calls() / 10; i++) {
        CHECK(r, rread(r, &d, NULL) == -ETIMEDOUT);
        CHECK(r, strstr(rerror(r), "rread: no message within 1 ms") != NULL);
        CHECK(r, rrecv(r, &d, 1, NULL, 4 + (int)f->number) == -EINVAL);
        check_number(r, "rrecv: flags is 0x", 4 + f->number);
    }
    return NULL;
}

/* The message of any thread is whole. */
static void *watch(void *argument)
{
    struct failing *f = argument;

    while (!atomic_load(f->done)) {
        const char *text = rerror(f->p.w), *bytes = strstr(text, "bytes is ");

        if (bytes != NULL)
            CHECK(NULL, strtoull(bytes + 9, NULL, 10) % FACTOR == 0);
        else
            CHECK(NULL,
                  strcmp(text, "no error") == 0 || strstr(text, "increase heap_bytes") != NULL);
        sched_yield();
    }
    return NULL;
}

static void test_own_message(void **state)
{
    enum { N = WRITERS + READERS + 1 };
    rpipe_config_t cfg = pair_config(RPIPE_PUT, 1 << 16);
    struct failing f[N] = {{{NULL, NULL}, 0, NULL}};
    atomic_bool done = false;
    pthread_t thread[N];

    (void)state;
    atomic_store(&check_failures, 0);
    cfg.flags |= RPIPE_THREADS;
    pair_open_with(&f[0].p, &cfg);
    CHECK_OK(f[0].p.r, rset_timeout(f[0].p.r, 1));
    for (uint64_t i = 0; i < N; i++) {
        f[i] = (struct failing){f[0].p, i, &done};
        assert_int_equal(pthread_create(&thread[i], NULL,
                                        i < WRITERS             ? fail_writes
                                        : i < WRITERS + READERS ? fail_reads
                                                                : watch,
                                        &f[i]),
                         0);
    }
    for (size_t i = 0; i < N - 1; i++)
        pthread_join(thread[i], NULL);
    atomic_store(&done, true);
    pthread_join(thread[N - 1], NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
    pair_close(&f[0].p);
}

static void *fail_once(void *argument)
{
    rch_t w = argument;

    CHECK(w, rsend(w, NULL, FACTOR, 0) == -EINVAL);
    return NULL;
}

/* A failure of another thread does not replace the message of this one, and a thread without a failure gets the last one. */
static void test_kept(void **state)
{
    rpipe_config_t cfg = pair_config(RPIPE_PUT, 1 << 16);
    pthread_t thread;
    struct pair p;

    (void)state;
    atomic_store(&check_failures, 0);
    cfg.flags |= RPIPE_THREADS;
    pair_open_with(&p, &cfg);
    assert_int_equal(pthread_create(&thread, NULL, fail_once, p.w), 0);
    pthread_join(thread, NULL);
    CHECK_ERROR(p.w, "rsend: buf is NULL, bytes is 1009");
    CHECK_RC(-EINVAL, p.w, rsend(p.w, NULL, 1, 0));
    assert_int_equal(pthread_create(&thread, NULL, fail_once, p.w), 0);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
    assert_non_null(strstr(rerror(p.w), "rsend: buf is NULL, bytes is 1"));
    assert_null(strstr(rerror(p.w), "1009"));
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_own_message),
    };

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    return cmocka_run_group_tests_name("thread_errors", tests, pair_setup, pair_teardown);
}
