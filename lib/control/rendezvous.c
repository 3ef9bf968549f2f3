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
static struct hash rendezvous_entries; /* rendezvous_key() -> the first entry of that key */
static struct hash rendezvous_peers;   /* peer -> struct rendezvous_peer */
/* rendezvous_handshake_key() -> handshake: a peer chooses how many an entry has */
static struct hash rendezvous_handshakes;
static struct link rendezvous_all = {&rendezvous_all, &rendezvous_all};
static struct link rendezvous_waiting = {&rendezvous_waiting, &rendezvous_waiting};
static struct link rendezvous_idle = {&rendezvous_idle, &rendezvous_idle}; /* the oldest first */
static struct link rendezvous_watching = {&rendezvous_watching, &rendezvous_watching};
/* handshakes of ends that were closed before their peer was gone; the oldest first */
static struct link rendezvous_gone = {&rendezvous_gone, &rendezvous_gone};
static unsigned rendezvous_idle_count, rendezvous_gone_count;
static uint32_t rendezvous_numbers; /* ends that were registered, from RPIPE_FIRST on */
static bool rendezvous_numbered;    /* the former is set */
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

/* ---- peers ---- */

struct rendezvous_peer *rendezvous_peer(int peer)
{
    return hash_get(&rendezvous_peers, (uint64_t)(uint32_t)peer);
}

static struct rendezvous_peer *rendezvous_peer_make(int peer)
{
    struct rendezvous_peer *p = rendezvous_peer(peer);

    if (p != NULL)
        return p;
    p = calloc(1, sizeof(*p));
    if (p == NULL || hash_put(&rendezvous_peers, (uint64_t)(uint32_t)peer, p) != 0) {
        free(p);
        return NULL;
    }
    p->peer = peer;
    list_init(&p->entries);
    list_init(&p->watched);
    list_init(&p->watching);
    return p;
}

static void rendezvous_peer_release(struct rendezvous_peer *p)
{
    if (!list_empty(&p->entries))
        return;
    hash_remove(&rendezvous_peers, (uint64_t)(uint32_t)p->peer);
    free(p);
}

/* ---- entries ---- */

/*
 * Two contexts of one peer and side never have the same key, since both steps are reversible: so a
 * peer cannot choose contexts that make a chain (next_of_key) long.
 */
static uint64_t rendezvous_key(int peer, uint32_t side, uint64_t context)
{
    context *= UINT64_C(0x9e3779b97f4a7c15);
    return context ^ ((uint64_t)(uint32_t)peer << 34 | (uint64_t)side << 32);
}

static struct rendezvous *rendezvous_make(int peer, uint32_t side, uint64_t context,
                                          struct rendezvous *same_key)
{
    struct rendezvous_peer *p = rendezvous_peer_make(peer);
    struct rendezvous *m = p != NULL ? calloc(1, sizeof(*m)) : NULL;

    if (m == NULL || hash_put(&rendezvous_entries, rendezvous_key(peer, side, context), m) != 0) {
        free(m);
        if (p != NULL)
            rendezvous_peer_release(p);
        return NULL;
    }
    m->peer = peer;
    m->side = side;
    m->context = context;
    m->of = p;
    m->next_of_key = same_key;
    list_init(&m->ends);
    list_init(&m->handshakes);
    list_init(&m->waiting);
    list_init(&m->idle);
    list_append(&p->entries, &m->of_peer);
    list_append(&rendezvous_all, &m->all);
    return m;
}

static void rendezvous_use(struct rendezvous *m)
{
    if (list_empty(&m->idle))
        return;
    list_remove(&m->idle);
    rendezvous_idle_count--;
}

struct rendezvous *rendezvous_find(int peer, uint32_t side, uint64_t context, bool make)
{
    struct rendezvous *first = hash_get(&rendezvous_entries, rendezvous_key(peer, side, context)),
                      *m = first;

    while (m != NULL && (m->peer != peer || m->side != side || m->context != context))
        m = m->next_of_key;
    if (!make)
        return m;
    if (m == NULL)
        return rendezvous_make(peer, side, context, first);
    rendezvous_use(m);
    return m;
}

static void rendezvous_free(struct rendezvous *m)
{
    const uint64_t key = rendezvous_key(m->peer, m->side, m->context);
    struct rendezvous *first = hash_get(&rendezvous_entries, key), *before = first;

    if (first != m) {
        while (before->next_of_key != m)
            before = before->next_of_key;
        before->next_of_key = m->next_of_key;
    } else if (m->next_of_key != NULL) {
        (void)hash_put(&rendezvous_entries, key, m->next_of_key); /* replaces: cannot fail */
    } else {
        hash_remove(&rendezvous_entries, key);
    }
    rendezvous_use(m);
    list_remove(&m->of_peer);
    list_remove(&m->all);
    rendezvous_peer_release(m->of);
    free(m);
}

void rendezvous_release(struct rendezvous *m)
{
    if (m->pins > 0 || !list_empty(&m->ends) || !list_empty(&m->handshakes) ||
        !list_empty(&m->idle))
        return;
    if (m->of->gone || m->opened == 0) {
        rendezvous_free(m);
        return;
    }
    list_append(&rendezvous_idle, &m->idle);
    if (++rendezvous_idle_count > RENDEZVOUS_IDLE)
        rendezvous_free(container_of(rendezvous_idle.next, struct rendezvous, idle));
}

void rendezvous_pin(struct rendezvous *m) { m->pins++; }

void rendezvous_unpin(struct rendezvous *m)
{
    m->pins--;
    if (m->of->gone)
        rendezvous_use(m);
    rendezvous_release(m);
}

struct rendezvous *rendezvous_next(struct rendezvous *m)
{
    struct link *next = m != NULL ? m->all.next : rendezvous_all.next;

    return next != &rendezvous_all ? container_of(next, struct rendezvous, all) : NULL;
}

struct rendezvous *rendezvous_next_of_peer(int peer, struct rendezvous *m)
{
    struct rendezvous_peer *p = m != NULL ? m->of : rendezvous_peer(peer);
    struct link *next;

    if (p == NULL)
        return NULL;
    next = m != NULL ? m->of_peer.next : p->entries.next;
    return next != &p->entries ? container_of(next, struct rendezvous, of_peer) : NULL;
}

struct rendezvous *rendezvous_next_waiting(struct rendezvous *m)
{
    struct link *next = m != NULL ? m->waiting.next : rendezvous_waiting.next;

    return next != &rendezvous_waiting ? container_of(next, struct rendezvous, waiting) : NULL;
}

/* ---- own ends ---- */

static uint32_t rendezvous_next_number(void)
{
    if (!rendezvous_numbered)
        rendezvous_numbers = (uint32_t)setting_number(SET_FIRST);
    rendezvous_numbered = true;
    if (++rendezvous_numbers == 0) /* 0 is no number */
        rendezvous_numbers = 1;
    return rendezvous_numbers;
}

void rendezvous_register(struct rendezvous *m, struct rendezvous_end *end)
{
    end->rendezvous = m;
    end->number = rendezvous_next_number();
    end->other = 0;
    end->paired = false;
    end->incarnation = ++m->opened;
    list_init(&end->watched);
    list_append(&m->ends, &end->link);
}

void rendezvous_unregister(struct rendezvous_end *end)
{
    struct rendezvous *m = end->rendezvous;

    rendezvous_unwatch(end);
    list_remove(&end->link);
    end->rendezvous = NULL;
    rendezvous_release(m);
}

void rendezvous_unregister_unopened(struct rendezvous_end *end)
{
    end->rendezvous->opened--;
    rendezvous_unregister(end);
}

struct rendezvous_end *rendezvous_find_paired(struct rendezvous *m, uint32_t other)
{
    struct link *cursor, *after;

    list_for_each (cursor, after, &m->ends) {
        struct rendezvous_end *end = container_of(cursor, struct rendezvous_end, link);

        if (end->other == other)
            return end;
    }
    return NULL;
}

struct rendezvous_end *rendezvous_find_own(struct rendezvous *m, uint32_t number)
{
    struct link *cursor, *after;

    list_for_each (cursor, after, &m->ends) {
        struct rendezvous_end *end = container_of(cursor, struct rendezvous_end, link);

        if (end->number == number)
            return end;
    }
    return NULL;
}

struct rendezvous_end *rendezvous_pair(struct rendezvous *m, uint32_t other)
{
    struct link *cursor, *after;

    list_for_each (cursor, after, &m->ends) {
        struct rendezvous_end *end = container_of(cursor, struct rendezvous_end, link);

        if (end->paired)
            continue;
        end->paired = true;
        end->other = other;
        return end;
    }
    return NULL;
}

void rendezvous_watch(struct rendezvous_end *end)
{
    struct rendezvous_peer *p = end->rendezvous->of;

    if (list_empty(&p->watched))
        list_append(&rendezvous_watching, &p->watching);
    list_append(&p->watched, &end->watched);
}

void rendezvous_unwatch(struct rendezvous_end *end)
{
    struct rendezvous_peer *p = end->rendezvous->of;

    list_remove(&end->watched);
    if (list_empty(&p->watched))
        list_remove(&p->watching);
}

struct rendezvous_peer *rendezvous_next_watched(struct rendezvous_peer *p)
{
    struct link *next = p != NULL ? p->watching.next : rendezvous_watching.next;

    return next != &rendezvous_watching ? container_of(next, struct rendezvous_peer, watching)
                                        : NULL;
}

/* ---- handshakes of the peer ---- */

/* An honest peer never has two ends of one number. */
static uint64_t rendezvous_handshake_key(int peer, uint32_t number)
{
    return (uint64_t)(uint32_t)peer << 32 | number;
}

static struct rendezvous_handshake *rendezvous_copy(struct rendezvous *m, uint32_t number,
                                                    const void *blob, size_t bytes)
{
    struct rendezvous_handshake *handshake = malloc(sizeof(*handshake) + bytes);

    if (handshake == NULL || hash_put(&rendezvous_handshakes,
                                      rendezvous_handshake_key(m->peer, number), handshake) != 0) {
        free(handshake);
        return NULL;
    }
    *handshake =
        (struct rendezvous_handshake){.of = m, .number = number, .event_fd = -1, .bytes = bytes};
    list_init(&handshake->gone);
    memcpy(handshake->blob, blob, bytes);
    return handshake;
}

/*
 * An entry has its first unclosed handshake at hand. Handshakes are appended and closed ones stay closed, so it only moves
 * towards the end of the list: all moves together cost what the list has.
 */
static void rendezvous_set_unclosed(struct rendezvous *m, struct rendezvous_handshake *handshake)
{
    m->of->waits[m->side & 1] += handshake != NULL;
    m->of->waits[m->side & 1] -= m->unclosed != NULL;
    m->unclosed = handshake;
}

/* This one is closed, or leaves the list. */
static void rendezvous_skip(struct rendezvous_handshake *handshake)
{
    struct rendezvous *m = handshake->of;
    struct rendezvous_handshake *next = NULL;
    struct link *at = handshake->link.next;

    if (m->unclosed != handshake)
        return;
    for (; at != &m->handshakes && next == NULL; at = at->next) {
        next = container_of(at, struct rendezvous_handshake, link);
        if (next->close_message)
            next = NULL;
    }
    rendezvous_set_unclosed(m, next);
}

void rendezvous_close_handshake(struct rendezvous_handshake *handshake, uint64_t final)
{
    handshake->close_message = true;
    handshake->final = final;
    rendezvous_skip(handshake);
}

uint32_t rendezvous_waits(const struct rendezvous *m) { return m->of->waits[m->side & 1]; }

int rendezvous_keep(int peer, uint32_t side, uint64_t context, uint32_t number, const void *blob,
                    size_t bytes)
{
    const struct rendezvous_peer *p = rendezvous_peer(peer);
    struct rendezvous_handshake *handshake;
    struct rendezvous *m;

    if (hash_get(&rendezvous_handshakes, rendezvous_handshake_key(peer, number)) != NULL)
        return -EEXIST;
    if (p != NULL && p->kept >= RENDEZVOUS_KEPT_MAX)
        return -ENOBUFS;
    if (bytes > RENDEZVOUS_BLOB_MAX)
        return -EMSGSIZE;
    m = rendezvous_find(peer, side, context, true);
    if (m == NULL)
        return -ENOMEM;
    handshake = rendezvous_copy(m, number, blob, bytes);
    if (handshake == NULL) {
        rendezvous_release(m);
        return -ENOMEM;
    }
    if (list_empty(&m->handshakes))
        list_append(&rendezvous_waiting, &m->waiting);
    list_append(&m->handshakes, &handshake->link);
    if (m->unclosed == NULL)
        rendezvous_set_unclosed(m, handshake);
    m->of->kept++;
    return 0;
}

struct rendezvous_handshake *rendezvous_first_handshake(struct rendezvous *m)
{
    return list_empty(&m->handshakes)
               ? NULL
               : container_of(m->handshakes.next, struct rendezvous_handshake, link);
}

struct rendezvous_handshake *rendezvous_find_handshake(struct rendezvous *m, uint32_t number)
{
    struct rendezvous_handshake *handshake =
        hash_get(&rendezvous_handshakes, rendezvous_handshake_key(m->peer, number));

    return handshake != NULL && handshake->of == m ? handshake : NULL;
}

bool rendezvous_keeps(int peer)
{
    const struct rendezvous_peer *p = rendezvous_peer(peer);

    return p != NULL && p->kept > 0;
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

void rendezvous_drop_handshake(struct rendezvous_handshake *handshake)
{
    struct rendezvous *m = handshake->of;

    received_fd_close(rendezvous_take_fd(handshake));
    hash_remove(&rendezvous_handshakes, rendezvous_handshake_key(m->peer, handshake->number));
    rendezvous_skip(handshake);
    rendezvous_gone_count -= !list_empty(&handshake->gone);
    list_remove(&handshake->gone);
    list_remove(&handshake->link);
    free(handshake);
    m->of->kept--;
    if (list_empty(&m->handshakes))
        list_remove(&m->waiting);
    rendezvous_release(m);
}

/* What is dropped for it is older: of another entry, or before it in its own. */
static void rendezvous_keep_gone(struct rendezvous_handshake *handshake)
{
    received_fd_close(rendezvous_take_fd(handshake));
    list_append(&rendezvous_gone, &handshake->gone);
    if (++rendezvous_gone_count > RENDEZVOUS_GONE)
        rendezvous_drop_handshake(
            container_of(rendezvous_gone.next, struct rendezvous_handshake, gone));
}

void rendezvous_set_gone(struct rendezvous *m)
{
    struct link *cursor, *after;

    m->of->gone = true;
    list_for_each (cursor, after, &m->handshakes) {
        struct rendezvous_handshake *handshake =
            container_of(cursor, struct rendezvous_handshake, link);

        if (!handshake->close_message)
            rendezvous_drop_handshake(handshake);
        else if (list_empty(&handshake->gone))
            rendezvous_keep_gone(handshake);
    }
}

void rendezvous_clear(void)
{
    struct rendezvous *m;

    while ((m = rendezvous_next(NULL)) != NULL) {
        rendezvous_pin(m);
        while (!list_empty(&m->handshakes))
            rendezvous_drop_handshake(rendezvous_first_handshake(m));
        rendezvous_free(m);
    }
    hash_free(&rendezvous_entries);
    hash_free(&rendezvous_peers);
    hash_free(&rendezvous_handshakes);
}
