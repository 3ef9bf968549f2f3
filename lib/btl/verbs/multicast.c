/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multicast.c: the medium of casts over unreliable datagrams (UD) of RoCE: packets to groups (btl/medium.h, doc/multicast.md "Media").
 *
 * The writer of a cast has a queue pair that sends, each reader one that is attached to the group. What readers send, and what is sent to
 * one of them alone, has no need of a device and goes by UDP, so there is no other address here than that of the writer. The device is
 * that of the rank's address, as for connections.
 *
 *   group    ::ffff:239.x.y.z as a GID, from the key of the cast; the network delivers frames of a group to a host only if its
 *            network interface is a member, so a socket joins 239.x.y.z at the address of the device
 *   Q_Key    from the key too: the device drops datagrams of others, whatever they contain
 *   sender   GID and number of its queue pair, from the 40 bytes before each datagram (GRH, or a head of IPv4 in its last 20)
 *
 * A message to send is copied into a registered slot. Every SEND_SIGNAL-th is signaled; its completion frees all slots up to its own.
 */
#include "btl/verbs/device.h"
#include "btl/medium.h"
#include "btl/verbs/state.h"

#include "util/hash.h"
#include "util/limit.h"
#include "util/log.h"
#include "util/module.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define GRH_BYTES 40u
#define SLOT_BYTES 1536u /* GRH and a packet */
#define SENDS 64u
#define SEND_SIGNAL 16u
#define RECEIVES 128u
#define RECEIVE_REFILL 32u       /* receive requests are posted so many at a time */
#define GROUPS_LEAST 0xefc00000u /* 239.192.0.0/14: of an organization (RFC 2365) */
#define GROUPS_MASK 0x3ffffu
#define QKEY_MASK 0x7fffffffu /* the highest bit is of privileged ones */
static_assert(GRH_BYTES + MEDIUM_PACKET_MOST <= SLOT_BYTES && GRH_BYTES % 8 == 0, "a slot");

struct medium {
    struct btl device; /* that which device.c selects; nothing else of it is used */
    union ibv_gid gid; /* of the address */
    int gid_index;
    size_t mtu;

    struct ibv_pd *pd;
    struct ibv_comp_channel *events; /* of a reader */
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    unsigned char *slot; /* SENDS or RECEIVES of SLOT_BYTES */
    struct medium_address group;
    bool broken; /* the queue pair sends, or receives, no more */

    /* writer */
    struct ibv_ah *ah;
    uint64_t posted, completed;
    uint32_t queued;
    struct ibv_send_wr send[SENDS];
    struct ibv_sge send_part[SENDS];

    /* reader */
    int member_fd;                  /* the socket that is a member of the group; -1: none */
    bool attached;                  /* the queue pair, to the group */
    bool armed;                     /* a completion causes an event */
    uint32_t free[RECEIVES], nfree; /* slots to post again */
};

/* ---- the device ---- */

/* "RoCE v2" or "IB/RoCE v1", as the kernel lists the entries of a port's GID table. */
static bool verbs_multicast_gid_is_v2(const struct medium *m, int index)
{
    char path[160], text[32] = "";
    FILE *file;
    bool is;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/gid_attrs/types/%d",
             m->device.device, m->device.port, index);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    is = fgets(text, sizeof(text), file) != NULL && strncmp(text, "RoCE v2", 7) == 0;
    fclose(file);
    return is;
}

/* The entry of the GID table that has the device's address. */
static int verbs_multicast_find_gid(struct medium *m, const struct ibv_port_attr *port,
                                    struct error *err)
{
    union ibv_gid wanted = {.raw = {[10] = 0xff, [11] = 0xff}};

    memcpy(wanted.raw + 12, &m->device.here.in.sin_addr, 4);
    for (int i = 0; i < port->gid_tbl_len; i++) {
        if (ibv_query_gid(m->device.process.ibv, m->device.port, i, &m->gid) == 0 &&
            memcmp(&m->gid, &wanted, sizeof(wanted)) == 0 && verbs_multicast_gid_is_v2(m, i)) {
            m->gid_index = i;
            return 0;
        }
    }
    return error_set(err, -ENOTSUP, "%s has no entry of RoCE v2 for its address in its GID table",
                     m->device.device);
}

static int verbs_multicast_check_device(struct medium *m, struct error *err)
{
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    const char *name = m->device.device;

    if (ibv_query_device(m->device.process.ibv, &attr) != 0 ||
        ibv_query_port(m->device.process.ibv, m->device.port, &port) != 0)
        return error_set(err, -ENOTSUP, "%s cannot be queried: %s", name, strerror(errno));
    if (m->device.limits.iwarp)
        return error_set(err, -ENOTSUP, "%s is iWARP, which has no multicast", name);
    if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
        return error_set(err, -ENOTSUP,
                         "%s is InfiniBand, whose groups are made by its subnet manager; this "
                         "version has groups of RoCE",
                         name);
    if (attr.max_mcast_grp == 0)
        return error_set(err, -ENOTSUP, "%s has no multicast groups", name);
    if (m->device.here.any.sa_family != AF_INET)
        return error_set(err, -ENOTSUP, "the address of %s is of IPv6; groups are of IPv4", name);
    m->mtu = (size_t)128 << port.active_mtu;
    m->mtu = m->mtu < MEDIUM_PACKET_MOST ? m->mtu : MEDIUM_PACKET_MOST;
    return verbs_multicast_find_gid(m, &port, err);
}

static void verbs_multicast_close(struct medium *m)
{
    if (m->ah != NULL)
        (void)ibv_destroy_ah(m->ah);
    if (m->attached) {
        union ibv_gid gid;

        memcpy(&gid, m->group.address, sizeof(gid));
        (void)ibv_detach_mcast(m->qp, &gid, 0);
    }
    if (m->qp != NULL)
        (void)ibv_destroy_qp(m->qp);
    if (m->cq != NULL)
        (void)ibv_destroy_cq(m->cq);
    if (m->events != NULL)
        (void)ibv_destroy_comp_channel(m->events);
    if (m->mr != NULL)
        (void)ibv_dereg_mr(m->mr);
    if (m->slot != NULL)
        (void)munmap(m->slot, (size_t)RECEIVES * SLOT_BYTES);
    if (m->pd != NULL)
        (void)ibv_dealloc_pd(m->pd);
    if (m->member_fd >= 0)
        (void)close(m->member_fd);
    if (m->device.listener != NULL)
        (void)rdma_destroy_id(m->device.listener);
    if (m->device.channel != NULL)
        rdma_destroy_event_channel(m->device.channel);
    free(m);
}

static int verbs_multicast_open(struct medium **medium, const struct medium_host *host,
                                struct error *err)
{
    struct medium *m = calloc(1, sizeof(*m));
    int rc = verbs_device_query(err);

    if (m == NULL)
        return error_set(err, -ENOMEM, "no memory for a queue pair");
    m->member_fd = -1;
    m->device.host = (struct btl_host){.setting = host->setting, .address = host->address};
    (void)ibv_fork_init();
    if (rc == 0 && (m->device.channel = rdma_create_event_channel()) == NULL)
        rc = error_set(err, -errno, "rdma_create_event_channel: %s", strerror(errno));
    if (rc == 0)
        rc = verbs_device_open(&m->device, err);
    if (rc == 0)
        rc = verbs_multicast_check_device(m, err);
    if (rc != 0) {
        verbs_multicast_close(m);
        return rc;
    }
    *medium = m;
    return 0;
}

static size_t verbs_multicast_mtu(const struct medium *m) { return m->mtu; }

static struct medium_address verbs_multicast_address(const struct medium *m)
{
    struct medium_address a = {.family = MEDIUM_GID, .number = m->qp->qp_num};

    memcpy(a.address, &m->gid, sizeof(a.address));
    return a;
}

/* ---- queue pairs ---- */

static int verbs_multicast_set_state(struct medium *m, enum ibv_qp_state state, int mask)
{
    struct ibv_qp_attr attr = {
        .qp_state = state, .port_num = m->device.port, .qkey = m->group.number};
    const int rc = ibv_modify_qp(m->qp, &attr, IBV_QP_STATE | mask);

    return rc == 0 ? 0 : -rc;
}

/* Memory, a completion queue and a queue pair that receives, or also sends. `group` is set. */
static int verbs_multicast_make_queue(struct medium *m, bool sends, struct error *err)
{
    struct ibv_qp_init_attr init = {.cap = {.max_send_wr = sends ? SENDS : 1,
                                            .max_recv_wr = sends ? 1 : RECEIVES,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_UD};
    const size_t bytes = (size_t)RECEIVES * SLOT_BYTES;
    void *slot = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rc = 0;

    if (slot == MAP_FAILED)
        return error_set(err, -ENOMEM, "no memory for %zu bytes of packets", bytes);
    m->slot = slot;
    if ((m->pd = ibv_alloc_pd(m->device.process.ibv)) == NULL ||
        (m->mr = ibv_reg_mr(m->pd, slot, bytes, IBV_ACCESS_LOCAL_WRITE)) == NULL ||
        (!sends && (m->events = ibv_create_comp_channel(m->device.process.ibv)) == NULL) ||
        (m->cq = ibv_create_cq(m->device.process.ibv, sends ? SENDS : RECEIVES, NULL, m->events,
                               0)) == NULL)
        rc = -errno;
    init.send_cq = init.recv_cq = m->cq;
    if (rc == 0 && (m->qp = ibv_create_qp(m->pd, &init)) == NULL)
        rc = -errno;
    if (rc == 0 && !sends)
        rc = verbs_state_set_nonblocking(m->events->fd);
    if (rc == 0 && (rc = verbs_multicast_set_state(
                        m, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)) == 0)
        rc = verbs_multicast_set_state(m, IBV_QPS_RTR, 0);
    if (rc == 0 && sends)
        rc = verbs_multicast_set_state(m, IBV_QPS_RTS, IBV_QP_SQ_PSN);
    return rc == 0 ? 0
                   : error_set(err, rc, "%s: a queue pair of datagrams: %s%s", m->device.device,
                               strerror(-rc), limit_of(-rc));
}

/* ---- the writer ---- */

static struct medium_address verbs_multicast_group_of(uint64_t key)
{
    const uint64_t hash = hash_bytes(HASH_BASIS, &key, sizeof(key)); /* the key is not in it */
    const uint32_t address = htonl(GROUPS_LEAST | ((uint32_t)hash & GROUPS_MASK));
    struct medium_address group = {.family = MEDIUM_GID,
                                   .number = (uint32_t)(hash >> 32) & QKEY_MASK,
                                   .address = {[10] = 0xff, [11] = 0xff}};

    memcpy(group.address + 12, &address, sizeof(address));
    return group;
}

static int verbs_multicast_group(struct medium *m, uint64_t key, struct medium_address *group,
                                 struct error *err)
{
    struct ibv_ah_attr to = {.port_num = m->device.port, .is_global = 1};
    int rc;

    m->group = verbs_multicast_group_of(key);
    rc = verbs_multicast_make_queue(m, true, err);
    if (rc != 0)
        return rc;
    memcpy(&to.grh.dgid, m->group.address, sizeof(to.grh.dgid));
    to.grh.sgid_index = (uint8_t)m->gid_index;
    to.grh.hop_limit = 1; /* as the TTL of UDP here */
    m->ah = ibv_create_ah(m->pd, &to);
    if (m->ah == NULL)
        return error_set(err, -errno, "%s: ibv_create_ah: %s", m->device.device, strerror(errno));
    *group = m->group;
    return 0;
}

/* Slots whose messages have been sent are free. */
static void verbs_multicast_complete(struct medium *m)
{
    struct ibv_wc wc;

    while (ibv_poll_cq(m->cq, 1, &wc) > 0) {
        if (wc.status != IBV_WC_SUCCESS) {
            if (!m->broken)
                log_warn("%s sends no more packets of a cast: %s", m->device.device,
                         ibv_wc_status_str(wc.status));
            m->broken = true;
        }
        m->completed = wc.wr_id;
    }
}

static int verbs_multicast_flush(struct medium *m)
{
    struct ibv_send_wr *bad = NULL;
    int rc;

    if (m->queued == 0 || m->broken)
        return m->broken ? -EIO : 0;
    for (uint32_t i = 0; i < m->queued; i++) {
        m->send[i].next = i + 1 < m->queued ? &m->send[i + 1] : NULL;
        m->send[i].wr_id = m->posted + i + 1;
        m->send[i].send_flags = (m->posted + i + 1) % SEND_SIGNAL == 0 ? IBV_SEND_SIGNALED : 0;
    }
    rc = ibv_post_send(m->qp, m->send, &bad);
    m->broken = rc != 0;
    m->posted += m->queued;
    m->queued = 0;
    return rc == 0 ? 0 : -EIO;
}

static void verbs_multicast_send(struct medium *m, const struct medium_address *to,
                                 const void *head, size_t head_bytes, const void *payload,
                                 size_t bytes)
{
    uint32_t i;
    unsigned char *slot;

    if (m->posted + m->queued - m->completed == SENDS) {
        (void)verbs_multicast_flush(m);
        verbs_multicast_complete(m);
    }
    if (m->broken || m->posted + m->queued - m->completed == SENDS)
        return; /* the device is behind: lost */
    i = m->queued++;
    slot = m->slot + (m->posted + i) % SENDS * SLOT_BYTES;
    memcpy(slot, head, head_bytes);
    if (bytes > 0)
        memcpy(slot + head_bytes, payload, bytes);
    m->send_part[i] = (struct ibv_sge){
        .addr = (uintptr_t)slot, .length = (uint32_t)(head_bytes + bytes), .lkey = m->mr->lkey};
    m->send[i] = (struct ibv_send_wr){
        .sg_list = &m->send_part[i],
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .wr.ud = {.ah = m->ah, .remote_qpn = 0xffffff, .remote_qkey = to->number}};
}

/* ---- a reader ---- */

/* The interface of the device is a member of the group at the level of IP, as its frames need. */
static int verbs_multicast_join_interface(struct medium *m)
{
    struct ip_mreqn join = {.imr_address = m->device.here.in.sin_addr};

    memcpy(&join.imr_multiaddr, m->group.address + 12, 4);
    m->member_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return m->member_fd >= 0 &&
                   setsockopt(m->member_fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof(join)) == 0
               ? 0
               : -errno;
}

static void verbs_multicast_refill(struct medium *m)
{
    struct ibv_recv_wr wr[RECEIVES], *bad = wr;
    struct ibv_sge part[RECEIVES];
    uint32_t posted = m->nfree;

    if (m->nfree == 0 || m->broken)
        return;
    for (uint32_t i = 0; i < m->nfree; i++) {
        part[i] = (struct ibv_sge){.addr = (uintptr_t)(m->slot + m->free[i] * SLOT_BYTES),
                                   .length = SLOT_BYTES,
                                   .lkey = m->mr->lkey};
        wr[i] = (struct ibv_recv_wr){.wr_id = m->free[i],
                                     .next = i + 1 < m->nfree ? &wr[i + 1] : NULL,
                                     .sg_list = &part[i],
                                     .num_sge = 1};
    }
    if (ibv_post_recv(m->qp, wr, &bad) != 0) /* no more than fit */
        posted = (uint32_t)(bad - wr);       /* the others are for a later call */
    m->nfree -= posted;
    memmove(m->free, m->free + posted, m->nfree * sizeof(m->free[0]));
}

static int verbs_multicast_join(struct medium *m, const struct medium_address *group,
                                struct error *err)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    union ibv_gid gid;
    int rc;

    if (group->family != MEDIUM_GID || memcmp(group->address, mapped, sizeof(mapped)) != 0 ||
        group->address[12] >> 4 != 0xe)
        return error_set(err, -EPROTO, "the group is none of RoCE and IPv4");
    m->group = *group;
    m->group.number &= QKEY_MASK;
    rc = verbs_multicast_make_queue(m, false, err);
    if (rc != 0)
        return rc;
    for (m->nfree = 0; m->nfree < RECEIVES; m->nfree++)
        m->free[m->nfree] = m->nfree;
    verbs_multicast_refill(m);
    rc = verbs_multicast_join_interface(m);
    if (rc != 0)
        return error_set(err, rc, "joining a multicast group: %s%s", strerror(-rc), limit_of(-rc));
    memcpy(&gid, m->group.address, sizeof(gid));
    rc = ibv_attach_mcast(m->qp, &gid, 0);
    m->attached = rc == 0;
    return rc == 0
               ? 0
               : error_set(err, -rc, "%s: ibv_attach_mcast: %s", m->device.device, strerror(rc));
}

/* The sender of a datagram. false: it has no head that names it. */
static bool verbs_multicast_sender(const unsigned char *grh, const struct ibv_wc *wc,
                                   struct medium_address *from)
{
    *from = (struct medium_address){.family = MEDIUM_GID, .number = wc->src_qp};
    if ((wc->wc_flags & IBV_WC_GRH) == 0)
        return false;
    if (grh[20] == 0x45) { /* a head of IPv4 in bytes 20 to 39; what is before it is undefined */
        from->address[10] = from->address[11] = 0xff;
        memcpy(from->address + 12, grh + 32, 4);
        return true;
    }
    memcpy(from->address, grh + 8, 16); /* a GRH, or a head of IPv6, which has the same form */
    return grh[0] >> 4 == 6;
}

/* The queue is empty: its next completion causes an event. true: one may have come meanwhile. */
static bool verbs_multicast_arm(struct medium *m)
{
    struct ibv_cq *cq;
    void *context;

    while (ibv_get_cq_event(m->events, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        m->armed = false;
    }
    if (m->armed)
        return false;
    m->armed = ibv_req_notify_cq(m->cq, 0) == 0;
    return true;
}

static int verbs_multicast_receive(struct medium *m, const void **packet,
                                   struct medium_address *from, bool *by_group)
{
    struct ibv_wc wc;
    int n;

    if (m->qp == NULL || m->events == NULL)
        return -EAGAIN;
    if (m->nfree >= RECEIVE_REFILL)
        verbs_multicast_refill(m);
    n = ibv_poll_cq(m->cq, 1, &wc);
    if (n == 0 && verbs_multicast_arm(m))
        n = ibv_poll_cq(m->cq, 1, &wc);
    if (n <= 0)
        return -EAGAIN;
    if (wc.status != IBV_WC_SUCCESS) {
        if (!m->broken)
            log_warn("%s receives no more packets of a cast: %s", m->device.device,
                     ibv_wc_status_str(wc.status));
        m->broken = true;
    }
    m->free[m->nfree++] = (uint32_t)wc.wr_id; /* posted again by a later call */
    *by_group = true;
    *packet = m->slot + wc.wr_id * SLOT_BYTES + GRH_BYTES;
    if (wc.status != IBV_WC_SUCCESS || wc.byte_len < GRH_BYTES ||
        !verbs_multicast_sender(m->slot + wc.wr_id * SLOT_BYTES, &wc, from))
        return 0; /* malformed */
    return (int)(wc.byte_len - GRH_BYTES);
}

static int verbs_multicast_fd(const struct medium *m, int which)
{
    return which == 1 && m->events != NULL ? m->events->fd : -1;
}

MODULE_EXPORT extern const struct medium_ops medium_verbs_ops;
MODULE_EXPORT const struct medium_ops medium_verbs_ops = {
    .version = MEDIUM_VERSION,
    .name = "verbs",
    .open = verbs_multicast_open,
    .close = verbs_multicast_close,
    .address = verbs_multicast_address,
    .mtu = verbs_multicast_mtu,
    .group = verbs_multicast_group,
    .join = verbs_multicast_join,
    .send = verbs_multicast_send,
    .flush = verbs_multicast_flush,
    .receive = verbs_multicast_receive,
    .fd = verbs_multicast_fd,
};
