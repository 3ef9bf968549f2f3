/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes become a heap and operations on it; the model of heap_model.h has the expected result. See README.md.
 *
 * The first bytes are the geometry: heuristic, unit, length, descriptors, seed. Then each operation is a byte, of which the
 * low three bits are its kind, and what it needs. Sizes are made so that what matters, a unit more or less than a hole
 * that is free, is a step of a few bits away.
 */
#include "../unit/heap_model.h"
#include "input.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t take_length(struct input *in, uint32_t unit)
{
    uint32_t word = input_word(in), rest = input_byte(in);
    uint64_t units = 1 + (word & 0x3ff);

    if ((word & 0x8000) != 0) /* up to 2^31 */
        units <<= word >> 10 & 31;
    if (units > MODEL_UNITS_MAX)
        units = MODEL_UNITS_MAX;
    return units * unit - rest % unit;
}

static size_t take_size(struct input *in, struct model *m)
{
    uint32_t how = input_byte(in);
    uint64_t n = input_byte(in), size;

    switch (how & 7) {
    case 0:
        return n * m->unit;
    case 1:
        return n * m->unit + (how >> 3);
    case 2:
        return n << (how >> 3);
    case 3:
        return (size_t)0 - n;
    case 4:
        return model_largest_segment(m) + 1 - (how >> 3 & 3);
    case 5:
        return model_largest(m) / (1 + n % 8) + (how >> 3 & 1);
    default: /* what a hole holds, and a byte or a unit more or less */
        model_look(m);
        size = m->pieces > 0 ? m->piece[n % m->pieces].bytes : 0;
        if ((how & 8) != 0)
            size += (how & 16) != 0 ? 1 : (uint64_t)m->unit;
        if ((how & 32) != 0 && size > 0)
            size -= (how & 64) != 0 || size < m->unit ? 1 : m->unit;
        return size;
    }
}

static void grow(struct twins *t, struct input *in)
{
    struct model *m = &t->m;
    uint64_t bytes = take_length(in, m->unit);
    uintptr_t base = m->segment[0].base != NULL ? (uintptr_t)model_nowhere(m->segments) : 0;

    switch (input_byte(in) & 15) {
    case 0:
        bytes = 0;
        break;
    case 1:
        bytes = UINT64_MAX - bytes;
        break;
    case 2:
        base = base == 0 ? m->unit : 0;
        break;
    case 3:
        base += m->unit / 2;
        break;
    case 4:
        bytes =
            (MODEL_UNITS_MAX - m->segment[m->segments - 1].at - m->segment[m->segments - 1].units) *
            m->unit;
        break;
    default:
        break;
    }
    if (m->segments < MODEL_SEGMENTS || !model_can_grow(m, (void *)base, bytes))
        twins_grow(t, (void *)base, bytes);
}

static void carve(struct twins *t, struct input *in)
{
    struct model *m = &t->m;
    uint32_t how = input_byte(in);
    uint64_t offset = input_byte(in);

    model_look(m);
    if (m->pieces > 0 && (how & 1) != 0)
        offset = (m->piece[offset % m->pieces].at + (how >> 2)) * m->unit;
    else
        offset *= m->unit;
    twins_carve(t, offset + (how >> 1 & 1), take_size(in, m));
}

static void shrink(struct twins *t, struct input *in)
{
    const uint32_t index = input_byte(in);
    const size_t size = take_size(in, &t->m);

    if (t->m.blocks > 0) {
        const struct model_block *b = &t->m.block[index % t->m.blocks];

        twins_shrink(t, index % t->m.blocks, size <= b->size ? size : b->size / 2);
    }
}

static void dump(const struct twins *t)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    int error;

    if (to == NULL)
        abort();
    error = heap_dump(t->h, to);
    fclose(to);
    if (error != 0 || bytes == 0)
        model_fail(&t->m, "heap_dump gave %d and %zu bytes", error, bytes);
    free(text);
}

static void operate(struct twins *t, struct input *in)
{
    uint32_t op = input_byte(in), index = op >> 3;

    switch (op & 7) {
    case 0:
    case 1: /* a few units at once, for short inputs */
        for (uint32_t i = 0; i <= (op & 7) * 7; i++)
            twins_alloc(t, (size_t)index * t->m.unit);
        break;
    case 2:
    case 3:
        twins_alloc(t, take_size(in, &t->m));
        break;
    case 4:
        index = index == 31 ? input_word(in) : index;
        if (t->m.blocks > 0)
            twins_free(t, index % t->m.blocks);
        break;
    case 5:
        if (t->m.blocks > 0)
            twins_send(t, index % t->m.blocks);
        break;
    case 6: /* every second one, or so */
        for (uint32_t i = index % 4; i < t->m.blocks; i += 1 + index / 4 % 4)
            twins_free(t, i);
        break;
    default:
        if (index < 12)
            grow(t, in);
        else if (index < 30 && t->m.algorithm == RMALLOC_FIRST_FIT)
            carve(t, in);
        else if (index == 30)
            dump(t);
        else
            shrink(t, in);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct heap_config cfg = {.seed = 1};
    struct twins t;
    uint32_t first = input_byte(&in);

    cfg.algorithm = (rmalloc_fit_t)(RMALLOC_NEXT_FIT + first % 6);
    cfg.unit_size = 1u << input_byte(&in) % 21;
    cfg.bytes = take_length(&in, cfg.unit_size);
    cfg.base = first >= 128 ? model_nowhere(0) : NULL;
    cfg.max_descriptors = input_byte(&in) & 63;
    if (cfg.max_descriptors >= 32)
        cfg.max_descriptors = 0;
    twins_open(&t, &cfg);
    twins_compare(&t);
    for (unsigned i = 0; i < 2000 && !input_is_empty(&in); i++) {
        operate(&t, &in);
        twins_compare(&t);
    }
    twins_close(&t);
    return 0;
}
