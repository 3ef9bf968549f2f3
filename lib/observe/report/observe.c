/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.c: rinfo_observe: finds the file that a process publishes, or the reason why there is none; and rows as JSON.
 */
#include "observe/record/publish.h"
#include "observe/report/observe_file.h"
#include "util/last_error.h"
#include "util/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <rinfo.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens the first descriptor of that process with the name of such a file for reading; or -errno. */
static int observe_find(int pid)
{
    static const char wanted[] = "/memfd:" PUBLISHED_NAME " (deleted)";
    char path[64], target[sizeof(wanted) + 1];
    struct dirent *e;
    int fd = -ENOENT;
    ssize_t length;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    dir = opendir(path);
    if (dir == NULL)
        return errno == ENOENT ? -ESRCH : -errno;
    while (fd == -ENOENT && (e = readdir(dir)) != NULL) {
        length = readlinkat(dirfd(dir), e->d_name, target, sizeof(target));
        if (length != (ssize_t)sizeof(wanted) - 1 ||
            memcmp(target, wanted, sizeof(wanted) - 1) != 0)
            continue;
        /* it may be a FIFO that has been given this name: opening it must not wait */
        fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
            fd = errno == EACCES ? -EACCES : -ENOENT;
    }
    closedir(dir);
    return fd;
}

/* The error of a search that has failed with rc. */
static int observe_not_found(int pid, int rc)
{
    char path[32], state;
    struct stat st;

    if (access("/proc/self/stat", R_OK) != 0) {
        last_error_set("rinfo_observe: /proc is not readable here, so process %d cannot be found: "
                       "mount it",
                       pid);
        return -ENOENT;
    }
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    state = rc == -ESRCH ? 0 : proc_state(path);
    snprintf(path, sizeof(path), "/proc/%d", pid);
    if (state == 0 || state == 'Z' || state == 'X') {
        last_error_set("rinfo_observe: process %d %s", pid,
                       state == 0 ? "does not exist" : "has ended (it is a zombie)");
        return -ESRCH;
    }
    if (rc == -EACCES || rc == -EPERM) {
        if (stat(path, &st) == 0 && st.st_uid != geteuid())
            last_error_set("rinfo_observe: process %d belongs to user %u and this process to user "
                           "%u; run as that user or as root",
                           pid, (unsigned)st.st_uid, (unsigned)geteuid());
        else
            last_error_set("rinfo_observe: process %d may not be traced (ptrace(2); perhaps it is "
                           "not dumpable); run as root",
                           pid);
        return -EACCES;
    }
    last_error_set("rinfo_observe: process %d publishes no counters: %s", pid,
                   rc != -ENOENT ? strerror(-rc)
                   : pid == (int)getpid()
                       ? "it is this process, which is in no job; call rinit first"
                       : "it does not use this library, or is in no job now");
    return rc;
}

int rinfo_observe(int pid, int (*row)(const rinfo_row_t *row, void *argument), void *argument)
{
    struct error err = {""};
    bool own = pid == getpid() && publish_fd() >= 0;
    int fd, rc;

    if (row == NULL) {
        last_error_set("rinfo_observe: row is NULL; give a function that receives the rows");
        return -EINVAL;
    }
    fd = own ? publish_fd() : observe_find(pid);
    if (fd < 0)
        return observe_not_found(pid, fd);
    rc = observe_file(fd, row, argument, &err);
    if (!own)
        close(fd);
    if (err.text[0] != '\0')
        last_error_set("rinfo_observe: the file of process %d cannot be used: %s", pid, err.text);
    return rc;
}

int rinfo_json(const rinfo_row_t *row, FILE *to)
{
    if (row == NULL || to == NULL) {
        last_error_set("rinfo_json: row or to is NULL");
        return -EINVAL;
    }
    if (row->process)
        fprintf(to,
                "{\"pid\": %d, \"rank\": %d, \"ranks\": %d, \"open\": %llu, \"opened\": %llu, "
                "\"age_ns\": %llu, \"program\": \"%s\", \"job\": \"%s\"",
                row->pid, row->rank, row->ranks, (unsigned long long)row->open,
                (unsigned long long)row->opened, (unsigned long long)row->age_ns,
                row->program != NULL ? row->program : "", row->job != NULL ? row->job : "");
    else
        fprintf(to,
                "{\"from\": %d, \"to\": %d, \"context\": %llu, \"incarnation\": %u, \"role\": "
                "\"%s\", \"backend\": \"%s\", \"state\": \"%s\"",
                row->from, row->to, (unsigned long long)row->context, row->incarnation,
                row->writer ? "writer" : "reader", row->backend, row->state);
    fprintf(to, ", \"waits_for\": \"%s\", \"waits_ns\": %llu, \"counters\": {", row->waits_for,
            (unsigned long long)row->waits_ns);
    for (int i = 0; i < row->counters; i++)
        fprintf(to, "%s\"%s\": %llu", i > 0 ? ", " : "", row->name[i],
                (unsigned long long)row->value[i]);
    fprintf(to, "}}");
    return ferror(to) ? -EIO : 0;
}
