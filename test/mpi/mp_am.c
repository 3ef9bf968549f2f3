/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages between all ranks: requests and replies of every size, checked at each byte; credits that run out; a
 * bounded number of handlers per poll; messages that are kept and answered later, in another order; payloads that are
 * larger than half of the memory; links that retire and come back; contexts that do not agree.
 *
 * Whatever a rank needs of another it receives over the control network, or counts in handlers: nothing depends on time.
 */
#include "test/lib/mp_check.h"
#include "test/lib/am.h"

#include <rpipe.h>

enum { CREDITS = 8, REQUEST_BYTES = 1 << 18, REPLY_BYTES = 2000, KEPT = CREDITS };

static ram_t am;

/* ---- handlers ---- */

enum handler { ECHO, NOTE, NOTED, KEEP, COUNT, SPACE, HANDLERS };

/* from the beginning: a rank that is behind may handle what one that is ahead has sent, in any barrier */
static uint64_t notes, noted, counted;
static ram_message_t kept[KEPT];
static int keeps;
static uint32_t noted_number = NOTED; /* in the table of this rank */

static size_t reply_size(uint64_t key)
{
    return random_mix(key) % 4 == 0 ? 0 : random_mix(key ^ 5) % (REPLY_BYTES - 16);
}

/* args: key. Replies with as many bytes as follow from the key, and key + 1 */
static void on_echo(ram_t a, ram_message_t *m, void *arg)
{
    static char answer[REPLY_BYTES];
    uint64_t key = m->args[0], back = key + 1;

    CHECK(NULL, arg == &counted && m->nargs == 1);
    CHECK(NULL, pattern_same(m->data, m->bytes, key));
    pattern_fill(answer, reply_size(key), back);
    AM_OK(ram_reply(a, m, RAM_RESULT, &back, 1, answer, reply_size(key)));
    AM_RC(-EALREADY, ram_reply(a, m, RAM_RESULT, NULL, 0, NULL, 0));
}

/* no call waits for it; every other one is answered by a handler at the requester */
static void on_note(ram_t a, ram_message_t *m, void *arg)
{
    (void)arg;
    CHECK(NULL, m->nargs == 3 && m->args[2] == ~m->args[1] &&
                    pattern_same(m->data, m->bytes, m->args[0]));
    notes++;
    if (m->args[1] % 2 == 0)
        AM_OK(ram_reply(a, m, noted_number, m->args, 2, NULL, 0));
}

static void on_noted(ram_t a, ram_message_t *m, void *arg)
{
    (void)a, (void)arg;
    CHECK(NULL, m->nargs == 2 && m->args[1] % 2 == 0 && m->bytes == 0);
    noted++;
}

static void on_keep(ram_t a, ram_message_t *m, void *arg)
{
    (void)arg;
    CHECK(NULL, keeps < KEPT);
    AM_OK(ram_keep(a, m, &kept[keeps++]));
}

static void on_count(ram_t a, ram_message_t *m, void *arg)
{
    (void)arg;
    AM_RC(-EDEADLK, ram_serve(a, 1, 0));
    CHECK(NULL, m->nargs == 1 && m->args[0] == counted); /* in the order in which they were sent */
    counted++;
}

static const ram_handler_t handlers[HANDLERS] = {
    {"echo", on_echo, &counted}, {"note", on_note, NULL},   {"noted", on_noted, NULL},
    {"keep", on_keep, NULL},     {"count", on_count, NULL}, {"space", on_echo, &counted},
};

static ram_config_t configuration(void)
{
    ram_config_t cfg = am_config(handlers, HANDLERS, CREDITS, REQUEST_BYTES, REPLY_BYTES);

    cfg.idle_ms = R_FOREVER;
    return cfg;
}

static uint64_t count(const char *name) { return am_count(am, name); }

/* until a byte of another rank is here: without running handlers */
static void signal_rank(int to) { CHECK_OK(NULL, network_send(to, "!", 1)); }
static void await_rank(int from)
{
    char byte = 0;

    CHECK_OK(NULL, network_recv(from, &byte, 1));
    CHECK(NULL, byte == '!');
}

/* ---- all with all ---- */

struct asked {
    ram_request_t r;
    uint64_t key;
};

static void collect(const struct asked *a)
{
    ram_message_t reply;

    AM_OK(ram_wait(am, a->r, &reply, 0));
    CHECK(NULL,
          reply.nargs == 1 && reply.args[0] == a->key + 1 && reply.bytes == reply_size(a->key));
    CHECK(NULL, pattern_same(reply.data, reply.bytes, a->key + 1));
    AM_OK(ram_free(am, &reply));
    AM_RC(-EINVAL, ram_wait(am, a->r, NULL, 0));
}

static size_t request_size(uint64_t key)
{
    switch (key % 5) {
    case 0:
        return 0;
    case 1:
        return random_mix(key) % 41;
    case 2:
        return random_mix(key) % (REQUEST_BYTES / 3);
    default:
        return random_mix(key) % 5000;
    }
}

static void all_with_all(uint64_t messages)
{
    static char payload[REQUEST_BYTES];
    struct asked window[CREDITS / 2] = {{0, 0}};
    uint64_t state = random_mix((uint64_t)mp_rank + 17), expected = 0;
    unsigned asked = 0;

    for (uint64_t i = 0; i < messages; i++) {
        uint64_t key = mp_draw(&state);
        size_t bytes = request_size(key);
        int peer = (int)(mp_draw(&state) % (uint64_t)mp_ranks);

        pattern_fill(payload, bytes, key);
        if (i % 2 == 0) {
            if (asked >= CREDITS / 2)
                collect(&window[asked % (CREDITS / 2)]);
            window[asked % (CREDITS / 2)].key = key;
            AM_OK(ram_request(am, peer, ECHO, &key, 1, payload, bytes,
                              &window[asked % (CREDITS / 2)].r, 0));
            asked++;
        } else {
            const uint64_t args[3] = {key, i / 2, ~(i / 2)};

            AM_OK(ram_request(am, peer, NOTE, args, 3, payload, bytes, NULL, 0));
            expected += i / 2 % 2 == 0;
        }
    }
    for (unsigned i = asked < CREDITS / 2 ? 0 : asked - CREDITS / 2; i < asked; i++)
        collect(&window[i % (CREDITS / 2)]);
    AM_OK(ram_flush(am));
    CHECK(NULL, noted == expected); /* whose requests are answered has all answers */
    CHECK(NULL, count("outstanding") == 0 && count("kept") == 0);
    AM_OK(ram_barrier(am));
}

/* Every note of every rank was handled exactly once. */
static void all_were_noted(uint64_t messages)
{
    uint64_t *all = calloc((size_t)mp_ranks, sizeof(*all)), sum = 0;

    CHECK(NULL, all != NULL);
    CHECK_OK(NULL, network_allgather(&notes, sizeof(notes), all));
    for (int i = 0; i < mp_ranks; i++)
        sum += all[i];
    CHECK(NULL, sum == (uint64_t)mp_ranks * (messages / 2));
    free(all);
}

/* ---- credits, and a bounded number of handlers: rank 0 requests, rank 1 does nothing until a message arrives ---- */

/* Without waiting for a credit. Over a network it takes a while until the writer has the credits of slots that are free again. */
static int flood_one(uint64_t i, ram_request_t *r)
{
    int rc, tries;

    for (tries = 0; tries < 5000; tries++) {
        rc = ram_request(am, 1, COUNT, &i, 1, NULL, 0, r, R_NOWAIT);
        if (rc != R_PENDING || strstr(rerror(NULL), "no free slot") == NULL)
            break;
        usleep(1000);
    }
    return rc;
}

static void flood(void)
{
    uint64_t i = 0;
    ram_request_t first;

    AM_OK(ram_request(am, 1, COUNT, &i, 1, NULL, 0, &first, 0)); /* the link is open */
    AM_OK(ram_wait(am, first, NULL, 0));
    await_rank(1); /* it does not poll any more */
    for (i = 1; i <= CREDITS; i++)
        AM_OK(flood_one(i, NULL));
    AM_RC(R_PENDING, flood_one(i, NULL));
    CHECK_ERROR(NULL, "credits");
    AM_RC(R_PENDING, flood_one(i, &first));
    CHECK(NULL, count("stalls_credit") >= 2 && count("outstanding") >= CREDITS);
    signal_rank(1);
    for (; i <= 100; i++)
        AM_OK(ram_request(am, 1, COUNT, &i, 1, NULL, 0, NULL, 0));
    AM_OK(ram_flush(am));
}

static void be_flooded(void)
{
    int ran;

    while (counted < 1)
        CHECK(NULL, ram_serve(am, 1, R_FOREVER) == 1);
    signal_rank(0);
    await_rank(0);
    CHECK(NULL, ram_serve(am, 3, 0) == 3 && counted == 4);
    CHECK(NULL, ram_serve(am, 1, 0) == 1 && counted == 5);
    while (counted < 101) {
        ran = ram_serve(am, 2, R_FOREVER);
        CHECK(NULL, ran >= 0 && ran <= 2);
    }
}

/* ---- kept, and answered later ---- */

static void ask_and_wait(void)
{
    static char payload[5000];
    ram_request_t r[KEPT];
    ram_message_t reply, held = {0};

    for (uint64_t i = 0; i < KEPT; i++) {
        pattern_fill(payload, 100 + i * 500, i);
        AM_OK(ram_request(am, 1, KEEP, &i, 1, payload, 100 + i * 500, &r[i], 0));
        AM_RC(R_PENDING, ram_wait(am, r[i], NULL, R_NOWAIT));
    }
    for (int i = 0; i < KEPT; i++) {
        AM_OK(ram_wait(am, r[i], &reply, 0));
        CHECK(NULL, reply.nargs == 2 && reply.args[0] == (uint64_t)i &&
                        reply.args[1] == KEPT - 1 - (uint64_t)i);
        CHECK(NULL, reply.bytes == (i % 2 == 0 ? REPLY_BYTES - 16 : 0));
        CHECK(NULL, pattern_same(reply.data, reply.bytes, (uint64_t)i));
        if (i == 0)
            held = reply; /* its credit is in use for so long */
        else
            AM_OK(ram_free(am, &reply));
    }
    CHECK(NULL, pattern_same(held.data, held.bytes, 0));
    AM_OK(ram_free(am, &held));
    AM_RC(-EINVAL, ram_free(am, &held));
}

static void keep_and_answer(void)
{
    while (keeps < KEPT)
        CHECK(NULL, ram_serve(am, 100, R_FOREVER) >= 0);
    for (int i = KEPT; i-- > 0;) { /* the last first; all of their replies fit, whichever is held */
        const uint64_t args[2] = {(uint64_t)i, KEPT - 1 - (uint64_t)i};
        ram_message_t b;

        CHECK(NULL,
              kept[i].args[0] == args[0] && pattern_same(kept[i].data, kept[i].bytes, args[0]));
        if (i % 2 == 0) {
            AM_OK(ram_reply_alloc(am, &kept[i], REPLY_BYTES - 16, &b));
            pattern_fill(b.data, b.bytes, args[0]);
            b.nargs = 2;
            memcpy(b.args, args, sizeof(args));
            AM_OK(ram_send(am, &b, NULL, 0));
        } else {
            AM_OK(ram_reply(am, &kept[i], RAM_RESULT, args, 2, NULL, 0));
        }
    }
    for (int i = 0; i < KEPT; i++) { /* answered, and still ours */
        CHECK(NULL, pattern_same(kept[i].data, kept[i].bytes, (uint64_t)i));
        AM_OK(ram_free(am, &kept[i]));
    }
}

/* ---- payloads of more than half of the memory, made in place ---- */

static void large(int peer)
{
    struct asked a[2] = {{0, 0}};
    ram_message_t b;

    for (uint64_t i = 0; i < 6; i++) {
        struct asked *at = &a[i % 2];

        if (i >= 2)
            collect(at);
        at->key = mp_key(mp_rank, peer, 9, i);
        AM_OK(ram_request_alloc(am, peer, REQUEST_BYTES * 2 / 3, &b, 0));
        pattern_fill(b.data, b.bytes, at->key);
        b.handler = SPACE;
        b.bytes -= i;
        b.nargs = 1;
        b.args[0] = at->key;
        AM_OK(ram_send(am, &b, &at->r, 0));
    }
    collect(&a[0]);
    collect(&a[1]);
    AM_OK(ram_request_alloc(am, peer, 1000, &b, 0));
    AM_OK(ram_free(am, &b));
    AM_RC(-EMSGSIZE, ram_request_alloc(am, peer, REQUEST_BYTES, &b, 0));
    AM_OK(ram_barrier(am));
}

/* ---- links that are idle retire ---- */

static void retire_and_return(void)
{
    ram_config_t cfg = configuration();
    uint64_t key = 1;

    cfg.context = 1;
    cfg.idle_ms = 1;
    AM_OK(ram_init(&am, &cfg));
    for (uint64_t life = 1; life <= 3; life++) {
        struct asked a = {0, 0};

        for (int peer = 0; peer < mp_ranks; peer++) {
            a.key = key++;
            AM_OK(ram_request(am, peer, ECHO, &a.key, 1, NULL, 0, &a.r, 0));
            collect(&a);
        }
        AM_OK(ram_barrier(am));
        do { /* mine are retired, and so are all that lead here */
            CHECK(NULL, ram_serve(am, 100, 1) >= 0);
        } while (count("links_out") > 0 || count("links_in") > 0);
        CHECK(NULL, count("retired") == count("opened") &&
                        count("opened") >= life * (uint64_t)mp_ranks && count("failed") == 0);
        CHECK_OK(NULL, network_barrier());
    }
    AM_OK(ram_exit(am));
}

/* A message that is kept keeps its link. */
static void kept_while_idle(void)
{
    ram_config_t cfg = configuration();
    uint64_t i = 3;
    char payload[300];

    cfg.context = 2;
    cfg.idle_ms = 1;
    cfg.max_links = 1;
    AM_OK(ram_init(&am, &cfg));
    keeps = 0;
    pattern_fill(payload, sizeof(payload), i);
    if (mp_rank == 0) {
        ram_request_t r;

        AM_OK(ram_request(am, 1, KEEP, &i, 1, payload, sizeof(payload), &r, 0));
        AM_OK(ram_wait(am, r, NULL, 0));
        for (int turn = 0; turn < 30; turn++)
            AM_RC(0, ram_serve(am, 1, 2));
        signal_rank(1);
    } else if (mp_rank == 1) {
        while (keeps == 0)
            CHECK(NULL, ram_serve(am, 1, R_FOREVER) >= 0);
        AM_OK(ram_reply(am, &kept[0], RAM_RESULT, NULL, 0, NULL, 0));
        await_rank(0);
        AM_RC(0, ram_serve(am, 1, 0));
        CHECK(NULL, pattern_same(kept[0].data, kept[0].bytes, i));
        AM_OK(ram_free(am, &kept[0]));
    }
    AM_OK(ram_barrier(am));
    AM_OK(ram_exit(am));
}

/* ---- contexts that differ ---- */

static void differ(void)
{
    ram_handler_t other[HANDLERS];
    ram_config_t cfg = configuration();
    ram_request_t r;
    int rc;

    memcpy(other, handlers, sizeof(other));
    other[NOTE].name = "another";
    cfg.context = 3;
    if (mp_rank == 0)
        cfg.handlers = other;
    AM_OK(ram_init(&am, &cfg));
    if (mp_rank == 0) {
        uint64_t key = 1;

        rc = ram_request(am, 1, ECHO, &key, 1, NULL, 0, &r, 0);
        if (rc == 0) /* it was in flight before the other one had received the greeting */
            rc = ram_wait(am, r, NULL, 0);
        AM_RC(-EPROTO, rc);
        CHECK(NULL, count("failed") == 1 && count("links_out") == 0);
        signal_rank(1);
    } else if (mp_rank == 1) {
        while (count("failed") == 0)
            AM_RC(0, ram_serve(am, 1, 10));
        CHECK_ERROR(NULL, "another");
        CHECK(NULL, count("links_in") == 0);
        await_rank(0);
    }
    AM_OK(ram_exit(am));
}

/* The same handlers in another order: they are matched by name, in requests and in replies. */
static void reorder(void)
{
    ram_handler_t other[HANDLERS];
    ram_config_t cfg = configuration();
    bool reversed = mp_rank % 2 == 0;

    for (int i = 0; i < HANDLERS; i++)
        other[i] = handlers[reversed ? HANDLERS - 1 - i : i];
    noted_number = reversed ? HANDLERS - 1 - NOTED : NOTED;
    cfg.context = 4;
    cfg.handlers = other;
    noted = 0;
    AM_OK(ram_init(&am, &cfg));
    for (int peer = 0; peer < mp_ranks; peer++) {
        const uint64_t args[3] = {7, 2, ~UINT64_C(2)};
        struct asked a = {0, 12345};
        char payload[64];

        AM_OK(ram_request(am, peer, reversed ? HANDLERS - 1 - ECHO : ECHO, &a.key, 1, payload, 0,
                          &a.r, 0));
        collect(&a);
        pattern_fill(payload, sizeof(payload), args[0]);
        AM_OK(ram_request(am, peer, reversed ? HANDLERS - 1 - NOTE : NOTE, args, 3, payload,
                          sizeof(payload), NULL, 0));
    }
    AM_OK(ram_flush(am));
    CHECK(NULL, noted == (uint64_t)mp_ranks && count("failed") == 0);
    AM_OK(ram_barrier(am));
    AM_OK(ram_exit(am));
}

int main(int argc, char **argv)
{
    ram_config_t cfg = configuration();
    uint64_t messages;

    mp_begin(argc, argv, 2);
    messages = (uint64_t)mp_number(argc, argv, 600);
    AM_OK(ram_init(&am, &cfg));
    AM_OK(ram_barrier(am));
    all_with_all(messages);
    all_were_noted(messages);
    if (mp_rank == 0)
        flood();
    else if (mp_rank == 1)
        be_flooded();
    AM_OK(ram_barrier(am));
    if (mp_rank == 0)
        ask_and_wait();
    else if (mp_rank == 1)
        keep_and_answer();
    AM_OK(ram_barrier(am));
    large((mp_rank + 1) % mp_ranks);
    AM_OK(ram_exit(am));
    retire_and_return();
    kept_while_idle();
    differ();
    reorder();
    return mp_end();
}
