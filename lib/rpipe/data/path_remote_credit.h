/* SPDX-License-Identifier: BSD-3-Clause */
/* path_remote_credit.h: the writer of a pipe over a network: credits (path_remote_credit.c). */
#ifndef RPIPE_DATA_PATH_REMOTE_CREDIT_H
#define RPIPE_DATA_PATH_REMOTE_CREDIT_H

#include "rpipe/data/path_remote.h"

int remote_fetch_credits(struct rch *ch, enum credit_need need);
void remote_credits_arrived(
    struct rch *ch); /* applies a refresh that has completed, if there is one */

#endif
