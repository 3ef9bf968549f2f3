/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.c: see wire.h: the greeting. */
#include "am/wire.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool wire_differs(const char *what, uint64_t here, uint64_t there, int peer, char *why,
                         size_t why_bytes)
{
    if (here == there)
        return false;
    snprintf(why, why_bytes, "%s is %llu here and %llu at rank %d: all ranks must give the same",
             what, (unsigned long long)here, (unsigned long long)there, peer);
    return true;
}

void wire_make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if (!isprint((unsigned char)*text))
            *text = '?';
}

bool wire_hello_agrees(const struct wire_hello *own, const void *theirs, size_t bytes, int peer,
                       char *why, size_t why_bytes)
{
    struct wire_hello h;

    if (bytes < sizeof(h)) {
        snprintf(why, why_bytes, "rank %d greets with %zu bytes, which is too short", peer, bytes);
        return false;
    }
    memcpy(&h, theirs, sizeof(h)); /* once: it lies in memory that the peer writes to */
    if (wire_differs("the magic number of active messages", own->magic, h.magic, peer, why,
                     why_bytes) ||
        wire_differs("the version of active messages", own->version, h.version, peer, why,
                     why_bytes) ||
        wire_differs("credits", own->credits, h.credits, peer, why, why_bytes) ||
        wire_differs("request_bytes", own->request_bytes, h.request_bytes, peer, why, why_bytes) ||
        wire_differs("reply_bytes", own->reply_bytes, h.reply_bytes, peer, why, why_bytes) ||
        wire_differs("the number of handlers", own->nhandlers, h.nhandlers, peer, why, why_bytes) ||
        wire_differs("the length of the greeting", wire_hello_bytes(own->nhandlers), bytes, peer,
                     why, why_bytes))
        return false;
    for (uint32_t i = 0; i < own->nhandlers; i++) {
        char name[WIRE_NAME_BYTES];

        memcpy(name, (const char *)theirs + wire_hello_bytes(i), sizeof(name));
        if (memcmp(name, own->name[i], sizeof(name)) == 0)
            continue;
        name[WIRE_NAME_BYTES - 1] = '\0';
        wire_make_printable(name);
        snprintf(why, why_bytes,
                 "handler %u is \"%.31s\" here and \"%s\" at rank %d: all ranks must give the same "
                 "handlers in the same "
                 "order",
                 i, own->name[i], name, peer);
        return false;
    }
    return true;
}
