/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_parts.c: components with their names and times; see model.h, and rmalloc_model(1) for the
 * format of a file.
 */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const size_t model_size[MODEL_SIZES] = {8, 64, 4096, 65536};

static const struct {
    const char *name, *meaning;
} parts[MODEL_PARTS] = {
    [PART_MD] = {"md", "preparing the message descriptor"},
    [PART_MD_BARRIER] = {"md_barrier", "barrier behind the descriptor"},
    [PART_DBC_BARRIER] = {"dbc_barrier", "barrier behind the doorbell counter"},
    [PART_PIO] = {"pio", "copy of 64 bytes into the adapter: the doorbell"},
    [PART_POST_OTHER] = {"llp_post_other", "the rest of LLP_post"},
    [PART_LLP_PROG] = {"llp_prog", "one completion, low-level protocol"},
    [PART_LLP_MISC] = {"llp_misc", "the rest of a loop of the low-level protocol alone"},
    [PART_HLP_POST] = {"hlp_post", "initiation, high-level protocol"},
    [PART_HLP_TX] = {"hlp_tx_prog", "progress of a send"},
    [PART_HLP_RX] = {"hlp_rx_prog", "progress of a receive, high-level protocol"},
    [PART_MISC] = {"misc", "the rest of a loop"},
    [PART_PCIE] = {"pcie", "from processor to adapter, or back"},
    [PART_WIRE] = {"wire", "from adapter to adapter"},
    [PART_SWITCH] = {"switch", "a switch between them"},
    [PART_RC_TO_MEM] = {"rc_to_mem", "from the root complex to memory"},
    [PART_ALLOC] = {"alloc", "rmalloc of a message in a slot"},
    [PART_ALLOC_HEAP] = {"alloc_heap", "rmalloc of a message in the heap"},
    [PART_PUBLISH] = {"publish", "rwrite of a message in a slot"},
    [PART_PUBLISH_HEAP] = {"publish_heap", "rwrite of a message in the heap"},
    [PART_TAKE] = {"take", "rread of a message in a slot that is there"},
    [PART_TAKE_HEAP] = {"take_heap", "rread of a message in the heap that is there"},
    [PART_FREE] = {"free", "rfree of a message in a slot, by the reader"},
    [PART_FREE_HEAP] = {"free_heap", "rfree of a message in the heap, by the reader"},
    [PART_POLL] = {"poll", "rread_nb that finds nothing"},
    [PART_FILL] = {"fill_8", "filling 8 bytes in the cache"},
    [PART_FILL + 1] = {"fill_64", "filling 64 bytes in the cache"},
    [PART_FILL + 2] = {"fill_4096", "filling 4 KiB in the cache"},
    [PART_FILL + 3] = {"fill_65536", "filling 64 KiB in the cache"},
    [PART_READ] = {"read_8", "reading 8 bytes in the cache"},
    [PART_READ + 1] = {"read_64", "reading 64 bytes in the cache"},
    [PART_READ + 2] = {"read_4096", "reading 4 KiB in the cache"},
    [PART_READ + 3] = {"read_65536", "reading 64 KiB in the cache"},
    [PART_HAND_OVER] = {"hand_over_8", "8 bytes filled, flagged, seen and read"},
    [PART_HAND_OVER + 1] = {"hand_over_64", "64 bytes filled, flagged, seen and read"},
    [PART_HAND_OVER + 2] = {"hand_over_4096", "4 KiB filled, flagged, seen and read"},
    [PART_HAND_OVER + 3] = {"hand_over_65536", "64 KiB filled, flagged, seen and read"},
};

const struct model_parts model_thunderx2 = {
    .network = true,
    .ns = {[PART_MD] = 27.78,
           [PART_MD_BARRIER] = 17.33,
           [PART_DBC_BARRIER] = 21.07,
           [PART_PIO] = 94.25,
           [PART_POST_OTHER] = 14.99,
           [PART_LLP_PROG] = 61.63,
           [PART_LLP_MISC] = 58.68,
           [PART_HLP_POST] = 26.56,
           [PART_HLP_TX] = 59.82,
           [PART_HLP_RX] = 224.66,
           [PART_MISC] = 3.17,
           [PART_PCIE] = 137.49,
           [PART_WIRE] = 274.81,
           [PART_SWITCH] = 108,
           [PART_RC_TO_MEM] = 240.96},
};

const char *model_part_name(int part) { return parts[part].name; }
const char *model_part_meaning(int part) { return parts[part].meaning; }
bool model_part_is_network(int part) { return part < PART_ALLOC; }

int model_part_by_name(const char *name)
{
    for (int i = 0; i < MODEL_PARTS; i++)
        if (strcmp(parts[i].name, name) == 0)
            return i;
    return -1;
}

/* One line: 1 if it has a part, 0 if it has none, -1 and a message. */
static int parts_read_line(char *line, int *part, double *ns, char *why, size_t bytes)
{
    char *comment = strchr(line, '#'), *name, *value, *end, *saved;

    if (comment != NULL)
        *comment = '\0';
    name = strtok_r(line, " \t\r\n", &saved);
    if (name == NULL)
        return 0;
    *part = model_part_by_name(name);
    if (*part < 0) {
        snprintf(why, bytes, "\"%s\" is no part; rmalloc_model --list prints their names", name);
        return -1;
    }
    value = strtok_r(NULL, " \t\r\n", &saved);
    *ns = value != NULL ? strtod(value, &end) : -1;
    if (value == NULL || end == value || *end != '\0' || !isfinite(*ns) || *ns < 0 ||
        strtok_r(NULL, " \t\r\n", &saved) != NULL) {
        snprintf(why, bytes, "%s must be followed by one time in ns, a number from 0 on", name);
        return -1;
    }
    return 1;
}

/* All parts of one path are given, and none of the other. */
static int parts_complete(struct model_parts *p, const bool *given, char *why, size_t bytes)
{
    p->network = given[0];
    for (int i = 0; i < MODEL_PARTS && !p->network; i++)
        p->network = given[i] && model_part_is_network(i);
    for (int i = 0; i < MODEL_PARTS; i++) {
        const bool wanted = model_part_is_network(i) == p->network;

        if (given[i] == wanted)
            continue;
        snprintf(why, bytes,
                 wanted ? "%s is missing"
                        : "%s is a part of shared memory, and others are of a network",
                 parts[i].name);
        return -1;
    }
    return 0;
}

int model_parts_read(struct model_parts *p, FILE *file, const char *name, char *why, size_t bytes)
{
    bool given[MODEL_PARTS] = {false};
    char line[256], reason[160] = "";
    int number = 0, part = 0;

    *p = (struct model_parts){.network = false};
    while (fgets(line, sizeof(line), file) != NULL) {
        double ns = 0;
        int found;

        number++;
        found = parts_read_line(line, &part, &ns, reason, sizeof(reason));
        if (found > 0 && given[part]) {
            snprintf(reason, sizeof(reason), "%s is given twice", parts[part].name);
            found = -1;
        }
        if (found < 0) {
            snprintf(why, bytes, "%s, line %d: %s", name, number, reason);
            return -1;
        }
        if (found > 0) {
            given[part] = true;
            p->ns[part] = ns;
        }
    }
    if (parts_complete(p, given, reason, sizeof(reason)) == 0)
        return 0;
    snprintf(why, bytes, "%s: %s", name, reason);
    return -1;
}

void model_parts_print(const struct model_parts *p, FILE *to)
{
    for (int i = 0; i < MODEL_PARTS; i++)
        if (model_part_is_network(i) == p->network)
            fprintf(to, "%-16s %12.2f  # %s\n", parts[i].name, p->ns[i], parts[i].meaning);
}
