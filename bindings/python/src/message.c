/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c: one message that this process owns: a writable buffer, in the memory of the pipe.
 *
 * array() returns NumPy arrays (rpipe/arrays.py), which are taken from their owner when the message is sent or freed; any other
 * buffer that exists then is a BufferError. A message that is not referenced is freed.
 */
#include "binding.h"

#include <stdlib.h>
#include <structmember.h>

/* ---- the list of the pipe ---- */

static void message_link(Message *m)
{
    m->next = m->pipe->messages;
    m->link = &m->pipe->messages;
    if (m->next != NULL)
        m->next->link = &m->next;
    m->pipe->messages = m;
}

static void message_unlink(Message *m)
{
    *m->link = m->next;
    if (m->next != NULL)
        m->next->link = m->link;
}

Message *message_new(Pipe *pipe)
{
    Message *m = PyObject_GC_New(Message, &MessageType);

    if (m == NULL)
        return NULL;
    Py_INCREF(pipe);
    m->pipe = pipe;
    m->d = ADDR_NULL;
    m->mem = NULL;
    m->size = m->exports = 0;
    m->unsent = false;
    m->member = -1;
    m->spec = m->arrays = m->weak = NULL;
    PyObject_GC_Track(m);
    return m;
}

void message_own(Message *m, raddr_t d, size_t size, bool unsent)
{
    m->d = d;
    m->mem = rmalloc_ptr(m->pipe->ch, d);
    m->size = (Py_ssize_t)size;
    m->unsent = unsent;
    message_link(m);
}

static void message_forget(Message *m)
{
    message_unlink(m);
    m->d = ADDR_NULL;
    m->mem = NULL;
}

void message_forget_all(Pipe *pipe)
{
    while (pipe->messages != NULL)
        message_forget(pipe->messages);
}

/* ---- arrays ---- */

static bool message_exported(const Message *m)
{
    if (m->exports == 0)
        return false;
    PyErr_Format(PyExc_BufferError,
                 "%zd buffers of this message of %zd bytes are still in use; delete what refers to "
                 "its memory (views, numpy.frombuffer, memoryview) first",
                 m->exports, m->size);
    return true;
}

bool message_detach(Message *m)
{
    PyObject *arrays, *result, *list = m->arrays;

    if (list != NULL) {
        arrays = PyImport_ImportModule("rpipe.arrays");
        result = arrays != NULL ? PyObject_CallMethod(arrays, "detach", "O", list) : NULL;
        Py_XDECREF(arrays);
        if (result == NULL)
            return false;
        Py_DECREF(result);
    }
    return !message_exported(m);
}

bool message_detach_all(Pipe *pipe)
{
    Message *m = pipe->messages;

    while (m != NULL) {
        Message *next;
        bool free_now;

        Py_INCREF(m);
        free_now = message_detach(m);
        next = m->d != ADDR_NULL ? m->next : pipe->messages;
        Py_DECREF(m);
        if (!free_now)
            return false;
        m = next;
    }
    return true;
}

/* ---- life ---- */

static bool message_owned(const Message *m)
{
    if (m->d != ADDR_NULL)
        return true;
    PyErr_SetString(PyExc_ValueError, "this message was sent or released, or its pipe is closed");
    return false;
}

static bool message_usable(const Message *m) { return message_owned(m) && pipe_usable(m->pipe); }

/* In a destructor: another thread may be in a call of the end. */
static void message_drop(Message *m)
{
    Pipe *pipe = m->pipe;
    raddr_t d = m->d;
    later_t *later;

    message_forget(m);
    if (pipe->ch == NULL)
        return;
    if (pipe->inside == 0 || pipe->threads) {
        (void)rmalloc_free(pipe->ch, d);
        return;
    }
    later = malloc(sizeof(*later));
    if (later == NULL)
        return; /* the end has it until it is closed */
    later->d = d;
    later->next = pipe->later;
    pipe->later = later;
}

static int message_clear(Message *m)
{
    Py_CLEAR(m->spec);
    Py_CLEAR(m->arrays);
    return 0;
}

static void message_dealloc(Message *m)
{
    PyObject_GC_UnTrack(m);
    if (m->weak != NULL)
        PyObject_ClearWeakRefs((PyObject *)m);
    if (m->d != ADDR_NULL)
        message_drop(m);
    message_clear(m);
    Py_DECREF(m->pipe);
    PyObject_GC_Del(m);
}

/* The pipe is needed to the end, so a cycle through it ends at another object. */
static int message_traverse(Message *m, visitproc visit, void *arg)
{
    Py_VISIT(m->pipe);
    Py_VISIT(m->spec);
    Py_VISIT(m->arrays);
    return 0;
}

static PyObject *message_release(Message *m, PyObject *unused)
{
    int rc;

    (void)unused;
    if (m->d == ADDR_NULL)
        Py_RETURN_NONE;
    if (!pipe_usable(m->pipe) || !message_detach(m))
        return NULL;
    rc = rmalloc_free(m->pipe->ch, m->d);
    message_forget(m);
    if (rc != 0)
        return call_raise(rc);
    Py_RETURN_NONE;
}

/* ---- sending ---- */

struct sending {
    raddr_t d;
    size_t bytes;
};

static int message_attempt(rch_t ch, void *argument)
{
    const struct sending *sending = argument;

    return rpipe_write_n(ch, sending->d, sending->bytes);
}

/* During the wait the object does not own the message, so no other thread can send or release it. */
static int message_send_wait(Message *m, struct sending *sending, int ms)
{
    rch_t ch = m->pipe->ch;
    int rc;

    message_forget(m);
    rc = pipe_wait_raise(m->pipe, message_attempt, sending, ms);
    if (rc != 0 && m->pipe->ch == ch)
        message_own(m, sending->d, (size_t)m->size, true);
    return rc;
}

static PyObject *message_send_bytes(Message *m, Py_ssize_t bytes, PyObject *seconds)
{
    struct sending sending = {m->d, (size_t)bytes};
    int rc = R_PENDING, ms;

    if (!message_usable(m) || !pipe_deadline(m->pipe, seconds, &ms) || !message_detach(m))
        return NULL;
    if (bytes == m->size)
        rc = rpipe_write_nb(m->pipe->ch, m->d);
    if (rc == 0)
        message_forget(m);
    else if (rc == R_PENDING)
        rc = message_send_wait(m, &sending, ms);
    else
        call_raise(rc);
    if (rc != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *message_send(Message *m, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"nbytes", "timeout", NULL};
    PyObject *seconds = NULL, *count = Py_None;
    Py_ssize_t bytes = m->size;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$O:send", names, &count, &seconds))
        return NULL;
    if (count != Py_None) {
        bytes = PyNumber_AsSsize_t(count, PyExc_OverflowError);
        if (bytes == -1 && PyErr_Occurred() != NULL)
            return NULL;
        if (bytes < 0 || bytes > m->size)
            return PyErr_Format(PyExc_ValueError, "nbytes is %zd; the message has %zd", bytes,
                                m->size);
    }
    return message_send_bytes(m, bytes, seconds);
}

/* ---- the block of a with ---- */

static PyObject *message_array(Message *m, PyObject *args, PyObject *keywords)
{
    PyObject *arrays, *make, *all, *result = NULL;
    Py_ssize_t i;

    if (!message_owned(m))
        return NULL;
    if (m->arrays == NULL && (m->arrays = PyList_New(0)) == NULL)
        return NULL;
    arrays = PyImport_ImportModule("rpipe.arrays");
    make = arrays != NULL ? PyObject_GetAttrString(arrays, "make") : NULL;
    all = make != NULL ? PyTuple_New(3 + PyTuple_GET_SIZE(args)) : NULL;
    if (all != NULL) {
        PyTuple_SET_ITEM(all, 0, Py_NewRef(m));
        PyTuple_SET_ITEM(all, 1, Py_NewRef(m->arrays));
        PyTuple_SET_ITEM(all, 2, Py_NewRef(m->spec != NULL ? m->spec : Py_None));
        for (i = 0; i < PyTuple_GET_SIZE(args); i++)
            PyTuple_SET_ITEM(all, 3 + i, Py_NewRef(PyTuple_GET_ITEM(args, i)));
        result = PyObject_Call(make, all, keywords);
    }
    Py_XDECREF(all);
    Py_XDECREF(make);
    Py_XDECREF(arrays);
    return result;
}

static PyObject *message_begin(Message *m, PyObject *unused)
{
    PyObject *none, *result;

    (void)unused;
    if (!message_owned(m))
        return NULL;
    if (!m->unsent)
        return Py_NewRef(m);
    none = PyTuple_New(0);
    if (none == NULL)
        return NULL;
    result = message_array(m, none, NULL);
    Py_DECREF(none);
    return result;
}

static PyObject *message_end(Message *m, PyObject *const *args, Py_ssize_t nargs)
{
    bool failed = nargs > 0 && args[0] != Py_None;
    PyObject *result;

    if (m->d == ADDR_NULL)
        Py_RETURN_NONE;
    if (m->unsent && !failed)
        return message_send_bytes(m, m->size, NULL);
    result = message_release(m, NULL);
    if (result == NULL && failed) {
        PyErr_Clear(); /* the exception of the block matters; the message is freed with its last buffer */
        Py_RETURN_NONE;
    }
    return result;
}

/* ---- buffer, attributes ---- */

static int message_getbuffer(Message *m, Py_buffer *view, int flags)
{
    view->obj = NULL;
    if (!message_owned(m))
        return -1;
    if (PyBuffer_FillInfo(view, (PyObject *)m, m->mem, m->size, m->pipe->read_only && !m->unsent,
                          flags) != 0)
        return -1;
    m->exports++;
    m->pipe->exports++;
    return 0;
}

static void message_releasebuffer(Message *m, Py_buffer *view)
{
    (void)view;
    m->exports--;
    m->pipe->exports--;
}

static Py_ssize_t message_length(PyObject *self) { return ((Message *)self)->size; }

static PyObject *message_get_tag(Message *m, void *unused)
{
    uint64_t tag;

    (void)unused;
    if (!message_usable(m))
        return NULL;
    errno = 0;
    tag = rpipe_tag(m->pipe->ch, m->d);
    if (tag == 0 && errno != 0)
        return call_raise(-errno);
    return PyLong_FromUnsignedLongLong(tag);
}

static int message_set_tag(Message *m, PyObject *value, void *unused)
{
    unsigned long long tag;
    int rc;

    (void)unused;
    if (value == NULL) {
        PyErr_SetString(PyExc_AttributeError, "the tag of a message cannot be deleted");
        return -1;
    }
    tag = PyLong_AsUnsignedLongLong(value);
    if ((tag == (unsigned long long)-1 && PyErr_Occurred() != NULL) || !message_usable(m))
        return -1;
    rc = rpipe_set_tag(m->pipe->ch, m->d, tag);
    if (rc == 0)
        return 0;
    call_raise(rc);
    return -1;
}

static PyObject *message_get_owned(Message *m, void *unused)
{
    (void)unused;
    return PyBool_FromLong(m->d != ADDR_NULL);
}

static PyObject *message_repr(Message *m)
{
    return PyUnicode_FromFormat("<rpipe.Message of %zd bytes, %s>", m->size,
                                m->d == ADDR_NULL ? "gone"
                                : m->unsent       ? "not sent"
                                                  : "received");
}

static PyMethodDef message_methods[] = {
    {"send", (PyCFunction)(void (*)(void))message_send, METH_VARARGS | METH_KEYWORDS,
     "send(nbytes=None, *, timeout=None): sends the message, or its first nbytes bytes"},
    {"release", (PyCFunction)message_release, METH_NOARGS,
     "release(): frees the message; BufferError if its memory is in use"},
    {"array", (PyCFunction)(void (*)(void))message_array, METH_VARARGS | METH_KEYWORDS,
     "array(dtype=None, shape=None): a NumPy array in the memory of the message, until it is "
     "sent or released"},
    {"__enter__", (PyCFunction)message_begin, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))message_end, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef message_attributes[] = {
    {"tag", (getter)message_get_tag, (setter)message_set_tag, "header of the message, a number",
     NULL},
    {"owned", (getter)message_get_owned, NULL, "whether this process has the message", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef message_members[] = {
    {"nbytes", T_PYSSIZET, offsetof(Message, size), READONLY, "bytes of the message"},
    {"exports", T_PYSSIZET, offsetof(Message, exports), READONLY, "buffers in use"},
    {"member", T_INT, offsetof(Message, member), READONLY, "member of a group; -1: of a pipe"},
    {"spec", T_OBJECT, offsetof(Message, spec), 0, "shape and dtype of alloc"},
    {NULL, 0, 0, 0, NULL}};

static PyBufferProcs message_buffer = {(getbufferproc)message_getbuffer,
                                       (releasebufferproc)message_releasebuffer};
static PySequenceMethods message_sequence = {.sq_length = message_length};

PyTypeObject MessageType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rpipe.Message",
    .tp_doc = "A message that this process owns: a buffer in the memory of its pipe.",
    .tp_basicsize = sizeof(Message),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)message_dealloc,
    .tp_traverse = (traverseproc)message_traverse,
    .tp_clear = (inquiry)message_clear,
    .tp_repr = (reprfunc)message_repr,
    .tp_as_buffer = &message_buffer,
    .tp_as_sequence = &message_sequence,
    .tp_methods = message_methods,
    .tp_members = message_members,
    .tp_getset = message_attributes,
    .tp_weaklistoffset = offsetof(Message, weak),
};
