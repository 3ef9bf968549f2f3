/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.c: see window.h.
 *
 * rma_window_open waits for the other ranks until the deadline of the job at one place, MPI_Comm_idup; after
 * that all ranks are in it. They agree by MPI_Iallreduce whether to go on, so that what one of them
 * refuses is refused by all and none is left in MPI_Win_create_dynamic.
 */
#include "btl/mpi/window.h"

#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#ifdef OPEN_MPI
#define RMA_LIKE(version) (strstr(version, "Open MPI") != NULL)
#define RMA_KIND "Open MPI"
#else
#define RMA_LIKE(version)                                                                          \
    (strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL ||                \
     strstr(version, "MVAPICH") != NULL)
#define RMA_KIND "MPICH"
#endif

struct rma_window rma_window;

#define LEAVE_MS 1000

static struct {
    pid_t started; /* the process in which this module has started MPI; 0: none */
    bool made;     /* the window exists */
    bool stuck; /* a collective call has not been joined by all, or a thread does not come back */
    void (*stop)(void *); /* NULL: no backend is open */
    void *argument;
    _Atomic int callers; /* between rma_window_enter and rma_window_leave */
} window_state;

int rma_window_failed(const char *call, int code, struct error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    MPI_Error_string(code, text, &length);
    return error_set(err, -EIO, "%s: %.*s", call, length, text);
}

int rma_window_query(struct error *err)
{
    static char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, finalized = 0;

    MPI_Get_library_version(version, &length);
    if (!RMA_LIKE(version))
        return error_set(err, -ENOTSUP,
                         "the module is for %s, and the MPI of this process is %.60s", RMA_KIND,
                         version);
    MPI_Finalized(&finalized);
    if (finalized)
        return error_set(err, -ENOTSUP, "MPI_Finalize has been called");
    error_note(err, "%.*s", (int)strcspn(version, ",\n"), version);
    return 0;
}

/* ---- the end ---- */

bool rma_window_enter(void)
{
    /* seq_cst, as in mpi_window_shut: either it sees this caller, or this sees `gone` */
    atomic_fetch_add_explicit(&window_state.callers, 1, memory_order_seq_cst);
    if (!atomic_load_explicit(&rma_window.gone, memory_order_seq_cst))
        return true;
    rma_window_leave();
    return false;
}

void rma_window_leave(void)
{
    /* release: the call of MPI has returned; pairs with the acquire in mpi_window_shut */
    atomic_fetch_sub_explicit(&window_state.callers, 1, memory_order_release);
}

/* No other thread is in MPI afterwards, nor will be, unless one does not come back. */
static void mpi_window_shut(void)
{
    int64_t deadline = deadline_in_ms(LEAVE_MS);

    atomic_store_explicit(&rma_window.gone, true, memory_order_seq_cst);
    if (window_state.stop != NULL)
        window_state.stop(window_state.argument);
    /* acquire: pairs with rma_window_leave */
    while (atomic_load_explicit(&window_state.callers, memory_order_acquire) > 0) {
        if (deadline_passed(deadline)) {
            window_state.stuck = true;
            return;
        }
        clock_sleep(NS_PER_MS / 20);
    }
}

/* The first part of MPI_Finalize: all ranks are in it, unless some have died. */
static int mpi_window_free(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    mpi_window_shut();
    if (!window_state.made || window_state.stuck)
        return MPI_SUCCESS;
    window_state.made = false;
    MPI_Win_unlock_all(rma_window.window);
    MPI_Win_free(&rma_window.window);
    return MPI_Comm_free(&rma_window.world);
}

static void mpi_window_leave(void)
{
    int finalized = 0;

    if (getpid() != window_state.started) /* the child of a fork: MPI is its parent's */
        return;
    MPI_Finalized(&finalized);
    if (!window_state.stuck && window_state.stop == NULL && !finalized)
        MPI_Finalize();
}

/* ---- the beginning ---- */

static int mpi_window_start_mpi(int *level, struct error *err)
{
    int started = 0, code;

    MPI_Initialized(&started);
    if (!started) {
        code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, level);
        if (code != MPI_SUCCESS)
            return rma_window_failed("MPI_Init_thread", code, err);
        window_state.started = getpid();
        atexit(mpi_window_leave);
    }
    MPI_Query_thread(level);
    if (*level < MPI_THREAD_SERIALIZED) {
        int here = 0;

        MPI_Is_thread_main(&here);
        if (!here)
            return error_set(
                err, -ENOTSUP,
                "MPI has been started for one thread, and rinit() is called by another");
    }
    return 0;
}

/* Tests a non-blocking collective call until its end. */
static int mpi_window_finish(const char *call, int code, MPI_Request *request, int64_t deadline,
                             struct error *err)
{
    int done = 0;

    while (code == MPI_SUCCESS) {
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || done)
            break;
        if (deadline_passed(deadline)) {
            window_state.stuck = true;
            return error_set(err, -ETIMEDOUT,
                             "%s: not every rank has opened the backend mpi in time: is "
                             "RPIPE_BTL=mpi set at all of them?",
                             call);
        }
        clock_sleep(NS_PER_MS / 20);
    }
    return code == MPI_SUCCESS ? 0 : rma_window_failed(call, code, err);
}

/* What all ranks agree on: the largest of each word. */
enum { AGREE_THREADS, AGREE_OTHER_RANK, AGREE_JOB, AGREE_WORDS };

static int mpi_window_agree(const struct btl_host *host, int level, int64_t deadline,
                            struct error *err)
{
    static uint64_t own[AGREE_WORDS], all[AGREE_WORDS]; /* in use until the call is finished */
    MPI_Request request = MPI_REQUEST_NULL;
    int code, rc;

    own[AGREE_THREADS] = level < MPI_THREAD_MULTIPLE;
    own[AGREE_OTHER_RANK] = rma_window.rank != host->rank;
    if (getrandom(&own[AGREE_JOB], sizeof(own[AGREE_JOB]), 0) != sizeof(own[AGREE_JOB]))
        return error_set(err, -EIO, "getrandom(2): %s", strerror(errno));
    code = MPI_Iallreduce(own, all, AGREE_WORDS, MPI_UINT64_T, MPI_MAX, rma_window.world, &request);
    rc = mpi_window_finish("MPI_Iallreduce", code, &request, deadline, err);
    if (rc != 0)
        return rc;
    rma_window.job = all[AGREE_JOB];
    if (all[AGREE_THREADS] != 0)
        return error_set(
            err, -ENOTSUP,
            "%s has started MPI with less than MPI_THREAD_MULTIPLE, which the backend mpi needs; "
            "call MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or use another backend",
            own[AGREE_THREADS] != 0 ? "this process" : "another rank");
    if (all[AGREE_OTHER_RANK] != 0)
        return error_set(err, -ENOTSUP,
                         "the ranks of MPI_COMM_WORLD are not those of the job: this one is %d of "
                         "%d there, and %d here",
                         rma_window.rank, rma_window.size, host->rank);
    return 0;
}

static int mpi_window_create(struct error *err)
{
    int *model = NULL, found = 0, key = MPI_KEYVAL_INVALID;
    int code = MPI_Win_create_dynamic(MPI_INFO_NULL, rma_window.world, &rma_window.window);

    if (code != MPI_SUCCESS)
        return rma_window_failed("MPI_Win_create_dynamic", code, err);
    MPI_Win_set_errhandler(rma_window.window, MPI_ERRORS_RETURN);
    code = MPI_Win_lock_all(MPI_MODE_NOCHECK, rma_window.window);
    if (code != MPI_SUCCESS)
        return rma_window_failed("MPI_Win_lock_all", code, err);
    window_state.made = true;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, mpi_window_free, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Comm_free_keyval(&key);
    MPI_Win_get_attr(rma_window.window, MPI_WIN_MODEL, &model, &found);
    if (!found || *model != MPI_WIN_UNIFIED)
        return error_set(
            err, -ENOTSUP,
            "the windows of this MPI keep a private copy of memory (MPI_WIN_SEPARATE)");
    return 0;
}

int rma_window_open(const struct btl_host *host, struct error *err)
{
    const char *setting = host->setting("RPIPE_TIMEOUT_MS");
    const int patience = *setting != '\0' ? atoi(setting) : 60000;
    MPI_Request request = MPI_REQUEST_NULL;
    int level = MPI_THREAD_SINGLE, code, rc;

    if (window_state.made)
        return 0;
    if (window_state.stuck)
        return error_set(
            err, -ENOTRECOVERABLE,
            "an earlier attempt has reached its deadline, and MPI cannot take that back");
    rc = mpi_window_start_mpi(&level, err);
    if (rc != 0)
        return rc;
    code = MPI_Comm_idup(MPI_COMM_WORLD, &rma_window.world, &request);
    rc = mpi_window_finish("MPI_Comm_idup", code, &request, deadline_in_ms(patience), err);
    if (rc != 0)
        return rc;
    MPI_Comm_set_errhandler(rma_window.world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(rma_window.world, &rma_window.rank);
    MPI_Comm_size(rma_window.world, &rma_window.size);
    /* a deadline of its own: the last rank may have come late to the first call */
    rc = mpi_window_agree(host, level, deadline_in_ms(patience), err);
    return rc == 0 ? mpi_window_create(err) : rc;
}

/* ---- in use ---- */

void rma_window_used(void (*stop)(void *), void *argument)
{
    window_state.argument = argument;
    window_state.stop = stop;
}

void rma_window_close(void) { window_state.stop = NULL; }

void rma_window_stuck(void) { window_state.stuck = true; }

void rma_window_progress(void)
{
    int ready;

    if (!rma_window_enter())
        return;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, rma_window.world, &ready, MPI_STATUS_IGNORE);
    rma_window_leave();
}
