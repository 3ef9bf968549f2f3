/*
 * agree.pml: agreements of the members of a team (lib/coll/engine/agree.h). N members make K agreements; up to F of them die, at any
 * step. Each contributes a flag; a decision is a flag, and the dead.
 *
 * HOST: contributions and estimates are words of a board, which stay readable after a death. The first living member decides: those
 * before it have died without an estimate. The words are stored again for the next agreement, since no estimate of it is made before
 * all that live have ended this one.
 *
 * NET: messages, in order between two members. A death may be noticed before messages that were sent earlier are received, which are
 * then lost. There is a round for each member, whose estimate all others take over.
 *
 * What is verified: those that decide decide the same; a member that is not among the dead has contributed to the flag; one that lives
 * is not among the dead; and no wait is for ever (an invalid end state).
 *
 *   M_...       one rule is taken away
 */
#ifndef N
#define N 3
#endif
#ifndef K
#define K 1
#endif
#ifndef F
#define F 2
#endif

byte deaths;
bool dead[N];
bool flag[N * (K + 1)];                 /* what each contributes to each agreement */
bool decided[K + 1], decision[K + 1];   /* by the first that has decided */
byte buried[K + 1];                     /* a bit for each dead */

#define MAY_DIE         if :: deaths < F -> atomic { deaths++; dead[me] = true; goto over } :: skip fi
#define BIT(i)          (1 << (i))

/* Member me has decided. */
inline decide(value, bits)
{
    d_step {
        assert((bits & BIT(me)) == 0);                  /* it lives */
        if
        :: !decided[k] -> decided[k] = true; decision[k] = value; buried[k] = bits
        :: else -> assert(decision[k] == value && buried[k] == bits)
        fi;
        i = 0;
        do
        :: i < N ->
            assert((bits & BIT(i)) != 0 || !value || flag[i * (K + 1) + k]);
            i++
        :: else -> break
        od;
        i = 0
    }
}

#if defined(HOST)

byte contributed[N], estimated[N];      /* numbers, stored last */
bool contribution[N], estimate[N];
byte estimate_dead[N];

proctype Member(byte me)
{
    byte k = 1, i, round, bits;
    bool value, gone, have;

    do
    :: k <= K ->
        MAY_DIE;
        if :: flag[me * (K + 1) + k] = true :: skip fi;
        contribution[me] = flag[me * (K + 1) + k];
        MAY_DIE;
        contributed[me] = k;                        /* release */
        round = 0; have = false;
        do
        :: have || round == N -> break
        :: else ->
            MAY_DIE;
            if
            :: round == me ->
                value = flag[me * (K + 1) + k]; bits = 0; i = 0;
                do
                :: i == N -> break
                :: i == me -> i++
                :: i < N && i != me ->
                    if
                    :: dead[i] -> bits = bits | BIT(i); i++
#if defined(M_NO_WAIT)
                    :: skip -> value = value && (contributed[i] != k || contribution[i]); i++
#else
                    :: contributed[i] == k -> value = value && contribution[i]; i++
#endif
                    fi
                od;
                MAY_DIE;
#if defined(M_NUMBER_FIRST)
                estimated[me] = k; MAY_DIE; estimate[me] = value; estimate_dead[me] = bits;
#else
                estimate[me] = value; estimate_dead[me] = bits; MAY_DIE; estimated[me] = k;
#endif
                MAY_DIE;
                have = true
            :: round != me ->
                gone = false;
#if defined(M_GONE_AFTER)
                if
                :: estimated[round] == k -> have = true
                :: estimated[round] != k -> (dead[round] || estimated[round] == k); gone = dead[round]
                fi;
#else
                if :: dead[round] -> gone = true :: estimated[round] == k fi;   /* waits for either; death is noted first */
                if :: estimated[round] == k -> have = true :: else fi;
#endif
                if
                :: have ->
                    value = estimate[round]; bits = estimate_dead[round]
                :: !have && gone -> round++
                :: else                                 /* once more */
                fi
            fi
        od;
        decide(value, bits);
        value = false; bits = 0; gone = false;
        k++
    :: else -> break
    od;
over: skip
}

#else /* NET */

#define CONTRIBUTION    0
#define ESTIMATE        1
chan line[N * N] = [2 * K] of { bit, byte, bool, byte };        /* from * N + to: kind, number, flag, dead */
#define LINE(from, to)  line[(from) * N + (to)]

/* To all others, of which any prefix is sent when the sender dies. */
inline send(kind, value, bits)
{
    to = 0;
    do
    :: to == N -> break
    :: to == me -> to++
    :: to < N && to != me -> MAY_DIE; LINE(me, to)!kind, k, value, bits; to++
    od;
    to = 0
}

proctype Member(byte me)
{
    byte k = 1, i, to, round, bits, number, others;
    bit kind;
    bool value, have, other;
    bool gone[N], got[2 * N], got_flag[2 * N];
    byte got_dead[N];

    do
    :: k <= K ->
        MAY_DIE;
        if :: flag[me * (K + 1) + k] = true :: skip fi;
        send(CONTRIBUTION, flag[me * (K + 1) + k], 0);
        round = 0; have = false;
        do
        :: round == N -> break
        :: round < N && round == me ->
#if defined(M_NO_TAKE_OVER)
            have = false;
#endif
            if
            :: !have ->
                value = flag[me * (K + 1) + k]; bits = 0; i = 0;
                do
                :: i == N -> break
                :: i == me -> i++
                :: i < N && i != me ->
                    if
                    :: !got[CONTRIBUTION * N + i] && !gone[i] ->
                        if
                        :: LINE(i, me)?kind, number, other, others ->
                            got[kind * N + i] = (number == k); got_flag[kind * N + i] = other;
                            if :: kind == ESTIMATE -> got_dead[i] = others :: else fi
                        :: dead[i] -> gone[i] = true    /* what it has sent may be lost */
                        fi
                    :: gone[i] -> bits = bits | BIT(i); i++
                    :: got[CONTRIBUTION * N + i] && !gone[i] -> value = value && got_flag[CONTRIBUTION * N + i]; i++
                    fi
                od;
                have = true
            :: else
            fi;
            send(ESTIMATE, value, bits);
            round++
#if defined(M_FIRST_DECIDES)
            ; break
#endif
        :: round < N && round != me ->
            if
            :: got[ESTIMATE * N + round] ->
                value = got_flag[ESTIMATE * N + round]; bits = got_dead[round]; have = true; round++;
#if defined(M_FIRST_DECIDES)
                break
#endif
            :: !got[ESTIMATE * N + round] && !gone[round] ->
                if
                :: LINE(round, me)?kind, number, other, others ->
                    got[kind * N + round] = (number == k); got_flag[kind * N + round] = other;
                    if :: kind == ESTIMATE -> got_dead[round] = others :: else fi
                :: dead[round] -> gone[round] = true
                fi
            :: !got[ESTIMATE * N + round] && gone[round] -> round++
            fi
        od;
        if
        :: (bits & BIT(me)) == 0 -> decide(value, bits)
        :: else -> assert(false)                        /* one that lives is never taken for dead */
        fi;
        d_step {
            i = 0;
            do :: i < 2 * N -> got[i] = false; got_flag[i] = false; i++ :: else -> break od;
            i = 0; value = false; bits = 0; have = false; number = 0; other = false; others = 0; kind = 0;
            k++
        }
    :: else -> break
    od;
over: skip
}

#endif

init
{
    byte m;

    atomic {
        m = 0;
        do :: m < N -> run Member(m); m++ :: else -> break od
    }
}
