/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h: completions, on threads of the user and on the service thread.
 */
#ifndef BTL_OFI_PROGRESS_H
#define BTL_OFI_PROGRESS_H

#include "btl/ofi/ofi.h"

/* The service thread makes progress of an endpoint from now on. 0 or -errno. */
int progress_start(struct ofi_endpoint *e);
void progress_stop(struct ofi_endpoint *e);
/* Reads the completion queue; inside. */
void progress_drive(struct ofi_endpoint *e);
/* On a thread of the user, unless another thread does it at this moment: that of the endpoint of a connection; that of all endpoints. */
void progress_connection(struct btl_connection *connection);
void progress_all(struct btl *btl);
/* A thread of the user that waits drives the endpoints that it need not wait for (btl_ops.progress_round). */
void progress_round(struct btl *btl);
/*
 * Inside: something was posted that must be completed even if no thread of the user calls any
 * more.
 */
void progress_posted(struct ofi_endpoint *e);

#endif
