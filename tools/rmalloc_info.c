/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_info.c: version, backends, bootstraps and settings of this library, see rmalloc_info(1).
 *
 * For each backend and bootstrap it prints why it is usable or not. It joins no job (except with
 * --peers), so its output is the same under a launcher, and it works where rinit fails.
 */
#include "info.h"

#include <argp.h>
#include <rinfo.h>
#include <rmalloc.h>
#include <stdio.h>
#include <string.h>

static bool json, peers;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'j':
        json = true;
        return 0;
    case 'p':
        peers = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\": this program takes no arguments", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"json", 'j', NULL, 0, "JSON output", 0},
    {"peers", 'p', NULL, 0, "In a job: the backend between each two ranks, and the reason", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp option_parser = {option_table,
                                          parse_option,
                                          NULL,
                                          "Prints the version of the rmalloc library, the backends "
                                          "and bootstraps that are usable on this "
                                          "machine, and every setting.",
                                          NULL,
                                          NULL,
                                          NULL};

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "rmalloc_info %s\n", rinfo_version());
}

/* Users publish the output of this program: it must not contain the secret. */
static const char *shown_value(const rinfo_setting_t *s)
{
    return strcmp(s->name, "RPIPE_SECRET") == 0 && *s->value != '\0' ? "(given)" : s->value;
}

/* ---- table ---- */

static void table_backends(const char *kind, const char *title)
{
    const rinfo_backend_t *b;

    printf("\n%s\n", title);
    for (int i = 0; (b = rinfo_backend(i)) != NULL; i++)
        if (strcmp(b->kind, kind) == 0)
            printf("  %-8s %-4s %s\n", b->name, b->usable ? "yes" : "no", b->reason);
}

static void table(void)
{
    const rinfo_setting_t *s;
    int name = 0, value = 0, fallback = (int)strlen("default");

    printf("rmalloc %s\n", rinfo_version());
    table_backends("btl", "backends: move the bytes");
    table_backends("bootstrap", "bootstraps: form the job");

    for (int i = 0; (s = rinfo_setting(i)) != NULL; i++) {
        name = (int)strlen(s->name) > name ? (int)strlen(s->name) : name;
        value = (int)strlen(shown_value(s)) > value ? (int)strlen(shown_value(s)) : value;
        fallback = (int)strlen(s->fallback) > fallback ? (int)strlen(s->fallback) : fallback;
    }
    value = value < (int)strlen("value") ? (int)strlen("value") : value;
    printf("\nsettings: environment variables; * marks values other than the default\n");
    printf("    %-*s  %-*s  %-*s  %s\n", name, "variable", value, "value", fallback, "default",
           "meaning");
    for (int i = 0; (s = rinfo_setting(i)) != NULL; i++)
        printf("  %c %-*s  %-*s  %-*s  %s\n", strcmp(s->value, s->fallback) != 0 ? '*' : ' ', name,
               s->name, value, *s->value != '\0' ? shown_value(s) : "-", fallback,
               *s->fallback != '\0' ? s->fallback : "-", s->help);
}

/* ---- JSON ---- */

void info_json_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void json_field(const char *before, const char *name, const char *value)
{
    printf("%s\"%s\": ", before, name);
    info_json_string(value);
}

static void print_json(void)
{
    const rinfo_backend_t *b;
    const rinfo_setting_t *s;

    printf("{");
    json_field("", "version", rinfo_version());
    printf(",\n \"backends\": [");
    for (int i = 0; (b = rinfo_backend(i)) != NULL; i++) {
        json_field(i == 0 ? "\n  {" : ",\n  {", "name", b->name);
        json_field(", ", "kind", b->kind);
        printf(", \"usable\": %s", b->usable ? "true" : "false");
        json_field(", ", "reason", b->reason);
        printf("}");
    }
    printf("],\n \"settings\": [");
    for (int i = 0; (s = rinfo_setting(i)) != NULL; i++) {
        json_field(i == 0 ? "\n  {" : ",\n  {", "name", s->name);
        json_field(", ", "value", shown_value(s));
        json_field(", ", "default", s->fallback);
        json_field(", ", "help", s->help);
        printf("}");
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    argp_program_version_hook = print_version;
    argp_parse(&option_parser, argc, argv, 0, NULL, NULL);
    if (peers)
        return info_peers(json);
    if (json)
        print_json();
    else
        table();
    return 0;
}
