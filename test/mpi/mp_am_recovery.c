/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_am_recovery.c: a rank is killed while others wait for its answers (mpirun --enable-recovery, see test/run-mpi).
 *
 * Rank 1 keeps what it is asked, and kills itself when each of the others has asked it KEPT times. A waiting rank gets
 * -ECONNRESET, also those that had not begun to ask; the living answer each other before and after, and their barrier ends
 * with an error and not with a deadline.
 */
#include "test/lib/mp_check.h"
#include "test/lib/am.h"

#include <rpipe.h>
#include <signal.h>

enum { VICTIM = 1, KEPT = 5, ECHOES = 50 };

static ram_t am;
static int keeps, done;

#define AM_GONE(call) am_gone((call), #call, __LINE__)

static void am_gone(int code, const char *call, int line)
{
    if (code != -EPIPE) /* a writer sees -EPIPE */
        check_code(__FILE__, line, call, -ECONNRESET, code, NULL);
}

static void on_echo(ram_t a, ram_message_t *m, void *arg)
{
    (void)arg;
    AM_OK(ram_reply(a, m, RAM_RESULT, m->args, m->nargs, m->data, m->bytes));
}

static void on_keep(ram_t a, ram_message_t *m, void *arg)
{
    static ram_message_t kept[64];

    (void)arg;
    CHECK(NULL, keeps < 64);
    AM_OK(ram_keep(a, m, &kept[keeps++]));
}

static void on_done(ram_t a, ram_message_t *m, void *arg)
{
    (void)a, (void)m, (void)arg;
    done++;
}

/* A barrier with a dead rank does not wait for all of the living; this does: no rank stops serving before. */
static void all_are_done(void)
{
    for (int peer = 0; peer < mp_ranks; peer++)
        if (peer != VICTIM)
            AM_OK(ram_request(am, peer, 2, NULL, 0, NULL, 0, NULL, 0));
    while (done < mp_ranks - 1)
        CHECK(NULL, ram_serve(am, 100, R_FOREVER) >= 0);
    done -= mp_ranks - 1;
}

static void echo_among_the_living(void)
{
    for (uint64_t i = 0; i < ECHOES; i++)
        for (int peer = 0; peer < mp_ranks; peer++) {
            ram_message_t reply;
            ram_request_t r;
            char payload[100];

            if (peer == VICTIM)
                continue;
            pattern_fill(payload, sizeof(payload), i);
            AM_OK(ram_request(am, peer, 0, &i, 1, payload, sizeof(payload), &r, 0));
            AM_OK(ram_wait(am, r, &reply, 0));
            CHECK(NULL, reply.args[0] == i && reply.bytes == sizeof(payload));
            CHECK(NULL, pattern_same(reply.data, reply.bytes, i));
            AM_OK(ram_free(am, &reply));
        }
}

static void victim(void)
{
    while (keeps < KEPT * (mp_ranks - 1))
        CHECK(NULL, ram_serve(am, 1, R_FOREVER) >= 0);
    raise(SIGKILL);
}

static void ask_the_victim(void)
{
    ram_request_t r[KEPT], late;
    ram_message_t reply;
    uint64_t i;
    int rc;

    for (i = 0; i < KEPT; i++)
        AM_OK(ram_request(am, VICTIM, 1, &i, 1, NULL, 0, &r[i], 0));
    echo_among_the_living();
    for (i = 0; i < KEPT; i++) {
        rc = ram_wait(am, r[i], &reply, 0);
        CHECK(NULL, rc == -ECONNRESET && strstr(rerror(NULL), "rank 1") != NULL);
    }
    rc = ram_request(am, VICTIM, 1, &i, 1, NULL, 0, &late,
                     0); /* a new link to it may be opened, and has the same end */
    if (rc == 0)
        rc = ram_wait(am, late, &reply, 0);
    AM_GONE(rc);
}

/* Another context, in which no rank has sent to it before it died. */
static void never_talked_to_it(const ram_config_t *cfg)
{
    ram_config_t c = *cfg;
    ram_request_t late;
    uint64_t i = 0;
    int rc;

    c.context = 1;
    AM_OK(ram_init(&am, &c));
    rc = ram_request(am, VICTIM, 1, &i, 1, NULL, 0, &late, 0);
    if (rc == 0)
        rc = ram_wait(am, late, NULL, 0);
    AM_GONE(rc);
    AM_GONE(ram_barrier(am));
    echo_among_the_living();
    all_are_done();
}

int main(int argc, char **argv)
{
    const ram_handler_t handlers[] = {
        {"echo", on_echo, NULL}, {"keep", on_keep, NULL}, {"done", on_done, NULL}};
    ram_config_t cfg = {0};

    mp_begin(argc, argv, 3);
    cfg.handlers = handlers;
    cfg.nhandlers = 3;
    AM_OK(ram_init(&am, &cfg));
    AM_OK(ram_barrier(am));
    if (mp_rank == VICTIM)
        victim();
    ask_the_victim();
    echo_among_the_living();
    AM_GONE(ram_barrier(am));
    all_are_done();
    AM_OK(ram_exit(am));
    never_talked_to_it(&cfg);
    AM_OK(ram_exit(am));
    return mp_end();
}
