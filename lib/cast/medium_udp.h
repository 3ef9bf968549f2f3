/* SPDX-License-Identifier: BSD-3-Clause */
/* medium_udp.h: the medium over UDP, see btl/medium.h. */
#ifndef CAST_MEDIUM_UDP_H
#define CAST_MEDIUM_UDP_H

#include "btl/medium.h"

extern const struct medium_ops medium_udp_ops;

#endif
