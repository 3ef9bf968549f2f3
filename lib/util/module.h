/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * module.h: opens a shared object of this library at run time.
 *
 * Looked for in RPIPE_MODULE_PATH, then beside the library itself (build tree), then in rmalloc/ below it (an
 * installation that has been moved), then in the directory that configure chose (PKGLIBDIR). Opened RTLD_LOCAL; closed when this
 * library itself is unloaded, and not before. Modules that bring along libraries of others, which may hold threads or handlers,
 * are linked with -z nodelete, and stay.
 */
#ifndef UTIL_MODULE_H
#define UTIL_MODULE_H

#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Before what a module offers: the rest of it is hidden. */
#define MODULE_EXPORT __attribute__((visibility("default")))

/* The address of `symbol` in the module `name` ("btl_shm"); NULL and one line in `why`, where it is not to be had. */
void *module_symbol(const char *name, const char *symbol, struct error *err);
/* Is there such a file? Loads nothing. */
bool module_installed(const char *name);
/*
 * Between the two this library is not unloaded, whoever calls dlclose(3): its thread runs in it. The caller of module_unpin is in
 * the library, so somebody else holds it too. One at a time.
 */
void module_pin(void);
void module_unpin(void);

#endif
