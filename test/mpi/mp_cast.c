/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Casts: streams of every size with every way to write and to read, in small rings and heaps; a full window, whose deadline names the
 * reader; readers that open late, close early, or hold what they have read; configurations that differ. -apart: each rank is a host of
 * its own.
 */
#include "test/lib/mp_check.h"

#include <rcast.h>

static bool apart;

static rcast_t cast_of(rcast_config_t cfg)
{
    rcast_t c = NULL;

    CHECK_OK(NULL, rcast_open(&c, &cfg, NULL, mp_ranks));
    CHECK(NULL, c != NULL);
    return c;
}

/* ---- streams ---- */

struct stream {
    uint64_t context;
    int writer;
    uint32_t slots;
    uint64_t heap_bytes;
    size_t most; /* bytes of a message */
    uint64_t messages;
    int slow; /* this reader computes at times; -1: none */
};

static size_t size_of(const struct stream *s, uint64_t number)
{
    uint64_t state = number ^ s->context << 32, x = mp_draw(&state);

    return x % 3 == 0 ? x / 3 % 60 : x / 3 % (s->most + 1);
}

static uint64_t key_of(const struct stream *s, uint64_t number)
{
    return mp_key(s->writer, 0, (uint32_t)s->context, number);
}

/* Some messages are allocated before others and written after them, and some are given back. */
static void write_one(const struct stream *s, rcast_t c, uint64_t number)
{
    const size_t bytes = size_of(s, number);
    uint64_t state = ~number;
    const uint64_t how = mp_draw(&state) % 4;
    void *mem = NULL, *extra = NULL;

    if (how == 0 && bytes < 4000) {
        unsigned char buf[4000];

        pattern_fill(buf, bytes, key_of(s, number));
        CHECK_OK(NULL, rcast_send(c, buf, bytes, 0));
        return;
    }
    CHECK_OK(NULL, rcast_alloc(c, bytes + how, &mem, 0));
    CHECK(NULL, (uintptr_t)mem % 16 == 0);
    if (how == 3 && rcast_alloc(c, bytes / 4, &extra, R_NOWAIT) == 0)
        memset(extra, 0xee, bytes / 4);
    memset(mem, 0xff, bytes + how);
    pattern_fill(mem, bytes, key_of(s, number));
    CHECK_OK(NULL, rcast_write(c, mem, bytes, 0));
    if (extra != NULL)
        CHECK_OK(NULL, rcast_free(c, extra));
    CHECK_RC(-EINVAL, NULL, rcast_write(c, mem, bytes, 0)); /* not the caller's any more */
}

#define HOLD_MOST 6

struct holding {
    const void *mem[HOLD_MOST];
    uint64_t number[HOLD_MOST];
    int n;
};

static void give_back(const struct stream *s, rcast_t c, struct holding *h, int i)
{
    CHECK(NULL, pattern_same(h->mem[i], size_of(s, h->number[i]), key_of(s, h->number[i])));
    CHECK_OK(NULL, rcast_free(c, h->mem[i]));
    CHECK_RC(-EINVAL, NULL, rcast_free(c, h->mem[i]));
    h->n--;
    h->mem[i] = h->mem[h->n];
    h->number[i] = h->number[h->n];
}

/* What is held stays as it was while the writer goes on. */
static void read_one(const struct stream *s, rcast_t c, struct holding *h, uint64_t number,
                     uint64_t *state)
{
    const size_t bytes = size_of(s, number);
    const uint64_t how = mp_draw(state) % 4;
    const void *mem = NULL;
    size_t got = SIZE_MAX;

    if (how == 0) {
        unsigned char *buf = malloc(bytes + 1);

        if (bytes > 0)
            CHECK_RC(-EMSGSIZE, NULL, rcast_recv(c, buf, bytes - 1, &got, 0));
        CHECK(NULL, bytes == 0 || got == bytes);
        CHECK_OK(NULL, rcast_recv(c, buf, bytes, &got, 0));
        REQUIRE(got == bytes && pattern_same(buf, bytes, key_of(s, number)),
                "message %llu of %zu bytes has %zu", (unsigned long long)number, bytes, got);
        free(buf);
        return;
    }
    CHECK_OK(NULL, rcast_read(c, &mem, &got, 0));
    REQUIRE(got == bytes && pattern_same(mem, bytes, key_of(s, number)),
            "message %llu of %zu bytes has %zu", (unsigned long long)number, bytes, got);
    h->mem[h->n] = mem;
    h->number[h->n++] = number;
    if (how > 1 || h->n == HOLD_MOST || s->slots < 2 * HOLD_MOST || s->heap_bytes < 16 * s->most)
        while (h->n > 0)
            give_back(s, c, h, (int)(mp_draw(state) % (uint64_t)h->n));
}

static void stream(struct stream s)
{
    rcast_t c = cast_of((rcast_config_t){.context = s.context,
                                         .writer = s.writer,
                                         .slots = s.slots,
                                         .heap_bytes = s.heap_bytes,
                                         .timeout_ms = R_FOREVER});
    uint64_t state = (uint64_t)mp_rank << 40;
    struct holding h = {.n = 0};
    const void *mem;
    size_t bytes;

    for (uint64_t i = 0; i < s.messages; i++) {
        if (mp_rank == s.writer)
            write_one(&s, c, i);
        else
            read_one(&s, c, &h, i, &state);
        if (mp_rank == s.slow && mp_draw(&state) % 64 == 0)
            compute_ms(2);
    }
    if (mp_rank != s.writer)
        CHECK_RC(R_EOF, NULL, rcast_read(c, &mem, &bytes, 0));
    while (h.n > 0)
        give_back(&s, c, &h, 0);
    if (mp_rank != s.writer) {
        CHECK_RC(R_EOF, NULL, rcast_read(c, &mem, &bytes, R_NOWAIT));
        CHECK(NULL, rcast_count(c) == 0);
    }
    CHECK_OK(NULL, rcast_close(c));
}

/* ---- the window ---- */

static void full_window(uint64_t context, uint32_t slots)
{
    rcast_t c = cast_of((rcast_config_t){.context = context, .slots = slots, .timeout_ms = 60});
    uint64_t i = 0, value = 0;
    const int behind = mp_ranks - 1;
    size_t bytes;

    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0) {
        while (rcast_send(c, &i, sizeof(i), R_NOWAIT) == 0)
            i++;
        REQUIRE(i == slots, "%llu messages in %u slots", (unsigned long long)i, slots);
        CHECK_RC(R_PENDING, NULL, rcast_send(c, &i, sizeof(i), R_NOWAIT));
        CHECK_RC(-ETIMEDOUT, NULL, rcast_send(c, &i, sizeof(i), 0));
    }
    CHECK_OK(NULL, network_barrier());
    if (mp_rank != 0 && mp_rank != behind)
        for (i = 0; i < slots; i++) {
            CHECK_OK(NULL, rcast_recv(c, &value, sizeof(value), &bytes, 0));
            CHECK(NULL, bytes == sizeof(value) && value == i);
        }
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0) { /* all but one have read */
        char name[80];

        snprintf(name, sizeof(name), "rank %d, has read 0 and freed 0 of %u", behind, slots);
        CHECK_RC(-ETIMEDOUT, NULL, rcast_send(c, &i, sizeof(i), 0));
        CHECK_ERROR(NULL, name);
        CHECK(NULL, rcast_lost(c) == behind && rcast_count(c) == mp_ranks - 1);
    }
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == behind)
        for (i = 0; i < slots; i++) {
            CHECK_OK(NULL, rcast_recv(c, &value, sizeof(value), &bytes, 0));
            CHECK(NULL, bytes == sizeof(value) && value == i);
        }
    CHECK_OK(NULL, rcast_set_timeout(c, R_FOREVER));
    if (mp_rank == 0) {
        value = UINT64_MAX;
        CHECK_OK(NULL, rcast_send(c, &value, sizeof(value), 0));
    } else {
        CHECK_OK(NULL, rcast_recv(c, &value, sizeof(value), &bytes, 0));
        CHECK(NULL, value == UINT64_MAX);
    }
    CHECK_OK(NULL, rcast_close(c));
}

/* A reader holds all that can be in use; the heap is full of what this writer has not written. */
static void held_all(uint64_t context)
{
    rcast_t c = cast_of((rcast_config_t){.context = context, .slots = 4, .heap_bytes = 4096});
    const void *mem[4], *one;
    void *own[2];
    size_t bytes;

    if (mp_rank == 0) {
        CHECK_RC(-EMSGSIZE, NULL, rcast_alloc(c, 4097, &own[0], 0));
        CHECK_OK(NULL, rcast_alloc(c, 4000, &own[0], 0));
        CHECK_RC(-ENOBUFS, NULL, rcast_alloc(c, 4000, &own[1], 0));
        CHECK_RC(-EINVAL, NULL, rcast_write(c, own[0], 4001, 0));
        CHECK_OK(NULL, rcast_write(c, own[0], 4000, 0));
        CHECK_OK(NULL, rcast_alloc(c, 4000, &own[1], 0)); /* when the readers have freed it */
        CHECK_OK(NULL, rcast_write(c, own[1], 20, 0));    /* as a short one */
        for (int i = 0; i < 4; i++)
            CHECK_OK(NULL, rcast_send(c, NULL, 0, 0));
    } else {
        CHECK_OK(NULL, rcast_read(c, &mem[0], &bytes, 0));
        CHECK(NULL, bytes == 4000);
        CHECK_OK(NULL, rcast_free(c, mem[0]));
        for (int i = 0; i < 4; i++) {
            CHECK_OK(NULL, rcast_read(c, &mem[i], &bytes, 0));
            CHECK(NULL, bytes == (i == 0 ? 20 : 0));
        }
        CHECK_RC(-ENOBUFS, NULL, rcast_read(c, &one, &bytes, 0));
        CHECK_OK(NULL, rcast_free(c, mem[3]));
        CHECK_RC(-ENOBUFS, NULL, rcast_read(c, &one, &bytes, R_NOWAIT)); /* in order of messages */
        CHECK_OK(NULL, rcast_free(c, mem[0]));
        CHECK_OK(NULL, rcast_read(c, &one, &bytes, 0));
        CHECK_RC(-EBADF, NULL, rcast_send(c, NULL, 0, 0));
    }
    CHECK_OK(NULL, rcast_close(c));
}

/* ---- opening and closing ---- */

/* The writer has written all, and closes, before readers open. */
static void late_readers(uint64_t context, uint32_t again)
{
    for (uint32_t k = 0; k < again; k++) {
        int writer = (int)(k % (uint32_t)mp_ranks);
        uint64_t value = k;
        size_t bytes;
        rcast_t c;

        if (mp_rank != writer && k < 2)
            compute_ms(30);
        c = cast_of((rcast_config_t){.context = context, .writer = writer});
        if (mp_rank == writer)
            for (int i = 0; i < 3; i++)
                CHECK_OK(NULL, rcast_send(c, &value, sizeof(value), R_NOWAIT));
        else
            for (int i = 0; i < 3; i++) {
                CHECK_OK(NULL, rcast_recv(c, &value, sizeof(value), &bytes, 0));
                CHECK(NULL, value == k);
            }
        CHECK_OK(NULL, rcast_close(c));
        CHECK_RC(-ENOTCONN, NULL, rcast_close(c));
    }
}

/* The writer discards a cast of which readers have got one message of two, or, `late`, that they have not opened: both get a loss. */
static void discarded(uint64_t context, bool late)
{
    uint64_t value = 5;
    size_t bytes;
    rcast_t c = NULL;

    if (mp_rank == 0 || !late)
        c = cast_of((rcast_config_t){.context = context});
    if (mp_rank == 0)
        CHECK_OK(NULL, rcast_send(c, &value, sizeof(value), R_NOWAIT));
    else if (!late)
        CHECK_OK(NULL, rcast_recv(c, &value, sizeof(value), &bytes, 0));
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0) {
        CHECK_OK(NULL, rcast_discard(c)); /* does not wait */
        CHECK_RC(-ENOTCONN, NULL, rcast_discard(c));
    }
    CHECK_OK(NULL, network_barrier());
    if (mp_rank != 0) {
        if (late)
            c = cast_of((rcast_config_t){.context = context});
        CHECK_RC(-ECONNRESET, NULL, rcast_recv(c, &value, sizeof(value), &bytes, 0));
        CHECK_OK(NULL, rcast_discard(c));
    }
}

/* Readers close after so many messages as they have ranks; the writer goes on until none is left. */
static void readers_close(uint64_t context)
{
    rcast_t c = cast_of((rcast_config_t){.context = context, .slots = 2, .timeout_ms = R_FOREVER});
    uint64_t value, i = 0;
    size_t bytes;
    int rc;

    if (mp_rank != 0) {
        for (; i < 40 * (uint64_t)mp_rank; i++) {
            CHECK_OK(NULL, rcast_recv(c, &value, sizeof(value), &bytes, 0));
            CHECK(NULL, value == i);
        }
        CHECK_OK(NULL, rcast_close(c));
        return;
    }
    while ((rc = rcast_send(c, &i, sizeof(i), 0)) == 0)
        i++;
    CHECK_RC(-EPIPE, NULL, rc);
    CHECK(NULL, rcast_count(c) == 0 && rcast_lost(c) == -1);
    CHECK(NULL, i >= 40 * (uint64_t)(mp_ranks - 1) && i <= 40 * (uint64_t)(mp_ranks - 1) + 2);
    CHECK_OK(NULL, rcast_close(c));
}

/* Casts with other writers, lists and contexts are others, whatever is written first. */
static void several(uint64_t context)
{
    rcast_t c[8];
    uint64_t value = 0;
    size_t bytes;

    for (int w = 0; w < mp_ranks; w++) {
        rcast_config_t cfg = {.context = context, .writer = w};

        CHECK_OK(NULL, rcast_open(&c[w], &cfg, NULL, mp_ranks));
        CHECK_RC(-EEXIST, NULL, rcast_open(&c[w], &cfg, NULL, mp_ranks));
    }
    for (uint64_t i = 0; i < 3; i++) {
        value = i << 8 | (uint64_t)mp_rank;
        CHECK_OK(NULL, rcast_send(c[mp_rank], &value, sizeof(value), 0));
        for (int w = mp_ranks - 1; w >= 0; w--)
            if (w != mp_rank) {
                CHECK_OK(NULL, rcast_recv(c[w], &value, sizeof(value), &bytes, 0));
                CHECK(NULL, value == (i << 8 | (uint64_t)w));
            }
    }
    for (int w = 0; w < mp_ranks; w++)
        CHECK_OK(NULL, rcast_close(c[w]));
}

static void differ(uint64_t context, rcast_config_t of_reader)
{
    rcast_config_t cfg = {.context = context, .timeout_ms = R_FOREVER};
    const void *mem;
    size_t bytes;
    rcast_t c;

    of_reader.context = context;
    c = cast_of(mp_rank == 0 ? cfg : of_reader);
    if (mp_rank != 0) {
        CHECK_RC(-EPROTO, NULL, rcast_read(c, &mem, &bytes, 0));
        CHECK_RC(-EPROTO, NULL, rcast_read(c, &mem, &bytes, 0));
        CHECK(NULL, rcast_lost(c) == 0);
    }
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(NULL, rcast_close(c));
}

static void alone(uint64_t context)
{
    rcast_config_t cfg = {.context = context};
    rcast_t c;

    CHECK_OK(NULL, rcast_open(&c, &cfg, &mp_rank, 1));
    CHECK_RC(-EPIPE, NULL, rcast_send(c, &cfg, 8, 0));
    CHECK_OK(NULL, rcast_close(c));
}

int main(int argc, char **argv)
{
    uint64_t context = rcontext("mp_cast"), messages;
    rcast_config_t cfg = {.context = context};
    rcast_t c;

    apart = mp_asked(argc, argv, "-apart");
    if (apart)
        setenv("RPIPE_CONTROL", "tcp", 1), setenv("RPIPE_INTERFACE", "lo", 1);
    mp_begin(argc, argv, 2);
    messages = (uint64_t)mp_number(argc, argv, 3000);
    alone(context++);
    if (apart) {
        const int rc = rcast_open(&c, &cfg, NULL, mp_ranks);

        CHECK_OK(NULL, network_barrier()); /* all have opened */
        if (rc == -ENOTSUP) {
            CHECK_RC(-ENOTSUP, NULL, rcast_open(&c, &cfg, NULL, mp_ranks));
            CHECK_ERROR(NULL, "several hosts");
            CHECK_OK(NULL, network_barrier());
            return mp_end();
        }
        CHECK_OK(NULL, rc);
        CHECK_OK(NULL, rcast_close(c));
    }
    stream((struct stream){context++, 0, 2, 4096, 4092, messages / 8, -1});
    stream((struct stream){context++, 0, 64, 65536, 4000, messages, -1});
    stream((struct stream){context++, mp_ranks - 1, 16, 1 << 20, 20000, messages / 4, 0});
    stream((struct stream){context++, 1, 256, UINT64_C(12) << 20, 2100000, messages / 60, 0});
    stream((struct stream){context++, 0, 0, 0, 48, 4 * messages, mp_ranks - 1});
    full_window(context++, 2);
    full_window(context++, 64);
    held_all(context++);
    late_readers(context++, 20);
    readers_close(context++);
    discarded(context++, false);
    discarded(context++, true);
    several(context++);
    if (!apart) {
        differ(context++, (rcast_config_t){.heap_bytes = 8192, .timeout_ms = R_FOREVER});
        differ(context++, (rcast_config_t){.slots = 512, .timeout_ms = R_FOREVER});
    }
    return mp_end();
}
