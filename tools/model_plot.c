/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_plot.c: where the time goes, as bars (Zambre 2020, figures 2.11 to 2.16), and what faster
 * components would save, as curves (figures 2.17 and 2.18). See model.h.
 */
#include "gnuplot.h"
#include "model.h"

static const char *const plot_colours[] = {"#2166ac", "#d6604d", "#5aae61", "#e6a02c", "#8073ac",
                                           "#35978f", "#bf812d", "#777777", "#c51b7d", "#4d9221"};
#define COLOURS ((int)(sizeof(plot_colours) / sizeof(plot_colours[0])))

static struct model_sum plot_sum(const struct model_parts *p, int size, bool latency)
{
    return latency ? model_latency(p, size) : model_injection(p, size);
}

/* One bar, its components from left to right, with a key. */
static void plot_bar(FILE *script, const struct model_parts *p, int size, bool latency)
{
    const struct model_sum s = plot_sum(p, size, latency);
    const double total = model_total(&s);
    double from = 0;

    fprintf(script,
            "set title '%s, %zu B: %.2f ns'\nunset xlabel\nunset ylabel\nset xrange [0:100]\nset "
            "yrange [0:1]\nset key outside below maxcols 3\nset format x '%%g %%%%'\nunset ytics\n",
            latency ? "Latency" : "Injection", model_size[size], total);
    for (int i = 0; i < s.terms; i++) {
        const double share = 100 * s.term[i].ns / total;

        fprintf(script,
                "set object %d rect from %.4f,0.2 to %.4f,0.8 fc rgb '%s' fs solid border lc rgb "
                "'white'\n",
                i + 1, from, from + share, plot_colours[i % COLOURS]);
        from += share;
    }
    fprintf(script, "plot ");
    for (int i = 0; i < s.terms; i++)
        fprintf(script, "%s1/0 with points pt 5 ps 1.5 lc rgb '%s' title '%s %.1f %%' noenhanced",
                i > 0 ? ", " : "", plot_colours[i % COLOURS], s.term[i].name,
                100 * s.term[i].ns / total);
    fprintf(script, "\nunset object\nset ytics\nset format x '%%g'\n");
}

static void plot_curves(FILE *script, const struct model_parts *p, int size, bool latency)
{
    const struct model_sum was = plot_sum(p, size, latency);
    const char *group;

    for (int g = 0; (group = model_group(p->way, g)) != NULL; g++) {
        fprintf(script, "$c%d%d << EOD\n", latency, g);
        for (int less = 10; less < 100; less += 20) {
            struct model_parts changed = *p;
            struct model_sum is;

            model_scale(&changed, group, 1 - less / 100.0);
            is = plot_sum(&changed, size, latency);
            fprintf(script, "%d %.4f\n", less, 100 * model_improvement(&was, &is));
        }
        fprintf(script, "EOD\n");
    }
    fprintf(
        script,
        "set title '%s: what faster components save'\nset xrange [10:90]\nset yrange [0:*]\nset "
        "xlabel 'a component takes less, in percent'\nset ylabel 'the whole takes less, in "
        "percent'\nset key inside top left maxcols 1\nplot ",
        latency ? "Latency" : "Injection");
    for (int g = 0; (group = model_group(p->way, g)) != NULL; g++)
        fprintf(script, "%s$c%d%d with linespoints lw 2 pt 7 lc rgb '%s' title '%s' noenhanced",
                g > 0 ? ", " : "", latency, g, plot_colours[g % COLOURS], group);
    fprintf(script, "\n");
}

int model_plot(const char *path, const struct model_parts *p, int size)
{
    FILE *script = gnuplot_begin("rmalloc_model");

    if (script == NULL)
        return -1;
    fprintf(script, "set terminal pngcairo size 1400,900 font 'Sans,11'\nset output ");
    gnuplot_quoted(script, path);
    fprintf(script, "\nset multiplot layout 2,2\nset border 3 lc rgb '#555555'\nset tics nomirror\n"
                    "set grid lt 1 lc rgb '#dddddd' lw 0.7\n");
    for (int latency = 0; latency < 2; latency++)
        plot_bar(script, p, size, latency);
    for (int latency = 0; latency < 2; latency++)
        plot_curves(script, p, size, latency);
    fprintf(script, "unset multiplot\nset output\n");
    return gnuplot_end(script, "rmalloc_model", path);
}
