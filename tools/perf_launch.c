/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_launch.c: rmalloc_perf started without a launcher becomes a job of two.
 *
 * If the environment has no variable of a launcher, the process forks before rinit, and both
 * processes use the `tcp` bootstrap over the loopback with a secret of their own. The second
 * process dies with the first.
 */
#include "perf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t second = -1;
static bool launched;

static _Noreturn void cannot(const char *what)
{
    fprintf(stderr, "rmalloc_perf: the second process cannot be started: %s: %s\n", what,
            strerror(errno));
    exit(1);
}

static bool launcher_at_work(void)
{
    static const char *const signs[] = {"PMIX_RANK", "PMIX_NAMESPACE", "RPIPE_RANK", "RPIPE_SIZE",
                                        "RPIPE_ROOT"};
    const char *bootstrap = getenv("RPIPE_BOOTSTRAP");

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (getenv(signs[i]) != NULL)
            return true;
    return bootstrap != NULL && strcmp(bootstrap, "auto") != 0;
}

/* A port that is free at the moment. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        cannot("no port on 127.0.0.1");
    close(fd);
    return ntohs(address.sin_port);
}

static void describe_job(int port)
{
    uint8_t random[16];
    char secret[2 * sizeof(random) + 1], root[32];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        cannot("no random numbers");
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(secret + 2 * i, 3, "%02x", random[i]);
    snprintf(root, sizeof(root), "127.0.0.1:%d", port);
    setenv("RPIPE_BOOTSTRAP", "tcp", 1);
    setenv("RPIPE_SIZE", "2", 1);
    setenv("RPIPE_ROOT", root, 1);
    setenv("RPIPE_SECRET", secret, 1);
}

void perf_launch(void)
{
    pid_t first = getpid();

    if (launcher_at_work())
        return;
    describe_job(free_port());
    launched = true;
    second = fork();
    if (second < 0)
        cannot("fork");
    setenv("RPIPE_RANK", second == 0 ? "1" : "0", 1);
    if (second == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != first) /* it died before the line above */
            _exit(1);
    }
}

int perf_launch_wait(void)
{
    int status;

    if (second <= 0)
        return 0;
    while (waitpid(second, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFSIGNALED(status))
        fprintf(stderr, "rmalloc_perf: the second process was ended by signal %d\n",
                WTERMSIG(status));
    else
        fprintf(stderr, "rmalloc_perf: the second process ended with status %d\n",
                WEXITSTATUS(status));
    return 1;
}

const char *perf_launch_name(void)
{
    return launched ? "started by itself" : "started by a launcher";
}

void perf_pin(int cpu)
{
    cpu_set_t set;

    if (cpu < 0)
        return;
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE)
        CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        fprintf(stderr, "rmalloc_perf: --cpus: this process cannot be bound to processor %d: %s\n",
                cpu, strerror(errno));
        network_abort(2);
    }
}
