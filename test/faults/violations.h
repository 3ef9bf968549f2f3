/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations.h: a peer that writes invalid data where it may write, and sends invalid messages on the control network; what its parts share.
 *
 *   violations_pair.c     the frame: pairs of ends, the bystander that must not notice anything
 *   violations.c          by the peer of a pipe:
 *   violations_memory.c   in shared memory: slots, flags, the control line, credits, tags, the reverse ring
 *   violations_growth.c   about heaps that grow: segments, questions, answers
 *   violations_control.c  in control messages: handshakes, reports, cells, shared memory that is passed
 *   violations_above.c    by the peer of what is made of pipes, and of regions:
 *   violations_region.c   messages from the program's own memory, and into it
 *   violations_group.c  one of the partners of a redux, of a scatter
 *   violations_am.c       active messages: requesters, targets
 *
 * A job of one holds both ends of every channel; the test plays the byzantine end with the library's own headers. What can be seen to be
 * wrong is -EPROTO on that channel, at both ends; everything else is "not yet"; nothing crashes, hangs or touches what violations
 * outside. Another channel of the same process goes on all the time.
 */
#ifndef TEST_FAULTS_VIOLATIONS_H
#define TEST_FAULTS_VIOLATIONS_H

#include "test/lib/job.h"

#include "control/control.h"
#include "rpipe/connect/handshake.h"
#include "rpipe/end/config.h"
#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"

#define SLOTS 8
#define HEAP 4096
#define SHORT_MS 30

struct pair {
    rch_t w, r;
};

/* What a channel is opened as, beyond PUT and GET. */
struct kind {
    rpipe_sync_t sync;
    rmalloc_fit_t algorithm;
    uint32_t queue;
    uint64_t most; /* max_alloc_size */
};
#define QUEUE 4
#define MOST (16 * HEAP)

extern const struct kind plain, tags, channel, growing, growing_tags;

rpipe_config_t violations_config(bool writer, rpipe_op_t op, uint32_t ctx);
void violations_begin(uint64_t *random); /* rinit; with PAIR_NET over the simulated network */
int violations_end(const char *program); /* rexit: the exit status */
uint32_t violations_ctx(void);           /* one that has not been used */
struct pair pair_open_as(rpipe_op_t op, const struct kind *k);
struct pair pair_open(rpipe_op_t op); /* plain */
void pair_close(struct pair p);       /* and the bystander carries something */
void send_one(rch_t w, size_t bytes, uint64_t key);
void receive_one(rch_t r, size_t bytes, uint64_t key);
bool allowed(int rc); /* what a call may give at an end that is lied to all the time */

static inline void put64(unsigned char *blob, int at, uint64_t value)
{
    memcpy(blob + at, &value, sizeof(value));
}
static inline void put32(unsigned char *blob, int at, uint32_t value)
{
    memcpy(blob + at, &value, sizeof(value));
}

/* ---- invalid stores while the ends are in use (violations_memory.c) ---- */
struct scribble {
    struct pair p; /* .r is lied about by its writer, .w by its reader */
    uint32_t queue;
    uint64_t random;
    _Atomic bool stop;
};
void *scribbles(void *argument); /* a thread; a struct scribble */

/* ---- the parts ---- */
void violate_memory(void);
void violate_memory_in_use(uint64_t *random, int rounds);
void violate_growth(void);
void violate_growth_in_use(uint64_t *random, int rounds);
void violate_messages(uint64_t *random, int rounds);
void violate_regions(void);
void violate_groups(uint64_t *random, int rounds);
void violate_active_messages(uint64_t *random, int rounds);

#endif
