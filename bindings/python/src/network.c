/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.c: the job and its control network, as functions of the module. rpipe/job.py gives them their names.
 */
#include "binding.h"

#include <stdlib.h>

static PyObject *network_init(PyObject *self, PyObject *unused)
{
    int rank = 0, ranks = 0, rc;

    (void)self;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS;
    rc = rpipe_init(&rank, &ranks);
    Py_END_ALLOW_THREADS;
    return rc != 0 ? call_raise(rc) : Py_BuildValue("ii", rank, ranks);
}

static PyObject *network_exit(PyObject *self, PyObject *unused)
{
    int rc;

    (void)self;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS;
    rc = rpipe_exit();
    Py_END_ALLOW_THREADS;
    if (rc != 0)
        return call_raise(rc);
    Py_RETURN_NONE;
}

static PyObject *network_initialized(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyBool_FromLong(rpipe_initialized());
}

static PyObject *network_rank(PyObject *self, PyObject *unused)
{
    int rank = rpipe_network_rank();

    (void)self;
    (void)unused;
    return rank < 0 ? call_raise(rank) : PyLong_FromLong(rank);
}

static PyObject *network_ranks(PyObject *self, PyObject *unused)
{
    int ranks = rpipe_network_ranks();

    (void)self;
    (void)unused;
    return ranks < 0 ? call_raise(ranks) : PyLong_FromLong(ranks);
}

static PyObject *network_context(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);

    (void)self;
    return text == NULL ? NULL : PyLong_FromUnsignedLongLong(rpipe_context(text));
}

static PyObject *network_barrier(PyObject *self, PyObject *unused)
{
    int rc;

    (void)self;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS;
    rc = rpipe_network_barrier();
    Py_END_ALLOW_THREADS;
    if (rc != 0)
        return call_raise(rc);
    Py_RETURN_NONE;
}

static PyObject *network_allgather(PyObject *self, PyObject *object)
{
    int ranks = rpipe_network_ranks(), rc;
    PyObject *all;
    Py_buffer mine;

    (void)self;
    if (ranks < 0)
        return call_raise(ranks);
    if (PyObject_GetBuffer(object, &mine, PyBUF_SIMPLE) != 0)
        return NULL;
    all = mine.len <= PY_SSIZE_T_MAX / ranks ? PyBytes_FromStringAndSize(NULL, mine.len * ranks)
                                             : PyErr_NoMemory();
    if (all != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        rc = rpipe_network_allgather(mine.buf, (size_t)mine.len, PyBytes_AS_STRING(all));
        Py_END_ALLOW_THREADS;
        if (rc != 0) {
            call_raise(rc);
            Py_CLEAR(all);
        }
    }
    PyBuffer_Release(&mine);
    return all;
}

static PyObject *network_send(PyObject *self, PyObject *args)
{
    Py_buffer data;
    int to, rc;

    (void)self;
    if (!PyArg_ParseTuple(args, "iy*:network_send", &to, &data))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = rpipe_network_send(to, data.buf, (size_t)data.len);
    Py_END_ALLOW_THREADS;
    if (rc != 0)
        call_raise(rc);
    PyBuffer_Release(&data);
    return rc != 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *network_recv(PyObject *self, PyObject *args)
{
    PyObject *data;
    Py_ssize_t bytes;
    int from, rc;

    (void)self;
    if (!PyArg_ParseTuple(args, "in:network_recv", &from, &bytes))
        return NULL;
    data = PyBytes_FromStringAndSize(NULL, bytes);
    if (data == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = rpipe_network_recv(from, PyBytes_AS_STRING(data), (size_t)bytes);
    Py_END_ALLOW_THREADS;
    if (rc != 0) {
        call_raise(rc);
        Py_CLEAR(data);
    }
    return data;
}

static PyObject *network_abort(PyObject *self, PyObject *args)
{
    int code = 1;

    (void)self;
    if (!PyArg_ParseTuple(args, "|i:network_abort", &code))
        return NULL;
    rpipe_network_abort(code);
}

PyMethodDef network_methods[] = {{"init", network_init, METH_NOARGS, NULL},
                                 {"exit", network_exit, METH_NOARGS, NULL},
                                 {"initialized", network_initialized, METH_NOARGS, NULL},
                                 {"rank", network_rank, METH_NOARGS, NULL},
                                 {"ranks", network_ranks, METH_NOARGS, NULL},
                                 {"context", network_context, METH_O, NULL},
                                 {"barrier", network_barrier, METH_NOARGS, NULL},
                                 {"allgather", network_allgather, METH_O, NULL},
                                 {"network_send", network_send, METH_VARARGS, NULL},
                                 {"network_recv", network_recv, METH_VARARGS, NULL},
                                 {"abort", network_abort, METH_VARARGS, NULL},
                                 {NULL, NULL, 0, NULL}};
