/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connect.c: connects the queue pairs of two ends, by librdmacm, on the service thread.
 *
 * A process has one listener and one event channel. The connecting end resolves address and route,
 * creates its queue pair and connects; the request contains the token of the connection that it
 * addresses and its own. The accepting end finds the connection by the token, which only a process
 * that has received its address over the control network can have, and accepts; a request with an
 * unknown token is refused with a reason.
 *
 *   connecting:  IDLE -> RESOLVING -> ROUTING -> CONNECTING (-> GREETING, on iWARP) -> CONNECTED,
 *                with a pause and a new attempt after one that failed
 *   accepting:   IDLE -> GREETING -> CONNECTED, and back to IDLE if the connecting end starts again
 *
 * The messages between CONNECTING and CONNECTED are in greet.c.
 *
 * An attempt that fails for a reason that may be temporary is repeated, with a new identifier and a
 * new queue pair, until the deadline. Everything runs under btl.lock, calls of librdmacm included.
 * If an established connection ends, it has failed.
 */
#include "btl/verbs/connect.h"

#include "btl/verbs/context.h"
#include "btl/verbs/device.h"
#include "btl/verbs/greet.h"
#include "btl/verbs/state.h"
#include "btl/verbs/stream.h"

#include "util/clock.h"
#include "util/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 1024
#define RESOLVE_MS 2000
#define PAUSE_FIRST (5 * NS_PER_MS)
#define PAUSE_MOST (500 * NS_PER_MS)
#define LISTEN_TRIES 16

/*
 * Private data of a request, an acceptance (with the tokens exchanged) and a refusal. At most 56
 * bytes on InfiniBand.
 */
struct wire_hello {
    uint32_t magic;
    uint32_t refusal; /* enum refusal */
    uint64_t wanted;  /* token of the accepting end */
    uint64_t own;     /* token of the connecting end */
};
#define HELLO_MAGIC 0x76626833u /* "vbh3" */
static_assert(sizeof(struct wire_hello) == 24, "on the wire");

enum refusal { ACCEPTED, NO_SUCH_CONNECTION, NOT_YOURS, BUSY, NO_RESOURCES };

/* ---- attempts ---- */

static void verbs_connect_timer(void *arg);

/* The next moment at which a pause or a deadline ends. */
static void verbs_connect_set_timer(struct btl *btl)
{
    int64_t now = clock_now(), next = DEADLINE_NEVER;
    struct btl_connection *connection;
    size_t cursor = 0;

    while ((connection = hash_next(&btl->connections, &cursor)) != NULL) {
        if (connection->role != BTL_CONNECTS || connection->stage == IDLE ||
            connection->stage == CONNECTED)
            continue;
        if ((connection->stage == PAUSING || connection->stage == GREETING) &&
            connection->retry_at < next)
            next = connection->retry_at;
        if (connection->deadline < next)
            next = connection->deadline;
    }
    if (next != DEADLINE_NEVER)
        (void)btl->host.watch(-1, next > now ? (next - now) / 1000 + 1 : 1, verbs_connect_timer,
                              btl);
}

/* The connection fails: there is no further attempt. */
static void verbs_connect_give_up(struct btl_connection *connection, int error, const char *why)
{
    char there[80];

    verbs_state_fail(
        connection, error, "%s cannot be connected with %s, rank %d: %s", connection->btl->device,
        verbs_address_text(&connection->there, there, sizeof(there)), connection->peer, why);
    verbs_connect_drop(connection);
    connection->stage = IDLE;
}

/* This attempt has failed; another one follows. */
static void verbs_connect_try_again(struct btl_connection *connection, const char *why)
{
    snprintf(connection->obstacle, sizeof(connection->obstacle), "%s", why);
    verbs_connect_drop(connection);
    if (deadline_passed(connection->deadline)) {
        verbs_connect_give_up(connection, -ETIMEDOUT, connection->obstacle);
        return;
    }
    connection->pause = connection->pause == 0               ? PAUSE_FIRST
                        : 2 * connection->pause < PAUSE_MOST ? 2 * connection->pause
                                                             : PAUSE_MOST;
    connection->retry_at = clock_now() + connection->pause;
    connection->stage = PAUSING;
    verbs_connect_set_timer(connection->btl);
}

static void verbs_connect_try_again_after(struct btl_connection *connection, const char *call,
                                          int error)
{
    struct error err = {""};

    error_note(&err, "%s: %s", call, strerror(error));
    verbs_connect_try_again(connection, err.text);
}

/* Completions of the last attempt do not count. */
static void verbs_connect_forget(struct btl_connection *connection)
{
    struct btl_stream *stream = connection->stream;
    struct ibv_wc wc;

    if (!verbs_stream_has_queue(connection)) {
        while (ibv_poll_cq(connection->cq, 1, &wc) > 0)
            ;
        return;
    }
    biased_enter_other(&stream->lock, BIASED_NEVER);
    verbs_stream_renew(connection);
    biased_leave_other(&stream->lock);
}

/* The thread domain of the stream has no registers for another queue pair: it is made in the domain of its context. */
static int verbs_connect_without_domain(struct btl_connection *connection,
                                        struct ibv_qp_init_attr *init)
{
    int error = errno;

    if (verbs_context_queue_pair(connection, connection->context->pd, init) != 0)
        return -errno;
    log_info("verbs: a pipe of a stream to rank %d is not in its thread domain, which has no "
             "further queue pair: %s",
             connection->peer, strerror(error));
    connection->pd = connection->context->pd;
    return 0;
}

/* Creates a queue pair on connection->id. 0 or -errno. */
static int verbs_connect_make_queue_pair(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    struct ibv_qp_init_attr init = {
        .qp_context = connection,
        .send_cq = connection->cq,
        .recv_cq = connection->context->greetings,
        .cap = {.max_send_wr = connection->depth,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = btl->limits.inline_most},
        .qp_type = IBV_QPT_RC,
    };

    verbs_connect_forget(connection);
    if (connection->id->verbs != btl->process.ibv)
        return -EXDEV; /* the route to the other end uses another device */
    if (verbs_context_queue_pair(connection, connection->pd, &init) != 0 &&
        (connection->pd == connection->context->pd ||
         verbs_connect_without_domain(connection, &init) != 0))
        return -errno;
    connection->qp = connection->id->qp;
    return 0;
}

void verbs_connect_begin(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    union verbs_sockaddr from = btl->here, to = connection->there;

    if (from.any.sa_family == AF_INET6)
        from.in6.sin6_port = 0;
    else
        from.in.sin_port = 0;
    connection->stage = RESOLVING;
    if (rdma_create_id(btl->channel, &connection->id, connection, RDMA_PS_TCP) != 0) {
        connection->id = NULL;
        verbs_connect_try_again_after(connection, "rdma_create_id", errno);
    } else if (rdma_resolve_addr(connection->id, &from.any, &to.any, RESOLVE_MS) != 0) {
        verbs_connect_try_again_after(connection, "rdma_resolve_addr", errno);
    } else {
        verbs_connect_set_timer(btl); /* the deadline */
    }
}

/* Result of posting a message at the connecting end. */
static void verbs_connect_check_sent(struct btl_connection *connection, const char *what, int rc)
{
    struct error err = {""};

    if (rc == 0)
        return;
    error_note(&err, "ibv_post_send of %s: %s", what, strerror(-rc));
    verbs_connect_try_again(connection, err.text);
}

static void verbs_connect_timer(void *arg)
{
    struct btl *btl = arg;
    struct btl_connection *connection;
    size_t cursor = 0;
    int64_t now;

    pthread_mutex_lock(&btl->lock);
    now = clock_now();
    while ((connection = hash_next(&btl->connections, &cursor)) != NULL) {
        if (connection->role != BTL_CONNECTS || connection->stage == IDLE ||
            connection->stage == CONNECTED)
            continue;
        if (deadline_passed(connection->deadline))
            verbs_connect_give_up(connection, -ETIMEDOUT,
                                  *connection->obstacle != '\0' ? connection->obstacle
                                                                : "no answer");
        else if (connection->stage == PAUSING && connection->retry_at <= now)
            verbs_connect_begin(connection);
        else if (connection->stage == GREETING && connection->retry_at <= now)
            verbs_connect_check_sent(connection, "a nudge", verbs_greet_nudge(connection));
    }
    verbs_connect_set_timer(btl);
    pthread_mutex_unlock(&btl->lock);
}

/* ---- the connecting end ---- */

static void verbs_connect_now(struct btl_connection *connection)
{
    struct wire_hello hello = {HELLO_MAGIC, ACCEPTED, connection->peer_token, connection->token};
    struct rdma_conn_param param = {
        .private_data = &hello,
        .private_data_len = sizeof(hello),
        .responder_resources = connection->btl->limits.reads_in,
        .initiator_depth = connection->btl->limits.reads_out,
        .retry_count = 7,
        .rnr_retry_count = 7,
    };
    struct error err = {""};
    int rc = verbs_connect_make_queue_pair(connection);

    if (rc == 0 && connection->btl->limits.iwarp)
        rc = verbs_greet_expect(connection);
    if (rc == -EXDEV) {
        verbs_connect_give_up(
            connection, rc, "the route there uses another device; RPIPE_VERBS_DEVICE selects one");
    } else if (rc == -ENOMEM || rc == -EAGAIN) {
        error_note(&err, "rdma_create_qp with a queue of %u: %s", connection->depth, strerror(-rc));
        verbs_connect_try_again(connection, err.text);
    } else if (rc != 0) {
        error_note(&err, "rdma_create_qp with a queue of %u: %s", connection->depth, strerror(-rc));
        verbs_connect_give_up(connection, rc, err.text);
    } else if (rdma_connect(connection->id, &param) != 0) {
        verbs_connect_try_again_after(connection, "rdma_connect", errno);
    } else {
        connection->stage = CONNECTING;
    }
}

/* Copied out of an event, which is acknowledged before it is handled. */
struct event {
    struct rdma_cm_id *id, *listener;
    enum rdma_cm_event_type type;
    int status;
    uint8_t reads_in, reads_out; /* of CONNECT_REQUEST: limits of the connecting end */
    bool has_hello;
    struct wire_hello hello;
};

static void verbs_connect_refused(struct btl_connection *connection, const struct event *e)
{
    struct error err = {""};

    if (e->has_hello && e->hello.refusal == NO_SUCH_CONNECTION) {
        verbs_connect_give_up(
            connection, -ECONNREFUSED,
            "the other end has closed this connection, or its process has been replaced");
    } else if (e->has_hello && e->hello.refusal == NOT_YOURS) {
        verbs_connect_give_up(connection, -EPROTO, "the other end expects another peer");
    } else if (e->status == ECONNREFUSED || e->status == -ECONNREFUSED ||
               (!connection->btl->limits.iwarp && e->status == 8)) {
        verbs_connect_give_up(connection, -ECONNREFUSED,
                              "no process listens there; it may have ended");
    } else {
        error_note(&err, "refused, %s, reason %d",
                   e->has_hello && e->hello.refusal == BUSY ? "connected already"
                   : e->has_hello && e->hello.refusal == NO_RESOURCES
                       ? "no queue pair available there"
                       : "by its connection manager",
                   e->status);
        verbs_connect_try_again(connection, err.text);
    }
}

/* ---- the accepting end ---- */

static void verbs_connect_reject(struct rdma_cm_id *id, enum refusal reason)
{
    struct wire_hello hello = {HELLO_MAGIC, reason, 0, 0};

    (void)rdma_reject(id, &hello, sizeof(hello));
}

static void verbs_connect_refuse(struct rdma_cm_id *id, enum refusal reason)
{
    verbs_connect_reject(id, reason);
    (void)rdma_destroy_id(id);
}

static uint8_t verbs_connect_lesser(uint8_t a, uint8_t b) { return a < b ? a : b; }

static int verbs_connect_accept_request(struct btl_connection *connection, const struct event *e,
                                        const char **call)
{
    struct wire_hello hello = {HELLO_MAGIC, ACCEPTED, connection->token, e->hello.own};
    struct rdma_conn_param param = {
        .private_data = &hello,
        .private_data_len = sizeof(hello),
        .responder_resources = verbs_connect_lesser(connection->btl->limits.reads_in, e->reads_in),
        .initiator_depth = verbs_connect_lesser(connection->btl->limits.reads_out, e->reads_out),
        .rnr_retry_count = 7,
    };
    int rc = verbs_connect_make_queue_pair(connection);

    *call = "rdma_create_qp";
    if (rc == 0) {
        *call = "ibv_post_recv";
        rc = verbs_greet_expect(connection);
    }
    if (rc == 0) {
        *call = "rdma_accept";
        rc = rdma_accept(connection->id, &param) != 0 ? -errno : 0;
    }
    return rc;
}

static void verbs_connect_requested(struct btl *btl, const struct event *e)
{
    struct btl_connection *connection =
        e->has_hello ? hash_get(&btl->connections, e->hello.wanted) : NULL;
    const char *call;
    int rc;

    if (connection == NULL || connection->role != BTL_ACCEPTS) {
        verbs_connect_refuse(e->id, NO_SUCH_CONNECTION);
        return;
    }
    if (connection->peer_token != 0 && connection->peer_token != e->hello.own) {
        verbs_connect_refuse(e->id, NOT_YOURS);
        return;
    }
    if (connection->stage == CONNECTED || e->id->verbs != btl->process.ibv) {
        verbs_connect_refuse(e->id, BUSY);
        return;
    }
    verbs_connect_drop(connection); /* an attempt that the connecting end has given up */
    connection->peer_token = e->hello.own;
    connection->id = e->id;
    connection->id->context = connection;
    connection->stage = GREETING;
    rc = verbs_connect_accept_request(connection, e, &call);
    if (rc == 0)
        return;
    /* the connecting end may have cancelled it meanwhile */
    log_info("verbs: a connection of rank %d cannot be accepted: %s: %s", connection->peer, call,
             strerror(-rc));
    snprintf(connection->obstacle, sizeof(connection->obstacle), "%s: %s", call, strerror(-rc));
    verbs_connect_reject(e->id, NO_RESOURCES);
    verbs_connect_drop(connection);
    connection->stage = IDLE;
}

/* ---- events ---- */

/*
 * The connection has ended. Its outstanding work requests are flushed, so that no memory is
 * accessed.
 */
static void verbs_connect_ended(struct btl_connection *connection, const char *why)
{
    if (connection->stage == CONNECTED) {
        /*
         * first: the failure allows the caller to reuse the memory that transfers would still write
         */
        (void)rdma_disconnect(connection->id);
        verbs_state_fail(connection, -ECONNRESET, "the connection of %s with rank %d has ended: %s",
                         connection->btl->device, connection->peer, why);
    } else if (connection->role == BTL_CONNECTS) {
        verbs_connect_try_again(connection, why);
    } else {
        verbs_connect_drop(connection);
        connection->stage = IDLE;
    }
}

static void verbs_connect_handle(struct btl *btl, const struct event *e)
{
    struct btl_connection *connection = e->id->context;
    struct error err = {""};

    if (e->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        verbs_connect_requested(btl, e);
        return;
    }
    if (connection == NULL || connection->id != e->id) { /* of the listener */
        if (e->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
            log_error("verbs: %s has been removed; no further connection is possible", btl->device);
        return;
    }
    switch (e->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        connection->stage = ROUTING;
        if (rdma_resolve_route(connection->id, RESOLVE_MS) != 0)
            verbs_connect_try_again_after(connection, "rdma_resolve_route", errno);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        verbs_connect_now(connection);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        if (connection->role == BTL_CONNECTS && connection->stage == CONNECTING) {
            verbs_connect_check_sent(connection, "the greeting", verbs_greet(connection));
            verbs_connect_set_timer(btl);
        }
        break;
    case RDMA_CM_EVENT_REJECTED:
        if (connection->role == BTL_CONNECTS)
            verbs_connect_refused(connection, e);
        else
            verbs_connect_ended(connection, "refused");
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        verbs_connect_ended(connection, "the other end has closed it, or its process has ended");
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        verbs_connect_ended(connection, "the device has been removed");
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
        error_note(&err, "%s, status %d (%s)", rdma_event_str(e->type), e->status,
                   e->status < 0 ? strerror(-e->status) : "of the connection manager");
        verbs_connect_ended(connection, err.text);
        break;
    default: /* ADDR_CHANGE, TIMEWAIT_EXIT: nothing to do */
        break;
    }
}

/* The channel has events. Each is acknowledged at once: rdma_destroy_id waits for that. */
static void verbs_connect_ready(void *arg)
{
    struct btl *btl = arg;
    struct rdma_cm_event *got;

    atomic_store_explicit(&btl->service_thread, biased_self(), memory_order_relaxed);
    pthread_mutex_lock(&btl->lock);
    while (rdma_get_cm_event(btl->channel, &got) == 0) {
        struct event e = {
            .id = got->id,
            .listener = got->listen_id,
            .type = got->event,
            .status = got->status,
            .reads_in = got->param.conn.responder_resources,
            .reads_out = got->param.conn.initiator_depth,
        };

        /* InfiniBand pads private data with zeros */
        if (got->param.conn.private_data != NULL &&
            got->param.conn.private_data_len >= sizeof(e.hello)) {
            memcpy(&e.hello, got->param.conn.private_data, sizeof(e.hello));
            e.has_hello = e.hello.magic == HELLO_MAGIC;
        }
        (void)rdma_ack_cm_event(got);
        verbs_connect_handle(btl, &e);
    }
    if (errno != EAGAIN)
        log_warn("verbs: rdma_get_cm_event: %s", strerror(errno));
    (void)btl->host.watch(btl->channel->fd, 0, verbs_connect_ready, btl);
    pthread_mutex_unlock(&btl->lock);
}

/* ---- opening and closing ---- */

/* On iWARP a port is one of TCP's, and the one that librdmacm has chosen may be in use. */
static int verbs_connect_listen_somewhere(struct btl *btl, struct error *err)
{
    union verbs_sockaddr a = btl->here;
    int tries, error = 0;

    for (tries = 0; tries < LISTEN_TRIES; tries++) {
        uint16_t port;

        if (tries > 0) {
            (void)rdma_destroy_id(btl->listener);
            btl->listener = NULL;
            if (rdma_create_id(btl->channel, &btl->listener, NULL, RDMA_PS_TCP) != 0 ||
                rdma_bind_addr(btl->listener, &a.any) != 0)
                break;
        }
        if (rdma_listen(btl->listener, BACKLOG) == 0) {
            port = rdma_get_src_port(btl->listener); /* in network order */
            if (a.any.sa_family == AF_INET6)
                btl->here.in6.sin6_port = port;
            else
                btl->here.in.sin_port = port;
            return 0;
        }
        error = errno;
        if (error != EADDRINUSE && error != EADDRNOTAVAIL)
            break;
    }
    if (error == 0)
        error = errno;
    error_note(err, "rdma_listen on %s: %s", btl->device, strerror(error));
    return -error;
}

int verbs_connect_open(struct btl *btl, struct error *err)
{
    int rc = verbs_state_set_nonblocking(btl->channel->fd);

    if (rc != 0)
        return error_set(err, rc, "fcntl of the event channel: %s", strerror(-rc));
    btl->greeted = verbs_greet_received;
    rc = verbs_context_open_greetings(&btl->process, err);
    if (rc != 0)
        return rc;
    rc = verbs_connect_listen_somewhere(btl, err);
    if (rc != 0)
        return rc;
    rc = btl->host.watch(btl->channel->fd, 0, verbs_connect_ready, btl);
    if (rc == 0)
        rc = verbs_context_watch(&btl->process);
    if (rc != 0)
        error_note(err, "the service thread cannot watch the events of %s: %s", btl->device,
                   strerror(-rc));
    return rc;
}

void verbs_connect_stop(struct btl *btl)
{
    if (btl->forked)
        return;
    btl->host.unwatch(verbs_connect_ready, btl);
    verbs_context_unwatch(&btl->process);
    btl->host.unwatch(verbs_connect_timer, btl);
}

void verbs_connect_close(struct btl *btl)
{
    if (btl->forked)
        return;
    if (btl->listener != NULL)
        (void)rdma_destroy_id(btl->listener);
    verbs_context_close_greetings(&btl->process);
}

/*
 * In a child the descriptors refer to the parent's queue pairs, which would then exist until the
 * child ends. They are redirected to /dev/null; their numbers stay in use, because the libraries
 * still hold them.
 */
void verbs_connect_forked(struct btl *btl)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (nowhere < 0)
        return;
    (void)dup3(nowhere, btl->channel->fd, O_CLOEXEC);
    verbs_contexts_forked(btl, nowhere);
    (void)close(nowhere);
}
