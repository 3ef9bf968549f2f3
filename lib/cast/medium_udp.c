/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * medium_udp.c: UDP and IP multicast, see medium.h.
 *
 * Each end has a socket at its own address, which sends, and receives what is sent to it alone. A member of a group has a second one,
 * bound to the address of the group, so that nothing else arrives there; several members of a host may have it, and each of them gets each
 * packet. Both use the interface of the rank's address, which is that of the control network, packets do not pass routers (TTL 1), and
 * return to other members of the sending host. Groups are of IPv4: between addresses of IPv6 packets are sent to each member.
 */
#include "cast/medium.h"

#include "util/fork_fds.h"
#include "util/hash.h"
#include "util/limit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define UDP_BUFFER (1 << 20)   /* of a socket, asked for; a window needs some 150 KiB */
#define UDP_GROUPS 0xefc00000u /* 239.192.0.0/14: of an organization (RFC 2365) */
#define UDP_GROUPS_MASK 0x3ffffu
#define UDP_PORT_LEAST 49152u /* dynamic ports */

struct medium {
    int fd, group_fd; /* -1: none */
    struct medium_address own;
    size_t mtu;
};

union udp_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* ---- addresses ---- */

static socklen_t udp_to_system(union udp_address *to, const struct medium_address *a)
{
    memset(to, 0, sizeof(*to));
    if (a->family == 4) {
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
        to->family = 4;
        to->port = ntohs(a->four.sin_port);
        memcpy(to->address, &a->four.sin_addr, 4);
    } else {
        to->family = 6;
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
        a->family = 4;
    else if (inet_pton(AF_INET6, text, a->address) == 1)
        a->family = 6;
    return a->family != 0 ? 0 : -EINVAL;
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

    if (m->own.family != 4)
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
    const size_t heads = (m->own.family == 4 ? 20 : 40) + 8; /* of IP and UDP */
    struct ifaddrs *list, *at;
    struct medium_address a;
    struct ifreq query;
    size_t mtu = MEDIUM_PACKET_MOST;

    if (getifaddrs(&list) != 0)
        return MEDIUM_PACKET_MOST;
    for (at = list; at != NULL; at = at->ifa_next) {
        if (at->ifa_addr == NULL ||
            at->ifa_addr->sa_family != (m->own.family == 4 ? AF_INET : AF_INET6))
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

static int udp_open(struct medium **medium, const char *own, struct error *err)
{
    struct medium *m = calloc(1, sizeof(*m));
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

static struct medium_address udp_group(const struct medium *m, uint64_t key)
{
    const uint64_t hash = hash_bytes(HASH_BASIS, &key, sizeof(key)); /* the key is not in it */
    const uint32_t address = htonl(UDP_GROUPS | ((uint32_t)hash & UDP_GROUPS_MASK));
    struct medium_address group = {0};

    if (m->own.family != 4)
        return group;
    group.family = 4;
    group.port = (uint16_t)(UDP_PORT_LEAST + (hash >> 32) % (65536 - UDP_PORT_LEAST));
    memcpy(group.address, &address, sizeof(address));
    return group;
}

static int udp_join(struct medium *m, const struct medium_address *group, struct error *err)
{
    struct medium_address at = *group;
    struct ip_mreqn join = {.imr_ifindex = 0};
    const int off = 0;
    int rc;

    memcpy(&join.imr_multiaddr, group->address, 4);
    memcpy(&join.imr_address, m->own.address, 4);
    if (group->family != 4 || m->own.family != 4 || !IN_MULTICAST(ntohl(join.imr_multiaddr.s_addr)))
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

static void udp_send(struct medium *m, const struct medium_address *to, const struct nak_head *head,
                     const void *payload)
{
    union udp_address address;
    struct iovec part[2] = {{(void *)head, sizeof(*head)}, {(void *)payload, head->bytes}};
    struct msghdr message = {.msg_name = &address,
                             .msg_namelen = udp_to_system(&address, to),
                             .msg_iov = part,
                             .msg_iovlen = head->bytes > 0 ? 2 : 1};

    (void)sendmsg(m->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int udp_receive_at(int fd, void *packet, size_t room, struct medium_address *from)
{
    union udp_address address;
    socklen_t length = sizeof(address);
    ssize_t n;

    if (fd < 0)
        return -EAGAIN;
    do /* an error that a packet sent before has caused, as ECONNREFUSED, is reported once */
        n = recvfrom(fd, packet, room, MSG_DONTWAIT | MSG_TRUNC, &address.any, &length);
    while (n < 0 && errno != EAGAIN && errno != EBADF && errno != ENOMEM);
    if (n < 0)
        return -EAGAIN;
    udp_from_system(from, &address);
    return (size_t)n > room ? 0 : (int)n; /* longer than any packet: malformed */
}

static int udp_receive(struct medium *m, void *packet, size_t room, struct medium_address *from,
                       bool *by_group)
{
    int n = udp_receive_at(m->group_fd, packet, room, from);

    *by_group = n >= 0;
    return n >= 0 ? n : udp_receive_at(m->fd, packet, room, from);
}

static int udp_fd(const struct medium *m, int which) { return which == 0 ? m->fd : m->group_fd; }

const struct medium_ops medium_udp_ops = {
    .name = "udp",
    .open = udp_open,
    .close = udp_close,
    .address = udp_own_address,
    .mtu = udp_mtu,
    .group = udp_group,
    .join = udp_join,
    .send = udp_send,
    .receive = udp_receive,
    .fd = udp_fd,
};
