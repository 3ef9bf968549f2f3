/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ping.cc: a number goes back and forth between two processes. Each rank increments it; a failure is an exception.
 */
#include <rpipe.hpp>

#include <cstdio>
#include <exception>

int main()
try {
    rpipe::job job;
    rpipe::writer out(1 - job.rank());
    rpipe::reader in(1 - job.rank());
    int n = 0;

    for (int i = 0; i < 10000; i++) {
        if (job.rank() == 0)
            out.send(n);
        n = in.recv<int>() + 1;
        if (job.rank() == 1)
            out.send(n);
    }
    std::printf("rank %d: %d\n", job.rank(), n);
    return n != 20000 - job.rank();
} catch (const std::exception &e) {
    std::fprintf(stderr, "ping: %s\n", e.what());
    return 1;
}
