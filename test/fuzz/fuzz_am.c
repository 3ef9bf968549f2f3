/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_am.c: what a peer may write into a message of the active messages: header and size, and the greeting.
 *
 * The first byte says which. What is understood must be what wire_header() writes for it, and lie within the message; a
 * greeting agrees only if it is, byte for byte, one's own; and every refusal is a sentence that is ended and printable.
 */
#include "input.h"

#include "am/wire.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

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
    EXPECT(w.nargs <= WIRE_ARGS_MAX && w.handler <= WIRE_RESULT && w.acks <= 255);
    EXPECT(w.kind > 0 && w.kind < WIRE_KINDS_END);
    EXPECT(w.bytes <= size && wire_size(w.bytes, w.nargs) == size);
    /* bits 20 to 23 are of no meaning, and 0: nargs has 8 bits, and is at most 8 */
    EXPECT(wire_header(w.kind, w.bytes, w.handler, w.nargs, w.acks, w.token) == h);
}

static void greeting(struct input *in)
{
    const uint32_t nhandlers = input_byte(in) % 5;
    const size_t bytes = (size_t)(in->end - in->at), own_bytes = wire_hello_bytes(nhandlers);
    struct wire_hello *own = calloc(1, own_bytes);
    void *theirs = malloc(bytes + (bytes == 0)); /* exactly: a sanitizer sees who reads beyond */
    char why[200];
    bool agrees;

    EXPECT(own != NULL && theirs != NULL);
    own->magic = WIRE_MAGIC;
    own->version = WIRE_VERSION;
    own->credits = 32;
    own->nhandlers = nhandlers;
    own->request_bytes = 1 << 18;
    own->reply_bytes = 4096;
    for (uint32_t i = 0; i < nhandlers; i++)
        snprintf(own->name[i], WIRE_NAME_BYTES, "handler %u", i);
    memcpy(theirs, in->at, bytes);
    memset(why, 0, sizeof(why));
    agrees = wire_hello_agrees(own, theirs, bytes, 3, why, sizeof(why));
    EXPECT(agrees == (bytes == own_bytes && memcmp(own, theirs, bytes) == 0));
    if (!agrees) {
        EXPECT(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
        for (const char *c = why; *c != '\0'; c++)
            EXPECT(isprint((unsigned char)*c));
    }
    EXPECT(wire_hello_agrees(own, own, own_bytes, 3, why, sizeof(why)));
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
