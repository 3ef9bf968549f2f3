/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.h: both ends of a channel to oneself, for the tests of the public interface in one process.
 *
 * They are written from the manual alone, and see the public headers alone. Every pair gets a ctx of its own, so that
 * ends that a failed test leaves open are not in the way of others. Messages are filled with a pattern that depends on a key,
 * so that one that is torn, stale or another message differs from the right one at every byte.
 */
#ifndef TEST_LIB_PAIR_H
#define TEST_LIB_PAIR_H

#include "test/lib/check.h"
#include "test/lib/on_device.h"
#include "test/lib/pattern.h"
#include <rpipe.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
    rch_t w, r;
};

#define ANY_RADDR ((raddr_t)(uintptr_t)0x51) /* what an output holds that must not be touched */

static inline bool pair_over_network(void) { return getenv("PAIR_NET") != NULL; }

/* Over a network, what is in flight arrives without a further call, but not at once. */
static inline bool pair_patience(double since)
{
    return pair_over_network() && now_ms() - since < CHECK_LATE_MS;
}

/* What a check ends: in a child its process, in a thread the thread, which counts it, else the test. */
static pid_t pair_process;

static inline void pair_check_end(const char *file, int line)
{
    if (getpid() != pair_process)
        _exit(1);
    if (gettid() != pair_process) {
        atomic_fetch_add(&check_failures, 1);
        pthread_exit(NULL);
    }
    _fail(file, line);
}

/*
 * What the same tests run in: block mode, the default, and some of the others (pair_main). PAIR_MODE="tags 2 100", or
 * "channel", algorithm by number, sync_queue: in that alone.
 */
static inline void pair_mode(rpipe_config_t *cfg)
{
    const char *mode = getenv("PAIR_MODE");
    unsigned algorithm, queue;
    char sync[16];

    if (mode == NULL)
        return;
    if (sscanf(mode, "%15s %u %u", sync, &algorithm, &queue) != 3 ||
        (strcmp(sync, "tags") != 0 && strcmp(sync, "channel") != 0))
        fail_msg("PAIR_MODE is \"%s\"; it must be like \"tags 2 100\"", mode);
    cfg->mode = strcmp(sync, "tags") == 0 ? RPIPE_SYNC_TAGS : RPIPE_SYNC_CHANNEL;
    cfg->heuristic = (rmalloc_fit_t)(RMALLOC_NEXT_FIT + algorithm);
    cfg->sync_queue = queue;
}

static inline rpipe_config_t pair_config(rpipe_op_t op, uint64_t alloc_size)
{
    static uint32_t ctx = 0;
    rpipe_config_t cfg = {0};

    cfg.op = op;
    cfg.peer = 0;
    cfg.heap_bytes = alloc_size;
    cfg.context = ctx++;
    cfg.heuristic = RMALLOC_NEXT_FIT;
    cfg.mode = RPIPE_SYNC_BLOCKS;
    pair_mode(&cfg);
    return cfg;
}

static inline rpipe_config_t pair_writer(rpipe_config_t cfg)
{
    cfg.role = RPIPE_WRITER;
    return cfg;
}

static inline rpipe_config_t pair_reader(rpipe_config_t cfg)
{
    cfg.role = RPIPE_READER;
    return cfg;
}

/* PAIR_STREAMS=everywhere: all writers in a stream with a context of its own, and all readers in another one. */
static rstream_t pair_streams[2];

static inline void pair_put_in_stream(rpipe_config_t *cfg, size_t i)
{
    const rstream_config_t everywhere = {.share = RSTREAM_EVERYWHERE};

    if (getenv("PAIR_STREAMS") == NULL || cfg->stream != NULL || (cfg->flags & RPIPE_THREADS) != 0)
        return;
    if (pair_streams[i] == NULL)
        CHECK_OK(NULL, rstream_open(&pair_streams[i], &everywhere));
    cfg->stream = pair_streams[i];
}

static inline void pair_open_with(struct pair *p, const rpipe_config_t *cfg)
{
    rpipe_config_t w = pair_writer(*cfg), r = pair_reader(*cfg);

    pair_put_in_stream(&w, 0);
    pair_put_in_stream(&r, 1);
    CHECK_OK(NULL, rpipe(&p->w, &w));
    CHECK_OK(NULL, rpipe(&p->r, &r));
    CHECK_OK(p->w, rwait(p->w));
    CHECK_OK(p->r, rwait(p->r));
}

static inline void pair_open(struct pair *p, rpipe_op_t op, uint64_t alloc_size)
{
    rpipe_config_t cfg = pair_config(op, alloc_size);

    pair_open_with(p, &cfg);
}

static inline void pair_close(struct pair *p)
{
    if (pair_over_network()) { /* what is in flight takes time to arrive, whatever the test has set */
        CHECK_OK(p->w, rset_timeout(p->w, (int)CHECK_LATE_MS));
        CHECK_OK(p->r, rset_timeout(p->r, (int)CHECK_LATE_MS));
    }
    CHECK_OK(p->w, rclose(p->w));
    CHECK_OK(p->r, rclose(p->r));
}

/* ---- one message ---- */

static inline raddr_t pair_alloc(const struct pair *p, size_t size, uint64_t key)
{
    raddr_t d = rmalloc(p->w, size);

    if (d == ADDR_NULL)
        fail_msg("rmalloc of %zu: %s", size, rerror(p->w));
    assert_int_equal(rsize(p->w, d), size);
    assert_non_null(rmem(p->w, d));
    pattern_fill(rmem(p->w, d), size, key);
    return d;
}

static inline void pair_send(const struct pair *p, size_t size, uint64_t key)
{
    raddr_t d = pair_alloc(p, size, key);

    CHECK_OK(p->w, rwrite(p->w, d));
}

static inline raddr_t pair_receive(const struct pair *p, size_t size, uint64_t key)
{
    raddr_t d = ADDR_NULL;
    size_t got = SIZE_MAX;

    CHECK_OK(p->r, rread(p->r, &d, &got));
    assert_true(d != ADDR_NULL);
    assert_int_equal(got, size);
    assert_int_equal(rsize(p->r, d), size);
    assert_non_null(rmem(p->r, d));
    assert_true(pattern_same(rmem(p->r, d), size, key));
    return d;
}

static inline void pair_read_free(const struct pair *p, size_t size, uint64_t key)
{
    CHECK_OK(p->r, rfree(p->r, pair_receive(p, size, key)));
}

/* ---- the program ---- */

static inline int pair_setup(void **state)
{
    int rank = -1, nranks = -1;

    (void)state;
    pair_process = getpid();
    check_end = pair_check_end;
    if (rinit(&rank, &nranks) != R_SUCCESS) {
        print_error("rinit: %s\n", rerror(NULL));
        return -1;
    }
    return rank == 0 && nranks == 1 ? 0 : -1;
}

static inline int pair_teardown(void **state)
{
    (void)state;
    return rexit();
}

/*
 * A process joins a job once, so the group runs in a child for each setting. All of them at the same time: they wait more
 * than they work. What they print is kept, and printed one after the other.
 */
struct pair_child {
    const char *name, *value;  /* of the environment; NULL: nothing but */
    const char *debug;         /* RMALLOC_DEBUG */
    const char *seed, *remote; /* over a simulated network; NULL: not */
    pid_t pid;
    FILE *output;
};

static inline void pair_child_start(struct pair_child *c, int (*group)(void))
{
    c->output = tmpfile();
    c->pid = c->output != NULL ? fork() : -1;
    if (c->pid != 0)
        return;
    setenv("RMALLOC_DEBUG", c->debug, 1);
    if (c->name != NULL)
        setenv(c->name, c->value, 1);
    if (c->remote != NULL) {
        setenv("RPIPE_BTL", getenv("PAIR_BTL") != NULL ? getenv("PAIR_BTL") : "sim", 1);
        setenv("RPIPE_SIM_SEED", c->seed, 1);
        setenv("RPIPE_SIM_MODE", c->remote, 1);
    }
    if (dup2(fileno(c->output), 1) < 0 || dup2(fileno(c->output), 2) < 0)
        _exit(99);
    exit(group() != 0);
}

static inline bool pair_child_end(struct pair_child *c)
{
    const char *name = c->name != NULL ? c->name : "", *value = c->name != NULL ? c->value : "";
    const char *net = c->remote != NULL ? c->remote : "",
               *seed = c->remote != NULL ? c->seed : "none";
    int status = -1, byte;

    print_message("---- %s %s RMALLOC_DEBUG=%s network: %s %s\n", name, value, c->debug, seed, net);
    fflush(NULL);
    if (c->pid < 0 || waitpid(c->pid, &status, 0) != c->pid)
        return false;
    rewind(c->output);
    while ((byte = fgetc(c->output)) != EOF)
        putchar(byte);
    fclose(c->output);
    if (status != 0)
        print_error("---- %s %s RMALLOC_DEBUG=%s network: %s %s: ended with status 0x%x\n", name,
                    value, c->debug, seed, net, (unsigned)status);
    return status == 0;
}

/*
 * PAIR_NET=1: over the simulated network, in the mode that a setting has for that; PAIR_NET=2, 3 and so on: other seeds. PAIR_ONLY=N: the N-th
 * setting alone, from 0. PAIR_BTL=tcp: over that network instead.
 */
static inline int pair_children(struct pair_child *child, size_t n, int (*group)(void))
{
    const char *net = getenv("PAIR_NET"), *only = getenv("PAIR_ONLY");
    char seed[16][24];
    bool good = true;

    for (size_t i = 0; i < n; i++) {
        snprintf(seed[i], sizeof(seed[i]), "%zu", (net != NULL ? (size_t)atoi(net) : 0) * n + i);
        child[i].seed = seed[i];
        if (net == NULL)
            child[i].remote = NULL;
        else if (child[i].remote == NULL)
            child[i].remote = "";
    }
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    fflush(NULL);
    if (only != NULL && (size_t)atoi(only) < n)
        child = &child[atoi(only)], n = 1;
    for (size_t i = 0; i < n; i++)
        pair_child_start(&child[i], group);
    for (size_t i = 0; i < n; i++)
        good = pair_child_end(&child[i]) && good;
    return good ? 0 : 1;
}

/* in block mode with RMALLOC_DEBUG=1 and without, and in turns in other modes */
static inline int pair_main(int (*group)(void))
{
    struct pair_child child[] = {
        {NULL, NULL, "0", NULL, "", 0, NULL},
        {NULL, NULL, "1", NULL, "lazy scribble", 0, NULL},
        {"PAIR_MODE", "tags 0 0", "0", NULL, "order", 0, NULL},
        {"PAIR_MODE", "tags 2 0", "1", NULL, "scribble", 0, NULL},
        {"PAIR_MODE", "tags 1 100", "0", NULL, "", 0, NULL},
        {"PAIR_MODE", "channel 3 0", "1", NULL, "scribble target", 0, NULL},
        {"PAIR_MODE", "channel 0 0", "0", NULL, "lazy", 0, NULL},
    };
    bool asked = getenv("PAIR_MODE") != NULL;

    return pair_children(child, asked ? 2 : sizeof(child) / sizeof(*child), group);
}

/* A test of cmocka that runs with both; in it op_of(state). */
static rpipe_op_t pair_put __attribute__((unused)) = RPIPE_PUT;
static rpipe_op_t pair_get __attribute__((unused)) = RPIPE_GET;
#define PUT_AND_GET(f)                                                                             \
    cmocka_unit_test_prestate(f, &pair_put), cmocka_unit_test_prestate(f, &pair_get)

static inline rpipe_op_t op_of(void **state) { return *(rpipe_op_t *)*state; }

typedef void (*pair_test)(rpipe_op_t op);

static inline void pair_run_both(void **test)
{
    (*(pair_test *)*test)(RPIPE_PUT);
    (*(pair_test *)*test)(RPIPE_GET);
}

/* A row of the tests of cmocka: a function of the kind of transfer, which runs with both. */
#define BOTH(test)                                                                                 \
    {                                                                                              \
#test, pair_run_both, NULL, NULL, &(pair_test) { test }                                    \
    }

#endif
