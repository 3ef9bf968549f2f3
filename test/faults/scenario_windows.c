/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario_windows.c: windows (doc/windows.md), while their owner or their user dies or is stopped: see scenario_ends.h.
 *
 * Rank 1 owns windows, memory of the library, of the program and of a simulated device (test/lib/fake_device.h), and sends their
 * handles; rank 0 writes into them, each time with a message behind the bytes, and fetches from them. The owner checks every byte
 * when it has the message, and answers: so the bytes are not changed while they are checked. A death leaves no message whose bytes are not
 * there, and no word that is 0.
 */
#include "scenario_ends.h"
#include "test/lib/fake_device.h"

#define ROUNDS 18
#define WINDOW 4096

enum { LIBRARY, PROGRAM, DEVICE, KINDS };

static struct fake_device device = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t table;

struct windows {
    rch_t out, in; /* of this rank */
    rregion_t region[KINDS];
    char *memory[KINDS];
    rwindow_t window[KINDS];
    rremote_t remote[KINDS];
};

static char program[WINDOW], near[2 * WINDOW];

static struct board_rank *mine(const struct player *p) { return &p->board->rank[p->rank]; }

static size_t round_bytes(uint64_t i) { return 1 + i * 211 % 3000; }
static size_t round_at(uint64_t i) { return i * 97 % 1000; }

static int put(struct player *p, rch_t ch, const void *message, size_t bytes)
{
    int rc;

    do
        rc = rsend(ch, message, bytes, 0);
    while (scene_once_more(p, rc));
    CHECK(ch, rc == 0 || rc == -EPIPE);
    if (rc == 0)
        atomic_fetch_add(&mine(p)->done, 1);
    return rc;
}

static int take(struct player *p, rch_t ch, void *message, size_t bytes)
{
    size_t got = 0;
    int rc;

    do
        rc = rrecv(ch, message, bytes, &got, 0);
    while (scene_once_more(p, rc));
    CHECK(ch, rc == 0 ? got == bytes : rc == R_EOF || rc == -ECONNRESET);
    if (rc == 0)
        atomic_fetch_add(&mine(p)->number, 1);
    return rc == R_EOF ? -ECONNRESET : rc; /* the peer has found the death of the other first */
}

/* ---- the owner ---- */

static int own_region(const struct windows *w, int kind, rregion_t *region)
{
    if (kind == DEVICE)
        return rregion_open_device(region, NULL, &table, NULL, WINDOW);
    return rregion_open(region, kind == LIBRARY ? NULL : w->in, kind == LIBRARY ? NULL : program,
                        WINDOW);
}

static int own_open(struct player *p, struct windows *w, int kind)
{
    rwindow_handle_t handle;
    int rc;

    CHECK(w->in, own_region(w, kind, &w->region[kind]) == 0);
    p->region[p->regions++] = w->region[kind];
    w->memory[kind] = fake_inside(&device, rregion_mem(w->region[kind]));
    rc = rwindow_open(&w->window[kind], w->in, w->region[kind], RWINDOW_READ | RWINDOW_WRITE,
                      &handle);
    CHECK(w->in, rc == 0 || rc == -ECONNRESET); /* the peer has died: nothing can be passed to it */
    return rc == 0 ? put(p, w->out, &handle, sizeof(handle)) : rc;
}

static int own_round(struct player *p, struct windows *w)
{
    uint64_t i = 0;
    int rc = take(p, w->in, &i, sizeof(i)), kind = (int)(i % KINDS);
    char *memory = w->memory[kind];
    rwindow_t window = w->window[kind];

    if (rc != 0)
        return rc;
    CHECK(w->in, rwindow_sync(window, round_at(i), round_bytes(i), RWINDOW_WRITE) == 0);
    CHECK(w->in, pattern_same(memory + round_at(i), round_bytes(i), i));
    pattern_fill(memory, WINDOW, i + 1000); /* what is fetched */
    CHECK(w->in, rwindow_sync(window, 0, WINDOW, RWINDOW_READ) == 0);
    return put(p, w->out, &i, sizeof(i));
}

static int own(struct player *p, struct windows *w)
{
    uint64_t last;
    int rc = 0;

    for (int kind = 0; kind < KINDS && rc == 0; kind++)
        rc = own_open(p, w, kind);
    for (uint64_t i = 0; i < ROUNDS && rc == 0; i++)
        rc = own_round(p, w);
    if (rc == 0)
        rc = take(p, w->in, &last, sizeof(last)); /* the windows are not used any more */
    for (int kind = 0; kind < KINDS; kind++)
        if (w->window[kind] != NULL)
            CHECK(w->in, rwindow_close(w->window[kind]) == 0);
    return rc;
}

/* ---- the user ---- */

static int use_attach(struct player *p, struct windows *w, int kind, const rwindow_handle_t *handle)
{
    int rc;

    do
        rc = kind == DEVICE ? rwindow_attach_device(&w->remote[kind], w->out, &table, handle, 0)
                            : rwindow_attach(&w->remote[kind], w->out, handle, 0);
    while (scene_once_more(p, rc));
    if (rc == -ENOTSUP && kind == PROGRAM) { /* the kernel of this machine does not permit it */
        w->remote[kind] = w->remote[0];
        return 0;
    }
    CHECK(w->out, rc == 0 || rc == -EPIPE);
    return rc;
}

/* A transfer that was accepted is done, or its word has the code. */
static int use_await(struct player *p, rch_t ch, const int *word)
{
    int rc = 0;

    while (*word == 0) {
        rc = rdone(ch, word, 0);
        CHECK(ch, rc == 0            ? *word == 1
                  : rc == -ETIMEDOUT ? *word == 0
                                     : rc == -EPIPE && *word == -EPIPE);
        if (rc != 0 && !scene_once_more(p, rc))
            return rc;
    }
    return *word < 0 ? *word : 0;
}

static int use_round(struct player *p, struct windows *w, rregion_t here, uint64_t i)
{
    rremote_t remote = w->remote[i % KINDS];
    uint64_t answer = 0;
    int word = 4711, fetched = 4711, rc;

    pattern_fill(near, round_bytes(i), i);
    do
        rc = rwindow_write(remote, round_at(i), near, round_bytes(i), here, &word, 0);
    while (scene_once_more(p, rc));
    CHECK(w->out, rc == 0 ? word != 4711 : rc == -EPIPE && word == 4711);
    if (rc == 0)
        rc = put(p, w->out, &i, sizeof(i));
    if (rc == 0)
        rc = take(p, w->in, &answer, sizeof(answer));
    if (rc == 0)
        rc = use_await(p, w->out, &word);
    if (rc != 0)
        return rc;
    CHECK(w->out, answer == i);
    do
        rc = rwindow_fetch(remote, 0, near + WINDOW, WINDOW, here, &fetched, 0);
    while (scene_once_more(p, rc));
    CHECK(w->out, rc == 0 || rc == -EPIPE);
    if (rc == 0)
        rc = use_await(p, w->out, &fetched);
    CHECK(w->out, rc != 0 || pattern_same(near + WINDOW, WINDOW, i + 1000));
    return rc;
}

static int use(struct player *p, struct windows *w)
{
    const uint64_t last = ROUNDS;
    rwindow_handle_t handle[KINDS];
    rregion_t here = NULL;
    int rc;

    do
        rc = rregion_open(&here, w->out, near, sizeof(near));
    while (scene_once_more(p, rc));
    CHECK(w->out, rc == 0);
    p->region[p->regions++] = here;
    /* all before the first attach: one that finds the owner dead would leave messages unread, and kill_job.c counts them */
    for (int kind = 0; kind < KINDS && rc == 0; kind++)
        rc = take(p, w->in, &handle[kind], sizeof(handle[kind]));
    for (int kind = 0; kind < KINDS && rc == 0; kind++)
        rc = use_attach(p, w, kind, &handle[kind]);
    for (uint64_t i = 0; i < ROUNDS && rc == 0; i++)
        rc = use_round(p, w, here, i);
    if (rc == 0)
        CHECK(w->out, rwindow_detach(w->remote[0]) == 0); /* rclose detaches the others */
    return rc == 0 ? put(p, w->out, &last, sizeof(last)) : rc;
}

int scene_window(struct player *p)
{
    rpipe_config_t out = scene_config(p, p->peer, (uint32_t)p->rank, true),
                   in = scene_config(p, p->peer, (uint32_t)p->peer, false);
    struct windows w = {.out = scene_open(p, &out), .in = scene_open(p, &in)};
    int rc = scene_wait_joined(p, w.out);

    table = fake_ops(&device);
    if (rc == 0)
        rc = scene_wait_joined(p, w.in);
    if (rc != 0)
        return rc;
    return p->rank == 1 ? own(p, &w) : use(p, &w);
}
