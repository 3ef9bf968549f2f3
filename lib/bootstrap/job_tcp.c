/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_tcp.c: a job without a launcher, defined by RPIPE_RANK, RPIPE_SIZE, RPIPE_ROOT and
 * RPIPE_SECRET.
 *
 * All cards travel through rank 0, once. Afterwards every rank has the whole table, and the
 * connections to rank 0 serve for one thing: to pass on network_abort(). The service thread watches
 * them; the end of one of them has no meaning here, since the control network notices dead
 * processes.
 */
#include "bootstrap/job_tcp_wire.h"

#include "bootstrap/job_tcp_address.h"
#include "bootstrap/job_tcp_client.h"
#include "bootstrap/job_tcp_root.h"
#include "util/fork_fds.h"
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

static struct tcp_job tcp_job = {.watch = -1};
static int tcp_listener = -1;

static int tcp_query(struct error *err)
{
    struct tcp_job parts;
    long rank = setting_number(SET_RANK), size = setting_number(SET_SIZE);

    if (!setting_given(SET_RANK) || !setting_given(SET_SIZE))
        return error_set(err, -ENOENT,
                         "RPIPE_RANK is %s, RPIPE_SIZE is %s; set both for every process",
                         setting_given(SET_RANK) ? "set" : "not set",
                         setting_given(SET_SIZE) ? "set" : "not set");
    if (size < 1 || rank < 0 || rank >= size)
        return error_set(err, -EINVAL,
                         "RPIPE_RANK is %ld, RPIPE_SIZE is %ld; the size must be 1 or more, the "
                         "rank 0 to size - 1",
                         rank, size);
    if (size > 1 && !tcp_split_root(setting_text(SET_ROOT), &parts))
        return error_set(
            err, -EINVAL,
            "RPIPE_ROOT is \"%s\"; it must be host:port of rank 0, or [address]:port for IPv6",
            setting_text(SET_ROOT));
    if (size > 1 && *setting_text(SET_SECRET) == '\0')
        return error_set(
            err, -EINVAL,
            "RPIPE_SECRET is empty; give all processes of the job one text that no other job has");
    error_note(err, "rank %ld of %ld%s%s", rank, size, size > 1 ? ", root " : "",
               size > 1 ? setting_text(SET_ROOT) : "");
    return 0;
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
        tcp_job.rank == 0) { /* early: clients that connect now need one attempt */
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

/* All links behind one descriptor. Without it network_abort() of another rank is not noticed. */
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
        result = tcp_client_join(&tcp_job, card, bytes, deadline, err);
    }
    if (result == 0 && tcp_job.size > 1)
        tcp_watch_links();
    return result;
}

static int tcp_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err)
{
    (void)deadline;
    if (tcp_job.table[rank].bytes == 0)
        return error_set(err, -ENOENT, "the card of rank %d has not been received yet", rank);
    memcpy(card, tcp_job.table[rank].card, tcp_job.table[rank].bytes);
    *bytes = tcp_job.table[rank].bytes;
    return 0;
}

/* To all links. */
static void tcp_notify_all(const struct tcp_abort *notice)
{
    int i;

    for (i = 0; i < tcp_job.size; i++) {
        if (tcp_job.links[i] >= 0)
            send(tcp_job.links[i], notice, sizeof(*notice), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static __attribute__((noreturn)) void tcp_abort(int code)
{
    struct tcp_abort notice = {.bytes = sizeof(notice),
                               .code = code,
                               .magic = TCP_ABORT_MAGIC,
                               .from = (uint32_t)tcp_job.rank};

    if (tcp_job.links != NULL)
        tcp_notify_all(&notice);
    _exit(code);
}

static int tcp_watch(void) { return tcp_job.watch; }

static void tcp_watched(void)
{
    uint8_t raw[TCP_MESSAGE_MAX];
    struct tcp_abort notice;
    struct epoll_event event;
    ssize_t n;
    int i;

    while (epoll_wait(tcp_job.watch, &event, 1, 0) == 1) {
        i = event.data.fd;
        n = recv(tcp_job.links[i], raw, sizeof(raw), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n > 0 && layout_read(&notice, sizeof(notice), raw, (size_t)n, TCP_ABORT_LEAST) == 0 &&
            notice.magic == TCP_ABORT_MAGIC) {
            log_error("rank %u has aborted the job (network_abort), code %d", notice.from,
                      notice.code);
            tcp_notify_all(&notice);
            _exit(notice.code);
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
