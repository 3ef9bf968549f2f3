/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario_ends.c: see scenario_ends.h. The heap and the ring are so small, and each end pauses at such places, that every wait occurs.
 *
 * A part that ends with an error has got the right one: a reader -ECONNRESET, a writer -EPIPE, never anything else.
 */
#include "scenario_ends.h"
#include "test/lib/group.h"
#include <rpipe.h>
#include "test/lib/cells.h"

#include <poll.h>

#define MESSAGES 32
#define FEW 10
#define SLOTS 8
#define HEAP 4096
#define CELL_ADDS 20

static struct board_rank *mine(const struct player *p) { return &p->board->rank[p->rank]; }
static struct board_rank *others(const struct player *p) { return &p->board->rank[p->peer]; }

/* ---- calls whose deadline may pass ---- */

bool scene_once_more(struct player *p, int rc)
{
    if (rc != -ETIMEDOUT || !p->again)
        return false;
    atomic_fetch_add(&mine(p)->late, 1);
    return true;
}

static bool is_end(int rc) { return rc == -EPIPE || rc == -ECONNRESET; }

/* ---- ends ---- */

rpipe_config_t scene_config(const struct player *p, int peer, uint32_t ctx, bool writer)
{
    rpipe_config_t cfg = channel_config(p->s->op, peer, writer, HEAP);

    cfg.context = ctx;
    cfg.mode = p->s->sync;
    cfg.heuristic = cfg.mode == RPIPE_SYNC_BLOCKS ? RMALLOC_NEXT_FIT : RMALLOC_BEST_FIT;
    cfg.sync_queue = cfg.mode == RPIPE_SYNC_BLOCKS ? 0 : 5;
    cfg.slots = SLOTS;
    cfg.timeout_ms = p->timeout_ms;
    return cfg;
}

rch_t scene_open(struct player *p, const rpipe_config_t *cfg)
{
    rch_t ch;

    CHECK(NULL, rpipe(&ch, cfg) == 0);
    p->end[p->ends++] = ch;
    return ch;
}

static void close_last(struct player *p)
{
    rch_t ch = p->end[--p->ends];
    int rc;

    do
        rc = cells_or_pipe_close(ch);
    while (scene_once_more(
        p,
        rc)); /* over a network, as long as transfers from the program's memory are outstanding */
    CHECK(ch, rc == 0);
}

/* What a line that is broken may still reach for is let go when both ends have closed it, or one is gone. */
static void give_back(const struct player *p, rregion_t region)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    int rc;

    while ((rc = rregion_close(region)) == -EBUSY && p->s->network && !deadline_passed(patience))
        backoff_us(100);
    CHECK(NULL, rc == 0);
}

void scene_close_all(struct player *p)
{
    while (p->ends > 0)
        close_last(p);
    while (p->regions > 0)
        give_back(p, p->region[--p->regions]);
}

int scene_wait_joined(struct player *p, rch_t ch)
{
    int rc;

    do
        rc = rwait(ch);
    while (scene_once_more(p, rc));
    CHECK(ch, rc == 0 || is_end(rc));
    return rc;
}

/* ---- messages ---- */

static size_t message_bytes(uint64_t i)
{
    if (i >= 16)
        return 1000; /* a heap holds four, and one beside the one that the reader holds, wherever that is */
    return i % 3 == 0 ? 8 : i % 3 == 1 ? 40 : 100 + i * 61 % 600;
}

static int put(struct player *p, rch_t ch, size_t bytes, uint64_t key)
{
    raddr_t d;
    void *mem;
    int rc;

    do {
        mem = (d = rmalloc(ch, bytes)) != ADDR_NULL ? rmem(ch, d) : NULL;
        rc = mem != NULL ? 0 : -errno;
    } while (scene_once_more(p, rc));
    CHECK(ch, rc == 0 || rc == -EPIPE);
    if (rc != 0)
        return rc;
    pattern_fill(mem, bytes, key);
    CHECK(ch, rset_tag(ch, d, key) == 0);
    do
        rc = rwrite(ch, d);
    while (scene_once_more(p, rc));
    CHECK(ch, rc == 0 || rc == -EPIPE);
    if (rc != 0) {
        CHECK(ch, rfree(ch, d) == 0);
        return rc;
    }
    atomic_fetch_add(&mine(p)->done, 1); /* complete: it must arrive */
    return 0;
}

static int write_all(struct player *p, rch_t ch, uint64_t key, uint64_t count,
                     size_t (*bytes)(uint64_t))
{
    uint64_t i;
    int rc = 0;

    for (i = 0; i < count && rc == 0; i++) {
        if (i == 12)
            backoff_us(1500); /* the reader has nothing */
        rc = put(p, ch, bytes(i), key + i);
    }
    return rc;
}

struct reading {
    uint64_t key, i;
    raddr_t held; /* every other message is freed after the next one */
    size_t (*bytes)(uint64_t);
};

static void take(struct player *p, rch_t ch, struct reading *r, raddr_t d, size_t size)
{
    CHECK(ch, size == r->bytes(r->i));
    CHECK(ch, pattern_same(rmem(ch, d), size, r->key + r->i) && rtag(ch, d) == r->key + r->i);
    r->i++;
    atomic_fetch_add(&mine(p)->number, 1);
    if (r->held == ADDR_NULL) {
        r->held = d;
        return;
    }
    CHECK(ch, rfree(ch, d) == 0 && rfree(ch, r->held) == 0);
    r->held = ADDR_NULL;
}

/* 0: the writer has closed, and all `count` were there. */
static int ended(rch_t ch, const struct reading *r, uint64_t count, int rc)
{
    raddr_t d;

    CHECK(ch, rc == R_EOF || rc == -ECONNRESET);
    CHECK(ch, rc != R_EOF || r->i == count);
    CHECK(ch, rread(ch, &d, NULL) == rc); /* again and again */
    return rc == R_EOF ? 0 : rc;
}

static int read_all(struct player *p, rch_t ch, uint64_t key, uint64_t count,
                    size_t (*bytes)(uint64_t))
{
    struct reading r = {key, 0, ADDR_NULL, bytes};
    size_t size;
    raddr_t d;
    int rc;

    do {
        rc = rread(ch, &d, &size);
        if (rc == 0)
            take(p, ch, &r, d, size);
        if (rc == 0 && r.i == 20)
            backoff_us(1500); /* the writer has no memory */
    } while (rc == 0 || scene_once_more(p, rc));
    return ended(ch, &r, count, rc);
}

/* The ring is full before the first poll, unless the writer never gets so far. */
static void wait_until_full(struct player *p)
{
    int64_t most = deadline_in_ms(20);

    while (atomic_load(&others(p)->done) < SLOTS && atomic_load(&p->board->killed) == 0 &&
           !deadline_passed(most))
        backoff_us(50);
    backoff_us(500);
}

static int one_stream(struct player *p, uint32_t ctx, uint64_t key, uint64_t count)
{
    rpipe_config_t cfg = scene_config(p, p->peer, ctx, p->rank == 0);
    rch_t ch = scene_open(p, &cfg);
    int rc = scene_wait_joined(p, ch);

    if (rc == 0 && p->rank == 1 && count > SLOTS)
        wait_until_full(p);
    /* a peer that is gone before it was joined may have closed before that: rwait reports the one, rread the other */
    if (rc == 0)
        rc = p->rank == 0 ? write_all(p, ch, key, count, message_bytes)
                          : read_all(p, ch, key, count, message_bytes);
    if (rc == 0)
        close_last(p);
    return rc;
}

int scene_stream(struct player *p) { return one_stream(p, 0, 0, MESSAGES); }

int scene_reopen(struct player *p)
{
    uint64_t k;
    int rc = 0;

    for (k = 0; k < 4 && rc == 0; k++)
        rc = one_stream(p, 3, k * 5, 5);
    return rc;
}

static size_t growing_bytes(uint64_t i) { return i == 4 ? 3000 : i == 7 ? 6000 : 50 + i * 70; }

int scene_growth(struct player *p)
{
    rpipe_config_t cfg = scene_config(p, p->peer, 0, p->rank == 0);
    rch_t ch;
    int rc;

    cfg.heap_bytes = 1024;
    cfg.max_heap_bytes = 1 << 16;
    ch = scene_open(p, &cfg);
    rc = scene_wait_joined(p, ch);
    if (rc == 0)
        rc = p->rank == 0 ? write_all(p, ch, 0, FEW, growing_bytes)
                          : read_all(p, ch, 0, FEW, growing_bytes);
    return rc;
}

/* ---- early and late ---- */

static int send_word(struct player *p, int to)
{
    int rc;

    do
        rc = network_send(to, &p->rank, sizeof(p->rank));
    while (scene_once_more(p, rc));
    CHECK(NULL, rc == 0 || is_end(rc));
    return rc;
}

static int receive_word(struct player *p, int from)
{
    int word = -1, rc;

    do
        rc = network_recv(from, &word, sizeof(word));
    while (scene_once_more(p, rc));
    CHECK(NULL, rc == 0 ? word == from : is_end(rc));
    return rc;
}

/* First the reader finds that the writer has come and gone, then the writer the reader. */
int scene_late(struct player *p)
{
    int turn, rc = 0;
    raddr_t d;

    for (turn = 0; turn < 2 && rc == 0; turn++) {
        rpipe_config_t cfg = scene_config(p, p->peer, 9, p->rank == 0);
        bool first = p->rank == turn;
        rch_t ch;

        if (!first)
            rc = receive_word(p, p->peer);
        if (rc != 0)
            break;
        ch = scene_open(p, &cfg);
        if (!first) {
            do
                rc = p->rank == 0 ? scene_wait_joined(p, ch) : rread(ch, &d, NULL);
            while (scene_once_more(p, rc));
            CHECK(ch, p->rank == 0 ? rc == 0 || rc == -EPIPE : rc == R_EOF || rc == -ECONNRESET);
            rc = rc == R_EOF ? 0 : rc;
        }
        if (rc == 0)
            close_last(p);
        if (rc == 0 && first)
            rc = send_word(p, p->peer);
    }
    return rc;
}

/* ---- rfd ---- */

static int read_by_fd(struct player *p, rch_t ch)
{
    struct reading r = {0, 0, ADDR_NULL, message_bytes};
    struct pollfd watched = {.fd = rfd(ch), .events = POLLIN};
    int64_t patience = deadline_in_ms(PATIENCE_MS), until = deadline_in_ms(p->timeout_ms);
    size_t size;
    raddr_t d;
    int rc;

    CHECK(ch, watched.fd >= 0);
    do { /* it may be readable without a reason, above all until the writer has received the announcement of the descriptor */
        CHECK(ch, poll(&watched, 1, p->timeout_ms) >= 0 && !deadline_passed(patience));
        while ((rc = rread_nb(ch, &d, &size)) == 0) {
            take(p, ch, &r, d, size);
            until = deadline_in_ms(p->timeout_ms);
        }
        if (rc == R_PENDING && deadline_passed(until)) {
            CHECK(ch, scene_once_more(p, -ETIMEDOUT));
            until = deadline_in_ms(p->timeout_ms);
        }
    } while (rc == R_PENDING);
    return ended(ch, &r, MESSAGES, rc);
}

int scene_event(struct player *p)
{
    rpipe_config_t cfg = scene_config(p, p->peer, 0, p->rank == 0);
    rch_t ch = scene_open(p, &cfg);
    int rc = 0;
    uint64_t i;

    if (p->rank == 1)
        return read_by_fd(p, ch);
    rc = scene_wait_joined(p, ch);
    for (i = 0; i < MESSAGES && rc == 0; i++) {
        if (i % 3 == 0)
            backoff_us(300);
        rc = put(p, ch, message_bytes(i), i);
    }
    return rc;
}

/* ---- cells ---- */

int scene_atomic(struct player *p)
{
    rpipe_config_t cfg = scene_config(p, p->peer, 0, p->rank == 0);
    uint64_t old, sum = 0, i;
    rch_t ch;
    int rc;

    CHECK(NULL, cells_open(&ch, &cfg, p->rank == 0, NULL) == 0);
    p->end[p->ends++] = ch;
    rc = scene_wait_joined(p, ch);
    for (i = 0; i < CELL_ADDS && rc == 0 && p->rank == 0; i++) {
        rc = rcells_atomic(cells_at(ch), RCELLS_ADD, i % 3, 1, 0, &old);
        if (scene_once_more(p, rc))
            rc = 0;
        else
            CHECK(ch, rc == 0 ? old <= i / 3 : rc == -EPIPE);
    }
    if (rc != 0)
        return rc;
    rc = p->rank == 0 ? send_word(p, p->peer) : receive_word(p, p->peer);
    for (i = 0; i < 3 && p->rank == 1; i++) {
        CHECK(ch, rcells_atomic(cells_at(ch), RCELLS_ADD, i, 0, 0, &old) == 0);
        sum += old;
    }
    CHECK(ch, p->rank == 0 || rc != 0 || sum == CELL_ADDS || p->again);
    CHECK(ch, sum <= CELL_ADDS);
    return rc;
}

/* ---- the control network ---- */

static int exchange(struct player *p, bool sends)
{
    static unsigned char much[5000];
    int rc = 0;
    uint64_t i;

    for (i = 0; i < 3 && rc == 0; i++) {
        if (sends) {
            backoff_us(300);
            pattern_fill(much, sizeof(much), i);
        }
        rc = sends ? network_send(p->peer, much, sizeof(much))
                   : network_recv(p->peer, much, sizeof(much));
        CHECK(NULL, rc == 0 ? pattern_same(much, sizeof(much), i) : is_end(rc));
    }
    return rc;
}

/* Of two ranks that are left one may be through with a collective that fails at the other: so both go on to the next. */
int scene_control(struct player *p)
{
    uint64_t all[SCENARIO_RANKS], own = (uint64_t)p->rank + 7;
    int rc, first = 0, turn;

    for (turn = 0; turn < 3; turn++) {
        rc = network_barrier();
        CHECK(NULL, rc == 0 || is_end(rc));
        if (rc == 0 && p->rank != BYSTANDER)
            rc = exchange(p, (p->rank == 0) == (turn % 2 == 0));
        first = first != 0 ? first : rc;
        rc = network_allgather(&own, sizeof(own), all);
        CHECK(NULL, rc == 0 ? all[0] == 7 && all[1] == 8 && all[2] == 9 : is_end(rc));
        first = first != 0 ? first : rc;
    }
    return first;
}

/* ---- scatter and redux: rank 0 and the two others ---- */

#define CTX_REDUX 20
#define CTX_SCATTER 21
static const int partners[] = {1, BYSTANDER};

static size_t dealt_bytes(uint64_t i) { return i % 2 == 0 ? 16 : 90; }

static int deal(struct player *p, rgroup_t sc)
{
    uint64_t count[2] = {0, 0};
    int rc, place, i, first = 0;
    raddr_t d;

    for (i = 0; i < 2 * FEW; i++) {
        int to = i % 2;

        if (rgroup_pipe(sc, to) == NULL)
            continue;
        do
            rc = rgroup_alloc(sc, to, dealt_bytes(count[to]), &place, &d, 0);
        while (scene_once_more(p, rc));
        if (rc == 0) {
            pattern_fill(rmem(rgroup_pipe(sc, place), d), dealt_bytes(count[to]), count[to]);
            CHECK(NULL, rset_tag(rgroup_pipe(sc, place), d, count[to]) == 0);
            do
                rc = rwrite(rgroup_pipe(sc, place), d);
            while (scene_once_more(p, rc));
        }
        CHECK(NULL, rc == 0 || (rc == -EPIPE && to == 0)); /* the bystander lives */
        count[to] += rc == 0;
        if (rc == 0 && to == 0)
            atomic_fetch_add(&mine(p)->done, 1);
        if (first == 0)
            first = rc;
    }
    return first;
}

static int collect(struct player *p, rgroup_t rx)
{
    uint64_t count[2] = {0, 0};
    int rc, place = -1, first = 0;
    size_t size;
    raddr_t d;

    do {
        rc = rgroup_read(rx, &place, &d, &size, 0);
        if (rc == 0) {
            rch_t ch = rgroup_pipe(rx, place);

            CHECK(ch, size == dealt_bytes(count[place]) &&
                          pattern_same(rmem(ch, d), size, count[place]));
            count[place]++;
            if (place == 0)
                atomic_fetch_add(&mine(p)->number, 1);
            CHECK(ch, rfree(ch, d) == 0);
        } else if (rc == -ECONNRESET) {
            CHECK(NULL, rgroup_lost(rx) == 0);
            first = rc;
            rc = 0;
        }
    } while (rc == 0 || scene_once_more(p, rc));
    CHECK(NULL, rc == R_EOF && count[1] == FEW && (first != 0 || count[0] == FEW));
    return first;
}

int scene_compose(struct player *p)
{
    rpipe_config_t in = scene_config(p, 0, CTX_REDUX, p->rank != 0),
                   out = scene_config(p, 0, CTX_SCATTER, p->rank == 0);
    rgroup_t sc;
    rgroup_t rx;
    int dealt, rc;

    in.slots = out.slots = 32;
    if (p->rank != 0) {
        rch_t to = scene_open(p, &in), from = scene_open(p, &out);

        p->ends = 1;
        p->end[0] = from;
        dealt = write_all(p, to, 0, FEW, dealt_bytes);
        CHECK(NULL, rclose(to) == 0);
        rc = read_all(p, from, 0, FEW, dealt_bytes); /* also what the dead one has still dealt */
        return dealt != 0 ? dealt : rc;
    }
    CHECK(NULL,
          redux_open(&rx, &in, partners, 2) == 0 && scatter_open(&sc, &out, partners, 2) == 0);
    dealt = deal(p, sc);
    CHECK(NULL, rgroup_close(sc) == 0);
    rc = collect(p, rx);
    CHECK(NULL, rgroup_close(rx) == 0);
    return dealt != 0 ? dealt : rc;
}

/* ---- all of them ---- */

static const struct scenario_network in_order = {"ofi", "auto", HOSTS_ONE, false, false},
                                     in_steps = {"ofi", "none", HOSTS_ONE, false, false},
                                     of_hosts = {"ofi", "auto", HOSTS_EACH, false, false},
                                     team_tcp = {"tcp", "auto", HOSTS_EACH, true, false},
                                     team_tcp_two = {"tcp", "auto", HOSTS_TWO, true, false},
                                     team_tcp_slow = {"tcp", "auto", HOSTS_EACH, true, true},
                                     team_ofi = {"ofi", "auto", HOSTS_EACH, true, false},
                                     team_ofi_two = {"ofi", "none", HOSTS_TWO, true, false};

const struct scenario scenarios[] = {
    {"PUT, blocks", scene_stream, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, false,
     NULL, false},
    {"GET, blocks", scene_stream, RPIPE_GET, RPIPE_SYNC_BLOCKS, "sleep", "auto", false, false, NULL,
     false},
    {"PUT, tags", scene_stream, RPIPE_PUT, RPIPE_SYNC_TAGS, "sleep", "auto", false, false, NULL,
     false},
    {"GET, tags", scene_stream, RPIPE_GET, RPIPE_SYNC_TAGS, "yield", "auto", false, false, NULL,
     false},
    {"PUT, channel", scene_stream, RPIPE_PUT, RPIPE_SYNC_CHANNEL, "adaptive", "auto", false, false,
     NULL, false},
    {"GET, channel", scene_stream, RPIPE_GET, RPIPE_SYNC_CHANNEL, "sleep", "auto", false, false,
     NULL, false},
    {"growth, PUT", scene_growth, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "sleep", "auto", false, false, NULL,
     false},
    {"growth, GET", scene_growth, RPIPE_GET, RPIPE_SYNC_TAGS, "adaptive", "auto", false, false,
     NULL, false},
    {"growth, device, PUT", scene_growth, RPIPE_PUT, RPIPE_SYNC_TAGS, "adaptive", "auto", false,
     false, NULL, true},
    {"growth, device, GET", scene_growth, RPIPE_GET, RPIPE_SYNC_BLOCKS, "sleep", "auto", false,
     false, NULL, true},
    {"reopen", scene_reopen, RPIPE_GET, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, false, NULL,
     false},
    {"late", scene_late, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "sleep", "auto", false, true, NULL, false},
    {"descriptor", scene_event, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, false,
     NULL, false},
    {"cells, processor", scene_atomic, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false,
     true, NULL, false},
    {"cells, service", scene_atomic, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "sleep", "service", false, true,
     NULL, false},
    {"control network", scene_control, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", true, true,
     NULL, false},
    {"board", scene_board, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, false, NULL,
     false},
    {"copy", scene_copy, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, false, NULL,
     false},
    {"device, PUT", scene_device, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, false,
     NULL, false},
    {"device, GET", scene_device, RPIPE_GET, RPIPE_SYNC_TAGS, "sleep", "auto", false, false, NULL,
     false},
    {"messages", scene_messages, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, true,
     NULL, false},
    {"team", scene_team, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, true, NULL,
     false},
    {"cast", scene_cast, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", true, false, NULL,
     false},
    {"cast, asleep", scene_cast, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "sleep", "auto", true, false, NULL,
     false},
    {"scatter and redux", scene_compose, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", true,
     false, NULL, false},
    {"regions, PUT, blocks", scene_region, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false,
     false, NULL, false},
    {"regions, GET, tags", scene_region, RPIPE_GET, RPIPE_SYNC_TAGS, "sleep", "auto", false, false,
     NULL, false},
    {"regions, PUT, channel", scene_region, RPIPE_PUT, RPIPE_SYNC_CHANNEL, "yield", "auto", false,
     false, NULL, false},
    {"regions, device, PUT", scene_region, RPIPE_PUT, RPIPE_SYNC_CHANNEL, "adaptive", "auto", false,
     false, NULL, true},
    {"regions, device, GET", scene_region, RPIPE_GET, RPIPE_SYNC_BLOCKS, "sleep", "auto", false,
     false, NULL, true},
    {"ofi, PUT, tags", scene_stream, RPIPE_PUT, RPIPE_SYNC_TAGS, "adaptive", "auto", false, false,
     &in_order, false},
    {"ofi, GET, channel", scene_stream, RPIPE_GET, RPIPE_SYNC_CHANNEL, "adaptive", "auto", false,
     false, &in_order, false},
    {"ofi in steps, PUT", scene_stream, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "sleep", "auto", false, false,
     &in_steps, false},
    {"ofi, device, PUT", scene_device, RPIPE_PUT, RPIPE_SYNC_TAGS, "adaptive", "auto", false, false,
     &in_order, false},
    {"ofi, device, GET", scene_device, RPIPE_GET, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false,
     false, &in_order, false},
    {"ofi, messages", scene_messages, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, true,
     &in_order, false},
    {"windows", scene_window, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false, false, NULL,
     false},
    {"ofi in steps, windows", scene_window, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", false,
     false, &in_steps, false},
    {"cast between hosts", scene_cast, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", true,
     false, &of_hosts, false},
    {"team, three hosts, tcp", scene_hosts, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", true,
     false, &team_tcp, false},
    {"team, two hosts, tcp", scene_hosts, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "sleep", "auto", true,
     false, &team_tcp_two, false},
    {"team, three hosts, ofi", scene_hosts, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", true,
     false, &team_ofi, false},
    {"team, two hosts, ofi", scene_hosts, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "sleep", "auto", true,
     false, &team_ofi_two, false},
    {"team, probes", scene_probes, RPIPE_PUT, RPIPE_SYNC_BLOCKS, "adaptive", "auto", true, false,
     &team_tcp_slow, false},
};
const int scenario_count = (int)(sizeof(scenarios) / sizeof(scenarios[0]));
