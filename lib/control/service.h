/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * service.h: the service thread of the control network.
 *
 * It sleeps in epoll, and in each turn of its loop does: the events of the sockets, what other
 * threads have posted, liveness words and the tick, what is due, and the steps of an orderly end.
 */
#ifndef CONTROL_SERVICE_H
#define CONTROL_SERVICE_H

#include "util/error.h"

#include <stdbool.h>

/* Watches the listening sockets, the job, and the eventfd by which other threads wake it. 0 or
 * -errno. */
int service_open(struct error *err);
/* Starts the thread. 0 or -errno. */
int service_start(struct error *err);

/* Whether `tick` of the hooks is called, and liveness words are checked, at least every 50 ms.
 * Any thread. */
void control_set_ticking(bool on);
/* This process is in rexit, and no thread of it opens or sends anything any more: every peer that is connected, or connects
 * later, is sent that, behind what was posted before. */
void control_announce_exit(void);

#endif
