/* SPDX-License-Identifier: BSD-3-Clause */
/* vmem.h: a heap that a pipe has made, as the allocator of rvmem.h, to be examined by its user. */
#ifndef ALLOC_VMEM_H
#define ALLOC_VMEM_H

#include <rvmem.h>

struct heap;

/* Calls that would change the heap return -EPERM; all others work. The heap stays its owner's. */
rvmem_t vmem_lend(struct heap *h);

#endif
