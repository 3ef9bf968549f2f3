/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info_peers.c: rmalloc_info --peers: the backend between each two ranks, and the reason.
 *
 * The result is measured: a small pipe is opened from each rank to each rank, itself included,
 * joined, used and described (rinfo_describe). In round k a rank writes to rank + k and reads from
 * rank - k, so each rank has two open ends at any time. Rank 0 prints the results of all ranks.
 */
#include "info.h"

#include <errno.h>
#include <rinfo.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAP 4096
#define SLOTS 2
#define TIMEOUT_MS 20000
#define CTX 0x696e666fu /* "info" */

struct cell {
    int result; /* of the writer: 0, or the code of the failure; then `why` is its message */
    char backend[16], path[160], why[320];
};

struct rank_card {
    char host[64];
    long pid;
};

static int open_end(rch_t *ch, bool writer, int peer)
{
    rpipe_config_t cfg = {0};

    cfg.op = RPIPE_PUT;
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = HEAP;
    cfg.slots = SLOTS;
    cfg.timeout_ms = TIMEOUT_MS;
    cfg.context = CTX;
    return rpipe(ch, &cfg);
}

/* Sends one message, which proves that the pipe works. */
static int send_one(rch_t out)
{
    raddr_t d = rmalloc(out, HEAP / 2);

    if (d == ADDR_NULL)
        return -errno;
    memset(rmem(out, d), 0, HEAP / 2);
    return rwrite(out, d);
}

static int receive_one(rch_t in)
{
    raddr_t d;
    int rc = rread(in, &d, NULL);

    return rc != 0 ? rc : rfree(in, d);
}

static void measure(struct cell *cell, int to, int from)
{
    rinfo_pipe_t t;
    rch_t out = NULL, in = NULL;
    int rc = open_end(&in, false, from), sent;

    sent = open_end(&out, true, to);
    snprintf(cell->why, sizeof(cell->why), "%s", sent != 0 ? rerror(NULL) : "");
    if (sent == 0) {
        sent = send_one(out);
        if (sent != 0)
            snprintf(cell->why, sizeof(cell->why), "%s", rerror(out));
    }
    if (rc == 0)
        (void)receive_one(in);
    if (sent == 0 && rinfo_describe(out, &t) == 0) {
        memcpy(cell->backend, t.backend, sizeof(cell->backend));
        memcpy(cell->path, t.path, sizeof(cell->path));
        memcpy(cell->why, t.why, sizeof(cell->why));
    }
    cell->result = sent;
    if (out != NULL)
        (void)rclose(out);
    if (in != NULL)
        (void)rclose(in);
}

/* ---- output of rank 0 ---- */

static void print_table(const struct rank_card *cards, const struct cell *all, int ranks)
{
    printf("rank  host, process\n");
    for (int r = 0; r < ranks; r++)
        printf("%4d  %s, %ld\n", r, cards[r].host, cards[r].pid);
    printf("\nfrom  to    backend  reason; path\n");
    for (int from = 0; from < ranks; from++) {
        for (int to = 0; to < ranks; to++) {
            const struct cell *c = &all[(size_t)from * (size_t)ranks + (size_t)to];

            if (c->result == 0)
                printf("%4d  %-4d  %-7s  %s; %s\n", from, to, c->backend, c->why, c->path);
            else
                printf("%4d  %-4d  %-7s  %s\n", from, to, "none", c->why);
        }
    }
}

static void member(const char *before, const char *name, const char *value)
{
    printf("%s\"%s\": ", before, name);
    info_json_string(value);
}

static void print_json(const struct rank_card *cards, const struct cell *all, int ranks)
{
    printf("{\"ranks\": [");
    for (int r = 0; r < ranks; r++) {
        printf("%s\n  {\"rank\": %d, \"pid\": %ld", r > 0 ? "," : "", r, cards[r].pid);
        member(", ", "host", cards[r].host);
        printf("}");
    }
    printf("],\n \"pipes\": [");
    for (int i = 0; i < ranks * ranks; i++) {
        printf("%s\n  {\"from\": %d, \"to\": %d, \"result\": %d", i > 0 ? "," : "", i / ranks,
               i % ranks, all[i].result);
        member(", ", "backend", all[i].backend);
        member(", ", "path", all[i].path);
        member(", ", "why", all[i].why);
        printf("}");
    }
    printf("]}\n");
}

int info_peers(bool json)
{
    struct rank_card mine = {"", (long)getpid()}, *cards = NULL;
    struct cell *row = NULL, *all = NULL;
    int rank, ranks, rc, bad = 0;

    rc = rinit(&rank, &ranks);
    if (rc != 0) {
        fprintf(stderr, "rmalloc_info: %s\n", rerror(NULL));
        return 1;
    }
    (void)gethostname(mine.host, sizeof(mine.host) - 1);
    cards = calloc((size_t)ranks, sizeof(*cards));
    row = calloc((size_t)ranks, sizeof(*row));
    all = calloc((size_t)ranks * (size_t)ranks, sizeof(*all));
    if (cards == NULL || row == NULL || all == NULL) {
        fprintf(stderr, "rmalloc_info: no memory for the table of %d ranks\n", ranks);
        network_abort(1);
    }
    rc = network_allgather(&mine, sizeof(mine), cards);
    for (int k = 0; k < ranks && rc == 0; k++) {
        int to = (rank + k) % ranks, from = (rank + ranks - k) % ranks;

        measure(&row[to], to, from);
        rc = network_barrier();
    }
    if (rc == 0)
        rc = network_allgather(row, (size_t)ranks * sizeof(*row), all);
    if (rc != 0) {
        fprintf(stderr, "rmalloc_info: %s\n", rerror(NULL));
    } else if (rank == 0) {
        if (json)
            print_json(cards, all, ranks);
        else
            print_table(cards, all, ranks);
        fflush(stdout);
    }
    for (int i = 0; rc == 0 && i < ranks * ranks; i++)
        bad += all[i].result != 0;
    free(cards);
    free(row);
    free(all);
    rexit();
    return rc != 0 || bad > 0;
}
