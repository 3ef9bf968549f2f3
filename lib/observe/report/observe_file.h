/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe_file.h: rows of the file that a process publishes (observe/record/publish.h).
 */
#ifndef OBSERVE_REPORT_OBSERVE_FILE_H
#define OBSERVE_REPORT_OBSERVE_FILE_H

#include "util/error.h"

#include <rinfo.h>

typedef int (*observe_row)(const rinfo_row_t *row, void *argument);

/* rinfo_observe of an open file. -EPROTO, -ENOMEM: err has the reason. */
int observe_file(int fd, observe_row row, void *argument, struct error *err);

/* The state of an end as text, from its state flags. */
const char *observe_state_name(uint32_t state);

#endif
