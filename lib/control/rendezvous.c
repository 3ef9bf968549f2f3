/* SPDX-License-Identifier: BSD-3-Clause */
/* store.c: see store.h. */
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hash meetings; /* key() → struct meeting */
static struct hash
    halves; /* half_key() → struct store_half: a peer chooses how many a meeting has, and which he asks for */
static struct hash kept;  /* peer → number of halves kept, as a pointer-sized count + 1 */
static uint32_t numbers;  /* of meetings */
static uint64_t kept_fds; /* in halves */

static _Atomic uint64_t arrivals = 1; /* never 0: whoever has seen nothing yet has seen 0 */

/* acquire, release: who sees the number finds what it counts; under the lock in any case */
uint64_t store_arrivals(void) { return atomic_load_explicit(&arrivals, memory_order_acquire); }
void store_arrived(void) { atomic_fetch_add_explicit(&arrivals, 1, memory_order_release); }

void store_lock(void) { pthread_mutex_lock(&lock); }
void store_unlock(void) { pthread_mutex_unlock(&lock); }
void store_forked(void) { pthread_mutex_init(&lock, NULL); }

static uint64_t key(int peer, uint32_t side, uint32_t ctx)
{
    return (uint64_t)(uint32_t)peer << 34 | (uint64_t)side << 32 | ctx;
}

static uint64_t half_key(const struct meeting *m, uint32_t incarnation)
{
    return (uint64_t)m->number << 32 | incarnation;
}

struct meeting *store_meeting(int peer, uint32_t side, uint32_t ctx, bool make)
{
    struct meeting *m = hash_get(&meetings, key(peer, side, ctx));

    if (m != NULL || !make)
        return m;
    m = calloc(1, sizeof(*m));
    if (m == NULL)
        return NULL;
    m->peer = peer;
    m->side = side;
    m->ctx = ctx;
    m->number = numbers++;
    m->opened = (uint32_t)setting_number(SET_FIRST);
    list_init(&m->ends);
    list_init(&m->halves);
    if (hash_put(&meetings, key(peer, side, ctx), m) != 0) {
        free(m);
        return NULL;
    }
    return m;
}

static bool is_ahead(uint32_t incarnation, uint32_t opened) { return (int32_t)(incarnation - opened) > 0; }
bool store_is_ahead(const struct meeting *m, uint32_t incarnation) { return is_ahead(incarnation, m->opened); }

struct meeting *store_next(size_t *cursor) { return hash_next(&meetings, cursor); }

void store_register(struct meeting *m, struct store_end *end)
{
    end->meeting = m;
    if (++m->opened == 0) /* which is no incarnation */
        m->opened = 1;
    end->incarnation = m->opened;
    list_append(&m->ends, &end->link);
}

void store_unregister(struct store_end *end)
{
    list_remove(&end->link);
    end->meeting = NULL;
}

struct store_end *store_find_end(struct meeting *m, uint32_t incarnation)
{
    struct link *cursor, *after;

    list_for_each (cursor, after, &m->ends) {
        struct store_end *end = container_of(cursor, struct store_end, link);

        if (end->incarnation == incarnation)
            return end;
    }
    return NULL;
}

static size_t kept_of(int peer) { return (size_t)(uintptr_t)hash_get(&kept, (uint64_t)peer); }

struct meeting *store_visited(int peer, uint32_t side, uint32_t ctx, uint32_t incarnation)
{
    struct meeting *m = store_meeting(peer, side, ctx, false);

    if (m != NULL || incarnation == 0 || !is_ahead(incarnation, (uint32_t)setting_number(SET_FIRST)) ||
        kept_of(peer) >= STORE_KEPT_MAX)
        return m; /* a meeting that nothing is kept in would stay for ever */
    return store_meeting(peer, side, ctx, true);
}

int store_keep(struct meeting *m, uint32_t incarnation, const void *blob, size_t bytes, struct store_half **out)
{
    size_t count = kept_of(m->peer);
    struct store_half *half;

    if (store_find_half(m, incarnation) != NULL)
        return -EEXIST;
    if (count >= STORE_KEPT_MAX)
        return -ENOBUFS;
    if (bytes > STORE_BLOB_MAX)
        return -EMSGSIZE;
    half = malloc(sizeof(*half) + bytes);
    if (half == NULL || hash_put(&halves, half_key(m, incarnation), half) != 0 ||
        hash_put(&kept, (uint64_t)m->peer, (void *)(uintptr_t)(count + 1)) != 0) {
        hash_remove(&halves, half_key(m, incarnation));
        free(half);
        return -ENOMEM;
    }
    *half = (struct store_half){.incarnation = incarnation, .event_fd = -1, .bytes = bytes};
    if (bytes > 0)
        memcpy(half->blob, blob, bytes);
    list_append(&m->halves, &half->link);
    if (out != NULL)
        *out = half;
    return 0;
}

struct store_half *store_find_half(struct meeting *m, uint32_t incarnation)
{
    return hash_get(&halves, half_key(m, incarnation));
}

bool store_keep_fd(struct store_half *half, int fd)
{
    struct rlimit most;

    if (fd >= 0 && (getrlimit(RLIMIT_NOFILE, &most) != 0 || kept_fds >= most.rlim_cur / 4))
        return false; /* peers have had their share: the rest is for this process's own needs */
    kept_fds += fd >= 0;
    half->events = true;
    half->event_fd = fd;
    return true;
}

int store_take_fd(struct store_half *half)
{
    int fd = half->event_fd;

    kept_fds -= fd >= 0;
    half->event_fd = -1;
    return fd;
}

void store_drop_half(struct meeting *m, struct store_half *half)
{
    size_t count = kept_of(m->peer);
    int fd = store_take_fd(half);

    if (fd >= 0)
        close(fd);
    if (count > 1)
        (void)hash_put(&kept, (uint64_t)m->peer, (void *)(uintptr_t)(count - 1)); /* replaces: cannot fail */
    else
        hash_remove(&kept, (uint64_t)m->peer);
    hash_remove(&halves, half_key(m, half->incarnation));
    list_remove(&half->link);
    free(half);
}

void store_clear(void)
{
    size_t cursor = 0;
    struct meeting *m;

    while ((m = hash_next(&meetings, &cursor)) != NULL) {
        while (!list_empty(&m->halves))
            store_drop_half(m, container_of(m->halves.next, struct store_half, link));
        free(m);
    }
    hash_free(&meetings);
    hash_free(&halves);
    hash_free(&kept);
}
