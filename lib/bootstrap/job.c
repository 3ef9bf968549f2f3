/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c: chooses the way into the job and passes every question on to it, see job.h.
 *
 * A way is chosen by what the environment shows, never by trying: n processes that were started as one job and fall back
 * to n jobs of one process are the worst failure there is. So the way that was chosen works, or job_open() fails.
 */
#include "bootstrap/job.h"

#include "bootstrap/job_methods.h"
#include "util/membarrier.h"
#include "util/log.h"
#include "util/module.h"
#include "util/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum way { WAY_PMIX, WAY_TCP, WAY_SINGLE, WAYS };

static const char *const job_way_names[WAYS] = {"pmix", "tcp", "single"};

static struct {
    const struct job_ops *ops; /* NULL: no job is open */
    int rank, size;
} job;

static const struct job_ops *job_way_ops(enum way way, struct error *err)
{
    const struct job_ops *ops;
    struct error said = {""};

    switch (way) {
    case WAY_TCP:
        return &job_tcp_ops;
    case WAY_SINGLE:
        return &job_single_ops;
    default:
        break;
    }
    ops = module_symbol("job_pmix", "job_pmix_ops", &said);
    if (ops == NULL) {
        error_note(err, "the module for PMIx %s", said.text);
        return NULL;
    }
    if (ops->version != JOB_OPS_VERSION) {
        error_note(
            err, "the module for PMIx has interface version %u, this library %u: install both anew",
            ops->version, JOB_OPS_VERSION);
        return NULL;
    }
    return ops;
}

static enum way job_way_choose(void)
{
    switch (setting_number(SET_BOOTSTRAP)) {
    case 1:
        return WAY_PMIX;
    case 2:
        return WAY_TCP;
    case 3:
        return WAY_SINGLE;
    default:
        break;
    }
    if (getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL)
        return WAY_PMIX;
    return setting_given(SET_RANK) ? WAY_TCP : WAY_SINGLE;
}

int job_open(int *rank, int *size, int64_t deadline, struct error *err)
{
    enum way way = job_way_choose();
    const struct job_ops *ops;
    struct error said = {""};
    int own_rank, own_size, result;

    if (job.ops != NULL)
        return error_set(err, -EALREADY, "the job is already open");
    membarrier_register(); /* before there are threads, see there */
    ops = job_way_ops(way, &said);
    result = ops != NULL ? ops->query(&said) : -ENOSYS;
    if (result == 0)
        result = ops->open(&own_rank, &own_size, deadline, &said);
    if (result != 0)
        return error_set(err, result, "bootstrap %s (%s): %s", job_way_names[way],
                         setting_number(SET_BOOTSTRAP) != 0 ? "RPIPE_BOOTSTRAP"
                                                            : "chosen by the environment",
                         said.text);
    job.ops = ops;
    job.rank = own_rank;
    job.size = own_size;
    *rank = own_rank;
    *size = own_size;
    return 0;
}

int job_publish(const void *card, size_t bytes, int64_t deadline, struct error *err)
{
    if (job.ops == NULL || bytes > JOB_CARD_MAX) {
        error_note(err, job.ops == NULL ? "the job is not open" : "the business card is too large");
        return job.ops == NULL ? -ENOTCONN : -EMSGSIZE;
    }
    return job.ops->publish(card, bytes, deadline, err);
}

int job_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err)
{
    if (job.ops == NULL)
        return error_set(err, -ENOTCONN, "the job is not open");
    if (rank < 0 || rank >= job.size)
        return error_set(err, -EINVAL, "%d is not a rank of this job of %d", rank, job.size);
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
    const struct job_ops *ops;

    if (index < 0 || index >= WAYS)
        return -ENOENT;
    *name = job_way_names[index];
    ops = job_way_ops((enum way)index, err);
    *usable = ops != NULL && ops->query(err) == 0;
    return 0;
}
