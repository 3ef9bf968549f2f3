/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * binding.h: the objects of the extension rpipe._rpipe, and how its functions call the library.
 *
 * A call first tries without waiting, with the GIL held. If it would wait, the GIL is released and the call
 * waits in slices of SLICE_MS, between which signals are handled and the deadline of the program is checked: the
 * deadline of the library is never more than a slice. rpipe(3): a call that reaches its deadline has had no effect.
 *
 * Invariants:
 *   - the descriptor of a Message is used only while its pipe is open;
 *   - a message with exported buffers is neither sent nor freed, and its pipe is not closed (BufferError);
 *   - an end without RPIPE_THREADS has at most one thread in a call; a second one gets RuntimeError. Destructors,
 *     which cannot fail, leave their descriptor in a list that the thread in the call empties afterwards;
 *   - the message of an error is rerror(NULL), taken by the thread of the call before it calls anything else.
 */
#ifndef BINDING_H
#define BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define RPIPE_NO_SHORT_NAMES
#include <rpipe.h>
#include <stdbool.h>

#define SLICE_MS 50
#define FOREVER_MS (-1)
#define DEFAULT_MS (-2) /* of the arguments of calls: the deadline of the pipe */

/* result of a wait that has raised an exception: no code of the library */
#define RAISED (-5000)

typedef struct Message Message;

typedef struct later {
    raddr_t d;
    struct later *next;
} later_t;

typedef struct Pipe {
    PyObject_HEAD rch_t ch; /* NULL: closed */
    int role;
    bool read_only;     /* the memory of received messages may be mapped for reading only */
    bool threads;       /* RPIPE_THREADS */
    int inside;         /* threads in a call that has released the GIL */
    int total_ms;       /* deadline of calls; FOREVER_MS */
    int slice_ms;       /* deadline that the library has now */
    Py_ssize_t exports; /* exported buffers of all messages */
    Message *messages;  /* messages that are owned */
    later_t *later;     /* descriptors to be freed when no thread is inside */
    PyObject *owner;    /* group whose member this is, or NULL */
    PyObject *weak;
} Pipe;

struct Message {
    PyObject_HEAD Pipe *pipe;
    raddr_t d; /* ADDR_NULL: sent, freed, or the pipe is closed */
    void *mem;
    Py_ssize_t size;
    Py_ssize_t exports;
    bool unsent;
    int member;       /* of a group; -1: of a pipe */
    PyObject *spec;   /* unsent: (shape, dtype) of alloc, or None for bytes */
    PyObject *arrays; /* weak references of what array() has returned, or NULL */
    Message *next;    /* list of the pipe */
    Message **link;
    PyObject *weak;
};

extern PyTypeObject PipeType, MessageType, RegionType, CellsType, GroupType;

/* ---- call.c ---- */

/* Raises the exception of a result, with the message of the last failure of this thread. Returns NULL. */
PyObject *call_raise(int rc);
/* The same after a deadline: the message has `total_ms` where the library has `slice_ms`. */
PyObject *call_raise_timeout(int slice_ms, int total_ms);
/* seconds (None, a number, infinity) to ms; `none_ms` for None. False: an exception. */
bool call_timeout(PyObject *seconds, int none_ms, int *ms);
/* The deadline that the environment sets. */
int call_default_ms(void);
/* A deadline on the clock, the ms until it but at most SLICE_MS, and whether it has passed. */
int64_t call_deadline(int total_ms);
int call_slice(int64_t deadline);
bool call_is_over(int64_t deadline);

/* One attempt of a call, which may wait for a slice; 0 or a negative code. */
typedef int (*attempt_t)(rch_t ch, void *argument);

/* True if this thread may call the end now; else an exception. */
bool pipe_usable(Pipe *pipe);
/* Waits until the attempt does not time out; RAISED: a signal handler has raised, or the end is closed. */
int pipe_wait(Pipe *pipe, attempt_t attempt, void *argument, int total_ms);
/* pipe_wait, and the exception of a failure; R_EOF and codes >= 0 are returned. */
int pipe_wait_raise(Pipe *pipe, attempt_t attempt, void *argument, int total_ms);
/* Marks the beginning and the end of a call that releases the GIL. */
void pipe_enter(Pipe *pipe);
void pipe_leave(Pipe *pipe);
/* The argument `timeout` of a call, in ms; false: an exception. */
bool pipe_deadline(Pipe *pipe, PyObject *seconds, int *ms);

/* ---- message.c ---- */

/* A message object without a message, to be filled or dropped. */
Message *message_new(Pipe *pipe);
/* The object becomes the owner of d. */
void message_own(Message *m, raddr_t d, size_t size, bool unsent);
/* All messages of a pipe that is closed become invalid; their memory must not be exported. */
void message_forget_all(Pipe *pipe);
/* Takes the arrays that array() has returned from their owners. False: some are still referenced, with BufferError. */
bool message_detach(Message *m);
bool message_detach_all(Pipe *pipe);

/* ---- config.c ---- */

bool config_parse(PyObject *keywords, rpipe_config_t *cfg, int *total_ms);

/* ---- functions of the module ---- */

extern PyMethodDef network_methods[];

#endif
