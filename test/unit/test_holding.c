/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_holding.c: a forgotten rfree is named at both ends: the writer's deadline has how many messages and bytes did not come back,
 * and whether the reader has read them; the reader's deadline has what it holds; its log has that the writer waits. Written from the
 * manual alone (rmalloc, rread), but for test_credits_pending.
 */
#include "test/lib/pair.h"

#include "rpipe/end/path.h"
#include "rpipe/end/rch.h"

#include <fcntl.h>

enum { HEAP = 4096, SIZE = 1024, FEW = HEAP / SIZE };

static struct pair full_pipe(rpipe_op_t op, raddr_t *held, int reads)
{
    struct pair p;

    pair_open(&p, op, HEAP);
    CHECK_OK(p.w, rset_timeout(p.w, 20));
    CHECK_OK(p.r, rset_timeout(p.r, 20));
    for (int i = 0; i < FEW; i++)
        pair_send(&p, SIZE, (uint64_t)i);
    for (int i = 0; i < reads; i++)
        held[i] = pair_receive(&p, SIZE, (uint64_t)i);
    return p;
}

static void free_all(struct pair *p, raddr_t *held, int reads)
{
    for (int i = 0; i < reads; i++)
        CHECK_OK(p->r, rfree(p->r, held[i]));
    for (int i = reads; i < FEW; i++)
        pair_read_free(p, SIZE, (uint64_t)i);
    pair_send(p, SIZE, 99); /* and the memory is there again */
    pair_read_free(p, SIZE, 99);
    pair_close(p);
}

static void test_all_read(rpipe_op_t op)
{
    raddr_t held[FEW];
    struct pair p = full_pipe(op, held, FEW);
    char word = 0;

    CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, SIZE));
    CHECK_ERROR(p.w, "1024 bytes within 20 ms");
    CHECK_ERROR(p.w, "rank 0 has read all 4 messages");
    CHECK_ERROR(p.w, "4, 4096 bytes");
    CHECK_ERROR(p.w, "rfree");
    CHECK_RC(-ETIMEDOUT, p.w, rsend(p.w, (char[SIZE]){0}, SIZE, 0));
    CHECK_ERROR(p.w, "rank 0 has read all 4 messages");
    CHECK_RC(-ETIMEDOUT, p.r, rread(p.r, &(raddr_t){NULL}, NULL));
    CHECK_ERROR(p.r, "holds 4 messages, 4096 bytes");
    CHECK_ERROR(p.r, "rfree");
    CHECK_RC(-ETIMEDOUT, p.r, rrecv(p.r, &word, 1, NULL, 0));
    CHECK_ERROR(p.r, "holds 4 messages, 4096 bytes");
    free_all(&p, held, FEW);
}

static void test_some_read(rpipe_op_t op)
{
    raddr_t held[FEW];
    struct pair p = full_pipe(op, held, 3);

    CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, SIZE));
    CHECK_ERROR(p.w, "rank 0 has not read 1 messages");
    CHECK_ERROR(p.w, "holds 3 or more");
    CHECK_ERROR(p.w, "4, 4096 bytes");
    free_all(&p, held, 3);
}

static void test_none_read(rpipe_op_t op)
{
    struct pair p = full_pipe(op, NULL, 0);

    CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, SIZE));
    CHECK_ERROR(p.w, "has not read 4 messages");
    REQUIRE(strstr(rerror(p.w), "rfree") == NULL, "\"%s\"", rerror(p.w));
    free_all(&p, NULL, 0);
}

/* The reader holds none: nothing to free. */
static void test_nothing_held(rpipe_op_t op)
{
    struct pair p;

    pair_open(&p, op, HEAP);
    CHECK_OK(p.r, rset_timeout(p.r, 20));
    pair_send(&p, SIZE, 1);
    pair_read_free(&p, SIZE, 1);
    CHECK_RC(-ETIMEDOUT, p.r, rread(p.r, &(raddr_t){NULL}, NULL));
    REQUIRE(strstr(rerror(p.r), "rfree") == NULL, "\"%s\"", rerror(p.r));
    pair_close(&p);
}

/* sync_queue messages are held, and the heap has free memory. */
static void test_queue(rpipe_op_t op)
{
    rpipe_config_t cfg = pair_config(op, 1 << 16);
    raddr_t held[2], d;
    struct pair p;

    cfg.mode = RPIPE_SYNC_TAGS;
    cfg.sync_queue = 2;
    pair_open_with(&p, &cfg);
    CHECK_OK(p.w, rset_timeout(p.w, 20));
    for (uint64_t i = 0; i < 2; i++)
        pair_send(&p, SIZE, i);
    for (uint64_t i = 0; i < 2; i++)
        held[i] = pair_receive(&p, SIZE, i);
    d = pair_alloc(&p, SIZE, 2);
    CHECK_RC(-ETIMEDOUT, p.w, rwrite(p.w, d));
    CHECK_ERROR(p.w, "sync_queue messages, 2,");
    CHECK_ERROR(p.w, "has read all 2 messages");
    for (int i = 0; i < 2; i++)
        CHECK_OK(p.r, rfree(p.r, held[i]));
    CHECK_OK(p.w, rwrite(p.w, d));
    pair_read_free(&p, SIZE, 2);
    pair_close(&p);
}

/* A deadline of a second or more is a line in the reader's log, once. */
static void test_log(rpipe_op_t op)
{
    raddr_t held[FEW];
    struct pair p = full_pipe(op, held, FEW);
    const double begun = now_ms();
    char text[4096] = "", *at;
    int ends[2], before = dup(STDERR_FILENO), lines = 0;
    size_t used = 0;

    CHECK_OK(p.w, rset_timeout(p.w, 1000));
    REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 && dup2(ends[1], STDERR_FILENO) >= 0,
            "no pipe for the log");
    CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, SIZE));
    do {
        ssize_t n = read(ends[0], text + used, sizeof(text) - 1 - used);

        used += n > 0 ? (size_t)n : 0;
    } while (strstr(text, "has waited") == NULL && now_ms() - begun < CHECK_LATE_MS);
    (void)dup2(before, STDERR_FILENO);
    close(before);
    close(ends[0]);
    close(ends[1]);
    for (at = text; (at = strstr(at, "has waited")) != NULL; at++)
        lines++;
    REQUIRE(lines == 1 && strstr(text, "the writer, rank 0, has waited 1000 ms") != NULL &&
                strstr(text, "holds 4 messages") != NULL && strstr(text, "4096 bytes") != NULL,
            "the log is \"%s\"", text);
    CHECK_OK(p.w, rset_timeout(p.w, 20));
    free_all(&p, held, FEW);
}

static int credits_pending(struct rch *ch, enum credit_need need)
{
    (void)ch, (void)need;
    return R_PENDING;
}

/*
 * A connection that has failed gives no credits, R_PENDING, until the reason is known: a deadline that passes meanwhile is that, and
 * not "repeat the call". Found by byzantine over tcp.
 */
static void test_credits_pending(rpipe_op_t op)
{
    raddr_t held[FEW];
    struct pair p = full_pipe(op, held, FEW);
    const struct path_ops *path = p.w->path;
    struct path_ops broken = *path;

    broken.fetch_credits = credits_pending;
    p.w->path = &broken;
    CHECK_ERRNO(ETIMEDOUT, rmalloc(p.w, SIZE));
    CHECK_ERROR(p.w, "1024 bytes within 20 ms");
    p.w->path = path;
    free_all(&p, held, FEW);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_all_read),        BOTH(test_some_read), BOTH(test_none_read),
        BOTH(test_nothing_held),    BOTH(test_queue),     BOTH(test_log),
        BOTH(test_credits_pending),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
