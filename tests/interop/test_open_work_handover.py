"""Open transactions and popped messages in a directory that PyMQ and Apache RocketMQ 5.3.3 serve in turn.

Each broker ends the other's transactions and delivers again what the other handed out. Without Java,
tests/broker/test_apache_waiting.py and test_apache_popped.py go on with directories that Apache left.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pymq.client import PushConsumer
from tests.client.scenarios import Inbox, until
from tests.interop.support import popped, transfers
from tests.interop.support.apache import CHECKS_SOON, SEGMENT_SIZE_BYTES, ApacheServer
from tests.interop.support.pymq_server import PymqServer

SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES), **CHECKS_SOON}
Server = ApacheServer | PymqServer


async def _consumed(server: Server, count: int) -> dict[bytes, int]:
    inbox = Inbox()
    consumer = PushConsumer("reader", namesrv=server.namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(transfers.TOPIC)
    async with consumer:
        await until(lambda: len(inbox.messages) >= count, f"{count} messages", 60)
    return dict(inbox.bodies)


class Handover:
    """What came of transactions and of pops of PyMQ at Apache; errors are kept."""

    def __init__(self) -> None:
        self.transactions: dict[bytes, int] | BaseException = {}
        self.pops: BaseException | None = None
        self._left = popped.Left()
        self._copied: set[bytes] = set()

    async def begin(self, server: Server) -> None:
        self._copied, _ = await asyncio.gather(transfers.begin(server, "pymq"), popped.begin(server, self._left))

    async def end(self, server: Server) -> None:
        async def transactions() -> dict[bytes, int]:
            await transfers.end(server, "pymq", self._copied)
            return await _consumed(server, 3)

        self.transactions, self.pops = await asyncio.gather(
            transactions(), popped.end(server, self._left), return_exceptions=True
        )


@pytest.fixture(scope="module")
def from_pymq(tmp_path_factory: pytest.TempPathFactory) -> Handover:
    """PyMQ's directory at Apache: both kinds of work at once, to start one broker only."""
    handover, directory = Handover(), tmp_path_factory.mktemp("from-pymq")
    first = PymqServer(directory / "first", SETTINGS)
    try:
        asyncio.run(handover.begin(first))
    finally:
        assert first.stop() == 0, first.log_tail()
    second = ApacheServer(directory / "second", store=first.store)
    try:
        asyncio.run(handover.end(second))
    finally:
        second.stop()
    return handover


def test_open_transactions_of_pymq_end_at_apache(from_pymq: Handover) -> None:
    if isinstance(from_pymq.transactions, BaseException):
        raise from_pymq.transactions
    assert from_pymq.transactions == {b"pymq yes": 1, b"pymq checked yes": 1, b"pymq young yes": 1}


def test_what_pymq_handed_out_comes_again_at_apache(from_pymq: Handover) -> None:
    """The reverse is in tests/broker/test_apache_popped.py, with a directory that Apache left."""
    if from_pymq.pops is not None:
        raise from_pymq.pops


def test_open_transactions_of_apache_end_at_pymq(tmp_path: Path) -> None:
    first = ApacheServer(tmp_path / "first")
    try:
        copied = asyncio.run(transfers.begin(first, "apache"))
        first.close_store()
    finally:
        first.stop()
    second = PymqServer(tmp_path / "second", SETTINGS, store=first.store)
    try:
        asyncio.run(transfers.end(second, "apache", copied))
        found = asyncio.run(_consumed(second, 3))
    finally:
        assert second.stop() == 0, second.log_tail()
    assert found == {b"apache yes": 1, b"apache checked yes": 1, b"apache young yes": 1}
