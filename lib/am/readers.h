/* SPDX-License-Identifier: BSD-3-Clause */
/* readers.h: the array of pipes that a context reads. */
#ifndef AM_READERS_H
#define AM_READERS_H

#include "am/am.h"

int am_reader_add(struct ram *am, rch_t ch, struct am_out *out,
                  struct am_in *in); /* 0 or -ENOMEM */
void am_reader_remove(struct ram *am, rch_t ch);

#endif
