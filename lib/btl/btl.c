/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl.c: the registry of backends: loads their modules when they are first needed, and chooses one
 * for a peer.
 *
 * Invariants: an open backend stays open until btl_stop(). The table is in order of preference.
 * Unless a backend is named, the choice follows from the cards of the two ranks alone. A network
 * that should be usable and cannot be opened is skipped with a warning, because the ranks of a
 * cluster are mostly alike, and where they are not, the handshake of the pipe fails with an error
 * message that names both backends. shm is never skipped.
 *
 * mpi is opened in rinit alone, by all ranks at once (btl_join), and only if the cards of all have it.
 */
#include "btl/btl.h"

#include "util/log.h"
#include "util/module.h"
#include "util/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct entry {
    const char *name;
    bool by_name_only;         /* never chosen otherwise */
    bool of_tests;             /* not described */
    bool joined;               /* opened by btl_join alone; `unsuitable` is why it is not open */
    const struct btl_ops *ops; /* once loaded */
    struct btl *btl;           /* once open */
    bool asked;                /* whether it may be chosen without being named: */
    struct error unsuitable;   /* "": it may; else why not */
};
static struct entry btl_table[] = {
    {.name = "shm"}, /* BTL_USABLE_SHM and so on are 1 << index */
    {.name = "verbs"},
    {.name = "ofi"},
    {.name = "tcp"}, /* the last choice: needs no device */
    {.name = "mpi", .by_name_only = true, .joined = true},
    {.name = "sim", .by_name_only = true, .of_tests = true},
};
#define ENTRIES (int)(sizeof(btl_table) / sizeof(btl_table[0]))
#define REASON 256
#define OFI_NEEDS "RDMA or CXI device and no RPIPE_OFI_PROVIDER, or not the module btl_ofi"

static pthread_mutex_t btl_lock = PTHREAD_MUTEX_INITIALIZER; /* of the table */
static struct btl_host *btl_host; /* changed, and given to backends, under the lock */

static int btl_load(struct entry *e, struct error *err)
{
    char module[32], symbol[32];
    const struct btl_ops *ops;
    const char *name = e->name;

    if (e->ops != NULL)
        return 0;
    if (e->joined)
        name = btl_host->mpi_kind != NULL ? btl_host->mpi_kind(err) : NULL;
    if (name == NULL)
        return -ENOTSUP;
    snprintf(module, sizeof(module), "btl_%s", name);
    snprintf(symbol, sizeof(symbol), "btl_%s_ops", name);
    ops = module_symbol(module, symbol, err);
    if (ops == NULL)
        return -ENOTSUP;
    if (ops->version != BTL_OPS_VERSION)
        return error_set(
            err, -ENOTSUP,
            "%s.so has interface version %u, this library %u; install both from one version",
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
        __atomic_store_n(
            &e->btl, opened,
            __ATOMIC_RELEASE); /* pairs with the acquire in btl_progress, which takes no lock */
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

void btl_devices_used(void)
{
    pthread_mutex_lock(&btl_lock);
    btl_host->devices = true;
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
        btl_table[i].asked = false;
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

/* Appends "name: reason" to the message. */
static void btl_list_reason(struct error *err, const char *name, const char *reason)
{
    size_t used = strlen(err->text);

    if (used + 1 < sizeof(err->text))
        snprintf(err->text + used, sizeof(err->text) - used, "%s%s: %s", used > 0 ? "; " : "", name,
                 reason);
}

/*
 * Whether entry i is suitable, from the cards of both ends, so that both decide alike. 0 or
 * -ENOTSUP, and why.
 */
static int btl_fits(int i, int peer, const struct btl_peer *own, const struct btl_peer *other,
                    struct error *err)
{
    uint32_t both = own->usable & other->usable, bit = 1u << i;
    const char *has = (own->usable & bit) == 0 ? "this rank has" : "";
    char there[32];

    if (*has == '\0') {
        snprintf(there, sizeof(there), "rank %d has", peer);
        has = there;
    }
    if ((both & bit) == 0) {
        if (bit == BTL_USABLE_VERBS)
            return error_set(err, -ENOTSUP, "%s no active RDMA port, or not the module btl_verbs",
                             has);
        if (bit == BTL_USABLE_OFI)
            return error_set(err, -ENOTSUP, "%s no " OFI_NEEDS, has);
        return error_set(err, -ENOTSUP, "%s not the module btl_%s", has, btl_table[i].name);
    }
    if (bit == BTL_USABLE_SHM) {
        if (btl_host->fd_path(peer, err) != 0)
            return -ENOTSUP;
        error_note(err, "both ranks are on one host, and descriptors can be passed");
    } else if (bit == BTL_USABLE_VERBS) {
        error_note(err, "no memory can be shared, and both ranks have an active RDMA port");
    } else {
        uint32_t better = bit == BTL_USABLE_TCP ? BTL_USABLE_OFI : BTL_USABLE_VERBS;
        const char *lacks = better == BTL_USABLE_OFI ? OFI_NEEDS : "active RDMA port";

        if ((both & better) != 0)
            error_note(err, "no memory can be shared, and %s cannot be used",
                       better == BTL_USABLE_OFI ? "ofi" : "verbs");
        else
            error_note(err, "no memory can be shared, and %s rank has no %s",
                       (own->usable & better) == 0 ? "this" : "the other", lacks);
    }
    return 0;
}

/*
 * Lock held. Whether the backend may be chosen without being named; asked once, since the answer
 * must not depend on what has been opened. One whose module cannot be loaded fails when it is
 * taken.
 */
static int btl_suits(struct entry *e, struct error *err)
{
    struct error unloadable = {""};

    if (!e->asked && btl_load(e, &unloadable) == 0) {
        *e->unsuitable.text = '\0';
        if (e->ops->suitable != NULL)
            (void)e->ops->suitable(btl_host, &e->unsuitable);
        e->asked = true;
    }
    return e->asked && *e->unsuitable.text != '\0'
               ? error_set(err, -ENOTSUP, "%s", e->unsuitable.text)
               : 0;
}

/* Lock held. 0, or -errno and why it cannot be used. */
static int btl_take(struct entry *e, int peer, struct error *err)
{
    int rc;

    if (e->joined && e->btl == NULL)
        return error_set(err, -ENOTSUP, "%s",
                         *e->unsuitable.text != '\0'
                             ? e->unsuitable.text
                             : "all ranks open it in rinit(), with RPIPE_BTL=mpi");
    rc = btl_open_entry(e, err);

    return rc == 0 ? e->ops->reach(e->btl, peer, err) : rc;
}

/* ---- the backend that all ranks open at once ---- */

static struct entry *btl_joined_entry(void)
{
    int i = 0;

    while (!btl_table[i].joined)
        i++;
    return &btl_table[i];
}

static bool btl_is_named(const struct entry *e)
{
    return setting_number(SET_BTL) != 0 && strcmp(setting_text(SET_BTL), e->name) == 0;
}

bool btl_will_join(void)
{
    struct entry *e = btl_joined_entry();
    bool will;

    if (!btl_is_named(e) || btl_host == NULL)
        return false;
    pthread_mutex_lock(&btl_lock);
    will = btl_load(e, &e->unsuitable) == 0 && e->ops->query(&e->unsuitable) == 0;
    pthread_mutex_unlock(&btl_lock);
    return will;
}

/* The first rank that does not open it, this one before all others. */
static int btl_check_joining(const struct entry *e, int ranks, struct error *err)
{
    uint32_t bit = 1u << (e - btl_table);
    struct btl_peer facts;
    int rank, rc = btl_host->peer(btl_host->rank, &facts, err);

    if (rc == 0 && (facts.usable & bit) == 0)
        return -ENOTSUP; /* with the reason of btl_will_join */
    for (rank = 0; rank < ranks && rc == 0; rank++) {
        rc = btl_host->peer(rank, &facts, err);
        if (rc == 0 && (facts.usable & bit) == 0)
            rc = error_set(err, -ENOTSUP,
                           "rank %d has not RPIPE_BTL=%s, or not its module, or no MPI for it; all "
                           "ranks need it",
                           rank, e->name);
    }
    return rc;
}

void btl_join(int ranks)
{
    struct entry *e = btl_joined_entry();
    int rc;

    if (!btl_is_named(e))
        return;
    pthread_mutex_lock(&btl_lock);
    rc = btl_check_joining(e, ranks, &e->unsuitable);
    if (rc == 0)
        rc = btl_open_entry(e, &e->unsuitable);
    pthread_mutex_unlock(&btl_lock);
    if (rc != 0)
        log_warn("backend %s cannot be opened, and no pipe can: %s", e->name, e->unsuitable.text);
}

/* Lock held. The backend that a setting or a configuration names. */
static int btl_take_named(const char *name, const char *source, int peer, struct entry **taken,
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
            error_note(err, "%s selects it", source);
        } else {
            error_note(err, "%s: %s", name, reason.text);
        }
        return rc;
    }
    return error_set(err, -ENOTSUP,
                     "there is no backend \"%s\"; this version has shm, verbs, ofi, tcp and mpi",
                     name);
}

/* Warns once per process, not for each pipe, of what is slower than it could be. */
static void btl_warn_once(bool *warned, const char *format, int peer, const char *name,
                          const char *reason) __attribute__((format(printf, 2, 0)));
static void btl_warn_once(bool *warned, const char *format, int peer, const char *name,
                          const char *reason)
{
    if (!*warned)
        log_warn(format, peer, name, reason);
    *warned = true;
}

/* Lock held. The first backend that is suitable and can be opened. */
static int btl_take_first(int peer, struct entry **taken, struct error *err)
{
    static bool warned_near, warned_unopened;
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

        if (e->by_name_only)
            continue;
        rc = btl_fits(i, peer, &own, &other, &fit);
        if (rc == 0)
            rc = btl_suits(e, &fit);
        if (rc == 0) {
            rc = btl_take(e, peer, &reason);
            if (rc == 0) {
                *taken = e;
                if (other.same_kernel && *near.text != '\0')
                    btl_warn_once(
                        &warned_near,
                        "rank %d is on this host, but pipes to it go through %s, not shm: %s", peer,
                        e->name, near.text);
                error_note(err, "%s", fit.text);
                return 0;
            }
            if (i ==
                0) { /* a shortage, which may pass: the other end does not choose another backend */
                btl_list_reason(err, e->name, reason.text);
                return rc;
            }
            btl_warn_once(&warned_unopened,
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
        rc = btl_take_named(wanted, "backend of the configuration", peer, &taken, err);
    else
        rc = btl_take_first(peer, &taken, err);
    if (rc == 0) {
        *ops = taken->ops;
        *btl = taken->btl;
    }
    pthread_mutex_unlock(&btl_lock);
    return rc;
}

/* Only backends that pass descriptors exchange messages: shm, the first entry. */
void btl_message(int peer, const void *body, size_t bytes, const int *fds, int nfds)
{
    struct error err = {""};
    int rc;

    pthread_mutex_lock(&btl_lock);
    rc = btl_open_entry(&btl_table[0], &err);
    pthread_mutex_unlock(&btl_lock);
    if (rc == 0) {
        btl_table[0].ops->message(btl_table[0].btl, peer, body, bytes, fds, nfds);
        return;
    }
    log_warn("backend %s: a message of rank %d is discarded: %s", btl_table[0].name, peer,
             err.text);
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
            __atomic_load_n(&btl_table[i].btl, __ATOMIC_ACQUIRE); /* pairs with btl_open_entry */

        if (btl != NULL && btl_table[i].ops->progress_all != NULL)
            (void)btl_table[i].ops->progress_all(btl);
    }
}

void btl_progress_round(void)
{
    int i;

    for (i = 0; i < ENTRIES; i++) {
        struct btl *btl =
            __atomic_load_n(&btl_table[i].btl, __ATOMIC_ACQUIRE); /* pairs with btl_open_entry */

        if (btl != NULL && btl_table[i].ops->progress_round != NULL)
            btl_table[i].ops->progress_round(btl);
    }
}

void btl_list(uint32_t usable, char *text, size_t bytes)
{
    size_t used = 0;
    int i;

    snprintf(text, bytes, "none");
    for (i = 0; i < ENTRIES; i++)
        if ((usable & 1u << i) != 0 && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                                     btl_table[i].name);
}

int btl_describe(int index, const char **name, bool *usable, struct error *err)
{
    int rc;

    if (index < 0 || index >= ENTRIES || btl_table[index].of_tests) /* those are the last */
        return -ENOENT;
    *name = btl_table[index].name;
    *usable = false;
    if (btl_table[index].joined && btl_table[index].ops == NULL) { /* starts no MPI for it */
        bool openmpi = module_installed("btl_openmpi"), mpich = module_installed("btl_mpich");

        *usable = openmpi || mpich;
        error_note(err, "%s; only with RPIPE_BTL=mpi",
                   openmpi && mpich ? "for Open MPI and MPICH"
                   : openmpi        ? "for Open MPI"
                   : mpich          ? "for MPICH"
                                    : "btl_openmpi.so and btl_mpich.so are not installed");
        return 0;
    }
    pthread_mutex_lock(&btl_lock);
    rc = btl_load(&btl_table[index], err);
    if (rc == 0)
        rc = btl_table[index].ops->query(err);
    pthread_mutex_unlock(&btl_lock);
    *usable = rc == 0;
    return 0;
}
