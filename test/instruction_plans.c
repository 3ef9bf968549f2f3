/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * instruction_plans.c: collective operations of two ranks on one host, for test/instructions, which counts what the calls of rank 0
 * execute. Rank 1, a child that is not counted, starts a lap of operations ahead, so that no call of rank 0 waits.
 *
 * usage: instruction_plans barrier|allreduce|bcast BYTES
 */
#include <rcoll.h>

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAPS 500
#define LAP 32 /* operations, fewer than are in flight */

static rteam_t team;
static double from[512], into[512];

void measured(const rcoll_params_t *params);

static void check(const char *what, int code)
{
    if (code == 0)
        return;
    fprintf(stderr, "instruction_plans: %s: %d: %s\n", what, code, rerror(NULL));
    exit(1);
}

static rcoll_params_t params_of(char **argv)
{
    size_t bytes = strtoul(argv[2], NULL, 10);
    rcoll_params_t p = {.from = from, .into = into};

    if (bytes < 8 || bytes > sizeof(from) || bytes % 8 != 0)
        check("BYTES: 8 to 4096, whole doubles", -1);
    if (strcmp(argv[1], "barrier") == 0)
        return (rcoll_params_t){.kind = RCOLL_BARRIER};
    p.kind = strcmp(argv[1], "bcast") == 0 ? RCOLL_BCAST : RCOLL_ALLREDUCE;
    p.count = bytes;
    if (p.kind == RCOLL_ALLREDUCE) {
        p.count = bytes / sizeof(*from);
        p.type = RGROUP_DOUBLE;
        p.op = RGROUP_SUM;
    }
    return p;
}

/* Collected by callgrind: a lap of rank 0. */
void __attribute__((noinline)) measured(const rcoll_params_t *params)
{
    for (int i = 0; i < LAP; i++)
        check("rcoll_run",
              params->kind == RCOLL_BARRIER ? rcoll_barrier(team) : rcoll_run(team, params));
}

/* Rank 1: a lap is started, reported to rank 0, and awaited. */
static void run_mate(const rcoll_params_t *params, int report)
{
    rplan_t plan[LAP];

    for (int i = 0; i < LAP; i++)
        check("rcoll_plan", rcoll_plan(&plan[i], team, params));
    for (int lap = 0; lap <= LAPS; lap++) {
        for (int i = 0; i < LAP; i++)
            check("rcoll_start", rcoll_start(plan[i]));
        check("write", write(report, "", 1) != 1);
        for (int i = 0; i < LAP; i++)
            check("rcoll_wait", rcoll_wait(plan[i]));
    }
    for (int i = 0; i < LAP; i++)
        check("rcoll_free", rcoll_free(plan[i]));
}

static void run_counted(const rcoll_params_t *params, int reports)
{
    char byte;

    for (int lap = 0; lap <= LAPS; lap++) {
        check("read", read(reports, &byte, 1) != 1);
        if (lap > 0) {
            measured(params);
            continue;
        }
        for (int i = 0; i < LAP; i++) /* the plan is made */
            check("rcoll_run",
                  params->kind == RCOLL_BARRIER ? rcoll_barrier(team) : rcoll_run(team, params));
    }
}

static int free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(any);
    int s = socket(AF_INET, SOCK_STREAM, 0);

    check("bind", bind(s, (struct sockaddr *)&any, bytes));
    check("getsockname", getsockname(s, (struct sockaddr *)&any, &bytes));
    close(s);
    return ntohs(any.sin_port);
}

static void join_job(int rank, const char *root)
{
    setenv("RPIPE_BOOTSTRAP", "tcp", 1);
    setenv("RPIPE_SIZE", "2", 1);
    setenv("RPIPE_RANK", rank == 0 ? "0" : "1", 1);
    setenv("RPIPE_ROOT", root, 1);
    setenv("RPIPE_SECRET", "instructions of plans", 1);
    check("rinit", rinit(NULL, NULL));
    check("rcoll_team", rcoll_team(&team, NULL, NULL, 2));
}

int main(int argc, char **argv)
{
    bool is_mate = argc == 5;
    char root[40], report[20], self[4096] = "";
    rcoll_params_t params;
    int ends[2], status;
    pid_t mate = 0;

    if (argc != 3 && !is_mate) {
        fprintf(stderr, "usage: instruction_plans barrier|allreduce|bcast BYTES\n");
        return 2;
    }
    params = params_of(argv);
    if (is_mate) {
        join_job(1, argv[3]);
        run_mate(&params, atoi(argv[4]));
    } else {
        check("pipe", pipe(ends));
        snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
        snprintf(report, sizeof(report), "%d", ends[1]);
        check("readlink", readlink("/proc/self/exe", self, sizeof(self) - 1) < 0);
        mate = fork();
        if (mate == 0) {
            execl(self, self, argv[1], argv[2], root, report, (char *)NULL);
            _exit(1);
        }
        join_job(0, root);
        run_counted(&params, ends[0]);
    }
    check("rcoll_close", rcoll_close(team));
    check("rexit", rexit());
    if (mate > 0)
        check("the mate", waitpid(mate, &status, 0) != mate || status != 0);
    return 0;
}
