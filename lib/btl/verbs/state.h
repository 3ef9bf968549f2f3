/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h: the state of a connection, and its queue pair.
 *
 * The state goes DOWN, UP, FAILING, FAILED; it may skip some, but never goes back. The queue pair
 * and the limits are written before UP (release), the error message before FAILED (release).
 */
#ifndef BTL_VERBS_STATE_H
#define BTL_VERBS_STATE_H

#include "btl/verbs/verbs.h"

/* The connection may transfer. */
void verbs_state_up(struct btl_connection *connection);
/* The connection fails; the first failure stays. Any thread. */
void verbs_state_fail(struct btl_connection *connection, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* btl_ops.connection_state */
int verbs_connection_state(struct btl_connection *connection, struct error *err);

/*
 * Destroys identifier and queue pair; lock held. The other end is notified if it is connected; no
 * event follows.
 */
void verbs_state_drop(struct btl_connection *connection);
/* Makes a descriptor non-blocking: 0 or -errno. */
int verbs_state_set_nonblocking(int fd);

#endif
