/* SPDX-License-Identifier: BSD-3-Clause */
/* altered_descriptor.c: every kind of descriptor that the byzantine rank of altered.h passes where one is expected, and where none is. */
#include "altered.h"

#include "rpipe/end/rch.h"
#include "test/lib/lingering.h"

#include <linux/memfd.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define MANY 8
#define GOOD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int memory(unsigned flags, off_t bytes, int seals)
{
    int fd = memfd_create("altered", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

    if (fd < 0)
        return -1; /* there may be no huge pages */
    (void)ftruncate(fd, bytes);
    (void)fallocate(fd, 0, 0, bytes);
    (void)fcntl(fd, F_ADD_SEALS, seals);
    return fd;
}

static int unsealed(rch_t ch) { return (void)ch, memory(0, HEAP_OF_PIPE, 0); }
static int empty(rch_t ch) { return (void)ch, memory(0, 0, GOOD_SEALS); }
static int good(rch_t ch) { return (void)ch, memory(0, HEAP_OF_PIPE, GOOD_SEALS); }
static int huge(rch_t ch) { return (void)ch, memory(MFD_HUGETLB, 2 << 20, GOOD_SEALS); }
static int directory(rch_t ch) { return (void)ch, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }
static int null(rch_t ch) { return (void)ch, open("/dev/null", O_RDWR | O_CLOEXEC); }

static int pipe_end(rch_t ch)
{
    int fds[2];

    (void)ch;
    if (pipe2(fds, O_CLOEXEC) != 0)
        return -1;
    close(fds[0]);
    return fds[1];
}

static int unix_socket(rch_t ch)
{
    int fds[2];

    (void)ch;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return -1;
    close(fds[0]);
    return fds[1];
}

static int lingering(rch_t ch)
{
    static int other[64], n; /* open as long as this process is */

    (void)ch;
    return lingering_socket(&other[n++ % 64]);
}

/* What the victim has passed itself. */
static int given(rch_t ch)
{
    return ch->signal_fd >= 0 ? fcntl(ch->signal_fd, F_DUPFD_CLOEXEC, 0) : eventfd(0, EFD_CLOEXEC);
}

static const struct {
    const char *name;
    int (*make)(rch_t ch);
    int count;
} kinds[DESCRIPTOR_KINDS] = {
    {"none", null, 0},
    {"memory", good, 1},
    {"unsealed-memory", unsealed, 1},
    {"empty-memory", empty, 1},
    {"huge-memory", huge, 1},
    {"pipe", pipe_end, 1},
    {"waiting-socket", lingering, 1},
    {"unix-socket", unix_socket, 1},
    {"directory", directory, 1},
    {"null", null, 1},
    {"victims-own", given, 1},
    {"many", null, MANY},
};

const char *descriptor_name(uint64_t kind) { return kinds[kind].name; }

int descriptors_make(uint64_t kind, rch_t ch, int fds[MANY])
{
    int n = 0;

    while (n < kinds[kind].count && (fds[n] = kinds[kind].make(ch)) >= 0)
        n++;
    return n;
}

static void *closes(void *argument)
{
    close((int)(intptr_t)argument);
    return NULL;
}

/* This process keeps no copy; the close may wait, where the victim has dropped its own before. */
void descriptors_drop(const int *fds, int n)
{
    pthread_t thread;

    while (n-- > 0)
        if (pthread_create(&thread, NULL, closes, (void *)(intptr_t)fds[n]) ==
            0) /* NOLINT(performance-no-int-to-ptr) */
            pthread_detach(thread);
}
