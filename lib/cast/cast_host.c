/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cast_host.c: the path to readers of the writer's host: words of boards (doc/casts.md, model/cast_host.pml).
 *
 * The writer stores the number of a message into its slot, which is one store for all readers. A reader stores what it has freed into
 * its own line, which the writer loads only when the ring or the heap is full, and then only of readers that may be the last.
 */
#include "cast/cast.h"

#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdlib.h>

/* After its service thread has died, another thread of a killed process may still store for a moment. */
#define HOST_GRACE_NS (10 * NS_PER_MS)

struct host_reader {
    int member;
    const struct cast_line *line; /* NULL: not mapped yet */
    uint64_t word, freed;         /* the last value that was loaded, and what it means */
};

struct host_path {
    struct cast_path path;
    /* writer */
    struct host_reader *reader;
    int nreaders;
    /* reader */
    const struct cast_head *head; /* NULL: not mapped, or not verified yet */
    const struct cast_slot *slot;
    const char *heap;
    struct cast_line *line;
    int64_t died; /* when the death of the writer was noticed; 0: it was not */
};

static struct host_path *host_of(struct cast_path *path) { return (struct host_path *)path; }

/* ---- opening ---- */

static int host_open_writer(struct host_path *h, struct error *err)
{
    const struct rcast *c = h->path.cast;

    h->reader = calloc((size_t)c->n, sizeof(*h->reader));
    if (h->reader == NULL)
        return error_set(err, -ENOMEM, "no memory for %d readers", c->n);
    for (int i = 0; i < c->n; i++)
        if (i != c->me && !c->member[i].remote)
            h->reader[h->nreaders++] = (struct host_reader){.member = i, .freed = c->first};
    return 0;
}

static int host_open(struct rcast *c, struct cast_path **path, struct error *err)
{
    struct host_path *h = calloc(1, sizeof(*h));
    int rc = 0;

    if (h == NULL)
        return error_set(err, -ENOMEM, "no memory for a path");
    h->path = (struct cast_path){&cast_host_ops, c};
    if (c->writes)
        rc = host_open_writer(h, err);
    else {
        h->line = rboard_mem(c->board);
        atomic_store_explicit(&h->line->read, 1, memory_order_relaxed);
        /* release: pairs with the acquire of host_load */
        atomic_store_explicit(&h->line->freed, 1, memory_order_release);
    }
    if (rc != 0) {
        free(h);
        return rc;
    }
    *path = &h->path;
    return 0;
}

/* ---- writer ---- */

static void host_publish(struct cast_path *path, const struct cast_message *m)
{
    struct rcast *c = path->cast;
    struct cast_slot *slot = &c->slot[m->number & (c->slots - 1)];

    RPIPE_FAILPOINT("rcast_write: before the number");
    /* release: pairs with the acquire of host_poll: the slot and the message are visible */
    atomic_store_explicit(&slot->number, m->number, memory_order_release);
    RPIPE_FAILPOINT("rcast_write: number stored");
    rboard_wake(c->board, cast_low_word(&slot->number));
}

/* A reader that has left: found by the service thread, and by its line. */
static void host_check_state(struct rcast *c, const struct host_reader *r, int state)
{
    if (state == 0 || state == R_PENDING)
        return;
    if (state == -EPIPE)
        cast_member_left(c, r->member, CAST_CLOSED, 0, "left the job");
    else if (state == -ECONNRESET)
        cast_member_left(c, r->member, CAST_LOST, state, "died");
    else
        cast_member_left(
            c, r->member, CAST_LOST, -EPROTO,
            "its board cannot be used; it has failed, or differs in its configuration");
}

/* Loads the line of a reader, once, and checks it. */
static void host_load(struct host_path *h, struct host_reader *r)
{
    struct rcast *c = h->path.cast;
    /* before the line: what a dead reader has stored is visible then */
    const int state = rboard_state(c->board, r->member);
    uint64_t word, freed;

    if (r->line == NULL)
        r->line = rboard_mem_of(c->board, r->member);
    if (r->line != NULL) {
        /* acquire: pairs with the release of host_release: the reader does not read any more what it has freed */
        word = atomic_load_explicit(&r->line->freed, memory_order_acquire);
        freed = c->first + (word == 0 ? 0 : word - 1);
        if ((word & CAST_LINE_CLOSED) != 0)
            cast_member_left(c, r->member, CAST_CLOSED, 0, "closed");
        else if (freed - r->freed > c->next - r->freed)
            cast_member_left(c, r->member, CAST_LOST, -EPROTO,
                             "it frees all messages before %llu, after %llu of %llu",
                             (unsigned long long)(freed - c->first),
                             (unsigned long long)(r->freed - c->first),
                             (unsigned long long)(c->next - c->first));
        else
            r->freed = freed;
        r->word = word;
    }
    host_check_state(c, r, state);
}

static uint64_t host_refresh(struct cast_path *path, uint64_t need)
{
    struct host_path *h = host_of(path);
    struct rcast *c = path->cast;
    uint64_t least = 0;
    bool lives = false;

    for (int i = 0; i < h->nreaders; i++) {
        struct host_reader *r = &h->reader[i];

        if (c->member[r->member].state == CAST_LIVE && (int64_t)(r->freed - need) < 0)
            host_load(h, r);
        if (c->member[r->member].state != CAST_LIVE) {
            h->reader[i--] = h->reader[--h->nreaders];
            continue;
        }
        if (!lives || (int64_t)(r->freed - least) < 0)
            least = r->freed;
        lives = true;
    }
    return lives ? least : UINT64_MAX;
}

static void host_position(struct cast_path *path, int member, uint64_t *read, uint64_t *freed)
{
    const struct host_path *h = host_of(path);

    *read = *freed = path->cast->first;
    for (int i = 0; i < h->nreaders; i++) {
        const struct host_reader *r = &h->reader[i];
        uint64_t word;

        if (r->member != member || r->line == NULL)
            continue;
        word = atomic_load_explicit(&r->line->read, memory_order_relaxed);
        *freed = r->freed;
        *read = path->cast->first + (word == 0 ? 0 : word - 1);
    }
}

static void host_end(struct cast_path *path, uint64_t number)
{
    struct rcast *c = path->cast;

    /* release: pairs with the acquire of host_check_writer: all messages are visible */
    atomic_store_explicit(&c->head->end, number - c->first + 1, memory_order_release);
    RPIPE_FAILPOINT("rcast_close: end stored");
    rboard_wake(c->board, cast_low_word(&c->head->end));
}

/* A reader has the memory once its own is mapped here: its request was answered before, or it has answered one (doc/boards.md). */
static int host_drain(struct cast_path *path)
{
    const struct host_path *h = host_of(path);
    struct rcast *c = path->cast;

    for (int i = 0; i < h->nreaders; i++)
        if (rboard_state(c->board, h->reader[i].member) == R_PENDING) {
            c->last_lost = h->reader[i].member;
            return R_PENDING;
        }
    return 0;
}

/* ---- reader ---- */

/* The memory of the writer: mapped, filled in, and what this member expects. 0, R_PENDING, or -EPROTO. */
static int host_attach(struct host_path *h, struct error *err)
{
    const struct rcast *c = h->path.cast;
    const struct cast_head *head = rboard_mem_of(c->board, c->writer);

    /* acquire: pairs with the release in ring_init */
    if (head == NULL || atomic_load_explicit(&head->magic, memory_order_acquire) == 0)
        return R_PENDING;
    if (atomic_load_explicit(&head->magic, memory_order_relaxed) != CAST_MAGIC ||
        head->first != c->first || head->heap_bytes != c->heap_bytes || head->slots != c->slots)
        return error_set(
            err, -EPROTO,
            "heap_bytes, slots, RPIPE_FIRST are %llu, %u, %llu here and %llu, %u, %llu "
            "there; all members must agree",
            (unsigned long long)c->heap_bytes, c->slots, (unsigned long long)c->first,
            (unsigned long long)head->heap_bytes, head->slots, (unsigned long long)head->first);
    h->slot = (const struct cast_slot *)(head + 1);
    h->heap = (const char *)head + cast_heap_at(c->slots);
    h->head = head;
    return 0;
}

/* Message m->number, whose slot has this number. Each word is loaded once: the writer may change it. */
static int host_open_slot(const struct host_path *h, const struct cast_slot *slot,
                          struct cast_message *m, struct error *err)
{
    const struct rcast *c = h->path.cast;
    const uint64_t bytes = *(const volatile uint64_t *)&slot->bytes;
    uint64_t at;

    if (bytes <= CAST_INLINE) {
        m->mem = slot->data;
        m->bytes = bytes;
        return 0;
    }
    at = *(const volatile uint64_t *)&slot->at;
    if (bytes > c->heap_bytes || at > c->heap_bytes - bytes)
        return error_set(err, -EPROTO, "message %llu has %llu bytes at %llu of a heap of %llu",
                         (unsigned long long)(m->number - c->first), (unsigned long long)bytes,
                         (unsigned long long)at, (unsigned long long)c->heap_bytes);
    m->mem = h->heap + at;
    m->bytes = bytes;
    return 0;
}

/* 0: message m->number is there; R_PENDING; -EPROTO. */
static int host_try(struct host_path *h, struct cast_message *m, struct error *err)
{
    const struct rcast *c = h->path.cast;
    const struct cast_slot *slot = &h->slot[m->number & (c->slots - 1)];
    /* acquire: pairs with the release of host_publish */
    const uint64_t number = atomic_load_explicit(&slot->number, memory_order_acquire);

    if (LIKELY(number == m->number))
        return host_open_slot(h, slot, m, err);
    if (number == m->number - c->slots)
        return R_PENDING;
    return error_set(err, -EPROTO, "a slot has message %llu and not %llu or %llu",
                     (unsigned long long)(number - c->first),
                     (unsigned long long)(m->number - c->first),
                     (unsigned long long)(m->number - c->slots - c->first));
}

/* Message m->number is not there: has the writer left? `state` was loaded before the slot. */
static int host_check_writer(struct host_path *h, const struct cast_message *m, int state,
                             uint64_t end, struct error *err)
{
    const uint64_t count = m->number - h->path.cast->first;

    if (end == count + 1)
        return R_EOF;
    if (end != 0)
        return error_set(err, -EPROTO, "it has closed after %llu messages, and %llu is not there",
                         (unsigned long long)(end - 1), (unsigned long long)count);
    if (state == 0 || state == R_PENDING)
        return R_PENDING;
    if (state ==
        -EPIPE) /* it has never opened this cast, or left it without rcast_close, which waits for readers */
        return h->head != NULL ? R_EOF : -ECONNRESET;
    if (state != -ECONNRESET)
        return error_set(
            err, -EPROTO,
            "its board cannot be used; it has failed, or differs in its configuration");
    if (h->died == 0)
        h->died = clock_now();
    return clock_now() - h->died < HOST_GRACE_NS ? R_PENDING : -ECONNRESET;
}

static NOINLINE int host_poll_again(struct host_path *h, struct cast_message *m, struct error *err)
{
    const struct rcast *c = h->path.cast;
    const int state = rboard_state(c->board, c->writer);
    uint64_t end = 0;
    int rc = 0;

    if (h->head == NULL)
        rc = host_attach(h, err);
    if (rc == 0) {
        /* acquire: pairs with the release of host_end */
        end = atomic_load_explicit(&h->head->end, memory_order_acquire);
        rc = host_try(h, m, err);
    }
    return rc == R_PENDING ? host_check_writer(h, m, state, end, err) : rc;
}

static int host_poll(struct cast_path *path, struct cast_message *m, struct error *err)
{
    struct host_path *h = host_of(path);

    if (LIKELY(h->head != NULL)) {
        const struct cast_slot *slot = &h->slot[m->number & (path->cast->slots - 1)];

        /* acquire: pairs with the release of host_publish */
        if (LIKELY(atomic_load_explicit(&slot->number, memory_order_acquire) == m->number)) {
            atomic_store_explicit(&h->line->read, m->number - path->cast->first + 2,
                                  memory_order_relaxed);
            return host_open_slot(h, slot, m, err);
        }
    }
    return host_poll_again(h, m, err);
}

static void host_release(struct cast_path *path, uint64_t number, uint64_t freed)
{
    struct host_path *h = host_of(path);
    const struct rcast *c = path->cast;
    const uint64_t word = freed - c->first + 1;

    (void)number;
    if (atomic_load_explicit(&h->line->freed, memory_order_relaxed) == word)
        return;
    RPIPE_FAILPOINT("rcast_free: before the line");
    /* release: pairs with the acquire of host_load: what was read of these messages comes before */
    atomic_store_explicit(&h->line->freed, word, memory_order_release);
    RPIPE_FAILPOINT("rcast_free: line stored");
    rboard_wake_one(c->board, cast_low_word(&h->line->freed), c->writer);
}

/* ---- both ---- */

static rboard_word_t host_word(const _Atomic uint64_t *word)
{
    uint64_t value = atomic_load_explicit(word, memory_order_relaxed);

    return (rboard_word_t){cast_low_word(word), (uint32_t)value};
}

/*
 * Writer: the line of a reader that is the last, or one of them; nothing is gained before it changes. If that is not mapped, and in
 * rcast_close, a word that does not change: the mapping, and the end of a member, end the sleep too.
 */
static rboard_word_t host_word_of_readers(const struct host_path *h)
{
    const struct rcast *c = h->path.cast;

    for (int i = 0; i < h->nreaders && !c->ended_here; i++) {
        const struct host_reader *r = &h->reader[i];

        /* the value that was checked, not what is there now: else a store in between is missed */
        if (r->freed == c->floor && r->line != NULL)
            return (rboard_word_t){cast_low_word(&r->line->freed), (uint32_t)r->word};
    }
    return host_word(&c->head->magic);
}

static int host_words(struct cast_path *path, rboard_word_t *word, int most)
{
    const struct host_path *h = host_of(path);
    const struct rcast *c = path->cast;
    const struct cast_head *head = c->writes ? c->head : rboard_mem_of(c->board, c->writer);
    const struct cast_slot *slot;

    if (most < 2)
        return 0;
    if (h->died != 0)
        return -1; /* the moment of grace is shorter than a sleep */
    if (c->writes || h->head == NULL) {
        /* of a reader that is not attached: what it waits for, or a word that does not change, as above */
        word[0] = c->writes      ? host_word_of_readers(h)
                  : head != NULL ? (rboard_word_t){cast_low_word(&head->magic), 0}
                                 : host_word(&h->line->freed);
        return 1;
    }
    slot = &h->slot[c->next & (c->slots - 1)];
    word[0] = (rboard_word_t){cast_low_word(&slot->number), (uint32_t)(c->next - c->slots)};
    word[1] = (rboard_word_t){cast_low_word(&h->head->end), 0};
    return 2;
}

static void host_close(struct cast_path *path)
{
    struct host_path *h = host_of(path);
    struct rcast *c = path->cast;

    if (!c->writes) {
        uint64_t freed = atomic_load_explicit(&h->line->freed, memory_order_relaxed);

        /* release: pairs with the acquire of host_load. The low 32 bits change too, on which the writer may sleep. */
        atomic_store_explicit(&h->line->freed, CAST_LINE_CLOSED | (uint32_t)~freed,
                              memory_order_release);
        RPIPE_FAILPOINT("rcast_close: line stored");
        rboard_wake_one(c->board, cast_low_word(&h->line->freed), c->writer);
    }
    free(h->reader);
    free(h);
}

const struct cast_path_ops cast_host_ops = {
    .name = "host",
    .open = host_open,
    .publish = host_publish,
    .refresh = host_refresh,
    .position = host_position,
    .end = host_end,
    .drain = host_drain,
    .poll = host_poll,
    .release = host_release,
    .words = host_words,
    .close = host_close,
};
