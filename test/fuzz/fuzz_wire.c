/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_wire.c: bytes of other processes before, and below, messages about channels: frames of a connection, chunks on lanes, business cards, what
 * unauthenticated connections send to rank 0 of the tcp bootstrap, and settings. The first byte selects one.
 */
#include "input.h"

#include "control/card.h"
#include "control/connection.h"
#include "control/endpoint.h"
#include "bootstrap/job_tcp_root.h"
#include "control/lane.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"

#include <sys/socket.h>
#include <sys/un.h>

static size_t left(const struct input *in) { return (size_t)(in->end - in->at); }

/* ---- a connection: frames out of bytes, with descriptors ---- */

static void send_with_fds(int fd, const uint8_t *bytes, size_t n, int fds)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * 16)];
    } space = {.head = {0}};
    struct iovec iov = {(void *)(uintptr_t)bytes, n};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    int own[16] = {0};

    if (fds > 0) {
        header.msg_control = space.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fds);
        space.head.cmsg_level = SOL_SOCKET;
        space.head.cmsg_type = SCM_RIGHTS;
        space.head.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fds);
        memcpy(CMSG_DATA(&space.head), own, sizeof(int) * (size_t)fds);
    }
    (void)sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void connection(struct input *in)
{
    uint32_t how = input_byte(in), sum = 0;
    const struct wire_frame *frame;
    struct connection *c;
    const void *body;
    struct error err = {""};
    int pair[2], whole = 0;

    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    c = connection_new(pair[0], true, false);
    REQUIRE(c != NULL);
    if ((how & 1) != 0) {
        c->state = CONNECTION_OPEN;
        c->body_max = CONTROL_BODY_MAX;
    }
    send_with_fds(pair[1], in->at, left(in), (int)(how >> 1) % 17);
    close(pair[1]);
    while (whole >= 0 && connection_receive(c, &err) > 0)
        while ((whole = connection_frame(c, &frame, &body, &err)) == 1) {
            REQUIRE(frame->body_bytes <= c->body_max && frame->nfds <= c->nfds);
            for (uint32_t i = 0; i < frame->body_bytes; i++)
                sum += ((const uint8_t *)body)[i];
            connection_consume(c, frame);
        }
    REQUIRE(whole >= 0 || *err.text != '\0');
    REQUIRE(sum < UINT32_MAX);
    connection_close(c);
    connection_free(c);
}

/* ---- lanes: the messages of network_send, and collectives ---- */

static int no_post(int to, uint32_t type, const void *body, size_t bytes, const int *fds, int nfds)
{
    (void)to, (void)type, (void)body, (void)bytes, (void)fds, (void)nfds;
    return -ENOTCONN;
}

static void pull(struct pair *pair, struct input *in)
{
    uint32_t how = input_byte(in);
    struct transfer t = {.lane = (enum lane_number)(how & 1),
                         .kind = how >> 1 & 3,
                         .epoch = how >> 3 & 1,
                         .bytes = how >> 4};
    int rc;

    t.to = malloc(t.bytes + (t.bytes == 0)); /* exactly */
    REQUIRE(t.to != NULL);
    rc = lane_pull(pair, &t);
    REQUIRE(rc == 0 || rc == -EPROTO || rc == -EMSGSIZE);
    REQUIRE(rc != 0 || !t.finished || t.head.code != 0 || t.done == t.bytes);
    lane_giveback(pair, &t);
    free(t.to);
}

static void lanes(struct input *in)
{
    struct pair *pair = malloc(sizeof(*pair));
    const char *wrong;
    bool broken = false;

    REQUIRE(pair != NULL);
    lane_init(pair, no_post);
    while (!input_is_empty(in) && !broken) {
        uint32_t how = input_byte(in);
        uint8_t body[sizeof(struct chunk) + 16];
        struct chunk chunk = {.bytes = sizeof(chunk),
                              .lane = how >> 2 & 1,
                              .kind = (how >> 2 & 1) != 0 ? 1 + (how >> 3 & 1) : 0,
                              .flags = (how >> 4 & 3) == 3,
                              .total = input_byte(in) & 31,
                              .offset = input_byte(in) & 31};
        size_t payload = (how >> 6) * 4, bytes = sizeof(chunk) + payload;

        if ((how & 3) == 0) {
            pull(pair, in);
            continue;
        }
        if ((how & 3) == 1) { /* all of it the fuzzer's */
            bytes = left(in) < sizeof(body) ? left(in) : sizeof(body);
            memcpy(body, in->at, bytes);
            in->at += bytes;
            broken = (how & 4) != 0 ? lane_acked(pair, body, bytes) != NULL
                                    : lane_arrive(pair, body, bytes, &wrong) != 0;
            continue;
        }
        memcpy(body, &chunk, sizeof(chunk));
        memset(body + sizeof(chunk), 7, payload);
        broken = lane_arrive(pair, body, bytes, &wrong) != 0;
    }
    lane_free(pair);
}

/* ---- business cards ---- */

static void card(struct input *in)
{
    struct card own = {.bytes = sizeof(own), .versions = control_versions(), .magic = CARD_MAGIC},
                c;
    uint8_t *blob;
    struct error err = {""};
    char text[64];
    size_t bytes = left(in);

    if (bytes < sizeof(own)) { /* a right one, with bytes of the fuzzer's in it */
        bytes = sizeof(own);
        blob = malloc(bytes);
        REQUIRE(blob != NULL);
        memcpy(blob, &own, sizeof(own));
        while (!input_is_empty(in)) {
            size_t at = input_word(in) % sizeof(own);

            blob[at] = (uint8_t)input_byte(in);
        }
    } else {
        blob = malloc(bytes);
        REQUIRE(blob != NULL);
        memcpy(blob, in->at, bytes);
    }
    if (card_check(&c, blob, bytes, 0, &err) == 0) {
        REQUIRE(c.addresses <= CARD_ADDRESSES && c.unix_bytes <= sizeof(c.unix_name));
        for (unsigned i = 0; i < c.addresses; i++)
            endpoint_print(&c, i, text, sizeof(text));
        (void)card_same_host(&c, &own);
    } else {
        REQUIRE(*err.text != '\0');
    }
    free(blob);
}

/* ---- what an unauthenticated connection sends to rank 0 ---- */

static void unauthenticated(struct input *in)
{
    struct tcp_card table[2] = {{.bytes = 4}};
    int links[2] = {-1, -1},
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), fd;
    struct tcp_job job = {.rank = 0,
                          .size = 2,
                          .host = "h",
                          .port = "1",
                          .secret = "s",
                          .table = table,
                          .links = links};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof(at);
    uint32_t how = input_byte(in);
    struct error err = {""};
    int rc;

    REQUIRE(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof(sa_family_t)) == 0 &&
            listen(listener, 8) == 0);
    REQUIRE(getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0 && connect(fd, (struct sockaddr *)&at, bytes) == 0);
    if ((how & 1) != 0) { /* a right beginning */
        struct tcp_join join = {.bytes = sizeof(join) + (how >> 5 & 1),
                                .versions = {(uint16_t)(TCP_VERSION_OLDEST + (how >> 1 & 1)),
                                             (uint16_t)(TCP_VERSION_NEWEST + (how >> 1 & 1))},
                                .magic = TCP_JOIN_MAGIC,
                                .rank = how >> 2 & 3,
                                .size = 2 + (how >> 4 & 1),
                                .secret_bytes = input_byte(in),
                                .card_bytes = input_word(in)};

        (void)send(fd, &join, sizeof(join), MSG_NOSIGNAL);
    }
    (void)send(fd, in->at, left(in), MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    rc = tcp_root_gather(&job, listener, deadline_in_ms(1), &err);
    REQUIRE(rc == 0 || *err.text != '\0');
    REQUIRE(rc != 0 || (table[1].bytes > 0 && table[1].bytes <= JOB_CARD_MAX));
    if (links[1] >= 0)
        close(links[1]);
    close(fd);
    close(listener);
}

/* ---- settings ---- */

static void settings(struct input *in)
{
    enum setting s = (enum setting)(input_byte(in) % SETTINGS);
    char text[300];
    struct error err = {""};
    size_t n = left(in) < sizeof(text) - 1 ? left(in) : sizeof(text) - 1;

    memcpy(text, in->at, n);
    text[n] = '\0';
    setenv(setting_name(s), text, 1);
    if (s == SET_ROOT) {
        setenv("RPIPE_RANK", "0", 1);
        setenv("RPIPE_SIZE", "2", 1);
        setenv("RPIPE_SECRET", "s", 1);
    }
    if (settings_load(&err) == 0)
        REQUIRE(strcmp(setting_text(s), text) == 0);
    else
        REQUIRE(strstr(err.text, setting_name(s)) != NULL);
    REQUIRE(setting_found(s) != NULL);
    if (s == SET_ROOT)
        REQUIRE(job_tcp_ops.query(&err) <= 0 && *err.text != '\0');
    unsetenv(setting_name(s));
    unsetenv("RPIPE_RANK");
    unsetenv("RPIPE_SIZE");
    unsetenv("RPIPE_SECRET");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};

    log_set_level(LOG_ERROR);
    switch (input_byte(&in) % 5) {
    case 0:
        connection(&in);
        break;
    case 1:
        lanes(&in);
        break;
    case 2:
        card(&in);
        break;
    case 3:
        unauthenticated(&in);
        break;
    default:
        settings(&in);
    }
    return 0;
}
