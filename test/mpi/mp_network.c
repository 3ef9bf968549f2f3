/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control network: ranks, barrier, allgather, send and receive between all pairs, oneself included, in order,
 * with sizes from 0 to the limit; what is invalid is an error and has no effect; several threads may send and receive.
 */
#include "test/lib/mp_check.h"
#include <pthread.h>

enum { MOST = 1024 * 1024 };

static void ranks(void)
{
    CHECK(NULL, network_rank() == mp_rank && network_ranks() == mp_ranks);
    CHECK(NULL, mp_rank >= 0 && mp_rank < mp_ranks);
    CHECK_OK(NULL, rinit(NULL, NULL)); /* counted: neither this nor its rexit is collective */
    CHECK_OK(NULL, rexit());
    CHECK(NULL, rinitialized());
    CHECK_OK(NULL, rprogress());
}

/* no rank passes a barrier before the last one has come: each sends its round to all before it comes */
static void barriers(void)
{
    for (uint32_t round = 0; round < 50; round++) {
        int to = (int)((uint32_t)mp_rank + round) % mp_ranks,
            from = (int)((uint32_t)(mp_rank + mp_ranks) - round % (uint32_t)mp_ranks) % mp_ranks;
        uint32_t received = UINT32_MAX;

        CHECK_OK(NULL, network_send(to, &round, sizeof(round)));
        CHECK_OK(NULL, network_barrier());
        CHECK_OK(NULL, network_recv(from, &received, sizeof(received)));
        CHECK(NULL, received == round);
    }
}

static void allgathers(void)
{
    static const size_t sizes[] = {0, 1, 7, 8, 100, 4096, 70000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t n = sizes[i];
        uint8_t *mine = malloc(n + 1), *all = malloc(n * (size_t)mp_ranks + 1);

        CHECK(NULL, mine != NULL && all != NULL);
        pattern_fill(mine, n, mp_key(mp_rank, 0, 0, i));
        all[n * (size_t)mp_ranks] = 0x5a;
        CHECK_OK(NULL, network_allgather(n == 0 ? NULL : mine, n, n == 0 ? NULL : all));
        for (int r = 0; r < mp_ranks; r++)
            CHECK(NULL, pattern_same(all + (size_t)r * n, n, mp_key(r, 0, 0, i)));
        CHECK(NULL, all[n * (size_t)mp_ranks] == 0x5a);
        free(mine);
        free(all);
    }
    CHECK_RC(-EINVAL, NULL, network_allgather(NULL, 1, &mp_seed));
    CHECK_RC(-EINVAL, NULL, network_allgather(&mp_seed, 1, NULL));
}

static size_t size_of(int from, int to, uint64_t i)
{
    uint64_t x = mp_key(from, to, 77, i);

    return x % 4 == 0 ? x % 5 : x % 3000;
}

/* all to all, oneself too: everything sent first (it fits into 1 MiB per pair), then received, the pairs mixed */
static void all_to_all(void)
{
    enum { MESSAGES = 60 };
    uint8_t *buf = malloc(4096);

    CHECK(NULL, buf != NULL);
    for (uint64_t i = 0; i < MESSAGES; i++)
        for (int k = 0; k < mp_ranks; k++) {
            int to = (mp_rank + k) % mp_ranks;

            pattern_fill(buf, size_of(mp_rank, to, i), mp_key(mp_rank, to, 0, i));
            CHECK_OK(NULL, network_send(to, buf, size_of(mp_rank, to, i)));
        }
    for (uint64_t i = 0; i < MESSAGES; i++)
        for (int k = 0; k < mp_ranks; k++) {
            int from = (mp_rank + mp_ranks - k) % mp_ranks;
            size_t n = size_of(from, mp_rank, i);

            buf[n] = 0x5a;
            CHECK_OK(NULL, network_recv(from, buf, n));
            CHECK(NULL, pattern_same(buf, n, mp_key(from, mp_rank, 0, i)) && buf[n] == 0x5a);
        }
    free(buf);
}

/* as much as may be in flight, and more, and a message that is larger than that: the sender waits, and is let on */
static void large(void)
{
    int next = (mp_rank + 1) % mp_ranks, previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    uint8_t *buf = malloc(5 * MOST);

    CHECK(NULL, buf != NULL);
    for (uint64_t i = 0; i < 4; i++) {
        bool first = mp_rank % 2 == 0 && mp_ranks > 1;
        size_t n = i == 3 && mp_ranks > 1 ? 5 * MOST : MOST;

        for (int half = 0; half < 2; half++) {
            if ((half == 0) == first || mp_ranks == 1) {
                if (mp_ranks > 1 || half == 0) {
                    pattern_fill(buf, n, mp_key(mp_rank, next, 1, i));
                    CHECK_OK(NULL, network_send(next, buf, n));
                    continue;
                }
            }
            memset(buf, 0, n);
            CHECK_OK(NULL, network_recv(previous, buf, n));
            CHECK(NULL, pattern_same(buf, n, mp_key(previous, mp_rank, 1, i)));
        }
    }
    /* one way: the receiver begins when the sender has long been waiting, or not */
    if (mp_ranks > 1 && mp_rank == 0) {
        for (uint64_t i = 0; i < 8; i++) {
            pattern_fill(buf, MOST / 2, mp_key(0, 1, 2, i));
            CHECK_OK(NULL, network_send(1, buf, MOST / 2));
        }
    } else if (mp_rank == 1) {
        for (uint64_t i = 0; i < 8; i++) {
            CHECK_OK(NULL, network_recv(0, buf, MOST / 2));
            CHECK(NULL, pattern_same(buf, MOST / 2, mp_key(0, 1, 2, i)));
        }
    }
    free(buf);
}

/* a wrong size takes nothing away, and touches nothing; the error message names the right one */
static void errors(void)
{
    int next = (mp_rank + 1) % mp_ranks, previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    char word[] = "a word of 20 letters", buf[64];

    memset(buf, 0x5a, sizeof(buf));
    CHECK_OK(NULL, network_send(next, word, 20));
    CHECK_OK(NULL, network_send(next, NULL, 0));
    CHECK_RC(-EMSGSIZE, NULL, network_recv(previous, buf, 19));
    CHECK_ERROR(NULL, "20");
    CHECK_RC(-EMSGSIZE, NULL, network_recv(previous, buf, 21));
    CHECK_RC(-EMSGSIZE, NULL, network_recv(previous, NULL, 0));
    CHECK(NULL, buf[0] == 0x5a && buf[20] == 0x5a);
    CHECK_OK(NULL, network_recv(previous, buf, 20));
    CHECK(NULL, memcmp(buf, word, 20) == 0 && buf[20] == 0x5a);
    CHECK_OK(NULL, network_recv(previous, NULL, 0));

    CHECK_RC(-ENOENT, NULL, network_send(-1, word, 1));
    CHECK_RC(-ENOENT, NULL, network_send(mp_ranks, word, 1));
    CHECK_RC(-EINVAL, NULL, network_send(next, NULL, 1));
    CHECK_RC(-ENOENT, NULL, network_recv(-1, buf, 1));
    CHECK_RC(-ENOENT, NULL, network_recv(mp_ranks, buf, 1));
    CHECK_RC(-EINVAL, NULL, network_recv(previous, NULL, 1));
    CHECK(NULL, strcmp(rerror(NULL), "no error") != 0);
}

/* threads: each has messages of its own size to each rank; what it receives is one of them, and all come */
enum { THREADS = 4, EACH = 50 };

static uint64_t sums[THREADS];

static void *receiving(void *argument)
{
    uint64_t *sum = argument, value;

    for (int i = 0; i < EACH * mp_ranks; i++) {
        CHECK_OK(NULL, network_recv(i % mp_ranks, &value, sizeof(value)));
        *sum += value;
    }
    return NULL;
}

static void *sending(void *argument)
{
    uint64_t value = (uint64_t)(uintptr_t)argument;

    for (int i = 0; i < EACH * mp_ranks; i++, value += 1000)
        CHECK_OK(NULL, network_send(i % mp_ranks, &value, sizeof(value)));
    return NULL;
}

static void threads(void)
{
    pthread_t r[THREADS], s[THREADS];
    uint64_t sum = 0, expected = 0, total = 0, *all = calloc((size_t)mp_ranks, sizeof(*all));

    CHECK(NULL, all != NULL);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(NULL, pthread_create(&r[i], NULL, receiving, &sums[i]) == 0);
        CHECK(NULL, pthread_create(&s[i], NULL, sending, (void *)(uintptr_t)(i + 1)) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(r[i], NULL);
        pthread_join(s[i], NULL);
        sum += sums[i];
    }
    CHECK_OK(NULL, network_allgather(&sum, sizeof(sum), all));
    for (int i = 0; i < mp_ranks; i++)
        total += all[i];
    for (uint64_t t = 1; t <= THREADS; t++)
        for (uint64_t i = 0; i < EACH * (uint64_t)mp_ranks; i++)
            expected += t + i * 1000;
    CHECK(NULL, total == expected * (uint64_t)mp_ranks);
    free(all);
}

int main(int argc, char **argv)
{
    mp_begin(argc, argv, 1);
    ranks();
    barriers();
    allgathers();
    all_to_all();
    large();
    errors();
    CHECK_OK(NULL, network_barrier());
    threads();
    return mp_end();
}
