/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h: pipes to many readers (scatter) or from many writers (redux) as one object (thesis 3.4.2, 5.2).
 *
 * Only the end with many peers is an object. Its members are plain ends that it opens, hands out on request, and closes; the
 * other end of each is a plain pipe. So a group works over every backend: it calls the public functions of pipes.
 *
 * A member is an index into the list of peers, and is never used again. It is live until its peer has closed, has died or has
 * left (reported once, as the error of one call), or the program has closed it by rclose.
 *
 * The memory of groups is type-stable, as that of ends is (end_pool.c): the use of a closed group is an error.
 */
#ifndef GROUP_GROUP_H
#define GROUP_GROUP_H

#include "rpipe/end/call.h"
#include "rpipe/end/rch.h"

#include <rpipe.h>

#define GROUP_MOST 65536 /* members: what rpoll takes */

struct group_member {
    rch_t ch;
    uint32_t id; /* of the end as it was opened: a different value means that it has been closed */
    int peer;
    bool gone; /* neither read nor written any more */
};

/*
 * Members in a ring, linked by rgroup.next, so that a turn is one store. Every member that is not gone is in one of the two
 * rings; some that are gone still are.
 */
struct group_ring {
    int before; /* the one before the first: the last */
    int n;
};

struct rgroup {
    bool open;
    enum side role;
    int n, live; /* members; those that are not gone */
    int timeout_ms;
    int lost; /* the member that the last failure was about; -1: none */
    struct group_member *member;
    rch_t *ends; /* those to wait for, n elements */
    struct rgroup *next_free;
    /* writers */
    int turn;  /* RGROUP_NEXT: the next member */
    int first; /* RGROUP_ANY: the member that is tried first */
    /* readers */
    struct group_ring busy; /* had a message when they were polled last; in turn */
    struct group_ring idle; /* had none; the member that has waited longest is first */
    int taken;              /* messages of busy members since the idle ones were polled */
    int due;                /* idle members to poll now */
    int *next, *ready;      /* n elements each */
};

/* ---- group.c ---- */

/* Enters the call `name`: NULL, closed, not of this role (0: either). 0, or the code and its message. */
int group_begin(struct call *call, const char *name, struct rgroup *g, enum side role);
/* `rc` is a failure of a member: reports it, and drops the member if the failure is the loss of the peer. Returns rc. */
int group_failed(struct rgroup *g, int member, int rc);
/* The peer has closed in order, or the program has closed the member: no failure. */
void group_drop(struct rgroup *g, int member);

/* The member is still the end that was opened here. */
static inline bool group_member_is_open(const struct group_member *m)
{
    return m->ch->id == m->id &&
           (atomic_load_explicit(&m->ch->state, memory_order_relaxed) & STATE_CLOSED) == 0;
}

/* The program has learned of the loss of this member from its own call on the pipe: no call of the group reports it again. */
static inline bool group_member_is_reported(const struct group_member *m)
{
    return m->ch->loss_reported;
}

/* ---- group_read.c ---- */

/*
 * Reads from one member without waiting. R_PENDING: no message, or the peer has closed in order (then the member is gone).
 * Any other error has its message; if it is the loss of the peer, the member is gone.
 */
int group_poll(struct rgroup *g, int member, raddr_t *d, size_t *size);
/* Waits until one of the n members (NULL: all) may have a message. 0, or -ETIMEDOUT without a message. */
int group_await(struct rgroup *g, const int *members, int n, int64_t deadline);
void group_readers_init(struct rgroup *g); /* all members are idle */
int group_all_closed(struct rgroup *g);    /* R_EOF and its message */

/* ---- group_operator.c ---- */

/* The function and the length of `count` elements. 0, or -EINVAL and its message. */
int group_operator(size_t count, rgroup_type_t type, rgroup_op_t op, rgroup_function_t *function,
                   size_t *bytes);

#endif
