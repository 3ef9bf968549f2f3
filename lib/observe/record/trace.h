/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h: RPIPE_TRACE: what happened when, recorded while it happens, and written as a trace that Perfetto opens.
 *
 *     uint32_t row = trace_begin(ch, TRACE_WRITE);
 *     ... the call ...
 *     trace_end(row, number, bytes, rc);
 *
 * An end that is traced has a row, and STATE_TRACED, so that all its calls take the slow path; the fast paths know nothing of it, and
 * where nothing is traced a slow path pays for one look at a word of the end. Each thread records into a ring of its own, of
 * fixed size: no lock, no malloc and no system call but for the clock, once it has a ring. Rings lie in a file, FILE.raw, that survives
 * this process however it ends; rexit makes JSON of it (trace_json.c), and so does rmalloc_trace(1), later.
 *
 * A record is made when a call has ended. Calls that have not are in the ring's list of open calls, so that the last thing a
 * process did is told too.
 */
#ifndef OBSERVE_RECORD_TRACE_H
#define OBSERVE_RECORD_TRACE_H

#include "util/cpu.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct rch;

enum trace_kind {
    TRACE_NONE,
    TRACE_OPEN,    /* rpipe */
    TRACE_JOIN,    /* the two ends have met; a moment */
    TRACE_ALLOC,   /* rmalloc */
    TRACE_WRITE,   /* rwrite: number, bytes */
    TRACE_READ,    /* rread: number, bytes */
    TRACE_MEET,    /* rpipe_wait */
    TRACE_FLUSH,   /* rflush */
    TRACE_WAIT,    /* inside of a call: text says what for */
    TRACE_SYNC,    /* the writer looks at what has come back; number: messages that have */
    TRACE_GROW,    /* a segment more; bytes: of the heap; a moment */
    TRACE_CLOSE,   /* rclose */
    TRACE_ERROR,   /* a sentence for the program; code; a moment */
    TRACE_NETWORK, /* a call of the control network: text says which */
    TRACE_KINDS
};

/* ---- the file ---- */

#define TRACE_MAGIC UINT64_C(0x3165636172747072) /* "rptrace1" */
#define TRACE_VERSION 2u
#define TRACE_THREADS 256u
#define TRACE_CHANNELS 4096u
#define TRACE_DEPTH 8u
#define TRACE_CLOCK_BYTES 64

#define TRACE_ROW_NETWORK 1u /* the control network; channels have the rows behind it */
#define TRACE_ROWS (TRACE_CHANNELS + 2u)

struct trace_record {
    int64_t begin, end; /* monotonic clock, ns; of a moment the same */
    uint16_t kind;
    uint16_t moment;
    uint32_t row;
    int32_t code;
    uint32_t zero;
    union {
        struct {
            uint64_t number, bytes;
        };
        char text[16];
    };
};
static_assert(sizeof(struct trace_record) == 48, "in a file");

struct trace_open_call {
    int64_t begin;
    uint32_t kind, row;
};

/* A ring begins on a page; the records are behind this. */
struct trace_ring {
    _Atomic uint64_t head;  /* records ever; the last is complete before it is counted */
    _Atomic uint32_t depth; /* calls that have not ended, the outermost first */
    uint32_t zero;
    struct trace_open_call open[TRACE_DEPTH];
    char pad[4096 - 16 - TRACE_DEPTH * sizeof(struct trace_open_call)];
    struct trace_record record[];
};
static_assert(sizeof(struct trace_ring) == 4096, "in a file");

struct trace_channel {
    int32_t from, to;
    uint32_t ctx, incarnation, side;
    char backend[8];
    uint32_t zero;
};
static_assert(sizeof(struct trace_channel) == 32, "in a file");

/* What rank 0's clock was ahead of the one of this process, when that said `at`; within `error`. */
struct trace_sample {
    int64_t at, ahead, error;
};

struct trace_file {
    uint64_t magic;
    uint32_t version, header_bytes;
    int32_t pid, rank, ranks;
    uint32_t capacity;    /* records of a ring */
    int64_t clock_offset; /* ns: what CLOCK_REALTIME was ahead of CLOCK_MONOTONIC at rinit */
    char host[64];
    char clock
        [TRACE_CLOCK_BYTES]; /* kernel and time namespace: processes with the same name have the same clock */
    struct trace_sample sample
        [3]; /* the first; then the latest, in turn, so that a whole one is there at any time */
    _Atomic uint32_t samples; /* ever */
    _Atomic uint32_t threads; /* rings, behind this header */
    _Atomic uint32_t rows;    /* used, those of no use included */
    struct trace_channel channel[TRACE_ROWS];
};

static inline uint64_t trace_page(uint64_t bytes) { return (bytes + 4095) & ~UINT64_C(4095); }
static inline uint64_t trace_ring_bytes(uint32_t capacity)
{
    return trace_page(sizeof(struct trace_ring) + (uint64_t)capacity * sizeof(struct trace_record));
}

/* ---- recording ---- */

extern bool trace_on; /* between rinit and rexit */

void trace_start(int rank,
                 int ranks); /* what is wrong is logged: a job goes on without its trace */
void trace_stop(void);       /* rexit: JSON */
void trace_forked(void);
void trace_sample(const struct trace_sample *sample);

uint32_t trace_row(void);                  /* for a new end; 0: it is not traced */
void trace_describe(const struct rch *ch); /* who it is, as soon as that is known */

void trace_begin_call(uint32_t row, enum trace_kind kind);
void trace_end_call(uint64_t number, uint64_t bytes, int rc);
void trace_end_text(const char *text, int rc);
void trace_past(uint32_t row, enum trace_kind kind,
                int64_t begin); /* a call that had no row yet when it began */
void trace_moment(uint32_t row, enum trace_kind kind, uint64_t number, uint64_t bytes, int code);

/* The row, for the end of the call: the channel may be gone then. */
#define trace_begin(ch, kind) trace_begin_row((ch)->trace, (kind))
static inline uint32_t trace_begin_row(uint32_t row, enum trace_kind kind)
{
    if (UNLIKELY(row != 0))
        trace_begin_call(row, kind);
    return row;
}

static inline void trace_end(uint32_t row, uint64_t number, uint64_t bytes, int rc)
{
    if (UNLIKELY(row != 0))
        trace_end_call(number, bytes, rc);
}

/* ---- trace_clock.c ---- */
void trace_clock_name(char *name, size_t bytes); /* "": it cannot be told */
void trace_clock_start(int rank);
void trace_clock_end(
    int64_t deadline); /* while rank 0 is still there: waits a little for its last answers */
void trace_clock_message(int from, uint32_t type, const void *body,
                         size_t bytes); /* service thread */

/* ---- trace_json.c ---- */
int trace_json(int fd, FILE *to,
               const char **why); /* a file of rings, not believed; 0, -EPROTO, -EIO */

#endif
