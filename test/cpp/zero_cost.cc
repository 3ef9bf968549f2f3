/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zero_cost.cc: each pair of functions does the same by the calls of C and by <rpipe.hpp>. test/cpp/zero_cost compiles this and
 * compares their instructions.
 */
#include <rpipe.hpp>

[[noreturn, gnu::cold]] void failed(int code);

struct end {
    rch_t ch;
};

/* What a program in C has that does not repeat itself. */
struct block {
    rch_t ch;
    raddr_t d;
    void *data;
    size_t bytes;
};

static inline block must_alloc(rch_t ch, size_t bytes)
{
    raddr_t d = rmalloc_alloc(ch, bytes);

    if (d == ADDR_NULL)
        failed(-errno);
    return {ch, d, rmalloc_ptr(ch, d), bytes};
}

static inline void must_write(const block &b)
{
    int code = rpipe_write(b.ch, b.d);

    if (code != R_SUCCESS) {
        rmalloc_free(b.ch, b.d);
        failed(code);
    }
}

static inline int must_read(rch_t ch, block &b)
{
    size_t bytes;
    raddr_t d;
    int code = rpipe_read(ch, &d, &bytes);

    if (code != R_SUCCESS) {
        if (code != R_EOF)
            failed(code);
        return code;
    }
    b = {ch, d, rmalloc_ptr(ch, d), bytes};
    return R_SUCCESS;
}

extern "C" {

void c_write(const end &out, long value)
{
    block b = must_alloc(out.ch, sizeof(value));

    *static_cast<long *>(b.data) = value;
    must_write(b);
}

void cxx_write(rpipe::writer &out, long value)
{
    auto m = out.alloc<long>();

    *m = value;
    m.send();
}

/* The values of a message; -1 at the end of the pipe. */
long c_read(const end &in)
{
    block b;
    long sum = 0;

    if (must_read(in.ch, b) != R_SUCCESS)
        return -1;
    for (const char *p = static_cast<char *>(b.data), *end = p + b.bytes; p != end; p++)
        sum += *p;
    rmalloc_free(b.ch, b.d);
    return sum;
}

long cxx_read(rpipe::reader &in)
{
    auto m = in.read<char>();
    long sum = 0;

    if (!m)
        return -1;
    for (char c : m)
        sum += c;
    return sum;
}

void c_send(const end &out, long value)
{
    int code = rpipe_send(out.ch, &value, sizeof(value), 0);

    if (code != R_SUCCESS)
        failed(code);
}

void cxx_send(rpipe::writer &out, long value) { out.send(value); }

long c_recv(const end &in)
{
    size_t bytes;
    long value;
    int code = rpipe_recv(in.ch, &value, sizeof(value), &bytes, 0);

    if (code != R_SUCCESS || bytes != sizeof(value))
        failed(code);
    return value;
}

long cxx_recv(rpipe::reader &in) { return in.recv<long>(); }

/* One store more than c_send: the comparison has to find it. */
void worse_send(const end &out, long value)
{
    volatile long copy = value;

    c_send(out, copy);
}
}
