/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dht.c: a distributed hash table; elements travel in batches, and owners put them in their places.
 *
 * Every process owns a part. To insert, a process writes the element into a message in the owner's
 * memory; it sends the message when it is full, and the owner inserts from the message itself. To
 * look up, it sends a batch of keys to the owner, which answers with keys and values through
 * another pipe, again written directly to the memory of the reader. There are no locks and no
 * atomic operations: only the owner accesses a part.
 *
 * A process that waits for memory serves others meanwhile, so no cycle of waiting can close: a
 * request is served only when memory for the answer is available, and answers are always read. An
 * empty message is the end of a phase.
 *
 *     mpirun -n 4 dht --inserts 5000000
 */
#include <rpipe.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "app_pipes.h"
#include "dht_table.h"

enum { REQUESTS, ANSWERS };         /* ctx of a pipe */
enum { MESSAGES = 8, TURN = 4096 }; /* of a pipe; lookups between two polls of the answers */

static struct dht_options options = DHT_OPTIONS_DEFAULT;

struct peer {
    rch_t out, in;               /* pairs to insert, or keys to look up */
    rch_t answer_out, answer_in; /* pairs */
    raddr_t d;
    uint64_t *batch;  /* being filled; NULL: none */
    raddr_t answer_d; /* memory for the next answer, */
    uint64_t *answer; /* where there was some */
    uint32_t used;
    bool ended; /* its last message of this phase has arrived */
};

static struct {
    int rank, nranks;
    struct peer *peer;
    struct dht_part part;
    uint64_t answered, found; /* lookups, and the sum of their marks */
    bool lookup;              /* the phase */
} job;

static const struct app_option option_table[] = {DHT_OPTION_TABLE(options), APP_END};

static const char doc[] =
    "A distributed hash table: inserts, then lookups, in batches to the owner of a key.\v"
    "Run it as: mpirun -n 4 dht. The exit status is 0 if every key was found with its value, and "
    "no other.";

static rch_t open_pipe(int peer, int writer, uint32_t ctx)
{
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = (uint64_t)options.batch * sizeof(struct dht_pair) * MESSAGES + 4096;
    cfg.context = ctx;
    MUST(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* ---- what comes in ---- */

/* No request is taken that could not be answered. */
static bool answer_ready(struct peer *p)
{
    int code;

    if (p->answer != NULL)
        return true;
    code = rmalloc_nb(p->answer_out, options.batch * sizeof(struct dht_pair), &p->answer_d);
    if (code == R_PENDING)
        return false;
    MUST(p->answer_out, code);
    p->answer = rmem(p->answer_out, p->answer_d);
    return true;
}

static void answer(struct peer *p, const uint64_t *keys, size_t count)
{
    dht_find_batch(&job.part, keys, count, p->answer);
    MUST(p->answer_out, rwrite_n(p->answer_out, p->answer_d, count * sizeof(struct dht_pair)));
    p->answer = NULL;
}

/* A message of p, if there is one: pairs to insert, or keys to look up. */
static bool serve(struct peer *p)
{
    const uint64_t *words;
    raddr_t d;
    size_t bytes;
    int code;

    if (p->ended || (job.lookup && !answer_ready(p)))
        return false;
    code = rread_nb(p->in, &d, &bytes);
    if (code == R_PENDING)
        return false;
    MUST(p->in, code);
    words = rmem(p->in, d);
    if (bytes == 0)
        p->ended = true;
    else if (job.lookup)
        answer(p, words, bytes / sizeof(*words));
    else
        MUST_HOLD(dht_insert_batch(&job.part, words, bytes / sizeof(struct dht_pair)));
    MUST(p->in, rfree(p->in, d));
    if (p->ended && p->answer != NULL) {
        MUST(p->answer_out, rfree(p->answer_out, p->answer_d));
        p->answer = NULL;
    }
    return true;
}

static void take(uint64_t key, uint64_t value)
{
    job.answered++;
    if (value != 0) {
        MUST_HOLD(value == dht_value(key));
        job.found += dht_mark(key, value);
    }
}

static bool take_answers(struct peer *p)
{
    const struct dht_pair *pair;
    raddr_t d;
    size_t bytes;
    int code = rread_nb(p->answer_in, &d, &bytes);

    if (code == R_PENDING)
        return false;
    MUST(p->answer_in, code);
    pair = rmem(p->answer_in, d);
    for (size_t i = 0; i < bytes / sizeof(*pair); i++)
        take(pair[i].key, pair[i].value);
    MUST(p->answer_in, rfree(p->answer_in, d));
    return true;
}

/*
 * Polls every peer once. Yields if there is no message, as
 * there may be more processes than processors.
 */
static void serve_all(bool waiting)
{
    bool any = false;

    for (int r = 0; r < job.nranks; r++) {
        struct peer *p = &job.peer[r];

        if (r == job.rank)
            continue;
        any |= serve(p);
        if (job.lookup)
            any |= take_answers(p);
    }
    if (waiting && !any)
        sched_yield();
}

/* ---- what goes out ---- */

static void batch_begin(struct peer *p, size_t bytes)
{
    int code;

    while ((code = rmalloc_nb(p->out, bytes, &p->d)) == R_PENDING)
        serve_all(true);
    MUST(p->out, code);
    p->batch = rmem(p->out, p->d);
    p->used = 0;
}

static void batch_end(struct peer *p, size_t element)
{
    if (p->batch == NULL)
        return;
    MUST(p->out, rwrite_n(p->out, p->d, p->used * element));
    p->batch = NULL;
}

static void insert(uint64_t key, uint64_t value)
{
    int owner = dht_owner(key, job.nranks);
    struct peer *p = &job.peer[owner];

    if (owner == job.rank) {
        MUST_HOLD(dht_insert(&job.part, key, value));
        return;
    }
    if (p->batch == NULL)
        batch_begin(p, options.batch * sizeof(struct dht_pair));
    p->batch[2 * p->used] = key;
    p->batch[2 * p->used + 1] = value;
    if (++p->used == options.batch) {
        batch_end(p, sizeof(struct dht_pair));
        serve_all(false);
    }
}

static void look_up(uint64_t key)
{
    int owner = dht_owner(key, job.nranks);
    struct peer *p = &job.peer[owner];

    if (owner == job.rank) {
        take(key, dht_find(&job.part, key));
        return;
    }
    if (p->batch == NULL)
        batch_begin(p, options.batch * sizeof(uint64_t));
    p->batch[p->used] = key;
    if (++p->used == options.batch) {
        batch_end(p, sizeof(uint64_t));
        serve_all(false);
    }
}

/* Sends the end of the phase to all peers, and serves them until all have sent theirs. */
static void phase_end(size_t element)
{
    for (int r = 0; r < job.nranks; r++) {
        struct peer *p = &job.peer[r];

        if (r == job.rank)
            continue;
        batch_end(p, element);
        batch_begin(p, element);
        batch_end(p, element);
    }
    for (int r = 0; r < job.nranks; r++)
        while (r != job.rank && !job.peer[r].ended)
            serve_all(true);
    while (job.lookup && job.answered < options.lookups)
        serve_all(true);
    for (int r = 0; r < job.nranks; r++)
        job.peer[r].ended = false;
}

static double run(bool lookup)
{
    uint32_t all = lookup ? options.lookups : options.inserts;
    double began;

    job.lookup = lookup;
    MUST(NULL, network_barrier());
    began = app_seconds();
    for (uint32_t n = 0; n < all; n++) {
        if (lookup) {
            look_up(dht_lookup_key(&options, job.rank, job.nranks, n));
        } else {
            uint64_t key = dht_key((uint32_t)job.rank, n);

            insert(key, dht_value(key));
        }
        if (n % TURN == 0 && job.rank == 0)
            app_progress_show("dht", lookup ? "lookup" : "insert", n, all, began);
    }
    phase_end(lookup ? sizeof(uint64_t) : sizeof(struct dht_pair));
    MUST(NULL, network_barrier());
    return app_seconds() - began;
}

/* ---- the result ---- */

/* Every lookup that should find something did, and no other. */
static void check_lookups(void)
{
    uint64_t expected = 0;

    for (uint32_t n = 0; n < options.lookups; n++) {
        uint64_t key = dht_lookup_key(&options, job.rank, job.nranks, n),
                 value = dht_lookup_value(&options, key, n);

        if (value != 0)
            expected += dht_mark(key, value);
    }
    MUST_HOLD(job.answered == options.lookups && job.found == expected);
}

int main(int argc, char **argv)
{
    double inserting, looking;
    uint64_t digest, found;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick)
        options = (struct dht_options){5000, 5000, 80, 32};
    MUST(NULL, rinit(&job.rank, &job.nranks));
    job.part.slots = dht_slots(&options);
    job.part.slot = calloc(job.part.slots, sizeof(*job.part.slot));
    job.peer = calloc((size_t)job.nranks, sizeof(*job.peer));
    MUST_HOLD(job.part.slot != NULL && job.peer != NULL);
    for (int r = 0; r < job.nranks; r++) {
        if (r == job.rank)
            continue;
        job.peer[r].out = open_pipe(r, 1, REQUESTS);
        job.peer[r].in = open_pipe(r, 0, REQUESTS);
        job.peer[r].answer_out = open_pipe(r, 1, ANSWERS);
        job.peer[r].answer_in = open_pipe(r, 0, ANSWERS);
    }
    for (int r = 0; r < job.nranks; r++) { /* time begins when all are joined */
        rch_t all[] = {job.peer[r].out, job.peer[r].in, job.peer[r].answer_out,
                       job.peer[r].answer_in};

        for (int i = 0; i < 4 && r != job.rank; i++)
            MUST(all[i], rwait(all[i]));
    }
    inserting = run(false);
    looking = run(true);
    digest = app_sum(dht_digest(&job.part));
    found = app_sum(job.found);
    if (app_options.check) {
        check_lookups();
        MUST_HOLD(digest == dht_expected(&options, job.nranks));
    }
    if (job.rank == 0) {
        double inserts = (double)options.inserts * job.nranks,
               lookups = (double)options.lookups * job.nranks;
        struct app_result inserted = {"dht insert", "rpipe put", job.nranks, inserting, -1, 0,
                                      inserts,      "inserts",   digest};
        struct app_result looked = {"dht lookup", "rpipe put", job.nranks, looking, -1, 0,
                                    lookups,      "lookups",   found};

        app_result_print(&inserted);
        app_result_print(&looked);
        if (app_options.check && !app_options.json)
            printf("dht: right: every key is there once, and was found with its value\n");
    }
    MUST(NULL, rexit());
    free(job.part.slot);
    free(job.peer);
    return 0;
}
