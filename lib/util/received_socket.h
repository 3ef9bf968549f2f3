/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * received_socket.h: Unix sockets in which another process may queue descriptors.
 *
 * A message that carries a descriptor may hold the last reference to its file. The thread in which
 * the kernel drops the message releases the file, which may wait (received_fd.h): that is the
 * thread that closes the socket, and one that receives without space for descriptors, or without a
 * free number for one. So none of this is done to a message that may carry descriptors:
 *
 *   - What is received is examined first (MSG_PEEK), with space for as many descriptors as one
 *     message has: this process then has references of its own, and the message is not the last.
 *     Where there are no numbers for them, a closing thread receives the message.
 *   - Before a socket is closed it is shut down, so that nothing more can be queued, and read empty.
 *     Where a message carries a descriptor, a closing thread closes the socket.
 *   - Before the first read of a connection, out-of-band bytes are made part of its stream
 *     (SO_OOBINLINE): otherwise MSG_PEEK steps over such a byte, and the next read drops it with
 *     the descriptors that it carries.
 *   - A socket whose peer need not pass descriptors refuses them (SO_PASSRIGHTS, Linux 6.16): the
 *     sender gets EPERM. That is a second lock on the door, and not what the rest relies on.
 */
#ifndef UTIL_RECEIVED_SOCKET_H
#define UTIL_RECEIVED_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RECEIVED_FDS_MOST 253 /* SCM_MAX_FD: descriptors of one message */

struct received {
    size_t bytes; /* 0: the end of the stream */
    int nfds;
    bool truncated;             /* descriptors came for which this process has no number */
    int fds[RECEIVED_FDS_MOST]; /* close-on-exec; the caller gives each to received_fd_close() */
};

/* 0; -errno of recvmsg(2), as -EAGAIN; -ENOMEM: descriptors came for which there is no number, and
 * no closing thread takes them: they stay in the socket; -EPROTO: such a thread has taken them, and
 * waits: nothing may be received from this socket any more. */
int received_receive(int socket, void *buffer, size_t bytes, struct received *received);
/* Receives what carries no descriptor. Bytes; 0: the end; -errno; -EPROTO: the next bytes carry
 * descriptors; they stay in the socket. */
ssize_t received_plain(int socket, void *buffer, size_t bytes);

/* Before the first read of a connection: what comes out of band comes in order, with the rest. */
void received_in_order(int socket);

/* Closes a Unix socket that only this process has, connected or listening. Its peer sees the end at
 * once. Not in the child of a fork: the socket is also the parent's. */
void received_socket_close(int socket);

/* From now on the socket refuses descriptors, or takes them. Connections inherit it from the
 * socket that listens. False: this kernel cannot; they are taken. */
bool received_refuse(int socket, bool refuse);
/* For tests: as on a kernel that cannot. */
extern bool received_refuses_never;

#endif
