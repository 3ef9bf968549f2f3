/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h: the RDMA device of this process.
 */
#ifndef BTL_VERBS_DEVICE_H
#define BTL_VERBS_DEVICE_H

#include "btl/verbs/verbs.h"

int verbs_device_query(struct error *err);
/*
 * Finds the device, binds `listener` to it; sets context, port and limits. 0, or -errno and an
 * error message.
 */
int verbs_device_open(struct btl *btl, struct error *err);

/* "10.0.0.1:4711"; returns text. */
const char *verbs_address_text(const union verbs_sockaddr *a, char *text, size_t bytes);
uint16_t verbs_address_port(const union verbs_sockaddr *a);

#endif
