/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_ranks.h: ranks that send each other notes through the control network, numbered and filled, and count what arrives and
 * how a rank ends. Most tests run over Unix sockets and over TCP.
 */
#ifndef TEST_UNIT_CONTROL_RANKS_H
#define TEST_UNIT_CONTROL_RANKS_H

#include "test/lib/ranks.h"

#include "control/collective.h"

#define NOTE (CONTROL_TYPE_USER + 7)

static _Atomic int arrived, wrong, left, died, ticks;
static _Atomic int last_number[RANKS_MOST];

struct note {
    uint32_t number, bytes;
    uint8_t filling[CONTROL_BODY_MAX - 8];
};

static int on_message(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                      int nfds)
{
    const struct note *n = body;
    size_t i;

    if (!control_on_service_thread() || type != NOTE || bytes < 8 || n->bytes != bytes ||
        (int)n->number != atomic_load(&last_number[from]) + 1)
        atomic_fetch_add(&wrong, 1);
    for (i = 8; i < bytes; i++) {
        if (n->filling[i - 8] != (uint8_t)(n->number + i))
            atomic_fetch_add(&wrong, 1);
    }
    for (i = 0; i < (size_t)nfds; i++) {
        uint32_t seen = 0;

        if (pread(fds[i], &seen, sizeof(seen), 0) != (ssize_t)sizeof(seen) || seen != n->number + i)
            atomic_fetch_add(&wrong, 1);
        close(fds[i]);
    }
    atomic_store(&last_number[from], (int)n->number);
    atomic_fetch_add(&arrived, 1);
    return 0;
}

static void on_gone(int rank, enum control_end end, const char *why)
{
    REQUIRE(strstr(why, "rank") != NULL &&
            control_peer_state(rank) == (end == PEER_LEFT ? -EPIPE : -ECONNRESET));
    atomic_fetch_add(end == PEER_LEFT ? &left : &died, 1);
}

static void on_tick(void) { atomic_fetch_add(&ticks, 1); }

static const struct control_hooks hooks = {on_message, on_gone, on_tick, NULL};

static inline void barrier(void)
{
    struct error err = {""};

    if (collect_barrier(deadline_in_ms(LIMIT_MS), &err) != 0) {
        fprintf(stderr, "barrier: %s\n", err.text);
        _exit(1);
    }
}

static inline int post_note(int to, uint32_t number, size_t bytes, const int *fds, int nfds)
{
    static _Thread_local struct note n;
    size_t i;

    n.number = number;
    n.bytes = (uint32_t)bytes;
    for (i = 8; i < bytes; i++)
        n.filling[i - 8] = (uint8_t)(number + i);
    return control_post(to, NOTE, &n, bytes, fds, nfds);
}

#endif
