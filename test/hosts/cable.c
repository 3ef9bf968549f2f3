/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cable.c: a bad cable between two network namespaces, for kernels that have no netem: two tun devices, and a process that
 * carries packets from one to the other, late, and not all of them.
 *
 *   cable NAMESPACE-A NAMESPACE-B DEVICE DELAY-US LOSS-PER-MILLE SEED
 *
 * DEVICE appears in both namespaces, down and without an address, then the line "ready" is printed. SIGUSR1 cuts the cable: nothing
 * arrives any more, and both ends think that their link is up. SIGTERM, or the end of standard input: it goes, and the
 * devices with it. Packets stay in order. What was lost is counted on standard error at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define PACKET_MOST 2048 /* of an MTU of 1500 */
#define QUEUE                                                                                      \
    4096 /* packets in flight in one direction; a full queue loses them, as a switch does */

struct packet {
    int64_t due; /* nanoseconds */
    int bytes;
    char data[PACKET_MOST];
};

struct direction {
    int from, to;
    uint64_t head, tail; /* packets [tail, head) are in flight */
    uint64_t carried, lost;
    struct packet *queue;
};

static volatile sig_atomic_t cut, ended;

static void on_cut(int signal)
{
    (void)signal;
    cut = 1;
}

static void on_end(int signal)
{
    (void)signal;
    ended = 1;
}

static void die(const char *what, const char *which)
{
    fprintf(stderr, "cable: %s %s: %s\n", what, which, strerror(errno));
    exit(77);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int make_device(const char *space, const char *device)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    char path[256];
    int fd, in;

    snprintf(path, sizeof(path), "/run/netns/%s", space);
    in = open(path, O_RDONLY | O_CLOEXEC);
    if (in < 0 || setns(in, CLONE_NEWNET) != 0)
        die("the network namespace", space);
    close(in);
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0)
        die("/dev/net/tun in", space);
    return fd;
}

/* What has come in, until there is no more. */
static void take(struct direction *d, int64_t delay, unsigned per_mille, uint64_t *seed)
{
    char spare[PACKET_MOST] = {0};

    for (;;) {
        bool full = d->head - d->tail == QUEUE;
        struct packet *p = &d->queue[d->head % QUEUE];
        ssize_t n = read(d->from, full ? spare : p->data, PACKET_MOST);

        if (n <= 0)
            return;
        if (full || cut || draw(seed) % 1000 < per_mille) {
            d->lost++;
            continue;
        }
        p->bytes = (int)n;
        p->due = now_ns() + delay;
        d->head++;
        d->carried++;
    }
}

/* What is due goes out. */
static void give(struct direction *d)
{
    int64_t now = now_ns();

    while (d->tail != d->head && d->queue[d->tail % QUEUE].due <= now) {
        const struct packet *p = &d->queue[d->tail % QUEUE];

        if (!cut && write(d->to, p->data, (size_t)p->bytes) < 0 && errno == EAGAIN)
            return;
        d->tail++;
    }
}

static int64_t next_due(const struct direction *d, int64_t before)
{
    int64_t due = d->tail != d->head ? d->queue[d->tail % QUEUE].due : INT64_MAX;

    return due < before ? due : before;
}

static void carry(struct direction way[2], int64_t delay, unsigned per_mille, uint64_t seed)
{
    struct pollfd watched[3] = {
        {.fd = way[0].from, .events = POLLIN}, {.fd = way[1].from, .events = POLLIN}, {0}};

    watched[2] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    while (!ended) {
        int64_t due = next_due(&way[1], next_due(&way[0], INT64_MAX)), left = due - now_ns();
        struct timespec until = {1, 0};

        if (due != INT64_MAX && left < INT64_C(1000000000))
            until = (struct timespec){0, left > 0 ? left : 0};
        if (ppoll(watched, 3, &until, NULL) > 0 && watched[2].revents != 0) {
            char byte;

            if (read(STDIN_FILENO, &byte, 1) <= 0)
                return;
        }
        for (int i = 0; i < 2; i++) {
            take(&way[i], delay, per_mille, &seed);
            give(&way[i]);
        }
    }
}

int main(int argc, char **argv)
{
    struct direction way[2] = {0};
    int a, b;

    if (argc != 7) {
        fprintf(stderr,
                "usage: cable NAMESPACE-A NAMESPACE-B DEVICE DELAY-US LOSS-PER-MILLE SEED\n");
        return 64;
    }
    signal(SIGUSR1, on_cut);
    signal(SIGTERM, on_end);
    signal(SIGINT, on_end);
    a = make_device(argv[1], argv[3]);
    b = make_device(argv[2], argv[3]);
    way[0] = (struct direction){.from = a, .to = b, .queue = calloc(QUEUE, sizeof(struct packet))};
    way[1] = (struct direction){.from = b, .to = a, .queue = calloc(QUEUE, sizeof(struct packet))};
    if (way[0].queue == NULL || way[1].queue == NULL)
        return 1;
    printf("ready\n");
    fflush(stdout);
    carry(way, strtol(argv[4], NULL, 10) * 1000, (unsigned)strtoul(argv[5], NULL, 10),
          strtoull(argv[6], NULL, 10) | 1u);
    fprintf(stderr, "cable: %lu packets carried, %lu lost\n",
            (unsigned long)(way[0].carried + way[1].carried),
            (unsigned long)(way[0].lost + way[1].lost));
    free(way[0].queue);
    free(way[1].queue);
    return 0;
}
