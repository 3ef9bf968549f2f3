// SPDX-License-Identifier: BSD-3-Clause
/*
 * teams.cc: teams and plans of <rcoll.hpp>, of any number of ranks: each operation against what it must give, ownership, failures.
 */
#include <rcoll.hpp>

#include <array>
#include <cstdio>
#include <numeric>

namespace
{

int failures;

void check(bool holds, const char *what, int line)
{
    if (holds)
        return;
    std::fprintf(stderr, "teams.cc:%d: does not hold: %s; \"%s\"\n", line, what,
                 rpipe::last_error());
    failures++;
}
#define CHECK(...) check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __LINE__)

void values(rpipe::team &team)
{
    const int n = team.size(), me = team.rank();

    team.barrier();
    CHECK(team.allreduce(me + 1) == n * (n + 1) / 2);
    CHECK(team.allreduce(me + 0.5, RGROUP_MAX) == n - 0.5);
    CHECK(team.allreduce(std::complex<double>(1, me)) == std::complex<double>(n, n * (n - 1) / 2));
    const auto all = team.allgather(std::array<int, 2>{me, -me});
    for (int i = 0; i < n; i++)
        CHECK(all[static_cast<std::size_t>(i)] == std::array<int, 2>{i, -i});
    const auto at_last = team.gather(static_cast<std::int64_t>(me), n - 1);
    CHECK(at_last.size() == (me == n - 1 ? static_cast<std::size_t>(n) : 0));
    CHECK(at_last.empty() || at_last.front() == 0);
}

void containers(rpipe::team &team)
{
    const auto n = static_cast<std::size_t>(team.size()),
               me = static_cast<std::size_t>(team.rank());
    std::vector<std::uint32_t> numbers(1000), to_all(3 * n);

    std::iota(numbers.begin(), numbers.end(), 0u);
    team.allreduce(numbers);
    CHECK(numbers[999] == 999 * n);
    team.reduce(numbers, 0, RGROUP_MAX);
    CHECK(me != 0 || numbers[1] == n);
    std::iota(numbers.begin(), numbers.end(), 7 * static_cast<std::uint32_t>(me));
    team.bcast(numbers, team.size() - 1);
    CHECK(numbers[0] == 7 * (n - 1));
    for (std::size_t i = 0; i < to_all.size(); i++)
        to_all[i] = static_cast<std::uint32_t>(100 * me + i);
    const auto got = team.alltoall(to_all);
    for (std::size_t i = 0; i < got.size(); i++)
        CHECK(got[i] == 100 * (i / 3) + 3 * me + i % 3);
}

void plans(rpipe::team &team)
{
    std::vector<double> sum(100);
    rpipe::plan plan = team.plan(rpipe::allreduce(sum)), moved;

    for (int round = 1; round <= 3; round++) {
        std::fill(sum.begin(), sum.end(), round);
        plan.start();
        while (plan.try_wait(rpipe::nowait).pending())
            ;
        CHECK(sum[99] == round * team.size());
    }
    moved = std::move(plan);
    CHECK(moved && !plan);
    moved.run();
    rcoll_params_t views = rpipe::bcast(sum, 0);
    views.flags |= RCOLL_VIEWS;
    sum[5] = 3.0 + team.rank();
    rpipe::plan shown = team.plan(views);
    shown.run();
    CHECK(shown.view<double>().size() == 100 && shown.view<double>()[5] == 3.0);
    shown.free_views();
}

void several(rpipe::team &team)
{
    rpipe::team half = team.split(team.rank() % 2, -team.rank()), none = team.split(-1);

    CHECK(half && !none);
    CHECK(half.size() == (team.size() + 1 - team.rank() % 2) / 2);
    CHECK(half.allreduce(1) == half.size());
    rpipe::team self({rpipe_network_rank()}, rpipe::team_config().context(5).heap(65536));
    CHECK(self.size() == 1 && self.allgather(3) == std::vector<int>{3});
    CHECK(team.lost() == 0 && team.agree(6) == 6);
    rpipe::team all = team.shrink();
    CHECK(all.size() == team.size() && all.allreduce(1) == team.size());
    all.close();
    all.close(); /* nothing */
    CHECK(!all);
    try {
        all.barrier();
        CHECK(false);
    } catch (const rpipe::error &e) {
        CHECK(e.result() == -EINVAL);
    }
}

} // namespace

int main()
try {
    rpipe::job job;
    rpipe::team team;

    CHECK(team.rank() == job.rank() && team.size() == job.size());
    values(team);
    containers(team);
    plans(team);
    several(team);
    team.close();
    std::printf("teams: %s\n", failures == 0 ? "good" : "FAILED");
    return failures != 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "teams: %s\n", e.what());
    return 1;
}
