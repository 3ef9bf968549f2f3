/* SPDX-License-Identifier: BSD-3-Clause */
/* model_output.c: predictions as tables and as JSON. See model.h. */
#include "model.h"

static const char *const kinds[MODEL_KINDS] = {"CPU", "I/O", "network"};

static const char *output_kind(const struct model_parts *p, int kind)
{
    return kind == MODEL_NETWORK && p->way == WAY_MEMORY ? "cache lines" : kinds[kind];
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
    printf(" at the target %.1f %%%s%s\n", 100 * target / total,
           s->bound != NULL ? "; limited by the " : "", s->bound != NULL ? s->bound : "");
}

static void output_json(const struct model_parts *p, const struct model_sum *s, const char *what)
{
    printf("\"%s\": {\"ns\": %.2f, \"terms\": [", what, model_total(s));
    for (int i = 0; i < s->terms; i++)
        printf("%s{\"name\": \"%s\", \"ns\": %.2f, \"kind\": \"%s\", \"target\": %s}",
               i > 0 ? ", " : "", s->term[i].name, s->term[i].ns,
               output_kind(p, (int)s->term[i].kind), s->term[i].target ? "true" : "false");
    printf("]}");
}

void model_print(const struct model_parts *p, int size, bool json)
{
    const struct model_sum injection = model_injection(p, size), latency = model_latency(p, size);
    char title[80];

    if (json) {
        printf("{\"path\": \"%s\", \"bytes\": %zu, ", model_way_name(p->way), model_size[size]);
        output_json(p, &injection, "injection");
        printf(", ");
        output_json(p, &latency, "latency");
        printf("}\n");
        return;
    }
    snprintf(title, sizeof(title), "Injection, %zu B", model_size[size]);
    output_sum(p, &injection, title);
    if (p->way == WAY_ADAPTER)
        printf("  without the high-level protocol %.2f ns; a completion after %.2f ns, so at least "
               "%.0f posts between two polls\n",
               model_injection_llp(p), model_completion(p), model_posts_of_a_poll(p));
    snprintf(title, sizeof(title), "Latency, %zu B", model_size[size]);
    output_sum(p, &latency, title);
    if (p->way == WAY_ADAPTER)
        printf("  without the high-level protocol %.2f ns; progress of a receive takes %.2f times "
               "that of a send\n",
               model_latency_llp(p),
               (p->ns[PART_LLP_PROG][0] + p->ns[PART_HLP_RX][0]) / p->ns[PART_HLP_TX][0]);
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
        for (int g = 0; model_group(p->way, g) != NULL; g++) {
            printf("  %-10s", model_group(p->way, g));
            for (int less = 10; less < 100; less += 20) {
                struct model_parts changed = *p;
                struct model_sum is;

                model_scale(&changed, model_group(p->way, g), 1 - less / 100.0);
                is = latency ? model_latency(&changed, size) : model_injection(&changed, size);
                printf(" %8.2f", 100 * model_improvement(&was, &is));
            }
            printf("\n");
        }
    }
}
