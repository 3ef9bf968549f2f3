/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_errors.c: the message of a failed call is where the manual (rerror) has it: rerror(ch) after a failure on ch, open or closed,
 * and rerror(NULL) after any failure of this thread, with the name of the call that failed; of pipes, cells, groups, regions, active
 * messages and the allocator, after closing, and in a forked child. Written from the manual alone.
 */
#include "test/lib/pair.h"

#include <pthread.h>
#include <ram.h>
#include <rvmem.h>

/* A failure of another call before, so that a message that was left from then is found. */
static void fails_before(void)
{
    assert_int_equal(network_send(-7, "", 1), network_rank() < 0 ? -ENOTCONN : -ENOENT);
    assert_non_null(strstr(rerror(NULL), "network_send"));
}

static int failures;

static void check_named(int line, const char *call, const char *of, const char *text,
                        const char *word)
{
    const char *at = strstr(text, call);

    if (at != NULL && at[strlen(call)] == ':' && strstr(text, word) != NULL)
        return;
    print_error("line %d: %s of %s: \"%s\" without \"%s:\" or \"%s\"\n", line, of, call, text, call,
                word);
    failures++;
}

/* The call fails; the message of the thread, and that of `ch` unless it is NULL, has its name and this word. */
#define FAILS_WITH(call, ch, expression, word)                                                     \
    do {                                                                                           \
        int rc_;                                                                                   \
        fails_before();                                                                            \
        errno = 0;                                                                                 \
        rc_ = (expression);                                                                        \
        if (rc_ >= 0 || rc_ == R_PENDING) {                                                        \
            print_error("line %d: " call " returned %d\n", __LINE__, rc_);                         \
            failures++;                                                                            \
        }                                                                                          \
        check_named(__LINE__, call, "rerror(NULL)", rerror(NULL), word);                           \
        if ((ch) != NULL)                                                                          \
            check_named(__LINE__, call, "rerror(ch)", rerror(ch), word);                           \
    } while (0)
#define FAILS(call, ch, expression) FAILS_WITH(call, ch, expression, "")

static void check_failures_of(void)
{
    int n = failures;

    failures = 0;
    assert_int_equal(n, 0);
}

/* Every call on both ends of a pipe. */
static void every_call_of_a_pipe(rch_t w, rch_t r, const char *word)
{
    char buf[64] = "";
    raddr_t d = ADDR_NULL;
    size_t size;
    int ready;

    FAILS_WITH("rwait", w, rwait(w), word);
    FAILS_WITH("rwait", r, rwait(r), word);
    FAILS_WITH("rset_timeout", w, rset_timeout(w, 1), word);
    FAILS_WITH("rmalloc", w, rmalloc(w, 8) == ADDR_NULL ? -errno : 0, word);
    FAILS_WITH("rmalloc", w, rmalloc(w, 1000) == ADDR_NULL ? -errno : 0, word);
    FAILS_WITH("rmalloc_nb", w, rmalloc_nb(w, 8, &d), word);
    FAILS_WITH("rwrite", w, rwrite(w, d), word);
    FAILS_WITH("rwrite_n", w, rwrite_n(w, d, 1), word);
    FAILS_WITH("rwrite_nb", w, rwrite_nb(w, d), word);
    FAILS_WITH("rshrink", w, rshrink(w, d, 1), word);
    FAILS_WITH("rset_tag", w, rset_tag(w, d, 1), word);
    FAILS_WITH("rtag", r, rtag(r, d) == 0 ? -errno : 0, word);
    FAILS_WITH("rmem", r, rmem(r, d) == NULL ? -errno : 0, word);
    FAILS_WITH("rsize", r, rsize(r, d) == 0 ? -errno : 0, word);
    FAILS_WITH("rsend", w, rsend(w, buf, 8, 0), word);
    FAILS_WITH("rsend", w, rsend(w, buf, sizeof(buf), R_NOWAIT), word);
    FAILS_WITH("rroom", w, rroom(w, 8), word);
    FAILS_WITH("rflush", w, rflush(w), word);
    FAILS_WITH("rdone", w, rdone(w, NULL, 0), word);
    FAILS_WITH("rread", r, rread(r, &d, &size), word);
    FAILS_WITH("rread_nb", r, rread_nb(r, &d, &size), word);
    FAILS_WITH("rrecv", r, rrecv(r, buf, sizeof(buf), &size, 0), word);
    FAILS_WITH("rrecv", r, rrecv(r, buf, sizeof(buf), &size, R_NOWAIT), word);
    FAILS_WITH("rfree", r, rfree(r, d), word);
    FAILS_WITH("rfree", w, rfree(w, d), word);
    FAILS_WITH("rfd", r, rfd(r), word);
    FAILS_WITH("rpoll", r, rpoll(&r, 1, &ready, 0), word);
    FAILS_WITH("rclose", w, rclose(w), word);
    FAILS_WITH("rclose", r, rclose(r), word);
}

static void test_closed_pipe(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, RPIPE_PUT, 4096);
    pair_close(&p);
    every_call_of_a_pipe(p.w, p.r, "closed");
    check_failures_of();
}

/* The message of a failure before rclose is still there afterwards. */
static void test_message_after_close(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, RPIPE_PUT, 4096);
    assert_int_equal(rread(p.w, &(raddr_t){NULL}, NULL), -EBADF);
    assert_int_equal(rwrite(p.r, ADDR_NULL), -EBADF);
    pair_close(&p);
    fails_before();
    check_named(__LINE__, "rread", "rerror(w)", rerror(p.w), "writer");
    check_named(__LINE__, "rwrite", "rerror(r)", rerror(p.r), "reader");
    check_failures_of();
}

/* Two closed pipes: each has its own message. */
static void test_two_closed_pipes(void **state)
{
    struct pair p, q;

    (void)state;
    pair_open(&p, RPIPE_PUT, 4096);
    pair_open(&q, RPIPE_GET, 4096);
    pair_close(&p);
    pair_close(&q);
    assert_int_equal(rflush(p.w), -ENOTCONN);
    assert_int_equal(rwait(q.w), -ENOTCONN);
    check_named(__LINE__, "rflush", "rerror(p.w)", rerror(p.w), "closed");
    check_named(__LINE__, "rwait", "rerror(q.w)", rerror(q.w), "closed");
    check_failures_of();
}

/* A message stays as it was returned, whatever fails on the pipe afterwards, and when its memory is that of another one. */
static void test_a_message_stays(void **state)
{
    const char *first, *second;
    char before[600];
    struct pair p, q;

    (void)state;
    pair_open(&p, RPIPE_PUT, 4096);
    assert_int_equal(rset_timeout(p.w, -77), -EINVAL);
    first = rerror(p.w);
    snprintf(before, sizeof(before), "%s", first);
    assert_int_equal(rfree(p.w, ADDR_NULL), -EINVAL);
    second = rerror(p.w);
    assert_string_equal(first, before);
    assert_string_not_equal(first, second);
    pair_close(&p);
    for (int i = 0; i < 100; i++) {
        pair_open(&q, RPIPE_PUT, 4096);
        assert_int_equal(rfree(q.w, ADDR_NULL), -EINVAL);
        pair_close(&q);
    }
    assert_string_equal(first, before);
}

struct failing {
    rch_t ch;
    _Atomic bool stop;
};

static void *fails_in_turn(void *argument)
{
    struct failing *f = argument;

    for (int i = 0; !atomic_load(&f->stop); i++)
        (void)(i % 2 == 0 ? rset_timeout(f->ch, -77) : rfree(f->ch, ADDR_NULL));
    return NULL;
}

/* Any thread may ask, also of an end without RPIPE_THREADS, while another one is in its calls: it gets one of the messages. */
static void test_a_message_is_whole(void **state)
{
    char text[2][600];
    struct failing f = {.stop = false};
    struct pair p;
    pthread_t thread;
    int torn = 0;

    (void)state;
    pair_open(&p, RPIPE_PUT, 4096);
    f.ch = p.w;
    assert_int_equal(rset_timeout(p.w, -77), -EINVAL);
    snprintf(text[0], sizeof(text[0]), "%s", rerror(p.w));
    assert_int_equal(rfree(p.w, ADDR_NULL), -EINVAL);
    snprintf(text[1], sizeof(text[1]), "%s", rerror(p.w));
    assert_int_equal(pthread_create(&thread, NULL, fails_in_turn, &f), 0);
    for (int i = 0; i < 200000; i++) {
        char now[600];

        snprintf(now, sizeof(now), "%s", rerror(p.w));
        torn += strcmp(now, text[0]) != 0 && strcmp(now, text[1]) != 0;
    }
    atomic_store(&f.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(torn, 0);
    pair_close(&p);
}

static void test_open_pipe(void **state)
{
    raddr_t d = ADDR_NULL;
    struct pair p;
    char buf[8];
    int ready;

    (void)state;
    pair_open(&p, RPIPE_PUT, 4096);
    CHECK_OK(p.r, rset_timeout(p.r, 1));
    CHECK_OK(p.w, rset_timeout(p.w, 1));
    FAILS_WITH("rread", p.r, rread(p.r, &d, NULL), "within 1 ms");
    FAILS_WITH("rrecv", p.r, rrecv(p.r, buf, sizeof(buf), NULL, 0), "within 1 ms");
    FAILS("rpoll", (rch_t)NULL, rpoll(&p.r, 1, &ready, 1));
    FAILS_WITH("rmalloc", p.w, rmalloc(p.w, 5000) == ADDR_NULL ? -errno : 0, "5000");
    FAILS_WITH("rmalloc_nb", p.w, rmalloc_nb(p.w, 5000, &d), "4096");
    FAILS("rmalloc_nb", p.w, rmalloc_nb(p.w, 8, NULL));
    FAILS_WITH("rsend", p.w, rsend(p.w, buf, 5000, 0), "5000");
    FAILS("rwrite", p.w, rwrite(p.w, ADDR_NULL));
    FAILS("rwrite", p.r, rwrite(p.r, ADDR_NULL));
    FAILS("rfree", p.r, rfree(p.r, ADDR_NULL));
    FAILS("rread", p.r, rread(p.r, NULL, NULL));
    FAILS("rread_nb", p.w, rread_nb(p.w, &d, NULL));
    FAILS_WITH("rset_timeout", p.r, rset_timeout(p.r, -5), "-5");
    FAILS_WITH("rsend", p.w, rsend(p.w, buf, 1, 99), "0x63");
    pair_close(&p);
    check_failures_of();
}

/* ---- groups ---- */

static rgroup_t open_group(rpipe_role_t role, uint64_t context)
{
    rpipe_config_t cfg = {.role = role, .context = context, .timeout_ms = 1};
    rgroup_t group = NULL;

    CHECK_OK(NULL, rgroup_open(&group, &cfg, (const int[]){0}, 1));
    return group;
}

static void every_call_of_groups(rgroup_t w, rgroup_t r, const char *word)
{
    raddr_t d;
    int member;

    FAILS_WITH("rgroup_wait", (rch_t)NULL, rgroup_wait(w), word);
    FAILS_WITH("rgroup_alloc", (rch_t)NULL, rgroup_alloc(w, RGROUP_NEXT, 1000, &member, &d, 0),
               word);
    FAILS_WITH("rgroup_alloc", (rch_t)NULL, rgroup_alloc(w, RGROUP_ANY, 1000, &member, &d, 0),
               word);
    FAILS_WITH("rgroup_alloc", (rch_t)NULL, rgroup_alloc(w, 0, 1000, NULL, &d, 0), word);
    FAILS_WITH("rgroup_read", (rch_t)NULL, rgroup_read(r, &member, &d, NULL, 0), word);
}

static void test_groups(void **state)
{
    const uint64_t context = 900;
    rgroup_t w = open_group(RPIPE_WRITER, context), r = open_group(RPIPE_READER, context + 1);
    raddr_t d;
    int member;

    (void)state;
    every_call_of_groups(w, r, "1 ms");
    FAILS("rgroup_read", (rch_t)NULL, rgroup_read(w, &member, &d, NULL, 0));
    FAILS_WITH("rgroup_alloc", (rch_t)NULL, rgroup_alloc(w, 5, 8, NULL, &d, 0), "5");
    FAILS_WITH("rgroup_pipe", (rch_t)NULL, rgroup_pipe(w, 5) == NULL ? -errno : 0, "5");
    CHECK_OK(NULL, rgroup_close(w));
    CHECK_OK(NULL, rgroup_close(r));
    every_call_of_groups(w, r, "closed");
    FAILS_WITH("rgroup_count", (rch_t)NULL, rgroup_count(w), "closed");
    FAILS_WITH("rgroup_lost", (rch_t)NULL, rgroup_lost(w), "closed");
    FAILS_WITH("rgroup_set_timeout", (rch_t)NULL, rgroup_set_timeout(w, 1), "closed");
    FAILS_WITH("rgroup_close", (rch_t)NULL, rgroup_close(w), "closed");
    check_failures_of();
}

/* ---- cells, regions, the allocator ---- */

static void open_cells(rcells_t *owner, rcells_t *user)
{
    rcells_config_t cfg = {.role = RCELLS_OWNER, .cells = 8, .context = 77};

    CHECK_OK(NULL, rcells_open(owner, &cfg));
    cfg.role = RCELLS_USER;
    CHECK_OK(NULL, rcells_open(user, &cfg));
}

static void every_call_of_cells(rcells_t cells, const char *word)
{
    uint64_t old;

    FAILS_WITH("rcells_atomic", (rch_t)NULL, rcells_atomic(cells, RCELLS_ADD, 0, 1, 0, &old), word);
    FAILS_WITH("rcells_flush", (rch_t)NULL, rcells_flush(cells), word);
    FAILS_WITH("rcells_close", (rch_t)NULL, rcells_close(cells), word);
}

static void test_cells(void **state)
{
    rcells_t owner, user;
    uint64_t old;

    (void)state;
    open_cells(&owner, &user);
    FAILS_WITH("rcells_atomic", rcells_pipe(user), rcells_atomic(user, RCELLS_ADD, 99, 1, 0, &old),
               "99");
    FAILS("rread", rcells_pipe(user), rread(rcells_pipe(user), &(raddr_t){NULL}, NULL));
    CHECK_OK(rcells_pipe(user), rcells_close(user));
    CHECK_OK(rcells_pipe(owner), rcells_close(owner));
    every_call_of_cells(user, "closed");
    check_failures_of();
}

static void test_regions_and_allocator(void **state)
{
    static char range[4096] __attribute__((aligned(64)));
    rvmem_config_t cfg = {.buffer = range, .bytes = sizeof(range)};
    rregion_t region;
    struct pair p;
    rvmem_t vmem;

    (void)state;
    pair_open(&p, RPIPE_PUT, 4096);
    FAILS("rregion_open", (rch_t)NULL, rregion_open(&region, NULL, NULL, 0));
    CHECK_OK(p.w, rregion_open(&region, p.w, range, sizeof(range)));
    FAILS_WITH("rwrite_from", p.w, rwrite_from(p.w, region, 4000, 200, 0, NULL, 0), "4000");
    pair_close(&p);
    FAILS_WITH("rwrite_from", p.w, rwrite_from(p.w, region, 0, 8, 0, NULL, 0), "closed");
    FAILS_WITH("rread_into", p.r, rread_into(p.r, region, 0, 8, NULL, NULL, 0), "closed");
    CHECK_OK(NULL, rregion_close(region));
    CHECK_OK(NULL, rvmem_create(&vmem, &cfg));
    FAILS_WITH("rvmem_alloc", (rch_t)NULL, rvmem_alloc(vmem, 5000) == ADDR_NULL ? -errno : 0,
               "5000");
    CHECK_OK(NULL, rvmem_destroy(vmem));
    check_failures_of();
}

/* ---- active messages ---- */

static void handle(ram_t am, ram_message_t *message, void *argument)
{
    (void)am, (void)message, (void)argument;
}

static void open_am(ram_t *am, uint64_t context)
{
    static const ram_handler_t handlers[] = {{.name = "handle", .run = handle}};
    ram_config_t cfg = {.context = context, .handlers = handlers, .nhandlers = 1, .timeout_ms = 1};

    CHECK_OK(NULL, ram_init(am, &cfg));
}

static void test_active_messages(void **state)
{
    ram_message_t message;
    ram_t am;

    (void)state;
    open_am(&am, 4000);
    FAILS_WITH("ram_request", (rch_t)NULL, ram_request(am, 99, 0, NULL, 0, NULL, 0, NULL, 0), "99");
    FAILS_WITH("ram_request", (rch_t)NULL, ram_request(am, 0, 7, NULL, 0, NULL, 0, NULL, 0), "7");
    FAILS("ram_request", (rch_t)NULL, ram_request(NULL, 0, 0, NULL, 0, NULL, 0, NULL, 0));
    FAILS_WITH("ram_request_alloc", (rch_t)NULL, ram_request_alloc(am, 99, 8, &message, 0), "99");
    FAILS("ram_wait", (rch_t)NULL, ram_wait(NULL, (ram_request_t){0}, NULL, 0));
    FAILS("ram_flush", (rch_t)NULL, ram_flush(NULL));
    FAILS("ram_serve", (rch_t)NULL, ram_serve(NULL, 1, 0));
    FAILS("ram_barrier", (rch_t)NULL, ram_barrier(NULL));
    FAILS_WITH("ram_count", (rch_t)NULL, ram_count(am, "no such counter", &(uint64_t){0}),
               "no such counter");
    FAILS("ram_free", (rch_t)NULL, ram_free(am, NULL));
    FAILS("ram_exit", (rch_t)NULL, ram_exit(NULL));
    (void)ram_exit(am);
    check_failures_of();
}

/* ---- in a forked child ---- */

struct opened {
    struct pair p;
    rgroup_t w, r;
    rcells_t owner, user;
    rregion_t region;
    ram_t am;
};

static void calls_without_an_object(const char *word)
{
    rpipe_config_t cfg = {.role = RPIPE_WRITER, .context = 5};
    rcells_config_t cells_cfg = {.role = RCELLS_USER, .context = 5};
    rneighbor_t neighbor = {.peer = 0};
    ram_config_t am_cfg = {.context = 1};
    uint64_t seen = 0, word_of = 0;
    rpipe_config_t list[1];
    rgroup_t group;
    rcells_t cells;
    rch_t ch;
    ram_t am;

    FAILS_WITH("rpipe", (rch_t)NULL, rpipe(&ch, &cfg), word);
    FAILS_WITH("rgroup_open", (rch_t)NULL, rgroup_open(&group, &cfg, NULL, 1), word);
    FAILS_WITH("rcells_open", (rch_t)NULL, rcells_open(&cells, &cells_cfg), word);
    FAILS_WITH("rneighbors", (rch_t)NULL, rneighbors(&neighbor, 1, &cfg), word);
    FAILS_WITH("rpending", (rch_t)NULL, rpending(5, &seen, list, 1), word);
    FAILS_WITH("ram_init", (rch_t)NULL, ram_init(&am, &am_cfg), word);
    FAILS_WITH("network_send", (rch_t)NULL, network_send(0, &word_of, 8), word);
    FAILS_WITH("network_recv", (rch_t)NULL, network_recv(0, &word_of, 8), word);
    FAILS_WITH("network_barrier", (rch_t)NULL, network_barrier(), word);
    FAILS_WITH("network_allgather", (rch_t)NULL, network_allgather(&word_of, 8, &seen), word);
    FAILS_WITH("rexit", (rch_t)NULL, rexit(), word);
    FAILS_WITH("rinit", (rch_t)NULL, rinit(NULL, NULL), "fork");
}

static void calls_of_the_child(struct opened *o)
{
    static const char word[] = "parent";

    every_call_of_a_pipe(o->p.w, o->p.r, word);
    FAILS_WITH("rwrite_from", o->p.w, rwrite_from(o->p.w, o->region, 0, 8, 0, NULL, 0), word);
    FAILS_WITH("rread_into", o->p.r, rread_into(o->p.r, o->region, 0, 8, NULL, NULL, 0), word);
    every_call_of_groups(o->w, o->r, word);
    FAILS_WITH("rgroup_close", (rch_t)NULL, rgroup_close(o->w), word);
    every_call_of_cells(o->user, word);
    every_call_of_cells(o->owner, word);
    FAILS_WITH("ram_request", (rch_t)NULL, ram_request(o->am, 0, 0, NULL, 0, NULL, 0, NULL, 0),
               word);
    FAILS_WITH("ram_serve", (rch_t)NULL, ram_serve(o->am, 1, 0), word);
    FAILS_WITH("ram_barrier", (rch_t)NULL, ram_barrier(o->am), word);
    calls_without_an_object(word);
}

static void test_forked_child(void **state)
{
    static char range[4096];
    struct opened o;
    int status;
    pid_t pid;

    (void)state;
    pair_open(&o.p, RPIPE_PUT, 4096);
    o.w = open_group(RPIPE_WRITER, 950);
    o.r = open_group(RPIPE_READER, 951);
    open_cells(&o.owner, &o.user);
    CHECK_OK(o.p.w, rregion_open(&o.region, o.p.w, range, sizeof(range)));
    open_am(&o.am, 4001);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        failures = 0;
        calls_of_the_child(&o);
        fflush(NULL);
        _exit(failures > 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pair_send(&o.p, 1000, 1); /* the parent goes on */
    pair_read_free(&o.p, 1000, 1);
    CHECK_OK(NULL, ram_exit(o.am));
    CHECK_OK(NULL, rregion_close(o.region));
    CHECK_OK(NULL, rcells_close(o.user));
    CHECK_OK(NULL, rcells_close(o.owner));
    CHECK_OK(NULL, rgroup_close(o.w));
    CHECK_OK(NULL, rgroup_close(o.r));
    pair_close(&o.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_pipe),
        cmocka_unit_test(test_closed_pipe),
        cmocka_unit_test(test_message_after_close),
        cmocka_unit_test(test_two_closed_pipes),
        cmocka_unit_test(test_a_message_stays),
        cmocka_unit_test(test_a_message_is_whole),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_regions_and_allocator),
        cmocka_unit_test(test_active_messages),
        cmocka_unit_test(test_forked_child),
    };

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
