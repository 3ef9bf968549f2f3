/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off: as printed */
/* listing_b_2.c: thesis listing B.2 as printed, for 2 processes, with -put or -get; braces lost in print are restored. */
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>
#include <assert.h>
#include "basic_cfg.h"
int rank, nprocs;
#define SEND_VAL 1000
#define FOR_EACH_INT(ptr, val, num)                                                                \
    do {                                                                                           \
        int _i;                                                                                    \
        for (_i = 0; _i < (num); _i++)                                                             \
            *(ptr + _i) = (val);                                                                   \
    } while (0)
#define FOR_EACH_ASSERT_INT(ptr, val, num)                                                         \
    do {                                                                                           \
        int _i;                                                                                    \
        for (_i = 0; _i < (num); _i++)                                                             \
            assert(*(ptr + _i) == (val));                                                          \
    } while (0)
int main(int argc, char *argv[])
{
    rch_t ch;
    bool is_rdma_get = false;
    // Configure channels for either RDMA Get or PUT
    if (argc > 1 && !strcmp(argv[1], "-get")) {
        is_rdma_get = true;
    } else if (argc > 1 && !strcmp(argv[1], "-put")) {
        is_rdma_get = false;
    }
    /*Globally Initialize rmalloc*/
    rinit(&rank, &nprocs);
    int peer = (rank + 1) % nprocs;
    size_t unit = 4;
    /* Allocation size is 4 bytes */
    size_t allocsz = sizeof(int);
    size_t chunks = allocsz / sizeof(int);
    /* Initialize RDMA Channel size*/
    int CH_SIZE = allocsz * 20;
    assert(nprocs == 2);
    int is_source = !rank;
    int N = 1;
    cfg.allocator.peer = peer;
    cfg.allocator.unit_size = unit;
    cfg.allocator.alloc_size = CH_SIZE;
    cfg.allocator.op = RDMA_PUT;
    cfg.allocator.algorithm = BEST_FIT;
    if (is_rdma_get) {
        cfg.allocator.op = RDMA_GET;
    }
    if (cfg.allocator.op == RDMA_PUT) {
        cfg.allocator.rdma_active = is_source;
    } else {
        cfg.allocator.rdma_active = !is_source;
    }
    // Channel bootstrap
    rpipe(ch, cfg);
    raddr_t addr;
    int *ptr;
    int i;
    if (is_source) {
        /*RDMA zero copy sender */
        for (i = 0; i < N; ++i) {
            addr = rmalloc(ch, allocsz);
            ptr = rmem(ch, addr);
            FOR_EACH_INT(ptr, SEND_VAL * (i + 1), chunks);
            rwrite(ch, addr);
        }
    } else {
        // RDMA receiver
        for (i = 0; i < N; ++i) {
            rread(ch, addr, ptr, allocsz);
            FOR_EACH_ASSERT_INT(ptr, SEND_VAL * (i + 1), chunks);
            rfree(ch, addr);
        }
    }
    printf("finalized rmalloc program for rank : %d\n", rank);
    rexit();
    return 0;
}
