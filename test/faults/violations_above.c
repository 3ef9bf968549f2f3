/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations_above.c: violations by the peers of what is made of pipes: regions, groups, active messages. See violations.h.
 *
 *     liar_above [ROUNDS]
 *     PAIR_NET=1 liar_above [ROUNDS]     over the simulated network
 */
#include "violations.h"

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 25;
    uint64_t random = seed_of(argc, argv);

    liar_begin(&random);
    lie_about_regions();
    lie_as_partner(&random, rounds);
    lie_in_active_messages(&random, rounds);
    return liar_end(argv[0]);
}
