/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_tcp.h: what the two halves of the tcp bootstrap say to each other. Inside lib/bootstrap only.
 *
 *   guest -> root    tcp_join, the secret, the card
 *   root  -> guest   tcp_verdict; then either a sentence (refused), or one tcp_slot per rank
 *   later, both ways tcp_notice: the job is aborted
 *
 * The secret travels in the clear: it keeps jobs apart that were given the same port, and strangers out, on a network
 * whose wires are trusted. It is no protection against whoever can listen.
 */
#ifndef BOOTSTRAP_JOB_TCP_H
#define BOOTSTRAP_JOB_TCP_H

#include "bootstrap/job.h"
#include "util/error.h"

#include <assert.h>
#include <netdb.h>

#define TCP_JOIN_MAGIC UINT64_C(0x316e696f6a6d72)
#define TCP_VERDICT_MAGIC UINT64_C(0x317265766d72)
#define TCP_NOTICE_MAGIC UINT64_C(0x3174726f62616d72)
#define TCP_VERSION 1
#define TCP_SECRET_MAX 255
#define TCP_TEXT_MAX 240
#define TCP_JOIN_MS 5000 /* a guest that says less than all within this time is shown out */

struct tcp_join {
    uint64_t magic;
    uint32_t version, rank, size;
    uint32_t secret_bytes, card_bytes, spare;
};

struct tcp_verdict {
    uint64_t magic;
    int32_t code; /* 0, or a negative errno */
    uint32_t text_bytes;
};

struct tcp_slot {
    uint32_t bytes;
    uint8_t card[JOB_CARD_MAX];
};

struct tcp_notice {
    uint64_t magic;
    int32_t code;
    uint32_t from;
};

static_assert(sizeof(struct tcp_join) == 32 && sizeof(struct tcp_verdict) == 16,
              "fixed on the wire");
static_assert(sizeof(struct tcp_slot) == 516 && sizeof(struct tcp_notice) == 16,
              "fixed on the wire");

struct tcp_job {
    int rank, size;
    char host[256], port[8];
    const char *secret;
    struct tcp_slot *table; /* of `size` slots, once published */
    int *links; /* root: `size` connections, -1 where there is none; guest: one, to the root */
    int watch;  /* epoll over the links */
};

/* job_tcp_root.c: gathers the cards of all, hands out the table. The links stay open. 0 or -errno and a sentence. */
int tcp_root_listen(const struct tcp_job *job, int64_t deadline,
                    struct error *err); /* the socket, or -errno */
int tcp_root_gather(struct tcp_job *job, int listener, int64_t deadline, struct error *err);
/* job_tcp.c */
int tcp_resolve(const struct tcp_job *job, struct addrinfo **list, struct error *err);

#endif
