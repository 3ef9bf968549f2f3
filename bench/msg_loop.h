/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msg_loop.h: sends and receives between two processes in loops: what bench/compare_msg compares. The loops are the same for every
 * library; msg_ours.c and mpi_msg.c have the calls.
 */
#ifndef BENCH_MSG_LOOP_H
#define BENCH_MSG_LOOP_H

#include <stddef.h>
#include <stdint.h>

enum { MSG_LOOP_WINDOW = 64, MSG_LOOP_OTHERS = 1024 };

/* Calls of a library; a failure ends the job. Slots of requests are from 0 to MSG_LOOP_OTHERS + MSG_LOOP_WINDOW - 1. */
struct msg_loop_calls {
    void (*send)(const void *buf, size_t bytes, uint32_t tag);
    void (*recv)(void *buf, size_t bytes, uint32_t tag);
    void (*isend)(int slot, const void *buf, size_t bytes, uint32_t tag);
    void (*irecv)(int slot, void *buf, size_t bytes, uint32_t tag);
    void (*wait)(int first, int n);
};

/* Prints a line "NAME NANOSECONDS" for each loop whose name begins with one of `names`, which ends with NULL; rank is 0 or 1. */
void msg_loop_run(int rank, char **names, const struct msg_loop_calls *calls);

#endif
