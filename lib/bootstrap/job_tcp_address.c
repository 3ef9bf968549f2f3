/* SPDX-License-Identifier: BSD-3-Clause */
/* job_tcp_address.c: see job_tcp_address.h. */
#include "bootstrap/job_tcp_address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

bool tcp_split_root(const char *root, struct tcp_job *j)
{
    const char *colon = strrchr(root, ':'), *begin = root, *end = colon;
    char *rest;
    long port;

    if (colon == NULL)
        return false;
    if (*begin == '[') {
        begin++;
        end--;
        if (end < begin || *end != ']')
            return false;
    } else if (memchr(root, ':', (size_t)(colon - root)) != NULL) {
        return false; /* an IPv6 address without brackets */
    }
    port = strtol(colon + 1, &rest, 10);
    if (end <= begin || (size_t)(end - begin) >= sizeof(j->host) || rest == colon + 1 ||
        *rest != '\0' || port < 1 || port > 65535)
        return false;
    snprintf(j->host, sizeof(j->host), "%.*s", (int)(end - begin), begin);
    snprintf(j->port, sizeof(j->port), "%ld", port);
    return true;
}

int tcp_resolve(const struct tcp_job *j, struct addrinfo **list, struct error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int status = getaddrinfo(j->host, j->port, &hints, list);

    if (status == 0)
        return 0;
    error_note(err, "the host \"%s\" of RPIPE_ROOT: %s", j->host, gai_strerror(status));
    return status == EAI_AGAIN ? -EAGAIN : -EHOSTUNREACH;
}
