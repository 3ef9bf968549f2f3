/* SPDX-License-Identifier: BSD-3-Clause */
/* window.c: see window.h. */
#include "msg/window.h"

#include "msg/buffer.h"
#include "msg/out.h"
#include "util/failpoint.h"

#include <rinfo.h>
#include <string.h>

/* As far as an address can be; what is not mapped fails when it is accessed. */
#define WINDOW_BYTES ((size_t)(INTPTR_MAX - MSG_WIRE_WINDOW_BASE))

static bool window_is_mapped(const struct msg_link *l)
{
    rinfo_pipe_t info;

    return rinfo_describe(l->out, &info) == 0 && strcmp(info.backend, "shm") == 0;
}

void msg_window_offer(struct msg_link *l)
{
    struct msg_wire_window w = {.probe = (uintptr_t)&l->msg->hello.magic};
    rwindow_handle_t handle;

    l->mapped = window_is_mapped(l);
    if (!l->mapped)
        return;
    if (l->msg->memory == NULL &&
        rregion_open(&l->msg->memory, l->out, (void *)(uintptr_t)MSG_WIRE_WINDOW_BASE,
                     WINDOW_BYTES) != 0)
        return;
    if (rwindow_open(&l->window, l->out, l->msg->memory, RWINDOW_READ | RWINDOW_WRITE, &handle) !=
        0) {
        l->window = NULL; /* RPIPE_CROSS is 0 */
        return;
    }
    static_assert(sizeof(handle) == sizeof(w.handle), "a handle in a message");
    memcpy(w.handle, &handle, sizeof(handle));
    RPIPE_FAILPOINT("rmsg window: open, before WINDOW");
    (void)msg_out_put(l, msg_wire_header(MSG_WIRE_WINDOW, 0, 0), &w, sizeof(w));
}

/* Sends memory for the cells of this end; without memory there it has none. */
static void window_send_cells(struct msg_link *l)
{
    const size_t bytes = MSG_CELLS * sizeof(struct msg_cell);
    raddr_t d;

    if (l->out_code != 0 || rmalloc_nb(l->out, bytes, &d) != 0)
        return;
    l->out_cells = (struct msg_cell *)rmalloc_ptr(l->out, d);
    memset((void *)l->out_cells, 0, bytes);
    (void)rpipe_set_tag(l->out, d, msg_wire_header(MSG_WIRE_CELLS, 0, 0));
    if (rpipe_write_nb(l->out, d) == 0)
        return;
    (void)rmalloc_free(l->out, d);
    l->out_cells = NULL;
}

static const char *window_attach(struct msg_link *l, const void *mem, size_t bytes)
{
    struct msg_wire_window w;
    rwindow_handle_t handle;

    if (bytes != sizeof(w) || l->remote != NULL)
        return "two windows, or one of another length";
    memcpy(&w, mem, sizeof(w));
    memcpy(&handle, w.handle, sizeof(handle));
    if (l->out_code != 0 || !l->mapped ||
        rwindow_attach(&l->remote, l->out, &handle, R_NOWAIT) != 0) {
        l->remote = NULL; /* the kernel does not permit it, or the setting */
        return NULL;
    }
    if (rwindow_way(l->remote) != RWINDOW_CROSS || rwindow_bytes(l->remote) != WINDOW_BYTES)
        return "a window that is not the memory of a process";
    l->probe = w.probe;
    RPIPE_FAILPOINT("rmsg copy: window attached, before CELLS");
    window_send_cells(l);
    return NULL;
}

static const char *window_keep_cells(struct msg_link *l, void *mem, size_t bytes)
{
    if (bytes != MSG_CELLS * sizeof(struct msg_cell) || l->in_cells != NULL)
        return "two sets of cells, or one of another length";
    if (!l->mapped)
        return "cells over a network";
    l->in_cells = (struct msg_cell *)mem;
    if ((uintptr_t)l->in_cells % sizeof(uint64_t) != 0)
        return "cells that are not aligned";
    RPIPE_FAILPOINT("rmsg copy: cells here, before READY");
    if (l->remote != NULL)
        msg_out_say(l, MSG_WIRE_READY, 0, 0, NULL);
    return NULL;
}

const char *msg_window_arrived(struct msg_link *l, const struct msg_wire *w, const rtaken_t *m)
{
    const char *wrong;

    if (w->space != 0 || (w->word != 0 && (w->kind == MSG_WIRE_CELLS || l->direct == NULL)))
        return "a window with a tag";
    if (w->kind == MSG_WIRE_CELLS) /* stays where it is */
        return window_keep_cells(l, m->mem, w->bytes);
    wrong = l->direct != NULL ? msg_buffer_attach(l, w->word, m->mem, w->bytes)
                              : window_attach(l, m->mem, w->bytes);
    msg_taken_free(l, m);
    return wrong;
}

const char *msg_window_ready(struct msg_link *l)
{
    if (l->out_cells == NULL || l->ready)
        return "READY for no cells";
    l->ready = true;
    return NULL;
}

void msg_window_close(struct msg_link *l)
{
    if (l->window != NULL)
        (void)rwindow_close(l->window);
    l->window = NULL;
    msg_buffer_close_windows(l);
}
