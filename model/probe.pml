/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.pml: members of a team, all on hosts of their own, that have begun one of two operations as the same number (lib/coll/engine/compare.c).
 *
 * Of the operation of a member only the messages that it waits for matter. A plan has no cycle, so a member waits, of those that have begun the same,
 * for some with a lower index; and for any of those that have begun the other one. A member begins whenever it likes, and ends when all that it
 * waits for has come. While it waits it sends probes to those that it awaits, and compares those that come; before it begins, it waits in an earlier
 * operation, and ignores them. When it has ended it is elsewhere, and compares nothing. Of each member the receiver keeps one probe. A probe is sent again
 * until it has been compared: what is compared once more changes nothing.
 *
 * When nothing more happens, and the team has not failed,
 *
 *     two_wait        no member waits for another one that waits, too, and has begun the other operation;
 *     one_elsewhere   if any waits, one of them waits for a member that has ended the other operation, and is elsewhere.
 *
 * Mutants: M_ONCE: one probe for each member that is awaited. M_FIRST: to the first of them alone. M_PIPE: only a member that waits for a message of
 * the sender has the pipe by which a probe comes.
 */
#ifndef N
#define N 3
#endif
#define BIT(i) (1 << (i))
#ifdef ONE /* each waits for one other member at most */
#define MAY_AWAIT(m) (awaits[m] == 0)
#else
#define MAY_AWAIT(m) true
#endif

byte kind[N];             /* which operation each begins */
byte awaits[N], got[N];   /* a bit for each member whose message it waits for; whose has come */
bool begun[N], over[N];
byte inbox[N];            /* a bit for each member whose probe has come */
byte sent[N], settled[N]; /* a bit for each member that has been sent a probe; that has compared it */
bool failed;

#define AWAITS(m, k) ((awaits[m] & ~got[m] & BIT(k)) != 0)
#define WAITS(m) (begun[m] && !over[m] && !failed)
#ifdef M_ONCE
#define ASKED(m, k) ((sent[m] & BIT(k)) != 0)
#else
#define ASKED(m, k) ((settled[m] & BIT(k)) != 0 || (inbox[k] & BIT(m)) != 0)
#endif
#ifdef M_FIRST
#define MAY_ASK(m, k) ((awaits[m] & ~got[m] & (BIT(k) - 1)) == 0)
#else
#define MAY_ASK(m, k) true
#endif
#ifdef M_PIPE
#define ARRIVES(m, k) (!begun[k] || AWAITS(k, m))
#else
#define ARRIVES(m, k) true
#endif

inline ask(k)
{
    sent[me] = sent[me] | BIT(k);
    if
    :: ARRIVES(me, k) -> inbox[k] = inbox[k] | BIT(me)
    :: else -> settled[me] = settled[me] | BIT(k)
    fi
}
#define ASK(k) atomic { WAITS(me) && AWAITS(me, k) && !ASKED(me, k) && MAY_ASK(me, k) -> ask(k) }

inline compare(k)
{
    inbox[me] = inbox[me] & ~BIT(k);
    settled[k] = settled[k] | BIT(me);
    if
    :: kind[k] != kind[me] -> failed = true
    :: else
    fi
}
#define COMPARE(k) atomic { WAITS(me) && (inbox[me] & BIT(k)) != 0 -> compare(k) }

/* Its messages come to those that have begun the same, or will. */
inline end_operation()
{
    over[me] = true;
    k = 0;
    do
    :: k < N ->
        if
        :: kind[k] == kind[me] -> got[k] = got[k] | BIT(me)
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

proctype member(byte me)
{
    byte k;

    do
    :: atomic { inbox[me] != 0 -> inbox[me] = 0 }
    :: begun[me] = true -> break
    od;
end:
    do
    :: atomic { WAITS(me) && (awaits[me] & ~got[me]) == 0 -> end_operation() }
    :: ASK(0)
    :: ASK(1)
    :: COMPARE(0)
    :: COMPARE(1)
#if N > 2
    :: ASK(2)
    :: COMPARE(2)
#endif
#if N > 3
    :: ASK(3)
    :: COMPARE(3)
#endif
    od
}

/* Any two operations, and any plans of them; which of the two is the first one does not matter. */
inline choose()
{
    m = 1;
    do
    :: m < N ->
        if
        :: kind[m] = 0
        :: kind[m] = 1
        fi;
        m++
    :: else -> break
    od;
    m = 0;
    do
    :: m < N ->
        k = 0;
        do
        :: k < N ->
            if
            :: k != m && (kind[k] != kind[m] || k < m) && MAY_AWAIT(m) -> awaits[m] = awaits[m] | BIT(k)
            :: true
            fi;
            k++
        :: else -> break
        od;
        m++
    :: else -> break
    od
}

init
{
    byte m, k;
    bool two_wait, one_elsewhere, any_waits;

    atomic {
        choose();
        m = 0;
        do
        :: m < N -> run member(m); m++
        :: else -> break
        od;
        m = 0;
        k = 0
    }
    timeout;
    d_step {
        do
        :: m < N * N ->
            k = m % N;
            any_waits = any_waits || WAITS(m / N);
            if
            :: WAITS(m / N) && AWAITS(m / N, k) && kind[k] != kind[m / N] ->
                two_wait = two_wait || !over[k];
                one_elsewhere = one_elsewhere || over[k]
            :: else
            fi;
            m++
        :: else -> break
        od
    }
    assert(!two_wait);
    assert(!any_waits || one_elsewhere)
}
