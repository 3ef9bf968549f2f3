/* SPDX-License-Identifier: BSD-3-Clause */
/* agree.c: see agree.h. */
#include "coll/engine/agree.h"

#include "coll/engine/edge.h"
#include "coll/engine/fail.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/failpoint.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define AGREE_YIELDS 1000 /* before the wait sleeps between its attempts */
#define AGREE_NAP_NS 50000

enum agree_kind { AGREE_CONTRIBUTION, AGREE_ESTIMATE, AGREE_KINDS };

/* A message between hosts; the bits of the dead follow. */
struct agree_message {
    uint64_t number, kind, flags;
};

/* A member on another host. */
struct agree_peer {
    rch_t out, in;
    uint64_t sent[AGREE_KINDS], got[AGREE_KINDS]; /* numbers */
    uint64_t flags[AGREE_KINDS];
    uint64_t *dead; /* of its estimate */
};

struct agree {
    uint64_t number; /* of the agreement that is over, or not yet */
    bool running, has_estimate;
    int round;                /* the member whose estimate is awaited */
    uint64_t flags, estimate; /* contributed; estimated */
    uint64_t *dead;           /* of the estimate */
    bool *gone;               /* of each member: it is dead */
    struct agree_peer *peer;  /* of each member */
    struct agree_message *message;
    size_t message_bytes;
};

/* ---- words of the board ---- */

static const struct agree_words *agree_words_of(const struct rteam *t, int member)
{
    const char *at = t->board_of[member] + board_heap_at(t->depth) + t->heap_bytes + t->mem_bytes;

    return (const struct agree_words *)(const void *)at;
}

static const uint64_t *agree_dead_of(const struct agree_words *words)
{
    return (const uint64_t *)(words + 1);
}

static struct agree_words *agree_own_words(const struct rteam *t)
{
    return (struct agree_words *)(uintptr_t)agree_words_of(t, t->me);
}

/* ---- making ---- */

static int agree_make(struct rteam *t)
{
    struct agree *a = calloc(1, sizeof(*a));
    size_t n = (size_t)t->size;

    if (a == NULL)
        return -ENOMEM;
    t->agree = a;
    a->message_bytes = sizeof(*a->message) + agree_dead_bytes(t->size);
    a->message = calloc(1, a->message_bytes);
    a->dead = calloc(1, agree_dead_bytes(t->size));
    a->gone = calloc(n, sizeof(*a->gone));
    a->peer = calloc(n, sizeof(*a->peer));
    for (int i = 0; i < t->size && a->peer != NULL; i++) {
        a->peer[i].dead = t->board_of[i] == NULL ? calloc(1, agree_dead_bytes(t->size)) : NULL;
        if (t->board_of[i] == NULL && a->peer[i].dead == NULL)
            return -ENOMEM;
    }
    return a->message == NULL || a->dead == NULL || a->gone == NULL || a->peer == NULL ? -ENOMEM
                                                                                       : 0;
}

void agree_close(struct rteam *t)
{
    struct agree *a = t->agree;

    if (a == NULL)
        return;
    for (int i = 0; i < t->size && a->peer != NULL; i++) {
        if (a->peer[i].out != NULL)
            (void)rpipe_close(a->peer[i].out);
        if (a->peer[i].in != NULL)
            (void)rpipe_close(a->peer[i].in);
        free(a->peer[i].dead);
    }
    free(a->message);
    free(a->dead);
    free(a->gone);
    free(a->peer);
    free(a);
    t->agree = NULL;
}

static int agree_open_pipe(const struct rteam *t, int member, bool out)
{
    struct agree_peer *p = &t->agree->peer[member];
    uint64_t key[] = {t->name, 0x6167726565};
    rpipe_config_t cfg = {.role = out ? RPIPE_WRITER : RPIPE_READER,
                          .peer = t->rank[member],
                          .context = hash_words(HASH_BASIS, key, sizeof(key) / sizeof(*key)) >> 4,
                          .heuristic = RMALLOC_BEST_FIT,
                          .heap_bytes = 65536 + 4 * t->agree->message_bytes,
                          .timeout_ms = R_AT_ONCE,
                          .backend = t->backend,
                          .stream = t->stream};

    cfg.heap_bytes_at_most = cfg.heap_bytes;
    RPIPE_FAILPOINT("net: rcoll_agree: before a pipe");
    return rpipe_open(out ? &p->out : &p->in, &cfg);
}

/* ---- the dead ---- */

/* What is on the board of a dead member can still be read. */
static bool agree_is_gone(const struct rteam *t, int member)
{
    struct agree *a = t->agree;

    if (member != t->me && t->board_of[member] != NULL && rboard_mem_of(t->board, member) == NULL)
        a->gone[member] = true;
    return a->gone[member];
}

static void agree_set_dead(uint64_t *dead, int member)
{
    dead[member / 64] |= UINT64_C(1) << member % 64;
}

/* ---- messages between hosts ---- */

static void agree_try_send(const struct rteam *t, int member, enum agree_kind kind, uint64_t flags)
{
    struct agree *a = t->agree;
    struct agree_peer *p = &a->peer[member];
    int rc = 0;

    if (a->gone[member] || p->sent[kind] == a->number)
        return;
    if (p->out == NULL)
        rc = agree_open_pipe(t, member, true);
    if (p->in == NULL && rc == 0) /* the peer sends only when both ends are open */
        rc = agree_open_pipe(t, member, false);
    *a->message = (struct agree_message){a->number, kind, flags};
    memcpy(a->message + 1, a->dead, agree_dead_bytes(t->size));
    RPIPE_FAILPOINT("net: rcoll_agree: before a message");
    if (rc == 0)
        rc = rpipe_send(p->out, a->message, a->message_bytes, R_NOWAIT);
    RPIPE_FAILPOINT("net: rcoll_agree: message sent, or not yet");
    if (rc == 0)
        p->sent[kind] = a->number;
    else if (rc != R_PENDING)
        a->gone[member] = true;
}

static void agree_try_receive(const struct rteam *t, int member)
{
    struct agree *a = t->agree;
    struct agree_peer *p = &a->peer[member];
    size_t bytes = 0;
    int rc;

    if (p->in == NULL)
        return;
    rc = rpipe_recv(p->in, a->message, a->message_bytes, &bytes, R_NOWAIT);
    if (rc == R_PENDING)
        return;
    RPIPE_FAILPOINT("net: rcoll_agree: message here");
    if (rc != 0 || bytes != a->message_bytes || a->message->kind >= AGREE_KINDS) {
        a->gone[member] = true;
        return;
    }
    p->got[a->message->kind] = a->message->number;
    p->flags[a->message->kind] = a->message->flags;
    if (a->message->kind == AGREE_ESTIMATE)
        memcpy(p->dead, a->message + 1, agree_dead_bytes(t->size));
}

/* ---- publishing ---- */

static void agree_publish(const struct rteam *t, enum agree_kind kind)
{
    struct agree *a = t->agree;
    struct agree_words *words = agree_own_words(t);

    RPIPE_FAILPOINT("rcoll_agree: before a word");
    if (kind == AGREE_CONTRIBUTION) {
        words->flags = a->flags;
        /* release: pairs with the acquire of agree_has */
        atomic_store_explicit(&words->contributed, a->number, memory_order_release);
    } else {
        words->estimate = a->estimate;
        memcpy((uint64_t *)(words + 1), a->dead, agree_dead_bytes(t->size));
        RPIPE_FAILPOINT("rcoll_agree: before the number of an estimate");
        atomic_store_explicit(&words->estimated, a->number, memory_order_release);
    }
}

/* To all on other hosts, as far as there is memory. */
static void agree_send(const struct rteam *t, enum agree_kind kind)
{
    const struct agree *a = t->agree;

    for (int i = 0; i < t->size && t->shape.hosts > 1; i++)
        if (t->board_of[i] == NULL)
            agree_try_send(t, i, kind, kind == AGREE_CONTRIBUTION ? a->flags : a->estimate);
}

/* All have been sent what this member has published. */
static bool agree_has_sent(const struct rteam *t, enum agree_kind kind)
{
    const struct agree *a = t->agree;

    for (int i = 0; i < t->size && t->shape.hosts > 1; i++)
        if (t->board_of[i] == NULL && !a->gone[i] && a->peer[i].sent[kind] != a->number)
            return false;
    return true;
}

/* Whether a member has published; if so, its flags and the dead of its estimate. */
static bool agree_has(const struct rteam *t, int member, enum agree_kind kind, uint64_t *flags,
                      const uint64_t **dead)
{
    struct agree *a = t->agree;
    const struct agree_words *words;

    if (t->board_of[member] == NULL) {
        if (a->peer[member].got[kind] != a->number && !a->gone[member])
            agree_try_receive(t, member);
        *flags = a->peer[member].flags[kind];
        *dead = a->peer[member].dead;
        return a->peer[member].got[kind] == a->number;
    }
    words = agree_words_of(t, member);
    /* acquire: pairs with the release of agree_publish */
    if (atomic_load_explicit(kind == AGREE_CONTRIBUTION ? &words->contributed : &words->estimated,
                             memory_order_acquire) != a->number)
        return false;
    *flags = kind == AGREE_CONTRIBUTION ? words->flags : words->estimate;
    *dead = agree_dead_of(words);
    return true;
}

/* ---- rounds ---- */

/* The own estimate, from what all have contributed. False: one that lives has not. */
static bool agree_estimate(struct rteam *t)
{
    struct agree *a = t->agree;
    const uint64_t *ignored;
    uint64_t flags;

    a->estimate = a->flags;
    memset(a->dead, 0, agree_dead_bytes(t->size));
    for (int i = 0; i < t->size; i++) {
        if (i == t->me)
            continue;
        if (agree_is_gone(t, i))
            agree_set_dead(a->dead, i);
        else if (agree_has(t, i, AGREE_CONTRIBUTION, &flags, &ignored))
            a->estimate &= flags;
        else if (!agree_is_gone(t, i))
            return false;
        else
            agree_set_dead(a->dead, i);
    }
    a->has_estimate = true;
    return true;
}

/* One round, as far as it goes without waiting. True: it is over. */
static bool agree_round(struct rteam *t)
{
    struct agree *a = t->agree;
    const uint64_t *dead;
    uint64_t flags;
    bool gone;

    if (a->round == t->me) {
        if (!a->has_estimate && !agree_estimate(t))
            return false;
        agree_publish(t, AGREE_ESTIMATE);
        agree_send(t, AGREE_ESTIMATE);
        return agree_has_sent(t, AGREE_ESTIMATE);
    }
    gone = agree_is_gone(t, a->round); /* first: what it has published is there */
    if (agree_has(t, a->round, AGREE_ESTIMATE, &flags, &dead)) {
        a->estimate = flags;
        memcpy(a->dead, dead, agree_dead_bytes(t->size));
        a->has_estimate = true;
        return true;
    }
    return gone;
}

/* What this member has to do before it may wait. True: the agreement is over. */
static bool agree_advance(struct rteam *t)
{
    struct agree *a = t->agree;

    agree_send(t, AGREE_CONTRIBUTION);
    if (!agree_has_sent(t, AGREE_CONTRIBUTION))
        return false;
    while (a->round < t->size) {
        if (!agree_round(t))
            return false;
        a->round++;
        if (t->shape.hosts == 1 && a->has_estimate)
            return true;
    }
    return true;
}

/* A member that has not contributed, or whose round it is. */
static int agree_awaited(const struct rteam *t)
{
    const struct agree *a = t->agree;
    const uint64_t *ignored;
    uint64_t flags;

    for (int i = 0; i < t->size && !a->has_estimate; i++)
        if (i != t->me && !a->gone[i] && !agree_has(t, i, AGREE_CONTRIBUTION, &flags, &ignored))
            return i;
    return a->round < t->size ? a->round : t->me;
}

static void agree_begin(struct rteam *t, uint64_t flags)
{
    struct agree *a = t->agree;

    a->number++;
    a->running = true;
    a->has_estimate = false;
    a->round = 0;
    a->flags = flags;
    agree_publish(t, AGREE_CONTRIBUTION);
}

uint64_t agree_number(const struct rteam *t) { return t->agree != NULL ? t->agree->number : 0; }

int agree_decide(struct rteam *t, uint64_t *flags, const uint64_t **dead, int timeout_ms)
{
    int64_t deadline = deadline_in_ms(timeout_ms);
    int rc = t->agree == NULL ? agree_make(t) : 0;
    struct agree *a = t->agree;

    if (rc != 0) {
        agree_close(t);
        return coll_fail(rc, "no memory for an agreement of %d members", t->size);
    }
    if (!a->running)
        agree_begin(t, *flags);
    for (uint32_t looks = 0; !agree_advance(t); looks++) {
        if (rpipe_initialized() != 1)
            return coll_fail(-ENOTCONN, "the job has ended");
        if (looks % 64 == 63 && deadline_passed(deadline))
            return coll_fail(
                -ETIMEDOUT,
                "agreement %llu is not over within %d ms: member %d, rank %d, is awaited",
                (unsigned long long)a->number, timeout_ms, agree_awaited(t),
                t->rank[agree_awaited(t)]);
        if (t->shape.hosts > 1)
            edge_drive(t);
        if (looks < AGREE_YIELDS)
            sched_yield();
        else
            clock_sleep(AGREE_NAP_NS);
    }
    a->running = false;
    *flags = a->estimate;
    *dead = a->dead;
    if ((a->dead[t->me / 64] >> t->me % 64 & 1) != 0)
        return coll_fail(-ECONNRESET, "the others have agreed that this member, rank %d, is dead",
                         t->rank[t->me]);
    return 0;
}
