/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * card.h: the business card: the addresses of a rank, and the cookie that authenticates it.
 *
 * Every rank publishes its card through the job, so that the processes of the job have the cookie,
 * and no others. Two ranks are on the same host if kernel (boot id) and network namespace are the
 * same: then abstract Unix sockets reach. It also lists the backends that the rank can probably
 * use, so that both ends of a pipe choose the same one without a message.
 */
#ifndef CONTROL_CARD_H
#define CONTROL_CARD_H

#include "util/layout.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CARD_MAGIC UINT64_C(0x3364726163636d72) /* "rmccard3" on a little-endian machine */
#define CARD_ADDRESSES 8
#define COOKIE_BYTES 16
#define PROCESS_ID_BYTES 16
/* Versions of the control network that this build has. */
#define CONTROL_VERSION_OLDEST 3
#define CONTROL_VERSION_NEWEST 3
/* Bits of `features`. */
#define CONTROL_FEATURE_EXITING UINT64_C(1) /* receives WIRE_EXITING */
#define CONTROL_FEATURES CONTROL_FEATURE_EXITING

struct card_address {
    uint8_t family; /* 4 or 6 */
    uint8_t spare[7];
    uint8_t bytes[16]; /* network byte order */
};

struct card {
    uint32_t bytes;                /* of this structure */
    struct version_range versions; /* of the control network */
    uint64_t magic;
    uint64_t features; /* CONTROL_FEATURES */
    uint32_t rank;
    uint32_t pid;
    uint8_t cookie[COOKIE_BYTES]; /* secret: shown by a process that connects to this rank */
    uint8_t process_id[PROCESS_ID_BYTES]; /* public: random, never that of another process */
    uint8_t boot_id[16];
    /* inode of the network namespace; 0: not known, never the same as another's */
    uint64_t network;
    uint32_t backends; /* btl_probe() */
    uint32_t pids; /* inode of the namespace of `pid`; 0: not known, never the same as another's */
    uint16_t tcp_port;  /* host byte order; 0: does not listen */
    uint8_t unix_bytes; /* of the name; 0: does not listen */
    uint8_t addresses;
    uint32_t spare;
    uint8_t unix_name[40]; /* abstract: begins with a zero byte */
    struct card_address address[CARD_ADDRESSES];
    uint8_t more_spare[32];
    LAYOUT_APPENDED
};

static_assert(sizeof(struct card_address) == 24, "fixed on the wire");
static_assert(offsetof(struct card, network) == 80 && offsetof(struct card, unix_name) == 104,
              "fixed on the wire");
static_assert(sizeof(struct card) == 176 + 24 * CARD_ADDRESSES + LAYOUT_APPENDED_BYTES,
              "fixed on the wire");
#define CARD_LEAST (176 + 24 * CARD_ADDRESSES)

static inline struct version_range control_versions(void)
{
    return version_range_of("control", CONTROL_VERSION_OLDEST, CONTROL_VERSION_NEWEST);
}

/* Two ranks have the same one if descriptors can be passed between them: host, network namespace, Unix sockets. */
struct control_host {
    uint8_t id[24];
};

/* A process, to others. */
struct control_process {
    uint64_t id; /* the first half of the public process id */
    int pid; /* as this process sees it; -1: it is in another pid namespace, or this is not known */
};

/* Magic, versions, rank, cookie, process id, host, pid, backends; no addresses yet. 0 or -errno
 * and a message. */
int card_make(struct card *card, int rank, struct error *err);
/* Checks and copies the card of `rank` as the job returned it. 0, or -EPROTO and a message. */
int card_check(struct card *card, const void *blob, size_t bytes, int rank, struct error *err);
struct control_host card_host(const struct card *card);
bool card_same_host(const struct card *a, const struct card *b);
/* The process ids of both are of one namespace. */
bool card_same_pids(const struct card *a, const struct card *b);
/* The same host, but perhaps another network namespace. */
/* Whether the card has what the next three compare: not where /proc cannot be read. */
bool card_shows_host(const struct card *card);
bool card_same_kernel(const struct card *a, const struct card *b);
/* In a time that does not depend on where they differ. */
bool cookie_equal(const uint8_t *a, const uint8_t *b);

#endif
