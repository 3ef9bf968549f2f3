/* SPDX-License-Identifier: BSD-3-Clause */
/* rgpu_driver.c: see rgpu_driver.h. */
#include "rgpu_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CUDA, HIP, APIS };

static const struct {
    const char *name;
    const char *libraries[4]; /* the first one that is there; a NULL ends them */
} driver_api[APIS] = {
    [CUDA] = {"cuda", {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", NULL}},
    [HIP] = {"hip", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so", NULL}},
};

#define AT(call) offsetof(struct driver, call)
static const struct {
    size_t at;
    const char *name[APIS]; /* NULL: this API has none */
} driver_names[] = {
    {AT(init), {"cuInit", "hipInit"}},
    {AT(error_name), {"cuGetErrorName", "hipDrvGetErrorName"}},
    {AT(device_get), {"cuDeviceGet", "hipDeviceGet"}},
    {AT(device_name), {"cuDeviceGetName", "hipDeviceGetName"}},
    {AT(context_retain), {"cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain"}},
    {AT(context_release), {"cuDevicePrimaryCtxRelease_v2", "hipDevicePrimaryCtxRelease"}},
    {AT(context_current), {"cuCtxGetCurrent", "hipCtxGetCurrent"}},
    {AT(context_push), {"cuCtxPushCurrent_v2", "hipCtxPushCurrent"}},
    {AT(context_pop), {"cuCtxPopCurrent_v2", "hipCtxPopCurrent"}},
    {AT(context_set), {"cuCtxSetCurrent", "hipCtxSetCurrent"}},
    {AT(synchronize), {"cuCtxSynchronize", "hipDeviceSynchronize"}},
    {AT(stream_create), {"cuStreamCreate", "hipStreamCreateWithFlags"}},
    {AT(stream_destroy), {"cuStreamDestroy_v2", "hipStreamDestroy"}},
    {AT(stream_query), {"cuStreamQuery", "hipStreamQuery"}},
    {AT(event_create), {"cuEventCreate", "hipEventCreateWithFlags"}},
    {AT(event_destroy), {"cuEventDestroy_v2", "hipEventDestroy"}},
    {AT(event_record), {"cuEventRecord", "hipEventRecord"}},
    {AT(event_query), {"cuEventQuery", "hipEventQuery"}},
    {AT(copy_in), {"cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"}},
    {AT(copy_out), {"cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"}},
    {AT(granularity), {"cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity"}},
    {AT(create), {"cuMemCreate", "hipMemCreate"}},
    {AT(release), {"cuMemRelease", "hipMemRelease"}},
    {AT(properties),
     {"cuMemGetAllocationPropertiesFromHandle", "hipMemGetAllocationPropertiesFromHandle"}},
    {AT(export_fd), {"cuMemExportToShareableHandle", "hipMemExportToShareableHandle"}},
    {AT(import_fd), {"cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle"}},
    {AT(reserve), {"cuMemAddressReserve", "hipMemAddressReserve"}},
    {AT(unreserve), {"cuMemAddressFree", "hipMemAddressFree"}},
    {AT(map), {"cuMemMap", "hipMemMap"}},
    {AT(unmap), {"cuMemUnmap", "hipMemUnmap"}},
    {AT(set_access), {"cuMemSetAccess", "hipMemSetAccess"}},
    /* a driver need not have the last four */
    {AT(attribute), {"cuDeviceGetAttribute", NULL}},
    {AT(context_record), {"cuCtxRecordEvent", NULL}},
    {AT(flush), {"cuFlushGPUDirectRDMAWrites", NULL}},
    {AT(range_fd), {"cuMemGetHandleForAddressRange", "hipMemGetHandleForAddressRange"}},
};
#undef AT
enum {
    DRIVER_NAMES = sizeof(driver_names) / sizeof(driver_names[0]),
    DRIVER_NEEDED = DRIVER_NAMES - 4
};

static void *driver_load(const char *library, const char *const *libraries, char *error,
                         size_t bytes)
{
    const char *const given[] = {library, NULL};
    void *handle = NULL;

    for (const char *const *name = library != NULL ? given : libraries;
         handle == NULL && *name != NULL; name++) {
        handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL && name[1] == NULL)
            (void)snprintf(error, bytes, "%s", dlerror());
    }
    return handle;
}

/* ROCm before 7.1 takes the address of the descriptor, CUDA and later ones its value. */
static int driver_fd_by_reference(const struct driver *driver)
{
    int (*version)(int *) = NULL, number = 0;
    void *function = dlsym(driver->library, "hipRuntimeGetVersion");

    if (driver->names != HIP || function == NULL)
        return 0;
    memcpy(&version, &function, sizeof(version));
    return version(&number) == DRIVER_SUCCESS && number < 70100000;
}

int driver_open(struct driver *driver, const char *api, const char *library, char *error,
                size_t bytes)
{
    memset(driver, 0, sizeof(*driver));
    while (driver->names < APIS && strcmp(driver_api[driver->names].name, api) != 0)
        driver->names++;
    if (driver->names == APIS) {
        (void)snprintf(error, bytes, "\"%s\" is no API of GPUs; it must be cuda or hip", api);
        return -EINVAL;
    }
    driver->library = driver_load(library, driver_api[driver->names].libraries, error, bytes);
    if (driver->library == NULL)
        return -ENOENT;
    for (int i = 0; i < DRIVER_NAMES; i++) {
        const char *name = driver_names[i].name[driver->names];
        void *function = name != NULL ? dlsym(driver->library, name) : NULL;

        if (function == NULL && i < DRIVER_NEEDED) {
            (void)snprintf(error, bytes, "the driver of %s has no %s: it is too old", api, name);
            dlclose(driver->library);
            return -ENOENT;
        }
        memcpy((char *)driver + driver_names[i].at, &function, sizeof(function));
    }
    driver->api = driver_api[driver->names].name;
    driver->fd_by_reference = driver_fd_by_reference(driver);
    return 0;
}

const char *driver_function(const struct driver *driver, size_t offset)
{
    int i = 0;

    while (driver_names[i].at != offset)
        i++;
    return driver_names[i].name[driver->names];
}
