/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * instruction_messages.c: messages by tag of this process to itself, for test/instructions, which counts what the calls execute. No call
 * waits: a window of messages is sent before the calls that complete its receives.
 *
 *     posted     the receives of a window are posted, then its messages are sent
 *     waiting    the messages of a window have arrived before its receives
 *     blocking   rmsg_send, then rmsg_recv, one message at a time
 *
 * usage: instruction_messages posted|waiting|blocking BYTES [OTHERS]    OTHERS: receives of other tags that are posted meanwhile
 */
#include <rmsg.h>
#include <rpipe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAPS 1000
#define WINDOW 32 /* of the 64 slots of the ring */
#define READ 16
#define TAG 1
#define OTHERS_MOST 1024

static rmsg_t msg;
static int rank;
static rmsg_request_t sends[WINDOW], receives[WINDOW];
static char out[WINDOW][64], in[WINDOW][64];

void measured(const char *how, size_t bytes);

static void check(const char *what, int code)
{
    if (code == 0)
        return;
    fprintf(stderr, "instruction_messages: %s: %d: %s\n", what, code, rerror(NULL));
    exit(1);
}

static void send_window(size_t bytes)
{
    for (int i = 0; i < WINDOW; i++)
        check("rmsg_isend", rmsg_isend(msg, rank, 0, TAG, out[i], bytes, &sends[i], 0));
}

static void receive_window(size_t bytes)
{
    for (int i = 0; i < WINDOW; i++)
        check("rmsg_irecv", rmsg_irecv(msg, rank, 0, TAG, in[i], bytes, &receives[i], 0));
}

static void wait_window(void)
{
    check("rmsg_wait_all", rmsg_wait_all(msg, receives, WINDOW, NULL, 0));
    check("rmsg_wait_all", rmsg_wait_all(msg, sends, WINDOW, NULL, 0));
}

static void by_window(int posted, size_t bytes)
{
    if (posted)
        receive_window(bytes);
    send_window(bytes);
    for (int i = 0; i < WINDOW && !posted; i += READ) /* each reads so many messages */
        check("rmsg_progress", rmsg_progress(msg));
    if (!posted)
        receive_window(bytes);
    wait_window();
}

static void by_blocking(size_t bytes)
{
    for (int i = 0; i < WINDOW; i++) {
        check("rmsg_send", rmsg_send(msg, rank, 0, TAG, out[i], bytes, 0));
        check("rmsg_recv", rmsg_recv(msg, rank, 0, TAG, in[i], bytes, NULL, 0));
    }
}

/* Collected by callgrind: a window. */
void __attribute__((noinline)) measured(const char *how, size_t bytes)
{
    if (strcmp(how, "blocking") == 0)
        by_blocking(bytes);
    else
        by_window(strcmp(how, "posted") == 0, bytes);
}

int main(int argc, char **argv)
{
    static rmsg_request_t others[OTHERS_MOST];
    const size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    const int others_posted = argc > 3 ? atoi(argv[3]) : 0;
    char byte = 0;

    if (argc < 3 || bytes < 1 || bytes > sizeof(out[0]) || others_posted > OTHERS_MOST) {
        fprintf(stderr, "usage: instruction_messages posted|waiting|blocking BYTES [OTHERS]\n");
        return 2;
    }
    check("rinit", rinit(&rank, NULL));
    check("rmsg_open", rmsg_open(&msg, &(rmsg_config_t){0}));
    by_blocking(bytes); /* opens the link */
    for (int i = 0; i < others_posted; i++)
        check("rmsg_irecv",
              rmsg_irecv(msg, rank, 0, (uint32_t)(TAG + 1 + i), &byte, 1, &others[i], 0));
    for (int lap = 0; lap < LAPS; lap++) {
        for (int i = 0; i < WINDOW; i++)
            memset(out[i], lap + i, bytes);
        measured(argv[1], bytes);
        for (int i = 0; i < WINDOW; i++)
            check("the message", memcmp(in[i], out[i], bytes));
    }
    check("rmsg_close", rmsg_close(msg));
    check("rexit", rexit());
    return 0;
}
