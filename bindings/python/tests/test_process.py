# SPDX-License-Identifier: BSD-3-Clause
"""Processes of their own: how they leave the job."""

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
