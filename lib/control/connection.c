/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.c: see connection.h.
 *
 * Invariants: begin and end are within the buffer, begin is a multiple of 8 (frames are); c->sent
 * is less than the length of the first message of the outbox, 0 if there is none; a message whose
 * first byte was sent has no descriptors any more.
 */
#include "control/connection.h"

#include "util/fork_fds.h"
#include "util/received_fd.h"
#include "util/received_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFER_FIRST 4096 /* enough for a greeting, and for most of what follows */
#define BUFFER_READ 32768 /* bytes that an open connection asks for at once */
#define BATCH 64          /* messages per sendmsg(2) */

union fd_space { /* of ancillary data, aligned */
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int) * CONTROL_FDS_MAX)];
};

static void connection_close_fds(int *fds, int *nfds)
{
    int i;

    for (i = 0; i < *nfds; i++)
        received_fd_close(fds[i]);
    *nfds = 0;
}

struct connection *connection_new(int fd, bool is_unix, bool outgoing)
{
    struct connection *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->buffer = malloc(BUFFER_FIRST);
    if (c->buffer == NULL) {
        free(c);
        return NULL;
    }
    c->capacity = BUFFER_FIRST;
    c->body_max = WIRE_HELLO_MOST;
    c->fd = fd;
    c->is_unix = is_unix;
    c->outgoing = outgoing;
    c->peer = -1;
    list_init(&c->link);
    list_init(&c->outbox);
    return c;
}

void connection_close(struct connection *c)
{
    struct link *at, *after;

    list_for_each (at, after, &c->outbox)
        message_free(container_of(at, struct message, link));
    list_init(&c->outbox);
    c->sent = 0;
    connection_close_fds(c->fds, &c->nfds);
    if (c->is_unix)
        received_socket_close(c->fd);
    else
        fork_fds_close(c->fd);
    c->fd = -1;
    c->state = CONNECTION_CLOSED;
}

void connection_free(struct connection *c)
{
    free(c->buffer);
    free(c);
}

void connection_queue(struct connection *c, struct message *m)
{
    list_append(&c->outbox, &m->link);
}

/* As many messages as one call takes: the first with its descriptors, then such as have none. */
static int connection_batch_fill(struct connection *c, struct iovec *iov)
{
    struct link *at, *after;
    int n = 0;

    list_for_each (at, after, &c->outbox) {
        struct message *m = container_of(at, struct message, link);
        size_t skip = n == 0 ? c->sent : 0;

        if (n == BATCH || (n > 0 && m->nfds > 0))
            break;
        iov[n].iov_base = (char *)&m->frame + skip;
        iov[n].iov_len = message_bytes(m) - skip;
        n++;
    }
    return n;
}

static void connection_batch_sent(struct connection *c, size_t bytes, uint64_t *sent_messages)
{
    struct link *at, *after;

    list_for_each (at, after, &c->outbox) {
        struct message *m = container_of(at, struct message, link);
        size_t left = message_bytes(m) - c->sent;

        if (bytes == 0)
            break;
        message_drop_fds(m); /* the kernel holds them now */
        if (bytes < left) {
            c->sent += bytes;
            break;
        }
        bytes -= left;
        c->sent = 0;
        *sent_messages += m->posted;
        list_remove(&m->link);
        message_free(m);
    }
}

int connection_send(struct connection *c, uint64_t *sent_messages)
{
    struct iovec iov[BATCH];
    union fd_space space;

    while (!list_empty(&c->outbox)) {
        struct message *first = container_of(c->outbox.next, struct message, link);
        struct msghdr header = {.msg_iov = iov};
        ssize_t n;

        header.msg_iovlen = (size_t)connection_batch_fill(c, iov);
        if (first->nfds > 0) {
            size_t bytes = sizeof(int) * (size_t)first->nfds;

            memset(&space, 0, sizeof(space));
            header.msg_control = space.bytes;
            header.msg_controllen = CMSG_SPACE(bytes);
            space.head.cmsg_level = SOL_SOCKET;
            space.head.cmsg_type = SCM_RIGHTS;
            space.head.cmsg_len = CMSG_LEN(bytes);
            memcpy(CMSG_DATA(&space.head), first->fds, bytes);
        }
        n = sendmsg(c->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            connection_batch_sent(c, (size_t)n, sent_messages);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n == 0 || errno == EAGAIN) {
            return -EAGAIN;
        } else if (errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS) {
            return -ENOBUFS; /* also: more descriptors in flight than this user may have open */
        } else {
            return -errno;
        }
    }
    return 0;
}

/* Makes space for the frame that begins at c->begin, and for a large read if there is memory. */
static int connection_buffer_reserve(struct connection *c)
{
    size_t target = c->state == CONNECTION_OPEN && !c->outgoing ? BUFFER_READ : BUFFER_FIRST,
           need = BUFFER_FIRST;
    struct wire_frame frame;
    uint8_t *larger;

    if (c->begin == c->end) {
        c->begin = c->end = 0;
    } else if (c->begin > 0 && c->capacity - c->end < c->capacity / 2) {
        memmove(c->buffer, c->buffer + c->begin, c->end - c->begin);
        c->end -= c->begin;
        c->begin = 0;
    }
    /* checked by connection_frame() before anything more is read */
    if (c->end - c->begin >= sizeof(frame)) {
        memcpy(&frame, c->buffer + c->begin, sizeof(frame));
        need = wire_frame_bytes(&frame);
        if (target < need)
            target = need;
    }
    if (c->capacity - c->begin >= target && c->capacity > c->end)
        return 0;
    memmove(c->buffer, c->buffer + c->begin, c->end - c->begin);
    c->end -= c->begin;
    c->begin = 0;
    if (c->capacity >= target)
        return 0;
    larger = realloc(c->buffer, target);
    if (larger == NULL)
        return c->capacity >= need && c->capacity > c->end ? 0 : -ENOMEM;
    c->buffer = larger;
    c->capacity = target;
    return 0;
}

/* Takes the descriptors that came with a read. False: more than a peer may send. */
static bool connection_take_fds(struct connection *c, const struct received *received)
{
    const int capacity = (int)(sizeof(c->fds) / sizeof(c->fds[0]));
    bool fits = received->nfds <= CONTROL_FDS_MAX;
    int i;

    for (i = 0; i < received->nfds; i++) {
        int fd = received->fds[i];

        if (received_fd_is_memory(fd))
            fork_fds_add(fd); /* what else it may be, the child of a fork must not close either */
        if (fits && c->nfds < capacity)
            c->fds[c->nfds++] = fd;
        else
            fits = false, received_fd_close(fd);
    }
    return fits;
}

/* The greeting comes without descriptors: those that come all the same stay in the socket. */
static ssize_t connection_receive_greeting(struct connection *c, struct error *err)
{
    ssize_t n = received_plain(c->fd, c->buffer + c->end, c->capacity - c->end);

    if (n == -EPROTO)
        return error_set(err, -EPROTO, "it sent descriptors before its greeting");
    if (n < 0)
        return error_set(err, (int)n, "its connection broke: %s", strerror((int)-n));
    c->end += (size_t)n;
    return n;
}

static ssize_t connection_receive_unix(struct connection *c, struct error *err)
{
    struct received received;
    int rc = received_fd_crowds(c->fd);

    if (rc == -EPROTO)
        return error_set(err, -EPROTO,
                         "too many descriptors that it sent wait to be closed, and none could be "
                         "closed for a second");
    if (rc != 0)
        return error_set(err, -ENOMEM, "many descriptors that it sent wait to be closed");
    rc = received_receive(c->fd, c->buffer + c->end, c->capacity - c->end, &received);
    if (rc == -EPROTO)
        return error_set(err, -EPROTO,
                         "it sent descriptors that cannot be closed at once, and for which this "
                         "process has no numbers (see ulimit -n)");
    if (rc == -ENOMEM)
        return error_set(
            err, -ENOMEM,
            "this process has no numbers for descriptors that it sent (see ulimit -n)");
    if (rc < 0)
        return error_set(err, rc, "its connection broke: %s", strerror(-rc));
    if (!connection_take_fds(c, &received))
        return error_set(err, -EPROTO, "it sent more than %d descriptors at once", CONTROL_FDS_MAX);
    c->truncated = c->truncated || received.truncated; /* RLIMIT_NOFILE */
    c->end += received.bytes;
    return (ssize_t)received.bytes;
}

static ssize_t connection_receive_tcp(struct connection *c, struct error *err)
{
    ssize_t n;

    do {
        n = recv(c->fd, c->buffer + c->end, c->capacity - c->end, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_set(err, -errno, "its connection broke: %s", strerror(errno));
    c->end += (size_t)n;
    return n;
}

ssize_t connection_receive(struct connection *c, struct error *err)
{
    if (connection_buffer_reserve(c) != 0)
        return error_set(err, -ENOMEM, "there is no memory for a message");
    if (!c->is_unix)
        return connection_receive_tcp(c, err);
    return c->state == CONNECTION_ACCEPTED ? connection_receive_greeting(c, err)
                                           : connection_receive_unix(c, err);
}

int connection_frame(struct connection *c, const struct wire_frame **frame, const void **body,
                     struct error *err)
{
    size_t have = c->end - c->begin;
    const struct wire_frame *f = (const void *)(c->buffer + c->begin);

    if (have < sizeof(*f)) {
        if (have == 0 && c->nfds > 0)
            return error_set(err, -EPROTO, "it sent %d descriptors without a message", c->nfds);
        return 0;
    }
    if (f->magic != WIRE_FRAME_MAGIC || f->bytes < WIRE_FRAME_LEAST || f->bytes > WIRE_FRAME_MOST ||
        f->bytes % 8 != 0 || f->body_bytes > c->body_max || f->nfds > CONTROL_FDS_MAX)
        return error_set(err, -EPROTO,
                         "it sent a malformed frame (magic 0x%x, header of %u "
                         "bytes, body of %u bytes, at most "
                         "%zu; %u descriptors, at most %d)",
                         f->magic, f->bytes, f->body_bytes, c->body_max, f->nfds, CONTROL_FDS_MAX);
    if (have < wire_frame_bytes(f))
        return 0;
    /* Those that are missing are the last of the latest message; its receiver sees -1 in their
     * place. */
    if (c->truncated && f->nfds > c->nfds) {
        while (c->nfds < f->nfds)
            c->fds[c->nfds++] = -1;
        c->truncated = false;
    }
    if (f->nfds > c->nfds)
        return error_set(err, -EPROTO, "it sent a message that announces %u descriptors, with %d",
                         f->nfds, c->nfds);
    *frame = f;
    *body = (const uint8_t *)f + f->bytes;
    return 1;
}

void connection_consume(struct connection *c, const struct wire_frame *frame)
{
    int taken = frame->nfds, i;

    for (i = 0; i < taken; i++)
        received_fd_close(c->fds[i]); /* -1 where the receiver has taken it */
    memmove(c->fds, c->fds + taken, sizeof(int) * (size_t)(c->nfds - taken));
    c->nfds -= taken;
    c->begin += wire_frame_bytes(frame);
}
