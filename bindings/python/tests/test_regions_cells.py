# SPDX-License-Identifier: BSD-3-Clause
"""Regions over arrays of the program, and cells."""

import numpy
import pytest

import rpipe


def test_rows_of_an_array_are_sent_and_received(pipe):
    writer, reader = pipe
    source = numpy.arange(600.0).reshape(20, 30)
    target = numpy.zeros((20, 30))
    with rpipe.Region(writer, source) as sending, rpipe.Region(reader, target) as receiving:
        for row in reversed(range(20)):
            sending.write(row * 240, 240, tag=row)
        for row in reversed(range(20)):
            assert receiving.read(row * 240, 240) == (240, row)
        writer.done()
    assert (source == target).all()


def test_a_region_holds_its_array(pipe):
    writer, reader = pipe
    data = bytearray(b"0123456789")
    region = rpipe.Region(writer, data)
    with pytest.raises(BufferError):
        data.append(1)
    with pytest.raises(ValueError, match="11 bytes at offset 0"):
        region.write(0, 11)
    region.write(2, 5)
    assert reader.recv() == b"23456"
    region.close()
    region.close()
    data.append(1)
    with pytest.raises(ValueError, match="closed"):
        region.write(0, 1)


def test_a_message_that_is_too_long_stays_the_next(pipe):
    writer, reader = pipe
    writer.send(b"x" * 100)
    with rpipe.Region(reader, bytearray(100)) as region:
        with pytest.raises(rpipe.Error):
            region.read(0, 50)
        assert region.read() == (100, 0)
        with pytest.raises(TimeoutError):
            region.read(timeout=0.01)
        writer.close()
        with pytest.raises(EOFError):
            region.read()
    with pytest.raises(BufferError), rpipe.Region(reader, b"constant") as region:
        region.read()


def test_cells(job):
    with rpipe.Cells(role="owner", peer=job.rank, cells=4) as owner:
        with rpipe.Cells(role="user", peer=job.rank) as user:
            assert user.add(0, 5) == 0 and user.add(0, -1) == 5 and owner[0] == 4
            assert user.cas(1, 0, 9) == 0 and user.cas(1, 0, 8) == 9
            assert user.swap(1, 2**64 - 1) == 9 and user[1] == 2**64 - 1
            assert user.bit_and(1, 0xFF) == 2**64 - 1
            assert user.bit_or(1, 0x100) == 0xFF and user.bit_xor(1, 1) == 0x1FF
            assert user.add(2, 1, fetch=False) is None
            user.flush()
            assert owner[2] == 1 and owner[1] == 0x1FE
            with pytest.raises(rpipe.Error):
                user.add(4, 1)
    with pytest.raises(ValueError, match="closed"):
        user.add(0, 1)
