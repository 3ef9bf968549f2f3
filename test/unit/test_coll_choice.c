/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_coll_choice.c: the cost model: its text, rules, what is chosen for what, that all members choose the
 * same, and that what is chosen can be built.
 */
#include "coll/choose.h"
#include "coll/cost.h"
#include "test/unit/coll_case.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- parameters ---- */

static void parameters_are_text_and_back(void **state)
{
    struct coll_model model = coll_model_default(), other = {0};
    struct error err = {""};
    char text[500], again[500];

    (void)state;
    assert_int_equal(
        coll_model_parse(&model, "L=70.5 sigma=0.25,Bc=8 S=1073741824 E=512 Os=0.1 or=2", &err), 0);
    assert_int_equal(model.line, 70500);
    assert_int_equal(model.yield, 250);
    assert_int_equal(model.copy, 125);
    assert_int_equal(model.eager, 1073741824);
    assert_int_equal(model.gathered, 512);
    assert_int_equal(model.send_byte, 100);
    assert_int_equal(model.receive, 2000);
    assert_true(coll_model_print(text, sizeof(text), &model) < (int)sizeof(text));
    assert_int_equal(coll_model_parse(&other, text, &err), 0);
    coll_model_print(again, sizeof(again), &other);
    assert_string_equal(text, again);
    assert_int_equal(coll_model_print(text, 5, &model), (int)strlen(again));
    assert_string_equal(text, "L=70");
}

static void wrong_parameters_are_refused(void **state)
{
    static const char *const wrong[] = {
        "L",  "L=",  "L=1x",     "X=1",      "L=1.2345", "Bc=0",   "L = 70",  "L=-70",
        "=1", "L70", "L=70;m=2", "Bc=0.000", "L=1e3",    "L=1..2", "ll=1000", "L=1234567890123"};
    struct coll_model model = coll_model_default(), before = model;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct error err = {""};
        int rc = coll_model_parse(&model, wrong[i], &err);

        if (rc != -EINVAL || err.text[0] == '\0')
            fail_msg("\"%s\": %d", wrong[i], rc);
        assert_memory_equal(&model, &before, sizeof(model));
    }
}

/* ---- rules ---- */

static const char *choice_named(const char *rules_text, struct coll_request request, int size)
{
    static char name[60];
    struct coll_rules rules;
    struct coll_model model = coll_model_default();
    struct coll_choice choice;
    struct shape shape;
    struct error err = {""};

    assert_int_equal(shape_init(&shape, size, NULL, size), 0);
    if (coll_rules_parse(&rules, rules_text, &err) != 0)
        fail_msg("%s: %s", rules_text, err.text);
    assert_int_equal(coll_choose(&shape, &request, &model, &rules, &choice, &err), 0);
    coll_choice_print(name, sizeof(name), &shape, &request, &choice);
    shape_free(&shape);
    return name;
}

static struct coll_request request_of(enum coll_kind kind, size_t bytes)
{
    return (struct coll_request){.kind = kind, .element = 8, .count = bytes / 8};
}

static void rules_name_algorithms_by_kind_and_bytes(void **state)
{
    static const char *const text =
        "barrier=dissemination:3,allreduce:-4096=flat,allreduce:65536-=ring,"
        "bcast:100-200=binomial,bcast:1000-=chain:800,reduce=linear";

    (void)state;
    assert_string_equal(choice_named(text, request_of(COLL_BARRIER, 0), 9), "dissemination:3");
    assert_string_equal(choice_named(text, request_of(COLL_ALLREDUCE, 4096), 9), "flat");
    assert_string_equal(choice_named(text, request_of(COLL_ALLREDUCE, 65536), 9), "ring");
    assert_string_equal(choice_named(text, request_of(COLL_BCAST, 200), 9), "tree:2");
    assert_string_equal(choice_named(text, request_of(COLL_BCAST, 1000), 9), "chain:800");
    assert_string_equal(choice_named(text, request_of(COLL_REDUCE, 8), 9), "tree:9");
    assert_string_equal(choice_named("barrier=flat", request_of(COLL_BARRIER, 0), 9),
                        "dissemination:9");
    assert_string_equal(choice_named("reduce=rabenseifner", request_of(COLL_REDUCE, 8), 9),
                        "rabenseifner");
}

static void wrong_rules_are_refused(void **state)
{
    static const char *const wrong[] = {
        "barrier",       "barrier=",        "barrier=ring",      "bar=flat",
        "barrier:=flat", "barrier:5=flat",  "barrier:9-5=flat",  "barrier=dissemination:1",
        "bcast=tree:",   "bcast=tree:x",    "bcast=tree:4x",     "allreduce=ring:4",
        "=flat",         "bcast:-5=tree,,", "bcast=tree;",       "bcast:99999999999999999-=tree",
        "bcast=tree:-2", "scan=tree",       "barrier=flat flat", "bcast=chain:1234567890123456"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct coll_rules rules = {.count = 7};
        struct error err = {""};
        int rc = coll_rules_parse(&rules, wrong[i], &err);

        if (rc != -EINVAL || err.text[0] == '\0' || rules.count != 7)
            fail_msg("\"%s\": %d", wrong[i], rc);
    }
}

static void a_rule_that_cannot_be_is_explained(void **state)
{
    struct coll_request request = request_of(COLL_ALLREDUCE, 8);
    struct coll_model model = coll_model_default();
    struct coll_rules rules;
    struct shape shape;
    struct error err = {""};
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    (void)state;
    request.order = COLL_FIXED_ORDER;
    assert_int_equal(shape_init(&shape, 6, NULL, 6), 0);
    assert_int_equal(coll_rules_parse(&rules, "allreduce=ring", &err), 0);
    assert_int_equal(coll_explain(to, &shape, &request, &model, &rules), 0);
    fclose(to);
    if (strstr(text, "allreduce of 1 elements of 8 bytes, 6 members on 1 hosts of 6 cores: flat\n"
                     "  allreduce by ring needs a commutative operator, and is chosen by its cost "
                     "instead\n"
                     "  flat ") == NULL ||
        strstr(text, " us\n") == NULL || strstr(text, "tree:6               needs radix 2") == NULL)
        fail_msg("%s", text);
    free(text);
    shape_free(&shape);
}

/* ---- what is chosen ---- */

struct chosen {
    enum coll_kind kind;
    size_t bytes;
    int hosts, members, cores; /* members and cores of a host */
    const char *algorithm;     /* or several */
};

/* Where the right algorithm is beyond doubt. */
static const struct chosen chosen[] = {
    {COLL_BARRIER, 0, 1, 2, 2, "dissemination:2"},
    {COLL_BARRIER, 0, 1, 4, 4, "dissemination:4"},
    {COLL_BARRIER, 0, 1, 8, 2, "dissemination:8"}, /* yields cost more than messages */
    {COLL_BARRIER, 0, 256, 1, 4, "dissemination:3 dissemination:4 dissemination:6 dissemination:8"},
    {COLL_BARRIER, 0, 64, 16, 16, "hosts:3 hosts:4 hosts:6 hosts:8"},
    {COLL_BCAST, 8, 1, 8, 8, "tree:8"},
    {COLL_BCAST, 1 << 20, 1, 8, 8, "tree:8"}, /* all read the memory of the root */
    {COLL_BCAST, 8, 64, 16, 16, "hosts:3 hosts:4 hosts:6 hosts:8"},
    {COLL_BCAST, 64 << 20, 16, 1, 4, "chain:32768 chain:131072 scatter-ring"},
    {COLL_REDUCE, 8, 1, 4, 4, "flat tree:4"},
    {COLL_REDUCE, 4 << 20, 64, 1, 4, "rabenseifner"},
    {COLL_ALLREDUCE, 8, 1, 4, 4, "flat"},
    {COLL_ALLREDUCE, 8, 1, 4, 2, "flat"},
    {COLL_ALLREDUCE, 1 << 20, 1, 8, 8, "shares"},
    {COLL_ALLREDUCE, 8, 64, 1, 4, "exchange"},
    {COLL_ALLREDUCE, 8, 1024, 16, 16, "hosts:2 hosts:3 hosts:4 hosts:6 hosts:8 hosts:16"},
    {COLL_ALLREDUCE, 16 << 20, 64, 1, 4, "ring rabenseifner"},
    {COLL_REDUCE_SCATTER, 8, 64, 1, 4, "halving"},
    {COLL_GATHER, 8, 256, 1, 4, "tree:2 tree:3 tree:4 tree:6 tree:8 tree:16"},
    {COLL_GATHER, 1 << 20, 16, 1, 4, "linear tree:16"},
    {COLL_SCATTER, 8, 256, 1, 4, "tree:2 tree:3 tree:4 tree:6 tree:8 tree:16"},
    {COLL_ALLGATHER, 8, 1, 4, 4, "flat"},
    {COLL_ALLGATHER, 8, 64, 1, 4, "bruck"},
    {COLL_ALLGATHER, 8, 64, 16, 16, "bruck hosts:2"},
    {COLL_ALLTOALL, 8, 1, 4, 4, "flat linear"},
    {COLL_ALLTOALL, 8, 128, 1, 4, "bruck"},
    {COLL_ALLTOALL, 65536, 64, 1, 4, "pairwise linear"},
    {COLL_SCAN, 8, 64, 1, 4, "exchange"},
    {COLL_SCAN, 8, 1, 4, 4, "flat"},
    {COLL_EXSCAN, 8, 64, 16, 16, "hosts:2"},
};

/* The same where members can read each other's memory. */
static const struct chosen chosen_of_fetch[] = {
    {COLL_BCAST, 64, 1, 8, 2, "tree:8"}, /* a fetch is a system call, and a round more */
    {COLL_BCAST, 1 << 20, 1, 4, 2, "tree:4"},
    {COLL_SCATTER, 8, 1, 4, 2, "tree:4 flat"},
    {COLL_SCATTER, 1 << 20, 1, 4, 2, "fetch"},
    {COLL_ALLTOALL, 65536, 1, 8, 2, "fetch"},
    {COLL_ALLGATHER, 65536, 1, 2, 2, "fetch"},
    {COLL_ALLGATHER, 65536, 1, 4, 2, "flat"}, /* each block is read three times */
    {COLL_GATHER, 1 << 20, 1, 4, 2, "tree:4 linear"},
};

static void shape_rows(struct shape *s, int hosts, int members, int cores)
{
    int *host = malloc((size_t)hosts * (size_t)members * sizeof(*host));

    for (int i = 0; i < hosts * members; i++)
        host[i] = i / members;
    assert_int_equal(shape_init(s, hosts * members, host, cores), 0);
    free(host);
}

/* How many are wrong. */
static int choices_wrong(const struct chosen *list, size_t n, bool fetches)
{
    struct coll_model model = coll_model_default();
    int wrong = 0;

    for (size_t i = 0; i < n; i++) {
        const struct chosen *e = &list[i];
        struct coll_request request = request_of(e->kind, e->bytes);
        struct coll_choice choice;
        struct error err = {""};
        struct shape shape;
        char name[60], *found;

        shape_rows(&shape, e->hosts, e->members, e->cores);
        shape.fetches = fetches;
        assert_int_equal(coll_choose(&shape, &request, &model, NULL, &choice, &err), 0);
        coll_choice_print(name, sizeof(name), &shape, &request, &choice);
        found = strstr(e->algorithm, name);
        if (found == NULL || (found[strlen(name)] != '\0' && found[strlen(name)] != ' ')) {
            print_message("%s is not of %s\n", name, e->algorithm);
            coll_explain(stdout, &shape, &request, &model, NULL);
            wrong++;
        }
        shape_free(&shape);
    }
    return wrong;
}

static void the_right_algorithm_is_chosen(void **state)
{
    (void)state;
    assert_int_equal(choices_wrong(chosen, sizeof(chosen) / sizeof(*chosen), false), 0);
    assert_int_equal(
        choices_wrong(chosen_of_fetch, sizeof(chosen_of_fetch) / sizeof(*chosen_of_fetch), true),
        0);
}

static const struct coll_candidate *find_cast(const struct coll_candidate *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i].choice.algorithm == COLL_CAST)
            return &list[i];
    return NULL;
}

/* One message to all hosts is a candidate where the model has its latency; it costs the same for 4 hosts and 400, and more with losses. */
static void a_cast_is_chosen_by_its_cost(void **state)
{
    struct coll_request request = request_of(COLL_BCAST, 4096);
    struct coll_model model = coll_model_default();
    static struct coll_candidate list[COLL_CANDIDATES];
    const struct coll_candidate *cast;
    struct error err = {""};
    struct shape few, many, one;
    char name[40];
    uint64_t time;

    (void)state;
    shape_rows(&few, 4, 2, 2);
    shape_rows(&many, 400, 2, 2);
    shape_rows(&one, 1, 8, 8);
    assert_null(find_cast(list, coll_candidates(&many, &request, &model, list)));
    assert_int_equal(coll_model_parse(&model, "Ln=8000 Lm=9000", &err), 0);
    assert_null(find_cast(list, coll_candidates(&one, &request, &model, list)));
    cast = find_cast(list, coll_candidates(&few, &request, &model, list));
    assert_non_null(cast);
    time = cast->time;
    cast = find_cast(list, coll_candidates(&many, &request, &model, list));
    assert_ptr_equal(cast, &list[0]); /* the fastest */
    assert_int_equal(cast->time, time);
    assert_int_equal(coll_model_parse(&model, "loss=0.05", &err), 0);
    cast = find_cast(list, coll_candidates(&few, &request, &model, list));
    assert_true(cast->time > time);
    time = cast->time;
    cast = find_cast(list, coll_candidates(&many, &request, &model, list));
    assert_true(cast->time > time && cast->choice.algorithm == COLL_CAST);
    request =
        request_of(COLL_ALLGATHER, 8); /* one of each host: a round in the place of a ring's */
    cast = find_cast(list, coll_candidates(&few, &request, &model, list));
    assert_non_null(cast);
    coll_choice_print(name, sizeof(name), &few, &request, &cast->choice);
    assert_string_equal(name, "cast");
    assert_false(cast->large);
    cast = find_cast(list, coll_candidates(&many, &request, &model, list));
    assert_true(cast != NULL && cast->large);
    shape_free(&few);
    shape_free(&many);
    shape_free(&one);
}

/* The q members of a core copy the result one after the other, once each: q - 1 copies more than where each has a core. */
static void members_of_a_core_copy_once_each(void **state)
{
    const struct coll_choice cast = {.algorithm = COLL_CAST, .radix = 2};
    struct coll_request request[2] = {request_of(COLL_BCAST, 4096),
                                      request_of(COLL_ALLREDUCE, 4096)};
    struct coll_model model = coll_model_default();
    struct shape apart, shared;
    struct error err = {""};

    (void)state;
    assert_int_equal(coll_model_parse(&model, "Lm=9000 L=0 m=0 sigma=0 step=0 Bc=1", &err), 0);
    shape_rows(&apart, 4, 4, 4);
    shape_rows(&shared, 4, 4, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(coll_cost(&shared, &request[i], &cast, &model),
                         coll_cost(&apart, &request[i], &cast, &model) + 3 * 4096 * model.copy);
    shape_free(&apart);
    shape_free(&shared);
}

/* Random requests: there is a choice, the same at all members, and it can be built. */
static void every_request_has_a_choice(void **state)
{
    static struct coll_case c;
    struct coll_model model = coll_model_default();

    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct coll_choice first = {0};

        coll_case_draw(&c, seed);
        for (int i = 0; i < c.shape.size; i++) {
            struct coll_request request = coll_case_request(&c, i);
            struct coll_choice choice = {0};
            struct error err = {""};
            struct graph g;

            if (coll_choose(&c.shape, &request, &model, NULL, &choice, &err) != 0)
                fail_msg("%s: %s", coll_case_describe(&c), err.text);
            if (i == 0)
                first = choice;
            assert_int_equal(choice.algorithm, first.algorithm);
            assert_int_equal(choice.radix, first.radix);
            assert_int_equal(choice.segment, first.segment);
            if (coll_build(&g, &c.shape, i, &request, &choice, &err) != 0)
                fail_msg("%s: %s", coll_case_describe(&c), err.text);
            graph_free(&g);
        }
        coll_case_free(&c);
    }
}

static void huge_numbers_saturate(void **state)
{
    struct coll_model model = coll_model_default();
    struct error err = {""};

    (void)state;
    assert_int_equal(
        coll_model_parse(&model, "L=999999999 Ln=999999999 G=999999999 sigma=999999999", &err), 0);
    for (int k = 0; k < COLL_KINDS; k++) {
        struct coll_candidate list[COLL_CANDIDATES];
        struct coll_request request = request_of((enum coll_kind)k, SIZE_MAX / 64 / 2048);
        struct shape shape;
        int count;

        shape_rows(&shape, 64, 16, 3);
        count = coll_candidates(&shape, &request, &model, list);
        assert_true(count > 0);
        for (int i = 0; i < count; i++)
            assert_true(list[i].time <= MODEL_NEVER && list[i].time > 1000000);
        shape_free(&shape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_text_and_back),
        cmocka_unit_test(wrong_parameters_are_refused),
        cmocka_unit_test(rules_name_algorithms_by_kind_and_bytes),
        cmocka_unit_test(wrong_rules_are_refused),
        cmocka_unit_test(a_rule_that_cannot_be_is_explained),
        cmocka_unit_test(the_right_algorithm_is_chosen),
        cmocka_unit_test(a_cast_is_chosen_by_its_cost),
        cmocka_unit_test(members_of_a_core_copy_once_each),
        cmocka_unit_test(every_request_has_a_choice),
        cmocka_unit_test(huge_numbers_saturate),
    };

    return cmocka_run_group_tests_name("choice of algorithms", tests, NULL, NULL);
}
