/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows between processes: each rank opens two, memory of the library and of the program, to the rank before it, which writes into
 * both and fetches from them. Handles travel in messages. Each round is a write of a drawn length at a drawn offset, a message that
 * describes it, and a check by the owner of every byte; some rounds are fetches of what the owner has filled. Where the kernel does not
 * permit access to the other process, the window of the program's memory is refused with a message, and left out.
 */
#include "test/lib/mp_check.h"
#include <rpipe.h>

#include <errno.h>

enum { HEAP = 64 * 1024, WINDOW = 600 * 1024, KINDS = 2 };
static uint64_t rounds; /* the argument, or 80 */

static uint8_t program[WINDOW], near[WINDOW];

struct note { /* a message: bytes of window `kind` are there */
    uint64_t kind, at, bytes, key;
};

struct ends {
    rch_t w, r;
    int next, before;
    rregion_t region[KINDS], here;
    uint8_t *memory[KINDS];
    rwindow_t window[KINDS];
    rremote_t remote[KINDS]; /* NULL: refused */
};

static rch_t ends_pipe(int peer, bool writer, uint32_t context)
{
    rch_t ch = NULL;

    CHECK_OK(NULL, mp_open(&ch, writer, peer, context, RPIPE_PUT, HEAP, 64));
    return ch;
}

/* The handle goes to the rank before this one, by a pipe of its own. */
static void ends_open(struct ends *e)
{
    rch_t to = ends_pipe(e->before, true, 7), from = ends_pipe(e->next, false, 7);

    for (int kind = 0; kind < KINDS; kind++) {
        rwindow_handle_t handle;
        size_t got = 0;
        int rc;

        CHECK_OK(e->r, rregion_open(&e->region[kind], kind == 0 ? NULL : e->r,
                                    kind == 0 ? NULL : program, WINDOW));
        e->memory[kind] = rregion_mem(e->region[kind]);
        CHECK_OK(e->r, rwindow_open(&e->window[kind], e->r, e->region[kind],
                                    RWINDOW_READ | RWINDOW_WRITE, &handle));
        CHECK_OK(to, rsend(to, &handle, sizeof(handle), 0));
        CHECK_OK(from, rrecv(from, &handle, sizeof(handle), &got, 0));
        rc = rwindow_attach(&e->remote[kind], e->w, &handle, 0);
        if (rc == -ENOTSUP && kind == 1 && mp_at_once(e->w)) {
            e->remote[kind] = NULL;
            CHECK(e->w, strstr(rerror(e->w), "memory of the library") != NULL);
            continue;
        }
        CHECK_OK(e->w, rc);
        CHECK(e->w, rwindow_bytes(e->remote[kind]) == WINDOW);
        CHECK(e->w, rwindow_way(e->remote[kind]) == (!mp_at_once(e->w) ? RWINDOW_REMOTE
                                                     : kind == 0       ? RWINDOW_MAPPED
                                                                       : RWINDOW_CROSS));
    }
    CHECK_OK(to, rclose(to));
    CHECK_OK(from, rclose(from));
    CHECK_OK(e->w, rregion_open(&e->here, e->w, near, sizeof(near)));
}

/* The user of the windows of the next rank. */
static void ends_write(struct ends *e, uint64_t round, int *word)
{
    uint64_t key = mp_key(mp_rank, e->next, 1, round), draw = random_mix(key);
    struct note n = {draw % KINDS, random_mix(draw) % (WINDOW / 2), 0, key};

    n.bytes = random_mix(draw + 1) % (round % 2 == 0 ? 300 : WINDOW / 2);
    if (e->remote[n.kind] == NULL)
        n.kind = 0;
    if (*word == 0)
        CHECK_OK(e->w, rdone(e->w, word, 0));
    CHECK(e->w, *word == 1);
    pattern_fill(near, n.bytes, key);
    CHECK_OK(e->w, rwindow_write(e->remote[n.kind], n.at, near, n.bytes, e->here, word, 0));
    CHECK_OK(e->w, rsend(e->w, &n, sizeof(n), 0));
}

/* The owner: what the message announces is there, and nothing around it has changed. */
static void ends_check(struct ends *e)
{
    struct note n = {0};
    size_t got = 0;
    uint8_t *at;

    CHECK_OK(e->r, rrecv(e->r, &n, sizeof(n), &got, 0));
    CHECK(e->r, got == sizeof(n) && n.kind < KINDS && n.at + n.bytes <= WINDOW);
    at = e->memory[n.kind] + n.at;
    CHECK(e->r, pattern_same(at, n.bytes, n.key));
    CHECK(e->r, n.at == 0 || at[-1] == 0);
    CHECK(e->r, n.at + n.bytes == WINDOW || at[n.bytes] == 0);
    memset(at, 0, n.bytes);
}

/* Between two barriers the windows stay as their owners have filled them. */
static void ends_fetch(struct ends *e)
{
    static const size_t bytes[] = {1, 100, 5000, 300000};
    int word = 1;

    for (int kind = 0; kind < KINDS; kind++)
        pattern_fill(e->memory[kind], WINDOW, mp_key(mp_rank, e->before, 2, (uint64_t)kind));
    CHECK_OK(NULL, network_barrier());
    for (int i = 0; i < 8; i++) {
        int kind = e->remote[i % 2] != NULL ? i % 2 : 0;
        uint64_t key = mp_key(e->next, mp_rank, 2, (uint64_t)kind);
        size_t at = 8 * (random_mix((uint64_t)i) % 1000), size = bytes[i / 2];

        CHECK_OK(e->w, rwindow_fetch(e->remote[kind], at, near, size, e->here, &word, 0));
        CHECK_OK(e->w, rdone(e->w, &word, word == 1 ? R_NOWAIT : 0));
        CHECK(e->w, word == 1);
        CHECK(e->w, pattern_same(near, size, key + at));
    }
    CHECK_OK(NULL, network_barrier());
    for (int kind = 0; kind < KINDS; kind++)
        memset(e->memory[kind], 0, WINDOW);
    CHECK_OK(NULL, network_barrier());
}

static void ends_close(struct ends *e)
{
    CHECK_OK(e->w, rdone(e->w, NULL, 0));
    for (int kind = 0; kind < KINDS; kind++)
        if (e->remote[kind] != NULL)
            CHECK_OK(e->w, rwindow_detach(e->remote[kind]));
    CHECK_OK(NULL, network_barrier()); /* no rank uses the windows of another any more */
    for (int kind = 0; kind < KINDS; kind++) {
        CHECK_OK(NULL, rwindow_close(e->window[kind]));
        CHECK_OK(NULL, rregion_close(e->region[kind]));
    }
    CHECK_OK(NULL, rregion_close(e->here));
    CHECK_OK(e->w, rclose(e->w));
    CHECK_OK(e->r, rclose(e->r));
}

int main(int argc, char **argv)
{
    struct ends e = {0};
    int word = 1;

    rounds = (uint64_t)mp_number(argc, argv, 80);
    mp_begin(argc, argv, 1);
    e.next = (mp_rank + 1) % mp_ranks;
    e.before = (mp_rank + mp_ranks - 1) % mp_ranks;
    e.w = ends_pipe(e.next, true, 1);
    e.r = ends_pipe(e.before, false, 1);
    ends_open(&e);
    ends_fetch(&e);
    for (uint64_t i = 0; i < rounds; i++) {
        ends_write(&e, i, &word);
        ends_check(&e);
        CHECK_OK(NULL, network_barrier()); /* the next write may be to the same bytes */
    }
    ends_close(&e);
    return mp_end();
}
