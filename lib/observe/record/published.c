/* SPDX-License-Identifier: BSD-3-Clause */
/* published.c: see published.h. */
#include "observe/record/published.h"

static published_keeper published_keeper_now; /* set in rinit and rexit, when no end is open */

static uint64_t published_word_at(const void *end, uint32_t at)
{
    const uint64_t *word = (const uint64_t *)(const void *)((const char *)end + at);

    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

uint64_t published_value(const struct counter_row *row, const void *end, enum published_role role)
{
    const struct published_word *w = role == PUBLISHED_WRITER ? &row->writer : &row->reader;
    uint64_t value = 0;

    if (w->plus != PUBLISHED_NONE)
        value = published_word_at(end, w->plus);
    if (w->minus != PUBLISHED_NONE)
        value -= published_word_at(end, w->minus);
    if (w->base != PUBLISHED_NONE)
        value -= published_word_at(end, w->base);
    return w->times != PUBLISHED_NONE ? value * published_word_at(end, w->times) : value;
}

void published_open(struct published_end *published)
{
    struct published *header = publish_header();

    if (header != NULL)
        atomic_fetch_add_explicit(&header->opened, 1, memory_order_relaxed);
    /* release: the other members are complete; pairs with a reader of the file, which reads `state` first */
    atomic_store_explicit(&published->state, PUBLISHED_OPEN, memory_order_release);
}

void published_keep_retired(published_keeper keep) { published_keeper_now = keep; }

void published_retire(const struct published_layout *layout, const void *end,
                      struct published_end *published)
{
    struct published *header = publish_header();
    uint64_t value[PUBLISHED_COUNTERS];

    if (atomic_load_explicit(&published->state, memory_order_relaxed) != PUBLISHED_OPEN)
        return;
    for (int i = 0; i < layout->rows; i++)
        value[i] = published_value(&layout->row[i], end, (enum published_role)published->role);
    if (published_keeper_now != NULL)
        published_keeper_now(published, value, layout->rows);
    if (header != NULL) {
        /* acq_rel, then release: a reader that loads `retired` before and after the sums finds an odd number, or two
         * different ones, if a sum has changed in between */
        atomic_fetch_add_explicit(&header->retired, 1, memory_order_acq_rel);
        for (int i = 0; i < layout->rows; i++)
            if (!layout->row[i].now)
                atomic_fetch_add_explicit(&header->total[i], value[i], memory_order_relaxed);
        atomic_store_explicit(&published->state, PUBLISHED_FREE, memory_order_release);
        atomic_fetch_add_explicit(&header->retired, 1, memory_order_release);
    }
    atomic_store_explicit(&published->state, PUBLISHED_FREE, memory_order_relaxed);
}
