/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pass_last.h: passes a descriptor whose last close waits (lingering.h), so that the receiver has the last one.
 *
 * The receiver may close its own before the sender does, whose close waits then. So a thread passes and closes; where it does not
 * come back another descriptor is passed.
 */
#ifndef TEST_LIB_PASS_LAST_H
#define TEST_LIB_PASS_LAST_H

#include "test/lib/lingering.h"

#include "util/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PASS_MS 2000 /* until a close is taken for one that waits */
#define PASS_TRIES 8

/* Bytes that a thread passes with n times a descriptor, of which it then closes its own. */
struct passing {
    int socket, fd, n;
    size_t bytes;
    uint8_t what[1024];
    _Atomic int result; /* 1: not done yet */
};

static inline void *pass_and_close(void *of)
{
    struct passing *p = of;
    int rc = pass_descriptor(p->socket, p->what, p->bytes, p->fd, p->n);

    if (rc == 0)
        close(p->fd);
    atomic_store(&p->result, rc);
    return NULL;
}

/* Bytes with n times a descriptor whose last close waits. 0: the receiver has the last one; -errno: it is refused; 1: the receiver was
 * faster, and the thread is left in its close. The other end of its connection is open as long as this process is. */
static inline int pass_last_once(int socket, const void *what, size_t bytes, int n)
{
    struct passing *p = calloc(1, sizeof(*p));
    int64_t patience = deadline_in_ms(PASS_MS);
    pthread_t thread;
    int other, rc;

    REQUIRE(p != NULL && bytes <= sizeof(p->what));
    *p = (struct passing){
        .socket = socket, .fd = lingering_socket(&other), .n = n, .bytes = bytes, .result = 1};
    memcpy(p->what, what, bytes);
    REQUIRE(pthread_create(&thread, NULL, pass_and_close, p) == 0);
    while (atomic_load(&p->result) == 1 && !deadline_passed(patience))
        usleep(100);
    rc = atomic_load(&p->result);
    if (rc == 1) {
        pthread_detach(thread);
        return 1;
    }
    pthread_join(thread, NULL);
    free(p);
    return rc;
}

/* The same through one socket, until the receiver has the last one, or refuses it: 0, or -errno. */
static inline int pass_last(int socket, const void *what, size_t bytes, int n)
{
    int rc = 1;

    for (int tries = 0; tries < PASS_TRIES && rc == 1; tries++)
        rc = pass_last_once(socket, what, bytes, n);
    REQUIRE(rc != 1);
    return rc;
}

#endif
