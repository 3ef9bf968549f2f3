/*
 * tag.pml: messages by tag (lib/msg): advertised receives, their places, and which side moves a payload.
 *
 * S senders, each with N messages, and one receiver with R receives. Tags are 0 and 1; a receive may leave its tag (ANY) or its source
 * (ANYS) open. A message is small, and travels at once, or large: then the sender offers it (RTS), and it moves once its receive is
 * known to one of the two sides. A receive that finds no message may be advertised to its sender (RTR) with its place: it is for the
 * message number skip + 1 of its tag above the number `seen`.
 *
 * The moves:    RTS meets a receive that is not advertised     the receiver has it moved (CTS)
 *               RTS meets a receive that is advertised         promised: the sender moves it when it finds the RTR (DATA)
 *               RTR meets an RTS that waits                    the sender moves it (DATA)
 *               a large message finds a stored RTR             the sender moves it, without an RTS (DATA)
 *               RTR is older than the log of the sender        REFUSED, with its number: as if it had not been sent
 *
 * What is verified: the receive that the sender has chosen is the one that the order of messages chooses; each message is moved by
 * exactly one side; at rest no receive waits for a payload, and no receive waits for a message that is there.
 *
 * CANCELS of receives at any time. LOG: messages that a sender remembers. DEATH: sender 0 may die at any step; what it has written
 * remains readable.
 *
 *   M_...       one rule is taken away
 */
#ifndef N
#define N 3
#endif
#ifndef R
#define R N
#endif
#ifndef S
#define S 1
#endif
#ifndef LOG
#define LOG N
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#define ANY 2
#define ANYS S
#define AT(s, m) ((s) * (N + 1) + (m))

mtype = { SMALL, RTS, DATA, RTR, CTS, UNDO, UNDONE, REFUSED };
chan up[S] = [4] of { mtype, byte, byte, byte };         /* kind; number, tag, receive */
chan down[S] = [8] of { mtype, byte, byte, byte, byte }; /* kind; RTR: tag, seen, skip, receive; CTS: number */

/* the senders; numbers of messages are from 1 */
byte stag[S * (N + 1)];
byte sstate[S * (N + 1)]; /* 0 not sent, 1 small, 2 offered, 3 moved */
byte sent[S];
bool dead[S];
byte nth[S * 2];          /* sends of a tag so far */
bool stored[S * R];       /* RTRs, by receive, */
byte stored_tag[S * R];
byte stored_at[S * R];    /* for the n-th send of the tag */

/* the receiver */
byte rtag[R], rsource[R];
byte rstate[R];           /* 0 not posted, 1 pending, 2 promised, 3 done, 4 cancelled, 5 failed */
bool advertised[R], wish[R];
byte got[R], got_from[R];
byte posted, seen[S];
bool lost[S];             /* the death has been noticed */
bool undoing;
byte undo_receive, cancels;
byte utag[S * (N + 1)];   /* messages that no receive has matched: */
byte ukind[S * (N + 1)];  /* 0 none, 1 small, 2 offered; and in which order they have come */
byte uorder[S * (N + 1)];
byte arrivals;

#ifdef M_NO_SKIP
#define SKIP 0
#else
#define SKIP skip_
#endif
#ifdef M_NO_SEEN
#define BASE sent[me]
#else
#define BASE q
#endif
#ifdef M_BOTH_MOVE
#define PROMISE(k) false
#else
#define PROMISE(k) advertised[k]
#endif
#ifdef M_NO_HOLD
#define OVERLAPS(j, i) false
#else
#ifdef M_HOLD_SOURCE_ONLY
#define OVERLAPS(j, i) (rsource[j] == rsource[i] && rtag[j] == ANY)
#else
#define OVERLAPS(j, i) ((rtag[j] == ANY || rsource[j] == ANYS) && \
    (rtag[j] == ANY || rtag[j] == rtag[i]) && (rsource[j] == ANYS || rsource[j] == rsource[i]))
#endif
#endif
#define EXACT(i) (rtag[i] != ANY && rsource[i] != ANYS)
#define SAME(i, j) (rtag[i] == rtag[j] && rsource[i] == rsource[j])

byte i, j, k, m, best, skip_, s;
bool held;

/* All pending receives that wish it, in the order of posting; not while an earlier wildcard may take their messages. */
inline advertise() {
    i = 0;
    do
    :: i < posted ->
        if
        :: rstate[i] == 1 && EXACT(i) && wish[i] && !advertised[i] && !undoing && !lost[rsource[i]] ->
            skip_ = 0; j = 0; held = false;
            do
            :: j < i ->
                if
                :: rstate[j] == 1 && SAME(i, j) -> skip_++
                :: rstate[j] == 1 && !SAME(i, j) && OVERLAPS(j, i) -> held = true
                :: else
                fi;
                j++
            :: else -> break
            od;
            if
            :: !held -> advertised[i] = true; down[rsource[i]]!RTR(rtag[i], seen[rsource[i]], SKIP, i)
            :: else
            fi
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0; j = 0; skip_ = 0; held = false
}

/* k: the first pending receive for a message with tag t from s; posted if there is none. */
inline first_match(t) {
    k = 0;
    do
    :: k < posted && !(rstate[k] == 1 && (rtag[k] == t || rtag[k] == ANY) && (rsource[k] == s || rsource[k] == ANYS)) -> k++
    :: else -> break
    od
}

inline undone() {
    i = undo_receive;
    do
    :: i < posted -> if :: rstate[i] == 1 && SAME(i, undo_receive) -> advertised[i] = false :: else fi; i++
    :: else -> break
    od;
    i = 0;
    if :: rstate[undo_receive] == 1 -> rstate[undo_receive] = 4 :: else fi; /* else its message has come before */
    undoing = false
}

/* Receive k takes message m of s. */
inline take(offered) {
    got[k] = m; got_from[k] = s;
    if
    :: offered && EXACT(k) && PROMISE(k) -> rstate[k] = 2
    :: offered && !(EXACT(k) && PROMISE(k)) -> rstate[k] = 3; down[s]!CTS(m, 0, 0, 0)
    :: else -> rstate[k] = 3
    fi
}

inline arrive(kind, x, y, z) {
    m = x;
    if
    :: kind == UNDONE -> assert(undoing); undone()
    :: kind == REFUSED && rstate[z] == 1 -> advertised[z] = false; wish[z] = false
    :: kind == REFUSED && rstate[z] == 2 -> rstate[z] = 3; down[s]!CTS(got[z], 0, 0, 0)
    :: kind == REFUSED && rstate[z] != 1 && rstate[z] != 2 -> skip
    :: kind == DATA && x <= seen[s] -> assert(rstate[z] == 2 && got[z] == x && got_from[z] == s); rstate[z] = 3
    :: kind == DATA && x > seen[s] ->
        seen[s] = x; first_match(y);
        assert(k == z && advertised[z]);
        rstate[z] = 3; got[z] = x; got_from[z] = s
    :: kind == SMALL || kind == RTS ->
        seen[s] = x; first_match(y);
        if
        :: k == posted ->
            utag[AT(s, x)] = y; ukind[AT(s, x)] = (kind == RTS -> 2 : 1);
            arrivals++; uorder[AT(s, x)] = arrivals
        :: else -> take(kind == RTS)
        fi
    fi;
    m = 0; k = 0;
    advertise()
}

/* m, s: the message that has come first among those for tag t and source f; best == 0: none. */
inline first_unexpected(t, f) {
    best = 0; m = 0; i = 0;
    do
    :: i < S * (N + 1) ->
        if
        :: ukind[i] != 0 && (t == ANY || utag[i] == t) && (f == ANYS || f == i / (N + 1)) && (best == 0 || uorder[i] < best) ->
            best = uorder[i]; m = i
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

mtype kind;
byte x, y, z;

active proctype receiver() {
    byte t, f;
    end: do
    :: atomic { posted < R ->
        if :: t = 0 :: t = 1 :: t = ANY fi;
#if S > 1
        if :: f = 0 :: f = 1 :: f = ANYS fi;
#endif
        if :: wish[posted] = true :: wish[posted] = false fi;
        rtag[posted] = t; rsource[posted] = f;
        first_unexpected(t, f);
        k = posted; posted++; rstate[k] = 1;
        if
        :: best != 0 ->
            s = m / (N + 1); m = m % (N + 1); held = (ukind[AT(s, m)] == 2); ukind[AT(s, m)] = 0;
            advertised[k] = false; take(held); held = false
        :: best == 0 && f != ANYS && lost[f] -> rstate[k] = 5
        :: else
        fi;
        k = 0; m = 0; s = 0; best = 0; t = 0; f = 0;
        advertise() }
    :: atomic { cancels < CANCELS && !undoing && posted > 0 ->
        k = 0;
        do :: k < posted - 1 -> k++ :: break od;
        if
        :: rstate[k] == 1 ->
            cancels++; j = k; held = false;
            do
            :: j < posted && !held -> if :: rstate[j] == 1 && SAME(j, k) && EXACT(k) && advertised[j] -> held = true :: else -> j++ fi
            :: else -> break
            od;
#ifdef M_NO_UNDO
            held = false;
#endif
            if
            :: held ->
                undoing = true; undo_receive = k; down[rsource[k]]!UNDO(rtag[k], 0, 0, j);
#ifdef M_NO_WAIT
                undone(); advertise();
                undoing = true; rstate[undo_receive] = (rstate[undo_receive] == 1 -> 4 : rstate[undo_receive])
#endif
            :: else -> rstate[k] = 4; j = 0; held = false; advertise()
            fi
        :: else
        fi;
        k = 0; j = 0; held = false }
    :: atomic { nempty(up[0]) -> s = 0; up[0]?kind(x, y, z); arrive(kind, x, y, z); x = 0; y = 0; z = 0; s = 0 }
#if S > 1
    :: atomic { nempty(up[1]) -> s = 1; up[1]?kind(x, y, z); arrive(kind, x, y, z); x = 0; y = 0; z = 0; s = 0 }
#endif
#ifdef DEATH
#ifdef M_DEATH_FIRST
    :: atomic { dead[0] && !lost[0] ->
#else
    :: atomic { dead[0] && !lost[0] && empty(up[0]) ->
#endif
        lost[0] = true; k = 0;
        assert(seen[0] == sent[0]); /* what was written is received first */
        do
        :: k < posted ->
            if
            :: rstate[k] == 1 && rsource[k] == 0 -> rstate[k] = 5
#ifndef M_PROMISED_STAYS
            :: rstate[k] == 2 && got_from[k] == 0 -> rstate[k] = 5
#endif
            :: else
            fi;
            k++
        :: else -> break
        od;
        k = 0;
        do :: k <= N -> if :: ukind[AT(0, k)] == 2 -> ukind[AT(0, k)] = 0 :: else fi; k++ :: else -> break od;
        k = 0;
#ifndef M_UNDO_STAYS
        if :: undoing && rsource[undo_receive] == 0 -> undone() :: else fi;
#endif
        advertise() }
#endif
    od
}

proctype sender(byte me) {
    byte t, c, n, found, p, q, r, w;
    bool large;
    mtype what;
    end: do
    :: atomic { sent[me] < N && nfull(up[me]) && !dead[me] ->
        if :: t = 0 :: t = 1 fi;
        if :: large = true :: large = false fi;
        sent[me]++; stag[AT(me, sent[me])] = t; nth[me * 2 + t]++;
        c = 0;
        do
        :: c < R && !(stored[me * R + c] && stored_tag[me * R + c] == t && stored_at[me * R + c] == nth[me * 2 + t]) -> c++
        :: else -> break
        od;
        if
        :: c < R && large -> stored[me * R + c] = false; sstate[AT(me, sent[me])] = 3; up[me]!DATA(sent[me], t, c)
        :: c < R && !large ->
#ifdef M_SMALL_KEEPS
            stored_at[me * R + c]++;
#else
            stored[me * R + c] = false;
#endif
            sstate[AT(me, sent[me])] = 1; up[me]!SMALL(sent[me], t, 0)
        :: c == R && large -> sstate[AT(me, sent[me])] = 2; up[me]!RTS(sent[me], t, 0)
        :: c == R && !large -> sstate[AT(me, sent[me])] = 1; up[me]!SMALL(sent[me], t, 0)
        fi;
        c = 0; t = 0; large = false }
    :: atomic { nfull(up[me]) && nempty(down[me]) && !dead[me] ->
        down[me]?what(p, q, r, w);
        if
        :: what == CTS -> assert(sstate[AT(me, p)] == 2); sstate[AT(me, p)] = 3
        :: what == UNDO ->
            c = w; /* receives have the order of their RTRs */
            do
            :: c < R -> if :: stored[me * R + c] && stored_tag[me * R + c] == p -> stored[me * R + c] = false :: else fi; c++
            :: else -> break
            od;
            up[me]!UNDONE(0, 0, 0)
        :: what == RTR && q + LOG < sent[me] ->
#ifdef M_SILENT_REFUSAL
            skip
#else
            up[me]!REFUSED(0, 0, w)
#endif
        :: what == RTR && q + LOG >= sent[me] ->
            n = 0; found = 0; c = BASE + 1;
            do
            :: c <= sent[me] && found == 0 ->
                if :: stag[AT(me, c)] == p && n == r -> found = c :: stag[AT(me, c)] == p && n != r -> n++ :: else fi;
                c++
            :: else -> break
            od;
            if
            :: found == 0 -> stored[me * R + w] = true; stored_tag[me * R + w] = p; stored_at[me * R + w] = nth[me * 2 + p] + 1 + r - n
            :: found != 0 && sstate[AT(me, found)] == 2 -> sstate[AT(me, found)] = 3; up[me]!DATA(found, p, w)
            :: found != 0 && sstate[AT(me, found)] == 1 -> skip /* it went at once, and has matched the receive */
            :: found != 0 && sstate[AT(me, found)] == 3 -> assert(false)
            fi
        fi;
        p = 0; q = 0; r = 0; w = 0; c = 0; n = 0; found = 0 }
#ifdef DEATH
    :: atomic { me == 0 && !dead[me] -> dead[me] = true }
    :: atomic { dead[me] && nempty(down[me]) -> down[me]?what(p, q, r, w); p = 0; q = 0; r = 0; w = 0 }
#endif
    od
}

/* Nothing is in flight. */
active proctype rest() {
    byte a, e;
    end: atomic { timeout ->
        assert(!undoing);
        do
        :: a < R ->
            assert(rstate[a] != 2);
            assert(!(rstate[a] == 1 && rsource[a] != ANYS && lost[rsource[a]]));
            e = 0;
            do
            :: e < S * (N + 1) ->
                assert(!(rstate[a] == 1 && ukind[e] != 0 && (rtag[a] == ANY || rtag[a] == utag[e]) &&
                    (rsource[a] == ANYS || rsource[a] == e / (N + 1))));
                e++
            :: else -> break
            od;
            a++
        :: else -> break
        od;
        e = 0;
        do
        :: e < S * (N + 1) -> assert(sstate[e] != 2 || ukind[e] == 2 || dead[e / (N + 1)]); e++
        :: else -> break
        od }
}

init {
    run sender(0);
#if S > 1
    run sender(1)
#endif
}
