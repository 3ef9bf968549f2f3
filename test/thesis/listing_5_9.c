/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off */
/*
 * listing_5_9.c: thesis listing 5.9 as printed: a round of a schedule. What it uses is in nbc.h; schedules are those of figure 5.4, a
 * reduction by a binomial tree, for any number of processes. Print has lost three braces and underscores, and has a comma too much.
 */
#include "nbc.h"

#define COUNT 16
#define ITERS 50

static int rcoll_NBC_Progress(rcoll_NBC_Handle *handle);

/* ---- listing 5.9 ---- */
static int rcoll_NBC_Start_round(rcoll_NBC_Handle *handle) {
  int *numptr; /* number of operations */
  int i, res, ret=NBC_OK;
  NBC_Fn_type *typeptr;
  NBC_Args *sendargs, * recvargs; /* printed: recvargs, ; */
  NBC_Args_op *opargs;
  NBC_Args_copy *copyargs;
  NBC_Args_unpack *unpackargs;
  NBC_Schedule myschedule;

  myschedule = (NBC_Schedule*)((char*)*handle->schedule + handle->row_offset);
  numptr = (int*)myschedule;
  /* typeptr is increased by the size of(int) bytes to point to type */
  typeptr = (NBC_Fn_type*)(numptr+1);

  for (i=0; i<*numptr; i++) {
    switch(*typeptr) {
      case SEND:
        sendargs = (NBC_Args*)(typeptr+1);
        typeptr = (NBC_Fn_type*)(((NBC_Args*)typeptr)+1);
        int bytes = sendargs->bytes*sendargs->count; /* printed without its type */
        // allocate remote RDMA memory from RDMA channel
        rch_t rm = rcoll_get_channel(handle, sendargs->peer, true);
        raddr_t addr = rmalloc(rm, bytes);
        void * m = rmem(rm, addr);
        recoll_input_cb in_cb;
        if (sendargs->use_rdma_buffer) {
          // in_cb is collective input handler
          in_cb = handle->coll_einf->coll_input.input_cb;
          in_cb(m, bytes, sendargs->tmp_offset, handle->coll_einf->coll_input.args);
        } else {
          in_cb = rcoll_copy_from_tmp;
          in_cb(m, bytes, sendargs->tmp_offset, handle->tmpbuf);
        }
        res = rwrite(rm, addr);
        sendargs=NULL;
        break;
      case RECV:
        recvargs = (NBC_Args*)(typeptr+1);
        typeptr = (NBC_Fn_type*)(((NBC_Args*)typeptr)+1);
        bytes = recvargs->bytes*recvargs->count;
        handle->req_count++;
        handle->req_array = (rm_req_t*)realloc((void*)handle->req_array,
                                   (handle->req_count)*sizeof(rm_req_t));
        NBC_CHECK_NULL(handle->req_array);
        // test for incoming requests
        rm_req_t *curr_req = handle->req_array+handle->req_count-1;
        curr_req -> args = *recvargs;
        curr_req->state=REQ_PENDING;
        curr_req->recv_ch = rcoll_get_channel(handle, recvargs->peer, false);
        curr_req->recv_addr = rmalloc(curr_req->recv_ch, bytes);
        if(curr_req->recv_addr == ADDR_NULL){
          ret = -1;
          goto error;
        }
        recvargs=NULL;
        break;
      case OP:
        opargs = (NBC_Args_op*)(typeptr+1);
        typeptr = (NBC_Fn_type*)((NBC_Args_op*)typeptr+1);
        NBC_Operation(handle, opargs->op, opargs->datatype, opargs->count);
        break;
      case COPY:
        copyargs = (NBC_Args_copy*)(typeptr+1);
        typeptr = (NBC_Fn_type*)((NBC_Args_copy*)typeptr+1);
        res = NBC_Copy(handle, copyargs->srccount, copyargs->srctype, buf2,
                       copyargs->tgtcount, copyargs->tgttype, handle->mycomm);
        break; /* not printed */
      default:
        printf("rcoll_NBC_Start_round: bad type %li at offset %li\n", (long)*typeptr,
               (long)typeptr-(long)myschedule);
        ret=NBC_BAD_SCHED;
        goto error;
    }
    /* increase ptr by size of fn type enum */
    typeptr = (NBC_Fn_type*)((NBC_Fn_type*)typeptr+1);
  }
  if(handle->row_offset != sizeof(int)) {
    res = rcoll_NBC_Progress(handle);
  }
error:
  return ret;
}
/* ---- */

static char rows[4096]; /* the schedule */
static size_t rows_bytes;
static int rank, nprocs, iteration;

static void put(const void *what, size_t bytes)
{
    memcpy(rows + rows_bytes, what, bytes);
    rows_bytes += bytes;
}

static void put_int(int value) { put(&value, sizeof(value)); }

static size_t args_bytes(NBC_Fn_type type)
{
    return type == OP ? sizeof(NBC_Args_op) : type == COPY ? sizeof(NBC_Args_copy) : sizeof(NBC_Args);
}

static void put_round(NBC_Fn_type type, const void *args)
{
    put_int(1);
    put(&type, sizeof(type));
    put(args, args_bytes(type));
}

/* A binomial tree with root 0: what is received is added, and the sum is sent. A leaf sends its contribution as it is. */
static void make_schedule(void)
{
    NBC_Args_copy copy = {COUNT, MPI_INT, COUNT, MPI_INT};
    NBC_Args_op op = {MPI_SUM, MPI_INT, COUNT};
    bool leaf = rank % 2 == 1;

    put_int(0);
    if (!leaf)
        put_round(COPY, &copy);
    for (int step = 1; step < nprocs; step *= 2) {
        NBC_Args args = {rank - step, (int)sizeof(int), COUNT, 0, leaf};

        if ((rank & step) != 0) {
            put_round(SEND, &args);
            return;
        }
        if (rank + step >= nprocs)
            continue;
        args.peer = rank + step;
        args.tmp_offset = COUNT * (int)sizeof(int);
        put_round(RECV, &args);
        put_round(OP, &op);
    }
}

/* Not printed: takes messages that have arrived; when the round has all of its own, begins the next one. */
static int rcoll_NBC_Progress(rcoll_NBC_Handle *handle)
{
    NBC_Fn_type type;

    for (int k = 0; k < handle->req_count; k++) {
        rm_req_t *req = &handle->req_array[k];
        int flag = 0;

        rread_nb(req->recv_ch, req->recv_addr, &flag);
        if (!flag)
            return NBC_OK;
        memcpy((char *)handle->tmpbuf + req->args.tmp_offset, rmem(req->recv_ch, req->recv_addr),
               (size_t)(req->args.bytes * req->args.count));
        rfree(req->recv_addr);
        handle->req_count--; /* a round has one at most */
    }
    memcpy(&type, rows + handle->row_offset + sizeof(int), sizeof(type));
    handle->row_offset += sizeof(int) + sizeof(type) + args_bytes(type);
    return handle->row_offset < handle->rows_end ? rcoll_NBC_Start_round(handle) : NBC_OK;
}

static int contribute(void *input, size_t sz, int offset, void *args)
{
    int *in = input;

    (void)offset, (void)args;
    for (size_t k = 0; k < sz / sizeof(int); k++)
        in[k] = rank * 100 + iteration + (int)k;
    return 0;
}

static int differs(const int *result)
{
    int wrong = 0;

    for (int k = 0; rank == 0 && k < COUNT; k++)
        wrong += result[k] != 100 * nprocs * (nprocs - 1) / 2 + nprocs * (iteration + k);
    return wrong;
}

static rch_t channel(int peer, bool active)
{
    rmalloc_config_t cfg = {.allocator = {.peer = peer, .rdma_active = active, .unit_size = 64}};
    rch_t ch = NULL;

    cfg.allocator.alloc_size = 4 * COUNT * sizeof(int);
    rpipe(ch, cfg);
    return ch;
}

/* The heap of the channel, at its writing end: its blocks add up to all of it. */
static int add_block(const rvmem_block_t *block, void *sum)
{
    *(uint64_t *)sum += block->bytes;
    return 0;
}

static int heap_is_wrong(rch_t ch)
{
    uint64_t sum = 0;
    FILE *to = fopen("/dev/null", "w");
    int wrong = to == NULL || rdma_vmem_check(get_rdmalloc_remote(ch)) != R_SUCCESS ||
                rdma_vmem_walk(get_rdmalloc_remote(ch), add_block, &sum) != R_SUCCESS ||
                sum != 4 * COUNT * sizeof(int) || rdma_vmem_dump(get_rdmalloc_remote(ch), to) != R_SUCCESS;

    if (to != NULL)
        fclose(to);
    return wrong;
}

int main(void)
{
    rch_t send_ch[64] = {NULL}, recv_ch[64] = {NULL};
    int tmp[2 * COUNT], wrong = 0;
    struct coll_einf einf = {{contribute, NULL}};
    NBC_Schedule schedule = rows;
    rcoll_NBC_Handle handle = {.schedule = &schedule, .tmpbuf = tmp, .coll_einf = &einf};

    if (rinit(&rank, &nprocs) != R_SUCCESS || nprocs > 64)
        return 1;
    make_schedule();
    for (int step = 1; step < nprocs; step *= 2) {
        if ((rank & step) != 0) {
            send_ch[rank - step] = channel(rank - step, true);
            break;
        }
        if (rank + step < nprocs)
            recv_ch[rank + step] = channel(rank + step, false);
    }
    handle.send_ch = send_ch;
    handle.recv_ch = recv_ch;
    handle.rows_end = rows_bytes;
    buf2 = tmp;
    for (iteration = 0; iteration < ITERS; iteration++) {
        handle.row_offset = sizeof(int);
        if (rcoll_NBC_Start_round(&handle) != NBC_OK)
            return 1;
        while (handle.row_offset < handle.rows_end)
            rcoll_NBC_Progress(&handle);
        wrong += differs(tmp);
    }
    for (int peer = 0; peer < nprocs; peer++)
        if (send_ch[peer] != NULL)
            wrong += heap_is_wrong(send_ch[peer]);
    free(handle.req_array);
    printf("rank %d: %d reductions, %d wrong\n", rank, ITERS, wrong);
    return rexit() != R_SUCCESS || wrong != 0;
}
