/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads.c: N threads with a pipe each against N processes with a pipe each.
 *
 *   bench/threads [N [MILLISECONDS [ROUNDS]]]     (2 200 9)
 *
 * Each has a pipe to itself over shared memory, in a stream of its own, and writes and reads 32 messages of 8 and of 64 bytes by turns.
 * Rounds of threads and of processes follow each other. Printed: messages per second of all together, medians, and their ratio; what
 * threads share beyond what processes do makes it less than 1.
 */
#include <rpipe.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32
#define MOST 64

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int rc, const char *what)
{
    if (rc == R_SUCCESS)
        return;
    fprintf(stderr, "threads: %s: %s\n", what, rerror(NULL));
    exit(1);
}

struct worker {
    pthread_t thread;
    uint64_t context;
    size_t bytes;
    double seconds;
    double rate; /* result: messages per second */
};

static void *work(void *of)
{
    struct worker *w = of;
    rpipe_config_t cfg = {.peer = 0, .context = w->context};
    char text[64] = {0};
    rstream_t stream;
    uint64_t n = 0;
    double begun, end;
    rch_t out, in;

    must(rstream_open(&stream, NULL), "rstream_open");
    cfg.stream = stream;
    cfg.role = RPIPE_WRITER;
    must(rpipe(&out, &cfg), "rpipe");
    cfg.role = RPIPE_READER;
    must(rpipe(&in, &cfg), "rpipe");
    must(rwait(out), "rwait");
    for (begun = end = now(); end - begun < w->seconds; end = now(), n += BATCH) {
        for (int i = 0; i < BATCH; i++)
            must(rsend(out, text, w->bytes, 0), "rsend");
        for (int i = 0; i < BATCH; i++)
            must(rrecv(in, text, sizeof(text), NULL, 0), "rrecv");
    }
    w->rate = (double)n / (end - begun);
    must(rclose(out), "rclose");
    must(rclose(in), "rclose");
    must(rstream_close(stream), "rstream_close");
    return NULL;
}

/* In a process of its own: so many threads. Returns the sum of their rates. */
static double run(int threads, size_t bytes, double seconds)
{
    struct worker w[MOST];
    double sum = 0;

    must(rinit(NULL, NULL), "rinit");
    for (int i = 0; i < threads; i++) {
        w[i] = (struct worker){.context = (uint64_t)i, .bytes = bytes, .seconds = seconds};
        if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        sum += w[i].rate;
    }
    must(rexit(), "rexit");
    return sum;
}

/* So many processes with so many threads. */
static double together(int processes, int threads, size_t bytes, double seconds)
{
    int to[2];
    double sum = 0, one;

    if (pipe(to) != 0)
        exit(1);
    for (int i = 0; i < processes; i++)
        if (fork() == 0) {
            one = run(threads, bytes, seconds);
            _exit(write(to[1], &one, sizeof(one)) == sizeof(one) ? 0 : 1);
        }
    for (int i = 0; i < processes; i++) {
        int status;

        if (wait(&status) < 0 || status != 0 || read(to[0], &one, sizeof(one)) != sizeof(one)) {
            fprintf(stderr, "threads: a process has failed\n");
            exit(1);
        }
        sum += one;
    }
    close(to[0]);
    close(to[1]);
    return sum;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const size_t size[] = {8, 64};
    int n = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 3 ? atoi(argv[3]) : 9;
    double seconds = (argc > 2 ? atof(argv[2]) : 200) * 1e-3;

    if (n < 1 || n > MOST || rounds < 1 || rounds > 1000 || seconds <= 0) {
        fprintf(stderr, "usage: threads [N [MILLISECONDS [ROUNDS]]], N to %d\n", MOST);
        return 2;
    }
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    printf("%d threads or processes, %d rounds of %.0f ms\n", n, rounds, seconds * 1e3);
    for (size_t s = 0; s < 2; s++) {
        double *threads = calloc((size_t)rounds, sizeof(double)),
               *processes = calloc((size_t)rounds, sizeof(double)),
               *ratio = calloc((size_t)rounds, sizeof(double));

        if (threads == NULL || processes == NULL || ratio == NULL)
            return 1;
        for (int i = 0; i < rounds; i++) {
            threads[i] = together(1, n, size[s], seconds);
            processes[i] = together(n, 1, size[s], seconds);
            ratio[i] = threads[i] / processes[i];
        }
        qsort(threads, (size_t)rounds, sizeof(double), compare);
        qsort(processes, (size_t)rounds, sizeof(double), compare);
        qsort(ratio, (size_t)rounds, sizeof(double), compare);
        printf("%3zu bytes: threads %.1f M/s, processes %.1f M/s, ratio %.3f (%.3f to %.3f)\n",
               size[s], threads[rounds / 2] * 1e-6, processes[rounds / 2] * 1e-6, ratio[rounds / 2],
               ratio[0], ratio[rounds - 1]);
        free(threads);
        free(processes);
        free(ratio);
    }
    return 0;
}
