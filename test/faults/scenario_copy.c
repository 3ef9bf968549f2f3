/* SPDX-License-Identifier: BSD-3-Clause */
/* scenario_copy.c: messages by copy, there and back, short ones and long ones: see scenario.h. */
#include "scenario_ends.h"

#define MESSAGES 60

static bool is_end(int rc) { return rc == -EPIPE || rc == -ECONNRESET; }

static size_t bytes_of(uint64_t i) { return i % 3 == 0 ? 8 : i * 97 % SCENE_LONGEST; }

int scene_send(struct player *p, rch_t ch, uint64_t i, size_t bytes)
{
    char buffer[SCENE_LONGEST];
    int rc;

    pattern_fill(buffer, bytes, i);
    do
        rc = rsend(ch, buffer, bytes, 0);
    while (scene_once_more(p, rc));
    return rc;
}

int scene_receive(struct player *p, rch_t ch, uint64_t i, size_t expected)
{
    char buffer[SCENE_LONGEST];
    size_t bytes = 0;
    int rc;

    do
        rc = rrecv(ch, buffer, sizeof(buffer), &bytes, 0);
    while (scene_once_more(p, rc));
    CHECK(ch, rc != 0 || (bytes == expected && pattern_same(buffer, bytes, i)));
    return rc;
}

int scene_copy(struct player *p)
{
    rpipe_config_t out = scene_config(p, p->peer, (uint32_t)p->rank, true);
    rpipe_config_t in = scene_config(p, p->peer, (uint32_t)p->peer, false);
    rch_t writer = scene_open(p, &out), reader = scene_open(p, &in);
    int rc = scene_wait_joined(p, writer);

    if (rc == 0)
        rc = scene_wait_joined(p, reader);
    for (uint64_t i = 0; i < MESSAGES && rc == 0; i++) {
        rc = scene_send(p, writer, i, bytes_of(i));
        if (rc == 0)
            rc = scene_receive(p, reader, i, bytes_of(i));
    }
    CHECK(NULL, rc == 0 || is_end(rc));
    scene_close_all(p);
    return rc;
}
