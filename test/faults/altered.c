/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * altered.c: the frame of altered.h.
 *
 *     altered [--list] [--seconds N] [--all] [--part K/N] [PATTERN...]
 *
 * PATTERN: names of cases, as `--list` prints them, with * and ? as in file names; else all, in an order that FAULTS_SEED decides, for as
 * many seconds (ALTERED_SECONDS, default 4), or to the end (0, --all). --part: the K-th of N parts of them, from 1.
 */
#include "altered.h"

#include <fnmatch.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define CASES_PER_JOB 300 /* then the ranks leave, and it is seen what they have left */
#define CASE_MS 40000     /* a case that takes longer hangs */

struct frame {
    struct job job;
    bool open, fresh; /* fresh: the byzantine rank has not played yet */
    int byzantine;
    unsigned played; /* in this job */
    uint64_t serial;
};

struct sums {
    uint64_t cases, jobs, peers, calls, honest, refused;
    int64_t slowest_us;
};

static struct sums sums;
static size_t count;

static void print_case(void)
{
    char name[NAME_BYTES];

    if (atomic_load(&stage->serial) > 0)
        fprintf(stderr, "in case %s:\n", case_name(&all_cases[atomic_load(&stage->at)], name));
}

/* ---- jobs ---- */

static int rank_main(int rank, struct board *board, const void *arguments)
{
    (void)board;
    (void)arguments;
    if (rank == VICTIM)
        return victim_main();
    return rank < BYZANTINE_FIRST ? honest_main(rank) : byzantine_main(rank);
}

static bool frame_begin(struct frame *f)
{
    bool begun = true;

    memset(stage, 0, sizeof(*stage));
    job_prepare(&f->job, RANKS_MOST);
    stage->board = f->job.board;
    stage->log = memfd_create("altered", MFD_CLOEXEC);
    job_start(&f->job, rank_main, NULL);
    for (int rank = 0; begun && rank < RANKS_MOST; rank++)
        begun = job_reached(&f->job, rank, 1);
    f->open = true;
    f->fresh = true;
    f->byzantine = BYZANTINE_FIRST;
    f->played = 0;
    f->serial = 0;
    sums.jobs++;
    sums.peers++;
    return begun;
}

/* What the victim has printed, but for the log of its library, unless there is ALTERED_LOG. */
static void show_log(void)
{
    const bool all = getenv("ALTERED_LOG") != NULL;
    FILE *f = fdopen(dup(stage->log), "r");
    char line[2000];

    if (f == NULL)
        return;
    rewind(f);
    while (fgets(line, sizeof(line), f) != NULL)
        if (all || strncmp(line, "rmalloc[", 8) != 0)
            fputs(line, stderr);
    fclose(f);
}

/* After the end of the ranks. `failures`: before. */
static void frame_close(struct frame *f, int failures)
{
    if (check_failures > failures || getenv("ALTERED_LOG") != NULL)
        show_log();
    close(stage->log);
    job_finish(&f->job);
    f->open = false;

    sums.calls += atomic_load(&stage->calls);
    sums.honest += atomic_load(&stage->honest);
    sums.refused += atomic_load(&stage->refused);
    if (atomic_load(&stage->slowest_us) > sums.slowest_us)
        sums.slowest_us = atomic_load(&stage->slowest_us);
}

/* All leave. What the victim and the honest ranks have found to be wrong is in their exit status. */
static void frame_end(struct frame *f)
{
    int failures = check_failures;

    if (!f->open)
        return;
    atomic_store(&stage->byzantine, -1);
    atomic_store(&stage->serial, SERIAL_LAST);
    for (int rank = BYZANTINE_FIRST; rank < RANKS_MOST; rank++) {
        job_kill(&f->job, rank, SIGKILL);
        (void)job_ended(&f->job, rank);
    }
    for (int rank = VICTIM; rank < BYZANTINE_FIRST; rank++)
        EXPECT(job_ended(&f->job, rank) && job_status_is(&f->job, rank, 0), "%s: status 0x%x",
               rank == VICTIM ? "the victim" : "an honest rank", (unsigned)f->job.status[rank]);
    frame_close(f, failures);
}

static bool rank_lives(const struct frame *f, int rank)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)f->job.pid[rank], &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

static bool honest_live(const struct frame *f)
{
    return rank_lives(f, VICTIM) && rank_lives(f, HONEST_A) && rank_lives(f, HONEST_B);
}

/* ---- cases ---- */

/* With the byzantine rank as it is. False: nothing came of it. */
static bool play_now(struct frame *f, uint32_t at)
{
    int64_t patience = deadline_in_ms(CASE_MS);

    f->serial++;
    atomic_store(&stage->at, at);
    atomic_store(&stage->byzantine, f->byzantine);
    atomic_store(&stage->serial, f->serial);
    while (!stage_wait(VICTIM, f->serial, STEP_DONE, 20))
        if (!honest_live(f) || deadline_passed(patience)) {
            print_case();
            EXPECT(false, "%s",
                   honest_live(f) ? "the victim hangs" : "the victim or an honest rank has ended");
            for (int rank = 0; rank < RANKS_MOST; rank++)
                job_kill(&f->job, rank, SIGKILL);
            for (int rank = 0; rank < RANKS_MOST; rank++)
                (void)job_ended(&f->job, rank);
            frame_close(f, check_failures - 1);
            return true;
        }
    return atomic_load(&stage->outcome) == PLAYED;
}

static void next_byzantine(struct frame *f)
{
    f->fresh = true;
    if (++f->byzantine < RANKS_MOST)
        sums.peers++;
    else
        frame_end(f);
}

static void play(struct frame *f, uint32_t at)
{
    const enum place place = all_cases[at].target->place;
    bool done = false, fresh = false;

    while (!done && !fresh) {
        if (!f->open && !frame_begin(f))
            break;
        if (!rank_lives(f, f->byzantine)) {
            next_byzantine(f);
            continue;
        }
        fresh = f->fresh;
        done = play_now(f, at);
        f->fresh = false;
        if (f->open && (!done || place == IN_FRAME || place == IN_GREETING || place == AT_LIVENESS))
            next_byzantine(f);
    }
    if (!done) {
        EXPECT(false, "the byzantine rank could not play it");
    }
    sums.cases++;
    if (f->open && ++f->played == CASES_PER_JOB)
        frame_end(f);
}

/* ---- which ---- */

struct choice {
    bool list;
    int seconds; /* 0: all */
    unsigned part, parts;
    char **patterns;
    int n;
};

static bool is_chosen(const struct choice *choice, uint32_t at)
{
    char name[NAME_BYTES];

    if (at % choice->parts != choice->part - 1)
        return false;
    (void)case_name(&all_cases[at], name);
    for (int i = 0; i < choice->n; i++)
        if (fnmatch(choice->patterns[i], name, 0) == 0)
            return true;
    return choice->n == 0;
}

static uint32_t *shuffled(uint64_t random)
{
    uint32_t *order = calloc(count, sizeof(*order));

    REQUIRE(order != NULL);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t j = random_draw(&random) % (i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

static void play_all(const struct choice *choice, uint64_t seed)
{
    uint32_t *order = shuffled(seed);
    int64_t until = deadline_in_ms(1000 * choice->seconds);
    static struct frame frame;

    for (size_t i = 0; i < count && check_failures < 20; i++) {
        uint32_t at = choice->seconds > 0 ? order[i] : (uint32_t)i;

        if (choice->seconds > 0 && deadline_passed(until))
            break;
        if (is_chosen(choice, at))
            play(&frame, at);
    }
    frame_end(&frame);
    free(order);
}

static struct choice read_arguments(int argc, char **argv)
{
    const char *seconds = getenv("ALTERED_SECONDS");
    struct choice choice = {.seconds = seconds != NULL ? atoi(seconds) : 4, .part = 1, .parts = 1};
    int i = 1;

    for (; i < argc && argv[i][0] == '-'; i++) {
        choice.list = choice.list || strcmp(argv[i], "--list") == 0;
        if (strcmp(argv[i], "--all") == 0)
            choice.seconds = 0;
        if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            choice.seconds = atoi(argv[++i]);
        else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc)
            REQUIRE(sscanf(argv[++i], "%u/%u", &choice.part, &choice.parts) == 2 &&
                    choice.part >= 1 && choice.part <= choice.parts);
    }
    choice.patterns = &argv[i];
    choice.n = argc - i;
    if (choice.n > 0)
        choice.seconds = 0;
    return choice;
}

int main(int argc, char **argv)
{
    struct choice choice = read_arguments(argc, argv);
    char name[NAME_BYTES];

    stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stage != MAP_FAILED);
    count = cases_make(&all_cases);
    check_context = print_case;
    if (choice.list) {
        for (uint32_t i = 0; i < count; i++)
            if (is_chosen(&choice, i))
                puts(case_name(&all_cases[i], name));
        return 0;
    }
    play_all(&choice, choice.seconds > 0 ? seed_of(argc, argv) : 1);
    printf("%llu of %zu cases, %llu jobs, %llu byzantine ranks, %llu calls in time, the slowest "
           "%.1f ms "
           "after its deadline; %llu honest messages; %llu calls found a violation\n",
           (unsigned long long)sums.cases, count, (unsigned long long)sums.jobs,
           (unsigned long long)sums.peers, (unsigned long long)sums.calls,
           (double)sums.slowest_us / 1e3, (unsigned long long)sums.honest,
           (unsigned long long)sums.refused);
    EXPECT(sums.cases > 0, "no case has such a name");
    return check_report(argv[0]);
}
