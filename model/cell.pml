/* cell.pml: which end of a link copies which chunk of a payload, when a send and a receive are complete, and when a cell is used again
 * (lib/msg/cell.h, move.c). One cell, MESSAGES one after the other. Either end may stop calling at any time but within a copy, and
 * give up its request if it is one of a blocking call.
 *
 * A receive is advertised open (its buffer may be written at once), advertised closed, or not at all. A chunk is copied in two steps,
 * taken and done, so that both ends interleave. A copy asserts that both buffers are the library's; if the sender has given up while
 * the receiver copies, the payload is torn, and the receive must not complete with it.
 */
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif
#define STOP 16 /* of next */
#define COUNT (done % 16)
#ifdef M_STOPS
#define TAKEN (next < CHUNKS -> next : CHUNKS)
#else
#define TAKEN (next % STOP)
#endif
#ifdef M_COMPLETE_TAKEN
#define MOVED_ALL (next >= CHUNKS)
#else
#define MOVED_ALL (COUNT == CHUNKS)
#endif
#ifdef M_NO_OPEN
#define OPEN true
#else
#define OPEN open
#endif
#ifdef M_NO_DRAIN
#define DRAINED true
#else
#define DRAINED (COUNT >= taken)
#endif
#ifdef M_NO_BIT
#define S_STOPPED false
#else
#define S_STOPPED s_bit
#endif

byte next, done; bool open, s_bit, r_bit; /* the cell */
bool used;                                /* its sender has not got MOVED */
bool s_own, r_own;                        /* the buffers are the library's */
bool s_copies, r_copies, torn;
byte rtr;                                 /* a receive is advertised: 1 closed, 2 open */
bool s_calls = true, r_calls = true;
byte sent, complete;
mtype = { RTS, PLACED, CTS, MOVED };
chan up = [2] of { mtype }; chan down = [4] of { mtype };
byte sstate; /* 0 idle, 1 offered, 2 moving, 3 has completed or given up, waits for MOVED */
byte rstate; /* 0 idle, 1 posted, 2 arriving, 3 drains */
byte taken; bool abandoned, blocking, advertised;

inline sender_gives_up() { s_bit = true; next = next + STOP; s_own = false; sstate = 3; if :: r_copies -> torn = true :: else fi }

active proctype sender()
{
    byte c; bool mine; mtype kind;

end: do
    :: atomic { s_calls && sstate == 0 && !used && sent < MESSAGES ->
         sent++; used = true; s_own = true; next = 0; done = 0; s_bit = false; r_bit = false; torn = false; open = (rtr == 2);
         if :: rtr != 0 -> sstate = 2; rtr = 0; up!PLACED :: else -> sstate = 1; up!RTS fi }
    :: atomic { s_calls && nempty(down) -> down?kind;
         if
         :: kind == CTS -> if :: sstate == 1 -> sstate = 2 :: else fi
         :: kind == MOVED -> assert(used && !s_copies && !r_copies); used = false; sstate = 0; s_own = false
         fi; kind = 0 }
    :: atomic { s_calls && sstate == 2 && !s_copies && OPEN && next < CHUNKS -> next++; s_copies = true }
    :: atomic { s_copies -> assert(s_own && r_own); done++; s_copies = false }
    :: atomic { s_calls && sstate == 2 && !s_copies && (MOVED_ALL || r_bit) ->
         s_own = false; sstate = 3; assert(r_bit || !r_copies);
#ifdef M_REUSE
         used = false; sstate = 0;
#endif
       }
    :: atomic { s_calls && (sstate == 1 || sstate == 2) && !s_copies -> sender_gives_up() }
    :: atomic { s_calls && !s_copies -> s_calls = false } /* computes for ever */
    od
}

inline receiver_done(good) {
    assert(!s_copies); assert(!good || !torn);
    r_own = false; rstate = 0; complete++; down!MOVED
}

active proctype receiver()
{
    mtype kind;

end: do
    :: atomic { r_calls && rstate == 0 && rtr == 0 && complete < MESSAGES ->
         rstate = 1; r_own = true; abandoned = false;
         if :: blocking = true :: blocking = false fi;
         if :: advertised = true; rtr = (blocking -> 1 : 2) :: advertised = false fi }
    :: atomic { r_calls && rstate == 1 && nempty(up) -> up?kind;
         if :: kind == RTS -> rtr = 0; if :: !abandoned -> down!CTS :: else fi :: else fi;
         if
         :: abandoned -> r_bit = true; taken = TAKEN; next = next + STOP; rstate = 3
         :: else -> open = true; rstate = 2
         fi; kind = 0 }
    :: atomic { r_calls && rstate == 2 && !r_copies && next < CHUNKS -> next++; r_copies = true }
    :: atomic { r_copies -> assert(r_own); if :: !s_own -> torn = true :: else fi; done++; r_copies = false }
    :: atomic { r_calls && rstate == 2 && !r_copies && S_STOPPED && (next >= CHUNKS) -> receiver_done(false) }
    :: atomic { r_calls && rstate == 2 && !r_copies && !S_STOPPED && MOVED_ALL -> receiver_done(true) }
    :: atomic { r_calls && rstate == 2 && !r_copies && blocking -> /* gives up */
         r_bit = true; taken = TAKEN; next = next + STOP; rstate = 3 }
    :: atomic { r_calls && rstate == 3 && DRAINED -> receiver_done(false) }
    :: atomic { r_calls && rstate == 1 && blocking && !abandoned -> abandoned = true; r_own = false } /* its UNDO is in flight */
    :: atomic { r_calls && !r_copies && rstate != 3 -> r_calls = false }
    od
}

/* At rest. */
active proctype rest()
{
end: atomic { timeout ->
    assert(!s_copies && !r_copies && rstate != 3);
    assert(!(s_calls && r_calls) || (rstate != 2 && !(sent > complete && rstate == 1) && (sstate == 0 || rstate == 0)));
    assert(!r_calls || rstate != 2);                          /* the receiver alone */
    assert(!(s_calls && sstate == 2 && open && s_own))       /* the sender alone */
  }
}
