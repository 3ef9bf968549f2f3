/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct.h: large payloads over a network, from the buffer of the send to that of the receive, without a copy on the way.
 *
 *     receive first    its RTR names a window of its buffer. The sender writes into it, then sends WRITTEN
 *     send first       its RTS names a window of its buffer. The receiver fetches from it, then sends FIN. If the RTS names none, the
 *                      CTS names one of the buffer of the receive, and the sender writes
 *
 * Which side moves a payload follows from places.h and from the RTS: one that names a window is fetched, and the sender ignores an RTR for it;
 * else a receive that is advertised gets its payload from the sender, and any other one requests it. A transfer is posted in fragments, and the last one has a word that the network sets. So the sender of a write and
 * the receiver of a fetch make calls, and the other side needs none: its network answers.
 *
 * Invariants (model/direct.pml)
 * 1. A window may be used from the RTR, CTS or RTS that names it until its request is complete. A blocking call that has a deadline
 *    names none: it returns its buffer at the deadline, and cannot wait until the peer has noticed. Over tcp its receives do, and take
 *    the window back then.
 * 2. WRITTEN follows the writes in the order of the pipe: all bytes are in the buffer when it arrives. So does UNDONE, which takes back
 *    an RTR.
 * 3. A send that is written completes when the network does not read its buffer any more: the last fragment is placed, or over tcp the
 *    socket has taken it.
 * 4. A call that gives up posts no more fragments, and waits for those that are posted (DIRECT_STOP_NS). If they are not done
 *    then, the link ends, and its pipe is closed before the call returns.
 */
#ifndef MSG_DIRECT_H
#define MSG_DIRECT_H

#include "msg/msg.h"

/* Posts a fragment of a request that msg_buffer_aim has prepared, or completes it. True: it has done something. May free r. */
bool msg_direct_turn(struct msg_request *r);
/*
 * A blocking call ends before its request, which has a buffer registered: it is complete then, or a receive whose window has been taken
 * back, which the peer completes.
 */
void msg_direct_give_up(struct msg_request *r);

#endif
