/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_received_fd.c: descriptors from other processes, whose last close waits for many seconds: no call waits with it, wherever the
 * kernel holds the last reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/lib/descriptor_limit.h"
#include "test/lib/lingering.h"

#include "util/clock.h"
#include "util/received_fd.h"
#include "util/received_socket.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <sys/wait.h>

#define QUICK_MS 2000 /* of a call; one that waits takes LINGER_S */
#define THREADS 8     /* as received_fd.c has at most */
#define OF_SOURCE 2   /* and of one source */

/* The other ends of the slow descriptors of a test: their waits end when these are closed. */
static int others[64], n_others;

static int lingering(void) { return lingering_socket(&others[n_others++]); }

static int lingering_of(unsigned source)
{
    int fd = lingering();

    received_fd_set_source(fd, source);
    return fd;
}

static bool is_closed_soon(int fd)
{
    for (int i = 0; i < 100 && fcntl(fd, F_GETFD) >= 0; i++)
        usleep(10000);
    return fcntl(fd, F_GETFD) < 0;
}

/* All closing threads wait: the kernel frees a number before. */
static void occupy_threads(void)
{
    for (int i = 0; i < THREADS; i++) {
        int fd = lingering_of(RECEIVED_OF_RANK(i / OF_SOURCE));

        received_fd_close(fd);
        REQUIRE(is_closed_soon(fd));
    }
}

static bool no_more_threads;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): instead of libc's */
int pthread_create(pthread_t *t, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return no_more_threads ? EAGAIN : real(t, attributes, start, argument);
}

static void end_waits(void)
{
    while (n_others > 0)
        close(others[--n_others]);
    assert_int_equal(received_fds_stop(deadline_in_ms(QUICK_MS)), 0);
}

static int entries(const char *directory)
{
    DIR *dir = opendir(directory);
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static int threads(void) { return entries("/proc/self/task") - 2; }
static int descriptors(void) { return entries("/proc/self/fd"); }

#define QUICKLY(call)                                                                              \
    do {                                                                                           \
        double since_ = now_ms();                                                                  \
        call;                                                                                      \
        assert_true(now_ms() - since_ < QUICK_MS && #call);                                        \
    } while (0)

static void make_pair(int pair[2])
{
    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), errno);
}

/* n descriptors, of one file, of which the message has the only references. */
static void pass_last(int to, int n)
{
    int fd = lingering();

    assert_int_equal(pass_descriptor(to, "x", 1, fd, n), 0);
    close(fd);
}

static void test_memory_is_closed_at_once(void **state)
{
    int before = descriptors();

    (void)state;
    received_fd_close(memfd_create("test", MFD_CLOEXEC));
    received_fd_close(-1);
    assert_int_equal(descriptors(), before);
    assert_int_equal(threads(), 1);
}

/* Its last close frees it, which takes the kernel 0.2 s for 1 GiB. */
static void test_much_memory_is_closed_apart(void **state)
{
    int fd = memfd_create("test", MFD_CLOEXEC), before = descriptors() - 1;

    (void)state;
    if (fallocate(fd, 0, 0, 65 << 20) != 0) {
        close(fd);
        skip(); /* no memory */
    }
    received_fd_close(fd);
    assert_int_equal(threads(), 2);
    assert_int_equal(received_fds_stop(DEADLINE_NEVER), 0);
    assert_int_equal(descriptors(), before);
}

/* More of them than there are threads. */
static void test_no_close_waits(void **state)
{
    int before = descriptors(), pair[2], i, fd;

    (void)state;
    for (i = 0; i < THREADS + 4; i++) {
        fd = lingering_of(RECEIVED_OF_RANK(i));
        QUICKLY(received_fd_close(fd));
    }
    for (i = 0; i < 100 && threads() < 1 + THREADS; i++)
        usleep(10000);
    assert_int_equal(threads(), 1 + THREADS);
    make_pair(pair); /* others are closed all the same, in place */
    QUICKLY(received_socket_close(pair[0]));
    assert_int_equal(fcntl(pair[0], F_GETFD), -1);
    close(pair[1]);
    QUICKLY(assert_int_equal(received_fds_stop(deadline_in_ms(100)), THREADS));
    end_waits();
    assert_int_equal(threads(), 1);
    assert_int_equal(descriptors(), before);
}

static void test_too_many_are_noticed(void **state)
{
    struct rlimit limit, less;
    int i;

    (void)state;
    assert_return_code(getrlimit(RLIMIT_NOFILE, &limit), errno);
    less = limit;
    less.rlim_cur = 64;
    for (i = 0; i < THREADS + 20; i++)
        received_fd_close(lingering());
    assert_return_code(setrlimit(RLIMIT_NOFILE, &less), errno);
    assert_true(received_fds_crowded());
    assert_return_code(setrlimit(RLIMIT_NOFILE, &limit), errno);
    end_waits();
    assert_false(received_fds_crowded());
}

/* A source has its threads, and what it may have waiting; neither delays nor counts for another one. */
static void test_sources_are_apart(void **state)
{
    const unsigned one = RECEIVED_OF_RANK(0), other = RECEIVED_OF_RANK(1);
    int before = descriptors(), pair[2], i, fd = -1;

    (void)state;
    make_pair(pair);
    received_fd_set_source(pair[0], one);
    received_fd_set_source(pair[1], other);
    for (i = 0; i < OF_SOURCE; i++)
        received_fd_close(lingering_of(one));
    for (i = 0; i < 100; i++) {
        fd = dup(pair[1]);
        received_fd_set_source(fd, one);
        received_fd_close(fd);
    }
    assert_true(fcntl(fd, F_GETFD) >= 0); /* it waits */
    assert_int_equal(received_fd_crowds(pair[0]), -EAGAIN);
    assert_int_equal(received_fd_crowds(pair[1]), 0);
    for (i = 0; i < 200; i++) {
        fd = dup(pair[0]);
        received_fd_set_source(fd, other);
        received_fd_close(fd);
        assert_true(is_closed_soon(fd));
    }
    assert_int_equal(received_fds_stop(deadline_in_ms(100)), OF_SOURCE);
    end_waits();
    assert_int_equal(received_fd_crowds(pair[0]), 0);
    received_socket_close(pair[0]);
    received_socket_close(pair[1]);
    assert_int_equal(descriptors(), before);
}

/* Where no thread could be started, the next one that examines how many wait starts it. */
static void test_a_thread_is_started_later(void **state)
{
    int fd = dup(0);

    (void)state;
    fprintf(stderr, "a warning is expected:\n");
    no_more_threads = true;
    received_fd_close_apart(fd);
    no_more_threads = false;
    assert_int_equal(threads(), 1);
    assert_false(received_fds_crowded());
    assert_true(is_closed_soon(fd));
    end_waits();
}

/* What a peer has queued, without descriptors: no thread is needed. */
static void test_an_honest_socket_is_closed_in_place(void **state)
{
    static const char bytes[100000];
    int pair[2], before = descriptors();

    (void)state;
    make_pair(pair);
    assert_true(send(pair[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0);
    received_socket_close(pair[0]);
    assert_int_equal(send(pair[1], "x", 1, MSG_NOSIGNAL), -1);
    close(pair[1]);
    assert_int_equal(descriptors(), before);
    assert_int_equal(threads(), 1);
}

static void test_a_socket_with_queued_descriptors(void **state)
{
    struct pollfd p = {.events = POLLIN};
    int pair[2], before = descriptors();

    (void)state;
    make_pair(pair);
    assert_int_equal(send(pair[1], "before", 6, 0), 6);
    pass_last(pair[1], 1);
    QUICKLY(received_socket_close(pair[0]));
    p.fd = pair[1];
    assert_int_equal(poll(&p, 1, 0), 1); /* the peer sees the end at once */
    assert_true((p.revents & POLLHUP) != 0);
    close(pair[1]);
    end_waits();
    assert_int_equal(descriptors(), before);
}

static void test_a_listener_with_queued_descriptors(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 20);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), i, call[3];
    int before = descriptors() - 1;

    (void)state;
    snprintf(at.sun_path + 1, 20, "rmalloc-test-%06x", (unsigned)getpid() & 0xffffffu);
    assert_return_code(bind(listener, (struct sockaddr *)&at, length), errno);
    assert_return_code(listen(listener, 10), errno);
    for (i = 0; i < 3; i++) {
        call[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_return_code(connect(call[i], (struct sockaddr *)&at, length), errno);
        pass_last(call[i], 1);
    }
    QUICKLY(received_socket_close(listener));
    for (i = 0; i < 3; i++)
        close(call[i]);
    end_waits();
    assert_int_equal(descriptors(), before);
}

static void test_as_many_as_a_message_has(void **state)
{
    int pair[2], before = descriptors(), i;
    struct received r;
    char buffer[100];

    (void)state;
    make_pair(pair);
    pass_last(pair[1], RECEIVED_FDS_MOST);
    QUICKLY(assert_int_equal(received_receive(pair[0], buffer, sizeof(buffer), &r), 0));
    assert_true(r.bytes == 1 && r.nfds == RECEIVED_FDS_MOST && !r.truncated);
    for (i = 0; i < r.nfds; i++)
        QUICKLY(received_fd_close(r.fds[i]));
    assert_int_equal(received_receive(pair[0], buffer, sizeof(buffer), &r), -EAGAIN);
    close(pair[1]);
    assert_int_equal(received_receive(pair[0], buffer, sizeof(buffer), &r), 0);
    assert_int_equal(r.bytes, 0);
    received_socket_close(pair[0]);
    end_waits();
    assert_int_equal(descriptors(), before);
}

static int send_out_of_band(int to, int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } space = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec iov = {(char[]){'!'}, 1};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = sizeof(space.bytes)};

    memcpy(CMSG_DATA(&space.head), &fd, sizeof(fd));
    return (int)sendmsg(to, &header, MSG_OOB | MSG_NOSIGNAL);
}

/* MSG_PEEK steps over a byte that came out of band, and the read after it drops the byte, with its descriptors. */
static void test_out_of_band(void **state)
{
    int before = descriptors(), pair[2], fd, how;
    struct received r;
    char buffer[100];
    ssize_t n = 0;

    (void)state;
    for (how = 0; how < 3; how++) {
        make_pair(pair);
        if (how > 0)
            received_in_order(pair[0]);
        assert_int_equal(send(pair[1], "abc", 3, 0), 3);
        fd = lingering();
        if (send_out_of_band(pair[1], fd) < 0) { /* a kernel without it */
            close(pair[0]);
            end_waits();
            skip();
        }
        close(fd);
        assert_int_equal(send(pair[1], "def", 3, 0), 3);
        for (int i = 0; how == 1 && i < 3; i++) {
            QUICKLY(assert_int_equal(received_receive(pair[0], buffer, sizeof(buffer), &r), 0));
            assert_true(r.bytes > 0 && r.nfds == (i == 1));
            if (i == 1)
                QUICKLY(received_fd_close(r.fds[0]));
        }
        if (how == 2) {
            do
                QUICKLY(n = received_plain(pair[0], buffer, 1));
            while (n > 0);
            assert_int_equal(n, -EPROTO);
        }
        QUICKLY(received_socket_close(pair[0]));
        close(pair[1]);
        end_waits();
        assert_int_equal(descriptors(), before);
    }
}

/* What is received ends with a message: the descriptors of the next one belong to the next one. */
static void test_descriptors_stay_with_their_bytes(void **state)
{
    int pair[2], before = descriptors(), fd = memfd_create("test", MFD_CLOEXEC), size;
    struct received r;
    char buffer[100];

    (void)state;
    for (size = 1; size <= 12; size++) {
        int got = 0, fds = 0;

        make_pair(pair);
        assert_int_equal(send(pair[1], "abc", 3, 0), 3);
        assert_int_equal(send(pair[1], "def", 3, 0), 3);
        assert_int_equal(pass_descriptor(pair[1], "ghi", 3, fd, 2), 0);
        assert_int_equal(send(pair[1], "jkl", 3, 0), 3);
        for (; got < 12; got += (int)r.bytes) {
            assert_int_equal(received_receive(pair[0], buffer, (size_t)size, &r), 0);
            assert_true(r.bytes > 0);
            assert_int_equal(r.nfds, got <= 6 && got + (int)r.bytes > 6 ? 2 : 0);
            for (fds += r.nfds; r.nfds > 0;)
                received_fd_close(r.fds[--r.nfds]);
        }
        assert_int_equal(fds, 2);
        received_socket_close(pair[0]);
        close(pair[1]);
    }
    close(fd);
    assert_int_equal(descriptors(), before);
}

/* In a child, which takes its numbers away. */
static void without_numbers(bool waits)
{
    struct rlimit limit;
    struct received r;
    char buffer[100];
    int pair[2], fds[3] = {0, 0, waits ? lingering() : 0}, rc = 0;

    make_pair(pair);
    REQUIRE(pass_descriptors(pair[1], "x", 1, fds, 3) == 0);
    if (waits)
        close(fds[2]);
    REQUIRE(pass_descriptor(pair[1], "y", 1, 0, 1) == 0);
    received_fd_close(fcntl(0, F_DUPFD_CLOEXEC, 0)); /* a thread is there */
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0 && descriptors_leave(1));
    QUICKLY(rc = received_receive(pair[0], buffer, sizeof(buffer), &r));
    if (waits) {
        REQUIRE(rc == -EPROTO);
        QUICKLY(received_socket_close(pair[0]));
    } else {
        REQUIRE(rc == 0 && r.truncated && r.nfds == 1 && r.bytes == 1 && buffer[0] == 'x');
        received_fd_close(r.fds[0]);
        REQUIRE(received_fds_stop(deadline_in_ms(QUICK_MS)) == 0); /* the number is free again */
        REQUIRE(received_receive(pair[0], buffer, sizeof(buffer), &r) == 0);
        REQUIRE(!r.truncated && r.nfds == 1 && r.bytes == 1 && buffer[0] == 'y');
    }
    _exit(0);
}

/* A thread that takes descriptors out of a socket has the socket until it is done: its number is not given to another file. */
static void a_number_is_not_reused(void)
{
    static const char much[10000];
    int pair[2], fds[2] = {0, lingering()}, next[2], first, rc = 0;
    struct received r;
    char buffer[sizeof(much)];

    make_pair(pair);
    make_pair(next);
    REQUIRE(pass_descriptors(pair[1], much, sizeof(much), fds, 2) == 0);
    close(fds[1]);
    REQUIRE(send(next[1], much, 5000, 0) == 5000);
    first = fcntl(0, F_DUPFD_CLOEXEC, 0);
    received_fd_close(first);       /* a thread is there */
    REQUIRE(is_closed_soon(first)); /* else its number is one more than descriptors_leave counts */
    REQUIRE(descriptors_leave(1));
    QUICKLY(rc = received_receive(pair[0], buffer, sizeof(buffer), &r));
    REQUIRE(rc == -EPROTO);
    QUICKLY(received_socket_close(pair[0]));
    if (is_closed_soon(pair[0])) /* not before the thread is done */
        REQUIRE(dup2(next[0], pair[0]) == pair[0]);
    close(others[--n_others]);
    REQUIRE(received_fds_stop(deadline_in_ms(QUICK_MS)) == 0);
    REQUIRE(recv(next[0], buffer, sizeof(buffer), MSG_DONTWAIT) == 5000);
    REQUIRE(fcntl(pair[0], F_GETFD) < 0);
    _exit(0);
}

/* Without a thread that could take it, a message without numbers stays where it is, and comes later. */
static void no_thread_has_time(void)
{
    int pair[2], fds[2] = {0, 1};
    struct received r;
    char buffer[100];

    make_pair(pair);
    received_fd_set_source(pair[0], RECEIVED_OF_RANK(100));
    REQUIRE(pass_descriptors(pair[1], "x", 1, fds, 2) == 0);
    occupy_threads();
    REQUIRE(descriptors_leave(0));
    for (int i = 0; i < 3; i++) {
        int rc = 0;

        QUICKLY(rc = received_receive(pair[0], buffer, sizeof(buffer), &r));
        REQUIRE(rc == -ENOMEM, "%d", rc);
    }
    while (n_others > 0)
        close(others[--n_others]);
    for (int i = 0; i < 200 && received_receive(pair[0], buffer, sizeof(buffer), &r) != 0; i++)
        usleep(10000);
    REQUIRE(r.bytes == 1 && buffer[0] == 'x');
    _exit(0);
}

static void test_without_numbers(void **state)
{
    int status;
    pid_t child;

    (void)state;
    for (int round = 0; round < 4; round++) {
        child = fork();
        if (child == 0) {
            received_fds_forked();
            if (round == 2)
                a_number_is_not_reused();
            if (round == 3)
                no_thread_has_time();
            without_numbers(round == 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

/* Where no descriptor is expected, one that comes stays in the socket. */
static void test_plain_bytes(void **state)
{
    int pair[2];
    char buffer[100];

    (void)state;
    make_pair(pair);
    assert_int_equal(received_plain(pair[0], buffer, sizeof(buffer)), -EAGAIN);
    assert_int_equal(send(pair[1], "abc", 3, 0), 3);
    assert_int_equal(received_plain(pair[0], buffer, sizeof(buffer)), 3);
    pass_last(pair[1], 1);
    QUICKLY(assert_int_equal(received_plain(pair[0], buffer, sizeof(buffer)), -EPROTO));
    QUICKLY(assert_int_equal(received_plain(pair[0], buffer, sizeof(buffer)), -EPROTO));
    QUICKLY(received_socket_close(pair[0]));
    close(pair[1]);
    end_waits();
}

static void test_a_socket_refuses(void **state)
{
    int pair[2], fd = 0;

    (void)state;
    make_pair(pair);
    received_refuses_never = true;
    assert_false(received_refuse(pair[0], true));
    assert_int_equal(pass_descriptor(pair[1], "x", 1, fd, 1), 0);
    received_refuses_never = false;
    if (!received_refuse(pair[0], true)) {
        close(pair[0]);
        close(pair[1]);
        skip(); /* before Linux 6.16 */
    }
    assert_int_equal(pass_descriptor(pair[1], "x", 1, fd, 1), -EPERM);
    assert_int_equal(pass_descriptor(pair[0], "x", 1, fd, 1), 0); /* the other direction */
    assert_true(received_refuse(pair[0], false));
    assert_int_equal(pass_descriptor(pair[1], "x", 1, fd, 1), 0);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_closed_at_once),
        cmocka_unit_test(test_much_memory_is_closed_apart),
        cmocka_unit_test(test_no_close_waits),
        cmocka_unit_test(test_too_many_are_noticed),
        cmocka_unit_test(test_sources_are_apart),
        cmocka_unit_test(test_a_thread_is_started_later),
        cmocka_unit_test(test_out_of_band),
        cmocka_unit_test(test_an_honest_socket_is_closed_in_place),
        cmocka_unit_test(test_a_socket_with_queued_descriptors),
        cmocka_unit_test(test_a_listener_with_queued_descriptors),
        cmocka_unit_test(test_as_many_as_a_message_has),
        cmocka_unit_test(test_descriptors_stay_with_their_bytes),
        cmocka_unit_test(test_without_numbers),
        cmocka_unit_test(test_plain_bytes),
        cmocka_unit_test(test_a_socket_refuses),
    };

    return cmocka_run_group_tests_name("received descriptors", tests, NULL, NULL);
}
