# SPDX-License-Identifier: BSD-3-Clause
"""Two processes under mpirun, each of which runs these tests in the same order."""

import asyncio
import signal

import numpy
import pytest

import rpipe


@pytest.fixture(autouse=True)
def together(job):
    assert job.size == 2
    job.barrier()


def ends(job, **settings):
    """A pipe each way."""
    writer = rpipe.Writer(1 - job.rank, timeout=20, **settings)
    return writer, rpipe.Reader(1 - job.rank, timeout=20, **settings)


def test_the_control_network(job):
    assert job.rank == rpipe.rank() and job.size == rpipe.ranks()
    assert job.allgather(b"rank%d" % job.rank) == [b"rank0", b"rank1"]
    job.send(1 - job.rank, b"%d" % job.rank)
    assert job.recv(1 - job.rank, 1) == b"%d" % (1 - job.rank)


@pytest.mark.parametrize("op", ["put", "get"])
def test_arrays_go_both_ways(job, op):
    writer, reader = ends(job, op=op, context=f"test of {op}")
    with writer, reader:
        for i in range(30):
            with writer.alloc((20, 30), "float64", tag=i) as array:
                array[:] = job.rank * 1000 + i
            with reader.read() as message:
                assert message.tag == i
                received = message.array("float64", (20, 30))
                assert (received == (1 - job.rank) * 1000 + i).all()


def test_copies_go_both_ways(job):
    writer, reader = ends(job)
    with writer, reader:
        for nbytes in list(range(64)) * 3 + [1000, 5000, 100000]:
            data = numpy.full(nbytes, job.rank, "uint8")
            writer.send(data)
            assert reader.recv() == bytes([1 - job.rank]) * nbytes


def test_the_end_of_a_pipe(job):
    writer, reader = ends(job, context=5)
    with reader:
        with writer:
            for i in range(10):
                writer.send(b"%d" % i)
        assert [bytes(message) for message in reader] == [b"%d" % i for i in range(10)]


def test_asyncio_between_ranks(job):
    async def main():
        writer, reader = ends(job, context=6)
        with writer, reader:
            for i in range(20):
                writer.send(b"%d" % i)
                assert await reader.arecv() == b"%d" % i

    asyncio.run(main())


def test_a_reader_that_leaves_is_a_broken_pipe(job):
    if job.rank == 0:
        with rpipe.Writer(1, context=7, timeout=20) as writer:
            with pytest.raises(BrokenPipeError):
                while True:
                    writer.send(bytes(10000))
    else:
        with rpipe.Reader(0, context=7, timeout=20) as reader:
            assert len(reader.recv()) == 10000


def test_a_signal_ends_a_barrier(job):
    writer, reader = ends(job, context=8)
    with writer, reader:
        if job.rank == 0:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                job.barrier()
            writer.send(b"interrupted")
        else:
            assert reader.recv() == b"interrupted"
            job.barrier()  # that of the thread which rank 0 has left behind
        assert job.allgather(b"x") == [b"x", b"x"]
