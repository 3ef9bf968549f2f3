/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_hmem.h: libfabric with memory of devices (FI_HMEM) in a program that is linked with fake_hmem.c and -export-dynamic: the calls of
 * the ofi backend go through it, to a provider over sockets, which has no FI_HMEM of its own.
 *
 * The device is that of fake_device.h, as number FAKE_HMEM_NUMBER of CUDA. A registration by kind registers with the provider what lies
 * outside of the device, and a transfer of such memory is one of that. The program ends with a message on
 *   1. memory of the device that is registered as memory of the host, as that of another device, or by a range that is not all of it,
 *   2. an access of it without the descriptor of a registration that is there, or of memory of the host with such a one,
 *   3. an operation with memory of both kinds, or injected from the device, which a processor would have to read,
 *   4. memory that ends before its registration, an endpoint without FI_HMEM that registers, registrations that are left at the end,
 *   5. FI_MR_LOCAL: memory of the host without a descriptor.
 */
#ifndef TEST_BTL_FAKE_HMEM_H
#define TEST_BTL_FAKE_HMEM_H

#include <stdatomic.h>
#include <stdbool.h>

#define FAKE_HMEM_NUMBER 3

/* What the provider lacks; changed before a pipe opens it. */
struct fake_hmem_limits {
    bool none;      /* FI_HMEM at all */
    bool unordered; /* with FI_HMEM: the order of writes */
    bool opens_not; /* with FI_HMEM: a domain */
    bool local;     /* FI_MR_LOCAL: memory of the host needs descriptors, too */
    int registers;  /* so many registrations of memory of devices at a time; more are refused */
};
extern struct fake_hmem_limits fake_hmem_limits;

struct fake_hmem_counts {
    _Atomic int requests; /* for FI_HMEM, of fi_getinfo */
    _Atomic int live;     /* registrations of memory of the device */
    _Atomic int moved;    /* operations that read or write it here */
};
extern struct fake_hmem_counts fake_hmem_counts;

#endif
