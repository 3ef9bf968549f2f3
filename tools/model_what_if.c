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
#define BOTH(part) (BIT(part) | BIT((part) + 1)) /* in a slot and in the heap */
#define LLP_POST                                                                                   \
    (BIT(PART_MD) | BIT(PART_MD_BARRIER) | BIT(PART_DBC_BARRIER) | BIT(PART_PIO) |                 \
     BIT(PART_POST_OTHER))
#define HLP (BIT(PART_HLP_POST) | BIT(PART_HLP_TX) | BIT(PART_HLP_RX))
#define OF_SIZES(part)                                                                             \
    (BIT(part) | BIT((part) + 1) | BIT((part) + 2) | BIT((part) + 3)) /* MODEL_SIZES of them */
#define CALLS                                                                                      \
    (BOTH(PART_ALLOC) | BOTH(PART_PUBLISH) | BOTH(PART_TAKE) | BOTH(PART_FREE) | BIT(PART_POLL))

static_assert(MODEL_SIZES == 4, "OF_SIZES() names as many");
static_assert(MODEL_PARTS <= 64, "a group is a word");

static const struct {
    const char *name;
    uint64_t parts;
} network_groups[] =
    {
        {"hlp", HLP},
        {"llp", LLP_POST | BIT(PART_LLP_PROG)},
        {"llp_post", LLP_POST},
        {"pio", BIT(PART_PIO)},
        {"cpu", HLP | LLP_POST | BIT(PART_LLP_PROG) | BIT(PART_MISC) | BIT(PART_LLP_MISC)},
        {"io", BIT(PART_PCIE) | BIT(PART_RC_TO_MEM)},
        {"network", BIT(PART_WIRE) | BIT(PART_SWITCH)},
},
  memory_groups[] = {
      {"calls", CALLS},
      {"alloc", BOTH(PART_ALLOC)},
      {"publish", BOTH(PART_PUBLISH)},
      {"fill", OF_SIZES(PART_FILL)},
      {"read", OF_SIZES(PART_READ)},
      {"cpu", CALLS | OF_SIZES(PART_FILL) | OF_SIZES(PART_READ)},
      {"lines", 0}, /* what hand_over_* has besides fill_* and read_* */
};

enum { GROUPS = sizeof(network_groups) / sizeof(network_groups[0]) };
static_assert(sizeof(memory_groups) == sizeof(network_groups), "as many of both");

/* Words for a change: Zambre 2020 §2.7. */
static const struct {
    const char *word, *change;
} words[] = {
    {"integrated", "io=0.5"}, /* the adapter is on the processor's die */
    {"nic", "network=0.5"},   /* adapters and a switch twice as fast */
    {"doorbell", "pio=15ns"}, /* the copy as fast as one into memory */
    {"cpu", "cpu=2x"},
};

const char *model_group(bool network, int i)
{
    return i < 0 || i >= GROUPS ? NULL : network ? network_groups[i].name : memory_groups[i].name;
}

/* The parts of shared memory in which fill_* and read_* are contained change with them. */
static void what_if_scale_memory(struct model_parts *p, uint64_t which, bool lines, double factor)
{
    for (int i = 0; i < MODEL_SIZES; i++) {
        const double fill = p->ns[PART_FILL + i], read = p->ns[PART_READ + i],
                     rest = p->ns[PART_HAND_OVER + i] - fill - read;

        p->ns[PART_HAND_OVER + i] = (which & BIT(PART_FILL + i) ? factor : 1) * fill +
                                    (which & BIT(PART_READ + i) ? factor : 1) * read +
                                    (lines ? factor : 1) * rest;
    }
}

static void what_if_scale(struct model_parts *p, uint64_t which, bool lines, double factor)
{
    if (!p->network)
        what_if_scale_memory(p, which, lines, factor);
    for (int i = 0; i < MODEL_PARTS; i++)
        if (which & BIT(i))
            p->ns[i] *= factor;
}

static int what_if_group(bool network, const char *name)
{
    for (int i = 0; i < GROUPS; i++)
        if (strcmp(model_group(network, i), name) == 0)
            return i;
    return -1;
}

void model_scale(struct model_parts *p, const char *group, double factor)
{
    const int i = what_if_group(p->network, group);

    if (i >= 0)
        what_if_scale(p, p->network ? network_groups[i].parts : memory_groups[i].parts,
                      strcmp(group, "lines") == 0, factor);
}

static const char *what_if_word(const char *name)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].word, name) == 0)
            return words[i].change;
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
    int group, part;
    double factor;

    if (value == NULL) {
        snprintf(why, bytes,
                 "\"%s\" is no change; it must be NAME=VALUE, integrated, nic, doorbell or cpu",
                 text);
        return -1;
    }
    *value++ = '\0';
    group = what_if_group(p->network, text);
    part = model_part_by_name(text);
    if (part >= 0 && model_part_is_network(part) != p->network)
        part = -1;
    if (group < 0 && part < 0) {
        snprintf(why, bytes, "\"%s\" is neither a part of this path nor a group of parts", text);
        return -1;
    }
    factor = what_if_factor(value, part >= 0 ? p->ns[part] : 0);
    if (factor < 0) {
        snprintf(why, bytes,
                 "%s is \"%s\"; it must be a factor (0.5), a speed (2x) or, for a part, a time "
                 "(30ns)",
                 text, value);
        return -1;
    }
    if (part >= 0)
        what_if_scale(p, BIT(part), false, factor);
    else
        model_scale(p, text, factor);
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
        known = what_if_word(text);
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
