/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe_reason.c: why another process shows nothing: it is of another user, has ended, is in no job, or cannot be in one. In a sentence
 * for who asked, as far as /proc tells; what is found may have changed by then.
 */
#include "rpipe/end/end.h"
#include "observe/record/publish.h"

#include "util/proc.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char observe_reason_state_of(int pid)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    return proc_state(path);
}

static bool observe_reason_is_of_kernel(int pid)
{
    char path[32], target[8];

    snprintf(path, sizeof(path), "/proc/%d/exe", pid);
    return readlink(path, target, sizeof(target)) < 0 && errno == ENOENT;
}

static bool observe_reason_has_other_words(int pid)
{
    unsigned char ident[EI_NIDENT] = "";
    char path[32];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/exe", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, ident, sizeof(ident));
    close(fd);
    return n == (ssize_t)sizeof(ident) && memcmp(ident, ELFMAG, SELFMAG) == 0 &&
           ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32);
}

/* Which shared libraries it has mapped: *ours, *any. */
static void observe_reason_look_at_maps(int pid, bool *ours, bool *any)
{
    char path[32], line[512];
    FILE *f;

    *ours = *any = false;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        *any = *any || strstr(line, ".so") != NULL;
        *ours = *ours || strstr(line, "librmalloc") != NULL;
    }
    if (f != NULL)
        fclose(f);
}

static void observe_reason_say_whose(int pid)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof(path), "/proc/%d", pid);
    if (stat(path, &st) == 0 && st.st_uid != geteuid())
        last_error_set("rpipe_observe: process %d belongs to another user (%u, and this is %u): "
                       "ask as that one, or as root",
                       pid, (unsigned)st.st_uid, (unsigned)geteuid());
    else
        last_error_set("rpipe_observe: process %d may not be looked into (ptrace(2); it is not "
                       "dumpable, perhaps): ask as root",
                       pid);
}

int observe_missing(int pid, int rc)
{
    char state = rc == -ESRCH ? 0 : observe_reason_state_of(pid);
    bool ours, any;

    if (state == 0) {
        last_error_set("rpipe_observe: there is no process %d", pid);
        return -ESRCH;
    }
    if (state == 'Z' || state == 'X') {
        last_error_set(
            "rpipe_observe: process %d has ended, and waits for its parent to notice (a zombie)",
            pid);
        return -ESRCH;
    }
    if (rc == -EACCES || rc == -EPERM) {
        observe_reason_say_whose(pid);
        return -EACCES;
    }
    if (rc != -ENOENT) {
        last_error_set("rpipe_observe: process %d cannot be looked into: %s", pid, strerror(-rc));
        return rc;
    }
    observe_reason_look_at_maps(pid, &ours, &any);
    if (pid == (int)getpid())
        last_error_set("rpipe_observe: process %d is this one, and it is in no job: it has not "
                       "called rinit, or has left by rexit",
                       pid);
    else if (observe_reason_is_of_kernel(pid))
        last_error_set("rpipe_observe: process %d is a thread of the kernel, and shows nothing",
                       pid);
    else if (observe_reason_has_other_words(pid))
        last_error_set("rpipe_observe: process %d shows nothing: it is a program of %d bits, and "
                       "this library has %d",
                       pid, sizeof(void *) == 8 ? 32 : 64, (int)(8 * sizeof(void *)));
    else if (ours)
        last_error_set("rpipe_observe: process %d shows nothing: it has not called rinit, or has "
                       "left by rexit",
                       pid);
    else
        last_error_set("rpipe_observe: process %d shows nothing: %s", pid,
                       any ? "it does not use this library"
                           : "it is a static program, without this library or in no job");
    return rc;
}
