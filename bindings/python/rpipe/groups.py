# SPDX-License-Identifier: BSD-3-Clause
"""Groups: pipes to many readers, or from many writers, as one object."""

from . import _rpipe
from .arrays import bytes_of
from .ends import settings_of
from .job import open_ends



class Group(_rpipe.Group):
    """One end of a pipe for each of the peers: a number of ranks, or a list. rgroup(3)."""

    NEXT = -1  # alloc: members in turn
    ANY = -2  # alloc: the first member that has memory and a slot

    def __init__(self, peers, *, role, **config):
        if isinstance(role, str):
            role = {"writer": 1, "reader": 2}[role]
        super().__init__(peers, role=role, **settings_of(config))
        open_ends.add(self)

    def alloc(self, shape, dtype=None, *, to=NEXT, tag=0, timeout=None):
        """Allocates a message of a member, as Writer.alloc; message.member is its number."""
        message = self._allocate(bytes_of(shape, dtype), to, timeout)
        message.spec = (shape, dtype)
        if tag:
            message.tag = tag
        return message

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            self.close()
        except (OSError, BufferError):
            if kind is None:
                raise
