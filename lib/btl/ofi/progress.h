/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h: completions, on threads of the user and on the service thread.
 */
#ifndef BTL_OFI_PROGRESS_H
#define BTL_OFI_PROGRESS_H

#include "btl/ofi/ofi.h"

/* The service thread makes progress from now on. 0 or -errno. */
int progress_start(struct btl *btl);
void progress_stop(struct btl *btl);
/* Reads the completion queue; lock held. */
void progress_drive(struct btl *btl);
/* The same on a thread of the user, unless another thread does it at this moment. */
void progress_by_user(struct btl *btl);
/*
 * Lock held: something was posted that must be completed even if no thread of the user calls any
 * more.
 */
void progress_posted(struct btl *btl);

#endif
