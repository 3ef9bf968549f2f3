/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kept_handshakes.c: handshakes and close messages of ends that this process has not opened. What a peer sends of them costs this
 * process in proportion; they are paired in order, also where memory is missing for an answer; a pipe that was closed in order ends
 * with R_EOF, also when the peer has died since; and a peer that does not receive its answers is cut off.
 *
 * Messages are delivered here as if they had come from another rank.
 */
#include "failing_calls.h"
#include "test/lib/job.h"
#include "test/lib/resources.h"

#include "control/control.h"
#include "rpipe/connect/ends.h"
#include "rpipe/connect/handshake.h"

#include <time.h>

#define HEAP 4096
#define ANSWERS_MOST (1u << 20) /* of rpipe/end/message.c */

/* ---- messages of another rank ---- */

static struct end_message_head head_of(uint64_t context, uint32_t number, bool writer, size_t bytes)
{
    return (struct end_message_head){.bytes = (uint32_t)bytes,
                                     .version = PROTOCOL_NEWEST,
                                     .role = writer ? SIDE_WRITER : SIDE_READER,
                                     .context = context,
                                     .end_number = number};
}

static int deliver_handshake(int rank, uint64_t context, uint32_t number, bool writer,
                             rpipe_op_t op)
{
    struct handshake h = {.magic = 0x65706972u, .alloc_size = HEAP, .op = (uint8_t)op};

    h.head = head_of(context, number, writer, sizeof(h));
    return message_dispatch(rank, MESSAGE_HANDSHAKE, &h, sizeof(h), NULL, 0);
}

static int deliver_close(int rank, uint64_t context, uint32_t number, bool writer)
{
    struct end_message_head head = head_of(context, number, writer, sizeof(head));

    return message_dispatch(rank, MESSAGE_CLOSE, &head, sizeof(head), NULL, 0);
}

static long entries(void)
{
    struct rendezvous *m = NULL;
    long n = 0;

    rendezvous_lock();
    while ((m = rendezvous_next(m)) != NULL)
        n++;
    rendezvous_unlock();
    return n;
}

static bool waits(const struct rendezvous *m)
{
    struct link *cursor, *after;

    list_for_each (cursor, after, &m->handshakes)
        if (!container_of(cursor, struct rendezvous_handshake, link)->close_message)
            return true;
    return false;
}

static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- what they cost ---- */

#define MANY 30000       /* of each role */
#define COSTS_MOST 5.0   /* a search of the entries for each makes it more than 100 */
#define CHECK_US 2000000 /* roles.c compares all that wait after a second */

/* The service thread searches for ends that were opened by mistake: the entries of a peer are walked once. */
static void costs_are_in_proportion(void)
{
    double began = processor_seconds(), delivered, checked;

    for (uint32_t i = 0; i < 2 * MANY; i++)
        EXPECT(deliver_handshake(7, 1000 + i, 1 + i, i < MANY, RPIPE_PUT) == 0, "handshake %u", i);
    delivered = processor_seconds() - began;
    usleep(CHECK_US);
    checked = processor_seconds() - began - delivered;
    printf("%d handshakes: %.0f ms, their check %.0f ms\n", 2 * MANY, delivered * 1e3,
           checked * 1e3);
    EXPECT(checked <= COSTS_MOST * delivered, "%.3f s, and %.3f s for %d handshakes", checked,
           delivered, 2 * MANY);
    ends_peer_gone(7, true);
}

/* Closed handshakes before the first one that waits: it is found without a walk. */
static void the_first_that_waits_is_listed(void)
{
    double began = processor_seconds(), delivered, listed;
    rpipe_config_t found[2];
    uint64_t seen = 0;

    for (uint32_t i = 0; i < MANY; i++) {
        EXPECT(deliver_handshake(8, 5, 1 + i, true, RPIPE_PUT) == 0, "handshake %u", i);
        EXPECT(deliver_close(8, 5, 1 + i, true) == 0, "close message %u", i);
    }
    EXPECT(rpending(5, &seen, found, 2) == 0, "all are closed");
    delivered = processor_seconds() - began;
    EXPECT(deliver_handshake(8, 5, MANY + 1, true, RPIPE_GET) == 0, "a handshake");
    EXPECT(deliver_handshake(8, 5, MANY + 2, true, RPIPE_PUT) == 0, "and another one");
    began = processor_seconds();
    for (int i = 0; i < MANY; i++) {
        seen = 0;
        EXPECT(rpending(5, &seen, found, 2) == 1 && found[0].peer == 8 &&
                   found[0].role == RPIPE_READER && found[0].op == RPIPE_GET,
               "the first that waits is GET, not %d of %d", found[0].op, found[0].peer);
        if (check_failures > 0)
            break;
    }
    listed = processor_seconds() - began;
    printf("%d closed handshakes: %.0f ms; rpending as often: %.0f ms\n", MANY, delivered * 1e3,
           listed * 1e3);
    EXPECT(listed <= COSTS_MOST * delivered, "%.3f s, and %.3f s for %d handshakes", listed,
           delivered, MANY);
    EXPECT(deliver_close(8, 5, MANY + 1, true) == 0, "the first is closed");
    seen = 0;
    EXPECT(rpending(5, &seen, found, 2) == 1 && found[0].op == RPIPE_PUT, "the second is PUT");
    ends_peer_gone(8, false);
    seen = 0;
    EXPECT(rpending(5, &seen, found, 2) == 0, "of a rank that is gone");
}

static int alone(int rank, struct board *board, const void *arguments)
{
    (void)rank, (void)board, (void)arguments;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    costs_are_in_proportion();
    the_first_that_waits_is_listed();
    CHECK(NULL, rexit() == 0);
    fflush(stdout);
    return check_failures > 0;
}

/* ---- answers ---- */

/* On the service thread: nothing that is posted is sent meanwhile. */
static void close_messages_without_memory(void)
{
    int64_t at = 1;
    bool failed = failing_memory;

    for (uint32_t n = 0; failed; n++, at++) {
        uint64_t before = control_backlog(1);
        struct rendezvous *m;
        int rc;

        EXPECT(deliver_handshake(1, 50, 1000 + n, true, RPIPE_PUT) == 0, "handshake %u", n);
        failing_arm((struct place){at, at});
        rc = deliver_close(1, 50, 1000 + n, true);
        (void)failing_disarm();
        failed = failing_occurred();
        EXPECT(rc == (failed ? -ENOMEM : 0), "%d, when %s fails", rc, failing_name());
        EXPECT(control_backlog(1) == before + !failed, "answers, when %s fails", failing_name());
        rendezvous_lock();
        m = rendezvous_find(1, SIDE_READER, 50, false);
        EXPECT(m != NULL && waits(m) == failed, "a message that has failed did nothing");
        rendezvous_unlock();
        rc = deliver_close(1, 50, 1000 + n, true); /* again, as the control network does */
        EXPECT(rc == 0 && control_backlog(1) == before + 1, "%d, one answer", rc);
    }
    EXPECT(at > 2 || !failing_memory, "%lld allocations", (long long)at);
}

static void handshakes_without_memory(void)
{
    bool failed = failing_memory;
    uint32_t n = 0;

    for (; failed; n++) { /* it is not kept, and answered; the answer fails too: again */
        int rc;

        failing_arm((struct place){1 + n / 2, n % 2 == 0 ? INT64_MAX : 1 + n / 2});
        rc = deliver_handshake(1, 60, 5000 + n, true, RPIPE_PUT);
        (void)failing_disarm();
        failed = failing_occurred();
        EXPECT(rc == (failed && n % 2 == 0 ? -ENOMEM : 0), "%d, when %s fails", rc, failing_name());
        EXPECT(deliver_handshake(1, 60, 5000 + n, true, RPIPE_PUT) == 0, "again");
    }
}

static void close_messages_without_end(int rank, bool then_handshake)
{
    long before = (long)resources_heap_bytes(), most;
    uint32_t n = 0, kept = then_handshake ? RENDEZVOUS_KEPT_MAX : 0;

    for (uint32_t i = 0; i < kept; i++)
        EXPECT(deliver_handshake(rank, 70, 1 + i, true, RPIPE_PUT) == 0, "handshake %u", i);
    while (control_peer_state(rank) == 0 && n < ANSWERS_MOST + 1000) {
        if (then_handshake && control_backlog(rank) > ANSWERS_MOST)
            EXPECT(deliver_handshake(rank, 70, 1 + kept, true, RPIPE_PUT) == 0, "one more");
        else
            EXPECT(deliver_close(rank, 71, 1 + kept + n, true) == 0, "close message %u", n);
        n++;
    }
    most = (long)resources_heap_bytes() - before;
    EXPECT(control_peer_state(rank) == -ECONNRESET, "rank %d has %u answers, and %llu to come",
           rank, n, (unsigned long long)control_backlog(rank));
    EXPECT(n <= ANSWERS_MOST + 2, "%u answers", n);
    EXPECT(most <= 1 << 20, "%ld bytes stay", most);
    printf("rank %d was cut off after %u answers; %ld bytes stay\n", rank, n, most);
}

static _Atomic bool answered;

static void answers(void *unused)
{
    (void)unused;
    close_messages_without_memory();
    handshakes_without_memory();
    close_messages_without_end(1, false);
    close_messages_without_end(2, true);
    atomic_store(&answered, true);
}

static int rank_that_answers(int rank, struct board *board, const void *arguments)
{
    (void)arguments;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    CHECK(NULL, network_barrier() == 0);
    rank_reached(board, rank, 1);
    if (rank != 0) {
        rank_wait_go(board, 1);
        return 0;
    }
    CHECK(NULL, control_watch(-1, 0, answers, NULL) == 0);
    while (!atomic_load(&answered))
        usleep(1000);
    fflush(stdout);
    return check_failures > 0;
}

/* ---- R_EOF ---- */

static rch_t open_end(bool writer, int peer, uint64_t context)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, peer, writer, HEAP);
    rch_t ch = NULL;

    cfg.context = context;
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

#define CONTEXTS 20u
#define GONE_KEPT 256 /* of control/rendezvous.h */

static int reader_comes_late(int rank, struct board *board, const void *arguments)
{
    const bool *dies = arguments;
    int64_t deadline = deadline_in_ms(PATIENCE_MS);
    long before;
    rch_t ch;
    raddr_t d;

    CHECK_OK(NULL, rinit(NULL, NULL));
    if (rank == 1) {
        for (uint32_t i = 0; i < CONTEXTS; i++)
            CHECK_OK(NULL, rclose(open_end(true, 0, i)));
        (void)open_end(true, 0, CONTEXTS); /* and one that stays open */
        CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
        if (*dies)
            _exit(0);
        (void)rexit(); /* rank 0 does not come: it ends with its deadline */
        return 0;
    }
    while (control_peer_state(1) == 0 && !deadline_passed(deadline))
        usleep(1000);
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        ch = open_end(false, 1, i);
        CHECK_RC(R_EOF, ch, rread(ch, &d, NULL));
        CHECK_OK(ch, rclose(ch));
    }
    ch = open_end(false, 1, CONTEXTS); /* rexit closes it */
    CHECK_RC(*dies ? -ECONNRESET : R_EOF, ch, rread(ch, &d, NULL));
    CHECK_OK(ch, rclose(ch));
    ch = open_end(false, 1, CONTEXTS + 1); /* and one that it has not opened */
    CHECK_RC(*dies ? -ECONNRESET : -EPIPE, ch, rread(ch, &d, NULL));
    CHECK(ch, strstr(rerror(ch), "has not opened") == NULL);
    CHECK_OK(ch, rclose(ch));
    /* of ranks that are gone the latest stay */
    before = entries();
    for (uint32_t i = 0; i < 4 * GONE_KEPT; i++) {
        CHECK(NULL, deliver_handshake(100 + (int)i, 9, 1, true, RPIPE_PUT) == 0);
        CHECK(NULL, deliver_close(100 + (int)i, 9, 1, true) == 0);
        ends_peer_gone(100 + (int)i, i % 2 == 0);
    }
    EXPECT(entries() <= before + GONE_KEPT, "%ld entries, before %ld", entries(), before);
    CHECK_OK(NULL, rexit());
    (void)board;
    return check_failures > 0;
}

/* ---- */

static void run(rank_function f, int size, const void *arguments)
{
    struct job job;

    job_prepare(&job, size);
    job_start(&job, f, arguments);
    if (job_ended(&job, 0))
        EXPECT(job_status_is(&job, 0, 0), "status 0x%x", job.status[0]);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    static const bool ways[] = {true, false};

    (void)argc;
    setenv("RPIPE_TIMEOUT_MS", "1500", 1);
    run(alone, 1, NULL);
    run(rank_that_answers, 3, NULL);
    for (int i = 0; i < 2; i++)
        run(reader_comes_late, 2, &ways[i]);
    return check_report(argv[0]);
}
