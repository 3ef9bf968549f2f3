/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter.c: one writer, many readers: messages are dealt to a given reader, in turn, or to the first who has room.
 *
 * To whom a message goes is decided when its memory is allocated, because the memory is that reader's: nothing is copied from
 * pipe to pipe. From there on it is a message of a plain pipe.
 *
 * "Room" is a slot and memory, counted with what the caller has allocated and not written (rpipe_room). Who has had the last one
 * is asked last, so that readers who all have room are served in turn.
 */
#include "group/compose.h"

#include "util/failpoint.h"

#include <errno.h>

struct rpipe_scatter {
    struct group c;
    int turn;  /* RSCATTER_NEXT: place of the next one */
    int first; /* RSCATTER_ANY: place that is asked first */
};
static_assert(sizeof(struct rpipe_scatter) <= COMPOSE_BYTES, "objects are of one size");

static struct group *scatter_head(rscatter_t sc) { return sc != NULL ? &sc->c : NULL; }

static int scatter_refuses(rscatter_t sc, const char *call)
{
    return group_check(scatter_head(sc), GROUP_SCATTER, call);
}

int rpipe_scatter_open(rscatter_t *sc, const rpipe_config_t *cfg, const int *readers, int n)
{
    struct group *c;
    int rc;

    if (sc == NULL) {
        last_error_set("rscatter: needs a place for the object (NULL)");
        return -EINVAL;
    }
    rc = group_open(&c, GROUP_SCATTER, "rscatter", cfg, readers, n, SIDE_WRITER);
    if (rc == 0)
        *sc = (rscatter_t)c;
    return rc;
}

/* ---- dealing ---- */

struct deal {
    const char *call;
    size_t size;
    int place; /* found */
    raddr_t d;
    bool wait;
};

static int scatter_nobody(struct rpipe_scatter *sc, const char *call)
{
    sc->c.who = -1;
    last_error_set("%s: none of the %d readers is left", call, sc->c.n);
    return -EPIPE;
}

static int scatter_alloc_from(struct group_member *p, struct deal *deal)
{
    if (!deal->wait)
        return rmalloc_nb(p->ch, deal->size, &deal->d);
    deal->d = rmalloc_alloc(p->ch, deal->size);
    return deal->d != ADDR_NULL ? 0 : -errno;
}

/* To the one at deal->place, who may be anybody. */
static int scatter_deal_to(struct rpipe_scatter *sc, struct deal *deal)
{
    struct group_member *p;
    int rc;

    if (deal->place < 0 || deal->place >= sc->c.n) {
        last_error_set("%s: place %d; the places are 0 to %d, RSCATTER_NEXT and RSCATTER_ANY",
                       deal->call, deal->place, sc->c.n - 1);
        return -EINVAL;
    }
    p = &sc->c.part[deal->place];
    if (!group_member_is_open(p)) {
        group_drop(&sc->c, deal->place);
        sc->c.who = deal->place;
        last_error_set("%s: the pipe of place %d, rank %d, has been closed", deal->call,
                       deal->place, p->rank);
        return -ENOTCONN;
    }
    rc = p->gone ? rpipe_room(p->ch, deal->size)
                 : 0; /* who is gone is told each time, also where memory is there */
    if (rc == 0 || rc == R_PENDING)
        rc = scatter_alloc_from(p, deal);
    if (rc == 0 || rc == R_PENDING)
        return rc;
    return group_member_is_lost(p, rc) ? group_lose(&sc->c, deal->call, deal->place, rc)
                                       : group_blame(&sc->c, deal->call, deal->place, rc);
}

static int scatter_after(const struct rpipe_scatter *sc, int place)
{
    return place + 1 < sc->c.n ? place + 1 : 0;
}

/* To the next one in turn who is still there. A turn that failed for want of room is not over. */
static int scatter_deal_next(struct rpipe_scatter *sc, struct deal *deal)
{
    int rc, i;

    for (i = 0; i < sc->c.n; i++, sc->turn = scatter_after(sc, sc->turn)) {
        struct group_member *p = &sc->c.part[sc->turn];

        if (p->gone)
            continue;
        if (!group_member_is_open(p)) {
            group_drop(&sc->c, sc->turn);
            continue;
        }
        deal->place = sc->turn;
        rc = scatter_deal_to(sc, deal);
        if (rc == 0 || p->gone)
            sc->turn = scatter_after(sc, sc->turn);
        return rc;
    }
    return scatter_nobody(sc, deal->call);
}

/* One look at everybody. */
static int scatter_deal_any(struct rpipe_scatter *sc, struct deal *deal)
{
    int i, rc, at = sc->first, last = -1, in_vain = 0;

    for (i = 0; i < sc->c.n; i++, at = scatter_after(sc, at)) {
        struct group_member *p = &sc->c.part[at];

        if (p->gone)
            continue;
        if (!group_member_is_open(p)) {
            group_drop(&sc->c, at);
            continue;
        }
        rc = rpipe_room(p->ch, deal->size);
        if (rc == 0)
            rc = rmalloc_nb(p->ch, deal->size, &deal->d);
        if (rc == 0) {
            deal->place = at;
            sc->first = scatter_after(sc, at);
            return 0;
        }
        if (rc == R_PENDING)
            continue;
        if (group_member_is_lost(p, rc))
            return group_lose(&sc->c, deal->call, at, rc);
        if (rc != -ENOBUFS)
            return group_blame(&sc->c, deal->call, at, rc);
        in_vain++;
        last = at;
    }
    if (sc->c.live == 0)
        return scatter_nobody(sc, deal->call);
    return in_vain == sc->c.live ? group_blame(&sc->c, deal->call, last, -ENOBUFS) : R_PENDING;
}

/* A thread can sleep on one wake word, not on many: it naps, as in rpipe_poll. */
static int scatter_wait_for_any(struct rpipe_scatter *sc, struct deal *deal)
{
    struct waiter w;
    int rc = scatter_deal_any(sc, deal);

    if (rc != R_PENDING)
        return rc;
    wait_begin(&w, NULL, deadline_in_ms(sc->c.timeout_ms), true);
    do {
        if (wait_step(&w) != 0) {
            sc->c.who = -1;
            last_error_set("%s: none of %d readers had room for %zu bytes within %d ms", deal->call,
                           sc->c.live, deal->size, sc->c.timeout_ms);
            rc = -ETIMEDOUT;
            break;
        }
        rc = scatter_deal_any(sc, deal);
    } while (rc == R_PENDING);
    wait_end(&w);
    return rc;
}

static int scatter_alloc(rscatter_t sc, const char *call, int to, size_t size, int *place,
                         raddr_t *d, bool wait)
{
    struct deal deal = {call, size, to, ADDR_NULL, wait};
    int rc = scatter_refuses(sc, call);

    if (rc != 0)
        return rc;
    if (d == NULL || (place == NULL && to < 0)) {
        last_error_set("%s: no place for the descriptor, or for the reader who gets it (NULL)",
                       call);
        return -EINVAL;
    }
    if (to == RSCATTER_NEXT)
        rc = scatter_deal_next(sc, &deal);
    else if (to == RSCATTER_ANY)
        rc = wait ? scatter_wait_for_any(sc, &deal) : scatter_deal_any(sc, &deal);
    else
        rc = scatter_deal_to(sc, &deal);
    if (rc != 0)
        return rc;
    if (place != NULL)
        *place = deal.place;
    *d = deal.d;
    return 0;
}

int rpipe_scatter_alloc(rscatter_t sc, int to, size_t size, int *place, raddr_t *d)
{
    return scatter_alloc(sc, "rscatter_alloc", to, size, place, d, true);
}

int rpipe_scatter_alloc_nb(rscatter_t sc, int to, size_t size, int *place, raddr_t *d)
{
    return scatter_alloc(sc, "rscatter_alloc_nb", to, size, place, d, false);
}

int rpipe_scatter_write(rscatter_t sc, int place, raddr_t d)
{
    struct group_member *p;
    int rc = scatter_refuses(sc, "rscatter_write");

    if (rc != 0)
        return rc;
    if (group_pipe(&sc->c, place) == NULL) {
        last_error_set(
            "rscatter_write: there is no place %d, or its pipe has been closed; there are %d",
            place, sc->c.n);
        return place < 0 || place >= sc->c.n ? -EINVAL : -ENOTCONN;
    }
    RPIPE_FAILPOINT("scatter: before the write");
    p = &sc->c.part[place];
    rc = rpipe_write(p->ch, d);
    if (LIKELY(rc == 0))
        return 0;
    return group_member_is_lost(p, rc) ? group_lose(&sc->c, "rscatter_write", place, rc)
                                       : group_blame(&sc->c, "rscatter_write", place, rc);
}

/* ---- the rest ---- */

int rpipe_scatter_wait(rscatter_t sc)
{
    return group_wait(scatter_head(sc), GROUP_SCATTER, "rscatter_wait");
}

int rpipe_scatter_set_timeout(rscatter_t sc, int ms)
{
    return group_set_timeout(scatter_head(sc), GROUP_SCATTER, "rscatter_set_timeout", ms);
}

rch_t rpipe_scatter_pipe(rscatter_t sc, int place)
{
    return scatter_refuses(sc, "rscatter_pipe") == 0 ? group_pipe(&sc->c, place) : NULL;
}

int rpipe_scatter_rank(rscatter_t sc, int place)
{
    return group_rank(scatter_head(sc), GROUP_SCATTER, "rscatter_rank", place);
}

int rpipe_scatter_place(rscatter_t sc, int rank)
{
    return group_index(scatter_head(sc), GROUP_SCATTER, "rscatter_place", rank);
}

int rpipe_scatter_live(rscatter_t sc)
{
    return group_live(scatter_head(sc), GROUP_SCATTER, "rscatter_live");
}

int rpipe_scatter_who(rscatter_t sc)
{
    return group_last_failed(scatter_head(sc), GROUP_SCATTER, "rscatter_who");
}

int rpipe_scatter_close(rscatter_t sc)
{
    return group_close(scatter_head(sc), GROUP_SCATTER, "rscatter_close");
}
