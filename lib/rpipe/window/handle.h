/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle.h: the 64 bytes that name a window, as they travel in a message of the program (doc/windows.md "The handle").
 *
 * All of it is received from a peer: handle_check() accepts a handle that this peer may have made for this process; the key is checked
 * by the backend.
 */
#ifndef RPIPE_WINDOW_HANDLE_H
#define RPIPE_WINDOW_HANDLE_H

#include "btl/btl.h"

#include <assert.h>
#include <rpipe.h>

#define HANDLE_MAGIC 0x7277u /* "wr" on a little-endian machine */
#define HANDLE_VERSION 1
#define HANDLE_DEVICE 0x80 /* in `access`: memory of a device */

struct window_wire {
    uint16_t magic;
    uint8_t version;
    uint8_t access;   /* RWINDOW_READ, RWINDOW_WRITE, HANDLE_DEVICE */
    uint32_t user;    /* the rank that the window is open to */
    uint16_t backend; /* handle_backend() */
    uint16_t number;  /* of the window in its process; for messages */
    uint32_t crc;     /* CRC-32C of all other bytes */
    uint64_t process; /* of the owner: the first half of its public id */
    uint64_t bytes;   /* of the window */
    struct btl_key key;
};
static_assert(sizeof(struct window_wire) == sizeof(rwindow_handle_t), "on the wire");
static_assert(offsetof(struct window_wire, crc) == 12 && offsetof(struct window_wire, key) == 32,
              "on the wire");

/* The name of a backend as a number. */
uint16_t handle_backend(const char *name);
/* The access of btl.h that RWINDOW_ flags mean. */
uint32_t handle_access(int flags);
/* Sets magic, version and crc. */
void handle_seal(struct window_wire *w);
/* A window that `process` has opened to rank `user`, for this backend: copies it and returns 0; else -EPROTO and the reason. */
int handle_check(const rwindow_handle_t *handle, uint64_t process, int user, const char *backend,
                 struct window_wire *w, struct error *err);

#endif
