/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_dht.c: examples/dht over MPI, for comparison.
 *
 * --by=atomics: all parts are in a window. An insert takes a slot by MPI_Compare_and_swap of its
 * key, goes on to the next one if another key is there, and puts the value; a lookup gets one slot
 * after the other. The owner does nothing.
 * --by=lock: the same window, and each insert is an epoch with an exclusive lock, so that slots are
 * read and written without atomics; a lookup has a shared one. --by=accumulate: all epochs are
 * shared; a slot is taken by MPI_Compare_and_swap and its value put by MPI_Accumulate.
 * --by=send: batches to the owner as in examples/dht, by MPI_Isend out of a few buffers for each
 * peer; what comes in is found by MPI_Improbe.
 */
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../app.h"
#include "../dht_table.h"
#include "notify.h"

enum { REQUEST, ANSWER }; /* tags */
enum {
    MESSAGES = 8,
    TURN = 4096
}; /* buffers for each peer; lookups between two polls of the answers */

static struct dht_options options = DHT_OPTIONS_DEFAULT;
enum { BY_ATOMICS, BY_SEND, BY_LOCK, BY_ACCUMULATE }; /* in the order of ways[] */
static int by;
static bool by_send;

/* Messages to a peer: a ring of buffers. If all are in flight, the sender waits for the oldest. */
struct sender {
    uint64_t *buffer[MESSAGES];
    MPI_Request request[MESSAGES];
    unsigned next;
};

struct peer {
    struct sender requests, answers;
    uint64_t *batch;
    uint32_t used;
    bool ended;
};

static struct {
    int rank, nranks;
    MPI_Win win;
    struct dht_part part;
    struct peer *peer;
    uint64_t answered, found;
    uint64_t *received;
    bool lookup, crowded;
} job;

static const char *const ways[] = {"atomics", "send", "lock", "accumulate", NULL};
static const struct app_option option_table[] = {
    DHT_OPTION_TABLE(options),
    APP_WORD("by", 'b', &by, ways,
             "atomics: MPI_Compare_and_swap into a window; send: batches to the owner; lock, "
             "accumulate: an epoch for each element, exclusive or shared"),
    APP_END,
};

static void must_hold(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "mpi_dht: rank %d: %s\n", job.rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void take(uint64_t key, uint64_t value)
{
    job.answered++;
    if (value != 0) {
        must_hold(value == dht_value(key), "a value is not that of its key");
        job.found += dht_mark(key, value);
    }
}

/* ---- atomics ---- */

static MPI_Aint place(uint64_t at) { return (MPI_Aint)(at * sizeof(struct dht_pair)); }

static void atomic_insert(uint64_t key, uint64_t value)
{
    int owner = dht_owner(key, job.nranks);
    uint64_t at = dht_slot(key, job.part.slots), none = 0, old;

    for (;; at = (at + 1) & (job.part.slots - 1)) {
        MPI_Compare_and_swap(&key, &none, &old, MPI_UINT64_T, owner, place(at), job.win);
        MPI_Win_flush(owner, job.win);
        if (old == 0)
            break;
    }
    MPI_Put(&value, 1, MPI_UINT64_T, owner, place(at) + 8, 1, MPI_UINT64_T, job.win);
    MPI_Win_flush_local(owner, job.win);
}

static void atomic_look_up(uint64_t key)
{
    int owner = dht_owner(key, job.nranks);
    uint64_t at = dht_slot(key, job.part.slots);
    struct dht_pair pair;

    do {
        MPI_Get(&pair, 2, MPI_UINT64_T, owner, place(at), 2, MPI_UINT64_T, job.win);
        MPI_Win_flush(owner, job.win);
        at = (at + 1) & (job.part.slots - 1);
    } while (pair.key != key && pair.key != 0);
    take(key, pair.key == 0 ? 0 : pair.value);
}

/* ---- an epoch for each element ---- */

static void locked_insert(uint64_t key, uint64_t value)
{
    int owner = dht_owner(key, job.nranks);
    uint64_t at = dht_slot(key, job.part.slots), there;
    struct dht_pair pair = {key, value};

    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, owner, 0, job.win);
    for (;; at = (at + 1) & (job.part.slots - 1)) {
        MPI_Get(&there, 1, MPI_UINT64_T, owner, place(at), 1, MPI_UINT64_T, job.win);
        MPI_Win_flush(owner, job.win);
        if (there == 0)
            break;
    }
    MPI_Put(&pair, 2, MPI_UINT64_T, owner, place(at), 2, MPI_UINT64_T, job.win);
    MPI_Win_unlock(owner, job.win);
}

static void shared_insert(uint64_t key, uint64_t value)
{
    int owner = dht_owner(key, job.nranks);
    uint64_t at = dht_slot(key, job.part.slots), none = 0, old;

    MPI_Win_lock(MPI_LOCK_SHARED, owner, 0, job.win);
    for (;; at = (at + 1) & (job.part.slots - 1)) {
        MPI_Compare_and_swap(&key, &none, &old, MPI_UINT64_T, owner, place(at), job.win);
        MPI_Win_flush(owner, job.win);
        if (old == 0)
            break;
    }
    MPI_Accumulate(&value, 1, MPI_UINT64_T, owner, place(at) + 8, 1, MPI_UINT64_T, MPI_REPLACE,
                   job.win);
    MPI_Win_unlock(owner, job.win);
}

static void locked_look_up(uint64_t key)
{
    int owner = dht_owner(key, job.nranks);

    MPI_Win_lock(MPI_LOCK_SHARED, owner, 0, job.win);
    atomic_look_up(key);
    MPI_Win_unlock(owner, job.win);
}

static void one_sided(bool lookup, uint64_t key)
{
    if (lookup && by == BY_ATOMICS)
        atomic_look_up(key);
    else if (lookup)
        locked_look_up(key);
    else if (by == BY_ATOMICS)
        atomic_insert(key, dht_value(key));
    else if (by == BY_LOCK)
        locked_insert(key, dht_value(key));
    else
        shared_insert(key, dht_value(key));
}

/* ---- batches ---- */

static size_t buffer_bytes(void) { return options.batch * sizeof(struct dht_pair); }

static void sender_create(struct sender *s)
{
    for (int i = 0; i < MESSAGES; i++) {
        s->buffer[i] = malloc(buffer_bytes());
        s->request[i] = MPI_REQUEST_NULL;
        must_hold(s->buffer[i] != NULL, "no memory");
    }
}

static void sender_destroy(struct sender *s)
{
    MPI_Waitall(MESSAGES, s->request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; i++)
        free(s->buffer[i]);
}

/* A buffer that is free, or NULL. */
static uint64_t *sender_buffer(struct sender *s)
{
    int done;

    MPI_Test(&s->request[s->next % MESSAGES], &done, MPI_STATUS_IGNORE);
    return done ? s->buffer[s->next % MESSAGES] : NULL;
}

static void sender_send(struct sender *s, int to, int tag, size_t bytes)
{
    MPI_Isend(s->buffer[s->next % MESSAGES], (int)(bytes / 8), MPI_UINT64_T, to, tag,
              MPI_COMM_WORLD, &s->request[s->next % MESSAGES]);
    s->next++;
}

/* Requests of a peer wait until there is a buffer for the answer; answers are always taken. */
static bool serve(int from, int tag)
{
    struct peer *p = &job.peer[from];
    uint64_t *answer = NULL;
    MPI_Message message;
    MPI_Status status;
    int there, count;

    if (tag == REQUEST &&
        (p->ended || (job.lookup && (answer = sender_buffer(&p->answers)) == NULL)))
        return false;
    MPI_Improbe(from, tag, MPI_COMM_WORLD, &there, &message, &status);
    if (!there)
        return false;
    MPI_Get_count(&status, MPI_UINT64_T, &count);
    MPI_Mrecv(job.received, count, MPI_UINT64_T, &message, MPI_STATUS_IGNORE);
    if (tag == ANSWER) {
        for (int i = 0; i < count; i += 2)
            take(job.received[i], job.received[i + 1]);
    } else if (count == 0) {
        p->ended = true;
    } else if (answer != NULL) {
        dht_find_batch(&job.part, job.received, (size_t)count, answer);
        sender_send(&p->answers, from, ANSWER, (size_t)count * sizeof(struct dht_pair));
    } else {
        must_hold(dht_insert_batch(&job.part, job.received, (size_t)count / 2), "a part is full");
    }
    return true;
}

static void serve_all(bool waiting)
{
    bool any = false;

    for (int r = 0; r < job.nranks; r++) {
        if (r == job.rank)
            continue;
        any |= serve(r, REQUEST);
        if (job.lookup)
            any |= serve(r, ANSWER);
    }
    if (waiting && !any && job.crowded)
        sched_yield();
}

static void batch_begin(struct peer *p)
{
    while ((p->batch = sender_buffer(&p->requests)) == NULL)
        serve_all(true);
    p->used = 0;
}

static void batch_end(int to, size_t element)
{
    struct peer *p = &job.peer[to];

    if (p->batch != NULL)
        sender_send(&p->requests, to, REQUEST, p->used * element);
    p->batch = NULL;
}

static void batch_add(uint64_t key, uint64_t value)
{
    int owner = dht_owner(key, job.nranks);
    struct peer *p = &job.peer[owner];

    if (owner == job.rank) {
        if (job.lookup)
            take(key, dht_find(&job.part, key));
        else
            must_hold(dht_insert(&job.part, key, value), "a part is full");
        return;
    }
    if (p->batch == NULL)
        batch_begin(p);
    if (job.lookup) {
        p->batch[p->used] = key;
    } else {
        p->batch[2 * p->used] = key;
        p->batch[2 * p->used + 1] = value;
    }
    if (++p->used == options.batch) {
        batch_end(owner, job.lookup ? sizeof(uint64_t) : sizeof(struct dht_pair));
        serve_all(false);
    }
}

static void batch_phase_end(void)
{
    for (int r = 0; r < job.nranks; r++) {
        if (r == job.rank)
            continue;
        batch_end(r, job.lookup ? sizeof(uint64_t) : sizeof(struct dht_pair));
        batch_begin(&job.peer[r]);
        batch_end(r, 0);
    }
    for (int r = 0; r < job.nranks; r++)
        while (r != job.rank && !job.peer[r].ended)
            serve_all(true);
    while (job.lookup && job.answered < options.lookups)
        serve_all(true);
    for (int r = 0; r < job.nranks; r++)
        job.peer[r].ended = false;
}

/* ---- the run ---- */

static void create(void)
{
    size_t bytes;

    job.crowded = notify_crowded(job.nranks);
    job.part.slots = dht_slots(&options);
    bytes = job.part.slots * sizeof(struct dht_pair);
    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &job.part.slot, &job.win);
    memset(job.part.slot, 0, bytes);
    if (by == BY_ATOMICS) {
        MPI_Win_lock_all(MPI_MODE_NOCHECK, job.win);
        MPI_Win_sync(job.win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!by_send)
        return;
    job.peer = calloc((size_t)job.nranks, sizeof(*job.peer));
    job.received = malloc(buffer_bytes());
    must_hold(job.peer != NULL && job.received != NULL, "no memory");
    for (int r = 0; r < job.nranks; r++) {
        sender_create(&job.peer[r].requests);
        sender_create(&job.peer[r].answers);
    }
}

static void destroy(void)
{
    if (by == BY_ATOMICS)
        MPI_Win_unlock_all(job.win);
    MPI_Win_free(&job.win);
    if (!by_send)
        return;
    for (int r = 0; r < job.nranks; r++) {
        sender_destroy(&job.peer[r].requests);
        sender_destroy(&job.peer[r].answers);
    }
    free(job.peer);
    free(job.received);
}

/* The digest loads what others have put into the own part. */
static void own_part_visible(void)
{
    if (by == BY_LOCK || by == BY_ACCUMULATE)
        MPI_Win_lock(MPI_LOCK_SHARED, job.rank, 0, job.win);
    if (!by_send)
        MPI_Win_sync(job.win);
    if (by == BY_LOCK || by == BY_ACCUMULATE)
        MPI_Win_unlock(job.rank, job.win);
}

static double run(bool lookup)
{
    uint32_t all = lookup ? options.lookups : options.inserts;
    double began;

    job.lookup = lookup;
    MPI_Barrier(MPI_COMM_WORLD);
    began = app_seconds();
    for (uint32_t n = 0; n < all; n++) {
        uint64_t key = lookup ? dht_lookup_key(&options, job.rank, job.nranks, n)
                              : dht_key((uint32_t)job.rank, n);

        if (by_send)
            batch_add(key, lookup ? 0 : dht_value(key));
        else
            one_sided(lookup, key);
        if (n % TURN == 0 && job.rank == 0)
            app_progress_show("mpi_dht", lookup ? "lookup" : "insert", n, all, began);
    }
    if (by_send)
        batch_phase_end();
    else if (by == BY_ATOMICS)
        MPI_Win_flush_all(job.win);
    MPI_Barrier(MPI_COMM_WORLD);
    own_part_visible();
    return app_seconds() - began;
}

static uint64_t sum_of(uint64_t mine)
{
    uint64_t sum;

    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

int main(int argc, char **argv)
{
    double inserting, looking;
    uint64_t digest, found;

    app_parse("dht over MPI.", option_table, argc, argv);
    by_send = by == BY_SEND;
    if (app_options.quick)
        options = (struct dht_options){5000, 5000, 80, 32};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.nranks);
    create();
    inserting = run(false);
    looking = run(true);
    digest = sum_of(dht_digest(&job.part));
    found = sum_of(job.found);
    if (app_options.check)
        must_hold(digest == dht_expected(&options, job.nranks),
                  "the table is not what was inserted");
    if (job.rank == 0) {
        static const char *const names[] = {"mpi atomics", "mpi send", "mpi lock",
                                            "mpi accumulate"};
        const char *how = names[by];
        double inserts = (double)options.inserts * job.nranks,
               lookups = (double)options.lookups * job.nranks;
        struct app_result inserted = {"dht insert", how,       job.nranks, inserting, -1, 0,
                                      inserts,      "inserts", digest};
        struct app_result looked = {"dht lookup", how,       job.nranks, looking, -1, 0,
                                    lookups,      "lookups", found};

        app_result_print(&inserted);
        app_result_print(&looked);
        fflush(stdout);
    }
    destroy();
    MPI_Finalize();
    return 0;
}
