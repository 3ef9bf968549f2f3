/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * received_fd.c: see received_fd.h.
 *
 * Invariants, under the lock
 * 1. A source's `waiting` is the number of its bits in `waiting`, and of its requests in `discards`
 *    that are not taken; `count` is the sum over all sources, and `held` that over the sources that
 *    have as many threads as a source may have.
 * 2. While count > held a thread is on its way to take one, unless all are in a close, or none can
 *    be started: then the next call tries again.
 *
 * The caller starts a thread only where there is none that is idle; each thread that takes a
 * descriptor starts the next one if more wait. The lock is the last one taken, and nothing waits
 * under it: what is logged is logged after it has been released.
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
#define SOURCES 1024
#define THREADS_MOST 8
#define THREADS_OF_SOURCE 2              /* so that one source does not delay the others */
#define TAKE_MS 20                       /* until a thread takes a request */
#define DISCARD_MS 100                   /* until it has done it */
#define SMALL_BYTES (UINT64_C(64) << 20) /* memory that is freed in place */
#define WAITING_MOST 64                  /* of one source */
#define WAITING_MOST_CROWDED 16          /* while there are too many of all sources */
#define STUCK_NS NS_PER_S                /* without the end of a close */

/* Bytes that a thread is to take out of a socket. */
struct discard {
    struct link link;
    int socket;
    size_t bytes;
    bool taken, done, abandoned;
    bool carried; /* descriptors came with the bytes */
    bool closes;  /* the thread closes the socket, whose number is in use until then */
};

struct closer {
    struct thread thread;
    bool used;
};

struct source {
    unsigned waiting; /* for a thread */
    unsigned threads; /* that are in a close, or in a discard */
    int64_t since;    /* the last one was done, or the first one came: clock_now() */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;         /* more work, a discard is taken or done, the end */
    uint64_t waiting[WORDS];        /* descriptors to be closed */
    uint16_t source_of[WORDS * 64]; /* of sockets, and of descriptors that are no memory */
    int next;                       /* word of the first that waits, or less */
    unsigned count;                 /* what waits for a thread */
    unsigned held;                  /* of that, what no further thread may take */
    unsigned idle;                  /* threads that wait for work */
    struct link discards;           /* taken or not */
    struct source source[SOURCES];
    struct closer closer[THREADS_MOST];
    bool ready, stopping;
    int start_error; /* of pthread_create(3); to be logged */
    _Atomic unsigned warned;
} received = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void received_closer(void *argument);

static void received_lock(void) { pthread_mutex_lock(&received.lock); }

static void received_unlock(void)
{
    int error = received.start_error;
    unsigned count = received.count;

    received.start_error = 0;
    pthread_mutex_unlock(&received.lock);
    if (error != 0)
        log_few(&received.warned,
                "no thread to close descriptors that other processes have passed: %s%s; %u wait",
                strerror(error), limit_of(error), count);
}

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

static struct source *received_source_of(int fd)
{
    return &received.source[fd >= 0 && fd / 64 < WORDS ? received.source_of[fd] : 0];
}

static bool received_is_held(const struct source *s) { return s->threads >= THREADS_OF_SOURCE; }

static unsigned received_takeable(void) { return received.count - received.held; }

/* Another thread, if more can be taken than the idle ones take. */
static void received_start_thread(void)
{
    struct closer *unused = NULL;
    int i, error;

    for (i = 0; i < THREADS_MOST && unused == NULL; i++)
        unused = received.closer[i].used ? NULL : &received.closer[i];
    if (received_takeable() <= received.idle || unused == NULL)
        return;
    error = thread_start(&unused->thread, "rmalloc-close", received_closer, &unused->thread);
    unused->used = error == 0;
    received.start_error = error;
}

static void received_add(struct source *s)
{
    if (s->waiting++ == 0)
        s->since = clock_now();
    received.count++;
    received.held += received_is_held(s);
    received_start_thread();
    pthread_cond_broadcast(&received.changed);
}

static void received_remove(struct source *s)
{
    s->waiting--;
    received.count--;
    received.held -= received_is_held(s);
}

static void received_thread_enters(struct source *s)
{
    s->threads++;
    if (s->threads == THREADS_OF_SOURCE)
        received.held += s->waiting;
}

static void received_thread_leaves(struct source *s)
{
    if (s->threads == THREADS_OF_SOURCE) {
        received.held -= s->waiting;
        pthread_cond_broadcast(&received.changed);
    }
    s->threads--;
    s->since = clock_now();
}

static struct discard *received_take_discard(void)
{
    struct link *at, *after;

    list_for_each (at, after, &received.discards) {
        struct discard *d = container_of(at, struct discard, link);

        if (!d->taken && !received_is_held(received_source_of(d->socket))) {
            d->taken = true;
            pthread_cond_broadcast(&received.changed);
            return d;
        }
    }
    return NULL;
}

/* A descriptor of this word whose source may have one more thread; -1: none. */
static int received_take_bit(int word)
{
    uint64_t left;

    for (left = received.waiting[word]; left != 0; left &= left - 1) {
        int fd = word * 64 + __builtin_ctzll(left);

        if (!received_is_held(received_source_of(fd))) {
            received.waiting[word] &= ~(left & -left);
            return fd;
        }
    }
    return -1;
}

static int received_take_fd(void)
{
    int word, fd = -1;

    while (received.next < WORDS && received.waiting[received.next] == 0)
        received.next++;
    for (word = received.next; word < WORDS && fd < 0; word++)
        fd = received_take_bit(word);
    return fd;
}

/* ---- a closing thread: lock held, and released while it may wait ---- */

static void received_do_close(struct thread *self, int fd)
{
    if (fd / 64 < WORDS)
        received.source_of[fd] = 0; /* the next file of this number may have another one */
    received_unlock();
    thread_does(self, "closing a descriptor that another process has passed");
    fork_fds_close(fd);
    received_lock();
}

static bool received_discard_bytes(int socket, size_t bytes)
{
    char buffer[4096] = {0};
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
    int socket;

    received_unlock();
    thread_does(self, "taking descriptors out of a socket for which there is no number");
    carried = received_discard_bytes(d->socket, d->bytes);
    received_lock();
    d->carried = carried;
    d->done = true;
    pthread_cond_broadcast(&received.changed);
    if (!d->abandoned)
        return;
    socket = d->closes ? d->socket : -1;
    list_remove(&d->link);
    free(d);
    if (socket >= 0)
        received_do_close(self, socket);
}

static void received_take(struct thread *self)
{
    struct discard *d = received_take_discard();
    int fd = d != NULL ? d->socket : received_take_fd();
    struct source *s = received_source_of(fd);

    received_remove(s);
    received_thread_enters(s);
    received_start_thread();
    if (d != NULL)
        received_do_discard(self, d);
    else
        received_do_close(self, fd);
    received_thread_leaves(s);
}

static void received_closer(void *argument)
{
    struct thread *self = argument;

    received_lock();
    for (;;) {
        while (received_takeable() == 0 && !received.stopping) {
            thread_does(self, "waiting for work");
            received.idle++;
            pthread_cond_wait(&received.changed, &received.lock);
            received.idle--;
        }
        if (received_takeable() == 0)
            break;
        received_take(self);
    }
    received_unlock();
}

/* ---- closing ---- */

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
    fork_fds_forget(fd); /* the child of a fork would wait as well */
    received_lock();
    received_init();
    received.waiting[fd / 64] |= UINT64_C(1) << (fd % 64);
    if (received.next > fd / 64)
        received.next = fd / 64;
    received_add(received_source_of(fd));
    received_unlock();
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

/* ---- sources ---- */

void received_fd_set_source(int fd, unsigned source)
{
    const unsigned ranks = SOURCES - RECEIVED_OF_RANK(0);

    if (fd < 0 || fd / 64 >= WORDS)
        return;
    if (source >= SOURCES)
        source = RECEIVED_OF_RANK(0) + (source - RECEIVED_OF_RANK(0)) % ranks;
    received_lock();
    received.source_of[fd] = (uint16_t)source;
    received_unlock();
}

void received_fds_inherit(const int *fds, int nfds, int socket)
{
    int i;

    for (i = 0; i < nfds; i++) {
        if (fds[i] / 64 >= WORDS || received_fd_is_memory(fds[i]))
            continue;
        received_lock();
        received.source_of[fds[i]] = (uint16_t)(received_source_of(socket) - received.source);
        received_unlock();
    }
}

static bool received_is_crowded(void)
{
    struct rlimit most;

    if (received.count == 0)
        return false;
    received_start_thread(); /* where none could be started before */
    return getrlimit(RLIMIT_NOFILE, &most) != 0 || received.count > most.rlim_cur / 4;
}

static int received_crowds(const struct source *s)
{
    if (s->waiting <= WAITING_MOST_CROWDED ||
        (s->waiting <= WAITING_MOST && !received_is_crowded()))
        return 0;
    return clock_now() - s->since > STUCK_NS ? -EPROTO : -EAGAIN;
}

bool received_fds_crowded(void)
{
    bool crowded;

    received_lock();
    crowded =
        received_is_crowded() || received_crowds(&received.source[RECEIVED_UNAUTHENTICATED]) != 0;
    received_unlock();
    return crowded;
}

int received_fd_crowds(int fd)
{
    int rc;

    received_lock();
    rc = received_crowds(received_source_of(fd));
    received_unlock();
    return rc;
}

/* ---- descriptors without a number ---- */

/* Lock held. Until a thread has done it, or has not taken it, or does not end. */
static void received_await_discard(const struct discard *d)
{
    int64_t take = deadline_in_ms(TAKE_MS), end = deadline_in_ms(DISCARD_MS);
    struct timespec until;

    while (!d->done && !deadline_passed(d->taken ? end : take)) {
        until.tv_sec = (d->taken ? end : take) / NS_PER_S;
        until.tv_nsec = (d->taken ? end : take) % NS_PER_S;
        pthread_cond_timedwait(&received.changed, &received.lock, &until);
    }
}

int received_fd_discard(int socket, size_t bytes, bool *carried)
{
    struct discard *d = calloc(1, sizeof(*d));
    struct source *s;
    int rc;

    if (d == NULL)
        return -ENOMEM;
    d->socket = socket;
    d->bytes = bytes;
    received_lock();
    received_init();
    s = received_source_of(socket);
    list_append(&received.discards, &d->link);
    received_add(s);
    if (!received_is_held(s))
        received_await_discard(d);
    *carried = d->carried;
    rc = d->done ? 0 : d->taken ? -EPROTO : -ENOMEM;
    d->abandoned = rc == -EPROTO;
    if (!d->taken)
        received_remove(s);
    if (!d->abandoned) {
        list_remove(&d->link);
        free(d);
    }
    received_unlock();
    return rc;
}

bool received_fd_close_after_discard(int socket)
{
    struct link *at, *after;
    bool found = false;

    received_lock();
    received_init();
    list_for_each (at, after, &received.discards) {
        struct discard *d = container_of(at, struct discard, link);

        if (d->socket == socket)
            d->closes = found = true;
    }
    if (found)
        fork_fds_forget(socket);
    received_unlock();
    return found;
}

/* ---- end ---- */

int received_fds_stop(int64_t deadline)
{
    int i, left = 0;

    received_lock();
    received.stopping = true;
    if (received.ready)
        pthread_cond_broadcast(&received.changed);
    received_unlock();
    for (i = 0; i < THREADS_MOST; i++) {
        struct closer *c = &received.closer[i];
        bool used;

        received_lock();
        used = c->used;
        received_unlock();
        if (!used)
            continue;
        if (thread_join(&c->thread, deadline) != 0) {
            left++;
            continue;
        }
        received_lock();
        c->used = false;
        received_unlock();
    }
    received_lock();
    received.stopping = false;
    received_unlock();
    return left;
}

void received_fds_forked(void)
{
    int i;

    pthread_mutex_init(&received.lock, NULL);
    if (!received.ready)
        return;
    memset(received.source, 0, sizeof(received.source));
    for (i = received.next; i < WORDS; i++) {
        if (received.waiting[i] != 0)
            received.waiting[i] = 0;
    }
    received.next = 0;
    received.count = received.held = received.idle = 0;
    received.ready = received.stopping = false; /* its condition variable is that of the parent */
    for (i = 0; i < THREADS_MOST; i++)
        received.closer[i].used = false;
}
