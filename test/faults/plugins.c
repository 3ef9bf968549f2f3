/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugins.c: a program that does not use the library loads a plugin that does, and unloads it, several times.
 *
 * Each time the plugin joins a job of one process, works, and leaves; a new instance of the library may do so, while the same one
 * may not (rinit(3)). When it has been unloaded no thread of the library is left, no descriptor, and no mapping: neither
 * of its code nor of its memory. A plugin that is unloaded without rexit keeps the library loaded, whose thread still runs. And what
 * the library has open is not passed on by execve(2).
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
/* what an unloaded library has kept until the end of the process is reported as a leak */
__attribute__((visibility("default"))) const char *
__asan_default_options(void); /* NOLINT(bugprone-reserved-identifier): its name */
const char *__asan_default_options(void) { return "detect_leaks=0"; }
#endif

#define TIMES 6
#define PATIENCE_MS 30000

static int failures;

static void fail(const char *what, int before, int after)
{
    printf("FAILED: %s: %d before, %d after\n", what, before, after);
    failures++;
}

static int entries(const char *directory)
{
    DIR *dir = opendir(directory);
    int n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* Mappings of the library's code, or of its shared memory; not the pages of ends, which stay (lib/rpipe/end/end_pool.c). */
static int mappings(bool print)
{
    static const char *const names[] = {"librmalloc", "btl_shm", "memfd:rmalloc (",
                                        "memfd:rmalloc-", "plugin.so"};
    FILE *f = fopen("/proc/self/maps", "re");
    char line[600];
    int n = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
            if (strstr(line, names[i]) != NULL) {
                n++;
                if (print)
                    printf("  %s", line);
                break;
            }
    if (f != NULL)
        fclose(f);
    return n;
}

static void *load(const char *path, const char *symbol, const char *(**call)(void))
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL) {
        printf("FAILED: %s\n", dlerror());
        exit(1);
    }
    *(void **)call = dlsym(handle, symbol);
    if (*call == NULL) {
        printf("FAILED: no %s\n", symbol);
        exit(1);
    }
    return handle;
}

static void run(const char *path, const char *symbol, const char *when)
{
    const char *(*call)(void), *error;
    void *handle = load(path, symbol, &call);

    error = call();
    if (error != NULL) {
        printf("FAILED: %s, %s: %s\n", symbol, when, error);
        failures++;
    }
    dlclose(handle);
}

/* A thread that has been joined may be listed for a moment yet. */
static int threads(int expected)
{
    int ms, n;

    for (ms = 0; (n = entries("/proc/self/task")) > expected && ms < PATIENCE_MS; ms++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return n;
}

static void leaves_nothing(const char *path)
{
    int fds = 0, others = 0, i;
    char when[40];

    for (i = 0; i < TIMES; i++) {
        snprintf(when, sizeof(when), "time %d", i + 1);
        run(path, "plugin_works", when);
        if (i == 0) { /* the C library, too, opens things once */
            fds = entries("/proc/self/fd");
            others = threads(3); /* ".", "..", this one; a sanitizer may have more */
        }
        if (mappings(false) != 0) {
            fail("mappings", 0, mappings(true));
            return;
        }
    }
    if (entries("/proc/self/fd") != fds)
        fail("descriptors", fds, entries("/proc/self/fd"));
    if (threads(others) != others)
        fail("threads", others, entries("/proc/self/task"));
}

/* Unloaded in the middle of a job: the library stays, so nothing crashes; after an exec only the standard descriptors are there. */
static void stays(const char *path, const char *self)
{
    pid_t pid;
    int status = -1, before = entries("/proc/self/fd");
    char text[16];

    run(path, "plugin_abandons", "without rexit");
    if (mappings(false) == 0)
        fail("mappings of a library that runs", 1, 0);
    nanosleep(&(struct timespec){0, 30000000},
              NULL); /* its thread does something, wherever it is */
    if (entries("/proc/self/fd") <= before)
        fail("descriptors of a job", before, entries("/proc/self/fd"));
    snprintf(text, sizeof(text), "%d", before);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        execl(self, self, "--count", text, (char *)NULL);
        _exit(99);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        printf("a program that was executed ended with status 0x%x\n", (unsigned)status);
        failures++;
    }
}

int main(int argc, char **argv)
{
    const char *directory = getenv("PLUGIN_PATH");
    char path[512];

    if (argc == 3 && strcmp(argv[1], "--count") == 0)
        return entries("/proc/self/fd") > atoi(argv[2]);
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    snprintf(path, sizeof(path), "%s/plugin.so",
             directory != NULL ? directory : "test/faults/.libs");
    if (access(path, R_OK) != 0) {
        printf("no %s: run it from the build directory, by make check\n", path);
        return 99;
    }
    leaves_nothing(path);
    stays(path, "/proc/self/exe");
    printf("%s: %s\n", argv[0], failures == 0 ? "good" : "FAILED");
    return failures == 0 ? 0 : 1;
}
