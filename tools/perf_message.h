/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_message.h: one message, from memory to release, inline in the loops that are timed.
 *
 * `mode` is a constant at every call, so that a loop has no branch for what it does not do. Filling
 * is memset(3), reading is a sum over all words: the fastest usual ways to write and to read
 * memory, so that the pipe cannot hide behind them. What is shorter than a cache line is stored
 * word by word, as a program stores a number, without a call.
 */
#ifndef TOOLS_PERF_MESSAGE_H
#define TOOLS_PERF_MESSAGE_H

#include "perf.h"

#include <errno.h>
#include <string.h>

#define PERF_INLINE static inline __attribute__((always_inline))

/* 16 bytes: longer vectors are kept on the stack where the compiler may not use AVX. */
typedef uint64_t perf_words __attribute__((vector_size(16), aligned(1), may_alias));

extern volatile uint64_t perf_sink; /* where sums go, so that they are not optimized away */

PERF_INLINE void perf_fill(void *mem, size_t size, uint64_t sequence)
{
    char *p = mem, *end = p + size;

    if (size >= 64) {
        memset(mem, (int)(sequence & 0xff), size);
        return;
    }
    for (; end - p >= 8; p += 8)
        memcpy(p, &sequence, 8);
    for (; p < end; p++)
        *p = (char)sequence;
}

PERF_INLINE uint64_t perf_sum(const void *mem, size_t size)
{
    const char *p = mem, *end = p + size;
    perf_words a = {0}, b = {0}, c = {0}, d = {0};
    const perf_words *line;
    uint64_t sum = 0, word;

    for (; end - p >= 64; p += 64) {
        line = (const perf_words *)(const void *)p;
        a += line[0];
        b += line[1];
        c += line[2];
        d += line[3];
    }
    a += b + c + d;
    sum = a[0] + a[1];
    for (; end - p >= 8; p += 8) {
        memcpy(&word, p, 8);
        sum += word;
    }
    for (; p < end; p++)
        sum += (uint8_t)*p;
    return sum;
}

/* Every word of a message depends on its sender, its number and its place. */
PERF_INLINE uint64_t perf_pattern(uint64_t sender, uint64_t sequence, uint64_t place)
{
    uint64_t word = (sequence * 2 + sender + 1) * 0x9e3779b97f4a7c15u + place * 0xd1342543de82ef95u;

    return word ^ word >> 29;
}

void perf_pattern_fill(void *mem, size_t size, int sender, uint64_t sequence);
bool perf_pattern_holds(const void *mem, size_t size, int sender, uint64_t sequence);
_Noreturn void perf_wrong(const struct perf_link *link, uint64_t sequence, size_t size);

PERF_INLINE void perf_fill_message(const struct perf_link *link, void *mem, uint64_t sequence,
                                   enum perf_mode mode)
{
    if (mode == PERF_TOUCH)
        perf_fill(mem, link->size, sequence);
    else if (mode == PERF_WORD)
        perf_fill(mem, link->size < 8 ? link->size : 8, sequence);
    else if (mode == PERF_VERIFY)
        perf_pattern_fill(mem, link->size, link->rank, sequence);
}

PERF_INLINE void perf_read_message(const struct perf_link *link, const void *mem, size_t size,
                                   uint64_t sequence, enum perf_mode mode)
{
    if (mode == PERF_TOUCH)
        perf_sink += perf_sum(mem, size);
    else if (mode == PERF_WORD)
        perf_sink += perf_sum(mem, size < 8 ? size : 8);
    else if (mode == PERF_VERIFY &&
             (size != link->size || !perf_pattern_holds(mem, size, 1 - link->rank, sequence)))
        perf_wrong(link, sequence, size);
}

/* --copy: memory of the program, half of it for what is received. */
PERF_INLINE char *perf_received(const struct perf_link *link) { return link->buffer + link->size; }

PERF_INLINE void perf_send(struct perf_link *link, uint64_t sequence, enum perf_mode mode,
                           bool copy)
{
    raddr_t d;
    void *mem;
    int code;

    if (copy) {
        perf_fill_message(link, link->buffer, sequence, mode);
        code = rsend(link->out, link->buffer, link->size, 0);
        if (__builtin_expect(code != 0, 0))
            perf_fail(link->out, "rsend", code);
        return;
    }
    mem = (d = rmalloc(link->out, link->size)) != ADDR_NULL ? rmem(link->out, d) : NULL;
    if (__builtin_expect(mem == NULL, 0))
        perf_fail(link->out, "rmalloc", -errno);
    perf_fill_message(link, mem, sequence, mode);
    code = rwrite(link->out, d);
    if (__builtin_expect(code != 0, 0))
        perf_fail(link->out, "rwrite", code);
}

PERF_INLINE void perf_receive(struct perf_link *link, uint64_t sequence, enum perf_mode mode,
                              bool copy)
{
    raddr_t d;
    size_t size;
    int code;

    if (copy) {
        code = rrecv(link->in, perf_received(link), link->size, &size, 0);
        if (__builtin_expect(code != 0, 0))
            perf_fail(link->in, "rrecv", code);
        perf_read_message(link, perf_received(link), size, sequence, mode);
        return;
    }
    code = rread(link->in, &d, &size);
    if (__builtin_expect(code != 0, 0))
        perf_fail(link->in, "rread", code);
    perf_read_message(link, mode == PERF_HAND_OVER ? NULL : rmem(link->in, d), size, sequence,
                      mode);
    code = rfree(link->in, d);
    if (__builtin_expect(code != 0, 0))
        perf_fail(link->in, "rfree", code);
}

/* n messages each way, sent and received in turn, whichever is possible. */
void perf_exchange(struct perf_link *link, long n, enum perf_mode mode);

/* An empty message: "go", or "I have read everything". */
void perf_signal(struct perf_link *link);
void perf_await(struct perf_link *link);

#endif
