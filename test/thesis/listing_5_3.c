/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off: as printed */
/* listing_5_3.c: thesis listing 5.3 as printed: elements of a distributed hash table arrive as messages from all others. */
#include <rmalloc_thesis.h>
#include <stdio.h>

#define MOST 64
#define INSERTS 1000

typedef struct {
    int64_t value;
} t_elem;

typedef struct {
    int procs, r;
    int64_t tsize;
    int64_t found[INSERTS];
    int total;
} t_hash;

static rch_t rch[MOST], out[MOST];
static raddr_t lreqs[MOST];
static t_hash table;

static int64_t hashfunc(int64_t value) { return value % (table.procs * table.tsize); }

static void update_element(t_hash *hash, const t_elem *e, int64_t offset)
{
    (void)e;
    if (offset >= 0 && offset < hash->tsize)
        hash->found[offset]++;
    hash->total++;
}

/* ---- listing 5.3 ---- */
void handle_hashreq_thread(t_hash *hash)
{
    int i, flag = 0;
    int64_t pos, offset;

    for (i = 0; i < hash->procs; ++i) {
        if (i != hash->r) {      // assume remote -->local read
            t_elem *nreq = NULL; // hash element
            if (lreqs[i] == ADDR_NULL) {
                lreqs[i] = rmalloc(rch[i], sizeof(t_elem));
            }
            rread_nb(rch[i], lreqs[i], &flag);
            if (flag) {
                nreq = rmem(rch[i], lreqs[i]);
                pos = hashfunc(nreq->value);
                offset = (pos - hash->r * hash->tsize);
                update_element(hash, nreq, offset);
                rfree(lreqs[i]);
                lreqs[i] = ADDR_NULL;
            }
        }
    } /* the end of the loop and of the function are not printed */
}
/* ---- */

static rch_t channel(int peer, bool active)
{
    rmalloc_config_t cfg = {.allocator = {.peer = peer, .rdma_active = active, .unit_size = 8}};
    rch_t ch = NULL;

    cfg.allocator.alloc_size = 64 * sizeof(t_elem);
    rpipe(ch, cfg);
    return ch;
}

static void insert(int to, int64_t position)
{
    t_elem *e;
    raddr_t d;
    int flag;

    while ((d = rmalloc_nb(out[to], sizeof(*e), &flag)) == ADDR_NULL)
        handle_hashreq_thread(&table);
    e = rmem(out[to], d);
    e->value = to * table.tsize + position;
    for (rdma_channel_write_async(out[to], d, &flag); flag == R_PENDING;
         rdma_channel_write_async(out[to], d, &flag))
        handle_hashreq_thread(&table);
}

int main(void)
{
    int rank, nranks, wrong = 0;

    if (rinit(&rank, &nranks) != R_SUCCESS || nranks > MOST)
        return 1;
    table.procs = nranks;
    table.r = rank;
    table.tsize = INSERTS;
    for (int i = 0; i < nranks; i++)
        if (i != rank) {
            rch[i] = channel(i, false);
            out[i] = channel(i, true);
        }
    for (int n = 0; n < INSERTS; n++)
        for (int i = 0; i < nranks; i++)
            if (i != rank)
                insert(i, n);
    while (table.total < (nranks - 1) * INSERTS)
        handle_hashreq_thread(&table);
    for (int n = 0; n < INSERTS; n++)
        wrong += table.found[n] != nranks - 1;
    printf("rank %d: %d elements, %d wrong\n", rank, table.total, wrong);
    return rexit() != R_SUCCESS || wrong != 0;
}
