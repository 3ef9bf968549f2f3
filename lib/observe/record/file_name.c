/* SPDX-License-Identifier: BSD-3-Clause */
/* file_name.c: see file_name.h. */
#include "observe/record/file_name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool file_name_expand(const char *pattern, int rank, int ranks, char *name, size_t name_bytes)
{
    bool distinct = ranks <= 1;
    size_t n = 0;
    int more;

    for (; *pattern != '\0' && n < name_bytes; pattern++) {
        if (*pattern != '%' || strchr("pr%", pattern[1]) == NULL || pattern[1] == '\0') {
            name[n++] = *pattern;
            continue;
        }
        pattern++;
        distinct = distinct || *pattern != '%';
        more = *pattern == 'p'   ? snprintf(name + n, name_bytes - n, "%d", (int)getpid())
               : *pattern == 'r' ? snprintf(name + n, name_bytes - n, "%d", rank)
                                 : snprintf(name + n, name_bytes - n, "%%");
        n += (size_t)more;
    }
    if (!distinct && n < name_bytes)
        n += (size_t)snprintf(name + n, name_bytes - n, ".%d", rank);
    if (n >= name_bytes)
        return false;
    name[n] = '\0';
    return true;
}
