/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * given_back.c: what was opened and closed leaves nothing: memory, descriptors, mappings and tables stay as they were, and the
 * last pipe costs what the first one cost. Nor do ranks that have sent handshakes and died: their messages are delivered here as
 * if they had come from thousands of other ranks. What one of them costs does not depend on the others.
 *
 *     given_back [PIPES]
 *     PAIR_NET=1 given_back [PIPES]     over the simulated network
 */
#include "test/lib/check.h"
#include "test/lib/resources.h"

#include "control/control.h"
#include "rpipe/connect/ends.h"
#include "rpipe/connect/handshake.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#define HEAP 4096
#define TENTHS 10
#define BUSY_MS 20000 /* for more tenths, until one is as cheap as the early ones */
#define MAPPINGS 200
#define BATCHES 20 /* of a tenth: some are shorter than what the scheduler gives other programs */
#define COSTS_MOST 1.5       /* the last tenths beside the first ones */
#define BYTES_MOST 65536     /* what malloc itself may keep */
#define RANK_COSTS_MOST 30.0 /* a scan of all entries makes it 2,000; what is not in the cache, 4 */
#define THREAD_MAPPINGS                                                                            \
    48 /* stacks, guard pages and arenas of the threads that close descriptors */
#define PEAK_MAPPINGS                                                                              \
    64 /* over a network slabs stay mapped for the most that was in flight at a time: not for the number of pipes */
#define PEAK_BYTES                                                                                 \
    131072 /* over a network: ends that close later than they were closed, as many as were in flight at a time */
#define SETTLED_MS 20000 /* for what is in flight */

static const char *const what_of[] = {"bytes", "descriptors", "mappings", "rendezvous entries"};

struct usage {
    long count[4];
};

static struct usage usage_now(void)
{
    struct usage s = {{(long)resources_heap_bytes(), resources_fds(), resources_mappings(), 0}};

    rendezvous_lock();
    for (struct rendezvous *m = NULL; (m = rendezvous_next(m)) != NULL;)
        s.count[3]++;
    rendezvous_unlock();
    return s;
}

static bool usage_is_at_most(const struct usage *after, const struct usage *before)
{
    return after->count[0] <= before->count[0] + BYTES_MOST &&
           after->count[1] <= before->count[1] && after->count[2] <= before->count[2] &&
           after->count[3] <= before->count[3];
}

/* Over a network what is in flight keeps memory for a moment. */
static void expect_usage(const char *what, struct usage before)
{
    const int64_t deadline = deadline_in_ms(SETTLED_MS);
    struct usage after;

    before.count[2] += THREAD_MAPPINGS + RESOURCES_MAPPINGS_SLACK;
    after = usage_now();
    while (!usage_is_at_most(&after, &before) && !deadline_passed(deadline)) {
        usleep(10000);
        after = usage_now();
    }
    printf("%s: %ld bytes, before %ld\n", what, after.count[0], before.count[0]);
    for (int i = 0; i < 4; i++)
        EXPECT(after.count[i] <= before.count[i] + (i == 0 ? BYTES_MOST : 0),
               "%s: %ld %s, before %ld", what, after.count[i], what_of[i], before.count[i]);
}

static rpipe_config_t config_of(uint64_t context, bool writer, rpipe_op_t op)
{
    return (rpipe_config_t){.role = writer ? RPIPE_WRITER : RPIPE_READER,
                            .op = op,
                            .context = context,
                            .heap_bytes = HEAP,
                            .slots = 8};
}

/* Opened by either end first; joined and used, joined, or not; closed by either end first. */
static void one_pipe(uint64_t context)
{
    const bool writer_first = (context & 1) != 0, writer_closes_first = (context & 2) != 0;
    const rpipe_op_t op = (context & 4) != 0 ? RPIPE_PUT : RPIPE_GET;
    rpipe_config_t first = config_of(context, writer_first, op),
                   second = config_of(context, !writer_first, op);
    rch_t a, b;

    CHECK(NULL, rpipe(&a, &first) == 0);
    CHECK(NULL, rpipe(&b, &second) == 0);
    if ((context & 24) != 0) {
        CHECK(a, rwait(a) == 0);
        CHECK(b, rwait(b) == 0);
    }
    if ((context & 24) == 24) {
        uint64_t sent = context, received = 0;
        size_t bytes = 0;

        CHECK(a, rsend(writer_first ? a : b, &sent, sizeof(sent), 0) == 0);
        CHECK(b, rrecv(writer_first ? b : a, &received, sizeof(received), &bytes, 0) == 0);
        CHECK(NULL, bytes == sizeof(sent) && received == sent);
    }
    CHECK(a, rclose(writer_closes_first == writer_first ? a : b) == 0);
    CHECK(b, rclose(writer_closes_first == writer_first ? b : a) == 0);
}

/* All ends have been released, which the messages between them bring about. */
static bool any_end_is_left(void)
{
    struct rendezvous *m = NULL;
    bool any = false;

    rendezvous_lock();
    while (!any && (m = rendezvous_next(m)) != NULL)
        any = !list_empty(&m->ends);
    rendezvous_unlock();
    return any;
}

static void settle(void)
{
    int64_t deadline = deadline_in_ms(SETTLED_MS);

    CHECK(NULL, control_flush(0, deadline) == 0);
    while (any_end_is_left() && !deadline_passed(deadline))
        usleep(1000);
}

static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * Seconds that MAPPINGS shared mappings take, made and given back by the kernel like those of a pipe. A machine that becomes slower while
 * the test runs is slower at these too.
 */
static double seconds_of_mappings(void)
{
    const double began = processor_seconds();

    for (int i = 0; i < MAPPINGS; i++) {
        int fd = memfd_create("given_back", MFD_CLOEXEC);
        char *at;

        CHECK(NULL, fd >= 0 && ftruncate(fd, 2 * HEAP) == 0);
        at = mmap(NULL, 2 * HEAP, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(NULL, at != MAP_FAILED);
        at[0] = at[HEAP] = 1;
        CHECK(NULL, munmap(at, 2 * HEAP) == 0 && close(fd) == 0);
    }
    return processor_seconds() - began;
}

static double lower(double a, double b) { return a < b ? a : b; }

/*
 * Opens and closes so many pipes. What other programs on the machine add is in some of the batches only: the cost of a pipe is that
 * of the cheapest batch, in mappings of the kernel at that time.
 */
static double cost_of_tenth(long tenth, long each)
{
    const long batch = each > BATCHES ? each / BATCHES : 1;
    double pipe = INFINITY, mappings = INFINITY, began;

    for (long first = 0; first < each; first += batch) {
        mappings = lower(mappings, seconds_of_mappings());
        began = processor_seconds();
        for (long i = first; i < first + batch; i++)
            one_pipe(1000 + (uint64_t)(tenth * (each + batch) + i));
        pipe = lower(pipe, (processor_seconds() - began) / (double)batch);
    }
    settle();
    return pipe / mappings * MAPPINGS;
}

/*
 * The last pipes cost what the first ones cost. Costs that grow with the number of pipes only become more when the test goes on; those
 * of a moment in which the machine was busy do not, so that it goes on for a while before it fails.
 */
static void opens_and_closes(long pipes)
{
    const bool network = getenv("PAIR_NET") != NULL; /* a call polls as long as it takes */
    const long each = pipes / TENTHS;
    double early = INFINITY, late = INFINITY, cost;
    struct usage before = {{0}};
    int64_t patience = 0;
    long tenth;

    for (tenth = 0;
         tenth < TENTHS || (!network && late > early * COSTS_MOST && !deadline_passed(patience));
         tenth++) {
        cost = cost_of_tenth(tenth, each);
        early = tenth >= 1 && tenth < 5 ? lower(early, cost) : early;
        late = tenth >= 6 ? lower(late, cost) : late;
        patience = tenth < TENTHS ? deadline_in_ms(BUSY_MS) : patience;
        if (tenth > 0)
            continue;
        before = usage_now();
        before.count[0] += network ? PEAK_BYTES : 0;
        before.count[2] += network ? PEAK_MAPPINGS : 0;
    }
    expect_usage("pipes", before);
    EXPECT(network || late <= early * COSTS_MOST,
           "a pipe costs %.2f mappings of the kernel in the end, and %.2f in the beginning: %.2f "
           "times as much",
           late, early, late / early);
    printf("%ld pipes: %.2f mappings of the kernel each, later %.2f\n", tenth * each, early, late);
}

/* ---- ranks that come and die ---- */

#define RANKS 5000
#define OTHERS 20000 /* entries of another rank */
#define OTHER_RANK 1000000

/* A rank opens the other end of a pipe with this process; a reader in event mode. */
static void deliver_handshake(int rank, uint64_t context, uint32_t number, bool writer)
{
    struct handshake h = {.magic = 0x65706972u, .alloc_size = HEAP};
    struct end_message_head head = {.bytes = sizeof(h),
                                    .version = PROTOCOL_NEWEST,
                                    .role = writer ? SIDE_WRITER : SIDE_READER,
                                    .context = context,
                                    .end_number = number};
    int pair[2];

    h.head = head;
    message_dispatch(rank, MESSAGE_HANDSHAKE, &h, sizeof(h), NULL, 0);
    if (writer)
        return;
    CHECK(NULL, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    head.bytes = sizeof(head);
    message_dispatch(rank, MESSAGE_EVENT_ON, &head, sizeof(head), &pair[0], 1);
    close(pair[1]);
}

/* Seconds per rank. */
static double ranks_die(void)
{
    double began = processor_seconds();

    for (int rank = 1; rank <= RANKS; rank++) {
        deliver_handshake(rank, 7, 1, true);
        deliver_handshake(rank, 8, 2, true);
        if (rank % 16 == 0)
            deliver_handshake(rank, 8, 3, false);
        ends_peer_gone(rank, rank % 2 == 0);
    }
    return (processor_seconds() - began) / RANKS;
}

static void ranks_come_and_die(void)
{
    struct usage before;
    double alone, beside;

    (void)ranks_die();
    before = usage_now();
    alone = ranks_die();
    expect_usage("ranks that died", before);
    for (uint32_t i = 1; i <= OTHERS; i++)
        deliver_handshake(OTHER_RANK, 9000 + i, i, true);
    beside = ranks_die();
    EXPECT(beside <= alone * RANK_COSTS_MOST,
           "the death of a rank costs %.1f us, and %.1f us while another one has %d entries",
           alone * 1e6, beside * 1e6, OTHERS);
    ends_peer_gone(OTHER_RANK, true);
    expect_usage("all ranks", before);
    printf("the death of a rank: %.2f us, with %d entries of another %.2f us\n", alone * 1e6,
           OTHERS, beside * 1e6);
}

int main(int argc, char **argv)
{
    const char *net = getenv("PAIR_NET");
    long pipes = argc > 1 ? atol(argv[1]) : net != NULL ? 3000 : 20000;

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    if (net != NULL) {
        setenv("RPIPE_BTL", "sim", 1);
        setenv("RPIPE_SIM_SEED", net, 1);
        setenv("RPIPE_SIM_MODE", "calm", 1);
    }
    CHECK(NULL, rinit(NULL, NULL) == 0);
    opens_and_closes(pipes);
    ranks_come_and_die();
    CHECK(NULL, rexit() == 0);
    return check_report(argv[0]);
}
