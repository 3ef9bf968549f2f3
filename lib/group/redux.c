/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * redux.c: one reader, many writers: messages come in turn, and nobody starves.
 *
 * A look at an empty pipe costs as much as a message, so writers who have nothing are looked at less often. Two rings of places:
 * of `busy` the first one is read, and is the last one then; found empty, it becomes the last of `idle`. After each LOOK_EVERY messages
 * from the busy the first LOOK_EVERY of the idle are looked at; one that has a message is the last of the busy.
 *
 * So busy writers are read strictly in turn, one message each. And with n writers no message that lies in its pipe waits for more
 * than 2n + LOOK_EVERY others: each other place gives at most one before a busy one's turn comes. An idle one that has p others
 * ahead of it in the queue, p < n, is looked at after at most ceil((p + 1) / LOOK_EVERY) rounds of LOOK_EVERY messages, and p
 * messages from those that turned out not to be idle.
 */
#include "group/redux.h"

#include "util/failpoint.h"

#include <errno.h>
#include <stdlib.h>

#define LOOK_EVERY 16

static struct group *redux_head(rredux_t rx) { return rx != NULL ? &rx->c : NULL; }

int redux_refuses(rredux_t rx, const char *call)
{
    return group_check(redux_head(rx), GROUP_REDUX, call);
}

/* ---- rings ---- */

static inline int redux_first(const struct rpipe_redux *rx, const struct redux_ring *q)
{
    return rx->next[q->before];
}

/* The first one is the last one now. */
static inline void redux_turn(const struct rpipe_redux *rx, struct redux_ring *q)
{
    q->before = redux_first(rx, q);
}

static void redux_push(struct rpipe_redux *rx, struct redux_ring *q, int place)
{
    if (q->n++ == 0) {
        rx->next[place] = place;
    } else {
        rx->next[place] = redux_first(rx, q);
        rx->next[q->before] = place;
    }
    q->before = place;
}

static void redux_remove_first(struct rpipe_redux *rx, struct redux_ring *q)
{
    if (--q->n > 0)
        rx->next[q->before] = rx->next[redux_first(rx, q)];
}

/* ---- opening and closing ---- */

int rpipe_redux_open(rredux_t *redux, const rpipe_config_t *cfg, const int *writers, int n)
{
    struct rpipe_redux *rx;
    struct group *c;
    int rc, i;

    if (redux == NULL) {
        last_error_set("rredux: needs a place for the object (NULL)");
        return -EINVAL;
    }
    rc = group_open(&c, GROUP_REDUX, "rredux", cfg, writers, n, SIDE_READER);
    if (rc != 0)
        return rc;
    rx = (struct rpipe_redux *)c;
    rx->ends = calloc((size_t)n, sizeof(*rx->ends));
    rx->next = calloc(3 * (size_t)n, sizeof(*rx->next));
    if (rx->ends == NULL || rx->next == NULL) {
        free(rx->ends);
        free(rx->next);
        (void)group_close(c, GROUP_REDUX, "rredux");
        last_error_set("rredux: no memory for an object with %d partners", n);
        return -ENOMEM;
    }
    rx->todo = rx->next + n;
    rx->ready = rx->todo + n;
    for (i = 0; i < n; i++)
        redux_push(rx, &rx->idle, i);
    *redux = rx;
    return 0;
}

int rpipe_redux_close(rredux_t rx)
{
    int rc = redux_refuses(rx, "rredux_close");

    if (rc != 0)
        return rc;
    free(rx->ends);
    free(rx->next);
    return group_close(&rx->c, GROUP_REDUX, "rredux_close");
}

/* ---- reading ---- */

static NOINLINE int redux_no_message(struct rpipe_redux *rx, const char *call, int place, int rc)
{
    struct group_member *p = &rx->c.part[place];

    if (rc == R_PENDING)
        return rc;
    if (rc == R_EOF || !group_member_is_open(p)) {
        group_drop(&rx->c, place);
        return R_PENDING;
    }
    return group_member_is_lost(p, rc) ? group_lose(&rx->c, call, place, rc)
                                       : group_blame(&rx->c, call, place, rc);
}

static inline int redux_poll(struct rpipe_redux *rx, const char *call, int place, raddr_t *d,
                             size_t *size)
{
    struct group_member *p = &rx->c.part[place];
    int rc = LIKELY(p->ch->whose == p->whose) ? rpipe_read_nb(p->ch, d, size) : -ENOTCONN;

    RPIPE_FAILPOINT("redux: a writer looked at");
    return LIKELY(rc == 0) ? 0 : redux_no_message(rx, call, place, rc);
}

int redux_look(struct rpipe_redux *rx, const char *call, int place, raddr_t *d, size_t *size)
{
    return redux_poll(rx, call, place, d, size);
}

/* The first of a ring, which goes where it belongs after the look. */
static inline int redux_look_first(struct rpipe_redux *rx, struct redux_ring *q, const char *call,
                                   int *place, raddr_t *d, size_t *size)
{
    int at = redux_first(rx, q),
        rc = UNLIKELY(rx->c.part[at].gone) ? R_PENDING : redux_poll(rx, call, at, d, size);
    struct redux_ring *to = rc == 0 ? &rx->busy : rc == R_PENDING ? &rx->idle : q;

    if (LIKELY(rc == 0))
        *place = at;
    if (LIKELY(to == q && !rx->c.part[at].gone)) {
        redux_turn(rx, q);
        return rc;
    }
    redux_remove_first(rx, q);
    if (!rx->c.part[at].gone)
        redux_push(rx, to, at);
    return rc;
}

static NOINLINE int redux_look_at_idle(struct rpipe_redux *rx, const char *call, int *place,
                                       raddr_t *d, size_t *size)
{
    int rc = R_PENDING;

    while (rc == R_PENDING && rx->due > 0 && rx->idle.n > 0) {
        rx->due--;
        rc = redux_look_first(rx, &rx->idle, call, place, d, size);
    }
    if (rx->idle.n == 0)
        rx->due = 0;
    return rc;
}

static int redux_once(struct rpipe_redux *rx, const char *call, int *place, raddr_t *d,
                      size_t *size)
{
    int rc;

    if (rx->due > 0 && (rc = redux_look_at_idle(rx, call, place, d, size)) != R_PENDING)
        return rc;
    while (rx->busy.n > 0) {
        rc = redux_look_first(rx, &rx->busy, call, place, d, size);
        if (LIKELY(rc == 0) && ++rx->taken >= LOOK_EVERY) {
            rx->taken = 0;
            rx->due = rx->idle.n < LOOK_EVERY ? rx->idle.n : LOOK_EVERY;
        }
        if (rc != R_PENDING)
            return rc;
    }
    rx->due = rx->idle.n; /* nobody is busy: everybody once, the rest of them in the next calls */
    rc = redux_look_at_idle(rx, call, place, d, size);
    if (rc != R_PENDING || rx->c.live > 0)
        return rc;
    RPIPE_FAILPOINT("redux: all writers gone");
    rx->c.who = -1;
    last_error_set(
        "%s: all %d writers have closed, or are gone, and all their messages have been read", call,
        rx->c.n);
    return R_EOF;
}

int redux_await(struct rpipe_redux *rx, const int *places, int n, int64_t deadline)
{
    int64_t left = deadline == DEADLINE_NEVER ? 0 : deadline - clock_now();
    int i, ends = 0, rc;

    for (i = 0; i < n; i++) {
        int place = places != NULL ? places[i] : i;

        if (rx->c.part[place].gone)
            continue;
        if (!group_member_is_open(&rx->c.part[place]))
            return 0; /* the next look says so */
        rx->ends[ends++] = rx->c.part[place].ch;
    }
    if (ends == 0)
        return 0;
    if (deadline == DEADLINE_NEVER)
        rc = rpipe_poll(rx->ends, ends, rx->ready, -1);
    else
        rc = left <= 0 ? -ETIMEDOUT
                       : rpipe_poll(rx->ends, ends, rx->ready, (int)((left - 1) / NS_PER_MS) + 1);
    return rc == -ETIMEDOUT ? rc : 0; /* whatever else it is, the next look says so */
}

static NOINLINE int redux_wait(struct rpipe_redux *rx, int *place, raddr_t *d, size_t *size)
{
    int64_t deadline = deadline_in_ms(rx->c.timeout_ms);
    int rc;

    do {
        if (redux_await(rx, NULL, rx->c.n, deadline) != 0) {
            rx->c.who = -1;
            last_error_set("rredux_read: none of %d writers has sent anything within %d ms",
                           rx->c.live, rx->c.timeout_ms);
            return -ETIMEDOUT;
        }
        rc = redux_once(rx, "rredux_read", place, d, size);
    } while (rc == R_PENDING);
    return rc;
}

static int redux_refuses_read(rredux_t rx, const char *call, const int *place, const raddr_t *d)
{
    int rc = redux_refuses(rx, call);

    if (rc == 0 && (place == NULL || d == NULL)) {
        last_error_set("%s: no place for the descriptor, or for the writer whose it is (NULL)",
                       call);
        rc = -EINVAL;
    }
    if (rc == 0 && rx->round.open) {
        last_error_set("%s: a reduction has begun and has not got all its messages yet", call);
        rc = -EBUSY;
    }
    return rc;
}

/* Nothing is wrong, and it is a busy one's turn. */
static inline bool redux_is_simple(const struct rpipe_redux *rx, const int *place, const raddr_t *d)
{
    return LIKELY(rx != NULL && place != NULL && d != NULL && rx->c.kind == GROUP_REDUX &&
                  !rx->round.open && rx->due == 0 && rx->busy.n > 0 &&
                  (rx->taken < LOOK_EVERY - 1 || rx->idle.n == 0));
}

static inline bool redux_read_busy(struct rpipe_redux *rx, int *place, raddr_t *d, size_t *size)
{
    int at = redux_first(rx, &rx->busy);
    struct group_member *p = &rx->c.part[at];

    if (UNLIKELY(p->gone || p->ch->whose != p->whose || rpipe_read_nb(p->ch, d, size) != 0))
        return false; /* the long way says why */
    rx->busy.before = at;
    rx->taken += rx->idle.n > 0;
    *place = at;
    return true;
}

int rpipe_redux_read(rredux_t rx, int *place, raddr_t *d, size_t *size)
{
    int rc;

    if (redux_is_simple(rx, place, d) && redux_read_busy(rx, place, d, size))
        return 0;
    rc = redux_refuses_read(rx, "rredux_read", place, d);
    if (rc == 0)
        rc = redux_once(rx, "rredux_read", place, d, size);
    return rc == R_PENDING ? redux_wait(rx, place, d, size) : rc;
}

int rpipe_redux_read_nb(rredux_t rx, int *place, raddr_t *d, size_t *size)
{
    int rc;

    if (redux_is_simple(rx, place, d) && redux_read_busy(rx, place, d, size))
        return 0;
    rc = redux_refuses_read(rx, "rredux_read_nb", place, d);
    return rc != 0 ? rc : redux_once(rx, "rredux_read_nb", place, d, size);
}

/* ---- the rest ---- */

int rpipe_redux_wait(rredux_t rx) { return group_wait(redux_head(rx), GROUP_REDUX, "rredux_wait"); }

int rpipe_redux_set_timeout(rredux_t rx, int ms)
{
    return group_set_timeout(redux_head(rx), GROUP_REDUX, "rredux_set_timeout", ms);
}

rch_t rpipe_redux_pipe(rredux_t rx, int place)
{
    if (UNLIKELY(rx == NULL || rx->c.kind != GROUP_REDUX)) {
        (void)redux_refuses(rx, "rredux_pipe"); /* for the sentence */
        return NULL;
    }
    return group_pipe(&rx->c, place);
}

int rpipe_redux_rank(rredux_t rx, int place)
{
    return group_rank(redux_head(rx), GROUP_REDUX, "rredux_rank", place);
}

int rpipe_redux_place(rredux_t rx, int rank)
{
    return group_index(redux_head(rx), GROUP_REDUX, "rredux_place", rank);
}

int rpipe_redux_live(rredux_t rx) { return group_live(redux_head(rx), GROUP_REDUX, "rredux_live"); }

int rpipe_redux_who(rredux_t rx)
{
    return group_last_failed(redux_head(rx), GROUP_REDUX, "rredux_who");
}
