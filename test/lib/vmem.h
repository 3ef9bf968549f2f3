/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vmem.h: rvmem_alloc with its result as a value, for tests that allocate many blocks.
 */
#ifndef TEST_LIB_VMEM_H
#define TEST_LIB_VMEM_H

#include <rvmem.h>

/* ADDR_NULL: errno has the code. */
static inline raddr_t vmem_take(rvmem_t vmem, size_t bytes)
{
    raddr_t d;
    int rc = rvmem_alloc(vmem, bytes, &d);

    if (rc == R_SUCCESS)
        return d;
    errno = -rc;
    return ADDR_NULL;
}

#endif
