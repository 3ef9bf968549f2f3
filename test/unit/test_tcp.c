/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_tcp.c: the sockets backend against peers that break the protocol, and processes that are no peers. The other end is a plain
 * socket of this test, which sends what no end of the backend would send. That the backend keeps the rules of btl.h, test/btl/conform tests.
 *
 * One thread: turn() is the service thread.
 */
#include "btl/tcp/tcp.h"

#include "test/lib/descriptor_limit.h"
#include "test/lib/pattern.h"

#include "util/clock.h"
#include "util/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern const struct btl_ops btl_tcp_ops;
#define OPS (&btl_tcp_ops)
#define PATIENCE (20 * NS_PER_S)
#define PEER 1
#define BYTES 4096u
#define DEPTH 64u

/* ---- the surroundings ---- */

static struct watch {
    int fd;
    int64_t at; /* 0: none */
    void (*ready)(void *arg);
    void *arg;
} watches[8];

static int host_watch(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg)
{
    struct watch *w = watches;

    while (w->ready != NULL && (w->ready != ready || w->arg != arg))
        w++;
    assert_true(w < watches + 8);
    *w = (struct watch){fd, clock_now() + delay_us * 1000, ready, arg};
    return 0;
}

static void host_unwatch(void (*ready)(void *arg), void *arg)
{
    for (struct watch *w = watches; w < watches + 8; w++)
        if (w->ready == ready && w->arg == arg)
            *w = (struct watch){.ready = ready, .arg = arg};
}

static const char *timeout_ms = "";

static const char *host_setting(const char *name)
{
    return strcmp(name, "RPIPE_TIMEOUT_MS") == 0     ? timeout_ms
           : strcmp(name, "RPIPE_KEEPALIVE_MS") == 0 ? "20000"
                                                     : "";
}

/* What the service thread does. */
static void turn(void)
{
    for (struct watch *w = watches; w < watches + 8; w++) {
        struct pollfd p = {w->fd, POLLIN, 0};

        if (w->at == 0 || w->at > clock_now() || (w->fd >= 0 && poll(&p, 1, 0) != 1))
            continue;
        w->at = 0;
        w->ready(w->arg);
    }
}

static struct btl *btl;
static int failed;
static void connection_failed(void) { failed++; }

static int open_backend(void **state)
{
    static const struct btl_host host = {.log_level = LOG_ERROR,
                                         .address = "127.0.0.1",
                                         .setting = host_setting,
                                         .watch = host_watch,
                                         .unwatch = host_unwatch,
                                         .connection_failed = connection_failed};
    struct error err = {""};

    (void)state;
    memset(watches, 0, sizeof(watches));
    failed = 0;
    return OPS->open(&host, &btl, &err);
}

static int close_backend(void **state)
{
    (void)state;
    OPS->close(btl);
    return 0;
}

/* ---- a peer that is a plain socket ---- */

struct peer {
    struct btl_connection *connection;
    struct tcp_name name; /* of the connection */
    int fd;
    struct btl_memory heap;    /* BTL_PEER_WRITES, filled with 0x5a */
    struct btl_memory source;  /* BTL_PEER_READS, pattern 7 */
    struct btl_memory cells;   /* BTL_PEER_ATOMICS */
    struct btl_memory foreign; /* of another rank */
};

static struct btl_memory memory(int rank, uint32_t access)
{
    struct btl_memory m = {0};
    struct error err = {""};

    assert_int_equal(OPS->alloc(btl, rank, BYTES, access, false, &m, &err), 0);
    memset(m.base, 0x5a, BYTES);
    return m;
}

static int dial(const struct tcp_name *name)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(name->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(&to.sin_addr, name->address, 4);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t n)
{
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
}

static void greet(int fd, const struct tcp_name *name)
{
    struct tcp_greeting greeting = {.magic = TCP_MAGIC, .id = name->id};

    memcpy(greeting.cookie, name->cookie, sizeof(greeting.cookie));
    say(fd, &greeting, sizeof(greeting));
}

/* Receives exactly this many bytes; false: the connection has ended. */
static bool hear(int fd, void *bytes, size_t n)
{
    const int64_t deadline = clock_now() + PATIENCE;
    size_t have = 0;

    while (have < n) {
        ssize_t part = recv(fd, (char *)bytes + have, n - have, MSG_DONTWAIT);

        assert_true(clock_now() < deadline);
        if (part == 0 || (part < 0 && errno != EAGAIN))
            return false;
        have += part > 0 ? (size_t)part : 0;
        turn();
        (void)OPS->progress_all(btl);
    }
    return true;
}

static struct btl_stream *stream_of_ends; /* of those that are opened; NULL: none */

static void open_end(struct peer *p, struct btl_address *address)
{
    struct error err = {""};

    memset(p, 0, sizeof(*p));
    p->fd = -1;
    assert_int_equal(
        OPS->connection_open(btl, PEER, BTL_ACCEPTS, DEPTH, &p->connection, address, &err), 0);
    if (stream_of_ends != NULL)
        OPS->connection_join(p->connection, stream_of_ends, address);
    memcpy(&p->name, address->byte, sizeof(p->name));
}

/* The address of an end that only this test has. */
static struct btl_address own_address(const struct peer *p)
{
    struct tcp_name name = p->name;
    struct btl_address address = {.bytes = sizeof(name)};

    name.id = 77;
    memset(name.cookie, 7, sizeof(name.cookie));
    memcpy(address.byte, &name, sizeof(name));
    return address;
}

static void peer_up(struct peer *p)
{
    struct tcp_greeting answer;
    struct btl_address address;
    struct error err = {""};

    open_end(p, &address);
    p->heap = memory(PEER, BTL_PEER_WRITES);
    p->source = memory(PEER, BTL_PEER_READS);
    pattern_fill(p->source.base, BYTES, 7);
    p->cells = memory(PEER, BTL_PEER_ATOMICS);
    memset(p->cells.base, 0, BYTES);
    p->foreign = memory(PEER + 1, BTL_PEER_ATOMICS);
    address = own_address(p);
    assert_int_equal(OPS->connection_connect(p->connection, &address, &err), 0);
    p->fd = dial(&p->name);
    greet(p->fd, &p->name);
    assert_true(hear(p->fd, &answer, sizeof(answer)));
    assert_true(answer.magic == TCP_MAGIC && answer.id == 77 && answer.cookie[31] == 7);
    assert_int_equal(OPS->connection_state(p->connection, &err), 0);
}

static void peer_down(struct peer *p)
{
    OPS->connection_close(p->connection);
    OPS->free(btl, &p->heap);
    OPS->free(btl, &p->source);
    OPS->free(btl, &p->cells);
    OPS->free(btl, &p->foreign);
    if (p->fd >= 0)
        close(p->fd);
}

static struct tcp_head head(enum tcp_code code, uint64_t length, const struct btl_memory *m,
                            uint64_t offset)
{
    return m == NULL ? tcp_head_of(code, length, 0, offset)
                     : tcp_head_of(code, length, m->key.word[KEY_REGION],
                                   m->key.word[KEY_OFFSET] + offset);
}

static bool untouched(const struct btl_memory *m)
{
    const uint8_t *byte = m->base;

    for (size_t i = 0; i < BYTES; i++)
        if (byte[i] != 0x5a)
            return false;
    return true;
}

/* The connection fails, with an error message that contains these words. */
static void must_fail(struct peer *p, const char *words)
{
    const int64_t deadline = clock_now() + PATIENCE;
    struct error err = {""};
    char bytes[4096];

    while (OPS->progress(p->connection) == 0) {
        turn();
        assert_true(clock_now() < deadline);
    }
    assert_int_equal(OPS->connection_state(p->connection, &err), -EIO);
    if (strstr(err.text, words) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", err.text, words);
    assert_true(failed > 0);
    while (recv(p->fd, bytes, sizeof(bytes), 0) > 0) /* the socket has been closed */
        ;
}

/* ---- frames that are refused ---- */

/* One frame on a connection of its own; `more` bytes behind the head. */
static void refused(struct tcp_head h, size_t more, const char *words)
{
    uint8_t rest[TCP_SLOT_BYTES] = {0};
    struct peer p;

    peer_up(&p);
    say(p.fd, &h, sizeof(h));
    if (more > 0)
        say(p.fd, rest, more);
    must_fail(&p, words);
    peer_down(&p);
}

#define NO_MEMORY "names no memory"

static void test_frames_outside_of_their_memory_are_refused(void **state)
{
    struct btl_memory heap, source, cells, foreign, local, gone;

    (void)state;
    heap = memory(PEER, BTL_PEER_WRITES);
    source = memory(PEER, BTL_PEER_READS);
    cells = memory(PEER, BTL_PEER_ATOMICS);
    foreign = memory(PEER + 1, BTL_PEER_ATOMICS);
    local = memory(PEER, BTL_LOCAL);
    gone = memory(PEER, BTL_PEER_ATOMICS);
    OPS->free(btl, &gone); /* its key stays */
    refused(head(TCP_PUT, BYTES, &heap, 1), 8, NO_MEMORY);
    refused(head(TCP_PUT, 8, &heap, UINT64_MAX - 7), 8, NO_MEMORY);
    refused(head(TCP_PUT, TCP_LENGTH_MOST, &heap, 0), 8, NO_MEMORY);
    refused(head(TCP_PUT, 0, &heap, 0), 0, NO_MEMORY);
    refused(head(TCP_PUT, 8, &source, 0), 8, NO_MEMORY);
    refused(head(TCP_PUT, 8, &foreign, 0), 8, NO_MEMORY);
    refused(head(TCP_PUT, 8, &gone, 0), 8, NO_MEMORY);
    refused(head(TCP_PUT, 8, &local, 0), 8, NO_MEMORY);
    refused(tcp_head_of(TCP_PUT, 8, heap.key.word[KEY_REGION] + (UINT64_C(1) << 32), 0), 8,
            NO_MEMORY);
    refused(tcp_head_of(TCP_PUT, 8, UINT32_MAX, 0), 8, NO_MEMORY);
    refused(head(TCP_SLOT, 64, &heap, BYTES - 32), 64, NO_MEMORY);
    refused(head(TCP_SLOT, 64, &source, 0), 64, NO_MEMORY);
    refused(head(TCP_SLOT, 64, &heap, 4), 64, "not aligned");
    refused(head(TCP_GET, 8, &heap, 0), 0, NO_MEMORY);
    refused(head(TCP_GET, 8, &foreign, 0), 0, NO_MEMORY);
    refused(head(TCP_GET, BYTES, &source, 8), 0, NO_MEMORY);
    refused(head(TCP_GET, 0, &source, 0), 0, NO_MEMORY);
    refused(head(TCP_GET, 8, &gone, 0), 0, NO_MEMORY);
    refused(head(TCP_ATOMIC, BTL_ATOMIC_ADD, &heap, 0), 16, NO_MEMORY);
    refused(head(TCP_ATOMIC, BTL_ATOMIC_ADD, &cells, BYTES - 4), 16, NO_MEMORY);
    refused(head(TCP_ATOMIC, BTL_ATOMIC_ADD, &cells, 4), 16, "not aligned");
    refused(head(TCP_ATOMIC, 6, &cells, 0), 16, "no such atomic");
    assert_true(untouched(&heap) && untouched(&source) && untouched(&cells) &&
                untouched(&foreign) && untouched(&local));
    OPS->free(btl, &heap);
    OPS->free(btl, &source);
    OPS->free(btl, &cells);
    OPS->free(btl, &foreign);
    OPS->free(btl, &local);
}

static void test_frames_that_nothing_asked_for_are_refused(void **state)
{
    (void)state;
    refused(head(TCP_DATA, 8, NULL, 0), 8, "was not made");
    refused(head(TCP_VALUE, 0, NULL, 0), 0, "was not made");
    refused(head(TCP_PLACED, 0, NULL, 0), 0, "was not made");
    refused(tcp_head_of((enum tcp_code)0, 0, 0, 0), 0, "no such operation");
    refused(tcp_head_of((enum tcp_code)9, 0, 0, 0), 0, "no such operation");
    refused(tcp_head_of((enum tcp_code)255, 0, 0, 0), 0, "no such operation");
}

/* The answer to a get of another length, or to something else. */
static void test_answers_must_fit_their_requests(void **state)
{
    static const struct {
        enum tcp_code code;
        uint64_t length;
    } answer[] = {{TCP_DATA, 65}, {TCP_DATA, 63}, {TCP_VALUE, 0}, {TCP_PLACED, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(answer) / sizeof(answer[0]); i++) {
        struct btl_memory near = memory(PEER, BTL_LOCAL);
        struct tcp_head h = tcp_head_of(answer[i].code, answer[i].length, 0, 0);
        struct btl_remote remote = {.bytes = BYTES, .mapping = btl};
        struct btl_transfer t = {&remote, 0, &near, 0, 64};
        struct btl_done done = {0};
        uint8_t rest[65] = {0};
        struct peer p;

        peer_up(&p);
        assert_int_equal(OPS->get(p.connection, &t, &done), 0);
        say(p.fd, &h, sizeof(h));
        say(p.fd, rest, sizeof(rest));
        must_fail(&p, "was not made");
        assert_int_equal(atomic_load(&done.pending), 0); /* rule 12 */
        assert_int_equal(atomic_load(&done.error), -EIO);
        assert_true(untouched(&near));
        peer_down(&p);
        OPS->free(btl, &near);
    }
}

/* A reader that acknowledges what it has not read: rflush must not return while the memory is still to be sent. */
static void test_no_answer_comes_before_its_request_is_sent(void **state)
{
    enum { LARGE = 32 << 20 };
    struct btl_memory near = {0};
    struct btl_remote remote = {.bytes = LARGE, .mapping = btl};
    struct btl_transfer t = {&remote, 0, &near, 0, LARGE};
    struct tcp_head h = head(TCP_PLACED, 0, NULL, 0);
    struct error err = {""};
    struct peer p;

    (void)state;
    assert_int_equal(OPS->alloc(btl, PEER, LARGE, BTL_LOCAL, false, &near, &err), 0);
    peer_up(&p);
    assert_int_equal(OPS->write(p.connection, &t, NULL), 0);
    assert_int_equal(OPS->flush(p.connection), -EAGAIN);
    say(p.fd, &h, sizeof(h));
    must_fail(&p, "was not made");
    assert_int_equal(OPS->flush(p.connection), -EIO);
    peer_down(&p);
    OPS->free(btl, &near);
}

/* Answers that the peer does not read fill its socket; then no more requests are taken than it has announced. */
static void test_no_more_requests_than_announced(void **state)
{
    enum { LARGE = 8 << 20 };
    struct btl_memory source = {0};
    struct error err = {""};
    struct peer p;

    (void)state;
    assert_int_equal(OPS->alloc(btl, PEER, LARGE, BTL_PEER_READS, false, &source, &err), 0);
    peer_up(&p);
    for (unsigned i = 0; i < 2 * DEPTH; i++) {
        struct tcp_head h = head(TCP_GET, LARGE, &source, 0);

        say(p.fd, &h, sizeof(h));
    }
    for (unsigned i = 0; i < 10; i++)
        say(p.fd, &(struct tcp_head){0}, sizeof(struct tcp_head));
    must_fail(&p, "more outstanding requests");
    peer_down(&p);
    OPS->free(btl, &source);
}

/* What has been accepted and has not left is lost with its connection: its memory is free, but it does not count as sent. */
static void test_what_a_failure_drops_was_not_sent(void **state)
{
    enum { LARGE = 32 << 20 };
    struct btl_remote remote = {.bytes = LARGE, .mapping = btl};
    uint64_t accepted = 0, released = 0;
    struct btl_memory near = {0};
    struct btl_transfer t = {&remote, 0, &near, 0, LARGE};
    struct error err = {""};
    struct peer p;

    (void)state;
    assert_int_equal(OPS->alloc(btl, PEER, LARGE, BTL_LOCAL, false, &near, &err), 0);
    peer_up(&p);
    assert_int_equal(OPS->write(p.connection, &t, NULL), 0);
    OPS->position(p.connection, &accepted, &released);
    assert_true(accepted > LARGE && released < accepted);
    say(p.fd, &(struct tcp_head){0}, sizeof(struct tcp_head));
    must_fail(&p, "no such operation");
    OPS->position(p.connection, &accepted, &released);
    assert_true(released < accepted);
    peer_down(&p);
    OPS->free(btl, &near);
}

/* Memory that is freed while the peer still reads it, or writes it: no access to what is not there. */
static void test_memory_may_go_at_any_time(void **state)
{
    enum { LARGE = 8 << 20 };

    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        struct btl_memory m = {0};
        struct error err = {""};
        struct tcp_head h;
        struct peer p;
        char byte[1000] = {0};

        assert_int_equal(
            OPS->alloc(btl, PEER, LARGE, reads ? BTL_PEER_READS : BTL_PEER_WRITES, false, &m, &err),
            0);
        h = head(reads ? TCP_GET : TCP_PUT, LARGE, &m, 0);
        peer_up(&p);
        say(p.fd, &h, sizeof(h));
        if (!reads)
            say(p.fd, byte, sizeof(byte));
        for (int i = 0; i < 10; i++)
            assert_int_equal(OPS->progress(p.connection), 0);
        OPS->free(btl, &m);
        if (!reads)
            say(p.fd, byte, sizeof(byte));
        else
            assert_true(hear(p.fd, byte, sizeof(byte)));
        while (reads &&
               recv(p.fd, byte, sizeof(byte), MSG_DONTWAIT) > 0) /* until it has to send more */
            (void)OPS->progress_all(btl);
        must_fail(&p, reads ? "was freed" : NO_MEMORY);
        peer_down(&p);
    }
}

/* ---- the stream ---- */

/* Every frame there is, in parts of each length: they do what they do at once. */
static void test_frames_may_come_in_any_parts(void **state)
{
    (void)state;
    for (size_t part = 1; part < 200; part += part < 30 ? 1 : 17) {
        struct tcp_atomic_frame atomic = {.operand = 5};
        struct tcp_head h, answer;
        uint8_t stream[1024], data[100];
        size_t n = 0;
        struct peer p;

        peer_up(&p);
        h = head(TCP_PUT, 100, &p.heap, 3);
        memcpy(stream, &h, sizeof(h));
        pattern_fill(stream + sizeof(h), 100, part);
        n = sizeof(h) + 100;
        h = head(TCP_SLOT, 64, &p.heap, 128);
        memcpy(stream + n, &h, sizeof(h));
        pattern_fill(stream + n + sizeof(h), 64, part + 1);
        n += sizeof(struct tcp_slot_frame);
        atomic.head = head(TCP_ATOMIC, BTL_ATOMIC_ADD, &p.cells, 16);
        memcpy(stream + n, &atomic, sizeof(atomic));
        n += sizeof(atomic);
        h = head(TCP_GET, 100, &p.source, 0);
        memcpy(stream + n, &h, sizeof(h));
        n += sizeof(h);
        h = head(TCP_FLUSH, 0, NULL, 0);
        memcpy(stream + n, &h, sizeof(h));
        n += sizeof(h);
        for (size_t at = 0; at < n; at += part) {
            say(p.fd, stream + at, n - at < part ? n - at : part);
            assert_int_equal(OPS->progress(p.connection), 0);
        }
        assert_true(hear(p.fd, &answer, sizeof(answer)));
        assert_true(tcp_head_code(&answer) == TCP_VALUE && answer.offset == 0);
        assert_true(hear(p.fd, &answer, sizeof(answer)));
        assert_true(tcp_head_code(&answer) == TCP_DATA && tcp_head_length(&answer) == 100);
        assert_true(hear(p.fd, data, sizeof(data)) && pattern_same(data, sizeof(data), 7));
        assert_true(hear(p.fd, &answer, sizeof(answer)));
        assert_int_equal(tcp_head_code(&answer), TCP_PLACED);
        assert_true(pattern_same((char *)p.heap.base + 3, 100, part));
        assert_true(pattern_same((char *)p.heap.base + 128, 64, part + 1));
        assert_int_equal(((uint64_t *)p.cells.base)[2], 5);
        assert_int_equal(((uint8_t *)p.heap.base)[2], 0x5a);
        assert_int_equal(((uint8_t *)p.heap.base)[103], 0x5a);
        peer_down(&p);
    }
}

/* Frames of random words, many of them nearly valid: they end the connection, or change what may be changed. */
static void test_random_frames_reach_no_other_memory(void **state)
{
    uint64_t seed = (uint64_t)getpid();

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 200; round++) {
        struct peer p;

        peer_up(&p);
        for (int i = 0; i < 20; i++) {
            const struct btl_memory *m = random_draw(&seed) % 2 ? &p.heap : &p.cells;
            uint64_t frame[12];
            struct tcp_head h = head(
                (enum tcp_code)(random_draw(&seed) % 10), random_invalid(&seed) & TCP_LENGTH_MOST,
                m, random_draw(&seed) % 3 ? random_draw(&seed) % BYTES : random_invalid(&seed));

            if (random_draw(&seed) % 4 == 0)
                h.region = random_invalid(&seed);
            for (size_t word = 0; word < 12; word++)
                frame[word] = random_invalid(&seed);
            memcpy(frame, &h, sizeof(h));
            (void)!send(p.fd, frame, random_draw(&seed) % sizeof(frame),
                        MSG_NOSIGNAL | MSG_DONTWAIT);
            (void)OPS->progress(p.connection);
        }
        assert_true(untouched(&p.foreign));
        assert_true(pattern_same(p.source.base, BYTES, 7));
        peer_down(&p);
    }
}

/* ---- coming up ---- */

static void test_without_the_cookie_there_is_no_connection(void **state)
{
    struct tcp_greeting answer;
    struct btl_address address;
    struct error err = {""};
    struct tcp_name wrong;
    struct peer p;

    (void)state;
    open_end(&p, &address);
    for (int i = 0; i < 3; i++) {
        int fd = dial(&p.name);

        wrong = p.name;
        if (i == 0)
            wrong.cookie[31] ^= 1;
        else if (i == 1)
            wrong.id++;
        greet(fd, &wrong);
        if (i == 2)
            break; /* the right one, before the address */
        assert_true(hear(fd, &answer, sizeof(answer)));
        assert_int_equal(answer.id, 0);
        assert_false(hear(fd, &answer, 1));
        close(fd);
        address = own_address(&p);
    }
    for (int i = 0; i < 100; i++)
        (void)OPS->progress(p.connection);
    assert_int_equal(OPS->connection_state(p.connection, &err), -EAGAIN);
    assert_int_equal(OPS->connection_connect(p.connection, &address, &err), 0);
    assert_int_equal(OPS->connection_state(p.connection, &err), 0);
    peer_down(&p);
}

static void test_malformed_addresses_are_refused(void **state)
{
    struct btl_address address, own;
    struct tcp_name *name = (struct tcp_name *)(void *)own.byte;
    struct error err = {""};
    struct peer p;

    (void)state;
    open_end(&p, &address);
    for (int i = 0; i < 6; i++) {
        struct tcp_name changed;

        own = own_address(&p);
        memcpy(&changed, own.byte, sizeof(changed));
        own.bytes = (uint16_t)(own.bytes - (i == 0));
        changed.version += i == 1;
        changed.family = i == 2 ? 5 : changed.family;
        changed.port = i == 3 ? 0 : changed.port;
        changed.depth = i == 4 ? 3 : i == 5 ? 1u << 31 : changed.depth;
        memcpy(name, &changed, sizeof(changed));
        assert_int_equal(OPS->connection_connect(p.connection, &own, &err), -EPROTO);
    }
    peer_down(&p);
}

/* Many connections that send nothing: the oldest are closed, and an end that greets comes up. */
static void test_strangers_do_not_keep_peers_out(void **state)
{
    enum { STRANGERS = 200 };
    int stranger[STRANGERS], closed = 0;
    struct peer p, honest;
    struct btl_address address;
    char byte;

    (void)state;
    btl->arrivals_most = 16;
    open_end(&p, &address);
    for (int i = 0; i < STRANGERS; i++) {
        stranger[i] = dial(&p.name);
        (void)OPS->progress_all(btl);
        assert_true(btl->arrival_count <= 16);
    }
    peer_up(&honest);
    for (int i = 0; i < STRANGERS; i++) {
        closed += recv(stranger[i], &byte, 1, MSG_DONTWAIT) == 0;
        close(stranger[i]);
    }
    assert_true(closed >= STRANGERS - 16);
    peer_down(&honest);
    peer_down(&p);
}

/* An end that dials the listener of this test, which is returned. */
static int open_dialing_end(struct btl_connection **c, struct tcp_name *own)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof(a);
    struct btl_address address;
    struct tcp_name name;
    struct error err = {""};

    assert_true(listener >= 0 && bind(listener, (struct sockaddr *)&a, bytes) == 0 &&
                listen(listener, 8) == 0 &&
                getsockname(listener, (struct sockaddr *)&a, &bytes) == 0);
    assert_int_equal(OPS->connection_open(btl, PEER, BTL_CONNECTS, DEPTH, c, &address, &err), 0);
    memcpy(own, address.byte, sizeof(*own));
    name = *own;
    name.port = ntohs(a.sin_port);
    name.id = 5;
    memcpy(address.byte, &name, sizeof(name));
    assert_int_equal(OPS->connection_connect(*c, &address, &err), 0);
    return listener;
}

static int accept_dial(int listener, struct btl_connection *c)
{
    const int64_t deadline = clock_now() + PATIENCE;
    struct pollfd p = {listener, POLLIN, 0};
    struct error err = {""};

    while (poll(&p, 1, 0) == 0) {
        assert_true(clock_now() < deadline);
        assert_int_equal(OPS->connection_state(c, &err), -EAGAIN);
        (void)OPS->progress(c);
        turn();
    }
    return accept(listener, NULL, NULL);
}

/* A connection that ends without an answer is dialed again; a refusal is final. */
static void test_an_end_that_was_shown_out_dials_again(void **state)
{
    struct tcp_greeting greeting = {0};
    struct btl_connection *c;
    struct error err = {""};
    struct tcp_name own;
    int listener = open_dialing_end(&c, &own), fd = -1;

    (void)state;
    for (int times = 0; times < 3; times++) {
        fd = accept_dial(listener, c);
        if (times < 2)
            close(fd);
    }
    assert_true(hear(fd, &greeting, sizeof(greeting)));
    assert_true(greeting.magic == TCP_MAGIC && greeting.id == 5);
    greet(fd, &own);
    while (OPS->connection_state(c, &err) == -EAGAIN)
        (void)OPS->progress(c);
    assert_int_equal(OPS->connection_state(c, &err), 0);
    OPS->connection_close(c);
    close(fd);
    close(listener);
}

static void test_the_deadline_of_coming_up(void **state)
{
    static const struct {
        const char *ms;
        int64_t least, most;
    } deadline[] = {{"", 30000, 31000},
                    {"100", 30000, 31000},
                    {"100000", 100000, 101000},
                    {"-1", INT64_MAX / NS_PER_MS, INT64_MAX / NS_PER_MS}};

    (void)state;
    for (size_t i = 0; i < sizeof(deadline) / sizeof(deadline[0]); i++) {
        const int64_t before = clock_now() / NS_PER_MS;
        struct btl_address address;
        struct error err = {""};
        struct peer p;
        int64_t ms;

        timeout_ms = deadline[i].ms;
        open_end(&p, &address);
        address = own_address(&p);
        assert_int_equal(OPS->connection_connect(p.connection, &address, &err), 0);
        timeout_ms = "";
        ms = p.connection->deadline / NS_PER_MS;
        if (deadline[i].most < INT64_MAX / NS_PER_MS)
            ms -= before;
        assert_in_range(ms, deadline[i].least, deadline[i].most);
        turn();
        assert_int_equal(OPS->connection_state(p.connection, &err), -EAGAIN);
        peer_down(&p);
    }
}

static int option(int fd, int level, int name)
{
    socklen_t bytes = sizeof(int);
    int value = -1;

    assert_int_equal(getsockopt(fd, level, name, &value, &bytes), 0);
    return value;
}

/* RPIPE_KEEPALIVE_MS is 20000: both ends are probed after 10 s, thrice, every 4 s. */
static void test_idle_connections_are_probed(void **state)
{
    struct btl_connection *c;
    struct tcp_name own;
    int listener = open_dialing_end(&c, &own), fd[2];
    struct peer p;

    (void)state;
    peer_up(&p);
    fd[0] = c->fd;
    fd[1] = p.connection->fd;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(option(fd[i], SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option(fd[i], IPPROTO_TCP, TCP_KEEPIDLE), 10);
        assert_int_equal(option(fd[i], IPPROTO_TCP, TCP_KEEPINTVL), 4);
        assert_int_equal(option(fd[i], IPPROTO_TCP, TCP_KEEPCNT), 3);
    }
    peer_down(&p);
    OPS->connection_close(c);
    close(listener);
}

/* Both ends have one address. Can only fail where the congestion control of the system is another one. */
static void test_within_a_host_nothing_is_paced(void **state)
{
    char name[16] = "";
    socklen_t bytes = sizeof(name);
    struct peer p;

    (void)state;
    peer_up(&p);
    assert_int_equal(getsockopt(p.connection->fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
    assert_string_equal(name, "reno");
    peer_down(&p);
}

/* An end that waits to dial again, and whose rank ends meanwhile, does not dial. */
static void test_a_failed_end_does_not_dial_again(void **state)
{
    struct btl_connection *c;
    struct error err = {""};
    struct tcp_name own;
    int listener = open_dialing_end(&c, &own);
    struct pollfd p = {listener, POLLIN, 0};
    int64_t until;

    (void)state;
    close(accept_dial(listener, c));
    until = clock_now() + PATIENCE;
    while (c->fd >= 0) {
        assert_true(clock_now() < until);
        (void)OPS->progress(c);
    }
    OPS->peer_gone(btl, PEER);
    for (until = clock_now() + 400 * NS_PER_MS; clock_now() < until;)
        turn();
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_int_equal(c->fd, -1);
    assert_int_equal(c->dialed, 1);
    assert_int_equal(OPS->connection_state(c, &err), -ECONNRESET);
    OPS->connection_close(c);
    close(listener);
}

/* ---- bytes that are left in the socket for a while (held.c) ---- */

/* Bytes that the socket of the connection has, processed or not. */
static int unread(const struct peer *p)
{
    int bytes = -1;

    assert_int_equal(ioctl(p->connection->fd, FIONREAD, &bytes), 0);
    return bytes;
}

/* The peer writes a slot, and the connection reads it. */
static void slot_arrives(struct peer *p, uint64_t number)
{
    struct tcp_slot_frame frame = {.head = head(TCP_SLOT, TCP_SLOT_BYTES, &p->heap, 0)};
    const uint64_t *last = (const uint64_t *)p->heap.base + 7;

    frame.word[7] = number;
    say(p->fd, &frame, sizeof(frame));
    while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != number)
        assert_int_equal(OPS->progress(p->connection), 0);
}

/* False: this kernel cannot do it. */
static bool held_up(struct peer *p)
{
    peer_up(p);
    for (uint64_t i = 1; i <= 2;
         i++) { /* are taken: that further ones are short is not known yet */
        slot_arrives(p, UINT64_MAX - i);
        assert_int_equal(unread(p), 0);
    }
    return p->connection->held.possible;
}

static void test_short_messages_are_acknowledged_later(void **state)
{
    enum { SLOT = sizeof(struct tcp_slot_frame), PART = 2048, LONG = 5 * PART };
    const int64_t deadline = clock_now() + PATIENCE;
    uint8_t put[LONG / PART][sizeof(struct tcp_head) + PART] = {0};
    struct tcp_head h;
    struct peer p;

    (void)state;
    if (!held_up(&p)) {
        peer_down(&p);
        skip();
    }
    for (int i = 1; i < 5; i++) {
        slot_arrives(&p, (uint64_t)i);
        assert_int_equal(unread(&p), i * SLOT);
    }
    for (int i = 0; i < 100; i++) /* nothing else comes */
        assert_int_equal(OPS->progress(p.connection), 0);
    assert_int_equal(unread(&p), 0);
    for (int i = 0; i < 100; i++) {
        slot_arrives(&p, 1000 + (uint64_t)i);
        assert_true(unread(&p) <= 8 * SLOT);
    }
    slot_arrives(&p, 2000);
    assert_true(unread(&p) > 0);
    for (int i = 0; i < LONG / PART; i++) {
        h = head(TCP_PUT, PART, &p.heap, 64);
        memcpy(put[i], &h, sizeof(h));
    }
    say(p.fd, put, sizeof(put)); /* longer than what is held */
    while (((uint8_t *)p.heap.base)[64 + PART - 1] != 0)
        assert_int_equal(OPS->progress(p.connection), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(OPS->progress(p.connection), 0);
    assert_int_equal(unread(&p), 0);
    slot_arrives(&p, 3000); /* taken, behind a long one */
    slot_arrives(&p, 3001);
    assert_int_equal(unread(&p), 0);
    slot_arrives(&p, 3002);
    assert_int_equal(unread(&p), SLOT);
    h = head(TCP_FLUSH, 0, NULL, 0); /* what is sent next has the acknowledgement */
    say(p.fd, &h, sizeof(h));
    assert_true(hear(p.fd, &h, sizeof(h)));
    slot_arrives(&p, 3003);
    assert_int_equal(unread(&p), 0);
    slot_arrives(&p, 3004);
    assert_int_equal(unread(&p), SLOT);
    while (unread(&p) > 0) { /* no further call: the service thread */
        turn();
        assert_true(p.connection->held.pending <= 1); /* by its first read that finds nothing */
        assert_true(clock_now() < deadline);
    }
    peer_down(&p);
}

/* A payload and its slot. */
static void message_arrives(struct peer *p, uint64_t number)
{
    struct {
        struct tcp_head head;
        uint8_t payload[2048];
        struct tcp_slot_frame slot;
    } m = {.head = head(TCP_PUT, 2048, &p->heap, 64),
           .slot = {.head = head(TCP_SLOT, TCP_SLOT_BYTES, &p->heap, 0)}};
    const uint64_t *last = (const uint64_t *)p->heap.base + 7;

    m.slot.word[7] = number;
    say(p->fd, &m, sizeof(m));
    while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != number)
        assert_int_equal(OPS->progress(p->connection), 0);
}

/* One message in each read: two of some length are held, and taken by the first read that finds nothing. */
static void test_a_message_with_payload_is_acknowledged_later(void **state)
{
    enum { MESSAGE = sizeof(struct tcp_head) + 2048 + sizeof(struct tcp_slot_frame) };
    int most = 0, held;
    struct peer p;

    (void)state;
    if (!held_up(&p)) {
        peer_down(&p);
        skip();
    }
    for (uint64_t i = 0; i < 50; i++) { /* a call of progress may read more than once */
        message_arrives(&p, 1 + 2 * i);
        message_arrives(&p, 2 + 2 * i);
        held = unread(&p);
        most = held > most ? held : most;
        for (int k = 0; k < 100; k++)
            assert_int_equal(OPS->progress(p.connection), 0);
        assert_int_equal(unread(&p), 0);
    }
    assert_int_equal(most, 2 * MESSAGE);
    for (uint64_t i = 1000; i < 1050; i++) {
        message_arrives(&p, i);
        assert_true(unread(&p) <= 4 * MESSAGE);
    }
    peer_down(&p);
}

/* A close with bytes in its socket would reset the connection, and what was written would be lost. */
static void test_a_close_with_held_bytes_loses_nothing(void **state)
{
    enum { LARGE = 32 << 10 };
    struct btl_memory near = {0};
    struct btl_remote remote = {.bytes = LARGE, .mapping = btl};
    struct btl_transfer t = {&remote, 0, &near, 0, LARGE};
    struct error err = {""};
    struct tcp_head h;
    char byte;
    struct peer p;

    (void)state;
    assert_int_equal(OPS->alloc(btl, PEER, LARGE, BTL_LOCAL, false, &near, &err), 0);
    if (held_up(&p)) {
        slot_arrives(&p, 1);
        assert_true(unread(&p) > 0);
    }
    assert_int_equal(OPS->write(p.connection, &t, NULL), 0);
    OPS->connection_close(p.connection);
    assert_true(hear(p.fd, &h, sizeof(h)));
    assert_int_equal(tcp_head_code(&h), TCP_PUT);
    for (int i = 0; i < LARGE; i++)
        assert_int_equal(recv(p.fd, &byte, 1, 0), 1);
    assert_int_equal(recv(p.fd, &byte, 1, 0), 0); /* the end, not a reset */
    close(p.fd);
    OPS->free(btl, &p.heap);
    OPS->free(btl, &p.source);
    OPS->free(btl, &p.cells);
    OPS->free(btl, &p.foreign);
    OPS->free(btl, &near);
}

/* ---- threads and processes ---- */

/* Writes of a stream share calls of the socket; the last ones leave without a further call on their connection. */
static void test_a_stream_is_sent_together(void **state)
{
    enum { WRITES = 2000 };
    struct btl_memory near = memory(PEER, BTL_LOCAL);
    struct btl_remote remote = {.bytes = BYTES, .mapping = btl};
    struct btl_transfer slot = {&remote, 0, &near, 0, 64};
    struct tcp_slot_frame frame;
    struct btl_counts counts;
    struct peer p;

    (void)state;
    peer_up(&p);
    for (int i = 0; i < WRITES; i++) {
        p.connection->written_at = clock_now() + NS_PER_S; /* however slow this machine is */
        assert_int_equal(OPS->write(p.connection, NULL, &slot), 0);
    }
    for (int i = 0; i < WRITES; i++) { /* turn() drives; the connection itself is not called */
        assert_true(hear(p.fd, &frame, sizeof(frame)));
        assert_int_equal(tcp_head_code(&frame.head), TCP_SLOT);
    }
    OPS->connection_counts(p.connection, &counts);
    print_message("%d writes, %llu calls of the socket\n", WRITES,
                  (unsigned long long)counts.doorbells);
    assert_int_equal(counts.work_requests, WRITES);
    assert_true(counts.doorbells < WRITES / 20);
    peer_down(&p);
    OPS->free(btl, &near);
}

/* Writes that take all space there is do not keep an answer waiting. */
static void test_a_stream_of_writes_lets_answers_through(void **state)
{
    enum { LARGE = 256 << 10, TURNS = 100 };
    static char sink[LARGE];
    struct btl_memory near = {0};
    struct btl_remote remote = {.bytes = LARGE, .mapping = btl};
    struct btl_transfer t = {&remote, 0, &near, 0, LARGE};
    struct error err = {""};
    struct tcp_head h;
    struct peer p;
    int waiting = 0;

    (void)state;
    assert_int_equal(OPS->alloc(btl, PEER, LARGE, BTL_LOCAL, false, &near, &err), 0);
    peer_up(&p);
    while (OPS->write(p.connection, &t, NULL) == 0)
        ;
    h = head(TCP_GET, BYTES, &p.source, 0);
    say(p.fd, &h, sizeof(h));
    while (p.connection->requested == 0)
        (void)OPS->progress(p.connection);
    for (int i = 0; i < TURNS; i++) {
        waiting += p.connection->replied == 0;
        (void)!recv(p.fd, sink, sizeof(sink), MSG_WAITALL);
        while (OPS->write(p.connection, &t, NULL) == 0)
            ;
    }
    print_message("the answer waited for %d of %d turns\n", waiting, TURNS);
    assert_int_equal(p.connection->replied, 1);
    peer_down(&p);
    OPS->free(btl, &near);
}

/* A flush waits for what was written before its first call, not for what is written between its calls. */
static void test_flush_ends_though_writes_go_on(void **state)
{
    struct btl_memory near = memory(PEER, BTL_LOCAL);
    struct btl_remote remote = {.bytes = BYTES, .mapping = btl};
    struct btl_transfer t = {&remote, 0, &near, 0, 8};
    const struct tcp_head placed = head(TCP_PLACED, 0, NULL, 0);
    struct btl_counts counts;
    struct peer p;

    (void)state;
    peer_up(&p);
    for (int flush = 0; flush < 2; flush++) {
        for (int i = 0; i < 10; i++) {
            assert_int_equal(OPS->write(p.connection, &t, NULL), 0);
            assert_int_equal(OPS->flush(p.connection), -EAGAIN);
        }
        OPS->connection_counts(p.connection, &counts);
        assert_int_equal(counts.flushes, flush + 1);
        say(p.fd, &placed, sizeof(placed));
        for (int64_t until = clock_now() + PATIENCE; OPS->flush(p.connection) != 0;) {
            assert_true(clock_now() < until);
            assert_int_equal(OPS->write(p.connection, &t, NULL), 0);
        }
    }
    assert_int_equal(OPS->flush(p.connection), -EAGAIN); /* the last writes */
    say(p.fd, &placed, sizeof(placed));
    while (OPS->flush(p.connection) == -EAGAIN)
        ;
    assert_int_equal(OPS->flush(p.connection), 0);
    OPS->connection_counts(p.connection, &counts);
    assert_int_equal(counts.flushes, 3);
    peer_down(&p);
    OPS->free(btl, &near);
}

/* A request that is received by a call of flush is answered, though no event follows. */
static void test_flush_answers_what_it_receives(void **state)
{
    struct btl_memory near = memory(PEER, BTL_LOCAL);
    struct btl_remote remote = {.bytes = BYTES, .mapping = btl};
    struct btl_transfer t = {&remote, 0, &near, 0, 8};
    struct tcp_head h, answer;
    uint8_t put[sizeof(struct tcp_head) + 8], data[BYTES];
    struct peer p;

    (void)state;
    peer_up(&p);
    assert_int_equal(OPS->write(p.connection, &t, NULL), 0);
    assert_int_equal(OPS->flush(p.connection), -EAGAIN);
    assert_int_equal(recv(p.fd, put, sizeof(put), MSG_WAITALL), sizeof(put));
    assert_int_equal(recv(p.fd, &h, sizeof(h), MSG_WAITALL), sizeof(h));
    assert_int_equal(tcp_head_code(&h), TCP_FLUSH);
    h = head(TCP_GET, BYTES, &p.source, 0);
    say(p.fd, &h, sizeof(h));
    h = head(TCP_PLACED, 0, NULL, 0);
    say(p.fd, &h, sizeof(h));
    while (OPS->flush(p.connection) == -EAGAIN)
        ;
    assert_true(hear(p.fd, &answer, sizeof(answer)));
    assert_true(tcp_head_code(&answer) == TCP_DATA && tcp_head_length(&answer) == BYTES);
    assert_true(hear(p.fd, data, sizeof(data)) && pattern_same(data, sizeof(data), 7));
    peer_down(&p);
    OPS->free(btl, &near);
}

static void test_shared_memory_is_for_those_it_is_shared_with(void **state)
{
    struct tcp_atomic_frame atomic = {.operand = 3};
    struct btl_key key;
    struct tcp_head answer;
    struct error err = {""};
    struct peer p;

    (void)state;
    peer_up(&p);
    assert_int_equal(OPS->share(btl, PEER, &p.foreign, &key, &err), 0);
    atomic.head = head(TCP_ATOMIC, BTL_ATOMIC_SWAP, &p.foreign, 0);
    say(p.fd, &atomic, sizeof(atomic));
    assert_true(hear(p.fd, &answer, sizeof(answer)));
    assert_true(tcp_head_code(&answer) == TCP_VALUE &&
                answer.offset == UINT64_C(0x5a5a5a5a5a5a5a5a));
    OPS->peer_gone(btl, PEER);
    assert_int_equal(OPS->connection_state(p.connection, &err), -ECONNRESET);
    peer_down(&p);
}

static void test_the_child_of_a_fork_changes_nothing(void **state)
{
    struct btl_transfer t;
    struct btl_remote remote = {.bytes = BYTES, .mapping = btl};
    struct btl_counts counts;
    char text[200];
    struct tcp_head h;
    struct peer p;
    int status;
    pid_t child;

    (void)state;
    peer_up(&p);
    t = (struct btl_transfer){&remote, 0, &p.heap, 0, 8};
    pthread_mutex_lock(&p.connection->lock); /* as a service thread that is in it has */
    child = fork();
    if (child == 0) {
        (void)alarm(10);
        OPS->forked(btl);
        OPS->connection_describe(p.connection, text, sizeof(text));
        OPS->connection_counts(p.connection, &counts);
        if (OPS->write(p.connection, &t, NULL) != -ENOTCONN ||
            OPS->progress(p.connection) != -ENOTCONN || strncmp(text, "tcp 127.0.0.1", 13) != 0)
            _exit(1);
        OPS->connection_close(p.connection);
        OPS->free(btl, &p.heap);
        OPS->close(btl);
        _exit(0);
    }
    pthread_mutex_unlock(&p.connection->lock);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    h = head(TCP_FLUSH, 0, NULL, 0); /* the parent's still works */
    say(p.fd, &h, sizeof(h));
    assert_true(hear(p.fd, &h, sizeof(h)));
    assert_int_equal(tcp_head_code(&h), TCP_PLACED);
    peer_down(&p);
}

/* ---- streams ---- */

static struct btl_stream *stream_begin(void)
{
    struct btl_stream *stream = NULL;
    struct error why = {""};
    enum btl_share got;

    assert_int_equal(OPS->stream_open(btl, BTL_SHARE_DYNAMIC, &stream, &got, &why), 0);
    assert_int_equal(got, BTL_SHARE_EVERYWHERE);
    return stream;
}

static void peer_up_in(struct peer *p, struct btl_stream *stream)
{
    stream_of_ends = stream;
    peer_up(p);
    stream_of_ends = NULL;
    assert_int_equal(OPS->progress(p->connection), 0); /* this thread is its thread */
}

static void stream_was_driven(struct peer *p, int64_t before_ns)
{
    atomic_store(&p->connection->stream->hint->driven_at, clock_now() - before_ns);
}

/* Whether a round answers a request of the peer. */
static bool round_answers(struct peer *p)
{
    struct tcp_head h;

    OPS->progress_round(btl);
    return recv(p->fd, &h, sizeof(h), MSG_DONTWAIT) == sizeof(h) && tcp_head_code(&h) == TCP_PLACED;
}

static void ask(struct peer *p)
{
    struct tcp_head h = head(TCP_FLUSH, 0, NULL, 0);

    say(p->fd, &h, sizeof(h));
}

/*
 * A thread that waits in one stream drives its other ones, and those that no thread drives, and waits for no lock. The service thread does nothing here:
 * there is no turn().
 */
static void test_a_round_drives_other_streams(void **state)
{
    struct btl_stream *stream[2] = {stream_begin(), stream_begin()};
    struct peer p, other;

    (void)state;
    peer_up_in(&p, stream[0]);
    peer_up_in(&other, stream[1]);

    ask(&other);
    stream_was_driven(&other, 0 - NS_PER_S); /* by this thread, at this moment: by its wait */
    assert_false(round_answers(&other));
    stream_was_driven(&other, NS_PER_MS / 10);
    pthread_mutex_lock(&btl->lock);
    assert_false(round_answers(&other));
    pthread_mutex_unlock(&btl->lock);
    stream_was_driven(&other, NS_PER_MS / 10);
    assert_true(round_answers(&other));

    ask(&other);
    atomic_store(&stream[1]->hint->thread, 1); /* that of another thread */
    stream_was_driven(&other, 0 - NS_PER_S);
    assert_false(round_answers(&other));
    stream_was_driven(&other, 5 * NS_PER_MS);
    assert_true(round_answers(&other));
    peer_down(&p);
    peer_down(&other);
    for (int i = 0; i < 2; i++)
        OPS->stream_close(stream[i]);
}

/* What stays in the queues of a stream, to be sent together, is sent by a round. */
static void test_a_round_sends_what_streams_gather(void **state)
{
    struct btl_memory near = memory(PEER, BTL_LOCAL);
    struct btl_remote remote = {.bytes = BYTES, .mapping = btl};
    struct btl_transfer slot = {&remote, 0, &near, 0, 64};
    struct btl_stream *stream = stream_begin();
    struct peer p;

    (void)state;
    peer_up_in(&p, stream);
    while (atomic_load(&stream->hint->gathered) == 0) {
        p.connection->written_at = clock_now() + NS_PER_S; /* however slow this machine is */
        assert_int_equal(OPS->write(p.connection, NULL, &slot), 0);
    }
    stream_was_driven(&p, 0 - NS_PER_S);
    OPS->progress_round(btl);
    assert_int_equal(atomic_load(&stream->hint->gathered), 1);
    stream_was_driven(&p, NS_PER_MS / 10);
    OPS->progress_round(btl);
    assert_int_equal(atomic_load(&stream->hint->gathered), 0);
    peer_down(&p);
    OPS->stream_close(stream);
    OPS->free(btl, &near);
}

/* A stream for which there is no descriptor is as none, with the reason; the next one has what the last one has left. */
static void test_a_stream_without_descriptors(void **state)
{
    int status = -1;
    pid_t child;

    (void)state;
    OPS->stream_close(stream_begin());
    child = fork();
    if (child == 0) { /* the limit stays */
        struct btl_stream *stream = NULL;
        enum btl_share got = BTL_SHARE_DYNAMIC;
        struct error why = {""};
        bool left = descriptors_leave(0);
        int rc = OPS->stream_open(btl, BTL_SHARE_DYNAMIC, &stream, &got, &why);

        _exit(left && rc == -EMFILE && stream == NULL &&
                      strncmp(why.text, "threads, since there is no further epoll_create1", 48) == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    OPS->stream_close(stream_begin());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_backend, close_backend)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_frames_outside_of_their_memory_are_refused),
        TEST(test_frames_that_nothing_asked_for_are_refused),
        TEST(test_answers_must_fit_their_requests),
        TEST(test_no_answer_comes_before_its_request_is_sent),
        TEST(test_no_more_requests_than_announced),
        TEST(test_what_a_failure_drops_was_not_sent),
        TEST(test_memory_may_go_at_any_time),
        TEST(test_frames_may_come_in_any_parts),
        TEST(test_random_frames_reach_no_other_memory),
        TEST(test_without_the_cookie_there_is_no_connection),
        TEST(test_malformed_addresses_are_refused),
        TEST(test_strangers_do_not_keep_peers_out),
        TEST(test_an_end_that_was_shown_out_dials_again),
        TEST(test_the_deadline_of_coming_up),
        TEST(test_idle_connections_are_probed),
        TEST(test_within_a_host_nothing_is_paced),
        TEST(test_a_failed_end_does_not_dial_again),
        TEST(test_short_messages_are_acknowledged_later),
        TEST(test_a_message_with_payload_is_acknowledged_later),
        TEST(test_a_close_with_held_bytes_loses_nothing),
        TEST(test_a_stream_is_sent_together),
        TEST(test_a_stream_of_writes_lets_answers_through),
        TEST(test_flush_ends_though_writes_go_on),
        TEST(test_flush_answers_what_it_receives),
        TEST(test_shared_memory_is_for_those_it_is_shared_with),
        TEST(test_the_child_of_a_fork_changes_nothing),
        TEST(test_a_round_drives_other_streams),
        TEST(test_a_round_sends_what_streams_gather),
        TEST(test_a_stream_without_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
