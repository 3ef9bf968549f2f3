/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce.c: one message of every writer, combined by an operator as they arrive, or in the order of places.
 *
 * A round takes exactly one message from each writer that is there; who is ahead waits in his pipe. What has been taken is in the
 * caller's memory at once, and given back. So a round that ends early (deadline, death) stays open, and the next call with the
 * same arguments goes on with those that are missing.
 */
#include "group/redux.h"

#include <errno.h>
#include <string.h>

/* ---- ready-made operators ---- */

/*
 * Messages are aligned to their unit only, so elements are loaded by memcpy, which the compiler makes the plain load that it
 * is. Sums and products of integers wrap, so signed ones are computed without sign.
 */
#define OPERATOR(name, type, expression)                                                           \
    static void name(void *into, const void *from, size_t bytes, void *argument)                   \
    {                                                                                              \
        char *restrict to = into;                                                                  \
        const char *restrict source = from;                                                        \
        size_t i;                                                                                  \
                                                                                                   \
        (void)argument;                                                                            \
        for (i = 0; i < bytes; i += sizeof(type)) {                                                \
            type a, b, r;                                                                          \
                                                                                                   \
            memcpy(&a, to + i, sizeof(a));                                                         \
            memcpy(&b, source + i, sizeof(b));                                                     \
            r = (expression);                                                                      \
            memcpy(to + i, &r, sizeof(r));                                                         \
        }                                                                                          \
    }

/* a value that is no number loses against one that is */
#define MIN_OF_FLOATS (a < b || b != b ? a : b)
#define MAX_OF_FLOATS (a > b || b != b ? a : b)

OPERATOR(reduce_sum_u32, uint32_t, a + b)
OPERATOR(reduce_sum_u64, uint64_t, a + b)
OPERATOR(reduce_sum_float, float, a + b)
OPERATOR(reduce_sum_double, double, a + b)
OPERATOR(reduce_prod_u32, uint32_t, a *b)
OPERATOR(reduce_prod_u64, uint64_t, a *b)
OPERATOR(reduce_prod_float, float, a *b)
OPERATOR(reduce_prod_double, double, a *b)
OPERATOR(reduce_min_i32, int32_t, a < b ? a : b)
OPERATOR(reduce_min_i64, int64_t, a < b ? a : b)
OPERATOR(reduce_min_u32, uint32_t, a < b ? a : b)
OPERATOR(reduce_min_u64, uint64_t, a < b ? a : b)
OPERATOR(reduce_min_float, float, MIN_OF_FLOATS)
OPERATOR(reduce_min_double, double, MIN_OF_FLOATS)
OPERATOR(reduce_max_i32, int32_t, a > b ? a : b)
OPERATOR(reduce_max_i64, int64_t, a > b ? a : b)
OPERATOR(reduce_max_u32, uint32_t, a > b ? a : b)
OPERATOR(reduce_max_u64, uint64_t, a > b ? a : b)
OPERATOR(reduce_max_float, float, MAX_OF_FLOATS)
OPERATOR(reduce_max_double, double, MAX_OF_FLOATS)
OPERATOR(reduce_band_u32, uint32_t, a &b)
OPERATOR(reduce_band_u64, uint64_t, a &b)
OPERATOR(reduce_bor_u32, uint32_t, a | b)
OPERATOR(reduce_bor_u64, uint64_t, a | b)
OPERATOR(reduce_bxor_u32, uint32_t, a ^ b)
OPERATOR(reduce_bxor_u64, uint64_t, a ^ b)
OPERATOR(reduce_land_u32, uint32_t, a != 0 && b != 0)
OPERATOR(reduce_land_u64, uint64_t, a != 0 && b != 0)
OPERATOR(reduce_lor_u32, uint32_t, a != 0 || b != 0)
OPERATOR(reduce_lor_u64, uint64_t, a != 0 || b != 0)

#define OPERATORS (RGROUP_LOR + 1)
#define TYPES (RGROUP_DOUBLE + 1)

static const rredux_function_t reduce_operators[OPERATORS][TYPES] = {
    /* in the order of rredux_type_t: int32, int64, uint32, uint64, float, double */
    [RGROUP_SUM] = {reduce_sum_u32, reduce_sum_u64, reduce_sum_u32, reduce_sum_u64,
                    reduce_sum_float, reduce_sum_double},
    [RGROUP_PROD] = {reduce_prod_u32, reduce_prod_u64, reduce_prod_u32, reduce_prod_u64,
                     reduce_prod_float, reduce_prod_double},
    [RGROUP_MIN] = {reduce_min_i32, reduce_min_i64, reduce_min_u32, reduce_min_u64,
                    reduce_min_float, reduce_min_double},
    [RGROUP_MAX] = {reduce_max_i32, reduce_max_i64, reduce_max_u32, reduce_max_u64,
                    reduce_max_float, reduce_max_double},
    [RGROUP_BAND] = {reduce_band_u32, reduce_band_u64, reduce_band_u32, reduce_band_u64, NULL,
                     NULL},
    [RGROUP_BOR] = {reduce_bor_u32, reduce_bor_u64, reduce_bor_u32, reduce_bor_u64, NULL, NULL},
    [RGROUP_BXOR] = {reduce_bxor_u32, reduce_bxor_u64, reduce_bxor_u32, reduce_bxor_u64, NULL,
                     NULL},
    [RGROUP_LAND] = {reduce_land_u32, reduce_land_u64, reduce_land_u32, reduce_land_u64, NULL,
                     NULL},
    [RGROUP_LOR] = {reduce_lor_u32, reduce_lor_u64, reduce_lor_u32, reduce_lor_u64, NULL, NULL},
};

static const size_t reduce_type_bytes[TYPES] = {4, 8, 4, 8, 4, 8};

static int reduce_find(const char *call, size_t count, rredux_type_t type, rredux_op_t op,
                       rredux_function_t *function, size_t *bytes)
{
    if ((unsigned)type >= TYPES || (unsigned)op >= OPERATORS) {
        last_error_set("%s: type %d, operator %d; there are types 0 to %d and operators 0 to %d",
                       call, (int)type, (int)op, TYPES - 1, OPERATORS - 1);
        return -EINVAL;
    }
    if (reduce_operators[op][type] == NULL) {
        last_error_set("%s: bits and truth values of floating point numbers have no operator",
                       call);
        return -EINVAL;
    }
    if (count > SIZE_MAX / reduce_type_bytes[type]) {
        last_error_set("%s: %zu elements are more than there can be bytes", call, count);
        return -EINVAL;
    }
    *function = reduce_operators[op][type];
    *bytes = count * reduce_type_bytes[type];
    return 0;
}

int rpipe_redux_combine(void *into, const void *from, size_t count, rredux_type_t type,
                        rredux_op_t op)
{
    rredux_function_t function;
    size_t bytes;
    int rc = reduce_find("rredux_combine", count, type, op, &function, &bytes);

    if (rc == 0 && bytes > 0 && (into == NULL || from == NULL)) {
        last_error_set("rredux_combine: an array is NULL");
        rc = -EINVAL;
    }
    if (rc == 0)
        function(into, from, bytes, NULL);
    return rc;
}

/* ---- a round ---- */

static void reduce_begin(struct rpipe_redux *rx)
{
    struct redux_round *r = &rx->round;
    int i;

    r->open = true;
    r->combined = r->left = 0;
    for (i = 0; i < rx->c.n; i++)
        if (!rx->c.part[i].gone)
            rx->todo[r->left++] = i;
}

/* One message has been read: into the result, and back. */
static int reduce_take(struct rpipe_redux *rx, const char *call, int place, raddr_t d, size_t size)
{
    struct redux_round *r = &rx->round;
    rch_t ch = rx->c.part[place].ch;

    if (UNLIKELY(size != r->bytes)) {
        (void)rmalloc_free(ch, d);
        rx->c.who = place;
        last_error_set("%s: place %d, rank %d: a message of %zu bytes, not %zu; it is left out",
                       call, place, rx->c.part[place].rank, size, r->bytes);
        return -EMSGSIZE;
    }
    if (r->combined == 0 && (r->flags & RREDUX_OWN) == 0)
        memcpy(r->into, rmalloc_ptr(ch, d), size);
    else
        r->function(r->into, rmalloc_ptr(ch, d), size, r->argument);
    r->combined++;
    return rmalloc_free(ch, d);
}

/* todo[at] is done with. The order is kept: it is that of places. */
static void reduce_strike(struct rpipe_redux *rx, int at)
{
    rx->round.left--;
    memmove(&rx->todo[at], &rx->todo[at + 1], (size_t)(rx->round.left - at) * sizeof(*rx->todo));
}

/* Takes what is there. R_PENDING: not all. With RREDUX_ORDERED only the first one of those that are missing is looked at. */
static int reduce_go_on(struct rpipe_redux *rx, const char *call)
{
    struct redux_round *r = &rx->round;
    int at = 0, rc;

    while (at < r->left) {
        int place = rx->todo[at];
        size_t size;
        raddr_t d;

        rc = rx->c.part[place].gone ? R_PENDING : redux_look(rx, call, place, &d, &size);
        if (rc == 0)
            rc = reduce_take(rx, call, place, d, size);
        else if (!rx->c.part[place].gone) {
            if (rc != R_PENDING)
                return rc;
            if ((r->flags & RREDUX_ORDERED) != 0)
                return R_PENDING;
            at++;
            continue;
        }
        reduce_strike(rx, at);
        if (rc != 0 && rc != R_PENDING)
            return rc;
    }
    return r->left > 0 ? R_PENDING : 0;
}

static int reduce(struct rpipe_redux *rx, const char *call, int *combined)
{
    struct redux_round *r = &rx->round;
    int64_t deadline = deadline_in_ms(rx->c.timeout_ms);
    bool ordered = (r->flags & RREDUX_ORDERED) != 0;
    int rc;

    while ((rc = reduce_go_on(rx, call)) == R_PENDING) {
        if (redux_await(rx, rx->todo, ordered ? 1 : r->left, deadline) != 0) {
            rx->c.who = rx->todo[0];
            last_error_set(
                "%s: the messages of %d of %d writers, rank %d among them, are missing after %d ms",
                call, r->left, rx->c.live, rx->c.part[rx->todo[0]].rank, rx->c.timeout_ms);
            return -ETIMEDOUT;
        }
    }
    if (rc != 0)
        return rc;
    r->open = false;
    if (r->combined == 0) {
        rx->c.who = -1;
        last_error_set(
            "%s: all %d writers have closed, or are gone, and all their messages have been read",
            call, rx->c.n);
        return R_EOF;
    }
    if (combined != NULL)
        *combined = r->combined;
    return 0;
}

static int reduce_apply(rredux_t rx, const char *call, void *into, size_t bytes,
                        rredux_function_t function, void *argument, int flags, int *combined)
{
    struct redux_round *r;

    if (into == NULL || function == NULL || (flags & ~(RREDUX_OWN | RREDUX_ORDERED)) != 0) {
        last_error_set("%s: needs a place for the result, a function, and flags among RREDUX_OWN "
                       "and RREDUX_ORDERED",
                       call);
        return -EINVAL;
    }
    r = &rx->round;
    if (!r->open) {
        *r = (struct redux_round){.into = into,
                                  .bytes = bytes,
                                  .function = function,
                                  .argument = argument,
                                  .flags = flags};
        reduce_begin(rx);
    } else if (r->into != into || r->bytes != bytes || r->function != function ||
               r->argument != argument || r->flags != flags) {
        last_error_set("%s: a reduction has begun and has not got all its messages yet; it goes on "
                       "with the same arguments",
                       call);
        return -EBUSY;
    }
    return reduce(rx, call, combined);
}

int rpipe_redux_apply(rredux_t rx, void *into, size_t bytes, rredux_function_t function,
                      void *argument, int flags, int *combined)
{
    int rc = redux_refuses(rx, "rredux_apply");

    return rc != 0
               ? rc
               : reduce_apply(rx, "rredux_apply", into, bytes, function, argument, flags, combined);
}

int rpipe_redux_reduce(rredux_t rx, void *into, size_t count, rredux_type_t type, rredux_op_t op,
                       int flags, int *combined)
{
    rredux_function_t function;
    size_t bytes;
    int rc = redux_refuses(rx, "rredux_reduce");

    if (rc == 0)
        rc = reduce_find("rredux_reduce", count, type, op, &function, &bytes);
    return rc != 0
               ? rc
               : reduce_apply(rx, "rredux_reduce", into, bytes, function, NULL, flags, combined);
}
