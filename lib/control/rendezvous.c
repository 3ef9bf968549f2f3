/* SPDX-License-Identifier: BSD-3-Clause */
/* rendezvous.c: see rendezvous.h. */
#include "control/rendezvous.h"

#include "util/hash.h"
#include "util/received_fd.h"
#include "util/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static pthread_mutex_t rendezvous_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hash
    rendezvous_entries; /* rendezvous_key() -> the first struct rendezvous of that key */
static struct link rendezvous_all = {&rendezvous_all, &rendezvous_all};
/*
 * rendezvous_handshake_key() -> struct rendezvous_handshake: a peer chooses how many an entry has
 */
static struct hash rendezvous_handshakes;
static struct hash rendezvous_kept; /* peer -> handshakes kept, a pointer-sized count */
static uint32_t rendezvous_numbers; /* of entries */
static uint64_t rendezvous_kept_fds;

static _Atomic uint64_t rendezvous_arrival_count = 1; /* never 0, which is "nothing seen yet" */

/*
 * acquire, release: a thread that sees the number finds what it counts; under the lock in any case
 */
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

/*
 * Two contexts of one peer and side never have the same key, since both steps are reversible: so a
 * peer cannot choose contexts that make a chain (next_of_key) long.
 */
static uint64_t rendezvous_key(int peer, uint32_t side, uint64_t context)
{
    context *= UINT64_C(0x9e3779b97f4a7c15);
    return context ^ ((uint64_t)(uint32_t)peer << 34 | (uint64_t)side << 32);
}

static uint64_t rendezvous_handshake_key(const struct rendezvous *m, uint32_t incarnation)
{
    return (uint64_t)m->number << 32 | incarnation;
}

static struct rendezvous *rendezvous_make(int peer, uint32_t side, uint64_t context,
                                          struct rendezvous *same_key)
{
    struct rendezvous *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return NULL;
    m->peer = peer;
    m->side = side;
    m->context = context;
    m->next_of_key = same_key;
    m->opened = (uint32_t)setting_number(SET_FIRST);
    list_init(&m->ends);
    list_init(&m->handshakes);
    if (hash_put(&rendezvous_entries, rendezvous_key(peer, side, context), m) != 0) {
        free(m);
        return NULL;
    }
    m->number = rendezvous_numbers++;
    list_append(&rendezvous_all, &m->all);
    return m;
}

struct rendezvous *rendezvous_find(int peer, uint32_t side, uint64_t context, bool make)
{
    struct rendezvous *first = hash_get(&rendezvous_entries, rendezvous_key(peer, side, context)),
                      *m = first;

    while (m != NULL && (m->peer != peer || m->side != side || m->context != context))
        m = m->next_of_key;
    return m != NULL || !make ? m : rendezvous_make(peer, side, context, first);
}

static bool rendezvous_incarnation_is_ahead(uint32_t incarnation, uint32_t opened)
{
    return (int32_t)(incarnation - opened) > 0;
}
bool rendezvous_is_ahead(const struct rendezvous *m, uint32_t incarnation)
{
    return rendezvous_incarnation_is_ahead(incarnation, m->opened);
}

struct rendezvous *rendezvous_next(struct rendezvous *m)
{
    struct link *next = m != NULL ? m->all.next : rendezvous_all.next;

    return next != &rendezvous_all ? container_of(next, struct rendezvous, all) : NULL;
}

void rendezvous_register(struct rendezvous *m, struct rendezvous_end *end)
{
    end->rendezvous = m;
    if (++m->opened == 0) /* 0 is no incarnation */
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

bool rendezvous_keeps(int peer) { return rendezvous_kept_of(peer) > 0; }

struct rendezvous *rendezvous_find_for_peer(int peer, uint32_t side, uint64_t context,
                                            uint32_t incarnation)
{
    struct rendezvous *m = rendezvous_find(peer, side, context, false);

    if (m != NULL || incarnation == 0 ||
        !rendezvous_incarnation_is_ahead(incarnation, (uint32_t)setting_number(SET_FIRST)) ||
        rendezvous_kept_of(peer) >= RENDEZVOUS_KEPT_MAX)
        return m; /* an entry that keeps nothing would never be removed */
    return rendezvous_find(peer, side, context, true);
}

int rendezvous_keep(struct rendezvous *m, uint32_t incarnation, const void *blob, size_t bytes,
                    struct rendezvous_handshake **out)
{
    size_t count = rendezvous_kept_of(m->peer);
    struct rendezvous_handshake *handshake;

    if (rendezvous_find_handshake(m, incarnation) != NULL)
        return -EEXIST;
    if (count >= RENDEZVOUS_KEPT_MAX)
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
        return false; /* the rest is for this process */
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

    received_fd_close(rendezvous_take_fd(handshake));
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
    struct link *cursor, *after;

    list_for_each (cursor, after, &rendezvous_all) {
        struct rendezvous *m = container_of(cursor, struct rendezvous, all);

        while (!list_empty(&m->handshakes))
            rendezvous_drop_handshake(
                m, container_of(m->handshakes.next, struct rendezvous_handshake, link));
        free(m);
    }
    list_init(&rendezvous_all);
    hash_free(&rendezvous_entries);
    hash_free(&rendezvous_handshakes);
    hash_free(&rendezvous_kept);
}
