/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_verbs.h: an RDMA device of this process alone, with thread domains. It replaces libibverbs and librdmacm in a program that is linked
 * with it (-export-dynamic): the verbs backend, which is loaded at run time, calls these functions.
 *
 *   fake_verbs.c     objects and queues: a work request is executed when it is posted
 *   fake_verbs_cm.c  addresses and connections, within the process
 *
 * The device is stricter than others, and ends the program on
 *   1. two threads at once in a queue of one thread domain, or in a completion queue for one thread: such a queue has no lock,
 *   2. a completion queue with more completions than entries,
 *   3. an object that is destroyed while another one uses it, and a program that ends with objects,
 *   4. memory and a queue pair of different protection domains, queues and domains of different contexts,
 *   5. memory of a device that is freed before its registration ends, or whose bytes are to be copied by the processor (inline).
 * It reaches memory of devices by descriptors that can be mapped, such as a memfd, in the place of those of dma-bufs.
 * Where a queue may be used by several threads it has a lock (pthread_spin_lock), which test/lib/count_locks.h counts as one of the device.
 * A program that does not set RPIPE_BTL uses the backend.
 */
#ifndef TEST_BTL_FAKE_VERBS_H
#define TEST_BTL_FAKE_VERBS_H

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- for tests ---- */

/* Objects that exist, and calls since the program began. */
struct fake_counts {
    _Atomic int contexts;       /* without librdmacm's */
    _Atomic int domains;        /* protection domains, without those of threads */
    _Atomic int thread_domains; /* ibv_alloc_td */
    _Atomic int parent_domains; /* protection domains with a thread domain */
    _Atomic int queue_pairs, queue_pairs_in_domains; /* all; those in a thread domain */
    _Atomic int completion_queues, single_queues;    /* all; those for one thread */
    _Atomic int regions, device_regions;             /* all; those in memory of a device */
    _Atomic uint64_t polls, doorbells;
};

/* What the device has. Changed before its objects are created. */
struct fake_limits {
    int contexts;               /* then ENODEV; without librdmacm's */
    int thread_domains;         /* 0: ibv_alloc_td fails with EOPNOTSUPP, as Soft-RoCE's */
    int queue_pairs_per_domain; /* then ENOMEM, as where the registers of a domain are used up */
    int queue_pairs, completion_queues;
    int entries;  /* of a completion queue */
    bool resizes; /* ibv_resize_cq */
    int yields;   /* of a thread in a thread domain, so that a second one meets it */
};

extern struct fake_counts fake_counts;
extern struct fake_limits fake_limits;

/* ---- between the two files ---- */

struct fake_td {
    struct ibv_td td;
    _Atomic int inside; /* a thread is in one of its queues */
    int users, queue_pairs;
};

struct fake_pd {
    struct ibv_pd pd;
    struct fake_pd *parent; /* NULL: not a parent domain */
    struct fake_td *td;
    int users;
};

#define FAKE_RECEIVES 4

struct fake_qp {
    struct ibv_qp qp;
    struct fake_pd *domain;
    struct fake_qp *peer; /* NULL: not connected, or not any more */
    bool initialized;     /* in the state INIT, or behind it */
    bool failed;          /* every further work request is flushed */
    pthread_spinlock_t lock;
    uint32_t depth, inline_most;
    uint64_t posted, retired; /* work requests: those of which a completion has been polled */
    uint64_t receive[FAKE_RECEIVES];
    uint32_t receives;
};

struct ibv_context *fake_context(void);
struct ibv_qp *fake_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
void fake_qp_connect(struct fake_qp *a, struct fake_qp *b);
void fake_qp_disconnect(struct fake_qp *a);
_Noreturn void fake_die(const char *what);

#endif
