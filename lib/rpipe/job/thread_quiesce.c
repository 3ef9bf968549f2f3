/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread_quiesce.c: see thread_quiesce.h.
 *
 * The kernel reports of every thread whether it sleeps (/proc/self/task/TID/stat) and how long it
 * has run (its clock). Without /proc, a fixed time has to suffice. A thread that starts after the
 * directory was opened starts after the flag was set.
 */
#include "rpipe/job/thread_quiesce.h"

#include "sync/wait.h"
#include "util/clock.h"
#include "util/proc.h"
#include "util/thread.h"
#include "util/thread_id.h"

#include <dirent.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RUN_NS NS_PER_MS /* far more than any such code takes */
#define NO_PROC_MS 20    /* without /proc */

static char thread_quiesce_state_of(long tid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", tid);
    return proc_state(path);
}

/* The time that a thread has run, in ns; -1: it has ended. */
static int64_t thread_quiesce_has_run(long tid)
{
    struct timespec t;

    return clock_gettime(thread_clock(tid), &t) == 0 ? (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec
                                                     : -1;
}

static bool thread_quiesce_is_outside(char state)
{
    return state == 0 || strchr("SIZXx", state) != NULL;
}

struct quiescing {
    long tid;
    int64_t began; /* what it had run then */
};

static int thread_quiesce_attempt(void *of)
{
    const struct quiescing *thread = of;
    int64_t now;

    /* it makes no call of a program; and what it waits for may be in the hands of another process */
    if (thread_is_of_library(thread->tid))
        return 0;
    if (thread_quiesce_is_outside(thread_quiesce_state_of(thread->tid)))
        return 0;
    now = thread_quiesce_has_run(thread->tid);
    return now < 0 || now - thread->began >= RUN_NS ? 0 : -EAGAIN;
}

bool thread_quiesce_await(int64_t deadline)
{
    long own = thread_id();
    struct dirent *entry;
    bool quiet = true;
    DIR *tasks;

    /* every other thread sees the flag from here on, or is inside; it costs nothing where that
     * was so already */
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    tasks = opendir("/proc/self/task");
    if (tasks == NULL) {
        clock_sleep(NO_PROC_MS * NS_PER_MS);
        return true;
    }
    while (quiet && (entry = readdir(tasks)) != NULL) {
        long tid = strtol(entry->d_name, NULL, 10);

        if (tid > 0 && tid != own)
            quiet = wait_by_sleeps(deadline, thread_quiesce_attempt,
                                   &(struct quiescing){tid, thread_quiesce_has_run(tid)}) == 0;
    }
    closedir(tasks);
    return quiet;
}
