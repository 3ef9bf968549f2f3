/* SPDX-License-Identifier: BSD-3-Clause */
/* fork_fds.c: see fork_fds.h. */
#include "util/fork_fds.h"

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

/* 1,048,576 descriptors; pages of the table that are never touched cost nothing */
#define WORDS 16384

static _Atomic uint64_t fork_fds_bits[WORDS];

static uint64_t fork_fds_bit_of(int fd, _Atomic uint64_t **word)
{
    if (fd < 0 || fd / 64 >= WORDS)
        return 0;
    *word = &fork_fds_bits[fd / 64];
    return UINT64_C(1) << (fd % 64);
}

void fork_fds_add(int fd)
{
    _Atomic uint64_t *word;
    uint64_t bit = fork_fds_bit_of(fd, &word);

    if (bit != 0)
        atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

void fork_fds_forget(int fd)
{
    _Atomic uint64_t *word;
    uint64_t bit = fork_fds_bit_of(fd, &word);

    if (bit != 0)
        atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
}

void fork_fds_close(int fd)
{
    if (fd < 0)
        return;
    fork_fds_forget(fd); /* before close(2): afterwards the number may be reused */
    close(fd);
}

void fork_fds_close_all(void)
{
    int word, bit;

    for (word = 0; word < WORDS; word++) {
        uint64_t set = atomic_load_explicit(&fork_fds_bits[word], memory_order_relaxed);

        if (set == 0)
            continue;
        for (bit = 0; bit < 64; bit++) {
            if ((set >> bit & 1) != 0)
                close(word * 64 + bit);
        }
        atomic_store_explicit(&fork_fds_bits[word], 0, memory_order_relaxed);
    }
}
