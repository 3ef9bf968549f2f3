/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * duplex.c: full duplex: two pipes with one peer, one each way, opened as one (thesis 3.4.2).
 *
 * Both sides open the same: what tells the two apart is who writes to whom. So they are plain pipes between the same two
 * ranks, with the same ctx. To oneself they are the two ends of one pipe: a loop.
 */
#include "group/compose.h"

#include <errno.h>

enum { OUT = 0, IN = 1 };

struct rpipe_duplex {
    struct group c;
};
static_assert(sizeof(struct rpipe_duplex) <= COMPOSE_BYTES, "objects are of one size");

static struct group *duplex_head(rduplex_t dx) { return dx != NULL ? &dx->c : NULL; }

int rpipe_duplex_open(rduplex_t *dx, const rpipe_config_t *cfg)
{
    struct group *c;
    int rc = job_refuses("rduplex");

    if (rc != 0)
        return rc;
    if (dx == NULL || cfg == NULL) {
        last_error_set("rduplex: needs a place for the object and a configuration (NULL)");
        return -EINVAL;
    }
    rc = group_make(&c, "rduplex", cfg, 2);
    if (rc != 0)
        return rc;
    rc = group_open_member(c, "rduplex", cfg, OUT, cfg->peer, cfg->context, SIDE_WRITER);
    if (rc == 0)
        rc = group_open_member(c, "rduplex", cfg, IN, cfg->peer, cfg->context, SIDE_READER);
    if (rc != 0) {
        group_abandon(c);
        return rc;
    }
    c->kind = GROUP_DUPLEX;
    *dx = (rduplex_t)c;
    return 0;
}

int rpipe_duplex_wait(rduplex_t dx)
{
    return group_wait(duplex_head(dx), GROUP_DUPLEX, "rduplex_wait");
}

static rch_t duplex_member(rduplex_t dx, const char *call, int place)
{
    rch_t ch;

    if (group_check(duplex_head(dx), GROUP_DUPLEX, call) != 0) {
        errno = dx == NULL ? EINVAL : ENOTCONN;
        return NULL;
    }
    ch = group_pipe(&dx->c, place);
    if (ch == NULL) {
        last_error_set("%s: this direction has been closed by itself", call);
        errno = ENOTCONN;
    }
    return ch;
}

rch_t rpipe_duplex_out(rduplex_t dx) { return duplex_member(dx, "rduplex_out", OUT); }

rch_t rpipe_duplex_in(rduplex_t dx) { return duplex_member(dx, "rduplex_in", IN); }

int rpipe_duplex_close(rduplex_t dx)
{
    return group_close(duplex_head(dx), GROUP_DUPLEX, "rduplex_close");
}
