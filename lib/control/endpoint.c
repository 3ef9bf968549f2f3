/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint.c: see endpoint.h. */
#include "control/endpoint.h"

#include "util/fork_fds.h"
#include "util/limit.h"
#include "util/received_fd.h"
#include "util/received_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096
/* The kernel's keep-alive counts in seconds, and rests while data is in flight. It is for
 * connections that others opened; a rank checks its own ones itself (peer_check_host).
 * TCP_USER_TIMEOUT would also end connections to a process that is stopped. */
#define KEEP_COUNT 3

union any_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static socklen_t endpoint_unix_address(const uint8_t *name, size_t bytes,
                                       struct sockaddr_un *address)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, bytes);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
}

int endpoint_listen_unix(struct card *card, struct error *err)
{
    static const char hex[] = "0123456789abcdef", prefix[] = "rmalloc";
    struct sockaddr_un address;
    uint8_t random[16], *name = card->unix_name;
    socklen_t length;
    size_t bytes = 0, i;
    int fd = -1, result;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        goto failed;
    name[bytes++] = 0;
    for (i = 0; i < sizeof(prefix) - 1; i++)
        name[bytes++] = (uint8_t)prefix[i];
    for (i = 0; i < sizeof(random); i++) {
        name[bytes++] = (uint8_t)hex[random[i] >> 4];
        name[bytes++] = (uint8_t)hex[random[i] & 15];
    }
    length = endpoint_unix_address(name, bytes, &address);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) /* until a connection is authenticated, see greeting.c */
        (void)received_refuse(fd, true);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, BACKLOG) != 0)
        goto failed;
    card->unix_bytes = (uint8_t)bytes;
    fork_fds_add(fd);
    return fd;

failed:
    result = -errno;
    error_note(err, "the Unix socket of the control network: %s%s", strerror(errno),
               limit_of(errno));
    if (fd >= 0)
        close(fd);
    return result;
}

static bool endpoint_address_add(struct card *card, const struct sockaddr *a)
{
    struct card_address *to = &card->address[card->addresses];

    if (card->addresses == CARD_ADDRESSES)
        return false;
    if (a->sa_family == AF_INET) {
        to->family = 4;
        memcpy(to->bytes, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    } else {
        to->family = 6;
        memcpy(to->bytes, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16);
    }
    card->addresses++;
    return true;
}

static bool endpoint_is_link_local(const struct sockaddr *a)
{
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* The addresses to offer: those of `interface` (a name, or an address in text), or all. Loopback
 * last, if at all. */
static int endpoint_collect_addresses(struct card *card, const char *interface, struct error *err)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *list, *at;
    char text[INET6_ADDRSTRLEN];
    int loopback, f;

    if (getifaddrs(&list) != 0)
        return error_set(err, -errno, "the network interfaces of this host: %s", strerror(errno));
    for (loopback = 0; loopback < 2; loopback++) {
        for (f = 0; f < 2; f++) {
            for (at = list; at != NULL; at = at->ifa_next) {
                const void *raw;

                if (at->ifa_addr == NULL || at->ifa_addr->sa_family != families[f] ||
                    (at->ifa_flags & IFF_UP) == 0 ||
                    ((at->ifa_flags & IFF_LOOPBACK) != 0) != loopback ||
                    endpoint_is_link_local(at->ifa_addr))
                    continue;
                raw = f == 0
                          ? (const void *)&((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr
                          : (const void *)&((struct sockaddr_in6 *)(void *)at->ifa_addr)->sin6_addr;
                inet_ntop(families[f], raw, text, sizeof(text));
                if (*interface == '\0' || strcmp(interface, at->ifa_name) == 0 ||
                    strcmp(interface, text) == 0)
                    endpoint_address_add(card, at->ifa_addr);
            }
        }
    }
    freeifaddrs(list);
    if (card->addresses > 0)
        return 0;
    return error_set(err, -EADDRNOTAVAIL,
                     *interface != '\0' ? "RPIPE_INTERFACE is \"%s\", but no interface of this "
                                          "host that is up has "
                                          "this name or address"
                                        : "no network interface of this host has an address%s",
                     interface);
}

static socklen_t endpoint_card_to_socket(const struct card_address *a, uint16_t port,
                                         union any_address *to)
{
    memset(to, 0, sizeof(*to));
    if (a->family == 4) {
        to->four.sin_family = AF_INET;
        to->four.sin_port = htons(port);
        memcpy(&to->four.sin_addr, a->bytes, 4);
        return sizeof(to->four);
    }
    to->six.sin6_family = AF_INET6;
    to->six.sin6_port = htons(port);
    memcpy(&to->six.sin6_addr, a->bytes, 16);
    return sizeof(to->six);
}

int endpoint_listen_tcp(struct card *card, const char *interface, struct error *err)
{
    const struct card_address any_six = {.family = 6}, any_four = {.family = 4};
    union any_address address;
    socklen_t length;
    int result = endpoint_collect_addresses(card, interface, err), zero = 0, fd = -1, i;

    if (result != 0)
        return result;
    if (*interface != '\0')
        card->addresses = 1;
    /* both families by one socket; where there is no IPv6, IPv4 alone */
    for (i = 0; i < 2 && fd < 0; i++) {
        const struct card_address *a = *interface != '\0' ? &card->address[0]
                                       : i == 0           ? &any_six
                                                          : &any_four;

        length = endpoint_card_to_socket(a, 0, &address);
        fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            continue;
        if (address.any.sa_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
        if (bind(fd, &address.any, length) != 0 || listen(fd, BACKLOG) != 0) {
            result = -errno;
            close(fd);
            fd = -1;
            errno = -result;
        }
    }
    length = sizeof(address);
    if (fd < 0 || getsockname(fd, &address.any, &length) != 0) {
        result = -errno;
        error_note(err, "the TCP socket of the control network: %s%s", strerror(errno),
                   limit_of(errno));
        if (fd >= 0)
            close(fd);
        return result;
    }
    card->tcp_port =
        ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port : address.four.sin_port);
    fork_fds_add(fd);
    return fd;
}

static int endpoint_dial(int family, const struct sockaddr *address, socklen_t length, bool *done)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), result;

    if (fd < 0)
        return -errno;
    if (family == AF_UNIX) { /* until it is clear which process listens, see peer_dial.c */
        (void)received_refuse(fd, true);
        received_in_order(fd);
    }
    *done = connect(fd, address, length) == 0;
    if (*done || errno == EINPROGRESS) {
        fork_fds_add(fd);
        if (family == AF_UNIX)
            received_fd_set_source(fd, RECEIVED_UNAUTHENTICATED);
        return fd;
    }
    result = -errno;
    close(fd);
    return result;
}

int endpoint_dial_unix(const struct card *card, bool *done)
{
    struct sockaddr_un address;
    socklen_t length = endpoint_unix_address(card->unix_name, card->unix_bytes, &address);

    return endpoint_dial(AF_UNIX, (struct sockaddr *)&address, length, done);
}

bool endpoint_same_user(int fd, pid_t *pid)
{
    struct ucred other;
    socklen_t bytes = sizeof(other);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) != 0 || other.uid != geteuid())
        return false;
    *pid = other.pid;
    return true;
}

int endpoint_dial_tcp(const struct card *card, unsigned i, bool *done)
{
    union any_address address;
    socklen_t length = endpoint_card_to_socket(&card->address[i], card->tcp_port, &address);

    return endpoint_dial(address.any.sa_family, &address.any, length, done);
}

static int endpoint_seconds(long ms) { return ms < 1000 ? 1 : (int)(ms / 1000); }

void endpoint_tune_tcp(int fd, long keepalive_ms)
{
    int one = 1, idle = endpoint_seconds(keepalive_ms / 2),
        interval = endpoint_seconds(keepalive_ms / 5), count = KEEP_COUNT;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

void endpoint_tcp_pulse(int fd, struct endpoint_pulse *pulse)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof(info);
    int unacknowledged = 0;

    *pulse = (struct endpoint_pulse){.idle = true};
    if (ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return;
    pulse->idle = unacknowledged == 0;
    pulse->quiet_ms = info.tcpi_last_ack_recv < info.tcpi_last_data_recv ? info.tcpi_last_ack_recv
                                                                         : info.tcpi_last_data_recv;
    /* A stopped process's kernel answers, also when its buffer is full: then neither of the two
     * grows. */
    pulse->tries =
        info.tcpi_retransmits > info.tcpi_probes ? info.tcpi_retransmits : info.tcpi_probes;
}

void endpoint_print(const struct card *card, unsigned i, char *text, size_t bytes)
{
    char address[INET6_ADDRSTRLEN] = "?";
    bool six = card->address[i].family == 6;

    inet_ntop(six ? AF_INET6 : AF_INET, card->address[i].bytes, address, sizeof(address));
    snprintf(text, bytes, six ? "[%s]:%u" : "%s:%u", address, card->tcp_port);
}
