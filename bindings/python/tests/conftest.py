# SPDX-License-Identifier: BSD-3-Clause
"""One job for all tests of a process, and a pipe to this process for each test."""

import faulthandler

import pytest

import rpipe

faulthandler.enable()


@pytest.fixture(scope="session")
def job():
    with rpipe.job() as job:
        yield job


_contexts = iter(range(1000, 1000000))


@pytest.fixture
def settings(job):
    """Settings of both ends of a pipe to this process."""
    return {"peer": job.rank, "context": next(_contexts), "timeout": 10}


@pytest.fixture
def pipe(settings):
    """Both ends."""
    with rpipe.Reader(**settings) as reader, rpipe.Writer(**settings) as writer:
        yield writer, reader
