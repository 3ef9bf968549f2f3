/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpipe_objects.hpp: regions, cells, groups and neighbors of <rpipe.hpp>, which includes it.
 */
#ifndef RPIPE_OBJECTS_HPP
#define RPIPE_OBJECTS_HPP

#ifndef RPIPE_HPP
#error "include <rpipe.hpp>"
#endif

#include <array>

namespace rpipe
{

/* ---- regions ---- */

/*
 * The state of a transfer from a region. The library writes it until the transfer is done, so an object stays where it is, and its
 * destructor waits.
 */
class completion
{
  public:
    completion() noexcept = default;
    completion(const completion &) = delete;
    completion &operator=(const completion &) = delete;
    ~completion()
    {
        int code = -ETIMEDOUT;

        while (word() == 0 && code == -ETIMEDOUT)
            code = rpipe_done(ch_, &word_, 0);
    }
    /* The bytes may be changed, or the reader will not receive them. */
    bool done() const noexcept { return word() != 0; }
    /* Waits; throws where the reader will not receive them. */
    void wait() const { detail::check(try_wait().code()); }
    result<void> try_wait() const noexcept
    {
        if (word() == 0)
            return rpipe_done(ch_, &word_, 0);
        return word() > 0 ? R_SUCCESS : word();
    }

  private:
    friend class writer;
    int word() const noexcept
    {
        return __atomic_load_n(&word_, __ATOMIC_ACQUIRE);
    } /* pairs with the library's store */

    rch_t ch_ = nullptr;
    int word_ = 1; /* nothing is in flight */
};

/* Memory of the program that messages are sent from and received into. Close it before the memory ends and before its pipe closes. */
class region
{
  public:
    region() noexcept = default;
    /* Registers memory for this pipe, and later for others. */
    region(const pipe_end &end, void *memory, std::size_t bytes) : ch_(end.handle())
    {
        detail::check(rregion_open(&region_, ch_, memory, bytes));
    }
    template <typename Container, typename = decltype(std::data(std::declval<Container &>()))>
    region(const pipe_end &end, Container &memory)
        : region(end, std::data(memory), std::size(memory) * sizeof(*std::data(memory)))
    {
    }
    /* Memory of the heap of a writing end. */
    region(const writer &end, std::size_t bytes) : region(end, nullptr, bytes) {}
    region(region &&other) noexcept : ch_(other.ch_), region_(std::exchange(other.region_, nullptr))
    {
    }
    region &operator=(region &&other) noexcept
    {
        region taken(std::move(other));

        std::swap(ch_, taken.ch_);
        std::swap(region_, taken.region_);
        return *this;
    }
    /* Waits for transfers of the pipe that it was opened with, up to the deadline. */
    ~region()
    {
        if (try_close().code() == -EBUSY && rpipe_done(ch_, nullptr, 0) != -ETIMEDOUT)
            (void)try_close();
    }

    explicit operator bool() const noexcept { return region_ != nullptr; }
    rregion_t handle() const noexcept { return region_; }
    void *data() const noexcept { return rregion_mem(region_); }
    /* -EBUSY: transfers are in flight, and it is still open. A second call does nothing. */
    void close() { detail::check(try_close().code()); }
    result<void> try_close() noexcept
    {
        int code = region_ != nullptr ? rregion_close(region_) : R_SUCCESS;

        if (code != -EBUSY)
            region_ = nullptr;
        return code;
    }

  private:
    rch_t ch_ = nullptr;
    rregion_t region_ = nullptr;
};

inline void writer::write_from(const region &from, std::size_t offset, std::size_t bytes,
                               std::uint64_t tag)
{
    detail::check(rpipe_write_from(ch_, from.handle(), offset, bytes, tag, nullptr, 0));
}

/* One transfer at a time for each completion. */
inline void writer::write_from(const region &from, std::size_t offset, std::size_t bytes,
                               std::uint64_t tag, completion &done)
{
    if (!done.done())
        detail::raise(-EBUSY, "write_from: the completion belongs to a transfer in flight");
    done.ch_ = ch_;
    detail::check(rpipe_write_from(ch_, from.handle(), offset, bytes, tag, &done.word_, 0));
}

inline std::optional<reader::received> reader::read_into(const region &into, std::size_t offset,
                                                         std::size_t room)
{
    received got{};
    int code = rpipe_read_into(ch_, into.handle(), offset, room, &got.bytes, &got.tag, 0);

    if (code == R_EOF)
        return std::nullopt;
    detail::check(code);
    return got;
}

/* ---- cells ---- */

/* One end of an array of 64-bit words with atomic operations. */
class cells
{
  public:
    cells() noexcept = default;
    explicit cells(const rcells_config_t &cfg)
    {
        detail::check((rcells_open)(&cells_, &cfg, sizeof(cfg)));
    }
    /* The end that has the cells, for a peer that uses them. */
    static cells owner(int user, std::uint64_t count = 0, std::uint64_t context = 0)
    {
        return open(RCELLS_OWNER, user, count, context);
    }
    /* The end that uses the cells of a peer. */
    static cells user(int owner, std::uint64_t context = 0)
    {
        return open(RCELLS_USER, owner, 0, context);
    }
    cells(cells &&other) noexcept : cells_(std::exchange(other.cells_, nullptr)) {}
    cells &operator=(cells &&other) noexcept
    {
        cells taken(std::move(other));

        std::swap(cells_, taken.cells_);
        return *this;
    }
    ~cells() { (void)try_close(); }

    explicit operator bool() const noexcept { return cells_ != nullptr; }
    rcells_t handle() const noexcept { return cells_; }

    /* The value before the operation. */
    std::uint64_t atomic(rcells_op_t op, std::size_t cell, std::uint64_t operand,
                         std::uint64_t compare = 0)
    {
        std::uint64_t old = 0;

        detail::check(rcells_atomic(cells_, op, cell, operand, compare, &old));
        return old;
    }
    std::uint64_t load(std::size_t cell) { return atomic(RCELLS_ADD, cell, 0); }
    std::uint64_t exchange(std::size_t cell, std::uint64_t value)
    {
        return atomic(RCELLS_SWAP, cell, value);
    }
    std::uint64_t fetch_add(std::size_t cell, std::uint64_t value)
    {
        return atomic(RCELLS_ADD, cell, value);
    }
    /* expected becomes the value that was found. */
    bool compare_exchange(std::size_t cell, std::uint64_t &expected, std::uint64_t value)
    {
        std::uint64_t old = atomic(RCELLS_CAS, cell, value, expected);

        return old == std::exchange(expected, old);
    }
    /* Without the value before: does not wait, flush() completes it. */
    void add(std::size_t cell, std::uint64_t value)
    {
        detail::check(rcells_atomic(cells_, RCELLS_ADD, cell, value, 0, nullptr));
    }
    void flush() { detail::check(rcells_flush(cells_)); }
    void close() { detail::check(try_close().code()); }
    result<void> try_close() noexcept
    {
        return cells_ != nullptr ? rcells_close(std::exchange(cells_, nullptr)) : R_SUCCESS;
    }

  private:
    static cells open(rcells_role_t role, int peer, std::uint64_t count, std::uint64_t context)
    {
        rcells_config_t cfg = {};

        cfg.role = role;
        cfg.peer = peer;
        cfg.cells = count;
        cfg.context = context;
        return cells(cfg);
    }

    rcells_t cells_ = nullptr;
};

/* ---- groups ---- */

/* Pipes to many readers, or from many writers. A message of a group is one of the pipe of a member. */
class group
{
  public:
    template <typename T> struct member_message {
        int member = -1;
        rpipe::message<T> message;
        explicit operator bool() const noexcept { return static_cast<bool>(message); }
    };

    group() noexcept = default;
    /* role: of this end. Without peers: all ranks of the job. */
    group(rpipe_role_t role, const std::vector<int> &peers, const rpipe_config_t &with = config())
    {
        rpipe_config_t cfg = with;
        int n = peers.empty() ? rpipe_network_ranks() : static_cast<int>(peers.size());

        cfg.role = role;
        if (n < 0)
            detail::raise(n);
        detail::check(
            (rgroup_open)(&group_, &cfg, peers.empty() ? nullptr : peers.data(), n, sizeof(cfg)));
    }
    group(group &&other) noexcept : group_(std::exchange(other.group_, nullptr)) {}
    group &operator=(group &&other) noexcept
    {
        group taken(std::move(other));

        std::swap(group_, taken.group_);
        return *this;
    }
    ~group() { (void)try_close(); }

    explicit operator bool() const noexcept { return group_ != nullptr; }
    rgroup_t handle() const noexcept { return group_; }
    void wait() { detail::check(rgroup_wait(group_)); }
    void set_timeout(std::chrono::milliseconds time)
    {
        detail::check(rgroup_set_timeout(group_, detail::milliseconds(time)));
    }
    int count() const noexcept { return rgroup_count(group_); }
    int lost() const noexcept { return rgroup_lost(group_); }
    rch_t pipe(int member) const noexcept { return rgroup_pipe(group_, member); }

    /* Writer. to: a member, RGROUP_NEXT or RGROUP_ANY. */
    template <typename T = std::byte>
    member_message<T> alloc(std::size_t count = 1, int to = RGROUP_NEXT)
    {
        raddr_t d = ADDR_NULL;
        int member = -1;

        detail::check(rgroup_alloc(group_, to, detail::bytes_of<T>(count), &member, &d, 0));
        return {member, own<T>(member, d, count * sizeof(T))};
    }
    /* Reader: the next message of any member. Empty: all have closed. */
    template <typename T = std::byte> member_message<T> read()
    {
        raddr_t d = ADDR_NULL;
        std::size_t bytes = 0;
        int member = -1, code = rgroup_read(group_, &member, &d, &bytes, 0);

        if (code == R_EOF)
            return {};
        detail::check(code);
        message<T> got = own<T>(member, d, bytes);

        if (bytes % sizeof(T) != 0)
            detail::raise(-EBADMSG, "group: the size of the message is not that of the type");
        return {member, std::move(got)};
    }
    void close() { detail::check(try_close().code()); }
    result<void> try_close() noexcept
    {
        return group_ != nullptr ? rgroup_close(std::exchange(group_, nullptr)) : R_SUCCESS;
    }

  private:
    template <typename T> message<T> own(int member, raddr_t d, std::size_t bytes) const noexcept
    {
        rch_t ch = pipe(member);

        return {ch, d, rmalloc_ptr(ch, d), bytes};
    }
    template <typename T> static constexpr rgroup_type_t type_of() noexcept
    {
        static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8,
                      "numbers of 8 to 64 bits are combined");
        if constexpr (std::is_floating_point_v<T>)
            return sizeof(T) == 4 ? RGROUP_FLOAT : RGROUP_DOUBLE;
        else if constexpr (std::is_signed_v<T>)
            return sizeof(T) == 1   ? RGROUP_INT8
                   : sizeof(T) == 2 ? RGROUP_INT16
                   : sizeof(T) == 4 ? RGROUP_INT32
                                    : RGROUP_INT64;
        else
            return sizeof(T) == 1   ? RGROUP_UINT8
                   : sizeof(T) == 2 ? RGROUP_UINT16
                   : sizeof(T) == 4 ? RGROUP_UINT32
                                    : RGROUP_UINT64;
    }

    rgroup_t group_ = nullptr;
};

/* ---- neighbors ---- */

/* Which neighbor is on which side of this process, and on which of its sides this process is; see rneighbors(3). */
struct side {
    int peer; /* or R_NO_PEER */
    std::uint32_t number;
    std::uint32_t opposite;
};

/* The pipes of one side; both are empty where there is no neighbor. */
struct neighbor {
    int peer;
    writer out;
    reader in;
};

/* Opens the pipes of all sides, or none; in the order of the list. */
inline std::vector<neighbor> neighbors(const std::vector<side> &sides,
                                       const rpipe_config_t &cfg = config())
{
    std::vector<rneighbor_t> list;
    std::vector<neighbor> opened;

    opened.reserve(sides.size());
    for (const side &s : sides)
        list.push_back({s.peer, s.number, s.opposite, 0, nullptr, nullptr});
    detail::check((rpipe_neighbors)(list.data(), static_cast<int>(list.size()), &cfg, sizeof(cfg)));
    for (const rneighbor_t &n : list)
        opened.push_back({n.peer, writer(n.out), reader(n.in)});
    return opened;
}

/* ---- waiting for many pipes ---- */

/* Of each reader: read() would not wait. Waits until that is true of one, up to the timeout. */
template <typename... Readers>
std::array<bool, sizeof...(Readers)> poll(std::chrono::milliseconds timeout,
                                          const Readers &...readers)
{
    const rch_t ends[] = {readers.handle()...};
    int ready[sizeof...(Readers)] = {};
    std::array<bool, sizeof...(Readers)> found{};
    int code = rpipe_poll(ends, static_cast<int>(sizeof...(Readers)), ready,
                          timeout.count() == 0 ? 0 : detail::milliseconds(timeout));

    if (code != -ETIMEDOUT && code != R_PENDING)
        detail::check(code);
    for (std::size_t i = 0; i < found.size(); i++)
        found[i] = ready[i] != 0;
    return found;
}

} // namespace rpipe

#endif
