/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lingering.h: a descriptor whose last close(2) waits, and how it is passed to another process.
 */
#ifndef TEST_LIB_LINGERING_H
#define TEST_LIB_LINGERING_H

#include "test/lib/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define LINGER_S 40 /* a call that waits for it takes so long */

/* A TCP socket with SO_LINGER, and with more to send than its other end takes. The wait ends when
 * *other is closed. */
static inline int lingering_socket(int *other)
{
    const struct linger linger = {1, LINGER_S};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 4096, idle = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    static const char bytes[65536];

    REQUIRE(listener >= 0 && fd >= 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    REQUIRE(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, (struct sockaddr *)&at, &length) == 0 &&
            connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
    *other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    REQUIRE(*other >= 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
    close(listener);
    while (idle < 5) { /* until the window stays closed */
        idle = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) < 0 ? idle + 1 : 0;
        usleep(500);
    }
    return fd;
}

/* Bytes with n descriptors. 0, or -errno. */
static inline int pass_descriptors(int to, const void *what, size_t bytes, const int *fds, int n)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * 253)];
    } space;
    struct iovec iov = {(void *)(uintptr_t)what, bytes};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n)};

    memset(&space, 0, sizeof(space));
    space.head.cmsg_level = SOL_SOCKET;
    space.head.cmsg_type = SCM_RIGHTS;
    space.head.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
    memcpy(CMSG_DATA(&space.head), fds, (size_t)n * sizeof(int));
    return sendmsg(to, &header, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* With n times this one. */
static inline int pass_descriptor(int to, const void *what, size_t bytes, int fd, int n)
{
    int fds[253] = {fd};

    for (int i = 0; i < n; i++)
        fds[i] = fd;
    return pass_descriptors(to, what, bytes, fds, n);
}

#endif
