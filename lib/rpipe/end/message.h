/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h: messages between ends, over the control network.
 */
#ifndef RPIPE_END_MESSAGE_H
#define RPIPE_END_MESSAGE_H

#define PROTOCOL_VERSION 3u

enum message_type {
    MESSAGE_HANDSHAKE = 64,
    MESSAGE_CLOSE,
    MESSAGE_FAIL,
    MESSAGE_EVENT_ON,
    MESSAGE_EVENT_ACK,
    MESSAGE_BTL,
    MESSAGE_GROW,
    MESSAGE_GROWN,
    MESSAGE_SIGNAL,
    MESSAGE_ATOMIC,
    MESSAGE_ATOMIC_DONE,
    /* 75, 76: observe/record/trace_clock.h */
};

#endif
