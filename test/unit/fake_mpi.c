/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_mpi.c: see fake_mpi.h. Handles and constants are those of MPICH. */
#include "fake_mpi.h"

#include "test/lib/random.h"

#include <mpi.h>
#include <string.h>

#define QUEUED_MOST 256

struct fake_mpi fake_mpi = {
    .level = MPI_THREAD_MULTIPLE, .gate = PTHREAD_MUTEX_INITIALIZER, .seed = 1};

static struct fake_transfer {
    void *to;
    const void *from;
    size_t bytes;
    bool put;
} fake_queue[QUEUED_MOST];
static int fake_queued; /* one thread transfers: the pump */

static int fake_transfer(void *to, const void *from, int bytes, bool put)
{
    if (fake_queued == QUEUED_MOST)
        return MPI_ERR_OTHER;
    fake_queue[fake_queued++] = (struct fake_transfer){to, from, (size_t)bytes, put};
    return MPI_SUCCESS;
}

int MPI_Put(const void *origin, int n, MPI_Datatype type, int rank, MPI_Aint at, int there,
            MPI_Datatype type_there, MPI_Win win)
{
    (void)type, (void)rank, (void)there, (void)type_there, (void)win;
    return fake_transfer((void *)at, origin, n, true);
}

int MPI_Get(void *origin, int n, MPI_Datatype type, int rank, MPI_Aint at, int there,
            MPI_Datatype type_there, MPI_Win win)
{
    (void)type, (void)rank, (void)there, (void)type_there, (void)win;
    return fake_transfer(origin, (const void *)at, n, false);
}

int MPI_Win_flush(int rank, MPI_Win win)
{
    int code = fake_queued > 0 ? fake_mpi.flush_fails : 0;

    (void)rank, (void)win;
    fake_mpi.in_flush = true;
    pthread_mutex_lock(&fake_mpi.gate);
    if (code != 0)
        fake_queued = fake_mpi.flush_fails = 0;
    while (fake_queued > 0) {
        struct fake_transfer *t;
        int i;

        fake_mpi.seed = random_mix(fake_mpi.seed);
        i = (int)(fake_mpi.seed % (unsigned)fake_queued);
        t = &fake_queue[i];
        memcpy(t->to, t->from, t->bytes);
        if (t->put && fake_mpi.placed != NULL)
            fake_mpi.placed();
        fake_queue[i] = fake_queue[--fake_queued];
    }
    pthread_mutex_unlock(&fake_mpi.gate);
    fake_mpi.in_flush = false;
    return code;
}

int MPI_Win_attach(MPI_Win win, void *base, MPI_Aint bytes)
{
    (void)win, (void)base, (void)bytes;
    fake_mpi.attached++;
    return MPI_SUCCESS;
}

int MPI_Win_detach(MPI_Win win, const void *base)
{
    (void)win, (void)base;
    fake_mpi.attached--;
    return MPI_SUCCESS;
}

int MPI_Get_address(const void *at, MPI_Aint *address)
{
    *address = (MPI_Aint)at;
    return MPI_SUCCESS;
}

/* ---- one rank, and everything is complete at once ---- */

int MPI_Get_library_version(char *version, int *length)
{
    *length = (int)strlen(strcpy(version, "MPICH, a fake"));
    return MPI_SUCCESS;
}

int MPI_Error_string(int code, char *text, int *length)
{
    (void)code;
    *length = (int)strlen(strcpy(text, "a fake failure"));
    return MPI_SUCCESS;
}

static int fake_flag(int *flag, int value)
{
    *flag = value;
    return MPI_SUCCESS;
}

int MPI_Finalized(int *flag) { return fake_flag(flag, 0); }
int MPI_Initialized(int *flag) { return fake_flag(flag, 1); }
int MPI_Is_thread_main(int *flag) { return fake_flag(flag, 1); }
int MPI_Query_thread(int *level) { return fake_flag(level, fake_mpi.level); }
int MPI_Comm_rank(MPI_Comm comm, int *rank) { return (void)comm, fake_flag(rank, 0); }
int MPI_Comm_size(MPI_Comm comm, int *size) { return (void)comm, fake_flag(size, 1); }
int MPI_Finalize(void) { return MPI_SUCCESS; }
int MPI_Init_thread(int *argc, char ***argv, int wanted, int *level)
{
    (void)argc, (void)argv;
    return fake_flag(level, wanted);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    (void)request, (void)status;
    return fake_flag(flag, 1);
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    (void)source, (void)tag, (void)comm, (void)status;
    return fake_flag(flag, 0);
}

int MPI_Iallreduce(const void *own, void *all, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    (void)type, (void)op, (void)comm, (void)request;
    memcpy(all, own, (size_t)n * sizeof(uint64_t));
    return MPI_SUCCESS;
}

int MPI_Win_get_attr(MPI_Win win, int key, void *value, int *found)
{
    static int model = MPI_WIN_UNIFIED;

    (void)win, (void)key;
    *(int **)value = &model;
    return fake_flag(found, 1);
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *copy, MPI_Request *request)
{
    (void)request;
    return fake_flag(copy, comm);
}

int MPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    (void)info, (void)comm;
    return fake_flag(win, 1);
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    return (void)comm, (void)handler, MPI_SUCCESS;
}
int MPI_Win_set_errhandler(MPI_Win win, MPI_Errhandler handler)
{
    return (void)win, (void)handler, MPI_SUCCESS;
}
int MPI_Win_lock_all(int how, MPI_Win win) { return (void)how, (void)win, MPI_SUCCESS; }
int MPI_Win_unlock_all(MPI_Win win) { return (void)win, MPI_SUCCESS; }
int MPI_Win_free(MPI_Win *win) { return (void)win, MPI_SUCCESS; }
int MPI_Comm_free(MPI_Comm *comm) { return (void)comm, MPI_SUCCESS; }
int MPI_Comm_free_keyval(int *key) { return (void)key, MPI_SUCCESS; }
int MPI_Comm_set_attr(MPI_Comm comm, int key, void *value)
{
    return (void)comm, (void)key, (void)value, MPI_SUCCESS;
}
int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *delete,
                           int *key, void *extra)
{
    (void)copy, (void)delete, (void)extra;
    return fake_flag(key, 1);
}
