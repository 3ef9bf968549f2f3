/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.h: messages over the lanes of this job, and the one loop in which a thread waits for
 * them. Inside lib/control only.
 *
 * All lanes are guarded by one lock; a thread that waits sleeps on one condition, in slices,
 * because the death of a process signals no condition.
 */
#ifndef CONTROL_TRANSFER_H
#define CONTROL_TRANSFER_H

#include "control/lane.h"
#include "util/error.h"

#include <pthread.h>

struct transfers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int rank, size;
    struct pair **pairs; /* allocated at first use */
    bool abandoned;      /* this process is about to leave: no thread waits here any more */
};

extern struct transfers transfers;

int transfer_start(int rank, int size); /* 0 or -ENOMEM */
void transfer_stop(void);

/* Takes the lock. 0; -ENOTCONN; -EDEADLK on the service thread. Without a peer: transfer_lock(). */
int transfer_lock(struct error *err);
/* Takes the lock, and makes the lanes of this peer. 0; also -ENOENT; -ENOMEM. */
int transfer_lock_peer(int peer, struct error *err);
void transfer_unlock(void);

/* All below with the lock held. */
struct pair *transfer_pair(int peer); /* NULL: no memory */
/* Waits for the turn of this thread, which a flag stands for. 0, -ETIMEDOUT, -ENOTCONN. */
int transfer_seize(bool *busy, int64_t deadline);
void transfer_release(bool *busy);
/* Sleeps until something changes, for a slice at most. */
void transfer_sleep(int64_t deadline);
/* The service thread checks the liveness word of a peer on which this thread waits, if the word
 * states its death. */
void transfer_check_peer(int peer);
/* Another thread is in rexit. */
int transfer_abandoned(struct error *err);
/* Sends and receives at the same time, until both are finished; either may be NULL. Ends with
 * -EINTR when *ends is set; `ends` may be NULL. *culprit: the peer at which it failed. */
int transfer_run(struct transfer *send, struct transfer *receive, const bool *ends,
                 int64_t deadline, int *culprit, struct error *err);

#endif
