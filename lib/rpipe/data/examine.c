/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examine.c: rvmem_of_pipe: the heap of a pipe, at the end that has its metadata, which is the writer with PUT and with GET.
 */
#include "rpipe/end/call.h"

#include "alloc/vmem.h"

#include <errno.h>

static int examine_attempt(struct rch *ch, void *arguments)
{
    struct heap **heap = arguments;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */

    *heap = writer_heap(ch, state);
    return *heap != NULL ? 0 : R_PENDING;
}

int rvmem_of_pipe(rvmem_t *vmem, rch_t ch)
{
    struct heap *heap = NULL;
    struct call call;
    int rc = call_begin(&call, "rvmem_of_pipe", ch, SIDE_WRITER);

    if (rc == 0 && vmem == NULL)
        rc = call_error(ch, -EINVAL, "vmem is NULL");
    if (rc == 0)
        rc = call_once(ch, examine_attempt, &heap);
    if (rc == 0)
        *vmem = vmem_lend(heap);
    return call_end(&call, rc);
}
