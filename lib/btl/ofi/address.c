/* SPDX-License-Identifier: BSD-3-Clause */
/* address.c: see address.h. */
#include "btl/ofi/address.h"

#include "util/hash.h"
#include "util/list.h"
#include "util/log.h"
#include "util/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Entries by the rank that has sent the address. A rank has one endpoint without streams, whose entry stays for the next connection: a provider
 * may end its own connection with the entry. Of a rank that sends others, IDLE without a use stay.
 */
#define IDLE 4

struct ofi_rank {
    int rank;
    struct link entries; /* ofi_peer.of_rank */
    struct link idle;    /* ofi_peer.idle: those without a use; the oldest first */
    unsigned idle_count;
};

static struct ofi_rank *address_rank(struct ofi_endpoint *e, int rank)
{
    struct ofi_rank *r = hash_get(&e->ranks, (uint64_t)(uint32_t)rank);

    if (r != NULL)
        return r;
    r = calloc(1, sizeof(*r));
    if (r == NULL || hash_put(&e->ranks, (uint64_t)(uint32_t)rank, r) != 0) {
        free(r);
        return NULL;
    }
    r->rank = rank;
    list_init(&r->entries);
    list_init(&r->idle);
    return r;
}

static void address_rank_put(struct ofi_endpoint *e, struct ofi_rank *r)
{
    if (!list_empty(&r->entries))
        return;
    hash_remove(&e->ranks, (uint64_t)(uint32_t)r->rank);
    free(r);
}

static void address_belong(struct ofi_peer *p, struct ofi_rank *r)
{
    p->of = r;
    list_append(&r->entries, &p->of_rank);
}

static void address_use(struct ofi_peer *p)
{
    p->uses++;
    if (p->of == NULL || list_empty(&p->idle))
        return;
    list_remove(&p->idle);
    p->of->idle_count--;
}

static uint64_t address_hash(const struct btl_address *address, uint64_t probe)
{
    return hash_secret_bytes(address->byte, address->bytes) + probe;
}

static bool address_same(const struct btl_address *a, const struct btl_address *b)
{
    return a->bytes == b->bytes && memcmp(a->byte, b->byte, a->bytes) == 0;
}

static int address_check(const struct ofi_endpoint *e, const struct btl_address *address,
                         struct error *err)
{
    struct ofi_name mine, name;

    if (address->bytes <= offsetof(struct ofi_name, byte) ||
        address->bytes > offsetof(struct ofi_name, zero))
        return error_set(
            err, -EPROTO, "the other end's address has %u bytes; an address has %zu to %zu",
            address->bytes, offsetof(struct ofi_name, byte) + 1, offsetof(struct ofi_name, zero));
    memcpy(&mine, e->address.byte, offsetof(struct ofi_name, byte));
    memcpy(&name, address->byte, offsetof(struct ofi_name, byte));
    if (name.format != mine.format || name.protocol != mine.protocol)
        return error_set(
            err, -EPROTO,
            "the other end uses another provider than %s: its protocol is %u, here it is "
            "%u; set RPIPE_OFI_PROVIDER to the same provider for all ranks",
            e->provider, name.protocol, mine.protocol);
    return 0;
}

/* The entry of an address; NULL: none, and *key is free. */
static struct ofi_peer *address_find(const struct ofi_endpoint *e,
                                     const struct btl_address *address, uint64_t *key)
{
    struct ofi_peer *p;
    uint64_t probe = 0;

    do {
        *key = address_hash(address, probe++);
        p = hash_get(&e->peers, *key);
    } while (p != NULL && !address_same(&p->address, address));
    return p;
}

/* Inserts an address into the vector. 0, or -errno and an error message. */
static int address_insert(struct ofi_endpoint *e, const struct btl_address *address, fi_addr_t *to,
                          struct error *err)
{
    struct ofi_name name = {0}; /* zeros follow the address: it may be a string */
    char text[128];
    int rc;

    memcpy(&name, address->byte, address->bytes);
    rc = fi_av_insert(e->av, name.byte, 1, to, 0, NULL);
    if (rc == 1)
        return 0;
    address_print(e, address, text, sizeof(text));
    return error_set(err, -EHOSTUNREACH, "provider %s: fi_av_insert of address %s: %s", e->provider,
                     text, rc < 0 ? fi_strerror(-rc) : "refused");
}

static int address_make(struct ofi_endpoint *e, struct ofi_rank *r,
                        const struct btl_address *address, uint64_t key, struct ofi_peer **out,
                        struct error *err)
{
    struct ofi_peer *p = calloc(1, sizeof(*p));
    int rc;

    if (p == NULL || hash_put(&e->peers, key, p) != 0) {
        free(p);
        return error_set(err, -ENOMEM, "there is no memory for the address of rank %d", r->rank);
    }
    rc = address_insert(e, address, &p->to, err);
    if (rc != 0) {
        hash_remove(&e->peers, key);
        free(p);
        return rc;
    }
    p->address = *address;
    p->key = key;
    p->uses = 1;
    list_init(&p->idle);
    address_belong(p, r);
    *out = p;
    return 0;
}

int address_get(struct ofi_endpoint *e, int rank, const struct btl_address *address,
                struct ofi_peer **out, struct error *err)
{
    struct ofi_rank *r;
    struct ofi_peer *p;
    uint64_t key;
    int rc = address_check(e, address, err);

    if (rc != 0)
        return rc;
    r = address_rank(e, rank);
    if (r == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the address of rank %d", rank);
    p = address_find(e, address, &key);
    if (p == NULL) {
        rc = address_make(e, r, address, key, out, err);
    } else {
        address_use(p);
        if (p->of == NULL) /* another rank had sent it, and is gone */
            address_belong(p, r);
        *out = p;
    }
    address_rank_put(e, r); /* if it has none */
    return rc;
}

/*
 * The probes of address_find() end at a free key, so an entry that was found behind a removed
 * one is not found again: it would be inserted once more, which does no harm.
 */
static void address_remove(struct ofi_endpoint *e, struct ofi_peer *p)
{
    const int rc = fi_av_remove(e->av, &p->to, 1, 0);

    if (rc != 0)
        log_debug("ofi: provider %s: fi_av_remove: %s", e->provider, fi_strerror(-rc));
    hash_remove(&e->peers, p->key);
    free(p);
}

static void address_remove_oldest(struct ofi_endpoint *e, struct ofi_rank *r)
{
    struct ofi_peer *p = container_of(r->idle.next, struct ofi_peer, idle);

    list_remove(&p->idle);
    list_remove(&p->of_rank);
    r->idle_count--;
    address_remove(e, p);
}

void address_put(struct ofi_endpoint *e, struct ofi_peer *p)
{
    if (--p->uses > 0)
        return;
    if (p->of == NULL) {
        address_remove(e, p);
        return;
    }
    list_append(&p->of->idle, &p->idle);
    if (++p->of->idle_count > IDLE)
        address_remove_oldest(e, p->of);
}

void address_rank_gone(struct ofi_endpoint *e, int rank)
{
    struct ofi_rank *r = hash_get(&e->ranks, (uint64_t)(uint32_t)rank);
    struct link *cursor, *after;

    if (r == NULL)
        return;
    list_for_each (cursor, after, &r->entries) {
        struct ofi_peer *p = container_of(cursor, struct ofi_peer, of_rank);

        list_remove(&p->of_rank);
        list_remove(&p->idle);
        p->of = NULL;
        if (p->uses == 0)
            address_remove(e, p);
    }
    address_rank_put(e, r);
}

void address_print(const struct ofi_endpoint *e, const struct btl_address *address, char *text,
                   size_t bytes)
{
    struct ofi_name name = {0}; /* a peer's string may not be terminated */
    size_t length = bytes;

    *text = '\0';
    if (address->bytes <= offsetof(struct ofi_name, byte) ||
        address->bytes > offsetof(struct ofi_name, zero))
        return;
    memcpy(&name, address->byte, address->bytes);
    (void)fi_av_straddr(e->av, name.byte, text, &length);
    text[bytes - 1] = '\0';
    text_make_printable(text);
}

void address_init(struct ofi_endpoint *e)
{
    hash_init(&e->peers);
    hash_init(&e->ranks);
}

static void address_free_table(struct hash *table)
{
    size_t cursor = 0;
    void *value;

    while ((value = hash_next(table, &cursor)) != NULL)
        free(value);
    hash_free(table);
}

void address_free_all(struct ofi_endpoint *e)
{
    address_free_table(&e->peers);
    address_free_table(&e->ranks);
}
