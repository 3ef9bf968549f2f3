/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_tcp.c: what a peer can send to an end of the sockets backend (doc/tcp.md): frames, most of them nearly valid, in parts, and any
 * bytes; between them transfers of the end, whose answers the peer makes up, memory that is freed, and turns of the service thread.
 * Memory that the peer may not write stays as it is, also around the ranges that transfers return to.
 *
 * One thread: input_turn() is the service thread.
 */
#include "input.h"

#include "btl/tcp/tcp.h"
#include "util/clock.h"
#include "util/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern const struct btl_ops btl_tcp_ops;
#define OPS (&btl_tcp_ops)

enum { PEER = 1, BYTES = 1024, DEPTH = 64, PATIENCE_S = 20 };
enum { HEAP, SOURCE, CELLS, FOREIGN, LOCAL, GONE, MEMORIES };

static const uint32_t access_of[MEMORIES] = {BTL_PEER_WRITES,  BTL_PEER_READS, BTL_PEER_ATOMICS,
                                             BTL_PEER_ATOMICS, BTL_LOCAL,      BTL_PEER_ATOMICS};

/* ---- the surroundings of the backend ---- */

static struct watch {
    int64_t at; /* 0: none */
    void (*ready)(void *arg);
    void *arg;
} watches[8];

static int host_watch(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg)
{
    struct watch *w = watches;

    (void)fd;
    while (w->at != 0 && w < watches + 7)
        w++;
    REQUIRE(w->at == 0);
    *w = (struct watch){clock_now() + delay_us * 1000, ready, arg};
    return 0;
}

static void host_unwatch(void (*ready)(void *arg), void *arg)
{
    for (struct watch *w = watches; w < watches + 8; w++)
        if (w->ready == ready && w->arg == arg)
            w->at = 0;
}

static const char *host_setting(const char *name)
{
    (void)name;
    return "";
}

static void input_turn(void)
{
    for (struct watch *w = watches; w < watches + 8; w++) {
        if (w->at == 0 || w->at > clock_now())
            continue;
        w->at = 0;
        w->ready(w->arg);
    }
}

static struct btl *backend(void)
{
    static const struct btl_host host = {.log_level = LOG_ERROR,
                                         .address = "127.0.0.1",
                                         .setting = host_setting,
                                         .watch = host_watch,
                                         .unwatch = host_unwatch};
    static struct btl *btl;
    struct error err = {""};

    if (btl == NULL)
        REQUIRE(OPS->open(&host, &btl, &err) == 0);
    return btl;
}

/* ---- the two ends ---- */

struct ends {
    struct btl *btl;
    struct btl_connection *connection;
    struct btl_memory memory[MEMORIES];
    struct btl_done done;
    int fd; /* of the peer */
};

static void ends_greet(struct ends *e)
{
    const struct linger reset = {1, 0}; /* or each input leaves a port that waits for a minute */
    struct tcp_greeting greeting = {.magic = TCP_MAGIC};
    struct sockaddr_in to = {.sin_family = AF_INET};
    const int64_t deadline = clock_now() + PATIENCE_S * NS_PER_S;
    struct btl_address address;
    struct error err = {""};
    struct tcp_name name;

    REQUIRE(OPS->connection_open(e->btl, PEER, BTL_ACCEPTS, DEPTH, &e->connection, &address,
                                 &err) == 0);
    memcpy(&name, address.byte, sizeof(name));
    to.sin_port = htons(name.port);
    memcpy(&to.sin_addr, name.address, 4);
    greeting.id = name.id;
    memcpy(greeting.cookie, name.cookie, sizeof(greeting.cookie));
    name.id = 77;
    memcpy(address.byte, &name, sizeof(name));
    REQUIRE(OPS->connection_connect(e->connection, &address, &err) == 0);
    e->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(e->fd >= 0);
    REQUIRE(setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0);
    REQUIRE(connect(e->fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    REQUIRE(send(e->fd, &greeting, sizeof(greeting), MSG_NOSIGNAL) == (ssize_t)sizeof(greeting));
    while (OPS->connection_state(e->connection, &err) == -EAGAIN) {
        (void)OPS->progress_all(e->btl);
        REQUIRE(clock_now() < deadline);
    }
}

static void ends_open(struct ends *e)
{
    struct error err = {""};

    memset(e, 0, sizeof(*e));
    e->btl = backend();
    for (int i = 0; i < MEMORIES; i++) {
        REQUIRE(OPS->alloc(e->btl, i == FOREIGN ? PEER + 1 : PEER, BYTES, access_of[i], false,
                           &e->memory[i], &err) == 0);
        memset(e->memory[i].base, 0x50 + i, BYTES);
    }
    ends_greet(e);
}

static bool ends_untouched(const struct ends *e, int which, size_t from, size_t to)
{
    const uint8_t *byte = e->memory[which].base;

    for (size_t i = from; byte != NULL && i < to; i++)
        if (byte[i] != 0x50 + which)
            return false;
    return true;
}

/* Transfers of this end return to the second quarter of LOCAL. */
static void ends_check(const struct ends *e)
{
    REQUIRE(ends_untouched(e, SOURCE, 0, BYTES));
    REQUIRE(ends_untouched(e, FOREIGN, 0, BYTES));
    REQUIRE(ends_untouched(e, LOCAL, 0, BYTES / 4));
    REQUIRE(ends_untouched(e, LOCAL, BYTES / 2, BYTES));
}

static void ends_close(struct ends *e)
{
    OPS->connection_close(e->connection);
    for (int i = 0; i < MEMORIES; i++)
        OPS->free(e->btl, &e->memory[i]);
    close(e->fd);
}

/* ---- what the peer sends ---- */

static void peer_send(struct ends *e, const void *bytes, size_t n)
{
    (void)!send(e->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The head of a frame, mostly for memory that there is; then so many bytes as it promises, or fewer, or none. */
static void peer_frame(struct input *in, struct ends *e)
{
    static const uint8_t body[BYTES + 64];
    const uint32_t code = input_byte(in), where = input_byte(in), more = input_byte(in);
    uint64_t length = input_word(in), offset = input_word(in);
    const struct btl_key *key = &e->memory[where % MEMORIES].key;
    struct tcp_head h;
    size_t n;

    if ((where & 0x80) != 0) /* near 2^56, or 2^64 */
        length = TCP_LENGTH_MOST - length, offset = UINT64_MAX - offset;
    h = tcp_head_of((enum tcp_code)(code & 0xf), length & TCP_LENGTH_MOST, key->word[KEY_REGION],
                    key->word[KEY_OFFSET] + offset);
    if ((where & 0x40) != 0)
        h.region ^= (uint64_t)input_word(in) << (code & 0x30);
    n = (code & 0xf) == TCP_SLOT     ? TCP_SLOT_BYTES
        : (code & 0xf) == TCP_ATOMIC ? 16
                                     : length % sizeof(body);
    peer_send(e, &h, more == 255 ? sizeof(h) / 2 : sizeof(h));
    if (more < 128)
        peer_send(e, body, n - n * more / 128);
}

static void peer_bytes(struct input *in, struct ends *e)
{
    size_t n = input_byte(in);

    if (n > (size_t)(in->end - in->at))
        n = (size_t)(in->end - in->at);
    if (n > 0)
        peer_send(e, in->at, n);
    in->at += n;
}

static void peer_receive(struct ends *e)
{
    char bytes[4096];

    (void)!recv(e->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
}

/* ---- what the end does ---- */

static void end_transfer(struct input *in, struct ends *e)
{
    const uint32_t what = input_byte(in), bytes = input_byte(in);
    struct btl_remote remote = {.bytes = BYTES, .mapping = e->btl};
    struct btl_transfer t = {&remote, 0, &e->memory[LOCAL], BYTES / 4, bytes};
    int rc;

    switch (what % 4) {
    case 0:
        rc = OPS->get(e->connection, &t, &e->done);
        break;
    case 1:
        rc = OPS->atomic(e->connection, (int)(bytes % 6), &t, 1, 2, &e->done);
        break;
    case 2:
        t.offset = 0;
        rc = OPS->write(e->connection, &t, NULL);
        break;
    default:
        rc = OPS->flush(e->connection);
    }
    REQUIRE(rc == 0 || rc == -EAGAIN ||
            rc == OPS->connection_state(e->connection, &(struct error){""}));
}

static void end_progress(struct ends *e)
{
    const int rc = OPS->progress(e->connection);

    REQUIRE(rc <= 0 && rc != -EAGAIN);
    REQUIRE(rc == 0 || atomic_load(&e->done.pending) == 0); /* rule 12 of btl.h */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct ends e;

    ends_open(&e);
    while (!input_is_empty(&in)) {
        const uint32_t what = input_byte(&in);

        switch (what % 8) {
        case 0:
        case 1:
            peer_frame(&in, &e);
            break;
        case 2:
            peer_bytes(&in, &e);
            break;
        case 3:
            end_transfer(&in, &e);
            break;
        case 4:
            OPS->free(e.btl, &e.memory[GONE]);
            break;
        case 5:
            peer_receive(&e);
            break;
        case 6:
            input_turn();
            break;
        default:
            break;
        }
        if ((what & 0x80) == 0)
            end_progress(&e);
        ends_check(&e);
    }
    for (int i = 0; i < 3; i++)
        end_progress(&e);
    ends_check(&e);
    ends_close(&e);
    return 0;
}
