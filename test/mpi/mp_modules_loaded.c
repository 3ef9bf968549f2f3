/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job on one host loads no network library: pipes from each rank to each other one and to itself, used, and then a check of
 * what is mapped. With RPIPE_BTL set to something else than shm there is nothing to check.
 */
#include "test/lib/mp_check.h"
#include "test/lib/counts.h"
#include <rpipe.h>

enum { HEAP = 4096 };

static bool mapped(const char *library)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4352];
    bool found = false;

    CHECK(NULL, maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL)
        found |= strstr(line, library) != NULL;
    fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    static const char *const libraries[] = {"libfabric", "libibverbs",  "librdmacm",
                                            "libmpi",    "btl_ofi",     "btl_verbs",
                                            "btl_tcp",   "btl_openmpi", "btl_mpich"};
    bool there[sizeof(libraries) / sizeof(libraries[0])], at_once;
    struct pipe_transport transport = {0};
    rch_t w, r;

    mp_begin(argc, argv, 1);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        there[i] = mapped(libraries[i]); /* by the launcher's own client */
    for (int k = 0; k < mp_ranks; k++) {
        int to = (mp_rank + k) % mp_ranks, from = (mp_rank + mp_ranks - k) % mp_ranks;

        CHECK_OK(NULL, mp_open(&w, true, to, 0, k % 2 == 0 ? RPIPE_PUT : RPIPE_GET, HEAP, 8));
        CHECK_OK(NULL, mp_open(&r, false, from, 0, k % 2 == 0 ? RPIPE_PUT : RPIPE_GET, HEAP, 8));
        mp_send(w, 1000, mp_key(mp_rank, to, 0, 0));
        mp_read_free(r, 1000, mp_key(from, mp_rank, 0, 0));
        at_once = mp_at_once(w);
        CHECK_OK(w, pipe_transport(w, &transport));
        CHECK(w, transport.why[0] != '\0' && transport.path[0] != '\0');
        CHECK_OK(w, rclose(w));
        CHECK_OK(r, rclose(r));
        for (size_t i = 0; at_once && i < sizeof(libraries) / sizeof(libraries[0]); i++)
            if (mapped(libraries[i]) && !there[i])
                REQUIRE(false, "a pipe through shm has loaded %s", libraries[i]);
    }
    return mp_end();
}
