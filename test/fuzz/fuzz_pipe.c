/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_pipe.c: an end of a pipe over memory that the fuzzer fills: slots, control line, credits, tags, reverse ring.
 *
 * The first byte selects the kind of pipe, the next ones what happens: words and whole slots are stored where one side could, and calls are
 * made at both ends between them. What comes out must be what a call may give, and each byte of a message must be there.
 */
#include "victim.h"

#include "control/control.h"

static void store_slot(struct victim *v, struct input *in)
{
    static const uint8_t kinds[] = {SLOT_INLINE, SLOT_HEAP, SLOT_HEAP, SLOT_FREED};
    uint32_t how = input_byte(in);
    uint64_t number = v->r->r.nread + 1 + (how >> 2 & 3);
    struct slot *s = end_slot(v->r, number - 1);

    s->kind = (how & 128) != 0 ? (uint8_t)input_byte(in) : kinds[how & 3];
    s->bytes = (uint8_t)input_byte(in);
    s->block = (uint32_t)input_number(in);
    s->heap.offset = input_number(in);
    s->heap.size = input_number(in);
    ring_slot_publish(s, (how & 64) != 0 ? input_number(in) : number);
}

static void store_word(struct victim *v, struct input *in)
{
    uint32_t at = input_byte(in);

    __atomic_store_n((uint64_t *)(void *)v->r->ring + at % (8 * (1 + VICTIM_SLOTS)),
                     input_number(in), __ATOMIC_RELAXED);
}

static void store_credit(struct victim *v, struct input *in)
{
    uint32_t how = input_byte(in);

    if ((how & 1) != 0)
        atomic_store(&v->r->credit->line.slots_read,
                     (how & 2) != 0 ? input_number(in) : v->w->w.sent);
    else
        atomic_store(&v->r->credit->line.heap_freed,
                     (how & 2) != 0 ? input_number(in) : v->w->w.blocks.sent);
}

static void store_block(struct victim *v, struct input *in)
{
    uint32_t how = input_byte(in), queue = v->r->cfg.sync_queue,
             at = (how >> 2) % (queue != 0 ? queue : 1);
    uint64_t lap = 1 + (how & 1);

    if (v->r->r.blocks.reverse != NULL) {
        v->r->r.blocks.reverse[at].block = (uint32_t)input_number(in);
        ring_slot_publish(&v->r->r.blocks.reverse[at],
                          (how & 2) != 0 ? input_number(in) : v->w->w.blocks.returned + lap);
    } else if (v->r->r.sync == RPIPE_SYNC_TAGS) {
        atomic_store(&v->r->credit->tag[at],
                     (how & 2) != 0 ? input_number(in) : lap << 32 | (uint32_t)input_number(in));
    }
}

static void step(struct victim *v, struct input *in)
{
    uint32_t what = input_byte(in);

    switch (what & 7) {
    case 0:
        store_slot(v, in);
        break;
    case 1:
        store_word(v, in);
        break;
    case 2:
        store_credit(v, in);
        break;
    case 3:
        store_block(v, in);
        break;
    case 4:
    case 5:
        victim_write(v, (what >> 3) % 4 == 0 ? input_word(in) : (size_t)(what >> 3) * 8);
        break;
    case 6:
        victim_read(v);
        break;
    default:
        victim_give_back(v, what >> 3);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    static uint32_t ctx;
    struct victim v;
    uint32_t how;

    victim_start();
    how = input_byte(&in);
    victim_open(&v, (input_byte(&in) & 1) != 0 ? RPIPE_PUT : RPIPE_GET, how, ctx++ % 64);
    for (unsigned n = 0; n < 300 && !input_is_empty(&in); n++)
        step(&v, &in);
    victim_close(&v);
    REQUIRE(control_flush(0, deadline_in_ms(20000)) == 0);
    return 0;
}
