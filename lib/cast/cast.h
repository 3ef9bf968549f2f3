/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cast.h: a cast, as one member has it, and the interface of the paths by which messages reach readers (doc/casts.md).
 *
 * One member of a cast writes, all others read every message, in order. Messages have numbers, from job_first() on, the same at all members. A reader is
 * served by one path: by that of its host, if the writer is there (cast_host.c), else by a remote one (mcast.c). The writer
 * has a path for each kind of readers that there are; a reader has one.
 *
 *   ring.h       what is in the memory of the writer: head, slots, heap; and in the line of a reader
 *   open.c       rcast_open, rcast_close: configuration, members, paths
 *   writer.c     rcast_alloc, rcast_write, rcast_send: memory, and the window
 *   reader.c     rcast_read, rcast_free, rcast_recv: what is held
 *   await.c      attempts, waits, and what a deadline reports
 *   member.c     handles, and members that have left or are lost
 *   cast_host.c  the path of a host: boards
 *
 * Invariants:
 *
 * 1. Message k is written only when every live reader has freed message k - slots (`floor` > k - slots). Its slot, its memory and what
 *    cast_sent() returns for it are unchanged until floor > k. So a path may read them, and send them again, until then.
 * 2. `floor` never decreases; it is the least number that some live reader has not freed. A reader that has closed or is lost does
 *    not count. It never counts again.
 * 3. A path loads each word of another member once, and checks it. A violation is the loss of that member, with -EPROTO.
 * 4. An operation of a path never waits.
 */
#ifndef CAST_CAST_H
#define CAST_CAST_H

#include "cast/ring.h"
#include "rpipe/end/call_context.h"
#include "rpipe/end/job_state.h"
#include "util/cpu.h"
#include "util/error.h"

#include <rcast.h>
#include <rvmem.h>
#include <stdbool.h>
#include <stdint.h>

#define CAST_STEP (3u << 20) /* bytes in flight after which the floor is refreshed early */
#define CAST_UNSENT 64       /* messages that the writer has allocated and not written, at most */

struct cast_message {
    uint64_t number;
    const void *mem; /* writer: where it is until it is freed; reader: what the program gets */
    uint64_t bytes;
};

/* ---- the interface of a path ---- */

struct rcast;
struct cast_path;

/*
 * Each function of a path that the writer or a reader does not have is NULL in the table of that side; all of the other side are
 * present. The path's own structure begins with a struct cast_path.
 */
struct cast_path_ops {
    const char *name; /* for messages: "host", "udp" */

    /* Opens the path to or from the members that have `remote` as this path has it. Does not wait for them. */
    int (*open)(struct rcast *c, struct cast_path **path, struct error *err);

    /* ---- writer ---- */

    /* Can this message be published now? 0 or R_PENDING. Called where invariant 1 allows the message; NULL: always. */
    int (*room)(struct cast_path *path, const struct cast_message *m);
    /* Publishes the message; called once for each, in order, when no path is in the way. m->mem is memory of the cast. */
    void (*publish)(struct cast_path *path, const struct cast_message *m);
    /*
     * The least number that a live reader of this path has not freed; UINT64_MAX: none lives. Only whether it is below `need` matters now:
     * readers that are known to be beyond need not be asked. Calls cast_member_left for each reader that it finds gone.
     */
    uint64_t (*refresh)(struct cast_path *path, uint64_t need);
    /* What a live reader of this path has read and freed: all messages below. For the message of a deadline. */
    void (*position)(struct cast_path *path, int member, uint64_t *read, uint64_t *freed);
    /* No message from `number` on will come. Called once, before `drain`. */
    void (*end)(struct cast_path *path, uint64_t number);
    /* R_PENDING until no live reader needs this process any more to get what was written, and the end. NULL: never needed. */
    int (*drain)(struct cast_path *path);

    /* ---- reader ---- */

    /*
     * Message m->number, which is the next one: 0 and mem and bytes; R_PENDING; R_EOF: the writer has closed, or left the job, before
     * it; -ECONNRESET: it has died, and this message was not written; -EPROTO and a message in err. Repeated calls give the same.
     */
    int (*poll)(struct cast_path *path, struct cast_message *m, struct error *err);
    /* The program has freed message `number`; all messages below `freed` have been freed. */
    void (*release)(struct cast_path *path, uint64_t number, uint64_t freed);

    /* ---- both ---- */

    /* Advances what needs this process; called by each call that finds nothing, and in each round of a wait. NULL: nothing does. */
    void (*progress)(struct cast_path *path);
    /* The words whose change may end a wait: of the next message at a reader, of all live readers at the writer; at most `most`. */
    int (*words)(struct cast_path *path, rboard_word_t *word, int most);
    /* Sleeps until there is something for `progress`, for at most `ns`. NULL: `words` are all that ends a wait. */
    void (*sleep)(struct cast_path *path, int64_t ns);
    /* Frees the path. Does not wait; members that need this process are on their own. */
    void (*close)(struct cast_path *path);
};

#define CAST_PATHS 2

struct cast_path {
    const struct cast_path_ops *ops;
    struct rcast *cast;
};

extern const struct cast_path_ops cast_host_ops;
/* NULL: a cast over several hosts is -ENOTSUP. */
extern const struct cast_path_ops *const cast_remote_ops;

/* ---- the object ---- */

enum cast_state {
    CAST_LIVE = 0, /* a reader that counts, or the writer */
    CAST_CLOSED,   /* has closed, or left the job */
    CAST_LOST      /* has died, or violated the protocol: `code` */
};

struct cast_member {
    int rank;
    uint8_t state; /* enum cast_state */
    uint8_t path;  /* writer: index into rcast.path of the path that serves it */
    bool remote;   /* not on the host of the writer */
    bool reported; /* its loss, by a call of this process */
    int code;      /* CAST_LOST: -ECONNRESET, -EPROTO */
};

/* A message that the writer has allocated and not written. */
struct cast_unsent {
    raddr_t d; /* ADDR_NULL: it is `small` */
    void *mem;
    uint64_t bytes;
    alignas(16) unsigned char small[CAST_INLINE];
};

/* A message that was written and not freed by all: element number % slots of rcast.sent. */
struct cast_sent {
    raddr_t d; /* ADDR_NULL: it is in its slot */
    const void *mem;
    uint64_t bytes;
};

/* A message that was read: element number % slots of rcast.held. */
struct cast_held {
    const void *mem; /* NULL: freed */
    uint64_t bytes;
};

struct rcast {
    bool open, writes; /* writes: this member is the writer */
    int n, me, writer;
    int timeout_ms;
    uint32_t slots; /* a power of two */
    uint64_t heap_bytes, context;
    const char *backend; /* as configured, while paths are opened */
    struct cast_member *member;
    rboard_t board; /* of all members; the path of the host owns what is in it */
    struct cast_path
        *path[CAST_PATHS]; /* those that this member has come first; the others are NULL */
    int live;              /* writer: readers with CAST_LIVE */
    int losses;            /* members with CAST_LOST that no call has reported */
    int last_lost;         /* the member that the last failure was about; -1: none */
    int why_of;            /* the member that `why` is about */
    struct error why;      /* of -EPROTO */

    uint64_t first; /* number of the first message */
    uint64_t next;  /* number of the message that is written or read next */
    uint64_t floor; /* writer: see invariant 2; reader: all messages below it have been freed */

    /* writer */
    struct cast_head *head; /* own memory: head, slots, heap */
    struct cast_slot *slot;
    char *heap_mem;
    rvmem_t heap;
    uint64_t in_flight,
        ahead;          /* bytes in the heap below `next`; how many refresh the floor early */
    uint64_t reclaimed; /* the memory of all messages below it has been freed */
    struct cast_sent *sent;
    struct cast_unsent
        *unsent[CAST_UNSENT]; /* the first `nunsent` are in use; elements of unsent_all */
    struct cast_unsent *unsent_all;
    int nunsent;
    bool ended_here; /* rcast_close has been called; nothing more is written */

    /* reader */
    struct cast_held *held;
    int ended; /* R_EOF, -ECONNRESET, -EPROTO: nothing will come any more; 0: not known */

    struct rcast *next_free; /* memory of casts is type-stable: a closed handle is recognized */
    struct rcast *next_all;
};

/* ---- for paths ---- */

/*
 * A reader of the writer, or the writer of a reader, has left: CAST_CLOSED, or CAST_LOST with its code and, for -EPROTO, the reason.
 * The first report of a member counts.
 */
void cast_member_left(struct rcast *c, int member, enum cast_state state, int code,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Writer: message `number`, floor <= number < next, unchanged while that holds. */
static inline struct cast_message cast_sent_message(const struct rcast *c, uint64_t number)
{
    const struct cast_sent *s = &c->sent[number & (c->slots - 1)];

    return (struct cast_message){.number = number, .mem = s->mem, .bytes = s->bytes};
}

/* ---- calls ---- */

/* Enters the call `name`: NULL, closed, not of this side. 0, or the code and its message. */
enum cast_side { CAST_ANY, CAST_WRITER, CAST_READER };
int cast_begin(struct call *call, const char *name, struct rcast *c, enum cast_side side);
/* The same check for short paths, without a message. */
static inline bool cast_may(const struct rcast *c, bool writes, int flags)
{
    return LIKELY(c != NULL && c->open && c->writes == writes && (flags & ~R_NOWAIT) == 0 &&
                  job_is_open() && !calls_ended());
}
/* The loss of a member that no call has reported yet: its code and message; 0: there is none. */
int cast_report_loss(struct rcast *c);
/* The code and message of the loss of this member. */
int cast_loss_error(struct rcast *c, int member);
struct rcast *cast_take_handle(void);
void cast_put_handle(struct rcast *c);
/*
 * rexit: closes a reader, and ends what a writer sends; then closes a writer, whose readers on other hosts get what was written, until
 * the deadline; and does both for all casts.
 */
void cast_leave_begin(struct rcast *c);
void cast_leave(struct rcast *c, int64_t deadline);
void cast_leave_all(int64_t deadline);

/* rcast_free of the writer: 0, or -EINVAL and its message. */
int cast_give_back(struct rcast *c, const void *mem);
/* Attempts until the result is not R_PENDING; flags: R_NOWAIT attempts once. -ETIMEDOUT: without a message. */
int cast_await(struct rcast *c, int flags, int (*attempt)(struct rcast *c, void *of), void *of);
/* -ETIMEDOUT and its message: which reader is behind. */
int cast_writer_timed_out(struct rcast *c, const char *what);

#endif
