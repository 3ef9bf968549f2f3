/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resources.h: what this process has: bytes of malloc in use, descriptors, mappings.
 */
#ifndef TEST_LIB_RESOURCES_H
#define TEST_LIB_RESOURCES_H

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>

/* Mappings that sanitizers make for themselves at any time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RESOURCES_MAPPINGS_SLACK 1000
#else
#define RESOURCES_MAPPINGS_SLACK 0
#endif

#ifdef HAVE_MALLINFO2
#include <malloc.h>
static inline size_t resources_heap_bytes(void) { return mallinfo2().uordblks; }
#else /* musl has no such function */
static inline size_t resources_heap_bytes(void) { return 0; }
#endif

static inline int resources_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -3; /* ".", "..", and the one that it is read by */

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static inline int resources_mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    int n = 0, c;

    while (f != NULL && (c = fgetc(f)) != EOF)
        n += c == '\n';
    if (f != NULL)
        fclose(f);
    return n;
}

#endif
