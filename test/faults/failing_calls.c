/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failing_calls.c: see failing_calls.h.
 *
 * Nothing in here may call what is interposed, but for the real one.
 */
#include "failing_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rpipe.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OWN_MALLOC 0 /* another malloc is in force, or there is no way to the real one */
#else
#define OWN_MALLOC 1
#endif

const bool failing_memory = OWN_MALLOC;

static _Atomic bool armed, of_library;
static _Atomic int64_t calls;           /* since it was armed */
static _Atomic int64_t from, to;        /* those fail */
static _Atomic(const char *) what_last; /* the last that did */
static _Atomic(const char *) words_last;

void failing_in_library(void) { atomic_store(&of_library, true); }

void failing_arm(struct place place)
{
    atomic_store(&calls, 0);
    atomic_store(&from, place.from);
    atomic_store(&to, place.to);
    atomic_store(&what_last, NULL);
    atomic_store(&armed, true);
}

int64_t failing_disarm(void)
{
    atomic_store(&armed, false);
    return atomic_load(&calls);
}

bool failing_occurred(void) { return atomic_load(&what_last) != NULL; }

const char *failing_name(void)
{
    const char *what = atomic_load(&what_last);

    return what != NULL ? what : "nothing";
}

const char *failing_words(void) { return failing_occurred() ? atomic_load(&words_last) : ""; }

bool failing_is_expected(int rc)
{
    static const int codes[] = {-ENOMEM,    -EMFILE, -ENFILE, -ENOSPC,    -ENOTSUP,
                                -ETIMEDOUT, -EAGAIN, -EPIPE,  -ECONNRESET};

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i] == rc)
            return true;
    return false;
}

/* The main thread, and the service thread, which has this name. */
static bool is_of_library(void)
{
    static _Thread_local int known; /* 1: it is, 2: it is not */
    char name[16] = "";

    if (known == 0) {
        (void)prctl(PR_GET_NAME, name);
        known = gettid() == getpid() || strcmp(name, "rmalloc") == 0 ? 1 : 2;
    }
    return known == 1;
}

static bool fails(const char *what, const char *words)
{
    int64_t n;

    if (!atomic_load_explicit(&armed, memory_order_acquire))
        return false;
    if (atomic_load_explicit(&of_library, memory_order_relaxed) && !is_of_library())
        return false;
    n = atomic_fetch_add(&calls, 1) + 1;
    if (n < atomic_load(&from) || n > atomic_load(&to))
        return false;
    atomic_store(&words_last, words);
    atomic_store(&what_last, what);
    return true;
}

#define DESCRIPTORS "ulimit -n"
#define MEMORY "memory"

#define REAL(type, name, ...)                                                                      \
    static type (*real)(__VA_ARGS__);                                                              \
    if (real == NULL)                                                                              \
    *(void **)&real = dlsym(RTLD_NEXT, #name)
#define FAIL(name, code, value, words)                                                             \
    do {                                                                                           \
        if (fails(#name, words)) {                                                                 \
            errno = (code);                                                                        \
            return (value);                                                                        \
        }                                                                                          \
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
    FAIL(malloc, ENOMEM, NULL, MEMORY);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    FAIL(calloc, ENOMEM, NULL, MEMORY);
    return __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    FAIL(realloc, ENOMEM, NULL, MEMORY);
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    FAIL(aligned_alloc, ENOMEM, NULL, MEMORY);
    return __libc_memalign(align, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    REAL(void *, mmap, void *, size_t, int, int, int, off_t);
    FAIL(mmap, ENOMEM, MAP_FAILED, MEMORY);
    return real(at, bytes, protection, flags, fd, offset);
}
#endif

int memfd_create(const char *name, unsigned flags)
{
    REAL(int, memfd_create, const char *, unsigned);
    FAIL(memfd_create, EMFILE, -1, DESCRIPTORS);
    return real(name, flags);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    REAL(int, fallocate, int, int, off_t, off_t);
    FAIL(fallocate, ENOSPC, -1, MEMORY);
    return real(fd, mode, offset, bytes);
}

int socket(int domain, int type, int protocol)
{
    REAL(int, socket, int, int, int);
    FAIL(socket, EMFILE, -1, DESCRIPTORS);
    return real(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int pair[2])
{
    REAL(int, socketpair, int, int, int, int *);
    FAIL(socketpair, EMFILE, -1, DESCRIPTORS);
    return real(domain, type, protocol, pair);
}

int eventfd(unsigned count, int flags)
{
    REAL(int, eventfd, unsigned, int);
    FAIL(eventfd, EMFILE, -1, DESCRIPTORS);
    return real(count, flags);
}

int epoll_create1(int flags)
{
    REAL(int, epoll_create1, int);
    FAIL(epoll_create1, EMFILE, -1, DESCRIPTORS);
    return real(flags);
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    REAL(int, epoll_ctl, int, int, int, struct epoll_event *);
    if (op == EPOLL_CTL_ADD) /* nothing else takes memory */
        FAIL(epoll_ctl, ENOSPC, -1, "max_user_watches");
    return real(epoll, op, fd, event);
}

int pthread_create(pthread_t *t, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (fails("pthread_create", "ulimit -u"))
        return EAGAIN; /* ulimit -u, pids.max */
    return real(t, attributes, start, argument);
}

/* NOLINTEND(bugprone-reserved-identifier,readability-inconsistent-declaration-parameter-name) */
