/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcoll.hpp: collective operations from C++17: teams and plans, owners of one handle each; rcoll(7) has what they do, rpipe_cxx(7) the rules.
 *
 *     rpipe::team team;                             // of all ranks
 *     double sum = team.allreduce(mine);            // a value
 *     team.allreduce(vector);                       // in place
 *     auto all = team.allgather(mine);              // a vector
 *
 *     rpipe::plan step = team.plan(rpipe::allreduce(gradients));    // made once
 *     step.start(); ... step.wait();                                // as often as it is needed
 *
 * Elements are of a type that rpipe::element has, where they are combined; elsewhere their bytes are moved. Buffers of a plan stay where
 * they are until it is destroyed. As in <rpipe.hpp>, which it includes, a call throws and its twin with try_ returns a result.
 */
#ifndef RCOLL_HPP
#define RCOLL_HPP

#include <rpipe.hpp>

#include <rcoll.h>

#include <complex>

namespace rpipe
{

/* ---- types ---- */

/* The type of an element that is combined. */
template <typename T, typename = void> struct element;
template <> struct element<float> {
    static constexpr rgroup_type_t type = RGROUP_FLOAT;
};
template <> struct element<double> {
    static constexpr rgroup_type_t type = RGROUP_DOUBLE;
};
template <> struct element<std::complex<float>> {
    static constexpr rgroup_type_t type = RGROUP_COMPLEX_FLOAT;
};
template <> struct element<std::complex<double>> {
    static constexpr rgroup_type_t type = RGROUP_COMPLEX_DOUBLE;
};
template <typename T>
struct element<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
    static constexpr bool is_signed = std::is_signed_v<T>;
    static constexpr rgroup_type_t type =
        sizeof(T) == 1   ? (is_signed ? RGROUP_INT8 : RGROUP_UINT8)
        : sizeof(T) == 2 ? (is_signed ? RGROUP_INT16 : RGROUP_UINT16)
        : sizeof(T) == 4 ? (is_signed ? RGROUP_INT32 : RGROUP_UINT32)
                         : (is_signed ? RGROUP_INT64 : RGROUP_UINT64);
};

namespace detail
{

template <typename C>
using element_of = std::remove_reference_t<decltype(*std::data(std::declval<C &>()))>;

inline rcoll_params_t coll(rcoll_kind_t kind, const void *from, void *into, std::size_t count,
                           int root = 0) noexcept
{
    rcoll_params_t p = rcoll_params_of(kind, from, into, count);

    p.root = root;
    return p;
}

template <typename C>
rcoll_params_t coll_bytes(rcoll_kind_t kind, const C &from, void *into, int root = 0) noexcept
{
    return coll(kind, contents<C>::data(from), into, contents<C>::bytes(from), root);
}

template <typename T>
rcoll_params_t coll_fold(rcoll_kind_t kind, const T *from, T *into, std::size_t count,
                         rgroup_op_t op, int root = 0) noexcept
{
    rcoll_params_t p = coll(kind, from, into, count, root);

    p.type = element<T>::type;
    p.op = op;
    return p;
}

} // namespace detail

/* ---- operations on containers of elements, for team::run and team::plan; `into` is large enough ---- */

inline rcoll_params_t barrier() noexcept
{
    return detail::coll(RCOLL_BARRIER, nullptr, nullptr, 0);
}
/* The elements of the root come to all. */
template <typename C> rcoll_params_t bcast(C &elements, int root = 0) noexcept
{
    static_assert(std::is_trivially_copyable_v<detail::element_of<C>>, "the bytes are moved");
    return detail::coll(RCOLL_BCAST, std::data(elements), std::data(elements),
                        std::size(elements) * sizeof(*std::data(elements)), root);
}
/* In place. */
template <typename C> rcoll_params_t allreduce(C &elements, rgroup_op_t op = RGROUP_SUM) noexcept
{
    return detail::coll_fold(RCOLL_ALLREDUCE, std::data(elements), std::data(elements),
                             std::size(elements), op);
}
/* In place at the root; what the others have in theirs then is not defined. */
template <typename C>
rcoll_params_t reduce(C &elements, int root = 0, rgroup_op_t op = RGROUP_SUM) noexcept
{
    return detail::coll_fold(RCOLL_REDUCE, std::data(elements), std::data(elements),
                             std::size(elements), op, root);
}
/* `from` of each member, one block after the other. */
template <typename C, typename D>
rcoll_params_t gather(const C &from, D &into, int root = 0) noexcept
{
    return detail::coll_bytes(RCOLL_GATHER, from, std::data(into), root);
}
template <typename C, typename D> rcoll_params_t allgather(const C &from, D &into) noexcept
{
    return detail::coll_bytes(RCOLL_ALLGATHER, from, std::data(into));
}
/* Block i of `into`, which has one for each member, comes from member i. */
template <typename C, typename D>
rcoll_params_t alltoall(const C &from, D &into, std::size_t members) noexcept
{
    return detail::coll(RCOLL_ALLTOALL, std::data(from), std::data(into),
                        std::size(from) * sizeof(*std::data(from)) / members);
}

/* ---- plans ---- */

class plan
{
  public:
    plan() noexcept = default;
    /* Takes over a handle of C. */
    explicit plan(rplan_t handle) noexcept : plan_(handle) {}
    plan(plan &&other) noexcept : plan_(other.release()) {}
    plan &operator=(plan &&other) noexcept
    {
        plan taken(std::move(other));

        std::swap(plan_, taken.plan_);
        return *this;
    }
    /* One that runs goes on, and its buffers are used until its operation is over. */
    ~plan()
    {
        if (plan_ != nullptr)
            (void)rcoll_free(plan_);
    }

    explicit operator bool() const noexcept { return plan_ != nullptr; }
    rplan_t handle() const noexcept { return plan_; }
    rplan_t release() noexcept { return std::exchange(plan_, nullptr); }

    void start() { detail::check(rcoll_start(plan_)); }
    result<void> try_start() noexcept { return rcoll_start(plan_); }
    void wait() { detail::check(rcoll_wait(plan_)); }
    result<void> try_wait() noexcept { return rcoll_wait(plan_); }
    /* Pending: it is not over. */
    result<void> try_wait(nowait_t) noexcept { return rcoll_test(plan_); }
    void run()
    {
        start();
        wait();
    }
    /* Part i of a result that was not copied (RCOLL_VIEWS), until free_views or the next start. */
    template <typename T = std::byte> span<const T> view(int i = 0) const
    {
        const void *at = nullptr;
        std::size_t bytes = 0;

        detail::check(rcoll_view(plan_, i, &at, &bytes));
        return {static_cast<const T *>(at), bytes / sizeof(T)};
    }
    void free_views() { detail::check(rcoll_release(plan_)); }

  private:
    rplan_t plan_ = nullptr;
};

/* ---- teams ---- */

class team_config
{
  public:
    team_config() noexcept : c_{} {}
    team_config(const rcoll_team_config_t &c) noexcept : c_(c) {}
    operator const rcoll_team_config_t &() const noexcept { return c_; }

    team_config &context(std::uint64_t number) noexcept { return c_.context = number, *this; }
    team_config &heap(std::uint64_t bytes) noexcept { return c_.heap_bytes = bytes, *this; }
    team_config &memory(std::uint64_t bytes) noexcept { return c_.mem_bytes = bytes, *this; }
    team_config &depth(std::uint32_t number) noexcept { return c_.depth = number, *this; }
    team_config &threads() noexcept { return c_.flags |= RCOLL_THREADS, *this; }
    team_config &async() noexcept { return c_.flags |= RCOLL_ASYNC, *this; }
    team_config &timeout(std::chrono::milliseconds time) noexcept
    {
        return c_.timeout_ms = detail::milliseconds(time), *this;
    }

  private:
    rcoll_team_config_t c_;
};

class team
{
  public:
    /* Of all ranks, or of these, in this order. Collective over them. */
    explicit team(const team_config &cfg = team_config())
    {
        detail::check(open(cfg, nullptr, rpipe_network_ranks()));
    }
    explicit team(const std::vector<int> &ranks, const team_config &cfg = team_config())
    {
        detail::check(open(cfg, ranks.data(), static_cast<int>(ranks.size())));
    }
    /* Takes over a handle of C. */
    explicit team(rteam_t handle) noexcept : team_(handle) {}
    team(team &&other) noexcept : team_(other.release()) {}
    team &operator=(team &&other) noexcept
    {
        team taken(std::move(other));

        std::swap(team_, taken.team_);
        return *this;
    }
    ~team() { (void)try_close(); }

    explicit operator bool() const noexcept { return team_ != nullptr; }
    rteam_t handle() const noexcept { return team_; }
    rteam_t release() noexcept { return std::exchange(team_, nullptr); }
    int rank() const noexcept { return rcoll_rank(team_); }
    int size() const noexcept { return rcoll_size(team_); }

    /* Teams of the members with the same color, in the order of keys; color -1: in none, and the result is empty. */
    team split(int color, int key = 0) const
    {
        rteam_t part = nullptr;

        detail::check(rcoll_split(&part, team_, color, key));
        return team(part);
    }
    /* Closes; a second call does nothing. */
    void close() { detail::check(try_close().code()); }
    result<void> try_close() noexcept
    {
        return team_ != nullptr ? rcoll_close(std::exchange(team_, nullptr)) : R_SUCCESS;
    }
    void set_timeout(std::chrono::milliseconds time)
    {
        detail::check(rcoll_set_timeout(team_, detail::milliseconds(time)));
    }

    /* ---- operations ---- */

    void run(const rcoll_params_t &p) { detail::check(try_run(p).code()); }
    result<void> try_run(const rcoll_params_t &p) noexcept
    {
        return (rcoll_run)(team_, &p, sizeof(p));
    }
    rpipe::plan plan(const rcoll_params_t &p) const
    {
        rplan_t made = nullptr;

        detail::check((rcoll_plan)(&made, team_, &p, sizeof(p)));
        return rpipe::plan(made);
    }

    void barrier() { detail::check(rcoll_barrier(team_)); }
    result<void> try_barrier() noexcept { return rcoll_barrier(team_); }
    template <typename C> void bcast(C &elements, int root = 0)
    {
        run(rpipe::bcast(elements, root));
    }
    /* A container is combined in place; of a value the result is returned. */
    template <typename C>
    auto allreduce(C &elements, rgroup_op_t op = RGROUP_SUM)
        -> std::void_t<decltype(std::data(elements))>
    {
        run(rpipe::allreduce(elements, op));
    }
    template <typename T, rgroup_type_t = element<T>::type>
    T allreduce(const T &mine, rgroup_op_t op = RGROUP_SUM)
    {
        T all{};

        run(detail::coll_fold(RCOLL_ALLREDUCE, &mine, &all, 1, op));
        return all;
    }
    template <typename C> void reduce(C &elements, int root = 0, rgroup_op_t op = RGROUP_SUM)
    {
        run(rpipe::reduce(elements, root, op));
    }
    /* What all have, in the order of members; of gather at the root, elsewhere nothing. */
    template <typename T> std::vector<T> allgather(const T &mine)
    {
        static_assert(std::is_trivially_copyable_v<T>, "the bytes of a value are sent");
        std::vector<T> all(static_cast<std::size_t>(size()));

        run(rpipe::allgather(mine, all));
        return all;
    }
    template <typename T> std::vector<T> gather(const T &mine, int root = 0)
    {
        static_assert(std::is_trivially_copyable_v<T>, "the bytes of a value are sent");
        std::vector<T> all(rank() == root ? static_cast<std::size_t>(size()) : 0);

        run(rpipe::gather(mine, all, root));
        return all;
    }
    /* Element i of each member comes to member i: as many elements as the team has members, or the same number for each. */
    template <typename T> std::vector<T> alltoall(const std::vector<T> &from)
    {
        std::vector<T> into(from.size());

        run(rpipe::alltoall(from, into, static_cast<std::size_t>(size())));
        return into;
    }

    /* ---- failures of members ---- */

    /* The code of the first failure, 0: none; and its member. */
    int lost(int *member = nullptr) const noexcept { return rcoll_lost(team_, member); }
    /* The flags of all living members, combined by AND: the same at all of them. */
    std::uint64_t agree(std::uint64_t flags)
    {
        int dead = rcoll_agree(team_, &flags, nullptr, 0);

        if (dead < 0)
            detail::raise(dead);
        return flags;
    }
    /* A team of the living. */
    team shrink() const
    {
        rteam_t living = nullptr;

        detail::check(rcoll_shrink(&living, team_));
        return team(living);
    }

  private:
    int open(const rcoll_team_config_t &cfg, const int *ranks, int n) noexcept
    {
        return (rcoll_team)(&team_, &cfg, ranks, n, sizeof(cfg));
    }

    rteam_t team_ = nullptr;
};

} // namespace rpipe

#endif
