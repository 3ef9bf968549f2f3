/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_message_peer.c: a peer of messages by tag that opens the pipes of a link itself, and sends what it likes over them.
 *
 *     byzantine_message_peer [ROUNDS [CASE]]
 *
 * Rank 0 is the victim: it has a context for each case, with receives that are advertised and that are not, with a message that is offered
 * and one that was sent. Rank 1 is byzantine: it greets as it has to, reads the advertisement and the offer, so that it has their numbers,
 * and sends one message that is not valid, of each kind and in each field. The link must end with -EPROTO, or -EFAULT where memory is not
 * accessible, and all requests of the victim with it; rank 1 must get END. In ROUNDS more cases the messages are random, and the cells too.
 * Meanwhile rank 0 exchanges messages with rank 2, which must arrive. All of it is played in shared memory, and over tcp, where windows of buffers
 * take the place of cells.
 */
#include "test/lib/job.h"

#include "msg/cell.h"
#include "msg/wire.h"

#include <rmsg.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

enum { VICTIM, BYZANTINE, HONEST, LARGE = 100000, DEADLINE_MS = 20000 };
enum { REPLACED = 150, PREPARED = 1001, REPLACING }; /* window_replaced */

#define SHARE 64u
#define NO_SEND 0x00100777u
#define BAD_ADDRESS 4096u

static uint64_t seed;
static unsigned rounds = 60;
static const char *only;
static bool network;
static struct board *shared;

/* ---- the link, as rank 1 makes it ---- */

struct evil {
    rch_t in, out;
    uint32_t receive, rtr; /* of the advertised receive of the victim */
    uint32_t send;         /* of its offer */
    rregion_t memory;
    rwindow_t window;
    rremote_t remote;
    struct msg_cell *own_cells; /* for sends of rank 1 */
    uint32_t probe;
    uint64_t random;
    bool copies, ready; /* the memory of the victim is attached; cells may be used */
};

/* The context of the pipes of a link (lib/msg/context.c). */
static uint64_t pipes_of(uint64_t context)
{
    const uint64_t bit = UINT64_C(1) << 61;

    return bit | ((context * UINT64_C(0x9e3779b97f4a7c15) + MSG_WIRE_MAGIC) & (bit - 1));
}

static rch_t open_end(uint64_t context, bool writer)
{
    rpipe_config_t cfg = {.context = pipes_of(context),
                          .peer = VICTIM,
                          .role = writer ? RPIPE_WRITER : RPIPE_READER,
                          .flags = 1u << 31, /* contexts of the library */
                          .timeout_ms = DEADLINE_MS};
    rch_t ch;

    if (!writer) {
        cfg.heap_bytes = 1 << 16;
        cfg.mode = RPIPE_SYNC_TAGS;
        cfg.heuristic = RMALLOC_BEST_FIT;
    }
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    return ch;
}

/* False: the victim takes nothing more. */
static bool say(struct evil *e, uint64_t header, const void *mem, size_t bytes)
{
    raddr_t d = rmalloc(e->out, bytes);

    if (d == ADDR_NULL)
        return false;
    if (bytes > 0)
        memcpy(rmem(e->out, d), mem, bytes);
    CHECK(e->out, rset_tag(e->out, d, header) == 0);
    return rwrite(e->out, d) == 0;
}

static bool tell(struct evil *e, enum msg_wire_kind kind, uint32_t space, uint32_t word,
                 struct msg_wire_fields f)
{
    return say(e, msg_wire_header(kind, space, word), &f, msg_wire_fields_bytes(kind));
}

static void greet(struct evil *e)
{
    struct msg_wire_hello hello;

    msg_wire_hello_init(&hello, SHARE, 4096);
    CHECK(e->out, say(e, msg_wire_header(MSG_WIRE_HELLO, 0, 0), &hello, sizeof(hello)));
}

/* Reads a message of the victim; its kind, or 0: there is none any more. */
static uint32_t hear(struct evil *e)
{
    struct msg_wire_fields f = {0};
    raddr_t d;
    size_t bytes;
    uint64_t header;

    if (rread(e->in, &d, &bytes) != 0)
        return 0;
    header = rtag(e->in, d);
    if (bytes > 0)
        memcpy(&f, rmem(e->in, d), bytes < sizeof(f) ? bytes : sizeof(f));
    if ((header & 255) == MSG_WIRE_RTR)
        e->receive = f.id, e->rtr = f.number;
    if ((header & 255) == MSG_WIRE_RTS)
        e->send = f.id;
    if ((header & 255) == MSG_WIRE_READY)
        e->ready = true;
    if ((header & 255) == MSG_WIRE_WINDOW && !network) {
        rwindow_handle_t handle;

        memcpy(&handle, rmem(e->in, d), sizeof(handle));
        e->copies = rwindow_attach(&e->remote, e->out, &handle, 0) == 0;
    }
    if ((header & 255) != MSG_WIRE_CELLS) /* stay where they are */
        CHECK(e->in, rfree(e->in, d) == 0);
    return header & 255;
}

/* The windows, the cells and READY, as an honest peer exchanges them. */
static void share_memory(struct evil *e)
{
    struct msg_wire_window w = {.probe = (uintptr_t)&e->probe};
    rwindow_handle_t handle;
    raddr_t d;

    e->probe = MSG_WIRE_MAGIC;
    CHECK(e->out, rregion_open(&e->memory, e->out, (void *)(uintptr_t)MSG_WIRE_WINDOW_BASE,
                               (size_t)(INTPTR_MAX - MSG_WIRE_WINDOW_BASE)) == 0);
    if (rwindow_open(&e->window, e->out, e->memory, RWINDOW_READ | RWINDOW_WRITE, &handle) != 0)
        return;
    memcpy(w.handle, &handle, sizeof(w.handle));
    CHECK(e->out, say(e, msg_wire_header(MSG_WIRE_WINDOW, 0, 0), &w, sizeof(w)));
    d = rmalloc(e->out, MSG_CELLS * sizeof(struct msg_cell));
    CHECK(e->out, d != ADDR_NULL);
    e->own_cells = rmem(e->out, d);
    memset((void *)e->own_cells, 0, MSG_CELLS * sizeof(struct msg_cell));
    CHECK(e->out, rset_tag(e->out, d, msg_wire_header(MSG_WIRE_CELLS, 0, 0)) == 0);
    CHECK(e->out, rwrite(e->out, d) == 0);
}

static void open_evil(struct evil *e, uint64_t context, bool with_memory)
{
    *e = (struct evil){.random = seed + context};
    e->in = open_end(context, false);
    e->out = open_end(context, true);
    greet(e);
    REQUIRE(hear(e) == MSG_WIRE_HELLO, "the victim has not greeted");
    if (with_memory)
        share_memory(e);
    while (e->receive == 0 || e->send == 0)
        REQUIRE(hear(e) != 0, "the victim has sent no RTR or no RTS");
}

/* ---- one message that is not valid ---- */

typedef struct msg_wire_fields fields;
#define TELL(kind, space, word, ...)                                                               \
    (void)tell(e, MSG_WIRE_##kind, space, word, (fields){__VA_ARGS__})
#define RAW(header, bytes) (void)say(e, header, some, bytes)

static const char some[256];
static char area[100]; /* of rank 1 */

static void kind_0(struct evil *e) { RAW(0, 0); }
static void kind_end(struct evil *e) { RAW(MSG_WIRE_KINDS_END, 0); }
static void kind_255(struct evil *e) { RAW(255, 24); }
static void reserved(struct evil *e)
{
    RAW(msg_wire_header(MSG_WIRE_MSG, 0, 9) | UINT64_C(1) << 24, 8);
}
static void second_hello(struct evil *e) { greet(e); }
static void msg_any(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_MSG, 0, UINT32_MAX), 8); }
static void msg_many(struct evil *e)
{
    for (int i = 0; i < 20000 && say(e, msg_wire_header(MSG_WIRE_MSG, 3, 9), some, 8); i++)
        ;
}
static void rts_no_send(struct evil *e) { TELL(RTS, 0, 9, .bytes = 10); }
static void rts_long(struct evil *e) { TELL(RTS, 0, 9, .id = 7, .bytes = UINT64_MAX); }
static void rts_any(struct evil *e) { TELL(RTS, 0, UINT32_MAX, .id = 7, .bytes = 9); }
static void rts_cell(struct evil *e) { TELL(RTS, 0, 9, .id = 7, .bytes = 9, .extra = 33); }
static void rts_cell_nowhere(struct evil *e) { TELL(RTS, 0, 9, .id = 7, .bytes = 9, .extra = 1); }
static void rts_size(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_RTS, 0, 9), 23); }
static void placed_none(struct evil *e) { TELL(PLACED, 0, 9, .id = e->receive, .bytes = 9); }
static void placed_small(struct evil *e) { TELL(PLACED, 0, 2, .id = e->receive, .bytes = 9); }
static void placed_other(struct evil *e) { TELL(PLACED, 0, 1, .id = e->receive ^ 1, .bytes = 9); }
static void placed_old(struct evil *e)
{
    TELL(PLACED, 0, 1, .id = e->receive - (1u << 20), .bytes = 9);
}
static void placed_long(struct evil *e)
{
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = UINT64_MAX);
}
static void placed_space(struct evil *e) { TELL(PLACED, 2, 1, .id = e->receive, .bytes = 9); }
static void data_early(struct evil *e) { TELL(DATA, 0, e->receive, .id = 7); }
static void data_none(struct evil *e) { TELL(DATA, 0, 0x7fffffff, .id = 7); }
static void data_other(struct evil *e)
{
    TELL(RTS, 0, 1, .id = 7, .bytes = LARGE);
    TELL(DATA, 0, e->receive, .id = 8);
}
static void part_none(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_PART, 0, 12345), 8); }
static void part_early(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_PART, 0, e->receive), 8); }
static void part_long(struct evil *e)
{
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = 10);
    RAW(msg_wire_header(MSG_WIRE_PART, 0, e->receive), 11);
}
static void part_empty(struct evil *e)
{
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = 10);
    RAW(msg_wire_header(MSG_WIRE_PART, 0, e->receive), 0);
}
static void part_space(struct evil *e)
{
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = 10);
    RAW(msg_wire_header(MSG_WIRE_PART, 1, e->receive), 8);
}
static void abort_none(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_ABORT, 0, e->receive), 0); }
static void rtr_future(struct evil *e)
{
    TELL(RTR, 0, 9, .id = 7, .number = 1, .bytes = 9, .seen = 1000);
}
static void rtr_many(struct evil *e)
{
    for (uint32_t i = 1; i < 400; i++)
        if (!tell(e, MSG_WIRE_RTR, 0, 900 + i, (fields){.id = i, .number = i, .bytes = 9}))
            break;
}
static void rtr_place(struct evil *e)
{
    TELL(RTR, 0, 9, .id = 7, .number = 1, .bytes = 9, .extra = 5);
    TELL(RTR, 0, 9, .id = 8, .number = 2, .bytes = 9, .extra = 2);
}
static void rtr_open(struct evil *e)
{
    TELL(RTR, 0, 9, .id = 7, .number = 1, .bytes = 9, .open = 1);
}
static void cts_none(struct evil *e) { TELL(CTS, 0, NO_SEND, .id = 7, .bytes = 9); }
static void cts_receive(struct evil *e) { TELL(CTS, 0, e->receive, .id = 7, .bytes = 9); }
static void cts_empty(struct evil *e) { TELL(CTS, 0, e->send, .id = 7); }
static void cts_twice(struct evil *e)
{
    TELL(CTS, 0, e->send, .id = 7, .bytes = LARGE);
    TELL(CTS, 0, e->send, .id = 7, .bytes = LARGE);
}
static void fin_none(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_FIN, 0, NO_SEND), 0); }
static void fin_twice(struct evil *e)
{
    RAW(msg_wire_header(MSG_WIRE_FIN, 0, e->send), 0);
    RAW(msg_wire_header(MSG_WIRE_FIN, 0, e->send), 0);
}
static void moved_33(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_MOVED, 0, 33), 0); }
static void moved_unused(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_MOVED, 0, 31), 0); }
static void undone(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_UNDONE, 0, e->rtr), 0); }
static void credit_much(struct evil *e) { TELL(CREDIT, 0, 0, .bytes = UINT64_MAX); }
static void credit_word(struct evil *e) { TELL(CREDIT, 0, 1, .bytes = 0); }
static void credit_id(struct evil *e) { TELL(CREDIT, 0, 0, .id = 1); }
static void window_short(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_WINDOW, 0, 0), 71); }
static void window_tag(struct evil *e) /* over a network a handle of zeros, which is not used */
{
    RAW(msg_wire_header(MSG_WIRE_WINDOW, 0, 1), 72);
    if (network)
        kind_0(e);
}
static void cells_short(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_CELLS, 0, 0), 64); }
static void ready_early(struct evil *e)
{
    RAW(msg_wire_header(MSG_WIRE_READY, 0, 0), 0);
    RAW(msg_wire_header(MSG_WIRE_READY, 0, 0), 0);
}
static void end_0(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_END, 0, 0), 0); }
static void end_99(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_END, 0, 99), 0); }
static void end_bytes(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_END, 0, 1), 8); }

/* With windows and cells: addresses that are not there; cells with words of its own. */
static void rts_address(struct evil *e)
{
    TELL(RTS, 0, 1, .id = 7, .bytes = LARGE, .extra = 1, .where = BAD_ADDRESS);
}
static void rts_far(struct evil *e)
{
    TELL(RTS, 0, 1, .id = 7, .bytes = LARGE, .extra = 1, .where = UINT64_MAX - 8);
}
static void rts_low(struct evil *e)
{
    TELL(RTS, 0, 1, .id = 7, .bytes = LARGE, .extra = 1, .where = 1);
}
static void placed_address(struct evil *e)
{
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = LARGE, .extra = 1, .where = BAD_ADDRESS);
}
static void cell_early(struct evil *e) /* "all chunks are done": complete, with what was there */
{
    atomic_store(&e->own_cells[0].done, 1000);
    atomic_store(&e->own_cells[0].next, UINT64_MAX - 1);
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = LARGE, .extra = 1, .where = BAD_ADDRESS);
    kind_0(e);
}
static void cell_stopped(struct evil *e)
{
    atomic_store(&e->own_cells[0].done, CELL_SENDER_STOPS);
    atomic_store(&e->own_cells[0].next, CELL_STOP);
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = LARGE, .extra = 1, .where = BAD_ADDRESS);
    kind_0(e);
}
static void no_probe(struct evil *e)
{
    e->probe = 0;
    rts_address(e);
}

/* Over a network: windows of buffers. */
static struct msg_wire_window handle_of_area(struct evil *e)
{
    struct msg_wire_window w = {.probe = 0};
    rwindow_handle_t handle;

    CHECK(e->out, rregion_open(&e->memory, e->out, area, sizeof(area)) == 0);
    CHECK(e->out,
          rwindow_open(&e->window, e->out, e->memory, RWINDOW_READ | RWINDOW_WRITE, &handle) == 0);
    memcpy(w.handle, &handle, sizeof(w.handle));
    return w;
}
static void announce(struct evil *e, uint32_t number, const struct msg_wire_window *w)
{
    (void)say(e, msg_wire_header(MSG_WIRE_WINDOW, 0, number), w, sizeof(*w));
}
static void announce_area(struct evil *e)
{
    const struct msg_wire_window w = handle_of_area(e);

    announce(e, 1, &w);
}
static void window_forged(struct evil *e)
{
    struct msg_wire_window w = handle_of_area(e);

    w.handle[3] *= 2; /* bytes */
    announce(e, 1, &w);
    TELL(CTS, 0, e->send, .id = 7, .bytes = LARGE, .extra = 1, .where = 1); /* it is not followed */
    kind_0(e);
}
static void window_33(struct evil *e)
{
    const struct msg_wire_window w = handle_of_area(e);

    announce(e, 33, &w);
}
static void window_0(struct evil *e)
{
    const struct msg_wire_window w = handle_of_area(e);

    announce(e, 0, &w);
}
static void window_address(struct evil *e)
{
    struct msg_wire_window w = handle_of_area(e);

    w.probe = BAD_ADDRESS;
    announce(e, 1, &w);
}
static void
window_many(struct evil *e) /* each in the place of the last one: no violation by itself */
{
    const struct msg_wire_window w = handle_of_area(e);

    for (int i = 0; i < 1000; i++)
        announce(e, 1, &w);
    kind_0(e);
}
/*
 * A payload is on its way into window 1, and this process is stopped, so that it stays there: until then windows that lose their number
 * cannot be detached. The victim has to bound them.
 */
static void window_replaced(struct evil *e)
{
    static char large[LARGE];
    struct msg_wire_window w = {.probe = 0};
    rwindow_handle_t handle;

    CHECK(e->out, rregion_open(&e->memory, e->out, large, LARGE) == 0);
    CHECK(e->out, rwindow_open(&e->window, e->out, e->memory, RWINDOW_WRITE, &handle) == 0);
    memcpy(w.handle, &handle, sizeof(w.handle));
    rank_reached(shared, BYZANTINE, PREPARED);
    rank_wait_go(shared, 1); /* the victim is stopped */
    announce(e, 1, &w);
    TELL(CTS, 0, e->send, .id = 7, .bytes = LARGE, .extra = 1, .where = 1);
    for (uint32_t i = 0; i < REPLACED; i++)
        announce(e, 2 + i % 2, &w);
    rank_reached(shared, BYZANTINE, REPLACING);
    rank_wait_go(shared, 2); /* this process was stopped, and the victim has read all of that */
    kind_0(e);
}
static void read_all_that_was_sent(rmsg_t msg)
{
    const int64_t limit = deadline_in_ms(DEADLINE_MS);
    uint64_t written = 0;

    while (atomic_load(&shared->rank[BYZANTINE].phase) != REPLACING)
        CHECK(NULL, rmsg_progress(msg) == 0);
    while (rmsg_count(msg, "written", &written) == 0 && written == 0 && !deadline_passed(limit))
        CHECK(NULL, rmsg_progress(msg) == 0); /* a socket may still hold what was sent */
    for (int turn = 0; turn < REPLACED; turn++)
        CHECK(NULL, rmsg_progress(msg) == 0);
    CHECK(NULL, rmsg_count(msg, "written", &written) == 0 && written == 1);
    rank_reached(shared, VICTIM, REPLACING);
}
static void rts_outside(struct evil *e)
{
    announce_area(e);
    TELL(RTS, 0, 1, .id = 7, .bytes = LARGE, .extra = 1, .where = 1);
}
static void rts_beyond(struct evil *e)
{
    announce_area(e);
    TELL(RTS, 0, 1, .id = 7, .bytes = 50, .extra = 1, .where = UINT64_MAX);
}
static void placed_window(struct evil *e)
{
    announce_area(e);
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = 50, .extra = 1, .where = 1);
}
static void rtr_outside(struct evil *e)
{
    announce_area(e);
    TELL(RTR, 0, 9, .id = 7, .number = 1, .bytes = 100, .open = 1, .where = 50);
}
static void rtr_33(struct evil *e)
{
    TELL(RTR, 0, 9, .id = 7, .number = 1, .bytes = 100, .open = 33, .where = 1);
}
static void cts_outside(struct evil *e)
{
    announce_area(e);
    TELL(CTS, 0, e->send, .id = 7, .bytes = LARGE, .extra = 1, .where = 1);
}
static void cts_long(struct evil *e) { TELL(CTS, 0, e->send, .id = 7, .bytes = LARGE + 1); }
static void written_none(struct evil *e) { RAW(msg_wire_header(MSG_WIRE_WRITTEN, 0, 4711), 0); }
static void written_early(struct evil *e)
{
    RAW(msg_wire_header(MSG_WIRE_WRITTEN, 0, e->receive), 0);
}
static void written_twice(struct evil *e)
{
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = LARGE);
    written_early(e);
    written_early(e);
}
static void written_in_part(struct evil *e)
{
    TELL(PLACED, 0, 1, .id = e->receive, .bytes = LARGE);
    RAW(msg_wire_header(MSG_WIRE_PART, 0, e->receive), 8);
    written_early(e);
}

struct violation {
    const char *name;
    void (*commit)(struct evil *e);
    int code;     /* of the link */
    bool memory;  /* windows and cells are there */
    bool windows; /* over a network alone */
};
#define V(name)                                                                                    \
    {                                                                                              \
#name, name, -EPROTO, false, false                                                         \
    }
#define M(name, code)                                                                              \
    {                                                                                              \
#name, name, code, true, false                                                             \
    }
#define W(name)                                                                                    \
    {                                                                                              \
#name, name, -EPROTO, false, true                                                          \
    }
static const struct violation violations[] = {V(kind_0),
                                              V(kind_end),
                                              V(kind_255),
                                              V(reserved),
                                              V(second_hello),
                                              V(msg_any),
                                              V(msg_many),
                                              V(rts_no_send),
                                              V(rts_long),
                                              V(rts_any),
                                              V(rts_cell),
                                              V(rts_cell_nowhere),
                                              V(rts_size),
                                              V(placed_none),
                                              V(placed_small),
                                              V(placed_other),
                                              V(placed_old),
                                              V(placed_long),
                                              V(placed_space),
                                              V(data_early),
                                              V(data_none),
                                              V(data_other),
                                              V(part_none),
                                              V(part_early),
                                              V(part_long),
                                              V(part_empty),
                                              V(part_space),
                                              V(abort_none),
                                              V(rtr_future),
                                              V(rtr_many),
                                              V(rtr_place),
                                              V(rtr_open),
                                              V(cts_none),
                                              V(cts_receive),
                                              V(cts_empty),
                                              V(cts_twice),
                                              V(fin_none),
                                              V(fin_twice),
                                              V(moved_33),
                                              V(moved_unused),
                                              V(undone),
                                              V(credit_much),
                                              V(credit_word),
                                              V(credit_id),
                                              V(window_short),
                                              V(window_tag),
                                              V(cells_short),
                                              V(ready_early),
                                              V(end_0),
                                              V(end_99),
                                              V(end_bytes),
                                              M(rts_address, -EFAULT),
                                              M(rts_far, 0),
                                              M(rts_low, 0),
                                              M(placed_address, -EFAULT),
                                              M(cell_early, -EPROTO),
                                              M(cell_stopped, -EPROTO),
                                              M(no_probe, -EFAULT),
                                              W(window_forged),
                                              W(window_33),
                                              W(window_0),
                                              W(window_address),
                                              W(window_many),
                                              W(rts_outside),
                                              W(rts_beyond),
                                              W(placed_window),
                                              W(rtr_outside),
                                              W(rtr_33),
                                              W(cts_outside),
                                              W(cts_long),
                                              W(written_none),
                                              W(written_early),
                                              W(written_twice),
                                              W(written_in_part),
                                              W(window_replaced)};
enum { CASES = sizeof(violations) / sizeof(violations[0]) };

/* ---- random messages ---- */

static uint64_t any_number(struct evil *e)
{
    const uint64_t edge[] = {0,
                             1,
                             2,
                             7,
                             e->receive,
                             e->send,
                             e->rtr,
                             LARGE,
                             UINT32_MAX,
                             UINT64_MAX,
                             (uintptr_t)some,
                             BAD_ADDRESS,
                             e->receive + (1u << 20)};
    uint64_t x = random_draw(&e->random);

    return x % 5 == 0 ? x >> 8 : edge[x / 5 % (sizeof(edge) / sizeof(edge[0]))];
}

static void any_messages(struct evil *e)
{
    for (int i = 0; i < 100; i++) {
        const uint32_t kind = (uint32_t)(1 + random_draw(&e->random) % (MSG_WIRE_KINDS_END - 1));
        fields f = {.id = (uint32_t)any_number(e),
                    .extra = (uint32_t)(random_draw(&e->random) % 3 == 0 ? any_number(e) : 1),
                    .bytes = any_number(e),
                    .where = any_number(e),
                    .seen = random_draw(&e->random) % 4,
                    .number = (uint32_t)any_number(e)};
        const uint32_t word = kind == MSG_WIRE_MSG || kind == MSG_WIRE_RTS ||
                                      kind == MSG_WIRE_PLACED || kind == MSG_WIRE_RTR
                                  ? (uint32_t)(random_draw(&e->random) % 4)
                                  : (uint32_t)any_number(e);
        size_t bytes = msg_wire_fields_bytes((enum msg_wire_kind)kind);

        if (kind == MSG_WIRE_HELLO || kind == MSG_WIRE_END || kind == MSG_WIRE_WINDOW ||
            kind == MSG_WIRE_CELLS)
            continue;
        if (kind == MSG_WIRE_MSG || kind == MSG_WIRE_PART)
            bytes = random_draw(&e->random) % sizeof(f);
        for (int k = 0; k < 4 && e->own_cells != NULL; k++) {
            struct msg_cell *c = &e->own_cells[random_draw(&e->random) % 3];

            atomic_store(random_draw(&e->random) % 2 == 0 ? &c->next : &c->done, any_number(e));
        }
        if (!say(e, msg_wire_header((enum msg_wire_kind)kind, 0, word), &f, bytes))
            break;
    }
    RAW(0, 0); /* if none of them was the end */
}

/* ---- the ranks ---- */

static struct violation case_of(size_t i)
{
    if (i < CASES)
        return violations[i];
    return (struct violation){"random messages", any_messages, 0, i % 2 == 0 && !network, false};
}

static bool is_chosen(size_t i)
{
    const struct violation v = case_of(i);

    return (only == NULL || strcmp(only, v.name) == 0) && !(network ? v.memory : v.windows);
}

static void be_byzantine(struct board *board, size_t i)
{
    const struct violation v = case_of(i);
    struct evil e;
    bool ended = false;
    uint32_t kind;

    open_evil(&e, i + 1, v.memory);
    while (v.memory && e.window != NULL && e.copies && !e.ready)
        REQUIRE(hear(&e) != 0, "%s: no READY", v.name);
    v.commit(&e);
    while ((kind = hear(&e)) != 0)
        ended = kind == MSG_WIRE_END;
    REQUIRE(ended, "%s: END has not come", v.name);
    rank_reached(board, BYZANTINE, (int)i + 1);
    CHECK(e.in, rclose(e.in) == 0 && rclose(e.out) == 0);
    if (e.window != NULL)
        CHECK(NULL, rwindow_close(e.window) == 0);
    if (e.memory != NULL)
        CHECK(NULL, rregion_close(e.memory) == 0);
}

static void must_have_ended(int rc, const struct violation *v, const char *what)
{
    const int code = v->code;

    REQUIRE(rc == code || (code == 0 && (rc == -EPROTO || rc == -EFAULT)), "%s: %s: %d: %s",
            v->name, what, rc, rerror(NULL));
}

static void be_the_victim(size_t i)
{
    static char large[LARGE], offer[LARGE], few[64];
    const rmsg_config_t cfg = {.context = i + 1, .slots = 256, .timeout_ms = DEADLINE_MS};
    const struct violation v = case_of(i);
    rmsg_request_t r[4];
    rmsg_t msg;
    int rc;

    CHECK(NULL, rmsg_open(&msg, &cfg) == 0);
    CHECK(NULL, rmsg_irecv(msg, BYZANTINE, 0, 1, large, LARGE, &r[0], 0) == 0);
    CHECK(NULL, rmsg_irecv(msg, BYZANTINE, 0, 2, few, sizeof(few), &r[1], 0) == 0);
    CHECK(NULL, rmsg_isend(msg, BYZANTINE, 0, 3, offer, LARGE, &r[2], 0) == 0);
    CHECK(NULL, rmsg_irecv(msg, BYZANTINE, 7, 7, NULL, 0, &r[3], 0) == 0);
    rc = rmsg_send(msg, BYZANTINE, 0, 3, few, 8, 0); /* the link is opened, and may end, in it */
    if (rc != 0)
        must_have_ended(rc, &v, "the first send");
    if (v.commit == window_replaced)
        read_all_that_was_sent(msg);
    rc = rmsg_wait(msg, &r[3], NULL, 0);
    must_have_ended(rc, &v, "a receive");
    for (int k = 0; k < 3; k++) { /* complete before, or with the link */
        rc = rmsg_wait(msg, &r[k], NULL, 0);
        REQUIRE(rc == 0 || rc == -EMSGSIZE || rc == -ECANCELED || rc == -EPROTO || rc == -EFAULT,
                "%s: request %d: %d: %s", v.name, k, rc, rerror(NULL));
    }
    rc = rmsg_send(msg, BYZANTINE, 0, 9, few, 8, 0);
    must_have_ended(rc, &v, "a send");
    CHECK(NULL, rmsg_close(msg) == 0);
}

/* Another context, with a rank that keeps the rules. */
static void exchange(rmsg_t msg, int peer, uint64_t i)
{
    static char out[LARGE], in[LARGE];
    const size_t bytes = 1 + i * 7919 % LARGE;
    rmsg_request_t r;

    pattern_fill(out, bytes, i);
    CHECK(NULL, rmsg_irecv(msg, peer, 0, 1, in, LARGE, &r, 0) == 0);
    CHECK(NULL, rmsg_send(msg, peer, 0, 1, out, bytes, 0) == 0);
    CHECK(NULL, rmsg_wait(msg, &r, NULL, 0) == 0);
    CHECK(NULL, pattern_same(in, bytes, i));
}

static int be(int rank, struct board *board, const void *arguments)
{
    const rmsg_config_t cfg = {.timeout_ms = DEADLINE_MS};
    rmsg_t honest = NULL;

    (void)arguments;
    shared = board;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    if (rank != BYZANTINE)
        CHECK(NULL, rmsg_open(&honest, &cfg) == 0);
    for (size_t i = 0; i < CASES + rounds; i++) {
        if (!is_chosen(i))
            continue;
        if (rank == BYZANTINE)
            be_byzantine(board, i);
        if (rank == VICTIM)
            be_the_victim(i);
        if (rank != BYZANTINE)
            exchange(honest, HONEST - rank, i);
    }
    CHECK(NULL, network_barrier() == 0);
    if (honest != NULL)
        CHECK(NULL, rmsg_close(honest) == 0);
    CHECK(NULL, rexit() == 0);
    return 0;
}

static void stop(struct job *job, int rank)
{
    siginfo_t info;

    job_kill(job, rank, SIGSTOP);
    EXPECT(waitid(P_PID, (id_t)job->pid[rank], &info, WSTOPPED) == 0, "rank %d has not stopped",
           rank);
}

/* Of window_replaced: everything is sent while the victim is stopped, and it reads everything while the peer is. */
static void stop_one_after_the_other(struct job *job)
{
    if (!job_reached(job, BYZANTINE, PREPARED))
        return;
    stop(job, VICTIM);
    atomic_store(&job->board->go, 1);
    if (job_reached(job, BYZANTINE, REPLACING)) {
        stop(job, BYZANTINE);
        job_kill(job, VICTIM, SIGCONT);
        (void)job_reached(job, VICTIM, REPLACING);
        job_kill(job, BYZANTINE, SIGCONT);
    } else {
        job_kill(job, VICTIM, SIGCONT);
    }
    atomic_store(&job->board->go, 2);
}

static void play(void)
{
    struct job job;

    job_prepare(&job, 3);
    job_start(&job, be, NULL);
    if (is_chosen(CASES - 1)) /* window_replaced */
        stop_one_after_the_other(&job);
    for (int rank = 0; rank < 3; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0), "%s: rank %d: status 0x%x",
               network ? "tcp" : "shm", rank, (unsigned)job.status[rank]);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = (unsigned)atoi(argv[1]);
    if (argc > 2)
        only = argv[2];
    seed = seed_of(argc, argv);
    setenv("RPIPE_LOG", "error", 0);
    play();
    setenv("RPIPE_BTL", "tcp", 1);
    network = true;
    play();
    return check_report(argv[0]);
}
