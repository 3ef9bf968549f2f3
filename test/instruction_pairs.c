/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * instruction_pairs.c: a block of many live ones is freed at random and another one is allocated, for test/instructions, which
 * counts what rvmem_alloc and rvmem_free execute. The counted part is the function `churn`; what comes before makes the heap as
 * fragmented as it stays.
 *
 * usage: instruction_pairs HEURISTIC LIVE LEAST MOST PAIRS
 */
#include <rvmem.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 16u

static const struct {
    const char *name;
    rmalloc_fit_t fit;
} heuristics[] = {
    {"next-fit", RMALLOC_NEXT_FIT},     {"first-fit", RMALLOC_FIRST_FIT},
    {"best-fit", RMALLOC_BEST_FIT},     {"worst-fit", RMALLOC_WORST_FIT},
    {"random-fit", RMALLOC_RANDOM_FIT}, {"segregated-fit", RMALLOC_SEGREGATED_FIT},
};

struct live {
    rvmem_t vmem;
    raddr_t *block;
    uint64_t random;
    uint32_t blocks, least, most;
};

static uint64_t random_next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static raddr_t take(const struct live *l, uint32_t draw)
{
    const size_t size = l->least + (size_t)((uint64_t)draw * (l->most - l->least + 1) >> 32);
    raddr_t d = rvmem_alloc(l->vmem, size);

    if (d == ADDR_NULL) {
        fprintf(stderr, "instruction_pairs: no %zu bytes\n", size);
        exit(1);
    }
    return d;
}

static void replace_any(struct live *l, uint64_t pairs)
{
    for (uint64_t i = 0; i < pairs; i++) {
        const uint64_t draw = random_next(&l->random);
        raddr_t *block = &l->block[(draw >> 32) * l->blocks >> 32];

        rvmem_free(l->vmem, *block);
        *block = take(l, (uint32_t)draw);
    }
}

/* A function of its own by this name, which test/instructions passes to callgrind. */
__attribute__((noinline)) void churn(struct live *l, uint64_t pairs);
void churn(struct live *l, uint64_t pairs) { replace_any(l, pairs); }

static uint32_t number(const char *text) { return (uint32_t)strtoul(text, NULL, 10); }

int main(int argc, char **argv)
{
    struct live l = {.random = 1};
    rvmem_config_t cfg = {.unit_bytes = UNIT, .max_blocks = UINT32_MAX};

    for (size_t i = 0; argc == 6 && i < sizeof(heuristics) / sizeof(heuristics[0]); i++)
        if (strcmp(argv[1], heuristics[i].name) == 0)
            cfg.heuristic = heuristics[i].fit;
    if (cfg.heuristic == RMALLOC_FIT_DEFAULT || (l.blocks = number(argv[2])) == 0) {
        fprintf(stderr, "usage: instruction_pairs HEURISTIC LIVE LEAST MOST PAIRS\n");
        return 2;
    }
    l.least = number(argv[3]);
    l.most = number(argv[4]);
    cfg.bytes = 8 * (uint64_t)(l.most + UNIT) * (l.blocks + 16);
    l.block = malloc(l.blocks * sizeof(*l.block));
    if (l.block == NULL || rvmem_create(&l.vmem, &cfg) != 0)
        return 1;
    for (uint32_t i = 0; i < l.blocks; i++)
        l.block[i] = take(&l, (uint32_t)random_next(&l.random));
    replace_any(&l, 4 * (uint64_t)l.blocks + 1000);
    churn(&l, number(argv[5]));
    rvmem_destroy(l.vmem);
    free(l.block);
    return 0;
}
