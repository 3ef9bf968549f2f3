/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_model: fed with the table of Zambre 2020 it gives the results of that chapter; sums, files of
 * parts, changes, and the comparison with what was measured.
 */
#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_ns(double ns, const char *expected)
{
    char text[32];

    snprintf(text, sizeof(text), "%.2f", ns);
    assert_string_equal(text, expected);
}

static double total(struct model_sum s) { return model_total(&s); }

static void the_published_sums_come_out(void **state)
{
    const struct model_parts *p = &model_thunderx2;

    (void)state;
    assert_ns(model_llp_post(p), "175.42");
    assert_ns(model_post(p), "201.98");
    assert_ns(model_network(p), "382.81");
    assert_ns(model_injection_llp(p), "295.73");
    assert_ns(total(model_injection(p, 0)), "264.97");
    assert_ns(model_cpu_time(p), "264.97");
    assert_ns(model_latency_llp(p), "1135.80");
    assert_ns(total(model_latency(p, 0)), "1387.02");
    assert_ns(model_completion(p), "1281.56");
    assert_ns(model_posts_of_a_poll(p), "7.00");
    assert_ns(model_single_injection(p), "402.46");
    assert_ns((p->ns[PART_LLP_PROG][0] + p->ns[PART_HLP_RX][0]) / p->ns[PART_HLP_TX][0],
              "4.79"); /* its 4.78 is cut off */
}

static void shares_are_the_published_ones(void **state)
{
    const struct model_sum s = model_latency(&model_thunderx2, 0);
    char text[16];

    (void)state;
    snprintf(text, sizeof(text), "%.1f", 100 * model_share(&s, MODEL_NETWORK));
    assert_string_equal(text, "27.6");
    snprintf(text, sizeof(text), "%.1f",
             100 * (model_share(&s, MODEL_CPU) + model_share(&s, MODEL_IO)));
    assert_string_equal(text, "72.4");
}

/* By how many percent the prediction falls. */
static double saved(const char *changes, int latency)
{
    struct model_parts p = model_thunderx2;
    struct model_sum before, after;
    char why[200];

    assert_int_equal(model_what_if(&p, changes, why, sizeof(why)), 0);
    before = latency ? model_latency(&model_thunderx2, 0) : model_injection(&model_thunderx2, 0);
    after = latency ? model_latency(&p, 0) : model_injection(&p, 0);
    return 100 * model_improvement(&before, &after);
}

/* Zambre 2020 §2.7: what its text takes from figures 2.17 and 2.18. */
static void changes_save_what_was_published(void **state)
{
    (void)state;
    assert_true(saved("doorbell", 0) > 25 && saved("doorbell", 1) > 5);
    assert_true(saved("integrated", 1) > 15);
    assert_true(saved("integrated", 0) == 0);
    assert_true(saved("switch=30ns", 1) > 5.45 && saved("switch=30ns", 1) < 6);
    assert_true(saved("hlp=0.8", 1) < 5 && saved("llp=0.8", 1) < 5);
    assert_true(saved("llp=0.8", 0) > 13 && saved("llp=0.8", 0) < 13.5);
    assert_true(saved("hlp=0.8", 0) > 6.4 && saved("hlp=0.8", 0) < 6.6);
    assert_true(saved("nic,cpu", 1) > saved("nic", 1) + saved("cpu", 1) - 1e-9);
    assert_true(saved("pcie=2x", 1) > 0 && saved("pcie=2x", 1) < saved("integrated", 1));
}

static void a_wrong_change_is_refused_and_changes_nothing(void **state)
{
    static const char *const wrong[] = {"nothing",     "pio=",        "pio=-1",    "pio=x",
                                        "pio=0x0x",    "pio=2y",      "io=30ns",   "alloc=0.5",
                                        "cpu=2x,nope", "hlp=0.5,=2x", "pio=1e999", "lines=0.5"};
    char why[200];

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct model_parts p = model_thunderx2;

        why[0] = '\0';
        if (strcmp(wrong[i], "pio=0x0x") == 0) /* a hexadecimal number, and no speed of 0 */
            continue;
        assert_int_equal(model_what_if(&p, wrong[i], why, sizeof(why)), -1);
        assert_true(why[0] != '\0');
        assert_memory_equal(&p, &model_thunderx2, sizeof(p));
    }
}

/* ---- files ---- */

static int read_text(struct model_parts *p, const char *text, char *why, size_t bytes)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    int result;

    assert_non_null(file);
    result = model_parts_read(p, file, "file", why, bytes);
    fclose(file);
    return result;
}

/* The parts of a path, each with a number of its own. */
static void make_parts(struct model_parts *p, enum model_way way, bool get)
{
    *p = (struct model_parts){.way = way, .get = get};
    for (int i = 0; i < MODEL_PARTS; i++)
        for (int s = 0; s < MODEL_SIZES && model_part_is_of(i, way, get); s++)
            p->ns[i][s] = i + 100 * s;
    for (int s = 0; s < MODEL_SIZES && way == WAY_MEMORY; s++) {
        p->ns[PART_HAND_OVER][s] = 1000 * (s + 1);
        p->ns[PART_ROW_WRITE][s] = 2000 * (s + 1);
        p->ns[PART_ROW_READ][s] = 2500 * (s + 1); /* longer than its calls and its payload */
        p->ns[PART_ROW_BOTH][s] = 2600 * (s + 1);
    }
    for (int s = 0; s < MODEL_SIZES && way == WAY_NETWORK; s++) {
        p->ns[PART_PUBLISH][s] = p->ns[PART_POST][s] + 20;
        p->ns[PART_TAKE][s] = p->ns[PART_COMPLETION][s] + p->ns[PART_FETCH][s] + 30;
    }
}

static void make_memory(struct model_parts *p) { make_parts(p, WAY_MEMORY, false); }

static void a_file_that_was_printed_is_read(void **state)
{
    struct model_parts p[4] = {model_thunderx2}, again[MODEL_PATHS];
    static char text[16384];
    FILE *file = fmemopen(text, sizeof(text), "w");
    char why[320];

    (void)state;
    make_parts(&p[1], WAY_MEMORY, true);
    make_parts(&p[2], WAY_NETWORK, false);
    make_parts(&p[3], WAY_NETWORK, true);
    p[2].ns[PART_NETWORK][0] = -5;
    assert_non_null(file);
    for (int i = 0; i < 4; i++)
        model_parts_print(&p[i], file);
    fclose(file);
    assert_int_equal(read_text(again, text, why, sizeof(why)), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(again[i].way, p[i].way);
        assert_int_equal(again[i].get, p[i].get);
        for (int part = 0; part < MODEL_PARTS; part++)
            for (int s = 0; s < MODEL_SIZES; s++)
                assert_true(again[i].ns[part][s] == p[i].ns[part][s]);
    }
}

static void a_wrong_file_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"# nothing\n", "it has no path"},
        {"alloc_8 3\n", "line 1: the first line must be a path"},
        {"path\n", "line 1: a path is"},
        {"path memory\n", "line 1: a path is"},
        {"path memory put get\n", "line 1: a path is"},
        {"path memory put # x\n", "alloc_8 is missing"},
        {"path adapter\npio 3\n", "md is missing"},
        {"path adapter\npio 3\n\npio 4\n", "line 4: pio is given twice"},
        {"path adapter\npio\n", "line 2: pio must be followed"},
        {"path adapter\npio -1\n", "line 2: pio must be followed"},
        {"path adapter\npio nan\n", "line 2: pio must be followed"},
        {"path adapter\npio 3 4\n", "line 2: pio must be followed"},
        {"path adapter\n# x\nspeed 3\n", "line 3: \"speed\" is no part"},
        {"path adapter\nalloc_8 3\n", "line 2: \"alloc_8\" is no part"},
        {"path memory put\nalloc 3\n", "line 2: \"alloc\" is no part"},
        {"path memory put\nalloc_9 3\n", "line 2: \"alloc_9\" is no part"},
        {"path network put\nfetch_8 3\n", "line 2: \"fetch_8\" is no part"},
        {"path network put\npath network get\n", "line 2: alloc_8 is missing"},
    };
    struct model_parts p[MODEL_PATHS];
    char why[320];

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(read_text(p, wrong[i].text, why, sizeof(why)), -1);
        if (strstr(why, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].text, why);
    }
}

/* ---- what is measured ---- */

static void assert_near(double a, double b)
{
    if (a - b > 1e-6 || b - a > 1e-6)
        fail_msg("%f is not %f", a, b);
}

static void a_latency_is_the_sum_of_its_parts(void **state)
{
    struct model_parts p;

    (void)state;
    make_memory(&p);
    for (int s = 0; s < MODEL_SIZES; s++)
        assert_near(total(model_latency(&p, s)),
                    p.ns[PART_ALLOC][s] + p.ns[PART_PUBLISH][s] + p.ns[PART_HAND_OVER][s] +
                        p.ns[PART_POLL][s] / 2 + p.ns[PART_TAKE][s] + p.ns[PART_FREE][s]);
    for (int get = 0; get < 2; get++) {
        make_parts(&p, WAY_NETWORK, get == 1);
        for (int s = 0; s < MODEL_SIZES; s++)
            assert_near(total(model_latency(&p, s)),
                        p.ns[PART_ALLOC][s] + p.ns[PART_FILL][s] + p.ns[PART_PUBLISH][s] +
                            p.ns[PART_NETWORK][s] + p.ns[PART_TAKE][s] + p.ns[PART_READ][s] +
                            p.ns[PART_FREE][s]);
    }
    /* it arrives before the call that sends returns */
    p.ns[PART_NETWORK][0] = -2;
    assert_near(total(model_latency(&p, 0)), p.ns[PART_ALLOC][0] + p.ns[PART_FILL][0] +
                                                 p.ns[PART_PUBLISH][0] - 2 + p.ns[PART_TAKE][0] +
                                                 p.ns[PART_READ][0] + p.ns[PART_FREE][0]);
}

static void a_stream_is_bound_by_what_takes_longest(void **state)
{
    struct model_parts p;

    (void)state;
    make_memory(&p);
    assert_near(total(model_injection(&p, 0)), 2600);
    assert_string_equal(model_injection(&p, 0).bound, "reader");
    p.ns[PART_ROW_BOTH][0] = 2400; /* shorter than the reader alone: nothing is taken off */
    assert_near(total(model_injection(&p, 0)), 2500);
    p.ns[PART_ROW_WRITE][0] = 2501;
    assert_near(total(model_injection(&p, 0)), 2501);
    assert_string_equal(model_injection(&p, 0).bound, "writer");
    p.ns[PART_ALLOC][0] = 9000; /* more than its row: no time is negative */
    assert_near(total(model_injection(&p, 0)), 9000 + p.ns[PART_FILL][0] + p.ns[PART_PUBLISH][0]);

    make_parts(&p, WAY_NETWORK, false);
    p.ns[PART_ROW_TAKE][1] = 9000;
    assert_near(total(model_injection(&p, 1)), 9000 + p.ns[PART_READ][1] + p.ns[PART_ROW_FREE][1]);
    assert_string_equal(model_injection(&p, 1).bound, "reader");
    p.ns[PART_ROW_PUBLISH][1] = 9900;
    assert_near(total(model_injection(&p, 1)), p.ns[PART_ROW_ALLOC][1] + p.ns[PART_FILL][1] + 9900);
    assert_string_equal(model_injection(&p, 1).bound, "writer");
    p.ns[PART_STREAM][1] = 20000;
    assert_near(total(model_injection(&p, 1)), 20000);
    assert_string_equal(model_injection(&p, 1).bound, "network");
}

static struct model_parts changed_by(const struct model_parts *p, const char *changes)
{
    struct model_parts changed = *p;
    char why[200] = "";

    if (model_what_if(&changed, changes, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    return changed;
}

/* By how much a latency falls. */
static double falls(const struct model_parts *p, int size, const char *changes)
{
    const struct model_parts changed = changed_by(p, changes);

    return total(model_latency(p, size)) - total(model_latency(&changed, size));
}

/* The reader is what takes longer, before and after. */
static void a_part_of_a_row_makes_a_stream_shorter(void **state)
{
    struct model_parts p, changed;

    (void)state;
    make_memory(&p);
    for (int s = 0; s < MODEL_SIZES; s++) {
        const double before = total(model_injection(&p, s)),
                     in_cache = p.ns[PART_TAKE][s] + p.ns[PART_READ][s] + p.ns[PART_FREE][s];

        changed = changed_by(&p, "lines=0.5");
        assert_near(before - total(model_injection(&changed, s)),
                    (p.ns[PART_ROW_READ][s] - in_cache) / 2 + 50 * (s + 1));
        changed = changed_by(&p, "read=0.5");
        assert_near(before - total(model_injection(&changed, s)), p.ns[PART_READ][s] / 2);
        changed = changed_by(&p, "cpu=2x");
        assert_near(before - total(model_injection(&changed, s)), in_cache / 2);
    }
}

static void a_part_that_takes_less_makes_the_whole_shorter_by_as_much(void **state)
{
    struct model_parts p, changed;

    (void)state;
    make_memory(&p);
    for (int s = 0; s < MODEL_SIZES; s++) {
        const double fill = p.ns[PART_FILL][s],
                     lines = p.ns[PART_HAND_OVER][s] - fill - p.ns[PART_READ][s];

        assert_near(falls(&p, s, "lines=0"), lines);
        assert_near(falls(&p, s, "fill=0.5"), fill / 2);
    }
    assert_near(falls(&p, 1, "fill_64=0ns"), p.ns[PART_FILL][1]);
    assert_near(falls(&p, 1, "fill_8=0ns"), 0);
    assert_true(falls(&p, 0, "cpu") > 0);
    make_parts(&p, WAY_NETWORK, false);
    p.ns[PART_ROW_PUBLISH][0] = 9000; /* bound by the writer: rmalloc of a row falls with rmalloc */
    changed = changed_by(&p, "alloc=0.5");
    assert_near(total(model_injection(&p, 0)) - total(model_injection(&changed, 0)),
                p.ns[PART_ROW_ALLOC][0] / 2);
    for (int get = 0; get < 2; get++) {
        make_parts(&p, WAY_NETWORK, get == 1);
        for (int s = 0; s < MODEL_SIZES; s++) {
            assert_near(falls(&p, s, "post=0.5"), p.ns[PART_POST][s] / 2);
            assert_near(falls(&p, s, "network=0"), p.ns[PART_NETWORK][s] + p.ns[PART_FETCH][s]);
            assert_near(falls(&p, s, "hlp=0"), p.ns[PART_ALLOC][s] + 20 + 30 + p.ns[PART_FREE][s]);
        }
    }
    make_memory(&p);
    p.ns[PART_HAND_OVER][0] = 1; /* less than fill and read: no time is negative */
    assert_true(total(model_latency(&p, 0)) > 0);
}

/* ---- what was measured ---- */

static int compare_text(const struct model_parts *p, const char *text, double limit, char *why,
                        size_t bytes)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    int result;

    assert_non_null(file);
    result = model_compare(p, 1, file, limit, false, why, bytes);
    fclose(file);
    return result;
}

#define HEADING "test,op,direction,bytes,touched,median_us,best_us\n"

static void an_error_beyond_the_limit_is_found(void **state)
{
    struct model_parts p;
    char text[200], why[200];
    double ns;

    (void)state;
    make_memory(&p);
    ns = total(model_latency(&p, 2));
    snprintf(text, sizeof(text), HEADING "latency,put,uni,4096,1,%.6f,1\n", ns / 1e3 / 1.05);
    assert_int_equal(compare_text(&p, text, 10, why, sizeof(why)), 0);
    assert_int_equal(compare_text(&p, text, 4.9, why, sizeof(why)), 1);
    snprintf(text, sizeof(text), HEADING "latency,put,uni,4096,1,%.6f,1\n", ns / 1e3 / 0.95);
    assert_int_equal(compare_text(&p, text, 4.9, why, sizeof(why)), 1);
    assert_int_equal(compare_text(&p, text, 5.1, why, sizeof(why)), 0);
    ns = total(model_injection(&p, 3));
    snprintf(text, sizeof(text), HEADING "stream,put,uni,65536,1,%.6f,1\n", ns / 1e3 / 1.2);
    assert_int_equal(compare_text(&p, text, 19, why, sizeof(why)), 1);
    assert_int_equal(compare_text(&p, text, 21, why, sizeof(why)), 0);
}

/* A row that was measured in another way than the parts is not beside them. */
static void a_row_of_another_kind_is_refused_with_the_reason(void **state)
{
#define KIND "test,op,direction,bytes,touched,median_us,best_us,backend,calls\nstream,put,uni,8,"
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {KIND "1,1,1,tcp,rmalloc rwrite rread rfree\n", "of a network, and --parts of shared"},
        {KIND "0,1,1,shm,rmalloc rwrite rread rfree\n", "--no-touch"},
        {KIND "1,1,1,shm,rsend rrecv\n", "--copy"},
    };
    struct model_parts p;
    char why[200];

    (void)state;
    make_memory(&p);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        why[0] = '\0';
        assert_int_equal(compare_text(&p, wrong[i].text, 10, why, sizeof(why)), -1);
        assert_non_null(strstr(why, wrong[i].why));
    }
    assert_int_not_equal(
        compare_text(&p, KIND "1,1,1,shm,rmalloc rwrite rread rfree\n", 10, why, sizeof(why)), -1);
    make_parts(&p, WAY_NETWORK, false);
    assert_int_equal(
        compare_text(&p, KIND "1,1,1,shm,rmalloc rwrite rread rfree\n", 10, why, sizeof(why)), -1);
    assert_non_null(strstr(why, "of shared memory, and --parts of a network"));
#undef KIND
}

static void what_cannot_be_compared_is_refused(void **state)
{
    static const char *const wrong[] = {"x",
                                        "test,op\n",
                                        HEADING,
                                        HEADING "latency,put,bi,8,1,1,1\n",
                                        HEADING "latency,put,uni,9,1,1,1\n",
                                        HEADING "latency,put,uni,8\n",
                                        HEADING "latency,put,uni,8,1,0,0\n",
                                        HEADING "latency,get,uni,8,1,1,1\n",
                                        HEADING "memory,put,uni,8,1,1,1\n"};
    struct model_parts p;
    char why[200];

    (void)state;
    make_memory(&p);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        why[0] = '\0';
        assert_int_equal(compare_text(&p, wrong[i], 10, why, sizeof(why)), -1);
        assert_true(why[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_sums_come_out),
        cmocka_unit_test(shares_are_the_published_ones),
        cmocka_unit_test(changes_save_what_was_published),
        cmocka_unit_test(a_wrong_change_is_refused_and_changes_nothing),
        cmocka_unit_test(a_file_that_was_printed_is_read),
        cmocka_unit_test(a_wrong_file_is_refused_with_its_line),
        cmocka_unit_test(a_latency_is_the_sum_of_its_parts),
        cmocka_unit_test(a_stream_is_bound_by_what_takes_longest),
        cmocka_unit_test(a_part_of_a_row_makes_a_stream_shorter),
        cmocka_unit_test(a_part_that_takes_less_makes_the_whole_shorter_by_as_much),
        cmocka_unit_test(an_error_beyond_the_limit_is_found),
        cmocka_unit_test(a_row_of_another_kind_is_refused_with_the_reason),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
    };

    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
