/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_verbs_cm.c: see fake_verbs.h; librdmacm within one process: events of identifiers in one channel, and requests to a listener, which is
 * found by its port. And the address of the device's interface.
 */
#include "test/btl/fake_verbs.h"

#include "util/list.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PRIVATE_BYTES 56 /* of InfiniBand, padded with zeros */
#define CM_DEVICE "/dev/infiniband/rdma_cm"

#pragma GCC visibility push(default)

struct cm_id {
    struct rdma_cm_id id;
    struct link link;    /* ids */
    struct cm_id *other; /* the identifier at the other end; NULL: none */
    uint16_t port;       /* in network order */
    bool listens, established;
};

struct cm_event {
    struct rdma_cm_event event;
    struct link link; /* events */
    char data[PRIVATE_BYTES];
};

/* Guards all of this file. Events of all channels are in one list: the descriptor of a channel counts its own. */
static pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
static struct link ids = {&ids, &ids}, events = {&events, &events};
static uint16_t last_port = 20000;

/* ---- events ---- */

static void cm_event(struct cm_id *to, struct cm_id *listener, enum rdma_cm_event_type type,
                     int status, const struct rdma_conn_param *param)
{
    struct cm_event *e = calloc(1, sizeof(*e));

    if (e == NULL)
        fake_die("no memory");
    e->event = (struct rdma_cm_event){.id = &to->id,
                                      .listen_id = listener != NULL ? &listener->id : NULL,
                                      .event = type,
                                      .status = status};
    if (param != NULL) {
        e->event.param.conn = *param;
        memcpy(e->data, param->private_data, param->private_data_len);
        e->event.param.conn.private_data = e->data;
        e->event.param.conn.private_data_len = sizeof(e->data);
    }
    list_append(&events, &e->link);
    (void)!eventfd_write(to->id.channel->fd, 1);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct rdma_event_channel *c = calloc(1, sizeof(*c));

    if (c == NULL)
        fake_die("no memory");
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    return c;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    (void)close(channel->fd);
    free(channel);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct link *at, *after;
    eventfd_t n;
    int rc = -1;

    pthread_mutex_lock(&cm_lock);
    if (eventfd_read(channel->fd, &n) == 0)
        list_for_each (at, after, &events) {
            struct cm_event *e = container_of(at, struct cm_event, link);

            if (rc != 0 && e->event.id->channel == channel) {
                list_remove(at);
                *event = &e->event;
                rc = 0;
            }
        }
    pthread_mutex_unlock(&cm_lock);
    if (rc != 0)
        errno = EAGAIN;
    return rc;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    free(container_of(event, struct cm_event, event));
    return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
    (void)event;
    return "an event";
}

/* ---- identifiers ---- */

static struct cm_id *cm_new(struct rdma_event_channel *channel, void *context)
{
    struct cm_id *c = calloc(1, sizeof(*c));

    if (c == NULL)
        fake_die("no memory");
    c->id.channel = channel;
    c->id.context = context;
    c->id.ps = RDMA_PS_TCP;
    list_append(&ids, &c->link);
    return c;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    (void)ps;
    pthread_mutex_lock(&cm_lock);
    *id = &cm_new(channel, context)->id;
    pthread_mutex_unlock(&cm_lock);
    return 0;
}

static void cm_part(struct cm_id *c)
{
    struct cm_id *other = c->other;

    if (other == NULL)
        return;
    c->other = other->other = NULL;
    if (!c->established)
        cm_event(other, NULL, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
    else
        cm_event(other, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    struct cm_id *c = (struct cm_id *)id;
    struct link *at, *after;
    eventfd_t n;

    if (id->qp != NULL)
        fake_die("an identifier is destroyed while it has a queue pair");
    pthread_mutex_lock(&cm_lock);
    cm_part(c);
    list_remove(&c->link);
    list_for_each (at, after, &events) {
        struct cm_event *e = container_of(at, struct cm_event, link);

        if (e->event.id != id)
            continue;
        list_remove(at);
        (void)!eventfd_read(id->channel->fd, &n);
        free(e);
    }
    pthread_mutex_unlock(&cm_lock);
    free(c);
    return 0;
}

/* ---- addresses ---- */

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    struct cm_id *c = (struct cm_id *)id;
    uint16_t port = ((struct sockaddr_in *)(void *)address)->sin_port;

    if (address->sa_family != AF_INET) {
        errno = ENODEV;
        return -1;
    }
    pthread_mutex_lock(&cm_lock);
    c->port = port != 0 ? port : htons(++last_port);
    pthread_mutex_unlock(&cm_lock);
    id->verbs = fake_context();
    id->port_num = 1;
    return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    (void)backlog;
    ((struct cm_id *)id)->listens = true;
    return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id) { return ((struct cm_id *)id)->port; }

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
    (void)from, (void)ms;
    id->verbs = fake_context();
    id->port_num = 1;
    memcpy(&id->route.addr.dst_sin, to, sizeof(id->route.addr.dst_sin));
    pthread_mutex_lock(&cm_lock);
    cm_event((struct cm_id *)id, NULL, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    pthread_mutex_unlock(&cm_lock);
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
    (void)ms;
    pthread_mutex_lock(&cm_lock);
    cm_event((struct cm_id *)id, NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    pthread_mutex_unlock(&cm_lock);
    return 0;
}

/* ---- connections ---- */

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    if (pd->context != id->verbs) {
        errno = EINVAL;
        return -1;
    }
    id->qp = fake_qp_create(pd, init);
    id->pd = pd;
    if (id->qp == NULL)
        return -1;
    ((struct fake_qp *)id->qp)->initialized = true;
    return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    if (attr->qp_state != IBV_QPS_INIT) {
        errno = EINVAL;
        return -1;
    }
    attr->pkey_index = 0;
    attr->port_num = id->port_num;
    attr->qp_access_flags = 0;
    *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    (void)ibv_destroy_qp(id->qp);
    id->qp = NULL;
}

/* Lock held. */
static struct cm_id *cm_listener(uint16_t port)
{
    struct link *at, *after;

    list_for_each (at, after, &ids) {
        struct cm_id *c = container_of(at, struct cm_id, link);

        if (c->listens && c->port == port)
            return c;
    }
    return NULL;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct cm_id *c = (struct cm_id *)id, *listener, *other;

    pthread_mutex_lock(&cm_lock);
    listener = cm_listener(id->route.addr.dst_sin.sin_port);
    if (listener == NULL) {
        cm_event(c, NULL, RDMA_CM_EVENT_REJECTED, ECONNREFUSED, NULL);
    } else {
        other = cm_new(listener->id.channel, listener->id.context);
        other->id.verbs = fake_context();
        other->id.port_num = 1;
        other->other = c;
        c->other = other;
        cm_event(other, listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param);
    }
    pthread_mutex_unlock(&cm_lock);
    return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct cm_id *c = (struct cm_id *)id;
    int rc = -1;

    pthread_mutex_lock(&cm_lock);
    if (c->other != NULL && c->other->id.qp != NULL) {
        fake_qp_connect((struct fake_qp *)id->qp, (struct fake_qp *)c->other->id.qp);
        c->established = c->other->established = true;
        cm_event(c->other, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, param);
        cm_event(c, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, param);
        rc = 0;
    }
    pthread_mutex_unlock(&cm_lock);
    if (rc != 0)
        errno = ECONNRESET;
    return rc;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
    const struct rdma_conn_param param = {.private_data = data, .private_data_len = bytes};
    struct cm_id *c = (struct cm_id *)id;

    pthread_mutex_lock(&cm_lock);
    if (c->other != NULL) {
        cm_event(c->other, NULL, RDMA_CM_EVENT_REJECTED, 28, &param);
        c->other->other = NULL;
        c->other = NULL;
    }
    pthread_mutex_unlock(&cm_lock);
    return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    pthread_mutex_lock(&cm_lock);
    if (id->qp != NULL)
        fake_qp_disconnect((struct fake_qp *)id->qp);
    cm_part((struct cm_id *)id);
    pthread_mutex_unlock(&cm_lock);
    return 0;
}

/* ---- the interface of the device, 192.0.2.1, and the connection manager's file ---- */

static struct sockaddr_in interface_address = {.sin_family = AF_INET};
static char interface_name[] = "fake0";
static struct ifaddrs interface = {.ifa_name = interface_name,
                                   .ifa_flags = IFF_UP,
                                   .ifa_addr = (struct sockaddr *)(void *)&interface_address};

int getifaddrs(struct ifaddrs **list)
{
    interface_address.sin_addr.s_addr = htonl(0xc0000201);
    *list = &interface;
    return 0;
}

void freeifaddrs(struct ifaddrs *list) { (void)list; }

int access(const char *path, int mode)
{
    return strcmp(path, CM_DEVICE) == 0 ? 0 : faccessat(AT_FDCWD, path, mode, 0);
}

#pragma GCC visibility pop
