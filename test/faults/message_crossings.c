/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_crossings.c: messages of a link that cross, and deadlines in the middle of a copy. Each crossing is forced: a rank stands
 * still at a failpoint (lib/util/failpoint.h) until the other one has passed its own. All are played in shared memory and over tcp.
 *
 *   offered       an offer and an advertisement cross: the sender moves the payload for the advertisement
 *   fetched       over tcp: the same, and the offer names a window: the receiver fetches the payload while the sender makes no call
 *   placed        UNDO crosses PLACED: the receive completes with the message
 *   small         UNDO crosses a small message for the advertised receive: the same, and without a further call of the sender
 *   both          RTR and UNDO cross an offer: the same
 *   second        of two receives the first is cancelled, and UNDO crosses PLACED for it: the second one gets the next message
 *   forgotten     UNDO is answered first: the receive is cancelled, and a later one gets the message
 *   late_receive  a blocking receive reaches its deadline while the sender writes a chunk: its buffer is not written afterwards
 *   late_send     a blocking send reaches its deadline while the receiver fetches a chunk: the receive is -ECANCELED
 *   late_fetch    over tcp: a blocking receive reaches its deadline while it fetches: its buffer is not written afterwards, its sender is done
 *   late_window   over tcp: a blocking receive, whose window has been announced, reaches its deadline: what is written then is lost
 *   late_refused  over tcp: the same, after the offer, and the sender refuses the RTR, for which it is too late: it sends parts, which are lost
 *   late_write    over tcp: a blocking send reaches its deadline while it writes: the receive is -ECANCELED
 */
#define RPIPE_FAILPOINTS /* for struct failpoint */
#include "util/failpoint.h"

#include "test/lib/job.h"

#include <rmsg.h>

enum { LARGE = 200000, LONG = 64 << 20, TAG = 5, SHORT_MS = 200, LONG_MS = 20000 };

static char out[LARGE], in[LARGE], second[LARGE];
static bool network;

/* ---- standing still ---- */

static struct {
    struct board *board;
    int rank;
    const char *name; /* where; NULL: nowhere */
    uint64_t until;   /* the other rank's steps */
    bool passed;
} stand;

static _Atomic uint64_t *steps(int rank) { return &stand.board->rank[rank].done; }
static void take_step(void) { atomic_fetch_add(steps(stand.rank), 1); }

static void wait_for_step(uint64_t n)
{
    const int64_t patience = deadline_in_ms(LONG_MS);

    while (atomic_load(steps(1 - stand.rank)) < n) {
        CHECK(NULL, !deadline_passed(patience));
        backoff_us(20);
    }
}

/* In place of that of failpoint.c. */
void failpoint_reached(const struct failpoint *failpoint)
{
    const char *name = stand.name;

    if (name == NULL || strcmp(failpoint->name, name) != 0)
        return;
    stand.name = NULL; /* once */
    stand.passed = true;
    take_step();
    wait_for_step(stand.until);
}

static void stand_at(const char *name, uint64_t until)
{
    stand.name = name;
    stand.until = until;
    stand.passed = false;
}

/* ---- the two ranks ---- */

struct crossing {
    rmsg_t msg;
    int rank;
    rmsg_request_t r;
    bool copies;
};

static uint64_t count(const struct crossing *c, const char *name)
{
    uint64_t value = 0;

    CHECK(NULL, rmsg_count(c->msg, name, &value) == 0);
    return value;
}

static void receive(struct crossing *c, void *buf, rmsg_request_t *r)
{
    CHECK(NULL, rmsg_irecv(c->msg, 0, 0, TAG, buf, LARGE, r, 0) == 0);
}

static void send(struct crossing *c, size_t bytes, rmsg_request_t *r)
{
    CHECK(NULL, rmsg_isend(c->msg, 1, 0, TAG, out, bytes, r, 0) == 0);
}

/* The link is open, and cells are there if they can be; both ranks have taken as many steps. */
static void open_link(struct crossing *c)
{
    for (int i = 0; i < 3; i++) {
        rmsg_request_t r[2];

        CHECK(NULL, rmsg_irecv(c->msg, 1 - c->rank, 1, 1, in, LARGE, &r[0], 0) == 0);
        CHECK(NULL, rmsg_isend(c->msg, 1 - c->rank, 1, 1, out, LARGE, &r[1], 0) == 0);
        CHECK(NULL, rmsg_wait_all(c->msg, r, 2, NULL, 0) == 0);
    }
    c->copies = count(c, "sent_shared") > 0;
    memset(in, 0, LARGE);
    pattern_fill(out, LARGE, 1);
}

static void arrived(const char *buf, size_t bytes) { CHECK(NULL, pattern_same(buf, bytes, 1)); }

static void offered(struct crossing *c)
{
    const uint64_t before = count(c, "moved_for_rtr");

    stand_at(c->rank == 0 ? "rmsg send: RTS written" : "rmsg receive: RTR written", 1);
    if (c->rank == 1)
        receive(c, in, &c->r);
    else if (network) /* no window, since it may end at its deadline */
        CHECK(NULL, rmsg_send(c->msg, 1, 0, TAG, out, LARGE, 0) == 0);
    else
        send(c, LARGE, &c->r);
    CHECK(NULL, stand.passed);
    if (c->rank == 1 || !network)
        CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == 0);
    if (c->rank == 0)
        CHECK(NULL, count(c, "moved_for_rtr") == before + 1);
    else
        arrived(in, LARGE);
}

static void fetched(struct crossing *c)
{
    const uint64_t before = count(c, "fetched");

    if (!network)
        return;
    stand_at(c->rank == 0 ? "rmsg send: RTS written" : "rmsg receive: RTR written", 1);
    if (c->rank == 1) {
        CHECK(NULL, rmsg_recv(c->msg, 0, 0, TAG, in, LARGE, NULL, 0) == 0);
        CHECK(NULL, count(c, "fetched") == before + 1);
        take_step();
        arrived(in, LARGE);
        return;
    }
    send(c, LARGE, &c->r);
    CHECK(NULL, stand.passed);
    wait_for_step(2);
    CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == 0);
}

/* The sender has the advertisement; then its message and UNDO cross. */
static void crosses_undo(struct crossing *c, size_t bytes, bool known)
{
    if (c->rank == 1) {
        receive(c, in, &c->r);
        take_step();
        if (known)
            wait_for_step(1);
        stand_at("rmsg cancel: UNDO written", known ? 2 : 1);
        CHECK(NULL, rmsg_cancel(c->msg, c->r) == 0);
        CHECK(NULL, stand.passed);
        CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == 0);
        arrived(in, bytes);
        return;
    }
    wait_for_step(1);
    if (known) {
        CHECK(NULL, rmsg_progress(c->msg) == 0);
        CHECK(NULL, count(c, "rtr_stored") > 0);
        take_step();
    }
    wait_for_step(2); /* UNDO is in the ring, and not read */
    send(c, bytes, &c->r);
    take_step();
    CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == 0);
    CHECK(NULL, !known || bytes < LARGE || count(c, "sent_placed") > 0);
}

static void placed(struct crossing *c) { crosses_undo(c, LARGE, true); }
static void small(struct crossing *c) { crosses_undo(c, 100, true); }
static void both(struct crossing *c) { crosses_undo(c, LARGE, false); }

static void of_two(struct crossing *c)
{
    rmsg_request_t other;

    if (c->rank == 1) {
        receive(c, in, &c->r);
        receive(c, second, &other);
        take_step();
        wait_for_step(1);
        stand_at("rmsg cancel: UNDO written", 2);
        CHECK(NULL, rmsg_cancel(c->msg, c->r) == 0);
        CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == 0);
        arrived(in, LARGE);
        CHECK(NULL, rmsg_wait(c->msg, &other, NULL, 0) == 0);
        CHECK(NULL, pattern_same(second, LARGE / 2, 2));
        return;
    }
    wait_for_step(1);
    CHECK(NULL, rmsg_progress(c->msg) == 0);
    take_step();
    wait_for_step(2);
    send(c, LARGE, &c->r);
    take_step();
    CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == 0);
    pattern_fill(out, LARGE, 2);
    CHECK(NULL, rmsg_send(c->msg, 1, 0, TAG, out, LARGE / 2, 0) == 0);
}

static void forgotten(struct crossing *c)
{
    if (c->rank == 1) {
        receive(c, in, &c->r);
        CHECK(NULL, rmsg_cancel(c->msg, c->r) == 0);
        take_step();
        CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == -ECANCELED);
        CHECK(NULL, rmsg_recv(c->msg, 0, 0, TAG, second, LARGE, NULL, 0) == 0);
        arrived(second, LARGE);
        CHECK(NULL, in[0] == 0 && in[LARGE - 1] == 0);
        return;
    }
    wait_for_step(1);
    stand_at("rmsg cancel: RTRs forgotten, before UNDONE", 0);
    CHECK(NULL, rmsg_progress(c->msg) == 0);
    CHECK(NULL, stand.passed);
    CHECK(NULL, rmsg_send(c->msg, 1, 0, TAG, out, LARGE, 0) == 0);
}

/* ---- deadlines ---- */

static void goes_on(struct crossing *c)
{
    if (c->rank == 0)
        CHECK(NULL, rmsg_send(c->msg, 1, 0, TAG, out, LARGE, 0) == 0);
    else
        CHECK(NULL, rmsg_recv(c->msg, 0, 0, TAG, second, LARGE, NULL, 0) == 0);
    if (c->rank == 1)
        arrived(second, LARGE);
}

static void late_receive(struct crossing *c)
{
    int rc;

    if (!c->copies)
        return;
    if (c->rank == 1) {
        CHECK(NULL, rmsg_set_timeout(c->msg, SHORT_MS) == 0);
        do { /* the offer has come */
            rc = rmsg_probe(c->msg, 0, 0, TAG, NULL, 0);
        } while (rc == -ETIMEDOUT);
        CHECK(NULL, rc == 0);
        stand_at("rmsg copy: chunk taken", 1); /* until the sender has taken one, too */
        rc = rmsg_recv(c->msg, 0, 0, TAG, in, LARGE, NULL, 0);
        REQUIRE(rc == -ETIMEDOUT, "%d: %s", rc, rerror(NULL));
        memset(in, 0x55, LARGE);
        take_step(); /* the sender goes on to write */
        wait_for_step(2);
        for (size_t i = 0; i < LARGE; i++)
            REQUIRE(in[i] == 0x55, "byte %zu was written after the receive had returned", i);
        rc = rmsg_send(c->msg, 0, 0, TAG, out, 8, 0);
        REQUIRE(rc == -ETIMEDOUT, "%d: %s", rc, rerror(NULL)); /* how the link has ended */
        return;
    }
    send(c, LARGE, &c->r);
    stand_at("rmsg copy: chunk taken", 2);
    rc = rmsg_wait(c->msg, &c->r, NULL, 0);
    /* 0: the receiver has thrown the payload away */
    REQUIRE(rc == 0 || rc == -ECONNRESET || rc == -EPIPE, "%d: %s", rc, rerror(NULL));
    take_step();
}

static void late_send(struct crossing *c)
{
    int rc;

    if (!c->copies)
        return;
    if (c->rank == 1) {
        stand_at("rmsg copy: chunk taken", 1);
        rc = rmsg_recv(c->msg, 0, 0, TAG, in, LARGE, NULL, 0);
        REQUIRE(rc == -ECANCELED, "%d: %s", rc, rerror(NULL));
    } else {
        CHECK(NULL, rmsg_set_timeout(c->msg, SHORT_MS) == 0);
        rc = rmsg_send(c->msg, 1, 0, TAG, out, LARGE, 0);
        REQUIRE(rc == -ETIMEDOUT, "%d: %s", rc, rerror(NULL));
        take_step();
        CHECK(NULL, rmsg_set_timeout(c->msg, LONG_MS) == 0);
    }
    goes_on(c);
}

/* So many fragments that the deadline, which passes while the first one is posted, is noticed before the last. */
static void late_fetch(struct crossing *c)
{
    char *much = network ? calloc(1, LONG) : NULL;
    const uint64_t fetched = count(c, "fetched");
    int rc;

    if (!network)
        return;
    CHECK(NULL, much != NULL);
    if (c->rank == 0) {
        CHECK(NULL, rmsg_isend(c->msg, 1, 0, TAG, much, LONG, &c->r, 0) == 0);
        CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == 0);
    } else {
        CHECK(NULL, rmsg_probe(c->msg, 0, 0, TAG, NULL, 0) == 0);
        CHECK(NULL, rmsg_set_timeout(c->msg, 1) == 0);
        rc = rmsg_recv(c->msg, 0, 0, TAG, much, LONG, NULL, 0);
        REQUIRE(rc == -ETIMEDOUT, "%d: %s", rc, rerror(NULL));
        memset(much, 0x55, LONG);
        CHECK(NULL, rmsg_set_timeout(c->msg, LONG_MS) == 0);
        CHECK(NULL, count(c, "fetched") == fetched); /* some fragments were not posted */
    }
    goes_on(c);
    for (size_t i = 0; c->rank == 1 && i < LONG; i++)
        REQUIRE(much[i] == 0x55, "byte %zu was written after the receive had returned", i);
    free(much);
}

/* Rank 1: a receive that stands behind its RTR, and reaches its deadline. Its buffer is the program's again, and is marked. */
static void receive_too_late(struct crossing *c)
{
    int rc;

    CHECK(NULL, rmsg_set_timeout(c->msg, SHORT_MS) == 0);
    stand_at("rmsg receive: RTR written", 1);
    rc = rmsg_recv(c->msg, 0, 0, TAG, in, LARGE, NULL, 0);
    REQUIRE(rc == -ETIMEDOUT, "%d: %s", rc, rerror(NULL));
    CHECK(NULL, stand.passed);
    memset(in, 0x55, LARGE);
    CHECK(NULL, rmsg_set_timeout(c->msg, LONG_MS) == 0);
    take_step();
}

static void late_window(struct crossing *c)
{
    const uint64_t placed_before = count(c, "sent_placed"), written = count(c, "written"),
                   stored = count(c, "rtr_stored");

    if (!network)
        return;
    if (c->rank == 1) {
        receive_too_late(c); /* it stands until the sender has it */
    } else {
        wait_for_step(1);
        while (count(c, "rtr_stored") == stored)
            CHECK(NULL, rmsg_progress(c->msg) == 0);
        take_step();
        wait_for_step(2); /* UNDO is in the ring, and not read */
        send(c, LARGE, &c->r);
        CHECK(NULL, count(c, "sent_placed") == placed_before + 1);
        CHECK(NULL, count(c, "written") == written + 1);
        CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == 0);
    }
    goes_on(c);
    for (size_t i = 0; c->rank == 1 && i < LARGE; i++)
        REQUIRE(in[i] == 0x55, "byte %zu was written after the receive had returned", i);
}

static void late_refused(struct crossing *c)
{
    enum { MANY = 1100 }; /* more than the log of the sender has */
    const uint64_t refused = count(c, "rtr_refused");
    rmsg_request_t r[MANY];
    uint64_t small = 7;
    int rc;

    if (!network)
        return;
    if (c->rank == 1) {
        receive_too_late(c); /* it stands until the offer is there */
        for (int i = 0; i < MANY; i++)
            CHECK(NULL, rmsg_recv(c->msg, 0, 0, TAG + 1, &small, sizeof(small), NULL, 0) == 0);
    } else {
        wait_for_step(1); /* the RTR is in the ring, and not read */
        for (int i = 0; i < MANY; i++)
            CHECK(NULL, rmsg_isend(c->msg, 1, 0, TAG + 1, &small, sizeof(small), &r[i], 0) == 0);
        stand_at("rmsg send: RTS written", 2); /* until the receive has ended */
        rc = rmsg_send(c->msg, 1, 0, TAG, out, LARGE, 0);
        REQUIRE(rc == 0, "%d: %s", rc, rerror(NULL));
        CHECK(NULL, stand.passed && count(c, "rtr_refused") == refused + 1);
        CHECK(NULL, rmsg_wait_all(c->msg, r, MANY, NULL, 0) == 0);
    }
    goes_on(c);
    for (size_t i = 0; c->rank == 1 && i < LARGE; i++)
        REQUIRE(in[i] == 0x55, "byte %zu was written after the receive had returned", i);
}

static void late_write(struct crossing *c)
{
    char *much = network ? calloc(1, LONG) : NULL;
    const uint64_t written = count(c, "written");
    int rc;

    if (!network)
        return;
    CHECK(NULL, much != NULL);
    if (c->rank == 1) {
        CHECK(NULL, rmsg_irecv(c->msg, 0, 0, TAG, much, LONG, &c->r, 0) == 0);
        take_step();
        CHECK(NULL, rmsg_wait(c->msg, &c->r, NULL, 0) == -ECANCELED);
    } else {
        wait_for_step(1);
        CHECK(NULL, rmsg_progress(c->msg) == 0);
        CHECK(NULL, count(c, "rtr_stored") > 0);
        CHECK(NULL, rmsg_set_timeout(c->msg, 1) == 0);
        rc = rmsg_send(c->msg, 1, 0, TAG, much, LONG, 0);
        REQUIRE(rc == -ETIMEDOUT, "%d: %s", rc, rerror(NULL));
        memset(much, 0x55, LONG);
        CHECK(NULL, rmsg_set_timeout(c->msg, LONG_MS) == 0);
        CHECK(NULL, count(c, "written") == written);
    }
    goes_on(c);
    for (size_t i = 0; c->rank == 1 && i < LONG; i++)
        REQUIRE(much[i] == 0, "byte %zu was sent after the send had returned", i);
    free(much);
}

/* ---- the test ---- */

static const struct {
    const char *name;
    void (*play)(struct crossing *c);
} cases[] = {{"offered", offered},
             {"fetched", fetched},
             {"placed", placed},
             {"small", small},
             {"both", both},
             {"second", of_two},
             {"forgotten", forgotten},
             {"late_receive", late_receive},
             {"late_send", late_send},
             {"late_fetch", late_fetch},
             {"late_window", late_window},
             {"late_refused", late_refused},
             {"late_write", late_write}};

static int be(int rank, struct board *board, const void *arguments)
{
    const rmsg_config_t cfg = {.slots = 2048, .timeout_ms = LONG_MS}; /* slots: late_refused */
    const size_t which = *(const size_t *)arguments;
    struct crossing c = {.rank = rank};

    stand.board = board;
    stand.rank = rank;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    CHECK(NULL, rmsg_open(&c.msg, &cfg) == 0);
    open_link(&c);
    CHECK(NULL, network_barrier() == 0);
    cases[which].play(&c);
    CHECK(NULL, network_barrier() == 0);
    CHECK(NULL, rmsg_close(c.msg) == 0);
    CHECK(NULL, rexit() == 0);
    return 0;
}

static void play_all(const char *only)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job job;

        if (only != NULL && strcmp(only, cases[i].name) != 0)
            continue;
        job_prepare(&job, 2);
        job_start(&job, be, &i);
        for (int rank = 0; rank < 2; rank++)
            EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
                   "%s, %s: rank %d: status 0x%x", cases[i].name, network ? "tcp" : "shm", rank,
                   (unsigned)job.status[rank]);
        job_finish(&job);
    }
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;

    play_all(only);
    setenv("RPIPE_BTL", "tcp", 1);
    network = true;
    play_all(only);
    return check_report(argv[0]);
}
