/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_tcp_wire.h: the messages of the tcp bootstrap, and the state of one process. Inside
 * lib/bootstrap only.
 *
 *   client -> root    tcp_join, the secret, the card
 *   root   -> client  tcp_verdict; then a message (refused), or for each rank its card, after the
 *                     length of it (uint32_t)
 *   later, both ways  tcp_abort: the job is aborted
 *
 * The secret is sent in the clear: it separates jobs that were given the same port, and excludes
 * other processes, on a network whose cables are trusted. It is no protection against a process
 * that reads the network.
 *
 * Each structure begins with its length and is read zero-extended (util/layout.h).
 */
#ifndef BOOTSTRAP_JOB_TCP_WIRE_H
#define BOOTSTRAP_JOB_TCP_WIRE_H

#include "bootstrap/job_ops.h"
#include "util/layout.h"

#include <assert.h>

#define TCP_JOIN_MAGIC UINT64_C(0x326e696f6a6d72)
#define TCP_VERDICT_MAGIC UINT64_C(0x327265766d72)
#define TCP_ABORT_MAGIC UINT64_C(0x3274726f62616d72)
#define TCP_VERSION_OLDEST 2
#define TCP_VERSION_NEWEST 2
#define TCP_SECRET_MAX 255
#define TCP_TEXT_MAX 400
#define TCP_MESSAGE_MAX 512 /* bytes of a structure below, of any version */
#define TCP_CARD_MAX 4096   /* bytes of a card, of any version */
#define TCP_JOIN_MS 5000    /* a client that has not sent all of its join by then is disconnected */

struct tcp_join {
    uint32_t bytes; /* of this structure */
    struct version_range versions;
    uint64_t magic;
    uint64_t features; /* none yet */
    uint32_t rank, size;
    uint32_t secret_bytes, card_bytes;
    uint8_t spare[16];
    LAYOUT_APPENDED
};

struct tcp_verdict {
    uint32_t bytes; /* of this structure */
    int32_t code;   /* 0, or a negative errno */
    uint64_t magic;
    uint64_t features;
    uint32_t text_bytes;           /* of the message that follows, if code is not 0 */
    struct version_range versions; /* of the root */
    uint32_t table_bytes;
    uint8_t spare[12];
    LAYOUT_APPENDED
};

struct tcp_abort {
    uint32_t bytes; /* of this structure */
    int32_t code;
    uint64_t magic;
    uint32_t from; /* rank */
    uint32_t spare;
};

static_assert(sizeof(struct version_range) == 4, "fixed on the wire");
static_assert(sizeof(struct tcp_join) == 56 + LAYOUT_APPENDED_BYTES, "fixed on the wire");
static_assert(sizeof(struct tcp_verdict) == 48 + LAYOUT_APPENDED_BYTES, "fixed on the wire");
static_assert(sizeof(struct tcp_abort) == 24, "fixed on the wire");
#define TCP_JOIN_LEAST 56
#define TCP_VERDICT_LEAST 48
#define TCP_ABORT_LEAST 24

struct tcp_card {
    uint32_t bytes; /* 0: none yet */
    uint8_t card[JOB_CARD_MAX];
};

struct tcp_job {
    int rank, size;
    char host[256], port[8];
    const char *secret;
    struct tcp_card *table; /* of `size` cards */
    int *links; /* root: `size` connections, -1 where there is none; client: one, to the root */
    int watch;  /* epoll over the links */
};

static inline struct version_range tcp_versions(void)
{
    return version_range_of("bootstrap", TCP_VERSION_OLDEST, TCP_VERSION_NEWEST);
}

#endif
