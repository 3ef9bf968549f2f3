/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * buffer.h: buffers of the program that the network of a link accesses, and windows of the peer's buffers.
 *
 * A buffer is registered when a payload first travels from it or into it without a copy. A window of it (rwindow(3)) makes it accessible to the
 * peer as well: WINDOW sends its handle under the number of its entry, once, and every RTR, CTS or RTS that names the number afterwards
 * is a message of one slot. The peer attaches what it receives.
 *
 * What is not used any more stays registered where the network names memory by its address (tcp): a later request with the same
 * buffer, or with a part of it, finds it. If the program has given that memory back and has got it again, the address names the new memory,
 * which is right. A device keeps pages (verbs, and libfabric, whose provider may be one): they may not be those of the buffer any
 * more after that. There an entry ends with its last request, unless that is persistent: the memory of a persistent
 * request stays mapped until rmsg_request_free.
 *
 * Where this process itself places what the peer writes (tcp), a receive whose call may end at a deadline names a window too: such a call
 * takes the window back (rwindow_revoke), and what the peer still writes is lost.
 *
 * Invariants
 * 1. An entry with users is not replaced, and neither its window nor its region is closed while the link is open.
 * 2. So a number names another buffer only when the peer has nothing any more that it may use by that number: a receive is a user until
 *    it is complete, also if it is taken back (UNDONE), and a send until it is complete.
 * 3. The window of an entry is taken back by its only user (`alone`); the entry is not used for another request, and ends with this one.
 * 4. A request that has an entry (`lent`) gives it back when it completes; `window`, `transfer` and `earlier` are 0 without one.
 */
#ifndef MSG_BUFFER_H
#define MSG_BUFFER_H

#include "msg/msg.h"

#define BUFFER_LEAST 8192u         /* payload that travels without a copy, at least */
#define BUFFER_TRANSFERS 64u       /* groups of fragments of a link in flight; a power of two */
#define BUFFER_PINNED (128u << 10) /* payload for which it pays to register pages for one request */

/* Memory of the program that is registered with the network of a link. */
struct msg_buffer {
    struct msg_link *link;
    char *base; /* NULL: free */
    size_t bytes;
    uint32_t users;  /* requests */
    bool persistent; /* one of them was, and has not been freed since */
    bool alone;      /* its one user may take the window back, */
    bool revoked;    /* and has */
    int access;      /* of the window, or 0: there is none */
    uint64_t used;   /* the last time, as a number */
    rregion_t region;
    rwindow_t window;
};

/* Some fragments of a payload, posted one after the other. */
struct msg_transfer {
    int done;              /* written by the pipe: all of them are */
    struct msg_request *r; /* NULL: it has completed */
};

/* Of a link over a network both of whose ends use windows. */
struct msg_direct {
    bool
        by_address; /* this process places the bytes: a registration stays right whatever the program does with the memory */
    uint64_t uses;
    struct msg_buffer buffer[MSG_WIRE_WINDOWS_MOST];
    /* windows of the peer, by number - 1; and those that it has replaced, and that cannot be detached yet */
    rremote_t remote[MSG_WIRE_WINDOWS_MOST], replaced[2 * MSG_WIRE_WINDOWS_MOST];
    uint32_t replaced_count;
    struct msg_transfer transfer[BUFFER_TRANSFERS]; /* a ring: they end in the order of posting */
    uint64_t first, end;
    rch_t kept; /* the pipe, if transfers keep it open though the link has ended; or NULL */
    struct msg_direct *next_kept; /* one whose transfers were in flight when its link was closed */
};

/* The link is open: frees l->direct if its network cannot do this, or its peer. */
void msg_buffer_begin(struct msg_link *l);
/* Closes all windows: the peer must not access the memory of this process any more. */
void msg_buffer_close_windows(struct msg_link *l);
/* The link ends: closes its pipe, if the network may still access a buffer of this process. */
void msg_buffer_stop(struct msg_link *l);
/* Closes the pipe that the link writes. One whose transfers do not end in time stays open (rclose): msg_buffer_end tries it again. */
void msg_buffer_close_pipe(struct msg_link *l);
/* Ends all registrations; the pipes of the link have been closed. What transfers still use is kept until rexit. */
void msg_buffer_end(struct msg_link *l);

/*
 * The entry for the first bytes of a buffer, with one more user; access: RWINDOW_READ or RWINDOW_WRITE if the peer has to have a window of it, or 0.
 * *handle is that of a window that was opened now; else *opened is false. NULL: it cannot be registered, or all entries have users.
 */
struct msg_buffer *msg_buffer_take(struct msg_link *l, const struct msg_request *r, size_t bytes,
                                   int access, rwindow_handle_t *handle, bool *opened);
/* One user less. */
void msg_buffer_put(struct msg_buffer *b);
/* True: nothing is written any more into the buffer of its one user, which is a receive that the program does not wait for any more. */
bool msg_buffer_revoke(struct msg_buffer *b);
/* A window that the peer has not been informed of is closed. */
void msg_buffer_close_window(struct msg_buffer *b);
/* The link or its pipe has ended, and the whole payload of r had been moved by the network, as far as is known. */
bool msg_buffer_is_moved(const struct msg_request *r);
/* A request has completed. */
void msg_buffer_leave(struct msg_request *r);
/* A persistent request with this buffer is freed. */
void msg_buffer_forget(struct rmsg *msg, const char *buf);

/* The number of an entry, as WINDOW announces it. */
static inline uint32_t msg_buffer_number(const struct msg_buffer *b)
{
    return (uint32_t)(b - b->link->direct->buffer) + 1;
}

/* WINDOW has come. NULL, or what is wrong. A handle that cannot be attached is no violation, and is not used. */
const char *msg_buffer_attach(struct msg_link *l, uint32_t number, const void *mem, size_t bytes);
/* What the peer has named is inside of a window that it has announced; or it has named nothing (number 0). */
bool msg_buffer_valid(const struct msg_link *l, uint32_t number, uint64_t where, uint64_t bytes);
/* So many bytes, to or from what the peer has named, travel without a copy. */
bool msg_buffer_suits(const struct msg_link *l, uint32_t number, uint64_t where, size_t bytes);
/*
 * The payload of r, r->total bytes, will be written to what the peer has named, or (a receive) fetched from there. It is in
 * msg->sharing then. False: that is not possible.
 */
bool msg_buffer_aim(struct msg_link *l, struct msg_request *r, uint32_t number, uint64_t where);

#endif
