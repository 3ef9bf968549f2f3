/* SPDX-License-Identifier: BSD-3-Clause */
/* altered_message.c: the messages of the byzantine rank of altered.h: each as it should be, but for one field, its length, or its descriptors. */
#include "altered.h"
#include "altered_layouts.h"

#include "control/control.h"
#include "control/endpoint.h"
#include "control/peer_card.h"
#include "test/lib/lingering.h"

#define GOOD_MEMORY 1 /* of descriptors_make */
#define UNIX_SOCKET 7
#define FOREIGN                                                                                    \
    (UINT32_C(1) << 31) /* numbers of ends that the byzantine rank does not have otherwise */
#define UNKNOWN_TYPE 90

int wire_socket(int peer); /* passed_descriptors_wire.c: the socket of the outgoing connection */

struct forged {
    uint32_t type;
    size_t bytes;
    int fds[8], nfds;
    _Alignas(8) unsigned char body[CONTROL_BODY_MAX + 8];
};

static struct end_message_head *head_of(struct forged *m)
{
    return (struct end_message_head *)(void *)m->body;
}

/* ---- messages as they should be ---- */

static void make_handshake(struct forged *m, rch_t ch, const struct altered_case *c,
                           uint64_t serial)
{
    handshake_make(ch, (struct handshake *)(void *)m->body);
    if (c->target->place != IN_HANDSHAKE)
        return;
    head_of(m)->context = FORGED_CONTEXT(serial);
    head_of(m)->end_number = FOREIGN | (uint32_t)serial;
}

static void make_of_end(struct forged *m, rch_t ch)
{
    struct fail_message *fail = (struct fail_message *)(void *)m->body;
    struct grow_message *grow = (struct grow_message *)(void *)m->body;
    struct cells_message *cells = (struct cells_message *)(void *)m->body;
    struct starved_message *starved = (struct starved_message *)(void *)m->body;

    *head_of(m) = message_head(ch, m->bytes, 1);
    switch (m->type) {
    case MESSAGE_CLOSE:
        head_of(m)->number = 4;
        break;
    case MESSAGE_FAIL:
        fail->head.code = -EPROTO;
        memcpy(fail->reason, "a violation was found", 22);
        break;
    case MESSAGE_GROW:
    case MESSAGE_GROWN:
        grow->bytes = HEAP_OF_PIPE;
        grow->key = ch->heap_memory.slab != NULL ? ch->heap_memory.key : ch->ring_memory.key;
        break;
    case MESSAGE_ATOMIC:
    case MESSAGE_ATOMIC_DONE:
        cells->op = RCELLS_ADD;
        cells->cell = 1;
        cells->operand = 5;
        break;
    case MESSAGE_STARVED:
        starved->bytes = 1024;
        starved->waited = 50;
        break;
    default:
        break;
    }
}

static void make_segment(struct forged *m, uint64_t serial)
{
    const struct shm_message segment = {SHM_SEGMENT, BTL_PEER_WRITES, 100000 + serial,
                                        HEAP_OF_PIPE};

    memcpy(m->body, &segment, sizeof(segment));
}

static void make(struct forged *m, rch_t ch, const struct altered_case *c, uint64_t serial)
{
    const struct chunk chunk = {.bytes = sizeof(chunk),
                                .lane = LANE_USER,
                                .kind = CHUNK_MESSAGE,
                                .culprit = -1,
                                .total = 8};
    const struct ack ack = {sizeof(ack), LANE_USER, 0};
    const struct clock_note note = {1, 1000000, 0};
    uint64_t kind = c->how == ALTER_DESCRIPTOR ? c->value : 0;

    memset(m, 0, sizeof(*m));
    m->type = c->target->type;
    m->bytes = c->target->layout->bytes;
    switch (m->type) {
    case MESSAGE_HANDSHAKE:
        make_handshake(m, ch, c, serial);
        break;
    case MESSAGE_BTL:
        make_segment(m, serial);
        kind = c->how == ALTER_DESCRIPTOR ? kind : GOOD_MEMORY;
        break;
    case MESSAGE_CLOCK:
    case MESSAGE_CLOCK_REPLY:
        memcpy(m->body, &note, sizeof(note));
        break;
    case WIRE_CHUNK:
        memcpy(m->body, &chunk, sizeof(chunk));
        m->bytes += 8;
        break;
    case WIRE_ACK:
        memcpy(m->body, &ack, sizeof(ack));
        break;
    default:
        make_of_end(m, ch);
        if (m->type == MESSAGE_EVENT_ON && c->how != ALTER_DESCRIPTOR)
            kind = UNIX_SOCKET;
    }
    m->nfds = descriptors_make(kind, ch, m->fds);
}

/* ---- altered ---- */

static void alter(struct forged *m, const struct altered_case *c)
{
    const bool has_length =
        m->type != MESSAGE_BTL && m->type != MESSAGE_CLOCK && m->type != MESSAGE_CLOCK_REPLY;
    uint32_t length = (uint32_t)c->value;

    if (c->how == ALTER_TO || c->how == ALTER_BY)
        case_store(c, m->body, case_word(c, m->body));
    if (c->how == ALTER_LENGTH || c->how == ALTER_BOTH_LENGTHS)
        m->bytes = (size_t)c->value;
    if (c->how == ALTER_BOTH_LENGTHS && has_length)
        memcpy(m->body, &length, sizeof(length));
}

static void post(struct forged *m)
{
    if (control_post(VICTIM, m->type, m->body, m->bytes, m->nfds > 0 ? m->fds : NULL, m->nfds) != 0)
        (void)control_post(VICTIM, m->type, m->body, m->bytes, NULL, 0);
    (void)control_flush(VICTIM, deadline_in_ms(SETUP_MS));
    descriptors_drop(m->fds, m->nfds);
}

/* ---- bytes of connections ---- */

static void send_bytes(int to, const void *what, size_t bytes, int fds[8], int nfds)
{
    if (nfds == 0)
        (void)send(to, what, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    else
        (void)pass_descriptors(to, what, bytes, fds, nfds);
    descriptors_drop(fds, nfds);
}

/* A frame of an unknown type with 8 bytes, which is ignored. */
static void attack_frame(const struct altered_case *c, rch_t ch)
{
    struct {
        struct wire_frame frame;
        unsigned char body[8];
    } m = {{.bytes = sizeof(m.frame),
            .magic = WIRE_FRAME_MAGIC,
            .type = UNKNOWN_TYPE,
            .body_bytes = sizeof(m.body)},
           {0}};
    int fds[8], nfds = 0;

    if (c->how == ALTER_DESCRIPTOR) {
        nfds = descriptors_make(c->value, ch, fds);
        m.frame.nfds = 1; /* some kinds have none, or more */
    } else {
        case_store(c, &m.frame, case_word(c, &m.frame));
    }
    (void)control_flush(VICTIM, deadline_in_ms(SETUP_MS));
    send_bytes(wire_socket(VICTIM), &m, sizeof(m), fds, nfds);
}

/* A connection of its own: greeting, page, and a frame that is ignored. */
static void attack_greeting(const struct altered_case *c, rch_t ch)
{
    static int last = -1;
    struct error err = {""};
    const struct card *card = peer_card(VICTIM, deadline_in_ms(SETUP_MS), &err),
                      *own = peer_card(check_rank, deadline_in_ms(SETUP_MS), &err);
    struct {
        struct wire_frame frame;
        struct wire_hello hello;
    } g = {{.bytes = sizeof(g.frame),
            .magic = WIRE_FRAME_MAGIC,
            .type = WIRE_HELLO,
            .body_bytes = sizeof(g.hello)},
           {.bytes = sizeof(g.hello),
            .versions = {CONTROL_VERSION_OLDEST, CONTROL_VERSION_NEWEST},
            .magic = WIRE_HELLO_MAGIC,
            .from = (uint32_t)check_rank,
            .window = {LANE_WINDOW_BYTES, LANE_WINDOW_BYTES}}};
    struct wire_frame page = {
        .bytes = sizeof(page), .magic = WIRE_FRAME_MAGIC, .type = WIRE_PAGE, .nfds = 1};
    int fds[8], nfds;
    bool done;

    if (card == NULL || own == NULL)
        return;
    memcpy(g.hello.cookie, card->cookie, COOKIE_BYTES);
    memcpy(g.hello.process_id, own->process_id, PROCESS_ID_BYTES);
    if (c->field != NULL)
        case_store(c, &g.hello, case_word(c, &g.hello));
    if (last >= 0)
        close(last);
    last = endpoint_dial_unix(card, &done);
    if (last < 0)
        return;
    send_bytes(last, &g, sizeof(g), fds, 0);
    backoff_us(2000);
    nfds = descriptors_make(c->how == ALTER_DESCRIPTOR ? c->value : GOOD_MEMORY, ch, fds);
    send_bytes(last, &page, sizeof(page), fds, nfds);
    page.type = UNKNOWN_TYPE;
    page.nfds = 0;
    send_bytes(last, &page, sizeof(page), fds, 0);
}

/* ---- a case ---- */

void message_attack(const struct altered_case *c, rch_t ch, uint64_t serial)
{
    static struct forged m;

    if (c->target->place == IN_FRAME) {
        attack_frame(c, ch);
        return;
    }
    if (c->target->place == IN_GREETING) {
        attack_greeting(c, ch);
        return;
    }
    if (c->target->place != IN_MESSAGE && c->target->place != IN_HANDSHAKE)
        return;
    make(&m, ch, c, serial);
    alter(&m, c);
    post(&m);
}

void message_after(const struct altered_case *c, rch_t ch, uint64_t serial)
{
    struct end_message_head head = message_head(ch, sizeof(head), 0);

    if (c->target->place != IN_HANDSHAKE)
        return;
    head.context = FORGED_CONTEXT(serial);
    head.end_number = FOREIGN | (uint32_t)serial;
    (void)control_post(VICTIM, MESSAGE_CLOSE, &head, sizeof(head), NULL, 0);
}
