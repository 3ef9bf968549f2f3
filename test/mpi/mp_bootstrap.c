/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mp_bootstrap.c: job, control network and collectives under a real launcher, with any number of ranks.
 *
 * Every rank posts numbered messages with a descriptor now and then to every rank, itself included, and checks that all
 * came, in order, whole. Then point to point, barrier, allgather, and an orderly end, which must look like one to all. Ends
 * with 0, or with 1 and an error message. With --time it prints what the start cost.
 */
#include "test/lib/check.h"

#include "control/collective.h"
#include "control/control.h"
#include "bootstrap/job.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MESSAGES 2000
#define LIMIT_MS 60000

struct text {
    uint32_t from, number;
    uint8_t filling[600];
};

static struct error err;
static int rank, size;
static _Atomic int arrived, wrong, left, died;
static uint32_t *expected; /* by sender; service thread */

static void explain(void) { log_error("%s", err.text); }

static void check_failed(const char *file, int line)
{
    (void)file, (void)line;
    job_abort(1);
}

static size_t text_bytes(uint32_t number) { return 8 + (number * 37) % 600; }

static int on_message(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                      int nfds)
{
    const struct text *t = body;
    bool with_fd = t->number % 100 == 0 && control_path(from) != CONTROL_TCP;
    uint32_t seen = 0;
    size_t i;
    int n;

    if (type != CONTROL_TYPE_USER + 1 || t->from != (uint32_t)from ||
        t->number != expected[from]++ || bytes != text_bytes(t->number) ||
        nfds != (with_fd ? 1 : 0))
        atomic_fetch_add(&wrong, 1);
    for (i = 0; i < bytes - 8; i++) {
        if (t->filling[i] != (uint8_t)(t->number + i))
            atomic_fetch_add(&wrong, 1);
    }
    for (n = 0; n < nfds; n++) {
        if (pread(fds[n], &seen, sizeof(seen), 0) != (ssize_t)sizeof(seen) || seen != t->number)
            atomic_fetch_add(&wrong, 1);
        close(fds[n]);
    }
    atomic_fetch_add(&arrived, 1);
    return 0;
}

static void on_gone(int peer, enum control_end end, const char *why)
{
    atomic_fetch_add(end == PEER_LEFT ? &left : &died, 1);
    log_debug("rank %d: %s", peer, why);
}

static void post_all(void)
{
    struct text t = {.from = (uint32_t)rank};
    int to, fd;

    for (t.number = 0; t.number < MESSAGES; t.number++) {
        for (size_t i = 0; i < sizeof(t.filling); i++)
            t.filling[i] = (uint8_t)(t.number + i);
        for (to = 0; to < size; to++) {
            bool with_fd = t.number % 100 == 0 && control_path(to) != CONTROL_TCP;

            fd = with_fd ? memfd_create("test", MFD_CLOEXEC) : -1;
            REQUIRE(!with_fd ||
                    write(fd, &t.number, sizeof(t.number)) == (ssize_t)sizeof(t.number));
            REQUIRE(control_post(to, CONTROL_TYPE_USER + 1, &t, text_bytes(t.number), &fd,
                                 with_fd ? 1 : 0) == 0);
            if (with_fd)
                close(fd);
        }
    }
}

static void point_to_point(void)
{
    const size_t bytes = 3u << 20; /* three windows */
    uint8_t *mine = malloc(bytes), *theirs = malloc(bytes);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    size_t i;

    for (i = 0; i < bytes; i++)
        mine[i] = (uint8_t)(i * 7 + (size_t)rank);
    REQUIRE(collect_send(to, mine, 100000, deadline_in_ms(LIMIT_MS), &err) == 0);
    REQUIRE(collect_recv(from, theirs, 99999, deadline_in_ms(LIMIT_MS), &err) == -EMSGSIZE);
    REQUIRE(collect_recv(from, theirs, 100000, deadline_in_ms(LIMIT_MS), &err) == 0);
    for (i = 0; i < 100000; i++)
        REQUIRE(theirs[i] == (uint8_t)(i * 7 + (size_t)from));
    if (rank == 0 && size > 1) {
        REQUIRE(collect_send(to, mine, bytes, deadline_in_ms(LIMIT_MS), &err) == 0);
        REQUIRE(collect_recv(from, theirs, bytes, deadline_in_ms(LIMIT_MS), &err) == 0);
    } else if (size > 1) {
        REQUIRE(collect_recv(from, theirs, bytes, deadline_in_ms(LIMIT_MS), &err) == 0);
        REQUIRE(collect_send(to, mine, bytes, deadline_in_ms(LIMIT_MS), &err) == 0);
    }
    for (i = 0; size > 1 && i < bytes; i++)
        REQUIRE(theirs[i] == (uint8_t)(i * 7 + (size_t)from));
    REQUIRE(collect_recv(from, theirs, 8, deadline_in_ms(20), &err) == -ETIMEDOUT);
    free(mine);
    free(theirs);
}

static void together(void)
{
    static const size_t sizes[] = {0, 1, 8, 4096, 700000};
    size_t s, i;
    int n, r;

    for (n = 0; n < 50; n++)
        REQUIRE(collect_barrier(deadline_in_ms(LIMIT_MS), &err) == 0);
    for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint8_t *mine = malloc(sizes[s] + 1), *all = malloc(sizes[s] * (size_t)size + 1);

        for (i = 0; i < sizes[s]; i++)
            mine[i] = (uint8_t)((size_t)rank * 31 + i);
        REQUIRE(collect_allgather(mine, sizes[s], all, deadline_in_ms(LIMIT_MS), &err) == 0);
        for (r = 0; r < size; r++) {
            for (i = 0; i < sizes[s]; i++)
                REQUIRE(all[(size_t)r * sizes[s] + i] == (uint8_t)((size_t)r * 31 + i));
        }
        free(mine);
        free(all);
    }
}

int main(int argc, char **argv)
{
    const struct control_hooks hooks = {on_message, on_gone, NULL, NULL};
    const struct timespec nap = {0, NS_PER_MS};
    int64_t begin, opened, started, limit;

    check_context = explain;
    check_end = check_failed;
    if (settings_load(&err) != 0) {
        log_error("%s", err.text);
        return 1;
    }
    log_set_level((enum log_level)setting_number(SET_LOG));
    begin = clock_now();
    REQUIRE(job_open(&rank, &size, deadline_in_ms(LIMIT_MS), &err) == 0);
    opened = clock_now();
    log_set_rank(rank);
    check_rank = rank;
    expected = calloc((size_t)size, sizeof(*expected));
    REQUIRE(control_start(&hooks, deadline_in_ms(LIMIT_MS), &err) == 0);
    started = clock_now();
    if (argc > 1 && strcmp(argv[1], "--time") == 0)
        printf("rank %d of %d (%s): job_open %.3f ms, control_start %.3f ms, %d on this host\n",
               rank, size, job_name(), (double)(opened - begin) / 1e6,
               (double)(started - opened) / 1e6, control_local_ranks());
    post_all();
    limit = deadline_in_ms(LIMIT_MS);
    while (atomic_load(&arrived) < MESSAGES * size && !deadline_passed(limit))
        nanosleep(&nap, NULL);
    REQUIRE(atomic_load(&arrived) == MESSAGES * size && atomic_load(&wrong) == 0);
    point_to_point();
    together();
    REQUIRE(atomic_load(&died) == 0);
    REQUIRE(collect_leave(deadline_in_ms(LIMIT_MS), &(struct error){""}) == 0);
    REQUIRE(control_stop(deadline_in_ms(LIMIT_MS), deadline_in_ms(LIMIT_MS), &err) == 0);
    REQUIRE(atomic_load(&died) == 0 && atomic_load(&left) <= size - 1 &&
            atomic_load(&arrived) == MESSAGES * size);
    job_close();
    free(expected);
    return 0;
}
