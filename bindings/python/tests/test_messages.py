# SPDX-License-Identifier: BSD-3-Clause
"""Messages as bytes and as arrays, in one process with a pipe to itself."""

import gc
import math
import tracemalloc

import numpy
import pytest

import rpipe


@pytest.mark.parametrize("nbytes", [0, 1, 8, 40, 41, 4096, 4097, 300000])
def test_bytes_arrive_as_sent(pipe, nbytes):
    writer, reader = pipe
    data = bytes(i * 7 % 256 for i in range(nbytes))
    writer.send(data)
    assert reader.recv() == data
    writer.send(bytearray(data))
    into = bytearray(nbytes + 3)
    assert reader.recv_into(into) == nbytes
    assert into[:nbytes] == data
    writer.send(memoryview(data))
    with reader.read() as message:
        assert len(message) == message.nbytes == nbytes
        assert bytes(message) == data


def test_messages_arrive_in_order_and_end(pipe):
    writer, reader = pipe
    for i in range(50):
        writer.send(b"%d" % i)
    writer.close()
    assert [bytes(message) for message in reader] == [b"%d" % i for i in range(50)]
    with pytest.raises(EOFError):
        reader.read()
    with pytest.raises(EOFError):
        reader.recv()


def test_array_is_sent_at_the_end_of_the_block(pipe):
    writer, reader = pipe
    with writer.alloc((30, 40), "float32", tag=7) as array:
        assert array.shape == (30, 40) and array.dtype == numpy.float32
        array[:] = numpy.arange(1200).reshape(30, 40)
        assert reader.read_nowait() is None
    assert array.shape == (0,)
    with reader.read() as message:
        assert message.tag == 7
        received = message.array("float32", (30, 40))
        assert (received == numpy.arange(1200).reshape(30, 40)).all()
    assert received.shape == (0,) and not message.owned
    with pytest.raises(ValueError):
        message.tag


def test_array_is_memory_of_the_message(pipe):
    writer, reader = pipe
    with writer.alloc(100, "int64") as array:
        array[:] = 0
        first = array.__array_interface__["data"][0]
        assert first % 16 == 0
    message = reader.read()
    one, two = message.array("int64"), message.array("int64")
    assert one.__array_interface__["data"] == two.__array_interface__["data"]
    one[5] = 3
    assert two[5] == 3
    message.release()
    message.release()
    assert one.shape == two.shape == (0,)


def test_bytes_block_without_dtype(pipe):
    writer, reader = pipe
    with writer.alloc(5) as view:
        assert isinstance(view, memoryview)
        view[:] = b"hello"
    with pytest.raises(ValueError):
        view[0]
    assert reader.recv() == b"hello"


def test_message_is_freed_after_an_exception(pipe):
    writer, reader = pipe
    with pytest.raises(KeyError):
        with writer.alloc(10, "uint8") as array:
            array[:] = 1
            raise KeyError
    assert reader.read_nowait() is None
    assert array.shape == (0,)


def test_views_hold_a_message_back(pipe):
    writer, reader = pipe
    with pytest.raises(BufferError, match="2 views"):
        with writer.alloc((4, 4), "float64") as array:
            row, other = array[0], array.T[1:]
    assert reader.read_nowait() is None
    row[:] = 5.0  # still memory of the message
    assert array[0, 0] == 5.0
    with pytest.raises(BufferError):
        writer.close()
    del row, other, array
    gc.collect()
    assert writer.exports == 0

    writer.send(b"12345678")
    with pytest.raises(BufferError, match="1 buffers"):
        with reader.read() as message:
            view = memoryview(message)
    assert message.owned and bytes(view) == b"12345678"
    view.release()
    message.release()


def test_a_buffer_keeps_its_message_alive(pipe):
    writer, reader = pipe
    writer.send(b"x" * 1000)
    array = numpy.frombuffer(reader.read(), "uint8")
    gc.collect()
    assert (array == ord("x")).all() and reader.exports == 1
    with pytest.raises(BufferError):
        reader.close()
    del array
    assert reader.exports == 0


def test_messages_that_are_dropped_are_freed(settings):
    with rpipe.Reader(heap_bytes=262144, **settings) as reader, rpipe.Writer(**settings) as writer:
        for i in range(100):
            with writer.alloc(5000, "int64") as array:
                array[:] = i
            for_this_round = reader.read()
            assert for_this_round.array("int64")[4999] == i
        for i in range(100):
            writer.alloc(5000, "int64")  # never sent


def test_only_a_part_is_sent(pipe):
    writer, reader = pipe
    message = writer.alloc(1000)
    memoryview(message)[:3] = b"abc"
    with pytest.raises(ValueError):
        message.send(1001)
    message.send(3)
    assert reader.recv() == b"abc"
    with pytest.raises(ValueError):
        message.send()


def test_get_is_read_only_at_the_reader(settings):
    with rpipe.Writer(op="get", **settings) as writer, rpipe.Reader(op="get", **settings) as reader:
        with writer.alloc(1000, "uint8") as array:
            array[:] = 9
        with reader.read() as message:
            received = message.array()
            assert not received.flags.writeable and (received == 9).all()


def test_wrong_arguments_are_refused(pipe, settings):
    writer, reader = pipe
    with pytest.raises(TypeError, match="objects"):
        writer.alloc(3, object)
    with pytest.raises(ValueError):
        writer.alloc(-1)
    with pytest.raises(ValueError):
        writer.alloc((3, -2), "int8")
    with pytest.raises(TypeError):
        writer.send("text")
    with pytest.raises((BufferError, ValueError)):
        writer.send(numpy.zeros((4, 4))[:, 1])
    with pytest.raises(TypeError, match="heap_size"):
        rpipe.Writer(peer=settings["peer"], heap_size=4096)
    with pytest.raises(ValueError, match="next-fit"):
        rpipe.Writer(peer=settings["peer"], heuristic="quick-fit")
    with pytest.raises(OverflowError):
        rpipe.Writer(peer=settings["peer"], slots=1 << 40)
    with pytest.raises(ValueError):
        writer.timeout = -1
    writer.send(b"12345")
    with reader.read() as message:
        with pytest.raises(ValueError, match="5 bytes is no array"):
            message.array("int64")
        with pytest.raises(ValueError, match="16 bytes, the message 5"):
            message.array("int64", (2,))
    reader.timeout = None
    assert 0 < reader.timeout < math.inf
    reader.timeout = rpipe.FOREVER
    assert reader.timeout == math.inf


def test_nothing_grows(pipe):
    writer, reader = pipe

    def use():
        for i in range(2000):
            writer.send(b"x" * 100)
            reader.recv()
            with writer.alloc((3, 5), "int32", tag=i) as array:
                array[:] = i
            with reader.read() as message:
                message.array("int32", (3, 5)).sum()
            writer.alloc(10).release()
            writer.alloc(10, "uint8")
            assert reader.read_nowait() is None

    use()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    use()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20000  # one object of a round would be more
