/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c: see context.h.
 *
 * librdmacm has one context for a device and process, and makes queue pairs in that one only. In its kernel half a connection belongs to the
 * device and has the number of a queue pair, whatever context that is of. So a queue pair of another context is made by libibverbs and stored in
 * the identifier, where librdmacm changes its state as that of its own; only the first change, to INIT, is made here.
 */
#include "btl/verbs/context.h"

#include "btl/verbs/memory.h"
#include "btl/verbs/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GREETINGS 4096 /* entries of the completion queue at first: one for each connection */
/*
 * libibverbs takes a queue of soft-iWARP that the kernel has mapped at page 144 of the device's
 * file for one that it could not map, and every later one too, since that page stays free. This
 * queue is the first one, and long enough to contain that page (doc/verbs.md).
 */
#define GREETINGS_SIW 32768
#define GREETINGS_STREAM 1024 /* in the context of a stream */

/* ---- greetings ---- */

/* Entries of the completion queue. */
static int context_greetings(const struct device_context *context)
{
    if (context->index != 0)
        return GREETINGS_STREAM;
    return context->btl->limits.siw ? GREETINGS_SIW : GREETINGS;
}

int verbs_context_open_greetings(struct device_context *context, struct error *err)
{
    int entries = context_greetings(context), rc;

    context->greeted = ibv_create_comp_channel(context->ibv);
    rc = context->greeted != NULL ? verbs_state_set_nonblocking(context->greeted->fd) : -errno;
    if (rc == 0) {
        context->greetings = ibv_create_cq(context->ibv, entries, NULL, context->greeted, 0);
        rc = context->greetings == NULL ? -errno : -ibv_req_notify_cq(context->greetings, 0);
    }
    if (rc != 0)
        error_note(err, "a completion queue of %d entries on %s: %s", entries, context->btl->device,
                   strerror(-rc));
    else
        context->entries = (uint32_t)entries;
    return rc;
}

/* btl.copies held. 0 or -errno. */
static int context_lengthen(struct device_context *context)
{
    const uint32_t most = context->btl->limits.cq_most, doubled = context->entries * 2,
                   entries = doubled < most ? doubled : most;
    int rc;

    if (entries <= context->entries)
        return -ENOSPC;
    rc = ibv_resize_cq(context->greetings, (int)entries);
    if (rc == 0)
        context->entries = entries;
    return rc > 0 ? -rc : rc;
}

int verbs_context_enter(struct device_context *context)
{
    int rc = 0;

    pthread_mutex_lock(&context->btl->copies);
    if (context->connections == context->entries)
        rc = context_lengthen(context);
    if (rc == 0)
        context->connections++;
    pthread_mutex_unlock(&context->btl->copies);
    return rc;
}

void verbs_context_leave(struct device_context *context)
{
    pthread_mutex_lock(&context->btl->copies);
    context->connections--;
    pthread_mutex_unlock(&context->btl->copies);
}

int verbs_context_watch(struct device_context *context)
{
    const struct btl *btl = context->btl;

    return btl->host.watch(context->greeted->fd, 0, btl->greeted, context);
}

void verbs_context_unwatch(struct device_context *context)
{
    context->btl->host.unwatch(context->btl->greeted, context);
}

void verbs_context_close_greetings(struct device_context *context)
{
    if (context->greetings != NULL)
        (void)ibv_destroy_cq(context->greetings);
    if (context->greeted != NULL)
        (void)ibv_destroy_comp_channel(context->greeted);
}

/* ---- contexts of streams ---- */

/* The index of the new context. 0: there is none left. */
static uint32_t context_take_index(struct device_context *context)
{
    struct btl *btl = context->btl;
    uint32_t i;

    pthread_mutex_lock(&btl->copies);
    for (i = 1; i < VERBS_CONTEXTS && btl->context[i] != NULL; i++)
        ;
    if (i < VERBS_CONTEXTS)
        btl->context[i] = context;
    pthread_mutex_unlock(&btl->copies);
    return i < VERBS_CONTEXTS ? i : 0;
}

static void context_give_index(struct device_context *context)
{
    pthread_mutex_lock(&context->btl->copies);
    context->btl->context[context->index] = NULL;
    pthread_mutex_unlock(&context->btl->copies);
}

/* Everything but the index. The service thread watches the greetings at the end, when nothing can fail any more. */
static int context_begin(struct device_context *context, struct error *err)
{
    struct btl *btl = context->btl;
    int rc;

    context->ibv = ibv_open_device(btl->process.ibv->device);
    if (context->ibv == NULL) {
        rc = errno > 0 ? -errno : -ENODEV;
        return error_set(err, rc, "%s cannot be opened again: %s", btl->device, strerror(-rc));
    }
    rc = verbs_memory_open_context(context, err);
    if (rc == 0)
        rc = verbs_context_open_greetings(context, err);
    if (rc == 0 && (rc = verbs_context_watch(context)) != 0)
        error_note(err, "the service thread cannot watch a further context of %s: %s", btl->device,
                   strerror(-rc));
    return rc;
}

static void context_end(struct device_context *context)
{
    context_give_index(context); /* first: the child of a fork uses those that have one */
    if (!context->btl->forked) {
        verbs_context_close_greetings(context);
        verbs_memory_close_context(context);
        if (context->ibv != NULL)
            (void)ibv_close_device(context->ibv);
    }
    free(context);
}

int verbs_context_open(struct btl *btl, struct device_context **out, struct error *err)
{
    struct device_context *context;
    int rc;

    if (btl->limits.iwarp) /* the handshake of its connections needs the queue pair of librdmacm */
        return error_set(err, -ENOTSUP, "librdmacm has one context for a device of iWARP");
    context = calloc(1, sizeof(*context));
    if (context == NULL)
        return error_set(err, -ENOMEM, "there is no memory for a context");
    context->btl = btl;
    context->index = context_take_index(context);
    if (context->index == 0) {
        free(context);
        return error_set(err, -ENOSPC, "this process has %u contexts of %s, the most there are",
                         VERBS_CONTEXTS, btl->device);
    }
    rc = context_begin(context, err);
    if (rc != 0) {
        context_end(context);
        return rc;
    }
    *out = context;
    return 0;
}

void verbs_context_close(struct device_context *context)
{
    if (!context->btl->forked)
        verbs_context_unwatch(context);
    verbs_memory_leave(context);
    context_end(context);
}

static void context_forked(const struct device_context *context, int nowhere)
{
    (void)dup3(nowhere, context->greeted->fd, O_CLOEXEC);
    (void)dup3(nowhere, context->ibv->cmd_fd, O_CLOEXEC);
    (void)dup3(nowhere, context->ibv->async_fd, O_CLOEXEC);
}

void verbs_contexts_forked(struct btl *btl, int nowhere)
{
    uint32_t i;

    context_forked(&btl->process, nowhere);
    for (i = 1; i < VERBS_CONTEXTS; i++)
        if (btl->context[i] != NULL && btl->context[i]->greeted != NULL)
            context_forked(btl->context[i], nowhere);
}

/* The state in which receives can be posted. 0 or an errno value. */
static int context_initialize(struct btl_connection *connection)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    int mask = 0;

    if (rdma_init_qp_attr(connection->id, &attr, &mask) != 0)
        return errno;
    return ibv_modify_qp(connection->id->qp, &attr, mask);
}

int verbs_context_queue_pair(struct btl_connection *connection, struct ibv_pd *pd,
                             struct ibv_qp_init_attr *init)
{
    struct rdma_cm_id *id = connection->id;
    int error;

    if (connection->context->index == 0)
        return rdma_create_qp(id, pd, init);
    id->qp = ibv_create_qp(pd, init);
    if (id->qp == NULL)
        return -1;
    error = context_initialize(connection);
    if (error == 0)
        return 0;
    rdma_destroy_qp(id);
    errno = error > 0 ? error : EINVAL;
    return -1;
}
