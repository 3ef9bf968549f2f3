/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_hmem.c: pipes and windows with memory of a device over libfabric: what is registered by the kind of the device, and what staged, and why, where the
 * provider has less (fake_hmem.h) or RPIPE_OFI_HMEM is set. Each row is a process. test_device.c, test_device_region.c and
 * test_device_window.c run over the same provider (hmem_device, hmem_device_region, hmem_device_window).
 */
#include "test/unit/device_pair.h"

#include "test/btl/fake_hmem.h"

enum { MESSAGES = 60 };

/* What a row is about. */
static const struct row {
    const char *name; /* FAKE_HMEM */
    struct fake_hmem_limits limits;
    const char *setting; /* RPIPE_OFI_HMEM; NULL: none */
    bool plain_first;    /* the backend is opened for a pipe without memory of a device */
    const char *why;     /* staged; NULL: registered */
    int requests;        /* FI_HMEM is requested: 1; or not: 0 */
} rows[] = {
    {"registered", {.registers = 1000}, NULL, false, NULL, 1},
    {"local", {.registers = 1000, .local = true}, NULL, false, NULL, 1},
    {"none", {.none = true}, NULL, false, "without FI_HMEM: No data available", 1},
    {"unordered", {.unordered = true}, NULL, false, "does not keep writes in order", 1},
    {"opens not", {.opens_not = true}, NULL, false, "fi_domain: No such device", 1},
    {"refused", {.registers = 0}, NULL, false, "fi_mr_regattr of 65536 bytes of a device: ", 1},
    {"no", {.registers = 1000}, "no", false, "without FI_HMEM: RPIPE_OFI_HMEM=no", 0},
    {"late", {.registers = 1000}, NULL, true, "opened before any pipe with memory of a device", 0},
    {"early", {.registers = 1000}, "yes", true, NULL, 1},
    {"number", {.registers = 1000}, NULL, false, "no number 4294967299 of a device", 1},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
static const struct row *row;

static uint64_t staged(rch_t ch)
{
    uint64_t n;

    CHECK_OK(ch, rinfo_count(ch, "staged", &n));
    return n;
}

static void pass(const struct pair *p)
{
    for (uint64_t i = 0; i < MESSAGES; i++) {
        size_t size = 1 + random_mix(i) % (HEAP / 4), got;
        raddr_t d;

        CHECK_OK(p->w, rwrite(p->w, device_message(p->w, size, i)));
        CHECK_OK(p->r, rread(p->r, &d, &got));
        assert_true(got == size && device_has(p->r, d, size, i));
        CHECK_OK(p->r, rfree(p->r, d));
    }
}

static void describes(rch_t ch, const char *why)
{
    const char *path = why == NULL ? "registered, and reached by the network" : "staged through";
    rinfo_pipe_t about;

    CHECK_OK(ch, rinfo_describe(ch, &about));
    if (strstr(about.path, path) == NULL || (why != NULL && strstr(about.why, why) == NULL))
        fail_msg("\"%s\", \"%s\" do not contain \"%s\", \"%s\"", about.path, about.why, path,
                 why != NULL ? why : "");
}

/* Nothing is copied where the memory is registered, and every message where it is not. */
static void test_the_way(void **state)
{
    (void)state;
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        int moved = fake_hmem_counts.moved;
        struct pair p = device_pair((rpipe_op_t)op);

        pass(&p);
        describes(p.w, row->why);
        describes(p.r, row->why);
        assert_int_equal(staged(p.w), row->why != NULL ? MESSAGES : 0);
        assert_int_equal(staged(p.r), row->why != NULL ? MESSAGES : 0);
        assert_int_equal(fake_hmem_counts.live, row->why != NULL ? 0 : 2);
        if (row->why == NULL)
            assert_true(fake_hmem_counts.moved - moved >= MESSAGES);
        device_pair_close(&p);
        assert_int_equal(fake_hmem_counts.live, 0);
    }
    assert_int_equal(fake_hmem_counts.requests > 0, row->requests);
}

/* The memory of one end is registered, and that of the other one is not. */
static void test_one_end(void **state)
{
    struct pair p;

    (void)state;
    if (row->why != NULL)
        skip();
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        fake_hmem_limits.registers = 1;
        p = device_pair((rpipe_op_t)op);
        pass(&p);
        fake_hmem_limits.registers = row->limits.registers;
        assert_int_equal(staged(p.w) + staged(p.r), MESSAGES);
        assert_int_equal(fake_hmem_counts.live, 1);
        device_pair_close(&p);
    }
}

/* Without `left`, or `arrived`, the reader has other bytes. */
static void test_the_calls_are_needed(void **state)
{
    (void)state;
    if (row->why != NULL)
        skip();
    for (int without_left = 0; without_left < 2; without_left++) {
        rpipe_config_t cfg = device_config(RPIPE_WRITER, RPIPE_PUT);
        rmemory_ops_t table = memory;
        struct pair p;
        raddr_t d;
        size_t n;

        *(without_left ? &table.left : &table.arrived) = NULL;
        cfg.memory = &table;
        p = device_open(&cfg);
        CHECK_OK(p.w, rwrite(p.w, device_message(p.w, 1000, 5)));
        CHECK_OK(p.r, rread(p.r, &d, &n));
        assert_false(device_has(p.r, d, n, 5));
        CHECK_OK(p.r, rfree(p.r, d));
        device_pair_close(&p);
    }
}

/* Bytes through a window of memory of the device, in both directions: how often they were copied. */
static int copies_of_a_window(const struct pair *p, rwindow_t window, rremote_t remote,
                              uint8_t *inside)
{
    static uint8_t here[1000];
    const int before = device.copies;
    rregion_t near;
    size_t n;
    char got;

    CHECK_OK(p->w, rregion_open(&near, p->w, here, sizeof(here)));
    pattern_fill(here, sizeof(here), 1);
    CHECK_OK(p->w, rwindow_write(remote, 100, here, sizeof(here), near, NULL, 0));
    CHECK_OK(p->w, rsend(p->w, "x", 1, 0));
    CHECK_OK(p->r, rrecv(p->r, &got, 1, &n, 0));
    CHECK_OK(NULL, rwindow_sync(window, 100, sizeof(here), RWINDOW_WRITE));
    assert_true(pattern_same(inside + 100, sizeof(here), 1));
    CHECK_OK(p->w, rdone(p->w, NULL, 0));
    pattern_fill(inside + 100, sizeof(here), 2);
    CHECK_OK(NULL, rwindow_sync(window, 100, sizeof(here), RWINDOW_READ));
    CHECK_OK(p->w, rwindow_fetch(remote, 100, here, sizeof(here), near, NULL, 0));
    CHECK_OK(p->w, rdone(p->w, NULL, 0));
    assert_true(pattern_same(here, sizeof(here), 2));
    CHECK_OK(NULL, rregion_close(near));
    return device.copies - before;
}

/* The network moves them where the memory is registered; elsewhere rwindow_sync copies them, which needs the call that does. */
static void test_a_window(void **state)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, RPIPE_PUT);
    rwindow_handle_t handle;
    rregion_t region;
    rwindow_t window = NULL;
    rremote_t remote;
    struct pair p;

    (void)state;
    cfg.memory = NULL;
    p = device_open(&cfg);
    CHECK_OK(NULL, rregion_open_device(&region, NULL, &memory, NULL, HEAP));
    if (row->why != NULL) {
        memory.copy_in = NULL;
        CHECK_RC(-ENOTSUP, p.r, rwindow_open(&window, p.r, region, RWINDOW_WRITE, &handle));
        if (strstr(rerror(p.r), row->why) == NULL)
            fail_msg("\"%s\" does not contain \"%s\"", rerror(p.r), row->why);
        memory.copy_in = fake_copy_in;
    }
    CHECK_OK(p.r, rwindow_open(&window, p.r, region, RWINDOW_READ | RWINDOW_WRITE, &handle));
    CHECK_OK(p.w, rwindow_attach(&remote, p.w, &handle, 0));
    assert_int_equal(fake_hmem_counts.live, row->why == NULL);
    assert_int_equal(
        copies_of_a_window(&p, window, remote, fake_at(&device, rregion_mem(region), HEAP).inside),
        row->why == NULL ? 0 : 2);
    assert_int_equal(staged(p.w) + staged(p.r), 0); /* of messages */
    CHECK_OK(p.w, rwindow_detach(remote));
    CHECK_OK(NULL, rwindow_close(window));
    CHECK_OK(NULL, rregion_close(region));
    device_pair_close(&p);
    assert_int_equal(fake_hmem_counts.live, 0);
}

/* A descriptor is one of the domain of the process, so the stream has an endpoint in that, or none of its own. */
static void test_a_stream(void **state)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, RPIPE_PUT);
    rstream_t stream = NULL;
    struct pair p;

    (void)state;
    CHECK_OK(NULL, rstream_open(&stream, NULL));
    cfg.stream = stream;
    p = device_open(&cfg);
    pass(&p);
    describes(p.w, row->why);
    device_pair_close(&p);
    CHECK_OK(NULL, rstream_close(stream));
}

static void plain(void)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, RPIPE_PUT);
    struct pair p;

    cfg.memory = NULL;
    p = device_open(&cfg);
    CHECK_OK(p.w, rwait(p.w));
    CHECK_OK(p.w, rclose(p.w));
    CHECK_OK(p.r, rclose(p.r));
}

static int setup(void **state)
{
    int rc;

    fake_hmem_limits = row->limits;
    rc = pair_setup(state);
    memory = fake_ops(&device);
    if (strcmp(row->name, "number") == 0) /* that of the device, in the lower half */
        memory.number += UINT64_C(1) << 32;
    if (rc == 0 && row->plain_first)
        plain();
    return rc;
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_way),
        cmocka_unit_test(test_one_end),
        cmocka_unit_test(test_the_calls_are_needed),
        cmocka_unit_test(test_a_window),
        cmocka_unit_test(test_a_stream),
    };

    row = rows;
    while (strcmp(row->name, getenv("FAKE_HMEM")) != 0)
        row++;
    if (row->setting != NULL)
        setenv("RPIPE_OFI_HMEM", row->setting, 1);
    return cmocka_run_group_tests(tests, setup, pair_teardown);
}

int main(void)
{
    struct pair_child child[ROWS];

    unsetenv("PAIR_ONLY");
    unsetenv("RPIPE_OFI_HMEM");
    for (int i = 0; i < ROWS; i++)
        child[i] =
            (struct pair_child){"FAKE_HMEM", rows[i].name, i % 2 ? "1" : "0", NULL, "", 0, NULL};
    return pair_children(child, ROWS, group);
}
