# SPDX-License-Identifier: BSD-3-Clause
"""Cells: 64-bit words in the memory of an owner, with atomic operations of other processes."""

from . import _rpipe
from .ends import settings_of
from .job import open_ends

_ADD, _CAS, _SWAP, _AND, _OR, _XOR = range(6)


class Cells(_rpipe.Cells):
    """One end of an array of cells, rcells(3). Numbers are modulo 2**64."""

    def __init__(self, *, role, peer, **config):
        if isinstance(role, str):
            role = {"owner": 1, "user": 2}[role]
        super().__init__(role=role, peer=peer, **settings_of(config))
        open_ends.add(self)

    def add(self, cell, value, *, fetch=True):
        """Adds value; returns what was there. fetch=False does not wait: flush() does."""
        return self._atomic(_ADD, cell, value, 0, fetch)

    def swap(self, cell, value, *, fetch=True):
        """Stores value; returns what was there."""
        return self._atomic(_SWAP, cell, value, 0, fetch)

    def cas(self, cell, expected, value):
        """Stores value if the cell has the expected one; returns what was there."""
        return self._atomic(_CAS, cell, value, expected, True)

    def bit_and(self, cell, value, *, fetch=True):
        """Combines the cell with value bit by bit; returns what was there."""
        return self._atomic(_AND, cell, value, 0, fetch)

    def bit_or(self, cell, value, *, fetch=True):
        """Combines the cell with value bit by bit; returns what was there."""
        return self._atomic(_OR, cell, value, 0, fetch)

    def bit_xor(self, cell, value, *, fetch=True):
        """Combines the cell with value bit by bit; returns what was there."""
        return self._atomic(_XOR, cell, value, 0, fetch)

    def __getitem__(self, cell):
        """The value of a cell."""
        return self._atomic(_ADD, cell, 0, 0, True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            self.close()
        except OSError:
            if kind is None:
                raise
