# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions: each has the errno and the message of the library.

All are OSError, and the subclass of it that Python has for the errno: TimeoutError for ETIMEDOUT,
BrokenPipeError for EPIPE, and so on. The end of a pipe is EOFError.
"""

import errno

from . import _rpipe


class Error(OSError):
    """A call of the library failed. errno and strerror are those of the library."""


class Timeout(Error, TimeoutError):
    """The deadline passed. The call had no effect."""


class BrokenPipe(Error, BrokenPipeError):
    """The other end has closed, has left the job or has died."""


class ConnectionReset(Error, ConnectionResetError):
    """The writer died before it closed."""


_CLASSES = {
    errno.ETIMEDOUT: Timeout,
    errno.EPIPE: BrokenPipe,
    errno.ECONNRESET: ConnectionReset,
}


def of_result(result, text):
    """The exception of a negative result, for the extension."""
    if result == _rpipe.EOF:
        return EOFError(text)
    return _CLASSES.get(-result, Error)(-result, text)
