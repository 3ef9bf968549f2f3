/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h: reading all pipes of a context, and waiting. */
#ifndef AM_PROGRESS_H
#define AM_PROGRESS_H

#include "am/am.h"

int am_progress(struct ram *am, int most); /* returns how many handlers have run, at most `most` */
int am_progress_some(struct ram *am,
                     int most); /* the same; polls for a short time until a handler has run */
/* In a call that waits for one answer: handles requests of peers; all: and links. */
void am_progress_others(struct ram *am, bool all);
void am_send_all_due(struct ram *am);
/* Waits until a message may have arrived, or a millisecond; 0 or an error. */
int am_wait_readers(struct ram *am);

/* Time at which a call that begins now ends, ms. */
int64_t am_deadline(const struct ram *am);
/*
 * Between two attempts of a call: runs handlers and waits. False: the deadline has passed, or an error; *rc is the code. The
 * last error has the reason why the last attempt was pending. *deadline: 0 at the first time.
 */
bool am_progress_until(struct ram *am, const char *call, int64_t *deadline, int *rc);

#endif
