/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_compare.c: predictions beside what was measured, and as parameters of the cost model of collectives. See model.h.
 */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MOST 40

struct table {
    char line[1024], *field[FIELDS_MOST];
    int fields;
    int test, op, direction, bytes, median, best, p50, touched, backend,
        calls; /* columns; from p50 on they may be missing */
};

static bool compare_next(struct table *t, FILE *csv)
{
    char *rest = t->line, *field;

    if (fgets(t->line, sizeof(t->line), csv) == NULL)
        return false;
    t->line[strcspn(t->line, "\r\n")] = '\0';
    for (t->fields = 0; t->fields < FIELDS_MOST && (field = strsep(&rest, ",")) != NULL;)
        t->field[t->fields++] = field;
    return true;
}

static int compare_column(const struct table *t, const char *name)
{
    for (int i = 0; i < t->fields; i++)
        if (strcmp(t->field[i], name) == 0)
            return i;
    return FIELDS_MOST;
}

static bool compare_begin(struct table *t, FILE *csv)
{
    if (!compare_next(t, csv))
        return false;
    t->test = compare_column(t, "test");
    t->op = compare_column(t, "op");
    t->direction = compare_column(t, "direction");
    t->bytes = compare_column(t, "bytes");
    t->median = compare_column(t, "median_us");
    t->best = compare_column(t, "best_us");
    t->p50 = compare_column(t, "p50_us");
    t->touched = compare_column(t, "touched");
    t->backend = compare_column(t, "backend");
    t->calls = compare_column(t, "calls");
    return t->test < FIELDS_MOST && t->op < FIELDS_MOST && t->direction < FIELDS_MOST &&
           t->bytes < FIELDS_MOST && t->median < FIELDS_MOST && t->best < FIELDS_MOST;
}

static bool compare_row_is_whole(const struct table *t)
{
    return t->test < t->fields && t->op < t->fields && t->direction < t->fields &&
           t->bytes < t->fields && t->median < t->fields && t->best < t->fields &&
           strcmp(t->field[t->direction], "uni") == 0;
}

static int compare_size(const char *bytes)
{
    for (int i = 0; i < MODEL_SIZES; i++)
        if (strtoull(bytes, NULL, 10) == model_size[i])
            return i;
    return -1;
}

/* What rows are compared with, and what came of it. */
struct comparison {
    const struct model_parts *path;
    const char *
        other; /* a row was left out since it was measured in another way than the parts; NULL: none */
    int paths, rows, beyond;
    double limit;
    bool json;
};

static const struct model_parts *compare_path(const struct comparison *c, const char *op)
{
    for (int i = 0; i < c->paths; i++)
        if (strcmp(op, c->path[i].get ? "get" : "put") == 0)
            return &c->path[i];
    return NULL;
}

static void compare_print(const struct comparison *c, const struct table *t, bool latency,
                          const struct model_sum *s, double measured)
{
    const double error = 100 * (model_total(s) / measured - 1);
    const char *what = latency ? "latency" : "injection";

    if (c->json)
        printf("%s\n  {\"what\": \"%s\", \"op\": \"%s\", \"bytes\": %s, \"predicted_ns\": %.2f, "
               "\"measured_ns\": %.2f, \"best_ns\": %.2f, \"error_percent\": %.2f%s%s%s}",
               c->rows > 0 ? "," : "", what, t->field[t->op], t->field[t->bytes], model_total(s),
               measured, 1e3 * strtod(t->field[t->best], NULL), error,
               s->bound != NULL ? ", \"bound\": \"" : "", s->bound != NULL ? s->bound : "",
               s->bound != NULL ? "\"" : "");
    else
        printf("%-10s %-4s %7s B %12.1f %12.1f %12.1f %+8.1f %%%s%s%s\n", what, t->field[t->op],
               t->field[t->bytes], model_total(s), measured, 1e3 * strtod(t->field[t->best], NULL),
               error, fabs(error) > c->limit ? "  beyond the limit" : "",
               s->bound != NULL ? "  bound by: " : "", s->bound != NULL ? s->bound : "");
}

/* In ns: of a latency the 50th percentile of its samples, as a part is one; of a stream, which has none, the median of its rounds. */
static double compare_measured(const struct table *t, bool latency)
{
    const int column = latency && t->p50 < t->fields ? t->p50 : t->median;

    return 1e3 * strtod(t->field[column], NULL);
}

/* Whether the row is of what the parts are: NULL; or the reason why not. */
static const char *compare_differs(const struct table *t, const struct model_parts *p)
{
    const bool memory = t->backend < t->fields && strcmp(t->field[t->backend], "shm") == 0;

    if (t->backend < t->fields && memory != (p->way == WAY_MEMORY))
        return memory ? "it is of shared memory, and --parts of a network"
                      : "it is of a network, and --parts of shared memory";
    if (t->touched < t->fields && strcmp(t->field[t->touched], "1") != 0)
        return "payloads were not filled and read, as those of --parts; leave out --no-touch";
    if (t->calls < t->fields && strncmp(t->field[t->calls], "rmalloc", strlen("rmalloc")) != 0)
        return "it is of rsend and rrecv, and --parts of rmalloc, rwrite, rread and rfree; leave "
               "out --copy";
    return NULL;
}

static void compare_row(struct comparison *c, const struct table *t)
{
    const int size = compare_row_is_whole(t) ? compare_size(t->field[t->bytes]) : -1;
    const struct model_parts *p = size >= 0 ? compare_path(c, t->field[t->op]) : NULL;
    const bool latency = size >= 0 && strcmp(t->field[t->test], "latency") == 0;
    const char *differs;
    struct model_sum s;
    double measured;

    if (p == NULL || (!latency && strcmp(t->field[t->test], "stream") != 0))
        return;
    if ((differs = compare_differs(t, p)) != NULL) {
        c->other = differs;
        return;
    }
    s = latency ? model_latency(p, size) : model_injection(p, size);
    measured = compare_measured(t, latency);
    if (!(measured > 0))
        return;
    compare_print(c, t, latency, &s, measured);
    c->rows++;
    c->beyond += fabs(100 * (model_total(&s) / measured - 1)) > c->limit;
}

int model_compare(const struct model_parts *p, int paths, FILE *csv, double limit, bool json,
                  char *why, size_t bytes)
{
    struct comparison c = {.path = p, .paths = paths, .limit = limit, .json = json};
    struct table t;

    if (!compare_begin(&t, csv)) {
        snprintf(
            why, bytes,
            "it has no heading with test, op, direction, bytes, median_us and best_us; make it "
            "with rmalloc_perf --format csv");
        return -1;
    }
    if (json)
        printf("{\"path\": \"%s\", \"limit_percent\": %g, \"rows\": [", model_way_name(p->way),
               limit);
    else
        printf("\n%-10s %-4s %9s %12s %12s %12s %10s\n", "ns", "", "", "predicted", "measured",
               "best", "error");
    while (compare_next(&t, csv))
        compare_row(&c, &t);
    if (json)
        printf("\n]}\n");
    if (c.rows == 0) {
        snprintf(why, bytes, "%s",
                 c.other != NULL ? c.other
                                 : "it has no latency and no stream, one way, of 8, 64, 4096 or "
                                   "65536 bytes, by the op of --parts");
        return -1;
    }
    return c.beyond > 0;
}

/* ---- for the choice of collective algorithms ---- */

/*
 * L: a line one way; m: each further one of a payload. o, Ln, g and G of messages of 8 bytes and of the longest. What is not known
 * here is not printed, and stays as it is.
 */
void model_print_collectives(const struct model_parts *p)
{
    const int most = MODEL_SIZES - 1;
    const struct model_sum latency = model_latency(p, 0), gap = model_injection(p, 0),
                           longest = model_injection(p, most);
    double sender = 0, receiver = 0, lines;

    if (p->way == WAY_MEMORY) {
        lines = (double)(model_size[2] - model_size[1]) / 64;
        printf("RCOLL_MODEL=\"L=%.0f m=%.0f\"\n",
               fmax(p->ns[PART_HAND_OVER][0] - p->ns[PART_FILL][0] - p->ns[PART_READ][0], 0),
               fmax(p->ns[PART_HAND_OVER][2] - p->ns[PART_HAND_OVER][1], 0) / lines);
        return;
    }
    for (int i = 0; i < latency.terms; i++)
        if (latency.term[i].kind == MODEL_CPU)
            *(latency.term[i].target ? &receiver : &sender) += latency.term[i].ns;
    printf("RCOLL_MODEL=\"o=%.0f Ln=%.0f g=%.0f", (sender + receiver) / 2,
           fmax(model_total(&latency) - sender - receiver, 0), model_total(&gap));
    if (p->way == WAY_NETWORK)
        printf(" G=%.3f", model_total(&longest) / (double)model_size[most]);
    printf("\"\n");
}
