/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking receives of messages by tag, between neighbors in a ring of ranks: rmsg_recv may take the next message of a link before it
 * posts a receive, and has the same result as if it had posted it first. Each rank sends before it receives. With one rank the messages
 * are there when it receives, so that none is taken later.
 */
#include "test/lib/mp_check.h"

#include <rmsg.h>

static rmsg_t msg;
static int to, from;

#define MSG_OK(call) CHECK_RC(0, NULL, call)
#define MSG_RC(code, call) CHECK_RC(code, NULL, call)

static void send_number(uint32_t space, uint32_t tag, uint64_t value)
{
    MSG_OK(rmsg_send(msg, to, space, tag, &value, sizeof(value), 0));
}

static void expect_number(uint32_t space, uint32_t tag, uint64_t value)
{
    uint64_t in = 0;

    MSG_OK(rmsg_recv(msg, from, space, tag, &in, sizeof(in), NULL, 0));
    REQUIRE(in == value, "space %u, tag %u: %llu instead of %llu", space, tag,
            (unsigned long long)in, (unsigned long long)value);
}

/* A receive that was posted before a blocking one, with this key, gets the first of two messages. */
static void posted_before(int key_source, uint32_t key_tag)
{
    rmsg_request_t r;
    uint64_t in = 0;

    MSG_OK(rmsg_irecv(msg, key_source, 7, key_tag, &in, sizeof(in), &r, 0));
    CHECK_OK(NULL, network_barrier());
    send_number(7, 1, 1);
    send_number(7, 1, 2);
    expect_number(7, 1, 2);
    MSG_OK(rmsg_wait(msg, &r, NULL, 0));
    CHECK(NULL, in == 1);
    CHECK_OK(
        NULL,
        network_barrier()); /* no message of the next case comes before its receive is posted */
}

/* The next message of a link may not be the one that a blocking receive waits for. */
static void other_messages_first(void)
{
    posted_before(from, 1);
    posted_before(RMSG_ANY_SOURCE, 1);
    posted_before(from, RMSG_ANY_TAG);
    send_number(7, 2, 1); /* another tag, another space; then those wait, in order */
    send_number(8, 3, 2);
    send_number(7, 2, 3);
    send_number(7, 3, 4);
    expect_number(7, 3, 4);
    send_number(7, 2, 5);
    expect_number(7, 2, 1);
    expect_number(7, 2, 3);
    expect_number(7, 2, 5);
    expect_number(8, 3, 2);
    send_number(8, 4, 6); /* the same tag in another space */
    send_number(7, 4, 7);
    expect_number(7, 4, 7);
    expect_number(8, 4, 6);
}

/* Of every length, with a wildcard, and longer than the buffer. */
static void lengths(void)
{
    uint64_t three[3] = {1, 2, 3}, in[2] = {0, 77};
    rmsg_status_t status = {0};
    char buf[4000];

    MSG_OK(rmsg_send(msg, to, 7, 4, three, sizeof(three), 0)); /* longer than the buffer */
    MSG_RC(-EMSGSIZE, rmsg_recv(msg, from, 7, 4, in, 8, &status, 0));
    CHECK(NULL, in[0] == 1 && in[1] == 77 && status.bytes == sizeof(three));
    send_number(7, 5, 6);
    MSG_OK(rmsg_recv(msg, from, 7, RMSG_ANY_TAG, in, sizeof(in), &status, 0));
    CHECK(NULL, in[0] == 6 && in[1] == 77 && status.bytes == 8 && status.error == 0);
    CHECK(NULL, status.from == from && status.space == 7 && status.tag == 5);
    MSG_OK(rmsg_send(msg, to, 7, 6, NULL, 0, 0));
    MSG_OK(rmsg_recv(msg, from, 7, 6, NULL, 0, &status, 0));
    CHECK(NULL, status.bytes == 0 && status.tag == 6);
    for (size_t bytes = 1; bytes <= sizeof(buf); bytes += bytes < 64 ? 1 : 1968) {
        pattern_fill(buf, bytes, mp_key(mp_rank, to, 0, bytes));
        MSG_OK(rmsg_send(msg, to, 7, 7, buf, bytes, 0));
        memset(buf, 0, bytes);
        MSG_OK(rmsg_recv(msg, from, 7, 7, buf, sizeof(buf), &status, 0));
        CHECK(NULL,
              status.bytes == bytes && pattern_same(buf, bytes, mp_key(from, mp_rank, 0, bytes)));
    }
    CHECK_OK(NULL, network_barrier());
}

static uint64_t prepared(void)
{
    uint64_t n = 0;

    MSG_OK(rmsg_count(msg, "prepared", &n));
    return n;
}

/* Ranks 0 and 1, by turns: a message each way, filled by its number. */
static void there_and_back(char *buf, size_t bytes, uint64_t number)
{
    for (int turn = 0; turn < 2; turn++) {
        if (mp_rank == turn) {
            pattern_fill(buf + 1, bytes - 1, number * 2 + (uint64_t)turn);
            MSG_OK(rmsg_send(msg, 1 - mp_rank, 7, 8, buf, bytes, 0));
        } else {
            MSG_OK(rmsg_recv(msg, 1 - mp_rank, 7, 8, buf, bytes, NULL, 0));
            CHECK(NULL, pattern_same(buf + 1, bytes - 1, number * 2 + (uint64_t)turn));
        }
    }
}

/* While a rank waits for an answer, memory for its next message is prepared, if the last two had one length. Both go on until both have had it. */
static void prepared_while_waiting(void)
{
    enum { BYTES = 1000 };
    static char buf[4 * BYTES];
    uint64_t number = 0;
    char mine, other;

    if (mp_ranks == 1 || mp_rank > 1 || getenv("RPIPE_BTL") != NULL)
        return;
    do {
        there_and_back(buf, BYTES, number++);
        mine = prepared() > 0;
        if (mp_rank == 1)
            MSG_OK(rmsg_recv(msg, 0, 7, 9, &other, 1, NULL, 0));
        MSG_OK(rmsg_send(msg, 1 - mp_rank, 7, 9, &mine, 1, 0));
        if (mp_rank == 0)
            MSG_OK(rmsg_recv(msg, 1, 7, 9, &other, 1, NULL, 0));
    } while (!mine || !other);
    for (uint64_t i = 0; i < 200; i++) /* then with another length, which does not take it */
        there_and_back(buf, i / 3 % 2 == 0 ? BYTES : 4 * BYTES, number++);
}

/* Rank 0 has a link to rank 1 alone, and only tests a request: it accepts the link of rank 2 meanwhile. */
static void accepted_by_tests(void)
{
    const rmsg_config_t cfg = {.context = 79};
    rmsg_status_t status;
    rmsg_request_t r;
    rmsg_t other;
    char byte = 0;
    int rc = R_PENDING;

    if (mp_ranks < 3)
        return;
    MSG_OK(rmsg_open(&other, &cfg));
    if (mp_rank == 1)
        MSG_OK(rmsg_send(other, 0, 0, 1, &byte, 1, RMSG_SYNC));
    if (mp_rank == 0) {
        MSG_OK(rmsg_recv(other, 1, 0, 1, &byte, 1, NULL, 0));
        MSG_OK(rmsg_irecv(other, RMSG_ANY_SOURCE, 0, 2, &byte, 1, &r, 0));
        MSG_RC(R_PENDING, rmsg_wait(other, &r, NULL, R_NOWAIT));
    }
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 2)
        MSG_OK(rmsg_send(other, 0, 0, 2, &byte, 1, RMSG_SYNC));
    if (mp_rank == 0) {
        while (rc == R_PENDING)
            rc = rmsg_wait(other, &r, &status, R_NOWAIT);
        MSG_OK(rc);
        CHECK(NULL, status.from == 2);
    }
    CHECK_OK(NULL, network_barrier());
    MSG_OK(rmsg_close(other));
}

int main(int argc, char **argv)
{
    const rmsg_config_t cfg = {.context = 78};

    mp_begin(argc, argv, 1);
    to = (mp_rank + 1) % mp_ranks;
    from = (mp_rank + mp_ranks - 1) % mp_ranks;
    MSG_OK(rmsg_open(&msg, &cfg));
    other_messages_first();
    lengths();
    prepared_while_waiting();
    accepted_by_tests();
    MSG_OK(rmsg_close(msg));
    return mp_end();
}
