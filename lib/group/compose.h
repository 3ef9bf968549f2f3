/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compose.h: what pipes made of pipes have in common: duplex, scatter, redux (thesis 3.4.2, 5.2).
 *
 * Only the end with many partners is an object. It consists of *parts*, plain ends that it opens, hands out on request, and
 * closes; the other end of each is a plain pipe of somebody who need not know. So all that is true of a pipe is true of a part, and
 * an object works over every backend: it calls the public functions alone.
 *
 * A *place* is the number of a part, in the order of the list of ranks that the object was opened with. A part is live
 * until its partner has closed, has died or has left (told once, as the error of one call), or the user has closed it by rclose.
 *
 * Memory of objects is type-stable, as that of ends is (end_pool.c), so that one that is used after it was closed is an error.
 */
#ifndef GROUP_COMPOSE_H
#define GROUP_COMPOSE_H

#include "rpipe/end/end.h"

#include <rpipe_transitional.h>

#include "util/clock.h"

enum group_kind { GROUP_CLOSED, GROUP_DUPLEX, GROUP_SCATTER, GROUP_REDUX };

#define COMPOSE_MOST 65536 /* parts of one object: what rpipe_poll takes */
#define COMPOSE_BYTES 256  /* of an object, the largest there is */

struct group_member {
    rch_t ch;
    uint32_t
        whose; /* the end's own: another one, and the user has closed this end, and it is somebody else's now */
    int rank;
    bool gone; /* takes no part any more */
};

struct group {
    enum group_kind kind;
    int n, live; /* parts; of them not gone */
    int timeout_ms;
    int who; /* place that the last failure was about; -1: none */
    struct group_member *part;
    struct group *next_free;
};

/* 0, or the code and the sentence: NULL, closed */
int group_check(struct group *c, enum group_kind kind, const char *call);

/*
 * Opens `n` parts, as `side`, to these ranks (NULL: 0 to n - 1), all or none. A rank that occurs several times gets as many pipes,
 * cfg->context, cfg->context + 1 ... The object comes zeroed but for its head. 0, or the code and the sentence.
 */
int group_open(struct group **out, enum group_kind kind, const char *call,
               const rpipe_config_t *cfg, const int *ranks, int n, enum side side);
/* The same by hand: an object without parts, then one after the other; at last `kind` is set, or group_abandon. */
int group_make(struct group **out, const char *call, const rpipe_config_t *cfg, int n);
int group_open_member(struct group *c, const char *call, const rpipe_config_t *cfg, int place,
                      int rank, uint64_t context, enum side side);
void group_abandon(struct group *c);

/* What every kind offers its user, who may show anything: 0 or a number, or the code and the sentence of group_check. */
int group_close(struct group *c, enum group_kind kind,
                const char *call); /* the first error of rclose */
int group_wait(struct group *c, enum group_kind kind,
               const char *call); /* until every live part is joined */
int group_set_timeout(struct group *c, enum group_kind kind, const char *call, int ms);
int group_rank(struct group *c, enum group_kind kind, const char *call, int place);
int group_index(struct group *c, enum group_kind kind, const char *call, int rank);
int group_live(struct group *c, enum group_kind kind, const char *call);
int group_last_failed(struct group *c, enum group_kind kind, const char *call);

/* `rc` came from the part at `place`, and is about the partner, who is out of it: told once. Returns rc. */
int group_lose(struct group *c, const char *call, int place, int rc);
/* `rc` came from there, and is about the caller. Returns rc. */
int group_blame(struct group *c, const char *call, int place, int rc);
/* The partner has closed in order, or the user the part: no failure. */
void group_drop(struct group *c, int place);

/* The part is still the end that was opened here. */
static inline bool group_member_is_open(const struct group_member *p)
{
    return p->ch->whose == p->whose &&
           (atomic_load_explicit(&p->ch->state, memory_order_relaxed) & STATE_CLOSED) == 0;
}

/* NULL: there is no such place, or the user has closed it */
static inline rch_t group_pipe(const struct group *c, int place)
{
    if (UNLIKELY(place < 0 || place >= c->n || !group_member_is_open(&c->part[place])))
        return NULL;
    return c->part[place].ch;
}

/* Is an error of the part about the partner? Else it is about what the caller wants or holds, and the part is as good as before. */
static inline bool group_member_is_lost(const struct group_member *p, int rc)
{
    return rc == -EPIPE || rc == -ECONNRESET || rc == -EPROTO || rc == R_EOF || rc == -ENOTCONN ||
           (atomic_load_explicit(&p->ch->state, memory_order_acquire) & STATE_FAILED) != 0;
}

#endif
