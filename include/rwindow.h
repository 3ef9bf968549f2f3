/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rwindow.h: windows, regions that the other end of a pipe writes into and fetches from.
 *
 * A message of a pipe arrives in memory of the pipe. A window is memory of the receiving program itself: the other end
 * places bytes there at an offset of its choice, and every message that it writes to the pipe afterwards arrives behind
 * them. The process that owns the memory opens a window and sends its handle; the other one attaches it to a pipe.
 *
 * Pipes and regions are those of rpipe.h, which includes this header.
 */
#ifndef RWINDOW_H
#define RWINDOW_H

#include <rpipe.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(                                                                       \
    default) /* the declarations of this header are exported, all others are hidden */

typedef struct rwindow *rwindow_t; /* a region of this process that one peer can access */
typedef struct rremote *rremote_t; /* a window of the peer, attached to a pipe to it */

/* Names a window: plain data, which travels in any message to the peer. */
typedef struct rwindow_handle {
    uint64_t word[8];
} rwindow_handle_t;

#define RWINDOW_READ 1  /* flags: the peer may fetch from the window */
#define RWINDOW_WRITE 2 /* flags: the peer may write into the window */

/* How an attached window is accessed. */
typedef enum {
    RWINDOW_MAPPED = 1, /* its memory is mapped here: one copy, by this processor */
    RWINDOW_CROSS = 2,  /* the kernel copies between the two address spaces */
    RWINDOW_REMOTE = 3, /* by the network; the near memory must be in a region */
    RWINDOW_DEVICE = 4  /* memory of a device, imported here: by the calls of a table */
} rwindow_way_t;

/*
 * Opens a region to the process at the other end of ch, by ch's backend; stays open when ch is closed. Does not wait. Memory of a device: within a
 * host of a region that its table has made; over a network of any, through a copy in memory of the host where the network does not reach it.
 */
int rwindow_open(rwindow_t *window, rch_t ch, rregion_t region, int flags,
                 rwindow_handle_t *handle);

/*
 * Of a window of memory of a device. RWINDOW_WRITE: what the peer has placed there, before the message that this process has read, is
 * visible to the device afterwards. RWINDOW_READ: what the device has stored there is what the peer fetches after a later message. flags
 * is one of the two. Without effect on memory of the host.
 */
int rwindow_sync(rwindow_t window, uint64_t at, size_t bytes, int flags);

/*
 * Takes back the memory of a window with RWINDOW_WRITE alone, which stays open: from the return on nothing is placed there, and what the peer
 * still writes is lost. -ENOTSUP: the network or the peer places it without this process (shm, ofi, verbs).
 */
int rwindow_revoke(rwindow_t window);

/* The peer must not use the window any more; what it does with it afterwards fails, or is lost. */
int rwindow_close(rwindow_t window);

/* Attaches the peer's window to ch, which writes to it. -ENOTSUP: the two processes have no way. flags: 0 or R_NOWAIT. */
int rwindow_attach(rremote_t *remote, rch_t ch, const rwindow_handle_t *handle, int flags);

/*
 * The same of a window of memory of a device. Within a host import of the table makes it accessible here; the table stays in place until the
 * window is detached, by rwindow_detach or rclose. Over a network no call of the table is made, and rwindow_attach does as well.
 */
int rwindow_attach_device(rremote_t *remote, rch_t ch, const rmemory_ops_t *memory,
                          const rwindow_handle_t *handle, int flags);

/* Detaches a window; rclose of its pipe does too. -EBUSY: transfers are in flight; rdone() waits for them. */
int rwindow_detach(rremote_t remote);

/* enum rwindow_way_t, or -EINVAL. */
int rwindow_way(rremote_t remote);

/* Bytes of the window; 0: remote is not attached. */
uint64_t rwindow_bytes(rremote_t remote);

/*
 * Places bytes in the window at offset `at`. Every message that is written to its pipe afterwards arrives behind them.
 * region: where `from` is; NULL: in no region. done as of rwrite_from. flags: 0 or R_NOWAIT.
 */
int rwindow_write(rremote_t remote, uint64_t at, const void *from, size_t bytes, rregion_t region,
                  int *done, int flags);

/* Copies bytes at offset `at` of the window to `into`, which has them when *done is 1. Otherwise as rwindow_write. */
int rwindow_fetch(rremote_t remote, uint64_t at, void *into, size_t bytes, rregion_t region,
                  int *done, int flags);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
