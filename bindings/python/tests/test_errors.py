# SPDX-License-Identifier: BSD-3-Clause
"""Failures are exceptions with the message of the library; waits can be interrupted."""

import errno
import os
import signal
import threading
import time

import pytest

import rpipe


def test_deadline_of_a_call_and_of_the_pipe(pipe):
    writer, reader = pipe
    reader.timeout = 30
    began = time.monotonic()
    with pytest.raises(rpipe.Timeout, match="within 130 ms") as caught:
        reader.read(timeout=0.13)
    assert time.monotonic() - began >= 0.13
    assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, rpipe.Error)
    assert caught.value.errno == errno.ETIMEDOUT
    with pytest.raises(TimeoutError, match="20 ms"):
        reader.recv(timeout=0.02)
    with pytest.raises(TimeoutError):
        reader.recv(timeout=0)
    writer.send(b"after")
    assert reader.recv() == b"after"


def test_a_full_pipe_times_out_and_goes_on(settings):
    with rpipe.Reader(slots=4, heap_bytes=4096, **settings) as reader, rpipe.Writer(**settings) as writer:
        for i in range(4):
            writer.send(b"%d" % i)
        assert not writer.send_nowait(b"x")
        with pytest.raises(TimeoutError):
            writer.send(b"x", timeout=0.06)
        assert [reader.recv() for i in range(4)] == [b"0", b"1", b"2", b"3"]
        assert writer.send_nowait(b"4") and reader.recv() == b"4"
        writer.send(bytes(4096))
        assert writer.alloc_nowait(4096) is None  # the reader has it
        reader.read().release()
        held = writer.alloc(4096)
        with pytest.raises(rpipe.Error) as caught:
            writer.alloc(4096)  # prevented by a block of this end alone
        assert caught.value.errno == errno.ENOBUFS
        held.release()
        with pytest.raises(rpipe.Error) as caught:
            writer.alloc(8192)
        assert caught.value.errno == errno.EMSGSIZE


def test_a_reader_that_closed_is_a_broken_pipe(pipe):
    writer, reader = pipe
    writer.wait()
    reader.close()
    with pytest.raises(BrokenPipeError, match="has closed") as caught:
        for i in range(1000):
            writer.send(b"x" * 1000)
    assert isinstance(caught.value, rpipe.Error)


def test_wrong_ends_and_closed_ends(pipe):
    writer, reader = pipe
    with pytest.raises(rpipe.Error) as caught:
        writer.read()
    assert caught.value.errno == errno.EBADF
    with pytest.raises(rpipe.Error):
        reader.send(b"x")
    with pytest.raises(rpipe.Error) as caught:
        rpipe.Writer(peer=99)
    assert caught.value.errno == errno.ENOENT and "99" in caught.value.strerror
    message = writer.alloc(100)
    writer.close()
    writer.close()
    assert writer.closed and not message.owned
    with pytest.raises(ValueError, match="closed"):
        writer.send(b"x")
    with pytest.raises(ValueError):
        memoryview(message)


def test_a_wait_is_interrupted(pipe):
    writer, reader = pipe
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        reader.read(timeout=20)
    timer.join()
    writer.send(b"still usable")
    assert reader.recv() == b"still usable"


def test_other_threads_run_during_a_wait(pipe):
    writer, reader = pipe
    threading.Timer(0.1, writer.send, (b"from a thread",)).start()
    assert reader.recv(timeout=20) == b"from a thread"


def test_one_thread_at_a_time_in_an_end(pipe):
    writer, reader = pipe
    writer.send(b"held" * 100)
    held = reader.read()
    entered = threading.Event()
    results = []

    def wait():
        entered.set()
        results.append(reader.recv(timeout=20))

    thread = threading.Thread(target=wait)
    thread.start()
    entered.wait()
    refused = 0
    while refused < 3:
        try:
            reader.read_nowait()
        except RuntimeError:
            refused += 1
    assert bytes(held) == b"held" * 100  # memory may be used by any thread
    del held  # freed by the thread that is in the call
    with pytest.raises(RuntimeError):
        reader.close()
    writer.send(b"done")
    thread.join()
    assert results == [b"done"]


def test_several_threads_use_an_end(settings):
    with rpipe.Reader(threads=True, **settings) as reader, rpipe.Writer(**settings) as writer:
        received = []

        def drain():
            for message in reader:
                received.append(bytes(message))
                message.release()

        threads = [threading.Thread(target=drain) for i in range(3)]
        for thread in threads:
            thread.start()
        for i in range(2000):
            writer.send(b"%d" % i)
        writer.close()
        for thread in threads:
            thread.join()
        assert sorted(map(int, received)) == list(range(2000))


def test_an_end_is_closed_while_a_thread_waits(settings):
    with rpipe.Reader(threads=True, **settings) as reader:
        results = []

        def wait():
            try:
                reader.read(timeout=20)
            except (rpipe.Error, ValueError) as error:
                results.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        reader.close()
        thread.join()
        assert len(results) == 1


def test_an_unclosed_pipe_is_reported(settings):
    with pytest.warns(ResourceWarning, match="unclosed"):
        rpipe.Writer(**settings)
    rpipe.Writer(**settings).close()


def test_a_forked_child_is_refused(pipe):
    writer, reader = pipe
    child = os.fork()
    if child == 0:
        try:
            writer.send(b"x")
        except rpipe.Error as error:
            os._exit(7 if error.errno == errno.ENOTCONN else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    writer.send(b"parent")
    assert reader.recv() == b"parent"
