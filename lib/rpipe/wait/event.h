/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.h: event mode: a descriptor that is readable when rread would not wait (event.c).
 * doc/protocol.md, model/event.pml. Its messages are in event_message.h.
 */
#ifndef RPIPE_WAIT_EVENT_H
#define RPIPE_WAIT_EVENT_H

#include "rpipe/end/rch.h"

/*
 * Reader: no message is there. True if one has arrived meanwhile; then the descriptor has been made readable again. The
 * caller checks every other condition that signals, state bits too, once more afterwards: their signals are drained as well.
 */
bool event_drain(struct rch *ch, bool joined);
/* The end is being closed: closes its descriptors. Rendezvous lock held. */
void event_close(struct rch *ch);

#endif
