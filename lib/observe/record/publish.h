/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * publish.h: what a process shows of itself to rmalloc_stat(1): an anonymous file (memfd) of its own, which others open by
 * /proc/PID/fd.
 *
 * The memory of channel ends lies in that file, so that what an end counts is seen where it is counted: nothing is copied, and no
 * fast path knows of it. A header says where in an end which counter is. A counter is a 64-bit word, or the difference of two,
 * times a third; its owner alone stores it, by plain stores that a 64-bit machine does at once. Whoever reads finds each word as
 * it was at some moment, not all of them at the same.
 *
 * Only who may look into this process anyway (ptrace(2): the same user, or root) can open it, and for reading alone; when the
 * process ends, however it does, nothing is left. Readers trust nothing of it (observe.c).
 */
#ifndef OBSERVE_RECORD_PUBLISH_H
#define OBSERVE_RECORD_PUBLISH_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PUBLISHED_NAME "rmalloc_stat"
#define PUBLISHED_MAGIC UINT64_C(0x31746174736d7270) /* "prmstat1" */
#define PUBLISHED_VERSION 1u /* also of enum notice, which observe.c reads */
#define PUBLISHED_CHUNKS 128
#define PUBLISHED_COUNTERS 48
#define PUBLISHED_WHAT_WORDS 7
#define PUBLISHED_NONE UINT32_MAX

/* (word at plus - word at minus) * word at times; bytes from the beginning of an end. No plus: this side has no such counter */
struct published_word {
    uint32_t plus, minus, times;
};

struct published_counter {
    char name[32];
    char unit[16];
    struct published_word writer, reader;
    uint64_t now; /* not 0: how it is, not how often it was */
};

/* What a thread waits for at the moment, once it has been for a while. The words first, then `since`. */
struct published_wait {
    _Atomic int64_t since;                       /* monotonic clock, ns; 0: nobody waits */
    _Atomic uint64_t what[PUBLISHED_WHAT_WORDS]; /* text */
};

/* In each end: who it is. */
enum published_state { PUBLISHED_FREE, PUBLISHED_OPEN };
struct published_end {
    _Atomic uint32_t state; /* the rest is complete before OPEN */
    uint32_t side, ctx, incarnation;
    int32_t writer, reader;
    char backend[8];
    uint64_t unit_size;
    struct published_wait wait;
};
static_assert(sizeof(struct published_end) == 104, "read by another process");

struct published {
    uint64_t magic;
    uint32_t version, header_bytes;
    int32_t pid, rank, ranks;
    uint32_t counters;
    uint32_t end_bytes, published_at, state_at, chunks_most;
    int64_t started;            /* monotonic clock, ns */
    struct published_wait wait; /* of a call without a channel */
    _Atomic uint64_t opened;    /* channel ends, ever */
    _Atomic uint64_t
        retired; /* of them, counted in `total`: changes before and after each change there, so odd is "in between" */
    _Atomic uint64_t chunks;
    struct {
        uint64_t offset, ends;
    } chunk[PUBLISHED_CHUNKS];
    struct published_counter counter[PUBLISHED_COUNTERS];
    _Atomic uint64_t total[PUBLISHED_COUNTERS]; /* of ends that have been closed */
};

int publish_start(int rank,
                  int ranks); /* rinit; 0 or -errno: then nothing is shown, and all else works */
void publish_stop(void);      /* rexit */
void publish_forked(void);    /* the child */
struct published *publish_header(void); /* NULL: nothing is shown */
int publish_fd(void);                   /* for reading; -1: nothing is shown */

/* Zeroed memory for ends, shown if that can be had; NULL: none at all. At `at`, if that is not NULL, in the place of what is there. */
void *publish_map(void *at, size_t bytes, size_t ends);
/* The child of a fork gets a copy of its own of what it shares with its parent. */
void publish_make_private(void *base, size_t bytes);
size_t publish_round(size_t bytes); /* to whole pages */

/* What a call without a channel waits for; NULL: no more. */
void publish_process_wait(const char *what);
void publish_wait_set(struct published_wait *wait, const char *what);

#endif
