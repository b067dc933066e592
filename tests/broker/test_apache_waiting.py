"""A directory that Apache RocketMQ 5.3.3 left with open transactions and waiting timers: PyMQ goes on with it.

``python -m tests.golden.stores`` made it. The way from PyMQ to Apache is in tests/interop.
"""

from __future__ import annotations

from collections import Counter

import pytest

from pymq.model.record import StoredMessage, decode_record
from pymq.model.transactions import COMMIT, ROLLBACK, UNKNOWN
from tests.broker.apache_store import ApacheStore, let_pass
from tests.broker.transactions.driver import TransactionProducer
from tests.broker.world import World

STORE = ApacheStore("store-waiting")
PRECISION_MS = 1000  # Apache's wheel has a slot a second
TICKS_MAX = 20_000
TRANSFERS, TIMED = "transfers", "timed"


def contents(world: World, topic: str, queue_count: int = 1) -> Counter[str]:
    return Counter(
        message.content().decode() for queue_id in range(queue_count) for message in world.messages(topic, queue_id)
    )


def test_open_transactions_are_checked_and_end_as_their_producer_says() -> None:
    world = STORE.world(STORE.end_ms)
    assert contents(world, TRANSFERS, 2) == {"apache yes": 1}
    producer = TransactionProducer(world, "transfer-producer")

    def asked() -> dict[str, int]:
        """Answer the broker's questions; return how often it asked about each."""
        found: Counter[str] = Counter()
        for question in producer.asked():
            name = decode_record(question.body).content().decode()
            found[name] += 1
            producer.answer(question, answers[name])
        return found

    answers = {
        "apache checked yes": COMMIT, "apache checked no": ROLLBACK, "apache checked later": UNKNOWN,
        "apache young yes": COMMIT,
    }  # fmt: skip
    let_pass(world, 5000)
    assert asked().keys() == answers.keys()
    ended = {"apache yes": 1, "apache checked yes": 1, "apache young yes": 1}
    assert contents(world, TRANSFERS, 2) == ended
    let_pass(world, 5000)
    assert asked().keys() == {"apache checked later"}
    answers["apache checked later"] = COMMIT
    let_pass(world, 5000)
    assert asked().keys() == {"apache checked later"}
    let_pass(world, 5000)
    assert asked() == {}
    assert contents(world.reopened(**STORE.manifest["brokerConfig"]), TRANSFERS, 2) == {
        **ended,
        "apache checked later": 1,
    }


def sweep_to(world: World, now_ms: int) -> None:
    """Move the clock there at once, and let the timers catch up."""
    world.clock.advance(now_ms - world.clock.now_ms())
    timers = world.parts.messages.timers
    for _ in range(TICKS_MAX):
        is_behind = timers.behind_count > 0 or timers.behind_ms > 0
        for _ in range(8):
            timers.tick()
            world.parts.end_turn()
        if not is_behind:
            return
    raise AssertionError(f"the timers are behind by {timers.behind_ms} ms after {TICKS_MAX} ticks")


@pytest.mark.parametrize("late_ms", [0, 7_200_000])
def test_timers_are_delivered_when_they_are_due_and_recalled_ones_never(late_ms: int) -> None:
    """With 7,200,000 ms some were due while no broker ran."""
    timers: dict[str, int] = STORE.manifest["timers"]
    world = STORE.world(STORE.end_ms + late_ms)
    expected: Counter[str] = Counter(STORE.manifest["delivered"])
    for name, due_ms in sorted(timers.items(), key=lambda item: item[1]):
        if due_ms > world.clock.now_ms():
            sweep_to(world, due_ms - 1)
            assert contents(world, TIMED) == expected, "early"
        expected[name] += 1
        sweep_to(world, max(world.clock.now_ms(), due_ms + PRECISION_MS))
        assert contents(world, TIMED)[name] == 1
    sweep_to(world, world.clock.now_ms() + 60_000)
    assert contents(world, TIMED) == expected
    messages: list[StoredMessage] = world.messages(TIMED)
    for message in messages:
        due_ms = timers.get(message.content().decode(), 0)
        assert message.store_timestamp_ms >= due_ms
