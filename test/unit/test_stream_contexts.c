/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts of active messages, of messages by tag, and teams in streams, to oneself: what keeps a stream open, what it describes, pipes that are
 * opened late, threads that each have a stream, locks per message (counted, not timed), and the mistakes. Over shared memory, and over a network
 * with RPIPE_BTL. test/mpi/mp_contexts.c has those of several processes.
 */
#include "test/lib/contexts.h"
#include "test/lib/count_locks.h"
#include "test/lib/pair.h"

static const int self[] = {0};

static const char *network(void)
{
    const char *btl = getenv("RPIPE_BTL");

    return btl != NULL ? btl : "shm";
}

static void expect_open(rstream_t stream, const char *what)
{
    CHECK_RC(-EBUSY, NULL, rstream_close(stream));
    CHECK_ERROR(NULL, what);
}

/* ---- what keeps a stream open ---- */

static void test_held(void **state)
{
    struct contexts c = {.number = 31};
    rmsg_config_t cfg = {.context = 32};
    rmsg_t other;

    (void)state;
    contexts_open(&c, true, self, 1);
    expect_open(c.stream, "open in the stream: ram context 31, rmsg context 31 and 1 more; close");
    CHECK_OK(NULL, ram_exit(c.am));
    expect_open(c.stream, "open in the stream: rmsg context 31, rcoll context 31; close");
    cfg.stream = c.stream;
    CHECK_OK(NULL, rmsg_open(&other, &cfg));
    CHECK_OK(NULL, rmsg_close(c.msg));
    expect_open(c.stream, "open in the stream: rcoll context 31, rmsg context 32; close");
    CHECK_OK(NULL, rmsg_close(other));
    CHECK_OK(NULL, rcoll_close(c.team));
    CHECK_OK(NULL, rstream_close(c.stream));
}

/* A team that is made from another one is in its stream. */
static void test_split(void **state)
{
    rcoll_team_config_t cfg = {.context = 33};
    rteam_t team, part, living;
    rstream_t stream;

    (void)state;
    CHECK_OK(NULL, rstream_open(&stream, NULL));
    cfg.stream = stream;
    CHECK_OK(NULL, rcoll_team(&team, &cfg, self, 1));
    CHECK_OK(NULL, rcoll_split(&part, team, 0, 0));
    CHECK_OK(NULL, rcoll_shrink(&living, team));
    CHECK_OK(NULL, rcoll_close(team));
    expect_open(stream, "rcoll context");
    CHECK_OK(NULL, rcoll_close(part));
    expect_open(stream, "rcoll context");
    CHECK_OK(NULL, rcoll_close(living));
    CHECK_OK(NULL, rstream_close(stream));
}

/* The same for a library of the program. */
static void test_hold(void **state)
{
    const char *long_name =
        "a name that has more than sixty-three bytes, of which the rest is not kept";
    rstream_t stream;

    (void)state;
    CHECK_OK(NULL, rstream_open(&stream, NULL));
    CHECK_OK(NULL, rstream_hold(stream, "solver"));
    CHECK_OK(NULL, rstream_hold(stream, "solver"));
    CHECK_OK(NULL, rstream_hold(stream, long_name));
    expect_open(stream, "open in the stream: solver, solver and 1 more; close");
    CHECK_OK(NULL, rstream_release(stream, "solver"));
    CHECK_OK(NULL, rstream_release(stream, long_name));
    CHECK_RC(-ENOENT, NULL, rstream_release(stream, long_name));
    expect_open(stream, "open in the stream: solver; close");
    CHECK_OK(NULL, rstream_release(stream, "solver"));
    CHECK_RC(-ENOENT, NULL, rstream_release(stream, "solver"));
    CHECK_ERROR(NULL, "not held by \"solver\"");
    CHECK_RC(-EINVAL, NULL, rstream_hold(stream, NULL));
    CHECK_RC(-EINVAL, NULL, rstream_hold(stream, ""));
    CHECK_RC(-EINVAL, NULL, rstream_hold(NULL, "solver"));
    CHECK_OK(NULL, rstream_close(stream));
    CHECK_RC(-EINVAL, NULL, rstream_hold(stream, "solver"));
    CHECK_RC(-EINVAL, NULL, rstream_release(stream, "solver"));
}

/* ---- pipes that are opened late ---- */

static void describe(rstream_t stream, const char *has, const char *has_not)
{
    char text[512];

    CHECK_OK(NULL, rstream_describe(stream, text, sizeof(text)));
    print_message("%s\n", text);
    if (strstr(text, has) == NULL || (has_not != NULL && strstr(text, has_not) != NULL))
        fail_msg("\"%s\" is missing%s%s: %s", has, has_not != NULL ? ", or there is " : "",
                 has_not != NULL ? has_not : "", text);
}

/* A link that is opened, closed because it is idle, and opened again: its pipes are in the stream each time. */
static void test_late(void **state)
{
    struct contexts c = {.number = 34};
    const ram_handler_t handler = {"request", contexts_on_request, &c};
    ram_config_t cfg = {.context = 34, .handlers = &handler, .nhandlers = 1, .idle_ms = 1};
    uint64_t links, more;

    (void)state;
    CHECK_OK(NULL, rstream_open(&cfg.stream, NULL));
    CHECK_OK(NULL, ram_init(&c.am, &cfg));
    describe(cfg.stream, "dynamic is asked for; open in it: ram context 34", "pipe");
    for (uint64_t life = 0; life < 3; life++) {
        contexts_request(&c, life);
        expect_open(cfg.stream, "open in the stream: ram context 34, and 4 pipes, of which");
        describe(cfg.stream, network(), NULL);
        do {
            CHECK(NULL, ram_serve(c.am, 1, 1) >= 0);
            CHECK_OK(NULL, ram_count(c.am, "links_in", &links));
            CHECK_OK(NULL, ram_count(c.am, "links_out", &more));
        } while (links + more > 0);
    }
    CHECK_OK(NULL, ram_exit(c.am));
    CHECK_OK(NULL, rstream_close(cfg.stream));
}

/* ---- threads ---- */

enum { THREADS = 4, MESSAGES = 512 };
static pthread_barrier_t meeting;
enum part { REQUESTS, TAGS, TEAMS, PARTS };

struct worker {
    pthread_t thread;
    struct contexts c;
    bool in_stream;
    struct lock_counts locks[PARTS];
};

static void exchange(struct contexts *c, enum part part, uint64_t key)
{
    static const size_t sizes[] = {8, 700, 8, CONTEXTS_MOST};

    if (part == REQUESTS)
        contexts_request(c, key);
    else if (part == TAGS)
        contexts_message(c, key, key, sizes[key % 4]);
    else
        contexts_sum(c, key, key);
}

static void *work(void *of)
{
    struct worker *w = of;

    contexts_open(&w->c, w->in_stream, self, 1);
    /*
     * The first round opens links and gets descriptors, and the stream gets its thread. The links of others are found out about in one turn of 16,
     * and most exchanges need no turn.
     */
    for (int round = 0; round < 10; round++) {
        if (round == 1)
            contexts_meet(&w->c, &meeting);
        for (int part = 0; part < PARTS; part++) {
            lock_count_begin();
            for (uint64_t i = 0; i < MESSAGES; i++)
                exchange(&w->c, (enum part)part, w->c.number * 100000 + i);
            w->locks[part] = lock_count_end();
        }
    }
    contexts_meet(&w->c, &meeting);
    contexts_close(&w->c);
    return NULL;
}

/*
 * Locks of the library in so many exchanges. Over tcp the service thread drives a stream whose thread has not run for a millisecond; where the two
 * meet the thread takes a lock.
 */
static void check_locks(uint64_t locks, uint64_t exchanges)
{
    if (strcmp(network(), "shm") == 0 || strcmp(network(), "verbs") == 0)
        assert_int_equal(locks, 0);
    if (strcmp(network(), "tcp") == 0)
        assert_true(locks * 50 <= exchanges);
}

static void threads_run(bool in_stream)
{
    static const char *const name[PARTS] = {"active messages", "messages by tag", "teams"};
    static struct worker w[THREADS];
    uint64_t locks[PARTS] = {0};

    (void)lock_count_init();
    pthread_barrier_init(&meeting, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.c = {.number = 50 + i}, .in_stream = in_stream};
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
        for (int part = 0; part < PARTS; part++)
            locks[part] += w[i].locks[part].ours;
    }
    pthread_barrier_destroy(&meeting);
    assert_int_equal(atomic_load(&check_failures), 0);
    for (int part = 0; part < PARTS; part++) {
        print_message("%d threads, %s: locks of the library per exchange, %s: %.3f\n", THREADS,
                      in_stream ? "each with a stream" : "without streams", name[part],
                      (double)locks[part] / (THREADS * MESSAGES));
        if (in_stream)
            check_locks(locks[part], THREADS * MESSAGES);
    }
    /* it has locks: so the counter counts */
    if (!in_stream && strcmp(network(), "tcp") == 0)
        assert_true(locks[REQUESTS] > THREADS * MESSAGES && locks[TAGS] > THREADS * MESSAGES);
}

static void test_threads(void **state)
{
    (void)state;
    threads_run(true);
    threads_run(false);
}

/* ---- mistakes ---- */

static void refuse(rstream_t stream, uint32_t flags, const char *words)
{
    ram_config_t am_cfg = {.context = 40, .stream = stream};
    rmsg_config_t msg_cfg = {.context = 40, .stream = stream};
    rcoll_team_config_t team_cfg = {.context = 40, .stream = stream, .flags = flags};
    rteam_t team = NULL;
    rmsg_t msg = NULL;
    ram_t am = NULL;

    if (flags == 0) {
        CHECK_RC(-EINVAL, NULL, ram_init(&am, &am_cfg));
        CHECK_ERROR(NULL, words);
        CHECK_RC(-EINVAL, NULL, rmsg_open(&msg, &msg_cfg));
        CHECK_ERROR(NULL, words);
    }
    CHECK_RC(-EINVAL, NULL, rcoll_team(&team, &team_cfg, self, 1));
    CHECK_ERROR(NULL, words);
    assert_true(am == NULL && msg == NULL && team == NULL);
}

static void test_misuse(void **state)
{
    rstream_t stream, none = (rstream_t)(void *)&stream;
    char text[8];

    (void)state;
    refuse(none, 0, "not open; rstream_open opens one");
    CHECK_OK(NULL, rstream_open(&stream, NULL));
    refuse(stream, RCOLL_THREADS, "flags has RCOLL_THREADS");
    refuse(stream, RCOLL_ASYNC, "flags has RCOLL_ASYNC");
    CHECK_RC(-EINVAL, NULL, rstream_describe(stream, NULL, 8));
    CHECK_RC(-EINVAL, NULL, rstream_describe(stream, text, 0));
    CHECK_RC(-EINVAL, NULL, rstream_describe(none, text, sizeof(text)));
    CHECK_OK(NULL, rstream_describe(stream, text, sizeof(text)));
    assert_string_equal(text, "dynamic");
    CHECK_OK(NULL, rstream_close(stream)); /* nothing of what was refused is left in it */
    refuse(stream, 0, "not open; rstream_open opens one");
}

/* In the child of a fork nothing of the stream is the child's; the parent goes on. */
static void test_fork(void **state)
{
    struct contexts c = {.number = 41};
    ram_config_t cfg = {.context = 42};
    int status = -1;
    char text[8];
    ram_t am;
    pid_t pid;

    (void)state;
    contexts_open(&c, true, self, 1);
    cfg.stream = c.stream;
    contexts_request(&c, 1);
    contexts_message(&c, 2, 2, 700);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        CHECK_RC(-ENOTCONN, NULL, rstream_close(c.stream));
        CHECK_RC(-ENOTCONN, NULL, rstream_hold(c.stream, "child"));
        CHECK_RC(-ENOTCONN, NULL, rstream_describe(c.stream, text, sizeof(text)));
        CHECK_RC(-ENOTCONN, NULL, ram_init(&am, &cfg));
        CHECK_RC(-ENOTCONN, NULL, rmsg_close(c.msg));
        CHECK_RC(-ENOTCONN, NULL, rcoll_close(c.team));
        CHECK_OK(NULL, ram_exit(c.am)); /* its copy alone */
        _exit(0);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
    contexts_request(&c, 3);
    contexts_message(&c, 4, 4, 8);
    contexts_sum(&c, 5, 5);
    contexts_close(&c);
}

/* ---- RMALLOC_DEBUG=1: two threads ---- */

static bool is_debugged(void)
{
    const char *debug = getenv("RMALLOC_DEBUG");

    return debug != NULL && strcmp(debug, "1") == 0;
}

static _Atomic int found;

/* Two threads run it, until a call of one of them fails. */
static void until_found(int (*call)(struct contexts *c), struct contexts *c, const char *words)
{
    double begun = now_ms();

    while (atomic_load(&found) == 0 && now_ms() - begun < CHECK_LATE_MS) {
        int rc = call(c);

        if (rc == -EBUSY && strstr(rerror(NULL), words) != NULL)
            atomic_store(&found, 1);
        else if (rc != 0)
            check_stop(__FILE__, __LINE__, "two threads", " returned %d: %s", rc, rerror(NULL));
    }
}

struct second {
    pthread_t thread;
    int (*call)(struct contexts *c);
    struct contexts *c;
    const char *words;
};

static void *second_run(void *of)
{
    const struct second *s = of;

    until_found(s->call, s->c, s->words);
    return NULL;
}

static void two_threads(int (*call)(struct contexts *c), struct contexts *first,
                        struct contexts *second, const char *words)
{
    struct second s = {.call = call, .c = second, .words = words};

    atomic_store(&found, 0);
    assert_int_equal(pthread_create(&s.thread, NULL, second_run, &s), 0);
    until_found(call, first, words);
    assert_int_equal(pthread_join(s.thread, NULL), 0);
    assert_int_equal(atomic_load(&found), 1);
    assert_int_equal(atomic_load(&check_failures), 0);
}

static int message_to_self(struct contexts *c)
{
    uint64_t word = c->number;
    int rc = rmsg_send(c->msg, 0, 1, 5, &word, sizeof(word), 0);

    return rc != 0 ? rc : rmsg_recv(c->msg, 0, 1, 5, &word, sizeof(word), NULL, 0);
}

/* Each thread has a context of its own, and both are in one stream: the link of one of them ends. */
static void test_two_threads_in_a_stream(void **state)
{
    static struct contexts c[2];
    rmsg_config_t cfg = {.context = 0};
    rstream_t stream;

    (void)state;
    if (!is_debugged())
        return; /* not found */
    CHECK_OK(NULL, rstream_open(&stream, NULL));
    cfg.stream = stream;
    for (size_t i = 0; i < 2; i++) {
        cfg.context = c[i].number = 45 + i;
        CHECK_OK(NULL, rmsg_open(&c[i].msg, &cfg));
        contexts_message(&c[i], 7, 7, 700);
    }
    two_threads(message_to_self, &c[0], &c[1], "rank 0");
    for (size_t i = 0; i < 2; i++)
        CHECK_OK(NULL, rmsg_close(c[i].msg));
    CHECK_OK(NULL, rstream_close(stream));
}

static int serve_self(struct contexts *c)
{
    int rc = ram_serve(c->am, 1, 5);

    return rc > 0 ? 0 : rc;
}

static int receive_from_self(struct contexts *c)
{
    char word[8];
    int rc = rmsg_recv(c->msg, 0, 1, 5, word, sizeof(word), NULL, 0);

    return rc == -ETIMEDOUT ? 0 : rc;
}

/* Two threads have one context. A call that is refused has changed nothing: the context goes on, and its handlers make calls on it. */
static void test_two_threads_in_a_context(void **state)
{
    struct contexts c = {.number = 47};
    const ram_handler_t handler = {"request", contexts_on_request, &c};
    ram_config_t cfg = {.context = 47, .handlers = &handler, .nhandlers = 1};
    rmsg_config_t msg = {.context = 47};

    (void)state;
    if (!is_debugged())
        return; /* not found */
    CHECK_OK(NULL, ram_init(&c.am, &cfg));
    contexts_request(&c, 1);
    two_threads(serve_self, &c, &c, ": another thread is inside ram_serve of this context");
    contexts_request(&c, 2);
    CHECK_OK(NULL, ram_exit(c.am));
    CHECK_OK(NULL, rmsg_open(&c.msg, &msg));
    contexts_message(&c, 3, 3, 700);
    CHECK_OK(NULL, rmsg_set_timeout(c.msg, 5));
    two_threads(receive_from_self, &c, &c, ": another thread is inside rmsg_recv of this context");
    CHECK_OK(NULL, rmsg_set_timeout(c.msg, 0));
    contexts_message(&c, 4, 4, 700);
    CHECK_OK(NULL, rmsg_close(c.msg));
}

static int group(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_held),
                                       cmocka_unit_test(test_split),
                                       cmocka_unit_test(test_hold),
                                       cmocka_unit_test(test_late),
                                       cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_misuse),
                                       cmocka_unit_test(test_fork),
                                       cmocka_unit_test(test_two_threads_in_a_stream),
                                       cmocka_unit_test(test_two_threads_in_a_context)};

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void)
{
    struct pair_child child[] = {
        {NULL, NULL, "0", NULL, "", 0, NULL},
        {NULL, NULL, "1", NULL, "lazy scribble", 0, NULL},
    };

    if (strcmp(network(), "verbs") == 0)
        setenv("PAIR_ONLY", "0", 0);
    return pair_children(child, sizeof(child) / sizeof(*child), group);
}
