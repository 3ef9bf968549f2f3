/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * roots.cc: messages without a copy, which have one owner at a time.
 *
 * Rank 0 sends squares to rank 1, which answers each with its root. A message that was allocated and not sent returns to its heap,
 * one that was received is freed, a pipe closes, the job ends: all by destructors, also when an exception passes.
 */
#include <rpipe.hpp>

#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace
{

struct question {
    double square;
    char padding[200]; /* so large that it does not travel in a slot */
};

constexpr int questions = 1000;

double ask(rpipe::writer &out, rpipe::reader &in)
{
    double sum = 0;

    for (int i = 0; i < questions; i++) {
        auto unsent = out.alloc<question>(); /* returns to the heap at the end of this block */
        auto q = out.alloc<question>();      /* memory of rank 1 */

        q->square = static_cast<double>(i) * i;
        q.send();
        sum += in.recv<double>();
    }
    return sum;
}

void answer(rpipe::writer &out, rpipe::reader &in)
{
    while (auto q = in.read<question>()) /* empty behind the last one */
        out.send(std::sqrt(q->square));
}

} // namespace

int main()
try {
    rpipe::job job;

    if (job.size() != 2)
        throw std::invalid_argument("this takes two processes");
    rpipe::config cfg = rpipe::config().heap(1 << 16);
    rpipe::writer out(1 - job.rank(), cfg);
    rpipe::reader in(1 - job.rank(), cfg);

    if (job.rank() == 1) {
        answer(out, in);
        return 0;
    }
    const double sum = ask(out, in), expected = questions * (questions - 1) / 2.0;

    std::printf("the roots of %d squares sum up to %.0f\n", questions, sum);
    return std::fabs(sum - expected) < 0.5 ? 0 : 1;
} catch (const std::exception &e) {
    std::fprintf(stderr, "roots: %s\n", e.what());
    return 1;
}
