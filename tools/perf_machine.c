/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_machine.c: did others use the processors while we measured? See perf.h.
 *
 * What the machine was busy, from /proc/stat, less what our two processes used. Time that a
 * hypervisor gave to others counts as theirs. A load average would remember what was before.
 */
#include "perf.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

struct usage {
    double busy, total; /* of the machine, seconds of all processors */
    double ours;        /* of this process */
};

static struct usage at_begin;

static struct usage usage_now(void)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };
    unsigned long long ticks[FIELDS] = {0};
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    FILE *file = fopen("/proc/stat", "re");
    struct usage now = {0};
    struct rusage used;

    if (file != NULL) {
        if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[USER], &ticks[NICE],
                   &ticks[SYSTEM], &ticks[IDLE], &ticks[IOWAIT], &ticks[IRQ], &ticks[SOFTIRQ],
                   &ticks[STEAL]) == FIELDS) {
            for (int i = 0; i < FIELDS; i++) {
                now.total += (double)ticks[i] * tick;
                now.busy += i == IDLE || i == IOWAIT ? 0 : (double)ticks[i] * tick;
            }
        }
        fclose(file);
    }
    if (getrusage(RUSAGE_SELF, &used) == 0)
        now.ours = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    return now;
}

void perf_machine_begin(void) { at_begin = usage_now(); }

double perf_machine_others(void)
{
    struct usage now = usage_now();
    double mine = now.ours - at_begin.ours, both[2] = {0, 0}, others;
    int code = network_allgather(&mine, sizeof(mine), both);

    if (code != 0)
        perf_fail(NULL, "network_allgather", code);
    others = now.busy - at_begin.busy - both[0] - both[1];
    if (others <= 0 || now.total <= at_begin.total)
        return 0;
    return others / (now.total - at_begin.total);
}
