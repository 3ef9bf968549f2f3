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
 * A socket, and a descriptor that is no memory, has a source: the rank that it came from. At most
 * two of the eight closing threads are in closes of one source, so one rank does not delay what
 * comes from the others. A source that has more than 64 waiting, or 16 while there are too many of
 * all, is to bring no more for the time (received_fd_crowds()). What is kept and used does not wait.
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

enum received_source {
    RECEIVED_OWN, /* the source of a descriptor for which none was set */
    RECEIVED_UNAUTHENTICATED,
    RECEIVED_RANKS /* rank 0; ranks that are 1022 apart share one */
};
#define RECEIVED_OF_RANK(rank) (RECEIVED_RANKS + (unsigned)(rank))
/* Until it is closed. */
void received_fd_set_source(int fd, unsigned source);
/* Those that are no memory have the source of the socket that they came by. */
void received_fds_inherit(const int *fds, int nfds, int socket);

/* A closing thread takes `bytes` out of the socket, and with them the descriptors for which this
 * process has no number. *carried: there were descriptors with them. 0; -ENOMEM: no thread has
 * taken this on; -EPROTO: one has, and waits: nothing may be received from this socket any more. */
int received_fd_discard(int socket, size_t bytes, bool *carried);
/* True: a closing thread receives from this socket, and closes it when it is done. */
bool received_fd_close_after_discard(int socket);

/* More descriptors wait to be closed than this process can afford, or than unauthenticated clients
 * may have passed. */
bool received_fds_crowded(void);
/* The source of this descriptor has more waiting than it may have. 0; -EAGAIN: it has, and is to
 * wait; -EPROTO: none of them could be closed for a second. */
int received_fd_crowds(int fd);
/* Ends the closing threads. The number of those that have not ended by the deadline. */
int received_fds_stop(int64_t deadline);
/* In the child of a fork, which has no such threads. */
void received_fds_forked(void);

#endif
