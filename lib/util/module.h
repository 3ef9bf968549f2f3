/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * module.h: opens a shared object of this library at run time.
 *
 * The directories are RPIPE_MODULE_PATH, then beside the library itself (build tree), then in
 * rmalloc/ below it (an installation that has been moved), then in the directory that configure
 * chose (PKGLIBDIR). Opened RTLD_LOCAL; closed when this library itself is unloaded, and not
 * before. Modules that depend on other libraries, which may have threads or handlers, are linked
 * with -z nodelete, and stay loaded.
 */
#ifndef UTIL_MODULE_H
#define UTIL_MODULE_H

#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Before the symbols that a module exports: the others are hidden. */
#define MODULE_EXPORT __attribute__((visibility("default")))

/* The address of `symbol` in the module `name` ("btl_shm"); NULL and a message, if there is
 * none. */
void *module_symbol(const char *name, const char *symbol, struct error *err);
/* Whether there is such a file. Loads nothing. */
bool module_installed(const char *name);
/*
 * Between the two calls dlclose(3) does not unload this library: its thread runs in it. The caller
 * of module_unpin is in the library, so it is open elsewhere too. One at a time.
 */
void module_pin(void);
void module_unpin(void);

#endif
