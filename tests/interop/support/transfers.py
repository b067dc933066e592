"""Transactions that one broker leaves committed, rolled back and open, for the broker that goes on with its files."""

from __future__ import annotations

from pymq.client import Admin, Message, TransactionProducer, TransactionState
from pymq.model.tables import TopicConfig
from tests.client.scenarios import Ledger, until
from tests.interop.support.apache import ApacheServer
from tests.interop.support.pymq_server import PymqServer

TOPIC, GROUP = "transfers", "transfer-producer"
SEND_TIMEOUT_S = 30.0
ROUNDS = 3
COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
Server = ApacheServer | PymqServer


async def begin(server: Server, writer: str) -> set[bytes]:
    """Leave the directory with transactions that are committed, rolled back, and open in several ways.

    Return those of the ended ones that the server asked about: on a slow machine their end comes after the time of the
    first check, and then a copy of them, which the check has stored, stays open.
    """
    async with Admin(server.namesrv) as admin:
        await admin.topics.put(server.broker, TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2))
    names = [f"{writer} {what}".encode() for what in ("yes", "no", "checked yes", "checked no", "checked later")]
    first = dict(zip(names, (COMMIT, ROLLBACK, UNKNOWN, UNKNOWN, UNKNOWN), strict=True))
    ledger = Ledger(first, dict.fromkeys(names, UNKNOWN))
    async with TransactionProducer(GROUP, namesrv=server.namesrv, listener=ledger) as producer:
        for name in names:
            await producer.send_in_transaction(Message(TOPIC, name, "A"), timeout_s=SEND_TIMEOUT_S)
        await until(lambda: _names(ledger) >= set(names[2:]), "checks of the open transactions", 60)
    copied = _names(ledger) & set(names[:2])
    # The next server is the first to ask about this one.
    last = f"{writer} young yes".encode()
    ledger = Ledger({last: UNKNOWN}, {})
    async with TransactionProducer(GROUP, namesrv=server.namesrv, listener=ledger, check_after_s=4) as producer:
        await producer.send_in_transaction(Message(TOPIC, last, "A"), timeout_s=SEND_TIMEOUT_S)
    return copied


def _names(ledger: Ledger) -> set[bytes]:
    """Return what the broker has asked about."""
    return {one.content() for one in ledger.checked}


async def end(server: Server, writer: str, copied: set[bytes]) -> None:
    """Answer the checks of what the other server left; what had ended is asked about no more, but for ``copied``."""
    later = {f"{writer} checked yes": COMMIT, f"{writer} checked no": ROLLBACK, f"{writer} young yes": COMMIT}
    states = {name.encode(): state for name, state in later.items()} | {f"{writer} checked later".encode(): UNKNOWN}
    # On a slow machine the broker may ask before the end of "hello" has reached it.
    ledger = Ledger({b"hello": ROLLBACK}, {**states, **dict.fromkeys({b"hello", *copied}, ROLLBACK)})
    async with TransactionProducer(GROUP, namesrv=server.namesrv, listener=ledger) as producer:
        await producer.send_in_transaction(Message(TOPIC, b"hello"), timeout_s=SEND_TIMEOUT_S)
        for name in states:
            await until(lambda name=name: name in _names(ledger), f"a check of {name!r}", 90)
        seen, open_one = len(ledger.checked), f"{writer} checked later".encode()

        def asks_about_one() -> bool:
            """Whole rounds are about the one that stays open; one that began before an answer asked about more."""
            newest = [one.content() for one in ledger.checked[seen:]][-ROUNDS:]
            return newest == [open_one] * ROUNDS

        await until(asks_about_one, f"{ROUNDS} rounds of checks about one transaction", 90)
