/*
 * cast.pml: multicast with NAKs (doc/multicast.md). One root, M members, N packets of which the last is END; a window of W = 2 packets, and memory
 * for S = 3 of them at a member, which a packet has until the program frees it.
 *
 * A packet in flight is a bit in the set of those on their way to or from one member, so that any order is possible. The network loses
 * LOSSES of them and repeats DUPS. What a timer sends is sent only while none of the same is in flight: a packet sent twice is a repeated one.
 * A run that ends without what is due is an invalid end state, one that goes on without an end a cycle without progress.
 *
 *   M           members, 1 or 2
 *   R           reports in flight from one member at a time, 1 or 2
 *   NUMBERS     the numbers of packets on the wire are modulo this
 *   NAK         members send NAKs; without, ASK alone repairs
 *   QUIET       fewer states: the root asks a member only while nothing else is in flight from or to it, and members read at once
 *   DEATH       the last member may be killed at any step
 *   ROOT_DEATH  the root may be
 *   M_...       one rule is taken away
 */
#ifndef NUMBERS
#define NUMBERS 16              /* none repeats */
#endif
#define W 2
#define S 3
#define BIT(i)      (1 << (i))
#define HAS(set, i) ((set & BIT(i)) != 0)

/* ---- the root ---- */

byte next;
byte slot[W];                   /* retained: number + 1 */
byte got_of[M], freed_of[M];    /* as reported */
bool gone[M];                   /* reported by the control network */
bool left, root_dead;

/* ---- members ---- */

byte got[M], freed[M], top[M];
byte have[M];                   /* set of packets in the window */
byte place[M * S];              /* memory of the program: number + 1 */
bool dead[M], over[M], posted[M];

/* ---- in flight ---- */

byte data[M];                   /* set of numbers */
byte ask[M];                    /* set of values of `next` */
bool filled[M * R];             /* reports */
byte rep_got[M * R], rep_freed[M * R], rep_missing[M * R];
byte losses, dups;

/* ---- the root ---- */

#if defined(M_DEAD_COUNTS)
#define COUNTS(i)   true
#else
#define COUNTS(i)   (!gone[i])
#endif
#if defined(M_WINDOW_OVERRUN)   /* more packets than are retained */
#define RETAINED    (W + 1)
#else
#define RETAINED    W
#endif
#define MAY(i)      (!COUNTS(i) || (next < got_of[i] + RETAINED && next < freed_of[i] + S))
#if defined(M_NO_PROBE)
#define BEHIND(i)   (got_of[i] < next)
#else
#define BEHIND(i)   (got_of[i] < next || (next < N && !MAY(i)))
#endif
#if defined(M_LEAVE_SENT)
#define HAS_ALL(i)  (next == N)
#else
#define HAS_ALL(i)  (next == N && (!COUNTS(i) || got_of[i] == N))
#endif
#if defined(M_ASK_ONCE)
byte asked[M];
#define ASKED(i)    HAS(asked[i], next)
#define NOTE_ASK(i) asked[i] = asked[i] | BIT(next)
#else
#define ASKED(i)    false
#define NOTE_ASK(i) skip
#endif
#if defined(QUIET)
#define SILENT(i)   (data[i] == 0 && !filled[R * (i)])
#else
#define SILENT(i)   true
#endif

/* what the slot of a packet has is needed by no living member */
#define ALIVE(i)    (!dead[i] && !over[i])
#define FREE_OF(i)  (dead[i] || gone[i] || over[i] || next < W || got[i] > next - W)

inline send_next()
{
    assert(FREE_OF(0) && FREE_OF(M - 1));
    slot[next % W] = next + 1;
    data[0] = data[0] | (ALIVE(0) -> BIT(next) : 0);
    data[M - 1] = data[M - 1] | (ALIVE(M - 1) -> BIT(next) : 0);
#if defined(M_NO_RETAIN)
    slot[next % W] = 0;
#endif
    next++
}

active proctype Root()
{
    do
    :: d_step { next < N && MAY(0) && MAY(M - 1) -> send_next() }
#if !defined(M_LAST_LOST)
    :: d_step { !gone[0] && BEHIND(0) && ask[0] == 0 && SILENT(0) && ALIVE(0) && !ASKED(0) -> NOTE_ASK(0); ask[0] = BIT(next) }
#if M > 1
    :: d_step { !gone[1] && BEHIND(1) && ask[1] == 0 && SILENT(1) && ALIVE(1) && !ASKED(1) -> NOTE_ASK(1); ask[1] = BIT(next) }
#endif
#endif
    :: d_step { HAS_ALL(0) && HAS_ALL(M - 1) -> left = true }; break
#if defined(ROOT_DEATH)
    :: d_step { left = true; root_dead = true }; break
#endif
    od
}

/* one packet that a report requests: retained, and so sent again */
inline send_again(i, n)
{
#if !defined(M_NO_RANGE)
    if
    :: n < next && n + W >= next && n >= got_of[i] ->
#else
    if
    :: n < next ->
#endif
        assert(slot[n % W] == n + 1);
        data[i] = data[i] | (ALIVE(i) -> BIT(n) : 0)
    :: else
    fi
}

/* ---- one member and its line ---- */

#define MISSING(i)  ((BIT(top[i]) - 1) & ~(BIT(got[i]) - 1) & ~have[i])

inline report(i)
{
    if
    :: !filled[R * i] -> at = R * i
    :: filled[R * i] && !filled[R * i + R - 1] -> at = R * i + R - 1
    :: else -> at = R * M
    fi;
    if
    :: at < R * M ->
        filled[at] = true; rep_got[at] = got[i]; rep_freed[at] = freed[i]; rep_missing[at] = MISSING(i)
    :: else                     /* R others are in flight */
    fi;
    at = 0
}

/* the number that the wire has, from `got` on */
#define AHEAD(i, n) (((n) % NUMBERS + NUMBERS - got[i] % NUMBERS) % NUMBERS)
#define AS_SEEN(i, n) (got[i] + AHEAD(i, n))
#if defined(M_NO_CHECK)
#define ACCEPTED(i, n) true
#else
#define ACCEPTED(i, n) (AHEAD(i, n) < W && !HAS(have[i], AS_SEEN(i, n)))
#endif

inline free_next(i)            /* the program reads and frees */
{
    assert(place[i * S + freed[i] % S] == freed[i] + 1);
    freed[i]++
}

inline receive_data(i, n)
{
    if
    :: ACCEPTED(i, n) ->
        place[i * S + n % S] = n + 1;
        have[i] = have[i] | BIT(AS_SEEN(i, n));
        top[i] = (AS_SEEN(i, n) >= top[i] -> AS_SEEN(i, n) + 1 : top[i]);
        do
        :: HAS(have[i], got[i]) -> got[i]++
        :: else -> break
        od;
#if defined(QUIET)
        do
        :: freed[i] < got[i] -> free_next(i)
        :: else -> break
        od;
        report(i)
#endif
    :: else
    fi
}

inline receive_ask(i, n)
{
    top[i] = (n > top[i] -> n : top[i]);
    report(i)
}

inline receive_report(i, k)
{
    got_of[i] = (rep_got[k] > got_of[i] -> rep_got[k] : got_of[i]);
    freed_of[i] = (rep_freed[k] > freed_of[i] -> rep_freed[k] : freed_of[i]);
    n = 0;
    do
    :: n < N && HAS(rep_missing[k], n) -> send_again(i, n); n++
    :: n < N && !HAS(rep_missing[k], n) -> n++
    :: else -> break
    od;
    n = 0
}

#define DATA(i, b) \
    :: d_step { HAS(data[i], b) -> data[i] = data[i] & ~BIT(b); if :: ALIVE(i) -> receive_data(i, b) :: else fi } \
    :: d_step { HAS(data[i], b) && dups > 0 && ALIVE(i) -> dups--; receive_data(i, b) } \
    :: d_step { HAS(data[i], b) && losses > 0 -> losses--; data[i] = data[i] & ~BIT(b) }
#define ASK(i, b) \
    :: d_step { HAS(ask[i], b) -> ask[i] = ask[i] & ~BIT(b); if :: ALIVE(i) -> receive_ask(i, b) :: else fi } \
    :: d_step { HAS(ask[i], b) && losses > 0 -> losses--; ask[i] = ask[i] & ~BIT(b) }
#define EMPTY(k)    filled[k] = false; rep_got[k] = 0; rep_freed[k] = 0; rep_missing[k] = 0
#define REPORT(k) \
    :: d_step { filled[k] -> if :: !left && !gone[(k) / R] -> receive_report((k) / R, k) :: else fi; EMPTY(k) } \
    :: d_step { filled[k] && losses > 0 -> losses--; EMPTY(k) }

proctype Member(byte me)
{
    byte at, n;

    do
    DATA(me, 0) DATA(me, 1) DATA(me, 2) DATA(me, 3)
#if N > 4
    DATA(me, 4)
#endif
    ASK(me, 1) ASK(me, 2) ASK(me, 3) ASK(me, 4)
#if N > 4
    ASK(me, 5)
#endif
    REPORT(R * me)
#if R > 1
    REPORT(R * me + 1)
#endif
    :: d_step { ALIVE(me) && freed[me] < got[me] -> free_next(me); report(me) }
#if defined(NAK)
    :: d_step { ALIVE(me) && MISSING(me) != 0 && !filled[R * me] && !filled[R * me + R - 1] -> report(me) }
#endif
    :: d_step { ALIVE(me) && freed[me] == N ->                  /* leaves: END is read */
        over[me] = true; data[me] = 0; ask[me] = 0;
#if !defined(M_LEAVE_SILENT)
        posted[me] = true
#endif
        }
    :: d_step { ALIVE(me) && root_dead -> over[me] = true; data[me] = 0; ask[me] = 0 } /* -ECONNRESET */
#if defined(DEATH)
    :: d_step { me == M - 1 && ALIVE(me) -> dead[me] = true; posted[me] = true; data[me] = 0; ask[me] = 0 }
#endif
    :: d_step { posted[me] && !gone[me] -> gone[me] = true }    /* the control network */
    :: left && !ALIVE(me) -> break
    od;
    assert(dead[me] || root_dead || freed[me] == N)
}

init
{
    atomic {
        losses = LOSSES;
        dups = DUPS;
        run Member(0);
#if M > 1
        run Member(1)
#endif
    }
}
