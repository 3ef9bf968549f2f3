/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off: as printed */
/* listing_b_3.c: thesis listing B.3 as printed: a ring of any number of processes; braces lost in print are restored. */
#include <assert.h>
#include <rmalloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "basic_config.h"
int rank, nprocs;
#define SEND_VAL1 1000
void channel_write(rch_t ch, int val, size_t msg_sz)
{
    raddr_t addr = rmalloc(ch, msg_sz);
    int *r = rmem(ch, addr);
    *r = val;
    rwrite(ch, addr);
}
bool channel_test(rch_t ch, int test, size_t msg_sz)
{
    raddr_t addr;
    int *r;
    bool ret;
    rread(ch, addr, r, msg_sz);
    ret = (*r == test);
    rfree(ch, addr);
    return ret;
}
int exec_ring()
{
    // Select right and left ranks in the ring
    int right = (rank + 1) % nprocs;
    int left = (rank - 1) < 0 ? nprocs - 1 : (rank - 1);
    size_t msg_sz = sizeof(int);
    size_t channel_sz;
    int i, n = 128;
    int N = n + 512;
    // Select channel width
    channel_sz = n * (msg_sz);
    int num_channels = 2;
    if (!network_rank()) {
        printf("\nstarting ring channel test => channels : [total=%d, per_rank=%d]"
               "\nmsg : [%lu bytes]"
               " channel : [%lu bytes] channel width : [channel_sz/msg_sz = %d]"
               " total width : [%d] \n ",
               num_channels * nprocs, 2, msg_sz, channel_sz, n, N);
    }
    // create channels for RDMA send/recv
    // each rank has a Rmalloc send and recv channels
    rmalloc_config_t *cfgs = malloc(sizeof(rmalloc_config_t) * num_channels);
    rch_t *ch = malloc(sizeof(rch_t) * num_channels);
    // config rmalloc send->recv channels
    for (i = 0; i < num_channels; ++i) {
        cfgs[i] = cfg;
        cfgs[i].op = RDMA_PUT;
        cfgs[i].allocator.unit_size = msg_sz;
        cfgs[i].allocator.alloc_size = channel_sz;
        if (i % 2 == 0) {
            // for even indices set left RDMA passive
            cfgs[i].allocator.peer = left;
            cfgs[i].allocator.rdma_active = 0;
        } else {
            // for odd indices set right RDMA active
            cfgs[i].allocator.peer = right;
            cfgs[i].allocator.rdma_active = 1;
        }
    }
    // we have to be careful in a ring of rmalloc pipes
    // On the first processor A pipe for 'right' direction
    // has to be created first to avoid deadlock!!
    if (!rank) {
        rpipe(ch[1], cfgs[1]);
        rpipe(ch[0], cfgs[0]);
    } else {
        rpipe(ch[0], cfgs[0]);
        rpipe(ch[1], cfgs[1]);
    }
    // do comm
    for (i = 0; i < N; ++i) {
        // write via rmalloc ch
        channel_write(ch[1], SEND_VAL1 + i, msg_sz);
        TEST_ASSERT(channel_test(ch[0], SEND_VAL1 + i, msg_sz));
    }
    return TEST_OK;
}
int main(int argc, char *argv[])
{
    rinit(&rank, &nprocs);
    exec_ring();
    rexit();
    return TEST_SUITE_END();
}
