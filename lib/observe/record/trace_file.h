/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_file.h: layout of the file of trace records (FILE.raw): a header, then one ring of records for each thread.
 *
 * trace.c writes it; observe/report/trace_json.c reads it, also after the process has been killed.
 */
#ifndef OBSERVE_RECORD_TRACE_FILE_H
#define OBSERVE_RECORD_TRACE_FILE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#define TRACE_MAGIC UINT64_C(0x3165636172747072) /* "rptrace1" */
#define TRACE_VERSION 4u
#define TRACE_THREADS 256u
#define TRACE_ENDS 4096u
#define TRACE_DEPTH 8u
#define TRACE_CLOCK_BYTES 64

#define TRACE_ROW_NETWORK                                                                          \
    1u /* the control network; ends have the rows after it; row 0: not traced */
#define TRACE_ROWS (TRACE_ENDS + 2u)

enum trace_kind {
    TRACE_NONE,
    TRACE_OPEN,    /* rpipe */
    TRACE_JOIN,    /* both ends are joined; an instant */
    TRACE_ALLOC,   /* rmalloc */
    TRACE_WRITE,   /* rwrite: number, bytes */
    TRACE_READ,    /* rread: number, bytes */
    TRACE_MEET,    /* rwait */
    TRACE_FLUSH,   /* rflush */
    TRACE_WAIT,    /* inside of a call: text is what it waits for */
    TRACE_SYNC,    /* credit refresh of the writer; number: heap messages returned so far */
    TRACE_GROW,    /* a new segment; bytes: of the heap; an instant */
    TRACE_CLOSE,   /* rclose */
    TRACE_ERROR,   /* an error of a call; code; an instant */
    TRACE_NETWORK, /* a call of the control network: text is its name */
    TRACE_KINDS
};

struct trace_record {
    int64_t begin, end; /* monotonic clock, ns; equal for an instant */
    uint16_t kind;      /* enum trace_kind */
    uint16_t instant;
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
static_assert(sizeof(struct trace_record) == 48, "layout of the trace file");

struct trace_open_call {
    int64_t begin;
    uint32_t kind, row;
};

/* A ring begins on a page; the records follow the first page. */
struct trace_ring {
    _Atomic uint64_t head;  /* records written; a record is complete before it is counted */
    _Atomic uint32_t depth; /* calls that have not ended */
    uint32_t zero;
    struct trace_open_call open[TRACE_DEPTH]; /* the outermost first */
    char pad[4096 - 16 - TRACE_DEPTH * sizeof(struct trace_open_call)];
    struct trace_record record[];
};
static_assert(sizeof(struct trace_ring) == 4096, "layout of the trace file");

/* The end that a row belongs to. A row is used again for another end; records from before are not of this one. */
struct trace_end {
    uint64_t context;
    int32_t from, to; /* writer, reader */
    uint32_t incarnation;
    uint32_t role; /* enum published_role; 0: the row is unused. Stored last */
    char backend[8];
    int64_t since; /* the end has the row since then; 0: it is the first one */
};
static_assert(sizeof(struct trace_end) == 40, "layout of the trace file");

/* At time `at` of the own clock, the clock of rank 0 was `ahead` of it, within `error`; all in ns. */
struct trace_sample {
    int64_t at, ahead, error;
};

struct trace_file {
    uint64_t magic;
    uint32_t header_bytes, version;
    int32_t pid, rank, ranks;
    uint32_t capacity;    /* records of a ring */
    int64_t clock_offset; /* CLOCK_REALTIME - CLOCK_MONOTONIC at rinit, ns */
    char host[64];
    char clock
        [TRACE_CLOCK_BYTES]; /* boot id and time namespace: equal names are the same clock; "": unknown */
    struct trace_sample
        sample[3]; /* the first; then the two latest in turn, so that one is always complete */
    _Atomic uint32_t samples; /* samples taken */
    _Atomic uint32_t threads; /* rings after this header */
    _Atomic uint32_t rows;    /* rows in use */
    struct trace_end end[TRACE_ROWS];
};

static inline uint64_t trace_page(uint64_t bytes) { return (bytes + 4095) & ~UINT64_C(4095); }

static inline uint64_t trace_ring_bytes(uint32_t capacity)
{
    return trace_page(sizeof(struct trace_ring) + (uint64_t)capacity * sizeof(struct trace_record));
}

#endif
