/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_message.c: what the byzantine rank of byzantine.h sends: every control message with random and chosen contents, cut off, doubled,
 * out of order, as a flood; shared memory that cannot be.
 */
#include "byzantine.h"

#include "control/control.h"
#include "observe/record/trace_clock.h"
#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"
#include "rpipe/connect/handshake.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define BODY_MOST 8192
#define NOTE_BYTES 24 /* about memory */
#define HEAD_BYTES sizeof(struct end_message_head)
#define FAIL_BYTES sizeof(struct fail_message)
#define LONG_NOTE_BYTES 72 /* about growth, and about cells */

struct forged {
    uint32_t type;
    size_t bytes;
    int fd; /* -1: none */
    _Alignas(8) unsigned char body[BODY_MOST];
};

static void put32(struct forged *m, size_t at, uint32_t value)
{
    memcpy(m->body + at, &value, sizeof(value));
}
static void put64(struct forged *m, size_t at, uint64_t value)
{
    memcpy(m->body + at, &value, sizeof(value));
}

/* ---- descriptors ---- */

int invalid_memory(uint64_t *random)
{
    static const int seals[] = {0, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW,
                                F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE};
    int fd = memfd_create("byzantine", MFD_CLOEXEC | MFD_ALLOW_SEALING),
        how = (int)(random_draw(random) % 4);
    off_t bytes =
        random_draw(random) % 4 == 0 ? (off_t)1 << 40 : (off_t)(random_draw(random) % 64) << 12;

    if (fd < 0)
        return -1;
    (void)ftruncate(fd, bytes);
    if (bytes < 1 << 20)
        (void)fallocate(fd, 0, 0, bytes);
    (void)fcntl(fd, F_ADD_SEALS, seals[how]);
    return fd;
}

static int invalid_fd(uint64_t *random)
{
    int pair[2];

    switch (random_draw(random) % 4) {
    case 0:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1:
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            return -1;
        close(pair[1]);
        return pair[0];
    default:
        return invalid_memory(random);
    }
}

/* ---- messages ---- */

static struct end_message_head *head_of(struct forged *m)
{
    return (struct end_message_head *)(void *)m->body;
}

/* Names this end, mostly; else another one, of any role and number, or one of the receiver. */
static void name_channel(struct forged *m, const struct rch *ch, uint64_t *random)
{
    struct end_message_head *head = head_of(m);
    uint64_t x = random_draw(random);

    *head = message_head(ch, m->bytes, draw_number(random));
    head->context = (x & 3) != 0   ? ch->cfg.context
                    : (x & 4) != 0 ? x >> 8 & 15
                                   : draw_number(random);
    head->end_number = (x & 24) != 0 ? ch->end.number + (uint32_t)((x >> 5 & 7) == 0)
                                     : (uint32_t)draw_number(random);
    if ((x >> 8 & 7) == 0) {
        head->flags = MESSAGE_OF_RECEIVER;
        head->end_number = ch->end.other;
    }
    if ((x >> 16 & 7) == 0)
        head->bytes = (uint32_t)draw_number(random);
    if ((x >> 20 & 15) == 0)
        head->version = (uint16_t)draw_number(random);
}

static void make_handshake(struct forged *m, const struct rch *ch, uint64_t *random)
{
    const size_t keys = offsetof(struct handshake, ring);
    int n = (int)(random_draw(random) % 4);

    handshake_make(ch, (struct handshake *)(void *)m->body);
    m->bytes = HANDSHAKE_BYTES;
    name_channel(m, ch, random);
    while (n-- > 0) /* words: keys, sizes, roles, the address */
        put32(m, random_draw(random) % (HANDSHAKE_BYTES / 4) * 4, (uint32_t)draw_number(random));
    if (random_draw(random) % 4 == 0)
        put64(m, keys + random_draw(random) % 16 * 8, draw_number(random));
    /* the friend's shared memory, by its id there */
    if (random_draw(random) % 4 == 0)
        put64(m, keys + random_draw(random) % 4 * 32,
              ((uint64_t)(BYZANTINE ^ HONEST) << 40) ^ (1 + random_draw(random) % 32));
}

static void make_note(struct forged *m, const struct rch *ch, uint64_t *random)
{
    static const int codes[] = {-EPROTO, R_PENDING, R_EOF, 0, 5, INT32_MIN, -ENOMEM};
    size_t i;

    m->bytes = m->type == MESSAGE_FAIL ? FAIL_BYTES : HEAD_BYTES;
    name_channel(m, ch, random);
    head_of(m)->role =
        (uint8_t)(random_draw(random) % 8 == 0 ? draw_number(random) : 1 + random_draw(random) % 2);
    head_of(m)->code = codes[random_draw(random) % 7];
    for (i = HEAD_BYTES; i < m->bytes; i++)
        m->body[i] = (unsigned char)random_draw(random);
}

static void make_long_note(struct forged *m, const struct rch *ch, uint64_t *random)
{
    make_note(m, ch, random);
    m->bytes = LONG_NOTE_BYTES;
    if (head_of(m)->bytes == HEAD_BYTES)
        head_of(m)->bytes = LONG_NOTE_BYTES;
    for (size_t at = HEAD_BYTES; at < LONG_NOTE_BYTES; at += 8)
        put64(m, at, draw_number(random));
    if (m->type == MESSAGE_GROW || m->type == MESSAGE_GROWN) {
        head_of(m)->number = 1 + random_draw(random) % 3;
        put64(m, HEAD_BYTES, ch->cfg.heap_bytes << random_draw(random) % 4);
    } else {
        head_of(m)->number = random_draw(random) % 64; /* of a reply */
        put64(m, HEAD_BYTES, random_draw(random) % 7); /* operation, cell */
        put64(m, HEAD_BYTES + 8, random_draw(random) % 66);
    }
}

/* Sent to the shared-memory backend: slabs, and that they are removed; of other ranks too. */
static void make_mapping(struct forged *m, uint64_t *random)
{
    uint64_t x = random_draw(random), id = (x & 1) != 0 ? draw_number(random) : 1 + (x >> 8) % 32;

    put32(m, 0, (uint32_t)((x & 6) == 0 ? draw_number(random) : 1 + (x >> 1 & 1)));
    put32(m, 4, (uint32_t)((x & 8) != 0 ? x >> 4 & 3 : draw_number(random)));
    put64(m, 8, (x & 48) == 0 ? ((uint64_t)(BYZANTINE ^ HONEST) << 40) ^ (1 + (x >> 8) % 32) : id);
    put64(m, 16, (x & 64) != 0 ? draw_number(random) : 4096 * (1 + (x >> 20 & 63)));
    m->bytes = NOTE_BYTES;
    if ((x >> 7 & 1) != 0)
        m->fd = invalid_memory(random);
}

static void make(struct forged *m, const struct rch *ch, uint64_t *random)
{
    static const uint32_t types[] = {
        MESSAGE_HANDSHAKE,   MESSAGE_HANDSHAKE, MESSAGE_CLOSE,       MESSAGE_FAIL,
        MESSAGE_EVENT_ON,    MESSAGE_GROW,      MESSAGE_GROWN,       MESSAGE_SIGNAL,
        MESSAGE_ATOMIC,      MESSAGE_EVENT_ACK, MESSAGE_BTL,         MESSAGE_BTL,
        MESSAGE_ATOMIC_DONE, MESSAGE_CLOCK,     MESSAGE_CLOCK_REPLY, 64 + 30};

    m->type = types[random_draw(random) % (sizeof(types) / sizeof(types[0]))];
    m->fd = -1;
    switch (m->type) {
    case MESSAGE_HANDSHAKE:
        make_handshake(m, ch, random);
        break;
    case MESSAGE_GROW:
    case MESSAGE_GROWN:
    case MESSAGE_ATOMIC:
    case MESSAGE_ATOMIC_DONE:
        make_long_note(m, ch, random);
        break;
    case MESSAGE_BTL:
        make_mapping(m, random);
        break;
    default:
        make_note(m, ch, random);
    }
    if (m->fd < 0 && random_draw(random) % 6 == 0)
        m->fd = invalid_fd(random);
    if (random_draw(random) % 8 == 0) {
        m->bytes = random_draw(random) % (random_draw(random) % 4 == 0 ? BODY_MOST : m->bytes + 8);
        if (m->type != MESSAGE_BTL && random_draw(random) % 2 == 0)
            head_of(m)->bytes = (uint32_t)m->bytes;
    }
}

static void post(const struct forged *m)
{
    if (control_post(VICTIM, m->type, m->body, m->bytes, &m->fd, m->fd >= 0 ? 1 : 0) == -ENOTSUP)
        (void)control_post(VICTIM, m->type, m->body, m->bytes, NULL, 0);
}

void message_attack(rch_t ch, uint64_t *random)
{
    static struct forged m;
    int times = random_draw(random) % 4 == 0 ? 2 : 1;

    make(&m, ch, random);
    while (times-- > 0)
        post(&m);
    if (m.fd >= 0)
        close(m.fd);
}

/* With a number, or an id, that is another each time, or is not. */
void message_flood(rch_t ch, uint64_t *random)
{
    static struct forged m;
    uint64_t x = random_draw(random);

    make(&m, ch, random);
    for (uint32_t i = 0; i < 1000; i++) {
        if ((x & 1) != 0 && m.type == MESSAGE_BTL)
            put32(&m, (size_t)(x >> 1 & 7) * 4, (uint32_t)(x >> 16) + i);
        else if ((x & 3) == 1)
            head_of(&m)->context = (x >> 16) + i;
        else if ((x & 3) == 3)
            head_of(&m)->end_number = (uint32_t)(x >> 16) + i;
        post(&m);
    }
    if (m.fd >= 0)
        close(m.fd);
    (void)control_flush(VICTIM, deadline_in_ms(1000));
}
