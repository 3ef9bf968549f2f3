/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.h: descriptors and times of backends that the service thread watches.
 *
 * A watch is named by its callback: (ready, arg). It fires once and then rests until it is watched
 * again, so that a callback decides when it is called next, and a backend that another thread
 * drives at the moment is not disturbed.
 */
#ifndef CONTROL_WATCH_H
#define CONTROL_WATCH_H

#include <stdint.h>

/*
 * The service thread calls ready(arg) once: when fd can be read, or, if fd is -1, when the time has
 * come; in both cases `delay_us` from now at the earliest. Watching again replaces what (ready,
 * arg) waited for. 0, -ENOMEM, or an error of epoll. After control_unwatch, on any other thread
 * than the service thread, `ready` neither runs nor will; the caller holds no lock that `ready`
 * takes.
 */
int control_watch(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg);
/* Makes (ready, arg) known, so that to watch a time does not fail for lack of memory. 0 or -ENOMEM. */
int control_watch_reserve(void (*ready)(void *arg), void *arg);
void control_unwatch(void (*ready)(void *arg), void *arg);

/* Service thread: an event of epoll; when the next one is due, or NO_TIME; what is due, and the
 * memory of those unwatched. */
void watch_event(void *watch);
int64_t watch_next(void);
void watch_run(void);
/* When there is no such thread any more. */
void watch_forget(void);

#endif
