/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpipe.hpp: pipes from C++17: owners of one handle each, exceptions or results by choice. rpipe_cxx(7) is the manual.
 *
 * An object owns what its constructor or its maker opened and gives it back in its destructor, which never throws. Objects
 * can be moved, not copied; one that was moved from is empty. A call throws rpipe::error; its twin with the prefix try_
 * returns a result and does not throw. try_ calls that take rpipe::nowait do not wait: see result::pending().
 *
 * A call is inline and has the instructions of the call of C: what throws is outside of the path (test/cpp/zero_cost).
 * The calls of C are there too, by their exported names (rpipe_write), since a namespace and a function both of the name
 * "rpipe" cannot be: this header comes before those of C, or RPIPE_NO_SHORT_NAMES is defined.
 */
#ifndef RPIPE_HPP
#define RPIPE_HPP

#if defined(RMALLOC_H) && !defined(RPIPE_NO_SHORT_NAMES)
#error                                                                                             \
    "include <rpipe.hpp> before the headers of C, or define RPIPE_NO_SHORT_NAMES: the function rpipe() of <rpipe.h> is also the name of the namespace"
#endif
#ifndef RPIPE_NO_SHORT_NAMES
#define RPIPE_NO_SHORT_NAMES
#endif
#include <rinfo.h>
#include <rpipe.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <rpipe_error.hpp>

namespace rpipe
{

/* ---- job ---- */

/* One call of rpipe_init and one of rpipe_exit, which are counted: several objects are one job. */
class job
{
  public:
    /* Joins; collective where it is the first of this process. */
    job() { detail::check(join()); }
    static result<job> try_join() noexcept
    {
        job joined(nullptr);
        int code = joined.join();

        if (code != R_SUCCESS)
            return code;
        return joined;
    }
    job(job &&other) noexcept
        : rank_(other.rank_), size_(other.size_), joined_(std::exchange(other.joined_, false))
    {
    }
    job &operator=(job &&other) noexcept
    {
        job taken(std::move(other));

        std::swap(rank_, taken.rank_);
        std::swap(size_, taken.size_);
        std::swap(joined_, taken.joined_);
        return *this;
    }
    ~job() { (void)try_leave(); }

    explicit operator bool() const noexcept { return joined_; }
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }

    /* Leaves; collective where it is the last of this process. A second call does nothing. */
    void leave() { detail::check(try_leave().code()); }
    result<void> try_leave() noexcept
    {
        return std::exchange(joined_, false) ? rpipe_exit() : R_SUCCESS;
    }
    /* Both are collective, slow, and for set-up. */
    void barrier() const { detail::check(rpipe_network_barrier()); }
    template <typename T> std::vector<T> allgather(const T &mine) const
    {
        static_assert(std::is_trivially_copyable_v<T>, "the bytes of a value are sent");
        std::vector<T> all(static_cast<std::size_t>(size_));

        detail::check(rpipe_network_allgather(&mine, sizeof(T), all.data()));
        return all;
    }
    /* Ends all processes of the job with this exit status. */
    [[noreturn]] static void abort(int status) noexcept { rpipe_network_abort(status); }

  private:
    explicit job(std::nullptr_t) noexcept {}
    int join() noexcept
    {
        int code = rpipe_init(&rank_, &size_);

        joined_ = code == R_SUCCESS;
        return code;
    }

    int rank_ = 0, size_ = 0;
    bool joined_ = false;
};

/* The first of 2^20 contexts that belong to a name. */
inline std::uint64_t context(const char *name) noexcept { return rpipe_context(name); }

/* ---- configuration: what is not set has its default; every call that takes one takes an rpipe_config_t too ---- */

class config
{
  public:
    config() noexcept : c_{} {}
    config(const rpipe_config_t &c) noexcept : c_(c) {}
    operator const rpipe_config_t &() const noexcept { return c_; }

    config &context(std::uint64_t number) noexcept { return c_.context = number, *this; }
    config &get() noexcept { return c_.op = RPIPE_GET, *this; }
    config &fit(rmalloc_fit_t heuristic) noexcept { return c_.heuristic = heuristic, *this; }
    config &sync(rpipe_sync_t mode) noexcept { return c_.mode = mode, *this; }
    config &unit(std::uint32_t bytes) noexcept { return c_.unit_bytes = bytes, *this; }
    config &heap(std::uint64_t bytes) noexcept { return c_.heap_bytes = bytes, *this; }
    config &max_heap(std::uint64_t bytes) noexcept { return c_.max_heap_bytes = bytes, *this; }
    config &slots(std::uint32_t number) noexcept { return c_.slots = number, *this; }
    config &timeout(std::chrono::milliseconds time) noexcept
    {
        return c_.timeout_ms = detail::milliseconds(time), *this;
    }
    config &threads() noexcept { return c_.flags |= RPIPE_THREADS, *this; }
    config &huge_pages() noexcept { return c_.flags |= RPIPE_HUGE_PAGES, *this; }
    config &backend(const char *name) noexcept { return c_.backend = name, *this; }

  private:
    rpipe_config_t c_;
};

/* ---- messages ---- */

/*
 * Memory of a pipe, an array of T: allocated and not sent, or read and not freed. The destructor frees it. It must not be used
 * after its pipe has closed; destroying it then does nothing. Empty: no message (moved from, sent, freed, or the end of a pipe).
 */
template <typename T = std::byte> class message
{
    static_assert(std::is_trivially_copyable_v<T>, "the bytes of a message are all that arrives");

  public:
    using value_type = T;

    message() noexcept = default;
    /* Takes over a descriptor of C; memory is that of rmalloc_ptr. */
    message(rch_t pipe, raddr_t d, void *memory, std::size_t bytes) noexcept
        : pipe_(pipe), d_(d), data_(static_cast<T *>(memory)), bytes_(bytes)
    {
    }
    message(message &&other) noexcept
        : pipe_(other.pipe_), d_(std::exchange(other.d_, ADDR_NULL)), data_(other.data_),
          bytes_(other.bytes_)
    {
    }
    message &operator=(message &&other) noexcept
    {
        message taken(std::move(other));

        std::swap(pipe_, taken.pipe_);
        std::swap(d_, taken.d_);
        std::swap(data_, taken.data_);
        std::swap(bytes_, taken.bytes_);
        return *this;
    }
    [[gnu::always_inline]] ~message()
    {
        if (d_ != ADDR_NULL)
            (void)rmalloc_free(pipe_, d_);
    }

    explicit operator bool() const noexcept { return d_ != ADDR_NULL; }
    T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return bytes_ / sizeof(T); }
    std::size_t size_bytes() const noexcept { return bytes_; }
    bool empty() const noexcept { return bytes_ < sizeof(T); }
    T *begin() const noexcept { return data_; }
    T *end() const noexcept { return data_ + size(); }
    T &operator[](std::size_t i) const { return data_[i]; }
    T &operator*() const { return *data_; }
    T *operator->() const { return data_; }
    template <typename U = T> rpipe::span<U> as_span() const noexcept
    {
        return {reinterpret_cast<U *>(data_), bytes_ / sizeof(U)};
    }
    /* What the message begins with. */
    template <typename U> U &as() const
    {
        static_assert(std::is_trivially_copyable_v<U>);
        if (bytes_ < sizeof(U))
            detail::raise(-EMSGSIZE, "message::as: the message is smaller than the type");
        return *reinterpret_cast<U *>(data_);
    }

    std::uint64_t tag() const noexcept { return rpipe_tag(pipe_, d_); }
    void set_tag(std::uint64_t tag) { detail::check(rpipe_set_tag(pipe_, d_, tag)); }

    /* Sends it; it is empty then. On failure it is still owned. */
    void send() { detail::check(sent(rpipe_write(pipe_, d_))); }
    result<void> try_send() noexcept { return sent(rpipe_write(pipe_, d_)); }
    result<void> try_send(nowait_t) noexcept { return sent(rpipe_write_nb(pipe_, d_)); }
    /* Sends the first elements and frees the rest. */
    void send(std::size_t count) { detail::check(try_send(count).code()); }
    result<void> try_send(std::size_t count) noexcept
    {
        return sent(rpipe_write_n(pipe_, d_, detail::bytes_of<T>(count)));
    }
    /* Keeps the first elements and frees the rest. */
    void shrink(std::size_t count)
    {
        detail::check(rmalloc_shrink(pipe_, d_, detail::bytes_of<T>(count)));
        bytes_ = count * sizeof(T);
    }
    void free() { detail::check(try_free().code()); }
    result<void> try_free() noexcept
    {
        return d_ == ADDR_NULL ? R_SUCCESS : rmalloc_free(pipe_, std::exchange(d_, ADDR_NULL));
    }

    rch_t pipe() const noexcept { return pipe_; }
    raddr_t descriptor() const noexcept { return d_; }
    /* Gives the ownership away. */
    raddr_t release() noexcept { return std::exchange(d_, ADDR_NULL); }

  private:
    int sent(int code) noexcept
    {
        if (code == R_SUCCESS)
            d_ = ADDR_NULL;
        return code;
    }

    rch_t pipe_ = nullptr;
    raddr_t d_ = ADDR_NULL;
    T *data_ = nullptr;
    std::size_t bytes_ = 0;
};

/* ---- ends of pipes ---- */

/* What a writer and a reader have in common. */
class pipe_end
{
  public:
    explicit operator bool() const noexcept { return ch_ != nullptr; }
    /* For the calls of C. */
    rch_t handle() const noexcept { return ch_; }
    rch_t release() noexcept { return std::exchange(ch_, nullptr); }

    /* Waits until both ends are joined; never necessary. */
    void wait() const { detail::check(rpipe_wait(ch_)); }
    result<void> try_wait() const noexcept { return rpipe_wait(ch_); }
    void set_timeout(std::chrono::milliseconds time)
    {
        detail::check(rpipe_set_timeout(ch_, detail::milliseconds(time)));
    }
    /* Closes; a second call does nothing. After ETIMEDOUT, with regions in flight, the end is still open. */
    void close() { detail::check(try_close().code()); }
    result<void> try_close() noexcept
    {
        int code = ch_ != nullptr ? rpipe_close(ch_) : R_SUCCESS;

        if (code != -ETIMEDOUT)
            ch_ = nullptr;
        return code;
    }
    /* Value of a counter; see rinfo(3). */
    std::uint64_t count(const char *name) const
    {
        std::uint64_t value = 0;

        detail::check(rinfo_count(ch_, name, &value));
        return value;
    }

  protected:
    pipe_end() noexcept = default;
    explicit pipe_end(rch_t ch) noexcept : ch_(ch) {}
    pipe_end(pipe_end &&other) noexcept : ch_(other.release()) {}
    pipe_end &operator=(pipe_end &&other) noexcept
    {
        rch_t taken = other.release();

        (void)try_close();
        ch_ = taken;
        return *this;
    }
    ~pipe_end() { (void)try_close(); }

    static int open(rch_t *ch, rpipe_role_t role, int peer, rpipe_config_t cfg) noexcept
    {
        cfg.role = role;
        cfg.peer = peer;
        return (rpipe_open)(ch, &cfg, sizeof(cfg));
    }
    static rch_t must_open(rpipe_role_t role, int peer, const rpipe_config_t &cfg)
    {
        rch_t ch = nullptr;

        detail::check(open(&ch, role, peer, cfg));
        return ch;
    }

    rch_t ch_ = nullptr;
};

namespace detail
{

/* Contents of a container, or the bytes of a value. */
template <typename T, typename = void> struct contents {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                  "a value whose bytes are sent: no pointer");
    static const void *data(const T &value) noexcept { return &value; }
    static std::size_t bytes(const T &) noexcept { return sizeof(T); }
};
template <typename T>
struct contents<T, std::void_t<decltype(std::data(std::declval<const T &>())),
                               decltype(std::size(std::declval<const T &>()))>> {
    using element = std::remove_reference_t<decltype(*std::data(std::declval<const T &>()))>;
    static_assert(std::is_trivially_copyable_v<element>, "the bytes of the elements are sent");
    static const void *data(const T &value) noexcept { return std::data(value); }
    static std::size_t bytes(const T &value) noexcept { return std::size(value) * sizeof(element); }
};

} // namespace detail

class region;
class completion;

class writer : public pipe_end
{
  public:
    writer() noexcept = default;
    /* Opens the writing end of a pipe to a peer; does not wait for it. */
    explicit writer(int peer, const rpipe_config_t &cfg = config())
        : pipe_end(must_open(RPIPE_WRITER, peer, cfg))
    {
    }
    /* Takes over a handle of C. */
    explicit writer(rch_t ch) noexcept : pipe_end(ch) {}
    static result<writer> try_open(int peer, const rpipe_config_t &cfg = config()) noexcept
    {
        rch_t ch = nullptr;
        int code = open(&ch, RPIPE_WRITER, peer, cfg);

        if (code != R_SUCCESS)
            return code;
        return writer(ch);
    }

    /* Allocates a message of count elements; waits for memory. */
    template <typename T = std::byte> message<T> alloc(std::size_t count = 1)
    {
        rch_t ch = ch_;
        raddr_t d = rmalloc_alloc(ch, detail::bytes_of<T>(count));

        if (d == ADDR_NULL)
            detail::raise_errno();
        return {ch, d, rmalloc_ptr(ch, d), count * sizeof(T)};
    }
    template <typename T = std::byte> result<message<T>> try_alloc(std::size_t count = 1) noexcept
    {
        raddr_t d = rmalloc_alloc(ch_, detail::bytes_of<T>(count));

        if (d == ADDR_NULL)
            return -errno;
        return message<T>(ch_, d, rmalloc_ptr(ch_, d), count * sizeof(T));
    }
    template <typename T = std::byte>
    result<message<T>> try_alloc(std::size_t count, nowait_t) noexcept
    {
        raddr_t d = ADDR_NULL;
        int code = rmalloc_nb(ch_, detail::bytes_of<T>(count), &d);

        if (code != R_SUCCESS)
            return code;
        return message<T>(ch_, d, rmalloc_ptr(ch_, d), count * sizeof(T));
    }

    /* Sends a copy: of the elements of a container, or of a value. */
    template <typename T> void send(const T &value) { detail::check(try_send(value).code()); }
    template <typename T> result<void> try_send(const T &value) noexcept
    {
        return try_send(detail::contents<T>::data(value), detail::contents<T>::bytes(value));
    }
    template <typename T> result<void> try_send(const T &value, nowait_t) noexcept
    {
        return rpipe_send(ch_, detail::contents<T>::data(value), detail::contents<T>::bytes(value),
                          R_NOWAIT);
    }
    void send(const void *bytes, std::size_t size) { detail::check(try_send(bytes, size).code()); }
    result<void> try_send(const void *bytes, std::size_t size) noexcept
    {
        return rpipe_send(ch_, bytes, size, 0);
    }

    /* Sends a part of a region; see completion. */
    void write_from(const region &from, std::size_t offset, std::size_t bytes,
                    std::uint64_t tag = 0);
    void write_from(const region &from, std::size_t offset, std::size_t bytes, std::uint64_t tag,
                    completion &done);
    /* Waits until no transfer of this end is in flight. */
    void done() const { detail::check(rpipe_done(ch_, nullptr, 0)); }

    /* Waits until every message so far is visible to the reader. */
    void flush() const { detail::check(rpipe_flush(ch_)); }
    /* A message of so many bytes, once it has memory, would be sent without waiting. */
    bool room(std::size_t bytes) const noexcept { return rpipe_room(ch_, bytes) == R_SUCCESS; }
};

class reader : public pipe_end
{
  public:
    /* Of read_into. */
    struct received {
        std::size_t bytes;
        std::uint64_t tag;
    };

    reader() noexcept = default;
    /* Opens the reading end of a pipe from a peer; does not wait for it. */
    explicit reader(int peer, const rpipe_config_t &cfg = config())
        : pipe_end(must_open(RPIPE_READER, peer, cfg))
    {
    }
    /* Takes over a handle of C. */
    explicit reader(rch_t ch) noexcept : pipe_end(ch) {}
    static result<reader> try_open(int peer, const rpipe_config_t &cfg = config()) noexcept
    {
        rch_t ch = nullptr;
        int code = open(&ch, RPIPE_READER, peer, cfg);

        if (code != R_SUCCESS)
            return code;
        return reader(ch);
    }

    /* Waits for the next message. Empty: the writer has closed, and every message has been read. */
    template <typename T = std::byte> message<T> read()
    {
        rch_t ch = ch_;
        std::size_t bytes;
        raddr_t d;
        int code = rpipe_read(ch, &d, &bytes);

        if (code == R_SUCCESS)
            code = fits<T>(ch, d, bytes);
        if (code != R_SUCCESS) {
            if (code != R_EOF)
                failed(code);
            return {};
        }
        if (d == ADDR_NULL)
            __builtin_unreachable(); /* so that the destructor does not ask either */
        return {ch, d, rmalloc_ptr(ch, d), bytes};
    }
    template <typename T = std::byte> result<message<T>> try_read() noexcept
    {
        std::size_t bytes;
        raddr_t d;
        int code = rpipe_read(ch_, &d, &bytes);

        return received_as<T>(code, d, bytes);
    }
    template <typename T = std::byte> result<message<T>> try_read(nowait_t) noexcept
    {
        std::size_t bytes;
        raddr_t d;
        int code = rpipe_read_nb(ch_, &d, &bytes);

        return received_as<T>(code, d, bytes);
    }

    /* Copies the next message, which has the size of T. false: the end, as of read(). */
    template <typename T> bool recv(T &value)
    {
        int code = try_recv(value).code();

        if (code != R_SUCCESS && code != R_EOF)
            failed(code);
        return code == R_SUCCESS;
    }
    /* The same where the end is an error. */
    template <typename T> T recv()
    {
        std::size_t size;
        T value;
        int code = recv_bytes(&value, &size, 0);

        if (code != R_SUCCESS)
            failed(code);
        if (size != sizeof(T))
            failed(another_size);
        return value;
    }
    template <typename T> result<void> try_recv(T &value) noexcept { return recv_value(value, 0); }
    template <typename T> result<void> try_recv(T &value, nowait_t) noexcept
    {
        return recv_value(value, R_NOWAIT);
    }
    /* Copies a message of at most `room` bytes; its size. -EMSGSIZE: it is larger, and still the next one. */
    result<std::size_t> try_recv(void *bytes, std::size_t room) noexcept
    {
        std::size_t size;
        int code = rpipe_recv(ch_, bytes, room, &size, 0);

        if (code != R_SUCCESS)
            return code;
        return result<std::size_t>(std::move(size));
    }

    /* Receives the next message in a region. Without a value: the end. */
    std::optional<received> read_into(const region &into, std::size_t offset, std::size_t room);
    /* Waits until no transfer of this end is in flight. */
    void done() const { detail::check(rpipe_done(ch_, nullptr, 0)); }

    /* A descriptor for poll(2), readable when read() would not wait. The library owns it. */
    int fd() const
    {
        int fd = rpipe_fd(ch_);

        if (fd < 0)
            detail::raise(fd);
        return fd;
    }

  private:
    static constexpr const char *other_size =
        "reader: the size of the message is not that of the type";
    static constexpr int another_size = -EBADMSG;

    [[noreturn, gnu::cold, gnu::noinline]] static void failed(int code)
    {
        if (code == another_size)
            detail::raise(code, other_size);
        detail::raise(code);
    }
    template <typename T> static int fits(rch_t ch, raddr_t d, std::size_t bytes) noexcept
    {
        if (bytes % sizeof(T) == 0)
            return R_SUCCESS;
        (void)rmalloc_free(ch, d);
        return another_size;
    }
    template <typename T>
    result<message<T>> received_as(int code, raddr_t d, std::size_t bytes) noexcept
    {
        if (code == R_SUCCESS)
            code = fits<T>(ch_, d, bytes);
        if (code != R_SUCCESS)
            return code;
        return message<T>(ch_, d, rmalloc_ptr(ch_, d), bytes);
    }
    template <typename T> int recv_bytes(T *value, std::size_t *size, int flags) noexcept
    {
        static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
        return rpipe_recv(ch_, value, sizeof(T), size, flags);
    }
    template <typename T> int recv_value(T &value, int flags) noexcept
    {
        std::size_t size;
        int code = recv_bytes(&value, &size, flags);

        return code == R_SUCCESS && size != sizeof(T) ? another_size : code;
    }
};

} // namespace rpipe

#include <rpipe_objects.hpp>

#endif
