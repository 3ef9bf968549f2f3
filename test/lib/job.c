/* SPDX-License-Identifier: BSD-3-Clause */
/* job.c: see job.h. */
#include "test/lib/job.h"
#include "test/lib/port.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

void backoff_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&t, NULL);
}

/* The seed is FAULTS_SEED, or of the clock; printed, so that a run can be repeated as far as scheduling allows. */
uint64_t seed_of(int argc, char **argv)
{
    const char *given = getenv("FAULTS_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)clock_now();

    (void)argc;
    printf("%s: FAULTS_SEED=%llu\n", argv[0], (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

/* ---- the job ---- */

void job_prepare(struct job *job, int size)
{
    static unsigned count;

    memset(job, 0, sizeof(*job));
    job->size = size;
    job->board =
        mmap(NULL, sizeof(*job->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job->board == MAP_FAILED) {
        perror("the board");
        exit(99);
    }
    snprintf(job->port, sizeof(job->port), "%d", port_hold(&job->port_held));
    snprintf(job->secret, sizeof(job->secret), "faults-%d-%u", (int)getpid(), ++count);
}

void job_start_one(struct job *job, int rank, rank_function f, const void *arguments)
{
    pid_t parent = getpid(), pid;
    char text[64];

    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(99);
    }
    if (pid == 0) {
        atomic_store(&check_failures, 0);
        check_rank = rank;
        check_end = NULL;
        close(job->port_held);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is ended leaves no process behind */
        if (getppid() != parent)
            _exit(99);
        setenv("RPIPE_BOOTSTRAP", "tcp", 1);
        snprintf(text, sizeof(text), "%d", rank);
        setenv("RPIPE_RANK", text, 1);
        snprintf(text, sizeof(text), "%d", job->size);
        setenv("RPIPE_SIZE", text, 1);
        snprintf(text, sizeof(text), "127.0.0.1:%s", job->port);
        setenv("RPIPE_ROOT", text, 1);
        setenv("RPIPE_SECRET", job->secret, 1);
        exit(f(rank, job->board, arguments));
    }
    job->pid[rank] = pid;
}

void job_start(struct job *job, rank_function f, const void *arguments)
{
    for (int rank = 0; rank < job->size; rank++)
        job_start_one(job, rank, f, arguments);
}

static bool reap(struct job *job, int rank, int options)
{
    if (job->pid[rank] == 0)
        return true;
    if (waitpid(job->pid[rank], &job->status[rank], options) != job->pid[rank])
        return false;
    job->pid[rank] = 0;
    if (WIFSIGNALED(job->status[rank]) && WTERMSIG(job->status[rank]) != job->sent[rank])
        printf("rank %d ended with status 0x%x\n", rank, (unsigned)job->status[rank]);
    return true;
}

bool job_reached(struct job *job, int rank, int phase)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);

    while (atomic_load(&job->board->rank[rank].phase) < phase) {
        if (reap(job, rank, WNOHANG) || deadline_passed(patience)) {
            EXPECT(false, "rank %d %s before phase %d (it is in %d, status 0x%x)", rank,
                   job->pid[rank] == 0 ? "ended" : "hangs", phase,
                   atomic_load(&job->board->rank[rank].phase), job->status[rank]);
            return false;
        }
        backoff_us(100);
    }
    return true;
}

void job_kill(struct job *job, int rank, int sig)
{
    if (job->pid[rank] == 0)
        return;
    job->sent[rank] = sig;
    if (sig == SIGKILL)
        atomic_store(&job->board->killed, clock_now());
    kill(job->pid[rank], sig);
}

bool job_ended(struct job *job, int rank)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);

    while (!reap(job, rank, WNOHANG)) {
        if (deadline_passed(patience)) {
            EXPECT(false, "rank %d does not end (phase %d); it is killed", rank,
                   atomic_load(&job->board->rank[rank].phase));
            kill(job->pid[rank], SIGKILL);
            reap(job, rank, 0);
            return false;
        }
        backoff_us(200);
    }
    return true;
}

bool job_status_is(const struct job *job, int rank, int exit_status)
{
    return WIFEXITED(job->status[rank]) && WEXITSTATUS(job->status[rank]) == exit_status;
}

void job_finish(struct job *job)
{
    for (int rank = 0; rank < job->size; rank++) {
        if (job->pid[rank] != 0)
            kill(job->pid[rank], SIGKILL);
        reap(job, rank, 0);
    }
    munmap(job->board, sizeof(*job->board));
    close(job->port_held);
}

/* ---- in a rank ---- */

void rank_reached(struct board *board, int rank, int phase)
{
    atomic_store(&board->rank[rank].phase, phase);
}

void rank_wait_go(struct board *board, int value)
{
    while (atomic_load(&board->go) < value)
        backoff_us(100);
}

void rank_returned(struct board *board, int rank, int code, rch_t ch)
{
    int64_t now = clock_now();

    snprintf(board->rank[rank].error_message, sizeof(board->rank[rank].error_message), "%s",
             rerror(ch));
    atomic_store(&board->rank[rank].code, code);
    atomic_store(&board->rank[rank].returned, now);
}

/* ---- time ---- */

void spread_add(struct spread *s, double ms)
{
    if (s->n < (int)(sizeof(s->ms) / sizeof(s->ms[0])))
        s->ms[s->n++] = ms;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

const char *spread_text(struct spread *s)
{
    static char text[2][64];
    static int which;

    qsort(s->ms, (size_t)s->n, sizeof(s->ms[0]), ascending);
    which = 1 - which;
    snprintf(text[which], sizeof(text[which]), "%.2f %.2f %.2f", s->ms[0], s->ms[s->n / 2],
             s->ms[s->n - 1]);
    return text[which];
}

void spread_show(struct spread *s, const char *what)
{
    if (s->n == 0) {
        printf("%-44s no round\n", what);
        return;
    }
    qsort(s->ms, (size_t)s->n, sizeof(s->ms[0]), ascending);
    printf(
        "%-44s %4d rounds, kill to return, ms: min %7.2f  median %7.2f  p90 %7.2f  max %7.2f%s\n",
        what, s->n, s->ms[0], s->ms[s->n / 2], s->ms[s->n * 9 / 10], s->ms[s->n - 1],
        s->ms[s->n / 2] >= 100 ? "  MEDIAN OVER 100 MS" : "");
}

void spread_print(struct spread *s, const char *what)
{
    spread_show(s, what);
    EXPECT(s->n == 0 || s->ms[s->n - 1] < 2000, "%s: it took %.0f ms until a call returned", what,
           s->ms[s->n - 1]);
}

/* ---- channels ---- */

rpipe_config_t channel_config(rpipe_op_t op, int peer, bool writer, uint64_t alloc_size)
{
    rpipe_config_t cfg = {0};

    cfg.op = op;
    cfg.peer = peer;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = alloc_size;
    cfg.timeout_ms = PATIENCE_MS;
    return cfg;
}

int entries_of(const char *directory)
{
    DIR *dir = opendir(directory);
    int n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}
