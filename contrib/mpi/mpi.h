/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.h: a subset of MPI for testing, over rmsg (point to point) and rcoll (collectives). It is not an MPI library.
 *
 * It exists so that programs written for MPI can test and measure messages by tag and collectives. Semantics are those of
 * MPI 3.1. What is not declared here does not exist: no one-sided communication, no files, no intercommunicators, no Fortran,
 * no profiling interface, no MPI_THREAD_MULTIPLE. README.md beside this file has the list.
 *
 * Handles are pointers; NULL is the null handle of every kind.
 */
#ifndef RMPI_MPI_H
#define RMPI_MPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RMPI_SUBSET 1 /* a program can test for this header */
#define MPI_VERSION 3
#define MPI_SUBVERSION 1

typedef struct rmpi_comm *MPI_Comm;
typedef struct rmpi_group *MPI_Group;
typedef struct rmpi_type *MPI_Datatype;
typedef struct rmpi_op *MPI_Op;
typedef struct rmpi_request *MPI_Request;
typedef struct rmpi_message *MPI_Message;
typedef struct rmpi_errhandler *MPI_Errhandler;
typedef ptrdiff_t MPI_Aint;
typedef long long MPI_Count;

typedef struct MPI_Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int rmpi_cancelled;
    size_t rmpi_bytes;
} MPI_Status;

typedef void MPI_User_function(void *in, void *inout, int *len, MPI_Datatype *type);
typedef void MPI_Comm_errhandler_function(MPI_Comm *comm, int *code, ...);
typedef MPI_Comm_errhandler_function MPI_Handler_function;
typedef int MPI_Comm_copy_attr_function(MPI_Comm comm, int keyval, void *extra, void *in, void *out,
                                        int *flag);
typedef int MPI_Comm_delete_attr_function(MPI_Comm comm, int keyval, void *value, void *extra);
typedef MPI_Comm_copy_attr_function MPI_Copy_function;
typedef MPI_Comm_delete_attr_function MPI_Delete_function;

/* ---- constants ---- */

#define MPI_COMM_NULL ((MPI_Comm)0)
#define MPI_GROUP_NULL ((MPI_Group)0)
#define MPI_DATATYPE_NULL ((MPI_Datatype)0)
#define MPI_OP_NULL ((MPI_Op)0)
#define MPI_REQUEST_NULL ((MPI_Request)0)
#define MPI_MESSAGE_NULL ((MPI_Message)0)
#define MPI_ERRHANDLER_NULL ((MPI_Errhandler)0)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)
#define MPI_ERRCODES_IGNORE ((int *)0)
#define MPI_BOTTOM ((void *)0)

extern struct rmpi_comm rmpi_comm_world, rmpi_comm_self;
extern struct rmpi_group rmpi_group_empty;
extern struct rmpi_message rmpi_message_no_proc;
extern struct rmpi_errhandler rmpi_errors_are_fatal, rmpi_errors_return;
extern char rmpi_in_place;
#define MPI_COMM_WORLD (&rmpi_comm_world)
#define MPI_COMM_SELF (&rmpi_comm_self)
#define MPI_GROUP_EMPTY (&rmpi_group_empty)
#define MPI_MESSAGE_NO_PROC (&rmpi_message_no_proc)
#define MPI_ERRORS_ARE_FATAL (&rmpi_errors_are_fatal)
#define MPI_ERRORS_RETURN (&rmpi_errors_return)
#define MPI_IN_PLACE ((void *)&rmpi_in_place)

#define MPI_ANY_SOURCE (-1)
#define MPI_PROC_NULL (-2)
#define MPI_ROOT (-3)
#define MPI_ANY_TAG (-1)
#define MPI_UNDEFINED (-32766)
#define MPI_KEYVAL_INVALID (-1)
#define MPI_BSEND_OVERHEAD 128
#define MPI_MAX_PROCESSOR_NAME 256
#define MPI_MAX_ERROR_STRING 512
#define MPI_MAX_LIBRARY_VERSION_STRING 256
#define MPI_MAX_OBJECT_NAME 64

enum { MPI_IDENT, MPI_CONGRUENT, MPI_SIMILAR, MPI_UNEQUAL };
enum { MPI_CART = 1 };
enum { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };

/* Error codes are the classes. */
enum {
    MPI_SUCCESS,
    MPI_ERR_BUFFER,
    MPI_ERR_COUNT,
    MPI_ERR_TYPE,
    MPI_ERR_TAG,
    MPI_ERR_COMM,
    MPI_ERR_RANK,
    MPI_ERR_REQUEST,
    MPI_ERR_ROOT,
    MPI_ERR_GROUP,
    MPI_ERR_OP,
    MPI_ERR_TOPOLOGY,
    MPI_ERR_DIMS,
    MPI_ERR_ARG,
    MPI_ERR_UNKNOWN,
    MPI_ERR_TRUNCATE,
    MPI_ERR_OTHER,
    MPI_ERR_INTERN,
    MPI_ERR_PENDING,
    MPI_ERR_IN_STATUS,
    MPI_ERR_NO_MEM,
    MPI_ERR_KEYVAL,
    MPI_ERR_UNSUPPORTED_OPERATION,
    MPI_ERR_LASTCODE
};

/* Attributes of MPI_COMM_WORLD that exist from the beginning */
enum { MPI_TAG_UB, MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_UNIVERSE_SIZE, MPI_APPNUM };

#define MPI_NULL_COPY_FN ((MPI_Copy_function *)0)
#define MPI_NULL_DELETE_FN ((MPI_Delete_function *)0)
#define MPI_DUP_FN rmpi_dup_attr
#define MPI_COMM_NULL_COPY_FN ((MPI_Comm_copy_attr_function *)0)
#define MPI_COMM_NULL_DELETE_FN ((MPI_Comm_delete_attr_function *)0)
#define MPI_COMM_DUP_FN rmpi_dup_attr
int rmpi_dup_attr(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag);

/* ---- predefined types ---- */

extern struct rmpi_type rmpi_type_char, rmpi_type_signed_char, rmpi_type_unsigned_char,
    rmpi_type_byte, rmpi_type_packed, rmpi_type_wchar, rmpi_type_short, rmpi_type_unsigned_short,
    rmpi_type_int, rmpi_type_unsigned, rmpi_type_long, rmpi_type_unsigned_long, rmpi_type_long_long,
    rmpi_type_unsigned_long_long, rmpi_type_float, rmpi_type_double, rmpi_type_long_double,
    rmpi_type_int8_t, rmpi_type_int16_t, rmpi_type_int32_t, rmpi_type_int64_t, rmpi_type_uint8_t,
    rmpi_type_uint16_t, rmpi_type_uint32_t, rmpi_type_uint64_t, rmpi_type_aint, rmpi_type_count,
    rmpi_type_c_bool, rmpi_type_c_float_complex, rmpi_type_c_double_complex,
    rmpi_type_c_long_double_complex, rmpi_type_float_int, rmpi_type_double_int, rmpi_type_long_int,
    rmpi_type_2int, rmpi_type_short_int, rmpi_type_long_double_int;

#define MPI_CHAR (&rmpi_type_char)
#define MPI_SIGNED_CHAR (&rmpi_type_signed_char)
#define MPI_UNSIGNED_CHAR (&rmpi_type_unsigned_char)
#define MPI_BYTE (&rmpi_type_byte)
#define MPI_PACKED (&rmpi_type_packed)
#define MPI_WCHAR (&rmpi_type_wchar)
#define MPI_SHORT (&rmpi_type_short)
#define MPI_UNSIGNED_SHORT (&rmpi_type_unsigned_short)
#define MPI_INT (&rmpi_type_int)
#define MPI_UNSIGNED (&rmpi_type_unsigned)
#define MPI_LONG (&rmpi_type_long)
#define MPI_UNSIGNED_LONG (&rmpi_type_unsigned_long)
#define MPI_LONG_LONG (&rmpi_type_long_long)
#define MPI_UNSIGNED_LONG_LONG (&rmpi_type_unsigned_long_long)
#define MPI_FLOAT (&rmpi_type_float)
#define MPI_DOUBLE (&rmpi_type_double)
#define MPI_LONG_DOUBLE (&rmpi_type_long_double)
#define MPI_INT8_T (&rmpi_type_int8_t)
#define MPI_INT16_T (&rmpi_type_int16_t)
#define MPI_INT32_T (&rmpi_type_int32_t)
#define MPI_INT64_T (&rmpi_type_int64_t)
#define MPI_UINT8_T (&rmpi_type_uint8_t)
#define MPI_UINT16_T (&rmpi_type_uint16_t)
#define MPI_UINT32_T (&rmpi_type_uint32_t)
#define MPI_UINT64_T (&rmpi_type_uint64_t)
#define MPI_AINT (&rmpi_type_aint)
#define MPI_COUNT (&rmpi_type_count)
#define MPI_C_BOOL (&rmpi_type_c_bool)
#define MPI_C_FLOAT_COMPLEX (&rmpi_type_c_float_complex)
#define MPI_C_DOUBLE_COMPLEX (&rmpi_type_c_double_complex)
#define MPI_C_LONG_DOUBLE_COMPLEX (&rmpi_type_c_long_double_complex)
#define MPI_FLOAT_INT (&rmpi_type_float_int)
#define MPI_DOUBLE_INT (&rmpi_type_double_int)
#define MPI_LONG_INT (&rmpi_type_long_int)
#define MPI_2INT (&rmpi_type_2int)
#define MPI_SHORT_INT (&rmpi_type_short_int)
#define MPI_LONG_DOUBLE_INT (&rmpi_type_long_double_int)
#define MPI_LONG_LONG_INT MPI_LONG_LONG
#define MPI_CXX_BOOL MPI_C_BOOL
#define MPI_C_COMPLEX MPI_C_FLOAT_COMPLEX
#define MPI_CXX_FLOAT_COMPLEX MPI_C_FLOAT_COMPLEX
#define MPI_CXX_DOUBLE_COMPLEX MPI_C_DOUBLE_COMPLEX
#define MPI_CXX_LONG_DOUBLE_COMPLEX MPI_C_LONG_DOUBLE_COMPLEX
#define MPI_COMPLEX MPI_C_FLOAT_COMPLEX /* types of Fortran that programs in C name */
#define MPI_DOUBLE_COMPLEX MPI_C_DOUBLE_COMPLEX
#define MPI_INTEGER MPI_INT
#define MPI_REAL MPI_FLOAT
#define MPI_DOUBLE_PRECISION MPI_DOUBLE

/* ---- predefined operators ---- */

extern struct rmpi_op rmpi_op_max, rmpi_op_min, rmpi_op_sum, rmpi_op_prod, rmpi_op_land,
    rmpi_op_band, rmpi_op_lor, rmpi_op_bor, rmpi_op_lxor, rmpi_op_bxor, rmpi_op_maxloc,
    rmpi_op_minloc;

#define MPI_MAX (&rmpi_op_max)
#define MPI_MIN (&rmpi_op_min)
#define MPI_SUM (&rmpi_op_sum)
#define MPI_PROD (&rmpi_op_prod)
#define MPI_LAND (&rmpi_op_land)
#define MPI_BAND (&rmpi_op_band)
#define MPI_LOR (&rmpi_op_lor)
#define MPI_BOR (&rmpi_op_bor)
#define MPI_LXOR (&rmpi_op_lxor)
#define MPI_BXOR (&rmpi_op_bxor)
#define MPI_MAXLOC (&rmpi_op_maxloc)
#define MPI_MINLOC (&rmpi_op_minloc)

/* ---- process ---- */

int MPI_Init(int *argc, char ***argv);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Initialized(int *flag);
int MPI_Finalize(void);
int MPI_Finalized(int *flag);
int MPI_Abort(MPI_Comm comm, int code);
int MPI_Query_thread(int *provided);
int MPI_Is_thread_main(int *flag);
double MPI_Wtime(void);
double MPI_Wtick(void);
int MPI_Get_processor_name(char *name, int *len);
int MPI_Get_version(int *version, int *subversion);
int MPI_Get_library_version(char *version, int *len);
int MPI_Get_address(const void *at, MPI_Aint *address);
int MPI_Address(void *at, MPI_Aint *address);
int MPI_Alloc_mem(MPI_Aint bytes, void *info, void *base);
int MPI_Free_mem(void *base);
int MPI_Pcontrol(const int level, ...);
#define MPI_INFO_NULL ((void *)0)

/* ---- errors ---- */

int MPI_Error_string(int code, char *text, int *len);
int MPI_Error_class(int code, int *error_class);
int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function, MPI_Errhandler *handler);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
int MPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *handler);
int MPI_Comm_call_errhandler(MPI_Comm comm, int code);
int MPI_Errhandler_free(MPI_Errhandler *handler);
int MPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *handler);
int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler handler);
int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *handler);

/* ---- communicators, groups, attributes ---- */

int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *result);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy);
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part);
int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *part);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Comm_group(MPI_Comm comm, MPI_Group *group);
int MPI_Comm_test_inter(MPI_Comm comm, int *flag);
int MPI_Comm_set_name(MPI_Comm comm, const char *name);
int MPI_Comm_get_name(MPI_Comm comm, char *name, int *len);
int MPI_Group_size(MPI_Group group, int *size);
int MPI_Group_rank(MPI_Group group, int *rank);
int MPI_Group_translate_ranks(MPI_Group from, int n, const int *ranks, MPI_Group to, int *there);
int MPI_Group_compare(MPI_Group a, MPI_Group b, int *result);
int MPI_Group_union(MPI_Group a, MPI_Group b, MPI_Group *group);
int MPI_Group_intersection(MPI_Group a, MPI_Group b, MPI_Group *group);
int MPI_Group_difference(MPI_Group a, MPI_Group b, MPI_Group *group);
int MPI_Group_incl(MPI_Group of, int n, const int *ranks, MPI_Group *group);
int MPI_Group_excl(MPI_Group of, int n, const int *ranks, MPI_Group *group);
int MPI_Group_range_incl(MPI_Group of, int n, int ranges[][3], MPI_Group *group);
int MPI_Group_range_excl(MPI_Group of, int n, int ranges[][3], MPI_Group *group);
int MPI_Group_free(MPI_Group *group);
int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *remove,
                           int *keyval, void *extra);
int MPI_Comm_free_keyval(int *keyval);
int MPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value);
int MPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag);
int MPI_Comm_delete_attr(MPI_Comm comm, int keyval);
int MPI_Keyval_create(MPI_Copy_function *copy, MPI_Delete_function *remove, int *keyval,
                      void *extra);
int MPI_Keyval_free(int *keyval);
int MPI_Attr_put(MPI_Comm comm, int keyval, void *value);
int MPI_Attr_get(MPI_Comm comm, int keyval, void *value, int *flag);
int MPI_Attr_delete(MPI_Comm comm, int keyval);

/* ---- cartesian grids ---- */

int MPI_Dims_create(int nodes, int ndims, int *dims);
int MPI_Cart_create(MPI_Comm comm, int ndims, const int *dims, const int *periods, int reorder,
                    MPI_Comm *grid);
int MPI_Cartdim_get(MPI_Comm grid, int *ndims);
int MPI_Cart_get(MPI_Comm grid, int most, int *dims, int *periods, int *coords);
int MPI_Cart_rank(MPI_Comm grid, const int *coords, int *rank);
int MPI_Cart_coords(MPI_Comm grid, int rank, int most, int *coords);
int MPI_Cart_shift(MPI_Comm grid, int direction, int disp, int *source, int *dest);
int MPI_Cart_sub(MPI_Comm grid, const int *remain, MPI_Comm *part);
int MPI_Topo_test(MPI_Comm comm, int *status);

/* ---- point to point ---- */

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
int MPI_Ssend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
int MPI_Bsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
int MPI_Rsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status);
int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Issend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request);
int MPI_Ibsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request);
int MPI_Irsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request);
int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                 MPI_Comm comm, MPI_Status *status);
int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                         int recvtag, MPI_Comm comm, MPI_Status *status);
int MPI_Buffer_attach(void *buf, int bytes);
int MPI_Buffer_detach(void *buf, int *bytes);

int MPI_Send_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                  MPI_Request *request);
int MPI_Ssend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request);
int MPI_Bsend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request);
int MPI_Rsend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request);
int MPI_Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request);
int MPI_Start(MPI_Request *request);
int MPI_Startall(int n, MPI_Request *requests);

int MPI_Wait(MPI_Request *request, MPI_Status *status);
int MPI_Waitany(int n, MPI_Request *requests, int *index, MPI_Status *status);
int MPI_Waitall(int n, MPI_Request *requests, MPI_Status *statuses);
int MPI_Waitsome(int n, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses);
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status);
int MPI_Testany(int n, MPI_Request *requests, int *index, int *flag, MPI_Status *status);
int MPI_Testall(int n, MPI_Request *requests, int *flag, MPI_Status *statuses);
int MPI_Testsome(int n, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses);
int MPI_Request_free(MPI_Request *request);
int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status);
int MPI_Cancel(MPI_Request *request);
int MPI_Test_cancelled(const MPI_Status *status, int *flag);
int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count);
int MPI_Get_elements(const MPI_Status *status, MPI_Datatype type, int *count);

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status);
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status);
int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status);
int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status);
int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status);

/* ---- types ---- */

int MPI_Type_contiguous(int count, MPI_Datatype of, MPI_Datatype *type);
int MPI_Type_vector(int count, int blocklength, int stride, MPI_Datatype of, MPI_Datatype *type);
int MPI_Type_create_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype of,
                            MPI_Datatype *type);
int MPI_Type_indexed(int count, const int *lengths, const int *disps, MPI_Datatype of,
                     MPI_Datatype *type);
int MPI_Type_create_hindexed(int count, const int *lengths, const MPI_Aint *disps, MPI_Datatype of,
                             MPI_Datatype *type);
int MPI_Type_create_indexed_block(int count, int length, const int *disps, MPI_Datatype of,
                                  MPI_Datatype *type);
int MPI_Type_create_struct(int count, const int *lengths, const MPI_Aint *disps,
                           const MPI_Datatype *of, MPI_Datatype *type);
int MPI_Type_create_subarray(int ndims, const int *sizes, const int *subsizes, const int *starts,
                             int order, MPI_Datatype of, MPI_Datatype *type);
int MPI_Type_create_resized(MPI_Datatype of, MPI_Aint lb, MPI_Aint extent, MPI_Datatype *type);
int MPI_Type_dup(MPI_Datatype of, MPI_Datatype *type);
int MPI_Type_commit(MPI_Datatype *type);
int MPI_Type_free(MPI_Datatype *type);
int MPI_Type_size(MPI_Datatype type, int *bytes);
int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent);
int MPI_Type_get_true_extent(MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent);
int MPI_Type_extent(MPI_Datatype type, MPI_Aint *extent);
int MPI_Type_lb(MPI_Datatype type, MPI_Aint *lb);
int MPI_Type_ub(MPI_Datatype type, MPI_Aint *ub);
int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype of,
                     MPI_Datatype *type);
int MPI_Type_hindexed(int count, int *lengths, MPI_Aint *disps, MPI_Datatype of,
                      MPI_Datatype *type);
int MPI_Type_struct(int count, int *lengths, MPI_Aint *disps, MPI_Datatype *of, MPI_Datatype *type);
int MPI_Pack(const void *in, int count, MPI_Datatype type, void *out, int room, int *position,
             MPI_Comm comm);
int MPI_Unpack(const void *in, int bytes, int *position, void *out, int count, MPI_Datatype type,
               MPI_Comm comm);
int MPI_Pack_size(int count, MPI_Datatype type, MPI_Comm comm, int *bytes);
#define MPI_ORDER_C 1
#define MPI_ORDER_FORTRAN 2

/* ---- collective operations ---- */

int MPI_Barrier(MPI_Comm comm);
int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm);
int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm);
int MPI_Reduce_scatter(const void *in, void *out, const int *counts, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm);
int MPI_Reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm);
int MPI_Reduce_local(const void *in, void *inout, int count, MPI_Datatype type, MPI_Op op);
int MPI_Scan(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Exscan(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Gather(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
               MPI_Datatype outtype, int root, MPI_Comm comm);
int MPI_Gatherv(const void *in, int incount, MPI_Datatype intype, void *out, const int *outcounts,
                const int *disps, MPI_Datatype outtype, int root, MPI_Comm comm);
int MPI_Scatter(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                MPI_Datatype outtype, int root, MPI_Comm comm);
int MPI_Scatterv(const void *in, const int *incounts, const int *disps, MPI_Datatype intype,
                 void *out, int outcount, MPI_Datatype outtype, int root, MPI_Comm comm);
int MPI_Allgather(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                  MPI_Datatype outtype, MPI_Comm comm);
int MPI_Allgatherv(const void *in, int incount, MPI_Datatype intype, void *out,
                   const int *outcounts, const int *disps, MPI_Datatype outtype, MPI_Comm comm);
int MPI_Alltoall(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                 MPI_Datatype outtype, MPI_Comm comm);
int MPI_Alltoallv(const void *in, const int *incounts, const int *indisps, MPI_Datatype intype,
                  void *out, const int *outcounts, const int *outdisps, MPI_Datatype outtype,
                  MPI_Comm comm);
int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request);
int MPI_Ibcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request *request);
int MPI_Ireduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request *request);
int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request);
int MPI_Iallgather(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                   MPI_Datatype outtype, MPI_Comm comm, MPI_Request *request);
int MPI_Ialltoall(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                  MPI_Datatype outtype, MPI_Comm comm, MPI_Request *request);
int MPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op);
int MPI_Op_free(MPI_Op *op);
int MPI_Op_commutative(MPI_Op op, int *commute);

#ifdef __cplusplus
}
#endif
#endif
