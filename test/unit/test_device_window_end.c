/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows of memory of a device: refusals, calls of the user's table that fail, and ends in each order, over shared memory and a network
 * (device_window.h).
 */
#include "device_window.h"

#include <fcntl.h>

/* ---- refusals ---- */

/* Within a host the peer needs a descriptor, which alloc makes. */
static void test_memory_without_a_way(void **state)
{
    struct shown s = {.owner = fake_ops(&device)};
    void *at;

    shared_alone(state);
    s.p = host_pair();
    at = fake_lend(&device, near, BYTES);
    CHECK_OK(s.p.r, rregion_open_device(&s.region, s.p.r, &s.owner, at, BYTES));
    not_opened(&s, RWINDOW_WRITE, "with ch and buf NULL");
    fake_unmap(&device, at, BYTES);
    device.descriptor = FAKE_NONE;
    own(&s);
    device.descriptor = FAKE_MEMFD;
    not_opened(&s, RWINDOW_WRITE, "alloc has made no descriptor");
    device_pair_close(&s.p);
}

static void test_attaching_is_refused(void **state)
{
    struct shown s;
    rwindow_handle_t host;
    rwindow_t window;
    rregion_t region;
    rremote_t remote = NULL;

    (void)state;
    show(&s, host_pair(), RWINDOW_WRITE);
    if (is_shared()) {
        CHECK_RC(-EPROTO, s.p.w, rwindow_attach(&remote, s.p.w, &s.handle, 0));
        assert_non_null(strstr(rerror(s.p.w), "rwindow_attach_device"));
    }
    CHECK_OK(NULL, rregion_open(&region, NULL, NULL, BYTES));
    CHECK_OK(s.p.r, rwindow_open(&window, s.p.r, region, RWINDOW_WRITE, &host));
    CHECK_RC(-EPROTO, s.p.w, rwindow_attach_device(&remote, s.p.w, &s.user, &host, 0));
    assert_non_null(strstr(rerror(s.p.w), "memory of the host"));
    CHECK_OK(NULL, rwindow_sync(window, 0, BYTES, RWINDOW_WRITE)); /* nothing to be done */
    CHECK_OK(NULL, rwindow_close(window));
    CHECK_OK(NULL, rregion_close(region));
    CHECK_RC(-EINVAL, s.p.w, rwindow_attach_device(&remote, s.p.w, NULL, &s.handle, 0));
    CHECK_RC(-EINVAL, s.p.w, rwindow_attach_device(&remote, s.p.w, &s.user, NULL, 0));
    CHECK_RC(-EINVAL, s.p.w, rwindow_attach_device(NULL, s.p.w, &s.user, &s.handle, 0));
    CHECK_RC(-EBADF, s.p.r, rwindow_attach_device(&remote, s.p.r, &s.user, &s.handle, 0));
    s.user.version++;
    CHECK_RC(-EINVAL, s.p.w, rwindow_attach_device(&remote, s.p.w, &s.user, &s.handle, 0));
    assert_null(remote);
    end(&s);
}

static void test_an_import_fails(void **state)
{
    rremote_t remote = NULL;
    struct shown s;

    shared_alone(state);
    show(&s, host_pair(), RWINDOW_WRITE);
    s.user.import = NULL;
    CHECK_RC(-EINVAL, s.p.w, rwindow_attach_device(&remote, s.p.w, &s.user, &s.handle, 0));
    s.user = fake_ops(&device);
    device.fail_import = EIO;
    CHECK_RC(-EIO, s.p.w, rwindow_attach_device(&remote, s.p.w, &s.user, &s.handle, 0));
    assert_non_null(strstr(rerror(s.p.w), "fake: import of 200608 bytes"));
    device.fail_import = EAGAIN; /* not to be tried again */
    CHECK_RC(-EIO, s.p.w, rwindow_attach_device(&remote, s.p.w, &s.user, &s.handle, R_NOWAIT));
    assert_null(remote);
    end(&s);
}

/* What the owner has passed is no memory of the device: its table finds out. */
static void test_another_descriptor(void **state)
{
    struct shown s = {.p = host_pair(), .owner = fake_ops(&device), .user = fake_ops(&device)};

    (void)state;
    device.descriptor = FAKE_OTHER;
    own(&s);
    device.descriptor = FAKE_MEMFD;
    if (is_shared()) {
        CHECK_OK(s.p.r, rwindow_open(&s.window, s.p.r, s.region, RWINDOW_WRITE, &s.handle));
        CHECK_RC(-EPROTO, s.p.w, rwindow_attach_device(&s.remote, s.p.w, &s.user, &s.handle, 0));
        CHECK_OK(NULL, rwindow_close(s.window));
    }
    CHECK_OK(NULL, rregion_close(s.region));
    device_pair_close(&s.p);
}

static void test_arguments(void **state)
{
    struct shown s;
    int word = 4711;

    (void)state;
    show(&s, host_pair(), RWINDOW_WRITE);
    CHECK_RC(-EINVAL, NULL, rwindow_sync(NULL, 0, 8, RWINDOW_WRITE));
    CHECK_RC(-EINVAL, NULL, rwindow_sync(s.window, 0, 8, 0));
    CHECK_RC(-EINVAL, NULL, rwindow_sync(s.window, 0, 8, RWINDOW_READ | RWINDOW_WRITE));
    CHECK_RC(-EINVAL, NULL, rwindow_sync(s.window, BYTES, 1, RWINDOW_WRITE));
    CHECK_RC(-EINVAL, NULL, rwindow_sync(s.window, UINT64_MAX, 2, RWINDOW_WRITE));
    CHECK_OK(NULL, rwindow_sync(s.window, BYTES, 0, RWINDOW_WRITE));
    CHECK_RC(-EINVAL, s.p.w, rwindow_write(s.remote, BYTES, near, 1, s.here, NULL, 0));
    CHECK_RC(-EACCES, s.p.w, rwindow_fetch(s.remote, 0, near, 1, s.here, NULL, 0));
    if (!is_staged()) /* the peer has imported it, or a device places the bytes */
        CHECK_RC(-ENOTSUP, NULL, rwindow_revoke(s.window));
    if (is_shared()) {
        s.user.copy_in = NULL;
        CHECK_RC(-ENOTSUP, s.p.w, rwindow_write(s.remote, 0, near, 8, NULL, &word, 0));
        assert_non_null(strstr(rerror(s.p.w), "fake has no copy_in"));
        assert_int_equal(word, 4711);
    }
    end(&s);
    CHECK_RC(-EINVAL, NULL, rwindow_sync(s.window, 0, 8, RWINDOW_WRITE));
}

/* ---- failures and ends ---- */

static void test_calls_of_the_device_fail(void **state)
{
    struct shown s;
    struct side side;
    int word = 4711;

    shared_alone(state);
    show(&s, host_pair(), RWINDOW_READ | RWINDOW_WRITE);
    side = side_open(s.p.w, OTHER);
    device.fail_copy_in = EIO;
    CHECK_RC(-EIO, s.p.w, rwindow_write(s.remote, 0, near, 100, NULL, &word, 0));
    assert_non_null(strstr(rerror(s.p.w), "fake: copy_in of 100 bytes"));
    device.fail_left = EIO;
    CHECK_RC(-EIO, s.p.w, rwindow_write(s.remote, 0, near, 100, NULL, &word, 0));
    assert_non_null(strstr(rerror(s.p.w), "fake: left of 100 bytes"));
    other.fail_left = EIO;
    CHECK_RC(-EIO, s.p.w, rwindow_write(s.remote, 0, side.at, 100, side.region, &word, 0));
    device.fail_arrived = EIO;
    CHECK_RC(-EIO, s.p.w, rwindow_fetch(s.remote, 0, near, 100, NULL, &word, 0));
    assert_non_null(strstr(rerror(s.p.w), "fake: arrived of 100 bytes"));
    device.fail_copy_out = EIO;
    CHECK_RC(-EIO, s.p.w, rwindow_fetch(s.remote, 0, near, 100, NULL, &word, 0));
    other.fail_copy_in = EIO;
    CHECK_RC(-EIO, s.p.w, rwindow_fetch(s.remote, 0, side.at, 100, side.region, &word, 0));
    assert_int_equal(word, 4711);
    side_close(&side);
    end(&s);
}

/* The owner closes first: the user has memory of its own alone, and cannot attach it again. */
static void test_the_owner_closes_first(void **state)
{
    double since = now_ms();
    rremote_t again;
    struct shown s;
    int rc;

    shared_alone(state);
    show(&s, host_pair(), RWINDOW_READ | RWINDOW_WRITE);
    CHECK_OK(NULL, rwindow_close(s.window));
    CHECK_OK(NULL, rregion_close(s.region));
    assert_true(device.allocations == 0 && device.imports == 1);
    pattern_fill(near, 100, 1);
    CHECK_OK(s.p.w, rwindow_write(s.remote, 0, near, 100, NULL, NULL, 0));
    do { /* until the word of the owner has come */
        rc = rwindow_attach_device(&again, s.p.w, &s.user, &s.handle, 0);
        if (rc == 0)
            CHECK_OK(s.p.w, rwindow_detach(again));
    } while (rc == 0 && now_ms() - since < CHECK_LATE_MS);
    assert_int_equal(rc, -EPROTO);
    CHECK_OK(s.p.w, rwindow_detach(s.remote));
    device_pair_close(&s.p);
}

/* rclose detaches what is attached; the pipe of the owner may end before the window. */
static void test_the_pipe_closes_first(void **state)
{
    struct shown s;

    (void)state;
    show(&s, host_pair(), RWINDOW_WRITE);
    CHECK_OK(s.p.r, rclose(s.p.r));
    CHECK_OK(s.p.w, rclose(s.p.w));
    CHECK_RC(-EINVAL, NULL, rwindow_write(s.remote, 0, near, 8, s.here, NULL, 0));
    CHECK_OK(NULL, rwindow_sync(s.window, 0, 8, RWINDOW_WRITE));
    CHECK_OK(NULL, rwindow_close(s.window));
    if (s.here != NULL)
        CHECK_OK(NULL, rregion_close(s.here));
    CHECK_OK(NULL, rregion_close(s.region));
    s.p = host_pair();
    device_pair_close(&s.p); /* the import has ended, too */
}

/* Where the table ends: the library calls nothing of it any more. */
static void forget_table(struct shown *s)
{
    assert_int_equal(device.imports, 0);
    s->user = (rmemory_ops_t){.version = 0};
}

static void end_owner(struct shown *s)
{
    CHECK_OK(NULL, rwindow_close(s->window));
    CHECK_OK(NULL, rregion_close(s->region));
}

/* rwindow_detach ends the import also on a pipe that is lost, and rclose also where the other end is still open. */
static void test_the_table_ends_with_the_window(void **state)
{
    double since = now_ms();
    struct shown s;
    int rc;

    shared_alone(state);
    show(&s, host_pair(), RWINDOW_WRITE);
    CHECK_OK(s.p.r, rclose(s.p.r));
    do
        rc = rwindow_write(s.remote, 0, near, 8, NULL, NULL, 0);
    while (rc == 0 && now_ms() - since < CHECK_LATE_MS);
    assert_int_equal(rc, -EPIPE);
    CHECK_OK(s.p.w, rwindow_detach(s.remote));
    forget_table(&s);
    CHECK_OK(s.p.w, rclose(s.p.w));
    end_owner(&s);

    show(&s, host_pair(), RWINDOW_WRITE);
    CHECK_OK(s.p.w, rclose(s.p.w));
    forget_table(&s);
    CHECK_OK(s.p.r, rclose(s.p.r));
    end_owner(&s);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_without_a_way),
        cmocka_unit_test(test_attaching_is_refused),
        cmocka_unit_test(test_an_import_fails),
        cmocka_unit_test(test_another_descriptor),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_calls_of_the_device_fail),
        cmocka_unit_test(test_the_owner_closes_first),
        cmocka_unit_test(test_the_pipe_closes_first),
        cmocka_unit_test(test_the_table_ends_with_the_window),
    };

    memory = fake_ops(&device);
    other_memory = fake_ops(&other);
    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
