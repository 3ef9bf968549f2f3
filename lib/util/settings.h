/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings.h: everything that the environment can set, in one table.
 *
 * settings_load() reads the environment once and checks every value; a bad one is -EINVAL with a
 * message, never a silent default. After that the settings are read-only.
 */
#ifndef UTIL_SETTINGS_H
#define UTIL_SETTINGS_H

#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum setting {
    SET_BOOTSTRAP,
    SET_BTL,
    SET_ATOMICS,
    SET_CONTROL,
    SET_CROSS,
    SET_WAIT,
    SET_SPIN,
    SET_TIMEOUT_MS,
    SET_KEEPALIVE_MS,
    SET_SLOTS,
    SET_WATERMARK,
    SET_EAGER,
    SET_HUGE_PAGES,
    SET_DEBUG,
    SET_FIRST,
    SET_LOG,
    SET_MODULE_PATH,
    SET_INTERFACE,
    SET_OFI_PROVIDER,
    SET_OFI_DOMAIN,
    SET_OFI_ORDER,
    SET_OFI_HMEM,
    SET_MPI_FLUSH,
    SET_RANK,
    SET_SIZE,
    SET_ROOT,
    SET_SECRET,
    SET_VERBS_DEVICE,
    SET_VERBS_PORT,
    SET_VERBS_GID,
    SET_CAST_BACKEND,
    SET_CAST_LOSE,
    SET_COLL_HEAP,
    SET_COLL_ALGORITHM,
    SET_COLL_MODEL,
    SET_COLL_EXPLAIN,
    SET_STATS,
    SET_TRACE,
    SET_TRACE_EVENTS,
    SETTINGS
};

enum wait_mode { WAIT_SPIN, WAIT_YIELD, WAIT_SLEEP, WAIT_ADAPTIVE };

/* Again after a change of the environment; 0, or -EINVAL and a message, and then nothing has
 * changed. */
int settings_load(struct error *err);
/* The present value of the environment; the default, if that is malformed. */
const char *setting_found(enum setting s);
const char *setting_name(enum setting s); /* "RPIPE_WAIT" */
const char *setting_text(enum setting s); /* the value in force; "" if there is none */
const char *setting_fallback(enum setting s);
const char *setting_help(enum setting s);
/* of numbers and booleans; of a choice its index in the order that the help gives */
long setting_number(enum setting s);
double setting_real(enum setting s);
/* As setting_text(), for a module, whose own table is never loaded; "" if there is no such setting. */
const char *setting_of_name(const char *name);
bool setting_given(enum setting s); /* by the environment */
/* "NAME=value" of those that are not the default, without the secret; "": there is none. */
void settings_describe(char *text, size_t bytes);
/*
 * The next variable of the environment that has the prefix of settings and is none; NULL: there is
 * no other. *at: 0 at first. *nearest: the setting with the nearest name, or NULL.
 */
const char *settings_unknown(int *at, const char **nearest);

#endif
