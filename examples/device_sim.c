/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_sim.c: the simulated device of device_pool; see device_sim.h.
 *
 * A command takes effect when it completes. Commands complete in the order of their end, so that
 * what one stream does to memory that another one still uses would be found.
 */
#include "device_sim.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct device *device_open(uint64_t seed)
{
    struct device *dev = calloc(1, sizeof(*dev));

    HOLDS(dev != NULL);
    dev->random = seed * 2 + 1;
    return dev;
}

void device_close(struct device *dev)
{
    for (int i = 0; i < dev->ranges; i++) {
        munmap(dev->range[i].base, dev->range[i].bytes);
        free(dev->range[i].holds);
    }
    free(dev);
}

/* The kernel refuses to read there for us; a load of our own would be a SIGSEGV. */
static bool out_of_reach(const void *address)
{
    int ends[2];
    bool refused;

    HOLDS(pipe(ends) == 0);
    refused = write(ends[1], address, 1) == -1 && errno == EFAULT;
    close(ends[0]);
    close(ends[1]);
    return refused;
}

void *device_add_range(struct device *dev, size_t bytes)
{
    struct device_range *r = &dev->range[dev->ranges];

    HOLDS(dev->ranges < DEVICE_RANGES && bytes > 0 && bytes % DEVICE_UNIT == 0);
    r->base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    HOLDS(r->base != MAP_FAILED);
    HOLDS(out_of_reach(r->base) && out_of_reach((char *)r->base + bytes - 1));
    r->bytes = bytes;
    r->holds = calloc(bytes / DEVICE_UNIT, sizeof(*r->holds));
    HOLDS(r->holds != NULL);
    dev->ranges++;
    return r->base;
}

bool device_untouched(const struct device *dev)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bool untouched = true;

    for (int i = 0; i < dev->ranges; i++) {
        size_t pages = (dev->range[i].bytes + page - 1) / page;
        unsigned char *resident = calloc(pages, 1);

        HOLDS(resident != NULL && mincore(dev->range[i].base, dev->range[i].bytes, resident) == 0);
        for (size_t k = 0; k < pages; k++)
            untouched = untouched && (resident[k] & 1) == 0;
        free(resident);
    }
    return untouched;
}

/* ---- memory ---- */

/* The recorded contents from the first unit of a span on; the whole span is in one range. */
static uint32_t *holds_at(const struct device *dev, const struct span *s)
{
    for (int i = 0; i < dev->ranges; i++) {
        const struct device_range *r = &dev->range[i];
        uintptr_t offset = s->address - (uintptr_t)r->base;

        if (offset < r->bytes && s->bytes <= r->bytes - offset && offset % DEVICE_UNIT == 0)
            return r->holds + offset / DEVICE_UNIT;
    }
    fprintf(stderr, "device: fault: %zu bytes at %#lx\n", s->bytes, (unsigned long)s->address);
    exit(1);
}

static size_t units(const struct span *s) { return (s->bytes + DEVICE_UNIT - 1) / DEVICE_UNIT; }

static void expect(const struct device *dev, const struct span *s)
{
    const uint32_t *holds = holds_at(dev, s);

    for (size_t i = 0; i < units(s); i++) {
        if (holds[i] == s->id)
            continue;
        fprintf(stderr,
                "device: buffer %u holds what belongs to buffer %u, %zu bytes from its beginning\n",
                s->id, holds[i], i * DEVICE_UNIT);
        exit(1);
    }
}

static void fill(const struct device *dev, const struct span *s)
{
    uint32_t *holds = holds_at(dev, s);

    for (size_t i = 0; i < units(s); i++)
        holds[i] = s->id;
}

/* ---- commands ---- */

static struct command *head_of(struct stream *s)
{
    return s->head == s->tail ? NULL : &s->queue[s->head % DEVICE_QUEUE];
}

bool device_submit(struct device *dev, int stream, const struct command *command)
{
    struct stream *s = &dev->stream[stream];
    struct command *c = &s->queue[s->tail % DEVICE_QUEUE];
    size_t bytes = command->kind == COPY_OUT ? command->from.bytes : command->to.bytes;
    uint64_t begin = dev->now > s->busy_until ? dev->now : s->busy_until;

    if (s->tail - s->head == DEVICE_QUEUE)
        return false;
    *c = *command;
    c->number = dev->commands++;
    /* 5 us, and 2 to 16 GB/s at random: the order of completion between streams is random */
    c->end = begin + 5000 + bytes * (1 + random_below(&dev->random, 8)) / 16;
    s->busy_until = c->end;
    s->tail++;
    return true;
}

bool device_step(struct device *dev)
{
    struct stream *next = NULL;
    struct command c;

    for (struct stream *s = dev->stream; s < dev->stream + DEVICE_STREAMS; s++)
        if (head_of(s) != NULL && (next == NULL || head_of(s)->end < head_of(next)->end))
            next = s;
    if (next == NULL)
        return false;
    c = *head_of(next);
    next->head++;
    dev->now = c.end;
    if (c.kind != COPY_IN)
        expect(dev, &c.from);
    if (c.kind != COPY_OUT)
        fill(dev, &c.to);
    if (c.done != NULL)
        c.done(c.arg);
    return true;
}

bool device_wait_oldest(struct device *dev)
{
    struct stream *oldest = NULL;
    unsigned last;

    for (struct stream *s = dev->stream; s < dev->stream + DEVICE_STREAMS; s++)
        if (head_of(s) != NULL && (oldest == NULL || head_of(s)->number < head_of(oldest)->number))
            oldest = s;
    if (oldest == NULL)
        return false;
    last = oldest->head;
    while (oldest->head == last)
        device_step(dev);
    return true;
}
