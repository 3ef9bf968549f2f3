/* SPDX-License-Identifier: BSD-3-Clause */
/* passed_descriptors_wire.c: what passed_descriptors.c needs of the inside of the control network. */
#include "control/state.h"

int wire_socket(int peer);
int wire_socket(int peer) { return control.peers[peer].out->fd; }
