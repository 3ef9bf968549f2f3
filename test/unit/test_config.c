/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What rpipe() returns for configurations: rpipe(3), rmalloc_config(3). Whatever is invalid is an error at once, and
 * *ch is not touched; each limit is tried on both of its sides.
 */
#include "test/lib/pair.h"
#include <math.h>
#include <rinfo.h>
#include <rpipe.h>

#define UNTOUCHED ((rch_t)(uintptr_t)0x51)

static rpipe_config_t good(void) { return pair_writer(pair_config(RPIPE_PUT, 4096)); }

static void refused(int expected, const rpipe_config_t *cfg, const char *what)
{
    rch_t ch = UNTOUCHED;
    int rc = rpipe(&ch, cfg);

    if (rc != expected)
        fail_msg("%s: %d (%s), not %d; %s", what, rc, rinfo_strerror(rc), expected, rerror(NULL));
    assert_true(ch == UNTOUCHED);
    if (strlen(rerror(NULL)) < 10 || strchr(rerror(NULL), '\n') != NULL ||
        strcmp(rerror(NULL), "no error") == 0)
        fail_msg("%s: the error message is \"%s\"", what, rerror(NULL));
}

static void refused_naming(int expected, const rpipe_config_t *cfg, const char *what,
                           const char *value)
{
    refused(expected, cfg, what);
    if (strstr(rerror(NULL), value) == NULL)
        fail_msg("%s: the error message does not name %s: \"%s\"", what, value, rerror(NULL));
}

static void accepted(const rpipe_config_t *cfg, const char *what)
{
    rch_t ch = NULL;
    int rc = rpipe(&ch, cfg);

    if (rc != R_SUCCESS)
        fail_msg("%s: %d (%s); %s", what, rc, rinfo_strerror(rc), rerror(NULL));
    CHECK_OK(ch, rclose(ch));
}

static void test_before_rinit(void **state)
{
    rpipe_config_t cfg = good();

    (void)state;
    refused(-ENOTCONN, &cfg, "before rinit");
    refused(-ENOTCONN, NULL, "before rinit, cfg NULL: whatever the arguments are");
    CHECK_RC(-ENOTCONN, NULL, rpipe(NULL, NULL));
    assert_int_equal(pair_setup(state), 0);
}

static void test_good(void **state)
{
    rpipe_config_t cfg = good();

    (void)state;
    accepted(&cfg, "the writer");
    cfg = pair_reader(pair_config(RPIPE_PUT, 4096));
    accepted(&cfg, "the reader");
    cfg = pair_writer(pair_config(RPIPE_GET, 4096));
    accepted(&cfg, "the writer of a GET channel");
    cfg = pair_reader(pair_config(RPIPE_GET, 4096));
    accepted(&cfg, "the reader of a GET channel");
}

static void test_null(void **state)
{
    rpipe_config_t cfg = good();

    (void)state;
    refused(-EINVAL, NULL, "cfg NULL");
    CHECK_RC(-EINVAL, NULL, rpipe(NULL, &cfg));
}

/* The size travels with the call: a shorter structure than that of 0.2.0 does not exist, a longer one ends in zeros. */
static void test_size(void **state)
{
    static const size_t bad[] = {0, 1, sizeof(rpipe_config_t) - 1};
    struct {
        rpipe_config_t cfg;
        uint64_t more[2];
    } longer = {.cfg = good()};
    rch_t ch = UNTOUCHED;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK_RC(-EINVAL, NULL, (rpipe)(&ch, &longer.cfg, bad[i]));
    longer.more[1] = 1;
    CHECK_RC(-E2BIG, NULL, (rpipe)(&ch, &longer.cfg, sizeof(longer)));
    assert_true(ch == UNTOUCHED);
    longer.more[1] = 0;
    CHECK_OK(NULL, (rpipe)(&ch, &longer.cfg, sizeof(longer)));
    CHECK_OK(ch, rclose(ch));
}

static void test_role(void **state)
{
    rpipe_config_t cfg = good();

    (void)state;
    cfg.role = 0;
    refused_naming(-EINVAL, &cfg, "role 0", "RPIPE_WRITER");
    cfg.role = 3;
    refused_naming(-EINVAL, &cfg, "role 3", "3");
    cfg = good();
    cfg.flags = 4;
    refused_naming(-EINVAL, &cfg, "flags 4", "0x4");
}

static void test_peer(void **state)
{
    static const int bad[] = {-1, 1, 2, INT32_MAX, INT32_MIN};
    char text[16];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        rpipe_config_t cfg = good();

        cfg.peer = bad[i];
        snprintf(text, sizeof(text), "%d", bad[i]);
        refused_naming(-ENOENT, &cfg, "peer", text);
    }
}

static void test_heap_bytes(void **state)
{
    static const uint64_t sizes[] = {1, 2, 63, 64, 65, 1000, 4097, 1048577};
    rpipe_config_t cfg = good();

    (void)state;
    cfg.heap_bytes = 0;
    accepted(&cfg, "heap_bytes 0: the default");
    cfg.heap_bytes = (64ull << 31) + 1;
    refused(-EINVAL, &cfg, "heap_bytes beyond 2^31 units");
    cfg.heap_bytes = UINT64_MAX;
    refused(-EINVAL, &cfg, "heap_bytes 2^64 - 1");
    cfg.unit_bytes = 1;
    cfg.heap_bytes = (1ull << 31) + 1;
    refused(-EINVAL, &cfg, "heap_bytes beyond 2^31 units of 1");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        cfg = good();
        cfg.heap_bytes = sizes[i];
        accepted(&cfg, "heap_bytes");
    }
}

static void test_unit_bytes(void **state)
{
    static const uint32_t bad[] = {3, 63, 65, 96, (1u << 20) + 1, 1u << 21, 1u << 31, UINT32_MAX};
    rpipe_config_t cfg;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char text[16];

        cfg = good();
        cfg.unit_bytes = bad[i];
        snprintf(text, sizeof(text), "%u", bad[i]);
        refused_naming(-EINVAL, &cfg, "unit_bytes", text);
    }
    for (uint32_t unit = 1; unit <= 1u << 20; unit *= 2) {
        cfg = good();
        cfg.unit_bytes = unit;
        accepted(&cfg, "unit_bytes");
    }
}

static void test_slots(void **state)
{
    static const uint32_t bad[] = {1, 3, 63, 65, 65537, 131072, UINT32_MAX};
    rpipe_config_t cfg;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char text[16];

        cfg = good();
        cfg.slots = bad[i];
        snprintf(text, sizeof(text), "%u", bad[i]);
        refused_naming(-EINVAL, &cfg, "slots", text);
    }
    for (uint32_t slots = 2; slots <= 65536; slots *= 2) {
        cfg = pair_reader(pair_config(RPIPE_PUT, 4096));
        cfg.slots = slots;
        accepted(&cfg, "slots");
    }
}

static void test_watermark(void **state)
{
    static const int fine[] = {RPIPE_WATERMARK_ALWAYS, 0, 1, 50, 100};
    static const int bad[] = {-2, 101, INT32_MAX, INT32_MIN};
    rpipe_config_t cfg;

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
    static const int fine[] = {R_AT_ONCE, R_FOREVER, 0, 1, INT32_MAX};
    rpipe_config_t cfg = good();

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
    rpipe_config_t cfg = good();

    (void)state;
    cfg.op = (rpipe_op_t)2;
    refused(-EINVAL, &cfg, "op 2");
    cfg = good();
    cfg.heuristic = (rmalloc_fit_t)6;
    refused(-EINVAL, &cfg, "heuristic 6");
    cfg = good();
    cfg.mode = (rpipe_sync_t)4;
    refused(-EINVAL, &cfg, "mode 4");
    cfg = good();
    cfg.inline_max = 41;
    refused(-EINVAL, &cfg, "inline_max 41");
    cfg.inline_max = -2;
    refused(-EINVAL, &cfg, "inline_max -2");
}

/* table 3.1 of the thesis */
static void test_modes(void **state)
{
    (void)state;
    for (int a = RMALLOC_NEXT_FIT; a <= RMALLOC_SEGREGATED_FIT; a++)
        for (int s = RPIPE_SYNC_BLOCKS; s <= RPIPE_SYNC_CHANNEL; s++) {
            rpipe_config_t cfg = good();

            cfg.heuristic = (rmalloc_fit_t)a;
            cfg.mode = (rpipe_sync_t)s;
            if (a == RMALLOC_NEXT_FIT || s != RPIPE_SYNC_BLOCKS) {
                accepted(&cfg, "a mode and a heuristic that go together");
                continue;
            }
            refused_naming(-EINVAL, &cfg, "blocks with other than RMALLOC_NEXT_FIT",
                           "RPIPE_SYNC_TAGS");
            refused_naming(-EINVAL, &cfg, "blocks with other than RMALLOC_NEXT_FIT",
                           "RPIPE_SYNC_CHANNEL");
        }
}

static void test_sync_queue(void **state)
{
    static const uint32_t good_ones[] = {0, 1, 2, 3, 1000, 65537, 1u << 24};

    (void)state;
    for (int s = RPIPE_SYNC_BLOCKS; s <= RPIPE_SYNC_CHANNEL; s++)
        for (size_t i = 0; i < sizeof(good_ones) / sizeof(good_ones[0]); i++) {
            rpipe_config_t cfg = good();

            cfg.mode = (rpipe_sync_t)s;
            cfg.sync_queue = s == RPIPE_SYNC_CHANNEL && good_ones[i] > 65537
                                 ? 65536
                                 : good_ones[i]; /* 64 bytes each */
            accepted(&cfg, "sync_queue");
            cfg.sync_queue = (1u << 24) + 1;
            refused_naming(-EINVAL, &cfg, "sync_queue", "16777217");
        }
}

static void test_max_heap_bytes(void **state)
{
    rpipe_config_t cfg = good();

    (void)state;
    cfg.max_heap_bytes = cfg.heap_bytes;
    accepted(&cfg, "max_heap_bytes = heap_bytes");
    cfg.max_heap_bytes = cfg.heap_bytes + 1;
    accepted(&cfg, "max_heap_bytes = heap_bytes + 1");
    cfg.max_heap_bytes = cfg.heap_bytes - 1;
    refused_naming(-EINVAL, &cfg, "max_heap_bytes below heap_bytes", "max_heap_bytes");
    cfg.max_heap_bytes = (UINT64_C(1) << 31) * cfg.unit_bytes;
    accepted(&cfg, "max_heap_bytes of 2^31 units");
    cfg.max_heap_bytes++;
    refused_naming(-EINVAL, &cfg, "max_heap_bytes above 2^31 units", "max_heap_bytes");
}

static void test_btl(void **state)
{
    rpipe_config_t cfg = good();
    char name[8] = "shm";

    (void)state;
    cfg.backend = "carrier-pigeon";
    refused_naming(-ENOTSUP, &cfg, "btl", "carrier-pigeon");
    cfg.backend = "";
    refused(-ENOTSUP, &cfg, "btl of no letters");
    cfg.backend = "../shm";
    refused(-ENOTSUP, &cfg, "btl with a path");
    cfg.backend = name;
    accepted(&cfg, "btl shm");
}

/* "any number" */
static void test_ctx(void **state)
{
    static const uint64_t ctx[] = {0, 1, 65535, 65536, UINT32_MAX - 1, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(ctx) / sizeof(*ctx); i++) {
        rpipe_config_t cfg = good();

        cfg.context = ctx[i];
        accepted(&cfg, "context");
        cfg.context |= UINT64_C(1) << 61;
        refused(-EINVAL, &cfg, "a context of the library");
        cfg.context = UINT64_C(1) << 62 | ctx[i];
        refused(-EINVAL, &cfg, "a context of cells");
    }
}

/* Contexts of a name: the same in every process and version, apart from each other and from those of the library. */
static void test_named_contexts(void **state)
{
    uint64_t halo = rcontext("md.halo"), tree = rcontext("tree");
    rpipe_config_t cfg = good();

    (void)state;
    assert_true(rcontext(NULL) == 0 && rcontext("") == 0);
    assert_true(halo == rcontext("md.halo") && halo != tree);
    assert_true((halo & 0xfffff) == 0 && (halo >> 61) == 4);
    assert_true(rcontext("a") != rcontext("b") && rcontext("ab") != rcontext("ba"));
    cfg.context = halo + 7;
    accepted(&cfg, "a named context");
}

static void test_exists(void **state)
{
    rpipe_config_t cfg = pair_config(RPIPE_PUT, 4096), w = pair_writer(cfg), r = pair_reader(cfg);
    rch_t writer, reader;

    (void)state;
    CHECK_OK(NULL, rpipe(&writer, &w));
    refused(-EEXIST, &w, "the writer twice");
    w.op = RPIPE_GET; /* the same end, opened otherwise */
    refused(-EEXIST, &w, "the writer twice, PUT and GET");
    CHECK_OK(NULL, rpipe(&reader, &r));
    refused(-EEXIST, &r, "the reader twice");
    CHECK_OK(reader, rwait(reader));
    CHECK_OK(writer, rclose(writer));
    refused(-EEXIST, &r, "the reader twice, when the writer has closed");
    CHECK_OK(reader, rclose(reader));
    accepted(&r, "the reader again, after rclose");
}

/* 1 PiB is not there, and that is reported at once, not by a SIGBUS or by the killer of processes later */
static void test_memory(void **state)
{
    rpipe_config_t cfg = pair_reader(pair_config(RPIPE_PUT, 1ull << 50));
    double begun = now_ms();

    (void)state;
    cfg.unit_bytes = 1u << 20;
    refused(-ENOMEM, &cfg, "a heap of 1 PiB, PUT");
    cfg = pair_writer(pair_config(RPIPE_GET, 1ull << 50));
    cfg.unit_bytes = 1u << 20;
    refused(-ENOMEM, &cfg, "a heap of 1 PiB, GET");
    assert_true(now_ms() - begun < CHECK_LATE_MS);
    /* the heap is at the other end */
    cfg = pair_writer(pair_config(RPIPE_PUT, 1ull << 50));
    cfg.unit_bytes = 1u << 20;
    accepted(&cfg, "the end without the heap");
}

/* the structure is copied, the string too */
static void test_copied(void **state)
{
    rpipe_config_t w = good(), r = pair_reader(w);
    char name[8] = "shm";
    struct pair p;
    raddr_t d;

    (void)state;
    w.backend = name;
    CHECK_OK(NULL, rpipe(&p.w, &w));
    memset(name, 'x', sizeof(name) - 1);
    memset(&w, 0xff, sizeof(w));
    CHECK_OK(NULL, rpipe(&p.r, &r));
    memset(&r, 0xff, sizeof(r));
    pair_send(&p, 4096, 1);
    d = pair_receive(&p, 4096, 1);
    CHECK_OK(p.r, rfree(p.r, d));
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_rinit), /* which is called here */
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_role),
        cmocka_unit_test(test_peer),
        cmocka_unit_test(test_heap_bytes),
        cmocka_unit_test(test_unit_bytes),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_watermark),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_enums),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_sync_queue),
        cmocka_unit_test(test_max_heap_bytes),
        cmocka_unit_test(test_btl),
        cmocka_unit_test(test_ctx),
        cmocka_unit_test(test_named_contexts),
        cmocka_unit_test(test_exists),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_copied),
    };

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    return cmocka_run_group_tests(tests, NULL, pair_teardown);
}
