/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_loop.c: a server with one thread and one epoll set, in which pipes and a timer are waited
 * for alike.
 *
 * Rank 0 serves; every other rank opens several full-duplex pipes to it and asks: sums of arrays
 * that it has written straight into the server's memory. The server sleeps in epoll_wait(2) on
 * rfd(3) of all incoming directions and on a timerfd(2) that reports. The tag identifies a
 * question, and the answer is a tag alone.
 *
 * The rules of the loop: a descriptor may be readable for nothing, so reads do not wait (rread_nb);
 * a pipe may hold many messages, so at most some are taken before the next one's turn, and a
 * descriptor stays readable until all have been. An answer never waits, because a client has at
 * most WINDOW questions in flight, and the ring of the way back has as many slots.
 *
 *     mpirun -n 4 event_loop [QUESTIONS [PIPES]]        of each client, on each of its pipes
 */
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "must.h"

#define WINDOW 16 /* questions in flight on a pipe */
#define AT_MOST 8 /* taken from one pipe before the next one's turn */
#define NUMBERS_MOST 100
#define REPORT_MS 200

static int rank, ranks;
static long questions = 500, pipes = 8;

/* A pipe each way. */
static rneighbor_t connect_to(int peer, long pipe)
{
    rpipe_config_t cfg = {
        .heap_bytes = 2 * WINDOW * NUMBERS_MOST * sizeof(uint64_t),
        .slots = WINDOW,
        .context = (uint64_t)pipe,
    };
    rneighbor_t neighbor = {.peer = peer};

    MUST(NULL, rneighbors(&neighbor, 1, &cfg));
    return neighbor;
}

/* ---- the server ---- */

struct server {
    int set, timer;
    rneighbor_t *client;
    size_t n, open;
    uint64_t answered, wakes, idle;
};

static void watch(const struct server *s, int fd, uint64_t which)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = which};

    MUST_HOLD(epoll_ctl(s->set, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void answer(rch_t out, uint64_t question, uint64_t sum)
{
    raddr_t d = MUST_HAVE(out, rmalloc(out, sizeof(sum)));

    memcpy(rmem(out, d), &sum, sizeof(sum));
    MUST(out, rset_tag(out, d, question));
    MUST(out, rwrite(out, d));
}

/* False: the client has closed, and its last question has been answered. */
static bool serve(struct server *s, rneighbor_t client)
{
    rch_t in = client.in, out = client.out;

    for (int i = 0; i < AT_MOST; i++) {
        uint64_t sum = 0;
        const uint64_t *number;
        size_t bytes;
        raddr_t d;
        int rc = rread_nb(in, &d, &bytes);

        if (rc == R_PENDING) {
            s->idle += i == 0;
            return true;
        }
        if (rc == R_EOF)
            return false;
        MUST(in, rc);
        number = rmem(in, d);
        for (size_t k = 0; k < bytes / sizeof(*number); k++)
            sum += number[k];
        answer(out, rtag(in, d), sum);
        MUST(in, rfree(in, d));
        s->answered++;
    }
    return true; /* and its descriptor is readable still */
}

static void report(struct server *s)
{
    uint64_t times;

    if (s->timer < 0 || read(s->timer, &times, sizeof(times)) != (ssize_t)sizeof(times))
        return;
    printf("%zu pipes open, %llu answers, %llu wake-ups\n", s->open,
           (unsigned long long)s->answered, (unsigned long long)s->wakes);
}

static void run_server(void)
{
    struct server s = {.n = (size_t)(ranks - 1) * (size_t)pipes};
    struct itimerspec every = {{0, REPORT_MS * 1000000L}, {0, REPORT_MS * 1000000L}};
    struct epoll_event event[32];

    s.open = s.n;
    s.client = calloc(s.n + 1, sizeof(*s.client));
    s.set = epoll_create1(EPOLL_CLOEXEC);
    s.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    MUST_HOLD(s.client != NULL && s.set >= 0 && s.timer >= 0 &&
              timerfd_settime(s.timer, 0, &every, NULL) == 0);
    for (size_t i = 0; i < s.n; i++) {
        int fd;

        s.client[i] = connect_to(1 + (int)(i / (size_t)pipes), (long)(i % (size_t)pipes));
        fd = rfd(s.client[i].in);
        MUST(s.client[i].in, fd);
        watch(&s, fd, i);
    }
    watch(&s, s.timer, s.n);
    while (s.open > 0) {
        int n = epoll_wait(s.set, event, 32, -1);

        MUST_HOLD(n > 0);
        s.wakes++;
        for (int i = 0; i < n; i++) {
            size_t which = event[i].data.u64;

            if (which == s.n) {
                report(&s);
            } else if (!serve(&s, s.client[which])) {
                /* the descriptor ends with the pipe: first out of the set */
                MUST_HOLD(epoll_ctl(s.set, EPOLL_CTL_DEL, rfd(s.client[which].in), NULL) == 0);
                MUST(NULL, rneighbors_close(&s.client[which], 1));
                s.open--;
            }
        }
    }
    printf("%llu questions answered on %zu pipes by one thread, in %llu wake-ups (%llu without a "
           "message)\n",
           (unsigned long long)s.answered, s.n, (unsigned long long)s.wakes,
           (unsigned long long)s.idle);
    MUST_HOLD(s.answered == s.n * (uint64_t)questions);
    close(s.timer);
    close(s.set);
    free(s.client);
}

/* ---- a client ---- */

static size_t numbers_of(uint64_t question) { return 1 + (size_t)(question * 37 % NUMBERS_MOST); }

static void ask(rch_t out, long pipe, uint64_t question)
{
    size_t n = numbers_of(question);
    raddr_t d = MUST_HAVE(out, rmalloc(out, n * sizeof(uint64_t)));
    uint64_t *number = rmem(out, d);

    for (size_t k = 0; k < n; k++)
        number[k] = (uint64_t)rank * 1000000 + (uint64_t)pipe * 10000 + question + k;
    MUST(out, rset_tag(out, d, question));
    MUST(out, rwrite(out, d));
}

static void check_answer(rch_t in, long pipe, uint64_t question)
{
    uint64_t n = numbers_of(question), sum;
    size_t bytes;
    raddr_t d;

    MUST(in, rread(in, &d, &bytes));
    MUST_HOLD(bytes == sizeof(sum) && rtag(in, d) == question);
    memcpy(&sum, rmem(in, d), sizeof(sum));
    MUST_HOLD(sum ==
              n * ((uint64_t)rank * 1000000 + (uint64_t)pipe * 10000 + question) + n * (n - 1) / 2);
    MUST(in, rfree(in, d));
}

static void run_client(void)
{
    rneighbor_t *server = calloc((size_t)pipes, sizeof(*server));

    MUST_HOLD(server != NULL);
    for (long p = 0; p < pipes; p++)
        server[p] = connect_to(0, p);
    for (uint64_t first = 0; first < (uint64_t)questions; first += WINDOW)
        for (long p = 0; p < pipes; p++) {
            uint64_t q,
                end = first + WINDOW < (uint64_t)questions ? first + WINDOW : (uint64_t)questions;

            for (q = first; q < end; q++)
                ask(server[p].out, p, q);
            for (q = first; q < end; q++)
                check_answer(server[p].in, p, q);
        }
    for (long p = 0; p < pipes; p++)
        MUST(NULL, rneighbors_close(&server[p], 1));
    free(server);
}

static const char usage[] = "Run it as: mpirun -n 4 event_loop [QUESTIONS [PIPES]]: so many "
                            "questions (500) of each client on each of so "
                            "many pipes (8)\n";

/* A number from 1 to `most`, or the end. */
static long number_of(const char *text, long most)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*end == '\0' && value >= 1 && value <= most)
        return value;
    fprintf(stderr, "event_loop: \"%s\" must be a number from 1 to %ld\n%s", text, most, usage);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("A server with one thread sleeps in epoll_wait on many pipes and a timer.\n%s",
               usage);
        return 0;
    }
    questions = argc > 1 ? number_of(argv[1], 1000000) : questions;
    pipes = argc > 2 ? number_of(argv[2], 10000) : pipes;
    MUST(NULL, rinit(&rank, &ranks));
    if (rank == 0)
        run_server();
    else
        run_client();
    MUST(NULL, rexit());
    return 0;
}
