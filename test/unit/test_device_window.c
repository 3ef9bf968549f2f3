/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows of memory of a device: written from each kind of memory and fetched into it, over a pipe of each kind; that no call of the table
 * can be left out; refusals, failures, and ends in each order. Checked is the memory in which the device of the owner computes. Over a
 * network they are refused.
 */
#include "device_pair.h"

#include <fcntl.h>

enum { BYTES = 3 * 64 * 1024 + 4000 }; /* more than one buffer between two devices */

static struct fake_device other = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t other_memory;
static uint8_t near[BYTES];

static const size_t sizes[] = {0, 1, 40, 41, 1000, 65536, 65537, BYTES - 100};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* A window of memory of the device, and its user, with a table for each of the two. */
struct shown {
    struct pair p;
    rmemory_ops_t owner, user;
    rregion_t region;
    rwindow_t window;
    rwindow_handle_t handle;
    rremote_t remote;
    uint8_t *inside; /* where the device of the owner computes */
};

static struct pair host_pair(void)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, RPIPE_PUT);
    struct pair p;

    cfg.memory = NULL;
    p = device_open(&cfg);
    CHECK_OK(p.w, rwait(p.w));
    CHECK_OK(p.r, rwait(p.r));
    return p;
}

static void shared_alone(void **state)
{
    (void)state;
    if (!is_shared())
        skip();
}

static void own(struct shown *s)
{
    CHECK_OK(NULL, rregion_open_device(&s->region, NULL, &s->owner, NULL, BYTES));
    s->inside = fake_at(&device, rregion_mem(s->region), BYTES).inside;
}

/* In place: the library keeps the tables. */
static void show(struct shown *s, struct pair p, int flags)
{
    *s = (struct shown){.p = p, .owner = fake_ops(&device), .user = fake_ops(&device)};
    own(s);
    CHECK_OK(p.r, rwindow_open(&s->window, p.r, s->region, flags, &s->handle));
    CHECK_OK(p.w, rwindow_attach_device(&s->remote, p.w, &s->user, &s->handle, 0));
    assert_int_equal(rwindow_way(s->remote), RWINDOW_DEVICE);
    assert_int_equal(rwindow_bytes(s->remote), BYTES);
}

static void end(struct shown *s)
{
    s->owner = s->user = fake_ops(&device);
    CHECK_OK(s->p.w, rwindow_detach(s->remote));
    CHECK_RC(-EBUSY, NULL, rregion_close(s->region));
    CHECK_OK(NULL, rwindow_close(s->window));
    CHECK_OK(NULL, rregion_close(s->region));
    device_pair_close(&s->p);
}

/* ---- bytes ---- */

enum place { LOOSE, HOST, DEVICE, OTHER, PLACES };

struct side {
    rregion_t region; /* NULL: loose memory of the host */
    uint8_t *at;      /* for the library */
    struct fake_device *of;
};

static struct side side_open(rch_t ch, enum place place)
{
    struct side s = {NULL, near, NULL};

    if (place == HOST)
        CHECK_OK(ch, rregion_open(&s.region, ch, near, BYTES));
    if (place < DEVICE)
        return s;
    s.of = place == DEVICE ? &device : &other;
    s.at = fake_lend(s.of, near, BYTES);
    CHECK_OK(ch, rregion_open_device(&s.region, ch, place == DEVICE ? &memory : &other_memory, s.at,
                                     BYTES));
    return s;
}

static void side_close(const struct side *s)
{
    if (s->region != NULL)
        CHECK_OK(NULL, rregion_close(s->region));
    if (s->of != NULL)
        fake_unmap(s->of, s->at, BYTES);
}

static void move(struct shown *s, const struct side *side)
{
    for (uint64_t i = 0; i < SIZES; i++) {
        size_t size = sizes[i];
        uint64_t at = 2 * i + 1;
        int word = 4711;

        memset(near, 0x5a, BYTES);
        memset(s->inside, 0xa5, BYTES);
        pattern_fill(near + i, size, i);
        CHECK_OK(s->p.w, rwindow_write(s->remote, at, side->at + i, size, side->region, &word, 0));
        assert_int_equal(word, 1);
        memset(near, 0x5a, BYTES);
        CHECK_OK(NULL, rwindow_sync(s->window, at, size, RWINDOW_WRITE));
        assert_true(pattern_same(s->inside + at, size, i));
        assert_true(s->inside[at - 1] == 0xa5 && s->inside[at + size] == 0xa5);

        pattern_fill(s->inside + at, size, i + 100);
        CHECK_OK(NULL, rwindow_sync(s->window, at, size, RWINDOW_READ));
        word = 4711;
        CHECK_OK(s->p.w, rwindow_fetch(s->remote, at, side->at + 3, size, side->region, &word, 0));
        assert_int_equal(word, 1);
        assert_true(pattern_same(near + 3, size, i + 100));
        assert_true(near[2] == 0x5a && near[3 + size] == 0x5a);
    }
}

/* From each kind of memory and into it; on a pipe with fast paths, and on one of the device. */
static void test_every_way(void **state)
{
    shared_alone(state);
    for (int way = 0; way < 2 * PLACES; way++) {
        struct shown s;
        struct side side;

        show(&s, way % 2 == 0 ? host_pair() : device_pair(RPIPE_PUT), RWINDOW_READ | RWINDOW_WRITE);
        side = side_open(s.p.w, (enum place)(way / 2));
        move(&s, &side);
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

    shared_alone(state);
    show(&s, host_pair(), RWINDOW_READ | RWINDOW_WRITE);
    CHECK_OK(s.p.w, rwindow_open(&second, s.p.w, s.region, RWINDOW_WRITE, &handle));
    CHECK_OK(s.p.w, rwindow_attach_device(&remote[1], s.p.w, &s.user, &handle, 0));
    CHECK_OK(s.p.w, rwindow_attach_device(&remote[2], s.p.w, &s.user, &s.handle, 0));
    remote[0] = s.remote;
    for (uint64_t i = 0; i < 60; i++) {
        size_t size = 1 + random_mix(i) % 3000;
        uint64_t at = random_mix(i + 1000) % (BYTES - size);

        pattern_fill(near, size, i);
        CHECK_OK(s.p.w, rwindow_write(remote[i % 3], at, near, size, NULL, NULL, 0));
        CHECK_OK(s.p.w, rsend(s.p.w, &i, sizeof(i), 0));
        CHECK_OK(s.p.r, rrecv(s.p.r, &got, sizeof(got), &n, 0));
        CHECK_OK(NULL, rwindow_sync(i % 2 == 0 ? s.window : second, at, size, RWINDOW_WRITE));
        assert_true(got == i && pattern_same(s.inside + at, size, i));
    }
    CHECK_RC(-EACCES, s.p.w, rwindow_fetch(remote[1], 0, near, 8, NULL, NULL, 0));
    CHECK_OK(s.p.w, rwindow_detach(remote[1]));
    CHECK_OK(NULL, rwindow_close(second));
    CHECK_OK(s.p.w, rwindow_detach(remote[2]));
    end(&s);
}

/* Without any one of the four calls that exchange bytes with the device there are other bytes; with all, those that were stored. */
static void test_no_call_can_be_left_out(void **state)
{
    shared_alone(state);
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
        CHECK_OK(s.p.w, rwindow_write(s.remote, 0, near, 1000, NULL, NULL, 0));
        CHECK_OK(NULL, rwindow_sync(s.window, 0, 1000, RWINDOW_WRITE));
        assert_true(pattern_same(s.inside, 1000, 1) == (missing != 1 && missing != 2));
        pattern_fill(s.inside + 2000, 1000, 2);
        CHECK_OK(NULL, rwindow_sync(s.window, 2000, 1000, RWINDOW_READ));
        CHECK_OK(s.p.w, rwindow_fetch(s.remote, 2000, near, 1000, NULL, NULL, 0));
        assert_true(pattern_same(near, 1000, 2) == (missing != 3 && missing != 4));
        end(&s);
    }
}

/* ---- refusals ---- */

/* A window that the owner cannot open, with words of the reason. */
static void not_opened(struct shown *s, const char *words)
{
    CHECK_RC(-ENOTSUP, s->p.r,
             rwindow_open(&s->window, s->p.r, s->region, RWINDOW_WRITE, &s->handle));
    assert_non_null(strstr(rerror(s->p.r), words));
    assert_null(s->window);
    CHECK_OK(NULL, rregion_close(s->region));
}

static void test_memory_without_a_way(void **state)
{
    struct shown s = {.p = host_pair(), .owner = fake_ops(&device)};
    void *at = fake_lend(&device, near, BYTES);

    (void)state;
    CHECK_OK(s.p.r, rregion_open_device(&s.region, s.p.r, &s.owner, at, BYTES));
    not_opened(&s, is_shared() ? "with ch and buf NULL" : "send its bytes with rwrite_from");
    fake_unmap(&device, at, BYTES);
    device.descriptor = FAKE_NONE;
    own(&s);
    not_opened(&s, is_shared() ? "alloc has made no descriptor" : "rwrite_from");
    device.descriptor = FAKE_MEMFD;
    own(&s);
    if (!is_shared())
        not_opened(&s, "memory of a device (fake)");
    else
        CHECK_OK(NULL, rregion_close(s.region));
    device_pair_close(&s.p);
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
    CHECK_OK(p.w, rsend(p.w, near, 5000, 0));
    CHECK_OK(p.r, rread_into(p.r, region, 20000, 6000, &got, NULL, 0));
    assert_true(got == 5000 &&
                pattern_same(fake_at(&device, rregion_mem(region), BYTES).inside + 20000, got, 1));
    CHECK_OK(NULL, rregion_close(region));
    device_pair_close(&p);
}

static void test_attaching_is_refused(void **state)
{
    struct shown s;
    rwindow_handle_t host;
    rwindow_t window;
    rregion_t region;
    rremote_t remote = NULL;

    shared_alone(state);
    show(&s, host_pair(), RWINDOW_WRITE);
    CHECK_RC(-EPROTO, s.p.w, rwindow_attach(&remote, s.p.w, &s.handle, 0));
    assert_non_null(strstr(rerror(s.p.w), "rwindow_attach_device"));
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
    s.user = fake_ops(&device);
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

    shared_alone(state);
    show(&s, host_pair(), RWINDOW_WRITE);
    CHECK_RC(-EINVAL, NULL, rwindow_sync(NULL, 0, 8, RWINDOW_WRITE));
    CHECK_RC(-EINVAL, NULL, rwindow_sync(s.window, 0, 8, 0));
    CHECK_RC(-EINVAL, NULL, rwindow_sync(s.window, 0, 8, RWINDOW_READ | RWINDOW_WRITE));
    CHECK_RC(-EINVAL, NULL, rwindow_sync(s.window, BYTES, 1, RWINDOW_WRITE));
    CHECK_RC(-EINVAL, NULL, rwindow_sync(s.window, UINT64_MAX, 2, RWINDOW_WRITE));
    CHECK_OK(NULL, rwindow_sync(s.window, BYTES, 0, RWINDOW_WRITE));
    CHECK_RC(-EINVAL, s.p.w, rwindow_write(s.remote, BYTES, near, 1, NULL, NULL, 0));
    CHECK_RC(-EACCES, s.p.w, rwindow_fetch(s.remote, 0, near, 1, NULL, NULL, 0));
    CHECK_RC(-ENOTSUP, NULL, rwindow_revoke(s.window)); /* the peer has imported it */
    s.user.copy_in = NULL;
    CHECK_RC(-ENOTSUP, s.p.w, rwindow_write(s.remote, 0, near, 8, NULL, &word, 0));
    assert_non_null(strstr(rerror(s.p.w), "fake has no copy_in"));
    assert_int_equal(word, 4711);
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
    device.fail_left = EIO;
    CHECK_RC(-EIO, NULL, rwindow_sync(s.window, 0, 100, RWINDOW_READ));
    assert_non_null(strstr(rerror(NULL), "fake: left of 100 bytes"));
    device.fail_arrived = EIO;
    CHECK_RC(-EIO, NULL, rwindow_sync(s.window, 0, 100, RWINDOW_WRITE));
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

    shared_alone(state);
    show(&s, host_pair(), RWINDOW_WRITE);
    CHECK_OK(s.p.r, rclose(s.p.r));
    CHECK_OK(s.p.w, rclose(s.p.w));
    CHECK_RC(-EINVAL, NULL, rwindow_write(s.remote, 0, near, 8, NULL, NULL, 0));
    CHECK_OK(NULL, rwindow_sync(s.window, 0, 8, RWINDOW_WRITE));
    CHECK_OK(NULL, rwindow_close(s.window));
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
        cmocka_unit_test(test_every_way),
        cmocka_unit_test(test_messages_announce_bytes),
        cmocka_unit_test(test_no_call_can_be_left_out),
        cmocka_unit_test(test_memory_without_a_way),
        cmocka_unit_test(test_regions_that_the_table_makes),
        cmocka_unit_test(test_attaching_is_refused),
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
