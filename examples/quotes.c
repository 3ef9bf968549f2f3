/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quotes.c: prices that one process sends to all others, by a cast (rcast(3)).
 *
 * Rank 0 sends quotes, each of them a message of one cache line, and from time to time a snapshot of all prices, which each reader
 * reads where rank 0 has written it. A reader applies the quotes to prices of its own, and compares them with each snapshot.
 *
 *     mpirun -n 4 quotes
 */
#include <rcast.h>

#include "must.h"

#define INSTRUMENTS 5000
#define QUOTES 200000
#define SNAPSHOT_EVERY 20000

struct quote {
    uint64_t number;
    uint32_t instrument, price;
};

static uint32_t prices[INSTRUMENTS];

static void apply(const struct quote *quote) { prices[quote->instrument] = quote->price; }

/* ---- rank 0 ---- */

static struct quote next_quote(uint64_t number)
{
    uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x ^= x >> 29;
    return (struct quote){number, (uint32_t)(x % INSTRUMENTS), (uint32_t)(x >> 40)};
}

static void send_snapshot(rcast_t cast)
{
    void *mem;

    MUST(NULL, rcast_alloc(cast, sizeof(prices), &mem, 0));
    memcpy(mem, prices, sizeof(prices));
    MUST(NULL, rcast_write(cast, mem, sizeof(prices), 0));
}

static void send_all(rcast_t cast)
{
    for (uint64_t i = 0; i < QUOTES; i++) {
        const struct quote quote = next_quote(i);

        apply(&quote);
        MUST(NULL, rcast_send(cast, &quote, sizeof(quote), 0));
        if ((i + 1) % SNAPSHOT_EVERY == 0)
            send_snapshot(cast);
    }
}

/* ---- all others ---- */

static void receive_all(rcast_t cast)
{
    uint64_t quotes = 0, snapshots = 0;
    const void *mem;
    size_t bytes;
    int rc;

    while ((rc = rcast_read(cast, &mem, &bytes, 0)) == R_SUCCESS) {
        if (bytes == sizeof(struct quote)) {
            const struct quote *quote = mem;

            MUST_HOLD(quote->number == quotes++);
            apply(quote);
        } else {
            MUST_HOLD(bytes == sizeof(prices) && memcmp(mem, prices, bytes) == 0);
            snapshots++;
        }
        MUST(NULL, rcast_free(cast, mem));
    }
    MUST_HOLD(rc == R_EOF);
    MUST_HOLD(quotes == QUOTES && snapshots == QUOTES / SNAPSHOT_EVERY);
}

int main(int argc, char **argv)
{
    rcast_config_t cfg = {0}; /* rank 0 writes */
    int rank, nranks;
    rcast_t cast;

    must_be_alone(argc, argv, "Prices that one process sends to all others, by a cast.",
                  "mpirun -n 4 quotes");
    MUST(NULL, rinit(&rank, &nranks));
    if (nranks < 2) {
        fprintf(stderr, "quotes: requires 2 processes or more\n");
        network_abort(2);
    }
    MUST(NULL, rcast_open(&cast, &cfg, NULL, nranks));
    if (rank == 0)
        send_all(cast);
    else
        receive_all(cast);
    MUST(NULL, rcast_close(cast));
    if (rank == 0)
        printf("%d quotes and %d snapshots to %d readers\n", QUOTES, QUOTES / SNAPSHOT_EVERY,
               nranks - 1);
    MUST(NULL, rexit());
    return 0;
}
