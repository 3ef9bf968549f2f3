/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ends that do not agree: both get -EPROTO, from every call that needs the other, with an error message that names both
 * values. Two writers, two readers, and ends with different ctx never join: -ETIMEDOUT, and the error message names what
 * the peer has opened instead. Afterwards the same ids are good again.
 */
#include "test/lib/mp_check.h"
#include "test/lib/counts.h"
#include <rpipe.h>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static rpipe_config_t config(bool writer, rpipe_op_t op, uint32_t ctx)
{
    rpipe_config_t cfg = {0};

    cfg.op = op;
    cfg.peer = 1 - mp_rank;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = 4096;
    cfg.context = ctx;
    return cfg;
}

/* "4096" may not be taken out of "40960" */
static void says_number(rch_t ch, const char *number)
{
    const char *at = rerror(ch);
    size_t n = strlen(number);

    while ((at = strstr(at, number)) != NULL) {
        bool before = at > rerror(ch) && at[-1] >= '0' && at[-1] <= '9';

        if (!before && (at[n] < '0' || at[n] > '9'))
            return;
        at += n;
    }
    REQUIRE(false, "%s is not in the error message \"%s\"", number, rerror(ch));
}

static void refused(rch_t ch, bool writer, const char *mine, const char *theirs, const char *field)
{
    raddr_t d = ADDR_NULL;
    size_t size = 77;
    struct pipe_counts st = {0};
    int ready = 7;

    for (int again = 0; again < 2; again++) {
        CHECK_RC(-EPROTO, ch, rwait(ch));
        CHECK_ERROR(ch, field);
        if (mine[0] >= '0' && mine[0] <= '9') {
            says_number(ch, mine);
            says_number(ch, theirs);
        } else {
            CHECK_ERROR(ch, mine);
            CHECK_ERROR(ch, theirs);
        }
        if (writer) {
            errno = 0;
            CHECK(ch, rmalloc(ch, 1000) == ADDR_NULL && errno == EPROTO);
            CHECK(ch, rmalloc(ch, 1) == ADDR_NULL && errno == EPROTO);
            CHECK_RC(-EPROTO, ch, rmalloc_nb(ch, 1, &d));
            CHECK_RC(-EPROTO, ch, rflush(ch));
        } else {
            CHECK_RC(-EPROTO, ch, rread(ch, &d, &size));
            CHECK_RC(-EPROTO, ch, rread_nb(ch, &d, &size));
            CHECK_OK(ch, rpoll(&ch, 1, &ready, -1));
            CHECK(ch, ready == 1);
        }
        CHECK(ch, d == ADDR_NULL && size == 77);
        CHECK_ERROR(ch, theirs);
        CHECK_OK(ch, pipe_counts(ch, &st));
    }
}

enum field { OP, ALLOC_SIZE, UNIT_SIZE, SLOTS, SLOTS_DEFAULT, FIELDS };

static void mismatch(enum field field, int writer, uint32_t ctx, rpipe_op_t op)
{
    static const char *const names[] = {"op", "heap_bytes", "unit_bytes", "slots", "slots"};
    static const char *const values[][2] = {
        {"PUT", "GET"}, {"4096", "40960"}, {"64", "4096"}, {"128", "32"}, {"64", "256"}};
    bool mine = mp_rank == writer;
    rpipe_config_t cfg = config(mine, op, ctx);
    raddr_t early = ADDR_NULL;
    rch_t ch;

    switch (field) {
    case OP:
        cfg = config(mine, mp_rank == 0 ? RPIPE_PUT : RPIPE_GET, ctx);
        break;
    case ALLOC_SIZE:
        cfg.heap_bytes = mp_rank == 0 ? 4096 : 40960;
        break;
    case UNIT_SIZE:
        cfg.unit_bytes = mp_rank == 0 ? 64 : 4096;
        break;
    case SLOTS:
        cfg.slots = mp_rank == 0 ? 128 : 32;
        break;
    default:
        cfg.slots = mp_rank == 0 ? 0 : 256; /* 0 stands for the setting, 64 */
    }
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    if (mine) /* what was allocated before it was known can still be given back */
        (void)rmalloc_nb(ch, 20, &early);
    refused(ch, mine, values[field][mp_rank], values[field][1 - mp_rank], names[field]);
    if (early != ADDR_NULL) {
        CHECK_RC(-EPROTO, ch, rwrite(ch, early));
        CHECK_RC(-EPROTO, ch, rwrite_nb(ch, early));
        CHECK_OK(ch, rfree(ch, early));
    }
    CHECK_OK(ch, rclose(ch));

    cfg = config(mine, op, ctx);
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    if (mine)
        mp_send(ch, 4096, mp_key(writer, 1 - writer, ctx, 0));
    else
        mp_read_free(ch, 4096, mp_key(writer, 1 - writer, ctx, 0));
    CHECK_OK(ch, rclose(ch));
}

/* both ranks open the same end; the barrier, so that each has received from the other */
static void same_role(bool writer, uint32_t ctx, rpipe_op_t op)
{
    rpipe_config_t cfg = config(writer, op, ctx);
    char nothing[512];
    raddr_t d;
    double begun;
    rch_t ch;

    cfg.timeout_ms = 50;
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    CHECK_OK(NULL, network_barrier());
    begun = now_ms();
    CHECK_RC(-ETIMEDOUT, ch, rwait(ch));
    CHECK(ch, now_ms() - begun > 48 && now_ms() - begun < 20000);
    CHECK_ERROR(ch, writer ? "writ" : "read");
    snprintf(nothing, sizeof(nothing), "%s", rerror(ch));
    if (writer) {
        CHECK(ch, (d = rmalloc(ch, 10)) != ADDR_NULL);
        CHECK_RC(-ETIMEDOUT, ch, rwrite(ch, d));
    } else {
        CHECK_RC(-ETIMEDOUT, ch, rread(ch, &d, NULL));
    }
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(ch, rclose(ch));
    CHECK_OK(NULL, network_barrier());

    /* an end whose peer has nothing of it: another error message */
    if (mp_rank == 0) {
        cfg.context += 100000;
        cfg.timeout_ms = 20;
        CHECK_OK(NULL, rpipe(&ch, &cfg));
        CHECK_RC(-ETIMEDOUT, ch, rwait(ch));
        CHECK(ch, strcmp(nothing, rerror(ch)) != 0);
        CHECK_OK(ch, rclose(ch));
    }
    CHECK_OK(NULL, network_barrier());

    /* each takes another role: now there are both */
    cfg = config(mp_rank == 0, op, ctx + 1);
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    CHECK_OK(ch, rwait(ch));
    CHECK_OK(ch, rclose(ch));
}

/* The log of both ranks has this line, without any call that waits. */
static void line_in_the_log(const rpipe_config_t *cfg, const char *line)
{
    const struct timespec backoff = {0, 10 * 1000 * 1000};
    int ends[2], before = dup(STDERR_FILENO), rounds = 0, rc;
    char text[4096] = "";
    size_t used = 0;
    rch_t ch;

    REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 && dup2(ends[1], STDERR_FILENO) >= 0,
            "no pipe for the log");
    rc = rpipe(&ch, cfg);
    while (rc == 0 && strstr(text, line) == NULL && rounds++ < 6000) {
        ssize_t n = read(ends[0], text + used, sizeof(text) - 1 - used);

        used += n > 0 ? (size_t)n : 0;
        nanosleep(&backoff, NULL);
    }
    (void)dup2(before, STDERR_FILENO);
    close(before);
    close(ends[0]);
    close(ends[1]);
    CHECK_OK(NULL, rc);
    REQUIRE(strstr(text, line) != NULL, "the log is \"%s\", without \"%s\"", text, line);
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(ch, rclose(ch));
}

static void same_role_in_the_log(uint32_t ctx)
{
    static const char expected[] = "between rank %d and rank %d are writers; one must be a reader";
    rpipe_config_t cfg = config(true, RPIPE_PUT, ctx);
    char line[128];

    snprintf(line, sizeof(line), expected, mp_rank, 1 - mp_rank);
    line_in_the_log(&cfg, line);
}

static void other_ctx_in_the_log(uint32_t ctx)
{
    uint32_t own = ctx + (uint32_t)mp_rank, other = ctx + 1 - (uint32_t)mp_rank;
    rpipe_config_t cfg = config(mp_rank == 0, RPIPE_GET, own);
    char line[128];

    snprintf(line, sizeof(line), "at rank %d, which has opened context %u and not %u;", 1 - mp_rank,
             other, own);
    line_in_the_log(&cfg, line);
}

/* both have opened a good end, of different channels */
static void other_ctx(uint32_t ctx, rpipe_op_t op)
{
    rpipe_config_t cfg = config(mp_rank == 0, op, ctx + (uint32_t)mp_rank * 1111);
    char theirs[16], needed[64];
    rch_t ch;

    snprintf(theirs, sizeof(theirs), "%u", ctx + (uint32_t)(1 - mp_rank) * 1111);
    cfg.timeout_ms = 50;
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    CHECK_OK(NULL, network_barrier());
    CHECK_RC(-ETIMEDOUT, ch, rwait(ch));
    says_number(ch, theirs);
    snprintf(needed, sizeof(needed), "and not the %s of context %u",
             mp_rank == 0 ? "reader" : "writer", ctx + (uint32_t)mp_rank * 1111);
    CHECK_ERROR(ch, needed);
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(ch, rclose(ch));
}

/* it stays open at the deadline, and may still be joined */
static void joined_later(uint32_t ctx, rpipe_op_t op)
{
    rpipe_config_t cfg = config(mp_rank == 0, op, ctx);
    char word = 0;
    rch_t ch;

    if (mp_rank == 0) {
        cfg.timeout_ms = 20;
        CHECK_OK(NULL, rpipe(&ch, &cfg));
        CHECK_RC(-ETIMEDOUT, ch, rwait(ch));
        CHECK_OK(NULL, network_send(1, &word, 1));
        CHECK_OK(ch, rset_timeout(ch, -1));
        CHECK_OK(ch, rwait(ch));
        mp_send(ch, 100, mp_key(0, 1, ctx, 0));
    } else {
        CHECK_OK(NULL, network_recv(0, &word, 1));
        CHECK_OK(NULL, rpipe(&ch, &cfg));
        mp_read_free(ch, 100, mp_key(0, 1, ctx, 0));
    }
    CHECK_OK(ch, rclose(ch));
}

int main(int argc, char **argv)
{
    uint32_t ctx = 1000;

    setenv("RPIPE_SLOTS", "64", 1);
    mp_begin(argc, argv, 2);
    if (mp_ranks != 2)
        REQUIRE(false, "2 ranks are needed");
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        for (int writer = 0; writer < 2; writer++)
            for (int field = 0; field < FIELDS; field++)
                mismatch((enum field)field, writer, ctx++, (rpipe_op_t)op);
        same_role(true, ctx, (rpipe_op_t)op);
        same_role(false, ctx + 10, (rpipe_op_t)op);
        other_ctx(ctx + 20, (rpipe_op_t)op);
        joined_later(ctx + 30, (rpipe_op_t)op);
        ctx += 10000;
    }
    same_role_in_the_log(ctx);
    other_ctx_in_the_log(ctx + 10);
    return mp_end();
}
