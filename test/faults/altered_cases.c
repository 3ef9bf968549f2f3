/* SPDX-License-Identifier: BSD-3-Clause */
/* altered_cases.c: the cases of altered.h: every target, in every way, with every field, with values around what matters there. */
#include "altered.h"
#include "altered_layouts.h"

LAYOUT(slot, struct slot, ROWS_SLOT)
LAYOUT(inline, struct slot, ROWS_INLINE)
LAYOUT(control, struct ring_control, ROWS_CONTROL)
LAYOUT(credit, struct credit_line, ROWS_CREDIT)
LAYOUT(tag, struct tag_view, ROWS_TAG)
LAYOUT(cell, struct cell_view, ROWS_CELL)
LAYOUT(liveness, struct liveness_view, ROWS_LIVENESS)
LAYOUT(head, struct end_message_head, ROWS_HEAD)
LAYOUT(fail, struct fail_message, ROWS_FAIL)
LAYOUT(grow, struct grow_message, ROWS_GROW)
LAYOUT(atomic, struct cells_message, ROWS_ATOMIC)
LAYOUT(starved, struct starved_message, ROWS_STARVED)
LAYOUT(handshake, struct handshake, ROWS_HANDSHAKE)
LAYOUT(segment, struct shm_message, ROWS_SEGMENT)
LAYOUT(clock, struct clock_note, ROWS_CLOCK)
LAYOUT(chunk, struct chunk, ROWS_CHUNK)
LAYOUT(ack, struct ack, ROWS_ACK)
LAYOUT(frame, struct wire_frame, ROWS_FRAME)
LAYOUT(hello, struct wire_hello, ROWS_HELLO)

/*
 * Ways: operations (p, g), modes of synchronization (b, t, c), and what the byzantine rank is (w, r); all that a target can be
 * in. Messages that belong to no pipe go in one way.
 */
static const struct target targets[] = {
    {"slot", AT_SLOT, &slot_layout, "pg btc w", 0, false, false},
    {"inline", AT_INLINE, &inline_layout, "pg b w", 0, false, false},
    {"control", AT_CONTROL, &control_layout, "pg b wr", 0, false, false},
    {"credit", AT_CREDIT, &credit_layout, "pg btc r", 0, false, false},
    {"tag", AT_TAG, &tag_layout, "pg t r", 0, false, false},
    {"reverse", AT_REVERSE, &slot_layout, "pg c r", 0, false, false},
    {"payload", AT_PAYLOAD, &cell_layout, "pg b wr", 0, false, false},
    {"cell", AT_CELL, &cell_layout, "p b wr", 0, false, true},
    {"handshake", IN_HANDSHAKE, &handshake_layout, "pg b w", MESSAGE_HANDSHAKE, false, false},
    {"handshake", IN_HANDSHAKE, &handshake_layout, "p c r", MESSAGE_HANDSHAKE, false, false},
    {"handshake", IN_HANDSHAKE, &handshake_layout, "g t r", MESSAGE_HANDSHAKE, false, false},
    {"handshake.grows", IN_HANDSHAKE, &handshake_layout, "p t w", MESSAGE_HANDSHAKE, true, false},
    {"handshake.again", IN_MESSAGE, &handshake_layout, "p b wr", MESSAGE_HANDSHAKE, false, false},
    {"close", IN_MESSAGE, &head_layout, "pg b wr", MESSAGE_CLOSE, false, false},
    {"fail", IN_MESSAGE, &fail_layout, "p b wr", MESSAGE_FAIL, false, false},
    {"event-on", IN_MESSAGE, &head_layout, "p b wr", MESSAGE_EVENT_ON, false, false},
    {"event-ack", IN_MESSAGE, &head_layout, "p b wr", MESSAGE_EVENT_ACK, false, false},
    {"signal", IN_MESSAGE, &head_layout, "p b wr", MESSAGE_SIGNAL, false, false},
    {"starved", IN_MESSAGE, &starved_layout, "p b wr", MESSAGE_STARVED, false, false},
    {"grow", IN_MESSAGE, &grow_layout, "pg b wr", MESSAGE_GROW, true, false},
    {"grown", IN_MESSAGE, &grow_layout, "pg b wr", MESSAGE_GROWN, true, false},
    {"atomic", IN_MESSAGE, &atomic_layout, "p b wr", MESSAGE_ATOMIC, false, true},
    {"atomic-done", IN_MESSAGE, &atomic_layout, "p b wr", MESSAGE_ATOMIC_DONE, false, true},
    {"segment", IN_MESSAGE, &segment_layout, "p b w", MESSAGE_BTL, false, false},
    {"clock", IN_MESSAGE, &clock_layout, "p b w", MESSAGE_CLOCK, false, false},
    {"clock-reply", IN_MESSAGE, &clock_layout, "p b w", MESSAGE_CLOCK_REPLY, false, false},
    {"unknown", IN_MESSAGE, &head_layout, "p b w", 90, false, false},
    {"chunk", IN_MESSAGE, &chunk_layout, "p b w", WIRE_CHUNK, false, false},
    {"ack", IN_MESSAGE, &ack_layout, "p b w", WIRE_ACK, false, false},
    {"frame", IN_FRAME, &frame_layout, "p b w", 0, false, false},
    {"hello", IN_GREETING, &hello_layout, "p b w", WIRE_HELLO, false, false},
    {"liveness", AT_LIVENESS, &liveness_layout, "p b wr", 0, false, false},
};
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

static struct altered_case *made;
static size_t cases, room;

static void add(struct altered_case c)
{
    if (cases == room) {
        struct altered_case *more;

        room = room == 0 ? 4096 : 2 * room;
        more = realloc(made, room * sizeof(*made));
        REQUIRE(more != NULL);
        made = more;
    }
    made[cases++] = c;
}

/* ---- values ---- */

/* A value that the field cannot have, or that was there before, is left out. */
static void add_value(struct altered_case c, size_t first, uint64_t value)
{
    uint64_t most = UINT64_MAX >> (64 - 8 * c.field->element);

    c.how = ALTER_TO;
    c.value = value & most;
    for (size_t i = first; i < cases; i++)
        if (made[i].how == ALTER_TO && made[i].value == c.value)
            return;
    add(c);
}

static void add_near(struct altered_case c, size_t first, uint64_t limit)
{
    for (uint64_t d = 0; d < 3; d++)
        add_value(c, first, limit + d - 1);
}

static void add_values_near(struct altered_case c, size_t first)
{
    switch (c.field->near) {
    case SLOTS:
        add_near(c, first, SLOTS_OF_PIPE);
        break;
    case HEAP: /* the ends of heap and area, within a unit, and where an addition wraps around */
        add_near(c, first, HEAP_OF_PIPE);
        add_near(c, first, 64);
        add_near(c, first, UINT64_MAX - HEAP_OF_PIPE);
        add_value(c, first, HEAP_OF_PIPE - 64);
        add_value(c, first, UINT64_MAX - 63);
        add_value(c, first, UINT64_C(1) << 32);
        break;
    case QUEUE:
        add_near(c, first, QUEUE_OF_PIPE);
        add_near(c, first, HEAP_OF_PIPE / 64);
        break;
    case BODY:
        add_near(c, first, CONTROL_BODY_MAX);
        add_near(c, first, LANE_WINDOW_BYTES);
        add_near(c, first, 1 << 20);
        break;
    case LENGTH:
        add_near(c, first, c.target->layout->bytes);
        add_near(c, first, CONTROL_BODY_MAX);
        break;
    case TYPE:
        for (uint64_t type = 0; type < MESSAGE_TYPES_END + 2; type++)
            add_value(c, first, type);
        break;
    default:
        break;
    }
}

static void add_values(struct altered_case c)
{
    const size_t first = cases;
    const unsigned bits = 8 * c.field->element;

    add_value(c, first, 0);
    add_value(c, first, 1);
    add_value(c, first, 2);
    add_value(c, first, 7); /* misaligned, where it is an offset */
    add_value(c, first, UINT64_MAX);
    add_value(c, first, UINT64_MAX - 1);
    add_near(c, first, UINT64_C(1) << (bits - 1)); /* the sign */
    add_value(c, first, UINT64_C(1) << (bits / 2));
    add_values_near(c, first);
    c.how = ALTER_BY;
    c.value = 1;
    add(c);
    c.value = UINT64_MAX; /* less by one */
    add(c);
    if (bits >= 32) {
        c.value = SLOTS_OF_PIPE;
        add(c);
        c.value = (uint64_t)0 - SLOTS_OF_PIPE;
        add(c);
    }
}

/* ---- all of them ---- */

static void add_fields(struct altered_case c)
{
    const struct layout *layout = c.target->layout;

    for (int i = 0; i < layout->fields; i++) {
        const struct field *f = &layout->field[i];
        uint32_t elements = f->bytes / f->element;

        c.field = f;
        for (uint32_t e = 0; e < elements; e++) {
            c.element = e;
            if (f->near != TEXT || e == 0 || e == elements - 1)
                add_values(c);
        }
    }
}

/* Messages that are cut off or too long, whether they state that or not. */
static void add_lengths(struct altered_case c)
{
    const uint64_t whole = c.target->layout->bytes,
                   lengths[] = {0,         1,         4,         8,         whole / 2, whole - 8,
                                whole - 1, whole + 1, whole + 8, 2 * whole, 4096,      65536};

    c.field = NULL;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        c.value = lengths[i];
        c.how = ALTER_LENGTH;
        add(c);
        c.how = ALTER_BOTH_LENGTHS;
        add(c);
    }
}

static void add_descriptors(struct altered_case c)
{
    c.field = NULL;
    c.how = ALTER_DESCRIPTOR;
    for (c.value = 0; c.value < DESCRIPTOR_KINDS; c.value++)
        add(c);
}

static void add_target(const struct target *t)
{
    static const char ops[] = "pg", modes[] = "btc", roles[] = "wr";

    for (int w = 0; w < 12; w++) {
        struct altered_case c = {.target = t};

        c.way.op = w % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
        c.way.mode = (rpipe_sync_t)(RPIPE_SYNC_BLOCKS + w / 2 % 3);
        c.way.byzantine_writes = w / 6 == 0;
        if (strchr(t->ways, ops[w % 2]) == NULL || strchr(t->ways, modes[w / 2 % 3]) == NULL ||
            strchr(t->ways, roles[w / 6]) == NULL)
            continue;
        add_fields(c);
        if (t->place == IN_MESSAGE || t->place == IN_HANDSHAKE)
            add_lengths(c);
        if (t->place >= IN_MESSAGE)
            add_descriptors(c);
    }
}

size_t cases_make(const struct altered_case **all)
{
    for (size_t i = 0; i < TARGETS; i++)
        add_target(&targets[i]);
    *all = made;
    return cases;
}

const char *case_name(const struct altered_case *c, char name[NAME_BYTES])
{
    static const char *const modes[] = {"", "blocks", "tags", "channel"};
    char what[72], element[16] = "";
    const int64_t by = (int64_t)c->value;

    if (c->field != NULL && c->field->bytes > c->field->element)
        (void)snprintf(element, sizeof(element), "[%u]", c->element);
    if (c->how == ALTER_TO)
        (void)snprintf(what, sizeof(what), "%s%s=0x%llx", c->field->name, element,
                       (unsigned long long)c->value);
    else if (c->how == ALTER_BY)
        (void)snprintf(what, sizeof(what), "%s%s=own%+lld", c->field->name, element, (long long)by);
    else if (c->how == ALTER_DESCRIPTOR)
        (void)snprintf(what, sizeof(what), "descriptor=%s", descriptor_name(c->value));
    else
        (void)snprintf(what, sizeof(what), "%s=%llu",
                       c->how == ALTER_LENGTH ? "(sent)" : "(length)",
                       (unsigned long long)c->value);
    (void)snprintf(name, NAME_BYTES, "%s.%s/%s.%s.%s", c->target->name, what,
                   c->way.op == RPIPE_PUT ? "put" : "get", modes[c->way.mode],
                   c->way.byzantine_writes ? "writer" : "reader");
    return name;
}

/* ---- the word ---- */

static void *word_of(const struct altered_case *c, const void *structure)
{
    return (char *)(uintptr_t)structure + c->field->offset + c->element * c->field->element;
}

uint64_t case_word(const struct altered_case *c, const void *structure)
{
    const void *word = word_of(c, structure);

    switch (c->field->element) {
    case 1:
        return __atomic_load_n((const uint8_t *)word, __ATOMIC_RELAXED);
    case 2:
        return __atomic_load_n((const uint16_t *)word, __ATOMIC_RELAXED);
    case 4:
        return __atomic_load_n((const uint32_t *)word, __ATOMIC_RELAXED);
    default:
        return __atomic_load_n((const uint64_t *)word, __ATOMIC_RELAXED);
    }
}

void case_store(const struct altered_case *c, void *structure, uint64_t own)
{
    const uint64_t value = c->how == ALTER_BY ? own + c->value : c->value;
    void *word = word_of(c, structure);

    switch (c->field->element) {
    case 1:
        __atomic_store_n((uint8_t *)word, (uint8_t)value, __ATOMIC_RELEASE);
        break;
    case 2:
        __atomic_store_n((uint16_t *)word, (uint16_t)value, __ATOMIC_RELEASE);
        break;
    case 4:
        __atomic_store_n((uint32_t *)word, (uint32_t)value, __ATOMIC_RELEASE);
        break;
    default:
        __atomic_store_n((uint64_t *)word, value, __ATOMIC_RELEASE);
    }
}
