/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passed_descriptors.c: a rank of the job passes descriptors whose last close waits for many seconds, in every place where it can pass
 * one, and keeps no copy: no call of the others waits with it, nor does rexit.
 *
 * Once as the kernel is, and once as on one that cannot refuse descriptors (SO_PASSRIGHTS).
 */
#include "test/lib/job.h"
#include "test/lib/lingering.h"

#include "control/control.h"
#include "observe/record/trace_clock.h"
#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"
#include "util/received_fd.h"
#include "util/received_socket.h"

#include <poll.h>

/* passed_descriptors_wire.c: the socket of the outgoing connection; a frame for it, and its length */
int wire_socket(int peer);
size_t wire_make_frame(uint8_t *to, uint32_t type, const void *body, size_t bytes, int nfds);

enum { VICTIM, HOSTILE, HONEST, RANKS };
enum { TRAFFIC = 1, TO_HOSTILE, UNOPENED, WITH_FD, CLOSED_BY_PEER };
#define PASS_MS 2000   /* of a call of the byzantine rank: then its own close is the last one */
#define MOST_MS 3000.0 /* of a call, on a machine that is busy; one that waits takes LINGER_S */

struct mode {
    bool old_kernel;
};

static double slowest;
static const char *slowest_call = "none";

#define TIMED(call)                                                                                \
    do {                                                                                           \
        double since_ = now_ms();                                                                  \
        call;                                                                                      \
        if (now_ms() - since_ > slowest)                                                           \
            slowest = now_ms() - since_, slowest_call = #call;                                     \
    } while (0)

static rpipe_config_t config_of(int peer, bool writer, uint64_t context)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, peer, writer, 1 << 12);

    cfg.context = context;
    return cfg;
}

/* ---- the byzantine rank ---- */

static int lingering(void)
{
    static int other[64], n; /* open as long as this process is */

    return lingering_socket(&other[n++]);
}

/* Bytes that a thread passes with n times a descriptor, of which it then closes its own. */
struct passing {
    int socket, fd, n;
    size_t bytes;
    uint8_t what[1024];
    _Atomic int result; /* 1: not done yet */
};

static void *passes(void *of)
{
    struct passing *p = of;
    int rc = pass_descriptor(p->socket, p->what, p->bytes, p->fd, p->n);

    if (rc == 0)
        close(p->fd);
    atomic_store(&p->result, rc);
    return NULL;
}

/* True: the last close is that of the receiver. False: it was faster than this process, whose own close waits now; the thread is
 * left in it. */
static bool pass_once(int socket, const void *what, size_t bytes, int n, int *rc)
{
    struct passing *p = calloc(1, sizeof(*p));
    int64_t patience = deadline_in_ms(PASS_MS);
    pthread_t thread;

    CHECK(NULL, p != NULL && bytes <= sizeof(p->what));
    *p = (struct passing){.socket = socket, .fd = lingering(), .n = n, .bytes = bytes, .result = 1};
    memcpy(p->what, what, bytes);
    CHECK(NULL, pthread_create(&thread, NULL, passes, p) == 0);
    while (atomic_load(&p->result) == 1 && !deadline_passed(patience))
        backoff_us(100);
    *rc = atomic_load(&p->result);
    if (*rc == 1) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    free(p);
    return true;
}

/* A descriptor whose last close waits, n times, of which the receiver has the last one. 0, or -errno: it is refused. */
static int pass_last(int socket, const void *what, size_t bytes, int n)
{
    int rc = 1;

    for (int tries = 0; tries < 10; tries++) {
        if (pass_once(socket, what, bytes, n, &rc))
            return rc;
    }
    CHECK(NULL, rc != 1);
    return rc;
}

/* A message to the victim with such a descriptor. */
static void post_lingering(uint32_t type, const void *body, size_t bytes)
{
    uint8_t frame[1024];

    CHECK(NULL, control_flush(VICTIM, deadline_in_ms(PATIENCE_MS)) == 0);
    bytes = wire_make_frame(frame, type, body, bytes, 1);
    CHECK(NULL, pass_last(wire_socket(VICTIM), frame, bytes, 1) == 0);
}

/* The mode of events of a pipe of which the byzantine rank is the reader. */
static void request_events(rch_t reader)
{
    struct end_message_head head = message_head(reader, sizeof(head), 0);

    post_lingering(MESSAGE_EVENT_ON, &head, sizeof(head));
}

static void attack_by_messages(void)
{
    const uint64_t segment[3] = {1, 7, 4096}; /* as in shm.c: shared memory */
    const uint64_t number[4] = {8};

    post_lingering(99, number, sizeof(number)); /* no message of this library */
    post_lingering(MESSAGE_CLOCK, number, sizeof(number));
    post_lingering(MESSAGE_BTL, segment, sizeof(segment));
    post_lingering(MESSAGE_CLOSE, number, sizeof(number));
}

/* Into the socket by which a writer makes rfd of the reader readable. */
static void attack_by_signal(rch_t writer)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);

    while ((atomic_load(&writer->state) & STATE_EVENT) == 0 && !deadline_passed(patience))
        backoff_us(100);
    (void)pass_last(writer->signal_fd, "", 1, 1); /* -EPERM: it is refused */
}

/* More than a message has, several times; the rest of them is in the socket when it is closed. `socket`: a duplicate, since the
 * victim ends the connection. */
static void attack_by_frames(int socket)
{
    for (int i = 0; i < 3; i++)
        (void)pass_last(socket, "x", 1, 253);
}

static void hostile_rank(struct board *board)
{
    rpipe_config_t cfg = config_of(VICTIM, false, TO_HOSTILE);
    rch_t reader, unopened, writer;
    int victim, honest;

    CHECK(NULL, rpipe(&reader, &cfg) == 0);
    cfg = config_of(VICTIM, false, UNOPENED);
    CHECK(NULL, rpipe(&unopened, &cfg) == 0);
    cfg = config_of(VICTIM, true, WITH_FD);
    CHECK(NULL, rpipe(&writer, &cfg) == 0 && rwait(writer) == 0 && rwait(reader) == 0);
    request_events(reader);
    request_events(reader); /* the second one is not kept */
    request_events(unopened);
    attack_by_messages();
    attack_by_signal(writer);
    rank_reached(board, HOSTILE, 1);
    rank_wait_go(board, 1);
    CHECK(NULL, control_post(HONEST, 99, "12345678", 8, NULL, 0) == 0);
    CHECK(NULL, control_flush(HONEST, deadline_in_ms(PATIENCE_MS)) == 0);
    victim = dup(wire_socket(VICTIM));
    honest = dup(wire_socket(HONEST));
    attack_by_frames(victim);
    attack_by_frames(honest);
    rank_reached(board, HOSTILE, 2);
    rank_wait_go(board, 2);
    _exit(0);
}

/* ---- the others ---- */

static void carry(int rank, uint64_t key)
{
    rpipe_config_t cfg = config_of(rank == VICTIM ? HONEST : VICTIM, rank == HONEST, TRAFFIC);
    size_t size = 0;
    raddr_t d;
    rch_t ch;

    TIMED(CHECK(NULL, rpipe(&ch, &cfg) == 0));
    for (uint64_t i = 0; i < 5 && rank == HONEST; i++) {
        d = rmalloc(ch, 500);
        CHECK(ch, d != ADDR_NULL);
        pattern_fill(rmem(ch, d), 500, key + i);
        TIMED(CHECK(ch, rwrite(ch, d) == 0));
    }
    for (uint64_t i = 0; i < 5 && rank == VICTIM; i++) {
        TIMED(CHECK(ch, rread(ch, &d, &size) == 0));
        CHECK(ch, size == 500 && pattern_same(rmem(ch, d), size, key + i));
        CHECK(ch, rfree(ch, d) == 0);
    }
    TIMED(CHECK(ch, rclose(ch) == 0));
}

static bool hostile_is(struct board *board, int phase)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);

    while (atomic_load(&board->rank[HOSTILE].phase) < phase && !deadline_passed(patience))
        backoff_us(1000);
    return atomic_load(&board->rank[HOSTILE].phase) >= phase;
}

static void victim_before(rch_t *to_hostile, rch_t *with_fd)
{
    rpipe_config_t cfg = config_of(HOSTILE, true, TO_HOSTILE);
    int rc;

    CHECK(NULL, rpipe(to_hostile, &cfg) == 0);
    cfg = config_of(HOSTILE, false, WITH_FD);
    CHECK(NULL, rpipe(with_fd, &cfg) == 0 && rfd(*with_fd) >= 0 && rwait(*with_fd) == 0);
    rc = rwait(*to_hostile);
    CHECK(*to_hostile, rc == 0 || rc == -EPROTO); /* what it passed for its signals is refused */
}

static void victim_after(rch_t to_hostile, rch_t with_fd)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    raddr_t d;
    int rc;

    /* what was passed for its signals is no Unix socket: nothing is sent to it */
    while ((atomic_load(&to_hostile->state) & STATE_FAILED) == 0 && !deadline_passed(patience))
        backoff_us(1000);
    CHECK(to_hostile, to_hostile->failure == -EPROTO);
    do /* the descriptor is readable; what it carries is examined here */
        TIMED(rc = rread_nb(with_fd, &d, NULL));
    while (rc == R_PENDING && !atomic_load(&with_fd->r.acked));
    TIMED(rc = rread_nb(with_fd, &d, NULL));
    CHECK(with_fd, rc == R_PENDING || (rc == -EPROTO && received_refuses_never) ||
                       (rc == -EPROTO && !with_fd->event_plain));
    TIMED((void)rclose(with_fd));
    TIMED((void)rclose(to_hostile)); /* has the descriptor of the first request */
}

static void other_rank(int rank, struct board *board)
{
    rch_t to_hostile = NULL, with_fd = NULL;
    uint64_t key = 0;

    if (rank == VICTIM)
        victim_before(&to_hostile, &with_fd);
    carry(rank, key += 100);
    CHECK(NULL, hostile_is(board, 1));
    carry(rank, key += 100);
    if (rank == VICTIM)
        victim_after(to_hostile, with_fd);
    carry(rank, key += 100);
    TIMED(CHECK(NULL, network_send(rank == VICTIM ? HONEST : VICTIM, "x", 1) == 0));
    CHECK(NULL, network_recv(rank == VICTIM ? HONEST : VICTIM, &(char){0}, 1) == 0);
    rank_reached(board, rank, 1);
    CHECK(NULL, hostile_is(board, 2));
    for (int i = 0; i < 20; i++)
        carry(rank, key += 100);
    TIMED(CHECK(NULL, rexit() == 0));
    EXPECT(slowest < MOST_MS, "rank %d: %s took %.0f ms", rank, slowest_call, slowest);
    rank_reached(board, rank, 2);
}

static int play(int rank, struct board *board, const void *arguments)
{
    const struct mode *mode = arguments;

    received_refuses_never = mode->old_kernel;
    setenv("RPIPE_CONTROL", "unix", 1);
    setenv("RPIPE_LOG", "error", 0);
    CHECK(NULL, rinit(NULL, NULL) == 0 && network_barrier() == 0);
    if (rank == HOSTILE)
        hostile_rank(board);
    other_rank(rank, board);
    return atomic_load(&check_failures) != 0;
}

static void test(bool old_kernel)
{
    const struct mode mode = {old_kernel};
    struct job job;

    job_prepare(&job, RANKS);
    job_start(&job, play, &mode);
    if (job_reached(&job, HOSTILE, 1) && job_reached(&job, VICTIM, 1) &&
        job_reached(&job, HONEST, 1))
        atomic_store(&job.board->go, 1);
    for (int rank = 0; rank < RANKS; rank += 2) {
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0), "rank %d: status 0x%x", rank,
               job.status[rank]);
    }
    atomic_store(&job.board->go, 2);
    EXPECT(job_ended(&job, HOSTILE) && job_status_is(&job, HOSTILE, 0), "the byzantine rank: 0x%x",
           job.status[HOSTILE]);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    (void)argc;
    test(false);
    test(true);
    return check_report(argv[0]);
}
