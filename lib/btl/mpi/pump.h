/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pump.h: carries operations out.
 */
#ifndef BTL_MPI_PUMP_H
#define BTL_MPI_PUMP_H

#include "btl/mpi/rma.h"

int rma_pump_start(struct btl *btl);
/* 0; -ETIMEDOUT: the thread is in a call of MPI that does not return, and may access all of btl. */
int rma_pump_stop(struct btl *btl);
/* Lock held: an operation has been queued. Wakes the pump, or is the pump. */
void rma_pump_posted(struct btl *btl);

#endif
