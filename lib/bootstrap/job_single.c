/* SPDX-License-Identifier: BSD-3-Clause */
/* job_single.c: a job of one process, started without a launcher. */
#include "bootstrap/job_ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    uint8_t card[JOB_CARD_MAX];
    size_t bytes; /* 0: not published yet */
} single_own;

static int single_query(struct error *err)
{
    error_note(err, "a job of one process");
    return 0;
}

static int single_open(int *rank, int *size, int64_t deadline, struct error *err)
{
    (void)deadline, (void)err;
    single_own.bytes = 0;
    *rank = 0;
    *size = 1;
    return 0;
}

static int single_publish(const void *card, size_t bytes, int64_t deadline, struct error *err)
{
    (void)deadline, (void)err;
    memcpy(single_own.card, card, bytes);
    single_own.bytes = bytes;
    return 0;
}

static int single_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err)
{
    (void)rank, (void)deadline;
    if (single_own.bytes == 0)
        return error_set(err, -ENOENT, "no card has been published yet");
    memcpy(card, single_own.card, single_own.bytes);
    *bytes = single_own.bytes;
    return 0;
}

static int single_local_size(void) { return 1; }
static __attribute__((noreturn)) void single_abort(int code) { _exit(code); }
static void single_close(void) { single_own.bytes = 0; }

const struct job_ops job_single_ops = {
    .version = JOB_OPS_VERSION,
    .name = "single",
    .query = single_query,
    .open = single_open,
    .publish = single_publish,
    .card = single_card,
    .abort = single_abort,
    .close = single_close,
    .local_size = single_local_size,
};
