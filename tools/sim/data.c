/* SPDX-License-Identifier: BSD-3-Clause */
/* data.c: see data.h. */
#include "tools/sim/data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

/* splitmix64 */
static uint64_t data_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t data_value(int member) { return data_mix((uint64_t)member + 1); }

uint64_t data_combine(enum coll_order order, uint64_t left, uint64_t right)
{
    uint64_t low, high;

    switch (order) {
    case COLL_ANY_ORDER:
        return left + right;
    case COLL_MEMBER_ORDER: /* the composition of x * low + high, which is associative */
        low = (uint32_t)((left | 1) * (right | 1));
        high = (uint32_t)((left >> 32) * (uint32_t)(right | 1) + (right >> 32));
        return high << 32 | low;
    default:
        return data_mix(left * 3 + data_mix(right));
    }
}

/* ---- segments ---- */

void data_free(struct data *d)
{
    free(d->segment);
    *d = (struct data){0};
}

static int data_reserve(struct data *d, uint32_t count)
{
    uint32_t next = d->allocated == 0 ? 1 : d->allocated * 2;
    struct data_segment *larger;

    if (count <= d->allocated)
        return 0;
    if (next < count)
        next = count;
    larger = realloc(d->segment, next * sizeof(*larger));
    if (larger == NULL)
        return -ENOMEM;
    d->segment = larger;
    d->allocated = next;
    return 0;
}

/* The first segment that ends behind `at`. */
static uint32_t data_find(const struct data *d, size_t at)
{
    uint32_t low = 0, high = d->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (d->segment[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Cuts the segment that has bytes on both sides of `at`. Returns the first segment from `at` on; < 0: -ENOMEM. */
static int64_t data_cut(struct data *d, size_t at)
{
    uint32_t i = data_find(d, at);

    if (i == d->count || d->segment[i].at >= at)
        return i;
    if (data_reserve(d, d->count + 1) != 0)
        return -ENOMEM;
    memmove(&d->segment[i + 1], &d->segment[i], (d->count - i) * sizeof(*d->segment));
    d->count++;
    d->segment[i + 1].source += at - d->segment[i].at;
    d->segment[i + 1].at = at;
    d->segment[i].end = at;
    return (int64_t)i + 1;
}

int data_fill(struct data *d, size_t at, size_t bytes, uint64_t value, size_t source)
{
    struct data_segment one = {.at = at, .end = at + bytes, .source = source, .value = value};
    struct data what = {.segment = &one, .count = 1, .allocated = 1};

    return bytes == 0 ? 0 : data_write(d, &what);
}

int data_read(const struct data *d, size_t at, size_t bytes, size_t to, struct data *out)
{
    uint32_t first = data_find(d, at), last = first, count = 0;
    size_t reached = at;

    for (; last < d->count && reached < at + bytes && d->segment[last].at <= reached; last++)
        reached = d->segment[last].end;
    out->count = 0;
    if (bytes == 0)
        return 0;
    if (reached < at + bytes)
        return -EINVAL;
    if (data_reserve(out, last - first) != 0)
        return -ENOMEM;
    for (uint32_t i = first; i < last; i++) {
        struct data_segment s = d->segment[i];

        if (s.at < at) {
            s.source += at - s.at;
            s.at = at;
        }
        s.end = s.end < at + bytes ? s.end : at + bytes;
        s.at = s.at - at + to;
        s.end = s.end - at + to;
        out->segment[count++] = s;
    }
    out->count = count;
    return 0;
}

int data_write(struct data *d, const struct data *what)
{
    int64_t first, last;
    uint32_t more = what->count, old;

    if (more == 0)
        return 0;
    first = data_cut(d, what->segment[0].at);
    last = data_cut(d, what->segment[more - 1].end);
    if (first < 0 || last < 0)
        return -ENOMEM;
    old = (uint32_t)(last - first);
    if (data_reserve(d, d->count - old + more) != 0)
        return -ENOMEM;
    memmove(&d->segment[(uint32_t)first + more], &d->segment[last],
            (d->count - (size_t)last) * sizeof(*d->segment));
    memcpy(&d->segment[first], what->segment, more * sizeof(*d->segment));
    d->count = d->count - old + more;
    return 0;
}

int data_fold(struct data *d, const struct data *what, enum coll_order order, bool reversed)
{
    for (uint32_t k = 0; k < what->count; k++) {
        const struct data_segment *from = &what->segment[k];
        int64_t first = data_cut(d, from->at), last = data_cut(d, from->end);
        size_t reached = from->at;

        if (first < 0 || last < 0)
            return -ENOMEM;
        for (int64_t i = first; i < last; i++) {
            struct data_segment *into = &d->segment[i];

            if (into->at != reached || into->source - from->source != into->at - from->at)
                return -EINVAL;
            into->value = reversed ? data_combine(order, from->value, into->value)
                                   : data_combine(order, into->value, from->value);
            reached = into->end;
        }
        if (reached != from->end)
            return -EINVAL;
    }
    return 0;
}

bool data_is(const struct data *d, size_t at, size_t bytes, uint64_t value, size_t source)
{
    size_t reached = at;

    for (uint32_t i = data_find(d, at); i < d->count && reached < at + bytes; i++) {
        const struct data_segment *s = &d->segment[i];

        if (s->at > reached || s->value != value ||
            s->source + (reached - s->at) != source + (reached - at))
            return false;
        reached = s->end;
    }
    return reached >= at + bytes;
}
