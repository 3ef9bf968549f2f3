/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.h: the listening sockets of this process, and connecting to those of others.
 *
 * Unix sockets have abstract names with 128 random bits: they vanish with the process, need no
 * directory, and are never those of another process later. TCP listens at all addresses, or at the
 * one that RPIPE_INTERFACE names.
 */
#ifndef CONTROL_ENDPOINT_H
#define CONTROL_ENDPOINT_H

#include "control/card.h"
#include "util/error.h"

#include <sys/types.h>

/* A listening socket, with its name or its addresses written into the card; or -errno and a
 * message. */
int endpoint_listen_unix(struct card *card, struct error *err);
int endpoint_listen_tcp(struct card *card, const char *interface, struct error *err);
/* i: which of the card's addresses. A socket that is connected (*done) or connecting; or -errno:
 * nothing listens there; -EAGAIN: try later. */
int endpoint_dial_unix(const struct card *card, bool *done);
int endpoint_dial_tcp(const struct card *card, unsigned i, bool *done);
/* Whether the process at the other end of a connected Unix socket is of the same user
 * (SO_PEERCRED); and its id. */
bool endpoint_same_user(int fd, pid_t *pid);
void endpoint_tune_tcp(int fd, long keepalive_ms); /* a connected socket: no delay, keep-alive */
/* How the other host answers. A process that is stopped answers too: its kernel does. */
struct endpoint_pulse {
    bool idle;     /* all has been acknowledged */
    long quiet_ms; /* since anything came from there */
    int tries;     /* retransmissions of the oldest segment that is not acknowledged */
};
void endpoint_tcp_pulse(int fd, struct endpoint_pulse *pulse);
/* "10.0.0.1:4711", for messages */
void endpoint_print(const struct card *card, unsigned i, char *text, size_t bytes);

#endif
