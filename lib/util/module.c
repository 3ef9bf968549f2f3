/* SPDX-License-Identifier: BSD-3-Clause */
/* module.c: see module.h. */
#include "util/module.h"

#include "util/settings.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MODULES_MOST 16

static struct {
    pthread_mutex_t lock;
    void *open[MODULES_MOST]; /* each once */
    int n;
    void *pin; /* this library */
} module_held = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The loader counts how often a module has been opened; one of them is kept. */
static void module_keep(void *handle)
{
    int i;

    pthread_mutex_lock(&module_held.lock);
    for (i = 0; i < module_held.n && module_held.open[i] != handle; i++)
        ;
    if (i < module_held.n)
        dlclose(handle);
    else if (module_held.n < MODULES_MOST)
        module_held.open[module_held.n++] = handle;
    pthread_mutex_unlock(&module_held.lock);
}

/* dlclose(3) of this library, or the end of the process. While a job is open it can only be the
 * latter. */
__attribute__((destructor)) static void module_unload(void)
{
    if (module_held.pin != NULL)
        return;
    while (module_held.n > 0)
        dlclose(module_held.open[--module_held.n]);
}

void module_pin(void)
{
    Dl_info info;

    if (dladdr((void *)module_pin, &info) != 0 && info.dli_fname != NULL)
        module_held.pin =
            dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD); /* NULL: linked statically */
}

void module_unpin(void)
{
    void *pin = module_held.pin;

    module_held.pin = NULL;
    if (pin != NULL)
        dlclose(pin);
}

/* The directory of the shared object that this code is in. */
static int module_own_directory(char *path, size_t bytes)
{
    Dl_info info;
    char *slash;

    if (dladdr((void *)module_own_directory, &info) == 0 || info.dli_fname == NULL ||
        strlen(info.dli_fname) >= bytes)
        return -1;
    strcpy(path, info.dli_fname);
    slash = strrchr(path, '/');
    if (slash == NULL)
        return -1;
    *slash = '\0';
    return 0;
}

#define PATH_BYTES (PATH_MAX + 64)

/* The path of the module: the first directory that has it. */
static bool module_find(const char *name, char path[PATH_BYTES])
{
    char own[PATH_MAX], below[PATH_MAX + 16];
    const char *directory[4] = {setting_text(SET_MODULE_PATH), NULL, NULL, PKGLIBDIR};
    int i;

    if (module_own_directory(own, sizeof(own)) == 0)
        directory[1] = own;
    if (directory[1] != NULL) {
        snprintf(below, sizeof(below), "%s/rmalloc", own);
        directory[2] = below;
    }
    for (i = 0; i < 4; i++) {
        if (directory[i] == NULL || *directory[i] == '\0')
            continue;
        snprintf(path, PATH_BYTES, "%s/%s.so", directory[i], name);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

bool module_installed(const char *name)
{
    char path[PATH_BYTES];

    return module_find(name, path);
}

void *module_symbol(const char *name, const char *symbol, struct error *err)
{
    char path[PATH_BYTES];
    void *handle, *address;
    const char *reason;

    if (!module_find(name, path)) {
        error_note(err, "%s.so is not installed in %s", name, PKGLIBDIR);
        return NULL;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        reason = dlerror();
        error_note(err, "cannot be loaded: %s", reason != NULL ? reason : path);
        return NULL;
    }
    module_keep(handle);
    address = dlsym(handle, symbol);
    if (address == NULL)
        error_note(err, "%s has no symbol %s: is it of another version of this library?", path,
                   symbol);
    return address;
}
