/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * picture.h: a small canvas of RGB pixels that becomes a PNG file.
 *
 * Coordinates beyond the canvas are ignored, so that callers need not clip.
 */
#ifndef EXAMPLES_PICTURE_H
#define EXAMPLES_PICTURE_H

#include <stdint.h>

struct picture {
    int width, height;
    uint8_t *rgb; /* width * height * 3, from the top left */
};

int picture_create(struct picture *p, int width, int height,
                   uint32_t background); /* 0 or -ENOMEM */
void picture_destroy(struct picture *p);

/*
 * 0xRRGGBB of a temperature from 0 (cold) to 1 (hot): from
 * midnight blue over violet and red to a pale yellow.
 */
uint32_t picture_heat_colour(double temperature);
/* Mixes a colour into what is there; opacity 0..1. */
void picture_mix(struct picture *p, int x, int y, uint32_t colour, double opacity);

/*
 * Whether a file can be written there, before a run of hours; an empty path can. 0, or negative,
 * and then `why` has the reason.
 */
int picture_can_write(const char *path, char *why, unsigned why_bytes);
/* 0, or negative, and then `why` has the reason. */
int picture_write(const struct picture *p, const char *path, char *why, unsigned why_bytes);

#endif
