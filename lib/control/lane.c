/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.c: see lane.h.
 *
 * Invariants: out: taken <= charged <= taken + window. in: the charges of `chunks` sum up to
 * charged - taken; the chunks are those of whole messages in order, perhaps with a cancelled one
 * among them, perhaps with an unfinished one last. So a receiver does not repeat the checks of
 * lane_arrive().
 */
#include "control/lane.h"

#include "util/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t lane_charge(uint64_t payload) { return payload + CHUNK_CHARGE; }

/* Of a whole message. */
static uint64_t lane_charge_all(uint64_t bytes)
{
    uint64_t chunks = bytes == 0 ? 1 : (bytes + CHUNK_PAYLOAD - 1) / CHUNK_PAYLOAD;

    return bytes + chunks * CHUNK_CHARGE;
}

static int lane_post_chunk(struct pair *pair, struct transfer *t, uint64_t payload, uint32_t flags)
{
    struct lane_out *out = &pair->out[t->lane];
    uint8_t body[CONTROL_BODY_MAX];
    struct chunk head = t->head;
    int result;

    head.bytes = sizeof(head);
    head.lane = (uint16_t)t->lane;
    head.flags = flags;
    head.total = t->bytes;
    head.offset = t->done;
    memcpy(body, &head, sizeof(head));
    if (payload > 0)
        memcpy(body + sizeof(head), t->from + t->done, payload);
    result = pair->post(t->peer, WIRE_CHUNK, body, sizeof(head) + payload, NULL, 0);
    if (result == 0)
        out->charged += lane_charge(payload);
    return result;
}

void lane_announced(struct pair *pair, enum lane_number lane, uint64_t window)
{
    pair->out[lane].window = window;
    pair->out[lane].announced = true;
}

bool lane_needs_window(const struct pair *pair, const struct transfer *t)
{
    const struct lane_out *out = &pair->out[t->lane];

    return !out->announced && !t->begun && lane_charge_all(t->bytes) > out->window;
}

int lane_push(struct pair *pair, struct transfer *t)
{
    struct lane_out *out = &pair->out[t->lane];
    uint64_t left_of_window = out->window - (out->charged - out->taken);

    if (lane_needs_window(pair, t) || (!t->begun && lane_charge_all(t->bytes) <= out->window &&
                                       lane_charge_all(t->bytes) > left_of_window))
        return 0; /* whole or not at all */
    while (!t->finished) {
        uint64_t left = t->bytes - t->done, payload = left < CHUNK_PAYLOAD ? left : CHUNK_PAYLOAD;
        int result;

        /* The charge of two empty chunks stays free, for the one that cancels the message. */
        if (out->window - (out->charged - out->taken) <
            lane_charge(payload) + (left > payload ? 2 * CHUNK_CHARGE : 0))
            return 0;
        result = lane_post_chunk(pair, t, payload, 0);
        if (result != 0)
            return result;
        t->begun = true;
        t->done += payload;
        t->finished = t->done == t->bytes;
    }
    return 0;
}

int lane_cancel(struct pair *pair, struct transfer *t)
{
    if (!t->begun || t->finished)
        return 0;
    return lane_post_chunk(pair, t, 0, CHUNK_CANCEL);
}

/* Opens the window of the sender again. Without memory for the message, the next call does it. */
static void lane_acknowledge(struct pair *pair, struct transfer *t)
{
    struct lane_in *in = &pair->in[t->lane];
    struct ack ack = {.bytes = sizeof(ack), .lane = (uint32_t)t->lane, .taken = in->taken};
    int result = 0;

    if (in->acknowledged != in->taken)
        result = pair->post(t->peer, WIRE_ACK, &ack, sizeof(ack), NULL, 0);
    if (result != -ENOMEM) /* a peer that is gone needs none */
        in->acknowledged = in->taken;
}

/* The receiver has taken a chunk: its sender may send as much again. */
static void lane_take(struct pair *pair, struct transfer *t, struct arrived *a)
{
    struct lane_in *in = &pair->in[t->lane];

    in->taken += lane_charge(a->bytes);
    list_remove(&a->link);
    free(a);
    lane_acknowledge(pair, t);
}

static void lane_unstash(struct lane_in *in)
{
    free(in->stash);
    in->stash = NULL;
    in->stashed = 0;
}

/* Whether the first chunk of a message is the one that t waits for. 1: yes, 0: it is of an older
 * epoch, or -errno. */
static int lane_match(struct transfer *t, const struct chunk *head)
{
    t->head = *head;
    if (t->lane == LANE_COLLECTIVE) {
        if ((int32_t)(head->epoch - t->epoch) < 0)
            return 0;
        if (head->epoch != t->epoch || head->kind != t->kind)
            return -EPROTO;
        if (head->code != 0) /* a rank that gives up sends a code, and no data */
            return 1;
    }
    return head->total == t->bytes ? 1 : -EMSGSIZE;
}

/* Continues a message whose beginning an earlier receiver has taken. */
static int lane_resume(struct lane_in *in, struct transfer *t)
{
    t->head.total = in->stash_total;
    if (in->stash_total != t->bytes)
        return -EMSGSIZE;
    memcpy(t->to, in->stash, in->stashed);
    t->done = in->stashed;
    t->begun = true;
    lane_unstash(in);
    return 0;
}

int lane_pull(struct pair *pair, struct transfer *t)
{
    struct lane_in *in = &pair->in[t->lane];
    struct link *at, *after;
    int result = in->stash != NULL && !t->begun ? lane_resume(in, t) : 0;

    lane_acknowledge(pair, t);
    list_for_each (at, after, &in->chunks) {
        struct arrived *a = container_of(at, struct arrived, link);
        bool cancel = (a->head.flags & CHUNK_CANCEL) != 0,
             last = a->head.offset + a->bytes == a->head.total;

        if (result < 0 || t->finished)
            break;
        if (in->discarding) {
            in->discarding = !last && !cancel;
            lane_take(pair, t, a);
            continue;
        }
        if (cancel) { /* as if it had never begun */
            t->begun = false;
            t->done = 0;
            lane_take(pair, t, a);
            continue;
        }
        if (!t->begun) {
            result = lane_match(t, &a->head);
            if (result < 0)
                break;
            if (result == 0) {
                in->discarding = !last;
                lane_take(pair, t, a);
                continue;
            }
            t->begun = true;
        }
        if (a->bytes > 0 && t->head.code == 0)
            memcpy(t->to + t->done, a->payload, a->bytes);
        t->done += a->bytes;
        t->finished = last;
        lane_take(pair, t, a);
    }
    return result < 0 ? result : 0;
}

void lane_giveback(struct pair *pair, struct transfer *t)
{
    struct lane_in *in = &pair->in[t->lane];

    if (!t->begun || t->finished)
        return;
    if (t->lane == LANE_USER && t->done > 0)
        in->stash = malloc(t->done);
    if (in->stash != NULL) {
        memcpy(in->stash, t->to, t->done);
        in->stashed = t->done;
        in->stash_total = t->bytes;
        return;
    }
    in->discarding = true;
    if (t->lane == LANE_USER)
        log_error("network_recv: a message of %llu bytes from rank %d is lost: no "
                  "memory to keep "
                  "its beginning",
                  (unsigned long long)t->bytes, t->peer);
}

static const char *lane_violation(const struct pair *pair, const struct chunk *head, size_t payload)
{
    const struct lane_in *in;

    if (head->lane >= LANES || head->kind >= CHUNK_KINDS ||
        (head->lane == LANE_USER) != (head->kind == CHUNK_MESSAGE) ||
        (head->flags & ~CHUNK_CANCEL) != 0 || head->code > 0 ||
        (head->lane == LANE_USER && head->code != 0))
        return "it sent a chunk of an unknown kind";
    in = &pair->in[head->lane];
    if (head->offset != in->next_offset || head->offset > head->total ||
        payload > head->total - head->offset || (head->offset > 0 && head->total != in->total) ||
        (payload == 0 && head->total > 0 && head->flags == 0))
        return "it sent a chunk that does not continue the message before";
    if (head->flags != 0 && (payload > 0 || head->offset == 0))
        return "it canceled a message that it had not begun";
    if (in->charged - in->taken + lane_charge(payload) > in->window)
        return "it sent more than the window of its lane allows";
    return NULL;
}

int lane_arrive(struct pair *pair, const void *body, size_t bytes, const char **violation)
{
    struct lane_in *in;
    struct arrived *a;
    struct chunk head;
    size_t payload;

    *violation = "it sent a chunk that is shorter than its header";
    if (layout_read(&head, sizeof(head), body, bytes, sizeof(head)) != 0)
        return -EPROTO;
    payload = bytes - head.bytes;
    *violation = lane_violation(pair, &head, payload);
    if (*violation != NULL)
        return -EPROTO;
    in = &pair->in[head.lane];
    a = malloc(sizeof(*a) + payload);
    if (a == NULL)
        return -ENOMEM;
    a->head = head;
    a->bytes = (uint32_t)payload;
    memcpy(a->payload, (const uint8_t *)body + head.bytes, payload);
    list_append(&in->chunks, &a->link);
    in->charged += lane_charge(payload);
    in->total = head.total;
    in->next_offset =
        head.flags != 0 || head.offset + payload == head.total ? 0 : head.offset + payload;
    return 0;
}

const char *lane_acked(struct pair *pair, const void *body, size_t bytes)
{
    struct lane_out *out;
    struct ack ack;

    if (layout_read(&ack, sizeof(ack), body, bytes, sizeof(ack)) != 0)
        return "it sent a malformed acknowledgement";
    if (ack.lane >= LANES)
        return "it acknowledged an unknown lane";
    out = &pair->out[ack.lane];
    if (ack.taken < out->taken || ack.taken > out->charged)
        return "it acknowledged more than it was sent";
    out->taken = ack.taken;
    return NULL;
}

void lane_init(struct pair *pair, lane_post post)
{
    int i;

    memset(pair, 0, sizeof(*pair));
    pair->post = post;
    for (i = 0; i < LANES; i++) {
        list_init(&pair->in[i].chunks);
        pair->in[i].window = LANE_WINDOW_BYTES;
        pair->out[i].window = LANE_WINDOW_LEAST;
    }
}

void lane_free(struct pair *pair)
{
    struct link *at, *after;
    int i;

    for (i = 0; i < LANES; i++) {
        list_for_each (at, after, &pair->in[i].chunks)
            free(container_of(at, struct arrived, link));
        lane_unstash(&pair->in[i]);
    }
    free(pair);
}
