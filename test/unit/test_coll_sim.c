/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_coll_sim.c: the simulator of collectives: that it finds wrong graphs, that its times are those of its
 * rules, what deaths do, and that the cost model chooses what is fast in it.
 */
#include "coll/choose.h"
#include "coll/cost.h"
#include "test/unit/coll_case.h"
#include "tools/sim/data.h"
#include "tools/sim/sim.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- symbols ---- */

static void symbols_are_cut_copied_and_folded(void **state)
{
    struct data a = {0}, b = {0}, moved = {0};

    (void)state;
    assert_int_equal(data_fill(&a, 10, 20, 7, 100), 0);
    assert_true(data_is(&a, 10, 20, 7, 100));
    assert_true(data_is(&a, 15, 5, 7, 105));
    assert_false(data_is(&a, 9, 5, 7, 99));
    assert_false(data_is(&a, 25, 6, 7, 115));
    assert_false(data_is(&a, 10, 20, 8, 100));
    assert_false(data_is(&a, 10, 20, 7, 101));
    assert_int_equal(data_read(&a, 9, 2, 0, &moved), -EINVAL); /* never written */
    assert_int_equal(data_read(&a, 29, 2, 0, &moved), -EINVAL);
    assert_int_equal(data_read(&a, 12, 6, 50, &moved), 0);
    assert_true(data_is(&moved, 50, 6, 7, 102));
    assert_int_equal(data_fill(&b, 40, 30, 9, 92),
                     0); /* byte 50 is of source 102, as that of `moved` */
    assert_int_equal(data_fold(&b, &moved, COLL_ANY_ORDER, false), 0);
    assert_true(data_is(&b, 40, 10, 9, 92));
    assert_true(data_is(&b, 50, 6, 16, 102));
    assert_true(data_is(&b, 56, 14, 9, 108));
    assert_int_equal(data_write(&a, &moved), 0);
    assert_true(data_is(&a, 50, 6, 7, 102));
    assert_int_equal(data_fill(&b, 50, 6, 9, 0), 0);
    assert_int_equal(data_fold(&b, &moved, COLL_ANY_ORDER, false), -EINVAL); /* another source */
    assert_int_equal(data_fold(&a, &moved, COLL_FIXED_ORDER, false), 0);
    assert_false(data_is(&a, 50, 6, 14, 102)); /* a hash */
    assert_true(data_combine(COLL_MEMBER_ORDER, 3, 5) != data_combine(COLL_MEMBER_ORDER, 5, 3) ||
                data_combine(COLL_MEMBER_ORDER, UINT64_C(3) << 32 | 3, 5) !=
                    data_combine(COLL_MEMBER_ORDER, 5, UINT64_C(3) << 32 | 3));
    data_free(&a);
    data_free(&b);
    data_free(&moved);
}

/* ---- shapes and requests ---- */

static struct sim_options sim_defaults(void)
{
    return (struct sim_options){.model = coll_model_default(), .seed = 1};
}

static void sim_shape(struct shape *s, int hosts, int members, int cores)
{
    int *host = malloc((size_t)hosts * (size_t)members * sizeof(*host));

    assert_non_null(host);
    for (int i = 0; i < hosts * members; i++)
        host[i] = i / members;
    assert_int_equal(shape_init(s, hosts * members, host, cores), 0);
    free(host);
}

static uint64_t sim_parts(const struct sim_result *r)
{
    uint64_t sum = 0;

    for (int i = 0; i < SIM_PARTS; i++)
        sum += r->part[i];
    return sum;
}

static struct coll_request sim_case_request(const void *argument, int member)
{
    return coll_case_request(argument, member);
}

static void random_cases_give_the_right_result(void **state)
{
    static struct coll_case c;
    uint64_t simulated = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct sim_options options = sim_defaults();
        struct sim_result result;
        struct error err = {""};
        int rc;

        coll_case_draw(&c, seed);
        c.request.counted = false; /* nothing is in SCRATCH before */
        options.seed = seed;
        if (seed % 3 == 0)
            options.skew = 5000000;
        if (seed % 5 == 0) {
            options.noise_period = 3000000;
            options.noise_length = 1000000;
        }
        if (seed % 7 == 0)
            options.model.eager = 50;
        if (seed % 2 == 0)
            options.model.gathered = 64;
        if (seed % 4 == 0 && !c.request.in_place) {
            options.repeat = 5;
            options.depth = (int)(seed / 4 % 4);
        }
        if (seed % 6 == 0) {
            options.multicast = 8000000;
            options.loss = (uint32_t)(seed / 6 % 3) * 100000;
        }
        options.request_of = sim_case_request;
        options.argument = &c;
        rc = sim_request(&c.shape, &c.request, &c.choice, &options, &result, &err);
        if (rc == 0) {
            simulated++;
            assert_int_equal(result.ended, c.shape.size);
            assert_int_equal(sim_parts(&result), result.time);
        } else if (rc != -ENOTSUP) {
            fail_msg("%s\n%s", coll_case_describe(&c), err.text);
        }
        coll_case_free(&c);
    }
    assert_true(simulated > 1500);
}

/* ---- what is wrong is found ---- */

enum spoilt { NOTHING, OTHER_BYTES, NO_RECEIVER, NO_SEND, REVERSED, UNWRITTEN, SPOILS };

/* Member 2 of a reduction through a chain is spoilt. */
static void sim_build_chain(struct graph *g, int size, int me, enum spoilt spoilt)
{
    struct graph_ref home = me == size - 1 ? graph_at(GRAPH_INTO, 0) : graph_at(GRAPH_SCRATCH, 0);
    int next = me + 1, last;
    struct error err = {""};

    if (me != 2)
        spoilt = NOTHING;
    graph_init(g, size, me, 100, me == size - 1 ? 100 : 0);
    if (me < size - 1)
        home = graph_scratch(g, 100);
    last = graph_copy(g, home, graph_at(GRAPH_FROM, 0), spoilt == UNWRITTEN ? 99 : 100);
    if (me > 0) {
        int view = graph_recv(g, me - 1, 0, spoilt == OTHER_BYTES ? 99 : 100), fold;

        fold = graph_fold(g, home, graph_at(view, 0), spoilt == OTHER_BYTES ? 99 : 100,
                          spoilt != REVERSED);
        graph_after(g, fold, last);
        last = fold;
    }
    if (me < size - 1 && spoilt != NO_SEND)
        graph_after(g, graph_send(g, &next, 1, 0, home, 100), last);
    if (spoilt == NO_RECEIVER) {
        next = 0;
        graph_send(g, &next, 1, 1, graph_at(GRAPH_FROM, 0), 8);
    }
    assert_int_equal(graph_finish(g, &err), 0);
}

static void wrong_graphs_are_found(void **state)
{
    enum { SIZE = 5 };
    static const int code[SPOILS] = {0, -EPROTO, -EPROTO, -EDEADLK, -EPROTO, -EPROTO};
    struct coll_request request = {.kind = COLL_REDUCE,
                                   .order = COLL_MEMBER_ORDER,
                                   .element = 1,
                                   .count = 100,
                                   .root = SIZE - 1};
    struct sim_options options = sim_defaults();
    struct shape shape;

    (void)state;
    sim_shape(&shape, SIZE, 1, 1);
    for (int spoilt = 0; spoilt < SPOILS; spoilt++) {
        struct graph graph[SIZE];
        struct sim_result result;
        struct error err = {""};
        int rc;

        for (int i = 0; i < SIZE; i++)
            sim_build_chain(&graph[i], SIZE, i, (enum spoilt)spoilt);
        rc = sim_run(&shape, graph, &request, &options, &result, &err);
        if (rc != code[spoilt] || (rc != 0 && err.text[0] == '\0'))
            fail_msg("%d: %d, not %d: %s", spoilt, rc, code[spoilt], err.text);
        for (int i = 0; i < SIZE; i++)
            graph_free(&graph[i]);
    }
    shape_free(&shape);
}

/* ---- times ---- */

static struct sim_result sim_time(enum coll_kind kind, const char *algorithm, size_t bytes,
                                  const struct shape *shape, const struct sim_options *options)
{
    struct coll_request request = {.kind = kind, .element = 8, .count = bytes / 8};
    struct sim_result result;
    struct coll_rule rule;
    struct coll_choice choice;
    struct error err = {""};

    assert_int_equal(coll_rule_parse_algorithm(&rule, kind, algorithm, strlen(algorithm), &err), 0);
    choice = coll_rule_choice(&rule, &request);
    if (sim_request(shape, &request, &choice, options, &result, &err) != 0)
        fail_msg("%s", err.text);
    return result;
}

/* Each by hand, from the rules of sim.h. */
static void times_are_those_of_the_rules(void **state)
{
    struct sim_options options = sim_defaults();
    struct sim_result r;
    struct shape shape;
    struct error err = {""};

    (void)state;
    assert_int_equal(
        coll_model_parse(&options.model,
                         "L=70 m=20 sigma=800 Bc=5 Bcs=10 Bo=20 Bw=10 Bfs=5 step=8 o=250 "
                         "Ln=1300 g=100 G=0.1 S=65536",
                         &err),
        0);
    sim_shape(&shape, 1, 1, 1);
    /* COPY 8 + 50, from its own memory */
    r = sim_time(COLL_GATHER, "flat", 1000, &shape, &options);
    assert_int_equal(r.time, 58000);
    shape_free(&shape);
    sim_shape(&shape, 1, 2, 2);
    /* SEND 8; the line after 50; RECV 8 + 20 */
    r = sim_time(COLL_BARRIER, "dissemination:2", 0, &shape, &options);
    assert_int_equal(r.time, 86000);
    assert_int_equal(r.part[SIM_LINE], 50000);
    /* the root: SEND 8 + 100; the line, and that of the heap; RECV 28; COPY 8 + 200, since it was awaited, and the line that it misses after that of the cell */
    r = sim_time(COLL_BCAST, "flat", 1000, &shape, &options);
    assert_int_equal(r.time, 108000 + 50000 + 35000 + 28000 + 208000 + 35000);
    assert_int_equal(r.messages[0], 1);
    assert_int_equal(r.bytes[0], 1000);
    shape_free(&shape);
    sim_shape(&shape, 2, 1, 1);
    /* SEND 8 + 250; Ln 1300; the interface 100 + 100; RECV 258; COPY 108 */
    r = sim_time(COLL_BCAST, "flat", 1000, &shape, &options);
    assert_int_equal(r.time, 258000 + 1300000 + 200000 + 258000 + 108000);
    assert_int_equal(r.part[SIM_WIRE], 1500000);
    assert_int_equal(r.messages[1], 1);
    assert_int_equal(r.interface_bytes, 1000);
    /* longer than S: there is a round trip before */
    options.model.eager = 999;
    r = sim_time(COLL_BCAST, "flat", 1000, &shape, &options);
    assert_int_equal(r.time, 258000 + 2 * 1550000 + 1500000 + 258000 + 108000);
    shape_free(&shape);
}

/* By hand: one packet of the root, whatever the number of hosts is, and its loss. */
static void a_multicast_takes_as_long_to_one_host_as_to_many(void **state)
{
    struct sim_options options = sim_defaults(), lossy, of_model;
    struct coll_request request = {.kind = COLL_BCAST, .element = 1, .count = 8};
    struct coll_choice cast = {.algorithm = COLL_CAST};
    struct error err = {""};

    (void)state;
    assert_int_equal(
        coll_model_parse(&options.model,
                         "L=70 m=20 sigma=800 Bcs=10 Bc=10 Bf=5 step=8 o=250 Ln=1300 g=100 "
                         "G=0.1 S=65536 E=4 os=9000 Ll=9000 or=9000 gl=100",
                         &err),
        0);
    of_model = options;
    of_model.model.multicast = 9000000;
    options.multicast = 9000000;
    lossy = options;
    lossy.loss = 300000;
    lossy.ask = 50000000;
    for (int hosts = 2; hosts <= 64; hosts *= 2) {
        struct sim_result r;
        struct shape shape;

        sim_shape(&shape, hosts, 1, 1);
        /* SEND 8 + 250; 9000; the interface 100 + 0.8; RECV 258; COPY 8 + 0.8 */
        r = sim_time(COLL_BCAST, "flat", 8, &shape, &options);
        assert_int_equal(r.time, 258000 + 9000000 + 100800 + 258000 + 8800);
        assert_int_equal(r.messages[1], 1);
        /* the same where the latency is the model's, and the algorithm the one that is for it; and what is predicted */
        r = sim_time(COLL_BCAST, "cast", 8, &shape, &of_model);
        assert_int_equal(r.time, 258000 + 9000000 + 100800 + 258000 + 8800);
        assert_in_range(coll_cost(&shape, &request, &cast, &of_model.model), r.time - 20000,
                        r.time);
        /* three packets: 100 each, and 400 */
        r = sim_time(COLL_BCAST, "cast", 4000, &shape, &of_model);
        assert_int_equal(r.time, 258000 + 9000000 + 700000 + 258000 + 408000);
        r = sim_time(COLL_BARRIER, "cast:2", 0, &shape, &options);
        assert_int_equal(r.messages[1], hosts); /* one of each other host, and the release */
        r = sim_time(COLL_BCAST, "flat", 8, &shape, &lossy);
        assert_true(r.lost == 0 || r.time >= 9000000 + 50000000 + 1300000 + 9000000);
        assert_true(hosts < 64 || (r.lost > 5 && r.lost < 60));
        shape_free(&shape);
    }
}

/* A member sends no more than `depth` operations before the slowest of its host is over. */
static void a_loop_is_limited_by_the_operations_in_flight(void **state)
{
    struct sim_options options = sim_defaults();
    struct sim_result deep, two, four;
    struct shape shape;

    (void)state;
    options.repeat = 40;
    sim_shape(&shape, 1, 4, 4);
    options.kills = 1; /* at some point member 3 does no more: what is the root's last operation? */
    options.kill[0] = (struct sim_kill){.member = 3, .time = 400000};
    deep = sim_time(COLL_BCAST, "flat", 8, &shape, &options);
    assert_int_equal(deep.ended, 3);
    options.depth = 4;
    four = sim_time(COLL_BCAST, "flat", 8, &shape, &options);
    assert_int_equal(four.ended, 0);
    shape_free(&shape);
    options.kills = 0;
    sim_shape(&shape, 1, 8, 2); /* a window for each turn of all members */
    options.depth = 2;
    two = sim_time(COLL_SCAN, "linear", 8, &shape, &options);
    options.depth = 4;
    four = sim_time(COLL_SCAN, "linear", 8, &shape, &options);
    options.depth = 0;
    deep = sim_time(COLL_SCAN, "linear", 8, &shape, &options);
    assert_true(two.time > 3 * four.time / 2 && four.time > 2 * deep.time);
    /* where all wait for all, one operation is in flight */
    options.depth = 2;
    two = sim_time(COLL_BARRIER, "flat", 0, &shape, &options);
    options.depth = 0;
    deep = sim_time(COLL_BARRIER, "flat", 0, &shape, &options);
    assert_int_equal(two.time, deep.time);
    shape_free(&shape);
}

/* The root is ahead; a receiver misses the line of each message, for half of L, and copies it. */
static void messages_that_wait_for_their_receiver_are_missed(void **state)
{
    struct sim_options options = sim_defaults();
    uint64_t each = options.model.step + options.model.line / 2 + options.model.step;
    struct sim_result r;
    struct shape shape;

    (void)state;
    options.repeat = 100;
    sim_shape(&shape, 1, 2, 2);
    r = sim_time(COLL_BCAST, "flat", 8, &shape, &options);
    assert_true(r.time > 99 * each && r.time < 101 * each + 200000);
    shape_free(&shape);
}

/* Slot 0 has pairs of lines: up to 112 bytes are in them, more in a heap, whose line both miss. */
static void a_message_that_fits_into_its_cell_is_not_copied(void **state)
{
    struct sim_options options = sim_defaults();
    struct error err = {""};
    struct shape shape;
    uint64_t most;

    (void)state;
    assert_int_equal(coll_model_parse(&options.model, "L=70 m=20 step=8 Bc=1 Bo=1 Bw=1", &err), 0);
    sim_shape(&shape, 1, 2, 2);
    most = sim_time(COLL_BCAST, "flat", 112, &shape, &options).time;
    assert_int_equal(most, sim_time(COLL_BCAST, "flat", 48, &shape, &options).time + 64000);
    assert_true(sim_time(COLL_BCAST, "flat", 120, &shape, &options).time > most + 70000);
    shape_free(&shape);
}

/* Time of an operation of a loop, ns, without the beginning of it. */
static uint64_t sim_loop(enum coll_kind kind, const char *algorithm, size_t bytes,
                         const struct shape *shape, const struct sim_options *options)
{
    struct sim_options once = *options, twice = *options;

    once.repeat = 40;
    twice.repeat = 80;
    return (sim_time(kind, algorithm, bytes, shape, &twice).time -
            sim_time(kind, algorithm, bytes, shape, &once).time) /
           40000;
}

/* By hand: a message of more than E bytes has the processors of both members, and a way of its own; a loop takes the slowest of them. */
static void long_messages_between_hosts_have_costs_of_their_own(void **state)
{
    struct sim_options options = sim_defaults();
    struct coll_request request = {.kind = COLL_BCAST, .element = 8, .count = 125};
    struct coll_choice tree = {.algorithm = COLL_TREE, .radix = 2};
    struct error err = {""};
    struct sim_result r;
    struct shape shape;

    (void)state;
    assert_int_equal(
        coll_model_parse(&options.model,
                         "Bo=10 Bc=10 Bcs=10 Bw=10 step=8 op=50 o=250 Ln=1300 g=100 G=0.1 "
                         "E=512 Og=1 os=2000 Os=0.1 Ll=700 Gl=0.05 gl=300 or=1500 Or=0.2",
                         &err),
        0);
    sim_shape(&shape, 2, 1, 1);
    /* SEND 8 + 2000 + 100; 700 + 50; RECV 8 + 1500 + 200; COPY 108 */
    r = sim_time(COLL_BCAST, "flat", 1000, &shape, &options);
    assert_int_equal(r.time, 2108000 + 750000 + 1708000 + 108000);
    assert_int_equal(r.part[SIM_WIRE], 750000);
    assert_in_range(coll_cost(&shape, &request, &tree, &options.model), r.time - 20000, r.time);
    /* not longer: SEND 258 + 512; Ln 1300; the interface 100 + 51.2; RECV 258; COPY 8 + 51.2 */
    r = sim_time(COLL_BCAST, "flat", 512, &shape, &options);
    assert_int_equal(r.time, 770000 + 1300000 + 151200 + 258000 + 59200);
    /* a loop: SEND and the call */
    assert_in_range(sim_loop(COLL_BCAST, "flat", 1000, &shape, &options), 2150, 2166);
    options.model.receive = 2500000; /* RECV, COPY and the call */
    assert_in_range(sim_loop(COLL_BCAST, "flat", 1000, &shape, &options), 2858, 2874);
    options.model.byte = 3000; /* the interface */
    assert_in_range(sim_loop(COLL_BCAST, "flat", 1000, &shape, &options), 3292, 3308);
    shape_free(&shape);
}

/* 64,000 bytes take 1,000 ns where they are in the cache of the core, 4,000 more where they are not, and 2,000 more where another has them. */
static void memory_that_has_not_changed_is_in_the_cache_of_a_core(void **state)
{
    struct sim_options options = sim_defaults();
    struct error err = {""};
    struct shape shape;

    (void)state;
    options.depth = 64;
    assert_int_equal(
        coll_model_parse(&options.model,
                         "L=0 m=0 sigma=0 step=0 op=0 f=0 Bo=64 Bs=64 Bc=12.8 Bcs=12.8 Bw=21.333 "
                         "Bfo=64 Bf=12.8 Bfs=12.8 Bxo=64 Bx=12.8 C=8388608",
                         &err),
        0);
    sim_shape(&shape, 1, 2, 2);
    shape.fetches = true;
    /* what the root lends does not change: only the first fetch misses it */
    assert_in_range(sim_time(COLL_BCAST, "fetch", 64000, &shape, &options).time / 1000, 4800, 5200);
    assert_in_range(sim_loop(COLL_BCAST, "fetch", 64000, &shape, &options), 950, 1050);
    /* its messages do: it writes what the receiver has read, and that reads what the root has written */
    assert_in_range(sim_loop(COLL_BCAST, "flat", 64000, &shape, &options), 4800, 5200);
    assert_in_range(sim_loop(COLL_REDUCE, "flat", 64000, &shape, &options), 5800, 6200);
    shape_free(&shape);
    sim_shape(&shape, 1, 2, 1);
    /* both on one core: a SEND and a COPY, as long as the heap is in its cache too */
    assert_in_range(sim_loop(COLL_BCAST, "flat", 64000, &shape, &options), 1900, 2100);
    options.model.cache = 65536;
    assert_in_range(sim_loop(COLL_BCAST, "flat", 64000, &shape, &options), 7000, 16200);
    shape_free(&shape);
}

/* By hand: the call of the next operation hides the miss of its message; and the cell is fetched early, so a barrier takes L. */
static void calls_of_a_loop_take_time_and_hide_misses(void **state)
{
    struct sim_options options = sim_defaults();
    struct error err = {""};
    struct shape shape;

    (void)state;
    assert_int_equal(coll_model_parse(&options.model, "L=140 m=10 step=0 op=0", &err), 0);
    sim_shape(&shape, 1, 2, 2);
    assert_int_equal(sim_loop(COLL_BCAST, "flat", 8, &shape, &options), 70);
    assert_int_equal(sim_loop(COLL_BARRIER, "flat", 0, &shape, &options), 140);
    options.model.call = 50000;
    assert_int_equal(sim_loop(COLL_BCAST, "flat", 8, &shape, &options), 70);
    assert_int_equal(sim_loop(COLL_BARRIER, "flat", 0, &shape, &options), 140);
    options.model.call = 100000;
    assert_int_equal(sim_loop(COLL_BCAST, "flat", 8, &shape, &options), 110);
    assert_int_equal(sim_loop(COLL_BARRIER, "flat", 0, &shape, &options), 170);
    shape_free(&shape);
}

static struct coll_request sim_request_of_blocks(const void *argument, int member)
{
    (void)member;
    return *(const struct coll_request *)argument;
}

static void blocks_may_have_lengths_of_their_own(void **state)
{
    static const size_t counts[] = {5, 0, 7, 1}, offsets[] = {20, 0, 3, 1};
    struct coll_request request = {
        .kind = COLL_GATHER, .element = 8, .counts = counts, .offsets = offsets};
    struct coll_choice choice = {.algorithm = COLL_LINEAR};
    struct sim_options options = sim_defaults();
    struct sim_result r;
    struct shape shape;
    struct error err = {""};

    (void)state;
    sim_shape(&shape, 4, 1, 1);
    assert_int_equal(sim_request(&shape, &request, &choice, &options, &r, &err), 0);
    assert_int_equal(r.bytes[1], 8 * (0 + 7 + 1));
    request.kind = COLL_ALLTOALL;
    request.counts_in = counts;
    assert_int_equal(sim_request(&shape, &request, &choice, &options, &r, &err), -EINVAL);
    options.request_of = sim_request_of_blocks; /* what one sends the other does not get */
    options.argument = &request;
    assert_int_equal(sim_request(&shape, &request, &choice, &options, &r, &err), -EPROTO);
    shape_free(&shape);
}

/* Eight members of two cores: each has to run once, before the first sees that all have come. */
static void yields_take_the_time_of_all_members_of_a_core(void **state)
{
    struct sim_options options = sim_defaults();
    struct sim_result flat, rounds, loop;
    struct shape shape;

    (void)state;
    sim_shape(&shape, 1, 8, 2);
    flat = sim_time(COLL_BARRIER, "flat", 0, &shape, &options);
    rounds = sim_time(COLL_BARRIER, "dissemination:2", 0, &shape, &options);
    options.repeat = 50;
    loop = sim_time(COLL_BARRIER, "flat", 0, &shape, &options);
    /* in a loop the last of an operation and the first of the next one run in the same turn */
    assert_true(loop.time / 50 > 3 * options.model.yield &&
                loop.time / 50 < 5 * options.model.yield);
    assert_true(loop.time / 50 < flat.time);
    assert_true(flat.time > 4 * options.model.yield && flat.time < 9 * options.model.yield);
    assert_true(rounds.time > flat.time);
    assert_true(flat.part[SIM_CORE] > flat.time / 2);
    shape_free(&shape);
}

static void an_interface_is_shared_by_the_members_of_its_host(void **state)
{
    struct sim_options options = sim_defaults();
    struct sim_result all, leaders;
    struct shape shape;

    (void)state;
    sim_shape(&shape, 4, 16, 16);
    all = sim_time(COLL_ALLREDUCE, "exchange", 8192, &shape, &options);
    leaders = sim_time(COLL_ALLREDUCE, "hosts:16", 8192, &shape, &options);
    assert_int_equal(all.interface_messages, 16 * leaders.interface_messages);
    assert_true(leaders.time < all.time);
    shape_free(&shape);
}

static void noise_and_skew_take_time_and_are_repeatable(void **state)
{
    struct sim_options options = sim_defaults(), noisy = options, skewed = options;
    struct sim_result quiet, other, again;
    struct shape shape;

    (void)state;
    noisy.noise_period = 20000000;
    noisy.noise_length = 5000000;
    skewed.skew = 100000000;
    sim_shape(&shape, 64, 1, 1);
    quiet = sim_time(COLL_ALLREDUCE, "exchange", 8, &shape, &options);
    other = sim_time(COLL_ALLREDUCE, "exchange", 8, &shape, &noisy);
    again = sim_time(COLL_ALLREDUCE, "exchange", 8, &shape, &noisy);
    assert_true(other.time >= quiet.time + noisy.noise_length);
    assert_int_equal(other.time, again.time);
    other = sim_time(COLL_ALLREDUCE, "exchange", 8, &shape, &skewed);
    assert_true(other.time > quiet.time + skewed.skew / 2 &&
                other.time < quiet.time + 2 * skewed.skew);
    shape_free(&shape);
}

/* ---- deaths ---- */

static void a_death_stops_those_that_need_the_dead(void **state)
{
    struct sim_options options = sim_defaults();
    struct sim_result r;
    struct shape shape;

    (void)state;
    sim_shape(&shape, 16, 1, 1);
    options.kills = 1;
    options.kill[0] = (struct sim_kill){.member = 5, .time = 0};
    r = sim_time(COLL_ALLREDUCE, "exchange", 8, &shape, &options);
    assert_int_equal(r.ended, 0);
    r = sim_time(COLL_BCAST, "binomial", 8, &shape, &options); /* 5 is a leaf */
    assert_int_equal(r.ended, 15);
    options.kill[0].member = 8; /* with the subtree of 8 to 15 */
    r = sim_time(COLL_BCAST, "binomial", 8, &shape, &options);
    assert_int_equal(r.ended, 8);
    options.kill[0].time = 1000000000; /* after the end */
    r = sim_time(COLL_BCAST, "binomial", 8, &shape, &options);
    assert_int_equal(r.ended, 16);
    shape_free(&shape);
}

/* ---- the cost model ---- */

struct judged {
    int hosts, members, cores;
};

/* The slowest choice, as a ratio to the fastest candidate, in percent. */
#define SLOWEST_CHOICE 160

static void the_choice_is_fast_in_the_simulation(void **state)
{
    static const struct judged shapes[] = {{1, 4, 4},  {1, 8, 2}, {1, 16, 16}, {8, 1, 1},
                                           {13, 1, 1}, {8, 4, 4}, {4, 16, 16}};
    static const size_t sizes[] = {8, 512, 8192, 262144};
    struct sim_options options = sim_defaults();
    int wrong = 0, judged = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        for (int k = 0; k < COLL_KINDS; k++)
            for (size_t b = 0; b < sizeof(sizes) / sizeof(*sizes); b++) {
                struct coll_request request = {
                    .kind = (enum coll_kind)k, .element = 8, .count = sizes[b] / 8};
                struct coll_candidate list[COLL_CANDIDATES];
                uint64_t best = UINT64_MAX, chosen = 0;
                char fastest[40] = "", name[40];
                struct shape shape;
                int n;

                sim_shape(&shape, shapes[i].hosts, shapes[i].members, shapes[i].cores);
                /* where members share cores, costs are those of a loop */
                options.repeat = shapes[i].members > shapes[i].cores ? 12 : 0;
                n = coll_candidates(&shape, &request, &options.model, list);
                for (int c = 0; c < n && list[c].needs == NULL && !list[c].large; c++) {
                    struct sim_result r;
                    struct error err = {""};

                    assert_int_equal(
                        sim_request(&shape, &request, &list[c].choice, &options, &r, &err), 0);
                    coll_choice_print(name, sizeof(name), &shape, &request, &list[c].choice);
                    if (c == 0)
                        chosen = r.time;
                    if (r.time < best) {
                        best = r.time;
                        memcpy(fastest, name, sizeof(name));
                    }
                }
                judged++;
                if (chosen > best * SLOWEST_CHOICE / 100) {
                    coll_choice_print(name, sizeof(name), &shape, &request, &list[0].choice);
                    print_message(
                        "%s of %zu bytes, %d x %d members, %d cores: %s %.3f us, %s %.3f us\n",
                        coll_kind_name((enum coll_kind)k), sizes[b], shapes[i].hosts,
                        shapes[i].members, shapes[i].cores, name, (double)chosen / 1e6, fastest,
                        (double)best / 1e6);
                    wrong++;
                }
                shape_free(&shape);
            }
    print_message("%d of %d choices are slower than %d %% of the best\n", wrong, judged,
                  SLOWEST_CHOICE);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_cut_copied_and_folded),
        cmocka_unit_test(random_cases_give_the_right_result),
        cmocka_unit_test(wrong_graphs_are_found),
        cmocka_unit_test(times_are_those_of_the_rules),
        cmocka_unit_test(a_multicast_takes_as_long_to_one_host_as_to_many),
        cmocka_unit_test(a_loop_is_limited_by_the_operations_in_flight),
        cmocka_unit_test(messages_that_wait_for_their_receiver_are_missed),
        cmocka_unit_test(a_message_that_fits_into_its_cell_is_not_copied),
        cmocka_unit_test(long_messages_between_hosts_have_costs_of_their_own),
        cmocka_unit_test(memory_that_has_not_changed_is_in_the_cache_of_a_core),
        cmocka_unit_test(calls_of_a_loop_take_time_and_hide_misses),
        cmocka_unit_test(blocks_may_have_lengths_of_their_own),
        cmocka_unit_test(yields_take_the_time_of_all_members_of_a_core),
        cmocka_unit_test(an_interface_is_shared_by_the_members_of_its_host),
        cmocka_unit_test(noise_and_skew_take_time_and_are_repeatable),
        cmocka_unit_test(a_death_stops_those_that_need_the_dead),
        cmocka_unit_test(the_choice_is_fast_in_the_simulation),
    };

    return cmocka_run_group_tests_name("simulator of collectives", tests, NULL, NULL);
}
