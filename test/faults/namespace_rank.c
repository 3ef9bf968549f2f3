/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * namespace_rank.c: one rank of a job whose ranks are on one host, in different network namespaces; run by
 * test/faults/namespaces.
 *
 * Abstract Unix sockets do not reach from one namespace to another, so no descriptor can be passed: a channel that requires
 * shm is refused with -ENOTSUP and an error message with the reason, at once, at both ends. The control network works, over TCP.
 */
#include "test/lib/job.h"

#define LARGE ((size_t)3 << 20)

int main(void)
{
    rpipe_config_t cfg;
    int rank, nranks, to, from, all[RANKS_MOST], i;
    char *mine, *theirs;
    int64_t begin;
    rch_t ch;
    int rc;

    CHECK(NULL, rinit(&rank, &nranks) == 0 && nranks <= RANKS_MOST);
    to = (rank + 1) % nranks;
    from = (rank + nranks - 1) % nranks;
    for (i = 0; i < 100; i++)
        CHECK(NULL, network_barrier() == 0);
    CHECK(NULL, network_allgather(&rank, sizeof(rank), all) == 0);
    for (i = 0; i < nranks; i++)
        CHECK(NULL, all[i] == i);
    mine = malloc(LARGE);
    theirs = malloc(LARGE);
    CHECK(NULL, mine != NULL && theirs != NULL);
    pattern_fill(mine, LARGE, (uint64_t)rank);
    for (i = 0; i < 2; i++) { /* longer than the window: one sends while the other receives */
        if (i == rank % 2)
            CHECK(NULL, network_send(to, mine, LARGE) == 0);
        else
            CHECK(NULL, network_recv(from, theirs, LARGE) == 0 &&
                            pattern_same(theirs, LARGE, (uint64_t)from));
    }
    cfg = channel_config(RPIPE_PUT, 1 - rank, rank == 0, 1 << 16);
    cfg.backend = "shm";
    begin = clock_now();
    rc = rpipe(&ch, &cfg);
    if (rc == 0)
        rc = rwait(ch);
    CHECK(NULL, rc == -ENOTSUP);
    CHECK(NULL, clock_now() - begin < 3000 * NS_PER_MS);
    CHECK(NULL, strstr(rerror(NULL), "namespace") != NULL);
    printf("rank %d: %s\n", rank, rerror(NULL));
    /* to oneself it works all the same */
    cfg = channel_config(RPIPE_PUT, rank, true, 1 << 16);
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    cfg = channel_config(RPIPE_PUT, rank, false, 1 << 16);
    CHECK(NULL, rpipe(&ch, &cfg) == 0 && rwait(ch) == 0);
    CHECK(NULL, rexit() == 0);
    free(mine);
    free(theirs);
    return 0;
}
