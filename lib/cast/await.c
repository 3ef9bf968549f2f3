/* SPDX-License-Identifier: BSD-3-Clause */
/* await.c: attempts, waits, and what a deadline reports; see cast.h. */
#include "cast/cast.h"

#include "rpipe/end/cork.h"
#include "rpipe/end/error.h"
#include "rpipe/end/job_state.h"
#include "sync/wait.h"
#include "util/clock.h"

#include <errno.h>

#define AWAIT_WORDS 64
#define AWAIT_NAP_NS                                                                               \
    (NS_PER_MS / 20) /* where readers on this host are awaited, and readers on others */

struct cast_awaited {
    struct rcast *c;
    int (*attempt)(struct rcast *c, void *of);
    void *of;
};

/* The words of all paths, and the path that sleeps by itself, or NULL. */
static int await_find(struct rcast *c, rboard_word_t *word, struct cast_path **sleeps)
{
    int n = 0;

    *sleeps = NULL;
    for (int i = 0; i < CAST_PATHS && c->path[i] != NULL; i++) {
        if (c->path[i]->ops->sleep != NULL)
            *sleeps = c->path[i];
        else
            n += c->path[i]->ops->words(c->path[i], word + n, AWAIT_WORDS - n);
    }
    return n;
}

static void await_sleep(void *of, int64_t ns)
{
    const struct cast_awaited *a = of;
    rboard_word_t word[AWAIT_WORDS];
    struct cast_path *path;
    int n = await_find(a->c, word, &path);

    if (path != NULL)
        path->ops->sleep(path, n > 0 && ns > AWAIT_NAP_NS ? AWAIT_NAP_NS : ns);
    else if (n > 0)
        (void)rboard_sleep(a->c->board, word, n, (int)((ns + NS_PER_MS - 1) / NS_PER_MS));
    else
        clock_sleep(ns < AWAIT_NAP_NS ? ns : AWAIT_NAP_NS);
}

static int await_attempt(void *of)
{
    const struct cast_awaited *a = of;
    int rc = calls_ended() ? job_check() : 0;

    if (rc != 0)
        return rc;
    for (int i = 0; i < CAST_PATHS && a->c->path[i] != NULL; i++)
        if (a->c->path[i]->ops->progress != NULL)
            a->c->path[i]->ops->progress(a->c->path[i]);
    return a->attempt(a->c, a->of);
}

int cast_await(struct rcast *c, int flags, int (*attempt)(struct rcast *c, void *of), void *of)
{
    struct cast_awaited a = {c, attempt, of};
    struct waiter w;
    int rc = await_attempt(&a);

    if (rc == R_PENDING)
        cork_before_wait();
    if (rc != R_PENDING || (flags & R_NOWAIT) != 0)
        return rc;
    wait_begin(&w, NULL, deadline_in_ms(c->timeout_ms), false);
    w.sleep = await_sleep;
    w.of = &a;
    return wait_until(&w, await_attempt, &a);
}

/* The live reader that has freed least. -1: there is none. */
static int await_find_last(const struct rcast *c, uint64_t *read, uint64_t *freed)
{
    int last = -1;

    *read = *freed = c->next;
    for (int i = 0; i < c->n; i++) {
        struct cast_path *path = c->path[c->member[i].path];
        uint64_t r, f;

        if (i == c->me || c->member[i].state != CAST_LIVE)
            continue;
        path->ops->position(path, i, &r, &f);
        if (last < 0 || (int64_t)(f - *freed) < 0) {
            last = i;
            *read = r;
            *freed = f;
        }
    }
    return last;
}

int cast_writer_timed_out(struct rcast *c, const char *what)
{
    uint64_t read, freed;
    int last = await_find_last(c, &read, &freed);

    c->last_lost = last;
    if (last < 0)
        return call_error(NULL, -ETIMEDOUT, "no %s within %d ms", what, c->timeout_ms);
    return call_error(
        NULL, -ETIMEDOUT,
        "no %s within %d ms: member %d, rank %d, has read %llu and freed %llu of %llu "
        "messages, and %u can be in use; it has to call rcast_read and rcast_free",
        what, c->timeout_ms, last, c->member[last].rank, (unsigned long long)(read - c->first),
        (unsigned long long)(freed - c->first), (unsigned long long)(c->next - c->first), c->slots);
}
