/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leaks.c: opening and closing thousands of channels costs nothing that stays: no descriptor, no mapping, no memory.
 *
 * Between two ranks and to oneself, PUT and GET, in every heuristic and mode, small and large heaps, with and without messages,
 * rfd and held messages; heaps that grow, and that are closed while they do; closed by either end first, joined or not, and
 * refused (a disagreement of the two ends). Measured after
 * the first tenth, when pools have been filled, and at the end. Before that: a segment that one end has made, and the other
 * has no address space to map, is neither lost nor made twice.
 *
 *     leaks [CHANNELS]
 */
#include "test/lib/job.h"
#include "test/lib/counts.h"
#include "test/lib/resources.h"
#include <rpipe.h>

#include <sys/resource.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true /* which takes terabytes of address space, */
/* and keeps what is freed: 256 MiB of it, as many mappings, unless an option changes that */
__attribute__((visibility("default"))) const char *
__asan_default_options(void); /* NOLINT(bugprone-reserved-identifier): its name */
const char *__asan_default_options(void) { return "quarantine_size_mb=1"; }
#elif defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

struct usage {
    int fds, maps;
    long resident_kib;
    size_t heap_bytes; /* of malloc, in use */
};

static struct usage usage_now(void)
{
    struct usage u = {entries_of("/proc/self/fd"), resources_mappings(), 0, resources_heap_bytes()};
    FILE *f = fopen("/proc/self/statm", "re");
    long pages = 0;

    if (f != NULL && fscanf(f, "%*d %ld", &pages) == 1)
        u.resident_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    if (f != NULL)
        fclose(f);
    return u;
}

static void some_messages(rch_t ch, bool writer, uint64_t k, size_t heap)
{
    uint64_t i;
    size_t size;
    raddr_t d;

    for (i = 0; i < k % 5; i++) {
        size = i % 2 == 0 ? 8 : heap / 8;
        if (writer) {
            d = rmalloc(ch, size);
            CHECK(ch, d != ADDR_NULL);
            pattern_fill(rmem(ch, d), size, k + i);
            CHECK(ch, rwrite(ch, d) == 0);
        } else {
            CHECK(ch, rread(ch, &d, &size) == 0);
            CHECK(ch, pattern_same(rmem(ch, d), size, k + i));
            if (i != 2) /* one is still held when the channel is closed */
                CHECK(ch, rfree(ch, d) == 0);
        }
    }
    if (writer && k % 3 == 0)
        CHECK(ch, rmalloc(ch, 8) != ADDR_NULL); /* and one allocated, and not sent */
}

static void mode_of(rpipe_config_t *cfg, uint64_t k)
{
    uint64_t mode = k % 19 % 13; /* of table 3.1 */

    cfg->heuristic =
        mode < 3 ? RMALLOC_NEXT_FIT : (rmalloc_fit_t)(RMALLOC_FIRST_FIT + (mode - 3) / 2);
    cfg->mode = mode < 3        ? (rpipe_sync_t)(RPIPE_SYNC_BLOCKS + mode)
                : mode % 2 == 1 ? RPIPE_SYNC_TAGS
                                : RPIPE_SYNC_CHANNEL;
    cfg->sync_queue = k % 3 == 0 ? 0 : (uint32_t)(5 + k % 50);
    if (k % 4 == 3)
        cfg->max_heap_bytes = 8 * cfg->heap_bytes;
}

/* Grows by one segment, or is closed while it does, or as soon as it has. */
static void some_growth(rch_t ch, uint64_t k, size_t heap)
{
    raddr_t d;
    int rc;

    rc = rmalloc_nb(ch, 2 * heap, &d);
    CHECK(ch, rc == 0 || rc == R_PENDING || rc == -EPIPE);
    if (rc != R_PENDING || k % 8 == 3)
        return;
    d = rmalloc(ch, 2 * heap);
    CHECK(ch, d != ADDR_NULL || errno == EPIPE); /* the reader does not wait for us */
    if (d != ADDR_NULL && k % 16 == 7)
        CHECK(ch, (rc = rwrite(ch, d)) == 0 || rc == -EPIPE);
}

static void one_channel(int rank, uint64_t k)
{
    static const size_t heaps[] = {100, 5000, 70000, 1 << 20};
    bool writer = (k & 1) == (uint64_t)rank;
    rpipe_config_t cfg =
        channel_config(k & 2 ? RPIPE_GET : RPIPE_PUT, 1 - rank, writer, heaps[k / 4 % 4]);
    int rc;
    rch_t ch;

    cfg.context = (uint32_t)(k % 7);
    cfg.flags = k % 5 == 0 ? RPIPE_THREADS : 0;
    mode_of(&cfg, k / 4);
    if (k % 11 == 10)
        cfg.heap_bytes += (uint64_t)rank; /* the ends do not agree */
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    if (k % 11 == 10) {
        CHECK(ch, (rc = rwait(ch)) == -EPROTO || rc == 0); /* 0: the other one has closed before */
    } else if (k % 13 != 12) {                             /* else closed at once, joined or not */
        if (!writer && k % 17 == 0)
            CHECK(ch, rfd(ch) >= 0);
        some_messages(ch, writer, k, heaps[k / 4 % 4]);
        if (writer && cfg.max_heap_bytes != 0)
            some_growth(ch, k, heaps[k / 4 % 4]);
    }
    CHECK(ch, rclose(ch) == 0);
}

static void to_oneself(int rank, uint64_t k)
{
    rpipe_config_t w = channel_config(k & 2 ? RPIPE_GET : RPIPE_PUT, rank, true, 4000), r;
    rch_t writer, reader;

    mode_of(&w, k / 8);
    r = w;
    r.role = w.role == RPIPE_WRITER ? RPIPE_READER : RPIPE_WRITER;
    CHECK(NULL, rpipe(&writer, &w) == 0 && rpipe(&reader, &r) == 0);
    some_messages(writer, true, k, 4000);
    some_messages(reader, false, k, 4000);
    if (w.max_heap_bytes != 0)
        some_growth(writer, k / 8, 4000);
    CHECK(NULL, rclose(k & 1 ? writer : reader) == 0 && rclose(k & 1 ? reader : writer) == 0);
}

static int opens_and_closes(int rank, struct board *board, const void *arguments)
{
    const uint64_t channels = *(const uint64_t *)arguments;
    struct usage before = {0}, after;
    uint64_t k;

    (void)board;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    for (k = 0; k < channels; k++) {
        one_channel(rank, k);
        if (k % 8 == 0)
            to_oneself(rank, k);
        if (k % 64 ==
            0) /* neither is thousands of channels ahead: what is outstanding is memory too */
            CHECK(NULL, network_barrier() == 0);
        if (k == channels / 10 / 64 * 64)
            before = usage_now();
    }
    CHECK(NULL, network_barrier() == 0);
    backoff_us(
        100000); /* the last close messages arrive; nothing depends on it but the numbers below */
    after = usage_now();
    printf("rank %d, %llu channels: descriptors %d -> %d, mappings %d -> %d, resident %ld -> %ld "
           "KiB, malloc %zu -> "
           "%zu bytes\n",
           rank, (unsigned long long)channels, before.fds, after.fds, before.maps, after.maps,
           before.resident_kib, after.resident_kib, before.heap_bytes, after.heap_bytes);
    CHECK(NULL, after.fds <= before.fds + 4);
    CHECK(NULL, after.maps <= before.maps + 16);
    CHECK(NULL,
          after.heap_bytes <=
              before.heap_bytes + (256u << 10)); /* less than 32 bytes per channel of the default */
    CHECK(NULL, rexit() == 0);
    return 0;
}

/* ---- a segment that cannot be mapped ---- */

#define SEGMENT ((size_t)64 << 20)
#define SPARE ((size_t)16 << 20)

static size_t address_space(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long pages = 0;

    CHECK(NULL, f != NULL && fscanf(f, "%ld", &pages) == 1);
    fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit_address_space(rlim_t bytes)
{
    struct rlimit l;

    CHECK(NULL, getrlimit(RLIMIT_AS, &l) == 0);
    l.rlim_cur = bytes;
    CHECK(NULL, setrlimit(RLIMIT_AS, &l) == 0);
}

static void writer_grows(rch_t ch)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    struct pipe_counts st = {0};
    raddr_t d;
    int i;

    for (i = 0; i < 2; i++) { /* refused, and not tried again at once */
        errno = 0;
        CHECK(ch, rmalloc(ch, SEGMENT) == ADDR_NULL && errno == ENOMEM);
    }
    CHECK(ch, pipe_counts(ch, &st) == 0 && st.grow_refused >= 1 && st.grows == 0);
    some_messages(ch, true, 4, 4096); /* it goes on with what it has */
    CHECK(NULL, network_barrier() == 0);
    limit_address_space(RLIM_INFINITY);
    CHECK(NULL, network_barrier() == 0); /* there is address space, at both */
    do
        d = rmalloc(ch, SEGMENT);
    while (d == ADDR_NULL && errno == ENOMEM && !deadline_passed(patience));
    CHECK(ch, d != ADDR_NULL);
    pattern_fill(rmem(ch, d), SEGMENT, 7);
    CHECK(ch, rwrite(ch, d) == 0);
    CHECK(ch, pipe_counts(ch, &st) == 0 && st.grows == 1 && st.heap_bytes == 4096 + SEGMENT);
}

static void reader_grows(rch_t ch)
{
    struct pipe_counts st = {0};
    size_t size;
    raddr_t d;

    some_messages(ch, false, 4, 4096);
    CHECK(NULL, network_barrier() == 0);
    limit_address_space(RLIM_INFINITY);
    CHECK(NULL, network_barrier() == 0);
    CHECK(ch, rread(ch, &d, &size) == 0);
    CHECK(ch, size == SEGMENT && pattern_same(rmem(ch, d), size, 7));
    CHECK(ch, pipe_counts(ch, &st) == 0 && st.grows == 1 && st.heap_bytes == 4096 + SEGMENT);
    CHECK(ch, rfree(ch, d) == 0);
}

/* Rank 0 reads, rank 1 writes; the one whose memory it is not has no address space for more. */
static int cannot_map(int rank, struct board *board, const void *arguments)
{
    const rpipe_op_t op = *(const rpipe_op_t *)arguments;
    rpipe_config_t cfg = channel_config(op, 1 - rank, rank == 1, 4096);
    bool limited = rank == (op == RPIPE_PUT ? 1 : 0);
    rch_t ch;

    (void)board;
    cfg.max_heap_bytes = 4096 + SEGMENT;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    CHECK(NULL, rpipe(&ch, &cfg) == 0 && rwait(ch) == 0);
    CHECK(NULL, network_barrier() == 0);
    if (limited)
        limit_address_space(address_space() + SPARE);
    CHECK(NULL, network_barrier() == 0);
    if (rank == 1)
        writer_grows(ch);
    else
        reader_grows(ch);
    CHECK(NULL, rclose(ch) == 0 && rexit() == 0);
    return 0;
}

static void test_cannot_map(void)
{
    struct job job;
    rpipe_op_t op;
    int rank;

    for (op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        job_prepare(&job, 2);
        job_start(&job, cannot_map, &op);
        for (rank = 0; rank < 2; rank++)
            EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
                   "op %d, rank %d: status 0x%x", (int)op, rank, job.status[rank]);
        job_finish(&job);
    }
}

int main(int argc, char **argv)
{
    uint64_t channels = argc > 1 ? strtoull(argv[1], NULL, 0) : 10000;
    struct job job;
    int rank;

    setenv("RPIPE_LOG", "error", 1);
    if (!SANITIZED)
        test_cannot_map();
    job_prepare(&job, 2);
    if (freopen("/dev/null", "w", stderr) ==
        NULL) /* ends that do not agree are logged there, a thousand times */
        return 99;
    job_start(&job, opens_and_closes, &channels);
    for (rank = 0; rank < 2; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0), "rank %d: status 0x%x", rank,
               job.status[rank]);
    job_finish(&job);
    return check_report(argv[0]);
}
