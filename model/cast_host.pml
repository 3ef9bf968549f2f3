/*
 * cast_host.pml: a cast on one host (doc/casts.md): one ring, used again by the least of what R readers have freed.
 *
 * The writer writes N messages into S slots: first the payload, in two stores, then the number. Readers take messages in order, hold
 * several, free them in any order, and publish the oldest that they hold. The writer loads lines only when the ring is full, and only of
 * readers that were not beyond what it needs; it sleeps on the line of one reader that is the last. Words are loaded and stored one at
 * a time; what store buffers do to sleepers is in board.pml.
 *
 *   CLOSE   a reader may close after any message
 *   DEATH   one process may be killed at any step; the service threads of the others notice it at any time later
 *   M_...   one rule is taken away
 *
 * A message that is changed while it is held, that is lost, or that a reader misses is an assertion that fails; a wait that nothing ends is
 * an invalid end state.
 */
#define R       2
#define CLOSED  255
#define NOBODY  255
#define WRITER  R

byte number[S];                 /* of the message + 1 */
byte payload[S];
byte end_word;                  /* 1 + N */
byte line[R];                   /* messages freed, from the first; CLOSED */
bool dead[R + 1];               /* killed */
bool state[R + 1];              /* and the service threads of the others have noticed */
byte written;                   /* messages whose number was stored */
bool closes[R];

#if defined(M_NO_FLOOR)
#define HAS_ROOM        true
#else
#define HAS_ROOM        (next - floor < S)
#endif

#if defined(M_CLOSED_COUNTS)
#define IS_CLOSED(f)    false
#else
#define IS_CLOSED(f)    ((f) == CLOSED)
#endif
#if defined(M_DEAD_COUNTS)
#define IS_GONE(st)     false
#else
#define IS_GONE(st)     (st)
#endif

/* need = next - S + 1. A reader that dies after its last store: the store counts too. */
#define LOAD(r) \
    if \
    :: live[r] && known[r] + S <= next -> \
        st = state[r]; \
        f = line[r]; \
        if \
        :: IS_CLOSED(f) -> live[r] = false; assert(closes[r]) \
        :: else -> \
            if :: f != CLOSED -> known[r] = f :: else fi; \
            if :: IS_GONE(st) -> live[r] = false; reports++; assert(dead[r] && reports == 1) :: else fi \
        fi \
    :: else \
    fi

#if defined(M_FIRST_READER)
#define LEAST           (live[0] -> known[0] : (live[1] -> known[1] : next))
#else
#define LEAST           (live[0] && (!live[1] || known[0] <= known[1]) -> known[0] : (live[1] -> known[1] : next))
#endif

#if defined(M_SLEEP_ON_ANY)
#define MAY_SLEEP_ON(r) live[r]
#else
#define MAY_SLEEP_ON(r) (live[r] && known[r] == floor)
#endif
#if defined(M_NO_NEWS)
#define NEWS            false
#else
#define NEWS            ((state[0] && live[0]) || (state[1] && live[1]))
#endif

active proctype Writer()
{
    byte next, floor, known[R], f, reports;
    bool live[R], st;

    {
        d_step { live[0] = true; live[1] = true }
        do
        :: next < N ->
            do
            :: HAS_ROOM -> break
            :: else ->
                LOAD(0);
                LOAD(1);
                floor = LEAST;
                if
                :: !live[0] && !live[1] -> goto over            /* -EPIPE */
                :: else
                fi;
                if
                :: HAS_ROOM -> skip
                :: !HAS_ROOM && MAY_SLEEP_ON(0) -> line[0] != known[0] || NEWS
                :: !HAS_ROOM && MAY_SLEEP_ON(1) -> line[1] != known[1] || NEWS
                fi
            od;
#if defined(M_NUMBER_FIRST)
            number[next % S] = next + 1;
#endif
            payload[next % S] = 0;
            payload[next % S] = next + 1;
#if !defined(M_NUMBER_FIRST)
            d_step { number[next % S] = next + 1; written = next + 1 };
#endif
            next++
        :: next == N -> break
        od;
        end_word = N + 1;
over:   skip
    } unless { dead[WRITER] }
}

#define HELD(x)         (lo <= (x) && (x) < k && (freed & (1 << (x))) == 0)
#define INTACT(x)       (payload[(x) % S] == (x) + 1)

#if defined(M_COUNT)            /* how many, not which */
#define PUBLISH         count
#else
#define PUBLISH         lo
#endif
#define FREE(x) \
    :: HELD(x) -> \
        assert(INTACT(x)); \
        d_step { \
            freed = freed | (1 << (x)); \
            count++; \
            do :: lo < k && (freed & (1 << lo)) != 0 -> lo++ :: else -> break od \
        } \
        line[me] = PUBLISH

proctype Reader(byte me)
{
    byte k, lo, freed, count, e;
    bool st;

    {
        do
        :: k - lo < S && number[k % S] == k + 1 -> assert(INTACT(k)); k++
        FREE(0)
        FREE(1)
        FREE(2)
        FREE(3)
#if N > 4
        FREE(4)
#endif
        /* nothing there: the state and the end first, then the slot once more. It sleeps until one of them changes */
#if defined(M_STATE_LAST)
        :: k - lo < S && number[k % S] != k + 1 ->
            st = state[WRITER];
            e = end_word;
#else
        :: k - lo < S && number[k % S] != k + 1 && (end_word != 0 || state[WRITER]) ->
            st = state[WRITER];
            e = end_word;
            if :: number[k % S] != k + 1 -> skip :: else -> goto again fi;
#endif
            if
            :: e == k + 1 -> assert(k == N); break
            :: e != 0 && e != k + 1 -> assert(false)            /* -EPROTO of a writer that is right */
            :: e == 0 && st -> assert(k == written); break
            :: e == 0 && !st -> skip
            fi;
again:      skip
#if defined(CLOSE)
        :: k > 0 -> closes[me] = true; line[me] = CLOSED; break
#endif
        od
    } unless { dead[me] }
}

#if defined(DEATH)
active proctype Kernel()
{
    byte victim;

    if
    :: victim = 0
    :: victim = 1
    :: victim = WRITER
    fi;
    if
    :: dead[victim] = true; state[victim] = true
    :: skip
    fi
}
#endif

init { atomic { run Reader(0); run Reader(1) } }
