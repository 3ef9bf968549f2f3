/* SPDX-License-Identifier: BSD-3-Clause */
/* control.c: start and stop of the control network, see control.h. */
#include "control/control.h"

#include "bootstrap/job.h"
#include "control/collective.h"
#include "control/endpoint.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/membarrier.h"
#include "util/received_fd.h"
#include "util/received_socket.h"
#include "util/settings.h"

#include <arpa/inet.h>
#include <errno.h>

static char control_address_text[INET6_ADDRSTRLEN]; /* written by control_start alone */

const char *control_address(void) { return control_address_text; }

static void control_set_address(void)
{
    const struct card_address *a = &control.card.address[0];

    if (control.card.addresses > 0)
        (void)inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->bytes, control_address_text,
                        sizeof(control_address_text));
}

int control_local_ranks(void) { return control_running() ? control.local_ranks : 1; }

static int control_listen(struct error *err)
{
    long choice = setting_number(SET_CONTROL);

    if (choice != 2) {
        control.unix_listener = endpoint_listen_unix(&control.card, err);
        if (control.unix_listener < 0)
            return control.unix_listener;
    }
    if (choice != 1 && control.size > 1) {
        control.tcp_listener = endpoint_listen_tcp(&control.card, setting_text(SET_INTERFACE), err);
        if (control.tcp_listener < 0)
            return control.tcp_listener;
    }
    return 0;
}

/* How many ranks share the cores of this host, for the back-off of waits. */
static int control_count_local(void)
{
    int reported = job_local_size(), count = 0, rank;
    const struct card *card;
    struct error err = {""};

    if (reported > 0)
        return reported;
    for (rank = 0; rank < control.size; rank++) {
        card = peer_card(rank, DEADLINE_NOW, &err);
        if (rank == control.rank || (card != NULL && card_same_host(card, &control.card)))
            count++;
    }
    return count;
}

static void control_close_all(void)
{
    received_socket_close(control.unix_listener);
    fork_fds_close(control.tcp_listener);
    fork_fds_close(control.wake);
    fork_fds_close(control.epoll);
    control.unix_listener = control.tcp_listener = control.wake = control.epoll = -1;
    liveness_destroy();
}

/* Everything but the service thread. */
static int control_prepare(int64_t deadline, struct error *err)
{
    int result = card_make(&control.card, control.rank, err);

    RPIPE_FAILPOINT("rinit: card made");
    if (result == 0)
        result = state_make_peers(err);
    if (result == 0)
        result = liveness_create(err);
    if (result == 0)
        result = control_listen(err);
    RPIPE_FAILPOINT("rinit: listening");
    if (result == 0)
        result = job_publish(&control.card, sizeof(control.card), deadline, err);
    RPIPE_FAILPOINT("rinit: card published");
    if (result == 0)
        result = service_open(err);
    if (result == 0 && (result = collect_start(control.rank, control.size)) != 0)
        error_note(err, "no memory for messages of %d ranks", control.size);
    return result;
}

int control_start(const struct control_hooks *hooks, int64_t deadline, struct error *err)
{
    int result;

    if (control_running())
        return error_set(err, -EALREADY,
                         "the control network is already running; rinit starts it once");
    state_init();
    control.rank = job_rank();
    control.size = job_size();
    control.hooks = *hooks;
    control.membarrier = membarrier_registered();
    result = control_prepare(deadline, err);
    if (result != 0)
        goto failed;
    control_set_address();
    control.local_ranks = control_count_local();
    /* release: pairs with control_running(); hooks may post at once */
    atomic_store_explicit(&control.running, true, memory_order_release);
    RPIPE_FAILPOINT("rinit: before the service thread");
    result = service_start(err);
    if (result != 0) {
        atomic_store_explicit(&control.running, false, memory_order_release);
        collect_stop();
        goto failed;
    }
    return 0;

failed:
    control_close_all();
    state_free_peers();
    return result;
}

int control_stop(int64_t sent_by, int64_t ended_by, struct error *err)
{
    if (!control_running() || control_on_service_thread())
        return 0;
    pthread_mutex_lock(&control.lock);
    control.stop_deadline = sent_by;
    control.stopping = true;
    control.asleep = false;
    pthread_mutex_unlock(&control.lock);
    state_wake();
    if (thread_join(&control.thread, ended_by) != 0)
        return error_set(err, -ETIMEDOUT,
                         "the thread \"%s\" of the control network has not ended in time; it is "
                         "%s. What it uses stays allocated",
                         control.thread.name, thread_doing(&control.thread));
    watch_forget();
    pthread_mutex_lock(&control.lock);
    atomic_store_explicit(&control.running, false, memory_order_release);
    pthread_mutex_unlock(&control.lock);
    collect_stop();
    control_close_all();
    state_free_peers();
    return 0;
}

void control_forked(void)
{
    received_fds_forked();
    if (!control_running())
        return;
    atomic_store_explicit(&control.running, false, memory_order_release);
    fork_fds_close_all();
}
