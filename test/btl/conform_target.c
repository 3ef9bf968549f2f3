/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conform_target.c: the agent: owns the memory that is transferred to and from, and the passive ends of lines.
 *
 * While it waits for the next request it sleeps, and calls nothing: what is under way has to arrive all the same.
 */
#include "conform.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct place {
    struct btl_piece piece;
    void *own; /* adopted */
};

struct state {
    struct agent *a;
    struct btl_line *line[LINES_MOST];
    struct place place[PIECES_MOST];
    uint64_t calls;
};

static uint8_t *at(struct state *st, uint32_t id, uint64_t offset, uint64_t bytes)
{
    struct btl_piece *p = &st->place[id % PIECES_MOST].piece;

    HOLDS(p->base != NULL && offset <= p->bytes && bytes <= p->bytes - offset, "asked for what is not in piece %u", id);
    return (uint8_t *)p->base + offset;
}

/* Where a target has to be driven and does nothing else, it calls progress now and then. */
static void look_around(struct state *st, bool idle)
{
    const struct backend *b = st->a->backend;

    sched_yield();
    if (idle || (b->ops->attributes.capabilities & BTL_TARGET_PROGRESS) == 0 || ++st->calls % 16 != 0)
        return;
    if (st->line[0] != NULL)
        (void)b->ops->progress(st->line[0]);
    else
        (void)b->ops->progress_all(b->btl);
}

static int await(struct state *st, const void *slot, uint64_t number, uint32_t heap, bool idle, struct answer *answer,
                 struct note *note)
{
    int64_t deadline = patience();

    while (!slot_read(slot, number, note)) {
        if (deadline_passed(deadline)) {
            snprintf(answer->why, sizeof(answer->why), "slot %llu never arrived", (unsigned long long)number);
            return -ETIMEDOUT;
        }
        look_around(st, idle);
    }
    if (!same(at(st, heap, note->offset, note->bytes), note->bytes, note->key)) {
        snprintf(answer->why, sizeof(answer->why), "slot %llu is there, but not its payload of %llu bytes",
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
        /* release: the message has been looked at; pairs with the backend's reading of it */
        __atomic_store_n(credit, n, __ATOMIC_RELEASE);
    }
    return rc;
}

static int open_piece(struct state *st, const struct ask *q, struct answer *answer)
{
    const struct backend *b = st->a->backend;
    struct place *p = &st->place[q->id % PIECES_MOST];
    int rc;

    HOLDS(p->piece.base == NULL, "piece %u is in use", q->id);
    if (q->c != 0) {
        p->own = malloc(q->a + 64);
        HOLDS(p->own != NULL, "no memory");
        rc = b->ops->adopt(b->btl, st->a->peer, (uint8_t *)p->own + 8, q->a, (uint32_t)q->b, &p->piece, answer->why,
                           sizeof(answer->why));
    } else {
        rc = b->ops->alloc(b->btl, st->a->peer, q->a, (uint32_t)q->b, false, &p->piece, answer->why,
                           sizeof(answer->why));
    }
    if (rc != 0)
        return rc;
    HOLDS(p->piece.bytes >= q->a && p->piece.base != NULL, "a piece of %zu bytes", p->piece.bytes);
    if (q->c == 0)
        memset(p->piece.base, 0, q->a);
    answer->key = p->piece.key;
    answer->value = (uintptr_t)p->piece.base;
    return 0;
}

static void free_piece(struct state *st, uint32_t id)
{
    struct place *p = &st->place[id % PIECES_MOST];

    if (p->piece.base != NULL)
        st->a->backend->ops->free(st->a->backend->btl, &p->piece);
    free(p->own);
    *p = (struct place){0};
}

static void close_line(struct state *st, uint32_t id)
{
    if (st->line[id % LINES_MOST] != NULL)
        st->a->backend->ops->line_close(st->line[id % LINES_MOST]);
    st->line[id % LINES_MOST] = NULL;
}

static int serve(struct state *st, const struct ask *q, struct answer *answer)
{
    const struct backend *b = st->a->backend;
    struct btl_line **line = &st->line[q->id % LINES_MOST];
    struct note note;

    switch (q->what & ~ASK_IDLE) {
    case ASK_REACH:
        return b->ops->reach(b->btl, (int)q->a, answer->why, sizeof(answer->why));
    case ASK_LINE:
        HOLDS(*line == NULL, "line %u is in use", q->id);
        return b->ops->line_open(b->btl, st->a->peer, (enum btl_role)q->a, (uint32_t)q->b, line, &answer->address,
                                 answer->why, sizeof(answer->why));
    case ASK_CONNECT:
        return b->ops->line_connect(*line, &q->address, answer->why, sizeof(answer->why));
    case ASK_CLOSE:
        close_line(st, q->id);
        return 0;
    case ASK_ALLOC:
        return open_piece(st, q, answer);
    case ASK_FREE:
        free_piece(st, q->id);
        return 0;
    case ASK_FILL:
        fill(at(st, q->id, q->a, q->b), q->b, q->c);
        return 0;
    case ASK_CHECK:
        return same(at(st, q->id, q->a, q->b), q->b, q->c) ? 0 : -EIO;
    case ASK_SET:
        __atomic_store_n((uint64_t *)(void *)at(st, q->id, q->a, 8), q->b, __ATOMIC_RELEASE);
        return 0;
    case ASK_WORD:
        answer->value = __atomic_load_n((uint64_t *)(void *)at(st, q->id, q->a, 8), __ATOMIC_ACQUIRE);
        return 0;
    case ASK_AWAIT:
        return await(st, at(st, q->id, q->a, SLOT_BYTES), q->b, (uint32_t)q->c, (q->what & ASK_IDLE) != 0, answer,
                     &note);
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
        free_piece(&st, i);
    return NULL;
}
