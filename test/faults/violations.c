/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations.c: lies to pipes. Meant to be run under AddressSanitizer too.
 *
 *     liar [FUZZ_ROUNDS]
 *     PAIR_NET=1 liar [FUZZ_ROUNDS]     over the simulated network: lies in memory, in slots that are sealed as they should be
 */
#include "violations.h"

static void lie_about_everything(uint64_t *random, int rounds)
{
    if (freopen("/dev/null", "w", stderr) ==
        NULL) /* "cannot be joined", hundreds of times, is what is wanted here */
        exit(99);
    lie_in_memory();
    lie_about_growth();
    lie_under_feet(random, rounds);
    lie_in_growth_storms(random, rounds / 2);
    lie_in_messages(random, rounds);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    uint64_t random = seed_of(argc, argv);

    liar_begin(&random);
    if (getenv("PAIR_NET") !=
        NULL) /* what is wrong may come later than it was stored: what must never happen can be said */
        lie_under_feet(&random, rounds);
    else
        lie_about_everything(&random, rounds);
    return liar_end(argv[0]);
}
