/* SPDX-License-Identifier: BSD-3-Clause */
/* readers.c: see readers.h. */
#include "am/readers.h"

#include <errno.h>
#include <stdlib.h>

static bool am_readers_grow(struct ram *am)
{
    int room = am->readers_room == 0 ? 16 : am->readers_room * 2;
    struct am_reader *reader = realloc(am->reader, (size_t)room * sizeof(*reader));
    rch_t *reading;
    int *ready;

    if (reader != NULL)
        am->reader = reader;
    reading = realloc(am->reading, (size_t)room * sizeof(*reading));
    if (reading != NULL)
        am->reading = reading;
    ready = realloc(am->ready, (size_t)room * sizeof(*ready));
    if (ready != NULL)
        am->ready = ready;
    if (reader == NULL || reading == NULL || ready == NULL)
        return false;
    am->readers_room = room;
    return true;
}

int am_reader_add(struct ram *am, rch_t ch, struct am_out *out, struct am_in *in)
{
    if (am->readers == am->readers_room && !am_readers_grow(am))
        return -ENOMEM;
    am->reading[am->readers] = ch;
    am->reader[am->readers] = (struct am_reader){out, in};
    am->ready[am->readers] = 0;
    am->readers++;
    return 0;
}

void am_reader_remove(struct ram *am, rch_t ch)
{
    for (int i = 0; i < am->readers; i++) {
        if (am->reading[i] != ch)
            continue;
        am->readers--;
        am->reading[i] = am->reading[am->readers];
        am->reader[i] = am->reader[am->readers];
        am->ready[i] = am->ready[am->readers];
        return;
    }
}
