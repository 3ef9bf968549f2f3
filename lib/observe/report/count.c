/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count.c: rinfo_counter, rinfo_count: counters by name.
 */
#include "observe/record/published.h"
#include "rpipe/end/call.h"
#include "rpipe/end/counters.h"
#include "rpipe/end/job_state.h"

#include <errno.h>
#include <rinfo.h>
#include <string.h>
#include <unistd.h>

/* Counters of a context of active messages, in lib/am/context.c by the same names (test/unit/test_am_context.c). */
static const struct counter_row count_am[] = {
    {.name = "requests", .unit = "requests", .meaning = "sent"},
    {.name = "replies", .unit = "replies", .meaning = "received"},
    {.name = "handled", .unit = "messages", .meaning = "whose handler was run"},
    {.name = "answered", .unit = "requests", .meaning = "of peers, answered by a reply"},
    {.name = "bytes_out", .unit = "bytes", .meaning = "of payload sent"},
    {.name = "bytes_in", .unit = "bytes", .meaning = "of payload received"},
    {.name = "stalls_credit", .unit = "attempts", .meaning = "to send that found no credit"},
    {.name = "stalls_memory", .unit = "attempts", .meaning = "to send that found no memory"},
    {.name = "opened", .unit = "links", .meaning = "opened to peers"},
    {.name = "accepted", .unit = "links", .meaning = "accepted from peers"},
    {.name = "retired", .unit = "links", .meaning = "closed because they were idle"},
    {.name = "failed", .unit = "links", .meaning = "ended by an error"},
    {.name = "links_out", .unit = "links", .meaning = "to peers: now", .now = true},
    {.name = "links_in", .unit = "links", .meaning = "from peers: now", .now = true},
    {.name = "outstanding", .unit = "requests", .meaning = "without an answer: now", .now = true},
    {.name = "kept", .unit = "messages", .meaning = "owned by the program: now", .now = true},
};
#define COUNT_AM ((int)(sizeof(count_am) / sizeof(*count_am)))

const rinfo_counter_t *rinfo_counter(int index)
{
    static _Thread_local rinfo_counter_t found;
    const struct published_layout *layout = counter_layout();
    const struct counter_row *row;

    if (index < 0 || index >= layout->rows + COUNT_AM)
        return NULL;
    row = index < layout->rows ? &layout->row[index] : &count_am[index - layout->rows];
    found = (rinfo_counter_t){.name = row->name,
                              .unit = row->unit,
                              .meaning = row->meaning,
                              .scope = index < layout->rows ? "pipe" : "ram",
                              .now = row->now};
    return &found;
}

struct count_arguments {
    int index;
    uint64_t value;
};

static int count_attempt(struct rch *ch, void *arguments)
{
    struct count_arguments *a = arguments;

    counter_refresh(ch);
    a->value = published_value(&counter_layout()->row[a->index], ch,
                               (enum published_role)ch->published_end.role);
    return 0;
}

/* The first row is that of the process. Other threads go on counting: the sums are read from the file, as by an observer. */
static int count_first_row(const rinfo_row_t *row, void *argument)
{
    struct count_arguments *a = argument;

    if (a->index < row->counters)
        a->value = row->value[a->index];
    return 1;
}

int rinfo_count(rch_t ch, const char *name, uint64_t *value)
{
    const struct published_layout *layout = counter_layout();
    struct count_arguments a = {0, 0};
    struct call call;
    int rc;

    if (ch == NULL) {
        call_enter(&call, "rinfo_count");
        rc = job_check();
    } else {
        rc = call_begin(&call, "rinfo_count", ch, 0);
    }
    if (rc == 0 && (name == NULL || value == NULL))
        rc = call_error(ch, -EINVAL, "%s is NULL", name == NULL ? "name" : "value");
    while (rc == 0 && a.index < layout->rows && strcmp(name, layout->row[a.index].name) != 0)
        a.index++;
    if (rc == 0 && a.index == layout->rows)
        rc = call_error(ch, -ENOENT, "no counter has the name \"%.40s\"; rinfo_counter lists them",
                        name);
    if (rc == 0)
        rc = ch != NULL ? call_once(ch, count_attempt, &a)
                        : rinfo_observe(getpid(), count_first_row, &a);
    if (rc >= 0) {
        *value = a.value;
        rc = 0;
    }
    return call_end(&call, rc);
}
