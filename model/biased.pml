/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * biased.pml: a lock that is biased to its owner (lib/util/biased.h): at most one thread is inside, and no thread waits for ever.
 *
 * N threads enter ROUNDS times each; one that is not the owner may also give up where the owner is inside, and need not become the owner. The store of `inside` stays in the store buffer of its thread until that is drained, which happens
 * at any moment, or by the membarrier of another thread. All other stores are followed by a call of the kernel or a mutex.
 *
 * Mutants: M_NO_BARRIER (no fence in the owner), M_LOOK_FIRST (`revoked` is loaded before the store of `inside`), M_CHANGES (another
 * thread may become the owner: the store with which the old one leaves hides that of the new one).
 *
 * DISOWN: what the lock protects is used again by others (biased_disown): once, while no call is in progress, the owner is forgotten. Its last store may
 * still be in its buffer. Mutant: M_IN_USE (a call is in progress: the owner that was forgotten is on its way in).
 */
#ifndef N
#define N 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

byte owner = 0; /* threads are 1 to N */
bit inside = 0, revoked = 0, mutex = 0;
bit pending[N + 1], value[N + 1]; /* the store buffer of each thread */
byte in_section = 0;
byte calls = 0; /* DISOWN: threads in a call */
bit disowning = 0;

inline drain(t)
{
    d_step {
        if
        :: pending[t] -> inside = value[t]; pending[t] = 0
        :: else
        fi
    }
}

inline section()
{
    in_section++;
    assert(in_section == 1);
    in_section--
}

inline revoke()
{
    revoked = 1;
#ifndef M_NO_BARRIER
    drain(1);
    drain(2);
#if N > 2
    drain(3);
#endif
#endif
}

inline as_other(t)
{
    atomic { mutex == 0 -> mutex = 1 };
    drain(t);
    revoke();
    if
    :: inside == 0 ->
        if
        :: owner == 0 -> owner = t
        :: true
#ifdef M_CHANGES
        :: owner = t
#endif
        fi;
        section()
    :: inside == 1 && owner != t -> skip /* it gives up */
    fi;
    revoked = 0;
    mutex = 0
}

active [N] proctype thread()
{
    byte t = _pid + 1, n = 0;
    bit r;

    do
    :: n == ROUNDS -> break
    :: n < ROUNDS ->
        n++;
        atomic { disowning == 0 -> calls++ };
        if
        :: owner == t ->
#ifdef M_LOOK_FIRST
            r = revoked;
#endif
            atomic { value[t] = 1; pending[t] = 1 };
#ifndef M_LOOK_FIRST
            r = revoked;
#endif
            if
            :: r == 0 ->
                section();
                atomic { value[t] = 0; pending[t] = 1 }
            :: else ->
                atomic { value[t] = 0; pending[t] = 1 };
                as_other(t)
            fi
        :: else -> as_other(t)
        fi;
        calls--
    od;
    drain(t)
}

active proctype buffers() /* drains any buffer at any moment */
{
end:
    do
    :: d_step { pending[1] -> inside = value[1]; pending[1] = 0 }
    :: d_step { pending[2] -> inside = value[2]; pending[2] = 0 }
#if N > 2
    :: d_step { pending[3] -> inside = value[3]; pending[3] = 0 }
#endif
    od
}

#ifdef DISOWN
active proctype next_use()
{
#ifdef M_IN_USE
    disowning = 1;
#else
    atomic { calls == 0 -> disowning = 1 };
#endif
    atomic { mutex == 0 -> mutex = 1 };
    revoke();
    inside == 0;
    owner = 0;
    revoked = 0;
    mutex = 0;
    disowning = 0
}
#endif
