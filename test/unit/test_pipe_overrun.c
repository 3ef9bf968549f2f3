/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RMALLOC_DEBUG=1: stores beyond a message, and to one that the program does not own any more, are found and named, and nothing
 * else is. Each test runs as PUT and as GET.
 */
#include "test/lib/pair.h"

#include <rinfo.h>

#include <stdio.h>

#define HEAP 16384
#define UNIT 64

static bool debugging(void) { return strcmp(getenv("RMALLOC_DEBUG"), "1") == 0; }

/* ---- what is printed on standard error ---- */

static FILE *printed;
static int real_stderr;

static void capture_begin(void)
{
    printed = tmpfile();
    assert_non_null(printed);
    fflush(stderr);
    real_stderr = dup(2);
    assert_true(dup2(fileno(printed), 2) == 2);
}

/* It has `word` and `other`; NULL: it is empty. */
static void capture_end(const char *word, const char *other)
{
    char text[4096] = "";

    fflush(stderr);
    assert_int_equal(dup2(real_stderr, 2), 2);
    close(real_stderr);
    rewind(printed);
    text[fread(text, 1, sizeof(text) - 1, printed)] = '\0';
    fclose(printed);
    if (word == NULL ? text[0] != '\0'
                     : strstr(text, word) == NULL || (other != NULL && strstr(text, other) == NULL))
        fail_msg("printed is \"%s\"; it must be %s%s%s", text, word == NULL ? "empty" : word,
                 other != NULL ? ", " : "", other != NULL ? other : "");
}

/* Sizes with bytes behind them in their unit, or in their slot. */
static const size_t sizes[] = {0, 1, 8, 39, 40, 41, 63, 65, 100, 1000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static size_t behind(size_t size) { return size <= 40 ? 64 - size : (UNIT - size % UNIT) % UNIT; }

/* The calls by which a writer gives a message away. */
static int give(const struct pair *p, raddr_t d, unsigned how)
{
    return how == 0   ? rwrite(p->w, d)
           : how == 1 ? rwrite_nb(p->w, d)
           : how == 2 ? rwrite_n(p->w, d, rsize(p->w, d) / 2)
           : how == 3 ? rshrink(p->w, d, rsize(p->w, d) / 2)
                      : rfree(p->w, d);
}

/* Each byte behind each size: the call fails once, names what happened, and has no other effect. */
static void test_writer(void **state)
{
    struct pair p;

    if (!debugging())
        skip();
    pair_open(&p, op_of(state), HEAP);
    for (size_t i = 0; i < SIZES; i++)
        for (size_t n = 0; n < behind(sizes[i]); n += n < 3 ? 1 : 7) {
            unsigned how = (unsigned)(i + n) % 5;
            raddr_t d = pair_alloc(&p, sizes[i], 1);
            uint8_t *at = (uint8_t *)rmem(p.w, d) + sizes[i] + n;
            char size[64], byte[64];

            *at = (uint8_t)(*at + 1);
            snprintf(size, sizeof(size), "message of %zu bytes", sizes[i]);
            snprintf(byte, sizeof(byte), "byte %zu behind its end", n);
            capture_begin();
            CHECK_RC(-EUCLEAN, p.w, give(&p, d, how));
            capture_end(size, byte);
            assert_non_null(strstr(rerror(p.w), byte));
            assert_true(pattern_same(rmem(p.w, d), sizes[i], 1));
            capture_begin();
            CHECK_OK(p.w, rwrite(p.w, d));
            pair_read_free(&p, sizes[i], 1);
            capture_end(NULL, NULL);
        }
    pair_close(&p);
}

/* The program at the reader may change a message, but not what is behind it. */
static void test_reader(void **state)
{
    struct pair p;

    if (!debugging())
        skip();
    pair_open(&p, op_of(state), HEAP);
    for (size_t i = 0; i < SIZES; i++)
        for (size_t n = 0; n < behind(sizes[i]); n += n < 3 ? 1 : 7) {
            char byte[64];
            uint8_t *at;
            raddr_t d;

            if (op_of(state) == RPIPE_GET && sizes[i] > 40)
                continue; /* the memory is mapped for reading only */
            pair_send(&p, sizes[i], 1);
            d = pair_receive(&p, sizes[i], 1);
            at = rmem(p.r, d);
            memset(at, 7, sizes[i]);
            at[sizes[i] + n] = (uint8_t)(at[sizes[i] + n] + 1);
            snprintf(byte, sizeof(byte), "byte %zu behind its end", n);
            capture_begin();
            CHECK_RC(-EUCLEAN, p.r, rfree(p.r, d));
            capture_end("beyond a message", byte);
            assert_int_equal(rsize(p.r, d), sizes[i]);
            capture_begin();
            CHECK_OK(p.r, rfree(p.r, d));
            capture_end(NULL, NULL);
        }
    pair_close(&p);
}

/* Of the heap: the reader has the number of the message. Over a network the store may be too late to be found. */
static void test_store_after_rwrite(void **state)
{
    struct pair p;

    if (!debugging() || pair_over_network())
        skip();
    pair_open(&p, op_of(state), HEAP);
    for (unsigned n = 1; n <= 40; n++) {
        size_t size = n % 3 == 0 ? 64 : 41 + n * 20;
        raddr_t d = pair_alloc(&p, size, n);
        uint8_t *at = rmem(p.w, d);
        char number[32];

        CHECK_OK(p.w, rwrite(p.w, d));
        if (n % 4 == 0)
            at[size - 1 - n % 40] ^= 1;
        if (n % 4 == 1 && size % UNIT != 0)
            at[size] ^= 1;
        snprintf(number, sizeof(number), "message %u ", n);
        capture_begin();
        CHECK_OK(p.r, rread(p.r, &d, NULL));
        if (n % 4 == 0)
            capture_end(number, "has changed after rwrite");
        else if (n % 4 == 1 && size % UNIT != 0)
            capture_end(number, "written beyond");
        else
            capture_end(NULL, NULL);
        CHECK_OK(p.r, rfree(p.r, d));
    }
    pair_close(&p);
}

/* In a slot: the message is not harmed, and the next one that gets the memory finds it. */
static void test_store_to_a_message_that_is_gone(void **state)
{
    struct pair p;
    raddr_t d;

    if (!debugging())
        skip();
    pair_open(&p, op_of(state), HEAP);
    for (unsigned n = 0; n < 20; n++) {
        uint8_t *at;

        d = pair_alloc(&p, 8, n);
        at = rmem(p.w, d);
        CHECK_OK(p.w, n % 2 == 0 ? rwrite(p.w, d) : rfree(p.w, d));
        at[n] ^= 1;
        capture_begin();
        d = pair_alloc(&p, 8, n);
        capture_end("after its rwrite or rfree", "search for");
        CHECK_OK(p.w, rfree(p.w, d));
        if (n % 2 == 1)
            pair_send(&p, 8, n);
        d = pair_receive(&p, 8, n);
        at = rmem(p.r, d);
        CHECK_OK(p.r, rfree(p.r, d));
        at[n] ^= 1;
        pair_send(&p, 8, n);
        capture_begin();
        d = pair_receive(&p, 8, n);
        capture_end("after its rwrite or rfree", "search for");
        CHECK_OK(p.r, rfree(p.r, d));
    }
    pair_close(&p);
}

/* Everything that a program may do, in every way to send and to receive: nothing is printed. */
static void test_no_false_alarm(void **state)
{
    static uint8_t memory[2000], into[2000];
    rregion_t from = NULL;
    struct pair p;
    size_t got;

    pair_open(&p, op_of(state), HEAP);
    capture_begin();
    CHECK_OK(p.w, rregion_open(&from, p.w, memory, sizeof(memory)));
    for (unsigned n = 0; n < 300; n++) {
        size_t size = n % 100 == 0 ? 2000 : n * 13 % 700;
        raddr_t d;
        int done = 0;

        pattern_fill(memory, size, n);
        if (n % 5 == 0) {
            CHECK_OK(p.w, rsend(p.w, memory, size, 0));
        } else if (n % 5 == 1) {
            CHECK_OK(p.w, rwrite_from(p.w, from, 0, size, 0, &done, 0));
        } else {
            d = pair_alloc(&p, size + (n % 5 == 2 ? 300 : 0), n);
            pattern_fill(rmem(p.w, d), rsize(p.w, d), n);
            CHECK_OK(p.w, n % 5 == 2 ? rwrite_n(p.w, d, size) : rwrite(p.w, d));
        }
        if (n % 2 == 0) {
            CHECK_OK(p.r, rrecv(p.r, into, sizeof(into), &got, 0));
            assert_int_equal(got, size);
        } else {
            d = ADDR_NULL;
            CHECK_OK(p.r, rread(p.r, &d, NULL));
            assert_true(n % 5 == 2 || pattern_same(rmem(p.r, d), size, n));
            if (op_of(state) == RPIPE_PUT)
                memset(rmem(p.r, d), 0, size); /* the reader's to change */
            CHECK_OK(p.r, rfree(p.r, d));
        }
        if (n % 5 == 1)
            CHECK_OK(p.w, rdone(p.w, &done, 0));
    }
    CHECK_OK(p.w, rregion_close(from));
    pair_close(&p);
    capture_end(NULL, NULL);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_writer),
        PUT_AND_GET(test_reader),
        PUT_AND_GET(test_store_after_rwrite),
        PUT_AND_GET(test_store_to_a_message_that_is_gone),
        PUT_AND_GET(test_no_false_alarm),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
