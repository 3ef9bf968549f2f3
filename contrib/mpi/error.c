/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.c: codes, their texts, and error handlers.
 *
 * A code is its class. The message of a failure, with the values that it is about, is printed where the handler is
 * MPI_ERRORS_ARE_FATAL, which is the default.
 */
#include "rmpi.h"

#include <stdarg.h>
#include <stdio.h>

static void error_fatal(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)MPI_Abort(MPI_COMM_WORLD, *code);
}

struct rmpi_errhandler rmpi_errors_are_fatal = {.function = error_fatal};
struct rmpi_errhandler rmpi_errors_return = {.function = NULL};

static const char *const error_text[MPI_ERR_LASTCODE] = {
    [MPI_SUCCESS] = "no error",
    [MPI_ERR_BUFFER] = "invalid buffer",
    [MPI_ERR_COUNT] = "invalid count",
    [MPI_ERR_TYPE] = "invalid type",
    [MPI_ERR_TAG] = "invalid tag",
    [MPI_ERR_COMM] = "invalid communicator",
    [MPI_ERR_RANK] = "invalid rank",
    [MPI_ERR_REQUEST] = "invalid request",
    [MPI_ERR_ROOT] = "invalid root",
    [MPI_ERR_GROUP] = "invalid group",
    [MPI_ERR_OP] = "invalid operator, or one that is not defined for the type",
    [MPI_ERR_TOPOLOGY] = "invalid topology",
    [MPI_ERR_DIMS] = "invalid dimensions",
    [MPI_ERR_ARG] = "invalid argument",
    [MPI_ERR_UNKNOWN] = "unknown error",
    [MPI_ERR_TRUNCATE] = "the message is longer than the buffer of its receive",
    [MPI_ERR_OTHER] = "the library reports a failure",
    [MPI_ERR_INTERN] = "internal error",
    [MPI_ERR_PENDING] = "the request is active",
    [MPI_ERR_IN_STATUS] = "the statuses have the codes",
    [MPI_ERR_NO_MEM] = "no memory",
    [MPI_ERR_KEYVAL] = "invalid keyval",
    [MPI_ERR_UNSUPPORTED_OPERATION] = "not in this subset of MPI",
};

int rmpi_fail(MPI_Comm comm, int code, const char *call, const char *format, ...)
{
    struct rmpi_errhandler *handler;
    char text[768];
    va_list arguments;

    if (comm == NULL)
        comm = MPI_COMM_WORLD;
    handler = comm->errhandler != NULL ? comm->errhandler : MPI_ERRORS_ARE_FATAL;
    if (handler == MPI_ERRORS_ARE_FATAL) {
        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        fprintf(stderr, "rank %d: %s: %s\n", rmpi.rank, call, text);
    }
    if (handler->function != NULL)
        handler->function(&comm, &code);
    return code;
}

int rmpi_code(int rc)
{
    switch (rc) {
    case 0:
        return MPI_SUCCESS;
    case -EMSGSIZE:
        return MPI_ERR_TRUNCATE;
    case -ENOMEM:
        return MPI_ERR_NO_MEM;
    case -EINVAL:
        return MPI_ERR_ARG;
    default:
        return MPI_ERR_OTHER;
    }
}

int rmpi_fail_rc(MPI_Comm comm, int rc, const char *call)
{
    return rmpi_fail(comm, rmpi_code(rc), call, "%s", rpipe_error(NULL));
}

void rmpi_not_running(const char *call)
{
    fprintf(stderr, "%s: it is called %s\n", call,
            rmpi.finalized ? "after MPI_Finalize" : "before MPI_Init");
    (void)MPI_Abort(MPI_COMM_WORLD, MPI_ERR_OTHER);
}

int MPI_Error_string(int code, char *text, int *len)
{
    if (code < 0 || code >= MPI_ERR_LASTCODE)
        return rmpi_fail(NULL, MPI_ERR_ARG, "MPI_Error_string", "%d is no code", code);
    *len = snprintf(text, MPI_MAX_ERROR_STRING, "%s", error_text[code]);
    return MPI_SUCCESS;
}

int MPI_Error_class(int code, int *error_class)
{
    *error_class = code;
    return MPI_SUCCESS;
}

/* ---- error handlers ---- */

void rmpi_errhandler_keep(struct rmpi_errhandler *handler)
{
    if (handler != NULL && handler->refs > 0)
        handler->refs++;
}

void rmpi_errhandler_drop(struct rmpi_errhandler *handler)
{
    if (handler != NULL && handler->refs > 0 && --handler->refs == 0)
        free(handler);
}

int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function, MPI_Errhandler *handler)
{
    struct rmpi_errhandler *made = malloc(sizeof(*made));

    if (made == NULL)
        return rmpi_fail(NULL, MPI_ERR_NO_MEM, "MPI_Comm_create_errhandler", "no memory");
    *made = (struct rmpi_errhandler){.function = function, .refs = 1};
    *handler = made;
    return MPI_SUCCESS;
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    int rc = rmpi_check_comm("MPI_Comm_set_errhandler", comm);

    if (rc != MPI_SUCCESS)
        return rc;
    if (handler == NULL)
        return rmpi_fail(comm, MPI_ERR_ARG, "MPI_Comm_set_errhandler", "the handler is null");
    rmpi_errhandler_keep(handler);
    rmpi_errhandler_drop(comm->errhandler);
    comm->errhandler = handler;
    return MPI_SUCCESS;
}

int MPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *handler)
{
    int rc = rmpi_check_comm("MPI_Comm_get_errhandler", comm);

    if (rc != MPI_SUCCESS)
        return rc;
    rmpi_errhandler_keep(comm->errhandler);
    *handler = comm->errhandler;
    return MPI_SUCCESS;
}

int MPI_Comm_call_errhandler(MPI_Comm comm, int code)
{
    int rc = rmpi_check_comm("MPI_Comm_call_errhandler", comm);

    if (rc == MPI_SUCCESS)
        (void)rmpi_fail(comm, code, "MPI_Comm_call_errhandler", "code %d", code);
    return rc;
}

int MPI_Errhandler_free(MPI_Errhandler *handler)
{
    rmpi_errhandler_drop(*handler);
    *handler = MPI_ERRHANDLER_NULL;
    return MPI_SUCCESS;
}

/* the names of MPI-1 */

int MPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *handler)
{
    return MPI_Comm_create_errhandler(function, handler);
}

int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler handler)
{
    return MPI_Comm_set_errhandler(comm, handler);
}

int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *handler)
{
    return MPI_Comm_get_errhandler(comm, handler);
}
