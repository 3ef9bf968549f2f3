/* SPDX-License-Identifier: BSD-3-Clause */
/* job_tcp_client.c: see job_tcp_client.h. */
#include "bootstrap/job_tcp_client.h"

#include "bootstrap/job_tcp_address.h"
#include "util/clock.h"
#include "util/fork_fds.h"
#include "util/limit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DIAL_MS 2000 /* one attempt to connect */

/* Waits until fd is ready for `events`. 0 or -ETIMEDOUT. */
static int tcp_client_wait(int fd, short events, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do {
        n = poll(&p, 1, deadline_left_ms(deadline, -1));
    } while (n < 0 && errno == EINTR);
    return n > 0 ? 0 : -ETIMEDOUT;
}

static int tcp_client_send(int fd, const void *data, size_t bytes, int64_t deadline)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);

        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return -errno;
        } else if (tcp_client_wait(fd, POLLOUT, deadline) != 0) {
            return -ETIMEDOUT;
        }
    }
    return 0;
}

static int tcp_client_receive(int fd, void *data, size_t bytes, int64_t deadline)
{
    char *at = data;

    while (bytes > 0) {
        ssize_t n = recv(fd, at, bytes, 0);

        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (n == 0) {
            return -ECONNRESET;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        } else if (tcp_client_wait(fd, POLLIN, deadline) != 0) {
            return -ETIMEDOUT;
        }
    }
    return 0;
}

/* A connect(2) to a port of this host on which nothing listens can be answered by the same
 * socket. */
static bool tcp_client_reached_itself(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof(here), there_bytes = sizeof(there);

    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
           here_bytes == there_bytes && memcmp(&here, &there, here_bytes) == 0;
}

static int tcp_client_dial(const struct addrinfo *a, int64_t deadline)
{
    int64_t attempt = deadline_in_ms(DIAL_MS);
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0, one = 1;
    socklen_t bytes = sizeof(error);

    if (fd < 0)
        return -errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS) {
            if (tcp_client_wait(fd, POLLOUT, attempt < deadline ? attempt : deadline) != 0)
                error = ETIMEDOUT;
            else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
                error = errno;
        }
    }
    if (error == 0 && tcp_client_reached_itself(fd))
        error = ECONNREFUSED;
    if (error != 0) {
        close(fd);
        return -error;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fork_fds_add(fd);
    return fd;
}

/* A structure of the root: its length, and the rest of it. */
static int tcp_client_receive_verdict(int fd, struct tcp_verdict *verdict, int64_t deadline)
{
    uint8_t raw[TCP_MESSAGE_MAX];
    uint32_t bytes;
    int result = tcp_client_receive(fd, &bytes, sizeof(bytes), deadline);

    if (result != 0)
        return result;
    if (bytes < TCP_VERDICT_LEAST || bytes > sizeof(raw))
        return -EPROTO;
    memcpy(raw, &bytes, sizeof(bytes));
    result = tcp_client_receive(fd, raw + sizeof(bytes), bytes - sizeof(bytes), deadline);
    return result != 0 ? result
                       : layout_read(verdict, sizeof(*verdict), raw, bytes, TCP_VERDICT_LEAST);
}

/* The cards of all ranks, as they follow the verdict. 0 or -errno. */
static int tcp_client_receive_table(struct tcp_job *job, int fd, size_t bytes, int64_t deadline)
{
    uint8_t *raw;
    size_t at = 0;
    uint32_t card;
    int i, result;

    if (bytes > (sizeof(card) + TCP_CARD_MAX) * (size_t)job->size)
        return -EPROTO;
    raw = malloc(bytes + 1);
    if (raw == NULL)
        return -ENOMEM;
    result = tcp_client_receive(fd, raw, bytes, deadline);
    for (i = 0; result == 0 && i < job->size; i++) {
        if (bytes - at < sizeof(card)) {
            result = -EPROTO;
            break;
        }
        memcpy(&card, raw + at, sizeof(card));
        at += sizeof(card);
        if (card == 0 || card > JOB_CARD_MAX || card > bytes - at) {
            result = -EPROTO;
            break;
        }
        job->table[i].bytes = card;
        memcpy(job->table[i].card, raw + at, card);
        at += card;
    }
    free(raw);
    return result;
}

/* Sends the join. 0 or -errno. */
static int tcp_client_send_join(const struct tcp_job *job, int fd, const void *card,
                                size_t card_bytes, int64_t deadline)
{
    size_t secret_bytes = strlen(job->secret);
    struct tcp_join join = {.bytes = sizeof(join),
                            .versions = tcp_versions(),
                            .magic = TCP_JOIN_MAGIC,
                            .rank = (uint32_t)job->rank,
                            .size = (uint32_t)job->size,
                            .secret_bytes = (uint32_t)secret_bytes,
                            .card_bytes = (uint32_t)card_bytes};
    int result = tcp_client_send(fd, &join, sizeof(join), deadline);

    if (result == 0)
        result = tcp_client_send(fd, job->secret, secret_bytes, deadline);
    if (result == 0)
        result = tcp_client_send(fd, card, card_bytes, deadline);
    return result;
}

/* What rank 0 has answered. 0: the table is here. Else it refused, or is not rank 0. */
static int tcp_client_read_answer(struct tcp_job *job, int fd, const struct tcp_verdict *verdict,
                                  int64_t deadline, struct error *err)
{
    char text[TCP_TEXT_MAX + 1] = "";
    int result;

    if (verdict->magic != TCP_VERDICT_MAGIC || verdict->text_bytes > TCP_TEXT_MAX ||
        verdict->code > 0 || verdict->code < -4095)
        return error_set(err, -EPROTO,
                         "the process that listens at %s:%s (RPIPE_ROOT) is not rank 0 of a job; "
                         "choose another port",
                         job->host, job->port);
    result = version_agree(tcp_versions(), verdict->versions, "the bootstrap tcp", "rank 0", err);
    if (result < 0)
        return result;
    if (verdict->code != 0) {
        tcp_client_receive(fd, text, verdict->text_bytes, deadline);
        error_note(err, "rank 0 at %s:%s refused this process: %s", job->host, job->port, text);
        return verdict->code == -EAGAIN ? -EPROTO : verdict->code;
    }
    result = tcp_client_receive_table(job, fd, verdict->table_bytes, deadline);
    if (result != 0)
        error_note(err, "the table of %d ranks from rank 0 at %s:%s: %s", job->size, job->host,
                   job->port, strerror(-result));
    return result;
}

/* One attempt over this connection. 0; -EAGAIN: try again, with a message; else refused. */
static int tcp_client_attempt(struct tcp_job *job, int fd, const void *card, size_t card_bytes,
                              int64_t deadline, struct error *err)
{
    struct tcp_verdict verdict = {0};
    int result = tcp_client_send_join(job, fd, card, card_bytes, deadline);

    if (result == 0)
        result = tcp_client_receive_verdict(fd, &verdict, deadline);
    if (result == 0 || result == -EPROTO)
        return tcp_client_read_answer(job, fd, &verdict, deadline, err);
    error_note(err,
               "rank 0 at %s:%s accepted the connection but does not answer (%s); is every rank "
               "running?",
               job->host, job->port, strerror(-result));
    return result == -ETIMEDOUT ? -ETIMEDOUT : -EAGAIN;
}

int tcp_client_join(struct tcp_job *job, const void *card, size_t bytes, int64_t deadline,
                    struct error *err)
{
    struct addrinfo *list, *a;
    int fd, result;

    for (;;) {
        list = NULL;
        result = tcp_resolve(job, &list, err);
        if (result != 0 && result != -EAGAIN)
            return result;
        for (a = list; a != NULL; a = a->ai_next) {
            fd = tcp_client_dial(a, deadline);
            if (fd < 0) {
                error_note(err, "rank 0 cannot be reached at %s:%s (RPIPE_ROOT): %s%s", job->host,
                           job->port, strerror(-fd),
                           *limit_of(-fd) != '\0' ? limit_of(-fd) : "; is it running?");
                continue;
            }
            result = tcp_client_attempt(job, fd, card, bytes, deadline, err);
            if (result == 0)
                job->links[0] = fd;
            else
                fork_fds_close(fd);
            if (result != -EAGAIN) {
                freeaddrinfo(list);
                return result;
            }
        }
        if (list != NULL)
            freeaddrinfo(list);
        if (deadline_passed(deadline))
            return -ETIMEDOUT;
        clock_sleep(20 * NS_PER_MS);
    }
}
