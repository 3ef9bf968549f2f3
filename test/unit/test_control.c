/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control network between real processes: order, descriptors, large messages, many at once. How a peer ends is in
 * test_control_end.c, unauthenticated connections in test_control_unauthenticated.c.
 */
#include "control_ranks.h"

#include "control/wire.h"

#include <pthread.h>
#include <sys/mman.h>

static void messages_arrive_in_order(int rank, int size)
{
    static const size_t sizes[] = {8, 9, 300, 65536, 4088, 8, 65535, 100};
    const uint32_t count = 400;
    uint32_t i;
    int to;

    (void)rank;
    rank_start(&hooks);
    for (i = 1; i <= count; i++) {
        for (to = 0; to < size; to++)
            REQUIRE(post_note(to, i, sizes[i % 8], NULL, 0) == 0);
    }
    REQUIRE(control_flush(-1, deadline_in_ms(LIMIT_MS)) == 0);
    AWAIT(atomic_load(&arrived) == (int)count * size);
    REQUIRE(atomic_load(&wrong) == 0);
    barrier();
    REQUIRE(atomic_load(&died) == 0);
    rank_stop();
}

static void bad_arguments_are_refused(int rank, int size)
{
    static uint8_t body[CONTROL_BODY_MAX + 1];
    int fd = 0;

    REQUIRE(control_post(0, NOTE, body, 8, NULL, 0) == -ENOTCONN);
    rank_start(&hooks);
    REQUIRE(control_post(size, NOTE, body, 8, NULL, 0) == -ENOENT);
    REQUIRE(control_post(-1, NOTE, body, 8, NULL, 0) == -ENOENT);
    REQUIRE(control_post(0, WIRE_HELLO, body, 8, NULL, 0) == -EINVAL);
    REQUIRE(control_post(0, NOTE, body, sizeof(body), NULL, 0) == -EINVAL);
    REQUIRE(control_post(0, NOTE, body, 8, &fd, CONTROL_FDS_MAX + 1) == -EINVAL);
    fd = -1;
    REQUIRE(control_post(rank, NOTE, body, 8, &fd, 1) == -EBADF);
    REQUIRE(control_flush(size, DEADLINE_NOW) == -ENOENT);
    barrier();
    rank_stop();
    REQUIRE(control_post(0, NOTE, body, 8, NULL, 0) == -ENOTCONN);
    REQUIRE(control_flush(-1, DEADLINE_NOW) == -ENOTCONN);
}

static void descriptors_travel_with_their_message(int rank, int size)
{
    int fds[CONTROL_FDS_MAX], n, to = (rank + 1) % size;
    uint32_t i, value;

    rank_start(&hooks);
    for (i = 1; i <= 500; i++) {
        for (n = 0; n < (int)(i % (CONTROL_FDS_MAX + 1)); n++) {
            value = i + (uint32_t)n;
            fds[n] = memfd_create("test", MFD_CLOEXEC);
            REQUIRE(write(fds[n], &value, sizeof(value)) == (ssize_t)sizeof(value));
        }
        REQUIRE(post_note(to, i, 8 + i * 131 % 65000, fds, n) == 0);
        REQUIRE(post_note(rank, i, 8, fds, n) == 0);
        while (n > 0)
            close(fds[--n]);
    }
    AWAIT(atomic_load(&arrived) == 1000);
    REQUIRE(atomic_load(&wrong) == 0);
    barrier();
    rank_stop();
}

static void tcp_carries_no_descriptors(int rank, int size)
{
    int fd = 0;

    rank_start(&hooks);
    REQUIRE(control_path((rank + 1) % size) == CONTROL_TCP && control_path(rank) == CONTROL_SELF);
    REQUIRE(post_note((rank + 1) % size, 1, 8, &fd, 1) == -ENOTSUP);
    REQUIRE(control_liveness((rank + 1) % size) == NULL);
    barrier();
    REQUIRE(control_liveness((rank + 1) % size) == NULL);
    rank_stop();
}

static void very_many_at_once(int rank, int size)
{
    int64_t begin;
    uint32_t i;

    rank_start(&hooks);
    barrier();
    begin = clock_now();
    for (i = 1; rank == 0 && i <= 65536; i++)
        REQUIRE(post_note(1, i, 300, NULL, 0) == 0);
    if (rank == 0)
        REQUIRE(control_flush(1, deadline_in_ms(LIMIT_MS)) == 0);
    if (rank == 1)
        AWAIT(atomic_load(&arrived) == 65536);
    if (rank == size - 1)
        printf("    65,536 messages of 300 bytes: %.0f ms\n", (double)(clock_now() - begin) / 1e6),
            fflush(stdout);
    REQUIRE(atomic_load(&wrong) == 0);
    barrier();
    rank_stop();
}

static pthread_mutex_t numbering = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_number;

static void *poster(void *to)
{
    int i;

    for (i = 0; i < 2000; i++) {
        pthread_mutex_lock(&numbering);
        REQUIRE(post_note(*(int *)to, ++next_number, 8 + (size_t)i % 500, NULL, 0) == 0);
        pthread_mutex_unlock(&numbering);
    }
    return NULL;
}

static void many_threads_post(int rank, int size)
{
    pthread_t threads[4];
    int to = (rank + 1) % size, i;

    rank_start(&hooks);
    for (i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, poster, &to) == 0);
    for (i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    AWAIT(atomic_load(&arrived) == 8000);
    REQUIRE(atomic_load(&wrong) == 0);
    barrier();
    rank_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANKS_BOTH(3, messages_arrive_in_order),
        RANKS_OVER("auto", 2, bad_arguments_are_refused),
        RANKS_OVER("auto", 2, descriptors_travel_with_their_message),
        RANKS_OVER("tcp", 2, tcp_carries_no_descriptors),
        RANKS_BOTH(2, very_many_at_once),
        RANKS_BOTH(2, many_threads_post),
    };

    return cmocka_run_group_tests_name("control network", tests, NULL, NULL);
}
