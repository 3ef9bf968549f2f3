/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cast_nak.c: multicast with NAKs (lib/cast/nak) over a simulated network: packets are lost, repeated and overtake each other, by
 * chance; members die. Every living member has to get every message, once, in order, each byte.
 *
 * Time is that of the simulation: the program never waits. usage: test_cast_nak [SEED]; the seed of a failure is in its message.
 */
#include "cast/nak/receiver.h"
#include "cast/nak/sender.h"

#include "test/lib/pattern.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY UINT64_C(0x0123456789abcdef)
#define PAYLOAD 64u
#define MEMBERS_MOST 15
#define SLOTS 128u        /* messages in flight */
#define MESSAGE_MOST 256u /* bytes; the memory of message k is element k % SLOTS */
#define DELAY 20000       /* ns, and up to so much more */

static uint64_t seed = 1;

/* ---- the network: packets in flight, a heap with the earliest on top ---- */

struct flight {
    int64_t at;
    int to;     /* a member, or NAK_ROOT */
    uint8_t by; /* NAK_BY_..., or 0: it was not sent to the group */
    uint32_t bytes;
    _Alignas(8) unsigned char packet[sizeof(struct nak_head) + PAYLOAD];
};

struct net {
    struct flight *heap;
    size_t count, room;
    int64_t now;
    uint64_t random;
    unsigned lose, repeat, overtake; /* percent */
    bool group_passes;
    uint64_t packets;
};

static bool net_draw(struct net *net, unsigned percent)
{
    return random_draw(&net->random) % 100 < percent;
}

static void net_push(struct net *net, const struct flight *f)
{
    size_t i;

    if (net->count == net->room) {
        net->room = net->room == 0 ? 1024 : 2 * net->room;
        net->heap = realloc(net->heap, net->room * sizeof(*net->heap));
        assert_non_null(net->heap);
    }
    for (i = net->count++; i > 0 && net->heap[(i - 1) / 2].at > f->at; i = (i - 1) / 2)
        net->heap[i] = net->heap[(i - 1) / 2];
    net->heap[i] = *f;
}

static struct flight net_pop(struct net *net)
{
    const struct flight top = net->heap[0], last = net->heap[--net->count];
    size_t i = 0, next;

    for (; (next = 2 * i + 1) < net->count; i = next) {
        if (next + 1 < net->count && net->heap[next + 1].at < net->heap[next].at)
            next++;
        if (net->heap[next].at >= last.at)
            break;
        net->heap[i] = net->heap[next];
    }
    net->heap[i] = last;
    return top;
}

/* One packet to one destination: lost, late, repeated. */
static void net_send(struct net *net, int to, uint8_t by, const struct nak_head *head,
                     const void *payload)
{
    struct flight f = {.to = to, .by = by};
    int copies = net_draw(net, net->repeat) ? 2 : 1;

    f.bytes = (uint32_t)sizeof(*head) + head->bytes;
    memcpy(f.packet, head, sizeof(*head));
    if (head->bytes > 0)
        memcpy(f.packet + sizeof(*head), payload, head->bytes);
    net->packets++;
    for (; copies > 0; copies--) {
        if (net_draw(net, net->lose))
            continue;
        f.at = net->now + DELAY;
        if (net_draw(net, net->overtake))
            f.at += (int64_t)(random_draw(&net->random) % (10 * DELAY));
        net_push(net, &f);
    }
}

/* ---- a cast ---- */

struct member {
    struct nak_receiver r;
    struct cast *cast;
    bool dead, left;
    int64_t kill_at;
    unsigned reads; /* percent of the rounds in which its program reads */
    uint64_t read;  /* next message */
    _Alignas(16) unsigned char memory[SLOTS][MESSAGE_MOST];
};

struct cast {
    struct net net;
    struct nak_sender s;
    int members;
    struct member *member;
    uint64_t first, next, messages; /* numbers of messages: next to be written, how many */
    uint32_t index;                 /* next packet of message `next` */
    bool ended;
    bool device; /* there is one, which is measured until all receive by it */
    _Alignas(16) unsigned char memory[SLOTS][MESSAGE_MOST];
};

static uint64_t size_of(uint64_t message)
{
    const uint64_t x = random_mix(message);

    return x % 4 == 0 ? x / 4 % (MESSAGE_MOST + 1) : x / 4 % 49;
}

static void from_root(void *arg, int to, const struct nak_head *head, const void *payload)
{
    struct cast *c = arg;

    for (int i = 0; i < c->members; i++)
        if (to == i)
            net_send(&c->net, i, 0, head, payload);
        else if (to == NAK_PROBE || (to == NAK_GROUP && c->s.by == NAK_BY_DEVICE))
            net_send(&c->net, i, NAK_BY_DEVICE, head, payload);
        else if (to == NAK_GROUP && c->net.group_passes)
            net_send(&c->net, i, NAK_BY_GROUP, head, payload);
}

static void from_member(void *arg, int to, const struct nak_head *head, const void *payload)
{
    struct member *m = arg;

    assert_int_equal(to, NAK_ROOT);
    net_send(&m->cast->net, NAK_ROOT, 0, head, payload);
}

static void cast_open(struct cast *c, int members, uint64_t first_packet, uint64_t messages)
{
    const struct nak_out out = {from_root, c};

    c->members = members;
    c->messages = messages;
    c->first = c->next = first_packet + 12345;
    c->net.random = seed;
    c->net.now = 1;
    c->member = calloc((size_t)members, sizeof(*c->member));
    assert_non_null(c->member);
    assert_int_equal(nak_sender_open(&c->s, &out, KEY, first_packet, c->first, (uint32_t)members),
                     0);
    for (int i = 0; i < members; i++) {
        struct member *m = &c->member[i];
        const struct nak_out back = {from_member, m};

        m->cast = c;
        m->reads = 100;
        m->kill_at = INT64_MAX;
        m->read = c->first;
        nak_receiver_open(&m->r, &back, KEY, first_packet, c->first, (uint32_t)i, PAYLOAD);
    }
}

static void cast_close(struct cast *c)
{
    nak_sender_close(&c->s);
    free(c->member);
    free(c->net.heap);
    free(c);
}

/* ---- the root ---- */

static void root_measure(struct cast *c)
{
    if (nak_sender_all_by(&c->s, NAK_BY_DEVICE)) {
        nak_sender_use(&c->s, NAK_BY_DEVICE);
        c->net.group_passes = false;
    } else if (net_draw(&c->net, 5)) {
        nak_sender_probe(&c->s, c->net.now);
    }
}

static uint64_t root_floor(const struct cast *c)
{
    uint64_t ahead = c->next - c->first;

    for (int i = 0; i < c->members; i++)
        if (!c->s.member[i].gone && c->s.member[i].freed - c->first < ahead)
            ahead = c->s.member[i].freed - c->first;
    return c->first + ahead;
}

/* Sends packets as long as window and memory allow it. */
static void root_write(struct cast *c)
{
    bool waits = false;

    while (!c->ended && nak_sender_room(&c->s) > 0) {
        const uint64_t whole = size_of(c->next), from = (uint64_t)c->index * PAYLOAD;
        unsigned char *mem = c->memory[c->next % SLOTS];
        struct nak_head h = {.message = c->next};

        if (c->next - c->first == c->messages) {
            h.flags = NAK_END;
            c->ended = true;
            nak_sender_send(&c->s, &h, NULL, c->net.now);
            break;
        }
        waits = c->next - root_floor(c) >= SLOTS;
        if (waits)
            break;
        if (c->index == 0)
            pattern_fill(mem, whole, seed ^ c->next);
        h.serial = c->index++;
        h.word = whole;
        h.bytes = (uint16_t)(whole - from < PAYLOAD ? whole - from : PAYLOAD);
        nak_sender_send(&c->s, &h, mem + from, c->net.now);
        if (from + h.bytes == whole) {
            c->index = 0;
            c->next++;
        }
    }
    nak_sender_wait(&c->s, waits, c->net.now);
    if (c->device && c->s.by != NAK_BY_DEVICE)
        root_measure(c);
}

/* ---- a member ---- */

static void member_receive(struct member *m, const struct nak_head *h, const unsigned char *payload,
                           uint8_t by)
{
    const int64_t now = m->cast->net.now;

    if (h->kind == NAK_ASK) {
        nak_receiver_asked(&m->r, h, by, now);
        return;
    }
    assert_int_equal(h->kind, NAK_DATA);
    const int rc = nak_receiver_check(&m->r, h);

    if (rc == -EALREADY)
        return;
    assert_int_equal(rc, 0);
    assert_true(h->flags == NAK_END || h->message - m->r.freed < SLOTS); /* its memory is free */
    memcpy(m->memory[h->message % SLOTS] + h->serial * PAYLOAD, payload, h->bytes);
    assert_int_equal(nak_receiver_stored(&m->r, h, by, now), 0);
}

/* Its program reads what is there, or not now. */
static void member_read(struct member *m)
{
    struct cast *c = m->cast;

    while (m->read != m->r.complete && net_draw(&c->net, m->reads)) {
        const bool same =
            pattern_same(m->memory[m->read % SLOTS], size_of(m->read), seed ^ m->read);

        if (!same)
            fail_msg("seed %llu: message %llu at member %d is not what was sent",
                     (unsigned long long)seed, (unsigned long long)(m->read - c->first),
                     (int)(m - c->member));
        memset(m->memory[m->read % SLOTS], 0xee, MESSAGE_MOST);
        m->read++;
        nak_receiver_freed(&m->r, m->read, (m->read - c->first) % (SLOTS / 4) == 0);
    }
    if (m->r.ended && m->read == m->r.complete && !m->left) {
        m->left = true; /* the control network reports that */
        nak_sender_gone(&c->s, (uint32_t)(m - c->member), c->net.now);
    }
}

static void member_step(struct member *m)
{
    struct cast *c = m->cast;

    if (m->dead || m->left)
        return;
    if (c->net.now >= m->kill_at) {
        m->dead = true;
        nak_sender_gone(&c->s, (uint32_t)(m - c->member), c->net.now);
        return;
    }
    nak_receiver_tick(&m->r, c->net.now);
    member_read(m);
}

/* ---- running ---- */

static void deliver(struct cast *c, const struct flight *f)
{
    struct nak_head h;
    const int rc = nak_decode(&h, f->packet, f->bytes, KEY);

    assert_int_equal(rc, 0);
    if (f->to == NAK_ROOT) {
        if (!c->s.member[h.member].gone)
            assert_int_not_equal(nak_sender_receive(&c->s, &h, c->net.now), -EPROTO);
    } else if (!c->member[f->to].dead && !c->member[f->to].left) {
        member_receive(&c->member[f->to], &h, f->packet + sizeof(h), f->by);
    }
}

static int64_t earliest(const struct cast *c)
{
    int64_t at = nak_sender_due(&c->s);

    if (c->net.count > 0 && c->net.heap[0].at < at)
        at = c->net.heap[0].at;
    for (int i = 0; i < c->members; i++) {
        const struct member *m = &c->member[i];

        if (m->dead || m->left)
            continue;
        if (nak_receiver_due(&m->r) < at)
            at = nak_receiver_due(&m->r);
        if (m->kill_at < at)
            at = m->kill_at;
        if (m->read != m->r.complete && c->net.now + 1000000 < at)
            at = c->net.now + 1000000; /* a program that reads later */
    }
    return at;
}

/* Until the root has ended and every member that lives has all. */
static void cast_run(struct cast *c)
{
    root_write(c);
    while (!c->ended || !nak_sender_done(&c->s)) {
        const int64_t at = earliest(c);

        if (at == NAK_NEVER)
            fail_msg("seed %llu: nothing happens any more after message %llu",
                     (unsigned long long)seed, (unsigned long long)(c->next - c->first));
        assert_true(c->net.now < 3600 * INT64_C(1000000000));
        if (at > c->net.now)
            c->net.now = at;
        while (c->net.count > 0 && c->net.heap[0].at <= c->net.now) {
            const struct flight f = net_pop(&c->net);

            deliver(c, &f);
        }
        nak_sender_tick(&c->s, c->net.now);
        for (int i = 0; i < c->members; i++)
            member_step(&c->member[i]);
        root_write(c);
    }
    for (int i = 0; i < c->members; i++) {
        struct member *m = &c->member[i];

        m->reads = 100;
        if (!m->dead && !m->left)
            member_read(m);
        if (!m->dead)
            assert_true(m->left && m->read - c->first == c->messages);
    }
}

static struct cast *cast_make(int members, unsigned lose, unsigned repeat, unsigned overtake,
                              uint64_t first_packet, uint64_t messages)
{
    struct cast *c = calloc(1, sizeof(*c));

    assert_non_null(c);
    cast_open(c, members, first_packet, messages);
    c->net.lose = lose;
    c->net.repeat = repeat;
    c->net.overtake = overtake;
    c->net.group_passes = true;
    return c;
}

static void report(const struct cast *c, const char *what)
{
    print_message("%s: %d members, %u %% lost: %llu messages, %llu packets, %llu sent again, %llu "
                  "questions, %.1f ms simulated\n",
                  what, c->members, c->net.lose, (unsigned long long)c->messages,
                  (unsigned long long)c->net.packets, (unsigned long long)c->s.again,
                  (unsigned long long)c->s.asks, (double)c->net.now / 1e6);
}

/* ---- tests ---- */

static const unsigned losses[] = {0, 1, 5, 10, 30};

static void test_every_message_arrives_once(void **state)
{
    static const int members[] = {1, 2, 5, 15};

    (void)state;
    for (size_t l = 0; l < sizeof(losses) / sizeof(*losses); l++)
        for (size_t m = 0; m < sizeof(members) / sizeof(*members); m++) {
            struct cast *c = cast_make(members[m], losses[l], losses[l], losses[l], 0, 4000);

            cast_run(c);
            report(c, "all live");
            if (losses[l] == 0)
                assert_int_equal(c->s.again, 0);
            cast_close(c);
        }
}

static void test_a_hundred_thousand(void **state)
{
    struct cast *c = cast_make(3, 5, 2, 10, 0, 100000);

    (void)state;
    cast_run(c);
    report(c, "long");
    cast_close(c);
}

static void test_numbers_wrap_around(void **state)
{
    static const uint64_t first[] = {UINT64_MAX - 99, UINT64_MAX - 12345 - 50, UINT32_MAX - 99u,
                                     UINT64_MAX / 2 - 99};

    (void)state;
    for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++) {
        struct cast *c = cast_make(3, 10, 10, 20, first[i], 2000);

        cast_run(c);
        cast_close(c);
    }
}

static void test_the_dead_do_not_count(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct cast *c = cast_make(2 + round % 14, losses[round % 5], 5, 20, 0, 1000);

        c->net.random = seed + (uint64_t)round;
        for (int i = 0; i < c->members; i++)
            if (net_draw(&c->net, round < 30 ? 40 : 100)) /* at last all of them */
                c->member[i].kill_at = (int64_t)(random_draw(&c->net.random) % 20000000);
        cast_run(c);
        cast_close(c);
    }
}

static void test_programs_that_read_late(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof(losses) / sizeof(*losses); l++) {
        struct cast *c = cast_make(4, losses[l], 5, 20, 0, 2000);

        for (int i = 0; i < c->members; i++)
            c->member[i].reads = 5 + 30 * (unsigned)i;
        cast_run(c);
        cast_close(c);
    }
}

/*
 * A carrier that all members report carries packets to the group from then on, and by the other one nothing arrives any more.
 */
static void test_a_second_carrier(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof(losses) / sizeof(*losses); l++) {
        struct cast *c = cast_make(4, losses[l], 5, 20, 0, 4000);

        c->device = true;
        cast_run(c);
        report(c, "two carriers");
        assert_int_equal(c->s.by, NAK_BY_DEVICE);
        assert_false(c->net.group_passes);
        cast_close(c);
    }
}

/* All packets have arrived, and the report of what was freed since is lost: a root that waits for memory asks. */
static void test_a_root_that_waits_asks(void **state)
{
    struct cast *c = cast_make(1, 0, 0, 0, 0, 5);
    struct nak_receiver *r = &c->member[0].r;

    (void)state;
    cast_run(c);
    assert_true(nak_sender_done(&c->s) && nak_sender_due(&c->s) == NAK_NEVER);
    c->s.member[0].gone = false; /* it has not left */
    c->s.member[0].freed = c->first;
    nak_sender_wait(&c->s, true, c->net.now);
    for (int i = 0; i < 3; i++) { /* again and again */
        assert_true(nak_sender_due(&c->s) != NAK_NEVER);
        c->net.now = nak_sender_due(&c->s);
        nak_sender_tick(&c->s, c->net.now);
    }
    assert_int_equal(c->s.asks, 3);
    nak_receiver_asked(r, &(struct nak_head){.number = c->s.next, .serial = 3}, NAK_BY_GROUP,
                       c->net.now);
    while (c->net.count > 0) {
        const struct flight f = net_pop(&c->net);

        deliver(c, &f);
    }
    assert_true(c->s.member[0].freed == c->first + 5);
    nak_sender_wait(&c->s, false, c->net.now);
    assert_true(nak_sender_due(&c->s) == NAK_NEVER);
    cast_close(c);
}

/* Reports that only repeat what is known do not begin the delay again; when all is freed, nothing is waited for. */
static void test_a_wait_ends(void **state)
{
    struct cast *c = cast_make(1, 0, 0, 0, 0, 5);
    struct nak_head report = {.kind = NAK_REPORT};
    int64_t due;

    (void)state;
    cast_run(c);
    c->s.member[0].gone = false; /* it has not left */
    c->s.member[0].freed = c->first;
    c->s.member[0].got = c->s.next;
    nak_sender_wait(&c->s, true, c->net.now);
    c->net.now = nak_sender_due(&c->s);
    nak_sender_tick(&c->s, c->net.now);
    due = nak_sender_due(&c->s);
    report.number = c->s.next;
    report.message = c->first;
    assert_int_equal(nak_sender_receive(&c->s, &report, c->net.now + 1), 0);
    assert_true(nak_sender_due(&c->s) == due);
    report.message = c->first + 4;
    assert_int_equal(nak_sender_receive(&c->s, &report, c->net.now + 1), 0);
    assert_true(nak_sender_due(&c->s) != NAK_NEVER);
    report.message = c->first + 5;
    assert_int_equal(nak_sender_receive(&c->s, &report, c->net.now + 1), 0);
    assert_true(nak_sender_due(&c->s) == NAK_NEVER);
    cast_close(c);
}

/* Where the group does not pass, each member gets its packets directly. */
static void test_without_a_group(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof(losses) / sizeof(*losses); l++) {
        struct cast *c = cast_make(4, losses[l], 5, 20, 0, 1000);

        c->net.group_passes = false;
        cast_run(c);
        cast_close(c);
    }
}

/* Where nothing is lost no packet is sent twice once all have reported by the group, and reports are one for 16 packets. */
static void test_few_packets_without_losses(void **state)
{
    struct cast *c = cast_make(8, 0, 0, 0, 0, 20000);

    (void)state;
    cast_run(c);
    report(c, "quiet");
    assert_int_equal(c->s.again, 0);
    for (int i = 0; i < c->members; i++)
        assert_true(c->member[i].r.naks == 0 && c->member[i].r.duplicates < 4 * NAK_WINDOW);
    cast_close(c);
}

/* ---- violations ---- */

static void test_wrong_reports(void **state)
{
    struct cast *c = cast_make(2, 0, 0, 0, 100, 10);
    struct nak_head h = {.version = NAK_VERSION, .kind = NAK_REPORT, .key = KEY, .number = 100};

    (void)state;
    root_write(c);
    h.message = c->first;
    h.member = 2;
    assert_int_equal(nak_sender_receive(&c->s, &h, 1), -EPROTO); /* no such member */
    h.member = 0;
    h.number = c->s.next + 1;
    assert_int_equal(nak_sender_receive(&c->s, &h, 1), -EPROTO); /* was never sent */
    h.number = 99;
    assert_int_equal(nak_sender_receive(&c->s, &h, 1), -ESTALE);
    h.number = c->s.next;
    h.word = UINT64_MAX; /* lacks what does not exist */
    assert_int_equal(nak_sender_receive(&c->s, &h, 1), 0);
    assert_true(c->s.again == 0 && c->s.low == 100 && c->s.member[0].got == c->s.next);
    cast_close(c);
}

static void test_wrong_packets(void **state)
{
    struct cast *c = cast_make(1, 0, 0, 0, 100, 10);
    struct nak_receiver *r = &c->member[0].r;
    struct nak_head good = {.version = NAK_VERSION,
                            .kind = NAK_DATA,
                            .key = KEY,
                            .number = 100,
                            .message = c->first,
                            .word = 70,
                            .bytes = PAYLOAD},
                    h = good;

    (void)state;
    h.number = 99;
    assert_int_equal(nak_receiver_check(r, &h), -EALREADY);
    h.number = 100 + NAK_WINDOW;
    assert_int_equal(nak_receiver_check(r, &h), -EALREADY);
    h = good;
    h.bytes = 63;
    assert_int_equal(nak_receiver_check(r, &h), -EPROTO);
    h.bytes = 6;
    h.serial = 2;
    assert_int_equal(nak_receiver_check(r, &h), -EPROTO);
    h = good;
    h.message++; /* not the first one */
    assert_int_equal(nak_receiver_check(r, &h), 0);
    assert_int_equal(nak_receiver_stored(r, &h, true, 1), -EPROTO);
    cast_close(c);
}

static void test_malformed_packets(void **state)
{
    struct nak_head h = {.version = NAK_VERSION, .kind = NAK_ASK, .key = KEY, .serial = 1}, out;
    _Alignas(8) unsigned char packet[sizeof(h)];

    (void)state;
    h.crc = nak_crc(&h, NULL);
    memcpy(packet, &h, sizeof(h));
    assert_int_equal(nak_decode(&out, packet, sizeof(h), KEY), 0);
    assert_int_equal(nak_decode(&out, packet, sizeof(h) - 1, KEY), -EBADMSG);
    assert_int_equal(nak_decode(&out, packet, sizeof(h), KEY + 1), -EACCES);
    for (size_t bit = 0; bit < 8 * sizeof(h); bit++) { /* no bit may change */
        packet[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_not_equal(nak_decode(&out, packet, sizeof(h), KEY), 0);
        packet[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_int_equal(nak_payload(1472), 1408);
    assert_int_equal(nak_payload(60), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_packets),
        cmocka_unit_test(test_wrong_reports),
        cmocka_unit_test(test_wrong_packets),
        cmocka_unit_test(test_few_packets_without_losses),
        cmocka_unit_test(test_every_message_arrives_once),
        cmocka_unit_test(test_programs_that_read_late),
        cmocka_unit_test(test_a_root_that_waits_asks),
        cmocka_unit_test(test_a_wait_ends),
        cmocka_unit_test(test_without_a_group),
        cmocka_unit_test(test_a_second_carrier),
        cmocka_unit_test(test_numbers_wrap_around),
        cmocka_unit_test(test_the_dead_do_not_count),
        cmocka_unit_test(test_a_hundred_thousand),
    };

    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    printf("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
