/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What processes show to each other while they run: rank 0 reads the counters of every rank, which must be exactly those of
 * the messages that went round a ring, and sees what the others wait for: a message, a barrier.
 *
 * mp_observe -stay, as a job of one process: prints its pid, and waits for a message that never comes. For test/observe.
 */
#include "test/lib/mp_check.h"
#include <rpipe.h>

#include <rinfo.h>
#include <time.h>

enum { CTX = 7, MESSAGES = 300, SMALL = 8, LARGE = 1000, HEAP = 65536 };
#define PATIENCE_MS 60000

static const rinfo_row_t *sought; /* what to find in a row, */
static const char *sought_wait;
static uint64_t sought_messages; /* and what was found */
static bool found;

static uint64_t value_of(const rinfo_row_t *row, const char *name)
{
    for (int i = 0; i < row->counters; i++)
        if (strcmp(row->name[i], name) == 0)
            return row->value[i];
    fprintf(stderr, "there is no counter %s\n", name);
    network_abort(1);
}

static int look(const rinfo_row_t *row, void *argument)
{
    (void)argument;
    if (row->process != sought->process ||
        (!row->process && (row->context != CTX || row->writer != sought->writer)))
        return 0;
    sought_messages = value_of(row, "messages");
    if (!row->process) {
        CHECK(NULL, strcmp(row->state, "joined") == 0);
        CHECK(NULL, value_of(row, "bytes") == MESSAGES / 2 * (SMALL + LARGE));
        CHECK(NULL, value_of(row, "inline_messages") == MESSAGES / 2);
        CHECK(NULL, value_of(row, "heap_messages") == MESSAGES / 2);
        /* a slot alone is one request, and with a payload two */
        if (strcmp(row->backend, "shm") != 0 && row->writer)
            CHECK(NULL, value_of(row, "work_requests") >= MESSAGES);
        else if (strcmp(row->backend, "shm") == 0)
            CHECK(NULL, value_of(row, "work_requests") == 0);
    }
    found = sought_wait == NULL || strncmp(row->waits_for, sought_wait, strlen(sought_wait)) == 0;
    return found;
}

static void observe(int pid, bool process, bool writer, const char *wait)
{
    const rinfo_row_t what = {.process = process, .writer = writer};
    double until = now_ms() + PATIENCE_MS;

    sought = &what;
    sought_wait = wait;
    found = false;
    do {
        int rc = rinfo_observe(pid, look, NULL);

        CHECK(NULL, rc >= 0);
        if (!found)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
    } while (!found && wait != NULL && now_ms() < until);
    CHECK(NULL, found);
}

static int stay(void)
{
    rch_t w, r;
    raddr_t d;

    CHECK_OK(NULL, mp_open(&w, true, mp_rank, CTX, RPIPE_PUT, HEAP, 0));
    CHECK_OK(NULL, mp_open(&r, false, mp_rank, CTX, RPIPE_PUT, HEAP, 0));
    for (int i = 0; i < MESSAGES; i++) {
        mp_send(w, LARGE, (uint64_t)i);
        mp_read_free(r, LARGE, (uint64_t)i);
    }
    CHECK_OK(r, rset_timeout(r, -1));
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    return rread(r, &d, NULL);
}

int main(int argc, char **argv)
{
    int pid[64], own = (int)getpid();
    uint64_t value = 0, fetches;
    rch_t out, in;
    raddr_t d;

    mp_begin(argc, argv, 1);
    if (mp_asked(argc, argv, "-stay"))
        return stay();
    CHECK(NULL, mp_ranks > 1 && mp_ranks <= 64);
    CHECK_OK(NULL, network_allgather(&own, sizeof(own), pid));
    CHECK_OK(NULL, mp_open(&out, true, (mp_rank + 1) % mp_ranks, CTX, RPIPE_PUT, HEAP, 0));
    CHECK_OK(NULL,
             mp_open(&in, false, (mp_rank + mp_ranks - 1) % mp_ranks, CTX, RPIPE_PUT, HEAP, 0));
    for (uint64_t i = 0; i < MESSAGES; i++) {
        size_t size = i % 2 == 0 ? SMALL : LARGE;

        mp_send(out, size, i);
        mp_read_free(in, size, i);
    }
    CHECK_OK(out, rinfo_count(out, "messages", &value));
    CHECK(out, value == MESSAGES);
    CHECK_OK(NULL, rinfo_count(NULL, "messages", &value));
    CHECK(NULL, value == 2 * MESSAGES);
    CHECK_OK(out, rinfo_count(out, "credit_fetches", &fetches));
    CHECK(out, fetches > 0); /* more messages than the slots of a ring */
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0) {
        for (int r = 0; r < mp_ranks; r++) {
            observe(pid[r], true, false, NULL);
            CHECK(NULL, sought_messages == 2 * MESSAGES);
            observe(pid[r], false, true, NULL);
            CHECK(NULL, sought_messages == MESSAGES);
            observe(pid[r], false, false, r == 0 ? NULL : "message"); /* until it waits for one */
            CHECK(NULL, sought_messages == MESSAGES);
        }
        mp_send(out, SMALL, MESSAGES);
        mp_read_free(in, SMALL, MESSAGES);
        for (int r = 1; r < mp_ranks; r++)
            observe(pid[r], true, false, "the other ranks in network_barrier");
    } else {
        mp_read_free(in, SMALL, MESSAGES);
        mp_send(out, SMALL, MESSAGES);
    }
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(out, rclose(out));
    CHECK_RC(R_EOF, in, rread(in, &d, NULL));
    CHECK_OK(in, rclose(in));
    CHECK_OK(NULL, rinfo_count(NULL, "messages", &value));
    CHECK(NULL, value == 2 * MESSAGES + 2);
    return mp_end();
}
