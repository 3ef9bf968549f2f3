/* SPDX-License-Identifier: BSD-3-Clause */
/* sandbox.c: see sandbox.h. */
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const places[] = {"/tmp", "/var/tmp", "/dev/shm"};
#define HERE "/tmp/here"

static bool refuse(const char *what, struct error *err)
{
    error_note(err, "%s: %s", what, strerror(errno));
    return false;
}

/* ---- going there ---- */

static bool put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return done;
}

/* A process that is not root may have namespaces within one of users, where it is. */
static bool be_root(void)
{
    char users[32], groups[32];

    snprintf(users, sizeof(users), "0 %u 1", (unsigned)getuid());
    snprintf(groups, sizeof(groups), "0 %u 1", (unsigned)getgid());
    return unshare(CLONE_NEWUSER) == 0 && put("/proc/self/setgroups", "deny") &&
           put("/proc/self/uid_map", users) && put("/proc/self/gid_map", groups);
}

static bool bring_up(const char *device)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up;

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
    up = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    request.ifr_flags |= IFF_UP;
    up = up && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return up;
}

/* "/tmp/a" of "/tmp/a/b/c"; false: this is not below /tmp. */
static bool top_of(const char *path, char top[PATH_MAX])
{
    char whole[PATH_MAX];

    if (path == NULL || realpath(path, whole) == NULL || strncmp(whole, "/tmp/", 5) != 0)
        return false;
    whole[5 + strcspn(whole + 5, "/")] = '\0';
    memcpy(top, whole, strlen(whole) + 1);
    return true;
}

/* An empty /tmp, in which there is what programs are loaded from if that was below /tmp. It is made where /dev/shm will be. */
static bool empty_tmp(void)
{
    const char *const wanted[] = {getenv("RPIPE_MODULE_PATH"), "/proc/self/exe", "."};
    char top[PATH_MAX], there[PATH_MAX + 16];
    size_t i;

    if (mount("none", "/dev/shm", "tmpfs", 0, "mode=1777") != 0)
        return false;
    for (i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        if (!top_of(wanted[i], top))
            continue;
        snprintf(there, sizeof(there), "/dev/shm%s", top + strlen("/tmp"));
        if (mkdir(there, 0700) == 0 ? mount(top, there, NULL, MS_BIND | MS_REC, NULL) != 0
                                    : errno != EEXIST)
            return false;
    }
    return mkdir("/dev/shm/here", 0700) == 0 && mount("/dev/shm", "/tmp", NULL, MS_MOVE, NULL) == 0;
}

bool island_enter(struct error *err)
{
    const int all = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC;

    if (unshare(all) != 0 && (!be_root() || unshare(all) != 0))
        return refuse("namespaces cannot be made here", err);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || !empty_tmp() ||
        mount("none", "/var/tmp", "tmpfs", 0, NULL) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, "mode=1777") != 0)
        return refuse("directories of its own cannot be mounted", err);
    if (!bring_up("lo"))
        return refuse("a network of its own cannot be had", err);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || chdir(HERE) != 0)
        return refuse("it cannot be made a home", err);
    return true;
}

/* ---- what is there ---- */

struct list {
    char *text;
    size_t bytes, at;
    unsigned n;
};

__attribute__((format(printf, 2, 3))) static void add(struct list *l, const char *format, ...)
{
    va_list arguments;
    int length;

    l->n++;
    va_start(arguments, format);
    length = vsnprintf(l->text + l->at, l->bytes - l->at, format, arguments);
    va_end(arguments);
    if (length > 0)
        l->at += (size_t)length < l->bytes - l->at ? (size_t)length : l->bytes - l->at - 1;
}

/* Not what is mounted there: that was there before. */
static void list_files(struct list *l, const char *directory, dev_t device)
{
    DIR *dir = opendir(directory);
    char path[PATH_MAX];
    struct dirent *e;
    struct stat st;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            (size_t)snprintf(path, sizeof(path), "%s/%s", directory, e->d_name) >= sizeof(path) ||
            lstat(path, &st) != 0)
            continue;
        if (st.st_dev != device)
            continue;
        if (strcmp(path, HERE) != 0) /* what is in it counts */
            add(l, "file %s\n", path);
        if (S_ISDIR(st.st_mode))
            list_files(l, path, device);
    }
    if (dir != NULL)
        closedir(dir);
}

/* What is below the first line of this file of /proc. `waits`: what a line contains that does not count. */
static void list_lines(struct list *l, const char *name, const char *waits)
{
    char path[64], line[400];
    FILE *f;
    int i;

    snprintf(path, sizeof(path), "/proc/%s", name);
    f = fopen(path, "re");
    for (i = 0; f != NULL && fgets(line, sizeof(line), f) != NULL; i++)
        if (i > 0 && (waits == NULL || strstr(line, waits) == NULL))
            add(l, "%s %s", name, line);
    if (f != NULL)
        fclose(f);
}

/*
 * Those that run. One that has ended is an orphan, and is waited for here as by init: a rank that is killed while its leak
 * sanitizer runs leaves behind what that had made for it.
 */
static void list_children(struct list *l)
{
    siginfo_t info;
    int rc = 0;

    do {
        info.si_pid = 0;
        rc = waitid(P_ALL, 0, &info, WEXITED | WNOHANG);
    } while (rc == 0 && info.si_pid != 0);
    if (rc == 0)
        add(l, "a process that runs\n");
    else if (errno != ECHILD)
        add(l, "waitid: %s\n", strerror(errno));
}

unsigned island_list(char *text, size_t text_bytes)
{
    static const char *const sockets[] = {"net/unix", "net/tcp",  "net/tcp6",
                                          "net/udp",  "net/udp6", "net/raw"};
    static const char *const objects[] = {"sysvipc/shm", "sysvipc/sem", "sysvipc/msg"};
    struct list l = {text, text_bytes, 0, 0};
    struct stat st;
    size_t i;

    *text = '\0';
    for (i = 0; i < sizeof(places) / sizeof(*places); i++)
        if (stat(places[i], &st) == 0)
            list_files(&l, places[i], st.st_dev);
    for (i = 0; i < sizeof(sockets) / sizeof(*sockets); i++)
        list_lines(&l, sockets[i], strstr(sockets[i], "tcp") != NULL ? " 06 " : NULL);
    for (i = 0; i < sizeof(objects) / sizeof(*objects); i++)
        list_lines(&l, objects[i], NULL);
    list_children(&l);
    return l.n;
}
