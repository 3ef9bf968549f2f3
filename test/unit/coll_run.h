/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_run.h: an interpreter of the graphs of all members of a team, in one process. Of all operations that
 * can be executed it chooses one at random, again and again, so members are ahead of each other by
 * any distance. It finds: a deadlock, a message that no member receives, one that was not sent to
 * the receiver, a wrong length, a read of bytes that were never written, operations of one member
 * that race, a cell that is overwritten while a receiver may still read it, and a wrong result.
 */
#ifndef TEST_UNIT_COLL_RUN_H
#define TEST_UNIT_COLL_RUN_H

#include "test/unit/coll_case.h"

struct coll_run {
    uint64_t seed; /* of the order of execution */
    uint64_t ops;  /* how often the collective is executed */
    uint64_t
        depth;  /* operation k uses cell k % depth of each slot; each member is in one operation */
    bool floor; /* a SEND waits until its receivers are done with what is in the cell */
    bool races; /* graph_find_race() for every graph */

    void *result; /* gets INTO of member 0 after the last one; NULL: it is not needed */

    /* results: of all operations together */
    uint64_t messages, bytes; /* received */
    char error[600];
};

/* 0; -ENOTSUP: the builder refuses the case, at all members; -1 and an error. */
int coll_run(struct coll_run *run, const struct coll_case *c);
/* The same with graphs that are there: size of them, which are not released. */
int coll_run_graphs(struct coll_run *run, const struct coll_case *c, const struct graph *graph);

#endif
