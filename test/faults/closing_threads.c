/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * closing_threads.c: what the threads that close descriptors of other processes wait for delays no call: rexit returns where one of
 * them waits in a state that no signal ends; a failed rinit leaves none of them; and rclose of a reader returns where its writer holds
 * a lock that the close of a descriptor takes.
 */
#include "test/lib/job.h"

#include "control/state.h"
#include "rpipe/end/rch.h"
#include "util/proc.h"
#include "util/received_fd.h"
#include "util/received_socket.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#define SOON_MS 3000 /* of a call, on a machine that is busy */
#define SKIPPED 77

/* Threads of this process, those in state `state`, or all (0). */
static int threads_in(char state)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    char path[300];
    int n = 0;

    CHECK(NULL, dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/stat", entry->d_name);
        n += entry->d_name[0] != '.' && (state == 0 || proc_state(path) == state);
    }
    closedir(dir);
    return n;
}

static bool soon(bool (*holds)(void))
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);

    while (!holds() && !deadline_passed(patience))
        backoff_us(1000);
    return holds();
}

/* ---- calls that are made to wait, or to fail ---- */

static _Atomic int waits_at = -1; /* close(2) of this one */
static _Atomic int *goes_on;      /* shared with the child of vfork(2) */

/* The parent of vfork(2) sleeps, and no signal but SIGKILL ends that (state D), until its child has ended. */
int close(int fd)
{
    struct timespec ms = {0, 1000000};
    long parent = syscall(SYS_getpid);

    /* NOLINTBEGIN(clang-analyzer-unix.Vfork): the child changes nothing of the parent's */
    if (fd == atomic_load(&waits_at) && vfork() == 0) {
        while (!atomic_load(goes_on) && syscall(SYS_getppid) == parent)
            (void)syscall(SYS_nanosleep, &ms, NULL);
        _exit(0);
    }
    /* NOLINTEND(clang-analyzer-unix.Vfork) */
    return (int)syscall(SYS_close, fd);
}

static bool no_service_thread;

/* At the moment at which the service thread would start: a client that passes a descriptor, before it has greeted. */
static void client_passes(void)
{
    struct sockaddr_un at;
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), passed = dup(fd);
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } space = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec iov = {(char[]){'x'}, 1};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = sizeof(space.bytes)};

    memcpy(CMSG_DATA(&space.head), &passed, sizeof(passed));
    CHECK(NULL, getsockname(control.unix_listener, (struct sockaddr *)&at, &bytes) == 0);
    CHECK(NULL, connect(fd, (struct sockaddr *)&at, bytes) == 0);
    CHECK(NULL, sendmsg(fd, &header, MSG_NOSIGNAL) == 1);
    close(passed);
    close(fd);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): instead of libc's */
int pthread_create(pthread_t *t, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (no_service_thread) {
        no_service_thread = false;
        client_passes();
        return EAGAIN;
    }
    return real(t, attributes, start, argument);
}

/* ---- each in a process of its own ---- */

static bool one_is_stuck(void) { return threads_in('D') == 1; }

/* rexit awaits that other threads have left its memory; one that closes is not in it. */
static int stuck_at_rexit(void)
{
    int fd;

    setenv("RPIPE_TIMEOUT_MS", "2000", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    atomic_store(&waits_at, fd);
    received_fd_close(fd);
    CHECK(NULL, soon(one_is_stuck));
    atomic_store(&waits_at, -1);
    CHECK(NULL, rexit() == 0);
    atomic_store(goes_on, 1);
    return 0;
}

static bool alone(void) { return threads_in(0) == 1; }

/* A failed rinit ends the closing threads that it has made: nothing keeps the program from unloading the library. */
static int rinit_fails(void)
{
    received_refuses_never = true;
    no_service_thread = true;
    CHECK(NULL, rinit(NULL, NULL) == -ENOMEM);
    CHECK(NULL, alone());
    CHECK(NULL, rinit(NULL, NULL) == 0 && rexit() == 0);
    return 0;
}

struct page_fault {
    int set; /* of epoll */
    void *page;
};

static void *waits_in_a_page(void *argument)
{
    const struct page_fault *p = argument;

    (void)epoll_wait(p->set, p->page, 1,
                     -1); /* copies an event to the page, with the lock of the set */
    return NULL;
}

/* A page that is never there; NULL: the kernel allows none. *faults is readable when a thread waits for it. */
static void *missing_page(int *faults)
{
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)page, bytes},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct uffdio_api api = {.api = UFFD_API};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

    *faults = fd;
    if (page == MAP_FAILED || fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0 ||
        ioctl(fd, UFFDIO_REGISTER, &range) != 0)
        return NULL;
    return page;
}

/* What the process of a writer can do with the descriptor of signals that it was passed. */
static void hold_lock_of(int fd, _Atomic int *held, pid_t parent)
{
    struct epoll_event event = {.events = EPOLLOUT};
    struct pollfd faults = {.events = POLLIN};
    struct page_fault p = {epoll_create1(EPOLL_CLOEXEC), missing_page(&faults.fd)};
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(99);
    if (p.page == NULL || p.set < 0 || epoll_ctl(p.set, EPOLL_CTL_ADD, fd, &event) != 0) {
        atomic_store(held, -1);
        _exit(0);
    }
    for (int other = 3; other < 100; other++) { /* it has no descriptor of that socket any more */
        if (other != p.set && other != faults.fd)
            (void)syscall(SYS_close, other);
    }
    CHECK(NULL, pthread_create(&thread, NULL, waits_in_a_page, &p) == 0);
    CHECK(NULL, poll(&faults, 1, PATIENCE_MS) == 1);
    atomic_store(held, 1);
    for (;;)
        pause();
}

static int lock_of_the_writer(void)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, 0, true, 1 << 12);
    _Atomic int *held = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid(), child;
    int64_t deadline;
    rch_t w, r;

    CHECK(NULL, held != MAP_FAILED && rinit(NULL, NULL) == 0 && rpipe(&w, &cfg) == 0);
    cfg.role = RPIPE_READER;
    CHECK(NULL, rpipe(&r, &cfg) == 0 && rwait(r) == 0 && rwait(w) == 0 && rfd(r) >= 0);
    child = fork();
    if (child == 0)
        hold_lock_of(r->signal_fd, held, parent);
    for (deadline = deadline_in_ms(PATIENCE_MS); atomic_load(held) == 0;)
        CHECK(NULL, !deadline_passed(deadline));
    deadline = deadline_in_ms(SOON_MS);
    CHECK(NULL, rclose(w) == 0 && rclose(r) == 0 && !deadline_passed(deadline));
    CHECK(NULL, rexit() == 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return atomic_load(held) < 0 ? SKIPPED : 0;
}

/* A wait that does not end fails the test, and its process is killed. */
static void test(const char *name, int (*body)(void))
{
    int64_t patience = deadline_in_ms(PATIENCE_MS / 4);
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(body());
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (deadline_passed(patience)) {
            EXPECT(false, "%s: it does not end", name);
            kill(child, SIGKILL);
            patience = DEADLINE_NEVER;
        }
        backoff_us(1000);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
        printf("%s: not allowed here\n", name);
    else
        EXPECT(status == 0, "%s: status 0x%x", name, (unsigned)status);
}

int main(int argc, char **argv)
{
    (void)argc;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_LOG", "error", 0);
    goes_on = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    test("a thread is stuck at rexit", stuck_at_rexit);
    test("rinit fails", rinit_fails);
    test("the writer holds a lock", lock_of_the_writer);
    return check_report(argv[0]);
}
