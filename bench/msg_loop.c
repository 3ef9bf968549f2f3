/* SPDX-License-Identifier: BSD-3-Clause */
/* msg_loop.c: see msg_loop.h. */
#include "bench/msg_loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 1, OTHER_TAG = 100, LONGEST = 4 << 20 };

static const struct msg_loop_calls *loop;
static int loop_rank;
static char *loop_out, *loop_in;
static uint64_t loop_sum;
static double loop_time[1000]; /* ns of the rounds of a loop */

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void touch_out(size_t bytes, int i) { memset(loop_out, i, bytes); }

static void touch_in(size_t bytes)
{
    const uint64_t *word = (const uint64_t *)(const void *)loop_in;

    for (size_t i = 0; i < bytes / sizeof(*word); i++)
        loop_sum += word[i];
}

static void one_way(size_t bytes, int touch, int i, int sender)
{
    if (sender) {
        if (touch)
            touch_out(bytes, i);
        loop->send(loop_out, bytes, TAG);
    } else {
        loop->recv(loop_in, bytes, TAG);
        if (touch)
            touch_in(bytes);
    }
}

static void print(const char *name, size_t bytes, double ns)
{
    if (loop_rank == 0)
        printf("%s_%zu %.1f\n", name, bytes, ns);
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of loop_time: one interruption of a process takes longer than many transfers. */
static double median(int rounds)
{
    qsort(loop_time, (size_t)rounds, sizeof(loop_time[0]), by_time);
    return loop_time[rounds / 2];
}

/* Half of a round trip. */
static void latency(const char *name, size_t bytes, int touch, int rounds)
{
    double began = 0;

    for (int i = -rounds / 10; i < rounds; i++) {
        if (i == 0)
            began = now_ns();
        one_way(bytes, touch, i, loop_rank == 0);
        one_way(bytes, touch, i, loop_rank == 1);
    }
    print(name, bytes, (now_ns() - began) / rounds / 2);
}

static void rate(size_t bytes, int rounds)
{
    double began = 0;

    for (int i = -rounds / 10; i < rounds; i++) {
        if (i == 0)
            began = now_ns();
        for (int k = 0; k < MSG_LOOP_WINDOW; k++) {
            if (loop_rank == 0)
                loop->isend(k, loop_out + k * 64, bytes, TAG);
            else
                loop->irecv(k, loop_in + k * 64, bytes, TAG);
        }
        loop->wait(0, MSG_LOOP_WINDOW);
        one_way(0, 0, i, loop_rank == 1);
    }
    print("rate", bytes, (now_ns() - began) / rounds / MSG_LOOP_WINDOW);
}

/* Other receives are posted meanwhile, of other tags; or messages of other tags wait. */
static void latency_beside(const char *name, int posted, int rounds)
{
    static char byte[MSG_LOOP_OTHERS];

    for (int k = 0; k < MSG_LOOP_OTHERS; k++) {
        if (posted)
            loop->irecv(MSG_LOOP_WINDOW + k, &byte[k], 1, OTHER_TAG + (uint32_t)k);
        else
            loop->isend(MSG_LOOP_WINDOW + k, &byte[k], 1, OTHER_TAG + (uint32_t)k);
    }
    latency(name, 8, 0, rounds);
    for (int k = 0; k < MSG_LOOP_OTHERS; k++) {
        if (posted)
            loop->send(&byte[k], 1, OTHER_TAG + (uint32_t)k);
        else
            loop->recv(&byte[k], 1, OTHER_TAG + (uint32_t)k);
    }
    loop->wait(MSG_LOOP_WINDOW, MSG_LOOP_OTHERS);
}

/*
 * One process sends to another one whose receive was posted before, or is posted 30 us after the send. The time from the later of the
 * two calls, whose process puts it into the answer or keeps it, until the sender has the answer: one clock, since it is one host.
 */
static void who_comes_first(const char *name, size_t bytes, int receiver_first, int rounds)
{
    double began, until;

    for (int i = -rounds / 10; i < rounds; i++) {
        if (loop_rank == 1 && receiver_first)
            loop->irecv(0, loop_in, bytes, TAG);
        if (loop_rank == 0)
            touch_out(bytes, i);
        one_way(0, 0, i, loop_rank == 1);
        for (until = now_ns() + (receiver_first == (loop_rank == 0) ? 30e3 : 0); now_ns() < until;)
            ;
        began = now_ns();
        if (loop_rank == 0)
            loop->isend(0, loop_out, bytes, TAG);
        else if (!receiver_first)
            loop->irecv(0, loop_in, bytes, TAG);
        loop->wait(0, 1);
        if (loop_rank == 1) {
            touch_in(bytes);
            loop->send(&began, sizeof(began), TAG);
        } else {
            loop->recv(receiver_first ? &until : &began, sizeof(began), TAG);
        }
        if (i >= 0)
            loop_time[i] = now_ns() - began;
    }
    print(name, bytes, median(rounds));
}

static void compute(double ns)
{
    double until = now_ns() + ns;

    while (now_ns() < until)
        ;
}

/* One side begins, computes for 1 ms, or not (alone), and waits, while the other side waits: its time beyond computing. */
static void hidden(const char *name, size_t bytes, int computes, double ns, int rounds)
{
    double began;

    for (int i = -rounds / 10; i < rounds; i++) {
        if (loop_rank == 1 && computes == 1)
            loop->irecv(0, loop_in, bytes, TAG);
        one_way(0, 0, i, loop_rank == 1);
        began = now_ns();
        if (loop_rank != computes) {
            one_way(bytes, 0, i, loop_rank == 0);
            continue;
        }
        if (loop_rank == 0)
            loop->isend(0, loop_out, bytes, TAG);
        compute(ns);
        loop->wait(0, 1);
        if (i >= 0)
            loop_time[i] = now_ns() - began - ns;
    }
    if (loop_rank == computes)
        printf("%s_%zu %.1f\n", name, bytes, median(rounds));
}

/* Is the row asked for? No name: all are. */
static int asked(char **names, const char *name)
{
    for (int i = 0; names != NULL && names[i] != NULL; i++) {
        if (strncmp(names[i], name, strlen(names[i])) == 0)
            return 1;
        if (names[i + 1] == NULL)
            return 0;
    }
    return 1;
}

static void run_sizes(char **names)
{
    static const struct {
        size_t bytes;
        int rounds;
    } sizes[] = {{4096, 20000}, {65536, 3000}, {1 << 20, 200}, {LONGEST, 50}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (asked(names, "touched"))
            latency("touched", sizes[i].bytes, 1, sizes[i].rounds);
        if (asked(names, "untouched"))
            latency("untouched", sizes[i].bytes, 0, sizes[i].rounds);
    }
}

static void run_orders(char **names)
{
    static const size_t sizes[] = {8, 16384, 65536};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && asked(names, "order"); i++) {
        who_comes_first("order_receiver", sizes[i], 1, 1000);
        who_comes_first("order_sender", sizes[i], 0, 1000);
    }
    if (!asked(names, "hidden"))
        return;
    hidden("hidden_alone", 1 << 20, 0, 0, 100);
    hidden("hidden_sender", 1 << 20, 0, 1e6, 100);
    hidden("hidden_receiver", 1 << 20, 1, 1e6, 100);
}

void msg_loop_run(int rank, char **names, const struct msg_loop_calls *calls)
{
    loop = calls;
    loop_rank = rank;
    loop_out = aligned_alloc(4096, LONGEST);
    loop_in = aligned_alloc(4096, LONGEST);
    if (loop_out == NULL || loop_in == NULL)
        exit(1);
    memset(loop_out, 1, LONGEST);
    memset(loop_in, 1, LONGEST);
    if (asked(names, "latency"))
        latency("latency", 8, 0, 100000);
    if (asked(names, "rate"))
        rate(8, 10000);
    run_sizes(names);
    if (asked(names, "posted"))
        latency_beside("posted_1024", 1, 30000);
    if (asked(names, "waiting"))
        latency_beside("waiting_1024", 0, 30000);
    run_orders(names);
    if (loop_sum == 1)
        printf("unlikely 1\n");
    free(loop_out);
    free(loop_in);
}
