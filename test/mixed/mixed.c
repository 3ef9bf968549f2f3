/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mixed.c: a job of two processes with different builds of the library: this one, and a newer one.
 *
 * The newer build is one with -DRPIPE_TEST_NEWER (util/layout.h): its newest versions are one higher, and the structures that
 * processes exchange are longer. Both agree on the version of both and work. Where the newer build has its newest version of one
 * protocol alone, the job fails with a message that has both ranges, at both ranks.
 */
#include "test/lib/check.h"
#include "test/lib/port.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BUILDS 2

static const char *const build_names[BUILDS] = {"mixed_old", "mixed_new"};
static char directory[PATH_MAX];

struct rank {
    pid_t pid;
    int log; /* its standard output and error */
    char text[65536];
    int status;
};

static void start(struct rank *r, int rank, const char *program, int port, const char *control)
{
    char path[PATH_MAX + 32], text[64];

    snprintf(path, sizeof(path), "%s/%s", directory, program);
    r->log = memfd_create("log", MFD_CLOEXEC);
    fflush(stdout);
    r->pid = fork();
    if (r->pid != 0)
        return;
    snprintf(text, sizeof(text), "%d", rank);
    setenv("RPIPE_RANK", text, 1);
    setenv("RPIPE_SIZE", "2", 1);
    snprintf(text, sizeof(text), "127.0.0.1:%d", port);
    setenv("RPIPE_ROOT", text, 1);
    setenv("RPIPE_SECRET", "mixed builds", 1);
    setenv("RPIPE_BOOTSTRAP", "tcp", 1);
    setenv("RPIPE_CONTROL", control, 1);
    setenv("RPIPE_OFI_PROVIDER", "tcp", 1); /* of pipes with control tcp */
    setenv("RPIPE_TIMEOUT_MS", "20000", 1);
    setenv("RPIPE_LOG", "debug", 1);
    dup2(r->log, STDOUT_FILENO);
    dup2(r->log, STDERR_FILENO);
    alarm(60);
    execl(path, program, (char *)NULL);
    perror(path);
    _exit(99);
}

static void finish(struct rank *r)
{
    ssize_t n;

    EXPECT(waitpid(r->pid, &r->status, 0) == r->pid, "waitpid");
    n = pread(r->log, r->text, sizeof(r->text) - 1, 0);
    r->text[n > 0 ? n : 0] = '\0';
    close(r->log);
}

/* Rank 0 and rank 1 with these builds. */
static void run(struct rank r[2], int first, int second, const char *control, const char *disjoint)
{
    int port = free_port(), rank;

    printf("rank 0 is %s, rank 1 is %s, over %s%s%s\n", build_names[first], build_names[second],
           control, disjoint != NULL ? ", without a common version of " : "",
           disjoint != NULL ? disjoint : "");
    if (disjoint != NULL)
        setenv("RMALLOC_TEST_DISJOINT", disjoint, 1);
    start(&r[0], 0, build_names[first], port, control);
    start(&r[1], 1, build_names[second], port, control);
    for (rank = 0; rank < 2; rank++)
        finish(&r[rank]);
    unsetenv("RMALLOC_TEST_DISJOINT");
}

static void test_agreement(const char *control)
{
    struct rank r[2];
    char expected[80];
    int first, second, rank;

    for (first = 0; first < BUILDS; first++)
        for (second = 0; second < BUILDS; second++) {
            run(r, first, second, control, NULL);
            for (rank = 0; rank < 2; rank++) {
                int other = rank == 0 ? second : first;

                EXPECT(r[rank].status == 0, "rank %d: status 0x%x: %s", rank, r[rank].status,
                       r[rank].text);
                /* versions 3 to 3, and 3 to 4: they use 4 only where both have it */
                snprintf(expected, sizeof(expected),
                         "version %d of the control network (it has 3 to %d)",
                         first == 1 && second == 1 ? 4 : 3, 3 + other);
                EXPECT(strstr(r[rank].text, expected) != NULL, "rank %d: no \"%s\" in: %s", rank,
                       expected, r[rank].text);
            }
        }
}

/* A protocol whose newest version is the only one of the newer build. */
struct protocol {
    const char *name;
    int version;                  /* of the older build */
    const char *before, *between; /* of the message: before a range, and before the other one */
    bool own_first;               /* the first range is that of the rank that has the message */
    bool one_checks;              /* a rank may have the message of the other one */
};

static const struct protocol protocols[] = {
    {"control", 3, "has versions ", " of the control network, and this process has ", false, false},
    {"bootstrap", 2, "has versions ", " of the bootstrap tcp, and this process has ", false, false},
    {"pipe", 4, "the versions of the protocol are ", " here and ", true, true},
    {"active messages", 2, "has versions ", " of active messages, and this process has ", false,
     false},
};

static void print_ranges(char *text, size_t bytes, const struct protocol *p, int first, int second)
{
    snprintf(text, bytes, "%s%d to %d%s%d to %d", p->before, first, first, p->between, second,
             second);
}

static void test_disjoint(const struct protocol *p)
{
    struct rank r[2];
    char here[160], there[160];
    int newer, rank;

    for (newer = 0; newer < 2; newer++) {
        run(r, newer == 0, newer == 1, "unix", p->name);
        for (rank = 0; rank < 2; rank++) {
            int own = p->version + (rank == newer), other = p->version + (rank != newer),
                first = p->own_first ? own : other, second = p->own_first ? other : own;

            print_ranges(here, sizeof(here), p, first, second);
            print_ranges(there, sizeof(there), p, second, first);
            EXPECT(WIFEXITED(r[rank].status) && WEXITSTATUS(r[rank].status) == 1,
                   "rank %d: status 0x%x: %s", rank, r[rank].status, r[rank].text);
            EXPECT(strstr(r[rank].text, here) != NULL ||
                       (p->one_checks && strstr(r[rank].text, there) != NULL),
                   "rank %d: no \"%s\" in: %s", rank, here, r[rank].text);
        }
    }
}

int main(int argc, char **argv)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    (void)argc, (void)argv;
    self[n > 0 ? n : 0] = '\0';
    snprintf(directory, sizeof(directory), "%s", dirname(self));
    test_agreement("unix");
    test_agreement("tcp");
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
        test_disjoint(&protocols[i]);
    return check_report("mixed");
}
