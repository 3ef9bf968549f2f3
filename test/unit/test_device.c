/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes whose heap is memory of a device, both ends in one process: configurations and calls that are refused, and calls of the device
 * that fail. test/mpi/mp_device.c moves messages.
 */
#include "test/lib/fake_device.h"
#include "test/lib/pair.h"

#include <rinfo.h>
#include <sched.h>

enum { HEAP = 1 << 16 };

static struct fake_device device = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t memory;
static uint32_t ctx;

static rpipe_config_t device_config(rpipe_role_t role, rpipe_op_t op)
{
    return (rpipe_config_t){
        .role = role, .op = op, .context = 1000 + ctx, .heap_bytes = HEAP, .memory = &memory};
}

static struct pair device_pair(rpipe_op_t op)
{
    rpipe_config_t w = device_config(RPIPE_WRITER, op), r = device_config(RPIPE_READER, op);
    struct pair p = {NULL, NULL};

    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_OK(NULL, rpipe(&p.r, &r));
    ctx++;
    return p;
}

static void device_pair_close(struct pair *p)
{
    double since = now_ms();

    CHECK_OK(p->w, rclose(p->w));
    CHECK_OK(p->r, rclose(p->r));
    /* by the service thread, when each end has the other one's close message */
    while (atomic_load(&device.allocations) + atomic_load(&device.imports) != 0 &&
           now_ms() - since < CHECK_LATE_MS)
        sched_yield();
    assert_int_equal(atomic_load(&device.allocations), 0);
    assert_int_equal(atomic_load(&device.imports), 0);
}

static raddr_t device_message(rch_t ch, size_t bytes, uint64_t key)
{
    raddr_t d = rmalloc(ch, bytes);

    assert_true(d != ADDR_NULL);
    pattern_fill(fake_at(&device, rmem(ch, d), bytes).inside, bytes, key);
    return d;
}

static void assert_refused(const rpipe_config_t *cfg, int code, const char *words)
{
    rch_t ch = NULL;

    CHECK_RC(code, NULL, rpipe(&ch, cfg));
    if (strstr(rerror(NULL), words) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", rerror(NULL), words);
    assert_int_equal(device.allocations, 0);
}

static void test_configurations(void **state)
{
    rpipe_config_t cfg = device_config(RPIPE_READER, RPIPE_PUT);
    rmemory_ops_t other = memory;

    (void)state;
    cfg.memory = &other;
    other.version = RMEMORY_VERSION + 1;
    assert_refused(&cfg, -EINVAL, "version");
    other = memory;
    other.import = NULL;
    assert_refused(&cfg, -EINVAL, "import");
    other = memory;
    cfg.inline_max = 8;
    assert_refused(&cfg, -EINVAL, "inline_max");
    cfg.inline_max = RPIPE_INLINE_NONE;
    cfg.max_heap_bytes = 2 * HEAP;
    assert_refused(&cfg, -EINVAL, "does not grow");
    cfg.max_heap_bytes = 0;
    device.fail_alloc = ENOMEM;
    assert_refused(&cfg, -ENOMEM, "fake: alloc of 65536 bytes");
    cfg.backend = "tcp";
    assert_refused(&cfg, -ENOTSUP, "does not reach memory of a device");
}

static void test_the_device_sees_what_was_sent(void **state)
{
    (void)state;
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        struct pair p = device_pair((rpipe_op_t)op);
        static uint8_t bytes[1000];
        rinfo_pipe_t about;
        raddr_t d;
        size_t n;

        CHECK_OK(p.w, rwrite(p.w, device_message(p.w, 1000, 7)));
        CHECK_OK(p.r, rread(p.r, &d, &n));
        assert_int_equal(n, 1000);
        assert_true(pattern_same(fake_at(&device, rmem(p.r, d), n).inside, n, 7));
        CHECK_OK(p.r, rfree(p.r, d));
        CHECK_OK(p.w, rwrite_n(p.w, device_message(p.w, 1000, 8), 10));
        CHECK_OK(p.r, rrecv(p.r, bytes, sizeof(bytes), &n, 0));
        assert_true(n == 10 && pattern_same(bytes, 10, 8));
        CHECK_OK(p.w, rsend(p.w, bytes, 0, 0)); /* in its slot: there are no bytes */
        CHECK_OK(p.r, rread(p.r, &d, &n));
        assert_int_equal(n, 0);
        CHECK_OK(p.r, rfree(p.r, d));
        CHECK_OK(p.r, rinfo_describe(p.r, &about));
        assert_non_null(strstr(about.path, "memory of a device (fake)"));
        device_pair_close(&p);
    }
}

static void test_calls_of_the_device_fail(void **state)
{
    struct pair p = device_pair(RPIPE_PUT);
    raddr_t d, got;
    size_t n;

    (void)state;
    d = device_message(p.w, 100, 1);
    device.fail_left = EIO;
    CHECK_RC(-EIO, p.w, rwrite(p.w, d)); /* still the writer's */
    assert_non_null(strstr(rerror(p.w), "fake: left of 100 bytes"));
    CHECK_OK(p.w, rwrite(p.w, d));
    CHECK_OK(p.w, rwrite(p.w, device_message(p.w, 50, 2)));
    device.fail_arrived = EIO;
    CHECK_RC(-EIO, p.r, rread(p.r, &got, &n));
    assert_non_null(strstr(rerror(p.r), "fake: arrived of 100 bytes"));
    CHECK_OK(p.r, rread(p.r, &got, &n)); /* the next one */
    assert_true(n == 50 && pattern_same(fake_at(&device, rmem(p.r, got), n).inside, n, 2));
    CHECK_OK(p.r, rfree(p.r, got));
    device_pair_close(&p);
}

static void test_an_import_fails(void **state)
{
    rpipe_config_t w = device_config(RPIPE_WRITER, RPIPE_PUT),
                   r = device_config(RPIPE_READER, RPIPE_PUT);
    struct pair p = {NULL, NULL};

    (void)state;
    device.fail_import = EPROTO;
    CHECK_OK(NULL, rpipe(&p.r, &r));
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_RC(-EPROTO, p.w, rwait(p.w));
    assert_non_null(strstr(rerror(p.w), "fake: import of 65536 bytes of rank 0"));
    ctx++;
    device_pair_close(&p);
}

static void test_what_needs_a_processor_is_refused(void **state)
{
    struct pair p = device_pair(RPIPE_GET);
    static uint8_t bytes[64];
    rregion_t region;
    raddr_t d;
    size_t n;

    (void)state;
    CHECK_RC(-ENOTSUP, p.w, rregion_open(&region, p.w, bytes, sizeof(bytes)));
    CHECK_OK(NULL, rregion_open(&region, NULL, NULL, sizeof(bytes)));
    CHECK_RC(-ENOTSUP, p.w, rwrite_from(p.w, region, 0, 8, 0, NULL, 0));
    CHECK_RC(-ENOTSUP, p.r, rread_into(p.r, region, 0, 8, NULL, NULL, R_NOWAIT));
    CHECK_OK(NULL, rregion_close(region));
    memory.copy_in = NULL;
    memory.copy_out = NULL;
    CHECK_RC(-ENOTSUP, p.w, rsend(p.w, bytes, 8, 0));
    assert_non_null(strstr(rerror(p.w), "fake has no copy_in"));
    CHECK_OK(p.w, rwrite(p.w, device_message(p.w, 20, 3)));
    CHECK_RC(-ENOTSUP, p.r, rrecv(p.r, bytes, sizeof(bytes), &n, 0));
    CHECK_OK(p.r, rread(p.r, &d, &n)); /* it is still the next one */
    assert_true(n == 20 && pattern_same(fake_at(&device, rmem(p.r, d), n).inside, n, 3));
    CHECK_OK(p.r, rfree(p.r, d));
    memory = fake_ops(&device);
    device_pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configurations),
        cmocka_unit_test(test_the_device_sees_what_was_sent),
        cmocka_unit_test(test_calls_of_the_device_fail),
        cmocka_unit_test(test_an_import_fails),
        cmocka_unit_test(test_what_needs_a_processor_is_refused),
    };
    int failed;

    memory = fake_ops(&device);
    pair_process = getpid();
    if (rinit(NULL, NULL) != 0)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || rexit() != 0;
}
