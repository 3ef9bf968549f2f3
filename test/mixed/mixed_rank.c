/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mixed_rank.c: one rank of a job of two, in which test/mixed/mixed has the two linked with different builds of the library.
 *
 * It sends and receives, takes part in collectives, and passes messages through pipes and active messages. Exit 0; 1, with the
 * message of the library, after the first call that fails.
 */
#include "test/lib/check.h"
#include "test/lib/pattern.h"

#include <ram.h>

#define LARGE (1u << 20) /* more than a lane takes before its window is announced */
#define MESSAGES 200
#define REQUESTS 20

static uint8_t large[LARGE];

static void network(unsigned rank)
{
    uint64_t mine = 100 + rank, all[2];
    int peer = (int)(1 - rank);

    if (rank == 0) {
        pattern_fill(large, LARGE, 3);
        CHECK_OK(NULL, network_send(peer, large, LARGE));
        CHECK_OK(NULL, network_recv(peer, large, 1000));
        CHECK(NULL, pattern_same(large, 1000, 4));
    } else {
        CHECK_OK(NULL, network_recv(peer, large, LARGE));
        CHECK(NULL, pattern_same(large, LARGE, 3));
        pattern_fill(large, 1000, 4);
        CHECK_OK(NULL, network_send(peer, large, 1000));
    }
    CHECK_OK(NULL, network_allgather(&mine, sizeof(mine), all));
    CHECK(NULL, all[0] == 100 && all[1] == 101);
    CHECK_OK(NULL, network_barrier());
}

static void pipe_to(unsigned rank, unsigned writer)
{
    rpipe_config_t cfg = {.role = rank == writer ? RPIPE_WRITER : RPIPE_READER,
                          .peer = (int)(1 - rank),
                          .context = writer,
                          .heap_bytes = 1 << 20};
    size_t bytes;
    raddr_t d;
    rch_t ch;

    CHECK_OK(NULL, rpipe(&ch, &cfg));
    /* a rank that exits at once could take the other one's message away: both report what they have first */
    if (rwait(ch) != 0) {
        printf("rwait: %s\n", rerror(ch));
        (void)network_barrier();
        exit(1);
    }
    for (unsigned i = 0; rank == writer && i < MESSAGES; i++) {
        d = rmalloc(ch, i * 50);
        CHECK(ch, d != ADDR_NULL);
        pattern_fill(rmem(ch, d), i * 50, i);
        CHECK_OK(ch, rwrite(ch, d));
    }
    for (unsigned i = 0; rank != writer && i < MESSAGES; i++) {
        CHECK_OK(ch, rread(ch, &d, &bytes));
        CHECK(ch, bytes == i * 50 && pattern_same(rmem(ch, d), bytes, i));
        CHECK_OK(ch, rfree(ch, d));
    }
    CHECK_OK(ch, rclose(ch));
}

static void echo(ram_t am, ram_message_t *message, void *unused)
{
    (void)unused;
    CHECK_OK(NULL, ram_reply(am, message, RAM_RESULT, message->args, message->nargs, message->data,
                             message->bytes));
}

/* The contexts disagree: each rank has refused the link of the other one before a rank exits. */
static void refused(ram_t am)
{
    uint64_t failed = 0;

    printf("active messages: %s\n", rerror(NULL));
    while (failed < 2) {
        CHECK(NULL, ram_serve(am, 1, 10) >= 0);
        CHECK_OK(NULL, ram_count(am, "failed", &failed));
    }
    (void)network_barrier();
    exit(1);
}

/* Each rank requests, and answers while it waits. */
static void active_messages(unsigned rank)
{
    const ram_handler_t handler = {.name = "echo", .run = echo};
    const ram_config_t cfg = {.handlers = &handler, .nhandlers = 1};
    ram_message_t reply;
    ram_request_t r;
    ram_t am;
    int rc;

    CHECK_OK(NULL, ram_init(&am, &cfg));
    pattern_fill(large, 1000, 5);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        rc = ram_request(am, (int)(1 - rank), 0, &i, 1, large, 1000, &r, 0);
        if (rc == 0) /* it was in flight before the other one had received the greeting */
            rc = ram_wait(am, r, &reply, 0);
        if (rc != 0)
            refused(am);
        CHECK(NULL, reply.args[0] == i && reply.bytes == 1000 && pattern_same(reply.data, 1000, 5));
        CHECK_OK(NULL, ram_free(am, &reply));
    }
    CHECK_OK(NULL, ram_barrier(am));
    CHECK_OK(NULL, ram_exit(am));
}

int main(void)
{
    unsigned rank;

    CHECK_OK(NULL, rinit(NULL, NULL));
    rank = (unsigned)network_rank();
    network(rank);
    pipe_to(rank, 0);
    pipe_to(rank, 1);
    active_messages(rank);
    CHECK_OK(NULL, rexit());
    return 0;
}
