/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_plot.c: where the time goes, as bars of all components (Zambre 2020, figures 2.11 and 2.14) and of their shares (2.12,
 * 2.15, 2.16), and what faster components would save, as curves (2.17 and 2.18). See model.h.
 */
#include "gnuplot.h"
#include "model.h"

#include <math.h>
#include <string.h>

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

/* ---- shares: figures 2.12, 2.15 and 2.16 ---- */

struct plot_share {
    const char *name;
    double ns;
};

/* One bar in row `row`, from the bottom; a name is behind it. Objects are numbered from *object on. */
static void plot_shares_bar(FILE *script, const char *title, const struct plot_share *share, int n,
                            int row, int *object)
{
    double total = 0, from = 0;

    for (int i = 0; i < n; i++)
        total += share[i].ns;
    for (int i = 0; i < n && total > 0; i++) {
        const double part = 100 * share[i].ns / total;

        fprintf(script,
                "set object %d rect from %.4f,%d.15 to %.4f,%d.6 fc rgb '%s' fs solid border lc "
                "rgb 'white'\n",
                *object, from, row, from + part, row, plot_colours[i % COLOURS]);
        if (part >= 2 * ((double)strlen(share[i].name) + 5)) /* it is as wide as its text */
            fprintf(script,
                    "set label %d '%s %.1f %%' at %.4f,%d.375 center front tc rgb 'white' "
                    "noenhanced\n",
                    *object, share[i].name, part, from + part / 2, row);
        from += part;
        ++*object;
    }
    fprintf(script, "set label %d '%s: %.1f ns' at 0,%d.78 left front noenhanced\n", *object, title,
            total, row);
    ++*object;
}

static double plot_of(const struct model_sum *s, enum model_kind kind, int target)
{
    double ns = 0;

    for (int i = 0; i < s->terms; i++)
        if (s->term[i].kind == kind && (target < 0 || s->term[i].target == (target == 1)))
            ns += s->term[i].ns;
    return ns;
}

/* Of a latency: by kind of component; on each node; and what the protocols have of both, where they are apart. */
static void plot_shares(FILE *script, const struct model_parts *p, int size)
{
    const struct model_sum s = model_latency(p, size);
    const char *way = p->way == WAY_MEMORY ? "cache lines" : "network";
    const struct plot_share kinds[] = {{"CPU", plot_of(&s, MODEL_CPU, -1)},
                                       {"I/O", plot_of(&s, MODEL_IO, -1)},
                                       {way, plot_of(&s, MODEL_NETWORK, -1)}},
                            initiator[] = {{"CPU", plot_of(&s, MODEL_CPU, 0)},
                                           {"I/O", plot_of(&s, MODEL_IO, 0)}},
                            target[] = {{"CPU", plot_of(&s, MODEL_CPU, 1)},
                                        {"I/O", plot_of(&s, MODEL_IO, 1)}},
                            nodes[] = {{"initiator", initiator[0].ns + initiator[1].ns},
                                       {"target", target[0].ns + target[1].ns}};
    int object = 1;

    fprintf(script,
            "set title 'Shares of the latency, %zu B'\nunset xlabel\nunset ylabel\nset xrange "
            "[0:100]\nset yrange [0:6]\nunset key\nunset ytics\nset format x '%%g %%%%'\n",
            model_size[size]);
    plot_shares_bar(script, "all", kinds, 3, 5, &object);
    plot_shares_bar(script, "on the nodes", nodes, 2, 4, &object);
    plot_shares_bar(script, "initiator", initiator, 2, 3, &object);
    plot_shares_bar(script, "target", target, 2, 2, &object);
    if (p->way == WAY_ADAPTER) {
        const struct plot_share post[] = {{"HLP", p->ns[PART_HLP_POST][0]},
                                          {"LLP", model_llp_post(p)}},
                                progress[] = {{"HLP", p->ns[PART_HLP_RX][0]},
                                              {"LLP", p->ns[PART_LLP_PROG][0]}};

        plot_shares_bar(script, "initiation", post, 2, 1, &object);
        plot_shares_bar(script, "progress of a receive", progress, 2, 0, &object);
    } else if (p->way == WAY_NETWORK) {
        const double llp_post = fmin(p->ns[PART_POST][size], p->ns[PART_PUBLISH][size]),
                     llp_prog = fmin(p->ns[PART_COMPLETION][size], p->ns[PART_TAKE][size]),
                     fetch = p->get ? p->ns[PART_FETCH][size] : 0;
        const struct plot_share post[] = {{"HLP", p->ns[PART_PUBLISH][size] - llp_post},
                                          {"LLP", llp_post}},
                                progress[] = {
                                    {"HLP", fmax(p->ns[PART_TAKE][size] - llp_prog - fetch, 0)},
                                    {"LLP", llp_prog}};

        plot_shares_bar(script, "initiation", post, 2, 1, &object);
        plot_shares_bar(script, "progress of a receive", progress, 2, 0, &object);
    }
    fprintf(script, "plot 1/0 notitle\nunset object\nunset label\nset ytics\nset format x '%%g'\n");
}

/* ---- what faster components save: figures 2.17 and 2.18 ---- */

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

/* ---- what the words of --what-if save ---- */

static void plot_words(FILE *script, const struct model_parts *p, int size)
{
    static const char *const words[] = {"nic", "integrated", "doorbell", "cpu", "lines=0.5"};
    const struct model_sum was[2] = {model_injection(p, size), model_latency(p, size)};
    int rows = 0;

    fprintf(script, "$words << EOD\n");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct model_parts changed = *p;
        struct model_sum is[2];
        char why[200];

        if (model_what_if(&changed, words[i], why, sizeof(why)) != 0)
            continue; /* this way has no such parts */
        is[0] = model_injection(&changed, size);
        is[1] = model_latency(&changed, size);
        fprintf(script, "\"%s\" %.4f %.4f\n", words[i], 100 * model_improvement(&was[0], &is[0]),
                100 * model_improvement(&was[1], &is[1]));
        rows++;
    }
    fprintf(
        script,
        "EOD\nset title 'What if, %zu B'\nunset xlabel\nset ylabel 'takes less, in "
        "percent'\nset xrange [-0.6:%d.6]\nset yrange [0:*]\nset key outside below maxcols "
        "1\nset style data histogram\nset style histogram clustered gap 1\nset style fill "
        "solid\nplot $words using 2:xtic(1) lc rgb '%s' title 'injection', '' using 3 lc rgb '%s' "
        "title 'latency'\nset style data points\nset xtics autofreq\n",
        model_size[size], rows - 1, plot_colours[1], plot_colours[0]);
}

int model_plot(const char *path, const struct model_parts *p, int size)
{
    FILE *script = gnuplot_begin("rmalloc_model");

    if (script == NULL)
        return -1;
    fprintf(script, "set terminal pngcairo size 1400,1200 font 'Sans,11'\nset output ");
    gnuplot_quoted(script, path);
    fprintf(script, "\nset multiplot layout 3,2\nset border 3 lc rgb '#555555'\nset tics nomirror\n"
                    "set grid lt 1 lc rgb '#dddddd' lw 0.7\n");
    for (int latency = 0; latency < 2; latency++)
        plot_bar(script, p, size, latency);
    plot_shares(script, p, size);
    plot_words(script, p, size);
    for (int latency = 0; latency < 2; latency++)
        plot_curves(script, p, size, latency);
    fprintf(script, "unset multiplot\nset output\n");
    return gnuplot_end(script, "rmalloc_model", path);
}
