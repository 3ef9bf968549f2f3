/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A heap that grows ("A heap that grows" of rmalloc_config(3), "Growth" of rmalloc(3)), in every heuristic with every mode: when
 * and by how much, what the statistics report, what can never fit, where messages are, which calls wait, closing at any moment of a
 * growth, and no memory for it. With RPIPE_WAIT=sleep too. Deaths and violations are in test/faults.
 */
#include "test/lib/pipe_load.h"
#include "test/lib/pipe_modes.h"
#include <dirent.h>
#include <sys/resource.h>
#include "test/lib/counts.h"
#include <rpipe.h>

#define NEVER_US 60000000u /* grow_after_us of a test that must not wait for it */

static void open_growing(struct pair *p, const struct mode *m, uint64_t alloc, uint64_t most,
                         uint32_t after_us)
{
    rpipe_config_t cfg = mode_config(m, alloc, 0);

    cfg.max_heap_bytes = most;
    cfg.grow_after_us = after_us;
    cfg.timeout_ms = 20000;
    pair_open_with(p, &cfg);
}

/* rmalloc_nb until it gives something else than R_PENDING */
static int insist(rch_t w, size_t size, raddr_t *d)
{
    double end = now_ms() + CHECK_LATE_MS;
    int rc;

    while ((rc = rmalloc_nb(w, size, d)) == R_PENDING)
        if (now_ms() > end)
            break;
    return rc;
}

/* ---- when it stays full ---- */

/* The reader frees nothing: 1024, 2048, 4096, 8192 bytes, and then it is full. */
static void to_the_limit(const struct mode *m)
{
    enum { N = 128 };
    static const size_t segments[] = {4096, 2048, 1024, 1024};
    raddr_t held[N], whole[4], d = ANY_RADDR;
    uint64_t order[N];
    struct pipe_counts st = {0};
    struct pair p;

    open_growing(&p, m, 1024, 8192 + 63, 200); /* the limit counts in whole units */
    for (uint64_t i = 0; i < N; i++) {
        pair_send(&p, 64, i);
        held[i] = pair_receive(&p, 64, i);
        st = stats(p.w);
        assert_int_equal(st.grows, i < 16 ? 0 : i < 32 ? 1 : i < 64 ? 2 : 3);
        assert_int_equal(st.heap_bytes, 1024u << st.grows);
        assert_int_equal(st.heap_used, 64 * (i + 1));
    }
    assert_int_equal(st.grow_refused, 0);
    assert_int_equal(st.stalls_heap, 3);
    st = stats(p.r);
    assert_int_equal(st.grows, 3);
    assert_int_equal(st.heap_bytes, 8192);
    assert_int_equal(st.heap_used, 8192);
    assert_int_equal(st.grow_refused, 0);

    CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 64, &d));
    CHECK_OK(p.w, rset_timeout(p.w, 5));
    CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, 64));
    CHECK_ERRNO(EMSGSIZE, rmalloc(p.w, 4097)); /* no message is in two segments */
    CHECK_RC(-EMSGSIZE, p.w, rmalloc_nb(p.w, 8192, &d));
    assert_true(d == ANY_RADDR);
    assert_int_equal(stats(p.w).grows, 3);

    for (size_t i = 0; i < N; i++)
        order[i] = i;
    for (size_t i = N; i > 0; i--) {
        size_t k = draw() % i;
        uint64_t x = order[k];

        order[k] = order[i - 1];
        assert_true(pattern_same(rmem(p.r, held[x]), 64, x));
        CHECK_OK(p.r, rfree(p.r, held[x]));
    }
    for (size_t i = 0; i < 4; i++) { /* every segment whole */
        CHECK_OK(p.w, rmalloc_nb(p.w, segments[i], &whole[i]));
        pattern_fill(rmem(p.w, whole[i]), segments[i], i);
    }
    CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 41, &d));
    st = stats(p.w);
    assert_true(st.heap_used == 0 && st.returned == N);
    for (size_t i = 4; i > 0; i--) {
        assert_true(pattern_same(rmem(p.w, whole[i - 1]), segments[i - 1], i - 1));
        CHECK_OK(p.w, rwrite(p.w, whole[i - 1]));
    }
    for (size_t i = 4; i > 0; i--)
        pair_read_free(&p, segments[i - 1], i - 1);
    pair_close(&p);
}

/* a reader that frees in time: no growth, however long it goes on */
static void not_needed(const struct mode *m)
{
    /* segregated-fit uses a block again where it is, also with half of the free memory on either side */
    const uint64_t bytes = m->algorithm == RMALLOC_SEGREGATED_FIT ? 4096 : 1024;
    struct pair p;

    open_growing(&p, m, bytes, 8192, NEVER_US);
    for (uint64_t i = 0; i < 300; i++) {
        pair_send(&p, 200 + i, i);
        pair_send(&p, 400, i);
        pair_read_free(&p, 200 + i, i);
        pair_read_free(&p, 400, i);
    }
    assert_int_equal(stats(p.w).grows + stats(p.r).grows, 0);
    assert_int_equal(stats(p.w).heap_bytes, bytes);
    pair_close(&p);
}

/* a loop of calls that do not wait gets what a waiting call gets, and not sooner */
static void asked_again_and_again(const struct mode *m)
{
    double start;
    struct pair p;
    raddr_t held, d;

    open_growing(&p, m, 1024, 3000, 3000);
    pair_send(&p, 1024, 1);
    held = pair_receive(&p, 1024, 1);
    start = now_ms();
    CHECK_OK(p.w, insist(p.w, 500, &d));
    assert_true(now_ms() - start >= 3.0);
    assert_int_equal(stats(p.w).grows, 1);
    assert_int_equal(stats(p.w).stalls_heap >= 1, 1);
    assert_true(pattern_same(rmem(p.r, held), 1024, 1));
    pattern_fill(rmem(p.w, d), 500, 2);
    CHECK_OK(p.w, rwrite(p.w, d));
    pair_read_free(&p, 500, 2);
    CHECK_OK(p.r, rfree(p.r, held));
    pair_close(&p);
}

/* nor does the time between two calls matter, if none of them finds free memory */
static void test_slow_loop(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        int calls, rc = R_PENDING;
        struct pair p;
        raddr_t d;

        now = &modes[i];
        open_growing(&p, now, 1024, 3000, 100);
        pair_send(&p, 1024, 1);
        for (calls = 0; rc == R_PENDING && calls < 20; calls++) {
            if (calls > 0)
                compute_ms(110);
            rc = rmalloc_nb(p.w, 500, &d);
        }
        CHECK_OK(p.w, rc);
        assert_true(calls > 1);
        pair_close(&p);
    }
    now = NULL;
}

/* where descriptors are missing, more memory is of no use */
static void descriptors(const struct mode *m)
{
    rpipe_config_t cfg = mode_config(m, 1024, 0);
    raddr_t mine[5], d = ANY_RADDR;
    struct pair p;

    cfg.max_heap_bytes = 8192;
    cfg.grow_after_us = 1;
    cfg.max_messages = 5;
    pair_open_with(&p, &cfg);
    CHECK_OK(p.w, rset_timeout(p.w, 3));
    for (uint64_t i = 0; i < 5; i++)
        mine[i] = pair_alloc(&p, 100, i);
    CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 100, &d));
    CHECK_ERRNO(ENOBUFS, rmalloc(p.w, 100));
    for (uint64_t i = 0; i < 5; i++)
        CHECK_OK(p.w, rwrite(p.w, mine[i]));
    CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 100, &d)); /* the reader can help */
    CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, 100));
    for (uint64_t i = 0; i < 5; i++)
        pair_read_free(&p, 100, i);
    CHECK_OK(p.w, rmalloc_nb(p.w, 100, &d));
    assert_int_equal(stats(p.w).grows, 0);
    pair_close(&p);
}

/* ---- at once ---- */

/* 10000 bytes are 156 units: 9984; behind the first 1024 there is space for one segment of 8960, or several smaller ones */
static void larger_than_any_segment(const struct mode *m)
{
    raddr_t a, b, d = ANY_RADDR;
    struct pipe_counts st = {0};
    struct pair p;

    for (int nb = 0; nb < 2; nb++) {
        open_growing(&p, m, 1024, 10000, NEVER_US);
        CHECK_ERRNO(EMSGSIZE, rmalloc(p.w, 8961));
        CHECK_ERRNO(EMSGSIZE, rmalloc(p.w, 10000));
        CHECK_ERRNO(EMSGSIZE, rmalloc(p.w, SIZE_MAX));
        CHECK_RC(-EMSGSIZE, p.w, rmalloc_nb(p.w, 8961, &d));
        assert_int_equal(stats(p.w).grows, 0);
        if (nb != 0)
            CHECK_OK(p.w, insist(p.w, 5000, &a));
        else
            assert_non_null(a = rmalloc(p.w, 5000));
        st = stats(p.w);
        assert_int_equal(st.grows, 1);
        assert_int_equal(st.heap_bytes, 1024 + 5056);
        CHECK_RC(
            -EMSGSIZE, p.w,
            rmalloc_nb(p.w, 5057, &d)); /* more than the segment, and than the 3904 that are left */
        pattern_fill(rmem(p.w, a), 5000, 1);
        assert_non_null(b = rmalloc(p.w, 1024)); /* the first segment is free */
        assert_int_equal(stats(p.w).grows, 1);
        pattern_fill(rmem(p.w, b), 1024, 2);
        CHECK_OK(p.w, rwrite(p.w, b));
        CHECK_OK(p.w, rwrite(p.w, a));
        pair_read_free(&p, 1024, 2);
        a = pair_receive(&p, 5000, 1);
        CHECK_OK(p.r, rfree(p.r, a));
        CHECK_OK(p.w, rmalloc_nb(p.w, 5056, &a)); /* in the segment that is there */
        CHECK_OK(p.w, rfree(p.w, a));
        assert_int_equal(stats(p.w).grows, 1);
        assert_true(d == ANY_RADDR);
        pair_close(&p);
    }
    open_growing(&p, m, 1024, 10000, NEVER_US); /* all that the limit leaves, in one segment */
    assert_non_null(a = rmalloc(p.w, 8960));
    assert_int_equal(stats(p.w).heap_bytes, 9984);
    pattern_fill(rmem(p.w, a), 8960, 3);
    CHECK_OK(p.w, rwrite(p.w, a));
    pair_read_free(&p, 8960, 3);
    pair_close(&p);
}

/* Nothing is written, nothing else could free memory: it grows at once, without a single rwrite, and then it is -ENOBUFS. */
static void instead_of_enobufs(const struct mode *m)
{
    rpipe_config_t cfg = mode_config(m, 1024, 0), w, r;
    enum { N = 8 };
    raddr_t mine[N], d = ANY_RADDR;
    struct pair p;

    cfg.max_heap_bytes = 4096;
    cfg.grow_after_us = NEVER_US;
    cfg.timeout_ms = 20000;
    w = pair_writer(cfg);
    r = pair_reader(cfg);
    for (int late = 0; late < 2; late++) {
        uint64_t n = 0;

        CHECK_OK(NULL, rpipe(&p.w, &w));
        if (late != 0 &&
            m->op ==
                RPIPE_GET) { /* the heap is here; before the join it does not grow, and that is a wait */
            for (; n < 2; n++)
                mine[n] = pair_alloc(&p, 512, n);
            CHECK_RC(R_PENDING, p.w, rmalloc_nb(p.w, 512, &d));
            assert_int_equal(stats(p.w).grows, 0);
        }
        CHECK_OK(NULL, rpipe(&p.r, &r));
        for (; n < N; n++)
            mine[n] = pair_alloc(&p, 512, n);
        assert_int_equal(stats(p.w).grows, 2);
        assert_int_equal(stats(p.w).messages, 0);
        CHECK_RC(-ENOBUFS, p.w, rmalloc_nb(p.w, 512, &d));
        CHECK_ERRNO(ENOBUFS, rmalloc(p.w, 2048));
        for (uint64_t i = 0; i < N; i++) {
            uint64_t k = i * 3 % N;

            assert_true(pattern_same(rmem(p.w, mine[k]), 512, k));
            CHECK_OK(p.w, rwrite(p.w, mine[k]));
        }
        for (uint64_t i = 0; i < N; i++)
            pair_read_free(&p, 512, i * 3 % N);
        assert_int_equal(stats(p.r).grows, 2);
        pair_close(&p);
    }
}

/* Sizes of all kinds into many segments, in small units and a heap that is not whole units; held long, freed in any order. */
static void all_sizes(const struct mode *m)
{
    enum { HELD = 40 };
    static const uint32_t units[] = {1, 8, 64, 4096};

    for (size_t k = 0; k < 4; k++) {
        rpipe_config_t cfg = mode_config(m, 40 * units[k] - (uint64_t)units[k] / 3, 0);
        struct {
            raddr_t d;
            size_t size;
            uint64_t key;
        } held[HELD];
        size_t n = 0, size;
        struct pair p;

        cfg.unit_bytes = units[k];
        cfg.max_heap_bytes = 1000 * (uint64_t)units[k] + draw() % units[k];
        cfg.grow_after_us = 1;
        cfg.inline_max = RPIPE_INLINE_NONE;
        pair_open_with(&p, &cfg);
        for (uint64_t i = 0; i < 150; i++) {
            raddr_t d;
            int rc;

            size = draw() % (draw() % 8 == 0 ? 300 * units[k] : 20 * units[k]);
            rc = rmalloc_nb(p.w, size, &d);
            if (rc == -EMSGSIZE)
                assert_true(size > cfg.heap_bytes);
            else if (rc != R_SUCCESS)
                CHECK_RC(R_PENDING, p.w, rc);
            if (rc == R_SUCCESS) {
                pattern_fill(rmem(p.w, d), size, i);
                CHECK_OK(p.w, rwrite(p.w, d));
                held[n].d = pair_receive(&p, size, i);
                held[n].size = size;
                held[n++].key = i;
            }
            while (n > 0 && (n == HELD || draw() % 4 == 0)) {
                size_t at = draw() % n;

                assert_true(pattern_same(rmem(p.r, held[at].d), held[at].size, held[at].key));
                CHECK_OK(p.r, rfree(p.r, held[at].d));
                held[at] = held[--n];
            }
        }
        while (n > 0) {
            n--;
            assert_true(pattern_same(rmem(p.r, held[n].d), held[n].size, held[n].key));
            CHECK_OK(p.r, rfree(p.r, held[n].d));
        }
        assert_int_equal(stats(p.r).heap_used, 0);
        assert_true(stats(p.w).heap_bytes <= cfg.max_heap_bytes + units[k]);
        CHECK_OK(p.w, rmalloc_nb(p.w, cfg.heap_bytes, &held[0].d));
        pair_close(&p);
    }
}

/* ---- threads ---- */

static size_t load_size(uint64_t i) { return 41 + random_mix(i) % 900; }

/* 3 readers hold up to 24 messages: they do not fit into the first segment */
static void pipe_load(const struct mode *m)
{
    rpipe_config_t cfg = mode_config(m, 1024, 0);
    struct pipe_load c = {.messages = 240, .holds = PIPE_LOAD_HELD, .size = load_size};

    cfg.max_heap_bytes = 1 << 20;
    cfg.grow_after_us = 50;
    cfg.flags |= RPIPE_THREADS;
    cfg.timeout_ms = 20000;
    pair_open_with(&c.p, &cfg);
    pipe_load_run(&c);
    assert_true(stats(c.p.w).grows >= 1);
    assert_int_equal(stats(c.p.r).heap_used, 0);
    pair_close(&c.p);
}

/* ---- closing at any moment of a growth, and opening again ---- */

struct closing {
    const struct mode *mode;
    struct pair p;
    uint64_t before_close; /* microseconds; the writer's */
    bool waits;
};

static void *grows_and_closes(void *argument)
{
    struct closing *c = argument;
    raddr_t d = ADDR_NULL;
    int rc;

    if (c->waits) {
        errno = 0;
        d = rmalloc(c->p.w, 5000);
        rc = d != ADDR_NULL ? R_SUCCESS : -errno;
    } else {
        rc = rmalloc_nb(c->p.w, 5000, &d);
    }
    CHECK(c->p.w, rc == R_SUCCESS || rc == R_PENDING || rc == -EPIPE);
    if (rc == R_SUCCESS) {
        pattern_fill(rmem(c->p.w, d), 5000, 5);
        rc = rwrite(c->p.w, d);
        CHECK(c->p.w, rc == R_SUCCESS || rc == -EPIPE);
    }
    compute_us(c->before_close);
    CHECK(c->p.w, rclose(c->p.w) == R_SUCCESS);
    return NULL;
}

struct usage {
    int fds, maps;
};

static struct usage usage_now(void)
{
    struct usage u = {0, 0};
    DIR *dir = opendir("/proc/self/fd");
    FILE *f = fopen("/proc/self/maps", "re");
    int byte;

    while (dir != NULL && readdir(dir) != NULL)
        u.fds++;
    while (f != NULL && (byte = fgetc(f)) != EOF)
        u.maps += byte == '\n';
    closedir(dir);
    fclose(f);
    return u;
}

static void close_while_it_grows(const struct mode *m)
{
    rpipe_config_t cfg = mode_config(m, 1024, 0);
    struct closing c = {.mode = m};
    struct usage before = {0, 0}, after;
    enum { ROUNDS = 60 };
    pthread_t thread;
    raddr_t d;
    int rc;

    cfg.max_heap_bytes = 100000;
    cfg.timeout_ms = 20000;
    for (int round = 0; round < ROUNDS; round++) {
        cfg.context =
            cfg.context % 1000 + 1000 * (uint32_t)(round % 2); /* again and again the same two */
        pair_open_with(&c.p, &cfg);
        c.before_close = draw() % 4 == 0 ? 0 : draw() % 150;
        c.waits = draw() % 3 == 0;
        assert_int_equal(pthread_create(&thread, NULL, grows_and_closes, &c), 0);
        if (draw() % 3 == 0) { /* what was written is read to the end */
            rc = rread(c.p.r, &d, NULL);
            if (rc == R_SUCCESS) {
                assert_true(pattern_same(rmem(c.p.r, d), 5000, 5));
                rc = rread(c.p.r, &d, NULL);
            }
            CHECK_RC(R_EOF, c.p.r, rc);
        } else {
            compute_us(draw() % 150);
        }
        CHECK_OK(c.p.r, rclose(c.p.r));
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&check_failures), 0);
        if (round == ROUNDS / 3)
            before = usage_now();
    }
    /* a last one, in order: everything of those before has been dealt with by then */
    pair_open_with(&c.p, &cfg);
    pair_close(&c.p);
    after = usage_now();
    if (after.fds > before.fds + (on_device_heap() ? 7 : 3) || /* memory of the last one */
        after.maps >
            before.maps +
                (pair_over_network() ? 2000 : 12)) /* the simulation keeps addresses back */
        fail_msg("descriptors %d -> %d, mappings %d -> %d", before.fds, after.fds, before.maps,
                 after.maps);
}

/* ---- no memory ---- */

static void limit_files(rlim_t bytes)
{
    struct rlimit l;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* what shared memory counts as: a file. All modes at the same time, because the next attempt is a second away. */
static void test_refused(void **unused)
{
    static struct pair p[MODES];
    static raddr_t held[MODES];
    FILE *output = tmpfile();
    int kept = dup(2), logged = 0;
    raddr_t d = ANY_RADDR;
    char line[512];
    double start;

    (void)unused;
    if (pair_over_network() || on_device_heap()) /* memory of the host is what runs out */
        skip();
    assert_true(output != NULL && kept >= 0);
    fflush(stderr);
    assert_int_equal(dup2(fileno(output), 2), 2);
    for (size_t i = 0; i < MODES; i++)
        open_growing(&p[i], &modes[i], 1 << 16, 64 << 20, 100);
    limit_files(1 << 18);
    start = now_ms();
    for (size_t i = 0; i < MODES; i++) {
        struct pipe_counts st = {0};
        int rc;

        now = &modes[i];
        rc =
            insist(p[i].w, 5 << 20, &d); /* larger than any segment: no wait for the reader helps */
        CHECK_RC(-ENOMEM, p[i].w, rc);
        assert_true(strlen(rerror(p[i].w)) > 20);
        CHECK_ERRNO(ENOMEM, rmalloc(p[i].w, 5 << 20));
        st = stats(p[i].w);
        assert_true(st.grow_refused >= 1);
        assert_int_equal(st.grows, 0);
        assert_int_equal(st.heap_bytes, 1 << 16);
        pair_send(&p[i], 1 << 16, i); /* it goes on with what it has */
        held[i] = pair_receive(&p[i], 1 << 16, i);
        CHECK_RC(R_PENDING, p[i].w, rmalloc_nb(p[i].w, 100, &d)); /* the reader can help */
        CHECK_OK(p[i].r, rfree(p[i].r, held[i]));
        pair_send(&p[i], 1 << 15, i);
        pair_read_free(&p[i], 1 << 15, i);
        d = pair_alloc(&p[i], 1 << 16, i);
        CHECK_RC(-ENOBUFS, p[i].w,
                 rmalloc_nb(p[i].w, 100, &(raddr_t){NULL})); /* as without growth */
        CHECK_OK(p[i].w, rfree(p[i].w, d));
        d = ANY_RADDR;
    }
    if (now_ms() - start < 900) /* not again for a second */
        for (size_t i = 0; i < MODES; i++)
            assert_int_equal(stats(p[i].w).grow_refused, 1);
    limit_files(RLIM_INFINITY);
    for (size_t i = 0; i < MODES; i++) {
        int rc;

        now = &modes[i];
        start = now_ms();
        while ((rc = insist(p[i].w, 5 << 20, &d)) == -ENOMEM && now_ms() - start < CHECK_LATE_MS)
            ;
        CHECK_OK(p[i].w, rc);
        assert_int_equal(stats(p[i].w).grows, 1);
        pattern_fill(rmem(p[i].w, d), 5 << 20, i);
        CHECK_OK(p[i].w, rwrite(p[i].w, d));
        pair_read_free(&p[i], 5 << 20, i);
        pair_close(&p[i]);
    }
    now = NULL;
    fflush(stderr);
    assert_int_equal(dup2(kept, 2), 2);
    close(kept);
    rewind(output);
    while (fgets(line, sizeof(line), output) != NULL)
        logged += strstr(line, "info: ") != NULL && strstr(line, "grow") != NULL &&
                  strstr(line, "ulimit") != NULL;
    fclose(output);
    assert_true(logged >= (int)MODES);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        IN_EVERY_MODE(to_the_limit),
        IN_EVERY_MODE(not_needed),
        IN_EVERY_MODE(asked_again_and_again),
        cmocka_unit_test_teardown(test_slow_loop, tell_mode),
        IN_EVERY_MODE(descriptors),
        IN_EVERY_MODE(larger_than_any_segment),
        IN_EVERY_MODE(instead_of_enobufs),
        IN_EVERY_MODE(all_sizes),
        IN_EVERY_MODE(pipe_load),
        IN_EVERY_MODE(close_while_it_grows),
        cmocka_unit_test_teardown(test_refused, tell_mode),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(int argc, char **argv)
{
    struct pair_child child[] = {
        {NULL, NULL, "0", NULL, "", 0, NULL},
        {"RPIPE_WAIT", "sleep", "0", NULL, "lazy scribble", 0, NULL},
        {"RPIPE_WAIT", "yield", "1", NULL, "order scribble", 0, NULL},
    };

    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    unsetenv("PAIR_MODE");
    setenv("RPIPE_LOG", "info", 1); /* a refusal is logged there */
    return pair_children(child, sizeof(child) / sizeof(*child), group);
}
