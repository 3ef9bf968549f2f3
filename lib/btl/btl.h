/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl.h: the byte transfer layer: what a backend implements, and how one is chosen.
 *
 * A backend moves bytes between this process and peers that it can reach. It knows nothing of channels. Above it nobody
 * branches on its name, only on its capabilities: with BTL_LOAD_STORE a remote piece is mapped here, and the layers above
 * store and load it themselves; without, they call put, put_notify, get.
 *
 * Backends are modules (btl_NAME.so) that export `const struct btl_ops btl_NAME_ops`. A piece of memory is shown to one
 * peer only, never to two. All calls may come from any thread; alloc, attach and their opposites may take locks and
 * system calls, the transfers may not.
 */
#ifndef BTL_BTL_H
#define BTL_BTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BTL_OPS_VERSION 1
#define BTL_NAME_MAX 8

/* capabilities */
#define BTL_LOAD_STORE 0x01u /* remote memory is mapped: direct loads and stores, release orders payload and flag */
#define BTL_ORDERED 0x02u    /* put, then put_notify: visible in that order */
#define BTL_TARGET_PROGRESS 0x04u /* the target has to call progress for operations to complete */

/* what the one peer may do with a piece */
#define BTL_PEER_READS 0u
#define BTL_PEER_WRITES 1u

struct btl;

/* How the other side finds a piece; travels in a channel's half. Opaque above the backend, but for its size. */
struct btl_key {
    uint64_t word[4];
};

/* A piece of this process's memory that one peer can reach. Zero when new; one that is given back keeps what it holds. */
struct btl_piece {
    void *base;
    size_t bytes;
    struct btl_key key;
    void *slab; /* the backend's */
};

/* A piece of a peer's memory. */
struct btl_remote {
    void *base; /* BTL_LOAD_STORE: where it is mapped here, else NULL */
    size_t bytes;
    void *window; /* the backend's */
};

/* What a backend may ask of its surroundings. */
struct btl_host {
    int rank;
    int log_level; /* enum log_level: a module has a log of its own */
    bool debug;
    /* To the same backend in the peer, by the control network; FIFO with the halves of channels. -ENOTSUP: no way for fds */
    int (*tell)(int peer, const void *body, size_t bytes, const int *fds, int nfds);
    /* Can descriptors travel to this peer? 0, or -ENOTSUP and why not. */
    int (*fd_path)(int peer, char *why, size_t why_bytes);
};

struct btl_attributes {
    uint32_t capabilities;
    uint32_t atomics;     /* bit mask of 1 << ratomic_op_t on 64-bit words */
    uint32_t inline_max;  /* bytes that a put takes without a registered source; SIZE_MAX semantics: UINT32_MAX */
    uint32_t alignment;   /* of pieces */
    uint64_t message_max; /* bytes of one operation */
};

struct btl_ops {
    uint32_t version; /* BTL_OPS_VERSION */
    const char *name;
    struct btl_attributes attributes;

    int (*query)(char *why, size_t why_bytes); /* usable on this machine? either way one line that says why */
    int (*open)(const struct btl_host *host, struct btl **btl, char *why, size_t why_bytes);
    void (*close)(struct btl *btl);
    void (*forked)(struct btl *btl); /* in the child of a fork: locks are as the parent left them */
    int (*reach)(struct btl *btl, int peer, char *why, size_t why_bytes); /* can this peer be reached? */
    void (*message)(struct btl *btl, int peer, const void *body, size_t bytes, const int *fds,
                    int nfds); /* from tell */
    void (*peer_gone)(struct btl *btl, int peer);

    /* own memory */
    int (*alloc)(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge, struct btl_piece *piece,
                 char *why, size_t why_bytes);
    void (*free)(struct btl *btl, struct btl_piece *piece); /* the peer does not reach for it any more */
    /* the peer's */
    int (*attach)(struct btl *btl, int peer, const struct btl_key *key, size_t bytes, uint32_t access,
                  struct btl_remote *remote, char *why, size_t why_bytes);
    void (*detach)(struct btl *btl, struct btl_remote *remote);

    /* transfers: 0, -EAGAIN (queues full, nothing done), or an error. Unused where BTL_LOAD_STORE is set, but there. */
    int (*put)(struct btl_remote *to, uint64_t offset, const void *from, size_t bytes);
    /* payload, then the 64-byte slot behind it, in this order; either may be absent (bytes == 0) */
    int (*put_notify)(struct btl_remote *to, uint64_t offset, const void *from, size_t bytes, struct btl_remote *ring,
                      uint64_t slot_offset, const void *slot);
    int (*get)(struct btl_remote *from, uint64_t offset, void *to, size_t bytes);
    int (*atomic)(struct btl_remote *at, uint64_t offset, int op, uint64_t operand, uint64_t compare, uint64_t *old);
    int (*progress)(struct btl *btl);
    int (*flush)(struct btl *btl, int peer); /* every put so far is placed */
};

/* ---- registry (btl.c) ---- */

int btl_start(const struct btl_host *host); /* backends are opened when first needed */
void btl_stop(void);
void btl_forked(void);
/* The backend for this peer: `wanted` (a name or NULL), under the setting RPIPE_BTL. -ENOTSUP and why not. */
int btl_choose(int peer, const char *wanted, const struct btl_ops **ops, struct btl **btl, char *why, size_t why_bytes);
void btl_message(int peer, const void *body, size_t bytes, const int *fds, int nfds); /* owns the descriptors */
void btl_peer_gone(int peer);
/* For rmalloc_info: the index-th backend that this version knows of; -ENOENT after the last. */
int btl_describe(int index, const char **name, bool *usable, char *why, size_t why_bytes);

#endif
