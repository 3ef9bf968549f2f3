/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * received_fd.c: see received_fd.h.
 *
 * Invariants, under the lock
 * 1. count is the number of bits in `waiting`, and of requests in `discards` that are not taken.
 * 2. While count > 0 a thread is on its way to take one, unless all are in a close, or none can be
 *    started: then the next call tries again.
 *
 * The caller starts a thread only where there is none that is idle; each thread that takes a
 * descriptor starts the next one if more wait. The lock is the last one taken, and nothing waits
 * under it.
 */
#include "util/received_fd.h"

#include "util/clock.h"
#include "util/fork_fds.h"
#include "util/limit.h"
#include "util/list.h"
#include "util/log.h"
#include "util/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS 16384 /* 1,048,576 descriptors, as in fork_fds.c; untouched pages cost nothing */
#define THREADS_MOST 8
#define DISCARD_MS 100
#define SMALL_BYTES (UINT64_C(64) << 20) /* memory that is freed in place */

/* Bytes that a thread is to take out of a socket. */
struct discard {
    struct link link;
    int socket;
    size_t bytes;
    bool taken, done, abandoned;
    bool carried; /* descriptors came with the bytes */
};

struct closer {
    struct thread thread;
    bool used;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* more work, a discard is done, the end */
    uint64_t waiting[WORDS]; /* descriptors to be closed */
    int next;                /* word of the first of them, or less */
    unsigned count;          /* what waits for a thread */
    unsigned idle;           /* threads that wait for work */
    struct link discards;    /* taken or not */
    struct closer closer[THREADS_MOST];
    bool ready, stopping;
    _Atomic unsigned warned;
} received = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void received_closer(void *argument);

/* ---- lock held ---- */

static void received_init(void)
{
    pthread_condattr_t monotonic;

    if (received.ready)
        return;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&received.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    list_init(&received.discards);
    received.ready = true;
}

/* Another thread, if what waits is more than the idle ones take. */
static void received_start_thread(void)
{
    struct closer *unused = NULL;
    int i, error;

    for (i = 0; i < THREADS_MOST && unused == NULL; i++)
        unused = received.closer[i].used ? NULL : &received.closer[i];
    if (received.count <= received.idle || unused == NULL)
        return;
    error = thread_start(&unused->thread, "rmalloc-close", received_closer, &unused->thread);
    unused->used = error == 0;
    if (error != 0)
        log_few(&received.warned,
                "no thread to close descriptors that other processes have passed: %s%s; %u wait",
                strerror(error), limit_of(error), received.count);
}

static void received_add_work(void)
{
    received.count++;
    received_start_thread();
    pthread_cond_broadcast(&received.changed);
}

static struct discard *received_take_discard(void)
{
    struct link *at, *after;

    list_for_each (at, after, &received.discards) {
        struct discard *d = container_of(at, struct discard, link);

        if (!d->taken) {
            d->taken = true;
            return d;
        }
    }
    return NULL;
}

/* A descriptor to be closed; -1: none. */
static int received_take_fd(void)
{
    for (; received.next < WORDS; received.next++) {
        uint64_t *word = &received.waiting[received.next];

        if (*word != 0) {
            int bit = __builtin_ctzll(*word);

            *word &= *word - 1;
            return received.next * 64 + bit;
        }
    }
    return -1;
}

/* ---- a closing thread ---- */

static bool received_discard_bytes(int socket, size_t bytes)
{
    char buffer[4096];
    bool carried = false;
    ssize_t n = 1;

    while (bytes > 0 && n > 0) {
        struct iovec iov = {buffer, bytes < sizeof(buffer) ? bytes : sizeof(buffer)};
        struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

        n = recvmsg(socket, &header, MSG_DONTWAIT);
        bytes -= n > 0 ? (size_t)n : 0;
        carried = carried || (header.msg_flags & MSG_CTRUNC) != 0;
    }
    return carried;
}

static void received_do_discard(struct thread *self, struct discard *d)
{
    bool carried;

    pthread_mutex_unlock(&received.lock);
    thread_does(self, "taking descriptors out of a socket for which there is no number");
    carried = received_discard_bytes(d->socket, d->bytes);
    pthread_mutex_lock(&received.lock);
    d->carried = carried;
    d->done = true;
    pthread_cond_broadcast(&received.changed);
    if (d->abandoned) {
        list_remove(&d->link);
        free(d);
    }
}

static void received_do_close(struct thread *self, int fd)
{
    pthread_mutex_unlock(&received.lock);
    thread_does(self, "closing a descriptor that another process has passed");
    fork_fds_close(fd);
    pthread_mutex_lock(&received.lock);
}

static void received_closer(void *argument)
{
    struct thread *self = argument;
    struct discard *d;

    pthread_mutex_lock(&received.lock);
    for (;;) {
        while (received.count == 0 && !received.stopping) {
            thread_does(self, "waiting for work");
            received.idle++;
            pthread_cond_wait(&received.changed, &received.lock);
            received.idle--;
        }
        if (received.count == 0)
            break;
        received.count--;
        received_start_thread();
        d = received_take_discard();
        if (d != NULL)
            received_do_discard(self, d);
        else
            received_do_close(self, received_take_fd());
    }
    pthread_mutex_unlock(&received.lock);
}

/* ---- calls ---- */

bool received_fd_is_memory(int fd) { return fcntl(fd, F_GET_SEALS) >= 0; }

/* The last reference to memory frees it: 0.2 s for 1 GiB. */
static bool received_is_small(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (uint64_t)st.st_blocks <= SMALL_BYTES / 512;
}

void received_fd_close_apart(int fd)
{
    if (fd / 64 >= WORDS) {
        log_few(&received.warned, "descriptor %d, which another process has passed, stays open",
                fd);
        return;
    }
    pthread_mutex_lock(&received.lock);
    received_init();
    received.waiting[fd / 64] |= UINT64_C(1) << (fd % 64);
    if (received.next > fd / 64)
        received.next = fd / 64;
    received_add_work();
    pthread_mutex_unlock(&received.lock);
}

void received_fd_close(int fd)
{
    if (fd < 0)
        return;
    if (received_fd_is_memory(fd) && received_is_small(fd))
        fork_fds_close(fd);
    else
        received_fd_close_apart(fd);
}

bool received_fd_discard(int socket, size_t bytes, bool *carried)
{
    struct discard *d = calloc(1, sizeof(*d));
    int64_t deadline = deadline_in_ms(DISCARD_MS);
    const struct timespec until = {deadline / NS_PER_S, deadline % NS_PER_S};
    bool done;

    if (d == NULL)
        return false;
    d->socket = socket;
    d->bytes = bytes;
    pthread_mutex_lock(&received.lock);
    received_init();
    list_append(&received.discards, &d->link);
    received_add_work();
    while (!d->done && !deadline_passed(deadline))
        pthread_cond_timedwait(&received.changed, &received.lock, &until);
    done = d->done;
    *carried = d->carried;
    if (done || !d->taken) {
        received.count -= !d->taken;
        list_remove(&d->link);
        free(d);
    } else {
        d->abandoned = true;
    }
    pthread_mutex_unlock(&received.lock);
    return done;
}

bool received_fd_discards(int socket)
{
    struct link *at, *after;
    bool found = false;

    pthread_mutex_lock(&received.lock);
    received_init();
    list_for_each (at, after, &received.discards) {
        if (container_of(at, struct discard, link)->socket == socket)
            found = true;
    }
    pthread_mutex_unlock(&received.lock);
    return found;
}

bool received_fds_crowded(void)
{
    struct rlimit most;
    unsigned count;

    pthread_mutex_lock(&received.lock);
    count = received.count;
    pthread_mutex_unlock(&received.lock);
    return count > 0 && (getrlimit(RLIMIT_NOFILE, &most) != 0 || count > most.rlim_cur / 4);
}

int received_fds_stop(int64_t deadline)
{
    int i, left = 0;

    pthread_mutex_lock(&received.lock);
    received.stopping = true;
    if (received.ready)
        pthread_cond_broadcast(&received.changed);
    pthread_mutex_unlock(&received.lock);
    for (i = 0; i < THREADS_MOST; i++) {
        struct closer *c = &received.closer[i];
        bool used;

        pthread_mutex_lock(&received.lock);
        used = c->used;
        pthread_mutex_unlock(&received.lock);
        if (!used)
            continue;
        if (thread_join(&c->thread, deadline) != 0) {
            left++;
            continue;
        }
        pthread_mutex_lock(&received.lock);
        c->used = false;
        pthread_mutex_unlock(&received.lock);
    }
    pthread_mutex_lock(&received.lock);
    received.stopping = false;
    pthread_mutex_unlock(&received.lock);
    return left;
}

void received_fds_forked(void)
{
    int i;

    pthread_mutex_init(&received.lock, NULL);
    if (!received.ready)
        return;
    while (received_take_fd() >= 0)
        ;
    received.next = 0;
    received.count = received.idle = 0;
    received.ready = received.stopping = false; /* its condition variable is that of the parent */
    for (i = 0; i < THREADS_MOST; i++)
        received.closer[i].used = false;
}
