/* SPDX-License-Identifier: BSD-3-Clause */
/* received_socket.c: see received_socket.h. */
#include "util/received_socket.h"

#include "util/fork_fds.h"
#include "util/received_fd.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* asm-generic/socket.h; the same number on most processors */
#endif
#define DRAIN_BYTES 16384
#define DRAIN_READS 64    /* more than a socket holds; then a thread of its own closes it */
#define ACCEPTS_MOST 8192 /* more than a listening socket holds */

bool received_refuses_never;

bool received_refuse(int socket, bool refuse)
{
    const int pass = !refuse;
    socklen_t bytes = sizeof(int);
    int is = -1;

    /* read back: a kernel that ignores options that it does not have would refuse nothing */
    return !received_refuses_never &&
           setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &pass, sizeof(pass)) == 0 &&
           getsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &is, &bytes) == 0 && is == pass;
}

void received_in_order(int socket)
{
    (void)setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &(int){1}, sizeof(int));
}

static ssize_t received_message(int socket, struct msghdr *header, int flags)
{
    ssize_t n;

    do
        n = recvmsg(socket, header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT | flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t received_plain(int socket, void *buffer, size_t bytes)
{
    struct iovec iov = {buffer, bytes};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n = received_message(socket, &header, MSG_PEEK);

    if (n <= 0)
        return n;
    /* without space for them, this is all that shows descriptors; those of MSG_PEEK are duplicates */
    if ((header.msg_flags & MSG_CTRUNC) != 0)
        return -EPROTO;
    iov.iov_len = (size_t)n; /* what comes behind these bytes may carry some */
    header = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1};
    return received_message(socket, &header, 0);
}

static void received_take_fds(struct msghdr *header, struct received *received)
{
    struct cmsghdr *at;

    for (at = CMSG_FIRSTHDR(header); at != NULL; at = CMSG_NXTHDR(header, at)) {
        size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS ||
            count > (size_t)(RECEIVED_FDS_MOST - received->nfds))
            continue;
        memcpy(received->fds + received->nfds, CMSG_DATA(at), count * sizeof(int));
        received->nfds += (int)count;
    }
}

static void received_give_back(struct received *received)
{
    while (received->nfds > 0)
        received_fd_close(received->fds[--received->nfds]);
}

/* Takes out of the socket what has been examined. *carried: there were descriptors with it. */
static int received_consume(int socket, void *buffer, const struct received *received,
                            bool *carried)
{
    struct iovec iov = {buffer, received->bytes};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (received->truncated)
        return received_fd_discard(socket, received->bytes, carried);
    /* the message holds no last reference: this process has every descriptor of it */
    n = received_message(socket, &header, 0);
    *carried = (header.msg_flags & MSG_CTRUNC) != 0;
    return n < 0 ? (int)n : 0;
}

int received_receive(int socket, void *buffer, size_t bytes, struct received *received)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * RECEIVED_FDS_MOST)];
    } space;
    struct iovec iov = {buffer, bytes};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = sizeof(space.bytes)};
    ssize_t n = received_message(socket, &header, MSG_PEEK);
    bool carried = false;
    int rc;

    received->bytes = n > 0 ? (size_t)n : 0;
    received->nfds = 0;
    received->truncated = n > 0 && (header.msg_flags & MSG_CTRUNC) != 0;
    if (n <= 0)
        return (int)n;
    received_take_fds(&header, received);
    received_fds_inherit(received->fds, received->nfds, socket);
    rc = received_consume(socket, buffer, received, &carried);
    /* where the space ends with a message, the kernel also shows the descriptors of the next one */
    if (rc != 0 || !carried) {
        received_give_back(received);
        received->truncated = false;
    }
    return rc;
}

/* ---- closing ---- */

/* Whether nothing is queued in a socket that was shut down. */
static bool received_drain(int socket)
{
    char buffer[DRAIN_BYTES];
    ssize_t n = -ECONNRESET;
    int reads;

    for (reads = 0; reads < DRAIN_READS && (n > 0 || n == -ECONNRESET); reads++)
        n = received_plain(socket, buffer, sizeof(buffer));
    return n == 0 || n == -EINVAL || n == -ENOTCONN; /* not connected yet */
}

static void received_connection_close(int socket)
{
    if (received_fd_close_after_discard(socket))
        return;
    received_in_order(socket);
    if (received_drain(socket)) {
        received_fd_set_source(socket, RECEIVED_OWN); /* of the next one that has this number */
        fork_fds_close(socket);
    } else {
        received_fd_close_apart(socket);
    }
}

void received_socket_close(int socket)
{
    socklen_t bytes = sizeof(int);
    int listens = 0, i, fd;

    if (socket < 0)
        return;
    (void)shutdown(socket, SHUT_RDWR);
    if (getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || !listens) {
        received_connection_close(socket);
        return;
    }
    for (i = 0; i < ACCEPTS_MOST; i++) {
        fd = accept4(socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            break;
        (void)shutdown(fd, SHUT_RDWR);
        received_connection_close(fd);
    }
    if (i < ACCEPTS_MOST && (errno == EAGAIN || errno == EINVAL))
        fork_fds_close(socket);
    else
        received_fd_close_apart(socket); /* no number to accept with */
}
