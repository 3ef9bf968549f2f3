/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * opening.pml: how two members of a board get each other's memory, for BOARDS boards one after the other (doc/boards.md "Messages").
 *
 * Messages between two ranks are in order. A board is registered, and announced by an OPEN that requests an answer; an OPEN for a board
 * that is not registered is ignored. An OPEN that requests is not answered if the receiver's own OPEN for this board will reach, or has
 * reached, the other one after that has registered it: the request has the number `got` of OPENs that had been received by then.
 * Property: no member waits for ever (invalid end states).
 *
 * Mutants: M_NEVER: never answered. M_AT_ANNOUNCEMENT: `got` is taken when the OPEN is sent, and what arrived since the registration
 * counts as ignored: correct, but answers more (a good configuration). M_BEFORE: `got` is taken before the registration.
 */
#ifndef BOARDS
#define BOARDS 2
#endif

chan wire[2] = [2 * BOARDS + 2] of { byte, bool, byte }; /* to each: number of the board, whether it requests, got */
byte registered[2], sent[2], mine[2], got[2], before[2];
bool have[2], answered[2], announced[2];

inline register(me, number)
{
#ifdef M_BEFORE
    before[me] = got[me];
#endif
    atomic {
        registered[me] = number;
        have[me] = false;
        answered[me] = false;
        mine[me] = 0;
#ifndef M_BEFORE
        before[me] = got[me];
#endif
    }
}

proctype member(byte me)
{
    byte number = 1;

    do
    :: number <= BOARDS ->
        register(me, number);
        atomic { /* announce, unless the memory has come and was answered */
            if
            :: !have[me] ->
                sent[me]++;
                mine[me] = sent[me];
#ifdef M_AT_ANNOUNCEMENT
                before[me] = got[me];
#endif
                wire[1 - me]!number, true, before[me]
            :: else
            fi
        }
        have[me];
        registered[me] = 0;
        number++
    :: else -> break
    od
}

proctype service(byte me)
{
    byte number, ignored;
    bool request;

end:
    do
    :: atomic {
        wire[me]?number, request, ignored ->
        got[me]++;
        if
        :: registered[me] == number ->
#ifndef M_NEVER
            if
            :: request && !answered[me] && mine[me] <= ignored ->
                answered[me] = true;
                sent[me]++;
                wire[1 - me]!number, false, 0
            :: else
            fi;
#endif
            have[me] = true
        :: else
        fi
    }
    od
}

init
{
    atomic {
        run member(0);
        run member(1);
        run service(0);
        run service(1)
    }
}
