/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * streams.c: rate and resources of the categories in which threads share what a device has, beside table 3.2 of Zambre 2020.
 *
 *   bench/streams [NETWORK [THREADS [MILLISECONDS [ROUNDS]]]]     (shm 2 100 5)
 *
 * NETWORK is shm, tcp, verbs or ofi. Each thread has a stream of the category and in it a pipe to itself, and writes and reads 32 messages of 8 bytes
 * by turns, corked. Each row: the category, messages per second of all threads (median of the rounds, which follow each other through all
 * categories), and descriptors and memory for each thread, as the process has more of when the pipes are open; rate and memory also relative to "everywhere", as the cited numbers are (16 threads, ConnectX-4).
 * Then what was obtained, in words.
 */
#include <rinfo.h>
#include <rpipe.h>

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32
#define MOST 16
#define ROUNDS_MOST 100

static const struct category {
    const char *name;
    rstream_share_t share;
    double rate, hardware, software; /* cited, in percent of the first */
} categories[] = {
    {"everywhere", RSTREAM_EVERYWHERE, 100, 100, 100},
    {"2xdynamic", RSTREAM_2XDYNAMIC, 100, 31.25, 200},
    {"dynamic", RSTREAM_DYNAMIC, 94, 18.75, 100},
    {"shared dynamic", RSTREAM_SHARED_DYNAMIC, 65, 12.5, 100},
    {"static", RSTREAM_STATIC, 64, 6.25, 100},
    {"threads", RSTREAM_THREADS, 3, 6.25, 6.25},
};
#define CATEGORIES (sizeof(categories) / sizeof(categories[0]))

struct result {
    double rate;                /* messages per second of all threads */
    double descriptors, memory; /* of one thread; bytes */
    char obtained[320];
};

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
    fprintf(stderr, "streams: %s: %s\n", what, rerror(NULL));
    exit(1);
}

/* ---- one thread ---- */

struct worker {
    pthread_t thread;
    pthread_barrier_t *phase; /* opened; measured; run */
    rstream_share_t share;
    uint64_t context;
    double seconds;
    double rate;
    char obtained[320];
};

static void open_pipe(struct worker *w, rstream_t stream, rch_t *out, rch_t *in)
{
    rpipe_config_t cfg = {.role = RPIPE_WRITER, .peer = 0, .context = w->context, .stream = stream};
    rinfo_pipe_t info;
    const char *got;

    must(rpipe(out, &cfg), "rpipe");
    cfg.role = RPIPE_READER;
    must(rpipe(in, &cfg), "rpipe");
    must(rwait(*out), "rwait");
    must(rwait(*in), "rwait");
    must(rinfo_describe(*out, &info), "rinfo_describe");
    got = strstr(info.why, "stream: ");
    snprintf(w->obtained, sizeof(w->obtained), "%s", got != NULL ? got + strlen("stream: ") : "");
}

/* 32 messages there and then back. */
static void batch(rch_t out, rch_t in)
{
    char text[8] = {0};

    must(rcork(out, 1), "rcork");
    for (int i = 0; i < BATCH; i++)
        must(rsend(out, text, sizeof(text), 0), "rsend");
    must(rcork(out, 0), "rcork");
    for (int i = 0; i < BATCH; i++)
        must(rrecv(in, text, sizeof(text), NULL, 0), "rrecv");
}

static void *work(void *of)
{
    struct worker *w = of;
    rstream_config_t cfg = {.share = w->share};
    rstream_t stream;
    rch_t out, in;
    double begun, end;
    uint64_t n = 0;

    must(rstream_open(&stream, &cfg), "rstream_open");
    open_pipe(w, stream, &out, &in);
    batch(out, in);
    (void)pthread_barrier_wait(w->phase);
    (void)pthread_barrier_wait(w->phase);
    for (begun = end = now(); end - begun < w->seconds; end = now(), n += BATCH)
        batch(out, in);
    w->rate = (double)n / (end - begun);
    must(rclose(out), "rclose");
    must(rclose(in), "rclose");
    must(rstream_close(stream), "rstream_close");
    return NULL;
}

/* ---- all threads, in a process of their own ---- */

static double descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    double n = 0;

    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n;
}

static double memory(void)
{
#ifdef HAVE_MALLINFO2
    const struct mallinfo2 m = mallinfo2();

    return (double)m.uordblks + (double)m.hblkhd;
#else
    return 0; /* musl has no such call: the columns are empty */
#endif
}

static struct result measure(const struct category *c, int threads, double seconds)
{
    struct worker w[MOST] = {{.context = 0}}, first = {.context = MOST};
    struct result result = {.rate = 0};
    pthread_barrier_t phase;
    rch_t out, in;

    must(rinit(NULL, NULL), "rinit");
    open_pipe(&first, NULL, &out, &in); /* opens the backend, which is not counted */
    (void)pthread_barrier_init(&phase, NULL, (unsigned)threads + 1);
    result.descriptors = -descriptors();
    result.memory = -memory();
    for (int i = 0; i < threads; i++) {
        w[i] = (struct worker){
            .phase = &phase, .share = c->share, .context = (uint64_t)i, .seconds = seconds};
        if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            exit(1);
    }
    (void)pthread_barrier_wait(&phase);
    result.descriptors = (result.descriptors + descriptors()) / threads;
    result.memory = (result.memory + memory()) / threads;
    (void)pthread_barrier_wait(&phase);
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        result.rate += w[i].rate;
    }
    memcpy(result.obtained, w[0].obtained, sizeof(result.obtained));
    must(rclose(out), "rclose");
    must(rclose(in), "rclose");
    must(rexit(), "rexit");
    return result;
}

/* False: it cannot be had here; the reason has been printed. */
static bool measure_apart(const struct category *c, int threads, double seconds, struct result *to)
{
    int end[2], status;
    bool complete;
    pid_t child;

    if (pipe(end) != 0)
        exit(1);
    child = fork();
    if (child == 0) {
        const struct result r = measure(c, threads, seconds);

        _exit(write(end[1], &r, sizeof(r)) == sizeof(r) ? 0 : 1);
    }
    close(end[1]);
    complete = read(end[0], to, sizeof(*to)) == sizeof(*to);
    close(end[0]);
    return waitpid(child, &status, 0) == child && status == 0 && complete;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double rate[CATEGORIES][ROUNDS_MOST];
    struct result result[CATEGORIES];
    const char *network = argc > 1 ? argv[1] : "shm";
    const int threads = argc > 2 ? atoi(argv[2]) : 2, rounds = argc > 4 ? atoi(argv[4]) : 5;
    const double seconds = (argc > 3 ? atof(argv[3]) : 100) * 1e-3;

    if (threads < 1 || threads > MOST || rounds < 1 || rounds > ROUNDS_MOST || seconds <= 0) {
        fprintf(stderr,
                "usage: streams [NETWORK [THREADS [MILLISECONDS [ROUNDS]]]], to %d threads\n",
                MOST);
        return 2;
    }
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_BTL", network, 1);
    for (int r = 0; r < rounds; r++)
        for (size_t i = 0; i < CATEGORIES; i++) {
            if (!measure_apart(&categories[i], threads, seconds, &result[i])) {
                printf("%s: cannot be measured here\n", network);
                return 77;
            }
            rate[i][r] = result[i].rate;
        }
    printf("%s, %d threads, %d rounds of %.0f ms; cited: Zambre 2020, table 3.2\n"
           "%-15s %8s %6s %6s %7s %6s %6s %9s %6s\n",
           network, threads, rounds, seconds * 1e3, "category", "M/s", "%", "cited", "desc.", "KiB",
           "%", "hw cited", "cited");
    for (size_t i = 0; i < CATEGORIES; i++) {
        const struct category *c = &categories[i];

        qsort(rate[i], (size_t)rounds, sizeof(double), compare);
        printf("%-15s %8.3f %6.0f %6.0f %7.2f %6.1f %6.0f %9.2f %6.2f\n", c->name,
               rate[i][rounds / 2] * 1e-6, 100 * rate[i][rounds / 2] / rate[0][rounds / 2], c->rate,
               result[i].descriptors, result[i].memory / 1024,
               result[0].memory > 0 ? 100 * result[i].memory / result[0].memory : 0, c->hardware,
               c->software);
    }
    for (size_t i = 0; i < CATEGORIES; i++)
        printf("%s: %s\n", categories[i].name, result[i].obtained);
    return 0;
}
