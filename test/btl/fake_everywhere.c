/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_everywhere.c: linked with a unit test of pipes and fake_verbs.c: its pipes are in streams with contexts of their own (test/lib/pair.h). The
 * device ends the program where a key or a queue is of another context.
 */
#include <stdlib.h>

__attribute__((constructor)) static void everywhere_begin(void)
{
    (void)setenv("PAIR_STREAMS", "everywhere", 0);
}
