/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h: a port of TCP for rank 0 of a job, on loopback, which the kernel gives to no other process.
 *
 * The socket that has it is bound and does not listen, so rank 0 can bind to it as well (SO_REUSEADDR at both). Without that,
 * another test that takes a port, or any outgoing connection, could get it before rank 0 does.
 */
#ifndef TEST_LIB_PORT_H
#define TEST_LIB_PORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* *fd: the socket that holds it, until it is closed. */
static inline int port_hold(int *fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0 ||
        bind(*fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        getsockname(*fd, (struct sockaddr *)&at, &bytes) != 0) {
        perror("port_hold");
        exit(99);
    }
    return ntohs(at.sin_port);
}

/* Held as long as this process is. */
static inline int free_port(void)
{
    int fd;

    return port_hold(&fd);
}

#endif
