/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * altered_victim.c: the victim of altered.h: calls of all kinds with the pipe whose other end is byzantine. Each comes back in time, with
 * what the manual allows; what it hands out is memory of that pipe, and what it owns keeps its contents.
 */
#include "altered.h"
#include "peer_codes.h"

#include "control/wire.h"
#include "rpipe/end/rch.h"
#include "rpipe/grow/grow.h"
#include "test/lib/cells.h"
#include "util/settings.h"

#define MESSAGES 3 /* before the attack */
#define CALLS 20   /* of a writer */

static const size_t sizes[MESSAGES] = {20, 400, 900};

struct use {
    const struct altered_case *c;
    rch_t ch;
    raddr_t kept; /* a message of the victim since before the attack */
    bool
        own_heap; /* no other pipe, nor segment, has this heap, and the byzantine rank does not store to it */
    bool waited;    /* a call has reached its deadline: no further call waits */
    int failed;     /* calls */
    uint64_t bytes; /* that were read: so that they are */
};

/* Whether it succeeded. A call that waits is never "pending". */
static bool judge(struct use *u, const char *call, int rc, bool waits)
{
    EXPECT(peer_may_cause(rc) || (rc == R_PENDING && !waits), "%s gave %d (%s): %s", call, rc,
           rinfo_strerror(rc), rerror(u->ch));
    EXPECT(rc != -EPROTO || peer_explained(rerror(u->ch)), "%s: the error message is \"%s\"", call,
           rerror(u->ch));
    atomic_fetch_add(&stage->refused, rc == -EPROTO);
    u->waited = u->waited || rc == -ETIMEDOUT;
    u->failed += rc != 0 && rc != R_PENDING;
    return rc == 0;
}

#define CALL(u, waits, call)                                                                       \
    ({                                                                                             \
        int rc_;                                                                                   \
        TIMED(rc_, (waits) ? deadline_of_calls() : 0, call);                                       \
        judge((u), #call, rc_, (waits));                                                           \
    })

/* ---- the reader ---- */

/* Whole in the heap of this pipe, of any of its segments, or in the descriptor. */
static void look_at(struct use *u, raddr_t d, size_t size)
{
    const uint8_t *mem = rmem(u->ch, d);
    const char *heap = u->ch->r.heap_base;
    const bool here = (const char *)mem >= heap && size <= u->ch->r.heap_bytes &&
                      (size_t)((const char *)mem - heap) <= u->ch->r.heap_bytes - size;

    EXPECT(size <= DESC_INLINE_MAX || here || u->ch->growth != NULL,
           "a message of %zu bytes that is not in the heap", size);
    EXPECT(size <= 8 * (uint64_t)HEAP_OF_PIPE, "a message of %zu bytes", size);
    EXPECT(size == rsize(u->ch, d), "rsize: %zu, and rread %zu", rsize(u->ch, d), size);
    for (size_t i = 0; i < size; i++)
        u->bytes += mem[i];
}

static void read_and_free(struct use *u, bool waits)
{
    raddr_t d = ADDR_NULL;
    size_t size = 0;

    if (waits ? !CALL(u, true, rread(u->ch, &d, &size))
              : !CALL(u, false, rread_nb(u->ch, &d, &size)))
        return;
    look_at(u, d, size);
    (void)CALL(u, false, rfree(u->ch, d));
}

static void use_reader(struct use *u)
{
    unsigned char buffer[2048];
    size_t size = 0;
    int ready, fd;

    read_and_free(u, true);
    read_and_free(u, false);
    if (!u->waited)
        (void)CALL(u, true, rpoll(&u->ch, 1, &ready, deadline_of_calls()));
    TIMED(fd, 0, rfd(u->ch));
    EXPECT(fd >= 0 || peer_may_cause(fd), "rfd gave %d: %s", fd, rerror(u->ch));
    read_and_free(u, false);
    if (CALL(u, false, rrecv(u->ch, buffer, sizeof(buffer), &size, R_NOWAIT)))
        EXPECT(size <= sizeof(buffer), "rrecv: %zu bytes", size);
    if (u->kept != ADDR_NULL) {
        EXPECT(u->c->target->place == AT_PAYLOAD || pattern_same(rmem(u->ch, u->kept), sizes[1], 1),
               "a message that was read before has changed");
        (void)CALL(u, false, rfree(u->ch, u->kept));
    }
    read_and_free(u, !u->waited);
}

/* ---- the writer ---- */

#define KEPT_KEY 77

static bool write_more(struct use *u, int i)
{
    static const size_t of[] = {100, 8, 900, 2000, 4000};
    size_t size = of[i % 5];
    raddr_t d;
    bool good;

    if (u->waited)
        good = CALL(u, false, rmalloc_nb(u->ch, size, &d));
    else
        good = CALL(u, true, (d = rmalloc(u->ch, size)) != ADDR_NULL ? 0 : -errno);
    if (!good)
        return false;
    pattern_fill(rmem(u->ch, d), size, (uint64_t)i);
    EXPECT(!u->own_heap || u->kept == ADDR_NULL ||
               pattern_same(rmem(u->ch, u->kept), sizes[1], KEPT_KEY),
           "memory of one message was given to another one");
    good = u->waited ? CALL(u, false, rwrite_nb(u->ch, d)) : CALL(u, true, rwrite(u->ch, d));
    if (!good)
        (void)CALL(u, false, rfree(u->ch, d));
    return good;
}

static void use_writer(struct use *u)
{
    int rc, failures = 0;

    for (int i = 0; i < CALLS && failures < 3; i++)
        failures += !write_more(u, i);
    if (u->waited)
        (void)CALL(u, false, rsend(u->ch, "16 bytes of text", 16, R_NOWAIT));
    else
        (void)CALL(u, true, rsend(u->ch, "16 bytes of text", 16, 0));
    if (!u->waited)
        (void)CALL(u, true, rflush(u->ch));
    TIMED(rc, 0, rroom(u->ch, 400));
    EXPECT(peer_may_cause(rc) || rc == 1 || rc == R_PENDING, "rroom gave %d: %s", rc,
           rerror(u->ch));
    if (u->kept != ADDR_NULL)
        (void)CALL(u, false, rfree(u->ch, u->kept));
}

static void use_cells(struct use *u)
{
    uint64_t old;

    for (int i = 0; i < 4; i++) {
        (void)CALL(u, true, rcells_atomic(cells_at(u->ch), RCELLS_ADD, (size_t)i % 8, 5, 0, &old));
        (void)CALL(u, true, rcells_atomic(cells_at(u->ch), RCELLS_SWAP, (size_t)i % 8, 5, 3, NULL));
        if (u->waited)
            return;
    }
    (void)CALL(u, true, rcells_flush(cells_at(u->ch)));
}

/* Messages of the control network, whose chunks and acknowledgements were altered. */
static void use_network(struct use *u)
{
    const int peer = atomic_load(&stage->byzantine);
    unsigned char buffer[8];

    for (int i = 0; i < 2; i++) {
        (void)CALL(u, true, network_recv(peer, buffer, sizeof(buffer)));
        (void)CALL(u, true, network_send(peer, buffer, sizeof(buffer)));
    }
}

static void use_end(struct use *u)
{
    if (u->c->target->type == WIRE_CHUNK || u->c->target->type == WIRE_ACK)
        use_network(u);
    if (u->c->target->cells)
        use_cells(u);
    else if (u->c->way.byzantine_writes)
        use_reader(u);
    else
        use_writer(u);
}

/* ---- before ---- */

/* As it should be. False: the byzantine rank does not do its part. */
static bool set_up(struct use *u)
{
    raddr_t d[MESSAGES];
    size_t size;

    if (rwait(u->ch) != 0)
        return false;
    for (int i = 0; !u->c->target->cells && i < MESSAGES; i++) {
        if (u->c->way.byzantine_writes) {
            if (rread(u->ch, &d[i], &size) != 0)
                return false;
            CHECK(u->ch, size == sizes[i] && pattern_same(rmem(u->ch, d[i]), size, (uint64_t)i));
            if (i != 1)
                CHECK(u->ch, rfree(u->ch, d[i]) == 0);
        } else {
            d[i] = rmalloc(u->ch, sizes[i]);
            if (d[i] == ADDR_NULL || rwrite(u->ch, d[i]) != 0)
                return false;
        }
    }
    if (u->c->target->cells)
        return true;
    if (u->c->way.byzantine_writes) {
        u->kept = d[1];
        return true;
    }
    u->kept = rmalloc(u->ch, sizes[1]);
    if (u->kept == ADDR_NULL)
        return false;
    pattern_fill(rmem(u->ch, u->kept), sizes[1], KEPT_KEY);
    return true;
}

/* ---- an end that a forged handshake joins ---- */

static rch_t forged_open(const struct altered_case *c, uint64_t serial)
{
    rpipe_config_t cfg = case_config(c, false, FORGED_CONTEXT(serial));
    struct use none = {.c = c};
    rch_t ch = NULL;

    return CALL(&none, false, rpipe(&ch, &cfg)) ? ch : NULL;
}

static void forged_use(const struct altered_case *c, rch_t ch)
{
    struct use u = {.c = c, .ch = ch, .kept = ADDR_NULL};

    if (ch == NULL)
        return;
    (void)rset_timeout(ch, deadline_of_calls());
    if (CALL(&u, true, rwait(ch)))
        use_end(&u);
    (void)CALL(&u, true, rclose(ch));
}

/* ---- a case ---- */

static void play(const struct altered_case *c, uint64_t serial)
{
    const bool forged = c->target->place == IN_HANDSHAKE, early = c->way.op == RPIPE_PUT;
    struct use u = {.c = c,
                    .kept = ADDR_NULL,
                    .own_heap = !forged && !c->target->grows && c->target->place != AT_PAYLOAD};
    rch_t other = NULL;
    bool ready;

    atomic_store(&stage->outcome, NOT_SET_UP);
    if (!CALL(&u, false, case_open(c, false, &u.ch)))
        return;
    ready = set_up(&u);
    if (forged && early)
        other = forged_open(c, serial);
    stage_reached(VICTIM, serial, STEP_SET_UP);
    if (ready && stage_wait(atomic_load(&stage->byzantine), serial, STEP_READY, 2 * SETUP_MS)) {
        atomic_store(&stage->outcome, PLAYED);
        (void)rset_timeout(u.ch, deadline_of_calls());
        if (forged && !early)
            other = forged_open(c, serial);
        u.waited = false;
        forged_use(c, other);
        other = NULL;
        use_end(&u);
    }
    if (other != NULL)
        (void)CALL(&u, true, rclose(other));
    (void)rset_timeout(u.ch, deadline_of_calls());
    (void)CALL(&u, true, case_close(c, u.ch));
    if (u.bytes == 1)
        printf("\n"); /* it is used */
}

/* The deadline of calls that have none of their own; no other thread is in a call. */
static void set_deadline(int ms)
{
    struct error err = {""};
    char text[16];

    (void)snprintf(text, sizeof(text), "%d", ms);
    setenv("RPIPE_TIMEOUT_MS", text, 1);
    CHECK(NULL, settings_load(&err) == 0);
}

int victim_main(void)
{
    uint64_t last = 0, serial;
    int rc;

    setenv("RPIPE_ATOMICS", "service", 1);
    (void)dup2(stage->log, STDERR_FILENO); /* "cannot join" is expected, once in most cases */
    CHECK(NULL, rinit(NULL, NULL) == 0);
    set_deadline(deadline_of_calls());
    time_start();
    honest_start(VICTIM);
    rank_reached(stage->board, VICTIM, 1);
    while ((serial = atomic_load(&stage->serial)) != SERIAL_LAST) {
        if (serial == last) {
            backoff_us(50);
            continue;
        }
        last = serial;
        play(&all_cases[atomic_load(&stage->at)], serial);
        stage_reached(VICTIM, serial, STEP_DONE);
    }
    honest_end();
    set_deadline(PATIENCE_MS / 4);
    TIMED(rc, PATIENCE_MS / 4, rexit());
    CHECK(NULL, rc == 0);
    time_stop();
    return check_failures == 0 ? 0 : 3;
}
