/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: rwindow(3), at both ends of a pipe of one process: mapped, cross and, over the simulated network and tcp, remote. The
 * simulated network places what it was given in any order that the rules of backends allow, and ends the process when memory changes
 * before its time.
 */
#include "region_pair.h"

#include <rinfo.h>
#include <string.h>

enum { WINDOW = 3 * ROOM / 4 };

/* A pipe, and a window of its reader that its writer has attached. */
struct windowed {
    struct pair p;
    bool own; /* the window is memory of the program; else of the library */
    rregion_t there, here;
    uint8_t *memory; /* of the window */
    rwindow_t window;
    rwindow_handle_t handle;
    rremote_t remote;
};

static void windowed_open(struct windowed *w, rpipe_op_t op, bool own, int flags)
{
    static uint8_t program[WINDOW] __attribute__((aligned(64)));

    pair_open(&w->p, op, HEAP);
    w->own = own;
    CHECK_OK(w->p.r, rregion_open(&w->there, own ? w->p.r : NULL, own ? program : NULL, WINDOW));
    w->memory = rregion_mem(w->there);
    assert_non_null(w->memory);
    memset(w->memory, 0, WINDOW);
    w->here = region_of(w->p.w, buffer[0], ROOM);
    CHECK_OK(w->p.r, rwindow_open(&w->window, w->p.r, w->there, flags, &w->handle));
    CHECK_OK(w->p.w, rwindow_attach(&w->remote, w->p.w, &w->handle, 0));
    assert_int_equal(rwindow_bytes(w->remote), WINDOW);
    assert_int_equal(rwindow_way(w->remote), pair_over_network() ? RWINDOW_REMOTE
                                             : own               ? RWINDOW_CROSS
                                                                 : RWINDOW_MAPPED);
}

static void windowed_close(struct windowed *w)
{
    CHECK_OK(w->p.w, rdone(w->p.w, NULL, 0));
    CHECK_OK(w->p.w, rwindow_detach(w->remote));
    CHECK_OK(NULL, rwindow_close(w->window));
    end_of(w->there);
    end_of(w->here);
    pair_close(&w->p);
}

typedef void (*windowed_test)(struct windowed *w);

/* With memory of the library and of the program, PUT and GET. */
static void everywhere(windowed_test test)
{
    for (int i = 0; i < 4; i++) {
        struct windowed w;

        windowed_open(&w, i % 2 == 0 ? RPIPE_PUT : RPIPE_GET, i / 2 == 0,
                      RWINDOW_READ | RWINDOW_WRITE);
        test(&w);
        windowed_close(&w);
    }
}

static size_t size_of(uint64_t i)
{
    static const size_t size[] = {1, 8, 63, 64, 100, 0, 1000, 4096, 5001, 20000};

    return size[i % (sizeof(size) / sizeof(*size))];
}

/* Every message finds the bytes that were placed before it, whatever kind of message it is; around them nothing has changed. */
static void message_follows(struct windowed *w)
{
    static const size_t message[] = {8, 500, 0, 3000};

    for (uint64_t i = 0; i < 60; i++) {
        size_t size = size_of(i), at = 1 + i * 13 % 500, from = i * 7 % 100, next = message[i % 4];
        int word = 4711;

        memset(w->memory, 0x5a, WINDOW);
        pattern_fill(buffer[0] + from, size, i);
        CHECK_OK(w->p.w, rwindow_write(w->remote, at, buffer[0] + from, size, w->here, &word, 0));
        if (next > 0) {
            pair_send(&w->p, next, i + 1000);
            pair_read_free(&w->p, next, i + 1000);
        } else {
            size_t got = 0;
            char c = 0;

            CHECK_OK(w->p.w, rsend(w->p.w, "x", 1, 0));
            CHECK_OK(w->p.r, rrecv(w->p.r, &c, 1, &got, 0));
        }
        assert_true(pattern_same(w->memory + at, size, i));
        assert_int_equal(w->memory[at - 1], 0x5a);
        assert_int_equal(w->memory[at + size], 0x5a);
        await(w->p.w, &word);
        memset(buffer[0], 0x11, ROOM);
    }
}

/* Many writes, one message behind all of them. */
static void one_message_for_many(struct windowed *w)
{
    enum { PART = 24, PARTS = 1000 };

    for (uint64_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < PARTS; i++)
            pattern_fill(buffer[0] + i * PART, PART, 1000 * round + i);
        for (size_t i = 0; i < PARTS; i++) /* a strided copy */
            CHECK_OK(w->p.w, rwindow_write(w->remote, (PARTS - 1 - i) * PART, buffer[0] + i * PART,
                                           PART, w->here, NULL, 0));
        pair_send(&w->p, 8, round);
        pair_read_free(&w->p, 8, round);
        for (size_t i = 0; i < PARTS; i++)
            assert_true(pattern_same(w->memory + (PARTS - 1 - i) * PART, PART, 1000 * round + i));
        CHECK_OK(w->p.w, rdone(w->p.w, NULL, 0));
    }
}

static void fetches(struct windowed *w)
{
    int word[4];

    for (uint64_t i = 0; i < 40; i++) {
        size_t size = size_of(i), at = i * 11 % 300, to = i * 5 % 64;

        pattern_fill(w->memory + at, size, i);
        memset(buffer[0], 0x5a, ROOM);
        CHECK_OK(w->p.w, rwindow_fetch(w->remote, at, buffer[0] + to, size, w->here, &word[0], 0));
        await(w->p.w, &word[0]);
        assert_true(pattern_same(buffer[0] + to, size, i));
        assert_int_equal(buffer[0][to + size], 0x5a);
    }
    for (size_t i = 0; i < 4; i++)
        pattern_fill(w->memory + i * 100, 100, i);
    for (size_t i = 0; i < 4; i++)
        CHECK_OK(w->p.w,
                 rwindow_fetch(w->remote, i * 100, buffer[0] + i * 200, 100, w->here, &word[i], 0));
    CHECK_OK(w->p.w, rdone(w->p.w, NULL, 0));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(word[i], 1);
        assert_true(pattern_same(buffer[0] + i * 200, 100, i));
    }
}

/* What is in flight is not given back. */
static void busy(struct windowed *w)
{
    int word = 1;

    CHECK_RC(-EBUSY, NULL, rregion_close(w->there)); /* its window is open */
    assert_non_null(strstr(rerror(NULL), "windows"));
    pattern_fill(buffer[0], 20000, 1);
    CHECK_OK(w->p.w, rwindow_write(w->remote, 0, buffer[0], 20000, w->here, &word, 0));
    if (word == 0) { /* a network that has not placed it */
        CHECK_RC(-EBUSY, NULL, rregion_close(w->here));
        CHECK_RC(-EBUSY, w->p.w, rwindow_detach(w->remote));
    } else {
        assert_int_equal(word, 1);
    }
    await(w->p.w, &word);
    pair_send(
        &w->p, 8,
        1); /* the word shows that the memory here may be changed; a message, that the bytes are there */
    pair_read_free(&w->p, 8, 1);
    assert_true(pattern_same(w->memory, 20000, 1));
}

/* Mapped and cross take any memory; a network needs a region. */
static void without_region(struct windowed *w)
{
    int word = 4711, rc = pair_over_network() ? -EINVAL : 0;

    pattern_fill(buffer[1], 1000, 7);
    CHECK_RC(rc, w->p.w, rwindow_write(w->remote, 5, buffer[1], 1000, NULL, &word, 0));
    assert_int_equal(word, rc == 0 ? 1 : 4711);
    if (rc == 0)
        assert_true(pattern_same(w->memory + 5, 1000, 7));
    CHECK_RC(rc, w->p.w,
             rwindow_fetch(w->remote, 5, buffer[1] + 2000, 1000, NULL, &word, R_NOWAIT));
    if (rc == 0)
        assert_true(pattern_same(buffer[1] + 2000, 1000, 7));
}

static void refused(struct windowed *w)
{
    rremote_t remote = (rremote_t)(uintptr_t)0x51, none = remote;
    rwindow_t window = (rwindow_t)(uintptr_t)0x51;
    rregion_t own = NULL;
    rwindow_handle_t handle;
    int word = 4711;

    CHECK_RC(-EINVAL, w->p.r, rwindow_open(&window, w->p.r, w->there, 0, &handle));
    CHECK_RC(-EINVAL, w->p.r, rwindow_open(&window, w->p.r, w->there, 4, &handle));
    CHECK_RC(-EINVAL, w->p.r, rwindow_open(&window, w->p.r, NULL, RWINDOW_READ, &handle));
    CHECK_RC(-EINVAL, w->p.r, rwindow_open(NULL, w->p.r, w->there, RWINDOW_READ, &handle));
    CHECK_RC(-EINVAL, w->p.r, rwindow_open(&window, w->p.r, w->there, RWINDOW_READ, NULL));
    CHECK_RC(-EINVAL, NULL, rwindow_open(&window, NULL, w->there, RWINDOW_READ, &handle));
    CHECK_OK(w->p.w, rregion_open(&own, w->p.w, NULL, 1000));
    CHECK_RC(-EINVAL, w->p.w, rwindow_open(&window, w->p.w, own, RWINDOW_READ, &handle));
    CHECK_RC(
        -EINVAL, w->p.w,
        rwindow_write(w->remote, 0, rregion_mem(own), 10, own, &word, 0)); /* a pipe's memory */
    end_of(own);
    CHECK_RC(-EINVAL, w->p.w, rwindow_attach(NULL, w->p.w, &w->handle, 0));
    CHECK_RC(-EINVAL, w->p.w, rwindow_attach(&remote, w->p.w, NULL, 0));
    CHECK_RC(-EINVAL, w->p.w, rwindow_attach(&remote, w->p.w, &w->handle, 64));
    CHECK_RC(-EBADF, w->p.r, rwindow_attach(&remote, w->p.r, &w->handle, 0));
    CHECK_RC(-EINVAL, NULL, rwindow_detach(NULL));
    CHECK_RC(-EINVAL, NULL, rwindow_close(NULL));
    CHECK_RC(-EINVAL, NULL, rwindow_way(NULL));
    CHECK_RC(-EINVAL, NULL, rwindow_write(NULL, 0, buffer[0], 1, w->here, &word, 0));
    CHECK_RC(-EINVAL, w->p.w, rwindow_write(w->remote, WINDOW, buffer[0], 1, w->here, &word, 0));
    assert_non_null(strstr(rerror(w->p.w), "outside"));
    CHECK_RC(-EINVAL, w->p.w, rwindow_write(w->remote, 2, buffer[0], SIZE_MAX, w->here, &word, 0));
    CHECK_RC(-EINVAL, w->p.w,
             rwindow_fetch(w->remote, UINT64_MAX, buffer[0], 2, w->here, &word, 0));
    CHECK_RC(-EINVAL, w->p.w,
             rwindow_write(w->remote, 0, buffer[0] + ROOM - 1, 2, w->here, &word, 0));
    CHECK_RC(-EINVAL, w->p.w, rwindow_write(w->remote, 0, NULL, 2, NULL, &word, 0));
    CHECK_RC(-EINVAL, w->p.w, rwindow_write(w->remote, 0, buffer[0], 2, w->here, &word, 64));
    assert_true(remote == none);
    assert_int_equal(word, 4711);
    assert_int_equal(rwindow_bytes(NULL), 0);
}

#define EVERYWHERE(test)                                                                           \
    static void test##_everywhere(void **state)                                                    \
    {                                                                                              \
        (void)state;                                                                               \
        everywhere(test);                                                                          \
    }
EVERYWHERE(message_follows)
EVERYWHERE(one_message_for_many)
EVERYWHERE(fetches)
EVERYWHERE(busy)
EVERYWHERE(without_region)
EVERYWHERE(refused)

/* A window that is open for one of the two alone. */
static void access_is_kept(void **state)
{
    struct windowed w;
    int word = 4711;

    (void)state;
    for (int own = 0; own < 2; own++) {
        windowed_open(&w, RPIPE_PUT, own != 0, RWINDOW_READ);
        CHECK_RC(-EACCES, w.p.w, rwindow_write(w.remote, 0, buffer[0], 1, w.here, &word, 0));
        pattern_fill(w.memory, 100, 1);
        CHECK_OK(w.p.w, rwindow_fetch(w.remote, 0, buffer[0], 100, w.here, &word, 0));
        await(w.p.w, &word);
        assert_true(pattern_same(buffer[0], 100, 1));
        windowed_close(&w);
        windowed_open(&w, RPIPE_PUT, own != 0, RWINDOW_WRITE);
        CHECK_RC(-EACCES, w.p.w, rwindow_fetch(w.remote, 0, buffer[0], 1, w.here, &word, 0));
        CHECK_OK(w.p.w, rwindow_write(w.remote, 0, buffer[0], 100, w.here, &word, 0));
        await(w.p.w, &word);
        windowed_close(&w);
    }
}

static void write_and_send(struct windowed *w, rremote_t remote, size_t at, size_t bytes)
{
    CHECK_OK(w->p.w, rwindow_write(remote, at, buffer[0], bytes, w->here, NULL, 0));
    pair_send(&w->p, 8, at);
    pair_read_free(&w->p, 8, at);
}

/* What an owner has taken back is not written any more. What the peer writes is lost, and neither end fails; another window is not affected. */
static void taken_back(void **state)
{
    struct windowed w;
    rwindow_t other;
    rwindow_handle_t handle;
    rremote_t remote;
    rinfo_pipe_t info;
    bool possible;

    (void)state;
    for (int own = 0; own < 2; own++) {
        windowed_open(&w, RPIPE_PUT, own != 0, RWINDOW_WRITE);
        CHECK_OK(w.p.r, rinfo_describe(w.p.r, &info));
        possible = strcmp(info.backend, "tcp") == 0;
        CHECK_OK(w.p.r, rwindow_open(&other, w.p.r, w.there, RWINDOW_WRITE, &handle));
        CHECK_OK(w.p.w, rwindow_attach(&remote, w.p.w, &handle, 0));
        pattern_fill(buffer[0], 20000, 1);
        write_and_send(&w, w.remote, 7, 5000);
        assert_true(pattern_same(w.memory + 7, 5000, 1));
        CHECK_RC(possible ? 0 : -ENOTSUP, NULL, rwindow_revoke(w.window));
        if (possible) {
            memset(w.memory, 0x5a, WINDOW);
            write_and_send(&w, w.remote, 0, 20000);
            write_and_send(&w, w.remote, WINDOW - 100, 100);
            for (size_t i = 0; i < WINDOW; i++)
                assert_int_equal(w.memory[i], 0x5a);
            CHECK_OK(NULL, rwindow_revoke(w.window));
            CHECK_RC(-EBUSY, NULL, rregion_close(w.there));
            write_and_send(&w, remote, 64, 20000);
            assert_true(pattern_same(w.memory + 64, 20000, 1));
        }
        CHECK_OK(w.p.w, rdone(w.p.w, NULL, 0));
        CHECK_OK(w.p.w, rwindow_detach(remote));
        CHECK_OK(NULL, rwindow_close(other));
        windowed_close(&w);
        CHECK_RC(-EINVAL, NULL, rwindow_revoke(w.window));
        windowed_open(&w, RPIPE_PUT, own != 0, RWINDOW_READ | RWINDOW_WRITE);
        CHECK_RC(-EINVAL, NULL, rwindow_revoke(w.window));
        windowed_close(&w);
    }
    CHECK_RC(-EINVAL, NULL, rwindow_revoke(NULL));
}

/* The handles of the program are recognized after they have been closed; a pipe takes its remotes with it. */
static void closed(void **state)
{
    struct windowed w;
    int word = 4711;

    (void)state;
    windowed_open(&w, RPIPE_PUT, false, RWINDOW_WRITE);
    CHECK_OK(w.p.w, rwindow_detach(w.remote));
    CHECK_RC(-EINVAL, NULL, rwindow_detach(w.remote));
    CHECK_RC(-EINVAL, NULL, rwindow_write(w.remote, 0, buffer[0], 1, w.here, &word, 0));
    CHECK_OK(w.p.w, rwindow_attach(&w.remote, w.p.w, &w.handle, 0));
    pair_close(&w.p);
    CHECK_RC(-EINVAL, NULL, rwindow_write(w.remote, 0, buffer[0], 1, w.here, &word, 0));
    assert_non_null(strstr(rerror(NULL), "detached"));
    CHECK_RC(-EINVAL, NULL, rwindow_way(w.remote));
    CHECK_OK(NULL, rwindow_close(w.window));
    CHECK_RC(-EINVAL, NULL, rwindow_close(w.window));
    end_of(w.there);
    end_of(w.here);
    assert_int_equal(word, 4711);
}

/* What is opened next is not what was closed last: the handles that were closed stay so. */
static void reused(void **state)
{
    struct windowed w;
    rremote_t remote[3];
    rwindow_t window[3];
    rwindow_handle_t handle;
    int word = 4711;

    (void)state;
    windowed_open(&w, RPIPE_PUT, false, RWINDOW_WRITE);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(w.p.w, rwindow_attach(&remote[i], w.p.w, &w.handle, 0));
        CHECK_OK(w.p.r, rwindow_open(&window[i], w.p.r, w.there, RWINDOW_WRITE, &handle));
    }
    for (int i = 1; i >= 0; i--) {
        CHECK_OK(w.p.w, rwindow_detach(remote[i]));
        CHECK_OK(NULL, rwindow_close(window[i]));
    }
    CHECK_OK(w.p.w, rwindow_attach(&remote[2], w.p.w, &w.handle, 0));
    CHECK_OK(w.p.r, rwindow_open(&window[2], w.p.r, w.there, RWINDOW_WRITE, &handle));
    CHECK_RC(-EINVAL, NULL, rwindow_write(remote[0], 0, buffer[0], 1, w.here, &word, 0));
    CHECK_RC(-EINVAL, NULL, rwindow_detach(remote[0]));
    CHECK_RC(-EINVAL, NULL, rwindow_close(window[0]));
    assert_int_equal(word, 4711);
    CHECK_OK(w.p.w, rwindow_detach(remote[2]));
    CHECK_OK(NULL, rwindow_close(window[2]));
    windowed_close(&w);
}

/* A region that does not have the bytes, was closed or is a pipe's is refused where a write is one copy, too. */
static void near_region(void **state)
{
    struct windowed w;
    rregion_t small;
    int word = 4711;

    (void)state;
    windowed_open(&w, RPIPE_PUT, false, RWINDOW_WRITE);
    small = region_of(w.p.w, buffer[1] + 64, 64);
    memset(w.memory, 0x5a, WINDOW);
    for (size_t at = 60; at < 70; at++)
        for (size_t bytes = 56; bytes < 68; bytes++)
            if (at < 64 || at + bytes > 128)
                CHECK_RC(-EINVAL, w.p.w,
                         rwindow_write(w.remote, 1, buffer[1] + at, bytes, small, &word, 0));
    CHECK_RC(-EINVAL, w.p.w, rwindow_write(w.remote, 1, buffer[1] + 64, 65, small, &word, 0));
    CHECK_OK(NULL, rregion_close(small));
    CHECK_RC(-EINVAL, w.p.w, rwindow_write(w.remote, 1, buffer[1] + 64, 64, small, &word, 0));
    assert_int_equal(word, 4711);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(w.memory[i], 0x5a);
    windowed_close(&w);
}

/* A window outlives the pipe that it was opened with, and serves every pipe between the two. */
static void of_another_pipe(void **state)
{
    struct windowed w;
    struct pair q;
    rremote_t second = NULL;
    int word = 0;

    (void)state;
    windowed_open(&w, RPIPE_PUT, false, RWINDOW_WRITE);
    pair_open(&q, RPIPE_GET, HEAP);
    pair_close(&w.p);
    CHECK_OK(q.w, rwindow_attach(&second, q.w, &w.handle, 0));
    pattern_fill(buffer[0], 300, 3);
    CHECK_OK(q.w, rwindow_write(second, 10, buffer[0], 300, w.here, &word, 0));
    await(q.w, &word);
    pair_send(&q, 8, 1);
    pair_read_free(&q, 8, 1);
    assert_true(pattern_same(w.memory + 10, 300, 3));
    CHECK_OK(q.w, rwindow_detach(second));
    CHECK_OK(NULL, rwindow_close(w.window));
    end_of(w.there);
    end_of(w.here);
    pair_close(&q);
}

/* Each byte of a handle, altered, is recognized: whatever it is, no window is attached. */
static void altered(void **state)
{
    struct windowed w;

    (void)state;
    for (int own = 0; own < 2; own++) {
        windowed_open(&w, RPIPE_PUT, own != 0, RWINDOW_READ | RWINDOW_WRITE);
        for (size_t i = 0; i < sizeof(w.handle); i++)
            for (int bit = 0; bit < 8; bit++) {
                rwindow_handle_t handle = w.handle;
                rremote_t remote = NULL;

                ((uint8_t *)&handle)[i] ^= (uint8_t)(1u << bit);
                CHECK_RC(-EPROTO, w.p.w, rwindow_attach(&remote, w.p.w, &handle, 0));
                assert_null(remote);
            }
        windowed_close(&w);
    }
}

/* A window that was closed: where the owner's memory is mapped or read by the kernel, that is found out when it is attached or used. */
static void stale(void **state)
{
    struct windowed w;
    rremote_t remote = NULL;
    int word = 0;

    (void)state;
    if (pair_over_network()) /* the simulated network takes it for a defect of the library */
        return;
    for (int own = 0; own < 2; own++) {
        windowed_open(&w, RPIPE_PUT, own != 0, RWINDOW_READ | RWINDOW_WRITE);
        CHECK_OK(NULL, rwindow_close(w.window));
        if (own != 0) {
            CHECK_RC(-EPROTO, w.p.w, rwindow_write(w.remote, 0, buffer[0], 1, w.here, &word, 0));
            assert_non_null(strstr(rerror(w.p.w), "closed by its owner"));
            CHECK_RC(-EPROTO, w.p.w, rwindow_fetch(w.remote, 0, buffer[0], 1, w.here, &word, 0));
            CHECK_RC(-EPROTO, w.p.w, rwindow_attach(&remote, w.p.w, &w.handle, 0));
        }
        CHECK_OK(w.p.w, rwindow_detach(w.remote));
        end_of(w.there);
        end_of(w.here);
        pair_close(&w.p);
    }
}

/* A reader that has read what follows the bytes, and then closes: they are there, and the memory here is free at once. */
static void reader_closed(void **state)
{
    struct windowed w;
    int word[2] = {0, 0};
    double since;

    (void)state;
    for (int i = 0; i < 2; i++) {
        windowed_open(&w, i == 0 ? RPIPE_PUT : RPIPE_GET, false, RWINDOW_WRITE);
        for (size_t k = 0; k < 2; k++)
            CHECK_OK(w.p.w, rwindow_write(w.remote, 500 * k, buffer[0], 500, w.here, &word[k], 0));
        CHECK_OK(w.p.w, rsend(w.p.w, "x", 1, 0));
        CHECK_OK(w.p.r, rrecv(w.p.r, buffer[1], 1, NULL, 0));
        CHECK_OK(w.p.r, rclose(w.p.r));
        since = now_ms();
        while (rroom(w.p.w, 1) != -EPIPE)
            assert_true(now_ms() - since < CHECK_LATE_MS);
        assert_int_equal(word[0], 1);
        assert_int_equal(word[1], 1);
        CHECK_OK(w.p.w, rdone(w.p.w, NULL, 0));
        CHECK_OK(NULL, rregion_close(w.here));
        CHECK_OK(w.p.w, rclose(w.p.w));
        CHECK_OK(NULL, rwindow_close(w.window));
        end_of(w.there);
    }
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_follows_everywhere),
        cmocka_unit_test(one_message_for_many_everywhere),
        cmocka_unit_test(fetches_everywhere),
        cmocka_unit_test(busy_everywhere),
        cmocka_unit_test(without_region_everywhere),
        cmocka_unit_test(refused_everywhere),
        cmocka_unit_test(access_is_kept),
        cmocka_unit_test(taken_back),
        cmocka_unit_test(closed),
        cmocka_unit_test(reused),
        cmocka_unit_test(near_region),
        cmocka_unit_test(of_another_pipe),
        cmocka_unit_test(altered),
        cmocka_unit_test(stale),
        cmocka_unit_test(reader_closed),
    };

    return cmocka_run_group_tests_name("window", tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
