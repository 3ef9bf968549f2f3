/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conform.h: does a backend do what btl.h specifies? Two sides: the one that transfers, where the tests run, and its target, an agent
 * that does what it is asked to over a socket: a thread of the same process, or of another one.
 *
 *   conform.c         the program: which sides there are, and what runs between them
 *   conform_host.c    what a backend may ask of its surroundings; patience, patterns, slots
 *   conform_target.c  the agent
 *   conform_transfers.c, conform_lines.c  the tests
 *
 * A test that fails prints what failed and ends the program: what it left behind would spoil those after it.
 */
#ifndef TEST_BTL_CONFORM_H
#define TEST_BTL_CONFORM_H

#include "btl/btl.h"

#include "test/lib/check.h"
#include "test/lib/pattern.h"

#include "util/clock.h"

#define AGENTS 2 /* so that two threads can transfer at once */
#define LINES_MOST 8
#define PIECES_MOST 16
#define MIB ((size_t)1 << 20)
#define SLOT_BYTES 64

/* ---- conform_host.c ---- */

/* A backend in this process. */
struct backend {
    const struct btl_ops *ops;
    struct btl *btl;
    int rank;
};

void backend_open(struct backend *b, const char *name, int rank);
void backend_close(struct backend *b);
/* connection_open; with CONFORM_STREAMS=1 in the stream of this thread, where the backend has streams. */
int line_open(const struct backend *b, int peer, enum btl_role role, uint32_t depth,
              struct btl_connection **connection, struct btl_address *address, struct error *err);

/* Memory of a device: at `base` there is nothing for a processor; a memfd has the bytes, which a test reaches at `alias`. */
struct device_memory {
    uint8_t *base, *alias;
    size_t bytes;
    int fd;
};
struct device_memory device_memory_make(size_t bytes);
void device_memory_free(struct device_memory *m); /* without effect if there is none */

int64_t patience(void); /* a deadline; CONFORM_SECONDS, 60 */
/* The content of a slot. It is sealed: words may arrive in any order, so the flag is number and hash of the rest. */
struct note {
    uint64_t number; /* from 1 */
    uint64_t offset, bytes, key;
};
void slot_seal(void *slot, const struct note *note);
bool slot_read(const void *slot, uint64_t number, struct note *note);

/* ---- what the agent is asked ---- */

enum what {
    ASK_REACH, /* of rank a: rc */
    ASK_LINE,  /* opens number id: role a, depth b: address */
    ASK_CONNECT,
    ASK_CLOSE,
    ASK_ALLOC, /* region number id: a bytes, access b; c: enum kind; key; value: its address */
    ASK_FREE,
    ASK_FILL,   /* region id: offset a, b bytes, key c */
    ASK_CHECK,  /* the same: rc */
    ASK_SET,    /* region id: word at offset a is b */
    ASK_WORD,   /* the other way round: value */
    ASK_AWAIT,  /* slot at offset a of region id has number b; its payload is in region c */
    ASK_STREAM, /* a messages through ring id, heap b, credit c, with d slots */
    ASK_COUNT /* compare and swap by the processor: adds 1 to the word at a of region id, b times */
};
/* Memory of the backend, of the agent, of a device of the agent. */
enum kind { KIND_OWN, KIND_REGISTERED, KIND_DEVICE };
#define ASK_IDLE 0x100u /* ASK_AWAIT: without a call of the backend */

struct ask {
    uint32_t what, id;
    uint64_t a, b, c, d;
    struct btl_address address;
};

struct answer {
    int32_t rc;
    uint64_t value;
    struct btl_key key;
    struct btl_address address;
    struct error err;
};

/* ---- conform_target.c ---- */

struct agent {
    struct backend *backend;
    int socket, peer; /* rank of the other side */
};
void *agent_main(void *arg); /* until the socket is closed */

/* ---- the side that transfers ---- */

struct side {
    struct backend *backend;
    int socket;
    int peer;
    uint64_t seed;
    bool strict; /* what a simulation guarantees beyond btl.h */
};

struct far {
    uint32_t id;
    size_t bytes;
    uint64_t address; /* there */
    struct btl_remote remote;
};

struct answer ask(struct side *s, struct ask what); /* fails with the error message of the agent */
struct answer ask_any(struct side *s, struct ask what); /* rc is the caller's */
void ask_begin(struct side *s, const struct ask *what);
struct answer ask_end(struct side *s);

uint64_t draw(struct side *s, uint64_t below);
struct btl_connection *line_up(struct side *s, uint32_t id, uint32_t depth);
void line_down(struct side *s, uint32_t id, struct btl_connection *connection);
struct far far_alloc(struct side *s, uint32_t id, size_t bytes, uint32_t access);
struct far far_alloc_as(struct side *s, uint32_t id, size_t bytes, uint32_t access, enum kind kind);
void far_free(struct side *s, struct far *far);
struct btl_memory near_alloc(struct side *s, size_t bytes);
void near_free(struct side *s, struct btl_memory *piece);
void drive(struct side *s, struct btl_connection *connection);

/* these ask again as long as they are refused */
uint64_t write_must(struct side *s, struct btl_connection *connection,
                    const struct btl_transfer *payload, const struct btl_transfer *slot);
void get_must(struct side *s, struct btl_connection *connection, const struct btl_transfer *t,
              struct btl_done *done);
void done_must(struct side *s, struct btl_connection *connection, struct btl_done *done);
void flush_must(struct side *s, struct btl_connection *connection);

struct test {
    const char *name;
    void (*run)(struct side *s);
};
extern const struct test transfer_tests[], line_tests[];
void stream(struct side *s, uint64_t messages);
void count_together(struct side *s);

#endif
