/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gnuplot.h: gnuplot as a child whose standard input is a script.
 *
 * The script and its data go through a pipe, so there is no temporary file; a quote in the name of
 * the picture cannot end the string that it stands in.
 */
#ifndef TOOLS_GNUPLOT_H
#define TOOLS_GNUPLOT_H

#include <stdio.h>

/* NULL, and a message of `tool`: it cannot be started. SIGPIPE is ignored until gnuplot_end(). */
FILE *gnuplot_begin(const char *tool);
/* 0 if the picture is there; else -1 and a message of `tool`. */
int gnuplot_end(FILE *script, const char *tool, const char *path);
/* A text in quotes. */
void gnuplot_quoted(FILE *script, const char *text);

#endif
