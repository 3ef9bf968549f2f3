/* SPDX-License-Identifier: BSD-3-Clause */
/* altered_peer.c: the byzantine rank of altered.h, and the ends of both. */
#include "altered.h"

#include "control/control.h"
#include "rpipe/end/rch.h"
#include "test/lib/cells.h"

/* ---- the stage ---- */

struct stage *stage;
const struct altered_case *all_cases;

void stage_reached(int rank, uint64_t serial, enum step step)
{
    rank_reached(stage->board, rank, (int)(serial << 2 | (unsigned)step));
}

bool stage_wait(int rank, uint64_t serial, enum step step, int ms)
{
    int64_t patience = deadline_in_ms(ms);

    while (atomic_load(&stage->board->rank[rank].phase) < (int)(serial << 2 | (unsigned)step)) {
        if (deadline_passed(patience))
            return false;
        backoff_us(50);
    }
    return true;
}

/* ---- ends ---- */

rpipe_config_t case_config(const struct altered_case *c, bool byzantine, uint64_t context)
{
    rpipe_config_t cfg =
        channel_config(c->way.op, byzantine ? VICTIM : atomic_load(&stage->byzantine),
                       byzantine == c->way.byzantine_writes,
                       c->target->cells ? 8 * sizeof(uint64_t) : HEAP_OF_PIPE);

    cfg.context = context;
    cfg.timeout_ms = SETUP_MS;
    if (c->target->cells)
        return cfg;
    cfg.slots = SLOTS_OF_PIPE;
    cfg.mode = c->way.mode;
    if (cfg.mode != RPIPE_SYNC_BLOCKS) {
        cfg.sync_queue = QUEUE_OF_PIPE;
        cfg.heuristic = RMALLOC_BEST_FIT;
    }
    if (c->target->grows) {
        cfg.max_heap_bytes = 8 * HEAP_OF_PIPE;
        cfg.grow_after_us = 1;
    }
    return cfg;
}

int case_open(const struct altered_case *c, bool byzantine, rch_t *ch)
{
    rpipe_config_t cfg = case_config(c, byzantine, CASE_CONTEXT(atomic_load(&stage->serial)));

    /* the writer of cells is their user */
    return c->target->cells ? cells_open(ch, &cfg, cfg.role == RPIPE_WRITER, NULL)
                            : rpipe(ch, &cfg);
}

int case_close(const struct altered_case *c, rch_t ch)
{
    return c->target->cells ? rcells_close(cells_at(ch)) : rclose(ch);
}

/* ---- the byzantine rank ---- */

#define HELD 3

/* As it should be: three messages of both kinds, of which two are given back. */
static bool behave(const struct altered_case *c, rch_t ch)
{
    static const size_t sizes[HELD] = {20, 400, 900};
    raddr_t d[HELD];
    size_t size;
    bool good = rwait(ch) == 0;

    if (c->target->cells)
        return good;
    for (int i = 0; good && i < HELD; i++) {
        if (!c->way.byzantine_writes) {
            good = rread(ch, &d[i], &size) == 0 && size == sizes[i];
            continue;
        }
        d[i] = rmalloc(ch, sizes[i]);
        good = d[i] != ADDR_NULL;
        if (good)
            pattern_fill(rmem(ch, d[i]), sizes[i], (uint64_t)i);
        good = good && rwrite(ch, d[i]) == 0;
    }
    if (good && !c->way.byzantine_writes)
        good = rfree(ch, d[0]) == 0 && rfree(ch, d[2]) == 0;
    return good;
}

/* The message that will be altered. */
static void write_one(const struct altered_case *c, rch_t ch)
{
    size_t size = c->target->place == AT_INLINE ? 20 : 400;
    raddr_t d = rmalloc(ch, size);

    if (d == ADDR_NULL)
        return;
    pattern_fill(rmem(ch, d), size, HELD);
    (void)rwrite(ch, d);
}

static bool victim_is_through(uint64_t serial)
{
    return atomic_load(&stage->board->rank[VICTIM].phase) >= (int)(serial << 2 | STEP_DONE);
}

/* Stores once before the victim's calls, and again until it is through. */
static void attack(int rank, const struct altered_case *c, rch_t ch, uint64_t serial)
{
    void *at = memory_target(c, ch);
    uint64_t own = at != NULL ? case_word(c, at) : 0;
    int64_t patience = deadline_in_ms(PATIENCE_MS);

    if (at != NULL)
        case_store(c, at, own);
    else
        message_attack(c, ch, serial);
    stage_reached(rank, serial, STEP_READY);
    while (!victim_is_through(serial) && !deadline_passed(patience)) {
        if (at != NULL)
            case_store(c, at, own);
        backoff_us(500);
    }
}

static void play(int rank, const struct altered_case *c, uint64_t serial)
{
    rch_t ch;

    if (case_open(c, true, &ch) != 0) {
        (void)stage_wait(VICTIM, serial, STEP_DONE, PATIENCE_MS);
        return;
    }
    if (behave(c, ch) && stage_wait(VICTIM, serial, STEP_SET_UP, 2 * SETUP_MS)) {
        if (c->way.byzantine_writes && !c->target->cells)
            write_one(c, ch);
        attack(rank, c, ch, serial);
    }
    message_after(c, ch, serial);
    (void)rset_timeout(ch, 200);
    (void)case_close(c, ch);
}

int byzantine_main(int rank)
{
    uint64_t last = 0, serial;

    setenv("RPIPE_LOG", "error", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    if (freopen("/dev/null", "w", stderr) == NULL)
        return 99;
    rank_reached(stage->board, rank, 1);
    while ((serial = atomic_load(&stage->serial)) != SERIAL_LAST) {
        if (serial == last || atomic_load(&stage->byzantine) != rank) {
            backoff_us(500);
            continue;
        }
        last = serial;
        play(rank, &all_cases[atomic_load(&stage->at)], serial);
    }
    for (;;) /* until it is killed */
        pause();
}
