/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_codes.h: what calls with a pipe may return, whatever its other end stores and sends. */
#ifndef TEST_FAULTS_PEER_CODES_H
#define TEST_FAULTS_PEER_CODES_H

#include "test/lib/check.h"

static inline bool peer_may_cause(int rc)
{
    /* -EUCLEAN: it writes behind a message of a process with RMALLOC_DEBUG=1 */
    static const int codes[] = {0,        R_EOF,    -EPROTO, -ETIMEDOUT, -EPIPE,  -ECONNRESET,
                                -ENOBUFS, -ENOMEM,  -ENOSPC, -EMSGSIZE,  -EAGAIN, -EIO,
                                -ENOTSUP, -EUCLEAN, -EMFILE, -ENFILE};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i] == rc)
            return true;
    return false;
}

/* The message of a pipe that has failed: for people, and safe to print. */
static inline bool peer_explained(const char *error_message)
{
    return strlen(error_message) > 30 && strpbrk(error_message, "\033\n\r") == NULL;
}

#endif
