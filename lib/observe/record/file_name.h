/* SPDX-License-Identifier: BSD-3-Clause */
/* file_name.h: the name of a file that each process of a job writes (RPIPE_TRACE, RPIPE_STATS). */
#ifndef OBSERVE_RECORD_FILE_NAME_H
#define OBSERVE_RECORD_FILE_NAME_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Expands %p (process id), %r (rank) and %% in `pattern`. A pattern with neither %p nor %r gets ".RANK" appended in a job of
 * several ranks. False: the name does not fit.
 */
bool file_name_expand(const char *pattern, int rank, int ranks, char *name, size_t name_bytes);

#endif
