/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off: as printed */
/* basic_cfg.h: what the listings of the thesis include: its interface, and the configuration `cfg` that they start from. */
#ifndef BASIC_CFG_H
#define BASIC_CFG_H

#include <rmalloc_thesis.h>

static rmalloc_config_t cfg = {
    .allocator = {.op = RDMA_PUT, .peer = -1, .algorithm = NEXT_FIT, .unit_size = 1}};

#endif
