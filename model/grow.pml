/*
 * grow.pml: a heap that grows by segments (doc/protocol.md "Growth", lib/rpipe/grow/grow.c).
 *
 * The writer's thread asks (GROW), the reader's service thread grants or refuses, the writer's service thread leaves the
 * answer and sets a state flag, the writer's thread takes the segment up in a later call. Service threads and user threads are
 * processes of their own; a service thread works under the lock of its process, which a user's thread takes to open and to
 * close, and which the reader's service thread lets go of while it allocates. The control network is FIFO in each direction,
 * the two directions independent. Slots and credits are words of shared memory, in order (pipe.pml takes them apart).
 *
 *   PUT         the segments are the reader's memory, and mapped by the writer
 *   GET         they are the writer's, and mapped by the reader
 *   DEATH       either process may be killed at any step; what it had posted last may be lost
 *   VIOLATES        the writer sends its close message as soon as it has opened, and continues: it may harm itself, but not the reader
 *   M_...       one rule is taken away
 *
 * Every allocation, and every mapping, may fail, FAILS times in all; the writer asks as often as it likes, ASKS times at most.
 * Either end may close between any two calls, while a growth is in flight too, or be patient until the end; with INC=2 both
 * open the same id again then.
 * A segment holds one message; some are so large that they fit only into segments that were added. The reader frees what it
 * holds before it waits.
 *
 * Properties: the messages between the two ends are always consistent (k is next; an answer answers); no message is in a
 * segment that its reader has not mapped; no end touches memory that is not mapped here, or that its owner, being alive, has
 * given back; an answer is complete when it is taken up; and when nothing moves any more (Monitor) no end waits for a reply
 * or a wake-up that was lost, and everything is given back that was allocated or mapped.
 *
 * Given by -D: SEGS segments to grow by, N messages, INC incarnations, ASKS, FAILS.
 */
#define WRITER 0
#define READER 1
mtype = { HALF, BYE, GROW, GROWN, none, asked, answered };
chan net[2] = [INC * (ASKS + 4)] of { mtype, byte, byte, bool };   /* from the writer's rank, from the reader's: incarnation, k, granted */
bool lock[2], dead[2], finished[2];
byte fails = FAILS;

typedef end_t {                 /* one incarnation of an end */
    bool open, half;            /* the peer's handshake is there */
    bool bye, gone, released;   /* the close message of the peer has arrived; closed; memory given back */
    byte pins;                  /* the service thread is at work on it, without the lock */
    byte count                  /* segments: the reader's table; what the writer has taken up */
};
end_t w[INC + 1], r[INC + 1];
bool  peer_gone[2];             /* the service thread has detected the end of the peer's process */
/* the writer's */
mtype state[INC + 1] = none;
bool  notice[INC + 1], complete[INC + 1], granted[INC + 1];
bool  wake[INC + 1];            /* the wake word */
/* shared memory: slots (segment + 1), close line, freed blocks */
byte  slot[INC * N], final[INC + 1];
bool  freed[INC * (SEGS + 1)];
#define SLOT(m)   slot[(inc - 1) * N + (m)]
#define FREED(s)  freed[(inc - 1) * (SEGS + 1) + (s)]
/* segments 1..SEGS: memory of the one end, mapped by the other */
#define LIVE  1
#define FREE  2
byte  memory[INC * SEGS];
bool  mapped[INC * SEGS];
#define MEMORY(s) memory[(inc - 1) * SEGS + (s) - 1]
#define MAPPED(s) mapped[(inc - 1) * SEGS + (s) - 1]

#if defined(GET)
#define OWNER     WRITER
#else
#define OWNER     READER
#endif
#if defined(VIOLATES)
#define LIE       net[WRITER]!BYE, inc, 0, false
#else
#define LIE       skip
#endif
/* the owner reaches what it has; the other what it has mapped, which is not in use by another owner meanwhile */
#define REACHES(me, s)  ((s) == 0 || (MEMORY(s) == LIVE || dead[OWNER]) && (me == OWNER || MAPPED(s)))

#define LOCK(i)   atomic { !lock[i] -> lock[i] = true }
#define UNLOCK(i) lock[i] = false

/* ---- release: with the lock ---- */
#if defined(M_RELEASE_EARLY)
#define DONE(e, i)  (e.gone && e.pins == 0)
#elif defined(M_NO_PIN)
#define DONE(e, i)  (e.gone && (e.bye || peer_gone[i]))
#else
#define DONE(e, i)  (e.gone && (e.bye || peer_gone[i]) && e.pins == 0)
#endif
#if defined(M_FORGET)           /* what is in flight is forgotten: only what messages have used is given back */
#define GIVEN(s)    ((s) <= w[inc].count)
#else
#define GIVEN(s)    true
#endif
#define DROP(me, s) if :: me == OWNER && MEMORY(s) == LIVE && GIVEN(s) -> MEMORY(s) = FREE :: me != OWNER -> MAPPED(s) = false :: else fi
#if SEGS > 1
#define DROP_ALL(me) DROP(me, 1); DROP(me, 2)
#else
#define DROP_ALL(me) DROP(me, 1)
#endif
#define RELEASE(e, i) if :: DONE(e, i) && !e.released -> e.released = true; DROP_ALL(i) :: else fi

/* ---- the writer's thread ---- */
#define JOINED    (w[inc].half && !late)
#define TROUBLE   (w[inc].bye || late || dead[READER] || peer_gone[WRITER])
#define SOME(s)   ((s) <= w[inc].count && !used[s])
#if SEGS > 1
#define ROOM      (!big && SOME(0) || SOME(1) || SOME(2))
#define NEWS      (FREED(0) || FREED(1) || FREED(2))
#define FETCH     TAKE(0); TAKE(1); TAKE(2)
#define CHOOSE    if :: !big && SOME(0) -> s = 0 :: SOME(1) -> s = 1 :: SOME(2) -> s = 2 fi
#else
#define ROOM      (!big && SOME(0) || SOME(1))
#define NEWS      (FREED(0) || FREED(1))
#define FETCH     TAKE(0); TAKE(1)
#define CHOOSE    if :: !big && SOME(0) -> s = 0 :: SOME(1) -> s = 1 fi
#endif
#define TAKE(s)   if :: FREED(s) -> FREED(s) = false; used[s] = false :: else fi
#if defined(GET)
#define HEAP      true          /* its own: there before the peer is */
#else
#define HEAP      JOINED
#endif
#if defined(M_BEFORE_JOIN)
#define MAY_ASK_NOW true
#else
#define MAY_ASK_NOW JOINED
#endif
#if defined(M_TWO)
#define NOT_ASKED (state[inc] != answered)
#else
#define NOT_ASKED (state[inc] == none)
#endif
#define MAY_ASK   (MAY_ASK_NOW && NOT_ASKED && asks > 0 && w[inc].count < SEGS)
#define RETRY     (state[inc] == answered)              /* also before the state flag is seen, */
#define AGAIN     (RETRY && failed)                     /* and when a second has passed since it could not be taken up */
#define IN_VAIN   (big && w[inc].count == 0 && state[inc] == none && (asks == 0 || late))   /* -ENOMEM */

inline ask()
{
    atomic {
        asks--;
        k = w[inc].count + 1;
#if defined(GET)
        assert(MEMORY(k) != LIVE);                      /* nothing is forgotten there */
        if :: MEMORY(k) = LIVE :: fails > 0 -> fails--; k = 0 fi
#endif
    }
    if
    :: k > 0 ->
#if defined(M_ASK_LATE)
        net[WRITER]!GROW, inc, k, false; k = 0;
        state[inc] = asked
#else
        state[inc] = asked;
        net[WRITER]!GROW, inc, k, false; k = 0
#endif
    :: else
    fi
}

inline settle()
{
    notice[inc] = false;                                /* first; what is answered later sets it again */
    atomic {
        if
        :: state[inc] == answered ->
            assert(complete[inc]);
            k = w[inc].count + 1;
            if
            :: granted[inc] ->
#if defined(GET)
                ok = true;
#else
                if :: MAPPED(k) = true; ok = true :: fails > 0 -> fails--; ok = false fi;
#endif
                failed = !ok;
                if :: ok -> w[inc].count = k :: else fi
            :: else ->
#if defined(GET) && !defined(M_REFUSED_KEPT)
                MEMORY(k) = FREE;
#endif
                skip
            fi;
#if defined(M_REASK)
            if :: true -> complete[inc] = false; state[inc] = none fi;
#else
            if :: !failed -> complete[inc] = false; state[inc] = none :: else fi;
#endif
            k = 0; ok = false
        :: else
        fi
    }
}

#define ANYTHING  (notice[inc] || NEWS || TROUBLE || (HEAP && ROOM) || MAY_ASK || RETRY || IN_VAIN)
#if defined(M_NO_LIFE)
#define SLICE     false
#else
#define SLICE     (dead[READER] || MAY_ASK || AGAIN)    /* sleep is sliced: death, and the time to ask (again) */
#endif

active proctype Writer()
{
    byte inc, s, k, asks, sent;
    bool late, big, ok, patient, failed, used[SEGS + 1];
    {
    do
    :: inc < INC ->
        atomic {
            !lock[WRITER];
            inc++; w[inc].open = true; late = w[inc].bye || peer_gone[WRITER]; asks = ASKS;
            if :: !late -> net[WRITER]!HALF, inc, 0, false; LIE :: else fi;
            if :: patient = true :: patient = false fi
        }
        do
        :: sent < N ->
            if :: big = true :: big = false fi;
            do                                          /* rmalloc */
            :: notice[inc] -> settle()
            :: !notice[inc] && HEAP && ROOM ->
                atomic { CHOOSE; used[s] = true; big = false }
                if                                      /* rwrite */
                :: atomic { JOINED && !TROUBLE ->
#if !defined(VIOLATES)
                    assert(REACHES(WRITER, s));
#endif
                    SLOT(sent) = s + 1; sent++; s = 0 }
                    break
                :: TROUBLE -> goto close
                fi
            :: !notice[inc] && !(HEAP && ROOM) && NEWS -> d_step { FETCH }
            :: !notice[inc] && !(HEAP && ROOM) && !NEWS && TROUBLE -> goto close
            :: !notice[inc] && !(HEAP && ROOM) && !NEWS && !TROUBLE ->
                if
                :: MAY_ASK -> ask()
                :: RETRY -> settle()
                :: IN_VAIN -> goto close
                :: !MAY_ASK && !RETRY && !IN_VAIN ->
                    if
                    :: !patient -> goto close           /* R_PENDING is enough */
                    :: wake[inc] = true;
                       if :: ANYTHING :: else -> if :: !wake[inc] :: SLICE fi fi;
                       wake[inc] = false
                    fi
                fi
            od
        :: sent == N || !patient -> break
        od;
close:
        if :: w[inc].half && !late -> final[inc] = sent + 1 :: else fi;
        atomic {
            !lock[WRITER];
            w[inc].gone = true;
            if :: !late -> net[WRITER]!BYE, inc, 0, false :: else -> w[inc].bye = true fi;
            RELEASE(w[inc], WRITER);
            sent = 0; s = 0; big = false; late = false; patient = false; failed = false;
            used[0] = false; used[1] = false; used[SEGS] = false
        }
    :: inc == INC -> break
    od;
    finished[WRITER] = true
    } unless { dead[WRITER] }
}

/* ---- service threads ---- */
#if defined(M_NO_INCARNATION)   /* an answer goes to the end that is open now */
#define MEANT     (w[1].gone && INC > 1 && w[INC].open -> INC : inc)
#else
#define MEANT     inc
#endif
#if defined(M_NO_LIFE)
#define TELL_GONE skip
#else
#define TELL_GONE wake[1] = false; wake[INC] = false
#endif

/* what both do: handshakes and close messages; `mine` is the own end, `i` the own rank */
#define HEAR_HALF(mine)     mine.half = true
#define HEAR_BYE(mine, i) \
    mine.bye = true; \
    if :: mine.open -> RELEASE(mine, i) :: !mine.open -> net[i]!BYE, inc, 0, false fi

active proctype WriterService()
{
    byte inc, k; bool ok;
    {
end: do
    :: atomic { net[READER]?HALF, inc, k, ok -> HEAR_HALF(w[inc]); wake[inc] = false; inc = 0 }
    :: atomic { net[READER]?BYE, inc, k, ok -> HEAR_BYE(w[inc], WRITER); wake[inc] = false; inc = 0 }
    :: net[READER]?GROWN, inc, k, ok ->
        LOCK(WRITER);
        inc = MEANT;
        if
        :: w[inc].open && !w[inc].gone ->
            assert(state[inc] == asked && k == w[inc].count + 1);
#if defined(M_FLAG_FIRST)
            state[inc] = answered; notice[inc] = true; granted[inc] = ok; complete[inc] = true;
#elif defined(M_STATE_FIRST)
            state[inc] = answered; granted[inc] = ok; complete[inc] = true; notice[inc] = true;
#else
            granted[inc] = ok; complete[inc] = true; state[inc] = answered; notice[inc] = true;
#endif
#if !defined(M_SILENT)
            wake[inc] = false                           /* the check of the wake word */
#endif
        :: else                                         /* what was granted is given back with the end */
        fi;
        UNLOCK(WRITER); d_step { inc = 0; k = 0; ok = false }
    :: atomic { dead[READER] && empty(net[READER]) && !peer_gone[WRITER] ->
        peer_gone[WRITER] = true; TELL_GONE;
        inc = 1; RELEASE(w[1], WRITER);
#if INC > 1
        inc = 2; RELEASE(w[2], WRITER);
#endif
        inc = 0 }
    od
    } unless { dead[WRITER] }
}

active proctype ReaderService()
{
    byte inc, k; bool ok;
    {
end: do
    :: atomic { net[WRITER]?HALF, inc, k, ok -> HEAR_HALF(r[inc]); inc = 0 }
    :: atomic { net[WRITER]?BYE, inc, k, ok -> HEAR_BYE(r[inc], READER); inc = 0 }
    :: net[WRITER]?GROW, inc, k, ok ->
        LOCK(READER);
        if
        :: r[inc].open && !r[inc].gone && r[inc].half ->
            assert(k == r[inc].count + 1);              /* else -EPROTO */
            ok = true;
#if defined(M_ANSWER_EARLY)
            net[READER]!GROWN, inc, k, true;
#endif
#if defined(GET)
            if :: MAPPED(k) = true :: fails > 0 -> fails--; ok = false fi;
#else
            r[inc].pins++;
            UNLOCK(READER);
            if
            :: assert(!r[inc].released); MEMORY(k) = LIVE       /* into the tables of the end: it is still there */
            :: fails > 0 -> fails--; ok = false
            fi;
            LOCK(READER);
            r[inc].pins--;
#endif
            if :: ok -> r[inc].count = k :: else fi;
#if defined(M_ANSWER_EARLY)
#else
            net[READER]!GROWN, inc, k, ok;
#endif
            d_step { RELEASE(r[inc], READER) }
        :: else                                         /* the close message is on its way to the writer */
        fi;
        UNLOCK(READER); d_step { inc = 0; k = 0; ok = false }
    :: atomic { dead[WRITER] && empty(net[WRITER]) && !peer_gone[READER] ->
        peer_gone[READER] = true;
        inc = 1; RELEASE(r[1], READER);
#if INC > 1
        inc = 2; RELEASE(r[2], READER);
#endif
        inc = 0 }
    od
    } unless { dead[READER] }
}

/* ---- the reader's thread ---- */
#define FULL      (nread < N && SLOT(nread) != 0)
active proctype Reader()
{
    byte inc, s, known, nread; bool late, holds, patient;
    {
    do
    :: inc < INC ->
        atomic {
            !lock[READER];
            inc++; r[inc].open = true; late = r[inc].bye || peer_gone[READER];
            if :: !late -> net[READER]!HALF, inc, 0, false :: else fi;
            if :: patient = true :: patient = false fi
        }
        do
        :: !holds && !late && r[inc].half && FULL ->
            d_step {
                s = SLOT(nread) - 1; nread++;
#if !defined(M_NO_LOOK)
                if :: s > known -> known = r[inc].count :: else fi;
#endif
                assert(s <= known);                     /* else -EPROTO: it lies outside the heap */
                assert(REACHES(READER, s));
                holds = true
            }
        :: holds ->
            d_step {
                assert(REACHES(READER, s));             /* until it is freed */
                FREED(s) = true; holds = false; s = 0
            }
            wake[inc] = false                           /* the check of the wake word */
        :: !holds && (late || final[inc] == nread + 1 || !FULL && (r[inc].bye || dead[WRITER] || peer_gone[READER])) -> break
        :: !patient -> break
        od;
        atomic {
            !lock[READER];
            r[inc].gone = true;
            if :: !late -> net[READER]!BYE, inc, 0, false :: else -> r[inc].bye = true fi;
            RELEASE(r[inc], READER);
            nread = 0; known = 0; s = 0; holds = false; late = false; patient = false
        }
    :: inc == INC -> break
    od;
    finished[READER] = true
    } unless { dead[READER] }
}

#if defined(DEATH)
active proctype Kernel()        /* kills one of the two processes; what it has posted last may be lost, but no handshake that is in use */
{
    byte i, n, inc, k; mtype what; bool ok, lost;
    if :: i = WRITER :: i = READER :: goto done fi;
    if :: lost = true :: true fi;
    d_step {
        dead[i] = true;
        n = len(net[i]);
        do                                              /* the last one, unless it is a handshake */
        :: n > 0 ->
            net[i]?what, inc, k, ok;
            if :: n == 1 && lost && what != HALF :: else -> net[i]!what, inc, k, ok fi;
            n--
        :: n == 0 -> break
        od;
        what = none; inc = 0; k = 0; ok = false; lost = false
    }
done: skip
}
#endif

/* when nothing moves any more */
#define ALL_BACK(e, i)   (dead[i] || !e.open || e.released)
active proctype Monitor()
{
    byte inc, s;
    timeout ->
    assert((finished[WRITER] || dead[WRITER]) && (finished[READER] || dead[READER]));    /* no end waits for ever */
    for (inc : 1 .. INC) {
        assert(ALL_BACK(w[inc], WRITER) && ALL_BACK(r[inc], READER));
        for (s : 1 .. SEGS) {
            assert(dead[OWNER] || MEMORY(s) != LIVE);
            assert(dead[1 - OWNER] || !MAPPED(s))
        }
    }
}
