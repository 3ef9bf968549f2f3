/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * two_cores.h: what the measurements without the library share (pingpong, ring, sockets): a process and its child on two
 * processors, memory that both have mapped, and rounds that are printed as JSON. A failure ends the program with a message.
 */
#ifndef BENCH_TWO_CORES_H
#define BENCH_TWO_CORES_H

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE 64
#define ROUNDS_MAX 100

static inline double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline _Noreturn void fail(const char *call)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, call, strerror(errno));
    exit(1);
}

static inline void *shared_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

/* A negative number: wherever the system likes. */
static inline void bind_to(int cpu)
{
    cpu_set_t set;

    if (cpu < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        fprintf(stderr, "%s: cannot be bound to processor %d: %s\n", program_invocation_short_name,
                cpu, strerror(errno));
        exit(1);
    }
}

/*
 * Makes the second process, which ends with the first one. Both are bound before either waits for the other. Returns its pid in
 * the first, 0 in the second.
 */
static inline pid_t second_process(const int cpu[2])
{
    pid_t first = getpid(), child;

    bind_to(cpu[1]); /* the child inherits it */
    child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != first))
        _exit(1);
    if (child != 0)
        bind_to(cpu[0]);
    return child;
}

static inline bool second_process_is_good(pid_t child)
{
    int status = 0;

    return waitpid(child, &status, 0) == child && status == 0;
}

static inline void print_rounds(const char *name, const double *ns, int rounds, const char *after)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < rounds; i++)
        printf("%s%.3f", i > 0 ? ", " : "", ns[i]);
    printf("]%s", after);
}

#endif
