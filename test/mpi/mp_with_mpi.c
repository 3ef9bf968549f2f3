/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process that uses MPI and this library at once: both find their job through the same launcher, and each
 * goes on while the other works.
 *
 * A number goes to the next rank by a channel, from there to the next by MPI, and a reduction sums them up, in each round. By default MPI is there first and ends last; -inner: it is begun after rinit and ends before rexit; -crossed: rinit first,
 * rexit first.
 */
#include "test/lib/mp_check.h"

/* mpi.h declares what newer versions of it have dropped */
#include <mpi.h>

enum { ROUNDS = 200 };

static void begin_mpi(void)
{
    int given;

    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS) {
        fprintf(stderr, "MPI_Init failed\n");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *order = argc > 1 ? argv[1] : "";
    const bool mpi_first = strcmp(order, "-inner") != 0 && strcmp(order, "-crossed") != 0;
    const bool mpi_last = strcmp(order, "-inner") != 0;
    rpipe_config_t cfg = {0};
    int rank, ranks, next, before;
    rch_t out, in;

    if (mpi_first)
        begin_mpi();
    CHECK_OK(NULL, rinit(&mp_rank, &mp_ranks));
    if (!mpi_first)
        begin_mpi();

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(NULL, rank == mp_rank && ranks == mp_ranks);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;

    cfg.heap_bytes = 64 * 1024;
    cfg.peer = next;
    cfg.role = RPIPE_WRITER;
    CHECK_OK(NULL, rpipe(&out, &cfg));
    cfg.peer = before;
    cfg.role = RPIPE_READER;
    CHECK_OK(NULL, rpipe(&in, &cfg));

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t sent = random_mix((uint64_t)i * (uint64_t)ranks + (uint64_t)rank), near, far, sum,
                 expected = 0;
        uint64_t *memory;
        size_t size;
        raddr_t d;

        memory = (d = rmalloc(out, 512)) != ADDR_NULL ? rmem(out, d) : NULL;
        CHECK(out, memory != NULL);
        *memory = sent;
        CHECK_OK(out, rwrite(out, d));
        memory = rread(in, &d, &size) == R_SUCCESS ? rmem(in, d) : NULL;
        CHECK(in, memory != NULL && size == 512);
        near = *memory;
        CHECK_OK(in, rfree(in, d));
        CHECK(in, near == random_mix((uint64_t)(i * ranks + before)));

        MPI_Sendrecv(&near, 1, MPI_UINT64_T, next, 7, &far, 1, MPI_UINT64_T, before, 7,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(NULL, far == random_mix((uint64_t)(i * ranks + (before + ranks - 1) % ranks)));
        MPI_Allreduce(&far, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        for (int other = 0; other < ranks; other++)
            expected += random_mix((uint64_t)i * (uint64_t)ranks + (uint64_t)other);
        CHECK(NULL, sum == expected);
        if (i % 50 == 0)
            CHECK_OK(NULL, network_barrier());
    }
    CHECK_OK(out, rclose(out));
    CHECK_OK(in, rclose(in));
    if (!mpi_last)
        MPI_Finalize();
    CHECK_OK(NULL, rexit());
    if (mpi_last)
        MPI_Finalize();
    return 0;
}
