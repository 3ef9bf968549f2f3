/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c: chooses the bootstrap and passes every call on to it, see job.h.
 *
 * A bootstrap is chosen by the variables of the environment, never by attempts: n processes that
 * were started as one job must not become n jobs of one process. So the bootstrap that was chosen
 * works, or job_open() fails.
 */
#include "bootstrap/job.h"

#include "bootstrap/job_ops.h"
#include "bootstrap/launcher.h"
#include "bootstrap/mpi_library.h"
#include "util/log.h"
#include "util/membarrier.h"
#include "util/module.h"
#include "util/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum method { METHOD_PMIX, METHOD_TCP, METHOD_SINGLE, METHOD_MPI, METHODS };

static const char *const job_method_names[METHODS] = {"pmix", "tcp", "single", "mpi"};

static struct {
    const struct job_ops *ops; /* NULL: no job is open */
    int rank, size;
} job;

/* The table of calls that a module exports: job_pmix_ops. 0 or -ENOSYS. */
static int job_module_ops(const char *module, const struct job_ops **ops, struct error *err)
{
    struct error cause = {""};
    const struct job_ops *found;
    char symbol[32];

    snprintf(symbol, sizeof(symbol), "%s_ops", module);
    found = module_symbol(module, symbol, &cause);
    if (found == NULL)
        return error_set(err, -ENOSYS, "the module %s %s", module, cause.text);
    if (found->version != JOB_OPS_VERSION)
        return error_set(
            err, -ENOSYS,
            "the module %s has interface version %u, this library %u: install both anew", module,
            found->version, JOB_OPS_VERSION);
    *ops = found;
    return 0;
}

static int job_mpi_module_ops(const struct job_ops **ops, struct error *err)
{
    struct mpi_library found;
    int rc = mpi_library_find(&found, err);

    if (rc != 0)
        return rc;
    if (found.module == NULL)
        return error_set(err, -ENOENT,
                         "there is no MPI in this process, and no launcher of MPI started it");
    if (setting_number(SET_BOOTSTRAP) == 0 && found.present && !found.started)
        return error_set(
            err, -ENOENT,
            "this program has MPI, and has not called MPI_Init: call it before rinit(); "
            "RPIPE_BOOTSTRAP=mpi if rinit() is to do it");
    return job_module_ops(found.module, ops, err);
}

static int job_method_ops(enum method method, const struct job_ops **ops, struct error *err)
{
    switch (method) {
    case METHOD_TCP:
        *ops = &job_tcp_ops;
        return 0;
    case METHOD_SINGLE:
        *ops = &job_single_ops;
        return 0;
    case METHOD_MPI:
        return job_mpi_module_ops(ops, err);
    default:
        return job_module_ops("job_pmix", ops, err);
    }
}

/* MPI has started, or its launcher this process as one of several, and there is a module for it. */
static bool job_mpi_offers(void)
{
    struct error ignored = {""};
    struct mpi_library found;

    if (mpi_library_find(&found, &ignored) != 0)
        return true; /* two of them: the choice fails, with the reason */
    return found.module != NULL && (found.started || launcher_mpi_module() != NULL) &&
           module_installed(found.module);
}

static enum method job_method_choose(void)
{
    int asked = (int)setting_number(SET_BOOTSTRAP);

    if (asked != 0)
        return (enum method)(asked - 1);
    if (getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL)
        return METHOD_PMIX;
    if (setting_given(SET_RANK))
        return METHOD_TCP;
    return job_mpi_offers() ? METHOD_MPI : METHOD_SINGLE;
}

/* A job of one process that was not asked for is mostly a mistake at the launcher. */
static void job_warn_launcher(void)
{
    struct error err = {""};
    bool first;

    if (setting_number(SET_BOOTSTRAP) == 0 && launcher_without_pmix(&first, &err) && first)
        log_warn("bootstrap single: %s", err.text);
}

int job_open(int *rank, int *size, int64_t deadline, struct error *err)
{
    enum method method = job_method_choose();
    const struct job_ops *ops = NULL;
    struct error cause = {""};
    int own_rank, own_size, result;

    if (job.ops != NULL)
        return error_set(err, -EALREADY, "the job is already open");
    membarrier_register(); /* before there are threads, see membarrier.h */
    result = job_method_ops(method, &ops, &cause);
    if (result == 0)
        result = ops->query(&cause);
    if (result == 0)
        result = ops->open(&own_rank, &own_size, deadline, &cause);
    if (result == 0 && method == METHOD_MPI && own_size == 1 && launcher_mpi_module() != NULL) {
        ops->close();
        result = error_set(&cause, -EPROTO,
                           "the launcher started several processes, and MPI has one: is it the "
                           "launcher of this MPI?");
    }
    if (result != 0)
        return error_set(err, result, "bootstrap %s (%s): %s", job_method_names[method],
                         setting_number(SET_BOOTSTRAP) != 0 ? "RPIPE_BOOTSTRAP"
                                                            : "chosen by the environment",
                         cause.text);
    job.ops = ops;
    job.rank = own_rank;
    job.size = own_size;
    *rank = own_rank;
    *size = own_size;
    if (method == METHOD_SINGLE)
        job_warn_launcher();
    return 0;
}

int job_publish(const void *card, size_t bytes, int64_t deadline, struct error *err)
{
    if (job.ops == NULL)
        return error_set(err, -ENOTCONN, "the job is not open");
    if (bytes > JOB_CARD_MAX)
        return error_set(err, -EMSGSIZE, "the business card has %zu bytes; at most %d are possible",
                         bytes, JOB_CARD_MAX);
    return job.ops->publish(card, bytes, deadline, err);
}

int job_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err)
{
    if (job.ops == NULL)
        return error_set(err, -ENOTCONN, "the job is not open");
    if (rank < 0 || rank >= job.size)
        return error_set(err, -ENOENT, "there is no rank %d; the job has %d ranks", rank, job.size);
    return job.ops->card(rank, card, bytes, deadline, err);
}

_Noreturn void job_abort(int code)
{
    if (job.ops != NULL)
        job.ops->abort(code);
    _exit(code);
}

void job_close(void)
{
    const struct job_ops *ops = job.ops;

    job.ops = NULL;
    if (ops != NULL)
        ops->close();
}

int job_rank(void) { return job.rank; }
int job_size(void) { return job.size; }
const char *job_name(void) { return job.ops != NULL ? job.ops->name : NULL; }

void job_label(char *text, size_t bytes)
{
    const char *name = job_name(), *which = "";

    if (job.ops == &job_tcp_ops)
        which = setting_text(SET_ROOT);
    else if (name != NULL && strcmp(name, "pmix") == 0)
        which = getenv("PMIX_NAMESPACE");
    if (which == NULL)
        which = "";
    snprintf(text, bytes, "%s%s%s", name != NULL ? name : "", *which != '\0' ? " " : "", which);
}

int job_local_size(void)
{
    return job.ops != NULL && job.ops->local_size != NULL ? job.ops->local_size() : 0;
}
int job_watch(void) { return job.ops != NULL && job.ops->watch != NULL ? job.ops->watch() : -1; }

void job_watched(void)
{
    if (job.ops != NULL && job.ops->watched != NULL)
        job.ops->watched();
}

int job_describe(int index, const char **name, bool *usable, struct error *err)
{
    const struct job_ops *ops = NULL;

    if (index < 0 || index >= METHODS)
        return -ENOENT;
    *name = job_method_names[index];
    *usable = job_method_ops((enum method)index, &ops, err) == 0 && ops->query(err) == 0;
    return 0;
}
