/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.h: checks a configuration and resolves its defaults (config.c).
 */
#ifndef RPIPE_END_CONFIG_H
#define RPIPE_END_CONFIG_H

#include "rpipe/end/rch.h"
#include "util/error.h"

/* 0, or the code and the message; `ranks`: of the job. */
int config_resolve(const rmalloc_config_t *cfg, rmalloc_config_t *resolved, int ranks,
                   struct error *err);
enum side config_side(const rmalloc_config_t *cfg);
const char *config_op_name(int op);
const char *config_sync_name(int sync);
const char *config_algorithm_name(int algorithm);

#endif
