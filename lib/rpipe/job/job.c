/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c: rinit and rexit: start the layers in order and stop them in reverse; and the child of a fork.
 *
 * A process joins a job once. Its states only advance: NEW, OPEN, LEAVING, LEFT; FORKED in the child of a fork. rinit and
 * rexit are counted: the first rinit joins the job, the last rexit leaves it.
 *
 * rexit first ends the calls of all other threads: they see LEAVING in every wait and return -ENOTCONN. Only when no thread
 * is in a call any more is anything closed or released (call_context.h, thread_quiesce.h).
 */
#include "observe/record/trace_clock.h"
#include "observe/report/report.h"
#include "rpipe/board/boards.h"
#include "rpipe/connect/close.h"
#include "rpipe/connect/ends.h"
#include "rpipe/connect/roles.h"
#include "rpipe/data/path_remote.h"
#include "rpipe/end/call.h"
#include "rpipe/end/counters.h"
#include "rpipe/end/end_pool.h"
#include "rpipe/end/feature.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/stream.h"
#include "rpipe/end/message.h"
#include "rpipe/job/thread_quiesce.h"

#include "control/collective.h"
#include "control/control.h"
#include "bootstrap/job.h"
#include "bootstrap/mpi_library.h"
#include "sync/wait.h"
#include "util/log.h"
#include "util/module.h"
#include "util/overcommit.h"
#include "util/received_fd.h"
#include "util/settings.h"
#include "util/failpoint.h"

#include <errno.h>
#include <rinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEND_MS 1000 /* rexit: until what is queued has been sent */
#define JOIN_MS 1000 /* and then until a thread of the library has ended, at least */

static pthread_mutex_t rpipe_job_lock =
    PTHREAD_MUTEX_INITIALIZER;   /* one rinit or rexit at a time */
static unsigned rpipe_job_count; /* calls of rinit without their rexit; under the lock */
static struct btl_host rpipe_job_host;

/* ---- hooks ---- */

static int rpipe_job_deliver_to_backend(int peer, const void *body, size_t bytes, const int *fds,
                                        int nfds)
{
    RPIPE_FAILPOINT("memory: before it is passed");
    return control_post(peer, MESSAGE_BTL, body, bytes, fds, nfds);
}

static int rpipe_job_fd_path(int peer, struct error *err)
{
    uint32_t backends;
    bool near = false;
    int unknown;

    if (control_path(peer) != CONTROL_TCP)
        return 0;
    unknown = control_host_unknown(peer);
    if (unknown >= 0)
        return error_set(
            err, -ENOTSUP,
            "/proc is not readable at rank %d, so it is not known whether rank %d is on "
            "this host: mount it",
            unknown, peer);
    if (control_peer_backends(peer, &backends, &near, err) == 0 && near)
        return error_set(err, -ENOTSUP,
                         "rank %d is in another network namespace, or RPIPE_CONTROL is tcp: no "
                         "descriptor can be passed to it",
                         peer);
    return error_set(err, -ENOTSUP, "rank %d is on another host: no descriptor can be passed to it",
                     peer);
}

static int rpipe_job_peer_facts(int peer, struct btl_peer *facts, struct error *err)
{
    return control_peer_backends(peer, &facts->usable, &facts->same_kernel, err);
}

static int rpipe_job_peer_process(int peer, int *pid, struct error *err)
{
    struct control_process process;
    int rc = control_process(peer, &process, err);

    if (rc == 0 && process.pid <= 0)
        rc = error_set(err, -ENOTSUP, "rank %d is in another pid namespace", peer);
    if (rc == 0)
        *pid = process.pid;
    return rc;
}

/* The program calls MPI_Init itself if it has MPI, unless the bootstrap does that. */
static const char *rpipe_job_mpi_kind(struct error *err)
{
    struct mpi_library found;

    if (mpi_library_find(&found, err) != 0)
        return NULL;
    if (found.module == NULL) {
        error_note(err, "%s",
                   found.present
                       ? "the MPI of this process is neither Open MPI nor one with MPICH's ABI"
                       : "there is no MPI in this process, and no launcher of MPI started it");
        return NULL;
    }
    if (found.present && !found.started) {
        error_note(err, "this program has MPI, and MPI does not run: call MPI_Init_thread(..., "
                        "MPI_THREAD_MULTIPLE, ...) before rinit()");
        return NULL;
    }
    return found.module + strlen("job_");
}

static void rpipe_job_peer_gone(int rank, enum control_end end, const char *why)
{
    if (end == PEER_DIED)
        log_info("rank %d is gone: %s", rank, why);
    ends_peer_gone(rank, end == PEER_DIED);
    boards_peer_gone(rank, end == PEER_DIED);
}

static void rpipe_job_peer_exiting(int rank)
{
    ends_peer_exiting(rank);
    boards_peer_exiting(rank);
}

static const struct control_hooks rpipe_job_hooks = {message_dispatch, rpipe_job_peer_gone,
                                                     ends_tick, rpipe_job_peer_exiting};

/* The child of a fork has no service thread and must not touch what the parent goes on with. */
static void rpipe_job_forked(void)
{
    struct rch *ch;
    size_t cursor = 0;

    publish_stop();
    end_pool_forked();
    trace_forked();
    error_forked();
    if (!job_is_open())
        return;
    job_state_set(JOB_FORKED);
    calls_forked();
    while ((ch = end_pool_next(&cursor)) != NULL)
        atomic_store_explicit(&ch->state, STATE_FORKED, memory_order_relaxed);
    control_forked();
    rendezvous_forked();
    btl_forked();
}

/* ---- messages that concern no end ---- */

static void rpipe_job_on_btl_message(int from, uint32_t type, const void *body, size_t bytes,
                                     const int *fds, int nfds)
{
    (void)type;
    RPIPE_FAILPOINT("memory: announced by the peer");
    btl_message(from, body, bytes, fds, nfds);
    RPIPE_FAILPOINT("memory: mapped");
}

static void rpipe_job_on_clock_message(int from, uint32_t type, const void *body, size_t bytes,
                                       const int *fds, int nfds)
{
    (void)fds, (void)nfds;
    trace_clock_message(from, type, body, bytes);
}

static void rpipe_job_register_messages(void)
{
    static const struct message_handler btl = {.of_none = rpipe_job_on_btl_message},
                                        clock = {.of_none = rpipe_job_on_clock_message};

    message_register(MESSAGE_BTL, &btl);
    message_register(MESSAGE_CLOCK, &clock);
    message_register(MESSAGE_CLOCK_REPLY, &clock);
}

/* ---- rinit ---- */

/* A misspelt variable would have no effect without notice. */
static void rpipe_job_warn_unknown_settings(void)
{
    const char *name, *nearest;
    int at = 0;

    while ((name = settings_unknown(&at, &nearest)) != NULL)
        log_warn("the environment variable %s has no effect: this version has no such setting%s%s "
                 "(rmalloc_info lists all settings)",
                 name, nearest != NULL ? "; the nearest is " : "", nearest != NULL ? nearest : "");
}

/* One line per process: what was chosen. */
static void rpipe_job_log_choices(int rank, int size)
{
    const char *address = control_address();
    char backends[64], settings[600];
    struct btl_peer own = {0};
    struct error err = {""};

    if (setting_number(SET_LOG) < LOG_INFO)
        return;
    (void)rpipe_job_peer_facts(rank, &own, &err);
    btl_list(own.usable, backends, sizeof(backends));
    settings_describe(settings, sizeof(settings));
    log_info("rank %d of %d, %d of them on this host; bootstrap: %s; backends: %s; address: %s; "
             "settings: %s",
             rank, size, control_local_ranks(), job_name(), backends,
             *address != '\0' ? address : "none", *settings != '\0' ? settings : "all default");
    if (overcommit_is_strict())
        log_info(
            "vm.overcommit_memory is 2: when this machine has no memory left to commit, a "
            "byzantine rank of this host can end this process by SIGBUS (rmalloc(7), CAVEATS)");
}

/* What needs memory once, so that it does not when memory is short. */
static int rpipe_job_reserve(struct error *err)
{
    return deferred_close_start() == 0 && path_monitor_start() == 0
               ? 0
               : error_set(err, -ENOMEM, "no memory for what the service thread watches");
}

static int rpipe_job_open_layers(int *rank, int *size, struct error *err)
{
    char label[PUBLISHED_JOB_BYTES];
    int64_t deadline;
    int rc = settings_load(err);

    if (rc != 0)
        return rc;
    log_set_level((enum log_level)setting_number(SET_LOG));
    deadline = deadline_in_ms((int)setting_number(SET_TIMEOUT_MS));
    rc = job_open(rank, size, deadline, err);
    if (rc != 0)
        return rc;
    log_set_rank(*rank);
    rpipe_job_warn_unknown_settings();
    rpipe_job_host = (struct btl_host){
        .rank = *rank,
        .log_level = (int)setting_number(SET_LOG),
        .debug = setting_number(SET_DEBUG) != 0,
        .send_to_peer = rpipe_job_deliver_to_backend,
        .fd_path = rpipe_job_fd_path,
        .setting = setting_of_name,
        .address = "",
        .watch = control_watch,
        .unwatch = control_unwatch,
        .peer = rpipe_job_peer_facts,
        .connection_failed = path_monitor_failed,
        .close_received = received_fd_close,
        .process = rpipe_job_peer_process,
        .mpi_kind = rpipe_job_mpi_kind,
    };
    ends_start();
    boards_start();
    rpipe_job_register_messages();
    rc = rpipe_job_reserve(err);
    if (rc == 0)
        rc = btl_start(&rpipe_job_host);
    if (rc == 0)
        rc = control_start(&rpipe_job_hooks, deadline, err);
    if (rc != 0) {
        watch_forget();
        job_close();
        if (received_fds_stop(deadline_in_ms(JOIN_MS)) != 0)
            module_pin(); /* their code */
        return rc;
    }
    btl_address_known(control_address());
    btl_join(*size);
    wait_configure(control_local_ranks());
    job_label(label, sizeof(label));
    rc = counter_start(*rank, *size, label);
    if (rc != 0)
        log_info("rinit: this process cannot be observed by rmalloc_stat: %s", rinfo_strerror(rc));
    trace_start(*rank, *size);
    if (trace_on)
        trace_clock_start(*rank);
    report_start();
    rpipe_job_log_choices(*rank, *size);
    return 0;
}

static int rpipe_job_join(void)
{
    static bool registered;
    struct error err = {""};
    int own, size, rc;

    if (job_was_opened())
        return call_error(NULL, -EALREADY, "a process can join a job once, and this one %s",
                          job_is_open() ? "is leaving it"
                                        : "has left it or is the child of a fork");
    rc = rpipe_job_open_layers(&own, &size, &err);
    if (rc != 0)
        return call_error(NULL, rc, "%s", err.text);
    if (!registered && pthread_atfork(NULL, NULL, rpipe_job_forked) == 0)
        registered = true;
    module_pin();
    job_state_set_ranks(own, size);
    job_state_set(JOB_OPEN);
    return 0;
}

int rpipe_init(int *rank, int *nranks)
{
    const char *outer = call_rename("rinit");
    int rc = 0;

    pthread_mutex_lock(&rpipe_job_lock);
    if (rpipe_job_count == 0 || !job_is_open() || calls_ended())
        rc = rpipe_job_join();
    if (rc == 0) {
        rpipe_job_count++;
        if (rank != NULL)
            *rank = job_own_rank();
        if (nranks != NULL)
            *nranks = job_ranks();
    }
    pthread_mutex_unlock(&rpipe_job_lock);
    (void)call_rename(outer);
    return rc;
}

int rpipe_initialized(void) { return job_is_open() && !calls_ended(); }

/* ---- rexit ---- */

static void rpipe_job_close_all(int64_t deadline)
{
    struct rch *ch;
    size_t cursor = 0;

    while ((ch = end_pool_next(&cursor)) != NULL) {
        if ((atomic_load_explicit(&ch->state, memory_order_acquire) & STATE_CLOSED) != 0)
            continue;
        ch->timeout_ms = deadline_left_ms(deadline, -1); /* one deadline for all */
        (void)end_close(ch, "rclose", true);
    }
}

/* Each time anew: another end may have been opened. */
static int rpipe_job_end_calls_attempt(void *unused)
{
    (void)unused;
    ends_leave();
    boards_leave();
    return calls_any() ? R_PENDING : 0;
}

/* Ends the calls of all other threads: at once where they are woken, else after their back-off sleep. */
static int rpipe_job_end_calls(int64_t deadline)
{
    int rc;

    job_state_set(JOB_LEAVING);
    calls_end();
    collect_abandon(true);
    rc = wait_by_sleeps(deadline, rpipe_job_end_calls_attempt, NULL);
    if (rc != 0)
        return rc;
    ends_leave();
    if (!thread_quiesce_await(deadline))
        return -ETIMEDOUT;
    collect_abandon(false);
    return 0;
}

/* Ends the threads of the library, then releases what they have used. */
static int rpipe_job_stop(int64_t deadline)
{
    struct error err = {""};
    int64_t soon = deadline_in_ms(SEND_MS), late = deadline_in_ms(SEND_MS + JOIN_MS);
    int rc, stuck;

    rc = control_stop(soon < deadline ? soon : deadline, late > deadline ? late : deadline, &err);
    if (rc != 0)
        return call_error(NULL, rc, "%s", err.text);
    RPIPE_FAILPOINT("rexit: service thread ended");
    end_release_all();
    btl_stop();
    job_close();
    stuck = received_fds_stop(deadline_in_ms(JOIN_MS));
    if (stuck == 0)
        module_unpin();
    else
        log_warn("rexit: %d descriptors that other processes have passed cannot be closed; the "
                 "threads that close them (rmalloc-close) stay",
                 stuck);
    return 0;
}

static int rpipe_job_leave(void)
{
    int64_t deadline = deadline_in_ms((int)setting_number(SET_TIMEOUT_MS));
    struct error missing = {""};
    int rc, stopped;

    rc = rpipe_job_end_calls(deadline);
    if (rc != 0)
        return call_error(NULL, rc,
                          "calls of other threads have not ended within %ld ms (RPIPE_TIMEOUT_MS); "
                          "nothing has been released: call rexit again when they have returned",
                          setting_number(SET_TIMEOUT_MS));
    rpipe_job_count = 0;
    RPIPE_FAILPOINT("rexit: begun");
    control_announce_exit();
    rpipe_job_close_all(deadline);
    features_leave(deadline); /* casts are on boards */
    boards_close_all();
    deferred_close_finish(deadline);
    streams_leave();
    path_monitor_stop();
    roles_stop();
    if (trace_on)
        trace_clock_end(deadline);
    RPIPE_FAILPOINT("rexit: pipes closed");
    rc = collect_leave(deadline, &missing);
    RPIPE_FAILPOINT("rexit: barrier complete");
    if (rc != 0)
        (void)call_error(NULL, rc,
                         "not every rank has called rexit within %ld ms (RPIPE_TIMEOUT_MS)%s%s; "
                         "this one has left the job",
                         setting_number(SET_TIMEOUT_MS), *missing.text != '\0' ? ", missing: " : "",
                         missing.text);
    job_state_set(JOB_LEFT);
    report_finish((int)job_rank(), (int)job_size());
    publish_stop();
    stopped = rpipe_job_stop(deadline);
    return rc != 0 ? rc : stopped;
}

static int rpipe_job_exit(void)
{
    int rc;

    if (!job_is_open()) /* another thread was faster */
        return job_check();
    if (rpipe_job_count > 1) { /* an earlier rinit needs the job */
        rpipe_job_count--;
        return 0;
    }
    rc = rpipe_job_leave();
    calls_done();
    return rc;
}

int rpipe_exit(void)
{
    const char *outer = call_rename("rexit");
    int rc = 0, cancel;

    if (!job_is_open()) {
        rc = job_check();
    } else {
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        pthread_mutex_lock(&rpipe_job_lock);
        rc = rpipe_job_exit();
        pthread_mutex_unlock(&rpipe_job_lock);
        (void)pthread_setcancelstate(cancel, NULL);
    }
    (void)call_rename(outer);
    return rc;
}
