/* SPDX-License-Identifier: BSD-3-Clause */
/* attr.c: attributes: those that exist from the beginning, and those of the program. */
#include "rmpi.h"

#include <limits.h>

#define ATTR_FIRST 16 /* the first keyval of a program */
#define ATTR_KEYVALS 256

static struct keyval {
    bool used;
    MPI_Comm_copy_attr_function *copy;
    MPI_Comm_delete_attr_function *remove;
    void *extra;
} attr_keyval[ATTR_KEYVALS];
static int attr_keyvals; /* numbers are not used again */

static int attr_tag_ub = INT_MAX, attr_host = MPI_PROC_NULL, attr_io = MPI_ANY_SOURCE,
           attr_clock_is_global = 0;

static void *attr_predefined(int keyval)
{
    switch (keyval) {
    case MPI_TAG_UB:
        return &attr_tag_ub;
    case MPI_HOST:
        return &attr_host;
    case MPI_IO:
        return &attr_io;
    case MPI_WTIME_IS_GLOBAL:
        return &attr_clock_is_global;
    case MPI_UNIVERSE_SIZE:
        return &rmpi.size;
    default:
        return NULL;
    }
}

static struct keyval *attr_of(int keyval)
{
    int i = keyval - ATTR_FIRST;

    return i >= 0 && i < attr_keyvals && attr_keyval[i].used ? &attr_keyval[i] : NULL;
}

static int attr_check(const char *call, MPI_Comm comm, int keyval)
{
    int rc = rmpi_check_comm(call, comm);

    if (rc != MPI_SUCCESS || attr_of(keyval) != NULL)
        return rc;
    return rmpi_fail(comm, MPI_ERR_KEYVAL, call, "there is no keyval %d of the program", keyval);
}

int rmpi_dup_attr(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    memcpy(out, &in, sizeof(in));
    *flag = 1;
    return MPI_SUCCESS;
}

int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *remove,
                           int *keyval, void *extra)
{
    rmpi_check_running("MPI_Comm_create_keyval");
    if (attr_keyvals == ATTR_KEYVALS)
        return rmpi_fail(NULL, MPI_ERR_KEYVAL, "MPI_Comm_create_keyval", "there are %d already",
                         ATTR_KEYVALS);
    attr_keyval[attr_keyvals] = (struct keyval){true, copy, remove, extra};
    *keyval = ATTR_FIRST + attr_keyvals++;
    return MPI_SUCCESS;
}

int MPI_Comm_free_keyval(int *keyval)
{
    /* its attributes stay until they are deleted; their functions are still called */
    if (attr_of(*keyval) == NULL)
        return rmpi_fail(NULL, MPI_ERR_KEYVAL, "MPI_Comm_free_keyval", "there is no keyval %d",
                         *keyval);
    *keyval = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

static struct rmpi_attr **attr_find(MPI_Comm comm, int keyval)
{
    struct rmpi_attr **at = &comm->attrs;

    while (*at != NULL && (*at)->keyval != keyval)
        at = &(*at)->next;
    return at;
}

/* Calls the function that deletes, and removes the attribute. */
static int attr_remove(MPI_Comm comm, struct rmpi_attr **at)
{
    struct rmpi_attr *a = *at;
    const struct keyval *k = attr_of(a->keyval);
    int rc = k->remove != NULL ? k->remove(comm, a->keyval, a->value, k->extra) : MPI_SUCCESS;

    if (rc != MPI_SUCCESS)
        return rmpi_fail(comm, rc, "an attribute", "the function that deletes it returned %d", rc);
    *at = a->next;
    free(a);
    return MPI_SUCCESS;
}

static int attr_add(const char *call, MPI_Comm comm, int keyval, void *value)
{
    struct rmpi_attr *a = malloc(sizeof(*a));

    if (a == NULL)
        return rmpi_fail(comm, MPI_ERR_NO_MEM, call, "no memory");
    *a = (struct rmpi_attr){.next = comm->attrs, .keyval = keyval, .value = value};
    comm->attrs = a;
    return MPI_SUCCESS;
}

int MPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value)
{
    int rc = attr_check("MPI_Comm_set_attr", comm, keyval);
    struct rmpi_attr **at;

    if (rc != MPI_SUCCESS)
        return rc;
    at = attr_find(comm, keyval);
    if (*at != NULL)
        rc = attr_remove(comm, at);
    return rc == MPI_SUCCESS ? attr_add("MPI_Comm_set_attr", comm, keyval, value) : rc;
}

int MPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag)
{
    int rc = rmpi_check_comm("MPI_Comm_get_attr", comm);
    void *found = attr_predefined(keyval);
    struct rmpi_attr *a;

    if (rc != MPI_SUCCESS)
        return rc;
    if (found == NULL && keyval != MPI_APPNUM) {
        rc = attr_check("MPI_Comm_get_attr", comm, keyval);
        if (rc != MPI_SUCCESS)
            return rc;
        a = *attr_find(comm, keyval);
        *flag = a != NULL;
        if (a != NULL)
            memcpy(value, &a->value, sizeof(a->value));
        return MPI_SUCCESS;
    }
    *flag = found != NULL;
    if (found != NULL)
        memcpy(value, &found, sizeof(found));
    return MPI_SUCCESS;
}

int MPI_Comm_delete_attr(MPI_Comm comm, int keyval)
{
    int rc = attr_check("MPI_Comm_delete_attr", comm, keyval);
    struct rmpi_attr **at;

    if (rc != MPI_SUCCESS)
        return rc;
    at = attr_find(comm, keyval);
    return *at == NULL ? MPI_SUCCESS : attr_remove(comm, at);
}

int rmpi_attrs_copy(struct rmpi_comm *from, struct rmpi_comm *to)
{
    int rc = MPI_SUCCESS;

    for (const struct rmpi_attr *a = from->attrs; a != NULL && rc == MPI_SUCCESS; a = a->next) {
        const struct keyval *k = attr_of(a->keyval);
        void *value = NULL;
        int flag = 0;

        if (k->copy != NULL)
            rc = k->copy(from, a->keyval, k->extra, a->value, &value, &flag);
        if (rc != MPI_SUCCESS)
            rc =
                rmpi_fail(from, rc, "MPI_Comm_dup", "the function that copies an attribute failed");
        else if (flag != 0)
            rc = attr_add("MPI_Comm_dup", to, a->keyval, value);
    }
    return rc;
}

int rmpi_attrs_free(struct rmpi_comm *comm)
{
    int rc = MPI_SUCCESS;

    while (comm->attrs != NULL && rc == MPI_SUCCESS)
        rc = attr_remove(comm, &comm->attrs);
    return rc;
}

/* the names of MPI-1 */

int MPI_Keyval_create(MPI_Copy_function *copy, MPI_Delete_function *remove, int *keyval,
                      void *extra)
{
    return MPI_Comm_create_keyval(copy, remove, keyval, extra);
}

int MPI_Keyval_free(int *keyval) { return MPI_Comm_free_keyval(keyval); }

int MPI_Attr_put(MPI_Comm comm, int keyval, void *value)
{
    return MPI_Comm_set_attr(comm, keyval, value);
}

int MPI_Attr_get(MPI_Comm comm, int keyval, void *value, int *flag)
{
    return MPI_Comm_get_attr(comm, keyval, value, flag);
}

int MPI_Attr_delete(MPI_Comm comm, int keyval) { return MPI_Comm_delete_attr(comm, keyval); }
