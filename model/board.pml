/*
 * board.pml: what boards rely on (doc/boards.md). Two models in one file.
 *
 * SLEEP: "Sleep and wake". Two members make N rounds: each stores the number of the round into its own word and waits for that of the
 * other; every wait may sleep, any number of times. A lost wake-up is an invalid end state. The machine is x86-TSO: a store enters the
 * store buffer of its processor and drains later, in order; loads overtake it. A fence drains one's own buffer, membarrier(2) both, and
 * so does a system call for its caller. The mapping of the other member arrives at any time: until then every wake calls the kernel.
 *
 *   MEMBARRIER  the waker does not fence, the sleeper issues membarrier
 *   FENCE       no membarrier: both fence
 *   DEATH       member 1 may be killed at any step: the service thread of member 0 stores the loss, changes `news`, and wakes
 *
 * FLOOR: "The floor". M members carry out N numbered operations, each of them synchronizing (every member sends to all others) or rooted
 * (one does), in any mixture, each member at its own pace, several in flight. The cell of operation k is k mod D. A cell that is used
 * again before it was read is an assertion that fails; an operation that waits for ever is an invalid end state. TEAM - 1 operations of a
 * member may be in flight; with D less than TEAM these are the cells of a slot of which a team has fewer (lib/coll/engine/cell.h).
 *
 *   M_...       one rule is taken away
 */
#if defined(SLEEP)

#define WORD     0              /* of members 0 and 1 */
#define SLEEPERS 2
byte mem[4];
byte news;                      /* of member 0; it is private memory, stored by its service thread, which fences */
bool lost, killed;
bool asleep[2];
bool mapped[2];                 /* `sleepers` of the other member can be loaded */
chan buffer[2] = [4] of { byte, byte };                 /* store buffers: word, value */

#define STORE(me, word, value)  buffer[me]!word, value
#define DRAIN(cpu)              do :: buffer[cpu]?at, value -> mem[at] = value :: empty(buffer[cpu]) -> break od; at = 0; value = 0

#if defined(MEMBARRIER) && !defined(M_NO_MEMBARRIER)
#define SLEEPER_FENCE           d_step { DRAIN(0); DRAIN(1) }
#elif defined(FENCE)
#define SLEEPER_FENCE           d_step { DRAIN(me) }
#else
#define SLEEPER_FENCE           skip
#endif
#if defined(FENCE) && !defined(M_NO_FENCE)
#define WAKER_FENCE             d_step { DRAIN(me) }
#else
#define WAKER_FENCE             skip
#endif

#if defined(M_UNMAPPED_SILENT)
#define SLEEPS(other)           (mapped[me] && mem[SLEEPERS + other] != 0)
#else
#define SLEEPS(other)           (!mapped[me] || mem[SLEEPERS + other] != 0)
#endif
/* futex_wake on the own word, on which only the other member sleeps */
#define WAKE(other)             WAKER_FENCE; \
                                if :: SLEEPS(other) -> d_step { DRAIN(me); asleep[other] = false } :: !SLEEPS(other) fi
#if defined(M_WAKE_BEFORE_STORE)
#define STORE_AND_WAKE(k)       WAKE(1 - me); STORE(me, WORD + me, k)
#else
#define STORE_AND_WAKE(k)       STORE(me, WORD + me, k); WAKE(1 - me)
#endif

/* futex_waitv(word of the other, seen; news, seen): compares and sleeps in one step */
#if defined(M_NO_COMPARE)       /* the kernel sleeps whatever the word is */
#define SAME                    true
#else
#define SAME                    (mem[WORD + 1 - me] == seen)
#endif
#if defined(M_NO_NEWS)
#define NO_NEWS                 true
#else
#define NO_NEWS                 (me == 1 || news == seen_news)
#endif
#define FUTEX_WAIT              d_step { DRAIN(me); if :: SAME && NO_NEWS -> asleep[me] = true :: else fi }

#if defined(M_SEEN_LATE)        /* the value is loaded again, and the condition is not */
#define RECHECK                 seen = mem[WORD + 1 - me]
#else
#define RECHECK                 skip
#endif

proctype Member(byte me)
{
    byte at, value, k, seen, seen_news;

    {
        for (k : 1 .. N) {
            STORE_AND_WAKE(k);
            do
            :: me == 0 && lost -> goto over
            :: else ->
                d_step { seen_news = news; seen = mem[WORD + 1 - me] }
                if
                :: me == 0 && lost -> goto over
                :: else ->
                    if
                    :: seen >= k -> break
                    :: seen < k ->                      /* sleeps: */
                        STORE(me, SLEEPERS + me, 1);
                        SLEEPER_FENCE;
                        RECHECK;
                        FUTEX_WAIT;
                        !asleep[me];
                        STORE(me, SLEEPERS + me, 0)
                    fi
                fi
            od
        }
over:   skip
    } unless { killed && me == 1 }
}

active proctype Cpus()          /* buffers drain, in order, at any time */
{
    byte at, value;
end: do
    :: d_step { buffer[0]?at, value -> mem[at] = value; at = 0; value = 0 }
    :: d_step { buffer[1]?at, value -> mem[at] = value; at = 0; value = 0 }
    od
}

active proctype Mapping()       /* the service threads: OPEN of the other member arrives */
{
end: do
    :: !mapped[0] -> mapped[0] = true
    :: !mapped[1] -> mapped[1] = true
    od
}

#if defined(DEATH)
active proctype Kernel()        /* may kill member 1; then the service thread of member 0 */
{
    byte at, value;
    if
    :: killed = true;
       d_step { DRAIN(1) }
       lost = true;
       news++;
#if !defined(M_NO_NEWS)
       asleep[0] = false
#endif
    :: skip
    fi
}
#endif

init { atomic { run Member(0); run Member(1) } }

#elif defined(FLOOR)

byte cell[M * D];               /* number of the operation + 1, of member * D + k % D */
byte done[M];                   /* the oldest operation that is not over */
bool sync[N];                   /* the kind of each operation; else rooted at k % M */

#if !defined(TEAM)
#define TEAM D
#endif
#if defined(M_D_IN_FLIGHT)
#define IN_FLIGHT TEAM
#else
#define IN_FLIGHT (TEAM - 1)
#endif

#define SENDS(i, k)     (sync[k] || (k) % M == (i))
#define HAS(mask, i)    ((mask & (1 << (i))) != 0)

/* of operation k at this member: what it has sent, and whose cells it has read */
#define SENT(k)         HAS(sent, k)
#define GOT(k, j)       HAS(got[k], j)

#if defined(M_NO_FLOOR)
#define FLOOR(k)        true
#else
/* done > k - D at every receiver; not loaded where k - 1 has synchronized all and is over here: then done > k - TEAM */
#if D == TEAM || defined(M_FLOOR_OF_TEAM)
#define AFTER_SYNC(k)   ((k) > 0 && sync[(k) - 1] && done[me] > (k) - 1)
#else
#define AFTER_SYNC(k)   false
#endif
#define FLOOR(k)        (AFTER_SYNC(k) || FLOOR_OF(k))
#define FLOOR_OF(k)     (FLOOR_AT(0, k) && FLOOR_AT(1, k) && FLOOR_AT(M - 1, k))
#define FLOOR_AT(j, k)  ((j) == me || done[j] + D > (k))
#endif

#define OVER(k)         ((!SENDS(me, k) || SENT(k)) && OVER_AT(0, k) && OVER_AT(1, k) && OVER_AT(M - 1, k))
#define OVER_AT(j, k)   ((j) == me || !SENDS(j, k) || GOT(k, j))

/* operation k, if it is in flight here: sends when it may, reads what has arrived */
#define FLIES(k)        (done[me] <= (k) && (k) < started)
#define READ(k, j) \
    :: FLIES(k) && (j) != me && SENDS(j, k) && !GOT(k, j) && cell[(j) * D + (k) % D] >= (k) + 1 -> \
        d_step { assert(cell[(j) * D + (k) % D] == (k) + 1); got[k] = got[k] | 1 << (j) }
#define STEPS(k) \
    :: FLIES(k) && SENDS(me, k) && !SENT(k) && FLOOR(k) -> \
        d_step { cell[me * D + (k) % D] = (k) + 1; sent = sent | 1 << (k) } \
    READ(k, 0) READ(k, 1) READ(k, M - 1)

proctype Member(byte me)
{
    byte started, sent, got[N];

    do
    :: d_step { done[me] < N && done[me] < started && OVER(done[me]) -> done[me]++ }
    :: d_step { started < N && started - done[me] < IN_FLIGHT -> started++ }
    STEPS(0)
    STEPS(1)
    STEPS(2)
    STEPS(3)
#if N > 4
    STEPS(4)
#endif
#if N > 5
    STEPS(5)
#endif
    :: done[me] == N -> break
    od
}

init
{
    byte k;

    atomic {
        for (k : 0 .. N - 1) {
            if :: sync[k] = true :: skip fi
        }
        for (k : 0 .. M - 1) {
            run Member(k)
        }
    }
}

#endif
