/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_value.c: what members contribute, and the functions that fold it: see coll_case.h. */
#include "test/unit/coll_case.h"

#include "test/lib/random.h"
#include "util/float16.h"

#include <rpipe.h>
#include <string.h>

/* ---- functions of a program, on words of 8 bytes ---- */

static uint64_t value_combine(enum coll_order order, uint64_t a, uint64_t b)
{
    uint64_t low, high;

    switch (order) {
    case COLL_ANY_ORDER:
        return a + b;
    case COLL_MEMBER_ORDER: /* x * low + high, first that of a, then that of b */
        low = (uint32_t)((a | 1) * (b | 1));
        high = (uint32_t)((a >> 32) * (uint32_t)(b | 1) + (b >> 32));
        return high << 32 | low;
    default:
        return random_mix(a * 3 + random_mix(b));
    }
}

static void value_apply(void *into, const void *from, size_t bytes, void *argument)
{
    const enum coll_order *order = argument;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t a, b;

        memcpy(&a, (char *)into + i, 8);
        memcpy(&b, (const char *)from + i, 8);
        a = value_combine(*order, a, b);
        memcpy((char *)into + i, &a, 8);
    }
}

struct coll_operator coll_case_operator(const struct coll_case *c)
{
    static enum coll_order orders[] = {COLL_ANY_ORDER, COLL_MEMBER_ORDER, COLL_FIXED_ORDER};
    struct coll_operator o;
    struct error err;

    if (!c->typed && !c->request.counted)
        return coll_operator_of(value_apply, &orders[c->request.order], c->request.element,
                                c->request.order == COLL_ANY_ORDER);
    if (coll_operator_init(&o, c->request.counted ? RGROUP_UINT64 : c->type,
                           c->request.counted ? RGROUP_MAX : c->op, &err) != 0)
        memset(&o, 0, sizeof(o));
    return o;
}

uint64_t coll_case_word(const struct coll_case *c, uint64_t op, int member)
{
    return random_mix(c->seed ^ op << 32 ^ (uint64_t)member);
}

/* ---- values ---- */

/* In the order of util/fold.h. */
enum value_class {
    VALUE_BITS, /* any */
    VALUE_FLOAT,
    VALUE_DOUBLE,
    VALUE_BINARY16,
    VALUE_BFLOAT16,
    VALUE_COMPLEX_FLOAT,
    VALUE_COMPLEX_DOUBLE,
    VALUE_INDEX32,
    VALUE_INDEX64,
    VALUE_FLOAT_INDEX,
    VALUE_DOUBLE_INDEX
};

static const uint8_t value_classes[FOLD_TYPES] = {
    [4] = VALUE_FLOAT,        [5] = VALUE_DOUBLE,         [10] = VALUE_BINARY16,
    [11] = VALUE_BFLOAT16,    [12] = VALUE_COMPLEX_FLOAT, [13] = VALUE_COMPLEX_DOUBLE,
    [14] = VALUE_INDEX32,     [15] = VALUE_INDEX64,       [16] = VALUE_FLOAT_INDEX,
    [17] = VALUE_DOUBLE_INDEX};

#define VALUE_SUM 0
#define VALUE_PROD 1

/*
 * A number whose sums and products, of COLL_CASE_MEMBERS, are exact in every type; if the order is fixed, one
 * whose sums and products are rounded, and a zero of either sign.
 */
static double value_number(const struct coll_case *c, uint64_t key)
{
    bool fixed = c->request.order == COLL_FIXED_ORDER;
    bool complex = value_classes[c->type] == VALUE_COMPLEX_FLOAT ||
                   value_classes[c->type] == VALUE_COMPLEX_DOUBLE;

    if (fixed && key % 16 == 0)
        return key & 16 ? 0.0 : -0.0;
    if (c->op == VALUE_PROD && fixed)
        return 1 + (double)(key >> 8 & 15) / 97;
    if (c->op == VALUE_PROD) /* of complex numbers, -1 makes zeros of either sign */
        return (key >> 8 & 1) != 0 && !complex ? -1 : 1;
    if (c->op == VALUE_SUM)
        return fixed ? (double)(key >> 8 & 1023) / 7 - 70 : (double)(key >> 8 & 3) + 1;
    return (double)(key >> 8 & 63) - 31; /* exact in all types, and a zero is positive */
}

#define VALUE_PUT(type, number)                                                                    \
    do {                                                                                           \
        type value_put = (type)(number);                                                           \
                                                                                                   \
        memcpy(to, &value_put, sizeof(value_put));                                                 \
        to += sizeof(value_put);                                                                   \
    } while (0)

/* An element of a type of util/fold.h. */
static void value_put_typed(const struct coll_case *c, uint64_t key, uint8_t *to)
{
    double number = value_number(c, key);
    /* without an imaginary part products are exact, and have no zero of another sign */
    double other = c->op == VALUE_PROD && c->request.order != COLL_FIXED_ORDER
                       ? 0
                       : value_number(c, key >> 20);
    int index = (int)(key >> 40 & 7);

    switch (value_classes[c->type]) {
    case VALUE_FLOAT:
        VALUE_PUT(float, number);
        break;
    case VALUE_DOUBLE:
        VALUE_PUT(double, number);
        break;
    case VALUE_BINARY16:
        VALUE_PUT(uint16_t, binary16_store((float)number));
        break;
    case VALUE_BFLOAT16:
        VALUE_PUT(uint16_t, bfloat16_store((float)number));
        break;
    case VALUE_COMPLEX_FLOAT:
        VALUE_PUT(float, number);
        VALUE_PUT(float, other);
        break;
    case VALUE_COMPLEX_DOUBLE:
        VALUE_PUT(double, number);
        VALUE_PUT(double, other);
        break;
    case VALUE_INDEX32:
        VALUE_PUT(int32_t, number);
        VALUE_PUT(int32_t, index);
        break;
    case VALUE_INDEX64:
        VALUE_PUT(int64_t, number);
        VALUE_PUT(int64_t, index);
        break;
    case VALUE_FLOAT_INDEX:
        VALUE_PUT(float, number);
        VALUE_PUT(int32_t, index);
        break;
    case VALUE_DOUBLE_INDEX:
        VALUE_PUT(double, number);
        VALUE_PUT(int64_t, index);
        break;
    default: /* integers: any bits */
        memcpy(to, &key, fold_element_bytes(c->type));
        break;
    }
}

static uint64_t value_key(const struct coll_case *c, uint64_t op, int member, size_t index)
{
    return random_mix(c->seed ^ op << 50 ^ (uint64_t)member << 40 ^ index);
}

void coll_case_contribution(const struct coll_case *c, uint64_t op, int member, size_t at,
                            size_t bytes, uint8_t *to)
{
    size_t element = c->request.element;

    if (c->typed) {
        for (size_t i = 0; i < bytes; i += element)
            value_put_typed(c, value_key(c, op, member, (at + i) / element), to + i);
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value_key(c, op, member, (at + i) / 8) >> (at + i) % 8 * 8);
}
