/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.c: which backends this rank can probably use, found without loading any of them.
 *
 * The result is in the card of the rank, so that two ranks choose the same backend without
 * communicating, and so that a job on one host loads no network library but the one of RPIPE_BTL=mpi. A backend of the mask may
 * still fail to open; it then reports why.
 */
#include "btl/btl.h"

#include "util/module.h"
#include "util/settings.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RDMA_DEVICES "/sys/class/infiniband"
#define CXI_DEVICES "/sys/class/cxi"

/* The kernel writes "4: ACTIVE". */
static bool probe_state_is_active(int ports, const char *port)
{
    char path[300], state[32];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "%s/state", port);
    fd = openat(ports, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, state, sizeof(state) - 1);
    close(fd);
    if (n <= 0)
        return false;
    state[n] = '\0';
    return strstr(state, "ACTIVE") != NULL && strstr(state, "DEFER") == NULL;
}

static bool probe_device_has_active_port(int devices, const char *device)
{
    char path[300];
    struct dirent *entry;
    bool active = false;
    DIR *ports;
    int fd;

    snprintf(path, sizeof(path), "%s/ports", device);
    fd = openat(devices, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ports = fd >= 0 ? fdopendir(fd) : NULL;
    if (ports == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    while (!active && (entry = readdir(ports)) != NULL)
        active = entry->d_name[0] != '.' && probe_state_is_active(dirfd(ports), entry->d_name);
    closedir(ports);
    return active;
}

bool btl_port_active(const char *devices)
{
    DIR *directory = opendir(devices);
    struct dirent *entry;
    bool active = false;

    if (directory == NULL)
        return false;
    while (!active && (entry = readdir(directory)) != NULL)
        active = entry->d_name[0] != '.' &&
                 probe_device_has_active_port(dirfd(directory), entry->d_name);
    closedir(directory);
    return active;
}

bool btl_device_present(const char *devices)
{
    DIR *directory = opendir(devices);
    struct dirent *entry;
    bool present = false;

    if (directory == NULL)
        return false;
    while (!present && (entry = readdir(directory)) != NULL)
        present = entry->d_name[0] != '.';
    closedir(directory);
    return present;
}

/* Where neither holds, libfabric has providers over sockets alone, and tcp does the same. */
static bool probe_ofi_is_expected(void)
{
    return *setting_text(SET_OFI_PROVIDER) != '\0' || btl_device_present(RDMA_DEVICES) ||
           btl_device_present(CXI_DEVICES);
}

uint32_t btl_probe(void)
{
    uint32_t usable = 0;

    if (module_installed("btl_shm"))
        usable |= BTL_USABLE_SHM;
    if (module_installed("btl_verbs") && btl_port_active(RDMA_DEVICES))
        usable |= BTL_USABLE_VERBS;
    if (module_installed("btl_ofi") && probe_ofi_is_expected())
        usable |= BTL_USABLE_OFI;
    if (module_installed("btl_tcp"))
        usable |= BTL_USABLE_TCP;
    if (btl_will_join())
        usable |= BTL_USABLE_MPI;
    return usable;
}
