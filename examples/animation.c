/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * animation.c: an animated PNG out of PNGs that libpng makes, see animation.h.
 *
 * libpng encodes each picture to memory, as a PNG with a palette. The first one gives signature,
 * IHDR and PLTE; of the others only the IDAT chunks are taken, which become fdAT: the same bytes
 * behind a sequence number, with a CRC of their own. The number of pictures stands at the
 * beginning, in acTL, and is written again at the end, when it is known.
 */
#include "animation.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"

#ifdef HAVE_PNG
#include <png.h>

#define COLOURS 256
#define SIGNATURE_BYTES 8
#define CHUNK_BYTES 12 /* of a chunk beside its data: length, type, CRC */

struct animation {
    FILE *file;
    char *path, *beside;
    int width, height, ms;
    uint32_t frames, sequence;
    long control; /* offset of the chunk acTL */
    bool failed;
    uint8_t *pixels, *encoded;
    size_t room;
    uint8_t colours[COLOURS * 3];
};

static uint32_t crc_of(const void *data, size_t bytes, uint32_t crc)
{
    const uint8_t *at = data;

    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return crc;
}

static void big_endian(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t from_big_endian(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static void put(struct animation *a, const void *data, size_t bytes)
{
    if (bytes > 0 && fwrite(data, bytes, 1, a->file) != 1)
        a->failed = true;
}

/* Writes a chunk whose data are in two buffers. */
static void put_chunk(struct animation *a, const char *type, const void *one, size_t one_bytes,
                      const void *two, size_t two_bytes)
{
    uint8_t head[8], crc[4];

    big_endian(head, (uint32_t)(one_bytes + two_bytes));
    memcpy(head + 4, type, 4);
    big_endian(crc, ~crc_of(two, two_bytes, crc_of(one, one_bytes, crc_of(type, 4, ~0u))));
    put(a, head, sizeof(head));
    put(a, one, one_bytes);
    put(a, two, two_bytes);
    put(a, crc, sizeof(crc));
}

/* How many pictures there are, and that they are repeated for ever. */
static void put_control(struct animation *a, uint32_t frames)
{
    uint8_t control[8];

    big_endian(control, frames);
    big_endian(control + 4, 0);
    put_chunk(a, "acTL", control, sizeof(control), NULL, 0);
}

static void put_frame_control(struct animation *a)
{
    uint8_t control[26] = {0};

    big_endian(control, a->sequence++);
    big_endian(control + 4, (uint32_t)a->width);
    big_endian(control + 8, (uint32_t)a->height);
    control[20] = (uint8_t)(a->ms >> 8); /* the delay is a fraction, ms / 1000 */
    control[21] = (uint8_t)a->ms;
    control[22] = 1000 >> 8;
    control[23] = 1000 & 0xff;
    put_chunk(a, "fcTL", control, sizeof(control), NULL, 0);
}

/*
 * What is taken of a PNG: of the first one all, with acTL
 * behind IHDR and fcTL before the picture; else the picture.
 */
static void put_picture(struct animation *a, size_t bytes)
{
    bool first = a->frames == 0, before = true;
    uint8_t number[4];

    if (first)
        put(a, a->encoded, SIGNATURE_BYTES);
    for (size_t at = SIGNATURE_BYTES; at + CHUNK_BYTES <= bytes;) {
        uint32_t length = from_big_endian(a->encoded + at);
        const char *type = (const char *)a->encoded + at + 4;
        const uint8_t *data = a->encoded + at + 8;
        bool picture = memcmp(type, "IDAT", 4) == 0;

        if (length > bytes - at - CHUNK_BYTES || memcmp(type, "IEND", 4) == 0)
            break;
        if (picture && before) {
            put_frame_control(a);
            before = false;
        }
        if (picture && !first) {
            big_endian(number, a->sequence++);
            put_chunk(a, "fdAT", number, sizeof(number), data, length);
        } else if (first) {
            put_chunk(a, type, data, length, NULL, 0);
        }
        if (first && memcmp(type, "IHDR", 4) == 0) {
            a->control = ftell(a->file);
            put_control(a, 1);
        }
        at += CHUNK_BYTES + length;
    }
    a->frames++;
}

static void animation_free(struct animation *a)
{
    if (a == NULL)
        return;
    if (a->file != NULL)
        fclose(a->file);
    free(a->path);
    free(a->beside);
    free(a->pixels);
    free(a->encoded);
    free(a);
}

struct animation *animation_begin(const char *path, int width, int height, int ms, char *why,
                                  unsigned why_bytes)
{
    struct animation *a = calloc(1, sizeof(*a));
    size_t cells = (size_t)width * (size_t)height;

    if (a == NULL)
        goto no_memory;
    a->width = width;
    a->height = height;
    a->ms = ms;
    a->room = cells * 2 + 65536; /* an incompressible picture, its palette, and what zlib adds */
    a->path = strdup(path);
    if (asprintf(&a->beside, "%s.part", path) < 0)
        a->beside = NULL;
    a->pixels = malloc(cells);
    a->encoded = malloc(a->room);
    if (a->path == NULL || a->beside == NULL || a->pixels == NULL || a->encoded == NULL)
        goto no_memory;
    for (int i = 0; i < COLOURS; i++) {
        uint32_t colour = picture_heat_colour((double)i / (COLOURS - 1));

        for (int k = 0; k < 3; k++)
            a->colours[i * 3 + k] = (uint8_t)(colour >> (16 - 8 * k));
    }
    a->file = fopen(a->beside, "wb");
    if (a->file != NULL)
        return a;
    snprintf(why, why_bytes, "%s cannot be written: %s", a->beside, strerror(errno));
    animation_free(a);
    return NULL;

no_memory:
    snprintf(why, why_bytes, "%s was not written: no memory", path);
    animation_free(a);
    return NULL;
}

int animation_add(struct animation *a, const float *values)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .format = PNG_FORMAT_RGB_COLORMAP,
                       .colormap_entries = COLOURS};
    png_alloc_size_t bytes = a->room;

    image.width = (png_uint_32)a->width;
    image.height = (png_uint_32)a->height;
    for (size_t i = 0; i < (size_t)a->width * (size_t)a->height; i++) {
        float v = values[i] < 0 ? 0 : values[i] > 1 ? 1 : values[i];

        a->pixels[i] = (uint8_t)(v * (COLOURS - 1) + 0.5f);
    }
    if (!png_image_write_to_memory(&image, a->encoded, &bytes, 0, a->pixels, 0, a->colours)) {
        a->failed = true;
        return -EIO;
    }
    put_picture(a, bytes);
    return a->failed ? -EIO : 0;
}

int animation_end(struct animation *a, char *why, unsigned why_bytes)
{
    int code = 0;

    if (a->frames > 0) {
        put_chunk(a, "IEND", NULL, 0, NULL, 0);
        if (fseek(a->file, a->control, SEEK_SET) != 0)
            a->failed = true;
        put_control(a, a->frames);
    }
    if (fclose(a->file) != 0)
        a->failed = true;
    a->file = NULL;
    if (a->failed || a->frames == 0) {
        snprintf(why, why_bytes, "%s was not written: %s", a->path,
                 a->failed ? "an error on the way" : "no frame");
        remove(a->beside);
        code = -EIO;
    } else if (rename(a->beside, a->path) != 0) {
        code = -errno;
        snprintf(why, why_bytes, "%s cannot be renamed to %s: %s", a->beside, a->path,
                 strerror(-code));
        remove(a->beside);
    }
    animation_free(a);
    return code;
}
#else
struct animation *animation_begin(const char *path, int width, int height, int ms, char *why,
                                  unsigned why_bytes)
{
    (void)width, (void)height, (void)ms;
    snprintf(why, why_bytes,
             "%s was not written: this program was built without libpng (Debian: libpng-dev)",
             path);
    return NULL;
}

int animation_add(struct animation *a, const float *values)
{
    (void)a, (void)values;
    return -ENOTSUP;
}

int animation_end(struct animation *a, char *why, unsigned why_bytes)
{
    (void)a;
    snprintf(why, why_bytes, "built without libpng");
    return -ENOTSUP;
}
#endif
