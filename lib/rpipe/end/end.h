/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end.h: all headers of rpipe/end at once, for sources that do not name yet what they need.
 */
#ifndef RPIPE_END_END_H
#define RPIPE_END_END_H

#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/connector.h"
#include "rpipe/end/debug_check.h"
#include "rpipe/end/end_pool.h"
#include "rpipe/end/error.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"
#include "rpipe/end/state.h"

#include "alloc/heap.h"
#include "rpipe/end/counters.h"
#include "util/error.h"

#endif
