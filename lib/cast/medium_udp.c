/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * medium_udp.c: UDP and IP multicast, see btl/medium.h.
 *
 * Each end has a socket at its own address, which sends, and receives what is sent to it alone. A member of a group has a second one,
 * bound to the address of the group, so that nothing else arrives there; several members of a host may have it, and each of them gets each
 * packet. Both use the interface of the rank's address, which is that of the control network, packets do not pass routers (TTL 1), and
 * return to other members of the sending host. Groups are of IPv4: between addresses of IPv6 packets are sent to each member.
 *
 * Up to UDP_BATCH packets cross in one system call: those to send are queued until `flush`, those of a socket are received together.
 */
#include "cast/medium_udp.h"

#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/hash.h"
#include "util/limit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define UDP_BUFFER (1 << 20)   /* of a socket, asked for; a window needs some 150 KiB */
#define UDP_GROUPS 0xefc00000u /* 239.192.0.0/14: of an organization (RFC 2365) */
#define UDP_GROUPS_MASK 0x3ffffu
#define UDP_PORT_LEAST 49152u /* dynamic ports */
#define UDP_BATCH 32u

union udp_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

struct udp_out { /* a packet to send */
    union udp_address to;
    struct iovec part[2];
    alignas(8) unsigned char head[MEDIUM_HEAD_MOST];
};

struct udp_in { /* a packet that was received */
    alignas(8) unsigned char packet[MEDIUM_PACKET_MOST];
    union udp_address from;
    struct iovec part;
};

struct medium {
    int fd, group_fd; /* -1: none */
    struct medium_address own;
    size_t mtu;
    unsigned queued;        /* of `out`, not sent yet */
    unsigned taken, filled; /* of `in`: given to the caller, received */
    bool of_group;          /* they are of the socket of the group */
    struct udp_out out[UDP_BATCH];
    struct udp_in in[UDP_BATCH];
    struct mmsghdr outs[UDP_BATCH], ins[UDP_BATCH];
};

/* ---- addresses ---- */

static socklen_t udp_to_system(union udp_address *to, const struct medium_address *a)
{
    memset(to, 0, sizeof(*to));
    if (a->family == MEDIUM_IPV4) {
        to->four.sin_family = AF_INET;
        to->four.sin_port = htons(a->port);
        memcpy(&to->four.sin_addr, a->address, 4);
        return sizeof(to->four);
    }
    to->six.sin6_family = AF_INET6;
    to->six.sin6_port = htons(a->port);
    memcpy(&to->six.sin6_addr, a->address, 16);
    return sizeof(to->six);
}

static void udp_from_system(struct medium_address *to, const union udp_address *a)
{
    memset(to, 0, sizeof(*to));
    if (a->any.sa_family == AF_INET) {
        to->family = MEDIUM_IPV4;
        to->port = ntohs(a->four.sin_port);
        memcpy(to->address, &a->four.sin_addr, 4);
    } else {
        to->family = MEDIUM_IPV6;
        to->port = ntohs(a->six.sin6_port);
        memcpy(to->address, &a->six.sin6_addr, 16);
    }
}

static int udp_parse(const char *text, struct medium_address *a)
{
    memset(a, 0, sizeof(*a));
    if (*text == '\0')
        text = "127.0.0.1";
    if (inet_pton(AF_INET, text, a->address) == 1)
        a->family = MEDIUM_IPV4;
    else if (inet_pton(AF_INET6, text, a->address) == 1)
        a->family = MEDIUM_IPV6;
    return a->family != MEDIUM_NONE ? 0 : -EINVAL;
}

/* ---- sockets ---- */

/* A socket that is bound to this address, or -errno. */
static int udp_bind(struct medium_address *a, bool shared)
{
    const int on = 1, bytes = UDP_BUFFER;
    union udp_address address;
    socklen_t length = udp_to_system(&address, a);
    int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

    if (fd < 0)
        return -errno;
    fork_fds_add(fd);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    if ((!shared || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0) &&
        bind(fd, &address.any, length) == 0 && getsockname(fd, &address.any, &length) == 0) {
        udp_from_system(a, &address);
        return fd;
    }
    rc = -errno;
    fork_fds_close(fd);
    return rc;
}

/* What is sent to groups leaves by the interface of the own address. */
static int udp_set_interface(const struct medium *m)
{
    const unsigned char ttl = 1, loop = 1;
    struct in_addr own;

    if (m->own.family != MEDIUM_IPV4)
        return 0;
    memcpy(&own, m->own.address, sizeof(own));
    return setsockopt(m->fd, IPPROTO_IP, IP_MULTICAST_IF, &own, sizeof(own)) == 0 &&
                   setsockopt(m->fd, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof(ttl)) == 0 &&
                   setsockopt(m->fd, IPPROTO_IP, IP_MULTICAST_LOOP, &loop, sizeof(loop)) == 0
               ? 0
               : -errno;
}

static void udp_close(struct medium *m)
{
    if (m->fd >= 0)
        fork_fds_close(m->fd);
    if (m->group_fd >= 0)
        fork_fds_close(m->group_fd);
    free(m);
}

/* The largest packet that the interface of the own address carries in one frame. */
static size_t udp_find_mtu(const struct medium *m)
{
    const size_t heads = (m->own.family == MEDIUM_IPV4 ? 20 : 40) + 8; /* of IP and UDP */
    struct ifaddrs *list, *at;
    struct medium_address a;
    struct ifreq query;
    size_t mtu = MEDIUM_PACKET_MOST;

    if (getifaddrs(&list) != 0)
        return MEDIUM_PACKET_MOST;
    for (at = list; at != NULL; at = at->ifa_next) {
        if (at->ifa_addr == NULL ||
            at->ifa_addr->sa_family != (m->own.family == MEDIUM_IPV4 ? AF_INET : AF_INET6))
            continue;
        udp_from_system(&a, (const union udp_address *)(const void *)at->ifa_addr);
        if (memcmp(a.address, m->own.address, sizeof(a.address)) != 0)
            continue;
        memset(&query, 0, sizeof(query));
        strncpy(query.ifr_name, at->ifa_name, sizeof(query.ifr_name) - 1);
        if (ioctl(m->fd, SIOCGIFMTU, &query) == 0 && (size_t)query.ifr_mtu - heads < mtu)
            mtu = (size_t)query.ifr_mtu - heads;
    }
    freeifaddrs(list);
    return mtu;
}

static int udp_open(struct medium **medium, const struct medium_host *host, struct error *err)
{
    struct medium *m = calloc(1, sizeof(*m));
    const char *own = host->address;
    int rc;

    if (m == NULL)
        return error_set(err, -ENOMEM, "no memory for a socket");
    m->fd = m->group_fd = -1;
    rc = udp_parse(own, &m->own);
    if (rc == 0)
        rc = m->fd = udp_bind(&m->own, false);
    if (rc >= 0)
        rc = udp_set_interface(m);
    if (rc < 0) {
        udp_close(m);
        return error_set(err, rc, "no UDP socket at the address of this rank, \"%s\": %s%s", own,
                         strerror(-rc), limit_of(-rc));
    }
    m->mtu = udp_find_mtu(m);
    *medium = m;
    return 0;
}

static struct medium_address udp_own_address(const struct medium *m) { return m->own; }

static size_t udp_mtu(const struct medium *m) { return m->mtu; }

/* ---- groups ---- */

static int udp_group(struct medium *m, uint64_t key, struct medium_address *group,
                     struct error *err)
{
    const uint64_t hash = hash_bytes(HASH_BASIS, &key, sizeof(key)); /* the key is not in it */
    const uint32_t address = htonl(UDP_GROUPS | ((uint32_t)hash & UDP_GROUPS_MASK));

    if (m->own.family != MEDIUM_IPV4)
        return error_set(err, -EAFNOSUPPORT, "there are no groups of this address family");
    memset(group, 0, sizeof(*group));
    group->family = MEDIUM_IPV4;
    group->port = (uint16_t)(UDP_PORT_LEAST + (hash >> 32) % (65536 - UDP_PORT_LEAST));
    memcpy(group->address, &address, sizeof(address));
    return 0;
}

static int udp_join(struct medium *m, const struct medium_address *group, struct error *err)
{
    struct medium_address at = *group;
    struct ip_mreqn join = {.imr_ifindex = 0};
    const int off = 0;
    int rc;

    memcpy(&join.imr_multiaddr, group->address, 4);
    memcpy(&join.imr_address, m->own.address, 4);
    if (group->family != MEDIUM_IPV4 || m->own.family != MEDIUM_IPV4 ||
        !IN_MULTICAST(ntohl(join.imr_multiaddr.s_addr)))
        return error_set(err, -EAFNOSUPPORT, "there are no groups of this address family");
    rc = m->group_fd = udp_bind(&at, true);
    /* IP_MULTICAST_ALL: only what this socket has joined, not what any socket of the host has */
    if (rc >= 0)
        rc =
            setsockopt(m->group_fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)) == 0 &&
                    setsockopt(m->group_fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof(join)) == 0
                ? 0
                : -errno;
    if (rc == 0)
        return 0;
    if (m->group_fd >= 0)
        fork_fds_close(m->group_fd);
    m->group_fd = -1;
    return error_set(err, rc, "joining a multicast group: %s%s", strerror(-rc), limit_of(-rc));
}

/* ---- packets ---- */

/* A packet that the kernel refuses is lost, and those behind it are not. */
static int udp_flush(struct medium *m)
{
    for (unsigned sent = 0; sent < m->queued;) {
        const int n =
            sendmmsg(m->fd, m->outs + sent, m->queued - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        RPIPE_FAILPOINT("net: rcast: packets sent");
        sent += n > 0 ? (unsigned)n : 1;
    }
    m->queued = 0;
    return 0;
}

static void udp_send(struct medium *m, const struct medium_address *to, const void *head,
                     size_t head_bytes, const void *payload, size_t bytes)
{
    struct udp_out *o;

    if (m->queued == UDP_BATCH)
        (void)udp_flush(m);
    o = &m->out[m->queued];
    memcpy(o->head, head, head_bytes);
    o->part[0] = (struct iovec){o->head, head_bytes};
    o->part[1] = (struct iovec){(void *)payload, bytes};
    m->outs[m->queued++].msg_hdr = (struct msghdr){.msg_name = &o->to,
                                                   .msg_namelen = udp_to_system(&o->to, to),
                                                   .msg_iov = o->part,
                                                   .msg_iovlen = bytes > 0 ? 2 : 1};
}

/* Fills `in` from a socket. Returns how many. */
static unsigned udp_receive_at(struct medium *m, int fd)
{
    int n;

    if (fd < 0)
        return 0;
    for (unsigned i = 0; i < UDP_BATCH; i++) {
        m->in[i].part = (struct iovec){m->in[i].packet, sizeof(m->in[i].packet)};
        m->ins[i].msg_hdr = (struct msghdr){.msg_name = &m->in[i].from,
                                            .msg_namelen = sizeof(m->in[i].from),
                                            .msg_iov = &m->in[i].part,
                                            .msg_iovlen = 1};
    }
    do /* an error that a packet sent before has caused, as ECONNREFUSED, is reported once */
        n = recvmmsg(fd, m->ins, UDP_BATCH, MSG_DONTWAIT, NULL);
    while (n < 0 && errno != EAGAIN && errno != EBADF && errno != ENOMEM);
    return n > 0 ? (unsigned)n : 0;
}

static bool udp_fill(struct medium *m)
{
    m->taken = 0;
    m->of_group = true;
    m->filled = udp_receive_at(m, m->group_fd);
    if (m->filled == 0) {
        m->of_group = false;
        m->filled = udp_receive_at(m, m->fd);
    }
    return m->filled > 0;
}

static int udp_receive(struct medium *m, const void **packet, struct medium_address *from,
                       bool *by_group)
{
    const struct mmsghdr *in;

    if (m->taken == m->filled && !udp_fill(m))
        return -EAGAIN;
    in = &m->ins[m->taken];
    *packet = m->in[m->taken].packet;
    udp_from_system(from, &m->in[m->taken++].from);
    *by_group = m->of_group;
    return (in->msg_hdr.msg_flags & MSG_TRUNC) != 0 ? 0 /* longer than any packet: malformed */
                                                    : (int)in->msg_len;
}

static int udp_fd(const struct medium *m, int which) { return which == 0 ? m->fd : m->group_fd; }

const struct medium_ops medium_udp_ops = {
    .version = MEDIUM_VERSION,
    .name = "udp",
    .open = udp_open,
    .close = udp_close,
    .address = udp_own_address,
    .mtu = udp_mtu,
    .group = udp_group,
    .join = udp_join,
    .send = udp_send,
    .flush = udp_flush,
    .receive = udp_receive,
    .fd = udp_fd,
};
