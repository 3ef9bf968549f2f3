/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_window.h: a window of memory of a device and its user, for test_device_window.c and test_device_window_end.c: both ends of a pipe in
 * one process, which is both devices, too.
 */
#ifndef TEST_UNIT_DEVICE_WINDOW_H
#define TEST_UNIT_DEVICE_WINDOW_H

#include "device_pair.h"

enum { BYTES = 3 * 64 * 1024 + 4000 }; /* more than one buffer between two devices */

static struct fake_device other = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t other_memory;
static uint8_t near[BYTES];

/* A window of memory of the device, and its user, with a table for each of the two. */
struct shown {
    struct pair p;
    rmemory_ops_t owner, user;
    rregion_t region;
    rwindow_t window;
    rwindow_handle_t handle;
    rremote_t remote;
    rregion_t here;  /* over a network: `near`; else NULL */
    uint8_t *inside; /* where the device of the owner computes */
};

static inline struct pair host_pair(void)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, RPIPE_PUT);
    struct pair p;

    cfg.memory = NULL;
    p = device_open(&cfg);
    CHECK_OK(p.w, rwait(p.w));
    CHECK_OK(p.r, rwait(p.r));
    return p;
}

static inline void shared_alone(void **state)
{
    (void)state;
    if (!is_shared())
        skip();
}

static inline void network_alone(void **state)
{
    (void)state;
    if (is_shared())
        skip();
}

static inline void own(struct shown *s)
{
    CHECK_OK(NULL, rregion_open_device(&s->region, NULL, &s->owner, NULL, BYTES));
    s->inside = fake_at(&device, rregion_mem(s->region), BYTES).inside;
}

static inline void open_window(struct shown *s, int flags)
{
    CHECK_OK(s->p.r, rwindow_open(&s->window, s->p.r, s->region, flags, &s->handle));
    CHECK_OK(s->p.w, rwindow_attach_device(&s->remote, s->p.w, &s->user, &s->handle, 0));
    assert_int_equal(rwindow_way(s->remote), is_shared() ? RWINDOW_DEVICE : RWINDOW_REMOTE);
    assert_int_equal(rwindow_bytes(s->remote), BYTES);
    if (!is_shared())
        CHECK_OK(s->p.w, rregion_open(&s->here, s->p.w, near, BYTES));
}

/* In place: the library keeps the tables. */
static inline void show(struct shown *s, struct pair p, int flags)
{
    *s = (struct shown){.p = p, .owner = fake_ops(&device), .user = fake_ops(&device)};
    own(s);
    open_window(s, flags);
}

static inline void close_all(struct shown *s)
{
    s->owner = s->user = fake_ops(&device);
    CHECK_OK(s->p.w, rwindow_detach(s->remote));
    if (s->here != NULL)
        CHECK_OK(NULL, rregion_close(s->here));
    CHECK_RC(-EBUSY, NULL, rregion_close(s->region));
    CHECK_OK(NULL, rwindow_close(s->window));
    CHECK_OK(NULL, rregion_close(s->region));
    device_pair_close(&s->p);
}

static inline void end(struct shown *s)
{
    CHECK_OK(s->p.w, rdone(s->p.w, NULL, 0));
    close_all(s);
}

/* ---- bytes ---- */

enum place { LOOSE, HOST, DEVICE, OTHER, PLACES };

struct side {
    rregion_t region; /* NULL: loose memory of the host */
    uint8_t *at;      /* for the library */
    struct fake_device *of;
};

static inline struct side side_open(rch_t ch, enum place place)
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

static inline void side_close(const struct side *s)
{
    if (s->region != NULL)
        CHECK_OK(NULL, rregion_close(s->region));
    if (s->of != NULL)
        fake_unmap(s->of, s->at, BYTES);
}

/* A message: the bytes of every write before it are there. */
static inline void announce(const struct shown *s)
{
    static uint64_t last;
    uint64_t sent = ++last, got = 0;
    size_t n;

    CHECK_OK(s->p.w, rsend(s->p.w, &sent, sizeof(sent), 0));
    CHECK_OK(s->p.r, rrecv(s->p.r, &got, sizeof(got), &n, 0));
    assert_true(got == sent && n == sizeof(got));
}

/* Within a host a transfer is complete when its call returns. */
static inline void await(const struct shown *s, const int *word)
{
    if (is_shared())
        assert_int_equal(*word, 1);
    CHECK_OK(s->p.w, rdone(s->p.w, word, 0));
    assert_int_equal(*word, 1);
}

static inline void write_near(const struct shown *s, uint64_t at, size_t bytes)
{
    int word = 4711;

    CHECK_OK(s->p.w, rwindow_write(s->remote, at, near, bytes, s->here, &word, 0));
    announce(s);
    await(s, &word);
}

static inline void fetch_near(const struct shown *s, uint64_t at, size_t bytes)
{
    int word = 4711;

    CHECK_OK(s->p.w, rwindow_fetch(s->remote, at, near, bytes, s->here, &word, 0));
    await(s, &word);
}

/* A window that the owner cannot open, with words of the reason. */
static inline void not_opened(struct shown *s, int flags, const char *words)
{
    CHECK_RC(-ENOTSUP, s->p.r, rwindow_open(&s->window, s->p.r, s->region, flags, &s->handle));
    assert_non_null(strstr(rerror(s->p.r), words));
    assert_null(s->window);
    CHECK_OK(NULL, rregion_close(s->region));
}

#endif
