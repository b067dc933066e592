"""A story of transactions that a kill or a power loss ends at any disk call, and what must hold afterwards."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

from pymq.model.transactions import COMMIT, ROLLBACK
from pymq.store.disk.memory_fs import MemoryFiles
from tests.broker.transactions.driver import HALF, TransactionProducer, world_with_topic
from tests.broker.world import World

SETTINGS: dict[str, Any] = {"flushDiskType": "SYNC_FLUSH", "flushConsumerOffsetInterval": 100}
COUNT = 8
GROUP_OFFSET = ("CID_RMQ_SYS_TRANS", HALF, 0)


class DiedError(BaseException):
    """The process died in place of a disk call."""


class Plan(NamedTuple):
    """What producers want of their transactions, by body, and which requests the broker has answered."""

    wanted: dict[bytes, int]
    begun: set[bytes]
    ended: set[bytes]


def run_story(world: World, plan: Plan) -> None:
    """Begin transactions; commit every third one, roll back every third, and leave the others open.

    The requests of every second one take the fast path.
    """
    producer = TransactionProducer(world)
    halves = {}
    for number in range(COUNT):
        body = b"%d" % number
        producer.is_fast = number % 2 == 0
        plan.wanted[body] = ROLLBACK if number % 3 == 1 else COMMIT
        halves[body] = producer.half(body, UNIQ_KEY=body.decode())
        plan.begun.add(body)
        if number == COUNT // 2:
            _pass_time(world, 30_000)
        if number % 3 != 2:
            assert producer.end(halves[body], plan.wanted[body])[0] == 0
            plan.ended.add(body)
        _pass_time(world, 200)


def crashed(call_number: int, *, power_seed: int | None = None) -> tuple[MemoryFiles, Plan, bool]:
    """Run the story until its nth changing disk call. Return the files after that, and whether the call came.

    Without ``power_seed`` the process is killed; with it the machine loses power, and keeps a random choice of what it
    had not synced.
    """
    world = world_with_topic(**SETTINGS)
    world.parts.store.sync()
    left = call_number

    def fault(call: str, path: str) -> None:
        nonlocal left
        if call in ("pwrite", "sync", "replace", "sync_dir"):
            left -= 1
            if left < 0:
                raise DiedError

    plan = Plan({}, set(), set())
    world.files.fault = fault
    try:
        run_story(world, plan)
    except DiedError:
        pass
    world.files.fault = None
    if power_seed is None:
        return world.files.after_kill(), plan, left < 0
    rng = random.Random(power_seed)
    return world.files.after_power_loss(lambda *_: rng.random() < 0.5, lambda *_: True), plan, left < 0


def check(files: MemoryFiles, plan: Plan) -> None:
    """Start a broker on the files; its transactions must end as their producers wanted. Raises AssertionError."""
    world = World(files, **SETTINGS)
    found = _visible(world)
    for body, count in found.items():
        assert plan.wanted[body] == COMMIT, f"{body!r} was rolled back and is shown"
        assert count == 1, f"{body!r} came {count} times"
        assert int(body) % 3 != 2, f"{body!r} is open and is shown"
    missing = {body for body in plan.ended if plan.wanted[body] == COMMIT} - found.keys()
    assert not missing, f"committed and lost: {missing}"
    world = _restarted(world)
    _answer_checks(world, plan)
    found = _visible(world)
    assert {body for body in plan.begun if plan.wanted[body] == COMMIT} <= found.keys(), "an open transaction is lost"
    assert all(plan.wanted[body] == COMMIT for body in found), "a rolled back message is shown"
    assert all(found[body] == 1 for body in plan.ended & found.keys()), f"twice: {found}"
    assert len(world.parts.messages.transactions.halves) == 0
    world.parts.store.sync()
    world.parts.messages.transactions.tick()
    end = world.parts.store.max_offset(HALF, 0)
    assert world.parts.metadata.cursors.query(*GROUP_OFFSET) in (end, -1 if end == 0 else end)
    again = _restarted(world)
    assert len(again.parts.messages.transactions.halves) == 0 and _visible(again) == found


def _restarted(world: World) -> World:
    """Return the broker after a kill at rest."""
    return World(world.files.after_kill(), world.clock, **SETTINGS)


def _answer_checks(world: World, plan: Plan) -> None:
    producer = TransactionProducer(world)
    _pass_time(world, 40_000)
    for question in producer.asked():
        body = question.ext["msgId"].encode()
        assert producer.answer(question, plan.wanted[body])[0] == 0
    _pass_time(world, 40_000)
    assert producer.asked() == [], "an ended transaction is asked about"


def _pass_time(world: World, ms: int) -> None:
    world.clock.advance(ms)
    messages = world.parts.messages
    for tick in (messages.transaction_checks.tick, messages.transactions.tick, world.parts.metadata.cursors.tick):
        tick()
    world.parts.end_turn()


def _visible(world: World) -> Counter[bytes]:
    return Counter(message.body for queue_id in range(4) for message in world.messages("T", queue_id))


def search(step: int, *, power: bool) -> int:
    """Crash at every ``step``-th call and check; return the number of crashes. Raises AssertionError."""
    for count, call_number in enumerate(range(0, 10_000, step), start=1):
        files, plan, came = crashed(call_number, power_seed=call_number if power else None)
        try:
            check(files, plan)
        except AssertionError as error:
            raise AssertionError(f"{'power loss' if power else 'kill'} at call {call_number}: {error}") from error
        if not came:
            return count
    raise AssertionError("the story does not end")
