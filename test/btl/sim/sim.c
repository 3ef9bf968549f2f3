/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.c: see sim.h. The table of operations, opening and closing, and what drives progress.
 */
#include "sim.h"

#include "util/log.h"
#include "util/module.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_ATOMICS 0x3fu /* ratomic_op_t: add, compare-swap, swap, and, or, xor */
#define ONLY_CAS 0x02u

void sim_die(const char *format, ...)
{
    va_list args;

    fputs("simulated network: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    abort();
}

uint64_t sim_draw(struct btl *btl, uint64_t below)
{
    uint64_t x = btl->draw.state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

/* ---- driving ---- */

static void service(void *arg)
{
    struct btl *btl = arg;

    pthread_mutex_lock(&btl->lock);
    btl->armed = false;
    sim_turn(btl, 1 + (unsigned)sim_draw(btl, 256));
    sim_arm(btl);
    pthread_mutex_unlock(&btl->lock);
}

void sim_arm(struct btl *btl)
{
    /* a delay is a millisecond at least, whatever is drawn: not every time, if no other thread makes progress */
    bool at_once = btl->calm || (btl->lazy && sim_draw(btl, 4) != 0);
    int64_t delay = at_once ? 0 : (int64_t)sim_draw(btl, 8) * (int64_t)sim_draw(btl, 40);

    if (btl->armed || btl->closing || (btl->unders == 0 && list_empty(&btl->settling)) ||
        btl->defect == DEFECT_IDLE)
        return;
    btl->armed = true;
    if (btl->host.watch(-1, delay, service, btl) != 0)
        sim_die("the service thread cannot be asked to call");
}

static void drive(struct btl *btl)
{
    if (!btl->lazy)
        sim_turn(btl, 1 + (unsigned)sim_draw(btl, 24));
}

static int sim_progress(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    int rc;

    pthread_mutex_lock(&btl->lock);
    drive(btl);
    rc = connection->error;
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

static int sim_progress_all(struct btl *btl)
{
    pthread_mutex_lock(&btl->lock);
    drive(btl);
    pthread_mutex_unlock(&btl->lock);
    return 0;
}

/* ---- opening ---- */

static bool word_given(const char *words, const char *word)
{
    size_t n = strlen(word);
    const char *at = words;

    while ((at = strstr(at, word)) != NULL) {
        bool starts = at == words || strchr(" ,+", at[-1]) != NULL;

        if (starts && strchr(" ,+", at[n]) != NULL) /* also at the end */
            return true;
        at += n;
    }
    return false;
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? value : "";
}

static uint32_t atomics_given(void)
{
    const char *given = environment("RPIPE_SIM_ATOMICS");

    if (strcmp(given, "none") == 0)
        return 0;
    return strcmp(given, "cas") == 0 ? ONLY_CAS : ALL_ATOMICS;
}

static uint32_t capabilities_given(void)
{
    const char *mode = environment("RPIPE_SIM_MODE");

    return (word_given(mode, "target") ? BTL_TARGET_PROGRESS : 0) |
           (word_given(mode, "incoherent") ? 0 : BTL_ATOMICS_COHERENT);
}

static int sim_query(struct error *err);

static int sim_open(const struct btl_host *host, struct btl **out, struct error *err)
{
    const char *mode = environment("RPIPE_SIM_MODE");
    struct btl *btl = calloc(1, sizeof(*btl));

    if (btl == NULL)
        return error_set(err, -ENOMEM, "no memory");
    pthread_mutex_init(&btl->lock, NULL);
    btl->host = *host;
    btl->draw.state = strtoull(environment("RPIPE_SIM_SEED"), NULL, 0) * 0x2545f4914f6cdd1du;
    btl->calm = word_given(mode, "calm");
    btl->order = word_given(mode, "order");
    btl->lazy = word_given(mode, "lazy");
    btl->scribble = word_given(mode, "scribble");
    btl->incoherent = word_given(mode, "incoherent");
    btl->byzantine = word_given(mode, "byzantine");
    btl->down = word_given(mode, "down");
    btl->atomics = atomics_given();
    btl->fail_at = strtoull(environment("RPIPE_SIM_FAIL"), NULL, 0);
    btl->break_accepting = *environment("RPIPE_SIM_BREAK") == '-';
    btl->break_at = (uint64_t)llabs(strtoll(environment("RPIPE_SIM_BREAK"), NULL, 0));
    btl->error =
        *environment("RPIPE_SIM_ERROR") != '\0' ? -atoi(environment("RPIPE_SIM_ERROR")) : -EIO;
    btl->defect = (enum sim_defect)strtoul(environment("RPIPE_SIM_DEFECT"), NULL, 0);
    hash_init(&btl->pieces);
    hash_init(&btl->lines);
    list_init(&btl->quarantine);
    list_init(&btl->settling);
    log_set_level((enum log_level)host->log_level);
    log_set_rank(host->rank);
    *out = btl;
    return 0;
}

static void sim_close(struct btl *btl)
{
    pthread_mutex_lock(&btl->lock);
    btl->closing = true;
    pthread_mutex_unlock(&btl->lock);
    btl->host.unwatch(service, btl);
    if (btl->lines.used != 0)
        log_debug("simulated network: %zu lines were never closed", btl->lines.used);
    sim_stragglers_end(btl, 0, NULL);
    sim_memory_end(btl);
    free(btl->under);
    hash_free(&btl->lines);
    pthread_mutex_destroy(&btl->lock);
    free(btl);
}

static void sim_forked(struct btl *btl) { pthread_mutex_init(&btl->lock, NULL); }

static int sim_reach(struct btl *btl, int peer, struct error *err)
{
    if (sim_is_peer(btl, peer))
        return 0;
    return error_set(err, -ENOTSUP,
                     "rank %d is another process; the simulated network is inside this one", peer);
}

MODULE_EXPORT extern struct btl_ops btl_sim_ops;
struct btl_ops btl_sim_ops = {
    .version = BTL_OPS_VERSION,
    .name = "sim",
    .attributes = {.capabilities = 0, .atomics = ALL_ATOMICS, .alignment = SIM_SLOT_BYTES},
    .query = sim_query,
    .open = sim_open,
    .close = sim_close,
    .forked = sim_forked,
    .reach = sim_reach,
    .alloc = sim_alloc,
    .free = sim_free,
    .share = sim_share,
    .register_memory = sim_adopt,
    .attach = sim_attach,
    .detach = sim_detach,
    .connection_open = sim_line_open,
    .connection_connect = sim_line_connect,
    .connection_state = sim_line_state,
    .connection_close = sim_line_close,
    .connection_describe = sim_line_describe,
    .connection_counts = sim_line_counts,
    .connection_atomics = sim_line_atomics,
    .write = sim_write,
    .get = sim_get,
    .atomic = sim_atomic,
    .flush = sim_flush,
    .progress = sim_progress,
    .progress_all = sim_progress_all,
};

/* The environment sets what this network can do, so the table is filled in before any other call. */
static int sim_query(struct error *err)
{
    btl_sim_ops.attributes.capabilities = capabilities_given();
    btl_sim_ops.attributes.atomics = atomics_given();
    error_note(err, "a simulation for tests");
    return 0;
}
