/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_wire.c: what the byzantine rank of byzantine.h does below the messages: invalid frames and chunks, after which it is cut off;
 * greetings in the name of another rank; and that it is dead, while it goes on.
 */
#include "byzantine.h"

#include "control/endpoint.h"
#include "control/lane.h"
#include "control/liveness.h"
#include "control/control.h"
#include "control/state.h"

#include <sys/socket.h>

/* ---- frames ---- */

/* Into the connection that the control network has, past its service thread. */
static void send_raw(const void *bytes, size_t n, const int *fds, int nfds)
{
    struct connection *c = control.peers[VICTIM].out;
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * 16)];
    } space = {.head = {0}};
    struct iovec iov = {(void *)(uintptr_t)bytes, n};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

    if (c == NULL || c->fd < 0)
        return;
    if (nfds > 0 && c->is_unix) {
        header.msg_control = space.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
        space.head.cmsg_level = SOL_SOCKET;
        space.head.cmsg_type = SCM_RIGHTS;
        space.head.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
        memcpy(CMSG_DATA(&space.head), fds, sizeof(int) * (size_t)nfds);
    }
    (void)sendmsg(c->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void breach_frame(uint64_t *random)
{
    struct wire_frame frame = {.bytes = sizeof(frame),
                               .magic = WIRE_FRAME_MAGIC,
                               .type = (uint16_t)(random_draw(random) % 100)};
    unsigned char junk[4000];
    int fds[16];
    size_t i;

    for (i = 0; i < sizeof(junk); i++)
        junk[i] = (unsigned char)random_draw(random);
    for (i = 0; i < 16; i++)
        fds[i] = STDIN_FILENO;
    switch (random_draw(random) % 7) {
    case 6: /* a header of an impossible length */
        frame.bytes = (uint32_t)draw_number(random);
        send_raw(&frame, sizeof(frame), NULL, 0);
        break;
    case 0: /* no frame */
        send_raw(junk, 1 + random_draw(random) % sizeof(junk), NULL, 0);
        break;
    case 1: /* longer than any */
        frame.body_bytes = random_draw(random) % 2 == 0 ? CONTROL_BODY_MAX + 1 : UINT32_MAX;
        send_raw(&frame, sizeof(frame), NULL, 0);
        break;
    case 2: /* descriptors that did not come */
        frame.nfds = (uint16_t)(random_draw(random) % 20);
        send_raw(&frame, sizeof(frame), NULL, 0);
        break;
    case 3: /* descriptors without a message */
        send_raw(&frame, sizeof(frame), fds, 1 + (int)(random_draw(random) % 8));
        break;
    case 4: /* more than may come */
        send_raw(&frame, sizeof(frame), fds, 16);
        break;
    default: /* a message that never ends */
        frame.body_bytes = CONTROL_BODY_MAX;
        frame.type = CONTROL_TYPE_USER;
        send_raw(&frame, sizeof(frame), NULL, 0);
    }
}

/* Chunks of messages of network_send, barriers, allgathers. */
static void breach_piece(uint64_t *random)
{
    unsigned char body[200] = {0};
    struct chunk chunk = {.bytes = random_draw(random) % 8 == 0 ? (uint32_t)draw_number(random)
                                                                : (uint32_t)sizeof(chunk),
                          .lane = (uint16_t)(random_draw(random) % 3),
                          .kind = (uint16_t)(random_draw(random) % 5),
                          .flags = (uint32_t)(random_draw(random) % 3),
                          .code = (int32_t)(random_draw(random) % 3) - 1,
                          .total = draw_number(random),
                          .offset = random_draw(random) % 2 == 0 ? 0 : draw_number(random)};
    struct ack ack = {sizeof(ack), (uint32_t)(random_draw(random) % 3), draw_number(random)};
    size_t bytes = sizeof(chunk) + random_draw(random) % 100;

    memcpy(body, &chunk, sizeof(chunk));
    if (random_draw(random) % 2 == 0)
        (void)control_post(VICTIM, WIRE_CHUNK, body,
                           random_draw(random) % 4 == 0 ? random_draw(random) % 60 : bytes, NULL,
                           0);
    else
        (void)control_post(VICTIM, WIRE_ACK, &ack, random_draw(random) % 4 == 0 ? 3 : sizeof(ack),
                           NULL, 0);
}

void wire_breach(uint64_t *random)
{
    uint64_t x = random_draw(random);

    if ((x & 7) == 0) { /* "I am dead", from a process that goes on sending */
        atomic_store((_Atomic uint32_t *)(uintptr_t)liveness_word(), (uint32_t)draw_number(random));
        return;
    }
    for (int i = 0; i < 8 && (x & 8) != 0; i++)
        breach_piece(random);
    for (int i = 0; i < 3; i++)
        breach_frame(random);
    (void)control_flush(VICTIM, deadline_in_ms(200));
}

/* ---- greetings ---- */

static void greet(int fd, const struct wire_hello *hello, uint32_t type, int life)
{
    struct {
        struct wire_frame frame;
        struct wire_hello hello;
    } g = {{.bytes = sizeof(g.frame),
            .magic = WIRE_FRAME_MAGIC,
            .type = (uint16_t)type,
            .nfds = life >= 0,
            .body_bytes = sizeof(*hello)},
           *hello};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } space = {.head = {0}};
    struct iovec iov = {&g, sizeof(g)};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = life >= 0 ? space.bytes : NULL,
                            .msg_controllen = life >= 0 ? sizeof(space.bytes) : 0};

    space.head.cmsg_level = SOL_SOCKET;
    space.head.cmsg_type = SCM_RIGHTS;
    space.head.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&space.head), &life, sizeof(int));
    (void)sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void wire_impostor(uint64_t *random)
{
    struct error err = {""};
    const struct card *card = peer_card(VICTIM, deadline_in_ms(1000), &err);
    const struct card *friend_card = peer_card(HONEST, deadline_in_ms(1000), &err);
    int i;

    for (i = 0; card != NULL && i < 8; i++) {
        struct wire_hello hello = {
            .bytes = random_draw(random) % 8 == 0 ? (uint32_t)draw_number(random)
                                                  : (uint32_t)sizeof(hello),
            .versions = {CONTROL_VERSION_OLDEST,
                         (uint16_t)(CONTROL_VERSION_NEWEST + (random_draw(random) % 8 == 0))},
            .magic = WIRE_HELLO_MAGIC,
            .window = {LANE_WINDOW_BYTES, LANE_WINDOW_BYTES},
            .from = random_draw(random) % 8 == 0 ? (uint32_t)draw_number(random) : HONEST,
            .to = random_draw(random) % 8 == 0 ? (uint32_t)draw_number(random) : VICTIM,
            .flags = (uint32_t)random_draw(random)};
        int life = random_draw(random) % 2 == 0 ? invalid_memory(random) : -1, fd;
        bool done;

        memcpy(hello.cookie, card->cookie, COOKIE_BYTES);
        if (friend_card != NULL)
            memcpy(hello.process_id, friend_card->process_id, PROCESS_ID_BYTES);
        fd = endpoint_dial_unix(card, &done);
        if (fd >= 0)
            greet(fd, &hello, random_draw(random) % 8 == 0 ? WIRE_WELCOME : WIRE_HELLO, life);
        if (life >= 0)
            close(life);
        /* the connections stay, as long as this process */
    }
}
