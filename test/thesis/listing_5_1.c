/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off: as printed */
/*
 * listing_5_1.c: thesis listing 5.1 as printed, then table 5.2, from each process to the next.
 * The declarations of the listing are at file scope, since it leaves members of cfg unset.
 */
#include <rmalloc_thesis.h>
#include <stdio.h>

#define SOME_VALUE 42
#define C 7

/* ---- listing 5.1, its first line ---- */
rmalloc_config_t cfg;
rch_t ch;
/* ---- */

static void open_channel(int peer, bool is_active_process, uint32_t size, uint64_t ch_size)
{
    /* ---- listing 5.1, the rest ---- */
    cfg.allocator.peer = peer;

    cfg.allocator.rdma_active = is_active_process;

    cfg.allocator.unit_size = size;

    cfg.allocator.alloc_size = ch_size;

    cfg.allocator.op = RDMA_PUT; //_GET OR _ATOMIC

    rpipe(ch, cfg);
    /* ---- */
}

static void send_value(rch_t rch)
{
    raddr_t addr;
    int *ptr;

    addr = rmalloc(rch, 4);
    ptr = rmem(rch, addr);
    *ptr = SOME_VALUE; /* printed: *a = SOME_VALUE; */
    //RDMA remote write
    rwrite(rch, addr);
}

static int receive_value(rch_t rch)
{
    raddr_t addr;
    int *p0, comp_val;

    rread(rch, addr, 4);
    p0 = rmem(rch, addr); /* printed: ptr=rmem(p0, addr); */
    comp_val = (*p0) * 100 + C;
    //release
    rfree(addr);
    return comp_val;
}

int main(void)
{
    int rank, nranks, result;
    rch_t out;

    if (rinit(&rank, &nranks) != R_SUCCESS)
        return 1;
    open_channel((rank + 1) % nranks, true, 4, 64);
    out = ch;
    open_channel((rank + nranks - 1) % nranks, false, 4, 64);
    send_value(out);
    result = receive_value(ch);
    printf("rank %d: %d\n", rank, result);
    return rexit() != R_SUCCESS || result != SOME_VALUE * 100 + C;
}
