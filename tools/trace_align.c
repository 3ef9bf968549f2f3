/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_align.c: see trace_align.h.
 *
 * Times are converted to the clock of rank 0 where the offset was measured. The best measurement of
 * all processes with the same clock holds for all of them: otherwise two ranks of one host would
 * differ by the errors of their measurements. Two measurements of a process whose error intervals
 * do not overlap show that the clocks drift: then the offset is the line through both. Without any
 * measurement the real-time clocks of the hosts are used.
 */
#include "trace_align.h"

#include <stdio.h>
#include <string.h>

#define SLOPE_MOST 0.01 /* a larger drift is a wrong measurement */

/* ---- the first line ---- */

const char *text_after(const char *line, const char *key)
{
    const char *at = strstr(line, key);

    return at != NULL ? at + strlen(key) : NULL;
}

/* Text between quotes. It is printed again, so characters that need escaping are replaced. */
static bool read_text(const char *line, const char *key, char *text, size_t bytes)
{
    const char *at = text_after(line, key);
    size_t length = at != NULL ? strcspn(at, "\"") : 0;

    if (at == NULL || length >= bytes)
        return false;
    for (size_t i = 0; i < length; i++)
        text[i] = at[i] >= ' ' && at[i] <= '~' && at[i] != '\\' ? at[i] : '?';
    text[length] = '\0';
    return true;
}

static bool is_time(long long ns) { return ns > -TIME_MOST && ns < TIME_MOST; }

static void read_samples(const char *line, struct trace_head *head)
{
    const char *at = text_after(line, "\"rank_0_clock\": [");
    int length;

    for (head->samples = 0; at != NULL && head->samples < 2; head->samples++) {
        struct sample *s = &head->sample[head->samples];

        length = 0;
        if (sscanf(at, "[%lld, %lld, %lld]%n", &s->at, &s->ahead, &s->error, &length) != 3 ||
            length == 0 || !is_time(s->at) || !is_time(s->ahead) || !is_time(s->error) ||
            s->error < 0)
            return;
        at += length;
        at += strncmp(at, ", ", 2) == 0 ? 2 : 0;
    }
}

bool trace_head_parse(const char *line, struct trace_head *head)
{
    const char *rank = text_after(line, "\"rank\": "),
               *real = text_after(line, "\"clock_offset_ns\": ");

    if (strstr(line, "\"traceEvents\": [") == NULL || rank == NULL || real == NULL ||
        !read_text(line, "\"host\": \"", head->host, sizeof(head->host)) ||
        !read_text(line, "\"clock\": \"", head->clock, sizeof(head->clock)) ||
        sscanf(rank, "%d", &head->rank) != 1 || sscanf(real, "%lld", &head->real) != 1 ||
        !is_time(head->real))
        return false;
    read_samples(line, head);
    return true;
}

/* ---- clocks ---- */

static struct alignment by_sample(const struct sample *s)
{
    return (struct alignment){.way = MEASURED, .ahead = s->ahead, .error = s->error, .at = s->at};
}

static struct alignment by_measurement(const struct trace_head *h)
{
    const struct sample *first = &h->sample[0], *last = &h->sample[1], *better = first;
    long long apart = last->ahead - first->ahead;
    struct alignment a;
    double slope;

    if (h->samples < 2)
        return by_sample(first);
    if (last->error < first->error)
        better = last;
    a = by_sample(better);
    if (last->at <= first->at || (apart < 0 ? -apart : apart) <= first->error + last->error)
        return a;
    slope = (double)apart / (double)(last->at - first->at);
    if (slope > SLOPE_MOST || slope < -SLOPE_MOST)
        return a;
    a = by_sample(first);
    a.slope = slope;
    if (last->error > a.error)
        a.error = last->error;
    return a;
}

static bool same_clock(const struct trace_head *a, const struct trace_head *b)
{
    return *a->clock != '\0' && strcmp(a->clock, b->clock) == 0;
}

/* The file with the best measurement of this clock; of NULL: of any clock. */
static int best_of(const struct trace_head *head, int n, const struct trace_head *of)
{
    int best = -1;

    for (int i = 0; i < n; i++) {
        if (!head[i].usable || head[i].samples == 0 ||
            (of != NULL && of != &head[i] && !same_clock(of, &head[i])))
            continue;
        if (best < 0 || by_measurement(&head[i]).error < by_measurement(&head[best]).error)
            best = i;
    }
    return best;
}

static struct alignment align_one(const struct trace_head *head, int n, int i, int reference)
{
    struct alignment r = {.way = REAL_TIME}, a = {.way = REAL_TIME, .error = -1};
    int best = best_of(head, n, &head[i]);

    if (best >= 0)
        return by_measurement(&head[best]);
    if (head[reference].samples > 0)
        r = by_measurement(&head[reference]);
    if (same_clock(&head[i], &head[reference]))
        return r;
    a.ahead = head[i].real - head[reference].real + r.ahead;
    if (!is_time(a.ahead)) /* an invalid file */
        a.ahead = 0;
    return a;
}

void trace_align(const struct trace_head *head, struct alignment *a, int n, bool unaligned)
{
    int reference = best_of(head, n, NULL);

    for (int i = 0; i < n && reference < 0; i++)
        if (head[i].usable)
            reference = i;
    for (int i = 0; i < n; i++)
        if (head[i].usable)
            a[i] = unaligned ? (struct alignment){.way = UNALIGNED, .error = -1}
                             : align_one(head, n, i, reference);
}

long long alignment_moves(const struct alignment *a, long long ns)
{
    return a->ahead + (a->slope != 0 ? (long long)(a->slope * (double)(ns - a->at)) : 0);
}

bool alignment_is_identity(const struct alignment *a)
{
    return a->ahead == 0 && a->error == 0 && a->slope == 0;
}

const char *alignment_way(enum way way)
{
    return way == MEASURED    ? "measured over the control network"
           : way == REAL_TIME ? "real-time clocks"
                              : "not aligned";
}

void alignment_text(const struct alignment *a, char *text, size_t bytes)
{
    int n = snprintf(text, bytes, "times moved by %.6f s", (double)a->ahead / 1e9);

    if (n > 0 && (size_t)n < bytes && a->slope != 0)
        n += snprintf(text + n, bytes - (size_t)n, " and %.3f us each second", a->slope * 1e6);
    if (n <= 0 || (size_t)n >= bytes)
        return;
    if (a->error >= 0)
        snprintf(text + n, bytes - (size_t)n, ", within %.1f us (%s)", (double)a->error / 1e3,
                 alignment_way(a->way));
    else
        snprintf(text + n, bytes - (size_t)n, ", as well as the hosts' real-time clocks agree");
}
