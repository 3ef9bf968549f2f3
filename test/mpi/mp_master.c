/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_master.c: four writing threads in each process, and one master that polls all their pipes (thesis 6.1.3), while other threads
 * compute and never call.
 *
 * Every message arrives once, whole, and in its thread's order; no pipe is forgotten by rpoll, however many are ready; and
 * what needs the other side (joining, growing, closing) happens while its threads compute or sleep in another pipe.
 */
#include "test/lib/mp_check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WRITERS = 4, MESSAGES = 3000, HEAP = 2048, HEAP_MOST = 16384, PIPES_MOST = 7 * WRITERS };

static atomic_bool enough;
static rpipe_op_t op;

static void *computes(void *argument)
{
    atomic_ulong *work = argument;

    while (!atomic_load_explicit(&enough, memory_order_relaxed))
        atomic_fetch_add_explicit(work, 1, memory_order_relaxed);
    return NULL;
}

static rpipe_config_t config(bool writer, int peer, uint32_t number)
{
    rpipe_config_t cfg = {0};

    cfg.op = op;
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = HEAP;
    if (number % 2 == 1) /* every other heap grows while it is used */
        cfg.max_heap_bytes = HEAP_MOST;
    cfg.context = number;
    cfg.slots = number % 4 < 2 ? 4 : 64;
    return cfg;
}

static size_t size_of(uint64_t key, uint32_t number)
{
    return random_mix(~key) % (number % 2 == 1 ? HEAP_MOST / 4 : 700);
}

/* ---- a writer: opens, writes, closes, in a thread of its own ---- */

static void *writes(void *argument)
{
    uint32_t number = (uint32_t)(uintptr_t)argument;
    rpipe_config_t cfg = config(true, 0, number);
    rch_t ch;

    CHECK_OK(NULL, rpipe(&ch, &cfg));
    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint64_t key = mp_key(mp_rank, 0, number, i);

        mp_send(ch, size_of(key, number), key);
    }
    CHECK_OK(ch, rclose(ch));
    return NULL;
}

static void process_of_writers(void)
{
    pthread_t t[WRITERS];

    for (size_t i = 0; i < WRITERS; i++)
        CHECK(NULL, pthread_create(&t[i], NULL, writes, (void *)i) == 0);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(t[i], NULL);
}

/* ---- the master ---- */

struct source {
    rch_t ch;
    int rank;
    uint32_t number;
    uint64_t read;
};

/* What is there now, but not more than a few: the others are to have their turn. True: that was the end. */
static bool drain(struct source *s)
{
    raddr_t d;
    size_t size;
    int rc = 0;

    for (int i = 0; i < 16 && (rc = rread_nb(s->ch, &d, &size)) == R_SUCCESS; i++) {
        uint64_t key = mp_key(s->rank, 0, s->number, s->read++);

        CHECK(s->ch, size == size_of(key, s->number) && pattern_same(rmem(s->ch, d), size, key));
        CHECK_OK(s->ch, rfree(s->ch, d));
    }
    CHECK(s->ch, rc == R_SUCCESS || rc == R_PENDING || rc == R_EOF);
    if (rc != R_EOF)
        return false;
    CHECK(s->ch, s->read == MESSAGES);
    CHECK_OK(s->ch, rclose(s->ch));
    return true;
}

static void master(void)
{
    struct source source[PIPES_MOST];
    rch_t ch[PIPES_MOST];
    int ready[PIPES_MOST], n = 0;

    for (int rank = 1; rank < mp_ranks; rank++)
        for (uint32_t number = 0; number < WRITERS; number++) {
            rpipe_config_t cfg = config(false, rank, number);

            source[n] = (struct source){.rank = rank, .number = number};
            CHECK_OK(NULL, rpipe(&source[n++].ch, &cfg));
        }
    while (n > 0) {
        int left = 0;

        for (int i = 0; i < n; i++)
            ch[i] = source[i].ch;
        CHECK_OK(NULL, rpoll(ch, n, ready, 60000));
        for (int i = 0; i < n; i++) {
            if (ready[i] && drain(&source[i]))
                continue; /* that one has ended */
            source[left++] = source[i];
        }
        n = left;
    }
}

int main(int argc, char **argv)
{
    static atomic_ulong work;
    pthread_t computer;

    mp_begin(argc, argv, 2);
    CHECK(NULL, (mp_ranks - 1) * WRITERS <= PIPES_MOST);
    CHECK(NULL, pthread_create(&computer, NULL, computes, &work) == 0);
    for (int round = 0; round < 2; round++) {
        op = round == 0 ? RPIPE_PUT : RPIPE_GET;
        if (mp_rank == 0)
            master();
        else
            process_of_writers();
        CHECK_OK(NULL, network_barrier());
    }
    atomic_store(&enough, true);
    pthread_join(computer, NULL);
    CHECK(NULL, atomic_load(&work) > 0);
    return mp_end();
}
