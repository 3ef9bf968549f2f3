/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c: selects the RDMA device and reads its limits.
 *
 * librdmacm finds a device by the addresses of its network interface. The device is therefore
 * selected from the addresses of this machine: each is tried, until one belongs to a matching
 * device whose port is active. Without a setting the address at which other ranks reach this one is
 * tried first.
 *
 * RPIPE_VERBS_DEVICE names a device, RPIPE_VERBS_PORT one of its ports, RPIPE_VERBS_GID the entry
 * of the port's table whose address is used: one interface may have several.
 */
#include "btl/verbs/device.h"

#include "util/log.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CM_DEVICE "/dev/infiniband/rdma_cm"

/* Preferred bytes of inline data; more would make every entry of the send queue longer. */
#define INLINE_WANTED 128
#define READS_MOST 16 /* outstanding READs and atomics in each direction */

#define SIW_VENDOR 0x626d74u /* struct ibv_device_attr.vendor_id of soft-iWARP */

const char *verbs_address_text(const union verbs_sockaddr *a, char *text, size_t bytes)
{
    char ip[INET6_ADDRSTRLEN] = "?";

    if (a->any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &a->in6.sin6_addr, ip, sizeof(ip));
        snprintf(text, bytes, "[%s]:%u", ip, verbs_address_port(a));
    } else {
        (void)inet_ntop(AF_INET, &a->in.sin_addr, ip, sizeof(ip));
        snprintf(text, bytes, "%s:%u", ip, verbs_address_port(a));
    }
    return text;
}

uint16_t verbs_address_port(const union verbs_sockaddr *a)
{
    return ntohs(a->any.sa_family == AF_INET6 ? a->in6.sin6_port : a->in.sin_port);
}

/* ---- availability ---- */

/*
 * The connection manager: without its device no connection is possible, and librdmacm prints to
 * standard error.
 */
static int verbs_device_manager_query(struct error *err)
{
    if (access(CM_DEVICE, R_OK | W_OK) == 0)
        return 0;
    if (errno == ENOENT)
        return error_set(err, -ENOTSUP,
                         "no %s: is the kernel module rdma_ucm loaded (modprobe rdma_ucm)?",
                         CM_DEVICE);
    return error_set(err, -ENOTSUP, "%s: %s", CM_DEVICE, strerror(errno));
}

static const char *verbs_device_link_text(const struct ibv_device *device,
                                          const struct ibv_port_attr *port)
{
    if (device->transport_type == IBV_TRANSPORT_IWARP)
        return "iWARP";
    return port->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

/* 0: one of its ports is up. `why`: which, or why none is. */
static int verbs_device_query_one(struct ibv_device *device, struct error *err)
{
    const char *name = ibv_get_device_name(device);
    struct ibv_context *context;
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    int rc = -ENOTSUP;
    uint8_t p;

    if (device->transport_type != IBV_TRANSPORT_IB && device->transport_type != IBV_TRANSPORT_IWARP)
        return error_set(err, -ENOTSUP, "%s is neither InfiniBand, RoCE nor iWARP", name);
    context = ibv_open_device(device);
    if (context == NULL)
        return error_set(err, -ENOTSUP, "%s cannot be opened: %s", name, strerror(errno));
    error_note(err, "%s has no port", name);
    if (ibv_query_device(context, &attr) != 0)
        attr.phys_port_cnt = 0;
    for (p = 1; p <= attr.phys_port_cnt && rc != 0; p++) {
        if (ibv_query_port(context, p, &port) != 0) {
            error_note(err, "port %u of %s cannot be queried: %s", p, name, strerror(errno));
        } else if (port.state != IBV_PORT_ACTIVE) {
            error_note(err, "port %u of %s is %s", p, name, ibv_port_state_str(port.state));
        } else {
            error_note(err, "%s, port %u is up", name, p);
            rc = 0;
        }
    }
    (void)ibv_close_device(context);
    return rc;
}

int verbs_device_query(struct error *err)
{
    int count = 0, rc = -ENOTSUP, i;
    struct ibv_device **list = ibv_get_device_list(&count);

    if (list == NULL || count == 0)
        error_note(err, "no RDMA device");
    else
        rc = verbs_device_manager_query(err);
    for (i = 0; rc == 0 && i < count; i++)
        if (verbs_device_query_one(list[i], err) == 0)
            break;
    if (rc == 0 && i == count)
        rc = -ENOTSUP;
    if (list != NULL)
        ibv_free_device_list(list);
    return rc;
}

/* ---- selection ---- */

struct device_choice {
    const char *device; /* "": any */
    long port, gid;     /* -1: any */
};

/* A setting that is a number, or -1. */
static int verbs_device_number(const struct btl_host *host, const char *name, long *value,
                               struct error *err)
{
    const char *text = host->setting(name);
    char *end;

    *value = -1;
    if (*text == '\0')
        return 0;
    errno = 0;
    *value = strtol(text, &end, 10);
    if (errno == 0 && *end == '\0' && *value >= -1 && *value <= 65535)
        return 0;
    return error_set(err, -EINVAL, "%s is \"%.40s\"; it must be a number from -1 to 65535", name,
                     text);
}

static bool verbs_device_same_ip(const union verbs_sockaddr *a, const union verbs_sockaddr *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
    return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0;
}

/* Is this the address in the GID table's entry? */
static bool verbs_device_is_gid(struct ibv_context *context, uint8_t port, long index,
                                const union verbs_sockaddr *a)
{
    struct in6_addr wanted = IN6ADDR_ANY_INIT;
    union ibv_gid gid;

    if (ibv_query_gid(context, port, (int)index, &gid) != 0)
        return false;
    if (a->any.sa_family == AF_INET6) {
        wanted = a->in6.sin6_addr;
    } else { /* ::ffff:a.b.c.d */
        memset(wanted.s6_addr + 10, 0xff, 2);
        memcpy(wanted.s6_addr + 12, &a->in.sin_addr, 4);
    }
    return memcmp(&gid, &wanted, sizeof(wanted)) == 0;
}

/* 0: this address belongs to a matching device, and the port is up; the listener is bound to it. */
static int verbs_device_try_address(struct btl *btl, const struct device_choice *choice,
                                    const union verbs_sockaddr *a, struct error *err)
{
    struct ibv_port_attr port;
    union verbs_sockaddr copy = *a;
    struct rdma_cm_id *id;
    const char *name;

    if (rdma_create_id(btl->channel, &id, NULL, RDMA_PS_TCP) != 0)
        return error_set(err, -ENOTSUP, "rdma_create_id: %s", strerror(errno));
    if (rdma_bind_addr(id, &copy.any) != 0 || id->verbs == NULL)
        goto no; /* not the address of a device; not reported, since most are not */
    name = ibv_get_device_name(id->verbs->device);
    if (*choice->device != '\0' && strcmp(name, choice->device) != 0)
        goto no;
    if (choice->port >= 0 && id->port_num != choice->port)
        goto no;
    if (choice->gid >= 0 && !verbs_device_is_gid(id->verbs, id->port_num, choice->gid, a))
        goto no;
    if (ibv_query_port(id->verbs, id->port_num, &port) != 0 || port.state != IBV_PORT_ACTIVE) {
        error_note(err, "port %u of %s is not up", id->port_num, name);
        goto no;
    }
    snprintf(btl->device, sizeof(btl->device), "%s", name);
    btl->listener = id;
    btl->process.ibv = id->verbs;
    btl->port = id->port_num;
    btl->here = *a;
    btl->limits.message_most = port.max_msg_sz;
    btl->limits.iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
    log_debug("verbs: %s port %u (%s)", name, id->port_num,
              verbs_device_link_text(id->verbs->device, &port));
    return 0;
no:
    (void)rdma_destroy_id(id);
    return -ENODEV;
}

/*
 * An address of an interface that is up; not of the loopback, which has no device, nor a link-local
 * one.
 */
static bool verbs_device_usable(const struct ifaddrs *i, union verbs_sockaddr *a)
{
    if (i->ifa_addr == NULL || (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0)
        return false;
    memset(a, 0, sizeof(*a));
    if (i->ifa_addr->sa_family == AF_INET) {
        memcpy(&a->in, i->ifa_addr, sizeof(a->in));
        return true;
    }
    if (i->ifa_addr->sa_family != AF_INET6)
        return false;
    memcpy(&a->in6, i->ifa_addr, sizeof(a->in6));
    return !IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr);
}

static int verbs_device_find(struct btl *btl, const struct device_choice *choice, struct error *err)
{
    struct ifaddrs *list, *i;
    union verbs_sockaddr a, preferred = {.any.sa_family = AF_UNSPEC};
    int rc = -ENODEV, family, pass;

    error_note(
        err,
        "no%s%s device with an address: librdmacm finds a device by the address of its interface "
        "(ip addr add)%s",
        *choice->device != '\0' ? " such RDMA device: " : " RDMA", choice->device,
        choice->port >= 0 || choice->gid >= 0
            ? "; RPIPE_VERBS_PORT or RPIPE_VERBS_GID narrow the search"
            : "");
    if (inet_pton(AF_INET, btl->host.address, &preferred.in.sin_addr) == 1)
        preferred.any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, btl->host.address, &preferred.in6.sin6_addr) == 1)
        preferred.any.sa_family = AF_INET6;
    if (getifaddrs(&list) != 0)
        return error_set(err, -ENODEV, "getifaddrs: %s", strerror(errno));
    /* the preferred one; then IPv4, then IPv6 */
    for (pass = 0; pass < 3 && rc != 0; pass++) {
        family = pass == 1 ? AF_INET : AF_INET6;
        for (i = list; i != NULL && rc != 0; i = i->ifa_next)
            if (verbs_device_usable(i, &a) &&
                (pass == 0 ? verbs_device_same_ip(&a, &preferred) : a.any.sa_family == family))
                rc = verbs_device_try_address(btl, choice, &a, err);
    }
    freeifaddrs(list);
    return rc;
}

/* ---- limits ---- */

static uint32_t verbs_device_least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The limit of inline data is no attribute of a device: it is found by creating queue pairs. */
static int verbs_device_probe_inline(struct btl *btl, struct ibv_pd *pd, struct ibv_cq *cq)
{
    static const uint32_t tries[] = {INLINE_WANTED, 80, 64, 0};
    size_t i;

    for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = cq,
            .recv_cq = cq,
            .cap = {.max_send_wr = 16,
                    .max_recv_wr = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = tries[i]},
            .qp_type = IBV_QPT_RC,
        };
        struct ibv_qp *qp = ibv_create_qp(pd, &init);

        if (qp == NULL)
            continue;
        (void)ibv_destroy_qp(qp);
        btl->limits.inline_most = tries[i];
        return 0;
    }
    return -errno;
}

static int verbs_device_probe(struct btl *btl, struct error *err)
{
    struct verbs_limits *l = &btl->limits;
    struct ibv_device_attr attr;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    int rc = ibv_query_device(btl->process.ibv, &attr);

    if (rc != 0)
        return error_set(err, -rc, "ibv_query_device of %s: %s", btl->device, strerror(rc));
    l->siw = l->iwarp && attr.vendor_id == SIW_VENDOR;
    l->send_depth = verbs_device_least(
        verbs_device_least((uint32_t)attr.max_qp_wr, (uint32_t)attr.max_cqe), DEPTH_MOST);
    l->cq_most = (uint32_t)attr.max_cqe;
    l->reads_out = (uint8_t)verbs_device_least((uint32_t)attr.max_qp_init_rd_atom, READS_MOST);
    l->reads_in = (uint8_t)verbs_device_least((uint32_t)attr.max_qp_rd_atom, READS_MOST);
    if (attr.atomic_cap != IBV_ATOMIC_NONE && !l->iwarp)
        l->atomics = 1u << BTL_ATOMIC_ADD | 1u << BTL_ATOMIC_CAS;
    if (l->reads_out == 0 || l->send_depth < 4 * SIGNAL_EVERY || l->message_most < CACHE_LINE)
        return error_set(
            err, -ENOTSUP,
            "%s has queues of %u entries, %u outstanding READs and messages of %u bytes; at "
            "least %u, 1 and %u are needed",
            btl->device, l->send_depth, l->reads_out, l->message_most, 4 * SIGNAL_EVERY,
            CACHE_LINE);
    pd = ibv_alloc_pd(btl->process.ibv);
    cq = pd != NULL ? ibv_create_cq(btl->process.ibv, 16, NULL, NULL, 0) : NULL;
    rc = cq != NULL ? verbs_device_probe_inline(btl, pd, cq) : -errno;
    if (cq != NULL)
        (void)ibv_destroy_cq(cq);
    if (pd != NULL)
        (void)ibv_dealloc_pd(pd);
    if (rc != 0)
        error_note(err, "%s: ibv_create_qp: %s", btl->device, strerror(-rc));
    return rc;
}

int verbs_device_open(struct btl *btl, struct error *err)
{
    struct device_choice choice = {.device = btl->host.setting("RPIPE_VERBS_DEVICE")};
    int rc = verbs_device_number(&btl->host, "RPIPE_VERBS_PORT", &choice.port, err);

    if (rc == 0)
        rc = verbs_device_number(&btl->host, "RPIPE_VERBS_GID", &choice.gid, err);
    if (rc == 0)
        rc = verbs_device_find(btl, &choice, err);
    if (rc == 0)
        rc = verbs_device_probe(btl, err);
    return rc;
}
