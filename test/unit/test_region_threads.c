/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions and threads: one end of a pipe in many threads (thread_sync), all of which send from memory of the program's, or of the
 * pipe, wait for their words, and register and give back regions meanwhile; the other end in many threads that read into regions, or
 * not. And an end that is closed by one thread while others send, wait, register and give back: what was accepted is delivered.
 *
 * Memory is spoiled as soon as its word allows it, so a word that comes too early is a message that is not what was sent. A failure
 * in a thread is printed there, counted, and asserted by the test. Each test runs as PUT and as GET in the settings of pair_main, over the
 * simulated network too; and under ThreadSanitizer.
 */
#include "test/lib/pair.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
    SENDERS = 3,
    READERS = 2,
    MOST = 240,
    PIECES = 4,
    PIECE = 1500,
    HEAP = 1 << 15,
    UNIT = 64,
    OWN = 8 * UNIT
};

static uint64_t messages(void) { return pair_over_network() ? 60 : MOST; }

static uint64_t key_of(uint64_t who, uint64_t i) { return who << 32 | i; }

static size_t size_of(uint64_t key) { return random_mix(~key) % PIECE; }

struct load {
    struct pair p;
    rregion_t shared; /* memory of the pipe, a part for each sender; NULL: of the program's */
    bool comes;       /* more of it may come and go */
    atomic_int senders_left;
    atomic_uchar seen[SENDERS][MOST];
};

struct member {
    struct load *load;
    uint64_t number;
    uint8_t memory[PIECES][PIECE];
    int word[PIECES];
};

/* True: of the pipe's own memory much can come and go; next-fit keeps what was allocated behind a block that stays. */
static bool open_locked(struct pair *p, rpipe_op_t op)
{
    rpipe_config_t cfg = pair_config(op, HEAP);

    cfg.flags |= RPIPE_THREADS;
    cfg.slots = 16;
    cfg.timeout_ms = 60000;
    pair_open_with(p, &cfg);
    return cfg.heuristic != RMALLOC_NEXT_FIT;
}

/* ---- senders ---- */

/* By a call that waits; by polls; or by another thread of this end, as an acquiring load sees. */
static int await(rch_t w, int *word, uint64_t how)
{
    int rc = 0;

    if (how % 3 == 0)
        return rdone(w, word, 0);
    while (how % 3 == 1 && (rc = rdone(w, word, R_NOWAIT)) == R_PENDING)
        sched_yield();
    while (how % 3 == 2 && __atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) {
        rc = rdone(w, NULL, R_NOWAIT);
        if (rc != 0 && rc != R_PENDING)
            return rc;
        rc = 0;
        sched_yield();
    }
    return rc;
}

/* Registers, sends and gives back, while others send; every other one of a region that stays. */
static void *send_program(struct member *me, rch_t w)
{
    rregion_t region = NULL, once = NULL;

    CHECK(w, rregion_open(&region, w, me->memory, sizeof(me->memory)) == 0);
    for (uint64_t i = 0; i < messages(); i++) {
        uint64_t key = key_of(me->number, i);
        size_t at = i % PIECES, size = size_of(key);

        CHECK(w, i < PIECES || await(w, &me->word[at], i) == 0);
        CHECK(w, me->word[at] == 1);
        memset(me->memory[at], 0x5a, PIECE);
        pattern_fill(me->memory[at], size, key);
        if (i % 5 == 4) {
            CHECK(w, rregion_open(&once, w, me->memory[at], PIECE) == 0);
            CHECK(w, rwrite_from(w, once, 0, size, key, &me->word[at], 0) == 0);
            CHECK(w, rdone(w, &me->word[at], 0) == 0);
            CHECK(w, rregion_close(once) == 0);
        } else {
            CHECK(w, rwrite_from(w, region, at * PIECE, size, key, &me->word[at], 0) == 0);
        }
    }
    for (size_t at = 0; at < PIECES; at++)
        CHECK(w, await(w, &me->word[at], at) == 0 && me->word[at] == 1);
    CHECK(w, rregion_close(region) == 0);
    return NULL;
}

/* Memory of the pipe: its own part of a region that all share, and one that comes and goes. */
static void *send_pipes(struct member *me, rch_t w)
{
    size_t part = me->number * OWN;
    rregion_t own = NULL;
    int word = 1;

    for (uint64_t i = 0; i < messages(); i++) {
        uint64_t key = key_of(me->number, i);
        bool comes = me->load->comes && i % 4 == 3;
        size_t size = size_of(key) % (OWN + 1);
        rregion_t region = me->load->shared;
        uint8_t *memory = (uint8_t *)rregion_mem(region) + part;

        CHECK(w,
              await(w, &word, i) == 0); /* whichever thread writes it: no plain load of it before */
        if (comes) {
            CHECK(w, rregion_open(&own, w, NULL, OWN) == 0);
            region = own;
            memory = rregion_mem(own);
        }
        memset(memory, 0x5a, OWN);
        pattern_fill(memory, size, key);
        CHECK(w, rwrite_from(w, region, comes ? 0 : part, size, key, &word, 0) == 0);
        if (comes) {
            CHECK(w, rdone(w, &word, 0) == 0 && rregion_close(own) == 0);
        }
    }
    CHECK(w, rdone(w, &word, 0) == 0);
    return NULL;
}

static void *sending(void *argument)
{
    struct member *me = argument;
    rch_t w = me->load->p.w;

    if (me->load->shared == NULL)
        (void)send_program(me, w);
    else
        (void)send_pipes(me, w);
    if (atomic_fetch_sub(&me->load->senders_left, 1) ==
        1) { /* also after a fault: the readers wait for the end */
        CHECK(w, me->load->shared == NULL || rregion_close(me->load->shared) == 0);
        CHECK(w, rclose(w) == 0);
    }
    return NULL;
}

/* ---- readers ---- */

/* Into the own region, or not: in turns, and each thread for itself. */
static int read_one(struct member *me, rregion_t into, uint64_t turn, size_t *size, uint64_t *tag,
                    bool *same)
{
    rch_t r = me->load->p.r;
    raddr_t d = ADDR_NULL;
    int rc;

    *same = false;
    if ((turn + me->number) % 3 != 0) {
        rc = turn % 2 == 0 ? rread_into(r, into, PIECE, PIECE, size, tag, 0) : R_PENDING;
        while (rc == R_PENDING) {
            rc = rread_into(r, into, PIECE, PIECE, size, tag, R_NOWAIT);
            sched_yield();
        }
        *same = rc == 0 && pattern_same(me->memory[1], *size, *tag);
        return rc;
    }
    rc = rread(r, &d, size);
    if (rc != 0)
        return rc;
    *tag = rtag(r, d);
    *same = pattern_same(rmem(r, d), *size, *tag);
    return rfree(r, d);
}

static void *reading(void *argument)
{
    struct member *me = argument;
    int64_t last[SENDERS] = {-1, -1, -1};
    rch_t r = me->load->p.r;
    rregion_t into = NULL;
    uint64_t tag = 0, turn;
    size_t size = 0;
    bool same;
    int rc;

    CHECK(r, rregion_open(&into, r, me->memory, sizeof(me->memory)) == 0);
    for (turn = 0; (rc = read_one(me, into, turn, &size, &tag, &same)) == 0; turn++) {
        uint64_t who = tag >> 32, i = tag & 0xffffffff;

        CHECK(r, who < SENDERS && i < messages() && (int64_t)i > last[who]);
        last[who] = (int64_t)i;
        CHECK(r,
              size == (me->load->shared == NULL ? size_of(tag) : size_of(tag) % (OWN + 1)) && same);
        CHECK(r, atomic_fetch_add(&me->load->seen[who][i], 1) == 0);
    }
    CHECK(r, rc == R_EOF);
    CHECK(r, rregion_close(into) == 0);
    return NULL;
}

static void load(rpipe_op_t op, bool pipes)
{
    struct load *all = calloc(1, sizeof(*all));
    struct member *member = calloc(SENDERS + READERS, sizeof(*member));
    pthread_t thread[SENDERS + READERS];

    assert_true(all != NULL && member != NULL);
    atomic_store(&check_failures, 0);
    atomic_store(&all->senders_left, SENDERS);
    all->comes = open_locked(&all->p, op);
    if (pipes)
        CHECK_OK(all->p.w, rregion_open(&all->shared, all->p.w, NULL, SENDERS * OWN));
    for (size_t i = 0; i < SENDERS + READERS; i++) {
        member[i].load = all;
        member[i].number = i < SENDERS ? i : i - SENDERS;
        for (size_t at = 0; at < PIECES; at++)
            member[i].word[at] = 1;
        assert_int_equal(
            pthread_create(&thread[i], NULL, i < SENDERS ? sending : reading, &member[i]), 0);
    }
    for (size_t i = 0; i < SENDERS + READERS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
    for (size_t k = 0; k < SENDERS; k++)
        for (uint64_t i = 0; i < messages(); i++)
            assert_int_equal(atomic_load(&all->seen[k][i]), 1);
    CHECK_OK(all->p.r, rclose(all->p.r));
    free(member);
    free(all);
}

static void test_program(void **state) { load(op_of(state), false); }

static void test_pipes(void **state) { load(op_of(state), true); }

/* ---- an end that is closed meanwhile ---- */

struct closing {
    struct pair p;
    atomic_int begun;
    rregion_t own; /* a part of which is with the reader */
    int word;
};

/* A region that has gone with its pipe can be given back all the same; one whose part is out not before. */
static void *give_back(void *argument)
{
    struct closing *c = argument;
    int rc;

    atomic_fetch_add(&c->begun, 1);
    while ((rc = rregion_close(c->own)) == -EBUSY)
        sched_yield();
    CHECK(NULL, rc == 0);
    return NULL;
}

static void *wait_for_word(void *argument)
{
    struct closing *c = argument;

    atomic_fetch_add(&c->begun, 1);
    CHECK(c->p.w, rdone(c->p.w, &c->word, 0) == -ENOTCONN);
    CHECK(c->p.w, __atomic_load_n(&c->word, __ATOMIC_ACQUIRE) == -ENOTCONN);
    return NULL;
}

/* Memory of the pipe as long as there is any: none of it is lost sight of. */
static void *register_on(void *argument)
{
    struct closing *c = argument;
    rregion_t region[8];
    int rc = 0, n = 0;

    atomic_fetch_add(&c->begun, 1);
    while (rc == 0 && n < 8) {
        rc = rregion_open(&region[n], c->p.w, NULL, 500);
        n += rc == 0;
    }
    CHECK(c->p.w, rc == 0 || rc == -ENOTCONN);
    while (n > 0)
        CHECK(NULL, rregion_close(region[--n]) == 0);
    return NULL;
}

/* Sends parts until the ring is full, and waits. */
static void *send_on(void *argument)
{
    struct closing *c = argument;
    rregion_t own = NULL;
    int word[40], rc;

    atomic_fetch_add(&c->begun, 1);
    rc = rregion_open(&own, c->p.w, NULL, 40 * UNIT);
    if (rc == -ENOTCONN)
        return NULL;
    CHECK(c->p.w, rc == 0);
    for (size_t i = 0; i < 40; i++) {
        word[i] = 4711;
        rc = rwrite_from(c->p.w, own, i * UNIT, UNIT, 0, &word[i], 0);
        if (rc == -EINVAL) /* it has gone already */
            rc = -ENOTCONN;
        CHECK(c->p.w, rc == 0 || (rc == -ENOTCONN && word[i] == 4711));
        if (rc != 0)
            break;
    }
    CHECK(c->p.w, rc == -ENOTCONN); /* no reader is left */
    CHECK(NULL, rregion_close(own) == 0);
    return NULL;
}

static void test_close(void **state)
{
    static void *(*const calls[])(void *) = {give_back, wait_for_word, register_on, send_on};
    enum { N = 4 };
    pthread_t thread[N];

    atomic_store(&check_failures, 0);
    for (int round = 0; round < 12; round++) {
        struct closing *c = calloc(1, sizeof(*c));

        assert_non_null(c);
        (void)open_locked(&c->p, op_of(state));
        CHECK_OK(c->p.w, rregion_open(&c->own, c->p.w, NULL, UNIT));
        CHECK_OK(c->p.w, rwrite_from(c->p.w, c->own, 0, UNIT, 0, &c->word, 0));
        for (size_t i = 0; i < N; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, calls[i], c), 0);
        while (atomic_load(&c->begun) < N)
            sched_yield();
        for (int turns = round % 4 * 30; turns > 0; turns--)
            sched_yield();
        CHECK_OK(c->p.w, rclose(c->p.w));
        for (size_t i = 0; i < N; i++)
            pthread_join(thread[i], NULL);
        assert_int_equal(atomic_load(&check_failures), 0);
        CHECK_OK(c->p.r, rclose(c->p.r));
        free(c);
    }
}

/* ---- an end that is closed while messages are posted ---- */

/*
 * What has been accepted is delivered, whole, and its word is 1: rclose waits for what other threads have posted behind the first part
 * of its wait too. A thread changes its memory as soon as its word is written.
 */
struct posting {
    struct pair p;
    atomic_int begun;
    atomic_uint_fast64_t accepted[SENDERS], seen[SENDERS];
};

static void post_change(struct member *me, size_t at)
{
    int word;

    while ((word = __atomic_load_n(&me->word[at], __ATOMIC_ACQUIRE)) == 0)
        sched_yield();
    memset(me->memory[at], 0x5a, PIECE);
    CHECK(NULL, word == 1);
}

struct poster {
    struct member member;
    struct posting *all;
};

static int post_one(struct poster *me, rch_t w, rregion_t region, uint64_t i)
{
    uint64_t key = key_of(me->member.number, i);
    size_t at = i % PIECES, size = size_of(key);
    int rc = R_PENDING;

    if (me->member.number == 0)
        return rsend(w, &key, sizeof(key), 0);
    while (rc == R_PENDING && __atomic_load_n(&me->member.word[at], __ATOMIC_ACQUIRE) == 0)
        rc = rdone(w, &me->member.word[at], R_NOWAIT);
    if (rc != 0 && rc != R_PENDING)
        return rc;
    post_change(&me->member, at);
    pattern_fill(me->member.memory[at], size, key);
    return rwrite_from(w, region, at * PIECE, size, key, &me->member.word[at], 0);
}

static void *post_on(void *argument)
{
    struct poster *me = argument;
    struct posting *c = me->all;
    rregion_t region = NULL;
    int rc = 0;

    CHECK(c->p.w, rregion_open(&region, c->p.w, me->member.memory, sizeof(me->member.memory)) == 0);
    atomic_fetch_add(&c->begun, 1);
    for (uint64_t i = 0; rc == 0; i++) {
        rc = post_one(me, c->p.w, region, i);
        if (rc == 0)
            atomic_fetch_add(&c->accepted[me->member.number], 1);
    }
    CHECK(c->p.w, rc == -ENOTCONN);
    for (size_t at = 0; at < PIECES; at++)
        post_change(&me->member, at);
    while ((rc = rregion_close(region)) == -EBUSY) /* until the connection is closed */
        sched_yield();
    CHECK(NULL, rc == 0);
    return NULL;
}

static void *receive_all(void *argument)
{
    struct posting *c = argument;
    uint64_t key;
    raddr_t d = ADDR_NULL;
    size_t size = 0;
    int rc;

    while ((rc = rread(c->p.r, &d, &size)) == 0) {
        bool small = rtag(c->p.r, d) == 0;

        memcpy(&key, rmem(c->p.r, d), small ? sizeof(key) : 0);
        key = small ? key : rtag(c->p.r, d);
        CHECK(c->p.r,
              key >> 32 < SENDERS && (key & 0xffffffff) == atomic_load(&c->seen[key >> 32]));
        CHECK(c->p.r, small || (size == size_of(key) && pattern_same(rmem(c->p.r, d), size, key)));
        atomic_fetch_add(&c->seen[key >> 32], 1);
        CHECK(c->p.r, rfree(c->p.r, d) == 0);
    }
    CHECK(c->p.r, rc == R_EOF);
    CHECK(c->p.r, rclose(c->p.r) == 0);
    return NULL;
}

static void close_while_posted(rpipe_op_t op, int turns)
{
    struct posting *c = calloc(1, sizeof(*c));
    struct poster *poster = calloc(SENDERS, sizeof(*poster));
    pthread_t thread[SENDERS], reader;

    assert_true(c != NULL && poster != NULL);
    (void)open_locked(&c->p, op);
    for (size_t i = 0; i < SENDERS; i++) {
        poster[i].all = c;
        poster[i].member.number = i;
        for (size_t at = 0; at < PIECES; at++)
            poster[i].member.word[at] = 1;
        assert_int_equal(pthread_create(&thread[i], NULL, post_on, &poster[i]), 0);
    }
    while (atomic_load(&c->begun) < SENDERS)
        sched_yield();
    while (turns-- > 0)
        sched_yield();
    assert_int_equal(pthread_create(&reader, NULL, receive_all, c), 0);
    CHECK_OK(c->p.w, rclose(c->p.w));
    for (size_t i = 0; i < SENDERS; i++)
        pthread_join(thread[i], NULL);
    pthread_join(reader, NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
    for (size_t k = 0; k < SENDERS; k++)
        assert_int_equal(atomic_load(&c->seen[k]), atomic_load(&c->accepted[k]));
    free(poster);
    free(c);
}

static void test_close_posted(void **state)
{
    atomic_store(&check_failures, 0);
    for (int round = 0; round < 6; round++)
        close_while_posted(op_of(state), round * 20);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_program),
        PUT_AND_GET(test_pipes),
        PUT_AND_GET(test_close),
        PUT_AND_GET(test_close_posted),
    };

    return cmocka_run_group_tests_name("region_threads", tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
