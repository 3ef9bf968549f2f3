/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sockets.c: what two processes do over one plain TCP connection on the loopback interface: messages to and fro, and a stream of
 * them. The yardstick of pipes over TCP.
 *
 * TCP_NODELAY, buffers as the kernel sizes them; each message is one send(2), as long as the socket takes it as a whole; both
 * processes call send(2) and recv(2) again and again instead of sleeping. A message of a round trip is received as a whole into
 * one buffer. Of a stream recv(2) takes what is there, several messages at a time. No message carries a length, a notification
 * or memory that comes back.
 *
 * usage: sockets [-t latency|stream] [-s BYTES] [-n MESSAGES] [-r ROUNDS] [-c CPU,CPU]
 * prints one line of JSON: in nanoseconds, for each round, half a round trip, and the time of a message of a stream, whose end
 * the other process acknowledges; without -t both.
 */
#include "two_cores.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/socket.h>

#define BYTES_MOST ((size_t)1 << 26)
#define WARM 100 /* messages before the first round, at most */

struct options {
    bool latency, stream;
    size_t bytes;
    uint64_t messages;
    int rounds, cpu[2];
};

static int listener(struct sockaddr_in *at)
{
    socklen_t bytes = sizeof(*at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof(*at)) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)at, &bytes) != 0)
        fail("a listening socket");
    return fd;
}

/* The first process accepts, the second one connects. */
static int connection(bool first, int listening, const struct sockaddr_in *at)
{
    const int one = 1;
    int fd;

    if (first) {
        fd = accept(listening, NULL, NULL);
    } else {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0)
            fail("connect");
    }
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        fail("a connection");
    return fd;
}

static bool would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

static void send_all(int fd, const char *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = send(fd, from, bytes, MSG_NOSIGNAL);

        if (n < 0 && !would_block())
            fail("send");
        if (n > 0) {
            from += n;
            bytes -= (size_t)n;
        }
    }
}

/* `bytes` in all, into `most` bytes of memory that are filled from the beginning to the end, and again. */
static void receive_all(int fd, char *to, size_t most, uint64_t bytes)
{
    size_t at = 0;

    while (bytes > 0) {
        ssize_t n = recv(fd, to + at, bytes < most - at ? (size_t)bytes : most - at, 0);

        if (n == 0) {
            fprintf(stderr, "%s: the other process has ended\n", program_invocation_short_name);
            exit(1);
        }
        if (n < 0 && !would_block())
            fail("recv");
        if (n > 0) {
            bytes -= (uint64_t)n;
            at = (at + (size_t)n) % most;
        }
    }
}

/* Half a round trip in ns. */
static double to_and_fro(int fd, bool first, char *buffer, size_t bytes, uint64_t n)
{
    double began = now_ns();

    for (uint64_t i = 0; i < n; i++) {
        if (first)
            send_all(fd, buffer, bytes);
        receive_all(fd, buffer, bytes, bytes);
        if (!first)
            send_all(fd, buffer, bytes);
    }
    return (now_ns() - began) / (double)n / 2;
}

/* The time of one message in ns. */
static double stream(int fd, bool first, char *buffer, size_t bytes, size_t most, uint64_t n)
{
    double began = now_ns();

    if (first) {
        for (uint64_t i = 0; i < n; i++)
            send_all(fd, buffer, bytes);
        receive_all(fd, buffer, most, 1);
    } else {
        receive_all(fd, buffer, most, n * bytes);
        send_all(fd, buffer, 1);
    }
    return (now_ns() - began) / (double)n;
}

static bool parse(int argc, char **argv, struct options *o)
{
    int option;

    *o = (struct options){true, true, .bytes = 8, .messages = 10000, .rounds = 1, .cpu = {-1, -1}};
    while ((option = getopt(argc, argv, "t:s:n:r:c:")) != -1) {
        if (option == 't') {
            o->latency = strcmp(optarg, "latency") == 0;
            o->stream = strcmp(optarg, "stream") == 0;
        } else if (option == 's')
            o->bytes = strtoull(optarg, NULL, 10);
        else if (option == 'n')
            o->messages = strtoull(optarg, NULL, 10);
        else if (option == 'r')
            o->rounds = atoi(optarg);
        else if (option != 'c' || sscanf(optarg, "%d,%d", &o->cpu[0], &o->cpu[1]) != 2)
            return false;
    }
    return (o->latency || o->stream) && o->bytes >= 1 && o->bytes <= BYTES_MOST &&
           o->messages >= 1 && o->messages <= UINT64_MAX / BYTES_MOST && o->rounds >= 1 &&
           o->rounds <= ROUNDS_MAX && optind == argc;
}

int main(int argc, char **argv)
{
    static double one_way[ROUNDS_MAX], streamed[ROUNDS_MAX];
    struct sockaddr_in at;
    struct options o;
    int listening, fd;
    size_t most;
    char *buffer;
    pid_t child;

    if (!parse(argc, argv, &o)) {
        fprintf(stderr,
                "usage: sockets [-t latency|stream] [-s BYTES up to %zu] [-n MESSAGES] [-r ROUNDS "
                "up to %d] [-c CPU,CPU]\n",
                BYTES_MOST, ROUNDS_MAX);
        return 2;
    }
    most = o.bytes > 65536 ? o.bytes : 65536;
    buffer = calloc(1, most);
    if (buffer == NULL)
        fail("memory for a message");
    listening = listener(&at);
    child = second_process(o.cpu);
    fd = connection(child != 0, listening, &at);
    (void)to_and_fro(fd, child != 0, buffer, o.bytes, o.messages < WARM ? o.messages : WARM);
    for (int i = 0; i < o.rounds; i++) {
        if (o.latency)
            one_way[i] = to_and_fro(fd, child != 0, buffer, o.bytes, o.messages);
        if (o.stream)
            streamed[i] = stream(fd, child != 0, buffer, o.bytes, most, o.messages);
    }
    if (child == 0)
        _exit(0);
    if (!second_process_is_good(child))
        return 1;
    printf("{\"bytes\": %zu, ", o.bytes);
    if (o.latency)
        print_rounds("one_way_ns", one_way, o.rounds, o.stream ? ", " : "}\n");
    if (o.stream)
        print_rounds("stream_ns", streamed, o.rounds, "}\n");
    return 0;
}
