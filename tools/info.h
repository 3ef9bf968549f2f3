/* SPDX-License-Identifier: BSD-3-Clause */
/* info.h: the parts of rmalloc_info. */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <stdbool.h>

int info_peers(bool json);               /* rmalloc_info --peers: the status of the program */
void info_json_string(const char *text); /* with its quotes, to standard output */

#endif
