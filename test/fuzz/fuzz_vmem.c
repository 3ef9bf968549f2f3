/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes become calls of the public interface, rvmem_create(3) and what goes with it, right and wrong ones, on two
 * instances. The oracle is the manual: the model of heap_model.h for what may be given, and for misuse what each page
 * requires. Where memory is mapped, every block holds a pattern that it must still hold when it is given back.
 *
 * With RMALLOC_DEBUG=1 in the environment pointers that are no descriptors are given as well: only then are they detected.
 */
#include "../unit/heap_model.h"
#include "input.h"
#include <rvmem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INSTANCES 2
#define STALES 8
#define BUFFER_MAX 65536 /* what is longer is not mapped */

struct instance {
    rvmem_t vmem; /* NULL: there is none */
    struct model m;
    char *buffer[MODEL_SEGMENTS];
    raddr_t stale[STALES]; /* given back, and stale for ever */
    unsigned stales;
};

static struct instance instances[INSTANCES];

#define MODEL_CHECK(i, condition)                                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            model_fail(&(i)->m, "line %d: not so: %s", __LINE__, #condition);                      \
    } while (0)

static bool debugging(void)
{
    const char *value = getenv("RMALLOC_DEBUG");

    return value != NULL && strcmp(value, "1") == 0;
}

/* ---- making and ending instances ---- */

static char *buffer_of(uint32_t unit, uint64_t bytes)
{
    void *buffer;

    if (posix_memalign(&buffer, unit < sizeof(void *) ? sizeof(void *) : unit, bytes) != 0)
        abort();
    return buffer;
}

/* What 0 stands for, as the manual has it. */
static void resolve(rvmem_config_t *cfg)
{
    cfg->unit_bytes = cfg->unit_bytes != 0 ? cfg->unit_bytes : 64;
    cfg->bytes = cfg->bytes != 0 ? cfg->bytes : (uint64_t)1 << 20;
    cfg->heuristic = cfg->heuristic != RMALLOC_FIT_DEFAULT ? cfg->heuristic : RMALLOC_NEXT_FIT;
}

static bool is_valid(const rvmem_config_t *given, const void *buffer)
{
    rvmem_config_t cfg = *given;
    uint32_t unit;
    uint64_t bytes;

    resolve(&cfg);
    unit = cfg.unit_bytes;
    bytes = cfg.bytes;
    return cfg.zero == 0 && unit <= 1u << 20 && (unit & (unit - 1)) == 0 &&
           bytes <= MODEL_UNITS_MAX * unit && (unsigned)cfg.heuristic <= RMALLOC_SEGREGATED_FIT &&
           (uintptr_t)buffer % unit == 0 && (uintptr_t)buffer <= UINTPTR_MAX - bytes;
}

static void spoil(rvmem_config_t *cfg, uintptr_t *buffer, struct input *in)
{
    uint32_t how = input_byte(in);

    switch (how & 7) {
    case 0:
        cfg->zero = how >> 3;
        break;
    case 1:
        cfg->unit_bytes = 3 + (how >> 3) * 3;
        break;
    case 2:
        cfg->unit_bytes <<= how >> 3;
        break;
    case 3:
        cfg->bytes = (uint64_t)0 - 1 - (how >> 3);
        break;
    case 4:
        cfg->heuristic = (rmalloc_fit_t)((int)(how >> 3) - 2);
        break;
    case 5:
        *buffer += how >> 3;
        break;
    case 6:
        *buffer = (uintptr_t)0 - (uintptr_t)(how >> 3) * cfg->unit_bytes;
        break;
    default: /* any number */
        cfg->seed = how;
        break;
    }
}

static void create(struct instance *i, struct input *in)
{
    rvmem_config_t cfg = {0};
    struct heap_config geometry;
    uint32_t first = input_byte(in), length = input_word(in);
    char *buffer = NULL;
    uintptr_t given = 0;

    cfg.heuristic = (rmalloc_fit_t)(RMALLOC_NEXT_FIT + first % 6);
    cfg.unit_bytes = 1u << (first >> 5 << 1);
    cfg.bytes = 1 + (length & 0x3fff);
    cfg.seed = length;
    if ((length & 0x4000) != 0)
        cfg.max_blocks = 1 + (length & 15);
    if ((length & 0x8000) != 0 && cfg.bytes <= BUFFER_MAX)
        buffer = buffer_of(cfg.unit_bytes, cfg.bytes);
    given = (uintptr_t)buffer;
    if ((first & 16) != 0)
        spoil(&cfg, &given, in);
    cfg.buffer = (void *)given;
    if (!is_valid(&cfg, (void *)given)) {
        MODEL_CHECK(i, rvmem_create(&i->vmem, &cfg) == -EINVAL);
        free(buffer);
        return;
    }
    if (given != (uintptr_t)buffer || cfg.bytes > BUFFER_MAX) { /* valid, and nothing to write to */
        free(buffer);
        buffer = NULL;
    }
    cfg.buffer = buffer;
    MODEL_CHECK(i, rvmem_create(&i->vmem, &cfg) == R_SUCCESS);
    resolve(&cfg);
    geometry = (struct heap_config){.algorithm = cfg.heuristic,
                                    .unit_size = cfg.unit_bytes,
                                    .bytes = cfg.bytes,
                                    .base = buffer,
                                    .max_descriptors = cfg.max_blocks};
    memset(&cfg, 0xee, sizeof(cfg)); /* it is copied */
    model_open(&i->m, &geometry);
    i->buffer[0] = buffer;
    i->stales = 0;
}

static void destroy(struct instance *i)
{
    MODEL_CHECK(i, rvmem_destroy(i->vmem) == 0);
    model_close(&i->m);
    for (unsigned s = 0; s < MODEL_SEGMENTS; s++)
        free(i->buffer[s]);
    memset(i, 0, sizeof(*i));
}

static void grow(struct instance *i, struct input *in)
{
    struct model *m = &i->m;
    uint32_t how = input_byte(in);
    uint64_t bytes = 1 + input_word(in);
    char *buffer = m->segment[0].base != NULL ? buffer_of(m->unit, bytes) : NULL;
    uintptr_t given = (uintptr_t)buffer;
    int expected;

    if (how < 16)
        given = given == 0 ? (uintptr_t)i : 0;
    else if (how < 32)
        given += how - 16;
    else if (how < 48)
        bytes = (uint64_t)0 - (how - 32);
    expected = model_can_grow(m, (void *)given, bytes) ? 0 : -EINVAL;
    if (m->segments < MODEL_SEGMENTS && expected == 0 && given == (uintptr_t)buffer) {
        MODEL_CHECK(i, rvmem_grow(i->vmem, buffer, bytes) == 0);
        i->buffer[m->segments] = buffer;
        model_grow(m, buffer, bytes);
        return;
    }
    if (expected != 0)
        MODEL_CHECK(i, rvmem_grow(i->vmem, (void *)given, bytes) == expected);
    free(buffer);
}

/* ---- blocks ---- */

static void fill(unsigned char *bytes, const struct model_block *b)
{
    for (size_t k = 0; k < b->size; k++)
        bytes[k] = (unsigned char)(b->age * 31 + k);
}

static void compare_memory(struct instance *i, const struct model_block *b)
{
    static unsigned char pattern[BUFFER_MAX + 1];

    MODEL_CHECK(i, rvmem_offset(i->vmem, b->d) == b->at * i->m.unit);
    errno = 0;
    MODEL_CHECK(i, rvmem_size(i->vmem, b->d) == b->size && errno == 0);
    if (i->m.segment[0].base == NULL) {
        MODEL_CHECK(i, rvmem_mem(i->vmem, b->d) == NULL && errno == ENOTSUP);
        return;
    }
    MODEL_CHECK(i, rvmem_mem(i->vmem, b->d) == model_memory(&i->m, b));
    fill(pattern, b);
    MODEL_CHECK(i, memcmp(model_memory(&i->m, b), pattern, b->size) == 0);
}

static void alloc(struct instance *i, size_t size)
{
    static unsigned char pattern[BUFFER_MAX + 1];
    struct model *m = &i->m;
    const struct model_block *b;
    bool either;
    int error = model_error(m, size, &either);
    unsigned k = 0, index;
    uint64_t at;
    raddr_t d;

    if (error == -EAGAIN)
        error = -ENOMEM; /* a stand-alone instance cannot wait for a reader */
    errno = 0;
    d = rvmem_alloc(i->vmem, size);
    if (d == ADDR_NULL) {
        MODEL_CHECK(i, errno == -error || (either && errno == ENOBUFS) ||
                           (errno == ENOMEM && model_may_refuse(m, size)));
        m->failures++;
        return;
    }
    MODEL_CHECK(i, error == 0);
    at = rvmem_offset(i->vmem, d) / m->unit;
    while (k < m->candidates && !model_is_in(m, at, size, &m->piece[m->candidate[k]]))
        k++;
    MODEL_CHECK(i, k < m->candidates && rvmem_offset(i->vmem, d) % m->unit == 0);
    index = model_add(m, d, size, at);
    b = &m->block[index];
    if (m->segment[0].base == NULL) {
        MODEL_CHECK(i, rvmem_mem(i->vmem, d) == NULL && errno == ENOTSUP);
    } else {
        fill(pattern, b);
        memcpy(rvmem_mem(i->vmem, d), pattern, size);
    }
}

static void give_back(struct instance *i, unsigned index)
{
    raddr_t d = i->m.block[index].d;

    compare_memory(i, &i->m.block[index]);
    model_remove(&i->m, index);
    MODEL_CHECK(i, rvmem_free(i->vmem, d) == 0);
    i->stale[i->stales++ % STALES] = d;
}

/* `d` is no block that the user of `v` has: every call reports that, and does nothing. */
static void misuse(struct instance *i, rvmem_t v, raddr_t d)
{
    MODEL_CHECK(i, rvmem_free(v, d) == -EINVAL);
    errno = 0;
    MODEL_CHECK(i, rvmem_mem(v, d) == NULL && errno == EINVAL);
    errno = 0;
    MODEL_CHECK(i, rvmem_offset(v, d) == UINT64_MAX && errno == EINVAL);
    errno = 0;
    MODEL_CHECK(i, rvmem_size(v, d) == 0 && errno == EINVAL);
}

static void misuse_somehow(struct instance *i, struct input *in)
{
    struct instance *other = i == instances ? i + 1 : i - 1;
    const unsigned stales = i->stales < STALES ? i->stales : STALES;
    uint32_t how = input_byte(in), n = how >> 3;
    static char invalid[256];

    switch (how & 7) {
    case 0:
        misuse(i, i->vmem, ADDR_NULL);
        break;
    case 1:
    case 2:
        if (stales > 0)
            misuse(i, i->vmem, i->stale[n % stales]);
        break;
    case 3:
        if (other->vmem != NULL && other->m.blocks > 0)
            misuse(i, i->vmem, other->m.block[n % other->m.blocks].d);
        break;
    case 4:
        if (i->m.blocks > 0)
            misuse(i, NULL, i->m.block[n % i->m.blocks].d);
        break;
    case 5:
        if (debugging())
            misuse(i, i->vmem, (raddr_t)(void *)(invalid + n));
        break;
    case 6:
        if (debugging())
            misuse(i, i->vmem, (raddr_t)(uintptr_t)(n + 1));
        break;
    default:
        if (debugging() && i->m.blocks > 0)
            misuse(i, i->vmem, (raddr_t)(void *)((char *)i->m.block[0].d + 1 + n));
        break;
    }
}

static void call_wrongly(struct instance *i)
{
    rvmem_stats_t stats;
    struct model_walk walk;

    MODEL_CHECK(i, rvmem_create(NULL, NULL) == -EINVAL);
    MODEL_CHECK(i, rvmem_destroy(NULL) == -EINVAL);
    MODEL_CHECK(i, rvmem_alloc(NULL, 1) == ADDR_NULL && errno == EINVAL);
    MODEL_CHECK(i, rvmem_stats(NULL, &stats) == -EINVAL && rvmem_stats(i->vmem, NULL) == -EINVAL);
    MODEL_CHECK(i, rvmem_check(NULL) == -EINVAL);
    MODEL_CHECK(i, rvmem_grow(NULL, NULL, 1) == -EINVAL);
    MODEL_CHECK(i, rvmem_walk(NULL, model_visit, &walk) == -EINVAL &&
                       rvmem_walk(i->vmem, NULL, NULL) == -EINVAL);
    MODEL_CHECK(i, rvmem_dump(NULL, stderr) == -EINVAL && rvmem_dump(i->vmem, NULL) == -EINVAL);
}

static void dump(struct instance *i)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    if (to == NULL)
        abort();
    MODEL_CHECK(i, rvmem_dump(i->vmem, to) == 0);
    fclose(to);
    MODEL_CHECK(i, bytes > 0);
    free(text);
}

static void compare(struct instance *i)
{
    rvmem_stats_t stats;
    struct model_walk walk;

    MODEL_CHECK(i, rvmem_check(i->vmem) == 0);
    MODEL_CHECK(i, rvmem_stats(i->vmem, &stats) == 0);
    model_compare_stats(&i->m, &stats);
    model_walk_begin(&walk, &i->m, 0);
    model_walk_end(&walk, rvmem_walk(i->vmem, model_visit, &walk));
}

static size_t take_size(struct instance *i, uint32_t how, struct input *in)
{
    switch (how & 3) {
    case 0:
        return (size_t)input_byte(in) * i->m.unit;
    case 1:
        return input_word(in);
    case 2:
        return model_largest(&i->m) + (how >> 2) % 3 - (model_largest(&i->m) > 0);
    default:
        return how > 27 ? (size_t)0 - how : how;
    }
}

static void operate(struct input *in)
{
    uint32_t op = input_byte(in), index = op >> 3;
    struct instance *i = &instances[(op & 7) >= 6];

    if (i->vmem == NULL) {
        create(i, in);
        return;
    }
    switch (op & 7) {
    case 0:
    case 1:
    case 6:
        alloc(i, take_size(i, index, in));
        break;
    case 2:
    case 3:
    case 7:
        if (i->m.blocks > 0)
            give_back(i, index % i->m.blocks);
        break;
    case 4:
        misuse_somehow(i, in);
        break;
    default:
        if (index < 8)
            grow(i, in);
        else if (index < 12)
            call_wrongly(i);
        else if (index < 16)
            dump(i);
        else if (index < 20)
            destroy(instances[index % 2].vmem != NULL ? &instances[index % 2] : i);
        else
            for (unsigned k = index % 2; k < i->m.blocks; k++)
                give_back(i, k);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};

    for (unsigned n = 0; n < 1000 && !input_is_empty(&in); n++) {
        operate(&in);
        for (unsigned i = 0; i < INSTANCES; i++)
            if (instances[i].vmem != NULL)
                compare(&instances[i]);
    }
    for (unsigned i = 0; i < INSTANCES; i++)
        if (instances[i].vmem != NULL)
            destroy(&instances[i]);
    return 0;
}
