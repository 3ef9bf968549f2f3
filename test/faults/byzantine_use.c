/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_use.c: what the victim of byzantine.h does with ends to the byzantine rank: calls of all kinds, by one thread; each may return what the
 * manual specifies, and nothing else.
 */
#include "byzantine.h"
#include "peer_codes.h"
#include "test/lib/group.h"
#include "test/lib/counts.h"
#include <rinfo.h>
#include <rpipe.h>

#include "rpipe/end/rch.h"
#include "test/lib/cells.h"

/* ---- what calls may give ---- */

bool victim_may_get(int rc) { return peer_may_cause(rc); }

static struct board *counts;
static int refused; /* by this end, or object */

void victim_counts(struct board *board) { counts = board; }

static void check_error_message(const char *error_message, const char *call, int rc, bool waits)
{
    EXPECT(victim_may_get(rc) && !(waits && rc == R_PENDING), "%s gave %d (%s): %s", call, rc,
           rinfo_strerror(rc), error_message);
    if (rc != -EPROTO)
        return;
    refused++;
    atomic_fetch_add(BOARD_REFUSED(counts), 1);
    EXPECT(peer_explained(error_message), "%s: the error message is \"%s\"", call, error_message);
}

static void judge(rch_t ch, const char *call, int rc, bool waits)
{
    check_error_message(rerror(ch), call, rc, waits);
}

static uint64_t sum; /* of what was read: every byte can be */

uint64_t victim_sum(void) { return sum; }

static void look_at(rch_t ch, raddr_t d, size_t size)
{
    const uint8_t *mem = rmem(ch, d);
    size_t i;

    for (i = 0; i < size; i += i < 64 || i + 64 >= size ? 1 : 61)
        sum += mem[i];
    if (size > 0)
        sum += mem[size - 1];
}

/* ---- the program's own memory ---- */

#define OWN 8192

static uint8_t own[OWN]; /* one region at a time; what is in it does not matter */

static void use_region(rch_t ch, rregion_t region, bool writes, uint64_t *random)
{
    uint64_t x = random_draw(random);
    size_t at = (x >> 8) % OWN, bytes = (x >> 24) % ((x & 1) != 0 ? 200 : OWN), size;
    static int word;
    int rc;

    if (bytes > OWN - at)
        bytes = OWN - at;
    if (!writes) {
        rc = (x & 2) != 0 ? rread_into(ch, region, at, bytes, &size, NULL, 0)
                          : rread_into(ch, region, at, bytes, &size, NULL, R_NOWAIT);
        judge(ch, "rread_into", rc, (x & 2) != 0);
        EXPECT(rc != 0 || size <= bytes, "rread_into: %zu bytes where there is space for %zu", size,
               bytes);
        return;
    }
    rc = (x & 2) != 0 ? rwrite_from(ch, region, at, bytes, 0, &word, 0)
                      : rwrite_from(ch, region, at, bytes, 0, &word, R_NOWAIT);
    judge(ch, "rwrite_from", rc, (x & 2) != 0);
    if ((x & 12) == 0)
        judge(ch, "rdone", rdone(ch, NULL, 0), true);
}

/* ---- ends ---- */

static void use_writer(rch_t ch, uint64_t *random)
{
    uint64_t x = random_draw(random);
    size_t size = (x & 7) == 0 ? (x >> 8) % 400000 : (x & 7) < 4 ? (x >> 8) % 41 : (x >> 8) % 3000;
    raddr_t d = ADDR_NULL;
    int rc = 0;

    if ((x >> 40 & 1) != 0)
        rc = rmalloc_nb(ch, size, &d);
    else if ((d = rmalloc(ch, size)) == ADDR_NULL)
        rc = -errno;
    judge(ch, "rmalloc", rc, (x >> 40 & 1) == 0);
    if (rc != 0)
        return;
    memset(rmem(ch, d), (int)(x >> 48), size);
    if ((x >> 41 & 7) == 0) {
        judge(ch, "rfree", rfree(ch, d), true);
        return;
    }
    rc = (x >> 44 & 1) != 0   ? rwrite_nb(ch, d)
         : (x >> 45 & 1) != 0 ? rwrite_n(ch, d, size / 2)
                              : rwrite(ch, d);
    judge(ch, "rwrite", rc, (x >> 44 & 1) == 0);
    if (rc != 0)
        (void)rfree(ch, d);
    if ((x >> 46 & 15) == 0)
        judge(ch, "rflush", rflush(ch), true);
    if ((x >> 50 & 15) == 0)
        judge(ch, "rroom", rroom(ch, size), false);
}

#define HELD 6

static void use_reader(rch_t ch, raddr_t held[HELD], uint64_t *random)
{
    uint64_t x = random_draw(random);
    raddr_t *place = &held[(x >> 8) % HELD];
    size_t size;
    int rc;

    if ((x & 31) == 0) {
        int ready;

        rc = rpoll(&ch, 1, &ready, 1);
        EXPECT(victim_may_get(rc), "rpoll gave %d (%s)", rc, rinfo_strerror(rc));
    }
    if ((x >> 5 & 31) == 0 && ch->event_fd < 0)
        EXPECT(rfd(ch) >= 0, "rfd: %s", rerror(ch));
    if (*place != ADDR_NULL) {
        judge(ch, "rfree", rfree(ch, *place), true);
        *place = ADDR_NULL;
    }
    rc = (x >> 20 & 1) != 0 ? rread(ch, place, &size) : rread_nb(ch, place, &size);
    judge(ch, "rread", rc, (x >> 20 & 1) != 0);
    if (rc != 0) {
        *place = ADDR_NULL;
        return;
    }
    EXPECT(size == rsize(ch, *place) && size <= 8 * 300000, "a message of %zu bytes", size);
    look_at(ch, *place, size);
    atomic_fetch_add(BOARD_READ(counts), 1);
}

static void use_cells(rch_t ch, uint64_t *random)
{
    uint64_t x = random_draw(random), old;

    judge(ch, "rcells_atomic",
          rcells_atomic(cells_at(ch), (rcells_op_t)(x % (RCELLS_XOR + 1)), (x >> 8) % 64, x >> 16,
                        0, (x >> 14 & 1) != 0 ? &old : NULL),
          true);
}

/* Where the byzantine rank does not take what flies from this process's own memory, the end is closed by rexit, and the region given back after it. */
static size_t parks;
static rregion_t busy[64];
static size_t busies;

void victim_regions_end(void)
{
    while (busies > 0) {
        int rc = rregion_close(busy[--busies]);

        EXPECT(rc == 0, "rregion_close, after rexit: %d (%s)", rc, rerror(NULL));
    }
}

static void use_plain(rch_t ch, const struct plan *p, uint64_t *random)
{
    raddr_t held[HELD] = {ADDR_NULL};
    int calls = (int)(random_draw(random) % 60), rc;
    rregion_t region = NULL;
    struct pipe_counts stats = {0};

    (void)rset_timeout(ch, 50);
    rc = rwait(ch);
    (void)rset_timeout(ch, p->cfg.timeout_ms);
    judge(ch, "rwait", rc, true);
    if (rc == 0)
        atomic_fetch_add(BOARD_JOINED(counts), 1);
    if (!p->cells && busies < 64 && random_draw(random) % 2 == 0)
        judge(ch, "rregion_open", rregion_open(&region, ch, own, OWN), true);
    while (calls-- > 0 && check_failures == 0 && refused < 3) {
        if (p->cells)
            use_cells(ch, random);
        else if (region != NULL && random_draw(random) % 4 == 0)
            use_region(ch, region, p->victim_writes, random);
        else if (p->victim_writes)
            use_writer(ch, random);
        else
            use_reader(ch, held, random);
        victim_am_serve(random);
    }
    judge(ch, "pipe_counts", pipe_counts(ch, &stats), true);
    rc = p->cells ? rcells_close(cells_at(ch)) : rclose(ch);
    judge(ch, "rclose", rc, false);
    if (region == NULL)
        return;
    parks += rc == -ETIMEDOUT;
    if (rregion_close(region) != 0) /* perhaps for a moment, perhaps for ever */
        busy[busies++] = region;
}

/* ---- pipes made of pipes: all partners are the byzantine rank ---- */

static const int partners[SHAPE_ENDS] = {BYZANTINE, BYZANTINE, BYZANTINE};

static void judge_made(const char *call, int rc, int who, bool waits)
{
    check_error_message(rerror(NULL), call, rc, waits);
    EXPECT(who >= -1 && who < SHAPE_ENDS, "%s: place %d", call, who);
}

static void use_redux(const struct plan *p, uint64_t *random)
{
    int calls = (int)(random_draw(random) % 60), rc, place;
    rgroup_t rx;
    size_t size;
    raddr_t d;

    rc = redux_open(&rx, &p->cfg, partners, SHAPE_ENDS);
    judge_made("rgroup_open", rc, -1, true);
    if (rc != 0)
        return;
    (void)rgroup_set_timeout(rx, 50);
    rc = rgroup_wait(rx);
    judge_made("rgroup_wait", rc, rgroup_lost(rx), true);
    if (rc == 0)
        atomic_fetch_add(BOARD_JOINED(counts), SHAPE_ENDS);
    (void)rgroup_set_timeout(rx, p->cfg.timeout_ms);
    while (calls-- > 0 && check_failures == 0) {
        uint64_t x = random_draw(random);

        victim_am_serve(random);
        rc = (x & 16) != 0 ? rgroup_read(rx, &place, &d, &size, 0)
                           : rgroup_read(rx, &place, &d, &size, R_NOWAIT);
        judge_made("rgroup_read", rc, rgroup_lost(rx), (x & 16) != 0);
        if (rc != 0)
            continue;
        EXPECT(place >= 0 && place < SHAPE_ENDS, "rgroup_read: place %d", place);
        look_at(rgroup_pipe(rx, place), d, size);
        judge(rgroup_pipe(rx, place), "rfree", rfree(rgroup_pipe(rx, place), d), true);
        atomic_fetch_add(BOARD_READ(counts), 1);
    }
    judge_made("rgroup_close", rgroup_close(rx), -1, false);
}

static void use_scatter(const struct plan *p, uint64_t *random)
{
    int calls = (int)(random_draw(random) % 60), rc, place;
    rgroup_t sc;
    raddr_t d;

    rc = scatter_open(&sc, &p->cfg, partners, SHAPE_ENDS);
    judge_made("rgroup_open", rc, -1, true);
    if (rc != 0)
        return;
    (void)rgroup_set_timeout(sc, 50);
    rc = rgroup_wait(sc);
    judge_made("rgroup_wait", rc, rgroup_lost(sc), true);
    if (rc == 0)
        atomic_fetch_add(BOARD_JOINED(counts), SHAPE_ENDS);
    (void)rgroup_set_timeout(sc, p->cfg.timeout_ms);
    while (calls-- > 0 && check_failures == 0) {
        uint64_t x = random_draw(random);
        int to = (int)(x % (SHAPE_ENDS + 2)) - 2;
        size_t size = (x >> 8) % 3000;

        victim_am_serve(random);
        rc = (x >> 32 & 1) != 0 ? rgroup_alloc(sc, to, size, &place, &d, 0)
                                : rgroup_alloc(sc, to, size, &place, &d, R_NOWAIT);
        judge_made("rgroup_alloc", rc, rgroup_lost(sc), (x >> 32 & 1) != 0);
        if (rc != 0)
            continue;
        memset(rmem(rgroup_pipe(sc, place), d), (int)(x >> 40), size);
        rc = rwrite(rgroup_pipe(sc, place), d);
        judge_made("rgroup_write", rc, rgroup_lost(sc), true);
        if (rc != 0)
            (void)rfree(rgroup_pipe(sc, place), d);
    }
    judge_made("rgroup_close", rgroup_close(sc), -1, false);
}

static void use_duplex(const struct plan *p, uint64_t *random)
{
    raddr_t held[HELD] = {ADDR_NULL};
    int calls = (int)(random_draw(random) % 60), rc;
    rneighbor_t dx;

    rc = duplex_open(&dx, &p->cfg);
    judge_made("rneighbors", rc, -1, true);
    if (rc != 0)
        return;
    (void)rset_timeout(dx.in, 50);
    (void)rset_timeout(dx.out, 50);
    judge(dx.in, "rwait", rwait(dx.in), true);
    judge(dx.out, "rwait", rwait(dx.out), true);
    (void)rset_timeout(dx.in, p->cfg.timeout_ms);
    (void)rset_timeout(dx.out, p->cfg.timeout_ms);
    while (calls-- > 0 && check_failures == 0 && refused < 6) {
        if (random_draw(random) % 2 == 0)
            use_writer(dx.out, random);
        else
            use_reader(dx.in, held, random);
        victim_am_serve(random);
    }
    judge_made("rneighbors_close", rneighbors_close(&dx, 1), -1, false);
}

/* ---- the k-th ---- */

void victim_use(const struct plan *p, uint64_t *random)
{
    rch_t ch;
    int rc;

    refused = 0;
    switch (p->shape) {
    case REDUX:
        use_redux(p, random);
        return;
    case SCATTER:
        use_scatter(p, random);
        return;
    case DUPLEX:
        use_duplex(p, random);
        return;
    case PLAIN:
        break;
    }
    rc = p->cells ? cells_open(&ch, &p->cfg, p->victim_writes, NULL) : rpipe(&ch, &p->cfg);
    if (rc == -EEXIST && parks > 0)
        return;
    /* what fails here is the peer, which is gone, or has been cut off */
    EXPECT(victim_may_get(rc), "rpipe gave %d (%s): %s", rc, rinfo_strerror(rc), rerror(NULL));
    if (rc == 0)
        use_plain(ch, p, random);
}
