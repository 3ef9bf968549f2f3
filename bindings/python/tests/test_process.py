# SPDX-License-Identifier: BSD-3-Clause
"""Processes of their own: how they leave the job."""

import os
import secrets
import signal
import socket
import subprocess
import sys

BOTH = """
import rpipe
job = rpipe.init()
writer, reader = rpipe.Writer(job.rank), rpipe.Reader(job.rank)
writer.send(b"x" * 100)
message = reader.read()
"""


def run(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )


def test_a_process_leaves_the_job_at_its_end():
    result = run(BOTH + "import atexit; assert rpipe.initialized()")
    assert result.returncode == 0 and result.stderr == ""


def test_memory_in_use_at_the_end_is_reported():
    result = run(BOTH + "view = memoryview(message)")
    assert "BufferError: 1 buffers" in result.stderr


def test_the_job_is_left_after_an_exception():
    program = "import rpipe\ntry:\n    with rpipe.job():\n        raise KeyError\n"
    result = run(program + "except KeyError:\n    print(rpipe.initialized())")
    assert result.stdout == "False\n" and result.stderr == ""


def test_joining_is_counted_and_happens_once():
    result = run(
        "import rpipe\n"
        "with rpipe.job() as one, rpipe.job() as two:\n"
        "    assert one.rank == two.rank == 0\n"
        "assert not rpipe.initialized()\n"
        "try:\n    rpipe.init()\n"
        "except rpipe.Error as error:\n    print(error.errno)"
    )
    assert result.stdout.strip() == "114" and result.stderr == ""


def test_calls_outside_of_a_job_fail():
    result = run(
        "import rpipe\n"
        "for call in (rpipe.rank, rpipe.barrier, lambda: rpipe.Writer(0)):\n"
        "    try:\n        call()\n"
        "    except rpipe.Error as error:\n        print(error.errno)"
    )
    assert result.stdout.split() == ["107"] * 3 and result.stderr == ""


def test_the_death_of_a_peer_is_an_exception():
    """Two ranks, by the bootstrap of the environment; rank 1 is killed."""
    program = """
import os, rpipe, signal
with rpipe.job() as job:
    writer, reader = (end(1 - job.rank, timeout=20) for end in (rpipe.Writer, rpipe.Reader))
    if job.rank == 1:
        writer.send(b"last")
        reader.recv()
        os.kill(os.getpid(), signal.SIGKILL)
    assert reader.recv() == b"last"
    writer.send(b"go")
    try:
        reader.read()
    except ConnectionResetError as error:
        print(isinstance(error, rpipe.Error), error.strerror)
    try:
        for _ in range(1000):
            writer.send(bytes(10000))
    except BrokenPipeError as error:
        print(isinstance(error, rpipe.Error), error.strerror)
    writer.close()
    reader.close()
"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        root = "127.0.0.1:%d" % free.getsockname()[1]
    settings = {"RPIPE_BOOTSTRAP": "tcp", "RPIPE_SIZE": "2", "RPIPE_ROOT": root}
    environment = {**os.environ, **settings, "RPIPE_SECRET": secrets.token_hex(16)}
    command = [sys.executable, "-c", program]
    ranks = [
        subprocess.Popen(
            command,
            env={**environment, "RPIPE_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=60) for rank in ranks]
    assert ranks[1].returncode == -signal.SIGKILL
    assert ranks[0].returncode == 0, outputs[0]
    lines = outputs[0][0].splitlines()
    assert len(lines) == 2 and all(line.startswith("True ") for line in lines)
    assert all("rank 1" in line and "died" in line for line in lines)
