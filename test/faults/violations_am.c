/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations_am.c: violations in active messages, see violations.h: a requester, and a target, that are played by hand, with the channels of a link.
 *
 * Each violation ends its link, and that alone: after each the same context has a link to itself that does what it should. A context
 * is asked for nothing by a program that calls ram_serve: so no violation may make that wait.
 */
#include "violations.h"
#include "test/lib/am.h"
#include "random_am.h"

#include "am/am.h"
#include "rpipe/end/state.h"

#define CREDITS 4
#define REQUEST_BYTES 16384
#define REPLY_BYTES 256

enum handler { ECHO, KEEP, BREAK, SILENT, HANDLERS };

struct link_ends {
    rch_t w,
        r; /* the byzantine end's: of a requester requests, replies; of a target replies, requests */
};

static ram_message_t kept[8 * CREDITS];
static int keeps;
static struct link_ends broken; /* by on_break */

static void on_echo(ram_t am, ram_message_t *m, void *arg)
{
    size_t bytes = m->bytes < REPLY_BYTES - 8 * WIRE_ARGS_MAX ? m->bytes : 0;

    (void)arg;
    (void)ram_reply(am, m, RAM_RESULT, m->args, m->nargs, m->data,
                    bytes); /* or the requester takes no answer */
}

static void on_keep(ram_t am, ram_message_t *m, void *arg)
{
    (void)arg;
    if (keeps < (int)(sizeof(kept) / sizeof(kept[0])))
        CHECK(NULL, ram_keep(am, m, &kept[keeps++]) == 0);
}

/* A reply's: while it runs, the link that the reply has come by ends. The message is there until this returns. */
static void on_break(ram_t am, ram_message_t *m, void *arg)
{
    uint8_t copy[200];
    int rc;

    (void)arg;
    if (broken.r == NULL || m->bytes != sizeof(copy))
        return; /* its number has been drawn */
    memcpy(copy, m->data, sizeof(copy));
    (void)end_fail(broken.r, -EPROTO, "%s", "as the test requests");
    while (rwait(am->out[0]->requests) == 0)
        backoff_us(100);
    rc = ram_request(am, 0, ECHO, NULL, 0, NULL, 0, NULL, R_NOWAIT);
    EXPECT(rc == -EPROTO, "a request on a link that is broken: %d (%s)", rc, rerror(NULL));
    EXPECT(memcmp(copy, m->data, sizeof(copy)) == 0, "the message has changed under its handler");
}

static void on_silent(ram_t am, ram_message_t *m, void *arg) { (void)am, (void)m, (void)arg; }

static const ram_handler_t handlers[HANDLERS] = {{"echo", on_echo, NULL},
                                                 {"keep", on_keep, NULL},
                                                 {"break", on_break, NULL},
                                                 {"silent", on_silent, NULL}};

static ram_t context(int timeout_ms)
{
    static uint64_t next;
    ram_config_t cfg = am_config(handlers, HANDLERS, CREDITS, REQUEST_BYTES, REPLY_BYTES);
    ram_t am;

    cfg.context = next++;
    cfg.timeout_ms = timeout_ms;
    cfg.idle_ms = R_FOREVER;
    CHECK(NULL, ram_init(&am, &cfg) == 0);
    return am;
}

/* wire_header() of whole words, as a constant. */
#define HEADER(kind, handler, nargs, acks, token)                                                  \
    ((uint64_t)(kind) | (uint64_t)(handler) << 8 | (uint64_t)(nargs) << 16 |                       \
     (uint64_t)(acks) << 24 | (uint64_t)(token) << 32)
#define REQUEST(handler, nargs, token) HEADER(WIRE_REQUEST, handler, nargs, 0, token)
#define KIND(kind) HEADER(kind, 0, 0, 0, 0)

/* ---- what the byzantine end does ---- */

static rch_t link_end_open(ram_t am, bool requests, bool writer)
{
    rpipe_config_t cfg = requests ? am->request_cfg : am->reply_cfg;
    rch_t ch;

    cfg.peer = 0;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.timeout_ms = PATIENCE_MS;
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    return ch;
}

static void links_close(struct link_ends l)
{
    if (l.w != NULL)
        CHECK(l.w, rclose(l.w) == 0);
    if (l.r != NULL)
        CHECK(l.r, rclose(l.r) == 0);
}

static void look(ram_t am)
{
    int rc = ram_serve(am, 8, 0);

    EXPECT(rc >= 0, "ram_serve gave %d (%s)", rc, rerror(NULL));
}

/* 0; or the victim has closed; or, after so many polls, it holds all memory. `size` bytes of `mem`; the header is arbitrary. */
static int say_within(ram_t am, rch_t w, uint64_t header, const void *mem, size_t size, int looks)
{
    raddr_t d;
    int rc;

    while ((rc = rmalloc_nb(w, size, &d)) == R_PENDING && looks-- > 0)
        look(am);
    if (rc != 0)
        return rc;
    if (size > 0)
        memcpy(rmem(w, d), mem, size);
    (void)rset_tag(w, d, header);
    while ((rc = rwrite_nb(w, d)) == R_PENDING)
        look(am);
    if (rc != 0)
        (void)rfree(w, d);
    return rc;
}

static int say(ram_t am, rch_t w, uint64_t header, const void *mem, size_t size)
{
    return say_within(am, w, header, mem, size, INT32_MAX);
}

static void greet(ram_t am, rch_t w)
{
    size_t bytes = wire_hello_bytes(HANDLERS);

    CHECK(w, say(am, w, wire_header(WIRE_HELLO, bytes, 0, 0, 0, 0), am->hello, bytes) == 0);
}

static uint64_t failed_of(ram_t am) { return am->counts.failed; }

static void until_failed(ram_t am)
{
    while (failed_of(am) == 0)
        look(am);
}

/* A link of the context to itself, after the violation: it does what it should. */
static void honest(ram_t am, const char *after)
{
    static const uint64_t args[2] = {7, 8};
    ram_message_t reply;
    ram_request_t r;
    int rc;

    while (keeps > 0)
        CHECK(NULL, ram_free(am, &kept[--keeps]) == 0);
    am->timeout_ms = PATIENCE_MS;
    am->request_cfg.timeout_ms = am->reply_cfg.timeout_ms = PATIENCE_MS;
    rc = ram_request(am, 0, ECHO, args, 2, "twelve bytes", 12, &r, 0);
    EXPECT(rc == 0, "after %s: ram_request: %d (%s)", after, rc, rerror(NULL));
    rc = rc == 0 ? ram_wait(am, r, &reply, 0) : rc;
    EXPECT(rc == 0, "after %s: ram_wait: %d (%s)", after, rc, rerror(NULL));
    if (rc == 0) {
        EXPECT(reply.nargs == 2 && reply.args[1] == 8 && reply.bytes == 12 &&
                   memcmp(reply.data, "twelve bytes", 12) == 0,
               "after %s: another answer", after);
        CHECK(NULL, ram_free(am, &reply) == 0);
    }
    EXPECT(am->counts.outstanding == 0 && am->counts.kept == 0 && am->counts.links_out == 1 &&
               am->counts.links_in == 1,
           "after %s: %llu requests outstanding, %llu messages kept, links %llu %llu", after,
           (unsigned long long)am->counts.outstanding, (unsigned long long)am->counts.kept,
           (unsigned long long)am->counts.links_out, (unsigned long long)am->counts.links_in);
    CHECK(NULL, ram_exit(am) == 0);
}

/* ---- a requester ---- */

static struct link_ends requester(ram_t am)
{
    struct link_ends l;

    l.r = link_end_open(am, false, false);
    l.w = link_end_open(am, true, true);
    return l;
}

static const struct request_violation {
    const char *name;
    bool greets;
    int times;
    uint64_t header;
    size_t size;
    uint64_t word[3];
} request_violations[] = {
    {"a request instead of a greeting", false, 1, KIND(WIRE_REQUEST), 0, {0}},
    {"a greeting of no bytes", false, 1, KIND(WIRE_HELLO), 0, {0}},
    {"an invalid greeting", false, 1, KIND(WIRE_HELLO), 24, {0}},
    {"a greeting twice", true, 1, KIND(WIRE_HELLO), 24, {0}},
    {"kind 0", true, 1, 0, 0, {0}},
    {"kind 10", true, 1, KIND(WIRE_KINDS_END), 0, {0}},
    {"kind 15", true, 1, 15, 0, {0}},
    {"a reply", true, 1, KIND(WIRE_REPLY), 0, {0}},
    {"an acknowledgement", true, 1, KIND(WIRE_ACK), 0, {0}},
    {"a refusal", true, 1, KIND(WIRE_REFUSED), 0, {0}},
    {"that a link is retired", true, 1, KIND(WIRE_RETIRED), 0, {0}},
    {"not now", true, 1, KIND(WIRE_NOT_NOW), 0, {0}},
    {"a handler that does not exist", true, 1, REQUEST(HANDLERS, 0, 0), 0, {0}},
    {"handler 255", true, 1, REQUEST(255, 0, 0), 0, {0}},
    {"nine arguments", true, 1, REQUEST(ECHO, 9, 0), 24, {0}},
    {"255 arguments", true, 1, REQUEST(ECHO, 255, 0), 24, {0}},
    {"more arguments than bytes", true, 1, REQUEST(ECHO, 2, 0), 8, {0}},
    {"arguments in part of their bytes", true, 1, REQUEST(ECHO, 1, 0), 12, {0}},
    {"padding that is not there", true, 1, KIND(WIRE_REQUEST) | 7 << 4, 24, {0}},
    {"more requests than credits", true, CREDITS + 1, REQUEST(KEEP, 0, 0), 0, {0}},
    {"a barrier of two words", true, 1, HEADER(WIRE_BARRIER, 0, 2, 0, 0), 16, {0}},
    {"a barrier that is waited for", true, 1, HEADER(WIRE_BARRIER, 0, 3, 0, 1), 24, {0}},
    {"round 32 of a barrier", true, 1, HEADER(WIRE_BARRIER, 0, 3, 0, 0), 24, {0, 32, 0}},
    {"round 2^64 - 1", true, 1, HEADER(WIRE_BARRIER, 0, 3, 0, 0), 24, {0, UINT64_MAX, 0}},
    {"a barrier that is far away", true, 1, HEADER(WIRE_BARRIER, 0, 3, 0, 0), 24, {2, 0, 0}},
};

static void violate_request(const struct request_violation *violation)
{
    ram_t am = context(PATIENCE_MS);
    struct link_ends l = requester(am);
    int i, rc;

    if (violation->greets)
        greet(am, l.w);
    for (i = 0; i < violation->times; i++) {
        rc = say(am, l.w, violation->header, violation->word, violation->size);
        EXPECT(rc == 0, "%s: %d (%s)", violation->name, rc, rerror(l.w));
    }
    until_failed(am);
    EXPECT(am->counts.failed == 1 && am->counts.links_in == 0, "%s: %llu failed, %llu links",
           violation->name, (unsigned long long)am->counts.failed,
           (unsigned long long)am->counts.links_in);
    links_close(l);
    honest(am, violation->name);
}

/* Requests, and no place where answers could go: no call waits for that. When there is one they are answered. */
static void ask_from_nowhere(void)
{
    ram_t am = context(-1); /* a wait would be for ever */
    struct link_ends l = {link_end_open(am, true, true), NULL};
    size_t size;
    raddr_t d;
    int i, rc;

    greet(am, l.w);
    CHECK(l.w, say(am, l.w, REQUEST(ECHO, 0, 0x100), NULL, 0) == 0);
    for (i = 0; i < 300; i++)
        look(am);
    EXPECT(am->counts.handled == 0, "%llu requests without a requester have been handled",
           (unsigned long long)am->counts.handled);
    l.r = link_end_open(am, false, false);
    while ((rc = rread_nb(l.r, &d, &size)) == R_PENDING)
        look(am);
    EXPECT(rc == 0, "an answer: %d (%s)", rc, rerror(l.r));
    links_close(l);
    honest(am, "requests from nowhere");
}

/* Requests, and the answers are not taken: one call waits, up to its deadline, and the link has failed. */
static void ask_and_not_listen(uint32_t token)
{
    ram_t am = context(SHORT_MS);
    struct link_ends l = requester(am);
    int asked = 0;

    greet(am, l.w);
    while (failed_of(am) == 0 && asked < 100) {
        if (say(am, l.w, REQUEST(token != 0 ? ECHO : SILENT, 0, token), NULL, 0) == 0)
            asked++;
        look(am);
    }
    EXPECT(failed_of(am) == 1, "%d requests, and no answer has been taken: %llu links have failed",
           asked, (unsigned long long)failed_of(am));
    links_close(l);
    honest(am, "answers that are not taken");
}

/* ---- a target ---- */

static const char escape[] = "\033[2J\nI am root";

static const struct reply_violation {
    const char *name;
    uint64_t header;
    bool token; /* the request's, beside that in the header */
    size_t size;
    const char *mem; /* NULL: zeros */
} reply_violations[] = {
    {"a reply to nothing", HEADER(WIRE_REPLY, WIRE_RESULT, 0, 0, 0x999), false, 0, NULL},
    {"a reply to another request", HEADER(WIRE_REPLY, WIRE_RESULT, 0, 0, 1), true, 0, NULL},
    {"a reply to call 255", HEADER(WIRE_REPLY, WIRE_RESULT, 0, 0, 0x1ff), false, 0, NULL},
    {"a reply to a request without a wait", HEADER(WIRE_REPLY, WIRE_RESULT, 0, 0, 0), false, 0,
     NULL},
    {"a reply for a handler that does not exist", HEADER(WIRE_REPLY, HANDLERS, 0, 0, 0), true, 0,
     NULL},
    {"more acknowledgements than requests", HEADER(WIRE_ACK, 0, 0, 1, 0), false, 0, NULL},
    {"255 acknowledgements, and an answer", HEADER(WIRE_REPLY, WIRE_RESULT, 0, 255, 0), true, 0,
     NULL},
    {"an acknowledgement of nothing", HEADER(WIRE_ACK, 0, 0, 0, 0), false, 0, NULL},
    {"a request", KIND(WIRE_REQUEST), false, 0, NULL},
    {"a greeting", KIND(WIRE_HELLO), false, 24, NULL},
    {"a barrier", HEADER(WIRE_BARRIER, 0, 3, 0, 0), false, 24, NULL},
    {"a request to retire", KIND(WIRE_RETIRE), false, 0, NULL},
    {"that it is retired", KIND(WIRE_RETIRED), false, 0, NULL},
    {"not now", KIND(WIRE_NOT_NOW), false, 0, NULL},
    {"kind 0", 0, true, 0, NULL},
    {"kind 15", 15, true, 0, NULL},
    {"nine arguments", HEADER(WIRE_REPLY, WIRE_RESULT, 9, 0, 0), true, 24, NULL},
    {"more arguments than bytes", HEADER(WIRE_REPLY, WIRE_RESULT, 4, 0, 0), true, 24, NULL},
    {"a refusal that a terminal would obey", HEADER(WIRE_REFUSED, 0, 0, 0, 0), false,
     sizeof(escape), escape},
    {"a long refusal", HEADER(WIRE_REFUSED, 0, 0, 0, 0), false, REPLY_BYTES, NULL},
};

/* Its ends are there first, so that no other end accepts. The request is out when this returns; its token. */
static uint32_t target(ram_t am, struct link_ends *l, ram_request_t *r)
{
    static const uint64_t arg = 5;
    uint64_t header = 0;
    raddr_t d;
    int i;

    l->r = link_end_open(am, true, false);
    l->w = link_end_open(am, false, true);
    CHECK(NULL, ram_request(am, 0, ECHO, &arg, 1, NULL, 0, r, 0) == 0);
    for (i = 0; i < 2; i++) { /* the greeting, and the request */
        CHECK(l->r, rread(l->r, &d, NULL) == 0);
        header = rtag(l->r, d);
        CHECK(l->r, rfree(l->r, d) == 0);
    }
    CHECK(l->w, rwait(l->w) == 0);
    return (uint32_t)(header >> 32);
}

static void violate_reply(const struct reply_violation *violation)
{
    static const char zeros[REPLY_BYTES];
    ram_t am = context(PATIENCE_MS);
    struct link_ends l;
    ram_request_t r;
    uint32_t token = target(am, &l, &r);
    int rc;

    rc = say(am, l.w, violation->header ^ (violation->token ? (uint64_t)token << 32 : 0),
             violation->mem != NULL ? violation->mem : zeros, violation->size);
    EXPECT(rc == 0, "%s: %d (%s)", violation->name, rc, rerror(l.w));
    rc = ram_wait(am, r, NULL, 0);
    EXPECT(rc == -EPROTO, "%s: ram_wait gave %d (%s)", violation->name, rc, rerror(NULL));
    EXPECT(strpbrk(rerror(NULL), "\033\n") == NULL && strlen(rerror(NULL)) > 20,
           "%s: the error message is \"%s\"", violation->name, rerror(NULL));
    EXPECT(failed_of(am) == 1, "%s: %llu links have failed", violation->name,
           (unsigned long long)failed_of(am));
    links_close(l);
    honest(am, violation->name);
}

/* The second one answers what has been answered. */
static void answer_twice(void)
{
    ram_t am = context(PATIENCE_MS);
    struct link_ends l;
    ram_request_t r;
    uint32_t token = target(am, &l, &r);
    int rc;

    CHECK(l.w, say(am, l.w, wire_header(WIRE_REPLY, 0, WIRE_RESULT, 0, 0, token), NULL, 0) == 0);
    rc = ram_wait(am, r, NULL, 0);
    EXPECT(rc == 0, "an answer: %d (%s)", rc, rerror(NULL));
    CHECK(l.w, say(am, l.w, wire_header(WIRE_REPLY, 0, WIRE_RESULT, 0, 0, token), NULL, 0) == 0);
    until_failed(am);
    links_close(l);
    honest(am, "two answers");
}

/* See on_break. */
static void break_under_handler(void)
{
    static const char payload[200] = "a message in the heap of the channel";
    ram_t am = context(PATIENCE_MS);
    ram_request_t r;
    uint32_t token = target(am, &broken, &r);
    int rc;

    CHECK(broken.w, say(am, broken.w, wire_header(WIRE_REPLY, sizeof(payload), BREAK, 0, 0, token),
                        payload, sizeof(payload)) == 0);
    rc = ram_wait(am, r, NULL, 0);
    EXPECT(rc == 0, "a request whose reply was handled: %d (%s)", rc, rerror(NULL));
    EXPECT(failed_of(am) == 1, "%llu links have failed", (unsigned long long)failed_of(am));
    links_close(broken);
    broken.r = NULL;
    honest(am, "a link that ended under its handler");
}

/* ---- at random ---- */

#define RANDOM_SAYS 40

static void take_all(rch_t r, uint32_t *token)
{
    raddr_t d;

    while (rread_nb(r, &d, NULL) == 0) {
        *token = (uint32_t)(rtag(r, d) >> 32);
        (void)rfree(r, d);
    }
}

static void random_round(uint64_t *random)
{
    bool request = random_draw(random) % 2 == 0, listens = random_draw(random) % 4 != 0;
    ram_t am = context(request ? SHORT_MS : PATIENCE_MS);
    uint32_t token = 0x100;
    struct link_ends l;
    char junk[INVALID_AM_MOST];
    ram_request_t r[RANDOM_SAYS + 1] = {0};
    int i, n = 0;

    for (i = 0; i < (int)sizeof(junk); i++)
        junk[i] = (char)random_draw(random);
    if (request) {
        l = requester(am);
        greet(am, l.w);
    } else {
        token = target(am, &l, &r[n++]);
    }
    for (i = 0; i < RANDOM_SAYS && failed_of(am) == 0; i++) {
        size_t size;
        uint64_t header =
            invalid_am(random, request ? WIRE_REQUEST : WIRE_REPLY, HANDLERS, token, &size);

        (void)say_within(am, l.w, header, junk, size, 100);
        look(am);
        if (!request && failed_of(am) == 0 && random_draw(random) % 2 == 0 &&
            ram_request(am, 0, KEEP, NULL, 0, NULL, 0, random_draw(random) % 2 == 0 ? &r[n] : NULL,
                        R_NOWAIT) == 0)
            n += r[n] != 0;
        if (listens)
            take_all(l.r, &token);
        if (n > 0)
            (void)ram_wait(am, r[random_draw(random) % (uint64_t)n], NULL, R_NOWAIT);
    }
    links_close(l);
    while (am->counts.links_in + am->counts.links_out > 0)
        look(am);
    while (n > 0)
        (void)ram_wait(am, r[--n], NULL, R_NOWAIT); /* what came before the end can be asked for */
    honest(am, "random messages");
}

void violate_active_messages(uint64_t *random, int rounds)
{
    size_t i;

    for (i = 0; i < sizeof(request_violations) / sizeof(request_violations[0]); i++)
        violate_request(&request_violations[i]);
    ask_from_nowhere();
    ask_and_not_listen(0x100);
    ask_and_not_listen(0);
    for (i = 0; i < sizeof(reply_violations) / sizeof(reply_violations[0]); i++)
        violate_reply(&reply_violations[i]);
    answer_twice();
    break_under_handler();
    while (rounds-- > 0)
        random_round(random);
}
