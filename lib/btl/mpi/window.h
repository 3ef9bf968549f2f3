/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.h: MPI, and the window of the job.
 *
 * The window is made at the first rma_window_open, which is collective over MPI_COMM_WORLD, and it
 * stays until MPI_Finalize: to free it is collective too, and a rank may have died. MPI_Finalize
 * frees it first, by the destructor of an attribute of MPI_COMM_SELF.
 */
#ifndef BTL_MPI_WINDOW_H
#define BTL_MPI_WINDOW_H

#include "btl/btl.h"

#include <mpi.h>

#define RMA_MOST ((size_t)1 << 30) /* bytes of one call of MPI, which counts in int */

struct rma_window {
    MPI_Comm world; /* our copy of MPI_COMM_WORLD */
    MPI_Win window;
    int rank, size;
    _Atomic bool gone; /* MPI_Finalize has been called: no call of MPI any more */
    uint64_t job;      /* random, the same at all ranks; what is of another job does not have it */
};
extern struct rma_window rma_window;

/* Whether MPI of this kind is here and not finalized: 0 or -errno; err has its version. */
int rma_window_query(struct error *err);
/*
 * Collective. 0, or -errno and the reason, at every rank alike if all ranks have called it: less than
 * MPI_THREAD_MULTIPLE at one of them, other rank numbers, memory that is not unified.
 */
int rma_window_open(const struct btl_host *host, struct error *err);
/* A thread is in a call that does not return: the window is not freed, nor is MPI finalized here. */
void rma_window_stuck(void);
/* `stop` is called if MPI is finalized before rma_window_close. */
void rma_window_used(void (*stop)(void *), void *argument);
void rma_window_close(void);
/*
 * Begins a call of MPI by another thread than the pump's: MPI_Finalize waits for rma_window_leave. False: the window has
 * been freed, and MPI must not be called.
 */
bool rma_window_enter(void);
void rma_window_leave(void);
/* Lets MPI make progress. */
void rma_window_progress(void);

/* The error that MPI has returned: -EIO, and the message. */
int rma_window_failed(const char *call, int code, struct error *err);

#endif
