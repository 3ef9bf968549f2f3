/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes that the end without the heap leaves to the other end: rpipe_config_t(3). PUT and GET, whichever end opens first, every mode,
 * over shared memory and over the simulated network.
 */
#include "test/lib/pair.h"

#define CONTEXT 77

/* What the end with the heap decides. */
static rpipe_config_t decided(rpipe_op_t op, rpipe_sync_t mode)
{
    return (rpipe_config_t){.role = op == RPIPE_PUT ? RPIPE_READER : RPIPE_WRITER,
                            .op = op,
                            .context = CONTEXT,
                            .heuristic =
                                mode == RPIPE_SYNC_BLOCKS ? RMALLOC_NEXT_FIT : RMALLOC_BEST_FIT,
                            .mode = mode,
                            .unit_bytes = 128,
                            .heap_bytes = 8192,
                            .max_heap_bytes = 16384,
                            .slots = 16,
                            .sync_queue = mode == RPIPE_SYNC_BLOCKS ? 0 : 5};
}

/* The other end, which leaves everything open. */
static rpipe_config_t left_open(rpipe_op_t op)
{
    return (rpipe_config_t){
        .role = op == RPIPE_PUT ? RPIPE_WRITER : RPIPE_READER, .op = op, .context = CONTEXT};
}

static void open_both(struct pair *p, const rpipe_config_t *a, const rpipe_config_t *b)
{
    rch_t first, second;

    CHECK_OK(NULL, rpipe(&first, a));
    CHECK_OK(NULL, rpipe(&second, b));
    p->w = a->role == RPIPE_WRITER ? first : second;
    p->r = a->role == RPIPE_WRITER ? second : first;
}

static void check_description(rch_t ch, const rpipe_config_t *cfg)
{
    rinfo_pipe_t pipe;

    CHECK_OK(ch, rinfo_describe(ch, &pipe));
    assert_int_equal(pipe.heuristic, cfg->heuristic);
    assert_int_equal(pipe.mode, cfg->mode);
    assert_int_equal(pipe.unit_bytes, cfg->unit_bytes);
    assert_int_equal(pipe.heap_bytes, cfg->heap_bytes);
    assert_int_equal(pipe.max_heap_bytes, cfg->max_heap_bytes);
    assert_int_equal(pipe.slots, cfg->slots);
    assert_int_equal(pipe.sync_queue, cfg->sync_queue);
}

static void taken_over(rpipe_op_t op, rpipe_sync_t mode, bool open_end_first)
{
    rpipe_config_t cfg = decided(op, mode), open = left_open(op);
    struct pair p;

    open_both(&p, open_end_first ? &open : &cfg, open_end_first ? &cfg : &open);
    CHECK_OK(p.w, rwait(p.w));
    CHECK_OK(p.r, rwait(p.r));
    check_description(p.w, &cfg);
    check_description(p.r, &cfg);
    for (uint64_t i = 0; i < 200; i++) {
        size_t bytes = i % 3 == 0 ? 20 : 1 + i * 37 % 4000;

        pair_send(&p, bytes, i);
        pair_read_free(&p, bytes, i);
    }
    CHECK_ERRNO(EMSGSIZE, rmalloc(p.w, 16385));
    pair_close(&p);
}

static void test_taken_over(void **state)
{
    (void)state;
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++)
        for (int mode = RPIPE_SYNC_BLOCKS; mode <= RPIPE_SYNC_CHANNEL; mode++)
            for (int first = 0; first < 2; first++)
                taken_over((rpipe_op_t)op, (rpipe_sync_t)mode, first == 1);
}

/* Both leave everything open: the defaults of the end with the heap. */
static void test_defaults(void **state)
{
    rpipe_config_t w = {.role = RPIPE_WRITER}, r = {.role = RPIPE_READER};
    rinfo_pipe_t pipe;
    struct pair p;

    (void)state;
    open_both(&p, &w, &r);
    pair_send(&p, 1 << 20, 1);
    pair_read_free(&p, 1 << 20, 1);
    CHECK_OK(p.w, rinfo_describe(p.w, &pipe));
    assert_int_equal(pipe.heap_bytes, 1 << 20);
    assert_int_equal(pipe.unit_bytes, 64);
    assert_int_equal(pipe.heuristic, RMALLOC_NEXT_FIT);
    assert_int_equal(pipe.mode, RPIPE_SYNC_BLOCKS);
    pair_close(&p);
}

/* A writer does not have the heap before it is joined: calls that do not wait are pending, those that wait get memory. */
static void test_before_the_join(void **state)
{
    rpipe_config_t open = left_open(RPIPE_PUT), cfg = decided(RPIPE_PUT, RPIPE_SYNC_TAGS);
    rinfo_pipe_t pipe;
    raddr_t d = ANY_RADDR;
    uint64_t word = 5;
    struct pair p;

    (void)state;
    open.timeout_ms = 20;
    CHECK_OK(NULL, rpipe(&p.w, &open));
    CHECK_OK(p.w, rinfo_describe(p.w, &pipe));
    assert_true(pipe.heap_bytes == 0 && pipe.slots == 0 && pipe.unit_bytes == 0);
    assert_int_equal(rmalloc_nb(p.w, 8, &d), R_PENDING);
    assert_int_equal(rroom(p.w, 8), R_PENDING);
    assert_int_equal(rsend(p.w, &word, sizeof(word), R_NOWAIT), R_PENDING);
    assert_true(d == ANY_RADDR);
    CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, 8));
    assert_int_equal(rsend(p.w, &word, sizeof(word), 0), -ETIMEDOUT);
    CHECK_OK(p.w, rset_timeout(p.w, (int)CHECK_LATE_MS));
    CHECK_OK(NULL, rpipe(&p.r, &cfg));
    CHECK_OK(p.w, rsend(p.w, &word, sizeof(word), 0));
    word = 0;
    CHECK_OK(p.r, rrecv(p.r, &word, sizeof(word), NULL, 0));
    assert_int_equal(word, 5);
    pair_close(&p);
}

/* Closed before the other end is there, and the other way round. */
static void test_closed(void **state)
{
    rpipe_config_t open = left_open(RPIPE_PUT), cfg = decided(RPIPE_PUT, RPIPE_SYNC_BLOCKS);
    struct pair p;
    double start = now_ms();
    uint64_t word = 1;
    raddr_t d;
    int rc;

    (void)state;
    CHECK_OK(NULL, rpipe(&p.w, &open));
    CHECK_OK(p.w, rclose(p.w));
    CHECK_OK(NULL, rpipe(&p.r, &cfg));
    CHECK_RC(R_EOF, p.r, rread(p.r, &d, NULL));
    CHECK_OK(p.r, rclose(p.r));
    CHECK_OK(NULL, rpipe(&p.r, &cfg));
    CHECK_OK(p.r, rclose(p.r));
    CHECK_OK(NULL, rpipe(&p.w, &open));
    do /* the loss may be seen late, and slots that are free are used until then */
        rc = rsend(p.w, &word, sizeof(word), 0);
    while (rc == R_SUCCESS && now_ms() - start < CHECK_LATE_MS);
    assert_int_equal(rc, -EPIPE);
    CHECK_OK(p.w, rclose(p.w));
}

/* One that is larger than this end allows fails the pipe at both ends, with both numbers. */
static void refused(rpipe_config_t open, const rpipe_config_t *cfg, const char *here,
                    const char *there)
{
    struct pair p;

    open_both(&p, &open, cfg);
    CHECK_RC(-EPROTO, p.w, rwait(p.w));
    CHECK_RC(-EPROTO, p.r, rwait(p.r));
    for (int i = 0; i < 2; i++) {
        const char *text = rerror(i == 0 ? p.w : p.r);

        if (strstr(text, here) == NULL || strstr(text, there) == NULL)
            fail_msg("\"%s\" does not name %s and %s", text, here, there);
    }
    pair_close(&p);
}

static void test_at_most(void **state)
{
    (void)state;
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        rpipe_config_t cfg = decided((rpipe_op_t)op, RPIPE_SYNC_TAGS),
                       open = left_open((rpipe_op_t)op);

        open.heap_bytes_at_most = 16383;
        refused(open, &cfg, "16383", "16384"); /* growth included */
        open = left_open((rpipe_op_t)op);
        open.slots_at_most = 8;
        refused(open, &cfg, "8", "16");
        open = left_open((rpipe_op_t)op);
        open.sync_queue_at_most = 4;
        refused(open, &cfg, "4", "5");
        open = left_open((rpipe_op_t)op);
        open.slots = 32; /* given, and different */
        refused(open, &cfg, "32", "16");
        open = left_open((rpipe_op_t)op);
        open.heap_bytes_at_most = 16384;
        open.slots_at_most = 16;
        open.sync_queue_at_most = 5;
        open.unit_bytes = 128;
        taken_over((rpipe_op_t)op, RPIPE_SYNC_TAGS, true);
    }
}

/* The other end is found by rpending, and its row opens the pipe. */
static void test_pending(void **state)
{
    rpipe_config_t open = left_open(RPIPE_PUT), found;
    uint64_t seen = 0;
    struct pair p;
    int n;

    (void)state;
    CHECK_OK(NULL, rpipe(&p.w, &open));
    do
        n = rpending(CONTEXT, &seen, &found, 1);
    while (n == 0);
    assert_int_equal(n, 1);
    assert_int_equal(found.role, RPIPE_READER);
    CHECK_OK(NULL, rpipe(&p.r, &found));
    pair_send(&p, 500, 1);
    pair_read_free(&p, 500, 1);
    pair_close(&p);
}

/* A user of cells takes over their number. */
static void test_cells(void **state)
{
    rcells_config_t owner = {.role = RCELLS_OWNER, .cells = 20}, user = {.role = RCELLS_USER};
    rcells_t o, u;
    uint64_t old = 1;

    (void)state;
    for (int first = 0; first < 2; first++) {
        CHECK_OK(NULL, rcells_open(first == 0 ? &o : &u, first == 0 ? &owner : &user));
        CHECK_OK(NULL, rcells_open(first == 0 ? &u : &o, first == 0 ? &user : &owner));
        CHECK_OK(rcells_pipe(u), rcells_atomic(u, RCELLS_ADD, 19, 3, 0, &old));
        assert_int_equal(old, 0);
        CHECK_RC(-EINVAL, rcells_pipe(u), rcells_atomic(u, RCELLS_ADD, 20, 3, 0, &old));
        CHECK_OK(rcells_pipe(u), rcells_close(u));
        CHECK_OK(rcells_pipe(o), rcells_close(o));
    }
    user.cells_at_most = 19;
    CHECK_OK(NULL, rcells_open(&o, &owner));
    CHECK_OK(NULL, rcells_open(&u, &user));
    CHECK_RC(-EPROTO, rcells_pipe(u), rwait(rcells_pipe(u)));
    CHECK_OK(rcells_pipe(u), rcells_close(u));
    CHECK_OK(rcells_pipe(o), rcells_close(o));
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken_over),      cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_before_the_join), cmocka_unit_test(test_closed),
        cmocka_unit_test(test_at_most),         cmocka_unit_test(test_pending),
        cmocka_unit_test(test_cells),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
