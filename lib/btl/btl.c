/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl.c: the registry of backends: loads their modules when first needed, and chooses one for a peer.
 *
 * Invariants: a backend that is open stays open until btl_stop(). The table is in order of preference. Unless somebody names a
 * backend, what is chosen follows from the business cards of the two ranks alone; a network that should be usable and cannot be
 * opened is passed over with a line of log, because the ranks of a cluster are mostly alike, and where they are not, the two
 * halves of the channel disagree in a sentence of their own. shm is not passed over.
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
static struct entry btl_table[] = {
    {.name = "shm"}, /* BTL_LIKELY_SHM and so on are 1 << index */
    {.name = "verbs"},
    {.name = "ofi"},
    {.name = "sim", .asked_for = true},
};
#define ENTRIES (int)(sizeof(btl_table) / sizeof(btl_table[0]))
#define REASON 256

static pthread_mutex_t btl_lock = PTHREAD_MUTEX_INITIALIZER; /* of the table */
static struct btl_host *btl_host; /* changed, and given to backends, under the lock */

static int btl_load(struct entry *e, struct error *err)
{
    char module[32], symbol[32];
    const struct btl_ops *ops;

    if (e->ops != NULL)
        return 0;
    snprintf(module, sizeof(module), "btl_%s", e->name);
    snprintf(symbol, sizeof(symbol), "btl_%s_ops", e->name);
    ops = module_symbol(module, symbol, err);
    if (ops == NULL)
        return -ENOTSUP;
    if (ops->version != BTL_OPS_VERSION)
        return error_set(err, -ENOTSUP, "%s.so has interface version %u, this library has %u",
                         module, ops->version, BTL_OPS_VERSION);
    e->ops = ops;
    return 0;
}

static int btl_open_entry(struct entry *e, struct error *err)
{
    struct btl *opened;
    int rc;

    if (e->btl != NULL)
        return 0;
    rc = btl_load(e, err);
    if (rc == 0)
        rc = e->ops->query(err);
    if (rc == 0)
        rc = e->ops->open(btl_host, &opened, err);
    if (rc == 0)
        __atomic_store_n(&e->btl, opened,
                         __ATOMIC_RELEASE); /* pairs with btl_progress, which takes no lock */
    return rc;
}

int btl_start(struct btl_host *h)
{
    btl_host = h;
    return 0;
}

void btl_address_known(const char *address)
{
    pthread_mutex_lock(&btl_lock);
    btl_host->address = address;
    pthread_mutex_unlock(&btl_lock);
}

void btl_stop(void)
{
    int i;

    pthread_mutex_lock(&btl_lock);
    for (i = 0; i < ENTRIES; i++) {
        if (btl_table[i].btl != NULL)
            btl_table[i].ops->close(btl_table[i].btl);
        btl_table[i].btl = NULL;
    }
    pthread_mutex_unlock(&btl_lock);
}

void btl_forked(void)
{
    int i;

    pthread_mutex_init(&btl_lock, NULL);
    for (i = 0; i < ENTRIES; i++)
        if (btl_table[i].btl != NULL)
            btl_table[i].ops->forked(btl_table[i].btl);
}

/* ---- the choice ---- */

/* Adds "name: reason" to what stands in `err`. */
static void btl_list_reason(struct error *err, const char *name, const char *reason)
{
    size_t used = strlen(err->text);

    if (used + 1 < sizeof(err->text))
        snprintf(err->text + used, sizeof(err->text) - used, "%s%s: %s", used > 0 ? "; " : "", name,
                 reason);
}

/* Should entry i be it? From what both ends know of each other, so that both say the same. 0, or -ENOTSUP; why or why not. */
static int btl_fits(int i, int peer, const struct btl_peer *own, const struct btl_peer *other,
                    struct error *err)
{
    uint32_t both = own->likely & other->likely, bit = 1u << i;
    const char *who = (own->likely & bit) == 0 ? "this rank has" : "";
    char there[32];

    if (*who == '\0') {
        snprintf(there, sizeof(there), "rank %d has", peer);
        who = there;
    }
    if ((both & bit) == 0) {
        if (bit == BTL_LIKELY_VERBS)
            return error_set(err, -ENOTSUP, "%s no active RDMA port, or not the module btl_verbs",
                             who);
        return error_set(err, -ENOTSUP, "%s not the module btl_%s", who, btl_table[i].name);
    }
    if (bit == BTL_LIKELY_SHM) {
        if (btl_host->fd_path(peer, err) != 0)
            return -ENOTSUP;
        error_note(err, "both ranks are on one host, and descriptors can be passed");
    } else if (bit == BTL_LIKELY_VERBS) {
        error_note(err, "no memory can be shared, and both ranks have an active RDMA port");
    } else if ((own->likely & BTL_LIKELY_VERBS) == 0) {
        error_note(err, "no memory can be shared, and this rank has no active RDMA port");
    } else {
        error_note(err, "no memory can be shared, and %s",
                   (other->likely & BTL_LIKELY_VERBS) == 0
                       ? "the other rank has no active RDMA port"
                       : "verbs cannot be opened");
    }
    return 0;
}

/* Lock held. 0: `why` says why it is this one; else why not. */
static int btl_take(struct entry *e, int peer, struct error *err)
{
    int rc = btl_open_entry(e, err);

    return rc == 0 ? e->ops->reach(e->btl, peer, err) : rc;
}

/* Lock held. The backend that somebody has named. */
static int btl_take_named(const char *name, const char *who, int peer, struct entry **taken,
                          struct error *err)
{
    struct error reason = {""};
    int i, rc;

    for (i = 0; i < ENTRIES; i++) {
        if (strcmp(name, btl_table[i].name) != 0)
            continue;
        rc = btl_take(&btl_table[i], peer, &reason);
        if (rc == 0) {
            *taken = &btl_table[i];
            error_note(err, "it is what %s says", who);
        } else {
            error_note(err, "%s: %s", name, reason.text);
        }
        return rc;
    }
    return error_set(err, -ENOTSUP, "this version has no backend \"%s\"", name);
}

/* Once per process, and not for each channel: what is slower than it could be, and why. */
static void btl_warn_once(bool *warned, const char *format, int peer, const char *name,
                          const char *reason) __attribute__((format(printf, 2, 0)));
static void btl_warn_once(bool *warned, const char *format, int peer, const char *name,
                          const char *reason)
{
    if (!*warned)
        log_warn(format, peer, name, reason);
    *warned = true;
}

/* Lock held. The first that fits, and can be opened. */
static int btl_take_first(int peer, struct entry **taken, struct error *err)
{
    static bool told_near, told_unopened;
    struct btl_peer own, other;
    struct error reason = {""}, near = {""};
    int i, rc;

    rc = btl_host->peer(btl_host->rank, &own, err);
    if (rc == 0)
        rc = btl_host->peer(peer, &other, err);
    if (rc != 0)
        return rc;
    *err->text = '\0';
    for (i = 0; i < ENTRIES; i++) {
        struct entry *e = &btl_table[i];
        struct error fit = {""};

        if (e->asked_for)
            continue;
        rc = btl_fits(i, peer, &own, &other, &fit);
        if (rc == 0) {
            rc = btl_take(e, peer, &reason);
            if (rc == 0) {
                *taken = e;
                if (other.same_kernel && *near.text != '\0')
                    btl_warn_once(
                        &told_near,
                        "rank %d is on this host, but pipes to it go through %s, not shm: %s", peer,
                        e->name, near.text);
                error_note(err, "%s", fit.text);
                return 0;
            }
            if (i ==
                0) { /* for want of something, which passes: the other end will not choose another one */
                btl_list_reason(err, e->name, reason.text);
                return rc;
            }
            btl_warn_once(&told_unopened,
                          "rank %d should be reached through %s, which cannot be opened here: %s",
                          peer, e->name, reason.text);
        } else {
            error_note(&reason, "%s", fit.text);
        }
        if (i == 0)
            error_note(&near, "%s", reason.text);
        btl_list_reason(err, e->name, reason.text);
    }
    return -ENOTSUP;
}

int btl_choose(int peer, const char *wanted, const struct btl_ops **ops, struct btl **btl,
               struct error *err)
{
    struct entry *taken = NULL;
    int rc;

    pthread_mutex_lock(&btl_lock);
    if (setting_number(SET_BTL) != 0)
        rc = btl_take_named(setting_text(SET_BTL), "RPIPE_BTL", peer, &taken, err);
    else if (wanted != NULL)
        rc = btl_take_named(wanted, "the configuration (btl)", peer, &taken, err);
    else
        rc = btl_take_first(peer, &taken, err);
    if (rc == 0) {
        *ops = taken->ops;
        *btl = taken->btl;
    }
    pthread_mutex_unlock(&btl_lock);
    return rc;
}

/* Only backends that need descriptors passed talk like this: shm, which is the first. */
void btl_message(int peer, const void *body, size_t bytes, const int *fds, int nfds)
{
    struct error err = {""};
    int i, rc;

    pthread_mutex_lock(&btl_lock);
    rc = btl_open_entry(&btl_table[0], &err);
    pthread_mutex_unlock(&btl_lock);
    if (rc == 0) {
        btl_table[0].ops->message(btl_table[0].btl, peer, body, bytes, fds, nfds);
        return;
    }
    log_warn("backend %s: a message of rank %d is dropped: %s", btl_table[0].name, peer, err.text);
    for (i = 0; i < nfds; i++)
        close(fds[i]);
}

void btl_peer_gone(int peer)
{
    int i;

    for (i = 0; i < ENTRIES; i++)
        if (btl_table[i].btl != NULL && btl_table[i].ops->peer_gone != NULL)
            btl_table[i].ops->peer_gone(btl_table[i].btl, peer);
}

void btl_progress(void)
{
    int i;

    for (i = 0; i < ENTRIES; i++) {
        struct btl *btl =
            __atomic_load_n(&btl_table[i].btl, __ATOMIC_ACQUIRE); /* pairs with open_entry */

        if (btl != NULL && btl_table[i].ops->progress_all != NULL)
            (void)btl_table[i].ops->progress_all(btl);
    }
}

int btl_describe(int index, const char **name, bool *usable, struct error *err)
{
    int rc;

    if (index < 0 || index >= ENTRIES)
        return -ENOENT;
    *name = btl_table[index].name;
    pthread_mutex_lock(&btl_lock);
    rc = btl_load(&btl_table[index], err);
    if (rc == 0)
        rc = btl_table[index].ops->query(err);
    pthread_mutex_unlock(&btl_lock);
    *usable = rc == 0;
    return 0;
}
