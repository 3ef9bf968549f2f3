/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame.h: what a connection carries.
 *
 * Each end first sends a greeting, then frames: a head of 24 bytes, and for some operations bytes
 * behind it. There are no numbers of requests: the target answers in the order of the requests, and
 * TCP keeps it. Byte order and lengths are those of the hosts, which rpipe requires to be alike;
 * the magic number differs otherwise.
 */
#ifndef BTL_TCP_FRAME_H
#define BTL_TCP_FRAME_H

#include "btl/btl.h"

#include <assert.h>

#define TCP_SLOT_BYTES 64u
#define TCP_COOKIE_BYTES 32
#define TCP_MAGIC UINT64_C(0x3170637465706972) /* "ripetcp1" */

enum tcp_code {
    TCP_PUT = 1, /* `length` bytes follow, for region and offset */
    TCP_SLOT,    /* 64 bytes follow; the last 8 of them are stored last */
    TCP_GET,     /* requests `length` bytes of region and offset: answered by DATA */
    TCP_ATOMIC,  /* `length` is enum btl_atomic; operand and compare follow: answered by VALUE */
    TCP_FLUSH,   /* answered by PLACED when everything before it has been placed */
    TCP_DATA,    /* `length` bytes follow */
    TCP_VALUE,   /* `offset` is the old value */
    TCP_PLACED
};

struct tcp_head {
    uint64_t code_and_length; /* code << 56 | length */
    uint64_t region;          /* generation << 32 | index */
    uint64_t offset;          /* bytes from the beginning of the region */
};
static_assert(sizeof(struct tcp_head) == 24, "on the wire");

#define TCP_LENGTH_MOST ((UINT64_C(1) << 56) - 1)

struct tcp_atomic_frame {
    struct tcp_head head;
    uint64_t operand, compare;
};
static_assert(sizeof(struct tcp_atomic_frame) == 40, "on the wire");

struct tcp_slot_frame {
    struct tcp_head head;
    uint64_t word[TCP_SLOT_BYTES / 8];
};
static_assert(sizeof(struct tcp_slot_frame) == 88, "on the wire");

/*
 * The connecting end sends the cookie of the accepting end, which answers with that of the
 * connecting end: each has received the other's over the control network.
 */
struct tcp_greeting {
    uint64_t magic;
    uint64_t id; /* the receiver's number of the connection */
    uint8_t cookie[TCP_COOKIE_BYTES];
};
static_assert(sizeof(struct tcp_greeting) == 48, "on the wire");

/* struct btl_address.byte */
struct tcp_name {
    uint32_t version; /* TCP_VERSION */
    uint16_t family;  /* 4 or 6 */
    uint16_t port;
    uint8_t address[16];
    uint64_t id;
    uint32_t depth; /* outstanding requests of this end */
    uint32_t zero;
    uint8_t cookie[TCP_COOKIE_BYTES];
};
static_assert(sizeof(struct tcp_name) == 72, "on the wire");
static_assert(sizeof(struct tcp_name) <= BTL_ADDRESS_MAX - 2, "travels in an address");

#define TCP_VERSION 1u

static inline struct tcp_head tcp_head_of(enum tcp_code code, uint64_t length, uint64_t region,
                                          uint64_t offset)
{
    return (struct tcp_head){(uint64_t)code << 56 | length, region, offset};
}

static inline unsigned tcp_head_code(const struct tcp_head *h)
{
    return (unsigned)(h->code_and_length >> 56);
}

static inline uint64_t tcp_head_length(const struct tcp_head *h)
{
    return h->code_and_length & TCP_LENGTH_MOST;
}

#endif
