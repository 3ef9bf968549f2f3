/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor.c: see descriptor.h.
 *
 * Invariant, under `lock`: descriptor_peer.newest is the largest id that the peer has announced, also if it was refused: a borrower does
 * not wait for it. A peer has one from its first announcement until it is gone.
 */
#include "btl/shm/descriptor.h"

#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct descriptor {
    struct link link;
    int peer, fd;
    bool borrowed; /* by an end, which counts as a pipe and not as something that is only passed */
    uint64_t id, bytes;
};

struct descriptor_peer {
    struct link link;
    int peer;
    uint64_t newest;
};

static void descriptor_drop(const struct descriptor_table *table, struct descriptor *d)
{
    list_remove(&d->link);
    table->close(d->fd);
    free(d);
}

/* NULL: not there. *held: how many this peer has passed that no end uses. Under the lock. */
static struct descriptor *descriptor_find(struct descriptor_table *table, int peer, uint64_t id,
                                          int *held)
{
    struct link *at, *after;
    struct descriptor *found = NULL;

    *held = 0;
    list_for_each (at, after, &table->all) {
        struct descriptor *d = container_of(at, struct descriptor, link);

        if (d->peer != peer)
            continue;
        *held += !d->borrowed;
        if (d->id == id)
            found = d;
    }
    return found;
}

/* NULL: it has announced nothing. Under the lock. */
static struct descriptor_peer *descriptor_peer_find(struct descriptor_table *table, int peer)
{
    struct link *at, *after;

    list_for_each (at, after, &table->peers) {
        struct descriptor_peer *p = container_of(at, struct descriptor_peer, link);

        if (p->peer == peer)
            return p;
    }
    return NULL;
}

/* Without memory for the record a borrower of what has been refused waits until its deadline. */
static void descriptor_note(struct descriptor_table *table, int peer, uint64_t id)
{
    struct descriptor_peer *p = descriptor_peer_find(table, peer);

    if (p == NULL) {
        p = calloc(1, sizeof(*p));
        if (p == NULL)
            return;
        p->peer = peer;
        list_append(&table->peers, &p->link);
    }
    if (p->newest < id)
        p->newest = id;
}

static void descriptor_peer_drop(struct descriptor_peer *p)
{
    list_remove(&p->link);
    free(p);
}

void descriptor_announced(struct descriptor_table *table, int peer, uint64_t id, uint64_t bytes,
                          int fd)
{
    const char *refused = NULL;
    struct descriptor *d;
    int held;

    pthread_mutex_lock(&table->lock);
    descriptor_note(table, peer, id);
    if (descriptor_find(table, peer, id, &held) != NULL)
        refused = "it has passed this one before";
    else if (held >= DESCRIPTORS_MOST)
        refused = "it has passed too many";
    else if (fd < 0)
        refused = "there was no file descriptor left to receive it (see ulimit -n)";
    d = refused == NULL ? calloc(1, sizeof(*d)) : NULL;
    if (d != NULL && (d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0) {
        d->peer = peer;
        d->id = id;
        d->bytes = bytes;
        list_append(&table->all, &d->link);
    } else {
        free(d);
        log_few(&table->warnings, "memory of a device that rank %d passed is refused: %s", peer,
                refused != NULL ? refused : "there is no memory or no descriptor for it");
    }
    pthread_mutex_unlock(&table->lock);
}

void descriptor_revoked(struct descriptor_table *table, int peer, uint64_t id)
{
    struct descriptor *d;
    int held;

    pthread_mutex_lock(&table->lock);
    d = descriptor_find(table, peer, id, &held);
    if (d != NULL)
        descriptor_drop(table, d);
    pthread_mutex_unlock(&table->lock);
}

void descriptor_peer_gone(struct descriptor_table *table, int peer)
{
    struct descriptor_peer *p;
    struct link *at, *after;

    pthread_mutex_lock(&table->lock);
    p = descriptor_peer_find(table, peer);
    if (p != NULL)
        descriptor_peer_drop(p);
    list_for_each (at, after, &table->all) {
        struct descriptor *d = container_of(at, struct descriptor, link);

        if (d->peer == peer)
            descriptor_drop(table, d);
    }
    pthread_mutex_unlock(&table->lock);
}

int descriptor_borrow(struct descriptor_table *table, int peer, uint64_t id, size_t bytes, int *fd,
                      struct error *err)
{
    const struct descriptor_peer *p;
    struct descriptor *d;
    int held, rc = 0;

    pthread_mutex_lock(&table->lock);
    p = descriptor_peer_find(table, peer);
    d = descriptor_find(table, peer, id, &held);
    if (d == NULL && (p == NULL || id > p->newest))
        rc = error_set(err, -EAGAIN,
                       "rank %d names %zu bytes of memory of a device that has not arrived", peer,
                       bytes);
    else if (d == NULL || d->bytes < bytes)
        rc = error_set(err, -EPROTO,
                       "rank %d names %zu bytes of memory of a device that it has not passed, or "
                       "that was refused (see the log)",
                       peer, bytes);
    else if ((*fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 0)) < 0)
        rc = error_set(err, -errno, "memory of a device that rank %d passed: %s", peer,
                       strerror(errno));
    if (rc == 0)
        d->borrowed = true;
    pthread_mutex_unlock(&table->lock);
    return rc;
}

static void descriptor_close(int fd) { (void)close(fd); }

void descriptor_table_init(struct descriptor_table *table, void (*close_received)(int fd))
{
    pthread_mutex_init(&table->lock, NULL);
    list_init(&table->all);
    list_init(&table->peers);
    table->close = close_received != NULL ? close_received : descriptor_close;
}

void descriptor_table_destroy(struct descriptor_table *table)
{
    while (!list_empty(&table->all))
        descriptor_drop(table, container_of(table->all.next, struct descriptor, link));
    while (!list_empty(&table->peers))
        descriptor_peer_drop(container_of(table->peers.next, struct descriptor_peer, link));
    pthread_mutex_destroy(&table->lock);
}

void descriptor_table_forked(struct descriptor_table *table)
{
    pthread_mutex_init(&table->lock, NULL);
}
