/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_greeting.c: two ranks meet while one of them has next to no descriptors left. A greeting carries the life page; it must not need
 * a number of its own to be sent, or answered, for no process would send it again.
 */
#include "test/lib/descriptor_limit.h"
#include "test/lib/ranks.h"

#include "control/collective.h"

#include <sys/mman.h>

#define NOTE (CONTROL_TYPE_USER + 7)

static struct {
    _Atomic bool ready;
} * shared; /* by the ranks */

static int limited, spare; /* which rank has how many descriptors left */
static _Atomic int arrived, gone;

static int on_message(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                      int nfds)
{
    (void)from, (void)body, (void)fds;
    REQUIRE(type == NOTE && bytes == 0 && nfds == 0);
    atomic_fetch_add(&arrived, 1);
    return 0;
}

static void on_gone(int rank, enum control_end end, const char *why)
{
    (void)rank, (void)why;
    atomic_fetch_add(&gone, end == PEER_DIED);
}

static const struct control_hooks hooks = {on_message, on_gone, NULL, NULL};

static void rank_meets(int rank, int size)
{
    struct rlimit limit;
    struct error err = {""};

    (void)size;
    rank_start(&hooks); /* ends when both have published; no connection is there yet */
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (rank == limited) {
        REQUIRE(descriptors_leave(spare));
        atomic_store(&shared->ready, true);
    }
    AWAIT(atomic_load(&shared->ready));
    if (rank == 0) /* calls; rank 1 is called */
        REQUIRE(control_post(1, NOTE, NULL, 0, NULL, 0) == 0 &&
                control_flush(1, deadline_in_ms(LIMIT_MS)) == 0);
    else
        AWAIT(atomic_load(&arrived) == 1);
    REQUIRE(atomic_load(&gone) == 0);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (rank == 1) /* and the other way round */
        REQUIRE(control_post(0, NOTE, NULL, 0, NULL, 0) == 0 &&
                control_flush(0, deadline_in_ms(LIMIT_MS)) == 0);
    else
        AWAIT(atomic_load(&arrived) == 1);
    REQUIRE(collect_barrier(deadline_in_ms(LIMIT_MS), &err) == 0);
    REQUIRE(atomic_load(&gone) == 0);
    rank_stop();
}

static void test_a_rank_without_descriptors_is_accepted(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "unix", 1);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    for (limited = 0; limited < 2; limited++)
        for (spare = 1; spare < 4; spare++) {
            atomic_store(&shared->ready, false);
            run_ranks(2, rank_meets);
        }
    munmap(shared, sizeof(*shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_without_descriptors_is_accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
