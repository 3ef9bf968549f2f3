/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations.c: protocol violations by the peer of a pipe. To be run under AddressSanitizer too.
 *
 *     violations [FUZZ_ROUNDS]
 *     PAIR_NET=1 violations [FUZZ_ROUNDS]     over the simulated network: violations in memory, in slots that are sealed as they should be
 */
#include "violations.h"

static void violate_everything(uint64_t *random, int rounds)
{
    if (freopen("/dev/null", "w", stderr) ==
        NULL) /* "cannot be joined" is expected here, hundreds of times */
        exit(99);
    violate_memory();
    violate_growth();
    violate_memory_in_use(random, rounds);
    violate_growth_in_use(random, rounds / 2);
    violate_messages(random, rounds);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    uint64_t random = seed_of(argc, argv);

    violations_begin(&random);
    if (getenv("PAIR_NET") !=
        NULL) /* what is wrong may arrive later than it was stored: only what must never happen can be checked */
        violate_memory_in_use(&random, rounds);
    else
        violate_everything(&random, rounds);
    return violations_end(argv[0]);
}
