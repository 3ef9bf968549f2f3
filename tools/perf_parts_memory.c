/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_parts_memory.c: the components of a message through shared memory. See perf_parts.h.
 *
 * Calls are measured by rank 0 alone, in loops over the messages of a pipe to itself: what they read is in its cache. publish is what
 * the writer's side of whole messages takes besides alloc, take what the reader's side takes besides free. The rest takes both
 * processes, and works on lines that the other one has had:
 *
 *     hand_over             a message to and fro without the library
 *     row_write, row_read   messages of a pipe in a row: one side works, then the other one, which waits meanwhile
 *     row_both              as row_read, beside a writer that asks for credits and uses it, as where a stream waits for its reader
 *
 * Without the library a message is a slot of one line, with a number and, up to PARTS_SLOT bytes, the payload; a longer one is in a
 * window of as many bytes as the heap of the latency test, so its lines are where those of a message are.
 */
#include "perf_parts.h"

#include <assert.h>
#include <math.h>
#include <rcoll.h>
#include <stdatomic.h>
#include <stdlib.h>

#define PARTS_MESSAGES 32 /* of a loop over a pipe, as far as half of a heap holds them */
#define PARTS_LOOPS 50    /* of a sample */
#define PARTS_SLOTS 64
#define PARTS_LINE 64
#define PARTS_PUSH 2048u /* payloads of more bytes are not pushed */
#define PARTS_ASKED 8    /* bytes of a message that only asks for credits, and rides in its slot */
#define PARTS_ROW 56     /* messages of a row, fewer than slots of the ring, */
#define PARTS_ROW_BYTES (PARTS_WINDOW / 8 * 7) /* and fewer bytes than the heap has */

struct parts_slot {
    _Atomic uint64_t number; /* of the message that is complete in it */
    uint64_t offset;         /* in the window */
    char payload[PARTS_LINE - 2 * sizeof(uint64_t)];
};
static_assert(sizeof(struct parts_slot) == PARTS_LINE, "a slot is a line");

/* The memory of a rank that the other one reads. */
struct parts_words {
    struct parts_slot slot[PARTS_SLOTS];
    _Atomic uint64_t turn; /* turns that this rank has ended */
    char rest[4096 - sizeof(uint64_t)];
    char window[PARTS_WINDOW];
};

enum { CALL_ALLOC, CALL_PUBLISH, CALL_TAKE, CALL_FREE, CALL_POLL, CALLS };

static struct {
    struct parts_words *mine;
    const struct parts_words *other;
    uint64_t number; /* of the last message, by either rank */
    uint64_t turn;
    rch_t out, in;
} memory;

/* ---- calls ---- */

static rch_t memory_end(const struct parts *p, rpipe_role_t role)
{
    rpipe_config_t cfg = {.peer = p->rank, .role = role, .op = p->op, .heap_bytes = PARTS_WINDOW};
    rch_t ch = NULL;

    parts_must(rpipe(&ch, &cfg), NULL, "rpipe");
    return ch;
}

/* Time of each message, in loops of their own, of which the calls are made. */
enum { LOOP_ALLOC, LOOP_WRITER, LOOP_FREE, LOOP_READER, LOOP_POLL, LOOPS };

/* One word of a payload is stored, and loaded: as in a program, a call needs what the one before has left. */
static void memory_whole_messages(const struct parts *p, size_t bytes, int messages, double *took)
{
    double before = perf_now_ns();
    size_t size;
    raddr_t d;

    for (int i = 0; i < messages; i++) {
        if ((d = rmalloc(memory.out, bytes)) == ADDR_NULL)
            perf_fail(memory.out, "rmalloc", -errno);
        perf_fill(rmem(memory.out, d), 8, (uint64_t)i);
        parts_must(rwrite(memory.out, d), memory.out, "rwrite");
    }
    took[LOOP_WRITER] += parts_lap(p, &before);
    for (int i = 0; i < messages; i++) {
        parts_must(rread(memory.in, &d, &size), memory.in, "rread");
        perf_sink += perf_sum(rmem(memory.in, d), 8);
        parts_must(rfree(memory.in, d), memory.in, "rfree");
    }
    took[LOOP_READER] += parts_lap(p, &before);
    for (int i = 0; i < messages; i++)
        if (rread_nb(memory.in, &d, &size) != R_PENDING)
            perf_fail(memory.in, "rread_nb", -EPROTO);
    took[LOOP_POLL] += parts_lap(p, &before);
}

/* One call of each message at a time. */
static void memory_messages(const struct parts *p, size_t bytes, int messages, double *took)
{
    double before = perf_now_ns();
    raddr_t d[PARTS_MESSAGES];
    size_t size;

    for (int i = 0; i < messages; i++)
        if ((d[i] = rmalloc(memory.out, bytes)) == ADDR_NULL)
            perf_fail(memory.out, "rmalloc", -errno);
    took[LOOP_ALLOC] += parts_lap(p, &before);
    for (int i = 0; i < messages; i++)
        parts_must(rwrite(memory.out, d[i]), memory.out, "rwrite");
    for (int i = 0; i < messages; i++)
        parts_must(rread(memory.in, &d[i], &size), memory.in, "rread");
    before = perf_now_ns();
    for (int i = 0; i < messages; i++)
        parts_must(rfree(memory.in, d[i]), memory.in, "rfree");
    took[LOOP_FREE] += parts_lap(p, &before);
}

static void memory_sample(const struct parts *p, int size, int messages, double *call)
{
    double took[LOOPS] = {0};

    for (int i = 0; i < PARTS_LOOPS; i++) {
        memory_messages(p, parts_size[size], messages, took);
        memory_whole_messages(p, parts_size[size], messages, took);
    }
    for (int i = 0; i < LOOPS; i++)
        took[i] /= PARTS_LOOPS * messages;
    call[CALL_ALLOC] = took[LOOP_ALLOC];
    call[CALL_PUBLISH] = took[LOOP_WRITER] - took[LOOP_ALLOC];
    call[CALL_TAKE] = took[LOOP_READER] - took[LOOP_FREE];
    call[CALL_FREE] = took[LOOP_FREE];
    call[CALL_POLL] = took[LOOP_POLL];
}

static void memory_calls(struct parts *p, int size)
{
    static const char *const names[CALLS] = {"alloc", "publish", "take", "free", "poll"};
    static double sample[CALLS][PARTS_SAMPLES];
    const size_t half = PARTS_WINDOW / 2 / parts_size[size];
    const int messages = half < PARTS_MESSAGES ? (int)half : PARTS_MESSAGES;
    double call[CALLS];

    memory.out = memory_end(p, RPIPE_WRITER);
    memory.in = memory_end(p, RPIPE_READER);
    parts_must(rwait(memory.out), memory.out, "rwait");
    parts_must(rwait(memory.in), memory.in, "rwait");
    for (int round = -1; round < p->rounds; round++) { /* the first one is not counted */
        memory_sample(p, size, messages, call);
        for (int c = 0; c < CALLS; c++)
            sample[c][round < 0 ? 0 : round] = call[c];
    }
    parts_must(rclose(memory.out), NULL, "rclose");
    parts_must(rclose(memory.in), NULL, "rclose");
    for (int c = 0; c < CALLS; c++)
        parts_report(p, names[c], size, sample[c], p->rounds);
}

/* ---- a message without the library ---- */

/* A line that another processor will load; as the library does it for a reader that waits (doc/protocol.md "Pushed payloads"). */
static inline void memory_push(const char *payload, size_t size)
{
#if defined(__x86_64__)
    for (size_t at = 0; at < size; at += PARTS_LINE)
        __asm__ __volatile__("cldemote %0" : : "m"(payload[at]));
#else
    (void)payload;
    (void)size;
#endif
}

/* As the library polls. */
static inline void memory_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield" ::: "memory");
#endif
}

PERF_INLINE void memory_put(uint64_t number, size_t size)
{
    struct parts_slot *s = &memory.mine->slot[number % PARTS_SLOTS];
    const uint64_t offset = number * size % PARTS_WINDOW;
    char *payload = size > PARTS_SLOT ? memory.mine->window + offset : s->payload;

    perf_fill(payload, size, number);
    s->offset = offset; /* just before the number: the other rank polls this line */
    /* release: the payload is complete; pairs with memory_get */
    atomic_store_explicit(&s->number, number, memory_order_release);
    if (size > PARTS_SLOT && size <= PARTS_PUSH)
        memory_push(payload, size);
}

PERF_INLINE void memory_get(uint64_t number, size_t size)
{
    const struct parts_slot *s = &memory.other->slot[number % PARTS_SLOTS];

    /* acquire: pairs with the release of memory_put */
    while (atomic_load_explicit(&s->number, memory_order_acquire) != number)
        memory_pause();
    perf_sink += perf_sum(size > PARTS_SLOT ? memory.other->window + s->offset : s->payload, size);
}

/* Messages of a sample: of some 20 us where they are short. */
static long memory_turns(size_t size) { return size <= 64 ? 50 : size <= 4096 ? 20 : 2; }

/* To and fro: one way. */
PERF_INLINE double memory_hand_over(const struct parts *p, size_t size)
{
    const long turns = memory_turns(size);
    const double began = perf_now_ns();

    for (long i = 0; i < turns; i++) {
        memory.number++;
        if (p->rank == 0)
            memory_put(memory.number, size);
        memory_get(memory.number, size);
        if (p->rank != 0)
            memory_put(memory.number, size);
    }
    return (perf_now_ns() - began - p->clock) / (double)turns / 2;
}

/* ---- rows: one side works, then the other one ---- */

/* Rank 0 has its turn first. The rank that waits polls a line that has no other use. */
static void memory_await_turn(void)
{
    /* acquire: pairs with memory_end_turn */
    while (atomic_load_explicit(&memory.other->turn, memory_order_acquire) != memory.turn)
        memory_pause();
}

static double memory_begin_turn(const struct parts *p)
{
    memory.turn++;
    if (p->rank != 0)
        memory_await_turn();
    return perf_now_ns();
}

/* The time of this rank's turn, with its stores. */
static double memory_end_turn(const struct parts *p, double began)
{
    double took;

    atomic_thread_fence(memory_order_seq_cst); /* stores before the clock: it pairs with nothing */
    took = perf_now_ns() - began - p->clock;
    /* release: the row is complete; pairs with memory_await_turn */
    atomic_store_explicit(&memory.mine->turn, memory.turn, memory_order_release);
    return took;
}

static int memory_row_messages(size_t size)
{
    return size * PARTS_ROW > PARTS_ROW_BYTES ? (int)(PARTS_ROW_BYTES / size) : PARTS_ROW;
}

static double memory_row(const struct parts *p, struct perf_link *link)
{
    const int messages = memory_row_messages(link->size);
    const double began = memory_begin_turn(p);
    double took;

    for (int i = 0; i < messages && p->rank == 0; i++)
        perf_send(link, (uint64_t)i, PERF_TOUCH, false);
    for (int i = 0; i < messages && p->rank != 0; i++)
        perf_receive(link, (uint64_t)i, PERF_TOUCH, false);
    took = memory_end_turn(p, began);
    if (p->rank == 0)
        memory_await_turn();
    return took / messages;
}

/*
 * The writer of a full ring asks for credits, and what it gets it uses at once: for each message that is read of one pipe it writes one of
 * the other. To make each count, it holds as many messages of the first pipe.
 */
static void memory_ask_and_write(const struct perf_link *full, struct perf_link *other)
{
    const int messages = memory_row_messages(other->size);
    raddr_t held[PARTS_SLOTS];
    int asked = 0, sent = 0;

    /* acquire: as in memory_await_turn */
    while (atomic_load_explicit(&memory.other->turn, memory_order_acquire) != memory.turn) {
        if (asked == PARTS_SLOTS || rroom(full->out, PARTS_ASKED) != 0)
            continue;
        if ((held[asked++] = rmalloc(full->out, PARTS_ASKED)) == ADDR_NULL)
            perf_fail(full->out, "rmalloc", -errno);
        if (asked > PARTS_SLOTS - messages && sent < messages)
            perf_send(other, (uint64_t)sent++, PERF_TOUCH, false);
    }
    while (sent < messages)
        perf_send(other, (uint64_t)sent++, PERF_TOUCH, false);
    while (asked > 0)
        parts_must(rfree(full->out, held[--asked]), full->out, "rfree");
}

/* The reader reads a row while the writer writes one of another pipe. */
static double memory_row_beside(const struct parts *p, struct perf_link *read,
                                struct perf_link *written)
{
    const int messages = memory_row_messages(read->size);
    const double began = memory_begin_turn(p);
    double took;

    for (int i = 0; i < messages && p->rank != 0; i++)
        perf_receive(read, (uint64_t)i, PERF_TOUCH, false);
    took = memory_end_turn(p, began);
    if (p->rank == 0)
        memory_ask_and_write(read, written);
    return took / messages;
}

/* Functions for each size, in which it is a constant. */
#define MEMORY_OF(size)                                                                            \
    static double memory_hand_over_##size(const struct parts *p)                                   \
    {                                                                                              \
        return memory_hand_over(p, size);                                                          \
    }

MEMORY_OF(8)
MEMORY_OF(64)
MEMORY_OF(4096)
MEMORY_OF(65536)

/* The first rounds are not counted: 400 messages of 4 KiB, more than a lap of the window, and 40 of 64 KiB. */
static void memory_bare(const struct parts *p, int size, double *sample)
{
    static double (*const hand_over[])(const struct parts *) = {
        memory_hand_over_8, memory_hand_over_64, memory_hand_over_4096, memory_hand_over_65536};

    for (int i = -20; i < p->rounds; i++)
        sample[i < 0 ? 0 : i] = hand_over[size](p);
}

enum { ROW_WRITE, ROW_READ, ROW_BOTH, ROWS };

/* After a stream over the whole heap twice: no page of it is touched for the first time, and the lines of a row are those of a lap ago. */
static void memory_open(const struct parts *p, int size, struct perf_link *link)
{
    perf_link_open(link, p->o, p->rank, p->op, parts_size[size]);
    for (long i = 0; i < 2 * link->in_flight; i++)
        if (p->rank == 0)
            perf_send(link, (uint64_t)i, PERF_TOUCH, false);
        else
            perf_receive(link, (uint64_t)i, PERF_TOUCH, false);
}

static void memory_rows(const struct parts *p, int size, double sample[ROWS][PARTS_SAMPLES])
{
    struct perf_link link[2] = {{.context = 0}, {.context = 1}};

    memory_open(p, size, &link[0]);
    memory_open(p, size, &link[1]);
    for (int i = -5; i < p->rounds; i++)
        sample[p->rank][i < 0 ? 0 : i] = memory_row(p, &link[0]);
    for (int i = 0; i < memory_row_messages(parts_size[size]) && p->rank == 0; i++)
        perf_send(&link[0], (uint64_t)i, PERF_TOUCH, false);
    for (int i = -6; i < p->rounds; i++)
        sample[ROW_BOTH][i < 0 ? 0 : i] = memory_row_beside(p, &link[i & 1], &link[~i & 1]);
    for (int i = 0; i < memory_row_messages(parts_size[size]) && p->rank != 0; i++)
        perf_receive(&link[p->rounds & 1], (uint64_t)i, PERF_TOUCH, false);
    perf_link_close(&link[0]);
    perf_link_close(&link[1]);
}

static void memory_both(const struct parts *p, int size)
{
    static double row[ROWS][PARTS_SAMPLES];

    memory_bare(p, size, row[0]);
    parts_report(p, "hand_over", size, row[0], p->rounds);
    memory_rows(p, size, row);
    if (p->rank != 0) {
        parts_must(network_send(0, row[ROW_READ], 2 * sizeof(row[0])), NULL, "network_send");
        return;
    }
    parts_must(network_recv(1, row[ROW_READ], 2 * sizeof(row[0])), NULL, "network_recv");
    parts_report(p, "row_write", size, row[ROW_WRITE], p->rounds);
    parts_report(p, "row_read", size, row[ROW_READ], p->rounds);
    parts_report(p, "row_both", size, row[ROW_BOTH], p->rounds);
}

void parts_memory(struct parts *p)
{
    rboard_config_t cfg = {.context = rcontext("rmalloc_perf.parts"),
                           .bytes = sizeof(struct parts_words)};
    rboard_t board;

    parts_must(rboard_open(&board, &cfg, NULL, 2), NULL, "rboard_open");
    parts_must(rboard_wait(board), NULL, "rboard_wait");
    memory.number = 0;
    memory.turn = 0;
    memory.mine = rboard_mem(board);
    memory.other = rboard_mem_of(board, 1 - p->rank);
    if (memory.other == NULL)
        perf_fail(NULL, "-t parts: the processes share no memory", -ENOTSUP);
    for (int size = 0; size < PARTS_SIZES && p->rank == 0; size++)
        memory_calls(p, size);
    memset(memory.mine->window, 0, PARTS_WINDOW);           /* pages */
    parts_must(network_barrier(), NULL, "network_barrier"); /* rank 1 sleeps meanwhile */
    perf_sink += perf_sum(memory.other->window, PARTS_WINDOW);
    for (int size = 0; size < PARTS_SIZES; size++)
        memory_both(p, size);
    parts_must(network_barrier(), NULL, "network_barrier");
    (void)rboard_close(board);
}
