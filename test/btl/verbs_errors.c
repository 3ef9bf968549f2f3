/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_errors.c: a queue pair that breaks fails its own connection, with an error message that has the device's status in it, and no other.
 *
 * One process, several lines of it connected with each other; needs an RDMA device (77, skipped, without). What breaks them is done
 * to the queue pair itself (state ERR), or asked of it: a wrong key, memory that is no more. After each, all other lines still
 * transfer, byte for byte, and the one that broke fails every call, and stays so.
 */
#include "conform.h"

#include "btl/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES 4
#define BYTES 16384u

static struct backend backend;
static struct pair { /* a line, its two ends, and memory of its own */
    struct btl_connection *dials, *accepts;
    struct btl_memory near, far;
    struct btl_remote remote;
    bool broken;
} pairs[LINES];

static struct btl_transfer whole(const struct pair *p)
{
    return (struct btl_transfer){&p->remote, 0, &p->near, 0, BYTES};
}

static void open_pair(struct pair *p)
{
    const struct btl_ops *ops = backend.ops;
    struct btl_connection *end[2];
    struct btl_address from, to;
    struct error err = {""};
    int64_t deadline = patience();
    int rc;

    REQUIRE(ops->connection_open(backend.btl, 0, BTL_CONNECTS, 0, &p->dials, &from, &err) == 0,
            "%s", err.text);
    REQUIRE(ops->connection_open(backend.btl, 0, BTL_ACCEPTS, 0, &p->accepts, &to, &err) == 0, "%s",
            err.text);
    REQUIRE(ops->connection_connect(p->dials, &to, &err) == 0, "%s", err.text);
    REQUIRE(ops->connection_connect(p->accepts, &from, &err) == 0, "%s", err.text);
    end[0] = p->dials, end[1] = p->accepts;
    for (int i = 0; i < 2; i++) {
        while ((rc = ops->connection_state(end[i], &err)) == -EAGAIN) {
            REQUIRE(!deadline_passed(deadline), "%s", err.text);
            usleep(500);
        }
        REQUIRE(rc == 0, "%s", err.text);
    }
    REQUIRE(ops->alloc(backend.btl, 0, BYTES, BTL_LOCAL, false, &p->near, &err) == 0, "%s",
            err.text);
    REQUIRE(ops->alloc(backend.btl, 0, BYTES, BTL_PEER_WRITES, false, &p->far, &err) == 0, "%s",
            err.text);
    REQUIRE(ops->attach(backend.btl, 0, &p->far.key, BYTES, BTL_PEER_WRITES, &p->remote, &err) == 0,
            "%s", err.text);
}

static void close_pair(struct pair *p)
{
    if (p->dials != NULL)
        backend.ops->connection_close(p->dials);
    backend.ops->connection_close(p->accepts);
    backend.ops->detach(backend.btl, &p->remote);
    backend.ops->free(backend.btl, &p->near);
    backend.ops->free(backend.btl, &p->far);
}

/* There and back, byte for byte. */
static void works(struct pair *p, uint64_t key)
{
    const struct btl_ops *ops = backend.ops;
    struct btl_transfer t = whole(p);
    struct btl_done done = {0};
    int64_t deadline = patience();
    int rc;

    pattern_fill(p->near.base, BYTES, key);
    rc = ops->write(p->dials, &t, NULL);
    REQUIRE(rc == 0, "a write on a line that has nothing to do with it: %d", rc);
    while ((rc = ops->flush(p->dials)) == -EAGAIN)
        REQUIRE(!deadline_passed(deadline), "flush");
    REQUIRE(rc == 0 && pattern_same(p->far.base, BYTES, key),
            "flush: %d, or what was written is not there", rc);
    pattern_fill(p->far.base, BYTES, ~key);
    rc = ops->get(p->dials, &t, &done);
    REQUIRE(rc == 0, "get: %d", rc);
    while (atomic_load_explicit(&done.pending, memory_order_acquire) != 0) {
        REQUIRE(!deadline_passed(deadline), "get");
        REQUIRE(ops->progress(p->dials) == 0, "progress");
    }
    REQUIRE(atomic_load(&done.error) == 0 && pattern_same(p->near.base, BYTES, ~key),
            "what was fetched is not right");
}

static void others_work(uint64_t key)
{
    for (size_t i = 0; i < LINES; i++)
        if (!pairs[i].broken)
            works(&pairs[i], key + i);
}

/* This end of the connection fails sooner or later, with an error message. */
static int fails(struct btl_connection *connection, const struct btl_transfer *t, const char *what)
{
    const struct btl_ops *ops = backend.ops;
    struct btl_done done = {0};
    int64_t deadline = patience();
    struct error err = {""};
    int rc, again;

    while ((rc = ops->connection_state(connection, &err)) == 0) {
        REQUIRE(!deadline_passed(deadline), "%s: the line does not fail", what);
        if (atomic_load(&done.pending) < 4)
            (void)ops->get(connection, t, &done);
        (void)ops->progress(connection);
    }
    printf("%s: %s (%d)\n", what, err.text, rc);
    REQUIRE(rc < 0 && *err.text != '\0', "%s: no error message", what);
    while (atomic_load_explicit(&done.pending, memory_order_acquire) != 0) {
        REQUIRE(!deadline_passed(deadline), "%s: %d operations never end", what,
                atomic_load(&done.pending));
        (void)ops->progress(connection);
    }
    again = ops->write(connection, t, NULL);
    REQUIRE(again == rc, "%s: a write returns %d, the connection has %d", what, again, rc);
    REQUIRE(ops->get(connection, t, &done) == rc && ops->flush(connection) == rc &&
                ops->progress(connection) == rc,
            "%s: some call does not fail", what);
    REQUIRE(atomic_load(&done.pending) == 0, "%s: what was refused is pending", what);
    return rc;
}

static bool reports(struct btl_connection *connection, enum ibv_wc_status status)
{
    struct error err = {""};

    (void)backend.ops->connection_state(connection, &err);
    return strstr(err.text, ibv_wc_status_str(status)) != NULL;
}

/* librdmacm reports the end of the connection too, and on iWARP it may well come first. */
static void check_status(struct pair *p, int rc, enum ibv_wc_status status, int expected)
{
    if (p->dials->btl->limits.iwarp)
        REQUIRE(rc == expected || rc == -ECONNRESET, "%d", rc);
    else
        REQUIRE(rc == expected && reports(p->dials, status), "%d, not %d with \"%s\"", rc, expected,
                ibv_wc_status_str(status));
}

static void state_err(struct pair *p)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct btl_transfer t = whole(p);

    p->broken = true;
    REQUIRE(ibv_modify_qp(p->dials->qp, &attr, IBV_QP_STATE) == 0, "ibv_modify_qp");
    check_status(p, fails(p->dials, &t, "a queue pair in state ERR"), IBV_WC_WR_FLUSH_ERR,
                 -ECONNRESET);
    others_work(100);
    /* the device of the other end may report it at some time (Soft-RoCE does not); it does when this one is closed */
    backend.ops->connection_close(p->dials);
    p->dials = NULL;
    (void)fails(p->accepts, &t, "its other end, once this one is closed");
    others_work(200);
}

static void wrong_key(struct pair *p)
{
    struct btl_remote wrong = p->remote;
    struct btl_transfer t = whole(p);

    p->broken = true;
    wrong.key.word[KEY_RKEY] ^= 0xffff00; /* the index of the registration */
    t.remote = &wrong;
    check_status(p, fails(p->dials, &t, "a wrong key"), IBV_WC_REM_ACCESS_ERR, -EPROTO);
    others_work(300);
}

static void beyond(struct pair *p)
{
    struct btl_transfer t = whole(p);

    p->broken = true;
    t.remote_offset = (uint64_t)1 << 40;
    check_status(p, fails(p->dials, &t, "an address beyond the memory"), IBV_WC_REM_ACCESS_ERR,
                 -EPROTO);
    others_work(400);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    backend_open(&backend, "verbs", 0); /* ends the program where there is no device */
    for (size_t i = 0; i < LINES; i++)
        open_pair(&pairs[i]);
    others_work(1);
    state_err(&pairs[0]);
    wrong_key(&pairs[1]);
    beyond(&pairs[2]);
    for (size_t i = 0; i < LINES; i++)
        close_pair(&pairs[i]);
    backend_close(&backend);
    printf("3 lines broken, the others went on\n");
    return 0;
}
