/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes become messages that are sent and freed between the two sides of lib/sync on plain memory, and words that the reader stores
 * where it may, valid or not. See README.md.
 *
 * As long as the reader stores nothing by itself every fetch succeeds and takes back all that was freed. Afterwards a fetch takes back
 * blocks that are in flight, each once, or is a violation whose value is outside the valid range or not in flight; then the writer
 * stops, as a pipe does. The heap is whole at any time.
 */
#include "../unit/reclaim_pair.h"
#include "input.h"

static uint64_t draw_number(struct input *in, uint64_t near)
{
    uint32_t how = input_byte(in);

    switch (how & 3) {
    case 0:
        return near + (how >> 2) % 8;
    case 1:
        return near - (how >> 2) % 8;
    case 2:
        return (uint64_t)input_word(in) << (how >> 2);
    default:
        return UINT64_MAX - (how >> 2);
    }
}

/* The reader stores one word of its own, or one slot into the writer's ring. */
static void store(struct pair *p, struct input *in)
{
    uint32_t at = input_byte(in) % p->queue,
             block = (uint32_t)draw_number(in, input_byte(in) % p->queue);
    uint64_t number = draw_number(in, p->w.returned + 1);

    switch (p->mode) {
    case PAIR_PREFIX:
        p->area->line.heap_freed = draw_number(in, p->w.returned);
        break;
    case PAIR_TAGS:
        p->area->tag[at] = draw_number(in, p->w.next.lap) << 32 | block;
        break;
    case PAIR_CHANNEL:
        p->ring[at].block = block;
        ring_slot_publish(&p->ring[at], number);
        break;
    default:
        p->ring[at].block = block;
        seal_slot(&p->ring[at], number);
        if ((number & 4) != 0)
            p->ring[at].block++;
    }
}

static uint32_t blocks_in_flight(const struct pair *p)
{
    const struct rdesc *d;
    uint32_t count = 0, i;

    for (d = p->w.oldest; d != NULL; d = d->link)
        count++;
    for (i = 0; p->w.table.entry != NULL && i < p->w.table.size; i++)
        count += (p->w.table.entry[i] & 1) == 0;
    return count;
}

static void check(const struct pair *p)
{
    struct error err = {""};

    REQUIRE(p->w.sent - p->w.returned == blocks_in_flight(p));
    REQUIRE(p->mode == PAIR_PREFIX || p->w.sent - p->w.returned <= p->queue);
    REQUIRE(heap_check(p->w.heap, &err) == 0);
    REQUIRE(p->w.units == 0 || p->w.sent != p->w.returned);
}

/* False: the writer has found a violation. */
static bool fetch(struct pair *p, bool all, bool honest)
{
    struct violation v = {0};
    uint64_t before = p->w.returned;
    int rc = pair_fetch(p, all, &v);

    REQUIRE(p->w.returned - before <= p->w.sent - before);
    REQUIRE(rc == 0 || (rc == -EPROTO && !honest && v.what != NULL));
    if (rc == 0 && honest && all && p->mode != PAIR_PREFIX)
        REQUIRE(p->w.sent - p->w.returned == p->in_flight &&
                !reclaim_is_full(&p->w) == (p->in_flight < p->queue));
    if (rc == 0 && honest && p->mode == PAIR_PREFIX)
        REQUIRE(p->w.returned == p->r.freed);
    if (rc != 0 && p->mode == PAIR_PREFIX)
        REQUIRE(v.value - v.least > v.most - v.least && p->w.returned == before);
    if (rc != 0 && p->mode != PAIR_PREFIX)
        REQUIRE(v.value > v.most || (p->w.table.entry[v.value] & 1) != 0);
    return rc == 0;
}

static void run(struct pair *p, struct input *in)
{
    bool honest = true, good = true;

    while (good && !input_is_empty(in)) {
        uint32_t op = input_byte(in);

        switch (op & 7) {
        case 0:
        case 1:
        case 2:
            (void)pair_send(p, 1 + (op >> 3), NULL);
            break;
        case 3:
        case 4:
            if (p->in_flight > 0)
                pair_free(p, (op >> 3) % p->in_flight);
            break;
        case 5:
            if ((op & 8) != 0)
                reclaim_set_watermark(&p->w, (op >> 4) / 15.0, PAIR_UNITS, 64);
            else
                reclaim_schedule(&p->w);
            break;
        case 6:
            store(p, in);
            honest = false;
            break;
        default:
            good = fetch(p, (op & 8) != 0, honest);
        }
        check(p);
    }
    while (good && honest && p->in_flight > 0)
        pair_free(p, p->in_flight - 1);
    if (good && honest)
        REQUIRE(fetch(p, true, true) && p->w.units == 0 && heap_bytes_used(p->w.heap) == 0);
}

/* The counts of slots and of fetched payloads: a violation exactly if the reader's count is not from the known one to the one sent. */
static void counts(struct input *in)
{
    uint64_t first = draw_number(in, 0), sent = first, fetched = first;
    struct credit_line line = {0};
    struct slot_credit c;
    struct violation v;

    credit_line_init(&line, first);
    slot_credit_init(&c, first, 1u << (1 + input_byte(in) % 16), input_byte(in) / 255.0);
    while (!input_is_empty(in)) {
        uint64_t known = slot_credit_read(&c), had = fetched;
        bool valid;

        sent += (uint64_t)input_byte(in) % (c.limit - sent + 1);
        line.slots_read = draw_number(in, known + input_byte(in));
        line.fetched = draw_number(in, fetched + input_byte(in));
        valid = line.slots_read - known <= sent - known;
        REQUIRE((slot_credit_refresh(&c, &line, sent, &v) == 0) == valid);
        REQUIRE(slot_credit_read(&c) == (valid ? line.slots_read : known));
        REQUIRE(sent - slot_credit_read(&c) <= c.slots);
        slot_credit_schedule(&c, sent);
        REQUIRE(c.watermark != 0 || c.refresh_at == 0);
        valid = line.fetched - had <= sent - had;
        REQUIRE((fetch_credit_refresh(&fetched, &line, sent, &v) == 0) == valid);
        REQUIRE(fetched == (valid ? line.fetched : had));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    uint32_t mode = input_byte(&in) % (PAIR_MODES + 1);
    uint32_t queue, lap;
    struct pair p;

    if (mode == PAIR_MODES) {
        counts(&in);
        return 0;
    }
    queue = 1 + input_byte(&in) % 32;
    lap = (uint32_t)draw_number(&in, 1);
    REQUIRE(pair_open(&p, (enum pair_mode)mode, queue, lap));
    run(&p, &in);
    pair_close(&p);
    return 0;
}
