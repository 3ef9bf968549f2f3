/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listing_5_3_dht.c: a distributed hash table by active messages (thesis listing 5.3).
 *
 * Every process owns an equal part of the table. To insert, it writes an element to the process
 * that owns the element's position; a thread of the owner polls its incoming channels in turn,
 * never waits for one, and inserts the elements into its part. The main thread writes while the
 * handler thread reads: different channels, so no lock between them. A writer closes its channel
 * after its last element, and the handler ends when every channel has reached its end.
 *
 * Collisions chain, so every inserted element must be found afterwards, exactly as often as it was
 * inserted.
 *
 *     mpirun -n 4 listing_5_3_dht
 */
#include <pthread.h>
#include <rpipe.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "must.h"

#define INSERTS 20000   /* by each process */
#define TABLE_SIZE 4096 /* buckets of each process */

typedef struct element {
    uint64_t value;
    uint32_t from;
    uint32_t number;
} element_t;

typedef struct node {
    element_t element;
    struct node *next;
} node_t;

typedef struct table {
    int rank, procs;
    node_t *bucket[TABLE_SIZE];
    uint64_t elements;
} table_t;

static rch_t *requests; /* [i]: from process i to this one */
static table_t table;

/* A bijection, so values that differ stay different; its result is spread over all bits. */
static uint64_t hash_value(uint64_t value)
{
    value = (value ^ value >> 31) * 0x7fb5d329728ea185u;
    value = (value ^ value >> 27) * 0x81dadef4bc2dd44du;
    return value ^ value >> 33;
}

static uint64_t hash_position(const table_t *t, uint64_t value)
{
    return hash_value(value) % ((uint64_t)t->procs * TABLE_SIZE);
}

static uint64_t nth_value(int rank, uint32_t n) { return (uint64_t)rank << 32 | n; }

static void update_element(table_t *t, const element_t *request, uint64_t bucket)
{
    node_t *node = malloc(sizeof(*node));

    MUST_HOLD(node != NULL && bucket < TABLE_SIZE);
    node->element = *request;
    node->next = t->bucket[bucket];
    t->bucket[bucket] = node;
    t->elements++;
}

/*
 * Polls every incoming channel once. Returns the number of
 * messages, or -1 when all channels have ended.
 */
static int handle_requests(table_t *t)
{
    int i, found = 0, open = 0;

    for (i = 0; i < t->procs; i++) {
        raddr_t addr;
        size_t size;
        int flag;

        if (requests[i] == NULL)
            continue;
        flag = rread_nb(requests[i], &addr, &size);
        if (flag == R_EOF) {
            MUST(requests[i], rclose(requests[i]));
            requests[i] = NULL;
            continue;
        }
        open++;
        if (flag != R_PENDING) {
            const element_t *request;

            MUST(requests[i], flag);
            MUST_HOLD(size == sizeof(element_t));
            request = rmem(requests[i], addr);
            update_element(t, request,
                           hash_position(t, request->value) - (uint64_t)t->rank * TABLE_SIZE);
            MUST(requests[i], rfree(requests[i], addr));
            found++;
        }
    }
    return open > 0 ? found : -1;
}

static void *handler_thread(void *arg)
{
    table_t *t = arg;
    int found;

    while ((found = handle_requests(t)) >= 0)
        if (found == 0)
            sched_yield(); /* there may be more processes than cores */
    return NULL;
}

static rch_t channel(int peer, int writer)
{
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.op = RPIPE_PUT;
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.unit_bytes = sizeof(element_t);
    cfg.heap_bytes = 64 * sizeof(element_t);
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

static void insert(rch_t *out, uint64_t value, uint32_t number)
{
    uint64_t owner = hash_position(&table, value) / TABLE_SIZE;
    raddr_t addr;
    element_t *element = must_alloc(out[owner], sizeof(*element), &addr);

    element->value = value;
    element->from = (uint32_t)table.rank;
    element->number = number;
    MUST(out[owner], rwrite(out[owner], addr));
}

/* Every value of every process whose position is here must be here once, and nothing else. */
static void check(const table_t *t)
{
    uint64_t expected = 0, found = 0, total = 0, *all = calloc((size_t)t->procs, sizeof(*all));

    for (int r = 0; r < t->procs; r++) {
        for (uint32_t n = 0; n < INSERTS; n++) {
            uint64_t value = nth_value(r, n), position = hash_position(t, value);

            if (position / TABLE_SIZE != (uint64_t)t->rank)
                continue;
            expected++;
            for (const node_t *node = t->bucket[position % TABLE_SIZE]; node != NULL;
                 node = node->next)
                found += node->element.value == value && node->element.from == (uint32_t)r &&
                         node->element.number == n;
        }
    }
    MUST_HOLD(found == expected && t->elements == expected);

    MUST_HOLD(all != NULL);
    MUST(NULL, network_allgather(&t->elements, sizeof(t->elements), all));
    for (int r = 0; r < t->procs; r++)
        total += all[r];
    MUST_HOLD(total == (uint64_t)t->procs * INSERTS);
    free(all);
}

int main(int argc, char **argv)
{
    pthread_t handler;
    rch_t *out;

    must_be_alone(argc, argv, "A distributed hash table by active messages.",
                  "mpirun -n 4 listing_5_3_dht");
    MUST(NULL, rinit(&table.rank, &table.procs));
    requests = calloc((size_t)table.procs, sizeof(*requests));
    out = calloc((size_t)table.procs, sizeof(*out));
    MUST_HOLD(requests != NULL && out != NULL);
    for (int i = 0; i < table.procs; i++) {
        requests[i] = channel(i, 0);
        out[i] = channel(i, 1);
    }

    MUST_HOLD(pthread_create(&handler, NULL, handler_thread, &table) == 0);
    for (uint32_t n = 0; n < INSERTS; n++)
        insert(out, nth_value(table.rank, n), n);
    for (int i = 0; i < table.procs; i++)
        MUST(out[i], rclose(out[i]));
    MUST_HOLD(pthread_join(handler, NULL) == 0);

    check(&table);
    free(requests);
    free(out);
    if (table.rank == 0)
        printf("listing 5.3: %d processes, %d elements, each in its place\n", table.procs,
               table.procs * INSERTS);
    MUST(NULL, rexit());
    return 0;
}
