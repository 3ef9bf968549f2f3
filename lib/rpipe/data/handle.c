/* SPDX-License-Identifier: BSD-3-Clause */
/* handle.c: see handle.h. */
#include "rpipe/data/handle.h"

#include "rpipe/end/call.h"

#include "alloc/heap.h"

#include <errno.h>

/* Whether this end has a descriptor there, which is not loaded. */
static bool handle_is_descriptor(const struct rch *ch, const struct rdesc *d)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    const struct heap *heap = config_side(&ch->cfg) == SIDE_WRITER
                                  ? writer_heap(ch, state)
                                  : NULL; /* pairs with end_state_set */

    return desc_pool_holds(&ch->pool, d) || (heap != NULL && heap_has_descriptor(heap, d));
}

/* Why it is not the user's. The descriptor exists, even if it is that of another end or of an end that is closed. */
static const char *handle_mistake(const struct rch *ch, const struct rdesc *d, raddr_t handle)
{
    static const char *const state[] = {
        "has been freed or sent already",
        "is of an earlier message, which has been freed or sent already", "has been sent already",
        "has been freed already"};

    if (desc_owner(d) != ch->id)
        return "belongs to another pipe, or to one that has been closed";
    if (desc_generation((uintptr_t)handle) > desc_generation(d->word))
        return "has a value that neither rmalloc nor rread has returned";
    return desc_state(d) <= DESC_FREED ? state[desc_state(d)] : "has been freed or sent already";
}

int handle_find(struct rch *ch, raddr_t handle, struct rdesc **d)
{
    struct rdesc *at = desc_of(handle);

    if (handle == ADDR_NULL)
        return call_error(ch, -EINVAL, "the descriptor is ADDR_NULL");
    if (at == NULL || (ch->checked && !handle_is_descriptor(ch, at)))
        return call_error(
            ch, -EINVAL,
            "the value %p is no descriptor of this pipe; pass what rmalloc or rread returned",
            (void *)handle);
    if (!handle_is_users(ch, at, handle))
        return call_error(ch, -EINVAL, "the descriptor %s", handle_mistake(ch, at, handle));
    *d = at;
    return 0;
}
