/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * publish.h: the memory in which a process publishes its ends for rmalloc_stat(1): an anonymous file (memfd) that other
 * processes of the same user open as /proc/PID/fd/N.
 *
 * Ends are allocated in that file, so a counter is visible where it is counted: nothing is copied, and no fast path depends on
 * it. The header of the file has the offset of each counter within an end. A counter is a 64-bit word, or a difference of
 * words, times another. Only the owner stores to a word, with plain stores of 64 bits. A reader gets each word as it was
 * at some moment; different words may be of different moments.
 *
 * Only a process that may trace this one (ptrace(2): same user, or root) can open the file, and only for reading. The file
 * disappears with the process. Readers validate everything they read (observe/report/observe.c).
 *
 * The layer above gives the table of counters and the layout of an end (struct published_layout); this file has neither.
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
#define PUBLISHED_VERSION                                                                          \
    2u /* of this layout and of enum state (rpipe/end), which a reader decodes */
#define PUBLISHED_OLDEST                                                                           \
    2u /* oldest version that can read this layout, and that this version can read */
#define PUBLISHED_CHUNKS 128  /* chunks of ends in a file */
#define PUBLISHED_COUNTERS 48 /* counters of an end */
#define PUBLISHED_WAIT_WORDS 7
#define PUBLISHED_PROGRAM_BYTES 32
#define PUBLISHED_JOB_BYTES 96
#define PUBLISHED_NONE UINT32_MAX

/*
 * Offsets within an end of (plus - minus - base) * times; PUBLISHED_NONE: absent. Without `plus` ends of this role have no
 * such counter.
 */
struct published_word {
    uint32_t plus, minus, base, times;
};

struct published_counter {
    char name[32];
    char unit[16];
    struct published_word writer, reader;
    uint64_t now; /* 1: a state now; 0: a sum since the end was opened */
};

/* What a call waits for now, if it has stopped spinning. The text is stored before `since`. */
struct published_wait {
    _Atomic int64_t since;                       /* monotonic clock, ns; 0: no call waits */
    _Atomic uint64_t text[PUBLISHED_WAIT_WORDS]; /* a string */
};

/* Role of an end; the values of the public rpipe_role_t. */
enum published_role { PUBLISHED_WRITER = 1, PUBLISHED_READER = 2 };

/* Identity of an end, part of each end. */
enum published_state { PUBLISHED_FREE, PUBLISHED_OPEN };
struct published_end {
    _Atomic uint32_t state; /* PUBLISHED_OPEN is stored after all other members */
    uint32_t role;          /* enum published_role */
    uint64_t context;
    int32_t writer, reader; /* peers: writing end, reading end */
    uint32_t incarnation;   /* how often the end has opened this pipe */
    uint32_t zero;
    uint64_t unit_bytes; /* of the heap */
    uint64_t first;      /* number of the first message */
    char backend[16];
    struct published_wait wait;
};
static_assert(sizeof(struct published_end) == 128, "layout of the published file");

/* Header of the file. A reader takes header_bytes of it and sets the rest to 0. */
struct published {
    uint64_t magic; /* stored last */
    uint32_t header_bytes;
    uint32_t version,
        oldest; /* range: the layout is `version`; readers from `oldest` on understand it */
    int32_t pid, rank, ranks;
    uint32_t end_bytes;    /* distance between two ends */
    uint32_t published_at; /* offset of struct published_end within an end */
    uint32_t state_at;     /* offset of the state flags within an end */
    uint32_t chunks_most;  /* PUBLISHED_CHUNKS */
    uint32_t counters;
    uint32_t zero;
    int64_t started;            /* rinit, monotonic clock, ns */
    struct published_wait wait; /* of a call without an end */
    _Atomic uint64_t opened;    /* ends opened since rinit */
    _Atomic uint64_t
        retired; /* incremented before and after each change of `total`: odd during a change */
    _Atomic uint64_t chunks; /* entries of chunk[] in use */
    struct {
        uint64_t offset, ends;
    } chunk[PUBLISHED_CHUNKS];
    struct published_counter counter[PUBLISHED_COUNTERS];
    _Atomic uint64_t total[PUBLISHED_COUNTERS]; /* sums of closed ends */
    char program[PUBLISHED_PROGRAM_BYTES];      /* name of the program, a string */
    char job[PUBLISHED_JOB_BYTES];              /* bootstrap and name of the job, a string */
};
static_assert(offsetof(struct published, started) == 56, "layout of the published file");

/* A row of the table of counters, which the layer above defines. */
struct counter_row {
    const char *name, *unit, *meaning;
    bool now; /* a state now; closed ends do not count */
    struct published_word writer, reader;
};

/* The layout of an end, and its counters. */
struct published_layout {
    const struct counter_row *row;
    int rows; /* at most PUBLISHED_COUNTERS */
    uint32_t end_bytes, published_at, state_at;
};

/* Creates the file at rinit; publish_complete() makes it readable. 0 or -errno: this process is not observable. */
int publish_start(int rank, int ranks, const char *job, const struct published_layout *layout);
void publish_complete(void);
void publish_stop(void);                /* at rexit, and in the child of a fork */
struct published *publish_header(void); /* NULL: nothing is published */
int publish_fd(void);                   /* for reading; -1: nothing is published */

/*
 * Zeroed memory for ends, in the file if possible; NULL: no memory. `at` not NULL: publishes existing ends in place. The
 * memory is never unmapped.
 */
void *publish_map(void *at, size_t bytes, size_t ends);
/* In the child of a fork: replaces memory shared with the parent by a private copy. */
void publish_make_private(void *base, size_t bytes);
size_t publish_round(size_t bytes); /* to whole pages */

/* Publishes what a call waits for; NULL: it does not wait any more. */
void publish_wait_set(struct published_wait *wait, const char *what);
void publish_process_wait(const char *what); /* of a call without an end */

#endif
