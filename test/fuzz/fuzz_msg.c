/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_msg.c: what a peer may write into a message of the messages by tag: header, size and fields, the greeting, and RTRs.
 *
 * The first byte selects one. What is accepted must be what msg_wire_header() writes for it; fields that are accepted are those that
 * came, and zeros; a greeting that is accepted has a share and parts that the sender can use, and every refusal has a message. RTRs
 * of any content leave the places of a sender valid: no more are stored than fit, and each can be taken once.
 */
#include "input.h"

#include "msg/places.h"
#include "msg/wire.h"

static uint64_t input_long(struct input *in)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v |= (uint64_t)input_byte(in) << (8 * i);
    return v;
}

static void header(struct input *in)
{
    const uint64_t h = input_long(in);
    unsigned char mem[64];
    struct msg_wire_fields f;
    struct msg_wire w;
    size_t bytes;

    memset(&w, 0xee, sizeof(w));
    if (!msg_wire_parse(h, input_byte(in) % sizeof(mem), &w))
        return;
    REQUIRE(msg_wire_header(w.kind, w.space, w.word) == h);
    for (size_t i = 0; i < sizeof(mem); i++)
        mem[i] = (unsigned char)input_byte(in);
    if (!msg_wire_fields(&w, mem, &f))
        return;
    bytes = msg_wire_fields_bytes(w.kind);
    REQUIRE(bytes == w.bytes && memcmp(&f, mem, bytes) == 0);
    for (size_t i = bytes; i < sizeof(f); i++)
        REQUIRE(((const unsigned char *)&f)[i] == 0);
}

static void greeting(struct input *in)
{
    struct msg_wire_hello own, theirs;
    struct error err = {""};
    unsigned char mem[96];
    size_t bytes = input_byte(in) % sizeof(mem);
    int rc;

    msg_wire_hello_init(&own, 1000, 4096);
    memcpy(mem, &own, sizeof(own)); /* nearly right */
    for (size_t i = 0; i < sizeof(mem) && !input_is_empty(in); i++)
        mem[i] ^= (unsigned char)input_byte(in);
    rc = msg_wire_hello_match(&own, mem, bytes, 3, &theirs, &err);
    REQUIRE(rc == 0 || (rc == -EPROTO && err.text[0] != '\0'));
    REQUIRE(rc != 0 || (bytes >= 32 && theirs.share >= MSG_WIRE_SHARE_LEAST &&
                        theirs.part_bytes >= MSG_WIRE_SLOT_BYTES));
}

static void rtrs(struct input *in)
{
    static struct places p;
    struct places_rtr rtr;
    uint32_t offered = 0, taken = 0;

    places_init(&p);
    while (!input_is_empty(in)) {
        uint32_t what = input_byte(in), tag = input_byte(in) % 4;

        if (what % 4 == 0) {
            taken += places_take(&p, 0, tag, &rtr);
            places_sent(&p, 0, tag, 0);
        } else if (what % 4 == 1) {
            places_undo(&p, 0, tag, input_byte(in));
        } else {
            uint32_t skip = input_byte(in);

            rtr = (struct places_rtr){skip, input_byte(in), 1, 0, 0};
            (void)places_rtr(&p, 0, tag, input_byte(in), what % 4 == 2 ? skip : UINT32_MAX - skip,
                             &rtr, &offered);
        }
        REQUIRE(p.stored <= PLACES_STORED && offered == 0);
    }
    for (uint32_t tag = 0; tag < 4; tag++)
        places_undo(&p, 0, tag, 0);
    REQUIRE(taken <= p.sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};

    switch (input_byte(&in) % 3) {
    case 0:
        header(&in);
        break;
    case 1:
        greeting(&in);
        break;
    default:
        rtrs(&in);
    }
    return 0;
}
