# SPDX-License-Identifier: BSD-3-Clause
"""Pipes: Writer and Reader."""

import asyncio
import warnings

from . import _rpipe
from .arrays import bytes_of
from .job import open_ends

_NAMES = {
    "op": {"put": 0, "get": 1},
    "heuristic": {"next-fit": 1, "first-fit": 2, "best-fit": 3, "worst-fit": 4, "random-fit": 5,
                  "segregated-fit": 6},
    "mode": {"blocks": 1, "tags": 2, "channel": 3},
}


def settings_of(config):
    """Keywords of the package as those of the extension: members of rpipe_config_t."""
    flags = config.pop("flags", 0)
    if config.pop("threads", False):
        flags |= _rpipe.RPIPE_THREADS
    if config.pop("huge_pages", False):
        flags |= _rpipe.RPIPE_HUGE_PAGES
    if flags:
        config["flags"] = flags
    if isinstance(config.get("context"), str):
        config["context"] = _rpipe.context(config["context"])
    for name, values in _NAMES.items():
        value = config.get(name)
        if isinstance(value, str):
            if value not in values:
                raise ValueError(f"{name} is {value!r}; it is one of {', '.join(values)}")
            config[name] = values[value]
    return config


class Pipe(_rpipe.Pipe):
    """One end of a pipe. Settings are those of rpipe_config(3), by the same names."""

    def __init__(self, *, role, peer, **config):
        if isinstance(role, str):
            role = {"writer": 1, "reader": 2}[role]
        super().__init__(role=role, peer=peer, **settings_of(config))
        open_ends.add(self)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            self.close()
        except (OSError, BufferError):
            if kind is None:
                raise

    def __del__(self):
        if not self.closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)

    def __repr__(self):
        return f"<rpipe.{type(self).__name__}{', closed' if self.closed else ''}>"


class Writer(Pipe):
    """The writing end."""

    def __init__(self, peer, **config):
        super().__init__(role=1, peer=peer, **config)

    def alloc(self, shape, dtype=None, *, tag=0, timeout=None):
        """Allocates a message in the memory of the pipe.

        `with writer.alloc(shape, dtype) as array:` yields a NumPy array, or a memoryview of
        `shape` bytes where dtype is None, and sends the message at the end of the block. After an
        exception it is freed.
        """
        message = self._allocate(bytes_of(shape, dtype), timeout, True)
        message.spec = (shape, dtype)
        if tag:
            message.tag = tag
        return message

    def alloc_nowait(self, shape, dtype=None, *, tag=0):
        """alloc without waiting; None: there is no memory now."""
        message = self._allocate(bytes_of(shape, dtype), None, False)
        if message is not None:
            message.spec = (shape, dtype)
            if tag:
                message.tag = tag
        return message


class Reader(Pipe):
    """The reading end. `for message in reader:` receives to the end."""

    _waiter = None

    def __init__(self, peer, **config):
        super().__init__(role=2, peer=peer, **config)

    async def _attempt(self, attempt):
        """Repeats an attempt, which does not wait, whenever the descriptor is readable."""
        result = attempt()
        if result is not None:
            return result
        if self._waiter is not None:
            raise RuntimeError("another task waits for this reader")
        loop = asyncio.get_running_loop()
        fd = self.fileno()
        try:
            while (result := attempt()) is None:
                self._waiter = (loop, fd, loop.create_future())
                loop.add_reader(fd, self._wake, self._waiter[2])
                await self._waiter[2]
        finally:
            self._unwatch()
        return result

    @staticmethod
    def _wake(future):
        if not future.done():
            future.set_result(None)

    def _unwatch(self):
        if self._waiter is not None:
            loop, fd, future = self._waiter
            self._waiter = None
            if not loop.is_closed():
                loop.remove_reader(fd)
            if not future.done():
                future.cancel()

    async def aread(self):
        """read for asyncio: the next message. EOFError: the end."""
        return await self._attempt(self.read_nowait)

    async def arecv(self):
        """recv for asyncio: the next message as bytes. EOFError: the end."""
        return await self._attempt(self.recv_nowait)

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return await self.aread()
        except EOFError:
            raise StopAsyncIteration from None

    def close(self):
        """Closes this end. A task that waits for it is cancelled."""
        self._unwatch()  # the descriptor ends with the pipe
        super().close()
