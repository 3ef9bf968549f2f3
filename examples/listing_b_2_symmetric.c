/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listing_b_2_symmetric.c: one program that sends without a copy, by PUT or by GET (thesis listing
 * B.2).
 *
 * The side that moves the payload is the writer with PUT and the reader with GET; everything after
 * the configuration is the same. The heap holds 20 messages, so with more of them the writer reuses
 * memory that the reader frees.
 *
 *     mpirun -n 2 listing_b_2_symmetric -put
 *     mpirun -n 2 listing_b_2_symmetric -get
 */
#include <rpipe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#define SEND_VAL 1000
#define INTS 64 /* of a message: too many to ride in a slot, so the heap is what is tried here */
#define N 5000

static void transfer(rpipe_config_t cfg, bool is_source)
{
    size_t allocsz = cfg.heap_bytes / 20;
    rch_t ch;
    raddr_t addr;

    MUST(NULL, rpipe(&ch, &cfg));
    if (is_source) {
        for (int i = 0; i < N; i++) {
            int *ptr;

            addr = rmalloc(ch, allocsz);
            ptr = MUST_HAVE(ch, rmem(ch, addr));
            for (int k = 0; k < INTS; k++)
                ptr[k] = SEND_VAL * (i + 1) + k;
            MUST(ch, rwrite(ch, addr));
        }
    } else {
        for (int i = 0; i < N; i++) {
            size_t size;
            const int *ptr;

            MUST(ch, rread(ch, &addr, &size));
            MUST_HOLD(size == allocsz);
            ptr = rmem(ch, addr);
            for (int k = 0; k < INTS; k++)
                MUST_HOLD(ptr[k] == SEND_VAL * (i + 1) + k);
            MUST(ch, rfree(ch, addr));
        }
        MUST_HOLD(rread(ch, &addr, NULL) == R_EOF);
    }
    MUST(ch, rclose(ch));
}

static const char usage[] =
    "Run it as: mpirun -n 2 listing_b_2_symmetric [-put | -get]; without either it does both\n";

int main(int argc, char *argv[])
{
    rpipe_config_t cfg = {0};
    bool is_rdma_get = argc > 1 && strcmp(argv[1], "-get") == 0;
    int rank, nprocs;
    bool is_source;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("One program that sends without a copy, by PUT or by GET.\n%s", usage);
        return 0;
    }
    if (argc > 2 || (argc == 2 && !is_rdma_get && strcmp(argv[1], "-put") != 0)) {
        fprintf(stderr, "\"%s\" is no option of this program, or there is one too many\n%s",
                argv[argc - 1], usage);
        return 2;
    }
    MUST(NULL, rinit(&rank, &nprocs));
    if (nprocs != 2) {
        fprintf(stderr,
                "listing_b_2_symmetric needs 2 processes and has %d: mpirun -n 2 "
                "listing_b_2_symmetric\n",
                nprocs);
        network_abort(2);
    }
    is_source = rank == 0;
    cfg.peer = (rank + 1) % nprocs;
    cfg.unit_bytes = 4;
    cfg.heap_bytes = INTS * sizeof(int) * 20;
    cfg.op = is_rdma_get ? RPIPE_GET : RPIPE_PUT;
    cfg.role = is_source ? RPIPE_WRITER : RPIPE_READER;
    transfer(cfg, is_source);
    if (argc == 1) {
        cfg.context = 1;
        cfg.op = RPIPE_GET;
        transfer(cfg, is_source);
    }
    if (rank == 0)
        printf("listing B.2: %d messages by %s: all right\n", N,
               argc == 1     ? "PUT and by GET"
               : is_rdma_get ? "GET"
                             : "PUT");
    MUST(NULL, rexit());
    return 0;
}
