/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.c: results become exceptions; waits that can be interrupted.
 */
#include "binding.h"

#include <math.h>
#include <rinfo.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t call_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- exceptions ---- */

static PyObject *call_raise_text(int rc, PyObject *text)
{
    PyObject *errors, *exception;

    if (text == NULL)
        return NULL;
    errors = PyImport_ImportModule("rpipe.errors");
    exception = errors != NULL ? PyObject_CallMethod(errors, "of_result", "iO", rc, text) : NULL;
    if (exception != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(errors);
    Py_DECREF(text);
    return NULL;
}

static PyObject *call_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *call_raise(int rc)
{
    if (rc == RAISED)
        return NULL;
    if (rc == R_EOF)
        return call_raise_text(rc, call_text("the writer has closed, and every message was read"));
    return call_raise_text(rc, call_text(rpipe_error(NULL)));
}

PyObject *call_raise_timeout(int slice_ms, int total_ms)
{
    const char *text = rpipe_error(NULL), *found;
    char number[32], whole[600];

    if (total_ms == 0)
        return call_raise_text(-ETIMEDOUT, call_text("the call would wait, and its timeout is 0"));
    snprintf(number, sizeof(number), " %d ms", slice_ms);
    found = strstr(text, number);
    if (found == NULL)
        return call_raise(-ETIMEDOUT);
    snprintf(whole, sizeof(whole), "%.*s %d ms%s", (int)(found - text), text, total_ms,
             found + strlen(number));
    return call_raise_text(-ETIMEDOUT, call_text(whole));
}

/* ---- deadlines ---- */

bool call_timeout(PyObject *seconds, int none_ms, int *ms)
{
    double value;

    if (seconds == NULL || seconds == Py_None) {
        *ms = none_ms;
        return true;
    }
    value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred() != NULL)
        return false;
    if (isnan(value) || value < 0) {
        PyErr_Format(PyExc_ValueError,
                     "timeout is %R; it is a number of seconds from 0, or math.inf", seconds);
        return false;
    }
    *ms = value > 2e6 ? FOREVER_MS : (int)ceil(value * 1000);
    return true;
}

int call_default_ms(void)
{
    const rinfo_setting_t *setting;
    int i;

    for (i = 0; (setting = rinfo_setting(i)) != NULL; i++)
        if (strcmp(setting->name, "RPIPE_TIMEOUT_MS") == 0)
            return atoi(setting->value) < 0 ? FOREVER_MS : atoi(setting->value);
    return 60000;
}

int64_t call_deadline(int total_ms)
{
    /* the clock is rounded down */
    return total_ms == FOREVER_MS ? INT64_MAX : call_now_ms() + total_ms + 1;
}

int call_slice(int64_t deadline)
{
    int64_t left = deadline == INT64_MAX ? SLICE_MS : deadline - call_now_ms();

    return left > SLICE_MS ? SLICE_MS : left < 1 ? 1 : (int)left;
}

bool call_is_over(int64_t deadline) { return call_now_ms() >= deadline; }

bool pipe_deadline(Pipe *pipe, PyObject *seconds, int *ms)
{
    return call_timeout(seconds, pipe->total_ms, ms);
}

/* ---- waiting ---- */

bool pipe_usable(Pipe *pipe)
{
    if (pipe->ch == NULL) {
        PyErr_SetString(PyExc_ValueError, "the pipe is closed");
        return false;
    }
    if (pipe->inside != 0 && !pipe->threads) {
        PyErr_SetString(PyExc_RuntimeError, "another thread waits in a call of this end; open it "
                                            "with threads=True, or use it in one thread");
        return false;
    }
    return true;
}

void pipe_enter(Pipe *pipe)
{
    Py_INCREF(pipe);
    pipe->inside++;
}

void pipe_leave(Pipe *pipe)
{
    pipe->inside--;
    while (pipe->inside == 0 && pipe->later != NULL) {
        later_t *first = pipe->later;

        pipe->later = first->next;
        if (pipe->ch != NULL)
            (void)rmalloc_free(pipe->ch, first->d);
        free(first);
    }
    Py_DECREF(pipe);
}

/* One slice, without the GIL. */
static int pipe_wait_slice(Pipe *pipe, attempt_t attempt, void *argument, int slice_ms)
{
    rch_t ch = pipe->ch;
    int rc = 0;

    pipe_enter(pipe);
    if (slice_ms != pipe->slice_ms)
        rc = rpipe_set_timeout(ch, slice_ms);
    if (rc == 0) {
        pipe->slice_ms = slice_ms;
        Py_BEGIN_ALLOW_THREADS;
        rc = attempt(ch, argument);
        Py_END_ALLOW_THREADS;
    }
    pipe_leave(pipe);
    return rc;
}

int pipe_wait(Pipe *pipe, attempt_t attempt, void *argument, int total_ms)
{
    int64_t deadline = call_deadline(total_ms);
    rch_t ch = pipe->ch;

    for (;;) {
        int slice_ms = call_slice(deadline);
        int rc = pipe_wait_slice(pipe, attempt, argument, slice_ms);

        if (rc != -ETIMEDOUT)
            return rc;
        if (call_is_over(deadline)) {
            call_raise_timeout(slice_ms, total_ms);
            return RAISED;
        }
        if (PyErr_CheckSignals() != 0 || !pipe_usable(pipe))
            return RAISED;
        if (pipe->ch != ch) {
            PyErr_SetString(PyExc_ValueError, "the pipe was closed by another thread");
            return RAISED;
        }
    }
}

int pipe_wait_raise(Pipe *pipe, attempt_t attempt, void *argument, int total_ms)
{
    int rc;

    if (total_ms == 0) {
        call_raise_timeout(0, 0);
        return RAISED;
    }
    rc = pipe_wait(pipe, attempt, argument, total_ms);
    if (rc < 0 && rc != RAISED && rc != R_EOF) {
        call_raise(rc);
        return RAISED;
    }
    return rc;
}
