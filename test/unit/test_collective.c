/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_collective.c: network_send(3) and its kin: windows, deadlines that leave no trace, collectives in which a rank dies,
 * gives up or does something else, and the barrier of rexit with the dead and the gone.
 */
#include "test/lib/ranks.h"

#include "control/collective.h"
#include "control/lane.h"

#include <pthread.h>
#include <sys/mman.h>

static _Atomic int died, left;

static void on_gone(int rank, enum control_end end, const char *reason)
{
    (void)rank, (void)reason;
    atomic_fetch_add(end == PEER_LEFT ? &left : &died, 1);
}

static const struct control_hooks hooks = {NULL, on_gone, NULL, NULL};

static struct error err;

static int64_t limit(void) { return deadline_in_ms(LIMIT_MS); }
static int put(int to, const void *buf, size_t bytes, int ms)
{
    return collect_send(to, buf, bytes, deadline_in_ms(ms), &err);
}
static int get(int from, void *buf, size_t bytes, int ms)
{
    return collect_recv(from, buf, bytes, deadline_in_ms(ms), &err);
}

#define OK(call)                                                                                   \
    do {                                                                                           \
        int result_ = (call);                                                                      \
        if (result_ != 0) {                                                                        \
            fprintf(stderr, "[rank %d] line %d: %s: %d: %s\n", job_rank(), __LINE__, #call,        \
                    result_, err.text);                                                            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define BARRIER() OK(collect_barrier(limit(), &err))

/* ---- point to point ---- */

static void sizes_around_pieces_and_window(int rank, int size)
{
    static const size_t sizes[] = {0, 1, 7, 65488, 65489, 1u << 20, (1u << 20) + 1, 5u << 20};
    uint8_t *mine = malloc(5u << 20), *theirs = malloc(5u << 20);
    size_t s, i;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;

    rank_start(&hooks);
    for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (i = 0; i < sizes[s]; i++)
            mine[i] = (uint8_t)(i / 3 + s + (size_t)rank);
        if (rank == 0)
            OK(put(to, mine, sizes[s], LIMIT_MS));
        OK(get(from, theirs, sizes[s], LIMIT_MS));
        if (rank != 0)
            OK(put(to, mine, sizes[s], LIMIT_MS));
        for (i = 0; i < sizes[s]; i++)
            REQUIRE(theirs[i] == (uint8_t)(i / 3 + s + (size_t)from));
    }
    BARRIER();
    rank_stop();
    free(mine);
    free(theirs);
}

static void a_message_of_another_size_stays(int rank, int size)
{
    uint64_t value = 17, more[2] = {0, 0};

    (void)size;
    rank_start(&hooks);
    if (rank == 0) {
        OK(put(1, &value, sizeof(value), LIMIT_MS));
    } else {
        REQUIRE(get(0, more, sizeof(more), LIMIT_MS) == -EMSGSIZE &&
                strstr(err.text, "8 bytes") != NULL);
        REQUIRE(get(0, more, 4, LIMIT_MS) == -EMSGSIZE);
        OK(get(0, more, 8, LIMIT_MS));
        REQUIRE(more[0] == 17);
    }
    REQUIRE(put(size, &value, 8, LIMIT_MS) == -ENOENT && get(-1, &value, 8, LIMIT_MS) == -ENOENT);
    BARRIER();
    rank_stop();
    REQUIRE(put(0, &value, 8, LIMIT_MS) == -ENOTCONN);
}

/* The window bounds what an idle receiver can be sent; a send that times out leaves nothing, not even half a message. */
static void window_and_cancelled_sends(int rank, int size)
{
    const size_t large = 3u << 20;
    uint8_t *buf = calloc(1, large);
    uint64_t sent = 0, i, value;

    (void)size;
    rank_start(&hooks);
    if (rank == 0) {
        while (put(1, &sent, sizeof(sent), 50) == 0)
            sent++;
        REQUIRE(sent * (8 + CHUNK_CHARGE) <= LANE_WINDOW_BYTES &&
                (sent + 1) * (8 + CHUNK_CHARGE) > LANE_WINDOW_BYTES);
        OK(collect_send(0, &sent, sizeof(sent), limit(), &err)); /* others are not concerned */
        OK(get(0, &value, sizeof(value), LIMIT_MS));
        REQUIRE(value == sent);
    }
    BARRIER();
    OK(collect_allgather(&sent, sizeof(sent), buf, limit(), &err));
    memcpy(&sent, buf, sizeof(sent));
    if (rank == 1) {
        for (i = 0; i < sent; i++) {
            OK(get(0, &value, sizeof(value), LIMIT_MS));
            REQUIRE(value == i);
        }
        REQUIRE(get(0, &value, sizeof(value), 30) == -ETIMEDOUT &&
                strstr(err.text, "rank 0") != NULL);
    }
    BARRIER();
    if (rank == 0) {
        REQUIRE(put(1, buf, large, 50) == -ETIMEDOUT &&
                strstr(err.text, "rank 1") != NULL); /* begun, then cancelled */
        memset(buf, 0x5a, large);
        BARRIER();
        OK(put(1, buf, large, LIMIT_MS));
        OK(put(1, &sent, sizeof(sent), LIMIT_MS));
    } else {
        BARRIER();
        OK(get(0, buf, large, LIMIT_MS));
        for (i = 0; i < large; i++)
            REQUIRE(buf[i] == 0x5a);
        OK(get(0, &value, sizeof(value), LIMIT_MS));
        REQUIRE(value == sent);
    }
    BARRIER();
    rank_stop();
    free(buf);
}

/* A receive that times out in the middle of a message leaves it whole for the next one. */
static void receives_that_time_out_lose_nothing(int rank, int size)
{
    const size_t large = 4u << 20;
    uint8_t *buf = calloc(1, large), *scrap = calloc(1, large);
    int tries = 0, result;
    size_t i;

    (void)size;
    rank_start(&hooks);
    if (rank == 0) {
        for (i = 0; i < large; i++)
            buf[i] = (uint8_t)(i * 5 + i / 1000);
        OK(put(1, buf, large, LIMIT_MS));
        OK(put(1, buf, 10, LIMIT_MS));
    } else {
        /* deadlines that have passed already: each takes what is there at that moment */
        while ((result = collect_recv(0, tries++ % 2 == 0 ? scrap : buf, large, DEADLINE_NOW,
                                      &err)) == -ETIMEDOUT)
            REQUIRE(get(0, scrap, 11, 0) < 0);
        REQUIRE(result == 0 && tries > 1);
        for (i = 0; i < large; i++)
            REQUIRE((tries % 2 == 1 ? scrap : buf)[i] == (uint8_t)(i * 5 + i / 1000));
        OK(get(0, buf, 10, LIMIT_MS));
    }
    BARRIER();
    rank_stop();
    free(buf);
    free(scrap);
}

static void *sends_many(void *unused)
{
    uint8_t buf[3000];
    int i;

    (void)unused;
    for (i = 0; i < 500; i++) {
        struct error reason = {""};

        memset(buf, i, sizeof(buf));
        REQUIRE(collect_send(1, buf, sizeof(buf), limit(), &reason) == 0);
    }
    return NULL;
}

static void threads_do_not_mix_messages(int rank, int size)
{
    uint8_t buf[3000];
    pthread_t t[3];
    int i, k;

    (void)size;
    rank_start(&hooks);
    if (rank == 0) {
        for (i = 0; i < 3; i++)
            REQUIRE(pthread_create(&t[i], NULL, sends_many, NULL) == 0);
        for (i = 0; i < 3; i++)
            pthread_join(t[i], NULL);
    } else {
        for (i = 0; i < 1500; i++) {
            OK(get(0, buf, sizeof(buf), LIMIT_MS));
            for (k = 1; k < 3000; k++)
                REQUIRE(buf[k] == buf[0]);
        }
    }
    BARRIER();
    rank_stop();
}

static void rank_sends_before_the_end(int rank, int size)
{
    uint64_t value = 5;

    (void)size;
    rank_start(&hooks);
    BARRIER();
    if (rank == 1) {
        OK(put(0, &value, 8, LIMIT_MS));
        if (getenv("DIES") != NULL) {
            REQUIRE(control_flush(-1, limit()) == 0);
            kill(getpid(), SIGKILL);
        }
    } else {
        AWAIT(atomic_load(&died) + atomic_load(&left) == 1);
        OK(get(1, &value, 8, LIMIT_MS));
        REQUIRE(get(1, &value, 8, LIMIT_MS) == (getenv("DIES") != NULL ? -ECONNRESET : -EPIPE) &&
                strstr(err.text, "rank 1") != NULL);
        REQUIRE(put(1, &value, 8, LIMIT_MS) == (getenv("DIES") != NULL ? -ECONNRESET : -EPIPE));
    }
    rank_stop();
}

static void test_what_was_sent_before_the_end_can_be_received(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    unsetenv("DIES");
    run_ranks(2, rank_sends_before_the_end);
    setenv("DIES", "1", 1);
    run_ranks_but(1, SIGKILL, 2, rank_sends_before_the_end);
}

/* ---- collectives ---- */

static void rank_collectives(int rank, int size)
{
    uint8_t *mine = malloc(300000), *all = malloc(300000u * RANKS_MOST);
    size_t bytes, i;
    int n, r;

    rank_start(&hooks);
    for (n = 0; n < 60; n++) {
        bytes = n % 7 == 6 ? 300000 : (size_t)n * 13;
        for (i = 0; i < bytes; i++)
            mine[i] = (uint8_t)(i + (size_t)(rank * 50 + n));
        OK(collect_allgather(mine, bytes, all, limit(), &err));
        for (r = 0; r < size; r++) {
            for (i = 0; i < bytes; i++)
                REQUIRE(all[(size_t)r * bytes + i] == (uint8_t)(i + (size_t)(r * 50 + n)));
        }
        if (n % 3 == 0)
            BARRIER();
    }
    REQUIRE(collect_leave(limit(), &(struct error){""}) == 0);
    rank_stop();
    free(mine);
    free(all);
}

static void test_collectives(void **state)
{
    int size;

    setenv("RPIPE_CONTROL", *state, 1);
    for (size = 1; size <= 7; size++)
        run_ranks(size, rank_collectives);
}

/* Rank 2 of 5 dies. Most of the others have never received from it, and still none of them hangs. */
static void rank_barrier_dies(int rank, int size)
{
    rank_start(&hooks);
    (void)size;
    if (getenv("EARLY") == NULL)
        BARRIER();
    if (rank == 2) {
        REQUIRE(control_flush(-1, limit()) == 0); /* its part in the barrier that is over */
        kill(getpid(), SIGKILL);
    }
    REQUIRE(collect_barrier(limit(), &err) == -ECONNRESET);
    REQUIRE(strstr(err.text, "rank 2") != NULL);
    REQUIRE(collect_leave(limit(), &(struct error){""}) == 0);
    rank_stop();
}

static void test_a_death_ends_the_collective_of_all(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    unsetenv("EARLY");
    run_ranks_but(2, SIGKILL, 5, rank_barrier_dies);
    setenv("EARLY", "1", 1);
    run_ranks_but(2, SIGKILL, 5, rank_barrier_dies);
    unsetenv("EARLY");
}

/* Rank 0 does not come. The others time out, report that, and can go on together afterwards. */
static void a_deadline_ends_the_collective_of_all(int rank, int size)
{
    uint64_t value = (uint64_t)rank, all[RANKS_MOST];

    rank_start(&hooks);
    if (rank != 0) {
        REQUIRE(collect_barrier(deadline_in_ms(100), &err) == -ETIMEDOUT &&
                strstr(err.text, "rank") != NULL);
        OK(put(0, &value, 8, LIMIT_MS));
    } else {
        int r;

        for (r = 1; r < size; r++)
            OK(get(r, &value, 8, LIMIT_MS));
        /* it comes last: all it waits for is here, be it that all came, or that a rank gave up */
        REQUIRE(collect_barrier(deadline_in_ms(20), &err) != -EPROTO);
        value = 0;
    }
    OK(collect_allgather(&value, 8, all, limit(), &err));
    REQUIRE(all[0] == 0 && all[size - 1] == (uint64_t)size - 1);
    REQUIRE(collect_leave(limit(), &(struct error){""}) == 0);
    rank_stop();
}

static void different_collectives_are_reported(int rank, int size)
{
    uint64_t value[2] = {0, 0}, all[2 * RANKS_MOST];

    (void)size;
    rank_start(&hooks);
    if (rank == 0)
        REQUIRE(collect_barrier(limit(), &err) == -EPROTO &&
                strstr(err.text, "network_allgather") != NULL);
    else
        REQUIRE(collect_allgather(value, 8, all, limit(), &err) == -EPROTO &&
                strstr(err.text, "network_barrier") != NULL);
    REQUIRE(collect_allgather(value, rank == 0 ? 8 : 16, all, limit(), &err) == -EMSGSIZE);
    REQUIRE(collect_leave(limit(), &(struct error){""}) == 0);
    rank_stop();
}

/* ---- leaving ---- */

static _Atomic int *arrivals; /* how many have entered collect_leave(), in all processes */

static void rank_leave(int rank, int size)
{
    int dead = getenv("DIES") != NULL ? 1 : 0;

    rank_start(&hooks);
    if (dead != 0 && rank == 3)
        kill(getpid(), SIGKILL);
    if (rank == size - 1)
        usleep(100000); /* so that a leave that does not wait is caught */
    atomic_fetch_add(arrivals, 1);
    REQUIRE(collect_leave(limit(), &(struct error){""}) == 0);
    REQUIRE(atomic_load(arrivals) == size - dead);
    rank_stop();
}

static void test_leaving_waits_for_the_living(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    arrivals = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(arrivals, MAP_FAILED);
    unsetenv("DIES");
    run_ranks(6, rank_leave);
    atomic_store(arrivals, 0);
    setenv("DIES", "1", 1);
    run_ranks_but(3, SIGKILL, 6, rank_leave);
    unsetenv("DIES");
    munmap(arrivals, 4096);
}

static void leaving_skips_ranks_that_have_left(int rank, int size)
{
    (void)size;
    rank_start(&hooks);
    if (rank == 1) {
        BARRIER();
        rank_stop(); /* without collect_leave() */
        return;
    }
    BARRIER();
    REQUIRE(collect_leave(limit(), &(struct error){""}) == 0);
    rank_stop();
}

static void leaving_has_a_deadline(int rank, int size)
{
    (void)size;
    rank_start(&hooks);
    BARRIER();
    if (rank == 0) {
        REQUIRE(collect_leave(deadline_in_ms(50), &(struct error){""}) == -ETIMEDOUT);
        OK(put(1, &rank, sizeof(rank), LIMIT_MS));
    } else {
        OK(get(0, &rank, sizeof(rank), LIMIT_MS));
    }
    rank_stop();
}

/* ---- what a peer may not do ---- */

static const char *arrive(struct pair *pair, struct chunk head, size_t payload)
{
    static uint8_t body[CONTROL_BODY_MAX];
    const char *wrong;
    int result;

    if (head.bytes == 0)
        head.bytes = sizeof(head);
    memcpy(body, &head, sizeof(head));
    result = lane_arrive(pair, body, sizeof(head) + payload, &wrong);
    assert_int_equal(result, wrong != NULL ? -EPROTO : 0);
    return wrong;
}

static void test_a_lane_takes_only_what_fits(void **state)
{
    struct pair *pair = malloc(sizeof(*pair));
    struct chunk first = {.total = 200000}, next = {.total = 200000, .offset = 60000},
                 whole = {.total = 10};
    struct ack ack = {.bytes = sizeof(ack), .lane = LANE_USER, .taken = 1};
    uint8_t little[8] = {0};
    const char *wrong;
    int i;

    (void)state;
    lane_init(pair, control_post);
    assert_int_equal(lane_arrive(pair, little, sizeof(little), &wrong), -EPROTO);
    assert_non_null(arrive(pair, next, 100)); /* no beginning */
    whole.bytes = 47;
    assert_non_null(arrive(pair, whole, 10)); /* a header that is too short */
    whole.bytes = 100;
    assert_non_null(arrive(pair, whole, 10)); /* or longer than the message */
    whole.bytes = 56;
    assert_null(arrive(pair, whole, 8 + 10)); /* of a later version: the rest of it is ignored */
    whole.bytes = 0;
    assert_non_null(arrive(pair, (struct chunk){.lane = 2}, 0)); /* no such lane */
    assert_non_null(
        arrive(pair, (struct chunk){.lane = LANE_COLLECTIVE}, 0)); /* kind of the other lane */
    assert_non_null(arrive(pair, (struct chunk){.kind = CHUNK_KINDS}, 0));
    assert_non_null(arrive(pair, (struct chunk){.flags = 2}, 0));
    assert_non_null(arrive(pair, (struct chunk){.flags = CHUNK_CANCEL}, 0)); /* nothing to cancel */
    assert_non_null(arrive(pair, whole, 11));                              /* more than announced */
    assert_non_null(arrive(pair, (struct chunk){.total = UINT64_MAX}, 0)); /* no progress */
    assert_null(arrive(pair, first, 60000));
    assert_non_null(arrive(pair, first, 60000)); /* the same again */
    assert_non_null(arrive(pair, whole, 10));    /* another in between */
    assert_null(arrive(pair, next, 60000));
    next.offset = 120000;
    next.total++;
    assert_non_null(arrive(pair, next, 60000)); /* it grows */
    next.total--;
    assert_null(arrive(pair, next, 60000));
    next.offset = 180000;
    assert_non_null(arrive(pair, next, 20001));
    assert_null(arrive(pair, next, 20000));
    for (i = 0; arrive(pair, whole, 10) == NULL; i++)
        assert_true(i < 20000); /* until the window is full */
    assert_true(pair->in[LANE_USER].charged <= LANE_WINDOW_BYTES);
    assert_null(arrive(pair, (struct chunk){.lane = LANE_COLLECTIVE, .kind = CHUNK_BARRIER},
                       0));                               /* its own window */
    assert_non_null(lane_acked(pair, &ack, sizeof(ack))); /* of what was never sent */
    assert_non_null(lane_acked(pair, &ack, 8));
    ack.lane = 77;
    assert_non_null(lane_acked(pair, &ack, sizeof(ack)));
    lane_free(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lane_takes_only_what_fits),
        RANKS_BOTH(3, sizes_around_pieces_and_window),
        RANKS_OVER("auto", 2, a_message_of_another_size_stays),
        RANKS_BOTH(2, window_and_cancelled_sends),
        RANKS_BOTH(2, receives_that_time_out_lose_nothing),
        RANKS_OVER("auto", 2, threads_do_not_mix_messages),
        BOTH(test_what_was_sent_before_the_end_can_be_received),
        BOTH(test_collectives),
        BOTH(test_a_death_ends_the_collective_of_all),
        RANKS_OVER("auto", 4, a_deadline_ends_the_collective_of_all),
        RANKS_OVER("auto", 2, different_collectives_are_reported),
        BOTH(test_leaving_waits_for_the_living),
        RANKS_OVER("auto", 4, leaving_skips_ranks_that_have_left),
        RANKS_OVER("auto", 2, leaving_has_a_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
