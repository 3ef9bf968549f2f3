# SPDX-License-Identifier: BSD-3-Clause
"""latency.py: 8 bytes to and fro, in Python and in C, in turns, on the same pipes.

    mpirun -n 2 python3 latency.py [--rounds N] [--ms N]

Prints half of a round trip: the median of the rounds, each of at least so many ms. The part in C,
latency.c, is compiled here, with pkg-config rmalloc; without a compiler only Python is measured.
"""

import argparse
import ctypes
import os
import shlex
import shutil
import statistics
import struct
import subprocess
import tempfile
import time

import rpipe


def trips_bytes(out, inward, n, first):
    """send and recv: each message becomes an object."""
    data = bytes(8)
    send, recv = out.send, inward.recv
    if first:
        for _ in range(n):
            send(data)
            recv()
    else:
        for _ in range(n):
            recv()
            send(data)


def trips_into(out, inward, n, first):
    """send and recv_into: one buffer for all."""
    data = bytearray(8)
    send, recv_into = out.send, inward.recv_into
    if first:
        for _ in range(n):
            send(data)
            recv_into(data)
    else:
        for _ in range(n):
            recv_into(data)
            send(data)


def compiled(folder):
    """trips() of latency.c, or None."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(shlex.split(compiler)[0]) is None:
        return None
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "rmalloc"], check=True, capture_output=True, text=True
    ).stdout
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "latency.c")
    library = os.path.join(folder, "latency.so")
    command = [*shlex.split(compiler), "-O2", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(command + shlex.split(flags), check=True)
    trips = ctypes.CDLL(library).trips
    trips.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_int]

    def call(out, inward, n, first):
        result = trips(out.handle, inward.handle, n, first)
        if result != 0:
            raise SystemExit(f"latency.c: {result}")

    return call


def measure(job, out, inward, trips, ms):
    """Half of a round trip, in us, of a round of at least ms."""
    n = 1000
    while True:
        job.barrier()
        began = time.perf_counter()
        trips(out, inward, n, job.rank == 0)
        spent = time.perf_counter() - began
        # both ranks decide alike
        (spent,) = struct.unpack("d", job.allgather(struct.pack("d", spent))[0])
        if spent * 1000 >= ms:
            return spent / n / 2 * 1e6
        n = int(n * max(2, 1.2 * ms / 1000 / spent))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ms", type=float, default=100, help="least duration of a round")
    options = parser.parse_args()
    with rpipe.job() as job, tempfile.TemporaryDirectory() as folder:
        if job.size != 2:
            raise SystemExit("start two processes: mpirun -n 2 python3 latency.py")
        ways = {"send, recv": trips_bytes, "send, recv_into": trips_into}
        if (trips := compiled(folder)) is not None:
            ways = {"C": trips, **ways}
        with rpipe.Writer(1 - job.rank) as out, rpipe.Reader(1 - job.rank) as inward:
            results = {name: [] for name in ways}
            for _ in range(options.rounds):
                for name, trips in ways.items():
                    results[name].append(measure(job, out, inward, trips, options.ms))
        if job.rank == 0:
            for name, values in results.items():
                print(
                    f"{name:16} {statistics.median(values):7.3f} us one way, "
                    f"{min(values):.3f} to {max(values):.3f}"
                )


if __name__ == "__main__":
    main()
