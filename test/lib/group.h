/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h: groups and neighbors in tests that share one configuration between both ends of their pipes.
 */
#ifndef TEST_LIB_GROUP_H
#define TEST_LIB_GROUP_H

#include <rpipe.h>

static inline int group_open_as(rpipe_role_t role, rgroup_t *group, const rpipe_config_t *cfg,
                                const int *peers, int n)
{
    rpipe_config_t own;

    if (cfg == NULL)
        return rgroup_open(group, NULL, peers, n);
    own = *cfg;
    own.role = role;
    return rgroup_open(group, &own, peers, n);
}

static inline int scatter_open(rgroup_t *group, const rpipe_config_t *cfg, const int *peers, int n)
{
    return group_open_as(RPIPE_WRITER, group, cfg, peers, n);
}

static inline int redux_open(rgroup_t *group, const rpipe_config_t *cfg, const int *peers, int n)
{
    return group_open_as(RPIPE_READER, group, cfg, peers, n);
}

/* One bidirectional connection to cfg->peer. */
static inline int duplex_open(rneighbor_t *duplex, const rpipe_config_t *cfg)
{
    rpipe_config_t own = *cfg;

    own.role = (rpipe_role_t)0;
    own.peer = 0;
    *duplex = (rneighbor_t){.peer = cfg->peer};
    return rneighbors(duplex, 1, &own);
}

static inline int duplex_wait(const rneighbor_t *duplex)
{
    int rc = rwait(duplex->out);

    return rc == R_SUCCESS ? rwait(duplex->in) : rc;
}

#endif
