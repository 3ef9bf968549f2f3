/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows of memory of a device: written from each kind of memory and fetched into it, over a pipe of each kind; that no call of the table
 * can be left out; what is copied, and calls of the owner that fail. Checked is the memory in which the device of the owner computes. Over
 * shared memory, over networks that move a copy (PAIR_NET, pair.h), and over two that reach memory of devices (device_pair.h).
 * Refusals and ends are in test_device_window_end.c.
 */
#include "device_window.h"

static uint8_t lent[BYTES];

static const size_t sizes[] = {0, 1, 40, 41, 1000, 65536, 65537, BYTES - 100};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* ---- bytes ---- */

static void move(const struct shown *s, const struct side *side)
{
    for (uint64_t i = 0; i < SIZES; i++) {
        size_t size = sizes[i];
        uint64_t at = 2 * i + 1;
        int word = 4711;

        memset(near, 0x5a, BYTES);
        memset(s->inside, 0xa5, BYTES);
        pattern_fill(near + i, size, i);
        CHECK_OK(s->p.w, rwindow_write(s->remote, at, side->at + i, size, side->region, &word, 0));
        announce(s);
        await(s, &word);
        memset(near, 0x5a, BYTES);
        CHECK_OK(NULL, rwindow_sync(s->window, at, size, RWINDOW_WRITE));
        assert_true(pattern_same(s->inside + at, size, i));
        assert_true(s->inside[at - 1] == 0xa5 && s->inside[at + size] == 0xa5);

        pattern_fill(s->inside + at, size, i + 100);
        CHECK_OK(NULL, rwindow_sync(s->window, at, size, RWINDOW_READ));
        word = 4711;
        CHECK_OK(s->p.w, rwindow_fetch(s->remote, at, side->at + 3, size, side->region, &word, 0));
        await(s, &word);
        assert_true(pattern_same(near + 3, size, i + 100));
        assert_true(near[2] == 0x5a && near[3 + size] == 0x5a);
    }
}

/* A network takes no loose memory, and that of a device where it reaches it. */
static void refuse(const struct shown *s, const struct side *side)
{
    const int code = side->region == NULL ? -EINVAL : -ENOTSUP;
    int word = 4711;

    CHECK_RC(code, s->p.w, rwindow_write(s->remote, 0, side->at, 8, side->region, &word, 0));
    CHECK_RC(code, s->p.w, rwindow_fetch(s->remote, 0, side->at, 8, side->region, &word, 0));
    assert_int_equal(word, 4711);
}

/* From each kind of memory and into it; on a pipe with fast paths, and on one of the device. */
static void test_every_way(void **state)
{
    (void)state;
    for (int way = 0; way < 2 * PLACES; way++) {
        struct shown s;
        struct side side;

        show(&s, way % 2 == 0 ? host_pair() : device_pair(RPIPE_PUT), RWINDOW_READ | RWINDOW_WRITE);
        side = side_open(s.p.w, (enum place)(way / 2));
        if (is_shared() || way / 2 == HOST || (way / 2 > HOST && is_registered()))
            move(&s, &side);
        else
            refuse(&s, &side);
        side_close(&side);
        end(&s);
    }
}

/* Announced by a message, in both directions, as a program does it; two windows of one region, and two users of one window. */
static void test_messages_announce_bytes(void **state)
{
    struct shown s;
    rwindow_handle_t handle;
    rwindow_t second;
    rremote_t remote[3];
    uint64_t got = 0;
    size_t n;

    (void)state;
    show(&s, host_pair(), RWINDOW_READ | RWINDOW_WRITE);
    CHECK_OK(s.p.w, rwindow_open(&second, s.p.w, s.region, RWINDOW_WRITE, &handle));
    CHECK_OK(s.p.w, rwindow_attach_device(&remote[1], s.p.w, &s.user, &handle, 0));
    CHECK_OK(s.p.w, rwindow_attach_device(&remote[2], s.p.w, &s.user, &s.handle, 0));
    remote[0] = s.remote;
    for (uint64_t i = 0; i < 60; i++) {
        size_t size = 1 + random_mix(i) % 3000;
        uint64_t at = random_mix(i + 1000) % (BYTES - size);

        pattern_fill(near, size, i);
        CHECK_OK(s.p.w, rwindow_write(remote[i % 3], at, near, size, s.here, NULL, 0));
        CHECK_OK(s.p.w, rsend(s.p.w, &i, sizeof(i), 0));
        CHECK_OK(s.p.r, rrecv(s.p.r, &got, sizeof(got), &n, 0));
        CHECK_OK(s.p.w, rdone(s.p.w, NULL, 0));
        CHECK_OK(NULL, rwindow_sync(i % 2 == 0 ? s.window : second, at, size, RWINDOW_WRITE));
        assert_true(got == i && pattern_same(s.inside + at, size, i));
    }
    CHECK_RC(-EACCES, s.p.w, rwindow_fetch(remote[1], 0, near, 8, NULL, NULL, 0));
    CHECK_OK(s.p.w, rwindow_detach(remote[1]));
    CHECK_OK(NULL, rwindow_close(second));
    CHECK_OK(s.p.w, rwindow_detach(remote[2]));
    end(&s);
}

/* Whether the bytes of a write, or of a fetch, are those that were stored where one of the four calls that exchange them is missing. */
static bool write_is_seen(int missing)
{
    return is_shared() ? missing != 1 && missing != 2 : missing != 2 || is_staged();
}

static bool fetch_is_seen(int missing) { return missing != 3 && (missing != 4 || !is_shared()); }

/*
 * Without any one of the four calls, or before rwindow_sync, there are other bytes; with all, those that were stored. Over a network the user
 * makes none, and where the memory is copied the copy is in the place of `arrived`.
 */
static void test_no_call_can_be_left_out(void **state)
{
    (void)state;
    for (int missing = 0; missing <= 4; missing++) {
        struct shown s;

        show(&s, host_pair(), RWINDOW_READ | RWINDOW_WRITE);
        if (missing == 1)
            s.user.left = NULL;
        if (missing == 2)
            s.owner.arrived = NULL;
        if (missing == 3)
            s.owner.left = NULL;
        if (missing == 4)
            s.user.arrived = NULL;
        pattern_fill(near, 1000, 1);
        write_near(&s, 0, 1000);
        assert_false(pattern_same(s.inside, 1000, 1));
        CHECK_OK(NULL, rwindow_sync(s.window, 0, 1000, RWINDOW_WRITE));
        assert_int_equal(pattern_same(s.inside, 1000, 1), write_is_seen(missing));
        pattern_fill(s.inside + 2000, 1000, 2);
        fetch_near(&s, 2000, 1000);
        assert_false(pattern_same(near, 1000, 2));
        CHECK_OK(NULL, rwindow_sync(s.window, 2000, 1000, RWINDOW_READ));
        fetch_near(&s, 2000, 1000);
        assert_int_equal(pattern_same(near, 1000, 2), fetch_is_seen(missing));
        end(&s);
    }
}

static void registered_alone(void **state)
{
    (void)state;
    if (!is_registered())
        skip();
}

/* Memory of a device here that a network reads and writes: what has not left it is not sent, and what has not arrived is not seen. */
static void test_calls_of_the_near_device(void **state)
{
    registered_alone(state);
    for (int missing = 0; missing <= 2; missing++) {
        struct shown s;
        struct side side;
        int word = 0;

        show(&s, host_pair(), RWINDOW_READ | RWINDOW_WRITE);
        side = side_open(s.p.w, OTHER);
        if (missing == 1)
            other_memory.left = NULL;
        if (missing == 2)
            other_memory.arrived = NULL;
        pattern_fill(near, 1000, 1);
        CHECK_OK(s.p.w, rwindow_write(s.remote, 0, side.at, 1000, side.region, &word, 0));
        announce(&s);
        await(&s, &word);
        CHECK_OK(NULL, rwindow_sync(s.window, 0, 1000, RWINDOW_WRITE));
        assert_int_equal(pattern_same(s.inside, 1000, 1), missing != 1);
        pattern_fill(s.inside, 1000, 2);
        CHECK_OK(NULL, rwindow_sync(s.window, 0, 1000, RWINDOW_READ));
        CHECK_OK(s.p.w, rwindow_fetch(s.remote, 0, side.at, 1000, side.region, &word, 0));
        await(&s, &word);
        assert_int_equal(pattern_same(near, 1000, 2), missing != 2);
        other_memory.left = fake_left;
        other_memory.arrived = fake_arrived;
        CHECK_OK(s.p.w, rdone(s.p.w, NULL, 0));
        side_close(&side);
        end(&s);
    }
}

/* Of a write nothing is sent; of a fetch the word has the code. */
static void test_the_near_device_fails(void **state)
{
    struct shown s;
    struct side side;
    int word = 4711;

    registered_alone(state);
    show(&s, host_pair(), RWINDOW_READ | RWINDOW_WRITE);
    side = side_open(s.p.w, OTHER);
    other.fail_left = EIO;
    CHECK_RC(-EIO, s.p.w, rwindow_write(s.remote, 0, side.at, 100, side.region, &word, 0));
    assert_non_null(strstr(rerror(s.p.w), "fake: left of 100 bytes"));
    assert_int_equal(word, 4711);
    CHECK_OK(s.p.w, rwindow_fetch(s.remote, 0, side.at, 100, side.region, &word, 0));
    await(&s, &word);
    other.fail_arrived = EIO;
    CHECK_OK(s.p.w, rwindow_fetch(s.remote, 0, side.at, 100, side.region, &word, 0));
    CHECK_RC(-EIO, s.p.w, rdone(s.p.w, &word, 0));
    assert_int_equal(word, -EIO);
    CHECK_RC(-EPIPE, s.p.w, rdone(s.p.w, NULL, 0));
    side_close(&side);
    close_all(&s);
}

static uint64_t staged(rch_t ch)
{
    uint64_t n;

    CHECK_OK(ch, rinfo_count(ch, "staged", &n));
    return n;
}

/* A network that reaches the memory moves it; elsewhere each write and each fetch is one copy, of its bytes alone. */
static void test_what_is_copied(void **state)
{
    struct shown s;
    int copies;

    (void)state;
    show(&s, host_pair(), RWINDOW_READ | RWINDOW_WRITE);
    memset(s.inside, 0xa5, BYTES);
    copies = device.copies;
    pattern_fill(near, 1000, 1);
    write_near(&s, 10, 1000);
    CHECK_OK(NULL, rwindow_sync(s.window, 10, 1000, RWINDOW_WRITE));
    assert_true(pattern_same(s.inside + 10, 1000, 1));
    assert_true(s.inside[9] == 0xa5 && s.inside[1010] == 0xa5);
    pattern_fill(s.inside + 10, 1000, 2);
    CHECK_OK(NULL, rwindow_sync(s.window, 10, 1000, RWINDOW_READ));
    fetch_near(&s, 10, 1000);
    assert_true(pattern_same(near, 1000, 2));
    assert_int_equal(device.copies - copies, is_registered() ? 0 : 2);
    assert_int_equal(staged(s.p.w) + staged(s.p.r), 0); /* of messages */
    end(&s);
}

/* ---- kinds of memory ---- */

/* A network reaches it or a copy of it: memory that the program has allocated, and such without a descriptor. */
static void test_any_memory_over_a_network(void **state)
{
    network_alone(state);
    for (int made = 0; made < 2; made++) {
        struct shown s = {.p = host_pair(), .owner = fake_ops(&device), .user = fake_ops(&device)};
        void *at = NULL;

        if (made == 0) {
            at = fake_lend(&device, lent, BYTES);
            CHECK_OK(s.p.r, rregion_open_device(&s.region, s.p.r, &s.owner, at, BYTES));
            s.inside = lent;
        } else {
            device.descriptor = FAKE_NONE;
            own(&s);
            device.descriptor = FAKE_MEMFD;
        }
        open_window(&s, RWINDOW_WRITE);
        pattern_fill(near, 5000, 7);
        write_near(&s, 100, 5000);
        CHECK_OK(NULL, rwindow_sync(s.window, 100, 5000, RWINDOW_WRITE));
        assert_true(pattern_same(s.inside + 100, 5000, 7));
        end(&s);
        if (at != NULL)
            fake_unmap(&device, at, BYTES);
    }
}

/* Over a network no table is used: a process without the device attaches the window, too. */
static void test_attached_without_a_table(void **state)
{
    struct shown s;
    rremote_t attached;

    network_alone(state);
    show(&s, host_pair(), RWINDOW_WRITE);
    attached = s.remote;
    CHECK_OK(s.p.w, rwindow_attach(&s.remote, s.p.w, &s.handle, 0));
    CHECK_OK(s.p.w, rwindow_detach(attached));
    s.user = (rmemory_ops_t){.version = 0};
    pattern_fill(near, 1000, 3);
    write_near(&s, 0, 1000);
    CHECK_OK(NULL, rwindow_sync(s.window, 0, 1000, RWINDOW_WRITE));
    assert_true(pattern_same(s.inside, 1000, 3));
    assert_int_equal(device.imports, 0);
    end(&s);
}

static void test_regions_that_the_table_makes(void **state)
{
    rmemory_ops_t table = fake_ops(&device);
    struct pair p = host_pair();
    rregion_t region = NULL;
    size_t got;

    (void)state;
    CHECK_RC(-EINVAL, NULL, rregion_open_device(&region, NULL, NULL, NULL, BYTES));
    CHECK_RC(-EINVAL, NULL, rregion_open_device(&region, NULL, &table, NULL, 0));
    CHECK_RC(-EINVAL, NULL, rregion_open_device(NULL, NULL, &table, NULL, BYTES));
    CHECK_RC(-EINVAL, NULL, rregion_open_device(&region, NULL, &table, near, BYTES));
    CHECK_RC(-EINVAL, p.w, rregion_open_device(&region, p.w, &table, NULL, BYTES));
    device.fail_alloc = ENOSPC;
    CHECK_RC(-ENOSPC, NULL, rregion_open_device(&region, NULL, &table, NULL, BYTES));
    assert_non_null(strstr(rerror(NULL), "fake: alloc of 200608 bytes"));
    table.free = NULL;
    CHECK_RC(-EINVAL, NULL, rregion_open_device(&region, NULL, &table, NULL, BYTES));
    assert_non_null(strstr(rerror(NULL), "no alloc or no free"));
    table = fake_ops(&device);
    assert_null(region);
    /* it is a region like any other */
    CHECK_OK(NULL, rregion_open_device(&region, NULL, &table, NULL, BYTES));
    pattern_fill(fake_at(&device, rregion_mem(region), BYTES).inside + 10, 5000, 1);
    CHECK_OK(p.w, rwrite_from(p.w, region, 10, 5000, 0, NULL, 0));
    CHECK_OK(p.r, rrecv(p.r, near, BYTES, &got, 0));
    assert_true(got == 5000 && pattern_same(near, got, 1));
    CHECK_OK(p.w, rdone(p.w, NULL, 0)); /* where a network has read it */
    CHECK_OK(p.w, rsend(p.w, near, 5000, 0));
    CHECK_OK(p.r, rread_into(p.r, region, 20000, 6000, &got, NULL, 0));
    assert_true(got == 5000 &&
                pattern_same(fake_at(&device, rregion_mem(region), BYTES).inside + 20000, got, 1));
    CHECK_OK(NULL, rregion_close(region));
    device_pair_close(&p);
}

/* ---- the owner ---- */

/* What has to be copied needs the copy of its direction. */
static void test_a_table_without_copies(void **state)
{
    struct shown s = {.owner = fake_ops(&device), .user = fake_ops(&device)};

    (void)state;
    if (!is_staged())
        skip();
    s.p = host_pair();
    own(&s);
    s.owner.copy_in = NULL;
    not_opened(&s, RWINDOW_WRITE, "fake has no copy_in, without which memory of a device");
    own(&s);
    s.owner.copy_in = fake_copy_in;
    s.owner.copy_out = NULL;
    not_opened(&s, RWINDOW_READ | RWINDOW_WRITE, "fake has no copy_out, without which");
    own(&s);
    open_window(&s, RWINDOW_WRITE);
    CHECK_RC(-ENOTSUP, NULL, rwindow_sync(s.window, 0, 8, RWINDOW_READ));
    end(&s);
}

/* The calls of the owner, which may be tried again. */
static void test_a_sync_fails(void **state)
{
    int *const arrives = is_staged() ? &device.fail_copy_in : &device.fail_arrived;
    struct shown s;

    (void)state;
    show(&s, host_pair(), RWINDOW_READ | RWINDOW_WRITE);
    device.fail_left = EIO;
    CHECK_RC(-EIO, NULL, rwindow_sync(s.window, 0, 100, RWINDOW_READ));
    assert_non_null(strstr(rerror(NULL), "fake: left of 100 bytes"));
    if (is_staged()) {
        device.fail_copy_out = EIO;
        CHECK_RC(-EIO, NULL, rwindow_sync(s.window, 0, 100, RWINDOW_READ));
        assert_non_null(strstr(rerror(NULL), "fake: copy_out of 100 bytes"));
    }
    pattern_fill(near, 100, 4);
    write_near(&s, 0, 100);
    *arrives = EIO;
    CHECK_RC(-EIO, NULL, rwindow_sync(s.window, 0, 100, RWINDOW_WRITE));
    CHECK_OK(NULL, rwindow_sync(s.window, 0, 100, RWINDOW_WRITE));
    assert_true(pattern_same(s.inside, 100, 4));
    end(&s);
}

/* A window that this process fills is taken back: its device gets no other bytes any more. */
static void test_a_window_is_taken_back(void **state)
{
    struct shown s;

    (void)state;
    if (!is_over("tcp"))
        skip();
    show(&s, host_pair(), RWINDOW_WRITE);
    for (uint64_t key = 1; key <= 2; key++) {
        pattern_fill(near, 1000, key);
        write_near(&s, 0, 1000);
        CHECK_OK(NULL, rwindow_sync(s.window, 0, 1000, RWINDOW_WRITE));
        assert_true(pattern_same(s.inside, 1000, 1));
        CHECK_OK(NULL, rwindow_revoke(s.window));
    }
    end(&s);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way),
        cmocka_unit_test(test_messages_announce_bytes),
        cmocka_unit_test(test_no_call_can_be_left_out),
        cmocka_unit_test(test_what_is_copied),
        cmocka_unit_test(test_calls_of_the_near_device),
        cmocka_unit_test(test_the_near_device_fails),
        cmocka_unit_test(test_any_memory_over_a_network),
        cmocka_unit_test(test_attached_without_a_table),
        cmocka_unit_test(test_regions_that_the_table_makes),
        cmocka_unit_test(test_a_table_without_copies),
        cmocka_unit_test(test_a_sync_fails),
        cmocka_unit_test(test_a_window_is_taken_back),
    };

    memory = fake_ops(&device);
    other_memory = fake_ops(&other);
    if (is_registered_by_fd()) /* regions of the program's own memory */
        memory.dmabuf = other_memory.dmabuf = fake_dmabuf;
    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
