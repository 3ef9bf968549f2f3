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

#define OF(way) (1u << (way))
#define BOTH (OF(WAY_MEMORY) | OF(WAY_NETWORK))

static const char *const ways[MODEL_WAYS] = {"adapter", "memory", "network"};

static const struct {
    const char *name;
    unsigned ways;
    const char *meaning;
} parts[MODEL_PARTS] = {
    [PART_MD] = {"md", OF(WAY_ADAPTER), "preparing the message descriptor"},
    [PART_MD_BARRIER] = {"md_barrier", OF(WAY_ADAPTER), "barrier behind the descriptor"},
    [PART_DBC_BARRIER] = {"dbc_barrier", OF(WAY_ADAPTER), "barrier behind the doorbell counter"},
    [PART_PIO] = {"pio", OF(WAY_ADAPTER), "copy of 64 bytes into the adapter: the doorbell"},
    [PART_POST_OTHER] = {"llp_post_other", OF(WAY_ADAPTER), "the rest of LLP_post"},
    [PART_LLP_PROG] = {"llp_prog", OF(WAY_ADAPTER), "one completion, low-level protocol"},
    [PART_LLP_MISC] = {"llp_misc", OF(WAY_ADAPTER),
                       "the rest of a loop of the low-level protocol alone"},
    [PART_HLP_POST] = {"hlp_post", OF(WAY_ADAPTER), "initiation, high-level protocol"},
    [PART_HLP_TX] = {"hlp_tx_prog", OF(WAY_ADAPTER), "progress of a send"},
    [PART_HLP_RX] = {"hlp_rx_prog", OF(WAY_ADAPTER), "progress of a receive, high-level protocol"},
    [PART_MISC] = {"misc", OF(WAY_ADAPTER), "the rest of a loop"},
    [PART_PCIE] = {"pcie", OF(WAY_ADAPTER), "from processor to adapter, or back"},
    [PART_WIRE] = {"wire", OF(WAY_ADAPTER), "from adapter to adapter"},
    [PART_SWITCH] = {"switch", OF(WAY_ADAPTER), "a switch between them"},
    [PART_RC_TO_MEM] = {"rc_to_mem", OF(WAY_ADAPTER), "from the root complex to memory"},
    [PART_ALLOC] = {"alloc", BOTH, "rmalloc"},
    [PART_FILL] = {"fill", BOTH, "filling the payload in the cache"},
    [PART_PUBLISH] = {"publish", BOTH, "rwrite; over a network post is in it"},
    [PART_TAKE] =
        {"take", BOTH,
         "rread of a message that is there; over a network completion and fetch are in it"},
    [PART_READ] = {"read", BOTH, "reading the payload in the cache"},
    [PART_FREE] = {"free", BOTH, "rfree by the reader"},
    [PART_POLL] = {"poll", OF(WAY_MEMORY), "rread_nb that finds nothing"},
    [PART_HAND_OVER] = {"hand_over", OF(WAY_MEMORY),
                        "filled, flagged, seen and read without the library"},
    [PART_ROW_WRITE] = {"row_write", OF(WAY_MEMORY), "rmalloc, filling and rwrite in a row, alone"},
    [PART_ROW_READ] = {"row_read", OF(WAY_MEMORY), "rread, reading and rfree in a row, alone"},
    [PART_ROW_BOTH] = {"row_both", OF(WAY_MEMORY), "that, beside a writer that asks for credits"},
    [PART_POST] = {"post", OF(WAY_NETWORK), "the call that sends, without the library"},
    [PART_COMPLETION] = {"completion", OF(WAY_NETWORK), "the call that finds what has arrived"},
    [PART_NETWORK] = {"network", OF(WAY_NETWORK), "one way without both calls"},
    [PART_FETCH] = {"fetch", OF(WAY_NETWORK), "GET: a request, and the payload back"},
    [PART_ROW_ALLOC] = {"row_alloc", OF(WAY_NETWORK), "rmalloc of messages in a row"},
    [PART_ROW_PUBLISH] = {"row_publish", OF(WAY_NETWORK), "rwrite of messages in a row"},
    [PART_ROW_TAKE] = {"row_take", OF(WAY_NETWORK), "rread of messages in a row"},
    [PART_ROW_FREE] = {"row_free", OF(WAY_NETWORK), "rfree of messages in a row"},
    [PART_STREAM] = {"stream", OF(WAY_NETWORK), "a message of a stream without the library"},
};

const struct model_parts model_thunderx2 = {
    .way = WAY_ADAPTER,
    .ns = {[PART_MD] = {27.78},
           [PART_MD_BARRIER] = {17.33},
           [PART_DBC_BARRIER] = {21.07},
           [PART_PIO] = {94.25},
           [PART_POST_OTHER] = {14.99},
           [PART_LLP_PROG] = {61.63},
           [PART_LLP_MISC] = {58.68},
           [PART_HLP_POST] = {26.56},
           [PART_HLP_TX] = {59.82},
           [PART_HLP_RX] = {224.66},
           [PART_MISC] = {3.17},
           [PART_PCIE] = {137.49},
           [PART_WIRE] = {274.81},
           [PART_SWITCH] = {108},
           [PART_RC_TO_MEM] = {240.96}},
};

const char *model_part_name(int part) { return parts[part].name; }
const char *model_part_meaning(int part) { return parts[part].meaning; }
const char *model_way_name(enum model_way way) { return ways[way]; }
bool model_part_has_sizes(int part) { return parts[part].ways != OF(WAY_ADAPTER); }

bool model_part_is_of(int part, enum model_way way, bool get)
{
    return (parts[part].ways & OF(way)) != 0 && (part != PART_FETCH || get);
}

int model_part_by_name(const char *name, int *size)
{
    const char *end = strrchr(name, '_');

    *size = -1;
    for (int s = 0; s < MODEL_SIZES && end != NULL; s++)
        if (end[1 + strspn(end + 1, "0123456789")] == '\0' &&
            strtoull(end + 1, NULL, 10) == model_size[s])
            *size = s;
    for (int i = 0; i < MODEL_PARTS; i++)
        if (*size >= 0 && model_part_has_sizes(i)
                ? strlen(parts[i].name) == (size_t)(end - name) &&
                      strncmp(parts[i].name, name, (size_t)(end - name)) == 0
                : strcmp(parts[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- files ---- */

struct parts_file {
    struct model_parts *path; /* MODEL_PATHS of them */
    int paths;
    bool given[MODEL_PARTS][MODEL_SIZES]; /* of the last path */
    char *why;
    size_t bytes;
};

#define PARTS_WRONG(file, ...) (snprintf((file)->why, (file)->bytes, __VA_ARGS__), -1)
#define PARTS_FORMAT "such a file is the output of rmalloc_perf -t parts without --format"

/* What is measured without the library: rmalloc_perf does so over tcp. */
static bool parts_is_bare(int part)
{
    return part == PART_POST || part == PART_COMPLETION || part == PART_NETWORK ||
           part == PART_STREAM || part == PART_FETCH;
}

/* All parts of the last path are given. */
static int parts_complete(struct parts_file *f)
{
    const struct model_parts *p = f->paths > 0 ? &f->path[f->paths - 1] : NULL;

    for (int i = 0; i < MODEL_PARTS && p != NULL; i++)
        for (int s = 0; s < (model_part_has_sizes(i) ? MODEL_SIZES : 1); s++)
            if (model_part_is_of(i, p->way, p->get) && !f->given[i][s])
                return model_part_has_sizes(i)
                           ? PARTS_WRONG(f, "%s_%zu is missing%s", parts[i].name, model_size[s],
                                         parts_is_bare(i)
                                             ? "; over verbs bench/verbs_pair prints it, for the "
                                               "lines behind those of rmalloc_perf -t parts"
                                             : "")
                           : PARTS_WRONG(f, "%s is missing", parts[i].name);
    return 0;
}

static int parts_begin_path(struct parts_file *f, char **rest)
{
    const char *way = strtok_r(NULL, " \t\r\n", rest), *op = strtok_r(NULL, " \t\r\n", rest);
    struct model_parts *p = &f->path[f->paths];
    int i = 0;

    if (parts_complete(f) != 0)
        return -1;
    if (f->paths == MODEL_PATHS)
        return PARTS_WRONG(f, "there are more than %d paths", MODEL_PATHS);
    while (i < MODEL_WAYS && (way == NULL || strcmp(way, ways[i]) != 0))
        i++;
    if (i == MODEL_WAYS || (op == NULL && i != WAY_ADAPTER) ||
        (op != NULL && strcmp(op, "put") != 0 && strcmp(op, "get") != 0) ||
        strtok_r(NULL, " \t\r\n", rest) != NULL)
        return PARTS_WRONG(f, "a path is adapter, memory put, memory get, network put or network "
                              "get; " PARTS_FORMAT);
    *p = (struct model_parts){.way = (enum model_way)i, .get = op != NULL && op[0] == 'g'};
    memset(f->given, 0, sizeof(f->given));
    f->paths++;
    return 0;
}

static bool parts_may_be_negative(int part) { return part == PART_NETWORK; }

static int parts_read_line(struct parts_file *f, char *line)
{
    struct model_parts *p = f->paths > 0 ? &f->path[f->paths - 1] : NULL;
    char *name, *value, *end, *rest;
    int part, size;
    double ns;

    line[strcspn(line, "#")] = '\0';
    name = strtok_r(line, " \t\r\n", &rest);
    if (name == NULL)
        return 0;
    if (strcmp(name, "path") == 0)
        return parts_begin_path(f, &rest);
    if (p == NULL)
        return PARTS_WRONG(f,
                           "the first line must be a path, as \"path memory put\"; " PARTS_FORMAT);
    part = model_part_by_name(name, &size);
    if (part < 0 || !model_part_is_of(part, p->way, p->get) ||
        model_part_has_sizes(part) != (size >= 0))
        return PARTS_WRONG(f, "\"%s\" is no part of this path; rmalloc_model --list prints them",
                           name);
    value = strtok_r(NULL, " \t\r\n", &rest);
    ns = value != NULL ? strtod(value, &end) : -1;
    if (value == NULL || end == value || *end != '\0' || !isfinite(ns) ||
        (ns < 0 && !parts_may_be_negative(part)) || strtok_r(NULL, " \t\r\n", &rest) != NULL)
        return PARTS_WRONG(f, "%s must be followed by one time in ns, a number from 0 on", name);
    size = size > 0 ? size : 0;
    if (f->given[part][size])
        return PARTS_WRONG(f, "%s is given twice", name);
    f->given[part][size] = true;
    p->ns[part][size] = ns;
    return 0;
}

int model_parts_read(struct model_parts *p, FILE *file, const char *name, char *why, size_t bytes)
{
    char line[256], reason[240] = "";
    struct parts_file f = {.path = p, .why = reason, .bytes = sizeof(reason)};

    for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++)
        if (parts_read_line(&f, line) != 0) {
            snprintf(why, bytes, "%s, line %d: %s", name, number, reason);
            return -1;
        }
    if (parts_complete(&f) == 0 && f.paths > 0)
        return f.paths;
    snprintf(why, bytes, "%s: %s", name, f.paths > 0 ? reason : "it has no path; " PARTS_FORMAT);
    return -1;
}

void model_parts_print(const struct model_parts *p, FILE *to)
{
    fprintf(to, "path %s%s\n", ways[p->way], p->way == WAY_ADAPTER ? "" : p->get ? " get" : " put");
    for (int i = 0; i < MODEL_PARTS; i++)
        for (int s = 0; s < (model_part_has_sizes(i) ? MODEL_SIZES : 1); s++) {
            char name[40];

            if (!model_part_is_of(i, p->way, p->get))
                continue;
            snprintf(name, sizeof(name), model_part_has_sizes(i) ? "%s_%zu" : "%s", parts[i].name,
                     model_size[s]);
            fprintf(to, "%-18s %12.2f  # %s\n", name, p->ns[i][s], parts[i].meaning);
        }
}
