/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: see progress.h; and ram_serve.
 *
 * All pipes that are read are in one array. A turn continues where the last one has ended and takes a few messages of each, so
 * no peer can starve another. What is rare (links that open, acknowledgements that are due, idle links) is checked in turns
 * that find nothing to read, and in every 64th.
 */
#include "am/progress.h"

#include "am/connect.h"
#include "am/fail.h"
#include "am/link_in.h"
#include "am/link_out.h"
#include "am/receive_in.h"
#include "am/receive_out.h"
#include "util/clock.h"

#include <errno.h>
#include <stdio.h>

#define AM_BURST 16      /* messages of one link in a row */
#define AM_TEND_EVERY 64 /* turns */
#define AM_TEND_POLLS 8  /* turns of am_progress_some that find nothing */
#define AM_POLLS 40      /* turns of am_progress_some: some 2 us, in which most answers arrive */
#define AM_SLICE_MS 1    /* of waiting, between two checks of what rpoll does not see */
#define AM_UNCONNECTED_NS 50000 /* of waiting where there is no pipe to read yet */

/* ---- reading ---- */

/* Most polls find nothing, so a poll of a pipe is one call. */
static inline int am_progress_read_one(struct ram *am, int i)
{
    const struct am_reader from = am->reader[i];
    raddr_t d = ADDR_NULL;
    size_t size = 0;
    int rc = rpipe_read_nb(am->reading[i], &d, &size);

    if (rc == R_PENDING)
        return rc;
    return from.in != NULL ? am_in_receive(am, from.in, rc, d, size)
                           : am_out_receive(am, from.out, rc, d, size);
}

/* The array changes while handlers run: each element is read anew. */
static int am_progress_scan(struct ram *am, int most)
{
    int ran = 0;

    for (int left = am->readers; left > 0 && ran < most && am->readers > 0; left--) {
        int i = am->cursor < am->readers ? am->cursor : 0, burst = AM_BURST, rc;
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

    am_in_accept(am);
    for (i = 0; i < am->ranks && am->opening > 0; i++) {
        if (am->out[i] != NULL && am->out[i]->state == OUT_OPENING)
            (void)am_out_proceed(am,
                                 am->out[i]); /* an error ends the link, and with it its calls */
        if (am->in[i] != NULL)
            (void)am_in_proceed(am, am->in[i]);
    }
    am_send_all_due(am);
    if (am->polls % AM_TEND_EVERY == 0 && (am->idle_ms >= 0 || am->max_links > 0))
        am_out_retire_idle(am, am_now_ms());
}

/* After a turn in which so many handlers have run. */
static inline void am_progress_tend_if_due(struct ram *am, int ran)
{
    if (++am->polls % AM_TEND_EVERY == 0 || ran == 0)
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

int am_progress_some(struct ram *am, int most)
{
    int ran = am_progress_scan(am, most);

    for (int polls = 1; polls < AM_POLLS && ran == 0; polls++) {
        if (polls % AM_TEND_POLLS == 0)
            am_progress_tend_if_due(am, 0);
        am_pause();
        ran = am_progress_scan(am, most);
    }
    am_progress_tend_if_due(am, ran);
    return ran;
}

/* ---- waiting ---- */

int am_wait_readers(struct ram *am)
{
    int rc = 0;

    if (am->readers > 0)
        rc = rpipe_poll(am->reading, am->readers, am->ready, AM_SLICE_MS);
    else
        clock_sleep(AM_UNCONNECTED_NS);
    if (AM_UNLIKELY(rc != 0 && rc != -ETIMEDOUT)) {
        char why[WIRE_TEXT_BYTES];

        snprintf(why, sizeof(why), "%s", rpipe_error(NULL));
        return am_fail(rc, "the pipes of this context cannot be read: %s", why);
    }
    return 0;
}

int64_t am_deadline(const struct ram *am)
{
    return am->timeout_ms < 0 ? INT64_MAX : am_now_ms() + am->timeout_ms;
}

bool am_progress_until(struct ram *am, const char *call, int64_t *deadline, int *rc)
{
    *rc = 0;
    if (*deadline == 0) {
        *deadline = am_deadline(am);
    } else if (am_now_ms() >= *deadline) {
        char why[WIRE_TEXT_BYTES];

        snprintf(why, sizeof(why), "%.200s", am_last_error(call));
        *rc = am_fail(-ETIMEDOUT, "%s: not done within %d ms: %s", call, am->timeout_ms, why);
        return false;
    }
    if (am_progress_some(am, INT32_MAX) == 0)
        *rc = am_wait_readers(am);
    return *rc == 0;
}

static int am_progress_serve(struct ram *am, int most, int timeout_ms)
{
    int64_t end = 0;
    int ran, rc;

    if (!am_may_wait(am, "ram_serve", &rc))
        return rc;
    if (most < 1 || timeout_ms < R_FOREVER)
        return am_fail(-EINVAL,
                       "ram_serve: most is %d, timeout_ms is %d; most must be 1 or more, "
                       "timeout_ms 0, a number of ms, or R_FOREVER",
                       most, timeout_ms);
    if (timeout_ms == 0) {
        ran = am_progress(am, most);
        return AM_LIKELY(ran > 0) ? ran : am_check_job("ram_serve");
    }
    while ((ran = am_progress_some(am, most)) == 0) {
        rc = am_check_job("ram_serve");
        if (rc != 0)
            return rc;
        if (timeout_ms > 0 && end == 0)
            end = am_now_ms() + timeout_ms;
        else if (timeout_ms > 0 && am_now_ms() >= end)
            break;
        rc = am_wait_readers(am);
        if (rc != 0)
            return am_fail_named("ram_serve", rc);
    }
    return ran;
}

int ram_serve(ram_t am, int most, int timeout_ms)
{
    int rc = 0;

    if (!am_enter(am, "ram_serve", &rc))
        return rc;
    return am_leave(am, am_progress_serve(am, most, timeout_ms));
}
