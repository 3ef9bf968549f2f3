/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_mpi.c: the job of MPI_COMM_WORLD: inside MPI programs, and under launchers that have MPI and no
 * PMIx (MPICH's Hydra, Intel MPI). The modules job_openmpi.so and job_mpich.so: one source, compiled
 * with the header of each.
 *
 * But for an abort MPI is called in rinit alone, by its caller, so every level of threads will do;
 * afterwards all cards are here. The calls are non-blocking ones that are tested until the deadline, on a communicator of
 * our own. MPI has no way back from a collective call that some ranks have not joined: after a
 * deadline this process can take no further job from MPI.
 *
 * If the program has not started MPI this module does, once, since MPI cannot be started again, and
 * without a deadline, since MPI_Init has none; it is finalized when the process exits after rexit. A
 * process that exits without rexit has died, and its launcher may report it.
 */
#include "bootstrap/job_ops.h"
#include "util/clock.h"

#include <errno.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef OPEN_MPI
#define OWN_KIND "Open MPI"
#define OWN_OPS job_openmpi_ops
#define MPI_LIKE(version) (strstr(version, "Open MPI") != NULL)
#else
#define OWN_KIND "MPICH"
#define OWN_OPS job_mpich_ops
#define MPI_LIKE(version)                                                                          \
    (strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL ||                \
     strstr(version, "MVAPICH") != NULL)
#endif

static struct {
    MPI_Comm world; /* our copy of MPI_COMM_WORLD */
    bool copied;    /* world exists */
    pid_t started;  /* the process in which this module has started MPI; 0: none */
    bool left;      /* close has been called since the last open */
    bool stuck;     /* a collective call has not been joined by all */
    int rank, size;
    uint8_t *cards; /* size records of `each` bytes: the length, then the card */
    size_t each;
} mpi;

static int mpi_failed(const char *call, int code, struct error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    MPI_Error_string(code, text, &length);
    return error_set(err, -EIO, "%s: %.*s", call, length, text);
}

static int mpi_query(struct error *err)
{
    static char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, finalized = 0;

    MPI_Get_library_version(version, &length);
    if (!MPI_LIKE(version))
        return error_set(err, -ENOTSUP,
                         "the module is for %s, and the MPI of this process is %.60s", OWN_KIND,
                         version);
    MPI_Finalized(&finalized);
    if (finalized)
        return error_set(err, -ENOTSUP, "MPI_Finalize has been called");
    error_note(err, "%.*s", (int)strcspn(version, ",\n"), version);
    return 0;
}

/* Tests a non-blocking collective call until its end. */
static int mpi_finish(const char *call, int code, MPI_Request *request, int64_t deadline,
                      struct error *err)
{
    int done = 0;

    while (code == MPI_SUCCESS) {
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || done)
            break;
        if (deadline_passed(deadline)) {
            mpi.stuck = true; /* what it reads and writes has to stay */
            return error_set(err, -ETIMEDOUT,
                             "%s: not every process of the job has called rinit() in time", call);
        }
        clock_sleep(NS_PER_MS / 20);
    }
    return code == MPI_SUCCESS ? 0 : mpi_failed(call, code, err);
}

/* At exit: the job has been left, so no process waits here for a rank that does not come. */
static void mpi_leave(void)
{
    int finalized = 0;

    if (getpid() != mpi.started) /* the child of a fork: MPI is its parent's */
        return;
    MPI_Finalized(&finalized);
    if (mpi.left && !mpi.stuck && !finalized)
        MPI_Finalize();
}

/* MPI runs, and this thread may call it. */
static int mpi_start(struct error *err)
{
    int started = 0, level = MPI_THREAD_SINGLE, here = 0, code;

    MPI_Initialized(&started);
    if (!started) {
        code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
        if (code != MPI_SUCCESS)
            return mpi_failed("MPI_Init_thread", code, err);
        mpi.started = getpid();
        atexit(mpi_leave);
    }
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&here);
    if (level < MPI_THREAD_SERIALIZED && !here)
        return error_set(err, -ENOTSUP,
                         "MPI has been started for one thread (level %d), and rinit() is called by "
                         "another: call it where MPI_Init was called",
                         level);
    return 0;
}

static int mpi_copy_world(int64_t deadline, struct error *err)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code, result;

    if (mpi.copied)
        return 0;
    code = MPI_Comm_idup(MPI_COMM_WORLD, &mpi.world, &request);
    result = mpi_finish("MPI_Comm_idup", code, &request, deadline, err);
    if (result != 0)
        return result;
    MPI_Comm_set_errhandler(mpi.world, MPI_ERRORS_RETURN);
    mpi.copied = true;
    return 0;
}

static int mpi_open(int *rank, int *size, int64_t deadline, struct error *err)
{
    int result;

    if (mpi.stuck)
        return error_set(err, -ENOTRECOVERABLE,
                         "an earlier rinit() has reached its deadline before other ranks came, and "
                         "MPI cannot take that back");
    result = mpi_start(err);
    if (result == 0)
        result = mpi_copy_world(deadline, err);
    mpi.left = result != 0; /* then no other rank is left in it */
    if (result != 0)
        return result;
    MPI_Comm_rank(mpi.world, &mpi.rank);
    MPI_Comm_size(mpi.world, &mpi.size);
    *rank = mpi.rank;
    *size = mpi.size;
    return 0;
}

static int mpi_publish(const void *card, size_t bytes, int64_t deadline, struct error *err)
{
    static uint64_t own_bytes, most; /* in use until the calls are finished */
    static uint8_t own[sizeof(uint64_t) + JOB_CARD_MAX];
    MPI_Request request = MPI_REQUEST_NULL;
    int code, result;

    own_bytes = bytes;
    code = MPI_Iallreduce(&own_bytes, &most, 1, MPI_UINT64_T, MPI_MAX, mpi.world, &request);
    result = mpi_finish("MPI_Iallreduce", code, &request, deadline, err);
    if (result != 0)
        return result;
    if (most > JOB_CARD_MAX)
        return error_set(err, -EPROTO,
                         "a rank has a business card of %llu bytes: is it of another version of "
                         "this library?",
                         (unsigned long long)most);
    mpi.each = sizeof(uint64_t) + most;
    mpi.cards = malloc((size_t)mpi.size * mpi.each);
    if (mpi.cards == NULL)
        return error_set(err, -ENOMEM, "no memory for %d business cards", mpi.size);
    memset(own, 0, sizeof(own));
    memcpy(own, &own_bytes, sizeof(own_bytes));
    memcpy(own + sizeof(own_bytes), card, bytes);
    code = MPI_Iallgather(own, (int)mpi.each, MPI_BYTE, mpi.cards, (int)mpi.each, MPI_BYTE,
                          mpi.world, &request);
    return mpi_finish("MPI_Iallgather", code, &request, deadline, err);
}

static int mpi_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err)
{
    const uint8_t *record;
    uint64_t length;

    (void)deadline; /* all are here */
    if (mpi.cards == NULL)
        return error_set(err, -ENOENT, "no card has been published yet");
    record = mpi.cards + (size_t)rank * mpi.each;
    memcpy(&length, record, sizeof(length));
    if (length == 0 || length > mpi.each - sizeof(length))
        return error_set(err, -EPROTO, "the business card of rank %d has no valid length", rank);
    memcpy(card, record + sizeof(length), length);
    *bytes = length;
    return 0;
}

static __attribute__((noreturn)) void mpi_abort(int code)
{
    int finalized = 0;

    MPI_Finalized(&finalized);
    if (!finalized)
        MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

static void mpi_close(void)
{
    mpi.left = true;
    if (mpi.stuck)
        return;
    free(mpi.cards);
    mpi.cards = NULL;
}

extern const struct job_ops OWN_OPS;
__attribute__((visibility("default"))) const struct job_ops OWN_OPS = {
    .version = JOB_OPS_VERSION,
    .name = "mpi",
    .query = mpi_query,
    .open = mpi_open,
    .publish = mpi_publish,
    .card = mpi_card,
    .abort = mpi_abort,
    .close = mpi_close,
};
