/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c: see message.h. */
#include "control/message.h"

#include "util/fork_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct message *message_new(uint32_t type, const void *body, size_t bytes, const int *fds, int nfds)
{
    size_t padded = wire_padded(bytes);
    struct message *m = malloc(sizeof(*m) + padded);

    if (m == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    list_init(&m->link);
    m->lent = false;
    m->posted = true;
    m->frame = (struct wire_frame){.bytes = sizeof(m->frame),
                                   .magic = WIRE_FRAME_MAGIC,
                                   .type = (uint16_t)type,
                                   .nfds = (uint16_t)nfds,
                                   .body_bytes = (uint32_t)bytes};
    if (bytes > 0)
        memcpy(m->body, body, bytes);
    memset(m->body + bytes, 0, padded - bytes);
    for (m->nfds = 0; m->nfds < nfds; m->nfds++) {
        int fd = fcntl(fds[m->nfds], F_DUPFD_CLOEXEC, 0);

        if (fd < 0) {
            int saved = errno;

            message_free(m);
            errno = saved;
            return NULL;
        }
        fork_fds_add(fd);
        m->fds[m->nfds] = fd;
    }
    return m;
}

void message_lend(struct message *m, int fd)
{
    m->fds[0] = fd;
    m->nfds = 1;
    m->frame.nfds = 1;
    m->lent = true;
}

void message_drop_fds(struct message *m)
{
    int i;

    for (i = 0; i < m->nfds && !m->lent; i++)
        fork_fds_close(m->fds[i]);
    m->nfds = 0;
}

void message_free(struct message *m)
{
    message_drop_fds(m);
    free(m);
}

size_t message_bytes(const struct message *m) { return wire_frame_bytes(&m->frame); }
