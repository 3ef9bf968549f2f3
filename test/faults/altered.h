/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * altered.h: the tests of a byzantine peer by structure: each word of each shared layout, each field of each message, each place of a
 * descriptor, one at a time.
 *
 *   altered_layouts.h      the fields of all structures
 *   altered_cases.c        the cases, made from them, and their names
 *   altered.c              the frame: plays cases in jobs of a victim, an honest pair, and byzantine ranks
 *   altered_peer.c         the byzantine rank: what both sides do before, and the attack
 *   altered_memory.c       what it stores into shared memory
 *   altered_message.c      what it sends
 *   altered_descriptor.c   what it passes
 *   altered_victim.c       the victim: calls with deadlines, each of which may give what the manual specifies, in time
 *   altered_honest.c       pipes among victim and honest ranks, checked byte by byte, all the time
 *   altered_time.c         how late a call may be
 *
 * A case: victim and byzantine rank open a pipe of their own and use it as they should; the byzantine rank alters one field, and goes
 * on to store it until the victim is through with its calls; both close. After a case that ends a byzantine rank (it is cut off, or dies of
 * its own stores) another one takes its place.
 */
#ifndef TEST_FAULTS_ALTERED_H
#define TEST_FAULTS_ALTERED_H

#include "test/lib/job.h"

enum { VICTIM, HONEST_A, HONEST_B, BYZANTINE_FIRST, BYZANTINE_LAST = RANKS_MOST - 1 };

#define SLOTS_OF_PIPE 8
#define HEAP_OF_PIPE 4096
#define QUEUE_OF_PIPE 4
#define SETUP_MS                                                                                   \
    4000 /* of calls before the attack: they succeed unless the byzantine rank is cut off */

/* ---- cases ---- */

struct way {
    rpipe_op_t op;
    rpipe_sync_t mode;
    bool byzantine_writes;
};

/* Where the altered word is. */
enum place {
    AT_SLOT,    /* of the last message, of the heap */
    AT_INLINE,  /* the same, within its slot */
    AT_CONTROL, /* the control line */
    AT_CREDIT,
    AT_TAG,     /* the last one that was stored */
    AT_REVERSE, /* the last slot of the reverse ring */
    AT_PAYLOAD, /* of the last message */
    AT_CELL,
    AT_LIVENESS,
    IN_MESSAGE,   /* of the control network */
    IN_HANDSHAKE, /* the same, of an end that the byzantine rank does not have otherwise */
    IN_FRAME,     /* the bytes of a connection */
    IN_GREETING,  /* the bytes of another connection */
};

struct target {
    const char *name;
    enum place place;
    const struct layout *layout;
    const char *ways; /* which of them: see altered_cases.c */
    uint32_t type;    /* of a message */
    bool grows, cells;
};

enum alteration { ALTER_TO, ALTER_BY, ALTER_LENGTH, ALTER_BOTH_LENGTHS, ALTER_DESCRIPTOR };

struct altered_case {
    const struct target *target;
    const struct field *field; /* ALTER_TO, ALTER_BY */
    uint32_t element;
    enum alteration how;
    uint64_t value; /* or the kind of descriptor */
    struct way way;
};

#define NAME_BYTES 120
size_t cases_make(const struct altered_case **all); /* how many */
const char *case_name(const struct altered_case *c, char name[NAME_BYTES]);
/* Alters `field` of a structure; `own` is its value before, of which ALTER_BY is relative. */
uint64_t case_word(const struct altered_case *c, const void *structure);
void case_store(const struct altered_case *c, void *structure, uint64_t own);

/* ---- the stage: what the ranks of a job share, besides the board ---- */

enum step { STEP_SET_UP = 1, STEP_READY, STEP_DONE };
enum outcome { PLAYED, NOT_SET_UP };

struct stage {
    struct board *board;
    int log; /* where the standard error of the victim goes: shown if something is wrong */
    _Atomic uint64_t serial; /* of the case that is played; the last: UINT32_MAX */
    _Atomic uint32_t at;     /* its number */
    _Atomic int byzantine;   /* the rank that plays it */
    _Atomic int outcome;
    _Atomic int64_t slowest_us; /* that a call came after its deadline */
    _Atomic uint64_t calls, honest, refused;
};
#define SERIAL_LAST UINT32_MAX

extern struct stage *stage;
extern const struct altered_case *all_cases;

void stage_reached(int rank, uint64_t serial, enum step step);
/* False: it is not there within so many ms. */
bool stage_wait(int rank, uint64_t serial, enum step step, int ms);

/* ---- ends ---- */

rpipe_config_t case_config(const struct altered_case *c, bool byzantine, uint64_t context);
int case_open(const struct altered_case *c, bool byzantine, rch_t *ch);
int case_close(const struct altered_case *c, rch_t ch);
#define CASE_CONTEXT(serial) ((uint64_t)(serial)*2 + 1000)
#define FORGED_CONTEXT(serial) (CASE_CONTEXT(serial) + 1) /* IN_HANDSHAKE */

/* ---- time ---- */

void time_start(void); /* in each rank */
void time_stop(void);
int deadline_of_calls(void); /* ms: ALTERED_DEADLINE_MS */
struct begun {
    double at;
    /* of this thread, up to then: ready to run without a processor, processor time, how often it has slept, and waited for a disk */
    int64_t unscheduled_us, processor_us, slept, read;
};
struct begun time_begin(void);
/* A call that began then is through. */
void time_check(const char *call, struct begun begun, int deadline_ms);
/* rc = CALL, which has a deadline of so many ms. */
#define TIMED(rc, deadline_ms, call)                                                               \
    do {                                                                                           \
        struct begun begun_ = time_begin();                                                        \
        (rc) = (call);                                                                             \
        time_check(#call, begun_, (deadline_ms));                                                  \
    } while (0)

/* ---- the ranks ---- */

int victim_main(void);
int honest_main(int rank);
int byzantine_main(int rank);

void honest_start(int rank); /* the pipes with honest ranks, in threads of their own */
void honest_end(void);       /* after SERIAL_LAST */

/* ---- the attack ---- */

/* The structure that is altered in memory; NULL: there is none. */
void *memory_target(const struct altered_case *c, rch_t ch);
void message_attack(const struct altered_case *c, rch_t ch, uint64_t serial);
/* What the byzantine rank owes after a case. */
void message_after(const struct altered_case *c, rch_t ch, uint64_t serial);

#define DESCRIPTOR_KINDS 12
const char *descriptor_name(uint64_t kind);
/* Descriptors of a kind, at most 8; how many. `ch`: whose own descriptors are passed back. */
int descriptors_make(uint64_t kind, rch_t ch, int fds[8]);
void descriptors_drop(const int *fds, int n);

#endif
