/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_message.c: how the ends of the path between hosts find each other, see mcast_message.h and doc/multicast.md "Opening".
 *
 * An end is named by the context, its ranks and its writer, and its number: how often this process has opened that name. So the k-th at the
 * writer belongs to the k-th at each reader. Nothing is kept for an end that is not open: it announces itself when it opens, and
 * what it announces requests an answer.
 */
#include "cast/cast_feature.h"
#include "cast/mcast_message.h"

#include "cast/mcast_carrier.h"
#include "cast/mcast_drive.h"
#include "cast/mcast_reader.h"
#include "cast/mcast_writer.h"

#include "control/control.h"
#include "rpipe/end/message.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum mcast_kind {
    MCAST_OFFER = 1, /* writer to reader: how to receive */
    MCAST_JOIN,      /* reader to writer: where it receives */
    MCAST_GONE       /* either: this end is closed */
};

#define MCAST_ANSWER 1u     /* flags: an answer is requested */
#define MCAST_BACKLOG 4096u /* messages that wait for a rank when one more answer is sent to it */

struct mcast_message {
    uint32_t bytes; /* of this structure */
    uint16_t kind;  /* enum mcast_kind */
    uint16_t flags;
    uint64_t context, ranks, number; /* the name, and which of it */
    uint64_t first, heap_bytes;      /* of the configuration, which all members must have */
    uint32_t slots;
    struct version_range versions; /* of the packets */
    uint64_t key;                  /* OFFER, and all below */
    uint32_t payload;         /* bytes of the payload of each packet of a message but the last */
    uint32_t member;          /* number of the reader in the protocol */
    struct medium_address at; /* of the sender */
    struct medium_address group;
    struct medium_address device_at, device_group; /* the same of an RDMA device; family 0: none */
};
static_assert(sizeof(struct mcast_message) == 168 && offsetof(struct mcast_message, key) == 56 &&
                  offsetof(struct mcast_message, at) == 72,
              "on the wire");

pthread_mutex_t mcast_lock = PTHREAD_MUTEX_INITIALIZER;
static struct link mcast_ends = {&mcast_ends, &mcast_ends};
static struct link mcast_names = {&mcast_names, &mcast_names};
static _Atomic unsigned mcast_message_warned;

/* ---- names ---- */

static uint64_t mcast_hash_ranks(const struct rcast *c)
{
    uint64_t hash = hash_bytes(HASH_BASIS, &c->writer, sizeof(c->writer));

    for (int i = 0; i < c->n; i++)
        hash = hash_bytes(hash, &c->member[i].rank, sizeof(c->member[i].rank));
    return hash;
}

static struct mcast_name *mcast_find_name(uint64_t context, uint64_t ranks)
{
    struct link *at, *after;

    list_for_each (at, after, &mcast_names) {
        struct mcast_name *name = container_of(at, struct mcast_name, link);

        if (name->context == context && name->ranks == ranks)
            return name;
    }
    return NULL;
}

static struct mcast *mcast_find_end(const struct mcast_message *m)
{
    struct link *at, *after;

    list_for_each (at, after, &mcast_ends) {
        struct mcast *p = container_of(at, struct mcast, link);

        if (p->context == m->context && p->ranks == m->ranks && p->number == m->number)
            return p;
    }
    return NULL;
}

int mcast_register(struct mcast *p, struct error *err)
{
    struct mcast_name *name;
    int rc = 0;

    p->ranks = mcast_hash_ranks(p->path.cast);
    pthread_mutex_lock(&mcast_lock);
    name = mcast_find_name(p->context, p->ranks);
    if (name == NULL && (name = calloc(1, sizeof(*name))) != NULL) {
        name->context = p->context;
        name->ranks = p->ranks;
        list_append(&mcast_names, &name->link);
    }
    if (name != NULL) {
        p->number = ++name->opened;
        list_append(&mcast_ends, &p->link);
    } else {
        rc = error_set(err, -ENOMEM, "no memory for another cast");
    }
    pthread_mutex_unlock(&mcast_lock);
    return rc;
}

void mcast_unregister(struct mcast *p)
{
    pthread_mutex_lock(&mcast_lock);
    list_remove(&p->link);
    pthread_mutex_unlock(&mcast_lock);
}

/* ---- sending ---- */

static struct mcast_message mcast_message_of(const struct mcast *p, enum mcast_kind kind,
                                             bool answer)
{
    struct mcast_message m = {.bytes = sizeof(m),
                              .kind = (uint16_t)kind,
                              .flags = answer ? MCAST_ANSWER : 0,
                              .context = p->context,
                              .ranks = p->ranks,
                              .number = p->number,
                              .first = p->first,
                              .heap_bytes = p->path.cast->heap_bytes,
                              .slots = p->slots,
                              .versions = {NAK_VERSION, NAK_VERSION}};

    m.at = p->carrier[MCAST_UDP].ops->address(p->carrier[MCAST_UDP].medium);
    return m;
}

/* A message that cannot be queued is dropped: its receiver is gone, or its waits end at their deadline. */
static void mcast_post_to(int rank, const struct mcast_message *m)
{
    int rc = control_post(rank, MESSAGE_CAST, m, sizeof(*m), NULL, 0);

    if (rc == -ENOMEM)
        log_few(&mcast_message_warned, "a message about a cast cannot be sent to rank %d: %s", rank,
                strerror(-rc));
}

static void mcast_post_offer(const struct mcast *p, uint32_t reader, bool answer)
{
    struct mcast_message m = mcast_message_of(p, MCAST_OFFER, answer);

    m.key = p->key;
    m.payload = p->payload;
    m.member = reader;
    m.group = p->carrier[MCAST_UDP].group;
    m.device_at = p->carrier[MCAST_DEVICE].root;
    m.device_group = p->carrier[MCAST_DEVICE].group;
    mcast_post_to(p->path.cast->member[p->reader[reader].member].rank, &m);
}

static void mcast_post_join(const struct mcast *p, bool answer)
{
    const struct rcast *c = p->path.cast;
    const struct mcast_message m = mcast_message_of(p, MCAST_JOIN, answer);

    mcast_post_to(c->member[c->writer].rank, &m);
}

void mcast_announce(struct mcast *p)
{
    if (!p->path.cast->writes)
        mcast_post_join(p, true);
    for (uint32_t i = 0; p->path.cast->writes && i < p->readers; i++)
        mcast_post_offer(p, i, true);
}

void mcast_announce_close(struct mcast *p)
{
    const struct rcast *c = p->path.cast;
    const struct mcast_message m = mcast_message_of(p, MCAST_GONE, false);

    if (!c->writes)
        mcast_post_to(c->member[c->writer].rank, &m);
    for (uint32_t i = 0; c->writes && i < p->readers; i++)
        mcast_post_to(c->member[p->reader[i].member].rank, &m);
}

/* ---- receiving ---- */

/* NULL: the other end has the same configuration, and a version in common. */
static const char *mcast_differs(const struct mcast *p, const struct mcast_message *m)
{
    if (m->versions.oldest > NAK_VERSION || m->versions.newest < NAK_VERSION)
        return "it has no version of packets that this library has";
    if (m->at.family != p->carrier[MCAST_UDP].ops->address(p->carrier[MCAST_UDP].medium).family)
        return "its address is of another family, IPv4 or IPv6; see RPIPE_INTERFACE";
    if (m->heap_bytes != p->path.cast->heap_bytes || m->slots != p->slots || m->first != p->first)
        return "it has other heap_bytes, slots, or RPIPE_FIRST; all members must agree";
    return NULL;
}

/* A rank that requests answers, and does not receive them, gets no more. */
static bool mcast_wants_answer(int from, const struct mcast_message *m)
{
    return (m->flags & MCAST_ANSWER) != 0 && control_backlog(from) < MCAST_BACKLOG;
}

static void mcast_to_writer(struct mcast *p, int from, const struct mcast_message *m)
{
    uint32_t i = 0;

    while (i < p->readers && p->path.cast->member[p->reader[i].member].rank != from)
        i++;
    if (i == p->readers)
        return;
    if (m->kind == MCAST_GONE) {
        p->reader[i].closed = true;
    } else if (m->kind == MCAST_JOIN) {
        mcast_writer_joined(p, i, &m->at, mcast_differs(p, m));
        mcast_set_timer(p, clock_now());
        mcast_flush(p);
        if (mcast_wants_answer(from, m))
            mcast_post_offer(p, i, false);
    }
}

static void mcast_to_reader(struct mcast *p, int from, const struct mcast_message *m)
{
    const struct rcast *c = p->path.cast;
    const struct mcast_offer offer = {.key = m->key,
                                      .root = {m->at, m->device_at},
                                      .group = {m->group, m->device_group},
                                      .payload = m->payload,
                                      .member = m->member};

    if (from != c->member[c->writer].rank)
        return;
    if (m->kind == MCAST_GONE) {
        p->writer_closed = true;
    } else if (m->kind == MCAST_OFFER) {
        p->failure = p->failure == NULL ? mcast_differs(p, m) : p->failure;
        if (m->payload < 16 || m->payload % 16 != 0 ||
            m->payload > nak_payload(MEDIUM_PACKET_MOST) || m->member > UINT16_MAX)
            p->failure = "its packets have a size that is not possible";
        if (p->failure == NULL && !p->attached) {
            mcast_reader_attach(p, &offer);
            mcast_watch(p, MCAST_OF_GROUP);
            mcast_watch(p, MCAST_OF_DEVICE);
        }
        if (mcast_wants_answer(from, m))
            mcast_post_join(p, false);
    }
}

/* The end that the message names is closed, or this process is in rexit and never opens it. */
static bool mcast_is_over(const struct mcast_name *name, const struct mcast_message *m)
{
    return calls_ended() || (name != NULL && m->number <= name->opened);
}

static void mcast_dispatch(int from, const struct mcast_message *m)
{
    const struct mcast_name *name;
    struct mcast *p;

    pthread_mutex_lock(&mcast_lock);
    p = mcast_find_end(m);
    name = mcast_find_name(m->context, m->ranks);
    if (p != NULL) {
        pthread_mutex_lock(&p->lock);
        if (p->path.cast->writes)
            mcast_to_writer(p, from, m);
        else
            mcast_to_reader(p, from, m);
        pthread_mutex_unlock(&p->lock);
    } else if (mcast_is_over(name, m) && mcast_wants_answer(from, m)) {
        struct mcast_message gone = *m;

        gone.kind = MCAST_GONE;
        gone.flags = 0;
        mcast_post_to(from, &gone);
    }
    pthread_mutex_unlock(&mcast_lock);
}

static void mcast_on_message(int from, uint32_t type, const void *body, size_t bytes,
                             const int *fds, int nfds)
{
    struct mcast_message m = {0};

    (void)type, (void)fds, (void)nfds;
    if (bytes >= sizeof(m)) /* members that a newer version appends are ignored */
        memcpy(&m, body, sizeof(m));
    if (m.bytes != bytes)
        log_few(&mcast_message_warned,
                "rank %d: malformed message about a cast ignored (%zu bytes, expected %zu)", from,
                bytes, sizeof(m));
    else
        mcast_dispatch(from, &m);
}

static const struct feature_message mcast_messages[] = {
    {MESSAGE_CAST, {.of_none = mcast_on_message}},
    {0},
};
const struct end_feature cast_feature = {
    .name = "cast", .messages = mcast_messages, .leave = cast_leave_all};
