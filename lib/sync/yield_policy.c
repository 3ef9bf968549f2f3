/* SPDX-License-Identifier: BSD-3-Clause */
/* yield_policy.c: see yield_policy.h. */
#include "sync/yield_policy.h"

bool yield_policy_permits(struct yield_policy *policy)
{
    if (policy->left == 0)
        return true;
    policy->left--;
    return false;
}

void yield_policy_wait_ended(struct yield_policy *policy, const struct yield_count *count)
{
    if (count->all == 0)
        return;
    if (count->expensive == 0) {
        *policy = (struct yield_policy){0};
        return;
    }
    policy->row =
        count->expensive > YIELD_ROW - policy->row ? YIELD_ROW : policy->row + count->expensive;
    if (policy->row < YIELD_ROW)
        return;
    policy->pause = policy->pause == 0 ? 1 : policy->pause * 2;
    if (policy->pause > YIELD_PAUSE_MOST)
        policy->pause = YIELD_PAUSE_MOST;
    policy->left = policy->pause;
}
