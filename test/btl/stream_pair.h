/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_pair.h: connections of this process to itself with a stream at one end, for tests that count what a stream requests. A failure ends the
 * program.
 */
#ifndef TEST_BTL_STREAM_PAIR_H
#define TEST_BTL_STREAM_PAIR_H

#include "conform.h"

#include <pthread.h>

#define PAIR_BYTES 4096u

extern struct backend backend; /* to be opened with backend_open */

struct pair {
    struct btl_connection *dials, *accepts; /* the first one transfers */
    struct btl_memory near, far;
    struct btl_remote remote;
};

/* Connects, with a stream at the end that transfers, and allocates memory. NULL: none. */
void pair_open(struct pair *p, struct btl_stream *stream);
/* The two alone; `other`: a stream at the other end. */
void pair_connect(struct pair *p, struct btl_stream *stream, struct btl_stream *other);
/* Over verbs they are connected before. */
void pair_alloc(struct pair *p);
void pair_close(struct pair *p);
/* Writes that many bytes, as soon as the queues have space. */
void pair_write(struct pair *p, uint64_t bytes);
/* There and back, byte for byte. */
void pair_works(struct pair *p, uint64_t key);

/* Opens a stream; it gets what is expected, and its description has these words. */
struct btl_stream *stream_begin(enum btl_share wanted, enum btl_share expected, const char *words);

/* A thread for which a pair works, again and again. */
struct pair_worker {
    struct pair *p;
    pthread_t thread;
    _Atomic bool stop;
    _Atomic uint64_t rounds;
};
void pair_worker_begin(struct pair_worker *w);
void pair_worker_end(struct pair_worker *w);

#endif
