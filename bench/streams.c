/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * streams.c: rate and resources of the categories in which threads share what a device has, beside table 3.2 of Zambre 2020.
 *
 *   bench/streams [NETWORK [THREADS [MILLISECONDS [ROUNDS]]]]     (shm 2 100 5)
 *
 * NETWORK is shm, tcp, verbs or ofi. Each thread has a stream of the category and in it a pipe to itself, and writes and reads 32 messages of 8 bytes
 * by turns, corked. Each row: the category, messages per second of all threads (median of the rounds, which follow each other through all
 * rows), and descriptors and memory of a stream and its pipe, as the process has more of with them; rate and memory also relative to "everywhere", as the cited numbers are (16 threads, ConnectX-4).
 * Then three rows without such a number: without a cork, where a network may gather messages by time; with each message posted by itself; and
 * without streams, where all threads take one mutex for their calls. Then what was obtained, in words, and what of the memory is that of the
 * stream: the other part is what a further pipe in it takes.
 */
#include <rinfo.h>
#include <rpipe.h>

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
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

enum manner {
    CORKED,     /* in a stream; a batch is posted at once */
    UNCORKED,   /* in a stream; as the network posts messages that follow each other */
    ONE_BY_ONE, /* in a stream; each message is posted by itself */
    ONE_LOCK    /* in no stream; corked, and all threads take one mutex for their calls */
};

static const struct row {
    const char *name;
    rstream_share_t share;
    double rate, hardware, software; /* cited, in percent of the first; 0: nothing is */
    enum manner manner;
} rows[] = {
    {"everywhere", RSTREAM_EVERYWHERE, 100, 100, 100, CORKED},
    {"2xdynamic", RSTREAM_2XDYNAMIC, 100, 31.25, 200, CORKED},
    {"dynamic", RSTREAM_DYNAMIC, 94, 18.75, 100, CORKED},
    {"shared dynamic", RSTREAM_SHARED_DYNAMIC, 65, 12.5, 100, CORKED},
    {"static", RSTREAM_STATIC, 64, 6.25, 100, CORKED},
    {"threads", RSTREAM_THREADS, 3, 6.25, 6.25, CORKED},
    {"uncorked", RSTREAM_EVERYWHERE, 0, 0, 0, UNCORKED},
    {"one by one", RSTREAM_EVERYWHERE, 0, 0, 0, ONE_BY_ONE},
    {"one lock", RSTREAM_THREADS, 0, 0, 0, ONE_LOCK},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))
enum { ROW_EVERYWHERE = 0, ROW_UNCORKED = 6, ROW_ONE_BY_ONE, ROW_ONE_LOCK };

struct usage {
    double descriptors, memory; /* bytes */
};

struct result {
    double rate;       /* messages per second of all threads */
    struct usage both; /* of a stream, and of one pipe in it with both ends */
    struct usage pipe; /* of a further one in the same stream */
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
    pthread_barrier_t *phase;
    const struct row *row;
    uint64_t context;
    double seconds;
    double rate;
    char obtained[320];
};

struct pipe_pair {
    rch_t out, in;
};

static struct pipe_pair open_pipe(struct worker *w, rstream_t stream, uint64_t context)
{
    rpipe_config_t cfg = {.role = RPIPE_WRITER, .peer = 0, .context = context, .stream = stream};
    struct pipe_pair p;
    rinfo_pipe_t info;
    const char *got;

    must(rpipe(&p.out, &cfg), "rpipe");
    cfg.role = RPIPE_READER;
    must(rpipe(&p.in, &cfg), "rpipe");
    must(rwait(p.out), "rwait");
    must(rwait(p.in), "rwait");
    must(rinfo_describe(p.out, &info), "rinfo_describe");
    got = strstr(info.why, "stream: ");
    snprintf(w->obtained, sizeof(w->obtained), "%s",
             got != NULL ? got + strlen("stream: ") : "none, and no stream");
    return p;
}

static void close_pipe(struct pipe_pair p)
{
    must(rclose(p.out), "rclose");
    must(rclose(p.in), "rclose");
}

static void send_batch(struct pipe_pair p, enum manner manner)
{
    char text[8] = {0};

    if (manner != UNCORKED)
        must(rcork(p.out, 1), "rcork");
    for (int i = 0; i < BATCH; i++) {
        must(rsend(p.out, text, sizeof(text), 0), "rsend");
        if (manner == ONE_BY_ONE) {
            must(rcork(p.out, 0), "rcork");
            must(rcork(p.out, 1), "rcork");
        }
    }
    if (manner != UNCORKED)
        must(rcork(p.out, 0), "rcork");
}

static pthread_mutex_t one_lock = PTHREAD_MUTEX_INITIALIZER;

/* As a program without streams: the lock is held for what can be done at once, and not while a thread waits. */
static void batch_locked(struct pipe_pair p)
{
    char text[8];
    int n = 0, rc = R_SUCCESS;

    pthread_mutex_lock(&one_lock);
    send_batch(p, ONE_LOCK);
    pthread_mutex_unlock(&one_lock);
    while (n < BATCH) {
        pthread_mutex_lock(&one_lock);
        while (n < BATCH && (rc = rrecv(p.in, text, sizeof(text), NULL, R_NOWAIT)) == R_SUCCESS)
            n++;
        pthread_mutex_unlock(&one_lock);
        if (rc == R_PENDING)
            sched_yield();
        else
            must(rc, "rrecv");
    }
}

/* 32 messages there and then back. */
static void batch(struct pipe_pair p, enum manner manner)
{
    char text[8];

    if (manner == ONE_LOCK) {
        batch_locked(p);
        return;
    }
    send_batch(p, manner);
    for (int i = 0; i < BATCH; i++)
        must(rrecv(p.in, text, sizeof(text), NULL, 0), "rrecv");
}

/* All threads stand still meanwhile, and the first one counts. */
static void stand_still(pthread_barrier_t *phase)
{
    (void)pthread_barrier_wait(phase);
    (void)pthread_barrier_wait(phase);
}

static void *work(void *of)
{
    struct worker *w = of;
    const enum manner manner = w->row->manner;
    rstream_config_t cfg = {.share = w->row->share};
    struct pipe_pair p, further, before;
    rstream_t stream = NULL;
    double begun, end;
    uint64_t n = 0;

    before = open_pipe(w, NULL, w->context + MOST + 1);
    batch(before, manner); /* what a thread has once is not counted */
    stand_still(w->phase);
    if (manner != ONE_LOCK)
        must(rstream_open(&stream, &cfg), "rstream_open");
    p = open_pipe(w, stream, w->context);
    batch(p, manner);
    stand_still(w->phase);
    further = open_pipe(w, stream, w->context + 2 * (MOST + 1));
    batch(further, manner);
    stand_still(w->phase);
    close_pipe(further);
    close_pipe(before);
    (void)pthread_barrier_wait(w->phase);
    for (begun = end = now(); end - begun < w->seconds; end = now(), n += BATCH)
        batch(p, manner);
    w->rate = (double)n / (end - begun);
    close_pipe(p);
    if (stream != NULL)
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

/* Queues that the driver of an RDMA device has mapped here. */
static double memory_of_devices(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long from, to;
    char line[512];
    double sum = 0;

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        if (strstr(line, "/dev/infiniband/") != NULL && sscanf(line, "%lx-%lx", &from, &to) == 2)
            sum += (double)(to - from);
    if (maps != NULL)
        fclose(maps);
    return sum;
}

static double memory(void)
{
#ifdef HAVE_MALLINFO2
    const struct mallinfo2 m = mallinfo2();

    return (double)m.uordblks + (double)m.hblkhd + memory_of_devices();
#else
    return 0; /* musl has no such call: the columns are empty */
#endif
}

/* The threads stand still meanwhile. */
static struct usage count(pthread_barrier_t *phase)
{
    struct usage u;

    (void)pthread_barrier_wait(phase);
    u = (struct usage){descriptors(), memory()};
    (void)pthread_barrier_wait(phase);
    return u;
}

static struct usage more_of_each(struct usage now, struct usage before, int threads)
{
    return (struct usage){(now.descriptors - before.descriptors) / threads,
                          (now.memory - before.memory) / threads};
}

static struct result measure(const struct row *row, int threads, double seconds)
{
    struct worker w[MOST] = {{.context = 0}}, first = {.context = MOST};
    struct result result = {.rate = 0};
    struct usage none, one, two;
    pthread_barrier_t phase;
    struct pipe_pair p;

    must(rinit(NULL, NULL), "rinit");
    p = open_pipe(&first, NULL, first.context); /* opens the backend, which is not counted */
    (void)pthread_barrier_init(&phase, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        w[i] = (struct worker){
            .phase = &phase, .row = row, .context = (uint64_t)i, .seconds = seconds};
        if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            exit(1);
    }
    none = count(&phase);
    one = count(&phase);
    two = count(&phase);
    (void)pthread_barrier_wait(&phase);
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        result.rate += w[i].rate;
    }
    result.both = more_of_each(one, none, threads);
    result.pipe = more_of_each(two, one, threads);
    memcpy(result.obtained, w[0].obtained, sizeof(result.obtained));
    close_pipe(p);
    must(rexit(), "rexit");
    return result;
}

/* False: it cannot be had here; the reason has been printed. */
static bool measure_apart(const struct row *row, int threads, double seconds, struct result *to)
{
    int end[2], status;
    bool complete;
    pid_t child;

    if (pipe(end) != 0)
        exit(1);
    child = fork();
    if (child == 0) {
        const struct result r = measure(row, threads, seconds);

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

/* ---- what is printed ---- */

static const char *cited(char text[16], int decimals, double value)
{
    if (value > 0)
        snprintf(text, 16, "%.*f", decimals, value);
    else
        strcpy(text, "-");
    return text;
}

static void print_row(const struct row *row, const struct result *r, double rate,
                      const struct result *first, double first_rate)
{
    char a[16], b[16], c[16];

    printf("%-15s %8.3f %6.0f %6s %7.2f %6.1f %6.0f %9s %6s\n", row->name, rate * 1e-6,
           100 * rate / first_rate, cited(a, 0, row->rate), r->both.descriptors,
           r->both.memory / 1024,
           first->both.memory > 0 ? 100 * r->both.memory / first->both.memory : 0,
           cited(b, 2, row->hardware), cited(c, 2, row->software));
}

/* `of` is what is there beside a pipe: the stream. */
static void print_obtained(const struct row *row, const struct result *r)
{
    const struct usage of = more_of_each(r->both, r->pipe, 1);

    printf("%s: %s\n", row->name, r->obtained);
    if (row->manner == CORKED)
        printf("    of the stream %.2f descriptors, %.2f KiB; of the pipe %.2f, %.2f KiB\n",
               of.descriptors, of.memory / 1024, r->pipe.descriptors, r->pipe.memory / 1024);
}

int main(int argc, char **argv)
{
    static double rate[ROWS][ROUNDS_MOST];
    struct result result[ROWS];
    double median[ROWS];
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
        for (size_t i = 0; i < ROWS; i++) {
            if (!measure_apart(&rows[i], threads, seconds, &result[i])) {
                printf("%s: cannot be measured here\n", network);
                return 77;
            }
            rate[i][r] = result[i].rate;
        }
    for (size_t i = 0; i < ROWS; i++) {
        qsort(rate[i], (size_t)rounds, sizeof(double), compare);
        median[i] = rate[i][rounds / 2];
    }
    printf("%s, %d threads on %ld processors, %d rounds of %.0f ms; cited: Zambre 2020, table 3.2\n"
           "%-15s %8s %6s %6s %7s %6s %6s %9s %6s\n",
           network, threads, sysconf(_SC_NPROCESSORS_ONLN), rounds, seconds * 1e3, "category",
           "M/s", "%", "cited", "desc.", "KiB", "%", "hw cited", "cited");
    for (size_t i = 0; i < ROWS; i++)
        print_row(&rows[i], &result[i], median[i], &result[ROW_EVERYWHERE], median[ROW_EVERYWHERE]);
    printf("rates: corked %.2f times uncorked, %.2f times one by one; with streams %.2f times one "
           "lock\n",
           median[ROW_EVERYWHERE] / median[ROW_UNCORKED],
           median[ROW_EVERYWHERE] / median[ROW_ONE_BY_ONE],
           median[ROW_EVERYWHERE] / median[ROW_ONE_LOCK]);
    for (size_t i = 0; i < ROWS; i++)
        print_obtained(&rows[i], &result[i]);
    return 0;
}
