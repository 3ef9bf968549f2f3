/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conform_target.c: the agent: owns the memory that is transferred to and from, and the passive ends of lines.
 *
 * While it waits for the next request it sleeps, and calls nothing: outstanding operations have to arrive all the same.
 */
#include "conform.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct place {
    struct btl_memory memory;
    void *own; /* registered memory of the agent */
    struct device_memory device;
};

struct state {
    struct agent *a;
    struct btl_connection *connection[LINES_MOST];
    struct place place[PIECES_MOST];
    uint64_t calls;
};

static uint8_t *at(struct state *st, uint32_t id, uint64_t offset, uint64_t bytes)
{
    const struct place *place = &st->place[id % PIECES_MOST];
    const struct btl_memory *p = &place->memory;

    REQUIRE(p->base != NULL && offset <= p->bytes && bytes <= p->bytes - offset,
            "request beyond region %u", id);
    return (place->device.alias != NULL ? place->device.alias : (uint8_t *)p->base) + offset;
}

/* Where a target has to be driven and does nothing else, it calls progress now and then. */
static void look_around(struct state *st, bool idle)
{
    const struct backend *b = st->a->backend;

    sched_yield();
    if (idle || (b->ops->attributes.capabilities & BTL_TARGET_PROGRESS) == 0 ||
        ++st->calls % 16 != 0)
        return;
    if (st->connection[0] != NULL)
        (void)b->ops->progress(st->connection[0]);
    else
        (void)b->ops->progress_all(b->btl);
}

static int await(struct state *st, const void *slot, uint64_t number, uint32_t heap, bool idle,
                 struct answer *answer, struct note *note)
{
    int64_t deadline = patience();

    while (!slot_read(slot, number, note)) {
        if (deadline_passed(deadline)) {
            error_note(&answer->err, "slot %llu never arrived", (unsigned long long)number);
            return -ETIMEDOUT;
        }
        look_around(st, idle);
    }
    if (!pattern_same(at(st, heap, note->offset, note->bytes), note->bytes, note->key)) {
        error_note(&answer->err, "slot %llu is there, but not its payload of %llu bytes",
                   (unsigned long long)number, (unsigned long long)note->bytes);
        return -EIO;
    }
    return 0;
}

static int run_stream(struct state *st, const struct ask *q, struct answer *answer)
{
    uint8_t *ring = at(st, q->id, 0, q->d * SLOT_BYTES);
    uint64_t *credit = (uint64_t *)(void *)at(st, (uint32_t)q->c, 0, 64);
    struct note note;
    int rc = 0;

    for (uint64_t n = 1; rc == 0 && n <= q->a; n++) {
        rc = await(st, ring + n % q->d * SLOT_BYTES, n, (uint32_t)q->b, false, answer, &note);
        /* release: the message has been checked; pairs with the backend's reading of it */
        __atomic_store_n(credit, n, __ATOMIC_RELEASE);
    }
    return rc;
}

static int open_piece(struct state *st, const struct ask *q, struct answer *answer)
{
    const struct backend *b = st->a->backend;
    struct place *p = &st->place[q->id % PIECES_MOST];
    int rc;

    REQUIRE(p->memory.base == NULL, "region %u is in use", q->id);
    if (q->c == KIND_DEVICE) {
        p->device = device_memory_make(q->a);
        rc = b->ops->register_device(b->btl, st->a->peer, p->device.base, p->device.bytes,
                                     &(struct btl_device){.fd = p->device.fd}, (uint32_t)q->b,
                                     &p->memory, &answer->err);
    } else if (q->c == KIND_REGISTERED) {
        p->own = malloc(q->a + 64);
        REQUIRE(p->own != NULL, "no memory");
        rc = b->ops->register_memory(b->btl, st->a->peer, (uint8_t *)p->own + 8, q->a,
                                     (uint32_t)q->b, &p->memory, &answer->err);
    } else {
        rc = b->ops->alloc(b->btl, st->a->peer, q->a, (uint32_t)q->b, false, &p->memory,
                           &answer->err);
    }
    if (rc != 0)
        return rc;
    REQUIRE(p->memory.bytes >= q->a && p->memory.base != NULL, "a region of %zu bytes",
            p->memory.bytes);
    if (q->c == KIND_OWN)
        memset(p->memory.base, 0, q->a);
    answer->key = p->memory.key;
    answer->value = (uintptr_t)p->memory.base;
    return 0;
}

static void free_memory(struct state *st, uint32_t id)
{
    struct place *p = &st->place[id % PIECES_MOST];

    if (p->memory.base != NULL)
        st->a->backend->ops->free(st->a->backend->btl, &p->memory);
    free(p->own);
    device_memory_free(&p->device);
    *p = (struct place){0};
}

static void close_line(struct state *st, uint32_t id)
{
    if (st->connection[id % LINES_MOST] != NULL)
        st->a->backend->ops->connection_close(st->connection[id % LINES_MOST]);
    st->connection[id % LINES_MOST] = NULL;
}

static int serve(struct state *st, const struct ask *q, struct answer *answer)
{
    const struct backend *b = st->a->backend;
    struct btl_connection **connection = &st->connection[q->id % LINES_MOST];
    struct note note;

    switch (q->what & ~ASK_IDLE) {
    case ASK_REACH:
        return b->ops->reach(b->btl, (int)q->a, &answer->err);
    case ASK_LINE:
        REQUIRE(*connection == NULL, "line %u is in use", q->id);
        return line_open(b, st->a->peer, (enum btl_role)q->a, (uint32_t)q->b, connection,
                         &answer->address, &answer->err);
    case ASK_CONNECT:
        return b->ops->connection_connect(*connection, &q->address, &answer->err);
    case ASK_CLOSE:
        close_line(st, q->id);
        return 0;
    case ASK_ALLOC:
        return open_piece(st, q, answer);
    case ASK_FREE:
        free_memory(st, q->id);
        return 0;
    case ASK_FILL:
        pattern_fill(at(st, q->id, q->a, q->b), q->b, q->c);
        return 0;
    case ASK_CHECK:
        return pattern_same(at(st, q->id, q->a, q->b), q->b, q->c) ? 0 : -EIO;
    case ASK_SET:
        __atomic_store_n((uint64_t *)(void *)at(st, q->id, q->a, 8), q->b, __ATOMIC_RELEASE);
        return 0;
    case ASK_WORD:
        answer->value =
            __atomic_load_n((uint64_t *)(void *)at(st, q->id, q->a, 8), __ATOMIC_ACQUIRE);
        return 0;
    case ASK_AWAIT:
        return await(st, at(st, q->id, q->a, SLOT_BYTES), q->b, (uint32_t)q->c,
                     (q->what & ASK_IDLE) != 0, answer, &note);
    case ASK_STREAM:
        return run_stream(st, q, answer);
    case ASK_COUNT:
        for (uint64_t i = 0; i < q->b; i++)
            __atomic_fetch_add((uint64_t *)(void *)at(st, q->id, q->a, 8), 1, __ATOMIC_ACQ_REL);
        return 0;
    default:
        return -ENOSYS;
    }
}

void *agent_main(void *arg)
{
    struct state st = {.a = arg};
    struct ask q;

    while (recv(st.a->socket, &q, sizeof(q), 0) == (ssize_t)sizeof(q)) {
        struct answer answer = {0};

        answer.rc = serve(&st, &q, &answer);
        if (send(st.a->socket, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
            break;
    }
    for (uint32_t i = 0; i < LINES_MOST; i++)
        close_line(&st, i);
    for (uint32_t i = 0; i < PIECES_MOST; i++)
        free_memory(&st, i);
    return NULL;
}
