/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_am.c: what a peer may write into a message of the active messages: header and size, and the greeting.
 *
 * The first byte selects one. What is accepted must be what wire_header() writes for it, and be within the message; a greeting
 * that agrees has the own handlers, each once; and every refusal has a printable message.
 */
#include "input.h"

#include "am/wire.h"

#include <ctype.h>

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
    const size_t size = (input_byte(in) & 1) != 0 ? input_long(in) : input_word(in);
    struct wire w;

    memset(&w, 0xee, sizeof(w));
    if (!wire_parse(h, size, &w))
        return;
    REQUIRE(w.nargs <= WIRE_ARGS_MAX && w.handler <= WIRE_RESULT && w.acks <= 255);
    REQUIRE(w.kind > 0 && w.kind < WIRE_KINDS_END);
    REQUIRE(w.bytes <= size && wire_size(w.bytes, w.nargs) == size);
    /* bits 20 to 23 are of no meaning, and 0: nargs has 8 bits, and is at most 8 */
    REQUIRE(wire_header(w.kind, w.bytes, w.handler, w.nargs, w.acks, w.token) == h);
}

/* Handlers are matched one to one, by names that are equal. */
static void check_numbers(struct wire_hello *own, const char *names,
                          const struct wire_numbers *numbers)
{
    for (uint32_t i = 0; i < own->nhandlers; i++) {
        const uint32_t here = numbers->here[i];

        REQUIRE(here < own->nhandlers && numbers->there[here] == i);
        REQUIRE(memcmp(names + (size_t)i * WIRE_NAME_BYTES, wire_hello_name(own, here),
                       WIRE_NAME_BYTES) == 0);
    }
}

static void greeting(struct input *in)
{
    const uint32_t nhandlers = input_byte(in) % 5;
    const size_t bytes = (size_t)(in->end - in->at), own_bytes = wire_hello_bytes(nhandlers);
    struct wire_hello *own = calloc(1, own_bytes);
    void *theirs = malloc(bytes + (bytes == 0)); /* exactly: a sanitizer finds a read beyond it */
    struct wire_numbers numbers;
    struct error err = {""};

    REQUIRE(own != NULL && theirs != NULL);
    wire_hello_init(own, 32, 1 << 18, 4096, nhandlers);
    for (uint32_t i = 0; i < nhandlers; i++)
        snprintf(wire_hello_name(own, i), WIRE_NAME_BYTES, "handler %u", i);
    memcpy(theirs, in->at, bytes);
    if (wire_hello_match(own, theirs, bytes, 3, &numbers, &err) == 0) {
        uint32_t length;

        memcpy(&length, theirs, sizeof(length));
        REQUIRE(length + (size_t)nhandlers * WIRE_NAME_BYTES == bytes);
        check_numbers(own, (const char *)theirs + length, &numbers);
    } else {
        REQUIRE(err.text[0] != '\0' && memchr(err.text, '\0', sizeof(err.text)) != NULL);
        for (const char *c = err.text; *c != '\0'; c++)
            REQUIRE(isprint((unsigned char)*c));
    }
    REQUIRE(wire_hello_match(own, own, own_bytes, 3, &numbers, &err) == 0);
    check_numbers(own, wire_hello_name(own, 0), &numbers);
    free(theirs);
    free(own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};

    if ((input_byte(&in) & 1) == 0)
        header(&in);
    else
        greeting(&in);
    return 0;
}
