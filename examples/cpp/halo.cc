/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo.cc: the heat equation of doc/tutorial.md in C++: bands of rows, whose outermost rows are computed straight into memory of the
 * neighbors and read there in place. Every rank compares its band with the whole plate as it computes it alone.
 */
#include <rpipe.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <vector>

namespace
{

constexpr int n = 96, steps = 500;
enum { up, down };

using row = std::array<double, n>;
const row rim{}; /* zeros, beyond the plate */

void compute(row &out, const row &above, const row &here, const row &below)
{
    for (std::size_t x = 0; x < n; x++) {
        double left = x > 0 ? here[x - 1] : 0, right = x + 1 < n ? here[x + 1] : 0;

        out[x] = here[x] + 0.24 * ((above[x] + below[x]) + (left + right) - 4 * here[x]);
    }
}

std::vector<row> start(int first, int rows)
{
    std::vector<row> plate(static_cast<std::size_t>(rows));

    for (int y = 0; y < rows; y++)
        for (int x = 0; x < n; x++)
            plate[std::size_t(y)][std::size_t(x)] =
                (first + y - 30) * (first + y - 30) + (x - 40) * (x - 40) < 300 ? 1 : 0;
    return plate;
}

/* One side of a band: the row that arrived, and the row that is being made in memory of the neighbor. */
struct border {
    explicit border(rpipe::neighbor &neighbor) : pipes(neighbor) {}
    const row &arrived() const { return reading ? *reading : rim; }
    void send(const row &values)
    {
        if (!pipes.out)
            return;
        auto message = pipes.out.alloc<row>();

        *message = values;
        message.send();
    }
    void read()
    {
        if (pipes.in)
            reading = pipes.in.read<row>();
    }

    rpipe::neighbor &pipes;
    rpipe::message<row> reading;
};

void step(std::vector<row> &next, const std::vector<row> &now, std::vector<border> &borders,
          bool last)
{
    const std::size_t rows = now.size();

    for (border &b : borders)
        b.read();
    for (std::size_t side :
         {up, down}) { /* the outermost rows first: the neighbors wait for them */
        const std::size_t y = side == up ? 0 : rows - 1;
        const row &above = y > 0 ? now[y - 1] : borders[up].arrived();
        const row &below = y + 1 < rows ? now[y + 1] : borders[down].arrived();

        if (!last && borders[side].pipes.out) {
            auto message = borders[side].pipes.out.alloc<row>();

            compute(*message, above, now[y], below);
            next[y] = *message;
            message.send();
        } else {
            compute(next[y], above, now[y], below);
        }
    }
    for (border &b : borders)
        b.reading = {}; /* the neighbor may use the memory again */
    for (std::size_t y = 1; y + 1 < rows; y++)
        compute(next[y], now[y - 1], now[y], now[y + 1]);
}

std::vector<row> run(std::vector<row> now, std::vector<rpipe::neighbor> neighbors)
{
    std::vector<row> next(now.size());
    std::vector<border> borders;

    for (rpipe::neighbor &neighbor : neighbors)
        borders.emplace_back(neighbor);
    borders[up].send(now.front());
    borders[down].send(now.back());
    for (int s = 1; s <= steps; s++) {
        step(next, now, borders, s == steps);
        std::swap(now, next);
    }
    return now;
}

} // namespace

int main()
try {
    rpipe::job job;
    const int rank = job.rank(), ranks = job.size();
    const int first = n * rank / ranks, rows = n * (rank + 1) / ranks - first;
    const int above = rank > 0 ? rank - 1 : R_NO_PEER,
              below = rank + 1 < ranks ? rank + 1 : R_NO_PEER;
    rpipe::config cfg = rpipe::config().heap(3 * sizeof(row));

    auto mine =
        run(start(first, rows), rpipe::neighbors({{above, up, down}, {below, down, up}}, cfg));
    auto all = run(start(0, n), rpipe::neighbors({{R_NO_PEER, up, down}, {R_NO_PEER, down, up}}));

    if (!std::equal(mine.begin(), mine.end(), all.begin() + first)) {
        std::fprintf(stderr, "rank %d: another result than that of one process\n", rank);
        return 1;
    }
    std::printf("rank %d: %d rows, as one process computes it\n", rank, rows);
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "halo: %s\n", e.what());
    return 1;
}
