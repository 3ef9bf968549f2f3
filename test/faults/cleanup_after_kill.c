/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cleanup_after_kill.c: nothing is left of a job whose processes were killed: no file, no socket, no System V object, no process.
 *
 * Jobs run in a sandbox (sandbox.h): one end is killed, or all ranks are, by signals of several kinds, while they join,
 * work and leave, over shared memory and over a network. After each the place has to look as it did before. Of memory that has
 * no name nothing can be left without a process that has it.
 *
 *     cleanup_after_kill [ROUNDS]   FAULTS_SEED repeats the draws; where they hit is the scheduler's
 */
#include "sandbox.h"
#include "scenario.h"

#include "util/module.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define ROUNDS 12
#define LATEST_NS (12 * NS_PER_MS)
#define LATEST_EARLY_NS (4 * NS_PER_MS)
#define LATEST_NETWORK_NS (400 * NS_PER_MS) /* it takes longer to come to life */

static char found[16384];
static struct spread calls, exits;

/* Sockets of dead processes close their connections for a moment. */
static bool is_empty(void)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);

    while (island_list(found, sizeof(found)) > 0) {
        if (deadline_passed(patience))
            return false;
        backoff_us(1000);
    }
    return true;
}

/* ---- would anything be seen? ---- */

static void one_is_seen(const char *what, unsigned least)
{
    unsigned n = island_list(found, sizeof(found));

    EXPECT(n >= least, "%s is not seen, but:\n%s", what, found);
}

static void see_file(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    EXPECT(fd >= 0, "%s: %s", path, strerror(errno));
    close(fd);
    one_is_seen(path, 1);
    unlink(path);
}

static void see_socket(const char *what, const struct sockaddr *address, socklen_t bytes)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0 && bind(fd, address, bytes) == 0 && listen(fd, 1) == 0, "%s: %s", what,
           strerror(errno));
    one_is_seen(what, 1);
    close(fd);
}

static void see_segment(void)
{
    int id = shmget(IPC_PRIVATE, 4096, 0600);

    EXPECT(id >= 0, "shmget: %s", strerror(errno));
    one_is_seen("a System V segment", 1);
    shmctl(id, IPC_RMID, NULL);
}

/* One that its parent leaves behind. */
static void see_process(void)
{
    int channel[2], status;
    pid_t parent, left;

    if (pipe(channel) != 0 || (parent = fork()) < 0) {
        EXPECT(false, "a process that leaves another behind: %s", strerror(errno));
        return;
    }
    if (parent == 0) {
        left = fork();
        if (left == 0)
            for (;;)
                pause();
        _exit(write(channel[1], &left, sizeof(left)) != (ssize_t)sizeof(left));
    }
    EXPECT(read(channel[0], &left, sizeof(left)) == (ssize_t)sizeof(left),
           "a process that leaves another behind");
    EXPECT(waitpid(parent, &status, 0) == parent && status == 0, "its parent: status 0x%x", status);
    one_is_seen("a process", 1);
    kill(left, SIGKILL);
    EXPECT(waitpid(left, &status, 0) == left, "an orphan becomes a child of this process");
    close(channel[0]);
    close(channel[1]);
}

static void see_all(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0rmalloc"};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    EXPECT(is_empty(), "there is something at the beginning:\n%s", found);
    see_file("/dev/shm/left");
    see_file("/tmp/left");
    see_file("left");
    see_socket("a Unix socket", (struct sockaddr *)&name, sizeof(sa_family_t) + 8);
    see_socket("a TCP socket", (struct sockaddr *)&any, sizeof(any));
    see_segment();
    see_process();
    EXPECT(is_empty(), "what was put there is still seen:\n%s", found);
}

/* ---- ends and whole jobs ---- */

/* Not those that a sanitizer, or the kernel by a file, reports. */
static const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE, SIGALRM, SIGKILL};
#define SIGNALS (sizeof(signals) / sizeof(*signals))

static int64_t drawn_ns(uint64_t *random, int64_t most)
{
    return 1000 + (int64_t)(random_draw(random) % (uint64_t)most);
}

static void kill_end(const struct scenario *s, uint64_t *random, bool early)
{
    struct plan plan = {.s = s, .sig = SIGKILL, .timeout_ms = 20000, .early = early};

    plan.victim = (int)(random_draw(random) % 2);
    plan.kill_ns = drawn_ns(random, early                ? LATEST_EARLY_NS
                                    : s->network != NULL ? LATEST_NETWORK_NS
                                                         : LATEST_NS);
    (void)scenario_kill(&plan, "an end killed", &calls, &exits);
    EXPECT(is_empty(), "%s, end %d killed after %lld ns%s: left:\n%s", s->name, plan.victim,
           (long long)plan.kill_ns, early ? ", in rinit" : "", found);
}

static bool all_joined(struct job *job)
{
    int rank;

    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        if (!job_reached(job, rank, 1))
            return false;
    return true;
}

static void kill_all(const struct scenario *s, uint64_t *random, bool early)
{
    struct plan plan = {.s = s, .victim = -1, .timeout_ms = 20000};
    int64_t after = drawn_ns(random, s->network != NULL ? LATEST_NETWORK_NS : LATEST_NS);
    int sig = signals[random_draw(random) % SIGNALS], rank;
    struct job job;

    job_prepare(&job, SCENARIO_RANKS);
    job_start(&job, scenario_rank, &plan);
    if (early || all_joined(&job))
        backoff_us((long)(after / 1000));
    for (rank = 0; rank < SCENARIO_RANKS; rank++) /* so that no rank sees another die */
        job_kill(&job, rank, SIGSTOP);
    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        job_kill(&job, (rank + (int)(after % SCENARIO_RANKS)) % SCENARIO_RANKS, sig);
    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        job_kill(&job, rank, SIGCONT);
    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        (void)job_ended(&job, rank);
    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        EXPECT(job_status_is(&job, rank, 0) ||
                   (WIFSIGNALED(job.status[rank]) && WTERMSIG(job.status[rank]) == sig),
               "%s, signal %d: rank %d: status 0x%x", s->name, sig, rank, job.status[rank]);
    job_finish(&job);
    EXPECT(is_empty(), "%s, all ended by signal %d after %lld ns%s: left:\n%s", s->name, sig,
           (long long)after, early ? ", in rinit" : "", found);
}

/* A number that is drawn, of a scenario over this. */
static const struct scenario *drawn_scenario(uint64_t *random, bool network)
{
    const struct scenario *s;

    do
        s = &scenarios[random_draw(random) % (uint64_t)scenario_count];
    while ((s->network != NULL) != network);
    return s;
}

static void in_island(uint64_t random, int rounds)
{
    int i;

    see_all();
    for (i = 0; i < rounds; i++) {
        kill_end(drawn_scenario(&random, false), &random, i % 4 == 3);
        kill_all(drawn_scenario(&random, false), &random, i % 4 == 2);
    }
    for (i = 0; i < rounds / 4 && module_installed("btl_ofi"); i++)
        kill_all(drawn_scenario(&random, true), &random, false);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    struct rlimit none = {0, 0};
    struct error err = {""};
    uint64_t seed;

    setenv("RPIPE_LOG", "error", 0);
    setrlimit(RLIMIT_CORE, &none);
    if (!island_enter(&err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    seed = seed_of(argc, argv);
    in_island(seed, rounds);
    printf("%s\n", check_failures == 0 ? "nothing was left" : "FAILED");
    return check_failures == 0 ? 0 : 1;
}
