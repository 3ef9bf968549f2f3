/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * latency.c: what latency.py measures, in C, on the same two pipes. Built and loaded by latency.py.
 */
#include <rpipe.h>
#include <stdint.h>

int trips(void *out, void *in, long n, int first);

static int receive(rch_t in, uint64_t *word)
{
    int rc;

    do
        rc = rrecv(in, word, sizeof(*word), NULL, 0);
    while (rc == -ETIMEDOUT); /* the package waits in slices of 50 ms, by the deadline of the end */
    return rc;
}

/* n round trips of 8 bytes; 0 or the error. */
int trips(void *out, void *in, long n, int first)
{
    uint64_t word = 0;
    int rc = 0;

    while (n-- > 0 && rc == 0) {
        if (first)
            rc = rsend(out, &word, sizeof(word), 0);
        if (rc == 0)
            rc = receive(in, &word);
        if (rc == 0 && !first)
            rc = rsend(out, &word, sizeof(word), 0);
    }
    return rc;
}
