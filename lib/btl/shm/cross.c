/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cross.c: see cross.h.
 *
 * The kernel decides which processes may access another one: those of the same user, as far as Yama,
 * namespaces and seccomp permit it. Nothing is changed here to get that permission; whether there is one is found
 * out by reading the record.
 */
#include "btl/shm/cross.h"

#include "btl/shm/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

/* Words of struct btl_key, before KEY_ACCESS. */
enum { CROSS_RECORD, CROSS_COOKIE, CROSS_BASE };
static_assert((int)CROSS_BASE < (int)KEY_ACCESS, "words of a key");

/* In the owner; its peer reads it. */
struct cross_record {
    _Atomic uint64_t cookie;
    uint64_t base, bytes, access;
};
static_assert(sizeof(struct cross_record) == 32, "read by other processes");

struct cross_lent {
    struct cross_record record;
    struct cross_lent *next, *next_free;
};

/* Private memory of a peer. */
struct cross_remote {
    int pid;
    uint64_t record, cookie, base;
};

void cross_init(struct cross *cross, const struct btl_host *host)
{
    *cross = (struct cross){.host = host};
    pthread_mutex_init(&cross->lock, NULL);
}

void cross_destroy(struct cross *cross)
{
    struct cross_lent *l;

    while ((l = cross->all) != NULL) {
        cross->all = l->next;
        atomic_store_explicit(&l->record.cookie, 0, memory_order_seq_cst); /* before its memory */
        free(l);
    }
    pthread_mutex_destroy(&cross->lock);
}

void cross_forked(struct cross *cross)
{
    pthread_mutex_init(&cross->lock, NULL);
    /* acquire: pairs with cross_take, in which another thread may have been */
    for (struct cross_lent *l = atomic_load_explicit(&cross->all, memory_order_acquire); l != NULL;
         l = l->next)
        atomic_store_explicit(&l->record.cookie, 0, memory_order_seq_cst);
}

static int cross_check_setting(const struct cross *cross, struct error *err)
{
    if (strcmp(cross->host->setting("RPIPE_CROSS"), "0") != 0)
        return 0;
    return error_set(err, -ENOTSUP,
                     "it is private memory, and RPIPE_CROSS is 0 at rank %d; use memory of the "
                     "library (rregion_open without a pipe and a buffer)",
                     cross->host->rank);
}

/* ---- the owner ---- */

static uint64_t cross_random(void)
{
    uint64_t cookie = 0;

    while (cookie == 0)
        if (getrandom(&cookie, sizeof(cookie), 0) != (ssize_t)sizeof(cookie))
            cookie = 0;
    return cookie;
}

/* Lock held. NULL: there is no memory. */
static struct cross_lent *cross_take(struct cross *cross)
{
    struct cross_lent *l = cross->free;

    if (l != NULL) {
        cross->free = l->next_free;
        return l;
    }
    l = calloc(1, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->next = atomic_load_explicit(&cross->all, memory_order_relaxed);
    atomic_store_explicit(&cross->all, l, memory_order_release); /* pairs with cross_forked */
    return l;
}

int cross_lend(struct cross *cross, void *base, size_t bytes, uint32_t access,
               struct btl_memory *memory, struct error *err)
{
    struct cross_lent *l;
    uint64_t cookie;
    int rc = cross_check_setting(cross, err);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&cross->lock);
    l = cross_take(cross);
    pthread_mutex_unlock(&cross->lock);
    if (l == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the record of lent memory");
    cookie = cross_random();
    l->record.base = (uintptr_t)base;
    l->record.bytes = bytes;
    l->record.access = access;
    atomic_store_explicit(&l->record.cookie, cookie,
                          memory_order_release); /* complete from here on */
    memory->key =
        (struct btl_key){{(uintptr_t)&l->record, cookie, (uintptr_t)base, access | KEY_CROSS}};
    memory->slab = l;
    return 0;
}

void cross_end(struct cross *cross, struct btl_memory *memory)
{
    struct cross_lent *l = memory->slab;

    atomic_store_explicit(&l->record.cookie, 0, memory_order_seq_cst);
    pthread_mutex_lock(&cross->lock);
    l->next_free = cross->free;
    cross->free = l;
    pthread_mutex_unlock(&cross->lock);
}

/* ---- the peer ---- */

static int cross_refused(int error, struct error *err)
{
    switch (error) {
    case EPERM:
        return error_set(err, -ENOTSUP,
                         "the kernel does not permit access to its memory (process_vm_readv: %s; "
                         "kernel.yama.ptrace_scope, user namespaces or seccomp); use memory of the "
                         "library (rregion_open without a pipe and a buffer)",
                         strerror(error));
    case ENOSYS:
        return error_set(err, -ENOTSUP, "this kernel has no process_vm_readv");
    case ESRCH:
        return error_set(err, -ESRCH, "its process has ended");
    case ENOMEM:
        return error_set(err, -ENOMEM, "the kernel has no memory for process_vm_readv");
    default:
        return error_set(err, -EPROTO, "its memory is not there (process_vm_readv: %s)",
                         strerror(error));
    }
}

/* The cookie, and behind it up to *bytes bytes at `far`, by one call. *bytes becomes the number of those. */
static int cross_read(const struct cross_remote *c, uint64_t far, void *memory, size_t *bytes,
                      struct error *err)
{
    uint64_t cookie = 0;
    const struct iovec here[] = {{&cookie, sizeof(cookie)}, {memory, *bytes}},
                       there[] = {{(void *)(uintptr_t)c->record, sizeof(cookie)},
                                  {(void *)(uintptr_t)far, *bytes}};
    const ssize_t n = process_vm_readv(c->pid, here, 2, there, 2, 0);

    if (n < 0)
        return cross_refused(errno, err);
    if (n < (ssize_t)sizeof(cookie) || cookie != c->cookie)
        return error_set(err, -EPROTO, "the window has been closed by its owner");
    if (*bytes > 0 && n == (ssize_t)sizeof(cookie))
        return cross_refused(EFAULT, err);
    *bytes = (size_t)n - sizeof(cookie);
    return 0;
}

static int cross_write(const struct cross_remote *c, uint64_t far, void *memory, size_t *bytes,
                       struct error *err)
{
    const struct iovec here = {memory, *bytes}, there = {(void *)(uintptr_t)far, *bytes};
    size_t none = 0;
    ssize_t n;
    int rc = cross_read(c, c->base, NULL, &none, err);

    if (rc != 0)
        return rc;
    n = process_vm_writev(c->pid, &here, 1, &there, 1, 0);
    if (n <= 0)
        return cross_refused(n < 0 ? errno : EFAULT, err);
    *bytes = (size_t)n;
    return 0;
}

int cross_copy(const struct btl_remote *remote, uint64_t offset, void *memory, size_t bytes,
               bool to_peer, struct error *err)
{
    const struct cross_remote *c = remote->mapping;
    size_t done = 0;

    while (done < bytes) {
        const uint64_t far = c->base + offset + done;
        size_t n = bytes - done;
        int rc = to_peer ? cross_write(c, far, (char *)memory + done, &n, err)
                         : cross_read(c, far, (char *)memory + done, &n, err);

        if (rc != 0)
            return rc;
        done += n;
    }
    return 0;
}

/* Whether the owner has lent what the key names: it is compared with the record in its memory. */
static int cross_check_record(const struct cross_remote *c, size_t bytes, uint32_t access,
                              struct error *err)
{
    struct {
        uint64_t cookie, base, bytes, access;
    } record = {0};
    size_t n = sizeof(record);
    int rc = cross_read(c, c->record, &record, &n, err);

    if (rc != 0)
        return rc;
    if (n != sizeof(record) || record.base != c->base || record.bytes != bytes ||
        record.access != access)
        return error_set(err, -EPROTO,
                         "the handle names %zu bytes with access %u; the owner has lent %llu bytes "
                         "with access %llu",
                         bytes, access, (unsigned long long)record.bytes,
                         (unsigned long long)record.access);
    return 0;
}

int cross_borrow(struct cross *cross, int peer, const struct btl_key *key, size_t bytes,
                 uint32_t access, struct btl_remote *remote, struct error *err)
{
    struct cross_remote probe = {.record = key->word[CROSS_RECORD],
                                 .cookie = key->word[CROSS_COOKIE],
                                 .base = key->word[CROSS_BASE]},
                        *c;
    int rc = cross_check_setting(cross, err);

    if (rc == 0)
        rc = cross->host->process(peer, &probe.pid, err);
    if (rc == 0 && probe.cookie == 0)
        rc = error_set(err, -EPROTO, "its cookie is 0");
    if (rc == 0)
        rc = cross_check_record(&probe, bytes, access, err);
    if (rc != 0)
        return rc;
    c = malloc(sizeof(*c));
    if (c == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of a window");
    *c = probe;
    *remote = (struct btl_remote){.bytes = bytes, .mapping = c};
    return 0;
}

void cross_detach(struct btl_remote *remote)
{
    free(remote->mapping);
    remote->mapping = NULL;
}
