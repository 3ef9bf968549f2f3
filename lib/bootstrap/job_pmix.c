/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_pmix.c: the job that a PMIx launcher started (mpirun, prterun, srun --mpi=pmix). The module
 * job_pmix.so.
 *
 * Cards are put, committed and fenced without collecting data: the fence costs little, and
 * afterwards each process gets the cards that it needs, one by one. Without the fence some
 * launchers answer NOT-FOUND to a get before the owner's commit; a get with this answer is repeated
 * until its deadline in any case.
 *
 * The key contains how often this process has opened the job, since a launcher's store and the
 * client's cache keep the first value of a key. PMIx is thread-safe; nothing here runs in one of
 * its callbacks.
 */
#include "bootstrap/job_ops.h"
#include "util/clock.h"

#include <errno.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pmix_proc_t self;
    unsigned opened; /* number of calls of open */
    int local_size;
    char key[PMIX_MAX_KEYLEN];
} pmix;

static int pmix_query(struct error *err)
{
    if (getenv("PMIX_NAMESPACE") == NULL || getenv("PMIX_RANK") == NULL)
        return error_set(
            err, -ENOENT,
            "no PMIx launcher started this process (PMIX_NAMESPACE and PMIX_RANK are not set); "
            "start it with mpirun, prterun or srun --mpi=pmix");
    error_note(err, "namespace %.100s, rank %.20s", getenv("PMIX_NAMESPACE"), getenv("PMIX_RANK"));
    return 0;
}

/* PMIx uses whole seconds, and 0 is "without limit". */
static int pmix_seconds_left(int64_t deadline)
{
    return deadline == DEADLINE_NEVER ? 0 : (deadline_left_ms(deadline, -1) + 999) / 1000 + 1;
}

/* A number that the launcher has about the job; 0 or -ENOENT. */
static int pmix_job_number(const char *key, int *number)
{
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    pmix_status_t status;
    int result = 0;

    PMIX_PROC_CONSTRUCT(&job);
    PMIX_LOAD_PROCID(&job, pmix.self.nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&job, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value == NULL)
        return -ENOENT;
    if (value->type == PMIX_UINT32 && value->data.uint32 <= INT32_MAX)
        *number = (int)value->data.uint32;
    else if (value->type == PMIX_UINT16)
        *number = value->data.uint16;
    else if (value->type == PMIX_INT && value->data.integer >= 0)
        *number = value->data.integer;
    else
        result = -ENOENT;
    PMIX_VALUE_RELEASE(value);
    return result;
}

static int pmix_open(int *rank, int *size, int64_t deadline, struct error *err)
{
    pmix_status_t status;
    int ranks;

    (void)deadline; /* PMIx_Init connects to a daemon on this host only, and takes no deadline */
    status = PMIx_Init(&pmix.self, NULL, 0);
    if (status != PMIX_SUCCESS)
        return error_set(err, -ECONNREFUSED, "PMIx_Init: %s%s", PMIx_Error_string(status),
                         status == PMIX_ERR_UNREACH
                             ? "; the launcher that PMIX_NAMESPACE names does not answer"
                             : "");
    if (pmix_job_number(PMIX_JOB_SIZE, &ranks) != 0 || ranks < 1 ||
        pmix.self.rank >= (pmix_rank_t)ranks) {
        error_note(err, "the PMIx launcher reports no valid number of processes of the job (%s)",
                   PMIX_JOB_SIZE);
        PMIx_Finalize(NULL, 0);
        return -EPROTO;
    }
    if (pmix_job_number(PMIX_LOCAL_SIZE, &pmix.local_size) != 0 || pmix.local_size < 1)
        pmix.local_size = 1;
    snprintf(pmix.key, sizeof(pmix.key), "rmalloc.card.%u", pmix.opened++);
    *rank = (int)pmix.self.rank;
    *size = ranks;
    return 0;
}

static int pmix_publish_failed(const char *call, pmix_status_t status, struct error *err)
{
    error_note(err, "%s of the business card: %s%s", call, PMIx_Error_string(status),
               status == PMIX_ERR_TIMEOUT
                   ? "; not every process of the job has called rinit() in time"
                   : "");
    return status == PMIX_ERR_TIMEOUT ? -ETIMEDOUT : -EIO;
}

static int pmix_publish(const void *card, size_t bytes, int64_t deadline, struct error *err)
{
    uint8_t copy[JOB_CARD_MAX];
    pmix_value_t value;
    pmix_status_t status;
    pmix_info_t info;
    int seconds = pmix_seconds_left(deadline);

    memcpy(copy, card, bytes);
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)copy; /* PMIx_Put copies it */
    value.data.bo.size = bytes;
    status = PMIx_Put(PMIX_GLOBAL, pmix.key, &value);
    if (status != PMIX_SUCCESS)
        return pmix_publish_failed("PMIx_Put", status, err);
    status = PMIx_Commit();
    if (status != PMIX_SUCCESS)
        return pmix_publish_failed("PMIx_Commit", status, err);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
    status = PMIx_Fence(NULL, 0, &info, seconds > 0 ? 1 : 0);
    PMIX_INFO_DESTRUCT(&info);
    if (status != PMIX_SUCCESS)
        return pmix_publish_failed("PMIx_Fence", status, err);
    return 0;
}

static int pmix_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err)
{
    pmix_value_t *value = NULL;
    pmix_status_t status;
    pmix_proc_t owner;
    pmix_info_t info;
    int seconds, result = 0;

    PMIX_PROC_CONSTRUCT(&owner);
    PMIX_LOAD_PROCID(&owner, pmix.self.nspace, (pmix_rank_t)rank);
    for (;;) {
        seconds = pmix_seconds_left(deadline);
        PMIX_INFO_CONSTRUCT(&info);
        PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
        status = PMIx_Get(&owner, pmix.key, &info, seconds > 0 ? 1 : 0, &value);
        PMIX_INFO_DESTRUCT(&info);
        if (status == PMIX_SUCCESS && value != NULL)
            break;
        if (status != PMIX_ERR_NOT_FOUND || deadline_passed(deadline)) {
            error_note(err, "PMIx_Get of the business card of rank %d: %s", rank,
                       PMIx_Error_string(status));
            return status == PMIX_ERR_TIMEOUT ? -ETIMEDOUT : -ENOENT;
        }
        clock_sleep(NS_PER_MS);
    }
    if (value->type == PMIX_BYTE_OBJECT && value->data.bo.size <= JOB_CARD_MAX) {
        memcpy(card, value->data.bo.bytes, value->data.bo.size);
        *bytes = value->data.bo.size;
    } else {
        error_note(
            err,
            "the business card of rank %d is no byte object of 1 to %d bytes: is it of another "
            "version of this library?",
            rank, JOB_CARD_MAX);
        result = -EPROTO;
    }
    PMIX_VALUE_RELEASE(value);
    return result;
}

static __attribute__((noreturn)) void pmix_abort(int code)
{
    PMIx_Abort(code, "network_abort", NULL, 0);
    _exit(code);
}

/* Only the daemon of this host is notified; it waits for no other process without
 * PMIX_EMBED_BARRIER. */
static void pmix_close(void) { PMIx_Finalize(NULL, 0); }

static int pmix_local_size(void) { return pmix.local_size; }

extern const struct job_ops job_pmix_ops;
__attribute__((visibility("default"))) const struct job_ops job_pmix_ops = {
    .version = JOB_OPS_VERSION,
    .name = "pmix",
    .query = pmix_query,
    .open = pmix_open,
    .publish = pmix_publish,
    .card = pmix_card,
    .abort = pmix_abort,
    .close = pmix_close,
    .local_size = pmix_local_size,
};
