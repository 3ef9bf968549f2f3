# SPDX-License-Identifier: BSD-3-Clause
"""Groups: pipes to many readers, or from many writers, as one object."""

from . import _rpipe
from .arrays import bytes_of
from .ends import settings_of
from .job import open_ends

_OPERATORS = ("sum", "prod", "min", "max", "band", "bor", "bxor", "land", "lor")
_TYPES = ("int32", "int64", "uint32", "uint64", "float32", "float64")
_OWN, _ORDERED = 2, 4


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

    def reduce(self, array, op="sum", *, own=False, ordered=False, timeout=None):
        """Combines one message of every member into a contiguous array, element by element.

        own: the array has the contribution of this end. ordered: in the order of members, so that
        the result is the same every time. Returns how many messages are in the result. After a
        failure the same call goes on.
        """
        if array.dtype.name not in _TYPES or not array.dtype.isnative:
            raise TypeError(f"{array.dtype} cannot be reduced; it is one of {', '.join(_TYPES)}")
        if op not in _OPERATORS:
            raise ValueError(f"op is {op!r}; it is one of {', '.join(_OPERATORS)}")
        flags = (_OWN if own else 0) | (_ORDERED if ordered else 0)
        kind = _TYPES.index(array.dtype.name)
        return self._reduce(array, array.size, kind, _OPERATORS.index(op), flags, timeout)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            self.close()
        except (OSError, BufferError):
            if kind is None:
                raise
