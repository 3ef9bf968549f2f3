/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_board.c: a member of a board that stores, sends and passes what it likes.
 *
 * Rank 2 is byzantine. First it is a member of a board of all three: its memory changes all the time, its `sleepers` stay set, it wakes
 * the threads of the others, and tries to write their memory. Then it passes memory that must not be mapped, and sends messages that
 * are wrong, to rank 0, whose calls have to end as expected. Meanwhile ranks 0 and 1 go on with a board of theirs.
 */
#include "test/lib/job.h"

#include "control/control.h"
#include "rpipe/board/board.h"
#include "rpipe/board/board_message.h"
#include "rpipe/end/message.h"
#include "sync/futex.h"
#include "test/lib/random.h"
#include "util/hash.h"
#include "util/map.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#define BYTES 10000
#define ROUNDS 300
#define NOISE_CONTEXT 900
#define GOOD_CONTEXT 901
#define RANDOM_CONTEXT 902
#define RANDOM_MESSAGES 3000
#define RANKS 3
#define BYZANTINE 2
#define SHORT_MS 60

static rboard_t board_of(const int *ranks, int n, uint64_t context, int timeout_ms)
{
    rboard_config_t cfg = {.context = context, .bytes = BYTES, .timeout_ms = timeout_ms};
    rboard_t b;

    CHECK(NULL, rboard_open(&b, &cfg, ranks, n) == 0);
    return b;
}

/* Ranks 0 and 1: the words of each other, sleeping. Ends when it has been through, or the other one stores UINT32_MAX. */
static uint32_t pass_words(rboard_t b, int rank, uint32_t rounds, const _Atomic bool *stop)
{
    _Atomic uint32_t *own = rboard_mem(b);
    rboard_word_t w = {rboard_mem_of(b, 1 - rank), 0};
    const _Atomic uint32_t *other = w.word;
    uint32_t i;

    for (i = 1; i <= rounds; i++) {
        const bool last = stop != NULL && atomic_load(stop);

        atomic_store_explicit(own, last ? UINT32_MAX : i, memory_order_release);
        rboard_wake(b, own);
        while (!last && (w.seen = atomic_load_explicit(other, memory_order_acquire)) < i)
            CHECK(NULL, rboard_sleep(b, &w, 1, PATIENCE_MS) == 0);
        if (last || w.seen == UINT32_MAX)
            break;
    }
    CHECK(NULL, rboard_lost(b, NULL) == 0);
    return i;
}

/* ---- as a member ---- */

static _Atomic bool noise_ends;

static void *make_noise(void *argument)
{
    rboard_t b = argument;
    unsigned char *own = rboard_mem(b);
    uint64_t random = 1;

    while (!atomic_load(&noise_ends)) {
        atomic_store(b->own_sleepers, (uint32_t)random_draw(&random) | 1);
        own[random_draw(&random) % BYTES] = (unsigned char)random_draw(&random);
        for (int i = 0; i < BYZANTINE; i++)
            futex_wake(rboard_mem_of(b, i));
    }
    return NULL;
}

static void member_byzantine(struct board *board)
{
    rboard_t b = board_of(NULL, RANKS, NOISE_CONTEXT, 20000);
    pthread_t thread;
    void *theirs;

    CHECK(NULL, rboard_wait(b) == 0);
    theirs = (void *)(uintptr_t)rboard_mem_of(b, 0);
    EXPECT(mprotect(theirs, 4096, PROT_READ | PROT_WRITE) != 0, "their memory becomes writable");
    EXPECT(madvise(theirs, 4096, MADV_REMOVE) != 0, "their memory gets a hole");
    CHECK(NULL, pthread_create(&thread, NULL, make_noise, b) == 0);
    for (int i = 0; i < BYZANTINE; i++)
        while (atomic_load(&board->rank[i].phase) < 2)
            backoff_us(1000);
    atomic_store(&noise_ends, true);
    pthread_join(thread, NULL);
    CHECK(NULL, rboard_close(b) == 0);
}

static void member_good(struct board *board, int rank)
{
    rboard_t b = board_of(NULL, RANKS, NOISE_CONTEXT, 20000);
    const unsigned char *own = rboard_mem(b);

    CHECK(NULL, rboard_wait(b) == 0);
    CHECK(NULL, pass_words(b, rank, ROUNDS, NULL) == ROUNDS + 1);
    for (size_t i = 4; i < BYTES; i++)
        CHECK(NULL, own[i] == 0);
    rank_reached(board, rank, 2);
    CHECK(NULL, rboard_close(b) == 0);
}

/* ---- memory and messages ---- */

enum memory { NO_MEMORY, PIPE_END, UNSEALED, HOLES_ALLOWED, SHORT, SPARSE, GOOD };
enum change { NOTHING, OTHER_BYTES, OTHER_NUMBER, OTHER_MEMBERS, KIND_0, CUT };

static const struct board_violation {
    const char *name;
    enum board_message_kind kind;
    enum memory memory;
    enum change change;
    int32_t code;
    uint32_t lost;
    int expected; /* of rboard_wait */
} violations[] = {
    {"no descriptor", BOARD_OPEN, NO_MEMORY, NOTHING, 0, 0, -EMFILE},
    {"a pipe", BOARD_OPEN, PIPE_END, NOTHING, 0, 0, -EPROTO},
    {"memory without seals", BOARD_OPEN, UNSEALED, NOTHING, 0, 0, -EPROTO},
    {"memory that may get holes", BOARD_OPEN, HOLES_ALLOWED, NOTHING, 0, 0, -EPROTO},
    {"memory that is too short", BOARD_OPEN, SHORT, NOTHING, 0, 0, -EPROTO},
    {"memory that is not allocated", BOARD_OPEN, SPARSE, NOTHING, 0, 0, -EPROTO},
    {"another size", BOARD_OPEN, GOOD, OTHER_BYTES, 0, 0, -EPROTO},
    {"another number", BOARD_OPEN, GOOD, OTHER_NUMBER, 0, 0, -ETIMEDOUT},
    {"other members", BOARD_OPEN, GOOD, OTHER_MEMBERS, 0, 0, -ETIMEDOUT},
    {"a kind that is none", BOARD_OPEN, GOOD, KIND_0, 0, 0, -ETIMEDOUT},
    {"half of a message", BOARD_OPEN, GOOD, CUT, 0, 0, -ETIMEDOUT},
    {"a loss that is none", BOARD_LOST, NO_MEMORY, NOTHING, 0, 1, -ETIMEDOUT},
    {"a positive loss", BOARD_LOST, NO_MEMORY, NOTHING, 5, 1, -ETIMEDOUT},
    {"a loss beyond errno", BOARD_LOST, NO_MEMORY, NOTHING, -4096, 1, -ETIMEDOUT},
    {"the loss of no member", BOARD_LOST, NO_MEMORY, NOTHING, -EIO, 2, -ETIMEDOUT},
    {"the loss of member 2^32 - 1", BOARD_LOST, NO_MEMORY, NOTHING, -EIO, UINT32_MAX, -ETIMEDOUT},
    {"the loss of this member", BOARD_LOST, NO_MEMORY, NOTHING, -EIO, 0, -EIO},
    {"a word", BOARD_WORD, NO_MEMORY, NOTHING, 0, 0, -ETIMEDOUT},
    {"a kind beyond the last one", BOARD_WORD + 1, NO_MEMORY, NOTHING, 0, 0, -ETIMEDOUT},
    {"closed", BOARD_CLOSED, NO_MEMORY, NOTHING, 0, 0, -EPIPE},
    {"what is right", BOARD_OPEN, GOOD, NOTHING, 0, 0, 0},
};
#define VIOLATIONS ((int)(sizeof(violations) / sizeof(violations[0])))

static const int two[2] = {0, BYZANTINE};

static int memory_fd(enum memory kind)
{
    const size_t whole = map_round_up(map_round_up(BYTES, 64) + 64, 4096);
    const off_t bytes = (off_t)(kind == SHORT ? whole / 2 : whole);
    int pair[2], fd, seals = F_SEAL_SHRINK | F_SEAL_GROW;

    if (kind == NO_MEMORY)
        return -1;
    if (kind == PIPE_END) {
        CHECK(NULL, pipe(pair) == 0);
        close(pair[1]);
        return pair[0];
    }
    fd = memfd_create("byzantine", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    CHECK(NULL, fd >= 0);
    CHECK(NULL, (kind == SPARSE ? ftruncate(fd, bytes) : fallocate(fd, 0, 0, bytes)) == 0);
    if (kind != HOLES_ALLOWED)
        seals |= F_SEAL_FUTURE_WRITE;
    if (kind != UNSEALED)
        CHECK(NULL, fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static struct board_message message_for(uint64_t context, enum board_message_kind kind)
{
    return (struct board_message){.bytes = sizeof(struct board_message),
                                  .kind = (uint16_t)kind,
                                  .context = context,
                                  .ranks = hash_bytes(HASH_BASIS, two, sizeof(two)),
                                  .number = 1,
                                  .members = 2,
                                  .board_bytes = BYTES};
}

static void post(const struct board_message *m, size_t bytes, int fd)
{
    int rc = control_post(0, MESSAGE_BOARD, m, bytes, &fd, fd >= 0);

    CHECK(NULL, rc == 0);
    if (fd >= 0)
        close(fd);
}

static void violate(int which)
{
    const struct board_violation *v = &violations[which];
    struct board_message m = message_for((uint64_t)which, v->kind);

    m.code = v->code;
    m.lost = v->lost;
    m.board_bytes += v->change == OTHER_BYTES;
    m.number += v->change == OTHER_NUMBER;
    m.members += v->change == OTHER_MEMBERS;
    m.kind = v->change == KIND_0 ? 0 : m.kind;
    post(&m, v->change == CUT ? sizeof(m) / 2 : sizeof(m), memory_fd(v->memory));
}

static void violate_at_random(void)
{
    uint64_t random = 7;

    for (int i = 0; i < RANDOM_MESSAGES; i++) {
        struct board_message m =
            message_for(RANDOM_CONTEXT, (enum board_message_kind)(random_draw(&random) % 6));
        uint64_t word = random_draw(&random);
        size_t at = random_draw(&random) % (sizeof(m) - 8);

        m.flags = (uint16_t)random_draw(&random);
        if (random_draw(&random) % 2 == 0)
            memcpy((char *)&m + at, &word, 1 + word % 8);
        post(&m, random_draw(&random) % 8 == 0 ? random_draw(&random) % sizeof(m) : sizeof(m),
             memory_fd((enum memory)(random_draw(&random) % 7)));
    }
}

/* What rank 0 passes to this process: nothing can be done to it but reading. */
static _Atomic int passed_fds;

static void take_passed(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                        int nfds)
{
    const int all = F_SEAL_WRITE;

    (void)from, (void)type, (void)body, (void)bytes;
    if (nfds != 1)
        return;
    EXPECT(ftruncate(fds[0], 0) != 0, "it becomes shorter");
    EXPECT(ftruncate(fds[0], 1 << 20) != 0, "it becomes longer");
    EXPECT(fallocate(fds[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0, "a hole");
    EXPECT(fcntl(fds[0], F_ADD_SEALS, all) != 0, "one more seal");
    EXPECT(write(fds[0], "x", 1) < 0, "written");
    EXPECT(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fds[0], 0) == MAP_FAILED, "mapped writable");
    atomic_fetch_add(&passed_fds, 1);
}

static void send_byzantine(struct board *board)
{
    static const struct message_handler handler = {.of_none = take_passed};

    message_register(MESSAGE_BOARD, &handler); /* instead of the library's */
    rank_reached(board, BYZANTINE, 3);
    for (int i = 0; i < VIOLATIONS; i++) {
        while (atomic_load(&board->rank[0].phase) < 10 + i)
            backoff_us(500);
        violate(i);
    }
    while (atomic_load(&board->rank[0].phase) < 10 + VIOLATIONS)
        backoff_us(500);
    violate_at_random();
    rank_reached(board, BYZANTINE, 4);
    EXPECT(atomic_load(&passed_fds) > VIOLATIONS, "%d descriptors came", passed_fds);
}

static void receive(struct board *board)
{
    rboard_t b;
    int rc;

    while (atomic_load(&board->rank[BYZANTINE].phase) < 3)
        backoff_us(1000);
    for (int i = 0; i < VIOLATIONS; i++) {
        const int expected = violations[i].expected;

        b = board_of(two, 2, (uint64_t)i, expected == -ETIMEDOUT ? SHORT_MS : PATIENCE_MS);
        rank_reached(board, 0, 10 + i);
        rc = rboard_wait(b);
        EXPECT(rc == expected, "%s: rboard_wait gave %d, not %d: %s", violations[i].name, rc,
               expected, rerror(NULL));
        EXPECT((rboard_mem_of(b, 1) != NULL) == (expected == 0), "%s: memory", violations[i].name);
        CHECK(NULL, rboard_close(b) == 0);
    }
    b = board_of(two, 2, RANDOM_CONTEXT, SHORT_MS);
    rank_reached(board, 0, 10 + VIOLATIONS);
    while (atomic_load(&board->rank[BYZANTINE].phase) < 4) {
        (void)rboard_wait(b);
        backoff_us(1000);
    }
    rboard_wake(b, rboard_mem(b));
    CHECK(NULL, rboard_close(b) == 0);
}

/* ---- ranks 0 and 1, meanwhile ---- */

static rboard_t good;
static _Atomic bool good_ends;

static void *go_on(void *rank)
{
    return (void *)(uintptr_t)pass_words(good, *(const int *)rank, UINT32_MAX - 1, &good_ends);
}

static int good_rank(int rank, struct board *board)
{
    pthread_t thread;
    void *rounds;

    good = board_of(NULL, 2, GOOD_CONTEXT, 20000);
    CHECK(NULL, rboard_wait(good) == 0);
    member_good(board, rank);
    CHECK(NULL, pthread_create(&thread, NULL, go_on, &rank) == 0);
    if (rank == 0) {
        receive(board);
        atomic_store(&good_ends, true);
    }
    pthread_join(thread, &rounds);
    EXPECT((uintptr_t)rounds > VIOLATIONS, "%llu rounds", (unsigned long long)(uintptr_t)rounds);
    CHECK(NULL, rboard_close(good) == 0);
    return 0;
}

static int any_rank(int rank, struct board *board, const void *unused)
{
    (void)unused;
    setenv("RPIPE_LOG", "error", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    if (rank == BYZANTINE) {
        member_byzantine(board);
        send_byzantine(board);
    } else {
        good_rank(rank, board);
    }
    CHECK(NULL, rexit() == 0);
    return atomic_load(&check_failures) == 0 ? 0 : 1;
}

int main(void)
{
    struct job job;

    job_prepare(&job, RANKS);
    job_start(&job, any_rank, NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        job_ended(&job, rank);
        EXPECT(job_status_is(&job, rank, 0), "rank %d ended with status 0x%x", rank,
               job.status[rank]);
    }
    job_finish(&job);
    printf("%d violations\n", VIOLATIONS + RANDOM_MESSAGES);
    return check_failures == 0 ? 0 : 1;
}
