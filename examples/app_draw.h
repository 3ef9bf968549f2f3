/* SPDX-License-Identifier: BSD-3-Clause */
/* app_draw.h: the picture of an application: whether it can be written, before the run, and its file. */
#ifndef EXAMPLES_APP_DRAW_H
#define EXAMPLES_APP_DRAW_H

#include <errno.h>
#include <rpipe.h>
#include <stdio.h>

#include "app.h"
#include "picture.h"

#define APP_OUTPUT(place)                                                                          \
    APP_TEXT("output", 'o', place, NULL, "FILE", "PNG of the result; \"\" for none")

/* Ends the job if the file cannot be written. */
static inline void app_must_be_writable(const char *app, const char *path)
{
    char why[4400];

    if (picture_can_write(path, why, sizeof(why)) != 0) {
        fprintf(stderr, "%s: %s\n", app, why);
        network_abort(2);
    }
}

/* Writes and destroys the picture. Returns an exit status: 0 also if there is no libpng. */
static inline int app_write_picture(const char *app, struct picture *p, const char *path)
{
    char why[4400];
    int code = picture_write(p, path, why, sizeof(why));

    if (code != 0)
        fprintf(stderr, "%s: %s\n", app, why);
    else if (!app_options.json)
        printf("%s: picture: %s\n", app, path);
    picture_destroy(p);
    return code != 0 && code != -ENOTSUP;
}

#endif
