/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks.h: what the control network calls in the layers above, and what any layer may ask. All
 * hooks run on the service thread, with no lock held.
 */
#ifndef CONTROL_HOOKS_H
#define CONTROL_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_BODY_MAX 65536 /* bytes of one message */
#define CONTROL_FDS_MAX 8      /* descriptors of one message */
#define CONTROL_TYPE_USER 64   /* lower types belong to the control network */

enum control_end { PEER_LEFT, PEER_DIED };

struct control_hooks {
    /* A message of type >= CONTROL_TYPE_USER. The descriptors become the hook's: it keeps or
     * closes every one. A descriptor for which this process had no number left (RLIMIT_NOFILE)
     * is -1. 0; -ENOMEM: it is delivered again, 20 ms later: only where no descriptors came with
     * it. */
    int (*message)(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                   int nfds);
    /* No message of this peer follows: it called control_stop() (PEER_LEFT), or it is dead or
     * unreachable (PEER_DIED). Once per peer; `reason` is an error message. */
    void (*peer_gone)(int peer, enum control_end end, const char *reason);
    /* While control_set_ticking(true): at least every 50 ms. */
    void (*tick)(void);
    /* This peer is in rexit: it opens nothing any more, and what it had posted before has been
     * delivered. Once per peer, before peer_gone. NULL: no hook. */
    void (*peer_exiting)(int peer);
};

bool control_running(void);
bool control_on_service_thread(void);
/* Whether the peer is registered for, and able to issue, membarrier GLOBAL_EXPEDITED; and this
 * process. */
bool control_peer_membarrier(int peer);
bool control_membarrier(void);
/* "rank 3": how every message names a peer. The buffer is of this thread, and valid until the
 * second next call. */
const char *control_peer_name(int peer);

#endif
