/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl.c: the registry of backends: loads their modules when first needed, and chooses one for a peer.
 *
 * Invariant: a backend that is open stays open until btl_stop(). The table is in order of preference.
 */
#include "btl/btl.h"

#include "util/log.h"
#include "util/module.h"
#include "util/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct entry {
    const char *name;
    bool asked_for;            /* only by name: a simulation, for tests */
    const struct btl_ops *ops; /* once loaded */
    struct btl *btl;           /* once open */
};
static struct entry table[] = {
    {.name = "shm"},
    {.name = "verbs"},
    {.name = "ofi"},
    {.name = "sim", .asked_for = true},
};
#define ENTRIES (int)(sizeof(table) / sizeof(table[0]))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the table */
static const struct btl_host *host;

static int load(struct entry *e, char *why, size_t why_bytes)
{
    char module[32], symbol[32];
    const struct btl_ops *ops;

    if (e->ops != NULL)
        return 0;
    snprintf(module, sizeof(module), "btl_%s", e->name);
    snprintf(symbol, sizeof(symbol), "btl_%s_ops", e->name);
    ops = module_symbol(module, symbol, why, why_bytes);
    if (ops == NULL)
        return -ENOTSUP;
    if (ops->version != BTL_OPS_VERSION) {
        snprintf(why, why_bytes, "%s.so has interface version %u, this library has %u", module, ops->version,
                 BTL_OPS_VERSION);
        return -ENOTSUP;
    }
    e->ops = ops;
    return 0;
}

static int open_entry(struct entry *e, char *why, size_t why_bytes)
{
    int rc;

    if (e->btl != NULL)
        return 0;
    rc = load(e, why, why_bytes);
    if (rc == 0)
        rc = e->ops->query(why, why_bytes);
    if (rc == 0)
        rc = e->ops->open(host, &e->btl, why, why_bytes);
    return rc;
}

int btl_start(const struct btl_host *h)
{
    host = h;
    return 0;
}

void btl_stop(void)
{
    int i;

    pthread_mutex_lock(&lock);
    for (i = 0; i < ENTRIES; i++) {
        if (table[i].btl != NULL)
            table[i].ops->close(table[i].btl);
        table[i].btl = NULL;
    }
    pthread_mutex_unlock(&lock);
}

void btl_forked(void)
{
    int i;

    pthread_mutex_init(&lock, NULL);
    for (i = 0; i < ENTRIES; i++)
        if (table[i].btl != NULL)
            table[i].ops->forked(table[i].btl);
}

int btl_choose(int peer, const char *wanted, const struct btl_ops **ops, struct btl **btl, char *why, size_t why_bytes)
{
    const char *ruled = setting_number(SET_BTL) == 0 ? NULL : setting_text(SET_BTL);
    char reason[256] = "no such backend";
    size_t used = 0;
    int i, rc = -ENOTSUP;

    if (ruled != NULL)
        wanted = ruled;
    if (why_bytes > 0)
        *why = '\0';
    pthread_mutex_lock(&lock);
    for (i = 0; i < ENTRIES; i++) {
        struct entry *e = &table[i];

        if (wanted != NULL ? strcmp(wanted, e->name) != 0 : e->asked_for)
            continue;
        rc = open_entry(e, reason, sizeof(reason));
        if (rc == 0)
            rc = e->ops->reach(e->btl, peer, reason, sizeof(reason));
        if (rc == 0) {
            *ops = e->ops;
            *btl = e->btl;
            break;
        }
        if (used < why_bytes)
            used += (size_t)snprintf(why + used, why_bytes - used, "%s%s: %s", used > 0 ? "; " : "", e->name, reason);
    }
    pthread_mutex_unlock(&lock);
    if (rc != 0 && used == 0)
        snprintf(why, why_bytes, "this version has no backend \"%s\"", wanted != NULL ? wanted : "");
    return rc;
}

/* Only backends that need descriptors passed talk like this: shm, which is the first. */
void btl_message(int peer, const void *body, size_t bytes, const int *fds, int nfds)
{
    char why[256];
    int i, rc;

    pthread_mutex_lock(&lock);
    rc = open_entry(&table[0], why, sizeof(why));
    pthread_mutex_unlock(&lock);
    if (rc == 0) {
        table[0].ops->message(table[0].btl, peer, body, bytes, fds, nfds);
        return;
    }
    log_warn("backend %s: a message of rank %d is dropped: %s", table[0].name, peer, why);
    for (i = 0; i < nfds; i++)
        close(fds[i]);
}

void btl_peer_gone(int peer)
{
    int i;

    for (i = 0; i < ENTRIES; i++)
        if (table[i].btl != NULL && table[i].ops->peer_gone != NULL)
            table[i].ops->peer_gone(table[i].btl, peer);
}

int btl_describe(int index, const char **name, bool *usable, char *why, size_t why_bytes)
{
    int rc;

    if (index < 0 || index >= ENTRIES)
        return -ENOENT;
    *name = table[index].name;
    pthread_mutex_lock(&lock);
    rc = load(&table[index], why, why_bytes);
    if (rc == 0)
        rc = table[index].ops->query(why, why_bytes);
    pthread_mutex_unlock(&lock);
    *usable = rc == 0;
    return 0;
}
