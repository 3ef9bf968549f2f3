/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * picture.c: pixels, and libpng's one-call interface to write them, see picture.h.
 *
 * The file is written beside its name and renamed, so the name never refers to an incomplete
 * picture.
 */
#include "picture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_PNG
#include <png.h>
#endif

int picture_create(struct picture *p, int width, int height, uint32_t background)
{
    p->width = width;
    p->height = height;
    p->rgb = calloc((size_t)width * (size_t)height, 3);
    if (p->rgb == NULL)
        return -ENOMEM;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            picture_mix(p, x, y, background, 1.0);
    return 0;
}

void picture_destroy(struct picture *p)
{
    free(p->rgb);
    p->rgb = NULL;
}

static uint8_t mix(double from, double to, double share)
{
    return (uint8_t)(from + (to - from) * share + 0.5);
}

static double channel(uint32_t colour, int shift) { return (double)(colour >> shift & 0xff); }

uint32_t picture_heat_colour(double temperature)
{
    /* of steadily growing lightness, so that it reads in grey too */
    static const uint32_t stops[] = {0x050718, 0x1b1147, 0x4d1470, 0x861f6e, 0xbd3358,
                                     0xe55a35, 0xf78f1e, 0xfbc84a, 0xfff6c2};
    const int last = (int)(sizeof(stops) / sizeof(stops[0])) - 1;
    double place = temperature <= 0 ? 0 : temperature >= 1 ? last : temperature * last;
    int i = place >= last ? last - 1 : (int)place;
    uint32_t colour = 0;

    for (int shift = 16; shift >= 0; shift -= 8)
        colour |= (uint32_t)mix(channel(stops[i], shift), channel(stops[i + 1], shift), place - i)
                  << shift;
    return colour;
}

void picture_mix(struct picture *p, int x, int y, uint32_t colour, double opacity)
{
    uint8_t *pixel;

    if (x < 0 || y < 0 || x >= p->width || y >= p->height)
        return;
    pixel = p->rgb + ((size_t)y * (size_t)p->width + (size_t)x) * 3;
    for (int i = 0; i < 3; i++)
        pixel[i] = mix(pixel[i], channel(colour, 16 - 8 * i), opacity);
}

int picture_can_write(const char *path, char *why, unsigned why_bytes)
{
    char beside[4096];
    int code;
    FILE *f;

    if (*path == '\0')
        return 0;
    snprintf(beside, sizeof(beside), "%s.part", path);
    f = fopen(beside, "wb");
    if (f == NULL) {
        code = -errno;
        snprintf(why, why_bytes, "%s cannot be written: %s", path, strerror(-code));
        return code;
    }
    fclose(f);
    remove(beside);
    return 0;
}

#ifdef HAVE_PNG
int picture_write(const struct picture *p, const char *path, char *why, unsigned why_bytes)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB};
    char *beside = NULL;
    int code = 0;

    image.width = (png_uint_32)p->width;
    image.height = (png_uint_32)p->height;
    if (asprintf(&beside, "%s.part", path) < 0) {
        snprintf(why, why_bytes, "%s was not written: no memory", path);
        return -ENOMEM;
    }
    if (!png_image_write_to_file(&image, beside, 0, p->rgb, 0, NULL)) {
        snprintf(why, why_bytes, "%s was not written: %s", beside, image.message);
        code = -EIO;
    } else if (rename(beside, path) != 0) {
        code = -errno;
        snprintf(why, why_bytes, "%s cannot be renamed to %s: %s", beside, path, strerror(-code));
    }
    if (code != 0)
        remove(beside);
    free(beside);
    return code;
}
#else
int picture_write(const struct picture *p, const char *path, char *why, unsigned why_bytes)
{
    (void)p;
    snprintf(why, why_bytes,
             "%s was not written: this program was built without libpng (Debian: libpng-dev)",
             path);
    return -ENOTSUP;
}
#endif
