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

/* One process sends to another one whose receive is posted before, or that posts it 30 us after the send. */
static void who_comes_first(const char *name, size_t bytes, int receiver_first, int rounds)
{
    double sum = 0;

    for (int i = -rounds / 10; i < rounds; i++) {
        double began, until;

        if (loop_rank == 1 && receiver_first)
            loop->irecv(0, loop_in, bytes, TAG);
        one_way(0, 0, i, loop_rank == 1);
        for (until = now_ns() + (receiver_first == (loop_rank == 0) ? 30e3 : 0); now_ns() < until;)
            ;
        began = now_ns();
        if (loop_rank == 0) {
            touch_out(bytes, i);
            loop->isend(0, loop_out, bytes, TAG);
        } else if (!receiver_first) {
            loop->irecv(0, loop_in, bytes, TAG);
        }
        loop->wait(0, 1);
        if (loop_rank == 1)
            touch_in(bytes);
        one_way(0, 0, i, loop_rank == 1);
        if (i >= 0)
            sum += now_ns() - began;
    }
    print(name, bytes, sum / rounds);
}

void msg_loop_run(int rank, const struct msg_loop_calls *calls)
{
    static const struct {
        size_t bytes;
        int rounds;
    } sizes[] = {{4096, 20000}, {65536, 3000}, {1 << 20, 200}, {LONGEST, 50}};

    loop = calls;
    loop_rank = rank;
    loop_out = aligned_alloc(4096, LONGEST);
    loop_in = aligned_alloc(4096, LONGEST);
    if (loop_out == NULL || loop_in == NULL)
        exit(1);
    memset(loop_out, 1, LONGEST);
    memset(loop_in, 1, LONGEST);
    latency("latency", 8, 0, 200000);
    rate(8, 20000);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        latency("touched", sizes[i].bytes, 1, sizes[i].rounds);
        latency("untouched", sizes[i].bytes, 0, sizes[i].rounds);
    }
    latency_beside("posted_1024", 1, 50000);
    latency_beside("waiting_1024", 0, 50000);
    who_comes_first("receiver_first", 65536, 1, 1000);
    who_comes_first("sender_first", 65536, 0, 1000);
    if (loop_sum == 1)
        printf("unlikely 1\n");
    free(loop_out);
    free(loop_in);
}
