/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * altered_time.c: whether a call of altered.h came back in time: at its deadline and 100 ms, and for how long its thread was ready to run and
 * did not, a thread that only sleeps was late, and pages of the program were read from a disk: so a busy machine is no failure. Of a call
 * that has never slept the processor time counts alone: a hypervisor that runs something else is seen nowhere else.
 *
 * ALTERED_ALLOWANCE: in percent of those 100 ms.
 */
#include "altered.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#define SLEEP_MS 4.0
#define NAPS 4096      /* kept: more than the longest call has */
#define READ_US 100000 /* what a page of the program takes from a disk, at most */

static struct {
    pthread_t thread;
    _Atomic bool stop;
    _Atomic uint64_t naps;
    /* when each was to end, and how late that was; of the thread, and read by others: torn values only make the allowance wrong
     * of one that is overwritten, which is long over */
    _Atomic int64_t due_us[NAPS], late_us[NAPS];
} sleeper;

static int64_t us_of(double ms) { return (int64_t)(ms * 1000); }

static void *sleeps(void *unused)
{
    (void)unused;
    while (!atomic_load(&sleeper.stop)) {
        uint64_t n = atomic_load(&sleeper.naps);
        double due = now_ms() + SLEEP_MS;

        atomic_store(&sleeper.due_us[n % NAPS], us_of(due));
        atomic_store(&sleeper.late_us[n % NAPS], -1);
        atomic_store(&sleeper.naps, n + 1);
        backoff_us(us_of(SLEEP_MS));
        atomic_store(&sleeper.late_us[n % NAPS], us_of(now_ms() - due));
    }
    return NULL;
}

void time_start(void) { REQUIRE(pthread_create(&sleeper.thread, NULL, sleeps, NULL) == 0); }

void time_stop(void)
{
    atomic_store(&sleeper.stop, true);
    pthread_join(sleeper.thread, NULL);
}

/* How late the sleeping thread was in all, between the two times. */
static int64_t sleeper_late_us(int64_t since, int64_t until)
{
    uint64_t naps = atomic_load(&sleeper.naps), left = naps < NAPS ? naps : NAPS;
    int64_t sum = 0, due, late;

    while (left-- > 0) {
        due = atomic_load(&sleeper.due_us[--naps % NAPS]);
        late = atomic_load(&sleeper.late_us[naps % NAPS]);
        if (late < 0) /* it sleeps still */
            late = until > due ? until - due : 0;
        if (due + late < since)
            break;
        sum += late;
    }
    return sum;
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text != NULL && atoi(text) > 0 ? atoi(text) : otherwise;
}

int deadline_of_calls(void) { return number_of("ALTERED_DEADLINE_MS", 30); }

/* For how long this thread was ready to run without a processor: the second number of its schedstat; 0: not in this kernel. */
static int64_t unscheduled_us(void)
{
    static _Thread_local int fd = -2;
    char text[80];
    long long ns = 0;
    ssize_t n;

    if (fd == -2)
        fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%*d %lld", &ns) == 1 ? ns / 1000 : 0;
}

static int64_t processor_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct begun time_begin(void)
{
    struct rusage use;

    (void)getrusage(RUSAGE_THREAD, &use);
    return (struct begun){now_ms(), unscheduled_us(), processor_us(), use.ru_nvcsw, use.ru_majflt};
}

/* How late a call of so many ms is, without what this machine, as it is now, has added. */
static int64_t own_lateness_us(struct begun begun, struct begun end, int deadline_ms)
{
    int64_t since = us_of(begun.at), until = us_of(end.at);

    if (end.slept == begun.slept)
        return end.processor_us - begun.processor_us - 1000 * (int64_t)deadline_ms;
    return until - since - 1000 * (int64_t)deadline_ms -
           (end.unscheduled_us - begun.unscheduled_us) - 2 * sleeper_late_us(since, until) -
           READ_US * (end.read - begun.read);
}

void time_check(const char *call, struct begun begun, int deadline_ms)
{
    int64_t late = us_of(now_ms()) - us_of(begun.at) - 1000 * (int64_t)deadline_ms, by_clock = late,
            slowest = atomic_load(&stage->slowest_us),
            allowed = 1000 * (int64_t)number_of("ALTERED_ALLOWANCE", 100);
    struct begun end = begun;

    atomic_fetch_add(&stage->calls, 1);
    if (late > allowed / 4) {
        end = time_begin();
        late = own_lateness_us(begun, end, deadline_ms);
    }
    EXPECT(late <= allowed,
           "%s came %lld us after its deadline of %d ms, as this machine is now; %lld are allowed. "
           "By the clock %lld; "
           "processor time %lld us, ready to run %lld, slept %lld times, %lld pages read",
           call, (long long)late, deadline_ms, (long long)allowed, (long long)by_clock,
           (long long)(end.processor_us - begun.processor_us),
           (long long)(end.unscheduled_us - begun.unscheduled_us),
           (long long)(end.slept - begun.slept), (long long)(end.read - begun.read));
    while (late > slowest && !atomic_compare_exchange_weak(&stage->slowest_us, &slowest, late))
        ;
}
