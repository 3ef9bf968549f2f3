/* SPDX-License-Identifier: BSD-3-Clause */
/* app.c: options, progress, digest and results, see app.h. */
#include "app.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct app_options app_options = {.check = true};

/* ---- options: those of the application and the common ones, parsed by argp ---- */

enum { KEY_JSON = 0x4000, KEY_PROGRESS, KEY_NO_CHECK, KEY_QUICK };
enum { OWN_MOST = 16, HELP_BYTES = 160 };

static const struct argp_option common_table[] = {
    {"quick", KEY_QUICK, NULL, 0, "Sizes that take no time: whether it runs", 1},
    {"json", KEY_JSON, NULL, 0, "Print the result as one line of JSON", 1},
    {"progress", KEY_PROGRESS, "WHEN", 0,
     "live (one line that changes), lines, none, or auto: live on a terminal", 1},
    {"no-check", KEY_NO_CHECK, NULL, 0, "Do not repeat the run on rank 0 to compare", 1},
    {NULL, 0, NULL, 0, NULL, 0},
};

/* Index of text in words; prints an error and ends the program if it is none of them. */
static int word_of(const char *text, const char *const *words, const char *name,
                   struct argp_state *state)
{
    char all[256] = "";

    for (int i = 0; words[i] != NULL; i++) {
        size_t used = strlen(all);

        if (strcmp(text, words[i]) == 0)
            return i;
        snprintf(all + used, sizeof(all) - used, "%s%s",
                 i == 0                 ? ""
                 : words[i + 1] != NULL ? ", "
                                        : " or ",
                 words[i]);
    }
    argp_error(state, "--%s is \"%s\"; it must be %s", name, text, all);
    return 0;
}

static uint32_t number_of(const char *text, const struct app_option *o, struct argp_state *state)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < (long)o->least ||
        value > (long)o->most)
        argp_error(state, "--%s is \"%s\"; it must be a number from %u to %u", o->name, text,
                   o->least, o->most);
    return (uint32_t)value;
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    static const char *const when[] = {"auto", "live", "lines", "none", NULL};

    switch (key) {
    case KEY_QUICK:
        app_options.quick = true;
        return 0;
    case KEY_JSON:
        app_options.json = true;
        return 0;
    case KEY_PROGRESS:
        app_options.progress = word_of(arg, when, "progress", state);
        return 0;
    case KEY_NO_CHECK:
        app_options.check = false;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_own(int key, char *arg, struct argp_state *state)
{
    const struct app_option *o = state->input;

    while (o->name != NULL && o->key != key)
        o++;
    if (o->name == NULL)
        return ARGP_ERR_UNKNOWN;
    if (o->flag != NULL) {
        *o->flag = true;
    } else if (o->number != NULL) {
        *o->number = number_of(arg, o, state);
    } else if (o->word != NULL) {
        *o->word = word_of(arg, o->words, o->name, state);
    } else {
        if (o->valid != NULL && !o->valid(arg))
            argp_error(state, "--%s is \"%s\"; see --help for what it may be", o->name, arg);
        *o->text = arg;
    }
    return 0;
}

/* The description of the option, followed by its default. */
static void help_of(const struct app_option *o, char help[HELP_BYTES])
{
    const char *text = o->word != NULL ? o->words[*o->word] : o->text != NULL ? *o->text : "";

    if (o->number != NULL)
        snprintf(help, HELP_BYTES, "%s (%u)", o->help, *o->number);
    else
        snprintf(help, HELP_BYTES, *text != '\0' ? "%s (%s)" : "%s", o->help, text);
}

void app_parse(const char *doc, const struct app_option *options, int argc, char **argv)
{
    static const struct argp common = {common_table, parse_common, NULL, NULL, NULL, NULL, NULL};
    static const struct argp_child children[] = {{&common, 0, NULL, 0}, {NULL, 0, NULL, 0}};
    struct argp_option table[OWN_MOST + 1] = {{0}};
    char help[OWN_MOST][HELP_BYTES];
    const struct argp parser = {table, parse_own, NULL, doc, children, NULL, NULL};

    for (int i = 0; i < OWN_MOST && options[i].name != NULL; i++) {
        help_of(&options[i], help[i]);
        table[i].name = options[i].name;
        table[i].key = options[i].key;
        table[i].arg = options[i].argument;
        table[i].doc = help[i];
    }
    argp_parse(&parser, argc, argv, ARGP_LONG_ONLY, NULL, (void *)(uintptr_t)options);
}

double app_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/*
 * A launcher puts a pipe between a process and the terminal;
 * therefore this checks the standard error of the launcher too.
 */
static bool on_terminal(void)
{
    char path[64];
    bool yes = isatty(STDERR_FILENO);
    int fd;

    if (yes)
        return true;
    snprintf(path, sizeof(path), "/proc/%ld/fd/2", (long)getppid());
    fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        yes = isatty(fd);
        close(fd);
    }
    return yes;
}

void app_progress_show(const char *app, const char *unit, uint64_t done, uint64_t all, double began)
{
    static double last;
    static int fifth;
    double share = all > 0 ? (double)done / (double)all : 1.0, now;
    char bar[41];

    if (app_options.progress == APP_AUTO)
        app_options.progress = on_terminal() ? APP_LIVE : APP_LINES;
    if (app_options.progress == APP_NONE)
        return;
    if (app_options.progress == APP_LINES) {
        if ((int)(share * 5) <= fifth)
            return;
        fifth = (int)(share * 5);
        fprintf(stderr, "%s: %s %llu of %llu, %.1f s\n", app, unit, (unsigned long long)done,
                (unsigned long long)all, app_seconds() - began);
        return;
    }
    now = app_seconds();
    if (now - last < 0.05 && done < all)
        return;
    last = now;
    for (int i = 0; i < 40; i++)
        bar[i] = i < (int)(share * 40) ? '=' : i == (int)(share * 40) ? '>' : ' ';
    bar[40] = '\0';
    fprintf(stderr, "\r%s [%s] %3d %%  %s %llu of %llu  %.1f s ", app, bar, (int)(share * 100),
            unit, (unsigned long long)done, (unsigned long long)all, now - began);
    if (done == all)
        fputc('\n', stderr);
    fflush(stderr);
}

uint64_t app_mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
    return x ^ x >> 33;
}

uint64_t app_digest(uint64_t digest, const void *words, size_t count)
{
    const unsigned char *at = words;
    uint64_t word;

    for (size_t i = 0; i < count; i++) {
        memcpy(&word, at + i * sizeof(word), sizeof(word));
        digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
        digest ^= digest >> 29;
    }
    return digest;
}

int app_laps_begin(struct app_laps *laps, uint64_t steps)
{
    laps->room = steps < 1 ? 1 : steps < APP_LAPS_MOST ? steps : APP_LAPS_MOST;
    laps->beyond = calloc(laps->room, sizeof(*laps->beyond));
    laps->count = 0;
    laps->sum = 0;
    return laps->beyond != NULL ? 0 : -ENOMEM;
}

void app_laps_add(struct app_laps *laps, double beyond)
{
    laps->beyond[laps->count++ % laps->room] += (float)beyond;
    laps->sum += beyond;
}

void app_result_print(const struct app_result *r)
{
    if (app_options.json) {
        printf("{\"app\": \"%s\", \"by\": \"%s\", \"ranks\": %d, \"seconds\": %.9f, "
               "\"communication\": %.9f, "
               "\"waiting\": %.9f, \"work\": %.0f, \"unit\": \"%s\", \"digest\": \"%016llx\"}\n",
               r->app, r->by, r->ranks, r->seconds, r->communication, r->waiting, r->work, r->unit,
               (unsigned long long)r->digest);
        return;
    }
    printf("%s: %d processes, %s: %.3f s, %.4g %s per second", r->app, r->ranks, r->by, r->seconds,
           r->seconds > 0 ? r->work / r->seconds : 0.0, r->unit);
    if (r->communication >= 0)
        printf(", communication %.3f s, waiting %.3f s", r->communication, r->waiting);
    printf(", digest %016llx\n", (unsigned long long)r->digest);
}
