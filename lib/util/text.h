/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h: text that came from a peer, for a terminal: without control characters.
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
