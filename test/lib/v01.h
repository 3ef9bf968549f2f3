/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * v01.h: names of interface 0.1 over 0.2, for tests that are not converted yet. It goes with the last of them.
 */
#ifndef TEST_V01_H
#define TEST_V01_H

#include <rinfo.h>
#include <rpipe.h>
#include <rpipe_transitional.h>
#include <rvmem.h>
#include <string.h>

#define rduplex rpipe_duplex_open
#define rduplex_wait rpipe_duplex_wait
#define rduplex_out rpipe_duplex_out
#define rduplex_in rpipe_duplex_in
#define rduplex_close rpipe_duplex_close
#define rscatter rpipe_scatter_open
#define rscatter_wait rpipe_scatter_wait
#define rscatter_set_timeout rpipe_scatter_set_timeout
#define rscatter_alloc rpipe_scatter_alloc
#define rscatter_alloc_nb rpipe_scatter_alloc_nb
#define rscatter_write rpipe_scatter_write
#define rscatter_pipe rpipe_scatter_pipe
#define rscatter_rank rpipe_scatter_rank
#define rscatter_place rpipe_scatter_place
#define rscatter_live rpipe_scatter_live
#define rscatter_who rpipe_scatter_who
#define rscatter_close rpipe_scatter_close
#define rredux rpipe_redux_open
#define rredux_wait rpipe_redux_wait
#define rredux_set_timeout rpipe_redux_set_timeout
#define rredux_read rpipe_redux_read
#define rredux_read_nb rpipe_redux_read_nb
#define rredux_reduce rpipe_redux_reduce
#define rredux_apply rpipe_redux_apply
#define rredux_combine rpipe_redux_combine
#define rredux_pipe rpipe_redux_pipe
#define rredux_rank rpipe_redux_rank
#define rredux_place rpipe_redux_place
#define rredux_live rpipe_redux_live
#define rredux_who rpipe_redux_who
#define rredux_close rpipe_redux_close
#define rstrerror rinfo_strerror

static inline raddr_t rdmalloc(rvmem_t vmem, size_t bytes)
{
    raddr_t d;
    int rc = rvmem_alloc(vmem, bytes, &d);

    if (rc == R_SUCCESS)
        return d;
    errno = -rc;
    return ADDR_NULL;
}

#endif
