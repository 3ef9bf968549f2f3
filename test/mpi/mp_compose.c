/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes made of pipes between processes: a ring of duplex pipes that exchange halos; rank 0 deals 10,000 messages to the others by
 * place, in turn, and to any that has credits; all others write to rank 0, which reads in turn and reduces. Every message is checked by
 * its reader, and sums of what was dealt are compared with sums of what has come.
 */
#include "test/lib/mp_check.h"
#include "test/lib/group.h"
#include <rpipe.h>

enum {
    HALOS = 300,
    DEALT = 10000,
    WRITTEN = 3000,
    ROUNDS = 300,
    WORDS = 40,
    HEAP = 1 << 16,
    LIMIT_MS = 60000
};

static rpipe_config_t config(rpipe_op_t op, uint32_t ctx)
{
    rpipe_config_t cfg = {0};

    cfg.op = op;
    cfg.heap_bytes = HEAP;
    cfg.context = ctx;
    cfg.slots = 32;
    cfg.timeout_ms = LIMIT_MS;
    return cfg;
}

/* the plain end of a partner of rank 0 */
static rch_t partner(rpipe_config_t cfg, bool writer)
{
    rch_t ch;

    cfg.peer = 0;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* each but rank 0: member i is rank i + 1 */
static int *others(void)
{
    int *rank = calloc((size_t)mp_ranks, sizeof(*rank));

    CHECK(NULL, rank != NULL);
    for (int i = 0; i + 1 < mp_ranks; i++)
        rank[i] = i + 1;
    return rank;
}

/* ---- duplex ---- */

static size_t halo_size(uint64_t step) { return step % 4 == 0 ? 24 : 100 + step * 37 % 4000; }

/* two neighbours exchange; edge i lies between rank i and rank i + 1 */
static void halo(rpipe_op_t op, uint32_t base)
{
    int right = (mp_rank + 1) % mp_ranks, left = (mp_rank + mp_ranks - 1) % mp_ranks;
    rpipe_config_t r = config(op, base + (uint32_t)mp_rank), l = config(op, base + (uint32_t)left);
    rneighbor_t to_right, to_left;

    r.peer = right;
    l.peer = left;
    CHECK_OK(NULL, duplex_open(&to_right, &r));
    CHECK_OK(NULL, duplex_open(&to_left, &l));
    for (uint64_t step = 0; step < HALOS; step++) {
        mp_send(to_right.out, halo_size(step), mp_key(mp_rank, right, (uint32_t)r.context, step));
        mp_send(to_left.out, halo_size(step), mp_key(mp_rank, left, (uint32_t)l.context, step));
        mp_read_free(to_left.in, halo_size(step), mp_key(left, mp_rank, (uint32_t)l.context, step));
        mp_read_free(to_right.in, halo_size(step),
                     mp_key(right, mp_rank, (uint32_t)r.context, step));
    }
    /* some members end, the others go on */
    CHECK_OK(to_right.out, rclose(to_right.out));
    to_right.out = NULL; /* rneighbors_close closes what is left */
    CHECK_RC(R_EOF, to_left.in, rread(to_left.in, &(raddr_t){NULL}, NULL));
    mp_send(to_left.out, 1000, mp_key(mp_rank, left, (uint32_t)l.context, HALOS));
    mp_read_free(to_right.in, 1000, mp_key(right, mp_rank, (uint32_t)r.context, HALOS));
    CHECK_OK(NULL, rneighbors_close(&to_right, 1));
    CHECK_OK(NULL, rneighbors_close(&to_left, 1));
}

/* ---- scatter ---- */

struct account {
    uint64_t messages, sum;
};

static size_t dealt_size(uint64_t number)
{
    return 8 + random_mix(number ^ mp_seed) % (number % 3 == 0 ? 32 : 900);
}

static void add(struct account *a, uint64_t number)
{
    a->messages++;
    a->sum += random_mix(number);
}

static void dealer(rpipe_op_t op, uint32_t ctx, struct account *account)
{
    rpipe_config_t cfg = config(op, ctx);
    int n = mp_ranks - 1, *ranks = others(), turn = 0;
    rgroup_t sc;

    CHECK_OK(NULL, scatter_open(&sc, &cfg, ranks, n));
    for (uint64_t number = 0; number < DEALT; number++) {
        int to = number % 3 == 0   ? RGROUP_NEXT
                 : number % 3 == 1 ? RGROUP_ANY
                                   : (int)(number / 3 % (unsigned)n);
        int place = -9;
        raddr_t d;
        rch_t ch;

        CHECK_OK(NULL, rgroup_alloc(sc, to, dealt_size(number), &place, &d, 0));
        CHECK(NULL, place >= 0 && place < n);
        if (to == RGROUP_NEXT) {
            CHECK(NULL, place == turn);
            turn = (turn + 1) % n;
        }
        ch = rgroup_pipe(sc, place);
        pattern_fill(rmem(ch, d), dealt_size(number), mp_key(0, 0, ctx, number));
        CHECK_OK(ch, rset_tag(ch, d, number));
        CHECK_OK(NULL, rwrite(rgroup_pipe(sc, place), d));
        add(&account[place + 1], number);
    }
    CHECK_OK(NULL, rgroup_close(sc));
    free(ranks);
}

static void served(rpipe_op_t op, uint32_t ctx, struct account *account)
{
    rch_t ch = partner(config(op, ctx), false);
    uint64_t before = 0;
    size_t size;
    raddr_t d;
    int rc;

    while ((rc = rread(ch, &d, &size)) == R_SUCCESS) {
        uint64_t number = rtag(ch, d);

        CHECK(ch, account->messages == 0 || number > before);
        CHECK(ch, size == dealt_size(number) &&
                      pattern_same(rmem(ch, d), size, mp_key(0, 0, ctx, number)));
        CHECK_OK(ch, rfree(ch, d));
        add(account, number);
        before = number;
        if (mp_rank == 1 && number % 128 == 0)
            compute_ms(0.2); /* one is slower than the others */
    }
    CHECK_RC(R_EOF, ch, rc);
    CHECK_OK(ch, rclose(ch));
}

static void scatter(rpipe_op_t op, uint32_t ctx)
{
    struct account *dealt = calloc((size_t)mp_ranks, sizeof(*dealt)), mine = {0, 0},
                   *got = calloc((size_t)mp_ranks, sizeof(*got));
    uint64_t total = 0;

    CHECK(NULL, dealt != NULL && got != NULL);
    if (mp_rank == 0)
        dealer(op, ctx, dealt);
    else
        served(op, ctx, &mine);
    CHECK_OK(NULL, network_allgather(&mine, sizeof(mine), got));
    for (int i = 1; i < mp_ranks && mp_rank == 0; i++) {
        CHECK(NULL, got[i].messages == dealt[i].messages && got[i].sum == dealt[i].sum);
        CHECK(NULL,
              got[i].messages >= DEALT / 3 / (unsigned)(mp_ranks - 1)); /* its turns, at least */
        total += got[i].messages;
        printf("rank %d got %llu of %d messages\n", i, (unsigned long long)got[i].messages, DEALT);
    }
    CHECK(NULL, mp_rank != 0 || total == DEALT);
    free(dealt);
    free(got);
}

/* ---- redux ---- */

static void fan_in(rpipe_op_t op, uint32_t ctx)
{
    rpipe_config_t cfg = config(op, ctx);
    uint64_t *count = calloc((size_t)mp_ranks, sizeof(*count));
    int *ranks = others(), place, rc;
    rgroup_t rx;
    size_t size;
    raddr_t d;

    CHECK(NULL, count != NULL);
    if (mp_rank != 0) {
        rch_t ch = partner(cfg, true);

        for (uint64_t i = 0; i < WRITTEN; i++)
            mp_send(ch, dealt_size(i), mp_key(mp_rank, 0, ctx, i));
        CHECK_OK(ch, rclose(ch));
    } else {
        CHECK_OK(NULL, redux_open(&rx, &cfg, ranks, mp_ranks - 1));
        while ((rc = rgroup_read(rx, &place, &d, &size, 0)) == R_SUCCESS) {
            rch_t ch = rgroup_pipe(rx, place);
            uint64_t i = count[place]++;

            CHECK(ch, size == dealt_size(i) &&
                          pattern_same(rmem(ch, d), size, mp_key(place + 1, 0, ctx, i)));
            CHECK_OK(ch, rfree(ch, d));
        }
        CHECK_RC(R_EOF, NULL, rc);
        for (place = 0; place + 1 < mp_ranks; place++)
            CHECK(NULL, count[place] == WRITTEN);
        CHECK_OK(NULL, rgroup_close(rx));
    }
    free(count);
    free(ranks);
}

int main(int argc, char **argv)
{
    mp_begin(argc, argv, 2);
    for (rpipe_op_t op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        uint32_t base = 1000 * ((uint32_t)op + 1);

        halo(op, base);
        scatter(op, base + 100);
        fan_in(op, base + 200);
    }
    return mp_end();
}
