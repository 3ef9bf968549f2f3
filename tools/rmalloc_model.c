/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_model.c: predicts latency and injection from the times of components; see
 * rmalloc_model(1), doc/model.md, and model.h for the parts of the program.
 */
#include "gnuplot.h"
#include "model.h"
#include <rinfo.h>

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_LIST = 256, KEY_PRINT, KEY_LIMIT, KEY_PLOT, KEY_CURVES, KEY_JSON, KEY_COLLECTIVES };

static struct {
    const char *parts, *measured, *plot, *what_if;
    double limit;
    int size; /* -1: not given */
    bool list, print, curves, json, collectives;
} options = {.limit = 10, .size = -1};

static const struct argp_option option_table[] = {
    {"parts", 'p', "thunderx2|FILE", 0,
     "Times of the components, in ns: those of Zambre 2020, or the output of rmalloc_perf -t "
     "parts; "
     "- is the standard input (thunderx2)",
     0},
    {"size", 's', "8|64|4k|64k", 0, "Bytes of a message; an adapter has those of 8 (8)", 0},
    {"op", 'o', "put|get", 0, "Which path of --parts (the first one)", 0},
    {"measured", 'm', "FILE", 0,
     "Compare with the output of rmalloc_perf -t all -o both -s 8,64,4k,64k --format csv: all "
     "sizes, and all paths or that of --op",
     0},
    {"limit", KEY_LIMIT, "PERCENT", 0, "Status 1 if the error of a prediction is larger (10)", 0},
    {"what-if", 'w', "CHANGES", 0,
     "NAME=VALUE,...: a part or a group of parts that becomes faster; VALUE is a factor (0.5), a "
     "speed (2x) or a time (30ns). Or integrated, nic, doorbell, cpu",
     0},
    {"curves", KEY_CURVES, NULL, 0, "What each group of components saves if it takes less", 0},
    {"plot", KEY_PLOT, "FILE.png", 0, "Draw bars and curves, with gnuplot", 0},
    {"print", KEY_PRINT, NULL, 0, "Print the parts as a file for --parts", 0},
    {"json", KEY_JSON, NULL, 0, "Predictions, after the changes, or the comparison, as JSON", 0},
    {"collectives", KEY_COLLECTIVES, NULL, 0,
     "Print the parameters of RCOLL_MODEL that follow from the parts: by these collectives choose "
     "their algorithm",
     0},
    {"list", KEY_LIST, NULL, 0, "Print the names of all parts and what they mean", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

/* As rmalloc_perf takes them: 4096 or 4k. */
static int option_size(const char *arg, struct argp_state *state)
{
    char *end;
    unsigned long long bytes = strtoull(arg, &end, 10);

    if (*end == 'k' || *end == 'K') {
        bytes *= 1024;
        end++;
    }
    for (int i = 0; i < MODEL_SIZES; i++)
        if (bytes == model_size[i] && *end == '\0')
            return i;
    argp_error(state, "--size is \"%s\"; it must be 8, 64, 4096 (4k) or 65536 (64k)", arg);
    return 0;
}

static const char *option_op; /* as it was given */

static const char *parse_op(const char *arg, struct argp_state *state)
{
    if (strcmp(arg, "put") != 0 && strcmp(arg, "get") != 0)
        argp_error(state, "--op is \"%s\"; it must be put or get", arg);
    return arg;
}

static double option_limit(const char *arg, struct argp_state *state)
{
    char *end;
    double limit = strtod(arg, &end);

    if (end == arg || *end != '\0' || !(limit >= 0 && limit <= 1000))
        argp_error(state, "--limit is \"%s\"; it must be a number of percent from 0 to 1000", arg);
    return limit;
}

/* What does not go together. */
static void option_check(struct argp_state *state)
{
    const bool stdin_twice = options.parts != NULL && options.measured != NULL &&
                             strcmp(options.parts, "-") == 0 && strcmp(options.measured, "-") == 0;

    if (stdin_twice)
        argp_error(state, "--parts and --measured are both -; only one of them can be the standard "
                          "input");
    if (options.measured != NULL && options.size >= 0)
        argp_error(state, "--measured compares all sizes that its file has; leave out --size");
    if (options.measured != NULL && options.what_if != NULL)
        argp_error(state, "--measured compares the parts as they are; leave out --what-if");
}

/* gnuplot would draw to the terminal instead. */
static const char *option_plot(const char *arg, struct argp_state *state)
{
    FILE *file = fopen(arg, "ab");

    if (file == NULL)
        argp_failure(state, 2, errno, "--plot: %s cannot be written", arg);
    else
        fclose(file);
    return arg;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'p':
        options.parts = arg;
        return 0;
    case 's':
        options.size = option_size(arg, state);
        return 0;
    case 'o':
        option_op = parse_op(arg, state);
        return 0;
    case KEY_JSON:
        options.json = true;
        return 0;
    case KEY_COLLECTIVES:
        options.collectives = true;
        return 0;
    case 'm':
        options.measured = arg;
        return 0;
    case 'w':
        options.what_if = arg;
        return 0;
    case KEY_LIMIT:
        options.limit = option_limit(arg, state);
        return 0;
    case KEY_CURVES:
        options.curves = true;
        return 0;
    case KEY_PLOT:
        options.plot = option_plot(arg, state);
        return 0;
    case KEY_PRINT:
        options.print = true;
        return 0;
    case KEY_LIST:
        options.list = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" is no option of this program; a file of parts is --parts %s", arg,
                   arg);
        return 0;
    case ARGP_KEY_END:
        option_check(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "rmalloc_model %s\n", rinfo_version());
}

static const struct argp option_parser = {
    option_table,
    parse_option,
    NULL,
    "Predicts latency and injection of a message, in ns, from the times of the components of its "
    "way. Without options it is the way of Zambre 2020 through a network adapter.\v"
    "To compare the pipes of this machine with their model, here by shared memory; over tcp both "
    "with --btl tcp. It needs two processors that nothing else uses:\n"
    "  rmalloc_perf -t parts -o both >parts\n"
    "  rmalloc_perf -t all -o both -s 8,64,4k,64k --format csv >measured\n"
    "  rmalloc_model -p parts -m measured",
    NULL,
    NULL,
    NULL};

static _Noreturn void fail(const char *file, const char *why)
{
    fprintf(stderr, "rmalloc_model: %s%s%s\n", file, *file != '\0' ? ": " : "", why);
    exit(2);
}

static FILE *open_file(const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");

    if (file == NULL)
        fail(path, strerror(errno));
    return file;
}

static int read_parts(struct model_parts *paths)
{
    char why[320];
    FILE *file;
    int n;

    paths[0] = model_thunderx2;
    if (options.parts == NULL || strcmp(options.parts, "thunderx2") == 0)
        return 1;
    file = open_file(options.parts);
    n = model_parts_read(paths, file, options.parts, why, sizeof(why));
    if (n < 0)
        fail("", why);
    if (file != stdin)
        fclose(file);
    return n;
}

static struct model_parts choose_path(const struct model_parts *paths, int n)
{
    for (int i = 0; i < n; i++)
        if (option_op == NULL ||
            (paths[i].way != WAY_ADAPTER && paths[i].get == (option_op[0] == 'g')))
            return paths[i];
    fail("--op",
         paths->way == WAY_ADAPTER
             ? "an adapter has one path; put and get are those of --parts FILE, the output "
               "of rmalloc_perf -t parts -o both"
             : "--parts has no path with that; rmalloc_perf -t parts -o both measures both");
}

/* Of --op, if it was given. */
static int compare(const struct model_parts *paths, int n, const struct model_parts *chosen)
{
    FILE *csv;
    char why[300];
    int result;

    if (paths->way == WAY_ADAPTER)
        fail("--measured",
             "--parts must be what was measured here: the output of rmalloc_perf -t parts");
    if (option_op != NULL) {
        paths = chosen;
        n = 1;
    }
    csv = open_file(options.measured);
    result = model_compare(paths, n, csv, options.limit, options.json, why, sizeof(why));
    if (result < 0)
        fail(options.measured, why);
    if (csv != stdin)
        fclose(csv);
    return result;
}

static void list_parts(void)
{
    char of[MODEL_WAYS * 12];

    for (int i = 0; i < MODEL_PARTS; i++) {
        of[0] = '\0';
        for (int way = 0; way < MODEL_WAYS; way++)
            if (model_part_is_of(i, (enum model_way)way, true))
                snprintf(of + strlen(of), sizeof(of) - strlen(of), " %s",
                         model_way_name((enum model_way)way));
        printf("%-16s%-18s %s%s\n", model_part_name(i), of, model_part_meaning(i),
               model_part_has_sizes(i) ? " (each size)" : "");
    }
}

/* Which path it is, above what is predicted of it. */
static void print_heading(const struct model_parts *p, int paths)
{
    if (p->way == WAY_ADAPTER && (options.parts == NULL || strcmp(options.parts, "thunderx2") == 0))
        printf("Adapter of Zambre 2020 (ThunderX2, ConnectX-4); of this machine: rmalloc_perf -t "
               "parts >parts, then --parts parts\n");
    else if (p->way == WAY_ADAPTER)
        printf("Adapter, by %s\n", options.parts);
    else
        printf("%s, by %s of %s%s\n", p->way == WAY_MEMORY ? "Shared memory" : "Network",
               p->get ? "GET" : "PUT", options.parts,
               paths > 1 && option_op == NULL ? "; its other paths: --op" : "");
}

static void print(const struct model_parts *before, const struct model_parts *p, int paths)
{
    const int size = options.size < 0 ? 0 : options.size;

    if (options.print)
        model_parts_print(p, stdout);
    else if (options.collectives)
        model_print_collectives(p);
    else if (options.what_if != NULL && !options.json)
        model_print_changed(before, p, size);
    else if (options.measured == NULL) {
        if (!options.json)
            print_heading(p, paths);
        model_print(p, size, options.json);
    }
    if (options.curves)
        model_print_curves(p, size);
}

int main(int argc, char **argv)
{
    struct model_parts paths[MODEL_PATHS], before, p;
    char why[300];
    int n, status = 0;

    argp_program_version_hook = print_version;
    argp_parse(&option_parser, argc, argv, 0, NULL, NULL);
    if (options.list) {
        list_parts();
        return 0;
    }
    n = read_parts(paths);
    before = p = choose_path(paths, n);
    if (p.way == WAY_ADAPTER && options.size > 0)
        fail("--size",
             "an adapter has components for 8 bytes alone; those of all sizes are measured "
             "by rmalloc_perf -t parts, and read by --parts FILE");
    if (options.what_if != NULL && model_what_if(&p, options.what_if, why, sizeof(why)) != 0)
        fail("--what-if", why);
    print(&before, &p, n);
    if (options.measured != NULL)
        status = compare(paths, n, &p);
    if (options.plot != NULL &&
        model_plot(options.plot, &p, options.size < 0 ? 0 : options.size) != 0)
        status = 2;
    return status;
}
