/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * litmus.h: what the litmus tests of the rules of execution have in common (doc/thesis.md, "The contract").
 *
 * A program has two parts. guaranteed() asserts what the rule promises. not_guaranteed() makes, by events that it orders itself, an
 * execution in which more than that does not hold, and asserts that it does not: a program that relies on it is wrong. Where
 * such an execution depends on the network, it is counted and printed; the model has the execution (model/litmus.pml).
 *
 * One process writes and another reads, under a launcher; over the simulated network (PAIR_NET, by test/run-sim) two threads of a
 * process do. Events that are not part of a rule are ordered by litmus_signal() and litmus_await(): messages of the control network, or
 * semaphores.
 */
#ifndef TEST_LITMUS_H
#define TEST_LITMUS_H

#include "test/lib/mp_check.h"

#include <pthread.h>
#include <semaphore.h>

static _Thread_local bool litmus_writer;
static bool litmus_threads;   /* both sides are in this process */
static sem_t litmus_event[2]; /* for the reader, for the writer */

/* The other side comes to its litmus_await() after this; what it does then is later than what this side has done. */
static inline void litmus_signal(void)
{
    uint8_t word = 1;

    if (litmus_threads)
        CHECK(NULL, sem_post(&litmus_event[!litmus_writer]) == 0);
    else
        CHECK_OK(NULL, network_send(1 - mp_rank, &word, 1));
}

static inline void litmus_await(void)
{
    uint8_t word = 0;

    if (litmus_threads)
        CHECK(NULL, sem_wait(&litmus_event[litmus_writer]) == 0);
    else
        CHECK_OK(NULL, network_recv(1 - mp_rank, &word, 1));
}

/* A pipe whose heap has memory for so many messages of block_bytes; no payload is within its slot. */
static inline rch_t litmus_open(uint64_t context, rpipe_op_t op, unsigned blocks,
                                uint32_t block_bytes)
{
    rpipe_config_t cfg = {.role = litmus_writer ? RPIPE_WRITER : RPIPE_READER};
    rch_t ch;

    cfg.peer = litmus_threads ? 0 : 1 - mp_rank;
    cfg.context = context;
    cfg.op = op;
    cfg.heap_bytes = (uint64_t)blocks * block_bytes;
    cfg.unit_bytes = block_bytes;
    cfg.inline_max = RPIPE_INLINE_NONE;
    cfg.heuristic = RMALLOC_BEST_FIT;
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* When both sides have done with the pipe: an rmalloc of a writer whose reader has closed would fail. */
static inline void litmus_close(rch_t ch)
{
    litmus_signal();
    litmus_await();
    CHECK_OK(ch, rclose(ch));
}

/* The number of executions that show what is not guaranteed, where the network decides. */
static inline void litmus_seen(const char *what, rpipe_op_t op, int seen, int of)
{
    printf("%s, %s: in %d of %d executions\n", what, op == RPIPE_PUT ? "PUT" : "GET", seen, of);
}

static void guaranteed(rpipe_op_t op);
static void not_guaranteed(rpipe_op_t op);

static void *litmus_side(void *writer)
{
    litmus_writer = writer != NULL;
    for (rpipe_op_t op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        guaranteed(op);
        not_guaranteed(op);
    }
    return NULL;
}

/* Writes arrive late, in parts and in any order. */
static inline void litmus_simulate(const char *seed)
{
    litmus_threads = true;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_BTL", "sim", 1);
    setenv("RPIPE_SIM_SEED", seed, 1);
    setenv("RPIPE_SIM_MODE", "lazy scribble", 1);
}

int main(int argc, char **argv)
{
    pthread_t reader;

    if (getenv("PAIR_NET") != NULL)
        litmus_simulate(getenv("PAIR_NET"));
    mp_begin(argc, argv, litmus_threads ? 1 : 2);
    if (!litmus_threads) {
        litmus_side(mp_rank == 0 ? &mp_rank : NULL);
        return mp_end();
    }
    for (int i = 0; i < 2; i++)
        CHECK(NULL, sem_init(&litmus_event[i], 0, 0) == 0);
    CHECK(NULL, pthread_create(&reader, NULL, litmus_side, NULL) == 0);
    litmus_side(&mp_rank);
    CHECK(NULL, pthread_join(reader, NULL) == 0);
    return mp_end();
}

#endif
