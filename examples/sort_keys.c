/* SPDX-License-Identifier: BSD-3-Clause */
/* sort_keys.c: see sort_keys.h. */
#include "sort_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sort_generate(int round, size_t first, uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t a = app_mix(2 * (first + i) + 1 + ((uint64_t)round << 40)), b = app_mix(a + 1);

        keys[i] = (a >> 32) * (b >> 32);
    }
}

void sort_local(uint64_t *keys, uint64_t *other, size_t n)
{
    for (int shift = 0; shift < 64; shift += 8) { /* an even number of passes: it ends in `keys` */
        size_t begin[257] = {0};
        uint64_t *swap = keys;

        for (size_t i = 0; i < n; i++)
            begin[(keys[i] >> shift & 255) + 1]++;
        for (int digit = 0; digit < 256; digit++)
            begin[digit + 1] += begin[digit];
        for (size_t i = 0; i < n; i++)
            other[begin[keys[i] >> shift & 255]++] = keys[i];
        keys = other;
        other = swap;
    }
}

void sort_sample(const uint64_t *keys, size_t n, uint64_t *sample, int samples)
{
    for (size_t i = 0; i < (size_t)samples; i++)
        sample[i] = n > 0 ? keys[(2 * i + 1) * n / (2 * (size_t)samples)] : UINT64_MAX;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* How many keys are less than the border. */
static size_t below(const uint64_t *keys, size_t n, uint64_t border)
{
    size_t low = 0;

    while (low < n) {
        size_t middle = low + (n - low) / 2;

        if (keys[middle] < border)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

void sort_cut(const uint64_t *keys, size_t n, uint64_t *sample, int samples, int nranks,
              size_t *counts)
{
    size_t from = 0;

    qsort(sample, (size_t)samples * (size_t)nranks, sizeof(*sample), compare);
    for (int r = 0; r < nranks; r++) {
        size_t end = r + 1 < nranks ? below(keys, n, sample[(size_t)samples * (size_t)(r + 1)]) : n;

        counts[r] = end - from;
        from = end;
    }
}

static void merge(const uint64_t *a, size_t na, const uint64_t *b, size_t nb, uint64_t *to)
{
    while (na > 0 && nb > 0) {
        if (*b < *a) {
            *to++ = *b++;
            nb--;
        } else {
            *to++ = *a++;
            na--;
        }
    }
    memcpy(to, na > 0 ? a : b, (na + nb) * sizeof(*to));
}

uint64_t *sort_merge(uint64_t *keys, uint64_t *other, const size_t *counts, int runs)
{
    for (int step = 1; step < runs; step *= 2) { /* so many runs are one already */
        uint64_t *swap = keys;
        size_t at = 0;

        for (int r = 0; r < runs; r += 2 * step) {
            size_t left = 0, right = 0;

            for (int i = r; i < r + 2 * step && i < runs; i++)
                *(i < r + step ? &left : &right) += counts[i];
            merge(keys + at, left, keys + at + left, right, other + at);
            at += left + right;
        }
        keys = other;
        other = swap;
    }
    return keys;
}

uint64_t sort_sum(const uint64_t *keys, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += app_mix(keys[i] + 1);
    return sum;
}

uint64_t sort_digest(const uint64_t *keys, size_t n, size_t position)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += app_mix(keys[i] ^ app_mix(position + i + 1));
    return sum;
}

bool sort_right(const uint64_t *keys, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (keys[i - 1] > keys[i])
            return false;
    return true;
}

int sort_compare(const char *app, const struct sort_options *o, const uint64_t *sorted)
{
    size_t n = (size_t)o->keys, i = 0;
    uint64_t *alone = malloc(n * sizeof(*alone));

    if (alone == NULL) {
        fprintf(stderr, "%s: no memory to sort %zu keys in one process; see --no-check\n", app, n);
        return 1;
    }
    sort_generate(o->rounds - 1, 0, alone, n);
    qsort(alone, n, sizeof(*alone), compare);
    while (i < n && sorted[i] == alone[i])
        i++;
    if (i < n)
        fprintf(stderr,
                "%s: WRONG: key %zu of %zu is %016llx, and where one process sorts %016llx\n", app,
                i, n, (unsigned long long)sorted[i], (unsigned long long)alone[i]);
    else if (!app_options.json)
        printf("%s: right: all keys are where one process sorts them\n", app);
    free(alone);
    return i < n ? 1 : 0;
}
