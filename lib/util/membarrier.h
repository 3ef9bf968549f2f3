/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * membarrier.h: registers this process for membarrier(2), early.
 *
 * While a process has one thread, to register costs nothing; afterwards the kernel waits for a
 * grace period of RCU, some 20 ms. PMIx_Init starts a thread, and so does the control network:
 * job_open() registers before either.
 */
#ifndef UTIL_MEMBARRIER_H
#define UTIL_MEMBARRIER_H

#include <stdbool.h>

void membarrier_register(void); /* once per process; later calls do nothing */
bool membarrier_registered(
    void); /* for GLOBAL_EXPEDITED, which is also how this process reaches others */
/* Every thread of a registered process that runs now executes a fence. False: this kernel has no such call. */
bool membarrier_all(void);

#endif
