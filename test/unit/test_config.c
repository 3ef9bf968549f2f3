/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What rpipe() says about configurations: rpipe(3), rmalloc_config(3). Whatever cannot be is an error at once, and
 * *ch is not touched; each limit is tried on both of its sides.
 */
#include "test/lib/pair.h"
#include <math.h>

#define UNTOUCHED ((rch_t)(uintptr_t)0x51)

static rmalloc_config_t good(void) { return pair_writer(pair_config(RDMA_PUT, 4096)); }

static void refused(int expected, const rmalloc_config_t *cfg, const char *what)
{
    rch_t ch = UNTOUCHED;
    int rc = rpipe(&ch, cfg);

    if (rc != expected)
        fail_msg("%s: %d (%s), not %d; %s", what, rc, rstrerror(rc), expected, rpipe_error(NULL));
    assert_true(ch == UNTOUCHED);
    if (strlen(rpipe_error(NULL)) < 10 || strchr(rpipe_error(NULL), '\n') != NULL ||
        strcmp(rpipe_error(NULL), "no error") == 0)
        fail_msg("%s: the sentence is \"%s\"", what, rpipe_error(NULL));
}

static void refused_naming(int expected, const rmalloc_config_t *cfg, const char *what,
                           const char *value)
{
    refused(expected, cfg, what);
    if (strstr(rpipe_error(NULL), value) == NULL)
        fail_msg("%s: the sentence does not name %s: \"%s\"", what, value, rpipe_error(NULL));
}

static void accepted(const rmalloc_config_t *cfg, const char *what)
{
    rch_t ch = NULL;
    int rc = rpipe(&ch, cfg);

    if (rc != R_SUCCESS)
        fail_msg("%s: %d (%s); %s", what, rc, rstrerror(rc), rpipe_error(NULL));
    assert_ok(ch, rclose(ch));
}

static void test_before_rinit(void **state)
{
    rmalloc_config_t cfg = good();

    (void)state;
    refused(-ENOTCONN, &cfg, "before rinit");
    refused(-ENOTCONN, NULL, "before rinit, cfg NULL: whatever the arguments are");
    assert_rc(-ENOTCONN, NULL, rpipe(NULL, NULL));
    assert_int_equal(pair_setup(state), 0);
}

static void test_good(void **state)
{
    rmalloc_config_t cfg = good();

    (void)state;
    accepted(&cfg, "the writer");
    cfg = pair_reader(pair_config(RDMA_PUT, 4096));
    accepted(&cfg, "the reader");
    cfg = pair_writer(pair_config(RDMA_GET, 4096));
    accepted(&cfg, "the writer of a GET channel");
    cfg = pair_reader(pair_config(RDMA_GET, 4096));
    accepted(&cfg, "the reader of a GET channel");
}

static void test_null(void **state)
{
    rmalloc_config_t cfg = good();

    (void)state;
    refused(-EINVAL, NULL, "cfg NULL");
    assert_rc(-EINVAL, NULL, rpipe(NULL, &cfg));
}

static void test_version(void **state)
{
    rmalloc_config_t cfg = good();

    (void)state;
    cfg.version = 0;
    refused(-EINVAL, &cfg, "version 0");
    cfg.version = RMALLOC_CONFIG_VERSION + 1;
    refused(-EINVAL, &cfg, "version 2");
}

static void test_peer(void **state)
{
    static const int bad[] = {-1, 1, 2, INT32_MAX, INT32_MIN};
    char text[16];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        rmalloc_config_t cfg = good();

        cfg.allocator.peer = bad[i];
        snprintf(text, sizeof(text), "%d", bad[i]);
        refused_naming(-EINVAL, &cfg, "peer", text);
    }
}

static void test_alloc_size(void **state)
{
    static const uint64_t sizes[] = {1, 2, 63, 64, 65, 1000, 4097, 1048577};
    rmalloc_config_t cfg = good();

    (void)state;
    cfg.allocator.alloc_size = 0;
    refused(-EINVAL, &cfg, "alloc_size 0");
    cfg.allocator.alloc_size = (64ull << 31) + 1;
    refused(-EINVAL, &cfg, "alloc_size beyond 2^31 units");
    cfg.allocator.alloc_size = UINT64_MAX;
    refused(-EINVAL, &cfg, "alloc_size 2^64 - 1");
    cfg.allocator.unit_size = 1;
    cfg.allocator.alloc_size = (1ull << 31) + 1;
    refused(-EINVAL, &cfg, "alloc_size beyond 2^31 units of 1");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        cfg = good();
        cfg.allocator.alloc_size = sizes[i];
        accepted(&cfg, "alloc_size");
    }
}

static void test_unit_size(void **state)
{
    static const uint32_t bad[] = {0,        3,        63,        65, 96, (1u << 20) + 1,
                                   1u << 21, 1u << 31, UINT32_MAX};
    rmalloc_config_t cfg;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char text[16];

        cfg = good();
        cfg.allocator.unit_size = bad[i];
        snprintf(text, sizeof(text), "%u", bad[i]);
        refused_naming(-EINVAL, &cfg, "unit_size", text);
    }
    for (uint32_t unit = 1; unit <= 1u << 20; unit *= 2) {
        cfg = good();
        cfg.allocator.unit_size = unit;
        accepted(&cfg, "unit_size");
    }
}

static void test_slots(void **state)
{
    static const uint32_t bad[] = {1, 3, 63, 65, 65537, 131072, UINT32_MAX};
    rmalloc_config_t cfg;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char text[16];

        cfg = good();
        cfg.slots = bad[i];
        snprintf(text, sizeof(text), "%u", bad[i]);
        refused_naming(-EINVAL, &cfg, "slots", text);
    }
    for (uint32_t slots = 2; slots <= 65536; slots *= 2) {
        cfg = pair_reader(pair_config(RDMA_PUT, 4096));
        cfg.slots = slots;
        accepted(&cfg, "slots");
    }
}

static void test_watermark(void **state)
{
    static const double fine[] = {-1.0, -0.5, 0.0, 0.5, 1.0};
    static const double bad[] = {1.01, 2.0, (double)INFINITY, (double)NAN};
    rmalloc_config_t cfg;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        cfg = good();
        cfg.watermark = bad[i];
        refused(-EINVAL, &cfg, "watermark");
    }
    for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++) {
        cfg = good();
        cfg.watermark = fine[i];
        accepted(&cfg, "watermark");
    }
}

static void test_timeout(void **state)
{
    static const int fine[] = {RPIPE_TIMEOUT_AUTO, -1, 0, 1, INT32_MAX};
    rmalloc_config_t cfg = good();

    (void)state;
    cfg.timeout_ms = -3;
    refused(-EINVAL, &cfg, "timeout_ms -3");
    cfg.timeout_ms = INT32_MIN;
    refused(-EINVAL, &cfg, "timeout_ms INT_MIN");
    for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++) {
        cfg = good();
        cfg.timeout_ms = fine[i];
        accepted(&cfg, "timeout_ms");
    }
}

static void test_enums(void **state)
{
    rmalloc_config_t cfg = good();

    (void)state;
    cfg.allocator.op = (rdma_op_t)3;
    refused(-EINVAL, &cfg, "op 3");
    cfg = good();
    cfg.allocator.algorithm = (rmalloc_algorithm_t)5;
    refused(-EINVAL, &cfg, "algorithm 5");
    cfg = good();
    cfg.sync = (rmalloc_sync_t)3;
    refused(-EINVAL, &cfg, "sync 3");

    cfg = good();
    cfg.allocator.op = RDMA_ATOMIC;
    cfg.allocator.alloc_size = 12;
    refused(-EINVAL, &cfg, "cells are of 8 bytes");
}

/* table 3.1 of the thesis */
static void test_modes(void **state)
{
    (void)state;
    for (int a = NEXT_FIT; a <= RANDOM_FIT; a++)
        for (int s = NET_SYNC_BLOCKS; s <= CHANNEL_SYNC; s++) {
            rmalloc_config_t cfg = good();

            cfg.allocator.algorithm = (rmalloc_algorithm_t)a;
            cfg.sync = (rmalloc_sync_t)s;
            if (a == NEXT_FIT || s != NET_SYNC_BLOCKS) {
                accepted(&cfg, "a mode and a heuristic that go together");
                continue;
            }
            refused_naming(-EINVAL, &cfg, "blocks with other than NEXT_FIT", "NET_SYNC_TAGS");
            refused_naming(-EINVAL, &cfg, "blocks with other than NEXT_FIT", "CHANNEL_SYNC");
        }
}

static void test_sync_queue(void **state)
{
    static const uint32_t good_ones[] = {0, 1, 2, 3, 1000, 65537, 1u << 24};

    (void)state;
    for (int s = NET_SYNC_BLOCKS; s <= CHANNEL_SYNC; s++)
        for (size_t i = 0; i < sizeof(good_ones) / sizeof(good_ones[0]); i++) {
            rmalloc_config_t cfg = good();

            cfg.sync = (rmalloc_sync_t)s;
            cfg.sync_queue = s == CHANNEL_SYNC && good_ones[i] > 65537
                                 ? 65536
                                 : good_ones[i]; /* 64 bytes each */
            accepted(&cfg, "sync_queue");
            cfg.sync_queue = (1u << 24) + 1;
            refused_naming(-EINVAL, &cfg, "sync_queue", "16777217");
        }
}

static void test_max_alloc_size(void **state)
{
    rmalloc_config_t cfg = good();

    (void)state;
    cfg.allocator.max_alloc_size = cfg.allocator.alloc_size;
    accepted(&cfg, "max_alloc_size = alloc_size");
    cfg.allocator.max_alloc_size = cfg.allocator.alloc_size + 1;
    accepted(&cfg, "max_alloc_size = alloc_size + 1");
    cfg.allocator.max_alloc_size = cfg.allocator.alloc_size - 1;
    refused_naming(-EINVAL, &cfg, "max_alloc_size below alloc_size", "max_alloc_size");
    cfg.allocator.max_alloc_size = (UINT64_C(1) << 31) * cfg.allocator.unit_size;
    accepted(&cfg, "max_alloc_size of 2^31 units");
    cfg.allocator.max_alloc_size++;
    refused_naming(-EINVAL, &cfg, "max_alloc_size above 2^31 units", "max_alloc_size");
}

static void test_btl(void **state)
{
    rmalloc_config_t cfg = good();
    char name[8] = "shm";

    (void)state;
    cfg.btl = "carrier-pigeon";
    refused_naming(-ENOTSUP, &cfg, "btl", "carrier-pigeon");
    cfg.btl = "";
    refused(-ENOTSUP, &cfg, "btl of no letters");
    cfg.btl = "../shm";
    refused(-ENOTSUP, &cfg, "btl with a path");
    cfg.btl = name;
    accepted(&cfg, "btl shm");
}

/* "any number" */
static void test_ctx(void **state)
{
    static const uint32_t ctx[] = {0, 1, 65535, 65536, UINT32_MAX - 1, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(ctx) / sizeof(*ctx); i++) {
        rmalloc_config_t cfg = good();

        cfg.ctx = ctx[i];
        accepted(&cfg, "ctx");
    }
}

static void test_exists(void **state)
{
    rmalloc_config_t cfg = pair_config(RDMA_PUT, 4096), w = pair_writer(cfg), r = pair_reader(cfg);
    rch_t writer, reader;

    (void)state;
    assert_ok(NULL, rpipe(&writer, &w));
    refused(-EEXIST, &w, "the writer twice");
    w.allocator.op = RDMA_GET; /* the same end, opened otherwise */
    w.allocator.rdma_active = false;
    refused(-EEXIST, &w, "the writer twice, PUT and GET");
    assert_ok(NULL, rpipe(&reader, &r));
    refused(-EEXIST, &r, "the reader twice");
    assert_ok(reader, rpipe_wait(reader));
    assert_ok(writer, rclose(writer));
    refused(-EEXIST, &r, "the reader twice, when the writer has closed");
    assert_ok(reader, rclose(reader));
    accepted(&r, "the reader again, after rclose");
}

/* 1 PiB is not there, and it is said at once, not by a SIGBUS or by the killer of processes later */
static void test_memory(void **state)
{
    rmalloc_config_t cfg = pair_reader(pair_config(RDMA_PUT, 1ull << 50));
    double begun = pair_now_ms();

    (void)state;
    cfg.allocator.unit_size = 1u << 20;
    refused(-ENOMEM, &cfg, "a heap of 1 PiB, PUT");
    cfg = pair_writer(pair_config(RDMA_GET, 1ull << 50));
    cfg.allocator.unit_size = 1u << 20;
    refused(-ENOMEM, &cfg, "a heap of 1 PiB, GET");
    assert_true(pair_now_ms() - begun < PAIR_LATE_MS);
    /* the heap is at the other end */
    cfg = pair_writer(pair_config(RDMA_PUT, 1ull << 50));
    cfg.allocator.unit_size = 1u << 20;
    accepted(&cfg, "the end without the heap");
}

/* the structure is copied, the string too */
static void test_copied(void **state)
{
    rmalloc_config_t w = good(), r = pair_reader(w);
    char name[8] = "shm";
    struct pair p;
    raddr_t d;

    (void)state;
    w.btl = name;
    assert_ok(NULL, rpipe(&p.w, &w));
    memset(name, 'x', sizeof(name) - 1);
    memset(&w, 0xff, sizeof(w));
    assert_ok(NULL, rpipe(&p.r, &r));
    memset(&r, 0xff, sizeof(r));
    pair_send(&p, 4096, 1);
    d = pair_receive(&p, 4096, 1);
    assert_ok(p.r, rfree(p.r, d));
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_rinit), /* which is called here */
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_peer),
        cmocka_unit_test(test_alloc_size),
        cmocka_unit_test(test_unit_size),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_watermark),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_enums),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_sync_queue),
        cmocka_unit_test(test_max_alloc_size),
        cmocka_unit_test(test_btl),
        cmocka_unit_test(test_ctx),
        cmocka_unit_test(test_exists),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_copied),
    };

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    return cmocka_run_group_tests(tests, NULL, pair_teardown);
}
