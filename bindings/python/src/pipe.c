/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipe.c: one end of a pipe. Writer and Reader of the package derive from it.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#define SMALL 4096 /* bytes of a message that recv() receives without asking for its length */

/* ---- life ---- */

static int pipe_init(Pipe *pipe, PyObject *args, PyObject *keywords)
{
    rpipe_config_t cfg;
    int rc;

    if (PyTuple_GET_SIZE(args) != 0) {
        PyErr_SetString(PyExc_TypeError, "the settings of a pipe are keywords");
        return -1;
    }
    if (pipe->ch != NULL) {
        PyErr_SetString(PyExc_ValueError, "the pipe is open");
        return -1;
    }
    if (!config_parse(keywords, &cfg, &pipe->total_ms))
        return -1;
    rc = rpipe_open(&pipe->ch, &cfg);
    if (rc != 0) {
        call_raise(rc);
        return -1;
    }
    pipe->role = cfg.role;
    pipe->read_only = cfg.op == RPIPE_GET;
    pipe->threads = (cfg.flags & RPIPE_THREADS) != 0;
    pipe->slice_ms = SLICE_MS;
    return 0;
}

/* Closes with the deadline of the program. The end is closed unless the result is -ETIMEDOUT. */
static int pipe_close_now(Pipe *pipe)
{
    rch_t ch = pipe->ch;
    int rc;

    if (pipe->slice_ms != pipe->total_ms)
        (void)rpipe_set_timeout(ch, pipe->total_ms == 0 ? R_AT_ONCE : pipe->total_ms);
    pipe->slice_ms = 0; /* the next wait sets its own */
    pipe_enter(pipe);
    pipe->ch = NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = rpipe_close(ch);
    Py_END_ALLOW_THREADS;
    if (rc == -ETIMEDOUT)
        pipe->ch = ch;
    else
        message_forget_all(pipe);
    pipe_leave(pipe);
    return rc;
}

static PyObject *pipe_close(Pipe *pipe, PyObject *unused)
{
    int rc;

    (void)unused;
    if (pipe->ch == NULL)
        Py_RETURN_NONE;
    if (pipe->owner != NULL)
        return PyErr_Format(PyExc_ValueError, "this pipe is a member of a group; close the group");
    if (!pipe_usable(pipe) || !message_detach_all(pipe))
        return NULL;
    rc = pipe_close_now(pipe);
    if (rc != 0)
        return call_raise(rc);
    Py_RETURN_NONE;
}

static void pipe_dealloc(Pipe *pipe)
{
    PyObject_GC_UnTrack(pipe);
    if (pipe->weak != NULL)
        PyObject_ClearWeakRefs((PyObject *)pipe);
    if (pipe->ch != NULL && pipe->owner == NULL)
        (void)rpipe_close(pipe->ch); /* no message refers to it any more */
    Py_CLEAR(pipe->owner);
    Py_TYPE(pipe)->tp_free((PyObject *)pipe);
}

static int pipe_traverse(Pipe *pipe, visitproc visit, void *arg)
{
    Py_VISIT(pipe->owner);
    return 0;
}

/* ---- arguments ---- */

/* The one keyword `timeout` of a call with `most` positional arguments. */
static bool pipe_arguments(Pipe *pipe, const char *name, Py_ssize_t nargs, Py_ssize_t most,
                           PyObject *const *args, PyObject *names, int *ms)
{
    *ms = pipe->total_ms;
    if (nargs != most || (names != NULL && PyTuple_GET_SIZE(names) > 1)) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, and timeout", name, most);
        return false;
    }
    if (names == NULL || PyTuple_GET_SIZE(names) == 0)
        return true;
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "timeout") != 0) {
        PyErr_Format(PyExc_TypeError, "%s() has no argument %U", name, PyTuple_GET_ITEM(names, 0));
        return false;
    }
    return pipe_deadline(pipe, args[nargs], ms);
}

/* ---- send, recv: by copy ---- */

struct copy {
    union {
        const void *from;
        void *to;
    } at;
    size_t bytes;
};

static int pipe_send_attempt(rch_t ch, void *argument)
{
    const struct copy *copy = argument;

    return rpipe_send(ch, copy->at.from, copy->bytes, 0);
}

/* 0, R_PENDING if it may not wait, or RAISED. */
static int pipe_send_bytes(Pipe *pipe, const void *from, Py_ssize_t bytes, int ms, bool may_wait)
{
    struct copy copy = {{from}, (size_t)bytes};
    int rc;

    if (!pipe_usable(pipe))
        return RAISED;
    rc = rpipe_send(pipe->ch, from, (size_t)bytes, R_NOWAIT);
    if (rc == R_PENDING && may_wait)
        return pipe_wait_raise(pipe, pipe_send_attempt, &copy, ms);
    if (rc != 0 && rc != R_PENDING) {
        call_raise(rc);
        return RAISED;
    }
    return rc;
}

static int pipe_send_object(Pipe *pipe, PyObject *object, int ms, bool may_wait)
{
    Py_buffer view;
    int rc;

    if (PyBytes_CheckExact(object))
        return pipe_send_bytes(pipe, PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object), ms,
                               may_wait);
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0)
        return RAISED;
    rc = pipe_send_bytes(pipe, view.buf, view.len, ms, may_wait);
    PyBuffer_Release(&view);
    return rc;
}

static PyObject *pipe_send(Pipe *pipe, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    int ms;

    if (!pipe_arguments(pipe, "send", nargs, 1, args, names, &ms) ||
        pipe_send_object(pipe, args[0], ms, true) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *pipe_send_nowait(Pipe *pipe, PyObject *object)
{
    int rc = pipe_send_object(pipe, object, 0, false);

    return rc == RAISED ? NULL : PyBool_FromLong(rc == 0);
}

static int pipe_recv_attempt(rch_t ch, void *argument)
{
    struct copy *copy = argument;
    size_t room = copy->bytes;

    return rpipe_recv(ch, copy->at.to, room, &copy->bytes, 0);
}

/* Receives into copy->at.to; -EMSGSIZE: copy->bytes has the length. 0, R_PENDING, -EMSGSIZE, R_EOF or RAISED. */
static int pipe_recv_bytes(Pipe *pipe, struct copy *copy, int ms, bool may_wait)
{
    size_t room = copy->bytes;
    int rc;

    if (!pipe_usable(pipe))
        return RAISED;
    rc = rpipe_recv(pipe->ch, copy->at.to, room, &copy->bytes, R_NOWAIT);
    if (rc == R_PENDING && may_wait) {
        if (ms == 0)
            return call_raise_timeout(0, 0), RAISED;
        copy->bytes = room;
        rc = pipe_wait(pipe, pipe_recv_attempt, copy, ms);
    }
    if (rc != 0 && rc != R_PENDING && rc != -EMSGSIZE && rc != R_EOF && rc != RAISED)
        return call_raise(rc), RAISED;
    return rc;
}

/* A message of more than SMALL bytes, whose length has been reported; another thread may have received it. */
static PyObject *pipe_recv_large(Pipe *pipe, size_t bytes, int ms)
{
    int rc = -EMSGSIZE;

    while (rc == -EMSGSIZE) {
        PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
        struct copy copy = {.bytes = bytes};

        if (result == NULL)
            return NULL;
        copy.at.to = PyBytes_AS_STRING(result);
        rc = pipe_recv_bytes(pipe, &copy, ms, true);
        if (rc == 0 &&
            (copy.bytes == bytes || _PyBytes_Resize(&result, (Py_ssize_t)copy.bytes) == 0))
            return result;
        Py_XDECREF(result);
        bytes = copy.bytes;
    }
    return rc == 0 ? NULL : call_raise(rc);
}

static PyObject *pipe_recv_any(Pipe *pipe, int ms, bool may_wait)
{
    char small[SMALL];
    struct copy copy = {.at.to = small, .bytes = sizeof(small)};
    int rc = pipe_recv_bytes(pipe, &copy, ms, may_wait);

    if (rc == 0)
        return PyBytes_FromStringAndSize(small, (Py_ssize_t)copy.bytes);
    if (rc == R_PENDING)
        Py_RETURN_NONE;
    if (rc == -EMSGSIZE)
        return pipe_recv_large(pipe, copy.bytes, ms);
    return call_raise(rc);
}

static PyObject *pipe_recv(Pipe *pipe, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    int ms;

    if (!pipe_arguments(pipe, "recv", nargs, 0, args, names, &ms))
        return NULL;
    return pipe_recv_any(pipe, ms, true);
}

static PyObject *pipe_recv_nowait(Pipe *pipe, PyObject *unused)
{
    (void)unused;
    return pipe_recv_any(pipe, 0, false);
}

static PyObject *pipe_recv_into(Pipe *pipe, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *names)
{
    struct copy copy;
    Py_buffer view;
    int ms, rc;

    if (!pipe_arguments(pipe, "recv_into", nargs, 1, args, names, &ms) ||
        PyObject_GetBuffer(args[0], &view, PyBUF_WRITABLE) != 0)
        return NULL;
    copy.at.to = view.buf;
    copy.bytes = (size_t)view.len;
    rc = pipe_recv_bytes(pipe, &copy, ms, true);
    PyBuffer_Release(&view);
    if (rc == 0)
        return PyLong_FromSize_t(copy.bytes);
    return call_raise(rc);
}

/* ---- alloc, read: messages ---- */

struct block {
    raddr_t d;
    size_t bytes;
};

static int pipe_alloc_attempt(rch_t ch, void *argument)
{
    struct block *block = argument;

    block->d = rmalloc_alloc(ch, block->bytes);
    return block->d != ADDR_NULL ? 0 : -errno;
}

static int pipe_read_attempt(rch_t ch, void *argument)
{
    struct block *block = argument;

    return rpipe_read(ch, &block->d, &block->bytes);
}

/* A message that has no owner, because the end was closed or no object could be made, is not possible: the object comes first. */
static PyObject *pipe_message(Pipe *pipe, struct block *block, int ms, bool may_wait, bool unsent)
{
    Message *m;
    int rc;

    if (!pipe_usable(pipe) || (m = message_new(pipe)) == NULL)
        return NULL;
    rc = unsent ? rmalloc_nb(pipe->ch, block->bytes, &block->d)
                : rpipe_read_nb(pipe->ch, &block->d, &block->bytes);
    if (rc == R_PENDING && may_wait)
        rc = pipe_wait_raise(pipe, unsent ? pipe_alloc_attempt : pipe_read_attempt, block, ms);
    if (rc == 0) {
        message_own(m, block->d, block->bytes, unsent);
        return (PyObject *)m;
    }
    Py_DECREF(m);
    if (rc == R_PENDING)
        Py_RETURN_NONE;
    return call_raise(rc);
}

static PyObject *pipe_read(Pipe *pipe, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct block block = {ADDR_NULL, 0};
    int ms;

    if (!pipe_arguments(pipe, "read", nargs, 0, args, names, &ms))
        return NULL;
    return pipe_message(pipe, &block, ms, true, false);
}

static PyObject *pipe_read_nowait(Pipe *pipe, PyObject *unused)
{
    struct block block = {ADDR_NULL, 0};

    (void)unused;
    return pipe_message(pipe, &block, 0, false, false);
}

static PyObject *pipe_next(Pipe *pipe)
{
    struct block block = {ADDR_NULL, 0};
    PyObject *m = pipe_message(pipe, &block, pipe->total_ms, true, false);

    if (m == NULL && PyErr_ExceptionMatches(PyExc_EOFError))
        PyErr_Clear();
    return m;
}

static PyObject *pipe_allocate(Pipe *pipe, PyObject *args)
{
    struct block block = {ADDR_NULL, 0};
    PyObject *seconds;
    Py_ssize_t bytes;
    int wait, ms;

    if (!PyArg_ParseTuple(args, "nOp:_allocate", &bytes, &seconds, &wait) ||
        !pipe_deadline(pipe, seconds, &ms))
        return NULL;
    if (bytes < 0)
        return PyErr_Format(PyExc_ValueError, "a message of %zd bytes", bytes);
    block.bytes = (size_t)bytes;
    return pipe_message(pipe, &block, ms, wait != 0, true);
}

/* ---- the rest ---- */

static int pipe_flush_attempt(rch_t ch, void *unused)
{
    (void)unused;
    return rpipe_flush(ch);
}

static int pipe_join_attempt(rch_t ch, void *unused)
{
    (void)unused;
    return rpipe_wait(ch);
}

static PyObject *pipe_waiting(Pipe *pipe, const char *name, attempt_t attempt,
                              PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    int ms;

    if (!pipe_usable(pipe) || !pipe_arguments(pipe, name, nargs, 0, args, names, &ms) ||
        pipe_wait_raise(pipe, attempt, NULL, ms) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *pipe_flush(Pipe *pipe, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    return pipe_waiting(pipe, "flush", pipe_flush_attempt, args, nargs, names);
}

static PyObject *pipe_join(Pipe *pipe, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    return pipe_waiting(pipe, "wait", pipe_join_attempt, args, nargs, names);
}

static int pipe_done_attempt(rch_t ch, void *unused)
{
    (void)unused;
    return rpipe_done(ch, NULL, 0);
}

static PyObject *pipe_done(Pipe *pipe, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    return pipe_waiting(pipe, "done", pipe_done_attempt, args, nargs, names);
}

static PyObject *pipe_room(Pipe *pipe, PyObject *args)
{
    Py_ssize_t bytes = 0;
    int rc;

    if (!PyArg_ParseTuple(args, "|n", &bytes) || !pipe_usable(pipe))
        return NULL;
    rc = rpipe_room(pipe->ch, (size_t)bytes);
    if (rc != 0 && rc != R_PENDING)
        return call_raise(rc);
    return PyBool_FromLong(rc == 0);
}

static PyObject *pipe_fileno(Pipe *pipe, PyObject *unused)
{
    int fd;

    (void)unused;
    if (!pipe_usable(pipe))
        return NULL;
    fd = rpipe_fd(pipe->ch);
    return fd < 0 ? call_raise(fd) : PyLong_FromLong(fd);
}

static PyObject *pipe_get_closed(Pipe *pipe, void *unused)
{
    (void)unused;
    return PyBool_FromLong(pipe->ch == NULL);
}

static PyObject *pipe_get_handle(Pipe *pipe, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr((void *)pipe->ch);
}

static PyObject *pipe_get_timeout(Pipe *pipe, void *unused)
{
    (void)unused;
    if (pipe->total_ms == FOREVER_MS)
        return PyFloat_FromDouble(Py_HUGE_VAL);
    return PyFloat_FromDouble(pipe->total_ms / 1000.0);
}

static int pipe_set_timeout(Pipe *pipe, PyObject *value, void *unused)
{
    (void)unused;
    return call_timeout(value, call_default_ms(), &pipe->total_ms) ? 0 : -1;
}

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

static PyMethodDef pipe_methods[] = {
    {"send", FAST(pipe_send), "send(data, *, timeout=None): sends a copy of data as one message"},
    {"send_nowait", (PyCFunction)pipe_send_nowait, METH_O,
     "send_nowait(data): send without waiting; False: not sent"},
    {"recv", FAST(pipe_recv), "recv(*, timeout=None): the next message as bytes"},
    {"recv_nowait", (PyCFunction)pipe_recv_nowait, METH_NOARGS,
     "recv_nowait(): recv without waiting; None: no message yet"},
    {"recv_into", FAST(pipe_recv_into),
     "recv_into(buffer, *, timeout=None): copies the next message into buffer; returns its bytes"},
    {"read", FAST(pipe_read), "read(*, timeout=None): the next message, where it arrived"},
    {"read_nowait", (PyCFunction)pipe_read_nowait, METH_NOARGS,
     "read_nowait(): read without waiting; None: no message yet"},
    {"_allocate", (PyCFunction)pipe_allocate, METH_VARARGS, NULL},
    {"flush", FAST(pipe_flush), "flush(*, timeout=None): waits until the reader can see all"},
    {"done", FAST(pipe_done),
     "done(*, timeout=None): waits until no transfer of a region is in flight"},
    {"wait", FAST(pipe_join), "wait(*, timeout=None): waits until both ends are joined"},
    {"room", (PyCFunction)pipe_room, METH_VARARGS,
     "room(nbytes=0): whether a message of nbytes would be sent without waiting"},
    {"fileno", (PyCFunction)pipe_fileno, METH_NOARGS,
     "fileno(): a descriptor that is readable when read() would not wait"},
    {"close", (PyCFunction)pipe_close, METH_NOARGS,
     "close(): closes this end; what was sent is delivered"},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef pipe_attributes[] = {
    {"closed", (getter)pipe_get_closed, NULL, "whether this end is closed", NULL},
    {"handle", (getter)pipe_get_handle, NULL, "rch_t of this end, for ctypes", NULL},
    {"timeout", (getter)pipe_get_timeout, (setter)pipe_set_timeout,
     "deadline of calls, seconds; math.inf: none; None: the setting RPIPE_TIMEOUT_MS", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef pipe_members[] = {
    {"exports", T_PYSSIZET, offsetof(Pipe, exports), READONLY, "buffers of messages in use"},
    {NULL, 0, 0, 0, NULL}};

static PyObject *pipe_self(PyObject *self) { return Py_NewRef(self); }

PyTypeObject PipeType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rpipe._rpipe.Pipe",
    .tp_basicsize = sizeof(Pipe),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)pipe_init,
    .tp_dealloc = (destructor)pipe_dealloc,
    .tp_traverse = (traverseproc)pipe_traverse,
    .tp_iter = pipe_self,
    .tp_iternext = (iternextfunc)pipe_next,
    .tp_methods = pipe_methods,
    .tp_members = pipe_members,
    .tp_getset = pipe_attributes,
    .tp_weaklistoffset = offsetof(Pipe, weak),
};
