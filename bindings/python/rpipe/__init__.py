# SPDX-License-Identifier: BSD-3-Clause
"""rpipe: memory in another process, and pipes to hand it over.

    import rpipe

    with rpipe.job() as job:
        if job.rank == 0:
            with rpipe.Writer(peer=1) as writer:
                with writer.alloc((1000, 1000), "float64") as array:
                    array[:] = 1.0                  # in the memory of rank 1
        else:
            with rpipe.Reader(peer=0, heap_bytes=16 << 20) as reader:
                for message in reader:
                    with message:
                        print(message.array("float64").sum())

    mpirun -n 2 python3 program.py

doc/python.md of rmalloc is the manual.
"""

import math

from ._rpipe import Message, Region, context, version
from .cells import Cells
from .ends import Pipe, Reader, Writer
from .errors import BrokenPipe, ConnectionReset, Error, Timeout
from .groups import Group
from .job import Job, allgather, barrier, exit, init, initialized, job, rank, ranks

FOREVER = math.inf

__version__ = version

__all__ = [
    "BrokenPipe",
    "Cells",
    "ConnectionReset",
    "Error",
    "FOREVER",
    "Group",
    "Job",
    "Message",
    "Pipe",
    "Reader",
    "Region",
    "Timeout",
    "Writer",
    "allgather",
    "barrier",
    "context",
    "exit",
    "init",
    "initialized",
    "job",
    "rank",
    "ranks",
    "version",
]
