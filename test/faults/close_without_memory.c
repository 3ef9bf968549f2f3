/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close_without_memory.c: an end over the (simulated) network is closed at once while its messages are in flight, and every call that
 * asks the system for something fails. The service thread posts the close message when they are complete all the same: the reader gets all
 * messages and R_EOF, and rexit does not wait for its deadline.
 */
#include "failing_calls.h"
#include "test/lib/job.h"
#include "test/lib/pattern.h"

#include <rpipe.h>

#define MESSAGES 20
#define BYTES 1000
#define LATE_MS 5000

static rch_t open_end(bool writer, rpipe_op_t op)
{
    rpipe_config_t cfg = channel_config(op, 0, writer, 1 << 16);
    rch_t ch = NULL;

    cfg.timeout_ms = LATE_MS;
    cfg.context = (uint64_t)op;
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    return ch;
}

static void write_some(rch_t w)
{
    for (uint64_t i = 0; i < MESSAGES; i++) {
        raddr_t d = rmalloc(w, BYTES);

        CHECK(w, d != ADDR_NULL);
        pattern_fill(rmem(w, d), BYTES, i);
        CHECK(w, rwrite(w, d) == 0);
    }
}

static void read_all(rch_t r)
{
    uint64_t n;
    raddr_t d;
    int rc;

    for (n = 0; (rc = rread(r, &d, NULL)) == 0; n++) {
        CHECK(r, pattern_same(rmem(r, d), BYTES, n));
        CHECK(r, rfree(r, d) == 0);
    }
    EXPECT(rc == R_EOF && n == MESSAGES, "after %d messages of %d: %d: %s", (int)n, MESSAGES, rc,
           rerror(r));
}

static void close_without_memory(rpipe_op_t op)
{
    rch_t w = open_end(true, op), r = open_end(false, op);

    CHECK(w, rwait(w) == 0);
    CHECK(r, rwait(r) == 0);
    write_some(w);
    CHECK(w, rset_timeout(w, R_AT_ONCE) == 0);
    failing_arm((struct place){1, INT64_MAX});
    CHECK(NULL, rclose(w) == 0);
    printf("%lld calls\n", (long long)failing_disarm());
    read_all(r);
    CHECK(r, rclose(r) == 0);
}

int main(int argc, char **argv)
{
    double began;

    (void)argc;
    if (!failing_memory)
        printf("memory does not fail: another malloc is in force\n");
    setenv("RPIPE_BTL", "sim", 1);
    setenv("RPIPE_SIM_MODE", "lazy", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    close_without_memory(RPIPE_PUT);
    close_without_memory(RPIPE_GET);
    began = now_ms();
    CHECK(NULL, rexit() == 0);
    EXPECT(now_ms() - began < LATE_MS, "rexit took %.0f ms", now_ms() - began);
    return check_report(argv[0]);
}
