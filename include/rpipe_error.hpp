/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpipe_error.hpp: failures, results and spans of <rpipe.hpp>, which includes it.
 */
#ifndef RPIPE_ERROR_HPP
#define RPIPE_ERROR_HPP

#ifndef RPIPE_HPP
#error "include <rpipe.hpp>"
#endif

#include <rinfo.h>
#include <rpipe.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>
#if __cplusplus >= 202002L
#include <span>
#endif

namespace rpipe
{

/* Of a try_ call: return a pending result where the call would wait. */
struct nowait_t {
};
inline constexpr nowait_t nowait{};

/* No deadline, of config::timeout() and set_timeout(). 0 ms: no waiting at all. */
inline constexpr std::chrono::milliseconds forever{-1};

/* ---- failures ---- */

namespace detail
{

class error_category final : public std::error_category
{
  public:
    const char *name() const noexcept override { return "rpipe"; }
    std::string message(int value) const override { return rinfo_strerror(-value); }
    std::error_condition default_error_condition(int value) const noexcept override
    {
        return value == -R_EOF ? std::error_condition(value, *this)
                               : std::error_condition(value, std::generic_category());
    }
};

} // namespace detail

/* Values are those of errno, which compare equal to std::errc, and -R_EOF. */
inline const std::error_category &category() noexcept
{
    static const detail::error_category instance;
    return instance;
}

/* Message of the last failure of this thread in any call. */
inline const char *last_error() noexcept { return rpipe_error(nullptr); }

/* what() is the message of the library and the meaning of the code. */
class error : public std::system_error
{
  public:
    explicit error(int result, const char *text = last_error())
        : std::system_error(-result, category(), text)
    {
    }
    /* The result of C: a negative errno value or R_EOF. */
    int result() const noexcept { return -code().value(); }
    bool eof() const noexcept { return result() == R_EOF; }
};

namespace detail
{

/*
 * These throw; without exceptions (-fno-exceptions) they print and abort. All that belongs to a failure is inside of them, so that
 * the call is the only instruction at the place of the failure.
 */
[[noreturn, gnu::cold, gnu::noinline]] inline void raise(int code, const char *text)
{
#ifdef __cpp_exceptions
    throw error(code, text);
#else
    std::fprintf(stderr, "rpipe: %s: %s\n", text, rinfo_strerror(code));
    std::abort();
#endif
}
[[noreturn, gnu::cold, gnu::noinline]] inline void raise(int code)
{
    raise(code,
          code == R_PENDING ? "the call would wait" : last_error()); /* no failure of the library */
}
[[noreturn, gnu::cold, gnu::noinline]] inline void raise_errno() { raise(-errno); }

inline void check(int code)
{
    if (code != R_SUCCESS)
        raise(code);
}

inline int milliseconds(std::chrono::milliseconds time) noexcept
{
    if (time.count() < 0)
        return R_FOREVER;
    if (time.count() == 0)
        return R_AT_ONCE;
    return time.count() > INT_MAX ? INT_MAX : static_cast<int>(time.count());
}

/* Bytes of count elements; SIZE_MAX, which no call accepts, where they have no number. */
template <typename T> constexpr std::size_t bytes_of(std::size_t count) noexcept
{
    return count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
}

/* Where std::span does not exist. */
template <typename T> class view
{
  public:
    constexpr view() noexcept = default;
    constexpr view(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const { return data_[i]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace detail

/* std::span from C++20 on, before a pointer and a size. */
#if defined(__cpp_lib_span)
template <typename T> using span = std::span<T>;
#else
template <typename T> using span = detail::view<T>;
#endif

/* What a try_ call returns: a value, or a code other than 0. value() throws where there is none. */
template <typename T> class [[nodiscard]] result
{
  public:
    result(int code) noexcept : code_(code) {}
    result(T &&value) noexcept : code_(R_SUCCESS), value_(std::move(value)) {}
    explicit operator bool() const noexcept { return code_ == R_SUCCESS; }
    int code() const noexcept { return code_; }
    bool pending() const noexcept { return code_ == R_PENDING; }
    bool eof() const noexcept { return code_ == R_EOF; }
    std::error_code error() const noexcept { return {-code_, category()}; }
    T &value() &
    {
        detail::check(code_);
        return *value_;
    }
    T &&value() &&
    {
        detail::check(code_);
        return std::move(*value_);
    }
    T &operator*() noexcept { return *value_; }
    T *operator->() noexcept { return &*value_; }

  private:
    int code_;
    std::optional<T> value_;
};

template <> class [[nodiscard]] result<void>
{
  public:
    result(int code) noexcept : code_(code) {}
    explicit operator bool() const noexcept { return code_ == R_SUCCESS; }
    int code() const noexcept { return code_; }
    bool pending() const noexcept { return code_ == R_PENDING; }
    bool eof() const noexcept { return code_ == R_EOF; }
    std::error_code error() const noexcept { return {-code_, category()}; }
    void value() const { detail::check(code_); }

  private:
    int code_;
};

} // namespace rpipe

#endif
