/* SPDX-License-Identifier: BSD-3-Clause */
/* rendezvous.c: see rendezvous.h. */
#include "control/rendezvous.h"

#include "util/hash.h"
#include "util/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_mutex_t rendezvous_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hash rendezvous_meetings; /* key() → struct meeting */
static struct hash
    rendezvous_handshakes; /* handshake_key() → struct rendezvous_handshake: a peer chooses how many a meeting has, and which he asks for */
static struct hash rendezvous_kept; /* peer → number of halves kept, as a pointer-sized count + 1 */
static uint32_t rendezvous_numbers;  /* of meetings */
static uint64_t rendezvous_kept_fds; /* in halves */

static _Atomic uint64_t rendezvous_arrival_count =
    1; /* never 0: whoever has seen nothing yet has seen 0 */

/* acquire, release: who sees the number finds what it counts; under the lock in any case */
uint64_t rendezvous_arrivals(void)
{
    return atomic_load_explicit(&rendezvous_arrival_count, memory_order_acquire);
}
void rendezvous_arrived(void)
{
    atomic_fetch_add_explicit(&rendezvous_arrival_count, 1, memory_order_release);
}

void rendezvous_lock(void) { pthread_mutex_lock(&rendezvous_mutex); }
void rendezvous_unlock(void) { pthread_mutex_unlock(&rendezvous_mutex); }
void rendezvous_forked(void) { pthread_mutex_init(&rendezvous_mutex, NULL); }

static uint64_t rendezvous_key(int peer, uint32_t side, uint32_t ctx)
{
    return (uint64_t)(uint32_t)peer << 34 | (uint64_t)side << 32 | ctx;
}

static uint64_t rendezvous_handshake_key(const struct rendezvous *m, uint32_t incarnation)
{
    return (uint64_t)m->number << 32 | incarnation;
}

struct rendezvous *rendezvous_find(int peer, uint32_t side, uint32_t ctx, bool make)
{
    struct rendezvous *m = hash_get(&rendezvous_meetings, rendezvous_key(peer, side, ctx));

    if (m != NULL || !make)
        return m;
    m = calloc(1, sizeof(*m));
    if (m == NULL)
        return NULL;
    m->peer = peer;
    m->side = side;
    m->ctx = ctx;
    m->number = rendezvous_numbers++;
    m->opened = (uint32_t)setting_number(SET_FIRST);
    list_init(&m->ends);
    list_init(&m->handshakes);
    if (hash_put(&rendezvous_meetings, rendezvous_key(peer, side, ctx), m) != 0) {
        free(m);
        return NULL;
    }
    return m;
}

static bool rendezvous_incarnation_is_ahead(uint32_t incarnation, uint32_t opened)
{
    return (int32_t)(incarnation - opened) > 0;
}
bool rendezvous_is_ahead(const struct rendezvous *m, uint32_t incarnation)
{
    return rendezvous_incarnation_is_ahead(incarnation, m->opened);
}

struct rendezvous *rendezvous_next(size_t *cursor)
{
    return hash_next(&rendezvous_meetings, cursor);
}

void rendezvous_register(struct rendezvous *m, struct rendezvous_end *end)
{
    end->rendezvous = m;
    if (++m->opened == 0) /* which is no incarnation */
        m->opened = 1;
    end->incarnation = m->opened;
    list_append(&m->ends, &end->link);
}

void rendezvous_unregister(struct rendezvous_end *end)
{
    list_remove(&end->link);
    end->rendezvous = NULL;
}

struct rendezvous_end *rendezvous_find_end(struct rendezvous *m, uint32_t incarnation)
{
    struct link *cursor, *after;

    list_for_each (cursor, after, &m->ends) {
        struct rendezvous_end *end = container_of(cursor, struct rendezvous_end, link);

        if (end->incarnation == incarnation)
            return end;
    }
    return NULL;
}

static size_t rendezvous_kept_of(int peer)
{
    return (size_t)(uintptr_t)hash_get(&rendezvous_kept, (uint64_t)peer);
}

struct rendezvous *rendezvous_find_for_peer(int peer, uint32_t side, uint32_t ctx,
                                            uint32_t incarnation)
{
    struct rendezvous *m = rendezvous_find(peer, side, ctx, false);

    if (m != NULL || incarnation == 0 ||
        !rendezvous_incarnation_is_ahead(incarnation, (uint32_t)setting_number(SET_FIRST)) ||
        rendezvous_kept_of(peer) >= STORE_KEPT_MAX)
        return m; /* a meeting that nothing is kept in would stay for ever */
    return rendezvous_find(peer, side, ctx, true);
}

int rendezvous_keep(struct rendezvous *m, uint32_t incarnation, const void *blob, size_t bytes,
                    struct rendezvous_handshake **out)
{
    size_t count = rendezvous_kept_of(m->peer);
    struct rendezvous_handshake *handshake;

    if (rendezvous_find_handshake(m, incarnation) != NULL)
        return -EEXIST;
    if (count >= STORE_KEPT_MAX)
        return -ENOBUFS;
    if (bytes > RENDEZVOUS_BLOB_MAX)
        return -EMSGSIZE;
    handshake = malloc(sizeof(*handshake) + bytes);
    if (handshake == NULL ||
        hash_put(&rendezvous_handshakes, rendezvous_handshake_key(m, incarnation), handshake) !=
            0 ||
        hash_put(&rendezvous_kept, (uint64_t)m->peer, (void *)(uintptr_t)(count + 1)) != 0) {
        hash_remove(&rendezvous_handshakes, rendezvous_handshake_key(m, incarnation));
        free(handshake);
        return -ENOMEM;
    }
    *handshake =
        (struct rendezvous_handshake){.incarnation = incarnation, .event_fd = -1, .bytes = bytes};
    if (bytes > 0)
        memcpy(handshake->blob, blob, bytes);
    list_append(&m->handshakes, &handshake->link);
    if (out != NULL)
        *out = handshake;
    return 0;
}

struct rendezvous_handshake *rendezvous_find_handshake(struct rendezvous *m, uint32_t incarnation)
{
    return hash_get(&rendezvous_handshakes, rendezvous_handshake_key(m, incarnation));
}

bool rendezvous_keep_fd(struct rendezvous_handshake *handshake, int fd)
{
    struct rlimit most;

    if (fd >= 0 &&
        (getrlimit(RLIMIT_NOFILE, &most) != 0 || rendezvous_kept_fds >= most.rlim_cur / 4))
        return false; /* peers have had their share: the rest is for this process's own needs */
    rendezvous_kept_fds += fd >= 0;
    handshake->events = true;
    handshake->event_fd = fd;
    return true;
}

int rendezvous_take_fd(struct rendezvous_handshake *handshake)
{
    int fd = handshake->event_fd;

    rendezvous_kept_fds -= fd >= 0;
    handshake->event_fd = -1;
    return fd;
}

void rendezvous_drop_handshake(struct rendezvous *m, struct rendezvous_handshake *handshake)
{
    size_t count = rendezvous_kept_of(m->peer);
    int fd = rendezvous_take_fd(handshake);

    if (fd >= 0)
        close(fd);
    if (count > 1)
        (void)hash_put(&rendezvous_kept, (uint64_t)m->peer,
                       (void *)(uintptr_t)(count - 1)); /* replaces: cannot fail */
    else
        hash_remove(&rendezvous_kept, (uint64_t)m->peer);
    hash_remove(&rendezvous_handshakes, rendezvous_handshake_key(m, handshake->incarnation));
    list_remove(&handshake->link);
    free(handshake);
}

void rendezvous_clear(void)
{
    size_t cursor = 0;
    struct rendezvous *m;

    while ((m = hash_next(&rendezvous_meetings, &cursor)) != NULL) {
        while (!list_empty(&m->handshakes))
            rendezvous_drop_handshake(
                m, container_of(m->handshakes.next, struct rendezvous_handshake, link));
        free(m);
    }
    hash_free(&rendezvous_meetings);
    hash_free(&rendezvous_handshakes);
    hash_free(&rendezvous_kept);
}
