/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap_dump.c: prints a heap for people: statistics, a map, every block. Uses only the statistics
 * and the walk.
 */
#include "alloc/heap.h"

#include "alloc/fit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#define MAP_COLUMNS 64
#define MAP_LINES 16

struct print {
    FILE *to;
    int error; /* the first one; nothing is printed after it */
};

static void heap_dump_print(struct print *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void heap_dump_print(struct print *p, const char *format, ...)
{
    va_list args;

    if (p->error != 0)
        return;
    va_start(args, format);
    errno = EIO; /* unless the stream sets another */
    if (vfprintf(p->to, format, args) < 0)
        p->error = -errno;
    va_end(args);
}

/* A map consists of cells of equal length, in whole units, except for the last. */
struct map {
    uint64_t cell; /* bytes */
    uint64_t used[MAP_COLUMNS * MAP_LINES];
    uint64_t stuck[MAP_COLUMNS * MAP_LINES];
    uint64_t last; /* number of the last cell */
};

/* Adds what the block covers of each cell. */
static int heap_dump_fill(const rvmem_block_t *b, void *arg)
{
    const uint64_t end = b->offset + b->bytes;
    struct map *map = arg;

    for (uint64_t at = b->offset; at < end;) {
        const uint64_t cell = at / map->cell, cell_end = (cell + 1) * map->cell,
                       next = end < cell_end ? end : cell_end;

        if (b->state == RVMEM_USED)
            map->used[cell] += next - at;
        else if (b->state == RVMEM_STUCK)
            map->stuck[cell] += next - at;
        at = next;
    }
    if (end > b->offset)
        map->last = (end - 1) / map->cell;
    return 0;
}

static char heap_dump_letter(const struct map *map, uint64_t cell)
{
    if (map->used[cell] == 0)
        return map->stuck[cell] == 0 ? '.' : '-';
    return map->used[cell] * 10 >= map->cell * 9 ? '#'
           : map->used[cell] * 2 >= map->cell    ? '+'
                                                 : ':';
}

static void heap_dump_map(const struct heap *h, struct print *p)
{
    struct map map = {.cell = UINT64_C(1) << h->shift};

    while ((h->newest->end - 1) / map.cell >= MAP_COLUMNS * MAP_LINES)
        map.cell *= 2;
    heap_walk(h, heap_dump_fill, &map);
    heap_dump_print(
        p, "map, %" PRIu64 " bytes a letter: # used, + half used, : partly used, - stuck, . free\n",
        map.cell);
    for (uint64_t cell = 0; cell <= map.last; cell++) {
        if (cell % MAP_COLUMNS == 0)
            heap_dump_print(p, "%16" PRIu64 " ", cell * map.cell);
        heap_dump_print(p, "%c", heap_dump_letter(&map, cell));
        if (cell % MAP_COLUMNS == MAP_COLUMNS - 1 || cell == map.last)
            heap_dump_print(p, "\n");
    }
}

static int heap_dump_block(const rvmem_block_t *b, void *arg)
{
    static const char *const states[] = {
        [RVMEM_FREE] = "free", [RVMEM_USED] = "used", [RVMEM_STUCK] = "stuck"};
    struct print *p = arg;

    heap_dump_print(p, "%7u %16" PRIu64 " %16" PRIu64 " %-5s", b->segment, b->offset, b->bytes,
                    states[b->state]);
    if (b->state == RVMEM_USED)
        heap_dump_print(p, " %16" PRIu64 " %p", b->size, (void *)b->d);
    heap_dump_print(p, "\n");
    return p->error;
}

int heap_dump(const struct heap *h, FILE *to)
{
    struct print p = {.to = to};
    rvmem_stats_t s;

    heap_get_stats(h, &s);
    heap_dump_print(&p, "%s: %" PRIu64 " bytes in units of %" PRIu64 ", segments: %" PRIu64 "\n",
                    h->ops->name, s.bytes, h->round_up + 1, s.segments);
    heap_dump_print(&p,
                    "bytes: %" PRIu64 " used, %" PRIu64 " free, %" PRIu64 " stuck; largest %" PRIu64
                    ", peak %" PRIu64 "\n",
                    s.bytes_used, s.bytes_free, s.bytes_stuck, s.largest, s.peak);
    heap_dump_print(
        &p, "blocks: %" PRIu64 " used, %" PRIu64 " not; descriptors and index: %" PRIu64 " bytes\n",
        s.blocks_used, s.blocks_free, s.metadata);
    heap_dump_print(&p, "calls: %" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64 " failures\n",
                    s.allocs, s.frees, s.failures);
    heap_dump_map(h, &p);
    heap_dump_print(&p, "%7s %16s %16s %-5s %16s %s\n", "segment", "offset", "bytes", "state",
                    "size", "descriptor");
    heap_walk(h, heap_dump_block, &p);
    return p.error;
}
