/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_am.c: active messages among the three of byzantine.h. The friend asks the victim, and gets what it has asked for, all the time; the
 * byzantine rank requests and replies as it likes, and stores what it likes where the channels of its links are.
 */
#include "byzantine.h"
#include "random_am.h"

#include "am/am.h"
#include "rpipe/end/rch.h"

#include <ram.h>

enum handler { ECHO, KEEP, SILENT, HANDLERS };

#define REQUEST_BYTES 65536
#define REPLY_BYTES 1024
#define KEPT 8
#define ASKED 16
#define ANSWER_MS 5000 /* limit of the wait for a rank that does not take answers */

static ram_t am;
static ram_message_t kept[KEPT];
static int keeps;
static ram_request_t asked[ASKED];

static void on_echo(ram_t context, ram_message_t *m, void *arg)
{
    (void)arg;
    (void)ram_reply(context, m, RAM_RESULT, m->args, m->nargs, m->data,
                    m->bytes <= REPLY_BYTES - 8 * (RAM_ARGS_MAX + 1) ? m->bytes : 0);
}

static void on_keep(ram_t context, ram_message_t *m, void *arg)
{
    (void)arg;
    if (keeps < KEPT)
        EXPECT(ram_keep(context, m, &kept[keeps++]) == 0, "ram_keep: %s", rerror(NULL));
}

static void on_silent(ram_t context, ram_message_t *m, void *arg)
{
    (void)context, (void)m, (void)arg;
}

static const ram_handler_t handlers[HANDLERS] = {
    {"echo", on_echo, NULL}, {"keep", on_keep, NULL}, {"silent", on_silent, NULL}};

static void context_open(int timeout_ms)
{
    ram_config_t cfg = {0};

    cfg.handlers = handlers;
    cfg.nhandlers = HANDLERS;
    cfg.credits = 8;
    cfg.request_bytes = REQUEST_BYTES;
    cfg.reply_bytes = REPLY_BYTES;
    cfg.timeout_ms = timeout_ms;
    CHECK(NULL, ram_init(&am, &cfg) == 0);
}

/* ---- the victim ---- */

void victim_am_open(void) { context_open(ANSWER_MS); }

static void ask_byzantine(uint64_t *random)
{
    uint64_t x = random_draw(random);
    ram_request_t *r = &asked[(x >> 8) % ASKED];
    char payload[300] = {1};
    int rc;

    if (*r != 0 && ram_wait(am, *r, NULL, R_NOWAIT) == R_PENDING)
        return;
    *r = 0;
    rc = ram_request(am, BYZANTINE, (uint32_t)(x >> 16) % HANDLERS, NULL, 0, payload,
                     (x >> 24) % sizeof(payload), (x & 1) != 0 ? r : NULL, R_NOWAIT);
    EXPECT(victim_may_get(rc), "ram_request gave %d (%s)", rc, rerror(NULL));
    EXPECT(strpbrk(rerror(NULL), "\033\n\r") == NULL, "ram_request: the error message is \"%s\"",
           rerror(NULL));
}

void victim_am_serve(uint64_t *random)
{
    uint64_t x = random_draw(random);
    int rc = ram_serve(am, 16, 0);

    EXPECT(rc >= 0, "ram_serve gave %d (%s)", rc, rerror(NULL));
    if ((x & 3) == 0)
        ask_byzantine(random);
    if ((x >> 8 & 7) == 0 && keeps > 0)
        EXPECT(ram_free(am, &kept[--keeps]) == 0, "ram_free: %s", rerror(NULL));
}

void victim_am_close(struct board *board)
{
    uint64_t failed;

    CHECK(NULL, ram_count(am, "failed", &failed) == 0);
    atomic_store(BOARD_ENDED(board), failed);
    while (keeps > 0)
        EXPECT(ram_free(am, &kept[--keeps]) == 0, "ram_free: %s", rerror(NULL));
    CHECK(NULL, ram_exit(am) == 0);
}

/* ---- the friend ---- */

void friend_am_open(void) { context_open(PATIENCE_MS); }

void friend_am_ask(uint64_t *random)
{
    static uint8_t payload[900];
    size_t bytes = random_draw(random) % sizeof(payload);
    uint64_t key = random_draw(random);
    ram_message_t reply;
    ram_request_t r;

    pattern_fill(payload, bytes, key);
    if (ram_request(am, VICTIM, ECHO, &key, 1, payload, bytes, &r, 0) != 0 ||
        ram_wait(am, r, &reply, 0) != 0) {
        printf("the friend asks: %s\n", rerror(NULL));
        fflush(stdout);
        _exit(3);
    }
    CHECK(NULL, reply.nargs == 1 && reply.args[0] == key && reply.bytes == bytes &&
                    pattern_same(reply.data, bytes, key));
    CHECK(NULL, ram_free(am, &reply) == 0);
}

void friend_am_close(void) { CHECK(NULL, ram_exit(am) == 0); }

/* ---- the byzantine rank ---- */

void byzantine_am_open(void) { context_open(100); }

static void send_invalid(rch_t w, uint32_t kind, uint64_t *random)
{
    size_t size;
    uint64_t header =
        invalid_am(random, kind, HANDLERS, 0x100 | (uint32_t)random_draw(random) % 8, &size);
    raddr_t d;

    if (w == NULL || rmalloc_nb(w, size, &d) != 0)
        return;
    for (size_t i = 0; i < size; i += 8)
        memcpy((char *)rmem(w, d) + i, &header, size - i < 8 ? size - i : 8);
    (void)rset_tag(w, d, header);
    if (rwrite_nb(w, d) != 0)
        (void)rfree(w, d);
}

void byzantine_am_attack(uint64_t *random)
{
    uint64_t x = random_draw(random);
    struct am_out *out;
    struct am_in *in;
    rch_t w, r;

    (void)ram_serve(am, 4, 0);
    while (keeps > 4)
        (void)ram_free(am, &kept[--keeps]);
    (void)ram_request(am, VICTIM, (uint32_t)(x >> 8) % HANDLERS, NULL, 0, NULL, 0, NULL, R_NOWAIT);
    out = am->out[VICTIM] != NULL && am->out[VICTIM]->state == OUT_OPEN ? am->out[VICTIM] : NULL;
    in = am->in[VICTIM] != NULL && am->in[VICTIM]->state == IN_OPEN ? am->in[VICTIM] : NULL;
    w = (x & 1) != 0 ? (out != NULL ? out->requests : NULL) : (in != NULL ? in->replies : NULL);
    r = (x & 2) != 0 ? (out != NULL ? out->replies : NULL) : (in != NULL ? in->requests : NULL);
    if (w == NULL || r == NULL || w->ring == NULL || r->ring == NULL)
        return;
    switch (x >> 16 & 7) {
    case 0:
        memory_attack(r, random);
        break;
    case 1:
        memory_attack(w, random);
        break;
    case 2:
        message_attack(w, random);
        break;
    default:
        send_invalid(w, (x & 1) != 0 ? WIRE_REQUEST : WIRE_REPLY, random);
    }
}
