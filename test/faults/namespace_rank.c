/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * namespace_rank.c: one rank of a job whose ranks are on one host, in different network namespaces; run by
 * test/faults/namespaces.
 *
 * Abstract Unix sockets do not reach from one namespace to another, so no descriptor can be passed: a channel that wants
 * shm is refused with -ENOTSUP and a sentence that says why, at once, at both ends. The control network works, over TCP.
 */
#include "test/lib/fault_job.h"

#define LARGE ((size_t)3 << 20)

int main(void)
{
    rpipe_config_t cfg;
    int rank, nranks, to, from, all[RANKS_MOST], i;
    char *mine, *theirs;
    int64_t begin;
    rch_t ch;
    int rc;

    MUST(rinit(&rank, &nranks) == 0 && nranks <= RANKS_MOST, NULL);
    to = (rank + 1) % nranks;
    from = (rank + nranks - 1) % nranks;
    for (i = 0; i < 100; i++)
        MUST(network_barrier() == 0, NULL);
    MUST(network_allgather(&rank, sizeof(rank), all) == 0, NULL);
    for (i = 0; i < nranks; i++)
        MUST(all[i] == i, NULL);
    mine = malloc(LARGE);
    theirs = malloc(LARGE);
    MUST(mine != NULL && theirs != NULL, NULL);
    fill(mine, LARGE, (uint64_t)rank);
    for (i = 0; i < 2; i++) { /* longer than the window: one sends while the other receives */
        if (i == rank % 2)
            MUST(network_send(to, mine, LARGE) == 0, NULL);
        else
            MUST(network_recv(from, theirs, LARGE) == 0 && filled(theirs, LARGE, (uint64_t)from),
                 NULL);
    }
    cfg = channel_config(RPIPE_PUT, 1 - rank, rank == 0, 1 << 16);
    cfg.backend = "shm";
    begin = clock_now();
    rc = rpipe(&ch, &cfg);
    if (rc == 0)
        rc = rwait(ch);
    MUST(rc == -ENOTSUP, NULL);
    MUST(clock_now() - begin < 3000 * NS_PER_MS, NULL);
    MUST(strstr(rerror(NULL), "namespace") != NULL, NULL);
    printf("rank %d: %s\n", rank, rerror(NULL));
    /* to oneself it works all the same */
    cfg = channel_config(RPIPE_PUT, rank, true, 1 << 16);
    MUST(rpipe(&ch, &cfg) == 0, NULL);
    cfg = channel_config(RPIPE_PUT, rank, false, 1 << 16);
    MUST(rpipe(&ch, &cfg) == 0 && rwait(ch) == 0, NULL);
    MUST(rexit() == 0, NULL);
    free(mine);
    free(theirs);
    return 0;
}
