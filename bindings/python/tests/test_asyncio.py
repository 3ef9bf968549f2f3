# SPDX-License-Identifier: BSD-3-Clause
"""asyncio waits for the descriptor of a reader."""

import asyncio

import pytest

import rpipe


def test_messages_are_awaited(pipe):
    writer, reader = pipe

    async def write():
        for i in range(20):
            await asyncio.sleep(0.002 if i % 5 == 0 else 0)
            writer.send(b"%d" % i)
        writer.close()

    async def main():
        writing = asyncio.create_task(write())
        received = []
        async for message in reader:
            with message:
                received.append(int(bytes(message)))
        await writing
        with pytest.raises(EOFError):
            await reader.arecv()
        return received

    assert asyncio.run(main()) == list(range(20))


def test_a_task_waits_and_others_run(pipe):
    writer, reader = pipe

    async def main():
        waiting = asyncio.create_task(reader.arecv())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        with pytest.raises(RuntimeError):
            await reader.arecv()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waiting, 0.02)
        writer.send(b"x")
        return await asyncio.wait_for(reader.arecv(), 10)

    assert asyncio.run(main()) == b"x"


def test_closing_ends_the_wait(pipe):
    writer, reader = pipe

    async def main():
        waiting = asyncio.create_task(reader.arecv())
        await asyncio.sleep(0.01)
        reader.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())


def test_many_readers_in_one_loop(job):
    ends = []
    for i in range(8):
        settings = {"peer": job.rank, "context": 500 + i, "timeout": 10}
        ends.append((rpipe.Writer(**settings), rpipe.Reader(**settings)))

    async def main():
        tasks = [asyncio.create_task(reader.arecv()) for _, reader in ends]
        await asyncio.sleep(0)
        for i, (writer, _) in reversed(list(enumerate(ends))):
            writer.send(b"%d" % i)
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [b"%d" % i for i in range(8)]
    for writer, reader in ends:
        writer.close()
        reader.close()
