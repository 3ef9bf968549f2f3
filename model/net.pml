/*
 * net.pml: a pipe over a network (doc/protocol.md): mirrors, sealed slots, credits by READ, payloads fetched ahead, the end with
 * proof, the death of either end, and a line that fails. What networks have in common with shared memory is in pipe.pml.
 *
 * Payload    PUT (default)  the writer's mirror is written into the reader's heap
 *            GET            the writer's heap is fetched into the reader's mirror, up to F messages ahead of rread
 *            GET, EAGER     of every other message; the rest is written into the mirror with its slot
 * Network    STREAM (default)  writes arrive in the order in which they are posted: payload and slot without completions
 *            STEP           in any order: the slot is posted when the payload's completion has come, by the caller that progresses the connection
 * Variants   BREAK          the connection may fail at any moment while both live: what is in flight is lost, and an end that had
 *                           an operation in flight, or posts one, detects it; the other end need not see anything
 *            DEATH=W, R     that end may be killed at any step; what it has posted may arrive later, or never
 *            DEFER         the deadline of the writer's rclose may be shorter than the proof takes
 *            LEAVE          the reader may close between any two calls
 *            GIVE_UP        the reader may take what it has read for a violation: the channel fails, and the connection does not
 *            STAY           the writer may stop calling, and never close
 *            THREADS=W, R   that end is closed by another thread than the one that writes, or reads: at any moment
 *            LENT           THREADS=W, GET: payloads are memory of the program, which changes it when rclose gives their words back
 * M_...      one rule is taken away; `check` expects the violation.
 *
 * Messages are numbers, and ride in the heap: message m in slot (m-1) mod S and in block (m-1) mod B, since next-fit and a prefix count
 * make it so. A slot is two words, body and flag, which arrive in any order; flag is number and CRC at once. Memory is
 * `freed` when it may be used for something else; a write into it or a read of it after that is caught.
 */
/* given by -D: N messages at most (3); S slots, B blocks (1, 2); F (GET) */
#define W 0
#define R 1
#if !defined(F)
#define F 1
#endif
#define SLOT(m) (((m) - 1) % S)
#define BLK(m)  (((m) - 1) % B)
#if !defined(GET)
#define WRITTEN(m) true             /* the payload is written, not fetched */
#elif defined(EAGER)
#define WRITTEN(m) ((m) % 2 == 1)
#else
#define WRITTEN(m) false
#endif

typedef slot_t { byte body, number, crc };
mtype = { BYE, FAIL, DEAD };

/* the reader's memory */
slot_t ring[S];
byte   heap0[B], heap1[B];          /* two parts of a block: the heap (PUT), its mirror (GET) */
byte   slots, frees;                /* credit line */
/* the writer's */
byte   mring[S];                    /* mirror of the ring */
byte   block[B];                    /* mirror of the heap (PUT), the heap (GET) */
byte   mslots, mfrees;              /* mirror of the credit line */

/* what is in flight: the number of the message, or 0; a READ, a fetch: 1; when it is complete 2 */
byte   pay[B], step[B], slt[S], fetch[B], read[2];
bool   broken, lost[2];             /* the line; which end has seen it */
byte   killed = 2;                  /* W, R, or none */
chan   ctl[2] = [5] of { mtype, byte };     /* control network, to each end */
/* what the service threads have seen */
bool   bye[2], failed[2], gone[2], closed[2], freed[2], lingers;
byte   final;
byte   kslots, kfrees;              /* credits that the writer has taken up */
#if defined(THREADS)
bool   alone;                       /* from here on only rclose makes attempts */
byte   users;                       /* threads in a call on that end */
#endif
/* of the two users; `arrived`: slots that are whole */
byte   sent, last, arrived, delivered, taken;
byte   state[2];                    /* 0: in a call; 1: has stopped calling; 2: rclose has returned */

#if B > 1
#define EACH_BLOCK(op) op(0) op(1)
#define NO(a)          (a[0] == 0 && a[B - 1] == 0)
#else
#define EACH_BLOCK(op) op(0)
#define NO(a)          (a[0] == 0)
#endif
#if S > 1
#define EACH_SLOT(op)  op(0) op(1)
#else
#define EACH_SLOT(op)  op(0)
#endif
#define NOTHING_FLIES  (NO(pay) && NO(step) && slt[0] == 0 && slt[S - 1] == 0)
#define FETCHES        (fetch[0] == 1 || fetch[B - 1] == 1)
#define READING        (read[0] == 1 || read[1] == 1)
#define DROP_WRITES    pay[0] = 0; pay[B - 1] = 0; step[0] = 0; step[B - 1] = 0; slt[0] = 0; slt[S - 1] = 0; read[0] = 0; read[1] = 0
#define DROP_FETCHES   if :: fetch[0] == 1 -> fetch[0] = 0 :: else fi; if :: fetch[B - 1] == 1 -> fetch[B - 1] = 0 :: else fi

/* ---- the network ---- */
#if defined(STEP)
#define PAY_TURN(b)    (pay[b] != 0)
#define SLOT_TURN(s)   (slt[s] != 0)
#else                               /* in order */
#define PAY_TURN(b)    (pay[b] == arrived + 1)
#define SLOT_TURN(s)   (slt[s] == arrived + 1 && pay[BLK(arrived + 1)] != arrived + 1)
#endif
/* a word arrives, if the connection has not failed, or been closed, since the one before it */
#define THERE(f, what) if :: d_step { f -> what } :: !(f) fi
#define LAND_PAY(b) \
    :: d_step { PAY_TURN(b) -> assert(!freed[R]); heap0[b] = block[b] }; \
       THERE(pay[b] != 0, assert(!freed[R] && fetch[b] == 0); heap1[b] = block[b]; COMPLETE(b); pay[b] = 0)
#define BODY(s)        assert(!freed[R]); ring[s].body = mring[s]
#define FLAG(s)        assert(!freed[R]); ring[s].number = mring[s]; ring[s].crc = mring[s]
#define LAND_SLOT(s) \
    :: d_step { SLOT_TURN(s) -> BODY(s) }; THERE(slt[s] != 0, FLAG(s); arrived++; slt[s] = 0) \
    :: d_step { SLOT_TURN(s) -> FLAG(s) }; THERE(slt[s] != 0, BODY(s); arrived++; slt[s] = 0)
#if defined(STEP) && !defined(M_NO_COMPLETION)
#define COMPLETE(b)    step[b] = pay[b]
#else
#define COMPLETE(b)    skip
#endif
proctype Writes()
{
end: do
    EACH_BLOCK(LAND_PAY)
    EACH_SLOT(LAND_SLOT)
    :: killed == W && !NOTHING_FLIES -> d_step { DROP_WRITES }
    od
}

/* a word is fetched there, and arrives here a moment later */
#define WORD(there, here)  v = there; THERE(read[k] == 1, assert(!freed[W] && !freed[R]); here = v); v = 0
proctype Reads(byte k)
{
    byte v;
end: do
    :: read[k] == 1 ->
#if defined(M_READ_TORN)
        v = slots % 2; v = v + slots / 2 * 2; THERE(read[k] == 1, mslots = v); v = 0;
        WORD(frees, mfrees);
#else
        if :: WORD(slots, mslots); WORD(frees, mfrees) :: WORD(frees, mfrees); WORD(slots, mslots) fi;
#endif
        THERE(read[k] == 1, read[k] = 2)
    :: killed == W && read[k] == 1 -> read[k] = 0
    od
}

#define FETCH(b) \
    :: d_step { fetch[b] == 1 -> assert(!freed[W] && !freed[R]); heap0[b] = block[b] }; \
       THERE(fetch[b] == 1, assert(!freed[W] && !freed[R]); heap1[b] = block[b]; fetch[b] = 2)
proctype Fetches()
{
end: do
    EACH_BLOCK(FETCH)
    :: killed == R && FETCHES -> d_step { DROP_FETCHES }
    od
}

#if defined(BREAK)
proctype Breaks()
{
    if
    :: d_step { broken = true; lost[W] = !NOTHING_FLIES || READING; lost[R] = FETCHES; DROP_WRITES; DROP_FETCHES }
    :: true
    fi
}
#endif

/* ---- both ends ---- */
/* both close messages, or the peer is gone: the connection is closed, then the memory is given back. What comes from the dead is not known. */
#if defined(M_DEAD_FREED)
#define SAFE(i)        true
#else
#define SAFE(i)        (!gone[i])
#endif
#if defined(M_CLOSE_FREES)
#define PARTED(i)      closed[i]
#else
#define PARTED(i)      (closed[i] && (bye[i] || gone[i]))
#endif
#if defined(THREADS) && !defined(M_NO_USERS)
#define LEFT(i)        (i != THREADS || users == 0)
#else
#define LEFT(i)        true
#endif
#define CLOSE_LINE(i)  if :: i == W -> DROP_WRITES :: else -> DROP_FETCHES fi
#define RELEASE(i)     if :: PARTED(i) && LEFT(i) -> CLOSE_LINE(i); freed[i] = SAFE(i) :: else fi
/* threads of an end: enter and leave a call; what any but that in rclose may still do in it */
#if defined(THREADS)
#define ENTER_END(i)       if :: i == THREADS -> users++; uses = !closed[i] :: else fi
#define LEAVE_END(i)       if :: i == THREADS -> d_step { assert(!uses || !freed[i]); users--; RELEASE(i) } :: else fi
#else
#define ENTER_END(i)       skip
#define LEAVE_END(i)       skip
#endif
#if !defined(THREADS)
#define MAY(i)         true
#elif defined(M_NOT_ALONE)
#define MAY(i)         (i != THREADS || !closed[i])
#else
#define MAY(i)         (i != THREADS || !alone)
#endif
#define SAY_BYE(i)     d_step { closed[i] = true; ctl[1 - i]!BYE, sent; RELEASE(i) }
#if defined(M_FAIL_SILENT)
#define SAY_FAIL(i)    failed[i] = true
#else
#define SAY_FAIL(i)    d_step { failed[i] = true; ctl[1 - i]!FAIL, 0 }
#endif
#define SEEN(i)        (lost[i] && !failed[i] && !gone[i])

/* what a backend has accepted is carried on without its user; also where the result is detected */
#define STEP_ON(b)     :: d_step { step[b] != 0 && DRIVEN -> slt[SLOT(step[b])] = step[b]; step[b] = 0 }
#if defined(M_NO_SERVICE)
#define DRIVEN         (state[W] == 0 || lingers)
#else
#define DRIVEN         true
#endif
proctype Service(byte i)
{
    byte n;
    {
end: do
    :: d_step { ctl[i]?BYE, n -> bye[i] = true; if :: i == R -> final = n :: else fi; n = 0; RELEASE(i) }
    :: d_step { ctl[i]?FAIL, _ -> if :: !closed[i] -> failed[i] = true :: else fi }
    :: d_step { ctl[i]?DEAD, _ -> gone[i] = true; RELEASE(i) }
#if !defined(M_NOBODY_LOOKS)
    :: i == W && state[W] != 2 && SEEN(W) -> SAY_FAIL(W)
#endif
    od
    } unless { killed == i }
}
proctype Backend()
{
    {
end: do
    EACH_BLOCK(STEP_ON)
    od
    } unless { killed == W }
}

/* ---- the writer ---- */
#define M            (sent + 1)
#define ROOM         (sent - kslots < S && sent - kfrees < B)
#define NEWS         (slots != kslots || frees != kfrees)
inline rwrite()
{
    block[BLK(M)] = M;                                      /* the user's part */
    d_step {
        assert(broken || !MAY(W) || (slt[SLOT(M)] == 0 && pay[BLK(M)] == 0));   /* its source does not change in flight */
        if
        :: !MAY(W)                                          /* closed meanwhile */
        :: MAY(W) && broken -> lost[W] = true
        :: else ->
            mring[SLOT(M)] = M;
            if :: WRITTEN(M) -> pay[BLK(M)] = M :: else fi;
#if defined(STEP) && !defined(M_NO_COMPLETION)
            if :: WRITTEN(M) :: else -> slt[SLOT(M)] = M fi;
#else
            slt[SLOT(M)] = M;
#endif
            sent++
        fi
    }
}
/* the credit only grows, and never exceeds what was freed */
#define APPLY(k)     d_step { assert(mslots >= kslots && mfrees >= kfrees && mslots <= slots && mfrees <= frees); \
                              kslots = mslots; kfrees = mfrees; read[k] = 0 }
#define POST_READ(k) d_step { if :: broken -> lost[W] = true :: else -> read[k] = 1 fi }
#if defined(M_NO_PROOF)
#define SETTLED      true
#elif defined(M_NO_PROOF_FAILED)
#define SETTLED      (failed[W] || (!lost[W] && NOTHING_FLIES && !READING))
#else
#define SETTLED      (!lost[W] && NOTHING_FLIES && !READING)
#endif

proctype Writer()
{
    bool uses;                      /* it has entered before rclose */
    {
    select(last : 0 .. N);
    ENTER_END(W);
end: do
    :: sent == last || failed[W] || gone[W] || bye[W] || !MAY(W) -> break
    :: SEEN(W) && MAY(W) -> SAY_FAIL(W)
    :: sent < last && ROOM && !failed[W] && !lost[W] && MAY(W) -> rwrite()
    :: d_step { sent < last && !lost[W] && read[0] == 0 && NEWS && MAY(W) -> POST_READ(0) }
    :: read[0] == 2 && MAY(W) -> APPLY(0)
#if defined(M_TWO_READS)
    :: sent < last && !lost[W] && read[0] == 1 && read[1] == 0 && NEWS -> POST_READ(1)
    :: read[1] == 2 -> APPLY(1)
#endif
    od;
#if defined(STAY)
    if :: true -> state[W] = 1; endstay: false :: true fi;
#endif
#if defined(THREADS) && THREADS == W
    LEAVE_END(W)
#else
    /* rclose */
endclose: do
    :: SETTLED -> assert(arrived == sent || lost[W] || freed[R] || failed[W]); break
    :: lost[W] && (failed[W] || gone[W] || bye[W]) -> break /* no end is left to which it matters, or both have the failure */
    :: gone[W] -> break
    :: SEEN(W) && !bye[W] -> SAY_FAIL(W)
#if defined(DEFER)
    :: d_step { lingers = true; state[W] = 2 }; endlinger: false
#endif
    od;
    d_step { SAY_BYE(W); state[W] = 2 }
#endif
    } unless { killed == W }
}
#if defined(THREADS) && THREADS == W
/*
 * rclose in another thread. What lies between two semicolons is an attempt, under the lock of the end; the proof is a flush: it covers
 * what was posted before it began.
 */
#define BEFORE(a)    ((a[0] == 0 || a[0] > mark) && (a[B - 1] == 0 || a[B - 1] > mark))
#define FLUSHED      (BEFORE(pay) && BEFORE(step) && (slt[0] == 0 || slt[0] > mark) && (slt[S - 1] == 0 || slt[S - 1] > mark))
#if defined(LENT)
#define LENT_BACK    (kfrees == sent || lost[W] || failed[W] || gone[W] || bye[W])
#define CHANGE(m)    if :: m > kfrees && m <= sent -> block[BLK(m)] = 0 :: else fi
#else
#define LENT_BACK    true
#define CHANGE(m)    skip
#endif
#if defined(M_LENT_FIRST)
#define ALONE        LENT_BACK; alone = true
#else
#define ALONE        d_step { LENT_BACK -> alone = true }
#endif
proctype Closer()
{
    byte mark;
    bool uses;
    {
    ENTER_END(W);
end: do
    :: ALONE; break
    :: !LENT_BACK && read[0] == 0 && NEWS -> POST_READ(0)
    :: !LENT_BACK && read[0] == 2 -> APPLY(0)
    od;
    mark = sent;
endclose: do
    :: d_step { FLUSHED && !lost[W] && !READING -> CHANGE(1); CHANGE(2); SAY_BYE(W); mark = 0 }; break
    :: d_step { lost[W] && (failed[W] || gone[W] || bye[W]) -> SAY_BYE(W); mark = 0 }; break
    :: d_step { gone[W] -> SAY_BYE(W); mark = 0 }; break
    :: SEEN(W) && !bye[W] -> SAY_FAIL(W)
#if defined(DEFER)
    :: lingers = true; break                                /* the service thread goes on with it */
#endif
    od;
    LEAVE_END(W);
    state[W] = 2
    } unless { killed == W }
}
#endif
#if defined(M_DEFER_MUTE)
#define MUTE         true
#else
#define MUTE         false
#endif
#if defined(DEFER)
proctype Linger()                   /* the service thread goes on with it */
{
end: lingers;
    {
    do
    :: SETTLED || gone[W] || (lost[W] && MUTE) -> break
    :: SEEN(W) && !MUTE -> SAY_FAIL(W)
    :: lost[W] && (failed[W] || gone[W]) -> break
    od;
#if defined(M_DEFER_FORGETS)
    false;
#else
    lingers;
#endif
    SAY_BYE(W)
    } unless { killed == W }
}
#endif

/* ---- the reader ---- */
#define NEXT         (taken + 1)
#if defined(M_NO_SEAL)
#define SEALED       (ring[SLOT(NEXT)].number == NEXT)
#elif defined(M_NO_NUMBER)
#define SEALED       (ring[SLOT(NEXT)].crc != 0 && ring[SLOT(NEXT)].crc == ring[SLOT(NEXT)].body)
#else
#define SEALED       (ring[SLOT(NEXT)].number == NEXT && ring[SLOT(NEXT)].crc == ring[SLOT(NEXT)].body)
#endif
#define TOLD(m)      (heap0[BLK(m)] == m && heap1[BLK(m)] == m)
#if defined(GET)
#if defined(M_FETCH_NO_WAIT)
#define FETCHED      (delivered < taken)
#else
#define FETCHED      (delivered < taken && fetch[BLK(delivered + 1)] == 2)
#endif
#define MAY_TAKE     (SEALED && taken < delivered + F)
#define MORE         (FETCHED || (MAY_TAKE && !lost[R]))
#else
#define FETCHED      false
#define MAY_TAKE     SEALED
#define MORE         MAY_TAKE
#endif
#define DELIVER      delivered++; assert(TOLD(delivered))
#if defined(M_CLOSE_IS_NEWS)          /* the close message is a reason to wait for what it announces */
#define TELLS        (SEEN(R) && !bye[R])
#else
#define TELLS        SEEN(R)
#endif

proctype Reader()
{
    byte nfreed;
    bool uses;
    {
    ENTER_END(R);
end: do
    :: MAY_TAKE && !failed[R] && !lost[R] && MAY(R) ->
        d_step {
            if
            :: !MAY(R)                                      /* closed meanwhile */
            :: else ->
                assert(ring[SLOT(NEXT)].body == NEXT);          /* in order, and whole */
                taken++; slots = taken;
#if defined(GET)
                if
                :: WRITTEN(taken) -> fetch[BLK(taken)] = 2              /* it is here */
                :: !WRITTEN(taken) && broken -> lost[R] = true
                :: else -> fetch[BLK(taken)] = 1
                fi;
#if defined(M_FREE_EARLY)
                frees = taken
#endif
#else
                DELIVER
#endif
            fi
        }
    :: d_step { FETCHED && !failed[R] && MAY(R) -> DELIVER; fetch[BLK(delivered)] = 0 }
    :: d_step { nfreed < delivered && MAY(R) -> nfreed++; assert(TOLD(nfreed));   /* not overwritten while held */
#if !defined(M_FREE_EARLY)
        frees = nfreed
#endif
        }
    :: failed[R] || !MAY(R) -> break
    :: TELLS && !MORE && MAY(R) -> SAY_FAIL(R)
    :: bye[R] && !MORE && delivered == final && taken == final && MAY(R) -> assert(delivered == sent); break      /* R_EOF */
    :: gone[R] && !MORE && !FETCHES -> break                                                    /* -ECONNRESET */
    :: gone[R] && !MORE && lost[R] -> break
#if defined(LEAVE)
    :: true -> break
#endif
#if defined(GIVE_UP)
    :: taken > 0 -> SAY_FAIL(R); break
#endif
    od;
#if defined(THREADS) && THREADS == R
    LEAVE_END(R)
    } unless { killed == R }
}
proctype Closer()                   /* rclose in another thread */
{
    bool uses;
    {
    ENTER_END(R);
end: alone = true;
#endif
    /* rclose */
#if !defined(M_FETCH_LEFT)
endclose: if :: !FETCHES :: lost[R] :: gone[R] fi;
#endif
    d_step { SAY_BYE(R); state[R] = 2 }
#if defined(THREADS) && THREADS == R
    ; LEAVE_END(R)
#endif
    } unless { killed == R }
}

#if defined(DEATH)
proctype Kernel()
{
    if
    :: d_step { state[DEATH] != 2 -> killed = DEATH; ctl[1 - DEATH]!DEAD, 0 }
    :: true
    fi
}
#endif

init
{
    atomic {
        run Writes(); run Reads(0); run Service(W); run Service(R); run Writer(); run Reader();
#if defined(STEP)
        run Backend();
#endif
#if defined(M_TWO_READS)
        run Reads(1);
#endif
#if defined(THREADS)
        run Closer();
#endif
#if defined(GET)
        run Fetches();
#endif
#if defined(BREAK)
        run Breaks();
#endif
#if defined(DEFER)
        run Linger();
#endif
#if defined(DEATH)
        run Kernel()
#endif
    }
    timeout ->                      /* nothing moves any more: no end waits for what cannot come */
    assert(killed == W || state[W] != 0);
    assert(killed == R || state[R] == 2 || (state[W] == 1 && killed != W && delivered == sent));
    assert(killed != 2 || state[W] != 2 || state[R] != 2 || (freed[W] && freed[R]))
}
