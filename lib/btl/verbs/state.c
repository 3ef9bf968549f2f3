/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.c: see state.h.
 */
#include "btl/verbs/state.h"

#include "btl/verbs/device.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

void verbs_state_up(struct btl_connection *connection)
{
    int down = CONNECTION_DOWN;

    /* release: the queue pair; pairs with the acquires in post.c */
    (void)atomic_compare_exchange_strong_explicit(&connection->state, &down, CONNECTION_UP,
                                                  memory_order_release, memory_order_relaxed);
}

void verbs_state_fail(struct btl_connection *connection, int error, const char *format, ...)
{
    int state = atomic_load_explicit(&connection->state, memory_order_relaxed);
    va_list args;

    do {
        if (state >= CONNECTION_FAILING)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&connection->state, &state, CONNECTION_FAILING,
                                                    memory_order_relaxed, memory_order_relaxed));
    va_start(args, format);
    vsnprintf(connection->failure, sizeof(connection->failure), format, args);
    va_end(args);
    connection->error = error;
    /* release: the message; pairs with the acquires in verbs_connection_state and post.c */
    atomic_store_explicit(&connection->state, CONNECTION_FAILED, memory_order_release);
    if (connection->btl->host.connection_failed != NULL)
        connection->btl->host.connection_failed();
}

int verbs_connection_state(struct btl_connection *connection, struct error *err)
{
    /* acquire: pairs with the releases in verbs_state_up and verbs_state_fail */
    int state = atomic_load_explicit(&connection->state, memory_order_acquire);
    char there[80];

    /* another thread writes the message, without waiting */
    while (state == CONNECTION_FAILING) {
        (void)sched_yield();
        state = atomic_load_explicit(&connection->state, memory_order_acquire);
    }
    if (state == CONNECTION_UP)
        return 0;
    if (state == CONNECTION_FAILED) {
        error_note(err, "%s", connection->failure);
        return connection->error;
    }
    pthread_mutex_lock(&connection->btl->lock);
    if (connection->role == BTL_ACCEPTS)
        error_note(err, "rank %d has not connected its queue pair yet%s%s", connection->peer,
                   *connection->obstacle != '\0' ? "; the last attempt: " : "",
                   connection->obstacle);
    else if (connection->there.any.sa_family == AF_UNSPEC)
        error_note(err, "the address of the queue pair of rank %d has not been received yet",
                   connection->peer);
    else
        error_note(err, "%s is being connected with %s, rank %d%s%s", connection->btl->device,
                   verbs_address_text(&connection->there, there, sizeof(there)), connection->peer,
                   *connection->obstacle != '\0' ? "; the last attempt: " : "",
                   connection->obstacle);
    pthread_mutex_unlock(&connection->btl->lock);
    return -EAGAIN;
}

/* ---- queue pair ---- */

void verbs_state_drop(struct btl_connection *connection)
{
    if (connection->id != NULL) {
        if (connection->id->qp != NULL)
            rdma_destroy_qp(connection->id);
        (void)rdma_destroy_id(connection->id);
    }
    connection->id = NULL;
    connection->qp = NULL;
    connection->posted = connection->completed = 0;
    connection->unsignaled = 0;
}

int verbs_state_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}
