/* SPDX-License-Identifier: BSD-3-Clause */
/* edge.c: see edge.h. */
#include "coll/engine/edge.h"
#include "coll/engine/operation.h"
#include "coll/engine/fail.h"
#include "util/failpoint.h"

#include <errno.h>
#include <rcast.h>
#include <stdlib.h>
#include <string.h>

#define EDGE_HEAP_LEAST (256 * 1024)
#define EDGE_CAST_SLOTS 256
#define EDGE_EARLY_MESSAGES                                                                        \
    1024                   /* for each operation in flight: more that come early fail the team */
#define EDGE_EARLY_HEAPS 4 /* their bytes, in heap_bytes */

/* A message that has come before its step: in memory of the pipe or cast, or, where that is short, in a copy. */
struct early {
    uint64_t tag;
    raddr_t d;       /* of a pipe */
    const char *mem; /* where the message is */
    char *copy;
    size_t bytes;
};

struct edge_head { /* before each message of a cast */
    uint64_t tag, zero;
};

struct edge {
    rch_t out, in; /* NULL: not opened */
    rcast_t cast;  /* not NULL: in the place of both; */
    int *members;  /* of each of its readers and, first, its writer: the member of the team */
    struct early *early;
    uint32_t count, allocated;
    size_t kept;   /* bytes of early messages in memory of the pipe */
    size_t copied; /* bytes of their copies */
};

/* Operation and slot name a message; the check is of what the operation is. */
#define EDGE_CHECK UINT64_C(0xffffff)

static uint64_t edge_tag(const struct operation *o, uint64_t slot)
{
    return o->number << 40 | slot << 24 | (o->check & EDGE_CHECK);
}

static bool edge_is_named(uint64_t a, uint64_t b) { return (a & ~EDGE_CHECK) == (b & ~EDGE_CHECK); }

/* Two members have different operations of this number. */
static bool edge_contradicts(uint64_t a, uint64_t b)
{
    return a >> 40 == b >> 40 && ((a ^ b) & EDGE_CHECK) != 0;
}

/* How far the operation of a tag is from operation `number`: tags have 24 bits of it. */
static int64_t edge_distance(uint64_t tag, uint64_t number)
{
    return (int64_t)((tag >> 40 << 40) - (number << 40)) >> 40;
}

/* ---- opening ---- */

static struct edge *edge_of(struct rteam *t, int member)
{
    if (t->edges[member] == NULL)
        t->edges[member] = calloc(1, sizeof(struct edge));
    return t->edges[member];
}

static int edge_open(struct rteam *t, int member, bool out)
{
    struct edge *edge = edge_of(t, member);
    rpipe_config_t cfg = {.role = out ? RPIPE_WRITER : RPIPE_READER,
                          .peer = t->rank[member],
                          .context = t->name,
                          .heuristic = RMALLOC_BEST_FIT,
                          .heap_bytes = 2 * t->heap_bytes,
                          .heap_bytes_at_most = 2 * t->heap_bytes,
                          .timeout_ms = t->timeout_ms,
                          .backend = t->backend,
                          .stream = t->stream};
    int rc;

    if (edge == NULL)
        return coll_fail(-ENOMEM, "no memory for the pipe to member %d", member);
    if ((out ? edge->out : edge->in) != NULL)
        return 0;
    if (cfg.heap_bytes < EDGE_HEAP_LEAST)
        cfg.heap_bytes = cfg.heap_bytes_at_most = EDGE_HEAP_LEAST;
    rc = rpipe_open(out ? &edge->out : &edge->in, &cfg);
    RPIPE_FAILPOINT("net: rcoll: pipe open");
    if (rc == 0 && !out && t->stream != NULL && t->driver == NULL)
        t->driver = edge->in;
    return rc;
}

/* Of a writer: its readers are the leaders of all other hosts. */
static int edge_open_cast(struct rteam *t, int writer)
{
    const struct shape *s = &t->shape;
    rcast_config_t cfg = {.context = t->name,
                          .slots = EDGE_CAST_SLOTS,
                          .heap_bytes = 2 * t->heap_bytes < EDGE_HEAP_LEAST ? EDGE_HEAP_LEAST
                                                                            : 2 * t->heap_bytes,
                          .timeout_ms = t->timeout_ms};
    struct edge *edge = t->casts[writer];
    int *ranks, rc;

    if (edge != NULL)
        return 0;
    edge = calloc(1, sizeof(*edge));
    ranks = malloc((size_t)s->hosts * sizeof(*ranks));
    if (edge != NULL)
        edge->members = malloc((size_t)s->hosts * sizeof(*edge->members));
    if (edge == NULL || ranks == NULL || edge->members == NULL) {
        rc = coll_fail(-ENOMEM, "no memory for the cast of member %d", writer);
    } else {
        for (int i = 0, n = 0; i < s->hosts; i++) { /* the writer comes first */
            const bool own = i == s->host[writer];
            const int at = own ? 0 : ++n, member = own ? writer : s->leaders[i];

            edge->members[at] = member;
            ranks[at] = t->rank[member];
        }
        rc = rcast_open(&edge->cast, &cfg, ranks, s->hosts);
        RPIPE_FAILPOINT("net: rcoll: cast open");
    }
    free(ranks);
    if (rc == 0) {
        t->casts[writer] = edge;
    } else if (edge != NULL) {
        free(edge->members);
        free(edge);
    }
    return rc;
}

int edge_open_all(struct rteam *t, const struct program *p)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->count && rc == 0; i++) {
        const struct step *s = &p->steps[i];

        if (s->kind != STEP_PIPE_SEND && s->kind != STEP_PIPE_RECV)
            continue;
        rc = s->by_cast ? edge_open_cast(t, s->peer)
                        : edge_open(t, s->peer, s->kind == STEP_PIPE_SEND);
    }
    return rc;
}

/*
 * Where the poll finds nothing it has also posted what this thread has left in corked pipes, for which the others may wait. A pipe that is
 * ready twice in a row has a message for a later operation, or is at its end or has failed: then its poll does neither.
 */
void edge_drive(struct rteam *t)
{
    int ready;
    bool is_ready;

    if (t->driver == NULL) { /* also of a team that threads share */
        (void)rpipe_progress();
        return;
    }
    is_ready = rpipe_poll(&t->driver, 1, &ready, 0) != R_PENDING;
    if (is_ready && t->driver_was_ready)
        (void)rpipe_progress();
    t->driver_was_ready = is_ready;
}

/* Up to the deadline of the team, which is not that of its opening. Then the service thread ends what is left. */
static void edge_close_pipe(rch_t ch, int timeout_ms)
{
    if (ch == NULL)
        return;
    (void)rpipe_set_timeout(ch, timeout_ms);
    (void)rpipe_close(ch);
}

/*
 * The writer of a cast waits for its readers, but not those of a team that has failed: one may never open it. A cast that a reader keeps
 * open for longer is closed by rexit.
 */
static void edge_close(const struct rteam *t, struct edge *edge)
{
    const int timeout_ms = t->timeout_ms == 0 ? R_AT_ONCE : t->timeout_ms;

    RPIPE_FAILPOINT("net: rcoll_close: pipes and casts open");
    edge_close_pipe(edge->out, timeout_ms);
    edge_close_pipe(edge->in, timeout_ms);
    if (edge->cast != NULL) {
        (void)rcast_set_timeout(edge->cast, timeout_ms);
        if (t->lost != 0)
            (void)rcast_discard(edge->cast);
        else
            (void)rcast_close(edge->cast);
    }
    for (uint32_t k = 0; k < edge->count; k++)
        free(edge->early[k].copy);
    free(edge->members);
    free(edge->early);
    free(edge);
}

static void edge_close_array(const struct rteam *t, struct edge ***edges)
{
    for (int i = 0; *edges != NULL && i < t->size; i++)
        if ((*edges)[i] != NULL)
            edge_close(t, (*edges)[i]);
    free(*edges);
    *edges = NULL;
}

void edge_close_all(struct rteam *t)
{
    t->driver = NULL;
    edge_close_array(t, &t->edges);
    edge_close_array(t, &t->casts);
}

/* ---- messages ---- */

/* The other end is gone: it has died, or its team has failed and is closed. What has happened is reported by the board, soon. */
static int edge_failed(struct rteam *t, int member, int rc)
{
    bool gone = rc == -EPIPE || rc == R_EOF;

    return team_fail(t, gone ? -ECONNRESET : rc, member, "%s", rpipe_error(NULL));
}

/* The same of a cast: the failure is about the reader or writer that is gone. */
static int edge_cast_failed(struct rteam *t, const struct edge *edge, int rc)
{
    const int lost = rcast_lost(edge->cast);

    return edge_failed(t, edge->members[lost > 0 && lost < t->shape.hosts ? lost : 0], rc);
}

/* To all other hosts; progress as below. */
static int edge_send_cast(struct rteam *t, struct operation *o, const struct step *s, uint32_t i)
{
    const struct edge *edge = t->casts[t->me];
    const struct edge_head head = {.tag = edge_tag(o, s->slot)};
    void *mem = (void *)(uintptr_t)o->progress[i];
    int rc;

    if (mem == NULL) {
        rc = rcast_alloc(edge->cast, sizeof(head) + s->bytes, &mem, R_NOWAIT);
        if (rc == R_PENDING)
            return STEP_WAITS;
        if (rc != 0)
            return edge_cast_failed(t, edge, rc);
        memcpy(mem, &head, sizeof(head));
        if (s->bytes > 0)
            memcpy((char *)mem + sizeof(head), o->base[s->from] + s->from_at, s->bytes);
        o->progress[i] = (uint64_t)(uintptr_t)mem;
    }
    RPIPE_FAILPOINT("net: rcoll: before a message of a cast");
    rc = rcast_write(edge->cast, mem, sizeof(head) + s->bytes, R_NOWAIT);
    if (rc == R_PENDING)
        return STEP_WAITS;
    RPIPE_FAILPOINT("net: rcoll: message of a cast written");
    o->progress[i] = 0;
    return rc == 0 ? STEP_DONE : edge_cast_failed(t, edge, rc);
}

/* progress: the message, while it is allocated and not written. */
int edge_send(struct rteam *t, struct operation *o, const struct step *s, uint32_t i)
{
    rch_t out;
    raddr_t d = (raddr_t)(uintptr_t)o->progress[i];
    int rc;

    if (operation_available(o, s->from, s->from_at, s->bytes) < s->bytes)
        return STEP_WAITS;
    if (s->by_cast)
        return edge_send_cast(t, o, s, i);
    out = t->edges[s->peer]->out;
    if (d == ADDR_NULL) {
        rc = rmalloc_nb(out, s->bytes, &d);
        if (rc == R_PENDING)
            return STEP_WAITS;
        if (rc != 0)
            return edge_failed(t, s->peer, rc);
        if (s->bytes > 0)
            memcpy(rmalloc_ptr(out, d), o->base[s->from] + s->from_at, s->bytes);
        (void)rpipe_set_tag(out, d, edge_tag(o, s->slot));
        o->progress[i] = (uint64_t)(uintptr_t)d;
    }
    RPIPE_FAILPOINT("net: rcoll: before a message");
    rc = rpipe_write_nb(out, d);
    if (rc == R_PENDING)
        return STEP_WAITS;
    RPIPE_FAILPOINT("net: rcoll: message written");
    o->progress[i] = 0;
    return rc == 0 ? STEP_DONE : edge_failed(t, s->peer, rc);
}

/* The next message of the other end. 0, R_PENDING, or a failure. */
static int edge_next(struct edge *edge, struct early *found)
{
    struct edge_head head = {0};
    const void *mem;
    size_t bytes = 0;
    raddr_t d = ADDR_NULL;
    int rc;

    if (edge->cast == NULL) {
        rc = rpipe_read_nb(edge->in, &d, &bytes);
        if (rc != 0)
            return rc;
        RPIPE_FAILPOINT("net: rcoll: message here");
        *found = (struct early){
            .tag = rpipe_tag(edge->in, d), .d = d, .mem = rmalloc_ptr(edge->in, d), .bytes = bytes};
        return 0;
    }
    rc = rcast_read(edge->cast, &mem, &bytes, R_NOWAIT);
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("net: rcoll: message of a cast here");
    if (bytes < sizeof(head)) {
        (void)rcast_free(edge->cast, mem);
        return coll_fail(-EPROTO, "a message of a cast has %zu bytes, fewer than its head", bytes);
    }
    memcpy(&head, mem, sizeof(head));
    *found = (struct early){
        .tag = head.tag, .mem = (const char *)mem + sizeof(head), .bytes = bytes - sizeof(head)};
    return 0;
}

/* A message that is not in a copy. */
static void edge_free(struct edge *edge, const struct early *e)
{
    RPIPE_FAILPOINT("net: rcoll: before a message is freed");
    if (edge->cast != NULL)
        (void)rcast_free(edge->cast, e->mem - sizeof(struct edge_head));
    else
        (void)rmalloc_free(edge->in, e->d);
}

/*
 * A sender does not wait for operations of this member, so what it has sent for later ones must not keep out what this one needs:
 * beyond 50 % of the pipe's memory early messages are copied.
 */
static int edge_keep(const struct rteam *t, struct edge *edge, struct early early)
{
    if (edge->count >= EDGE_EARLY_MESSAGES * t->depth ||
        edge->copied + early.bytes > EDGE_EARLY_HEAPS * t->depth * t->heap_bytes)
        return coll_fail(-ENOBUFS,
                         "%u messages with %zu bytes in copies have come before their operations; "
                         "give the team a larger heap_bytes",
                         edge->count, edge->copied);
    if (edge->count == edge->allocated) {
        uint32_t more = edge->allocated == 0 ? 16 : edge->allocated * 2;
        struct early *larger = realloc(edge->early, more * sizeof(*larger));

        if (larger == NULL)
            return coll_fail(-ENOMEM, "no memory for %u messages that have come early", more);
        edge->early = larger;
        edge->allocated = more;
    }
    if (edge->kept + early.bytes > t->heap_bytes) {
        early.copy = malloc(early.bytes + 1);
        if (early.copy == NULL)
            return coll_fail(-ENOMEM, "no memory for a message of %zu bytes that has come early",
                             early.bytes);
        memcpy(early.copy, early.mem, early.bytes);
        RPIPE_FAILPOINT("net: rcoll: early message copied");
        edge_free(edge, &early);
        early.d = ADDR_NULL;
        early.mem = early.copy;
        edge->copied += early.bytes;
    } else
        edge->kept += early.bytes;
    edge->early[edge->count++] = early;
    RPIPE_FAILPOINT("net: rcoll: early message kept");
    return 0;
}

static bool edge_take_early(struct edge *edge, uint64_t tag, struct early *found)
{
    for (uint32_t i = 0; i < edge->count; i++)
        if (edge_is_named(edge->early[i].tag, tag)) {
            RPIPE_FAILPOINT("net: rcoll: before an early message is taken");
            *found = edge->early[i];
            edge->early[i] = edge->early[--edge->count];
            *(found->copy == NULL ? &edge->kept : &edge->copied) -= found->bytes;
            return true;
        }
    return false;
}

/*
 * A message that comes before that of operation k is of an operation in flight here, or, as its sender is not over with k, below
 * k + depth - 1; and it is the only one of its name.
 */
static bool edge_may_keep(const struct rteam *t, const struct edge *edge, uint64_t k, uint64_t tag)
{
    if (edge_distance(tag, t->done) < 0 || edge_distance(tag, k) > (int64_t)t->depth - 2)
        return false;
    for (uint32_t i = 0; i < edge->count; i++)
        if (edge_is_named(edge->early[i].tag, tag))
            return false;
    return true;
}

/* The message of a tag. 0, R_PENDING, or a failure. */
static int edge_find(struct rteam *t, struct operation *o, struct edge *edge, int member,
                     uint64_t tag, struct early *found)
{
    if (edge_take_early(edge, tag, found))
        return 0;
    for (uint32_t i = 0; i < edge->count; i++)
        if (edge_contradicts(edge->early[i].tag, tag))
            return team_fail_other(t, o, member);
    for (;;) {
        int rc = edge_next(edge, found);

        if (rc != 0)
            return rc;
        if (edge_is_named(found->tag, tag))
            return 0;
        if (edge_contradicts(found->tag, tag) || !edge_may_keep(t, edge, o->number, found->tag))
            rc = team_fail_other(t, o, member);
        else
            rc = edge_keep(t, edge, *found);
        if (rc != 0) {
            edge_free(edge, found);
            return rc;
        }
    }
}

int edge_recv(struct rteam *t, struct operation *o, const struct step *s)
{
    struct edge *edge = s->by_cast ? t->casts[s->peer] : t->edges[s->peer];
    uint64_t tag = edge_tag(o, s->slot);
    struct early found = {0};
    int rc = edge_find(t, o, edge, s->peer, tag, &found);

    if (rc == R_PENDING)
        return STEP_WAITS;
    if (rc != 0)
        return edge_failed(t, s->peer, rc);
    o->held[s->into] = found.copy != NULL   ? ADDR_NULL
                       : edge->cast != NULL ? (raddr_t)(uintptr_t)found.mem
                                            : found.d;
    o->copy[s->into] = found.copy;
    o->base[s->into] = found.mem;
    o->ready[s->into] = NULL;
    if (found.bytes == s->bytes && found.tag == tag)
        return STEP_DONE;
    return team_fail_other(t, o, s->peer);
}

void edge_release_views(struct rteam *t, struct operation *o)
{
    const struct program *p = o->program;

    for (uint32_t v = BASE_VIEWS; v < BASE_VIEWS + p->nviews; v++) {
        int from = p->view_of[v - BASE_VIEWS];

        if (o->held[v] != ADDR_NULL)
            edge_free(from < 0 ? t->casts[-1 - from] : t->edges[from],
                      &(struct early){.d = o->held[v], .mem = (const char *)(uintptr_t)o->held[v]});
        free(o->copy[v]);
        o->held[v] = ADDR_NULL;
        o->copy[v] = NULL;
    }
}
