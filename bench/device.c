/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c: messages in memory of a GPU, beside the same memory and flags by hand.
 *
 * Two processes have the same device. A message is filled by a copy on the device, which is waited for, and is read where it is. By
 * hand that is memory of the reader that the writer has imported, a ring of flags in shared memory, and a counter of what the reader
 * has given back: what a program would write with the driver's calls for memory between processes alone. Both ways use contrib/gpu for
 * memory and for the wait, so the difference is the pipe.
 *
 *   handed over   to and fro, without any work of the device: what the processors do
 *   one way       to and fro, each message filled by a copy
 *   stream        messages filled by copies, as many in flight as fit into 128 MiB, to 64
 *
 * usage: device [-a cuda|hip] [-l DRIVER] [-n DEVICE] [-t MILLISECONDS] [-r ROUNDS]
 * Rounds of both ways follow each other; medians, and the median of the ratios.
 */
#include "bench/two_cores.h"

#include "rgpu.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rinfo.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>

#define MEMORY ((size_t)128 << 20)
#define BYTES_MOST ((size_t)16 << 20)
#define WINDOW 64

static struct {
    const char *api, *library;
    int device, rounds;
    double ms;
} options = {"cuda", NULL, 0, 9, 100};

static int rank;
static rgpu_t gpu;
static const rmemory_ops_t *memory;
static void *stream;
static int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
static void *source; /* of the device: what messages are filled with */

/* A way of messages to the other process and from it. */
struct way {
    void *(*next)(size_t bytes); /* memory of the next message; waits until there is some */
    void (*send)(size_t bytes, bool last);
    bool (*receive)(void); /* is it the last one? */
    void (*give_back)(void);
};

static void must(int rc, const char *call)
{
    char error[RGPU_ERROR_BYTES] = "";

    if (rc == 0)
        return;
    if (gpu != NULL)
        rgpu_error(gpu, error, sizeof(error));
    fprintf(stderr, "device: rank %d: %s: %d; %s; %s\n", rank, call, rc, rerror(NULL), error);
    exit(1);
}

/* ---- by pipes ---- */

static rch_t out, in;
static raddr_t filling, reading;

static void *pipe_next(size_t bytes)
{
    filling = rmalloc(out, bytes);
    must(filling == ADDR_NULL ? -errno : 0, "rmalloc");
    return rmem(out, filling);
}

static void pipe_send(size_t bytes, bool last)
{
    (void)bytes;
    must(rset_tag(out, filling, last), "rset_tag");
    must(rwrite(out, filling), "rwrite");
}

static bool pipe_receive(void)
{
    must(rread(in, &reading, NULL), "rread");
    return rtag(in, reading) != 0;
}

static void pipe_give_back(void) { must(rfree(in, reading), "rfree"); }

static const struct way by_pipes = {pipe_next, pipe_send, pipe_receive, pipe_give_back};

static void open_pipe(rch_t *ch, rpipe_role_t role)
{
    rpipe_config_t cfg = {
        .role = role, .peer = 1 - rank, .heap_bytes = MEMORY, .slots = WINDOW, .memory = memory};

    must(rpipe(ch, &cfg), "rpipe");
}

/* ---- by hand ---- */

struct hand_line {
    _Alignas(LINE) _Atomic uint64_t word;
};

/* What one process writes to the other one: a flag is the number of its message, from 1, twice, and 1 more for the last one. */
struct hand {
    struct hand_line flag[WINDOW], given_back;
};

static struct hand *hands;       /* of rank 0, of rank 1 */
static char *hand_out, *hand_in; /* the peer's memory, and ours */
static uint64_t hand_sent, hand_got;
static size_t hand_bytes, hand_window = WINDOW; /* of a round */

/* Gives the core away now and then, for machines with fewer cores than processes. */
static void hand_pause(void)
{
    static unsigned pauses;

#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++pauses % 1024 == 0)
        sched_yield();
}

/* A round begins: messages of this size. */
static void hand_begin(size_t bytes)
{
    hand_bytes = bytes;
    hand_window = MEMORY / bytes < WINDOW ? MEMORY / bytes : WINDOW;
}

static void *hand_next(size_t bytes)
{
    /* pairs with the release of hand_give_back */
    while (hand_sent -
               atomic_load_explicit(&hands[1 - rank].given_back.word, memory_order_acquire) >=
           hand_window)
        hand_pause();
    return hand_out + hand_sent % hand_window * bytes;
}

static void hand_send(size_t bytes, bool last)
{
    char *at = hand_out + hand_sent % hand_window * bytes;

    must(memory->left(memory->argument, at, bytes), "left");
    /* pairs with the acquire of hand_receive */
    atomic_store_explicit(&hands[rank].flag[hand_sent % WINDOW].word, (hand_sent + 1) << 1 | last,
                          memory_order_release);
    hand_sent++;
}

static bool hand_receive(void)
{
    uint64_t word;

    /* pairs with the release of hand_send */
    while ((word = atomic_load_explicit(&hands[1 - rank].flag[hand_got % WINDOW].word,
                                        memory_order_acquire)) >>
               1 !=
           hand_got + 1)
        hand_pause();
    return word & 1;
}

static void hand_give_back(void)
{
    /* pairs with the acquire of hand_next */
    atomic_store_explicit(&hands[rank].given_back.word, ++hand_got, memory_order_release);
}

static const struct way by_hand = {hand_next, hand_send, hand_receive, hand_give_back};

static void send_descriptor(int socket, int fd)
{
    char byte = 0, control[CMSG_SPACE(sizeof(fd))] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    *c = (struct cmsghdr){CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    if (sendmsg(socket, &m, 0) != 1)
        fail("sendmsg");
}

static int receive_descriptor(int socket)
{
    int fd;
    char byte, control[CMSG_SPACE(sizeof(fd))] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};

    if (recvmsg(socket, &m, 0) != 1 || CMSG_FIRSTHDR(&m) == NULL)
        fail("recvmsg");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
    return fd;
}

static void open_by_hand(int socket)
{
    void *base;
    int fd;

    must(memory->alloc(memory->argument, MEMORY, &base, &fd), "alloc");
    hand_in = base;
    send_descriptor(socket, fd);
    close(fd);
    fd = receive_descriptor(socket);
    must(memory->import(memory->argument, fd, MEMORY, &base), "import");
    hand_out = base;
    close(fd);
}

/* ---- rounds ---- */

static void fill(const struct way *way, size_t bytes, bool with_copy)
{
    void *at = way->next(bytes);

    if (with_copy)
        must(copy((uintptr_t)at, (uintptr_t)source, bytes, stream), "a copy on the device");
}

/* ns of one way. */
static double to_and_fro(const struct way *way, size_t bytes, bool with_copy)
{
    double begun = now_ns(), end = begun + options.ms * 1e6;
    uint64_t n = 0;
    bool last = false;

    while (!last) {
        if (rank == 1) {
            last = way->receive();
            way->give_back();
        } else {
            last = now_ns() >= end;
        }
        fill(way, bytes, with_copy);
        way->send(bytes, last);
        if (rank == 0) {
            (void)way->receive();
            way->give_back();
        }
        n++;
    }
    return (now_ns() - begun) / (2 * (double)n);
}

/* ns of a message in a stream. */
static double one_way_stream(const struct way *way, size_t bytes, bool with_copy)
{
    double begun = now_ns(), end = begun + options.ms * 1e6;
    uint64_t n = 0;
    bool last = false;

    for (; !last; n++) {
        if (rank == 1) {
            last = way->receive();
            way->give_back();
        } else {
            last = now_ns() >= end;
            fill(way, bytes, with_copy);
            way->send(bytes, last);
        }
    }
    if (rank == 1) { /* all of it has been read */
        fill(way, bytes, false);
        way->send(bytes, true);
    } else {
        (void)way->receive();
        way->give_back();
    }
    return (now_ns() - begun) / (double)n;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, (size_t)options.rounds, sizeof(*values), compare);
    return values[options.rounds / 2];
}

static void measure(const char *what, double (*run)(const struct way *, size_t, bool), size_t bytes,
                    bool with_copy)
{
    double ours[ROUNDS_MAX], theirs[ROUNDS_MAX], ratio[ROUNDS_MAX], ns, by;

    hand_begin(bytes);
    for (int i = -1; i < options.rounds; i++) { /* the first one warms up */
        bool first = i % 2 == 0;

        if (first)
            ns = run(&by_pipes, bytes, with_copy);
        by = run(&by_hand, bytes, with_copy);
        if (!first)
            ns = run(&by_pipes, bytes, with_copy);
        if (i >= 0) {
            ours[i] = ns;
            theirs[i] = by;
            ratio[i] = ns / by;
        }
    }
    if (rank != 0)
        return;
    ns = median(ours);
    by = median(theirs);
    (void)median(ratio);
    printf("%-12s %9zu %12.1f %12.1f %9.2f %9.2f   %.3f (%.3f to %.3f)\n", what, bytes, ns, by,
           (double)bytes / ns, (double)bytes / by, ratio[options.rounds / 2], ratio[0],
           ratio[options.rounds - 1]);
    fflush(stdout);
}

/* ---- the processes ---- */

static int some_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int s = socket(AF_INET, SOCK_STREAM, 0);

    if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        getsockname(s, (struct sockaddr *)&at, &size) != 0)
        fail("a port of this host");
    close(s);
    return ntohs(at.sin_port);
}

static void open_device(void)
{
    bool hip = strcmp(options.api, "hip") == 0;
    char error[RGPU_ERROR_BYTES] = "";
    int (*stream_create)(void **stream, unsigned flags);
    void *f, *base;
    int fd;

    if (rgpu_open(&gpu, options.api, options.library, options.device, error, sizeof(error)) != 0) {
        fprintf(stderr, "device: %s\n", error);
        exit(1);
    }
    memory = rgpu_memory(gpu);
    must(rgpu_use(gpu), "the context");
    f = rgpu_function(gpu, hip ? "hipMemcpyDtoDAsync" : "cuMemcpyDtoDAsync_v2");
    memcpy(&copy, &f, sizeof(f));
    f = rgpu_function(gpu, hip ? "hipStreamCreateWithFlags" : "cuStreamCreate");
    memcpy(&stream_create, &f, sizeof(f));
    if (copy == NULL || stream_create == NULL)
        must(-ENOENT, "copies of the driver");
    must(stream_create(&stream, 1), "a stream");
    must(memory->alloc(memory->argument, BYTES_MOST, &base, &fd), "alloc");
    source = base;
    close(fd);
}

static void run(int socket)
{
    static const size_t sizes[] = {64, 4096, 65536, 1 << 20, 16 << 20};

    must(rinit(NULL, NULL), "rinit");
    open_device();
    open_by_hand(socket);
    open_pipe(rank == 0 ? &out : &in, rank == 0 ? RPIPE_WRITER : RPIPE_READER);
    open_pipe(rank == 0 ? &in : &out, rank == 0 ? RPIPE_READER : RPIPE_WRITER);
    must(rwait(out), "rwait");
    must(rwait(in), "rwait");
    if (rank == 0) {
        printf("%s (%s), %d rounds of %.0f ms, medians\n", rgpu_name(gpu), options.api,
               options.rounds, options.ms);
        printf("%-12s %9s %12s %12s %9s %9s   %s\n", "", "bytes", "pipe/ns", "by hand/ns", "GB/s",
               "GB/s", "ratio of times");
    }
    rgpu_wait_for(gpu, RGPU_WAIT_NOT, NULL);
    measure("handed over", to_and_fro, 64, false);
    rgpu_wait_for(gpu, RGPU_WAIT_STREAM, stream);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        measure("one way", to_and_fro, sizes[i], true);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        measure("stream", one_way_stream, sizes[i], true);
    must(rexit(), "rexit");
}

int main(int argc, char **argv)
{
    int option, sockets[2];
    pid_t child;
    char text[40];

    while ((option = getopt(argc, argv, "a:l:n:t:r:")) != -1)
        switch (option) {
        case 'a':
            options.api = optarg;
            break;
        case 'l':
            options.library = optarg;
            break;
        case 'n':
            options.device = atoi(optarg);
            break;
        case 't':
            options.ms = atof(optarg);
            break;
        case 'r':
            options.rounds = atoi(optarg);
            break;
        default:
            return 2;
        }
    if (options.rounds < 1 || options.rounds > ROUNDS_MAX || options.ms <= 0) {
        fprintf(stderr, "device: -r is from 1 to %d, -t above 0\n", ROUNDS_MAX);
        return 2;
    }
    hands = shared_memory(2 * sizeof(*hands));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
        fail("socketpair");
    setenv("RPIPE_BOOTSTRAP", "tcp", 1);
    setenv("RPIPE_SIZE", "2", 1);
    (void)snprintf(text, sizeof(text), "127.0.0.1:%d", some_port());
    setenv("RPIPE_ROOT", text, 1);
    (void)snprintf(text, sizeof(text), "%.0f", now_ns());
    setenv("RPIPE_SECRET", text, 1);
    alarm(300); /* what waits for a flag of a process that is gone */
    child = second_process((int[]){-1, -1});
    rank = child == 0;
    setenv("RPIPE_RANK", rank == 0 ? "0" : "1", 1);
    run(sockets[rank]);
    if (rank == 1)
        _exit(0);
    return second_process_is_good(child) ? 0 : 1;
}
