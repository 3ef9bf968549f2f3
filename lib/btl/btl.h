/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl.h: the byte transfer layer: what a backend implements, and how one is chosen.
 *
 * A backend moves bytes between this process and peers that it can reach. It knows nothing of channels. Above it nobody
 * branches on its name, only on its capabilities: with BTL_LOAD_STORE a remote piece is mapped here, and the layers above
 * store and load it themselves; without, they open a line to the peer and call write, get, atomic, flush on it (doc/network.md).
 *
 * Backends are modules (btl_NAME.so) that export `const struct btl_ops btl_NAME_ops`. A piece of memory is shown to one
 * peer only, never to two. alloc, attach, connection_open, and their opposites may come from any thread, and take locks and system
 * calls. The transfers of one line come from one thread at a time, different lines from different threads at once, and they
 * neither allocate nor wait.
 */
#ifndef BTL_BTL_H
#define BTL_BTL_H

#include "util/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BTL_OPS_VERSION 2
#define BTL_NAME_MAX 8

/* capabilities */
#define BTL_LOAD_STORE                                                                             \
    0x01u /* remote memory is mapped: direct loads and stores, release orders payload and flag; no lines */
#define BTL_TARGET_PROGRESS                                                                        \
    0x02u /* the target has to call progress, or its service thread, for operations to complete */
#define BTL_ATOMICS_COHERENT 0x04u /* atomics are atomic with those of the target's processor too */

/* Operations of `atomic`; the numbers are those of enum btl_atomic. */
enum btl_atomic {
    BTL_ATOMIC_ADD,
    BTL_ATOMIC_CAS,
    BTL_ATOMIC_SWAP,
    BTL_ATOMIC_AND,
    BTL_ATOMIC_OR,
    BTL_ATOMIC_XOR
};

/* what the one peer may do with a piece */
#define BTL_PEER_READS 0u
#define BTL_PEER_WRITES 1u
#define BTL_PEER_ATOMICS 2u /* and writes and reads */
#define BTL_LOCAL 3u        /* nothing: it is the near side of transfers. Not with BTL_LOAD_STORE */

struct btl;
struct btl_connection;

/* How the other side finds a piece; travels in a channel's half. Opaque above the backend, but for its size. */
struct btl_key {
    uint64_t word[4];
};

/* A piece of this process's memory that one peer can reach. Zero when new; one that is given back keeps what it holds. */
struct btl_memory {
    void *base;
    size_t bytes;
    struct btl_key key;
    void *slab; /* the backend's */
};

/* A piece of a peer's memory. */
struct btl_remote {
    void *base; /* BTL_LOAD_STORE: where it is mapped here, else NULL */
    size_t bytes;
    void *mapping;      /* the backend's; not NULL while it is attached */
    struct btl_key key; /* without BTL_LOAD_STORE: for the backend's transfers */
};

/* ---- lines: without BTL_LOAD_STORE ---- */

/* How the other end of a line finds this one; travels in a channel's half. Opaque above the backend, but for its size. */
#define BTL_ADDRESS_MAX 112
struct btl_address {
    uint16_t bytes;
    uint8_t byte[BTL_ADDRESS_MAX - 2];
};

enum btl_role { BTL_CONNECTS, BTL_ACCEPTS }; /* of a line that has to be connected, one end each */

/* From a near piece to a far one, or the other way round. Any length: the backend splits what is beyond its limits. */
struct btl_transfer {
    const struct btl_remote *remote;
    uint64_t remote_offset;
    const struct btl_memory *memory;
    uint64_t offset;
    size_t bytes;
};

/*
 * When an operation that brings something back is complete. The caller's, who zeroes it once. An operation that is accepted adds
 * one to `pending`; when it is complete, well or badly, it sets `error` if it failed, then takes one away (release): whoever
 * sees 0 (acquire) sees what was fetched.
 */
struct btl_done {
    _Atomic int32_t pending;
    _Atomic int32_t error; /* 0 or -errno; of the first that failed */
};

/* What a line has asked of its device, since it was opened. */
struct btl_counts {
    uint64_t
        work_requests; /* that went out: pieces of a payload that was split, slots, reads, atomics */
    uint64_t doorbells; /* calls that handed over one or more of them */
    uint64_t signaled;  /* of the work requests: with a completion of their own */
    uint64_t
        inlined; /* of the work requests: copied at once, not fetched from memory by the device */
    uint64_t gets, atomics, flushes;
    uint64_t refused; /* calls that said -EAGAIN */
};

/* What is known of a rank before anything is opened, at each of two ranks the same of the other. */
struct btl_peer {
    uint32_t likely;  /* btl_likely() there */
    bool same_kernel; /* it runs on this host, perhaps in other namespaces */
};

/* What a backend, and the choice of one, may ask of its surroundings. */
struct btl_host {
    int rank;
    int log_level; /* enum log_level: a module has a log of its own */
    bool debug;
    /* To the same backend in the peer, by the control network; FIFO with the halves of channels. -ENOTSUP: no way for fds */
    int (*send_to_peer)(int peer, const void *body, size_t bytes, const int *fds, int nfds);
    /* Can descriptors travel to this peer? 0, or -ENOTSUP and why not. */
    int (*fd_path)(int peer, struct error *err);
    /* The text of a setting (RPIPE_...), "" where it is not set. A module has no settings of its own. */
    const char *(*setting)(const char *name);
    /* The numeric address under which this rank is reached by others, "" if there is none. */
    const char *address;
    /*
     * The service thread calls ready(arg) when fd can be read, `delay_us` after now at the earliest, once; the callback
     * may watch again. Fds are the backend's; unwatch before closing. fd -1: nothing but the time. After unwatch has returned,
     * on whatever thread but the service thread, `ready` neither runs nor will. Takes no lock of its callers'.
     */
    int (*watch)(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg);
    void (*unwatch)(void (*ready)(void *arg), void *arg);
    /* for btl_choose; also of this rank itself. 0, or -errno and why not */
    int (*peer)(int peer, struct btl_peer *facts, struct error *err);
    /* A line has failed: somebody should ask for connection_state, also where nobody calls. From any thread; takes no lock of its callers'. */
    void (*connection_failed)(void);
};

struct btl_attributes {
    uint32_t capabilities;
    uint32_t
        atomics; /* bit mask of 1 << enum btl_atomic on 64-bit words; what a network has is known once it is open */
    uint32_t alignment; /* of pieces */
};

struct btl_ops {
    uint32_t version; /* BTL_OPS_VERSION */
    const char *name;
    struct btl_attributes attributes;

    int (*query)(struct error *err); /* usable on this machine? either way one line that says why */
    int (*open)(const struct btl_host *host, struct btl **btl, struct error *err);
    void (*close)(struct btl *btl);
    void (*forked)(struct btl *btl); /* in the child of a fork: locks are as the parent left them */
    int (*reach)(struct btl *btl, int peer, struct error *err); /* can this peer be reached? */
    void (*message)(struct btl *btl, int peer, const void *body, size_t bytes, const int *fds,
                    int nfds); /* from tell; NULL: this backend does not talk */
    void (*peer_gone)(struct btl *btl, int peer);

    /* own memory */
    int (*alloc)(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                 struct btl_memory *memory, struct error *err);
    void (*free)(struct btl *btl,
                 struct btl_memory *memory); /* the peer does not reach for it any more */
    /* A piece with BTL_PEER_ATOMICS for one more peer, until it is freed: the key for him. */
    int (*share)(struct btl *btl, int peer, const struct btl_memory *memory, struct btl_key *key,
                 struct error *err);
    /* The user's own memory as a piece, until free; -ENOTSUP with BTL_LOAD_STORE. */
    int (*register_memory)(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
                           struct btl_memory *memory, struct error *err);
    /* the peer's */
    int (*attach)(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                  uint32_t access, struct btl_remote *remote, struct error *err);
    void (*detach)(struct btl *btl, struct btl_remote *remote);

    /*
     * Lines: NULL with BTL_LOAD_STORE. Two ends of one channel open one each, exchange addresses by other means, and connect.
     * No call waits. A line that fails stays failed: every call says so, and connection_state why.
     *   connection_open: depth: operations that may be outstanding at least, 0: a default.
     *   connection_connect: with the other end's address, also on the service thread. Not before it may anything be transferred.
     *   connection_state: 0: up; -EAGAIN: not yet; or the error and one sentence (the device's status spelled out). -EIO, and the errors of
     *     connections (-ECONNRESET, -ETIMEDOUT and their like), may come from the peer's end; any other is known not to. Any thread.
     *   connection_close: what is under way is given up; no btl_done is touched after it. Memory that a device may still reach for
     *     is kept by the backend, whatever its caller frees.
     */
    int (*connection_open)(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                           struct btl_connection **connection, struct btl_address *address,
                           struct error *err);
    int (*connection_connect)(struct btl_connection *connection, const struct btl_address *address,
                              struct error *err);
    int (*connection_state)(struct btl_connection *connection, struct error *err);
    void (*connection_close)(struct btl_connection *connection);
    void (*connection_describe)(struct btl_connection *connection, char *text,
                                size_t text_bytes); /* "tcp 10.0.0.1:4711 to 10.0.0.2:815" */
    void (*connection_counts)(struct btl_connection *connection, struct btl_counts *counts);
    uint32_t (*connection_atomics)(
        struct btl_connection
            *connection); /* bit mask of 1 << enum btl_atomic that `atomic` takes */

    /*
     * Transfers: 0: accepted whole, and will be carried out whatever the caller does next; -EAGAIN: queues are full or the line is
     * not up yet, nothing was done, ask again after progress; or the line has failed.
     *   write: the payload, then the 64-byte slot (slot->bytes is 64, aligned): the payload is visible before any change of the
     *     last 8 bytes of the slot is. Within the slot nothing is ordered. Either may be NULL. The near memory must not change
     *     until the peer has shown that it has the slot, or flush has said 0.
     *   get, atomic: with completion. atomic: `at->remote` is the cell; `at->piece`, if not NULL, gets the old value (8 bytes).
     *   flush: 0: what was accepted before the first of these calls that said -EAGAIN is placed in the peer's memory.
     *   progress: completions, and whatever else has to be driven; 0 or the error of the line.
     */
    int (*write)(struct btl_connection *connection, const struct btl_transfer *payload,
                 const struct btl_transfer *slot);
    int (*get)(struct btl_connection *connection, const struct btl_transfer *transfer,
               struct btl_done *done);
    int (*atomic)(struct btl_connection *connection, int op, const struct btl_transfer *at,
                  uint64_t operand, uint64_t compare, struct btl_done *done);
    int (*flush)(struct btl_connection *connection);
    int (*progress)(struct btl_connection *connection);
    int (*progress_all)(struct btl *btl); /* rprogress, and whoever waits for many */
};

/* ---- registry (btl.c) ---- */

int btl_start(struct btl_host *host); /* backends are opened when first needed */
void btl_address_known(
    const char *address); /* messages of peers may have opened shm before, which needs none */
void btl_stop(void);
void btl_forked(void);
/* Bit mask of backends that probably can be used here, by index: the module is installed and, for verbs, an RDMA port of this
 * host is active. Loads nothing. */
uint32_t btl_likely(void);
#define BTL_LIKELY_SHM 1u
#define BTL_LIKELY_VERBS 2u
#define BTL_LIKELY_OFI 4u
/* Is a port of a device below this directory active? That of the kernel is /sys/class/infiniband. */
bool btl_port_active(const char *devices);
/*
 * The backend for this peer: `wanted` (a name or NULL), under the setting RPIPE_BTL; else shm where descriptors can be passed,
 * verbs where both ranks are likely to have it, ofi. So both ends choose the same without asking each other. Either way `why`
 * gets a sentence; -ENOTSUP: one reason per backend.
 */
int btl_choose(int peer, const char *wanted, const struct btl_ops **ops, struct btl **btl,
               struct error *err);
void btl_message(int peer, const void *body, size_t bytes, const int *fds,
                 int nfds); /* owns the descriptors */
void btl_peer_gone(int peer);
void btl_progress(void); /* drives what is open */
/* For rmalloc_info: the index-th backend that this version knows of; -ENOENT after the last. */
int btl_describe(int index, const char **name, bool *usable, struct error *err);

#endif
