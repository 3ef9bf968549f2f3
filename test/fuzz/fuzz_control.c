/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_control.c: control messages about channels: handshakes, close messages, failures, events, growth, cells, shared memory.
 *
 * A pipe whose heap grows and one with cells are open. Each message is one as it should be, with words of the fuzzer's in it, or all of the
 * fuzzer's, sent to this rank itself: the service thread receives it like any other. Calls are made in between.
 */
#include "victim.h"
#include "test/lib/cells.h"

#include "control/control.h"
#include "rpipe/connect/handshake.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define BODY_MOST 1200
#define CTX_MOST 16 /* what is never opened is kept for ever */

struct fuzz {
    struct victim pipe, cells;
};

static void put32(uint8_t *body, size_t at, uint32_t value)
{
    memcpy(body + at, &value, sizeof(value));
}

static struct end_message_head *head_of(uint8_t *body)
{
    return (struct end_message_head *)(void *)body;
}

/* How long a message of this type is, and the beginning of one: about an end that is open. */
static size_t make(struct fuzz *f, uint32_t type, uint32_t how, uint8_t body[BODY_MOST])
{
    struct victim *v = type == MESSAGE_ATOMIC || type == MESSAGE_ATOMIC_DONE || (how & 1) != 0
                           ? &f->cells
                           : &f->pipe;
    rch_t ch = (how & 2) != 0 ? v->w : v->r;

    memset(body, 0, BODY_MOST);
    if (type == MESSAGE_HANDSHAKE) {
        handshake_make(ch, (struct handshake *)(void *)body);
        return HANDSHAKE_BYTES;
    }
    if (type == MESSAGE_BTL) {
        put32(body, 0, 1);
        return 24;
    }
    *head_of(body) = message_head(ch, sizeof(struct end_message_head), 0);
    if (type == MESSAGE_GROW || type == MESSAGE_GROWN || type == MESSAGE_ATOMIC ||
        type == MESSAGE_ATOMIC_DONE)
        head_of(body)->bytes = 72;
    if (type == MESSAGE_FAIL)
        head_of(body)->bytes = sizeof(struct fail_message);
    return head_of(body)->bytes;
}

static int some_fd(uint32_t how)
{
    int fd;

    if (how == 0)
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && fallocate(fd, 0, 0, 4096) == 0 && how > 1)
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    return fd;
}

static void say(struct fuzz *f, struct input *in)
{
    static _Alignas(struct handshake) uint8_t body[BODY_MOST];
    uint32_t how = input_byte(in), type = MESSAGE_HANDSHAKE + (how & 15), words = input_byte(in),
             at;
    size_t bytes = make(f, type, how >> 4, body);
    int fd = (words & 64) != 0 ? some_fd(words >> 4 & 3) : -1;

    if ((how & 64) != 0) {
        bytes = input_word(in) % BODY_MOST;
        if (type != MESSAGE_BTL)
            head_of(body)->bytes = (uint32_t)bytes;
    }
    for (words &= 15; words > 0; words--) {
        at = input_byte(in) * 4;
        put32(body, at % (BODY_MOST - 4), (uint32_t)input_number(in));
    }
    if (type != MESSAGE_BTL)
        head_of(body)->context %= CTX_MOST;
    (void)control_post(0, type, body, bytes, &fd, fd >= 0);
    if (fd >= 0)
        close(fd);
}

static void use(struct fuzz *f, uint32_t how)
{
    uint64_t old;

    if ((how & 3) == 0) {
        victim_write(&f->pipe, how >> 2 & 1 ? VICTIM_HEAP + how : how);
        victim_read(&f->pipe);
    } else if ((how & 3) == 1) {
        victim_give_back(&f->pipe, how >> 2);
    } else if ((how & 3) == 2) {
        victim_judge(f->cells.r,
                     rcells_atomic(cells_at(f->cells.r), RCELLS_ADD, how >> 2 & 7, 1, 0, &old));
    } else {
        (void)rfd(f->pipe.r);
    }
}

/* What was kept for ends that are never opened. */
static void forget(void)
{
    struct rendezvous *m;

    rendezvous_lock();
    while ((m = rendezvous_next_waiting(NULL)) != NULL)
        rendezvous_drop_handshake(rendezvous_first_handshake(m));
    rendezvous_unlock();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct fuzz f;

    victim_start();
    victim_open(&f.pipe, (input_byte(&in) & 1) != 0 ? RPIPE_PUT : RPIPE_GET, 0x80, 1);
    victim_open_cells(&f.cells, 2);
    for (unsigned n = 0; n < 100 && !input_is_empty(&in); n++) {
        uint32_t what = input_byte(&in);

        if ((what & 3) != 0) {
            say(&f, &in);
        } else {
            REQUIRE(control_flush(0, deadline_in_ms(20000)) == 0);
            use(&f, what >> 2);
        }
    }
    REQUIRE(control_flush(0, deadline_in_ms(20000)) == 0);
    victim_close(&f.pipe);
    victim_close_cells(&f.cells);
    REQUIRE(control_flush(0, deadline_in_ms(20000)) == 0);
    forget();
    return 0;
}
