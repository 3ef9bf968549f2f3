/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_yield_policy.c: which waits yield before they sleep (yield_policy.h), and for how long (patience.h): the rules by themselves,
 * then as the waits of wait.h follow them.
 *
 * Time is the test's own: it replaces sched_yield, nanosleep and the monotonic clock by functions that only count and advance it.
 */
#include "sync/patience.h"
#include "sync/wait.h"
#include "sync/yield_policy.h"
#include "util/settings.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT 1000
#define CROWDED (1 << 20) /* ranks on this host: more than cores */

/* ---- time ---- */

static _Atomic int64_t fake_now = INT64_C(1000000000);
static _Atomic int64_t yield_ns; /* what a yield takes */
static _Atomic int yields, sleeps;

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    int64_t now = atomic_fetch_add(&fake_now, 100);

    if (clock_id != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock_id, tp);
    *tp = (struct timespec){now / NS_PER_S, now % NS_PER_S};
    return 0;
}

int sched_yield(void)
{
    yields++;
    fake_now += yield_ns;
    return 0;
}

int nanosleep(const struct timespec *requested_time, struct timespec *remaining)
{
    (void)remaining;
    sleeps++;
    fake_now += requested_time->tv_sec * NS_PER_S + requested_time->tv_nsec;
    return 0;
}

/* ---- the rule ---- */

/*
 * One wait for each character: it ends before its first yield (-), its yields are cheap (c), or so many of them are expensive (1 to
 * 9). Returns what each did: the same (-), yielded (y), slept at once (s).
 */
static const char *waits(struct yield_policy *policy, const char *kinds)
{
    static char did[64];
    size_t n = strlen(kinds);

    assert_true(n < sizeof(did));
    for (size_t i = 0; i < n; i++) {
        struct yield_count count = {0, 0};

        did[i] = kinds[i] == '-' ? '-' : yield_policy_permits(policy) ? 'y' : 's';
        if (did[i] == 'y') {
            yield_count_add(&count, 5, 5 + LIMIT, LIMIT); /* just not expensive */
            for (int k = 0; kinds[i] != 'c' && k < kinds[i] - '0'; k++)
                yield_count_add(&count, 5, 5 + LIMIT + 1, LIMIT);
        }
        yield_policy_wait_ended(policy, &count);
    }
    did[n] = '\0';
    return did;
}

static void test_chance(void **state)
{
    struct yield_policy policy = {0};

    (void)state;
    assert_string_equal(waits(&policy, "cc1c1cc11c11c2c1cc"), "yyyyyyyyyyyyyyyyyy");
}

static void test_row(void **state)
{
    struct yield_policy policy = {0};

    (void)state;
    assert_string_equal(waits(&policy, "111ccc"), "yyysyy");
    assert_string_equal(waits(&policy, "11c1ccc"), "yyyyyyy"); /* and it begins anew */
    assert_string_equal(waits(&policy, "12cc"), "yysy");
    assert_string_equal(waits(&policy, "9cc"), "ysy");
}

static void test_no_yield(void **state)
{
    struct yield_policy policy = {0};

    (void)state;
    assert_string_equal(waits(&policy, "1-1--1-c-c"), "y-y--y-s-y");
}

static void test_doubling(void **state)
{
    struct yield_policy policy = {0};
    unsigned pause = 1, slept;

    (void)state;
    assert_string_equal(waits(&policy, "111"), "yyy");
    for (int i = 0; i < 14; i++) {
        for (slept = 0; waits(&policy, "1")[0] == 's'; slept++)
            ;
        assert_int_equal(slept, pause);
        pause = pause * 2 < YIELD_PAUSE_MOST ? pause * 2 : YIELD_PAUSE_MOST;
    }
    assert_int_equal(pause, YIELD_PAUSE_MOST);
}

static void test_reset(void **state)
{
    struct yield_policy policy = {0};

    (void)state;
    assert_string_equal(waits(&policy, "1111111111111c"), "yyysyssyssssys"); /* 7 to come */
    assert_string_equal(waits(&policy, "cccccccc"), "sssssssy");
    assert_string_equal(waits(&policy, "111ccc"), "yyysyy");
}

static void test_patience(void **state)
{
    struct patience p = {0};

    (void)state;
    assert_int_equal(patience_ns(&p), PATIENCE_LEAST);
    patience_slept(&p, PATIENCE_MOST + 1); /* never less */
    assert_int_equal(patience_ns(&p), PATIENCE_LEAST);
    patience_slept(&p, 250000);
    assert_int_equal(patience_ns(&p), PATIENCE_MOST);
    patience_slept(&p, PATIENCE_MOST + 1);
    assert_in_range(patience_ns(&p), PATIENCE_MOST * 7 / 8, PATIENCE_MOST * 9 / 10);
    patience_slept(&p, PATIENCE_MOST);
    assert_int_equal(patience_ns(&p), PATIENCE_MOST);
    for (int i = 0; i < 200; i++)
        patience_slept(&p, INT64_MAX);
    assert_int_equal(patience_ns(&p), PATIENCE_LEAST);
}

/* ---- the waits ---- */

static int ends_with_first(void *before) { return yields + sleeps > *(int *)before ? 0 : -EAGAIN; }

/* One wait that ends with its first yield or its first back-off sleep: 'y' or 's'. */
static char wait_once(void)
{
    int before = yields + sleeps, yielded = yields;
    struct waiter w;

    wait_begin(&w, NULL, DEADLINE_NEVER, false);
    (void)wait_until(&w, ends_with_first, &before);
    return yields > yielded ? 'y' : 's';
}

static void assert_waits(int64_t ns, const char *expected)
{
    yield_ns = ns;
    for (size_t i = 0; expected[i] != '\0'; i++)
        assert_int_equal(wait_once(), expected[i]);
}

static void use(const char *mode, int ranks)
{
    struct error err = {""};

    setenv("RPIPE_WAIT", mode, 1);
    assert_int_equal(settings_load(&err), 0);
    wait_configure(ranks);
}

/* Adaptive waits, and no row of this thread's. */
static void begin(int ranks)
{
    use("adaptive", ranks);
    yield_ns = 1000;
    for (unsigned i = 0; i < YIELD_PAUSE_MOST && wait_once() == 's'; i++)
        ;
}

static void test_waits(void **state)
{
    (void)state;
    begin(CROWDED);
    assert_waits(3900000, "yyyyyy"); /* it may have gone to a rank */
    assert_waits(4100000, "yyysyssy");
    assert_waits(1000, "ssssyyyy");
    assert_waits(4100000, "yyysy"); /* the next two would sleep */
    assert_waits(1000, "ssyy");
    begin(1);
    assert_waits(400000, "yyyyyy");
    assert_waits(600000, "yyysys");
    assert_waits(1000, "syyy");
}

static void test_other_modes(void **state)
{
    (void)state;
    use("yield", CROWDED);
    assert_waits(9000000, "yyyyyy");
    use("sleep", CROWDED);
    assert_waits(9000000, "ssssss");
}

struct sleeper {
    _Atomic uint32_t word;
    int64_t began, slept_from, sleeps_for;
};

/* It is woken when it is about to sleep, after so long. */
static int sleeper_attempt(void *of)
{
    struct sleeper *s = of;

    if (s->slept_from != 0)
        return 0;
    if (s->word == 0)
        return -EAGAIN;
    s->slept_from = fake_now;
    s->word = 0;
    fake_now += s->sleeps_for;
    return -EAGAIN;
}

/* One wait that sleeps for so long: ns before that. `deadline`: ns. */
static int64_t patience_of(int64_t sleeps_for, int64_t deadline)
{
    struct sleeper s = {.began = fake_now, .sleeps_for = sleeps_for};
    struct waiter w;

    wait_begin(&w, &s.word, deadline == DEADLINE_NEVER ? deadline : fake_now + deadline, false);
    (void)wait_until(&w, sleeper_attempt, &s);
    return s.slept_from - s.began;
}

static void assert_near(int64_t ns, int64_t expected)
{
    assert_in_range(ns, expected, expected + expected / 20 + 10000);
}

#define TOO_LONG (2 * PATIENCE_MOST)

static void test_waits_learn(void **state)
{
    (void)state;
    begin(1);
    assert_near(patience_of(100000, DEADLINE_NEVER), PATIENCE_LEAST);
    assert_near(patience_of(TOO_LONG, DEADLINE_NEVER), PATIENCE_MOST);
    assert_near(patience_of(TOO_LONG, DEADLINE_NEVER),
                PATIENCE_MOST - (PATIENCE_MOST - PATIENCE_LEAST) / 8);
    for (int i = 0; i < 200; i++)
        (void)patience_of(TOO_LONG, DEADLINE_NEVER);
    /* ends by its deadline */
    assert_near(patience_of(1000000, PATIENCE_LEAST + 900000), PATIENCE_LEAST);
    assert_near(patience_of(TOO_LONG, DEADLINE_NEVER), PATIENCE_LEAST);
    begin(CROWDED);
    assert_near(patience_of(1000, DEADLINE_NEVER), 1000000);
    assert_near(patience_of(1000, DEADLINE_NEVER), 1000000);
}

/* Without an assertion: those of cmocka are for the first thread. */
static void *three_waits(void *did)
{
    for (int i = 0; i < 3; i++)
        ((char *)did)[i] = wait_once();
    return NULL;
}

static void test_threads(void **state)
{
    char did[4] = "";
    pthread_t thread;

    (void)state;
    begin(CROWDED);
    yield_ns = 9000000;
    assert_int_equal(pthread_create(&thread, NULL, three_waits, did), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(did, "yyy");
    assert_waits(1000, "yy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chance),      cmocka_unit_test(test_row),
        cmocka_unit_test(test_no_yield),    cmocka_unit_test(test_doubling),
        cmocka_unit_test(test_reset),       cmocka_unit_test(test_waits),
        cmocka_unit_test(test_other_modes), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_patience),    cmocka_unit_test(test_waits_learn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
