/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages to oneself: every call, the errors of each, and which side owns a message when.
 * Requests to oneself go through channels like any other; the handlers run in the calls that wait.
 * test_am_context.c has contexts: configuration, numbers, counters, idle links, the end.
 */
#include "test/lib/am.h"
#include "test/lib/pair.h"

#include <rpipe.h>

enum { CREDITS = 4, REQUEST_BYTES = 1 << 16, REPLY_BYTES = 1000 };

static ram_t am;

/* ---- handlers ---- */

enum handler { SUM, COPY, KEEP, SILENT, WRONG, GOT, ENDS, HANDLERS };

static int silent, got;
static ram_message_t kept[CREDITS];
static int keeps;
static void *kept_reply_data;

static void on_copy(ram_t a, ram_message_t *m, void *arg)
{
    ram_message_t b, other;
    ram_request_t r;

    (void)arg;
    if (m->nargs == 1) {
        AM_OK(ram_reply(a, m, (uint32_t)m->args[0], m->args, 1, m->data, m->bytes));
        return;
    }
    AM_OK(ram_reply_alloc(a, m, m->bytes, &b));
    assert_int_equal(b.handler, RAM_RESULT);
    AM_RC(-EALREADY, ram_reply_alloc(a, m, m->bytes, &other));
    AM_RC(-EALREADY, ram_reply(a, m, RAM_RESULT, NULL, 0, NULL, 0));
    memcpy(b.data, m->data, m->bytes);
    AM_RC(-EINVAL, ram_send(a, &b, &r, 0));
    AM_OK(ram_send(a, &b, NULL, 0));
    AM_RC(-EINVAL, ram_send(a, &b, NULL, 0));
    AM_RC(-EINVAL, ram_free(a, &b));
}

static void on_keep(ram_t a, ram_message_t *m, void *arg)
{
    (void)arg;
    AM_RC(-EINVAL, ram_keep(a, m, NULL));
    AM_OK(ram_keep(a, m, &kept[keeps]));
    AM_RC(-EINVAL, ram_keep(a, m, &kept[keeps]));
    AM_RC(-EALREADY,
          ram_reply(a, m, RAM_RESULT, NULL, 0, NULL, 0)); /* the kept one can be answered */
    keeps++;
}

static void on_silent(ram_t a, ram_message_t *m, void *arg)
{
    (void)a, (void)m, (void)arg;
    silent++;
}

/* what a handler may not do, or not so */
static void on_wrong(ram_t a, ram_message_t *m, void *arg)
{
    static char large[REPLY_BYTES + 1];
    ram_request_t r;
    ram_message_t b;

    (void)arg;
    AM_RC(-EDEADLK, ram_serve(a, 1, 0));
    AM_RC(-EDEADLK, ram_wait(a, 1, NULL, 0));
    AM_RC(-EDEADLK, ram_flush(a));
    AM_RC(-EDEADLK, ram_barrier(a));
    AM_RC(-EDEADLK, ram_exit(a));
    AM_RC(-EDEADLK, ram_request(a, 0, SILENT, NULL, 0, NULL, 0, &r, 0));
    AM_RC(-EDEADLK, ram_request_alloc(a, 0, 1, &b, 0));
    AM_RC(-EMSGSIZE, ram_reply(a, m, RAM_RESULT, NULL, 0, large, REPLY_BYTES + 1));
    AM_RC(-EMSGSIZE, ram_reply(a, m, RAM_RESULT, m->args, 1, large, REPLY_BYTES - 4));
    AM_RC(-EMSGSIZE, ram_reply_alloc(a, m, REPLY_BYTES + 1, &b));
    AM_RC(-EINVAL, ram_reply(a, m, HANDLERS, NULL, 0, NULL, 0));
    AM_RC(-EINVAL, ram_reply(a, m, RAM_RESULT, NULL, 0, NULL, 1));
    AM_RC(-EINVAL, ram_free(a, m));
    AM_OK(ram_request(a, 0, SILENT, NULL, 0, NULL, 0, NULL, R_NOWAIT)); /* this it may */
    AM_OK(ram_reply(a, m, RAM_RESULT, NULL, 0, large, REPLY_BYTES));
    AM_RC(-EALREADY, ram_reply(a, m, RAM_RESULT, NULL, 0, NULL, 0));
}

/* at the requester, named by a reply */
static void on_got(ram_t a, ram_message_t *m, void *arg)
{
    (void)arg;
    AM_RC(-EINVAL, ram_reply(a, m, RAM_RESULT, NULL, 0, NULL, 0)); /* a reply is not answered */
    got++;
    if (m->bytes == 77) {
        AM_OK(ram_keep(a, m, &kept[keeps++]));
        kept_reply_data = m->data;
    }
}

/* named by a reply; in the child of a fork every channel is refused, so that the request ends the link of this very reply */
static pid_t child = -1;

static void on_ends(ram_t a, ram_message_t *m, void *arg)
{
    (void)arg;
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return;
    AM_RC(-ENOTCONN, ram_request(a, 0, SILENT, NULL, 0, NULL, 0, NULL, R_NOWAIT));
    assert_string_equal(m->data, "still here");
}

static uint64_t hundred = 100;
static const ram_handler_t handlers[HANDLERS] = {
    {"sum", am_on_sum, &hundred}, {"copy", on_copy, NULL},   {"keep", on_keep, NULL},
    {"silent", on_silent, NULL},  {"wrong", on_wrong, NULL}, {"got", on_got, NULL},
    {"ends", on_ends, NULL},
};

static int open_context(void **state)
{
    ram_config_t cfg = am_config(handlers, HANDLERS, CREDITS, REQUEST_BYTES, REPLY_BYTES);

    (void)state;
    silent = got = keeps = 0;
    return ram_init(&am, &cfg);
}

static int close_context(void **state)
{
    (void)state;
    return ram_exit(am);
}

static uint64_t count(const char *name) { return am_count(am, name); }

/* ---- tests ---- */

static void test_arguments(void **state)
{
    uint64_t args[RAM_ARGS_MAX] = {1, 2, 3, 4, 5, 6, 7, 8}, sum = 100;

    (void)state;
    for (uint32_t n = 0; n <= RAM_ARGS_MAX; n++) {
        ram_message_t reply;
        ram_request_t r;

        sum += n;
        AM_OK(ram_request(am, 0, SUM, args, n, NULL, 0, &r, 0));
        AM_OK(ram_wait(am, r, &reply, 0));
        assert_int_equal(reply.nargs, 1);
        assert_int_equal(reply.args[0], sum);
        assert_int_equal(reply.bytes, 0);
        assert_int_equal(reply.handler, RAM_RESULT);
        assert_int_equal(reply.peer, 0);
        AM_OK(ram_free(am, &reply));
    }
    assert_int_equal(count("requests"), RAM_ARGS_MAX + 1);
    assert_int_equal(count("opened"), 1);
    assert_int_equal(count("accepted"), 1);
}

/* Payload and arguments of every length around the slot, the padding and the unit. */
static void test_payloads(void **state)
{
    static char payload[REPLY_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (char)(i * 31 + 7);
    for (size_t bytes = 0; bytes <= REPLY_BYTES - 8; bytes += bytes < 90 ? 1 : 97) {
        uint64_t result = RAM_RESULT;
        ram_message_t reply;
        ram_request_t r;

        AM_OK(ram_request(am, 0, COPY, &result, 1, payload, bytes, &r, 0));
        AM_OK(ram_wait(am, r, &reply, 0));
        assert_int_equal(reply.bytes, bytes);
        assert_memory_equal(reply.data, payload, bytes);
        assert_int_equal(reply.args[0], RAM_RESULT);
        AM_OK(ram_free(am, &reply));
        AM_OK(ram_request(am, 0, COPY, NULL, 0, payload, bytes, &r, 0));
        AM_OK(ram_wait(am, r, &reply, 0));
        assert_int_equal(reply.bytes, bytes);
        if (bytes > 0)
            assert_memory_equal(reply.data, payload, bytes);
        AM_OK(ram_free(am, &reply));
    }
}

static void test_own_memory(void **state)
{
    ram_message_t reply;
    ram_request_t r;
    ram_message_t b, other;

    (void)state;
    AM_RC(-EINVAL, ram_request_alloc(am, 0, 500, &b, 2));
    AM_OK(ram_request_alloc(am, 0, 500, &b, 0));
    AM_OK(ram_request_alloc(am, 0, 40000, &other, 0));
    assert_int_equal(count("kept"), 2);
    assert_int_equal((uintptr_t)b.data % 64, 0);
    memset(b.data, 0x3c, 500);
    assert_int_equal(b.peer, 0);
    assert_int_equal(b.bytes, 500);
    assert_int_equal(b.nargs, 0);
    b.handler = COPY;
    b.bytes = 501;
    AM_RC(-EINVAL, ram_send(am, &b, &r, 0));
    b.bytes = 400; /* fewer are allowed */
    b.handler = RAM_RESULT;
    AM_RC(-EINVAL, ram_send(am, &b, &r, 0));
    b.handler = COPY;
    AM_RC(-EINVAL, ram_send(am, &b, &r, 4));
    AM_OK(ram_send(am, &b, &r, R_NOWAIT));
    assert_true(b.data == NULL && b.bytes == 0);
    AM_RC(-EINVAL, ram_send(am, &b, &r, 0));
    AM_RC(-EINVAL, ram_free(am, &b));
    AM_OK(ram_free(am, &other));
    AM_RC(-EINVAL, ram_free(am, &other));
    AM_OK(ram_wait(am, r, &reply, 0));
    assert_int_equal(reply.bytes, 400);
    assert_int_equal(((unsigned char *)reply.data)[399], 0x3c);
    AM_OK(ram_free(am, &reply));
    AM_RC(-EMSGSIZE, ram_request_alloc(am, 0, REQUEST_BYTES, &b, 0));
    AM_RC(-EMSGSIZE, ram_request_alloc(am, 0, SIZE_MAX, &b, 0));
    assert_int_equal(count("kept"), 0);
}

/* All credits in requests that are kept; replies come back in any order; the last thing given back ends each. */
static void test_kept(void **state)
{
    ram_request_t r[CREDITS], more;
    ram_message_t reply;

    (void)state;
    for (uint64_t i = 0; i < CREDITS; i++) {
        AM_OK(ram_request(am, 0, KEEP, &i, 1, "payload", 8, &r[i], 0));
        AM_RC(R_PENDING, ram_wait(am, r[i], &reply, R_NOWAIT));
    }
    AM_RC(R_PENDING, ram_request(am, 0, KEEP, NULL, 0, NULL, 0, &more, R_NOWAIT));
    while (keeps < CREDITS)
        assert_true(ram_serve(am, 1, R_FOREVER) == 1);
    AM_RC(R_PENDING, ram_request(am, 0, KEEP, NULL, 0, NULL, 0, &more, R_NOWAIT));
    assert_int_equal(count("outstanding"), CREDITS);
    assert_int_equal(count("stalls_credit"), 2);
    AM_OK(ram_reply(am, &kept[2], RAM_RESULT, kept[2].args, 1, kept[2].data, 8));
    AM_OK(ram_wait(am, r[2], &reply, 0));
    assert_int_equal(reply.args[0], 2);
    assert_string_equal(reply.data, "payload");
    AM_RC(R_PENDING, ram_request(am, 0, KEEP, NULL, 0, NULL, 0, &more,
                                 R_NOWAIT)); /* the reply has the credit */
    AM_OK(ram_free(am, &reply));
    AM_OK(ram_request(am, 0, SILENT, NULL, 0, NULL, 0, &more, R_NOWAIT)); /* and now it is back */
    AM_OK(ram_wait(am, more, NULL, 0));
    assert_string_equal(kept[2].data, "payload"); /* answered, and still here */
    for (int i = 0; i < CREDITS; i++)
        AM_OK(ram_free(am, &kept[i])); /* answers the others without a word */
    AM_RC(-EINVAL, ram_free(am, &kept[0]));
    for (int i = 0; i < CREDITS; i++)
        if (i != 2) {
            AM_OK(ram_wait(am, r[i], &reply, 0));
            assert_int_equal(reply.nargs + reply.bytes, 0);
            AM_OK(ram_free(am, &reply));
            AM_RC(-EINVAL, ram_free(am, &reply));
        }
    assert_int_equal(count("kept"), 0);
}

/* A reply may name a handler of the requester's, with or without a waiting call. */
static void test_reply_handlers(void **state)
{
    uint64_t handler = GOT;
    ram_message_t reply;
    ram_request_t r;
    char payload[77] = "seventy-seven";

    (void)state;
    AM_OK(ram_request(am, 0, COPY, &handler, 1, payload, 20, &r, 0));
    AM_OK(ram_wait(am, r, &reply, 0));
    assert_int_equal(got, 1);
    assert_int_equal(reply.bytes + reply.nargs, 0);
    AM_OK(ram_request(am, 0, COPY, &handler, 1, payload, 20, NULL, 0));
    AM_OK(ram_flush(am));
    assert_int_equal(got, 2);
    for (int waited = 0; waited < 2; waited++) {
        keeps = 0;
        AM_OK(
            ram_request(am, 0, COPY, &handler, 1, payload, sizeof(payload), waited ? &r : NULL, 0));
        AM_OK(waited ? ram_wait(am, r, NULL, 0) : ram_flush(am));
        assert_int_equal(keeps, 1);
        assert_ptr_equal(kept[0].data, kept_reply_data);
        for (int i = 0; i < CREDITS - 1; i++)
            AM_OK(ram_request(am, 0, SILENT, NULL, 0, NULL, 0, NULL, R_NOWAIT));
        AM_RC(R_PENDING, ram_request(am, 0, SILENT, NULL, 0, NULL, 0, NULL, R_NOWAIT));
        AM_OK(ram_flush(am));
        assert_string_equal(kept[0].data, "seventy-seven");
        AM_OK(ram_free(am, &kept[0]));
        for (int i = 0; i < CREDITS; i++)
            AM_OK(ram_request(am, 0, SILENT, NULL, 0, NULL, 0, NULL, R_NOWAIT));
        AM_OK(ram_flush(am));
    }
    assert_int_equal(count("outstanding"), 0);
}

static void test_link_ends_in_a_reply_handler(void **state)
{
    uint64_t handler = ENDS;
    ram_request_t r;
    int status = -1;

    (void)state;
    AM_OK(ram_request(am, 0, COPY, &handler, 1, "still here", 11, &r, 0));
    AM_OK(ram_wait(am, r, NULL, 0)); /* also in the child: it has been answered */
    assert_int_equal(count("outstanding"), 0);
    if (child == 0)
        _exit(count("links_out") == 0 && count("failed") == 1 ? 0 : 1);
    assert_true(waitpid(child, &status, 0) == child && status == 0);
    assert_int_equal(count("failed"), 0);
}

/* Buffers that are kept and not sent stand in the way of a request: that one fails, and the link goes on. */
static void test_own_buffers_in_the_way(void **state)
{
    static char payload[20000];
    ram_request_t r, waits;
    ram_message_t reply;
    ram_message_t b[3];

    (void)state;
    AM_OK(ram_request(am, 0, KEEP, NULL, 0, NULL, 0, &waits, 0));
    AM_OK(ram_request_alloc(am, 0, 30000, &b[0], 0));
    AM_OK(ram_request_alloc(am, 0, 20000, &b[1], 0));
    AM_RC(-ENOBUFS, ram_request(am, 0, COPY, NULL, 0, payload, sizeof(payload), &r, 0));
    assert_non_null(strstr(rerror(NULL), "buffers"));
    AM_RC(-ENOBUFS, ram_request(am, 0, COPY, NULL, 0, payload, sizeof(payload), &r, R_NOWAIT));
    AM_RC(-ENOBUFS, ram_request_alloc(am, 0, sizeof(payload), &b[2], 0));
    assert_int_equal(count("failed"), 0);
    AM_OK(ram_request(am, 0, SUM, NULL, 0, NULL, 0, &r, 0));
    AM_OK(ram_wait(am, r, NULL, 0));
    AM_OK(ram_free(am, &b[1]));
    AM_OK(ram_request(am, 0, SILENT, NULL, 0, payload, sizeof(payload), NULL, 0));
    memset(b[0].data, 0x5a, 500);
    b[0].handler = COPY;
    b[0].bytes = 500;
    AM_OK(ram_send(am, &b[0], &r, 0));
    AM_OK(ram_wait(am, r, &reply, 0));
    assert_int_equal(((unsigned char *)reply.data)[499], 0x5a);
    AM_OK(ram_free(am, &reply));
    assert_int_equal(keeps, 1);
    AM_OK(ram_free(am, &kept[0]));
    AM_OK(ram_wait(am, waits, NULL, 0));
    AM_OK(ram_flush(am));
    assert_int_equal(count("opened"), 1);
}

static void test_in_a_handler(void **state)
{
    uint64_t arg = 0;
    ram_message_t reply;
    ram_request_t r;

    (void)state;
    AM_OK(ram_request(am, 0, WRONG, &arg, 1, NULL, 0, &r, 0));
    AM_OK(ram_wait(am, r, &reply, 0));
    assert_int_equal(reply.bytes, REPLY_BYTES);
    AM_OK(ram_free(am, &reply));
    AM_OK(ram_flush(am));
    assert_int_equal(silent, 1);
}

/* Many without a wait: the credits come back by themselves. */
static void test_one_way(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        AM_OK(ram_request(am, 0, SILENT, NULL, 0, "x", i % 60 == 0 ? 0 : 1, NULL, 0));
    AM_OK(ram_flush(am));
    assert_int_equal(silent, 1000);
    AM_OK(ram_barrier(am));
    AM_OK(ram_barrier(am));
}

static void test_refused(void **state)
{
    uint64_t args[9] = {0};
    ram_message_t reply;
    ram_request_t r;
    uint64_t value = 4711;

    (void)state;
    AM_RC(-ENOENT, ram_request(am, 1, SUM, NULL, 0, NULL, 0, &r, 0));
    AM_RC(-ENOENT, ram_request(am, -1, SUM, NULL, 0, NULL, 0, &r, 0));
    AM_RC(-EINVAL, ram_request(am, 0, SUM, NULL, 0, NULL, 0, &r, 2));
    AM_RC(-EINVAL, ram_wait(am, 1, &reply, 2));
    AM_RC(-EINVAL, ram_request(am, 0, HANDLERS, NULL, 0, NULL, 0, &r, 0));
    AM_RC(-EINVAL, ram_request(am, 0, RAM_RESULT, NULL, 0, NULL, 0, &r, 0));
    AM_RC(-EINVAL, ram_request(am, 0, SUM, args, 9, NULL, 0, &r, 0));
    AM_RC(-EINVAL, ram_request(am, 0, SUM, NULL, 1, NULL, 0, &r, 0));
    AM_RC(-EINVAL, ram_request(am, 0, SUM, NULL, 0, NULL, 1, &r, 0));
    AM_RC(-EMSGSIZE, ram_request(am, 0, SUM, NULL, 0, args, REQUEST_BYTES + 1, &r, 0));
    AM_RC(-EMSGSIZE, ram_request(am, 0, SUM, NULL, 0, args, SIZE_MAX, &r, 0));
    AM_RC(-EINVAL, ram_request(NULL, 0, SUM, NULL, 0, NULL, 0, &r, 0));
    AM_RC(-EINVAL, ram_wait(am, 0, &reply, 0));
    AM_RC(-EINVAL, ram_wait(am, UINT64_MAX, &reply, 0));
    AM_RC(-EINVAL, ram_wait(am, 1, &reply, R_NOWAIT));
    AM_RC(-EINVAL, ram_wait(NULL, 1, &reply, R_NOWAIT));
    AM_RC(-EINVAL, ram_serve(am, 0, 0));
    AM_RC(-EINVAL, ram_serve(NULL, 1, 0));
    AM_RC(-EINVAL, ram_serve(am, 1, -2));
    AM_RC(0, ram_serve(am, 1, 1));
    AM_RC(0, ram_serve(am, 1, 0));
    AM_RC(-EINVAL, ram_count(am, "requests", NULL));
    AM_RC(-EINVAL, ram_count(am, NULL, &value));
    AM_RC(-EINVAL, ram_count(NULL, "requests", &value));
    AM_RC(-ENOENT, ram_count(am, "request", &value));
    assert_int_equal(value, 4711);
    AM_RC(-EINVAL, ram_reply(am, NULL, RAM_RESULT, NULL, 0, NULL, 0));
    AM_RC(-EINVAL, ram_exit(NULL));
    assert_int_equal(count("opened"), 0); /* nothing of all that has opened a link */
}

/* A reply that was allocated and is freed instead of sent: the request is answered without contents. */
static void test_reply_freed(void **state)
{
    ram_message_t reply, b;
    ram_request_t r;

    (void)state;
    AM_OK(ram_request(am, 0, KEEP, NULL, 0, NULL, 0, &r, 0));
    AM_OK(ram_request(am, 0, KEEP, NULL, 0, NULL, 0, NULL, 0));
    while (keeps < 2)
        assert_true(ram_serve(am, 1, R_FOREVER) == 1);
    for (int i = 0; i < 2; i++) {
        AM_OK(ram_reply_alloc(am, &kept[i], 100, &b));
        AM_OK(ram_free(am, &kept[i])); /* the reply that was allocated is the answer */
        if (i == 0)
            AM_RC(R_PENDING, ram_wait(am, r, &reply, R_NOWAIT));
        AM_OK(ram_free(am, &b));
        if (i == 0) {
            AM_OK(ram_wait(am, r, &reply, 0));
            assert_int_equal(reply.nargs + reply.bytes, 0);
            AM_OK(ram_free(am, &reply));
        }
    }
    AM_OK(ram_flush(am));
    assert_int_equal(count("kept") + count("outstanding"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_arguments, open_context, close_context),
        cmocka_unit_test_setup_teardown(test_payloads, open_context, close_context),
        cmocka_unit_test_setup_teardown(test_own_memory, open_context, close_context),
        cmocka_unit_test_setup_teardown(test_kept, open_context, close_context),
        cmocka_unit_test_setup_teardown(test_reply_handlers, open_context, close_context),
        cmocka_unit_test_setup_teardown(test_link_ends_in_a_reply_handler, open_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(test_own_buffers_in_the_way, open_context, close_context),
        cmocka_unit_test_setup_teardown(test_in_a_handler, open_context, close_context),
        cmocka_unit_test_setup_teardown(test_one_way, open_context, close_context),
        cmocka_unit_test_setup_teardown(test_refused, open_context, close_context),
        cmocka_unit_test_setup_teardown(test_reply_freed, open_context, close_context),
    };
    ram_config_t cfg = am_config(handlers, HANDLERS, CREDITS, REQUEST_BYTES, REPLY_BYTES);
    int rc;

    pair_process = getpid();
    check_end = pair_check_end;
    if (ram_init(&am, &cfg) != -ENOTCONN || rinit(NULL, NULL) != R_SUCCESS)
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    return rexit() == R_SUCCESS ? rc : 1;
}
