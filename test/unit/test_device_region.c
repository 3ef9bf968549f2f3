/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions that are memory of a device, on pipes whose heap is memory of the host, of the same device, or of another one; regions of the host
 * and of the pipe itself on a heap of a device; windows, written from such a region and fetched into it; and heaps of a device that grow. Checked
 * is the memory in which the device computes. The tests of regions run over such memory too (test/lib/on_device.h); here is what it alone has.
 */
#include "device_pair.h"

#include "test/lib/counts.h"

enum {
    ROOM = 3 * 64 * 1024 + 4000,
    LARGE = 1 << 18
}; /* more than one buffer between two devices */

static struct fake_device other = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t other_memory;
static uint8_t out[ROOM], in[ROOM];

static const size_t sizes[] = {0, 1, 40, 41, 64, 1000, 65536, 65537, ROOM - 100};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* ---- regions ---- */

enum place { HOST, DEVICE, OTHER };

struct space {
    rregion_t region;
    void *at; /* of the device; NULL: the host */
    struct fake_device *of;
};

static struct space space_open(rch_t ch, enum place place, uint8_t *bytes)
{
    struct space s = {NULL, NULL, place == DEVICE ? &device : &other};

    if (place == HOST) {
        CHECK_OK(ch, rregion_open(&s.region, ch, bytes, ROOM));
        return s;
    }
    s.at = fake_lend(s.of, bytes, ROOM);
    CHECK_OK(ch, rregion_open_device(&s.region, ch, place == DEVICE ? &memory : &other_memory, s.at,
                                     ROOM));
    assert_ptr_equal(rregion_mem(s.region), s.at);
    return s;
}

static void space_close(const struct space *s)
{
    CHECK_OK(NULL, rregion_close(s->region));
    if (s->at != NULL)
        fake_unmap(s->of, s->at, ROOM);
}

static void pass(const struct pair *p, const struct space *from, const struct space *to)
{
    for (uint64_t i = 0; i < 3 * SIZES; i++) {
        size_t size = sizes[i % SIZES], got = 0, offset = i * 7 % 100;
        int word = 4711;

        memset(in, 0x5a, ROOM);
        pattern_fill(out + offset, size, i);
        CHECK_OK(p->w, rwrite_from(p->w, from->region, offset, size, i, &word, 0));
        if (from->at != NULL && !is_registered()) /* copied: the device may go on */
            assert_int_equal(word, 1);
        if (word == 1)
            memset(out, 0xa5, ROOM);
        CHECK_OK(p->r, rread_into(p->r, to->region, i, ROOM - i, &got, NULL, 0));
        assert_int_equal(got, size);
        assert_true(pattern_same(in + i, size, i));
        assert_int_equal(in[i + size], 0x5a);
        CHECK_OK(p->w, rdone(p->w, &word, 0));
    }
}

/* From each kind of memory into each, by a heap of each kind. */
static void test_every_way(void **state)
{
    other_memory = fake_ops(&other);
    for (int way = 0; way < 2 * 3 * 3; way++) {
        rpipe_config_t cfg = device_config(RPIPE_WRITER, op_of(state));
        struct space from, to;
        struct pair p;

        cfg.heap_bytes = LARGE;
        if (way % 2 == 0)
            cfg.memory = NULL;
        p = device_open(&cfg);
        from = space_open(p.w, (enum place)(way / 2 % 3), out);
        to = space_open(p.r, (enum place)(way / 6), in);
        pass(&p, &from, &to);
        space_close(&from);
        space_close(&to);
        device_pair_close(&p);
    }
}

/* Parts of a heap that is the device's: not copied within a host. */
static void test_memory_of_the_pipe(void **state)
{
    enum { PART = 4096, PARTS = 4 };
    struct pair p = device_pair(op_of(state));
    rregion_t region = NULL;
    int word[PARTS];
    uint8_t *inside;

    CHECK_OK(p.w, rregion_open(&region, p.w, NULL, PARTS * PART));
    inside = fake_at(&device, rregion_mem(region), PARTS * PART).inside;
    for (uint64_t lap = 0; lap < 10; lap++) {
        for (size_t i = 0; i < PARTS; i++) {
            pattern_fill(inside + i * PART, PART - i, lap + i);
            CHECK_OK(p.w, rwrite_from(p.w, region, i * PART, PART - i, 0, &word[i], 0));
            assert_int_equal(word[i], 0);
        }
        for (size_t i = 0; i < PARTS; i++) {
            raddr_t d;
            size_t n;

            CHECK_OK(p.r, rread(p.r, &d, &n));
            assert_true(n == PART - i && device_has(p.r, d, n, lap + i));
            CHECK_OK(p.r, rfree(p.r, d));
            CHECK_OK(p.w, rdone(p.w, &word[i], 0));
        }
    }
    CHECK_OK(NULL, rregion_close(region));
    device_pair_close(&p);
}

static void test_arguments(void **state)
{
    struct pair p = device_pair(RPIPE_PUT);
    rregion_t region = NULL;
    rmemory_ops_t table = memory;
    void *at = fake_lend(&device, out, ROOM);

    (void)state;
    CHECK_RC(-EINVAL, NULL, rregion_open_device(&region, NULL, &memory, at, ROOM));
    CHECK_RC(-EINVAL, p.w, rregion_open_device(&region, p.w, NULL, at, ROOM));
    CHECK_RC(-EINVAL, p.w, rregion_open_device(&region, p.w, &memory, at, 0));
    CHECK_RC(-EINVAL, p.w, rregion_open_device(&region, p.w, &memory, NULL, ROOM));
    assert_non_null(strstr(rerror(p.w), "rregion_open,"));
    table.version++;
    CHECK_RC(-EINVAL, p.w, rregion_open_device(&region, p.w, &table, at, ROOM));
    assert_non_null(strstr(rerror(p.w), "version"));
    assert_null(region);
    fake_unmap(&device, at, ROOM);
    device_pair_close(&p);
}

/* A table by which no network reaches the memory. */
static rmemory_ops_t copied_ops(void)
{
    rmemory_ops_t table = fake_ops(&other);

    table.kind = RMEMORY_OTHER;
    return table;
}

/* A table without the call that a message needs: before anything is sent or taken. */
static void test_a_table_without_copies(void **state)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, op_of(state));
    struct space from, to;
    struct pair p;
    size_t got = 4711;
    int word = 4711;

    other_memory = copied_ops();
    cfg.memory = NULL;
    p = device_open(&cfg);
    from = space_open(p.w, OTHER, out);
    to = space_open(p.r, OTHER, in);
    other_memory.copy_out = NULL;
    CHECK_RC(-ENOTSUP, p.w, rwrite_from(p.w, from.region, 0, 100, 0, &word, 0));
    assert_non_null(strstr(rerror(p.w), "fake has no copy_out"));
    other_memory = copied_ops();
    pattern_fill(out, 100, 1);
    CHECK_OK(p.w, rwrite_from(p.w, from.region, 0, 100, 0, NULL, 0));
    other_memory.copy_in = NULL;
    CHECK_RC(-ENOTSUP, p.r, rread_into(p.r, to.region, 0, ROOM, &got, NULL, 0));
    assert_true(word == 4711 && got == 4711);
    other_memory = copied_ops();
    CHECK_OK(p.r, rread_into(p.r, to.region, 0, ROOM, &got, NULL, 0)); /* it is still there */
    assert_true(got == 100 && pattern_same(in, got, 1));
    space_close(&from);
    space_close(&to);
    device_pair_close(&p);
}

/* A call of the device fails: nothing was sent; or the message is lost, and the next one comes. */
static void test_calls_of_the_device_fail(void **state)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, op_of(state));
    struct space from, to;
    struct pair p;
    size_t got = 4711;
    int word = 4711;

    cfg.memory = NULL;
    p = device_open(&cfg);
    from = space_open(p.w, DEVICE, out);
    to = space_open(p.r, DEVICE, in);
    device.fail_left = EIO;
    CHECK_RC(-EIO, p.w, rwrite_from(p.w, from.region, 0, 100, 0, &word, 0));
    assert_non_null(strstr(rerror(p.w), "fake: left of 100 bytes"));
    if (!is_registered_by_kind()) {
        device.fail_copy_out = EIO;
        CHECK_RC(-EIO, p.w, rwrite_from(p.w, from.region, 0, 100, 0, &word, 0));
        assert_non_null(strstr(rerror(p.w), "fake: copy_out of 100 bytes"));
    }
    assert_int_equal(word, 4711);
    for (uint64_t key = 1; key <= 2; key++) {
        pattern_fill(out, 100, key);
        CHECK_OK(p.w, rwrite_from(p.w, from.region, 0, 100, key, NULL, 0));
    }
    device.fail_copy_in = EIO;
    CHECK_RC(-EIO, p.r, rread_into(p.r, to.region, 0, ROOM, &got, NULL, 0));
    assert_non_null(strstr(rerror(p.r), "fake: copy_in of 100 bytes"));
    CHECK_OK(p.r, rread_into(p.r, to.region, 0, ROOM, &got, NULL, 0));
    assert_true(got == 100 && pattern_same(in, got, 2));
    CHECK_OK(p.w, rdone(p.w, NULL, 0));
    space_close(&from);
    space_close(&to);
    device_pair_close(&p);
}

/* One message from a region of the device that a network may reach by this table; how many were not copied. */
static uint64_t one_from(rpipe_op_t op, const rmemory_ops_t *heap, const rmemory_ops_t *table,
                         bool visible)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, op);
    void *at = fake_lend(&other, out, ROOM);
    uint64_t direct;
    rregion_t from;
    struct space to;
    struct pair p;
    size_t got;
    int word;

    cfg.memory = heap;
    p = device_open(&cfg);
    CHECK_OK(p.w, rregion_open_device(&from, p.w, table, at, ROOM));
    to = space_open(p.r, HOST, in);
    pattern_fill(out, 5100, op);
    CHECK_OK(p.w, rwrite_from(p.w, from, 100, 5000, 0, &word, 0));
    CHECK_OK(p.r, rread_into(p.r, to.region, 0, ROOM, &got, NULL, 0));
    pattern_fill(out, 5100, op);
    assert_int_equal(got, 5000);
    assert_int_equal(memcmp(in, out + 100, 5000) == 0, visible);
    CHECK_OK(p.w, rdone(p.w, &word, 0));
    CHECK_OK(p.w, rinfo_count(p.w, "direct", &direct));
    CHECK_OK(NULL, rregion_close(from));
    fake_unmap(&other, at, ROOM);
    space_close(&to);
    device_pair_close(&p);
    return direct;
}

/*
 * Over a network that reaches the memory a message from a region of a device is not copied, unless the note about the region would have to be
 * in a heap of a device (GET). What has not left the device is not in it.
 */
static void test_a_region_that_a_network_reads(void **state)
{
    const rpipe_op_t op = op_of(state);
    rmemory_ops_t table;

    other_memory = table = fake_ops(&other);
    table.dmabuf = fake_dmabuf;
    for (int heap = 0; heap < 2; heap++) {
        const rmemory_ops_t *of_heap = heap == 0 ? NULL : &memory;
        const bool direct = is_registered() && (heap == 0 || op == RPIPE_PUT);

        table.left = fake_left;
        table.kind = other_memory.kind;
        assert_int_equal(one_from(op, of_heap, &table, true), direct);
        table.left = NULL;
        assert_int_equal(one_from(op, of_heap, &table, false), direct);
        table.left = fake_left;
        table.kind = RMEMORY_OTHER;
        if (!is_registered_by_fd()) /* refused */
            assert_int_equal(one_from(op, of_heap, &table, true), 0);
        other.fail_dmabuf = EIO;
        if (is_registered_by_fd())
            assert_int_equal(one_from(op, of_heap, &table, true), 0);
        other.fail_dmabuf = 0;
    }
}

/* A window of memory of the host, by bytes of a device: within a host. */
static void move(rremote_t remote, const uint8_t *there, const struct space *near)
{
    uint8_t *at = near->at;
    int word = 4711;

    for (uint64_t i = 1; i < SIZES; i++) {
        memset(out, 0x5a, ROOM);
        pattern_fill(out + i, sizes[i], i);
        CHECK_OK(NULL, rwindow_write(remote, 2 * i, at + i, sizes[i], near->region, &word, 0));
        assert_int_equal(word, 1);
        assert_true(pattern_same(there + 2 * i, sizes[i], i));
        memset(out, 0x5a, ROOM);
        CHECK_OK(NULL, rwindow_fetch(remote, 2 * i, at + 3, sizes[i], near->region, &word, 0));
        assert_true(pattern_same(out + 3, sizes[i], i) && out[3 + sizes[i]] == 0x5a);
    }
    word = 4711;
    device.fail_left = EIO;
    CHECK_RC(-EIO, NULL, rwindow_write(remote, 0, at, 100, near->region, &word, 0));
    device.fail_copy_in = EIO;
    CHECK_RC(-EIO, NULL, rwindow_fetch(remote, 0, at, 100, near->region, &word, 0));
    memory.copy_out = NULL;
    CHECK_RC(-ENOTSUP, NULL, rwindow_write(remote, 0, at, 100, near->region, &word, 0));
    memory = fake_ops(&device);
    assert_int_equal(word, 4711);
}

static void windows(const rmemory_ops_t *heap)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, RPIPE_PUT);
    struct space near;
    struct pair p;
    rwindow_handle_t handle;
    rwindow_t window = NULL;
    rremote_t remote;
    rregion_t there;
    int word = 4711;

    cfg.memory = heap;
    p = device_open(&cfg);
    CHECK_OK(p.w, rwait(p.w));
    near = space_open(p.w, DEVICE, out);
    if (is_shared()) {
        CHECK_RC(-ENOTSUP, p.w, rwindow_open(&window, p.w, near.region, RWINDOW_WRITE, &handle));
        assert_non_null(strstr(rerror(p.w), "memory of a device (fake)"));
        assert_null(window);
    }
    for (int own = 0; own < 2; own++) { /* mapped, and across address spaces */
        CHECK_OK(p.r, rregion_open(&there, own ? p.r : NULL, own ? in : NULL, ROOM));
        CHECK_OK(p.r, rwindow_open(&window, p.r, there, RWINDOW_READ | RWINDOW_WRITE, &handle));
        CHECK_OK(p.w, rwindow_attach(&remote, p.w, &handle, 0));
        if (is_shared())
            move(remote, rregion_mem(there), &near);
        else if (!is_registered_by_kind()) /* which test_device_window has */
            CHECK_RC(-ENOTSUP, p.w, rwindow_write(remote, 0, near.at, 8, near.region, &word, 0));
        CHECK_OK(p.w, rwindow_detach(remote));
        CHECK_OK(NULL, rwindow_close(window));
        CHECK_OK(NULL, rregion_close(there));
    }
    space_close(&near);
    device_pair_close(&p);
}

/* The pipe of the window has fast paths, or none. */
static void test_windows(void **state)
{
    (void)state;
    windows(NULL);
    windows(&memory);
}

/* ---- growth ---- */

enum { SMALL = 4096, MOST = 32 * 1024, UNIT = 64 };

static struct pair growing_pair(rpipe_op_t op)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, op);

    cfg.heap_bytes = SMALL;
    cfg.max_heap_bytes = MOST;
    cfg.grow_after_us = 1;
    cfg.timeout_ms = (int)CHECK_LATE_MS;
    return device_open(&cfg);
}

static uint64_t count(rch_t ch, const char *name)
{
    uint64_t n;

    CHECK_OK(ch, rinfo_count(ch, name, &n));
    return n;
}

/* Messages that are held in each segment, of sizes that each need one more. */
static void test_growth(void **state)
{
    struct pair p = growing_pair(op_of(state));
    raddr_t held[3];
    size_t n;

    for (uint64_t i = 0; i < 3; i++) {
        size_t bytes = (size_t)SMALL << i;

        CHECK_OK(p.w, rwrite(p.w, device_message(p.w, bytes, i)));
        CHECK_OK(p.r, rread(p.r, &held[i], &n));
        assert_true(n == bytes && device_has(p.r, held[i], n, i));
        assert_int_equal(count(p.w, "grows"), i);
    }
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(device_has(p.r, held[i], (size_t)SMALL << i, i));
        CHECK_OK(p.r, rfree(p.r, held[i]));
    }
    for (uint64_t i = 0; i < 200; i++) { /* by copies too, wherever they are */
        size_t bytes = random_mix(i) % (2 * SMALL);

        pattern_fill(out, bytes, i);
        CHECK_OK(p.w, rsend(p.w, out, bytes, 0));
        CHECK_OK(p.r, rrecv(p.r, in, ROOM, &n, 0));
        assert_true(n == bytes && pattern_same(in, n, i));
    }
    device_pair_close(&p); /* all segments are given back */
}

/* The device has no memory for a segment, after `spare` that have it: the heap stays as it is, and grows later. */
static void growth_is_refused(rpipe_op_t op, int spare)
{
    struct pair p = growing_pair(op);
    double since = now_ms();
    raddr_t d, got;
    size_t n;

    CHECK_OK(p.w, rwrite(p.w, device_message(p.w, SMALL, 1)));
    CHECK_OK(p.r, rread(p.r, &got, &n));
    device.allocs_before = spare;
    device.fail_alloc = ENOMEM;
    CHECK_OK(p.w, rset_timeout(p.w, 20));
    do
        assert_true(rmalloc(p.w, SMALL) == ADDR_NULL);
    while (count(p.w, "grow_refused") == 0 && now_ms() - since < CHECK_LATE_MS);
    assert_int_equal(count(p.w, "grow_refused"), 1);
    CHECK_OK(p.w, rset_timeout(p.w, (int)CHECK_LATE_MS));
    d = device_message(p.w, SMALL, 2); /* asked again a second later */
    assert_int_equal(count(p.w, "grows"), 1);
    CHECK_OK(p.w, rwrite(p.w, d));
    CHECK_OK(p.r, rfree(p.r, got));
    CHECK_OK(p.r, rread(p.r, &got, &n));
    assert_true(n == SMALL && device_has(p.r, got, n, 2));
    device_pair_close(&p);
}

/* By this end or the other one. */
static void test_growth_is_refused(void **state) { growth_is_refused(op_of(state), 0); }

/* By the end that has a mirror: the next request is for other memory, which it must not take for the first one. */
static void test_growth_is_refused_by_a_mirror(void **state)
{
    if (!pair_over_network())
        skip(); /* one end alone allocates */
    growth_is_refused(op_of(state), 1);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_every_way),
        PUT_AND_GET(test_memory_of_the_pipe),
        PUT_AND_GET(test_a_table_without_copies),
        PUT_AND_GET(test_calls_of_the_device_fail),
        PUT_AND_GET(test_a_region_that_a_network_reads),
        PUT_AND_GET(test_growth),
        PUT_AND_GET(test_growth_is_refused),
        PUT_AND_GET(test_growth_is_refused_by_a_mirror),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_windows),
    };

    memory = fake_ops(&device);
    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
