/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h: changes of an end's state, and what they wake.
 *
 * A failure is a state: the code that detects a violation calls end_fail and returns. The first failure of an end counts; it
 * is reported to the peer once.
 */
#ifndef RPIPE_END_STATE_H
#define RPIPE_END_STATE_H

#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"

#define END_HANDSHAKE_NS (100 * NS_PER_MS) /* for calls that do not wait */

/* Sets these bits and wakes the threads that wait at this end. Rendezvous lock held. */
void end_state_set(struct rch *ch, uint32_t bits);

/*
 * There is a message, but this end is not joined: so the writer is joined, its handshake is in the kernel or in the queue of its
 * control network, and the service thread is about to receive it. Waits for that until `deadline`; returns the state.
 */
uint32_t end_await_handshake(struct rch *ch, int64_t deadline);

/* The pipe has failed: sets FAILED, reports it to the peer, and stores the message of this call. Returns `code`. */
int end_fail(struct rch *ch, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4))) NOINLINE;
/* The same with the rendezvous lock held, on any thread: no call of the user's fails with it, so it stores no message. */
void end_fail_locked(struct rch *ch, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4))) NOINLINE;
/* Sets FAILED only. False: the end has failed before, and the first reason stays. Rendezvous lock held. */
bool end_set_failed(struct rch *ch, int code, const char *reason);
/* Receives failures of the peer. */
extern const struct message_handler end_fail_handler;

/* Makes the reader's descriptor readable. */
void end_signal(struct rch *ch);

#endif
