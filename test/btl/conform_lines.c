/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conform_lines.c: memory regions, and connections from their beginning to their end.
 */
#include "conform.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void pieces(struct side *s)
{
    static const size_t sizes[] = {1, 64, 100, 4096, MIB + 1, 4 * MIB};
    static const uint32_t access[] = {BTL_PEER_READS, BTL_PEER_WRITES, BTL_PEER_ATOMICS};
    struct far far[6];

    for (size_t i = 0; i < 6; i++) {
        struct btl_memory near = near_alloc(s, sizes[i]);

        memset(near.base, 1, sizes[i]);
        far[i] = far_alloc(s, (uint32_t)i, sizes[i], access[i % 3]);
        REQUIRE(far[i].remote.base == NULL, "a region of a peer that is mapped here");
        near_free(s, &near);
    }
    for (size_t i = 0; i < 6; i++)
        far_free(s, &far[i]);
}

static void before_it_is_up(struct side *s)
{
    const struct btl_ops *ops = s->backend->ops;
    struct far far = far_alloc(s, 0, 4096, BTL_PEER_WRITES);
    struct btl_memory near = near_alloc(s, 4096);
    struct btl_transfer t = {&far.remote, 0, &near, 0, 64};
    struct btl_address address;
    struct btl_counts counts;
    struct btl_connection *connection;
    struct error err = {""};

    REQUIRE(line_open(s->backend, s->peer, BTL_CONNECTS, 0, &connection, &address, &err) == 0,
            "connection_open: %s", err.text);
    REQUIRE(ops->connection_state(connection, &err) == -EAGAIN,
            "connection_state of a line that is not connected");
    REQUIRE(ops->write(connection, &t, NULL) == -EAGAIN, "a write on a line that is not up");
    REQUIRE(ops->progress(connection) == 0, "progress on a line that is not up");
    ops->connection_counts(connection, &counts);
    REQUIRE(counts.work_requests == 0 && counts.refused == 1, "counts of a line that is not up");
    ops->connection_close(connection);
    connection = line_up(s, 0, 0);
    ops->connection_describe(connection, err.text, sizeof(err.text));
    REQUIRE(*err.text != '\0', "connection_describe stores nothing");
    printf("    %s\n", err.text);
    line_down(s, 0, connection);
    far_free(s, &far);
    near_free(s, &near);
}

/* Memory of the program, at odd addresses, near and far. */
static void adopted(struct side *s)
{
    const struct btl_ops *ops = s->backend->ops;
    const size_t bytes = 100001;
    struct btl_connection *connection = line_up(s, 0, 0);
    uint8_t *own = malloc(bytes + 3);
    struct far far = {.id = 0, .bytes = bytes};
    struct btl_transfer t = {&far.remote, 5, NULL, 3, bytes - 10};
    struct btl_done done = {0};
    struct btl_memory near;
    struct answer a;
    struct error err = {""};

    REQUIRE(own != NULL, "no memory");
    REQUIRE(
        ops->register_memory(s->backend->btl, s->peer, own + 3, bytes, BTL_LOCAL, &near, &err) == 0,
        "register: %s", err.text);
    REQUIRE(near.base == own + 3 && near.bytes == bytes, "registered elsewhere");
    t.memory = &near;
    for (int back = 0; back < 2; back++) { /* there and back */
        uint32_t access = back ? BTL_PEER_READS : BTL_PEER_WRITES;

        a = ask(s, (struct ask){
                       .what = ASK_ALLOC, .id = 0, .a = bytes, .b = access, .c = KIND_REGISTERED});
        REQUIRE(ops->attach(s->backend->btl, s->peer, &a.key, bytes, access, &far.remote, &err) ==
                    0,
                "attach: %s", err.text);
        if (back) {
            ask(s, (struct ask){.what = ASK_FILL, .id = 0, .a = 5, .b = bytes - 10, .c = 78});
            get_must(s, connection, &t, &done);
            done_must(s, connection, &done);
            REQUIRE(pattern_same(own + 6, bytes - 10, 78), "a get into memory that was registered");
        } else {
            pattern_fill(own + 6, bytes - 10, 77);
            write_must(s, connection, &t, NULL);
            flush_must(s, connection);
            ask(s, (struct ask){.what = ASK_CHECK, .id = 0, .a = 5, .b = bytes - 10, .c = 77});
        }
        far_free(s, &far);
    }
    line_down(s, 0, connection);
    near_free(s, &near);
    memset(own, 0, bytes + 3);
    free(own);
}

/* connection_close gives up what is outstanding; afterwards no btl_done is touched, and memory here may go. */
static void close_under_way(struct side *s)
{
    enum { UNDER_WAY = 16 };
    const struct btl_ops *ops = s->backend->ops;

    for (int round = 0; round < 5; round++) {
        struct btl_connection *connection = line_up(s, 0, 0), *other;
        struct far source = far_alloc(s, 0, 256 * 1024, BTL_PEER_READS);
        struct far heap = far_alloc(s, 1, 256 * 1024, BTL_PEER_WRITES);
        struct btl_memory near = near_alloc(s, 256 * 1024);
        struct btl_transfer get = {&source.remote, 0, &near, 0, 4096},
                            put = {&heap.remote, 0, &near, 128 * 1024, 4096};
        struct btl_done done[UNDER_WAY] = {{0}};
        int pending[UNDER_WAY];

        for (size_t i = 0; i < UNDER_WAY; i++) {
            get.offset = get.remote_offset = i * 4096;
            put.offset = 128 * 1024 + i * 4096;
            put.remote_offset = i * 8192;
            (void)ops->get(connection, &get, &done[i]);
            (void)ops->write(connection, &put, NULL);
        }
        ops->connection_close(connection);
        for (int i = 0; i < UNDER_WAY; i++)
            pending[i] = atomic_load(&done[i].pending) * 1000 + atomic_load(&done[i].error);
        near_free(s, &near);
        ask(s, (struct ask){.what = ASK_CLOSE, .id = 0});
        other = line_up(s, 1, 0); /* time passes, and things go on */
        near = near_alloc(s, 4096);
        get = (struct btl_transfer){&source.remote, 0, &near, 0, 4096};
        for (int i = 0; i < 20; i++) {
            struct btl_done again = {0};

            get_must(s, other, &get, &again);
            done_must(s, other, &again);
        }
        for (int i = 0; i < UNDER_WAY; i++)
            REQUIRE(pending[i] ==
                        atomic_load(&done[i].pending) * 1000 + atomic_load(&done[i].error),
                    "a btl_done is touched after connection_close");
        line_down(s, 1, other);
        near_free(s, &near);
        far_free(s, &source);
        far_free(s, &heap);
    }
}

/* The other end is closed before this one connects: no hang, no crash; and each failure has an error message. */
static void connect_to_no_peer(struct side *s)
{
    const struct btl_ops *ops = s->backend->ops;

    for (int round = 0; round < 4; round++) {
        struct far far = far_alloc(s, 0, 4096, BTL_PEER_READS);
        struct btl_memory near = near_alloc(s, 4096);
        struct btl_transfer t = {&far.remote, 0, &near, 0, 4096};
        struct btl_done done = {0};
        struct btl_address address;
        struct btl_connection *connection;
        struct error err = {""};
        int64_t deadline = patience();
        struct answer other =
            ask(s, (struct ask){.what = ASK_LINE, .id = 0, .a = BTL_ACCEPTS, .b = 0});
        int rc = line_open(s->backend, s->peer, BTL_CONNECTS, 0, &connection, &address, &err);

        REQUIRE(rc == 0, "connection_open: %d: %s", rc, err.text);
        ask(s, (struct ask){.what = ASK_CLOSE, .id = 0});
        rc = ops->connection_connect(connection, &other.address, &err);
        REQUIRE(rc == 0 || *err.text != '\0', "connection_connect fails without an error message");
        while (rc == 0 || rc == -EAGAIN) {
            REQUIRE(!deadline_passed(deadline),
                    "a connection without a peer neither fails nor comes up");
            (void)ops->progress(connection);
            rc = ops->connection_state(connection, &err);
            if (rc ==
                0) /* a network without connections needs no peer here: then the operations work, or fail */
                rc = atomic_load(&done.pending) == 0 ? ops->get(connection, &t, &done) : -EAGAIN;
            if (atomic_load(&done.error) != 0)
                rc = atomic_load(&done.error);
            if (rc == 0 && !s->strict) {
                while (atomic_load_explicit(&done.pending, memory_order_acquire) != 0 &&
                       !deadline_passed(deadline))
                    rc = ops->progress(connection);
                break;
            }
            sched_yield();
        }
        REQUIRE(!s->strict || rc < 0, "a connection without a peer comes up");
        if (rc != 0 && ops->connection_state(connection, &err) != 0)
            REQUIRE(*err.text != '\0', "a failed connection has no error message");
        if (round == 0)
            printf("    %s\n", rc == 0 ? "it works without the other end" : err.text);
        ops->connection_close(connection);
        far_free(s, &far);
        near_free(s, &near);
    }
}

/* Opened, and closed again, at every stage. */
static void lines_come_and_go(struct side *s)
{
    const struct btl_ops *ops = s->backend->ops;

    for (int round = 0; round < 8; round++) {
        struct btl_address address;
        struct btl_connection *connection;
        struct error err = {""};
        struct answer other =
            ask(s, (struct ask){.what = ASK_LINE, .id = 0, .a = BTL_ACCEPTS, .b = 0});

        REQUIRE(line_open(s->backend, s->peer, BTL_CONNECTS, 0, &connection, &address, &err) == 0,
                "connection_open: %s", err.text);
        if (round & 1)
            REQUIRE(ops->connection_connect(connection, &other.address, &err) == 0,
                    "connection_connect: %s", err.text);
        if (round & 2)
            ask(s, (struct ask){.what = ASK_CONNECT, .id = 0, .address = address});
        if (round & 4)
            (void)ops->progress(connection);
        if (draw(s, 2) == 0) {
            line_down(s, 0, connection);
        } else {
            ask(s, (struct ask){.what = ASK_CLOSE, .id = 0});
            ops->connection_close(connection);
        }
    }
    for (uint32_t i = 0; i < LINES_MOST; i++) { /* and many of them */
        struct btl_connection *connection = line_up(s, i, 0);

        ops->connection_close(connection);
    }
    for (uint32_t i = 0; i < LINES_MOST; i++)
        ask(s, (struct ask){.what = ASK_CLOSE, .id = i});
}

const struct test line_tests[] = {
    {"memory regions", pieces},
    {"before a connection is up", before_it_is_up},
    {"memory of the program", adopted},
    {"connection_close with outstanding operations", close_under_way},
    {"a connection without a peer", connect_to_no_peer},
    {"lines come and go", lines_come_and_go},
    {NULL, NULL},
};
