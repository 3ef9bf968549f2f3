/* SPDX-License-Identifier: BSD-3-Clause */
/* by_hand.c: see by_hand.h. */
#include "bench/by_hand.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int by_hand_variable(const char *variable)
{
    const char *text = getenv(variable);

    return text != NULL ? atoi(text) : -1;
}

bool by_hand_begin(struct by_hand *job, const char *program)
{
    const char *name = getenv("PMIX_NAMESPACE");

    *job = (struct by_hand){.program = program,
                            .rank = by_hand_variable("OMPI_COMM_WORLD_RANK"),
                            .ranks = by_hand_variable("OMPI_COMM_WORLD_SIZE")};
    if (job->rank < 0 || job->ranks < 1 || name == NULL) {
        fprintf(stderr, "%s: to be started by mpirun\n", program);
        return false;
    }
    snprintf(job->name, sizeof(job->name), "/%s.%s", program, name);
    return true;
}

bool by_hand_map(struct by_hand *job, size_t bytes)
{
    size_t lines = (size_t)job->ranks * BY_HAND_DEPTH * sizeof(*job->lines);
    int fd = shm_open(job->name, O_RDWR | O_CREAT, 0600);

    if (fd < 0 || ftruncate(fd, (off_t)(lines + bytes)) != 0)
        return perror(job->name), false;
    job->lines = mmap(NULL, lines + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (job->lines == MAP_FAILED)
        return perror(job->name), false;
    job->memory = (char *)job->lines + lines;
    job->crowded = true; /* until all have come */
    (void)by_hand_fold(job, 0, false);
    shm_unlink(job->name);
    job->crowded = job->ranks > (int)sysconf(_SC_NPROCESSORS_ONLN);
    return true;
}

void by_hand_abort(const struct by_hand *job, int status)
{
    shm_unlink(job->name);
    exit(status);
}

static struct by_hand_line *by_hand_line_of(const struct by_hand *job, int rank)
{
    return &job->lines[(unsigned long)rank * BY_HAND_DEPTH + job->number % BY_HAND_DEPTH];
}

void by_hand_put(const struct by_hand *job, double value)
{
    struct by_hand_line *line = by_hand_line_of(job, job->rank);

    line->value = value;
    /* release: pairs with the acquire in by_hand_get */
    atomic_store_explicit(&line->number, job->number, memory_order_release);
}

double by_hand_get(const struct by_hand *job, int rank)
{
    struct by_hand_line *line = by_hand_line_of(job, rank);

    /*
     * A process can be one operation ahead, and not more, where all wait for all. Acquire: pairs with the release in by_hand_put.
     */
    while (atomic_load_explicit(&line->number, memory_order_acquire) < job->number)
        if (job->crowded)
            sched_yield();
    return line->value;
}

double by_hand_fold(struct by_hand *job, double mine, bool largest)
{
    double result = mine;

    job->number++;
    by_hand_put(job, mine);
    for (int i = 1; i < job->ranks; i++) {
        double other = by_hand_get(job, (job->rank + i) % job->ranks);

        result = !largest ? result + other : other > result ? other : result;
    }
    return result;
}
