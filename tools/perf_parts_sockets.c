/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_parts_sockets.c: what the messages of a pipe over tcp take without the library: plain TCP connections between the two ranks, which
 * are on one host. See perf_parts.h.
 *
 * The sockets are in the state in which the backend has them (doc/tcp.md), so that the calls do the same in the kernel: a connection for
 * each direction, TCP_NODELAY, Reno, buffers as the kernel sizes them; and a short message of a ping-pong is left in the socket by the read
 * that finds it, and taken, hence acknowledged, by one that finds nothing. Both ranks call send(2) and recv(2) again and again instead of
 * sleeping. Calls are measured by rank 0, as perf_parts_network does those of a pipe: the one that sends, and the one that finds the answer.
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
/* As in held.c of the backend: reads, or bytes of several, that a read which finds nothing takes; and the most that are left. */
#define SOCKETS_READS_IDLE 5u
#define SOCKETS_BYTES_IDLE 440u
#define SOCKETS_READS_MOST 8u
#define SOCKETS_BYTES_MOST PARTS_WHOLE

static struct {
    int out, in; /* connections by which this rank sends messages, and receives them */
    bool leaves; /* the kernel can: Linux 6.9 or later */
    size_t held; /* bytes that were read, and are left in the socket */
    unsigned reads;
} sockets;

static char sockets_bytes[SOCKETS_MOST];

static void sockets_must(bool holds, const char *call)
{
    if (__builtin_expect(!holds, 0))
        perf_fail(NULL, call, -errno);
}

/* ---- two connections: a port and a cookie for rank 1, by the control network ---- */

struct sockets_card {
    struct sockaddr_in at;
    uint64_t cookie;
};

static int sockets_listen(struct sockets_card *card)
{
    socklen_t bytes = sizeof(card->at);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *card = (struct sockets_card){
        .at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    sockets_must(fd >= 0 && bind(fd, (struct sockaddr *)&card->at, sizeof(card->at)) == 0 &&
                     listen(fd, 2) == 0 &&
                     getsockname(fd, (struct sockaddr *)&card->at, &bytes) == 0 &&
                     getrandom(&card->cookie, sizeof(card->cookie), 0) == sizeof(card->cookie),
                 "a listening socket");
    return fd;
}

static int sockets_accept(int listening, const struct sockets_card *card)
{
    uint64_t cookie = ~card->cookie;
    int fd = -1;

    while (cookie != card->cookie) { /* another process may have found the port */
        if (fd >= 0)
            close(fd);
        fd = accept(listening, NULL, NULL);
        sockets_must(fd >= 0, "accept");
        if (recv(fd, &cookie, sizeof(cookie), MSG_WAITALL) != sizeof(cookie))
            cookie = ~card->cookie;
    }
    return fd;
}

static int sockets_connect(const struct sockets_card *card)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sockets_must(
        fd >= 0 && connect(fd, (const struct sockaddr *)&card->at, sizeof(card->at)) == 0 &&
            send(fd, &card->cookie, sizeof(card->cookie), MSG_NOSIGNAL) == sizeof(card->cookie),
        "connect, over the loopback interface: both ranks must be on one host");
    return fd;
}

static void sockets_prepare(int fd)
{
    const int one = 1;

    sockets_must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0 &&
                     fcntl(fd, F_SETFL, O_NONBLOCK) == 0,
                 "a connection");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", sizeof("reno") - 1);
}

void parts_sockets_open(const struct parts *p)
{
    const int beginning = 0;
    struct sockets_card card;

    if (p->rank == 0) {
        const int listening = sockets_listen(&card);

        parts_must(network_send(1, &card, sizeof(card)), NULL, "network_send");
        sockets.out = sockets_accept(listening, &card);
        sockets.in = sockets_accept(listening, &card);
        close(listening);
    } else {
        parts_must(network_recv(0, &card, sizeof(card)), NULL, "network_recv");
        sockets.in = sockets_connect(&card);
        sockets.out = sockets_connect(&card);
    }
    sockets_prepare(sockets.out);
    sockets_prepare(sockets.in);
    sockets.held = sockets.reads = 0;
    sockets.leaves =
        setsockopt(sockets.in, SOL_SOCKET, SO_PEEK_OFF, &beginning, sizeof(beginning)) == 0;
}

void parts_sockets_close(void)
{
    close(sockets.out);
    close(sockets.in);
}

/* ---- messages ---- */

static void sockets_send(int fd, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t n = send(fd, sockets_bytes + sent, bytes - sent, MSG_NOSIGNAL);

        sockets_must(n >= 0 || errno == EAGAIN || errno == EINTR, "send");
        sent += n > 0 ? (size_t)n : 0;
    }
}

static void sockets_take(void)
{
    while (sockets.held > 0) {
        const ssize_t n = recv(sockets.in, sockets_bytes, sockets.held, MSG_TRUNC);

        sockets_must(n > 0 || (n < 0 && errno == EINTR), "recv");
        sockets.held -= n > 0 ? (size_t)n : 0;
    }
    sockets.reads = 0;
}

/* One read. 0: nothing is there. */
static size_t sockets_read(int fd, size_t bytes)
{
    const ssize_t n = recv(fd, sockets_bytes, bytes, 0);

    sockets_must(n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)), "recv");
    return n > 0 ? (size_t)n : 0;
}

/* The same of the connection for messages, which may leave what it finds. */
static size_t sockets_read_message(size_t bytes)
{
    ssize_t n;

    if (!sockets.leaves || bytes > SOCKETS_BYTES_MOST) {
        sockets_take();
        return sockets_read(sockets.in, bytes);
    }
    if (sockets.reads >= SOCKETS_READS_MOST || sockets.held >= SOCKETS_BYTES_MOST)
        sockets_take();
    n = recv(sockets.in, sockets_bytes, bytes, MSG_PEEK);
    sockets_must(n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)), "recv");
    if (n > 0) {
        sockets.held += (size_t)n;
        sockets.reads++;
        return (size_t)n;
    }
    if (sockets.reads >= SOCKETS_READS_IDLE ||
        (sockets.reads > 1 && sockets.held >= SOCKETS_BYTES_IDLE))
        sockets_take();
    return 0;
}

static void sockets_receive(int fd, size_t bytes)
{
    for (size_t got = 0; got < bytes;)
        got += sockets_read(fd, bytes - got);
}

static void sockets_receive_message(size_t bytes)
{
    for (size_t got = 0; got < bytes;)
        got += sockets_read_message(bytes - got);
}

/* A message to and fro: one way. */
static double sockets_trip(const struct parts *p, size_t bytes)
{
    const double began = perf_now_ns();

    if (p->rank == 0)
        sockets_send(sockets.out, bytes);
    sockets_receive_message(bytes);
    if (p->rank != 0)
        sockets_send(sockets.out, bytes);
    return (perf_now_ns() - began - p->clock) / 2;
}

/* A request to where messages come from, and the payload back, by one connection. */
static double sockets_fetch(const struct parts *p, size_t bytes)
{
    const double began = perf_now_ns();

    if (p->rank == 0) {
        sockets_send(sockets.in, SOCKETS_REQUEST);
        sockets_receive(sockets.in, bytes);
    } else {
        sockets_receive(sockets.out, SOCKETS_REQUEST);
        sockets_send(sockets.out, bytes);
    }
    return perf_now_ns() - began - p->clock;
}

static double sockets_stream(const struct parts *p, size_t bytes)
{
    const long messages = bytes < SOCKETS_CALL ? 1000 : 20;
    const size_t all = bytes * (size_t)messages;
    const size_t call = bytes < SOCKETS_CALL ? SOCKETS_CALL / bytes * bytes : bytes;
    const double began = perf_now_ns();

    for (size_t sent = 0; sent < all && p->rank == 0; sent += call)
        sockets_send(sockets.out, all - sent < call ? all - sent : call);
    for (size_t got = 0, n; got < all && p->rank != 0; got += n) {
        n = all - got < SOCKETS_MOST ? all - got : SOCKETS_MOST;
        sockets_receive(sockets.in, n);
    }
    if (p->rank == 0)
        sockets_receive(sockets.in, 1);
    else
        sockets_send(sockets.out, 1);
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
static double sockets_receive_timed(size_t bytes)
{
    double began;
    size_t n;

    do {
        began = perf_now_ns();
        n = sockets_read_message(bytes);
    } while (n == 0);
    sockets_receive_message(bytes - n);
    return began;
}

/* Rank 0: what the two calls take: in a ping-pong; of a message that arrives in parts when all of it is there. */
static void sockets_calls(const struct parts *p, size_t bytes, double pause,
                          struct parts_bare *bare)
{
    static double post[PARTS_SAMPLES], completion[PARTS_SAMPLES];
    const int trips = 2 * p->rounds < PARTS_SAMPLES ? 2 * p->rounds : PARTS_SAMPLES;

    for (int i = -trips / 4; i < trips; i++) { /* those of the first quarter are not counted */
        double before = perf_now_ns();

        if (p->rank != 0) {
            sockets_receive_message(bytes);
            sockets_send(sockets.out, bytes);
            continue;
        }
        sockets_send(sockets.out, bytes);
        post[i < 0 ? 0 : i] = parts_lap(p, &before);
        while (bytes > PARTS_WHOLE && perf_now_ns() - before < pause)
            continue;
        before = sockets_receive_timed(bytes);
        completion[i < 0 ? 0 : i] = parts_lap(p, &before);
    }
    if (p->rank != 0)
        return;
    bare->post = sockets_median(post, trips);
    bare->completion = sockets_median(completion, trips);
}

typedef double sockets_sample_of(const struct parts *p, size_t bytes);

/* The first ones are not counted. */
static double sockets_samples(const struct parts *p, sockets_sample_of *take, size_t bytes,
                              int samples)
{
    double sample[PARTS_SAMPLES] = {0};

    samples = samples < PARTS_SAMPLES ? samples : PARTS_SAMPLES;
    for (int i = -samples / 10 - 1; i < samples; i++)
        sample[i < 0 ? 0 : i] = take(p, bytes);
    return sockets_median(sample, samples);
}

void parts_sockets_measure(const struct parts *p, size_t bytes, struct parts_bare *bare)
{
    const double way = sockets_samples(p, sockets_trip, bytes, 10 * p->rounds);

    sockets_calls(p, bytes, SOCKETS_PAUSE + 6 * way, bare);
    bare->network = way - bare->post - bare->completion;
    sockets_take();
    bare->stream = sockets_samples(p, sockets_stream, bytes, p->rounds);
}

double parts_sockets_fetch(const struct parts *p, size_t bytes)
{
    return sockets_samples(p, sockets_fetch, bytes, 10 * p->rounds);
}
