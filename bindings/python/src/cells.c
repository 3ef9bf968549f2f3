/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cells.c: 64-bit words in the memory of an owner. An operation that reaches its deadline may have been done, so these waits
 * are not divided into slices.
 */
#include "binding.h"

#include <string.h>

typedef struct {
    PyObject_HEAD rcells_t cells; /* NULL: closed */
    bool threads;
    int inside;
    PyObject *weak;
} Cells;

static int cells_init(Cells *c, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"role",    "peer",   "context", "cells", "flags",
                            "timeout", "shared", "backend", NULL};
    unsigned long long context = 0, cells = 0;
    PyObject *seconds = NULL, *shared = Py_None;
    rcells_config_t cfg;
    int role, peer, rc;
    unsigned int flags = 0;
    const char *backend = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "ii|KKIOOz:Cells", names, &role, &peer,
                                     &context, &cells, &flags, &seconds, &shared, &backend))
        return -1;
    memset(&cfg, 0, sizeof(cfg));
    if (!call_timeout(seconds, 0, &cfg.timeout_ms))
        return -1;
    if (cfg.timeout_ms == 0 && seconds != NULL && seconds != Py_None)
        cfg.timeout_ms = R_AT_ONCE;
    if (c->cells != NULL || (shared != Py_None && !PyObject_TypeCheck(shared, &CellsType))) {
        PyErr_SetString(PyExc_ValueError, "the cells are open, or shared is no end of cells");
        return -1;
    }
    cfg.role = (rcells_role_t)role;
    cfg.peer = peer;
    cfg.context = context;
    cfg.cells = cells;
    cfg.flags = flags;
    cfg.backend = backend;
    cfg.shared = shared != Py_None ? ((Cells *)shared)->cells : NULL;
    rc = rcells_open(&c->cells, &cfg);
    c->threads = (flags & RPIPE_THREADS) != 0;
    if (rc == 0)
        return 0;
    call_raise(rc);
    return -1;
}

static bool cells_usable(const Cells *c)
{
    if (c->cells != NULL && (c->inside == 0 || c->threads))
        return true;
    if (c->cells == NULL)
        PyErr_SetString(PyExc_ValueError, "the cells are closed");
    else
        PyErr_SetString(PyExc_RuntimeError, "another thread is in a call of these cells; open them "
                                            "with threads=True");
    return false;
}

static PyObject *cells_atomic(Cells *c, PyObject *const *args, Py_ssize_t nargs)
{
    unsigned long long number[3] = {0, 0, 0}; /* cell, operand, compare */
    uint64_t old = 0;
    bool fetch;
    Py_ssize_t i;
    long op;
    int rc;

    if (nargs != 5) {
        PyErr_SetString(PyExc_TypeError, "_atomic(op, cell, operand, compare, fetch)");
        return NULL;
    }
    op = PyLong_AsLong(args[0]);
    for (i = 0; i < 3; i++) /* modulo 2^64: -1 subtracts */
        number[i] = PyLong_AsUnsignedLongLongMask(args[1 + i]);
    fetch = PyObject_IsTrue(args[4]) == 1;
    if (PyErr_Occurred() != NULL || !cells_usable(c))
        return NULL;
    c->inside++;
    Py_BEGIN_ALLOW_THREADS;
    rc = rcells_atomic(c->cells, (rcells_op_t)op, (size_t)number[0], number[1], number[2],
                       fetch ? &old : NULL);
    Py_END_ALLOW_THREADS;
    c->inside--;
    if (rc != 0)
        return call_raise(rc);
    return fetch ? PyLong_FromUnsignedLongLong(old) : Py_NewRef(Py_None);
}

static PyObject *cells_call(Cells *c, int (*call)(rcells_t cells))
{
    int rc;

    c->inside++;
    Py_BEGIN_ALLOW_THREADS;
    rc = call(c->cells);
    Py_END_ALLOW_THREADS;
    c->inside--;
    if (rc != 0)
        return call_raise(rc);
    Py_RETURN_NONE;
}

static PyObject *cells_flush(Cells *c, PyObject *unused)
{
    (void)unused;
    return cells_usable(c) ? cells_call(c, rcells_flush) : NULL;
}

static PyObject *cells_close(Cells *c, PyObject *unused)
{
    PyObject *result;

    (void)unused;
    if (c->cells == NULL)
        Py_RETURN_NONE;
    if (!cells_usable(c))
        return NULL;
    result = cells_call(c, rcells_close);
    if (result != NULL || !PyErr_ExceptionMatches(PyExc_TimeoutError))
        c->cells = NULL;
    return result;
}

static void cells_dealloc(Cells *c)
{
    if (c->weak != NULL)
        PyObject_ClearWeakRefs((PyObject *)c);
    if (c->cells != NULL)
        (void)rcells_close(c->cells);
    Py_TYPE(c)->tp_free((PyObject *)c);
}

static PyObject *cells_get_closed(Cells *c, void *unused)
{
    (void)unused;
    return PyBool_FromLong(c->cells == NULL);
}

static PyMethodDef cells_methods[] = {
    {"_atomic", (PyCFunction)(void (*)(void))cells_atomic, METH_FASTCALL, NULL},
    {"flush", (PyCFunction)cells_flush, METH_NOARGS,
     "flush(): waits until all operations of this end are done"},
    {"close", (PyCFunction)cells_close, METH_NOARGS,
     "close(): completes all operations, and closes"},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef cells_attributes[] = {
    {"closed", (getter)cells_get_closed, NULL, "whether this end is closed", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject CellsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rpipe._rpipe.Cells",
    .tp_basicsize = sizeof(Cells),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)cells_init,
    .tp_dealloc = (destructor)cells_dealloc,
    .tp_methods = cells_methods,
    .tp_getset = cells_attributes,
    .tp_weaklistoffset = offsetof(Cells, weak),
};
