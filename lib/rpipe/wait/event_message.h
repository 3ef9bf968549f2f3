/* SPDX-License-Identifier: BSD-3-Clause */
/* event_message.h: the messages of event mode (event_message.c). */
#ifndef RPIPE_WAIT_EVENT_MESSAGE_H
#define RPIPE_WAIT_EVENT_MESSAGE_H

#include "rpipe/end/rch.h"

void event_register_messages(void);     /* before the service thread starts */
int event_post_request(struct rch *ch); /* reader: passes ch->signal_fd to the writer */
/* Writer, rendezvous lock held: the reader has requested event mode; takes the descriptor over. */
void event_request(struct rch *ch, int fd);

#endif
