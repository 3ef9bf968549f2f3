/* SPDX-License-Identifier: BSD-3-Clause */
/* passed_descriptors_wire.c: what passed_descriptors.c needs of the inside of the control network. */
#include "control/state.h"

#include <string.h>

int wire_socket(int peer);
size_t wire_make_frame(uint8_t *to, uint32_t type, const void *body, size_t bytes, int nfds);

int wire_socket(int peer) { return control.peers[peer].out->fd; }

size_t wire_make_frame(uint8_t *to, uint32_t type, const void *body, size_t bytes, int nfds)
{
    const struct wire_frame frame = {.bytes = sizeof(frame),
                                     .magic = WIRE_FRAME_MAGIC,
                                     .type = (uint16_t)type,
                                     .nfds = (uint16_t)nfds,
                                     .body_bytes = (uint32_t)bytes};

    memset(to, 0, wire_frame_bytes(&frame));
    memcpy(to, &frame, sizeof(frame));
    memcpy(to + sizeof(frame), body, bytes);
    return wire_frame_bytes(&frame);
}
