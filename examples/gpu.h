/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.h: what device_pipe computes on: a GPU of CUDA or HIP, or a simulated one.
 *
 * Messages are words of 32 bits, which a kernel computes from a key and their number, and which
 * another kernel compares where they are.
 */
#ifndef EXAMPLES_GPU_H
#define EXAMPLES_GPU_H

#include <rpipe.h>
#include <stddef.h>
#include <stdint.h>

struct gpu {
    const rmemory_ops_t *memory; /* for rpipe_config_t.memory */
    char name[128];
    /* Starts a kernel that stores `words` words at an address of the device. */
    void (*fill)(struct gpu *gpu, void *at, uint32_t words, uint32_t key);
    /* How many words there are others; waits for the kernel. */
    uint32_t (*check)(struct gpu *gpu, const void *at, uint32_t words, uint32_t key);
    const char *(*error)(struct gpu *gpu); /* why its memory failed the last time */
    void (*close)(struct gpu *gpu);        /* after rexit */
    void *state;
};

/* Word i of a message. */
static inline uint32_t gpu_word(uint32_t key, uint32_t i)
{
    uint32_t x = key + i * 2654435769u;

    x = (x ^ x >> 15) * 2246822519u;
    return x ^ x >> 13;
}

/* 0, or -errno and the reason. api: "cuda", "hip"; library: its driver, or NULL. */
int gpu_open(struct gpu *gpu, const char *api, const char *library, int device, char *error,
             size_t bytes);
int gpu_open_simulated(struct gpu *gpu);

#endif
