/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl.h: the byte transfer layer: what a backend implements, and how one is chosen.
 *
 * A backend moves bytes between this process and peers that it can reach. It has no notion of
 * pipes. The layers above do not ask for its name, only for its capabilities: with BTL_LOAD_STORE
 * the memory of a peer is mapped here, and they store and load it themselves; otherwise they open a
 * connection to the peer and call write, get, atomic and flush (doc/protocol.md).
 *
 * A backend is a module btl_NAME.so that exports `const struct btl_ops btl_NAME_ops`. It includes
 * this file, slab.h and lib/util, and calls nothing else of the library. test/btl/conform tests a
 * backend against the rules below.
 *
 * Terms
 *   memory       memory of this process that one peer can access (struct btl_memory)
 *   remote       memory of a peer that this process can access (struct btl_remote)
 *   key          how a peer finds memory; the handshake of a pipe contains it (struct btl_key)
 *   connection   an ordered channel of transfers to one end at a peer (struct btl_connection)
 *   address      how the other end of a connection finds this one; the handshake contains it
 *                (struct btl_address)
 *
 * Rules for all calls
 *   1. int functions return 0 or -errno. `struct error *err` receives an error message on failure:
 *      what happened, the values, what to do. Outputs are written on success only.
 *   2. Threads: open, close, forked and peer_gone are called by one thread at a time. alloc, free,
 *      share, register_memory, attach, detach, connection_open, connection_connect,
 *      connection_state and connection_close may be called by any thread at any time; they may take
 *      locks and make system calls. The transfers of one connection are called by one thread at a
 *      time, those of different connections by different threads at the same time; they neither
 *      allocate memory nor wait.
 *   3. No call waits for a peer.
 *   4. Memory is accessible to one peer only, never to two, except by share. Keys and addresses are
 *      received from peers: a backend checks each value before it uses it, and checks a descriptor
 *      before it maps it.
 *   5. After peer_gone and the release of the last object that refers to the peer, a backend keeps
 *      nothing of the peer.
 *   6. In the child of a fork (forked was called) no call changes anything that belongs to the
 *      parent: devices, endpoints, connections. Calls that would are refused with -ENOTCONN;
 *      releasing calls free the child's copies only.
 *
 * Rules for transfers
 *   7. A transfer that returns 0 is accepted as a whole and is completed without further calls on
 *      its connection, except for progress (BTL_TARGET_PROGRESS: also at the target). -EAGAIN: the
 *      queues are full or the connection is not up yet; nothing has been done, and the call can be
 *      repeated after progress. Any other value is the error of the connection.
 *   8. The writes of one connection are placed in the order of the calls; where a network orders
 *      nothing (mpi, ofi by steps) slots alone may overtake each other: a reader takes them in the
 *      order of the ring. Within one write, every byte of the payload is visible to the target's
 *      processor before any change of the last 8 bytes of the slot is. Within the slot nothing else
 *      is ordered. A write without a slot is visible as a whole before any change of the last 8
 *      bytes of the slot of a later write.
 *   9. get and atomic are not ordered with each other, nor with writes, except by flush and by
 *      their own completion.
 *  10. When flush returns 0, all writes and atomics that were accepted before the first of its
 *      calls that returned -EAGAIN are placed in the peer's memory.
 *  11. The local memory of a write must not change until the peer has acknowledged the slot,
 *      flush has returned 0, or `position` shows that it is not accessed any more. That of a get or
 *      an atomic belongs to the backend until its btl_done is complete.
 *  12. A connection that fails stays failed: every call returns its error, connection_state also
 *      the reason. The failure completes every outstanding btl_done.
 *  13. connection_close abandons what is outstanding; no btl_done is accessed after it. Memory that
 *      a device may still access stays mapped, even if its owner frees it.
 */
#ifndef BTL_BTL_H
#define BTL_BTL_H

#include "util/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BTL_OPS_VERSION 8
#define BTL_NAME_MAX 8

/* ---- capabilities ---- */

/*
 * Remote memory is mapped: loads and stores, a release store orders payload and flag. There are no
 * connections.
 */
#define BTL_LOAD_STORE 0x01u
/*
 * Operations complete only if the target calls progress; its service thread does so if no other
 * thread does.
 */
#define BTL_TARGET_PROGRESS 0x02u
/* Atomics of the network are atomic with those of the target's processor. */
#define BTL_ATOMICS_COHERENT 0x04u

/* Operations of `atomic`. */
enum btl_atomic {
    BTL_ATOMIC_ADD,
    BTL_ATOMIC_CAS,
    BTL_ATOMIC_SWAP,
    BTL_ATOMIC_AND,
    BTL_ATOMIC_OR,
    BTL_ATOMIC_XOR
};

/* ---- access: what the peer may do with memory ---- */

#define BTL_PEER_READS 0u
#define BTL_PEER_WRITES 1u
#define BTL_PEER_ATOMICS 2u /* atomics, writes and reads */
#define BTL_LOCAL 3u        /* nothing: local memory of transfers. Not with BTL_LOAD_STORE */

struct btl;            /* an open backend; its own */
struct btl_stream;     /* resources of one thread; the backend's own */
struct btl_connection; /* a connection; the backend's own */

/* ---- memory ---- */

/* How the peer finds memory. Only the backend interprets the words. */
struct btl_key {
    uint64_t word[4];
};

/* Memory of this process that one peer can access. */
struct btl_memory {
    void *base;   /* zero when new; memory that is reused keeps its contents */
    size_t bytes; /* at least what was requested */
    struct btl_key key;
    void *slab;  /* the backend's; NULL after free */
    bool device; /* memory of a device: no processor may touch it */
};

/* Devices that networks have names for. The values are those of rmemory_kind_t. */
enum btl_device_kind { BTL_DEVICE_OTHER, BTL_DEVICE_CUDA, BTL_DEVICE_ROCM, BTL_DEVICE_ZE };

/* Memory of a device, for register_device: by what a network may identify it. */
struct btl_device {
    int fd;            /* a descriptor, such as one of a dma-buf, of all of the memory; -1: none */
    const char *no_fd; /* fd -1: the reason */
    enum btl_device_kind kind;
    uint64_t number; /* of the device among those of its kind */
    /* Ends the memory after its registration, at any time after `free` of the backend. NULL: it stays the caller's. */
    void (*end)(void *argument, void *base, size_t bytes);
    void *argument;
};

/* Memory of a peer. */
struct btl_remote {
    void *base; /* BTL_LOAD_STORE: its address here; otherwise NULL */
    size_t bytes;
    void *mapping;      /* the backend's; not NULL while attached */
    struct btl_key key; /* for transfers; not with BTL_LOAD_STORE */
    bool huge;          /* BTL_LOAD_STORE: in pages of hugetlb, of which there may be few */
};

/* ---- connections: without BTL_LOAD_STORE ---- */

#define BTL_ADDRESS_MAX 112

/* How the other end finds this one. Only the backend interprets the bytes. */
struct btl_address {
    uint16_t bytes;
    uint8_t byte[BTL_ADDRESS_MAX - 2];
};

/* Of the two ends of a connection one connects and one accepts, if the network requires it. */
enum btl_role { BTL_CONNECTS, BTL_ACCEPTS };

/*
 * A range of local memory and one of remote memory, of any length: the backend splits what exceeds
 * its limits.
 */
struct btl_transfer {
    const struct btl_remote *remote;
    uint64_t remote_offset; /* bytes from the beginning of `remote` */
    const struct btl_memory *memory;
    uint64_t offset; /* bytes from the beginning of `memory` */
    size_t bytes;
};

/*
 * Completion of operations that return data. The caller owns it and sets it to zero once. An
 * accepted operation adds 1 to `pending`; when it completes, it sets `error` if it has failed, then
 * subtracts 1 (release). A caller that reads 0 (acquire) sees the data.
 */
struct btl_done {
    _Atomic int32_t pending;
    _Atomic int32_t error; /* 0 or -errno of the first operation that failed */
};

/*
 * What the connections of one thread have for themselves; from most to least. The names are those of table 3.2 of Zambre 2020 (doc/threads.md). The
 * values are those of rstream_share_t.
 */
enum btl_share {
    BTL_SHARE_DYNAMIC,        /* a thread domain */
    BTL_SHARE_EVERYWHERE,     /* a context of the device */
    BTL_SHARE_2XDYNAMIC,      /* two thread domains, of which one is used */
    BTL_SHARE_SHARED_DYNAMIC, /* a thread domain for two threads */
    BTL_SHARE_STATIC,         /* queues */
    BTL_SHARE_THREADS         /* nothing */
};

/* What a connection has requested from its device since it was opened. */
struct btl_counts {
    /* posted: parts of split payloads, slots, reads, atomics; a payload and its slot may be one */
    uint64_t work_requests;
    uint64_t doorbells; /* calls that posted one or more of them */
    uint64_t signaled;  /* work requests with a completion of their own */
    uint64_t inlined;   /* work requests whose data was copied when they were posted */
    uint64_t gets, atomics, flushes;
    uint64_t refused; /* calls that returned -EAGAIN */
    uint64_t polls;   /* of a completion queue */
};

/* ---- the surroundings of a backend ---- */

/*
 * Properties of a rank that are known before anything is opened; two ranks have the same of each
 * other.
 */
struct btl_peer {
    uint32_t usable;  /* btl_probe() at that rank */
    bool same_kernel; /* it runs on this host, possibly in other namespaces */
};

/*
 * Services for a backend, and for the choice of one. A module has its own copy of the log and no
 * settings.
 */
struct btl_host {
    int rank;
    int log_level; /* enum log_level, for the module's log */
    bool debug;
    /*
     * Sends a message to the same backend at a peer over the control network, in FIFO order with
     * the handshakes of pipes. -ENOTSUP: descriptors cannot be passed to this peer. The descriptors
     * stay the caller's.
     */
    int (*send_to_peer)(int peer, const void *body, size_t bytes, const int *fds, int nfds);
    /* Whether descriptors can be passed to this peer: 0, or -ENOTSUP and the reason. */
    int (*fd_path)(int peer, struct error *err);
    /* The text of a setting (RPIPE_...); "" if it is not set. */
    const char *(*setting)(const char *name);
    /* The numeric address at which other ranks reach this one; "" if there is none. */
    const char *address;
    /*
     * The service thread calls ready(arg) once: when fd is readable, but not before delay_us have
     * passed; with fd -1 after delay_us. The callback may watch again. A descriptor must be
     * unwatched before it is closed. After unwatch has returned, on any thread but the service
     * thread, `ready` neither runs nor will run. Takes no lock of its callers.
     */
    int (*watch)(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg);
    void (*unwatch)(void (*ready)(void *arg), void *arg);
    /* For btl_choose(): the properties of a rank, or of this one. 0, or -errno and the reason. */
    int (*peer)(int peer, struct btl_peer *facts, struct error *err);
    /*
     * A connection has failed: its owner should call connection_state. Any thread; takes no lock of
     * its callers.
     */
    void (*connection_failed)(void);
    /*
     * The pid of a peer, or of this process, as this process sees it: that of its card. A greeting of
     * the peer is accepted from the process with this pid alone (SO_PEERCRED); before it has greeted,
     * the kernel has not confirmed it. 0; -ENOTSUP and the reason: it is not visible from here.
     */
    int (*process)(int peer, int *pid, struct error *err);
    /* Which MPI the job has: "openmpi" or "mpich"; NULL and the reason. NULL: it is not asked for. */
    const char *(*mpi_kind)(struct error *err);
    /* Closes a descriptor that a peer has passed, without a wait (util/received_fd.h). NULL: close(2). */
    void (*close_received)(int fd);
    /* This process has memory of a device that networks have a name for (btl_devices_used). */
    bool devices;
};

struct btl_attributes {
    uint32_t capabilities;
    uint32_t atomics;   /* bit mask of 1 << enum btl_atomic; a network: connection_atomics */
    uint32_t alignment; /* of memory, in bytes */
};

/* ---- the interface ---- */

struct btl_ops {
    uint32_t version; /* BTL_OPS_VERSION */
    const char *name;
    struct btl_attributes attributes;

    /* -- the backend -- */

    /*
     * Whether it is usable on this machine: 0 or -errno. Either way err has one line that describes
     * why.
     */
    int (*query)(struct error *err);
    /*
     * Whether it may be chosen for a pipe that does not name it: 0, or -ENOTSUP, the reason, and
     * what selects it all the same. Called whether it is open or not. NULL: it may.
     */
    int (*suitable)(const struct btl_host *host, struct error *err);
    /* Opens the backend. `host` is copied; what it points to is valid until close. */
    int (*open)(const struct btl_host *host, struct btl **btl, struct error *err);
    /*
     * Closes the backend and all connections that are left. Memory that is left is deregistered and
     * unmapped.
     */
    void (*close)(struct btl *btl);
    /* In the child of a fork: makes the locks usable (rule 6). */
    void (*forked)(struct btl *btl);
    /* Whether this peer can be reached: 0, or -errno and the reason. */
    int (*reach)(struct btl *btl, int peer, struct error *err);
    /*
     * A message of the same backend at a peer (send_to_peer there). The descriptors stay the
     * caller's: what is kept is a duplicate, and of memory (util/received_fd.h). Called by the service thread. NULL: this backend receives no messages.
     */
    void (*message)(struct btl *btl, int peer, const void *body, size_t bytes, const int *fds,
                    int nfds);
    /* The peer has ended, for ever (rule 5). NULL: nothing is kept of peers. */
    void (*peer_gone)(struct btl *btl, int peer);

    /* -- memory of this process -- */

    /*
     * Allocates memory for a peer with this access (BTL_PEER_..., BTL_LOCAL). huge: huge pages are
     * preferred.
     */
    int (*alloc)(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                 struct btl_memory *memory, struct error *err);
    /*
     * Frees memory that the peer does not access any more. Without effect if memory->slab is NULL.
     */
    void (*free)(struct btl *btl, struct btl_memory *memory);
    /*
     * Makes memory with BTL_PEER_ATOMICS accessible to one more peer, until it is freed; stores the
     * key for that peer.
     */
    int (*share)(struct btl *btl, int peer, const struct btl_memory *memory, struct btl_key *key,
                 struct error *err);
    /* Registers memory of the user, until free. NULL with BTL_LOAD_STORE. */
    int (*register_memory)(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
                           struct btl_memory *memory, struct error *err);

    /*
     * Takes back memory with BTL_PEER_WRITES that was registered with register_memory, until free: when the call has returned, nothing
     * is placed there any more. What the peer still writes is lost, and is no failure. 0 or -errno. NULL: memory that is
     * registered is placed by a device.
     */
    int (*revoke)(struct btl *btl, const struct btl_memory *memory);

    /*
     * Registers memory of a device, until free: by its descriptor, which names it from its first byte
     * on and stays the caller's, or by the kind and the number of the device. `base` is the address
     * of the first byte for the device, which the backend never touches by the processor. A failure of any kind has a
     * reason: the caller then transfers a copy of the memory, which stays its own. NULL: as a failure.
     */
    int (*register_device)(struct btl *btl, int peer, void *base, size_t bytes,
                           const struct btl_device *device, uint32_t access,
                           struct btl_memory *memory, struct error *err);

    /*
     * BTL_LOAD_STORE, in the place of register_memory: lends memory of the user to a peer, until
     * free. `fd`: the segment that is mapped at base (util/segment.h, writable by peers), which the
     * peer maps; it stays the caller's. -1: private memory, which the peer reaches by `copy` only;
     * -ENOTSUP: that is switched off. NULL without BTL_LOAD_STORE.
     */
    int (*lend)(struct btl *btl, int peer, void *base, size_t bytes, int fd, uint32_t access,
                struct btl_memory *memory, struct error *err);

    /*
     * BTL_LOAD_STORE: lends memory that only the program can map, by a descriptor, until free: memory
     * of a device. Stores the key; memory->base and bytes stay the caller's. The descriptor stays the
     * caller's, too. NULL: this backend does not pass such memory.
     */
    int (*lend_descriptor)(struct btl *btl, int peer, int fd, size_t bytes,
                           struct btl_memory *memory, struct error *err);

    /* -- memory of a peer -- */

    /*
     * Attaches to `bytes` of the memory that the peer's key names; -EPROTO: the key is invalid, or
     * names less.
     */
    int (*attach)(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                  uint32_t access, struct btl_remote *remote, struct error *err);
    /* Detaches. Without effect if remote->mapping is NULL. */
    void (*detach)(struct btl *btl, struct btl_remote *remote);
    /*
     * BTL_LOAD_STORE: attaches to memory that the peer has lent. remote->base NULL: by `copy` only.
     * -EAGAIN: its announcement has not arrived yet. -ENOTSUP: the kernel does not permit it, or it
     * is switched off. NULL without BTL_LOAD_STORE.
     */
    int (*borrow)(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                  uint32_t access, struct btl_remote *remote, struct error *err);
    /*
     * Copies between memory of this process and lent private memory of a peer. -EPROTO: the peer
     * does not lend it any more; -ESRCH: the peer has ended. A part may have been copied.
     */
    int (*copy)(struct btl *btl, const struct btl_remote *remote, uint64_t offset, void *memory,
                size_t bytes, bool to_peer, struct error *err);

    /*
     * A descriptor of memory that the peer has lent by one: the caller's, and to be checked before it
     * is used. -EAGAIN: its announcement has not arrived yet. -EPROTO: the key is invalid, or names
     * less. NULL as lend_descriptor.
     */
    int (*borrow_descriptor)(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                             int *fd, struct error *err);

    /*
     * -- connections: NULL with BTL_LOAD_STORE. Each end of a pipe opens one, the two exchange
     * addresses and connect --
     */

    /*
     * Opens an end with at least `depth` outstanding operations (0: a default) and stores its
     * address.
     */
    int (*connection_open)(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                           struct btl_connection **connection, struct btl_address *address,
                           struct error *err);
    /*
     * Connects to the other end's address. Also called by the service thread. Transfers are refused
     * before.
     */
    int (*connection_connect)(struct btl_connection *connection, const struct btl_address *address,
                              struct error *err);
    /*
     * 0: up. -EAGAIN: not yet. Otherwise the error of the connection and its reason, with the
     * device's status as text. -EIO, -ECONNRESET, -ETIMEDOUT and the other errors of connections
     * may be caused by the peer's end, all others are not.
     */
    int (*connection_state)(struct btl_connection *connection, struct error *err);
    /* Rule 13. */
    void (*connection_close)(struct btl_connection *connection);
    /* Describes the connection for people: "tcp 10.0.0.1:4711 to 10.0.0.2:815". */
    void (*connection_describe)(struct btl_connection *connection, char *text, size_t text_bytes);
    void (*connection_counts)(struct btl_connection *connection, struct btl_counts *counts);
    /* Bit mask of 1 << enum btl_atomic that `atomic` supports. */
    uint32_t (*connection_atomics)(struct btl_connection *connection);

    /*
     * -- streams: NULL where connections of different threads share nothing, or share what cannot be separated --
     */

    /*
     * Opens resources for the connections of one thread; *got is what there is of `wanted`, and `why` describes it, with the reason
     * where it is less.
     */
    int (*stream_open)(struct btl *btl, enum btl_share wanted, struct btl_stream **stream,
                       enum btl_share *got, struct error *why);
    /* Its connections are closed, or will be: the last of them releases it. */
    void (*stream_close)(struct btl_stream *stream);
    /*
     * Puts a connection that has just been opened into a stream, and stores its address, where that is another one then. From then
     * on rule 2 holds for all connections of the stream together: one thread at a time; another thread may drive one of them, at a
     * higher price.
     */
    void (*connection_join)(struct btl_connection *connection, struct btl_stream *stream,
                            struct btl_address *address);

    /*
     * The key by which the other end of this connection accesses memory; the connection has joined its stream. Any thread. NULL: that of the
     * memory, memory->key.
     */
    int (*connection_key)(struct btl_connection *connection, const struct btl_memory *memory,
                          struct btl_key *key, struct error *err);
    /*
     * Whether a key that the peer has made for one of its connections is valid for this one, which is up: 0, or -EXDEV and the
     * reason. NULL: all are.
     */
    int (*connection_takes)(struct btl_connection *connection, const struct btl_remote *remote,
                            struct error *err);

    /* -- transfers: rules 7 to 13 -- */

    /* Writes the payload, then the slot (64 bytes, aligned). Either may be NULL. */
    int (*write)(struct btl_connection *connection, const struct btl_transfer *payload,
                 const struct btl_transfer *slot);
    /* Reads remote memory into local memory. */
    int (*get)(struct btl_connection *connection, const struct btl_transfer *transfer,
               struct btl_done *done);
    /*
     * enum btl_atomic `op` on the 8 bytes of at->remote; at->memory, if not NULL, receives the old
     * value. done may be NULL.
     */
    int (*atomic)(struct btl_connection *connection, int op, const struct btl_transfer *at,
                  uint64_t operand, uint64_t compare, struct btl_done *done);
    /*
     * From here on the connection may hold up to `most` writes and post them together; 0: none. What
     * is held is posted by this call, by the next get, atomic or flush, when there are `most` of them, and
     * when the queues have no space for another; rule 7 holds for it from then on. 0, or the error of the
     * connection. NULL: no write is held.
     */
    int (*hold)(struct btl_connection *connection, uint32_t most);
    /* Rule 10; -EAGAIN: not yet. */
    int (*flush)(struct btl_connection *connection);
    /*
     * A number that grows with each write that is accepted, and the same number of the last write up to which the backend does not
     * access local memory any more (rule 11), because the bytes have left; 0 of a connection that has failed. NULL: only flush shows it.
     */
    void (*position)(struct btl_connection *connection, uint64_t *accepted, uint64_t *released);
    /* Handles completions and drives what has to be driven; 0 or the error of the connection. */
    int (*progress)(struct btl_connection *connection);
    /* The same for all connections of the backend. */
    int (*progress_all)(struct btl *btl);
    /*
     * A thread that waits, and has found nothing for a while, drives what is in no stream, its own streams, and those whose thread has made no
     * call for a while; what another thread is inside of is left to that. Takes no lock that it would have to wait for. NULL: what a stream has
     * needs no calls.
     */
    void (*progress_round)(struct btl *btl);
};

/* ---- the registry (btl.c) ---- */

/*
 * Sets the surroundings; backends are opened when they are first needed. The structure stays the
 * caller's, until btl_stop().
 */
int btl_start(struct btl_host *host);
/* Sets host->address. Before it, messages of peers may have opened shm, which needs no address. */
void btl_address_known(const char *address);
/* This process has memory of a device that networks have a name for: a backend that is opened from now on may ask a network for that. */
void btl_devices_used(void);
/*
 * In rinit, when the cards of all ranks are known: opens the backend mpi if RPIPE_BTL names it, and if all
 * cards have it, so that either all ranks wait for each other in it or none does. A failure is logged, and it is
 * the reason of btl_choose().
 */
void btl_join(int ranks);
/* Closes all backends. */
void btl_stop(void);
/* In the child of a fork. */
void btl_forked(void);
/*
 * Chooses the backend for a peer and opens it: the setting RPIPE_BTL, otherwise `wanted` (a name or
 * NULL), otherwise shm if descriptors can be passed, then the first of verbs, ofi and tcp that the
 * cards of both ranks list. Both ends choose the same without communicating. err has the reason for
 * the choice, or on -ENOTSUP one reason for each backend.
 */
int btl_choose(int peer, const char *wanted, const struct btl_ops **ops, struct btl **btl,
               struct error *err);
/* A message of a backend at a peer has arrived. The descriptors stay the caller's. */
void btl_message(int peer, const void *body, size_t bytes, const int *fds, int nfds);
/* A peer has ended: calls peer_gone of every open backend. */
void btl_peer_gone(int peer);
/* Makes progress in every open backend. */
void btl_progress(void);
/* The same for a thread that waits (progress_round). */
void btl_progress_round(void);
/* The names of the backends of a mask of btl_probe(): "shm, ofi", or "none". */
void btl_list(uint32_t usable, char *text, size_t bytes);
/*
 * For rmalloc_info: the backend with this index; not the simulation of tests. -ENOENT: there is none. err has the result of its
 * query.
 */
int btl_describe(int index, const char **name, bool *usable, struct error *err);

/* ---- the probe (probe.c) ---- */

#define BTL_USABLE_SHM 1u
#define BTL_USABLE_VERBS 2u
#define BTL_USABLE_OFI 4u
#define BTL_USABLE_TCP 8u
#define BTL_USABLE_MPI 16u /* RPIPE_BTL names it, and its module can be loaded */

/*
 * Bit mask of backends that this rank uses without being asked by name: the module is installed;
 * for verbs, an RDMA port of this host is active; for ofi, this host has an RDMA or CXI device, or
 * the setting RPIPE_OFI_PROVIDER names a provider. Loads no module.
 */
uint32_t btl_probe(void);
/* For the probe: whether this rank will open mpi if all do (btl.c). */
bool btl_will_join(void);
/* Whether this directory of /sys/class has an entry. */
bool btl_device_present(const char *devices);
/*
 * Whether a port of a device below this directory is active; the kernel's is /sys/class/infiniband.
 */
bool btl_port_active(const char *devices);

#endif
