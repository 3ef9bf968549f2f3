/* SPDX-License-Identifier: BSD-3-Clause */
/* team_call.c: see team_call.h. */
#include "coll/engine/team_call.h"

void team_count(struct team_call *call)
{
    if (call->counted)
        return;
    call_enter(&call->call, call->name);
    call->counted = true;
}
