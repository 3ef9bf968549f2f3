/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.h: the memory of the process at the other end of a link, where the kernel lets both access each other's (rwindow(3), way "cross").
 *
 * When a link over shared memory is open, each end sends a handle of its whole address space (WINDOW). The peer attaches it, which
 * fails where the kernel does not permit the access. Then it sends memory for the cells of its own sends (CELLS), a block of the pipe
 * that the reader keeps as long as the link exists; both ends address it. An end that has attached the peer's memory and received its
 * cells answers READY. So cells are used only where either end can move a payload alone; elsewhere payloads travel as parts.
 */
#ifndef MSG_WINDOW_H
#define MSG_WINDOW_H

#include "msg/msg.h"

/* The link is open: sends WINDOW, if its pipes are of shared memory. */
void msg_window_offer(struct msg_link *l);
/* WINDOW or CELLS has arrived. NULL, or what is wrong. */
const char *msg_window_arrived(struct msg_link *l, const struct msg_wire *w, const rtaken_t *m);
/* READY has arrived. */
const char *msg_window_ready(struct msg_link *l);
/* The peer must not access the memory of this process any more, nor (buffer.h) a buffer of it: the link has ended. */
void msg_window_close(struct msg_link *l);

#endif
