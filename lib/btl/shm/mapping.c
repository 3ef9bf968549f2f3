/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mapping.c: see mapping.h.
 *
 * Invariants, under `lock`
 * 1. A mapping exists while its segment is announced or a block in it is attached.
 * 2. A key of the table contains the peer, so that a peer finds only mappings of its own segments.
 * 3. Every mapping is in the list of its peer; peer.mappings is the length of the list,
 *    peer.waiting the number of mappings that keep a descriptor. A peer is in the table from its first
 *    announcement until it is gone and its last mapping is closed.
 * 4. peer.newest is the largest id that has been announced, also if it was refused: no attach waits for it.
 */
#include "btl/shm/mapping.h"

#include "util/segment.h"
#include "util/cpu.h"
#include "util/list.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Mappings of one peer. A process has 65,530 (vm.max_map_count); a peer that announces more than
 * this violates the protocol.
 */
#define MAPPING_MOST 16384
/* Descriptors of one peer that are kept because their segment could not be mapped yet. */
#define WAITING_MOST 64

struct mapping_peer {
    struct link list;
    uint32_t mappings, waiting;
    uint64_t newest; /* the largest id that it has announced */
    bool gone;       /* freed with its last mapping */
};

struct mapping {
    struct segment segment;
    struct link link; /* mapping_peer.list */
    struct mapping_peer *of;
    uint64_t id;
    int peer;
    uint32_t access;
    uint32_t attached; /* blocks attached to */
    int error;         /* 0: mapped; or why it is not */
    int fd;            /* of memory, while it is not mapped and can be tried again, else -1 */
    uint64_t bytes;    /* as announced */
    bool revoked;      /* by the peer, or the peer is gone */
};

static uint64_t mapping_key(int peer, uint64_t id)
{
    return (uint64_t)(uint32_t)peer << MAPPING_ID_BITS ^ id;
}

/* An id is received from the peer: one with more bits would name a mapping of another peer. */
static struct mapping *mapping_find(const struct mapping_table *table, int peer, uint64_t id)
{
    return id >> MAPPING_ID_BITS == 0 ? hash_get(&table->mappings, mapping_key(peer, id)) : NULL;
}

/* Finds or creates; NULL: there is no memory. */
static struct mapping_peer *mapping_peer_find(struct mapping_table *table, int peer)
{
    struct mapping_peer *p = hash_get(&table->peers, (uint64_t)(uint32_t)peer);

    if (p != NULL)
        return p;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    list_init(&p->list);
    if (hash_put(&table->peers, (uint64_t)(uint32_t)peer, p) != 0) {
        free(p);
        return NULL;
    }
    return p;
}

static void mapping_peer_release(struct mapping_table *table, int peer)
{
    struct mapping_peer *p = hash_get(&table->peers, (uint64_t)(uint32_t)peer);

    if (p == NULL || p->mappings > 0 || !p->gone)
        return;
    hash_remove(&table->peers, (uint64_t)(uint32_t)peer);
    free(p);
}

/* Unmaps and frees; the tables are the caller's. */
static void mapping_free(struct mapping *m)
{
    m->of->mappings--;
    m->of->waiting -= m->fd >= 0;
    list_remove(&m->link);
    segment_unmap(&m->segment);
    if (m->fd >= 0)
        close(m->fd); /* memory: does not wait (received_fd.h) */
    free(m);
}

static void mapping_close(struct mapping_table *table, struct mapping *m)
{
    const int peer = m->peer;

    hash_remove(&table->mappings, mapping_key(peer, m->id));
    mapping_free(m);
    mapping_peer_release(table, peer);
}

static int mapping_map(struct mapping *m, int fd, struct error *err)
{
    int rc = segment_map(fd, m->bytes, m->access != BTL_PEER_READS, &m->segment, err);

    if (rc == 0)
        segment_populate(&m->segment);
    return rc;
}

/* ---- what peers send ---- */

static int mapping_fill(struct mapping *m, int fd, struct error *err)
{
    int rc;

    if (fd < 0)
        return error_set(err, -EMFILE,
                         "there was no file descriptor left to receive it (see ulimit -n)");
    rc = mapping_map(m, fd, err);
    if (rc == -ENOMEM && m->of->waiting < WAITING_MOST) { /* there may be memory later */
        m->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        m->of->waiting += m->fd >= 0;
    }
    return rc;
}

/* A new mapping of p in both tables; p is NULL if there was no memory for it. NULL and an error message. */
static struct mapping *mapping_create(struct mapping_table *table, struct mapping_peer *p, int peer,
                                      uint64_t id, struct error *err)
{
    struct mapping *m = NULL;

    if (p != NULL && p->mappings >= MAPPING_MOST)
        error_note(err, "it has passed %u segments, the most is %u", p->mappings, MAPPING_MOST);
    else if (mapping_find(table, peer, id) != NULL)
        error_note(err, "it has passed segment %llu before", (unsigned long long)id);
    else if (p == NULL || (m = calloc(1, sizeof(*m))) == NULL)
        error_note(err, "there is no memory for the metadata of a mapping");
    if (m == NULL)
        return NULL;
    m->of = p;
    m->id = id;
    m->peer = peer;
    m->fd = -1;
    list_append(&p->list, &m->link);
    p->mappings++;
    if (hash_put(&table->mappings, mapping_key(peer, id), m) != 0) {
        error_note(err, "there is no memory for the metadata of a mapping");
        mapping_free(m);
        return NULL;
    }
    return m;
}

void mapping_announced(struct mapping_table *table, int peer, uint64_t id, uint32_t access,
                       uint64_t bytes, int fd)
{
    struct error err = {""};
    struct mapping_peer *p;
    struct mapping *m;

    pthread_mutex_lock(&table->lock);
    p = mapping_peer_find(table, peer);
    if (p != NULL) {
        p->gone = false;
        if (p->newest < id)
            p->newest = id;
    }
    m = mapping_create(table, p, peer, id, &err);
    if (m != NULL) {
        m->access = access;
        m->bytes = bytes;
        m->error = mapping_fill(m, fd, &err);
    }
    if (m == NULL || m->error != 0)
        log_few(&table->warnings, "shared memory that rank %d passed is refused: %s", peer,
                err.text);
    pthread_mutex_unlock(&table->lock);
}

/* The last detach closes a revoked mapping. */
static void mapping_revoke(struct mapping_table *table, struct mapping *m)
{
    m->revoked = true;
    if (m->attached == 0)
        mapping_close(table, m);
}

void mapping_revoked(struct mapping_table *table, int peer, uint64_t id)
{
    struct mapping *m;

    pthread_mutex_lock(&table->lock);
    m = mapping_find(table, peer, id);
    if (m != NULL)
        mapping_revoke(table, m);
    pthread_mutex_unlock(&table->lock);
}

void mapping_peer_gone(struct mapping_table *table, int peer)
{
    struct mapping_peer *p;
    struct link *at, *after;
    uint32_t left;

    pthread_mutex_lock(&table->lock);
    p = hash_get(&table->peers, (uint64_t)(uint32_t)peer);
    left = p != NULL ? p->mappings : 0; /* the last close frees p */
    if (p != NULL) {
        p->gone = true;
        p->newest = 0;
    }
    mapping_peer_release(table, peer);
    for (at = left > 0 ? p->list.next : NULL; left > 0; left--, at = after) {
        after = at->next;
        mapping_revoke(table, container_of(at, struct mapping, link));
    }
    pthread_mutex_unlock(&table->lock);
}

/* ---- attaching ---- */

static void mapping_retry(struct mapping *m, struct error *err)
{
    m->error = mapping_map(m, m->fd, err);
    if (m->error != 0)
        return;
    close(m->fd);
    m->fd = -1;
    m->of->waiting--;
}

/*
 * Whether a key that the peer sent names a block of the mapping: 0, or -errno and an error message.
 */
static int mapping_check_key(const struct mapping_table *table, const struct mapping *m, int peer,
                             const struct btl_key *key, size_t bytes, uint32_t access,
                             struct error *err)
{
    const uint64_t offset = key->word[KEY_OFFSET], length = key->word[KEY_BYTES];

    if (m == NULL || m->revoked)
        return error_set(err, -EPROTO,
                         "rank %d names shared memory %llu, which it has not passed or which was "
                         "refused (see the log)",
                         peer, (unsigned long long)key->word[KEY_SLAB]);
    if (m->error != 0)
        return error_set(err, m->error,
                         "the shared memory that rank %d passed cannot be mapped at rank %d: %s%s",
                         peer, table->rank, strerror(-m->error),
                         m->error == -ENOMEM
                             ? " (address space, ulimit -v; or mappings, vm.max_map_count)"
                         : m->error == -EMFILE ? " (see ulimit -n)"
                                               : "");
    if (m->access != access || length < bytes || offset > m->segment.bytes ||
        length > m->segment.bytes - offset || offset % CACHE_LINE != 0)
        return error_set(err, -EPROTO,
                         "rank %d names %llu bytes at %llu of shared memory of %zu bytes that it "
                         "passed; %zu are needed",
                         peer, (unsigned long long)length, (unsigned long long)offset,
                         m->segment.bytes, bytes);
    return 0;
}

int mapping_attach(struct mapping_table *table, int peer, const struct btl_key *key, size_t bytes,
                   uint32_t access, struct btl_remote *remote, struct error *err)
{
    struct mapping *m;
    int rc;

    pthread_mutex_lock(&table->lock);
    m = mapping_find(table, peer, key->word[KEY_SLAB]);
    if (m != NULL && m->fd >= 0)
        mapping_retry(m, err);
    rc = mapping_check_key(table, m, peer, key, bytes, access, err);
    if (rc == 0) {
        m->attached++;
        remote->base = (char *)m->segment.base + key->word[KEY_OFFSET];
        remote->bytes = key->word[KEY_BYTES];
        remote->mapping = m;
        remote->huge = m->segment.huge;
    }
    pthread_mutex_unlock(&table->lock);
    return rc;
}

int mapping_borrow(struct mapping_table *table, int peer, const struct btl_key *key, size_t bytes,
                   uint32_t access, struct btl_remote *remote, struct error *err)
{
    const uint64_t id = key->word[KEY_SLAB];
    const struct mapping_peer *p;
    bool early;

    pthread_mutex_lock(&table->lock);
    p = hash_get(&table->peers, (uint64_t)(uint32_t)peer);
    early = id >> MAPPING_ID_BITS == 0 && (p == NULL || id > p->newest);
    pthread_mutex_unlock(&table->lock);
    return early ? -EAGAIN : mapping_attach(table, peer, key, bytes, access, remote, err);
}

void mapping_detach(struct mapping_table *table, struct btl_remote *remote)
{
    struct mapping *m = remote->mapping;

    if (m == NULL)
        return;
    pthread_mutex_lock(&table->lock);
    if (--m->attached == 0 && m->revoked)
        mapping_close(table, m);
    pthread_mutex_unlock(&table->lock);
    remote->mapping = NULL;
    remote->base = NULL;
}

/* ---- the table ---- */

void mapping_table_init(struct mapping_table *table, int rank)
{
    *table = (struct mapping_table){.rank = rank};
    pthread_mutex_init(&table->lock, NULL);
    hash_init(&table->peers);
    hash_init(&table->mappings);
}

void mapping_table_destroy(struct mapping_table *table)
{
    struct mapping_peer *p;
    struct mapping *m;
    size_t cursor = 0;

    while ((m = hash_next(&table->mappings, &cursor)) != NULL)
        mapping_free(m);
    cursor = 0;
    while ((p = hash_next(&table->peers, &cursor)) != NULL)
        free(p);
    hash_free(&table->mappings);
    hash_free(&table->peers);
    pthread_mutex_destroy(&table->lock);
}

void mapping_table_forked(struct mapping_table *table) { pthread_mutex_init(&table->lock, NULL); }
