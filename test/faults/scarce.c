/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scarce.c: the n-th call that asks the system for something fails, for many n.
 *
 * The calls of the C library that take memory, mappings, descriptors and threads go through functions of this program, which count
 * them, in all threads, in the library as in its modules. A process joins a job by itself, sends messages of each kind through pipes
 * to itself, and grows a heap; one call on the way fails, or all from one on. Whatever fails, a call of ours says so, with a
 * code and a sentence; nothing crashes, nothing hangs; and when there is enough again, everything works.
 *
 *     scarce [PLACES | all]          so many of the places, evenly; 60 unless said otherwise
 */
#include "job.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OWN_MALLOC 0 /* somebody else's is in force, or there is no way to the real one */
#else
#define OWN_MALLOC 1
#endif

/* ---- what fails ---- */

static _Atomic bool armed;
static _Atomic int64_t calls;           /* since it was armed */
static _Atomic int64_t from, to;        /* those fail */
static _Atomic(const char *) what_last; /* the last that did */

static bool fails(const char *what)
{
    int64_t n;

    if (!atomic_load_explicit(&armed, memory_order_acquire))
        return false;
    n = atomic_fetch_add(&calls, 1) + 1;
    if (n < atomic_load(&from) || n > atomic_load(&to))
        return false;
    atomic_store(&what_last, what);
    return true;
}

#define REAL(type, name, ...)                                                                                          \
    static type (*real)(__VA_ARGS__);                                                                                  \
    if (real == NULL)                                                                                                  \
    *(void **)&real = dlsym(RTLD_NEXT, #name)
#define FAIL(name, code, value)                                                                                        \
    do {                                                                                                               \
        if (fails(#name)) {                                                                                            \
            errno = (code);                                                                                            \
            return (value);                                                                                            \
        }                                                                                                              \
    } while (0)

/* The names are those of the C library, those of its parameters are not: */
/* NOLINTBEGIN(bugprone-reserved-identifier,readability-inconsistent-declaration-parameter-name) */
#if OWN_MALLOC
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes)
{
    FAIL(malloc, ENOMEM, NULL);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    FAIL(calloc, ENOMEM, NULL);
    return __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    FAIL(realloc, ENOMEM, NULL);
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    FAIL(aligned_alloc, ENOMEM, NULL);
    return __libc_memalign(align, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    REAL(void *, mmap, void *, size_t, int, int, int, off_t);
    FAIL(mmap, ENOMEM, MAP_FAILED);
    return real(at, bytes, protection, flags, fd, offset);
}
#endif

int memfd_create(const char *name, unsigned flags)
{
    REAL(int, memfd_create, const char *, unsigned);
    FAIL(memfd_create, EMFILE, -1);
    return real(name, flags);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    REAL(int, fallocate, int, int, off_t, off_t);
    FAIL(fallocate, ENOSPC, -1);
    return real(fd, mode, offset, bytes);
}

int socket(int domain, int type, int protocol)
{
    REAL(int, socket, int, int, int);
    FAIL(socket, EMFILE, -1);
    return real(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int pair[2])
{
    REAL(int, socketpair, int, int, int, int *);
    FAIL(socketpair, EMFILE, -1);
    return real(domain, type, protocol, pair);
}

int eventfd(unsigned count, int flags)
{
    REAL(int, eventfd, unsigned, int);
    FAIL(eventfd, EMFILE, -1);
    return real(count, flags);
}

int epoll_create1(int flags)
{
    REAL(int, epoll_create1, int);
    FAIL(epoll_create1, EMFILE, -1);
    return real(flags);
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    REAL(int, epoll_ctl, int, int, int, struct epoll_event *);
    FAIL(epoll_ctl, ENOSPC, -1); /* fs.epoll.max_user_watches */
    return real(epoll, op, fd, event);
}

int pthread_create(pthread_t *t, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (fails("pthread_create"))
        return EAGAIN; /* ulimit -u, pids.max */
    return real(t, attributes, start, argument);
}

/* NOLINTEND(bugprone-reserved-identifier,readability-inconsistent-declaration-parameter-name) */

/* ---- what is done ---- */

static const char *failed_call;
static rch_t failed_at;

static int note(const char *call, rch_t ch, int rc)
{
    if (rc != 0) {
        failed_call = call;
        failed_at = ch;
    }
    return rc;
}

static int one_message(rch_t w, rch_t r, size_t size)
{
    size_t got = 0;
    raddr_t d;
    int rc;

    errno = 0;
    d = rmalloc(w, size);
    if (d == ADDR_NULL)
        return note("rmalloc", w, errno != 0 ? -errno : -1);
    fill(rmem(w, d), size, size);
    if ((rc = note("rwrite", w, rwrite(w, d))) != 0)
        return rc;
    if ((rc = note("rread", r, rread(r, &d, &got))) != 0)
        return rc;
    MUST(got == size && filled(rmem(r, d), size, size), r);
    return note("rfree", r, rfree(r, d));
}

static int one_pair(rdma_op_t op, uint32_t ctx)
{
    rmalloc_config_t cfg = channel_config(op, 0, true, 4096);
    rch_t w, r;
    int rc;

    cfg.allocator.max_alloc_size = 65536;
    cfg.allocator.algorithm = ctx % 2 == 0 ? NEXT_FIT : BEST_FIT;
    cfg.sync = ctx % 2 == 0 ? NET_SYNC_BLOCKS : NET_SYNC_TAGS;
    cfg.timeout_ms = RPIPE_TIMEOUT_AUTO;
    cfg.ctx = ctx;
    if ((rc = note("rpipe", NULL, rpipe(&w, &cfg))) != 0)
        return rc;
    cfg.allocator.rdma_active = !cfg.allocator.rdma_active;
    if ((rc = note("rpipe", NULL, rpipe(&r, &cfg))) != 0) {
        MUST(rclose(w) == 0, w);
        return rc;
    }
    rc = one_message(w, r, 20);
    if (rc == 0)
        rc = one_message(w, r, 3000);
    if (rc == 0)
        rc = one_message(w, r, 20000);
    if (rc == 0 && (rc = rpipe_fd(r)) >= 0)
        rc = 0;
    else if (rc < 0 && failed_call == NULL)
        (void)note("rpipe_fd", r, rc);
    if (rc != 0) { /* both ends close all the same; what the call said is not lost by that */
        char said[400];

        snprintf(said, sizeof(said), "%s", rpipe_error(failed_at));
        EXPECT(strlen(said) > 12 && strcmp(said, "no error") != 0, "%s gave %d and no sentence: %s", failed_call, rc,
               said);
    }
    MUST(rclose(w) == 0 && rclose(r) == 0, w);
    return rc;
}

static int all_of_it(uint32_t ctx)
{
    int rc = one_pair(RDMA_PUT, ctx);

    return rc != 0 ? rc : one_pair(RDMA_GET, ctx + 1);
}

struct place {
    int64_t from, to;
};

/* The codes that tell of want; -ETIMEDOUT: the service thread wanted something, and could tell nobody but by silence. */
static bool is_want(int rc)
{
    static const int codes[] = {-ENOMEM, -EMFILE, -ENFILE, -ENOSPC, -ENOTSUP, -ETIMEDOUT, -EAGAIN, -EPIPE, -ECONNRESET};

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i] == rc)
            return true;
    return false;
}

static int poor(int rank, struct board *board, const void *arguments)
{
    const struct place *p = arguments;
    const char *said;
    int rc;

    (void)rank;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_TIMEOUT_MS", "1500", 1);
    unsetenv("RPIPE_RANK");
    atomic_store(&from, p->from);
    atomic_store(&to, p->to);
    atomic_store(&armed, true);
    rc = note("rinit", NULL, rinit(NULL, NULL));
    if (rc == 0)
        rc = all_of_it(0);
    atomic_store(&armed, false);
    board->rank[0].number = (uint64_t)atomic_load(&calls);
    said = failed_call == NULL || strcmp(failed_call, "rinit") == 0 || strcmp(failed_call, "rpipe") == 0
               ? rpipe_error(NULL)
               : "";
    if (rc != 0 && getenv("FAULTS_TELL") != NULL)
        printf("%lld %s: %s gave %d (%s): %s\n", (long long)p->from, atomic_load(&what_last), failed_call, rc,
               rstrerror(rc), *said != '\0' ? said : rpipe_error(failed_at));
    if (rc != 0) {
        EXPECT(is_want(rc), "%s, when %s fails: %d (%s): %s", failed_call, atomic_load(&what_last), rc, rstrerror(rc),
               said);
        EXPECT(*said == '\0' || (strlen(said) > 12 && strcmp(said, "no error") != 0), "%s: %s", failed_call, said);
    }
    if (rc == 0 || strcmp(failed_call, "rinit") != 0) {
        failed_call = NULL;
        atomic_store(&board->rank[0].phase, 2);
        rc = all_of_it(10);
        EXPECT(rc == 0, "with enough of everything again, after %s failed: %s: %d (%s): %s", atomic_load(&what_last),
               failed_call, rc, rstrerror(rc), rpipe_error(failed_at));
        EXPECT(rexit() == 0, "rexit: %s", rpipe_error(NULL));
    }
    fflush(stdout);
    return job_failures > 0 ? 1 : 0;
}

static int64_t try_place(int64_t first, int64_t last)
{
    const struct place p = {first, last};
    struct job job;
    int64_t n = 0;

    job_prepare(&job, 1);
    job_start(&job, poor, &p);
    if (job_ended(&job, 0)) {
        EXPECT(job_status_is(&job, 0, 0), "calls %lld to %lld fail: status 0x%x", (long long)first, (long long)last,
               job.status[0]);
        n = (int64_t)job.board->rank[0].number;
    }
    job_finish(&job);
    return n;
}

int main(int argc, char **argv)
{
    int64_t n, all, places = argc > 1 ? atoi(argv[1]) : 60, step;

    if (!OWN_MALLOC)
        printf("descriptors and threads only: malloc is somebody else's here\n");
    setenv("RPIPE_LOG", "error", 0);
    all = try_place(INT64_MAX, INT64_MAX);
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        places = all;
    step = places > 0 && all > places ? all / places : 1;
    printf("%s: %lld calls; every %lldth fails, and all from every %lldth on\n", argv[0], (long long)all,
           (long long)step, 4 * (long long)step);
    fflush(stdout);
    for (n = 1; n <= all; n += step) {
        (void)try_place(n, n);
        if (n / step % 4 == 0)
            (void)try_place(n, INT64_MAX);
    }
    printf("%s: %s\n", argv[0], job_failures == 0 ? "good" : "FAILED");
    return job_failures == 0 ? 0 : 1;
}
