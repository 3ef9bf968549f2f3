/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_sim.h: a device with memory of its own that this process cannot touch, and queues of
 * commands.
 *
 * The memory is ranges of addresses that are reserved and mapped to nothing (PROT_NONE): to load or
 * store there ends the process, as it would with the addresses of many a GPU. What the device would
 * hold is kept elsewhere, as one number for each 256 bytes: which buffer was written there last.
 * Commands of one stream run one after the other, those of different streams at the same time and
 * at different speeds, in simulated time; each checks that it finds what it should read.
 */
#ifndef EXAMPLES_DEVICE_SIM_H
#define EXAMPLES_DEVICE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define DEVICE_RANGES 2
#define DEVICE_UNIT 256 /* alignment that the device asks for */
#define DEVICE_STREAMS 8
#define DEVICE_QUEUE 64 /* commands of a stream that may be in flight */

#define HOLDS(condition) device_holds((condition), #condition, __FILE__, __LINE__)

static inline void device_holds(bool condition, const char *text, const char *file, int line)
{
    if (condition)
        return;
    fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, text);
    exit(1);
}

struct span { /* of device memory */
    uintptr_t address;
    size_t bytes;
    uint32_t id; /* of the buffer: what is found there, or written */
};

struct command {
    enum { COPY_IN, KERNEL, COPY_OUT } kind;
    struct span from;        /* KERNEL, COPY_OUT: must hold its id from end to end */
    struct span to;          /* COPY_IN, KERNEL: will hold its id */
    void (*done)(void *arg); /* called when the command is complete; may submit others */
    void *arg;
    uint64_t number, end; /* the device's: order of submission; when it is complete, in ns */
};

struct device {
    struct device_range {
        void *base; /* PROT_NONE */
        size_t bytes;
        uint32_t *holds; /* for each unit */
    } range[DEVICE_RANGES];
    int ranges;
    struct stream {
        struct command queue[DEVICE_QUEUE];
        unsigned head, tail; /* modulo DEVICE_QUEUE */
        uint64_t busy_until;
    } stream[DEVICE_STREAMS];
    uint64_t now, commands;
    uint64_t random;
};

struct device *device_open(uint64_t seed);
void device_close(struct device *dev);
/*
 * Reserves one more range. Returns its address, a multiple
 * of the unit; ends the program if that fails.
 */
void *device_add_range(struct device *dev, size_t bytes);
/* Whether no page of the ranges exists: then no access has touched them. */
bool device_untouched(const struct device *dev);

/* Submits a command. False: the queue is full. */
bool device_submit(struct device *dev, int stream, const struct command *command);
/* Completes the next command. False: no command is in flight. */
bool device_step(struct device *dev);
/* Completes commands until the oldest one in flight is complete. False: no command is in flight. */
bool device_wait_oldest(struct device *dev);

static inline uint64_t random_below(uint64_t *state, uint64_t n) /* xorshift64* */
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return ((*state * UINT64_C(0x2545F4914F6CDD1D)) >> 16) % n;
}

#endif
