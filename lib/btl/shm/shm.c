/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm.c: the shared-memory backend: pieces in slabs, and the windows onto the slabs of peers.
 *
 * A slab is one segment of pieces of one size, for one peer, with one kind of access; it is announced to the peer, with
 * its descriptor, before the key of any of its pieces can arrive there (same FIFO). A further slab holds a
 * quarter more pieces of its kind, up to SLAB_MOST bytes: so that one channel costs little, many channels cost at most a
 * quarter more than what they need, and 65,536 of them few mappings (a process may have some 65,000). An empty slab is given back at once,
 * and so are the peer's windows onto it.
 *
 * Invariants, under `lock`: slab.used == pieces handed out; a slab with a free piece is in its kind's list `open`, a full one is
 * in none; a window lives while its slab is announced or a remote piece is attached; a peer finds no windows but those of
 * its own slabs; guest.windows and .waiting count a peer's windows, and those of them that keep a descriptor.
 */
#include "btl/btl.h"
#include "btl/shm/segment.h"

#include "util/cpu.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLAB_MOST ((size_t)4 << 20)
#define WINDOWS_MOST                                                                               \
    16384 /* of one peer: beyond it he is talking nonsense; each is a mapping, of 65,530 that a process has */
#define WAITING_MOST 64 /* of one peer: descriptors kept because there was no room to map them */

struct kind { /* slabs alike */
    int peer;
    uint32_t access;
    bool huge;
    size_t chunk_bytes;
    size_t pieces;    /* there are, handed out or not */
    struct link open; /* slabs with a free piece */
    struct link link; /* in btl.kinds of its hash key */
};

struct slab {
    struct link link; /* kind.open */
    struct kind *kind;
    uint64_t id;
    struct segment segment;
    int fd;     /* BTL_PEER_ATOMICS: kept, to be passed to other peers; or -1 */
    int *other; /* those peers */
    size_t others;
    uint32_t pieces, used, fresh; /* in all; handed out; never handed out start here */
    uint32_t free_top;            /* stack of pieces given back */
    uint32_t free_memory[];
};

struct mapping { /* onto a slab of a peer */
    struct segment segment;
    uint64_t id;
    int peer;
    uint32_t access;
    uint32_t attached;
    int error;      /* why it could not be mapped here; 0: it is */
    int fd;         /* kept as long as it is not mapped, so that it can be tried again; or -1 */
    uint64_t bytes; /* as announced */
    bool gone;      /* withdrawn by the peer, or the peer is gone */
};

/* What a peer has here, so that he cannot fill this process. */
struct client {
    uint32_t mappings, waiting;
};

struct btl {
    pthread_mutex_t lock;
    struct btl_host host;
    uint64_t last_id;
    struct hash clients;  /* peer → struct guest */
    struct hash kinds;    /* kind_key → struct kind */
    struct hash mappings; /* window_key → struct window */
    _Atomic unsigned warnings;
};

/* what is told to the peer */
enum shm_message_type { TELL_SLAB = 1, TELL_WITHDRAWN = 2 };
struct shm_tell {
    uint32_t what;
    uint32_t access;
    uint64_t id;
    uint64_t bytes;
};
static_assert(sizeof(struct shm_tell) == 24, "on the wire between processes");

/* key.word: slab id, offset, bytes, access */
enum { KEY_SLAB, KEY_OFFSET, KEY_BYTES, KEY_ACCESS };

#define ID_BITS 40

static uint64_t shm_mapping_key(int peer, uint64_t id)
{
    return (uint64_t)(uint32_t)peer << ID_BITS ^ id;
}

/* An id is what a peer says: one with more bits would name the window of another peer. */
static struct mapping *shm_find_mapping(struct btl *btl, int peer, uint64_t id)
{
    return id >> ID_BITS == 0 ? hash_get(&btl->mappings, shm_mapping_key(peer, id)) : NULL;
}

/* NULL: no memory. */
static struct client *shm_peer_of(struct btl *btl, int peer)
{
    struct client *g = hash_get(&btl->clients, (uint64_t)(uint32_t)peer);

    if (g != NULL)
        return g;
    g = calloc(1, sizeof(*g));
    if (g != NULL && hash_put(&btl->clients, (uint64_t)(uint32_t)peer, g) != 0) {
        free(g);
        g = NULL;
    }
    return g;
}

/* Different kinds may collide: the key is only where to begin to look, see find_kind. */
static uint64_t shm_kind_key(int peer, size_t bytes, uint32_t access, bool huge, uint64_t probe)
{
    return ((uint64_t)(uint32_t)peer << 43) ^ ((uint64_t)bytes << 2) ^ (uint64_t)(access << 1) ^
           (uint64_t)huge ^ (probe << 58);
}

static struct kind *shm_find_kind(struct btl *btl, int peer, size_t bytes, uint32_t access,
                                  bool huge)
{
    struct kind *k;
    uint64_t probe;

    for (probe = 0; probe < 64; probe++) {
        uint64_t key = shm_kind_key(peer, bytes, access, huge, probe);

        k = hash_get(&btl->kinds, key);
        if (k != NULL && k->peer == peer && k->chunk_bytes == bytes && k->access == access &&
            k->huge == huge)
            return k;
        if (k != NULL)
            continue;
        k = calloc(1, sizeof(*k));
        if (k == NULL)
            return NULL;
        k->peer = peer;
        k->access = access;
        k->huge = huge;
        k->chunk_bytes = bytes;
        list_init(&k->open);
        if (hash_put(&btl->kinds, key, k) != 0) {
            free(k);
            return NULL;
        }
        return k;
    }
    return NULL;
}

static int shm_send_to_peer(struct btl *btl, int peer, const struct shm_tell *t, int fd)
{
    return btl->host.send_to_peer(peer, t, sizeof(*t), fd >= 0 ? &fd : NULL, fd >= 0 ? 1 : 0);
}

static int shm_slab_make(struct btl *btl, struct kind *k, struct slab **out, struct error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pieces = k->pieces / 4 + 1;
    bool alone =
        k->access == BTL_PEER_ATOMICS; /* in its segment, so that it can be shown to others */
    struct shm_tell t;
    struct slab *s;
    int fd, rc;

    if (pieces > 1 && pieces * k->chunk_bytes > SLAB_MOST)
        pieces = SLAB_MOST / k->chunk_bytes > 0 ? SLAB_MOST / k->chunk_bytes : 1;
    pieces = alone ? 1
                   : (pieces * k->chunk_bytes + page - 1) / page * page /
                         k->chunk_bytes; /* whatever the last page still holds */
    s = calloc(1, sizeof(*s) + pieces * sizeof(s->free_memory[0]));
    if (s == NULL)
        return error_set(err, -ENOMEM, "no memory for the books of shared memory");
    rc = segment_make(pieces * k->chunk_bytes, k->access != BTL_PEER_READS, k->huge, &s->segment,
                      &fd, err);
    if (rc != 0)
        goto fail;
    s->pieces = (uint32_t)pieces;
    s->kind = k;
    s->id = ++btl->last_id;
    t = (struct shm_tell){TELL_SLAB, k->access, s->id, s->segment.bytes};
    rc = shm_send_to_peer(btl, k->peer, &t, fd);
    s->fd = alone && rc == 0 ? fd : -1;
    if (s->fd < 0)
        close(fd);
    if (rc != 0) {
        error_note(err, "shared memory cannot be passed to rank %d: %s", k->peer, strerror(-rc));
        segment_unmap(&s->segment);
        goto fail;
    }
    k->pieces += s->pieces;
    list_append(&k->open, &s->link);
    *out = s;
    return 0;
fail:
    free(s);
    return rc;
}

static void shm_slab_destroy(struct btl *btl, struct slab *s)
{
    struct shm_tell t = {TELL_WITHDRAWN, s->kind->access, s->id, 0};

    (void)shm_send_to_peer(btl, s->kind->peer, &t, -1); /* a peer that is gone needs no word */
    while (s->others > 0)
        (void)shm_send_to_peer(btl, s->other[--s->others], &t, -1);
    free(s->other);
    if (s->fd >= 0)
        close(s->fd);
    s->kind->pieces -= s->pieces;
    segment_unmap(&s->segment);
    free(s);
}

static int shm_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                     struct btl_memory *memory, struct error *err)
{
    struct kind *k;
    struct slab *s;
    uint32_t index;
    int rc = 0;

    bytes = (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    pthread_mutex_lock(&btl->lock);
    k = shm_find_kind(btl, peer, bytes, access, huge);
    if (k == NULL) {
        error_note(err, "no memory for the books of shared memory");
        rc = -ENOMEM;
    } else if (list_empty(&k->open)) {
        rc = shm_slab_make(btl, k, &s, err);
    }
    if (rc != 0) {
        pthread_mutex_unlock(&btl->lock);
        return rc;
    }
    s = container_of(k->open.next, struct slab, link);
    index = s->free_top > 0 ? s->free_memory[--s->free_top] : s->fresh++;
    if (++s->used == s->pieces)
        list_remove(&s->link);
    memory->base = (char *)s->segment.base + (size_t)index * k->chunk_bytes;
    memory->bytes = k->chunk_bytes;
    memory->slab = s;
    memory->key =
        (struct btl_key){{s->id, (uint64_t)index * k->chunk_bytes, k->chunk_bytes, access}};
    pthread_mutex_unlock(&btl->lock);
    return 0;
}

static void shm_free(struct btl *btl, struct btl_memory *memory)
{
    struct slab *s = memory->slab;

    if (s == NULL)
        return;
    pthread_mutex_lock(&btl->lock);
    if (s->used == s->pieces)
        list_append(&s->kind->open, &s->link);
    if (--s->used == 0) {
        list_remove(&s->link);
        shm_slab_destroy(btl, s);
    } else {
        s->free_memory[s->free_top++] =
            (uint32_t)(memory->key.word[KEY_OFFSET] / s->kind->chunk_bytes);
    }
    pthread_mutex_unlock(&btl->lock);
    memory->slab = NULL;
    memory->base = NULL;
}

/* The same segment to one more peer. Told before the key can arrive there, like that of any slab. */
static int shm_share(struct btl *btl, int peer, const struct btl_memory *memory,
                     struct btl_key *key, struct error *err)
{
    struct slab *s = memory->slab;
    struct shm_tell t;
    bool key_cache;
    int *more, rc = 0;
    size_t i;

    pthread_mutex_lock(&btl->lock);
    key_cache = s->kind->peer == peer;
    for (i = 0; i < s->others; i++)
        key_cache = key_cache || s->other[i] == peer;
    if (!key_cache) {
        more = realloc(s->other, (s->others + 1) * sizeof(*more));
        if (more != NULL)
            s->other = more;
        t = (struct shm_tell){TELL_SLAB, s->kind->access, s->id, s->segment.bytes};
        rc = more == NULL || s->fd < 0 ? -ENOMEM : shm_send_to_peer(btl, peer, &t, s->fd);
        if (rc == 0)
            s->other[s->others++] = peer;
        else
            error_note(err, "shared memory cannot be passed to rank %d: %s", peer, strerror(-rc));
    }
    pthread_mutex_unlock(&btl->lock);
    if (rc == 0)
        *key = memory->key;
    return rc;
}

/* ---- the peer's memory ---- */

/* Does not look for what else is counted: only for a window that has been. */
static void shm_mapping_free(struct btl *btl, struct mapping *w)
{
    struct client *g = hash_get(&btl->clients, (uint64_t)(uint32_t)w->peer);

    g->mappings--;
    g->waiting -= w->fd >= 0;
    segment_unmap(&w->segment);
    if (w->fd >= 0)
        close(w->fd);
    free(w);
}

static void shm_mapping_close(struct btl *btl, struct mapping *w)
{
    hash_remove(&btl->mappings, shm_mapping_key(w->peer, w->id));
    shm_mapping_free(btl, w);
}

static int shm_mapping_fill(struct mapping *w, struct client *g, int fd, struct error *err)
{
    int rc;

    if (fd < 0)
        return error_set(err, -EMFILE,
                         "there was no file descriptor left to receive it (see ulimit -n)");
    rc = segment_map(fd, w->bytes, w->access != BTL_PEER_READS, &w->segment, err);
    if (rc == -ENOMEM &&
        g->waiting < WAITING_MOST) { /* what there is no room for now, there may be later */
        w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        g->waiting += w->fd >= 0;
    }
    return rc;
}

/* What cannot be mapped is remembered too, so that the channels that need it can say why. */
static void shm_mapping_open(struct btl *btl, int peer, const struct shm_tell *t, int fd)
{
    struct client *g = shm_peer_of(btl, peer);
    bool fits =
        g != NULL && g->mappings < WINDOWS_MOST && shm_find_mapping(btl, peer, t->id) == NULL;
    struct mapping *w = fits ? calloc(1, sizeof(*w)) : NULL;
    struct error err = {"there is no memory for the books, or it passed this, or too much, before"};

    if (w != NULL) {
        *w = (struct mapping){
            .id = t->id, .peer = peer, .access = t->access, .bytes = t->bytes, .fd = -1};
        g->mappings++;
        w->error = shm_mapping_fill(w, g, fd, &err);
        if (hash_put(&btl->mappings, shm_mapping_key(peer, t->id), w) != 0)
            shm_mapping_free(btl, w);
        else if (w->error == 0)
            return;
    }
    log_few(&btl->warnings, "shared memory of rank %d is refused: %s", peer,
            err.text); /* its channels will say so too */
}

static void shm_message(struct btl *btl, int peer, const void *body, size_t bytes, const int *fds,
                        int nfds)
{
    struct shm_tell t;
    struct mapping *w;
    int i;

    if (bytes != sizeof(t)) {
        log_few(&btl->warnings,
                "rank %d says something about shared memory that this version does not understand",
                peer);
        goto out;
    }
    memcpy(&t, body, sizeof(t));
    pthread_mutex_lock(&btl->lock);
    if (t.what == TELL_SLAB && nfds == 1 && t.access <= BTL_PEER_ATOMICS && t.id >> ID_BITS == 0) {
        shm_mapping_open(btl, peer, &t, fds[0]);
    } else if (t.what == TELL_WITHDRAWN && (w = shm_find_mapping(btl, peer, t.id)) != NULL) {
        w->gone = true;
        if (w->attached == 0)
            shm_mapping_close(btl, w);
    }
    pthread_mutex_unlock(&btl->lock);
out:
    for (i = 0; i < nfds; i++)
        close(fds[i]);
}

static void shm_mapping_map_again(struct btl *btl, struct mapping *w, struct error *err)
{
    struct client *g = hash_get(&btl->clients, (uint64_t)(uint32_t)w->peer);

    w->error = segment_map(w->fd, w->bytes, w->access != BTL_PEER_READS, &w->segment, err);
    if (w->error != 0)
        return;
    close(w->fd);
    w->fd = -1;
    g->waiting--;
}

static int shm_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                      uint32_t access, struct btl_remote *remote, struct error *err)
{
    uint64_t offset = key->word[KEY_OFFSET], length = key->word[KEY_BYTES];
    struct mapping *w;
    int rc = 0;

    pthread_mutex_lock(&btl->lock);
    w = shm_find_mapping(btl, peer, key->word[KEY_SLAB]);
    if (w != NULL && w->fd >= 0)
        shm_mapping_map_again(btl, w, err);
    if (w == NULL || w->gone) {
        error_note(err,
                   "the shared memory that rank %d names has not been passed, or was refused (see "
                   "the log)",
                   peer);
        rc = -EPROTO;
    } else if (w->error != 0) {
        error_note(err, "the shared memory that rank %d passed cannot be mapped at rank %d: %s%s",
                   peer, btl->host.rank, strerror(-w->error),
                   w->error == -ENOMEM
                       ? " (address space, ulimit -v; or mappings, vm.max_map_count)"
                   : w->error == -EMFILE ? " (see ulimit -n)"
                                         : "");
        rc = w->error;
    } else if (w->access != access || length < bytes || offset > w->segment.bytes ||
               length > w->segment.bytes - offset || offset % CACHE_LINE != 0) {
        error_note(err, "rank %d names memory that is not in what it passed", peer);
        rc = -EPROTO;
    } else {
        w->attached++;
        remote->base = (char *)w->segment.base + offset;
        remote->bytes = length;
        remote->mapping = w;
    }
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

static void shm_detach(struct btl *btl, struct btl_remote *remote)
{
    struct mapping *w = remote->mapping;

    if (w == NULL)
        return;
    pthread_mutex_lock(&btl->lock);
    if (--w->attached == 0 && w->gone)
        shm_mapping_close(btl, w);
    pthread_mutex_unlock(&btl->lock);
    remote->mapping = NULL;
    remote->base = NULL;
}

static void shm_peer_gone(struct btl *btl, int peer)
{
    size_t cursor = 0;
    struct mapping *w, **idle;
    size_t n = 0;

    pthread_mutex_lock(&btl->lock);
    idle = btl->mappings.used > 0 ? malloc(btl->mappings.used * sizeof(w)) : NULL;
    while ((w = hash_next(&btl->mappings, &cursor)) != NULL) {
        if (w->peer != peer)
            continue;
        w->gone = true;
        if (w->attached == 0 && idle != NULL)
            idle[n++] = w;
    }
    while (n > 0)
        shm_mapping_close(btl, idle[--n]);
    free(idle);
    pthread_mutex_unlock(&btl->lock);
}

/* ---- the backend ---- */

static int shm_query(struct error *err) { return segment_query(err); }

static int shm_open(const struct btl_host *host, struct btl **out, struct error *err)
{
    struct btl *btl = calloc(1, sizeof(*btl));

    if (btl == NULL)
        return error_set(err, -ENOMEM, "no memory");
    btl->host = *host;
    log_set_level((enum log_level)host->log_level);
    log_set_rank(host->rank);
    pthread_mutex_init(&btl->lock, NULL);
    hash_init(&btl->kinds);
    hash_init(&btl->mappings);
    hash_init(&btl->clients);
    *out = btl;
    return 0;
}

static void shm_close(struct btl *btl)
{
    size_t cursor = 0;
    struct kind *k;
    struct mapping *w;
    struct client *g;

    while ((w = hash_next(&btl->mappings, &cursor)) != NULL)
        shm_mapping_free(btl, w);
    cursor = 0;
    while ((g = hash_next(&btl->clients, &cursor)) != NULL)
        free(g);
    cursor = 0;
    while ((k = hash_next(&btl->kinds, &cursor)) != NULL)
        free(
            k); /* its pieces have been freed by their channels, and the slabs with the last of them */
    hash_free(&btl->clients);
    hash_free(&btl->mappings);
    hash_free(&btl->kinds);
    pthread_mutex_destroy(&btl->lock);
    free(btl);
}

static void shm_forked(struct btl *btl) { pthread_mutex_init(&btl->lock, NULL); }

static int shm_reach(struct btl *btl, int peer, struct error *err)
{
    return btl->host.fd_path(peer, err);
}

extern const struct btl_ops btl_shm_ops;
__attribute__((visibility("default"))) const struct btl_ops btl_shm_ops = {
    .version = BTL_OPS_VERSION,
    .name = "shm",
    .attributes = {.capabilities = BTL_LOAD_STORE, .alignment = CACHE_LINE},
    .query = shm_query,
    .open = shm_open,
    .close = shm_close,
    .forked = shm_forked,
    .reach = shm_reach,
    .message = shm_message,
    .peer_gone = shm_peer_gone,
    .alloc = shm_alloc,
    .free = shm_free,
    .share = shm_share,
    .attach = shm_attach,
    .detach = shm_detach,
};
