/* SPDX-License-Identifier: BSD-3-Clause */
/* violations_control.c: violations in control messages, see violations.h: handshakes, reports, cells, shared memory that is passed. */
#include "violations.h"
#include "observe/record/trace_clock.h"
#include "test/lib/cells.h"
#include <rinfo.h>
#include <rpipe.h>

#include "observe/record/trace_clock.h"

#include <fcntl.h>
#include <sys/mman.h>

enum {
    AT_RING = offsetof(struct handshake, ring),
    AT_CREDIT = offsetof(struct handshake, credit),
    AT_HEAP = offsetof(struct handshake, heap),
    AT_VERSIONS = offsetof(struct handshake, oldest),
    AT_LAYOUTS = offsetof(struct handshake, layout_oldest),
};

static struct handshake *handshake_of(unsigned char *blob)
{
    return (struct handshake *)(void *)blob;
}

/* ---- handshakes, reports, memory ---- */

/* Numbers of ends that this process does not have itself. */
static uint32_t foreign_number(uint32_t ctx) { return UINT32_C(1) << 31 | ctx; }

/* A writer that no peer has joined gets this handshake. */
static int join_with(const unsigned char *blob, size_t bytes, uint32_t ctx)
{
    rpipe_config_t cfg = violations_config(true, RPIPE_PUT, ctx);
    rch_t w;
    int rc;

    cfg.timeout_ms = SHORT_MS;
    CHECK(NULL, rpipe(&w, &cfg) == 0);
    CHECK(NULL, control_post(0, MESSAGE_HANDSHAKE, blob, bytes, NULL, 0) == 0);
    rc = rwait(w);
    CHECK(w, rclose(w) == 0);
    return rc;
}

static void violate_handshakes(uint64_t *random, int rounds)
{
    static const struct {
        const char *name;
        int at;
        uint64_t value;
    } keys[] = {
        {"a slab that was never passed", AT_RING, 12345},
        {"an offset outside", AT_RING + 8, 1 << 30},
        {"an offset that wraps around", AT_RING + 8, UINT64_MAX - 63},
        {"an offset inside a line", AT_RING + 8, 8},
        {"a length that is too short", AT_RING + 16, 64},
        {"a length that is too long", AT_RING + 16, UINT64_C(1) << 40},
        {"a credit line that was never passed", AT_CREDIT, 54321},
        {"a credit line outside", AT_CREDIT + 8, 1 << 20},
        {"a heap that was never passed", AT_HEAP, 999},
        {"a heap outside", AT_HEAP + 8, UINT64_C(1) << 63},
        {"a heap that is too long", AT_HEAP + 16, UINT64_MAX},
        {"versions above", AT_VERSIONS, (PROTOCOL_NEWEST + 1) * 0x10001u},
        {"versions below", AT_VERSIONS, 0x00010001u},
        {"versions in the wrong order", AT_VERSIONS, 0x00010000u | UINT16_MAX},
        {"another layout of memory", AT_LAYOUTS, (SYNC_LAYOUT_VERSION + 1) * 0x10001u},
    };
    struct pair p = pair_open(RPIPE_PUT); /* whose memory is named */
    _Alignas(struct handshake) unsigned char blob[HANDSHAKE_BYTES], good[HANDSHAKE_BYTES];
    size_t i;
    int round, rc;

    handshake_make(p.r, handshake_of(good));
    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        uint32_t ctx = violations_ctx();

        memcpy(blob, good, sizeof(blob));
        if (keys[i].at == AT_VERSIONS || keys[i].at == AT_LAYOUTS)
            put32(blob, keys[i].at, (uint32_t)keys[i].value);
        else
            put64(blob, keys[i].at, keys[i].value);
        handshake_of(blob)->head.context = ctx;
        handshake_of(blob)->head.end_number = foreign_number(ctx);
        rc = join_with(blob, sizeof(blob), ctx);
        EXPECT(rc == -EPROTO, "a handshake with %s: %d (%s)", keys[i].name, rc, rinfo_strerror(rc));
    }
    for (round = 0; round < rounds; round++) {
        uint32_t ctx = violations_ctx();
        size_t bytes =
            random_draw(random) % 4 == 0 ? random_draw(random) % (sizeof(blob) + 1) : sizeof(blob);
        int n = 1 + (int)(random_draw(random) % 6);

        memcpy(blob, good, sizeof(blob));
        handshake_of(blob)->head.context = ctx;
        handshake_of(blob)->head.end_number = foreign_number(ctx);
        handshake_of(blob)->head.bytes = (uint32_t)bytes;
        while (n-- > 0)
            blob[random_draw(random) % sizeof(blob)] = (unsigned char)random_draw(random);
        if (random_draw(random) % 8 == 0)
            for (i = 0; i < sizeof(blob); i++)
                blob[i] = (unsigned char)random_draw(random);
        if (handshake_of(blob)->head.context >
            ctx) /* not one that a later pipe of this test uses */
            handshake_of(blob)->head.context |= UINT64_C(1) << 40;
        if (round % 16 != 0) { /* most need not be waited for */
            CHECK(NULL, control_post(0, MESSAGE_HANDSHAKE, blob, bytes, NULL, 0) == 0);
            continue;
        }
        rc = join_with(blob, bytes, ctx);
        EXPECT(rc == 0 || rc == -EPROTO || rc == -ETIMEDOUT, "half of noise: %d (%s)", rc,
               rinfo_strerror(rc));
    }
    pair_close(p);
}

/* Records of versions whose range overlaps with ours: a longer one, and one that lacks members at its end. */
static void records_of_other_versions(void)
{
    static const size_t lengths[] = {HANDSHAKE_BYTES + 64, offsetof(struct handshake, spare)};
    struct pair p = pair_open(RPIPE_PUT); /* whose memory is named */
    _Alignas(struct handshake) unsigned char blob[HANDSHAKE_BYTES + 64] = {0};
    struct handshake *h = handshake_of(blob);
    size_t i;
    int rc;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint32_t ctx = violations_ctx();

        handshake_make(p.r, h);
        memset(blob + HANDSHAKE_BYTES, 0x5a, sizeof(blob) - HANDSHAKE_BYTES);
        h->head.end_number = foreign_number(ctx);
        h->head.context = ctx;
        h->head.version = h->newest = PROTOCOL_NEWEST + 3;
        h->head.bytes = (uint32_t)lengths[i];
        h->features =
            UINT64_MAX & ~HANDSHAKE_DEVICE; /* all extensions but one that both ends must have */
        rc = join_with(blob, lengths[i], ctx);
        EXPECT(rc == 0, "a record of %zu bytes of a later version: %d (%s): %s", lengths[i], rc,
               rinfo_strerror(rc), rerror(NULL));
    }
    pair_close(p);
}

static void violate_notes(uint64_t *random, int rounds)
{
    static const uint32_t types[] = {MESSAGE_CLOSE,
                                     MESSAGE_FAIL,
                                     MESSAGE_EVENT_ON,
                                     MESSAGE_EVENT_ACK,
                                     MESSAGE_BTL,
                                     MESSAGE_GROW,
                                     MESSAGE_GROWN,
                                     MESSAGE_SIGNAL,
                                     MESSAGE_ATOMIC,
                                     MESSAGE_ATOMIC_DONE,
                                     MESSAGE_CLOCK,
                                     MESSAGE_CLOCK_REPLY,
                                     99,
                                     1000};
    _Alignas(struct fail_message) unsigned char body[sizeof(struct fail_message)];
    struct end_message_head *head = (struct end_message_head *)(void *)body;
    int round, fd, n;
    size_t i, bytes;

    for (round = 0; round < rounds; round++) {
        uint32_t type = types[random_draw(random) % (sizeof(types) / sizeof(types[0]))];

        for (i = 0; i < sizeof(body); i++)
            body[i] = (unsigned char)random_draw(random);
        head->context = 1000000 + random_draw(random) % 4; /* not the bystander's */
        head->end_number = (uint32_t)(random_draw(random) % 4);
        head->flags = (uint8_t)(random_draw(random) % 4);
        head->role = (uint8_t)(random_draw(random) % 4);
        if (type == MESSAGE_BTL)
            put32(body, 0, (uint32_t)(random_draw(random) % 4)),
                put32(body, 4, (uint32_t)(random_draw(random) % 3));
        bytes = type == MESSAGE_FAIL ? sizeof(body)
                : type == MESSAGE_GROW || type == MESSAGE_GROWN || type == MESSAGE_ATOMIC ||
                        type == MESSAGE_ATOMIC_DONE
                    ? 72
                    : sizeof(*head);
        if (random_draw(random) % 8 == 0)
            bytes = random_draw(random) % sizeof(body);
        if (type != MESSAGE_BTL && random_draw(random) % 8 != 0)
            head->bytes = (uint32_t)bytes;
        n = (int)(random_draw(random) % 2);
        fd = n == 0                         ? -1
             : random_draw(random) % 2 == 0 ? open("/dev/null", O_RDWR | O_CLOEXEC)
                                            : memfd_create("byzantine", MFD_CLOEXEC);
        CHECK(NULL, control_post(0, type, body, bytes, &fd, n) == 0);
        if (fd >= 0)
            close(fd);
        if (round % 64 == 0)
            CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
    }
    CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
}

/* Shared memory that could be taken away again is refused, and a channel that names it fails. */
static void violate_mappings(void)
{
    static const struct {
        const char *name;
        int seals;
        size_t bytes, claimed;
        int access;
    } mappings[] = {
        {"without seals", 0, 1 << 16, 1 << 16, 1},
        {"that may shrink", F_SEAL_GROW, 1 << 16, 1 << 16, 1},
        {"shorter than announced", F_SEAL_SHRINK | F_SEAL_GROW, 4096, 1 << 16, 1},
        {"of no bytes", F_SEAL_SHRINK | F_SEAL_GROW, 4096, 0, 1},
        {"with no memory behind it", F_SEAL_SHRINK | F_SEAL_GROW, 1 << 20, 1 << 16, 1},
        {"that cannot be written", F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, 1 << 16, 1 << 16, 1},
    };
    struct pair p = pair_open(RPIPE_PUT);
    _Alignas(struct handshake) unsigned char blob[HANDSHAKE_BYTES];
    size_t i;
    int rc;

    for (i = 0; i < sizeof(mappings) / sizeof(mappings[0]); i++) {
        uint64_t id = UINT64_C(1) << 39 | i,
                 tell[3] = {1 | (uint64_t)mappings[i].access << 32, id, mappings[i].claimed};
        int fd = memfd_create("byzantine", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        uint32_t ctx = violations_ctx();

        CHECK(NULL, fd >= 0 && ftruncate(fd, (off_t)mappings[i].bytes) == 0);
        CHECK(NULL, mappings[i].seals == 0 || fcntl(fd, F_ADD_SEALS, mappings[i].seals) == 0);
        CHECK(NULL, control_post(0, MESSAGE_BTL, tell, sizeof(tell), &fd, 1) == 0);
        close(fd);
        handshake_make(p.r, handshake_of(blob));
        handshake_of(blob)->head.end_number = foreign_number(ctx);
        handshake_of(blob)->head.context = ctx;
        put64(blob, AT_RING, id);
        put64(blob, AT_RING + 8, 0);
        rc = join_with(blob, sizeof(blob), ctx);
        EXPECT(rc < 0 && rc != -ETIMEDOUT, "shared memory %s: %d (%s)", mappings[i].name, rc,
               rinfo_strerror(rc));
    }
    pair_close(p);
}

/* ---- huge pages ---- */

#define HUGE ((size_t)2 << 20)
#define POOL "/proc/sys/vm/nr_hugepages"

static int pool_pages(void)
{
    FILE *f = fopen(POOL, "re");
    int pages = -1;

    if (f != NULL && fscanf(f, "%d", &pages) != 1)
        pages = -1;
    if (f != NULL)
        fclose(f);
    return pages;
}

static bool pool_set(int pages)
{
    FILE *f = fopen(POOL, "we");
    bool set = f != NULL && fprintf(f, "%d\n", pages) > 0;

    if (f != NULL && fclose(f) != 0)
        set = false;
    return set && pool_pages() >= pages;
}

/* Sealed as it has to be, with all of its memory; -1: there are no huge pages. */
static int huge_file(size_t bytes)
{
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

    if (fd >= 0 && (fallocate(fd, 0, 0, (off_t)bytes) != 0 ||
                    fcntl(fd, F_ADD_SEALS,
                          F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool huge_is_mapped(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    bool found = false;
    char line[512];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        found = found || strstr(line, "memfd:huge") != NULL;
    if (f != NULL)
        fclose(f);
    return found;
}

/* A reader of a pipe whose writer names this memory as its heap. */
static int read_from(uint64_t segment, size_t bytes, uint32_t flags)
{
    struct pair p = pair_open(RPIPE_GET);
    _Alignas(struct handshake) unsigned char blob[HANDSHAKE_BYTES];
    rpipe_config_t cfg = violations_config(false, RPIPE_GET, violations_ctx());
    rch_t r;
    int rc;

    handshake_make(p.w, handshake_of(blob));
    handshake_of(blob)->head.end_number = foreign_number((uint32_t)cfg.context);
    handshake_of(blob)->head.context = cfg.context;
    put64(blob, AT_HEAP, segment);
    put64(blob, AT_HEAP + 8, 0);
    put64(blob, AT_HEAP + 16, bytes);
    cfg.flags = flags;
    cfg.timeout_ms = SHORT_MS;
    CHECK(NULL, rpipe(&r, &cfg) == 0);
    CHECK(NULL, control_post(0, MESSAGE_HANDSHAKE, blob, sizeof(blob), NULL, 0) == 0);
    rc = rwait(r);
    CHECK(r, rclose(r) == 0);
    pair_close(p);
    return rc;
}

/*
 * mmap(2) rounds a length up to pages of the file, so one that is no multiple of them would replace what is mapped behind. And pages
 * of hugetlb are of a pool, in which there are few: only an end that asks for them gets some.
 */
static void violate_huge_pages(void)
{
    static const struct {
        const char *name;
        size_t claimed;
        uint32_t flags;
        int expected;
    } rows[] = {
        {"of a length that is no whole page", HUGE + 8192, RPIPE_HUGE_PAGES, -EPROTO},
        {"for which this end has not asked", HUGE, 0, -EPROTO},
        {"for which this end has asked", HUGE, RPIPE_HUGE_PAGES, 0},
    };
    int pool = pool_pages(), fd;
    size_t i;

    if (pool < 0 || !pool_set(pool + 2)) {
        printf("SKIPPED, 2 huge pages are needed, by root (" POOL ")\n");
        return;
    }
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint64_t id = UINT64_C(1) << 38 | i, tell[3] = {1, id, rows[i].claimed};
        int rc;

        fd = huge_file(2 * HUGE);
        EXPECT(fd >= 0, "no huge pages, although there are %d", pool_pages());
        if (fd < 0)
            break;
        CHECK(NULL, control_post(0, MESSAGE_BTL, tell, sizeof(tell), &fd, 1) == 0);
        close(fd);
        CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
        rc = read_from(id, HEAP, rows[i].flags);
        EXPECT(rc == rows[i].expected, "huge pages %s: %d (%s): %s", rows[i].name, rc,
               rinfo_strerror(rc), rerror(NULL));
        EXPECT(i > 0 || !huge_is_mapped(), "huge pages %s are mapped", rows[i].name);
        CHECK(NULL, control_post(0, MESSAGE_BTL, (uint64_t[3]){2, id}, 24, NULL, 0) == 0);
        CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
    }
    CHECK(NULL, pool_set(pool));
}

/* ---- notes about a channel that is open ---- */

/* In the name of the end that is `ch`, to the other one. */
static void say_note(rch_t ch, uint32_t type, int code, uint64_t number, const char *reason)
{
    struct fail_message m = {
        .head = message_head(ch, reason != NULL ? sizeof(m) : sizeof(m.head), number),
        .reason = ""};

    m.head.code = code;
    snprintf(m.reason, sizeof(m.reason), "%s", reason != NULL ? reason : "");
    CHECK(NULL, message_post(0, (enum message_type)type, &m.head, NULL) == 0);
    CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
}

/* A failure that is none, or that would have a call ask again for ever. */
static void violate_failures(void)
{
    static const int codes[] = {R_PENDING, R_EOF,  0,       1,       4711,   -4711,   INT32_MIN,
                                INT32_MAX, -EINTR, -EPROTO, -ENOMEM, -EPERM, -EINVAL, -EBADF};
    size_t i;
    raddr_t d;
    int rc;

    for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct pair p = pair_open(i % 2 == 0 ? RPIPE_PUT : RPIPE_GET);

        say_note(p.w, MESSAGE_FAIL, codes[i], 0, "\033[2J\ninvalid");
        rc = rread(p.r, &d, NULL);
        EXPECT(rc == (codes[i] == -ENOMEM ? -ENOMEM : -EPROTO), "failure %d: rread gave %d (%s)",
               codes[i], rc, rinfo_strerror(rc));
        EXPECT(strpbrk(rerror(p.r), "\033\n") == NULL, "failure %d: %s", codes[i], rerror(p.r));
        say_note(p.w, MESSAGE_FAIL, -ENOSPC, 0, "another one");
        EXPECT(rread(p.r, &d, NULL) == rc, "failure %d, and another one: %s", codes[i],
               rerror(p.r));
        pair_close(p);
    }
}

/* More outstanding than the ring can hold: the descriptor would be readable for ever. */
static void violate_events(void)
{
    static const uint64_t numbers[] = {SLOTS + 1, UINT64_C(1) << 32, UINT64_MAX};
    size_t i;
    raddr_t d;
    int rc, k;

    for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        for (k = 0; k < 2; k++) {
            struct pair p = pair_open(RPIPE_PUT);
            int64_t patience = deadline_in_ms(PATIENCE_MS);

            CHECK(p.r, rfd(p.r) >= 0);
            while (!atomic_load(&p.r->r.acked) &&
                   !deadline_passed(patience)) /* by the true writer */
                backoff_us(100);
            say_note(p.w, MESSAGE_SIGNAL, 0, SLOTS, NULL);
            rc = rread_nb(p.r, &d, NULL);
            EXPECT(rc == R_PENDING, "as many as the ring holds are outstanding: %d (%s)", rc,
                   rinfo_strerror(rc));
            say_note(p.w, k == 0 ? MESSAGE_SIGNAL : MESSAGE_EVENT_ACK, 0, numbers[i], NULL);
            rc = rread_nb(p.r, &d, NULL);
            EXPECT(rc == -EPROTO, "%llu are outstanding: %d (%s)", (unsigned long long)numbers[i],
                   rc, rinfo_strerror(rc));
            pair_close(p);
        }
}

/*
 * Close messages for ends of which no handshake has come, handshakes without a number, and many handshakes of one number: of the
 * latter the first is kept, of the others nothing.
 */
static void violate_unopened(void)
{
    static _Alignas(struct handshake) unsigned char handshake[60000];
    struct end_message_head *head = &handshake_of(handshake)->head, closing;
    struct pair p = pair_open(RPIPE_PUT);
    struct rendezvous *m = NULL;
    size_t before = 0, after = 0;
    uint32_t i;

    handshake_make(p.w, handshake_of(handshake));
    closing = message_head(p.w, sizeof(closing), 0);
    head->bytes = sizeof(handshake);
    rendezvous_lock();
    while ((m = rendezvous_next(m)) != NULL)
        before++;
    rendezvous_unlock();
    for (i = 0; i < 2000; i++) {
        closing.context = 2000000 + i;
        closing.end_number = i % 2 == 0 ? 0 : foreign_number(i);
        closing.flags = i % 4 == 3 ? MESSAGE_OF_RECEIVER : 0;
        CHECK(NULL, message_post(0, MESSAGE_CLOSE, &closing, NULL) == 0);
        head->context = 3000000 + i;
        head->end_number = i % 2 == 0 ? 0 : foreign_number(3000000);
        if (i < 100)
            CHECK(NULL, message_post(0, MESSAGE_HANDSHAKE, head, NULL) == 0);
    }
    CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
    rendezvous_lock();
    for (m = NULL; (m = rendezvous_next(m)) != NULL;)
        after++;
    rendezvous_unlock();
    EXPECT(after == before + 1, "%zu rendezvous entries, and before %zu", after, before);
    pair_close(p);
}

/* ---- cells, whose requests and answers are messages (RPIPE_ATOMICS=service) ---- */

/* as in cells_service.c */
enum { CELLS_OP = 32, CELLS_CELL = 40, CELLS_BYTES = 72 };
#define CELLS 8

static void say_cells(rch_t ch, uint32_t type, uint64_t op, uint64_t cell, uint64_t number)
{
    _Alignas(8) unsigned char body[CELLS_BYTES] = {0};

    *(struct end_message_head *)(void *)body = message_head(ch, sizeof(body), number);
    put64(body, CELLS_OP, op);
    put64(body, CELLS_CELL, cell);
    CHECK(NULL, control_post(0, type, body, sizeof(body), NULL, 0) == 0);
    CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
}

static struct pair open_cells(void)
{
    uint32_t ctx = violations_ctx();
    rpipe_config_t cfg = violations_config(true, RPIPE_PUT, ctx);
    struct pair p = {NULL, NULL};

    cfg.heap_bytes = CELLS * sizeof(uint64_t);
    CHECK(NULL,
          cells_open(&p.w, &cfg, true, NULL) == 0 && cells_open(&p.r, &cfg, false, NULL) == 0);
    CHECK(p.w, rwait(p.w) == 0 && rwait(p.r) == 0);
    return p;
}

static void violate_cells(void)
{
    static const struct {
        const char *name;
        bool request;
        uint64_t op, cell, number;
    } notes[] = {
        {"an operation that does not exist", true, RCELLS_XOR + 1, 0, 1},
        {"operation 2^32", true, UINT64_C(1) << 32, 0, 1},
        {"a cell behind the last", true, RCELLS_ADD, CELLS, 1},
        {"cell 2^61", true, RCELLS_ADD, UINT64_C(1) << 61, 1},
        {"cell 2^64 - 1", true, RCELLS_ADD, UINT64_MAX, 1},
        {"an answer to nothing", false, RCELLS_ADD, 0, 2},
        {"an answer to the last but one", false, RCELLS_ADD, 0, 1},
        {"answer 0", false, RCELLS_ADD, 0, 0},
        {"answer 2^64 - 1", false, RCELLS_ADD, 0, UINT64_MAX},
    };
    uint64_t old;
    size_t i;
    int rc;

    for (i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
        struct pair p = open_cells();

        CHECK(p.w, rcells_atomic(cells_at(p.w), RCELLS_ADD, 3, 5, 0, &old) == 0 && old == 0);
        say_cells(notes[i].request ? p.w : p.r,
                  notes[i].request ? MESSAGE_ATOMIC : MESSAGE_ATOMIC_DONE, notes[i].op,
                  notes[i].cell, notes[i].number);
        do /* the end that detects it, or that is notified, in a moment */
            rc = rcells_atomic(cells_at(p.w), RCELLS_ADD, 3, 0, 0, &old);
        while (rc == 0);
        EXPECT(rc == -EPROTO, "%s: %d (%s): %s", notes[i].name, rc, rinfo_strerror(rc),
               rerror(p.w));
        say_cells(p.w, MESSAGE_ATOMIC, RCELLS_ADD, 3, 2); /* what has failed does nothing more */
        CHECK(p.r, rcells_atomic(cells_at(p.r), RCELLS_ADD, 3, 0, 0, &old) == 0);
        EXPECT(!notes[i].request || old == 5, "%s: the cell is %llu", notes[i].name,
               (unsigned long long)old);
        CHECK(NULL, rcells_close(cells_at(p.w)) == 0 && rcells_close(cells_at(p.r)) == 0);
    }
}

/* ---- all of it ---- */

void violate_messages(uint64_t *random, int rounds)
{
    violate_failures();
    violate_events();
    violate_unopened();
    violate_cells();
    records_of_other_versions();
    violate_handshakes(random, 20 * rounds);
    violate_notes(random, 20 * rounds);
    violate_mappings();
    violate_huge_pages();
}
