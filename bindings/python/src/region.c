/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c: memory of the program, a NumPy array for example, that messages are sent from and received into.
 *
 * The buffer is held as long as the region is registered, so the array cannot move. A region that cannot be closed,
 * because transfers are in flight, is never released.
 */
#include "binding.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD rregion_t region; /* NULL: closed */
    Pipe *pipe;                     /* default of write() and read() */
    Py_buffer view;
} Region;

struct transfer {
    rregion_t region;
    size_t offset, bytes; /* bytes: to send, or free capacity; received */
    uint64_t tag;
};

static int region_init(Region *r, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"pipe", "buffer", NULL};
    PyObject *object;
    Pipe *pipe;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O:Region", names, &PipeType, &pipe,
                                     &object))
        return -1;
    if (r->region != NULL || r->view.obj != NULL) {
        PyErr_SetString(PyExc_ValueError, "the region is open");
        return -1;
    }
    if (!pipe_usable(pipe))
        return -1;
    if (PyObject_GetBuffer(object, &r->view, PyBUF_WRITABLE) != 0) {
        PyErr_Clear();
        if (PyObject_GetBuffer(object, &r->view, PyBUF_SIMPLE) != 0)
            return -1;
    }
    rc = rregion_open(&r->region, pipe->ch, r->view.buf, (size_t)r->view.len);
    if (rc != 0) {
        call_raise(rc);
        PyBuffer_Release(&r->view);
        return -1;
    }
    r->pipe = (Pipe *)Py_NewRef(pipe);
    return 0;
}

/* 0 or the error of rregion_close. */
static int region_close_now(Region *r)
{
    int rc = r->region != NULL ? rregion_close(r->region) : 0;

    if (rc == -EBUSY)
        return rc;
    r->region = NULL;
    PyBuffer_Release(&r->view);
    return rc;
}

static PyObject *region_close(Region *r, PyObject *unused)
{
    int rc = region_close_now(r);

    (void)unused;
    if (rc != 0)
        return call_raise(rc);
    Py_RETURN_NONE;
}

static void region_dealloc(Region *r)
{
    (void)region_close_now(
        r); /* -EBUSY: the network may access the buffer, which is held for ever */
    Py_CLEAR(r->pipe);
    Py_TYPE(r)->tp_free((PyObject *)r);
}

/* ---- transfers ---- */

static int region_write_attempt(rch_t ch, void *argument)
{
    const struct transfer *t = argument;

    return rpipe_write_from(ch, t->region, t->offset, t->bytes, t->tag, NULL, 0);
}

static int region_read_attempt(rch_t ch, void *argument)
{
    struct transfer *t = argument;
    size_t room = t->bytes;

    return rpipe_read_into(ch, t->region, t->offset, room, &t->bytes, &t->tag, 0);
}

/* The part of a region that the arguments name, checked here: a pipe of another length is an error of the program. */
static bool region_part(const Region *r, Py_ssize_t offset, PyObject *count, struct transfer *t)
{
    Py_ssize_t bytes = r->view.len - offset;

    if (r->region == NULL) {
        PyErr_SetString(PyExc_ValueError, "the region is closed");
        return false;
    }
    if (count != Py_None) {
        bytes = PyNumber_AsSsize_t(count, PyExc_OverflowError);
        if (bytes == -1 && PyErr_Occurred() != NULL)
            return false;
    }
    if (offset < 0 || bytes < 0 || offset > r->view.len || bytes > r->view.len - offset) {
        PyErr_Format(PyExc_ValueError, "%zd bytes at offset %zd of a region of %zd", bytes, offset,
                     r->view.len);
        return false;
    }
    t->region = r->region;
    t->offset = (size_t)offset;
    t->bytes = (size_t)bytes;
    return true;
}

static int region_move(Region *r, Pipe *pipe, PyObject *seconds, attempt_t attempt,
                       struct transfer *t)
{
    int ms, rc;

    if (!pipe_usable(pipe) || !pipe_deadline(pipe, seconds, &ms))
        return RAISED;
    Py_INCREF(r);
    rc = pipe_wait_raise(pipe, attempt, t, ms == 0 ? 1 : ms);
    Py_DECREF(r);
    if (rc == R_EOF)
        call_raise(rc);
    return rc;
}

static PyObject *region_write(Region *r, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"offset", "nbytes", "tag", "pipe", "timeout", NULL};
    PyObject *count = Py_None, *seconds = NULL;
    Pipe *pipe = r->pipe;
    unsigned long long tag = 0;
    struct transfer t;
    Py_ssize_t offset = 0;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|nO$KO!O:write", names, &offset, &count, &tag,
                                     &PipeType, &pipe, &seconds) ||
        !region_part(r, offset, count, &t))
        return NULL;
    t.tag = tag;
    if (region_move(r, pipe, seconds, region_write_attempt, &t) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *region_read(Region *r, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"offset", "nbytes", "pipe", "timeout", NULL};
    PyObject *count = Py_None, *seconds = NULL;
    Pipe *pipe = r->pipe;
    struct transfer t = {.tag = 0};
    Py_ssize_t offset = 0;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|nO$O!O:read", names, &offset, &count,
                                     &PipeType, &pipe, &seconds) ||
        !region_part(r, offset, count, &t))
        return NULL;
    if (r->view.readonly)
        return PyErr_Format(PyExc_BufferError, "the memory of this region is read-only");
    if (region_move(r, pipe, seconds, region_read_attempt, &t) != 0)
        return NULL;
    return Py_BuildValue("nK", (Py_ssize_t)t.bytes, (unsigned long long)t.tag);
}

static PyObject *region_begin(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *region_end(Region *r, PyObject *args)
{
    (void)args;
    return region_close(r, NULL);
}

static PyObject *region_get_closed(Region *r, void *unused)
{
    (void)unused;
    return PyBool_FromLong(r->region == NULL);
}

static PyMethodDef region_methods[] = {
    {"write", (PyCFunction)(void (*)(void))region_write, METH_VARARGS | METH_KEYWORDS,
     "write(offset=0, nbytes=None, *, tag=0, pipe=None, timeout=None): sends a part as one "
     "message; pipe.done() waits until it may be changed"},
    {"read", (PyCFunction)(void (*)(void))region_read, METH_VARARGS | METH_KEYWORDS,
     "read(offset=0, nbytes=None, *, pipe=None, timeout=None): receives the next message at "
     "offset; "
     "(nbytes, tag)"},
    {"close", (PyCFunction)region_close, METH_NOARGS, "close(): ends the registration"},
    {"__enter__", region_begin, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)region_end, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef region_attributes[] = {
    {"closed", (getter)region_get_closed, NULL, "whether this region is closed", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject RegionType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rpipe.Region",
    .tp_doc = "Region(pipe, buffer): memory of the program that messages are sent from and "
              "received into",
    .tp_basicsize = sizeof(Region),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)region_init,
    .tp_dealloc = (destructor)region_dealloc,
    .tp_methods = region_methods,
    .tp_getset = region_attributes,
};
