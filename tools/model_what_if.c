/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_what_if.c: what becomes of a prediction if components become faster; Zambre 2020 §2.7, figures
 * 2.17 and 2.18. See model.h.
 */
#include "model.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BIT(part) (UINT64_C(1) << (part))
#define LLP_POST                                                                                   \
    (BIT(PART_MD) | BIT(PART_MD_BARRIER) | BIT(PART_DBC_BARRIER) | BIT(PART_PIO) |                 \
     BIT(PART_POST_OTHER))
#define HLP (BIT(PART_HLP_POST) | BIT(PART_HLP_TX) | BIT(PART_HLP_RX))
#define CALLS                                                                                      \
    (BIT(PART_ALLOC) | BIT(PART_PUBLISH) | BIT(PART_TAKE) | BIT(PART_FREE) | BIT(PART_POLL))
#define PAYLOAD (BIT(PART_FILL) | BIT(PART_READ))
#define LINES BIT(PART_HAND_OVER) /* as a group: what it has besides fill and read, and rows */
#define LLP (BIT(PART_POST) | BIT(PART_COMPLETION))

static_assert(MODEL_PARTS <= 64, "a group is a word");

static const struct {
    const char *name;
    uint64_t parts;
} groups[MODEL_WAYS][7] = {
    [WAY_ADAPTER] =
        {
            {"hlp", HLP},
            {"llp", LLP_POST | BIT(PART_LLP_PROG)},
            {"llp_post", LLP_POST},
            {"pio", BIT(PART_PIO)},
            {"cpu", HLP | LLP_POST | BIT(PART_LLP_PROG) | BIT(PART_MISC) | BIT(PART_LLP_MISC)},
            {"io", BIT(PART_PCIE) | BIT(PART_RC_TO_MEM)},
            {"network", BIT(PART_WIRE) | BIT(PART_SWITCH)},
        },
    [WAY_MEMORY] =
        {
            {"calls", CALLS},
            {"alloc", BIT(PART_ALLOC)},
            {"publish", BIT(PART_PUBLISH)},
            {"fill", BIT(PART_FILL)},
            {"read", BIT(PART_READ)},
            {"cpu", CALLS | PAYLOAD},
            {"lines", LINES},
        },
    [WAY_NETWORK] =
        {
            {"hlp", CALLS},
            {"llp", LLP},
            {"post", BIT(PART_POST)},
            {"completion", BIT(PART_COMPLETION)},
            {"payload", PAYLOAD},
            {"cpu", CALLS | LLP | PAYLOAD},
            {"network", BIT(PART_NETWORK) | BIT(PART_FETCH) | BIT(PART_STREAM)},
        },
};
#define GROUPS ((int)(sizeof(groups[0]) / sizeof(groups[0][0])))

/* Words for a change: Zambre 2020 §2.7. NULL: the parts of that way do not have it apart. */
static const struct {
    const char *word, *change[MODEL_WAYS];
} words[] = {
    {"integrated", {"io=0.5", NULL, NULL}},            /* the adapter is on the processor's die */
    {"nic", {"network=0.5", NULL, "network=0.5"}},     /* adapters and a switch twice as fast */
    {"doorbell", {"pio=15ns", NULL, "post=0.159151"}}, /* the copy as fast as one into memory */
    {"cpu", {"cpu=2x", "cpu=2x", "cpu=2x"}},
};

const char *model_group(enum model_way way, int i)
{
    return i < 0 || i >= GROUPS ? NULL : groups[way][i].name;
}

/* ---- parts that contain others change with them ---- */

static double what_if_of(uint64_t which, int part, double factor)
{
    return (which & BIT(part)) != 0 ? factor : 1;
}

/* One side of a row: its calls, its payload, and lines as the rest. */
static double what_if_row(const struct model_parts *p, int s, uint64_t which, double factor,
                          const int part[3], double row)
{
    double before = 0, after = 0;

    for (int i = 0; i < 3; i++) {
        before += p->ns[part[i]][s];
        after += p->ns[part[i]][s] * what_if_of(which, part[i], factor);
    }
    return after + fmax(row - before, 0) * what_if_of(which, PART_HAND_OVER, factor);
}

/* hand_over and rows have other parts in them; LINES is the rest, and what rows of both at once take longer. */
static void what_if_memory(struct model_parts *p, int s, uint64_t which, double factor)
{
    static const int writer[] = {PART_ALLOC, PART_FILL, PART_PUBLISH},
                     reader[] = {PART_TAKE, PART_READ, PART_FREE};
    const double fill = p->ns[PART_FILL][s], read = p->ns[PART_READ][s],
                 rest = p->ns[PART_HAND_OVER][s] - fill - read,
                 lines = what_if_of(which, PART_HAND_OVER, factor),
                 both = fmax(p->ns[PART_ROW_BOTH][s] - p->ns[PART_ROW_READ][s], 0);

    p->ns[PART_HAND_OVER][s] = what_if_of(which, PART_FILL, factor) * fill +
                               what_if_of(which, PART_READ, factor) * read + lines * rest;
    p->ns[PART_ROW_WRITE][s] = what_if_row(p, s, which, factor, writer, p->ns[PART_ROW_WRITE][s]);
    p->ns[PART_ROW_READ][s] = what_if_row(p, s, which, factor, reader, p->ns[PART_ROW_READ][s]);
    p->ns[PART_ROW_BOTH][s] = p->ns[PART_ROW_READ][s] + lines * both;
}

/* rwrite has the call that sends in it, rread the one that receives, and what is fetched; those in a row have their shares. */
static void what_if_network(struct model_parts *p, int s, uint64_t which, double factor)
{
    const double post = fmin(p->ns[PART_POST][s], p->ns[PART_PUBLISH][s]),
                 publish = p->ns[PART_PUBLISH][s] - post,
                 row_publish = fmin(publish, p->ns[PART_ROW_PUBLISH][s]),
                 completion = fmin(p->ns[PART_COMPLETION][s], p->ns[PART_TAKE][s]),
                 fetch = p->get ? fmin(p->ns[PART_FETCH][s], p->ns[PART_TAKE][s] - completion) : 0,
                 take = p->ns[PART_TAKE][s] - completion - fetch,
                 row_take = fmin(take, p->ns[PART_ROW_TAKE][s]),
                 by_post = what_if_of(which, PART_POST, factor),
                 by_publish = what_if_of(which, PART_PUBLISH, factor),
                 by_completion = what_if_of(which, PART_COMPLETION, factor),
                 by_fetch = what_if_of(which, PART_FETCH, factor),
                 by_take = what_if_of(which, PART_TAKE, factor);

    p->ns[PART_PUBLISH][s] = by_publish * publish + by_post * post;
    p->ns[PART_ROW_PUBLISH][s] =
        by_publish * row_publish + by_post * (p->ns[PART_ROW_PUBLISH][s] - row_publish);
    p->ns[PART_TAKE][s] = by_take * take + by_completion * completion + by_fetch * fetch;
    p->ns[PART_ROW_TAKE][s] = by_take * row_take + (fetch > 0 ? by_fetch : by_completion) *
                                                       (p->ns[PART_ROW_TAKE][s] - row_take);
}

/* The parts `which` of messages of model_size[size], or of all where size is negative. */
static void what_if_scale(struct model_parts *p, uint64_t which, int size, double factor)
{
    const uint64_t rows = ((which & BIT(PART_ALLOC)) != 0 ? BIT(PART_ROW_ALLOC) : 0) |
                          ((which & BIT(PART_FREE)) != 0 ? BIT(PART_ROW_FREE) : 0);
    const uint64_t apart = p->way == WAY_MEMORY    ? LINES
                           : p->way == WAY_NETWORK ? BIT(PART_PUBLISH) | BIT(PART_TAKE) |
                                                         BIT(PART_ROW_PUBLISH) | BIT(PART_ROW_TAKE)
                                                   : 0;

    for (int s = 0; s < MODEL_SIZES; s++) {
        if (size >= 0 && s != size)
            continue;
        if (p->way == WAY_MEMORY)
            what_if_memory(p, s, which, factor);
        else if (p->way == WAY_NETWORK)
            what_if_network(p, s, which, factor);
        for (int i = 0; i < MODEL_PARTS; i++)
            if (((which | rows) & ~apart & BIT(i)) != 0)
                p->ns[i][s] *= factor;
    }
}

static int what_if_group(enum model_way way, const char *name)
{
    for (int i = 0; i < GROUPS; i++)
        if (strcmp(groups[way][i].name, name) == 0)
            return i;
    return -1;
}

void model_scale(struct model_parts *p, const char *group, double factor)
{
    const int i = what_if_group(p->way, group);

    if (i >= 0)
        what_if_scale(p, groups[p->way][i].parts, -1, factor);
}

static const char *what_if_word(enum model_way way, const char *name)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].word, name) == 0)
            return words[i].change[way];
    return NULL;
}

/* Of "0.5", "2x" or "30ns" the factor for a time; -1: it is none of them. */
static double what_if_factor(const char *value, double ns)
{
    char *end;
    double x = strtod(value, &end);

    if (end == value || !isfinite(x) || x < 0)
        return -1;
    if (*end == '\0')
        return x;
    if (strcmp(end, "x") == 0)
        return x > 0 ? 1 / x : -1;
    return strcmp(end, "ns") == 0 && ns > 0 ? x / ns : -1;
}

static int what_if_apply(struct model_parts *p, char *text, char *why, size_t bytes)
{
    char *value = strchr(text, '=');
    int group, part, size;
    double factor;

    if (value == NULL) {
        snprintf(why, bytes,
                 "\"%s\" is no change of the path %s; it must be NAME=VALUE, as %s=0.5, or one of "
                 "the words integrated, nic, doorbell and cpu that this path has",
                 text, model_way_name(p->way), groups[p->way][0].name);
        return -1;
    }
    *value++ = '\0';
    group = what_if_group(p->way, text);
    part = model_part_by_name(text, &size);
    if (part >= 0 && !model_part_is_of(part, p->way, p->get))
        part = -1;
    if (group < 0 && part < 0) {
        snprintf(why, bytes,
                 "\"%s\" is neither a part of this path (--list) nor a group of parts (--curves)",
                 text);
        return -1;
    }
    factor = what_if_factor(value, part < 0 ? 0
                                   : model_part_has_sizes(part) && size < 0
                                       ? 0
                                       : p->ns[part][size > 0 ? size : 0]);
    if (factor < 0) {
        snprintf(why, bytes,
                 "%s is \"%s\"; it must be a factor (0.5), a speed (2x) or, for a part, a time "
                 "(30ns)",
                 text, value);
        return -1;
    }
    if (group >= 0)
        model_scale(p, text, factor);
    else
        what_if_scale(p, BIT(part), model_part_has_sizes(part) ? size : 0, factor);
    return 0;
}

int model_what_if(struct model_parts *p, const char *changes, char *why, size_t bytes)
{
    struct model_parts changed = *p;
    char text[64];

    while (*changes != '\0') {
        const size_t length = strcspn(changes, ",");
        const char *known;

        snprintf(text, sizeof(text), "%.*s", (int)length, changes);
        known = what_if_word(p->way, text);
        if (known != NULL)
            snprintf(text, sizeof(text), "%s", known);
        if (what_if_apply(&changed, text, why, bytes) != 0)
            return -1;
        changes += length + (changes[length] == ',');
    }
    *p = changed;
    return 0;
}

double model_improvement(const struct model_sum *before, const struct model_sum *after)
{
    return 1 - model_total(after) / model_total(before);
}
