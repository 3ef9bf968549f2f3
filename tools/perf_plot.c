/* SPDX-License-Identifier: BSD-3-Clause */
/* perf_plot.c: latency and bandwidth against size, drawn by gnuplot, see perf.h. */
#include "gnuplot.h"
#include "perf.h"
#include <rinfo.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* The same curve has the same colour in both panels. */
static const char *curve_colour(const struct perf_result *r)
{
    static const char *const colours[] = {"#2166ac", "#d6604d", "#5aae61", "#e6a02c"};

    return r->test == PERF_MEMORY ? "#777777" : colours[(r->op == RPIPE_GET) + 2 * r->bi];
}

static bool same_curve(const struct perf_result *a, const struct perf_result *b)
{
    return a->test == b->test && a->op == b->op && a->bi == b->bi;
}

static const char *curve_name(const struct perf_result *r)
{
    if (r->test == PERF_MEMORY)
        return "memory alone";
    if (r->op == RPIPE_PUT)
        return r->bi ? "PUT, both ways" : "PUT";
    return r->bi ? "GET, both ways" : "GET";
}

/* Each curve as a named block of data: $d0, $d1, ...; their number. */
static int print_data(FILE *script, const struct perf_result *r, int n, int *curve_of)
{
    int curves = 0;

    for (int i = 0; i < n; i++) {
        if (i > 0 && same_curve(&r[i], &r[i - 1])) {
            curve_of[i] = curve_of[i - 1];
        } else {
            if (i > 0)
                fprintf(script, "EOD\n");
            fprintf(script, "$d%d << EOD\n", curves);
            curve_of[i] = curves++;
        }
        fprintf(script, "%zu %.6g %.6g %.6g %.6g\n", r[i].size, r[i].median / 1e3,
                (double)r[i].size / r[i].median,
                r[i].samples > 0 ? r[i].p50 / 1e3 : r[i].median / 1e3,
                r[i].samples > 0 ? r[i].p99 / 1e3 : r[i].median / 1e3);
    }
    fprintf(script, "EOD\n");
    return curves;
}

static bool has(const struct perf_result *r, int n, bool latency)
{
    for (int i = 0; i < n; i++)
        if ((r[i].test == PERF_LATENCY) == latency)
            return true;
    return false;
}

/* Latency is the p50 as a line and a band up to the p99; bandwidth is the median of the rounds. */
static void print_panel(FILE *script, const struct perf_result *r, int n, const int *curve_of,
                        bool latency)
{
    const char *separator = "plot ";

    fprintf(script,
            "set title '%s'\nset ylabel '%s'\nset key %s Left reverse samplen 2 spacing 1.2\n",
            latency ? "Latency: p50, with a band up to p99" : "Bandwidth",
            latency ? "microseconds" : "GB/s", latency ? "top left" : "bottom right");
    for (int i = 0; i < n; i++) {
        const char *colour = curve_colour(&r[i]);
        int point = r[i].op == RPIPE_GET ? 6 : 7; /* where PUT and GET coincide, both are seen */

        if ((r[i].test == PERF_LATENCY) != latency || (i > 0 && curve_of[i] == curve_of[i - 1]))
            continue;
        if (latency)
            fprintf(script,
                    "%s$d%d using 1:4:5 with filledcurves fc rgb '%s' fs transparent solid 0.15 "
                    "noborder notitle",
                    separator, curve_of[i], colour);
        fprintf(script,
                "%s$d%d using 1:%d with linespoints lw 2 pt %d ps %s lc rgb '%s' title '%s'",
                latency ? ", " : separator, curve_of[i], latency ? 4 : 3, point,
                point == 6 ? "1.2" : "0.7", colour, curve_name(&r[i]));
        separator = ", ";
    }
    fprintf(script, "\n");
}

/* Where and when it was measured, how calls wait, and whether others used the machine: a picture outlives its directory. */
static void print_origin(FILE *script, double others)
{
    char text[320], host[64] = "?", date[32] = "?";
    time_t now = time(NULL);
    struct tm tm;

    (void)gethostname(host, sizeof(host) - 1);
    if (localtime_r(&now, &tm) != NULL)
        (void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &tm);
    snprintf(text, sizeof(text), "%s, %s, RPIPE_WAIT=%s, others took %.1f %% of the processors%s",
             host, date, perf_setting("RPIPE_WAIT"), 100 * others,
             others > PERF_BUSY ? ": BUSY" : "");
    fprintf(script, "set label 99 ");
    gnuplot_quoted(script, text);
    fprintf(script, " at screen 0.99,0.02 right noenhanced font ',9' textcolor rgb '%s'\n",
            others > PERF_BUSY ? "#b2182b" : "#777777");
}

static void print_script(FILE *script, const char *path, const struct perf_options *o,
                         const struct perf_result *r, int n, double others)
{
    int panels = has(r, n, true) + has(r, n, false);
    int *curve_of = n > 0 ? calloc((size_t)n, sizeof(*curve_of)) : NULL;

    if (curve_of == NULL)
        return;
    print_data(script, r, n, curve_of);
    fprintf(script, "set terminal pngcairo size %d,520 font 'Sans,11'\nset output ", panels * 700);
    gnuplot_quoted(script, path);
    fprintf(script,
            "\nset multiplot layout 1,%d title 'rmalloc\\_perf %s: 2 processes, payload %s' font "
            "',13'\n"
            "set logscale x 2\nset logscale y 10\nset xlabel 'bytes of a message'\nset border 3 lc "
            "rgb '#555555'\n"
            "set tics nomirror textcolor rgb '#333333'\nset grid lt 1 lc rgb '#dddddd' lw 0.7\nset "
            "xtics rotate by -40\n"
            "set xtics ('1' 1, '8' 8, '64' 64, '512' 512, '4k' 4096, '32k' 32768, '256k' 262144, "
            "'2M' 2097152, "
            "'16M' 16777216)\nset offsets graph 0.03, graph 0.03, 0, 0\nset rmargin 4\n",
            panels, rinfo_version(),
            o->touch == PERF_TOUCH  ? "filled and read"
            : o->touch == PERF_WORD ? "first word written and read"
                                    : "not touched");
    print_origin(script, others);
    if (has(r, n, true))
        print_panel(script, r, n, curve_of, true);
    if (has(r, n, false))
        print_panel(script, r, n, curve_of, false);
    fprintf(script, "unset multiplot\nset output\n");
    free(curve_of);
}

int perf_plot(const char *path, const struct perf_options *o, const struct perf_result *r, int n,
              double others)
{
    FILE *script = gnuplot_begin("rmalloc_perf");

    if (script == NULL)
        return -1;
    print_script(script, path, o, r, n, others);
    return gnuplot_end(script, "rmalloc_perf", path);
}
