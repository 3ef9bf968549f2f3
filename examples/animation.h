/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * animation.h: pictures of temperatures, one after the other, in an animated PNG.
 *
 * An APNG is a PNG with more pictures in chunks that others ignore: browsers play it, everything
 * else shows the first picture. The file grows picture by picture, beside its name, and is renamed
 * at the end.
 */
#ifndef EXAMPLES_ANIMATION_H
#define EXAMPLES_ANIMATION_H

struct animation; /* one that is being written */

/* Pictures of width x height, each shown for ms. NULL: failed, and `why` has the reason. */
struct animation *animation_begin(const char *path, int width, int height, int ms, char *why,
                                  unsigned why_bytes);
/* values from 0 (cold) to 1 (hot), row by row. 0 or negative. */
int animation_add(struct animation *a, const float *values);
/* Completes the file and frees `a`. 0, or negative, and then `why` has the reason. */
int animation_end(struct animation *a, char *why, unsigned why_bytes);

#endif
