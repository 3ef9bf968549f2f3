/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cut.c: what the ranks of two hosts see when the cable between them is cut; run by test/hosts/namespaces, which cuts it when
 * every rank has made the file $CUT_READY.RANK.
 *
 * The first half of the ranks is on one host, the second on the other. Between the hosts there is a busy pipe from rank 1 to
 * rank 2, idle ones between 0 and 3 both ways, and a rank that waits in network_recv. Every one of those calls has to end with
 * an error, long before its own deadline, and with an error message that has the reason; the pipes within a host go on, and so does rexit.
 *
 *   cut           as above
 *   cut -control  the control network alone
 *   cut -stop     nothing is cut, but a rank is stopped for longer than the keep-alive: that is no death
 */
#include "test/lib/mp_check.h"
#include <rinfo.h>
#include <rpipe.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

enum { BYTES = 4096, LOCAL = 10, AFTER_STOP = 200 };
#define HEAP (16u * BYTES)

static int far(void)
{
    return mp_ranks - 1 - mp_rank;
} /* the partner on the other host: 0 and 3, 1 and 2 */
static int beside(void) { return mp_rank ^ 1; } /* the one on this host */
static bool busy(void) { return mp_rank == 1 || mp_rank == 2; }

static void say_ready(void)
{
    const char *where = getenv("CUT_READY");
    char path[512];
    int fd;

    CHECK(NULL, where != NULL);
    snprintf(path, sizeof(path), "%s.%d", where, mp_rank);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(NULL, fd >= 0);
    close(fd);
}

/* The error of a lost host, and not of a deadline, and its message. */
static void check_lost(rch_t ch, int rc, int expected, const char *what)
{
    printf("rank %d, %s: %s: %s\n", mp_rank, what, rinfo_strerror(rc), rerror(ch));
    CHECK(ch, rc == expected);
    CHECK(ch, strstr(rerror(ch), "not answered") != NULL ||
                  strstr(rerror(ch), "connection") != NULL ||
                  strstr(rerror(ch), "timed out") != NULL);
}

static int write_one(rch_t ch, uint64_t number)
{
    raddr_t d = rmalloc(ch, BYTES);

    if (d == ADDR_NULL)
        return -errno;
    pattern_fill(rmem(ch, d), BYTES, number);
    return rwrite(ch, d);
}

static int read_one(rch_t ch, uint64_t number)
{
    raddr_t d;
    size_t bytes;
    int rc = rread(ch, &d, &bytes);

    if (rc != 0)
        return rc;
    CHECK(ch, bytes == BYTES && pattern_same(rmem(ch, d), BYTES, number));
    return rfree(ch, d);
}

/* Until the cable is cut. */
static void stream(rch_t ch, bool writer)
{
    uint64_t number = 0;
    int rc = 0;

    while (rc == 0) {
        rc = writer ? write_one(ch, number) : read_one(ch, number);
        if (++number == 100)
            say_ready();
    }
    check_lost(ch, rc, writer ? -EPIPE : -ECONNRESET, writer ? "busy writer" : "busy reader");
}

static void idle(rch_t out, rch_t in)
{
    CHECK_OK(out, write_one(out, 0));
    CHECK_OK(in, read_one(in, 0));
    say_ready();
    check_lost(in, read_one(in, 1), -ECONNRESET, "idle reader");
    check_lost(out, write_one(out, 1), -EPIPE, "idle writer");
}

static void within_the_host(rch_t out, rch_t in)
{
    for (uint64_t i = 0; i < LOCAL; i++) {
        CHECK_OK(out, write_one(out, i));
        CHECK_OK(in, read_one(in, i));
    }
}

static void pipes(void)
{
    rch_t out = NULL, in = NULL, near_out, near_in;

    CHECK_OK(NULL, mp_open(&near_out, true, beside(), 1, RPIPE_PUT, HEAP, 8));
    CHECK_OK(NULL, mp_open(&near_in, false, beside(), 1, RPIPE_PUT, HEAP, 8));
    if (!busy() || mp_rank == 1)
        CHECK_OK(NULL, mp_open(&out, true, far(), 2, RPIPE_PUT, HEAP, 8));
    if (!busy() || mp_rank == 2)
        CHECK_OK(NULL, mp_open(&in, false, far(), 2, RPIPE_PUT, HEAP, 8));
    within_the_host(near_out, near_in);
    if (busy())
        stream(out != NULL ? out : in, out != NULL);
    else
        idle(out, in);
    within_the_host(near_out, near_in);
    if (out != NULL)
        CHECK_OK(out, rclose(out));
    if (in != NULL)
        CHECK_OK(in, rclose(in));
}

static void control_alone(void)
{
    char word[8] = "";
    int rc;

    CHECK_OK(NULL, network_send(far(), "hello", 6));
    CHECK_OK(NULL, network_recv(far(), word, 6));
    say_ready();
    rc = network_recv(far(), word, 6);
    check_lost(NULL, rc, -ECONNRESET, "network_recv");
    CHECK_OK(NULL, network_send(beside(), "after", 6));
    CHECK_OK(NULL, network_recv(beside(), word, 6));
}

/* The others go on when rank 2 runs again. */
static void stopped(void)
{
    rch_t out, in;

    CHECK_OK(NULL, mp_open(&out, true, far(), 2, RPIPE_PUT, HEAP, 8));
    CHECK_OK(NULL, mp_open(&in, false, far(), 2, RPIPE_PUT, HEAP, 8));
    CHECK_OK(out, write_one(out, 0));
    CHECK_OK(in, read_one(in, 0));
    CHECK_OK(NULL, network_barrier());
    say_ready();
    for (uint64_t i = 1; i < AFTER_STOP; i++) {
        if (i == 2 && mp_rank == 2)
            raise(SIGSTOP);
        CHECK_OK(out, write_one(out, i));
        CHECK_OK(in, read_one(in, i));
    }
    CHECK_OK(out, rclose(out));
    CHECK_OK(in, rclose(in));
}

int main(int argc, char **argv)
{
    mp_begin(argc, argv, 4);
    if (mp_asked(argc, argv, "-control"))
        control_alone();
    else if (mp_asked(argc, argv, "-stop"))
        stopped();
    else
        pipes();
    return mp_end();
}
