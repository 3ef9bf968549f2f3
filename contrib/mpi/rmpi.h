/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmpi.h: the state of the subset, and what its files share.
 *
 * One context of rmsg carries all messages. A communicator has an index, on which all its members agreed when it was made, and
 * with it two spaces: 2 * index for the program, 2 * index + 1 for collective operations that are made of messages. It also has
 * a team of rcoll, opened at that moment, when all members are known to be in the same call.
 *
 * Progress: rmsg and rcoll progress inside their own calls only. So every wait here advances both: one for a collective calls
 * rmsg_progress(), and one for a message tests the collective operations that are active. Where none is active, the blocking
 * call of rmsg does the wait.
 */
#ifndef RMPI_H
#define RMPI_H

#include "mpi.h"

#define RPIPE_NO_SHORT_NAMES
#include <rcoll.h>
#include <rmsg.h>
#include <rpipe.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define RMPI_LIKELY(x) __builtin_expect(!!(x), 1)
#define RMPI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RMPI_COMMS 4096 /* communicators at a time; a multiple of 64 */

struct rmpi_state {
    rmsg_t msg;
    int rank, size; /* in the job */
    bool initialized, finalized;
    int provided;                /* level of threads */
    struct rmpi_request *active; /* collective operations that have been started and are not over */
    struct rmpi_request *detached; /* sends and receives that no handle refers to */
};
extern struct rmpi_state rmpi;

/* ---- errors (error.c) ---- */

struct rmpi_errhandler {
    MPI_Comm_errhandler_function *function; /* NULL: return the code */
    int refs;                               /* 0: predefined, never freed */
};

/* Reports a failure of `call` to the error handler of comm (NULL: MPI_COMM_WORLD); returns code. */
int rmpi_fail(MPI_Comm comm, int code, const char *call, const char *format, ...)
    __attribute__((cold, format(printf, 4, 5)));
/* The same for a negative result of the library, whose message is in rerror(NULL). */
int rmpi_fail_rc(MPI_Comm comm, int rc, const char *call) __attribute__((cold));
int rmpi_code(int rc); /* the code for a negative result of the library */
void rmpi_errhandler_keep(struct rmpi_errhandler *handler);
void rmpi_errhandler_drop(struct rmpi_errhandler *handler);
/* The call is not between MPI_Init and MPI_Finalize: aborts. */
void rmpi_not_running(const char *call) __attribute__((cold));
static inline void rmpi_check_running(const char *call)
{
    if (RMPI_UNLIKELY(!rmpi.initialized || rmpi.finalized))
        rmpi_not_running(call);
}

/* ---- groups (group.c) ---- */

struct rmpi_group {
    int refs; /* 0: predefined */
    int size, rank;
    int ranks[]; /* in the job */
};
struct rmpi_group *rmpi_group_make(int size);

/* ---- communicators (comm.c, cart.c, attr.c) ---- */

struct rmpi_cart {
    int ndims;
    int *dims, *periods; /* in one block with this structure */
};

struct rmpi_attr {
    struct rmpi_attr *next;
    int keyval;
    void *value;
};

struct rmpi_plans; /* plans that are kept (plan.c) */

struct rmpi_comm {
    int rank, size;
    uint32_t space; /* of messages of the program; the next one is that of collective operations */
    const int *peers; /* ranks in the job; NULL: the same as here */
    const int *index; /* by rank in the job: rank here, or -1; NULL: the same */
    rteam_t team;
    struct rmpi_plans *plans;
    struct rmpi_errhandler *errhandler;
    struct rmpi_attr *attrs;
    struct rmpi_cart *cart;
    int refs; /* the handle, and requests that are active */
    char name[MPI_MAX_OBJECT_NAME];
};

static inline int rmpi_peer(const struct rmpi_comm *comm, int rank)
{
    return comm->peers == NULL ? rank : comm->peers[rank];
}

static inline int rmpi_rank_of(const struct rmpi_comm *comm, int peer)
{
    return comm->index == NULL ? peer : comm->index[peer];
}

int rmpi_comm_open_world(void);
void rmpi_comm_close_world(void);
/* Collective over comm: a communicator of the ranks (of the job) that are given; ranks NULL: this process is in none. */
int rmpi_comm_make(struct rmpi_comm *comm, const int *ranks, int n, struct rmpi_comm **made,
                   const char *call);
void rmpi_comm_drop(struct rmpi_comm *comm);
int rmpi_attrs_copy(struct rmpi_comm *from, struct rmpi_comm *to);
int rmpi_attrs_free(struct rmpi_comm *comm);
int rmpi_cart_copy(const struct rmpi_comm *from, struct rmpi_comm *to);
void rmpi_cart_free(struct rmpi_comm *comm);

/* ---- types (type.c, type_make.c, walk.c) ---- */

#define RMPI_DEPTH 1024               /* types in one another: walks recurse */
#define RMPI_SPAN ((MPI_Aint)1 << 56) /* bytes that the data of a call may span */

enum rmpi_shape { RMPI_BASIC, RMPI_STRIDED, RMPI_LIST };

struct rmpi_part {
    MPI_Aint at;
    size_t count;
    struct rmpi_type *of;
};

/*
 * BASIC: `size` bytes. STRIDED: `count` times `of`, `stride` bytes apart, from `at` on. LIST: `count` parts.
 * solid: all bytes are one block, in ascending order, from true_lb on. dense: also lb is 0, true_lb is 0, and extent is size,
 * so that any number of elements are one block.
 */
struct rmpi_type {
    enum rmpi_shape shape;
    bool solid, dense, committed;
    bool lb_marked,
        ub_marked; /* set by MPI_Type_create_resized, in it or in a part: only such limits count */
    const char *wrong; /* why it cannot be used; NULL: it can */
    int depth;         /* of types in it */
    int refs;          /* 0: predefined */
    int combine;       /* BASIC: rgroup_type_t, or -1 */
    size_t size;       /* bytes of data */
    size_t basics;     /* basic elements in it */
    size_t align;
    MPI_Aint lb, extent, true_lb, true_extent;
    size_t count;
    MPI_Aint at, stride;
    struct rmpi_type *of;
    struct rmpi_part *parts;
};

bool rmpi_type_usable(const struct rmpi_type *type);
void rmpi_type_keep(struct rmpi_type *type);
void rmpi_type_drop(struct rmpi_type *type);
/* Copies count elements at `memory` to or from a block of `bytes`; stops where that ends. Returns the bytes copied. */
size_t rmpi_pack(void *block, size_t bytes, const void *memory, size_t count,
                 const struct rmpi_type *type);
size_t rmpi_unpack(const void *block, size_t bytes, void *memory, size_t count,
                   const struct rmpi_type *type);
/* Basic elements in the first bytes of elements of a type; *rest: bytes of an incomplete one. */
size_t rmpi_elements(const struct rmpi_type *type, size_t bytes, size_t *rest);

/* The bytes of count elements, their data and the memory that they span; -1: more than an address space. */
MPI_Aint rmpi_span(const struct rmpi_type *type, size_t count);

static inline bool rmpi_is_block(const struct rmpi_type *type, int count)
{
    return type->dense || (type->solid && count == 1);
}

static inline char *rmpi_block_at(const struct rmpi_type *type, const void *buf)
{
    return (char *)(uintptr_t)buf + type->true_lb;
}

/* ---- operators (op.c, op_basic.c) ---- */

struct rmpi_op {
    MPI_User_function *function;
    int refs; /* 0: predefined */
    bool commutes;
    int combine; /* rgroup_op_t, or -1 */
};

/* How an operator is applied to elements of a type, by a function of rcoll whose argument this is. */
struct rmpi_apply {
    bool commutes;
    struct rmpi_type *type;
    MPI_User_function *function;
    size_t element; /* bytes between elements */
};

/* Whether rgroup combines such elements. */
bool rmpi_op_is_native(const struct rmpi_op *op, const struct rmpi_type *type);
/* The function of a predefined operator that rgroup does not have for this type; NULL: it is not defined. */
MPI_User_function *rmpi_op_basic(const struct rmpi_op *op, const struct rmpi_type *type);
/* Fills *apply; false: the operator is not defined for the type. */
bool rmpi_op_apply(struct rmpi_apply *apply, const struct rmpi_op *op, struct rmpi_type *type);
/* An rgroup_function_t with a struct rmpi_apply. */
void rmpi_op_call(void *into, const void *from, size_t bytes, void *argument);

/* ---- requests (request.c) ---- */

enum rmpi_kind { RMPI_SEND, RMPI_RECV, RMPI_COLL };

struct rmpi_request {
    struct rmpi_request *next, **link; /* in a list of rmpi_state; or free */
    enum rmpi_kind kind;
    bool persistent, active;
    bool over; /* the result is in `status`, and the request is not in the library any more */
    bool sync, buffered;
    rmsg_request_t msg; /* SEND, RECV */
    rplan_t plan;       /* COLL */
    struct rmpi_comm *comm;
    struct rmpi_type *type; /* kept while memory has to be packed or unpacked by it */
    void *buf;
    int count, peer, tag; /* peer: rank in comm, MPI_PROC_NULL, MPI_ANY_SOURCE */
    void *temp;           /* a packed copy; freed when the request is over */
    size_t temp_bytes;
    void *argument; /* COLL: of the operator; freed with the plan */
    MPI_Status status;
};

struct rmpi_request *rmpi_request_make(enum rmpi_kind kind, struct rmpi_comm *comm);
void rmpi_request_put(struct rmpi_request *r); /* frees what it has, and itself */
/* Waits for r, or tests it (*flag); the request is over then, and its code is in status.MPI_ERROR. */
void rmpi_request_wait(struct rmpi_request *r);
bool rmpi_request_test(struct rmpi_request *r);
/* After that: stores the status, frees the request or makes it inactive. Returns the code. */
int rmpi_request_finish(MPI_Request *request, MPI_Status *status);
/* rmsg has completed the message of r with rc. */
void rmpi_request_message_over(struct rmpi_request *r, const rmsg_status_t *s, int rc);
void rmpi_detach(struct rmpi_request *r); /* no handle refers to it from now on */
void rmpi_reap(bool wait); /* frees detached requests that are over; or waits for all */
void rmpi_status_empty(MPI_Status *status);
void rmpi_status_set(MPI_Status *status, const struct rmpi_comm *comm, const rmsg_status_t *s,
                     int code);

/* A request with these parameters, not started. NULL: no memory, which has been reported. */
struct rmpi_request *rmpi_prepare(enum rmpi_kind kind, const void *buf, int count,
                                  MPI_Datatype type, int peer, int tag, MPI_Comm comm);
/* Starts a send or receive with the parameters in r. Returns a negative result of the library. */
int rmpi_start_send(struct rmpi_request *r);
int rmpi_start_recv(struct rmpi_request *r);
int rmpi_start_bsend(struct rmpi_request *r, const char *call); /* returns a code */
/* Checks of a call; MPI_SUCCESS, or the code, which has been reported. */
int rmpi_check_send(const char *call, const void *buf, int count, MPI_Datatype type, int dest,
                    int tag, MPI_Comm comm);
int rmpi_check_recv(const char *call, const void *buf, int count, MPI_Datatype type, int source,
                    int tag, MPI_Comm comm);
int rmpi_check_comm(const char *call, MPI_Comm comm);
int rmpi_check_source(const char *call, int source, int tag, MPI_Comm comm);
int rmpi_check_root(const char *call, int root, MPI_Comm comm);
int rmpi_check_data(const char *call, const void *buf, int count, MPI_Datatype type, MPI_Comm comm);

static inline uint32_t rmpi_tag(int tag)
{
    return tag == MPI_ANY_TAG ? RMSG_ANY_TAG : (uint32_t)tag;
}

static inline int rmpi_source(const struct rmpi_comm *comm, int source)
{
    return source == MPI_ANY_SOURCE ? RMSG_ANY_SOURCE : rmpi_peer(comm, source);
}

/* ---- waiting (progress.c) ---- */

struct rmpi_turns {
    unsigned turns;
    int64_t since;
};

void rmpi_progress(void);              /* messages, and collective operations that are active */
void rmpi_pause(struct rmpi_turns *t); /* between two tests: spins, then yields, then sleeps */
int rmpi_plan_wait(rplan_t plan);      /* 0, or a negative result */

/* ---- collective operations (plan.c) ---- */

/* Does an operation. `from_bytes`, `into_bytes`: what it reads and writes; small buffers go through memory of the communicator. */
int rmpi_run(struct rmpi_comm *comm, const rcoll_params_t *params, size_t from_bytes,
             size_t into_bytes);
/* Starts one; r completes when it is over. */
int rmpi_run_start(struct rmpi_request *r, const rcoll_params_t *params);
void rmpi_plans_free(struct rmpi_comm *comm);

#endif
