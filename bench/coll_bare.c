/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_bare.c: the limit of bench/compare_coll: short collectives by hand, without a library, see coll_loop.h. Each process has a line
 * that it writes and all others read: its number of operations, and 8 bytes. One round for everything; a process that waits yields if
 * processes share processors. Only barrier, and bcast and allreduce of 8 bytes: there is nothing that could be left out.
 *
 * The memory is a file of /dev/shm that rank 0 makes, named by the job of mpirun.
 */
#include "bench/coll_loop.h"

#include <fcntl.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 64
#define DEPTH 8 /* lines of each process, used in turn */

struct line {
    alignas(LINE) _Atomic unsigned long number;
    double value;
};

static struct line *lines;
static int me, all, crowded;
static unsigned long number;
static char name[200];

static void bare_abort(int status)
{
    shm_unlink(name);
    exit(status);
}

static struct line *bare_line(int rank)
{
    return &lines[(unsigned long)rank * DEPTH + number % DEPTH];
}

static void bare_put(double value)
{
    struct line *line = bare_line(me);

    line->value = value;
    atomic_store_explicit(&line->number, number, memory_order_release);
}

static double bare_get(int rank)
{
    struct line *line = bare_line(rank);

    /* a process can be one operation ahead, and not more, where all wait for all */
    while (atomic_load_explicit(&line->number, memory_order_acquire) < number)
        if (crowded)
            sched_yield();
    return line->value;
}

static double bare_fold(double mine, int largest)
{
    double result = mine;

    number++;
    bare_put(mine);
    for (int i = 1; i < all; i++) {
        double other = bare_get((me + i) % all);

        result = !largest ? result + other : other > result ? other : result;
    }
    return result;
}

static void bare_run(enum coll_loop_kind kind, const void *from, void *into, size_t bytes, int root)
{
    double value = 0;

    if (kind == LOOP_BARRIER) {
        (void)bare_fold(0, 0);
        return;
    }
    if (bytes != sizeof(value) || (kind != LOOP_BCAST && kind != LOOP_ALLREDUCE)) {
        fprintf(stderr, "coll_bare: barrier, and bcast and allreduce of 8 bytes only\n");
        bare_abort(2);
    }
    if (kind == LOOP_ALLREDUCE) {
        memcpy(&value, from, sizeof(value));
        value = bare_fold(value, 0);
        memcpy(into, &value, sizeof(value));
        return;
    }
    number++;
    if (number % (DEPTH / 2) == 0) { /* all have read what was in the lines that come next */
        (void)bare_fold(0, 0);
        number++;
    }
    if (me == root) {
        memcpy(&value, into, sizeof(value));
        bare_put(value);
        return;
    }
    value = bare_get(root);
    memcpy(into, &value, sizeof(value));
}

static double bare_most(double mine) { return bare_fold(mine, 1); }

static int bare_number(const char *variable)
{
    const char *text = getenv(variable);

    return text != NULL ? atoi(text) : -1;
}

int main(int argc, char **argv)
{
    static const struct coll_library bare = {.program = "coll_bare",
                                             .library = "bare",
                                             .run = bare_run,
                                             .most = bare_most,
                                             .abort = bare_abort};
    const char *job = getenv("PMIX_NAMESPACE");
    int fd, status;
    size_t bytes;

    me = bare_number("OMPI_COMM_WORLD_RANK");
    all = bare_number("OMPI_COMM_WORLD_SIZE");
    if (me < 0 || all < 1 || job == NULL) {
        fprintf(stderr, "coll_bare: to be started by mpirun\n");
        return 1;
    }
    bytes = (size_t)all * DEPTH * sizeof(*lines);
    snprintf(name, sizeof(name), "/coll_bare.%s", job);
    fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return perror(name), 1;
    lines = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (lines == MAP_FAILED)
        return perror(name), 1;
    crowded = 1; /* until all have come */
    (void)bare_fold(0, 0);
    shm_unlink(name);
    crowded = all > (int)sysconf(_SC_NPROCESSORS_ONLN);
    status = coll_loop_main(&bare, me, all, argc, argv);
    (void)bare_fold(0, 0);
    return status;
}
