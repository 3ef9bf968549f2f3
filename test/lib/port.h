/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h: a port of TCP that is free now, on loopback, for rank 0 of a job. */
#ifndef TEST_LIB_PORT_H
#define TEST_LIB_PORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Rank 0 binds to it soon; that another process is faster is improbable, and would be reported. */
static inline int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        perror("free_port");
        exit(99);
    }
    close(fd);
    return ntohs(at.sin_port);
}

#endif
