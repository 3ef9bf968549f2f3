/* SPDX-License-Identifier: BSD-3-Clause */
/* proc.h: what the benchmarks read in /proc. */
#ifndef BENCH_PROC_H
#define BENCH_PROC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line "Name:   N kB" of a file in /proc, in bytes; 0 if there is none. */
static inline double proc_bytes(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    char line[256];
    long long kb = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            kb = atoll(line + strlen(name));
    fclose(file);
    return (double)kb * 1024;
}

#endif
