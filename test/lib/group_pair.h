/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_pair.h: pipes made of pipes, to oneself: the object at one end, at the other end the plain pipes of its partners.
 */
#ifndef TEST_LIB_GROUP_PAIR_H
#define TEST_LIB_GROUP_PAIR_H

#include "test/lib/pair.h"

#define FAN_MOST 16
#define FAN_LIMIT_MS 60000 /* of what must not happen: reached only by what hangs */

static const int fan_self[FAN_MOST]; /* all of them rank 0 */

/* of n pipes, with as many ctx */
static inline rpipe_config_t fan_config(rpipe_op_t op, uint64_t alloc_size, int n)
{
    rpipe_config_t cfg = pair_config(op, alloc_size);

    for (int i = 1; i < n; i++)
        (void)pair_config(op, alloc_size);
    cfg.timeout_ms = FAN_LIMIT_MS;
    return cfg;
}

/* the partners of an object; `writers`: they write */
static inline void fan_partners(rch_t *ch, const rpipe_config_t *cfg, int n, bool writers)
{
    for (int i = 0; i < n; i++) {
        rpipe_config_t own = writers ? pair_writer(*cfg) : pair_reader(*cfg);

        own.context += (uint32_t)i;
        CHECK_OK(NULL, rpipe(&ch[i], &own));
    }
}

static inline void fan_close(rch_t *ch, int n)
{
    for (int i = 0; i < n; i++)
        CHECK_OK(ch[i], rclose(ch[i]));
}

/* closes the object, then its partners */
static inline void fan_end(rgroup_t group, rch_t *ch, int n)
{
    CHECK_OK(NULL, rgroup_close(group));
    fan_close(ch, n);
}

/* the news that the reader has closed comes by the service thread; what is written before it comes is lost with the pipe */
static inline void fan_await_close(rch_t w)
{
    double end = now_ms() + FAN_LIMIT_MS;

    while (rflush(w) == 0) {
        assert_true(now_ms() < end);
        usleep(200);
    }
    CHECK_RC(-EPIPE, w, rflush(w));
}

/* a partner sends: its number, the number of the message, and a pattern that both decide */
static inline void fan_send(rch_t w, uint64_t who, uint64_t number, size_t size)
{
    struct pair p = {w, NULL};
    raddr_t d = pair_alloc(&p, size, who << 32 | number);

    CHECK_OK(w, rset_tag(w, d, who << 32 | number));
    CHECK_OK(w, rwrite(w, d));
}

/* checks a received message: the pattern of its tag; frees it */
static inline uint64_t fan_check(rch_t r, raddr_t d, size_t size)
{
    uint64_t tag = rtag(r, d);

    assert_int_equal(rsize(r, d), size);
    assert_true(pattern_same(rmem(r, d), size, tag));
    CHECK_OK(r, rfree(r, d));
    return tag;
}

#endif
