/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of a board die, the last one first: each member that lives gets the loss and its name, also where another host has noticed it
 * (doc/boards.md "Deaths"); then those that live open the next board. -apart: each rank is a host of its own.
 */
#include "test/lib/mp_check.h"

#include <signal.h>
#include <stdlib.h>

#define PATIENCE_MS 30000

/* All have opened the board: each rank sends to rank 0, which answers. */
static void all_have_opened(rch_t *to, rch_t *from, int n, uint64_t round)
{
    for (int i = mp_rank == 0 ? 1 : 0; i < (mp_rank == 0 ? n : 1); i++)
        if (mp_rank == 0)
            mp_read_free(from[i], 8, round);
        else
            mp_send(to[i], 8, round);
    for (int i = mp_rank == 0 ? 1 : 0; i < (mp_rank == 0 ? n : 1); i++)
        if (mp_rank == 0)
            mp_send(to[i], 8, round);
        else
            mp_read_free(from[i], 8, round);
}

/* Asks until the loss is there: no word of a member changes. */
static void await_loss(rboard_t b, int victim)
{
    const struct timespec short_time = {0, 1000000};
    int member = -1, rc = 0;

    for (int ms = 0; ms < PATIENCE_MS && (rc = rboard_lost(b, &member)) == 0; ms++)
        nanosleep(&short_time, NULL);
    CHECK_RC(-ECONNRESET, NULL, rc);
    CHECK(NULL, member == victim);
}

int main(int argc, char **argv)
{
    rch_t to[16] = {NULL}, from[16] = {NULL};
    rboard_config_t cfg = {.context = 4, .timeout_ms = PATIENCE_MS};
    rboard_t b;

    if (mp_asked(argc, argv, "-apart"))
        setenv("RPIPE_CONTROL", "tcp", 1);
    mp_begin(argc, argv, 2);
    for (int i = 0; i < mp_ranks; i++) {
        if (i == mp_rank || (i != 0 && mp_rank != 0))
            continue;
        CHECK_OK(NULL, mp_open(&to[i], true, i, 1, RPIPE_PUT, 4096, 8));
        CHECK_OK(NULL, mp_open(&from[i], false, i, 1, RPIPE_PUT, 4096, 8));
    }
    for (int n = mp_ranks; n > 1; n--) {
        CHECK_OK(NULL, rboard_open(&b, &cfg, NULL, n));
        CHECK_OK(NULL, rboard_wait(b));
        all_have_opened(to, from, n, (uint64_t)n);
        if (mp_rank == n - 1)
            raise(SIGKILL);
        await_loss(b, n - 1);
        CHECK_OK(NULL, rboard_close(b));
    }
    return mp_end();
}
