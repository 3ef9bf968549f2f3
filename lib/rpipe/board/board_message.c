/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board_message.c: the messages of boards (doc/boards.md "Messages"), see board_message.h. They are received by the service thread.
 *
 * A message of a board that this process has not opened leaves nothing behind but a count, and a LOST what it reports: a process requests the
 * memory of others when it opens.
 */
#include "rpipe/board/board_message.h"

#include "control/control.h"
#include "rpipe/end/message.h"
#include "util/failpoint.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG_MOST                                                                               \
    4096u /* messages that wait for a rank when one more CLOSED or WORD is sent to it */

static _Atomic unsigned board_message_warned;

static struct board_message board_message_of(const struct rboard *b, enum board_message_kind kind)
{
    return (struct board_message){.bytes = sizeof(struct board_message),
                                  .kind = (uint16_t)kind,
                                  .context = b->name->context,
                                  .ranks = b->name->ranks,
                                  .number = b->number,
                                  .members = (uint32_t)b->n};
}

int board_send_open(struct rboard *b, int member, bool request)
{
    struct board_message m = board_message_of(b, BOARD_OPEN);
    struct board_member *to = &b->member[member];
    struct board_peer *peer = boards_peer(to->rank);
    int rc;

    m.flags = request ? BOARD_ANSWER : 0;
    m.board_bytes = b->member[b->me].bytes;
    if (request && peer != NULL) {
        m.flags |= BOARD_COUNTED;
        m.got = to->got;
    }
    rc = control_post(to->rank, MESSAGE_BOARD, &m, sizeof(m), &b->fd, 1);
    if (rc == 0 && peer != NULL)
        to->sent = ++peer->sent;
    return rc;
}

/* Whether the sender of an OPEN requests the memory and will not get it by the OPEN that has been sent to it. */
static bool board_must_answer(const struct board_member *to, const struct board_message *m)
{
    if ((m->flags & BOARD_ANSWER) == 0 || to->answered)
        return false;
    return (m->flags & BOARD_COUNTED) == 0 || to->sent <= m->got;
}

/* A message that cannot be queued is dropped: its receiver is gone, or its waits end at their deadline. */
static void board_send_lost_to(const struct rboard *b, int member)
{
    const uint64_t lost = atomic_load_explicit(&b->lost, memory_order_relaxed);
    struct board_message m = board_message_of(b, BOARD_LOST);

    m.code = -(int32_t)(lost >> 32);
    m.lost = (uint32_t)lost;
    (void)control_post(b->member[member].rank, MESSAGE_BOARD, &m, sizeof(m), NULL, 0);
}

void board_send_lost(struct rboard *b, bool to_here, bool to_others)
{
    for (int i = 0; i < b->n; i++)
        if (i != b->me && (b->member[i].here ? to_here : to_others))
            board_send_lost_to(b, i);
}

int board_send_word(const struct rboard *b, int member, uint64_t word)
{
    const int rank = b->member[member].rank;
    struct board_message m = board_message_of(b, BOARD_WORD);

    m.word = word;
    if (control_backlog(rank) >= BACKLOG_MOST)
        return R_PENDING;
    return control_post(rank, MESSAGE_BOARD, &m, sizeof(m), NULL, 0);
}

/* The board that the message names has been closed here. */
static void board_send_closed(int to, const struct board_message *open)
{
    struct board_message m = *open;

    m.kind = BOARD_CLOSED;
    m.flags = 0;
    if (control_backlog(to) < BACKLOG_MOST)
        (void)control_post(to, MESSAGE_BOARD, &m, sizeof(m), NULL, 0);
}

/* ---- receiving ---- */

/* 0, or -errno and an error message. Besides the seals that segment_map() requires: no process but the owner, by the
 * mapping that it has, can write or punch holes. */
static int board_map(struct rboard *b, int sender, const struct board_message *m, int fd,
                     struct error *err)
{
    struct board_member *member = &b->member[sender];
    const int seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : 0;

    if (m->board_bytes != member->bytes)
        return error_set(err, -EPROTO, "bytes is %llu here and %llu there; all members must agree",
                         (unsigned long long)member->bytes, (unsigned long long)m->board_bytes);
    if (fd < 0)
        return error_set(err, -EMFILE,
                         "there was no file descriptor left to receive it (see ulimit -n)");
    if (seals < 0 || (seals & F_SEAL_FUTURE_WRITE) == 0)
        return error_set(err, -EPROTO, "it is not memory with F_SEAL_FUTURE_WRITE (seals %#x)",
                         (unsigned)seals);
    return segment_map_late(fd, board_segment_bytes(b, sender), b->late.bytes, &member->segment,
                            err);
}

static const _Atomic uint32_t *board_sleepers_in(const struct rboard *b, int member)
{
    return (const _Atomic uint32_t *)(const void *)((const char *)b->member[member].segment.base +
                                                    board_line(b, member));
}

static void board_on_open(struct rboard *b, int sender, const struct board_message *m, int fd)
{
    struct board_member *member = &b->member[sender];
    struct error err = {""};
    int rc;

    if (!member->here)
        return;
    if (b->fd >= 0 && board_must_answer(member, m)) {
        member->answered = true;
        rc = board_send_open(b, sender, false);
        if (rc != 0)
            log_few(&board_message_warned, "the memory of a board cannot be passed to rank %d: %s",
                    member->rank, strerror(-rc));
        if (atomic_load_explicit(&b->lost, memory_order_relaxed) != 0)
            board_send_lost_to(b, sender); /* it had not opened the board when the loss was sent */
    }
    if (!member->awaited)
        return;
    RPIPE_FAILPOINT("board: memory received");
    rc = board_map(b, sender, m, fd, &err);
    RPIPE_FAILPOINT("board: memory mapped");
    if (rc != 0) {
        board_refuse(b, sender, rc, "the memory of member %d, rank %d, cannot be mapped: %s",
                     sender, member->rank, err.text);
        return;
    }
    /* release: pairs with the acquire in rboard_mem_of and rboard_wake: the pages are mapped */
    atomic_store_explicit(&b->sleepers[member->mate], board_sleepers_in(b, sender),
                          memory_order_release);
    atomic_store_explicit(&member->mem, member->segment.base, memory_order_release);
    board_arrived(b, sender);
    if (b->goes_on)
        board_wake_own(b); /* its state has changed */
}

/* A member of another host is reported by itself, by its host, or by this one; the members of this host are watched here. */
static void board_on_lost(struct rboard *b, int sender, const struct board_message *m)
{
    const struct board_member *lost, *from = &b->member[sender];

    if (m->lost >= (uint32_t)b->n || m->code >= 0 || m->code <= -4096)
        return;
    lost = &b->member[m->lost];
    if ((int)m->lost == sender || (!lost->here && (from->here || from->host == lost->host)))
        board_set_state(b, (int)m->lost, m->code);
    (void)board_set_lost(b, m->code, (int)m->lost);
}

/* The loss of a board that is not open yet; it has another number than each that is open or has been closed. */
static void board_keep_lost(int from, const struct board_message *m)
{
    boards_keep_early(from, &(struct board_early){.context = m->context,
                                                  .ranks = m->ranks,
                                                  .number = m->number,
                                                  .members = m->members,
                                                  .lost = m->lost,
                                                  .code = m->code});
}

/* The losses that a member has reported; those of a byzantine one are checked as if they came now. */
static void board_take_early_of(struct rboard *b, int member, struct board_peer *peer)
{
    for (int i = 0; i < BOARD_EARLY; i++) {
        struct board_early *e = &peer->early[i];
        struct board_message m = {.lost = e->lost, .code = e->code};

        if (e->number != b->number || e->context != b->name->context ||
            e->ranks != b->name->ranks || e->members != (uint32_t)b->n)
            continue;
        *e = (struct board_early){.number = 0};
        board_on_lost(b, member, &m);
    }
}

void board_take_early(struct rboard *b)
{
    for (int i = 0; i < b->n && boards_have_early(); i++) {
        struct board_peer *peer = i != b->me ? boards_peer(b->member[i].rank) : NULL;

        if (peer != NULL && peer->early != NULL)
            board_take_early_of(b, i, peer);
    }
}

/* Another member; -1: the rank is none. */
static int board_find_member(const struct rboard *b, int rank)
{
    for (int i = 0; i < b->n; i++)
        if (b->member[i].rank == rank && i != b->me)
            return i;
    return -1;
}

static void board_on_message(struct rboard *b, int from, const struct board_message *m, int fd)
{
    const int sender = board_find_member(b, from);

    if (m->members != (uint32_t)b->n || sender < 0) {
        log_few(
            &board_message_warned,
            "rank %d: message about a board of %u members ignored: it has %d, and the rank is %s",
            from, m->members, b->n, sender < 0 ? "none of them" : "one of them");
        return;
    }
    switch (m->kind) {
    case BOARD_OPEN:
        board_on_open(b, sender, m, fd);
        break;
    case BOARD_CLOSED:
        if (b->member[sender].awaited)
            board_refuse(b, sender, -EPIPE, "member %d, rank %d, has closed this board", sender,
                         from);
        break;
    case BOARD_LOST:
        board_on_lost(b, sender, m);
        break;
    case BOARD_WORD:
        board_keep_word(b, sender, m->word);
        break;
    default:
        log_few(&board_message_warned, "rank %d: message %u about a board ignored", from, m->kind);
    }
}

static void board_dispatch(int from, const struct board_message *m, int fd)
{
    const struct board_name *name;

    pthread_mutex_lock(&boards_lock);
    if (m->kind == BOARD_OPEN)
        boards_count_open(from);
    name = boards_name(m->context, m->ranks, false);
    if (name != NULL && name->board != NULL && name->board->number == m->number)
        board_on_message(name->board, from, m, fd);
    else if (m->kind == BOARD_LOST && m->number > (name != NULL ? name->opened : 0))
        board_keep_lost(from, m);
    else if (name != NULL && m->kind == BOARD_OPEN && m->number <= name->opened)
        board_send_closed(from, m);
    pthread_mutex_unlock(&boards_lock);
}

static void board_receive(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                          int nfds)
{
    struct board_message m = {0};

    (void)type;
    if (bytes >= sizeof(m)) /* members that a newer version appends are ignored */
        memcpy(&m, body, sizeof(m));
    if (m.bytes != bytes)
        log_few(&board_message_warned,
                "rank %d: malformed message about a board ignored (%zu bytes, expected %zu)", from,
                bytes, sizeof(m));
    else
        board_dispatch(from, &m, nfds == 1 ? fds[0] : -1);
}

void board_message_start(void)
{
    static const struct message_handler handler = {.of_none = board_receive};

    message_register(MESSAGE_BOARD, &handler);
}
