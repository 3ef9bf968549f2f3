/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_coll_graph.c: graphs: what is refused, how they are printed, the reduction of listing 5.10 of the
 * thesis as its figure 5.4 has it, and that the interpreter (coll_run.h) finds what is wrong.
 */
#include "coll/graph_dump.h"
#include "test/unit/coll_run.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- what is refused ---- */

static struct graph_ref from_0(void) { return graph_at(GRAPH_FROM, 0); }

/* Member 1 of 4, with 64 bytes FROM and 32 INTO. */
static struct graph graph_of_four(void)
{
    struct graph g;

    graph_init(&g, 4, 1, 64, 32);
    return g;
}

static void graph_expect(struct graph *g, int code, const char *word)
{
    struct error err = {""};
    int rc = graph_finish(g, &err);

    if (rc != code || (word != NULL && strstr(err.text, word) == NULL))
        fail_msg("%d, not %d, \"%s\" without \"%s\"", rc, code, err.text, word);
    graph_free(g);
}

static void invalid_graphs_are_refused(void **state)
{
    struct graph g = graph_of_four();
    int to[] = {0, 2, 0}, view;

    (void)state;
    graph_send(&g, to, 2, 0, from_0(), 64);
    graph_expect(&g, 0, NULL);
    g = graph_of_four();
    graph_send(&g, to, 0, 0, from_0(), 64);
    graph_expect(&g, -EINVAL, NULL);
    g = graph_of_four();
    graph_send(&g, to, 2, 0, from_0(), 65);
    graph_expect(&g, -EINVAL, "FROM");
    g = graph_of_four();
    graph_send(&g, to, 3, 0, from_0(), 8);
    graph_expect(&g, -EINVAL, "twice");
    g = graph_of_four();
    graph_send(&g, to, 1, 7, from_0(), 8);
    graph_send(&g, to + 1, 1, 7, from_0(), 8);
    graph_expect(&g, -EINVAL, "sends slot 7 twice");
    g = graph_of_four();
    graph_recv(&g, 2, 7, 8);
    graph_recv(&g, 3, 7, 8);
    graph_expect(&g, 0, NULL);
    g = graph_of_four();
    graph_recv(&g, 2, 7, 8);
    graph_recv(&g, 2, 7, 8);
    graph_expect(&g, -EINVAL, "receives slot 7 twice");
    g = graph_of_four();
    graph_recv(&g, 1, 0, 8);
    graph_expect(&g, -EINVAL, "member 1");
    g = graph_of_four();
    graph_recv(&g, 4, 0, 8);
    graph_expect(&g, -EINVAL, "member 4");
    g = graph_of_four();
    graph_recv(&g, 0, GRAPH_SLOTS_MAX, 8);
    graph_expect(&g, -EINVAL, "slot");
    g = graph_of_four();
    graph_copy(&g, from_0(), graph_at(GRAPH_INTO, 0), 8);
    graph_expect(&g, -EINVAL, "read only");
    g = graph_of_four();
    view = graph_recv(&g, 0, 0, 16);
    graph_copy(&g, graph_at(GRAPH_INTO, 0), graph_at(view, 9), 8);
    graph_expect(&g, -EINVAL, "view");
    g = graph_of_four();
    view = graph_copy(&g, graph_at(GRAPH_INTO, 0), from_0(), 8);
    graph_fold(&g, graph_at(GRAPH_INTO, 0), graph_at(view, 0), 8, false);
    graph_expect(&g, -EINVAL, "no RECV");
    g = graph_of_four();
    graph_copy(&g, graph_at(GRAPH_INTO, SIZE_MAX - 3), from_0(), 8);
    graph_expect(&g, -EINVAL, "INTO");
    g = graph_of_four();
    graph_copy(&g, graph_at(GRAPH_INTO, 0), graph_at(-4, 0), 8);
    graph_expect(&g, -EINVAL, "base -4");
    g = graph_of_four();
    graph_after(&g, graph_call(&g, NULL, NULL), 1);
    graph_expect(&g, -EINVAL, "waits for 1");
}

static void cycles_are_refused(void **state)
{
    struct graph g = graph_of_four();
    uint32_t order[3];
    struct error err = {""};
    int a = graph_call(&g, NULL, NULL), b = graph_call(&g, NULL, NULL),
        c = graph_call(&g, NULL, NULL);

    (void)state;
    graph_after(&g, a, b);
    graph_after(&g, b, c);
    assert_int_equal(graph_finish(&g, &err), 0);
    assert_true(graph_order(&g, order));
    assert_int_equal(order[0], c);
    assert_int_equal(order[2], a);
    graph_free(&g);
    g = graph_of_four();
    a = graph_call(&g, NULL, NULL);
    b = graph_call(&g, NULL, NULL);
    c = graph_call(&g, NULL, NULL);
    graph_after(&g, a, b);
    graph_after(&g, b, c);
    graph_after(&g, c, a);
    graph_expect(&g, -ELOOP, "wait for each other");
}

static void races_are_found(void **state)
{
    struct error err = {""};

    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        struct graph g = graph_of_four();
        struct graph_ref into = graph_at(GRAPH_INTO, 0);
        int to = 0, copy = graph_copy(&g, into, from_0(), 16);
        int send = graph_send(&g, &to, 1, 0, graph_plus(into, 8), 8), fold;

        graph_after(&g, send, copy);
        fold = graph_fold(&g, graph_plus(into, 15), from_0(), 1, false);
        graph_after(&g, fold, ordered ? send : copy);
        assert_int_equal(graph_finish(&g, &err), 0);
        assert_int_equal(graph_find_race(&g, &err), ordered ? 0 : -EDEADLK);
        assert_true(graph_changes(&g, (uint32_t)send));
        graph_free(&g);
    }
}

/* ---- text ---- */

static char *graph_text(enum graph_format format, const struct graph *graphs, int n)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    assert_non_null(to);
    assert_int_equal(graph_dump(to, format, graphs, n), 0);
    fclose(to);
    return text;
}

static void graph_expect_text(enum graph_format format, const struct graph *graphs, int n,
                              const char *part)
{
    char *text = graph_text(format, graphs, n);

    if (strstr(text, part) == NULL)
        fail_msg("not in the text: %s\n%s", part, text);
    free(text);
}

/* ---- listing 5.10, figure 5.4 ---- */

#define THESIS_NODES 5

/*
 * Listing 5.10: a REDUCE of one element, sum, to node 0; figure 5.4: five nodes, a binomial tree. Four
 * channels, one for each edge; two phases: nodes 1, 3 and 4 send at once, node 2 when it has node 3's.
 */
static void listing_5_10_is_figure_5_4(void **state)
{
    static const int parent[THESIS_NODES] = {-1, 0, 0, 2, 0}, phase[THESIS_NODES] = {3, 1, 2, 1, 1};
    static struct coll_case c;
    struct coll_run run = {.ops = 3, .depth = 2, .floor = true, .races = true};
    struct graph graph[THESIS_NODES];
    struct error err = {""};

    (void)state;
    assert_int_equal(shape_init(&c.shape, THESIS_NODES, NULL, 1), 0);
    c.request = (struct coll_request){.kind = COLL_REDUCE, .element = 8, .count = 1, .root = 0};
    c.choice = (struct coll_choice){.algorithm = COLL_TREE, .radix = 2};
    for (int i = 0; i < THESIS_NODES; i++) {
        int sends = 0, folds = 0;

        assert_int_equal(coll_build(&graph[i], &c.shape, i, &c.request, &c.choice, &err), 0);
        for (uint32_t k = 0; k < graph[i].count; k++) {
            const struct graph_node *node = &graph[i].nodes[k];

            if (node->kind == GRAPH_SEND) {
                assert_int_equal(node->npeers, 1);
                assert_int_equal(graph[i].peers[node->peer], parent[i]);
                sends++;
            }
            if (node->kind == GRAPH_RECV) { /* in an earlier phase */
                assert_int_equal(parent[node->peer], i);
                assert_true(phase[node->peer] < phase[i]);
            }
            folds += node->kind == GRAPH_FOLD;
        }
        assert_int_equal(sends, i > 0);
        assert_int_equal(folds, i == 0 ? 3 : i == 2);
        assert_int_equal(graph[i].count == 1, phase[i] == 1); /* a leaf sends at once */
    }
    if (coll_run_graphs(&run, &c, graph) != 0)
        fail_msg("%s", run.error);
    assert_int_equal(run.messages, 3 * 4);
    graph_expect_text(GRAPH_TEXT, graph + 2, 1,
                      "member 2 of 5: 8 bytes FROM, 0 INTO, 8 SCRATCH\n"
                      "  0: recv 8 bytes of member 3, slot 0\n"
                      "  1: copy 8 bytes of FROM+0 into SCRATCH+0\n"
                      "  2: fold 8 bytes of view 0+0 into SCRATCH+0; after 0, 1\n"
                      "  3: send 8 bytes of SCRATCH+0 to 0, slot 0; after 2\n");
    graph_expect_text(GRAPH_JSON, graph + 2, 1,
                      "{\"id\": 3, \"kind\": \"send\", \"bytes\": 8, \"slot\": 0, \"to\": [0], "
                      "\"from\": \"SCRATCH+0\", \"after\": [2]}\n");
    graph_expect_text(GRAPH_DOT, graph, THESIS_NODES, "  m3o0 -> m2o0 [color=blue];\n");
    graph_expect_text(GRAPH_GOAL, graph, THESIS_NODES,
                      "rank 2 {\nl0r0: recv 8b from 3 tag 0\nl1r0: calc 1\nl2r0: calc 1\n"
                      "l3r0: send 8b to 0 tag 0\nl2r0 requires l0r0\nl2r0 requires l1r0\n"
                      "l3r0 requires l2r0\n}\n");
    for (int i = 0; i < THESIS_NODES; i++)
        graph_free(&graph[i]);
    coll_case_free(&c);
}

/* ---- the interpreter ---- */

#define BROKEN_NODES 4

enum broken { WHOLE, NO_SEND, NO_RECEIVER, SHORT, TOO_EARLY, WRONG_OPERAND, CYCLE, BREAKS };

/*
 * A chain: member i folds what member i - 1 sends and sends the result to i + 1; member 2's graph is
 * broken, or, for a CYCLE, member 0 waits for member 3.
 */
static void broken_build(struct graph *g, int me, enum broken broken)
{
    struct error err = {""};
    struct graph_ref scratch;
    int view = GRAPH_NONE, copy, fold = GRAPH_NONE, send, next = (me + 1) % BROKEN_NODES;

    if (me != 2 && broken != CYCLE)
        broken = WHOLE;
    graph_init(g, BROKEN_NODES, me, 16, me == BROKEN_NODES - 1 ? 16 : 0);
    scratch = me == BROKEN_NODES - 1 ? graph_at(GRAPH_INTO, 0) : graph_scratch(g, 16);
    if (me > 0 || broken == CYCLE)
        view = graph_recv(g, (me + BROKEN_NODES - 1) % BROKEN_NODES, 0, broken == SHORT ? 8 : 16);
    copy = graph_copy(g, scratch, from_0(), broken == TOO_EARLY ? 8 : 16);
    if (view != GRAPH_NONE && me > 0) {
        fold = graph_fold(g, scratch, graph_at(view, 0), broken == SHORT ? 8 : 16,
                          broken != WRONG_OPERAND);
        graph_after(g, fold, copy);
    }
    if ((me < BROKEN_NODES - 1 && broken != NO_SEND) || broken == CYCLE) {
        send = graph_send(g, &next, 1, 0, scratch, 16);
        graph_after(g, send, fold == GRAPH_NONE ? copy : fold);
        graph_after(g, send, view);
    }
    if (broken == NO_RECEIVER) {
        next = 0;
        graph_send(g, &next, 1, 1, from_0(), 8);
    }
    assert_int_equal(graph_finish(g, &err), 0);
}

static void the_interpreter_finds_broken_graphs(void **state)
{
    static const char *const words[BREAKS] = {
        "", "up to 0", "not received it", "receives 8", "not written", "wrong", "deadlock"};
    static struct coll_case c;

    (void)state;
    assert_int_equal(shape_init(&c.shape, BROKEN_NODES, NULL, 1), 0);
    c.request = (struct coll_request){.kind = COLL_REDUCE,
                                      .order = COLL_MEMBER_ORDER,
                                      .element = 8,
                                      .count = 2,
                                      .root = BROKEN_NODES - 1};
    for (int broken = 0; broken < BREAKS; broken++) {
        struct coll_run run = {.ops = 1, .depth = 1};
        struct graph graph[BROKEN_NODES];
        int rc;

        for (int i = 0; i < BROKEN_NODES; i++)
            broken_build(&graph[i], i, (enum broken)broken);
        rc = coll_run_graphs(&run, &c, graph);
        if (rc != (broken == WHOLE ? 0 : -1) || strstr(run.error, words[broken]) == NULL)
            fail_msg("%d: \"%s\", not \"%s\"", broken, run.error, words[broken]);
        for (int i = 0; i < BROKEN_NODES; i++)
            graph_free(&graph[i]);
    }
    coll_case_free(&c);
}

/* ---- shapes ---- */

static void hosts_are_numbered_by_their_first_members(void **state)
{
    static const int name[] = {7, 7, 3, 7, 3, 1}, host[] = {0, 0, 1, 0, 1, 2},
                     members[] = {0, 1, 3, 2, 4, 5};
    struct shape s;

    (void)state;
    assert_int_equal(shape_init(&s, 6, name, 2), 0);
    assert_int_equal(s.hosts, 3);
    assert_int_equal(s.largest, 3);
    assert_false(s.in_rows);
    assert_memory_equal(s.host, host, sizeof(host));
    assert_memory_equal(s.members, members, sizeof(members));
    assert_int_equal(s.leaders[1], 2);
    assert_int_equal(shape_index_on_host(&s, 3), 2);
    shape_free(&s);
    assert_int_equal(shape_init(&s, 0, NULL, 1), -EINVAL);
}

static void trees_have_the_levels_of_their_radix(void **state)
{
    int child[64], n;

    (void)state;
    for (int radix = 2; radix <= 9; radix++)
        for (int size = 1; size <= 60; size++)
            for (int i = 0; i < size; i++) {
                int levels = 0, at = i;

                n = tree_children(i, size, radix, child);
                for (int k = 0; k < n; k++)
                    assert_int_equal(tree_parent(child[k], radix), i);
                for (int k = 0, end = i + 1; k < n; k++) { /* the subtree is a row */
                    assert_int_equal(child[k], end);
                    end += tree_span(child[k], size, radix);
                    assert_true(k < n - 1 || end == i + tree_span(i, size, radix));
                }
                for (; at != 0; levels++)
                    at = tree_parent(at, radix);
                for (int64_t power = 1; power < size; power *= radix)
                    levels--;
                assert_true(levels <= 0);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_graphs_are_refused),
        cmocka_unit_test(cycles_are_refused),
        cmocka_unit_test(races_are_found),
        cmocka_unit_test(listing_5_10_is_figure_5_4),
        cmocka_unit_test(the_interpreter_finds_broken_graphs),
        cmocka_unit_test(hosts_are_numbered_by_their_first_members),
        cmocka_unit_test(trees_have_the_levels_of_their_radix),
    };

    return cmocka_run_group_tests_name("graphs of collectives", tests, NULL, NULL);
}
