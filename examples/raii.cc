/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raii.cc: pipes from C++, where an object that goes out of scope releases what it owns.
 *
 * Rank 0 sends squares to rank 1, which answers each with its root: two pipes between two
 * processes. A message that was allocated and not sent returns to its heap, one that was received
 * is freed, a channel closes, the job ends: all by destructors, also when an exception passes. The
 * classes are thin enough to be copied into a program: the C interface is all there is below.
 */
#include <rpipe.h>

#include <cmath>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace
{

class Failure : public std::runtime_error
{
  public:
    Failure(rch_t ch, const char *call)
        : std::runtime_error(std::string(call) + ": " + rerror(ch))
    {
    }
};

/* The job: one in a process, from rinit to rexit. */
class Job
{
  public:
    Job()
    {
        if (rinit(&rank, &ranks) != R_SUCCESS)
            throw Failure(nullptr, "rinit");
    }
    ~Job() { rexit(); }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;

    int rank = 0, ranks = 0;
};

/* One end of a channel. */
class Pipe
{
  public:
    Pipe(int peer, bool writer, uint32_t ctx)
    {
        rpipe_config_t cfg = {};

        cfg.peer = peer;
        cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
        cfg.heap_bytes = 1 << 16;
        cfg.context = ctx;
        if (rpipe(&ch, &cfg) != R_SUCCESS)
            throw Failure(nullptr, "rpipe");
    }
    ~Pipe()
    {
        if (ch != nullptr)
            rclose(ch);
    }
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;

    rch_t ch = nullptr;
};

/*
 * A T in memory of a channel: made by the writer, or taken
 * from the channel by the reader. It has one owner at a time.
 */
template <typename T> class Message
{
  public:
    static Message make(Pipe &pipe, const T &value)
    {
        Message m(pipe);
        m.d_ = rmalloc(pipe.ch, sizeof(T));
        void *memory = m.d_ != ADDR_NULL ? rmem(pipe.ch, m.d_) : NULL;

        if (memory == nullptr)
            throw Failure(pipe.ch, "rmalloc");
        m.value_ = new (memory) T(value);
        return m;
    }
    static Message take(Pipe &pipe)
    {
        Message m(pipe);
        size_t size = 0;
        void *memory = rread(pipe.ch, &m.d_, &size) == R_SUCCESS ? rmem(pipe.ch, m.d_) : NULL;

        if (memory == nullptr)
            throw Failure(pipe.ch, "rread");
        if (size != sizeof(T))
            throw std::length_error("a message of another size");
        m.value_ = static_cast<T *>(memory);
        return m;
    }
    Message(Message &&other) noexcept
        : pipe_(other.pipe_), d_(std::exchange(other.d_, ADDR_NULL)), value_(other.value_)
    {
    }
    Message &operator=(Message &&) = delete;
    ~Message()
    {
        if (d_ != ADDR_NULL)
            rfree(pipe_.ch, d_);
    }

    /* Hands it over: it is no longer ours, unless that fails. */
    void send()
    {
        if (rwrite(pipe_.ch, d_) != R_SUCCESS)
            throw Failure(pipe_.ch, "rwrite");
        d_ = ADDR_NULL;
    }
    T &operator*() { return *value_; }

  private:
    explicit Message(Pipe &pipe) : pipe_(pipe) {}

    Pipe &pipe_;
    raddr_t d_ = ADDR_NULL;
    T *value_ = nullptr;
};

struct Question {
    double square;
    char padding[200]; /* so large that it does not ride in a slot */
};

constexpr int questions = 1000;

double ask(Pipe &out, Pipe &in)
{
    double sum = 0;

    for (int i = 0; i < questions; i++) {
        auto unsent =
            Message<Question>::make(out, Question()); /* goes back to the heap by itself */
        auto question = Message<Question>::make(out, Question());

        (*question).square = static_cast<double>(i) * i;
        question.send();
        sum += *Message<double>::take(in);
    }
    return sum;
}

void answer(Pipe &out, Pipe &in)
{
    for (int i = 0; i < questions; i++) {
        auto question = Message<Question>::take(in);

        Message<double>::make(out, std::sqrt((*question).square)).send();
    }
}

} // namespace

int main()
try {
    Job job;

    if (job.ranks != 2)
        throw std::invalid_argument("this takes two processes");
    Pipe out(1 - job.rank, true, 0), in(1 - job.rank, false, 0);

    if (job.rank == 1) {
        answer(out, in);
        return 0;
    }
    const double sum = ask(out, in), expected = questions * (questions - 1) / 2.0;

    std::printf("the roots of %d squares sum up to %.0f\n", questions, sum);
    return std::fabs(sum - expected) < 0.5 ? 0 : 1;
} catch (const std::exception &e) {
    std::fprintf(stderr, "raii: %s\n", e.what());
    return 1;
}
