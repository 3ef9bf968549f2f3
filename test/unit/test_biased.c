/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a lock that is biased to its owner (lib/util/biased.h): a thread that leaves stores `revoked` before it unlocks the mutex, so
 * its owner can enter and leave between, and end the lock. One thread stands still there, by a wrap of pthread_mutex_unlock. And a second owner,
 * when the first one has been forgotten.
 */
#include "util/biased.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static _Thread_local bool stands;
static _Atomic bool leaving, waited, ended;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (atomic_load(&leaving))
        atomic_store(&waited, true);
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (stands) {
        stands = false;
        atomic_store(&leaving, true);
        while (!atomic_load(&waited) && !atomic_load(&ended))
            (void)sched_yield();
    }
    return __real_pthread_mutex_unlock(mutex);
}

static void *another(void *b)
{
    const bool as_owner = biased_enter(b, BIASED_NEVER);

    stands = true;
    biased_leave(b, as_owner);
    return NULL;
}

static void the_end_waits_for_a_thread_that_leaves(void **state)
{
    struct biased b;
    pthread_t thread;

    (void)state;
    biased_init(&b);
    biased_leave(&b, biased_enter(&b, BIASED_AT_ONCE)); /* this thread owns it */
    assert_int_equal(pthread_create(&thread, NULL, another, &b), 0);
    while (!atomic_load(&leaving))
        (void)sched_yield();
    assert_true(biased_enter(&b, BIASED_NEVER)); /* as the owner, without the mutex */
    biased_leave(&b, true);
    biased_fini(&b);
    atomic_store(&ended, true);
    assert_true(atomic_load(&waited));
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *owns(void *b)
{
    biased_leave(
        b, biased_enter(b, BIASED_AT_ONCE)); /* with the mutex: as the first call of an owner */
    return biased_is_owner(b) && biased_enter(b, BIASED_NEVER) ? (biased_leave(b, true), b) : NULL;
}

static void the_owner_stays_until_it_is_forgotten(void **state)
{
    struct biased b;
    pthread_t thread;
    void *owner;

    (void)state;
    biased_init(&b);
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        biased_leave(&b, biased_enter(&b, BIASED_AT_ONCE));
        assert_true(biased_is_owner(&b));
        if (forgotten == 1) {
            biased_enter_other(&b, BIASED_NEVER);
            biased_disown(&b);
            biased_leave_other(&b);
            assert_false(biased_is_owner(&b));
        }
        assert_int_equal(pthread_create(&thread, NULL, owns, &b), 0);
        assert_int_equal(pthread_join(thread, &owner), 0);
        assert_true((owner != NULL) == (forgotten == 1));
    }
    assert_false(biased_enter(&b, BIASED_NEVER)); /* with the mutex, as others */
    biased_leave(&b, false);
    biased_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_end_waits_for_a_thread_that_leaves),
                                       cmocka_unit_test(the_owner_stays_until_it_is_forgotten)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
