/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h: text of a peer's for people: without control characters, which a terminal would obey.
 */
#ifndef UTIL_TEXT_H
#define UTIL_TEXT_H

static inline void text_make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

#endif
