/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts of active messages to oneself: configurations, numbers of contexts, counters, links that
 * are idle, and a context that ends with requests outstanding. test_am.c has the messages.
 */
#include "test/lib/am.h"
#include "test/lib/pair.h"

#include <rpipe.h>

enum { CREDITS = 4, REQUEST_BYTES = 1 << 16, REPLY_BYTES = 1000 };
enum handler { SUM, KEEP, SILENT, HANDLERS };

static ram_t am;
static ram_message_t kept;
static int keeps;

static void on_keep(ram_t a, ram_message_t *m, void *arg)
{
    (void)arg;
    AM_OK(ram_keep(a, m, &kept));
    keeps++;
}

static void on_silent(ram_t a, ram_message_t *m, void *arg) { (void)a, (void)m, (void)arg; }

static uint64_t hundred = 100;
static const ram_handler_t handlers[HANDLERS] = {
    {"sum", am_on_sum, &hundred}, {"keep", on_keep, NULL}, {"silent", on_silent, NULL}};

static ram_config_t configuration(void)
{
    return am_config(handlers, HANDLERS, CREDITS, REQUEST_BYTES, REPLY_BYTES);
}

static uint64_t count(const char *name) { return am_count(am, name); }

static void refuse(ram_config_t cfg, const char *words)
{
    ram_t none = NULL;

    AM_RC(-EINVAL, ram_init(&none, &cfg));
    assert_null(none);
    assert_non_null(strstr(rerror(NULL), words));
}

static void test_configuration(void **state)
{
    ram_handler_t bad[1] = {{"bad", NULL, NULL}};
    ram_config_t cfg;

    (void)state;
#define REFUSE(field, value, words)                                                                \
    cfg = configuration();                                                                         \
    cfg.field = (value);                                                                           \
    refuse(cfg, words)
    REFUSE(context, UINT64_C(1) << 61, "context is 0x2000000000000000");
    REFUSE(context, rcontext("test_am") | UINT64_C(1) << 62, "rcontext");
    REFUSE(credits, 251, "credits");
    REFUSE(request_bytes, 16383, "request_bytes");
    REFUSE(reply_bytes, 255, "reply_bytes");
    REFUSE(reply_bytes, (1 << 20) + 1, "reply_bytes");
    REFUSE(nhandlers, 256, "nhandlers");
    REFUSE(handlers, NULL, "handlers");
    REFUSE(timeout_ms, -3, "timeout_ms");
    REFUSE(idle_ms, -2, "idle_ms");
    cfg = configuration();
    cfg.handlers = bad;
    cfg.nhandlers = 1;
    refuse(cfg, "handler 0");
    bad[0] = (ram_handler_t){"a name that has more than 31 bytes", on_silent, NULL};
    refuse(cfg, "31 bytes");
    AM_RC(-EINVAL, (ram_init)(&am, &cfg, 0));
    AM_RC(-EINVAL, (ram_init)(&am, &cfg, sizeof(cfg) - 8));
    AM_RC(-EINVAL, ram_init(NULL, &cfg));
    AM_RC(-EINVAL, ram_init(&am, NULL));
}

/* A structure of a later version is refused only if it asks for what this one does not have. */
static void test_larger_configuration(void **state)
{
    struct {
        ram_config_t known;
        uint64_t later;
    } cfg = {configuration(), 1};
    ram_t other = NULL;

    (void)state;
    AM_RC(-E2BIG, (ram_init)(&other, &cfg.known, sizeof(cfg)));
    assert_null(other);
    cfg.later = 0;
    AM_OK((ram_init)(&other, &cfg.known, sizeof(cfg)));
    AM_OK(ram_exit(other));
}

static void check_answered(ram_t context, uint64_t n)
{
    ram_message_t reply;
    ram_request_t r;
    uint64_t handled;

    AM_OK(ram_request(context, 0, SUM, &n, 1, NULL, 0, &r, 0));
    AM_OK(ram_wait(context, r, &reply, 0));
    assert_int_equal(reply.args[0], hundred + n);
    AM_OK(ram_free(context, &reply));
    AM_OK(ram_count(context, "handled", &handled));
    assert_int_equal(handled, 1);
}

/* A pipe of the program to this process. */
static void check_pipe(uint64_t context)
{
    rpipe_config_t pipe = {.role = RPIPE_WRITER, .context = context};
    uint64_t sent = context, received = 0;
    rch_t out, in;

    CHECK_OK(NULL, rpipe(&out, &pipe));
    pipe.role = RPIPE_READER;
    CHECK_OK(NULL, rpipe(&in, &pipe));
    CHECK_OK(out, rsend(out, &sent, sizeof(sent), 0));
    CHECK_OK(in, rrecv(in, &received, sizeof(received), NULL, 0));
    assert_true(received == sent);
    CHECK_OK(out, rclose(out));
    CHECK_OK(in, rclose(in));
}

/* Contexts have the numbers of pipes: by name, or below 2^61; they do not meet each other, nor pipes of the same number. */
static void test_contexts(void **state)
{
    const uint64_t number[] = {rcontext("test_am: left"),
                               rcontext("test_am: right"),
                               rcontext("test_am: right") + 1,
                               rcontext("test_am: left") + 0xfffff,
                               UINT64_C(4096),
                               (UINT64_C(1) << 61) - 1};
    enum { N = sizeof(number) / sizeof(number[0]) };
    ram_config_t cfg = configuration();
    ram_t context[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        cfg.context = number[i];
        AM_OK(ram_init(&context[i], &cfg));
    }
    for (int i = 0; i < N; i++) {
        check_answered(context[i], (uint64_t)i);
        check_pipe(number[i]);
    }
    for (int i = 0; i < N; i++)
        AM_OK(ram_exit(context[i]));
}

/* Every counter of the table has a value, and there are no others. */
static void test_counters(void **state)
{
    ram_config_t cfg = configuration();
    const rinfo_counter_t *c;
    uint64_t value;
    int n = 0;

    (void)state;
    AM_OK(ram_init(&am, &cfg));
    for (int i = 0; (c = rinfo_counter(i)) != NULL; i++) {
        if (strcmp(c->scope, "ram") != 0)
            continue;
        AM_OK(ram_count(am, c->name, &value));
        assert_int_equal(value, 0);
        n++;
    }
    assert_int_equal(n, 16);
    AM_OK(ram_exit(am));
}

/* Links that are idle are closed, and opened again. */
static void test_retire(void **state)
{
    ram_config_t cfg = configuration();
    ram_request_t r;

    (void)state;
    cfg.context = 9;
    cfg.idle_ms = 1;
    AM_OK(ram_init(&am, &cfg));
    for (uint64_t life = 1; life <= 3; life++) {
        AM_OK(ram_request(am, 0, SUM, &life, 1, NULL, 0, &r, 0));
        AM_OK(ram_wait(am, r, NULL, 0));
        while (count("links_out") > 0 || count("links_in") > 0)
            AM_RC(0, ram_serve(am, 1, 1));
        assert_int_equal(count("retired"), life);
        assert_int_equal(count("failed"), 0);
    }
    AM_OK(ram_exit(am));
}

/* A context ends with everything outstanding, kept and unsent; another one with its number begins. */
static void test_abandoned(void **state)
{
    ram_config_t cfg = configuration(), other = configuration();
    ram_request_t r;
    ram_message_t b;

    (void)state;
    cfg.context = 10;
    for (int life = 0; life < 3; life++) {
        AM_OK(ram_init(&am, &other));
        AM_OK(ram_exit(am));
        keeps = 0;
        AM_OK(ram_init(&am, &cfg));
        AM_OK(ram_request(am, 0, KEEP, NULL, 0, "kept", 5, &r, 0));
        while (keeps == 0)
            assert_true(ram_serve(am, 1, R_FOREVER) >= 0);
        AM_OK(ram_request_alloc(am, 0, 3000, &b, 0));
        AM_OK(ram_request(am, 0, SILENT, NULL, 0, NULL, 0, NULL, 0));
        AM_OK(ram_exit(am));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configuration), cmocka_unit_test(test_larger_configuration),
        cmocka_unit_test(test_contexts),      cmocka_unit_test(test_counters),
        cmocka_unit_test(test_retire),        cmocka_unit_test(test_abandoned),
    };
    int rc;

    pair_process = getpid();
    check_end = pair_check_end;
    if (rinit(NULL, NULL) != R_SUCCESS)
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    return rexit() == R_SUCCESS ? rc : 1;
}
