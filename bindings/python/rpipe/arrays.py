# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays in the memory of messages.

An array of a message is a view of one array of bytes, `whole`, which holds the buffer. NumPy sets
`whole` as the base of every view of the array, so the references to `whole` are counted: if the
array is the only one, it can be taken from the program. It becomes an array of shape (0,), and
nothing refers to the memory of the message. Without NumPy a message is a memoryview, which is
released.
"""

import functools
import math
import operator
import sys
import weakref


def numbers_of(shape):
    """A shape as a tuple."""
    try:
        return (operator.index(shape),)
    except TypeError:
        return tuple(operator.index(n) for n in shape)


def bytes_of(shape, dtype):
    """Bytes of an array."""
    shape = numbers_of(shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"a message of shape {shape}")
    if dtype is None:
        return math.prod(shape)
    import numpy

    dtype = numpy.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"{dtype} has references to objects, which are of one process")
    return math.prod(shape) * dtype.itemsize


def make(message, given, spec, dtype=None, shape=None):
    """What `with` and array() return. `given` has weak references to all that was."""
    if spec is not None and dtype is None and shape is None:
        shape, dtype = spec
        if dtype is None:
            view = memoryview(message)
            given.append(weakref.ref(view))
            return view
    import numpy

    dtype = numpy.dtype(numpy.uint8 if dtype is None else dtype)
    if dtype.hasobject:
        raise TypeError(f"{dtype} has references to objects, which are of one process")
    if shape is None:
        if dtype.itemsize == 0 or message.nbytes % dtype.itemsize != 0:
            raise ValueError(f"a message of {message.nbytes} bytes is no array of {dtype}")
        shape = message.nbytes // dtype.itemsize
    shape = numbers_of(shape)
    used = bytes_of(shape, dtype)
    if used > message.nbytes:
        raise ValueError(
            f"an array of {shape} {dtype} has {used} bytes, the message {message.nbytes}"
        )
    if used == 0:
        return numpy.empty(shape, dtype)
    whole = numpy.frombuffer(message, numpy.uint8)
    array = whole[:used].view(dtype).reshape(shape)
    given.append(weakref.ref(array))
    return array


@functools.cache
def alone():
    """What references() returns for an array without views; it depends on the interpreter."""
    import numpy

    array = numpy.empty(1, numpy.uint8)[:]
    return references(array)


def references(array):
    return sys.getrefcount(array.base)


def detach(given):
    """Takes all arrays from the program. BufferError: there are views of one."""
    things = [thing for thing in (ref() for ref in given) if thing is not None]
    arrays = [thing for thing in things if not isinstance(thing, memoryview)]
    for array in arrays:
        if array.base is not None and (views := references(array) - alone()) > 0:
            raise BufferError(
                f"{views} views of the array of a message are still in use (a slice, a row, the "
                f"variable of a loop over it); delete them before the message is sent or released"
            )
    for thing in things:
        if isinstance(thing, memoryview):
            thing.release()
    for array in arrays:
        array.__setstate__((1, (0,), array.dtype, False, b""))
    given.clear()
