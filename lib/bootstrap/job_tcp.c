/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_tcp.c: a job without a launcher: RPIPE_RANK, RPIPE_SIZE, RPIPE_ROOT and RPIPE_SECRET say who is who.
 *
 * All cards travel through rank 0, once. Afterwards every rank has the whole table, and the connections to rank 0 serve
 * for one thing: to pass on network_abort(). They are watched by the service thread; that one of them hangs up means
 * nothing here, since the control network notices the dead.
 */
#include "bootstrap/job_tcp.h"

#include "bootstrap/job_methods.h"
#include "util/fork_fds.h"
#include "util/clock.h"
#include "util/limit.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define DIAL_MS 2000 /* one attempt to connect */

static struct tcp_job tcp_job = {.watch = -1};
static int tcp_listener = -1;

/* "host:port", "[address]:port" */
static bool tcp_split_root(const char *root, struct tcp_job *j)
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

static int tcp_query(struct error *err)
{
    struct tcp_job parts;
    long rank = setting_number(SET_RANK), size = setting_number(SET_SIZE);

    if (!setting_given(SET_RANK) || !setting_given(SET_SIZE))
        return error_set(err, -ENOENT, "RPIPE_RANK and RPIPE_SIZE are not both set");
    if (size < 1 || rank < 0 || rank >= size)
        return error_set(err, -EINVAL,
                         "RPIPE_RANK is %ld and RPIPE_SIZE is %ld; ranks count from 0 to size - 1",
                         rank, size);
    if (size > 1 && !tcp_split_root(setting_text(SET_ROOT), &parts))
        return error_set(
            err, -EINVAL,
            "RPIPE_ROOT is \"%s\"; it must be host:port, [address]:port for IPv6, of rank 0",
            setting_text(SET_ROOT));
    if (size > 1 && *setting_text(SET_SECRET) == '\0')
        return error_set(
            err, -EINVAL,
            "RPIPE_SECRET is empty; give all processes of the job one word that no other job has");
    error_note(err, "rank %ld of %ld%s%s", rank, size, size > 1 ? ", root " : "",
               size > 1 ? setting_text(SET_ROOT) : "");
    return 0;
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

static void tcp_close(void)
{
    int i;

    for (i = 0; tcp_job.links != NULL && i < tcp_job.size; i++)
        fork_fds_close(tcp_job.links[i]);
    free(tcp_job.links);
    free(tcp_job.table);
    fork_fds_close(tcp_job.watch);
    fork_fds_close(tcp_listener);
    tcp_listener = -1;
    tcp_job = (struct tcp_job){.watch = -1};
}

static int tcp_open(int *rank, int *size, int64_t deadline, struct error *err)
{
    int i;

    tcp_job = (struct tcp_job){.watch = -1, .secret = setting_text(SET_SECRET)};
    tcp_job.rank = (int)setting_number(SET_RANK);
    tcp_job.size = (int)setting_number(SET_SIZE);
    tcp_job.links = malloc(sizeof(*tcp_job.links) * (size_t)tcp_job.size);
    tcp_job.table = calloc((size_t)tcp_job.size, sizeof(*tcp_job.table));
    for (i = 0; tcp_job.links != NULL && i < tcp_job.size; i++)
        tcp_job.links[i] = -1;
    if (tcp_job.links == NULL || tcp_job.table == NULL) {
        error_note(err, "no memory for the table of %d ranks", tcp_job.size);
        tcp_close();
        return -ENOMEM;
    }
    if (tcp_job.size > 1)
        tcp_split_root(setting_text(SET_ROOT), &tcp_job);
    if (tcp_job.size > 1 &&
        tcp_job.rank == 0) { /* early: guests that come now need not come twice */
        tcp_listener = tcp_root_listen(&tcp_job, deadline, err);
        if (tcp_listener < 0) {
            int result = tcp_listener;

            tcp_close();
            return result;
        }
    }
    *rank = tcp_job.rank;
    *size = tcp_job.size;
    return 0;
}

/* Waits until fd is ready for `events`. 0 or -ETIMEDOUT. */
static int tcp_wait_ready(int fd, short events, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do {
        n = poll(&p, 1, deadline_left_ms(deadline, -1));
    } while (n < 0 && errno == EINTR);
    return n > 0 ? 0 : -ETIMEDOUT;
}

static int tcp_send_all(int fd, const void *data, size_t bytes, int64_t deadline)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);

        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return -errno;
        } else if (tcp_wait_ready(fd, POLLOUT, deadline) != 0) {
            return -ETIMEDOUT;
        }
    }
    return 0;
}

static int tcp_receive_all(int fd, void *data, size_t bytes, int64_t deadline)
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
        } else if (tcp_wait_ready(fd, POLLIN, deadline) != 0) {
            return -ETIMEDOUT;
        }
    }
    return 0;
}

/* A dial to a port of this host on which nobody listens can be answered by its own end. */
static bool tcp_met_itself(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof(here), there_bytes = sizeof(there);

    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
           here_bytes == there_bytes && memcmp(&here, &there, here_bytes) == 0;
}

static int tcp_dial(const struct addrinfo *a, int64_t deadline)
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
            if (tcp_wait_ready(fd, POLLOUT, attempt < deadline ? attempt : deadline) != 0)
                error = ETIMEDOUT;
            else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
                error = errno;
        }
    }
    if (error == 0 && tcp_met_itself(fd))
        error = ECONNREFUSED;
    if (error != 0) {
        close(fd);
        return -error;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fork_fds_add(fd);
    return fd;
}

/* One visit to rank 0. 0: the table is here. -EAGAIN: try again, `why` says what happened. Else refused. */
static int tcp_visit(int fd, const void *card, size_t card_bytes, int64_t deadline,
                     struct error *err)
{
    size_t secret_bytes = strlen(tcp_job.secret);
    struct tcp_join join = {.magic = TCP_JOIN_MAGIC,
                            .version = TCP_VERSION,
                            .rank = (uint32_t)tcp_job.rank,
                            .size = (uint32_t)tcp_job.size,
                            .secret_bytes = (uint32_t)secret_bytes,
                            .card_bytes = (uint32_t)card_bytes};
    struct tcp_verdict verdict;
    char text[TCP_TEXT_MAX + 1] = "";
    int i, result;

    result = tcp_send_all(fd, &join, sizeof(join), deadline);
    if (result == 0)
        result = tcp_send_all(fd, tcp_job.secret, secret_bytes, deadline);
    if (result == 0)
        result = tcp_send_all(fd, card, card_bytes, deadline);
    if (result == 0)
        result = tcp_receive_all(fd, &verdict, sizeof(verdict), deadline);
    if (result != 0) {
        error_note(err,
                   "rank 0 at %s:%s took the call but does not answer (%s); is every rank running?",
                   tcp_job.host, tcp_job.port, strerror(-result));
        return result == -ETIMEDOUT ? -ETIMEDOUT : -EAGAIN;
    }
    if (verdict.magic != TCP_VERDICT_MAGIC || verdict.text_bytes > TCP_TEXT_MAX ||
        verdict.code > 0 || verdict.code < -4095)
        return error_set(err, -EPROTO, "who listens at %s:%s (RPIPE_ROOT) is not rank 0 of a job",
                         tcp_job.host, tcp_job.port);
    if (verdict.code != 0) {
        tcp_receive_all(fd, text, verdict.text_bytes, deadline);
        error_note(err, "rank 0 at %s:%s refused this process: %s", tcp_job.host, tcp_job.port,
                   text);
        return verdict.code == -EAGAIN ? -EPROTO : verdict.code;
    }
    result =
        tcp_receive_all(fd, tcp_job.table, sizeof(*tcp_job.table) * (size_t)tcp_job.size, deadline);
    for (i = 0; result == 0 && i < tcp_job.size; i++) {
        if (tcp_job.table[i].bytes == 0 || tcp_job.table[i].bytes > JOB_CARD_MAX)
            result = -EPROTO;
    }
    if (result != 0)
        error_note(err, "the table of ranks from rank 0 at %s:%s: %s", tcp_job.host, tcp_job.port,
                   strerror(-result));
    return result;
}

static int tcp_client_join(const void *card, size_t bytes, int64_t deadline, struct error *err)
{
    const struct timespec backoff = {0, 20 * NS_PER_MS};
    struct addrinfo *list, *a;
    int fd, result;

    for (;;) {
        list = NULL;
        result = tcp_resolve(&tcp_job, &list, err);
        if (result != 0 && result != -EAGAIN)
            return result;
        for (a = list; a != NULL; a = a->ai_next) {
            fd = tcp_dial(a, deadline);
            if (fd < 0) {
                error_note(err, "rank 0 cannot be reached at %s:%s (RPIPE_ROOT): %s%s",
                           tcp_job.host, tcp_job.port, strerror(-fd),
                           *limit_of(-fd) != '\0' ? limit_of(-fd) : "; is it running?");
                continue;
            }
            result = tcp_visit(fd, card, bytes, deadline, err);
            if (result == 0)
                tcp_job.links[0] = fd;
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
        nanosleep(&backoff, NULL);
    }
}

/* All links behind one descriptor. Without it only network_abort() is poorer. */
static void tcp_watch_links(void)
{
    int i;

    tcp_job.watch = epoll_create1(EPOLL_CLOEXEC);
    fork_fds_add(tcp_job.watch);
    for (i = 0; i < tcp_job.size; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = i};

        if (tcp_job.links[i] >= 0)
            epoll_ctl(tcp_job.watch, EPOLL_CTL_ADD, tcp_job.links[i], &event);
    }
}

static int tcp_publish(const void *card, size_t bytes, int64_t deadline, struct error *err)
{
    int result = 0;

    memcpy(tcp_job.table[tcp_job.rank].card, card, bytes);
    tcp_job.table[tcp_job.rank].bytes = (uint32_t)bytes;
    if (tcp_job.size > 1 && tcp_job.rank == 0) {
        result = tcp_root_gather(&tcp_job, tcp_listener, deadline, err);
        fork_fds_close(tcp_listener);
        tcp_listener = -1;
    } else if (tcp_job.size > 1) {
        result = tcp_client_join(card, bytes, deadline, err);
    }
    if (result == 0 && tcp_job.size > 1)
        tcp_watch_links();
    return result;
}

static int tcp_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err)
{
    (void)deadline;
    if (tcp_job.table[rank].bytes == 0)
        return error_set(err, -ENOENT, "the card of rank %d is not known yet", rank);
    memcpy(card, tcp_job.table[rank].card, tcp_job.table[rank].bytes);
    *bytes = tcp_job.table[rank].bytes;
    return 0;
}

static void tcp_notify_all(const struct tcp_notice *state)
{
    int i;

    for (i = 0; i < tcp_job.size; i++) {
        if (tcp_job.links[i] >= 0)
            send(tcp_job.links[i], state, sizeof(*state), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static __attribute__((noreturn)) void tcp_abort(int code)
{
    struct tcp_notice state = {TCP_NOTICE_MAGIC, code, (uint32_t)tcp_job.rank};

    if (tcp_job.links != NULL)
        tcp_notify_all(&state);
    _exit(code);
}

static int tcp_watch(void) { return tcp_job.watch; }

static void tcp_watched(void)
{
    struct tcp_notice state;
    struct epoll_event event;
    ssize_t n;
    int i;

    while (epoll_wait(tcp_job.watch, &event, 1, 0) == 1) {
        i = event.data.fd;
        n = recv(tcp_job.links[i], &state, sizeof(state), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n == (ssize_t)sizeof(state) && state.magic == TCP_NOTICE_MAGIC) {
            log_error("rank %u has aborted the job, code %d", state.from, state.code);
            tcp_notify_all(&state);
            _exit(state.code);
        }
        epoll_ctl(tcp_job.watch, EPOLL_CTL_DEL, tcp_job.links[i], NULL);
        fork_fds_close(tcp_job.links[i]);
        tcp_job.links[i] = -1;
    }
}

const struct job_ops job_tcp_ops = {
    .version = JOB_OPS_VERSION,
    .name = "tcp",
    .query = tcp_query,
    .open = tcp_open,
    .publish = tcp_publish,
    .card = tcp_card,
    .abort = tcp_abort,
    .close = tcp_close,
    .watch = tcp_watch,
    .watched = tcp_watched,
};
