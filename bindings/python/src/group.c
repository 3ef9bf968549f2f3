/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.c: pipes to many readers, or from many writers, as one object.
 *
 * A message belongs to the pipe of its member; such a Pipe belongs to the group and is closed with it. A group and its pipes belong
 * to one thread at a time: while a thread waits in the group it is inside all of its pipes.
 *
 * A reduction that ends with an error goes on in the next call, so its array is held until then.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject_HEAD rgroup_t group; /* NULL: closed */
    bool read_only;
    int role, n;
    int inside;
    int total_ms, slice_ms;
    Pipe **pipe;    /* of each member, NULL: not asked for yet */
    Py_buffer into; /* of a reduction that is not complete */
    PyObject *weak;
} Group;

/* One attempt of a call of a group, which may wait for a slice. */
typedef int (*group_attempt_t)(rgroup_t group, void *argument);

/* ---- life ---- */

static bool group_peers(PyObject *peers, int **list, int *n)
{
    PyObject *items;
    Py_ssize_t i;

    *list = NULL;
    if (PyLong_Check(peers)) {
        *n = (int)PyLong_AsLong(peers);
        return *n != -1 || PyErr_Occurred() == NULL;
    }
    items = PySequence_Fast(peers, "peers is a number of ranks, or a sequence of peers");
    if (items == NULL)
        return false;
    *n = (int)PySequence_Fast_GET_SIZE(items);
    *list = calloc((size_t)*n + 1, sizeof(**list));
    for (i = 0; *list != NULL && i < *n && PyErr_Occurred() == NULL; i++)
        (*list)[i] = (int)PyLong_AsLong(PySequence_Fast_GET_ITEM(items, i));
    Py_DECREF(items);
    if (*list == NULL)
        PyErr_NoMemory();
    return PyErr_Occurred() == NULL;
}

static int group_init(Group *g, PyObject *args, PyObject *keywords)
{
    PyObject *peers;
    rpipe_config_t cfg;
    int *list = NULL, rc = RAISED;

    if (!PyArg_ParseTuple(args, "O:Group", &peers) || !config_parse(keywords, &cfg, &g->total_ms))
        return -1;
    if (g->group != NULL) {
        PyErr_SetString(PyExc_ValueError, "the group is open");
        return -1;
    }
    if (group_peers(peers, &list, &g->n)) {
        g->pipe = calloc((size_t)(g->n > 0 ? g->n : 0) + 1, sizeof(Pipe *));
        rc = g->pipe != NULL ? rgroup_open(&g->group, &cfg, list, g->n) : -ENOMEM;
        if (rc != 0)
            call_raise(rc);
    }
    free(list);
    g->role = cfg.role;
    g->read_only = cfg.op == RPIPE_GET;
    g->slice_ms = SLICE_MS;
    return rc == 0 ? 0 : -1;
}

static bool group_usable(const Group *g)
{
    if (g->group == NULL)
        PyErr_SetString(PyExc_ValueError, "the group is closed");
    else if (g->inside != 0)
        PyErr_SetString(PyExc_RuntimeError, "another thread waits in a call of this group");
    return g->group != NULL && g->inside == 0;
}

static void group_enter(Group *g)
{
    int i;

    Py_INCREF(g);
    g->inside++;
    for (i = 0; i < g->n; i++)
        if (g->pipe[i] != NULL)
            pipe_enter(g->pipe[i]);
}

static void group_leave(Group *g)
{
    int i;

    for (i = 0; i < g->n; i++)
        if (g->pipe[i] != NULL)
            pipe_leave(g->pipe[i]);
    g->inside--;
    Py_DECREF(g);
}

/* The pipe of a member, a borrowed reference. */
static Pipe *group_pipe(Group *g, int member)
{
    rch_t ch = rgroup_pipe(g->group, member);
    Pipe *pipe;

    if (ch == NULL) {
        call_raise(-errno);
        return NULL;
    }
    if (g->pipe[member] != NULL)
        return g->pipe[member];
    pipe = (Pipe *)PipeType.tp_alloc(&PipeType, 0);
    if (pipe == NULL)
        return NULL;
    pipe->ch = ch;
    pipe->role = g->role;
    pipe->read_only = g->read_only;
    pipe->total_ms = g->total_ms;
    pipe->slice_ms = g->slice_ms;
    pipe->owner = Py_NewRef(g);
    return g->pipe[member] = pipe;
}

/* ---- waiting ---- */

static int group_slice(Group *g, group_attempt_t attempt, void *argument, int slice_ms)
{
    int i, rc = 0;

    if (slice_ms != g->slice_ms) {
        rc = rgroup_set_timeout(g->group, slice_ms);
        g->slice_ms = slice_ms;
        for (i = 0; i < g->n; i++)
            if (g->pipe[i] != NULL)
                g->pipe[i]->slice_ms = slice_ms;
    }
    if (rc != 0)
        return rc;
    group_enter(g);
    Py_BEGIN_ALLOW_THREADS;
    rc = attempt(g->group, argument);
    Py_END_ALLOW_THREADS;
    group_leave(g);
    return rc;
}

/* 0, R_EOF, or RAISED. */
static int group_wait(Group *g, group_attempt_t attempt, void *argument, int total_ms)
{
    int64_t deadline = call_deadline(total_ms);
    int rc;

    for (;;) {
        int slice_ms = call_slice(deadline);

        rc = group_slice(g, attempt, argument, slice_ms);
        if (rc != -ETIMEDOUT)
            break;
        if (call_is_over(deadline)) {
            call_raise_timeout(slice_ms, total_ms);
            return RAISED;
        }
        if (PyErr_CheckSignals() != 0 || !group_usable(g))
            return RAISED;
    }
    if (rc == 0 || rc == R_EOF)
        return rc;
    call_raise(rc);
    return RAISED;
}

/* ---- messages ---- */

struct group_message {
    int to, member, flags;
    size_t bytes;
    raddr_t d;
};

static int group_alloc_attempt(rgroup_t group, void *argument)
{
    struct group_message *m = argument;

    return rgroup_alloc(group, m->to, m->bytes, &m->member, &m->d, m->flags);
}

static int group_read_attempt(rgroup_t group, void *argument)
{
    struct group_message *m = argument;

    return rgroup_read(group, &m->member, &m->d, &m->bytes, m->flags);
}

/* The message belongs to a member that is found out by the call: a failure to make an object frees it. */
static PyObject *group_message(Group *g, struct group_message *gm, PyObject *seconds, bool unsent)
{
    group_attempt_t attempt = unsent ? group_alloc_attempt : group_read_attempt;
    int ms, rc;
    Message *m;
    Pipe *pipe;

    if (!group_usable(g) || !call_timeout(seconds, g->total_ms, &ms))
        return NULL;
    gm->flags = R_NOWAIT;
    rc = attempt(g->group, gm);
    gm->flags = 0;
    if (rc == R_PENDING && ms == 0)
        return call_raise_timeout(0, 0);
    if (rc == R_PENDING)
        rc = group_wait(g, attempt, gm, ms);
    if (rc != 0)
        return call_raise(rc);
    pipe = group_pipe(g, gm->member);
    m = pipe != NULL ? message_new(pipe) : NULL;
    if (m == NULL) {
        (void)rmalloc_free(rgroup_pipe(g->group, gm->member), gm->d);
        return NULL;
    }
    message_own(m, gm->d, gm->bytes, unsent);
    m->member = gm->member;
    return (PyObject *)m;
}

static PyObject *group_allocate(Group *g, PyObject *args)
{
    struct group_message gm = {.d = ADDR_NULL};
    PyObject *seconds;
    Py_ssize_t bytes;

    if (!PyArg_ParseTuple(args, "niO:_allocate", &bytes, &gm.to, &seconds))
        return NULL;
    gm.bytes = (size_t)bytes;
    return group_message(g, &gm, seconds, true);
}

static PyObject *group_read(Group *g, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    struct group_message gm = {.d = ADDR_NULL};
    PyObject *seconds = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$O:read", names, &seconds))
        return NULL;
    return group_message(g, &gm, seconds, false);
}

static PyObject *group_next(Group *g)
{
    struct group_message gm = {.d = ADDR_NULL};
    PyObject *m = group_message(g, &gm, NULL, false);

    if (m == NULL && PyErr_ExceptionMatches(PyExc_EOFError))
        PyErr_Clear();
    return m;
}

/* ---- the rest ---- */

static int group_join_attempt(rgroup_t group, void *unused)
{
    (void)unused;
    return rgroup_wait(group);
}

static PyObject *group_join(Group *g, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    PyObject *seconds = NULL;
    int ms;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$O:wait", names, &seconds) ||
        !group_usable(g) || !call_timeout(seconds, g->total_ms, &ms) ||
        group_wait(g, group_join_attempt, NULL, ms == 0 ? 1 : ms) != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Forgets the pipes, whose messages have no exported buffer. */
static void group_forget(Group *g)
{
    int i;

    for (i = 0; g->pipe != NULL && i < g->n; i++)
        if (g->pipe[i] != NULL) {
            message_forget_all(g->pipe[i]);
            g->pipe[i]->ch = NULL;
            Py_CLEAR(g->pipe[i]);
        }
    PyBuffer_Release(&g->into);
}

static PyObject *group_close(Group *g, PyObject *unused)
{
    rgroup_t group = g->group;
    int i, rc;

    (void)unused;
    if (group == NULL)
        Py_RETURN_NONE;
    if (!group_usable(g))
        return NULL;
    for (i = 0; i < g->n; i++)
        if (g->pipe[i] != NULL && !message_detach_all(g->pipe[i]))
            return NULL;
    (void)rgroup_set_timeout(group, g->total_ms == 0 ? R_AT_ONCE : g->total_ms);
    group_enter(g);
    Py_BEGIN_ALLOW_THREADS;
    rc = rgroup_close(group);
    Py_END_ALLOW_THREADS;
    g->group = NULL;
    for (i = 0; i < g->n; i++)
        if (g->pipe[i] != NULL)
            g->pipe[i]->ch = NULL;
    group_leave(g);
    group_forget(g);
    if (rc != 0)
        return call_raise(rc);
    Py_RETURN_NONE;
}

/* The pipes refer to the group, and a message to its pipe: a group that is collected has no messages in use. */
static int group_traverse(Group *g, visitproc visit, void *arg)
{
    int i;

    for (i = 0; g->pipe != NULL && i < g->n; i++)
        Py_VISIT(g->pipe[i]);
    return 0;
}

static int group_clear(Group *g)
{
    if (g->group != NULL)
        (void)rgroup_close(g->group);
    g->group = NULL;
    group_forget(g);
    return 0;
}

static void group_dealloc(Group *g)
{
    PyObject_GC_UnTrack(g);
    if (g->weak != NULL)
        PyObject_ClearWeakRefs((PyObject *)g);
    group_clear(g);
    free(g->pipe);
    Py_TYPE(g)->tp_free((PyObject *)g);
}

static PyObject *group_get_closed(Group *g, void *unused)
{
    (void)unused;
    return PyBool_FromLong(g->group == NULL);
}

static PyObject *group_get_count(Group *g, void *unused)
{
    (void)unused;
    return PyLong_FromLong(g->group != NULL ? rgroup_count(g->group) : 0);
}

static PyObject *group_get_lost(Group *g, void *unused)
{
    (void)unused;
    return PyLong_FromLong(g->group != NULL ? rgroup_lost(g->group) : -1);
}

static PyMethodDef group_methods[] = {
    {"_allocate", (PyCFunction)group_allocate, METH_VARARGS, NULL},
    {"read", (PyCFunction)(void (*)(void))group_read, METH_VARARGS | METH_KEYWORDS,
     "read(*, timeout=None): the next message of any member, which is message.member"},
    {"wait", (PyCFunction)(void (*)(void))group_join, METH_VARARGS | METH_KEYWORDS,
     "wait(*, timeout=None): waits until all members are joined"},
    {"close", (PyCFunction)group_close, METH_NOARGS, "close(): closes all pipes"},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef group_attributes[] = {
    {"closed", (getter)group_get_closed, NULL, "whether this group is closed", NULL},
    {"count", (getter)group_get_count, NULL, "members that are neither lost nor closed", NULL},
    {"lost", (getter)group_get_lost, NULL, "the member that the last failure was about, or -1",
     NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyObject *group_self(PyObject *self) { return Py_NewRef(self); }

PyTypeObject GroupType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rpipe._rpipe.Group",
    .tp_basicsize = sizeof(Group),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)group_init,
    .tp_dealloc = (destructor)group_dealloc,
    .tp_traverse = (traverseproc)group_traverse,
    .tp_clear = (inquiry)group_clear,
    .tp_iter = group_self,
    .tp_iternext = (iternextfunc)group_next,
    .tp_methods = group_methods,
    .tp_getset = group_attributes,
    .tp_weaklistoffset = offsetof(Group, weak),
};
