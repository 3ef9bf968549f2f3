/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.c: see wire.h: the greeting. */
#include "am/wire.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

void wire_make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if (!isprint((unsigned char)*text))
            *text = '?';
}

void wire_hello_init(struct wire_hello *hello, uint32_t credits, uint64_t request_bytes,
                     uint64_t reply_bytes, uint32_t nhandlers)
{
    hello->length = sizeof(*hello);
    hello->magic = WIRE_MAGIC;
    hello->versions = version_range_of("active messages", WIRE_OLDEST, WIRE_NEWEST);
    hello->features = WIRE_FEATURES;
    hello->credits = credits;
    hello->request_bytes = request_bytes;
    hello->reply_bytes = reply_bytes;
    hello->nhandlers = nhandlers;
    hello->name_bytes = WIRE_NAME_BYTES;
}

static bool wire_differs(const char *what, uint64_t here, uint64_t there, int peer,
                         struct error *err)
{
    if (here == there)
        return false;
    error_note(err, "%s is %llu here and %llu at rank %d; both contexts must have the same", what,
               (unsigned long long)here, (unsigned long long)there, peer);
    return true;
}

/* Handler i of the requester has this name: its number here. Equal names are matched in their order. */
static int wire_find_name(struct wire_hello *own, const char *name, uint32_t i, const bool *taken)
{
    if (i < own->nhandlers && !taken[i] &&
        memcmp(name, wire_hello_name(own, i), WIRE_NAME_BYTES) == 0)
        return (int)i;
    for (uint32_t k = 0; k < own->nhandlers; k++)
        if (!taken[k] && memcmp(name, wire_hello_name(own, k), WIRE_NAME_BYTES) == 0)
            return (int)k;
    return -1;
}

static int wire_match_names(struct wire_hello *own, const char *theirs, int peer,
                            struct wire_numbers *numbers, struct error *err)
{
    bool taken[WIRE_HANDLERS_MAX] = {false};

    for (uint32_t i = 0; i < own->nhandlers; i++) {
        char name[WIRE_NAME_BYTES];
        int number;

        memcpy(name, theirs + (size_t)i * WIRE_NAME_BYTES, sizeof(name));
        number = wire_find_name(own, name, i, taken);
        if (number < 0) {
            name[WIRE_NAME_BYTES - 1] = '\0';
            wire_make_printable(name);
            return error_set(err, -EPROTO,
                             "handler %u of rank %d is \"%s\", and handler %u here is \"%.31s\"; "
                             "both contexts must "
                             "have handlers with the same names",
                             i, peer, name, i, wire_hello_name(own, i));
        }
        taken[number] = true;
        numbers->here[i] = (uint8_t)number;
        numbers->there[number] = (uint8_t)i;
    }
    return 0;
}

int wire_hello_match(struct wire_hello *own, const void *theirs, size_t bytes, int peer,
                     struct wire_numbers *numbers, struct error *err)
{
    const size_t least = sizeof(struct wire_hello) - LAYOUT_APPENDED_BYTES;
    struct wire_hello h; /* a copy: the peer can write to the original */
    char name[24];

    if (layout_read(&h, sizeof(h), theirs, bytes, least) != 0)
        return error_set(
            err, -EPROTO,
            "the greeting of rank %d has a length of %u in %zu bytes; at least %zu are needed",
            peer, h.length, bytes, least);
    if (wire_differs("the magic number of active messages", own->magic, h.magic, peer, err))
        return -EPROTO;
    snprintf(name, sizeof(name), "rank %d", peer);
    if (version_agree(own->versions, h.versions, "active messages", name, err) < 0)
        return -EPROTO;
    if (wire_differs("credits", own->credits, h.credits, peer, err) ||
        wire_differs("request_bytes", own->request_bytes, h.request_bytes, peer, err) ||
        wire_differs("reply_bytes", own->reply_bytes, h.reply_bytes, peer, err) ||
        wire_differs("the number of handlers", own->nhandlers, h.nhandlers, peer, err) ||
        wire_differs("the length of a name", own->name_bytes, h.name_bytes, peer, err) ||
        wire_differs("the length of the greeting",
                     (uint64_t)h.length + (uint64_t)own->nhandlers * WIRE_NAME_BYTES, bytes, peer,
                     err))
        return -EPROTO;
    return wire_match_names(own, (const char *)theirs + h.length, peer, numbers, err);
}
