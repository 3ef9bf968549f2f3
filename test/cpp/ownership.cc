/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ownership.cc: ownership in <rpipe.hpp>: moves, exceptions, ends closed twice, messages that outlive their pipe.
 *
 * One process with pipes to itself. A heap has memory for three messages, so that one that is not freed is noticed by the
 * fourth. The exit status is 0 only if every check held.
 */
#include <rpipe.hpp>

#include <poll.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#if defined(rpipe) || defined(rread) || defined(rmalloc)
#error "a short name is a macro"
#endif

namespace
{

using namespace std::chrono_literals;

constexpr std::size_t large = 1024;
int failures;

void check(bool holds, const char *what, int line)
{
    if (holds)
        return;
    std::fprintf(stderr, "ownership.cc:%d: does not hold: %s; \"%s\"\n", line, what,
                 rpipe::last_error());
    failures++;
}
#define CHECK(...) check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __LINE__)

/* The error of a call; 0 if it does not throw. */
template <typename Call> int thrown(Call call)
{
    try {
        call();
    } catch (const rpipe::error &e) {
        return e.result();
    }
    return 0;
}

struct both {
    explicit both(const rpipe::job &job, rpipe::config cfg = {})
        : out(job.rank(), cfg.heap(3 * large).timeout(2s)), in(job.rank(), cfg)
    {
        out.wait();
    }
    rpipe::writer out;
    rpipe::reader in;
};

template <typename T> constexpr bool owner()
{
    return std::is_nothrow_destructible_v<T> && std::is_nothrow_move_constructible_v<T> &&
           std::is_nothrow_move_assignable_v<T> && !std::is_copy_constructible_v<T> &&
           !std::is_copy_assignable_v<T>;
}
static_assert(owner<rpipe::job>() && owner<rpipe::writer>() && owner<rpipe::reader>());
static_assert(owner<rpipe::message<>>() && owner<rpipe::message<double>>());
static_assert(owner<rpipe::region>() && owner<rpipe::cells>() && owner<rpipe::group>());
static_assert(sizeof(rpipe::writer) == sizeof(rch_t) && sizeof(rpipe::region) == 2 * sizeof(rch_t));
static_assert(!std::is_move_constructible_v<rpipe::completion>);

void unsent_messages_are_freed(const rpipe::job &job)
{
    both p(job);

    for (int i = 0; i < 100; i++) {
        auto m = p.out.alloc(large);
        CHECK(m && m.size() == large && m.data() != nullptr);
    }
    for (int i = 0; i < 100; i++)
        try {
            auto m = p.out.alloc(large);
            throw std::runtime_error("between alloc and send");
        } catch (const std::runtime_error &) {
        }
    CHECK(p.out.count("messages") == 0);
}

void moves_leave_nothing(const rpipe::job &job)
{
    both p(job);
    auto a = p.out.alloc<int>(large / sizeof(int));
    int *address = a.data();

    *a = 42;
    rpipe::message<int> b(std::move(a));
    CHECK(!a && b && b.data() == address && *b == 42);
    b = p.out.alloc<int>(large / sizeof(int)); /* frees what it had */
    rpipe::message<int> &same = b;
    b = std::move(same);
    CHECK(b);
    b.free();
    b.free();
    CHECK(!b);
    std::vector<rpipe::message<int>> kept;
    for (int i = 0; i < 3; i++)
        kept.push_back(p.out.alloc<int>(large / sizeof(int)));
    CHECK(!p.out.try_alloc(large, rpipe::nowait));
    kept.erase(kept.begin() + 1, kept.end());
    kept.clear();
    CHECK(p.out.try_alloc(large, rpipe::nowait));

    rpipe::writer w(std::move(p.out));
    CHECK(!p.out && w && w.handle() != nullptr);
    p.out = std::move(w);
    CHECK(p.out && !w);
    w.close(); /* nothing */
    CHECK(thrown([&] { w.send(1); }) == -EINVAL);
}

void read_messages_are_freed(const rpipe::job &job)
{
    both p(job);

    for (int i = 0; i < 100; i++) {
        auto m = p.out.alloc<double>(large / sizeof(double));
        m[1] = i;
        m.set_tag(static_cast<std::uint64_t>(i));
        m.send();
        CHECK(!m);
        auto got = p.in.read<double>();
        CHECK(got.size() == large / sizeof(double) && got[1] == i && got.tag() == std::uint64_t(i));
        CHECK(got.as_span().size_bytes() == large && got.as<std::array<double, 2>>()[1] == i);
        if (i % 2 == 0)
            try {
                throw rpipe::message<double>(std::move(got)); /* may be thrown, too */
            } catch (rpipe::message<double> &) {
            }
    }
    auto first = p.out.alloc(large);
    first.shrink(10);
    CHECK(first.size() == 10);
    first.send(4);
    CHECK(p.in.read().size() == 4);
}

void failures_are_errors(const rpipe::job &job)
{
    both p(job);
    int number = 0;

    p.in.set_timeout(1ms);
    try {
        (void)p.in.read();
        CHECK(false);
    } catch (const std::system_error &e) {
        CHECK(e.code() == std::errc::timed_out && e.code().category() == rpipe::category());
        CHECK(std::strstr(e.what(), "rread") != nullptr);
    }
    p.in.set_timeout(0ms);
    CHECK(thrown([&] { (void)p.in.read(); }) == -ETIMEDOUT);
    auto none = p.in.try_read(rpipe::nowait);
    CHECK(!none && none.pending() && none.error() == std::errc::resource_unavailable_try_again);
    CHECK(thrown([&] { (void)none.value(); }) == R_PENDING);
    CHECK(p.in.try_recv(number, rpipe::nowait).pending());
    CHECK(thrown([&] { (void)p.out.alloc(4 * large); }) == -EMSGSIZE);
    CHECK(thrown([&] { (void)p.out.alloc<double>(SIZE_MAX / 2); }) == -EMSGSIZE);
    CHECK(p.out.try_alloc(4 * large).code() == -EMSGSIZE);
    CHECK(thrown([&] { rpipe::writer again(job.rank(), rpipe::config().heap(3 * large)); }) ==
          -EEXIST);
    CHECK(thrown([&] { rpipe::writer to_no_rank(job.size() + 7); }) == -ENOENT);
    CHECK(rpipe::writer::try_open(job.size() + 7).code() == -ENOENT);

    p.out.send("three"); /* 6 bytes */
    CHECK(thrown([&] { (void)p.in.read<int>(); }) == -EBADMSG);
    p.out.send(short{3});
    CHECK(thrown([&] { (void)p.in.recv<int>(); }) == -EBADMSG);
    p.out.send(2.5);
    CHECK(thrown([&] { (void)p.in.recv<int>(); }) == -EMSGSIZE && p.in.recv<double>() == 2.5);
    p.out.send(std::string("text"));
    auto text = p.in.read<char>();
    CHECK(std::string(text.begin(), text.end()) == "text");
    CHECK(thrown([&] { (void)text.as<double>(); }) == -EMSGSIZE);

    auto m = p.out.alloc(8);
    rpipe::writer moved(std::move(p.out));
    p.in.close();
    for (int i = 0; i < 1000 && failures == 0; i++) { /* after as many as there are slots */
        auto sent = moved.try_alloc(8);
        if (!sent || !sent->try_send())
            break;
    }
    CHECK(m.try_send().code() == -EPIPE && m);  /* still owned */
    CHECK(thrown([&] { m.send(); }) == -EPIPE); /* and after an exception */
    CHECK(m);
}

void the_end_of_a_pipe(const rpipe::job &job)
{
    both p(job);
    int number = 0, seen = 0;

    for (int i = 0; i < 3; i++)
        p.out.send(i);
    p.out.close();
    p.out.close(); /* nothing */
    CHECK(!p.out);
    while (p.in.recv(number))
        seen += number;
    CHECK(seen == 3);
    CHECK(!p.in.read() && !p.in.read<double>());
    CHECK(p.in.try_read().eof());
    CHECK(thrown([&] { (void)p.in.recv<int>(); }) == R_EOF);
    p.in.close();
    CHECK(p.in.try_close());
}

void a_message_outlives_its_pipe(const rpipe::job &job)
{
    auto p = std::make_unique<both>(job);
    auto unsent = p->out.alloc<int>(64), empty = p->out.alloc<int>(0);

    p->out.send(7);
    p->out.send(std::vector<int>(64));
    auto small = p->in.read<int>(), heap = p->in.read<int>();
    p.reset();
    CHECK(thrown([&] { unsent.send(); }) != 0 && unsent);
    both next(job); /* its handles may be those of the ends that are gone */
    auto owned = next.out.alloc<int>(64);
    owned[63] = 9;
    unsent = {};
    empty = {};
    small = {};
    heap = {};
    owned.send();
    auto arrived = next.in.read<int>();
    CHECK(arrived.size() == 64 && arrived[63] == 9);
}

void regions_wait(const rpipe::job &job)
{
    both p(job, rpipe::config().context(5));
    std::vector<double> from(64, 1.5), to(64);

    {
        rpipe::region source(p.out, from), target(p.in, to);
        rpipe::completion done;

        p.out.write_from(source, 0, 64 * sizeof(double), 3, done);
        auto got = p.in.read_into(target, 0, 64 * sizeof(double));
        CHECK(got && got->bytes == 64 * sizeof(double) && got->tag == 3);
        done.wait();
        CHECK(done.done() && to == from);
        rpipe::region moved(std::move(source));
        CHECK(!source && moved.data() == from.data());
        moved.close();
        moved.close(); /* nothing */
        p.out.write_from(rpipe::region(p.out, from), 0, 8);
        CHECK(p.in.recv<double>() == 1.5);
    }
    rpipe::region own(p.out, large); /* memory of the heap */
    CHECK(own.data() != nullptr);
    p.out.close();
    CHECK(!p.in.read_into(rpipe::region(p.in, to), 0, 8));
}

void other_objects(const rpipe::job &job)
{
    auto mine = rpipe::cells::owner(job.rank(), 4, 6);
    auto theirs = rpipe::cells::user(job.rank(), 6);
    std::uint64_t expected = 1;

    theirs.add(2, 5);
    theirs.flush();
    CHECK(mine.fetch_add(2, 1) == 5 && theirs.load(2) == 6);
    CHECK(!theirs.compare_exchange(2, expected, 9) && expected == 6);
    CHECK(theirs.compare_exchange(2, expected, 9) && mine.exchange(2, 0) == 9);
    rpipe::cells moved(std::move(theirs));
    CHECK(!theirs && moved);
    moved.close();
    moved.close(); /* nothing */

    rpipe::group to(RPIPE_WRITER, {job.rank(), job.rank()}, rpipe::config().context(10));
    rpipe::group from(RPIPE_READER, {job.rank(), job.rank()}, rpipe::config().context(10));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++) {
            auto m = to.alloc<int>(1, i);
            *m.message = i + 1;
            m.message.send();
        }
    for (int i = 0; i < 4; i++) {
        auto m = from.read<int>();
        CHECK(*m.message == m.member + 1);
    }
    CHECK(to.count() == 2);
    to.close();
    CHECK(!from.read());

    auto nb = rpipe::neighbors({{job.rank(), 0, 1}, {job.rank(), 1, 0}, {R_NO_PEER, 2, 2}},
                               rpipe::config().context(4096));
    CHECK(!nb[2].out && !nb[2].in);
    auto ready = rpipe::poll(0ms, nb[0].in, nb[1].in);
    CHECK(!ready[0] && !ready[1]);
    nb[0].out.send(1); /* leaves to the east, arrives from the west */
    ready = rpipe::poll(1s, nb[0].in, nb[1].in);
    CHECK(!ready[0] && ready[1]);
    pollfd fd = {nb[1].in.fd(), POLLIN, 0};
    CHECK(::poll(&fd, 1, 1000) == 1 && nb[1].in.recv<int>() == 1);
    CHECK(nb[0].out.room(8));
}

/* An exception leaves no pipe open: it can be opened again, and its peer gets the end. */
void exceptions_close_pipes(const rpipe::job &job)
{
    rpipe::reader in(job.rank());

    CHECK(thrown([&] {
              rpipe::writer out(job.rank());
              auto m = out.alloc(100);
              throw rpipe::error(-ECANCELED, "of the program");
          }) == -ECANCELED);
    CHECK(!in.read());
}

} // namespace

int main()
try {
    CHECK(thrown([] { rpipe::writer early(0); }) == -ENOTCONN);
    rpipe::job first;
    rpipe::job second(std::move(first));
    CHECK(!first && second && second.rank() == 0 && second.size() == 1);
    {
        rpipe::job third;
        auto fourth = rpipe::job::try_join();
        CHECK(fourth && fourth->rank() == 0);
    }
    CHECK(rpipe_initialized() == 1); /* of four calls three are undone */
    CHECK(second.allgather(7) == std::vector<int>{7});
    second.barrier();
    for (int round = 0; round < 2; round++) /* what is left open cannot be opened again */
        for (auto *test : {unsent_messages_are_freed, moves_leave_nothing, read_messages_are_freed,
                           failures_are_errors, the_end_of_a_pipe, a_message_outlives_its_pipe,
                           regions_wait, other_objects, exceptions_close_pipes})
            test(second);
    {
        both late(second);
        auto m = late.out.alloc(100);
        second.leave();
        second.leave(); /* nothing */
        CHECK(rpipe_initialized() == 0);
        CHECK(thrown([&] { late.out.send(1); }) == -ENOTCONN);
    } /* destroyed after the job: harmless */
    std::printf("ownership: %s\n", failures == 0 ? "good" : "FAILED");
    return failures != 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "ownership: %s\n", e.what());
    return 1;
}
