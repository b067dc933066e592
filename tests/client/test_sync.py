"""The blocking wrappers; the scenarios test what they do at a broker."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pymq.client import Message
from pymq.client.sync import LoopThread, SyncAdmin, SyncProducer
from pymq.errors import UnreachableError, UsageError

NO_SERVER = "127.0.0.1:1"


async def where() -> Any:
    return threading.current_thread().name


def test_all_threads_share_one_loop_thread() -> None:
    loop = LoopThread()
    with ThreadPoolExecutor(4) as pool:
        names = set(pool.map(lambda _: loop.call(where()), range(20)))
    assert names == {"pymq-client"}


def test_a_blocking_call_on_the_loop_raises_an_error() -> None:
    loop = LoopThread()

    async def misuse() -> None:
        loop.call(where())

    with pytest.raises(RuntimeError, match=r"use pymq\.client's classes"):
        loop.call(misuse())


def test_errors_are_raised_in_the_caller() -> None:
    with SyncProducer("P", namesrv=NO_SERVER) as producer:
        with pytest.raises(UnreachableError, match="no name server answers"):
            producer.send(Message("T", b"x"))
        with pytest.raises(UnreachableError):
            producer.send_async(Message("T", b"x")).result(10)
        with pytest.raises(UsageError):
            producer.send(Message("T", b""))


def test_admin_calls_block() -> None:
    with SyncAdmin(NO_SERVER) as admin, pytest.raises(UnreachableError):
        admin.cluster.info()
