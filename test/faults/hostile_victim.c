/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile_victim.c: the victim of hostile.h, and its friend.
 *
 * Two threads: one has the good pipes, to the friend and back, and opens new ones all the time; the other opens an end to the
 * hostile rank, makes calls of all kinds, and closes it.
 */
#include "hostile.h"

#include "rpipe/channel.h"
#include "rpipe/half.h"

#include <dirent.h>
#include <pthread.h>

#define GOOD_HEAP 16384
#define GOOD_MESSAGES 40 /* then a new pair of pipes */
#define GOOD_MOST 6000   /* bytes */
#define LAST 1           /* the tag of the last message, which both sides then know */
#define RSS_MOST_MB 3000 /* far beyond what a sanitizer needs; what has no bound gets there */

/* ---- the good pipes: the victim writes, the friend echoes ---- */

static rch_t good_open(rdma_op_t op, int peer, bool writer, uint32_t ctx)
{
    rmalloc_config_t cfg = channel_config(op, peer, writer, GOOD_HEAP);
    rch_t ch;

    cfg.ctx = ctx;
    MUST(rpipe(&ch, &cfg) == 0, NULL);
    return ch;
}

static void good_write(rch_t ch, size_t bytes, uint64_t key, uint64_t tag)
{
    raddr_t d = rmalloc(ch, bytes);

    MUST(d != ADDR_NULL, ch);
    fill(rmem(ch, d), bytes, key);
    MUST(rset_tag(ch, d, tag) == 0, ch);
    MUST(rwrite(ch, d) == 0, ch);
}

static uint64_t good_read(rch_t ch, size_t bytes, uint64_t key)
{
    uint64_t tag;
    raddr_t d;
    size_t size;

    MUST(rread(ch, &d, &size) == 0, ch);
    MUST(size == bytes && filled(rmem(ch, d), size, key), ch);
    tag = rtag(ch, d);
    MUST(rfree(ch, d) == 0, ch);
    return tag;
}

/* Both sides draw the same sizes. False: that was the last pair. */
static bool good_pair(struct board *board, bool victim, uint64_t *random, uint64_t n)
{
    rdma_op_t op = n % 2 == 0 ? RDMA_PUT : RDMA_GET;
    int peer = victim ? FRIEND : VICTIM;
    rch_t there = good_open(op, peer, victim, (uint32_t)(n % 5)),
          back = good_open(op, peer, !victim, (uint32_t)(n % 5));
    uint64_t tag = 0, i, key;
    size_t bytes;

    for (i = 0; i < GOOD_MESSAGES; i++) {
        bytes = draw(random) % GOOD_MOST;
        key = draw(random);
        if (victim && i == 0)
            tag = atomic_load(&board->go) == GO_LEAVE ? LAST : 0;
        if (victim)
            good_write(there, bytes, key, tag);
        else
            tag = good_read(there, bytes, key);
        if (!victim)
            good_write(back, bytes, key, tag);
        else
            MUST(good_read(back, bytes, key) == tag, back);
        if (victim)
            atomic_fetch_add(&board->rank[VICTIM].done, 1);
    }
    MUST(rclose(there) == 0 && rclose(back) == 0, there);
    return tag != LAST;
}

struct good {
    struct board *board;
    uint64_t random;
};

static void *good_thread(void *argument)
{
    struct good *g = argument;
    uint64_t n = 0;

    while (good_pair(g->board, true, &g->random, n))
        n++;
    return NULL;
}

int friend_main(struct board *board, const struct round *round)
{
    uint64_t random = round->seed, n = 0;

    setenv("RPIPE_TIMEOUT_MS", "60000", 1);
    MUST(rinit(NULL, NULL) == 0, NULL);
    rank_reached(board, FRIEND, 1);
    while (good_pair(board, false, &random, n))
        n++;
    MUST(rexit() == 0, NULL);
    return 0;
}

/* ---- ends to the hostile rank ---- */

static bool may_be(int rc)
{
    static const int codes[] = {0,       R_EOF,   -EPROTO,   -ETIMEDOUT, -EPIPE, -ECONNRESET, -ENOBUFS,
                                -ENOMEM, -ENOSPC, -EMSGSIZE, -EAGAIN,    -EIO,   -ENOTSUP};
    size_t i;

    for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i] == rc)
            return true;
    return false;
}

static struct board *counts;
static int refused; /* by this end */

static void judge(rch_t ch, const char *call, int rc, bool waits)
{
    const char *sentence = rpipe_error(ch);

    EXPECT(may_be(rc) && !(waits && rc == R_PENDING), "%s gave %d (%s): %s", call, rc, rstrerror(rc), sentence);
    if (rc != -EPROTO)
        return;
    refused++;
    atomic_fetch_add(BOARD_REFUSED(counts), 1);
    EXPECT(strlen(sentence) > 30 && strpbrk(sentence, "\033\n\r") == NULL, "%s: the sentence is \"%s\"", call,
           sentence);
}

static uint64_t sum; /* of what was read: every byte can be */

static void look_at(rch_t ch, raddr_t d, size_t size)
{
    const uint8_t *mem = rmem(ch, d);
    size_t i;

    for (i = 0; i < size; i += i < 64 || i + 64 >= size ? 1 : 61)
        sum += mem[i];
    if (size > 0)
        sum += mem[size - 1];
}

static void use_writer(rch_t ch, uint64_t *random)
{
    uint64_t x = draw(random);
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
    rc = (x >> 44 & 1) != 0 ? rwrite_nb(ch, d) : (x >> 45 & 1) != 0 ? rwrite_n(ch, d, size / 2) : rwrite(ch, d);
    judge(ch, "rwrite", rc, (x >> 44 & 1) == 0);
    if (rc != 0)
        (void)rfree(ch, d);
    if ((x >> 46 & 15) == 0)
        judge(ch, "rflush", rflush(ch), true);
    if ((x >> 50 & 15) == 0)
        judge(ch, "rpipe_room", rpipe_room(ch, size), false);
}

#define HELD 6

static void use_reader(rch_t ch, raddr_t held[HELD], uint64_t *random)
{
    uint64_t x = draw(random);
    raddr_t *place = &held[(x >> 8) % HELD];
    size_t size;
    int rc;

    if ((x & 31) == 0) {
        int ready;

        rc = rpipe_poll(&ch, 1, &ready, 1);
        EXPECT(may_be(rc), "rpipe_poll gave %d (%s)", rc, rstrerror(rc));
    }
    if ((x >> 5 & 31) == 0 && ch->event_fd < 0)
        EXPECT(rpipe_fd(ch) >= 0, "rpipe_fd: %s", rpipe_error(ch));
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
    uint64_t x = draw(random), old;

    judge(
        ch, "ratomic",
        ratomic(ch, (ratomic_op_t)(x % (RATOMIC_XOR + 1)), (x >> 8) % 64, x >> 16, 0, (x >> 14 & 1) != 0 ? &old : NULL),
        true);
}

static void use(const struct plan *p, uint64_t *random)
{
    raddr_t held[HELD] = {ADDR_NULL};
    int calls = (int)(draw(random) % 60);
    rpipe_stats_t stats;
    rch_t ch;
    int rc = rpipe(&ch, &p->cfg);

    refused = 0;

    /* what is refused here is the peer, who is gone, or has been cut off */
    EXPECT(may_be(rc), "rpipe gave %d (%s): %s", rc, rstrerror(rc), rpipe_error(NULL));
    if (rc != 0)
        return;
    (void)rpipe_set_timeout(ch, 50);
    rc = rpipe_wait(ch);
    (void)rpipe_set_timeout(ch, p->cfg.timeout_ms);
    judge(ch, "rpipe_wait", rc, true);
    if (rc == 0)
        atomic_fetch_add(BOARD_JOINED(counts), 1);
    while (calls-- > 0 && job_failures == 0 && refused < 3) {
        if (p->cfg.allocator.op == RDMA_ATOMIC)
            use_cells(ch, random);
        else if (p->victim_writes)
            use_writer(ch, random);
        else
            use_reader(ch, held, random);
    }
    judge(ch, "rpipe_stats", rpipe_stats(ch, &stats), true);
    judge(ch, "rclose", rclose(ch), false);
}

/* ---- what is left of it ---- */

static long resident_mb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f == NULL || fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f != NULL)
        fclose(f);
    return pages * sysconf(_SC_PAGESIZE) >> 20;
}

static int open_fds(void)
{
    struct dirent *entry;
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

int victim_main(struct board *board, const struct round *round)
{
    uint64_t random = round->seed + 1, k = 0;
    struct good good = {board, round->seed};
    pthread_t thread;
    int before, after, patience;

    counts = board;
    setenv("RPIPE_LOG", "error", 0);
    setenv("RPIPE_TIMEOUT_MS", "60000", 1);
    if (round->checked)
        setenv("RMALLOC_DEBUG", "1", 1);
    if ((round->seed & 4) != 0)
        setenv("RPIPE_ATOMICS", "service", 1);
    MUST(rinit(NULL, NULL) == 0, NULL);
    (void)dup2(round->log, STDERR_FILENO); /* "cannot be joined", hundreds of times, is what is wanted here */
    MUST(pthread_create(&thread, NULL, good_thread, &good) == 0, NULL);
    before = open_fds();
    rank_reached(board, VICTIM, 1);
    for (k = 0; atomic_load(&board->go) == GO_ON && job_failures == 0; k++) {
        struct plan p = plan_of(round, k);

        atomic_store(&board->rank[VICTIM].number, k);
        use(&p, &random);
        MUST(resident_mb() < RSS_MOST_MB, NULL);
    }
    while (atomic_load(&board->go) != GO_LEAVE)
        nap_us(200);
    pthread_join(thread, NULL);
    for (patience = 0; (after = open_fds()) > before + 12 && patience < 3000; patience++)
        nap_us(10000);
    EXPECT(after <= before + 12, "%d descriptors, and before the round %d", after, before);
    MUST(rexit() == 0, NULL);
    if (sum == 1)
        printf("\n"); /* it is used */
    return job_failures == 0 ? 0 : 3;
}
