/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings.c: the table of settings, see settings.h. The prefix RPIPE_PEER_ is reserved for peers
 * that connect by name.
 *
 * A setting is a choice of words, a number in a range, a real in a range, or text. The environment
 * is not trusted in a program that runs with more rights than its caller (secure_getenv).
 */
#include "util/settings.h"

#include "util/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* a choice of RPIPE_BTL that no message names */
#define BTL_OF_TESTS "sim"

enum kind { CHOICE, NUMBER, POWER_OF_TWO /* or 0 */, REAL, TEXT };

static const struct entry {
    const char *name, *fallback;
    enum kind kind;
    const char *words; /* of a choice, separated by | */
    long least, most;
    const char *help;
} settings_table[SETTINGS] = {
    [SET_BOOTSTRAP] = {"RPIPE_BOOTSTRAP", "auto", CHOICE, "auto|pmix|tcp|single|mpi", 0, 0,
                       "how the processes of the job find each other"},
    [SET_BTL] = {"RPIPE_BTL", "auto", CHOICE, "auto|shm|verbs|ofi|tcp|mpi", 0, 0,
                 "backend of every pipe, overriding its configuration"},
    [SET_ATOMICS] =
        {"RPIPE_ATOMICS", "auto", CHOICE, "auto|service", 0, 0,
         "how cells of this process are operated on by others; service: by its service thread"},
    [SET_CONTROL] = {"RPIPE_CONTROL", "auto", CHOICE, "auto|unix|tcp", 0, 0,
                     "sockets of the control network"},
    [SET_CROSS] = {"RPIPE_CROSS", "1", NUMBER, NULL, 0, 1,
                   "0: windows never use process_vm_readv and process_vm_writev"},
    [SET_WAIT] = {"RPIPE_WAIT", "adaptive", CHOICE, "spin|yield|sleep|adaptive", 0, 0,
                  "how calls wait"},
    [SET_SPIN] =
        {"RPIPE_SPIN", "-1", NUMBER, NULL, -1, 1000000,
         "microseconds of spinning before an adaptive wait yields; -1: by cores and ranks"},
    [SET_TIMEOUT_MS] = {"RPIPE_TIMEOUT_MS", "60000", NUMBER, NULL, -1, 1000000000,
                        "deadline of blocking calls in milliseconds; -1: none"},
    [SET_KEEPALIVE_MS] =
        {"RPIPE_KEEPALIVE_MS", "10000", NUMBER, NULL, 1000, 86400000,
         "milliseconds after which a host that does not answer is considered lost"},
    [SET_SLOTS] = {"RPIPE_SLOTS", "0", POWER_OF_TWO, NULL, 2, 65536,
                   "slots of a notification ring, a power of two; 0: 64, over networks 512"},
    [SET_WATERMARK] = {"RPIPE_WATERMARK", "0.5", REAL, NULL, 0, 1,
                       "share of ring or heap in use at which the writer polls for credits"},
    [SET_EAGER] = {"RPIPE_EAGER", "16384", NUMBER, NULL, 0, 1L << 30,
                   "GET over a network: payloads of so many bytes are not fetched; 0: all are"},
    [SET_HUGE_PAGES] = {"RPIPE_HUGE_PAGES", "0", NUMBER, NULL, 0, 1,
                        "1: heaps in huge pages where there are any"},
    [SET_DEBUG] = {"RMALLOC_DEBUG", "0", NUMBER, NULL, 0, 1,
                   "1: check every invariant, detect every misuse; slow"},
    [SET_FIRST] = {"RPIPE_FIRST", "0", NUMBER, NULL, 0, LONG_MAX,
                   "for tests: the first number of messages, openings, laps and collectives"},
    [SET_LOG] = {"RPIPE_LOG", "warn", CHOICE, "error|warn|info|debug", 0, 0,
                 "least severe messages that are logged on standard error"},
    [SET_MODULE_PATH] = {"RPIPE_MODULE_PATH", "", TEXT, NULL, 0, 0,
                         "directory of backend and bootstrap modules, before the installed one"},
    [SET_INTERFACE] = {"RPIPE_INTERFACE", "", TEXT, NULL, 0, 0,
                       "address or network interface of the control network over TCP; empty: all"},
    [SET_OFI_PROVIDER] =
        {"RPIPE_OFI_PROVIDER", "", TEXT, NULL, 0, 0,
         "libfabric provider of backend ofi, as fi_info names it; empty: the first between hosts"},
    [SET_OFI_DOMAIN] = {"RPIPE_OFI_DOMAIN", "", TEXT, NULL, 0, 0,
                        "device of backend ofi, as fi_info names it; empty: that of the control "
                        "network's address"},
    [SET_OFI_ORDER] =
        {"RPIPE_OFI_ORDER", "auto", CHOICE, "auto|operations|none", 0, 0,
         "what backend ofi relies on: none: no order of writes; operations: that of whole writes"},
    [SET_OFI_HMEM] = {"RPIPE_OFI_HMEM", "auto", CHOICE, "auto|yes|no", 0, 0,
                      "whether backend ofi asks its provider for memory of devices (FI_HMEM); "
                      "auto: if the first pipe that needs it, or a pipe or region before, has such "
                      "memory"},
    [SET_MPI_FLUSH] =
        {"RPIPE_MPI_FLUSH", "thread", CHOICE, "thread|inline", 0, 0,
         "backend mpi: what calls MPI_Win_flush: a thread of its own, or each transfer"},
    [SET_RANK] = {"RPIPE_RANK", "-1", NUMBER, NULL, -1, 1000000,
                  "bootstrap tcp: rank of this process"},
    [SET_SIZE] = {"RPIPE_SIZE", "-1", NUMBER, NULL, -1, 1000000,
                  "bootstrap tcp: number of processes"},
    [SET_ROOT] = {"RPIPE_ROOT", "", TEXT, NULL, 0, 0,
                  "bootstrap tcp: host:port where rank 0 listens"},
    [SET_SECRET] = {"RPIPE_SECRET", "", TEXT, NULL, 0, 0,
                    "bootstrap tcp: a secret that all processes of this job have"},
    [SET_VERBS_DEVICE] = {"RPIPE_VERBS_DEVICE", "", TEXT, NULL, 0, 0,
                          "backend verbs: name of the RDMA device; empty: any"},
    [SET_VERBS_PORT] = {"RPIPE_VERBS_PORT", "-1", NUMBER, NULL, -1, 255,
                        "backend verbs: port of the device; -1: any"},
    [SET_VERBS_GID] =
        {"RPIPE_VERBS_GID", "-1", NUMBER, NULL, -1, 65535,
         "backend verbs: entry of the port's GID table whose address is used; -1: any"},
    [SET_CAST_BACKEND] = {"RPIPE_CAST_BACKEND", "auto", CHOICE, "auto|udp|verbs", 0, 0,
                          "what carries packets of casts to several hosts, overriding their "
                          "configuration"},
    [SET_CAST_LOSE] = {"RPIPE_CAST_LOSE", "", TEXT, NULL, 0, 0,
                       "for tests: packets of casts that are dropped where they arrive, as "
                       "seed:percent, and repeated: seed:percent:percent"},
    [SET_COLL_HEAP] = {"RCOLL_HEAP", "1048576", NUMBER, NULL, 65536, 1L << 40,
                       "bytes of a team's memory for messages of operations in flight"},
    [SET_COLL_ALGORITHM] = {"RCOLL_ALGORITHM", "", TEXT, NULL, 0, 0,
                            "algorithms of collectives, as allreduce:-4096=flat,bcast=tree:2; that "
                            "of member 0 counts"},
    [SET_COLL_MODEL] = {"RCOLL_MODEL", "", TEXT, NULL, 0, 0,
                        "parameters of the cost model of collectives; those of member 0 count"},
    [SET_COLL_EXPLAIN] = {"RCOLL_EXPLAIN", "0", NUMBER, NULL, 0, 1,
                          "1: member 0 prints what is chosen for each plan, and why"},
    [SET_STATS] =
        {"RPIPE_STATS", "", TEXT, NULL, 0, 0,
         "counters at rexit: 1 or json: to standard error; else the name of a file; empty: none"},
    [SET_TRACE] = {"RPIPE_TRACE", "", TEXT, NULL, 0, 0,
                   "file of a trace of what happens, for Perfetto; empty: none"},
    [SET_TRACE_EVENTS] = {"RPIPE_TRACE_EVENTS", "65536", NUMBER, NULL, 64, 16777216,
                          "events that a trace keeps of each thread: the last ones"},
};

static struct value {
    char text[256];
    long number;
    double real;
    bool given;
} settings_values[SETTINGS];

/* Index of `word` in "a|b|c", or -1. */
static long settings_choice_index(const char *words, const char *word)
{
    size_t length = strlen(word);
    long i;

    for (i = 0; words != NULL; i++) {
        if (strncmp(words, word, length) == 0 && (words[length] == '|' || words[length] == '\0'))
            return i;
        words = strchr(words, '|');
        if (words != NULL)
            words++;
    }
    return -1;
}

static bool settings_parse(const struct entry *e, const char *text, struct value *v)
{
    char *end;

    if (strlen(text) >= sizeof(v->text))
        return false;
    strcpy(v->text, text);
    errno = 0;
    switch (e->kind) {
    case CHOICE:
        v->number = settings_choice_index(e->words, text);
        if (v->number < 0 && e == &settings_table[SET_BTL] && strcmp(text, BTL_OF_TESTS) == 0)
            v->number = LONG_MAX;
        return v->number >= 0 && *text != '\0';
    case NUMBER:
    case POWER_OF_TWO:
        v->number = strtol(text, &end, 10);
        if (errno != 0 || end == text || *end != '\0')
            return false;
        if (e->kind == POWER_OF_TWO && v->number == 0)
            return true;
        return v->number >= e->least && v->number <= e->most &&
               (e->kind == NUMBER || (v->number & (v->number - 1)) == 0);
    case REAL:
        v->real = strtod(text, &end);
        return errno == 0 && end != text && *end == '\0' && v->real >= (double)e->least &&
               v->real <= (double)e->most;
    case TEXT:
        return true;
    }
    return false;
}

static void settings_complain(const struct entry *e, const char *text, struct error *err)
{
    if (e->kind == CHOICE)
        error_note(err, "%s is \"%.60s\"; it must be one of %s", e->name, text, e->words);
    else if (e->kind == TEXT)
        error_note(err, "%s has %zu characters; at most 255 are possible", e->name, strlen(text));
    else
        error_note(err, "%s is \"%.60s\"; it must be %s from %ld to %ld", e->name, text,
                   e->kind == POWER_OF_TWO ? "0 or a power of two"
                   : e->kind == REAL       ? "a number"
                                           : "a whole number",
                   e->least, e->most);
}

int settings_load(struct error *err)
{
    struct value found[SETTINGS];

    for (int i = 0; i < SETTINGS; i++) {
        const struct entry *e = &settings_table[i];
        const char *text = secure_getenv(e->name);

        found[i] = (struct value){.given = text != NULL};
        if (!settings_parse(e, text != NULL ? text : e->fallback, &found[i])) {
            settings_complain(e, text, err);
            return -EINVAL;
        }
    }
    memcpy(settings_values, found, sizeof(settings_values)); /* all or nothing */
    return 0;
}

#define PREFIX "RPIPE_"

/* RPIPE_SIM_ is the prefix of the simulated network of the tests, a module with settings of its
 * own. */
static bool settings_is_known(const char *name, size_t length)
{
    for (int i = 0; i < SETTINGS; i++)
        if (strlen(settings_table[i].name) == length &&
            strncmp(settings_table[i].name, name, length) == 0)
            return true;
    return strncmp(name, PREFIX "SIM_", strlen(PREFIX "SIM_")) == 0;
}

#define NAME_BYTES 64 /* of a variable with its terminator; settings are shorter */

/* How many letters have to be inserted, removed or replaced to get the other name. */
static size_t settings_distance(const char *name, const char *setting)
{
    size_t row[NAME_BYTES],
        length = strlen(setting); /* row[k]: to the first k letters of setting */

    for (size_t k = 0; k <= length; k++)
        row[k] = k;
    for (size_t i = 0; name[i] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t k = 1; k <= length; k++) {
            size_t above = row[k], best = diagonal + (name[i] != setting[k - 1]);

            best = above + 1 < best ? above + 1 : best;
            row[k] = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
            diagonal = above;
        }
    }
    return row[length];
}

/* The nearest setting: it differs in less than half of the letters behind the prefix, or has the first two of them. */
static const char *settings_nearest(const char *name)
{
    const size_t prefix = strlen(PREFIX), letters = strlen(name) - prefix;
    size_t least = SIZE_MAX;
    const char *found = NULL;

    for (int i = 0; i < SETTINGS; i++) {
        const char *setting = settings_table[i].name;
        size_t distance = settings_distance(name, setting);

        if (distance < least &&
            (2 * distance < letters || strncmp(name, setting, prefix + 2) == 0)) {
            least = distance;
            found = setting;
        }
    }
    return found;
}

const char *settings_unknown(int *at, const char **nearest)
{
    static char name[NAME_BYTES];

    while (environ != NULL && environ[*at] != NULL) {
        const char *text = environ[(*at)++];
        size_t length = strcspn(text, "=");

        if (strncmp(text, PREFIX, strlen(PREFIX)) != 0 || settings_is_known(text, length))
            continue;
        snprintf(name, sizeof(name), "%.*s",
                 (int)(length < sizeof(name) ? length : sizeof(name) - 1), text);
        if (secure_getenv(name) == NULL && length < sizeof(name))
            continue; /* none is used in a program that runs with more rights than its caller */
        *nearest = settings_nearest(name);
        return name;
    }
    return NULL;
}

const char *setting_found(enum setting s)
{
    static struct value found[SETTINGS];
    const char *text = secure_getenv(settings_table[s].name);

    return text != NULL && settings_parse(&settings_table[s], text, &found[s])
               ? found[s].text
               : settings_table[s].fallback;
}

void settings_describe(char *text, size_t bytes)
{
    size_t used = 0;

    *text = '\0';
    for (int i = 0; i < SETTINGS; i++) {
        const struct value *v = &settings_values[i];
        int length;

        if (!v->given || strcmp(v->text, settings_table[i].fallback) == 0)
            continue;
        length = snprintf(text + used, bytes - used, "%s%s=%s", used > 0 ? " " : "",
                          settings_table[i].name, i == SET_SECRET ? "(given)" : v->text);
        if (length < 0 || (size_t)length >= bytes - used)
            break;
        used += (size_t)length;
    }
    text_make_printable(text);
}

const char *setting_name(enum setting s) { return settings_table[s].name; }
const char *setting_text(enum setting s) { return settings_values[s].text; }

const char *setting_of_name(const char *name)
{
    for (int s = 0; s < SETTINGS; s++)
        if (strcmp(settings_table[s].name, name) == 0)
            return setting_text((enum setting)s);
    return "";
}

const char *setting_fallback(enum setting s) { return settings_table[s].fallback; }
const char *setting_help(enum setting s) { return settings_table[s].help; }
long setting_number(enum setting s) { return settings_values[s].number; }
double setting_real(enum setting s) { return settings_values[s].real; }
bool setting_given(enum setting s) { return settings_values[s].given; }
