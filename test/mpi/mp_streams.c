/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of several threads in several processes.
 *
 * 1. Figure 4.6 of Zambre 2020: one thread of each rank has written a message that its peer fetches (GET), and waits outside of the library until
 *    another thread of its rank has received one. That one the peer sends when it has fetched the first. So the transfer of the first thread's
 *    stream has to go on while only the other thread makes calls, in its own stream.
 * 2. Each thread has pipes to the next and from the previous rank in its stream, some of them corked, several lives long.
 */
#include "test/lib/mp_check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, MESSAGES = 400, HEAP = 4096, LIVES = 3, LARGE = 200000, ROUNDS = 20 };

static int next, previous;
static rstream_config_t streams; /* of all; "-everywhere" is an argument */

static rch_t stream_open_end(rstream_t stream, bool writer, int peer, uint64_t context,
                             rpipe_op_t op, uint64_t heap)
{
    rpipe_config_t cfg = {.role = writer ? RPIPE_WRITER : RPIPE_READER,
                          .peer = peer,
                          .context = context,
                          .op = op,
                          .heap_bytes = heap,
                          .stream = stream};
    rch_t ch;

    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* ---- crossed waits ---- */

/* Of a rank: rounds of its two threads. */
static pthread_mutex_t crossed_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t crossed_changed = PTHREAD_COND_INITIALIZER;
static int fetched, received;

static void crossed_set(int *round, int to)
{
    pthread_mutex_lock(&crossed_mutex);
    *round = to;
    pthread_cond_broadcast(&crossed_changed);
    pthread_mutex_unlock(&crossed_mutex);
}

static void crossed_await(const int *round, int least)
{
    pthread_mutex_lock(&crossed_mutex);
    while (*round < least)
        pthread_cond_wait(&crossed_changed, &crossed_mutex);
    pthread_mutex_unlock(&crossed_mutex);
}

/* Writes a large message, and makes no call until the other thread has received one. */
static void *crossed_write(void *unused)
{
    rstream_t stream;
    rch_t out;

    CHECK_OK(NULL, rstream_open(&stream, &streams));
    out = stream_open_end(stream, true, next, 1, RPIPE_GET, 2 * LARGE);
    CHECK_OK(out, rwait(out));
    for (int i = 1; i <= ROUNDS; i++) {
        mp_send(out, LARGE, mp_key(mp_rank, next, 1, (uint64_t)i));
        crossed_await(&received, i);
    }
    CHECK_OK(out, rclose(out));
    CHECK_OK(NULL, rstream_close(stream));
    return unused;
}

/* Fetches the large messages of the previous rank. */
static void *crossed_fetch(void *unused)
{
    rstream_t stream;
    rch_t in;

    CHECK_OK(NULL, rstream_open(&stream, &streams));
    in = stream_open_end(stream, false, previous, 1, RPIPE_GET, 2 * LARGE);
    CHECK_OK(in, rwait(in));
    for (int i = 1; i <= ROUNDS; i++) {
        mp_read_free(in, LARGE, mp_key(previous, mp_rank, 1, (uint64_t)i));
        crossed_set(&fetched, i);
    }
    CHECK_OK(in, rclose(in));
    CHECK_OK(NULL, rstream_close(stream));
    return unused;
}

/* The thread that waits: for a word of the next rank, which is sent when that has fetched this rank's large message. */
static void crossed(void)
{
    pthread_t thread[2];
    rstream_t stream;
    rch_t out, in;

    CHECK_OK(NULL, rstream_open(&stream, &streams));
    out = stream_open_end(stream, true, previous, 2, RPIPE_PUT, HEAP);
    in = stream_open_end(stream, false, next, 2, RPIPE_PUT, HEAP);
    CHECK_OK(out, rwait(out));
    CHECK_OK(in, rwait(in));
    CHECK(NULL, pthread_create(&thread[0], NULL, crossed_write, NULL) == 0);
    CHECK(NULL, pthread_create(&thread[1], NULL, crossed_fetch, NULL) == 0);
    for (int i = 1; i <= ROUNDS; i++) {
        uint64_t word = 0;

        crossed_await(&fetched, i);
        CHECK_OK(out, rsend(out, &i, sizeof(i), 0));
        CHECK_OK(in, rrecv(in, &word, sizeof(word), NULL, 0));
        CHECK(in, word == (uint64_t)i);
        crossed_set(&received, i);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    CHECK_OK(out, rclose(out));
    CHECK_OK(in, rclose(in));
    CHECK_OK(NULL, rstream_close(stream));
}

/* ---- a stream for each thread ---- */

static size_t size_of(uint64_t key) { return random_mix(~key) % 700; }

/* False: the ring or the heap is full. */
static bool streams_send(rch_t w, uint64_t key)
{
    raddr_t d;

    if (rmalloc_nb(w, size_of(key), &d) != R_SUCCESS)
        return false;
    pattern_fill(rmem(w, d), size_of(key), key);
    if (rwrite_nb(w, d) == R_SUCCESS)
        return true;
    CHECK_OK(w, rfree(w, d));
    return false;
}

/* False: no message has arrived, though this thread has messages to send. */
static bool streams_receive(rch_t r, uint64_t key, bool waits)
{
    size_t size;
    raddr_t d;
    int rc = waits ? rread(r, &d, &size) : rread_nb(r, &d, &size);

    CHECK(r, rc == R_SUCCESS || (rc == R_PENDING && !waits));
    if (rc != R_SUCCESS)
        return false;
    CHECK(r, size == size_of(key) && pattern_same(rmem(r, d), size, key));
    CHECK_OK(r, rfree(r, d));
    return true;
}

static void streams_life(rstream_t stream, uint32_t context, uint64_t life)
{
    const rpipe_op_t op = (context + life) % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
    rch_t w = stream_open_end(stream, true, next, context, op, HEAP),
          r = stream_open_end(stream, false, previous, context, op, HEAP);
    uint64_t sent = 0, got = 0;

    CHECK_OK(w, rwait(w));
    CHECK_OK(r, rwait(r));
    CHECK_OK(w, rcork(w, context % 3 == 0));
    while (sent < MESSAGES || got < MESSAGES) {
        bool moved = false;

        if (sent < MESSAGES && streams_send(w, mp_key(mp_rank, next, context, life << 32 | sent))) {
            sent++;
            moved = true;
        }
        if (sent == MESSAGES) /* this thread may wait without a call on w */
            CHECK_OK(w, rcork(w, 0));
        if (got < MESSAGES &&
            streams_receive(r, mp_key(previous, mp_rank, context, life << 32 | got),
                            sent == MESSAGES)) {
            got++;
            moved = true;
        }
        if (!moved)
            sched_yield();
    }
    CHECK_OK(w, rclose(w));
    CHECK_RC(R_EOF, r, rread(r, &(raddr_t){ADDR_NULL}, NULL));
    CHECK_OK(r, rclose(r));
}

static void *streams_thread(void *argument)
{
    uint32_t context = 10 + (uint32_t)(uintptr_t)argument;
    rstream_t stream;

    CHECK_OK(NULL, rstream_open(&stream, &streams));
    for (uint64_t life = 0; life < LIVES; life++)
        streams_life(stream, context, life);
    CHECK_OK(NULL, rstream_close(stream));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t t[THREADS];

    mp_begin(argc, argv, 1);
    if (mp_asked(argc, argv, "-everywhere"))
        streams.share = RSTREAM_EVERYWHERE;
    next = (mp_rank + 1) % mp_ranks;
    previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    crossed();
    for (size_t i = 0; i < THREADS; i++)
        CHECK(NULL, pthread_create(&t[i], NULL, streams_thread, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    return mp_end();
}
