/* SPDX-License-Identifier: BSD-3-Clause */
/* md_draw.h: a picture of atoms, at the beginning and at the end, see md_draw.c. */
#ifndef EXAMPLES_MD_DRAW_H
#define EXAMPLES_MD_DRAW_H

#include "md_atoms.h"
#include "picture.h"

/* table: all atoms at the end, by number. 0 or -ENOMEM. */
int md_draw(const struct md_part *p, const struct md_atom *table, struct picture *picture);

#endif
