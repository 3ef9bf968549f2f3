/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * received_fd.h: descriptors that another process has passed (SCM_RIGHTS), and how they are closed
 * without a wait.
 *
 * The kernel releases a file in the thread that drops the last reference to it, and the release may
 * wait as long as the process that passed it likes: a TCP socket with SO_LINGER, a terminal, a file
 * of FUSE. So a descriptor is closed in place only where F_GET_SEALS succeeds, and it has little
 * memory: then the release waits for no process. All others go to closing threads. There are a few,
 * so that one that waits does not delay the others; rexit does not join those that wait.
 *
 * No call waits for another process, so each may be made under a lock. The descriptors that wait to
 * be closed are a set of bits, without a limit of its own: each of them is a number of this
 * process. More than a quarter of its numbers are too many (received_fds_crowded()): then what
 * brings more of them is refused.
 *
 * Sockets in which descriptors may be queued: received_socket.h.
 */
#ifndef UTIL_RECEIVED_FD_H
#define UTIL_RECEIVED_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory, whose close does not wait for another process. */
bool received_fd_is_memory(int fd);
/* Closes a descriptor that another process has passed. -1: nothing. */
void received_fd_close(int fd);
/* Closes a descriptor by a closing thread, whatever it is. */
void received_fd_close_apart(int fd);

/* A closing thread takes `bytes` out of the socket, and with them the descriptors for which this
 * process has no number. *carried: there were descriptors with them. False: it has not done so in time; nothing may be received from this
 * socket any more. */
bool received_fd_discard(int socket, size_t bytes, bool *carried);
/* Whether a closing thread receives from this socket. */
bool received_fd_discards(int socket);

/* More descriptors wait to be closed than this process can afford. */
bool received_fds_crowded(void);
/* Ends the closing threads. The number of those that have not ended by the deadline. */
int received_fds_stop(int64_t deadline);
/* In the child of a fork, which has no such threads. */
void received_fds_forked(void);

#endif
