/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm.c: the shared-memory backend.
 *
 * Own memory comes from slabs (slab.h). A slab is one segment (segment.h), which is passed to its
 * peer, with its descriptor, when it is created: before the key of any of its blocks can arrive
 * there, since both travel the same FIFO. When the slab is freed, the peer is notified. The
 * segments of peers are in mapping.c.
 *
 * Memory of the user is lent: a segment is passed like that of a slab, private memory is recorded
 * (cross.h), and memory of a device has a descriptor that is passed and not mapped (descriptor.h).
 *
 * Locks: that of the slab pool, which serializes the callbacks below; inside of it `sharing`, under
 * which segments get their ids and are passed, so that a peer receives growing ids; that of the
 * mappings, alone.
 */
#include "btl/btl.h"
#include "btl/shm/cross.h"
#include "btl/shm/descriptor.h"
#include "btl/shm/mapping.h"
#include "util/segment.h"
#include "btl/slab.h"

#include "util/cpu.h"
#include "util/list.h"
#include "util/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct btl {
    struct btl_host host;
    struct slab_pool *slabs;
    struct mapping_table mappings;
    struct descriptor_table descriptors;
    pthread_mutex_t sharing; /* of last_id, lent, and shm_segment.other */
    uint64_t last_id;        /* of a segment */
    struct link lent;        /* struct shm_lent */
    struct cross cross;
};

/* A segment of the user's that a peer may map, or another descriptor that it may have. */
struct shm_lent {
    struct link link;
    uint64_t id;
    int peer;
};

/* A segment of this process: the registration of its slab. */
struct shm_segment {
    struct segment segment;
    uint64_t id;
    int fd;     /* BTL_PEER_ATOMICS: kept to be passed to further peers; or -1 */
    int *other; /* those peers */
    size_t others;
};

/* ---- messages between the backends of two ranks ---- */

static int shm_send_to_peer(const struct btl *btl, int peer, const struct shm_message *m, int fd)
{
    return btl->host.send_to_peer(peer, m, sizeof(*m), fd >= 0 ? &fd : NULL, fd >= 0 ? 1 : 0);
}

static int shm_pass(const struct btl *btl, int peer, const struct shm_message *m, int fd,
                    struct error *err)
{
    const int rc = shm_send_to_peer(btl, peer, m, fd);

    if (rc != 0)
        error_note(err, "shared memory of %llu bytes cannot be passed to rank %d: %s",
                   (unsigned long long)m->bytes, peer, strerror(-rc));
    return rc;
}

static int shm_pass_segment(const struct btl *btl, int peer, const struct shm_segment *s,
                            uint32_t access, int fd, struct error *err)
{
    const struct shm_message m = {SHM_SEGMENT, access, s->id, s->segment.bytes};

    return shm_pass(btl, peer, &m, fd, err);
}

static void shm_message(struct btl *btl, int peer, const void *body, size_t bytes, const int *fds,
                        int nfds)
{
    struct shm_message m = {0};

    if (bytes == sizeof(m))
        memcpy(&m, body, sizeof(m));
    else
        log_few(&btl->mappings.warnings,
                "rank %d: malformed message about shared memory ignored (%zu bytes, expected %zu)",
                peer, bytes, sizeof(m));
    if (m.type == SHM_SEGMENT && nfds == 1 && m.access <= BTL_PEER_ATOMICS &&
        m.id >> MAPPING_ID_BITS == 0)
        mapping_announced(&btl->mappings, peer, m.id, m.access, m.bytes, fds[0]);
    else if (m.type == SHM_DESCRIPTOR && nfds == 1)
        descriptor_announced(&btl->descriptors, peer, m.id, m.bytes, fds[0]);
    else if (m.type == SHM_REVOKED) {
        mapping_revoked(&btl->mappings, peer, m.id);
        descriptor_revoked(&btl->descriptors, peer, m.id);
    }
}

/* ---- own memory: the source of slabs ---- */

static int shm_map(void *backend, struct slab_range *r, struct error *err)
{
    struct shm_segment *s = calloc(1, sizeof(*s));
    int rc;

    (void)backend;
    if (s == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of a segment");
    rc = segment_make(r->bytes, r->access != BTL_PEER_READS, r->huge, &s->segment, &s->fd, err);
    if (rc != 0) {
        free(s);
        return rc;
    }
    segment_populate(&s->segment);
    r->base = s->segment.base;
    r->bytes = s->segment.bytes;
    r->registration = s;
    return 0;
}

static void shm_unmap(void *backend, struct slab_range *r)
{
    struct shm_segment *s = r->registration;

    (void)backend;
    if (s->fd >= 0)
        close(s->fd);
    segment_unmap(&s->segment);
    free(s->other);
    free(s);
}

static int shm_register(void *backend, struct slab_range *r, struct error *err)
{
    struct shm_segment *s = r->registration;
    struct btl *btl = backend;
    int rc;

    pthread_mutex_lock(&btl->sharing);
    s->id = ++btl->last_id;
    rc = shm_pass_segment(btl, r->peer, s, r->access, s->fd, err);
    pthread_mutex_unlock(&btl->sharing);
    if (rc == 0 && r->access != BTL_PEER_ATOMICS) {
        close(s->fd);
        s->fd = -1;
    }
    return rc;
}

/* A peer that is gone is not notified, which does no harm. */
static void shm_deregister(void *backend, struct slab_range *r)
{
    struct shm_segment *s = r->registration;
    const struct shm_message m = {SHM_REVOKED, r->access, s->id, 0};

    (void)shm_send_to_peer(backend, r->peer, &m, -1);
    while (s->others > 0)
        (void)shm_send_to_peer(backend, s->other[--s->others], &m, -1);
}

static void shm_key(void *backend, const struct slab_range *r, size_t offset, size_t bytes,
                    struct btl_key *key)
{
    const struct shm_segment *s = r->registration;

    (void)backend;
    *key = (struct btl_key){{s->id, offset, bytes, r->access}};
}

static const struct slab_source shm_source = {shm_map, shm_unmap, shm_register, shm_deregister,
                                              shm_key};

static int shm_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                     struct btl_memory *memory, struct error *err)
{
    return slab_alloc(btl->slabs, peer, bytes, access, huge, memory, err);
}

/* ---- memory of the user ---- */

/* Passes a descriptor to a peer, and records it until shm_end_segment. `kind`: of the key. */
static int shm_lend_fd(struct btl *btl, int peer, const struct shm_message *passed, int fd,
                       uint64_t kind, struct btl_memory *memory, struct error *err)
{
    struct shm_lent *l = calloc(1, sizeof(*l));
    struct shm_message m = *passed;
    int rc;

    if (l == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of a segment");
    l->peer = peer;
    pthread_mutex_lock(&btl->sharing);
    l->id = m.id = ++btl->last_id;
    rc = shm_pass(btl, peer, &m, fd, err);
    if (rc == 0)
        list_append(&btl->lent, &l->link);
    pthread_mutex_unlock(&btl->sharing);
    if (rc != 0) {
        free(l);
        return rc;
    }
    memory->key = (struct btl_key){{l->id, 0, memory->bytes, m.access | kind}};
    memory->slab = l;
    return 0;
}

static void shm_end_segment(struct btl *btl, struct shm_lent *l)
{
    const struct shm_message m = {SHM_REVOKED, 0, l->id, 0};

    (void)shm_send_to_peer(btl, l->peer, &m, -1);
    pthread_mutex_lock(&btl->sharing);
    list_remove(&l->link);
    pthread_mutex_unlock(&btl->sharing);
    free(l);
}

static int shm_lend(struct btl *btl, int peer, void *base, size_t bytes, int fd, uint32_t access,
                    struct btl_memory *memory, struct error *err)
{
    const struct shm_message m = {SHM_SEGMENT, access, 0, segment_bytes(bytes)};

    memory->base = base;
    memory->bytes = bytes;
    return fd >= 0 ? shm_lend_fd(btl, peer, &m, fd, KEY_LENT, memory, err)
                   : cross_lend(&btl->cross, base, bytes, access, memory, err);
}

static int shm_lend_descriptor(struct btl *btl, int peer, int fd, size_t bytes,
                               struct btl_memory *memory, struct error *err)
{
    const struct shm_message m = {SHM_DESCRIPTOR, 0, 0, bytes};

    memory->bytes = bytes;
    return shm_lend_fd(btl, peer, &m, fd, KEY_DESCRIPTOR, memory, err);
}

static void shm_free(struct btl *btl, struct btl_memory *memory)
{
    const uint64_t kind = memory->slab != NULL ? memory->key.word[KEY_ACCESS] : 0;

    if ((kind & KEY_CROSS) != 0)
        cross_end(&btl->cross, memory);
    else if ((kind & (KEY_LENT | KEY_DESCRIPTOR)) != 0)
        shm_end_segment(btl, memory->slab);
    else
        slab_free(btl->slabs, memory);
    memory->slab = NULL;
}

/* ---- further peers ---- */

static bool shm_has_segment(const struct shm_segment *s, int owner, int peer)
{
    bool has = owner == peer;

    for (size_t i = 0; i < s->others; i++)
        has = has || s->other[i] == peer;
    return has;
}

/*
 * Passes the segment of a block to one more peer, before the key can arrive there, like that of any
 * slab.
 */
static int shm_share(struct btl *btl, int peer, const struct btl_memory *memory,
                     struct btl_key *key, struct error *err)
{
    struct shm_segment *s = slab_registration(memory);
    int *more, rc = 0;

    pthread_mutex_lock(&btl->sharing);
    if (!shm_has_segment(s, slab_peer(memory), peer)) {
        more = realloc(s->other, (s->others + 1) * sizeof(*more));
        if (more != NULL)
            s->other = more;
        if (more == NULL)
            rc = error_set(err, -ENOMEM, "there is no memory for one more peer of a segment");
        else if (s->fd < 0)
            rc = error_set(err, -EINVAL, "memory without BTL_PEER_ATOMICS cannot be shared");
        else
            rc = shm_pass_segment(btl, peer, s, BTL_PEER_ATOMICS, s->fd, err);
        if (rc == 0)
            s->other[s->others++] = peer;
    }
    pthread_mutex_unlock(&btl->sharing);
    if (rc == 0)
        *key = memory->key;
    return rc;
}

/* ---- memory of peers ---- */

static int shm_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                      uint32_t access, struct btl_remote *remote, struct error *err)
{
    return mapping_attach(&btl->mappings, peer, key, bytes, access, remote, err);
}

static int shm_borrow(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                      uint32_t access, struct btl_remote *remote, struct error *err)
{
    const uint64_t kind = key->word[KEY_ACCESS];

    if (kind == (access | KEY_CROSS))
        return cross_borrow(&btl->cross, peer, key, bytes, access, remote, err);
    if (kind == (access | KEY_LENT))
        return mapping_borrow(&btl->mappings, peer, key, bytes, access, remote, err);
    return error_set(err, -EPROTO, "the key of rank %d has access 0x%llx; expected 0x%x", peer,
                     (unsigned long long)kind, access);
}

static int shm_borrow_descriptor(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                                 int *fd, struct error *err)
{
    if (key->word[KEY_ACCESS] != KEY_DESCRIPTOR)
        return error_set(err, -EPROTO, "the key of rank %d does not name memory of a device", peer);
    return descriptor_borrow(&btl->descriptors, peer, key->word[KEY_SLAB], bytes, fd, err);
}

static int shm_copy(struct btl *btl, const struct btl_remote *remote, uint64_t offset, void *memory,
                    size_t bytes, bool to_peer, struct error *err)
{
    (void)btl;
    return cross_copy(remote, offset, memory, bytes, to_peer, err);
}

/* Private memory of a peer has no address here. */
static void shm_detach(struct btl *btl, struct btl_remote *remote)
{
    if (remote->mapping != NULL && remote->base == NULL)
        cross_detach(remote);
    else
        mapping_detach(&btl->mappings, remote);
}

static void shm_peer_gone(struct btl *btl, int peer)
{
    mapping_peer_gone(&btl->mappings, peer);
    descriptor_peer_gone(&btl->descriptors, peer);
}

/* ---- the backend ---- */

static int shm_query(struct error *err) { return segment_query(err); }

static int shm_open(const struct btl_host *host, struct btl **out, struct error *err)
{
    struct btl *btl = calloc(1, sizeof(*btl));

    if (btl == NULL || slab_pool_create(&shm_source, btl, &btl->slabs) != 0) {
        free(btl);
        return error_set(err, -ENOMEM, "there is no memory for the backend");
    }
    btl->host = *host;
    log_set_level((enum log_level)host->log_level);
    log_set_rank(host->rank);
    pthread_mutex_init(&btl->sharing, NULL);
    list_init(&btl->lent);
    cross_init(&btl->cross, &btl->host);
    mapping_table_init(&btl->mappings, host->rank);
    descriptor_table_init(&btl->descriptors, host->close_received);
    *out = btl;
    return 0;
}

static void shm_close(struct btl *btl)
{
    while (!list_empty(&btl->lent))
        shm_end_segment(btl, container_of(btl->lent.next, struct shm_lent, link));
    slab_pool_destroy(btl->slabs);
    cross_destroy(&btl->cross);
    mapping_table_destroy(&btl->mappings);
    descriptor_table_destroy(&btl->descriptors);
    pthread_mutex_destroy(&btl->sharing);
    free(btl);
}

static void shm_forked(struct btl *btl)
{
    slab_pool_forked(btl->slabs);
    mapping_table_forked(&btl->mappings);
    descriptor_table_forked(&btl->descriptors);
    pthread_mutex_init(&btl->sharing, NULL);
    cross_forked(&btl->cross);
}

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
    .lend = shm_lend,
    .lend_descriptor = shm_lend_descriptor,
    .attach = shm_attach,
    .detach = shm_detach,
    .borrow = shm_borrow,
    .borrow_descriptor = shm_borrow_descriptor,
    .copy = shm_copy,
};
