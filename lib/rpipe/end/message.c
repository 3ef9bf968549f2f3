/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c: see message.h. */
#include "rpipe/end/message.h"

#include "control/control.h"
#include "control/peer_end.h"
#include "control/post.h"
#include "rpipe/end/config.h"
#include "util/log.h"
#include "util/received_fd.h"

#include <errno.h>
#include <string.h>

#define ANSWERS_MOST (1u << 20) /* messages that wait for a peer when it requests one more answer */

#define KNOWN_MOST 1024 /* bytes of the largest message */

static const struct message_handler *message_handlers[MESSAGE_TYPES_END];
static _Atomic unsigned message_warned;

static const char *message_name(uint32_t type)
{
    static const char *const name[] = {
        "HANDSHAKE", "CLOSE",  "FAIL",   "EVENT_ON",    "EVENT_ACK", "BTL",         "GROW",
        "GROWN",     "SIGNAL", "ATOMIC", "ATOMIC_DONE", "CLOCK",     "CLOCK_REPLY", "STARVED"};
    size_t at = type - MESSAGE_HANDSHAKE;

    return at < sizeof(name) / sizeof(name[0]) ? name[at] : "unknown";
}

/* ---- sending ---- */

struct end_message_head message_head(const struct rch *ch, size_t bytes, uint64_t number)
{
    return (struct end_message_head){.bytes = (uint32_t)bytes,
                                     .version = PROTOCOL_NEWEST,
                                     .role = (uint8_t)config_side(&ch->cfg),
                                     .context = ch->cfg.context,
                                     .end_number = ch->end.number,
                                     .number = number};
}

struct end_message_head message_answer(const struct end_message_head *head, size_t bytes)
{
    return (struct end_message_head){.bytes = (uint32_t)bytes,
                                     .version = PROTOCOL_NEWEST,
                                     .role = (uint8_t)side_other((enum side)head->role),
                                     .flags = MESSAGE_OF_RECEIVER,
                                     .context = head->context,
                                     .end_number = head->end_number};
}

int message_post(int peer, enum message_type type, const struct end_message_head *message,
                 const int *fd)
{
    return control_post(peer, type, message, message->bytes, fd, fd != NULL);
}

int message_post_head(const struct rch *ch, enum message_type type, uint64_t number)
{
    struct end_message_head head = message_head(ch, sizeof(head), number);

    return message_post(ch->peer, type, &head, NULL);
}

/* ---- receiving ---- */

void message_register(uint32_t type, const struct message_handler *handler)
{
    assert(handler->known <= KNOWN_MOST);
    message_handlers[type] = handler;
}

static size_t message_least(const struct message_handler *handler)
{
    return handler->least != 0 ? handler->least : sizeof(struct end_message_head);
}

/* Copies the message, zero-extended. False: malformed. */
static bool message_read(const struct message_handler *handler, const void *body, size_t bytes,
                         unsigned char *copy)
{
    struct end_message_head *head = (struct end_message_head *)(void *)copy;

    if (bytes < message_least(handler))
        return false;
    memset(copy, 0, handler->known);
    memcpy(copy, body, bytes < handler->known ? bytes : handler->known);
    return head->bytes == bytes && (head->role == SIDE_WRITER || head->role == SIDE_READER) &&
           head->end_number != 0;
}

/* The end that a message concerns; NULL: there is none. */
static struct rendezvous_end *message_find_end(const struct message *m)
{
    const struct end_message_head *head = m->head;
    struct rendezvous *r =
        rendezvous_find(m->from, side_other((enum side)head->role), head->context, false);
    struct rendezvous_end *end;

    if (r == NULL)
        return NULL;
    if ((head->flags & MESSAGE_OF_RECEIVER) == 0)
        return rendezvous_find_paired(r, head->end_number);
    end = rendezvous_find_own(r, head->end_number);
    if (end != NULL)
        end->paired = true; /* no end of the peer will belong to it */
    return end;
}

static void message_deliver(const struct message_handler *handler, struct message *m)
{
    struct rendezvous_end *end = message_find_end(m);
    struct rch *ch = end != NULL ? container_of(end, struct rch, end) : NULL;

    if (handler->of_any != NULL)
        handler->of_any(ch, m);
    else if (ch != NULL &&
             (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) == 0)
        handler->of_open(ch, m);
}

bool message_post_answer(struct message *m, enum message_type type,
                         const struct end_message_head *answer)
{
    if (control_backlog(m->from) > ANSWERS_MOST)
        m->violation = "it requests answers and does not receive them";
    else if (message_post(m->from, type, answer, NULL) == -ENOMEM)
        m->rc = -ENOMEM;
    return m->violation == NULL && m->rc == 0;
}

int message_dispatch(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                     int nfds)
{
    const struct message_handler *handler =
        type < MESSAGE_TYPES_END ? message_handlers[type] : NULL;
    _Alignas(struct end_message_head) unsigned char copy[KNOWN_MOST];
    struct message m = {from, (struct end_message_head *)(void *)copy, nfds == 1 ? fds[0] : -1, 0,
                        NULL};

    if (handler != NULL && handler->of_none != NULL) {
        handler->of_none(from, type, body, bytes, fds, nfds);
    } else if (handler == NULL) {
        log_few(&message_warned, "rank %d: message of unknown type %u ignored (%zu bytes)", from,
                type, bytes);
    } else if (!message_read(handler, body, bytes, copy)) {
        log_few(&message_warned,
                "rank %d: malformed %s message ignored (%zu bytes, expected at least %zu)", from,
                message_name(type), bytes, message_least(handler));
    } else {
        rendezvous_lock();
        message_deliver(handler, &m);
        rendezvous_unlock();
    }
    if (nfds == 1)
        received_fd_close(m.fd);
    for (int i = 0; nfds > 1 && i < nfds; i++)
        received_fd_close(fds[i]);
    if (m.violation != NULL)
        control_cut_off(from, m.violation);
    return nfds == 0 ? m.rc : 0;
}
