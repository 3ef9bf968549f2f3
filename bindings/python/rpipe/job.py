# SPDX-License-Identifier: BSD-3-Clause
"""The job: init, exit, and the control network."""

import atexit
import os
import threading
import weakref

from . import _rpipe

open_ends = weakref.WeakSet()  # pipes, cells, groups: closed before the process leaves the job
_joined = {"pid": 0, "times": 0}


class Job:
    """This process as a member of its job: rank, size, and collective calls."""

    def __init__(self, rank, size):
        self.rank = rank
        self.size = size

    def barrier(self):
        """Waits for all ranks; collective."""
        barrier()

    def allgather(self, data):
        """Gathers data of every rank: a list of bytes, in the order of ranks; collective."""
        return allgather(data)

    def send(self, to, data):
        """Sends data to a rank over the control network: slow, for set-up."""
        _in_thread(_rpipe.network_send, to, data)

    def recv(self, source, nbytes):
        """Receives the next message of a rank, which has exactly nbytes bytes."""
        return _in_thread(_rpipe.network_recv, source, nbytes)

    def abort(self, code=1):
        """Ends all processes of the job."""
        _rpipe.abort(code)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            exit()
        except (OSError, BufferError):
            if kind is None:
                raise

    def __repr__(self):
        return f"<rpipe.Job: rank {self.rank} of {self.size}>"


def init():
    """Joins the job; collective, and counted. exit() leaves it, at the latest at the end of the
    process."""
    rank, size = _rpipe.init()
    _joined["pid"] = os.getpid()
    _joined["times"] += 1
    return Job(rank, size)


def job():
    """`with rpipe.job() as job:` joins the job, and leaves it at the end of the block."""
    return init()


def exit():
    """Closes all ends and leaves the job; collective. BufferError: memory of a message is in use."""
    if _joined["times"] == 1:
        for end in list(open_ends):
            if not end.closed:
                end.close()
    _rpipe.exit()
    _joined["times"] -= 1


def _at_exit():
    # A process that ends without exit() has died, as far as its peers are concerned. The interpreter
    # prints an exception.
    while _joined["pid"] == os.getpid() and _joined["times"] > 0:
        exit()


atexit.register(_at_exit)


def _in_thread(call, *arguments):
    """A call of the control network, which waits without slices, in a thread: signals are handled
    meanwhile. After KeyboardInterrupt the call goes on up to its deadline."""
    if threading.current_thread() is not threading.main_thread():
        return call(*arguments)
    result = []

    def run():
        try:
            result.append((call(*arguments), None))
        except BaseException as error:
            result.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)
    value, error = result[0]
    if error is not None:
        raise error
    return value


def barrier():
    """Waits for all ranks; collective."""
    _in_thread(_rpipe.barrier)


def allgather(data):
    """Gathers data, of the same length at all ranks: a list of bytes, in the order of ranks."""
    ranks = _rpipe.ranks()
    whole = _in_thread(_rpipe.allgather, data)
    each = len(whole) // ranks
    return [whole[i * each : (i + 1) * each] for i in range(ranks)]


initialized = _rpipe.initialized
rank = _rpipe.rank
ranks = _rpipe.ranks
