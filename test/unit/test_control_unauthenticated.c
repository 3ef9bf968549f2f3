/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that send to the control network and do not belong to it, or do and send invalid data.
 */
#include "control_ranks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "control/card.h"
#include "control/lane.h"
#include "control/wire.h"
#include "test/lib/lingering.h"
#include "util/received_fd.h"
#include "util/received_socket.h"

#include <poll.h>
#include <sys/un.h>

static void own_card(int rank, struct card *card)
{
    uint8_t blob[JOB_CARD_MAX];
    struct error err = {""};
    size_t bytes;

    REQUIRE(job_card(rank, blob, &bytes, DEADLINE_NOW, &err) == 0 && bytes == sizeof(*card));
    memcpy(card, blob, sizeof(*card));
}

static int client(const struct card *card, bool tcp)
{
    struct sockaddr_un u = {.sun_family = AF_UNIX};
    struct sockaddr_in i = {.sin_family = AF_INET,
                            .sin_port = htons(card->tcp_port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(u.sun_path, card->unix_name, card->unix_bytes);
    REQUIRE(fd >= 0);
    if (tcp)
        REQUIRE(connect(fd, (struct sockaddr *)&i, sizeof(i)) == 0);
    else
        REQUIRE(connect(fd, (struct sockaddr *)&u,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + card->unix_bytes)) ==
                0);
    return fd;
}

static void expect_hangup(int fd)
{
    char c;
    ssize_t n;

    while ((n = recv(fd, &c, 1, 0)) > 0)
        ;
    REQUIRE(n == 0 || errno == ECONNRESET);
    close(fd);
}

struct greeting {
    struct wire_frame frame;
    struct wire_hello hello;
};

static struct greeting good_greeting(const struct card *to, uint32_t from)
{
    struct card own;
    struct greeting g = {{.bytes = sizeof(struct wire_frame),
                          .magic = WIRE_FRAME_MAGIC,
                          .type = WIRE_HELLO,
                          .body_bytes = sizeof(struct wire_hello)},
                         {.bytes = sizeof(struct wire_hello),
                          .versions = control_versions(),
                          .magic = WIRE_HELLO_MAGIC,
                          .from = from,
                          .to = to->rank,
                          .window = {LANE_WINDOW_BYTES, LANE_WINDOW_BYTES}}};

    memcpy(g.hello.cookie, to->cookie, COOKIE_BYTES);
    own_card((int)from, &own);
    memcpy(g.hello.process_id, own.process_id, PROCESS_ID_BYTES);
    return g;
}

static void send_bytes(int fd, const void *data, size_t bytes)
{
    send(fd, data, bytes, MSG_NOSIGNAL);
}

static void unauthenticated_clients_do_no_harm(int rank, int size)
{
    struct card card;
    uint8_t noise[5000];
    struct greeting g;
    unsigned seed = (unsigned)getpid();
    int i, k, fd, idle[40];
    bool tcp = strcmp(getenv("RPIPE_CONTROL"), "tcp") == 0;

    log_set_level(LOG_ERROR); /* the warnings are expected */
    rank_start(&hooks);
    own_card((rank + 1) % size, &card); /* each rank is an unauthenticated client of the next one */
    for (i = 0; i < 40; i++)
        idle[i] = client(&card, tcp); /* send nothing, or only a part */
    for (i = 0; i < 200; i++) {
        fd = client(&card, tcp);
        g = good_greeting(&card, 0);
        switch (i % 10) {
        case 0: /* noise */
            for (k = 0; k < (int)sizeof(noise); k++)
                noise[k] = (uint8_t)rand_r(&seed);
            send_bytes(fd, noise, sizeof(noise));
            break;
        case 1: /* an oversized length */
            g.frame.body_bytes = UINT32_MAX - (uint32_t)i;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 2: /* the wrong cookie */
            g.hello.cookie[i % COOKIE_BYTES] ^= 1;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 3: /* half a hello, then nothing more */
            send_bytes(fd, &g, sizeof(g) / 2);
            shutdown(fd, SHUT_WR);
            break;
        case 4: /* a rank that does not exist */
            g.hello.from = (uint32_t)size + (uint32_t)i;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 5: /* the rank itself */
            g.hello.from = card.rank;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 6: /* addressed to another rank */
            g.hello.to = card.rank + 1;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 7: /* no version in common */
            g.hello.versions.oldest++;
            g.hello.versions.newest++;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 8: /* no greeting at all, but a message */
            g.frame.type = NOTE;
            send_bytes(fd, &g, sizeof(g));
            break;
        default: /* a greeting with mutilated bytes, before the cookie */
            ((uint8_t *)&g)[(unsigned)i / 10 * 3 % 32] ^= 0x55;
            g.frame.nfds |= (i / 10) % 2 != 0 ? 1u : 0u;
            send_bytes(fd, &g, sizeof(g));
            shutdown(fd, SHUT_WR);
            break;
        }
        expect_hangup(fd);
    }
    REQUIRE(atomic_load(&arrived) == 0);
    barrier();
    REQUIRE(post_note((rank + 1) % size, 1, 1000, NULL, 0) == 0);
    AWAIT(atomic_load(&arrived) == 1);
    REQUIRE(atomic_load(&wrong) == 0 && atomic_load(&died) == 0 && atomic_load(&left) == 0);
    barrier();
    for (i = 0; i < 40; i++)
        close(idle[i]);
    rank_stop();
}

/* Rank 1 has the cookies, as every rank does, and breaks the protocol in the name of rank 2, which sends nothing. */
static void rank_rogue(int rank, int size)
{
    static uint8_t noise[100000];
    struct greeting g;
    struct card card;
    unsigned seed = 42;
    size_t i;
    int fd;

    (void)size;
    log_set_level(LOG_ERROR);
    rank_start(&hooks);
    if (rank == 1) {
        own_card(0, &card);
        fd = client(&card, true);
        g = good_greeting(&card, 2);
        send_bytes(fd, &g, sizeof(g));
        REQUIRE(recv(fd, &g, sizeof(g), MSG_WAITALL) == (ssize_t)sizeof(g) &&
                g.frame.type == WIRE_WELCOME);
        for (i = 0; i < sizeof(noise); i++)
            noise[i] = (uint8_t)rand_r(&seed);
        g.frame = (struct wire_frame){.bytes = sizeof(g.frame),
                                      .magic = WIRE_FRAME_MAGIC,
                                      .type = WIRE_CHUNK,
                                      .body_bytes = 40}; /* a chunk shorter than its header */
        if (getenv("ROGUE") != NULL)
            send_bytes(fd, &g, sizeof(g.frame) + 40);
        else
            send_bytes(fd, noise, sizeof(noise));
        expect_hangup(fd);
        REQUIRE(post_note(0, 1, 8, NULL, 0) == 0);
    }
    if (rank == 0) {
        AWAIT(atomic_load(&died) == 1 && atomic_load(&arrived) == 1);
        REQUIRE(control_peer_state(2) == -ECONNRESET && control_peer_state(1) == 0);
        REQUIRE(post_note(1, 1, 8, NULL, 0) == 0 &&
                control_flush(1, deadline_in_ms(LIMIT_MS)) == 0);
    }
    if (rank == 1)
        AWAIT(atomic_load(&arrived) == 1);
    rank_stop();
}

static void test_a_peer_that_sends_invalid_data_is_disconnected(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "tcp", 1);
    unsetenv("ROGUE");
    run_ranks(3, rank_rogue);
    setenv("ROGUE", "1", 1);
    run_ranks(3, rank_rogue);
    unsetenv("ROGUE");
}

/* ---- a rank that connects again ---- */

static uint16_t next_frame(int fd)
{
    struct wire_frame frame;
    uint8_t body[WIRE_HELLO_MOST];

    REQUIRE(recv(fd, &frame, sizeof(frame), MSG_WAITALL) == (ssize_t)sizeof(frame) &&
            frame.body_bytes <= sizeof(body));
    REQUIRE(frame.body_bytes == 0 || /* it would wait for the next frame */
            recv(fd, body, frame.body_bytes, MSG_WAITALL) == (ssize_t)frame.body_bytes);
    return frame.type;
}

static void say_hello_on(int fd, const struct card *card, uint32_t attempt)
{
    const struct timeval limit = {.tv_sec = 10};
    struct greeting g = good_greeting(card, 1);

    REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    g.hello.features = CONTROL_FEATURE_EXITING;
    g.hello.attempt = attempt;
    send_bytes(fd, &g, sizeof(g));
}

static uint32_t attempts;

static int say_hello(const struct card *card)
{
    int fd = client(card, true);

    say_hello_on(fd, card, ++attempts);
    return fd;
}

static int greet(const struct card *card)
{
    int fd = say_hello(card);

    REQUIRE(next_frame(fd) == WIRE_WELCOME);
    return fd;
}

/*
 * Rank 0 has no connection of its own to rank 1, which gives up one that it has not used, and makes another one; also one that it
 * gives up before it is welcome, so that EXITING behind the WELCOME is refused. A greeting that comes late, on a connection that had
 * been given up, does not take the place of a later one.
 */
static void exiting_is_sent_again(int rank, int size)
{
    const struct wire_frame exiting = {
        .bytes = sizeof(exiting), .magic = WIRE_FRAME_MAGIC, .type = WIRE_EXITING};
    struct card card;
    int first, second, late;

    (void)size;
    rank_start(&hooks);
    if (rank == 0) {
        control_announce_exit();
        AWAIT(control_peer_exiting(1));
    } else {
        own_card(0, &card);
        first = greet(&card);
        REQUIRE(next_frame(first) == WIRE_EXITING);
        second = greet(&card);
        REQUIRE(next_frame(second) == WIRE_EXITING);
        for (int i = 0; i < 10; i++)
            close(say_hello(&card));
        late = client(&card, true);
        attempts++;
        second = greet(&card);
        REQUIRE(next_frame(second) == WIRE_EXITING);
        say_hello_on(late, &card, attempts - 1);
        expect_hangup(late);
        send_bytes(second, &exiting, sizeof(exiting));
    }
    rank_stop();
}

/* ---- descriptors whose close waits ---- */

#define CALL_MS 2000 /* of a caller: then its close is taken for one that waits */
#define CALL_TRIES 8

/*
 * Rank 1 of the job calls rank 0 as a process that is not in the job does: with a byte, and a descriptor of which it keeps no copy.
 * As another user, if that is possible, it is sent away at once; as this one, for what it sends.
 */
static void call_with_descriptor(const struct card *card, bool other_user, int ready)
{
    struct wire_frame noise = {.magic = 1};
    int other, lingering = lingering_socket(&other), fd, rc;

    if (other_user && (setgid(65534) != 0 || setuid(65534) != 0))
        _exit(9);
    fd = client(card, false);
    rc = pass_descriptor(fd, &noise, sizeof(noise), lingering, 1);
    if (received_refuse(fd, true)) /* this kernel can, and the test lets it */
        REQUIRE(rc == -EPERM || rc == -EPIPE, "the descriptor was taken: %d", rc);
    else
        REQUIRE(rc == 0 || rc == -EPIPE);
    if (rc == 0)
        close(lingering);
    if (rc == -EPERM)
        send_bytes(fd, &noise, sizeof(noise));
    expect_hangup(fd);
    REQUIRE(write(ready, "x", 1) == 1);
    pause(); /* with the other end of the connection whose close waits */
}

/* -1: the rank was faster, and has closed the descriptor first: the close of this process waits. */
static pid_t caller_try(const struct card *card, bool other_user)
{
    struct pollfd done = {.events = POLLIN};
    int ready[2];
    char byte;
    pid_t child;

    REQUIRE(pipe(ready) == 0);
    child = fork();
    if (child == 0) {
        control_forked();
        alarm(60);
        close(ready[0]);
        call_with_descriptor(card, other_user, ready[1]);
    }
    close(ready[1]);
    done.fd = ready[0];
    if (poll(&done, 1, CALL_MS) == 0) {
        REQUIRE(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
        child = -1;
    } else {
        REQUIRE(read(ready[0], &byte, 1) == 1, "the process with the descriptor has ended");
    }
    close(ready[0]);
    return child;
}

/* Until the last close is that of the rank. */
static pid_t caller_start(const struct card *card, bool other_user)
{
    pid_t child = -1;

    for (int tries = 0; tries < CALL_TRIES && child < 0; tries++)
        child = caller_try(card, other_user);
    REQUIRE(child >= 0, "each close of the caller waits");
    return child;
}

static void descriptors_delay_no_rank(int rank, int size)
{
    pid_t caller[2] = {0, 0};
    struct card card;
    double since;
    int i;

    (void)size;
    log_set_level(LOG_ERROR);
    rank_start(&hooks);
    barrier();
    since = now_ms();
    if (rank == 1) {
        own_card(0, &card);
        for (i = 0; i < 2; i++)
            caller[i] = caller_start(&card, i == 0 && geteuid() == 0);
    }
    barrier();
    REQUIRE(post_note((rank + 1) % size, 1, 1000, NULL, 0) == 0);
    AWAIT(atomic_load(&arrived) == 1);
    barrier();
    REQUIRE(control_stop(deadline_in_ms(1000), deadline_in_ms(LIMIT_MS), &(struct error){""}) == 0);
    (void)received_fds_stop(deadline_in_ms(100)); /* that close waits still */
    REQUIRE(now_ms() - since < 1000.0 * LINGER_S / 2, "%.0f ms", now_ms() - since);
    job_close();
    for (i = 0; i < 2 && caller[i] != 0; i++) {
        REQUIRE(kill(caller[i], SIGKILL) == 0);
        REQUIRE(waitpid(caller[i], NULL, 0) == caller[i]);
    }
}

static void test_a_descriptor_that_lingers_delays_no_rank(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "unix", 1);
    for (int old_kernel = 0; old_kernel < 2; old_kernel++) {
        received_refuses_never = old_kernel != 0;
        run_ranks(3, descriptors_delay_no_rank);
    }
    received_refuses_never = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANKS_BOTH(2, unauthenticated_clients_do_no_harm),
        cmocka_unit_test(test_a_peer_that_sends_invalid_data_is_disconnected),
        cmocka_unit_test(test_a_descriptor_that_lingers_delays_no_rank),
        RANKS_OVER("tcp", 2, exiting_is_sent_again),
    };

    return cmocka_run_group_tests_name("unauthenticated connections to the control network", tests,
                                       NULL, NULL);
}
