/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc.h: results, descriptors, and the memory of a pipe.
 *
 * A process owns a message from rmalloc() until rwrite(), and from rread() until rfree().
 * rpipe.h opens pipes and moves messages; rmalloc(7) is the overview.
 *
 * Names. A call has one name, the one in the manual: rwrite. The library exports it with a prefix, rpipe_write, and the
 * declaration binds the two by an assembler label, so that &rwrite works and no wrapper exists. With
 * RPIPE_NO_SHORT_NAMES the declaration has the exported name instead, for programs that also use <rdma/rsocket.h>.
 * The families rregion_, rcells_, rgroup_, rvmem_, ram_ and rinfo_ have the same name in both cases.
 *
 * Sizes. A structure of a call travels with its size, as in openat2(2), so that it can grow: the function has a last
 * parameter `size`, and a macro of the same name adds it. rpipe(&ch, &cfg) is complete; &rpipe has three parameters.
 * A smaller structure is extended by zeros. A larger one is -E2BIG, unless all members that this
 * library does not have are zero.
 */
#ifndef RMALLOC_H
#define RMALLOC_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(                                                                       \
    default) /* the declarations of this header are exported, all others are hidden */

#define R_SYMBOL(symbol) __asm__(#symbol)
#ifndef RPIPE_NO_SHORT_NAMES
#define R_VERB(name, symbol, parameters) name parameters R_SYMBOL(symbol)
#else
#define R_VERB(name, symbol, parameters) symbol parameters
#endif

/* ---- results: 0, a negative errno value, or one of these ---- */

#define R_SUCCESS 0
#define R_PENDING (-EAGAIN) /* nothing happened; repeat the call later */
#define R_EOF (-4096)       /* the writer has closed and every message has been read */

/* ---- flags of calls ---- */

#define R_NOWAIT 1 /* return R_PENDING where the call would wait */

/* ---- types ---- */

typedef struct rch *rch_t;         /* one end of a pipe */
typedef struct rstream *rstream_t; /* what the pipes of one thread have for themselves */
typedef struct raddr
    *raddr_t; /* a descriptor: one message, or one block of memory, that the caller owns */

#define ADDR_NULL ((raddr_t)0) /* no descriptor */

/* Heuristics: which of the free blocks that are large enough a request gets. */
typedef enum {
    RMALLOC_FIT_DEFAULT = 0, /* next-fit, or the choice of the other end where that has the heap */
    RMALLOC_NEXT_FIT = 1,    /* the one behind the last block that was allocated, in a circle */
    RMALLOC_FIRST_FIT = 2,   /* the one with the lowest address */
    RMALLOC_BEST_FIT = 3,    /* the smallest, of equals the one with the lowest address */
    RMALLOC_WORST_FIT = 4,   /* the largest, of equals the one with the lowest address */
    RMALLOC_RANDOM_FIT = 5,  /* each with the same probability */
    RMALLOC_SEGREGATED_FIT = 6 /* one of its class of sizes, in constant time */
} rmalloc_fit_t;

/* Kinds of devices that networks have names for. */
typedef enum {
    RMEMORY_OTHER = 0, /* none of these, or networks have to reach the memory by a dma-buf alone */
    RMEMORY_CUDA = 1,
    RMEMORY_ROCM = 2,
    RMEMORY_ZE = 3 /* Level Zero */
} rmemory_kind_t;

/*
 * Memory of a device that the heap of a pipe is in (rmemory(3)): calls of the program's, made inside calls on the pipe and by a thread
 * of the library's, which call nothing of this library. 0, or a negative errno value. The table stays in place until rexit.
 */
#define RMEMORY_VERSION 2
typedef struct rmemory_ops {
    uint32_t version; /* RMEMORY_VERSION; 1: a table that ends with dmabuf */
    const char *name; /* for messages: "cuda" */
    void *argument;   /* of every call */
    /*
     * Allocates; *fd: a descriptor by which another process imports the memory, which becomes the library's. -1: none, which only
     * networks permit.
     */
    int (*alloc)(void *argument, size_t bytes, void **base, int *fd);
    void (*free)(void *argument, void *base, size_t bytes);
    /* fd comes from another process, has to be checked, and stays the library's. */
    int (*import)(void *argument, int fd, size_t bytes, void **base);
    void (*unimport)(void *argument, void *base, size_t bytes);
    /*
     * For rsend, rrecv and regions; NULL: these calls are -ENOTSUP. Over a network that does not reach the memory: copy_out for rwrite, after
     * left, and copy_in for rread, in the place of arrived.
     */
    int (*copy_in)(void *argument, void *to, const void *from, size_t bytes);
    int (*copy_out)(void *argument, void *to, const void *from, size_t bytes);
    /* rwrite: what the device has stored there is visible outside of it afterwards. NULL: it is already. */
    int (*left)(void *argument, void *at, size_t bytes);
    /* rread: what has come from outside is visible to the device afterwards. NULL: it is already. */
    int (*arrived)(void *argument, void *at, size_t bytes);
    /*
     * A dma-buf of the memory, by which a network reaches it; becomes the library's. Called before any network gets the memory, also by its
     * kind. NULL: the descriptor of alloc is one, or there is none.
     */
    int (*dmabuf)(void *argument, void *base, size_t bytes, int *fd);
    /* From version 2 on: the device, for networks that register memory by kind and number (FI_HMEM of libfabric). */
    rmemory_kind_t kind;
    uint64_t number; /* as its API counts devices, from 0 */
} rmemory_ops_t;

/* ---- memory of a pipe ---- */

/* Allocates a message of size bytes; waits for memory up to the deadline. ADDR_NULL: errno has the code. */
raddr_t R_VERB(rmalloc, rmalloc_alloc, (rch_t ch, size_t size));

/* The same without waiting. R_PENDING: there is no memory now. */
int R_VERB(rmalloc_nb, rmalloc_nb, (rch_t ch, size_t size, raddr_t *d));

/* Address of the payload, valid while the caller owns d. NULL: d is not owned by the caller; errno has the code. */
void *R_VERB(rmem, rmalloc_ptr, (rch_t ch, raddr_t d));

/* Bytes of the message: those requested, or those received. 0: empty, or d is wrong: errno is set. */
size_t R_VERB(rsize, rmalloc_size, (rch_t ch, raddr_t d));

/* Writer: shortens an unsent message to its first bytes and frees the rest, in whole units. Never waits. */
int R_VERB(rshrink, rmalloc_shrink, (rch_t ch, raddr_t d, size_t bytes));

/* Frees a message that was read, or that was allocated and not sent. Never waits; d is invalid afterwards. */
int R_VERB(rfree, rmalloc_free, (rch_t ch, raddr_t d));

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
