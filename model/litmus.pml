/*
 * litmus.pml: rules 1 and 3 to 6 of execution (doc/thesis.md, "The contract") as programs of a few steps over ring, heap and network of
 * pipe.pml, which executes them in every order.
 *
 * RULE=n   what the rule promises, as an assertion, or by the absence of an invalid end state
 * CLAIM    the stronger rule that is not promised: `check` expects an execution in which it fails, which is the witness. Some
 *          hold within a host (SHM) and fail over a network (RDMA).
 *
 * Rule 2, of rpipe, is in join.pml. The same programs against the library are in test/litmus. Given by -D: mode and network, as
 * in pipe.pml.
 */
#define PROGRAM                         /* the processes of pipe.pml are those below */
#define N 3
#define S 2
#define B 2
#define Q 2
#include "pipe.pml"

/* rmalloc, rwrite: wait as the calls do; whatever arrives meanwhile is applied */
#define ALLOC(b)     do LEARN :: shadow[b] == FREE -> \
                         d_step { assert(!inuse[b]); shadow[b] = HELD; head = ((b) + 1) % B; AT_ALLOC(b) } break od
#define SEND(b)      do LEARN :: SLOT_FREE && INDEX_FREE -> rwrite(b); break od
/* rread: waits for the slot */
#define READ         do :: NEXT_FULL -> rread(); break od
#if defined(SHM) || defined(GET)
#define FIRST_WORD(b) heap[b].half[0]
#else
#define FIRST_WORD(b) mirror[b].half[0]
#endif

active proctype Writer()
{
    byte shadow[B], order[B], sent, hsent, applied, known, head, allocs, p, i, early = EARLY;
#if !defined(BLOCK)
    byte out[INDICES];
#endif

#if RULE == 1 && defined(CLAIM)         /* the reverse ring is the ring of a second pipe, with a connection of its own */
    PUT_SLOT(1, 0);
    PUT_REVERSE(1, 0);
#elif RULE == 1                         /* allocated in one order, sent in the other: the reader asserts that of sending */
    ALLOC(0); ALLOC(1);
    SEND(1); SEND(0);
#elif RULE == 3                         /* memory that no other message has; its contents are as that left them */
    ALLOC(0); SEND(0);
    ALLOC(0);
#if defined(CLAIM)
    assert(FIRST_WORD(0) == 0);
#endif
    SEND(0);
#elif RULE == 4                         /* payload before notification; neither has to be there when rwrite returns */
    ALLOC(0); SEND(0);
#if defined(CLAIM)
    assert(FULL(ring, 0, 1));
#endif
#elif RULE == 5                         /* no step of the writer's is needed after rwrite */
    ALLOC(0); SEND(0);
    goto end;
#elif RULE == 6                         /* the reader holds block 0, or has freed it */
    ALLOC(0); SEND(0);
    ALLOC(1); SEND(1);
    do LEARN :: shadow[0] == FREE || shadow[1] == FREE -> break od;
    if
    :: shadow[0] == FREE -> ALLOC(0); SEND(0)
    :: shadow[1] == FREE -> ALLOC(1); SEND(1)
    fi;
#endif
    do LEARN :: AT_REST -> break od;
end: skip
}

active proctype Reader()
{
    byte nread, hread, nfreed, prefix, m, b, i;
    byte hold[B], label[B];
    bool gone[B];

#if RULE == 1 && defined(CLAIM)
    FULL(rev, 0, 1);
    assert(NEXT_FULL)                   /* what was sent before, in the other pipe */
#elif RULE == 1
    READ; READ;
    rfree(0); rfree(1)
#elif RULE == 3
    READ; rfree(0);
    READ; rfree(0)
#elif RULE == 4
    READ; rfree(0)                      /* both parts are there, asserted in rread */
#elif RULE == 5
#if defined(CLAIM)
    assert(NEXT_FULL);                  /* at the first poll */
#endif
    READ; rfree(0)
#elif RULE == 6 && defined(CLAIM)
    READ; rfree(0);
    READ; rfree(1);
    READ;
    assert(TOLD(0, 1));                 /* of message 1, which was freed */
    do EACH(FREE_ONE) :: !HOLDING -> break od
#elif RULE == 6
    READ;                               /* holds block 0 */
    READ; rfree(1);
    READ;                               /* the writer has found block 1 again */
    assert(TOLD(0, 1));
    do EACH(FREE_ONE) :: !HOLDING -> break od
#endif
}
