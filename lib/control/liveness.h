/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness.h: the page whose first word shows whether a process is alive.
 *
 * The word is a robust futex in a memfd: it holds the thread id of its owner, the service thread.
 * When that thread ends without having cleared it (kill, abort, exit, exec), the kernel sets
 * FUTEX_OWNER_DIED, before it tears down the memory, and so long before any of its sockets closes.
 * No thread ever waits on it: peers map the page read-only and load the word.
 *
 * The page is sealed: a peer can neither change its size nor write to it, whatever it does with the
 * descriptor.
 */
#ifndef CONTROL_LIVENESS_H
#define CONTROL_LIVENESS_H

#include "util/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVENESS_PAGE_BYTES 4096
#define LIVENESS_OWNER_DIED 0x40000000u /* FUTEX_OWNER_DIED */
#define LIVENESS_LEFT 0u                /* exited in order */
#define LIVENESS_UNKNOWN_OWNER 1u /* alive; the kernel does not mark the end of this process */

static inline bool liveness_died(const _Atomic uint32_t *word)
{
    return word != NULL &&
           (atomic_load_explicit(word, memory_order_relaxed) & LIVENESS_OWNER_DIED) != 0;
}

int liveness_create(struct error *err); /* this process's page; 0 or -errno */
int liveness_fd(void);                  /* which peers get */
const _Atomic uint32_t *liveness_word(void);
void liveness_hold(void);    /* on the service thread: from now on its end is marked */
void liveness_leave(void);   /* on the service thread: an orderly exit */
void liveness_release(void); /* on the service thread, before it ends */
void liveness_destroy(void);

/* A peer's page, from its descriptor, which stays the caller's. 0, or -EPROTO, -errno and a
 * message. */
int liveness_map(int fd, const _Atomic uint32_t **word, struct error *err);
void liveness_unmap(const _Atomic uint32_t *word);
/* Words of processes that are gone, whose pages are not mapped any more: died, or left. */
const _Atomic uint32_t *liveness_of_gone(bool died);

#endif
