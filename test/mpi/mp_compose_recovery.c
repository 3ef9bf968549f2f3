/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes made of pipes, one of whose partners dies, under a launcher that goes on (mpirun --enable-recovery, see test/run-mpi).
 *
 * Rank 0 deals to all others in turn, reads from all others in turn, and has a duplex pipe with rank 1, which kills itself
 * with SIGKILL in the middle of both. Of everything that it has written nothing is lost; its death is reported once by each object; the
 * others neither miss a message nor get one twice.
 */
#include "test/lib/mp_check.h"
#include "test/lib/group.h"
#include <rpipe.h>

#include <signal.h>

enum { SLOTS = 64, HEAP = 1 << 16, BEFORE = 50, AFTER = 40, ROUNDS = 200, LIMIT_MS = 60000 };
enum {
    SCATTER = 1,
    REDUX = 2,
    DUPLEX = 4
}; /* GET, and PUT where what the dead have written counts, also over networks */

static size_t message_bytes(uint64_t i) { return i % 3 == 0 ? 16 : 100 + i * 61 % 400; }

static rpipe_config_t config(uint32_t ctx)
{
    rpipe_config_t cfg = {0};

    cfg.op = ctx % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
    cfg.heap_bytes = HEAP;
    cfg.context = ctx;
    cfg.slots = SLOTS;
    cfg.timeout_ms = LIMIT_MS;
    return cfg;
}

static rch_t partner(uint32_t ctx, bool writer)
{
    rpipe_config_t cfg = config(ctx);
    rch_t ch;

    cfg.peer = 0;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

static void write_some(rch_t ch, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        mp_send(ch, message_bytes(i), mp_key(mp_rank, 0, REDUX, i));
}

/* the next one of what rank 0 deals to this rank */
static int take_dealt(rch_t ch, uint64_t number)
{
    size_t size;
    raddr_t d;
    int rc = rread(ch, &d, &size);

    if (rc != 0)
        return rc;
    CHECK(ch, rtag(ch, d) == number);
    CHECK(ch, size == message_bytes(number) &&
                  pattern_same(rmem(ch, d), size, mp_key(0, mp_rank, SCATTER, number)));
    return rfree(ch, d);
}

static void victim(rch_t in, rch_t out, uint64_t written, uint64_t read)
{
    rpipe_config_t cfg = config(DUPLEX);
    rneighbor_t dx;

    cfg.peer = 0;
    CHECK_OK(NULL, duplex_open(&dx, &cfg));
    mp_read_free(dx.in, 300, 1);
    mp_send(dx.out, 300, 2);
    write_some(out, 0, written);
    for (uint64_t i = 0; i < read; i++)
        CHECK_OK(in, take_dealt(in, i));
    CHECK_OK(out, rflush(out));
    CHECK_OK(dx.out, rflush(dx.out));
    raise(SIGKILL);
}

/* in turn, until rank 1 has died, and some rounds more; whose turn it is, is always known */
static void deal(rgroup_t sc, int n, uint64_t *dealt)
{
    int turn = 0, reported = 0;

    for (uint64_t left = ROUNDS; reported == 0 || left > 0; left -= reported != 0) {
        int place = -9, rc;
        uint64_t number = dealt[turn];
        raddr_t d;
        rch_t ch;

        if (reported != 0 && turn == 0)
            turn = n > 1 ? 1 : 0;
        number = dealt[turn];
        rc = rgroup_alloc(sc, RGROUP_NEXT, message_bytes(number), &place, &d, 0);
        if (rc == 0) {
            CHECK(NULL, place == turn);
            ch = rgroup_pipe(sc, place);
            pattern_fill(rmem(ch, d), message_bytes(number), mp_key(0, place + 1, SCATTER, number));
            CHECK_OK(ch, rset_tag(ch, d, number));
            rc = rwrite(rgroup_pipe(sc, place), d);
            if (rc != 0)
                CHECK_OK(ch, rfree(ch, d)); /* it has stayed ours */
        }
        if (rc != 0) {
            CHECK_RC(-EPIPE, NULL, rc);
            CHECK(NULL, rgroup_lost(sc) == 0 && reported == 0);
            CHECK_ERROR(NULL, "rank 1");
            reported = 1;
        } else {
            dealt[turn]++;
        }
        turn = (turn + 1) % n;
    }
    CHECK(NULL, rgroup_count(sc) == n - 1);
    for (int i = 1; i < n; i++) { /* how many it has been, in a message of another size */
        rch_t ch = rgroup_pipe(sc, i);
        raddr_t d = rmalloc(ch, 0);

        CHECK(ch, d != ADDR_NULL);
        CHECK_OK(ch, rset_tag(ch, d, dealt[i]));
        CHECK_OK(NULL, rwrite(rgroup_pipe(sc, i), d));
    }
    CHECK_OK(NULL, rgroup_close(sc));
}

static void collect(rgroup_t rx, int n, uint64_t written)
{
    uint64_t *count = calloc((size_t)n, sizeof(*count));
    int place, rc, reported = 0;
    size_t size;
    raddr_t d;

    CHECK(NULL, count != NULL);
    for (;;) {
        rc = rgroup_read(rx, &place, &d, &size, 0);
        if (rc == R_EOF)
            break;
        if (rc != 0) {
            CHECK_RC(-ECONNRESET, NULL, rc);
            CHECK(NULL, rgroup_lost(rx) == 0 && reported++ == 0);
            CHECK_ERROR(NULL, "rank 1");
            CHECK(NULL, count[0] == written); /* all that was complete has come before */
            continue;
        }
        CHECK(NULL, size == message_bytes(count[place]));
        CHECK(NULL, pattern_same(rmem(rgroup_pipe(rx, place), d), size,
                                 mp_key(place + 1, 0, REDUX, count[place])));
        CHECK_OK(NULL, rfree(rgroup_pipe(rx, place), d));
        count[place]++;
    }
    CHECK(NULL, reported == 1 && count[0] == written);
    for (int i = 1; i < n; i++)
        CHECK(NULL, count[i] == BEFORE + AFTER);
    CHECK_OK(NULL, rgroup_close(rx));
    free(count);
}

static void center(uint64_t written)
{
    int n = mp_ranks - 1, *ranks = calloc((size_t)n, sizeof(*ranks));
    uint64_t *dealt = calloc((size_t)n, sizeof(*dealt));
    rpipe_config_t sc_cfg = config(SCATTER), rx_cfg = config(REDUX), dx_cfg = config(DUPLEX);
    rgroup_t sc;
    rgroup_t rx;
    rneighbor_t dx;
    raddr_t d;
    int rc;

    CHECK(NULL, ranks != NULL && dealt != NULL);
    for (int i = 0; i < n; i++)
        ranks[i] = i + 1;
    dx_cfg.peer = 1;
    CHECK_OK(NULL, scatter_open(&sc, &sc_cfg, ranks, n));
    CHECK_OK(NULL, redux_open(&rx, &rx_cfg, ranks, n));
    CHECK_OK(NULL, duplex_open(&dx, &dx_cfg));
    mp_send(dx.out, 300, 1);
    deal(sc, n, dealt);
    collect(rx, n, written);
    mp_read_free(dx.in, 300, 2);
    CHECK_RC(-ECONNRESET, dx.in, rread(dx.in, &d, NULL));
    do {
        d = rmalloc(dx.out, 100);
        rc = d != ADDR_NULL ? rwrite(dx.out, d) : -errno;
    } while (rc == 0);
    CHECK_RC(-EPIPE, dx.out, rc);
    CHECK_OK(NULL, rneighbors_close(&dx, 1));
    free(ranks);
    free(dealt);
}

static void survivor(rch_t in, rch_t out)
{
    uint64_t number = 0;
    size_t size;
    raddr_t d;

    write_some(out, 0, BEFORE);
    for (;; number++) {
        CHECK_OK(in, rread(in, &d, &size));
        if (size == 0)
            break;
        CHECK(in, rtag(in, d) == number && size == message_bytes(number));
        CHECK(in, pattern_same(rmem(in, d), size, mp_key(0, mp_rank, SCATTER, number)));
        CHECK_OK(in, rfree(in, d));
    }
    CHECK(in, rtag(in, d) == number);
    CHECK_OK(in, rfree(in, d));
    CHECK_RC(R_EOF, in, rread(in, &d, &size));
    write_some(out, BEFORE, BEFORE + AFTER);
    CHECK_OK(in, rclose(in));
    CHECK_OK(out, rclose(out));
}

int main(int argc, char **argv)
{
    uint64_t written, read;

    mp_begin(argc, argv, 3);
    written = 5 + random_mix(mp_seed) % 50;
    read = random_mix(mp_seed + 1) % 40;
    if (mp_rank == 0) {
        center(written);
    } else {
        rch_t in = partner(SCATTER, false), out = partner(REDUX, true);

        if (mp_rank == 1)
            victim(in, out, written, read);
        survivor(in, out);
    }
    return mp_end();
}
