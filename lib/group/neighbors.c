/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * neighbors.c: rneighbors: the pipes of a halo exchange, opened by one call.
 *
 * A pipe is named by the side of its writer and the side of its reader, so that what leaves to the east of one process arrives in
 * the west of the other, also where a neighbor is this process itself, or is the same rank on two sides.
 */
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/job_state.h"
#include "util/sized.h"

#include <errno.h>
#include <rpipe.h>
#include <stdlib.h>

#define CONTEXT_LOW ((UINT64_C(1) << 20) - 1) /* bits of a context that belong to the program */

static uint64_t neighbors_context(uint64_t base, uint32_t writer_side, uint32_t reader_side)
{
    return base + (uint64_t)R_SIDES * writer_side + reader_side;
}

static int neighbors_check_entry(const rneighbor_t *list, int i, const rpipe_config_t *cfg)
{
    const rneighbor_t *e = &list[i];
    uint64_t low = cfg->context & CONTEXT_LOW;

    if (e->peer < R_NO_PEER)
        return call_error(NULL, -EINVAL,
                          "list[%d].peer is %d; it must be a rank, from 0, or R_NO_PEER", i,
                          e->peer);
    if (e->side >= R_SIDES || e->opposite >= R_SIDES)
        return call_error(NULL, -EINVAL,
                          "list[%d].side is %u, .opposite is %u; they must be below %d", i, e->side,
                          e->opposite, R_SIDES);
    if (e->zero != 0)
        return call_error(NULL, -EINVAL, "list[%d].zero is %u; it must be 0", i, e->zero);
    if (neighbors_context(low, e->side, e->opposite) > CONTEXT_LOW ||
        neighbors_context(low, e->opposite, e->side) > CONTEXT_LOW)
        return call_error(NULL, -EINVAL,
                          "the low 20 bits of context are 0x%llx; with side %u and opposite %u "
                          "they exceed 0x%llx",
                          (unsigned long long)low, e->side, e->opposite,
                          (unsigned long long)CONTEXT_LOW);
    for (int k = 0; k < i && e->peer != R_NO_PEER; k++)
        if (list[k].peer == e->peer && list[k].side == e->side && list[k].opposite == e->opposite)
            return call_error(
                NULL, -EINVAL,
                "list[%d] and list[%d] have the same peer, %d, side, %u, and opposite, %u; set "
                "another side in one of them",
                k, i, e->peer, e->side, e->opposite);
    return 0;
}

static int neighbors_check(const rneighbor_t *list, int n, const rpipe_config_t *cfg)
{
    int rc = 0;

    if (n < 1)
        return call_error(NULL, -EINVAL, "n is %d; it must be 1 or more", n);
    if (cfg->role != 0 || cfg->peer != 0)
        return call_error(NULL, -EINVAL,
                          "cfg has role %d and peer %d; both must be 0: the list has them",
                          (int)cfg->role, cfg->peer);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = neighbors_check_entry(list, i, cfg);
    return rc;
}

static int neighbors_open_entry(rneighbor_t *e, const rpipe_config_t *cfg, rch_t pipe[2])
{
    rpipe_config_t own = *cfg;
    int rc;

    own.peer = e->peer;
    own.role = RPIPE_WRITER;
    own.context = neighbors_context(cfg->context, e->side, e->opposite);
    rc = rpipe_open(&pipe[0], &own);
    if (rc != 0)
        return rc;
    own.role = RPIPE_READER;
    own.context = neighbors_context(cfg->context, e->opposite, e->side);
    rc = rpipe_open(&pipe[1], &own);
    if (rc != 0)
        (void)rpipe_close(pipe[0]);
    return rc;
}

/* All or none; list is changed on success only. */
static int neighbors_open(rneighbor_t *list, int n, const rpipe_config_t *cfg)
{
    rch_t(*pipe)[2] = calloc((size_t)n, sizeof(*pipe));
    int rc = pipe == NULL ? call_error(NULL, -ENOMEM, "no memory for %d neighbors", n) : 0, i;

    for (i = 0; rc == 0 && i < n; i++)
        if (list[i].peer != R_NO_PEER)
            rc = neighbors_open_entry(&list[i], cfg, pipe[i]);
    if (rc == 0) {
        for (i = 0; i < n; i++) {
            list[i].out = pipe[i][0];
            list[i].in = pipe[i][1];
        }
    } else {
        for (i -= 2; i >= 0; i--) { /* the last one that was tried has opened nothing */
            if (pipe[i][0] == NULL)
                continue;
            (void)rpipe_close(pipe[i][0]);
            (void)rpipe_close(pipe[i][1]);
        }
    }
    free(pipe);
    return rc;
}

int(rpipe_neighbors)(rneighbor_t *list, int n, const rpipe_config_t *cfg, size_t size)
{
    struct error err = {""};
    rpipe_config_t known;
    struct call call;
    int rc;

    call_enter(&call, "rneighbors");
    rc = job_check();
    if (rc == 0 && (list == NULL || cfg == NULL))
        rc = call_error(NULL, -EINVAL, "%s is NULL", list == NULL ? "list" : "cfg");
    if (rc == 0 && (rc = sized_copy(&known, sizeof(known), cfg, size, &err)) != 0)
        (void)call_error(NULL, rc, "%s", err.text);
    if (rc == 0)
        rc = neighbors_check(list, n, &known);
    if (rc == 0)
        rc = neighbors_open(list, n, &known);
    return call_end(&call, rc);
}

/* An end whose transfers from regions are in flight stays open, and in the list. */
static void neighbors_close_end(rch_t *ch, int *first)
{
    int rc = *ch != NULL ? rpipe_close(*ch) : 0;

    if (rc != -ETIMEDOUT)
        *ch = NULL;
    if (rc != 0 && *first == 0)
        *first = rc;
}

int rpipe_neighbors_close(rneighbor_t *list, int n)
{
    struct call call;
    int rc = 0;

    call_enter(&call, "rneighbors_close");
    if (list == NULL || n < 1)
        return call_end(&call, call_error(NULL, -EINVAL, "list is %s, n is %d",
                                          list == NULL ? "NULL" : "given", n));
    for (int i = 0; i < n; i++)
        neighbors_close_end(&list[i].out, &rc);
    for (int i = 0; i < n; i++)
        neighbors_close_end(&list[i].in, &rc);
    return call_end(&call, rc);
}
