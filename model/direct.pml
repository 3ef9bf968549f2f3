/*
 * direct.pml: large payloads over a network, from the buffer of the send to that of the receive (lib/msg/direct.h, buffer.h): which end may
 * access a buffer, and until when.
 *
 * A receiver has RECEIVES, one after the other, into a buffer whose window has number 1; when no receive uses it, another buffer may get the
 * number. A sender has MESSAGES. Messages of a pipe and the fragments that are written through it (FRAGMENT) arrive in order; the
 * network places a fragment when it is the next one, whether or not the receiver makes calls. Those of a fetch are read at any time.
 * An offer that names a window is fetched, also if an RTR for it is on its way. A blocking call may end at its deadline, and a receive may be cancelled, at any time. Tags and places are left out: tag.pml has them.
 *
 * What is verified: the network accesses a buffer of a program only while that is the library's; a receive completes by WRITTEN with
 * all fragments; no fragment is placed through a number that names another buffer.
 *
 *   COPIES     the network is this process (tcp): it has copied a fragment when it has accepted it, and a window can be taken back: so
 *              blocking receives name one, too
 *   M_...      one rule is taken away
 */
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef RECEIVES
#define RECEIVES 3
#endif
#define FRAGMENTS 2

#ifdef M_NO_STOP
#define STOPPED true
#else
#define STOPPED (placed == posted) /* a call that gives up waits for what is posted */
#endif
#ifdef M_REPLACE
#define UNUSED true
#else
#define UNUSED (users == 0)
#endif
#ifdef M_BLOCKING_SEND
#define SEND_NAMES true
#else
#define SEND_NAMES (!s_blocking)
#endif
#if defined(M_BLOCKING_RECEIVE) || defined(COPIES)
#define RECEIVE_NAMES true
#else
#define RECEIVE_NAMES (!r_blocking)
#endif
#ifdef M_WRITTEN_FIRST
#define ALL_POSTED true
#else
#define ALL_POSTED (posted == FRAGMENTS)
#endif
#if defined(M_SENT_EARLY) || defined(COPIES)
#define ALL_PLACED true
#else
#define ALL_PLACED (placed == FRAGMENTS)
#endif

#ifdef COPIES
#define SENDER_HAS (true)
#ifdef M_NO_REVOKE
#define TAKE_BACK
#else
#define TAKE_BACK r_revoked = r_window
#endif
#else
#define SENDER_HAS (s_lib)
#define TAKE_BACK
#endif

mtype = { RTS, PLACED, DATA, PART, WRITTEN, ABORT, FRAGMENT, UNDONE, WINDOW, RTR, CTS, FIN, UNDO };
chan up = [6] of { mtype, byte };   /* kind; RTS: a window is named. FRAGMENT: version of the window */
chan down = [6] of { mtype, byte }; /* kind; RTR, CTS: version of the window that is named, or 0 */

/* the sender */
byte sstate;       /* 0 none, 1 offered, 2 writes, 3 WRITTEN has left */
bool s_lib;        /* the buffer is the library's */
bool s_blocking, s_abandoned, s_named; /* s_named: its RTS names a window */
byte sent, posted, placed, to;
bool stored;       /* an RTR, */
byte stored_to;

/* the receiver */
byte rstate;       /* 0 none, 1 posted, 2 promised, 3 arriving, 4 fetching */
bool r_lib, r_blocking, r_abandoned, r_window, r_revoked, advertised, undoing, kept, kept_window;
byte version = 1;  /* of the buffer that number 1 names */
byte users;        /* of its window */
byte received, got, fetched;

inline begin_write(v) {
    if
    :: s_abandoned -> sstate = 0; up!ABORT(0)
    :: !s_abandoned && v != 0 -> sstate = 2; posted = 0; placed = 0; to = v
    :: !s_abandoned && v == 0 -> sstate = 0; s_lib = false; up!PART(0)
    fi
}

active proctype sender() {
    mtype kind; byte v;
end: do
    :: atomic { sstate == 0 && sent < MESSAGES && len(up) < 4 ->
        sent++; s_lib = true; s_abandoned = false;
        if :: s_blocking = true :: s_blocking = false fi;
        if
        :: stored -> stored = false; up!PLACED(0); begin_write(stored_to)
        :: !stored -> sstate = 1; s_named = SEND_NAMES; up!RTS(s_named)
        fi }
    :: atomic { nempty(down) && len(up) < 4 -> down?kind(v);
        if
#ifdef M_BOTH_MOVE
        :: kind == RTR && sstate == 1 -> up!DATA(0); begin_write(v)
#else
        :: kind == RTR && sstate == 1 && s_named -> skip /* it is fetched */
        :: kind == RTR && sstate == 1 && !s_named -> up!DATA(0); begin_write(v)
#endif
        :: kind == RTR && sstate != 1 -> stored = true; stored_to = v
        :: kind == CTS -> assert(sstate == 1); begin_write(v)
        :: kind == FIN -> assert(sstate == 1); sstate = 0; s_lib = false
        :: kind == UNDO -> stored = false; up!UNDONE(0)
        fi; v = 0 }
    :: atomic { sstate >= 2 && posted < FRAGMENTS && nfull(up) -> posted++; up!FRAGMENT(to) }
    :: atomic { sstate == 2 && ALL_POSTED && nfull(up) -> sstate = 3; up!WRITTEN(0) }
    :: atomic { sstate == 3 && posted == FRAGMENTS && ALL_PLACED -> sstate = 0; s_lib = false }
    /* a blocking call at its deadline */
    :: atomic { s_blocking && sstate == 1 && !s_abandoned -> s_abandoned = true; s_lib = false }
    :: atomic { s_blocking && sstate == 2 && nfull(up) && STOPPED -> sstate = 0; s_lib = false; up!ABORT(0) }
    od
}

/* It places what has been written, in order, and needs no call of the receiver. */
active proctype network() {
    byte v;
end: do
    :: atomic { up?[FRAGMENT, _] -> up?FRAGMENT(v);
        assert(SENDER_HAS); assert(v == version && users > 0); assert(r_lib || r_revoked);
        placed++; got++; v = 0 }
    od
}

inline name_window() {
    if :: !r_window -> r_window = true; users++ :: else fi
}
inline receive_ends() {
    r_lib = false; rstate = 0; advertised = false; got = 0; fetched = 0;
    if :: r_window -> r_window = false; users-- :: else fi;
    if :: r_revoked -> r_revoked = false; version++ :: else fi /* the window ends with its receive */
}

active proctype receiver() {
    mtype kind; byte v;
end: do
    :: atomic { rstate == 0 && !undoing && received < RECEIVES && len(down) < 4 ->
        received++; r_lib = true; r_abandoned = false; got = 0;
        if :: r_blocking = true :: r_blocking = false fi;
        if
        :: kept && kept_window -> rstate = 4; kept = false
        :: kept && !kept_window -> rstate = 3; kept = false;
            if :: RECEIVE_NAMES -> name_window() :: else fi;
            down!CTS((r_window -> version : 0))
        :: !kept -> rstate = 1; advertised = true;
            if :: RECEIVE_NAMES -> name_window() :: else fi;
            down!RTR((r_window -> version : 0))
        fi }
    :: atomic { nempty(up) && !(up?[FRAGMENT, _]) && len(down) < 4 -> up?kind(v);
        if
        :: kind == RTS && rstate == 1 && !v -> rstate = 2
        :: kind == RTS && rstate == 1 && v && !r_abandoned -> rstate = 4
        :: kind == RTS && rstate == 1 && v && r_abandoned -> receive_ends(); kept = true; kept_window = true
        :: kind == RTS && rstate != 1 -> assert(!kept); kept = true; kept_window = v
        :: kind == PLACED -> assert(rstate == 1); rstate = 3
        :: kind == DATA -> assert(rstate == 2); rstate = 3
        :: kind == PART || kind == ABORT -> assert(rstate == 3); receive_ends()
        :: kind == WRITTEN -> assert(rstate == 3 && r_window && got == FRAGMENTS); receive_ends()
        :: kind == UNDONE -> assert(undoing); undoing = false; if :: rstate == 1 -> receive_ends() :: else fi
        fi; v = 0 }
    /* cancelled, or a blocking call at its deadline, which does not wait for the answer */
    :: atomic { rstate == 1 && !undoing && len(down) < 4 -> undoing = true; down!UNDO(0);
        if :: r_blocking -> r_lib = false; r_abandoned = true; TAKE_BACK :: true fi;
#ifdef M_RELEASE_AT_UNDO
        r_lib = false; if :: r_window -> r_window = false; users-- :: else fi
#endif
        }
    :: atomic { r_blocking && (rstate == 2 || rstate == 3) && !r_abandoned -> r_abandoned = true; r_lib = false; TAKE_BACK }
    :: atomic { rstate == 4 && fetched < FRAGMENTS -> fetched++; assert(s_lib && r_lib) }
    :: atomic { rstate == 4 && (fetched == FRAGMENTS || r_blocking) && len(down) < 4 -> receive_ends(); down!FIN(0) }
    :: atomic { version == 1 && UNUSED -> version = 2 } /* another buffer gets the number; WINDOW precedes what names it */
    od
}
