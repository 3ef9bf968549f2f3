/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations_above.c: violations by the peers of what is made of pipes: regions, groups, active messages. See violations.h.
 *
 *     violations_above [ROUNDS]
 *     PAIR_NET=1 violations_above [ROUNDS]     over the simulated network
 */
#include "violations.h"

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 25;
    uint64_t random = seed_of(argc, argv);

    violations_begin(&random);
    violate_regions();
    violate_groups(&random, rounds);
    violate_active_messages(&random, rounds);
    return violations_end(argv[0]);
}
