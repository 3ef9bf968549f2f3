/* SPDX-License-Identifier: BSD-3-Clause */
/* model_output.c: predictions as tables, and beside what was measured. See model.h. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[MODEL_KINDS] = {"CPU", "I/O", "network"};

static const char *output_kind(const struct model_parts *p, int kind)
{
    return kind == MODEL_NETWORK && !p->network ? "cache lines" : kinds[kind];
}

static void output_sum(const struct model_parts *p, const struct model_sum *s, const char *title)
{
    const double total = model_total(s);
    double target = 0;

    printf("\n%s: %.2f ns\n", title, total);
    for (int i = 0; i < s->terms; i++) {
        const struct model_term *t = &s->term[i];

        printf("  %-14s %10.2f ns %5.1f %%  %s%s\n", t->name, t->ns, 100 * t->ns / total,
               output_kind(p, (int)t->kind), t->target ? ", target" : "");
        target += t->target ? t->ns : 0;
    }
    printf(" ");
    for (int kind = 0; kind < MODEL_KINDS; kind++)
        if (model_share(s, (enum model_kind)kind) > 0)
            printf(" %s %.1f %%,", output_kind(p, kind),
                   100 * model_share(s, (enum model_kind)kind));
    printf(" at the target %.1f %%\n", 100 * target / total);
}

void model_print(const struct model_parts *p, int size)
{
    const struct model_sum injection = model_injection(p, size), latency = model_latency(p, size);
    char title[80];

    snprintf(title, sizeof(title), "Injection, %zu B", model_size[size]);
    output_sum(p, &injection, title);
    if (p->network)
        printf("  without the high-level protocol %.2f ns; a completion after %.2f ns, so at least "
               "%.0f posts between two polls\n",
               model_injection_llp(p), model_completion(p), model_posts_of_a_poll(p));
    snprintf(title, sizeof(title), "Latency, %zu B", model_size[size]);
    output_sum(p, &latency, title);
    if (p->network)
        printf("  without the high-level protocol %.2f ns; progress of a receive takes %.2f times "
               "that of a send\n",
               model_latency_llp(p),
               (p->ns[PART_LLP_PROG] + p->ns[PART_HLP_RX]) / p->ns[PART_HLP_TX]);
}

void model_print_changed(const struct model_parts *before, const struct model_parts *after,
                         int size)
{
    for (int latency = 0; latency < 2; latency++) {
        const struct model_sum was = latency ? model_latency(before, size)
                                             : model_injection(before, size),
                               is = latency ? model_latency(after, size)
                                            : model_injection(after, size);

        printf("%-9s %6zu B: %10.2f ns instead of %.2f, %.1f %% less\n",
               latency ? "Latency" : "Injection", model_size[size], model_total(&is),
               model_total(&was), 100 * model_improvement(&was, &is));
    }
}

void model_print_curves(const struct model_parts *p, int size)
{
    for (int latency = 0; latency < 2; latency++) {
        const struct model_sum was = latency ? model_latency(p, size) : model_injection(p, size);

        printf("\n%s, %zu B: by how many percent it falls if a group of components takes less\n",
               latency ? "Latency" : "Injection", model_size[size]);
        printf("  %-10s %8s %8s %8s %8s %8s\n", "", "-10 %", "-30 %", "-50 %", "-70 %", "-90 %");
        for (int g = 0; model_group(p->network, g) != NULL; g++) {
            printf("  %-10s", model_group(p->network, g));
            for (int less = 10; less < 100; less += 20) {
                struct model_parts changed = *p;
                struct model_sum is;

                model_scale(&changed, model_group(p->network, g), 1 - less / 100.0);
                is = latency ? model_latency(&changed, size) : model_injection(&changed, size);
                printf(" %8.2f", 100 * model_improvement(&was, &is));
            }
            printf("\n");
        }
    }
}

/* ---- beside what was measured ---- */

#define FIELDS_MOST 40

struct table {
    char line[1024], *field[FIELDS_MOST];
    int fields;
    int test, op, direction, bytes, median, best; /* columns */
};

static bool output_next(struct table *t, FILE *csv)
{
    char *rest = t->line, *field;

    if (fgets(t->line, sizeof(t->line), csv) == NULL)
        return false;
    t->line[strcspn(t->line, "\r\n")] = '\0';
    for (t->fields = 0; t->fields < FIELDS_MOST && (field = strsep(&rest, ",")) != NULL;)
        t->field[t->fields++] = field;
    return true;
}

static int output_column(const struct table *t, const char *name)
{
    for (int i = 0; i < t->fields; i++)
        if (strcmp(t->field[i], name) == 0)
            return i;
    return FIELDS_MOST;
}

static bool output_begin(struct table *t, FILE *csv)
{
    if (!output_next(t, csv))
        return false;
    t->test = output_column(t, "test");
    t->op = output_column(t, "op");
    t->direction = output_column(t, "direction");
    t->bytes = output_column(t, "bytes");
    t->median = output_column(t, "median_us");
    t->best = output_column(t, "best_us");
    return t->test < FIELDS_MOST && t->op < FIELDS_MOST && t->direction < FIELDS_MOST &&
           t->bytes < FIELDS_MOST && t->median < FIELDS_MOST && t->best < FIELDS_MOST;
}

static bool output_row_is_whole(const struct table *t)
{
    return t->test < t->fields && t->op < t->fields && t->direction < t->fields &&
           t->bytes < t->fields && t->median < t->fields && t->best < t->fields &&
           strcmp(t->field[t->direction], "uni") == 0;
}

static int output_size(const char *bytes)
{
    for (int i = 0; i < MODEL_SIZES; i++)
        if (strtoull(bytes, NULL, 10) == model_size[i])
            return i;
    return -1;
}

/* One row of the CSV: whether it was compared. */
static bool output_compare_row(const struct model_parts *p, const struct table *t, double limit,
                               int *beyond)
{
    const int size = output_row_is_whole(t) ? output_size(t->field[t->bytes]) : -1;
    const bool latency = size >= 0 && strcmp(t->field[t->test], "latency") == 0;
    struct model_sum s;
    double predicted, measured, error;

    if (size < 0 || (!latency && strcmp(t->field[t->test], "stream") != 0))
        return false;
    s = latency ? model_latency(p, size) : model_injection(p, size);
    predicted = model_total(&s);
    measured = 1e3 * strtod(t->field[t->median], NULL);
    if (!(measured > 0))
        return false;
    error = 100 * (predicted / measured - 1);
    printf("%-10s %-4s %7zu B %12.1f %12.1f %12.1f %+8.1f %%%s\n",
           latency ? "latency" : "injection", t->field[t->op], model_size[size], predicted,
           measured, 1e3 * strtod(t->field[t->best], NULL), error,
           latency && fabs(error) > limit ? "  beyond the limit" : "");
    if (latency)
        *beyond += fabs(error) > limit;
    return latency;
}

int model_compare(const struct model_parts *p, FILE *csv, double limit, char *why, size_t bytes)
{
    struct table t;
    int rows = 0, beyond = 0;

    if (!output_begin(&t, csv)) {
        snprintf(
            why, bytes,
            "it has no heading with test, op, direction, bytes, median_us and best_us; make it "
            "with rmalloc_perf --format csv");
        return -1;
    }
    printf("\n%-10s %-4s %9s %12s %12s %12s %10s\n", "ns", "", "", "predicted", "measured", "best",
           "error");
    while (output_next(&t, csv))
        rows += output_compare_row(p, &t, limit, &beyond);
    if (rows == 0) {
        snprintf(why, bytes, "it has no latency, one way, of 8, 64, 4096 or 65536 bytes");
        return -1;
    }
    return beyond > 0;
}
