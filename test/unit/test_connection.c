/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_connection.c: frames over a socket pair: every split of the bytes, descriptors, and random damage.
 *
 * The seed is printed and can be given as the argument.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/lib/lingering.h"

#include "control/connection.h"
#include "util/fork_fds.h"
#include "util/clock.h"
#include "util/received_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned seed;
static struct error err;

static unsigned random_below(unsigned sides) { return (unsigned)rand_r(&seed) % sides; }

static void make_pair(struct connection **from, struct connection **to)
{
    int fds[2];

    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
                       errno);
    *from = connection_new(fds[0], true, true);
    *to = connection_new(fds[1], true, false);
    assert_true(*from != NULL && *to != NULL);
    (*from)->state = (*to)->state = CONNECTION_OPEN;
    (*to)->body_max = CONTROL_BODY_MAX;
}

static void end_pair(struct connection *from, struct connection *to)
{
    connection_close(from);
    connection_close(to);
    connection_free(from);
    connection_free(to);
}

static int open_descriptors(void)
{
    int fd, count = 0;

    assert_int_equal(received_fds_stop(DEADLINE_NEVER), 0); /* what is closed by threads, too */
    for (fd = 0; fd < 1000; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static struct message *make_message(uint32_t number)
{
    static uint8_t body[CONTROL_BODY_MAX];
    int fds[CONTROL_FDS_MAX],
        nfds = random_below(3) == 0 ? (int)random_below(CONTROL_FDS_MAX + 1) : 0, i;
    size_t bytes = random_below(20) == 0  ? CONTROL_BODY_MAX
                   : random_below(4) == 0 ? random_below(5000)
                                          : random_below(100),
           k;
    struct message *m;

    for (k = 0; k < bytes; k++)
        body[k] = (uint8_t)(k * 3 + number);
    for (i = 0; i < nfds; i++) {
        fds[i] = memfd_create("test", MFD_CLOEXEC);
        assert_return_code(fds[i], errno);
        assert_return_code(ftruncate(fds[i], (off_t)(number * 10 + (unsigned)i)), errno);
    }
    m = message_new(number, body, bytes, fds, nfds);
    assert_non_null(m);
    for (i = 0; i < nfds; i++)
        close(fds[i]);
    return m;
}

static void look_at(struct connection *c, const struct wire_frame *frame, const void *body,
                    uint32_t number)
{
    const uint8_t *b = body;
    size_t k;
    int i;

    assert_int_equal(frame->type, number);
    assert_int_equal((uintptr_t)body % 8, 0);
    for (k = 0; k < frame->body_bytes; k++)
        assert_int_equal(b[k], (uint8_t)(k * 3 + number));
    for (i = 0; i < (int)frame->nfds; i++)
        assert_int_equal(lseek(c->fds[i], 0, SEEK_END), (off_t)(number * 10 + (unsigned)i));
}

static void test_frames_and_descriptors_in_any_portion(void **state)
{
    int before = open_descriptors(), small = 4096, round;
    struct connection *from, *to;
    const struct wire_frame *frame;
    const void *body;
    uint32_t sent, got;

    (void)state;
    for (round = 0; round < 20; round++) {
        uint64_t gone = 0;

        make_pair(&from, &to);
        if (round % 2 != 0)
            setsockopt(from->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        for (sent = got = 0; got < 400;) {
            int result;

            while (sent < 400 && random_below(3) != 0)
                connection_queue(from, make_message(++sent));
            result = connection_send(from, &gone);
            assert_true(result == 0 || result == -EAGAIN);
            while (random_below(4) != 0) {
                ssize_t n = connection_receive(to, &err);

                assert_true(n > 0 || n == -EAGAIN);
                while (connection_frame(to, &frame, &body, &err) == 1) {
                    look_at(to, frame, body, ++got);
                    connection_consume(to, frame);
                }
                if (n < 0)
                    break;
            }
        }
        assert_int_equal(gone, 400);
        assert_int_equal(to->nfds, 0);
        end_pair(from, to);
    }
    assert_int_equal(open_descriptors(), before);
}

static void test_every_split_of_the_bytes(void **state)
{
    static uint8_t stream[3 * 200];
    struct connection *from, *to;
    const struct wire_frame *frame;
    const void *body;
    size_t length = 0, cut, first;
    int k, got;

    (void)state;
    for (k = 1; k <= 3; k++) {
        struct wire_frame f = {.bytes = sizeof(f) + (k == 2 ? 8 : 0), /* one of a later version */
                               .magic = WIRE_FRAME_MAGIC,
                               .type = (uint16_t)k,
                               .body_bytes = (uint32_t)(k * 41)};
        size_t i;

        memcpy(stream + length, &f, sizeof(f));
        for (i = 0; i < f.body_bytes; i++)
            stream[length + f.bytes + i] = (uint8_t)(i * 3 + (size_t)k);
        length += wire_frame_bytes(&f);
    }
    for (first = 1; first < length; first++) {
        make_pair(&from, &to);
        for (cut = 0, got = 0; cut < length; cut += first) {
            size_t n = length - cut < first ? length - cut : first;

            assert_int_equal(send(from->fd, stream + cut, n, 0), n);
            assert_true(connection_receive(to, &err) > 0);
            while (connection_frame(to, &frame, &body, &err) == 1) {
                look_at(to, frame, body, (uint32_t)++got);
                connection_consume(to, frame);
            }
        }
        assert_int_equal(got, 3);
        end_pair(from, to);
    }
}

/* Damage is refused or is another message, and never anything else; descriptors do not stay behind. */
static void test_damaged_streams(void **state)
{
    int before = open_descriptors(), round, refused = 0;
    struct connection *from, *to;
    const struct wire_frame *frame;
    const void *body;

    (void)state;
    for (round = 0; round < 3000; round++) {
        static uint8_t bytes[4096]; /* space behind the body, for a header that claims more */
        int result = 0, i, fds[CONTROL_FDS_MAX] = {0};
        uint64_t gone = 0;
        struct message *m;
        ssize_t got = 0;

        make_pair(&from, &to);
        for (i = 0; i < 3; i++) { /* with more, or fewer, descriptors than announced */
            m = message_new(100, bytes, sizeof(bytes), fds, (int)random_below(3));
            assert_non_null(m);
            m->frame.body_bytes = random_below(150);
            if (random_below(4) == 0)
                m->frame.nfds = (uint16_t)random_below(12);
            if (random_below(6) == 0)
                ((uint8_t *)&m->frame)[random_below(sizeof(m->frame))] ^=
                    (uint8_t)(1u << random_below(8));
            if (random_below(6) == 0)
                m->frame.body_bytes = m->frame.body_bytes > 8
                                          ? m->frame.body_bytes - 8
                                          : 0; /* the rest is taken for a header */
            connection_queue(from, m);
            if (message_bytes(m) >
                sizeof(m->frame) +
                    sizeof(bytes)) { /* lengths that we cannot send: as much as there is */
                list_remove(&m->link);
                send(from->fd, &m->frame, sizeof(m->frame), 0);
                message_free(m);
            }
        }
        connection_send(from, &gone);
        shutdown(from->fd, SHUT_WR);
        while (result >= 0 && (got = connection_receive(to, &err)) != 0) {
            assert_true(got > 0 || got == -EPROTO || got == -ENOMEM); /* they wait to be closed */
            while ((result = connection_frame(to, &frame, &body, &err)) == 1)
                connection_consume(to, frame);
            result = got == -EPROTO ? -EPROTO : result;
        }
        refused += result < 0;
        end_pair(from, to);
    }
    assert_true(refused > 500);
    assert_int_equal(open_descriptors(), before);
}

static void test_more_descriptors_than_allowed(void **state)
{
    int before = open_descriptors(), fds[20], i;
    char space[CMSG_SPACE(sizeof(fds))] = {0}, byte = 'x';
    struct iovec iov = {&byte, 1};
    struct msghdr header = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&header);
    struct connection *from, *to;

    (void)state;
    make_pair(&from, &to);
    for (i = 0; i < 20; i++)
        fds[i] = 0;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    assert_int_equal(sendmsg(from->fd, &header, 0), 1);
    assert_int_equal(connection_receive(to, &err), -EPROTO);
    end_pair(from, to);
    assert_int_equal(open_descriptors(), before);
}

/* A process at its limit gets the message, with -1 for each descriptor that it had no number for, and then the next one. */
static void test_no_descriptors_left(void **state)
{
    int before = open_descriptors(), fds[4] = {0, 0, 0, 0}, top;
    struct connection *from, *to;
    const struct wire_frame *frame;
    struct rlimit old, low;
    const void *body;
    uint64_t gone = 0;

    (void)state;
    make_pair(&from, &to);
    connection_queue(from, message_new(100, "0123456", 8, fds, 1));
    connection_queue(from, message_new(101, "0123456", 8, fds, 4));
    connection_queue(from, message_new(102, "0123456", 8, fds, 2));
    assert_int_equal(connection_send(from, &gone), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    top = fcntl(0, F_DUPFD, 3); /* the lowest that is free */
    assert_return_code(top, errno);
    close(top);
    low = old;
    low.rlim_cur = (rlim_t)top + 2; /* space for two */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_true(connection_receive(to, &err) > 0);
    assert_int_equal(connection_frame(to, &frame, &body, &err), 1);
    assert_true(frame->type == 100 && frame->nfds == 1 && to->fds[0] >= 0);
    top = to->fds[0]; /* is kept: one place is left */
    fork_fds_forget(top);
    to->fds[0] = -1;
    connection_consume(to, frame);
    assert_true(connection_receive(to, &err) > 0);
    assert_int_equal(connection_frame(to, &frame, &body, &err), 1);
    assert_true(frame->type == 101 && frame->nfds == 4 && to->nfds == 4);
    assert_true(to->fds[0] >= 0 && to->fds[1] == -1 && to->fds[2] == -1 && to->fds[3] == -1);
    connection_consume(to, frame);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_true(connection_receive(to, &err) > 0);
    assert_int_equal(connection_frame(to, &frame, &body, &err), 1);
    assert_true(frame->type == 102 && to->nfds == 2 && to->fds[0] >= 0 && to->fds[1] >= 0);
    connection_consume(to, frame);
    close(top);
    end_pair(from, to);
    assert_int_equal(open_descriptors(), before);
}

/* ---- descriptors that are no memory ---- */

static void send_descriptor(struct connection *from, int fd)
{
    uint64_t gone = 0;

    connection_queue(from, message_new(100, NULL, 0, &fd, 1));
    assert_int_equal(connection_send(from, &gone), 0);
}

/* As many closes that wait as ranks may have; and of rank 0 more that wait for a thread. */
static int occupy(int *others, int ranks)
{
    int n = 0, i, fd;

    for (i = 0; i < 2 * ranks; i++) {
        fd = lingering_socket(&others[n++]);
        received_fd_set_source(fd, RECEIVED_OF_RANK(i / 2));
        received_fd_close(fd);
        while (fcntl(fd, F_GETFD) >= 0)
            usleep(1000);
    }
    for (i = 0; i < 70; i++) { /* of rank 0 */
        fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
        received_fd_set_source(fd, RECEIVED_OF_RANK(0));
        received_fd_close(fd);
    }
    return n;
}

/* A rank is cut off for what waits to be closed of its own, and not for what is in use, or waits of others. */
static void test_descriptors_in_use_do_not_count(void **state)
{
    int before = open_descriptors(), others[8], n, i, kept[100];
    struct connection *from, *to, *from_other, *to_other;
    const struct wire_frame *frame;
    struct rlimit limit, less;
    const void *body;

    (void)state;
    make_pair(&from, &to);
    make_pair(&from_other, &to_other);
    received_fd_set_source(to->fd, RECEIVED_OF_RANK(7));
    received_fd_set_source(to_other->fd, RECEIVED_OF_RANK(0));
    n = occupy(others, 4);
    assert_return_code(getrlimit(RLIMIT_NOFILE, &limit), errno);
    less = limit;
    less.rlim_cur = 270;
    assert_return_code(setrlimit(RLIMIT_NOFILE, &less), errno);
    assert_true(received_fds_crowded());
    for (i = 0; i < 100; i++) {
        send_descriptor(from, from->fd);
        while (connection_frame(to, &frame, &body, &err) == 0)
            assert_true(connection_receive(to, &err) > 0);
        kept[i] = to->fds[0];
        to->fds[0] = -1;
        connection_consume(to, frame);
    }
    send_descriptor(from_other, from_other->fd);
    assert_int_equal(connection_receive(to_other, &err), -ENOMEM);
    for (i = 0; i < 200 && connection_receive(to_other, &err) == -ENOMEM; i++)
        usleep(10000);
    assert_int_equal(connection_receive(to_other, &err), -EPROTO);
    assert_non_null(strstr(err.text, "wait to be closed"));
    assert_return_code(setrlimit(RLIMIT_NOFILE, &limit), errno);
    for (i = 0; i < 100; i++)
        received_fd_close(kept[i]);
    while (n > 0)
        close(others[--n]);
    end_pair(from, to);
    end_pair(from_other, to_other);
    assert_int_equal(open_descriptors(), before);
}

/* They stay in the socket: a connection that has not greeted takes no number of this process. */
static void test_no_descriptors_before_the_greeting(void **state)
{
    int before = open_descriptors();
    struct connection *from, *to;

    (void)state;
    make_pair(&from, &to);
    to->state = CONNECTION_ACCEPTED;
    send_descriptor(from, from->fd);
    assert_int_equal(connection_receive(to, &err), -EPROTO);
    assert_int_equal(to->nfds, 0);
    assert_int_equal(open_descriptors(), before + 2);
    end_pair(from, to);
    assert_int_equal(open_descriptors(), before);
}

static void test_owned_descriptors_can_be_closed_together(void **state)
{
    int before = open_descriptors(), fds[50], i;

    (void)state;
    for (i = 0; i < 50; i++) {
        fds[i] = dup(0);
        assert_return_code(fds[i], errno);
        fork_fds_add(fds[i]);
    }
    fork_fds_add(-1);
    fork_fds_forget(fds[7]);
    fork_fds_close(fds[8]);
    fork_fds_close_all();
    assert_int_equal(open_descriptors(), before + 1);
    assert_return_code(fcntl(fds[7], F_GETFD), errno);
    close(fds[7]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_and_descriptors_in_any_portion),
        cmocka_unit_test(test_every_split_of_the_bytes),
        cmocka_unit_test(test_damaged_streams),
        cmocka_unit_test(test_more_descriptors_than_allowed),
        cmocka_unit_test(test_no_descriptors_left),
        cmocka_unit_test(test_descriptors_in_use_do_not_count),
        cmocka_unit_test(test_no_descriptors_before_the_greeting),
        cmocka_unit_test(test_owned_descriptors_can_be_closed_together),
    };

    seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : (unsigned)clock_now();
    printf("seed %u\n", seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
