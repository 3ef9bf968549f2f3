/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbc.h: what listing 5.9 of the thesis uses and does not print: types of a schedule, after LibNBC, and how its operations are done.
 *
 * A schedule is an int, and then its rounds: an int with the number of operations, and for each operation its type and arguments. A round
 * begins when all messages of the last one have arrived. tmpbuf has the partial result, and behind it one more message.
 */
#ifndef TEST_THESIS_NBC_H
#define TEST_THESIS_NBC_H

#include <rmalloc_thesis.h>
#include <stdio.h>

#define NBC_OK 0
#define NBC_BAD_SCHED 1
#define NBC_OOR 2
#define NBC_CHECK_NULL(p)                                                                          \
    do {                                                                                           \
        if ((p) == NULL)                                                                           \
            return NBC_OOR;                                                                        \
    } while (0)

typedef enum { SEND = 1, RECV, OP, COPY } NBC_Fn_type;
typedef void *NBC_Schedule;

/* All members are as aligned as the type before them is. */
typedef struct {
    int peer, bytes, count, tmp_offset, use_rdma_buffer;
} NBC_Args;
typedef struct {
    int op, datatype, count;
} NBC_Args_op;
typedef struct {
    int srccount, srctype, tgtcount, tgttype;
} NBC_Args_copy;
typedef struct {
    int count;
} NBC_Args_unpack;

enum { REQ_PENDING, REQ_DONE };
typedef struct {
    NBC_Args args;
    int state;
    rch_t recv_ch;
    raddr_t recv_addr;
} rm_req_t;

typedef rcoll_input_cb recoll_input_cb; /* as printed */

struct coll_einf {
    struct {
        rcoll_input_cb input_cb;
        void *args;
    } coll_input;
};

typedef struct {
    NBC_Schedule *schedule;
    size_t row_offset; /* of the current round */
    size_t rows_end;
    void *tmpbuf;
    int req_count, mycomm;
    rm_req_t *req_array;
    struct coll_einf *coll_einf;
    rch_t *send_ch, *recv_ch; /* by rank; NULL: none */
} rcoll_NBC_Handle;

static void *buf2; /* where COPY copies to */

static rch_t rcoll_get_channel(rcoll_NBC_Handle *handle, int peer, bool send)
{
    return send ? handle->send_ch[peer] : handle->recv_ch[peer];
}

static int rcoll_copy_from_tmp(void *input, size_t sz, int offset, void *args)
{
    memcpy(input, (char *)args + offset, sz);
    return 0;
}

/* The partial result plus the message behind it. */
static void NBC_Operation(rcoll_NBC_Handle *handle, int op, int datatype, int count)
{
    int *at = handle->tmpbuf;

    (void)op, (void)datatype;
    for (int k = 0; k < count; k++)
        at[k] += at[count + k];
}

/* The contribution of this process. */
static int NBC_Copy(rcoll_NBC_Handle *handle, int srccount, int srctype, void *to, int tgtcount,
                    int tgttype, int comm)
{
    (void)srctype, (void)tgttype, (void)comm;
    return handle->coll_einf->coll_input.input_cb(
        to, sizeof(int) * (size_t)(srccount < tgtcount ? srccount : tgtcount), 0,
        handle->coll_einf->coll_input.args);
}

#endif
