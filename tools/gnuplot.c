/* SPDX-License-Identifier: BSD-3-Clause */
/* gnuplot.c: see gnuplot.h. */
#include "gnuplot.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void (*gnuplot_sigpipe)(int);

void gnuplot_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', script);
        fputc(*text, script);
    }
    fputc('\'', script);
}

FILE *gnuplot_begin(const char *tool)
{
    FILE *script;

    gnuplot_sigpipe = signal(SIGPIPE, SIG_IGN); /* gnuplot may be missing, or leave early */
    script = popen("exec gnuplot", "w");
    if (script != NULL)
        return script;
    fprintf(stderr, "%s: --plot: gnuplot cannot be started: %s\n", tool, strerror(errno));
    signal(SIGPIPE, gnuplot_sigpipe);
    return NULL;
}

int gnuplot_end(FILE *script, const char *tool, const char *path)
{
    int status = pclose(script);

    signal(SIGPIPE, gnuplot_sigpipe);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && access(path, R_OK) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        fprintf(stderr,
                "%s: --plot: gnuplot is not installed (Debian: gnuplot-nox); nothing was drawn\n",
                tool);
    else
        fprintf(stderr, "%s: --plot: gnuplot failed; %s was not drawn\n", tool, path);
    return -1;
}
