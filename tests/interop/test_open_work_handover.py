"""Open transactions and popped messages in a directory that PyMQ and Apache RocketMQ 5.3.3 serve in turn.

Each broker ends the other's transactions and delivers again what the other handed out.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pymq.client import Admin, Message, PushConsumer, TransactionProducer, TransactionState
from pymq.model.tables import TopicConfig
from tests.client.scenarios import Inbox, Ledger, until
from tests.interop.support import popped
from tests.interop.support.apache import CHECKS_SOON, SEGMENT_SIZE_BYTES, ApacheServer
from tests.interop.support.pymq_server import PymqServer

TOPIC, GROUP = "transfers", "transfer-producer"
SEND_TIMEOUT_S = 30.0
COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES), **CHECKS_SOON}
Server = ApacheServer | PymqServer


async def _begin(server: Server, writer: str) -> None:
    """Leave the directory with transactions that are committed, rolled back, and open in several ways."""
    async with Admin(server.namesrv) as admin:
        await admin.topics.put(server.broker, TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2))
    names = [f"{writer} {what}".encode() for what in ("yes", "no", "checked yes", "checked no", "checked later")]
    first = dict(zip(names, (COMMIT, ROLLBACK, UNKNOWN, UNKNOWN, UNKNOWN), strict=True))
    ledger = Ledger(first, dict.fromkeys(names, UNKNOWN))
    async with TransactionProducer(GROUP, namesrv=server.namesrv, listener=ledger) as producer:
        for name in names:
            await producer.send_in_transaction(Message(TOPIC, name, "A"), timeout_s=SEND_TIMEOUT_S)
        await until(lambda: len(ledger.checked) >= 4, "checks of the open transactions")
    # The next server is the first to ask about this one.
    last = f"{writer} young yes".encode()
    ledger = Ledger({last: UNKNOWN}, {})
    async with TransactionProducer(GROUP, namesrv=server.namesrv, listener=ledger, check_after_s=4) as producer:
        await producer.send_in_transaction(Message(TOPIC, last, "A"), timeout_s=SEND_TIMEOUT_S)


async def _end(server: Server, writer: str) -> None:
    """Answer the checks of what the other server left; what had ended is asked about no more."""
    later = {f"{writer} checked yes": COMMIT, f"{writer} checked no": ROLLBACK, f"{writer} young yes": COMMIT}
    states = {name.encode(): state for name, state in later.items()} | {f"{writer} checked later".encode(): UNKNOWN}
    ledger = Ledger({b"hello": ROLLBACK}, states)
    async with TransactionProducer(GROUP, namesrv=server.namesrv, listener=ledger) as producer:
        await producer.send_in_transaction(Message(TOPIC, b"hello"), timeout_s=SEND_TIMEOUT_S)
        for name in states:
            await until(lambda name=name: name in [one.content() for one in ledger.checked], f"a check of {name!r}", 90)
        # Another round: only the one that stays open is asked about again.
        seen = len(ledger.checked)
        await until(lambda: len(ledger.checked) >= seen + 2, "two more checks", 90)
        assert {one.content() for one in ledger.checked[seen:]} <= {f"{writer} checked later".encode()}


async def _consumed(server: Server, count: int) -> dict[bytes, int]:
    inbox = Inbox()
    consumer = PushConsumer("reader", namesrv=server.namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(TOPIC)
    async with consumer:
        await until(lambda: len(inbox.messages) >= count, f"{count} messages", 60)
    return dict(inbox.bodies)


class Handover:
    """What came of transactions and of pops of PyMQ at Apache; errors are kept."""

    def __init__(self) -> None:
        self.transactions: dict[bytes, int] | BaseException = {}
        self.pops: BaseException | None = None
        self._left = popped.Left()

    async def begin(self, server: Server) -> None:
        await asyncio.gather(_begin(server, "pymq"), popped.begin(server, self._left))

    async def end(self, server: Server) -> None:
        async def transactions() -> dict[bytes, int]:
            await _end(server, "pymq")
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
        asyncio.run(_begin(first, "apache"))
        first.close_store()
    finally:
        first.stop()
    second = PymqServer(tmp_path / "second", SETTINGS, store=first.store)
    try:
        asyncio.run(_end(second, "apache"))
        found = asyncio.run(_consumed(second, 3))
    finally:
        assert second.stop() == 0, second.log_tail()
    assert found == {b"apache yes": 1, b"apache checked yes": 1, b"apache young yes": 1}
