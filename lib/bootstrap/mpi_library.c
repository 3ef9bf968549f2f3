/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_library.c: see mpi_library.h.
 *
 * Libraries of MPI are recognized by a symbol and not by their file: the candidates are the program
 * itself and every shared object whose name begins with libmpi, and each is asked for
 * MPI_Get_library_version, which may be called before MPI_Init (MPI 3.1, 8.1.1). Libraries for
 * Fortran and C++ refer to the same function, so what counts is how many different ones there are.
 */
#include "bootstrap/mpi_library.h"

#include "bootstrap/launcher.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CANDIDATES_MOST 16
#define VERSION_BYTES 8192 /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the largest */

typedef int (*version_function)(char *text, int *length);
typedef int (*flag_function)(int *flag);

struct candidates {
    char path[CANDIDATES_MOST][PATH_MAX];
    int n;
};

static int mpi_library_collect(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    struct candidates *all = argument;
    const char *base = strrchr(info->dlpi_name, '/');

    (void)bytes;
    base = base != NULL ? base + 1 : info->dlpi_name;
    if (strncmp(base, "libmpi", 6) == 0 && all->n < CANDIDATES_MOST)
        snprintf(all->path[all->n++], PATH_MAX, "%s", info->dlpi_name);
    return 0;
}

/* The module for an implementation that calls itself this; NULL: none. */
static const char *mpi_library_module(const char *version)
{
    static const char *const kinds[][2] = {
        {"Open MPI", "job_openmpi"},
        {"MPICH", "job_mpich"},
        {"Intel(R) MPI", "job_mpich"},
        {"MVAPICH", "job_mpich"},
    };
    size_t i;

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strstr(version, kinds[i][0]) != NULL)
            return kinds[i][1];
    }
    return NULL;
}

/* Examines one shared object, NULL: the program. `known` is the function found before, or NULL. */
static int mpi_library_look(const char *path, struct mpi_library *found, void **known,
                            struct error *err)
{
    static char version[VERSION_BYTES]; /* under the lock of mpi_library_find */
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD), *symbol, *initialized, *finalized;
    Dl_info first, second;
    int length = 0, begun = 0, over = 0;

    if (handle == NULL)
        return 0;
    symbol = dlsym(handle, "MPI_Get_library_version");
    initialized = dlsym(handle, "MPI_Initialized");
    finalized = dlsym(handle, "MPI_Finalized");
    dlclose(handle); /* it stays until its user closes it, too */
    if (symbol == NULL || initialized == NULL || finalized == NULL || symbol == *known)
        return 0;
    if (*known != NULL) {
        if (dladdr(*known, &first) == 0 || dladdr(symbol, &second) == 0)
            return error_set(err, -ENOTSUP, "there are two libraries of MPI in this process");
        return error_set(
            err, -ENOTSUP,
            "there are two libraries of MPI in this process, %s and %s: link it with one",
            first.dli_fname, second.dli_fname);
    }
    memset(version, 0, sizeof(version));
    ((version_function)symbol)(version, &length);
    version[sizeof(version) - 1] = '\0';
    *known = symbol;
    found->present = true;
    found->module = mpi_library_module(version);
    ((flag_function)initialized)(&begun);
    ((flag_function)finalized)(&over);
    found->started = begun != 0 && over == 0;
    return 0;
}

int mpi_library_find(struct mpi_library *found, struct error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct candidates all; /* too large for a stack */
    void *known = NULL;
    int i, result;

    *found = (struct mpi_library){.module = NULL};
    pthread_mutex_lock(&lock);
    all.n = 0;
    dl_iterate_phdr(mpi_library_collect, &all);
    result = mpi_library_look(NULL, found, &known, err);
    for (i = 0; i < all.n && result == 0; i++)
        result = mpi_library_look(all.path[i], found, &known, err);
    pthread_mutex_unlock(&lock);
    if (result == 0 && !found->present)
        found->module = launcher_mpi_module();
    return result;
}
