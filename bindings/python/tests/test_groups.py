# SPDX-License-Identifier: BSD-3-Clause
"""Groups: messages are dealt to readers, and combined from writers."""

import numpy
import pytest

import rpipe


@pytest.fixture
def redux(settings):
    """A reading group of three pipes from this process, and their writers."""
    settings["context"] *= 100
    rank, context = settings.pop("peer"), settings.pop("context")
    writers = [rpipe.Writer(rank, context=context + i, **settings) for i in range(3)]
    with rpipe.Group([rank] * 3, role="reader", context=context, **settings) as group:
        yield group, writers
    for writer in writers:
        writer.close()


def test_messages_of_all_members_are_read(redux):
    group, writers = redux
    assert group.count == 3
    for i, writer in enumerate(writers):
        with writer.alloc(4, "int32", tag=i) as array:
            array[:] = i
        writer.close()
    seen = set()
    for message in group:
        with message:
            assert (message.array("int32") == message.member).all() and message.tag == message.member
            seen.add(message.member)
    assert seen == {0, 1, 2}
    with pytest.raises(EOFError):
        group.read()


def test_messages_are_dealt(settings):
    settings["context"] *= 100
    rank, context = settings.pop("peer"), settings.pop("context")
    readers = [rpipe.Reader(rank, context=context + i, **settings) for i in range(3)]
    with rpipe.Group([rank] * 3, role="writer", context=context, **settings) as group:
        group.wait()
        for i in range(9):
            with group.alloc(8, "uint8") as array:
                array[:] = i
        message = group.alloc(3, to=1, tag=9)
        assert message.member == 1
        message.send()
        kept = group.alloc(100)
        view = memoryview(kept)
        with pytest.raises(BufferError):
            group.close()
        view.release()
    assert group.closed and not kept.owned
    assert [len(list(reader)) for reader in readers] == [3, 4, 3]
    for reader in readers:
        reader.close()
