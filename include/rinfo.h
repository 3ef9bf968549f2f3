/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rinfo.h: settings, backends, counters, description of a pipe, observation of a process.
 *
 * Nothing here waits for a peer. A table is read by index, from 0 to the first NULL; a row belongs to the library, is
 * valid until the next call of the same function in this thread, and may grow at its end.
 */
#ifndef RINFO_H
#define RINFO_H

#include <rpipe.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored                                                                     \
    "-Wshadow" /* C++: a function has the name of the structure that it returns */
#pragma GCC visibility push(                                                                       \
    default) /* the declarations of this header are exported, all others are hidden */

/* Version of the library: "0.2.0". */
const char *rinfo_version(void);

/* The meaning of a result; never NULL. */
const char *rinfo_strerror(int code);

/* ---- settings and backends ---- */

typedef struct rinfo_setting {
    const char *name;     /* environment variable */
    const char *value;    /* value in force */
    const char *fallback; /* default */
    const char *help;     /* one line */
} rinfo_setting_t;

typedef struct rinfo_backend {
    const char *name;   /* "shm", "verbs", "ofi", "tcp", "mpi"; "single", "tcp", "pmix", "mpi" */
    const char *kind;   /* "btl" or "bootstrap" */
    const char *reason; /* why it is usable, or why not; one line */
    bool usable;        /* on this machine now */
} rinfo_backend_t;

/* A setting by its index; NULL after the last. */
const rinfo_setting_t *rinfo_setting(int index);

/* A backend by its index; NULL after the last. */
const rinfo_backend_t *rinfo_backend(int index);

/* ---- counters ---- */

typedef struct rinfo_counter {
    const char *name;    /* "messages" */
    const char *unit;    /* "messages", "bytes", "ns" ... */
    const char *meaning; /* one line */
    const char *scope;   /* "pipe": rinfo_count; "ram": ram_count */
    bool now;            /* a state now; else a sum since opening */
} rinfo_counter_t;

/* A counter by its index; NULL after the last. */
const rinfo_counter_t *rinfo_counter(int index);

/* Value of a counter of a pipe; NULL: of all pipes of this process, closed ones included. -ENOENT: unknown name. */
int rinfo_count(rch_t ch, const char *name, uint64_t *value);

/* ---- description of a pipe ---- */

/* Values in force, also where the other end has decided them; before joining: those of this end, 0 if open. */
typedef struct rinfo_pipe {
    rpipe_role_t role;       /* role of this end; of cells: writer at the user */
    int peer;                /* rank or peer number of the other end */
    uint64_t context;        /* context */
    rpipe_op_t op;           /* RPIPE_PUT: the writer moves the payload; RPIPE_GET: the reader */
    rmalloc_fit_t heuristic; /* heuristic */
    rpipe_sync_t mode;       /* mode of synchronization */
    uint32_t unit_bytes;     /* granularity, bytes */
    uint64_t heap_bytes;     /* heap now, all segments, bytes */
    uint64_t max_heap_bytes; /* bytes that the heap may grow to; 0: it does not */
    uint32_t slots;          /* slots of the ring */
    uint32_t sync_queue;     /* heap messages written and not freed, at most */
    uint32_t inline_max;     /* largest payload in its slot, bytes */
    uint32_t incarnation;    /* how often this end has opened this pipe */
    char state[16];   /* "opening", "joined", "peer closed", "peer left", "peer died", "failed" */
    char backend[16]; /* "shm", "verbs", "ofi", "tcp", "mpi"; "" before joining */
    char path[160];   /* the connection, in the terms of its backend */
    char why[320];    /* why this backend and not a better one */
    char cells[16];   /* of cells: how operations are done: "cpu", "device", "service"; else "" */
} rinfo_pipe_t;

/* Describes a pipe. */
int rinfo_describe(rch_t ch, rinfo_pipe_t *pipe, size_t size);

/* ---- observation of another process of the same user, without its help ---- */

/* The first row is that of the process, the others are those of its ends. */
typedef struct rinfo_row {
    bool process; /* sums of the process; from, to, context, incarnation and writer are unused */
    bool writer;  /* role of the end */
    int pid;      /* process id */
    int rank;     /* rank of the process */
    int ranks;    /* ranks of its job */
    int from;     /* writer */
    int to;       /* reader */
    uint32_t incarnation;    /* how often the end has opened this pipe */
    uint64_t context;        /* context; bit 61: of active messages; bit 62 alone: of cells */
    uint64_t open;           /* process: ends open now */
    uint64_t opened;         /* process: ends opened since rinit */
    uint64_t age_ns;         /* process: ns since rinit */
    char backend[16];        /* "shm", "verbs", "ofi", "tcp", "mpi" */
    char state[16];          /* as in rinfo_pipe_t */
    char waits_for[64];      /* what a call waits for now; "": no call waits, or it still spins */
    uint64_t waits_ns;       /* for how long, ns */
    int counters;            /* elements of each of the next */
    const char *const *name; /* names of the counters, as that process has them */
    const char *const *unit; /* their units */
    const uint64_t *value;   /* their values */
    const bool *now;         /* true: a state now; else a sum */
    const char *program;     /* process: name of the program; an end: "" */
    const char *job;         /* process: bootstrap and name of the job; an end: "" */
} rinfo_row_t;

/* Calls row for the process and for each end. A result of row other than 0 ends it and is returned. */
int rinfo_observe(int pid, int (*row)(const rinfo_row_t *row, void *argument), void *argument);

/* Prints a row as one JSON object. */
int rinfo_json(const rinfo_row_t *row, FILE *to);

/* Prints the trace from the RPIPE_TRACE records of a process that has not reached rexit. -EPROTO: no records. */
int rinfo_trace_json(int fd, FILE *to);

#pragma GCC visibility pop
#pragma GCC diagnostic pop

/* A macro adds the size that a structure has in this header; see "Sizes" in rmalloc.h. */
#define rinfo_describe(...) rinfo_describe(__VA_ARGS__, sizeof(rinfo_pipe_t))

#ifdef __cplusplus
}
#endif
#endif
