/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: what is read, in which order, and what is looked after beside it: ram_poll, ram_serve, and how calls wait.
 *
 * All channels that are read stand in one array; it is passed through from where the last turn ended,
 * a few messages of each, so that no peer can starve another. What is rare (links that open, acknowledgements that are
 * due, links that idle) is looked after in turns that find nothing to read, and in every 64th.
 */
#include "am/am.h"

#include <errno.h>
#include <stdlib.h>

#define BURST 16 /* messages of one link in a row */
#define TEND_EVERY 64
#define TEND_LOOKS 8 /* of those in a row that find nothing */
#define LOOKS                                                                                      \
    40 /* in a row, before a call that waits does anything else: some 2 us, in which most answers come */
#define SLICE_MS 1 /* of waiting, between two looks at what rpipe_poll does not see */

/* ---- the array ---- */

static bool am_progress_make_room(struct ram *am)
{
    int room = am->readers_room == 0 ? 16 : am->readers_room * 2;
    struct am_reader *reader = realloc(am->reader, (size_t)room * sizeof(*reader));
    rch_t *reading;
    int *ready;

    if (reader != NULL)
        am->reader = reader;
    reading = realloc(am->reading, (size_t)room * sizeof(*reading));
    if (reading != NULL)
        am->reading = reading;
    ready = realloc(am->ready, (size_t)room * sizeof(*ready));
    if (ready != NULL)
        am->ready = ready;
    if (reader == NULL || reading == NULL || ready == NULL)
        return false;
    am->readers_room = room;
    return true;
}

int am_reader_add(struct ram *am, rch_t ch, struct am_out *out, struct am_in *in)
{
    if (am->readers == am->readers_room && !am_progress_make_room(am))
        return -ENOMEM;
    am->reading[am->readers] = ch;
    am->reader[am->readers] = (struct am_reader){out, in};
    am->ready[am->readers] = 0;
    am->readers++;
    return 0;
}

void am_reader_remove(struct ram *am, rch_t ch)
{
    for (int i = 0; i < am->readers; i++) {
        if (am->reading[i] != ch)
            continue;
        am->readers--;
        am->reading[i] = am->reading[am->readers];
        am->reader[i] = am->reader[am->readers];
        am->ready[i] = am->ready[am->readers];
        return;
    }
}

/* ---- reading ---- */

/* Most looks find nothing, so a look at a channel is no more than one call. */
static inline int am_progress_read_one(struct ram *am, int i)
{
    const struct am_reader from = am->reader[i];
    raddr_t d = ADDR_NULL;
    size_t size = 0;
    int rc = rpipe_read_nb(am->reading[i], &d, &size);

    if (rc == R_PENDING)
        return rc;
    return from.in != NULL ? am_in_on_message(am, from.in, rc, d, size)
                           : am_out_on_message(am, from.out, rc, d, size);
}

/* The array changes while handlers run: what stands at a place is looked at anew each time. */
static int am_progress_scan(struct ram *am, int most)
{
    int ran = 0;

    for (int left = am->readers; left > 0 && ran < most && am->readers > 0; left--) {
        int i = am->cursor < am->readers ? am->cursor : 0, burst = BURST, rc;
        rch_t ch = am->reading[i];

        am->cursor = i + 1;
        while ((rc = am_progress_read_one(am, i)) >= 0) {
            ran += rc > 0;
            if (--burst == 0 || ran >= most || i >= am->readers || am->reading[i] != ch)
                break;
        }
    }
    return ran;
}

void am_send_all_due(struct ram *am)
{
    for (int i = 0; i < am->ranks && am->due > 0; i++)
        if (am->in[i] != NULL)
            am_in_send_due(am, am->in[i]);
}

static void am_progress_tend(struct ram *am)
{
    int i;

    am_in_look(am);
    for (i = 0; i < am->ranks && am->opening > 0; i++) {
        if (am->out[i] != NULL && am->out[i]->state == OUT_OPENING)
            (void)am_out_tend(am, am->out[i]); /* whoever sent a request on it will hear of it */
        if (am->in[i] != NULL)
            (void)am_in_tend(am, am->in[i]);
    }
    am_send_all_due(am);
    if (am->polls % TEND_EVERY == 0 && (am->idle_ms >= 0 || am->max_links > 0))
        am_out_look_idle(am, am_now_ms());
}

/* After a turn in which so many handlers have run. */
static inline void am_progress_tend_if_due(struct ram *am, int ran)
{
    if (++am->polls % TEND_EVERY == 0 || ran == 0)
        am_progress_tend(am);
}

int am_progress(struct ram *am, int most)
{
    int ran = am_progress_scan(am, most);

    am_progress_tend_if_due(am, ran);
    return ran;
}

void am_progress_others(struct ram *am, bool all)
{
    int ran = am_progress_scan(am, INT32_MAX);

    if (all)
        am_progress_tend_if_due(am, ran);
}

/* ---- waiting ---- */

int am_pass_time(struct ram *am)
{
    const struct timespec backoff = {0, 50000};
    int rc = 0;

    if (am->readers > 0)
        rc = rpipe_poll(am->reading, am->readers, am->ready, SLICE_MS);
    else
        nanosleep(&backoff, NULL);
    if (AM_UNLIKELY(rc != 0 && rc != -ETIMEDOUT))
        return am_fail(am, rc, "the channels of this context cannot be read: %s",
                       rpipe_error(NULL));
    return 0;
}

int am_progress_some(struct ram *am, int most)
{
    int ran = am_progress_scan(am, most);

    for (int looks = 1; looks < LOOKS && ran == 0; looks++) {
        if (looks % TEND_LOOKS == 0)
            am_progress_tend_if_due(am, 0);
        am_pause();
        ran = am_progress_scan(am, most);
    }
    am_progress_tend_if_due(am, ran);
    return ran;
}

/* ---- calls ---- */

int ram_poll(ram_t am, int most)
{
    int rc;

    if (!am_may_wait(am, "ram_poll", &rc))
        return rc;
    if (most < 1)
        return am_fail(am, -EINVAL, "ram_poll: at most %d handlers; it must be 1 or more", most);
    return am_progress(am, most);
}

int ram_serve(ram_t am, int most, int timeout_ms)
{
    int64_t end = 0;
    int ran, rc;

    if (!am_may_wait(am, "ram_serve", &rc))
        return rc;
    if (most < 1 || timeout_ms < -1)
        return am_fail(am, -EINVAL,
                       "ram_serve: at most %d handlers within %d ms; 1 or more, and -1 or more",
                       most, timeout_ms);
    if (timeout_ms == 0)
        return am_progress(am, most);
    while ((ran = am_progress_some(am, most)) == 0) {
        if (timeout_ms > 0 && end == 0)
            end = am_now_ms() + timeout_ms;
        else if (timeout_ms > 0 && am_now_ms() >= end)
            break;
        rc = am_pass_time(am);
        if (rc != 0)
            return rc;
    }
    return ran;
}
