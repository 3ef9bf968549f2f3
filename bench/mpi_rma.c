/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_rma.c: one-sided MPI as a peer of pipes, with each of its ways to synchronize; what bench/compare_rma runs.
 *
 * Notified: rank 0 transfers a message, rank 1 finds out that it is there, and transfers one back; half of the time of both.
 * With fences, and with post, start, complete and wait (pscw), the end of an epoch is the notification. With locks and with flush
 * the target polls a flag in its window, which the origin puts behind the payload: in the same exclusive lock, after a
 * flush, since one epoch has no order; or in an epoch that is open all the time (flush). With get the owner of the message
 * notifies first, and the reader fetches then. Origin only: rank 0 transfers again and again, each time until MPI has completed
 * it at the target, which is not notified.
 *
 * With touch the sender of a notified message fills it, and its receiver sums it; with plain neither accesses it. Before each way of
 * notified messages is measured, some are sent whose bytes the receiver checks: a library that puts them elsewhere fails.
 *
 * MPICH over UCX, and Open MPI over TCP, transfer while the target makes calls: with probe a target that polls its flag probes for a message
 * between two polls. MPICH 4.0.2 puts into the wrong place of a window of MPI_Win_allocate whose size is no multiple of 64 bytes, so
 * the window has whole pages. With dynamic the memory is attached to a dynamic window, as that of the backend mpi of pipes is, and
 * payloads are filled and summed (what bench/btl_mpi runs).
 *
 * usage: mpirun -n 2 mpi_rma BYTES SECONDS touch|plain|dynamic [probe] [WAY...]; a WAY is put or get, then -lock, -pscw, -fence or -flush, and
 * -origin for origin only: put-lock, get-flush-origin. Default: all. Prints one line of JSON: ns of a message for each way.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_BYTES 64 /* a line: the flag; the payload is behind it */
#define PAGE_BYTES 4096
#define FIRST_ITERATIONS 64
#define CHECKED_MESSAGES 8
#define GROWTH_MOST 20.0

struct rma {
    int rank, bytes;
    char *base; /* of the window: flag and payload that the peer writes or fetches */
    char *buf;  /* the other end of a transfer */
    uint64_t message, sum;
    bool touch, probe, dynamic;
    MPI_Aint there; /* displacement of the peer's base */
    MPI_Win win;
};

static void rma_fill(struct rma *r, char *at)
{
    if (r->touch)
        memset(at, (int)(r->message & 0x7f), (size_t)r->bytes);
}

static void rma_sum(struct rma *r, const char *at)
{
    uint64_t word, sum = 0;
    size_t bytes = (size_t)r->bytes, i;

    if (!r->touch)
        return;
    for (i = 0; i + sizeof(word) <= bytes; i += sizeof(word)) {
        memcpy(&word, at + i, sizeof(word));
        sum += word;
    }
    for (; i < bytes; i++)
        sum += (unsigned char)at[i];
    r->sum += sum;
}

static void rma_put(struct rma *r)
{
    MPI_Put(r->buf, r->bytes, MPI_BYTE, 1 - r->rank, r->there + FLAG_BYTES, r->bytes, MPI_BYTE,
            r->win);
}

static void rma_get(struct rma *r)
{
    MPI_Get(r->buf, r->bytes, MPI_BYTE, 1 - r->rank, r->there + FLAG_BYTES, r->bytes, MPI_BYTE,
            r->win);
}

static void rma_put_flag(struct rma *r)
{
    MPI_Put(&r->message, 1, MPI_UINT64_T, 1 - r->rank, r->there, 1, MPI_UINT64_T, r->win);
}

/* The memory model is unified: what has been put becomes visible without a call of the target. */
static void rma_await_flag(struct rma *r)
{
    while (__atomic_load_n((uint64_t *)(void *)r->base, __ATOMIC_ACQUIRE) != r->message) {
        int found;

        if (r->probe)
            MPI_Iprobe(1 - r->rank, 0, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    }
}

/* ---- one message from rank `from` to the other, which is notified; both call it ---- */

static void notified_put_lock(struct rma *r, int from)
{
    if (r->rank != from) {
        rma_await_flag(r);
        return;
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1 - from, 0, r->win);
    rma_put(r);
    MPI_Win_flush(1 - from, r->win);
    rma_put_flag(r);
    MPI_Win_unlock(1 - from, r->win);
}

static void notified_get_lock(struct rma *r, int from)
{
    if (r->rank == from) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1 - from, 0, r->win);
        rma_put_flag(r);
        MPI_Win_unlock(1 - from, r->win);
        return;
    }
    rma_await_flag(r);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, from, 0, r->win);
    rma_get(r);
    MPI_Win_unlock(from, r->win);
}

static void notified_put_flush(struct rma *r, int from)
{
    if (r->rank != from) {
        rma_await_flag(r);
        return;
    }
    rma_put(r);
    MPI_Win_flush(1 - from, r->win);
    rma_put_flag(r);
    MPI_Win_flush(1 - from, r->win);
}

static void notified_get_flush(struct rma *r, int from)
{
    if (r->rank == from) {
        MPI_Win_sync(r->win);
        rma_put_flag(r);
        MPI_Win_flush(1 - from, r->win);
        return;
    }
    rma_await_flag(r);
    rma_get(r);
    MPI_Win_flush(from, r->win);
}

static MPI_Group rma_group_of_peer(struct rma *r)
{
    MPI_Group all, peer;
    int other = 1 - r->rank;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &other, &peer);
    MPI_Group_free(&all);
    return peer;
}

static MPI_Group peer_group;

static void rma_epoch_pscw(struct rma *r, int origin, void (*transfer)(struct rma *r))
{
    if (r->rank == origin) {
        MPI_Win_start(peer_group, 0, r->win);
        transfer(r);
        MPI_Win_complete(r->win);
    } else {
        MPI_Win_post(peer_group, 0, r->win);
        MPI_Win_wait(r->win);
    }
}

static void notified_put_pscw(struct rma *r, int from) { rma_epoch_pscw(r, from, rma_put); }

static void notified_get_pscw(struct rma *r, int from) { rma_epoch_pscw(r, 1 - from, rma_get); }

static void notified_put_fence(struct rma *r, int from)
{
    if (r->rank == from)
        rma_put(r);
    MPI_Win_fence(0, r->win);
}

/* The fence of the owner is the notification; a second one completes the transfer. */
static void notified_get_fence(struct rma *r, int from)
{
    MPI_Win_fence(0, r->win);
    if (r->rank != from)
        rma_get(r);
    MPI_Win_fence(0, r->win);
}

/* ---- one transfer of rank 0, completed at the target ---- */

static void origin_lock(struct rma *r, void (*transfer)(struct rma *r))
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1 - r->rank, 0, r->win);
    transfer(r);
    MPI_Win_unlock(1 - r->rank, r->win);
}

static void origin_flush(struct rma *r, void (*transfer)(struct rma *r))
{
    transfer(r);
    MPI_Win_flush(1 - r->rank, r->win);
}

static const struct way {
    const char *name;
    void (*notified)(struct rma *r, int from);
    void (*origin)(struct rma *r, void (*transfer)(struct rma *r));
    void (*transfer)(struct rma *r);
    bool open; /* an epoch with all is open all the time */
} ways[] = {
    {"put-lock", notified_put_lock, NULL, NULL, false},
    {"put-pscw", notified_put_pscw, NULL, NULL, false},
    {"put-fence", notified_put_fence, NULL, NULL, false},
    {"put-flush", notified_put_flush, NULL, NULL, true},
    {"get-lock", notified_get_lock, NULL, NULL, false},
    {"get-pscw", notified_get_pscw, NULL, NULL, false},
    {"get-fence", notified_get_fence, NULL, NULL, false},
    {"get-flush", notified_get_flush, NULL, NULL, true},
    {"put-lock-origin", NULL, origin_lock, rma_put, false},
    {"put-flush-origin", NULL, origin_flush, rma_put, true},
    {"get-lock-origin", NULL, origin_lock, rma_get, false},
    {"get-flush-origin", NULL, origin_flush, rma_get, true},
};
#define WAYS (int)(sizeof(ways) / sizeof(*ways))

static void rma_message(struct rma *r, const struct way *way, int from)
{
    bool get = way->name[0] == 'g';

    /* what is put leaves from the private buffer, what is fetched from the window */
    if (r->rank == from)
        rma_fill(r, get ? r->base + FLAG_BYTES : r->buf);
    way->notified(r, from);
    if (r->rank != from)
        rma_sum(r, get ? r->buf : r->base + FLAG_BYTES);
}

/* Seconds that n messages each way, or n transfers, take. */
static double rma_time(struct rma *r, const struct way *way, int n)
{
    double began;

    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    if (way->notified != NULL) {
        for (int i = 0; i < n; i++) {
            r->message++;
            rma_message(r, way, 0);
            rma_message(r, way, 1);
        }
    } else if (r->rank == 0) {
        for (int i = 0; i < n; i++)
            way->origin(r, way->transfer);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - began;
}

/* The message has arrived whole: each byte is the number of the message, and its place. */
static void rma_check(struct rma *r, const struct way *way, int from)
{
    bool get = way->name[0] == 'g';
    unsigned char *at = (unsigned char *)(r->rank != from ? get ? r->buf : r->base + FLAG_BYTES
                                          : get           ? r->base + FLAG_BYTES
                                                          : r->buf);

    for (int i = 0; r->rank == from && i < r->bytes; i++)
        at[i] = (unsigned char)(r->message + (uint64_t)i);
    way->notified(r, from);
    for (int i = 0; r->rank != from && i < r->bytes; i++) {
        if (at[i] == (unsigned char)(r->message + (uint64_t)i))
            continue;
        fprintf(stderr, "mpi_rma: %s, %d bytes, message %llu: byte %d is %d\n", way->name, r->bytes,
                (unsigned long long)r->message, i, at[i]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* ns of a message, from a run of at least so many seconds; the runs before find out how many messages that are. */
static double rma_measure(struct rma *r, const struct way *way, double seconds)
{
    int n = FIRST_ITERATIONS;
    double took, growth;

    r->message = 0;
    memset(r->base, 0, FLAG_BYTES + (size_t)r->bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (way->open)
        MPI_Win_lock_all(MPI_MODE_NOCHECK, r->win);
    else if (strstr(way->name, "fence") != NULL)
        MPI_Win_fence(0, r->win);
    for (int i = 0; way->notified != NULL && i < CHECKED_MESSAGES; i++) {
        r->message++;
        rma_check(r, way, 0);
        rma_check(r, way, 1);
    }
    for (;;) {
        took = rma_time(r, way, n);
        MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (took >= seconds)
            break;
        growth = took > 0 ? 1.2 * seconds / took : GROWTH_MOST;
        n = (int)(n * (growth < GROWTH_MOST ? growth : GROWTH_MOST)) + 1;
    }
    if (way->open)
        MPI_Win_unlock_all(r->win);
    else if (strstr(way->name, "fence") != NULL)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, r->win);
    return took * 1e9 / n / (way->notified != NULL ? 2 : 1);
}

static bool rma_chosen(const char *name, char **names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return n == 0;
}

static void rma_check_arguments(int argc, char **argv, int nranks)
{
    bool valid = nranks == 2 && argc >= 4 && atoi(argv[1]) > 0 && atof(argv[2]) > 0 &&
                 (strcmp(argv[3], "touch") == 0 || strcmp(argv[3], "plain") == 0 ||
                  strcmp(argv[3], "dynamic") == 0);

    for (int i = 4; valid && i < argc; i++) {
        valid = i == 4 && strcmp(argv[i], "probe") == 0;
        for (int k = 0; k < WAYS; k++)
            valid = valid || strcmp(argv[i], ways[k].name) == 0;
    }
    if (valid)
        return;
    fprintf(stderr, "usage: mpirun -n 2 mpi_rma BYTES SECONDS touch|plain|dynamic [probe] "
                    "[{put,get}-{lock,pscw,fence,flush}[-origin]...]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* The window, and where the memory of the peer is in it. */
static void rma_make_window(struct rma *r)
{
    MPI_Aint here;

    if (!r->dynamic) {
        MPI_Win_allocate((FLAG_BYTES + r->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES, 1,
                         MPI_INFO_NULL, MPI_COMM_WORLD, &r->base, &r->win);
        return;
    }
    r->base = calloc(1, FLAG_BYTES + (size_t)r->bytes);
    if (r->base == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &r->win);
    MPI_Win_attach(r->win, r->base, FLAG_BYTES + r->bytes);
    MPI_Get_address(r->base, &here);
    MPI_Sendrecv(&here, 1, MPI_AINT, 1 - r->rank, 0, &r->there, 1, MPI_AINT, 1 - r->rank, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    struct rma r = {0};
    int nranks, length, first;
    double ns;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    rma_check_arguments(argc, argv, nranks);
    r.bytes = atoi(argv[1]);
    r.dynamic = strcmp(argv[3], "dynamic") == 0;
    r.touch = r.dynamic || strcmp(argv[3], "touch") == 0;
    first = argc > 4 && strcmp(argv[4], "probe") == 0 ? 5 : 4;
    r.probe = r.dynamic || first == 5;
    r.buf = calloc(1, (size_t)r.bytes);
    if (r.buf == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    rma_make_window(&r);
    peer_group = rma_group_of_peer(&r);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    for (char *at = version; *at != '\0'; at++)
        *at = *at == '\t' ? ' ' : *at; /* the text goes into JSON */
    if (r.rank == 0)
        printf("{\"library\": \"%s\", \"bytes\": %d", version, r.bytes);
    for (int i = 0; i < WAYS; i++) {
        if (!rma_chosen(ways[i].name, argv + first, argc - first))
            continue;
        ns = rma_measure(&r, &ways[i], atof(argv[2]));
        if (r.rank == 0)
            printf(", \"%s\": %.1f", ways[i].name, ns);
    }
    if (r.rank == 0)
        printf("}\n");
    if (r.sum == 1) /* uses the sums */
        fprintf(stderr, "mpi_rma: a sum of 1\n");
    MPI_Group_free(&peer_group);
    MPI_Win_free(&r.win);
    if (r.dynamic)
        free(r.base);
    free(r.buf);
    MPI_Finalize();
    return 0;
}
