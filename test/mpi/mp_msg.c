/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages by tag between all ranks, itself included: random programs of sends and receives, whose result is compared with what a
 * serial matcher allows; and the cases that are rare in them.
 *
 * A random program: each rank sends messages of every length to every rank, and posts receives with and without wildcards, of which
 * it cancels some. What no receive fits is taken by rmsg_mprobe. Every message has its number in its first bytes. Afterwards:
 *
 *   A  a receive has got the first message that fits it of those of the same source that no earlier receive has taken
 *   B  of the receives that fit a message, the one that was posted first has got it
 *
 * and each byte is checked. Options: -small (memory of 64 KiB for each peer: nearly all wait), -advertise (also small receives),
 * -brief (few messages, for a slow network).
 */
#include "test/lib/mp_check.h"

#include <rmsg.h>
#include <sys/mman.h>

enum { SENDS = 16, POSTS = 24, SPACES = 2, TAGS = 3, LONGEST = 200000, LAST_SPACE = 100 };

static rmsg_t msg;
static uint32_t phase;

#define MSG_OK(call) CHECK_RC(0, NULL, call)
#define MSG_RC(code, call) CHECK_RC(code, NULL, call)

static uint64_t count(const char *name)
{
    uint64_t value = 0;

    MSG_OK(rmsg_count(msg, name, &value));
    return value;
}

/* ---- messages: all that is known about them follows from their number ---- */

static uint64_t message_key(int from, int to, uint64_t number)
{
    return mp_key(from, to, phase, number);
}

static uint32_t message_space(uint64_t key) { return (uint32_t)(random_mix(key ^ 1) % SPACES); }
static uint32_t message_tag(uint64_t key) { return (uint32_t)(random_mix(key ^ 2) % TAGS); }

static size_t message_bytes(uint64_t key)
{
    uint64_t x = random_mix(key ^ 3);

    switch (x % 8) {
    case 0:
    case 1:
    case 2:
        return 8 + (x >> 8) % 33;
    case 3:
    case 4:
        return 8 + (x >> 8) % 4000;
    case 5:
        return 8 + (x >> 8) % 20000;
    default:
        return 8 + (x >> 8) % (LONGEST - 8);
    }
}

static void message_fill(char *buf, int from, int to, uint64_t number)
{
    uint64_t key = message_key(from, to, number);

    memcpy(buf, &number, sizeof(number));
    pattern_fill(buf + 8, message_bytes(key) - 8, key);
}

/* ---- what a rank has received, in the order of posting ---- */

struct received {
    int from; /* as posted */
    uint32_t space, tag;
    int source; /* of the message; -1: cancelled */
    uint32_t got_tag;
    uint64_t number;
};

static struct received *received;
static size_t posted;

static bool fits(const struct received *r, int source, uint32_t space, uint32_t tag)
{
    return r->space == space && (r->from == RMSG_ANY_SOURCE || r->from == source) &&
           (r->tag == RMSG_ANY_TAG || r->tag == tag);
}

static void compare_with_serial_matcher(void)
{
    for (size_t i = 0; i < posted; i++) {
        const struct received *r = &received[i];

        if (r->source < 0)
            continue;
        for (size_t k = 0; k < posted; k++) {
            const struct received *o = &received[k];

            if (o->source != r->source || o->space != r->space)
                continue;
            if (o->number < r->number && fits(r, o->source, o->space, o->got_tag))
                REQUIRE(k < i, "A: receives %zu, %zu: messages %llu, %llu of rank %d", i, k,
                        (unsigned long long)r->number, (unsigned long long)o->number, r->source);
            if (k < i && fits(o, r->source, r->space, r->got_tag))
                REQUIRE(o->number < r->number, "B: receives %zu, %zu: messages %llu, %llu of %d", i,
                        k, (unsigned long long)r->number, (unsigned long long)o->number, r->source);
        }
    }
}

/* ---- a random program ---- */

struct slot {
    rmsg_request_t request;
    char *buf;
    size_t room;
    size_t index; /* receive: into received */
};

static struct slot sends[SENDS], posts[POSTS];
static uint64_t *sent, left_to_send, left_to_receive;
static uint64_t draws;

static uint64_t draw(uint64_t below) { return random_draw(&draws) % below; }

static void check_message(size_t index, const rmsg_status_t *s, const char *buf, size_t room)
{
    struct received *r = &received[index];
    uint64_t number, key;
    size_t bytes;

    memcpy(&number, buf, sizeof(number));
    key = message_key(s->from, mp_rank, number);
    bytes = message_bytes(key);
    REQUIRE(s->bytes == bytes && s->space == message_space(key) && s->tag == message_tag(key),
            "message %llu of rank %d: %zu bytes, space %u, tag %u", (unsigned long long)number,
            s->from, s->bytes, s->space, s->tag);
    REQUIRE(s->error == (bytes > room ? -EMSGSIZE : 0), "error %d, %zu bytes, buffer %zu", s->error,
            bytes, room);
    REQUIRE(pattern_same(buf + 8, (bytes < room ? bytes : room) - 8, key),
            "message %llu of rank %d: wrong bytes", (unsigned long long)number, s->from);
    REQUIRE(fits(r, s->from, s->space, s->tag), "receive %zu has got another message", index);
    r->source = s->from;
    r->got_tag = s->tag;
    r->number = number;
    left_to_receive--;
}

static void start_send(struct slot *s, uint64_t each)
{
    int to = (int)draw((uint64_t)mp_ranks), flags = draw(8) == 0 ? RMSG_SYNC : 0;
    uint64_t key;

    while (sent[to] == each)
        to = (to + 1) % mp_ranks;
    key = message_key(mp_rank, to, sent[to]);
    message_fill(s->buf, mp_rank, to, sent[to]);
    if (draw(4) == 0) { /* without a request, if it can leave */
        int rc = rmsg_send(msg, to, message_space(key), message_tag(key), s->buf,
                           message_bytes(key), R_NOWAIT);

        if (rc == R_PENDING)
            return;
        MSG_OK(rc);
    } else {
        MSG_OK(rmsg_isend(msg, to, message_space(key), message_tag(key), s->buf, message_bytes(key),
                          &s->request, flags));
    }
    sent[to]++;
    left_to_send--;
}

static size_t new_receive(int from, uint32_t space, uint32_t tag)
{
    received[posted] = (struct received){from, space, tag, -1, 0, 0};
    return posted++;
}

static void post_receive(struct slot *s)
{
    int from = draw(3) == 0 ? RMSG_ANY_SOURCE : (int)draw((uint64_t)mp_ranks);
    uint32_t space = (uint32_t)draw(SPACES),
             tag = draw(4) == 0 ? RMSG_ANY_TAG : (uint32_t)draw(TAGS);

    s->room = draw(8) == 0 ? 8 + draw(50000) : LONGEST;
    s->index = new_receive(from, space, tag);
    MSG_OK(rmsg_irecv(msg, from, space, tag, s->buf, s->room, &s->request, 0));
}

/* Tests a receive. True: it has completed. */
static void test_receive(struct slot *s, bool wait)
{
    rmsg_status_t status = {0};
    int rc = rmsg_wait(msg, &s->request, &status, wait ? 0 : R_NOWAIT);

    if (rc == R_PENDING)
        return;
    CHECK(NULL, s->request == 0);
    if (rc == -ECANCELED)
        return;
    REQUIRE(rc == 0 || rc == -EMSGSIZE, "rmsg_wait: %d: %s", rc, rerror(NULL));
    check_message(s->index, &status, s->buf, s->room);
}

/* A message that no receive has matched. */
static void take_waiting(char *buf)
{
    uint32_t space = (uint32_t)draw(SPACES);
    rmsg_message_t m = 0, none = 0;
    const void *where = NULL;
    rmsg_status_t status = {0}, probed = {0};
    size_t index;
    int rc = rmsg_probe(msg, RMSG_ANY_SOURCE, space, RMSG_ANY_TAG, &status, R_NOWAIT);

    if (rc == R_PENDING)
        return;
    MSG_OK(rc);
    MSG_OK(rmsg_mprobe(msg, status.from, space, status.tag, &m, &probed, 0));
    CHECK(NULL, probed.bytes == status.bytes);
    index = new_receive(status.from, space, status.tag);
    rc = rmsg_peek(msg, m, &where);
    if (rc == 0 && draw(2) == 0) {
        check_message(index, &probed, where, LONGEST);
        MSG_OK(rmsg_free(msg, &m));
    } else {
        REQUIRE(rc == 0 || rc == -ENOTSUP, "rmsg_peek: %d", rc);
        MSG_OK(rmsg_mrecv(msg, &m, buf, LONGEST, &status));
        check_message(index, &status, buf, LONGEST);
    }
    CHECK(NULL, m == none);
    MSG_RC(-EINVAL, rmsg_free(msg, &m));
}

static void one_step(char *buf, uint64_t each)
{
    struct slot *s = &sends[draw(SENDS)], *r = &posts[draw(POSTS)];

    if (s->request != 0) {
        int rc = rmsg_wait(msg, &s->request, NULL, R_NOWAIT);

        REQUIRE(rc == 0 || rc == R_PENDING, "send: %d: %s", rc, rerror(NULL));
    } else if (left_to_send > 0) {
        start_send(s, each);
    }
    if (r->request == 0 && left_to_receive > 0)
        post_receive(r);
    else if (r->request != 0 && draw(16) == 0 && posted < each * 300)
        MSG_OK(rmsg_cancel(msg, r->request));
    else if (r->request != 0)
        test_receive(r, false);
    if (draw(4) == 0)
        take_waiting(buf);
}

/* All ranks have come here; transfers go on meanwhile. */
static void meet(void)
{
    rmsg_request_t r[64];
    int n = 0;

    for (int i = 0; i < mp_ranks; i++)
        MSG_OK(rmsg_irecv(msg, i, LAST_SPACE, phase, NULL, 0, &r[n++], 0));
    for (int i = 0; i < mp_ranks; i++)
        MSG_OK(rmsg_isend(msg, i, LAST_SPACE, phase, NULL, 0, &r[n++], 0));
    MSG_OK(rmsg_wait_all(msg, r, n, NULL, 0));
    phase++;
}

static void random_program(uint64_t each)
{
    static char buf[LONGEST];

    left_to_send = left_to_receive = each * (uint64_t)mp_ranks;
    memset(sent, 0, (size_t)mp_ranks * sizeof(*sent));
    posted = 0;
    while (left_to_receive > 0 || left_to_send > 0) {
        one_step(buf, each);
        if (posted + 2 * POSTS > each * 400)
            REQUIRE(false, "too many receives");
    }
    for (int i = 0; i < SENDS; i++)
        MSG_OK(rmsg_wait(msg, &sends[i].request, NULL, 0));
    for (int i = 0; i < POSTS; i++) {
        if (posts[i].request != 0)
            MSG_OK(rmsg_cancel(msg, posts[i].request));
        if (posts[i].request != 0)
            test_receive(&posts[i], true);
    }
    compare_with_serial_matcher();
    meet();
    CHECK(NULL, count("posted") == 0);
}

/* ---- single cases ---- */

static void synchronous_and_persistent(void)
{
    int to = (mp_rank + 1) % mp_ranks, from = (mp_rank + mp_ranks - 1) % mp_ranks;
    rmsg_request_t r[2] = {0, 0};
    uint64_t out = 0, in = 0;
    rmsg_status_t status;
    int which;

    MSG_OK(rmsg_isend(msg, to, 3, 7, &out, sizeof(out), &r[0], RMSG_PERSISTENT | RMSG_SYNC));
    MSG_OK(rmsg_irecv(msg, from, 3, 7, &in, sizeof(in), &r[1], RMSG_PERSISTENT));
    for (uint64_t i = 1; i <= 10; i++) {
        out = i * 100 + (uint64_t)mp_rank;
        MSG_OK(rmsg_start(msg, r, 2));
        MSG_RC(-EBUSY, rmsg_start(msg, r, 1));
        MSG_OK(rmsg_wait_any(msg, r, 2, &which, &status, 0));
        CHECK(NULL, which == 0 || which == 1);
        MSG_OK(rmsg_wait_all(msg, r, 2, NULL, 0));
        CHECK(NULL, r[0] != 0 && r[1] != 0 && in == i * 100 + (uint64_t)from);
    }
    MSG_OK(rmsg_request_free(msg, &r[0]));
    MSG_OK(rmsg_request_free(msg, &r[1]));
    MSG_OK(rmsg_wait_any(msg, r, 2, &which, &status, 0));
    CHECK(NULL, which == 2 && r[0] == 0 && r[1] == 0);
    meet();
}

/* A rank sends more than fits into any memory, and the other receives the last one first. */
static void receiver_that_does_not_receive(void)
{
    enum { MANY = 3000, BYTES = 2000 };
    static rmsg_request_t r[MANY + 1];
    static char buf[BYTES];
    int to = (mp_rank + 1) % mp_ranks, from = (mp_rank + mp_ranks - 1) % mp_ranks;
    char *out = malloc((size_t)MANY * BYTES);
    uint64_t last = 0, mine = (uint64_t)mp_rank;

    CHECK(NULL, out != NULL);
    for (size_t i = 0; i < MANY; i++) {
        pattern_fill(out + i * BYTES, BYTES, mp_key(mp_rank, to, phase, i));
        MSG_OK(rmsg_isend(msg, to, 5, 1, out + i * BYTES, BYTES, &r[i], 0));
    }
    MSG_OK(rmsg_isend(msg, to, 5, 2, &mine, sizeof(mine), &r[MANY], 0));
    MSG_OK(rmsg_recv(msg, from, 5, 2, &last, sizeof(last), NULL, 0));
    CHECK(NULL, last == (uint64_t)from);
    for (size_t i = 0; i < MANY; i++) {
        rmsg_status_t status;

        MSG_OK(rmsg_recv(msg, from, 5, 1, buf, BYTES, &status, 0));
        CHECK(NULL,
              status.bytes == BYTES && pattern_same(buf, BYTES, mp_key(from, mp_rank, phase, i)));
    }
    MSG_OK(rmsg_wait_all(msg, r, MANY + 1, NULL, 0));
    free(out);
    meet();
}

/* Receives are posted before the messages are sent, and the other way round. */
static void who_comes_first(void)
{
    static char out[LONGEST], in[LONGEST];
    int to = (mp_rank + 1) % mp_ranks, from = (mp_rank + mp_ranks - 1) % mp_ranks;
    uint64_t placed = count("sent_placed"), offered = count("sent_offered");
    rmsg_request_t s, r;

    pattern_fill(out, LONGEST, mp_key(mp_rank, to, phase, 0));
    MSG_OK(rmsg_irecv(msg, from, 0, 1, in, LONGEST, &r, 0));
    meet(); /* the RTR precedes this message of the receiver */
    phase--;
    MSG_OK(rmsg_isend(msg, to, 0, 1, out, LONGEST, &s, 0));
    MSG_OK(rmsg_wait(msg, &s, NULL, 0));
    MSG_OK(rmsg_wait(msg, &r, NULL, 0));
    CHECK(NULL, pattern_same(in, LONGEST, mp_key(from, mp_rank, phase, 0)));
    CHECK(NULL, count("sent_placed") == placed + 1 && count("sent_offered") == offered);
    phase++;
    pattern_fill(out, LONGEST, mp_key(mp_rank, to, phase, 0));
    MSG_OK(rmsg_isend(msg, to, 0, 1, out, LONGEST, &s, 0));
    meet();
    phase--;
    CHECK(NULL, count("sent_offered") == offered + 1);
    MSG_OK(rmsg_irecv(msg, from, 0, 1, in, LONGEST, &r, 0));
    MSG_OK(rmsg_wait(msg, &r, NULL, 0));
    MSG_OK(rmsg_wait(msg, &s, NULL, 0));
    CHECK(NULL, pattern_same(in, LONGEST, mp_key(from, mp_rank, phase, 0)));
    phase++;
    meet();
}

/* ---- over networks: from buffer to buffer ---- */

/* What one message has changed, where windows are used; elsewhere nothing has. */
static void only_counted(const uint64_t before[3], int at)
{
    static const char *const name[3] = {"written", "received_written", "fetched"};

    for (int i = 0; i < 3; i++)
        CHECK(NULL, count(name[i]) == before[i] + (i == at));
}

static bool uses_windows(void)
{
    const char *backend = getenv("RPIPE_BTL");

    return backend != NULL && (strcmp(backend, "tcp") == 0 || strcmp(backend, "ofi") == 0);
}

/*
 * Between two ranks (rank 1 is 0 for a rank alone): rank 0 sends `bytes` to rank 1, which posts its receive before or afterwards. The payload
 * has to travel without parts.
 */
static void send_direct(char *buf, size_t bytes, bool receive_first, int flags)
{
    const int receiver = mp_ranks > 1;
    const uint64_t before[3] = {count("written"), count("received_written"), count("fetched")},
                   parts = count("parts"), key = mp_key(0, receiver, phase, bytes);
    rmsg_request_t r = 0;

    if (mp_rank == receiver) {
        if (!receive_first)
            MSG_OK(rmsg_probe(msg, 0, 8, 1, NULL, 0));
        MSG_OK(rmsg_irecv(msg, 0, 8, 1, buf, bytes, &r, flags));
        if ((flags & RMSG_PERSISTENT) != 0)
            MSG_OK(rmsg_start(msg, &r, 1));
        if (receive_first)
            MSG_OK(rmsg_send(msg, 0, 8, 2, NULL, 0, 0));
    } else if (mp_rank == 0) {
        pattern_fill(buf, bytes, key);
        if (receive_first)
            MSG_OK(rmsg_recv(msg, receiver, 8, 2, NULL, 0, NULL, 0));
        MSG_OK(rmsg_isend(msg, receiver, 8, 1, buf, bytes, &r, flags));
        if ((flags & RMSG_PERSISTENT) != 0)
            MSG_OK(rmsg_start(msg, &r, 1));
    } else {
        return;
    }
    MSG_OK(rmsg_wait(msg, &r, NULL, 0));
    CHECK(NULL, pattern_same(buf, bytes, key));
    if ((flags & RMSG_PERSISTENT) != 0)
        MSG_OK(rmsg_request_free(msg, &r));
    CHECK(NULL, count("parts") == parts);
    only_counted(before, mp_rank == 0 ? (receive_first ? 0 : -1) : receive_first ? 1 : 2);
}

static char *pages_at(char *at, size_t bytes)
{
    char *p = mmap(at, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0), -1, 0);

    CHECK(NULL, p != MAP_FAILED);
    return p;
}

/*
 * Blocking calls that have a deadline name no windows, but receives over tcp, which can take them back: else the payload is in parts, or fetched
 * from a send that waits.
 */
static void blocking_direct(char *buf, size_t bytes, int timeout_ms)
{
    const uint64_t before[3] = {count("written"), count("received_written"), count("fetched")},
                   parts = count("parts"), key = mp_key(0, 1, phase, bytes);
    const bool direct = timeout_ms == R_FOREVER || strcmp(getenv("RPIPE_BTL"), "tcp") == 0;

    MSG_OK(rmsg_set_timeout(msg, timeout_ms));
    if (mp_rank == 0) {
        pattern_fill(buf, bytes, key);
        MSG_OK(rmsg_recv(msg, 1, 8, 2, NULL, 0, NULL,
                         0)); /* it waits, and will not read before it is in its call */
        MSG_OK(rmsg_send(msg, 1, 8, 1, buf, bytes, 0));
        CHECK(NULL, (count("parts") > parts) != direct);
    } else if (mp_rank == 1) {
        MSG_OK(rmsg_send(msg, 0, 8, 2, NULL, 0, 0));
        MSG_OK(rmsg_recv(msg, 0, 8, 1, buf, bytes, NULL, 0));
        CHECK(NULL, pattern_same(buf, bytes, key));
        CHECK(NULL,
              (count("received_written") + count("fetched") > before[1] + before[2]) == direct);
    }
    MSG_OK(rmsg_set_timeout(msg, 0));
}

/* The same buffer again, part of it, memory that was given back and has come again, persistent requests, many buffers. */
static void from_buffer_to_buffer(void)
{
    enum { BYTES = 1 << 20, MANY = 40, LARGE = 9 * BYTES + 4711 };
    char *buf = pages_at(NULL, BYTES);
    uint64_t registered, windows;

    if (!uses_windows() || mp_ranks == 1)
        return;
    for (int turn = 0; turn < 2; turn++)
        for (int first = 0; first < 2; first++)
            send_direct(buf, BYTES, first == 1, 0);
    registered = count("registered");
    windows = count("windows");
    for (int turn = 0; turn < 10; turn++)
        send_direct(buf + turn * 4096, BYTES / 2, turn % 2 == 1, 0);
    if (strcmp(getenv("RPIPE_BTL"), "tcp") == 0) /* else pages may have been replaced */
        CHECK(NULL, count("registered") == registered && count("windows") == windows);
    else
        CHECK(NULL, mp_rank > 1 || count("registered") >= registered + 10);
    for (int first = 0; first < 2; first++) {
        CHECK(NULL, munmap(buf, BYTES) == 0);
        buf = pages_at(buf, BYTES);
        send_direct(buf, BYTES, first == 1, 0);
    }
    for (int first = 0; first < 2; first++)
        send_direct(buf, 20000, first == 1, RMSG_PERSISTENT);
    /* shorter than eager_most: a send that comes first leaves with its payload, and an advertised receive gets it in its buffer */
    for (int turn = 0; turn < 3; turn++)
        send_direct(buf, 12 << 10, true,
                    strcmp(getenv("RPIPE_BTL"), "tcp") == 0 ? 0 : RMSG_PERSISTENT);
    CHECK(NULL, munmap(buf, BYTES) == 0);
    buf = pages_at(NULL, (size_t)MANY * BYTES / 4);
    for (int i = 0; i < MANY; i++)
        send_direct(buf + i * BYTES / 4, BYTES / 4, i % 2 == 1, 0);
    for (int first = 0; first < 2; first++) /* several groups of fragments */
        send_direct(buf, LARGE, first == 1, 0);
    blocking_direct(buf, BYTES, R_FOREVER);
    blocking_direct(buf, BYTES, 20000);
    meet();
    CHECK(NULL, munmap(buf, (size_t)MANY * BYTES / 4) == 0);
}

/* Persistent receives that fail have completed, and all are waited for. */
static void persistent_failures(void)
{
    int to = (mp_rank + 1) % mp_ranks, from = (mp_rank + mp_ranks - 1) % mp_ranks;
    uint64_t out[2] = {1, 2}, in[2] = {0, 0};
    rmsg_status_t status[2] = {{0}, {0}};
    rmsg_request_t r[2];

    for (int i = 0; i < 2; i++)
        MSG_OK(
            rmsg_irecv(msg, from, 7, (uint32_t)i, &in[i], sizeof(in[i]), &r[i], RMSG_PERSISTENT));
    for (int turn = 0; turn < 2; turn++) {
        MSG_OK(rmsg_start(msg, r, 2));
        MSG_OK(rmsg_send(msg, to, 7, 0, out, sizeof(out), 0));
        MSG_OK(rmsg_send(msg, to, 7, 1, out, sizeof(out), 0));
        MSG_RC(-EMSGSIZE, rmsg_wait_all(msg, r, 2, status, 0));
        CHECK(NULL, status[0].bytes == sizeof(out) && status[1].bytes == sizeof(out));
        CHECK(NULL, status[1].tag == 1 && status[1].error == -EMSGSIZE && in[1] == 1);
        status[1] = (rmsg_status_t){0};
    }
    for (int i = 0; i < 2; i++)
        MSG_OK(rmsg_request_free(msg, &r[i]));
    meet();
}

/*
 * A receive of rank 0 ends at its deadline while rank 1, which waits in another context, has not read its RTR: a small message
 * is for the next receive.
 */
static void late_message(rmsg_t other)
{
    static char in[LONGEST];
    uint64_t value = 4711;

    if (mp_rank == 0 && mp_ranks > 1) {
        MSG_OK(rmsg_set_timeout(msg, 20));
        MSG_RC(-ETIMEDOUT, rmsg_recv(msg, 1, 6, 1, in, LONGEST, NULL, 0));
        MSG_OK(rmsg_set_timeout(msg, 0));
        MSG_OK(rmsg_send(other, 1, 6, 1, NULL, 0, 0));
        value = 0;
        MSG_OK(rmsg_recv(msg, 1, 6, 1, &value, sizeof(value), NULL, 0));
        CHECK(NULL, value == 4711);
    } else if (mp_rank == 1) {
        MSG_OK(rmsg_recv(other, 0, 6, 1, NULL, 0, NULL, 0));
        MSG_OK(rmsg_send(msg, 0, 6, 1, &value, sizeof(value), 0));
    }
    meet();
}

/*
 * A blocking receive of rank 0, whose advertisement rank 1 may have read, reaches its deadline: nothing is written into its buffer
 * afterwards. A message that was addressed to it before rank 1 has read the cancel is lost with it (rmsg(3), ETIMEDOUT); any other one
 * is for the next receive.
 */
static void receive_gives_up(rmsg_t other)
{
    static char big[LONGEST], next[LONGEST];
    rmsg_request_t request;
    int rc;

    if (mp_rank == 0) {
        MSG_OK(rmsg_set_timeout(msg, 20));
        MSG_RC(-ETIMEDOUT, rmsg_recv(msg, 1, 6, 2, big, LONGEST, NULL, 0));
        MSG_OK(rmsg_set_timeout(msg, 0));
        memset(big, 7, LONGEST);
        MSG_OK(rmsg_send(other, 1, 6, 2, NULL, 0, 0));
        MSG_OK(rmsg_recv(msg, 1, 6, 3, NULL, 0, NULL, 0)); /* behind the large one */
        MSG_OK(rmsg_irecv(msg, 1, 6, 2, next, LONGEST, &request, 0));
        MSG_OK(rmsg_recv(msg, 1, 6, 5, NULL, 0, NULL, 0)); /* when the large one has left */
        rc = rmsg_wait(msg, &request, NULL, R_NOWAIT);
        if (rc == R_PENDING) /* it is lost */
            MSG_OK(rmsg_cancel(msg, request));
        if (rc == R_PENDING)
            rc = rmsg_wait(msg, &request, NULL, 0);
        CHECK(NULL, rc == 0 || rc == -ECANCELED);
        for (int i = 0; i < LONGEST; i++)
            CHECK(NULL, big[i] == 7 && (rc != 0 || next[i] == 1));
    } else if (mp_rank == 1) {
        while ((rc = rmsg_recv(other, 0, 6, 2, NULL, 0, NULL, R_NOWAIT)) == R_PENDING)
            MSG_OK(rmsg_progress(msg));
        MSG_OK(rc);
        memset(big, 1, LONGEST);
        MSG_OK(rmsg_isend(msg, 0, 6, 2, big, LONGEST, &request, 0));
        MSG_OK(rmsg_send(msg, 0, 6, 3, NULL, 0, 0));
        MSG_OK(rmsg_wait(msg, &request, NULL, 0));
        MSG_OK(rmsg_send(msg, 0, 6, 5, NULL, 0, 0));
    }
    meet();
}

/* A blocking send of rank 1 reaches its deadline before its receive: that does not complete with what the buffer has by then. */
static void send_gives_up(rmsg_t other)
{
    static char big[LONGEST];

    if (mp_rank == 1) {
        MSG_OK(rmsg_set_timeout(msg, 20));
        MSG_RC(-ETIMEDOUT, rmsg_send(msg, 0, 6, 4, big, LONGEST, 0));
        MSG_OK(rmsg_set_timeout(msg, 0));
        MSG_OK(rmsg_send(other, 0, 6, 4, NULL, 0, 0));
    } else if (mp_rank == 0) {
        MSG_OK(rmsg_recv(other, 1, 6, 4, NULL, 0, NULL, 0));
        MSG_RC(-ECANCELED, rmsg_recv(msg, 1, 6, 4, big, LONGEST, NULL, 0));
    }
    meet();
}

/* A context that has a name, beside one that has a number. */
static void named(void)
{
    const rmsg_config_t cfg = {.context = rcontext("named"), .heap_bytes = 64 << 10},
                        reserved = {.context = UINT64_C(1) << 62};
    int to = (mp_rank + 1) % mp_ranks, from = (mp_rank + mp_ranks - 1) % mp_ranks;
    rmsg_t other;
    char byte = 1;

    MSG_RC(-EINVAL, rmsg_open(&other, &reserved));
    MSG_OK(rmsg_open(&other, &cfg));
    MSG_OK(rmsg_send(other, to, 0, 0, &byte, 1, 0));
    MSG_OK(rmsg_recv(other, from, 0, 0, &byte, 1, NULL, 0));
    late_message(other);
    if (mp_ranks > 1) {
        receive_gives_up(other);
        send_gives_up(other);
    }
    MSG_OK(rmsg_close(other));
}

static void misuse(void)
{
    rmsg_request_t r = 0;
    rmsg_message_t m = 0;
    char byte = 0;
    uint64_t value;

    MSG_RC(-ENOENT, rmsg_send(msg, mp_ranks, 0, 0, &byte, 1, 0));
    MSG_RC(-ENOENT, rmsg_send(msg, RMSG_ANY_SOURCE, 0, 0, &byte, 1, 0));
    MSG_RC(-EINVAL, rmsg_send(msg, 0, RMSG_SPACES, 0, &byte, 1, 0));
    MSG_RC(-EINVAL, rmsg_send(msg, 0, 0, RMSG_ANY_TAG, &byte, 1, 0));
    MSG_RC(-EINVAL, rmsg_send(msg, 0, 0, 0, NULL, 1, 0));
    MSG_RC(-EINVAL, rmsg_send(msg, 0, 0, 0, &byte, 1, RMSG_PERSISTENT));
    MSG_RC(-EINVAL, rmsg_isend(msg, 0, 0, 0, &byte, 1, NULL, 0));
    MSG_RC(-EINVAL, rmsg_cancel(msg, 77));
    MSG_RC(-EINVAL, rmsg_mrecv(msg, &m, &byte, 1, NULL));
    MSG_RC(-ENOENT, rmsg_count(msg, "nothing", &value));
    MSG_RC(R_PENDING, rmsg_recv(msg, mp_rank, 9, 9, &byte, 1, NULL, R_NOWAIT));
    MSG_RC(R_PENDING, rmsg_probe(msg, RMSG_ANY_SOURCE, 9, RMSG_ANY_TAG, NULL, R_NOWAIT));
    meet(); /* links are open: what is sent below leaves before its deadline */
    MSG_OK(rmsg_set_timeout(msg, 20));
    MSG_RC(-ETIMEDOUT, rmsg_recv(msg, mp_rank, 9, 9, &byte, 1, NULL, 0));
    MSG_RC(-ETIMEDOUT, rmsg_probe(msg, mp_rank, 9, 9, NULL, 0));
    MSG_RC(-ETIMEDOUT, rmsg_send(msg, mp_rank, 9, 9, &byte, 1, RMSG_SYNC));
    MSG_OK(rmsg_irecv(msg, mp_rank, 9, 8, &byte, 1, &r, 0));
    MSG_RC(-ETIMEDOUT, rmsg_wait(msg, &r, NULL, 0));
    CHECK(NULL, r != 0);
    MSG_OK(rmsg_set_timeout(msg, 0));
    MSG_OK(rmsg_cancel(msg, r));
    MSG_RC(-ECANCELED, rmsg_wait(msg, &r, NULL, 0));
    MSG_RC(-ECANCELED, rmsg_recv(msg, mp_rank, 9, 9, &byte, 1, NULL, 0)); /* given up above */
    meet();
}

int main(int argc, char **argv)
{
    rmsg_config_t cfg = {.context = 77};
    uint64_t each = (uint64_t)mp_number(argc, argv, 300);

    mp_begin(argc, argv, 1);
    if (mp_asked(argc, argv, "-brief"))
        each = 20;
    if (mp_asked(argc, argv, "-small"))
        cfg.heap_bytes = 64 << 10;
    if (mp_asked(argc, argv, "-advertise"))
        cfg.advertise_least = 1;
    MSG_OK(rmsg_open(&msg, &cfg));
    received = calloc(each * 400, sizeof(*received));
    sent = calloc((size_t)mp_ranks, sizeof(*sent));
    CHECK(NULL, received != NULL && sent != NULL);
    for (int i = 0; i < SENDS; i++)
        CHECK(NULL, (sends[i].buf = malloc(LONGEST)) != NULL);
    for (int i = 0; i < POSTS; i++)
        CHECK(NULL, (posts[i].buf = malloc(LONGEST)) != NULL);
    draws = random_mix(mp_seed ^ (uint64_t)mp_rank << 40);
    misuse();
    synchronous_and_persistent();
    persistent_failures();
    named();
    for (int i = 0; i < 3; i++)
        random_program(each);
    who_comes_first();
    from_buffer_to_buffer();
    receiver_that_does_not_receive();
    CHECK(NULL, count("failed") == 0);
    MSG_OK(rmsg_close(msg));
    for (int i = 0; i < SENDS; i++)
        free(sends[i].buf);
    for (int i = 0; i < POSTS; i++)
        free(posts[i].buf);
    free(received);
    free(sent);
    return mp_end();
}
