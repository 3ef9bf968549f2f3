/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_parts_sockets.c: what the messages of a pipe over tcp take without the library: one plain TCP connection between the two
 * ranks, which are on one host. See perf_parts.h.
 *
 * TCP_NODELAY, buffers as the kernel sizes them. Both ranks call send(2) and recv(2) again and again instead of sleeping. Calls are
 * measured by rank 0, as perf_parts_network does those of a pipe: the one that sends, and the one that finds the answer.
 */
#include "perf_parts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKETS_MOST 66000  /* bytes of a message with what the library adds */
#define SOCKETS_CALL 4096u  /* bytes that short messages of a stream are gathered to */
#define SOCKETS_REQUEST 24u /* bytes of a request to fetch */
#define SOCKETS_PAUSE                                                                              \
    20000.0 /* ns in which an answer is there for sure, beside three times a round trip */

static char sockets_bytes[SOCKETS_MOST];

static void sockets_must(bool holds, const char *call)
{
    if (__builtin_expect(!holds, 0))
        perf_fail(NULL, call, -errno);
}

/* ---- the connection: a port and a cookie for rank 1, by the control network ---- */

struct sockets_card {
    struct sockaddr_in at;
    uint64_t cookie;
};

static int sockets_accept(void)
{
    struct sockets_card card = {
        .at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(card.at);
    int fd = -1, listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t cookie = 0;

    sockets_must(listening >= 0 &&
                     bind(listening, (struct sockaddr *)&card.at, sizeof(card.at)) == 0 &&
                     listen(listening, 1) == 0 &&
                     getsockname(listening, (struct sockaddr *)&card.at, &bytes) == 0 &&
                     getrandom(&card.cookie, sizeof(card.cookie), 0) == sizeof(card.cookie),
                 "a listening socket");
    parts_must(network_send(1, &card, sizeof(card)), NULL, "network_send");
    while (cookie != card.cookie) { /* another process may have found the port */
        if (fd >= 0)
            close(fd);
        fd = accept(listening, NULL, NULL);
        sockets_must(fd >= 0, "accept");
        if (recv(fd, &cookie, sizeof(cookie), MSG_WAITALL) != sizeof(cookie))
            cookie = ~card.cookie;
    }
    close(listening);
    return fd;
}

static int sockets_connect(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockets_card card;

    parts_must(network_recv(0, &card, sizeof(card)), NULL, "network_recv");
    sockets_must(fd >= 0 && connect(fd, (struct sockaddr *)&card.at, sizeof(card.at)) == 0 &&
                     send(fd, &card.cookie, sizeof(card.cookie), MSG_NOSIGNAL) ==
                         sizeof(card.cookie),
                 "connect");
    return fd;
}

int parts_sockets_open(const struct parts *p)
{
    const int one = 1, fd = p->rank == 0 ? sockets_accept() : sockets_connect();

    sockets_must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0 &&
                     fcntl(fd, F_SETFL, O_NONBLOCK) == 0,
                 "a connection");
    return fd;
}

/* ---- messages ---- */

static bool sockets_later(void) { return errno == EAGAIN || errno == EINTR; }

static void sockets_send(int fd, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t n = send(fd, sockets_bytes + sent, bytes - sent, MSG_NOSIGNAL);

        sockets_must(n >= 0 || sockets_later(), "send");
        sent += n > 0 ? (size_t)n : 0;
    }
}

static void sockets_receive(int fd, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        const ssize_t n = recv(fd, sockets_bytes, bytes - got, 0);

        sockets_must(n > 0 || (n < 0 && sockets_later()), "recv");
        got += n > 0 ? (size_t)n : 0;
    }
}

/* One way, or of a request and its answer half of both. */
static double sockets_trip(const struct parts *p, int fd, size_t there, size_t back)
{
    const double began = perf_now_ns();

    if (p->rank == 0)
        sockets_send(fd, there);
    sockets_receive(fd, p->rank == 0 ? back : there);
    if (p->rank != 0)
        sockets_send(fd, back);
    return (perf_now_ns() - began - p->clock) / 2;
}

static double sockets_stream(const struct parts *p, int fd, size_t bytes, long messages)
{
    const size_t all = bytes * (size_t)messages;
    const size_t call = bytes < SOCKETS_CALL ? SOCKETS_CALL / bytes * bytes : bytes;
    const double began = perf_now_ns();

    for (size_t sent = 0; sent < all && p->rank == 0; sent += call)
        sockets_send(fd, all - sent < call ? all - sent : call);
    if (p->rank == 0)
        sockets_receive(fd, 1);
    for (size_t got = 0, n; got < all && p->rank != 0; got += n) {
        n = all - got < SOCKETS_MOST ? all - got : SOCKETS_MOST;
        sockets_receive(fd, n);
    }
    if (p->rank != 0)
        sockets_send(fd, 1);
    return (perf_now_ns() - began - p->clock) / (double)messages;
}

static int sockets_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double sockets_median(double *sample, int samples)
{
    qsort(sample, (size_t)samples, sizeof(*sample), sockets_by_value);
    return sample[samples / 2];
}

/* When the call began that found the message, or the first bytes of it. */
static double sockets_receive_timed(int fd, size_t bytes)
{
    double began;
    ssize_t n;

    do {
        began = perf_now_ns();
        n = recv(fd, sockets_bytes, bytes, 0);
    } while (n < 0 && sockets_later());
    sockets_must(n > 0, "recv");
    sockets_receive(fd, bytes - (size_t)n);
    return began;
}

/* Rank 0: what the two calls take: in a ping-pong; of a message that arrives in parts when all of it is there. */
static void sockets_calls(const struct parts *p, int fd, size_t bytes, double pause,
                          struct parts_bare *bare)
{
    static double post[PARTS_SAMPLES], completion[PARTS_SAMPLES];

    for (int i = 0; i < p->rounds; i++) {
        double before = perf_now_ns();

        if (p->rank != 0) {
            sockets_receive(fd, bytes);
            sockets_send(fd, bytes);
            continue;
        }
        sockets_send(fd, bytes);
        post[i] = parts_lap(p, &before);
        while (bytes > PARTS_WHOLE && perf_now_ns() - before < pause)
            continue;
        before = sockets_receive_timed(fd, bytes);
        completion[i] = parts_lap(p, &before);
    }
    if (p->rank != 0)
        return;
    bare->post = sockets_median(post, p->rounds);
    bare->completion = sockets_median(completion, p->rounds);
}

static double sockets_trips(const struct parts *p, int fd, size_t there, size_t back)
{
    const int trips = 10 * p->rounds < PARTS_SAMPLES ? 10 * p->rounds : PARTS_SAMPLES;
    double sample[PARTS_SAMPLES] = {0};

    for (int i = -10; i < trips; i++) /* the first ones are not counted */
        sample[i < 0 ? 0 : i] = sockets_trip(p, fd, there, back);
    return sockets_median(sample, trips);
}

void parts_sockets_measure(const struct parts *p, int fd, size_t bytes, struct parts_bare *bare)
{
    const double way = sockets_trips(p, fd, bytes, bytes);
    const long messages = bytes < SOCKETS_CALL ? 1000 : 20;
    double sample[PARTS_SAMPLES] = {0};

    sockets_calls(p, fd, bytes, SOCKETS_PAUSE + 6 * way, bare);
    bare->network = way - bare->post - bare->completion;
    for (int i = -1; i < p->rounds; i++)
        sample[i < 0 ? 0 : i] = sockets_stream(p, fd, bytes, messages);
    bare->stream = sockets_median(sample, p->rounds);
}

double parts_sockets_fetch(const struct parts *p, int fd, size_t bytes)
{
    return 2 * sockets_trips(p, fd, SOCKETS_REQUEST, bytes);
}
