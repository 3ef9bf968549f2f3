/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * survive.h: how a program of MPI goes on when one of its processes dies, by what MPICH 4.0 has.
 *
 * MPICH 4.0 declares MPIX_Comm_shrink, MPIX_Comm_agree and MPIX_Comm_failure_ack; but its device ch4,
 * the one that is built by default and by Debian, has an assertion that fails in their place. What
 * is left:
 *
 * - The launcher (hydra, with -disable-auto-cleanup) sends SIGUSR1 to the others when a process has
 *   died, and has the list of those that died under the key PMI_dead_processes.
 * - An operation that needs a dead process never ends, and none of its waits returns. So every
 *   operation is nonblocking, and survive_complete() tests it until it is complete or the list has
 *   grown. Requests that are given up are not freed, and their memory may still be written: neither
 *   they nor their communicator are used again.
 * - MPI_Comm_create_group is collective over the processes of the new communicator alone. It blocks,
 *   so the living agree on the list first.
 * - Hydra kills all others if a process that it has started ends by a signal. So that process only
 *   starts another one, which is the one of MPI, and ends with 0 if that one is killed.
 * - MPI_Finalize waits for the dead as well. Where one was lost, the others exit without it.
 * - The exit status of mpiexec is not reliable then: hydra notes a failure where a process ends without
 *   MPI_Finalize, and replaces it by the status of the process only if it reads that one later. What
 *   was printed is the result.
 *
 * Not survived: a death within MPI_Init or MPI_Comm_create_group; the job ends after a deadline. For
 * processes of one thread.
 */
#ifndef EXAMPLES_MPI_SURVIVE_H
#define EXAMPLES_MPI_SURVIVE_H

#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"

#define SURVIVE_DEADLINE 30 /* seconds without progress */

struct survive {
    int rank, ranks; /* of MPI_COMM_WORLD */
    int *dead, lost; /* ranks, in the order of their deaths */
    MPI_Comm team;   /* of the living */
    MPI_Request *requests;
    bool crowded; /* more processes than processors */
};

static volatile sig_atomic_t survive_news;

static void survive_on_death(int signal)
{
    (void)signal;
    survive_news = 1;
}

static void survive_on_deadline(int signal)
{
    static const char text[] = "an operation of MPI did not end before its deadline\n";

    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(1);
}

/* ---- the process that the launcher has started ---- */

/* Waits for the process of MPI. Returns an exit status. */
static inline int survive_wait_for(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    return WTERMSIG(status) == SIGKILL ? 0 : 128 + WTERMSIG(status);
}

/* Before MPI_Init: returns in the process of MPI alone. */
static inline void survive_start(void)
{
    pid_t child;

    signal(SIGUSR1, SIG_IGN); /* goes to both processes */
    child = fork();
    if (child > 0)
        exit(survive_wait_for(child));
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    signal(SIGUSR1, survive_on_death); /* MPICH calls it from its own handler */
    signal(SIGALRM, survive_on_deadline);
}

/* ---- the launcher's list ---- */

/* Asks by the wire protocol of PMI 1: one line, and one for the answer. The text behind " key=". */
static inline bool survive_ask(const char *question, const char *key, char *answer, size_t bytes)
{
    const char *fd_text = getenv("PMI_FD"), *found;
    int fd = fd_text != NULL ? atoi(fd_text) : -1;
    char line[4096];
    size_t n = 0;

    if (write(fd, question, strlen(question)) != (ssize_t)strlen(question))
        return false;
    do {
        ssize_t got = read(fd, line + n, 1);

        if (got < 0 && errno == EINTR)
            continue;
        if (got != 1)
            return false;
        n++;
    } while (line[n - 1] != '\n' && n < sizeof(line) - 1);
    line[n - 1] = '\0';
    found = strstr(line, key);
    if (found == NULL)
        return false;
    snprintf(answer, bytes, "%s", found + strlen(key));
    answer[strcspn(answer, " ")] = '\0';
    return true;
}

/* Reads the list: "2", "2,0". The order is that of the deaths, so equal lengths are equal lists. */
static inline void survive_read(struct survive *s)
{
    char space[256], question[512], list[2048], *next = list;

    if (!survive_ask("cmd=get_my_kvsname\n", " kvsname=", space, sizeof(space)) ||
        snprintf(question, sizeof(question), "cmd=get kvsname=%s key=PMI_dead_processes\n",
                 space) >= (int)sizeof(question) ||
        !survive_ask(question, " value=", list, sizeof(list))) {
        fprintf(stderr,
                "rank %d: the launcher has no list of dead processes; start the program by "
                "mpiexec.mpich -disable-auto-cleanup\n",
                s->rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (s->lost = 0; *next != '\0' && s->lost < s->ranks; next += *next == ',')
        s->dead[s->lost++] = (int)strtol(next, &next, 10);
}

/* ---- operations ---- */

/* Whether these requests are complete. false: one more process was lost, and they may never be. */
static inline bool survive_complete(struct survive *s, int count, MPI_Request *requests)
{
    int done = 0, before = s->lost;
    unsigned tries = 0;

    for (;;) {
        MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        if (done || s->lost != before)
            break;
        if (survive_news) {
            survive_news = 0;
            survive_read(s);
        }
        if (++tries == 1000)
            alarm(SURVIVE_DEADLINE);
        if (s->crowded && tries % 64 == 0)
            sched_yield();
    }
    if (tries >= 1000)
        alarm(0);
    return done != 0;
}

static inline bool survive_is_dead(const struct survive *s, int rank)
{
    for (int i = 0; i < s->lost; i++)
        if (s->dead[i] == rank)
            return true;
    return false;
}

/* Whether all living processes have the same list; the tag of the empty messages is its length. */
static inline bool survive_agree(struct survive *s)
{
    int count = 0;

    for (int rank = 0; rank < s->ranks; rank++) {
        if (rank == s->rank || survive_is_dead(s, rank))
            continue;
        MPI_Irecv(NULL, 0, MPI_BYTE, rank, s->lost, MPI_COMM_WORLD, &s->requests[count++]);
        MPI_Isend(NULL, 0, MPI_BYTE, rank, s->lost, MPI_COMM_WORLD, &s->requests[count++]);
    }
    return survive_complete(s, count, s->requests);
}

/* After a failure: a team of the living. The one before is not used again. */
static inline void survive_shrink(struct survive *s)
{
    MPI_Group all, living;

    while (!survive_agree(s))
        continue; /* another one died */
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, s->lost, s->dead, &living);
    alarm(SURVIVE_DEADLINE);
    MPI_Comm_create_group(MPI_COMM_WORLD, living, s->lost, &s->team);
    alarm(0);
    MPI_Group_free(&all);
    MPI_Group_free(&living);
}

static inline void survive_begin(struct survive *s)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &s->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &s->ranks);
    s->dead = memory((size_t)s->ranks, sizeof(*s->dead));
    s->requests = memory(2 * (size_t)s->ranks, sizeof(*s->requests));
    s->crowded = s->ranks > sysconf(_SC_NPROCESSORS_ONLN);
    s->team = MPI_COMM_WORLD;
}

/* Ends the process, after all of the team. */
static inline void survive_end(struct survive *s, int status)
{
    alarm(SURVIVE_DEADLINE);
    if (s->lost == 0) {
        MPI_Finalize();
        exit(status);
    }
    MPI_Barrier(s->team);
    fflush(NULL);
    _exit(status);
}

#endif
