/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copies.c: the one copy by which memory of one process gets to another on the same host: into
 * shared memory, by the writer (memcpy, as rwrite_from does), beside out of the writer's memory, by
 * the reader (process_vm_readv, cross-memory attach).
 *
 * A message to and an answer back: the writer fills nothing, the reader reads every cache line of
 * the message. Both ways in turns within each round, so that a noisy moment strikes both; medians
 * and minima of the rounds, microseconds, and the ratios.
 *
 * usage: copies [rounds [bytes...]]
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST ((size_t)8 << 20)
#define ROUNDS_MOST 999
#define LINE 64

enum way { HEAP, ATTACH, WAYS };

struct shared {
    _Atomic uint64_t asked __attribute__((aligned(LINE)));
    _Atomic uint64_t answered __attribute__((aligned(LINE)));
    size_t bytes __attribute__((aligned(LINE)));
    int way;
    int failed;
    uint8_t heap[MOST] __attribute__((aligned(4096)));
};

static struct shared *shared;
static uint8_t *memory; /* the writer's, and in the reader its own */
static volatile uint64_t sink;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void await(_Atomic uint64_t *word, uint64_t value)
{
    int polls = 0;

    while (atomic_load_explicit(word, memory_order_acquire) != value)
        if (++polls % 20000 == 0)
            sched_yield();
}

static void look_at(const uint8_t *p, size_t bytes)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < bytes; i += LINE)
        sum += p[i];
    sink = sum;
}

static void reader(pid_t writer, const uint8_t *there)
{
    for (uint64_t n = 1;; n++) {
        await(&shared->asked, n);
        if (shared->bytes == 0)
            _exit(0);
        if (shared->way == ATTACH) {
            struct iovec near = {memory, shared->bytes},
                         far = {(void *)(uintptr_t)there, shared->bytes};

            if (process_vm_readv(writer, &near, 1, &far, 1, 0) != (ssize_t)shared->bytes)
                shared->failed = errno;
            look_at(memory, shared->bytes);
        } else {
            look_at(shared->heap, shared->bytes);
        }
        atomic_store_explicit(&shared->answered, n, memory_order_release);
    }
}

static uint64_t count;

static double one(enum way way, size_t bytes, int times)
{
    int64_t begun = now_ns();

    for (int i = 0; i < times; i++) {
        shared->bytes = bytes;
        shared->way = (int)way;
        if (way == HEAP)
            memcpy(shared->heap, memory, bytes);
        count++;
        atomic_store_explicit(&shared->asked, count, memory_order_release);
        await(&shared->answered, count);
    }
    return (double)(now_ns() - begun) / times / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void compare(size_t bytes, int rounds)
{
    static double us[WAYS][ROUNDS_MOST];
    int times = bytes < 65536 ? 200 : bytes < 1048576 ? 40 : 10;

    for (int way = 0; way < WAYS; way++)
        (void)one((enum way)way, bytes, times); /* pages, caches */
    for (int r = 0; r < rounds; r++)
        for (int way = 0; way < WAYS; way++)
            us[way][r] = one((enum way)way, bytes, times);
    for (int way = 0; way < WAYS; way++)
        qsort(us[way], (size_t)rounds, sizeof(double), ascending);
    printf("%9zu %12.2f %12.2f %8.2f %12.2f %12.2f %8.2f\n", bytes, us[HEAP][rounds / 2],
           us[ATTACH][rounds / 2], us[ATTACH][rounds / 2] / us[HEAP][rounds / 2], us[HEAP][0],
           us[ATTACH][0], us[ATTACH][0] / us[HEAP][0]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const size_t usual[] = {64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304};
    int rounds = argc > 1 ? atoi(argv[1]) : 9, status;
    pid_t parent = getpid(), child;
    size_t bytes;

    if (rounds < 1 || rounds > ROUNDS_MOST) {
        fprintf(stderr, "usage: copies [rounds [bytes...]]; rounds: 1 to %d\n", ROUNDS_MOST);
        return 2;
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memory = aligned_alloc(4096, MOST);
    if (shared == MAP_FAILED || memory == NULL) {
        fprintf(stderr, "copies: no memory\n");
        return 1;
    }
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* where Yama asks for it; refused elsewhere */
    memset(memory, 1, MOST);
    child = fork();
    if (child < 0) {
        perror("copies: fork");
        return 1;
    }
    if (child == 0) {
        memset(memory, 2, MOST); /* its own pages, at the same addresses as the writer's */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        reader(parent, memory);
    }
    printf("%9s %12s %12s %8s %12s %12s %8s\n", "bytes", "heap us", "attach us", "ratio",
           "min heap", "min attach", "ratio");
    if (argc <= 2)
        for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
            compare(usual[i], rounds);
    for (int i = 2; i < argc; i++) {
        bytes = strtoull(argv[i], NULL, 0);
        if (bytes > 0 && bytes <= MOST)
            compare(bytes, rounds);
    }
    shared->bytes = 0;
    atomic_store_explicit(&shared->asked, count + 1, memory_order_release);
    (void)waitpid(child, &status, 0);
    if (shared->failed != 0)
        fprintf(stderr, "copies: process_vm_readv: %s\n", strerror(shared->failed));
    return shared->failed != 0;
}
